"""Interactions in three parts: train, validation, test.

==========  ==================================================================================
train       what the recommender learns from, and what a user has seen
validation  what calibration learns from
test        what is kept for the last judgement
==========  ==================================================================================

Four ways: :func:`split_random` (per user), :func:`split_last` (each user's latest),
:func:`split_time` (everybody at the same moment), :func:`split_given` (parts that exist already).
All parts share one set of ids, no pair is in two parts, and nothing is lost.

A rule for small users holds in :func:`split_random` and :func:`split_last`: a user with any
interaction keeps at least one for training. Where the parts asked for would leave none, test gives
back first, then validation.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from topperk._frames import moments, to_series
from topperk._kernels.arrays import BoolArray, IntArray, OffsetArray
from topperk._settings import check_count, check_seed, check_shares
from topperk._user_streams import stream_numbers, user_keys
from topperk.errors import InputError, SettingError
from topperk.ids import Ids
from topperk.interactions import Interactions, check_interactions, read_interactions

if TYPE_CHECKING:
    from topperk._frames import Source

__all__ = [
    "Moment",
    "Split",
    "SplitKind",
    "split_given",
    "split_last",
    "split_random",
    "split_time",
]

SplitKind: TypeAlias = Literal["random", "last", "time", "given"]
Moment: TypeAlias = int | float | str | datetime.date | datetime.datetime | np.datetime64
Setting: TypeAlias = int | float | None

_TRAIN, _VALIDATION, _TEST = 0, 1, 2


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Three parts of one body of interactions, over the same ids and without a shared pair.

    ``kind`` and ``settings`` tell how the parts were made.

    >>> data = read_interactions({"user_id": [1] * 5, "item_id": [1, 2, 3, 4, 5]})
    >>> split_random(data, validation=0.2, test=0.2, seed=0)
    Split(random: 3 train, 1 validation, 1 test; 1 users, 5 items)
    """

    train: Interactions
    validation: Interactions
    test: Interactions
    kind: SplitKind
    settings: Mapping[str, Setting] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        """Check that the parts have the same ids and no pair in common."""
        parts = self.parts()
        for part in parts.values():
            check_interactions(part)
        for name in ("validation", "test"):
            if parts[name].ids is not self.ids and parts[name].ids != self.ids:
                raise InputError(
                    f"the ids of {name} are not those of train. "
                    "Make the split with split_given, which joins the ids of its parts."
                )
        for one, other in (("train", "validation"), ("train", "test"), ("validation", "test")):
            _refuse_common(one, parts[one], other, parts[other])

    def __repr__(self) -> str:
        """How it was made, and the sizes."""
        sizes = ", ".join(f"{part.n_interactions} {name}" for name, part in self.parts().items())
        return f"Split({self.kind}: {sizes}; {self.ids.n_users} users, {self.ids.n_items} items)"

    @property
    def ids(self) -> Ids:
        """The users and items that all three parts speak of."""
        return self.train.ids

    def parts(self) -> dict[str, Interactions]:
        """The three parts by name."""
        return {"train": self.train, "validation": self.validation, "test": self.test}


def split_random(
    data: Interactions, validation: float = 0.2, test: float = 0.2, seed: int = 0
) -> Split:
    """Give a random share of every user's interactions to validation and to test.

    A user with n interactions gives ``floor(n * test + 0.5)`` to test and
    ``floor(n * validation + 0.5)`` to validation (in float64), and keeps at least one for training:
    test gives back first, then validation.

    A user's random numbers derive from the seed and the user's own id: blake2b of both is the key
    of a splitmix64 stream, with one number for each position in the user's list sorted by item id.
    Those with the smallest numbers are tested, the next validated. So the order of rows, other
    users, and other users' items change nothing for a user.

    >>> data = read_interactions({"user_id": ["ann"] * 4, "item_id": list("abcd")})
    >>> split_random(data, validation=0.25, test=0.25, seed=1).test.n_interactions
    1
    """
    check_interactions(data)
    check_shares(validation, test)
    check_seed(seed)
    counts = data.counts_per_user()
    n_validation, n_test = _fitted_sizes(
        counts,
        np.floor(counts * validation + 0.5).astype(np.int64),
        np.floor(counts * test + 0.5).astype(np.int64),
    )
    numbers = stream_numbers(user_keys(data.ids.users, int(seed)), data.offsets)
    order = np.lexsort((numbers, data.user_codes()))
    part = _by_place(data, order, n_test, n_validation, first=_TEST, second=_VALIDATION)
    settings: dict[str, Setting] = {"validation": validation, "test": test, "seed": int(seed)}
    return _split_by(data, part, "random", settings)


