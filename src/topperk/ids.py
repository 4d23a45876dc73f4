"""Outside ids and integer codes: the only place where one becomes the other.

An outside id is an integer of at most 64 bits or a string, and a categorical counts as its
strings. Inside, a user or an item is its position in an :class:`IdIndex`: a code from 0 on.
Ids leave in the type in which they came.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import get_args

import numpy as np
import numpy.typing as npt
import polars as pl

from topperk._columns import refuse_nulls
from topperk._frames import FrameKind, to_series
from topperk._kernels.arrays import IntArray
from topperk._settings import check_choice
from topperk.errors import IdError

__all__ = ["IdIndex", "Ids"]

_INTEGERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)


@dataclass(frozen=True, eq=False)
class IdIndex:
    """Distinct ids, each of which has its position as its code.

    ``values`` are integers or strings without nulls or repetitions. ``outside_type`` is set where
    the ids came as a categorical: :meth:`take` then gives that type back. Two indexes are equal
    when they hold the same ids in the same order, whatever the width of their integers.

    >>> index = IdIndex.from_values(["b", "a"], "users")
    >>> len(index), index.name(0)
    (2, "'b'")
    >>> index.codes(["a", "z", "b"], "user_id").tolist()
    [1, -1, 0]
    >>> index.take(np.array([1, 1])).to_list()
    ['a', 'a']
    """

    values: pl.Series
    outside_type: pl.DataType | None = None

    def __post_init__(self) -> None:
        """Check that the values are distinct integers or strings."""
        if not isinstance(self.values, pl.Series):
            raise IdError(
                f"the ids of an index are of type {type(self.values).__name__}, no polars column. "
                "Make it with IdIndex.from_values, which accepts and checks all kinds of ids."
            )
        if self.values.dtype != pl.String and self.values.dtype not in _INTEGERS:
            raise IdError(
                f"the ids of an index are of type {self.values.dtype}. "
                "Make it with IdIndex.from_values, which accepts and checks all kinds of ids."
            )
        refuse_nulls(self.values, "the ids of an index", "ids", IdError)
        if self.values.n_unique() < len(self.values):
            first = self.values.filter(self.values.is_duplicated())[0]
            raise IdError(f"the ids of an index hold {first!r} more than once. Give each id once.")

    @classmethod
    def from_values(cls, values: object, what: str) -> IdIndex:
        """Index ids in the order given: a list, a numpy array, or a column of any frame.

        IdError for nulls, repetitions, mixed types, floats, and no ids at all; ``what`` names
        the ids in the message.
        """
        given = to_series(values, what)
        plain = _plain(given, what)
        if len(plain) == 0:
            raise IdError(f"{what}: there are none. Give at least one.")
        if plain.n_unique() < len(plain):
            repeated = plain.filter(plain.is_duplicated())
            others = repeated.n_unique() - 1
            too = f", and so {'is 1 other' if others == 1 else f'are {others:,} others'}"
            raise IdError(
                f"{what}: {repeated[0]!r} is given more than once{too if others else ''}. "
                "Give each id once."
            )
        return cls(plain.rechunk(), _outside_type(given))

    @classmethod
    def sorted_from(cls, values: object, what: str) -> IdIndex:
        """Index the distinct ids of a column in ascending order (strings by code point).

        >>> IdIndex.sorted_from([7, 3, 7], "item_id").values.to_list()
        [3, 7]
        """
        given = to_series(values, what)
        plain = _plain(given, what)
        return cls(plain.unique().sort().rechunk(), _outside_type(given))

    def __repr__(self) -> str:
        """How many, their type, and the first and the last of them."""
        ends = f", {self.name(0)} to {self.name(len(self) - 1)}" if len(self) else ""
        return f"IdIndex({len(self)} {self.values.dtype}{ends})"

    def __len__(self) -> int:
        """How many ids there are."""
        return len(self.values)

    def __eq__(self, other: object) -> bool:
        """Whether the same ids stand in the same order."""
        if self is other:
            return True
        if not isinstance(other, IdIndex):
            return NotImplemented
        if len(self) != len(other) or self.holds_strings != other.holds_strings:
            return False
        if self.values.dtype == other.values.dtype:
            return self.values.equals(other.values)
        # Ids of the other that do not fit this width become null, and so make the two unequal.
        return self.values.equals(other.values.cast(self.values.dtype, strict=False))

    @property
    def holds_strings(self) -> bool:
        """Whether the ids are strings (or else integers)."""
        return self.values.dtype == pl.String

    def codes(self, ids: object, what: str) -> IntArray:
        """The code of each id, and -1 where the index does not know it.

        IdError for nulls, mixed types, floats, and strings where the index holds integers or the
        reverse; ``what`` names the column in the message. Cost: one hash join.
        """
        plain = _plain(to_series(ids, what), what)
        if len(plain) == 0:
            return np.empty(0, dtype=np.int32)
        if len(self) and (plain.dtype == pl.String) != self.holds_strings:
            found, known = "strings", "integers"
            if self.holds_strings:
                found, known = known, found
            raise IdError(
                f"{what}: found {found} (such as {plain[0]!r}), but the known ids are {known} "
                f"(such as {self.name(0)}). Cast one side to the type of the other."
            )
        # An id that does not fit the index's integer width becomes null, and null matches nothing.
        asked = pl.DataFrame({"id": plain.cast(self.values.dtype, strict=False)})
        known_codes = pl.DataFrame(
            {"id": self.values, "code": np.arange(len(self), dtype=np.int32)}
        )
        joined = asked.join(known_codes, on="id", how="left", maintain_order="left")
        codes: IntArray = joined["code"].fill_null(-1).to_numpy(writable=True)
        return codes

    def take(self, codes: IntArray) -> pl.Series:
        """The ids of these codes, in the type in which the ids came."""
        taken = self.values.gather(checked_codes(codes, len(self)))
        return taken if self.outside_type is None else taken.cast(self.outside_type)

    def part(self, codes: npt.NDArray[np.integer]) -> IdIndex:
        """An index of some of these ids, in the order of the codes."""
        taken = self.values.gather(checked_codes(codes, len(self)))
        return IdIndex(taken.rechunk(), self.outside_type)

    def name(self, code: int) -> str:
        """The id of a code as messages show it: strings in quotes, integers bare."""
        return repr(self.values[int(checked_codes([code], len(self))[0])])

    def text(self, code: int) -> str:
        """The id of a code as readers know it: without quotes, and nothing escaped."""
        return str(self.values[int(code)])

    def union(self, other: IdIndex, what: str) -> IdIndex:
        """The ids of both, ascending; IdError where one holds strings and the other integers."""
        if not isinstance(other, IdIndex):
            raise IdError(
                f"{what}: the other ids are of type {type(other).__name__}. "
                "Make an index of them: tp.IdIndex.from_values(ids, 'ids')."
            )
        if self == other and self.values.is_sorted():
            return self
        if self.holds_strings != other.holds_strings:
            raise IdError(
                f"{what}: strings in one part and integers in another. "
                "Cast them to one type before joining."
            )
        try:
            both = pl.concat([self.values, _as_type(other.values, self.values.dtype)])
        except pl.exceptions.InvalidOperationError:
            both = pl.concat([_widened(self.values, what), _widened(other.values, what)])
        same = self.outside_type == other.outside_type
        return IdIndex(both.unique().sort().rechunk(), self.outside_type if same else None)


@dataclass(frozen=True)
class Ids:
    """The users and items of one body of data, and the kind of frame in which it came.

    >>> ids = Ids.of(users=["ann", "bob"], items=[10, 20, 30])
    >>> ids.n_users, ids.n_items
    (2, 3)
    """

    users: IdIndex
    items: IdIndex
    frame_kind: FrameKind = "polars"

    def __post_init__(self) -> None:
        """Check that the two are indexes of ids."""
        for name, index in (("users", self.users), ("items", self.items)):
            if not isinstance(index, IdIndex):
                raise IdError(
                    f"{name} of Ids are of type {type(index).__name__}, not an IdIndex. "
                    "Make them with tp.Ids.of(users=..., items=...)."
                )
        check_choice("frame_kind", self.frame_kind, get_args(FrameKind))

    def __repr__(self) -> str:
        """The sizes."""
        return f"Ids({self.n_users} users, {self.n_items} items)"

    @classmethod
    def of(
        cls, users: Iterable[object], items: Iterable[object], frame_kind: FrameKind = "polars"
    ) -> Ids:
        """Ids in the order given: row n of a model's user vectors belongs to ``users[n]``."""
        return cls(
            IdIndex.from_values(users, "user ids"),
            IdIndex.from_values(items, "item ids"),
            frame_kind,
        )

    @property
    def n_users(self) -> int:
        """How many users are known."""
        return len(self.users)

    @property
    def n_items(self) -> int:
        """How many items are known."""
        return len(self.items)


