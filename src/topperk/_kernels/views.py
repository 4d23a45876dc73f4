"""Parts and rows of arrays that cost nothing to take.

numba counts who holds an array, also for every slice inside a kernel: two atomic steps each, which
in a loop over short pieces take longer than the pieces do. The views below are not counted. So they
may only be taken of an array that outlives them, as what a kernel was given does, and their bounds
are trusted. (Where kernels are compiled with NUMBA_BOUNDSCHECK=1, as by ``make bounds``, they are
looked at.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

A = TypeVar("A")


def _view(function: Callable[..., Any]) -> Callable[..., Any]:
    """An intrinsic, whose Python signature is not the one it is called with."""
    return cast(Callable[..., Any], intrinsic(function))


def _flat(array: Any, ndim: int) -> Any:
    """The type of a view of one dimension; None where it would not lie in one piece."""
    if not isinstance(array, types.Array) or array.ndim != ndim or array.layout != "C":
        return None
    return array.copy(ndim=1, layout="C")


def refuse_beyond(context: Any, builder: Any, begin: Any, end: Any, size: Any) -> None:
    """Where bounds are looked at, IndexError unless 0 <= begin <= end <= size."""
    if not context.enable_boundscheck:
        return
    nothing = context.get_constant(types.intp, 0)
    below = builder.icmp_signed("<", begin, nothing)
    turned = builder.icmp_signed("<", end, begin)
    beyond = builder.icmp_signed(">", end, size)
    with builder.if_then(builder.or_(below, builder.or_(turned, beyond)), likely=False):
        context.call_conv.return_user_exc(builder, IndexError, ("a view is out of bounds",))


def _borrowed(context: Any, builder: Any, kind: Any, data: Any, size: Any) -> Any:
    view = make_array(kind)(context, builder)
    bytes_each = context.get_constant(
        types.intp, context.get_abi_sizeof(context.get_data_type(kind.dtype))
    )
    populate_array(
        view,
        data=data,
        shape=cgutils.pack_array(builder, [size]),
        strides=cgutils.pack_array(builder, [bytes_each]),
        itemsize=bytes_each,
        meminfo=None,
    )
    return view._getvalue()


@_view
def part_of(typing_context: Any, array: Any, begin: Any, end: Any) -> Any:
    """``array[begin:end]`` for 0 <= begin <= end <= array.size."""
    kind = _flat(array, 1)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = make_array(signature.args[0])(context, builder, arguments[0])
        begin, end = arguments[1:]
        refuse_beyond(context, builder, begin, end, cgutils.unpack_tuple(builder, whole.shape)[0])
        data = builder.gep(whole.data, [begin])
        return _borrowed(context, builder, kind, data, builder.sub(end, begin))

    return (kind(array, types.intp, types.intp), generate) if kind else None


@_view
def row_of(typing_context: Any, matrix: Any, row: Any) -> Any:
    """``matrix[row]`` for 0 <= row < the number of rows."""
    kind = _flat(matrix, 2)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole = make_array(signature.args[0])(context, builder, arguments[0])
        n_rows, size = cgutils.unpack_tuple(builder, whole.shape)
        refuse_beyond(
            context, builder, arguments[1], arguments[1], builder.sub(n_rows, n_rows.type(1))
        )
        data = builder.gep(whole.data, [builder.mul(arguments[1], size)])
        return _borrowed(context, builder, kind, data, size)

    return (kind(matrix, types.intp), generate) if kind else None
