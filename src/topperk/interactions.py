"""Who interacted with what: read from outside, held as one compressed sparse matrix.

:func:`read_interactions` makes :class:`Interactions` from a file or a frame. Three ways of leaving
out the rare are often confused, and give very different data:

``min_per_user=n``
    keeps the users with at least n items. Items may become rare by it, and stay.
``min_per_item=n``
    keeps the items with at least n users. Where both are given, both counts are taken on the data
    as it stands before either is applied, so the order does not matter; afterwards a user may
    well have fewer than ``min_per_user`` items.
``core=n`` (:meth:`Interactions.k_core`)
    removes rare users and rare items in turns until every user left has at least n items *left*
    and every item at least n users *left*. On sparse data it removes far more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from topperk._frames import ReadColumns, finite_numbers, from_polars, moments, read_columns
from topperk._kernels.arrays import BoolArray, FloatArray, IntArray, OffsetArray
from topperk._merging import latest_of_each
from topperk._score_checks import numbers_of
from topperk._settings import check_count, check_finite
from topperk.errors import InputError, MissingExtraError
from topperk.ids import IdIndex, Ids, check_ids, checked_codes

if TYPE_CHECKING:
    from topperk._frames import Source

__all__ = ["Interactions", "read_interactions"]

TimeArray = npt.NDArray[np.int64] | npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Interactions:
    """Distinct (user, item) pairs as codes, sorted by user and then by item.

    ``items[offsets[u]:offsets[u + 1]]`` are the items of the user with code u, ascending.
    ``ratings`` and ``timestamps``, where there are any, run parallel to ``items``. ``n_merged``
    counts the rows that reading dropped because a later row told of the same pair; what is
    selected or filtered from the interactions keeps that number.

    >>> frame = {"user_id": ["b", "a", "b"], "item_id": [3, 1, 1]}
    >>> data = read_interactions(frame)
    >>> data
    Interactions(2 users, 2 items, 3 pairs)
    >>> data.items_of(1).tolist(), data.ids.items.take(data.items_of(1)).to_list()
    ([0, 1], [1, 3])
    """

    ids: Ids
    offsets: OffsetArray
    items: IntArray
    ratings: FloatArray | None = None
    timestamps: TimeArray | None = None
    n_merged: int = 0

    def __post_init__(self) -> None:
        """Check shapes and types, and that every user's items ascend."""
        check_ids(self.ids)
        for name in ("offsets", "items", "ratings", "timestamps"):
            values, may_lack = getattr(self, name), name in ("ratings", "timestamps")
            if not (isinstance(values, np.ndarray) or (may_lack and values is None)):
                raise InputError(
                    f"{name} of interactions are of type {type(values).__name__}. Give a numpy "
                    "array, or make interactions with read_interactions."
                )
        if self.offsets.dtype != np.int64 or self.items.dtype != np.int32:
            raise InputError(
                f"interactions were given {self.offsets.dtype} offsets and {self.items.dtype} "
                "items. Offsets are int64 and items int32."
            )
        if (
            self.offsets.shape != (self.n_users + 1,)
            or self.offsets[0] != 0
            or self.offsets[-1] != len(self.items)
            or (np.diff(self.offsets) < 0).any()
        ):
            raise InputError(
                f"the offsets of interactions do not fit {self.n_users} users and "
                f"{len(self.items)} pairs. They ascend from 0 to the number of pairs."
            )
        for name, values in (("ratings", self.ratings), ("timestamps", self.timestamps)):
            if values is not None and values.shape != self.items.shape:
                raise InputError(
                    f"{len(values)} {name} were given for {len(self.items)} pairs. "
                    "Give one for each pair, or none at all."
                )
        if len(self.items) == 0:
            return
        if self.items.min() < 0 or self.items.max() >= self.n_items:
            raise InputError(
                f"items of interactions lie in {self.items.min()}..{self.items.max()}, but there "
                f"are {self.n_items} items. Codes are positions in the ids."
            )
        ascends = self.items[1:] > self.items[:-1]
        starts = self.offsets[1:-1]
        ascends[starts[(starts > 0) & (starts < len(self.items))] - 1] = True
        if not ascends.all():
            raise InputError(
                "the items of a user do not ascend or are repeated. "
                "Make interactions with read_interactions, which sorts and merges."
            )

    def __repr__(self) -> str:
        """The sizes, and what is known of each pair."""
        extras = [name for name in ("ratings", "timestamps") if getattr(self, name) is not None]
        more = f", with {' and '.join(extras)}" if extras else ""
        return (
            f"Interactions({self.n_users} users, {self.n_items} items, "
            f"{self.n_interactions} pairs{more})"
        )

    @property
    def n_users(self) -> int:
        """How many users the ids know, with or without interactions."""
        return self.ids.n_users

    @property
    def n_items(self) -> int:
        """How many items the ids know, with or without interactions."""
        return self.ids.n_items

    @property
    def n_interactions(self) -> int:
        """How many distinct (user, item) pairs there are."""
        return len(self.items)

    def items_of(self, user: int) -> IntArray:
        """The item codes of one user, ascending: a view that can not be written to."""
        user = int(checked_codes([user], self.n_users)[0])
        view = self.items[self.offsets[user] : self.offsets[user + 1]]
        view.flags.writeable = False
        return view

    def user_codes(self) -> IntArray:
        """The user code of every pair, parallel to ``items``."""
        users: IntArray = np.repeat(np.arange(self.n_users, dtype=np.int32), self.counts_per_user())
        return users

    def counts_per_user(self) -> OffsetArray:
        """How many items each user has."""
        counts: OffsetArray = np.diff(self.offsets)
        return counts

    def counts_per_item(self) -> OffsetArray:
        """How many users each item has."""
        counts: OffsetArray = np.bincount(self.items, minlength=self.n_items).astype(np.int64)
        return counts

    def to_frame(self) -> Any:
        """A frame ``user_id, item_id [, rating, timestamp]`` of the kind that was read.

        Ids have the type in which they came; times that came as dates are int64 microseconds
        since 1970.

        >>> read_interactions({"user": [2, 1], "item": ["x", "y"]}).to_frame().rows()
        [(1, 'y'), (2, 'x')]
        """
        columns = {
            "user_id": self.ids.users.take(self.user_codes()),
            "item_id": self.ids.items.take(self.items),
        }
        if self.ratings is not None:
            columns["rating"] = pl.Series(self.ratings)
        if self.timestamps is not None:
            columns["timestamp"] = pl.Series(self.timestamps)
        return from_polars(pl.DataFrame(columns), self.ids.frame_kind)

    def to_scipy(self) -> Any:
        """A users x items float32 CSR matrix of the ratings (ones where there are none)."""
        try:
            from scipy.sparse import csr_matrix
        except ImportError as error:
            raise MissingExtraError(
                "to_scipy needs scipy, which is not installed. Install it: pip install scipy"
            ) from error
        values = (
            np.ones(self.n_interactions, dtype=np.float32)
            if self.ratings is None
            else self.ratings.astype(np.float32)
        )
        shape = (self.n_users, self.n_items)
        return csr_matrix((values, self.items.copy(), self.offsets.copy()), shape=shape)

    def select(self, mask: BoolArray) -> Interactions:
        """The pairs for which the mask is true, with the same ids.

        >>> data = read_interactions({"user_id": [1, 2], "item_id": [5, 6]})
        >>> data.select(np.array([True, False]))
        Interactions(2 users, 2 items, 1 pairs)
        """
        mask = numbers_of(mask, "the mask")
        if mask.dtype != np.bool_ or mask.shape != self.items.shape:
            raise InputError(
                f"the mask is {mask.dtype} of shape {mask.shape}. "
                f"Give one boolean for each of the {self.n_interactions} pairs."
            )
        before = np.zeros(self.n_interactions + 1, dtype=np.int64)
        np.cumsum(mask, out=before[1:])
        return Interactions(
            self.ids,
            before[self.offsets],
            self.items[mask],
            None if self.ratings is None else self.ratings[mask],
            None if self.timestamps is None else self.timestamps[mask],
            self.n_merged,
        )

    def filter(self, min_per_user: int = 1, min_per_item: int = 1) -> Interactions:
        """Keep users with at least ``min_per_user`` items and items with ``min_per_item`` users.

        Both are counted on the data as it stands, before either is applied, and once: see
        :meth:`k_core` for the repeated form. Users and items without anything left leave the ids.
        InputError when nothing is left.

        >>> pairs = {"user_id": [1, 1, 2, 3], "item_id": [7, 8, 7, 9]}
        >>> read_interactions(pairs).filter(min_per_user=2).to_frame().rows()
        [(1, 7), (1, 8)]
        >>> read_interactions(pairs).filter(min_per_item=2).to_frame().rows()
        [(1, 7), (2, 7)]
        """
        check_count("min_per_user", min_per_user)
        check_count("min_per_item", min_per_item)
        mask = (self.counts_per_user() >= min_per_user)[self.user_codes()]
        mask &= (self.counts_per_item() >= min_per_item)[self.items]
        return self._compact(mask, f"min_per_user {min_per_user} and min_per_item {min_per_item}")

    def k_core(self, k: int) -> Interactions:
        """The largest part in which every user has at least k items and every item k users.

        Rare users and items leave in turns until none is rare. Every turn costs one pass over
        the pairs. InputError when nothing is left.

        >>> pairs = {"user_id": [1, 1, 2, 2, 3], "item_id": [7, 8, 7, 8, 9]}
        >>> read_interactions(pairs).k_core(2).n_interactions
        4
        """
        check_count("k", k)
        users, items = self.user_codes(), self.items
        kept = np.arange(self.n_interactions)
        while True:
            stays = (np.bincount(users, minlength=1) >= k)[users]
            stays &= (np.bincount(items, minlength=1) >= k)[items]
            if stays.all():
                break
            users, items, kept = users[stays], items[stays], kept[stays]
        mask = np.zeros(self.n_interactions, dtype=np.bool_)
        mask[kept] = True
        return self._compact(mask, f"the {k}-core")

    def _compact(self, mask: BoolArray, rule: str) -> Interactions:
        """Select, and drop the users and items that have nothing left from the ids."""
        if not mask.any():
            raise InputError(
                f"nothing is left of {self.n_interactions} interactions after {rule}. "
                "Lower the minimum."
            )
        chosen = self if mask.all() else self.select(mask)
        per_user, per_item = chosen.counts_per_user(), chosen.counts_per_item()
        users, items = np.flatnonzero(per_user), np.flatnonzero(per_item)
        if len(users) == self.n_users and len(items) == self.n_items:
            return chosen
        new_code = np.full(self.n_items, -1, dtype=np.int32)
        new_code[items] = np.arange(len(items), dtype=np.int32)
        ids = Ids(self.ids.users.part(users), self.ids.items.part(items), self.ids.frame_kind)
        return Interactions(
            ids,
            np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(per_user[users])]),
            new_code[chosen.items],
            chosen.ratings,
            chosen.timestamps,
            self.n_merged,
        )


