"""Student's t and Holm's correction beside scipy's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from topperk._student import beta_regularised, holm, two_sided_p, two_sided_quantile


@given(st.floats(0.3, 1e4), st.floats(0.3, 1e4), st.floats(0.0, 1.0))
def test_incomplete_beta_agrees_with_scipy(a: float, b: float, x: float) -> None:
    assert beta_regularised(x, a, b) == pytest.approx(special.betainc(a, b, x), abs=1e-9)


@given(st.floats(-60, 60), st.integers(1, 100_000))
def test_p_values_agree_with_scipy(t: float, degrees: int) -> None:
    assert two_sided_p(t, degrees) == pytest.approx(2 * stats.t.sf(abs(t), degrees), rel=1e-8)


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.95, 0.999])
@pytest.mark.parametrize("degrees", [1, 2, 5, 30, 6_000])
def test_quantiles_agree_with_scipy(confidence: float, degrees: int) -> None:
    wanted = stats.t.ppf(0.5 + confidence / 2, degrees)
    assert two_sided_quantile(confidence, degrees) == pytest.approx(wanted, rel=1e-8)


def test_p_of_no_number_and_of_infinity() -> None:
    assert math.isnan(two_sided_p(math.nan, 3))
    assert two_sided_p(math.inf, 3) == two_sided_p(-math.inf, 3) == 0.0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_rejects_as_the_step_down_procedure_does(p: list[float]) -> None:
    adjusted = holm(np.array(p))
    level = 0.05
    rejected: set[int] = set()
    for step, index in enumerate(np.argsort(p, kind="stable")):
        if p[index] > level / (len(p) - step):
            break
        rejected.add(int(index))
    for index, value in enumerate(adjusted):
        if not math.isclose(value, level, rel_tol=1e-9):
            assert (value <= level) == (index in rejected)
    assert (adjusted >= np.array(p)).all()
    assert (adjusted <= 1).all()


def test_holm_leaves_out_what_was_not_tested() -> None:
    adjusted = holm(np.array([0.02, math.nan, 0.01]))
    assert adjusted[[0, 2]].tolist() == [0.02, 0.02]
    assert math.isnan(adjusted[1])
