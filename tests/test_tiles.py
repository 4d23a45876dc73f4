"""Lists of a matrix product that comes in tiles: the lists of the same scores in whole blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topperk as tp
from topperk import _scan, _tiles, threads
from topperk._blocks import align
from topperk._policies import PersonalPolicy
from topperk._tiles import Known
from topperk.calibration import Convergence
from topperk.errors import ScoreError
from topperk.fitted import FittedK, Seen

UTILITIES = (tp.F1(), tp.NDCG(), tp.PDCG())


def a_model(
    ids: tp.Ids, utility: tp.Utility, random: np.random.Generator, *, max_k: int, mean_logit: float
) -> FittedK:
    """Users of different slopes, some of them not positive, who have seen a tenth of the items."""
    n = ids.n_users
    slope = random.uniform(-0.2, 1.5, n + 1)
    calibration = tp.PlattCalibration(
        users=ids.users,
        scale="logit",
        correction="odds",
        slope=slope,
        intercept=random.normal(mean_logit, 1.0, n + 1),
        adjustment=np.zeros(n + 1),
        reason=np.full(n + 1, tp.Reason.OWN_FIT.code, dtype=np.uint8),
        converged=np.ones(n + 1, dtype=np.bool_),
        convergence=Convergence(),
    )
    seen = random.random((n, ids.n_items)) < 0.1
    offsets = np.concatenate([[0], np.cumsum(seen.sum(axis=1))]).astype(np.int64)
    known = Seen(offsets, np.nonzero(seen)[1].astype(np.int32))
    policy = PersonalPolicy(utility, 0, max_k, calibration, "exact", 10)
    return FittedK("personal", ids, known, 0, max_k, policy)


def whole_numbers(random: np.random.Generator, *shape: int) -> npt.NDArray[np.float32]:
    """Vectors whose products are exact, so that ties are ties whatever BLAS does."""
    return random.integers(-3, 4, shape).astype(np.float32)


def parts(model: FittedK, source: tp.ScoreSource, **given: Any) -> dict[str, npt.NDArray[Any]]:
    found = list(model.blocks(source, on_missing="skip", **given))
    names = ("users", "k", "items", "scores", "probabilities", "curves", "reasons")
    return {name: np.concatenate([getattr(part, name) for part in found]) for name in names}


def agree(tiled: dict[str, npt.NDArray[Any]], whole: dict[str, npt.NDArray[Any]]) -> None:
    for name in ("users", "items", "scores", "probabilities", "reasons"):
        assert np.array_equal(tiled[name], whole[name]), name
    np.testing.assert_allclose(tiled["curves"], whole["curves"], rtol=1e-6, atol=1e-9)
    for u in np.flatnonzero(tiled["k"] != whole["k"]):
        values = whole["curves"][u, [tiled["k"][u], whole["k"][u]]]
        assert abs(values[0] - values[1]) < 2e-6 * abs(values).max()


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 5),
    st.sampled_from([12, 63, 64, 65, 200, 700]),
    st.sampled_from([64, 100, 128, 5_000]),
    st.sampled_from([0, 20, 1_000]),
    st.sampled_from([-6.0, -2.0]),
    st.sampled_from(UTILITIES),
)
def test_tiles_give_what_whole_blocks_give(
    seed: int,
    n_users: int,
    n_items: int,
    tile: int,
    room: int,
    mean_logit: float,
    utility: tp.Utility,
) -> None:
    random = np.random.default_rng(seed)
    ids = tp.Ids.of(users=range(n_users), items=range(n_items))
    source = tp.Factors(
        whole_numbers(random, n_users, 3),
        whole_numbers(random, n_items, 3),
        ids,
        whole_numbers(random, n_users),
        whole_numbers(random, n_items),
    )
    model = a_model(ids, utility, random, max_k=12, mean_logit=mean_logit)
    matrix = source.block(np.arange(n_users, dtype=np.int32)).scores.reshape(n_users, n_items)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_tiles, "TILE", tile)
        patch.setattr(_scan, "NEAR", room)  # without room everybody is done by the block
        tiled = parts(model, source)
    agree(tiled, parts(model, tp.Dense(matrix, ids)))


def test_few_are_left_to_the_block() -> None:
    random = np.random.default_rng(1)
    ids = tp.Ids.of(users=range(50), items=range(9_000))
    source = tp.Factors(
        random.normal(0.0, 0.6, (50, 8)).astype(np.float32),
        random.normal(0.0, 0.6, (9_000, 8)).astype(np.float32),
        ids,
    )
    model = a_model(ids, tp.F1(), random, max_k=50, mean_logit=-7.0)
    tiles = _tiles.Tiles.of(model.policy, source, align(ids, ids), model.seen)
    assert tiles is not None
    asked: list[int] = []
    inner = tp.Factors.block

    def block(self: tp.Factors, users: npt.NDArray[np.int32]) -> tp.ScoreBlock:
        asked.extend(users.tolist())
        return inner(self, users)

    users = np.arange(50, dtype=np.int32)
    served = tiles.calibration.slope[:-1] > 0.05
    assert served.sum() > 30
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tp.Factors, "block", block)
        tiles.decide(users, users, 50)
    assert set(asked) == set(users[tiles.calibration.slope[:-1] <= 0.0].tolist())
    assert not set(asked) & set(users[served].tolist())


def test_who_is_left_to_the_block_comes_in_blocks_within_the_limit() -> None:
    random = np.random.default_rng(4)
    ids = tp.Ids.of(users=range(40), items=range(300))
    source = tp.Factors(whole_numbers(random, 40, 3), whole_numbers(random, 300, 3), ids)
    model = a_model(ids, tp.F1(), random, max_k=5, mean_logit=-4.0)
    matrix = source.block(np.arange(40, dtype=np.int32)).scores.reshape(40, 300)
    asked: list[int] = []
    inner = tp.Factors.block

    def block(self: tp.Factors, users: npt.NDArray[np.int32]) -> tp.ScoreBlock:
        asked.append(users.size)
        return inner(self, users)

    with pytest.MonkeyPatch.context() as patch, tp.resources(1, 300 * (40 + 24 * 3)):
        patch.setattr(_scan, "NEAR", -10)  # room for next to nothing: nobody is served
        patch.setattr(tp.Factors, "block", block)
        tiled = parts(model, source)
    assert sum(asked) == 40
    assert max(asked) <= 3
    agree(tiled, parts(model, tp.Dense(matrix, ids)))


@pytest.mark.parametrize("order", ["kept", "turned"])
def test_ids_in_another_order_and_unknown_ones(order: str) -> None:
    random = np.random.default_rng(3)
    ids = tp.Ids.of(users=range(20), items=range(300))
    model = a_model(ids, tp.F1(), random, max_k=20, mean_logit=-4.0)
    items = np.arange(-20, 280) if order == "kept" else np.arange(280, -20, -1)
    users = np.arange(25)[::-1].copy()
    others = tp.Ids.of(users=users, items=items)
    source = tp.Factors(whole_numbers(random, 25, 3), whole_numbers(random, 300, 3), others)
    matrix = source.block(np.arange(25, dtype=np.int32)).scores.reshape(25, 300)
    agree(parts(model, source), parts(model, tp.Dense(matrix, others)))


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(1, 9))
def test_what_is_known_ascends_in_the_codes_of_the_source(
    seed: int, n_users: int, n_items: int
) -> None:
    random = np.random.default_rng(seed)
    reference = tp.Ids.of(users=range(n_users), items=range(n_items))
    chosen = random.permutation(n_items + 3)[: random.integers(1, n_items + 3)]
    source = tp.Ids.of(users=range(n_users), items=chosen)
    seen = random.random((n_users, n_items)) < 0.5
    offsets = np.concatenate([[0], np.cumsum(seen.sum(axis=1))]).astype(np.int64)
    items = [random.permutation(np.flatnonzero(own)) for own in seen]  # in any order
    part = Seen(offsets, np.concatenate(items).astype(np.int32))
    known = Known.to(align(source, reference), part)
    place = {int(item): code for code, item in enumerate(chosen)}
    for u in range(n_users):
        own = sorted(place[i] for i in np.flatnonzero(seen[u]).tolist() if i in place)
        assert known.items[known.offsets[u] : known.offsets[u + 1]].tolist() == own


def test_a_product_that_overflows_is_named() -> None:
    ids = tp.Ids.of(users=["a", "b"], items=range(30))
    large = np.full((30, 1), 1.0, dtype=np.float32)
    large[17] = 3e38
    source = tp.Factors(np.array([[1.0], [9.0]], dtype=np.float32), large, ids)
    model = a_model(ids, tp.F1(), np.random.default_rng(0), max_k=5, mean_logit=-3.0)
    with pytest.raises(ScoreError, match="item 17 for user 'b' is plus infinity"):
        model.sizes(source)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_large_arrays_are_made_once_for_each_worker(n_jobs: int) -> None:
    random = np.random.default_rng(6)
    ids = tp.Ids.of(users=range(300), items=range(200))
    source = tp.Factors(whole_numbers(random, 300, 3), whole_numbers(random, 200, 3), ids)
    model = a_model(ids, tp.F1(), random, max_k=5, mean_logit=-4.0)
    made: list[int] = []

    class Counted(_scan.Room):
        def __init__(self, max_k: int, n_users: int, longest: int) -> None:
            made.append(n_users)
            super().__init__(max_k, n_users, longest)

    with pytest.MonkeyPatch.context() as patch, tp.resources(n_jobs):
        patch.setattr(threads, "TILED_USERS", 20)
        patch.setattr(threads, "MOST_TILED_USERS", 20)
        patch.setattr(_tiles, "Room", Counted)
        blocks = list(model.blocks(source, on_missing="skip"))
    assert len(blocks) == 15
    assert 1 <= len(made) <= n_jobs
    whole = parts(model, source)
    assert np.array_equal(np.concatenate([part.items for part in blocks]), whole["items"])


def test_a_tile_is_a_part_of_the_block() -> None:
    random = np.random.default_rng(2)
    ids = tp.Ids.of(users=range(6), items=range(50))
    source = tp.Factors(
        whole_numbers(random, 6, 3), whole_numbers(random, 50, 3), ids, None,
        whole_numbers(random, 50),
    )  # fmt: skip
    users = np.array([4, 0, 4], dtype=np.int32)
    out = np.empty((3, 13), dtype=np.float32)
    source.tile(users, 37, out)
    assert np.array_equal(out, source.block(users).scores.reshape(3, 50)[:, 37:])
