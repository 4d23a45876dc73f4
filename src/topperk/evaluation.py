"""What the lists were worth in the end: realised utility, user by user, of several methods.

:func:`evaluate` holds the lists of each method against the test part. Lists leave out what a user
has in train and validation. **Users without a test interaction are left out of all averages** (no
utility could tell their lists apart), and counted.

Means come with Student's confidence intervals over users, comparisons with paired t-tests under
Holm's correction. Calibration is judged by :mod:`topperk.reliability`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias, cast

import numpy as np
import polars as pl

from topperk._arguments import check_fit
from topperk._blocks import OnMissing, align, align_whole, over_blocks
from topperk._frames import from_polars
from topperk._kernels.arrays import FloatArray, IntArray
from topperk._outcomes import ended, hits_of, top_of_block
from topperk._settings import check_count, check_finite
from topperk._student import holm, two_sided_p, two_sided_quantile
from topperk._utility_tables import UtilityTables
from topperk.calibration import Calibration, Calibrator, UserPlatt
from topperk.choice import (
    ChoiceOfK,
    FixedK,
    OracleK,
    PersonalizedK,
    RandomK,
    ValidationK,
    best_lengths_of,
)
from topperk.errors import InputError, SettingError
from topperk.fitted import FittedK
from topperk.ids import Ids
from topperk.progress import Progress
from topperk.scores import ScoreBlock, ScoreSource
from topperk.split import Split
from topperk.utility import Utility, check_utility

__all__ = ["Evaluation", "MethodOutcome", "evaluate", "usual_methods"]

Methods: TypeAlias = (
    Mapping[str, ChoiceOfK | FittedK] | Iterable[ChoiceOfK | FittedK] | ChoiceOfK | FittedK
)
PERSONAL = "personal"


@dataclass(frozen=True, eq=False)
class MethodOutcome:
    """One method: the length that each judged user got, and what the list was worth.

    ``fixed_k`` is the length where the method gives everybody the same one.
    """

    name: str
    k: IntArray
    realised: FloatArray
    fixed_k: int | None

    def __repr__(self) -> str:
        """The name and the mean."""
        return f"MethodOutcome({self.name} {self.realised.mean():.4f})"


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Realised utility of several methods on the same users.

    ``users`` are the judged users' codes in ``ids``; ``curves[n, k]`` is what the list of length k
    was worth to the n-th of them, where a list is never longer than the user's candidates.
    ``n_without_test`` users with scores were left out, having no test interaction.
    """

    utility: Utility
    ids: Ids
    users: IntArray
    curves: FloatArray
    methods: tuple[MethodOutcome, ...]
    n_without_test: int
    min_k: int
    confidence: float

    def __repr__(self) -> str:
        """The means; ``summary()`` says more."""
        means = ", ".join(f"{one.name} {one.realised.mean():.4f}" for one in self.methods)
        return f"Evaluation({self.utility.name} of {self.n_users} users: {means})"

    @property
    def n_users(self) -> int:
        """How many users were judged."""
        return self.users.size

    @property
    def fixed_curve(self) -> FloatArray:
        """Mean realised utility if everybody got k items, for k = 0..max_k."""
        mean: FloatArray = self.curves.mean(axis=0)
        return mean

    @property
    def best_fixed_k(self) -> int:
        """The single length that is best on these very users, in hindsight (ties: smallest)."""
        reach = np.array([self.curves.shape[1] - 1], dtype=np.int32)
        return int(best_lengths_of(self.fixed_curve[None, :], reach, self.min_k, int(reach[0]))[0])

    def method(self, name: str) -> MethodOutcome:
        """One method by its name; SettingError where there is none of that name."""
        named: object = name
        for found in self.methods:
            if isinstance(named, str) and found.name == named:
                return found
        raise SettingError(
            f"there is no method {name!r} in this evaluation. Choose among "
            f"{', '.join(repr(found.name) for found in self.methods)}."
        )

    def summary(self) -> Any:
        """A row per method: ``method, mean, ci_low, ci_high, mean_k, median_k``."""
        rows = []
        for found in self.methods:
            mean, half = self._mean_and_half(found.realised)
            rows.append(
                {
                    "method": found.name,
                    "mean": mean,
                    "ci_low": mean - half,
                    "ci_high": mean + half,
                    "mean_k": float(found.k.mean()),
                    "median_k": float(np.median(found.k)),
                }
            )
        return from_polars(pl.DataFrame(rows), self.ids.frame_kind)

    def tests(self, method: str = PERSONAL) -> Any:
        """One method against each of the others, and against the best single length.

        ``other, difference`` (mean of ``method`` minus the other), ``ci_low, ci_high, t, p,
        p_holm``: paired t-tests, two-sided, Holm's correction over the rows.
        """
        mine = self.method(method).realised
        best = self.best_fixed_k
        others = {found.name: found.realised for found in self.methods if found.name != method}
        others[f"best fixed ({best})"] = self.curves[:, best]
        rows = []
        for name, values in others.items():
            gap = mine - values
            mean, half = self._mean_and_half(gap)
            t = _t_statistic(gap)
            rows.append(
                {
                    "other": name,
                    "difference": mean,
                    "ci_low": mean - half,
                    "ci_high": mean + half,
                    "t": t,
                    "p": two_sided_p(t, gap.size - 1),
                }
            )
        frame = pl.DataFrame(rows)
        frame = frame.with_columns(pl.Series("p_holm", holm(frame["p"].to_numpy())))
        return from_polars(frame, self.ids.frame_kind)

    def lengths(self) -> Any:
        """How lengths are spread: ``method, k, users``, for every k from 0 to max_k."""
        n = self.curves.shape[1]
        parts = [
            pl.DataFrame(
                {
                    "method": [found.name] * n,
                    "k": np.arange(n, dtype=np.int32),
                    "users": np.bincount(found.k, minlength=n).astype(np.int64),
                }
            )
            for found in self.methods
        ]
        return from_polars(pl.concat(parts), self.ids.frame_kind)

    def per_user(self) -> Any:
        """A row per user and method: ``user_id, method, k, realised_utility``."""
        user_ids = self.ids.users.take(self.users)
        parts = [
            pl.DataFrame(
                {
                    "user_id": user_ids,
                    "method": [found.name] * self.n_users,
                    "k": found.k,
                    "realised_utility": found.realised,
                }
            )
            for found in self.methods
        ]
        return from_polars(pl.concat(parts), self.ids.frame_kind)

    def _mean_and_half(self, values: FloatArray) -> tuple[float, float]:
        """The mean, and half the width of its confidence interval (NaN for a single user)."""
        if values.size < 2:
            return float(values.mean()), float("nan")
        error = float(values.std(ddof=1)) / float(np.sqrt(values.size))
        return float(values.mean()), error * two_sided_quantile(self.confidence, values.size - 1)


