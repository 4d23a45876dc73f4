"""What came true: the lists of a source beside a held-out part of the interactions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from topperk._blocks import Alignment, Part, candidate_blocks, positions_in
from topperk._kernels.arrays import AnyFloatArray, FloatArray, IntArray
from topperk._kernels.ranking import hits_in_lists, top_lists
from topperk.progress import Progress
from topperk.scores import ScoreBlock, ScoreSource


@dataclass(frozen=True, eq=False)
class Outcomes:
    """For each of ``rows`` (the reference's users): hits in the top list, and how many in all."""

    rows: IntArray
    hits: FloatArray
    lengths: IntArray
    n_relevant: FloatArray


def top_of_block(block: ScoreBlock, max_k: int) -> tuple[AnyFloatArray, IntArray, IntArray]:
    """Scores and positions of each user's best ``max_k`` candidates, and how many there are."""
    n = block.users.size
    scores = np.empty((n, max_k), dtype=block.scores.dtype)
    positions = np.empty((n, max_k), dtype=np.int32)
    lengths = top_lists(block.scores, block.offsets, scores, positions)
    return scores, positions, lengths


def ended(curves: FloatArray, lengths: IntArray) -> FloatArray:
    """Curves of lists that end with a user's candidates: beyond these they keep their value."""
    reach = np.minimum(np.arange(curves.shape[1])[None, :], lengths[:, None])
    return np.take_along_axis(curves, reach, axis=1)


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
    hits = np.zeros((users.size, max_k))
    lengths = np.zeros(users.size, dtype=np.int32)
    flags = np.zeros(source.ids.n_items, dtype=np.bool_)
    at = 0
    stream = candidate_blocks(source, users, alignment, seen, "looking at outcomes", progress)
    for block, rows in stream:
        _, positions, counts = top_of_block(block, max_k)
        positives, offsets = positions_in(block, rows, part, alignment)
        end = at + rows.size
        hits[at:end] = hits_in_lists(positions, positives, offsets, flags)
        lengths[at:end] = counts
        at = end
    rows = alignment.rows[users]
    n_relevant = (part.offsets[rows + 1] - part.offsets[rows]).astype(np.float64)
    return Outcomes(rows, hits, lengths, n_relevant)
