"""Blocks of scores: what is left out, what is best, and what was hit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from hypothesis import example, given
from hypothesis import strategies as st

import oracle
import strategies
from topperk import Ids, ScoreBlock
from topperk._blocks import Alignment, leave_out
from topperk._kernels import ranking
from topperk._outcomes import Lists, hits_of
from topperk.fitted import Seen

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]
EVERY_ITEM = np.empty(0, dtype=np.int32)
N_ITEMS = 8


@dataclass(frozen=True)
class Block:
    """Some users' candidates, and a part (seen, positives) of other users in other item codes."""

    scores: Array
    offsets: Offsets
    items: Codes
    rows: Codes
    part: list[list[int]]
    code_of: Codes

    def candidates(self, u: int) -> list[int]:
        """The items that user ``u``'s scores belong to, in order."""
        begin, end = self.offsets[u], self.offsets[u + 1]
        if self.items.size == 0:
            return list(range(end - begin))
        return [int(item) for item in self.items[begin:end]]

    def own(self, u: int) -> list[int]:
        """What user ``u`` has of the part, in the block's codes, the unscored left out."""
        if self.rows[u] < 0:
            return []
        return [int(self.code_of[i]) for i in self.part[self.rows[u]] if self.code_of[i] >= 0]

    @property
    def flat_part(self) -> tuple[Offsets, Codes]:
        sizes = [len(items) for items in self.part]
        flat = [item for items in self.part for item in items]
        return np.cumsum([0, *sizes]).astype(np.int64), np.array(flat, dtype=np.int32)


@st.composite
def blocks(draw: st.DrawFn) -> Block:
    """With every item or with named candidates (some users, or all, without any)."""
    n_users = draw(st.integers(1, 4))
    every = draw(st.booleans())
    some = st.sets(st.integers(0, N_ITEMS - 1)).map(sorted)
    named = [list(range(N_ITEMS)) if every else draw(some) for _ in range(n_users)]
    offsets = np.cumsum([0, *map(len, named)]).astype(np.int64)
    items = np.array([i for own in named for i in own], dtype=np.int32)
    scores = np.arange(items.size, dtype=np.float64)
    n_rows = draw(st.integers(1, 4))
    rows = draw(st.lists(st.integers(-1, n_rows - 1), min_size=n_users, max_size=n_users))
    # the part has items of its own: some in another order, one unknown to the block
    codes = np.array([*draw(st.permutations(range(N_ITEMS))), -1], dtype=np.int32)
    part = [draw(st.sets(st.integers(0, N_ITEMS)).map(sorted)) for _ in range(n_rows)]
    return Block(
        scores,
        offsets,
        EVERY_ITEM if every else items,
        np.array(rows, dtype=np.int32),
        part,
        codes,
    )


NOBODY_HAS_ANY = Block(
    np.empty(0),
    np.zeros(3, dtype=np.int64),
    EVERY_ITEM,
    np.array([0, 0], dtype=np.int32),
    [[0, 1, 2]],
    np.arange(3, dtype=np.int32),
)


# --- leaving out ------------------------------------------------------------------------------


def left_out(block: Block, scores: Array) -> Array:
    """The scores without what each user has seen."""
    users = np.arange(block.rows.size, dtype=np.int32)
    there = ScoreBlock(users, scores.copy(), block.offsets, block.items)
    seen = Seen(*block.flat_part)
    alignment = Alignment(block.rows, block.code_of)
    ids = Ids.of(users=users, items=[0])
    leave_out(seen, there, block.rows, alignment, ids)
    return np.asarray(there.scores)


@given(blocks())
def test_what_was_seen_is_left_out_and_nothing_else(block: Block) -> None:
    found = left_out(block, block.scores)
    for u in range(block.rows.size):
        begin, end = block.offsets[u], block.offsets[u + 1]
        by_item = dict(zip(block.candidates(u), block.scores[begin:end], strict=True))
        wanted = oracle.excluded(by_item, block.own(u))
        assert found[begin:end].tolist() == list(wanted.values())


@given(blocks())
def test_a_part_stands_where_its_items_are_among_the_candidates(block: Block) -> None:
    part_offsets, part_items = block.flat_part
    room = sum(len(block.part[row]) for row in block.rows if row >= 0)
    out = np.full(room, -9, dtype=np.int32)
    out_offsets = np.full(block.rows.size + 1, -9, dtype=np.int64)
    ranking.positions_of(
        block.items,
        block.offsets,
        block.rows,
        part_offsets,
        part_items,
        block.code_of,
        out,
        out_offsets,
    )
    assert out_offsets[0] == 0
    for u in range(block.rows.size):
        there = block.candidates(u)
        wanted = [there.index(item) for item in block.own(u) if item in there]
        assert out[out_offsets[u] : out_offsets[u + 1]].tolist() == wanted


