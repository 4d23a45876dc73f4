"""Frames: any kind comes in, the same kind leaves, and columns are known by many names."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from topperk.errors import ColumnError, InputError, TopperkError
from topperk.interactions import read_interactions
from topperk.scores import Candidates

duckdb = pytest.importorskip("duckdb")
pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")

USERS = ["bob", "ann", "bob", "cy"]
ITEMS = [30, 10, 10, 20]
ROWS = [("ann", 10), ("bob", 10), ("bob", 30), ("cy", 20)]


def rows_of(frame: Any) -> list[tuple[Any, ...]]:
    """The rows of a frame of any of the four kinds."""
    if isinstance(frame, duckdb.DuckDBPyRelation):
        return [tuple(row) for row in frame.fetchall()]
    if isinstance(frame, pa.Table):
        return [tuple(row.values()) for row in frame.to_pylist()]
    if isinstance(frame, pd.DataFrame):
        return [tuple(row) for row in frame.itertuples(index=False)]
    return [tuple(row) for row in frame.rows()]


COLUMNS = {"user_id": USERS, "item_id": ITEMS}
FRAMES: dict[str, tuple[Callable[[], Any], type]] = {
    "polars": (lambda: pl.DataFrame(COLUMNS), pl.DataFrame),
    "lazy": (lambda: pl.LazyFrame(COLUMNS), pl.DataFrame),
    "dict": (lambda: COLUMNS, pl.DataFrame),
    "dict-numpy": (lambda: {n: np.array(v) for n, v in COLUMNS.items()}, pl.DataFrame),
    "dict-tuples": (lambda: {n: tuple(v) for n, v in COLUMNS.items()}, pl.DataFrame),
    "dict-pandas": (lambda: {n: pd.Series(v) for n, v in COLUMNS.items()}, pl.DataFrame),
    "dict-pyarrow": (lambda: {n: pa.array(v) for n, v in COLUMNS.items()}, pl.DataFrame),
    "dict-chunks": (
        lambda: {n: pa.chunked_array([v[:1], v[1:]]) for n, v in COLUMNS.items()},
        pl.DataFrame,
    ),
    "pandas": (lambda: pd.DataFrame(COLUMNS), pd.DataFrame),
    "pandas-index": (lambda: pd.DataFrame(COLUMNS, index=[5, 5, 2, 1]), pd.DataFrame),
    "pandas-object": (lambda: pd.DataFrame(COLUMNS, dtype=object), pd.DataFrame),
    "pandas-nullable": (lambda: pd.DataFrame(COLUMNS).convert_dtypes(), pd.DataFrame),
    "pandas-arrow": (
        lambda: pd.DataFrame(COLUMNS).convert_dtypes(dtype_backend="pyarrow"),
        pd.DataFrame,
    ),
    "pyarrow": (lambda: pa.table(COLUMNS), pa.Table),
    "pyarrow-batch": (lambda: pa.RecordBatch.from_pydict(COLUMNS), pa.Table),
    "pyarrow-reader": (lambda: pa.table(COLUMNS).to_reader(max_chunksize=2), pa.Table),
    "pyarrow-views": (
        lambda: pa.table({"user_id": pa.array(USERS, pa.string_view()), "item_id": ITEMS}),
        pa.Table,
    ),
    "pyarrow-dictionary": (
        lambda: pa.table({"user_id": pa.array(USERS).dictionary_encode(), "item_id": ITEMS}),
        pa.Table,
    ),
    "duckdb": (
        lambda: duckdb.sql(
            "select * from (values ('bob', 30), ('ann', 10), ('bob', 10), ('cy', 20)) "
            't("user_id", "item_id")'
        ),
        duckdb.DuckDBPyRelation,
    ),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_comes_in_and_the_same_kind_leaves(kind: str) -> None:
    make, leaves = FRAMES[kind]
    data = read_interactions(make())
    found = data.to_frame()
    assert isinstance(found, leaves)
    assert rows_of(found) == ROWS
    # and is read again as the same
    again = read_interactions(data.to_frame())
    assert again.ids == data.ids
    assert again.items.tolist() == data.items.tolist()


WIDTHS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("width", WIDTHS)
def test_integers_of_every_width_leave_as_they_came(width: str) -> None:
    array = np.array([3, 1, 2], dtype=width)
    polars = pl.DataFrame({"user": array, "item": array})
    for frame in (polars, polars.to_arrow(), pd.DataFrame({"user": array, "item": array})):
        found = read_interactions(frame).to_frame()
        assert rows_of(found) == [(1, 1), (2, 2), (3, 3)]
        kinds = found.schema.types if isinstance(found, pa.Table) else list(found.dtypes)
        wanted = frame.schema.types if isinstance(frame, pa.Table) else list(frame.dtypes)
        assert kinds == wanted
    relation = duckdb.from_arrow(polars.to_arrow())
    assert read_interactions(relation).to_frame().types == relation.types


def test_categoricals_leave_as_categoricals_of_their_kind() -> None:
    polars = pl.DataFrame({"user": USERS, "item": ITEMS}).with_columns(
        pl.col("user").cast(pl.Enum(["cy", "bob", "ann"]))
    )
    assert read_interactions(polars).to_frame()["user_id"].dtype == polars["user"].dtype
    pandas = pd.DataFrame({"user": pd.Categorical(USERS, ["cy", "bob", "ann"]), "item": ITEMS})
    found = read_interactions(pandas).to_frame()["user_id"]
    assert list(found.cat.categories) == ["cy", "bob", "ann"]
    assert list(found) == [user for user, _ in ROWS]
    arrow = pa.table({"user": pa.array(USERS).dictionary_encode(), "item": ITEMS})
    kind = read_interactions(arrow).to_frame().schema.field("user_id").type
    assert pa.types.is_dictionary(kind)
    numbers = pd.DataFrame({"user": pd.Categorical([7, 5]), "item": [1, 2]})
    assert rows_of(read_interactions(numbers).to_frame()) == [(5, 2), (7, 1)]


def test_the_callers_frames_are_left_as_they_were() -> None:
    pandas = pd.DataFrame({"user": [2, 1], "item": [1, 2], "time": [9, 8]})
    before = pandas.copy()
    data = read_interactions(pandas)
    data.timestamps[:] = 0  # type: ignore[index]
    left = data.to_frame()
    left.loc[0, "user_id"] = 77
    pd.testing.assert_frame_equal(pandas, before)
    assert rows_of(data.to_frame())[0][0] == 1


def test_only_the_columns_that_are_needed_are_touched() -> None:
    frame = pd.DataFrame({"user": [1], "item": [1], "poison": [object()]})
    assert read_interactions(frame).n_interactions == 1
    lazy = pl.LazyFrame({"user": [1], "item": [1], "x": ["a"]}).with_columns(
        pl.col("x").cast(pl.Int64)  # would fail if it were computed
    )
    assert read_interactions(lazy).n_interactions == 1


def test_a_failing_lazy_frame_is_an_input_error() -> None:
    lazy = pl.LazyFrame({"user": ["a"], "item": [1]}).with_columns(pl.col("user").cast(pl.Int64))
    with pytest.raises(InputError, match=r"can not be converted .* Give columns"):
        read_interactions(lazy)


# --- names of columns -------------------------------------------------------------------------

LIBRARIES = {
    "topperk": ("user_id", "item_id", "rating", "timestamp"),
    "implicit": ("user", "item", "weight", "time"),
    "RecBole": ("user_id:token", "item_id:token", "rating:float", "timestamp:float"),
    "LensKit": ("user_num", "item_num", "rating", "timestamp"),
    "LensKit ids": ("user", "item", "rating", "timestamp"),
    "RecTools": ("user_id", "item_id", "weight", "datetime"),
    "RePlay": ("user_idx", "item_idx", "relevance", "timestamp"),
    "RePlay queries": ("query_id", "item_id", "rating", "timestamp"),
    "Recommenders": ("userID", "itemID", "rating", "timestamp"),
    "MovieLens": ("userId", "movieId", "rating", "timestamp"),
    "MovieLens 1M": ("UserID", "MovieID", "Rating", "Timestamp"),
    "spaces": (" User ID", "item-id ", "RATING", "Time"),
    "byte order mark": ("\ufeffuser_id", "item_id", "rating", "timestamp"),
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_names_of_other_libraries_are_recognised(library: str) -> None:
    names = LIBRARIES[library]
    values: list[list[Any]] = [["u", "v"], [1, 2], [4.0, 5.0], [8, 9]]
    frame = dict(zip(names, values, strict=True)) | {"genre": ["x", "y"]}
    data = read_interactions(frame)
    assert data.to_frame().rows() == [("u", 1, 4.0, 8), ("v", 2, 5.0, 9)]


@pytest.mark.parametrize("name", ["score", "prediction", "relevance", "rating", "Score"])
def test_the_names_of_scores_are_recognised(name: str) -> None:
    assert Candidates({"user": [1], "item": [1], name: [0.5]}).scores.tolist() == [0.5]


def test_columns_can_be_named_outright() -> None:
    frame = {"who": ["u"], "what": [1], "stars": [3], "when": [9], "user_id": ["not me"]}
    data = read_interactions(frame, user_id="who", item_id="what", rating="stars", timestamp="when")
    assert data.to_frame().rows() == [("u", 1, 3.0, 9)]


def test_a_role_s_own_name_goes_before_those_of_other_libraries() -> None:
    frame = {"user": [1], "user_id": [2], "item": [3], "item_id": [4]}
    assert read_interactions(frame).to_frame().rows() == [(2, 4)]


@pytest.mark.parametrize(
    ("columns", "named", "words"),
    [
        (["uzer_id", "item"], {}, r"no column for user_id \(the nearest is 'uzer_id'\).*'item'"),
        (["user", "items"], {}, r"no column for item_id \(the nearest is 'items'\)"),
        (["user", "item"], {"user_id": "usr"}, r"no column 'usr' \(the nearest is 'user'\)"),
        (["x", "y"], {}, r"Its columns are 'x', 'y'; name one: user_id=\.\.\."),
        ([], {}, "Its columns are none"),
        (["user", "query_id", "item"], {}, "'user' and 'query_id', and each could be the user_id"),
        (["userID", "user_id", "item"], {}, "each could be the user_id.*Name the right one"),
        (["user", "item"], {"user_id": "user", "item_id": "user"}, "named both as .* and as"),
        (["user", "item"], {"rating": "stars"}, "no column 'stars'"),
        ([f"c{n}" for n in range(40)], {}, r"'c11' and 28 more"),
    ],
)
def test_a_missing_column_is_named_with_those_that_are_there(
    columns: list[str], named: dict[str, str], words: str
) -> None:
    frame = {name: [1, 2] for name in columns}
    with pytest.raises(ColumnError, match=words):
        read_interactions(frame, **named)
    with pytest.raises(ColumnError, match=words):
        read_interactions(pd.DataFrame(frame), **named)


def test_a_rating_is_needed_where_it_is_asked_for() -> None:
    with pytest.raises(ColumnError, match="no column for rating"):
        read_interactions({"user": [1], "item": [1]}, min_rating=3)


def test_two_pandas_columns_of_one_name_are_refused() -> None:
    frame = pd.DataFrame([[1, 2, 3]], columns=["user_id", "user_id", "item_id"])
    for named in ({}, {"user_id": "user_id"}):
        with pytest.raises(ColumnError, match=r"'user_id' (and 'user_id'|twice)"):
            read_interactions(frame, **named)


# --- what is no frame -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (5, "given as int. Give a path"),
        (None, "given as NoneType"),
        ([(1, 2)], "given as list"),
        (np.zeros((2, 2)), "given as ndarray"),
        (pd.Series([1]), "given as Series"),
        (pl.Series([1]), "given as Series"),
        ({"user": [1, 2], "item": [1]}, "differ in length"),
        ({"user": 5, "item": [1]}, "int is no column"),
        ({"user": "abc", "item": [1]}, "str is no column"),
        ({"user": {3, 4}, "item": [1, 2]}, "set is no column"),
        ({"user": np.zeros((1, 1)), "item": [1]}, "is no column"),
        ({"user": [], "item": []}, "has no rows"),
        (pd.DataFrame({"user": [], "item": []}), "has no rows"),
    ],
)
def test_what_is_no_frame_is_refused_with_a_cure(source: Any, words: str) -> None:
    with pytest.raises(InputError, match=rf"({words}).*"):
        read_interactions(source)


def test_times_in_any_zone_are_the_same_moments() -> None:
    naive = pd.to_datetime(["2024-01-01T12:00", "2024-06-01T12:00"])
    for times in (naive.tz_localize("UTC"), naive.tz_localize("UTC").tz_convert("Asia/Tokyo")):
        frame = pd.DataFrame({"user": [1, 2], "item": [1, 1], "time": times})
        found = read_interactions(frame).timestamps
        assert found is not None
        assert found.tolist() == [1_704_110_400_000_000, 1_717_243_200_000_000]


# --- anything at all --------------------------------------------------------------------------

VALUES: list[st.SearchStrategy[Any]] = [
    st.integers(-5, 5),
    st.integers(),
    st.floats(),
    st.floats(-9, 9, allow_nan=False),
    st.text(max_size=3),
    st.booleans(),
    st.binary(max_size=3),
    st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-9, max_value=9),
    st.dates(),
    st.datetimes(),
    st.timedeltas(),
    st.times(),
    st.complex_numbers(),
    st.lists(st.integers(-9, 9), max_size=2),
    st.dictionaries(st.sampled_from("xy"), st.integers(0, 3), max_size=2),
    st.tuples(st.integers(0, 3), st.text(max_size=1)),
    st.sampled_from([np.float32(1.5), np.int8(3), np.datetime64("2024-01-01"), np.str_("a")]),
    st.sampled_from(["1", "2.5", "2024-01-31", "2024-01-31T12:00:00", "nan", "-inf", "1e999", ""]),
    st.builds(object),
]
ANY = st.one_of(*VALUES)


@st.composite
def any_columns(draw: st.DrawFn) -> dict[str, list[Any]]:
    """A frame's columns: most of one type, some mixed, some with nulls, and some of them sound."""
    n = draw(st.integers(0, 5))
    columns = {}
    for name in ("user_id", "item_id", "rating", "timestamp"):
        sound = st.integers(0, 3)
        value = sound if draw(st.integers(0, 2)) else draw(st.sampled_from([*VALUES, ANY]))
        if draw(st.integers(0, 9)) == 0:
            value = value | st.none()
        columns[name] = draw(st.lists(value, min_size=n, max_size=n))
    return columns


