"""What a model folder's manifest says, and how it is checked; ``storage`` does the rest.

The manifest is JSON::

    {"format": "topperk", "format_version": 1, "library_version": "0.1.0",
     "config": {...}, "data": "data-0123456789abcdef",
     "arrays": {"slope": {"dtype": "<f8", "file": "slope.npy", "sha256": "...", "shape": [9]}},
     "sha256": "..."}

The last checksum is over everything else, written as JSON with sorted keys and no spaces, so a
changed number in the configuration is found as surely as one in an array.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BufferedReader
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from topperk.errors import StorageError

Json: TypeAlias = "bool | int | float | str | Sequence[Json] | Mapping[str, Json] | None"
AnyArray: TypeAlias = npt.NDArray[Any]

FORMAT = "topperk"
FORMAT_VERSION = 1
MANIFEST = "manifest.json"
DATA_FOLDER = re.compile(r"data-[0-9a-f]{16}")

# No separator and no leading dot: such a name can not lead out of its folder.
_ARRAY_NAME = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,99}")
# Booleans, integers, floats, complex, fixed-length strings, times: all that .npy holds by value.
_DTYPE_KINDS = "biufcSUmM"
# A manifest is a few kilobytes; anything beyond this is not one, and is not read into memory.
_LARGEST_MANIFEST = 16 * 2**20
# How deep a configuration may nest: far more than any has, far less than JSON's reader stands.
_DEEPEST_CONFIG = 50


@dataclass(frozen=True)
class ArrayEntry:
    """What the manifest says of one array."""

    file: str
    dtype: str
    shape: tuple[int, ...]
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """A manifest that passed every check."""

    config: dict[str, Any]
    data: str
    arrays: dict[str, ArrayEntry]


def damaged(shown: str, what: str) -> StorageError:
    """The error for a model that is topperk's and is not whole."""
    return StorageError(
        f"the model '{shown}' is damaged: {what}. "
        "Restore the folder from a copy, or remove it, then fit and save again."
    )


def unreadable(shown: str, where: str, error: OSError) -> StorageError:
    """The error for a model that may be whole, but that can not be read here and now."""
    return StorageError(
        f"can not read the model '{shown}': {where}: {error.strerror or error}. "
        "Mend the folder's permissions or the disk, then read again."
    )


# --- making -----------------------------------------------------------------------------------


def checked_config(config: Mapping[str, Json]) -> dict[str, Json]:
    """The manifest's head, after a look that JSON will give back what it is given."""
    plain = dict(config)
    _check_json(plain, "config", 0)
    head: dict[str, Json] = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "library_version": _library_version(),
        "config": plain,
    }
    try:
        size = len(_canonical(head))
    except ValueError as error:
        raise StorageError(
            f"the model's configuration can not be written as JSON: {error}. "
            "Use finite and not excessively large numbers."
        ) from error
    # Half, because the indented form and the arrays' entries need room too.
    if size > _LARGEST_MANIFEST // 2:
        raise StorageError(
            f"the model's configuration takes {size:,} bytes, more than a manifest may hold. "
            "Store what is large as arrays."
        )
    return head


def checked_array(name: str, array: AnyArray) -> AnyArray:
    """The array as a plain ndarray, if its name and dtype can be stored."""
    if not _ARRAY_NAME.fullmatch(name):
        raise StorageError(
            f"an array can not be called {name!r}. "
            "Use lower-case letters, digits, '_', '.' and '-', a hundred at most."
        )
    plain = np.asarray(array)
    if plain.dtype.kind not in _DTYPE_KINDS or plain.dtype.itemsize == 0:
        raise StorageError(
            f"the array '{name}' has the dtype {plain.dtype}, which can not be stored plainly. "
            "Store numbers, and strings by pack_strings."
        )
    return plain


def manifest_text(head: Mapping[str, Json], data: str, entries: Mapping[str, ArrayEntry]) -> bytes:
    """The bytes of ``manifest.json``."""
    arrays: dict[str, Json] = {
        name: {
            "file": entry.file,
            "dtype": entry.dtype,
            "shape": list(entry.shape),
            "sha256": entry.sha256,
        }
        for name, entry in entries.items()
    }
    body: dict[str, Json] = {**head, "data": data, "arrays": arrays}
    whole = {**body, "sha256": hashlib.sha256(_canonical(body)).hexdigest()}
    return json.dumps(whole, indent=1, allow_nan=False).encode() + b"\n"


