"""Interactions: what is read, merged and left out, whatever the order of the rows."""

from __future__ import annotations

import random
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracle
from strategies import Row, interaction_rows
from topperk.errors import InputError, SettingError
from topperk.ids import Ids
from topperk.interactions import Interactions, read_interactions


def columns(rows: list[Row], names: str = "user_id item_id rating timestamp") -> dict[str, Any]:
    return {name: [row[n] for row in rows] for n, name in enumerate(names.split())}


def pairs(data: Interactions) -> list[tuple[Any, Any]]:
    return [(row[0], row[1]) for row in data.to_frame().rows()]


def everything(data: Interactions) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in data.to_frame().rows()]


# --- the matrix -------------------------------------------------------------------------------


@given(interaction_rows())
def test_each_pair_stays_once_with_its_latest_row(rows: list[Row]) -> None:
    data = read_interactions(columns(rows))
    kept = oracle.latest_rows([(user, item, time) for user, item, _, time in rows])
    assert everything(data) == sorted(rows[n] for n in kept.values())
    assert data.n_merged == len(rows) - len(kept)


@given(interaction_rows())
def test_without_times_the_last_row_of_a_pair_stays(rows: list[Row]) -> None:
    frame = columns(rows)
    del frame["timestamp"]
    kept = oracle.latest_rows([(user, item, 0) for user, item, _, _ in rows])
    assert everything(read_interactions(frame)) == sorted(rows[n][:3] for n in kept.values())


