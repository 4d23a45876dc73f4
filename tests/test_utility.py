"""Utilities: the contract for each of them, laws of the expected curve, and clear errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import strategies
import topperk.utility
from contracts import UtilityContract
from topperk import (
    DCG,
    F1,
    NDCG,
    PDCG,
    TP,
    FBeta,
    NetGain,
    PersonalizedK,
    Precision,
    Recall,
    Utility,
)
from topperk._kernels.arrays import FloatArray
from topperk._utility_tables import (
    FIRST_ROWS,
    LARGEST_SHARED,
    SHARED,
    UtilityTables,
    shared_tables,
)
from topperk.errors import ScoreError, SettingError
from topperk.utility import _SHARING, utility_named

Array = npt.NDArray[np.float64]


# --- the contract -----------------------------------------------------------------------------


class TestNDCG(UtilityContract):
    utility = NDCG()


class TestPDCG(UtilityContract):
    utility = PDCG()


class TestF1(UtilityContract):
    utility = F1()


class TestFBeta(UtilityContract):
    utility = FBeta(2.5)


class TestTP(UtilityContract):
    utility = TP()


class TestPrecision(UtilityContract):
    utility = Precision()


class TestRecall(UtilityContract):
    utility = Recall()


class TestDCG(UtilityContract):
    utility = DCG()


class TestNetGain(UtilityContract):
    utility = NetGain(3.0, 0.7)


UTILITIES = [NDCG(), PDCG(), F1(), FBeta(0.5), TP(), Precision(), Recall(), DCG(), NetGain()]
EACH = pytest.mark.parametrize("utility", UTILITIES, ids=lambda utility: str(utility.name))
MEASURES: dict[str, oracle.Measure] = {
    "NDCG": oracle.ndcg,
    "PDCG": oracle.pdcg,
    "F1": oracle.f_beta(1.0),
    "F0.5": oracle.f_beta(0.5),
    "TP": oracle.tp,
    "Precision": oracle.precision,
    "Recall": oracle.recall,
    "DCG": oracle.dcg,
    "NetGain(1, 0.1)": oracle.net_gain(1.0, 0.1),
}


# --- realised ---------------------------------------------------------------------------------


@EACH
@settings(max_examples=40)
@given(outcome=strategies.outcomes())
def test_the_realised_curve_is_the_measures_definition(
    utility: Utility, outcome: tuple[Array, int]
) -> None:
    hits, n_relevant = outcome
    wanted = oracle.realised_curve(MEASURES[utility.name], list(hits), n_relevant, hits.size)
    assert np.allclose(utility.realised(hits, n_relevant), wanted, rtol=0.0, atol=1e-12)


@EACH
def test_a_batch_of_realised_lists_is_each_list(utility: Utility) -> None:
    rng = np.random.default_rng(0)
    hits = (rng.random((40, 9)) < 0.3).astype(np.float64)
    n_relevant = hits.sum(axis=1) + rng.integers(0, 5, 40)
    batch = utility.realised(hits, n_relevant, max_k=6)
    each = [utility.realised(own, m, max_k=6) for own, m in zip(hits, n_relevant, strict=True)]
    assert batch.shape == (40, 7)
    assert np.array_equal(batch, np.stack(each))


@pytest.mark.parametrize("utility", [NDCG(), F1(), TP(), Recall()], ids=lambda u: str(u.name))
def test_measures_between_0_and_1_reach_both(utility: Utility) -> None:
    assert utility.realised(np.ones(5), 5)[5] == pytest.approx(1.0, abs=1e-15)
    assert utility.realised(np.zeros(5), 5).tolist() == [0.0] * 6


def test_the_tables_of_realised_curves_follow_the_users_and_not_the_counts() -> None:
    # a table over all counts up to this one would not fit into memory
    curve = F1().realised([1, 0], n_relevant=10**12)
    assert curve == pytest.approx([0.0, 2e-12, 2e-12], rel=1e-9)


def test_bools_and_ints_are_relevance_too() -> None:
    for hits in ([True, False, True], [1, 0, 1], np.array([1, 0, 1], dtype=np.uint8)):
        assert F1().realised(hits, 2).tolist() == F1().realised([1.0, 0.0, 1.0], 2).tolist()


# --- laws of the expected curve ---------------------------------------------------------------


@EACH
@settings(max_examples=20)
@given(batch=strategies.batches(), seed=st.integers(0, 2**32))
def test_a_batch_is_each_user_alone_and_permuting_users_permutes_results(
    utility: Utility, batch: Array, seed: int
) -> None:
    curves = utility.expected(batch)
    assert np.array_equal(curves, np.stack([utility.expected(p) for p in batch]))
    order = np.random.default_rng(seed).permutation(batch.shape[0])
    assert np.array_equal(utility.expected(batch[order]), curves[order])


@EACH
@settings(max_examples=20)
@given(p=strategies.probabilities(2, 12), data=st.data())
def test_the_order_of_the_candidates_beyond_the_list_does_not_matter(
    utility: Utility, p: Array, data: st.DataObject
) -> None:
    max_k = data.draw(st.integers(0, p.size))
    turned = np.concatenate([p[:max_k], p[max_k:][::-1]])
    assert np.allclose(
        utility.expected(p, max_k), utility.expected(turned, max_k), rtol=0.0, atol=1e-11
    )


@EACH
@settings(max_examples=20)
@given(p=strategies.probabilities(1, 12))
def test_a_larger_max_k_keeps_the_curve_and_never_lowers_the_best(
    utility: Utility, p: Array
) -> None:
    for method in ("exact", "paper"):
        whole = utility.expected(p, method=method, paper_terms=30)
        best = -np.inf
        for max_k in range(p.size + 1):
            part = utility.expected(p, max_k, method=method, paper_terms=30)
            assert part.shape == (max_k + 1,)
            assert np.allclose(part, whole[: max_k + 1], rtol=1e-13, atol=1e-13)
            assert part.max() >= best - 1e-13
            best = part.max()


@pytest.mark.parametrize(
    "utility", [NDCG(), F1(), TP(), Precision(), Recall()], ids=lambda u: u.name
)
@settings(max_examples=30)
@given(p=strategies.probabilities(1, 40))
def test_expected_shares_lie_between_0_and_1(utility: Utility, p: Array) -> None:
    curve = utility.expected(p)
    assert (curve >= -1e-11).all()
    assert (curve <= 1.0 + 1e-11).all()


@settings(max_examples=30)
@given(p=strategies.probabilities(1, 30))
def test_expected_recall_never_falls_and_ends_with_the_chance_of_any(p: Array) -> None:
    curve = Recall().expected(p)
    assert (np.diff(curve) >= -1e-12).all()
    assert curve[-1] == pytest.approx(1.0 - np.prod(1.0 - p), abs=1e-11)


@settings(max_examples=30)
@given(p=strategies.probabilities(1, 12))
def test_ndcg_and_tp_and_precision_of_one_item_agree(p: Array) -> None:
    # with k = 1 each is P(the first is relevant), whatever the others do
    for utility in (NDCG(), TP(), Precision()):
        assert utility.expected(p, 1)[1] == pytest.approx(p[0], abs=1e-12)


def test_probabilities_of_any_number_type_and_layout_are_taken() -> None:
    p = np.array([[0.5, 0.25, 0.0], [1.0, 0.75, 0.125]])
    wanted = F1().expected(p)
    for given_p in (p.tolist(), p.astype(np.float32), np.asfortranarray(p), p[:, ::-1][:, ::-1]):
        assert np.array_equal(F1().expected(given_p), wanted)
    assert F1().expected([True, False]).tolist() == F1().expected([1.0, 0.0]).tolist()


def test_read_only_probabilities_are_taken() -> None:
    p = np.array([0.5, 0.25])
    p.flags.writeable = False
    assert np.isfinite(NDCG().expected(p)).all()


@EACH
def test_nobody_and_nothing_have_curves_too(utility: Utility) -> None:
    for method in ("exact", "paper"):
        assert utility.expected([], method=method).tolist() == [0.0]
        assert utility.expected(np.empty((2, 0)), method=method).tolist() == [[0.0], [0.0]]
        assert utility.expected(np.empty((0, 3)), 2, method=method).shape == (0, 3)
        assert utility.expected([0.5, 0.5], 0, method=method).tolist() == [0.0]
    assert utility.realised([], 0).tolist() == [0.0]
    assert utility.realised(np.empty((0, 3)), []).shape == (0, 4)


# --- errors -----------------------------------------------------------------------------------

PROBABILITIES: dict[str, tuple[Any, dict[str, Any], type[Exception], str]] = {
    "NaN": ([0.5, np.nan], {}, ScoreError, "probabilities[1] is nan"),
    "above 1": ([[0.5, 0.1], [0.2, 1.5]], {}, ScoreError, "probabilities[1, 1] is 1.5"),
    "just above 1": ([1.0000001], {}, ScoreError, "outside [0, 1]"),
    "below 0": ([-1e-9], {}, ScoreError, "Calibrate the scores first"),
    "infinite": ([np.inf], {}, ScoreError, "probabilities[0] is inf"),
    "one number": (0.5, {}, ScoreError, "shape ()"),
    "three dimensions": (np.zeros((2, 2, 2)), {}, ScoreError, "shape (2, 2, 2); give one user's"),
    "max_k too large": ([0.5, 0.5], {"max_k": 3}, SettingError, "max_k is 3; with 2 candidates"),
    "max_k negative": ([0.5], {"max_k": -1}, SettingError, "max_k is -1"),
    "method misspelt": ([0.5], {"method": "exakt"}, SettingError, "'exakt'; it can be 'exact'"),
    "no terms": ([0.5], {"method": "paper", "paper_terms": 0}, SettingError, "paper_terms is 0"),
}


@pytest.mark.parametrize("case", PROBABILITIES.values(), ids=PROBABILITIES.keys())
def test_probabilities_that_can_not_be_used_are_refused(
    case: tuple[Any, dict[str, Any], type[Exception], str],
) -> None:
    p, options, kind, words = case
    with pytest.raises(kind, match=re.escape(words)):
        F1().expected(p, **options)


def test_a_misspelt_method_is_refused_where_methods_do_not_differ() -> None:
    with pytest.raises(SettingError, match="method is 'Paper'"):
        PDCG().expected([0.5], method="Paper")  # type: ignore[arg-type]


RELEVANCE: dict[str, tuple[Any, Any, dict[str, Any], type[Exception], str]] = {
    "graded": ([1, 2, 0], 3, {}, ScoreError, "other than 0 and 1. Binarise"),
    "NaN": ([1, np.nan], 3, {}, ScoreError, "other than 0 and 1"),
    "one number": (1, 1, {}, ScoreError, "relevance has shape ()"),
    "three dimensions": (np.ones((1, 1, 1)), [1], {}, ScoreError, "relevance has shape (1, 1, 1)"),
    "fewer relevant than hits": ([1, 1], 1, {}, ScoreError, "n_relevant is smaller"),
    "negative": ([0, 0], -1, {}, ScoreError, "n_relevant is smaller"),
    "fewer relevant, one user": ([[1, 0], [1, 1]], [1, 1], {}, ScoreError, "is smaller"),
    "fewer relevant, beyond max_k": ([1, 1], 1, {"max_k": 1}, ScoreError, "is smaller"),
    "a user too many": ([[1, 0]], [1, 1], {}, ScoreError, "n_relevant has shape (2,)"),
    "n_relevant NaN": ([1, 0], np.nan, {}, ScoreError, "n_relevant holds NaN, infinity"),
    "n_relevant infinite": ([1, 0], np.inf, {}, ScoreError, "n_relevant holds NaN, infinity"),
    "n_relevant a fraction": ([1, 0], 1.5, {}, ScoreError, "or a fraction"),
    "max_k too large": ([1, 0], 1, {"max_k": 3}, SettingError, "max_k is 3; for a list of 2"),
    "max_k negative": ([1, 0], 1, {"max_k": -2}, SettingError, "max_k is -2"),
}


@pytest.mark.parametrize("case", RELEVANCE.values(), ids=RELEVANCE.keys())
def test_relevance_that_can_not_be_used_is_refused(
    case: tuple[Any, Any, dict[str, Any], type[Exception], str],
) -> None:
    hits, n_relevant, options, kind, words = case
    with pytest.raises(kind, match=re.escape(words)):
        F1().realised(hits, n_relevant, **options)


class Broken(Utility):
    """One of the three functions returns what is given instead."""

    def __init__(self, **wrong: Any) -> None:
        self.wrong = wrong

    @property
    def name(self) -> str:
        return "Broken"

    def discount(self, ranks: FloatArray) -> FloatArray:
        return self.wrong.get("discount", np.ones_like(ranks))

    def penalty(self, ranks: FloatArray) -> FloatArray:
        return self.wrong.get("penalty", np.zeros_like(ranks))

    def normaliser(self, m: FloatArray, k: FloatArray) -> FloatArray:
        return self.wrong.get("normaliser", np.ones(np.broadcast_shapes(m.shape, k.shape)))


@pytest.mark.parametrize("what", ["discount", "penalty", "normaliser"])
def test_functions_of_a_utility_that_return_rubbish_are_named(what: str) -> None:
    for bad, words in ((np.ones(7), "has shape (7,)"), (np.array([1.0, np.nan]), "NaN or inf")):
        if what == "normaliser" and bad.size == 2:
            bad = np.array([[1.0], [np.inf]])
        with pytest.raises(SettingError, match=f"the {what} of utility 'Broken'") as found:
            Broken(**{what: bad}).expected([0.5, 0.5])
        assert words in str(found.value)


def test_rubbish_is_named_when_the_method_is_made_and_not_at_the_first_user() -> None:
    with pytest.raises(SettingError, match="the discount of utility 'Broken'"):
        PersonalizedK(Broken(discount=np.ones(3)), max_k=5)


# --- names ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "utility"),
    [
        ("ndcg", NDCG()),
        (" NDCG ", NDCG()),
        ("PDCG", PDCG()),
        ("f1", F1()),
        ("F0.5", FBeta(0.5)),
        ("f2", FBeta(2.0)),
        ("tp", TP()),
        ("precision", Precision()),
        ("Recall", Recall()),
        ("dcg", DCG()),
        ("netgain", NetGain()),
        ("netgain:1,0.2", NetGain(1.0, 0.2)),
    ],
)
def test_a_utility_is_found_by_its_name(text: str, utility: Utility) -> None:
    assert utility_named(text) == utility


@pytest.mark.parametrize("text", ["", "ndgc", "f", "fone", "netgain:1", "netgain:a,b", "ndcg@5"])
def test_an_unknown_name_is_refused_with_the_known_ones(text: str) -> None:
    with pytest.raises(SettingError, match=re.escape(repr(text))) as found:
        utility_named(text)
    assert "ndcg, pdcg, tp" in str(found.value)


@pytest.mark.parametrize("text", ["f0", "f-1", "fnan", "finf", "netgain:nan,1"])
def test_a_known_name_with_a_bad_number_says_which_number(text: str) -> None:
    with pytest.raises(SettingError, match=r"beta is|gain is"):
        utility_named(text)


@pytest.mark.parametrize("beta", [0.0, -1.0, np.nan, np.inf])
def test_beta_must_be_positive(beta: float) -> None:
    with pytest.raises(SettingError, match=r"beta is .*(Give a finite|must be a positive) number"):
        FBeta(beta)


@EACH
def test_utilities_are_values(utility: Utility) -> None:
    assert utility == type(utility)(**vars(utility))
    assert hash(utility) == hash(type(utility)(**vars(utility)))


# --- the tables behind ------------------------------------------------------------------------


def test_a_table_grows_and_keeps_what_it_held() -> None:
    tables = UtilityTables(F1(), 4)
    small = tables.table(5).copy()
    assert small.shape == (FIRST_ROWS, 5)
    assert not small[0].any()
    assert not small[:, 0].any()
    large = tables.table(FIRST_ROWS + 1)
    assert large.shape[0] >= FIRST_ROWS + 1
    assert np.array_equal(large[:FIRST_ROWS], small)
    assert tables.table(5) is large


# --- tables that single calls share -----------------------------------------------------------


@pytest.fixture
def nothing_shared() -> Iterator[None]:
    shared_tables.cache_clear()
    yield
    shared_tables.cache_clear()


def with_own_table(utility: Utility, p: Array, max_k: int) -> Array:
    """``utility.expected``, with a table that nobody else has touched."""
    lengths = np.array([max_k], dtype=np.int32)
    offsets = np.array([0, p.size], dtype=np.int64)
    return UtilityTables(utility, max_k).expected(p, offsets, p[None, :max_k], lengths)[0]


numbers = st.one_of(
    st.sampled_from([1, 1.0, 2, 2.0, 0.1, np.float32(0.1), np.float64(0.1), np.int32(2)]),
    st.floats(0.01, 10.0),
    st.integers(1, 9),
)
any_utility = st.one_of(
    st.sampled_from([NDCG(), PDCG(), TP(), Precision(), Recall(), DCG()]),
    st.builds(FBeta, numbers),
    st.builds(NetGain, numbers, numbers),
)


@given(st.lists(st.tuples(any_utility, st.integers(0, 12)), min_size=1, max_size=6))
def test_no_utility_gets_the_table_of_another(asked: list[tuple[Utility, int]]) -> None:
    p = np.linspace(0.9, 0.05, 12)
    for utility, max_k in asked:
        wanted = with_own_table(utility, p, max_k)
        np.testing.assert_array_equal(utility.expected(p, max_k), wanted)


def test_every_utility_of_the_module_takes_part_and_no_other() -> None:
    found = {one for one in vars(topperk.utility).values() if isinstance(one, type)}
    own = {one for one in found if issubclass(one, Utility) and one is not Utility}
    assert own == _SHARING


@pytest.mark.usefixtures("nothing_shared")
def test_a_table_is_made_once_and_few_are_kept() -> None:
    p = np.linspace(0.9, 0.05, 30)
    for _ in range(3):
        NDCG().expected(p, 20)
        FBeta(2.0).expected(p, 20)
    assert shared_tables.cache_info().misses == 2
    NDCG().expected(p, 21)
    FBeta(2).expected(p, 20)  # an integer: equal to 2.0, and yet another setting
    assert shared_tables.cache_info().misses == 4
    for cost in range(100):
        NetGain(1.0, cost).expected(p, 20)
    assert shared_tables.cache_info().currsize == SHARED


@pytest.mark.usefixtures("nothing_shared")
def test_large_tables_are_not_kept() -> None:
    p = np.full(4_000, 0.5)
    for utility in (NDCG(), F1()):
        for max_k in (20, 1_000):
            for _ in range(2):
                found = utility.expected(p, max_k)
                np.testing.assert_array_equal(found, with_own_table(utility, p, max_k))
            settings = vars(utility).values()
            assert shared_tables(type(utility), max_k, *settings)._table.nbytes <= LARGEST_SHARED


def test_a_utility_of_ones_own_is_asked_in_every_call() -> None:
    p, weights = np.array([0.9, 0.5, 0.1]), {"first": 1.0}

    @dataclass(frozen=True)
    class Looking(Utility):
        """Frozen, hashable, and without a field: all the same its functions may change."""

        @property
        def name(self) -> str:
            return "looking"

        def discount(self, ranks: FloatArray) -> FloatArray:
            return np.full_like(ranks, weights["first"])

        def normaliser(self, m: FloatArray, k: FloatArray) -> FloatArray:
            return np.ones(np.broadcast_shapes(m.shape, k.shape))

    @dataclass(frozen=True)
    class Steeper(NDCG):
        def discount(self, ranks: FloatArray) -> FloatArray:
            return 1.0 / ranks**2

        def __eq__(self, other: object) -> bool:
            return isinstance(other, NDCG)

        def __hash__(self) -> int:
            return hash(NDCG())

    before = Looking().expected(p)
    weights["first"] = 2.0
    np.testing.assert_allclose(Looking().expected(p), 2.0 * before)

    plain = NDCG().expected(p)
    np.testing.assert_array_equal(Steeper().expected(p), with_own_table(Steeper(), p, 3))
    assert not np.allclose(Steeper().expected(p), plain)
    np.testing.assert_array_equal(NDCG().expected(p), plain)


def test_a_setting_that_is_changed_by_force_is_seen() -> None:
    utility, p = FBeta(1.0), np.array([0.9, 0.5, 0.1])
    utility.expected(p)
    object.__setattr__(utility, "beta", 3.0)
    np.testing.assert_array_equal(utility.expected(p), FBeta(3.0).expected(p))


@pytest.mark.usefixtures("nothing_shared")
def test_threads_that_share_a_table_get_the_answers_of_one() -> None:
    random = np.random.default_rng(4)
    asked = [(n % 2, random.random(random.integers(40, 900))) for n in range(200)]
    kinds = (NDCG(), PDCG())
    wanted = [with_own_table(kinds[kind], p, 30) for kind, p in asked]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda one: kinds[one[0]].expected(one[1], 30), asked))
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("p", "words"),
    [
        ([0.5, np.nan], r"probabilities\[1\] is nan"),
        ([[0.5, 0.5], [-0.1, 2.0]], r"probabilities\[1, 0\] is -0.1"),
        ([0.5, np.inf], r"probabilities\[1\] is inf"),
        ([1.0 + 1e-15], r"probabilities\[0\] is 1.0"),
    ],
)
def test_what_is_no_probability_is_named_with_its_place(p: Any, words: str) -> None:
    with pytest.raises(ScoreError, match=words):
        NDCG().expected(p)


def test_the_ends_and_nothing_are_probabilities() -> None:
    assert NDCG().expected([1.0, -0.0, 0.0]).tolist()[1] == 1.0
    assert NDCG().expected([]).tolist() == [0.0]
    assert NDCG().expected(np.empty((2, 0))).tolist() == [[0.0], [0.0]]
