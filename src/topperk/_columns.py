"""Which column is meant, and what its values must be."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from topperk._kernels.arrays import FloatArray
from topperk.errors import ColumnError, InputError

FrameKind: TypeAlias = Literal["polars", "pandas", "pyarrow", "duckdb"]

# Compared without case, spaces, underscores and RecBole's type (user_id:token). A role's own name
# comes first; the others are those of implicit and LensKit (user, item, user_num), RecTools
# (weight, datetime), RePlay (user_idx, item_idx, query_id, relevance), Recommenders (userID,
# itemID, prediction, label) and MovieLens' own files (movieId).
_ALIASES: Mapping[str, tuple[str, ...]] = {
    "user_id": ("user", "user_idx", "user_num", "query_id", "query_idx", "query"),
    "item_id": ("item", "item_idx", "item_num", "movie_id"),
    "rating": ("weight", "relevance", "label"),
    "timestamp": ("datetime", "time"),
    "score": ("prediction", "relevance", "rating"),
    "rank": (),
}
_RECBOLE_TYPE = re.compile(r":(token|float)(_seq)?$")
_SHOWN_COLUMNS = 12
_SEPARATORS = ("::", ";", "\t", "|", ",")
_LARGEST = 2**63 - 1


@dataclass(frozen=True)
class Table:
    """A frame or file whose columns are known and whose values are loaded when asked for.

    ``load(names, ids)`` gives the named columns; those in ``ids`` are never quietly turned into
    another type.
    """

    columns: tuple[str, ...]
    where: str
    kind: FrameKind
    load: Callable[[Sequence[str], Sequence[str]], pl.DataFrame]


class ReadColumns:
    """Columns by role. Each is handed out once, so that it can be freed before the next is used."""

    def __init__(self, columns: dict[str, pl.Series], labels: dict[str, str], table: Table) -> None:
        """Keep the columns, and how messages call them."""
        self.where = table.where
        self.kind: FrameKind = table.kind
        self.n_rows = len(next(iter(columns.values())))
        self._columns = columns
        self._labels = labels

    def has(self, role: str) -> bool:
        """Whether a column of that role was found (and not yet taken)."""
        return role in self._columns

    def pop(self, role: str) -> pl.Series:
        """Hand out the column of a role."""
        return self._columns.pop(role)

    def label(self, role: str) -> str:
        """The column of a role as messages call it."""
        return self._labels[role]


def columns_by_role(
    table: Table, named: Mapping[str, str | None], optional: Sequence[str] = ()
) -> ReadColumns:
    """Find and load one column for each role; only the ``optional`` ones may be missing."""
    found: dict[str, str] = {}
    for role, name in named.items():
        column = find_column(table.columns, role, name, table.where, role not in optional)
        if column is None:
            continue
        for other, taken in found.items():
            if taken == column:
                raise ColumnError(
                    f"column {column!r} of {table.where} is named both as {other} and as {role}. "
                    "Name one column for each."
                )
        found[role] = column
    ids = [column for role, column in found.items() if role.endswith("_id")]
    frame = table.load(list(found.values()), ids)
    return ReadColumns(
        {role: frame[column] for role, column in found.items()},
        {role: f"column {column!r} of {table.where}" for role, column in found.items()},
        table,
    )


def find_column(
    frame: pl.DataFrame | Sequence[str],
    role: str,
    named: str | None,
    what: str,
    required: bool = True,
) -> str | None:
    """The column that plays a role: the one named outright, or the one recognised by its name.

    The role's own name (``user_id``, also as ``userID`` or ``user_id:token``) goes before other
    libraries' names (``user``, ``query_id`` ...). None only where the role is not required.
    ColumnError where a column is missing, and where two of the same precedence could be meant;
    ``what`` says in messages where was looked.

    >>> find_column(["userID", "itemID"], "user_id", None, "ratings.csv")
    'userID'
    """
    columns = frame.columns if isinstance(frame, pl.DataFrame) else list(frame)
    if named is not None:
        if columns.count(named) > 1:
            raise ColumnError(f"{what} has {named!r} twice. Rename or drop one of the columns.")
        if named not in columns:
            _refuse_unseparated(columns, what)
            raise ColumnError(
                f"{what} has no column {named!r}{_nearest([named], columns)}. "
                f"Its columns are {_listed(columns)}."
            )
        return named
    aliases = _ALIASES[role]
    for accepted in ({_bare(role)}, {_bare(alias) for alias in aliases}):
        meant = [column for column in columns if _bare(column) in accepted]
        if len(meant) > 1:
            raise ColumnError(
                f"{what} has {' and '.join(map(repr, meant))}, and each could be the {role}. "
                f"Name the right one: {role}={meant[0]!r}."
            )
        if meant:
            return meant[0]
    if not required:
        return None
    _refuse_unseparated(columns, what)
    raise ColumnError(
        f"{what} has no column for {role}{_nearest([role, *aliases], columns)}. "
        f"Its columns are {_listed(columns)}; name one: {role}=..."
    )


def is_id_name(column: str) -> bool:
    """Whether a column would be recognised as one of ids."""
    return any(
        _bare(column) in {_bare(name) for name in (role, *_ALIASES[role])}
        for role in ("user_id", "item_id")
    )


def finite_numbers(values: pl.Series, what: str) -> FloatArray:
    """The values as a new float64 array; InputError for nulls, NaN, infinity and text."""
    numbers = _numbers(values, what)
    if numbers.dtype != pl.Float64:
        numbers = numbers.cast(pl.Float64)
    array: FloatArray = numbers.to_numpy(writable=True)
    finite = np.isfinite(array)
    if not finite.all():
        row = int(finite.argmin())
        raise InputError(
            f"{what}: the value in row {row + 1} is {array[row]}. "
            "Drop these rows or put finite numbers there."
        )
    return array


def moments(values: pl.Series, what: str) -> npt.NDArray[np.int64] | npt.NDArray[np.float64]:
    """Times as they are if they are numbers (int64 or float64); dates as int64 microseconds.

    Text is read as a number or as an ISO date. InputError for nulls, NaN and anything else.
    """
    if values.dtype == pl.String:
        values = _times_from_text(values, what)
    if isinstance(values.dtype, (pl.Datetime, pl.Date)):
        refuse_nulls(values, what)
        return _microseconds(values, what)
    if values.dtype.is_integer():
        refuse_nulls(values, what)
        try:
            array: npt.NDArray[np.int64] = values.cast(pl.Int64).to_numpy(writable=True)
        except pl.exceptions.PolarsError as error:
            raise InputError(f"{what}: times beyond 64 bits. Use seconds.") from error
        return array
    if values.dtype == pl.Boolean:
        raise InputError(f"{what} holds true and false. Give numbers or dates.")
    return finite_numbers(values, what)


def _microseconds(values: pl.Series, what: str) -> npt.NDArray[np.int64]:
    """Dates without nulls as microseconds since 1970.

    Not with polars' own cast, which ends in a panic where a date lies beyond its calendar.
    """
    unit = values.dtype.time_unit if isinstance(values.dtype, pl.Datetime) else "days"
    ticks: npt.NDArray[np.int64] = values.to_physical().cast(pl.Int64).to_numpy(writable=True)
    if unit == "ns":
        ticks //= 1000
        return ticks
    factor = {"us": 1, "ms": 1000, "days": 86_400_000_000}[unit]
    beyond = (ticks > _LARGEST // factor) | (ticks < -_LARGEST // factor)
    if beyond.any():
        raise InputError(
            f"{what}: the date in row {int(beyond.argmax()) + 1} lies beyond 64 bits of "
            "microseconds. Correct it or drop it."
        )
    ticks *= factor
    return ticks


def _times_from_text(values: pl.Series, what: str) -> pl.Series:
    refuse_nulls(values, what)
    readings: tuple[Callable[[], pl.Series], ...] = (
        lambda: values.cast(pl.Float64),
        lambda: values.str.to_datetime(time_unit="us"),
        lambda: values.str.to_date(),
    )
    for reading in readings:
        with suppress(pl.exceptions.PolarsError):
            return reading()
    raise InputError(
        f"{what} holds text such as {values[0]!r} that is neither a number nor an ISO date. "
        "Give numbers, or dates such as 2024-01-31 or 2024-01-31T12:00:00."
    )


def _numbers(values: pl.Series, what: str) -> pl.Series:
    """The values as a numeric column without nulls."""
    if values.dtype == pl.Object:
        raise InputError(f"{what} mixes values of several types. Give numbers only.")
    refuse_nulls(values, what)
    if values.dtype.is_numeric():
        return values
    if values.dtype == pl.Boolean:
        return values.cast(pl.Int8)
    if values.dtype == pl.String:
        numbers = values.cast(pl.Float64, strict=False)
        if numbers.null_count():
            row = int(numbers.is_null().arg_max() or 0)
            raise InputError(
                f"{what}: {values[row]!r} in row {row + 1} is not a number. Correct it or drop it."
            )
        return numbers
    raise InputError(f"{what} is of type {values.dtype}. Give numbers.")


def refuse_nulls(
    values: pl.Series, what: str, things: str = "values", error: type[InputError] = InputError
) -> None:
    """The error where any is missing; ``things`` is what messages call them."""
    if values.null_count():
        row = int(values.is_null().arg_max() or 0)
        raise error(
            f"{what}: {values.null_count()} of {len(values)} {things} are missing, the first in "
            f"row {row + 1}. Drop these rows or fill the {things} in."
        )


def _bare(name: str) -> str:
    """A column name without what libraries write differently."""
    return re.sub(r"[\s_\-]", "", _RECBOLE_TYPE.sub("", name.strip().lstrip("\ufeff").lower()))


def _refuse_unseparated(columns: Sequence[str], what: str) -> None:
    """ColumnError where the only column is a whole line, whose separator was not understood."""
    if len(columns) != 1:
        return
    separator = next((mark for mark in _SEPARATORS if mark in columns[0]), None)
    if separator is not None:
        raise ColumnError(
            f"{what} has the one column {columns[0]!r}: the separator seems to be {separator!r}. "
            "Separate the columns by commas (.csv) or by tabs (.tsv)."
        )


def _nearest(wanted: Sequence[str], columns: Sequence[str]) -> str:
    """A hint at the column whose name is closest, or nothing."""
    by_bare = {_bare(column): column for column in columns}
    for name in wanted:
        close = difflib.get_close_matches(_bare(name), by_bare, n=1)
        if close:
            return f" (the nearest is {by_bare[close[0]]!r})"
    return ""


def _listed(columns: Sequence[str]) -> str:
    shown = ", ".join(repr(column) for column in columns[:_SHOWN_COLUMNS])
    more = len(columns) - _SHOWN_COLUMNS
    return f"{shown} and {more} more" if more > 0 else shown or "none"
