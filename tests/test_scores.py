"""Score sources: each kind is its definition, in blocks, and refuses what can not be ranked."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from contracts import (
    SavedScoreSourceContract,
    ScoreSourceContract,
    as_codes,
    as_matrix,
    by_user,
    in_blocks_of,
    interactions_of,
    random_split,
)
from topperk import (
    F1,
    Callable,
    Candidates,
    Dense,
    Factors,
    FixedK,
    GlobalPlatt,
    Ids,
    Interactions,
    PersonalizedK,
    ScoreBlock,
    Split,
    load_scores,
)
from topperk._blocks import align, align_whole, over_blocks
from topperk.errors import (
    ColumnError,
    FileFormatError,
    IdError,
    InputError,
    ScoreError,
    SettingError,
    StorageError,
)
from topperk.scores import ScoreSource
from topperk.threads import BLOCK_PAIRS

Array = npt.NDArray[Any]

N_USERS, N_ITEMS = 23, 31
IDS = Ids.of(users=[f"u{n}" for n in range(N_USERS)], items=range(100, 100 + N_ITEMS))
RNG = np.random.default_rng(0)
VECTORS = RNG.normal(size=(N_USERS, 4)), RNG.normal(size=(N_ITEMS, 4))
EVERYBODY = as_codes(range(N_USERS))
BIASES = RNG.normal(size=N_USERS), RNG.normal(size=N_ITEMS)
MATRIX = np.where(
    RNG.random((N_USERS, N_ITEMS)) < 0.1, -np.inf, RNG.normal(size=(N_USERS, N_ITEMS))
)


def scored_pairs(seed: int = 1) -> pl.DataFrame:
    """About half of all pairs, in no order, with scores among which some are equal."""
    rng = np.random.default_rng(seed)
    user, item = np.nonzero(rng.random((N_USERS, N_ITEMS)) < 0.5)
    columns = {"user_id": user, "item_id": item, "score": rng.integers(-9, 9, user.size) / 4.0}
    return pl.DataFrame(columns).sample(fraction=1.0, shuffle=True, seed=seed)


# --- the contract -----------------------------------------------------------------------------


class TestFactors(SavedScoreSourceContract):
    source = Factors(*VECTORS, IDS)
    tolerance = 1e-6


class TestFactorsWithBiases(SavedScoreSourceContract):
    source = Factors(*VECTORS, IDS, *BIASES)
    tolerance = 1e-6


class TestFactorsInFloat32(SavedScoreSourceContract):
    source = Factors(*(v.astype(np.float32) for v in VECTORS), IDS, item_biases=BIASES[1])
    tolerance = 1e-6


class TestDense(ScoreSourceContract):
    source = Dense(MATRIX, IDS)


class TestDenseOfColumns(ScoreSourceContract):
    source = Dense(np.asfortranarray(MATRIX.astype(np.float32)), IDS)


class TestDenseOfWholeNumbers(ScoreSourceContract):
    source = Dense(RNG.integers(-5, 5, MATRIX.shape), IDS)


class TestMemoryMap(ScoreSourceContract):
    @pytest.fixture(autouse=True)
    def _mapped(self, tmp_path: Path) -> None:
        np.save(tmp_path / "matrix.npy", MATRIX)
        self.source = Dense(np.load(tmp_path / "matrix.npy", mmap_mode="r"), IDS)


class TestCandidates(ScoreSourceContract):
    source = Candidates(scored_pairs())


class TestCallable(ScoreSourceContract):
    source = Callable(lambda users: MATRIX[users], IDS)


class TestCallableThatGivesItsOwnArray(ScoreSourceContract):
    """A function that returns what it keeps: blocks are written to, and it must not suffer."""

    source = Callable(
        lambda users: MATRIX if np.array_equal(users, EVERYBODY) else MATRIX[users], IDS
    )


@dataclass(frozen=True)
class Distances:
    """Somebody's own source: a user and an item are places on a line, and near is good."""

    ids: Ids
    scores_every_item: bool = True

    def block(self, users: npt.NDArray[np.int32]) -> ScoreBlock:
        rows = -np.abs(users[:, None] * 1.5 - np.arange(self.ids.n_items))
        return ScoreBlock.of_rows(users, rows)


@dataclass(frozen=True)
class Nearest:
    """Another: only the items that are near are retrieved, and for every fifth user none is."""

    ids: Ids
    scores_every_item: bool = False

    def block(self, users: npt.NDArray[np.int32]) -> ScoreBlock:
        offsets, items, scores = [0], [], []
        for user in users.tolist():
            near = [i for i in range(self.ids.n_items) if user % 5 and abs(user - i) < 9]
            items += near
            scores += [-float(abs(user - i)) for i in near]
            offsets.append(len(items))
        return ScoreBlock(users, np.array(scores, np.float32), np.array(offsets), as_codes(items))


