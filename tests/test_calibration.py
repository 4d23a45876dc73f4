"""Scores become probabilities: as scikit-learn would, for awkward users too, and held-out parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.linear_model import LogisticRegression

import oracle
from contracts import (
    AWKWARD_USERS,
    CalibratorContract,
    awkward_users,
    content_of,
    in_blocks_of,
    probabilities_of_all,
)
from topperk import (
    Callable,
    Candidates,
    Dense,
    GlobalPlatt,
    Ids,
    Interactions,
    PlattCalibration,
    Reason,
    Split,
    Uncalibrated,
    UserPlatt,
    _platt,
    split_given,
)
from topperk._kernels import calibrating, logistic
from topperk._platt import PRIOR_ROUNDS, PRIOR_SETTLED
from topperk.calibration import CORRECTIONS, ODDS_CAP, Calibrator, Correction, logits
from topperk.datasets.simulated import World, simulate_world
from topperk.errors import CalibrationError, IdError, ScoreError, SettingError

Array = npt.NDArray[np.float64]
CALIBRATORS: tuple[Any, ...] = (
    UserPlatt(),
    UserPlatt(prior="population"),
    GlobalPlatt(),
    Uncalibrated(),
)


class TestUserPlatt(CalibratorContract):
    calibrator = UserPlatt()


class TestUserPlattUnderThePopulationsPrior(CalibratorContract):
    calibrator = UserPlatt(prior="population", correction="odds")


class TestGlobalPlatt(CalibratorContract):
    calibrator = GlobalPlatt(correction="ratio")


class TestUncalibrated(CalibratorContract):
    calibrator = Uncalibrated()


# --- a world, and its users one by one --------------------------------------------------------


@pytest.fixture(scope="module")
def world() -> World:
    return simulate_world(n_users=60, n_items=120, seed=3, mean_relevant=25.0)


@pytest.fixture(scope="module")
def source(world: World) -> Dense:
    return dense(world)


def dense(world: World) -> Dense:
    """The world's scores as a matrix of float64."""
    rows = world.scores.block(np.arange(world.ids.n_users, dtype=np.int32)).scores
    return Dense(rows.reshape(world.ids.n_users, -1).astype(np.float64), world.ids)


def candidates(split: Split, user: int) -> npt.NDArray[np.int64]:
    """The items outside a user's training part."""
    return np.setdiff1d(np.arange(split.ids.n_items), split.train.items_of(user))


def labelled(source: Dense, split: Split) -> list[tuple[Array, Array]]:
    """Each user's (scores, labels) outside training."""
    return [
        (
            source.matrix[user, candidates(split, user)],
            np.isin(candidates(split, user), split.validation.items_of(user)).astype(np.float64),
        )
        for user in range(split.ids.n_users)
    ]


def with_positives(source: Dense, split: Split) -> list[int]:
    return [user for user, (_, y) in enumerate(labelled(source, split)) if y.any()]


def parameters(calibration: PlattCalibration) -> Array:
    """(n_users + 1, 2); the last row is the population's."""
    return np.column_stack([calibration.slope, calibration.intercept])


def reasons_of(calibration: PlattCalibration) -> list[Reason]:
    return [Reason.of(int(code)) for code in calibration.reason]


# --- the parameters ---------------------------------------------------------------------------


