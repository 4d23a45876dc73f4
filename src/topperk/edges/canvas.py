"""The paper that the charts are drawn on: sizes, margins, axes, and the simplest marks.

Every picture is drawn for wide and for narrow screens (:data:`WIDE`, :data:`NARROW`) or at one
size that suits both, so that its letters stay readable: one unit of the drawing is about one pixel
on the screen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from topperk.edges.svg import Scale, element, fmt, nice_ticks, safe, text

__all__ = [
    "CARD",
    "NARROW",
    "SQUARE",
    "SQUARE_NARROW",
    "WIDE",
    "Canvas",
    "base_line",
    "dot",
    "empty",
    "grid_rows",
    "hover_column",
    "length_ticks",
    "rect",
    "span",
    "value_scale",
    "x_title",
]


@dataclass(frozen=True)
class Canvas:
    """The size of a drawing and the margins around its plot; ``key`` keeps element ids apart."""

    width: float
    height: float
    left: float
    right: float
    top: float
    bottom: float
    key: str = ""
    class_: str = "chart"

    @property
    def x_end(self) -> float:
        """The right edge of the plot."""
        return self.width - self.right

    @property
    def y_end(self) -> float:
        """The lower edge of the plot."""
        return self.height - self.bottom

    def named(self, key: str) -> Canvas:
        """The same canvas for the picture with this key, which must be unique in the page."""
        return replace(self, key=f"{key}-{self.class_.split()[-1]}")

    def drawing(self, title: str, description: str, *marks: str) -> str:
        """The whole ``<svg>`` with a title and a description for those who do not see it."""
        named, described = f"{self.key}-title", f"{self.key}-desc"
        return element(
            "svg",
            element("title", safe(title), id=named),
            element("desc", safe(description), id=described),
            *marks,
            class_=self.class_,
            viewBox=f"0 0 {fmt(self.width)} {fmt(self.height)}",
            role="img",
            aria_labelledby=f"{named} {described}",
        )


WIDE = Canvas(520, 300, 58, 86, 14, 40, class_="chart wide")
NARROW = Canvas(350, 270, 52, 70, 12, 38, class_="chart narrow")
SQUARE = Canvas(420, 380, 66, 16, 12, 46, class_="chart square wide")
SQUARE_NARROW = Canvas(336, 320, 62, 12, 10, 44, class_="chart square narrow")
CARD = Canvas(340, 300, 48, 12, 24, 30, class_="chart card")


def value_scale(
    known: Sequence[float], start: float, end: float, n: int = 4
) -> tuple[Scale, list[float]]:
    """A scale that holds all values; it begins at zero unless they lie in a narrow band far off."""
    low, high = min(known), max(known)
    reach = max(abs(low), abs(high))
    if high - low > 0.3 * reach or high == low:
        low, high = min(low, 0.0), max(high, 0.0)
    ticks = nice_ticks(low, high, n)
    return Scale(ticks[0], ticks[-1], start, end), ticks


def grid_rows(canvas: Canvas, y: Scale, ticks: Sequence[float], labels: Sequence[str]) -> str:
    """A faint line and a label per tick; zero is stronger where it parts the plot."""
    marks = []
    for tick, label in zip(ticks, labels, strict=True):
        line = f"M{fmt(canvas.left)} {fmt(y(tick))}H{fmt(canvas.x_end)}"
        zero = tick == 0 and y.low < 0 < y.high
        marks.append(element("path", d=line, class_="axis" if zero else "grid"))
        marks.append(text(canvas.left - 7, y(tick) + 4.5, label, "end"))
    return "".join(marks)


def base_line(canvas: Canvas) -> str:
    """The lower edge of the plot."""
    line = f"M{fmt(canvas.left)} {fmt(canvas.y_end)}H{fmt(canvas.x_end)}"
    return element("path", d=line, class_="axis")


def x_title(canvas: Canvas, words: str) -> str:
    """What the horizontal axis counts, beneath it."""
    middle = (canvas.left + canvas.x_end) / 2
    return text(middle, canvas.height - 4, words, "middle", "axis-title")


def length_ticks(
    canvas: Canvas, x: Scale, first: int, last: int, best: int | None, below: float = 17
) -> str:
    """Round lengths along the axis, and the best one in bold, which displaces its neighbours."""
    room = max(2, int((canvas.x_end - canvas.left) / 60))
    wanted = {round(tick) for tick in nice_ticks(first, last, room)}
    kept = [k for k in sorted(wanted) if x(first) + 24 <= x(k) <= x(last) - 24]
    kept = sorted({first, last, *kept})
    if best is not None:
        kept = [k for k in kept if abs(x(k) - x(best)) >= 22]
    marks = [text(x(k), canvas.y_end + below, str(k), "middle") for k in kept]
    if best is not None:
        marks.append(text(x(best), canvas.y_end + below, str(best), "middle", "tick best"))
    return "".join(marks)


def span(low: int, high: int) -> str:
    """``1 item``, ``7 items`` or ``11–20``."""
    if low != high:
        return f"{low}\N{EN DASH}{high}"
    return f"{low} item{'' if low == 1 else 's'}"


def rect(x: float, y: float, width: float, height: float, class_: str, *inside: str) -> str:
    """A rectangle, at least half a unit wide so that it can be seen."""
    return element(
        "rect",
        *inside,
        x=float(x),
        y=float(y),
        width=float(max(width, 0.5)),
        height=float(height),
        class_=class_,
    )


def dot(x: float, y: float, radius: float, class_: str, said: str = "") -> str:
    """A circle, with words of its own for the pointer if there are any."""
    inside = element("title", safe(said)) if said else ""
    return element("circle", inside, cx=float(x), cy=float(y), r=float(radius), class_=class_)


def hover_column(canvas: Canvas, left: float, width: float, said: str) -> str:
    """An invisible column that carries the words shown when the pointer rests on it."""
    height = canvas.y_end - canvas.top
    return rect(left, canvas.top, width, height, "hover", element("title", safe(said)))


def empty(canvas: Canvas, title: str, description: str) -> str:
    """The picture that says there is nothing to show."""
    middle = (canvas.left + canvas.x_end) / 2
    return canvas.drawing(
        title,
        description,
        base_line(canvas),
        text(middle, canvas.height / 2, "nothing was measured", "middle", "axis-title"),
    )
