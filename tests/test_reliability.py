"""Calibration error, Brier score and log loss beside their definitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss, log_loss

import topperk as tp
from topperk.datasets.simulated import World, simulate_world
from topperk.errors import InputError, ScoreError, SettingError
from topperk.reliability import Reliability


@pytest.fixture(scope="module")
def world() -> World:
    return simulate_world(n_users=200, n_items=300, seed=2)


def obvious_ece_of_equal_width(p: Any, y: Any, n_bins: int) -> float:
    total = 0.0
    for b in range(n_bins):
        inside = (p >= b / n_bins) & ((p < (b + 1) / n_bins) | (b == n_bins - 1))
        if inside.any():
            total += inside.sum() * abs(p[inside].mean() - y[inside].mean())
    return float(total / p.size)


pairs = st.lists(
    st.tuples(st.sampled_from([0.0, 1e-12, 0.1, 0.25, 0.5, 0.9, 1.0]), st.booleans()),
    min_size=1,
    max_size=60,
)


@given(pairs, st.sampled_from([1, 2, 4, 8, 16]))
def test_equal_width_is_the_textbook_ece(drawn: list[tuple[float, bool]], n_bins: int) -> None:
    p = np.array([probability for probability, _ in drawn])
    y = np.array([outcome for _, outcome in drawn], dtype=float)
    found = tp.reliability(p, y, n_bins=n_bins, bins="equal_width")
    assert found.ece == pytest.approx(obvious_ece_of_equal_width(p, y, n_bins), abs=1e-12)
    assert found.n_pairs == p.size
    assert found.base_rate == pytest.approx(y.mean())


def test_brier_and_log_loss_agree_with_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(0.001, 0.999, 5_000)
    y = (rng.random(5_000) < p).astype(float)
    found = tp.reliability(p, y)
    assert found.brier == pytest.approx(brier_score_loss(y, p))
    assert found.log_loss == pytest.approx(log_loss(y, p))


def test_bins_of_equal_mass_hold_about_as_many_pairs_each() -> None:
    rng = np.random.default_rng(1)
    p = np.exp(rng.uniform(-12, -0.01, 20_000))
    y = (rng.random(p.size) < p).astype(float)
    found = tp.reliability(p, y, n_bins=10)
    assert found.count.size == 10
    # A border lies in a cell of .02 in the logit, of 12 that the pairs are spread over.
    assert np.abs(found.count - 2_000).max() <= 2 * 20_000 * 0.02 / 11
    assert (np.diff(found.mean_probability) > 0).all()


@given(pairs, st.integers(1, 40), st.sampled_from(["equal_mass", "equal_width"]))
def test_there_are_no_more_bins_than_asked_for_and_no_pair_is_lost(
    drawn: list[tuple[float, bool]], n_bins: int, bins: Any
) -> None:
    p = [probability for probability, _ in drawn]
    y = [float(outcome) for _, outcome in drawn]
    found = tp.reliability(p, y, n_bins=n_bins, bins=bins)
    assert 1 <= found.count.size <= n_bins
    assert found.n_pairs == len(drawn)
    assert (found.count * found.mean_probability).sum() == pytest.approx(sum(p))
    assert (found.count * found.observed_rate).sum() == pytest.approx(sum(y))


def test_the_table_is_the_bins_as_polars(world: World) -> None:
    calibration = tp.GlobalPlatt().fit(world.scores, world.split)
    table = tp.reliability_of(calibration, world.scores, world.split, n_bins=5).table()
    assert isinstance(table, pl.DataFrame)
    assert table.columns == ["mean_probability", "observed_rate", "count"]
    assert isinstance(calibration.parameters(), pl.DataFrame)


def test_true_probabilities_have_no_calibration_error_but_chance(world: World) -> None:
    users = np.arange(200)
    p, y, keep = truth_of(world, users)
    true = tp.reliability(p[keep], y[keep])
    wrong = tp.reliability(p[keep] ** 0.7, y[keep])
    error = np.sqrt(true.mean_probability / true.count)
    gaps = np.abs(true.mean_probability - true.observed_rate)
    assert (gaps < 5 * error).all()
    assert wrong.ece > 5 * true.ece
    assert wrong.log_loss > true.log_loss


def truth_of(world: World, users: Any) -> tuple[Any, Any, Any]:
    p = world.true_probability(users)
    y, keep = np.zeros_like(p), np.ones(p.shape, dtype=bool)
    for user in users:
        y[user, world.split.test.items_of(user)] = 1
        keep[user, world.split.train.items_of(user)] = False
        keep[user, world.split.validation.items_of(user)] = False
    return p, y, keep


@pytest.mark.parametrize("top", [None, 1, 10])
@pytest.mark.parametrize("bins", ["equal_mass", "equal_width"])
def test_judging_a_calibration_is_judging_its_pairs(world: World, top: Any, bins: Any) -> None:
    calibration = tp.UserPlatt().fit(world.scores, world.split)
    users = np.arange(200, dtype=np.int32)
    _, y, keep = truth_of(world, users)
    block = world.scores.block(users)
    scores = block.scores.reshape(keep.shape).copy()
    scores[~keep] = -np.inf
    block.scores[:] = scores.reshape(-1)
    p = calibration.probabilities(block, users).reshape(keep.shape)
    if top is not None:
        order = np.argsort(-scores, axis=1, kind="stable")[:, :top]
        keep = np.zeros_like(keep)
        np.put_along_axis(keep, order, True, axis=1)
    same(
        tp.reliability_of(calibration, world.scores, world.split, top=top, bins=bins),
        tp.reliability(p[keep], y[keep], bins=bins),
    )


def same(found: Reliability, wanted: Reliability) -> None:
    assert found.count.tolist() == wanted.count.tolist()
    assert found.observed_rate == pytest.approx(wanted.observed_rate)
    assert found.mean_probability == pytest.approx(wanted.mean_probability)
    assert found.brier == pytest.approx(wanted.brier)
    assert found.log_loss == pytest.approx(wanted.log_loss)


def test_calibrating_makes_scores_reliable(world: World) -> None:
    errors = [
        tp.reliability_of(one.fit(world.scores, world.split), world.scores, world.split).ece
        for one in (tp.Uncalibrated(), tp.GlobalPlatt(), tp.UserPlatt())
    ]
    assert errors[0] > 10 * errors[1]
    assert errors[1] > errors[2]


def test_table_has_a_row_per_bin() -> None:
    table = tp.reliability([0.2, 0.9], [0, 1], n_bins=2).table()
    assert table.columns == ["mean_probability", "observed_rate", "count"]
    assert table.height == 2


@pytest.mark.parametrize(
    ("p", "y", "settings", "error", "words"),
    [
        ([0.5], [1, 0], {}, InputError, "1 probabilities and 2 outcomes"),
        ([], [], {}, InputError, "at least one pair"),
        ([0.1, 1.5], [0, 1], {}, ScoreError, "probability 1.5 at position 1"),
        ([0.1, float("nan")], [0, 1], {}, ScoreError, "nan at position 1"),
        ([0.5], [2], {}, InputError, "other than 0 and 1"),
        ([0.5], [1], {"n_bins": 0}, SettingError, "n_bins"),
        ([0.5], [1], {"bins": "wide"}, SettingError, "'wide'"),
    ],
)
def test_wrong_calls_are_explained(
    p: Any, y: Any, settings: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        tp.reliability(p, y, **settings)


def test_top_of_nothing_is_refused(world: World) -> None:
    calibration = tp.Uncalibrated().fit(world.scores, world.split)
    with pytest.raises(SettingError, match="top is 0"):
        tp.reliability_of(calibration, world.scores, world.split, top=0)
