"""User-wise Platt scaling beside scikit-learn's LogisticRegression.

Each user has 9,000 scored items, 45 of them positive, and a logistic regression of two parameters
with C = 1 on the slope. scikit-learn gets a column of scores and the labels, user by user, with
the settings of the authors' code (its own defaults: lbfgs, C = 1). topperk fits the same users from
the same scores: *the kernel* takes the arrays alone; *``UserPlatt.fit``* takes a score source and
a split, and spends a pass on looking at the scores and several on the pooled fit that serves users
without a positive.

    python benchmarks/bench_platt.py [--quick]
"""

from __future__ import annotations

from typing import Any

import numpy as np
from made_up import calibration_for, factors_of, held_out, ids_of
from side_by_side import asked, checked, claim, in_turn, on_one_thread, record
from sklearn.linear_model import LogisticRegression

import topperk as tp
from topperk._kernels import logistic

ITEMS, FACTORS, MEAN, SEED = 9_000, 64, 45.0, 0
USERS, FIRST = 222, 4  # scikit-learn fits FIRST of the users; its time is per user


def main() -> None:
    quick = asked(__doc__).quick
    random = np.random.default_rng(SEED)
    scores = factors_of(ids_of(USERS, ITEMS), FACTORS, random)
    split = held_out(scores, calibration_for(scores, MEAN, random), random)
    part = split.validation
    codes = np.arange(USERS, dtype=np.int32)
    block = scores.block(codes)
    columns = [scores.block(codes[u : u + 1]).scores[:, None] for u in range(FIRST)]
    labels = [np.isin(np.arange(ITEMS), part.items_of(u)) for u in range(FIRST)]
    found = np.empty((USERS, 2))
    ridge = np.array([0.0, 0.0, 1.0, 0.0, 0.0])
    start = np.full((USERS, 2), np.nan)
    rest: tuple[Any, ...] = (
        np.empty((USERS, 3)),
        np.empty(USERS, dtype=np.int32),
        np.empty(USERS, dtype=np.int32),
    )

    def kernel() -> None:
        logistic.fit_users(
            block.scores, block.offsets, part.items, part.offsets, 0.0, 1.0, ridge, start, found,
            *rest,
        )  # fmt: skip

    def peer() -> list[LogisticRegression]:
        return [LogisticRegression(C=1.0).fit(*pair) for pair in zip(columns, labels, strict=True)]

    calibrator = tp.UserPlatt(c=1.0, prior="ridge", correction="none")
    with on_one_thread():
        rivals = {"kernel": kernel, "fit": lambda: calibrator.fit(scores, split), "peer": peer}
        taken = in_turn(rivals, 7 if quick else 25)
        fitted = peer()
    gap = max(
        float(np.abs(found[u] - [one.coef_[0, 0], one.intercept_[0]]).max())
        for u, one in enumerate(fitted)
    )
    print(f"{USERS} users; parameters differ from scikit-learn's by {gap:.1e} at most")
    per_user = {
        name: [t / (FIRST if name == "peer" else USERS) for t in times]
        for name, times in taken.items()
    }
    name = "scikit-learn's LogisticRegression"
    claims = [
        claim(
            "user-wise Platt, the kernel, per user",
            name,
            per_user["kernel"],
            per_user["peer"],
            at_least=50.0,
        ),
        claim(
            "`UserPlatt.fit` as a whole, per user",
            name,
            per_user["fit"],
            per_user["peer"],
            at_least=50.0,
        ),
    ]
    checked(claims)
    if quick:
        return
    result = {
        "users": USERS,
        "items": ITEMS,
        "mean": MEAN,
        "largest_difference_of_parameters": gap,
        "claims": claims,
    }
    record(__file__, result, ("numpy", "numba", "scikit-learn"))


if __name__ == "__main__":
    main()
