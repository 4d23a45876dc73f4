"""How many items each user gets: the best of all lengths, whoever else is asked about."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
from contracts import as_codes, content_of, in_blocks_of, interactions_of, random_split
from topperk import (
    DCG,
    F1,
    NDCG,
    PDCG,
    TP,
    Candidates,
    ChoiceOfK,
    Custom,
    Dense,
    FBeta,
    FittedK,
    FixedK,
    IdIndex,
    Ids,
    NetGain,
    OracleK,
    PersonalizedK,
    Precision,
    RandomK,
    Reason,
    Recall,
    Split,
    Uncalibrated,
    UserPlatt,
    Utility,
    ValidationK,
)
from topperk.datasets.simulated import World, simulate_world
from topperk.errors import IdError, ScoreError, SettingError
from topperk.scores import ScoreBlock

Array = npt.NDArray[np.float64]

MEASURES: list[tuple[Utility, oracle.Measure]] = [
    (NDCG(), oracle.ndcg),
    (PDCG(), oracle.pdcg),
    (F1(), oracle.f_beta(1.0)),
    (FBeta(2.0), oracle.f_beta(2.0)),
    (TP(), oracle.tp),
    (Precision(), oracle.precision),
    (Recall(), oracle.recall),
    (DCG(), oracle.dcg),
    (NetGain(1.0, 0.3), oracle.net_gain(1.0, 0.3)),
]
EACH = pytest.mark.parametrize(("utility", "measure"), MEASURES, ids=[u.name for u, _ in MEASURES])

# --- small worlds, whose scores are probabilities ---------------------------------------------

N_USERS, N_ITEMS = 4, 6
IDS = Ids.of(users=["d", "b", "c", "a"], items=[50, 10, 60, 20, 40, 30])
AS_THEY_ARE = Uncalibrated(scale="probability").fit(
    Dense(np.random.default_rng(0).random((N_USERS, N_ITEMS)), IDS), random_split(IDS, seed=0)
)


@dataclass(frozen=True)
class Case:
    """Probabilities of all pairs (minus infinity: no candidate), and what was and will be seen."""

    matrix: Array
    split: Split
    min_k: int
    max_k: int

    @property
    def source(self) -> Dense:
        return Dense(self.matrix, self.split.ids)

    def personal(self, utility: Utility, **changed: Any) -> FittedK:
        given_settings = {"min_k": self.min_k, "max_k": self.max_k, "calibrator": AS_THEY_ARE}
        return PersonalizedK(utility, **(given_settings | changed)).fit(self.source, self.split)

    def ranked(self, user: int, parts: Sequence[str] = ("train", "validation")) -> list[int]:
        """All of a user's candidates in order, without what is in the parts."""
        seen = [i for name in parts for i in self.split.parts()[name].items_of(user).tolist()]
        row = oracle.excluded(dict(enumerate(self.matrix[user].tolist())), seen)
        return oracle.top_positions(list(row.values()), N_ITEMS)

    def probabilities(self, user: int) -> Array:
        return self.matrix[user, self.ranked(user)]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Few different probabilities, so that many tie, 0 and 1 among them."""
    p = st.sampled_from([-np.inf, 0.0, 1e-12, 0.1, 0.1, 0.3, 0.5, 0.5, 0.8, 1.0])
    shape = {"min_size": N_USERS * N_ITEMS, "max_size": N_USERS * N_ITEMS}
    matrix = np.array(draw(st.lists(p, **shape))).reshape(N_USERS, N_ITEMS)
    fate = np.array(draw(st.lists(st.integers(0, 7), **shape))).reshape(N_USERS, N_ITEMS)
    # fates 0 to 2 are the three parts; what has another happens in none
    parts = [interactions_of(IDS, [np.flatnonzero(row == n) for row in fate]) for n in range(3)]
    min_k = draw(st.integers(0, N_ITEMS))
    max_k = draw(st.integers(max(1, min_k), N_ITEMS))
    return Case(matrix, Split(*parts, "given"), min_k, max_k)


def rows_by_user(frame: pl.DataFrame) -> dict[Any, list[dict[str, Any]]]:
    found: dict[Any, list[dict[str, Any]]] = {user: [] for user in frame["user_id"].unique()}
    for row in frame.to_dicts():
        found[row.pop("user_id")].append(row)
    return found


# --- the best of all lengths ------------------------------------------------------------------


@EACH
@settings(max_examples=25)
@given(case=cases())
def test_k_is_the_best_of_all_lengths_over_all_outcomes(
    case: Case, utility: Utility, measure: oracle.Measure
) -> None:
    model = case.personal(utility)
    sizes = model.sizes(case.source, on_missing="skip")
    curves = rows_by_user(model.curves(case.source, on_missing="skip"))
    for user, row in enumerate(sizes.to_dicts()):
        p = case.probabilities(user)
        wanted = oracle.expected_curve(measure, p, min(case.max_k, p.size))
        assert row["user_id"] == IDS.users.values[user]
        assert row["k"] == oracle.best_length(wanted, case.min_k, case.max_k, 1e-12)
        assert row["expected_utility"] == pytest.approx(wanted[row["k"]], abs=1e-10)
        assert row["expected_relevant"] == pytest.approx(p[: row["k"]].sum(), abs=1e-10)
        reason = Reason.UNCALIBRATED if p.size else Reason.NO_CANDIDATES
        assert row["calibration"] == reason.name.lower()
        curve = curves[row["user_id"]]
        assert [point["k"] for point in curve] == list(range(wanted.size))
        found = [point["expected_utility"] for point in curve]
        assert found == pytest.approx(wanted.tolist(), abs=1e-10)
        assert found[row["k"]] == row["expected_utility"]


PRINTED = [(NDCG(), "NDCG"), (F1(), "F1"), (TP(), "TP")]


@pytest.mark.parametrize(("utility", "name"), PRINTED, ids=[name for _, name in PRINTED])
@settings(max_examples=20)
@given(case=cases(), terms=st.integers(1, 15))
def test_the_papers_method_is_its_printed_formulas(
    case: Case, terms: int, utility: Utility, name: str
) -> None:
    model = case.personal(utility, method="paper", paper_terms=terms)
    curves = rows_by_user(model.curves(case.source, on_missing="skip"))
    for user, row in enumerate(model.sizes(case.source, on_missing="skip").to_dicts()):
        p = case.probabilities(user)
        wanted = oracle.expected_curve_paper(name, p, min(case.max_k, p.size), terms)
        found = [point["expected_utility"] for point in curves[row["user_id"]]]
        assert found == pytest.approx(wanted.tolist(), abs=1e-9)
        assert row["k"] == oracle.best_length(found, case.min_k, case.max_k, 1e-12)


def test_ties_go_to_the_smallest_length() -> None:
    """Every length is worth the same where all probabilities are, or where none counts."""
    nothing = interactions_of(IDS, [[]] * N_USERS)
    split = Split(nothing, nothing, nothing, "given")
    for p, utility in ((0.3, Precision()), (0.5, PDCG()), (0.0, F1()), (0.0, NDCG())):
        case = Case(np.full((N_USERS, N_ITEMS), p), split, 1, N_ITEMS)
        for min_k in (0, 1, 4):
            found = case.personal(utility, min_k=min_k).sizes(case.source)["k"].unique().to_list()
            # an empty list is worth 0, and so less than one with a hope
            assert found == [max(min_k, int(p > 0 and utility == Precision()))]


@EACH
@settings(max_examples=15)
@given(case=cases())
def test_a_larger_max_k_never_lowers_the_best(
    case: Case, utility: Utility, measure: oracle.Measure
) -> None:
    best = np.full(N_USERS, -np.inf)
    for max_k in range(max(1, case.min_k), N_ITEMS + 1):
        model = case.personal(utility, max_k=max_k)
        found = model.sizes(case.source, on_missing="skip")["expected_utility"].to_numpy()
        assert (found >= best - 1e-12).all()
        best = found


@settings(max_examples=50)
@given(case=cases(), cost=st.floats(0.0, 5.0))
def test_where_lists_can_cost_an_empty_one_may_be_best(case: Case, cost: float) -> None:
    for utility in (PDCG(), NetGain(1.0, cost)):
        free = case.personal(utility, min_k=0).sizes(case.source, on_missing="skip")
        assert (free["expected_utility"] >= 0.0).all()
        assert (free.filter(pl.col("k") == 0)["expected_utility"] == 0.0).all()
        held = case.personal(utility, min_k=1).sizes(case.source, on_missing="skip")
        has_any = np.array([case.probabilities(user).size > 0 for user in range(N_USERS)])
        assert ((held["k"].to_numpy() >= 1) == has_any).all()
        # where a list is worth something, the two agree
        gained = free["k"].to_numpy() > 0
        assert free["k"].to_numpy()[gained].tolist() == held["k"].to_numpy()[gained].tolist()
        lost = held["expected_utility"].to_numpy() < -1e-12
        assert not (lost & gained).any()


@given(case=cases())
def test_who_has_fewer_candidates_than_min_k_gets_them_all(case: Case) -> None:
    for settings_of in (PersonalizedK(F1(), 5, 6, AS_THEY_ARE), RandomK(0, 5, 6), FixedK(5)):
        found = settings_of.fit(case.source, case.split, on_missing="skip")
        for user, k in enumerate(found.sizes(case.source, on_missing="skip")["k"]):
            n = case.probabilities(user).size
            assert k == n if n <= 5 else 5 <= k <= 6


# --- lists ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def world() -> World:
    return simulate_world(n_users=60, n_items=120, seed=3, mean_relevant=25.0)


@pytest.fixture(scope="module")
def source(world: World) -> Dense:
    """The world's scores as a matrix, with many of them equal."""
    rows = world.scores.block(as_codes(range(world.ids.n_users))).scores
    return Dense(np.round(rows.reshape(world.ids.n_users, -1).astype(np.float64), 1), world.ids)


