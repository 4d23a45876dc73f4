"""What sums over scores in lanes, one by one, against the same sums taken term by term."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numba import njit

import oracle
from topperk._kernels import calibrating, logistic_sums, scanning
from topperk._kernels.counting import HEAD_THRESHOLD
from topperk._kernels.exponential import LOG2_E
from topperk._kernels.lanes import MASKED, lowest_bit, not_less
from topperk._kernels.views import part_of, row_of

Array = npt.NDArray[np.float64]

scores = hnp.arrays(
    np.float32,
    st.sampled_from([1, 15, 16, 17, 64, 200, 1_023, 1_025, 2_100]),
    elements=st.one_of(st.floats(-9.0, 4.0, width=32), st.sampled_from([float("-inf"), 0.0])),
    fill=st.floats(-9.0, 0.0, width=32),
)
values = hnp.arrays(
    np.float64,
    st.sampled_from([1, 7, 8, 9, 511, 513, 1_100]),
    elements=st.floats(-6.0, 6.0),
    fill=st.floats(-6.0, 6.0),
)


@given(scores, st.floats(0.05, 3.0), st.floats(-9.0, 1.0), st.floats(0.5, 3.0), st.booleans())
def test_power_sums_of_the_tail(
    own: npt.NDArray[np.float32], a: float, b: float, ratio: float, as_odds: bool
) -> None:
    found, c, bend = scanning.head_begins(a, b, ratio, int(as_odds))
    head = np.float32(found)
    slope = np.float32(a * LOG2_E)
    rest = np.float32(a * LOG2_E - slope)
    intercept = np.float32((a * head + b + math.log(c)) * LOG2_E)
    sums = np.zeros(7)
    scanning.tail_sums(own, head, slope, rest, intercept, np.float32(bend / c), sums)
    logits = np.where(own < head, a * own.astype(np.float64) + b, -np.inf)
    wanted = oracle.tail_odds_power_sums(logits, ratio, as_odds, 1.0)
    n = own.size
    for j in range(1, 7):
        slight = n * float(scanning.SLIGHT) ** j if j > 1 else 0.0
        assert sums[j] == pytest.approx(wanted[j], rel=j * 2e-6, abs=slight + 1e-30 * n)
    # the head begins where the probability is that of the threshold
    p = math.exp(a * head + b) if as_odds else ratio / (1.0 + math.exp(-(a * head + b)))
    assert p == pytest.approx(HEAD_THRESHOLD, rel=1e-4)


@given(values, st.floats(-4.0, 4.0), st.floats(-30.0, 30.0), st.floats(-50.0, 50.0))
def test_logistic_sums(y: Array, a: float, b: float, centre: float) -> None:
    wanted = oracle.logistic_sums(y, a, b)
    scale = 2.0
    found = logistic_sums.sums_double(scale * y + centre, centre, scale, a, b)
    assert np.allclose(found, wanted, rtol=1e-9, atol=1e-9 * y.size)
    rough = logistic_sums.sums_single((scale * y).astype(np.float32), scale, a, b)
    size = y.size * max(1.0, float(np.abs(y).max()) ** 2)
    assert np.allclose(rough, wanted[1:], rtol=1e-5, atol=1e-6 * size)
    totals = calibrating.probability_sums(y, a, b)
    assert np.allclose(totals, [wanted[1], wanted[3]], rtol=1e-9, atol=1e-12 * y.size)


@given(values)
def test_spread_of_scores(y: Array) -> None:
    total, squares, least, greatest = logistic_sums.spread_of(y)
    assert total == pytest.approx(float((y - y[0]).sum()), abs=1e-9 * y.size)
    assert squares == pytest.approx(float(((y - y[0]) ** 2).sum()), abs=1e-9 * y.size)
    assert (least, greatest) == (y.min(), y.max())


@given(
    hnp.arrays(
        np.float32, st.integers(1, 60), elements=st.sampled_from([-np.inf, 0.0, 1.0, 2.5, 3.0])
    )
)
def test_how_many_are_better(own: npt.NDArray[np.float32]) -> None:
    better = np.empty(own.size, dtype=np.int32)
    scanning.n_better(own, better)
    assert better.tolist() == [int((own > one).sum()) for one in own]


@pytest.mark.parametrize(
    ("kernel", "arguments", "whole_numbers"),
    [
        (scanning.tail_sums, (np.zeros(9, np.float32), *[np.float32(1)] * 5, np.zeros(7)), "f32"),
        (logistic_sums.sums_in_lanes, (np.zeros(9, np.float32), *[np.float32(1)] * 3), "f32"),
        (logistic_sums.sums_double, (np.zeros(9), 0.0, 1.0, 1.0, 0.0), "f64"),
        (calibrating.probability_sums, (np.zeros(9), 1.0, 0.0), "f64"),
    ],
)
def test_a_loop_with_an_exponential_is_vector_code(
    kernel: Any, arguments: tuple[Any, ...], whole_numbers: str
) -> None:
    # What rounds the exponent to a whole number stands in it for several at once. Compiled here,
    # as a kernel out of the cache shows nothing.
    options = {name: value for name, value in kernel.targetoptions.items() if name != "nopython"}
    fresh = njit(**options)(kernel.py_func)
    fresh(*arguments)
    code = fresh.inspect_llvm(fresh.signatures[0])
    widths = re.findall(rf"llvm\.(?:rint|floor)\.v(\d+){whole_numbers}", code)
    assert widths
    assert max(map(int, widths)) >= (4 if whole_numbers == "f32" else 2)


@njit  # type: ignore[untyped-decorator]
def mask_from(own: npt.NDArray[np.float64], begin: int, limit: float) -> int:
    return int(not_less(own, begin, limit))


@njit  # type: ignore[untyped-decorator]
def bit_of(mask: int) -> int:
    return int(lowest_bit(mask))


@given(
    hnp.arrays(
        np.float64, st.integers(64, 80), elements=st.sampled_from([-np.inf, 0.0, np.nan, 1.0])
    ),
    st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0]),
    st.data(),
)
def test_a_mask_has_the_bits_of_what_is_not_less(
    own: Array, limit: float, data: st.DataObject
) -> None:
    begin = data.draw(st.integers(0, own.size - MASKED))
    mask = mask_from(own, begin, limit)
    places = [i for i in range(MASKED) if not own[begin + i] < limit]
    assert mask % 2**64 == sum(2**i for i in places)
    if places:
        assert bit_of(mask) == places[0]


@njit  # type: ignore[untyped-decorator]
def seen_through(matrix: Array, row: int, begin: int, end: int) -> float:
    total = 0.0
    view = part_of(row_of(matrix, row), begin, end)
    for i in range(view.size):
        total = 10.0 * total + view[i]
        view[i] = -1.0
    return total


def test_views_are_of_the_array_itself() -> None:
    matrix = np.arange(8.0).reshape(2, 4)
    assert seen_through(matrix, 1, 1, 3) == 56.0
    assert matrix.tolist() == [[0.0, 1.0, 2.0, 3.0], [4.0, -1.0, -1.0, 7.0]]
    assert seen_through(matrix, 0, 2, 2) == 0.0


@pytest.mark.parametrize(
    ("row", "begin", "end"), [(2, 0, 1), (-1, 0, 1), (0, 0, 5), (0, -1, 2), (0, 3, 2)]
)
def test_views_beyond_bounds_are_refused_where_bounds_are_looked_at(
    row: int, begin: int, end: int
) -> None:
    checked = njit(boundscheck=True)(seen_through.py_func)
    with pytest.raises(IndexError, match="view is out of bounds"):
        checked(np.zeros((2, 4)), row, begin, end)
    with pytest.raises(IndexError, match="view is out of bounds"):
        njit(boundscheck=True)(mask_from.py_func)(np.zeros(70), 7, 0.0)
