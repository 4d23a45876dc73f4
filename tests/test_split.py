"""Splits: nothing lost, nothing shared, and a user's part is nobody else's business."""

from __future__ import annotations

import datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from strategies import Row, interaction_rows
from topperk._user_streams import stream_numbers, user_keys
from topperk.errors import IdError, InputError, SettingError
from topperk.ids import IdIndex
from topperk.interactions import Interactions, read_interactions
from topperk.split import Split, split_given, split_last, split_random, split_time

SHARES = st.tuples(st.floats(0, 0.99), st.floats(0, 0.99)).filter(lambda s: s[0] + s[1] < 1.0)


def read(rows: list[Row]) -> Interactions:
    names = ("user_id", "item_id", "rating", "timestamp")
    return read_interactions(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def rows_of(part: Interactions) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in part.to_frame().rows()]


def of_user(part: Interactions, user: object) -> list[tuple[Any, ...]]:
    return [row for row in rows_of(part) if row[0] == user]


def all_of_user(split: Split, user: object) -> dict[str, list[tuple[Any, ...]]]:
    return {name: of_user(part, user) for name, part in split.parts().items()}


def nothing_is_lost_or_shared(split: Split, data: Interactions) -> None:
    together = [row for part in split.parts().values() for row in rows_of(part)]
    assert sorted(together) == rows_of(data)
    assert all(part.ids == data.ids for part in split.parts().values())


def sizes_of_users(split: Split) -> list[tuple[int, int, int]]:
    counts = [part.counts_per_user().tolist() for part in split.parts().values()]
    return list(zip(*counts, strict=True))


def one_user(n: int, user: object = 1) -> Interactions:
    return read_interactions({"user": [user] * n, "item": range(n)})


# --- random -----------------------------------------------------------------------------------


@given(interaction_rows(), SHARES, st.integers(-(2**70), 2**70))
def test_a_random_split_follows_the_written_rule(
    rows: list[Row], shares: tuple[float, float], seed: int
) -> None:
    data = read(rows)
    split = split_random(data, *shares, seed=seed)
    nothing_is_lost_or_shared(split, data)
    wanted = [oracle.part_sizes(int(n), *shares) for n in data.counts_per_user()]
    assert sizes_of_users(split) == wanted
    assert (split.kind, split.settings["seed"]) == ("random", seed)


@pytest.mark.parametrize(
    "shares", [(0.2, 0.2), (0.1, 0.1), (0.25, 0.5), (0.0, 0.3), (0.3, 0.0), (0.0, 0.0), (0.5, 0.49)]
)
def test_sizes_follow_the_written_rule_for_every_n(shares: tuple[float, float]) -> None:
    n_max = 130
    users = np.repeat(np.arange(1, n_max + 1), np.arange(1, n_max + 1))
    items = np.concatenate([np.arange(n) for n in range(1, n_max + 1)])
    split = split_random(read_interactions({"user": users, "item": items}), *shares)
    assert sizes_of_users(split) == [oracle.part_sizes(n, *shares) for n in range(1, n_max + 1)]


def test_half_an_interaction_is_rounded_up() -> None:
    assert sizes_of_users(split_random(one_user(10), 0.25, 0.15)) == [(5, 3, 2)]


def test_a_small_user_keeps_one_for_training_and_test_gives_back_first() -> None:
    sizes = [sizes_of_users(split_random(one_user(n), 0.5, 0.45))[0] for n in (1, 2, 3)]
    assert sizes == [(1, 0, 0), (1, 1, 0), (1, 2, 0)]


@given(interaction_rows(), interaction_rows(), st.integers(0, 3))
def test_other_users_change_nothing_for_a_user(
    rows: list[Row], others: list[Row], seed: int
) -> None:
    alone = split_random(read(rows), 0.3, 0.3, seed=seed)
    # Others have ids apart, on both sides of the user's, and items of their own besides.
    more = [
        (user + (1_000 if user % 2 else -1_000), item + "+", *rest) for user, item, *rest in others
    ]
    among = split_random(read([*more, *rows]), 0.3, 0.3, seed=seed)
    for user in {row[0] for row in rows}:
        assert all_of_user(alone, user) == all_of_user(among, user)


