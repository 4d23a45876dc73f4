"""What the benchmarks share: rivals timed in turn within one run, claims, and the record of a run.

Timings of one machine differ from hour to hour, so a claim is about ratios: the rivals take turns,
each turn gives a ratio, and what is told is the median of these with its quartiles. Where the
quartiles are too far apart, ``checked`` ends the script with a sentence, and nothing is recorded.

``record`` writes ``<script>.json`` beside the script, from which the documents take their figures.
A run with ``--quick`` is shorter, and recorded nowhere.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from numba.core import config

HERE = Path(__file__).resolve().parent
# The quartiles of the ratios may be this share of their median apart. On a quiet machine they are
# a tenth apart at most; beyond a quarter, somebody else is at work. It does not matter where the
# bar is passed ten times over.
WIDEST_SPREAD = 0.25


def own_cache() -> str:
    """Where this very state of the kernels is kept compiled.

    numba looks at the file of a kernel only, and would go on using what it has of another file: a
    benchmark would measure kernels of yesterday.
    """
    digest = hashlib.sha256()
    for path in sorted((HERE.parent / "src" / "topperk" / "_kernels").glob("*.py")):
        digest.update(path.read_bytes())
    return str(Path(tempfile.gettempdir()) / f"topperk-kernels-{digest.hexdigest()[:12]}")


os.environ.setdefault("NUMBA_CACHE_DIR", own_cache())  # before topperk is imported
config.CACHE_DIR = os.environ["NUMBA_CACHE_DIR"]  # where a peer has imported numba already


def in_turn(
    rivals: Mapping[str, Callable[[], Any]], repetitions: int, *, warm_up: bool = True
) -> dict[str, list[float]]:
    """Seconds of every rival, one repetition of each after the other."""
    if warm_up:
        for run in rivals.values():
            run()
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    for _ in range(repetitions):
        for name, run in rivals.items():
            start = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - start)
    return seconds


def claim(
    work: str,
    peer: str,
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    at_most: float | None = None,
    at_least: float | None = None,
    try_for: float | None = None,
) -> dict[str, Any]:
    """Our time as a share of the peer's (``at_most``), or how many times faster (``at_least``).

    Without a bar it is a share that is told and promises nothing.
    """
    if at_least is None:
        ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
        met = None if at_most is None else statistics.median(ratios) <= at_most
    else:
        ratios = [b / a for a, b in zip(ours, theirs, strict=True)]
        met = statistics.median(ratios) >= at_least
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return {
        "work": work,
        "peer": peer,
        "ratio": middle,
        "quartiles": [low, high],
        "at_most": at_most,
        "at_least": at_least,
        "try_for": try_for,
        "met": met,
        "seconds": [statistics.median(ours), statistics.median(theirs)],
        "repetitions": len(ratios),
    }


def checked(claims: Sequence[Mapping[str, Any]]) -> None:
    """Print the claims, and end here where the ratios of one are too far apart."""
    for found in claims:
        low, high = found["quartiles"]
        what = "times faster than" if found["at_least"] else "of the time of"
        bar = f"at least {found['at_least']:g}" if found["at_least"] else ""
        bar = f"at most {found['at_most']:g}" if found["at_most"] else bar
        verdict = {True: f"met: {bar}", False: f"MISSED: {bar}", None: ""}[found["met"]]
        print(
            f"  {found['work']}: {found['ratio']:.3g} ({low:.3g} to {high:.3g}) "
            f"{what} {found['peer']}, {1e6 * found['seconds'][0]:,.4g} against "
            f"{1e6 * found['seconds'][1]:,.4g} µs  {verdict}"
        )
    for found in claims:
        low, high = found["quartiles"]
        beyond_doubt = found["at_least"] and low > 10.0 * found["at_least"]
        if high - low > WIDEST_SPREAD * found["ratio"] and not beyond_doubt:
            sys.exit(
                f"Nothing is reported: {found['work']} took {low:.3g} to {high:.3g} of "
                f"{found['peer']} in half of the repetitions, which is too wide a spread. Run this "
                "again while nothing else runs on the machine."
            )


@contextmanager
def on_one_thread() -> Iterator[None]:
    """One thread for topperk's blocks, and one for every BLAS that is loaded by now."""
    from threadpoolctl import threadpool_limits

    import topperk as tp

    with tp.resources(n_jobs=1), threadpool_limits(1, user_api="blas"):
        yield


def asked(about: str | None, **more: str) -> argparse.Namespace:
    """The options of a script: ``--quick``, and switches of its own with what they do."""
    options = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--quick", action="store_true", help="less work; nothing is recorded")
    for name, what in more.items():
        options.add_argument(f"--{name}", action="store_true", help=what)
    return options.parse_args()


def record(script: str, result: Mapping[str, Any], libraries: tuple[str, ...]) -> None:
    """Write the figures, with what they were measured with and on."""
    path = HERE / f"{Path(script).stem}.json"
    whole = {**result, "circumstances": circumstances(libraries)}
    path.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    print(f"written to {path.relative_to(HERE.parent)}")


def circumstances(libraries: tuple[str, ...]) -> dict[str, Any]:
    """When, with which versions, on which machine."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("topperk", *libraries)},
        },
        "machine": {"processor": processor(), "cores": os.cpu_count()},
    }


def processor() -> str:
    """The model of the processor, as the system calls it."""
    known = Path("/proc/cpuinfo")
    if known.is_file():
        for line in known.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