@pytest.mark.parametrize("c", [0.1, 1.0, 30.0])
def test_a_users_parameters_are_those_of_scikit_learn(
    world: World, source: Dense, c: float
) -> None:
    found = parameters(UserPlatt(c=c).fit(source, world.split))
    users = with_positives(source, world.split)
    assert len(users) > 40
    for user in users:
        s, y = labelled(source, world.split)[user]
        peer = LogisticRegression(C=c, solver="newton-cholesky", tol=1e-10).fit(s[:, None], y)
        wanted = [peer.coef_[0, 0], peer.intercept_[0]]
        np.testing.assert_allclose(found[user], wanted, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("c", [1e-3, 1.0])
def test_pooled_parameters_are_those_of_scikit_learn(world: World, source: Dense, c: float) -> None:
    calibration = GlobalPlatt(c=c).fit(source, world.split)
    s = np.concatenate([scores for scores, _ in labelled(source, world.split)])
    y = np.concatenate([labels for _, labels in labelled(source, world.split)])
    peer = LogisticRegression(C=c, solver="newton-cholesky", tol=1e-10).fit(s[:, None], y)
    wanted = [peer.coef_[0, 0], peer.intercept_[0]]
    np.testing.assert_allclose(calibration.population, wanted, rtol=1e-6)
    assert (parameters(calibration) == calibration.population).all()


def test_the_populations_prior_is_found_by_em(world: World, source: Dense) -> None:
    users = [(s, y) for s, y in labelled(source, world.split)]
    everything = np.concatenate([s for s, _ in users])
    centre, spread = everything.mean(), everything.std()
    standard = [((s - centre) / spread, y) for s, y in users]
    pooled = oracle.ridge_fit(
        np.concatenate([s for s, _ in standard]), np.concatenate([y for _, y in users]), spread**2
    )
    with_own = [user for user in standard if user[1].any()]
    mean, _, theta = oracle.population_prior(with_own, pooled, PRIOR_ROUNDS, PRIOR_SETTLED)
    calibration = UserPlatt(prior="population").fit(source, world.split)
    found = parameters(calibration)
    own = [reason is Reason.OWN_FIT for reason in reasons_of(calibration)]
    assert sum(own) == len(with_own)
    raw = theta / [spread, 1.0] - np.outer(theta[:, 0] / spread * centre, [0.0, 1.0])
    np.testing.assert_allclose(found[own], raw, rtol=1e-6, atol=1e-6)
    population = [mean[0] / spread, mean[1] - mean[0] * centre / spread]
    np.testing.assert_allclose(calibration.population, population, rtol=1e-6)
    others = [reason is Reason.NO_VALIDATION_POSITIVE for reason in reasons_of(calibration)]
    assert any(others)
    np.testing.assert_array_equal(
        found[others], np.broadcast_to(calibration.population, found[others].shape)
    )


SOME_SCORES = hnp.arrays(
    np.float64,
    st.integers(2, 25),
    elements=st.floats(-8, 8).map(lambda x: round(x, 3)) | st.just(-np.inf),
)


@given(SOME_SCORES, st.data(), st.sampled_from([0.01, 1.0, 50.0]))
def test_a_fit_is_the_obvious_one_or_says_why_there_is_none(
    scores: Array, data: st.DataObject, c: float
) -> None:
    positives = np.array(
        sorted(data.draw(st.sets(st.integers(0, scores.size - 1), max_size=6))), dtype=np.int32
    )
    there = scores > -np.inf
    labels = np.isin(np.arange(scores.size), positives)[there].astype(np.float64)
    theta, covariance = np.empty((1, 2)), np.empty((1, 3))
    outcome, steps = np.empty(1, dtype=np.int32), np.empty(1, dtype=np.int32)
    logistic.fit_users(
        scores,
        np.array([0, scores.size]),
        positives,
        np.array([0, positives.size]),
        0.0,
        1.0,
        np.array([0.0, 0.0, 1.0 / c, 0.0, 0.0]),
        np.full((1, 2), np.nan),
        theta,
        covariance,
        outcome,
        steps,
    )
    if not labels.any():
        assert outcome[0] == logistic.NO_POSITIVE
        assert np.isnan(theta).all()
    elif labels.all():
        assert outcome[0] == logistic.NO_NEGATIVE
        assert np.isnan(theta).all()
    else:
        assert outcome[0] == logistic.FITTED
        assert 1 <= steps[0] <= logistic.MAX_STEPS
        precision = np.diag([1.0 / c, 0.0])
        wanted, spread = oracle.logistic_fit(scores[there], labels, np.zeros(2), precision)
        np.testing.assert_allclose(theta[0], wanted, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(
            covariance[0], spread[[0, 0, 1], [0, 1, 1]], rtol=1e-5, atol=1e-7 * spread.max()
        )


# 2**-13 is about 1e-4 and 2**20 about 1e6; scores rounded to 2**-16 survive both without loss.
UNIT, OFFSET = 2.0**-13, 2.0**20


def test_scores_of_a_tiny_scale_and_a_huge_offset_are_calibrated_alike(
    world: World, source: Dense
) -> None:
    plain = Dense(np.round(source.matrix * 2**16) / 2**16, world.ids)
    moved = Dense(plain.matrix * UNIT + OFFSET, world.ids)
    np.testing.assert_array_equal((moved.matrix - OFFSET) / UNIT, plain.matrix)
    # the ridge is in the score's unit: a slope 1 / UNIT times as steep needs c as many times twice
    weak = 1.0 / UNIT**2
    for one, other in (
        (UserPlatt(), UserPlatt(c=weak)),
        (UserPlatt(prior="population"), UserPlatt(prior="population", c=weak)),
        (GlobalPlatt(), GlobalPlatt(c=weak)),
    ):
        wanted, found = one.fit(plain, world.split), other.fit(moved, world.split)
        assert reasons_of(found) == reasons_of(wanted)
        # the mean score, which is where the population's prior is anchored, is rounded to 1e-6 UNIT
        np.testing.assert_allclose(found.slope * UNIT, wanted.slope, rtol=1e-6)
        # the intercept is of the size of slope * OFFSET, some 1e10, and so is its rounding
        np.testing.assert_allclose(
            probabilities_of_all(found, moved), probabilities_of_all(wanted, plain), rtol=2e-5
        )


def test_scikit_learns_ridge_flattens_scores_of_a_tiny_scale(world: World, source: Dense) -> None:
    tiny = Dense(source.matrix * 1e-4, world.ids)
    found = parameters(UserPlatt().fit(tiny, world.split))
    user = with_positives(source, world.split)[0]
    s, y = labelled(tiny, world.split)[user]
    np.testing.assert_allclose(found[user], oracle.ridge_fit(s, y, 1.0), rtol=1e-6)
    p = probabilities_of_all(UserPlatt(correction="none").fit(tiny, world.split), tiny)[user]
    assert np.ptp(p) < 0.01 * p.mean()


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=repr)
def test_float32_scores_are_calibrated_like_the_same_numbers_in_float64(
    world: World, source: Dense, calibrator: Calibrator
) -> None:
    single = Dense(source.matrix.astype(np.float32), world.ids)
    double = Dense(single.matrix.astype(np.float64), world.ids)
    one, other = calibrator.fit(single, world.split), calibrator.fit(double, world.split)
    # the first steps take sums in the order of lanes, which differs with the type of the scores
    np.testing.assert_allclose(
        probabilities_of_all(one, single), probabilities_of_all(other, double), rtol=1e-8
    )


# --- users with little to learn from ----------------------------------------------------------


@pytest.mark.parametrize("prior", ["ridge", "population"])
def test_every_awkward_user_has_finite_parameters_and_the_reason(prior: Any) -> None:
    split, source = awkward_users()
    calibration = UserPlatt(prior=prior).fit(source, split)
    assert np.isfinite(parameters(calibration)).all()
    assert np.isfinite(calibration.adjustment).all()
    found = dict(zip([*AWKWARD_USERS, "somebody new"], reasons_of(calibration), strict=True))
    assert found == {
        "constant scores": Reason.OWN_FIT,
        "no positive": Reason.NO_VALIDATION_POSITIVE,
        "one positive": Reason.OWN_FIT,
        "only positives": Reason.NO_NEGATIVE,
        "positives not scored": Reason.NO_VALIDATION_POSITIVE,
        "reversed": Reason.OWN_FIT,
        "separable": Reason.OWN_FIT,
        "well separated": Reason.OWN_FIT,
        "somebody new": Reason.NEW_USER,
    }
    for name, theta in zip(found, parameters(calibration), strict=True):
        shared = found[name] is not Reason.OWN_FIT
        assert (tuple(theta) == calibration.population) == shared, name


def test_a_user_of_constant_scores_gets_the_share_of_positives() -> None:
    split, source = awkward_users()
    calibration = UserPlatt(correction="none").fit(source, split)
    user = list(AWKWARD_USERS).index("constant scores")
    assert calibration.slope[user] == pytest.approx(0.0, abs=1e-12)
    p = probabilities_of_all(calibration, source)[user]
    np.testing.assert_allclose(p, 1 / 5, rtol=1e-9)  # one positive of five outside training


def test_a_user_whom_validation_contradicts_gets_a_falling_slope() -> None:
    split, source = awkward_users()
    calibration = UserPlatt().fit(source, split)
    user = list(AWKWARD_USERS).index("reversed")
    assert calibration.slope[user] < 0.0
    assert calibration.parameters()["slope"][user] == calibration.slope[user]


def test_users_without_scores_are_passed_over_when_asked_to_skip(
    world: World, source: Dense
) -> None:
    some = np.arange(0, world.ids.n_users, 2)
    fewer = Dense(source.matrix[some], Ids(world.ids.users.part(some), world.ids.items))
    with pytest.raises(IdError, match="user 'user-0001' of the interactions"):
        UserPlatt().fit(fewer, world.split)
    calibration = UserPlatt().fit(fewer, world.split, on_missing="skip")
    reasons = reasons_of(calibration)
    assert all(reason is Reason.NOT_SCORED for reason in reasons[1:-1:2])
    assert Reason.NOT_SCORED not in reasons[::2]
    assert (parameters(calibration)[1:-1:2] == calibration.population).all()
    whole = parameters(UserPlatt().fit(source, world.split))
    own = [user for user in with_positives(source, world.split) if user % 2 == 0]
    np.testing.assert_array_equal(parameters(calibration)[own], whole[own])


def test_fits_that_do_not_settle_are_reported_and_replaced(world: World, source: Dense) -> None:
    usual = UserPlatt().fit(source, world.split)
    assert usual.convergence.converged
    assert 1 <= usual.convergence.most_user_steps < logistic.MAX_STEPS
    assert usual.converged.all()
    # next to no ridge: nothing keeps separable users' slopes
    loose = UserPlatt(c=1e15).fit(source, world.split)
    stray = loose.reason[:-1] == Reason.NOT_CONVERGED.code
    assert 0 < stray.sum() < 0.5 * stray.size
    assert loose.convergence.users_not_converged == stray.sum()
    assert loose.convergence.most_user_steps == logistic.MAX_STEPS
    assert not loose.convergence.converged
    assert (parameters(loose)[:-1][stray] == loose.population).all()
    frame = loose.parameters()
    assert frame.columns == [
        "user_id",
        "slope",
        "intercept",
        "adjustment",
        "calibration",
        "converged",
    ]
    assert frame["user_id"].to_list() == world.ids.users.values.to_list()
    np.testing.assert_array_equal(frame["converged"].to_numpy(), ~stray)
    np.testing.assert_array_equal((frame["calibration"] == "not_converged").to_numpy(), stray)


@pytest.mark.parametrize("correction", ["ratio", "shift"])
def test_users_whose_candidates_are_all_held_out_are_not_corrected(correction: Correction) -> None:
    # what remains for them is exactly nothing, and no rounding of a difference
    rng = np.random.default_rng(6)
    n_users, n_items = 20, 9
    frame = pl.DataFrame(
        {
            "user_id": np.repeat(np.arange(n_users), n_items),
            "item_id": np.tile(np.arange(n_items), n_users),
            "score": rng.normal(size=n_users * n_items),
        }
    )
    everything = np.tile(np.arange(n_items, dtype=np.int32), n_users)
    ids = Candidates(frame).ids
    nothing = Interactions(ids, np.zeros(n_users + 1, dtype=np.int64), np.empty(0, dtype=np.int32))
    held = Interactions(ids, np.arange(n_users + 1, dtype=np.int64) * n_items, everything)
    split = Split(nothing, held, nothing, "given")
    fitted = GlobalPlatt(correction).fit(Candidates(frame), split)
    neutral = 1.0 if correction == "ratio" else 0.0
    assert (fitted.adjustment == neutral).all()


def test_a_start_from_a_sample_of_users_leads_to_the_same_pooled_fit(
    world: World, source: Dense, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = GlobalPlatt().fit(source, world.split)
    n_pairs = world.ids.n_users * world.ids.n_items
    taken = []
    for beyond in (n_pairs // 100, n_pairs // 7, n_pairs // 2):
        monkeypatch.setattr(_platt, "SAMPLED_BEYOND", beyond)
        started = GlobalPlatt().fit(source, world.split)
        assert started.population == pytest.approx(whole.population, rel=1e-7)
        assert started.convergence.pooled_converged
        taken.append(started.convergence.pooled_steps)
    # a start from half of the users saves steps that need them all
    assert taken[-1] < whole.convergence.pooled_steps


def test_the_priors_rounds_are_counted(world: World, source: Dense) -> None:
    convergence = UserPlatt(prior="population").fit(source, world.split).convergence
    assert 2 <= convergence.prior_rounds <= PRIOR_ROUNDS
    assert convergence.prior_converged == (convergence.prior_rounds < PRIOR_ROUNDS)
    assert UserPlatt().fit(source, world.split).convergence.prior_rounds == 0


def test_one_user_with_positives_is_no_population_but_gets_a_fit() -> None:
    split = split_given(
        {"user_id": ["a", "b"], "item_id": [0, 0]}, {"user_id": ["a", "b"], "item_id": [1, 2]}
    )
    ids = Ids.of(users=["a", "b"], items=[0, 1, 2])
    source = Dense([[0.0, 1.0, 0.5], [0.0, 1.0, -np.inf]], ids)
    calibration = UserPlatt(prior="population").fit(source, split)
    assert reasons_of(calibration) == [
        Reason.OWN_FIT,
        Reason.NO_VALIDATION_POSITIVE,
        Reason.NEW_USER,
    ]
    assert calibration.convergence.prior_rounds == 0
    assert np.isfinite(parameters(calibration)).all()


# --- the held-out correction ------------------------------------------------------------------


@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=repr)
def test_the_correction_is_the_obvious_one(
    world: World, source: Dense, calibrator: Any, correction: Correction
) -> None:
    calibration = replace(calibrator, correction=correction).fit(source, world.split)
    p = probabilities_of_all(calibration, source)
    for user in range(world.ids.n_users):
        there = candidates(world.split, user)
        validation = np.isin(there, world.split.validation.items_of(user))
        z = calibration.slope[user] * source.matrix[user, there] + calibration.intercept[user]
        wanted = oracle.held_out_corrected(correction, z, validation)
        np.testing.assert_allclose(p[user, there[~validation]], wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("correction", ["ratio", "shift"])
@pytest.mark.parametrize("calibrator", CALIBRATORS[:3], ids=repr)
def test_ratio_and_shift_keep_the_expected_count(
    world: World, source: Dense, calibrator: Any, correction: Correction
) -> None:
    before = replace(calibrator, correction="none").fit(source, world.split)
    after = replace(calibrator, correction=correction).fit(source, world.split)
    p, q = probabilities_of_all(before, source), probabilities_of_all(after, source)
    kept = 0
    for user in range(world.ids.n_users):
        there = candidates(world.split, user)
        remaining = np.setdiff1d(there, world.split.validation.items_of(user))
        if q[user, remaining].max() < 1.0:  # a ratio is clipped at 1
            assert q[user, remaining].sum() == pytest.approx(p[user, there].sum(), rel=1e-9)
            kept += 1
    assert kept > 0.9 * world.ids.n_users


@given(
    hnp.arrays(np.float64, st.integers(1, 12), elements=st.floats(-30, 30)),
    st.floats(-40, 40),
    st.floats(1e-6, 1.0 - 1e-6),
)
def test_a_shift_reaches_any_count_that_there_can_be(
    scores: Array, intercept: float, share: float
) -> None:
    target = share * scores.size
    shift = calibrating.logit_shift(scores, 1.0, intercept, target)
    reached = oracle.sigmoid(scores + intercept + shift).sum()
    if abs(shift) < 49.0:
        assert reached == pytest.approx(target, rel=1e-6)


@pytest.fixture(scope="module")
def truth() -> World:
    """A larger world, for statistics."""
    return simulate_world(n_users=400, n_items=300, seed=11, mean_relevant=30.0)


def remaining_of(world: World) -> npt.NDArray[np.bool_]:
    """Pairs that are neither in training nor in validation."""
    rest = np.ones((world.ids.n_users, world.ids.n_items), dtype=np.bool_)
    for part in (world.split.train, world.split.validation):
        rest[part.user_codes(), part.items] = False
    return rest


def test_the_odds_of_the_true_validation_probability_are_the_true_probability(
    truth: World,
) -> None:
    users = np.arange(truth.ids.n_users)
    source = Dense(truth.true_validation_probability(users), truth.ids)
    calibration = Uncalibrated(scale="probability", correction="odds").fit(source, truth.split)
    rest = remaining_of(truth)
    wanted = np.minimum(truth.true_probability(users), ODDS_CAP)
    np.testing.assert_allclose(
        probabilities_of_all(calibration, source)[rest], wanted[rest], rtol=1e-11
    )


@pytest.mark.parametrize(
    ("correction", "low", "high"),
    [("none", 5.0, np.inf), ("odds", -4.0, 4.0), ("ratio", -4.0, 4.0), ("shift", -4.0, 4.0)],
)
def test_corrected_probabilities_expect_what_test_holds(
    truth: World, correction: Correction, low: float, high: float
) -> None:
    users = np.arange(truth.ids.n_users)
    source = Dense(truth.true_validation_probability(users), truth.ids)
    calibration = Uncalibrated(scale="probability", correction=correction).fit(source, truth.split)
    p = probabilities_of_all(calibration, source)[remaining_of(truth)]
    excess = truth.split.test.n_interactions - p.sum()
    z = excess / np.sqrt((p * (1.0 - p)).sum())
    assert low < z < high


def test_the_default_calibration_expects_what_test_holds(truth: World) -> None:
    rest = remaining_of(truth)
    found = truth.split.test.n_interactions
    for calibrator, low, high in ((UserPlatt("none"), 3.0, 40.0), (UserPlatt(), -2.5, 2.5)):
        p = probabilities_of_all(calibrator.fit(truth.scores, truth.split), truth.scores)[rest]
        # the expected count was learnt from the validation part, which is as uncertain as test
        z = (found - p.sum()) / np.sqrt(2.0 * found)
        assert low < z < high, calibrator


def test_the_default_correction_is_the_shift() -> None:
    assert UserPlatt() == UserPlatt(correction="shift", prior="ridge", c=1.0)
    assert GlobalPlatt() == GlobalPlatt(correction="shift", c=1.0)
    assert Uncalibrated() == Uncalibrated(scale="logit", correction="none")
    assert get_args(Correction) == CORRECTIONS


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_somebody_new_gets_no_correction(
    world: World, source: Dense, correction: Correction
) -> None:
    calibration = UserPlatt(correction).fit(source, world.split)
    new = np.array([-1], dtype=np.int32)
    p = calibration.probabilities(source.block(np.array([0], dtype=np.int32)), new)
    slope, intercept = calibration.population
    np.testing.assert_allclose(p, oracle.sigmoid(slope * source.matrix[0] + intercept), rtol=1e-12)


# --- scores that are probabilities, or logits, already -----------------------------------------


def test_probabilities_pass_through_uncalibrated(world: World) -> None:
    p = np.linspace(0.0, 1.0, world.ids.n_users * world.ids.n_items).reshape(world.ids.n_users, -1)
    source = Dense(p, world.ids)
    calibration = Uncalibrated(scale="probability").fit(source, world.split)
    found = probabilities_of_all(calibration, source)
    np.testing.assert_allclose(found, p, rtol=1e-12, atol=1e-250)
    assert found[-1, -1] == pytest.approx(1.0, abs=1e-15)
    assert (np.diff(found.reshape(-1)) > 0.0).all()
    assert set(reasons_of(calibration)) == {Reason.UNCALIBRATED}


def test_logits_pass_through_uncalibrated(world: World, source: Dense) -> None:
    found = probabilities_of_all(Uncalibrated().fit(source, world.split), source)
    np.testing.assert_allclose(found, oracle.sigmoid(source.matrix), rtol=1e-12)


def test_logits_of_nothing_and_of_certainty_are_finite() -> None:
    found = logits(np.array([0.0, 5e-324, 0.25, 0.5, 1.0, -np.inf]))
    assert np.isfinite(found[:-1]).all()
    assert found[-1] == -np.inf
    assert found[2] == pytest.approx(-np.log(3.0))
    assert found[3] == 0.0
    assert (np.diff(found[:-1]) >= 0.0).all()


@pytest.mark.parametrize("score", [1.5, -0.1])
def test_what_is_no_probability_is_refused(world: World, score: float) -> None:
    p = np.full((world.ids.n_users, world.ids.n_items), 0.5)
    p[3, 4] = score
    with pytest.raises(ScoreError, match=f"{score}, which is no probability"):
        Uncalibrated(scale="probability").fit(Dense(p, world.ids), world.split)


# --- laws -------------------------------------------------------------------------------------


def test_a_users_fit_does_not_depend_on_other_users(world: World, source: Dense) -> None:
    few = simulate_world(n_users=25, n_items=120, seed=3, mean_relevant=25.0)
    own = with_positives(source, world.split)
    own = [user for user in own if user < 25]
    fewer = Dense(source.matrix[:25], few.ids)
    whole = UserPlatt().fit(source, world.split)
    part = UserPlatt().fit(fewer, few.split)
    assert len(own) > 15
    np.testing.assert_array_equal(parameters(part)[own], parameters(whole)[own])
    np.testing.assert_array_equal(part.adjustment[own], whole.adjustment[own])
    assert part.population != whole.population


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=repr)
def test_the_order_of_users_and_items_means_nothing(
    world: World, source: Dense, calibrator: Calibrator
) -> None:
    rng = np.random.default_rng(0)
    users, items = rng.permutation(world.ids.n_users), rng.permutation(world.ids.n_items)
    ids = Ids(world.ids.users.part(users), world.ids.items.part(items))
    other = Dense(source.matrix[users][:, items], ids)
    wanted, found = calibrator.fit(source, world.split), calibrator.fit(other, world.split)
    assert reasons_of(found) == reasons_of(wanted)
    np.testing.assert_allclose(parameters(found), parameters(wanted), rtol=1e-7)
    p = found.probabilities(other.block(np.arange(60, dtype=np.int32)), users.astype(np.int32))
    np.testing.assert_allclose(
        p.reshape(60, -1), probabilities_of_all(wanted, source)[users][:, items], rtol=1e-7
    )


@pytest.mark.parametrize("calibrator", CALIBRATORS, ids=repr)
def test_candidates_are_calibrated_like_a_matrix_with_gaps(
    world: World, source: Dense, calibrator: Calibrator
) -> None:
    rng = np.random.default_rng(1)
    there = rng.random(source.matrix.shape) < 0.5
    there[:, 0] = True
    gaps = Dense(np.where(there, source.matrix, -np.inf), world.ids)
    user, item = np.nonzero(there)
    frame = pl.DataFrame(
        {
            "user_id": world.ids.users.take(user.astype(np.int32)),
            "item_id": world.ids.items.take(item.astype(np.int32)),
            "score": source.matrix[there],
        }
    ).sample(fraction=1.0, shuffle=True, seed=0)
    ragged = Candidates(frame)
    assert ragged.ids == world.ids
    one = calibrator.fit(gaps, world.split, on_missing="skip")
    other = calibrator.fit(ragged, world.split, on_missing="skip")
    np.testing.assert_array_equal(parameters(other), parameters(one))
    p = other.probabilities(
        ragged.block(np.arange(60, dtype=np.int32)), np.arange(60, dtype=np.int32)
    )
    np.testing.assert_array_equal(p, probabilities_of_all(one, gaps)[there])


def test_a_function_of_users_is_calibrated_like_its_matrix(world: World, source: Dense) -> None:
    function = Callable(lambda users: source.matrix[users], world.ids)
    one, other = UserPlatt().fit(source, world.split), UserPlatt().fit(function, world.split)
    np.testing.assert_array_equal(parameters(one), parameters(other))


def test_all_corrections_leave_split_and_scores_alone(
    world: World, source: Dense, monkeypatch: pytest.MonkeyPatch
) -> None:
    split, matrix = content_of(world.split), source.matrix.copy()
    in_blocks_of(500, monkeypatch)
    for correction in get_args(Correction):
        UserPlatt(correction, prior="population").fit(source, world.split)
    assert content_of(world.split) == split
    np.testing.assert_array_equal(source.matrix, matrix)


def test_progress_tells_of_every_user(world: World, source: Dense) -> None:
    told: list[tuple[str, int, int]] = []
    UserPlatt().fit(source, world.split, progress=lambda *what: told.append(what))
    stages = {stage for stage, _, _ in told}
    assert stages == {
        "reading scores",
        "calibrating all users together",
        "calibrating each user",
        "correcting for validation",
    }
    for stage in stages:
        assert (stage, 60, 60) in told


# --- what can not be calibrated ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: UserPlatt(correction="half"), "correction is 'half'"),  # type: ignore[arg-type]
        (lambda: UserPlatt(prior="flat"), "prior is 'flat'"),  # type: ignore[arg-type]
        (lambda: UserPlatt(c=0.0), "c is 0.0"),
        (lambda: UserPlatt(c=float("nan")), "c is nan"),
        (lambda: UserPlatt(c="1"), "c is '1'"),  # type: ignore[arg-type]
        (lambda: GlobalPlatt(c=-1.0), "c is -1.0"),
        (lambda: GlobalPlatt(correction="x"), "correction is 'x'"),  # type: ignore[arg-type]
        (lambda: Uncalibrated(scale="score"), "scale is 'score'"),  # type: ignore[arg-type]
        (lambda: Uncalibrated(correction="x"), "correction is 'x'"),  # type: ignore[arg-type]
    ],
)
def test_settings_out_of_range_are_refused(make: Any, message: str) -> None:
    with pytest.raises(SettingError, match=message):
        make()


