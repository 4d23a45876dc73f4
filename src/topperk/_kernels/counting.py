"""The distribution of S, the number of relevant items among all of a user's candidates.

S is a sum of independent Bernoulli variables: a Poisson-binomial. Its generating function is

    prod_i (1 - p_i) * (1 + rho_i t),      rho_i = p_i / (1 - p_i).

*Tail* (p_i below ``HEAD_THRESHOLD``, nearly all items): the logarithm of their part is
``sum_j (-1)**(j+1) R_j t**j / j`` minus the same at t = 1, with the odds power sums
``R_j = sum rho_i**j``. A handful of sums stand for thousands of items, and with
``l_j = (-1)**(j+1) R_j`` the probabilities follow from

    f_0 = exp(-sum_j l_j / j),      m f_m = sum_j l_j f_{m-j}.

With J sums and ``rho_max`` the largest odds of the tail, the terms left out are at most
``B = R_J rho_max / ((J + 1)(1 - rho_max))`` in absolute value, and the l1 error of the
distribution is at most ``exp(2 B) - 1``. J is ``FEW_SUMS`` where that is below
``TAIL_TOLERANCE`` and ``MANY_SUMS`` otherwise, which is enough for a hundred million items.

*Head* (the rest): convolved in one by one, which is exact and stable for every p in [0, 1].

Values below ``TRIM`` at either end of the support are dropped as the head goes in, so that the
work follows the standard deviation and not the number of items, and ``first..last`` is all that
is kept. Where the tail's mean is so large that f_0 would underflow (uncalibrated scores), the
recurrence runs on scaled numbers, which are divided by their sum at the end; the answer is equally
exact. Cost: one division and ``FEW_SUMS`` multiply-adds per item, then O(J m) for the tail and
O(head * width).
"""

from __future__ import annotations

import math

import numpy as np

from topperk._kernels.arrays import FloatArray, OffsetArray
from topperk._kernels.compiling import kernel, lane_kernel
from topperk._kernels.lanes import MASKED, larger, lowest_bit, not_less, where_less
from topperk._kernels.ranking import longest_of
from topperk._kernels.views import part_of, row_of

HEAD_THRESHOLD = 0.05
FEW_SUMS = 10
MANY_SUMS = 16
TAIL_TOLERANCE = 1e-12
TRIM = 1e-19
# What ``with_items`` writes beyond the last item.
ROOM = 4
# Sums are taken over this many items and then added: the rounding of a million equal odds would
# else move the mean by 1e-10 of itself, and the distribution by more than 1e-9 (tests/
# test_counting.py). The square root of a million balances the two levels.
SUMMED_TOGETHER = 1024


@lane_kernel
def odds_power_sums_few(p: FloatArray, sums: FloatArray) -> float:
    """Fill ``sums[j] = sum rho_i**j``, j = 1..FEW_SUMS, over the tail; return the largest odds."""
    sums[:] = 0.0
    largest = 0.0
    for begin in range(0, p.size, SUMMED_TOGETHER):
        part = part_of(p, begin, min(p.size, begin + SUMMED_TOGETHER))
        s1 = s2 = s3 = s4 = s5 = s6 = s7 = s8 = s9 = s10 = 0.0
        for i in range(part.size):
            kept = where_less(part[i], HEAD_THRESHOLD, part[i], 0.0)
            rho = kept / (1.0 - kept)
            largest = larger(rho, largest)
            square = rho * rho
            cube = square * rho
            fourth = square * square
            fifth = square * cube
            s1 += rho
            s2 += square
            s3 += cube
            s4 += fourth
            s5 += fifth
            s6 += cube * cube
            s7 += fourth * cube
            s8 += fourth * fourth
            s9 += fourth * fifth
            s10 += fifth * fifth
        sums[1] += s1
        sums[2] += s2
        sums[3] += s3
        sums[4] += s4
        sums[5] += s5
        sums[6] += s6
        sums[7] += s7
        sums[8] += s8
        sums[9] += s9
        sums[10] += s10
    return largest