class TestDistances(ScoreSourceContract):
    source = Distances(IDS)


class TestNearest(ScoreSourceContract):
    source = Nearest(IDS)


def test_a_source_of_ones_own_is_fitted_and_served_like_any_other() -> None:
    source, split = Distances(IDS), random_split(IDS, seed=3)
    model = PersonalizedK(F1(), max_k=8).fit(source, split)
    sizes = model.sizes(source)
    assert sizes["user_id"].to_list() == IDS.users.values.to_list()
    assert sizes["k"].n_unique() > 1
    assert sizes.equals(model.sizes(Dense(as_matrix(source).matrix, IDS)))
    assert model.recommend(source)["rank"].len() == sizes["k"].sum()


# --- each kind is its definition --------------------------------------------------------------


@pytest.mark.parametrize("own", [None, BIASES[0]], ids=["", "user biases"])
@pytest.mark.parametrize("others", [None, BIASES[1]], ids=["", "item biases"])
def test_factors_are_products_plus_biases(own: Array | None, others: Array | None) -> None:
    source = Factors(*VECTORS, IDS, own, others)
    scores = source.block(as_codes([4, 2])).scores.reshape(2, N_ITEMS)
    for row, user in enumerate((4, 2)):
        for item in range(N_ITEMS):
            product = sum(a * b for a, b in zip(VECTORS[0][user], VECTORS[1][item], strict=True))
            product += 0.0 if own is None else own[user]
            product += 0.0 if others is None else others[item]
            assert scores[row, item] == pytest.approx(product, rel=1e-12)


def test_a_matrix_is_given_row_by_row_and_a_function_asked_for_its_rows() -> None:
    users = as_codes([5, 1, 5])
    for source in (Dense(MATRIX, IDS), Callable(lambda codes: MATRIX[codes].tolist(), IDS)):
        assert source.block(users).scores.tolist() == MATRIX[[5, 1, 5]].reshape(-1).tolist()


some_pairs = st.dictionaries(
    st.tuples(st.integers(-3, 3), st.sampled_from(["", "a", "b", "ä", "07", "7"])),
    st.one_of(st.integers(-2, 2).map(float), st.floats(allow_nan=False, max_value=1e300)),
    min_size=1,
)


@given(pairs=some_pairs, chance=st.randoms(use_true_random=False), data=st.data())
def test_candidates_are_each_users_own_whatever_the_order_of_rows(
    pairs: dict[tuple[int, str], float], chance: Any, data: st.DataObject
) -> None:
    rows = [(user, item, score) for (user, item), score in pairs.items()]
    chance.shuffle(rows)
    frame = pl.DataFrame(rows, schema=["user_id", "item_id", "score"], orient="row")
    source = Candidates(frame)
    users, items = sorted({u for u, _ in pairs}), sorted({i for _, i in pairs})
    assert source.ids.users.values.to_list() == users
    assert source.ids.items.values.to_list() == items
    assert not source.scores_every_item
    asked = data.draw(st.lists(st.integers(0, len(users) - 1)))
    for user, (codes, scores) in zip(
        asked, by_user(source.block(as_codes(asked)), len(items)), strict=True
    ):
        own = {items.index(i): score for (u, i), score in pairs.items() if u == users[user]}
        assert codes == sorted(own)
        assert scores.tolist() == [own[code] for code in codes]


@pytest.mark.parametrize(
    ("given_as", "kept_as"),
    [
        ("float16", "float32"),
        ("float32", "float32"),
        ("float64", "float64"),
        ("int8", "float64"),
        ("uint64", "float64"),
        ("bool", "float64"),
        (">f8", "float64"),
        (">f4", "float64"),
        ("longdouble", "float64"),
    ],
)
def test_float32_stays_float32_and_everything_else_becomes_float64(
    given_as: str, kept_as: str
) -> None:
    matrix = np.arange(6).reshape(2, 3).astype(given_as)
    ids = Ids.of(users=[0, 1], items=[0, 1, 2])
    identity = np.eye(2).astype(given_as)
    for source in (
        Dense(matrix, ids),
        Callable(lambda users: matrix[users], ids),
        Factors(identity, np.ascontiguousarray(matrix.T), ids),
    ):
        scores = source.block(as_codes([1, 0])).scores
        assert scores.dtype == kept_as
        assert scores.tolist() == matrix[::-1].astype(float).reshape(-1).tolist()


