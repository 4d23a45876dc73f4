"""Ten million interactions from a Parquet file: seconds and peak memory, beside pandas and scipy.

The peer is the usual recipe: ``pandas.read_parquet``, ``factorize`` for both columns, and a
``scipy.sparse.csr_matrix`` of the codes. Each reading is a process of its own, so that its peak
of resident memory is its own. Pairs are Zipf-like in users and items, and some repeat.

    python benchmarks/bench_reading.py [--quick]
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from side_by_side import asked, record

ROWS, USERS, ITEMS, SEED, REPETITIONS = 10_000_000, 160_000, 60_000, 0, 3


def write(path: Path, ids: str, n_rows: int) -> None:
    """The file: 64-bit integers, or strings as other systems export them."""
    import polars as pl

    random = np.random.default_rng(SEED)
    users = (USERS * random.random(n_rows) ** 1.6).astype(np.int64)
    items = (ITEMS * random.random(n_rows) ** 2.5).astype(np.int64)
    frame = pl.DataFrame(
        {
            "user_id": random.permutation(USERS)[users],
            "item_id": random.permutation(ITEMS)[items],
            "timestamp": random.integers(1_500_000_000, 1_700_000_000, n_rows),
        }
    )
    if ids == "string":
        frame = frame.with_columns(
            pl.format("user-{}", "user_id").alias("user_id"),
            pl.format("item-{}", "item_id").alias("item_id"),
        )
    frame.write_parquet(path)


def with_topperk(path: Path) -> dict[str, Any]:
    import topperk as tp

    start = time.perf_counter()
    data = tp.read_interactions(path)
    taken = time.perf_counter() - start
    return {"seconds": taken, "pairs": data.n_interactions}


def with_pandas(path: Path) -> dict[str, Any]:
    import pandas as pd
    from scipy import sparse

    start = time.perf_counter()
    frame = pd.read_parquet(path)
    users, _ = pd.factorize(frame["user_id"], sort=True)
    items, _ = pd.factorize(frame["item_id"], sort=True)
    matrix = sparse.csr_matrix((np.ones(users.size, dtype=np.float32), (users, items)))
    matrix.sum_duplicates()
    taken = time.perf_counter() - start
    return {"seconds": taken, "pairs": int(matrix.nnz)}


RIVALS = {"topperk": with_topperk, "pandas and scipy": with_pandas}


def inside(name: str, path: Path) -> None:
    """One reading in this process, with the peak of its resident memory, as JSON."""
    result = RIVALS[name](path)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result["peak_mb"] = peak * (1 if sys.platform == "darwin" else 1024) / 1e6
    print(json.dumps(result))


def main() -> None:
    quick = asked(__doc__).quick
    n_rows, repetitions = (ROWS // 10, 1) if quick else (ROWS, REPETITIONS)
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for ids in ("integer", "string"):
            path = Path(folder) / f"{ids}.parquet"
            # In a process of its own too: a child begins with its parent's peak of memory.
            subprocess.run(
                [sys.executable, __file__, "write", str(path), ids, str(n_rows)], check=True
            )
            runs: dict[str, list[dict[str, Any]]] = {name: [] for name in RIVALS}
            for _ in range(repetitions):
                for name in RIVALS:
                    command = [sys.executable, __file__, name, str(path)]
                    done = subprocess.run(command, check=True, capture_output=True, text=True)
                    runs[name].append(json.loads(done.stdout))
            found[ids] = {
                name: {
                    "median_seconds": median(run["seconds"] for run in each),
                    "peak_mb": max(run["peak_mb"] for run in each),
                    "pairs": each[0]["pairs"],
                }
                for name, each in runs.items()
            }
            print(f"{n_rows:,} rows, {ids} ids, {path.stat().st_size / 1e6:.0f} MB of Parquet")
            for name, row in found[ids].items():
                print(
                    f"  {name:18} {row['median_seconds']:6.2f} s, peak {row['peak_mb']:6.0f} MB, "
                    f"{row['pairs']:,} pairs"
                )
    if quick:
        return
    settings = {"rows": ROWS, "users": USERS, "items": ITEMS, "seed": SEED}
    libraries = ("polars", "pandas", "pyarrow", "scipy")
    record(__file__, {**settings, "repetitions": REPETITIONS, "ids": found}, libraries)


if __name__ == "__main__":
    if sys.argv[1:2] == ["write"]:
        write(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    elif sys.argv[1:2] and sys.argv[1] in RIVALS:
        inside(sys.argv[1], Path(sys.argv[2]))
    else:
        main()