def split_last(data: Interactions, validation: int = 1, test: int = 1) -> Split:
    """Test every user's latest interactions and validate those just before.

    The latest ``test`` of each user go to test and the ``validation`` before them to validation.
    Interactions of the same time are ordered by item id. A user keeps at least one for training:
    test gives back first, then validation. InputError where there are no timestamps.

    >>> data = read_interactions({"user_id": [1] * 3, "item_id": [1, 2, 3], "timestamp": [9, 7, 8]})
    >>> split = split_last(data)
    >>> split.test.to_frame()["item_id"].to_list(), split.train.to_frame()["item_id"].to_list()
    ([1], [2])
    """
    check_count("validation", validation)
    check_count("test", test)
    times = _times_of(data, "split_last")
    counts = data.counts_per_user()
    n_validation, n_test = _fitted_sizes(
        counts, np.minimum(counts, validation), np.minimum(counts, test)
    )
    # Within a user pairs already ascend by item id, and lexsort is stable.
    order = np.lexsort((times, data.user_codes()))
    n_train = counts - n_validation - n_test
    part = _by_place(data, order, n_train, n_validation, first=_TRAIN, second=_VALIDATION)
    return _split_by(data, part, "last", {"validation": validation, "test": test})


def split_time(
    data: Interactions,
    validation: float | None = None,
    test: float | None = None,
    *,
    validation_from: Moment | None = None,
    test_from: Moment | None = None,
) -> Split:
    """Split everybody at the same two moments.

    Interactions at or after ``test_from`` are tested, earlier ones at or after
    ``validation_from`` validated, and the rest trained on. The moments are given in the data's own
    unit, or as dates (``datetime``, ``np.datetime64`` or ISO text, read as in the data) where the
    data came with dates; or else they follow from the shares
    ``validation`` and ``test`` (0.2 each unless said otherwise) of all interactions: the border is
    the time of the interaction that would open the part, and all interactions of that very moment
    belong to the later part, so a tie never straddles a border. The ``settings`` of the split tell
    the moments.

    Users and items that first appear after a border simply have nothing in train. InputError
    where there are no timestamps, or where train or a part asked for would be empty.

    >>> data = read_interactions({"user_id": [1] * 5, "item_id": range(5), "timestamp": range(5)})
    >>> split_time(data, validation=0.2, test=0.4).settings["test_from"]
    3
    """
    times = _times_of(data, "split_time")
    shares: dict[str, Setting] = {}
    if validation_from is None and test_from is None:
        validation = 0.2 if validation is None else validation
        test = 0.2 if test is None else test
        check_shares(validation, test)
        shares = {"validation": validation, "test": test}
        start_validation, start_test = _borders(times, validation, test)
    else:
        if validation is not None or test is not None:
            raise SettingError(
                "split_time was given both shares and moments. Give validation and test, "
                "or validation_from and test_from."
            )
        start_validation = _moment("validation_from", validation_from)
        start_test = _moment("test_from", test_from)
        if (
            start_validation is not None
            and start_test is not None
            and (start_validation >= start_test)
        ):
            raise SettingError(
                f"validation_from={validation_from} is not before test_from={test_from}. "
                "Validation comes before test."
            )
    part = np.zeros(data.n_interactions, dtype=np.int8)
    if start_validation is not None:
        part[times >= start_validation] = _VALIDATION
    if start_test is not None:
        part[times >= start_test] = _TEST
    sizes = np.bincount(part, minlength=3)
    asked = (True, start_validation is not None, start_test is not None)
    for code, name in enumerate(("train", "validation", "test")):
        if asked[code] and sizes[code] == 0:
            raise InputError(
                f"{name} has no interaction when validation begins at {start_validation} and test "
                f"at {start_test}; the data's times run from {times.min()} to {times.max()}. "
                "Move the borders."
            )
    settings = shares | {"validation_from": start_validation, "test_from": start_test}
    return _split_by(data, part, "time", settings)


def split_given(
    train: Interactions | Source,
    validation: Interactions | Source,
    test: Interactions | Source | None = None,
) -> Split:
    """Make a split of parts that exist already: interactions, frames or files.

    The ids of the split are those of all parts together, ascending; they leave in the kind of
    frame in which train came. InputError when a pair is in two parts, IdError when one part's ids
    are strings and another's integers.

    >>> split = split_given({"user": [1], "item": [5]}, {"user": [1], "item": [4]})
    >>> split
    Split(given: 1 train, 1 validation, 0 test; 1 users, 2 items)
    """
    sources = (train, validation) if test is None else (train, validation, test)
    given = [
        part if isinstance(part, Interactions) else read_interactions(part) for part in sources
    ]
    users, items = given[0].ids.users, given[0].ids.items
    for part in given[1:]:
        users = users.union(part.ids.users, "user ids")
        items = items.union(part.ids.items, "item ids")
    ids = Ids(users, items, given[0].ids.frame_kind)
    parts = [_recoded(part, ids) for part in given]
    if test is None:
        parts.append(parts[0].select(np.zeros(parts[0].n_interactions, dtype=np.bool_)))
    return Split(parts[0], parts[1], parts[2], "given")


def _fitted_sizes(
    counts: OffsetArray, n_validation: OffsetArray, n_test: OffsetArray
) -> tuple[OffsetArray, OffsetArray]:
    """Sizes that leave one interaction for training: test gives back first, then validation."""
    too_many = np.maximum(n_validation + n_test - np.maximum(counts - 1, 0), 0)
    from_test = np.minimum(too_many, n_test)
    return n_validation - (too_many - from_test), n_test - from_test


