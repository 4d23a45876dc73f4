"""Realised utility, user by user, beside the obvious computation; tests, intervals, errors."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import topperk as tp
from topperk.datasets.simulated import World, simulate_world
from topperk.errors import IdError, InputError, SettingError


@pytest.fixture(scope="module")
def world() -> World:
    return simulate_world(n_users=120, n_items=150, seed=4)


def obvious_list(world: World, user: int, max_k: int) -> list[int]:
    """The best items of a user, by sorting all of them."""
    scores = world.scores.block(np.array([user], dtype=np.int32)).scores
    seen = {*world.split.train.items_of(user), *world.split.validation.items_of(user)}
    order = sorted((-float(s), i) for i, s in enumerate(scores) if i not in seen)
    return [item for _, item in order[:max_k]]


def obvious_f1(items: list[int], relevant: set[int], k: int) -> float:
    hits = len(relevant & set(items[:k]))
    return 2 * hits / (len(relevant) + k) if k else 0.0


def test_realised_utility_is_what_the_lists_are_worth(world: World) -> None:
    model = tp.PersonalizedK(tp.F1(), max_k=12).fit(world.scores, world.split)
    found = tp.evaluate([model, tp.FixedK(7)], world.scores, world.split)
    lists = model.recommend(world.scores)
    for place, user in enumerate(found.users):
        items = obvious_list(world, int(user), 12)
        relevant = set(world.split.test.items_of(int(user)).tolist())
        name = f"user-{user:04d}"
        shown = lists.filter(pl.col("user_id") == name)["item_id"].to_list()
        k = int(found.method("personal").k[place])
        assert shown == [f"item-{item:04d}" for item in items[:k]]
        assert found.method("personal").realised[place] == pytest.approx(
            obvious_f1(items, relevant, k)
        )
        assert found.method("top-7").realised[place] == pytest.approx(
            obvious_f1(items, relevant, 7)
        )
        assert found.curves[place] == pytest.approx(
            [obvious_f1(items, relevant, n) for n in range(13)]
        )


def test_users_without_a_test_interaction_are_left_out_and_counted(world: World) -> None:
    found = tp.evaluate(tp.FixedK(5), world.scores, world.split, tp.NDCG())
    with_test = np.flatnonzero(world.split.test.counts_per_user() > 0)
    assert found.users.tolist() == with_test.tolist()
    assert found.n_without_test == 120 - with_test.size > 0


@pytest.mark.parametrize("utility", [tp.NDCG(), tp.PDCG(), tp.F1(), tp.TP()])
def test_the_oracle_is_above_everything(world: World, utility: tp.Utility) -> None:
    found = tp.evaluate(tp.usual_methods(utility, max_k=30), world.scores, world.split)
    best = found.method("Oracle").realised
    assert (best >= found.curves[:, 1:].max(axis=1) - 1e-12).all()
    for method in found.methods:
        assert (method.realised <= best + 1e-12).all()


def test_summary_has_students_intervals(world: World) -> None:
    found = tp.evaluate([tp.FixedK(5)], world.scores, world.split, tp.NDCG(), confidence=0.9)
    row = found.summary().row(0, named=True)
    values = found.method("top-5").realised
    low, high = stats.t.interval(0.9, values.size - 1, loc=values.mean(), scale=stats.sem(values))
    assert (row["mean"], row["ci_low"], row["ci_high"]) == pytest.approx(
        (values.mean(), low, high), rel=1e-8
    )
    assert (row["mean_k"], row["median_k"]) == (5.0, 5.0)


def test_paired_tests_agree_with_scipy(world: World) -> None:
    found = tp.evaluate(tp.usual_methods(tp.F1(), max_k=20), world.scores, world.split)
    mine = found.method("personal").realised
    tests = found.tests()
    assert tests["other"].to_list()[-1] == f"best fixed ({found.best_fixed_k})"
    for row in tests.to_dicts()[:-1]:
        other = found.method(row["other"]).realised
        wanted = stats.ttest_rel(mine, other)
        assert row["t"] == pytest.approx(wanted.statistic, rel=1e-9)
        assert row["p"] == pytest.approx(wanted.pvalue, rel=1e-7)
        assert row["difference"] == pytest.approx((mine - other).mean())
    assert (tests["p_holm"] >= tests["p"]).all()


def test_best_fixed_length_is_found_in_hindsight(world: World) -> None:
    found = tp.evaluate(tp.usual_methods(tp.F1(), max_k=20), world.scores, world.split)
    means = [
        tp.evaluate(tp.FixedK(k), world.scores, world.split, tp.F1()).methods[0].realised.mean()
        for k in range(1, 21)
    ]
    assert found.best_fixed_k == 1 + int(np.argmax(means))
    assert found.fixed_curve[1:] == pytest.approx(means)


def test_min_k_zero_lets_an_empty_list_be_the_best_single_one(world: World) -> None:
    dear = tp.NetGain(gain=1.0, cost=5.0)
    found, at_least_one = (
        tp.evaluate(tp.PersonalizedK(dear, min_k, 20), world.scores, world.split)
        for min_k in (0, 1)
    )
    assert (found.best_fixed_k, at_least_one.best_fixed_k) == (0, 1)
    mine = found.method("personal")
    assert (mine.k == 0).any()
    assert (mine.realised[mine.k == 0] == 0).all()
    assert mine.realised.mean() > at_least_one.method("personal").realised.mean()


@pytest.mark.parametrize("setting", [tp.PersonalizedK, tp.ValidationK, tp.OracleK])
def test_any_method_with_a_utility_says_what_lists_are_worth(world: World, setting: Any) -> None:
    """And from which length on the best single one is sought."""
    dear = tp.NetGain(gain=1.0, cost=5.0)
    methods = {"fixed": tp.FixedK(5), "own": setting(dear, 0, 20), "F1": tp.OracleK(tp.F1(), 1, 20)}
    found = tp.evaluate(methods, world.scores, world.split)
    assert found.utility == dear
    assert (found.min_k, found.best_fixed_k) == (0, 0)
    given = tp.evaluate(methods, world.scores, world.split, tp.F1())
    assert given.utility == tp.F1()


def test_frames_have_a_row_for_each_of_what_they_tell(world: World) -> None:
    found = tp.evaluate(tp.usual_methods(tp.TP(), max_k=10), world.scores, world.split)
    assert found.per_user().height == found.n_users * len(found.methods)
    lengths = found.lengths()
    assert lengths.height == 11 * len(found.methods)
    assert lengths.group_by("method").agg(pl.col("users").sum())["users"].unique().to_list() == [
        found.n_users
    ]


def test_frames_leave_in_the_kind_that_the_scores_came_in(world: World) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(world.split.test.to_frame().to_dict(as_series=False))
    long = frame.assign(score=np.linspace(0, 1, len(frame)))
    split = tp.split_given(frame.iloc[::2], frame.iloc[1::4], frame.iloc[3::4])
    found = tp.evaluate(tp.FixedK(1), tp.Candidates(long), split, tp.F1(), on_missing="skip")
    for table in (found.summary(), found.per_user(), found.lengths()):
        assert isinstance(table, pandas.DataFrame)


def test_a_list_ends_with_the_candidates() -> None:
    candidates = {"user_id": [1, 1, 2, 2, 2], "item_id": [1, 2, 1, 2, 3], "score": [2, 1, 1, 2, 3]}
    split = tp.split_given(
        {"user_id": [1], "item_id": [4]},
        {"user_id": [2], "item_id": [4]},
        {"user_id": [1, 2], "item_id": [2, 3]},
    )
    found = tp.evaluate(
        tp.FixedK(3), tp.Candidates(candidates), split, tp.PDCG(), on_missing="skip"
    )
    penalties = [1.0, 1 / math.log2(3), 0.5]
    assert found.method("top-3").k.tolist() == [2, 3]
    assert found.curves[0, 3] == found.curves[0, 2] == pytest.approx(-1 + penalties[1])
    assert found.curves[1, 3] == pytest.approx(1 - penalties[1] - penalties[2])


def test_one_user_has_no_interval(world: World) -> None:
    split = tp.split_given(
        {"user_id": [1], "item_id": [1]}, {"user_id": [1], "item_id": [2]},
        {"user_id": [1], "item_id": [3]},
    )  # fmt: skip
    ids = tp.Ids.of(users=[1], items=[1, 2, 3, 4])
    source = tp.Dense(np.array([[0.1, 0.2, 0.3, 0.4]]), ids)
    found = tp.evaluate(tp.FixedK(1), source, split, tp.F1(), on_missing="skip")
    row = found.summary().row(0, named=True)
    assert row["mean"] == 0.0
    assert math.isnan(row["ci_low"])


@pytest.fixture(scope="module")
def pairs() -> dict[str, list[Any]]:
    """Who took what, with ids that are strings and in no order of their own."""
    rng = np.random.default_rng(3)
    taken = rng.random((40, 60)) < 0.3
    users, items = np.nonzero(taken)
    names = [f"item {item:02d}" for item in rng.permutation(60)]
    return {"user_id": (users + 100).tolist(), "item_id": [names[item] for item in items]}


def common_pairs(*parts: tp.Interactions) -> int:
    """How many pairs two bodies of interactions share, by their outside ids."""
    return len(set.intersection(*(set(part.to_frame().rows()) for part in parts)))


def test_a_model_of_another_split_is_refused_and_the_leak_is_counted(
    pairs: dict[str, list[Any]], tmp_path: Path
) -> None:
    data = tp.read_interactions(pairs)
    own, other = tp.split_random(data, seed=0), tp.split_random(data, seed=1)
    rng = np.random.default_rng(0)
    scores = tp.Dense(rng.normal(size=(data.n_users, data.n_items)), data.ids)
    model = tp.PersonalizedK(tp.F1(), max_k=10).fit(scores, own)
    model.save(tmp_path / "model")
    leaked = sum(common_pairs(part, other.test) for part in (own.train, own.validation))
    assert 0 < leaked < other.test.n_interactions
    told = f"^{leaked} of the {other.test.n_interactions} test pairs were in training or validation"
    for one in (model, tp.load(tmp_path / "model")):
        assert tp.evaluate(one, scores, own).n_users > 0
        with pytest.raises(InputError, match=f"{told} when 'personal' was fitted. Pass the split"):
            tp.evaluate([tp.FixedK(3), one], scores, other)
        with pytest.raises(InputError, match="'mine'"):
            tp.evaluate({"mine": one}, scores, other)


@given(seed=st.integers(0, 2**32 - 1))
def test_what_was_seen_is_found_by_ids_whatever_the_codes(
    pairs: dict[str, list[Any]], seed: int
) -> None:
    """Some users and items leave, others come, and so every code is another one."""
    rng = np.random.default_rng(seed)
    frame = pl.DataFrame(pairs)
    rows = [frame.sample(fraction=0.6, seed=int(rng.integers(1000))) for _ in range(2)]
    one, other = (
        tp.split_random(tp.read_interactions(part), seed=int(rng.integers(1000))) for part in rows
    )
    items = frame["item_id"].unique().sort().to_list()
    ids = tp.Ids.of(users=range(100, 140), items=items)
    scores = tp.Dense(rng.normal(size=(40, len(items))), ids)
    model = tp.FixedK(1).fit(scores, one, on_missing="skip")
    for part in (*other.parts().values(), *one.parts().values()):
        wanted = common_pairs(one.train, part) + common_pairs(one.validation, part)
        assert model.n_seen(part) == wanted


def test_a_model_of_the_same_parts_under_other_ids_is_judged_as_ever(
    pairs: dict[str, list[Any]],
) -> None:
    """Parts that were written and read again know only the ids that stand in them."""
    data = tp.read_interactions(pairs)
    split = tp.split_random(data)
    rng = np.random.default_rng(0)
    scores = tp.Dense(rng.normal(size=(data.n_users, data.n_items)), data.ids)
    model = tp.PersonalizedK(tp.F1(), max_k=10).fit(scores, split)
    again = tp.split_given(split.train, split.validation, split.test.filter(min_per_user=4))
    parts = tp.split_given(
        *(
            part.to_frame().sample(fraction=1.0, shuffle=True, seed=5)
            for part in again.parts().values()
        )
    )
    one, other = (tp.evaluate(model, scores, found) for found in (again, parts))
    assert one.users.tolist() == other.users.tolist()
    assert one.method("personal").k.tolist() == other.method("personal").k.tolist()


def wrong_calls(world: World) -> list[tuple[Any, type[Exception], str]]:
    scores, split = world.scores, world.split
    no_test = tp.Split(split.train, split.validation, split.test.select(
        np.zeros(split.test.n_interactions, dtype=np.bool_)), "given")  # fmt: skip
    other_ids = tp.Ids.of(users=["a"], items=["b"])
    return [
        (lambda: tp.evaluate([], scores, split), SettingError, "no method"),
        (lambda: tp.evaluate([tp.FixedK(1)], scores, split), SettingError, "utility="),
        (lambda: tp.evaluate(["top"], scores, split), SettingError, "str"),
        (
            lambda: tp.evaluate([tp.FixedK(1), tp.FixedK(1)], scores, split, tp.F1()),
            SettingError,
            "two methods",
        ),
        (
            lambda: tp.evaluate(tp.FixedK(1), scores, split, tp.F1(), confidence=95),
            SettingError,
            "confidence",
        ),
        (lambda: tp.evaluate(tp.FixedK(1), scores, no_test, tp.F1()), InputError, "test"),
        (
            lambda: tp.evaluate(tp.FixedK(1), tp.Dense([[1.0]], other_ids), split, tp.F1()),
            IdError,
            "user 'a'",
        ),
        (
            lambda: tp.evaluate(tp.FixedK(1), scores, split, tp.F1()).tests("personal"),
            SettingError,
            "'personal'",
        ),
    ]


@pytest.mark.parametrize("row", range(8))
def test_wrong_calls_are_explained(world: World, row: int) -> None:
    call, error, words = wrong_calls(world)[row]
    with pytest.raises(error, match=words):
        call()
