"""One user's candidates, as they came, put in the order of their codes."""

from __future__ import annotations

import numpy as np

from topperk._kernels.arrays import FloatArray, IntArray, OffsetArray
from topperk._kernels.compiling import kernel

DIGIT = 8
DIGITS = 1 << DIGIT

DONE, REPEATED, UNUSABLE = 0, 1, 2


@kernel
def ascending(codes: IntArray, order: IntArray) -> None:
    """``order``: the places of ``codes`` (not negative) from the smallest on; equal ones stay.

    A sort by digits, whose time does not depend on how the codes are mixed. Cost: two passes over
    the codes for each digit of the largest.
    """
    largest = 0
    for i in range(codes.size):
        order[i] = i
        largest = max(largest, codes[i])
    other = np.empty(codes.size, dtype=np.int32)
    begins = np.empty(DIGITS + 1, dtype=np.int32)
    source, target = order, other
    shift = 0
    while largest >> shift > 0:
        begins[:] = 0
        for i in range(codes.size):
            begins[((codes[i] >> shift) & (DIGITS - 1)) + 1] += 1
        for digit in range(DIGITS):
            begins[digit + 1] += begins[digit]
        for i in range(codes.size):
            digit = (codes[source[i]] >> shift) & (DIGITS - 1)
            target[begins[digit]] = source[i]
            begins[digit] += 1
        source, target = target, source
        shift += DIGIT
    for i in range(codes.size):
        order[i] = source[i]


@kernel
def arrange(
    codes: IntArray,
    scores: FloatArray,
    row: int,
    seen_offsets: OffsetArray,
    seen_items: IntArray,
    n_items: int,
    order: IntArray,
    items: IntArray,
    own: FloatArray,
) -> tuple[int, int]:
    """Fill ``items`` and ``own`` with the codes in ascending order and their scores.

    Codes of -1 are unknown items: they get codes from ``n_items`` on, in the order in which they
    came. ``order``: the place where each came from. What user ``row`` has seen (-1: nothing) is
    minus infinity. Returns DONE, or REPEATED with the place of a code that was there before, or
    UNUSABLE with that of a NaN or plus infinity. Cost: besides the sort, one pass over the
    candidates and one over what was seen (which ascends; more passes if it does not).
    """
    unknown = n_items
    for i in range(codes.size):
        if not scores[i] < np.inf:
            return UNUSABLE, i
        if codes[i] < 0:
            items[i] = unknown
            unknown += 1
        else:
            items[i] = codes[i]
    ascending(items, order)
    for i in range(codes.size):
        own[i] = scores[order[i]]
    for i in range(unknown - n_items):
        items[codes.size - 1 - i] = unknown - 1 - i
    for i in range(codes.size - (unknown - n_items)):
        items[i] = codes[order[i]]
        if i > 0 and items[i] == items[i - 1]:
            return REPEATED, order[i]
    if row < 0:
        return DONE, -1
    at, before = 0, -1
    for j in range(seen_offsets[row], seen_offsets[row + 1]):
        item = seen_items[j]
        if item < before:
            at = 0
        before = item
        while at < codes.size and items[at] < item:
            at += 1
        if at < codes.size and items[at] == item:
            own[at] = -np.inf
    return DONE, -1
