"""What a stored model must look like, beyond being undamaged: checks for those who read one.

Whoever reads a model raises ValueError or KeyError here, and ``topperk.load`` turns them into a
StorageError that names the folder. Kernels trust the arrays afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from topperk._kernels.arrays import IntArray, OffsetArray
from topperk.reasons import Reason


def stored_array(
    arrays: Mapping[str, npt.NDArray[Any]], name: str, dtype: npt.DTypeLike, size: int | None = None
) -> npt.NDArray[Any]:
    """The array of this name, if it has one dimension, this dtype, and this size where given."""
    array = arrays[name]
    if array.ndim != 1 or array.dtype != np.dtype(dtype) or size not in (None, array.size):
        raise ValueError(
            f"the array {name!r} is {array.dtype} of shape {array.shape}; "
            f"{np.dtype(dtype)} of shape ({'any' if size is None else size},) is needed"
        )
    return np.ascontiguousarray(array)


def stored_count(config: Mapping[str, Any], name: str, least: int = 0) -> int:
    """The whole number of this name, if it is one and lies between ``least`` and 2**31."""
    value = config[name]
    if type(value) is not int or not least <= value < 2**31:
        raise ValueError(f"{name} is {value!r}")
    return value


def stored_text(config: Mapping[str, Any], name: str) -> str:
    """The string of this name, if it is one."""
    value = config[name]
    if not isinstance(value, str):
        raise ValueError(f"{name} is {value!r}")
    return value


def stored_seen(
    arrays: Mapping[str, npt.NDArray[Any]], n_users: int, n_items: int
) -> tuple[OffsetArray, IntArray]:
    """Offsets and items of what was seen, if they fit each other and the numbers of ids."""
    items = stored_array(arrays, "seen.items", np.int32)
    offsets = stored_array(arrays, "seen.offsets", np.int64, n_users + 1)
    if offsets[0] != 0 or offsets[-1] != items.size or (np.diff(offsets) < 0).any():
        raise ValueError("the array 'seen.offsets' does not ascend from 0 to the number of items")
    if items.size and not 0 <= items.min() <= items.max() < n_items:
        raise ValueError(f"the array 'seen.items' names other items than the {n_items} known")
    return offsets, items


def reasons_named(names: Sequence[str], codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """Codes of today from codes that were places in ``names`` when they were stored."""
    today = np.array([Reason[name].code for name in names], dtype=np.uint8)
    if codes.size and codes.max() >= today.size:
        raise ValueError(f"a reason has the code {codes.max()}, of {today.size} known")
    return today[codes]
