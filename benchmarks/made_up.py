"""Users, items and calibrations out of thin air, as large as one likes, in seconds.

Scores are products of normal vectors, so that a user's scores over all items are close to normal;
then the calibration that expects a given number of relevant items follows from a quadrature.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import side_by_side  # noqa: F401 - before topperk: it says where compiled kernels are kept
from scipy import special, stats

import topperk as tp
from topperk.calibration import Convergence

SPREAD = 1.6  # the standard deviation of a user's logits

Array = npt.NDArray[np.float64]


def ids_of(n_users: int, n_items: int) -> tp.Ids:
    """Users and items that are called by their numbers."""
    return tp.Ids.of(users=np.arange(n_users), items=np.arange(n_items))


def factors_of(ids: tp.Ids, n_factors: int, random: np.random.Generator) -> tp.Factors:
    """Vectors in single precision whose products have about variance 1."""
    users = random.normal(0.0, n_factors**-0.25, (ids.n_users, n_factors))
    items = random.normal(0.0, n_factors**-0.25, (ids.n_items, n_factors))
    return tp.Factors(users.astype(np.float32), items.astype(np.float32), ids)


def distinct_pairs(ids: tp.Ids, counts: npt.NDArray[np.int64], keys: Array) -> tp.Interactions:
    """Interactions of these counts per user; ``keys`` (one for each, 0 to 1) name the items.

    A user's items come one from each of as many stretches of the catalogue, so that none comes
    twice and nothing needs to be sorted.
    """
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    owner = np.repeat(np.arange(ids.n_users), counts)
    place = np.arange(offsets[-1]) - offsets[owner]
    if counts.max(initial=0) > ids.n_items:
        raise ValueError("a user has more interactions than there are items")
    begin = place * ids.n_items // counts[owner]
    width = (place + 1) * ids.n_items // counts[owner] - begin
    items = (begin + (keys * width).astype(np.int64)).astype(np.int32)
    return tp.Interactions(ids, offsets, items)


def seen_by_all(ids: tp.Ids, share: float, random: np.random.Generator) -> tp.Split:
    """A split whose users have each seen this share of the items, all of it in training."""
    counts = np.full(ids.n_users, round(share * ids.n_items), dtype=np.int64)
    train = distinct_pairs(ids, counts, random.random(int(counts.sum())))
    nothing = tp.Interactions(
        ids, np.zeros(ids.n_users + 1, dtype=np.int64), np.empty(0, dtype=np.int32)
    )
    return tp.Split(train, nothing, nothing, kind="given")


def held_out(
    scores: tp.Factors, calibration: tp.PlattCalibration, random: np.random.Generator
) -> tp.Split:
    """A split with nothing but validation, drawn pair by pair with the calibration's chances."""
    ids, size = scores.ids, max(1, 2_000_000 // scores.ids.n_items)
    users, items = [], []
    for begin in range(0, ids.n_users, size):
        codes = np.arange(begin, min(begin + size, ids.n_users), dtype=np.int32)
        p = calibration.probabilities(scores.block(codes), codes)
        at = np.flatnonzero(random.random(p.size, dtype=np.float32) < p)
        users.append(begin + at // ids.n_items)
        items.append((at % ids.n_items).astype(np.int32))
    owner = np.concatenate(users)
    offsets = np.searchsorted(owner, np.arange(ids.n_users + 1)).astype(np.int64)
    nothing = tp.Interactions(ids, np.zeros_like(offsets), np.empty(0, dtype=np.int32))
    drawn = tp.Interactions(ids, offsets, np.concatenate(items))
    return tp.Split(nothing, drawn, nothing, kind="given")


def calibration_for(
    scores: tp.Factors, mean: float, random: np.random.Generator
) -> tp.PlattCalibration:
    """Slopes of each user's own, and the intercepts that expect ``mean`` relevant items."""
    n_users, n_items = scores.ids.n_users, scores.ids.n_items
    vectors = scores.user_vectors.astype(np.float64)
    spread = np.linalg.norm(vectors, axis=1) * float(scores.item_vectors.std())
    slope = SPREAD * random.uniform(0.8, 1.25, n_users) / spread
    intercept = intercepts(slope * spread, mean / n_items)
    own = np.append(intercept, intercept.mean())
    return tp.PlattCalibration(
        users=scores.ids.users,
        scale="logit",
        correction="none",
        slope=np.append(slope, slope.mean()),
        intercept=own,
        adjustment=np.zeros(own.size),
        reason=np.full(own.size, tp.Reason.OWN_FIT.code, dtype=np.uint8),
        converged=np.ones(own.size, dtype=np.bool_),
        convergence=Convergence(),
    )


def intercepts(spread: Array, share: float) -> Array:
    """The b with mean of sigmoid(spread x + b) = share over a normal x, for each spread."""
    x = stats.norm.ppf((np.arange(400) + 0.5) / 400)
    low, high = np.full(spread.size, -40.0), np.full(spread.size, 40.0)
    for _ in range(60):
        middle = (low + high) / 2.0
        below = special.expit(spread[:, None] * x + middle[:, None]).mean(axis=1) < share
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    found: Array = (low + high) / 2.0
    return found
