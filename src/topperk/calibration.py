"""From scores to the probability that the user will take the item.

Platt scaling, ``p = sigmoid(a s + b)``, learnt on every item outside a user's training part with
the validation items as positives (Eq. 14-16): per user, or pooled.

**The held-out correction.** A fit learns P(in validation | not in training). When a list is made
the validation items are known too and are left out, so each of the remaining items is more likely
than the fit says. ``correction`` is

========== ===========================================================================
``none``   P = p
``ratio``  P = c p, at most 1, with c = (expected count of the remaining items and of the
           validation items) / (of the remaining): what the authors' notebook does
``odds``   P = p / (1 - p), at most ``ODDS_CAP``: exact where validation and what is to
           come are random parts of equal size and p is right
``shift``  P = sigmoid(a s + b + d), d keeping that same expected count
========== ===========================================================================

Ratio and shift are one number per user, computed once in fitting. A user who was not part of the
fit has had nothing held out and gets no correction.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from topperk._blocks import OnMissing
from topperk._kernels.arrays import BoolArray, FloatArray, IntArray
from topperk._kernels.calibrating import probabilities_of
from topperk._settings import check_choice, check_finite
from topperk._stored import reasons_named, stored_array
from topperk.errors import ScoreError, SettingError
from topperk.ids import IdIndex
from topperk.progress import Progress
from topperk.reasons import Reason
from topperk.scores import ScoreBlock, ScoreSource
from topperk.split import Split

__all__ = [
    "Calibration",
    "Calibrator",
    "Convergence",
    "Correction",
    "GlobalPlatt",
    "PlattCalibration",
    "Uncalibrated",
    "UserPlatt",
]

Correction: TypeAlias = Literal["none", "ratio", "odds", "shift"]
CORRECTIONS = ("none", "ratio", "odds", "shift")
SCALES = ("logit", "probability")
# odds of an in-sample p above one half would be a probability above 1; a certain item would make
# every longer list look worse than it is
ODDS_CAP = 0.98
# Slope, intercept, ratio and whether odds, as kernels take them.
Parameters: TypeAlias = tuple[FloatArray, FloatArray, FloatArray, IntArray]


class Calibration(Protocol):
    """What fitting gives: probabilities for any block of scores.

    ``rows`` are each block user's place in ``users``, or -1 for a user who was not there.
    """

    @property
    def users(self) -> IdIndex:
        """The users of the fit."""
        ...

    def probabilities(self, block: ScoreBlock, rows: IntArray) -> FloatArray:
        """A probability for each score of the block, 0 where the score is minus infinity."""
        ...

    def reasons(self, rows: IntArray) -> npt.NDArray[np.uint8]:
        """The code of the ``Reason`` of each user."""
        ...

    def state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """What a saved model keeps: plain settings, and arrays."""
        ...


class Calibrator(ABC):
    """Settings of a calibration, and the way to fit it."""

    @abstractmethod
    def fit(
        self,
        scores: ScoreSource,
        split: Split,
        *,
        on_missing: OnMissing = "error",
        progress: Progress | None = None,
    ) -> Calibration:
        """Learn from the validation part which scores mean which probability."""


@dataclass(frozen=True)
class Convergence:
    """How the fitting went: Newton steps, and users whose own fit did not settle."""

    pooled_steps: int = 0
    pooled_converged: bool = True
    most_user_steps: int = 0
    users_not_converged: int = 0
    prior_rounds: int = 0
    prior_converged: bool = True

    @property
    def converged(self) -> bool:
        """Whether everything settled."""
        return self.pooled_converged and self.prior_converged and not self.users_not_converged


@dataclass(frozen=True, eq=False)
class PlattCalibration:
    """``sigmoid(slope s + intercept)`` per user, with the held-out correction.

    The arrays have one entry for each of ``users`` and a last one for the population, which is
    what users get who were not there. ``adjustment`` is the ratio or the shift.
    """

    users: IdIndex
    scale: Literal["logit", "probability"]
    correction: Correction
    slope: FloatArray
    intercept: FloatArray
    adjustment: FloatArray
    reason: npt.NDArray[np.uint8]
    converged: BoolArray
    convergence: Convergence

    def __repr__(self) -> str:
        """How many users, where their parameters come from, and the correction."""
        codes, counts = np.unique(self.reason[:-1], return_counts=True)
        pairs = zip(codes, counts, strict=True)
        told = ", ".join(f"{count} {Reason.of(code).name.lower()}" for code, count in pairs)
        return f"PlattCalibration({len(self.users)} users: {told or 'none'}; {self.correction!r})"

    def parameters_of(self, rows: IntArray) -> Parameters:
        """Slope, intercept, ratio and whether odds, as ``calibrating.probabilities_of`` takes them.

        The shift is part of the intercept.
        """
        at = rows.astype(np.intp)  # as numpy wants it: else each array would turn it into that
        intercept = self.intercept[at]
        odds = np.zeros(at.size, dtype=np.int32)
        if self.correction == "ratio":
            return self.slope[at], intercept, self.adjustment[at], odds
        if self.correction == "shift":
            intercept += self.adjustment[at]
        elif self.correction == "odds":
            odds[at >= 0] = 1
        ratio = np.empty(at.size)
        ratio.fill(1.0)
        return self.slope[at], intercept, ratio, odds

    def probabilities(self, block: ScoreBlock, rows: IntArray) -> FloatArray:
        """A probability for each score of the block, 0 where the score is minus infinity."""
        out = np.empty(block.scores.size)
        scores = block.scores if self.scale == "logit" else logits(block.scores)
        probabilities_of(scores, block.offsets, *self.parameters_of(rows), ODDS_CAP, out)
        return out

    def reasons(self, rows: IntArray) -> npt.NDArray[np.uint8]:
        """The code of the ``Reason`` of each user."""
        return self.reason[rows.astype(np.intp)]

    def parameters(self) -> pl.DataFrame:
        """A row per user of the fit: slope, intercept, adjustment, calibration, converged.

        Always a polars frame: a calibration keeps the users' ids, not the kind of frame in which
        they came.
        """
        return pl.DataFrame(
            {
                "user_id": self.users.take(np.arange(len(self.users), dtype=np.int32)),
                "slope": self.slope[:-1],
                "intercept": self.intercept[:-1],
                "adjustment": self.adjustment[:-1],
                "calibration": [Reason.of(code).name.lower() for code in self.reason[:-1]],
                "converged": self.converged[:-1],
            }
        )

    @property
    def population(self) -> tuple[float, float]:
        """Slope and intercept of users who were not there, or had nothing to learn from."""
        return float(self.slope[-1]), float(self.intercept[-1])

    def state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """What a saved model keeps: plain settings, and arrays."""
        config = {
            "scale": self.scale,
            "correction": self.correction,
            "reasons": [reason.name for reason in Reason],
            "convergence": asdict(self.convergence),
        }
        arrays: dict[str, npt.NDArray[Any]] = {
            "slope": self.slope,
            "intercept": self.intercept,
            "adjustment": self.adjustment,
            "reason": self.reason,
            "converged": self.converged,
        }
        return config, arrays

    @classmethod
    def from_state(
        cls, users: IdIndex, config: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]
    ) -> PlattCalibration:
        """The calibration that ``state`` described; ValueError or KeyError if it is no such."""
        n = len(users) + 1
        own = {
            name: stored_array(arrays, name, np.float64, n)
            for name in ("slope", "intercept", "adjustment")
        }
        for name, value in own.items():
            if not np.isfinite(value).all():
                raise ValueError(f"the array {name!r} holds NaN or infinity")
        if config["correction"] == "ratio" and (own["adjustment"] < 0.0).any():
            raise ValueError("the array 'adjustment' holds a negative ratio")
        if config["scale"] not in SCALES or config["correction"] not in CORRECTIONS:
            raise ValueError(f"{config['scale']!r}, {config['correction']!r} are no settings")
        convergence = Convergence(**config["convergence"])
        for field in fields(Convergence):
            if type(getattr(convergence, field.name)) is not type(field.default):
                raise ValueError(f"{field.name} is {getattr(convergence, field.name)!r}")
        return cls(
            users=users,
            scale=config["scale"],
            correction=config["correction"],
            reason=reasons_named(config["reasons"], stored_array(arrays, "reason", np.uint8, n)),
            converged=stored_array(arrays, "converged", np.bool_, n),
            convergence=convergence,
            **own,
        )


@dataclass(frozen=True)
class Uncalibrated(Calibrator):
    """Scores used as they are: logits, or probabilities already (``scale="probability"``)."""

    scale: Literal["logit", "probability"] = "logit"
    correction: Correction = "none"

    def __post_init__(self) -> None:
        check_choice("correction", self.correction, CORRECTIONS)
        check_choice("scale", self.scale, SCALES)

    def fit(
        self,
        scores: ScoreSource,
        split: Split,
        *,
        on_missing: OnMissing = "error",
        progress: Progress | None = None,
    ) -> PlattCalibration:
        """Nothing is learnt but the correction."""
        from topperk._platt import Fit

        fit = Fit(scores, split, on_missing, progress, self.scale)
        return fit.shared(1.0, 0.0, Reason.UNCALIBRATED, self.correction, Convergence())


@dataclass(frozen=True)
class GlobalPlatt(Calibrator):
    """One slope and intercept for all users; ``c`` is the strength of the ridge on the slope."""

    correction: Correction = "shift"
    c: float = 1.0

    def __post_init__(self) -> None:
        check_choice("correction", self.correction, CORRECTIONS)
        _check_c(self.c)

    def fit(
        self,
        scores: ScoreSource,
        split: Split,
        *,
        on_missing: OnMissing = "error",
        progress: Progress | None = None,
    ) -> PlattCalibration:
        """One logistic regression over all pairs outside training."""
        from topperk._platt import Fit

        fit = Fit(scores, split, on_missing, progress)
        slope, intercept, convergence = fit.pooled(self.c)
        return fit.shared(slope, intercept, Reason.POOLED_FIT, self.correction, convergence)


@dataclass(frozen=True)
class UserPlatt(Calibrator):
    """The paper's: a slope and an intercept of each user's own, on *all* of the user's negatives.

    ``prior="ridge"`` is scikit-learn's logistic regression with ``C=c`` (the slope is drawn to 0,
    the intercept is free). ``prior="population"`` draws both to the population's mean with the
    population's covariance, learnt by empirical Bayes (EM), and needs no unit of the score.
    Users without validation positives and new users get the population's parameters: the pooled
    fit, or the prior's mean.
    """

    correction: Correction = "shift"
    prior: Literal["ridge", "population"] = "ridge"
    c: float = 1.0

    def __post_init__(self) -> None:
        check_choice("correction", self.correction, CORRECTIONS)
        _check_c(self.c)
        check_choice("prior", self.prior, ("ridge", "population"))

    def fit(
        self,
        scores: ScoreSource,
        split: Split,
        *,
        on_missing: OnMissing = "error",
        progress: Progress | None = None,
    ) -> PlattCalibration:
        """Newton's method for every user."""
        from topperk._platt import Fit

        fit = Fit(scores, split, on_missing, progress)
        return fit.user_wise(self.prior, self.c, self.correction)


