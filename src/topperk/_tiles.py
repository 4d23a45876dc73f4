"""Personal lists of users whose scores are a matrix product, a few thousand items at a time.

A large catalogue's scores are more than a processor keeps near itself: written out for a block of
users and read again, they take as long as the product. So the product is computed for ``TILE``
items of a block of users, scanned while it is near (``_scan``), and forgotten. Whoever is not
served by single precision is done by the block, as with any other source.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import local

import numpy as np

from topperk._blocks import Alignment, Part, block_of
from topperk._kernels.arrays import AnyFloatArray, FloatArray, IntArray, OffsetArray
from topperk._outcomes import Lists, top_of_block
from topperk._policies import Decision, PersonalPolicy, Policy, put
from topperk._scan import Room, Scan, bytes_per_user
from topperk.calibration import PlattCalibration
from topperk.scores import Factors, ScoreSource

# A product with so many items takes no longer than with all of them (benchmarks/bench_lists.py),
# and the 2 MB that it makes for 256 users are still near when they are scanned.
TILE = 2048


@dataclass(frozen=True, eq=False)
class Known:
    """What each of the reference's users has seen, in the codes of a source, ascending."""

    offsets: OffsetArray
    items: IntArray

    @staticmethod
    def to(alignment: Alignment, part: Part) -> Known:
        """The items of ``part`` that the source has."""
        offsets, items, codes = part.offsets, part.items, alignment.items
        if not np.array_equal(codes, np.arange(codes.size, dtype=codes.dtype)):
            counts = np.diff(np.concatenate([[0], np.cumsum(codes[items] >= 0)])[offsets])
            offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
            items = codes[items]
            items = items[items >= 0]
        # Where nothing begins anew, a smaller code after a larger one is out of order.
        falls = np.diff(items) < 0
        begins = offsets[1:-1]
        falls[begins[(begins > 0) & (begins < items.size)] - 1] = False
        if falls.any():
            owner = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
            items = items[np.lexsort((items, owner))]
        return Known(offsets, items)


@dataclass(frozen=True, eq=False)
class Tiles:
    """One model's lists for one source of factors in single precision."""

    policy: PersonalPolicy
    calibration: PlattCalibration
    source: Factors
    alignment: Alignment
    seen: Part
    known: Known
    _worker: local = field(default_factory=local, repr=False)

    @staticmethod
    def of(policy: Policy, source: ScoreSource, alignment: Alignment, seen: Part) -> Tiles | None:
        """None where lists are not to be made in this way."""
        if isinstance(policy, PersonalPolicy) and isinstance(source, Factors):
            calibration = policy.fused
            if calibration is not None and source.item_vectors.dtype == np.float32:
                known = Known.to(alignment, seen)
                return Tiles(policy, calibration, source, alignment, seen, known)
        return None

    @property
    def bytes_per_user(self) -> int:
        """The memory that a block takes for each of its users."""
        return 4 * TILE + bytes_per_user(self.policy.max_k, self.source.ids.n_items)

    def decide(self, users: IntArray, rows: IntArray, most: int) -> Decision:
        """Lists, curves and lengths of these users.

        Whoever is not served is scored again, ``most`` of them at a time.
        """
        lists, ranked, curves = self._lists(users, rows)
        rest = np.flatnonzero(lists.lengths < 0).astype(np.int32)
        for begin in range(0, rest.size, most):
            some = rest[begin : begin + most]
            block, their_rows = block_of(self.source, users[some], self.alignment, [self.seen])
            top = top_of_block(block, self.policy.max_k)
            put(lists, ranked, curves, some, self.policy.in_double(block, their_rows, top))
        return self.policy.decision(lists, rows, curves, ranked)

    def _of_this_worker(self, n_users: int) -> tuple[Room, AnyFloatArray]:
        """Room for a scan of so many users, and for a tile: made once for each thread."""
        kept: tuple[Room, AnyFloatArray] | None = getattr(self._worker, "kept", None)
        if kept is None or kept[0].n_users < n_users:
            n_items = self.source.ids.n_items
            room = Room(self.policy.max_k, n_users, n_items)
            kept = room, np.empty(n_users * min(TILE, n_items), dtype=np.float32)
            self._worker.kept = kept
        return kept

    def _lists(self, users: IntArray, rows: IntArray) -> tuple[Lists, FloatArray, FloatArray]:
        """Lists, their probabilities and curves; the length -1 where they could not be made."""
        n, n_items, known = users.size, self.source.ids.n_items, self.known
        room, tile = self._of_this_worker(n)
        scan = Scan(self.policy.tables, self.calibration.parameters_of(rows), n, room)
        ends = np.where(rows >= 0, known.offsets[rows + 1], 0)
        seen = ends, known.items, np.where(rows >= 0, known.offsets[rows], 0)
        for begin in range(0, n_items, TILE):
            width = min(TILE, n_items - begin)
            scores = tile[: n * width]
            self.source.tile(users, begin, scores.reshape(n, width))
            scan.add(scores, np.arange(n + 1, dtype=np.int64) * width, begin, seen)
        return scan.conclude(np.full(n, n_items, dtype=np.int64))
