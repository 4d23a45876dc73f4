"""The base recommender: implicit's BPR, tuned on validation, its factors kept on disk."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import topperk as tp

CACHE = Path(__file__).resolve().parents[1] / ".cache"
# One thread each: two threads of one training race for the same factors, and no run is like
# another. Two trainings run beside each other instead.
TRAININGS_AT_ONCE = 2


@dataclass(frozen=True)
class Settings:
    """What a training depends on, besides its interactions."""

    factors: int
    learning_rate: float
    regularization: float
    iterations: int
    seed: int


def factors_of(model: Any, ids: tp.Ids) -> tp.Factors:
    """The scores of implicit's BPR: the last column of its item factors is the item's bias.

    The last column of the user factors is 1 for users with an interaction, and the bias counts
    for these alone.
    """
    users, items = np.asarray(model.user_factors), np.asarray(model.item_factors)
    if (users[:, -1] == 1.0).all():
        return tp.Factors(users[:, :-1], items[:, :-1], ids, item_biases=items[:, -1])
    return tp.Factors(users, items, ids)


def trained(
    train: tp.Interactions, settings: Settings, checkpoints: Iterable[int] = ()
) -> Iterator[tuple[int, tp.Factors]]:
    """The factors after some of the iterations, and after the last; in order."""
    try:
        from implicit.cpu.bpr import BayesianPersonalizedRanking
    except ImportError:
        sys.exit("this experiment trains implicit's BPR. Install it: pip install 'implicit>=0.7'")
    model = BayesianPersonalizedRanking(
        factors=settings.factors,
        learning_rate=settings.learning_rate,
        regularization=settings.regularization,
        iterations=settings.iterations,
        num_threads=1,
        random_state=settings.seed,
    )
    kept: list[tuple[int, tp.Factors]] = []
    wanted = {*checkpoints, settings.iterations}

    def keep(epoch: int, *_: object) -> None:
        if epoch + 1 in wanted:
            kept.append((epoch + 1, copied(factors_of(model, train.ids))))

    model.fit(train.to_scipy(), show_progress=False, callback=keep)
    yield from kept


def copied(scores: tp.Factors) -> tp.Factors:
    """The same factors in memory of their own: training goes on in that of the model."""
    biases = scores.item_biases
    return tp.Factors(
        scores.user_vectors.copy(),
        scores.item_vectors.copy(),
        scores.ids,
        item_biases=None if biases is None else biases.copy(),
    )


def cached(
    train: tp.Interactions, settings: Settings, *, fresh: bool = False
) -> tuple[tp.Factors, Path]:
    """The factors of a training and their file, from the cache where it has them."""
    path = cache_file("factors", train, asdict(settings)).with_suffix(".npz")
    if fresh or not path.is_file():
        ((_, scores),) = trained(train, settings)
        part = path.with_name(f"{path.stem}.{os.getpid()}.npz")
        scores.save(part)
        os.replace(part, path)
    read = tp.load_scores(path)
    assert isinstance(read, tp.Factors)
    return read, path


def cached_all(
    jobs: list[tuple[tp.Interactions, Settings]], *, fresh: bool = False
) -> list[tuple[tp.Factors, Path]]:
    """Several trainings, some beside each other."""
    with ThreadPoolExecutor(TRAININGS_AT_ONCE) as pool:
        return list(pool.map(lambda job: cached(*job, fresh=fresh), jobs))


def cache_file(kind: str, train: tp.Interactions, settings: Mapping[str, Any]) -> Path:
    """A name that changes with the interactions, the settings and the version of implicit."""
    from importlib.metadata import version

    key = {"kind": kind, "implicit": version("implicit"), "train": fingerprint(train), **settings}
    text = json.dumps(key, sort_keys=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    return CACHE / f"{kind}-{hashlib.sha256(text.encode()).hexdigest()[:20]}"


def fingerprint(interactions: tp.Interactions) -> str:
    """A digest of the pairs."""
    digest = hashlib.sha256()
    for array in (interactions.offsets, interactions.items):
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def tune(
    split: tp.Split, factors: int, grid: Mapping[str, Any], seed: int, *, fresh: bool = False
) -> list[dict[str, Any]]:
    """NDCG@50 on validation for every point of the grid; the test part is not looked at.

    A training of the most iterations passes by all the fewer ones.
    """
    checkpoints = sorted(grid["iterations"])

    def one(pair: tuple[float, float]) -> list[dict[str, Any]]:
        settings = Settings(factors, pair[0], pair[1], checkpoints[-1], seed)
        asked = {**asdict(settings), "checkpoints": checkpoints}
        path = cache_file("tuning", split.train, asked).with_suffix(".json")
        if fresh or not path.is_file():
            rows = [
                {
                    "learning_rate": pair[0],
                    "regularization": pair[1],
                    "iterations": iterations,
                    "validation_ndcg_at_50": validation_ndcg(scores, split),
                }
                for iterations, scores in trained(split.train, settings, checkpoints)
            ]
            path.write_text(json.dumps(rows), encoding="utf-8")
            best = max(rows, key=lambda row: row["validation_ndcg_at_50"])
            print(f"  tuned {best}", flush=True)
        rows = json.loads(path.read_text(encoding="utf-8"))
        return list(rows)

    pairs = list(product(grid["learning_rate"], grid["regularization"]))
    with ThreadPoolExecutor(TRAININGS_AT_ONCE) as pool:
        return [row for rows in pool.map(one, pairs) for row in rows]


def validation_ndcg(scores: tp.Factors, split: tp.Split) -> float:
    """Mean NDCG of the top 50, judged by the validation part: a split without the test part."""
    nothing = split.train.select(no_pair(split.train))
    seen = tp.Split(split.train, nothing, split.validation, "given")
    found = tp.evaluate(tp.FixedK(50), scores, seen, tp.NDCG())
    return float(found.fixed_curve[50])


def no_pair(interactions: tp.Interactions) -> npt.NDArray[np.bool_]:
    return np.zeros(interactions.n_interactions, dtype=np.bool_)
