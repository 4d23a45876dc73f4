"""The distribution of the number of relevant items: exact, and bounded where something is left out.

``oracle.count_pmf`` is the plain convolution; see there for the other twins.
"""

from __future__ import annotations

import math
from random import Random

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

import oracle
import strategies
from topperk import count_distribution
from topperk._kernels import counting
from topperk._kernels.counting import (
    FEW_SUMS,
    HEAD_THRESHOLD,
    MANY_SUMS,
    ROOM,
    TAIL_TOLERANCE,
    TRIM,
    count_pmf_exact,
    count_pmf_refined_normal,
    count_pmfs,
    dropped_terms_bound,
    head_of,
    odds_power_sums_few,
    odds_power_sums_many,
    tail_pmf,
    with_items,
)
from topperk._kernels.curves import curve_from_counts, lanes_of
from topperk.errors import ScoreError

Array = npt.NDArray[np.float64]
JUST_BELOW = float(np.nextafter(HEAD_THRESHOLD, 0.0))


def pmf_of(p: npt.ArrayLike) -> Array:
    """P(S = m), m = 0..n, from the kernel; scratch arrays are full of rubbish on purpose."""
    p = np.asarray(p, dtype=np.float64)
    scratch = np.full((3, p.size + ROOM), np.nan)
    first, last = count_pmf_exact(p, np.full(MANY_SUMS + 1, np.nan), scratch)
    assert 0 <= first <= last <= p.size
    whole = np.zeros(p.size + 1)
    whole[first : last + 1] = scratch[0, first : last + 1]
    return whole


def l1(found: Array, wanted: Array) -> float:
    return float(np.abs(found - wanted).sum())


