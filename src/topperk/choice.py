"""How many items each user gets: personal lengths, and the fixed, random and hindsight ones.

A method object holds settings (``PersonalizedK(F1(), max_k=50)``); its ``fit`` returns a new
object, a ``FittedK``, and all methods' fitted objects speak the same verbs:

- ``sizes(scores)``      a row per user: ``user_id, k, expected_utility, expected_relevant,
  calibration``
- ``recommend(scores)``  the lists: ``user_id, item_id, rank, score, probability``
- ``curves(scores)``     the expected utility of every length: ``user_id, k, expected_utility``
- ``save(path)``

Ties go to the smallest k: values within 1e-12 of the best count as the best. An empty list
(``min_k=0``) is worth 0. A user with fewer candidates than ``min_k`` gets them all.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np

from topperk._arguments import check_fit
from topperk._blocks import OnMissing, align_whole
from topperk._kernels.arrays import FloatArray, IntArray
from topperk._kernels.curves import best_lengths
from topperk._outcomes import ended, outcomes_of
from topperk._policies import PersonalPolicy, Policy, RandomPolicy, TablePolicy
from topperk._settings import check_choice, check_count, check_seed
from topperk._utility_tables import Method, UtilityTables
from topperk.calibration import Calibration, Calibrator, UserPlatt, is_fitted
from topperk.errors import IdError, SettingError
from topperk.fitted import FittedK, Seen
from topperk.interactions import Interactions
from topperk.progress import Progress
from topperk.reasons import Reason
from topperk.scores import ScoreSource
from topperk.split import Split
from topperk.utility import Utility, check_utility

__all__ = ["ChoiceOfK", "FixedK", "OracleK", "PersonalizedK", "RandomK", "ValidationK"]


class ChoiceOfK(ABC):
    """Settings of a way to choose list lengths."""

    @abstractmethod
    def fit(
        self,
        scores: ScoreSource,
        split: Split,
        *,
        on_missing: OnMissing = "error",
        progress: Progress | None = None,
    ) -> FittedK:
        """A new, fitted object; this one does not change."""


@dataclass(frozen=True)
class PersonalizedK(ChoiceOfK):
    """The length with the greatest expected utility for each user (Algorithm 1 of the paper).

    ``calibrator`` turns scores into probabilities; an already fitted calibration serves as well,
    and can be shared by several utilities. ``method="paper"`` computes the paper's approximations
    with M = ``paper_terms`` instead of the exact expectation.
    """

    utility: Utility
    min_k: int = 1
    max_k: int = 50
    calibrator: Calibrator | Calibration = field(default_factory=UserPlatt)
    method: Method = "exact"
    paper_terms: int = 2000

    def __post_init__(self) -> None:
        _check_range(self.min_k, self.max_k)
        check_utility(self.utility)
        if not (isinstance(self.calibrator, Calibrator) or is_fitted(self.calibrator)):
            raise SettingError(
                f"calibrator is {self.calibrator!r}; give one such as UserPlatt(), or a fitted "
                "calibration."
            )
        check_choice("method", self.method, ("exact", "paper"))
        check_count("paper_terms", self.paper_terms)
        if self.paper_terms < 1:
            raise SettingError(f"paper_terms is {self.paper_terms}; it must be at least 1.")
        UtilityTables(self.utility, self.max_k)

    def fit(
        self,
        scores: ScoreSource,
        split: Split,
        *,
        on_missing: OnMissing = "error",
        progress: Progress | None = None,
    ) -> FittedK:
        """Calibrate on the validation part; the lists will leave out training and validation."""
        check_fit(scores, split, progress)
        _check_catalogue(self.max_k, scores)
        if isinstance(self.calibrator, Calibrator):
            calibration = self.calibrator.fit(
                scores, split, on_missing=on_missing, progress=progress
            )
        else:
            calibration = self.calibrator
            if calibration.users != split.ids.users:
                raise IdError(
                    f"the calibration was fitted on {len(calibration.users):,} users that are not "
                    f"the split's {split.ids.n_users:,}. Fit it on the same split."
                )
        policy = PersonalPolicy(
            self.utility,
            int(self.min_k),
            int(self.max_k),
            calibration,
            self.method,
            self.paper_terms,
        )
        return _fitted_on("personal", self.min_k, self.max_k, split, policy)


@dataclass(frozen=True)
class FixedK(ChoiceOfK):
    """The same length for everybody: what recommenders do today."""

    k: int

    def __post_init__(self) -> None:
        check_count("k", self.k)
        if self.k == 0:
            raise SettingError("k is 0, so every list would be empty. Make it at least 1.")

    def fit(
        self,
        scores: ScoreSource,
        split: Split,
        *,
        on_missing: OnMissing = "error",
        progress: Progress | None = None,
    ) -> FittedK:
        """Nothing is learnt."""
        check_fit(scores, split, progress)
        _check_catalogue(self.k, scores, "k")
        align_whole(scores, split.ids, on_missing)
        n = split.ids.n_users + 1
        policy = TablePolicy(
            np.full(n, self.k, dtype=np.int32), np.full(n, Reason.FIXED.code, dtype=np.uint8)
        )
        return _fitted_on(f"top-{self.k}", self.k, self.k, split, policy)


@dataclass(frozen=True)
class RandomK(ChoiceOfK):
    """A length drawn evenly from min_k..max_k for each user, from the seed and the user's id."""

    seed: int = 0
    min_k: int = 1
    max_k: int = 50

    def __post_init__(self) -> None:
        check_seed(self.seed)
        _check_range(self.min_k, self.max_k)

    def fit(
        self,
        scores: ScoreSource,
        split: Split,
        *,
        on_missing: OnMissing = "error",
        progress: Progress | None = None,
    ) -> FittedK:
        """Nothing is learnt."""
        check_fit(scores, split, progress)
        _check_catalogue(self.max_k, scores)
        align_whole(scores, split.ids, on_missing)
        policy = RandomPolicy(self.seed, self.min_k, self.max_k)
        return _fitted_on("random", self.min_k, self.max_k, split, policy)


