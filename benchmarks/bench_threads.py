"""Two threads beside one, for fitting and for the lengths of all users.

Each user has 9,000 items, 64 factors. BLAS keeps to one thread per worker in both cases, so that
the ratio is that of the blocks. In the same turns two digests of the same bytes are taken one after
the other and side by side, which needs nothing but the two processors: it says what the machine
gave. Where that is far from twice as fast, somebody else is on one of them, and nothing is
reported.

    python benchmarks/bench_threads.py [--quick]
"""

from __future__ import annotations

import hashlib
import statistics
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from made_up import calibration_for, factors_of, held_out, ids_of
from side_by_side import asked, checked, claim, in_turn, record
from threadpoolctl import threadpool_limits

import topperk as tp
from topperk.threads import available_processors

ITEMS, FACTORS, MEAN, SEED, MAX_K = 9_000, 64, 45.0, 0, 50
BYTES = bytes(60_000_000)
LEAST_GIVEN = 1.7  # by two processors to two digests: what is asked of topperk


def digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()


def main() -> None:
    quick = asked(__doc__).quick
    if available_processors() < 2:
        sys.exit("Nothing is reported: this process may use one processor only.")
    users = 2_048 if quick else 9_216  # an even number of full blocks for lists, nearly so to fit
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
    claims, given = [], {}
    # Outside too: threads that BLAS is given back spin for a while after each computation.
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(2) as pool:
        for name, work in works.items():
            rivals = {
                "two": on(2, work),
                "one": on(1, work),
                "digests at once": lambda: list(pool.map(digest, (BYTES, BYTES))),
                "digests": lambda: [digest(BYTES), digest(BYTES)],
            }
            slow = name == "`fit`"
            taken = in_turn(rivals, (5 if slow else 15) if quick else (9 if slow else 31))
            pairs = zip(taken["digests"], taken["digests at once"], strict=True)
            given[name] = statistics.median(one / two for one, two in pairs)
            claims.append(
                claim(
                    f"{name} of {users:,} users on two threads",
                    "one thread",
                    taken["two"],
                    taken["one"],
                    at_least=1.7,
                )
            )
            claims.append(
                claim(
                    f"two digests on two threads, in turn with {name}",
                    "one thread",
                    taken["digests at once"],
                    taken["digests"],
                )
            )
    print(f"{users:,} users, {ITEMS:,} items; two digests are {given} times as fast side by side")
    if min(given.values()) < LEAST_GIVEN:
        print({one["work"]: round(one["ratio"], 2) for one in claims})
        sys.exit(
            f"Nothing is reported: two processors gave {min(given.values()):.2f} times one, so "
            "that something else took its share. Run this again while nothing else runs."
        )
    checked(claims)
    if quick:
        return
    result = {
        "given": given,
        "users": users,
        "items": ITEMS,
        "factors": FACTORS,
        "mean": MEAN,
        "claims": claims,
    }
    record(__file__, result, ("numpy", "numba"))


if __name__ == "__main__":
    main()
