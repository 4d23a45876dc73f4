"""From float32 scores to curves in one go: calibrate, count, rank, user by user.

For the scores s of one user, with odds rho = c e / (1 + d e), e = exp(a s + b):

1. *Scan* (``scanning``): one pass over the scores gathers those that may be in the list or belong
   to the head, and takes the odds power sums of the tail. A catalogue may come in tiles, so that
   its scores never exist all at once.
2. *Conclude*: the gathered are few. Their probabilities are computed in float64, the best K put in
   order, the head convolved into the distribution of the tail (``counting``), and the curve follows
   as everywhere (``curves``).

Against the same scores in float64 throughout, the odds of an item err by 2e-6 of themselves at
most, and their sums mostly by 1e-8, as the single errors are rounding; an expected utility follows
the sums. Counts of a probability below ``NEGLIGIBLE`` are left out. ``LANE_SUMS`` power sums are
kept where the terms left out are below ``DROPPED``. Otherwise the user is left to float64, as is
one whose slope is not positive.
Cost for n items: the scan, then O(head x width + K x width).
"""

from __future__ import annotations

from typing import cast

import numpy as np

from topperk._kernels.arrays import AnyFloatArray, FloatArray, IntArray, OffsetArray
from topperk._kernels.calibrating import probability_at
from topperk._kernels.compiling import NOUGHT, kernel
from topperk._kernels.counting import (
    dropped_terms_bound,
    tail_pmf,
    with_items,
)
from topperk._kernels.curves import Lanes, curve_from_counts, curve_without_total, lanes_of
from topperk._kernels.scanning import (
    BEYOND,
    COUNTED,
    EDGE,
    LANE_SUMS,
    LOWEST,
    columns_for,
    ordered,
    scan,
    score_reached_by,
)
from topperk._kernels.views import part_of, row_of

DROPPED = 1e-7
NEGLIGIBLE = 1e-12
# The largest odds in the tail: in float32 an item at the threshold may fall to either side of it.
EDGE_ROUNDED = EDGE * (1.0 + 1e-4)
UNUSABLE = cast(int, np.int64(-2))


@kernel
def conclude(
    size: int,
    a: float,
    b: float,
    ratio: float,
    odds: int,
    cap: float,
    head: np.float32,
    near_scores: AnyFloatArray,
    near: IntArray,
    better: IntArray,
    top_scores: AnyFloatArray,
    positions: IntArray,
    ranked: FloatArray,
    hits: FloatArray,
) -> tuple[int, int]:
    """Fill one user's list and its probabilities, and ``hits`` with those of the head.

    Returns how many are in the list and in the head; the former is negative where the scores can
    not be used or put in order. ``near_scores`` and ``near``, the gathered, are overwritten.
    """
    threshold = score_reached_by(part_of(near_scores, 0, size), top_scores.size)
    n_head = n_best = bad = NOUGHT
    for i in range(size):
        s, at = near_scores[i], near[i]
        bad += not s < BEYOND
        hits[n_head] = s
        n_head += s >= head
        near_scores[n_best], near[n_best] = s, at
        n_best += s >= threshold
    if bad or n_best > better.size:
        return UNUSABLE, n_head
    for i in range(n_head):
        hits[i] = probability_at(a * hits[i] + b, ratio, odds, cap)
    n = ordered(
        part_of(near_scores, 0, n_best), part_of(near, 0, n_best), better, top_scores, positions
    )
    for r in range(n):
        ranked[r] = probability_at(a * top_scores[r] + b, ratio, odds, cap)
    for r in range(n, top_scores.size):
        top_scores[r], positions[r], ranked[r] = LOWEST, -1, 0.0
    return n, n_head


@kernel
def fill_curve(
    n: int,
    n_head: int,
    n_items: int,
    sums: FloatArray,
    ranked: FloatArray,
    discount: FloatArray,
    penalty: FloatArray,
    table: FloatArray,
    whole: bool,
    scratch: FloatArray,
    lanes: Lanes,
    curve: FloatArray,
) -> bool:
    """One user's curve from the sums of the tail, the head in ``scratch[2]`` and the list.

    Beyond the user's candidates it is NaN. False, with nothing filled, where a count is beyond the
    rows of ``table``.
    """
    if whole:
        curve_without_total(ranked, n, discount, penalty, row_of(table, 1), curve)
    else:
        pmf, other = row_of(scratch, 0), row_of(scratch, 1)
        first, last = tail_pmf(sums, LANE_SUMS, n_items - n_head, NEGLIGIBLE, pmf)
        hits = part_of(row_of(scratch, 2), 0, n_head)
        first, last = with_items(pmf, first, last, hits, NEGLIGIBLE, other)
        if last + 1 >= table.shape[0]:
            return False
        curve_from_counts(pmf, first, last, ranked, n, discount, penalty, table, lanes, curve)
    for k in range(n + 1, curve.size):
        curve[k] = np.nan
    return True


