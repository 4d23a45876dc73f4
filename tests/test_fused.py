"""The fused kernel against probabilities in float64 and the kernels that take them.

Scores in single precision go one way (``fused``) and the same numbers in double
precision another, whose every step is tested against an oracle: the two must give the same lists,
and curves that differ by no more than the lanes' rounding.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import oracle
from topperk import DCG, F1, NDCG, PDCG, TP, Dense, Ids, PlattCalibration, Utility, _scan
from topperk._kernels import scanning
from topperk._kernels.exponential import fast_exp2_single
from topperk._policies import PersonalPolicy
from topperk._utility_tables import FIRST_ROWS
from topperk.calibration import Convergence, Correction
from topperk.errors import ScoreError
from topperk.fitted import FittedK, Seen
from topperk.reasons import Reason

Array = npt.NDArray[np.float64]
# What the docstring of the kernel promises.
CLOSE = 1e-6
UTILITIES: list[Utility] = [F1(), NDCG(), TP(), PDCG(), DCG()]
CORRECTIONS: list[Correction] = ["none", "shift", "ratio", "odds"]


def fitted(
    ids: Ids,
    utility: Utility,
    slope: Array,
    intercept: Array,
    correction: Correction = "none",
    adjustment: Array | None = None,
    max_k: int = 10,
) -> FittedK:
    """A model with these parameters, whose users have seen nothing."""
    n = ids.n_users

    def and_population(values: Array) -> Array:
        return np.append(values, values.mean())

    adjustment = (
        np.full(n, 1.0 if correction == "ratio" else 0.0) if adjustment is None else adjustment
    )
    calibration = PlattCalibration(
        users=ids.users,
        scale="logit",
        correction=correction,
        slope=and_population(slope),
        intercept=and_population(intercept),
        adjustment=and_population(adjustment),
        reason=np.full(n + 1, Reason.OWN_FIT.code, dtype=np.uint8),
        converged=np.ones(n + 1, dtype=np.bool_),
        convergence=Convergence(),
    )
    seen = Seen(np.zeros(n + 1, dtype=np.int64), np.empty(0, dtype=np.int32))
    policy = PersonalPolicy(utility, 0, max_k, calibration, "exact", 10)
    return FittedK("personal", ids, seen, 0, max_k, policy)


def both_ways(model: FittedK, scores: npt.NDArray[np.float32], ids: Ids) -> tuple[Any, Any]:
    """The answers for scores in single precision and for the same numbers in double."""
    single, double = (
        next(iter(model.blocks(Dense(scores.astype(kind), ids), on_missing="skip")))
        for kind in (np.float32, np.float64)
    )
    return single, double


def agree(model: FittedK, scores: npt.NDArray[np.float32], ids: Ids) -> None:
    single, double = both_ways(model, scores, ids)
    assert np.array_equal(single.items, double.items)
    assert np.array_equal(single.scores, double.scores.astype(np.float32))
    assert np.array_equal(single.probabilities, double.probabilities)
    assert np.array_equal(np.isnan(single.curves), np.isnan(double.curves))
    size = np.maximum(1e-9, np.nanmax(np.abs(double.curves), axis=1, initial=0.0))
    gap = np.abs(single.curves - double.curves)
    assert np.nanmax(gap / size[:, None], initial=0.0) < CLOSE
    # another length only where two values tie that closely
    for u in np.flatnonzero(single.k != double.k):
        values = double.curves[u, [single.k[u], double.k[u]]]
        assert abs(values[0] - values[1]) < 2 * CLOSE * size[u]


def ids_of(n_users: int, n_items: int) -> Ids:
    return Ids.of(users=range(n_users), items=range(n_items))


scores_of_users = hnp.arrays(
    np.float32,
    st.tuples(st.integers(1, 4), st.sampled_from([10, 11, 63, 64, 65, 200, 700])),
    elements=st.one_of(
        st.floats(-8.0, 8.0, width=32),
        st.sampled_from([float("-inf"), 0.0, -1.0, 1.0, 2.5]),  # ties, and no candidates
    ),
    fill=st.sampled_from([0.0, -3.0, float("-inf")]),
)


@settings(max_examples=250)
@given(
    scores_of_users,
    st.sampled_from(UTILITIES),
    st.sampled_from(CORRECTIONS),
    st.data(),
)
def test_lists_and_curves_are_those_of_double_precision(
    scores: npt.NDArray[np.float32], utility: Utility, correction: Correction, data: st.DataObject
) -> None:
    n, n_items = scores.shape
    ids = ids_of(n, n_items)

    # an offset that all scores share, and that the intercept takes off again
    offset = data.draw(st.sampled_from([0.0, 0.0, 50.0, -3e3, 1e5]))
    scores = (scores + np.float32(offset)).astype(np.float32)

    def drawn(low: float, high: float) -> Array:
        return np.array([data.draw(st.floats(low, high)) for _ in range(n)])

    adjustment = drawn(0.01, 3.0) if correction == "ratio" else drawn(-2.0, 2.0)
    slope = drawn(-1.0, 3.0)
    intercept = drawn(-12.0, 4.0) - slope * offset
    model = fitted(ids, utility, slope, intercept, correction, adjustment, max_k=10)
    agree(model, scores, ids)


@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("utility", UTILITIES, ids=lambda utility: utility.name)
def test_at_the_size_of_a_catalogue(utility: Utility, correction: Correction) -> None:
    random = np.random.default_rng(3)
    scores = random.normal(0.0, 1.6, (12, 9_000)).astype(np.float32)
    scores[:, random.choice(9_000, 90, replace=False)] = -np.inf
    ids = ids_of(*scores.shape)
    slope, intercept = random.uniform(0.5, 2.0, 12), random.uniform(-9.0, -5.0, 12)
    adjustment = random.uniform(0.5, 1.5, 12)
    agree(fitted(ids, utility, slope, intercept, correction, adjustment, 50), scores, ids)


def test_large_scores_and_steep_slopes_lose_no_precision() -> None:
    # z = a s + b is the small difference of large numbers; rounding the slope alone would show
    random = np.random.default_rng(5)
    scores = (200.0 + random.normal(0.0, 1.0, (4, 3_000))).astype(np.float32)
    ids = ids_of(*scores.shape)
    slope = np.array([1.2345678, 0.3333333, 2.7182818, 0.1])
    intercept = -200.0 * slope - 4.0
    agree(fitted(ids, F1(), slope, intercept, max_k=30), scores, ids)


def test_users_whom_the_lanes_do_not_serve_are_done_in_double_precision() -> None:
    # slopes that are not positive; and so many likely items that six sums are not enough
    random = np.random.default_rng(7)
    scores = random.normal(0.0, 1.0, (4, 40_000)).astype(np.float32)
    ids = ids_of(*scores.shape)
    slope = np.array([-1.0, 0.0, 0.01, 1.0])
    intercept = np.array([-6.0, -6.0, -3.0, -3.1])
    model = fitted(ids, F1(), slope, intercept, max_k=20)
    single, double = both_ways(model, scores, ids)
    assert np.abs(single.curves - double.curves)[:3].max() < 1e-12
    agree(model, scores, ids)


def test_a_count_beyond_the_tables_rows_makes_a_larger_table() -> None:
    scores = np.full((3, 8 * FIRST_ROWS), 2.0, dtype=np.float32)
    scores[1, 20:] = -30.0
    ids = ids_of(*scores.shape)
    model = fitted(ids, F1(), np.ones(3), np.zeros(3), max_k=15)
    agree(model, scores, ids)


def test_the_curve_is_the_mean_over_all_outcomes() -> None:
    random = np.random.default_rng(11)
    scores = random.normal(-1.0, 2.0, (6, 9)).astype(np.float32)
    ids = ids_of(*scores.shape)
    single, _ = both_ways(fitted(ids, NDCG(), np.ones(6), np.zeros(6), max_k=9), scores, ids)
    for curve, own in zip(single.curves, scores, strict=True):
        p = np.sort(1.0 / (1.0 + np.exp(-own.astype(np.float64))))[::-1]
        assert np.abs(curve - oracle.expected_curve(oracle.ndcg, p, 9)).max() < CLOSE


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("at", [0, 5, 63, 64, 640, 999])
def test_a_score_that_can_not_be_used_is_named(bad: float, at: int) -> None:
    scores = np.zeros((3, 1_000), dtype=np.float32)
    scores[1, at] = bad
    ids = ids_of(*scores.shape)
    model = fitted(ids, PDCG(), np.ones(3), np.zeros(3))
    with pytest.raises(ScoreError, match=rf"item {at} for user 1 is (NaN|plus infinity)"):
        model.sizes(Dense(scores, ids))


def test_no_kernel_inherits_the_permission_of_the_one_that_is_compiled_first(
    tmp_path: Path,
) -> None:
    # A kernel compiled while another is would take over its fastmath, and lose NaN and precision.
    code = (
        "import numpy as np; from topperk._kernels import scanning, logistic\n"
        "x = np.random.default_rng(0).random(300).astype(np.float32)\n"
        "scanning.columns_of(x, np.empty(64, np.float32)); x[[7, 299]] = np.nan\n"
        "found = np.empty(400, np.float32), np.empty(400, np.int32)\n"
        "assert scanning.gather(x, 0, 0, np.float32(2.0), *found, 0) == (2, 300)\n"
        "logistic.sums_double(np.linspace(-300.0, 300.0, 1000), 0.0, 1.0, 1.0, 0.0)\n"
        "from topperk._kernels.exponential import fast_exp\n"
        "assert abs(fast_exp(-300.3) / np.exp(-300.3) - 1.0) < 1e-14\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


some_scores = hnp.arrays(
    np.float32,
    st.integers(0, 400),
    elements=st.one_of(
        st.floats(-9.0, 9.0, width=32), st.sampled_from([0.0, 1.0, float("-inf"), -3.4028235e38])
    ),
)


@given(some_scores, st.integers(0, 60))
def test_at_least_k_items_reach_the_score_that_bounds_a_list(
    scores: npt.NDArray[np.float32], k: int
) -> None:
    columns = np.empty(64, dtype=np.float32)
    scanning.columns_of(scores, columns)
    padded = np.append(scores, np.full(-scores.size % 64, -np.inf, dtype=np.float32))
    assert np.array_equal(columns, padded.reshape(-1, 64).max(axis=0, initial=-np.inf))
    reached = scanning.score_reached_by(columns, k)
    lowest = np.finfo(np.float32).min
    assert reached == lowest or (scores >= reached).sum() >= k


@given(some_scores, st.floats(-9.0, 9.0, width=32), st.integers(0, 5), st.data())
def test_what_is_gathered_is_what_is_not_below_the_threshold(
    scores: npt.NDArray[np.float32], threshold: float, before: int, data: st.DataObject
) -> None:
    bad = data.draw(st.lists(st.integers(0, scores.size - 1), max_size=3)) if scores.size else []
    scores[bad] = np.nan
    expected = np.flatnonzero(~(scores < np.float32(threshold)))
    values = np.zeros(expected.size + scanning.MASKED + before, np.float32)
    positions = np.zeros(values.size, np.int32)
    limit = np.float32(threshold)
    size, at = scanning.gather(scores, 0, 100, limit, values, positions, before)
    assert (size, at) == (before + expected.size, scores.size)
    assert np.array_equal(positions[before:size], 100 + expected)
    assert np.array_equal(values[before:size], scores[expected], equal_nan=True)
    # where the room ends, it goes on from there
    found: list[int] = []
    at = 0
    while at < scores.size:
        size, at = scanning.gather(scores, at, 0, limit, values[:64], positions[:64], 0)
        found += positions[:size].tolist()
    assert found == expected.tolist()


@given(some_scores, st.integers(0, 60))
def test_the_best_are_put_in_order(scores: npt.NDArray[np.float32], k: int) -> None:
    scores = scores[scores > -np.inf]
    places = np.arange(scores.size, dtype=np.int32) * 2
    top, at = np.empty(k, np.float32), np.empty(k, np.int32)
    n = scanning.ordered(scores, places, np.empty(scanning.COUNTED, np.int32), top, at)
    order = np.argsort(-scores.astype(np.float64), kind="stable")[:k]
    assert n == order.size
    assert np.array_equal(at[:n], places[order])
    assert np.array_equal(top[:n], scores[order])


def test_powers_of_two_in_single_precision() -> None:
    t = np.linspace(-125.0, 126.0, 20_001).astype(np.float32)
    found = np.array([fast_exp2_single(value) for value in t], dtype=np.float64)
    assert np.abs(found / 2.0 ** t.astype(np.float64) - 1.0).max() < 4e-7
    assert fast_exp2_single(np.float32(-np.inf)) == pytest.approx(2.0**-125, rel=4e-7)
    assert fast_exp2_single(np.float32(np.nan)) == pytest.approx(2.0**-125, rel=4e-7)


@pytest.mark.parametrize("order", ["ascending", "descending", "poor at first"])
def test_the_order_of_the_catalogue_costs_nobody_the_lanes(order: str) -> None:
    # a bound from the first scores alone would let thousands through
    random = np.random.default_rng(13)
    scores = np.sort(random.normal(0.0, 1.6, (5, 9_000)).astype(np.float32), axis=1)
    if order == "descending":
        scores = scores[:, ::-1].copy()
    elif order == "poor at first":
        scores = np.concatenate([scores[:, :2_048], random.permuted(scores[:, 2_048:], axis=1)], 1)
    ids = ids_of(*scores.shape)
    model = fitted(ids, F1(), np.ones(5), np.full(5, -7.0), max_k=50)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PersonalPolicy, "in_double", None)
        next(iter(model.blocks(Dense(scores, ids))))
    agree(model, scores, ids)


@pytest.mark.parametrize("mask", [-1e4, -1e30, float(np.finfo(np.float32).min)])
@pytest.mark.parametrize("slope", [1e-8, 1.0, 1e5, 1e7, 3.1e7, 1e10, 1e20])
def test_low_scores_that_mask_and_any_slope(mask: float, slope: float) -> None:
    random = np.random.default_rng(17)
    scores = (random.normal(-6.0, 1.6, (3, 500)) / slope).astype(np.float32)
    scores[:, ::7] = mask
    ids = ids_of(*scores.shape)
    agree(fitted(ids, F1(), np.full(3, slope), np.zeros(3), max_k=20), scores, ids)


def test_lists_do_not_depend_on_who_came_before() -> None:
    # Users of many relevant items make the table of the utility grow, for all that follow.
    random = np.random.default_rng(19)
    scores = random.normal(0.0, 1.0, (40, 3_000)).astype(np.float32)
    ids = ids_of(*scores.shape)
    model = fitted(ids, F1(), np.ones(40), np.linspace(-6.0, -2.0, 40), max_k=20)
    source = Dense(scores, ids)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_scan, "LANE_ROWS", FIRST_ROWS)
        first = [part.curves for part in model.blocks(source)]
        again = [part.curves for part in model.blocks(source)]
    assert np.array_equal(np.concatenate(first), np.concatenate(again))
    # and some of them do have counts that the first table did not hold
    p = 1.0 / (1.0 + np.exp(-(scores[-1].astype(np.float64) - 2.0)))
    assert p.sum() > FIRST_ROWS