@given(interaction_rows(), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(rows: list[Row], chance: random.Random) -> None:
    rows = [(*row[:3], time) for time, row in enumerate(rows)]  # no two of the same time
    shuffled = list(rows)
    chance.shuffle(shuffled)
    one, other = read_interactions(columns(rows)), read_interactions(columns(shuffled))
    assert one.ids == other.ids
    assert (one.offsets.tolist(), one.items.tolist()) == (
        other.offsets.tolist(),
        other.items.tolist(),
    )
    assert everything(one) == everything(other)
    assert one.n_merged == other.n_merged


@given(interaction_rows())
def test_rows_columns_and_counts_agree(rows: list[Row]) -> None:
    data = read_interactions(columns(rows))
    present = {row[:2] for row in rows}
    users, items = sorted({u for u, _ in present}), sorted({i for _, i in present})
    assert data.ids.users.values.to_list() == users
    assert data.ids.items.values.to_list() == items
    for code, user in enumerate(users):
        own = data.ids.items.take(data.items_of(code)).to_list()
        assert own == sorted(i for u, i in present if u == user)
    assert data.counts_per_user().tolist() == [sum(u == user for u, _ in present) for user in users]
    assert data.counts_per_item().tolist() == [sum(i == item for _, i in present) for item in items]
    assert data.user_codes().tolist() == [users.index(u) for u, _ in sorted(present)]
    matrix = data.to_scipy()
    assert matrix.shape == (len(users), len(items))
    assert matrix.nnz == len(present)
    assert matrix.sum() == pytest.approx(float(data.ratings.sum()))  # type: ignore[union-attr]


def test_without_ratings_the_sparse_matrix_holds_ones() -> None:
    data = read_interactions({"user": [1, 1, 2], "item": [5, 6, 6]})
    assert data.to_scipy().toarray().tolist() == [[1, 1], [0, 1]]


def test_a_view_of_a_users_items_can_not_be_written_to() -> None:
    data = read_interactions({"user": [1], "item": [5]})
    with pytest.raises(ValueError, match="read-only"):
        data.items_of(0)[0] = 3


def test_the_callers_columns_are_left_as_they_were() -> None:
    times, users = np.array([3, 1, 2]), np.array([2, 1, 2], dtype=np.int32)
    frame = {"user": users, "item": [1, 1, 1], "time": times}
    data = read_interactions(frame)
    data.timestamps[:] = 0  # type: ignore[index]
    assert times.tolist() == [3, 1, 2]
    assert users.tolist() == [2, 1, 2]


# --- what is left out -------------------------------------------------------------------------


@given(interaction_rows(), st.integers(0, 4), st.integers(0, 4))
def test_minimum_counts_are_taken_before_anything_leaves(
    rows: list[Row], min_per_user: int, min_per_item: int
) -> None:
    wanted = oracle.frequent({row[:2] for row in rows}, min_per_user, min_per_item)
    if not wanted:
        with pytest.raises(InputError, match="nothing is left"):
            read_interactions(columns(rows), min_per_user=min_per_user, min_per_item=min_per_item)
        return
    data = read_interactions(columns(rows), min_per_user=min_per_user, min_per_item=min_per_item)
    assert pairs(data) == sorted(wanted)
    _has_no_empty_ids(data)


@given(interaction_rows(), st.integers(0, 4))
def test_the_core_is_what_is_left_when_nobody_is_rare(rows: list[Row], k: int) -> None:
    wanted = oracle.core({row[:2] for row in rows}, k)
    data = read_interactions(columns(rows))
    if not wanted:
        with pytest.raises(InputError, match="nothing is left"):
            data.k_core(k)
        return
    assert pairs(data.k_core(k)) == sorted(wanted)
    assert everything(read_interactions(columns(rows), core=k)) == everything(data.k_core(k))
    _has_no_empty_ids(data.k_core(k))


def _has_no_empty_ids(data: Interactions) -> None:
    assert data.counts_per_user().min() > 0
    assert data.counts_per_item().min() > 0


def test_the_three_ways_of_leaving_out_the_rare_are_three_different_things() -> None:
    # a and b like 1, 2 and 3; c likes 3 and 4; d likes 4 alone.
    likes = {"user": list("aaabbbccd"), "item": [1, 2, 3, 1, 2, 3, 3, 4, 4]}
    data = read_interactions(likes)
    per_user, per_item = data.filter(min_per_user=2), data.filter(min_per_item=3)
    both, core = data.filter(2, 2), data.k_core(2)
    assert pairs(per_user) == [*((u, i) for u in "ab" for i in (1, 2, 3)), ("c", 3), ("c", 4)]
    assert pairs(per_item) == [("a", 3), ("b", 3), ("c", 3)]
    assert pairs(both) == pairs(per_user)  # item 4 has one user left, and stays
    assert pairs(core) == [(u, i) for u in "ab" for i in (1, 2, 3)]
    assert both.counts_per_item().min() == 1


@given(interaction_rows(), st.sampled_from([0.5, 1.0, 4.5, 5.0]))
def test_low_ratings_leave_after_merging_and_before_counting(
    rows: list[Row], min_rating: float
) -> None:
    kept = oracle.latest_rows([(user, item, time) for user, item, _, time in rows])
    high = {pair for pair, n in kept.items() if rows[n][2] >= min_rating}
    wanted = oracle.frequent(high, 2, 1)
    if not wanted:
        with pytest.raises(InputError, match=r"reaches min_rating|nothing is left"):
            read_interactions(columns(rows), min_rating=min_rating, min_per_user=2)
        return
    data = read_interactions(columns(rows), min_rating=min_rating, min_per_user=2)
    assert pairs(data) == sorted(wanted)
    assert data.n_merged == len(rows) - len(kept)


def test_selecting_keeps_ids_and_values() -> None:
    data = read_interactions(columns([(1, "a", 2.0, 9), (1, "b", 3.0, 8), (2, "a", 4.0, 7)]))
    chosen = data.select(np.array([False, True, True]))
    assert chosen.ids is data.ids
    assert everything(chosen) == [(1, "b", 3.0, 8), (2, "a", 4.0, 7)]
    nothing = data.select(np.zeros(3, dtype=np.bool_))
    assert nothing.n_interactions == 0
    assert nothing.counts_per_user().tolist() == [0, 0]


# --- times ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "times",
    [
        pl.Series(["2024-01-31", "2024-02-01"]),
        pl.Series(["2024-01-31T00:00:00", "2024-02-01T00:00:00"]),
        pl.Series(["2024-01-31", "2024-02-01"]).str.to_date(),
        pl.Series(["2024-01-31", "2024-02-01"]).str.to_datetime(time_unit="ms"),
        pl.Series(["2024-01-31", "2024-02-01"]).str.to_datetime(time_unit="ns"),
        pl.Series(["2024-01-31", "2024-02-01"]).str.to_datetime().dt.replace_time_zone("UTC"),
    ],
    ids=["text-date", "text-time", "date", "ms", "ns", "zone"],
)
def test_dates_become_microseconds(times: pl.Series) -> None:
    data = read_interactions(pl.DataFrame({"user": [1, 2], "item": [1, 1], "timestamp": times}))
    assert data.timestamps is not None
    assert data.timestamps.tolist() == [1_706_659_200_000_000, 1_706_745_600_000_000]


def test_times_before_1970_round_down() -> None:
    times = pl.Series([-1, -1000, -1001], dtype=pl.Datetime("ns"))
    data = read_interactions(pl.DataFrame({"user": [1, 2, 3], "item": [1] * 3, "time": times}))
    assert data.timestamps is not None
    assert data.timestamps.tolist() == [-1, -1, -2]


@pytest.mark.parametrize(
    "times",
    [
        pl.Series([2**62], dtype=pl.Datetime("ms")),
        pl.Series([-(2**62)], dtype=pl.Datetime("ms")),
        pl.Series([2**31 - 1], dtype=pl.Int32).cast(pl.Date),
    ],
)
def test_dates_beyond_64_bits_are_refused(times: pl.Series) -> None:
    with pytest.raises(InputError, match=r"row 1 lies beyond 64 bits.*Correct"):
        read_interactions(pl.DataFrame({"user": [1], "item": [1], "time": times}))


