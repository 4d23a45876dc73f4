"""What a loop over scores is written in, so that the compiler puts eight or sixteen into one step.

LLVM turns a loop into vector code only if each step is free of calls and branches, and a sum or a
largest value is a reduction to it only if the terms may be taken in any order. So ``lane_kernel``
gives that permission for the arithmetic that stands in the loop itself (``inlined_kernel``s that it
calls keep theirs), and the functions below choose between two values without a branch. A NaN has no
meaning in such a loop: scores are looked at before (``ranking.first_invalid``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

_FLAGS = ("nnan", "nsz")
# Bits of the whole type, of its fraction, and the exponent's bias.
_LAYOUT = {types.float32: (32, 23, 127), types.float64: (64, 52, 1023)}


def _generated(function: Callable[..., Any]) -> Callable[..., Any]:
    """An intrinsic, whose Python signature is not the one it is called with."""
    return cast(Callable[..., Any], intrinsic(function))


@_generated
def larger(typing_context: Any, x: Any, y: Any) -> Any:
    """The larger of two numbers of one type, as a reduction needs it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        chosen = builder.fcmp_ordered(">", *arguments, flags=_FLAGS)
        return builder.select(chosen, *arguments, flags=_FLAGS)

    return (x(x, x), generate) if x == y and x in _LAYOUT else None


@_generated
def where_less(typing_context: Any, x: Any, y: Any, yes: Any, no: Any) -> Any:
    """``yes`` where x < y, and ``no`` elsewhere."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        x, y, yes, no = arguments
        return builder.select(builder.fcmp_ordered("<", x, y), yes, no)

    return (x(x, x, x, x), generate) if x == y == yes == no and x in _LAYOUT else None


def _of_one(name: str, x: Any) -> Any:
    """LLVM's own function of one number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = arguments[0].type
        return builder.call(builder.module.declare_intrinsic(name, [kind]), arguments)

    return (x(x), generate) if x in _LAYOUT else None


@_generated
def floor_of(typing_context: Any, x: Any) -> Any:
    """The largest whole number up to x."""
    return _of_one("llvm.floor", x)


@_generated
def nearest_of(typing_context: Any, x: Any) -> Any:
    """The nearest whole number."""
    return _of_one("llvm.rint", x)


@_generated
def two_to(typing_context: Any, n: Any) -> Any:
    """2**n for a whole n within the range of its type, written into the exponent's bits."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits, fraction, bias = _LAYOUT[signature.return_type]
        whole = builder.fptosi(arguments[0], ir.IntType(bits))
        exponent = builder.add(whole, ir.Constant(whole.type, bias))
        shifted = builder.shl(exponent, ir.Constant(whole.type, fraction))
        return builder.bitcast(shifted, arguments[0].type)

    return (n(n), generate) if n in _LAYOUT else None
