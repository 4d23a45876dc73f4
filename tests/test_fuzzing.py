"""Readers given anything: an error of topperk's own, or the right answer, and never another end."""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from polars.testing import parametric

import topperk as tp
from topperk.errors import IdError, InputError, StorageError, TopperkError

Pairs = set[tuple[Any, Any]]
MAX_MESSAGE = 800


@contextmanager
def file_of(name: str, content: bytes) -> Iterator[Path]:
    """A file of these bytes, in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="topperk-") as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        yield path


def answer(read: Callable[[], Any]) -> Any:
    """What reading gives, or the error of topperk's own, whose message is fit to be shown."""
    try:
        return read()
    except TopperkError as error:
        message = str(error)
        assert message
        assert len(message) < MAX_MESSAGE
        assert "\n" not in message
        return error


def pairs_of(data: tp.Interactions | tp.Candidates) -> Pairs:
    """The outside ids of every pair."""
    users = np.repeat(np.arange(data.ids.n_users), np.diff(data.offsets))
    return set(
        zip(
            data.ids.users.take(users.astype(np.int32)).to_list(),
            data.ids.items.take(data.items).to_list(),
            strict=True,
        )
    )


def check_sound(found: Any) -> None:
    """What was read from who knows what holds together: it is written out and read again alike."""
    if isinstance(found, tp.Interactions):
        assert found.n_interactions == len(pairs_of(found)) >= 1
        again = tp.read_interactions(found.to_frame())
        assert again.ids == found.ids
        assert again.items.tolist() == found.items.tolist()
        assert again.n_merged == 0
    elif isinstance(found, tp.Candidates):
        assert len(found.items) == len(pairs_of(found)) >= 1
        block = found.block(np.arange(found.ids.n_users, dtype=np.int32))
        assert not np.isnan(block.scores).any()
        assert (block.scores < np.inf).all()
    elif isinstance(found, tp.Factors):
        assert found.user_vectors.shape[0] == found.ids.n_users
        assert found.item_vectors.shape[0] == found.ids.n_items
        assert np.isfinite(found.user_vectors).all()
        assert np.isfinite(found.item_vectors).all()
    else:
        assert isinstance(found, TopperkError)


def check_both(path: Path) -> None:
    """Read as interactions and as scores."""
    check_sound(answer(lambda: tp.read_interactions(path)))
    check_sound(answer(lambda: tp.load_scores(path)))


# --- files of any bytes -----------------------------------------------------------------------

SUFFIXES = (
    *(".csv", ".tsv", ".inter", ".parquet", ".jsonl", ".ndjson", ".arrow", ".feather", ".ipc"),
    *(".csv.gz", ".jsonl.gz", ".npz"),
)
BEGINNINGS = (
    *(b"", b"user_id,item_id,score\n", b"user_id\titem_id\tscore\n", b'{"user_id": 1, "item_id"'),
    *(b"PAR1", b"ARROW1\0\0", b"\xff\xff\xff\xff", b"PK\x03\x04", b"\x93NUMPY\x01\0", b"\x1f\x8b"),
    *(b"\xef\xbb\xbfuser_id,item_id\n", b"\n\n", b'"', b"user_id,user_id,item_id\n"),
)
ENDS = (b"", b"PAR1", b"ARROW1", b"\n", b"\xff\xff\xff\xff\0\0\0\0", b"\0" * 22)
TEXT = st.text(st.sampled_from('abu_id,"\t\r\n {}[]:0123456789.eE+-nN\\é\0'), max_size=60)
ANY_BYTES = st.tuples(
    st.sampled_from(BEGINNINGS),
    st.one_of(st.binary(max_size=60), TEXT.map(str.encode)),
    st.sampled_from(ENDS),
).map(b"".join)


@given(suffix=st.sampled_from(SUFFIXES), content=ANY_BYTES, packs=st.booleans())
@settings(max_examples=500)
def test_any_bytes_are_read_or_refused(suffix: str, content: bytes, packs: bool) -> None:
    if packs and suffix.endswith(".gz"):
        content = gzip.compress(content, mtime=0)
    with file_of(f"any{suffix}", content) as path:
        check_both(path)


# --- text that was written by another hand ----------------------------------------------------

