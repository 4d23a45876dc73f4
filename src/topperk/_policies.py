"""What decides the length of a list, block by block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from topperk._kernels.arrays import FloatArray, IntArray
from topperk._kernels.curves import best_lengths
from topperk._kernels.fused import decide_users
from topperk._outcomes import Lists
from topperk._score_checks import check_usable
from topperk._user_streams import stream_numbers, user_keys
from topperk._utility_tables import FIRST_ROWS, Method, UtilityTables
from topperk.calibration import ODDS_CAP, Calibration, PlattCalibration
from topperk.errors import ScoreError
from topperk.ids import IdIndex, Ids
from topperk.reasons import Reason
from topperk.scores import ScoreBlock
from topperk.utility import Utility


@dataclass(frozen=True, eq=False)
class Decision:
    """Lengths and why, and the lists that they cut; what a method does not estimate is NaN."""

    lists: Lists
    k: IntArray
    reasons: npt.NDArray[np.uint8]
    curves: FloatArray
    probabilities: FloatArray

    def at_length(self) -> FloatArray:
        """The expected utility of each list, cut at its length."""
        return self.curves[np.arange(self.k.size), self.k]

    def sum_to_length(self) -> FloatArray:
        """How many relevant items each list can be expected to hold."""
        inside = np.arange(self.probabilities.shape[1])[None, :] < self.k[:, None]
        total = np.where(inside, self.probabilities, 0.0).sum(axis=1)
        # An empty list has no probability that could say that nothing is estimated.
        return np.where(np.isnan(self.at_length()), np.nan, total)


class Policy(Protocol):
    """Chooses lengths for a block of users.

    ``rows`` are the users in the model's ids (-1: new); ``lists`` gives their best candidates up to
    the method's longest list, out of scores that are looked at; ``ids`` are the source's.
    """

    def decide(
        self, block: ScoreBlock, rows: IntArray, lists: Callable[[], Lists], ids: Ids
    ) -> Decision:
        """Lengths, reasons, expected curves, and the probabilities of the listed items."""
        ...


@dataclass(frozen=True, eq=False)
class PersonalPolicy:
    """The greatest expected utility."""

    utility: Utility
    min_k: int
    max_k: int
    calibration: Calibration
    method: Method
    paper_terms: int

    @property
    def in_single_precision(self) -> PlattCalibration | None:
        """The calibration, where it and the method take scores in single precision as they are."""
        calibration = self.calibration
        exact = self.method == "exact" or not self.utility.counts_all_relevant
        if isinstance(calibration, PlattCalibration) and calibration.scale == "logit" and exact:
            return calibration
        return None

    @cached_property
    def tables(self) -> UtilityTables:
        """The utility as arrays, made once."""
        return UtilityTables(self.utility, self.max_k)

    def decide(
        self, block: ScoreBlock, rows: IntArray, lists: Callable[[], Lists], ids: Ids
    ) -> Decision:
        """Calibrate, compute the curves, take the best."""
        if self.in_single_precision is not None and block.scores.dtype == np.float32:
            return self._in_one_go(self.in_single_precision, block, rows, ids)
        top = lists()
        p = self.calibration.probabilities(block, rows)
        if not isinstance(self.calibration, PlattCalibration):
            p = _checked(p, block, self.calibration)
        flat = block.offsets[:-1, None] + np.maximum(top.positions, 0)
        ranked = np.zeros(top.positions.shape)
        listed = top.positions >= 0
        ranked[listed] = p[flat[listed]]
        curves = self.tables.expected(
            p, block.offsets, ranked, top.lengths, self.method, self.paper_terms
        )
        return self.decision(top, rows, curves, ranked)

    def _in_one_go(
        self, calibration: PlattCalibration, block: ScoreBlock, rows: IntArray, ids: Ids
    ) -> Decision:
        """The same for scores in single precision, without probabilities of the whole block."""
        n = block.users.size
        lists = Lists.room(n, self.max_k, np.float32)
        ranked, curves = np.empty((n, self.max_k)), np.empty((n, self.max_k + 1))
        parameters = calibration.parameters_of(rows)
        whole = not self.utility.counts_all_relevant
        done, n_rows = 0, FIRST_ROWS
        while done < n:
            table = self.tables.table(2 if whole else n_rows)
            done, unusable = decide_users(
                block.scores,
                block.offsets,
                *parameters,
                ODDS_CAP,
                self.tables.discount,
                self.tables.penalty,
                table,
                whole,
                done,
                lists.scores,
                lists.positions,
                lists.lengths,
                ranked,
                curves,
            )
            if unusable:
                check_usable(block, ids)
                raise ScoreError("a score is NaN or plus infinity. Give finite scores.")
            n_rows = 2 * table.shape[0]
        return self.decision(lists, rows, curves, ranked)

    def decision(
        self, lists: Lists, rows: IntArray, curves: FloatArray, ranked: FloatArray
    ) -> Decision:
        """The best length of each curve, and all that belongs to it."""
        k = np.empty(rows.size, dtype=np.int32)
        best_lengths(curves, self.min_k, self.max_k, lists.lengths, k)
        return Decision(lists, k, self.calibration.reasons(rows), curves, ranked)


@dataclass(frozen=True, eq=False)
class TablePolicy:
    """A length for each of the model's users, the last entry for everybody else."""

    k: IntArray
    reason: npt.NDArray[np.uint8]

    def decide(
        self, block: ScoreBlock, rows: IntArray, lists: Callable[[], Lists], ids: Ids
    ) -> Decision:
        """Look the length up."""
        top = lists()
        k = np.minimum(self.k[rows], top.lengths).astype(np.int32)
        return _without_estimates(k, self.reason[rows], top)


