"""The simulated world keeps its word: what it calls probable happens as often as it says."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from contracts import content_of
from topperk import Factors
from topperk.datasets import _drawing
from topperk.datasets.simulated import World, simulate_world
from topperk.errors import IdError, SettingError

Array = npt.NDArray[np.float64]
ARRAYS = [field.name for field in fields(World) if field.name != "split"]


@pytest.fixture(scope="module")
def world() -> World:
    return simulate_world(n_users=500, n_items=400, seed=5, mean_relevant=30.0)


def everybody(world: World) -> npt.NDArray[np.int64]:
    return np.arange(world.ids.n_users)


def happened(world: World, part: str) -> npt.NDArray[np.bool_]:
    """(n_users, n_items): which pairs are in a part."""
    found = np.zeros((world.ids.n_users, world.ids.n_items), dtype=np.bool_)
    interactions = world.split.parts()[part]
    found[interactions.user_codes(), interactions.items] = True
    return found


def z_scores_by_decile(p: Array, came_true: npt.NDArray[np.bool_]) -> Array:
    """How far each tenth of the pairs, by probability, is from its sum, in standard deviations."""
    order = np.argsort(p)
    tenths = np.array_split(order, 10)
    return np.array(
        [(came_true[t].sum() - p[t].sum()) / np.sqrt((p[t] * (1.0 - p[t])).sum()) for t in tenths]
    )


# --- the stated probabilities -----------------------------------------------------------------


def test_relevance_is_as_probable_as_stated(world: World) -> None:
    q = world.relevance_probability(everybody(world))
    relevant = happened(world, "train") | happened(world, "validation") | happened(world, "test")
    z = z_scores_by_decile(q.reshape(-1), relevant.reshape(-1))
    assert np.abs(z).max() < 5.0
    assert np.abs(z_scores_by_decile(1.1 * q.reshape(-1), relevant.reshape(-1))).max() > 5.0


def test_validation_is_as_probable_as_stated(world: World) -> None:
    p = world.true_validation_probability(everybody(world))
    left = ~happened(world, "train")
    assert np.abs(z_scores_by_decile(p[left], happened(world, "validation")[left])).max() < 5.0


def test_test_is_as_probable_as_stated(world: World) -> None:
    p = world.true_probability(everybody(world))
    left = ~happened(world, "train") & ~happened(world, "validation")
    assert np.abs(z_scores_by_decile(p[left], happened(world, "test")[left])).max() < 5.0
    # and not as probable as validation was: the difference can be seen
    less = world.true_validation_probability(everybody(world))
    assert np.abs(z_scores_by_decile(less[left], happened(world, "test")[left])).max() > 5.0


def test_every_user_has_the_count_that_was_stated(world: World) -> None:
    q = world.relevance_probability(everybody(world))
    np.testing.assert_allclose(q.sum(axis=1), world.activity, rtol=1e-9)
    counts = sum(part.counts_per_user() for part in world.split.parts().values())
    z = (counts - q.sum(axis=1)) / np.sqrt((q * (1.0 - q)).sum(axis=1))
    assert np.abs(z).max() < 5.0
    assert world.activity.mean() == pytest.approx(30.0, rel=0.2)


def test_the_parts_are_three_to_one_to_one(world: World) -> None:
    sizes = np.array([part.n_interactions for part in world.split.parts().values()])
    shares = np.array([0.6, 0.2, 0.2])
    z = (sizes - sizes.sum() * shares) / np.sqrt(sizes.sum() * shares * (1.0 - shares))
    assert np.abs(z).max() < 5.0


def test_the_three_probabilities_belong_together(world: World) -> None:
    q = world.relevance_probability([3, 4])
    p, later = world.true_validation_probability([3, 4]), world.true_probability([3, 4])
    np.testing.assert_allclose(p, 0.2 * q / (1.0 - 0.6 * q), rtol=1e-12)
    np.testing.assert_allclose(later, 0.2 * q / (1.0 - 0.8 * q), rtol=1e-12)
    np.testing.assert_allclose(later, p / (1.0 - p), rtol=1e-12)
    assert ((q > 0.0) & (q < 1.0)).all()


# --- the recommender --------------------------------------------------------------------------


def test_the_recommender_ranks_well_and_is_not_calibrated(world: World) -> None:
    assert isinstance(world.scores, Factors)
    block = world.scores.block(everybody(world).astype(np.int32))
    assert block.scores.dtype == np.float32
    scores = block.scores.reshape(500, -1)
    q = world.relevance_probability(everybody(world))
    agreement = [
        np.corrcoef(np.argsort(np.argsort(s)), np.argsort(np.argsort(t)))[0, 1]
        for s, t in zip(scores, q, strict=True)
    ]
    assert np.median(agreement) > 0.8
    slopes = [np.polyfit(s, np.log(t / (1.0 - t)), 1)[0] for s, t in zip(scores, q, strict=True)]
    assert np.std(slopes) > 0.5  # each user's scores are on a scale of their own


def test_a_recommender_without_noise_ranks_perfectly_but_for_popularity() -> None:
    world = simulate_world(n_users=20, n_items=50, seed=1, noise=0.0, tail=0.0)
    scores = world.scores.block(np.arange(20, dtype=np.int32)).scores.reshape(20, -1)
    q = world.relevance_probability(np.arange(20))
    np.testing.assert_array_equal(np.argsort(scores), np.argsort(q))


def test_noise_makes_ranks_worse() -> None:
    def hits(noise: float) -> int:
        world = simulate_world(n_users=200, n_items=200, seed=2, noise=noise)
        scores = world.scores.block(np.arange(200, dtype=np.int32)).scores.reshape(200, -1)
        top = np.argsort(-scores)[:, :10]
        return int(np.take_along_axis(happened(world, "test"), top, axis=1).sum())

    assert hits(0.0) > hits(1.0) > hits(20.0)


# --- the same again ---------------------------------------------------------------------------


def test_the_same_arguments_give_the_same_world() -> None:
    one, other = (simulate_world(n_users=40, n_items=60, seed=9) for _ in range(2))
    assert content_of(one.split) == content_of(other.split)
    assert one.ids == other.ids
    for name in ARRAYS:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("seed", [10, -9, 2**40])
def test_another_seed_gives_another_world(seed: int) -> None:
    one = simulate_world(n_users=40, n_items=60, seed=9)
    other = simulate_world(n_users=40, n_items=60, seed=seed)
    assert content_of(one.split) != content_of(other.split)
    assert not np.array_equal(one.user_vectors, other.user_vectors)


@pytest.mark.parametrize("pairs", [60, 60 * 7, 2**20])
def test_users_do_not_depend_on_how_many_there_are(
    pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = simulate_world(n_users=17, n_items=60, seed=9)
    monkeypatch.setattr(_drawing, "_PAIRS_PER_BLOCK", pairs)
    many = simulate_world(n_users=90, n_items=60, seed=9)
    for name, part in few.split.parts().items():
        for user in range(17):
            np.testing.assert_array_equal(
                part.items_of(user), many.split.parts()[name].items_of(user)
            )
    for name in ARRAYS:
        own = slice(None) if "item" in name or name == "popularity" else slice(17)
        np.testing.assert_allclose(getattr(many, name)[own], getattr(few, name), rtol=1e-12)
    assert many.ids.users.values.to_list()[:17] == few.ids.users.values.to_list()


def test_users_are_named_after_their_numbers() -> None:
    world = simulate_world(n_users=3, n_items=2, seed=0, mean_relevant=0.5)
    assert world.ids.users.values.to_list() == ["user-0000", "user-0001", "user-0002"]
    assert world.ids.items.values.to_list() == ["item-0000", "item-0001"]
    assert world.ids is world.split.ids


# --- the edges of what can be asked for -------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"n_users": 1},
        {"n_items": 1},
        {"n_users": 1, "n_items": 1},
        {"n_items": 2, "mean_relevant": 1e6},
        {"n_factors": 0},
        {"n_factors": 1},
        {"sharpness": 0.0},
        {"sharpness": 20.0},
        {"tail": 0.0},
        {"tail": 5.0},
        {"noise": 0.0},
        {"noise": 100.0},
        {"mean_relevant": 0.01},
        {"sharpness": 20.0, "mean_relevant": 1e6, "tail": 5.0},
    ],
    ids=repr,
)
def test_worlds_at_the_edge_are_worlds(settings: dict[str, Any]) -> None:
    world = simulate_world(**({"n_users": 30, "n_items": 40, "seed": 4} | settings))
    q = world.relevance_probability(everybody(world))
    assert q.shape == (world.ids.n_users, world.ids.n_items)
    assert ((q >= 0.0) & (q <= 1.0)).all()
    for name in ARRAYS:
        assert np.isfinite(getattr(world, name)).all(), name
    # small worlds stay sparse
    assert (world.activity <= 0.3 * world.ids.n_items * 1.02).all()
    block = world.scores.block(np.zeros(1, dtype=np.int32))
    assert np.isfinite(block.scores).all()


def test_without_sharpness_everybody_likes_what_is_popular() -> None:
    world = simulate_world(n_users=30, n_items=40, seed=4, sharpness=1e-9)
    q = world.relevance_probability(np.arange(30))
    np.testing.assert_array_equal(np.argsort(q), np.tile(np.argsort(world.popularity), (30, 1)))


def test_no_users_have_no_probabilities(world: World) -> None:
    assert world.true_probability(np.empty(0, dtype=np.int64)).shape == (0, 400)
    assert world.true_probability([]).shape == (0, 400)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_users": 0}, "n_users is 0"),
        ({"n_items": 0}, "n_items is 0"),
        ({"n_users": -1}, "n_users is -1"),
        ({"n_items": 2.5}, "n_items is 2.5"),
        ({"n_factors": -1}, "n_factors is -1"),
        ({"n_users": True}, "n_users is True"),
        ({"seed": 0.5}, "seed is 0.5"),
        ({"mean_relevant": 0.0}, "mean_relevant is 0.0"),
        ({"mean_relevant": float("nan")}, "mean_relevant is nan"),
        ({"mean_relevant": "many"}, "mean_relevant is 'many'"),
        ({"sharpness": -0.1}, "sharpness is -0.1"),
        ({"sharpness": float("inf")}, "sharpness is inf"),
        ({"tail": 5.1}, "tail is 5.1"),
        ({"noise": 101}, "noise is 101"),
    ],
    ids=repr,
)
def test_settings_out_of_range_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        simulate_world(**({"n_users": 5, "n_items": 5} | settings))


@pytest.mark.parametrize(
    ("users", "message"),
    [
        ([500], "user codes lie in 500..500"),
        ([-1, 3], "user codes lie in -1..3"),
        ([0.0], "users are float64"),
        ([[0]], r"of shape \(1, 1\)"),
        (["user-0001"], "Give user codes"),
    ],
    ids=repr,
)
def test_codes_that_are_none_are_refused(world: World, users: Any, message: str) -> None:
    for question in (
        world.relevance_probability,
        world.true_probability,
        world.true_validation_probability,
    ):
        with pytest.raises(IdError, match=message):
            question(users)