def test_a_split_without_validation_has_nothing_to_learn_from(world: World, source: Dense) -> None:
    none = world.split.validation.select(np.zeros(len(world.split.validation.items), np.bool_))
    split = Split(world.split.train, none, world.split.test, "given")
    for calibrator in CALIBRATORS[:3]:
        with pytest.raises(CalibrationError, match="nothing to calibrate with"):
            calibrator.fit(source, split)


def test_scores_that_are_all_the_same_are_refused(world: World) -> None:
    flat = Dense(np.full((60, 120), 7.0), world.ids)
    for calibrator in CALIBRATORS:
        with pytest.raises(ScoreError, match="7, so no item is better than another"):
            calibrator.fit(flat, world.split)


def test_a_user_without_candidates_is_named_or_skipped(world: World, source: Dense) -> None:
    matrix = source.matrix.copy()
    matrix[5] = -np.inf
    empty = Dense(matrix, world.ids)
    with pytest.raises(ScoreError, match="user 'user-0005' has no candidate"):
        UserPlatt().fit(empty, world.split)
    calibration = UserPlatt().fit(empty, world.split, on_missing="skip")
    assert reasons_of(calibration)[5] is Reason.NOT_SCORED
    nothing = Dense(np.full((60, 120), -np.inf), world.ids)
    with pytest.raises(ScoreError, match="no user has a candidate"):
        UserPlatt().fit(nothing, world.split, on_missing="skip")