def catalogue(n: int, mean: float, seed: int) -> Array:
    """Probabilities as a calibrated recommender gives them: a few likely, nearly all unlikely."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0.0, 1.6, n)
    low, high = -40.0, 40.0
    for _ in range(100):
        middle = (low + high) / 2.0
        if (1.0 / (1.0 + np.exp(-logits - middle))).sum() < mean:
            low = middle
        else:
            high = middle
    p: Array = 1.0 / (1.0 + np.exp(-logits - low))
    return p


# --- the distribution -------------------------------------------------------------------------


@given(strategies.probabilities(0, 40))
@example(np.zeros(0))
@example(np.zeros(5))
@example(np.ones(5))
@example(np.full(20, 1.0 - 1e-16))
@example(np.full(20, 5e-324))
@example(np.array([0.0, 1.0, 1e-12, 1e-12, 0.5, 0.5]))
def test_it_is_that_of_plain_convolution(p: Array) -> None:
    assert l1(pmf_of(p), oracle.count_pmf(p)) < 2e-12


@given(strategies.probabilities(1, 12))
def test_it_is_that_of_exact_fractions(p: Array) -> None:
    wanted = np.array([float(value) for value in oracle.count_pmf_in_fractions(p)])
    assert l1(pmf_of(p), wanted) < 2e-12


@given(strategies.probabilities(1, 40), st.integers(0, 2**32))
def test_the_order_of_items_does_not_matter(p: Array, seed: int) -> None:
    shuffled = np.random.default_rng(seed).permutation(p)
    assert l1(pmf_of(p), pmf_of(shuffled)) < 1e-12


@given(strategies.probabilities(1, 30), strategies.one_probability())
def test_one_more_item_is_one_more_convolution(p: Array, q: float) -> None:
    with_it = np.append(p, q)
    assert l1(pmf_of(with_it), np.convolve(pmf_of(p), [1.0 - q, q])) < 4e-12


@given(strategies.probabilities(0, 60))
def test_it_is_a_distribution_with_the_right_mean_and_variance(p: Array) -> None:
    pmf = pmf_of(p)
    m = np.arange(pmf.size)
    assert (pmf > -1e-12).all()
    assert pmf.sum() == pytest.approx(1.0, abs=1e-12)
    assert m @ pmf == pytest.approx(math.fsum(p), abs=1e-10)
    spread = (m - math.fsum(p)) ** 2 @ pmf
    assert spread == pytest.approx(math.fsum(p * (1.0 - p)), abs=1e-9)


@pytest.mark.parametrize("seed", [0, 1])
def test_nine_thousand_items_with_a_mean_of_45_agree_with_convolution_and_scipy(seed: int) -> None:
    p = catalogue(9_000, 45.0, seed)
    assert (p >= HEAD_THRESHOLD).sum() > 10  # both ways are in use
    found = pmf_of(p)
    assert l1(found, oracle.count_pmf(p)) < 1e-11
    assert l1(found, stats.poisson_binom.pmf(np.arange(p.size + 1), p)) < 1e-9


LARGE = {
    "the tail alone, thousands expected, f_0 = exp(-5000)": np.full(100_000, 0.049),
    "just below the threshold": np.full(60_000, JUST_BELOW),
    "at the threshold": np.full(20_000, HEAD_THRESHOLD),
    "f_0 just above where scaling begins": np.full(20_000, 0.0295),
    "f_0 just below where scaling begins": np.full(20_000, 0.0305),
    "even odds": np.full(5_000, 0.5),
    "all but certain": np.full(5_000, 1.0 - 1e-16),
    "impossible to a normal number": np.full(5_000, 5e-324),
}


@pytest.mark.parametrize("p", LARGE.values(), ids=LARGE.keys())
def test_equal_items_in_large_numbers_are_binomial(p: Array) -> None:
    assert l1(pmf_of(p), _binomial(p)) < 1e-10


def _binomial(p: Array) -> Array:
    if 1.0 - p[0] == 0.0 or p[0] * p.size < 1e-300:
        return (np.arange(p.size + 1) == p.size * (p[0] > 0.5)).astype(np.float64)
    return oracle.binomial_pmf(p.size, float(p[0]))


@pytest.mark.parametrize(
    ("n", "p"), [(1_000_000, 4.5e-5), (1_000_000, 0.01), (1_000_000, 0.0499999), (200_000, 0.3)]
)
def test_a_million_equal_items_are_binomial(n: int, p: float) -> None:
    # equal items are the worst case of summing: every rounding goes the same way
    assert l1(pmf_of(np.full(n, p)), oracle.binomial_pmf(n, p)) < 2e-10


def test_uncalibrated_scores_with_thousands_of_likely_items_stay_exact() -> None:
    rng = np.random.default_rng(3)
    p = np.concatenate([rng.random(3_000), np.ones(500), rng.random(9_000) * 0.05, np.zeros(500)])
    assert l1(pmf_of(p), oracle.count_pmf(p)) < 1e-11


def test_certain_items_only_shift_it() -> None:
    assert pmf_of(np.ones(3_000))[3_000] == 1.0
    p = catalogue(500, 10.0, 0)
    shifted = pmf_of(np.concatenate([np.ones(700), p]))
    assert l1(shifted[700:], pmf_of(p)) < 1e-14


def test_impossible_items_change_nothing() -> None:
    p = catalogue(500, 10.0, 0)
    assert l1(pmf_of(np.concatenate([p, np.zeros(700)]))[:501], pmf_of(p)) < 1e-14


@given(strategies.ragged(strategies.probabilities(0, 9)))
def test_several_users_get_what_each_gets_alone(users: list[Array]) -> None:
    flat, offsets = strategies.flat(users)
    for width in (4, 10):
        out = np.full((len(users), width), np.nan)
        count_pmfs(flat, offsets, out)
        for found, p in zip(out, users, strict=True):
            alone = np.zeros(max(width, p.size + 1))
            alone[: p.size + 1] = pmf_of(p)
            assert np.array_equal(found, alone[:width])


@given(st.integers(0, 4), st.integers(0, 30), st.randoms(use_true_random=False))
def test_the_public_one_takes_a_user_or_a_batch(n_users: int, n: int, random: Random) -> None:
    p = np.array([[random.random() ** 4 for _ in range(n)] for _ in range(n_users)])
    p = p.reshape(n_users, n)
    before = p.copy()
    batch = count_distribution(p)
    assert batch.shape == (n_users, n + 1)
    for row, found in zip(p, batch, strict=True):
        assert l1(found, oracle.count_pmf(row)) < 2e-12
        assert np.array_equal(count_distribution(row), found)
    assert np.array_equal(p, before)


@pytest.mark.parametrize("p", [[0.5, 1.5], [0.5, math.nan], [[0.1], [-1e-9]], 0.5, [[[0.5]]]])
def test_the_public_one_refuses_what_is_no_probability(p: npt.ArrayLike) -> None:
    with pytest.raises(ScoreError, match="probabilities"):
        count_distribution(p)


# --- the tail and its bound -------------------------------------------------------------------


def power_sums(p: Array, n_sums: int) -> tuple[Array, float]:
    """Power sums of the tail's odds from j = 1, and the largest odds."""
    sums = np.full(MANY_SUMS + 1, np.nan)
    few = n_sums <= FEW_SUMS
    largest = odds_power_sums_few(p, sums) if few else odds_power_sums_many(p, sums)
    return sums, largest


