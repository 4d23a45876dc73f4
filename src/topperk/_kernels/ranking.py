"""Blocks of scores: leave out what was seen, find what can not be used, take the best.

A block holds the candidates of several users in flat arrays: user u's are
``offsets[u]..offsets[u + 1]``. ``items`` names them in ascending order, or is empty where a block
holds every item and the position is the item (or where nobody has any candidate). A score of
minus infinity is no candidate.
"""

from __future__ import annotations

import numpy as np

from topperk._kernels.arrays import AnyFloatArray, FloatArray, IntArray, OffsetArray
from topperk._kernels.compiling import kernel
from topperk._kernels.views import part_of, row_of


@kernel
def longest_of(offsets: OffsetArray) -> int:
    """The most candidates that a user of the block has."""
    longest = 0
    for u in range(offsets.size - 1):
        longest = max(longest, offsets[u + 1] - offsets[u])
    return longest


@kernel
def place_of(item: int, items: IntArray) -> int:
    """Where ``items``, which ascend, hold the item: found by halving, or -1."""
    begin, end = 0, items.size
    while begin < end:
        middle = (begin + end) // 2
        if items[middle] < item:
            begin = middle + 1
        else:
            end = middle
    return begin if begin < items.size and items[begin] == item else -1


@kernel
def top_of(
    scores: FloatArray,
    top_scores: FloatArray,
    top_positions: IntArray,
) -> int:
    """The best candidates in order (equal scores: the earlier position first); returns how many.

    A heap of the best so far with the worst at its root: an item that does not beat the root
    costs one comparison.
    """
    capacity = top_scores.size
    size = 0
    for i in range(scores.size):
        s = scores[i]
        if s == -np.inf:
            continue
        if size < capacity:
            at = size
            size += 1
            while at > 0:
                parent = (at - 1) // 2
                if not s <= top_scores[parent]:
                    break
                top_scores[at] = top_scores[parent]
                top_positions[at] = top_positions[parent]
                at = parent
            top_scores[at] = s
            top_positions[at] = i
        elif capacity > 0 and s > top_scores[0]:
            top_scores[0], top_positions[0] = s, i
            _sift(top_scores, top_positions, capacity)
    for end in range(size - 1, 0, -1):
        top_scores[0], top_scores[end] = top_scores[end], top_scores[0]
        top_positions[0], top_positions[end] = top_positions[end], top_positions[0]
        _sift(top_scores, top_positions, end)
    return size


@kernel
def _sift(
    top_scores: FloatArray,
    top_positions: IntArray,
    size: int,
) -> None:
    """Let the root sink to its place. Worse is a smaller score, or a later position."""
    s, i = top_scores[0], top_positions[0]
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        other = child + 1
        if other < size and (
            top_scores[other] < top_scores[child]
            or (
                top_scores[other] == top_scores[child]
                and top_positions[other] > top_positions[child]
            )
        ):
            child = other
        if s < top_scores[child] or (s == top_scores[child] and i > top_positions[child]):
            break
        top_scores[at] = top_scores[child]
        top_positions[at] = top_positions[child]
        at = child
    top_scores[at] = s
    top_positions[at] = i


@kernel
def top_lists(
    scores: AnyFloatArray,
    offsets: OffsetArray,
    top_scores: AnyFloatArray,
    top_positions: IntArray,
) -> IntArray:
    """``top_of`` for every user of a block; returns each user's list length.

    Positions count from the user's own first candidate. What a list leaves empty is -1 and
    minus infinity.
    """
    # In float64, whatever the scores are: the rest is compiled for one type.
    room, best = np.empty(longest_of(offsets)), np.empty(top_positions.shape[1])
    lengths = np.empty(offsets.size - 1, dtype=np.int32)
    for u in range(offsets.size - 1):
        begin = offsets[u]
        own, places = part_of(room, 0, offsets[u + 1] - begin), row_of(top_positions, u)
        for i in range(own.size):
            own[i] = scores[begin + i]
        n = top_of(own, best, places)
        for r in range(best.size):
            top_scores[u, r] = best[r] if r < n else -np.inf
        for r in range(n, best.size):
            places[r] = -1
        lengths[u] = n
    return lengths


@kernel
def positions_of(
    items: IntArray,
    offsets: OffsetArray,
    rows: IntArray,
    part_offsets: OffsetArray,
    part_items: IntArray,
    item_of_part: IntArray,
    out: IntArray,
    out_offsets: OffsetArray,
) -> None:
    """Where a part's items (validation, test) stand among each user's own candidates.

    ``out`` needs room for all; ``out_offsets`` gets each user's share. Items that are not scored
    for the user are left out.
    """
    at = 0
    for u in range(rows.size):
        out_offsets[u] = at
        if rows[u] < 0 or offsets[u] == offsets[u + 1]:
            continue
        own = items[offsets[u] : offsets[u + 1]]
        for j in range(part_offsets[rows[u]], part_offsets[rows[u] + 1]):
            item = item_of_part[part_items[j]]
            if item < 0:
                continue
            place = place_of(item, own) if items.size > 0 else item
            if place >= 0:
                out[at] = place
                at += 1
    out_offsets[rows.size] = at