def test_float32_and_float64_together_are_float64() -> None:
    users, items = VECTORS
    mixed = Factors(users.astype(np.float32), items, IDS, item_biases=BIASES[1].astype(np.float32))
    assert mixed.block(as_codes([0])).scores.dtype == np.float64
    # biases do not widen what the vectors are
    single = Factors(users.astype(np.float32), items.astype(np.float32), IDS, *BIASES)
    assert single.block(as_codes([0])).scores.dtype == np.float32


@pytest.mark.parametrize(
    ("kind", "kept_as"), [(pl.Float32, "float32"), (pl.Float64, "float64"), (pl.Int16, "float64")]
)
def test_a_column_of_float32_stays_float32(kind: Any, kept_as: str) -> None:
    frame = scored_pairs().with_columns((pl.col("score") * 4).cast(kind))
    source = Candidates(frame)
    assert source.scores.dtype == kept_as
    wanted = {(u, i): s for u, i, s in frame.rows()}
    for user, (items, scores) in enumerate(by_user(source.block(as_codes(range(23))), N_ITEMS)):
        assert scores.tolist() == [wanted[user, item] for item in items]


def test_codes_of_places_in_a_block() -> None:
    """Positions count from a user's own first candidate; an empty place stays one."""
    source = Candidates(
        {"user": ["a", "a", "b", "c"], "item": [10, 30, 20, 30], "score": [1.0, 2.0, 3.0, 4.0]}
    )
    block = source.block(as_codes([2, 0]))
    positions = as_codes([[0, -1], [1, 0]])
    assert block.items_at(positions).tolist() == [[2, -1], [2, 0]]
    every = Dense(np.zeros((1, 3)), Ids.of(users=["a"], items=[1, 2, 3])).block(as_codes([0]))
    assert every.items_at(as_codes([[2, -1]])).tolist() == [[2, -1]]
    nobody = source.block(as_codes([]))
    assert nobody.items_at(np.empty((0, 2), np.int32)).shape == (0, 2)


# --- what a user is shown ---------------------------------------------------------------------


def only_training(ids: Ids, seen: dict[int, list[int]]) -> Split:
    """A split that holds nothing but what was seen."""

    nothing = interactions_of(ids, [[]] * ids.n_users)
    train = interactions_of(ids, [seen.get(user, []) for user in range(ids.n_users)])
    return Split(train, nothing, nothing, "given")


@st.composite
def matrices_and_seen(draw: st.DrawFn) -> tuple[Array, dict[int, list[int]]]:
    """Few different scores, so that most are equal to others; minus infinity among them."""
    n_users, n_items = draw(st.integers(1, 4)), draw(st.integers(1, 9))
    score = st.sampled_from([-np.inf, -1.0, 0.0, -0.0, 1.0, 1e300])
    matrix = [draw(st.lists(score, min_size=n_items, max_size=n_items)) for _ in range(n_users)]
    items = st.sets(st.integers(0, n_items - 1)).map(sorted)
    return np.array(matrix), {user: draw(items) for user in range(n_users)}


@given(matrices_and_seen(), st.booleans())
def test_lists_go_by_score_then_item_code_without_what_was_seen(
    drawn: tuple[Array, dict[int, list[int]]], as_candidates: bool
) -> None:
    matrix, seen = drawn
    n_users, n_items = matrix.shape
    # The ids descend, so that the order of codes is not that of ids.
    ids = Ids.of(users=range(n_users), items=range(n_items)[::-1])
    source: ScoreSource = Dense(matrix, ids)
    if as_candidates:
        user, item = np.nonzero(np.ones(matrix.shape))
        values = ids.items.take(as_codes(item))
        source = Candidates({"user": user, "item": values, "score": matrix[user, item]})
    model = FixedK(n_items).fit(source, only_training(ids, seen), on_missing="skip")
    found = model.recommend(source, on_missing="skip")
    codes = source.ids.items.codes(ids.items.values, "items")
    for user in range(n_users):
        own = dict(enumerate(matrix[user].tolist()))
        left = oracle.excluded({int(codes[item]): s for item, s in own.items()}, codes[seen[user]])
        wanted = oracle.top_positions([left[code] for code in range(n_items)], n_items)
        rows = found.filter(pl.col("user_id") == user)
        assert source.ids.items.codes(rows["item_id"], "items").tolist() == wanted
        assert rows["score"].to_list() == [left[code] for code in wanted]
        assert rows["rank"].to_list() == list(range(1, len(wanted) + 1))


