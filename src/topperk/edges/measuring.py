"""Everything that is measured for a report, and for what the command line prints.

:func:`measure` judges a fitted personal model beside the usual methods for several utilities, and
its probabilities before and after calibration; where the truth is known it says how far the
estimates are from it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from topperk._blocks import OnMissing, align_whole
from topperk._frames import to_polars
from topperk._kernels.arrays import IntArray
from topperk._utility_tables import UtilityTables
from topperk.calibration import Uncalibrated
from topperk.datasets.simulated import World
from topperk.edges.report_content import TruthCurve
from topperk.errors import SettingError
from topperk.evaluation import PERSONAL, Evaluation, evaluate, usual_methods
from topperk.fitted import FittedK
from topperk.progress import Progress
from topperk.reliability import Reliability, reliability_of
from topperk.scores import ScoreSource
from topperk.split import Split
from topperk.utility import Utility

ORACLE = "Oracle"


@dataclass(frozen=True, eq=False)
class Measured:
    """One evaluation for each utility, and how well the probabilities hold.

    ``before`` and ``after`` judge each user's ``model.max_k`` best items, with the scores taken as
    logits and with the model's calibration. ``truth`` is empty where the truth is not known.
    """

    model: FittedK
    evaluations: tuple[Evaluation, ...]
    before: Reliability
    after: Reliability
    truth: tuple[TruthCurve, ...]

    def of(self, utility: Utility) -> Evaluation:
        """The evaluation of one of the utilities."""
        return next(found for found in self.evaluations if found.utility.name == utility.name)

    def as_json(self) -> dict[str, Any]:
        """All figures, as plain lists and numbers; what was not measured is null."""
        report: dict[str, Any] = {"max_k": self.model.max_k, "utilities": {}}
        for found in self.evaluations:
            report["utilities"][found.utility.name] = {
                "users": found.n_users,
                "users_without_test": found.n_without_test,
                "best_fixed_k": found.best_fixed_k,
                "methods": _plain(found.summary()),
                "tests": _plain(found.tests()),
                "fixed_curve": found.fixed_curve.tolist(),
            }
        report["reliability"] = {
            name: {"ece": one.ece, "brier": one.brier, "log_loss": one.log_loss}
            for name, one in (("before", self.before), ("after", self.after))
        }
        if self.truth:
            report["truth"] = {
                one.utility: {"mean_absolute_difference": one.mean_absolute_difference}
                for one in self.truth
            }
        return report


def measure(
    model: FittedK,
    scores: ScoreSource,
    split: Split,
    utilities: Sequence[Utility],
    *,
    seed: int = 0,
    world: World | None = None,
    on_missing: OnMissing = "error",
    progress: Progress | None = None,
) -> Measured:
    """Judge a personal model, with its calibration, for each of the utilities.

    ``seed`` draws the random lengths. With ``world``, which the scores and the split then have to
    be of, estimates are held against the truth.
    """
    calibration = model.calibration
    if calibration is None:
        raise SettingError(
            f"the method {model.name!r} has no probabilities to judge. Fit PersonalizedK."
        )
    evaluations = []
    for utility in utilities:
        methods: dict[str, Any] = dict(
            usual_methods(utility, min_k=model.min_k, max_k=model.max_k, seed=seed)
        )
        methods[PERSONAL] = model.for_utility(utility)
        evaluations.append(
            evaluate(methods, scores, split, utility, on_missing=on_missing, progress=progress)
        )
    raw = Uncalibrated().fit(scores, split, on_missing=on_missing)
    before, after = (
        reliability_of(
            one, scores, split, top=model.max_k, on_missing=on_missing, progress=progress
        )
        for one in (raw, calibration)
    )
    truth = []
    if world is not None:
        truth = [
            against_truth(model.for_utility(utility), world, progress) for utility in utilities
        ]
    return Measured(model, tuple(evaluations), before, after, tuple(truth))


def against_truth(model: FittedK, world: World, progress: Progress | None = None) -> TruthCurve:
    """Mean expected utility by length, as the model estimates it and as it truly is.

    As in an evaluation, a list is never longer than the user's candidates.
    """
    utility = model.utility
    if utility is None:
        raise SettingError(f"the method {model.name!r} estimates no utility. Fit PersonalizedK.")
    tables = UtilityTables(utility, model.max_k)
    estimated, true = np.zeros(model.max_k + 1), np.zeros(model.max_k + 1)
    apart, n_users = 0.0, 0
    for part in model.blocks(world.scores, progress=progress):
        lengths = (part.items >= 0).sum(axis=1)
        reach = np.minimum(np.arange(model.max_k + 1)[None, :], lengths[:, None])
        own = np.take_along_axis(part.curves, reach, axis=1)
        truth = true_curves(world, part.users, part.items, tables)
        truth = np.take_along_axis(truth, reach, axis=1)
        estimated += own.sum(axis=0)
        true += truth.sum(axis=0)
        apart += float(np.abs(own - truth)[:, 1:].mean(axis=1).sum())
        n_users += part.users.size
    return TruthCurve(utility.name, apart / n_users, estimated / n_users, true / n_users)


def true_curves(
    world: World, users: IntArray, items: IntArray, tables: UtilityTables
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """The expected curves of lists (a row of item codes per user) by the true probabilities."""
    p = world.true_probability(users)
    for part in (world.split.train, world.split.validation):
        for row, user in enumerate(users):
            p[row, part.items_of(int(user))] = 0.0
    ranked = np.take_along_axis(p, np.maximum(items, 0), axis=1)
    offsets = np.arange(users.size + 1, dtype=np.int64) * p.shape[1]
    lengths = (items >= 0).sum(axis=1).astype(np.int32)
    return tables.expected(p.reshape(-1), offsets, ranked, lengths)


def check_same_users(scores: ScoreSource, split: Split, on_missing: OnMissing) -> None:
    """The error of scores and interactions that do not fit, before anything takes long."""
    align_whole(scores, split.ids, on_missing)


def _plain(frame: Any) -> list[dict[str, Any]]:
    table: pl.DataFrame = to_polars(frame, "the table")[0]
    return [
        {key: None if _is_nan(value) else value for key, value in row.items()}
        for row in table.to_dicts()
    ]


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and not math.isfinite(value)
