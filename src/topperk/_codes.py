"""Codes of plain ids, for one call at a time: what ``ids`` does by joins, done by hash tables."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from topperk._kernels.arrays import IntArray
from topperk._kernels.looking_up import fill_slots, look_up
from topperk.errors import IdError
from topperk.ids import IdIndex

# Python objects, or integers in an array of one dimension.
Given: TypeAlias = list[Any] | npt.NDArray[np.integer]

UNKNOWN = np.int32(-1).tobytes()


class Codes(dict[Any, bytes]):
    """The codes of an index's ids, each as the bytes of an int32; what it does not know is -1.

    Bytes, because those of many ids are the array of their codes once they are joined, which is
    sooner done than to read as many numbers.

    >>> codes = Codes(IdIndex.from_values(["b", "a"], "items"))
    >>> codes.of(["a", "z", "b"], "item_ids").tolist(), codes.one("a", "item_id")
    ([1, -1, 0], 1)
    """

    def __init__(self, index: IdIndex) -> None:
        codes = np.arange(len(index), dtype=np.int32).tobytes()
        each = (codes[at : at + 4] for at in range(0, len(codes), 4))
        super().__init__(zip(index.values, each, strict=True))
        self._index = index
        self._strings = index.holds_strings

    def __missing__(self, key: Any) -> bytes:
        return UNKNOWN

    def one(self, wanted: Any, what: str) -> int:
        """The code of one id; IdError as in ``of``."""
        if type(wanted) is not (str if self._strings else int):
            _check_types([wanted], self._index, what)
        return int.from_bytes(self[wanted], sys.byteorder, signed=True)

    def of(self, ids: Given, what: str) -> IntArray:
        """A code for each id; IdError for an id of another type than the known ones."""
        listed = as_list(ids)
        try:
            joined = bytearray().join(map(self.__getitem__, listed))
        except TypeError:  # of what can not be looked up
            _check_types(listed, self._index, what)
            raise
        # Nothing but a string equals a string, but 1.0 and True equal 1.
        if not self._strings or UNKNOWN in joined:
            _check_types(listed, self._index, what)
        return np.frombuffer(joined, dtype=np.int32)


class IntegerCodes:
    """As ``Codes`` for integers, in arrays: an array of ids is looked up at once.

    >>> index = IdIndex.from_values([20, 10], "items")
    >>> IntegerCodes(index).of(np.array([10, 11, 20]), "item_ids").tolist()
    [1, -1, 0]
    """

    def __init__(self, index: IdIndex) -> None:
        values = index.values.to_numpy()
        self._index = index
        self._unsigned = values.dtype.kind == "u"
        self._ids = values.astype(np.int64)  # the same 64 bits
        self._slots = np.full(2 << len(index).bit_length(), -1, dtype=np.int32)
        fill_slots(self._ids, self._slots)

    def of(self, ids: Given, what: str) -> IntArray:
        """A code for each id; IdError for an id of another type than the known ones."""
        if not isinstance(ids, list):
            return self._of_array(ids)
        _check_types(ids, self._index, what)
        try:
            return self._of_array(np.fromiter(ids, np.int64, len(ids)))
        except OverflowError:
            return self._of_any_size(ids)

    def _of_array(self, ids: npt.NDArray[np.integer]) -> IntArray:
        wanted = np.ascontiguousarray(ids, dtype=np.int64)
        if not wanted.flags.carray:  # the kernel is compiled for arrays that can be written to
            wanted = wanted.copy()
        codes = np.empty(wanted.size, dtype=np.int32)
        look_up(wanted, self._ids, self._slots, codes)
        if (ids.dtype.kind == "u") != self._unsigned:
            # What is a sign to one side is the highest bit of a number to the other.
            codes[wanted < 0] = -1
        return codes

    def _of_any_size(self, ids: list[Any]) -> IntArray:
        lowest, kind = (0, np.uint64) if self._unsigned else (-(2**63), np.int64)
        fits = [lowest <= int(one) < lowest + 2**64 for one in ids]
        codes = np.full(len(ids), -1, dtype=np.int32)
        codes[fits] = self._of_array(
            np.array([one for one, fit in zip(ids, fits, strict=True) if fit], dtype=kind)
        )
        return codes


def as_given(item_ids: Any) -> Given:
    """Ids as they came where that is a list or an array of integers, and otherwise as a list."""
    if isinstance(item_ids, list):
        return item_ids
    if isinstance(item_ids, np.ndarray):
        if item_ids.ndim != 1:
            raise IdError(f"item_ids is an array of shape {item_ids.shape}. Give one dimension.")
        if type(item_ids) is np.ndarray and item_ids.dtype.kind in "iu":
            return item_ids
    convert: Callable[[], list[Any]] | None = getattr(item_ids, "tolist", None)
    convert = convert or getattr(item_ids, "to_list", None)
    if convert is not None:
        return convert()
    if isinstance(item_ids, (str, bytes, set, frozenset, dict)):
        raise IdError(
            f"item_ids is of type {type(item_ids).__name__}, which has no order of ids. "
            "Give a list or an array, in the order of the scores."
        )
    try:
        return list(item_ids)
    except TypeError:
        raise IdError(
            f"item_ids is of type {type(item_ids).__name__}. Give a list or an array of ids."
        ) from None


def as_list(ids: Given) -> list[Any]:
    """The ids as Python objects."""
    return ids if isinstance(ids, list) else ids.tolist()


def _check_types(ids: list[Any], index: IdIndex, what: str) -> None:
    kinds = (str,) if index.holds_strings else (int, np.integer)
    for kind in set(map(type, ids)):
        if issubclass(kind, bool) or not issubclass(kind, kinds):
            wrong = next(one for one in ids if type(one) is kind)
            raise IdError(
                f"{what}: found {wrong!r}, but the known ids are "
                f"{'strings' if index.holds_strings else 'integers'} (such as "
                f"{index.name(0) if len(index) else 'none'}). Give ids of their type."
            )
