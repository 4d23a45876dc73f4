"""A utility of one's own: as arrays, as a table, as functions, and what is refused."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oracle
import strategies
from contracts import UtilityContract
from topperk import F1, NDCG, Custom, NetGain, PersonalizedK, Precision
from topperk.errors import SettingError

Array = npt.NDArray[np.float64]
LONGEST = 40


# --- the contract -----------------------------------------------------------------------------

RNG = np.random.default_rng(20)


class TestArrays(UtilityContract):
    utility = Custom("arrays", RNG.normal(size=LONGEST), RNG.normal(size=LONGEST))


class TestArraysWithANormaliserByLength(UtilityContract):
    utility = Custom("by length", RNG.random(LONGEST), None, RNG.random(LONGEST))


class TestTable(UtilityContract):
    utility = Custom("table", RNG.random(LONGEST), RNG.random(LONGEST), RNG.random((6, LONGEST)))


class TestFunctions(UtilityContract):
    utility = Custom(
        "functions",
        lambda r: np.exp(-r / 5.0),
        lambda r: 0.01 * r,
        lambda m, k: 1.0 / np.sqrt(m + k),
    )


class TestFunctionOfTheLengthAlone(UtilityContract):
    utility = Custom("k alone", lambda r: 1.0 / r, normaliser=lambda m, k: 1.0 / k)


# --- against enumeration and against the utilities that come along ----------------------------


@settings(max_examples=40)
@given(p=strategies.probabilities(1, 7), seed=st.integers(0, 2**32), rows=st.integers(1, 9))
def test_a_random_table_gives_the_mean_over_all_outcomes(p: Array, seed: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    n = p.size
    discount, penalty = rng.normal(size=n), rng.normal(size=n)
    table = rng.normal(size=(rows, n))
    # the last row serves all greater m
    whole = table[np.minimum(np.arange(n), rows - 1)]
    measure = oracle.three_arrays(discount, penalty, whole)
    wanted = oracle.expected_curve(measure, p, n)
    by_table = Custom("table", discount, penalty, table)
    by_function = Custom(
        "functions",
        lambda r: discount[r.astype(int) - 1],
        lambda r: penalty[r.astype(int) - 1],
        lambda m, k: table[np.minimum(m.astype(int), rows) - 1, k.astype(int) - 1],
    )
    assert np.abs(by_table.expected(p) - wanted).max() < 1e-10
    assert np.abs(by_function.expected(p) - wanted).max() < 1e-10


def test_arrays_and_functions_can_be_mixed() -> None:
    p = np.random.default_rng(0).random((3, 6))
    wanted = F1().expected(p)
    f1 = Custom("f1", lambda r: np.ones_like(r), np.zeros(6), lambda m, k: 2.0 / (m + k))
    assert np.allclose(f1.expected(p), wanted, rtol=0.0, atol=1e-14)
    m, k = np.arange(1, 7)[:, None], np.arange(1, 7)[None, :]
    f1 = Custom("f1", np.ones(9), normaliser=2.0 / (m + k))
    assert np.allclose(f1.expected(p), wanted, rtol=0.0, atol=1e-14)


def test_known_utilities_written_as_custom_ones_are_the_same() -> None:
    p = np.random.default_rng(1).random((4, 7))
    ranks = np.arange(1.0, 8.0)
    net = Custom("net", np.full(7, 2.0), np.full(7, 0.5))
    assert np.allclose(net.expected(p), NetGain(2.0, 0.5).expected(p), rtol=0.0, atol=1e-13)
    precision = Custom("precision", np.ones(7), normaliser=1.0 / ranks)
    assert np.allclose(precision.expected(p), Precision().expected(p), rtol=0.0, atol=1e-13)
    ndcg = Custom("ndcg", 1.0 / np.log2(ranks + 1.0), normaliser=NDCG().normaliser)
    assert np.allclose(ndcg.expected(p), NDCG().expected(p), rtol=0.0, atol=1e-13)


def test_what_is_left_out_is_no_penalty_and_no_normaliser() -> None:
    bare = Custom("bare", [3.0, 2.0])
    assert bare.realised([1, 0], 5).tolist() == [0.0, 3.0, 3.0]
    assert not bare.counts_all_relevant


def test_it_counts_all_relevant_items_where_the_normaliser_may_depend_on_them() -> None:
    assert not Custom("k", [1.0], normaliser=[1.0]).counts_all_relevant
    assert Custom("m, k", [1.0], normaliser=[[1.0]]).counts_all_relevant
    assert Custom("f", [1.0], normaliser=lambda m, k: m * k).counts_all_relevant


def test_the_last_row_of_a_table_serves_greater_counts() -> None:
    capped = Custom("capped", np.ones(2), normaliser=[[1.0, 1.0], [0.5, 0.25]])
    assert capped.realised([1, 1], 2).tolist() == [0.0, 0.5, 0.5]
    assert capped.realised([1, 1], 1_000).tolist() == [0.0, 0.5, 0.5]


def test_later_changes_of_an_array_that_was_given_do_not_reach_it() -> None:
    discount = np.array([1.0, 0.5])
    utility = Custom("mine", discount)
    discount[:] = 100.0
    assert utility.realised([1, 1], 2).tolist() == [0.0, 1.0, 1.5]


# --- errors -----------------------------------------------------------------------------------

GIVEN: dict[str, tuple[dict[str, Any], str]] = {
    "discount with NaN": ({"discount": [1.0, np.nan]}, "the discount holds NaN or infinity"),
    "infinite penalty": (
        {"discount": [1.0], "penalty": [np.inf]},
        "the penalty holds NaN or infinity. Give a finite number",
    ),
    "normaliser with NaN": (
        {"discount": [1.0], "normaliser": [[np.nan]]},
        "the normaliser holds NaN or infinity",
    ),
    "empty discount": ({"discount": []}, "the discount is not a list of numbers"),
    "one number": ({"discount": 1.0}, "the discount is not a list of numbers"),
    "a table of discounts": ({"discount": [[1.0]]}, "the discount is not a list of numbers"),
    "words": ({"discount": ["one"]}, "the discount is not a list of numbers"),
    "ragged table": (
        {"discount": [1.0], "normaliser": [[1.0], [1.0, 2.0]]},
        "the normaliser is not a list or a table of numbers",
    ),
    "a cube": (
        {"discount": [1.0], "normaliser": np.ones((1, 1, 1))},
        "the normaliser is not a list or a table of numbers",
    ),
}


@pytest.mark.parametrize(("given_arrays", "words"), GIVEN.values(), ids=GIVEN.keys())
def test_what_is_not_finite_numbers_is_refused_when_made(
    given_arrays: dict[str, Any], words: str
) -> None:
    with pytest.raises(SettingError, match=re.escape(words)):
        Custom("mine", **given_arrays)


SHORT: dict[str, tuple[Custom, int, str]] = {
    "discount": (
        Custom("mine", np.ones(2)),
        2,
        "the discount is given for 2 ranks and needed for 3",
    ),
    "penalty": (
        Custom("mine", np.ones(3), np.ones(1)),
        1,
        "the penalty is given for 1 ranks and needed for 3",
    ),
    "normaliser": (
        Custom("mine", np.ones(3), None, np.ones(2)),
        2,
        "the normaliser is given for 2 ranks and needed for 3",
    ),
    "table": (
        Custom("mine", np.ones(3), None, np.ones((5, 2))),
        2,
        "the normaliser is given for lists of up to 2 items",
    ),
}


@pytest.mark.parametrize(("utility", "enough", "words"), SHORT.values(), ids=SHORT.keys())
def test_arrays_that_are_too_short_are_refused_with_the_length_that_is_needed(
    utility: Custom, enough: int, words: str
) -> None:
    for use in (
        lambda: utility.expected([0.5, 0.5, 0.5]),
        lambda: utility.realised([1, 0, 1], 2),
    ):
        with pytest.raises(SettingError, match=re.escape(words)):
            use()
    assert np.isfinite(utility.expected([0.5, 0.5, 0.5], max_k=enough)).all()


def test_arrays_that_are_too_short_are_refused_before_any_fitting() -> None:
    with pytest.raises(SettingError, match="given for 2 ranks and needed for 5"):
        PersonalizedK(Custom("mine", [1.0, 1.0]), max_k=5)


FUNCTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "discount of another shape": (
        {"discount": lambda r: np.ones(2)},
        "the discount of utility 'mine' has shape (2,) where (3,) is needed",
    ),
    "discount of one number": (
        {"discount": lambda r: 1.0},
        "the discount of utility 'mine' has shape ()",
    ),
    "penalty with infinity": (
        {"discount": np.ones(3), "penalty": lambda r: np.where(r > 1, np.inf, 0.0)},
        "the penalty of utility 'mine' holds NaN or infinity",
    ),
    "normaliser with NaN": (
        {"discount": np.ones(3), "normaliser": lambda m, k: np.where(m > 3, np.nan, 1.0 / k)},
        "the normaliser of utility 'mine' holds NaN or infinity",
    ),
    "normaliser of another shape": (
        {"discount": np.ones(3), "normaliser": lambda m, k: np.ones((2, 2))},
        "the normaliser of utility 'mine' has shape (2, 2)",
    ),
}


@pytest.mark.parametrize(("functions", "words"), FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_functions_that_return_rubbish_are_named(functions: dict[str, Any], words: str) -> None:
    utility = Custom("mine", **functions)
    with pytest.raises(SettingError, match=re.escape(words)):
        utility.expected([0.5, 0.5, 0.5])


def test_a_normaliser_function_may_leave_the_broadcasting_to_topperk() -> None:
    p = [0.5, 0.4, 0.3]
    by_length = Custom("mine", np.ones(3), normaliser=lambda m, k: 1.0 / k)
    constant = Custom("mine", np.ones(3), normaliser=lambda m, k: 2.0)  # type: ignore[arg-type]
    assert np.allclose(by_length.expected(p), Precision().expected(p), rtol=0.0, atol=1e-13)
    assert np.allclose(constant.expected(p), [0.0, 1.0, 1.8, 2.4], rtol=0.0, atol=1e-13)
