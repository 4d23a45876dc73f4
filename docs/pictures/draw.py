"""The drawings of the documents, as SVG that takes its colours from the page.

    python docs/pictures/draw.py

writes ``curves.svg``, ``lengths.svg``, ``fixed.svg`` and ``growth.svg`` beside this file; a test
holds that they are what this script makes. ``docs/hooks/pictures.py`` puts them into the page as
elements of its own. ``fixed.svg`` draws what experiments/core/result.json holds, ``growth.svg``
what benchmarks/bench_growth.json holds.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np

import topperk as tp
from topperk.datasets.simulated import simulate_world
from topperk.edges.svg import (
    Scale,
    element,
    fmt,
    log_ticks,
    nice_ticks,
    number,
    polyline,
    text,
    tick_labels,
)

HERE = Path(__file__).resolve().parent
MEASURED = HERE.parents[1] / "experiments" / "core" / "result.json"
GROWTH = HERE.parents[1] / "benchmarks" / "bench_growth.json"
LOWEST_SHOWN = -3.0
MAX_K = 50
COLUMNS, WIDTH, HEIGHT, GAP = 2, 300.0, 150.0, 44.0
LEFT, TOP = 40.0, 30.0
# One user for whom a few items stand out, and one whom many items please about equally.
FEW = np.concatenate([[0.9, 0.8, 0.6, 0.4, 0.2], 0.15 / np.arange(1.0, 196.0)])
MANY = np.concatenate([np.linspace(0.30, 0.20, 40), 0.2 * 0.97 ** np.arange(160.0)])
STYLE = (
    ".tk-picture{color:#333;--tk-few:#1d5fbf;--tk-many:#b4540a;font:12px system-ui,sans-serif}"
    "@media(prefers-color-scheme:dark)"
    "{.tk-picture{color:#ddd;--tk-few:#7fb0ff;--tk-many:#ffab5e}}"
    ".tk-picture text{fill:currentColor}"
    ".tk-picture .tk-title{font-weight:600}"
    ".tk-picture .tk-axis{stroke:currentColor;stroke-opacity:.25}"
    ".tk-picture .few{stroke:var(--tk-few);fill:none;stroke-width:2}"
    ".tk-picture .many{stroke:var(--tk-many);fill:none;stroke-width:2;stroke-dasharray:6 3}"
    ".tk-picture .oracle{stroke:currentColor;stroke-opacity:.7;fill:none;stroke-width:1.5;"
    "stroke-dasharray:2 3}"
    ".tk-picture .few-dot{fill:var(--tk-few)}"
    ".tk-picture .many-dot{fill:var(--tk-many)}"
    ".tk-picture .bar{fill:var(--tk-few)}"
)


def page(parts: list[str], rows: int, about: str) -> str:
    """Panels in two columns, under one style."""
    width = LEFT + COLUMNS * WIDTH + (COLUMNS - 1) * GAP + 10.0
    height = TOP + rows * (HEIGHT + GAP + TOP) - 10.0
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="tk-picture" role="img" '
        f'aria-label="{about}" viewBox="0 0 {fmt(width)} {fmt(height)}">'
        f"<style>{STYLE}</style>{''.join(parts)}</svg>\n"
    )


def place_of(index: int) -> tuple[float, float]:
    """The upper left corner of a panel."""
    row, column = divmod(index, COLUMNS)
    return LEFT + column * (WIDTH + GAP), TOP + 26.0 + row * (HEIGHT + GAP + TOP)


def panel(index: int, title: str, low: float, high: float) -> tuple[list[str], Scale, Scale]:
    """Title, axes and their numbers."""
    left, top = place_of(index)
    ticks = nice_ticks(low, high, 4)
    y = Scale(ticks[0], ticks[-1], top + HEIGHT, top)
    x = Scale(0.0, float(MAX_K), left, left + WIDTH)
    parts = [text(left, top - 10.0, title, class_="tk-title")]
    for tick, label in zip(ticks, tick_labels(ticks), strict=True):
        parts.append(line(left, y(tick), left + WIDTH, y(tick)))
        parts.append(text(left - 6.0, y(tick) + 4.0, label, "end"))
    for tick in (0, 10, 20, 30, 40, 50):
        parts.append(text(x(tick), top + HEIGHT + 16.0, str(tick), "middle"))
    parts.append(text(left + WIDTH, top + HEIGHT + 32.0, "list length k", "end"))
    return parts, x, y


def line(x1: float, y1: float, x2: float, y2: float) -> str:
    """A thin line of the grid."""
    return element("line", x1=x1, y1=y1, x2=x2, y2=y2, class_="tk-axis")


def curves() -> str:
    """Expected utility of every length, for the two users, under six utilities."""
    utilities = [tp.NDCG(), tp.TP(), tp.F1(), tp.Recall(), tp.PDCG(), tp.NetGain(1.0, 0.25)]
    parts = [
        line(LEFT, 14.0, LEFT, 14.0),
        element("path", d=f"M{fmt(LEFT)} 14h26", class_="few"),
        text(LEFT + 32.0, 18.0, "a few items stand out"),
        element("path", d=f"M{fmt(LEFT + 190.0)} 14h26", class_="many"),
        text(LEFT + 222.0, 18.0, "many items are about equally likely"),
    ]
    for index, utility in enumerate(utilities):
        values = {
            "few": utility.expected(np.sort(FEW)[::-1], MAX_K),
            "many": utility.expected(np.sort(MANY)[::-1], MAX_K),
        }
        low = max(min(float(v[1:].min()) for v in values.values()), LOWEST_SHOWN)
        low, high = min(low, 0.0), max(float(v.max()) for v in values.values())
        drawn, x, y = panel(index, f"expected {utility.name}", low, high)
        for name, curve in values.items():
            ks = [k for k in range(1, MAX_K + 1) if curve[k] >= y.low]
            drawn.append(polyline([(x(k), y(float(curve[k]))) for k in ks], name))
            best = 1 + int(np.argmax(curve[1:] > curve[1:].max() - 1e-9))
            drawn.append(
                element("circle", cx=x(best), cy=y(float(curve[best])), r=4, class_=f"{name}-dot")
            )
        parts += drawn
    about = "Expected utility against list length for two users under six utilities"
    return page(parts, 3, about)


def lengths() -> str:
    """Who gets which length, in a simulated world."""
    world = simulate_world(n_users=600, n_items=1000, seed=7)
    # In float64, so that no matrix product's rounding decides between two lengths.
    scores = tp.Factors(
        world.user_vectors.astype(np.float64),
        world.item_vectors.astype(np.float64),
        world.ids,
        world.user_biases.astype(np.float64),
        world.item_biases.astype(np.float64),
    )
    calibration = tp.UserPlatt(prior="population").fit(scores, world.split)
    parts = [text(LEFT, 18.0, "share of 600 users who get k items")]
    for index, utility in enumerate((tp.NDCG(), tp.TP(), tp.F1(), tp.PDCG())):
        model = tp.PersonalizedK(utility, max_k=MAX_K, calibrator=calibration)
        k = model.fit(scores, world.split).sizes(scores)["k"].to_numpy()
        share = np.bincount(k, minlength=MAX_K + 1) / k.size
        drawn, x, y = panel(index, utility.name, 0.0, float(share.max()))
        for length in np.flatnonzero(share):
            drawn.append(
                element(
                    "rect",
                    x=x(float(length)) - 2.2,
                    y=y(float(share[length])),
                    width=4.4,
                    height=y(0.0) - y(float(share[length])),
                    class_="bar",
                )
            )
        parts += drawn
    return page(parts, 2, "How many users get which list length under four utilities")


def fixed() -> str:
    """Mean realised utility of every fixed length on CiteULike-a, and what personal ones reach."""
    figures = json.loads(MEASURED.read_text(encoding="utf-8"))["data_sets"]["citeulike"]
    legend = (
        ("many", "the same length for all"),
        ("few", "personal lengths"),
        ("oracle", "the Oracle"),
    )
    parts = []
    for index, (name, words) in enumerate(legend):
        left = LEFT + 230.0 * index
        parts.append(element("path", d=f"M{fmt(left)} 14h26", class_=name))
        parts.append(text(left + 32.0, 18.0, words))
    for index, (utility, means) in enumerate(figures["over_seeds"].items()):
        of_seeds = [run["fixed_curves"][utility][: MAX_K + 1] for run in figures["runs"]]
        curve = np.mean(of_seeds, axis=0)
        personal, oracle = means["personal"]["mean"], means["Oracle"]["mean"]
        low = min(max(float(curve[1:].min()), LOWEST_SHOWN), 0.0)
        drawn, x, y = panel(index, utility, low, max(oracle, 0.0))
        ks = [k for k in range(1, MAX_K + 1) if curve[k] >= y.low]
        drawn.append(polyline([(x(k), y(float(curve[k]))) for k in ks], "many"))
        for level, class_ in ((personal, "few"), (oracle, "oracle")):
            line_of = f"M{fmt(x(0))} {fmt(y(level))}H{fmt(x(MAX_K))}"
            drawn.append(element("path", d=line_of, class_=class_))
        parts += drawn
    about = "Mean utility of every fixed list length, of personal lengths, and of the Oracle"
    return page(parts, 2, about)


def growth() -> str:
    """Time and memory of fitting and of choosing lengths against five quantities, on log axes."""
    measured = json.loads(GROWTH.read_text(encoding="utf-8"))
    parts = []
    for index, (name, words) in enumerate((("few", "fit"), ("many", "sizes"))):
        left = LEFT + 100.0 * index
        parts.append(element("path", d=f"M{fmt(left)} 14h26", class_=name))
        parts.append(text(left + 32.0, 18.0, words))
    index = 0
    for quantity, found in measured["growth"].items():
        for what, unit, scale in (("seconds", "ms", 1e3), ("bytes", "MB", 1e-6)):
            lines = {
                class_: [scale * value for value in found[work][what]["values"]]
                for class_, work in (("few", "fit"), ("many", "sizes"))
            }
            slopes = ", ".join(
                f"{work} {number(found[work][what]['exponent'], 2)}" for work in ("fit", "sizes")
            )
            title = f"{unit} by {WORDS[quantity]}"
            parts += on_log_axes(index, title, f"exponents: {slopes}", found["at"], lines)
            index += 1
    about = "Time and memory against users, items, factors, longest list and mean count"
    return page(parts, index // COLUMNS, about)


WORDS = {
    "users": "users",
    "items": "items",
    "factors": "factors",
    "max_k": "longest list",
    "mean": "relevant items expected",
}


def on_log_axes(
    index: int, title: str, below: str, at: list[int], lines: dict[str, list[float]]
) -> list[str]:
    """A panel whose axes are both logarithmic, with a dot for each measurement."""
    left, top = place_of(index)
    values = [value for line_of in lines.values() for value in line_of]
    low = 10.0 ** math.floor(math.log10(min(values)))
    high = 10.0 ** max(math.ceil(math.log10(max(values))), round(math.log10(low)) + 1)
    x = Scale(at[0], at[-1], left, left + WIDTH, logarithmic=True)
    y = Scale(low, high, top + HEIGHT, top, logarithmic=True)
    parts = [text(left, top - 10.0, title, class_="tk-title")]
    for tick in log_ticks(low, high):
        parts.append(line(left, y(tick), left + WIDTH, y(tick)))
        parts.append(text(left - 6.0, y(tick) + 4.0, f"{tick:,g}", "end"))
    for n in at[::2]:
        # a label of the last point would reach beyond the panel, and the picture
        anchor = "end" if n == at[-1] else "middle"
        parts.append(text(x(n), top + HEIGHT + 16.0, f"{n:,}", anchor))
    parts.append(text(left + WIDTH, top + HEIGHT + 32.0, below, "end"))
    for class_, heights in lines.items():
        points = [(x(n), y(value)) for n, value in zip(at, heights, strict=True)]
        parts.append(polyline(points, class_))
        parts += [element("circle", cx=a, cy=b, r=3, class_=f"{class_}-dot") for a, b in points]
    return parts


PICTURES = {
    "curves.svg": curves,
    "lengths.svg": lengths,
    "fixed.svg": fixed,
    "growth.svg": growth,
}

if __name__ == "__main__":
    for name, drawing in PICTURES.items():
        (HERE / name).write_text(drawing(), encoding="utf-8")
