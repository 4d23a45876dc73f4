"""Two threads beside one, for fitting and for the lengths of all users.

The simulated users have 9,000 items each, 64 factors. BLAS keeps to one thread per worker in both
cases, so that the ratio is that of the blocks.

    python benchmarks/bench_threads.py [--quick]
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from made_up import calibration_for, factors_of, held_out, ids_of
from side_by_side import asked, checked, claim, in_turn, record

import topperk as tp
from topperk.threads import available_processors

ITEMS, FACTORS, MEAN, SEED, MAX_K = 9_000, 64, 45.0, 0, 50


def main() -> None:
    quick = asked(__doc__).quick
    if available_processors() < 2:
        sys.exit("Nothing is reported: this process may use one processor only.")
    users = 1_776 if quick else 4_440  # full blocks, an even number of them
    random = np.random.default_rng(SEED)
    scores = factors_of(ids_of(users, ITEMS), FACTORS, random)
    split = held_out(scores, calibration_for(scores, MEAN, random), random)
    method = tp.PersonalizedK(tp.F1(), max_k=MAX_K)
    model = method.fit(scores, split)

    def on(n_jobs: int, work: Callable[[], Any]) -> Callable[[], None]:
        def run() -> None:
            with tp.resources(n_jobs=n_jobs):
                work()

        return run

    works: dict[str, Callable[[], Any]] = {
        "`sizes`": lambda: model.sizes(scores),
        "`fit`": lambda: method.fit(scores, split),
    }
    claims = []
    for name, work in works.items():
        rivals = {"two": on(2, work), "one": on(1, work)}
        slow = name == "`fit`"
        taken = in_turn(rivals, (5 if slow else 15) if quick else (9 if slow else 31))
        claims.append(
            claim(
                f"{name} of {users:,} users on two threads",
                "one thread",
                taken["two"],
                taken["one"],
                at_least=1.7,
            )
        )
    load = os.getloadavg()[0]
    print(f"{users:,} users, {ITEMS:,} items; load of the machine {load:.1f}")
    checked(claims)
    if quick:
        return
    result = {"users": users, "items": ITEMS, "factors": FACTORS, "mean": MEAN, "claims": claims}
    record(__file__, result, ("numpy", "numba"))


if __name__ == "__main__":
    main()