def tail_of(p: Array, n_sums: int) -> tuple[Array, float]:
    """The tail's distribution from ``n_sums`` power sums, and the bound on its l1 error."""
    sums, largest = power_sums(p, n_sums)
    pmf = np.full(p.size + 2, np.nan)
    first, last = tail_pmf(sums, n_sums, p.size, TRIM, pmf)
    whole = np.zeros(p.size + 1)
    whole[first : last + 1] = pmf[first : last + 1]
    return whole, dropped_terms_bound(sums, n_sums, largest)


@given(strategies.probabilities(1, 60, largest=JUST_BELOW), st.integers(1, 4))
@example(np.full(60, JUST_BELOW), 1)
@example(np.full(60, JUST_BELOW), 3)
def test_the_error_is_within_the_bound(p: Array, n_sums: int) -> None:
    found, bound = tail_of(p, n_sums)
    assert l1(found, oracle.count_pmf(p)) <= bound + 1e-13


def test_the_bound_is_not_idle() -> None:
    # with few sums the error can be seen, and the bound is not a hundred times larger
    p = np.full(200, JUST_BELOW)
    for n_sums in (1, 2, 3):
        found, bound = tail_of(p, n_sums)
        error = l1(found, oracle.count_pmf(p))
        assert 1e-6 < error <= bound < 100.0 * error


def test_more_sums_are_taken_where_few_do_not_meet_the_tolerance() -> None:
    few = 100
    many = 100_000
    for n, enough in ((few, True), (many, False)):
        _, bound = tail_of(np.full(n, 0.02 if enough else JUST_BELOW), FEW_SUMS)
        assert (bound <= TAIL_TOLERANCE) == enough
    _, bound = tail_of(np.full(many, JUST_BELOW), MANY_SUMS)
    assert bound <= TAIL_TOLERANCE


def test_many_sums_are_enough_for_a_hundred_million_items() -> None:
    odds = JUST_BELOW / (1.0 - JUST_BELOW)
    sums = 1e8 * odds ** np.arange(MANY_SUMS + 1)
    assert dropped_terms_bound(sums, MANY_SUMS, odds) <= TAIL_TOLERANCE


@given(strategies.probabilities(1, 50), st.sampled_from([FEW_SUMS, MANY_SUMS]))
def test_power_sums_are_those_of_the_unlikely_items(p: Array, n_sums: int) -> None:
    sums, largest = power_sums(p, n_sums)
    tail = p[p < HEAD_THRESHOLD]
    odds = tail / (1.0 - tail)
    assert largest == odds.max(initial=0.0)
    for j in range(1, n_sums + 1):
        assert sums[j] == pytest.approx(math.fsum(odds**j), rel=1e-13, abs=1e-300)
    head = np.full(p.size, np.nan)
    assert head_of(p, head) == p.size - tail.size
    assert np.array_equal(head[: p.size - tail.size], p[p >= HEAD_THRESHOLD])


@pytest.mark.parametrize("n_sums", [FEW_SUMS, MANY_SUMS])
def test_power_sums_add_up_over_the_pieces_they_are_summed_in(n_sums: int) -> None:
    for n in (counting.SUMMED_TOGETHER + extra for extra in (-1, 0, 1)):
        sums, _ = power_sums(np.full(n, 0.01), n_sums)
        assert sums[1] == pytest.approx(n * (0.01 / 0.99), rel=1e-13)