def checked_codes(codes: npt.ArrayLike, n: int) -> npt.NDArray[np.integer]:
    """The codes as an array; IdError unless they are places among n ids."""
    try:
        array = np.asarray(codes)
    except ValueError:
        array = np.empty((0, 0))
    if array.ndim != 1 or (array.size > 0 and array.dtype.kind not in "iu"):
        raise IdError(
            f"codes are {array.dtype} of shape {array.shape}. Give integers in one dimension: "
            "places among the ids."
        )
    if array.size > 0 and not 0 <= array.min() <= array.max() < n:
        raise IdError(
            f"codes lie in {array.min()}..{array.max()}, but there are {n:,} ids. "
            f"Give codes from 0 to {n - 1}."
        )
    return array.astype(np.int64, copy=False)


def check_ids(ids: object) -> None:
    """IdError unless the users and items of a source of scores were given as Ids."""
    if not isinstance(ids, Ids):
        raise IdError(
            f"ids are of type {type(ids).__name__}. "
            "Give data.ids, or make them: tp.Ids.of(users=..., items=...)."
        )


def _plain(given: pl.Series, what: str) -> pl.Series:
    """The ids as integers or strings without nulls, or an IdError that says what is wrong."""
    kind = given.dtype
    if kind == pl.Object:
        raise IdError(f"{what}: {_mixture(given)}. Cast all ids to integers or all to strings.")
    refuse_nulls(given, what, "ids", IdError)
    if isinstance(kind, (pl.Categorical, pl.Enum)):
        return given.cast(pl.String)
    if kind == pl.String or kind in _INTEGERS or len(given) == 0:
        return given
    if kind.is_float():
        if given.is_nan().any():
            row = given.is_nan().arg_max()
            raise IdError(
                f"{what}: {given.is_nan().sum()} of {len(given)} ids are NaN, the first in row "
                f"{_row(row)}. Drop these rows, and cast the ids to integers or strings."
            )
        raise IdError(
            f"{what}: the ids are decimal numbers (such as {given[0]!r}), which rounding "
            "can confuse. Cast them to integers or to strings."
        )
    if kind.is_integer():
        raise IdError(f"{what}: the ids are {kind}, of more than 64 bits. Cast them to strings.")
    raise IdError(f"{what}: the ids are of type {kind}. Cast them to integers or to strings.")


def _mixture(given: pl.Series) -> str:
    """What a column of arbitrary Python objects holds."""
    names = sorted({type(value).__name__ for value in given.to_list()})
    if names == ["str"]:
        return "some ids are not valid Unicode (half of a surrogate pair)"
    if len(names) == 1:
        many = " of more than 64 bits" if names == ["int"] else ""
        return f"the ids are of type {names[0]}{many}"
    return f"ids of the types {', '.join(names)} are mixed"


def _outside_type(given: pl.Series) -> pl.DataType | None:
    return given.dtype if isinstance(given.dtype, (pl.Categorical, pl.Enum)) else None


def _row(position: int | None) -> int:
    """Rows are counted from 1 in messages."""
    return (position or 0) + 1


def _as_type(values: pl.Series, kind: pl.DataType) -> pl.Series:
    """Cast without loss, or polars' InvalidOperationError."""
    return values if values.dtype == kind else values.cast(kind, strict=True)


def _widened(values: pl.Series, what: str) -> pl.Series:
    """Integers of any width as 64 bits."""
    try:
        return values.cast(pl.Int64, strict=True)
    except pl.exceptions.InvalidOperationError as error:
        raise IdError(
            f"{what}: negative integers together with some above 2**63. Cast them to strings."
        ) from error
