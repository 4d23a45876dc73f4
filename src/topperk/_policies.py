"""What decides the length of a list, block by block."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from topperk._kernels.arrays import FloatArray, IntArray
from topperk._kernels.curves import best_lengths
from topperk._user_streams import stream_numbers, user_keys
from topperk._utility_tables import Method, UtilityTables
from topperk.calibration import Calibration, PlattCalibration
from topperk.errors import ScoreError
from topperk.ids import IdIndex
from topperk.reasons import Reason
from topperk.scores import ScoreBlock
from topperk.utility import Utility


@dataclass(frozen=True, eq=False)
class Decision:
    """Lengths and why; what a method does not estimate is NaN."""

    k: IntArray
    reasons: npt.NDArray[np.uint8]
    curves: FloatArray
    probabilities: FloatArray


class Policy(Protocol):
    """Chooses lengths for a block of users.

    ``rows`` are the users in the model's ids (-1: new), ``positions`` and ``lengths`` their top
    lists; ``users`` are the source's ids.
    """

    def decide(
        self,
        block: ScoreBlock,
        rows: IntArray,
        positions: IntArray,
        lengths: IntArray,
        users: IdIndex,
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

    def decide(
        self,
        block: ScoreBlock,
        rows: IntArray,
        positions: IntArray,
        lengths: IntArray,
        users: IdIndex,
    ) -> Decision:
        """Calibrate, compute the curves, take the best."""
        p = self.calibration.probabilities(block, rows)
        if not isinstance(self.calibration, PlattCalibration):
            p = _checked(p, block, self.calibration)
        flat = block.offsets[:-1, None] + np.maximum(positions, 0)
        ranked = np.zeros(positions.shape)
        listed = positions >= 0
        ranked[listed] = p[flat[listed]]
        curves = self.tables.expected(
            p, block.offsets, ranked, lengths, self.method, self.paper_terms
        )
        k = np.empty(lengths.size, dtype=np.int32)
        best_lengths(curves, self.min_k, self.max_k, lengths, k)
        return Decision(k, self.calibration.reasons(rows), curves, ranked)


@dataclass(frozen=True, eq=False)
class TablePolicy:
    """A length for each of the model's users, the last entry for everybody else."""

    k: IntArray
    reason: npt.NDArray[np.uint8]

    def decide(
        self,
        block: ScoreBlock,
        rows: IntArray,
        positions: IntArray,
        lengths: IntArray,
        users: IdIndex,
    ) -> Decision:
        """Look the length up."""
        k = np.minimum(self.k[rows], lengths).astype(np.int32)
        return _without_estimates(k, self.reason[rows], positions)


@dataclass(frozen=True, eq=False)
class RandomPolicy:
    """An even draw from min_k..max_k, from the seed and the user's own id."""

    seed: int
    min_k: int
    max_k: int

    def decide(
        self,
        block: ScoreBlock,
        rows: IntArray,
        positions: IntArray,
        lengths: IntArray,
        users: IdIndex,
    ) -> Decision:
        """Draw."""
        keys = user_keys(IdIndex(users.values.gather(block.users)), self.seed)
        keys = stream_numbers(keys, np.arange(keys.size + 1))
        span = np.uint64(self.max_k - self.min_k + 1)
        drawn = (self.min_k + (keys % span).astype(np.int64)).astype(np.int32)
        reasons = np.full(rows.size, Reason.RANDOM.code, dtype=np.uint8)
        return _without_estimates(np.minimum(drawn, lengths), reasons, positions)


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


def _without_estimates(
    k: IntArray, reasons: npt.NDArray[np.uint8], positions: IntArray
) -> Decision:
    curves = np.full((k.size, positions.shape[1] + 1), np.nan)
    return Decision(k, reasons, curves, np.full(positions.shape, np.nan))
