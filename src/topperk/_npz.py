"""Plain arrays in one ``.npz`` file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, cast, get_args

import numpy as np
import numpy.typing as npt

from topperk._columns import FrameKind
from topperk._files import replacing
from topperk.errors import FileFormatError, StorageError


def write_npz(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write the arrays; an existing file is replaced only by a whole new one."""
    if path.suffix.lower() != ".npz":
        raise StorageError(f"can not write {path}: arrays go to .npz files. Give it that suffix.")
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def read_npz(path: Path, needed: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
    """Read them back, the needed ones among them; nothing is unpickled."""
    if not path.is_file():
        raise FileFormatError(f"there is no file {path}. Check the path.")
    try:
        # Opened here: np.load leaves a file of its own open where it is no archive.
        with path.open("rb") as file, _archive(file) as archive:
            arrays = {name: archive[name] for name in archive.files}
    # A damaged archive ends in whatever zipfile, zlib and numpy come to: NotImplementedError for
    # an unknown compression, MemoryError for a size that was never written, and more.
    except Exception as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise FileFormatError(
            f"{path} is not an .npz of plain arrays ({reason[:200]}). Write it with np.savez, "
            "ids as integers or as a string array, not as objects."
        ) from error

    missing = [name for name in needed if name not in arrays]
    if missing:
        raise FileFormatError(
            f"{path} holds the arrays {', '.join(sorted(arrays)) or 'none'}; "
            f"{', '.join(missing)} are missing. Write them with np.savez, or with Factors.save."
        )
    return arrays


def stored_kind(path: str | Path, arrays: Mapping[str, npt.NDArray[Any]]) -> FrameKind:
    """The kind of frame that the ids came in; polars where the file does not say."""
    if "frame_kind" not in arrays:
        return "polars"
    kind, kinds = arrays["frame_kind"].tolist(), get_args(FrameKind)
    if kind not in kinds:
        raise FileFormatError(
            f"the frame_kind of {path} is {kind!r}; it can be {', '.join(kinds)}. "
            "Correct it, or leave it out for polars."
        )
    return cast(FrameKind, kind)


def _archive(file: BinaryIO) -> Any:
    head = file.read(6)
    if not head:
        raise ValueError("it is empty")
    if head == b"\x93NUMPY":
        raise ValueError("it is a single array, as np.save writes it")
    if not head.startswith(b"PK"):
        # numpy would take it for a pickle, and advise to load it as one.
        raise ValueError("it is no archive")
    file.seek(0)
    return np.load(file, allow_pickle=False)