@pytest.mark.parametrize("n", [1, 63, 64, 65, 200])
def test_the_head_is_found_wherever_it_stands(n: int) -> None:
    for at in {0, n // 2, n - 1}:
        p = np.full(n, 0.01)
        p[at] = 0.3
        head = np.empty(n)
        assert head_of(p, head) == 1
        assert head[0] == 0.3


@given(strategies.probabilities(0, 12), strategies.probabilities(0, 9))
@example(np.zeros(0), np.ones(3))
@example(np.ones(3), np.zeros(4))
def test_items_join_a_distribution_two_at_a_time(p: Array, more: Array) -> None:
    before = oracle.count_pmf(p)
    pmf = np.full(p.size + more.size + ROOM, np.nan)
    pmf[: before.size] = before
    first, last = with_items(pmf, 0, p.size, more, TRIM, np.full(pmf.size, np.nan))
    whole = np.zeros(p.size + more.size + 1)
    whole[first : last + 1] = pmf[first : last + 1]
    assert l1(whole, oracle.count_pmf(np.concatenate([p, more]))) < 1e-13


# --- without one item -------------------------------------------------------------------------


def mean_without(p: Array, r: int, values: Array) -> float:
    """The mean of ``values[S - Y_r]``, as a curve's kernel takes it for a list of item r alone."""
    scratch = np.full((3, p.size + ROOM), np.nan)
    first, last = count_pmf_exact(p, np.zeros(MANY_SUMS + 1), scratch)
    table = np.zeros((p.size + 3, 2))
    table[1 : values.size + 1, 1] = values
    curve = np.full(2, np.nan)
    weight = np.array([1.0 / p[r]])
    item = np.array([p[r]])
    none = np.zeros(1)
    curve_from_counts(scratch[0], first, last, item, 1, weight, none, table, lanes_of(1), curve)
    return float(curve[1])


@given(strategies.probabilities(1, 30), st.data())
@example(np.full(30, 0.5), None)
@example(np.full(30, float(np.nextafter(0.5, 1.0))), None)
@example(np.array([0.0, 1.0, 1e-12, 1.0 - 1e-12]), None)
@example(np.ones(3), None)
@example(np.full(30, 1.0 - 1e-16), None)
def test_leaving_one_out_is_recomputing_without_it(p: Array, data: st.DataObject | None) -> None:
    places = range(p.size) if data is None else [data.draw(st.integers(0, p.size - 1))]
    for r in places:
        if p[r] < 1e-300:  # adds nothing to any curve
            continue
        wanted = oracle.leave_one_out(p, r)
        found = [mean_without(p, r, row) for row in np.eye(p.size)]
        assert l1(np.array(found), wanted) < 1e-10


@pytest.mark.parametrize("hit", [1e-12, 0.049, 0.3, 0.5, 0.500001, 0.9, 1.0 - 1e-12, 1.0])
def test_leaving_one_out_of_many(hit: float) -> None:
    p = np.append(catalogue(2_000, 45.0, 5), hit)
    others = oracle.count_pmf(p[:-1])
    for seed in range(5):
        values = np.random.default_rng(seed).choice([-1.0, 1.0], 2_001)
        assert mean_without(p, 2_000, values) == pytest.approx(others @ values, abs=1e-11)


@pytest.mark.parametrize("hit", [0.1, 0.5, 0.9])
def test_leaving_one_out_of_a_large_mean(hit: float) -> None:
    p = np.append(np.full(100_000, 0.049), hit)
    others = oracle.binomial_pmf(100_000, 0.049)
    for seed in range(5):
        values = np.random.default_rng(seed).choice([-1.0, 1.0], 100_001)
        assert mean_without(p, 100_000, values) == pytest.approx(others @ values, abs=1e-9)


# --- the paper's approximation ----------------------------------------------------------------


def refined_normal_of(p: Array, n_terms: int) -> Array:
    pmf = np.full(n_terms, np.nan)
    count_pmf_refined_normal(p, n_terms, pmf)
    return pmf


@given(st.lists(st.floats(1e-3, 0.999), min_size=1, max_size=60).map(np.array), st.integers(1, 80))
def test_the_refined_normal_is_the_formula(p: Array, n_terms: int) -> None:
    wanted = oracle.count_pmf_refined_normal(p, n_terms)
    assert np.allclose(refined_normal_of(p, n_terms), wanted, rtol=0.0, atol=1e-12)


def test_the_refined_normal_is_near_the_truth_and_not_the_truth() -> None:
    p = catalogue(9_000, 45.0, 0)
    error = l1(refined_normal_of(p, 2_000), oracle.count_pmf(p)[:2_000])
    assert 1e-6 < error < 1e-2


@given(strategies.probabilities(1, 30))
@example(np.full(3, 1e-250))  # sigma^3 underflows
@example(np.full(3, 5e-324))
def test_the_refined_normal_is_finite_whatever_the_probabilities(p: Array) -> None:
    assert np.isfinite(refined_normal_of(p, 40)).all()


def test_the_refined_normal_of_certain_items_is_their_number() -> None:
    assert refined_normal_of(np.array([1.0, 0.0, 1.0]), 4).tolist() == [0.0, 0.0, 1.0, 0.0]
    assert refined_normal_of(np.ones(9), 4).tolist() == [0.0] * 4
    assert refined_normal_of(np.zeros(0), 2).tolist() == [1.0, 0.0]
