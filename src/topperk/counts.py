"""How many of a user's candidates are relevant: the distribution of their number S.

Y_i ~ Bernoulli(p_i) independently and S = sum Y_i, a Poisson-binomial. NDCG, F1, TP and Recall
depend on S, so each expected curve begins here; ``topperk._kernels.counting`` says how it is found
and how far off it can be.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import numpy.typing as npt

from topperk._kernels.arrays import FloatArray
from topperk._kernels.counting import count_pmfs
from topperk._score_checks import numbers_of
from topperk.errors import ScoreError

__all__ = ["count_distribution", "float_numbers", "probability_rows"]


def count_distribution(probabilities: npt.ArrayLike) -> FloatArray:
    """P(S = m) for m = 0..n, from the probabilities of n items.

    One user (one dimension) or a batch (users, items), to a last axis of n + 1. Any probabilities
    in [0, 1]; the l1 error is at most 1e-12 plus rounding, and values below 1e-19 at either end
    come out as 0. Cost: O(n) and, for the items of more than 0.05, O(width) each, where the width
    is some twenty standard deviations of S.

    >>> count_distribution([0.5, 0.2, 0.0]).round(3)
    array([0.4, 0.5, 0.1, 0. ])
    """
    rows = probability_rows(probabilities)
    n_users, n = rows.shape
    found = np.empty((n_users, n + 1))
    count_pmfs(rows.reshape(-1), np.arange(n_users + 1, dtype=np.int64) * n, found)
    return cast(FloatArray, found[0]) if np.ndim(probabilities) == 1 else found


def float_numbers(values: npt.ArrayLike, name: str) -> FloatArray:
    """An array of float64; ScoreError for text, rows of different lengths, and what is no array."""
    array = numbers_of(values, name)
    if array.dtype.kind not in "fiubO":
        raise ScoreError(f"{name} are of type {array.dtype}. Give numbers.")
    try:
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ScoreError(f"{name} are not all numbers ({error}). Give numbers.") from error


def probability_rows(probabilities: npt.ArrayLike) -> FloatArray:
    """A row per user, float64 and contiguous; ScoreError for what is no probability."""
    p = float_numbers(probabilities, "probabilities")
    if p.ndim not in (1, 2):
        raise ScoreError(
            f"probabilities have shape {p.shape}; give one user's (n,) or a batch (users, n)."
        )
    # NaN is neither. An array of nothing has no smallest number but for the one given.
    if not (p.min(initial=0.0) >= 0.0 and p.max(initial=0.0) <= 1.0):
        usable = (p >= 0.0) & (p <= 1.0)
        place = tuple(int(i) for i in np.argwhere(~usable)[0])
        raise ScoreError(
            f"probabilities[{', '.join(map(str, place))}] is {p[place]}, which is outside "
            "[0, 1]. Calibrate the scores first, for instance with UserPlatt."
        )
    return np.ascontiguousarray(np.atleast_2d(p))