METHODS: dict[str, ChoiceOfK] = {
    "personal": PersonalizedK(F1(), max_k=20),
    "personal, maybe none": PersonalizedK(PDCG(), min_k=0, max_k=120),
    "paper": PersonalizedK(NDCG(), max_k=10, method="paper", paper_terms=100),
    "fixed": FixedK(7),
    "random": RandomK(seed=5, min_k=0, max_k=20),
    "validation": ValidationK(NDCG(), max_k=20),
    "oracle": OracleK(PDCG(), min_k=0, max_k=20),
}
ALL = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS.keys())


@ALL
def test_lists_go_by_score_then_item_code_to_the_users_length(
    world: World, source: Dense, method: ChoiceOfK
) -> None:
    model = method.fit(source, world.split)
    sizes, lists = model.sizes(source), rows_by_user(model.recommend(source))
    assert sizes["user_id"].to_list() == world.ids.users.values.to_list()
    assert sizes["k"].is_between(model.min_k, model.max_k).all()
    case = Case(source.matrix, world.split, 0, 1)
    for user, row in enumerate(sizes.to_dicts()):
        seen = [*world.split.train.items_of(user), *world.split.validation.items_of(user)]
        scores = oracle.excluded(dict(enumerate(source.matrix[user].tolist())), map(int, seen))
        wanted = oracle.top_positions([scores[i] for i in range(120)], row["k"])
        shown = lists.get(row["user_id"], [])
        assert [r["item_id"] for r in shown] == [f"item-{item:04d}" for item in wanted]
        assert [r["rank"] for r in shown] == list(range(1, row["k"] + 1))
        assert [r["score"] for r in shown] == [case.matrix[user, item] for item in wanted]
        if model.calibration is None:
            assert np.isnan([r["probability"] for r in shown]).all()
            assert np.isnan([row["expected_utility"], row["expected_relevant"]]).all()
            continue
        block = source.block(as_codes([user]))
        p = model.calibration.probabilities(block, as_codes([user]))
        assert [r["probability"] for r in shown] == p[wanted].tolist()
        assert row["expected_relevant"] == pytest.approx(p[wanted].sum(), rel=1e-12)