@kernel
def odds_power_sums_many(p: FloatArray, sums: FloatArray) -> float:
    """As ``odds_power_sums_few``, for j = 1..MANY_SUMS."""
    sums[:] = 0.0
    part = np.empty(MANY_SUMS + 1)
    largest = 0.0
    for begin in range(0, p.size, SUMMED_TOGETHER):
        part[:] = 0.0
        for i in range(begin, min(begin + SUMMED_TOGETHER, p.size)):
            if p[i] >= HEAD_THRESHOLD:
                continue
            rho = p[i] / (1.0 - p[i])
            largest = max(largest, rho)
            power = 1.0
            for j in range(1, MANY_SUMS + 1):
                power *= rho
                part[j] += power
        for j in range(1, MANY_SUMS + 1):
            sums[j] += part[j]
    return largest


@kernel
def head_of(p: FloatArray, head: FloatArray) -> int:
    """Copy the probabilities from HEAD_THRESHOLD on to ``head``, in order; return how many."""
    size = 0
    whole = p.size - p.size % MASKED
    for begin in range(0, whole, MASKED):
        mask = not_less(p, begin, HEAD_THRESHOLD)
        while mask != 0:
            head[size] = p[begin + lowest_bit(mask)]
            size += 1
            mask &= mask - 1
    for i in range(whole, p.size):
        if p[i] >= HEAD_THRESHOLD:
            head[size] = p[i]
            size += 1
    return size


@kernel
def dropped_terms_bound(
    sums: FloatArray,
    n_sums: int,
    largest: float,
) -> float:
    """A bound on the l1 error of the tail's distribution when ``n_sums`` power sums are kept."""
    dropped = sums[n_sums] * largest / ((n_sums + 1.0) * (1.0 - largest))
    return math.expm1(2.0 * dropped)


@kernel
def tail_pmf(
    sums: FloatArray,
    n_sums: int,
    n_tail: int,
    trim: float,
    pmf: FloatArray,
) -> tuple[int, int]:
    """Write the tail's distribution into ``pmf`` from its power sums; return (first, last).

    The support is cut where Bernstein's inequality leaves less than ten times ``trim`` beyond, and
    then where a value is below ``trim``.
    """
    # mean = sum p = sum (rho - rho^2 + rho^3 - ...), an alternating series of the power sums
    mean = 0.0
    log_first = 0.0
    sign = 1.0
    for j in range(1, n_sums + 1):
        mean += sign * sums[j]
        log_first -= sign * sums[j] / j
        sign = -sign
    surely = -math.log(10.0 * trim) / 3.0
    # the variance is at most the mean
    reach = surely + math.sqrt(surely**2 + 6.0 * surely * mean)
    last = min(n_tail, int(mean + reach) + 1)
    first = max(0, int(mean - reach) - 1)

    scaled = log_first < -600.0
    pmf[0] = 1e-250 if scaled else math.exp(log_first)
    for m in range(1, last + 1):
        # The newest term last, and the division apart: little waits for the step before.
        total = 0.0
        inverse = 1.0 / m
        for j in range(min(m, n_sums), 0, -1):
            total += (sums[j] if j % 2 else -sums[j]) * pmf[m - j]
        pmf[m] = total * inverse
        if scaled and pmf[m] > 1e200:
            for i in range(m + 1):
                pmf[i] *= 1e-300
    if scaled:
        total = 0.0
        for m in range(last + 1):
            total += pmf[m]
        for m in range(last + 1):
            pmf[m] /= total
    while first < last and not pmf[first] > trim:
        first += 1
    while last > first and not pmf[last] > trim:
        last -= 1
    return first, last


@kernel
def _weighted(
    x: FloatArray,
    y: FloatArray,
    z: FloatArray,
    a: float,
    b: float,
    c: float,
    out: FloatArray,
) -> None:
    """``out = a x + b y + c z``, as far as ``out`` reaches."""
    for i in range(out.size):
        out[i] = a * x[i] + b * y[i] + c * z[i]