@given(interaction_rows(), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_no_split(rows: list[Row], chance: Any) -> None:
    rows = [(*row[:3], time) for time, row in enumerate(rows)]
    shuffled = list(rows)
    chance.shuffle(shuffled)
    for one, other in (
        (split_random(read(rows), seed=3), split_random(read(shuffled), seed=3)),
        (split_last(read(rows)), split_last(read(shuffled))),
    ):
        assert list(map(rows_of, one.parts().values())) == list(
            map(rows_of, other.parts().values())
        )


def test_another_seed_is_another_split_and_the_same_seed_the_same() -> None:
    data = one_user(40)
    tests = [tuple(split_random(data, seed=seed).test.items.tolist()) for seed in range(20)]
    assert len(set(tests)) == 20
    assert tests[7] == tuple(split_random(data, seed=7).test.items.tolist())


def test_every_interaction_is_as_likely_to_be_tested() -> None:
    n_users, n = 4_000, 10
    users = np.repeat(np.arange(n_users), n)
    data = read_interactions({"user": users, "item": np.tile(np.arange(n), n_users)})
    split = split_random(data, 0.2, 0.3, seed=5)
    for part, share in ((split.test, 0.3), (split.validation, 0.2)):
        spread = np.sqrt(n_users * share * (1 - share))
        assert np.abs(part.counts_per_item() - n_users * share).max() < 5 * spread
    # and no pair of items goes together more often than chance has it
    tested = np.zeros((n_users, n))
    tested[split.test.user_codes(), split.test.items] = 1
    together = (tested.T @ tested)[~np.eye(n, dtype=bool)]
    share = 0.3 * 2 / 9
    assert np.abs(together - n_users * share).max() < 5 * np.sqrt(n_users * share * (1 - share))


def splitmix64(state: int, n: int) -> list[int]:
    """The first n numbers, as Steele, Lea and Flood print the generator."""
    mask, numbers = 2**64 - 1, []
    for _ in range(n):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        numbers.append(z ^ (z >> 31))
    return numbers


def test_streams_are_splitmix64_of_seed_and_id() -> None:
    assert splitmix64(1234567, 2) == [6457827717110365317, 3203168211198807973]  # as published
    for values, tag in (([3, 17], "i"), (["", "17", "ä"], "s")):
        keys = user_keys(IdIndex.from_values(values, "users"), 9)
        digests = [
            blake2b(f"topperk split 9 {tag}{v}".encode(), digest_size=8).digest() for v in values
        ]
        assert keys.tolist() == [int.from_bytes(digest, "little") for digest in digests]
        offsets = np.cumsum([0, *range(3, 3 + len(values))])
        numbers = stream_numbers(keys, offsets).tolist()
        wanted = [splitmix64(int(key), 3 + place) for place, key in enumerate(keys)]
        assert numbers == [number for own in wanted for number in own]


def test_the_smallest_numbers_are_tested_and_the_next_validated() -> None:
    data = one_user(20, user="ann")
    split = split_random(data, 0.25, 0.1, seed=4)
    key = blake2b(b"topperk split 4 sann", digest_size=8).digest()
    order = np.argsort(splitmix64(int.from_bytes(key, "little"), 20))
    assert split.test.items.tolist() == sorted(order[:2])
    assert split.validation.items.tolist() == sorted(order[2:7])


def test_the_width_of_an_integer_id_does_not_matter_and_a_string_is_another_user() -> None:
    def tested(users: pl.Series) -> list[int]:
        frame = pl.DataFrame({"user": users, "item": range(30)})
        return split_random(read_interactions(frame)).test.items.tolist()

    seventeen = pl.Series([17] * 30)
    narrow = [tested(seventeen.cast(kind)) for kind in (pl.Int8, pl.UInt64, pl.Int64)]
    assert narrow[0] == narrow[1] == narrow[2]
    assert tested(seventeen.cast(pl.String)) != narrow[0]
    assert tested(seventeen.cast(pl.String).cast(pl.Categorical)) == tested(
        seventeen.cast(pl.String)
    )


# --- leave the last out -----------------------------------------------------------------------


@given(interaction_rows(), st.integers(0, 4), st.integers(0, 4))
def test_the_latest_are_tested_and_those_before_validated(
    rows: list[Row], n_validation: int, n_test: int
) -> None:
    data = read(rows)
    split = split_last(data, n_validation, n_test)
    nothing_is_lost_or_shared(split, data)
    for user in {row[0] for row in rows}:
        own = sorted(of_user(data, user), key=lambda row: (row[3], row[1]))
        train, validation, _ = oracle.part_sizes_of_counts(len(own), n_validation, n_test)
        found = all_of_user(split, user)
        assert found["train"] == sorted(own[:train])
        assert found["validation"] == sorted(own[train : train + validation])
        assert found["test"] == sorted(own[train + validation :])


# --- by time ----------------------------------------------------------------------------------


@given(interaction_rows(), SHARES)
def test_a_moment_never_straddles_a_border(rows: list[Row], shares: tuple[float, float]) -> None:
    data = read(rows)
    times = sorted(row[3] for row in rows_of(data))
    n = len(times)
    n_test, n_validation = int(n * shares[1] + 0.5), int(n * shares[0] + 0.5)
    # The interaction that would open a part, were there no ties, brings all of its moment along.
    test_from = times[n - n_test] if n_test else 99
    start = times[n - n_test - n_validation] if n_validation else test_from
    wanted = [[t for t in times if t < start], [t for t in times if start <= t < test_from]]
    wanted.append([t for t in times if t >= test_from])
    if not wanted[0] or bool(wanted[1]) != bool(n_validation):
        with pytest.raises(InputError, match="Move the borders"):
            split_time(data, *shares)
        return
    split = split_time(data, *shares)
    nothing_is_lost_or_shared(split, data)
    assert [sorted(row[3] for row in rows_of(part)) for part in split.parts().values()] == wanted
    assert split.settings["test_from"] == (test_from if n_test else None)
    assert split.settings["validation_from"] == (start if n_validation else None)


@given(interaction_rows(), st.integers(0, 6), st.integers(0, 6))
def test_moments_given_are_the_borders(rows: list[Row], start: int, test: int) -> None:
    data = read(rows)
    if start >= test:
        with pytest.raises(SettingError, match="Validation comes before test"):
            split_time(data, validation_from=start, test_from=test)
        return
    times = [row[3] for row in rows_of(data)]
    wanted = [[t for t in times if t < start], [t for t in times if start <= t < test]]
    wanted.append([t for t in times if t >= test])
    if not all(wanted):
        with pytest.raises(InputError, match=r"(train|validation|test) has no interaction"):
            split_time(data, validation_from=start, test_from=test)
        return
    split = split_time(data, validation_from=start, test_from=test)
    assert [[row[3] for row in rows_of(part)] for part in split.parts().values()] == wanted


@pytest.mark.parametrize(
    "moment",
    [
        datetime.date(2024, 2, 1),
        datetime.datetime(2024, 2, 1),
        datetime.datetime(2024, 2, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=1))),
        1_706_745_600_000_000,
        1.7067456e15,
        np.int64(1_706_745_600_000_000),
        "2024-02-01",
        "2024-02-01T00:00:00",
        "2024-02-01T01:00:00+01:00",
        "1706745600000000",
        np.datetime64("2024-02-01"),
        np.datetime64("2024-02"),
        np.datetime64("2024-02-01T00:00:00.000000000", "ns"),
    ],
)
def test_dates_split_data_with_dates(moment: Any) -> None:
    frame = {
        "user": [1, 1, 1],
        "item": [1, 2, 3],
        "time": ["2024-01-31", "2024-02-01", "2024-03-01"],
    }
    split = split_time(read_interactions(frame), test_from=moment)
    assert split.train.items.tolist() == [0]
    assert split.test.items.tolist() == [1, 2]
    assert split.validation.n_interactions == 0


