"""The reliability diagram: how often things happened, by how likely they were said to be."""

from __future__ import annotations

import math

from topperk.edges.canvas import Canvas, dot, empty, grid_rows, x_title
from topperk.edges.report_content import ReliabilityCurve
from topperk.edges.svg import (
    Scale,
    element,
    fmt,
    log_ticks,
    nice_ticks,
    number,
    percent,
    polyline,
    text,
)

__all__ = ["probability_range", "reliability_chart"]


def probability_range(*curves: ReliabilityCurve) -> tuple[float, float, bool]:
    """The ends that the axes of these curves share, and whether they are logarithmic.

    Logarithmic, from one power of ten to another, as soon as a bin lies below 0.03: on a linear
    axis everything that matters would be one blot in the corner.
    """
    seen = [
        float(value)
        for curve in curves
        for values in (curve.mean_probability, curve.observed_rate)
        for value, count in zip(values, curve.count, strict=True)
        if count > 0 and math.isfinite(value) and value > 0
    ]
    if not seen or min(seen) >= 0.03:
        return 0.0, 1.0, False
    low = max(math.floor(math.log10(min(seen)) + 1e-9), -9)
    high = min(max(math.ceil(math.log10(max(seen)) - 1e-9), low + 1), 0)
    return 10.0 ** min(low, high - 1), 10.0**high, True


def reliability_chart(
    canvas: Canvas,
    curve: ReliabilityCurve,
    class_: str,
    limits: tuple[float, float, bool],
    title: str,
    description: str,
) -> str:
    """Observed rate against mean probability, a point per bin, with what chance alone allows.

    The thin line of a bin is the 95 % Wilson interval of its observed rate. Bins in which nothing
    was observed lie at the lower edge of logarithmic axes, as hollow points.
    """
    low, high, logarithmic = limits
    ticks = log_ticks(low, high) if logarithmic else nice_ticks(low, high, 5)
    x = Scale(low, high, canvas.left, canvas.x_end, logarithmic)
    y = Scale(low, high, canvas.y_end, canvas.top, logarithmic)
    bins = [
        (float(p), float(rate), int(count))
        for p, rate, count in zip(
            curve.mean_probability, curve.observed_rate, curve.count, strict=True
        )
        if count > 0 and math.isfinite(p) and math.isfinite(rate)
    ]
    if not bins:
        return empty(canvas, title, description)
    labels = [percent(tick) for tick in ticks]
    marks = [grid_rows(canvas, y, ticks, labels)]
    every = max(1, math.ceil(48 * len(ticks) / (canvas.x_end - canvas.left)))
    for back, (tick, label) in enumerate(reversed(list(zip(ticks, labels, strict=True)))):
        line = f"M{fmt(x(tick))} {fmt(canvas.top)}V{fmt(canvas.y_end)}"
        marks.append(element("path", d=line, class_="grid"))
        if back % every == 0:
            anchor, shift = ("middle", 0) if back else ("end", 6)
            marks.append(text(x(tick) + shift, canvas.y_end + 19, label, anchor))
    marks.append(polyline([(x(low), y(low)), (x(high), y(high))], "ideal"))
    points: list[str] = []
    path: list[tuple[float, float]] = []
    for p, rate, count in bins:
        at_x, at_y = x(min(max(p, low), high)), y(min(max(rate, low), high))
        below, above = _wilson(rate, count)
        reach = f"M{fmt(at_x)} {fmt(y(max(below, low)))}V{fmt(y(min(above, high)))}"
        marks.append(element("path", d=reach, class_=f"interval {class_}"))
        said = (
            f"said {percent(p)}, happened {percent(rate)} "
            f"({number(count, 0)} pairs; chance allows {percent(below)} to {percent(above)})"
        )
        seen = rate >= low
        hollow = "" if seen else " hollow"
        points.append(dot(at_x, at_y, 4.5, f"point {class_}{hollow}", said))
        path.append((at_x, at_y if seen else math.nan))
    marks.append(polyline(path, f"line thin {class_}"))
    marks.append(x_title(canvas, "what the probability said"))
    return canvas.drawing(title, description, *marks, *points)


def _wilson(rate: float, count: int) -> tuple[float, float]:
    """The 95 % interval of Wilson: good for tiny rates, and never outside 0 to 1."""
    z2 = 1.959964**2
    middle = (rate + z2 / (2 * count)) / (1 + z2 / count)
    half = math.sqrt(rate * (1 - rate) / count + z2 / (4 * count**2)) * math.sqrt(z2)
    half /= 1 + z2 / count
    return max(middle - half, 0.0), min(middle + half, 1.0)
