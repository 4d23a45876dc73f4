"""The command line's verbs for a new machine: show what it does, and compile ahead."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from topperk.edges.options import Json
from topperk.errors import StorageError


def demo(
    *,
    output: Annotated[Path, Parameter(help="The folder for the report.")] = Path("topperk-demo"),
    users: Annotated[int, Parameter(help="Users of the simulated world.")] = 2000,
    items: Annotated[int, Parameter(help="Items of the simulated world.")] = 2000,
    seed: Annotated[int, Parameter(help="Another seed makes another world.")] = 0,
    json: Json = False,
) -> None:
    """Show the method at work on a simulated world: a table, and a report to open.

    **Examples**

        topperk demo
        topperk demo --users 500 --items 800 --seed 7 --output small-world
    """
    from topperk.edges.demo import run_demo
    from topperk.edges.terminal import bars, say_json, show_comparison, talk

    with bars() as progress:
        measured, path = run_demo(
            output, n_users=users, n_items=items, seed=seed, progress=progress
        )
    if json:
        say_json({**measured.as_json(), "report": str(path)})
    else:
        show_comparison(measured)
    talk(f"The report is {path}: open it in a browser.")


def warmup() -> None:
    """Compile ahead all that fit, recommend and evaluate need, as when an image is built.

    The machine code is kept in the folder that NUMBA_CACHE_DIR names, or else beside the installed
    package or in the user's own cache; it serves machines with the same kind of processor.

    **Examples**

        topperk warmup
    """
    from topperk.edges.compiling import cache_folder, compile_all, watching
    from topperk.edges.terminal import talk

    folder = cache_folder()

    def begin() -> None:
        if folder is None:
            raise StorageError(
                "there is no folder to keep compiled code in, so that every process compiles for "
                "itself. Set NUMBA_CACHE_DIR to a folder that can be written."
            )
        talk("Compiling ...")

    start = time.perf_counter()
    with watching(begin) as compiled:
        compile_all()
    took = f"{time.perf_counter() - start:.1f} s"
    if compiled:
        talk(f"Compiled {len(set(compiled))} kernels in {took}, kept in {folder}")
    else:
        kept_in = "a folder that can only be read" if folder is None else folder
        talk(f"Everything was compiled already (looked at in {took}), kept in {kept_in}")
