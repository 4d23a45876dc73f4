"""The expected utility of every list length at once.

With discount w(r), penalty v(r) and normaliser h(m, k), for the first k of a user's candidates,

    E[U_k] = sum_{r<=k} w(r) p_r E[h(1 + S_-r, k)] - sum_{r<=k} v(r) (1 - p_r),

S_-r the number of relevant items without the one at rank r. One running array
``A_k(m) = sum_{r<=k} w(r) p_r P(S_-r = m - 1)`` serves all lengths:
``E_k = sum_m h(m, k) A_k(m)``, which is O(max_k * width) for the whole curve.

Curves are arrays whose index is the list length: ``curve[0]`` is the empty list and is 0.
"""

from __future__ import annotations

import numpy as np

from topperk._kernels.arrays import FloatArray, IntArray, OffsetArray
from topperk._kernels.compiling import kernel
from topperk._kernels.counting import (
    MANY_SUMS,
    count_pmf_exact,
    count_pmf_refined_normal,
    leave_one_out,
)

# Values closer than this (relative to the larger of 1 and the best) are one value: the smallest
# length wins. Rounding in a curve of 1,000 lengths stays below it.
TIE = 1e-12


@kernel
def curve_exact(
    p: FloatArray,
    ranked: FloatArray,
    n: int,
    discount: FloatArray,
    penalty: FloatArray,
    table: FloatArray,
    buffers: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    curve: FloatArray,
) -> bool:
    """Fill ``curve[0..n]``; return False, with nothing filled, where ``table`` has too few rows.

    ``p``: the probabilities of all candidates; ``ranked``: those of the list in order, n used;
    ``table[k, m]`` = h(m, k); ``buffers``: the scratch arrays of ``curve_buffers``.
    """
    sums, pmf, without, running = buffers
    first, last = count_pmf_exact(p, sums, pmf)
    width = last - first + 2
    if last + 1 >= table.shape[1]:
        return False
    running[:width] = 0.0
    curve[0] = 0.0
    cost = 0.0
    for k in range(1, n + 1):
        hit = ranked[k - 1]
        weight = discount[k - 1] * hit
        cost += penalty[k - 1] * (1.0 - hit)
        value = 0.0
        row = table[k, first : last + 2]
        if weight != 0.0:
            leave_one_out(pmf, first, last, hit, without)
            for i in range(width):
                running[i] += weight * without[i]
        for i in range(width):
            value += row[i] * running[i]
        curve[k] = value - cost
    return True


@kernel
def curve_without_total(
    ranked: FloatArray,
    n: int,
    discount: FloatArray,
    penalty: FloatArray,
    factor: FloatArray,
    curve: FloatArray,
) -> None:
    """As ``curve_exact`` for utilities whose normaliser ``factor[k]`` does not depend on m."""
    curve[0] = 0.0
    gain = 0.0
    cost = 0.0
    for k in range(1, n + 1):
        hit = ranked[k - 1]
        gain += discount[k - 1] * hit
        cost += penalty[k - 1] * (1.0 - hit)
        curve[k] = factor[k] * gain - cost


@kernel
def curve_paper(
    p: FloatArray,
    ranked: FloatArray,
    n: int,
    discount: FloatArray,
    penalty: FloatArray,
    table: FloatArray,
    n_terms: int,
    pmf: FloatArray,
    curve: FloatArray,
) -> None:
    """Eq. 7d, 11 and 13: S in place of S_-r, the refined normal, and m from 1 to ``n_terms``."""
    count_pmf_refined_normal(p, n_terms, pmf)
    curve[0] = 0.0
    gain = 0.0
    cost = 0.0
    for k in range(1, n + 1):
        hit = ranked[k - 1]
        gain += discount[k - 1] * hit
        cost += penalty[k - 1] * (1.0 - hit)
        value = 0.0
        for m in range(1, n_terms + 1):
            value += table[k, m] * pmf[m - 1]
        curve[k] = value * gain - cost


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
    """``curve_exact`` for users begin.. of a block; returns the first user that was not done.

    That is the number of users, or the user whose count can exceed the rows of ``table``: the
    caller then calls again from there with a larger one. Beyond a user's own number of
    candidates a curve is NaN.
    """
    longest = 0
    for u in range(begin, offsets.size - 1):
        longest = max(longest, offsets[u + 1] - offsets[u])
    buffers = (
        np.empty(MANY_SUMS + 1),
        np.empty(longest + 2),
        np.empty(longest + 3),
        np.empty(longest + 3),
    )
    for u in range(begin, offsets.size - 1):
        out[u, :] = np.nan
        own = p[offsets[u] : offsets[u + 1]]
        if not curve_exact(own, ranked[u], lengths[u], discount, penalty, table, buffers, out[u]):
            return u
    return offsets.size - 1


@kernel
def curves_without_total(
    ranked: FloatArray,
    lengths: IntArray,
    discount: FloatArray,
    penalty: FloatArray,
    factor: FloatArray,
    out: FloatArray,
) -> None:
    """``curve_without_total`` for every user of a block."""
    for u in range(lengths.size):
        out[u, :] = np.nan
        curve_without_total(ranked[u], lengths[u], discount, penalty, factor, out[u])


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
    """``curve_paper`` for every user of a block."""
    pmf = np.empty(n_terms)
    for u in range(offsets.size - 1):
        out[u, :] = np.nan
        own = p[offsets[u] : offsets[u + 1]]
        curve_paper(own, ranked[u], lengths[u], discount, penalty, table, n_terms, pmf, out[u])


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
