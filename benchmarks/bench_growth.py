"""How time and memory grow with users, items, factors, max_k and the mean count.

From one starting point, one quantity at a time is made larger; seconds of ``fit`` and of ``sizes``
on one thread are the least of a few, memory is the peak of what is allocated beyond the scores and
interactions (tracemalloc: numpy and the kernels' own scratch, which numba reports nowhere, is in
the formula of ``topperk.threads``). An exponent is the slope of a line through the last points on
log axes: 1 is growth in proportion, 0 none.

    python benchmarks/bench_growth.py [--quick]

``docs/pictures/draw.py`` draws the picture of it.
"""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from made_up import calibration_for, factors_of, held_out, ids_of
from side_by_side import asked, on_one_thread, record

import topperk as tp

SEED, REPETITIONS, LAST = 0, 5, 4
START = {"users": 500, "items": 4_000, "factors": 32, "max_k": 50, "mean": 40}
STEPS = {
    "users": (125, 250, 500, 1_000, 2_000, 4_000),
    "items": (500, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000),
    "factors": (8, 16, 32, 64, 128, 256),
    "max_k": (10, 20, 50, 100, 200, 400),
    "mean": (5, 10, 20, 40, 80, 160, 320),
}
# The two quickest repetitions may be this far apart; else as many are added, a few times over.
WIDEST, ROUNDS = 1.15, 4


def least_seconds(work: Callable[[], Any], repetitions: int) -> float:
    """The least time, which a second repetition has to confirm."""
    taken: list[float] = []
    for _ in range(ROUNDS):
        for _ in range(repetitions):
            start = time.perf_counter()
            work()
            taken.append(time.perf_counter() - start)
        taken.sort()
        if taken[1] <= WIDEST * taken[0]:
            return taken[0]
    sys.exit(
        f"Nothing is reported: the two quickest of {len(taken)} repetitions took {taken[0]:.3g} s "
        f"and {taken[1]:.3g} s. Run this again while nothing else runs on the machine."
    )


def peak_of(work: Callable[[], Any]) -> int:
    tracemalloc.start()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def point(users: int, items: int, factors: int, max_k: int, mean: int, few: int) -> dict[str, Any]:
    """Seconds and bytes of fitting and of choosing lengths."""
    random = np.random.default_rng(SEED)
    scores = factors_of(ids_of(users, items), factors, random)
    calibration = calibration_for(scores, float(mean), random)
    split = held_out(scores, calibration, random)
    calibrator = tp.UserPlatt()
    method = tp.PersonalizedK(tp.F1(), max_k=max_k, calibrator=calibration)
    model = method.fit(scores, split)
    works: dict[str, Callable[[], Any]] = {
        "fit": lambda: calibrator.fit(scores, split),
        "sizes": lambda: model.sizes(scores),
    }
    found: dict[str, Any] = {}
    for name, work in works.items():
        work()
        found[name] = {"seconds": least_seconds(work, few), "bytes": peak_of(work)}
    return found


def exponent(at: list[int], values: list[float]) -> float:
    """The slope through the last points on log axes."""
    return float(np.polyfit(np.log(at[-LAST:]), np.log(values[-LAST:]), 1)[0])


def main() -> None:
    quick = asked(__doc__).quick
    growth: dict[str, Any] = {}
    with on_one_thread():
        point(**START, few=2)
        for name, steps in STEPS.items():
            at = list(steps[:-2] if quick else steps)
            points = [point(**(START | {name: n}), few=2 if quick else REPETITIONS) for n in at]
            growth[name] = {"at": at}
            for work in ("fit", "sizes"):
                for what in ("seconds", "bytes"):
                    values = [one[work][what] for one in points]
                    found = {"values": values, "exponent": exponent(at, values)}
                    growth[name].setdefault(work, {})[what] = found
            told = ", ".join(
                f"{work} {what} {growth[name][work][what]['exponent']:.2f}"
                for work in ("fit", "sizes")
                for what in ("seconds", "bytes")
            )
            print(f"  {name:8} {at[0]:,} to {at[-1]:,}: exponents {told}")
    if quick:
        return
    record(__file__, {"start": START, "growth": growth}, ("numpy", "numba"))


if __name__ == "__main__":
    main()
