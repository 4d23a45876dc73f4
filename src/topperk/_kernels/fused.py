"""From float32 scores to curves in one go: calibrate, count, rank, user by user.

For the scores s of one user, with odds rho = c e / (1 + d e), e = exp(a s + b):

1. One pass finds the largest score of every ``CHUNK`` items (``chunk_maxima``), another the odds
   power sums of the *tail*, the items of a probability below ``HEAD_THRESHOLD`` (``tail_sums``).
   Both run in float32 lanes; sums of ``SUMMED_TOGETHER`` items are added up in float64.
2. From the chunks' largest follows a score that K items reach. Whatever reaches it, or belongs to
   the head, is gathered; the rest of the catalogue is not looked at again.
3. The gathered are few: their probabilities are computed in float64, the best K put in order, the
   head convolved into the distribution of the tail (``counting``).
4. The curve follows as everywhere (``curves``).

Against the same scores in float64 throughout, a power sum errs by 1e-6 of itself at most, and
mostly by 1e-8, as the single errors are rounding; an expected utility follows the sums.
``LANE_SUMS`` power sums are kept where the terms left out are below ``DROPPED``. Otherwise the user
is done in float64 (``count_pmf_exact``), as is one whose slope is not positive.
Cost for n items: some 25 vector instructions per 16 items, then O(head x width + K x width).
"""

from __future__ import annotations

import math

import numpy as np

from topperk._kernels.arrays import AnyFloatArray, FloatArray, IntArray, OffsetArray
from topperk._kernels.calibrating import probability_at
from topperk._kernels.compiling import inlined_kernel, kernel, lane_kernel
from topperk._kernels.counting import (
    HEAD_THRESHOLD,
    MANY_SUMS,
    ROOM,
    count_pmf_exact,
    dropped_terms_bound,
    tail_pmf,
    with_items,
)
from topperk._kernels.curves import curve_from_counts, curve_without_total, lanes_of
from topperk._kernels.exponential import LOG2_E, fast_exp2_single
from topperk._kernels.lanes import larger, where_less
from topperk._kernels.ranking import longest_of, top_of

# Smaller chunks make more maxima to look through, larger ones more scores to gather from.
CHUNK = 64
SUMMED_TOGETHER = 1024
LANE_SUMS = 6
DROPPED = 1e-7
# Halvings of the range in which the K-th best score is sought; one that K to 1.25 K reach will do.
HALVINGS = 12

LOWEST, BEYOND = np.float32(-np.inf), np.float32(np.inf)
ZERO, HALF, ONE = np.float32(0.0), np.float32(0.5), np.float32(1.0)
# The odds at HEAD_THRESHOLD. In float32 an item at the threshold may fall to either side of it.
EDGE = HEAD_THRESHOLD / (1.0 - HEAD_THRESHOLD)
# A ratio near the threshold or below has no head, and odds beyond single precision in its tail.
LEAST_RATIO = 0.5
EDGE_ROUNDED = EDGE * (1.0 + 1e-4)


@inlined_kernel
def unusable(s: np.float32) -> np.float32:
    """1 for NaN and plus infinity. Lanes assume that there is no NaN; this kernel does not."""
    flag: np.float32 = where_less(s, BEYOND, ZERO, ONE)
    return flag


@lane_kernel
def chunk_maxima(own: AnyFloatArray, maxima: AnyFloatArray) -> bool:
    """Fill ``maxima`` with each CHUNK's largest score; return whether all scores are usable."""
    worst = ZERO
    for chunk in range(maxima.size):
        part = own[chunk * CHUNK : min(own.size, (chunk + 1) * CHUNK)]
        most = LOWEST
        bad = ZERO
        for i in range(part.size):
            most = larger(part[i], most)
            bad = larger(unusable(part[i]), bad)
        maxima[chunk] = most
        worst = larger(bad, worst)
    return bool(worst == ZERO)


@lane_kernel
def n_reaching(maxima: AnyFloatArray, threshold: np.float32) -> int:
    """How many of ``maxima`` are at least the threshold."""
    count = 0
    for i in range(maxima.size):
        count += maxima[i] >= threshold
    return count


@kernel
def score_reached_by(maxima: AnyFloatArray, k: int) -> np.float32:
    """A score that at least k items reach, and not many more: the range of ``maxima`` is halved.

    Minus infinity where there are too few chunks to tell.
    """
    low, high = np.float32(np.inf), LOWEST
    for value in maxima:
        if value > LOWEST:
            low = min(low, value)
            high = max(high, value)
    if n_reaching(maxima, low) < k:
        return LOWEST
    for _ in range(HALVINGS):
        middle = low + HALF * (high - low)
        count = n_reaching(maxima, middle)
        if count < k:
            high = middle
        else:
            low = middle
            if 4 * count <= 5 * k:
                break
    return low


@inlined_kernel
def straight(
    d: np.float32, slope: np.float32, slope_rest: np.float32, intercept: np.float32
) -> np.float32:
    """``slope d + intercept``; lanes of any order would put the two parts of the slope together."""
    result: np.float32 = slope * d + (slope_rest * d + intercept)
    return result