@dataclass(frozen=True)
class ValidationK(ChoiceOfK):
    """The length that would have been best for the user on validation (Val-k).

    Users without a validation positive, and new users, get the length that was best on average.
    """

    utility: Utility
    min_k: int = 1
    max_k: int = 50

    def __post_init__(self) -> None:
        check_utility(self.utility)
        _check_range(self.min_k, self.max_k)

    def fit(
        self,
        scores: ScoreSource,
        split: Split,
        *,
        on_missing: OnMissing = "error",
        progress: Progress | None = None,
    ) -> FittedK:
        """Realised utility on validation, of lists that leave out training."""
        check_fit(scores, split, progress)
        policy = _best_in_hindsight(
            self, scores, split, [split.train], split.validation, on_missing, progress
        )
        return _fitted_on("validation", self.min_k, self.max_k, split, policy)


@dataclass(frozen=True)
class OracleK(ChoiceOfK):
    """The length that is best on test: a bound that nobody can reach without knowing the future.

    A user without a test positive gets the length that loses least. New users get the length that
    was best on average.
    """

    utility: Utility
    min_k: int = 1
    max_k: int = 50

    def __post_init__(self) -> None:
        check_utility(self.utility)
        _check_range(self.min_k, self.max_k)

    def fit(
        self,
        scores: ScoreSource,
        split: Split,
        *,
        on_missing: OnMissing = "error",
        progress: Progress | None = None,
    ) -> FittedK:
        """Realised utility on test, of lists that leave out training and validation."""
        check_fit(scores, split, progress)
        seen = [split.train, split.validation]
        policy = _best_in_hindsight(self, scores, split, seen, split.test, on_missing, progress)
        return _fitted_on("oracle", self.min_k, self.max_k, split, policy)


def best_lengths_of(curves: FloatArray, lengths: IntArray, min_k: int, max_k: int) -> IntArray:
    """The smallest k in min_k..max_k whose value is the best, for each row of curves."""
    k = np.empty(lengths.size, dtype=np.int32)
    best_lengths(curves, min_k, max_k, lengths, k)
    return k


def _best_in_hindsight(
    settings: ValidationK | OracleK,
    scores: ScoreSource,
    split: Split,
    seen: list[Interactions],
    part: Interactions,
    on_missing: OnMissing,
    progress: Progress | None,
) -> TablePolicy:
    _check_catalogue(settings.max_k, scores)
    alignment = align_whole(scores, split.ids, on_missing)
    found = outcomes_of(scores, alignment, seen, part, settings.max_k, progress)
    tables = UtilityTables(settings.utility, settings.max_k)
    curves = ended(tables.realised(found.hits, found.n_relevant), found.lengths)
    judged = found.n_relevant > 0
    if not judged.any():
        which = "validation" if isinstance(settings, ValidationK) else "test"
        raise SettingError(
            f"no user has a {which} interaction, so no length can be called the best. "
            f"Split with a {which} part."
        )
    own = best_lengths_of(curves, found.lengths, settings.min_k, settings.max_k)
    mean = curves[judged].mean(axis=0, keepdims=True)
    reach = np.array([settings.max_k], dtype=np.int32)
    overall = best_lengths_of(mean, reach, settings.min_k, settings.max_k)[0]
    known = found.lengths > 0
    decided, why = known & judged, Reason.BEST_ON_VALIDATION
    if isinstance(settings, OracleK):  # what a list without a hit costs is known too
        decided, why = known, Reason.BEST_ON_TEST
    k = np.full(split.ids.n_users + 1, overall, dtype=np.int32)
    reason = np.full(k.size, Reason.NOT_SCORED.code, dtype=np.uint8)
    reason[-1] = Reason.NEW_USER.code
    reason[found.rows[known]] = Reason.NO_VALIDATION_POSITIVE.code
    reason[found.rows[decided]] = why.code
    # Other scores than those of the fit may hold more candidates.
    k[found.rows[decided]] = np.maximum(own[decided], settings.min_k)
    return TablePolicy(k, reason)


def _fitted_on(name: str, min_k: int, max_k: int, split: Split, policy: Policy) -> FittedK:
    seen = Seen.joining(split.train, split.validation)
    # numbers of numpy may be of a type that ends at 255
    return FittedK(name, split.ids, seen, int(min_k), int(max_k), policy)


def _check_range(min_k: int, max_k: int) -> None:
    check_count("min_k", min_k)
    check_count("max_k", max_k)
    if min_k > max_k:
        raise SettingError(f"min_k is {min_k} and max_k {max_k}. Make min_k at most max_k.")
    if max_k == 0:
        raise SettingError("max_k is 0, so every list would be empty. Make it at least 1.")


def _check_catalogue(max_k: int, scores: ScoreSource, name: str = "max_k") -> None:
    if max_k > scores.ids.n_items:
        raise SettingError(
            f"{name} is {max_k} but the scores hold only {scores.ids.n_items:,} items. "
            f"Make {name} at most {scores.ids.n_items}."
        )