# --- given ------------------------------------------------------------------------------------


@given(interaction_rows(), SHARES, st.booleans())
def test_parts_written_out_come_back_as_the_same_split(
    rows: list[Row], shares: tuple[float, float], as_frames: bool
) -> None:
    data = read(rows)
    made = split_random(data, *shares)
    parts = [
        part.to_frame() if as_frames else part
        for part in made.parts().values()
        if part.n_interactions
    ]
    if len(parts) < 3:
        return
    split = split_given(*parts)
    for name, part in made.parts().items():
        assert rows_of(split.parts()[name]) == rows_of(part)
        assert split.parts()[name].ids.users == data.ids.users


def test_the_ids_of_given_parts_are_joined() -> None:
    split = split_given(
        {"user": [5, 3], "item": ["b", "b"]},
        {"user": [3, 9], "item": ["a", "c"]},
        {"user": [4], "item": ["b"]},
    )
    assert split.ids.users.values.to_list() == [3, 4, 5, 9]
    assert split.ids.items.values.to_list() == ["a", "b", "c"]
    assert rows_of(split.train) == [(3, "b"), (5, "b")]
    assert rows_of(split.validation) == [(3, "a"), (9, "c")]
    assert rows_of(split.test) == [(4, "b")]


def test_the_frame_is_of_the_kind_in_which_train_came() -> None:
    pandas = pytest.importorskip("pandas")
    train = pandas.DataFrame({"user": [1], "item": [1]})
    split = split_given(train, {"user": [1], "item": [2]})
    assert isinstance(split.validation.to_frame(), pandas.DataFrame)


