"""Expected utility curves: against all 2^n outcomes, and the choice of a length from them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import oracle
import strategies
from topperk import DCG, F1, NDCG, PDCG, TP, FBeta, NetGain, Precision, Recall, Utility
from topperk._kernels.curves import TIE, best_lengths, curves_exact, curves_paper
from topperk._utility_tables import FIRST_ROWS, UtilityTables

Array = npt.NDArray[np.float64]

MEASURES: dict[str, tuple[Utility, oracle.Measure]] = {
    "NDCG": (NDCG(), oracle.ndcg),
    "PDCG": (PDCG(), oracle.pdcg),
    "F1": (F1(), oracle.f_beta(1.0)),
    "F0.5": (FBeta(0.5), oracle.f_beta(0.5)),
    "F3": (FBeta(3.0), oracle.f_beta(3.0)),
    "TP": (TP(), oracle.tp),
    "Precision": (Precision(), oracle.precision),
    "Recall": (Recall(), oracle.recall),
    "DCG": (DCG(), oracle.dcg),
    "NetGain": (NetGain(2.0, 0.3), oracle.net_gain(2.0, 0.3)),
}
COUNTING = [name for name, (utility, _) in MEASURES.items() if utility.counts_all_relevant]
EACH = pytest.mark.parametrize(("utility", "measure"), MEASURES.values(), ids=list(MEASURES))
TIED = np.array([0.3, 0.3, 1.0, 0.0, 1e-12, 0.3, 0.5, 0.5, 1.0 - 1e-12, 0.049])


# --- exact ------------------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize(
    "p",
    [
        TIED,
        TIED[::-1],
        np.full(8, 0.5),
        np.full(8, 0.049),
        np.zeros(4),
        np.ones(4),
        np.array([1e-12]),
        np.array([1e-12, 0.0, 1e-12, 1e-300, 5e-324]),
        np.array([1.0 - 1e-16] * 5),
    ],
    ids=["mixed", "reversed", "even", "tail", "zeros", "ones", "one", "tiny", "nearly ones"],
)
def test_the_exact_curve_is_the_mean_over_all_outcomes(
    utility: Utility, measure: oracle.Measure, p: Array
) -> None:
    wanted = oracle.expected_curve(measure, p, p.size)
    assert np.abs(utility.expected(p) - wanted).max() < 1e-10


@settings(max_examples=40)
@given(p=strategies.probabilities(1, 7), name=st.sampled_from([*MEASURES]), data=st.data())
def test_the_exact_curve_is_the_mean_over_all_outcomes_for_any_probabilities(
    p: Array, name: str, data: st.DataObject
) -> None:
    utility, measure = MEASURES[name]
    max_k = data.draw(st.integers(0, p.size))
    wanted = oracle.expected_curve(measure, p, max_k)
    assert np.abs(utility.expected(p, max_k) - wanted).max() < 1e-10


@pytest.mark.parametrize("name", COUNTING)
@pytest.mark.parametrize("kind", ["calibrated", "uncalibrated", "certain", "tail alone"])
def test_at_realistic_sizes_it_is_the_sum_over_leave_one_out_distributions(
    name: str, kind: str
) -> None:
    rng = np.random.default_rng(7)
    p = {
        "calibrated": np.sort(rng.beta(0.05, 3.0, 1_500))[::-1],
        "uncalibrated": np.sort(rng.random(1_200))[::-1],
        "certain": np.ones(700),
        "tail alone": np.full(1_500, 0.049),
    }[kind]
    max_k = 12
    utility, measure = MEASURES[name]
    wanted = np.zeros(max_k + 1)
    for r in range(max_k):
        others = oracle.leave_one_out(p, r)
        for k in range(r + 1, max_k + 1):
            # what this one hit is worth, with m relevant items in all: these measures add up
            alone = [int(place == r) for place in range(k)]
            worth = np.zeros(others.size)
            likely = np.flatnonzero(others > 1e-15)
            worth[likely] = [measure(alone, int(m) + 1) for m in likely]
            wanted[k] += p[r] * (others @ worth)
    assert np.abs(utility.expected(p, max_k) - wanted).max() < 1e-10


@pytest.mark.parametrize(
    ("n", "p"), [(100_000, 0.049), (5_000, 0.5), (3_000, 1.0), (100_000, 1e-3)]
)
def test_equal_items_in_large_numbers_have_the_curve_of_a_binomial(n: int, p: float) -> None:
    others = oracle.binomial_pmf(n - 1, p) if p < 1.0 else np.eye(n)[n - 1]
    m = np.arange(1, n + 1)
    k = np.arange(1, 31)
    rows = np.full(n, p)
    f1 = [p * j * (2.0 / (m + j) @ others) for j in k]
    tp = [p * j * (1.0 / np.minimum(m, j) @ others) for j in k]
    ideal = np.cumsum(1.0 / np.log2(k + 1.0))
    ndcg = [p * ideal[j - 1] * (1.0 / ideal[np.minimum(m, j) - 1] @ others) for j in k]
    for utility, wanted in ((F1(), f1), (TP(), tp), (NDCG(), ndcg)):
        assert np.abs(utility.expected(rows, 30)[1:] - wanted).max() < 1e-9


@EACH
def test_candidates_beyond_the_list_count_among_the_relevant(
    utility: Utility, measure: oracle.Measure
) -> None:
    listed = np.array([0.6, 0.2])
    alone = utility.expected(listed, 2)
    with_others = utility.expected(np.append(listed, [0.9, 0.9, 0.9]), 2)
    unchanged = np.allclose(alone, with_others, rtol=0.0, atol=1e-14)
    assert unchanged == (not utility.counts_all_relevant)


def test_users_with_more_relevant_items_than_the_table_holds_are_done_all_the_same() -> None:
    sizes = [3, FIRST_ROWS + 5, 4, 5 * FIRST_ROWS, 40 * FIRST_ROWS, 2]
    users = [np.full(size, 0.9) for size in sizes]
    flat, offsets = strategies.flat(users)
    lengths = np.full(len(users), 2, dtype=np.int32)
    tables = UtilityTables(F1(), 2)
    found = tables.expected(flat, offsets, np.full((len(users), 2), 0.9), lengths)
    wanted = np.stack([F1().expected(p, 2) for p in users])
    assert np.array_equal(found, wanted)


def test_a_table_of_too_few_rows_is_refused_and_not_read_beyond() -> None:
    p = np.full(40, 0.9)
    out = np.empty((1, 3))
    arguments = (p, np.array([0, 40]), p[None, :2].copy(), np.array([2], dtype=np.int32))
    for rows in (1, 2, 41):
        done = curves_exact(*arguments, np.ones(2), np.zeros(2), np.ones((rows, 3)), 0, out)
        assert done == 0
    assert curves_exact(*arguments, np.ones(2), np.zeros(2), np.ones((42, 3)), 0, out) == 1


@given(strategies.ragged(strategies.probabilities(0, 8), 1), st.integers(0, 5))
def test_a_ragged_block_gives_each_user_the_curve_of_their_own(
    users: list[Array], max_k: int
) -> None:
    flat, offsets = strategies.flat(users)
    lengths = np.array([min(max_k, p.size) for p in users], dtype=np.int32)
    ranked = np.full((len(users), max_k), np.nan)  # what is not listed must not be read
    for u, p in enumerate(users):
        ranked[u, : lengths[u]] = p[: lengths[u]]
    for name in ("F1", "PDCG"):
        for method in ("exact", "paper"):
            utility = MEASURES[name][0]
            tables = UtilityTables(utility, max_k)
            found = tables.expected(flat, offsets, ranked, lengths, method, 20)
            for u, p in enumerate(users):
                alone = utility.expected(p, int(lengths[u]), method=method, paper_terms=20)
                assert np.allclose(found[u, : lengths[u] + 1], alone, rtol=0.0, atol=1e-14)
                assert np.isnan(found[u, lengths[u] + 1 :]).all()


# --- the paper's ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", list(oracle.PAPER_MEASURES))
@pytest.mark.parametrize("n_terms", [1, 3, 60])
def test_the_papers_method_is_its_equations(name: str, n_terms: int) -> None:
    utility = MEASURES[name][0]
    rng = np.random.default_rng(2)
    for p in (np.sort(rng.random(9))[::-1], np.sort(rng.beta(0.3, 5.0, 80))[::-1]):
        found = utility.expected(p, 6, method="paper", paper_terms=n_terms)
        wanted = oracle.expected_curve_paper(name, p, 6, n_terms)
        assert np.abs(found - wanted).max() < 1e-12


@given(strategies.probabilities(1, 12))
def test_pdcg_is_the_same_by_both_methods(p: Array) -> None:
    assert np.array_equal(PDCG().expected(p), PDCG().expected(p, method="paper"))
    wanted = [(2.0 * q - 1.0) / np.log2(r + 1.0) for r, q in enumerate(p, 1)]
    assert np.allclose(PDCG().expected(p)[1:], np.cumsum(wanted), rtol=0.0, atol=1e-13)


@pytest.mark.parametrize("name", COUNTING)
def test_the_papers_method_is_near_the_exact_one_for_many_unlikely_items(name: str) -> None:
    p = np.sort(np.random.default_rng(0).beta(0.05, 8.0, 4_000))[::-1]
    utility = MEASURES[name][0]
    exact, paper = utility.expected(p, 20), utility.expected(p, 20, method="paper")
    assert 1e-6 < np.abs(exact - paper).max() < 0.05


@given(strategies.probabilities(1, 8))
@example(np.full(3, 1e-250))
def test_the_papers_method_is_finite_whatever_the_probabilities(p: Array) -> None:
    assert np.isfinite(F1().expected(p, method="paper", paper_terms=30)).all()


def test_the_papers_kernel_reads_no_more_of_the_table_than_the_terms() -> None:
    p = np.full(5, 0.4)
    table = np.full((9, 3), np.nan)
    table[1:4] = 0.5
    out = np.empty((1, 3))
    lengths = np.array([2], dtype=np.int32)
    ranked = p[None, :2].copy()
    curves_paper(p, np.array([0, 5]), ranked, lengths, np.ones(2), np.zeros(2), table, 3, out)
    assert np.isfinite(out).all()


# --- the best length --------------------------------------------------------------------------


def lengths_of(curves: Array, min_k: int, max_k: int, lengths: list[int]) -> list[int]:
    out = np.full(len(lengths), -9, dtype=np.int32)
    best_lengths(curves, min_k, max_k, np.array(lengths, dtype=np.int32), out)
    return [int(k) for k in out]


value = st.one_of(st.integers(-2, 2).map(float), st.floats(-1e6, 1e6))


@given(st.lists(value, min_size=1, max_size=9), st.integers(0, 9), st.integers(0, 9))
def test_the_best_length_is_the_smallest_of_the_best(
    values: list[float], min_k: int, more: int
) -> None:
    n = len(values) - 1
    curve = np.array([[*values, np.nan, np.nan]])
    max_k = min(min_k + more, n + 2)
    min_k = min(min_k, max_k)
    top = min(max_k, n)
    wanted = oracle.best_length(values[: top + 1], min_k, top, TIE)
    assert lengths_of(curve, min_k, max_k, [n]) == [wanted]


def test_equal_values_give_the_smallest_length() -> None:
    curves = np.array([[0.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 0.0], [0.0, -1.0, -1.0, -0.5]])
    assert lengths_of(curves, 0, 3, [3, 3, 3]) == [1, 0, 0]
    assert lengths_of(curves, 1, 3, [3, 3, 3]) == [1, 1, 3]
    assert lengths_of(curves, 2, 3, [3, 3, 3]) == [2, 2, 3]


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_values_that_differ_by_rounding_are_equal_and_others_are_not(scale: float) -> None:
    rounding = np.array([[0.0, 1.0, 1.0 + 1e-13]]) * scale
    better = np.array([[0.0, 1.0, 1.0 + 1e-11]]) * scale
    assert lengths_of(rounding, 1, 2, [2]) == [1]
    assert lengths_of(better, 1, 2, [2]) == [2]


def test_a_user_with_few_candidates_gets_no_more_than_there_are() -> None:
    curves = np.array([[0.0, np.nan, np.nan], [0.0, 0.1, np.nan], [0.0, 0.1, 0.2]])
    assert lengths_of(curves, 1, 2, [0, 1, 2]) == [0, 1, 2]
    assert lengths_of(curves, 2, 2, [0, 1, 2]) == [0, 1, 2]


def test_a_list_of_equal_certainties_is_as_short_as_can_be() -> None:
    # TP of items that are all relevant is 1 at every length
    curve = TP().expected(np.ones(40))
    assert lengths_of(curve[None, :], 1, 40, [40]) == [1]
