"""The pictures over list lengths, each a pure function from arrays to an SVG string.

Values that are not finite are left out; a picture with nothing to draw says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from topperk._kernels.arrays import FloatArray, OffsetArray
from topperk.edges.canvas import (
    Canvas,
    base_line,
    dot,
    empty,
    grid_rows,
    hover_column,
    length_ticks,
    rect,
    span,
    value_scale,
    x_title,
)
from topperk.edges.svg import (
    Scale,
    element,
    fmt,
    nice_ticks,
    number,
    percent,
    polyline,
    spread,
    text,
    tick_labels,
)

__all__ = ["fixed_chart", "lengths_chart", "truth_chart"]

_BARS_AT_MOST = 60


def lengths_chart(
    canvas: Canvas,
    personal: OffsetArray,
    oracle: OffsetArray,
    first_k: int,
    title: str,
    description: str,
) -> str:
    """The share of users who get each length: bars for personal lists, an outline for the Oracle.

    Beyond 60 lengths neighbours share a bar, in steps of 2, 5 or 10 (times a power of ten).
    """
    canvas = replace(canvas, right=12)
    edges = _bins(first_k, len(personal) - 1)
    shares = [(_share(personal, low, high), _share(oracle, low, high)) for low, high in edges]
    top = max((share for pair in shares for share in pair), default=0.0)
    if top <= 0:
        return empty(canvas, title, description)
    ticks = nice_ticks(0, top, 4)
    y = Scale(0, ticks[-1], canvas.y_end, canvas.top)
    x = Scale(0, len(edges), canvas.left, canvas.x_end)
    slot = x(1) - x(0)
    gap = 1.5 if slot > 5 else 0.5
    if len(edges) < 6:
        gap = slot * 0.25
    marks = [grid_rows(canvas, y, ticks, [percent(tick) for tick in ticks])]
    hits, outline = [], [f"M{fmt(x(0))} {fmt(y(0))}"]
    for index, ((low, high), (mine, ideal)) in enumerate(zip(edges, shares, strict=True)):
        left = x(index)
        if mine > 0:
            height = max(y(0) - y(mine), 0.75)
            marks.append(rect(left + gap / 2, y(0) - height, slot - gap, height, "bar"))
        outline.append(f"V{fmt(y(ideal))}H{fmt(x(index + 1))}")
        said = f"{span(low, high)}: personal {percent(mine)}, Oracle {percent(ideal)}"
        hits.append(hover_column(canvas, left, slot, said))
    outline.append(f"V{fmt(y(0))}")
    marks.append(element("path", d="".join(outline), class_="outline"))
    marks.append(base_line(canvas))
    for index in _labelled(edges, slot):
        words = span(*edges[index]) if slot > 40 else f"{edges[index][0]}"
        marks.append(text(x(index + 0.5), canvas.y_end + 17, words, "middle"))
    marks.append(x_title(canvas, "items in the list"))
    return canvas.drawing(title, description, *marks, *hits)


def fixed_chart(
    canvas: Canvas,
    curve: FloatArray,
    first_k: int,
    best_k: int | None,
    personal: float,
    oracle: float,
    title: str,
    description: str,
) -> str:
    """Mean utility against every fixed length, with personal, Oracle and the best length as levels.

    The three levels are named at the right edge, where their labels are moved apart.
    """
    drawn = curve[first_k:]
    best = float(curve[best_k]) if best_k is not None else math.nan
    known = [v for v in [*drawn.tolist(), personal, oracle] if math.isfinite(v)]
    if not known:
        return empty(canvas, title, description)
    y, ticks = value_scale(known, canvas.y_end, canvas.top)
    x = Scale(first_k, len(curve) - 1, canvas.left + 4, canvas.x_end)
    marks = [grid_rows(canvas, y, ticks, tick_labels(ticks)), base_line(canvas)]
    levels = [
        (name, value, class_)
        for name, value, class_ in (
            ("Oracle", oracle, "oracle"),
            ("personal", personal, "personal"),
            (f"k = {best_k}", best, "fixed"),
        )
        if math.isfinite(value)
    ]
    two_lines = 34.0
    placed = spread(
        [y(value) for _, value, _ in levels], two_lines, canvas.top + 10, canvas.y_end - 12
    )
    best_x = x(best_k) if best_k is not None else canvas.left
    if math.isfinite(best):
        drop = f"M{fmt(best_x)} {fmt(y(best))}V{fmt(canvas.y_end)}"
        marks.append(element("path", d=drop, class_="drop"))
    for (name, value, class_), label_y in zip(levels, placed, strict=True):
        start = best_x if class_ == "fixed" else canvas.left
        level = f"M{fmt(start)} {fmt(y(value))}H{fmt(canvas.x_end)}"
        leader = f"M{fmt(canvas.x_end)} {fmt(y(value))}L{fmt(canvas.x_end + 7)} {fmt(label_y)}"
        marks.append(element("path", d=level, class_=f"level {class_}"))
        marks.append(element("path", d=leader, class_=f"leader {class_}"))
        marks.append(text(canvas.x_end + 11, label_y - 2, name, class_=f"label {class_}"))
        marks.append(text(canvas.x_end + 11, label_y + 12.5, number(value), class_="value"))
    points = [(x(k), y(float(curve[k]))) for k in range(first_k, len(curve))]
    marks.append(polyline(points, "line fixed"))
    if math.isfinite(best):
        marks.append(dot(best_x, y(best), 4.5, "point fixed"))
    marks.append(length_ticks(canvas, x, first_k, len(curve) - 1, best_k))
    marks.append(x_title(canvas, "items in everybody's list"))
    slot = (canvas.x_end - canvas.left) / max(len(drawn), 1)
    hits = []
    for k, (at, _) in zip(range(first_k, len(curve)), points, strict=True):
        said = f"{span(k, k)} for everybody: {number(float(curve[k]))}"
        hits.append(hover_column(canvas, at - slot / 2, slot, said))
    return canvas.drawing(title, description, *marks, *hits)


def truth_chart(
    canvas: Canvas, estimated: FloatArray, true: FloatArray, title: str, description: str
) -> str:
    """Mean expected utility by length: the estimate as a line over a broad band of the truth."""
    canvas = replace(canvas, right=14)
    known = [v for v in [*estimated.tolist(), *true.tolist()] if math.isfinite(v)]
    if not known:
        return empty(canvas, title, description)
    y, ticks = value_scale(known, canvas.y_end, canvas.top)
    x = Scale(0, len(true) - 1, canvas.left + 4, canvas.x_end)
    marks = [
        grid_rows(canvas, y, ticks, tick_labels(ticks)),
        base_line(canvas),
        polyline([(x(k), y(float(v))) for k, v in enumerate(true)], "band"),
        polyline([(x(k), y(float(v))) for k, v in enumerate(estimated)], "line personal"),
        length_ticks(canvas, x, 0, len(true) - 1, None),
        x_title(canvas, "items in the list"),
    ]
    slot = (canvas.x_end - canvas.left) / len(true)
    for k, (guess, fact) in enumerate(zip(estimated, true, strict=True)):
        said = f"{span(k, k)}: estimated {number(float(guess))}, true {number(float(fact))}"
        marks.append(hover_column(canvas, x(k) - slot / 2, slot, said))
    return canvas.drawing(title, description, *marks)


def _bins(first: int, last: int) -> list[tuple[int, int]]:
    """Lengths in bars: one each, or steps of 1, 2, 5, 10 .. with the empty list on its own."""
    n = last - first + 1
    if n <= _BARS_AT_MOST:
        return [(k, k) for k in range(first, last + 1)]
    step = next(m * 10**e for e in range(12) for m in (1, 2, 5) if n <= _BARS_AT_MOST * m * 10**e)
    edges = [(0, 0)] if first == 0 else []
    start = max(first, 1)
    while start <= last:
        end = min((start - 1) // step * step + step, last)
        edges.append((start, end))
        start = end + 1
    return edges


def _labelled(edges: Sequence[tuple[int, int]], slot: float) -> list[int]:
    """Which bars get a label: the first, and round lengths with some 45 units between them."""
    if slot >= 24:
        return list(range(len(edges)))
    every = max(1, math.ceil(45 / slot))
    every = next(m * 10**e for e in range(12) for m in (1, 2, 5) if m * 10**e >= every)
    width = max(high - low + 1 for low, high in edges)
    chosen = [
        index
        for index, (low, high) in enumerate(edges)
        if (low % every == 0 if width == 1 else high % (every * width) == 0)
    ]
    return [index for index in chosen if index * slot > 26 or index == 0] + (
        [] if 0 in chosen else [0]
    )


def _share(counts: OffsetArray, low: int, high: int) -> float:
    total = int(counts.sum())
    return int(counts[low : high + 1].sum()) / total if total else 0.0
