"""A simulated world: users, items and a recommender, with every true probability known.

Pair (u, i) is relevant with probability

    q_ui = sigmoid(sharpness_u * <taste_u, item_i> + popularity_i + activity_u)

independently of all others, and each relevant pair falls into train, validation or test with
probability .6, .2 and .2. So, exactly,

    P(in test | not in train, not in validation) = .2 q / (1 - .8 q)
    P(in validation | not in train)              = .2 q / (1 - .6 q)

Users differ as real ones do: in taste (a direction in the space of factors), in breadth (a narrow
user's sharpness is high: few items stand out), and in activity (how many items are relevant:
log-normal). Items have a long tail of popularity. The recommender of the world sees all of this
through noise, and on a scale of its own for each user, as a trained model would: its scores rank
well, and are no probabilities.

Each user's own random stream derives from the seed and the user's number, so a user's outcomes do
not depend on how many users there are. Users are made in blocks: memory is proportional to the
interactions and to the vectors, never to users x items. Cost: two exponentials and one random
number for each pair, about a second for 30 million pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from topperk._kernels.arrays import FloatArray, IntArray
from topperk._score_checks import numbers_of
from topperk._settings import check_count, check_finite, check_seed
from topperk.datasets._drawing import (
    BIAS_SHARE,
    SCORE_SCALE,
    TRAIN_BELOW,
    VALIDATION_BELOW,
    DrawnItems,
    DrawnUsers,
    PartOfBlock,
    drawn_outcomes,
    intercepts_for,
    joined,
    sigmoid,
    user_blocks,
)
from topperk.errors import IdError, SettingError
from topperk.ids import Ids
from topperk.split import Split

if TYPE_CHECKING:
    from topperk.scores import Factors

__all__ = ["World", "simulate_world"]

VectorArray = npt.NDArray[np.float32]

# Activity is cut off at these multiples of its mean (5 and 300 at the default of 40), and at this
# share of all items, so that small worlds stay sparse.
_LEAST_ACTIVE, _MOST_ACTIVE, _LARGEST_SHARE = 1 / 8, 7.5, 0.3


@dataclass(frozen=True, eq=False)
class World:
    """A simulated world: what happened in it, what its recommender says, and what is true.

    ``split``          the three parts; user "user-0017" has code 17
    ``user_vectors`` (n_users, n_factors + 1), ``item_vectors``, ``user_biases``, ``item_biases``
                       what the recommender learnt: the truth through noise, float32
    ``breadth``        1 / sharpness: above average for users whom much pleases about equally
    ``activity``       each user's expected number of relevant items, over all parts
    """

    split: Split
    user_vectors: VectorArray
    item_vectors: VectorArray
    user_biases: VectorArray
    item_biases: VectorArray
    breadth: FloatArray
    activity: FloatArray
    true_user_vectors: FloatArray
    true_item_vectors: FloatArray
    true_user_intercepts: FloatArray
    popularity: FloatArray

    def __repr__(self) -> str:
        """The sizes."""
        return f"World({self.split})"

    @property
    def ids(self) -> Ids:
        """All users and items, those without a single interaction among them."""
        return self.split.ids

    @property
    def scores(self) -> Factors:
        """The recommender of this world as a score source."""
        from topperk.scores import Factors

        return Factors(
            self.user_vectors, self.item_vectors, self.ids, self.user_biases, self.item_biases
        )

    def relevance_probability(self, users: npt.ArrayLike) -> FloatArray:
        """q: the probability that a pair is relevant at all, for these user codes x all items."""
        codes = self._codes(users)
        logits = self.true_user_vectors[codes] @ self.true_item_vectors.T
        logits += self.popularity
        logits += self.true_user_intercepts[codes, None]
        return sigmoid(logits)

    def true_probability(self, users: npt.ArrayLike) -> FloatArray:
        """P(in test | not in train, not in validation) for these user codes x all items.

        Pairs of train and validation have a value too, which means nothing: leave them out.
        """
        q = self.relevance_probability(users)
        probability: FloatArray = (1.0 - VALIDATION_BELOW) * q / (1.0 - VALIDATION_BELOW * q)
        return probability

    def true_validation_probability(self, users: npt.ArrayLike) -> FloatArray:
        """P(in validation | not in train), what calibration learns, for user codes x all items."""
        q = self.relevance_probability(users)
        probability: FloatArray = (VALIDATION_BELOW - TRAIN_BELOW) * q / (1.0 - TRAIN_BELOW * q)
        return probability

    def _codes(self, users: npt.ArrayLike) -> IntArray:
        codes = numbers_of(users, "users")
        if codes.ndim != 1 or (codes.size > 0 and codes.dtype.kind not in "iu"):
            raise IdError(
                f"users are {codes.dtype} of shape {codes.shape}. Give user codes: integers in one "
                "dimension."
            )
        n_users = self.ids.n_users
        if codes.size > 0 and not 0 <= codes.min() <= codes.max() < n_users:
            raise IdError(
                f"user codes lie in {codes.min()}..{codes.max()}, but this world has {n_users} "
                f"users. Give codes from 0 to {n_users - 1}."
            )
        return codes.astype(np.int32)


def simulate_world(
    n_users: int = 2000,
    n_items: int = 2000,
    seed: int = 0,
    n_factors: int = 16,
    *,
    mean_relevant: float = 40.0,
    sharpness: float = 3.0,
    tail: float = 1.0,
    noise: float = 0.3,
) -> World:
    """Make a world in which every true probability is known.

    ``mean_relevant``  how many items are relevant to a user on average, over all parts
    ``sharpness``      the average spread of a user's tastes, in logits: 0 likes all items alike
    ``tail``           how steep popularity falls with an item's rank r: (r + n_items / 100)^-tail
    ``noise``          of the recommender, relative to what it tries to see; 0 ranks perfectly but
                       for popularity

    The same arguments give the same world; another ``n_users`` leaves every user's outcomes as
    they are.

    >>> world = simulate_world(n_users=50, n_items=200, seed=1)
    >>> world.true_probability([0, 1]).shape
    (2, 200)
    """
    check_count("n_users", n_users)
    check_count("n_items", n_items)
    check_count("n_factors", n_factors)
    check_seed(seed)
    for name, count in (("n_users", n_users), ("n_items", n_items)):
        if count == 0:
            raise SettingError(f"{name} is 0. A world has at least one of them.")
    for name, value, least, most in (
        ("mean_relevant", mean_relevant, 0.01, 1e6),
        ("sharpness", sharpness, 0.0, 20.0),
        ("tail", tail, 0.0, 5.0),
        ("noise", noise, 0.0, 100.0),
    ):
        check_finite(name, value)
        if not least <= value <= most:
            raise SettingError(f"{name} is {value}. Give a number from {least:g} to {most:g}.")
    items = DrawnItems.drawn(n_items, seed, n_factors, tail, noise)
    users = DrawnUsers.drawn(n_users, seed, n_factors, sharpness, noise)
    wanted = np.minimum(
        mean_relevant * np.clip(users.relative_activity, _LEAST_ACTIVE, _MOST_ACTIVE),
        _LARGEST_SHARE * n_items,
    )
    truth = np.ascontiguousarray(users.sharpness[:, None] * users.taste)
    intercepts, activity = np.empty(n_users), np.empty(n_users)
    parts: tuple[list[PartOfBlock], ...] = ([], [], [])
    for block in user_blocks(n_users, n_items):
        logits = truth[block] @ items.vectors.T
        logits += items.popularity
        intercepts[block], q = intercepts_for(logits, wanted[block])
        activity[block] = q.sum(axis=1)
        for part, found in zip(parts, drawn_outcomes(q, users.streams[block]), strict=True):
            part.append(found)
    ids = Ids.of(users=_names("user", n_users), items=_names("item", n_items))
    settings = {"train": 0.6, "validation": 0.2, "test": 0.2, "seed": seed}
    train, validation, test = (joined(ids, part) for part in parts)
    seen = np.sqrt(1.0 - BIAS_SHARE) * items.seen_popularity
    return World(
        split=Split(train, validation, test, "given", settings),
        user_vectors=_with_column(users.scale[:, None] * users.seen_taste, users.scale),
        item_vectors=_with_column(items.seen_vectors, seen),
        user_biases=users.offset.astype(np.float32),
        item_biases=(SCORE_SCALE * BIAS_SHARE * items.seen_popularity).astype(np.float32),
        breadth=1.0 / np.maximum(users.sharpness, 1e-9),  # finite where nobody is sharp
        activity=activity,
        true_user_vectors=truth,
        true_item_vectors=items.vectors,
        true_user_intercepts=intercepts,
        popularity=items.popularity,
    )


def _names(kind: str, n: int) -> list[str]:
    """``user-0000``, ``user-0001`` and so on: in the order of the codes and of the alphabet."""
    width = max(4, len(str(n - 1)))
    return [f"{kind}-{number:0{width}d}" for number in range(n)]


def _with_column(vectors: FloatArray, column: FloatArray) -> VectorArray:
    return np.column_stack([vectors, column]).astype(np.float32)
