"""The scores of some users, as every source gives them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from topperk._kernels.arrays import AnyFloatArray, IntArray, OffsetArray

EVERY_ITEM = np.empty(0, dtype=np.int32)


@dataclass(frozen=True, eq=False)
class ScoreBlock:
    """The candidates of some users, flat: user j's are ``offsets[j]..offsets[j + 1]``.

    ``items`` holds item codes, ascending within a user, or is empty where every user's candidates
    are all items in the order of their codes. ``scores`` belongs to the block: whoever receives it
    may write into it.
    """

    users: IntArray
    scores: AnyFloatArray
    offsets: OffsetArray
    items: IntArray

    def __repr__(self) -> str:
        """The sizes."""
        return f"ScoreBlock({self.users.size} users, {self.scores.size} scores)"

    @staticmethod
    def of_rows(users: IntArray, rows: AnyFloatArray) -> ScoreBlock:
        """A block that holds every item, from an (n_users, n_items) array of its own."""
        n, n_items = rows.shape
        offsets = np.arange(n + 1, dtype=np.int64) * n_items
        return ScoreBlock(users, np.ascontiguousarray(rows).reshape(-1), offsets, EVERY_ITEM)

    def of_some(self, places: IntArray) -> ScoreBlock:
        """The candidates of the users at these places, as a block of their own."""
        flat, offsets = ranges(self.offsets, places)
        items = self.items[flat] if self.items.size else self.items
        return ScoreBlock(self.users[places], self.scores[flat], offsets, items)

    def items_at(self, positions: IntArray) -> IntArray:
        """Item codes of positions in each user's own part, a row per user; -1 stays."""
        if self.items.size == 0:
            return positions
        flat = self.offsets[:-1, None] + np.maximum(positions, 0)
        return np.where(
            positions < 0, np.int32(-1), self.items[np.minimum(flat, self.items.size - 1)]
        )


def ranges(offsets: OffsetArray, places: IntArray) -> tuple[OffsetArray, OffsetArray]:
    """The entries ``offsets[n]..offsets[n + 1]`` of each place n, and the offsets that they get."""
    counts = offsets[places + 1] - offsets[places]
    own = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return np.arange(own[-1]) + np.repeat(offsets[places] - own[:-1], counts), own