# Cells that a reader of tables likes to take for something else.
CELLS = st.sampled_from(
    [
        *("1", "2", "007", "+3", "-4", "1e3", "0x1", "1.0", "nan", "NaN", "null", "None", "NA"),
        *("a", "ä", "a b", " a", "a ", "x,y", "x\ty", 'say "x"', "two\nlines", "\u2028", "-", "'"),
        *("9223372036854775808", "18446744073709551616", "2024-01-31", "#", "\\N", "\\", "true"),
    ]
)
TABLES = st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=8)


@given(rows=TABLES, suffix=st.sampled_from([".csv", ".tsv", ".csv.gz"]), quotes=st.booleans())
@settings(max_examples=250)
def test_what_pythons_own_writer_wrote_comes_back_cell_by_cell(
    rows: list[tuple[str, str]], suffix: str, quotes: bool
) -> None:
    text = io.StringIO()
    delimiter = "\t" if suffix == ".tsv" else ","
    quoting = csv.QUOTE_ALL if quotes else csv.QUOTE_MINIMAL
    writer = csv.writer(text, delimiter=delimiter, quoting=quoting, lineterminator="\n")
    writer.writerows([("user_id", "item_id"), *rows])
    content = text.getvalue().encode()
    with file_of(f"t{suffix}", gzip.compress(content) if suffix == ".csv.gz" else content) as path:
        found = answer(lambda: tp.read_interactions(path))
    if isinstance(found, IdError):
        # only a column that is nothing but numbers, not all of them integers, is refused
        assert any(all(is_decimal(row[side]) for row in rows) for side in (0, 1))
        return
    assert isinstance(found, tp.Interactions)
    assert {(str(user), str(item)) for user, item in pairs_of(found)} == set(rows)
    assert found.n_merged == len(rows) - len(set(rows))


def is_decimal(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


VALUES: st.SearchStrategy[Any] = st.one_of(
    st.integers(-3, 3),
    st.sampled_from(["", "a", "1", "ä", "null", "2024-01-31", '"', "\\", "\n"]),
    st.sampled_from([2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), 10**30]),
    st.sampled_from([None, True, 1.0, 1.5, [1], {"x": 1}, [], {}]),
)


@st.composite
def json_columns(draw: st.DrawFn) -> list[tuple[Any, Any]]:
    """Rows whose columns are of one kind more often than not."""
    n = draw(st.integers(1, 6))
    kinds = [st.integers(-3, 3), st.sampled_from(["", "a", "1", "ä", "\n"]), VALUES]
    users, items = (
        draw(st.lists(draw(st.sampled_from(kinds)), min_size=n, max_size=n)) for _ in range(2)
    )
    return list(zip(users, items, strict=True))


@example(rows=[("a", 1), (2**64, 2)], suffix=".jsonl")
@given(rows=json_columns(), suffix=st.sampled_from([".jsonl", ".ndjson", ".jsonl.gz"]))
@settings(max_examples=250)
def test_json_lines_are_read_with_their_types_or_refused(
    rows: list[tuple[Any, Any]], suffix: str
) -> None:
    lines = [json.dumps({"user_id": user, "item_id": item}) for user, item in rows]
    content = "\n".join(lines).encode()
    with file_of(
        f"t{suffix}", gzip.compress(content) if suffix == ".jsonl.gz" else content
    ) as path:
        found = answer(lambda: tp.read_interactions(path))
    columns = list(zip(*rows, strict=True))
    sound = [{type(value) for value in column} in ({int}, {str}) for column in columns]
    fits = [all(-(2**63) <= v < 2**63 for v in c if isinstance(v, int)) for c in columns]
    if isinstance(found, TopperkError):
        assert not (all(sound) and all(fits))
    else:
        assert all(sound)
        assert pairs_of(found) == set(rows)
        assert found.n_merged == len(rows) - len(set(rows))


# --- files that were good once ----------------------------------------------------------------


