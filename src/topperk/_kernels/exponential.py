"""exp for kernels' loops, which the compiler can vectorise.

The C library's exp is a call, and a loop with a call in it stays scalar. Here exp(x) is
``2**n * exp(r)`` with ``n = round(x / ln 2)`` and ``|r| <= ln(2) / 2``: a polynomial in r, and
``2**n`` made by writing n into the exponent bits.
"""

from __future__ import annotations

import numpy as np

from topperk._kernels.compiling import inlined_kernel
from topperk._kernels.lanes import floor_of, nearest_of, scaled_by_two_to, two_to, where_less

# ln 2 with its last 21 bits zero, and the rest (the split of fdlibm's exp).
LN2_FIRST = 0.693147180369123816490
LN2_REST = 1.90821492927058770002e-10
C10, C11 = 1.0 / 3628800.0, 1.0 / 39916800.0
LOG2_E = 1.4426950408889634
# 2**r for |r| <= 1/2 in float32: the polynomial of degree 5 whose largest relative error is least
# (7.5e-8, found by Remez' exchange; float32 itself rounds by 6e-8).
E0, E1, E2 = np.float32(1.00000007), np.float32(0.69314697), np.float32(0.24022120)
E3, E4, E5 = np.float32(0.055507133), np.float32(0.0096755413), np.float32(0.0013276472)
LEAST = np.float32(-125.0)


@inlined_kernel
def fast_exp(x: float) -> float:
    """exp(x), relative error below 1e-14 for x in [-707, 707] and clamped beyond.

    Degree 11 (remainder below 1e-14 relative). ln 2 is taken off in two parts, the first short
    enough that its product with n is exact: otherwise the rounding of x / ln 2 would grow with x.
    Beyond the ends the result is about 1e-307 or 1e307, never zero or infinite.
    """
    x = where_less(x, -707.0, -707.0, where_less(707.0, x, 707.0, x))
    n = floor_of(x * LOG2_E + 0.5)
    r = (x - n * LN2_FIRST) - n * LN2_REST
    q = 1.0 / 5040.0 + r * (1.0 / 40320.0 + r * (1.0 / 362880.0 + r * (C10 + r * C11)))
    q = 0.5 + r * (1.0 / 6.0 + r * (1.0 / 24.0 + r * (1.0 / 120.0 + r * (1.0 / 720.0 + r * q))))
    result: float = (1.0 + r * (1.0 + r * q)) * two_to(n)
    return result


@inlined_kernel
def fast_exp2_single(t: np.float32) -> np.float32:
    """2**t in float32 for t from -125 to 127, and 2**-125 below (and of NaN); error below 4e-7."""
    t = where_less(LEAST, t, t, LEAST)
    n = nearest_of(t)
    r = t - n
    power = E0 + r * (E1 + r * (E2 + r * (E3 + r * (E4 + r * E5))))
    result: np.float32 = scaled_by_two_to(power, n)
    return result


@inlined_kernel
def straight(
    d: np.float32, slope: np.float32, slope_rest: np.float32, intercept: np.float32
) -> np.float32:
    """``slope d + intercept``; lanes of any order would put the two parts of the slope together."""
    result: np.float32 = slope * d + (slope_rest * d + intercept)
    return result
