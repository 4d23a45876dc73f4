"""A whole night: fit, lengths and lists to Parquet for a world as large as MovieLens 25M.

162,414 users, 18,424 items, 24.8 million interactions (60 % training, 20 % validation, 20 % test),
64 factors, F1, lists of at most 50, two threads. With ``--amazon`` as large as Amazon Books:
157,809 users, 112,048 items, 8.9 million interactions. ``--quick`` takes a tenth of the users.

The world is made up: users differ in activity (log-normal), their items are spread evenly over the
catalogue, item vectors are normal, and a user's vector is the sum of the vectors of the user's
items, so that scores are higher for what is interacted with than for the rest. The world is written
to disk by one process and worked on by another, whose peak of resident memory is told: data,
scores, model and results together.

    python benchmarks/bench_whole.py [--amazon] [--quick]
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from made_up import calibration_for, distinct_pairs, factors_of, held_out, ids_of
from side_by_side import HERE, asked, circumstances

import topperk as tp

FACTORS, MAX_K, THREADS, SEED = 64, 50, 2, 0
PARTS = (0.6, 0.8)  # where validation and test begin
# users, items, interactions, and the bars: seconds and bytes
WORLDS = {
    "MovieLens-25M-size": (162_414, 18_424, 24_800_000, 300.0, 3e9),
    "Amazon-Books-size": (157_809, 112_048, 8_900_000, 900.0, 4e9),
}


def make(folder: Path, n_users: int, n_items: int, n_interactions: int) -> None:
    """Vectors and interactions, as files of arrays."""
    random = np.random.default_rng(SEED)
    ids = ids_of(n_users, n_items)
    activity = random.lognormal(0.0, 1.0, n_users)
    counts = np.maximum(10, activity * n_interactions / activity.sum()).astype(np.int64)
    counts = np.minimum(counts, n_items // 4)
    data = distinct_pairs(ids, counts, random.random(int(counts.sum())))
    items = random.normal(0.0, FACTORS**-0.25, (n_items, FACTORS)).astype(np.float32)
    users = data.to_scipy().astype(np.float32) @ items
    users /= np.sqrt(counts, dtype=np.float32)[:, None]
    np.save(folder / "users.npy", users)
    np.save(folder / "items.npy", items)
    share = random.random(data.items.size, dtype=np.float32)
    part_of = np.digitize(share, PARTS)
    for part, name in enumerate(("train", "validation", "test")):
        own = data.select(part_of == part)
        np.save(folder / f"{name}-offsets.npy", own.offsets)
        np.save(folder / f"{name}-items.npy", own.items)


def compile_all(folder: Path) -> None:
    """Everything once, for a few users: a service compiles when it is installed."""
    random = np.random.default_rng(SEED)
    scores = factors_of(ids_of(50, 100), FACTORS, random)
    split = held_out(scores, calibration_for(scores, 5.0, random), random)
    model = tp.PersonalizedK(tp.F1(), max_k=MAX_K).fit(scores, split)
    model.sizes(scores)
    model.recommend_to(folder / "few.parquet", scores)


def work(folder: Path) -> dict[str, Any]:
    """Seconds of each stage in this process, and its peak of memory."""
    seconds: dict[str, float] = {}
    begin = time.perf_counter()
    compile_all(folder)
    compiling = time.perf_counter() - begin
    start = last = time.perf_counter()
    within: dict[str, float] = {}
    stage, since = "", start

    def lap(name: str) -> None:
        nonlocal last
        now = time.perf_counter()
        seconds[name] = now - last
        last = now

    def progress(name: str, done: int, total: int) -> None:
        nonlocal stage, since
        now = time.perf_counter()
        if done == 0:
            stage, since = name, now
        elif done == total:
            within[stage] = within.get(stage, 0.0) + now - since

    users, items = np.load(folder / "users.npy"), np.load(folder / "items.npy")
    ids = ids_of(users.shape[0], items.shape[0])
    scores = tp.Factors(users, items, ids)
    train, validation, test = (
        tp.Interactions(
            ids, np.load(folder / f"{name}-offsets.npy"), np.load(folder / f"{name}-items.npy")
        )
        for name in ("train", "validation", "test")
    )
    split = tp.Split(train, validation, test, kind="given")
    lap("open")
    with tp.resources(n_jobs=THREADS):
        model = tp.PersonalizedK(tp.F1(), max_k=MAX_K).fit(scores, split, progress=progress)
        lap("fit")
        sizes = model.sizes(scores)
        lap("sizes")
        n_rows = model.recommend_to(folder / "lists.parquet", scores)
        lap("lists to Parquet")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "users": ids.n_users,
        "items": ids.n_items,
        "interactions": sum(part.n_interactions for part in split.parts().values()),
        "seconds_to_compile": compiling,
        "seconds": seconds,
        "seconds_in_all": sum(seconds[name] for name in ("fit", "sizes", "lists to Parquet")),
        "seconds_within_fit": within,
        "steps": {
            "pooled": model.calibration.convergence.pooled_steps,
            "most_of_a_user": model.calibration.convergence.most_user_steps,
        },
        "peak_bytes": peak * (1 if sys.platform == "darwin" else 1024),
        "mean_k": float(sizes["k"].mean()),
        "rows": n_rows,
        "load_before": os.getloadavg()[2],
    }


def main() -> None:
    options = asked(__doc__, amazon="a world as large as Amazon Books instead")
    name = "Amazon-Books-size" if options.amazon else "MovieLens-25M-size"
    n_users, n_items, n_interactions, most_seconds, most_bytes = WORLDS[name]
    if options.quick:
        n_users, n_interactions = n_users // 10, n_interactions // 10
    with tempfile.TemporaryDirectory() as folder:
        # Processes of their own: a child begins with its parent's peak of memory.
        sizes = map(str, (n_users, n_items, n_interactions))
        subprocess.run([sys.executable, __file__, "make", folder, *sizes], check=True)
        command = [sys.executable, __file__, "work", folder]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout)
    print(
        f"{name}: {found['users']:,} users, {found['items']:,} items, "
        f"{found['interactions']:,} interactions"
    )
    print(f"  (compiling, or reading what is compiled: {found['seconds_to_compile']:.1f} s)")
    for stage, taken in found["seconds"].items():
        print(f"  {stage:32} {taken:8.1f} s")
    for stage, taken in found["seconds_within_fit"].items():
        print(f"    {stage:30} {taken:8.1f} s  {taken / found['seconds']['fit']:5.0%} of fit")
    print(f"    Newton steps: {found['steps']}")
    total, peak = found["seconds_in_all"], found["peak_bytes"]
    print(f"  fit, sizes and lists together {total:.1f} s, peak {peak / 1e9:.2f} GB")
    if options.quick:
        return
    print(f"  bars: {most_seconds:.0f} s, {most_bytes / 1e9:.0f} GB")
    found["bars"] = {"seconds": most_seconds, "bytes": most_bytes}
    found["met"] = {"seconds": total <= most_seconds, "bytes": peak <= most_bytes}
    # The two worlds are measured one by one, and stand in one file.
    path = HERE / "bench_whole.json"
    known = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    settings = {"factors": FACTORS, "max_k": MAX_K, "threads": THREADS, "seed": SEED}
    libraries = ("numpy", "numba", "polars")
    worlds = known.get("worlds", {}) | {name: found | {"when": circumstances(libraries)["date"]}}
    whole = {**settings, "worlds": worlds, "circumstances": circumstances(libraries)}
    path.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    print(f"written to {path.relative_to(HERE.parent)}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["make"]:
        make(Path(sys.argv[2]), *map(int, sys.argv[3:6]))
    elif sys.argv[1:2] == ["work"]:
        print(json.dumps(work(Path(sys.argv[2]))))
    else:
        main()
