"""One user's list at once, as a service asks for it, beside the kernel alone.

``model.choose`` for 500 candidates that a first stage found, the user's best of 9,000 in mixed
order: 64 factors, 1 % of the items seen, lists of at most 50, for F1, scores in single precision,
one thread. What it takes is looking up the ids, checks, the order of the codes, the exclusion of
what was seen, the kernel, and the answer. *The kernel alone* is ``scan_users`` and
``conclude_users`` for the same candidates, with all their arrays ready and room for what they find.

Ids are integers in a numpy array, or strings in a list. Strings are made anew for each call, as
where they come from the network (a string that was asked for before is looked up sooner); the
making is not counted. Calls take turns request by request, each is timed on its own, and each is
first at a third of the requests: whoever comes second finds the processor's caches filled.

    python benchmarks/bench_choose.py [--quick]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from made_up import calibration_for, factors_of, ids_of, seen_by_all
from side_by_side import asked, checked, claim, on_one_thread, record

import topperk as tp
from topperk._kernels.fused import conclude_users, scan_users
from topperk._outcomes import Lists
from topperk._scan import NOTHING_SEEN, Room, Scan
from topperk._utility_tables import FIRST_ROWS, UtilityTables
from topperk.calibration import ODDS_CAP

ITEMS, CANDIDATES, FACTORS, SEEN, MAX_K, MEAN, SEED = 9_000, 500, 64, 0.01, 50, 45.0, 0
REQUESTS = 100
BAR_OF_KERNEL, BAR_MICROSECONDS = 4.0, 150.0
KERNEL = "the kernel alone"

# What is timed for a request; made for each call, before the clock starts.
Making = Callable[[], Callable[[], Any]]


class World:
    """A model whose ids are integers, one like it whose ids are strings, and the requests."""

    def __init__(self) -> None:
        numbers = ids_of(REQUESTS, ITEMS)
        words = tp.Ids.of(
            users=[f"user-{n}" for n in range(REQUESTS)],
            items=[f"item-{n}" for n in range(ITEMS)],
        )
        self.by_number, self.by_word = self.model(numbers), self.model(words)
        self.tables = UtilityTables(tp.F1(), MAX_K)
        rows = np.arange(REQUESTS, dtype=np.int32)
        scores = self.scores.block(rows).scores.reshape(REQUESTS, ITEMS)
        random = np.random.default_rng(SEED)
        self.found = [random.permutation(np.argsort(-own)[:CANDIDATES]) for own in scores]
        self.values = [own[codes] for own, codes in zip(scores, self.found, strict=True)]

    def model(self, ids: tp.Ids) -> tp.FittedK:
        """The same model whatever the ids are called."""
        random = np.random.default_rng(SEED)
        self.scores = factors_of(ids, FACTORS, random)
        split = seen_by_all(ids, SEEN, random)
        calibration = calibration_for(self.scores, MEAN, random)
        return tp.PersonalizedK(tp.F1(), max_k=MAX_K, calibrator=calibration).fit(
            self.scores, split
        )

    def integers(self, user: int) -> Making:
        """The call with integer ids in an array."""
        item_ids, values = self.found[user], self.values[user]
        return lambda: lambda: self.by_number.choose(user, item_ids, values)

    def strings(self, user: int) -> Making:
        """The call with string ids in a list."""
        codes, values = self.found[user].tolist(), self.values[user]

        def making() -> Callable[[], Any]:
            user_id, item_ids = f"user-{user}", [f"item-{code}" for code in codes]
            return lambda: self.by_word.choose(user_id, item_ids, values)

        return making

    def kernel(self, user: int) -> tuple[Making, npt.NDArray[np.float64]]:
        """The kernel for the same candidates, and the curve that it fills."""
        model = self.by_number
        codes = np.sort(self.found[user])
        own = self.values[user][np.argsort(self.found[user])]
        seen = model.seen.items[model.seen.offsets[user] : model.seen.offsets[user + 1]]
        own[np.isin(codes, seen)] = -np.inf
        offsets = np.array([0, CANDIDATES], dtype=np.int64)
        calibration = model.calibration
        if not isinstance(calibration, tp.PlattCalibration):
            raise TypeError("the model has another calibration than it was given")
        parameters = calibration.parameters_of(np.array([user], dtype=np.int32))
        scan = Scan(self.tables, parameters, 1, Room(MAX_K, 1, CANDIDATES))
        lists, ranked = Lists.room(1, MAX_K, np.float32), np.empty((1, MAX_K))
        curves = np.empty((1, MAX_K + 1))
        discount, penalty = self.tables.discount, self.tables.penalty
        table, nowhere = self.tables.table(FIRST_ROWS), np.zeros(1, dtype=np.int64)
        state = scan.sizes, scan.near_scores, scan.near, scan.sums

        def run() -> None:
            scan.sizes[0], scan.sums[:] = 0, 0.0
            scan_users(
                own, offsets, 0, nowhere, NOTHING_SEEN, nowhere, *parameters, False, MAX_K,
                scan.heads, scan.thresholds, *state,
            )  # fmt: skip
            conclude_users(
                *parameters, ODDS_CAP, discount, penalty, table, False, offsets[1:], scan.heads,
                *state, scan.scratch, lists.scores, lists.positions, lists.lengths, ranked, curves,
            )  # fmt: skip

        return lambda: run, curves[0]


def timed(rivals: dict[str, list[Making]], repetitions: int) -> dict[str, npt.NDArray[np.float64]]:
    """Seconds of each call: a row for each repetition, a column for each request."""
    names = list(rivals)
    seconds = {name: np.empty((repetitions, REQUESTS)) for name in rivals}
    for repetition in range(-1, repetitions):  # the first one warms up
        for request in range(REQUESTS):
            first = request % len(names)
            for name in names[first:] + names[:first]:
                call = rivals[name][request]()
                start = time.perf_counter()
                call()
                seconds[name][repetition, request] = time.perf_counter() - start
    return seconds


def main() -> None:
    quick = asked(__doc__).quick
    world = World()
    users = range(REQUESTS)
    kernels = [world.kernel(user) for user in users]
    rivals = {
        "integers in an array": [world.integers(user) for user in users],
        "strings in a list": [world.strings(user) for user in users],
        KERNEL: [making for making, _ in kernels],
    }
    with on_one_thread():
        taken = timed(rivals, 15 if quick else 101)
    lengths = []
    for user, (_, curve) in enumerate(kernels):
        for found in (world.integers(user)()(), world.strings(user)()()):
            if curve[found.k] != found.expected_utility:
                raise ValueError("the kernel alone computes another curve than the call")
            lengths.append(found.k)
    claims, latencies = [], {}
    for name in list(rivals)[:2]:
        ours, theirs = (taken[one].mean(axis=1).tolist() for one in (name, KERNEL))
        work = f"`model.choose` from {CANDIDATES} candidates, ids are {name}"
        claims.append(claim(work, KERNEL, ours, theirs, at_most=BAR_OF_KERNEL))
        median, late = (1e6 * float(np.quantile(taken[name], q)) for q in (0.5, 0.99))
        met = median <= BAR_MICROSECONDS
        latencies[name] = {"median": median, "p99": late, "at_most": BAR_MICROSECONDS, "met": met}
        print(
            f"{name}: {median:.1f} µs at the median ({'met' if met else 'MISSED'}: at most "
            f"{BAR_MICROSECONDS:g}), 99 of 100 calls within {late:.1f} µs"
        )
    print(f"{REQUESTS} requests, mean length {np.mean(lengths):.1f}")
    checked(claims)
    if quick:
        return
    result = {
        "items": ITEMS,
        "candidates": CANDIDATES,
        "factors": FACTORS,
        "seen": SEEN,
        "max_k": MAX_K,
        "mean": MEAN,
        "seed": SEED,
        "mean_k": float(np.mean(lengths)),
        "latencies": latencies,
        "claims": claims,
    }
    record(__file__, result, ("numpy", "numba"))


if __name__ == "__main__":
    main()
