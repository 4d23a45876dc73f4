"""Threads and blocks: the same bits whatever their number, and an end that leaves nothing."""

from __future__ import annotations

import threading
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

import topperk as tp
from contracts import in_blocks_of
from topperk import threads
from topperk._scan import bytes_per_user
from topperk.datasets.simulated import World, simulate_world
from topperk.errors import ScoreError, SettingError


@pytest.fixture(scope="module")
def world() -> World:
    return simulate_world(n_users=150, n_items=300, seed=4)


def answers(world: World, scores: tp.ScoreSource) -> list[Any]:
    """Everything that passes over a source in blocks."""
    found: list[Any] = []
    for calibrator in (tp.UserPlatt(prior="population"), tp.GlobalPlatt("ratio")):
        model = tp.PersonalizedK(tp.NDCG(), max_k=20, calibrator=calibrator).fit(
            scores, world.split
        )
        assert isinstance(model.calibration, tp.PlattCalibration)
        found += [model.calibration.parameters(), model.calibration.population]
        found += [model.sizes(scores), model.recommend(scores), model.curves(scores)]
        judged = tp.reliability_of(model.calibration, scores, world.split, top=10)
        found += [judged.table(), judged.brier, judged.log_loss]
    methods = tp.usual_methods(tp.F1(), max_k=20)
    found.append(tp.evaluate(methods, scores, world.split, tp.F1()).summary())
    return found


def same(one: Any, other: Any) -> bool:
    if hasattr(one, "equals"):
        return bool(one.equals(other))
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    if isinstance(one, dict):
        return all(same(one[name], other[name]) for name in one)
    if isinstance(one, (tuple, list)):
        return all(map(same, one, other))
    return bool(one == other)


@pytest.mark.parametrize("kind", ["factors", "matrix", "function", "candidates"])
def test_any_number_of_threads_gives_the_same_bits(
    world: World, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_blocks_of(20 * 300, monkeypatch)  # eight blocks
    factors = world.scores
    matrix = np.stack([factors.block(np.array([u], np.int32)).scores for u in range(150)])
    users, items = np.meshgrid(range(150), range(0, 300), indexing="ij")
    scores: tp.ScoreSource = {
        "factors": lambda: factors,
        "matrix": lambda: tp.Dense(matrix, world.ids),
        "function": lambda: tp.Callable(lambda asked: matrix[asked], world.ids),
        "candidates": lambda: tp.Candidates(
            {
                "user_id": world.ids.users.take(users.ravel().astype(np.int32)),
                "item_id": world.ids.items.take(items.ravel().astype(np.int32)),
                "score": matrix.ravel(),
            }
        ),
    }[kind]()
    with tp.resources(n_jobs=1):
        wanted = answers(world, scores)
    for n_jobs in (2, 5, None):
        with tp.resources(n_jobs=n_jobs):
            for found, one in zip(answers(world, scores), wanted, strict=True):
                assert same(found, one)


def test_a_limit_of_memory_makes_smaller_blocks_and_the_same_lengths(world: World) -> None:
    largest = []

    def rows(users: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        largest.append(users.size)
        return np.sin(users[:, None] * 1.7 + np.arange(300, dtype=np.float32))

    scores = tp.Callable(rows, world.ids)
    model = tp.PersonalizedK(tp.F1(), max_k=20).fit(scores, world.split)
    assert max(largest) == 150
    wanted = model.sizes(scores)["k"]
    largest.clear()
    with tp.resources(n_jobs=2, memory_limit="100 kB") as taken:
        assert model.sizes(scores)["k"].equals(wanted)
        lists = bytes_per_user(model.max_k, 300)
        most = max(largest)
        assert most == taken.users_per_block(300, lists)
        per_user = threads.BYTES_PER_PAIR * 300 + lists
        assert 2 * (most * per_user + 300 * threads.SCRATCH_PER_ITEM) <= 100_000


def test_blocks_follow_the_catalogue() -> None:
    usual = tp.threads.Resources()
    assert usual.users_per_block(1_000) == 2_000
    assert usual.users_per_block(100_000) == 256  # fewer would make a slow matrix product
    assert usual.users_per_block(4_000_000) == 8  # and more would be gigabytes
    assert usual.users_per_block(10**9) == 1
    assert usual.users_per_block(0) == threads.MOST_USERS
    assert usual.users_per_tile(112_000, 20_000) == 256
    assert usual.users_per_tile(0, 20_000) == usual.users_per_tile(100, 20_000) == 1024


@given(st.integers(1, 10**7), st.integers(1, 10**12), st.integers(1, 64), st.integers(0, 10**5))
def test_blocks_stay_within_the_limit_if_one_user_fits(
    n_items: int, limit: int, n_jobs: int, of_lists: int
) -> None:
    taken = tp.threads.Resources(n_jobs, limit)
    scratch = n_items * threads.SCRATCH_PER_ITEM
    users = taken.users_per_block(n_items, of_lists)
    per_user = n_items * threads.BYTES_PER_PAIR + of_lists
    assert users >= 1
    assert users == 1 or n_jobs * (users * per_user + scratch) <= limit
    users = taken.users_per_tile(n_items, of_lists + 1)
    assert users >= 1
    assert users == 1 or n_jobs * (users * (of_lists + 1) + scratch) <= limit


@pytest.mark.parametrize("n_items", [20, 300, 1_100])
def test_lists_of_a_small_catalogue_stay_within_the_limit(n_items: int) -> None:
    random = np.random.default_rng(0)
    ids = tp.Ids.of(users=range(3_000), items=range(n_items))
    dense = tp.Dense(random.normal(-4.0, 1.0, (3_000, n_items)).astype(np.float32), ids)
    held = np.arange(3_000, dtype=np.int32) % n_items
    part = tp.Interactions(ids, np.arange(3_001, dtype=np.int64), held)
    nothing = tp.Interactions(ids, np.zeros(3_001, dtype=np.int64), held[:0])
    split = tp.Split(nothing, part, nothing, "given")
    calibrator = tp.Uncalibrated()
    model = tp.PersonalizedK(tp.F1(), max_k=20, calibrator=calibrator).fit(dense, split)
    with tp.resources(n_jobs=1, memory_limit="2 MB"):
        for _ in model.blocks(dense):  # what is made once is made
            pass
        tracemalloc.start()
        for _ in model.blocks(dense):
            pass
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak <= 2_000_000


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("500 MB", 500e6),
        ("1.5GB", 1.5e9),
        ("2 gib", 2 * 2**30),
        ("512 KiB", 512 * 2**10),
        ("900", 900),
        (7, 7),
        (2.5e9, 2.5e9),
        (np.int64(12), 12),
    ],
)
def test_memory_is_given_in_bytes_or_words(text: Any, wanted: float) -> None:
    with tp.resources(memory_limit=text) as taken:
        assert taken.memory_limit == wanted