def test_scores_of_strangers_are_refused(world: World, source: Dense) -> None:
    strangers = Ids.of(users=[f"x{n}" for n in range(60)], items=world.ids.items.values)
    with pytest.raises(CalibrationError, match="no user in common"):
        UserPlatt().fit(Dense(source.matrix, strangers), world.split, on_missing="skip")
    with pytest.raises(IdError, match="user 'x0' of the scores"):
        UserPlatt().fit(Dense(source.matrix, strangers), world.split)


def test_on_missing_is_one_of_two_words(world: World, source: Dense) -> None:
    for calibrator in CALIBRATORS:
        with pytest.raises(SettingError, match="on_missing is 'ignore'"):
            calibrator.fit(source, world.split, on_missing="ignore")


def test_nan_is_refused_with_the_names_of_its_pair(world: World, source: Dense) -> None:
    matrix = source.matrix.copy()
    matrix[2, 3] = np.nan
    with pytest.raises(ScoreError, match=r"item 'item-0003' for user 'user-0002' is NaN"):
        UserPlatt().fit(Dense(matrix, world.ids), world.split)


def test_reasons_have_sentences_and_codes() -> None:
    for reason in Reason:
        assert Reason.of(reason.code) is reason
        assert reason.value.endswith(".")


def test_interactions_that_are_not_scored_count_for_nothing(world: World, source: Dense) -> None:
    """An item of validation that is no candidate neither teaches nor is corrected for."""
    user = with_positives(source, world.split)[0]
    gone = world.split.validation.items_of(user)[0]
    matrix = source.matrix.copy()
    matrix[user, gone] = -np.inf
    kept = np.ones(world.split.validation.n_interactions, dtype=np.bool_)
    at = world.split.validation.offsets[user] + np.searchsorted(
        world.split.validation.items_of(user), gone
    )
    kept[at] = False
    fewer: Interactions = world.split.validation.select(kept)
    one = UserPlatt().fit(Dense(matrix, world.ids), world.split)
    other = UserPlatt().fit(
        Dense(matrix, world.ids), Split(world.split.train, fewer, world.split.test, "given")
    )
    np.testing.assert_array_equal(parameters(one), parameters(other))
    np.testing.assert_array_equal(one.adjustment, other.adjustment)
