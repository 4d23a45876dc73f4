"""Hypothesis strategies shared by the tests."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

Array = npt.NDArray[np.float64]

# --- probabilities ----------------------------------------------------------------------------

# Where arithmetic on probabilities goes wrong if it does: certain, nearly certain, nearly
# impossible, smaller than a normal number, and on both sides of every threshold.
AWKWARD = (0.0, 1.0, 1e-12, 1.0 - 1e-12, 1.0 - 1e-16, 5e-324, 1e-300, 0.05, 0.5)
AWKWARD_TOO = (np.nextafter(0.05, 0.0), np.nextafter(0.5, 1.0), 0.049, 1e-3)


def one_probability(largest: float = 1.0) -> st.SearchStrategy[float]:
    """A probability: awkward, tiny, small or any."""
    awkward = [float(p) for p in (*AWKWARD, *AWKWARD_TOO) if p <= largest]
    tiny = st.floats(-300.0, -1.0).map(lambda x: min(largest, 10.0**x))
    return st.one_of(st.sampled_from(awkward), tiny, st.floats(0.0, largest))


@st.composite
def probabilities(
    draw: st.DrawFn, min_size: int = 1, max_size: int = 12, largest: float = 1.0
) -> Array:
    """One user's, in any order, ties among them more often than not."""
    size = draw(st.integers(min_size, max_size))
    few = draw(st.lists(one_probability(largest), min_size=1, max_size=max(1, size)))
    return np.array(draw(st.lists(st.sampled_from(few), min_size=size, max_size=size)), dtype=float)


@st.composite
def batches(draw: st.DrawFn, max_users: int = 5, max_size: int = 9) -> Array:
    """Several users with the same number of candidates: (users, candidates)."""
    size = draw(st.integers(1, max_size))
    users = draw(st.integers(1, max_users))
    return np.stack([draw(probabilities(size, size)) for _ in range(users)])


@st.composite
def outcomes(draw: st.DrawFn, max_size: int = 12) -> tuple[Array, int]:
    """What was relevant in a list (0/1 in order), and how many were relevant in all."""
    hits = np.array(draw(st.lists(st.integers(0, 1), min_size=1, max_size=max_size)), dtype=float)
    return hits, int(hits.sum()) + draw(st.integers(0, 10))


# --- blocks -----------------------------------------------------------------------------------


def ragged(
    one: st.SearchStrategy[Array], min_users: int = 0, max_users: int = 6
) -> st.SearchStrategy[list[Array]]:
    """Several users, each with some candidates of their own (``one`` may draw none)."""
    return st.lists(one, min_size=min_users, max_size=max_users)


def flat(users: list[Array]) -> tuple[Array, npt.NDArray[np.int64]]:
    """A ragged block as kernels take it: everything in one array, and where each user begins."""
    offsets = np.concatenate([[0], np.cumsum([u.size for u in users])]).astype(np.int64)
    return np.concatenate([*users, np.empty(0)]), offsets


@st.composite
def scores(draw: st.DrawFn, max_size: int = 30) -> Array:
    """One user's scores with many ties, some of them minus infinity (no candidate)."""
    value = st.one_of(
        st.integers(-2, 2).map(float),
        st.sampled_from([-np.inf, 0.0, -0.0, 1e300, -1e300, 5e-324]),
        st.floats(allow_nan=False, allow_infinity=False, width=32),
    )
    return np.array(draw(st.lists(value, max_size=max_size)), dtype=float)


# --- interactions -----------------------------------------------------------------------------

Row = tuple[int, str, float, int]


def interaction_rows(max_size: int = 40) -> st.SearchStrategy[list[Row]]:
    """Rows user, item, rating, time with few users, items and times, so that much repeats."""
    row = st.tuples(
        st.integers(-3, 4),
        st.sampled_from(["", "a", "b", "ä", "07", "7", "zz"]),
        st.sampled_from([0.5, 1.0, 4.0, 5.0]),
        st.integers(0, 5),
    )
    return st.lists(row, min_size=1, max_size=max_size)
