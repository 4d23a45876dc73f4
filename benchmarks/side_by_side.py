"""What the benchmarks share: rivals timed in turn within one run, and the record of a run.

Timings of one machine differ from hour to hour, so a claim is a ratio of two medians whose
repetitions took turns. ``record`` writes ``<script>.json`` beside the script.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


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


def medians(seconds: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(taken) for name, taken in seconds.items()}


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
