"""One user's candidates answered at once: the answers of the frames, without the frames."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import topperk as tp
from topperk._codes import Codes, IntegerCodes
from topperk._kernels.arranging import DONE, REPEATED, UNUSABLE, arrange, ascending
from topperk._policies import PersonalPolicy
from topperk.datasets.simulated import simulate_world
from topperk.errors import IdError, ScoreError
from topperk.online import Chosen

WORLD = simulate_world(n_users=40, n_items=90, seed=5, mean_relevant=12.0)
UTILITIES = (tp.F1(), tp.NDCG(), tp.PDCG())
CALIBRATORS = (
    tp.UserPlatt(prior="population", correction="odds"),
    tp.UserPlatt(correction="ratio"),
    tp.GlobalPlatt("shift"),
)


def fitted(utility: tp.Utility, calibrator: tp.Calibrator, min_k: int = 1) -> tp.FittedK:
    settings = tp.PersonalizedK(utility, min_k, max_k=20, calibrator=calibrator)
    return settings.fit(WORLD.scores, WORLD.split)


MODELS = [fitted(utility, one, k) for utility in UTILITIES for k, one in enumerate(CALIBRATORS)]
MODEL = MODELS[1]
USERS = WORLD.ids.users.values.to_list()
ITEMS = WORLD.ids.items.values.to_list()


def seen_by(model: tp.FittedK, user_id: str) -> set[str]:
    row = USERS.index(user_id)
    codes = model.seen.items[model.seen.offsets[row] : model.seen.offsets[row + 1]]
    return {ITEMS[code] for code in codes}


def through_frames(model: tp.FittedK, user_id: Any, item_ids: Any, scores: Any) -> Chosen:
    """What ``sizes`` and ``recommend`` say of the same candidates.

    Somebody else has all the items, since a source holds ``max_k`` of them and some that are known.
    """
    others = [*ITEMS, *(f"~{place}" for place in range(model.max_k))]
    source = tp.Candidates(
        {
            "user_id": [user_id] * len(item_ids) + ["somebody else"] * len(others),
            "item_id": [*item_ids, *others],
            "score": np.concatenate([scores, np.zeros(len(others), scores.dtype)]),
        }
    )
    row = model.sizes(source, [user_id], on_missing="skip").row(0, named=True)
    lists = model.recommend(source, [user_id], on_missing="skip")
    return Chosen(
        row["k"],
        lists["item_id"].to_list(),
        lists["probability"].to_numpy(),
        row["expected_utility"],
        row["expected_relevant"],
        tp.Reason[row["calibration"].upper()],
    )


def assert_same(one: Chosen, other: Chosen, within: float) -> None:
    assert (one.k, one.reason) == (other.k, other.reason)
    assert one.item_ids == other.item_ids
    np.testing.assert_array_equal(one.probabilities, other.probabilities)
    for name in ("expected_utility", "expected_relevant"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), rel=within, nan_ok=True)


values = st.one_of(st.floats(-6.0, 4.0, width=32), st.sampled_from([0.0, 1.0, -np.inf]))


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, list[str], npt.NDArray[Any]]:
    """A user who may be new, and candidates in any order, some of them unknown or seen already."""
    user_id = draw(st.sampled_from([*USERS, "somebody new"]))
    known = draw(st.lists(st.sampled_from(ITEMS), unique=True, min_size=1))
    # In the order of strings, and behind all known ids: where a frame puts them too.
    unknown = [f"~new {place}" for place in range(draw(st.integers(0, 3)))]
    item_ids = draw(st.permutations(known))
    for place, one in enumerate(unknown):
        item_ids.insert(draw(st.integers(0, len(known))) + place, one)
    of_new = iter(unknown)
    item_ids = [next(of_new) if one in unknown else one for one in item_ids]
    scores = draw(st.lists(values, min_size=len(item_ids), max_size=len(item_ids)))
    kind = draw(st.sampled_from([np.float32, np.float64]))
    return user_id, item_ids, np.array(scores, dtype=kind)


@settings(max_examples=300)
@given(st.sampled_from(MODELS), requests())
def test_the_answer_is_that_of_the_frames(
    model: tp.FittedK, request: tuple[str, list[str], npt.NDArray[Any]]
) -> None:
    before = request[2].copy()
    # Sums over the candidates are taken in the same order; only that over the list may be not.
    assert_same(model.choose(*request), through_frames(model, *request), within=1e-12)
    assert np.array_equal(request[2], before)


@pytest.mark.parametrize(
    "method", [tp.FixedK(5), tp.RandomK(max_k=9, seed=4), tp.ValidationK(tp.F1(), max_k=10)]
)
def test_every_method_can_be_asked(method: Any) -> None:
    model = method.fit(WORLD.scores, WORLD.split)
    scores = np.linspace(0.0, 1.0, len(ITEMS))
    for user_id in [*USERS[:8], "somebody new"]:
        found = model.choose(user_id, ITEMS, scores)
        assert_same(found, through_frames(model, user_id, ITEMS, scores), within=0.0)
        assert np.isnan(found.expected_utility)


@given(requests())
def test_nothing_that_was_seen_is_in_the_list(
    request: tuple[str, list[str], npt.NDArray[Any]],
) -> None:
    user_id, item_ids, scores = request
    found = MODEL.choose(user_id, item_ids, scores)
    assert found.k == len(found.item_ids) == len(found.probabilities) <= MODEL.max_k
    assert set(found.item_ids) <= set(item_ids)
    if user_id in USERS:
        assert not set(found.item_ids) & seen_by(MODEL, user_id)


def test_the_order_of_the_candidates_does_not_matter_where_all_are_known() -> None:
    rng = np.random.default_rng(1)
    scores = rng.integers(0, 4, len(ITEMS)).astype(np.float32)  # many ties
    wanted = MODEL.choose(USERS[0], ITEMS, scores)
    assert wanted.k > 1
    for _ in range(5):
        order = rng.permutation(len(ITEMS))
        found = MODEL.choose(USERS[0], [ITEMS[place] for place in order], scores[order])
        assert found.item_ids == wanted.item_ids
        assert found.expected_utility == wanted.expected_utility


def test_equal_scores_go_by_code_and_unknown_items_come_last_as_they_were_given() -> None:
    model = tp.FixedK(5).fit(WORLD.scores, WORLD.split)
    new, asked = "somebody new", ["zz", ITEMS[7], "aa", ITEMS[2], "mm"]
    assert model.choose(new, asked, np.zeros(5)).item_ids == [
        ITEMS[2], ITEMS[7], "zz", "aa", "mm",
    ]  # fmt: skip


def test_somebody_new_gets_the_parameters_of_the_population() -> None:
    found = MODEL.choose("somebody new", ITEMS, np.zeros(len(ITEMS)))
    assert found.reason is tp.Reason.NEW_USER
    assert found.k >= 1


@pytest.mark.parametrize(
    ("item_ids", "scores"),
    [
        ([], []),
        ([], np.empty(0, dtype=np.float32)),
        (ITEMS[:2], [-np.inf, -np.inf]),
        (sorted(seen_by(MODEL, USERS[0])), np.zeros(len(seen_by(MODEL, USERS[0])))),
    ],
    ids=["none", "none in an array", "none to be recommended", "all seen"],
)
def test_a_user_without_any_candidate_gets_an_empty_list(item_ids: Any, scores: Any) -> None:
    found = MODEL.choose(USERS[0], item_ids, scores)
    assert (found.k, found.item_ids, found.probabilities.size) == (0, [], 0)
    assert (found.expected_utility, found.expected_relevant) == (0.0, 0.0)
    assert found.reason is tp.Reason.NO_CANDIDATES


def test_ids_leave_as_they_came() -> None:
    scores = np.linspace(0.0, 1.0, len(ITEMS))
    wanted = MODEL.choose(USERS[3], ITEMS, scores).item_ids
    assert isinstance(wanted, list)
    assert MODEL.choose(USERS[3], tuple(ITEMS), scores.tolist()).item_ids == wanted
    assert MODEL.choose(USERS[3], pl.Series(ITEMS), pl.Series(scores)).item_ids == wanted
    assert MODEL.choose(USERS[3], iter(ITEMS), scores).item_ids == wanted
    in_an_array = MODEL.choose(USERS[3], np.array(ITEMS), scores).item_ids
    assert isinstance(in_an_array, np.ndarray)
    assert in_an_array.tolist() == wanted


@pytest.fixture(scope="module")
def of_integers() -> tp.FittedK:
    split = tp.split_given(
        train=pl.DataFrame({"user_id": [1, 2, 3] * 4, "item_id": [*range(12)]}),
        validation=pl.DataFrame({"user_id": [1, 2, 3], "item_id": [1, 2, 3]}),
    )
    scores = tp.Dense(np.random.default_rng(2).normal(size=(3, 12)), split.ids)
    return tp.PersonalizedK(tp.F1(), max_k=4).fit(scores, split)


def test_integers_of_every_kind_are_the_same_ids(of_integers: tp.FittedK) -> None:
    scores = np.arange(12, dtype=np.float32)
    wanted = of_integers.choose(2, list(range(12)), scores)
    for item_ids in (np.arange(12), np.arange(12, dtype=np.uint8), [*np.arange(12)]):
        found = of_integers.choose(np.int64(2), item_ids, scores)
        assert list(found.item_ids) == wanted.item_ids
        assert found.reason is tp.Reason.OWN_FIT
    assert of_integers.choose(2, np.arange(12), scores).item_ids.dtype == np.int64


def test_integers_that_are_known_in_part_are_refused_by_their_numbers(
    of_integers: tp.FittedK,
) -> None:
    item_ids, scores = np.array([3, 90, 5, 90]), np.zeros(4)
    with pytest.raises(IdError, match="item 90 is given more than once for user 2"):
        of_integers.choose(2, item_ids, scores)
    with pytest.raises(ScoreError, match="score of item 90 for user 2 is NaN"):
        of_integers.choose(2, item_ids[:3], np.array([0.0, np.nan, 0.0]))
    with pytest.raises(IdError, match=r"found None, but the known ids are integers"):
        of_integers.choose(2, np.ma.masked_array(item_ids[:2], [0, 1]), scores[:2])
    with pytest.raises(IdError, match=r"found 3, but the known ids are strings"):
        MODEL.choose(USERS[0], item_ids, scores)


@pytest.mark.parametrize(
    ("user_id", "item_ids", "words"),
    [
        ("2", [1], "user_id: found '2', but the known ids are integers"),
        (True, [1], "found True"),
        (2.0, [1], "found 2.0"),
        (None, [1], "found None"),
        (2, ["1"], "item_ids: found '1', but the known ids are integers"),
        (2, [1.0], "found 1.0"),
        (2, [False], "found False"),
        (2, np.array([1.0]), "found 1.0"),
        (2, [[1]], "found"),
        (2, np.array([[1]]), "Give one dimension"),
        (2, "1", "has no order of ids"),
        (2, {1}, "has no order of ids"),
        (2, 1, "Give a list or an array of ids"),
    ],
)
def test_ids_of_another_type_are_refused(
    of_integers: tp.FittedK, user_id: Any, item_ids: Any, words: str
) -> None:
    with pytest.raises(IdError) as error:
        of_integers.choose(user_id, item_ids, [0.5])
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        ([0.0, 1.0], "3 item_ids and 2 scores"),
        ([0.0, 1.0, 2.0, 3.0], "3 item_ids and 4 scores"),
        ([0.0, np.nan, 1.0], f"score of item '{ITEMS[1]}' for user '{USERS[0]}' is NaN"),
        ([0.0, 1.0, np.inf], f"score of item '{ITEMS[2]}' for user '{USERS[0]}' is plus infinity"),
        ([[0.0], [1.0], [2.0]], "Give one number for each item"),
        (["a", "b", "c"], "Give one number for each item"),
        (None, "scores"),
        (np.ma.masked_array([0.0, 1.0, 2.0], [0, 1, 0]), "masked"),
    ],
)
def test_scores_that_can_not_be_used_are_refused(scores: Any, words: str) -> None:
    with pytest.raises(ScoreError) as error:
        MODEL.choose(USERS[0], ITEMS[:3], scores)
    assert words in str(error.value)


@pytest.mark.parametrize("repeated", [ITEMS[3], "nobody knows it"])
def test_an_item_twice_is_refused(repeated: str) -> None:
    with pytest.raises(IdError, match=f"item '{repeated}' is given more than once for user"):
        MODEL.choose(USERS[0], [repeated, ITEMS[0], "new", repeated], np.zeros(4))


def test_answers_can_not_be_changed() -> None:
    with pytest.raises(FrozenInstanceError):
        MODEL.choose(USERS[0], ITEMS[:3], np.zeros(3)).k = 3  # type: ignore[misc]


def test_many_threads_get_the_answers_of_one() -> None:
    model = fitted(tp.F1(), CALIBRATORS[0])  # one that has not been asked yet
    rng = np.random.default_rng(3)
    asked = [
        (USERS[n % len(USERS)], ITEMS, rng.normal(size=len(ITEMS)).astype(np.float32))
        for n in range(400)
    ]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda one: model.choose(*one), asked))
    for one, request in zip(found, asked, strict=True):
        assert_same(one, model.choose(*request), within=0.0)


def test_what_is_looked_up_is_made_once() -> None:
    model = fitted(tp.F1(), CALIBRATORS[0])
    with ThreadPoolExecutor(8) as pool:
        desks = {id(desk) for desk in pool.map(lambda _: model._desk, range(40))}
    assert len(desks) == 1


def test_another_utility_has_answers_of_its_own() -> None:
    scores = WORLD.scores.block(np.array([4], dtype=np.int32)).scores
    first = MODEL.choose(USERS[4], ITEMS, scores)
    other = MODEL.for_utility(tp.NDCG())
    assert_same(
        other.choose(USERS[4], ITEMS, scores),
        through_frames(other, USERS[4], ITEMS, scores),
        within=1e-12,
    )
    assert MODEL.choose(USERS[4], ITEMS, scores).expected_utility == first.expected_utility


def test_no_frame_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    MODEL.choose(USERS[0], ITEMS, np.zeros(len(ITEMS)))  # the first call reads the ids

    def made(*arguments: object, **named: object) -> None:
        raise AssertionError("a frame or a series was made")

    for name in ("DataFrame", "Series", "LazyFrame"):
        monkeypatch.setattr(pl, name, made)
    assert isinstance(MODEL.policy, PersonalPolicy)
    assert MODEL.choose(USERS[0], ITEMS, np.zeros(len(ITEMS))).k > 0


# --- codes ------------------------------------------------------------------------------------

ends = [0, -1, 1, 2**31, -(2**31), 2**63 - 1, -(2**63)]
signed = st.one_of(st.sampled_from(ends), st.integers(-(2**63), 2**63 - 1), st.integers(-9, 9))
unsigned = st.one_of(st.sampled_from([0, 1, 2**63, 2**64 - 1]), st.integers(0, 2**64 - 1))


@given(
    st.one_of(
        st.tuples(st.just(pl.Int64), st.lists(signed, unique=True)),
        st.tuples(st.just(pl.UInt64), st.lists(unsigned, unique=True)),
        st.tuples(st.just(pl.Int16), st.lists(st.integers(-50, 50), unique=True)),
    ),
    st.lists(st.one_of(signed, unsigned, st.integers(-(2**70), 2**70))),
    st.data(),
)
def test_integers_are_looked_up_as_a_dictionary_would(
    known: tuple[Any, list[int]], asked: list[int], data: st.DataObject
) -> None:
    kind, values = known
    index = tp.IdIndex(pl.Series(values, dtype=kind))
    codes = IntegerCodes(index)
    some = data.draw(st.lists(st.sampled_from(values))) if values else []
    asked = [*some, *asked, *(one + 2**64 for one in some), *(one - 2**64 for one in some)]
    wanted = {one: code for code, one in enumerate(values)}
    assert codes.of(asked, "ids").tolist() == [wanted.get(one, -1) for one in asked]
    for of_array in (np.int64, np.uint64, np.int8):
        ends = np.iinfo(of_array)
        inside = [one for one in asked if ends.min <= one <= ends.max]
        answer = [wanted.get(one, -1) for one in inside]
        array = np.array(inside, dtype=of_array)
        assert codes.of(array, "ids").tolist() == answer
        assert codes.of(array.repeat(2)[::2], "ids").tolist() == answer
        assert codes.of(array.astype(array.dtype.newbyteorder()), "ids").tolist() == answer
        assert codes.of(list(array), "ids").tolist() == answer


@given(st.lists(st.text(), unique=True), st.lists(st.text()))
def test_strings_are_looked_up_in_the_order_of_the_ids(known: list[str], asked: list[str]) -> None:
    codes = Codes(tp.IdIndex(pl.Series(known, dtype=pl.String)))
    wanted = {one: code for code, one in enumerate(known)}
    asked += known[::-1]
    assert codes.of(asked, "ids").tolist() == [wanted.get(one, -1) for one in asked]
    assert [codes.one(one, "id") for one in asked] == codes.of(asked, "ids").tolist()


def test_ids_in_a_pattern_fill_no_stretch_of_the_table() -> None:
    for step in (1, 2**12, 2**32, 2**40 + 1):
        ids = np.arange(4096, dtype=np.int64) * step
        codes = IntegerCodes(tp.IdIndex(pl.Series(ids)))
        taken = "".join("x" if slot >= 0 else " " for slot in codes._slots)
        assert max(map(len, taken.split())) < 40


# --- the kernels ------------------------------------------------------------------------------


@given(st.lists(st.one_of(st.integers(0, 300), st.integers(0, 2**31 - 1)), max_size=60))
def test_codes_are_put_in_ascending_order_and_equal_ones_stay(codes: list[int]) -> None:
    given_codes = np.array(codes, dtype=np.int32)
    order = np.empty(len(codes), dtype=np.int32)
    ascending(given_codes, order)
    assert order.tolist() == sorted(range(len(codes)), key=lambda place: codes[place])


@given(
    st.lists(st.integers(-1, 30), min_size=1, max_size=20),
    st.lists(st.integers(0, 30), max_size=12),
    st.booleans(),
)
def test_candidates_are_arranged_as_in_words(
    codes: list[int], seen: list[int], known_user: bool
) -> None:
    n = len(codes)
    scores = np.arange(n, dtype=np.float64)
    order, items = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
    own = np.empty(n)
    status, at = arrange(
        np.array(codes, dtype=np.int32),
        scores,
        0 if known_user else -1,
        np.array([0, len(seen)], dtype=np.int64),
        np.array(seen, dtype=np.int32),  # in any order
        31,
        order,
        items,
        own,
    )
    known = [code for code in codes if code >= 0]
    if len(set(known)) < len(known):
        assert status == REPEATED
        assert codes[at] in codes[:at]
        return
    assert (status, at) == (DONE, -1)
    wanted = sorted(range(n), key=lambda place: (codes[place] < 0, codes[place]))
    assert order.tolist() == wanted
    assert items.tolist() == sorted(known) + [31 + new for new in range(n - len(known))]
    gone = set(seen) if known_user else set()
    assert own.tolist() == [-np.inf if codes[place] in gone else scores[place] for place in wanted]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_the_first_score_that_can_not_be_used_is_named(bad: float) -> None:
    room = np.empty(4, dtype=np.int32)
    found = arrange(
        np.arange(4, dtype=np.int32),
        np.array([0.0, 1.0, bad, bad]),
        -1,
        np.zeros(1, dtype=np.int64),
        np.empty(0, dtype=np.int32),
        4,
        room,
        room.copy(),
        np.empty(4),
    )
    assert found == (UNUSABLE, 2)