@lane_kernel
def tail_sums(
    own: AnyFloatArray,
    centre: np.float32,
    slope: np.float32,
    slope_rest: np.float32,
    intercept: np.float32,
    bend: np.float32,
    head: np.float32,
    sums: FloatArray,
) -> None:
    """``sums[j]`` of e / (1 + bend e), e = 2**(slope (s - centre) + intercept), below ``head``.

    The centre is a score of the user's own, so that an offset that all scores share costs no
    precision, and the slope comes in two parts: its rounding would move all odds the same way.
    """
    s1 = s2 = s3 = s4 = s5 = s6 = 0.0
    bent = bend != ZERO  # the loop is compiled twice, once without the division
    for begin in range(0, own.size, SUMMED_TOGETHER):
        part = own[begin : begin + SUMMED_TOGETHER]
        r1 = r2 = r3 = r4 = r5 = r6 = ZERO
        for i in range(part.size):
            s = part[i]
            e = fast_exp2_single(straight(s - centre, slope, slope_rest, intercept))
            odds = where_less(LOWEST, s, where_less(s, head, e, ZERO), ZERO)
            if bent:
                odds = odds / (ONE + bend * odds)
            square = odds * odds
            cube = square * odds
            r1 += odds
            r2 += square
            r3 += cube
            r4 += square * square
            r5 += square * cube
            r6 += cube * cube
        s1 += float(r1)
        s2 += float(r2)
        s3 += float(r3)
        s4 += float(r4)
        s5 += float(r5)
        s6 += float(r6)
    sums[1], sums[2], sums[3], sums[4], sums[5], sums[6] = s1, s2, s3, s4, s5, s6


@kernel
def tail_of(
    own: AnyFloatArray,
    centre: np.float32,
    a: float,
    b: float,
    ratio: float,
    odds: int,
    sums: FloatArray,
) -> np.float32:
    """Fill ``sums`` for one user's calibration (a > 0); return the score at which the head begins.

    ``ratio`` and ``odds`` as in ``calibrating.probabilities_of``: p c and p / (1 - p) have the odds
    c e / (1 + (1 - c) e) and e / (1 - e), which reach EDGE where e does EDGE / (c - bend EDGE).
    """
    c = 1.0 if odds else ratio
    bend = -1.0 if odds else 1.0 - c
    head = np.float32((math.log(EDGE / (c - bend * EDGE)) - b) / a)
    slope = np.float32(a * LOG2_E)
    rest = np.float32(a * LOG2_E - slope)
    intercept = np.float32((a * centre + b + math.log(c)) * LOG2_E)
    tail_sums(own, centre, slope, rest, intercept, np.float32(bend / c), head, sums)
    return head


@kernel
def gather(
    own: AnyFloatArray,
    maxima: AnyFloatArray,
    threshold: np.float32,
    scores: AnyFloatArray,
    positions: IntArray,
) -> int:
    """The candidates from ``threshold`` on, in the order of their positions; returns how many."""
    size = 0
    for chunk in range(maxima.size):
        if maxima[chunk] == LOWEST or not maxima[chunk] >= threshold:
            continue
        begin = chunk * CHUNK
        part = own[begin : begin + CHUNK]
        for i in range(part.size):
            if part[i] >= threshold and part[i] > LOWEST:
                scores[size] = part[i]
                positions[size] = begin + i
                size += 1
    return size


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
    n_users = offsets.size - 1
    max_k = positions.shape[1]
    longest = longest_of(offsets)
    all_maxima = np.empty((longest + CHUNK - 1) // CHUNK, dtype=np.float32)
    near_scores = np.empty(longest, dtype=np.float32)
    near = np.empty(longest, dtype=np.int32)
    sums, scratch = np.empty(MANY_SUMS + 1), np.empty((3, longest + ROOM))
    everything = np.empty(0)
    lanes = lanes_of(max_k)
    for u in range(begin, n_users):
        own = scores[offsets[u] : offsets[u + 1]]
        a, b = slope[u], intercept[u]
        maxima = all_maxima[: (own.size + CHUNK - 1) // CHUNK]
        if not chunk_maxima(own, maxima):
            return u, True
        threshold = score_reached_by(maxima, max_k)
        in_lanes = not whole and a > 0.0 and ratio[u] >= LEAST_RATIO
        head = np.float32(np.inf)
        if in_lanes:
            centre = ZERO
            for most in maxima:
                if most > LOWEST:
                    centre = most
                    break
            head = tail_of(own, centre, a, b, ratio[u], odds[u], sums)
            in_lanes = dropped_terms_bound(sums, LANE_SUMS, EDGE_ROUNDED) <= DROPPED
        size = gather(own, maxima, min(threshold, head), near_scores, near)
        n = top_of(near_scores[:size], top_scores[u], positions[u])
        lengths[u] = n
        for r in range(n):
            ranked[u, r] = probability_at(a * top_scores[u, r] + b, ratio[u], odds[u], cap)
            positions[u, r] = near[positions[u, r]]
        top_scores[u, n:] = LOWEST
        positions[u, n:] = -1
        ranked[u, n:] = 0.0
        curves[u, n + 1 :] = np.nan
        if whole:
            curve_without_total(ranked[u], n, discount, penalty, table[1], curves[u])
            continue
        if in_lanes:
            n_head = 0
            for i in range(size):
                if near_scores[i] >= head:
                    z = a * near_scores[i] + b
                    scratch[2, n_head] = probability_at(z, ratio[u], odds[u], cap)
                    n_head += 1
            first, last = tail_pmf(sums, LANE_SUMS, own.size - n_head, scratch[0])
            first, last = with_items(scratch[0], first, last, scratch[2, :n_head], scratch[1])
        else:
            if everything.size == 0:
                everything = np.empty(longest)
            for i in range(own.size):
                everything[i] = 0.0
                if own[i] > LOWEST:
                    everything[i] = probability_at(a * own[i] + b, ratio[u], odds[u], cap)
            first, last = count_pmf_exact(everything[: own.size], sums, scratch)
        if last + 1 >= table.shape[0]:
            return u, False
        pmf = scratch[0]
        curve_from_counts(
            pmf, first, last, ranked[u], n, discount, penalty, table, lanes, curves[u]
        )
    return n_users, False