def good_files() -> dict[str, bytes]:
    """A valid file of every format, plain and compressed."""
    frame = pl.DataFrame(
        {
            "user_id": ["ann", "bob", "ann", "cy"] * 3,
            "item_id": [3, 1, 2, 2, 5, 6, 7, 8, 9, 10, 11, 12],
            "score": [0.5, 1.5, -2.0, 0.25] * 3,
        }
    )
    found: dict[str, bytes] = {}

    def written(name: str, write: Callable[[io.BytesIO], object]) -> None:
        buffer = io.BytesIO()
        write(buffer)
        found[name] = buffer.getvalue()

    written("a.csv", frame.write_csv)
    written("a.tsv", lambda file: frame.write_csv(file, separator="\t"))
    written("a.jsonl", frame.write_ndjson)
    written("plain.parquet", lambda file: frame.write_parquet(file, compression="uncompressed"))
    written("zstd.parquet", lambda file: frame.write_parquet(file, compression="zstd"))
    written("plain.arrow", frame.write_ipc)
    written("zstd.arrow", lambda file: frame.write_ipc(file, compression="zstd"))
    written("stream.arrow", frame.write_ipc_stream)
    for name in ("a.csv", "a.jsonl"):
        found[f"{name}.gz"] = gzip.compress(found[name], mtime=0)
    return found


GOOD = good_files()


@st.composite
def harmed(draw: st.DrawFn, content: bytes) -> bytes:
    """The bytes after one to four accidents."""
    harm = bytearray(content)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(harm)))
        size = draw(st.integers(1, 24))
        deed = draw(st.sampled_from(["cut", "flip", "set", "drop", "double", "insert"]))
        if deed == "cut":
            del harm[at:]
        elif deed == "flip" and at < len(harm):
            harm[at] ^= 1 << draw(st.integers(0, 7))
        elif deed == "set" and at < len(harm):
            harm[at] = draw(st.sampled_from([0, 1, 10, 34, 44, 127, 128, 255]))
        elif deed == "drop":
            del harm[at : at + size]
        elif deed == "double":
            harm[at:at] = harm[at : at + size]
        elif deed == "insert":
            harm[at:at] = draw(st.binary(min_size=1, max_size=4))
    return bytes(harm)


def test_the_files_are_good_before_they_are_harmed() -> None:
    for name, content in GOOD.items():
        with file_of(name, content) as path:
            assert tp.read_interactions(path).n_interactions == 12
            assert len(tp.Candidates(path).items) == 12


@given(data=st.data())
@settings(max_examples=700)
def test_harmed_files_are_read_or_refused(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(GOOD)))
    with file_of(name, data.draw(harmed(GOOD[name]))) as path:
        check_both(path)


