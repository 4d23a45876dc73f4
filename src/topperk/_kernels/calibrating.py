"""From scores and fitted parameters to probabilities, and the held-out correction's sums."""

from __future__ import annotations

import math

import numpy as np

from topperk._kernels.arrays import AnyFloatArray, FloatArray, IntArray, OffsetArray
from topperk._kernels.compiling import inlined_kernel, kernel, lane_kernel
from topperk._kernels.exponential import fast_exp
from topperk._kernels.lanes import larger, where_less
from topperk._kernels.logistic_sums import compacted
from topperk._kernels.ranking import longest_of
from topperk._kernels.views import part_of


@inlined_kernel
def probability_at(z: float, ratio: float, odds: int, cap: float) -> float:
    """The probability of one candidate with the logit z: see ``probabilities_of``."""
    if odds:
        return min(fast_exp(z), cap)
    return min(ratio / (1.0 + fast_exp(-z)), 1.0)


@kernel
def probabilities_of(
    scores: AnyFloatArray,
    offsets: OffsetArray,
    slope: FloatArray,
    intercept: FloatArray,
    ratio: FloatArray,
    odds: IntArray,
    cap: float,
    out: FloatArray,
) -> None:
    """Write each candidate's probability: sigmoid(a s + b), times ratio (at most 1), or its odds.

    Where ``odds[u]`` is set the probability is min(p / (1 - p), cap), p / (1 - p) being exp(z).
    No candidate: probability 0.
    """
    for u in range(offsets.size - 1):
        a, b = slope[u], intercept[u]
        for i in range(offsets[u], offsets[u + 1]):
            if scores[i] > -np.inf:
                out[i] = probability_at(a * scores[i] + b, ratio[u], odds[u], cap)
            else:
                out[i] = 0.0


@lane_kernel
def probability_sums(x: FloatArray, a: float, b: float) -> tuple[float, float]:
    """The sums of p = sigmoid(a x + b) and of p (1 - p)."""
    p_sum = 0.0
    spread = 0.0
    for i in range(x.size):
        z = a * x[i] + b
        positive = larger(z, 0.0)
        e = fast_exp(z - 2.0 * positive)
        big = 1.0 / (1.0 + e)
        small = e * big
        p_sum += where_less(0.0, z, big, small)
        spread += big * small
    return p_sum, spread


@kernel
def logit_shift(x: FloatArray, a: float, b: float, target: float) -> float:
    """The shift d with sum_i sigmoid(a x_i + b + d) = target.

    Newton for the logarithm of the sum, which is nearly straight, inside a bracket; the sum is
    increasing in d. Where the target can not be reached (no candidates, or as many expected as
    there are) the shift is 0.
    """
    if not 0.0 < target < x.size:
        return 0.0
    low, high = -50.0, 50.0
    d = 0.0
    for _ in range(80):
        total, spread = probability_sums(x, a, b + d)
        gap = total - target
        if abs(gap) <= 1e-12 * target:
            break
        if gap > 0.0:
            high = d
        else:
            low = d
        d = d - math.log(total / target) * total / spread if spread > 0.0 else low - 1.0
        if not low < d < high:
            d = 0.5 * (low + high)
        if high - low < 1e-13:
            break
    return d


@kernel
def held_out_corrections(
    scores: AnyFloatArray,
    offsets: OffsetArray,
    positives: IntArray,
    positive_offsets: OffsetArray,
    slope: FloatArray,
    intercept: FloatArray,
    shift: bool,
    out: FloatArray,
) -> None:
    """What lets each user's candidates without the positives expect what those with them do.

    The logit shift that does so, or else the ratio of the two (1 where nothing remains).
    """
    x = np.empty(longest_of(offsets))
    for u in range(offsets.size - 1):
        a, b = slope[u], intercept[u]
        begin = offsets[u]
        own = part_of(x, 0, offsets[u + 1] - begin)
        for i in range(own.size):
            own[i] = scores[begin + i]
        # Two sums, and no difference of them: where all candidates are held out, nothing remains.
        held = 0.0
        for j in range(positive_offsets[u], positive_offsets[u + 1]):
            s = own[positives[j]]
            if s > -np.inf:
                held += 1.0 / (1.0 + fast_exp(-(a * s + b)))
                own[positives[j]] = -np.inf
        rest = part_of(x, 0, compacted(own, own))
        remaining, _ = probability_sums(rest, a, b)
        if shift:
            out[u] = logit_shift(rest, a, b, remaining + held)
        else:
            out[u] = (remaining + held) / remaining if remaining > 0.0 else 1.0