def test_integer_ids_of_several_widths_are_joined() -> None:
    def part(user: int, kind: Any) -> pl.DataFrame:
        return pl.DataFrame({"user": pl.Series([user], dtype=kind), "item": [user % 7]})

    split = split_given(part(-3, pl.Int8), part(200, pl.UInt8), part(2**40, pl.Int64))
    assert split.ids.users.values.to_list() == [-3, 200, 2**40]
    with pytest.raises(IdError, match=r"above 2\*\*63.*Cast them to strings"):
        split_given(part(-3, pl.Int8), part(2**63 + 5, pl.UInt64))


def test_a_pair_in_two_parts_is_refused_by_name() -> None:
    both = {"user": ["ann", "bob"], "item": [1, 2]}
    with pytest.raises(InputError, match=r"1 pairs are both in train and in test.*user 'bob'"):
        split_given(both, {"user": ["ann"], "item": [3]}, {"user": ["bob"], "item": [2]})


def test_strings_and_integers_are_not_joined() -> None:
    with pytest.raises(IdError, match=r"user ids: strings .* integers .* Cast"):
        split_given({"user": [1], "item": [1]}, {"user": ["1"], "item": [2]})


def test_parts_of_other_ids_are_no_split() -> None:
    one, other = one_user(3), one_user(4)
    nothing = one.select(np.zeros(3, dtype=np.bool_))
    with pytest.raises(InputError, match=r"ids of validation .* split_given"):
        Split(one, other, nothing, "given")


# --- settings ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda d: split_random(d, 0.5, 0.5), "leave nothing for training"),
        (lambda d: split_random(d, -0.1), "validation is -0.1"),
        (lambda d: split_random(d, test=1.0), "test is 1.0"),
        (lambda d: split_random(d, float("nan")), "validation is nan"),
        (lambda d: split_random(d, "0.2"), "Give a share"),
        (lambda d: split_random(d, seed=0.5), "seed is 0.5"),
        (lambda d: split_random(d, seed=True), "seed is True"),
        (lambda d: split_last(d, -1), "validation is -1"),
        (lambda d: split_last(d, test=1.5), "test is 1.5"),
        (lambda d: split_time(d, 0.2, test_from=3), "both shares and moments"),
        (lambda d: split_time(d, test_from="someday"), "test_from is 'someday'"),
        (lambda d: split_time(d, test_from=""), "test_from is ''"),
        (lambda d: split_time(d, test_from="nan"), "test_from is 'nan'"),
        (lambda d: split_time(d, test_from=np.datetime64("NaT")), "test_from is"),
        (lambda d: split_time(d, test_from=float("inf")), "test_from is inf"),
        (lambda d: split_time(d, test_from=True), "test_from is True"),
    ],
)
def test_settings_out_of_range_are_named(make: Any, words: str) -> None:
    data = read_interactions({"user": [1, 1], "item": [1, 2], "time": [1, 2]})
    with pytest.raises(SettingError, match=words):
        make(data)


@pytest.mark.parametrize("verb", [split_last, split_time])
def test_without_times_there_is_no_last_and_no_moment(verb: Any) -> None:
    with pytest.raises(InputError, match=rf"{verb.__name__} needs a timestamp.*split_random"):
        verb(one_user(3))


# --- real data --------------------------------------------------------------------------------


def test_gowalla_is_split_by_the_rule(real_data: Path) -> None:
    data = read_interactions(real_data / "gowalla.parquet")
    assert (data.n_users, data.n_items, data.n_interactions) == (29_858, 40_981, 1_027_370)
    split = split_random(data, 0.2, 0.2, seed=0)
    n = data.counts_per_user()
    wanted = np.floor(n * 0.2 + 0.5).astype(int)
    assert (n > 4).all()
    assert (split.test.counts_per_user() == wanted).all()
    assert (split.validation.counts_per_user() == wanted).all()
    keys = [part.user_codes() * data.n_items + part.items for part in split.parts().values()]
    assert len(np.unique(np.concatenate(keys))) == data.n_interactions
