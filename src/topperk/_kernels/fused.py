"""From float32 scores to curves in one go: calibrate, count, rank, user by user.

For the scores s of one user, with odds rho = c e / (1 + d e), e = exp(a s + b):

1. *Scan* (``scanning``): one pass over the scores gathers those that may be in the list or belong
   to the head, and takes the odds power sums of the tail. A catalogue may come in pieces
   (``scan_tile``), so that its scores never exist all at once.
2. *Conclude*: the gathered are few. Their probabilities are computed in float64, the best K put in
   order, the head convolved into the distribution of the tail (``counting``), and the curve follows
   as everywhere (``curves``).

Against the same scores in float64 throughout, a power sum errs by 1e-6 of itself at most, and
mostly by 1e-8, as the single errors are rounding; an expected utility follows the sums. Counts of
a probability below ``NEGLIGIBLE`` are left out. ``LANE_SUMS`` power sums are kept where the terms
left out are below ``DROPPED``. Otherwise the user is done in float64 (``count_pmf_exact``), as is
one whose slope is not positive.
Cost for n items: the scan, then O(head x width + K x width).
"""

from __future__ import annotations

import numpy as np

from topperk._kernels.arrays import AnyFloatArray, FloatArray, IntArray, OffsetArray
from topperk._kernels.calibrating import probability_at
from topperk._kernels.compiling import kernel
from topperk._kernels.counting import (
    MANY_SUMS,
    ROOM,
    count_pmf_exact,
    dropped_terms_bound,
    tail_pmf,
    with_items,
)
from topperk._kernels.curves import Lanes, curve_from_counts, curve_without_total, lanes_of
from topperk._kernels.lanes import MASKED
from topperk._kernels.ranking import longest_of
from topperk._kernels.scanning import (
    BEYOND,
    COUNTED,
    EDGE,
    LANE_SUMS,
    LEAST,
    LOWEST,
    NOT_IN_LANES,
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
UNUSABLE = -2


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

    Returns how many are in the list and in the head, or UNUSABLE twice. ``near_scores`` and
    ``near``, the gathered, are overwritten.
    """
    threshold = score_reached_by(part_of(near_scores, 0, size), top_scores.size)
    n_head, n_best = 0, 0
    bad = 0
    for i in range(size):
        s, at = near_scores[i], near[i]
        bad += not s < BEYOND
        hits[n_head] = s
        n_head += s >= head
        near_scores[n_best], near[n_best] = s, at
        n_best += s >= threshold
    if bad:
        return UNUSABLE, UNUSABLE
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
def decide_users(
    scores: AnyFloatArray,
    offsets: OffsetArray,
    slope: FloatArray,
    intercept: FloatArray,
    ratio: FloatArray,
    odds: IntArray,
    cap: float,
    discount: FloatArray,
    penalty: FloatArray,
    table: FloatArray,
    whole: bool,
    begin: int,
    top_scores: AnyFloatArray,
    positions: IntArray,
    lengths: IntArray,
    ranked: FloatArray,
    curves: FloatArray,
) -> tuple[int, bool]:
    """Lists, their probabilities and curves, for users begin.. of a block.

    The calibration is as in ``calibrating.probabilities_of``. ``whole``: the utility does not
    depend on the number of relevant items, and ``table[1]`` is its normaliser. Beyond a user's
    candidates positions are -1, scores minus infinity, probabilities 0 and curves NaN. Returns the
    first user that was not done, and whether that is for a score that can not be used; otherwise
    for a count beyond the rows of ``table``.
    """
    n_users, max_k = positions.shape
    longest = longest_of(offsets)
    columns = np.empty(columns_for(max_k), dtype=np.float32)
    near_scores = np.empty(longest + MASKED, dtype=np.float32)
    near = np.empty(longest + MASKED, dtype=np.int32)
    better = np.empty(COUNTED, dtype=np.int32)
    sums = np.empty(MANY_SUMS + 1)
    scratch = np.empty((3, longest + ROOM))
    everything = np.empty(0)
    lanes = lanes_of(max_k)
    for u in range(begin, n_users):
        own = part_of(scores, offsets[u], offsets[u + 1])
        a, b, c, as_odds = slope[u], intercept[u], ratio[u], odds[u]
        top, top_at, p = row_of(top_scores, u), row_of(positions, u), row_of(ranked, u)
        hits = row_of(scratch, 2)
        in_lanes = not whole
        for j in range(LANE_SUMS + 1):
            sums[j] = 0.0
        size, head, _ = scan(
            own, 0, a, b, c, as_odds, whole, max_k, columns, LEAST, near_scores, near, 0, sums
        )
        if size == NOT_IN_LANES:
            in_lanes = False
            size, head, _ = scan(
                own, 0, a, b, c, as_odds, True, max_k, columns, LEAST, near_scores, near, 0, sums
            )
        n, n_head = conclude(
            size, a, b, c, as_odds, cap, head, near_scores, near, better, top, top_at, p, hits
        )  # fmt: skip
        if n == UNUSABLE:
            return u, True
        lengths[u] = n
        curve = row_of(curves, u)
        if whole or (in_lanes and dropped_terms_bound(sums, LANE_SUMS, EDGE_ROUNDED) <= DROPPED):
            if not fill_curve(
                n, n_head, own.size, sums, p, discount, penalty, table, whole, scratch,
                lanes, curve,
            ):  # fmt: skip
                return u, False
            continue
        if everything.size == 0:
            everything = np.empty(longest)
        for i in range(own.size):
            everything[i] = 0.0
            if own[i] > LOWEST:
                everything[i] = probability_at(a * own[i] + b, c, as_odds, cap)
        first, last = count_pmf_exact(part_of(everything, 0, own.size), sums, scratch)
        if last + 1 >= table.shape[0]:
            return u, False
        pmf = row_of(scratch, 0)
        curve_from_counts(pmf, first, last, p, n, discount, penalty, table, lanes, curve)
        for k in range(n + 1, curve.size):
            curve[k] = np.nan
    return n_users, False


@kernel
def scan_tile(
    tile: AnyFloatArray,
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
    sizes: IntArray,
    near_scores: AnyFloatArray,
    near: IntArray,
    sums: FloatArray,
) -> None:
    """``scan`` for the scores of all users for the items from ``begin`` on, a row per user.

    ``seen_items[seen_at[u]:seen_ends[u]]``, which ascends, is what user u has seen and was not met
    in earlier tiles; ``seen_at`` moves on. A user who can not be done in this way keeps a size that
    is negative or beyond the room in ``near``.
    """
    n_users, width = tile.shape
    columns = np.empty(columns_for(max_k), dtype=np.float32)
    for u in range(n_users):
        own = row_of(tile, u)
        usable = True
        while seen_at[u] < seen_ends[u] and seen_items[seen_at[u]] < begin + width:
            at = seen_items[seen_at[u]] - begin
            usable = usable and own[at] < BEYOND
            own[at] = LOWEST
            seen_at[u] += 1
        if not usable:
            sizes[u] = UNUSABLE
        if sizes[u] < 0 or sizes[u] > near.shape[1]:
            continue
        sizes[u], heads[u], thresholds[u] = scan(
            own, begin, slope[u], intercept[u], ratio[u], odds[u], whole, max_k, columns,
            thresholds[u], row_of(near_scores, u), row_of(near, u), sizes[u], row_of(sums, u),
        )  # fmt: skip


@kernel
def conclude_users(
    n_items: int,
    slope: FloatArray,
    intercept: FloatArray,
    ratio: FloatArray,
    odds: IntArray,
    cap: float,
    discount: FloatArray,
    penalty: FloatArray,
    table: FloatArray,
    whole: bool,
    heads: AnyFloatArray,
    sizes: IntArray,
    near_scores: AnyFloatArray,
    near: IntArray,
    sums: FloatArray,
    top_scores: AnyFloatArray,
    positions: IntArray,
    lengths: IntArray,
    ranked: FloatArray,
    curves: FloatArray,
) -> None:
    """As ``decide_users`` after all tiles. Whoever could not be done gets the length -1."""
    n_users, max_k = positions.shape
    room = near.shape[1]
    better = np.empty(COUNTED, dtype=np.int32)
    scratch = np.empty((3, n_items + ROOM))
    lanes = lanes_of(max_k)
    for u in range(n_users):
        lengths[u] = -1
        own_sums, p = row_of(sums, u), row_of(ranked, u)
        if sizes[u] < 0 or sizes[u] > room:
            continue
        if not whole and dropped_terms_bound(own_sums, LANE_SUMS, EDGE_ROUNDED) > DROPPED:
            continue
        n, n_head = conclude(
            sizes[u], slope[u], intercept[u], ratio[u], odds[u], cap, heads[u],
            row_of(near_scores, u), row_of(near, u), better, row_of(top_scores, u),
            row_of(positions, u), p, row_of(scratch, 2),
        )  # fmt: skip
        if n != UNUSABLE and fill_curve(
            n, n_head, n_items, own_sums, p, discount, penalty, table, whole, scratch, lanes,
            row_of(curves, u),
        ):  # fmt: skip
            lengths[u] = n
