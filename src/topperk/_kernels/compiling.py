"""The one place that says how kernels are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile at first call, without the interpreter's lock, and keep the machine code on disk.

    Where no cache folder can be made (a read-only image without a home), numba refuses at
    decoration time; the kernel then works all the same and is compiled once per process.
    """
    try:
        return cast(F, njit(nogil=True, cache=True, error_model="numpy")(function))
    except RuntimeError:
        return cast(F, njit(nogil=True, error_model="numpy")(function))


def inlined_kernel(function: F) -> F:
    """A small kernel that is copied into its callers, so that their loops can vectorise."""
    return cast(F, njit(nogil=True, inline="always", error_model="numpy")(function))