def _by_place(
    data: Interactions,
    order: npt.NDArray[np.int64],
    n_first: OffsetArray,
    n_second: OffsetArray,
    *,
    first: int,
    second: int,
) -> npt.NDArray[np.int8]:
    """The part of every pair, where ``order`` sorts each user's pairs.

    The first ``n_first`` of a user go to ``first``, the next ``n_second`` to ``second``, and the
    others to the part that is left.
    """
    counts = data.counts_per_user()
    place = np.arange(data.n_interactions) - np.repeat(data.offsets[:-1], counts)
    ordered = np.full(data.n_interactions, 3 - first - second, dtype=np.int8)
    ordered[place < np.repeat(n_first + n_second, counts)] = second
    ordered[place < np.repeat(n_first, counts)] = first
    part = np.empty_like(ordered)
    part[order] = ordered
    return part


def _split_by(
    data: Interactions,
    part: npt.NDArray[np.int8],
    kind: SplitKind,
    settings: Mapping[str, Setting],
) -> Split:
    return Split(
        data.select(part == _TRAIN),
        data.select(part == _VALIDATION),
        data.select(part == _TEST),
        kind,
        MappingProxyType(dict(settings)),
    )


def _times_of(data: Interactions, verb: str) -> npt.NDArray[np.int64] | npt.NDArray[np.float64]:
    check_interactions(data)
    if data.timestamps is None:
        raise InputError(
            f"{verb} needs a timestamp for every interaction, and the data has none. "
            "Read it with timestamp=..., or use split_random."
        )
    return data.timestamps


def _borders(
    times: npt.NDArray[np.int64] | npt.NDArray[np.float64], validation: float, test: float
) -> tuple[int | float | None, int | float | None]:
    """The moments at which validation and test begin."""
    n = len(times)
    n_test, n_validation = int(n * test + 0.5), int(n * validation + 0.5)
    ordered = np.sort(times)
    start_test = ordered[n - n_test].item() if n_test else None
    start_validation = ordered[n - n_test - n_validation].item() if n_validation else None
    return start_validation, start_test


def _moment(name: str, value: Moment | None) -> int | float | None:
    """A moment as the number that the data's times are compared with."""
    if value is None:
        return None
    if isinstance(value, datetime.date):
        if not isinstance(value, datetime.datetime):
            value = datetime.datetime(value.year, value.month, value.day)
        # As in the data: a time without zone is taken as it stands.
        if value.tzinfo is None:
            value = value.replace(tzinfo=datetime.UTC)
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        return (value - epoch) // datetime.timedelta(microseconds=1)
    if isinstance(value, (str, np.datetime64)):
        try:
            return cast(int | float, moments(to_series(np.array([value]), name), name)[0].item())
        except InputError as error:
            raise SettingError(
                f"{name} is {value!r}, which is no moment. "
                "Give a number, a date, or text such as 2024-01-31 or 2024-01-31T12:00:00."
            ) from error
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise SettingError(f"{name} is {value!r}. Give a number, a date or a datetime.")
    if not np.isfinite(value):
        raise SettingError(f"{name} is {value}. Give a finite number, a date or a datetime.")
    return int(value) if isinstance(value, (int, np.integer)) else float(value)


def _recoded(part: Interactions, ids: Ids) -> Interactions:
    """The same pairs in the codes of a larger set of ids."""
    if part.ids == ids:
        return Interactions(
            ids, part.offsets, part.items, part.ratings, part.timestamps, part.n_merged
        )
    new_user = ids.users.codes(part.ids.users.values, "user ids")
    new_item = ids.items.codes(part.ids.items.values, "item ids")
    users: IntArray = new_user[part.user_codes()]
    items: IntArray = new_item[part.items]
    order = np.lexsort((items, users))
    counts = np.bincount(users, minlength=ids.n_users)
    return Interactions(
        ids,
        np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)]),
        items[order],
        None if part.ratings is None else part.ratings[order],
        None if part.timestamps is None else part.timestamps[order],
        part.n_merged,
    )


def _refuse_common(one: str, part: Interactions, other: str, more: Interactions) -> None:
    """InputError when two parts share a pair."""
    small, large = sorted((_keys(part), _keys(more)), key=len)
    if len(small) == 0:
        return
    place = np.minimum(np.searchsorted(large, small), len(large) - 1)
    common: BoolArray = large[place] == small
    if common.any():
        user, item = divmod(int(small[common.argmax()]), part.n_items)
        raise InputError(
            f"{int(common.sum())} pairs are both in {one} and in {other}, such as user "
            f"{part.ids.users.name(user)} with item {part.ids.items.name(item)}. "
            "Every interaction belongs to one part."
        )


def _keys(part: Interactions) -> npt.NDArray[np.int64]:
    """One ascending number for each pair."""
    return part.user_codes().astype(np.int64) * part.n_items + part.items
