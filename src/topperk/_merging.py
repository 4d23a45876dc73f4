"""Which of several rows that tell of the same pair stays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def latest_of_each(
    keys: npt.NDArray[np.int64], times: npt.NDArray[np.int64] | npt.NDArray[np.float64] | None
) -> tuple[npt.NDArray[np.int64], int]:
    """The rows to keep, by ascending key: of equal keys the latest time, of equal times the last.

    Cost: one stable sort of the keys; times are sorted only among repeated keys.
    """
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    same_as_next = ordered[1:] == ordered[:-1]
    n_merged = int(np.count_nonzero(same_as_next))
    if n_merged == 0:
        return order, 0
    if times is not None:
        repeated = np.zeros(len(keys), dtype=np.bool_)
        repeated[1:] = same_as_next
        repeated[:-1] |= same_as_next
        rows = order[repeated]
        order[repeated] = rows[np.lexsort((times[rows], keys[rows]))]
    last = np.ones(len(keys), dtype=np.bool_)
    last[:-1] = ~same_as_next
    return order[last], n_merged