def evaluate(
    methods: Methods,
    scores: ScoreSource,
    split: Split,
    utility: Utility | None = None,
    *,
    confidence: float = 0.95,
    on_missing: OnMissing = "error",
    progress: Progress | None = None,
) -> Evaluation:
    """Judge several methods on the test part, in one pass over the scores.

    ``methods`` are fitted, or settings that are fitted here; a mapping gives them names of your
    own. ``utility`` is what lists are judged by: that of the first method that has one, unless it
    is given. InputError where a method was fitted with pairs that are tested here.

    >>> from topperk import F1, FixedK, OracleK, PersonalizedK
    >>> from topperk.datasets.simulated import simulate_world
    >>> world = simulate_world(n_users=60, n_items=200, seed=1)
    >>> choices = [FixedK(10), PersonalizedK(F1()), OracleK(F1())]
    >>> found = evaluate(choices, world.scores, world.split)
    >>> found.summary()["method"].to_list()
    ['top-10', 'personal', 'oracle']
    """
    check_fit(scores, split, progress)
    if utility is not None:
        check_utility(utility)
    check_finite("confidence", confidence)
    if not 0.0 < confidence < 1.0:
        raise SettingError(f"confidence is {confidence}. Give a share between 0 and 1.")
    given = _listed(methods)
    for name, one in given:
        if isinstance(one, FittedK):
            _refuse_seen(one.name if name is None else name, one, split)
    fitted = _fitted(given, scores, split, on_missing, progress)
    # Val-k and the Oracle are tables of lengths once they are fitted: their settings hold more.
    pairs = zip(given, fitted.values(), strict=True)
    aims = [(getattr(setting, "utility", one.utility), one.min_k) for (_, setting), one in pairs]
    if utility is None:
        utility = next((aim for aim, _ in aims if aim is not None), None)
    if utility is None:
        raise SettingError(
            "none of the methods says what lists are worth. Pass utility=, such as utility=F1()."
        )
    max_k = max(one.max_k for one in fitted.values())
    alignment = align_whole(scores, split.ids, on_missing)
    n_test = split.test.counts_per_user()
    known = np.flatnonzero(alignment.rows >= 0).astype(np.int32)
    judged = known[n_test[alignment.rows[known]] > 0]
    if judged.size == 0:
        raise InputError(
            f"none of the {known.size:,} users with scores has a test interaction, so there is "
            "nothing to judge by. Split with a test part."
        )
    places = {name: align(scores.ids, one.ids).rows for name, one in fitted.items()}
    tables = UtilityTables(utility, max_k)

    def judge(block: ScoreBlock, rows: IntArray) -> tuple[FloatArray, dict[str, IntArray]]:
        lists = top_of_block(block, max_k)
        hits = hits_of(block, rows, lists, split.test, alignment)
        own = tables.realised(hits, n_test[rows].astype(np.float64))
        k = {
            name: one.policy.decide(
                block, places[name][block.users], partial(lists.up_to, one.max_k), scores.ids
            ).k
            for name, one in fitted.items()
        }
        return ended(own, lists.lengths), k

    seen = [split.train, split.validation]
    found = list(over_blocks(judge, scores, judged, alignment, seen, "judging", progress))
    curves = np.concatenate([own for own, _ in found])
    lengths_of = {name: np.concatenate([k[name] for _, k in found]) for name in fitted}
    everyone = np.arange(judged.size)
    return Evaluation(
        utility=utility,
        ids=scores.ids,
        users=judged,
        curves=curves,
        methods=tuple(
            MethodOutcome(name, k, curves[everyone, k], fitted[name].fixed_k)
            for name, k in lengths_of.items()
        ),
        n_without_test=known.size - judged.size,
        min_k=min((min_k for aim, min_k in aims if aim is not None), default=1),
        confidence=confidence,
    )


