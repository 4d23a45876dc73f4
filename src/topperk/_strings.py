"""Strings as plain arrays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from topperk._kernels.arrays import OffsetArray
from topperk._manifest import AnyArray
from topperk.errors import StorageError


def pack_strings(strings: Sequence[str]) -> tuple[npt.NDArray[np.uint8], OffsetArray]:
    """Strings as two plain arrays: their UTF-8 bytes end to end, and n + 1 offsets into them."""
    try:
        encoded = [text.encode() for text in strings]
    except UnicodeEncodeError as error:
        raise StorageError(
            f"the string {error.object!r} is not valid Unicode and can not be stored. "
            "Replace its lone surrogates."
        ) from error
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(piece) for piece in encoded], out=offsets[1:])
    return np.frombuffer(b"".join(encoded), dtype=np.uint8).copy(), offsets


def unpack_strings(data: AnyArray, offsets: AnyArray) -> list[str]:
    """The strings that ``pack_strings`` packed; ``StorageError`` if the arrays can not be such."""
    if (
        data.dtype != np.uint8
        or offsets.dtype != np.int64
        or data.ndim != 1
        or offsets.ndim != 1
        or len(offsets) == 0
        or offsets[0] != 0
        or offsets[-1] != len(data)
        or np.any(np.diff(offsets) < 0)
    ):
        raise StorageError(
            "the stored strings are damaged: their offsets do not fit their bytes. "
            "Fit and save the model again."
        )
    whole, ends = data.tobytes(), offsets.tolist()
    try:
        return [whole[a:b].decode() for a, b in pairwise(ends)]
    except UnicodeDecodeError as error:
        raise StorageError(
            "the stored strings are damaged: they are not UTF-8. Fit and save the model again."
        ) from error
