"""Writing that lasts: files and folders synced to the disk, and a lock that dies with its owner."""

from __future__ import annotations

import errno
import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

if sys.platform != "win32":
    import fcntl

_NO_LOCKS_HERE = {
    errno.EBADF,  # NFS: an exclusive lock wants a file opened for writing, a folder never is
    errno.EINVAL,
    errno.ENOLCK,
    errno.ENOSYS,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
}


class HashingWriter:
    """A file to write to that keeps the SHA-256 of all that went through it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.hash = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.hash.update(data)
        return self._file.write(data)


@contextmanager
def synced_file(path: str) -> Iterator[BinaryIO]:
    """A fresh file that is on the disk, not only in a cache, when the block ends."""
    with open(path, "xb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: str) -> None:
    """Put a folder's own entries on the disk; Windows has no such call, and needs none."""
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def locked(folder: str) -> Iterator[bool]:
    """Hold the folder's lock through the block; False if another process holds it.

    The lock dies with its process, so a killed save never blocks the next. Where the file system
    knows no locks the answer is True: there, one model must not be saved twice at a time.
    """
    if sys.platform == "win32":
        yield True
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        free = True
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            free = False
        except OSError as error:
            if error.errno not in _NO_LOCKS_HERE:
                raise
        yield free
    finally:
        # Nothing was written through this handle, so nothing can be lost by a failure to close it.
        with suppress(OSError):
            os.close(handle)