# --- blocks -----------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [Dense(MATRIX, IDS), Candidates(scored_pairs())], ids=repr)
@pytest.mark.parametrize("pairs", [1, N_ITEMS, 5 * N_ITEMS + 3, BLOCK_PAIRS])
def test_blocks_of_any_size_hold_every_user_once_and_in_order(
    source: ScoreSource, pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_blocks_of(pairs, monkeypatch)
    split = random_split(source.ids, seed=4)
    users = as_codes(range(source.ids.n_users)[::-1])
    told: list[tuple[str, int, int]] = []
    stream = over_blocks(
        lambda block, rows: (block, rows),
        source,
        users,
        align(source.ids, split.ids),
        [split.train, split.validation],
        "reading",
        lambda *what: told.append(what),
    )
    asked: list[int] = []
    for block, rows in stream:
        assert block.users.size <= max(1, pairs // source.ids.n_items)
        assert rows.tolist() == block.users.tolist()
        asked += block.users.tolist()
        plain = source.block(block.users)
        for user, (items, scores), (_, before) in zip(
            block.users.tolist(),
            by_user(block, source.ids.n_items),
            by_user(plain, source.ids.n_items),
            strict=True,
        ):
            seen = [*split.train.items_of(user), *split.validation.items_of(user)]
            wanted = oracle.excluded(dict(zip(items, before.tolist(), strict=True)), seen)
            assert scores.tolist() == list(wanted.values())
    assert asked == users.tolist()
    assert told[0] == ("reading", 0, users.size)
    assert told[-1] == ("reading", users.size, users.size)
    assert [done for _, done, _ in told] == sorted(done for _, done, _ in told)


def test_the_matrix_of_all_users_by_all_items_never_exists() -> None:
    n_users, n_items = 4000, 3000
    ids = Ids.of(users=range(n_users), items=range(n_items))
    largest = []

    def rows(users: npt.NDArray[np.int32]) -> Array:
        largest.append(users.size)
        return np.sin(users[:, None] * 1.7 + np.arange(n_items, dtype=np.float32))

    source = Callable(rows, ids)
    split = only_training(ids, {})
    hit = Interactions(ids, np.arange(n_users + 1), as_codes(np.arange(n_users) % n_items))
    split = Split(split.train, hit, split.test, "given")
    tracemalloc.start()
    PersonalizedK(F1(), max_k=3, calibrator=GlobalPlatt()).fit(source, split).sizes(source)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert max(largest) * n_items <= BLOCK_PAIRS < n_users * n_items / 5
    assert peak < n_users * n_items * 8


def test_a_memory_map_larger_than_memory_is_read_by_its_rows(tmp_path: Path) -> None:
    shape = 40_000, 200_000  # 64 GB, of which the file system keeps what was written
    path = tmp_path / "matrix.npy"
    matrix = np.lib.format.open_memmap(path, mode="w+", dtype=np.float64, shape=shape)
    matrix[[3, 39_999], 5] = 1.0, 2.0
    matrix.flush()
    ids = Ids.of(users=range(shape[0]), items=range(shape[1]))
    source = Dense(np.load(path, mmap_mode="r"), ids)
    assert isinstance(source.matrix, np.memmap)
    scores = source.block(as_codes([39_999, 3])).scores
    assert scores[[5, shape[1] + 5]].tolist() == [2.0, 1.0]
    assert scores.sum() == 3.0
    path.unlink()


# --- ids --------------------------------------------------------------------------------------

COLUMNS = {"user_id": ["b", "a", "b"], "item_id": [20, 10, 10], "score": [1.5, 0.5, 2.5]}


def frames_of_four_kinds() -> dict[str, Any]:
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    duckdb = pytest.importorskip("duckdb")
    polars = pl.DataFrame(COLUMNS)
    return {
        "polars": polars,
        "pandas": pandas.DataFrame(COLUMNS),
        "pyarrow": arrow.table(COLUMNS),
        "duckdb": duckdb.from_arrow(polars.to_arrow()),
    }


def test_candidates_come_in_any_kind_of_frame_and_remember_it(tmp_path: Path) -> None:
    pl.DataFrame(COLUMNS).write_parquet(tmp_path / "candidates.parquet")
    pl.DataFrame(COLUMNS).write_csv(tmp_path / "candidates.csv")
    given_as: dict[str, Any] = frames_of_four_kinds()
    sources = {kind: Candidates(frame) for kind, frame in given_as.items()}
    for kind, source in sources.items():
        assert source.ids.frame_kind == kind
    for name in ("candidates.parquet", "candidates.csv"):
        sources[name] = Candidates(tmp_path / name)
        sources[f"loaded {name}"] = load_scores(str(tmp_path / name))  # type: ignore[assignment]
    for source in sources.values():
        assert source.ids.users.values.to_list() == ["a", "b"]
        assert source.ids.items.values.to_list() == [10, 20]
        assert source.block(as_codes([1, 0])).scores.tolist() == [2.5, 1.5, 0.5]
        assert source.block(as_codes([1, 0])).items.tolist() == [0, 1, 0]


def test_the_callers_frame_is_left_as_it_was() -> None:
    frame = scored_pairs()
    before = frame.clone()
    block = Candidates(frame).block(as_codes(range(N_USERS)))
    block.scores[:] = 0.0
    assert frame.equals(before)


def test_columns_of_candidates_can_be_named() -> None:
    frame = pl.DataFrame(COLUMNS).rename({"user_id": "who", "item_id": "what", "score": "much"})
    with pytest.raises(ColumnError, match="who"):
        Candidates(frame)
    source = Candidates(frame, user_id="who", item_id="what", score="much")
    assert source.ids == Candidates(COLUMNS).ids


def strangers(users: Iterable[Any], items: Iterable[Any]) -> Dense:
    """A source of other ids, all scores different."""
    ids = Ids.of(users=list(users), items=list(items))
    return Dense(np.arange(ids.n_users * ids.n_items).reshape(ids.n_users, -1), ids)


KNOWN = Ids.of(users=["a", "b"], items=[1, 2, 3])


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (strangers("abc", [1, 2, 3]), r"user 'c' of the scores is not among the interactions"),
        (strangers("cdeab", [1, 2, 3]), r"user 'c' of the scores .* \(nor are 2 others\)"),
        (strangers("b", [1, 2, 3]), r"user 'a' of the interactions is not among the scores"),
        (strangers("ab", [1, 2, 3, 4]), r"item 4 of the scores is not among the interactions"),
        (strangers("ab", [3, 1]), r"item 2 of the interactions is not among the scores"),
        (strangers([1, 2], [1, 2, 3]), r"the known ids are strings"),
        (strangers("ab", ["1", "2"]), r"the known ids are strings"),
    ],
)
def test_ids_that_the_other_side_does_not_know_are_named(source: Dense, words: str) -> None:
    with pytest.raises(IdError, match=words):
        align_whole(source, KNOWN, "error")
    with pytest.raises(IdError, match=words):
        FixedK(1).fit(source, only_training(KNOWN, {0: [0]}))


