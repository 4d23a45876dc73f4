"""The one place that says how kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile at first call, without the interpreter's lock, and keep the machine code on disk."""
    return _compiled(function, fastmath=False)


def lane_kernel(function: F) -> F:
    """As ``kernel``, for loops whose sums may be taken in any order: see ``lanes``."""
    return _compiled(function, fastmath={"nnan", "nsz", "reassoc", "contract"})


def inlined_kernel(function: F) -> F:
    """A small kernel that LLVM copies into its callers, with the arithmetic that is its own.

    A product and the sum that takes it may become one instruction (and are then rounded once);
    nothing changes its order, whatever its caller permits.
    """
    compile_it = partial(njit, nogil=True, error_model="numpy", fastmath={"contract"})
    return cast(F, compile_it(forceinline=True)(function))


def _compiled(function: F, fastmath: bool | set[str]) -> F:
    # Where no cache folder can be made (a read-only image without a home), numba refuses at
    # decoration time; the kernel then works all the same and is compiled once per process.
    compile_it = partial(njit, nogil=True, error_model="numpy", fastmath=fastmath)
    try:
        return cast(F, compile_it(cache=True)(function))
    except RuntimeError:
        return cast(F, compile_it()(function))