@pytest.mark.parametrize("name", sorted(GOOD))
def test_a_file_that_ends_too_soon_is_never_read_as_a_whole_one(name: str) -> None:
    """Text may end at a line's end; what knows its own length is refused."""
    content = GOOD[name]
    for size in range(1, len(content), max(1, len(content) // 60)):
        with file_of(name, content[:size]) as path:
            found = answer(lambda path=path: tp.Candidates(path))
        check_sound(found)
        if name in ("a.csv", "a.tsv", "a.jsonl"):
            if isinstance(found, tp.Candidates):
                assert found.items.size <= 12
        elif name != "stream.arrow":
            assert isinstance(found, InputError)


@pytest.mark.parametrize("version", ["polars", "1.0", "2.0"])
def test_a_parquet_page_that_claims_a_negative_count_does_not_end_the_process(
    version: str,
) -> None:
    frame = pl.read_parquet(GOOD["plain.parquet"])
    buffer = io.BytesIO()
    if version == "polars":
        frame.write_parquet(buffer)
    else:
        arrow = pytest.importorskip("pyarrow.parquet")
        arrow.write_table(frame.to_arrow(), buffer, data_page_version=version)
    content = buffer.getvalue()
    refused = set()
    for at in range(len(content)):
        if content[at] == 24:  # 12 in zigzag, and -13 with one bit more
            harm = content[:at] + b"\x19" + content[at + 1 :]
            with file_of("t.parquet", harm) as path:
                found = answer(lambda path=path: tp.Candidates(path))
            check_sound(found)
            refused |= set(re.findall(r"column '(\w+)' claims a count of -13", str(found)))
    assert refused == {"user_id", "item_id", "score"}


# --- npz --------------------------------------------------------------------------------------

ARRAYS = hnp.arrays(
    st.one_of(
        hnp.floating_dtypes(),
        hnp.integer_dtypes(),
        hnp.boolean_dtypes(),
        hnp.unicode_string_dtypes(min_len=1, max_len=3),
        hnp.byte_string_dtypes(min_len=1, max_len=3),
        hnp.complex_number_dtypes(),
        hnp.datetime64_dtypes(),
    ),
    hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3),
)
NAMES = ("user_vectors", "item_vectors", "user_ids", "item_ids", "user_biases", "item_biases")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of hypothesis, that casts what it draws
@given(arrays=st.fixed_dictionaries({}, optional=dict.fromkeys(NAMES, ARRAYS)), good=st.booleans())
@settings(max_examples=200)
def test_any_arrays_are_factors_or_refused(arrays: dict[str, Any], good: bool) -> None:
    base = {
        "user_vectors": np.ones((2, 2), dtype=np.float32),
        "item_vectors": np.ones((3, 2), dtype=np.float32),
        "user_ids": np.array(["a", "b"]),
        "item_ids": np.arange(3),
    }
    # one array spoils a good file, or all of them are anything
    whole = {**base, **dict(list(arrays.items())[:1])} if good else arrays
    buffer = io.BytesIO()
    np.savez(buffer, **whole)
    with file_of("any.npz", buffer.getvalue()) as path:
        found = answer(lambda: tp.load_scores(path))
    check_sound(found)
    if isinstance(found, tp.Factors):
        assert found.ids.users.values.to_list() == whole["user_ids"].tolist()
        assert found.ids.items.values.to_list() == whole["item_ids"].tolist()
        np.testing.assert_allclose(found.user_vectors, whole["user_vectors"].astype(float))


# --- saved models -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tp.Dense]:
    """A small model on disk, and the scores it was fitted on."""
    rng = np.random.default_rng(2)
    data = tp.read_interactions(
        {"user_id": np.repeat(["a", "b", "c"], 6), "item_id": np.tile(np.arange(6), 3)}
    )
    ids = tp.Ids(data.ids.users, tp.Ids.of(["x"], range(12)).items)
    source = tp.Dense(rng.normal(size=(3, 12)), ids)
    model = tp.PersonalizedK(tp.F1(), max_k=4).fit(source, tp.split_random(data), on_missing="skip")
    path = tmp_path_factory.mktemp("saved") / "m"
    model.save(path)
    return path, source


@given(data=st.data())
@settings(max_examples=150)
def test_a_harmed_model_is_refused_or_answers_as_before(
    saved: tuple[Path, tp.Dense], data: st.DataObject
) -> None:
    model, source = saved
    names = sorted(str(path.relative_to(model)) for path in model.rglob("*") if path.is_file())
    name = data.draw(st.sampled_from(["manifest.json", *names]))
    with tempfile.TemporaryDirectory(prefix="topperk-") as folder:
        copy = Path(folder, "m")
        shutil.copytree(model, copy)
        (copy / name).write_bytes(data.draw(harmed((model / name).read_bytes())))
        found = answer(lambda: tp.load(copy))
    if isinstance(found, TopperkError):
        assert isinstance(found, StorageError)
        return
    assert found.sizes(source).equals(tp.load(model).sizes(source))


# --- frames of any types ----------------------------------------------------------------------

INTEGERS = (pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64)


def is_id(column: pl.Series) -> bool:
    """Whether the documents call such a column ids."""
    named = column.dtype == pl.String or isinstance(column.dtype, (pl.Categorical, pl.Enum))
    return (named or column.dtype in INTEGERS) and column.null_count() == 0


def is_score(column: pl.Series) -> bool:
    """Whether every value is a number or minus infinity."""
    if not column.dtype.is_numeric() or column.null_count():
        return False
    values = column.cast(pl.Float64)
    return not values.is_nan().any() and bool((values < np.inf).all())


@st.composite
def columns(draw: st.DrawFn, name: str, n: int, sound: st.SearchStrategy[pl.Series]) -> pl.Series:
    """A good column more often than not, and else one of any type at all."""
    if draw(st.integers(0, 3)):
        return draw(sound).alias(name)
    return draw(parametric.series(name=name, min_size=n, max_size=n, excluded_dtypes=[pl.Object]))


@st.composite
def frames(draw: st.DrawFn) -> pl.DataFrame:
    """A table of users, items and scores, and a column that nobody asked for."""
    n = draw(st.integers(0, 6))

    def rows(values: st.SearchStrategy[Any], kind: Any) -> st.SearchStrategy[pl.Series]:
        return st.lists(values, min_size=n, max_size=n).map(lambda v: pl.Series(v, dtype=kind))

    ids = st.one_of(
        st.sampled_from(INTEGERS).flatmap(lambda kind: rows(st.integers(0, 3), kind)),
        rows(st.sampled_from(["", "a", "7", "ä"]), pl.String),
        rows(st.sampled_from(["b", "a"]), pl.Categorical()),
        rows(st.sampled_from(["b", "a"]), pl.Enum(["b", "c", "a"])),
    )
    numbers = st.floats(-9, 9, width=32) | st.just(-np.inf)
    scores = st.one_of(rows(numbers, pl.Float64), rows(numbers, pl.Float32))
    return pl.DataFrame(
        [
            draw(columns("user_id", n, ids)),
            draw(columns("item_id", n, ids)),
            draw(columns("score", n, scores)),
            draw(columns("anything", n, scores)),
        ]
    )


def in_file(frame: pl.DataFrame, suffix: str) -> Any:
    """The frame as the bytes of a file, or None where the format can not hold it."""
    buffer = io.BytesIO()
    try:
        if suffix == ".parquet":
            frame.write_parquet(buffer)
        elif suffix == ".arrow":
            frame.write_ipc(buffer)
        else:
            frame.write_ipc_stream(buffer)
    except (Exception, pl.exceptions.PanicException):
        return None
    return buffer.getvalue()


@given(frame=frames(), way=st.sampled_from(["frame", "lazy", ".parquet", ".arrow", ".feather"]))
@settings(max_examples=300)
def test_frames_of_any_types_are_read_exactly_where_the_documents_say_so(
    frame: pl.DataFrame, way: str
) -> None:
    before = frame.clone()
    source: Any = frame.lazy() if way == "lazy" else frame
    if way.startswith("."):
        content = in_file(frame, way)
        if content is None:
            return
        with file_of(f"t{way}", content) as path:
            data = answer(lambda: tp.read_interactions(path))
            candidates = answer(lambda: tp.Candidates(path))
    else:
        data = answer(lambda: tp.read_interactions(source))
        candidates = answer(lambda: tp.Candidates(source))
    assert frame.equals(before, null_equal=True)
    users, items, scores = frame["user_id"], frame["item_id"], frame["score"]
    good = frame.height > 0 and is_id(users) and is_id(items)
    assert isinstance(data, tp.Interactions) == good, data
    rows = list(zip(users.to_list(), items.to_list(), strict=True)) if good else []
    repeated = len(set(rows)) < len(rows)
    wanted = good and is_score(scores) and not repeated
    assert isinstance(candidates, tp.Candidates) == wanted, candidates
    if good:
        assert pairs_of(data) == set(rows)
        assert data.n_merged == len(rows) - len(set(rows))
        assert data.to_frame()["user_id"].dtype == users.dtype
        assert data.to_frame()["item_id"].dtype == items.dtype
    if wanted:
        assert pairs_of(candidates) == set(rows)
        found = dict(zip(sorted_pairs(candidates), candidates.scores.tolist(), strict=True))
        assert found == dict(zip(rows, scores.cast(candidates_type(scores)).to_list(), strict=True))


def sorted_pairs(candidates: tp.Candidates) -> list[tuple[Any, Any]]:
    """The outside ids of each score, in the order of the scores."""
    users = np.repeat(np.arange(candidates.ids.n_users), np.diff(candidates.offsets))
    return list(
        zip(
            candidates.ids.users.take(users.astype(np.int32)).to_list(),
            candidates.ids.items.take(candidates.items).to_list(),
            strict=True,
        )
    )


def candidates_type(scores: pl.Series) -> Any:
    return pl.Float32 if scores.dtype == pl.Float32 else pl.Float64
