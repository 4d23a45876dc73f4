"""A utility's three functions as arrays, and the curves of a block computed from them."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from topperk._kernels.arrays import FloatArray, IntArray, OffsetArray
from topperk._kernels.curves import curves_exact, curves_paper
from topperk.errors import SettingError

if TYPE_CHECKING:
    from topperk.utility import Utility

Method: TypeAlias = Literal["exact", "paper"]
# The table h(m, k) begins with this many counts and doubles as users need more.
FIRST_ROWS = 256
# Single calls share the tables of this many utilities and lengths, of so many bytes at most. That
# is a utility's table for lists of 50 and some thousand relevant items, and 16 MB in all.
SHARED = 16
LARGEST_SHARED = 2**20


@lru_cache(maxsize=SHARED, typed=True)
def shared_tables(kind: type[Utility], max_k: int, *settings: float) -> UtilityTables:
    """The tables of the utility ``kind(*settings)``, made once for all who ask in a row.

    Only for utilities whose functions depend on nothing but their settings. Settings are told
    apart by their types too.
    """
    return UtilityTables(kind(*settings), max_k, LARGEST_SHARED)


class UtilityTables:
    """A utility's three functions as arrays for lists of up to ``max_k``, to use on many blocks.

    A table of more than ``largest_kept`` bytes is made anew whenever it is needed.
    """

    def __init__(self, utility: Utility, max_k: int, largest_kept: int | None = None) -> None:
        self.utility = utility
        self.max_k = int(max_k)
        self._largest_kept = largest_kept
        ranks = np.arange(1, max_k + 1, dtype=np.float64)
        self.discount = _finite(utility.discount(ranks), ranks.shape, utility, "discount")
        self.penalty = _finite(utility.penalty(ranks), ranks.shape, utility, "penalty")
        self._table = np.zeros((0, max_k + 1))

    def table(self, rows: int) -> FloatArray:
        """``table[m, k]`` = h(m, k) for m below ``rows`` at least; row and column 0 are 0."""
        table = self._table  # other threads may put another in its place
        if table.shape[0] < rows:
            size = max(rows, FIRST_ROWS, 2 * table.shape[0])
            table = np.zeros((size, self.max_k + 1))
            table[1:] = self._normalisers(np.arange(1, size, dtype=np.float64)).T
            if self._largest_kept is None or table.nbytes <= self._largest_kept:
                self._table = table
        return table

    @cached_property
    def factor(self) -> FloatArray:
        """h(1, k) for k from 0: all of a normaliser that does not depend on m."""
        return self._normalisers(np.ones(1))[:, 0].copy()

    def _normalisers(self, m: FloatArray) -> FloatArray:
        """h(m, k): a row for each k from 0, of zeros for k = 0, and a column for each of ``m``."""
        values = np.zeros((self.max_k + 1, m.size))
        if self.max_k > 0 and m.size > 0:
            k = np.arange(1, self.max_k + 1, dtype=np.float64)[:, None]
            given = np.asarray(self.utility.normaliser(m[None, :], k))
            with suppress(ValueError):  # _finite says what is wrong
                given = np.broadcast_to(given, (self.max_k, m.size))
            values[1:] = _finite(given, (self.max_k, m.size), self.utility, "normaliser")
        return values

    def expected(
        self,
        p: FloatArray,
        offsets: OffsetArray,
        ranked: FloatArray,
        lengths: IntArray,
        method: Method = "exact",
        paper_terms: int = 2000,
    ) -> FloatArray:
        """Expected curves of a block: ``p`` flat by ``offsets``, ``ranked`` the lists in order.

        Beyond a user's own ``lengths`` a curve is NaN.
        """
        if method not in ("exact", "paper"):
            raise SettingError(f"method is {method!r}; it can be 'exact' or 'paper'.")
        ranked = np.ascontiguousarray(ranked)
        curves = np.empty((lengths.size, self.max_k + 1))
        if not self.utility.counts_all_relevant:
            gain = np.cumsum(self.discount * ranked, axis=1)
            cost = np.cumsum(self.penalty * (1.0 - ranked), axis=1)
            curves[:, 0] = 0.0
            curves[:, 1:] = self.factor[1:] * gain - cost
            curves[np.arange(self.max_k + 1)[None, :] > lengths[:, None]] = np.nan
            return curves
        if method == "paper":
            if paper_terms < 1:
                raise SettingError(f"paper_terms is {paper_terms}; it must be at least 1.")
            table = self.table(paper_terms + 1)
            curves_paper(
                p, offsets, ranked, lengths, self.discount, self.penalty, table, paper_terms, curves
            )
            return curves
        done = 0
        rows = FIRST_ROWS
        while True:
            table = self.table(rows)
            done = curves_exact(
                p, offsets, ranked, lengths, self.discount, self.penalty, table, done, curves
            )
            if done == lengths.size:
                return curves
            mean = float(p[offsets[done] : offsets[done + 1]].sum())
            rows = max(2 * table.shape[0], int(mean + 10.0 * mean**0.5) + FIRST_ROWS)

    def realised(self, hits: FloatArray, n_relevant: FloatArray) -> FloatArray:
        """Realised curves of users whose list holds ``hits`` (0/1) and who have ``n_relevant``."""
        counts, column = np.unique(n_relevant, return_inverse=True)
        table = np.zeros((self.max_k + 1, counts.size))
        table[:, counts > 0] = self._normalisers(counts[counts > 0])
        curves = np.zeros((hits.shape[0], self.max_k + 1))
        gain = np.cumsum(self.discount * hits, axis=1)
        cost = np.cumsum(self.penalty * (1.0 - hits), axis=1)
        curves[:, 1:] = table[1:, column].T * gain - cost
        return curves


def _finite(
    values: npt.ArrayLike, shape: tuple[int, ...], utility: Utility, what: str
) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape:
        raise SettingError(
            f"the {what} of utility {utility.name!r} has shape {array.shape} where {shape} is "
            "needed. Return one value for each rank, or for each pair of m and k."
        )
    if not np.isfinite(array).all():
        raise SettingError(
            f"the {what} of utility {utility.name!r} holds NaN or infinity. "
            "It must be finite for every rank, m >= 1 and k >= 1."
        )
    return np.ascontiguousarray(array)
