"""Lists from scores in single precision, which are looked at once and need not be there again."""

from __future__ import annotations

import numpy as np

from topperk._kernels.arrays import AnyFloatArray, FloatArray, IntArray, OffsetArray
from topperk._kernels.counting import ROOM as OVERHANG
from topperk._kernels.fused import conclude_users, scan_users
from topperk._kernels.lanes import MASKED
from topperk._kernels.scanning import LANE_SUMS, LEAST
from topperk._outcomes import Lists
from topperk._utility_tables import UtilityTables
from topperk.calibration import ODDS_CAP, Parameters

# How many scores of a user there is room for, besides two for each rank: those that may be in the
# list, and those of the head (see _kernels.fused).
NEAR = 1024
# How many relevant items a user may have to be served. Rows that nobody needs are not read.
LANE_ROWS = 1024
NOTHING_SEEN = np.empty(0, dtype=np.int32)


def bytes_per_user(max_k: int, longest: int) -> int:
    """What a scan and its conclusion take for a user with so many candidates, and a little more."""
    return 8 * (min(NEAR + 2 * max_k, longest) + MASKED) + 48 * (max_k + 16)


class Room:
    """The large arrays of a scan, for so many users; one scan after another may use them."""

    def __init__(self, max_k: int, n_users: int, longest: int) -> None:
        width = min(NEAR + 2 * max_k, longest) + MASKED
        self.n_users = n_users
        self.near_scores = np.empty((n_users, width), dtype=np.float32)
        self.near = np.empty((n_users, width), dtype=np.int32)
        self.scratch = np.empty((3, max(width, longest) + OVERHANG))


class Scan:
    """What is kept of some users while their scores go by: a few sums, and what may still matter.

    ``room`` is for these users or more, and nobody else's meanwhile.
    """

    def __init__(
        self, tables: UtilityTables, parameters: Parameters, n_users: int, room: Room
    ) -> None:
        self.tables = tables
        self.whole = not tables.utility.counts_all_relevant
        self.parameters = parameters
        self.near_scores, self.near = room.near_scores[:n_users], room.near[:n_users]
        self.scratch = room.scratch
        self.heads = np.empty(n_users, dtype=np.float32)
        self.thresholds = np.full(n_users, LEAST)
        self.sizes = np.zeros(n_users, dtype=np.int64)
        self.sums = np.zeros((n_users, LANE_SUMS + 1))

    def add(
        self,
        scores: AnyFloatArray,
        offsets: OffsetArray,
        begin: int = 0,
        seen: tuple[OffsetArray, IntArray, OffsetArray] | None = None,
    ) -> None:
        """Look at scores, user u's at ``offsets[u]..offsets[u + 1]``, from position ``begin`` on.

        ``seen``: where each user's seen positions end, the positions, and how far they were met.
        """
        if seen is None:
            nowhere = np.zeros(self.sizes.size, dtype=np.int64)
            seen = nowhere, NOTHING_SEEN, nowhere
        slope, intercept, ratio, odds = self.parameters
        scan_users(
            scores,
            offsets,
            begin,
            *seen,
            slope,
            intercept,
            ratio,
            odds,
            self.whole,
            self.tables.max_k,
            self.heads,
            self.thresholds,
            self.sizes,
            self.near_scores,
            self.near,
            self.sums,
        )

    def conclude(self, n_items: OffsetArray) -> tuple[Lists, FloatArray, FloatArray]:
        """Lists, their probabilities and curves, of users with so many candidates.

        A list has the length -1 where it takes double precision to make it.
        """
        n, max_k, tables = self.sizes.size, self.tables.max_k, self.tables
        # As many rows for everybody: the tables may have grown for somebody else, before or in
        # another thread, and who is served here would depend on that.
        n_rows = 2 if self.whole else LANE_ROWS
        lists = Lists.room(n, max_k, np.float32)
        ranked, curves = np.empty((n, max_k)), np.empty((n, max_k + 1))
        conclude_users(
            *self.parameters,
            ODDS_CAP,
            tables.discount,
            tables.penalty,
            tables.table(n_rows)[:n_rows],
            self.whole,
            n_items,
            self.heads,
            self.sizes,
            self.near_scores,
            self.near,
            self.sums,
            self.scratch,
            lists.scores,
            lists.positions,
            lists.lengths,
            ranked,
            curves,
        )
        return lists, ranked, curves
