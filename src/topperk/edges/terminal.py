"""What the command line says and shows: data on stdout, talk on stderr.

Progress bars and hints appear where stderr is a terminal, and nowhere else. Tables are for people;
a program asks for JSON.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TextIO, cast

import polars as pl
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from topperk._frames import to_polars
from topperk.edges.measuring import ORACLE, Measured
from topperk.edges.report_words import p_value
from topperk.edges.svg import number
from topperk.errors import StorageError
from topperk.evaluation import PERSONAL
from topperk.progress import Progress

# The width of tables where stdout is no terminal.
PLAIN_WIDTH = 100


def talk(message: str, *, style: str = "") -> None:
    """A line for people, on stderr."""
    Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(message, style=style)


def hint(message: str) -> None:
    """A line for people who watch, on stderr if it is a terminal."""
    if is_terminal(sys.stderr):
        talk(message, style="dim")


def is_terminal(stream: TextIO | None) -> bool:
    """Whether somebody watches; a stream that was closed before the start is None."""
    return stream is not None and stream.isatty()


def say(data: str) -> None:
    """Data on stdout, at once, so that a full disk or a reader who has gone is noticed here."""
    out = cast("TextIO | None", sys.stdout)
    if out is None:
        raise StorageError("there is no stdout to write to. Open it, or send it to /dev/null.")
    try:
        out.write(data)
        out.flush()
    except OSError as error:
        # What is still in the buffer would fail a second time on leaving.
        os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        raise StorageError(
            f"can not write to stdout: {error.strerror or error}. "
            "Free space, or send the output elsewhere."
        ) from error


@contextmanager
def page() -> Iterator[Console]:
    """A console whose page (help, or the version) goes to stdout in the end."""
    drawn = io.StringIO()
    yield Console(file=drawn, force_terminal=is_terminal(sys.stdout))
    if drawn.getvalue():
        say(drawn.getvalue())


def say_json(content: object) -> None:
    """One JSON document on stdout."""
    say(json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n")


def say_frame(frame: pl.DataFrame, *, as_json: bool) -> None:
    """A frame on stdout: CSV, or JSON lines."""
    say(frame.fill_nan(None).write_ndjson() if as_json else frame.write_csv())


@contextmanager
def bars() -> Iterator[Progress]:
    """A callable for the library's ``progress``: one bar for each stage."""
    if not is_terminal(sys.stderr):
        yield _silent
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True), transient=True) as shown:
        tasks: dict[str, TaskID] = {}

        def progress(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = shown.add_task(stage, total=total)
            shown.update(tasks[stage], completed=done, total=total)

        yield progress


def _silent(stage: str, done: int, total: int) -> None:
    """No terminal, no bar."""


def show_comparison(measured: Measured) -> None:
    """Every method's mean utility as a table on stdout, and what follows from it."""
    evaluations = measured.evaluations
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("method")
    for found in evaluations:
        table.add_column(found.utility.name, justify="right")
    for method in (one.name for one in evaluations[0].methods):
        values = [found.method(method).realised.mean() for found in evaluations]
        style = {PERSONAL: "bold green", ORACLE: "dim"}.get(method, "")
        table.add_row(method, *(number(float(value)) for value in values), style=style)
    table.add_section()
    best = [
        f"{number(float(found.fixed_curve[found.best_fixed_k]))} ({found.best_fixed_k})"
        for found in evaluations
    ]
    table.add_row("best single k (which)", *best)
    against = [_against_best(measured, index) for index in range(len(evaluations))]
    table.add_row(f"{PERSONAL} minus it", *(number(gap) for gap, _ in against), style="bold")
    table.add_row("paired t-test, Holm", *(p_value(p) for _, p in against))
    if measured.truth:
        apart = [number(one.mean_absolute_difference) for one in measured.truth]
        table.add_row("estimated curve from true", *apart)
    first = evaluations[0]
    note = Text(
        f"Mean realised utility of {first.n_users:,} users on held-out interactions; "
        f"{first.n_without_test:,} without any were left out. The best single k is picked in "
        "hindsight, on the same interactions."
    )
    _show(table, note)


def _against_best(measured: Measured, index: int) -> tuple[float, float]:
    """Difference and Holm's p of the personal lists against the best single length."""
    tests = to_polars(measured.evaluations[index].tests(), "the tests")[0]
    row = tests.row(-1, named=True)
    return row["difference"], row["p_holm"]


def show_curve(rows: Sequence[dict[str, Any]], k: int, title: str) -> None:
    """One user's expected utility by length, with bars, the chosen length marked."""
    table = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left")
    for name, side in (("k", "right"), ("item", "left"), ("probability", "right")):
        table.add_column(name, justify="right" if side == "right" else "left")
    table.add_column("expected utility", justify="right")
    table.add_column("", no_wrap=True)
    values = [row["expected_utility"] for row in rows]
    low, high = min(values), max(values)
    for row in rows:
        share = (row["expected_utility"] - low) / (high - low) if high > low else 1.0
        chosen = row["k"] == k
        table.add_row(
            str(row["k"]),
            "" if row["item_id"] is None else str(row["item_id"]),
            "" if row["probability"] is None else f"{row['probability']:.3f}",
            number(row["expected_utility"]),
            "█" * round(24 * share) + (" ◀ chosen" if chosen else ""),
            style="bold green" if chosen else "dim" if row["k"] > k else "",
        )
    _show(table)


def _show(*parts: Table | Text) -> None:
    """Something for people, on stdout."""
    watched, drawn = is_terminal(sys.stdout), io.StringIO()
    width = None if watched else PLAIN_WIDTH
    console = Console(file=drawn, force_terminal=watched, width=width, highlight=False)
    console.print(*parts, sep="")
    say(drawn.getvalue())
