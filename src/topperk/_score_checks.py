"""What a source of scores must be made of, and what its blocks must be."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from topperk._kernels.arrays import AnyFloatArray, IntArray
from topperk.errors import IdError, ScoreError
from topperk.ids import IdIndex, Ids

if TYPE_CHECKING:
    from topperk.scores import ScoreBlock


def numbers_of(value: npt.ArrayLike, name: str, copy: bool | None = None) -> npt.NDArray[Any]:
    """An array of numbers; ScoreError for what is none (rows of different lengths, text ...)."""
    try:
        array: npt.NDArray[Any] = np.array(value, copy=copy, subok=True)
    except Exception as error:
        raise ScoreError(
            f"{name} can not be made an array of numbers ({error}). Give a numpy array."
        ) from error
    if isinstance(array, np.ma.MaskedArray):
        raise ScoreError(
            f"{name} is a masked array, and what a mask means is not for topperk to guess. "
            "Fill it: minus infinity where an item is not to be recommended."
        )
    return array


def float_array(value: npt.ArrayLike, name: str, dimensions: int) -> AnyFloatArray:
    """Vectors or biases: float32 where they are float16 or float32, and float64 otherwise."""
    array = numbers_of(value, name)
    if array.ndim != dimensions or array.dtype.kind not in "fiub":
        shape = "a row for each user or item" if dimensions == 2 else "one number for each"
        raise ScoreError(
            f"{name} has shape {array.shape} and type {array.dtype}; numbers are needed, {shape}."
        )
    keep = array.dtype in (np.float16, np.float32)
    # Numbers too large for float64 become infinite, which is refused by name afterwards.
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(array, dtype=np.float32 if keep else np.float64)


def as_floats(rows: npt.NDArray[Any], copy: bool) -> AnyFloatArray:
    """Single precision where it is that or half, and double otherwise."""
    dtype = np.float32 if rows.dtype in (np.float16, np.float32) else np.float64
    with np.errstate(over="ignore"):
        return rows.astype(dtype, copy=copy)


def match_rows(found: int, wanted: int, name: str, kind: str) -> None:
    """ScoreError unless there is one row for each id."""
    if found != wanted:
        raise ScoreError(
            f"{name} count {found:,} but the ids hold {wanted:,} {kind}. Pass the ids that the "
            "model was trained with, in the order of its rows."
        )


def plain_ids(index: IdIndex, what: str) -> npt.NDArray[Any]:
    """Ids as an array without objects; IdError where numpy could not give them back."""
    values = index.values.to_numpy()
    if values.dtype != object:
        return values
    # numpy fills strings up with NUL characters, and takes all of them off again.
    cut = index.values.str.ends_with("\0")
    if cut.any():
        raise IdError(
            f"{what}: {index.values.filter(cut)[0]!r} ends in a NUL character, which an .npz can "
            "not keep. Take it off the id before saving."
        )
    return values.astype(np.str_)


def invalid_score(value: float | None, user: str, item: str) -> ScoreError:
    """The error for a score that is not there (None), NaN or plus infinity."""
    found = "missing" if value is None else "NaN" if np.isnan(value) else "plus infinity"
    return ScoreError(
        f"the score of item {item} for user {user} is {found}. "
        "Give a finite score, or minus infinity if the item is not to be recommended."
    )


def check_shape(block: ScoreBlock, users: IntArray, ids: Ids) -> None:
    """Raise ScoreError where a block is not what was asked for.

    The kernels read and write by a block's offsets and items without looking, so a block of
    anybody's source is looked at once, here.
    """
    for complaint, found in _SHAPE:
        if not found(block, users, ids):
            raise ScoreError(
                f"the source of scores returned a block whose {complaint}. "
                "Correct its block method (see ScoreBlock)."
            )


def check_usable(block: ScoreBlock, ids: Ids) -> None:
    """Raise ScoreError where a score is NaN or plus infinity. Cost: one pass over the scores."""
    # The largest of numbers that are not all numbers is NaN.
    if block.scores.size and not block.scores.max() < np.inf:
        refuse_score_at(int(np.argmin(block.scores < np.inf)), block, ids)


def refuse_score_at(bad: int, block: ScoreBlock, ids: Ids) -> NoReturn:
    """Raise ScoreError for the score at this position of the block."""
    row = int(np.searchsorted(block.offsets, bad, side="right")) - 1
    item = bad - int(block.offsets[row]) if block.items.size == 0 else int(block.items[bad])
    user = ids.users.name(int(block.users[row]))
    raise invalid_score(block.scores[bad], user, ids.items.name(item))


def _items_fit(block: ScoreBlock, users: IntArray, ids: Ids) -> bool:
    """Whether the items are all of them, or each user's own in ascending order."""
    if block.items.size == 0:
        counts = np.diff(block.offsets)
        return block.scores.size == 0 or bool((counts == ids.n_items).all())
    if block.items.size != block.scores.size:
        return False
    ascends = block.items[1:] > block.items[:-1]
    starts = block.offsets[1:-1]
    ascends[starts[(starts > 0) & (starts < block.items.size)] - 1] = True
    return bool(ascends.all() and block.items.min() >= 0 and block.items.max() < ids.n_items)


_SHAPE: tuple[tuple[str, Callable[[ScoreBlock, IntArray, Ids], bool]], ...] = (
    (
        "arrays are of other types than users int32, scores float32 or float64, offsets int64 "
        "and items int32",
        lambda block, users, ids: (
            block.users.dtype == np.int32
            and block.scores.dtype in (np.float32, np.float64)
            and block.offsets.dtype == np.int64
            and block.items.dtype == np.int32
        ),
    ),
    (
        "scores are not a flat, contiguous array of its own that can be written to",
        lambda block, users, ids: (
            block.scores.ndim == 1
            and block.scores.flags.c_contiguous
            and block.scores.flags.writeable
        ),
    ),
    (
        "users are not those that were asked for, in their order",
        lambda block, users, ids: np.array_equal(block.users, users),
    ),
    (
        "offsets do not ascend from 0 to the number of scores, with one more than there are users",
        lambda block, users, ids: (
            block.offsets.shape == (users.size + 1,)
            and block.offsets[0] == 0
            and block.offsets[-1] == block.scores.size
            and not (np.diff(block.offsets) < 0).any()
        ),
    ),
    (
        "items are neither all items (an empty array) nor each user's own codes, ascending",
        _items_fit,
    ),
)
