"""exp for kernels' loops, which the compiler can vectorise.

The C library's exp is a call, and a loop with a call in it stays scalar. Here exp(x) is
``2**n * exp(r)`` with ``n = round(x / ln 2)`` and ``|r| <= ln(2) / 2``: a Taylor polynomial of
degree 11 in r (remainder below 1e-14 relative), and ``2**n`` made by writing n into the exponent
bits. Relative error below 1e-14 where the result is a normal number; beyond [-707, 707] the
argument is clamped, so the result is about 1e-307 or 1e307 and never zero, infinite or NaN
(a NaN argument gives a NaN).
"""

from __future__ import annotations

import numpy as np

from topperk._kernels.compiling import inlined_kernel


@inlined_kernel
def fast_exp(x: float) -> float:
    """exp(x), relative error below 1e-14 for x in [-707, 707] and clamped beyond."""
    y = min(max(x, -707.0), 707.0) * 1.4426950408889634
    n = np.floor(y + 0.5)
    r = (y - n) * 0.6931471805599453
    q = 1.0 + r * (1.0 / 10.0) * (1.0 + r * (1.0 / 11.0))
    q = 1.0 + r * (1.0 / 8.0) * (1.0 + r * (1.0 / 9.0) * q)
    q = 1.0 + r * (1.0 / 6.0) * (1.0 + r * (1.0 / 7.0) * q)
    q = 1.0 + r * (1.0 / 4.0) * (1.0 + r * (1.0 / 5.0) * q)
    q = 1.0 + r * (1.0 / 2.0) * (1.0 + r * (1.0 / 3.0) * q)
    bits = (np.int64(n) + 1023) << 52
    return float((1.0 + r * q) * np.int64(bits).view(np.float64))