def read_interactions(
    source: Source,
    *,
    user_id: str | None = None,
    item_id: str | None = None,
    rating: str | None = None,
    timestamp: str | None = None,
    min_rating: float | None = None,
    min_per_user: int = 1,
    min_per_item: int = 1,
    core: int | None = None,
) -> Interactions:
    """Read interactions from a file or a frame.

    ``source`` is the path of a CSV, TSV, Parquet, JSON lines or Arrow file, or a polars, pandas or
    pyarrow frame, a duckdb relation, or a dict of columns. Columns go by ``user_id, item_id
    [, rating, timestamp]`` or by the names that implicit, RecBole, LensKit, RecTools, RePlay and
    Recommenders use; name a column outright where it is called otherwise.

    Four steps, in this order:

    1. rows of the same pair merge: the one with the latest timestamp stays, among equal times or
       without times the last row; ``n_merged`` counts those dropped;
    2. pairs rated below ``min_rating`` leave;
    3. :meth:`Interactions.filter` with ``min_per_user`` and ``min_per_item``;
    4. :meth:`Interactions.k_core` with ``core``, where it is given.

    Ids are sorted, so the order of rows changes nothing but which of two equally late rows stays.

    >>> data = read_interactions(
    ...     {"userID": [1, 1, 2], "itemID": ["a", "a", "b"], "rating": [3, 5, 1]}, min_rating=2
    ... )
    >>> data, data.n_merged, data.ratings.tolist()
    (Interactions(1 users, 1 items, 1 pairs, with ratings), 1, [5.0])
    """
    check_count("min_per_user", min_per_user)
    check_count("min_per_item", min_per_item)
    if core is not None:
        check_count("core", core)
    if min_rating is not None:
        check_finite("min_rating", min_rating)
    named = {"user_id": user_id, "item_id": item_id, "rating": rating, "timestamp": timestamp}
    read = read_columns(
        source,
        "interactions",
        named,
        optional=("rating", "timestamp") if min_rating is None else ("timestamp",),
    )
    if read.n_rows == 0:
        raise InputError(f"{read.where} has no rows. Give at least one interaction.")
    data = _merged(read)
    if min_rating is not None and data.ratings is not None:
        high = data.ratings >= min_rating
        if not high.any():
            raise InputError(
                f"no rating in {read.where} reaches min_rating {min_rating}; the highest is "
                f"{data.ratings.max():g}. Lower min_rating."
            )
        data = data.select(high)
    data = data.filter(min_per_user, min_per_item)
    return data if core is None else data.k_core(core)


