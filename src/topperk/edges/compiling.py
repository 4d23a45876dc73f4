"""The first compilation on a machine: noticed while it happens, or done ahead by ``warmup``."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import numpy as np
from numba.core import event

from topperk import (
    ChoiceOfK,
    FittedK,
    PersonalizedK,
    count_distribution,
    evaluate,
    usual_methods,
)
from topperk._codes import IntegerCodes
from topperk._kernels.fused import scan_users
from topperk.calibration import Calibrator, GlobalPlatt, Uncalibrated, UserPlatt
from topperk.datasets.simulated import World, simulate_world
from topperk.ids import IdIndex
from topperk.scores import Candidates, Dense, ScoreSource
from topperk.utility import F1, PDCG

__all__ = ["cache_folder", "compile_all", "watching"]


class _Watcher(event.Listener):
    """Counts the kernels of topperk that are compiled, and calls back at the first.

    While one is compiled, cyclic garbage is not collected: the compiler makes millions of objects
    that stay, and looking through them time and again takes a seventh of its time.
    """

    def __init__(self, at_first: Callable[[], None]) -> None:
        self.names: list[str] = []
        self._at_first = at_first
        self._depth = 0  # a kernel that another one calls is compiled within it, under one lock
        self._collecting = False

    def on_start(self, event: Any) -> None:
        function = event.data["dispatcher"].py_func
        if function.__module__.startswith("topperk."):
            self.names.append(function.__name__)
            if len(self.names) == 1:
                self._at_first()
        if self._depth == 0:
            self._collecting = gc.isenabled()
            gc.disable()
        self._depth += 1

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0 and self._collecting:
            gc.enable()


@contextmanager
def watching(at_first: Callable[[], None]) -> Iterator[list[str]]:
    """The names of the kernels that are compiled within; what the cache holds is not compiled."""
    watcher = _Watcher(at_first)
    with event.install_listener("numba:compile", watcher):
        yield watcher.names


def cache_folder() -> str | None:
    """Where compiled kernels are kept, or None where no folder can be written."""
    folder: str | None = cast(Any, scan_users).stats.cache_path
    return folder


def compile_all() -> None:
    """Run whatever fit, recommend and evaluate can be asked for, on a small simulated world."""
    world = simulate_world(n_users=60, n_items=80, seed=1)
    users = world.ids.users.values.to_list()
    items = world.ids.items.values.to_list()
    for kind in (np.float32, np.float64):
        for source in _sources(world, kind):
            for fitted in _models(world, source):
                fitted.recommend(source)
                fitted.choose(users[0], items, np.zeros(len(items), dtype=kind))
            methods: dict[str, ChoiceOfK | FittedK] = {
                **usual_methods(F1(), max_k=20),
                "fitted": fitted,
            }
            evaluate(methods, source, world.split, F1())
    IntegerCodes(IdIndex.from_values([1], "ids")).of([1], "ids")  # the world's ids are strings
    count_distribution([0.5])


def _sources(world: World, kind: type[np.floating[Any]]) -> Iterator[ScoreSource]:
    codes = np.arange(world.ids.n_users, dtype=np.int32)
    matrix = world.scores.block(codes).scores.reshape(codes.size, -1).astype(kind)
    yield Dense(matrix, world.ids)
    yield Candidates(
        {
            "user_id": np.repeat(world.ids.users.values.to_numpy(), matrix.shape[1]),
            "item_id": np.tile(world.ids.items.values.to_numpy(), matrix.shape[0]),
            "score": matrix.ravel(),
        }
    )


def _models(world: World, source: ScoreSource) -> Iterator[FittedK]:
    calibrators: list[Calibrator] = [
        UserPlatt(prior="population", correction="ratio"),
        UserPlatt(),
        GlobalPlatt("odds"),
        Uncalibrated(),
    ]
    for calibrator in calibrators:
        yield PersonalizedK(F1(), 1, 20, calibrator).fit(source, world.split)
    yield PersonalizedK(F1(), 1, 20, GlobalPlatt(), "paper").fit(source, world.split)
    yield PersonalizedK(PDCG(), 0, 20, GlobalPlatt()).fit(source, world.split)
