"""What Newton's method for a logistic regression asks of a user's scores: sums over all of them.

With y = (s - centre) / scale and p = sigmoid(a y + b), w = p (1 - p): the sums of log(1 + e^z), p,
p y, w, w y and w y^2. In double precision they cost an exponential and a division for each score;
in single precision a third of that, for steps whose result the next step improves upon anyway.
"""

from __future__ import annotations

import math

import numpy as np

from topperk._kernels.arrays import AnyFloatArray, FloatArray
from topperk._kernels.compiling import kernel, lane_kernel
from topperk._kernels.exponential import LOG2_E, fast_exp, fast_exp2_single, straight
from topperk._kernels.lanes import larger, where_less
from topperk._kernels.views import part_of

# log(1 + e) is gathered as a product of so many factors up to 2, and takes one logarithm.
MULTIPLIED_TOGETHER = 512
SUMMED_TOGETHER = 1024
ZERO, ONE, MOST = np.float32(0.0), np.float32(1.0), np.float32(125.0)


@kernel
def compacted(scores: AnyFloatArray, x: FloatArray) -> int:
    """Copy the candidates (scores above minus infinity) to where ``x`` begins; return how many.

    ``x`` needs room for all scores.
    """
    n = 0
    for i in range(scores.size):
        x[n] = scores[i]
        n += scores[i] > -np.inf
    return n


@lane_kernel
def spread_of(x: FloatArray) -> tuple[float, float, float, float]:
    """The sums of x - x[0] and of its square, the least and the greatest of some scores."""
    total = 0.0
    squares = 0.0
    first = x[0]
    least, greatest = first, first
    for i in range(x.size):
        value = x[i]
        d = value - first
        total += d
        squares += d * d
        greatest = larger(value, greatest)
        least = where_less(value, least, value, least)
    return total, squares, least, greatest


@kernel
def centre_and_scale(x: FloatArray) -> tuple[float, float]:
    """Mean and standard deviation, the latter 1 where all values are equal to rounding."""
    total, squares, least, greatest = spread_of(x)
    mean = total / x.size
    scale = math.sqrt(max(0.0, squares / x.size - mean * mean))
    if not scale > 1e-12 * max(abs(least), abs(greatest)):
        scale = 1.0
    return x[0] + mean, scale


@lane_kernel
def sums_double(
    x: FloatArray, centre: float, scale: float, a: float, b: float
) -> tuple[float, float, float, float, float, float]:
    """The sums of log(1 + e^z), p, p y, w, w y, w y^2."""
    log_sum = 0.0
    p_sum = 0.0
    py_sum = 0.0
    w_sum = 0.0
    wy_sum = 0.0
    wyy_sum = 0.0
    unit = 1.0 / scale
    for begin in range(0, x.size, MULTIPLIED_TOGETHER):
        part = part_of(x, begin, min(x.size, begin + MULTIPLIED_TOGETHER))
        product = 1.0
        for i in range(part.size):
            y = (part[i] - centre) * unit
            z = a * y + b
            positive = larger(z, 0.0)
            e = fast_exp(z - 2.0 * positive)
            big = 1.0 / (1.0 + e)
            small = e * big
            p = where_less(0.0, z, big, small)
            w = big * small
            product *= 1.0 + e
            log_sum += positive
            p_sum += p
            py_sum += p * y
            w_sum += w
            wy_sum += w * y
            wyy_sum += w * y * y
        log_sum += math.log(product)
    return log_sum, p_sum, py_sum, w_sum, wy_sum, wyy_sum


@lane_kernel
def sums_in_lanes(
    d: AnyFloatArray, slope: np.float32, slope_rest: np.float32, intercept: np.float32
) -> tuple[float, float, float, float, float]:
    """The sums of p, p d, w, w d, w d^2; the odds are 2**(slope d + intercept)."""
    p_sum = 0.0
    pd_sum = 0.0
    w_sum = 0.0
    wd_sum = 0.0
    wdd_sum = 0.0
    for begin in range(0, d.size, SUMMED_TOGETHER):
        part = part_of(d, begin, min(d.size, begin + SUMMED_TOGETHER))
        r1 = r2 = r3 = r4 = r5 = ZERO
        for i in range(part.size):
            own = part[i]
            t = straight(own, slope, slope_rest, intercept)
            e = fast_exp2_single(where_less(t, MOST, t, MOST))
            q = ONE / (ONE + e)
            p = e * q
            w = p * q
            r1 += p
            r2 += p * own
            r3 += w
            r4 += w * own
            r5 += w * own * own
        p_sum += np.float64(r1)
        pd_sum += np.float64(r2)
        w_sum += np.float64(r3)
        wd_sum += np.float64(r4)
        wdd_sum += np.float64(r5)
    return p_sum, pd_sum, w_sum, wd_sum, wdd_sum


@kernel
def sums_single(
    d: AnyFloatArray, scale: float, a: float, b: float
) -> tuple[float, float, float, float, float]:
    """The sums of p, p y, w, w y, w y^2, y = d / scale, to about 1e-6 of themselves."""
    slope = np.float32(a / scale * LOG2_E)
    rest = np.float32(a / scale * LOG2_E - slope)
    p, pd, w, wd, wdd = sums_in_lanes(d, slope, rest, np.float32(b * LOG2_E))
    return p, pd / scale, w, wd / scale, wdd / scale**2
