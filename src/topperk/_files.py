"""Files that are either the old one or the whole new one, never a half."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from topperk.errors import StorageError


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """Give a temporary file beside ``path`` to write to; it takes the name when all went well.

    After an error, Ctrl-C or a full disk the old file stands as it was and the temporary one is
    gone. Raises StorageError where the folder is missing or can not be written.
    """
    target = Path(path)
    temporary = _beside(target)
    try:
        try:
            yield temporary
            with temporary.open("rb") as written:
                os.fsync(written.fileno())
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(target)
        except OSError as error:
            raise _unwritable(target, error) from error
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def replacing_when_whole(path: str | Path) -> Iterator[Path]:
    """As ``replacing``, for what takes long: even a process that is killed leaves nothing behind.

    The file has no name before it is whole, which Linux can do on most file systems; elsewhere
    this is ``replacing``.
    """
    target = Path(path)
    check_writable(target)
    handle = _nameless(target.parent)
    if handle is None:
        with replacing(target) as temporary:
            yield temporary
        return
    try:
        unfinished = Path(f"/proc/self/fd/{handle}")
        yield unfinished
        os.fsync(handle)
        os.fchmod(handle, 0o666 & ~_umask())
        temporary = _beside(target)
        try:
            # A name can be given where there is none; the one just made is known to be free.
            temporary.unlink()
            os.link(unfinished, temporary, src_dir_fd=handle, follow_symlinks=True)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise _unwritable(target, error) from error
    finally:
        os.close(handle)


def _nameless(folder: Path) -> int | None:
    """An open file that is in no folder, or None where there can be none."""
    if not hasattr(os, "O_TMPFILE") or not Path("/proc/self/fd").is_dir():
        return None
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o600)
    except OSError:
        return None


def check_writable(path: str | Path) -> None:
    """The error that ``replacing`` would raise, before anything takes long."""
    _beside(Path(path)).unlink()


def _beside(target: Path) -> Path:
    """A new, empty file in the folder of ``target``."""
    if target.is_dir():
        raise StorageError(f"{target} is a folder. Name a file to write to.")
    if not target.parent.is_dir():
        raise StorageError(
            f"can not write {target}: the folder {target.parent} does not exist. "
            "Make it, or write elsewhere."
        )
    try:
        handle, name = tempfile.mkstemp(
            prefix=f".{target.name}.", suffix=target.suffix, dir=target.parent
        )
        os.close(handle)
    except OSError as error:
        raise _unwritable(target, error) from error
    return Path(name)


def _unwritable(target: Path, error: OSError) -> StorageError:
    reason = error.strerror or str(error)
    return StorageError(f"can not write {target}: {reason}. Free space or choose another folder.")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
