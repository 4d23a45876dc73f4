"""One pass over a user's float32 scores: what may be in the list or the head, and the tail's sums.

1. The first scores, laid out in columns, give a score that K of them reach (``columns_of``,
   ``score_reached_by``).
2. ``gather`` takes whatever reaches it, and the *head*: the items of a probability from
   ``HEAD_THRESHOLD`` on. 64 comparisons make one step.
3. ``tail_sums`` takes the odds power sums of the rest in float32 lanes; sums of
   ``SUMMED_TOGETHER`` items are added up in float64.

A catalogue may come in pieces, of which nothing is kept but that. Cost for n items: some 30 vector
instructions per 16 items.
"""

from __future__ import annotations

import math
from typing import cast

import numpy as np

from topperk._kernels.arrays import AnyFloatArray, FloatArray, IntArray
from topperk._kernels.compiling import NOUGHT, inlined_kernel, kernel, lane_kernel
from topperk._kernels.counting import HEAD_THRESHOLD
from topperk._kernels.exponential import LOG2_E, fast_exp2_single, straight
from topperk._kernels.lanes import MASKED, lowest_bit, not_less, where_less
from topperk._kernels.views import part_of

# The scores looked at for a first bound, and how many columns they are laid out in: some times K,
# so that a bound that K columns reach is reached by few more items than K.
COLUMNS_PER_RANK = 5
ROWS_OF_COLUMNS = 8
SUMMED_TOGETHER = 1024
LANE_SUMS = cast(int, np.int64(6))  # of one type with other numbers of sums: see compiling
# Halvings of the range in which the K-th best score is sought; one that K to 1.25 K reach will do.
HALVINGS = 12
# So many candidates for a list, or two for each rank, are put in order by counting who is better
# than each; more are rare, as it takes equal scores.
COUNTED = 512

LOWEST, BEYOND = np.float32(-np.inf), np.float32(np.inf)
LEAST = np.float32(np.finfo(np.float32).min)
ZERO, HALF, ONE = np.float32(0.0), np.float32(0.5), np.float32(1.0)
# The odds at HEAD_THRESHOLD.
EDGE = HEAD_THRESHOLD / (1.0 - HEAD_THRESHOLD)
# A ratio near the threshold or below has no head, and odds beyond single precision in its tail.
LEAST_RATIO = 0.5
# A score beyond this at the threshold means a slope of next to nothing: lanes could not tell scores
# apart.
FARTHEST = 1e30
# The rest of a steeper slope, times a score as low as they come, would be no number.
STEEPEST = 1e6

# Smaller odds count in the first power sum alone: the sixth power would be no normal number, which
# takes processors long, and a million second powers are less than 3e-7.
SLIGHT = np.float32(2.0**-21)

# What a scan says instead of how many it has gathered.
NOT_IN_LANES = cast(int, np.int64(-1))