@ALL
def test_whoever_else_is_asked_about_and_in_whatever_blocks_the_answer_is_the_same(
    world: World, source: Dense, method: ChoiceOfK, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = method.fit(source, world.split)
    users = world.ids.users.values.to_list()
    sizes, lists = model.sizes(source), model.recommend(source)
    for pairs in (1, 7 * 120):
        in_blocks_of(pairs, monkeypatch)
        assert model.sizes(source).equals(sizes)
        assert model.recommend(source).equals(lists)
        again = method.fit(source, world.split)
        assert again.sizes(source).equals(sizes)
        monkeypatch.undo()
    assert pl.concat([model.sizes(source, users=[user]) for user in users]).equals(sizes)
    some = users[40:3:-3]
    assert model.sizes(source, users=some).equals(sizes[list(range(40, 3, -3))])
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(lambda _: model.recommend(source), range(8)):
            assert found.equals(lists)


@ALL
def test_permuting_users_and_items_permutes_the_answer(
    world: World, source: Dense, method: ChoiceOfK
) -> None:
    rng = np.random.default_rng(1)
    users, items = rng.permutation(60), rng.permutation(120)
    matrix = source.matrix + rng.random(source.matrix.shape) / 100  # no two are equal
    plain = Dense(matrix, world.ids)
    ids = Ids(world.ids.users.part(users), world.ids.items.part(items))
    other = Dense(matrix[users][:, items], ids)
    model = method.fit(plain, world.split)
    wanted = model.sizes(plain)[users.tolist()]
    for serving in (model, method.fit(other, world.split)):
        found = serving.sizes(other)
        for exact in ("user_id", "k", "calibration"):
            assert found[exact].to_list() == wanted[exact].to_list()
        for near in ("expected_utility", "expected_relevant"):
            np.testing.assert_allclose(found[near], wanted[near], rtol=1e-7)
        shown, before = serving.recommend(other), model.recommend(plain)
        key = ["user_id", "item_id", "rank", "score"]
        assert shown.select(key).sort(key).equals(before.select(key).sort(key))


def test_products_of_factors_in_any_blocks_give_the_same_lengths(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = PersonalizedK(F1(), max_k=20).fit(world.scores, world.split)
    whole = model.sizes(world.scores)
    for pairs in (1, 7 * 120):
        in_blocks_of(pairs, monkeypatch)
        found = model.sizes(world.scores)
        monkeypatch.undo()
        assert found["k"].to_list() == whole["k"].to_list()
        for name in ("expected_utility", "expected_relevant"):
            np.testing.assert_allclose(found[name], whole[name], rtol=1e-6)


@ALL
def test_scores_and_split_are_left_as_they_were(
    world: World, source: Dense, method: ChoiceOfK
) -> None:
    matrix, split = source.matrix.copy(), content_of(world.split)
    matrix.flags.writeable = False
    own = Dense(matrix, world.ids)
    model = method.fit(own, world.split)
    for verb in (model.sizes, model.recommend):
        verb(own)
    assert content_of(world.split) == split
    np.testing.assert_array_equal(matrix, source.matrix)


@ALL
def test_progress_tells_of_every_user(world: World, source: Dense, method: ChoiceOfK) -> None:
    told: list[tuple[str, int, int]] = []
    model = method.fit(source, world.split, progress=lambda *what: told.append(what))
    model.sizes(source, progress=lambda *what: told.append(what))
    assert ("choosing lengths", 60, 60) in told
    assert all(0 <= done <= total for _, done, total in told)


# --- frames and ids ---------------------------------------------------------------------------

USERS, ITEMS = [3, 1, 2], ["x", "y", "z", "w"]


def scored(kind: str) -> Any:
    """All pairs of three users and four items, in a frame of the kind."""
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    duckdb = pytest.importorskip("duckdb")
    frame = pl.DataFrame(
        {
            "user_id": pl.Series(np.repeat(USERS, 4), dtype=pl.Int16),
            "item_id": pl.Series(ITEMS * 3, dtype=pl.Enum(["w", "z", "x", "y"])),
            "score": np.arange(12.0)[::-1],
        }
    )
    plain = frame.with_columns(pl.col("item_id").cast(pl.String))
    return {
        "polars": lambda: frame,
        "pandas": lambda: pandas.DataFrame(
            {
                "user_id": frame["user_id"].to_numpy(),
                "item_id": pandas.Categorical(ITEMS * 3, ["w", "z", "x", "y"]),
                "score": frame["score"].to_numpy(),
            }
        ),
        "pyarrow": lambda: arrow.table(plain.to_arrow()),
        "duckdb": lambda: duckdb.from_arrow(plain.to_arrow()),
    }[kind]()


@pytest.mark.parametrize("kind", ["polars", "pandas", "pyarrow", "duckdb"])
def test_answers_are_frames_of_the_scores_kind_with_ids_of_their_type(kind: str) -> None:
    given_frame = scored(kind)
    source = Candidates(given_frame)
    nothing = interactions_of(source.ids, [[]] * 3)
    seen = interactions_of(source.ids, [[0], [], []])
    hit = interactions_of(source.ids, [[1], [2], []])
    split = Split(seen, hit, nothing, "given")
    model = PersonalizedK(NetGain(1.0, 0.0), max_k=4, calibrator=Uncalibrated()).fit(source, split)
    answers = [verb(source) for verb in (model.sizes, model.recommend, model.curves)]
    assert [type(answer) for answer in answers] == [type(given_frame)] * 3
    sizes, lists, curves = (
        answer.pl() if kind == "duckdb" else pl.DataFrame(answer) for answer in answers
    )
    assert sizes.columns == [
        "user_id",
        "k",
        "expected_utility",
        "expected_relevant",
        "calibration",
    ]
    assert lists.columns == ["user_id", "item_id", "rank", "score", "probability"]
    assert curves.columns == ["user_id", "k", "expected_utility"]
    assert sizes["user_id"].to_list() == [1, 2, 3]
    assert sizes["k"].to_list() == [2, 3, 4]
    assert [frame["user_id"].dtype for frame in (sizes, lists, curves)] == [pl.Int16] * 3
    # scores fall with x, y, z, w; codes go by the strings: w, x, y, z
    assert lists.filter(pl.col("user_id") == 3)["item_id"].to_list() == ["x", "y", "z", "w"]
    assert lists.filter(pl.col("user_id") == 1)["item_id"].to_list() == ["y", "z"]
    if kind == "polars":
        assert lists["item_id"].dtype == pl.Enum(["w", "z", "x", "y"])
    if kind == "pandas":
        assert list(answers[1]["item_id"].cat.categories) == ["w", "z", "x", "y"]
    nobody = model.recommend(source, users=[])
    assert type(nobody) is type(given_frame)


def test_nobody_has_an_answer_with_columns_and_no_rows(world: World, source: Dense) -> None:
    model = METHODS["personal"].fit(source, world.split)
    for verb in (model.sizes, model.recommend, model.curves):
        assert verb(source, users=[]).schema == verb(source).schema
        assert verb(source, users=[]).height == 0


def test_users_are_given_as_any_column_of_ids(world: World, source: Dense) -> None:
    model = METHODS["personal"].fit(source, world.split)
    names = ["user-0031", "user-0002", "user-0031"]
    wanted = model.sizes(source)[[31, 2, 31]]
    for users in (names, tuple(names), iter(names), np.array(names), pl.Series(names)):
        assert model.sizes(source, users=users).equals(wanted)


@pytest.mark.parametrize(
    ("users", "error", "words"),
    [
        (["user-0001", "ann", "bob"], IdError, "no scores for user 'ann'. Choose among the 60"),
        ("user-0001", SettingError, r"the one string 'user-0001'. .* users=\['user-0001'\]"),
        ([7], IdError, "the known ids are strings"),
        ([None], IdError, "missing"),
        (["user-0001", 7], IdError, "mixed"),
    ],
)
def test_users_who_can_not_be_found_are_named(
    world: World, source: Dense, users: Any, error: type[Exception], words: str
) -> None:
    model = METHODS["fixed"].fit(source, world.split)
    with pytest.raises(error, match=words):
        model.sizes(source, users=users)


def test_integers_of_another_width_are_the_same_users() -> None:
    narrow = Ids(IdIndex(pl.Series([1, 2, 3], dtype=pl.Int8)), IDS.items)
    wide = Ids(IdIndex(pl.Series([3, 2, 1, 300], dtype=pl.Int64)), IDS.items)
    rows = np.random.default_rng(2).normal(size=(4, N_ITEMS))
    split = random_split(narrow, seed=7)
    model = PersonalizedK(F1(), max_k=5).fit(Dense(rows[2::-1], narrow), split)
    one, other = model.sizes(Dense(rows[2::-1], narrow)), model.sizes(Dense(rows, wide))
    assert other["k"][:3].to_list() == one["k"].to_list()[::-1]
    assert other["user_id"].to_list() == [3, 2, 1, 300]
    assert other["calibration"][3] == "new_user"


# --- strangers, and those who have nothing ----------------------------------------------------


@ALL
def test_a_new_user_gets_what_is_known_of_all(
    world: World, source: Dense, method: ChoiceOfK
) -> None:
    model = method.fit(source, world.split)
    matrix = np.vstack([source.matrix[:1], source.matrix])
    ids = Ids.of(users=["new", *world.ids.users.values], items=world.ids.items.values)
    found = model.sizes(Dense(matrix, ids))
    assert found[1:].equals(model.sizes(source))
    top = oracle.top_positions(matrix[0].tolist(), found["k"][0])
    shown = model.recommend(Dense(matrix, ids), users=["new"])["item_id"].to_list()
    assert shown == [f"item-{item:04d}" for item in top]  # nothing was seen
    known = {"fixed": "fixed", "random": "random", "oracle": "new_user"}
    if model.name in known:
        assert found["calibration"][0] == known[model.name]
    elif model.calibration is not None:
        slope, intercept = model.calibration.population  # type: ignore[attr-defined]
        p = oracle.sigmoid(slope * matrix[0, top] + intercept)
        listed = model.recommend(Dense(matrix, ids), users=["new"])["probability"]
        np.testing.assert_allclose(listed, p, rtol=1e-9)
        assert found["calibration"][0] == "new_user"


def test_an_item_that_was_unknown_in_fitting_is_a_candidate_of_everybody(
    world: World, source: Dense
) -> None:
    ids = Ids.of(users=world.ids.users.values, items=["brand new", *world.ids.items.values])
    matrix = np.column_stack([np.full(60, 99.0), source.matrix])
    lists = FixedK(3).fit(source, world.split).recommend(Dense(matrix, ids))
    assert lists.filter(pl.col("rank") == 1)["item_id"].unique().to_list() == ["brand new"]
    assert lists.height == 180


@ALL
def test_a_user_without_candidates_is_named_or_gets_an_empty_list(
    world: World, source: Dense, method: ChoiceOfK
) -> None:
    model = method.fit(source, world.split)
    matrix = source.matrix.copy()
    matrix[5] = -np.inf
    seen = [*world.split.train.items_of(8), *world.split.validation.items_of(8)]
    matrix[8, np.setdiff1d(np.arange(120), seen)] = -np.inf  # what is scored was seen
    empty = Dense(matrix, world.ids)
    with pytest.raises(ScoreError, match=r"user 'user-0005' has no candidate left.*skip"):
        model.sizes(empty)
    with pytest.raises(ScoreError, match="user 'user-0008' has no candidate left"):
        model.recommend(empty, users=["user-0008"])
    sizes = model.sizes(empty, on_missing="skip")
    for user in (5, 8):
        assert sizes.row(user, named=True)["k"] == 0
        assert sizes.row(user, named=True)["calibration"] == "no_candidates"
    others = [user for user in range(60) if user not in (5, 8)]
    assert sizes[others].equals(model.sizes(source)[others])
    lists = model.recommend(empty, on_missing="skip")
    assert not {"user-0005", "user-0008"} & set(lists["user_id"])
    if model.utility is not None:
        assert sizes["expected_utility"][5] == sizes["expected_relevant"][5] == 0.0


def test_scores_that_share_no_item_or_hold_too_few_are_refused(world: World, source: Dense) -> None:
    model = METHODS["personal"].fit(source, world.split)
    others = Ids.of(users=world.ids.users.values, items=[f"x{n}" for n in range(120)])
    with pytest.raises(IdError, match="knows none of the scores' 120 items"):
        model.sizes(Dense(source.matrix, others))
    few = Ids.of(users=world.ids.users.values, items=world.ids.items.values[:19])
    with pytest.raises(SettingError, match="max_k is 20 but the scores hold only 19 items"):
        model.sizes(Dense(source.matrix[:, :19], few))
    with pytest.raises(SettingError, match="on_missing is 'pass'"):
        model.sizes(source, on_missing="pass")  # type: ignore[arg-type]


# --- the methods one by one -------------------------------------------------------------------


@EACH
@pytest.mark.parametrize("kind", [ValidationK, OracleK], ids=["validation", "oracle"])
@settings(max_examples=20)
@given(case=cases())
def test_in_hindsight_every_length_is_tried(
    case: Case, utility: Utility, measure: oracle.Measure, kind: Any
) -> None:
    part, seen = ("validation", ["train"]) if kind is ValidationK else ("test", None)
    own, judged, padded = [], [], []
    for user in range(N_USERS):
        positives = case.split.parts()[part].items_of(user).tolist()
        listed = case.ranked(user, seen or ["train", "validation"])[: case.max_k]
        hits = [int(hit) for hit in oracle.hits_of(listed, positives)]
        curve = oracle.realised_curve(measure, hits, len(positives), len(hits))
        own.append(oracle.best_length(curve, case.min_k, case.max_k, 1e-12))
        judged.append(len(positives) > 0)
        # a list ends with the candidates, so longer ones are worth as much
        padded.append([*curve, *[curve[-1]] * (case.max_k + 1 - curve.size)])
    method = kind(utility, case.min_k, case.max_k)
    if not any(judged):
        with pytest.raises(SettingError, match=f"no user has a {part} interaction"):
            method.fit(case.source, case.split)
        return
    model = method.fit(case.source, case.split)
    mean = np.mean([curve for curve, one in zip(padded, judged, strict=True) if one], axis=0)
    overall = oracle.best_length(mean, case.min_k, case.max_k, 1e-12)
    found = model.sizes(case.source, on_missing="skip").to_dicts()
    for user, row in enumerate(found):
        n = case.probabilities(user).size
        of_own = judged[user] or kind is OracleK
        assert row["k"] == min(own[user] if of_own else overall, n)
        reason = "best_on_test" if kind is OracleK else "no_validation_positive"
        reason = "best_on_validation" if of_own and kind is ValidationK else reason
        assert row["calibration"] == (reason if n else "no_candidates")
    stranger = Dense(np.arange(6.0)[None, :], Ids.of(users=["e"], items=IDS.items.values))
    assert model.sizes(stranger)["k"].to_list() == [overall]


@pytest.mark.parametrize("kind", [ValidationK, OracleK], ids=["validation", "oracle"])
def test_who_had_few_candidates_in_fitting_can_get_longer_lists_of_other_scores(kind: Any) -> None:
    part, nothing = interactions_of(IDS, [[0]] * N_USERS), interactions_of(IDS, [[]] * N_USERS)
    validation, test = (part, nothing) if kind is ValidationK else (nothing, part)
    split = Split(nothing, validation, test, "given")
    rich = np.tile(-np.arange(6.0), (N_USERS, 1))
    poor = rich.copy()
    poor[0], poor[1, 1:] = -np.inf, -np.inf
    model = kind(TP(), 2, 5).fit(Dense(poor, IDS), split, on_missing="skip")
    found = model.sizes(Dense(rich, IDS))
    assert found["k"].to_list() == [2] * N_USERS
    assert found["calibration"][0] == "not_scored"
    assert found["calibration"][1:].str.starts_with("best_on").all()


def test_a_fixed_length_is_everybodys(world: World, source: Dense) -> None:
    for k in (1, 7, 120):
        model = FixedK(k).fit(source, world.split)
        left = 120 - world.split.train.counts_per_user() - world.split.validation.counts_per_user()
        assert model.sizes(source)["k"].to_list() == np.minimum(k, left).tolist()
        assert model.sizes(source)["calibration"].unique().to_list() == ["fixed"]
        assert model.fixed_k == k
    assert METHODS["personal"].fit(source, world.split).fixed_k is None


def test_a_random_length_follows_from_the_seed_and_the_users_id_alone() -> None:
    ids = Ids.of(users=range(3000), items=range(12))
    one = Dense(np.random.default_rng(0).random((3000, 12)), ids)
    nothing = interactions_of(ids, [[]] * 3000)
    split = Split(nothing, nothing, nothing, "given")
    ks = RandomK(1, 2, 7).fit(one, split).sizes(one)["k"].to_numpy()
    # other scores, fewer users in another order, and strangers to the model
    fewer = Ids.of(users=[77, 5, 2999], items=range(12))
    other = Dense(np.ones((3, 12)), fewer)
    empty = interactions_of(fewer, [[]] * 3)
    little = Split(interactions_of(fewer, [[1], [], [2]]), empty, empty, "given")
    for model in (RandomK(1, 2, 7).fit(one, split), RandomK(1, 2, 7).fit(other, little)):
        assert model.sizes(other)["k"].to_list() == ks[[77, 5, 2999]].tolist()
        assert model.sizes(one)["k"].to_list() == ks.tolist()
    # every length is drawn about equally often: 500 times, with a standard deviation of 20
    assert np.unique(ks).tolist() == [2, 3, 4, 5, 6, 7]
    assert np.abs(np.bincount(ks)[2:] - 500).max() < 80
    again = RandomK(2, 2, 7).fit(one, split).sizes(one)["k"].to_numpy()
    assert 0.1 < (again == ks).mean() < 0.24


def test_methods_that_estimate_nothing_have_no_curves_and_no_utility(
    world: World, source: Dense
) -> None:
    for name in ("fixed", "random", "validation", "oracle"):
        model = METHODS[name].fit(source, world.split)
        assert model.utility is None
        with pytest.raises(SettingError, match=f"{model.name}' estimates no utility.*Personaliz"):
            model.curves(source)
        with pytest.raises(SettingError, match=f"{model.name}' chooses for no utility"):
            model.for_utility(F1())


# --- settings and fitted objects --------------------------------------------------------------


@ALL
def test_fitting_gives_a_new_object_and_changes_no_settings(
    world: World, source: Dense, method: ChoiceOfK
) -> None:
    before = repr(method)
    one, other = method.fit(source, world.split), method.fit(source, world.split)
    assert one is not other
    assert repr(method) == before
    assert one.sizes(source).equals(other.sizes(source))
    for thing, field in ((method, "max_k"), (method, "k"), (one, "max_k"), (one.policy, "k")):
        with pytest.raises(FrozenInstanceError):
            setattr(thing, field, 3)


def test_one_calibration_serves_several_utilities(world: World, source: Dense) -> None:
    calibration = UserPlatt().fit(source, world.split)
    first = PersonalizedK(F1(), max_k=9, calibrator=calibration).fit(source, world.split)
    for utility, _ in MEASURES:
        afresh = PersonalizedK(utility, max_k=9, calibrator=UserPlatt()).fit(source, world.split)
        shared = first.for_utility(utility)
        assert shared.utility == utility
        assert shared.calibration is calibration
        assert shared.sizes(source).equals(afresh.sizes(source))
    assert first.utility == F1()
    with pytest.raises(SettingError, match="given for 3 ranks and needed for 9"):
        first.for_utility(Custom("short", [1.0, 1.0, 1.0]))


def test_a_calibration_of_other_users_is_refused(world: World, source: Dense) -> None:
    with pytest.raises(IdError, match="fitted on 4 users that are not the split's 60"):
        PersonalizedK(F1(), calibrator=AS_THEY_ARE).fit(source, world.split)


@dataclass(frozen=True)
class Stated:
    """Somebody's own calibration, which states probabilities whatever the scores."""

    stated: Any

    @property
    def users(self) -> IdIndex:
        return IDS.users

    def probabilities(self, block: ScoreBlock, rows: npt.NDArray[np.int32]) -> Any:
        return self.stated(block.scores)

    def reasons(self, rows: npt.NDArray[np.int32]) -> npt.NDArray[np.uint8]:
        return np.full(rows.size, Reason.OWN_FIT.code, dtype=np.uint8)


@pytest.mark.parametrize(
    ("stated", "words"),
    [
        (lambda s: np.full(s.size, 1.5), "Stated gave the probability 1.5"),
        (lambda s: np.full(s.size, -0.1), "Stated gave the probability -0.1"),
        (lambda s: np.full(s.size, np.nan), "Stated gave the probability nan"),
        (lambda s: np.full(s.size + 1, 0.5), r"25 probabilities of shape \(25,\) for 24 scores"),
        (lambda s: np.full((1, s.size), 0.5), r"shape \(1, 24\)"),
        (lambda s: np.full(s.size, 0.5), "minus infinity, which is no candidate"),
    ],
)
def test_what_a_calibration_of_ones_own_states_is_checked(stated: Any, words: str) -> None:
    matrix = np.zeros((N_USERS, N_ITEMS))
    matrix[0, 0] = -np.inf
    source, split = Dense(matrix, IDS), random_split(IDS, seed=1)
    model = PersonalizedK(F1(), max_k=3, calibrator=Stated(stated)).fit(source, split)
    with pytest.raises(ScoreError, match=words):
        model.sizes(source)
    good = Stated(lambda scores: np.where(scores > -np.inf, np.float32(0.25), 0.0))
    found = PersonalizedK(NetGain(1, 0), max_k=3, calibrator=good).fit(source, split).sizes(source)
    assert found["expected_relevant"].to_list() == [0.75] * N_USERS


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: PersonalizedK(F1(), min_k=5, max_k=4), "min_k is 5 and max_k 4"),
        (lambda: PersonalizedK(F1(), min_k=-1), "min_k is -1. Give a whole number"),
        (lambda: PersonalizedK(F1(), max_k=-1), "max_k is -1. Give a whole number"),
        (lambda: PersonalizedK(F1(), min_k=0, max_k=0), "every list would be empty"),
        (lambda: PersonalizedK(F1(), max_k=10.0), r"max_k is 10\.0"),  # type: ignore[arg-type]
        (lambda: PersonalizedK(F1(), min_k=True), "min_k is True"),
        (lambda: PersonalizedK(F1(), max_k="10"), "max_k is '10'"),  # type: ignore[arg-type]
        (lambda: PersonalizedK("F1"), r"utility is the text 'F1'. Give one"),  # type: ignore[arg-type]
        (lambda: PersonalizedK(F1), "utility is <function F1"),  # type: ignore[arg-type]
        (lambda: PersonalizedK(F1(), method="fast"), "method is 'fast'"),  # type: ignore[arg-type]
        (lambda: PersonalizedK(F1(), paper_terms=0), "paper_terms is 0"),
        (lambda: PersonalizedK(F1(), paper_terms=2.5), "paper_terms is 2.5"),  # type: ignore[arg-type]
        (lambda: PersonalizedK(F1(), calibrator="platt"), "'platt'"),  # type: ignore[arg-type]
        (lambda: PersonalizedK(F1(), calibrator=UserPlatt), "UserPlatt"),  # type: ignore[arg-type]
        (lambda: PersonalizedK(Custom("c", [1.0]), max_k=2), "needed for 2"),
        (lambda: FixedK(0), "k is 0, so every list"),
        (lambda: FixedK(-3), "k is -3"),
        (lambda: FixedK(True), "k is True"),
        (lambda: FixedK(2.0), r"k is 2\.0"),  # type: ignore[arg-type]
        (lambda: RandomK(0, 3, 2), "min_k is 3 and max_k 2"),
        (lambda: RandomK(0.5), "seed is 0.5"),  # type: ignore[arg-type]
        (lambda: RandomK(False), "seed is False"),
        (lambda: ValidationK(F1(), 3, 2), "min_k is 3 and max_k 2"),
        (lambda: ValidationK(None), "utility is None"),  # type: ignore[arg-type]
        (lambda: OracleK(F1(), 0, 0), "every list would be empty"),
        (lambda: OracleK("NDCG"), "utility is the text 'NDCG'"),  # type: ignore[arg-type]
    ],
)
def test_settings_out_of_range_are_named(make: Any, words: str) -> None:
    with pytest.raises(SettingError, match=words):
        make()


