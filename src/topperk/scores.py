"""Score sources: any recommender's scores, in blocks of users.

A source knows the outside ids of its users and items and gives the scores of any few users at a
time, so the matrix of all users by all items never exists. The kinds:

- ``Factors``     a user's score for an item is a product of two vectors, with optional biases;
- ``Dense``       a matrix that exists already, in memory or as a memory map;
- ``Candidates``  a long frame ``user_id, item_id, score``: what a two-stage recommender retrieved;
- ``Callable``    a function of users that returns their rows.

Minus infinity means "not to be recommended"; NaN and plus infinity are errors. Equal scores are
ordered by item code, which is the item's place in ``source.ids.items``.
"""

from __future__ import annotations

from collections.abc import Callable as Function
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import polars as pl

from topperk._frames import read_columns
from topperk._kernels.arrays import AnyFloatArray, IntArray, OffsetArray
from topperk._npz import read_npz, stored_kind, write_npz
from topperk._score_block import ScoreBlock, ranges
from topperk._score_checks import (
    as_floats,
    float_array,
    invalid_score,
    match_rows,
    numbers_of,
    plain_ids,
)
from topperk._settings import check_path
from topperk.errors import FileFormatError, IdError, ScoreError
from topperk.ids import IdIndex, Ids, check_ids

__all__ = [
    "Callable",
    "Candidates",
    "Dense",
    "Factors",
    "ScoreBlock",
    "ScoreSource",
    "load_scores",
]


@runtime_checkable
class ScoreSource(Protocol):
    """What topperk asks of a recommender: its ids, and the scores of some of its users."""

    @property
    def ids(self) -> Ids:
        """The users and items that are scored; a code is a place in these."""
        ...

    @property
    def scores_every_item(self) -> bool:
        """False where a user has only retrieved candidates, so that items may be missing."""
        ...

    def block(self, users: IntArray) -> ScoreBlock:
        """The scores of the users with these codes, in this order."""
        ...


@dataclass(frozen=True, eq=False, init=False)
class Factors:
    """Scores ``user_vectors @ item_vectors.T``, plus biases where there are any.

    Row n of ``user_vectors`` belongs to user n of ``ids`` (for interactions read by topperk:
    ``data.ids``, in ascending order). float32 stays float32; everything else becomes float64.
    Cost of a block: one matrix product.

    >>> from topperk import Factors, Ids
    >>> ids = Ids.of(users=["u"], items=["x", "y"])
    >>> source = Factors([[1.0, 0.0]], [[2.0, 0.0], [0.0, 3.0]], ids)
    >>> source.block(np.array([0], dtype=np.int32)).scores
    array([2., 0.])
    """

    user_vectors: AnyFloatArray
    item_vectors: AnyFloatArray
    user_biases: AnyFloatArray | None
    item_biases: AnyFloatArray | None
    ids: Ids

    def __init__(
        self,
        user_vectors: npt.ArrayLike,
        item_vectors: npt.ArrayLike,
        ids: Ids,
        user_biases: npt.ArrayLike | None = None,
        item_biases: npt.ArrayLike | None = None,
    ) -> None:
        check_ids(ids)
        users = float_array(user_vectors, "user_vectors", 2)
        items = float_array(item_vectors, "item_vectors", 2)
        if users.shape[1] != items.shape[1]:
            raise ScoreError(
                f"user_vectors have {users.shape[1]} factors and item_vectors {items.shape[1]}. "
                "Pass the two sides of one model, with a row for each user and item."
            )
        match_rows(users.shape[0], ids.n_users, "user_vectors", "users")
        match_rows(items.shape[0], ids.n_items, "item_vectors", "items")
        own, others = None, None
        if user_biases is not None:
            own = float_array(user_biases, "user_biases", 1)
            match_rows(own.shape[0], ids.n_users, "user_biases", "users")
        if item_biases is not None:
            others = float_array(item_biases, "item_biases", 1)
            match_rows(others.shape[0], ids.n_items, "item_biases", "items")
        arrays = {
            "user_vectors": users,
            "item_vectors": items,
            "user_biases": own,
            "item_biases": others,
        }
        for name, value in arrays.items():
            if value is not None and not np.isfinite(value).all():
                row = int(np.argwhere(~np.isfinite(value))[0][0])
                index = ids.users if name.startswith("user") else ids.items
                raise ScoreError(
                    f"{name} contain NaN or infinity in the row of {index.name(row)}. "
                    "Train the model again, or leave that row out of the vectors and the ids."
                )
        dtype = np.result_type(users, items)
        for name, value in arrays.items():
            checked = None if value is None else value.astype(dtype, copy=False)
            object.__setattr__(self, name, checked)
        object.__setattr__(self, "ids", ids)

    def __repr__(self) -> str:
        """The sizes."""
        return f"Factors({self.ids}, {self.item_vectors.shape[1]} factors)"

    @property
    def scores_every_item(self) -> bool:
        """True: every pair has a score."""
        return True

    def block(self, users: IntArray) -> ScoreBlock:
        """The scores of the users with these codes, in this order."""
        rows = np.empty((users.size, self.ids.n_items), dtype=self.item_vectors.dtype)
        self.tile(users, 0, rows)
        return ScoreBlock.of_rows(users, rows)

    def tile(self, users: IntArray, begin: int, out: AnyFloatArray) -> None:
        """Write these users' scores into ``out``: a row each, for the items from ``begin`` on."""
        end = begin + out.shape[1]
        # What overflows becomes infinite or NaN, and is refused with the names of its pair.
        with np.errstate(over="ignore", invalid="ignore"):
            np.matmul(self.user_vectors[users], self.item_vectors[begin:end].T, out=out)
            if self.item_biases is not None:
                out += self.item_biases[begin:end]
            if self.user_biases is not None:
                out += self.user_biases[users, None]

    def save(self, path: str | Path) -> None:
        """Write vectors, biases and ids to one ``.npz`` file that ``load_scores`` reads."""
        check_path("path", path)
        arrays: dict[str, npt.NDArray[Any]] = {
            "user_vectors": self.user_vectors,
            "item_vectors": self.item_vectors,
            "user_ids": plain_ids(self.ids.users, "user ids"),
            "item_ids": plain_ids(self.ids.items, "item ids"),
            "frame_kind": np.array(self.ids.frame_kind),
        }
        biases = {"user_biases": self.user_biases, "item_biases": self.item_biases}
        arrays |= {name: value for name, value in biases.items() if value is not None}
        write_npz(Path(path), arrays)


