"""Plain arrays in one ``.npz`` file."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from topperk._files import replacing
from topperk.errors import FileFormatError


def write_npz(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write the arrays; an existing file is replaced only by a whole new one."""
    with replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def read_npz(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Read them back; nothing is unpickled."""
    if not path.is_file():
        raise FileFormatError(f"there is no file {path}. Check the path.")
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error, KeyError) as error:
        raise FileFormatError(
            f"{path} is not an .npz of plain arrays ({error}). Write it with np.savez, ids as "
            "integers or as a string array, not as objects."
        ) from error
