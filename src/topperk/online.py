"""One user's candidates, answered at once: what a service calls.

``FittedK.choose`` takes plain ids and scores and gives back a ``Chosen``, without any frame. What
it needs of the model, dictionaries from ids to codes, is made at the first call (some 0.1 s and
100 bytes for each of a million ids) and kept. Nothing is written to afterwards, so any number of
threads may call at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from topperk._kernels.arranging import REPEATED, UNUSABLE, arrange
from topperk._kernels.arrays import AnyFloatArray, FloatArray, IntArray, OffsetArray
from topperk._outcomes import top_of_block
from topperk._policies import PersonalPolicy, Policy
from topperk._score_checks import as_floats, invalid_score, numbers_of
from topperk.errors import IdError, ScoreError
from topperk.ids import IdIndex, Ids
from topperk.reasons import Reason
from topperk.scores import ScoreBlock

__all__ = ["Chosen"]

_THE_USER = np.zeros(1, dtype=np.int32)


@dataclass(frozen=True, eq=False)
class Chosen:
    """One user's list: ``item_ids`` in order, ``k`` of them, and what is expected of it.

    ``item_ids`` is a numpy array where one was given, and otherwise a list of the ids as they were
    given. What a method does not estimate is NaN.
    """

    k: int
    item_ids: Any
    probabilities: FloatArray
    expected_utility: float
    expected_relevant: float
    reason: Reason


class Codes(dict[Any, int]):
    """The codes of an index's ids; what it does not know is -1.

    >>> Codes(IdIndex.from_values(["b", "a"], "items")).of(["a", "z", "b"], "item_ids").tolist()
    [1, -1, 0]
    """

    def __init__(self, index: IdIndex) -> None:
        super().__init__(zip(index.values, range(len(index)), strict=True))
        self._strings = index.holds_strings
        self._example = index.name(0) if len(index) else "none"

    def __missing__(self, key: Any) -> int:
        return -1

    def of(self, ids: list[Any], what: str) -> IntArray:
        """A code for each id; IdError for an id of another type than the known ones."""
        try:
            codes = np.fromiter(map(self.__getitem__, ids), np.int32, len(ids))
        except TypeError:  # of what can not be looked up
            self._check_types(ids, what)
            raise
        # Nothing but a string equals a string, but 1.0 and True equal 1.
        if not self._strings or (codes.size and codes.min() < 0):
            self._check_types(ids, what)
        return codes

    def _check_types(self, ids: list[Any], what: str) -> None:
        kinds = (str,) if self._strings else (int, np.integer)
        for kind in set(map(type, ids)):
            if issubclass(kind, bool) or not issubclass(kind, kinds):
                wrong = next(one for one in ids if type(one) is kind)
                raise IdError(
                    f"{what}: found {wrong!r}, but the known ids are "
                    f"{'strings' if self._strings else 'integers'} (such as {self._example}). "
                    "Give ids of their type."
                )


class Desk:
    """What answers for one model; its arrays are only read."""

    def __init__(
        self, ids: Ids, seen_offsets: OffsetArray, seen_items: IntArray, max_k: int, policy: Policy
    ) -> None:
        self.users, self.items = Codes(ids.users), Codes(ids.items)
        self.ids, self.max_k, self.policy = ids, max_k, policy
        self.seen_offsets, self.seen_items = seen_offsets, seen_items

    def choose(self, user_id: Any, item_ids: Any, scores: npt.ArrayLike) -> Chosen:
        """See ``FittedK.choose``."""
        listed = _listed(item_ids)
        row = self.users.of([user_id], "user_id")
        block, order = self._block(row, user_id, listed, _values(scores, len(listed)))
        decision = self.policy.decide(
            block, row, partial(top_of_block, block, self.max_k), self._ids_for(user_id)
        )
        k = int(decision.k[0])
        utility, p = float(decision.curves[0, k]), decision.probabilities[0, :k]
        places = order[decision.lists.positions[0, :k]]
        if isinstance(item_ids, np.ndarray):
            chosen: Any = item_ids[places]
        else:
            chosen = [listed[at] for at in places.tolist()]
        nobody = decision.lists.lengths[0] == 0
        reason = Reason.NO_CANDIDATES if nobody else Reason.of(int(decision.reasons[0]))
        expected_relevant = float(p.sum()) if utility == utility else utility
        return Chosen(k, chosen, p, utility, expected_relevant, reason)

    def _block(
        self, row: IntArray, user_id: Any, listed: list[Any], values: AnyFloatArray
    ) -> tuple[ScoreBlock, IntArray]:
        """The candidates in the order of their codes, and the place where each came from."""
        codes = self.items.of(listed, "item_ids")
        n = codes.size
        order, items = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
        own = np.empty(n, dtype=values.dtype)
        status, at = arrange(
            codes,
            values,
            int(row[0]),
            self.seen_offsets,
            self.seen_items,
            self.ids.n_items,
            order,
            items,
            own,
        )
        if status == UNUSABLE:
            raise invalid_score(float(values[at]), repr(user_id), repr(listed[at]))
        # Two unknown items have different codes even where they are one.
        n_unknown = int(items[-1]) - self.ids.n_items + 1 if n else 0
        if status == REPEATED or (n_unknown > 1 and len(set(listed)) < n):
            raise _repeated(listed, user_id)
        return ScoreBlock(_THE_USER, own, np.array([0, n], dtype=np.int64), items), order

    def _ids_for(self, user_id: Any) -> Ids:
        """The ids that a policy may look into, as those of a source with this one user."""
        if isinstance(self.policy, PersonalPolicy):
            return self.ids
        return Ids(IdIndex(pl.Series([user_id])), self.ids.items)


def _listed(item_ids: Any) -> list[Any]:
    """The ids as Python objects."""
    if isinstance(item_ids, list):
        return item_ids
    if isinstance(item_ids, np.ndarray) and item_ids.ndim != 1:
        raise IdError(f"item_ids is an array of shape {item_ids.shape}. Give one dimension.")
    convert: Callable[[], list[Any]] | None = getattr(item_ids, "tolist", None)
    convert = convert or getattr(item_ids, "to_list", None)
    if convert is not None:
        return convert()
    if isinstance(item_ids, (str, bytes, set, frozenset, dict)):
        raise IdError(
            f"item_ids is of type {type(item_ids).__name__}, which has no order of ids. "
            "Give a list or an array, in the order of the scores."
        )
    try:
        return list(item_ids)
    except TypeError:
        raise IdError(
            f"item_ids is of type {type(item_ids).__name__}. Give a list or an array of ids."
        ) from None


def _values(scores: npt.ArrayLike, n: int) -> AnyFloatArray:
    """The scores as they are computed with: one for each of n items."""
    array = numbers_of(scores, "scores")
    if array.size == 0 and n == 0:
        return np.empty(0, dtype=np.float32)
    if array.ndim != 1 or array.dtype.kind not in "fiub":
        raise ScoreError(
            f"scores have shape {array.shape} and type {array.dtype}. "
            "Give one number for each item."
        )
    if array.size != n:
        raise ScoreError(
            f"there are {n} item_ids and {array.size} scores. Give one score for each item."
        )
    return as_floats(array, copy=False)


def _repeated(listed: list[Any], user_id: Any) -> IdError:
    met = set()
    for one in listed:
        if one in met:
            break
        met.add(one)
    return IdError(
        f"item {one!r} is given more than once for user {user_id!r}. "
        "Keep one score for each item, such as the highest."
    )
