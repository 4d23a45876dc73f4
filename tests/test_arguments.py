"""Arguments of the wrong type: an error of topperk's own that says what, where and the cure.

First what is easily confused (a matrix for a source, settings for what is fitted, the two sides of
a fit), by what is said of it; then every argument of everything public, each with text, None, a
number and an array in its place.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import topperk as tp
from topperk import errors
from topperk.datasets.simulated import simulate_world
from topperk.errors import TopperkError

WORLD = simulate_world(n_users=12, n_items=30, seed=3)
SCORES, SPLIT, IDS = WORLD.scores, WORLD.split, WORLD.ids
DATA = SPLIT.train
METHOD = tp.PersonalizedK(tp.F1(), max_k=5)
MODEL = METHOD.fit(SCORES, SPLIT)
MATRIX = np.zeros((12, 30))
FRAME = pl.DataFrame({"user_id": [1], "item_id": [2], "score": [0.5]})
RATINGS = {"user_id": [1, 1, 2], "item_id": [1, 2, 1], "rating": [3, 4, 5]}

Call = Callable[[], object]


# --- what is easily confused ------------------------------------------------------------------


def wrong(thing: object) -> Any:
    """A thing that the type checker would refuse."""
    return thing


CONFUSED: list[tuple[Call, type[TopperkError], str]] = [
    (lambda: METHOD.fit(wrong(MATRIX), SPLIT), errors.SettingError, "tp.Dense(matrix, ids)"),
    (lambda: METHOD.fit(wrong(FRAME), SPLIT), errors.SettingError, "tp.Candidates(frame)"),
    (lambda: METHOD.fit(wrong("scores.npz"), SPLIT), errors.SettingError, "tp.load_scores('sco"),
    (lambda: METHOD.fit(wrong(SPLIT), wrong(SCORES)), errors.SettingError, "scores first, then"),
    (lambda: METHOD.fit(SCORES, wrong(SCORES)), errors.SettingError, "scores first, then"),
    (lambda: METHOD.fit(SCORES, wrong(SPLIT.train)), errors.SettingError, "all of its parts"),
    (lambda: METHOD.fit(SCORES, wrong(FRAME)), errors.SettingError, "tp.split_random(data)"),
    (lambda: METHOD.fit(wrong(tp.Dense), SPLIT), errors.SettingError, "no source of scores"),
    (
        lambda: tp.UserPlatt().fit(wrong(SPLIT), wrong(SCORES)),
        errors.SettingError,
        "then the split",
    ),
    (lambda: tp.FixedK(3).fit(wrong(MATRIX), SPLIT), errors.SettingError, "tp.Dense"),
    (lambda: tp.RandomK(max_k=3).fit(wrong(MATRIX), SPLIT), errors.SettingError, "tp.Dense"),
    (lambda: tp.ValidationK(tp.F1()).fit(SCORES, wrong(DATA)), errors.SettingError, "all of its"),
    (lambda: tp.OracleK(tp.F1()).fit(SCORES, wrong(DATA)), errors.SettingError, "all of its"),
    (lambda: tp.evaluate(METHOD, wrong(SPLIT), wrong(SCORES)), errors.SettingError, "first, then"),
    (
        lambda: tp.evaluate(METHOD, SCORES, SPLIT, wrong("f1")),
        errors.SettingError,
        "utility_named(",
    ),
    (
        lambda: tp.evaluate(wrong(5), SCORES, SPLIT),
        errors.SettingError,
        "a method to evaluate is a",
    ),
    (lambda: tp.PersonalizedK(wrong("f1")), errors.SettingError, "utility_named('f1')"),
    (lambda: MODEL.for_utility(wrong("f1")), errors.SettingError, "utility_named('f1')"),
    (
        lambda: MODEL.for_utility(wrong(tp.F1)),
        errors.SettingError,
        "give one such as NDCG() or F1()",
    ),
    (lambda: tp.load("m", utility=wrong("f1")), errors.SettingError, "utility_named('f1')"),
    (lambda: MODEL.recommend(wrong(MATRIX)), errors.SettingError, "tp.Dense(matrix, ids)"),
    (lambda: MODEL.sizes(wrong(FRAME)), errors.SettingError, "tp.Candidates(frame)"),
    (lambda: MODEL.curves(wrong({"user_id": []})), errors.SettingError, "tp.Candidates(frame)"),
    (lambda: MODEL.recommend(SCORES, users=wrong(5)), errors.SettingError, "users=[5]"),
    (lambda: MODEL.sizes(SCORES, users="user-0001"), errors.SettingError, "users=['user-0001']"),
    (
        lambda: tp.reliability_of(wrong(tp.UserPlatt()), SCORES, SPLIT),
        errors.SettingError,
        "Fit it first: UserPlatt(",
    ),
    (
        lambda: tp.reliability_of(wrong(MODEL), SCORES, SPLIT),
        errors.SettingError,
        "model.calibration",
    ),
    (
        lambda: tp.PersonalizedK(tp.F1(), calibrator=wrong(MODEL)),
        errors.SettingError,
        "UserPlatt()",
    ),
    (lambda: tp.Factors(MATRIX, MATRIX, wrong((1, 2))), errors.IdError, "tp.Ids.of(users=..., it"),
    (lambda: tp.Dense(MATRIX, wrong(None)), errors.IdError, "Give data.ids"),
    (lambda: tp.Callable(wrong(MATRIX), IDS), errors.ScoreError, "tp.Dense(matrix, ids)"),
    (lambda: tp.Callable(lambda users: MATRIX[users], wrong(None)), errors.IdError, "data.ids"),
    (lambda: tp.Ids(wrong([1]), wrong([2])), errors.IdError, "tp.Ids.of(users=..., items=...)"),
    (lambda: tp.split_random(wrong("ratings.tsv")), errors.InputError, "tp.read_interactions("),
    (lambda: tp.split_last(wrong(FRAME)), errors.InputError, "tp.read_interactions("),
    (lambda: tp.split_time(wrong(FRAME)), errors.InputError, "tp.read_interactions("),
    (lambda: tp.Split(wrong(FRAME), DATA, DATA, "given"), errors.InputError, "read_interactions"),
    (lambda: tp.split_given(wrong(None), DATA), errors.InputError, "Give a path"),
    (lambda: tp.F1().expected([0.1, 0.2], max_k=wrong(1.5)), errors.SettingError, "max_k is 1.5"),
    (lambda: tp.F1().expected(wrong(["a"])), errors.ScoreError, "Give numbers"),
    (lambda: tp.F1().expected(wrong([[0.1], [0.1, 0.2]])), errors.ScoreError, "probabilities"),
    (lambda: tp.F1().realised(wrong(["a"]), 1), errors.ScoreError, "relevance are"),
    (lambda: tp.F1().realised([1], wrong("a")), errors.ScoreError, "n_relevant are"),
    (lambda: tp.FBeta(wrong("1")), errors.SettingError, "beta is '1'"),
    (lambda: tp.NetGain(wrong("a")), errors.SettingError, "gain is 'a'"),
    (lambda: tp.utility_named(wrong(None)), errors.SettingError, "Give text, such as 'f1'"),
    (
        lambda: tp.Custom("own", lambda ranks: wrong("a")).discount(np.ones(1)),
        errors.SettingError,
        "no array of numbers",
    ),
]


@pytest.mark.parametrize(("call", "kind", "words"), CONFUSED)
def test_what_is_easily_confused_is_told_apart(
    call: Call, kind: type[TopperkError], words: str
) -> None:
    with pytest.raises(kind, match=re.escape(words)) as caught:
        call()
    assert str(caught.value).endswith(".")
    assert str(caught.value).count("\n") == 0


# --- every argument of everything public ------------------------------------------------------


@dataclass(frozen=True)
class Offered:
    """Something public, and arguments that it takes."""

    name: str
    call: Callable[..., object]
    good: dict[str, Any]


def offered(call: Callable[..., object], **good: Any) -> Offered:
    owner = getattr(call, "__self__", None)
    kind = owner if inspect.isclass(owner) else type(owner)
    name = getattr(call, "__name__", repr(call))
    return Offered(name if owner is None else f"{kind.__name__}.{name}", call, good)


PASS: dict[str, Any] = {"scores": SCORES, "split": SPLIT, "progress": None}
LISTS: dict[str, Any] = {"scores": SCORES, "users": None, "progress": None}
COLUMNS: dict[str, Any] = {"user_id": "user_id", "item_id": "item_id"}
RANGE: dict[str, Any] = {"min_k": 1, "max_k": 3}
EVALUATION = tp.evaluate(METHOD, SCORES, SPLIT)
PUBLIC = [
    offered(
        tp.read_interactions,
        source=RATINGS,
        **COLUMNS,
        rating="rating",
        timestamp=None,
        min_rating=1.0,
        min_per_user=1,
        min_per_item=1,
        core=1,
    ),
    offered(
        tp.Interactions,
        ids=DATA.ids,
        offsets=DATA.offsets,
        items=DATA.items,
        ratings=None,
        timestamps=np.arange(DATA.n_interactions),
    ),
    offered(DATA.select, mask=np.ones(DATA.n_interactions, dtype=bool)),
    offered(DATA.filter, min_per_user=1, min_per_item=1),
    offered(DATA.k_core, k=1),
    offered(DATA.items_of, user=0),
    offered(tp.Ids, users=IDS.users, items=IDS.items, frame_kind="polars"),
    offered(tp.Ids.of, users=[1], items=[2], frame_kind="polars"),
    offered(tp.IdIndex, values=pl.Series([1]), outside_type=None),
    offered(tp.IdIndex.from_values, values=[1], what="ids"),
    offered(tp.IdIndex.sorted_from, values=[1], what="ids"),
    offered(IDS.users.codes, ids=["user-0001"], what="ids"),
    offered(IDS.users.take, codes=np.array([0, 1])),
    offered(IDS.users.part, codes=np.array([0, 1])),
    offered(IDS.users.name, code=1),
    offered(IDS.users.union, other=IDS.items, what="ids"),
    offered(tp.split_random, data=DATA, validation=0.2, test=0.2, seed=0),
    offered(tp.split_last, data=DATA, validation=1, test=1),
    offered(tp.split_time, data=DATA, validation=0.2, test=0.2),
    offered(tp.split_time, data=DATA, validation_from=1, test_from=2),
    offered(tp.split_given, train=SPLIT.train, validation=SPLIT.validation, test=SPLIT.test),
    offered(
        tp.Split, train=SPLIT.train, validation=SPLIT.validation, test=SPLIT.test, kind="given"
    ),
    offered(
        tp.Factors,
        user_vectors=SCORES.user_vectors,
        item_vectors=SCORES.item_vectors,
        ids=IDS,
        user_biases=None,
        item_biases=None,
    ),
    offered(SCORES.save, path="factors.npz"),
    offered(tp.Dense, matrix=MATRIX, ids=IDS),
    offered(tp.Candidates, source=FRAME, **COLUMNS, score="score"),
    offered(tp.Callable, function=lambda users: MATRIX[users], ids=IDS),
    offered(tp.load_scores, path="factors.npz"),
    offered(tp.Uncalibrated, scale="logit", correction="none"),
    offered(tp.GlobalPlatt, correction="none", c=1.0),
    offered(tp.UserPlatt, correction="none", prior="ridge", c=1.0),
    offered(tp.UserPlatt().fit, **PASS),
    offered(tp.GlobalPlatt().fit, **PASS),
    offered(tp.Uncalibrated().fit, **PASS),
    offered(tp.FBeta, beta=1.0),
    offered(tp.NetGain, gain=1.0, cost=0.1),
    offered(tp.Custom, name="own", discount=[1.0], penalty=None, normaliser=None),
    offered(tp.utility_named, text="f1"),
    offered(tp.count_distribution, probabilities=[0.1]),
    offered(tp.F1().expected, probabilities=[0.1, 0.2], max_k=1, method="paper", paper_terms=100),
    offered(tp.PDCG().expected, probabilities=[0.1], max_k=1, method="exact", paper_terms=100),
    offered(tp.F1().realised, relevance=[0, 1], n_relevant=1, max_k=2),
    offered(
        tp.PersonalizedK,
        utility=tp.F1(),
        **RANGE,
        calibrator=tp.UserPlatt(),
        method="exact",
        paper_terms=10,
    ),
    offered(tp.FixedK, k=3),
    offered(tp.RandomK, seed=0, **RANGE),
    offered(tp.ValidationK, utility=tp.F1(), **RANGE),
    offered(tp.OracleK, utility=tp.F1(), **RANGE),
    offered(METHOD.fit, **PASS),
    offered(tp.FixedK(3).fit, **PASS),
    offered(tp.RandomK(max_k=3).fit, **PASS),
    offered(tp.ValidationK(tp.F1(), max_k=3).fit, **PASS),
    offered(tp.OracleK(tp.F1(), max_k=3).fit, **PASS),
    offered(MODEL.for_utility, utility=tp.TP()),
    offered(MODEL.sizes, **LISTS),
    offered(MODEL.recommend, **LISTS),
    offered(MODEL.curves, **LISTS),
    offered(MODEL.save, path="model.topperk"),
    offered(tp.load, path="model.topperk", utility=None, calibration=None),
    offered(tp.evaluate, methods=[METHOD], **PASS, utility=tp.F1(), confidence=0.9),
    offered(tp.usual_methods, utility=tp.F1(), **RANGE, calibrator=None, fixed=[1, 2], seed=0),
    offered(EVALUATION.method, name="personal"),
    offered(EVALUATION.tests, method="personal"),
    offered(tp.reliability, probability=[0.1], relevance=[0], n_bins=2, bins="equal_mass"),
    offered(
        tp.reliability_of,
        calibration=MODEL.calibration,
        **PASS,
        top=3,
        n_bins=3,
        bins="equal_mass",
    ),
    offered(WORLD.relevance_probability, users=[0]),
    offered(WORLD.true_probability, users=[0]),
    offered(
        simulate_world,
        n_users=5,
        n_items=10,
        seed=0,
        n_factors=2,
        mean_relevant=3.0,
        sharpness=1.0,
        tail=1.0,
        noise=0.1,
    ),
]
# Not here: what the parts of the library ask of each other (block, probabilities, normaliser ...),
# and the fields of results.
INSTEAD: list[Any] = [
    "text",
    None,
    1.5,
    -7,
    True,
    b"bytes",
    object(),
    np.zeros(3),
    np.array(["a", "b"]),
    np.zeros((2, 2)),
    [[1.0], [1.0, 2.0]],
    {"a": 1},
]


def replaced() -> Iterator[tuple[Offered, str, object]]:
    for one in PUBLIC:
        for argument in one.good:
            # What messages call a thing is no input.
            if argument != "what":
                for value in INSTEAD:
                    yield one, argument, value


@pytest.mark.parametrize("one", PUBLIC, ids=lambda one: one.name)
def test_good_arguments_are_taken(
    one: Offered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    MODEL.save("model.topperk")
    SCORES.save("factors.npz")
    if one.call in (tp.split_last, tp.split_time):
        times = np.arange(DATA.n_interactions)
        dated = tp.Interactions(DATA.ids, DATA.offsets, DATA.items, None, times)
        one = Offered(one.name, one.call, one.good | {"data": dated})
    one.call(**one.good)


def test_whatever_stands_for_an_argument_is_taken_or_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    MODEL.save("model.topperk")
    SCORES.save("factors.npz")
    escaped = []
    for one, argument, value in replaced():
        try:
            one.call(**one.good | {argument: value})
        except TopperkError as error:
            if not str(error).endswith("."):
                escaped.append(f"{one.name}({argument}={value!r}): no sentence: {error}")
        except Exception as error:
            escaped.append(f"{one.name}({argument}={value!r}): {type(error).__name__}: {error}")
    assert not escaped, "\n".join(escaped)