def logits(probabilities: npt.NDArray[Any]) -> FloatArray:
    """Logits of scores that are probabilities; minus infinity (no candidate) stays."""
    p = np.asarray(probabilities, dtype=np.float64)
    candidate = p > -np.inf
    bad = candidate & ((p < 0.0) | (p > 1.0))
    if bad.any():
        raise ScoreError(
            f"a score is {p[bad][0]}, which is no probability. "
            "Use scale='logit', or calibrate with UserPlatt."
        )
    inside = np.clip(p[candidate], 1e-300, 1.0 - 2.0**-53)
    out = np.full(p.shape, -np.inf)
    out[candidate] = np.log(inside) - np.log1p(-inside)
    return out


def is_fitted(calibration: object) -> bool:
    """Whether it gives probabilities; its ``state`` is asked for only where a model is saved."""
    users = getattr(calibration, "users", None)
    asked = ("probabilities", "reasons")
    return isinstance(users, IdIndex) and all(hasattr(calibration, name) for name in asked)


def check_calibration(calibration: object) -> None:
    """SettingError unless it is a fitted calibration."""
    if is_fitted(calibration):
        return
    cure = "Give a fitted calibration: calibrator.fit(scores, split)"
    if isinstance(calibration, Calibrator):
        cure = f"Fit it first: {calibration!r}.fit(scores, split)"
    elif is_fitted(getattr(calibration, "calibration", None)):
        cure = "Give its calibration: model.calibration"
    raise SettingError(
        f"calibration is of type {type(calibration).__name__}, which is not fitted. {cure}."
    )


def _check_c(c: float) -> None:
    check_finite("c", c)
    if not c > 0.0:
        raise SettingError(f"c is {c}; it must be a positive number, like scikit-learn's C.")