def test_what_the_other_side_does_not_know_can_be_skipped() -> None:
    found = align_whole(strangers("cb", [9, 3, 1]), KNOWN, "skip")
    assert found.rows.tolist() == [-1, 1]
    assert found.items.tolist() == [2, -1, 1]


def test_retrieved_candidates_may_lack_items_but_not_users() -> None:
    lacking = Candidates({"user": ["a", "b"], "item": [1, 3], "score": [0.0, 1.0]})
    assert align_whole(lacking, KNOWN, "error").items.tolist() == [0, -1, 1]
    one = Candidates({"user": ["a"], "item": [1], "score": [0.0]})
    with pytest.raises(IdError, match="user 'b' of the interactions"):
        align_whole(one, KNOWN, "error")


def test_on_missing_is_one_of_two_words() -> None:
    with pytest.raises(SettingError, match="on_missing is 'drop'; it can be 'error' or 'skip'"):
        align_whole(strangers("ab", [1, 2, 3]), KNOWN, "drop")  # type: ignore[arg-type]


# --- what can not be used ---------------------------------------------------------------------

SMALL = Ids.of(users=["u", "v"], items=["x", "y", "z"])
TWO, THREE = np.ones((2, 4)), np.ones((3, 4))
ONE_BAD = np.array([[0.0, 1.0], [np.nan, 1.0]])