def test_settings_may_be_numbers_of_numpy(world: World, source: Dense) -> None:
    for one, other in (
        (PersonalizedK(F1(), np.int64(2), np.uint8(9)), PersonalizedK(F1(), 2, 9)),
        (FixedK(np.int32(4)), FixedK(4)),
        (RandomK(np.int64(3), np.int8(1), np.int16(5)), RandomK(3, 1, 5)),
    ):
        assert one == other
        fitted = [method.fit(source, world.split) for method in (one, other)]
        assert fitted[0].sizes(source).equals(fitted[1].sizes(source))


@pytest.mark.parametrize(
    ("method", "name"),
    [
        (PersonalizedK(F1(), max_k=121), "max_k"),
        (FixedK(121), "k"),
        (RandomK(0, 1, 121), "max_k"),
        (ValidationK(F1(), 1, 121), "max_k"),
        (OracleK(F1(), 1, 121), "max_k"),
    ],
    ids=repr,
)
def test_no_list_can_be_longer_than_the_catalogue(
    world: World, source: Dense, method: ChoiceOfK, name: str
) -> None:
    words = f"{name} is 121 but the scores hold only 120 items. Make {name} at most 120"
    with pytest.raises(SettingError, match=words):
        method.fit(source, world.split)


@ALL
def test_scores_of_other_users_or_items_are_refused_in_fitting_or_skipped(
    world: World, source: Dense, method: ChoiceOfK
) -> None:
    users = [f"x{n}" if n == 3 else user for n, user in enumerate(world.ids.users.values)]
    other = Dense(source.matrix, Ids.of(users=users, items=world.ids.items.values))
    with pytest.raises(IdError, match="user 'x3' of the scores is not among the interactions"):
        method.fit(other, world.split)
    model = method.fit(other, world.split, on_missing="skip")
    assert model.ids == world.ids
    assert model.sizes(other).height == 60