@pytest.mark.parametrize(
    "settings",
    [
        {"n_jobs": 0},
        {"n_jobs": -2},
        {"n_jobs": 1.5},
        {"n_jobs": True},
        {"memory_limit": 0},
        {"memory_limit": -5},
        {"memory_limit": "much"},
        {"memory_limit": "0 GB"},
        {"memory_limit": "0.5"},
        {"memory_limit": float("nan")},
        {"memory_limit": True},
    ],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingError), tp.resources(**settings):
        pass


def test_resources_hold_within_their_block_alone() -> None:
    before = threads.current()
    with tp.resources(n_jobs=3):
        with tp.resources(n_jobs=1):
            assert threads.current().threads == 1
        assert threads.current().threads == 3
    assert threads.current() is before
    assert before.threads == threads.available_processors()


def blas_threads() -> list[int]:
    return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_blas_has_one_thread_meanwhile_and_its_own_number_again_afterwards(n_jobs: int) -> None:
    np.ones((2, 2)) @ np.ones((2, 2))
    before = blas_threads()
    with tp.resources(n_jobs=n_jobs):
        inside = list(threads.in_order(lambda _: blas_threads(), range(6)))
        assert all(set(found) == {1} for found in inside)
        for _ in threads.in_order(lambda item: item, range(50)):
            break  # whoever takes the results may stop
        with pytest.raises(ZeroDivisionError):
            list(threads.in_order(lambda item: 1 // item, range(-3, 3)))
    assert blas_threads() == before


@pytest.mark.parametrize("first_to_end", [0, 1])
def test_computations_that_overlap_leave_blas_as_it_was(first_to_end: int) -> None:
    np.ones((2, 2)) @ np.ones((2, 2))
    with threadpool_limits(2, user_api="blas"):
        streams = [threads.in_order(lambda item: item, range(5)) for _ in range(2)]
        for stream in streams:
            next(stream)
        streams.pop(first_to_end).close()
        assert set(blas_threads()) == {1}
        streams.pop().close()
        assert set(blas_threads()) == {2}


def test_results_come_in_order_and_few_are_kept_waiting() -> None:
    ahead, done = [], 0

    def work(item: int) -> int:
        time.sleep(0.001 * (item % 7 == 0))
        ahead.append(item - done)
        return item

    with tp.resources(n_jobs=4):
        for item in threads.in_order(work, range(200)):
            assert item == done
            done += 1
    assert max(ahead) <= 5


def interrupted(results: Iterator[Any]) -> None:
    for _ in results:
        raise KeyboardInterrupt


def test_an_interruption_drops_what_has_not_begun() -> None:
    begun = []

    def work(item: int) -> None:
        begun.append(item)
        time.sleep(0.05)

    with tp.resources(n_jobs=2), pytest.raises(KeyboardInterrupt):
        interrupted(threads.in_order(work, range(10_000)))
    assert len(begun) < 10  # of 10,000, which would take minutes
    assert not [one for one in threading.enumerate() if one.name.startswith("topperk")]


def test_an_error_in_a_thread_is_the_error_of_the_call(world: World) -> None:
    matrix = np.zeros((150, 300), dtype=np.float32)
    matrix[:, 5] = 1.0
    matrix[120, 7] = np.nan
    with tp.resources(n_jobs=3, memory_limit="200 kB"), pytest.raises(ScoreError, match="NaN"):
        tp.PersonalizedK(tp.F1(), max_k=20).fit(tp.Dense(matrix, world.ids), world.split)
