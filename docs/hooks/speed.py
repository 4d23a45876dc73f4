"""The tables of the page on speed are made from what the benchmarks recorded.

Where the page says ``<!-- claims: bench_lists -->``, the claims of ``benchmarks/bench_lists.json``
are put in as a table, those that missed their bar among them; ``microseconds``, ``latencies``,
``compilation``, ``worlds`` and ``exponents`` stand for tables of single scripts. What was never
recorded says so.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

PAGE = "speed.md"
MARK = re.compile(r"<!-- (?P<kind>[a-z]+): (?P<script>bench_[a-z_]+) -->")
RECORDS = Path(__file__).resolve().parents[2] / "benchmarks"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by mkdocs with each page's Markdown; returns it with the figures."""
    return filled(markdown) if page.file.src_uri == PAGE else markdown


def filled(markdown: str) -> str:
    """The page with a table, and what it was measured on, in place of each mark."""

    def put(match: re.Match[str]) -> str:
        path = RECORDS / f"{match['script']}.json"
        if not path.is_file():
            return f"*Not measured yet: `python benchmarks/{match['script']}.py`.*"
        found = json.loads(path.read_text(encoding="utf-8"))
        return f"{KINDS[match['kind']](found)}\n\n{circumstances(match['script'], found)}"

    return MARK.sub(put, markdown)


def claims(found: dict[str, Any]) -> str:
    """A row for each claim: the ratio, its quartiles, the bar, and whether it was met."""
    rows = []
    for one in found["claims"]:
        times = one["at_least"] is not None
        low, high = map(figure, one["quartiles"])
        unit = " ×" if times else ""
        rows.append(
            (
                one["work"],
                one["peer"],
                f"{figure(one['ratio'])}{unit} ({low}–{high})",
                duration(one["seconds"][0]),
                duration(one["seconds"][1]),
                bar(one),
            )
        )
    head = ("work", "peer", "of the peer's time, or × faster", "topperk", "peer", "bar")
    return table(head, rows)


def bar(one: dict[str, Any]) -> str:
    """What was to be reached, and by how much it was missed."""
    if one["met"] is None:
        return ""
    at_least = one["at_least"] is not None
    wanted = one["at_least"] if at_least else one["at_most"]
    words = f"{'≥' if at_least else '≤'} {wanted:g}"
    if one["met"]:
        return f"{words}: met"
    short = wanted / one["ratio"] if at_least else one["ratio"] / wanted
    return f"{words}: **missed** by a factor of {short:.2f}"


def microseconds(found: dict[str, Any]) -> str:
    """Microseconds per user of each rival, a column for each catalogue."""
    catalogues = found["catalogues"]
    names = next(iter(catalogues.values()))["microseconds_per_user"]
    rows = [
        (name, *(f"{one['microseconds_per_user'][name]:.1f}" for one in catalogues.values()))
        for name in names
    ]
    return table(("µs per user", *catalogues), rows)


def latencies(found: dict[str, Any]) -> str:
    """The median and the slowest hundredth of single calls, a row for each kind of call."""
    rows = []
    for name, one in found["latencies"].items():
        verdict = "met" if one["met"] else "**missed**"
        bar = f"≤ {one['at_most']:g}: {verdict}"
        rows.append((name, figure(one["median"]), figure(one["p99"]), bar))
    return table(("ids are", "median, µs", "99 of 100 calls within, µs", "bar of the median"), rows)


def worlds(found: dict[str, Any]) -> str:
    """Seconds of each stage and the peak of memory, a column for each world."""
    columns = found["worlds"]
    every = columns.values()
    rows = [("users × items", *(f"{one['users']:,} × {one['items']:,}" for one in every))]
    rows.append(("interactions", *(f"{one['interactions']:,}" for one in every)))
    for stage in next(iter(every))["seconds"]:
        rows.append((stage, *(f"{one['seconds'][stage]:.0f} s" for one in every)))
        if stage == "fit":
            within = dict.fromkeys(name for one in every for name in one["seconds_within_fit"])
            for name in within:
                shares = (
                    f"{one['seconds_within_fit'].get(name, 0.0) / one['seconds']['fit']:.0%}"
                    for one in every
                )
                rows.append((f"– {name}", *shares))
    judged = {
        "fit, sizes and lists": ("seconds", "seconds_in_all", 1.0, "s"),
        "peak memory": ("bytes", "peak_bytes", 1e9, "GB"),
    }
    for name, (what, key, unit, word) in judged.items():
        cells = []
        for one in every:
            verdict = "met" if one["met"][what] else "**missed**"
            wanted = one["bars"][what] / unit
            cells.append(f"{one[key] / unit:.3g} {word} (≤ {wanted:g} {word}: {verdict})")
        rows.append((f"**{name}**", *cells))
    return table(("", *columns), rows)


def compilation(found: dict[str, Any]) -> str:
    """Seconds of ``topperk warmup``, and those of them that are compilation."""
    rows = []
    for name, seconds in found["seconds"].items():
        middle = f"{statistics.median(seconds):.1f} s ({min(seconds):.1f}–{max(seconds):.1f})"
        verdict = ""
        if name == "compiling":
            verdict = f"≤ {found['bar']:g} s: {'met' if found['met'] else '**missed**'}"
        rows.append((NAMES_OF_COMPILATION[name], middle, verdict))
    return table(("", "seconds", "bar"), rows)


def exponents(found: dict[str, Any]) -> str:
    """The fitted exponents."""
    rows = [
        (
            quantity,
            f"{grown['at'][0]:,} to {grown['at'][-1]:,}",
            *(
                f"{grown[work][what]['exponent']:.2f}".replace("-0.00", "0.00")
                for work in ("fit", "sizes")
                for what in ("seconds", "bytes")
            ),
        )
        for quantity, grown in found["growth"].items()
    ]
    head = ("", "from, to", "fit: time", "fit: memory", "sizes: time", "sizes: memory")
    return table(head, rows)


def circumstances(script: str, found: dict[str, Any]) -> str:
    """When, on what, with which versions."""
    where = found["circumstances"]
    versions = ", ".join(f"{name} {version}" for name, version in where["versions"].items())
    machine = where["machine"]
    return (
        f"*`benchmarks/{script}.py`, {where['date']}; {machine['processor']}, "
        f"{machine['cores']} processors; {versions}.*"
    )


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    head = tuple(head)
    written = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in written)


def figure(value: float) -> str:
    """Two decimals for small figures, none for large ones."""
    return f"{value:,.2f}" if value < 10 else f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def duration(seconds: float) -> str:
    """Microseconds, milliseconds or seconds."""
    for unit, size in (("µs", 1e-6), ("ms", 1e-3)):
        if seconds < 1000 * size:
            return f"{figure(seconds / size)} {unit}"
    return f"{figure(seconds)} s"


NAMES_OF_COMPILATION = {
    "empty cache": "`topperk warmup`, nothing compiled before",
    "full cache": "the same, all compiled before",
    "compiling": "the difference, which is compilation",
}
KINDS: dict[str, Callable[[dict[str, Any]], str]] = {
    "claims": claims,
    "microseconds": microseconds,
    "latencies": latencies,
    "worlds": worlds,
    "exponents": exponents,
    "compilation": compilation,
}