@kernel
def with_items(
    pmf: FloatArray, first: int, last: int, hits: FloatArray, trim: float, other: FloatArray
) -> tuple[int, int]:
    """Convolve items into ``pmf[first..last]``, two at a time; return the new (first, last).

    ``other``: scratch as long as ``pmf``. The distributions go to and fro between the two.
    """
    source, target = pmf, other
    for i in range(0, hits.size, 2):
        hit = hits[i]
        second = hits[i + 1] if i + 1 < hits.size else 0.0
        none = (1.0 - hit) * (1.0 - second)
        one = hit * (1.0 - second) + second * (1.0 - hit)
        both = hit * second
        width = last - first + 1
        old = part_of(source, first, last + 1)
        new = part_of(target, first, last + 3)
        new[0] = none * old[0]
        new[1] = one * old[0]
        new[width + 1] = both * old[width - 1]
        if width == 1:
            new[2] = both * old[0]
        else:
            new[1] += none * old[1]
            new[width] = one * old[width - 1] + both * old[width - 2]
            _weighted(
                part_of(old, 2, width),
                part_of(old, 1, width),
                old,
                none,
                one,
                both,
                part_of(new, 2, width),
            )
        last += 2
        while first < last and not target[first] > trim:
            first += 1
        while last > first and not target[last] > trim:
            last -= 1
        source, target = target, source
    if (hits.size + 1) // 2 % 2 == 1:
        for m in range(first, last + 1):
            pmf[m] = other[m]
    return first, last


@kernel
def count_pmf_exact(
    p: FloatArray,
    sums: FloatArray,
    scratch: FloatArray,
) -> tuple[int, int]:
    """Write P(S = m) into ``scratch[0, first..last]`` and return (first, last).

    ``p``: any probabilities in [0, 1]. ``sums``: scratch of ``MANY_SUMS + 1``. ``scratch``: three
    rows of at least ``p.size + ROOM``, of which everything else means nothing afterwards. The l1
    error is at most ``TAIL_TOLERANCE`` plus rounding.
    """
    n_sums = FEW_SUMS
    largest = odds_power_sums_few(p, sums)
    if dropped_terms_bound(sums, n_sums, largest) > TAIL_TOLERANCE:
        n_sums = MANY_SUMS
        largest = odds_power_sums_many(p, sums)
    pmf, other, head = row_of(scratch, 0), row_of(scratch, 1), row_of(scratch, 2)
    n_head = head_of(p, head)
    first, last = tail_pmf(sums, n_sums, p.size - n_head, TRIM, pmf)
    return with_items(pmf, first, last, part_of(head, 0, n_head), TRIM, other)


@kernel
def count_pmf_refined_normal(
    p: FloatArray,
    n_terms: int,
    pmf: FloatArray,
) -> None:
    """Write the refined normal approximation of P(S = m), m = 0..n_terms-1, into ``pmf``.

    As in the paper's experiments: ``G((m + .5 - mu) / sigma) - G((m - .5 - mu) / sigma)`` with
    ``G(x) = Phi(x) + gamma (1 - x^2) phi(x) / 6`` (Volkova 1996), gamma the skewness.
    """
    mean = 0.0
    variance = 0.0
    third = 0.0
    for i in range(p.size):
        mean += p[i]
        variance += p[i] * (1.0 - p[i])
        third += p[i] * (1.0 - p[i]) * (1.0 - 2.0 * p[i])
    pmf[:n_terms] = 0.0
    if variance <= 0.0:
        certain = int(mean + 0.5)
        if certain < n_terms:
            pmf[certain] = 1.0
        return
    sigma = math.sqrt(variance)
    skewness = third / variance / sigma
    previous = 0.0
    for m in range(n_terms + 1):
        x = (m - 0.5 - mean) / sigma
        density = math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
        value = 0.5 * math.erfc(-x / math.sqrt(2.0))
        if density > 0.0:
            value += skewness * (1.0 - x * x) * density / 6.0
        if m > 0:
            pmf[m - 1] = value - previous
        previous = value


@kernel
def count_pmfs(
    p: FloatArray,
    offsets: OffsetArray,
    out: FloatArray,
) -> None:
    """The exact distributions of several users: row u of ``out`` gets P(S_u = m) from m = 0."""
    sums = np.empty(MANY_SUMS + 1)
    longest = longest_of(offsets)
    scratch = np.empty((3, longest + ROOM))
    for u in range(offsets.size - 1):
        own, row = part_of(p, offsets[u], offsets[u + 1]), row_of(out, u)
        first, last = count_pmf_exact(own, sums, scratch)
        last = min(last, row.size - 1)
        for m in range(min(first, row.size)):
            row[m] = 0.0
        for m in range(first, last + 1):
            row[m] = scratch[0, m]
        for m in range(last + 1, row.size):
            row[m] = 0.0