@dataclass(frozen=True, eq=False, init=False)
class Dense:
    """A users x items matrix that exists already: an array, or ``np.load(..., mmap_mode="r")``.

    Only the rows of a block are read, and they are copied: the matrix is never written to.
    """

    matrix: npt.NDArray[Any]
    ids: Ids

    def __init__(self, matrix: npt.ArrayLike, ids: Ids) -> None:
        check_ids(ids)
        array = numbers_of(matrix, "the matrix of scores")
        if array.ndim != 2 or array.dtype.kind not in "fiub":
            raise ScoreError(
                "a matrix of scores needs numbers in two dimensions (users, items); this one has "
                f"shape {array.shape} and type {array.dtype}. Give a row for each user."
            )
        match_rows(array.shape[0], ids.n_users, "the matrix's rows", "users")
        match_rows(array.shape[1], ids.n_items, "the matrix's columns", "items")
        object.__setattr__(self, "matrix", array)
        object.__setattr__(self, "ids", ids)

    def __repr__(self) -> str:
        """The sizes."""
        return f"Dense({self.ids})"

    @property
    def scores_every_item(self) -> bool:
        """True: every pair has a score."""
        return True

    def block(self, users: IntArray) -> ScoreBlock:
        """The scores of the users with these codes, in this order."""
        rows = self.matrix[users]
        return ScoreBlock.of_rows(users, as_floats(rows, copy=rows.base is not None))


