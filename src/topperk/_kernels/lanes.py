"""What a loop over scores is written in, so that the compiler puts eight or sixteen into one step.

LLVM turns a loop into vector code only if each step is free of calls and branches, and a sum or a
largest value is a reduction to it only if the terms may be taken in any order. So ``lane_kernel``
gives that permission for the arithmetic that stands in the loop itself (``inlined_kernel``s that it
calls keep theirs), and the functions below choose between two values without a branch. A NaN has no
meaning in such a loop: scores are looked at before (``_score_checks.check_usable``), or what the
loop says of them is thrown away (``scanning.gather`` finds what is NaN).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array

from topperk._kernels.views import refuse_beyond

_FLAGS = ("nnan", "nsz")
# Bits of the whole type, of its fraction, and the exponent's bias.
_LAYOUT = {types.float32: (32, 23, 127), types.float64: (64, 52, 1023)}
_INDEX = ir.IntType(32)
# How many values ``not_less`` looks at: one bit of an int64 each.
MASKED = 64


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


@_generated
def scaled_by_two_to(typing_context: Any, x: Any, n: Any) -> Any:
    """Multiply x by 2**n for a whole n; both x and the result must be normal numbers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits, fraction, _ = _LAYOUT[signature.return_type]
        whole = builder.fptosi(arguments[1], ir.IntType(bits))
        shifted = builder.shl(whole, ir.Constant(whole.type, fraction))
        scaled = builder.add(builder.bitcast(arguments[0], whole.type), shifted)
        return builder.bitcast(scaled, arguments[0].type)

    return (x(x, n), generate) if x == n and x in _LAYOUT else None


@_generated
def not_less(typing_context: Any, values: Any, begin: Any, limit: Any) -> Any:
    """Bit i is set where ``values[begin + i]`` is not below ``limit`` (or NaN), for MASKED values.

    All of them must be there.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = make_array(signature.args[0])(context, builder, arguments[0])
        begin, size = arguments[1], cgutils.unpack_tuple(builder, array.shape)[0]
        refuse_beyond(context, builder, begin, builder.add(begin, begin.type(MASKED)), size)
        kind = ir.VectorType(arguments[2].type, MASKED)
        place = builder.gep(array.data, [begin])
        pointer = builder.bitcast(place, kind.as_pointer())
        some = builder.load(pointer, align=_LAYOUT[signature.args[2]][0] // 8)
        nothing = ir.Constant(kind, ir.Undefined)
        one = builder.insert_element(nothing, arguments[2], ir.Constant(_INDEX, 0))
        lanes = ir.Constant(ir.VectorType(_INDEX, MASKED), [0] * MASKED)
        limits = builder.shuffle_vector(one, nothing, lanes)
        return builder.bitcast(builder.fcmp_unordered(">=", some, limits), ir.IntType(MASKED))

    fits = isinstance(values, types.Array) and values.ndim == 1 and values.layout == "C"
    if fits and values.dtype == limit and limit in _LAYOUT:
        return types.int64(values, types.intp, limit), generate
    return None


@_generated
def lowest_bit(typing_context: Any, mask: Any) -> Any:
    """The place of the lowest bit that is set in a mask that is not 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return (types.int64(types.int64), generate) if mask == types.int64 else None
