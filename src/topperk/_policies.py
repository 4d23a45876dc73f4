"""What decides the length of a list, block by block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from topperk._kernels.arrays import AnyFloatArray, FloatArray, IntArray, OffsetArray
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

Parameters: TypeAlias = tuple[FloatArray, FloatArray, FloatArray, IntArray]

NOBODY = Reason.NO_CANDIDATES.code


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


class OneList(NamedTuple):
    """What was decided for one user: ``k`` positions, the best first, and why."""

    k: int
    positions: IntArray
    probabilities: FloatArray
    expected_utility: float
    reason: int

    @staticmethod
    def of(lists: Lists, k: int, reason: int, curves: FloatArray, p: FloatArray) -> OneList:
        """The first user's list out of the arrays of a decision."""
        if not lists.lengths[0]:
            reason = NOBODY
        return OneList(k, lists.positions[0, :k], p[0, :k], float(curves[0, k]), reason)


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

    @cached_property
    def tables(self) -> UtilityTables:
        """The utility as arrays, made once."""
        return UtilityTables(self.utility, self.max_k)

    @cached_property
    def fused(self) -> PlattCalibration | None:
        """The calibration, if one kernel takes scores in single precision to curves."""
        calibration = self.calibration
        if not isinstance(calibration, PlattCalibration) or calibration.scale != "logit":
            return None
        exact = self.method == "exact" or not self.utility.counts_all_relevant
        return calibration if exact else None

    def decide(
        self, block: ScoreBlock, rows: IntArray, lists: Callable[[], Lists], ids: Ids
    ) -> Decision:
        """Calibrate, compute the curves, take the best."""
        if block.scores.dtype == np.float32 and self.fused is not None:
            return self._in_one_go(self.fused, block, rows, ids)
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
        if not self.fill(block.scores, block.offsets, parameters, lists, ranked, curves):
            check_usable(block, ids)
            raise ScoreError("a score is NaN or plus infinity. Give finite scores.")
        return self.decision(lists, rows, curves, ranked)

    def fill(
        self,
        scores: AnyFloatArray,
        offsets: OffsetArray,
        parameters: Parameters,
        lists: Lists,
        ranked: FloatArray,
        curves: FloatArray,
    ) -> bool:
        """Lists, probabilities and curves of all users; False where a score can not be used."""
        tables = self.tables
        whole = not self.utility.counts_all_relevant
        done, n_rows = 0, 2 if whole else FIRST_ROWS
        while True:
            table = tables.table(n_rows)
            done, unusable = decide_users(
                scores,
                offsets,
                *parameters,
                ODDS_CAP,
                tables.discount,
                tables.penalty,
                table,
                whole,
                done,
                lists.scores,
                lists.positions,
                lists.lengths,
                ranked,
                curves,
            )
            if unusable or done == lists.lengths.size:
                return not unusable
            n_rows = 2 * table.shape[0]

    def decision(
        self, lists: Lists, rows: IntArray, curves: FloatArray, ranked: FloatArray
    ) -> Decision:
        """The best length of each curve, and all that belongs to it."""
        k = np.empty(rows.size, dtype=np.int32)
        best_lengths(curves, self.min_k, self.max_k, lists.lengths, k)
        return Decision(lists, k, self.calibration.reasons(rows), curves, ranked)


class OneAtATime:
    """A personal policy for one user after another, with what it needs of the calibration ready."""

    def __init__(self, policy: PersonalPolicy, calibration: PlattCalibration) -> None:
        self.policy = policy
        # Somebody new, who is the row -1, comes first.
        everybody = np.arange(-1, len(calibration.users), dtype=np.int32)
        self.parameters = calibration.parameters_of(everybody)
        self.reasons = calibration.reasons(everybody)

    def decide(self, scores: AnyFloatArray, row: int) -> OneList:
        """As the policy's ``decide``, for scores in single precision that can be used."""
        policy = self.policy
        max_k = policy.max_k
        lists = Lists.room(1, max_k, np.float32)
        ranked, curves = np.empty((1, max_k)), np.empty((1, max_k + 1))
        slope, intercept, ratio, odds = self.parameters
        begin, end = row + 1, row + 2
        own = (slope[begin:end], intercept[begin:end], ratio[begin:end], odds[begin:end])
        offsets = np.array([0, scores.size], dtype=np.int64)
        policy.fill(scores, offsets, own, lists, ranked, curves)
        k = np.empty(1, dtype=np.int32)
        best_lengths(curves, policy.min_k, max_k, lists.lengths, k)
        return OneList.of(lists, int(k[0]), int(self.reasons[begin]), curves, ranked)


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
