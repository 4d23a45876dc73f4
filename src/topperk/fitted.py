"""A fitted method: sizes, lists and curves for any source of scores."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from topperk._arguments import check_progress, check_scores, listed_users
from topperk._blocks import Alignment, OnMissing, align, block_of, over_users, positions_in
from topperk._files import check_writable
from topperk._frames import from_polars
from topperk._kernels.arrays import AnyFloatArray, FloatArray, IntArray, OffsetArray
from topperk._outcomes import Lists, top_of_block
from topperk._parquet_stream import parquet_target, write_parquet_parts
from topperk._policies import Decision, PersonalPolicy, Policy
from topperk._scan import bytes_per_user
from topperk._score_checks import check_usable
from topperk._settings import check_choice
from topperk._tiles import Tiles
from topperk._utility_tables import UtilityTables
from topperk.calibration import Calibration
from topperk.errors import IdError, ScoreError, SettingError
from topperk.ids import Ids
from topperk.interactions import Interactions
from topperk.online import Chosen, Desk
from topperk.progress import Progress
from topperk.reasons import Reason
from topperk.scores import ScoreBlock, ScoreSource
from topperk.threads import current
from topperk.utility import Utility, check_utility

__all__ = ["FittedK", "ListSizes", "Seen"]

# A desk takes some 100 bytes for each id: threads that come at once wait for one.
_MAKING_A_DESK = Lock()
_NAMES_OF_REASONS = pl.Series([reason.name.lower() for reason in Reason])  # by their codes


@dataclass(frozen=True, eq=False)
class Seen:
    """What each user has interacted with already, and is not to be shown again."""

    offsets: OffsetArray
    items: IntArray

    @staticmethod
    def joining(one: Interactions, other: Interactions) -> Seen:
        """The items of two parts, each user's in ascending order."""
        users = np.concatenate([one.user_codes(), other.user_codes()])
        items = np.concatenate([one.items, other.items])
        order = np.lexsort((items, users))
        offsets = one.offsets + other.offsets
        return Seen(offsets.astype(np.int64), items[order].astype(np.int32))


@dataclass(frozen=True, eq=False)
class ListSizes:
    """Lengths and lists as arrays, a row per user: what the frames are made of.

    ``users`` and ``items`` are codes of ``ids`` (the source's); beyond a user's candidates
    ``items`` is -1 and ``probabilities`` 0. What a method does not estimate is NaN.
    """

    ids: Ids
    users: IntArray
    rows: IntArray
    k: IntArray
    expected_utility: FloatArray
    expected_relevant: FloatArray
    reasons: npt.NDArray[np.uint8]
    items: IntArray
    scores: AnyFloatArray
    probabilities: FloatArray
    curves: FloatArray


