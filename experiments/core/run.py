"""The core figures: personal lengths against the others, on CiteULike-a and MovieLens 1M.

run.py                 everything; trained factors come from experiments/.cache if they are there
run.py --fresh         everything, trained and tuned anew
run.py --only NAME     citeulike, movielens, or timing (seconds and memory) alone, into the result
run.py --render        README.md here and above and the picture, from result.json
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "benchmarks"))
from side_by_side import circumstances  # noqa: E402 - found in the folder just named

CONFIG = HERE / "config.toml"
RESULT = HERE / "result.json"
PAGE = HERE / "README.md"
FRONT_PAGE = HERE.parents[1] / "README.md"
PICTURES = HERE.parents[1] / "docs" / "pictures" / "draw.py"
DATA_SETS = ("citeulike", "movielens")
SETTINGS = ("seeds", "max_k", "paper_terms", "published", "bars")
LIBRARIES = ("numpy", "numba", "polars", "implicit", "scipy")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--fresh", action="store_true", help="train and tune anew")
    parser.add_argument("--only", choices=[*DATA_SETS, "timing"], help="one part of the result")
    parser.add_argument("--render", action="store_true", help="write README.md and nothing else")
    asked = parser.parse_args()
    if not asked.render:
        config = tomllib.loads(CONFIG.read_text(encoding="utf-8"))
        result = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.is_file() else {}
        result |= {name: config[name] for name in SETTINGS} | {"factors": config["bpr"]["factors"]}
        for name in DATA_SETS:
            if asked.only in (None, name):
                found = {**result.get("data_sets", {}), name: figures(name, config, asked.fresh)}
                result["data_sets"] = dict(sorted(found.items()))
                write(result)
        if asked.only in (None, "timing"):
            result["timing"] = timing(config, result)
            write(result)
    render()


def figures(name: str, config: dict[str, Any], fresh: bool) -> dict[str, Any]:
    """Everything about one data set."""
    import bpr
    import measures
    from data import READERS

    import topperk as tp

    start = time.perf_counter()
    print(name, flush=True)
    interactions = READERS[name]()
    splits = {seed: tp.split_random(interactions, seed=seed) for seed in config["seeds"]}
    first = config["seeds"][0]
    factors, grid = config["bpr"]["factors"], config["bpr"]["grid"][name]
    rows = bpr.tune(splits[first], factors, grid, first, fresh=fresh)
    best = max(rows, key=lambda row: row["validation_ndcg_at_50"])
    print(f"  chosen {best}", flush=True)
    sizes = {"max_k": config["max_k"], "paper_terms": config["paper_terms"]}

    def runs_of(chosen: dict[str, Any]) -> list[dict[str, Any]]:
        settings = (chosen["learning_rate"], chosen["regularization"], chosen["iterations"])
        jobs = [
            (splits[seed].train, bpr.Settings(factors, *settings, seed)) for seed in config["seeds"]
        ]
        runs = []
        for seed, (scores, _) in zip(
            config["seeds"], bpr.cached_all(jobs, fresh=fresh), strict=True
        ):
            runs.append(measures.measure(scores, splits[seed], seed=seed, **sizes))
            print(f"  seed {seed} after {time.perf_counter() - start:.0f} s", flush=True)
        return runs

    runs = runs_of(best)
    near = config["bpr"]["near_the_paper"].get(name)
    beside = {}
    if near is not None:
        beside = {"near_the_paper": {**near, "over_seeds": measures.over_seeds(runs_of(near))}}
    return {
        "statistics": measures.describe(interactions, splits[first]),
        "tuning": {"split_seed": first, "chosen": best, "grid": rows},
        "over_seeds": measures.over_seeds(runs),
        "runs": runs,
        **beside,
        **circumstances(LIBRARIES),
        "wall_seconds": time.perf_counter() - start,
    }


def timing(config: dict[str, Any], result: dict[str, Any]) -> dict[str, Any]:
    """Seconds and memory, with the factors of the first seed."""
    import bpr
    import costs
    from data import READERS

    import topperk as tp

    if "movielens" not in result.get("data_sets", {}):
        sys.exit("the timing needs the tuned model: run.py --only movielens measures it.")
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
    return {**measured, **circumstances(LIBRARIES), "wall_seconds": time.perf_counter() - start}


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
    from page import front_page, page_of

    if not RESULT.is_file():
        sys.exit("there is no result.json to draw. Run without --render first.")
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    missing = [name for name in DATA_SETS if name not in result["data_sets"]]
    if missing:
        print(f"the pages are drawn when {' and '.join(missing)} is measured too")
        return
    PAGE.write_text(page_of(result), encoding="utf-8")
    text = FRONT_PAGE.read_text(encoding="utf-8")
    FRONT_PAGE.write_text(front_page(text, result), encoding="utf-8")
    subprocess.run([sys.executable, str(PICTURES)], check=True)


if __name__ == "__main__":
    main()
