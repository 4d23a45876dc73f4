"""Candidates in blocks: a source's scores, without what each user has seen.

The ids of a source need not be those of the interactions or of a fitted model (the *reference*):
an ``Alignment`` says how the codes of the one read in the other, and every pass over a source goes
through ``over_blocks``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, TypeVar

import numpy as np

from topperk._kernels.arrays import IntArray, OffsetArray
from topperk._kernels.ranking import positions_of
from topperk._score_checks import check_shape, check_usable, refuse_score_at
from topperk._settings import check_choice
from topperk.errors import IdError
from topperk.ids import IdIndex, Ids
from topperk.progress import Progress
from topperk.scores import ScoreBlock, ScoreSource
from topperk.threads import current, in_order

OnMissing: TypeAlias = Literal["error", "skip"]
R = TypeVar("R")


class Part(Protocol):
    """Which items belong to which user, as in Interactions."""

    @property
    def offsets(self) -> OffsetArray: ...
    @property
    def items(self) -> IntArray: ...


@dataclass(frozen=True, eq=False)
class Alignment:
    """How codes relate; -1 where the other side does not know one.

    ``rows``: the reference's user of each source user; ``items``: the source's item of each
    reference item.
    """

    rows: IntArray
    items: IntArray


def align(
    source: Ids, reference: Ids, here: str = "the scores'", there: str = "the interactions'"
) -> Alignment:
    """Relate the codes of a source to those of the reference.

    ``here`` and ``there`` say in messages whose ids the two are.
    """
    if source is reference:
        users = np.arange(source.n_users, dtype=np.int32)
        items = np.arange(source.n_items, dtype=np.int32)
        return Alignment(users, items)
    return Alignment(
        reference.users.codes(source.users.values, f"{here} users"),
        source.items.codes(reference.items.values, f"{there} items"),
    )


def align_whole(source: ScoreSource, reference: Ids, on_missing: OnMissing) -> Alignment:
    """``align``, and IdError where one side knows a user or item that the other does not.

    With ``on_missing="skip"`` such users are passed over, and such items are ordinary candidates
    that nobody has seen, or can not be recommended. A source of retrieved candidates may lack
    items in any case.
    """
    check_choice("on_missing", on_missing, ("error", "skip"))
    ids = source.ids
    alignment = align(ids, reference)
    if on_missing == "skip":
        return alignment
    _refuse(alignment.rows < 0, ids.users, "user", "the scores", "the interactions")
    known = np.zeros(reference.n_users, dtype=np.bool_)
    known[alignment.rows[alignment.rows >= 0]] = True
    _refuse(~known, reference.users, "user", "the interactions", "the scores")
    known = np.zeros(ids.n_items, dtype=np.bool_)
    known[alignment.items[alignment.items >= 0]] = True
    _refuse(~known, ids.items, "item", "the scores", "the interactions")
    if source.scores_every_item:
        _refuse(alignment.items < 0, reference.items, "item", "the interactions", "the scores")
    return alignment


def _refuse(
    unknown: np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
    index: IdIndex,
    kind: str,
    here: str,
    there: str,
) -> None:
    if unknown.any():
        name = index.name(int(np.argmax(unknown)))
        others = int(unknown.sum()) - 1
        too = (
            f" (nor {'is 1 other' if others == 1 else f'are {others:,} others'})" if others else ""
        )
        raise IdError(
            f"{kind} {name} of {here} is not among {there}{too}. "
            f"Bring the two to the same {kind}s, or pass on_missing='skip'."
        )


def block_of(
    source: ScoreSource,
    users: IntArray,
    alignment: Alignment,
    seen: Sequence[Part],
    *,
    look: bool = True,
) -> tuple[ScoreBlock, IntArray]:
    """The candidates of ``users`` (source codes), and who these are in the reference.

    What a user has in one of ``seen`` is minus infinity. NaN and plus infinity are errors; without
    ``look`` the work looks for them itself (``check_usable``).
    """
    block = source.block(users)
    check_shape(block, users, source.ids)
    if look:
        check_usable(block, source.ids)
    rows = alignment.rows[block.users]
    for part in seen:
        leave_out(part, block, rows, alignment, source.ids)
    return block, rows


def leave_out(
    part: Part, block: ScoreBlock, rows: IntArray, alignment: Alignment, ids: Ids
) -> None:
    """Set what users have in ``part`` to minus infinity; ScoreError where it is NaN or infinite.

    Cost: proportional to the part (times a binary search where the block's items are named).
    """
    positions, offsets = positions_in(block, rows, part, alignment)
    at = np.repeat(block.offsets[:-1], np.diff(offsets)) + positions
    usable = block.scores[at] < np.inf
    if not usable.all():
        refuse_score_at(int(at[np.argmin(usable)]), block, ids)
    block.scores[at] = -np.inf


def over_users(
    work: Callable[[IntArray], R],
    users: IntArray,
    size: int,
    stage: str,
    progress: Progress | None = None,
) -> Iterator[R]:
    """``work(some)`` over ``users``, ``size`` at a time and in their order.

    Several threads work at once: see ``threads``.
    """

    def on_some(begin: int) -> tuple[R, int]:
        some = users[begin : begin + size]
        return work(some), begin + some.size

    if progress is not None:
        progress(stage, 0, users.size)
    for result, done in in_order(on_some, range(0, users.size, size)):
        yield result
        if progress is not None:
            progress(stage, done, users.size)


def over_blocks(
    work: Callable[[ScoreBlock, IntArray], R],
    source: ScoreSource,
    users: IntArray,
    alignment: Alignment,
    seen: Sequence[Part],
    stage: str,
    progress: Progress | None = None,
) -> Iterator[R]:
    """``work(block, rows)`` over the candidates of ``users`` (source codes), in their order."""

    def on_some(some: IntArray) -> R:
        return work(*block_of(source, some, alignment, seen))

    size = current().users_per_block(source.ids.n_items)
    return over_users(on_some, users, size, stage, progress)


def positions_in(
    own: Part, rows: IntArray, part: Part, alignment: Alignment
) -> tuple[IntArray, OffsetArray]:
    """Where a part's items stand among each user's own (a block's), and each user's share."""
    known = rows[rows >= 0]
    room = int((part.offsets[known + 1] - part.offsets[known]).sum())
    positions = np.empty(room, dtype=np.int32)
    offsets = np.empty(rows.size + 1, dtype=np.int64)
    positions_of(
        own.items,
        own.offsets,
        rows,
        part.offsets,
        part.items,
        alignment.items,
        positions,
        offsets,
    )
    return positions[: offsets[-1]], offsets
