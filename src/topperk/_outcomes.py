"""What came true: the lists of a source beside a held-out part of the interactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from topperk._blocks import Alignment, Part, over_blocks, positions_in
from topperk._kernels.arrays import AnyFloatArray, FloatArray, IntArray
from topperk._kernels.ranking import top_lists
from topperk.progress import Progress
from topperk.scores import ScoreBlock, ScoreSource


@dataclass(frozen=True, eq=False)
class Outcomes:
    """For each of ``rows`` (the reference's users): hits in the top list, and how many in all."""

    rows: IntArray
    hits: FloatArray
    lengths: IntArray
    n_relevant: FloatArray


@dataclass(frozen=True, eq=False)
class Lists:
    """The best candidates of each user: positions within the user's own, and how many there are.

    What a list leaves empty is -1 and minus infinity.
    """

    scores: AnyFloatArray
    positions: IntArray
    lengths: IntArray

    @staticmethod
    def room(n_users: int, max_k: int, dtype: npt.DTypeLike) -> Lists:
        """Lists that are still to be filled."""
        return Lists(
            np.empty((n_users, max_k), dtype=dtype),
            np.empty((n_users, max_k), dtype=np.int32),
            np.empty(n_users, dtype=np.int32),
        )

    def up_to(self, max_k: int) -> Lists:
        """The lists of a method that considers no more than ``max_k`` items."""
        shorter = np.minimum(self.lengths, max_k).astype(np.int32)
        return Lists(self.scores[:, :max_k], self.positions[:, :max_k], shorter)


def top_of_block(block: ScoreBlock, max_k: int) -> Lists:
    """Each user's best ``max_k`` candidates."""
    lists = Lists.room(block.users.size, max_k, block.scores.dtype)
    lists.lengths[:] = top_lists(block.scores, block.offsets, lists.scores, lists.positions)
    return lists


def ended(curves: FloatArray, lengths: IntArray) -> FloatArray:
    """Curves of lists that end with a user's candidates: beyond these they keep their value."""
    reach = np.minimum(np.arange(curves.shape[1])[None, :], lengths[:, None])
    return np.take_along_axis(curves, reach, axis=1)


def hits_of(
    block: ScoreBlock, rows: IntArray, lists: Lists, part: Part, alignment: Alignment
) -> FloatArray:
    """1.0 where an item of a list is in ``part``."""
    positives, offsets = positions_in(block, rows, part, alignment)
    # A number for each user and position; an empty place, -1, has one that no position has.
    span = int(np.diff(block.offsets).max(initial=0)) + 1
    starts = np.arange(rows.size, dtype=np.int64) * span
    relevant = np.repeat(starts, np.diff(offsets)) + positives
    return np.isin(starts[:, None] + lists.positions, relevant).astype(np.float64)


def outcomes_of(
    source: ScoreSource,
    alignment: Alignment,
    seen: Sequence[Part],
    part: Part,
    max_k: int,
    progress: Progress | None,
) -> Outcomes:
    """The top lists of all users known to both sides, held against ``part``."""
    users = np.flatnonzero(alignment.rows >= 0).astype(np.int32)

    def looked_up(block: ScoreBlock, rows: IntArray) -> tuple[FloatArray, IntArray]:
        lists = top_of_block(block, max_k)
        return hits_of(block, rows, lists, part, alignment), lists.lengths

    found = list(
        over_blocks(looked_up, source, users, alignment, seen, "looking at outcomes", progress)
    )
    hits = np.concatenate([own for own, _ in found] or [np.zeros((0, max_k))])
    lengths = np.concatenate([own for _, own in found] or [np.zeros(0, dtype=np.int32)])
    rows = alignment.rows[users]
    n_relevant = (part.offsets[rows + 1] - part.offsets[rows]).astype(np.float64)
    return Outcomes(rows, hits, lengths, n_relevant)