def test_nothing_is_written_where_nobody_has_a_candidate() -> None:
    # such a block looks as one that holds every item: its items are empty too
    block = NOBODY_HAS_ANY
    part_offsets, part_items = block.flat_part
    beyond = left_out(block, np.arange(6.0))
    assert beyond.tolist() == list(range(6))
    out = np.full(6, -9, dtype=np.int32)
    out_offsets = np.full(3, -9, dtype=np.int64)
    ranking.positions_of(
        block.items,
        block.offsets,
        block.rows,
        part_offsets,
        part_items,
        block.code_of,
        out,
        out_offsets,
    )
    assert out_offsets.tolist() == [0, 0, 0]
    assert out.tolist() == [-9] * 6


# --- the best ---------------------------------------------------------------------------------


@given(strategies.ragged(strategies.scores(), 1), st.integers(0, 35), st.booleans())
@example([np.zeros(0), np.full(4, -np.inf), np.zeros(9)], 3, False)
@example([np.arange(30.0), -np.arange(30.0), np.array([1.0, 0.0] * 15)], 7, True)
def test_the_best_come_in_order_and_ties_by_item(
    users: list[Array], capacity: int, single: bool
) -> None:
    if single:
        users = [np.clip(own, -1e38, 1e38).astype(np.float32) for own in users]
    flat, offsets = strategies.flat(users)
    flat = flat.astype(users[0].dtype)
    given_scores = flat.copy()
    top = np.full((len(users), capacity), np.nan, dtype=flat.dtype)
    positions = np.full((len(users), capacity), -9, dtype=np.int32)
    lengths = ranking.top_lists(flat, offsets, top, positions)
    assert np.array_equal(flat, given_scores)
    for u, own in enumerate(users):
        wanted = oracle.top_positions(own, capacity)
        empty = capacity - len(wanted)
        assert lengths[u] == len(wanted)
        assert positions[u].tolist() == wanted + [-1] * empty
        assert top[u].tolist() == [own[i] for i in wanted] + [-np.inf] * empty


def test_the_best_of_many_with_ties_are_those_of_sorting() -> None:
    rng = np.random.default_rng(0)
    scores = np.round(rng.normal(size=20_000), 2)
    for capacity in (1, 2, 50, 1_000, 20_000, 20_001):
        top = np.empty(capacity)
        positions = np.empty(capacity, dtype=np.int32)
        n = ranking.top_of(scores, top, positions)
        wanted = np.lexsort((np.arange(scores.size), -scores))[:capacity]
        assert n == wanted.size
        assert np.array_equal(positions[:n], wanted)
        assert np.array_equal(top[:n], scores[wanted])


# --- hits -------------------------------------------------------------------------------------


@given(st.data())
def test_hits_are_the_listed_positives(data: st.DataObject) -> None:
    n_users, capacity = data.draw(st.integers(0, 5)), data.draw(st.integers(0, 6))
    place = st.integers(-1, N_ITEMS - 1)
    row = st.lists(place, min_size=capacity, max_size=capacity)
    lists = np.array([data.draw(row) for _ in range(n_users)], dtype=np.int32)
    lists = lists.reshape(n_users, capacity)
    positives = [data.draw(st.lists(st.integers(0, N_ITEMS - 1))) for _ in range(n_users)]
    flat = np.array([i for own in positives for i in own], dtype=np.int32)
    offsets = np.cumsum([0, *map(len, positives)]).astype(np.int64)
    rows = np.arange(n_users, dtype=np.int32)
    every_item = np.arange(n_users + 1, dtype=np.int64) * N_ITEMS
    block = ScoreBlock(rows, np.zeros(n_users * N_ITEMS), every_item, EVERY_ITEM)
    alignment = Alignment(rows, np.arange(N_ITEMS, dtype=np.int32))
    listed = Lists(lists.astype(np.float64), lists, np.full(n_users, capacity, dtype=np.int32))
    found = hits_of(block, rows, listed, Seen(offsets, flat), alignment)
    wanted = [oracle.hits_of(list(own), positives[u]) for u, own in enumerate(lists)]
    assert found.tolist() == wanted
