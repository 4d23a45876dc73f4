"""Seconds and memory: fitting and choosing on MovieLens 1M, and importing topperk.

Both are measured in interpreters of their own. Run as a script, this module is the inside of the
first: it takes the file of the factors and the seed of the split, and prints JSON.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import data
import numpy as np

import topperk as tp
from topperk.datasets.simulated import simulate_world
from topperk.edges.compiling import compile_all

THREADS = 2
REPETITIONS = 3
# Names under which the distributions of the optional extras are imported, where they differ.
IMPORTED_AS = {
    "fast-poibin": "fast_poibin",
    "prometheus-client": "prometheus_client",
    "pytest-xdist": "xdist",
    "scikit-learn": "sklearn",
    "vl-convert-python": "vl_convert",
    "mkdocs-material": "material",
    "mkdocstrings-python": "mkdocstrings_handlers",
}
IMPORTING = """
import sys, time
before = set(sys.modules)
start = time.perf_counter()
import topperk
seconds = time.perf_counter() - start
import json
loaded = {name.split(".")[0] for name in set(sys.modules) - before}
print(json.dumps([seconds, sorted(loaded - set(sys.stdlib_module_names))]))
"""
# What the three libraries load by themselves: numba takes scipy where it is installed.
LIBRARIES_ALONE = IMPORTING.replace("import topperk", "import numpy, numba, polars")


def fit_and_sizes(factors: Path, seed: int) -> dict[str, Any]:
    """Seconds and peak memory for F1 with the default calibrator, in a fresh interpreter."""
    threads = {
        name: str(THREADS)
        for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    }
    output = run_python([str(Path(__file__)), str(factors), str(seed)], threads)
    return dict(json.loads(output))


def importing(times: int) -> dict[str, Any]:
    """Seconds of ``import topperk`` in fresh interpreters, and what it loads."""
    seconds, loaded = [], set()
    for _ in range(times):
        taken, names = json.loads(run_python(["-c", IMPORTING], {}))
        seconds.append(taken)
        loaded |= set(names)
    _, by_libraries = json.loads(run_python(["-c", LIBRARIES_ALONE], {}))
    own = loaded - {"topperk"} - set(by_libraries)
    return {
        "seconds": seconds,
        "best_seconds": min(seconds),
        "loaded_by_libraries": by_libraries,
        "loaded": sorted(own),
        "optional_loaded": sorted(own & optional_modules()),
    }


def optional_modules() -> set[str]:
    """What the extras of pyproject.toml install, under the names they are imported by."""
    project = tomllib.loads((data.CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = project["project"]["optional-dependencies"]
    needed = {re.split(r"[<>=\[ ]", one)[0] for group in extras.values() for one in group}
    return {IMPORTED_AS.get(name, name) for name in needed} - {"topperk"}


def run_python(arguments: list[str], environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout


def inside(factors: Path, seed: int) -> dict[str, Any]:
    """Compile all, try a small world, then fit and choose on the large one."""
    world = simulate_world(n_users=60, n_items=300, seed=0)
    small = tp.Factors(
        np.asarray(world.scores.user_vectors, dtype=np.float32),
        np.asarray(world.scores.item_vectors, dtype=np.float32),
        world.scores.ids,
    )
    compiling = time.perf_counter()
    compile_all()
    tp.PersonalizedK(tp.F1()).fit(small, world.split).sizes(small)
    compiling = time.perf_counter() - compiling
    scores = tp.load_scores(factors)
    split = tp.split_random(data.movielens(), seed=seed)
    before = peak_mb()
    repetitions = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        model = tp.PersonalizedK(tp.F1()).fit(scores, split)
        fitted = time.perf_counter()
        sizes = model.sizes(scores)
        end = time.perf_counter()
        repetitions.append({"fit": fitted - start, "sizes": end - fitted, "both": end - start})
    slowest = max(repetitions, key=lambda one: one["both"])
    return {
        "threads": THREADS,
        "users": len(sizes),
        "warm_up_seconds": compiling,
        "repetitions": repetitions,
        "fit_seconds": slowest["fit"],
        "sizes_seconds": slowest["sizes"],
        "seconds": slowest["both"],
        "peak_mb": peak_mb(),
        "peak_before_mb": before,
    }


def peak_mb() -> float:
    """The resident peak of this process so far, in units of 10^6 bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / 1e6


if __name__ == "__main__":
    print(json.dumps(inside(Path(sys.argv[1]), int(sys.argv[2]))))
