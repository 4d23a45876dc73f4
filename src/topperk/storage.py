"""A fitted model on disk: a folder with a manifest and plain arrays, and nothing pickled.

::

    model.topperk/
      manifest.json              what this is, its configuration, and a checksum of everything
      data-<token>/<name>.npy    the arrays, in numpy's own format, version 1.0

A save never touches what the manifest names. The arrays go into a fresh ``data-<token>`` folder
and are synced to disk; then the manifest is replaced, which is one atomic step; then the former
data folder goes. A model that did not exist before is written under a temporary name beside its
place and renamed. So whoever is killed, or meets a full disk, leaves the old model whole; what he
leaves behind besides is removed by the next save. Two saves of one model at the same time are
kept apart by a lock on the folder, wherever the file system has such locks.

A read checks every byte against the manifest before it believes it.
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from io import BufferedReader
from tokenize import TokenError
from typing import Any, TypeAlias

import numpy as np

from topperk._durable import HashingWriter, locked, sync_folder, synced_file
from topperk._manifest import (
    DATA_FOLDER,
    MANIFEST,
    AnyArray,
    ArrayEntry,
    Json,
    Manifest,
    checked_array,
    checked_config,
    checked_file,
    damaged,
    manifest_text,
    parsed_manifest,
    read_manifest,
    unreadable,
)
from topperk._settings import check_path
from topperk.errors import StorageError

__all__ = ["check_savable", "read_folder", "write_folder"]

AnyPath: TypeAlias = "str | os.PathLike[str]"

_STAGED_MANIFEST = re.compile(r"manifest\.json\.[0-9a-f]{16}")


def write_folder(path: AnyPath, config: Mapping[str, Json], arrays: Mapping[str, AnyArray]) -> None:
    """Save ``config`` and ``arrays`` as the model ``path``, all of it or nothing.

    ``path`` may be free, an empty folder, or a topperk model, which is replaced. Anything else
    is refused and left as it is. Every failure is a ``StorageError`` and leaves the former model.

    ``config`` is plain JSON with finite numbers; names of arrays are lower-case letters, digits,
    ``_``, ``.`` and ``-``; arrays hold numbers, booleans, times or fixed-length strings.
    """
    check_path("path", path)
    head = checked_config(config)
    checked = {name: checked_array(name, array) for name, array in arrays.items()}
    shown, root = _place(path)
    try:
        if not os.path.lexists(root):
            _write_new(root, shown, head, checked)
        else:
            _write_over(root, shown, head, checked)
    except OSError as error:
        raise StorageError(_why_not_written(shown, error)) from error


def check_savable(path: AnyPath) -> None:
    """The error that ``write_folder`` would raise for the path, before anything takes long.

    Nothing is written: what only writing can tell, such as a full disk, is not noticed here.
    """
    shown, root = _place(path)
    effective = os.access in os.supports_effective_ids
    try:
        if os.path.lexists(root):
            _check_folder(root, shown)
            _check_ours(root, shown)
            place = root
        else:
            place = _parent_of(root, shown)
        if not os.access(place, os.W_OK | os.X_OK, effective_ids=effective):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    except OSError as error:
        raise StorageError(_why_not_written(shown, error)) from error


def read_folder(path: AnyPath) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """The configuration and the arrays of the model ``path``, every byte checked.

    Raises ``StorageError`` where the folder is missing, foreign, newer or damaged. When a save
    replaces the model in the midst of it, the read starts over once.
    """
    check_path("path", path)
    shown = os.fspath(path)
    raw = read_manifest(shown, shown)
    try:
        return _read_parts(shown, parsed_manifest(shown, raw))
    except StorageError:
        newer = read_manifest(shown, shown)
        if newer == raw:
            raise
    return _read_parts(shown, parsed_manifest(shown, newer))


# --- writing ----------------------------------------------------------------------------------


def _place(path: AnyPath) -> tuple[str, str]:
    """The path as messages show it, and the folder that it leads to."""
    shown = os.fspath(path)
    if "\0" in shown or not shown:
        raise StorageError(f"{shown!r} can not name a folder. Pass another path for the model.")
    return shown, os.path.realpath(shown)


def _parent_of(root: str, shown: str) -> str:
    """The folder in which a new model is to stand."""
    parent = os.path.dirname(root)
    if not os.path.isdir(parent):
        raise StorageError(
            f"can not save the model to '{shown}': there is no folder '{parent}'. "
            "Create it, or pass another path."
        )
    return parent


def _check_folder(root: str, shown: str) -> None:
    if not os.path.isdir(root):
        raise StorageError(
            f"can not save the model to '{shown}': that is a file, and it was left as it is. "
            "Pass another path."
        )


def _write_new(root: str, shown: str, head: dict[str, Json], arrays: dict[str, AnyArray]) -> None:
    """Write the whole folder under a temporary name beside its place, then rename it."""
    parent, name = _parent_of(root, shown), os.path.basename(root)
    _remove_dead_stages(root)
    token = secrets.token_hex(8)
    stage = os.path.join(parent, f".{name}.saving-{token}")
    try:
        os.mkdir(stage)
        with locked(stage):
            os.replace(_write_parts(stage, token, head, arrays), os.path.join(stage, MANIFEST))
            sync_folder(stage)
            os.rename(stage, root)
    except BaseException:
        _remove_folder(stage)
        raise
    _confirm(parent, shown)


def _write_over(root: str, shown: str, head: dict[str, Json], arrays: dict[str, AnyArray]) -> None:
    """Write fresh arrays beside the old ones, then replace the manifest that names them."""
    _check_folder(root, shown)
    with locked(root) as free:
        if not free:
            raise StorageError(
                f"can not save the model to '{shown}': another process is saving it right now. "
                "Wait for that to end, then save again."
            )
        _check_ours(root, shown)
        _remove_dead_stages(root)
        _remove_unnamed(root, shown)
        token = secrets.token_hex(8)
        try:
            staged = _write_parts(root, token, head, arrays)
            sync_folder(root)
            os.replace(staged, os.path.join(root, MANIFEST))
        except BaseException:
            _take_back(root, shown, token)
            raise
        _confirm(root, shown)
        _remove_unnamed(root, shown)


def _write_parts(
    folder: str, token: str, head: dict[str, Json], arrays: dict[str, AnyArray]
) -> str:
    """Write and sync ``data-<token>`` and a manifest under a temporary name; return that name."""
    data = os.path.join(folder, f"data-{token}")
    os.mkdir(data)
    entries = {}
    for name, array in arrays.items():
        file_name = f"{name}.npy"
        with synced_file(os.path.join(data, file_name)) as file:
            writer = HashingWriter(file)
            np.lib.format.write_array(writer, array, version=(1, 0), allow_pickle=False)
        entries[name] = ArrayEntry(file_name, array.dtype.str, array.shape, writer.hash.hexdigest())
    sync_folder(data)
    staged = os.path.join(folder, f"{MANIFEST}.{token}")
    with synced_file(staged) as file:
        file.write(manifest_text(head, f"data-{token}", entries))
    return staged


def _confirm(folder: str, shown: str) -> None:
    try:
        sync_folder(folder)
    except OSError as error:
        raise StorageError(
            f"the model is saved at '{shown}', but the disk did not confirm it: "
            f"{error.strerror or error}. Check the disk, then save again."
        ) from error


def _check_ours(root: str, shown: str) -> None:
    """Refuse a folder that is neither empty (but for a killed save's leftovers) nor a model."""
    names = os.listdir(root)
    if MANIFEST in names:
        parsed_manifest(shown, read_manifest(root, shown))
    elif not all(DATA_FOLDER.fullmatch(n) or _STAGED_MANIFEST.fullmatch(n) for n in names):
        raise StorageError(
            f"can not save the model to '{shown}': the folder holds other files and is not a "
            "topperk model; it was left as it is. Pass another path."
        )


def _remove_unnamed(root: str, shown: str) -> None:
    """Remove the data folders and staged manifests that the manifest does not name.

    What can not be removed stays until the next save: it takes room and does no harm.
    """
    try:
        names = os.listdir(root)
        named = None
        if MANIFEST in names:
            named = parsed_manifest(shown, read_manifest(root, shown)).data
            # This manifest must itself be on the disk before its predecessor's arrays go.
            sync_folder(root)
    except (OSError, StorageError):
        return
    for name in names:
        if DATA_FOLDER.fullmatch(name) and name != named:
            _remove_folder(os.path.join(root, name))
        elif _STAGED_MANIFEST.fullmatch(name):
            _remove_file(os.path.join(root, name))


def _take_back(root: str, shown: str, token: str) -> None:
    """Remove what a failed save wrote, unless the manifest names it or can not be read."""
    try:
        if MANIFEST in os.listdir(root):
            named = parsed_manifest(shown, read_manifest(root, shown)).data
            if named == f"data-{token}":
                return
    except (OSError, StorageError):
        return
    _remove_folder(os.path.join(root, f"data-{token}"))
    _remove_file(os.path.join(root, f"{MANIFEST}.{token}"))


def _remove_dead_stages(root: str) -> None:
    """Remove the temporary folders beside ``root`` whose saves are no longer alive."""
    parent, name = os.path.split(root)
    stage = re.compile(re.escape(f".{name}.saving-") + r"[0-9a-f]{16}")
    try:
        found = [entry for entry in os.listdir(parent) if stage.fullmatch(entry)]
    except OSError:
        return  # a parent that may be passed through but not listed: nothing can be cleaned
    for entry in found:
        folder = os.path.join(parent, entry)
        try:
            with locked(folder) as free:
                if free:
                    _remove_folder(folder)
        except OSError:
            continue


def _remove_folder(folder: str) -> None:
    with suppress(OSError):  # ignore_errors does not cover all that may go wrong
        shutil.rmtree(folder, ignore_errors=True)


def _remove_file(path: str) -> None:
    with suppress(OSError):
        os.unlink(path)


def _why_not_written(shown: str, error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        cure = "Free some space and save again"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        cure = "Pass a path in a folder that you may write to"
    else:
        cure = "Pass another path, or mend this one and save again"
    return (
        f"can not save the model to '{shown}': {error.strerror or error}. "
        f"{cure}; what was there before is unchanged."
    )


# --- reading ----------------------------------------------------------------------------------


def _read_parts(shown: str, manifest: Manifest) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """The model that the manifest describes.

    All files are opened before the first is read, so that a save which removes them in the
    meantime can not hurt.
    """
    arrays = {}
    with ExitStack() as stack:
        files = []
        for entry in manifest.arrays.values():
            where = f"{manifest.data}/{entry.file}"
            try:
                file = checked_file(os.path.join(shown, manifest.data, entry.file))
            except FileNotFoundError as error:
                raise damaged(shown, f"{where} is missing") from error
            except OSError as error:
                raise unreadable(shown, where, error) from error
            files.append(stack.enter_context(file))
        for (name, entry), file in zip(manifest.arrays.items(), files, strict=True):
            arrays[name] = _read_array(shown, f"{manifest.data}/{entry.file}", entry, file)
    return manifest.config, arrays


def _read_array(shown: str, where: str, entry: ArrayEntry, file: BufferedReader) -> AnyArray:
    """One array: first its checksum, in a stream, then its header, and last its values."""
    try:
        if hashlib.file_digest(file, "sha256").hexdigest() != entry.sha256:
            raise damaged(shown, f"{where} does not match its checksum")
        file.seek(0)
        if np.lib.format.read_magic(file) != (1, 0):
            raise damaged(shown, f"{where} is not in the .npy format 1.0")
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        if dtype.str != entry.dtype or shape != entry.shape or dtype.hasobject:
            raise damaged(
                shown,
                f"{where} holds {dtype.str}{list(shape)} "
                f"and not {entry.dtype}{list(entry.shape)} as its manifest says",
            )
        size = os.fstat(file.fileno()).st_size - file.tell()
        if size != math.prod(shape) * dtype.itemsize:
            raise damaged(shown, f"{where} is not as long as its shape says")
        file.seek(0)
        array: AnyArray = np.lib.format.read_array(file, allow_pickle=False)
    except OSError as error:
        raise unreadable(shown, where, error) from error
    except (ValueError, SyntaxError, TokenError, RecursionError, OverflowError) as error:
        raise damaged(shown, f"{where} can not be read ({error})") from error
    return array
