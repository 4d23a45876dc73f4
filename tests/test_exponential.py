"""The kernels' own exp, against the C library's."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from topperk._kernels.exponential import fast_exp

Array = npt.NDArray[np.float64]
LIMIT = 707.0


@njit
def exp_of(x: Array) -> Array:
    """As in a kernel's loop: inlined, and vectorised where the compiler can."""
    out = np.empty_like(x)
    for i in range(x.size):
        out[i] = fast_exp(x[i])
    return out


def relative_error(x: Array) -> Array:
    exact = np.array([math.exp(value) for value in x])
    return np.abs(exp_of(x) / exact - 1.0)


@pytest.mark.parametrize(
    ("low", "high"), [(-LIMIT, LIMIT), (-50.0, 50.0), (-1.0, 1.0), (-1e-9, 1e-9), (680.0, LIMIT)]
)
def test_relative_error_is_below_1e14_over_the_whole_range(low: float, high: float) -> None:
    assert relative_error(np.linspace(low, high, 100_001)).max() < 1e-14


def test_relative_error_is_below_1e14_where_the_power_of_two_changes() -> None:
    edges = (np.arange(-1019, 1020) + 0.5) * math.log(2.0)
    around = np.concatenate([edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)])
    assert relative_error(around).max() < 1e-14


@given(st.floats(-LIMIT, LIMIT))
def test_relative_error_is_below_1e14_anywhere(x: float) -> None:
    assert relative_error(np.array([x])).max() < 1e-14


def test_beyond_the_range_the_argument_is_clamped() -> None:
    beyond = np.array([707.0, 708.0, 1e4, 1e308, np.inf])
    assert (exp_of(beyond) == exp_of(np.array([LIMIT]))[0]).all()
    assert (exp_of(-beyond) == exp_of(np.array([-LIMIT]))[0]).all()
    assert np.isfinite(exp_of(beyond)).all()
    assert (exp_of(-beyond) > 1e-308).all()


def test_zero_gives_one_and_nan_stays_nan() -> None:
    assert exp_of(np.array([0.0, -0.0])).tolist() == [1.0, 1.0]
    # in the middle of others too, where several values are computed together
    mixed = exp_of(np.array([1.0, np.nan, 2.0, np.nan, 3.0, 4.0, 5.0, 6.0, np.nan]))
    assert np.isnan(mixed).tolist() == [False, True, False, True, *[False] * 4, True]


def test_it_is_the_same_in_python_as_compiled() -> None:
    x = np.linspace(-20.0, 20.0, 999)
    assert np.allclose([fast_exp(value) for value in x], exp_of(x), rtol=1e-15, atol=0.0)


def test_it_never_falls_as_its_argument_grows() -> None:
    values = exp_of(np.linspace(-LIMIT, LIMIT, 200_001))
    assert (np.diff(values) > 0.0).all()