@dataclass(frozen=True, eq=False)
class RandomPolicy:
    """An even draw from min_k..max_k, from the seed and the user's own id."""

    seed: int
    min_k: int
    max_k: int

    def decide(
        self, block: ScoreBlock, rows: IntArray, lists: Callable[[], Lists], ids: Ids
    ) -> Decision:
        """Draw."""
        keys = user_keys(IdIndex(ids.users.values.gather(block.users)), self.seed)
        keys = stream_numbers(keys, np.arange(keys.size + 1))
        span = np.uint64(self.max_k - self.min_k + 1)
        drawn = (self.min_k + (keys % span).astype(np.int64)).astype(np.int32)
        reasons = np.full(rows.size, Reason.RANDOM.code, dtype=np.uint8)
        top = lists()
        return _without_estimates(np.minimum(drawn, top.lengths), reasons, top)


def _checked(p: FloatArray, block: ScoreBlock, calibration: Calibration) -> FloatArray:
    """Probabilities of a calibration that is not topperk's own; kernels trust them afterwards."""
    name = type(calibration).__name__
    p = np.ascontiguousarray(p, dtype=np.float64)
    if p.shape != block.scores.shape:
        raise ScoreError(
            f"the calibration {name} gave {p.size} probabilities of shape {p.shape} for "
            f"{block.scores.size} scores. Return one for each score, in one dimension."
        )
    good = (p >= 0.0) & (p <= 1.0)
    if not good.all():
        raise ScoreError(
            f"the calibration {name} gave the probability {p[~good][0]}. "
            "Return numbers from 0 to 1, and 0 where the score is minus infinity."
        )
    if (p[block.scores == -np.inf] > 0.0).any():
        raise ScoreError(
            f"the calibration {name} gave a probability to an item whose score is minus infinity, "
            "which is no candidate. Return 0 there."
        )
    return p


def _without_estimates(k: IntArray, reasons: npt.NDArray[np.uint8], lists: Lists) -> Decision:
    n, max_k = lists.positions.shape
    curves = np.full((n, max_k + 1), np.nan)
    return Decision(lists, k, reasons, curves, np.full((n, max_k), np.nan))
