"""The picture of one user: the expected curve, the cut at k, and the items beneath."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from topperk._kernels.arrays import FloatArray
from topperk.edges.canvas import (
    Canvas,
    dot,
    grid_rows,
    hover_column,
    length_ticks,
    rect,
    span,
    value_scale,
)
from topperk.edges.report_content import ItemExample, UserExample
from topperk.edges.svg import Scale, element, fmt, number, percent, polyline, text, tick_labels

__all__ = ["user_chart"]


def user_chart(canvas: Canvas, user: UserExample, title: str, description: str) -> str:
    """The curve of one user with its cut at k, over a strip of the items' probabilities.

    Item r fills the strip from r - 1 to r, so that the cut at k parts the shown from the rest.
    """
    curve_end, strip_top, strip_end = canvas.top + 136, canvas.top + 164, canvas.y_end - 14
    plot = replace(canvas, bottom=canvas.height - curve_end)
    length = max(user.max_k, 1)
    x = Scale(0, length, canvas.left, canvas.x_end)
    cut = x(user.k)
    shown = rect(canvas.left, canvas.top, cut - canvas.left, strip_end - canvas.top, "shown")
    marks = [shown if user.k else ""]
    curves = [
        (values, class_)
        for values, class_ in (
            (user.true_curve, "band"),
            (user.realised_curve, "line realised"),
            (user.expected_curve, "line personal"),
        )
        if values is not None
    ]
    known = [v for values, _ in curves for v in values.tolist() if math.isfinite(v)]
    if known:
        y, ticks = value_scale(known, curve_end, canvas.top, n=3)
        marks.append(grid_rows(plot, y, ticks, tick_labels(ticks)))
        for values, class_ in curves:
            marks.append(polyline([(x(k), y(float(v))) for k, v in enumerate(values)], class_))
    else:
        marks.append(
            text((canvas.left + canvas.x_end) / 2, canvas.top + 70, "not measured", "middle")
        )
    marks.append(_strip(canvas, x, user.items, user.k, length, strip_top, strip_end))
    line = f"M{fmt(cut)} {fmt(canvas.top - 4)}V{fmt(strip_end)}"
    marks.append(element("path", d=line, class_="cut"))
    value = float(user.expected_curve[user.k])
    if known and math.isfinite(value):
        marks.append(dot(cut, y(value), 4.5, "point personal"))
    anchor = "start" if cut < canvas.left + 34 else "end" if cut > canvas.x_end - 34 else "middle"
    marks.append(text(cut, canvas.top - 10, f"k = {user.k}", anchor, "label personal"))
    strip = replace(canvas, bottom=canvas.height - strip_end)
    marks.append(length_ticks(strip, x, 0, length, None, below=30))
    said = {item.rank: item for item in user.items}
    slot = x(1) - x(0)
    for k in range(1, length + 1):
        words = f"{span(k, k)}: expected {number(_at(user.expected_curve, k))}"
        if k in said:
            hit = {None: "", True: ", relevant", False: ", not relevant"}[said[k].relevant]
            words += f"; item {k} {percent(said[k].probability)}{hit}"
        marks.append(
            hover_column(replace(canvas, bottom=canvas.height - strip_end), x(k - 1), slot, words)
        )
    return canvas.drawing(title, description, *marks)


def _strip(
    canvas: Canvas,
    x: Scale,
    items: Sequence[ItemExample],
    k: int,
    length: int,
    top: float,
    end: float,
) -> str:
    """Bars of the items' probabilities, full up to k and pale beyond, hits as dots beneath."""
    inside = [item for item in items if item.rank <= length and math.isfinite(item.probability)]
    highest = max((item.probability for item in inside), default=0.0)
    marks = [
        element("path", d=f"M{fmt(canvas.left)} {fmt(end)}H{fmt(canvas.x_end)}", class_="axis")
    ]
    if highest > 0:
        y = Scale(0, highest, end, top)
        marks.append(text(canvas.left - 7, top + 8, percent(highest), "end"))
        slot = x(1) - x(0)
        gap = min(1.5, slot / 4)
        for item in inside:
            height = max(end - y(item.probability), 0.75)
            class_ = "bar" if item.rank <= k else "bar rest"
            left = x(item.rank - 1) + gap / 2
            marks.append(rect(left, end - height, slot - gap, height, class_))
    for item in items:
        if item.relevant and item.rank <= length:
            class_ = "hit" if item.rank <= k else "hit missed"
            marks.append(
                dot(x(item.rank - 0.5), end + 8, min(3.0, max(1.5, (x(1) - x(0)) * 0.42)), class_)
            )
    return "".join(marks)


def _at(values: FloatArray, k: int) -> float:
    return float(values[k]) if k < len(values) else math.nan
