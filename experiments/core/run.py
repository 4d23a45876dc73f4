"""The core figures: personal lengths against the others, on CiteULike-a and MovieLens 1M.

run.py                 everything; trained factors come from experiments/.cache if they are there
run.py --fresh         everything, trained and tuned anew
run.py --only timing   the seconds and the memory alone, into the result that is there
run.py --render        README.md alone, from result.json
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import sys
import time
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
CONFIG = HERE / "config.toml"
RESULT = HERE / "result.json"
PAGE = HERE / "README.md"
LIBRARIES = ("topperk", "numpy", "numba", "polars", "implicit", "scipy")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fresh", action="store_true", help="train and tune anew")
    parser.add_argument("--only", choices=["figures", "timing"], help="one part of the result")
    parser.add_argument("--render", action="store_true", help="write README.md and nothing else")
    asked = parser.parse_args()
    if not asked.render:
        config = tomllib.loads(CONFIG.read_text(encoding="utf-8"))
        result = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.is_file() else {}
        if asked.only != "timing":
            result = {**result, **figures(config, asked.fresh)}
        if asked.only != "figures":
            result["timing"] = timing(config, result)
        write(result)
    render()


def figures(config: dict[str, Any], fresh: bool) -> dict[str, Any]:
    """Everything but the seconds and the memory."""
    import bpr
    import measures
    from data import READERS
    from threadpoolctl import threadpool_limits

    import topperk as tp

    start = time.perf_counter()
    data_sets: dict[str, Any] = {}
    for name, read in READERS.items():
        print(name, flush=True)
        interactions = read()
        splits = {seed: tp.split_random(interactions, seed=seed) for seed in config["seeds"]}
        first = config["seeds"][0]
        grid = config["bpr"]["grid"][name]
        rows = bpr.tune(splits[first], config["bpr"]["factors"], grid, first, fresh=fresh)
        best = max(rows, key=lambda row: row["validation_ndcg_at_50"])
        print(f"  chosen {best}", flush=True)
        settings = {
            seed: bpr.Settings(
                config["bpr"]["factors"],
                best["learning_rate"],
                best["regularization"],
                best["iterations"],
                seed,
            )
            for seed in config["seeds"]
        }
        jobs = [(splits[seed].train, settings[seed]) for seed in config["seeds"]]
        runs = []
        for seed, (scores, _) in zip(
            config["seeds"], bpr.cached_all(jobs, fresh=fresh), strict=True
        ):
            with threadpool_limits(2, "blas"):
                runs.append(
                    measures.measure(
                        scores,
                        splits[seed],
                        seed=seed,
                        max_k=config["max_k"],
                        paper_terms=config["paper_terms"],
                    )
                )
            print(f"  seed {seed} after {time.perf_counter() - start:.0f} s", flush=True)
        data_sets[name] = {
            "statistics": measures.describe(interactions, splits[first]),
            "tuning": {"split_seed": first, "chosen": best, "grid": rows},
            "over_seeds": measures.over_seeds(runs),
            "runs": runs,
        }
    return {
        "seeds": config["seeds"],
        "max_k": config["max_k"],
        "paper_terms": config["paper_terms"],
        "factors": config["bpr"]["factors"],
        "published": config["published"],
        "bars": config["bars"],
        "data_sets": data_sets,
        **circumstances(time.perf_counter() - start),
    }


def timing(config: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Seconds and memory, with the factors of the first seed."""
    import bpr
    import costs
    from data import READERS

    import topperk as tp

    if "data_sets" not in result:
        sys.exit("there is no result.json to put the timing into. Run without --only first.")
    start = time.perf_counter()
    seed = config["seeds"][0]
    chosen = result["data_sets"]["movielens"]["tuning"]["chosen"]
    settings = bpr.Settings(
        result["factors"],
        chosen["learning_rate"],
        chosen["regularization"],
        chosen["iterations"],
        seed,
    )
    split = tp.split_random(READERS["movielens"](), seed=seed)
    _, factors = bpr.cached(split.train, settings)
    measured = {
        "fit_and_sizes": costs.fit_and_sizes(factors, seed),
        "import": costs.importing(config["imports"]),
    }
    return {**measured, **circumstances(time.perf_counter() - start)}


def circumstances(seconds: float) -> dict[str, Any]:
    """When, with what, on which machine, and for how long."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "wall_seconds": seconds,
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in LIBRARIES},
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


def write(result: dict[str, Any]) -> None:
    text = json.dumps(rounded(result), indent=1, ensure_ascii=False, allow_nan=False)
    RESULT.write_text(text + "\n", encoding="utf-8")


def rounded(value: Any) -> Any:
    """Ten significant digits, and null for what is not a number."""
    if isinstance(value, dict):
        return {name: rounded(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [rounded(inner) for inner in value]
    if isinstance(value, float):
        return float(f"{value:.10g}") if math.isfinite(value) else None
    return value


def render() -> None:
    from page import page_of

    if not RESULT.is_file():
        sys.exit("there is no result.json to draw. Run without --render first.")
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    PAGE.write_text(page_of(result), encoding="utf-8")


if __name__ == "__main__":
    main()