def candidates_of(**changed: Any) -> Candidates:
    return Candidates(COLUMNS | changed)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: Factors(TWO, THREE[:, :3], SMALL), ScoreError, "4 factors and item_vectors 3"),
        (lambda: Factors(THREE, THREE, SMALL), ScoreError, "count 3 but the ids hold 2 users"),
        (lambda: Factors(TWO, TWO, SMALL), ScoreError, "count 2 but the ids hold 3 items"),
        (lambda: Factors(TWO, THREE, SMALL, np.ones(3)), ScoreError, "user_biases count 3"),
        (lambda: Factors(TWO, THREE, SMALL, None, [1.0]), ScoreError, "item_biases count 1"),
        (lambda: Factors(TWO, THREE, SMALL, TWO), ScoreError, "one number for each"),
        (lambda: Factors(np.ones(2), THREE, SMALL), ScoreError, r"user_vectors has shape \(2,\)"),
        (lambda: Factors([["a"], ["b"]], THREE, SMALL), ScoreError, "numbers are needed"),
        (lambda: Factors([[1.0], [1.0, 2.0]], THREE, SMALL), ScoreError, "array of numbers"),
        (lambda: Factors(TWO * 1j, THREE, SMALL), ScoreError, "complex"),
        (lambda: Factors(ONE_BAD, THREE[:, :2], SMALL), ScoreError, "NaN.*in the row of 'v'"),
        (lambda: Factors(TWO, THREE * [[1], [1], [np.inf]], SMALL), ScoreError, "row of 'z'"),
        (lambda: Factors(TWO, THREE, SMALL, [np.nan, 0.0]), ScoreError, "user_biases.* of 'u'"),
        (lambda: Factors(TWO, THREE, SMALL, None, [0, -np.inf, 0]), ScoreError, "row of 'y'"),
        (lambda: Dense(TWO, SMALL), ScoreError, "columns count 4 but the ids hold 3 items"),
        (lambda: Dense(THREE[:, :3], SMALL), ScoreError, "rows count 3 but the ids hold 2 users"),
        (lambda: Dense(np.ones(3), SMALL), ScoreError, r"two dimensions.*shape \(3,\)"),
        (lambda: Dense([["a"] * 3] * 2, SMALL), ScoreError, "needs numbers"),
        (lambda: Dense([[1.0], [1.0, 2.0]], SMALL), ScoreError, "array of numbers"),
        (lambda: Dense(np.ma.masked_equal(TWO[:, :3], 1), SMALL), ScoreError, "masked array"),
        (lambda: candidates_of(item_id=[10, 10, 10]), IdError, "item 10 .* user 'b' .*1 rep"),
        (lambda: candidates_of(score=["1", "2", "3"]), ScoreError, "not numbers.*score="),
        (lambda: candidates_of(score=[True, False, True]), ScoreError, "not numbers"),
        (lambda: candidates_of(score=[1.0, np.nan, 1.0]), ScoreError, "item 10 for user 'a' is N"),
        (
            lambda: candidates_of(score=[1.0, None, 1.0]),
            ScoreError,
            "item 10 for user 'a' is missing",
        ),
        (lambda: candidates_of(score=[np.inf, 1.0, 1.0]), ScoreError, "item 20 for .* 'b' is plus"),
        (lambda: candidates_of(user_id=["b", None, "b"]), IdError, "1 of 3 ids are missing"),
        (lambda: candidates_of(item_id=[1.5, 2.0, 3.0]), IdError, "decimal numbers"),
        (lambda: candidates_of(user_id=["b", 1, "b"]), InputError, "types int, str are mixed"),
        (lambda: Candidates({n: [] for n in COLUMNS}), FileFormatError, "hold no rows"),
        (lambda: Candidates({"user": [1], "item": [2]}), ColumnError, "no column for score"),
        (lambda: Candidates(7), InputError, "given as int"),
    ],
)
def test_what_can_not_be_a_source_is_refused_when_it_is_made(
    make: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        make()


@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "plus infinity")])
@pytest.mark.parametrize("kind", ["matrix", "function", "own"])
def test_a_score_that_can_not_be_ranked_is_refused_with_the_names_of_its_pair(
    value: float, word: str, kind: str
) -> None:
    matrix = MATRIX.copy()
    matrix[7, 2] = value
    good, split = Dense(MATRIX, IDS), random_split(IDS, seed=5)
    source: ScoreSource
    if kind == "matrix":
        source = Dense(matrix, IDS)
    elif kind == "function":
        source = Callable(lambda users: matrix[users], IDS)
    else:
        there = as_codes(np.tile([1, 2, 5], N_USERS))

        @dataclass(frozen=True)
        class Own:
            ids: Ids = IDS
            scores_every_item: bool = False

            def block(self, users: npt.NDArray[np.int32]) -> ScoreBlock:
                scores = matrix[users][:, [1, 2, 5]].reshape(-1)
                offsets = np.arange(users.size + 1, dtype=np.int64) * 3
                return ScoreBlock(users, scores, offsets, there[: scores.size])

        source = Own()
    message = rf"the score of item 102 for user 'u7' is {word}\. Give a finite score"
    with pytest.raises(ScoreError, match=message):
        PersonalizedK(F1(), max_k=3).fit(source, split)
    model = FixedK(3).fit(good, split)
    for verb in (model.sizes, model.recommend):
        with pytest.raises(ScoreError, match=message):
            verb(source, on_missing="skip")
    assert model.sizes(source, users=["u6"], on_missing="skip").height == 1


