"""Student's t distribution and Holm's correction: what paired tests need, without scipy."""

from __future__ import annotations

import math

import numpy as np

from topperk._kernels.arrays import FloatArray

_TINY = 1e-300
_MOST_TERMS = 10_000


def beta_regularised(x: float, a: float, b: float) -> float:
    """I_x(a, b), the regularised incomplete beta function, by its continued fraction.

    Lentz's evaluation of DLMF 8.17.22, on the side of the mean where it converges in some
    sqrt(max(a, b)) terms; relative error below 1e-9 for a, b up to 1e5 (lgamma sets it).
    """
    if x <= 0.0 or x >= 1.0:
        return float(x >= 1.0)
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - beta_regularised(1.0 - x, b, a)
    log_front = a * math.log(x) + b * math.log1p(-x) - math.log(a)
    log_front += math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    fraction = c = 1.0
    d = 0.0
    for n in range(_MOST_TERMS):
        m = n // 2
        if n == 0:
            term = 1.0
        elif n % 2 == 0:
            term = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        else:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        d = 1.0 / _not_zero(1.0 + term * d)
        c = _not_zero(1.0 + term / c)
        fraction *= c * d
        if abs(1.0 - c * d) < 1e-15:
            break
    return math.exp(log_front) * (fraction - 1.0)


def two_sided_p(t: float, degrees: float) -> float:
    """P(|T| >= |t|) of Student's t with that many degrees of freedom; NaN gives NaN."""
    if math.isnan(t):
        return math.nan
    if math.isinf(t):
        return 0.0
    square = t * t
    if square < degrees:  # near 1, where the complement keeps its digits
        return 1.0 - beta_regularised(square / (degrees + square), 0.5, 0.5 * degrees)
    return beta_regularised(degrees / (degrees + square), 0.5 * degrees, 0.5)


def two_sided_quantile(confidence: float, degrees: float) -> float:
    """The t with P(|T| <= t) = confidence, by bisection."""
    low, high = 0.0, 1.0
    while two_sided_p(high, degrees) > 1.0 - confidence:
        high *= 2.0
    while high - low > 1e-13 * high:
        middle = 0.5 * (low + high)
        if two_sided_p(middle, degrees) > 1.0 - confidence:
            low = middle
        else:
            high = middle
    return high


def holm(p: FloatArray) -> FloatArray:
    """Holm's step-down correction of several p-values; NaN stays NaN and does not count.

    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    adjusted = np.full(p.size, np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    steps = (order.size - np.arange(order.size)) * p[order]
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
