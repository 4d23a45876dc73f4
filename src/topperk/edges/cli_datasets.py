"""The command line's verbs about data sets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import polars as pl
from cyclopts import App, Parameter

from topperk.edges.opening import made_folder, write_parts
from topperk.edges.options import Json
from topperk.ids import Ids
from topperk.scores import Factors

if TYPE_CHECKING:
    from topperk.datasets.simulated import World

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
    users: Annotated[int, Parameter(help="How many users there are.")] = 2000,
    items: Annotated[int, Parameter(help="How many items there are.")] = 2000,
    seed: Annotated[int, Parameter(help="Another seed makes another world.")] = 0,
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
    write_parts(world.split, folder)
    _factors(world).save(folder / "factors.npz")
    talk(f"{world.split}, written to {folder}")


def _factors(world: World) -> Factors:
    """The recommender's factors, without users and items that occur in no part."""
    parts = world.split.parts().values()
    users = np.flatnonzero(sum(part.counts_per_user() for part in parts))
    items = np.flatnonzero(sum(part.counts_per_item() for part in parts))
    return Factors(
        world.user_vectors[users],
        world.item_vectors[items],
        Ids(world.ids.users.part(users), world.ids.items.part(items)),
        world.user_biases[users],
        world.item_biases[items],
    )
