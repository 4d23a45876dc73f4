"""The command line's verbs about data sets."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import polars as pl
from cyclopts import App, Parameter

from topperk._frames import to_polars, write_frame_file
from topperk.edges.opening import PARTS, Json, made_folder

datasets = App(name="datasets", help="Data to try topperk on.", help_format="markdown")


@datasets.command(name="list")
def list_datasets(*, json: Json = False) -> None:
    """List the data sets there are.

    **Examples**

        topperk datasets list
    """
    from topperk.edges.terminal import say_frame, say_json

    known = [
        {"name": "simulated", "users": 2000, "items": 2000, "about": "every true probability known"}
    ]
    if json:
        say_json(known)
    else:
        say_frame(pl.DataFrame(known), as_json=False)


@datasets.command
def simulate(
    folder: Annotated[Path, Parameter(help="Where the parts and factors.npz are written.")],
    *,
    users: int = 2000,
    items: int = 2000,
    seed: int = 0,
) -> None:
    """Write a simulated world: train, validation and test, and a recommender's factors.npz.

    **Examples**

        topperk datasets simulate world
        topperk fit world world/factors.npz f1.topperk
    """
    from topperk.datasets.simulated import simulate_world
    from topperk.edges.terminal import talk

    world = simulate_world(users, items, seed)
    made_folder(folder)
    for name in PARTS:
        part = world.split.parts()[name]
        write_frame_file(to_polars(part.to_frame(), name)[0], folder / f"{name}.parquet")
    world.scores.save(folder / "factors.npz")
    talk(f"{world.split}, written to {folder}")
