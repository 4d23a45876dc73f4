"""The first compilation on a machine: ``topperk warmup`` with a cache folder that is empty.

Each repetition is a process of its own with a new folder, and after it the same once more with the
folder that is full by then. The second is what a process takes that finds everything compiled, and
the difference is what compiling takes.

    python benchmarks/bench_cold_start.py [--quick]
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from side_by_side import asked, record

BAR_SECONDS = 15.0
WARM_UP = "from topperk.edges.cli import main; main(['warmup'])"


def seconds_of(folder: str) -> float:
    """How long one process takes, from its start to its end."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-c", WARM_UP], env=environment, check=True, capture_output=True
    )
    return time.perf_counter() - start


def told(seconds: list[float]) -> str:
    """The median and the ends."""
    middle = statistics.median(seconds)
    return f"{middle:.1f} s ({min(seconds):.1f} to {max(seconds):.1f})"


def main() -> None:
    quick = asked(__doc__).quick
    empty, full = [], []
    for _ in range(1 if quick else 5):
        with tempfile.TemporaryDirectory() as folder:
            empty.append(seconds_of(folder))
            full.append(seconds_of(folder))
    compiling = [one - other for one, other in zip(empty, full, strict=True)]
    met = statistics.median(compiling) <= BAR_SECONDS
    for name, seconds in (("empty", empty), ("full", full)):
        print(f"  topperk warmup with the cache {name}: {told(seconds)}")
    verdict = "met" if met else "MISSED"
    print(f"  compiling everything: {told(compiling)}  {verdict}: at most {BAR_SECONDS:g} s")
    if quick:
        return
    result: dict[str, Any] = {
        "seconds": {"empty cache": empty, "full cache": full, "compiling": compiling},
        "bar": BAR_SECONDS,
        "met": met,
    }
    record(__file__, result, ("numpy", "numba"))


if __name__ == "__main__":
    main()
