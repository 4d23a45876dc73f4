"""Do probabilities come true? Expected calibration error, Brier score, log loss, reliability.

All of it on the positive class: among pairs to which about p was said, what share came true.

Pairs are put in bins, either of equal width in p or of equal mass (as many pairs in each). With
n_b pairs in bin b, a mean probability of P_b and an observed rate of Y_b,

    ECE = sum_b n_b |P_b - Y_b| / sum_b n_b.

Nearly all of a recommender's pairs have a probability near 0, where one bin of equal width holds
them all; equal mass shows the middle, and ``top`` looks at what is shown to users.

One pass in blocks, in constant memory: bins of equal mass are put together from ``N_CELLS`` cells
of the logit, so a border lies within ``CELL`` of where it should in the logit, and equal
probabilities stay in one bin.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from topperk._arguments import check_fit
from topperk._blocks import OnMissing, align, align_whole, over_blocks, positions_in
from topperk._kernels.arrays import FloatArray, IntArray, OffsetArray
from topperk._outcomes import hits_of, top_of_block
from topperk._settings import check_choice, check_count
from topperk.calibration import Calibration, check_calibration
from topperk.counts import float_numbers
from topperk.errors import InputError, ScoreError, SettingError
from topperk.ids import Ids
from topperk.progress import Progress
from topperk.scores import ScoreBlock, ScoreSource
from topperk.split import Split

__all__ = ["Bins", "Reliability", "reliability", "reliability_of"]

Bins: TypeAlias = Literal["equal_mass", "equal_width"]

# Cells of .02 in the logit from -30 to 30: 1e-13 to 1 - 1e-13.
CELL, REACH = 0.02, 30.0
N_CELLS = int(2 * REACH / CELL) + 1
# log(0) would make one certain miss outweigh everything.
LEAST_LIKELY = 1e-15


@dataclass(frozen=True, eq=False)
class Reliability:
    """One entry per bin that holds anything, in the order of the probability."""

    mean_probability: FloatArray
    observed_rate: FloatArray
    count: OffsetArray
    brier: float
    log_loss: float

    def __repr__(self) -> str:
        """The single numbers; ``table()`` has the bins."""
        return (
            f"Reliability({self.n_pairs} pairs: ece {self.ece:.6f}, brier {self.brier:.6f}, "
            f"log loss {self.log_loss:.6f})"
        )

    @property
    def n_pairs(self) -> int:
        """How many pairs were judged."""
        return int(self.count.sum())

    @property
    def ece(self) -> float:
        """Expected calibration error: the mean distance of said and seen, weighted by pairs."""
        gaps = np.abs(self.mean_probability - self.observed_rate)
        return float((gaps * self.count).sum() / self.n_pairs)

    @property
    def base_rate(self) -> float:
        """The share of pairs that came true."""
        return float((self.observed_rate * self.count).sum() / self.n_pairs)

    def table(self) -> pl.DataFrame:
        """A row per bin: ``mean_probability, observed_rate, count``.

        Always a polars frame: judged are numbers, which came without ids and in no kind of frame.
        """
        return pl.DataFrame(
            {
                "mean_probability": self.mean_probability,
                "observed_rate": self.observed_rate,
                "count": self.count,
            }
        )


def reliability(
    probability: npt.ArrayLike,
    relevance: npt.ArrayLike,
    *,
    n_bins: int = 15,
    bins: Bins = "equal_mass",
) -> Reliability:
    """Judge probabilities by what happened, both of any shape.

    >>> found = reliability([0.1, 0.1, 0.8, 0.8], [0, 0, 1, 1], n_bins=2)
    >>> found.observed_rate.tolist(), round(found.ece, 3)
    ([0.0, 1.0], 0.15)
    """
    p = float_numbers(probability, "probabilities").ravel()
    y = float_numbers(relevance, "relevance").ravel()
    if p.shape != y.shape or p.size == 0:
        raise InputError(
            f"there are {p.size} probabilities and {y.size} outcomes. Give one of each per pair, "
            "and at least one pair."
        )
    if not ((p >= 0.0) & (p <= 1.0)).all():
        at = int(np.argmin((p >= 0.0) & (p <= 1.0)))
        raise ScoreError(
            f"probability {p[at]} at position {at} is not within 0..1. "
            "Calibrate scores before judging them."
        )
    if not np.isin(y, (0.0, 1.0)).all():
        raise InputError("relevance holds values other than 0 and 1. Binarise it first.")
    tally = _Tally(n_bins, bins)
    tally.add(p, y)
    return tally.result()


def reliability_of(
    calibration: Calibration,
    scores: ScoreSource,
    split: Split,
    *,
    top: int | None = None,
    n_bins: int = 15,
    bins: Bins = "equal_mass",
    on_missing: OnMissing = "error",
    progress: Progress | None = None,
) -> Reliability:
    """Judge a calibration on the test part, in one pass over the scores.

    All pairs outside train and validation, or with ``top`` each user's best ones. Every user with
    scores counts, those without a test interaction too.
    """
    check_calibration(calibration)
    check_fit(scores, split, progress)
    if top is not None:
        check_count("top", top)
        if top == 0:
            raise SettingError("top is 0, which leaves nothing to judge. Give 1 or more.")
    tally = _Tally(n_bins, bins)
    alignment = align_whole(scores, split.ids, on_missing)
    users = np.flatnonzero(alignment.rows >= 0).astype(np.int32)
    places = align(scores.ids, Ids(calibration.users, scores.ids.items)).rows

    def pairs(block: ScoreBlock, rows: IntArray) -> tuple[FloatArray, FloatArray]:
        p = calibration.probabilities(block, places[block.users])
        if top is None:
            positives, offsets = positions_in(block, rows, split.test, alignment)
            y = np.zeros(block.scores.size)
            y[block.offsets[np.repeat(np.arange(rows.size), np.diff(offsets))] + positives] = 1.0
            candidate = block.scores > -np.inf
            return p[candidate], y[candidate]
        lists = top_of_block(block, min(top, scores.ids.n_items))
        listed = lists.positions >= 0
        flat = block.offsets[:-1, None] + lists.positions
        return p[flat[listed]], hits_of(block, rows, lists, split.test, alignment)[listed]

    seen = [split.train, split.validation]
    for p, y in over_blocks(
        pairs, scores, users, alignment, seen, "judging probabilities", progress
    ):
        tally.add(p, y)
    return tally.result()


class _Tally:
    """Counts, sums of p and sums of y in cells, and the two scores."""

    def __init__(self, n_bins: int, bins: Bins) -> None:
        check_count("n_bins", n_bins)
        if n_bins == 0:
            raise SettingError("n_bins is 0. Give 1 or more.")
        check_choice("bins", bins, ("equal_mass", "equal_width"))
        self.n_bins = n_bins
        self.bins = bins
        n = N_CELLS if bins == "equal_mass" else n_bins
        self.count, self.said, self.seen = np.zeros(n), np.zeros(n), np.zeros(n)
        self.squares = 0.0
        self.surprise = 0.0

    def add(self, p: FloatArray, y: FloatArray) -> None:
        """Take in some pairs."""
        cell = self._cell(p)
        n = self.count.size
        self.count += np.bincount(cell, minlength=n)
        self.said += np.bincount(cell, weights=p, minlength=n)
        self.seen += np.bincount(cell, weights=y, minlength=n)
        self.squares += float(((p - y) ** 2).sum())
        likelihood = np.where(y > 0.0, p, 1.0 - p)
        self.surprise -= float(np.log(np.maximum(likelihood, LEAST_LIKELY)).sum())

    def _cell(self, p: FloatArray) -> IntArray:
        if self.bins == "equal_width":
            cell: IntArray = np.minimum((p * self.n_bins).astype(np.int32), self.n_bins - 1)
            return cell
        inside = np.clip(p, LEAST_LIKELY, 1.0 - LEAST_LIKELY)
        logit = np.clip(np.log(inside) - np.log1p(-inside), -REACH, REACH)
        cell = np.rint((logit + REACH) / CELL).astype(np.int32)
        return cell

    def result(self) -> Reliability:
        """The cells as bins, the empty ones left out."""
        if not self.count.any():
            raise InputError("there is no pair to judge. Give scores for items not seen yet.")
        bin_of = np.arange(self.count.size)
        if self.bins == "equal_mass":
            # A cell belongs to the bin that the middle of its pairs falls into.
            middle = np.cumsum(self.count) - 0.5 * self.count
            bin_of = np.minimum(
                (middle * self.n_bins / self.count.sum()).astype(int), self.n_bins - 1
            )
        count, said, seen = (
            np.bincount(bin_of, weights=values) for values in (self.count, self.said, self.seen)
        )
        filled = count > 0
        total = float(count.sum())
        return Reliability(
            said[filled] / count[filled],
            seen[filled] / count[filled],
            count[filled].astype(np.int64),
            self.squares / total,
            self.surprise / total,
        )
