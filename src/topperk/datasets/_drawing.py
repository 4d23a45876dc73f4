"""How a simulated world is drawn: items, users, and which pairs come true."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from topperk._kernels.arrays import FloatArray, IntArray
from topperk.ids import Ids
from topperk.interactions import Interactions

# How a relevant pair falls into the parts: up to .6 train, up to .8 validation, the rest test.
TRAIN_BELOW, VALIDATION_BELOW = 0.6, 0.8
# Scores are this much smaller than logits, as a factor model's are under regularisation; and part
# of the popularity reaches them as a bias, which does not follow the user's own scale.
SCORE_SCALE, BIAS_SHARE = 0.3, 0.3

# Pairs computed at a time: 2**20 of float64 are 8 MB for each of the few arrays of a block.
_PAIRS_PER_BLOCK = 2**20
# The second half of the items' key; users have their number there, which is never as large.
_ITEM_STREAM = 2**63
# How users spread around the mean, as standard deviations of logarithms.
_BREADTH_SPREAD, _ACTIVITY_SPREAD, _SCALE_SPREAD = 0.5, 0.8, 0.4
# Rounds of Newton's method for a user's activity. It need not be exact: what it yields is the
# truth by definition, and the expected number of relevant items is counted afterwards.
_ROUNDS, _LONGEST_STEP = 6, 2.0

PartOfBlock: TypeAlias = tuple[npt.NDArray[np.int64], IntArray]


@dataclass(frozen=True, eq=False)
class DrawnItems:
    """``vectors`` and ``popularity`` (a logit) as they are, and as the recommender sees them."""

    vectors: FloatArray
    popularity: FloatArray
    seen_vectors: FloatArray
    seen_popularity: FloatArray

    @classmethod
    def drawn(cls, n: int, seed: int, n_factors: int, tail: float, noise: float) -> DrawnItems:
        """Standard normal vectors; the popularity of rank r falls as (r + n / 100)^-tail."""
        stream = _stream(seed, _ITEM_STREAM)
        vectors = stream.standard_normal((n, n_factors))
        popularity = -tail * np.log(stream.permutation(np.arange(1.0, n + 1.0)) + n / 100)
        popularity -= popularity.mean() if n else 0.0
        spread = popularity.std() if n else 0.0
        return cls(
            vectors,
            popularity,
            vectors + noise * stream.standard_normal((n, n_factors)),
            popularity + noise * spread * stream.standard_normal(n),
        )


@dataclass(frozen=True, eq=False)
class DrawnUsers:
    """One entry for each user; ``streams`` are where each user's outcomes come from.

    ``taste`` has length 1; ``seen_taste`` is sharpness * taste through noise; ``scale`` and
    ``offset`` are what the recommender's scores have of their own for each user.
    """

    taste: FloatArray
    sharpness: FloatArray
    relative_activity: FloatArray
    seen_taste: FloatArray
    scale: FloatArray
    offset: FloatArray
    streams: list[np.random.Generator]

    @classmethod
    def drawn(cls, n: int, seed: int, n_factors: int, sharpness: float, noise: float) -> DrawnUsers:
        """Directions evenly spread; breadth, activity and scale log-normal with mean 1."""
        streams = [_stream(seed, user) for user in range(n)]
        own = np.array([stream.standard_normal(2 * n_factors + 4) for stream in streams])
        own = own.reshape(n, 2 * n_factors + 4)
        length = np.linalg.norm(own[:, :n_factors], axis=1, keepdims=True)
        taste = own[:, :n_factors] / np.where(length > 0, length, 1.0)
        sharp = sharpness * _log_normal(own[:, -4], _BREADTH_SPREAD)
        error = own[:, n_factors : 2 * n_factors] / np.sqrt(max(n_factors, 1))
        return cls(
            taste=taste,
            sharpness=sharp,
            relative_activity=_log_normal(own[:, -3], _ACTIVITY_SPREAD),
            seen_taste=sharp[:, None] * (taste + noise * error),
            scale=SCORE_SCALE * _log_normal(own[:, -2], _SCALE_SPREAD),
            offset=SCORE_SCALE * own[:, -1],
            streams=streams,
        )


def user_blocks(n_users: int, n_items: int) -> Iterator[slice]:
    """Slices of users with at most ``_PAIRS_PER_BLOCK`` pairs each, or one user."""
    size = max(1, _PAIRS_PER_BLOCK // max(1, n_items))
    for begin in range(0, n_users, size):
        yield slice(begin, min(begin + size, n_users))


def intercepts_for(logits: FloatArray, wanted: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Each row's b with sum_i sigmoid(logits_i + b) near ``wanted``, and the sigmoids.

    Newton's method on the logarithm of the sum, which is nearly linear in b.
    """
    largest = logits.max(axis=1)
    b = np.log(wanted) - largest - np.log(np.exp(logits - largest[:, None]).sum(axis=1))
    for _ in range(_ROUNDS):
        q = sigmoid(logits + b[:, None])
        total = q.sum(axis=1)
        step = np.log(wanted / total) * total / (q * (1.0 - q)).sum(axis=1)
        b += np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
    return b, sigmoid(logits + b[:, None])


def sigmoid(logits: FloatArray) -> FloatArray:
    """1 / (1 + exp(-z)); exp overflows to infinity beyond 709, which gives 0 as it should."""
    with np.errstate(over="ignore"):
        q: FloatArray = 1.0 / (1.0 + np.exp(-logits))
    return q


def drawn_outcomes(
    q: FloatArray, streams: list[np.random.Generator]
) -> tuple[PartOfBlock, PartOfBlock, PartOfBlock]:
    """Which items are relevant to each user of a block, in train, validation and test.

    One number x for each pair: below q it is relevant, and x / q, which is then even on [0, 1),
    says in which part.
    """
    x = np.array([stream.random(q.shape[1]) for stream in streams]).reshape(q.shape)
    rows, items = np.nonzero(x < q)
    place = x[rows, items] / q[rows, items]
    part = (place >= TRAIN_BELOW).astype(np.int8) + (place >= VALIDATION_BELOW)

    def one(code: int) -> PartOfBlock:
        counts = np.bincount(rows[part == code], minlength=q.shape[0]).astype(np.int64)
        return counts, items[part == code].astype(np.int32)

    return one(0), one(1), one(2)


def joined(ids: Ids, blocks: list[PartOfBlock]) -> Interactions:
    """One part of the interactions from its blocks."""
    counts = np.concatenate([np.zeros(1, dtype=np.int64), *(counts for counts, _ in blocks)])
    items = np.concatenate([np.zeros(0, dtype=np.int32), *(items for _, items in blocks)])
    return Interactions(ids, np.cumsum(counts), items)


def _stream(seed: int, number: int) -> np.random.Generator:
    key = np.array([seed % 2**64, number], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


def _log_normal(normal: FloatArray, spread: float) -> FloatArray:
    """Log-normal numbers with mean 1."""
    numbers: FloatArray = np.exp(spread * normal - 0.5 * spread**2)
    return numbers