@kernel
def scan_users(
    scores: AnyFloatArray,
    offsets: OffsetArray,
    begin: int,
    seen_ends: OffsetArray,
    seen_items: IntArray,
    seen_at: OffsetArray,
    slope: FloatArray,
    intercept: FloatArray,
    ratio: FloatArray,
    odds: IntArray,
    whole: bool,
    max_k: int,
    heads: AnyFloatArray,
    thresholds: AnyFloatArray,
    sizes: OffsetArray,
    near_scores: AnyFloatArray,
    near: IntArray,
    sums: FloatArray,
) -> None:
    """``scan`` for all users of a block, or of a tile of it that begins at position ``begin``.

    The calibration is as in ``calibrating.probabilities_of``. ``whole``: the utility does not
    depend on the number of relevant items. ``seen_items[seen_at[u]:seen_ends[u]]``, which ascends,
    are positions that user u has seen and that were not met in earlier tiles; ``seen_at`` moves on.
    A user who can not be done in this way keeps a size that is negative.
    """
    columns = np.empty(columns_for(max_k), dtype=np.float32)
    for u in range(offsets.size - 1):
        own = part_of(scores, offsets[u], offsets[u + 1])
        end = begin + own.size
        usable = True
        while seen_at[u] < seen_ends[u] and seen_items[seen_at[u]] < end:
            at = seen_items[seen_at[u]] - begin
            usable = usable and own[at] < BEYOND
            own[at] = LOWEST
            seen_at[u] += 1
        if not usable:
            sizes[u] = UNUSABLE
        size = int(sizes[u])
        if size < 0:
            continue
        sizes[u], heads[u], thresholds[u] = scan(
            own,
            begin,
            slope[u],
            intercept[u],
            ratio[u],
            odds[u],
            whole,
            max_k,
            columns,
            thresholds[u],
            row_of(near_scores, u),
            row_of(near, u),
            size,
            row_of(sums, u),
        )


@kernel
def conclude_users(
    slope: FloatArray,
    intercept: FloatArray,
    ratio: FloatArray,
    odds: IntArray,
    cap: float,
    discount: FloatArray,
    penalty: FloatArray,
    table: FloatArray,
    whole: bool,
    n_items: OffsetArray,
    heads: AnyFloatArray,
    sizes: OffsetArray,
    near_scores: AnyFloatArray,
    near: IntArray,
    sums: FloatArray,
    scratch: FloatArray,
    top_scores: AnyFloatArray,
    positions: IntArray,
    lengths: IntArray,
    ranked: FloatArray,
    curves: FloatArray,
) -> None:
    """Lists, their probabilities and curves, from what ``scan_users`` found in ``n_items`` each.

    ``table[1]`` is the normaliser of a utility that is ``whole``; ``scratch``: three rows of
    ``counting.ROOM`` more than the most candidates, and than there is room for in ``near``.
    Beyond a user's candidates positions are -1, scores minus infinity, probabilities 0 and curves
    NaN. Users who can not be done in this way get the length -1: too many gathered, too many equal
    scores, odds too large for so few sums, a count beyond the rows of ``table``, or a score that
    can not be used.
    """
    n_users, max_k = positions.shape
    better = np.empty(max(COUNTED, 2 * max_k), dtype=np.int32)
    lanes = lanes_of(max_k)
    for u in range(n_users):
        lengths[u] = -1
        own_sums, p = row_of(sums, u), row_of(ranked, u)
        size = int(sizes[u])
        if size < 0:
            continue
        # not the other way round: NaN is served by nobody here
        if not (whole or dropped_terms_bound(own_sums, LANE_SUMS, EDGE_ROUNDED) <= DROPPED):
            continue
        n, n_head = conclude(
            size,
            slope[u],
            intercept[u],
            ratio[u],
            odds[u],
            cap,
            heads[u],
            row_of(near_scores, u),
            row_of(near, u),
            better,
            row_of(top_scores, u),
            row_of(positions, u),
            p,
            row_of(scratch, 2),
        )
        if n >= 0 and fill_curve(
            n,
            n_head,
            n_items[u],
            own_sums,
            p,
            discount,
            penalty,
            table,
            whole,
            scratch,
            lanes,
            row_of(curves, u),
        ):
            lengths[u] = n
