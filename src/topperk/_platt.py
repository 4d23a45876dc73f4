"""Platt scaling in passes over a score source: pooled, per user, and the population's prior.

Every pass computes the scores of a block again, so memory follows the block and not the data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, TypeVar

import numpy as np

from topperk._arguments import check_fit
from topperk._blocks import OnMissing, align_whole, over_blocks, positions_in
from topperk._kernels import calibrating, logistic
from topperk._kernels.arrays import FloatArray, IntArray, OffsetArray
from topperk.calibration import Convergence, Correction, PlattCalibration, logits
from topperk.errors import CalibrationError, ScoreError
from topperk.progress import Progress
from topperk.reasons import Reason
from topperk.scores import ScoreBlock, ScoreSource
from topperk.split import Split

POOLED_STEPS = 60
# A step below this is the last: convergence is quadratic, so it ends within 1e-8 of the optimum.
POOLED_SMALL_STEP = 1e-4
# Beyond this many candidates the pooled fit starts from that of users with about so many of them,
# or of every SPARSEST-th user where that is more: steps of the few save steps of all.
SAMPLED_BEYOND = 10_000_000
SPARSEST = 32
# The prior has settled when its mean moves by less than this many of its standard deviations.
PRIOR_ROUNDS = 60
PRIOR_SETTLED = 1e-3

R = TypeVar("R")

OUTCOMES = {
    logistic.FITTED: Reason.OWN_FIT,
    logistic.NO_POSITIVE: Reason.NO_VALIDATION_POSITIVE,
    logistic.NO_NEGATIVE: Reason.NO_NEGATIVE,
    logistic.NOT_CONVERGED: Reason.NOT_CONVERGED,
}


class Fit:
    """One fitting job: the source, the split, and how their codes relate."""

    def __init__(
        self,
        scores: ScoreSource,
        split: Split,
        on_missing: OnMissing,
        progress: Progress | None,
        scale: Literal["logit", "probability"] = "logit",
    ) -> None:
        check_fit(scores, split, progress)
        self.source = scores
        self.split = split
        self.progress = progress
        self.scale = scale
        self.alignment = align_whole(scores, split.ids, on_missing)
        self.users = np.flatnonzero(self.alignment.rows >= 0).astype(np.int32)
        if self.users.size == 0:
            raise CalibrationError(
                "the scores and the interactions have no user in common. Check that both carry the "
                "same kind of ids."
            )
        self._look(on_missing)

    def _over(
        self,
        stage: str,
        work: Callable[[ScoreBlock, IntArray, IntArray, OffsetArray], R],
        users: IntArray | None = None,
    ) -> Iterator[R]:
        """``work(block, rows, positives, offsets)`` on blocks without the training part.

        ``positives`` are the places of the validation items within each user's own candidates.
        """

        def on_block(block: ScoreBlock, rows: IntArray) -> R:
            if self.scale == "probability":
                block = ScoreBlock(block.users, logits(block.scores), block.offsets, block.items)
            positives, offsets = positions_in(block, rows, self.split.validation, self.alignment)
            return work(block, rows, positives, offsets)

        return over_blocks(
            on_block,
            self.source,
            self.users if users is None else users,
            self.alignment,
            [self.split.train],
            stage,
            self.progress,
        )

    def _look(self, on_missing: OnMissing) -> None:
        """First pass: the scores' mean and spread, and whether there is anything to learn from."""

        def look(
            block: ScoreBlock, rows: IntArray, positives: IntArray, offsets: OffsetArray
        ) -> tuple[FloatArray, IntArray, int]:
            moments = np.empty((rows.size, 5))
            logistic.moments(block.scores, block.offsets, moments)
            counts = moments[:, 0]
            if on_missing == "error" and (counts == 0).any():
                user = self.source.ids.users.name(int(block.users[np.argmin(counts)]))
                raise ScoreError(
                    f"user {user} has no candidate: every scored item is in training or minus "
                    "infinity. Drop the user, or pass on_missing='skip' for an empty list."
                )
            owner = np.repeat(np.arange(rows.size), np.diff(offsets))
            at = block.offsets[owner] + positives
            return moments, rows, int((block.scores[at] > -np.inf).sum())

        totals = np.array([0.0, 0.0, 0.0, np.inf, -np.inf])
        self.n_positive = 0
        self.scored = np.zeros(self.split.ids.n_users, dtype=np.bool_)
        for moments, rows, n_positive in self._over("reading scores", look):
            logistic.merge_moments(moments, totals)
            self.scored[rows[moments[:, 0] > 0]] = True
            self.n_positive += n_positive
        n, self.centre, squares, low, high = totals
        if n == 0:
            raise ScoreError(
                "no user has a candidate: every scored item is in training or minus infinity. "
                "Score items that users have not seen."
            )
        if low == high and self.scale == "logit":
            raise ScoreError(
                f"all {int(n):,} scores are {low:g}, so no item is better than another. "
                "Check that the model is trained and that the right column or array was passed."
            )
        self.n_candidates = int(n)
        self.spread = float(np.sqrt(squares / n)) or 1.0

    def pooled(self, c: float) -> tuple[float, float, Convergence]:
        """One logistic regression over all candidates of all users."""
        theta, convergence = self._pooled(c)
        slope, intercept = self._raw(theta)
        return float(slope), float(intercept), convergence

    def _pooled(self, c: float) -> tuple[FloatArray, Convergence]:
        """The same in units of (s - centre) / spread.

        Of many candidates a sample of the users gives the start, so that few steps need them all.
        """
        if self.n_positive == 0:
            raise CalibrationError(
                "no validation interaction is among the candidates, so there is nothing to "
                "calibrate with. Hold out a larger validation part, or check that the scores "
                "belong to these users and items."
            )
        ridge = 1.0 / (c * self.spread**2)
        share = min(self.n_positive / self.n_candidates, 1.0 - 1e-12)
        theta = np.array([0.0, np.log(share) - np.log1p(-share)])
        if self.n_candidates > SAMPLED_BEYOND:
            some = self.users[:: min(SPARSEST, self.n_candidates // SAMPLED_BEYOND + 1)]
            theta, _ = self._newton(theta, ridge * some.size / self.users.size, some)
        return self._newton(theta, ridge, self.users)

    def _newton(
        self, theta: FloatArray, ridge: float, users: IntArray
    ) -> tuple[FloatArray, Convergence]:
        """Newton's method with halved steps, from ``theta``, over the candidates of ``users``."""
        value, gradient, hessian = self._objective(theta, ridge, users)
        steps = 0
        while steps < POOLED_STEPS:
            steps += 1
            direction = np.linalg.lstsq(hessian, gradient, rcond=None)[0]
            reach = float(np.abs(direction).max())
            if reach <= POOLED_SMALL_STEP * (1.0 + float(np.abs(theta).max())):
                return theta - direction, Convergence(steps, True)
            step = min(1.0, 8.0 / reach)
            trial = self._objective(theta - step * direction, ridge, users)
            while not trial[0] <= value + 1e-13 * abs(value):
                step *= 0.5
                if step < 1e-10:
                    return theta, Convergence(steps, False)
                trial = self._objective(theta - step * direction, ridge, users)
            theta = theta - step * direction
            value, gradient, hessian = trial
        return theta, Convergence(steps, False)

    def _objective(
        self, theta: FloatArray, ridge: float, users: IntArray
    ) -> tuple[float, FloatArray, FloatArray]:
        """Value, gradient and Hessian in units of (s - centre) / spread: one pass."""
        a, b = float(theta[0]), float(theta[1])

        def sums_of(
            block: ScoreBlock, rows: IntArray, positives: IntArray, offsets: OffsetArray
        ) -> FloatArray:
            own = np.empty((rows.size, 8))
            logistic.pooled_sums(
                block.scores,
                block.offsets,
                positives,
                offsets,
                self.centre,
                self.spread,
                a,
                b,
                own,
            )
            return own

        sums = np.zeros(8)
        for own in self._over("calibrating all users together", sums_of, users):
            for row in own:  # one after the other, so that the blocks' sizes leave no trace
                sums += row
        log_sum, p, px, w, wx, wxx, n_positive, positive_sum = sums
        value = log_sum - a * positive_sum - b * n_positive + 0.5 * ridge * a**2
        gradient = np.array([px - positive_sum + ridge * a, p - n_positive])
        return value, gradient, np.array([[wxx + ridge, wx], [wx, w]])

    def _raw(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """From parameters of (s - centre) / spread to slope and intercept of s."""
        slope = theta[..., 0] / self.spread
        return slope, theta[..., 1] - slope * self.centre

    def user_wise(
        self, prior: Literal["ridge", "population"], c: float, correction: Correction
    ) -> PlattCalibration:
        """Every user's own logistic regression, under a ridge or the population's prior."""
        mean, pooled = self._pooled(c)
        slope, intercept = self._raw(mean)
        n = self.split.ids.n_users
        start = np.full((n, 2), np.nan)
        if prior == "ridge":
            ridge = np.array([0.0, 0.0, 1.0 / c, 0.0, 0.0])
            # in the scores' own unit, so that nothing of a user's fit depends on other users
            theta, _, outcomes, steps = self._users(ridge, start, 0.0, 1.0)
            own_slope, own_intercept = theta[:, 0], theta[:, 1]
            rounds, settled = 0, True
        else:
            # in units of (s - centre) / spread, so that the scores' unit and offset mean nothing
            unit = self.centre, self.spread
            covariance = 0.25 * np.eye(2)
            settled = False
            rounds = 0
            gaussian = _gaussian(mean, covariance)
            theta, covariances, outcomes, steps = self._users(gaussian, start, *unit)
            while rounds < PRIOR_ROUNDS and not settled:
                own = theta[outcomes == logistic.FITTED]
                spread = covariances[outcomes == logistic.FITTED]
                if own.shape[0] < 2:
                    break
                rounds += 1
                new_mean = own.mean(axis=0)
                inner = spread.mean(axis=0)
                covariance = np.cov(own.T, bias=True) + np.array(
                    [[inner[0], inner[1]], [inner[1], inner[2]]]
                )
                moved = np.abs(new_mean - mean) / np.sqrt(np.diag(covariance))
                mean = new_mean
                settled = bool(moved.max() < PRIOR_SETTLED)
                gaussian = _gaussian(mean, covariance)
                theta, covariances, outcomes, steps = self._users(gaussian, theta, *unit)
            settled = settled or rounds == 0
            slope, intercept = self._raw(mean)
            own_slope, own_intercept = self._raw(theta)
        reason = np.full(n, Reason.NOT_SCORED.code, dtype=np.uint8)
        for outcome, why in OUTCOMES.items():
            reason[self.scored & (outcomes == outcome)] = why.code
        own_fit = reason == Reason.OWN_FIT.code
        convergence = Convergence(
            pooled.pooled_steps,
            pooled.pooled_converged,
            int(steps.max(initial=0)),
            int((reason == Reason.NOT_CONVERGED.code).sum()),
            rounds,
            settled,
        )
        return self._finish(
            np.append(np.where(own_fit, own_slope, slope), slope),
            np.append(np.where(own_fit, own_intercept, intercept), intercept),
            np.append(reason, np.uint8(Reason.NEW_USER.code)),
            np.append(reason != Reason.NOT_CONVERGED.code, True),
            correction,
            convergence,
        )

    def _users(
        self, prior: FloatArray, start: FloatArray, centre: float, scale: float
    ) -> tuple[FloatArray, FloatArray, IntArray, IntArray]:
        """One pass of user-wise fits, a row per user; all in units of (s - centre) / scale."""
        n = self.split.ids.n_users
        theta = np.full((n, 2), np.nan)
        covariances = np.full((n, 3), np.nan)
        outcomes = np.full(n, -1, dtype=np.int32)
        steps = np.zeros(n, dtype=np.int32)

        def fit(
            block: ScoreBlock, rows: IntArray, positives: IntArray, offsets: OffsetArray
        ) -> None:
            own = np.empty((rows.size, 2))
            spread = np.empty((rows.size, 3))
            outcome = np.empty(rows.size, dtype=np.int32)
            taken = np.empty(rows.size, dtype=np.int32)
            logistic.fit_users(
                block.scores,
                block.offsets,
                positives,
                offsets,
                centre,
                scale,
                prior,
                start[rows],
                own,
                spread,
                outcome,
                taken,
            )
            theta[rows], covariances[rows] = own, spread
            outcomes[rows], steps[rows] = outcome, taken

        for _ in self._over("calibrating each user", fit):
            pass
        return theta, covariances, outcomes, steps

    def shared(
        self,
        slope: float,
        intercept: float,
        reason: Reason,
        correction: Correction,
        convergence: Convergence,
    ) -> PlattCalibration:
        """The same parameters for everybody."""
        n = self.split.ids.n_users + 1
        return self._finish(
            np.full(n, slope),
            np.full(n, intercept),
            np.full(n, reason.code, dtype=np.uint8),
            np.full(n, convergence.pooled_converged),
            correction,
            convergence,
        )

    def _finish(
        self,
        slope: FloatArray,
        intercept: FloatArray,
        reason: np.ndarray[tuple[int], np.dtype[np.uint8]],
        converged: np.ndarray[tuple[int], np.dtype[np.bool_]],
        correction: Correction,
        convergence: Convergence,
    ) -> PlattCalibration:
        """Add each user's held-out correction: one more pass, for ratio and shift."""
        adjustment = np.full(slope.size, 1.0 if correction == "ratio" else 0.0)
        if correction in ("ratio", "shift"):

            def correct(
                block: ScoreBlock, rows: IntArray, positives: IntArray, offsets: OffsetArray
            ) -> None:
                own = np.empty(rows.size)
                calibrating.held_out_corrections(
                    block.scores,
                    block.offsets,
                    positives,
                    offsets,
                    slope[rows],
                    intercept[rows],
                    correction == "shift",
                    own,
                )
                adjustment[rows] = own

            for _ in self._over("correcting for validation", correct):
                pass
        return PlattCalibration(
            users=self.split.ids.users,
            scale=self.scale,
            correction=correction,
            slope=slope,
            intercept=intercept,
            adjustment=adjustment,
            reason=reason,
            converged=converged,
            convergence=convergence,
        )


def _gaussian(mean: FloatArray, covariance: FloatArray) -> FloatArray:
    """(m_a, m_b, P_aa, P_ab, P_bb) of a prior with this mean and covariance."""
    precision = np.linalg.inv(covariance)
    return np.array([mean[0], mean[1], precision[0, 0], precision[0, 1], precision[1, 1]])