@inlined_kernel
def columns_for(max_k: int) -> int:
    """How many columns the first scores are laid out in."""
    return (COLUMNS_PER_RANK * max_k // MASKED + 1) * MASKED


@lane_kernel
def columns_of(own: AnyFloatArray, columns: AnyFloatArray) -> None:
    """Lay scores out in rows as long as ``columns``, which gets the largest of each column."""
    for i in range(columns.size):
        columns[i] = LOWEST
    for begin in range(0, own.size, columns.size):
        part = part_of(own, begin, min(own.size, begin + columns.size))
        for i in range(part.size):
            # the larger of the two, and never NaN
            columns[i] = where_less(columns[i], part[i], part[i], columns[i])


@lane_kernel
def n_reaching(values: AnyFloatArray, threshold: np.float32) -> int:
    """How many of the values are at least the threshold (up to 2**24 of them)."""
    count = ZERO
    for i in range(values.size):
        count += where_less(values[i], threshold, ZERO, ONE)
    return int(count)


@kernel
def score_reached_by(values: AnyFloatArray, k: int) -> np.float32:
    """A score that at least k of the values reach, and not many more: their range is halved.

    The least there is where fewer than k values are scores at all.
    """
    low, high = BEYOND, LOWEST
    for i in range(values.size):
        if values[i] > LOWEST:
            low = min(low, values[i])
            high = max(high, values[i])
    if low > high or n_reaching(values, low) < k:
        return LEAST
    for _ in range(HALVINGS):
        middle = low + HALF * (high - low)
        count = n_reaching(values, middle)
        if count < k:
            high = middle
        else:
            low = middle
            if 4 * count <= 5 * k:
                break
    return max(low, LEAST)


@lane_kernel
def tail_sums(
    own: AnyFloatArray,
    head: np.float32,
    slope: np.float32,
    slope_rest: np.float32,
    intercept: np.float32,
    bend: np.float32,
    sums: FloatArray,
) -> None:
    """Add to ``sums[j]`` the powers of e / (1 + bend e), e = 2**(slope (s - head) + intercept).

    The sum goes over the scores below ``head``. These are taken relative to it, so that an offset
    that all scores share costs no precision, and the slope comes in two parts: its rounding would
    move all odds the same way.
    """
    bent = bend != ZERO  # the loop is compiled twice, once without the division
    for begin in range(0, own.size, SUMMED_TOGETHER):
        part = part_of(own, begin, min(own.size, begin + SUMMED_TOGETHER))
        r1 = r2 = r3 = r4 = r5 = r6 = ZERO
        for i in range(part.size):
            s = part[i]
            e = fast_exp2_single(straight(s - head, slope, slope_rest, intercept))
            odds = where_less(s, head, e, ZERO)
            if bent:
                odds = odds / (ONE + bend * odds)
            r1 += odds
            odds = where_less(odds, SLIGHT, ZERO, odds)
            square = odds * odds
            cube = square * odds
            r2 += square
            r3 += cube
            r4 += square * square
            r5 += square * cube
            r6 += cube * cube
        sums[1] += np.float64(r1)
        sums[2] += np.float64(r2)
        sums[3] += np.float64(r3)
        sums[4] += np.float64(r4)
        sums[5] += np.float64(r5)
        sums[6] += np.float64(r6)


@kernel
def head_begins(a: float, b: float, ratio: float, odds: int) -> tuple[np.float32, float, float]:
    """The score at which one user's head begins, c and bend; infinite where lanes do not serve.

    ``ratio`` and ``odds`` as in ``calibrating.probabilities_of``: p c and p / (1 - p) have the odds
    c e / (1 + (1 - c) e) and e / (1 - e), which reach EDGE where e does EDGE / (c - bend EDGE).
    """
    c = 1.0 if odds else ratio
    bend = -1.0 if odds else 1.0 - c
    if not (0.0 < a < STEEPEST and c >= LEAST_RATIO):
        return BEYOND, c, bend
    head = (math.log(EDGE / (c - bend * EDGE)) - b) / a
    return (np.float32(head) if abs(head) < FARTHEST else BEYOND), c, bend


@kernel
def gather(
    own: AnyFloatArray,
    at: int,
    begin: int,
    threshold: np.float32,
    scores: AnyFloatArray,
    positions: IntArray,
    size: int,
) -> tuple[int, int]:
    """Append the scores from ``at`` on that are not below the threshold (so NaN too).

    ``begin`` is the position of ``own[0]``. Returns how many there are then, and where it ended:
    before the end of ``own`` where there is no room for MASKED more.
    """
    whole = own.size - own.size % MASKED
    while at < whole:
        if size + MASKED > scores.size:
            return size, at
        mask = not_less(own, at, threshold)
        while mask != 0:
            place = at + lowest_bit(mask)
            scores[size] = own[place]
            positions[size] = begin + place
            size += 1
            mask &= mask - 1
        at += MASKED
    if size + MASKED > scores.size:
        return size, at
    while at < own.size:
        if not own[at] < threshold:
            scores[size] = own[at]
            positions[size] = begin + at
            size += 1
        at += 1
    return size, at


@kernel
def scan(
    own: AnyFloatArray,
    begin: int,
    a: float,
    b: float,
    ratio: float,
    odds: int,
    whole: bool,
    max_k: int,
    columns: AnyFloatArray,
    threshold: np.float32,
    near_scores: AnyFloatArray,
    near: IntArray,
    size: int,
    sums: FloatArray,
) -> tuple[int, np.float32, np.float32]:
    """Go through one user's scores, or a piece of them that begins at position ``begin``.

    Adds to ``sums`` (unless ``whole``: the utility needs none) and to the ``size`` gathered so far;
    returns their number, the score at which the head begins, and the score that bounds the list,
    ``threshold`` so far. Instead of the number: NOT_IN_LANES, also where there is too little room.
    """
    head = BEYOND
    if not whole:
        head, c, bend = head_begins(a, b, ratio, odds)
        if head == BEYOND:
            return NOT_IN_LANES, head, threshold
        slope = np.float32(a * LOG2_E)
        rest = np.float32(a * LOG2_E - slope)
        intercept = np.float32((a * head + b + math.log(c)) * LOG2_E)
        tail_sums(own, head, slope, rest, intercept, np.float32(bend / c), sums)
    if begin == 0:
        columns_of(part_of(own, 0, min(own.size, ROWS_OF_COLUMNS * columns.size)), columns)
        threshold = score_reached_by(columns, max_k)
    at = NOUGHT
    while True:
        size, at = gather(own, at, begin, min(threshold, head), near_scores, near, size)
        if at == own.size:
            return size, head, threshold
        # No room for more. With a higher bound, from all that was gathered, there may be.
        threshold = max(threshold, score_reached_by(part_of(near_scores, 0, size), max_k))
        kept = NOUGHT
        for i in range(size):
            if not near_scores[i] < min(threshold, head):
                near_scores[kept], near[kept] = near_scores[i], near[i]
                kept += 1
        if kept + MASKED > near_scores.size:
            return NOT_IN_LANES, head, threshold
        size = kept


@lane_kernel
def n_better(scores: AnyFloatArray, better: IntArray) -> None:
    """How many of the scores are above each."""
    for i in range(scores.size):
        own = scores[i]
        count = ZERO
        for j in range(scores.size):
            count += where_less(own, scores[j], ONE, ZERO)
        better[i] = int(count)


@kernel
def ordered(
    scores: AnyFloatArray,
    places: IntArray,
    better: IntArray,
    top_scores: AnyFloatArray,
    top_positions: IntArray,
) -> int:
    """The best in order (equal scores: as they come), ``places`` of them; returns how many.

    ``better``: scratch for as many as there may be.
    """
    n = min(scores.size, top_scores.size)
    n_better(scores, part_of(better, 0, scores.size))
    for r in range(n):
        top_positions[r] = -1
    for i in range(scores.size):
        r = better[i]
        while r < n and top_positions[r] >= 0:
            r += 1
        if r < n:
            top_scores[r], top_positions[r] = scores[i], places[i]
    return n