def _polars(columns: dict[str, list[Any]], strict: bool) -> Any:
    frame = pl.DataFrame({n: pl.Series(n, v, strict=strict) for n, v in columns.items()})
    for values in frame:
        given = columns[values.name]
        if values.dtype.is_integer() and any(isinstance(v, float | np.floating) for v in given):
            raise ValueError("without strict, polars rounds floats among numpy's integers")
    return frame


# What the libraries themselves refuse to hold is not topperk's to judge.
MAKERS: list[Callable[[dict[str, list[Any]]], Any]] = [
    lambda columns: columns,
    lambda columns: {n: np.array(v, dtype=object) for n, v in columns.items()},
    lambda columns: {n: np.array(v) for n, v in columns.items()},
    pd.DataFrame,
    lambda columns: pd.DataFrame(columns, dtype=object),
    lambda columns: pd.DataFrame({n: pd.Categorical(v) for n, v in columns.items()}),
    # whole floats would become integers, and what was meant could not be told any more
    lambda columns: pd.DataFrame(columns).convert_dtypes(convert_integer=False),
    lambda columns: pa.table(columns),
    lambda columns: _polars(columns, True),
    lambda columns: _polars(columns, False),
    lambda columns: _polars(columns, True).lazy(),
    lambda columns: duckdb.from_arrow(pa.table(columns)),
]


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::FutureWarning")
@given(any_columns(), st.sampled_from(MAKERS))
@settings(max_examples=1_500)
def test_any_frame_is_read_rightly_or_refused_by_topperk(
    columns: dict[str, list[Any]], make: Callable[[dict[str, list[Any]]], Any]
) -> None:
    try:
        frame = make(columns)
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            raise
        return
    for read in (
        lambda: read_interactions(frame),
        lambda: Candidates(frame, score="rating"),
        lambda: Candidates(frame, score="timestamp"),
    ):
        try:
            found = read()
        except TopperkError:
            continue
        ids = found.ids
        users, items = (index.values.to_list() for index in (ids.users, ids.items))
        assert set(map(str, users)) <= set(map(str, columns["user_id"]))
        assert set(map(str, items)) <= set(map(str, columns["item_id"]))
        pairs = {
            (str(u), str(i)) for u, i in zip(columns["user_id"], columns["item_id"], strict=True)
        }
        assert len(found.items) == len(pairs)


def test_decimals_and_dates_are_read_as_ratings_and_times() -> None:
    frame = {
        "user": [1],
        "item": [1],
        "rating": [decimal.Decimal("4.5")],
        "time": [datetime.date(1970, 1, 2)],
    }
    assert read_interactions(frame).to_frame().rows() == [(1, 1, 4.5, 86_400_000_000)]
