"""exp for kernels' loops, which the compiler can vectorise.

The C library's exp is a call, and a loop with a call in it stays scalar. Here exp(x) is
``2**n * exp(r)`` with ``n = round(x / ln 2)`` and ``|r| <= ln(2) / 2``: a Taylor polynomial of
degree 11 in r (remainder below 1e-14 relative), and ``2**n`` made by writing n into the exponent
bits. ln 2 is taken off in two parts, the first short enough that its product with n is exact:
otherwise the rounding of x / ln 2 would grow with x. Relative error below 1e-14; beyond
[-707, 707] the argument is clamped, so the result is about 1e-307 or 1e307 and never zero,
infinite or NaN (a NaN argument gives a NaN).
"""

from __future__ import annotations

import numpy as np

from topperk._kernels.compiling import inlined_kernel

# ln 2 with its last 21 bits zero, and the rest (the split of fdlibm's exp).
LN2_FIRST = 0.693147180369123816490
LN2_REST = 1.90821492927058770002e-10


@inlined_kernel
def fast_exp(x: float) -> float:
    """exp(x), relative error below 1e-14 for x in [-707, 707] and clamped beyond."""
    x = min(max(x, -707.0), 707.0)
    n = np.floor(x * 1.4426950408889634 + 0.5)
    r = (x - n * LN2_FIRST) - n * LN2_REST
    q = 1.0 + r * (1.0 / 10.0) * (1.0 + r * (1.0 / 11.0))
    q = 1.0 + r * (1.0 / 8.0) * (1.0 + r * (1.0 / 9.0) * q)
    q = 1.0 + r * (1.0 / 6.0) * (1.0 + r * (1.0 / 7.0) * q)
    q = 1.0 + r * (1.0 / 4.0) * (1.0 + r * (1.0 / 5.0) * q)
    q = 1.0 + r * (1.0 / 2.0) * (1.0 + r * (1.0 / 3.0) * q)
    bits = (np.int64(n) + 1023) << 52
    return float((1.0 + r * q) * np.int64(bits).view(np.float64))