@dataclass(frozen=True, eq=False)
class FittedK:
    """A fitted method. All of them speak the same verbs; ``save`` writes one to a folder.

    ``ids`` are the users and items it was fitted with, ``seen`` their training and validation
    interactions, which its lists leave out.
    """

    name: str
    ids: Ids
    seen: Seen
    min_k: int
    max_k: int
    policy: Policy

    def __repr__(self) -> str:
        """What lengths it chooses, for what, and for whom it was fitted."""
        aim = f" for {self.utility.name}" if self.utility is not None else ""
        return f"FittedK({self.name}{aim}, k from {self.min_k} to {self.max_k}; {self.ids})"

    @property
    def utility(self) -> Utility | None:
        """The utility that lengths are chosen for, where there is one."""
        return self.policy.utility if isinstance(self.policy, PersonalPolicy) else None

    @property
    def calibration(self) -> Calibration | None:
        """What turns scores into probabilities, where the method does that."""
        return self.policy.calibration if isinstance(self.policy, PersonalPolicy) else None

    def for_utility(self, utility: Utility) -> FittedK:
        """The same users, calibration and limits, with lengths chosen for another utility.

        SettingError for a method that is not personal.
        """
        if not isinstance(self.policy, PersonalPolicy):
            raise SettingError(
                f"the method {self.name!r} chooses for no utility. Fit PersonalizedK instead."
            )
        check_utility(utility)
        UtilityTables(utility, self.max_k)
        return replace(self, policy=replace(self.policy, utility=utility))

    @property
    def fixed_k(self) -> int | None:
        """The length where everybody gets the same one."""
        return self.min_k if self.utility is None and self.min_k == self.max_k else None

    def n_seen(self, part: Interactions) -> int:
        """How many of these pairs were in training or validation when the method was fitted."""
        alignment = align(self.ids, part.ids, "the model's")
        _, offsets = positions_in(self.seen, alignment.rows, part, alignment)
        return int(offsets[-1])

    def sizes(
        self,
        scores: ScoreSource,
        users: Iterable[Any] | None = None,
        *,
        on_missing: OnMissing = "error",
        progress: Progress | None = None,
    ) -> Any:
        """A row per user: ``user_id, k, expected_utility, expected_relevant, calibration``.

        The frame is of the kind that the scores' ids came in. ``users`` limits it to these ids.
        ``calibration`` is the name of a ``Reason``, in lower case. A user without any candidate is
        an error, or with ``on_missing="skip"`` one of length 0; users and items that the model
        does not know are neither.
        """

        def rows(part: ListSizes) -> pl.DataFrame:
            return pl.DataFrame(
                {
                    "user_id": part.ids.users.take(part.users),
                    "k": part.k,
                    "expected_utility": part.expected_utility,
                    "expected_relevant": part.expected_relevant,
                    "calibration": _NAMES_OF_REASONS.gather(part.reasons),
                }
            )

        return self._frame(rows, scores, users, on_missing, progress)

    def recommend(
        self,
        scores: ScoreSource,
        users: Iterable[Any] | None = None,
        *,
        on_missing: OnMissing = "error",
        progress: Progress | None = None,
    ) -> Any:
        """The lists, each cut at its user's length: ``user_id, item_id, rank, score, probability``.

        Ranks start at 1. A user whose length is 0 has no row. ``on_missing`` is about users without
        any candidate, as in ``sizes``.
        """
        return self._frame(self._list_rows, scores, users, on_missing, progress)

    def recommend_to(
        self,
        path: str | os.PathLike[str],
        scores: ScoreSource,
        users: Iterable[Any] | None = None,
        *,
        on_missing: OnMissing = "error",
        progress: Progress | None = None,
    ) -> int:
        """Write what ``recommend`` gives to a Parquet file while it is made; return the rows.

        Memory does not grow with the number of users. The file takes its name when it is whole:
        after an error or Ctrl-C an older one stands as it was.
        """
        target = parquet_target(path)
        check_writable(target)
        # Closed here, also where an error keeps it alive: its threads end with it.
        with closing(self.blocks(scores, users, on_missing=on_missing, progress=progress)) as parts:
            frames = map(self._list_rows, parts)
            first = next(frames, None)
            if first is None:
                first = self._list_rows(_nobody(scores.ids, self.max_k))
            return write_parquet_parts(chain([first], frames), target)

    def _list_rows(self, part: ListSizes) -> pl.DataFrame:
        shown = np.arange(self.max_k)[None, :] < part.k[:, None]
        ranks = np.broadcast_to(np.arange(1, self.max_k + 1, dtype=np.int32), shown.shape)
        return pl.DataFrame(
            {
                "user_id": part.ids.users.take(np.repeat(part.users, part.k)),
                "item_id": part.ids.items.take(part.items[shown]),
                "rank": ranks[shown],
                "score": part.scores[shown],
                "probability": part.probabilities[shown],
            }
        )

    def choose(self, user_id: Any, item_ids: Any, scores: npt.ArrayLike) -> Chosen:
        """One user's list out of these candidates, at once and without any frame.

        The same length and values as ``sizes`` and ``recommend`` give for the same candidates:
        what the user has seen is left out, and users and items that the model does not know are
        ordinary ones. Equal scores go by the place of the items in ``ids``, unknown items after
        them as they were given. A user without any candidate gets an empty list. May be called
        from many threads at once; the first call takes longer, see ``topperk.online``.
        """
        with _MAKING_A_DESK:
            desk = self._desk
        return desk.choose(user_id, item_ids, scores)

    @cached_property
    def _desk(self) -> Desk:
        return Desk(self.ids, self.seen.offsets, self.seen.items, self.max_k, self.policy)

    def curves(
        self,
        scores: ScoreSource,
        users: Iterable[Any] | None = None,
        *,
        on_missing: OnMissing = "error",
        progress: Progress | None = None,
    ) -> Any:
        """The expected utility of every length: ``user_id, k, expected_utility``, k from 0.

        Methods that estimate no utility have no curves. ``on_missing`` is about users without any
        candidate, as in ``sizes``.
        """
        if self.utility is None:
            raise SettingError(
                f"the method {self.name!r} estimates no utility, so it has no curves. "
                "Fit PersonalizedK for curves."
            )

        def rows(part: ListSizes) -> pl.DataFrame:
            known = ~np.isnan(part.curves)
            ks = np.broadcast_to(np.arange(self.max_k + 1, dtype=np.int32), known.shape)
            return pl.DataFrame(
                {
                    "user_id": part.ids.users.take(np.repeat(part.users, known.sum(axis=1))),
                    "k": ks[known],
                    "expected_utility": part.curves[known],
                }
            )

        return self._frame(rows, scores, users, on_missing, progress)

    def save(self, path: str | Path) -> None:
        """Write the model to a folder, replacing an older one whole or not at all."""
        from topperk.saved import save

        save(self, path)

    def blocks(
        self,
        scores: ScoreSource,
        users: Iterable[Any] | None = None,
        *,
        on_missing: OnMissing = "error",
        progress: Progress | None = None,
        alignment: Alignment | None = None,
    ) -> Generator[ListSizes, None, None]:
        """Lengths and lists of some users at a time, as arrays."""
        check_choice("on_missing", on_missing, ("error", "skip"))
        check_scores(scores)
        check_progress(progress)
        given = listed_users(users)
        ids = scores.ids
        if self.max_k > ids.n_items:
            raise SettingError(
                f"max_k is {self.max_k} but the scores hold only {ids.n_items:,} items. "
                f"Fit with max_k of at most {ids.n_items}."
            )
        alignment = alignment or align(ids, self.ids)
        if (alignment.items < 0).all():
            raise IdError(
                f"the model knows none of the scores' {ids.n_items:,} items. "
                "Check that both carry the same kind of item ids."
            )
        if given is None:
            chosen = np.arange(ids.n_users, dtype=np.int32)
        else:
            chosen = ids.users.codes(given, "users")
            if (chosen < 0).any():
                unknown = given[int(np.argmax(chosen < 0))]
                raise IdError(
                    f"there are no scores for user {unknown!r}. "
                    f"Choose among the {ids.n_users:,} users of the scores."
                )

        tiles = Tiles.of(self.policy, scores, alignment, self.seen)

        def by_block(some: IntArray) -> tuple[Decision, IntArray]:
            block, rows = block_of(scores, some, alignment, [self.seen], look=False)
            lists = partial(_looked_at, block, self.max_k, ids)
            decision = self.policy.decide(block, rows, lists, ids)
            return decision, block.items_at(decision.lists.positions)

        def decide(some: IntArray) -> ListSizes:
            rows = alignment.rows[some]
            if tiles is None:
                decision, items = by_block(some)
            else:
                decision = tiles.decide(some, rows, most)
                items = decision.lists.positions
            lengths = decision.lists.lengths
            if on_missing == "error" and (lengths == 0).any():
                name = ids.users.name(int(some[np.argmin(lengths)]))
                raise ScoreError(
                    f"user {name} has no candidate left: every scored item is known to the user or "
                    "minus infinity. Leave the user out, or pass on_missing='skip' for an empty "
                    "list."
                )
            return ListSizes(
                ids=ids,
                users=some,
                rows=rows,
                k=decision.k,
                expected_utility=decision.at_length(),
                expected_relevant=decision.sum_to_length(),
                reasons=np.where(
                    lengths == 0, np.uint8(Reason.NO_CANDIDATES.code), decision.reasons
                ),
                items=items,
                scores=decision.lists.scores,
                probabilities=decision.probabilities,
                curves=decision.curves,
            )

        per_user = bytes_per_user(self.max_k, ids.n_items)
        size = most = current().users_per_block(ids.n_items, per_user)
        if tiles is not None:
            size = current().users_per_tile(ids.n_items, tiles.bytes_per_user)
        yield from over_users(decide, chosen, size, "choosing lengths", progress)

    def _frame(
        self,
        rows: Callable[[ListSizes], pl.DataFrame],
        scores: ScoreSource,
        users: Iterable[Any] | None,
        on_missing: OnMissing,
        progress: Progress | None,
    ) -> Any:
        parts = [
            rows(part)
            for part in self.blocks(scores, users, on_missing=on_missing, progress=progress)
        ]
        whole = pl.concat(parts) if parts else rows(_nobody(scores.ids, self.max_k))
        return from_polars(whole, scores.ids.frame_kind)


def _looked_at(block: ScoreBlock, max_k: int, ids: Ids) -> Lists:
    check_usable(block, ids)
    return top_of_block(block, max_k)


def _nobody(ids: Ids, max_k: int) -> ListSizes:
    """The answer about no user at all, which has columns but no rows."""
    codes, numbers = np.empty(0, dtype=np.int32), np.empty(0)
    lists = np.empty((0, max_k))
    return ListSizes(
        ids=ids,
        users=codes,
        rows=codes,
        k=codes,
        expected_utility=numbers,
        expected_relevant=numbers,
        reasons=np.empty(0, dtype=np.uint8),
        items=lists.astype(np.int32),
        scores=lists,
        probabilities=lists,
        curves=np.empty((0, max_k + 1)),
    )
