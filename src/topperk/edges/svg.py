"""The few SVG words that the charts are written in: elements, scales, ticks, numbers as text.

Everything is text: a chart is a string that stands in the page as it is. Colours and type come
from the page's style sheet through class names, so that one drawing serves light, dark and print.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

__all__ = [
    "Scale",
    "element",
    "fmt",
    "log_ticks",
    "nice_ticks",
    "number",
    "percent",
    "polyline",
    "readable",
    "safe",
    "spread",
    "text",
    "tick_labels",
]

_MINUS = "\N{MINUS SIGN}"
_THIN = "\N{NARROW NO-BREAK SPACE}"
_NOTHING = "\N{EN DASH}"
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def readable(value: object) -> str:
    """The text of a label without the characters that HTML forbids (controls, lone surrogates)."""
    return _FORBIDDEN.sub(_REPLACEMENT, str(value))


def safe(value: object) -> str:
    """Any label as HTML text or attribute value: ids may hold <, &, quotes or control codes."""
    return escape(readable(value), quote=True)


def fmt(coordinate: float) -> str:
    """A coordinate with one decimal, as short as it can be."""
    written = f"{coordinate:.1f}"
    return "0" if written == "-0.0" else written.removesuffix(".0")


def number(value: float, decimals: int | None = None) -> str:
    """A value for people: a real minus sign, four decimals when small, a dash when unmeasured."""
    if not math.isfinite(value):
        return _NOTHING
    if decimals is None and value == 0:
        return "0"
    if decimals is None:
        size = abs(value)
        decimals = 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 10 else 4
    written = f"{abs(value):,.{decimals}f}"
    negative = value < 0 and any(digit in written for digit in "123456789")
    return (_MINUS if negative else "") + written


def percent(share: float) -> str:
    """A share with two significant digits and a sign only when negative: 0.0871 is ``8.7 %``."""
    if not math.isfinite(share):
        return _NOTHING
    size = abs(share) * 100
    if size == 0:
        written = "0"
    elif size >= 9.95:
        written = f"{size:,.0f}"
    elif size >= 0.095:
        written = f"{size:.1f}".removesuffix(".0")
    else:
        digits = min(8, 1 - math.floor(math.log10(size)))
        written = f"{size:.{digits}f}".rstrip("0").rstrip(".") or "0"
    return f"{_MINUS if share < 0 and written != '0' else ''}{written}{_THIN}%"


def element(name: str, /, *children: str, **attributes: object) -> str:
    """``<name attributes>children</name>``; underscores become hyphens, ``class_`` is class."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="'
        f'{fmt(value) if isinstance(value, float) else safe(value)}"'
        for key, value in attributes.items()
    )
    inside = "".join(children)
    return f"<{name}{written}>{inside}</{name}>"


def text(x: float, y: float, words: str, anchor: str = "start", class_: str = "tick") -> str:
    """One line of text; ``y`` is its baseline."""
    return element(
        "text",
        safe(words),
        x=float(x),
        y=float(y),
        text_anchor=anchor,
        class_=class_,
    )


@dataclass(frozen=True)
class Scale:
    """Values from ``low`` to ``high`` onto coordinates from ``start`` to ``end``.

    A scale whose two values coincide puts everything in the middle. Values beyond the ends are
    not clipped; on a logarithmic scale ``low`` and ``high`` must be positive.
    """

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, value: float) -> float:
        """The coordinate of a value."""
        low, high = self.low, self.high
        if self.logarithmic:
            low, high, value = math.log10(low), math.log10(high), math.log10(value)
        if high == low:
            return (self.start + self.end) / 2
        return self.start + (value - low) / (high - low) * (self.end - self.start)


def nice_ticks(low: float, high: float, n: int) -> list[float]:
    """About ``n`` round values (1, 2 or 5 times a power of ten) that cover low to high."""
    if not high > low:
        reach = abs(low) / 2 or 0.5
        low, high = low - reach, high + reach
    rough = (high - low) / max(n, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= rough * 0.75)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [index * step for index in range(first, last + 1)]


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """The ticks with as many decimals as their step needs."""
    step = min((b - a for a, b in pairwise(ticks)), default=1.0)
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    return [number(tick, decimals) for tick in ticks]


def log_ticks(low: float, high: float) -> list[float]:
    """The powers of ten from low to high, both of which are powers of ten."""
    first, last = round(math.log10(low)), round(math.log10(high))
    return [10.0**power for power in range(first, last + 1)]


def polyline(points: Iterable[tuple[float, float]], class_: str) -> str:
    """A line through the points; a point that is not finite interrupts it.

    The empty step after each start makes a single point visible, as a dot of the line's width.
    """
    pieces: list[str] = []
    pen_up = True
    for x, y in points:
        if math.isfinite(x) and math.isfinite(y):
            pieces.append(f"M{fmt(x)} {fmt(y)}h0" if pen_up else f"L{fmt(x)} {fmt(y)}")
            pen_up = False
        else:
            pen_up = True
    return element("path", d="".join(pieces), class_=class_) if pieces else ""


def spread(wanted: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Positions as near as they can be to the wanted ones, in order, ``gap`` apart, within reach.

    Labels that would overlap form a cluster around the middle of what they want; clusters that
    touch become one. Where there is no room for all, they stand evenly from low to high.
    """
    order = sorted(range(len(wanted)), key=lambda index: (wanted[index], index))
    if len(order) > 1 and gap * (len(order) - 1) > high - low:
        gap = (high - low) / (len(order) - 1)
    clusters: list[list[int]] = []
    starts: list[float] = []
    for index in order:
        clusters.append([index])
        starts.append(min(max(wanted[index], low), high))
        while len(clusters) > 1 and starts[-1] < starts[-2] + gap * len(clusters[-2]):
            last = clusters.pop()
            starts.pop()
            members = clusters[-1]
            members += last
            middle = sum(wanted[member] for member in members) / len(members)
            length = gap * (len(members) - 1)
            starts[-1] = min(max(middle - length / 2, low), high - length)
    placed = [0.0] * len(wanted)
    for members, start in zip(clusters, starts, strict=True):
        for position, member in enumerate(members):
            placed[member] = start + gap * position
    return placed
