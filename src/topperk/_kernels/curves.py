"""The expected utility of every list length at once.

With discount w(r), penalty v(r) and normaliser h(m, k), for the first k of a user's candidates,

    E[U_k] = sum_{r<=k} w(r) p_r E[h(1 + S_-r, k)] - sum_{r<=k} v(r) (1 - p_r),

S_-r the number of relevant items without the one at rank r. One running sum
``A_k(m) = sum_{r<=k} w(r) p_r P(S_-r = m - 1)`` serves all lengths:
``E_k = sum_m h(m, k) A_k(m)``, which is O(max_k * width) for the whole curve.

Curves are arrays whose index is the list length: ``curve[0]`` is the empty list and is 0.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from topperk._kernels.arrays import FloatArray, IntArray, OffsetArray
from topperk._kernels.compiling import kernel
from topperk._kernels.counting import (
    MANY_SUMS,
    ROOM,
    count_pmf_exact,
    count_pmf_refined_normal,
)
from topperk._kernels.ranking import longest_of
from topperk._kernels.views import part_of, row_of

Lanes: TypeAlias = tuple[
    FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray, FloatArray
]

# Values closer than this (relative to the larger of 1 and the best) are one value: the smallest
# length wins. Rounding in a curve of 1,000 lengths stays below it.
TIE = 1e-12


@kernel
def lanes_of(n: int) -> Lanes:
    """Scratch for ``curve_from_counts``, an entry for each rank.

    Arrays of their own: in one matrix the compiler could not tell that they do not overlap.
    """
    return (
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty(n),
        np.empty(n),
    )


@kernel
def _walk(
    pmf: FloatArray,
    first: int,
    last: int,
    likely: bool,
    begin: int,
    end: int,
    n: int,
    table: FloatArray,
    lanes: Lanes,
    curve: FloatArray,
) -> None:
    """Add the ranks begin..end to the curve: over all m in one direction, all ranks in step.

    ``lanes``: 1 / q, (1 - q) / q and the weight of each rank, where q is the larger of p and
    1 - p; then room for the distributions without each rank at four counts m. Four are taken
    together because the running sum over ranks has to wait for itself.
    """
    scale, ratio, weight = (
        part_of(lanes[0], begin, end),
        part_of(lanes[1], begin, end),
        part_of(lanes[2], begin, end),
    )
    one, two = part_of(lanes[3], begin, end), part_of(lanes[4], begin, end)
    three, four = part_of(lanes[5], begin, end), part_of(lanes[6], begin, end)
    four[:] = 0.0
    on, after = part_of(curve, begin + 1, end + 1), part_of(curve, end + 1, n + 1)
    steps = last - first + 1
    for j in range(0, steps, 4):
        # counts beyond the last find no chance, and the row of zeros that the table begins with
        c1, c2, c3, c4 = 0.0, 0.0, 0.0, 0.0
        m1, m2, m3, m4 = 0, 0, 0, 0
        at = last - j if likely else first + j
        step = -1 if likely else 1
        above = 0 if likely else 1
        c1, m1 = pmf[at], at + above
        if j + 1 < steps:
            c2, m2 = pmf[at + step], at + step + above
        if j + 2 < steps:
            c3, m3 = pmf[at + 2 * step], at + 2 * step + above
        if j + 3 < steps:
            c4, m4 = pmf[at + 3 * step], at + 3 * step + above
        row1, row2, row3, row4 = (
            row_of(table, m1),
            row_of(table, m2),
            row_of(table, m3),
            row_of(table, m4),
        )
        for r in range(one.size):
            one[r] = c1 * scale[r] - ratio[r] * four[r]
            two[r] = c2 * scale[r] - ratio[r] * one[r]
            three[r] = c3 * scale[r] - ratio[r] * two[r]
            four[r] = c4 * scale[r] - ratio[r] * three[r]
        run1, run2, run3, run4 = 0.0, 0.0, 0.0, 0.0
        at1, at2 = part_of(row1, begin + 1, end + 1), part_of(row2, begin + 1, end + 1)
        at3, at4 = part_of(row3, begin + 1, end + 1), part_of(row4, begin + 1, end + 1)
        for r in range(on.size):
            run1 += weight[r] * one[r]
            run2 += weight[r] * two[r]
            run3 += weight[r] * three[r]
            run4 += weight[r] * four[r]
            on[r] += (at1[r] * run1 + at2[r] * run2) + (at3[r] * run3 + at4[r] * run4)
        at1, at2 = part_of(row1, end + 1, n + 1), part_of(row2, end + 1, n + 1)
        at3, at4 = part_of(row3, end + 1, n + 1), part_of(row4, end + 1, n + 1)
        for r in range(after.size):
            after[r] += (at1[r] * run1 + at2[r] * run2) + (at3[r] * run3 + at4[r] * run4)


@kernel
def curve_from_counts(
    pmf: FloatArray,
    first: int,
    last: int,
    ranked: FloatArray,
    n: int,
    discount: FloatArray,
    penalty: FloatArray,
    table: FloatArray,
    lanes: Lanes,
    curve: FloatArray,
) -> None:
    """Fill ``curve[0..n]`` from the distribution ``pmf[first..last]`` of S.

    ``ranked``: the probabilities of the list in order, n used; ``table[m, k]`` = h(m, k).

    P(S_-r = m) follows from its neighbour at m - 1 where p_r <= 1/2 and from that at m + 1 where
    p_r > 1/2, so that an error is never multiplied by more than one from term to term: the l1
    error is at most that of ``pmf`` times the number of terms.
    """
    curve[: n + 1] = 0.0
    scale, ratio, weight = lanes[0], lanes[1], lanes[2]
    for likely in (False, True):
        begin = end = n
        for r in range(n):
            hit = ranked[r]
            if (hit > 0.5) == likely:
                kept = hit if likely else 1.0 - hit
                scale[r] = 1.0 / kept
                ratio[r] = (1.0 - kept) / kept
                weight[r] = discount[r] * hit
                begin = min(begin, r)
                end = r + 1
            else:
                scale[r] = ratio[r] = weight[r] = 0.0
        if begin < end:
            _walk(pmf, first, last, likely, begin, end, n, table, lanes, curve)
    cost = 0.0
    for r in range(n):
        cost += penalty[r] * (1.0 - ranked[r])
        curve[r + 1] -= cost


@kernel
def curve_without_total(
    ranked: FloatArray,
    n: int,
    discount: FloatArray,
    penalty: FloatArray,
    factor: FloatArray,
    curve: FloatArray,
) -> None:
    """As ``curve_from_counts``, where the normaliser ``factor[k]`` does not depend on m."""
    curve[0] = 0.0
    gain = 0.0
    cost = 0.0
    for k in range(1, n + 1):
        hit = ranked[k - 1]
        gain += discount[k - 1] * hit
        cost += penalty[k - 1] * (1.0 - hit)
        curve[k] = factor[k] * gain - cost


@kernel
def curves_exact(
    p: FloatArray,
    offsets: OffsetArray,
    ranked: FloatArray,
    lengths: IntArray,
    discount: FloatArray,
    penalty: FloatArray,
    table: FloatArray,
    begin: int,
    out: FloatArray,
) -> int:
    """The curves of users begin.. of a block; returns the first user that was not done.

    ``p``: the probabilities of all candidates; the rest is as in ``curve_from_counts``.
    That is the number of users, or the user whose count can exceed the rows of ``table``: the
    caller then calls again from there with a larger one. Beyond a user's own number of
    candidates a curve is NaN.
    """
    longest = longest_of(offsets)
    sums, scratch = np.empty(MANY_SUMS + 1), np.empty((3, longest + ROOM))
    lanes = lanes_of(ranked.shape[1])
    for u in range(begin, offsets.size - 1):
        out[u, :] = np.nan
        first, last = count_pmf_exact(p[offsets[u] : offsets[u + 1]], sums, scratch)
        if last + 1 >= table.shape[0]:
            return u
        n = int(np.int64(lengths[u]))  # of one type with every other call: see compiling
        curve_from_counts(
            scratch[0], first, last, ranked[u], n, discount, penalty, table, lanes, out[u]
        )
    return offsets.size - 1


@kernel
def curves_paper(
    p: FloatArray,
    offsets: OffsetArray,
    ranked: FloatArray,
    lengths: IntArray,
    discount: FloatArray,
    penalty: FloatArray,
    table: FloatArray,
    n_terms: int,
    out: FloatArray,
) -> None:
    """Eq. 7d, 11 and 13: S in place of S_-r, the refined normal, and m from 1 to ``n_terms``."""
    pmf = np.empty(n_terms)
    for u in range(offsets.size - 1):
        out[u, :] = np.nan
        count_pmf_refined_normal(p[offsets[u] : offsets[u + 1]], n_terms, pmf)
        n, curve = lengths[u], out[u]
        curve[: n + 1] = 0.0
        for m in range(1, n_terms + 1):
            for k in range(1, n + 1):
                curve[k] += table[m, k] * pmf[m - 1]
        gain = 0.0
        cost = 0.0
        for k in range(1, n + 1):
            hit = ranked[u, k - 1]
            gain += discount[k - 1] * hit
            cost += penalty[k - 1] * (1.0 - hit)
            curve[k] = curve[k] * gain - cost


@kernel
def best_lengths(
    curves: FloatArray,
    min_k: int,
    max_k: int,
    lengths: IntArray,
    out: IntArray,
) -> None:
    """The smallest k in min_k..max_k whose value is the best; at most the candidates there are."""
    for u in range(lengths.size):
        top = min(max_k, lengths[u])
        low = min(min_k, top)
        best = curves[u, low]
        for k in range(low + 1, top + 1):
            best = max(best, curves[u, k])
        k = low
        while curves[u, k] < best - TIE * max(1.0, abs(best)):
            k += 1
        out[u] = k