def test_products_that_overflow_are_refused_with_the_names_of_their_pair() -> None:
    users = np.array([[1.0], [1e30]], dtype=np.float32)
    items = np.array([[1.0], [2.0], [1e30]], dtype=np.float32)
    source = Factors(users, items, SMALL)
    model = FixedK(1).fit(source, only_training(SMALL, {}))
    with pytest.raises(ScoreError, match="item 'z' for user 'v' is plus infinity"):
        model.sizes(source)


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (np.ones((2, 2)), r"float64 of shape \(2, 2\) for 2 users; numbers of shape \(2, 3\)"),
        (np.ones(6), r"shape \(6,\)"),
        ([["a"] * 3] * 2, "numbers of shape"),
        ([[1.0], [1.0, 2.0]], "array of numbers"),
        (None, "numbers of shape"),
        (np.ma.masked_equal(np.ones((2, 3)), 0), "masked array"),
    ],
)
def test_a_function_that_returns_something_else_is_refused(returned: Any, words: str) -> None:
    with pytest.raises(ScoreError, match=f"the scoring function returned.*{words}|{words}"):
        Callable(lambda users: returned, SMALL).block(as_codes([0, 1]))


def test_a_function_may_write_to_the_users_it_gets() -> None:
    def rows(users: npt.NDArray[np.int32]) -> Array:
        users[:] = 0
        return np.ones((users.size, 3))

    block = Callable(rows, SMALL).block(as_codes([1, 0]))
    assert block.users.tolist() == [1, 0]


GOOD = Candidates({"user": ["u", "u", "v"], "item": ["x", "z", "y"], "score": [1.0, 2.0, 3.0]})
ALL = (0, 1, 2)


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("users", np.array([0, 1]), "arrays are of other types"),
        ("scores", np.array([1, 2, 3]), "arrays are of other types"),
        ("scores", np.ones(3, np.float16), "arrays are of other types"),
        ("offsets", as_codes([0, 2, 3]), "arrays are of other types"),
        ("items", np.array([0, 2, 1]), "arrays are of other types"),
        ("scores", np.ones((1, 3)), "flat, contiguous"),
        ("scores", np.ones(6)[::2], "flat, contiguous"),
        ("scores", np.broadcast_to(np.ones(1), 3), "can be written to"),
        ("users", as_codes([1, 0]), "users are not those"),
        ("users", as_codes([0]), "users are not those"),
        ("offsets", np.array([0, 3]), "offsets do not ascend"),
        ("offsets", np.array([1, 2, 3]), "offsets do not ascend"),
        ("offsets", np.array([0, 2, 4]), "offsets do not ascend"),
        ("offsets", np.array([0, 4, 3]), "offsets do not ascend"),
        ("items", as_codes([2, 0, 1]), "codes, ascending"),
        ("items", as_codes([0, 0, 1]), "codes, ascending"),
        ("items", as_codes([0, 3, 1]), "codes, ascending"),
        ("items", as_codes([-1, 2, 1]), "codes, ascending"),
        ("items", as_codes([0, 2]), "codes, ascending"),
        ("items", as_codes([]), "codes, ascending"),
    ],
)
def test_a_source_of_ones_own_with_a_wrong_block_is_told_what_is_wrong(
    field: str, value: Any, words: str
) -> None:
    class Wrong:
        ids = GOOD.ids
        scores_every_item = False

        def block(self, users: npt.NDArray[np.int32]) -> ScoreBlock:
            return ScoreBlock(**(vars(GOOD.block(users)) | {field: value}))

    model = FixedK(1).fit(GOOD, only_training(GOOD.ids, {}))
    assert model.sizes(GOOD).height == 2
    with pytest.raises(ScoreError, match=f"{words}.*Correct its block method"):
        model.sizes(Wrong())


# --- on disk ----------------------------------------------------------------------------------


@settings(max_examples=30)
@given(
    users=st.one_of(
        st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, unique=True),
        st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, unique=True),
    )
)
def test_factors_come_back_with_the_same_ids(tmp_path_factory: Any, users: list[Any]) -> None:
    path = tmp_path_factory.mktemp("scores") / "scores.npz"
    ids = Ids.of(users=users, items=[3, 1])
    source = Factors(np.arange(len(users))[:, None], [[1.0], [2.0]], ids)
    if any(isinstance(user, str) and user.endswith("\0") for user in users):
        with pytest.raises(IdError, match=r"NUL character.*Take it off"):
            source.save(path)
        assert not path.exists()
        return
    source.save(path)
    found = load_scores(path)
    assert found.ids == ids
    everybody = as_codes(range(len(users)))
    assert found.block(everybody).scores.tobytes() == source.block(everybody).scores.tobytes()


