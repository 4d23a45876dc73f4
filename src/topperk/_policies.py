"""What decides the length of a list, block by block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from topperk._kernels.arrays import AnyFloatArray, FloatArray, IntArray
from topperk._kernels.curves import best_lengths
from topperk._outcomes import Lists, top_of_block
from topperk._scan import Room, Scan
from topperk._score_checks import check_usable
from topperk._user_streams import stream_numbers, user_keys
from topperk._utility_tables import Method, UtilityTables
from topperk.calibration import Calibration, PlattCalibration
from topperk.errors import ScoreError
from topperk.ids import IdIndex, Ids
from topperk.reasons import Reason
from topperk.scores import ScoreBlock
from topperk.utility import Utility

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
        return self.in_double(block, rows, lists())

    def in_double(self, block: ScoreBlock, rows: IntArray, top: Lists) -> Decision:
        """The same in double precision, by the probabilities of all candidates."""
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
        n_items = np.diff(block.offsets)
        parameters = calibration.parameters_of(rows)
        room = Room(self.max_k, rows.size, int(n_items.max(initial=0)))
        scan = Scan(self.tables, parameters, rows.size, room)
        scan.add(block.scores, block.offsets)
        lists, ranked, curves = scan.conclude(n_items)
        rest = np.flatnonzero(lists.lengths < 0).astype(np.int32)
        if rest.size:
            others = block.of_some(rest)
            check_usable(others, ids)
            top = top_of_block(others, self.max_k)
            put(lists, ranked, curves, rest, self.in_double(others, rows[rest], top))
        return self.decision(lists, rows, curves, ranked)

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

    def decide(self, scores: AnyFloatArray, row: int) -> OneList | None:
        """As the policy's ``decide``; None where single precision is not enough."""
        policy = self.policy
        slope, intercept, ratio, odds = self.parameters
        begin, end = row + 1, row + 2
        own = (slope[begin:end], intercept[begin:end], ratio[begin:end], odds[begin:end])
        scan = Scan(policy.tables, own, 1, Room(policy.max_k, 1, scores.size))
        offsets = np.array([0, scores.size], dtype=np.int64)
        scan.add(scores, offsets)
        lists, ranked, curves = scan.conclude(offsets[1:])
        if lists.lengths[0] < 0:
            return None
        k = np.empty(1, dtype=np.int32)
        best_lengths(curves, policy.min_k, policy.max_k, lists.lengths, k)
        return OneList.of(lists, int(k[0]), int(self.reasons[begin]), curves, ranked)


def put(
    lists: Lists, ranked: FloatArray, curves: FloatArray, places: IntArray, found: Decision
) -> None:
    """Put what was found about some users into the arrays about all."""
    lists.scores[places] = found.lists.scores
    lists.positions[places] = found.lists.positions
    lists.lengths[places] = found.lists.lengths
    ranked[places], curves[places] = found.probabilities, found.curves


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
