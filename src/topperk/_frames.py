"""Frames of any kind in, the same kind out.

No other module knows of pandas, pyarrow or duckdb, and this one asks for them only where the
caller brought such a frame. pandas frames cross column by column through numpy, so pyarrow is not
needed for them.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any, TypeAlias, cast

import numpy as np
import polars as pl

from topperk._columns import (
    FrameKind,
    ReadColumns,
    Table,
    columns_by_role,
    find_column,
    finite_numbers,
    moments,
)
from topperk._table_files import (
    check_writable_table,
    open_file,
    read_frame_file,
    write_frame_file,
    write_frame_files,
)
from topperk.errors import ColumnError, InputError

__all__ = [
    "FrameKind",
    "ReadColumns",
    "Source",
    "check_writable_table",
    "find_column",
    "finite_numbers",
    "from_polars",
    "moments",
    "open_table",
    "read_columns",
    "read_frame_file",
    "to_polars",
    "to_series",
    "write_frame_file",
    "write_frame_files",
]

# A path, or any frame that to_polars accepts: frames of four libraries have no common type.
Source: TypeAlias = Any


def read_columns(
    source: Source, what: str, named: Mapping[str, str | None], optional: Sequence[str] = ()
) -> ReadColumns:
    """Load the columns of some roles, and nothing else, from a file or a frame.

    ``named`` maps each role to the column named outright, or to None where it is to be recognised
    (see ``find_column``); roles in ``optional`` may be missing.
    """
    for role, name in named.items():
        if name is not None and not isinstance(name, str):
            raise ColumnError(f"{role} is {name!r}. Give the name of a column, as text.")
    return columns_by_role(open_table(source, what), named, optional)


def to_polars(frame: object, what: str) -> tuple[pl.DataFrame, FrameKind]:
    """All columns of a frame, and the kind of frame it was.

    Accepts polars (also lazy), pandas, pyarrow tables and readers, duckdb relations, whatever
    exports an Arrow stream, and dicts of columns. InputError for anything else.
    """
    table = open_table(frame, what)
    return table.load(table.columns, ()), table.kind


def from_polars(frame: pl.DataFrame, kind: FrameKind) -> Any:
    """The frame as one of the given kind.

    A duckdb relation is one of duckdb's default connection.
    """
    return _LEAVING[kind](frame)


def open_table(source: Source, what: str) -> Table:
    """A file or frame of any kind, with its columns listed and nothing loaded yet."""
    if isinstance(source, (str, os.PathLike)):
        return open_file(source, what)
    if isinstance(source, (pl.DataFrame, pl.LazyFrame)):
        return _polars_table(source, what)
    library = type(source).__module__.partition(".")[0]
    if library == "pandas" and hasattr(source, "iloc") and getattr(source, "ndim", 0) == 2:
        return _pandas_table(source)
    if library == "duckdb" or library == "_duckdb":
        if hasattr(source, "project"):
            return _duckdb_table(source, what)
    elif library == "pandas" or isinstance(source, pl.Series):
        pass  # a single column, although it exports an Arrow stream
    elif hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__"):
        return _arrow_table(source, "pyarrow" if library == "pyarrow" else "polars", what)
    if isinstance(source, Mapping):
        return _mapping_table(source, what)
    raise InputError(
        f"{what} were given as {type(source).__name__}. Give a path, a polars, pandas or pyarrow "
        "frame, a duckdb relation, or a dict of columns."
    )


def to_series(values: object, what: str) -> pl.Series:
    """A column of any library, a numpy array or a list, as a polars column.

    Values of types that do not go together come as a column of Python objects, for the caller to
    refuse. InputError for what is no column at all.
    """
    if isinstance(values, pl.Series):
        return values
    library = type(values).__module__.partition(".")[0]
    if library == "pandas" and hasattr(values, "dtype"):
        return _from_pandas(values)
    if hasattr(values, "__arrow_c_stream__") or hasattr(values, "__arrow_c_array__"):
        series: pl.Series = _guarded(lambda: pl.Series(cast(Any, values)), what)
        return series
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise InputError(
                f"{what}: an array of shape {values.shape} is no column. Give one dimension."
            )
        return _from_numpy(values)
    # A set has no order, so its values belong to no rows.
    unordered = isinstance(values, (str, bytes, Mapping, Set))
    if unordered or not isinstance(values, Iterable):
        raise InputError(
            f"{what}: {type(values).__name__} is no column. Give a list, an array or a series."
        )
    return _from_objects(list(values))


def _guarded(convert: Callable[[], Any], what: str) -> Any:
    """Run a conversion; what another library makes of its own frame becomes an InputError."""
    try:
        return convert()
    except (Exception, pl.exceptions.PanicException) as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise InputError(
            f"{what}: the frame can not be converted ({reason[:200]}). "
            "Give columns of integers, floats, strings or dates."
        ) from error


def _polars_table(frame: pl.DataFrame | pl.LazyFrame, what: str) -> Table:
    lazy = frame.lazy()

    def load(names: Sequence[str], ids: Sequence[str]) -> pl.DataFrame:
        if isinstance(frame, pl.DataFrame):
            return frame.select(names)
        loaded: pl.DataFrame = _guarded(lambda: lazy.select(names).collect(), what)
        return loaded

    names = (
        frame.columns
        if isinstance(frame, pl.DataFrame)
        else _guarded(lambda: lazy.collect_schema().names(), what)
    )
    return Table(tuple(names), "the polars frame", "polars", load)


def _mapping_table(columns: Mapping[Any, Any], what: str) -> Table:
    def load(names: Sequence[str], ids: Sequence[str]) -> pl.DataFrame:
        series = [to_series(columns[name], f"{what}, {name!r}").alias(name) for name in names]
        if len({len(values) for values in series}) > 1:
            lengths = ", ".join(f"{values.name!r} {len(values)}" for values in series)
            raise InputError(
                f"{what}: the columns differ in length ({lengths}). Give one value for each row."
            )
        return pl.DataFrame(series)

    names = tuple(name for name in columns if isinstance(name, str))
    return Table(names, "the dict of columns", "polars", load)


def _arrow_table(source: Any, kind: FrameKind, what: str) -> Table:
    # A stream can be read only once, so it is taken whole; pyarrow's columns are not copied.
    frame: pl.DataFrame = _guarded(lambda: pl.DataFrame(source), what)

    def load(names: Sequence[str], ids: Sequence[str]) -> pl.DataFrame:
        return frame.select(names)

    where = "the pyarrow table" if kind == "pyarrow" else f"the {type(source).__name__}"
    return Table(tuple(frame.columns), where, kind, load)


def _duckdb_table(relation: Any, what: str) -> Table:
    def load(names: Sequence[str], ids: Sequence[str]) -> pl.DataFrame:
        quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
        loaded: pl.DataFrame = _guarded(lambda: pl.DataFrame(relation.project(quoted)), what)
        return loaded

    return Table(
        tuple(_guarded(lambda: relation.columns, what)), "the duckdb relation", "duckdb", load
    )


def _pandas_table(frame: Any) -> Table:
    names = [name if isinstance(name, str) else repr(name) for name in frame.columns]

    def load(wanted: Sequence[str], ids: Sequence[str]) -> pl.DataFrame:
        return pl.DataFrame(
            [_from_pandas(frame.iloc[:, names.index(name)]).alias(name) for name in wanted]
        )

    return Table(tuple(names), "the pandas frame", "pandas", load)


def _from_pandas(column: Any) -> pl.Series:
    """A pandas column through numpy; missing values become null."""
    kind = column.dtype
    if type(kind).__name__ == "CategoricalDtype":
        return _from_pandas_categories(column)
    if isinstance(kind, np.dtype) and kind != np.dtype(object):
        return _from_numpy(column.to_numpy())
    if type(kind).__name__ == "DatetimeTZDtype":
        # The same instants, told in UTC without a zone.
        return _from_numpy(column.to_numpy(dtype="datetime64[us]"))
    inner = getattr(kind, "numpy_dtype", None)
    missing = np.asarray(column.isna())
    if isinstance(inner, np.dtype) and inner.kind in "iufb" and not missing.any():
        return _from_numpy(column.to_numpy(dtype=inner))
    objects = np.array(column.to_numpy(dtype=object), dtype=object, copy=True)
    objects[missing] = None
    return _from_objects(objects.tolist())


def _from_pandas_categories(column: Any) -> pl.Series:
    values = getattr(column, "cat", column)
    codes = np.asarray(values.codes).astype(np.int64)
    categories = _from_pandas(values.categories)
    if categories.dtype == pl.String:
        categories = categories.cast(pl.Enum(categories))
    positions = pl.Series(codes).replace(-1, None).cast(pl.UInt32)
    return categories.gather(positions)


def _from_numpy(values: np.ndarray[Any, Any]) -> pl.Series:
    """A numpy column, copied: the caller may write into its own array later."""
    if values.dtype.kind in "iufbMm" and values.dtype.itemsize <= 8:
        if values.dtype.kind in "Mm":
            values = values.astype(f"{values.dtype.kind}8[us]")
        return pl.Series(np.array(values, dtype=values.dtype.newbyteorder("=")))
    return _from_objects(values.tolist())


def _from_objects(values: list[Any]) -> pl.Series:
    """Python objects as a column of one type, or as a column of objects where none fits."""
    types = set(map(type, values)) - {type(None)}
    wanted: tuple[Any, ...]
    if not types:
        wanted = (pl.Null,)
    elif all(issubclass(one, str) for one in types):
        wanted = (pl.String,)
    elif all(issubclass(one, (bool, np.bool_)) for one in types):
        wanted = (pl.Boolean,)
    elif any(issubclass(one, (bool, np.bool_, str)) for one in types):
        wanted = ()
    elif all(issubclass(one, (int, np.integer)) for one in types):
        values = [None if value is None else int(value) for value in values]
        wanted = (pl.Int64, pl.UInt64)
    elif all(issubclass(one, (int, float, np.integer, np.floating)) for one in types):
        values = [None if value is None else float(value) for value in values]
        wanted = (pl.Float64,)
    else:
        wanted = (None,) if len(types) == 1 else ()
    for kind in wanted:
        try:
            return pl.Series(values, dtype=kind, strict=True)
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
            continue
    return pl.Series(values, dtype=pl.Object)


def _to_pandas(frame: pl.DataFrame) -> Any:
    pandas: Any = importlib.import_module("pandas")
    # Strings get the type that this pandas gives to strings: object before 3.0, str since.
    text = pandas.Series(["a"]).dtype

    def column(values: pl.Series) -> Any:
        if isinstance(values.dtype, pl.Enum):
            categories = values.dtype.categories.to_list()
            return pandas.Categorical(values.cast(pl.String).to_list(), categories=categories)
        if isinstance(values.dtype, pl.Categorical):
            return pandas.Categorical(values.cast(pl.String).to_list())
        if values.dtype == pl.String:
            return pandas.Series(values.to_list(), dtype=text)
        return values.to_numpy(writable=True)

    return pandas.DataFrame({values.name: column(values) for values in frame})


def _to_pyarrow(frame: pl.DataFrame) -> Any:
    arrow: Any = importlib.import_module("pyarrow")
    table: Any = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    fields = []
    for field in table.schema:
        kind = field.type
        if arrow.types.is_large_string(kind):
            kind = arrow.string()
        elif arrow.types.is_dictionary(kind):
            kind = arrow.dictionary(arrow.int32(), arrow.string())
        fields.append(arrow.field(field.name, kind))
    return table.cast(arrow.schema(fields))


def _to_duckdb(frame: pl.DataFrame) -> Any:
    duckdb: Any = importlib.import_module("duckdb")
    return duckdb.from_arrow(frame)


def _unchanged(frame: pl.DataFrame) -> Any:
    return frame


_LEAVING: Mapping[FrameKind, Callable[[pl.DataFrame], Any]] = {
    "polars": _unchanged,
    "pandas": _to_pandas,
    "pyarrow": _to_pyarrow,
    "duckdb": _to_duckdb,
}
