"""From scores and fitted parameters to probabilities, and the held-out correction's sums."""

from __future__ import annotations

import numpy as np

from topperk._kernels.arrays import AnyFloatArray, FloatArray, IntArray, OffsetArray
from topperk._kernels.compiling import inlined_kernel, kernel
from topperk._kernels.exponential import fast_exp


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


@kernel
def expected_counts(
    scores: AnyFloatArray,
    offsets: OffsetArray,
    positives: IntArray,
    positive_offsets: OffsetArray,
    slope: FloatArray,
    intercept: FloatArray,
    held_out: FloatArray,
    remaining: FloatArray,
) -> None:
    """The sum of p over each user's positives (``held_out``) and over the other candidates."""
    for u in range(offsets.size - 1):
        a, b = slope[u], intercept[u]
        own = scores[offsets[u] : offsets[u + 1]]
        total = 0.0
        for i in range(own.size):
            if own[i] > -np.inf:
                total += 1.0 / (1.0 + fast_exp(-(a * own[i] + b)))
        held = 0.0
        for j in range(positive_offsets[u], positive_offsets[u + 1]):
            s = own[positives[j]]
            if s > -np.inf:
                held += 1.0 / (1.0 + fast_exp(-(a * s + b)))
        held_out[u] = held
        remaining[u] = total - held


@kernel
def logit_shifts(
    scores: AnyFloatArray,
    offsets: OffsetArray,
    slope: FloatArray,
    intercept: FloatArray,
    target: FloatArray,
    out: FloatArray,
) -> None:
    """The shift d with sum_i sigmoid(a s_i + b + d) = target over each user's candidates.

    Newton inside a bracket; the sum is increasing in d. Where the target can not be reached
    (no candidates, or as many expected as there are) the shift is 0.
    """
    for u in range(offsets.size - 1):
        a, b = slope[u], intercept[u]
        own = scores[offsets[u] : offsets[u + 1]]
        n = 0
        for i in range(own.size):
            if own[i] > -np.inf:
                n += 1
        out[u] = 0.0
        if n == 0 or not 0.0 < target[u] < n:
            continue
        low, high = -50.0, 50.0
        d = 0.0
        for _ in range(80):
            total = 0.0
            slope_sum = 0.0
            for i in range(own.size):
                if own[i] > -np.inf:
                    p = 1.0 / (1.0 + fast_exp(-(a * own[i] + b + d)))
                    total += p
                    slope_sum += p * (1.0 - p)
            gap = total - target[u]
            if abs(gap) <= 1e-12 * target[u]:
                break
            if gap > 0.0:
                high = d
            else:
                low = d
            d = d - gap / slope_sum if slope_sum > 0.0 else low - 1.0
            if not low < d < high:
                d = 0.5 * (low + high)
            if high - low < 1e-13:
                break
        out[u] = d