def usual_methods(
    utility: Utility,
    *,
    min_k: int = 1,
    max_k: int = 50,
    calibrator: Calibrator | Calibration | None = None,
    fixed: Iterable[int] = (1, 5, 10, 20, 50),
    seed: int = 0,
) -> dict[str, ChoiceOfK]:
    """The methods of the paper's first table, by name, ready for :func:`evaluate`.

    Fixed lengths (those of ``fixed`` up to ``max_k``), a random one, the best on validation, the
    personal one, and the Oracle's. ``calibrator`` is that of ``PersonalizedK``.

    >>> from topperk import NDCG
    >>> list(usual_methods(NDCG(), max_k=10))
    ['top-1', 'top-5', 'top-10', 'random', 'Val-k', 'personal', 'Oracle']
    """
    calibrator = UserPlatt() if calibrator is None else calibrator
    check_count("max_k", max_k)
    try:
        lengths = list(fixed)
    except TypeError as error:
        raise SettingError(
            f"fixed is {fixed!r}. Give a list of lengths, such as [1, 5, 10]."
        ) from error
    for k in lengths:
        check_count("a length of fixed", k)
    return {
        **{f"top-{k}": FixedK(k) for k in lengths if k <= max_k},
        "random": RandomK(seed, min_k, max_k),
        "Val-k": ValidationK(utility, min_k, max_k),
        PERSONAL: PersonalizedK(utility, min_k, max_k, calibrator),
        "Oracle": OracleK(utility, min_k, max_k),
    }


def _listed(methods: Methods) -> list[tuple[str | None, ChoiceOfK | FittedK]]:
    """Every method, with the name that a mapping gives it."""
    if isinstance(methods, (ChoiceOfK, FittedK)) or not hasattr(methods, "__iter__"):
        methods = [cast(Any, methods)]  # what is no method is refused below
    named = methods.items() if isinstance(methods, Mapping) else ((None, one) for one in methods)
    given: list[tuple[str | None, ChoiceOfK | FittedK]] = list(named)
    for _, one in given:
        if not isinstance(one, (ChoiceOfK, FittedK)):
            raise SettingError(
                f"a method to evaluate is a {type(one).__name__}. Give fitted models, or settings "
                "such as PersonalizedK(F1()) and FixedK(10)."
            )
    if not given:
        raise SettingError("there is no method to evaluate. Give one or more.")
    return given


def _refuse_seen(name: str, one: FittedK, split: Split) -> None:
    """InputError where a method has learnt from what it is to be judged by."""
    n_seen = one.n_seen(split.test)
    if n_seen:
        n_test = split.test.n_interactions
        raise InputError(
            f"{n_seen:,} of the {n_test:,} test pairs were in training or validation when {name!r} "
            "was fitted. Pass the split, or the parts and options, that it was fitted with."
        )


def _fitted(
    given: Iterable[tuple[str | None, ChoiceOfK | FittedK]],
    scores: ScoreSource,
    split: Split,
    on_missing: OnMissing,
    progress: Progress | None,
) -> dict[str, FittedK]:
    """Every method fitted, by its name."""
    fitted: dict[str, FittedK] = {}
    for name, one in given:
        if isinstance(one, ChoiceOfK):
            one = one.fit(scores, split, on_missing=on_missing, progress=progress)
        name = one.name if name is None else name
        if name in fitted:
            raise SettingError(
                f"two methods are called {name!r}. Give a mapping of names to methods."
            )
        fitted[name] = one
    return fitted


def _t_statistic(gap: FloatArray) -> float:
    """Of a paired test: the mean difference by its standard error; 0 where all are 0."""
    if gap.size < 2:
        return float("nan")
    if not gap.any():
        return 0.0
    error = float(gap.std(ddof=1)) / float(np.sqrt(gap.size))
    mean = float(gap.mean())
    return mean / error if error > 0.0 else float(np.copysign(np.inf, mean))
