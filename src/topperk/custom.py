"""A utility of your own: three arrays or three functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
import numpy.typing as npt

from topperk._kernels.arrays import FloatArray
from topperk.errors import SettingError
from topperk.utility import Utility

__all__ = ["Custom"]

RankFunction: TypeAlias = Callable[[FloatArray], FloatArray]
CountFunction: TypeAlias = Callable[[FloatArray, FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Custom(Utility):
    """Your own utility, as three arrays or three functions.

    ``discount``, ``penalty``: w and v for ranks 1, 2, ... (an array at least max_k long, or a
    function of an array of ranks); ``normaliser``: h, as a function of (m, k) that broadcasts, as
    an array over k where it does not depend on m, or as a table ``[m - 1, k - 1]`` whose last row
    also serves greater m. What is left out is no penalty and no normaliser. Arrays are saved with
    a model; functions are not, and have to be passed again to ``load``.

    >>> clicks = Custom("clicks", discount=[1.0, 0.6, 0.4], penalty=[0.1, 0.1, 0.1])
    >>> clicks.realised([1, 0, 1], n_relevant=2)
    array([0. , 1. , 0.9, 1.3])
    """

    label: str
    discounts: npt.ArrayLike | RankFunction
    penalties: npt.ArrayLike | RankFunction | None
    normalisers: npt.ArrayLike | CountFunction | None

    def __init__(
        self,
        name: str,
        discount: npt.ArrayLike | RankFunction,
        penalty: npt.ArrayLike | RankFunction | None = None,
        normaliser: npt.ArrayLike | CountFunction | None = None,
    ) -> None:
        if not isinstance(name, str):
            raise SettingError(f"the name of a utility is {name!r}. Give text, such as 'clicks'.")
        for field, value in {
            "label": name,
            "discounts": _given(discount, "discount", (1,)),
            "penalties": None if penalty is None else _given(penalty, "penalty", (1,)),
            "normalisers": None if normaliser is None else _given(normaliser, "normaliser", (1, 2)),
        }.items():
            object.__setattr__(self, field, value)

    @property
    def name(self) -> str:
        return self.label

    @property
    def counts_all_relevant(self) -> bool:
        if self.normalisers is None:
            return False
        return callable(self.normalisers) or np.ndim(self.normalisers) == 2

    def discount(self, ranks: FloatArray) -> FloatArray:
        return _at_ranks(self.discounts, ranks, "discount")

    def penalty(self, ranks: FloatArray) -> FloatArray:
        return (
            np.zeros_like(ranks)
            if self.penalties is None
            else _at_ranks(self.penalties, ranks, "penalty")
        )

    def normaliser(self, m: FloatArray, k: FloatArray) -> FloatArray:
        if self.normalisers is None:
            return np.ones(np.broadcast_shapes(m.shape, k.shape))
        if callable(self.normalisers):
            return _returned(self.normalisers(m, k), "normaliser")
        table = np.asarray(self.normalisers)
        if table.ndim == 1:
            values = _at_ranks(table, k, "normaliser")
            return cast(FloatArray, np.broadcast_arrays(values, m)[0])
        columns = k.astype(np.int64) - 1
        rows = m.astype(np.int64) - 1
        if int(columns.max(initial=0)) >= table.shape[1]:
            raise SettingError(
                f"the normaliser is given for lists of up to {table.shape[1]} items. "
                "Give it for every length up to max_k."
            )
        return cast(FloatArray, table[np.minimum(rows, table.shape[0] - 1), columns])


_SHAPES = {(1,): "a list of numbers", (1, 2): "a list or a table of numbers"}


def _given(
    value: npt.ArrayLike | Callable[..., FloatArray], what: str, dimensions: tuple[int, ...]
) -> npt.ArrayLike | Callable[..., FloatArray]:
    if callable(value):
        return value
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.empty(0)
    if array.ndim not in dimensions or array.size == 0:
        raise SettingError(
            f"the {what} is not {_SHAPES[dimensions]}. Give numbers for ranks 1, 2, ... or a "
            "function of the ranks."
        )
    if not np.isfinite(array).all():
        raise SettingError(f"the {what} holds NaN or infinity. Give a finite number for each rank.")
    array.flags.writeable = False
    return array


def _returned(values: npt.ArrayLike, what: str) -> FloatArray:
    """What a function of the user's returned, as numbers."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise SettingError(
            f"the function for the {what} returned no array of numbers ({error}). "
            "Return a number for each rank, or for each pair of m and k."
        ) from error


def _at_ranks(given: npt.ArrayLike | RankFunction, ranks: FloatArray, what: str) -> FloatArray:
    if callable(given):
        return _returned(given(ranks), what)
    array = np.asarray(given)
    places = ranks.astype(np.int64) - 1
    if int(places.max(initial=-1)) >= array.size:
        raise SettingError(
            f"the {what} is given for {array.size} ranks and needed for "
            f"{int(places.max()) + 1}. Give more, or lower max_k."
        )
    return cast(FloatArray, array[places])