@dataclass(frozen=True, eq=False, init=False)
class Candidates:
    """A long frame ``user_id, item_id, score``: each user's own candidates, of any number.

    Takes polars, pandas, pyarrow, a duckdb relation, or the path of a table file. The columns are
    recognised by their usual names or can be named. A pair may occur once.
    """

    scores: AnyFloatArray
    items: IntArray
    offsets: OffsetArray
    ids: Ids

    def __init__(
        self,
        source: object,
        *,
        user_id: str | None = None,
        item_id: str | None = None,
        score: str | None = None,
    ) -> None:
        what = f"candidates {source}" if isinstance(source, (str, Path)) else "candidates"
        columns = read_columns(
            source, what, {"user_id": user_id, "item_id": item_id, "score": score}
        )
        if columns.n_rows == 0:
            raise FileFormatError(f"{what} hold no rows. Pass at least one scored pair.")
        column, label = columns.pop("score"), columns.label("score")
        if not column.dtype.is_numeric():
            raise ScoreError(
                f"{label} holds {column.dtype}, not numbers. Name the column of scores: score=..."
            )
        user_ids, item_ids = columns.pop("user_id"), columns.pop("item_id")
        users = IdIndex.sorted_from(user_ids, columns.label("user_id"))
        items = IdIndex.sorted_from(item_ids, columns.label("item_id"))
        user_codes = users.codes(user_ids, columns.label("user_id"))
        item_codes = items.codes(item_ids, columns.label("item_id"))
        single = column.dtype == pl.Float32
        column = column.cast(pl.Float32 if single else pl.Float64)
        values: AnyFloatArray = column.fill_null(float("nan")).to_numpy()
        unusable = ~(values < np.inf)
        if unusable.any():
            bad = int(unusable.argmax())
            raise invalid_score(
                None if column[bad] is None else values[bad],
                users.name(int(user_codes[bad])),
                items.name(int(item_codes[bad])),
            )
        order = np.lexsort((item_codes, user_codes))
        user_codes, item_codes = user_codes[order], item_codes[order]
        again = (np.diff(user_codes) == 0) & (np.diff(item_codes) == 0)
        if again.any():
            at = int(np.argmax(again))
            raise IdError(
                f"{what}: item {items.name(int(item_codes[at]))} occurs more than once for user "
                f"{users.name(int(user_codes[at]))} ({int(again.sum())} repetitions in all). "
                "Keep one score for each pair, such as the highest."
            )
        counts = np.bincount(user_codes, minlength=len(users))
        for name, value in {
            "scores": values[order],
            "items": np.ascontiguousarray(item_codes, dtype=np.int32),
            "offsets": np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
            "ids": Ids(users, items, columns.kind),
        }.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        """The sizes."""
        return f"Candidates({self.ids}, {self.scores.size} pairs)"

    @property
    def scores_every_item(self) -> bool:
        """False: items that were not retrieved for a user have no score."""
        return False

    def block(self, users: IntArray) -> ScoreBlock:
        """The candidates of the users with these codes, in this order."""
        take, offsets = ranges(self.offsets, users)
        return ScoreBlock(users, self.scores[take], offsets, self.items[take])


@dataclass(frozen=True, eq=False)
class Callable:
    """A function that scores a block of users: ``function(user_codes) -> (len(codes), n_items)``.

    ``user_codes`` are places in ``ids.users``. For models that are no product of factors. Blocks
    are worked on in several threads, but the function is called from one at a time.
    """

    function: Function[[IntArray], npt.ArrayLike]
    ids: Ids
    _lock: Lock = field(default_factory=Lock, init=False, repr=False)

    def __post_init__(self) -> None:
        check_ids(self.ids)
        if not callable(self.function):
            raise ScoreError(
                f"what should score users is of type {type(self.function).__name__}. "
                "Give a function of user codes, or wrap an array: tp.Dense(matrix, ids)."
            )

    def __repr__(self) -> str:
        """The sizes."""
        return f"Callable({self.ids})"

    @property
    def scores_every_item(self) -> bool:
        """True: the function scores every item."""
        return True

    def block(self, users: IntArray) -> ScoreBlock:
        """The scores of the users with these codes, in this order."""
        with self._lock:
            given = self.function(users.copy())
        rows = numbers_of(given, "what the scoring function returned", True)
        wanted = (users.size, self.ids.n_items)
        if rows.shape != wanted or rows.dtype.kind not in "fiub":
            raise ScoreError(
                f"the scoring function returned {rows.dtype} of shape {rows.shape} for "
                f"{users.size} users; numbers of shape {wanted} are needed."
            )
        return ScoreBlock.of_rows(users, as_floats(rows, copy=False))


def load_scores(path: str | Path) -> ScoreSource:
    """Open a score source on disk: ``Factors`` saved as ``.npz``, or a table of candidates.

    The ``.npz`` holds ``user_vectors, item_vectors, user_ids, item_ids`` and perhaps
    ``user_biases, item_biases, frame_kind``; ``Factors.save`` writes one, and so does ``np.savez``.
    ``frame_kind`` is the kind of frame that answers come in: polars where there is none.
    """
    check_path("path", path)
    if Path(path).suffix.lower() != ".npz":
        return Candidates(path)
    arrays = read_npz(Path(path), ("user_vectors", "item_vectors", "user_ids", "item_ids"))
    ids = Ids.of(arrays["user_ids"], arrays["item_ids"], stored_kind(path, arrays))
    return Factors(
        arrays["user_vectors"],
        arrays["item_vectors"],
        ids,
        arrays.get("user_biases"),
        arrays.get("item_biases"),
    )