def check_interactions(data: object) -> None:
    """InputError unless it is interactions; says how to read what was given."""
    if not isinstance(data, Interactions):
        kind = type(data).__name__
        given = repr(data) if isinstance(data, str) else f"of type {kind}"
        raise InputError(
            f"the interactions are {given}. Read them first: tp.read_interactions(...)."
        )


def _merged(read: ReadColumns) -> Interactions:
    """Codes for ids, one pair for each (user, item), sorted."""
    user_ids, item_ids = read.pop("user_id"), read.pop("item_id")
    user_index = IdIndex.sorted_from(user_ids, read.label("user_id"))
    item_index = IdIndex.sorted_from(item_ids, read.label("item_id"))
    ids = Ids(user_index, item_index, read.kind)
    keys = user_index.codes(user_ids, read.label("user_id")).astype(np.int64)
    del user_ids
    keys *= ids.n_items
    keys += item_index.codes(item_ids, read.label("item_id"))
    del item_ids
    times: TimeArray | None = None
    if read.has("timestamp"):
        times = moments(read.pop("timestamp"), read.label("timestamp"))
    ratings: FloatArray | None = None
    if read.has("rating"):
        ratings = finite_numbers(read.pop("rating"), read.label("rating"))
    order, n_merged = latest_of_each(keys, times)
    keys = keys[order]
    users = keys // ids.n_items
    keys -= users * ids.n_items
    items = keys.astype(np.int32)
    counts = np.bincount(users, minlength=ids.n_users)
    del keys, users
    return Interactions(
        ids,
        np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts, dtype=np.int64)]),
        items,
        None if ratings is None else ratings[order],
        None if times is None else times[order],
        n_merged,
    )