def test_durations_are_no_times() -> None:
    for spans in (
        pl.Series([1], dtype=pl.Duration("ms")),
        np.array([1], dtype="timedelta64[ns]"),
        np.array([1], dtype="timedelta64[s]"),
    ):
        with pytest.raises(InputError, match=r"Duration.*Give numbers"):
            read_interactions({"user": [1], "item": [1], "time": spans})


# --- settings and shapes ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {"min_per_user": -1},
        {"min_per_item": 1.5},
        {"core": True},
        {"min_rating": float("nan")},
        {"min_rating": "4"},
        {"min_rating": True},
    ],
)
def test_settings_out_of_range_are_named(settings: dict[str, Any]) -> None:
    frame = {"user": [1], "item": [1], "rating": [1.0]}
    (name,) = settings
    with pytest.raises(SettingError, match=rf"^{name} is .*Give a (whole|finite) number"):
        read_interactions(frame, **settings)


def codes(*values: int) -> Any:
    return np.array(values, dtype=np.int32)


@pytest.mark.parametrize(
    ("offsets", "items", "more"),
    [
        ([0, 1, 2], [0, 2], {}),
        ([0, 1, 2], [0, -1], {}),
        ([0, 2, 2], [1, 0], {}),
        ([0, 2, 2], [1, 1], {}),
        ([0, 2], [0, 1], {}),
        ([0, 3, 2], [0, 1], {}),
        ([1, 1, 2], [0, 1], {}),
        ([0, 1, 3], [0, 1], {}),
        ([0, 1, 2], [0, 1], {"ratings": np.ones(3)}),
        ([0, 1, 2], [0, 1], {"timestamps": np.ones(1)}),
    ],
)
def test_arrays_that_are_no_interactions_are_refused(
    offsets: list[int], items: list[int], more: dict[str, Any]
) -> None:
    ids = Ids.of([1, 2], ["a", "b"])
    with pytest.raises(InputError, match=r"\. \w+"):
        Interactions(ids, np.array(offsets), codes(*items), **more)


def test_arrays_of_other_widths_are_refused() -> None:
    with pytest.raises(InputError, match="int64"):
        Interactions(Ids.of([1], ["a"]), codes(0, 1), codes(0))


@pytest.mark.parametrize("mask", [[True], [1, 0], [[True, False]]])
def test_a_mask_is_one_boolean_for_each_pair(mask: Any) -> None:
    data = read_interactions({"user": [1, 2], "item": [1, 1]})
    with pytest.raises(InputError, match="Give one boolean for each of the 2 pairs"):
        data.select(mask)


# --- real data --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def citeulike(real_data: Path) -> Interactions:
    """A line is a user: how many articles, then their numbers."""
    lines = (real_data / "citeulike-a" / "users.dat").read_text().splitlines()
    articles = [np.array(line.split()[1:], dtype=np.int64) for line in lines]
    users = np.repeat(np.arange(len(articles)), [len(own) for own in articles])
    return read_interactions({"user": users, "item": np.concatenate(articles)})


@pytest.mark.parametrize(
    ("least", "sizes"),
    [
        (0, (5_551, 16_980, 204_986)),
        (19, (3_277, 16_807, 174_811)),
        (20, (3_097, 16_792, 171_391)),
    ],
)
def test_citeulike_has_the_sizes_of_the_literature(
    citeulike: Interactions, least: int, sizes: tuple[int, int, int]
) -> None:
    found = citeulike.filter(min_per_user=least)
    assert (found.n_users, found.n_items, found.n_interactions) == sizes
    assert found.counts_per_user().min() >= least


def test_a_true_core_of_citeulike_is_much_smaller(citeulike: Interactions) -> None:
    found = citeulike.k_core(20)
    assert (found.n_users, found.n_items) == (83, 137)


def test_movielens_has_the_publishers_sizes(real_data: Path) -> None:
    with zipfile.ZipFile(real_data / "ml-1m.zip") as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("ratings.dat")]
        numbers = np.array(archive.read(name).replace(b"::", b" ").split(), dtype=np.int64)
    names = ("UserID", "MovieID", "Rating", "Timestamp")
    data = read_interactions(dict(zip(names, numbers.reshape(-1, 4).T, strict=True)))
    assert (data.n_users, data.n_items, data.n_interactions) == (6_040, 3_706, 1_000_209)
    assert data.n_merged == 0
    assert data.ratings is not None
    assert sorted(set(data.ratings.tolist())) == [1, 2, 3, 4, 5]
    assert data.timestamps is not None
