"""Which code an integer id has: a hash table in two arrays.

``slots`` (a power of two, at least twice as many as ids) holds codes, ``ids[code]`` the id of a
code, and -1 is an empty slot. An id is sought from the slot of its hash on until it, or an empty
slot, is met: one or two steps, whatever the ids are. Cost: 8 bytes for each id, and 4 for each
slot.
"""

from __future__ import annotations

import numpy as np

from topperk._kernels.arrays import IntArray, OffsetArray
from topperk._kernels.compiling import inlined_kernel, kernel


@inlined_kernel
def slot_of(one: int, ids: OffsetArray, slots: IntArray) -> int:
    """The slot that holds the code of this id, or the empty one where it would stand."""
    # The last steps of splitmix64, after which every bit of the id has moved the lowest ones.
    z = np.uint64(one)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    last = slots.size - 1
    at = int(z) & last
    while slots[at] >= 0 and ids[slots[at]] != one:
        at = (at + 1) & last
    return at


@kernel
def fill_slots(ids: OffsetArray, slots: IntArray) -> None:
    """Put the code of every id into ``slots``, which are empty."""
    for code in range(ids.size):
        slots[slot_of(ids[code], ids, slots)] = code


@kernel
def look_up(wanted: OffsetArray, ids: OffsetArray, slots: IntArray, codes: IntArray) -> None:
    """``codes``: that of each wanted id, or -1."""
    for i in range(wanted.size):
        codes[i] = slots[slot_of(wanted[i], ids, slots)]
