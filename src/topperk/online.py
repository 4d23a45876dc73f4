"""One user's candidates, answered at once: what a service calls.

``FittedK.choose`` takes plain ids and scores and gives back a ``Chosen``, without any frame. What
it needs of the model is made at the first call and kept: dictionaries from ids to codes (for a
million ids some 0.3 s, and 120 bytes each), and for items that are integers a table in arrays (0.03
s, and at most 24 bytes each). Nothing is written to afterwards, so any number of threads may call
at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from topperk._codes import Codes, Given, IntegerCodes, as_given, as_list
from topperk._kernels.arranging import REPEATED, UNUSABLE, arrange
from topperk._kernels.arrays import AnyFloatArray, FloatArray, IntArray, OffsetArray
from topperk._outcomes import top_of_block
from topperk._policies import OneAtATime, OneList, PersonalPolicy, Policy
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


class Desk:
    """What answers for one model; its arrays are only read."""

    def __init__(
        self, ids: Ids, seen_offsets: OffsetArray, seen_items: IntArray, max_k: int, policy: Policy
    ) -> None:
        self.users = Codes(ids.users)
        self.items = Codes(ids.items) if ids.items.holds_strings else IntegerCodes(ids.items)
        self.ids, self.n_items = ids, ids.n_items
        self.max_k, self.policy = max_k, policy
        self.seen_offsets, self.seen_items = seen_offsets, seen_items
        self.fused: OneAtATime | None = None
        if isinstance(policy, PersonalPolicy) and policy.fused is not None:
            self.fused = OneAtATime(policy, policy.fused)

    def choose(self, user_id: Any, item_ids: Any, scores: npt.ArrayLike) -> Chosen:
        """See ``FittedK.choose``."""
        given = as_given(item_ids)
        row = self.users.one(user_id, "user_id")
        values = _values(scores, len(given))
        order, items, own = self._arranged(row, user_id, given, values)
        found = None
        if self.fused is not None and own.dtype == np.float32:
            found = self.fused.decide(own, row)
        k, positions, p, utility, reason = found or self._decided(row, user_id, items, own)
        places = order.take(positions)
        if isinstance(item_ids, np.ndarray):
            chosen: Any = item_ids[places]
        else:
            chosen = [given[at] for at in places.tolist()]
        # A list this short is added up sooner in Python.
        expected_relevant = sum(p.tolist(), 0.0) if utility == utility else utility
        return Chosen(k, chosen, p, utility, expected_relevant, Reason.of(reason))

    def _arranged(
        self, row: int, user_id: Any, given: Given, values: AnyFloatArray
    ) -> tuple[IntArray, IntArray, AnyFloatArray]:
        """The place where each candidate came from, its code and its score, as codes ascend."""
        codes = self.items.of(given, "item_ids")
        n, n_items = codes.size, self.n_items
        order, items = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
        own, wide = np.empty(n), values.astype(np.float64)
        status, at = arrange(
            codes, wide, row, self.seen_offsets, self.seen_items, n_items, order, items, own
        )
        if status == UNUSABLE:
            item = as_list(given[at : at + 1])[0]
            raise invalid_score(float(values[at]), repr(user_id), repr(item))
        # Two unknown items have different codes even where they are one.
        n_unknown = int(items[-1]) - n_items + 1 if n else 0
        if status == REPEATED or (n_unknown > 1 and len(set(as_list(given))) < n):
            raise _repeated(as_list(given), user_id)
        return order, items, own.astype(values.dtype, copy=False)

    def _decided(self, row: int, user_id: Any, items: IntArray, own: AnyFloatArray) -> OneList:
        """What the policy decides about a block of this one user."""
        offsets = np.array([0, own.size], dtype=np.int64)
        block = ScoreBlock(_THE_USER, own, offsets, items)
        rows = np.array([row], dtype=np.int32)
        top = partial(top_of_block, block, self.max_k)
        if isinstance(self.policy, PersonalPolicy):
            found = self.policy.in_double(block, rows, top())
        else:
            ids = Ids(IdIndex(pl.Series([user_id])), self.ids.items)
            found = self.policy.decide(block, rows, top, ids)
        k, reason = int(found.k[0]), int(found.reasons[0])
        return OneList.of(found.lists, k, reason, found.curves, found.probabilities)


def _values(scores: npt.ArrayLike, n: int) -> AnyFloatArray:
    """The scores as they are computed with: one for each of n items."""
    array = scores if type(scores) is np.ndarray else numbers_of(scores, "scores")
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
    if array.dtype != np.float32 and array.dtype != np.float64:
        return as_floats(array, copy=False)
    return array


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