def test_what_numpy_saved_is_read_too(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "scores.npz",
        user_vectors=VECTORS[0],
        item_vectors=VECTORS[1],
        user_ids=np.array(IDS.users.values.to_list()),
        item_ids=np.arange(100, 100 + N_ITEMS, dtype=np.uint16),
    )
    found = load_scores(tmp_path / "scores.npz")
    assert found.ids.users == IDS.users
    assert found.ids.items == IDS.items
    assert found.block(as_codes([3])).scores.tolist() == (
        Factors(*VECTORS, IDS).block(as_codes([3])).scores.tolist()
    )


@pytest.mark.parametrize("kind", ["polars", "pandas", "pyarrow", "duckdb"])
def test_saved_factors_keep_the_kind_of_frame(tmp_path: Path, kind: Any) -> None:
    Factors(TWO, THREE, Ids(SMALL.users, SMALL.items, kind)).save(tmp_path / "scores.npz")
    assert load_scores(tmp_path / "scores.npz").ids.frame_kind == kind


def test_factors_without_a_kind_of_frame_are_polars(tmp_path: Path) -> None:
    _without("frame_kind", tmp_path / "scores.npz")
    assert load_scores(tmp_path / "scores.npz").ids.frame_kind == "polars"


def _of_kind(kind: Any, path: Path) -> None:
    np.savez(
        path,
        user_vectors=TWO,
        item_vectors=THREE,
        user_ids=["u", "v"],
        item_ids=["x", "y", "z"],
        frame_kind=kind,
    )


def _without(name: str, path: Path) -> None:
    Factors(*VECTORS, IDS).save(path)
    with np.load(path) as archive:
        arrays = {key: archive[key] for key in archive.files if key != name}
    np.savez(path, **arrays)


def _with_objects(path: Path) -> None:
    objects = np.array(["u", 7], dtype=object)
    np.savez(path, user_vectors=TWO, item_vectors=THREE, user_ids=objects, item_ids=[1, 2, 3])


def _single(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, TWO)


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (lambda path: None, "there is no file"),
        (lambda path: path.mkdir(), "there is no file"),
        (lambda path: path.write_bytes(b""), "not an .npz of plain arrays"),
        (lambda path: path.write_text("user,item,score"), "not an .npz of plain arrays"),
        (_single, "a single array"),
        (_with_objects, "not an .npz of plain arrays"),
        (lambda path: _without("user_ids", path), "user_ids are missing"),
        (lambda path: np.savez(path), "holds the arrays none"),
        (lambda path: _of_kind("dask", path), "'dask'; it can be polars, pandas"),
        (lambda path: _of_kind(["polars"], path), r"is \['polars'\]; it can be polars"),
        (lambda path: _of_kind(5.0, path), "is 5.0; it can be polars"),
    ],
)
def test_a_file_that_holds_no_factors_is_refused(tmp_path: Path, write: Any, words: str) -> None:
    path = tmp_path / "scores.npz"
    write(path)
    with pytest.raises(FileFormatError, match=words) as caught:
        load_scores(path)
    assert str(path) in str(caught.value)


@settings(max_examples=100)
@given(data=st.data())
def test_any_damage_to_a_file_is_found_or_harmless(tmp_path_factory: Any, data: Any) -> None:
    path = tmp_path_factory.mktemp("scores") / "scores.npz"
    source = Factors(TWO * 0.5, THREE, SMALL)
    source.save(path)
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content = content[:place]
    else:
        content[place] ^= data.draw(st.integers(1, 255))
    path.write_bytes(content)
    try:
        found = load_scores(path)
    except InputError:
        return
    assert found.ids == SMALL
    assert found.block(as_codes([1])).scores.tolist() == [2.0, 2.0, 2.0]


def test_a_save_replaces_a_file_whole_or_leaves_it_alone(tmp_path: Path) -> None:
    path = tmp_path / "scores.npz"
    Factors(TWO, THREE, SMALL).save(path)
    before = path.read_bytes()
    ending = Ids.of(users=["u", "v\0"], items=["x", "y", "z"])
    with pytest.raises(IdError):
        Factors(TWO, THREE, ending).save(path)
    assert path.read_bytes() == before
    Factors(TWO * 2, THREE, SMALL).save(path)
    assert load_scores(path).block(as_codes([0])).scores.tolist() == [8.0, 8.0, 8.0]
    assert [entry.name for entry in tmp_path.iterdir()] == ["scores.npz"]
    with pytest.raises(StorageError, match=r"scores\.npy: arrays go to \.npz files"):
        Factors(TWO, THREE, SMALL).save(tmp_path / "scores.npy")
    with pytest.raises(StorageError):
        Factors(TWO, THREE, SMALL).save(tmp_path / "missing" / "scores.npz")
    assert [entry.name for entry in tmp_path.iterdir()] == ["scores.npz"]