def _canonical(body: Mapping[str, Json]) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _check_json(value: object, where: str, depth: int) -> None:
    if depth > _DEEPEST_CONFIG:
        raise StorageError(
            f"the model's {where} nests more than {_DEEPEST_CONFIG} deep. Make it flatter."
        )
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise StorageError(
                    f"the model's {where} has the key {key!r}, which is not a string. "
                    "Use strings as keys."
                )
            _check_json(inner, f"{where}.{key}", depth + 1)
    elif isinstance(value, list | tuple):
        for position, inner in enumerate(value):
            _check_json(inner, f"{where}[{position}]", depth + 1)
    elif not (value is None or isinstance(value, bool | int | float | str)):
        raise StorageError(
            f"the model's {where} is a {type(value).__name__}, which JSON does not know. "
            "Use plain numbers, strings, lists and dictionaries, or store it as an array."
        )


def _library_version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("topperk")
    except PackageNotFoundError:
        return "unknown"


# --- reading ----------------------------------------------------------------------------------


def read_manifest(folder: str, shown: str) -> bytes:
    """The manifest's bytes, or a ``StorageError`` that says what the folder is instead."""
    if "\0" in shown or not os.path.exists(folder):
        raise StorageError(f"there is no model at {shown!r}. Pass the folder that a save made.")
    if not os.path.isdir(folder):
        raise StorageError(
            f"'{shown}' is a file and not a model folder. Pass the folder that a save made."
        )
    try:
        with checked_file(os.path.join(folder, MANIFEST)) as file:
            raw = file.read(_LARGEST_MANIFEST + 1)
    except FileNotFoundError as error:
        raise StorageError(
            f"'{shown}' is not a topperk model: it holds no {MANIFEST}. "
            "Pass the folder that a save made; if a first save was interrupted, save again."
        ) from error
    except OSError as error:
        raise unreadable(shown, MANIFEST, error) from error
    if len(raw) > _LARGEST_MANIFEST:
        raise damaged(shown, f"{MANIFEST} is larger than any manifest is")
    return raw


def checked_file(path: str) -> BufferedReader:
    """An ordinary file opened for reading; a pipe or device would keep the reader waiting."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError("it is not an ordinary file")
    return open(path, "rb")


def parsed_manifest(shown: str, raw: bytes) -> Manifest:
    """The manifest as an object, every field checked."""
    try:
        content = json.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        raise damaged(shown, f"{MANIFEST} is not JSON") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise StorageError(
            f"'{shown}' is not a topperk model: its {MANIFEST} does not say so. "
            "Pass the folder that a save made."
        )
    version = content.get("format_version")
    if type(version) is int and version > FORMAT_VERSION:
        raise StorageError(
            f"the model '{shown}' has format version {version}, and this topperk reads up to "
            f"{FORMAT_VERSION}. Upgrade topperk, or save the model with this version."
        )
    claimed = content.pop("sha256", None)
    try:
        found = hashlib.sha256(_canonical(content)).hexdigest()
    except (ValueError, RecursionError) as error:
        raise damaged(shown, f"{MANIFEST} holds what no save writes") from error
    if claimed != found:
        raise damaged(shown, f"{MANIFEST} does not match its own checksum")
    config, data, arrays = (content.get(key) for key in ("config", "data", "arrays"))
    if (
        type(version) is not int
        or version != FORMAT_VERSION
        or not isinstance(config, dict)
        or not isinstance(data, str)
        or not DATA_FOLDER.fullmatch(data)
        or not isinstance(arrays, dict)
    ):
        raise damaged(shown, f"{MANIFEST} lacks a field or names a place outside of the folder")
    return Manifest(config, data, {name: _entry(shown, name, e) for name, e in arrays.items()})


def _entry(shown: str, name: str, entry: object) -> ArrayEntry:
    if isinstance(entry, dict) and _ARRAY_NAME.fullmatch(name):
        file, dtype, shape, sha256 = (entry.get(k) for k in ("file", "dtype", "shape", "sha256"))
        if (
            file == f"{name}.npy"
            and isinstance(dtype, str)
            and isinstance(sha256, str)
            and isinstance(shape, list)
            and all(type(size) is int and size >= 0 for size in shape)
        ):
            return ArrayEntry(file, dtype, tuple(shape), sha256)
    raise damaged(
        shown, f"{MANIFEST} describes the array {name!r} wrongly or outside of the folder"
    )
