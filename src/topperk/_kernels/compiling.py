"""The one place that says how kernels are compiled.

What makes the first compilation long, and is therefore avoided in kernels:

- A kernel is compiled anew for each type of its arguments, and an int32, an int64 and a constant
  are three. What is handed to another kernel is of one type in all calls.
- Assigning an array to a slice compiles the text of the error for shapes that differ: more than a
  second once, and some tenths in each kernel that does it. A loop copies as fast.
- ``sum``, ``zeros``, ``searchsorted`` and the like bring functions of their own along.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit

from topperk._kernels.keeping import keep

F = TypeVar("F", bound=Callable[..., Any])

# A first value for what is handed to another kernel: the constant 0 would be a type of its own.
NOUGHT = cast(int, np.int64(0))

# No kernel is called through a C pointer: the wrapper for that is left out.
_plain = partial(njit, nogil=True, error_model="numpy", no_cfunc_wrapper=True)


def kernel(function: F) -> F:
    """Compile at first call, without the interpreter's lock, and keep the machine code on disk."""
    return cast(F, keep(_plain(fastmath=False)(function)))


def lane_kernel(function: F) -> F:
    """As ``kernel``, for loops whose sums may be taken in any order: see ``lanes``."""
    return cast(F, keep(_plain(fastmath={"nnan", "nsz", "reassoc", "contract"})(function)))


def inlined_kernel(function: F) -> F:
    """A small kernel that LLVM copies into its callers, with the arithmetic that is its own.

    A product and the sum that takes it may become one instruction (and are then rounded once);
    nothing changes its order, whatever its caller permits.
    """
    return cast(F, _plain(fastmath={"contract"}, forceinline=True)(function))
