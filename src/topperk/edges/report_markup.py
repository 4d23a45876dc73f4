"""The small pieces of HTML that the report's page is put together from."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

from topperk.edges.svg import element, safe

__all__ = [
    "cells",
    "details",
    "facts",
    "figure",
    "head_row",
    "isolated",
    "legend",
    "resource",
    "row_head",
    "scroll",
    "section",
    "switch_style",
]


def resource(name: str) -> str:
    """The text of a file that lies beside this module."""
    return files("topperk.edges").joinpath(name).read_text(encoding="utf-8")


def switch_style(n: int) -> str:
    """The rules by which a radio button shows its panel; paper and screen readers get them all."""
    if n < 2:
        return ""
    rules = ["@media screen { .panel { display: none } }"]
    for index in range(n):
        pick = f"#utility-{index}"
        label = f".switch label[for=utility-{index}]"
        rules.append(f"{pick}:checked ~ .panel-{index} {{ display: block }}")
        rules.append(
            f"{pick}:checked ~ {label[:7]}{label[7:]} "
            "{ background: var(--ink); border-color: var(--ink); color: var(--paper) }"
        )
        rules.append(
            f"{pick}:focus-visible ~ {label} "
            "{ outline: 2px solid var(--personal); outline-offset: 2px }"
        )
    return "\n".join(rules)


def section(title: str, lead: str, *parts: str) -> str:
    """A section with its heading and, if there is one, its opening sentence."""
    opening = element("h2", safe(title))
    if lead:
        opening += element("p", safe(lead), class_="lead")
    return element("section", opening, *parts)


def figure(title: str, caption: str, picture: str, legend: str, behind: str) -> str:
    """A picture under its caption and legend, with the table behind it."""
    words = element("h3", isolated(title)) + element("p", safe(caption))
    return element("figure", element("figcaption", words), legend, picture, behind)


_SWATCHES = {
    "bar": '<rect x="5" y="1" width="12" height="10" class="{}"/>',
    "outline": '<path d="M3 11V2H19V11" class="{}"/>',
    "line": '<path d="M1 6H21" class="{}"/>',
    "band": '<path d="M5 6H17" class="{}"/>',
    "hit": '<circle cx="11" cy="6" r="4" class="{}"/>',
}


def legend(*entries: tuple[str, str]) -> str:
    """Swatches with their words; an entry is the class of the mark and what it stands for."""
    items = [
        element(
            "li",
            '<svg viewBox="0 0 22 12" aria-hidden="true">',
            _SWATCHES[class_.split()[0]].format(class_),
            "</svg>",
            safe(words),
        )
        for class_, words in entries
    ]
    return element("ul", *items, class_="legend")


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """Pairs of label and value."""
    written = "".join(
        element("div", element("dt", isolated(label)), element("dd", isolated(value)))
        for label, value in pairs
    )
    return section("How this was made", "", element("dl", written, class_="facts")) if pairs else ""


def details(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    title: str = "Numbers behind this picture",
    words: int | None = None,
) -> str:
    """A table that is folded away; column ``words`` holds text that may wrap."""
    body = [
        element(
            "tr",
            *(
                element("td", isolated(cell), **({"class_": "words"} if index == words else {}))
                for index, cell in enumerate(row)
            ),
        )
        for row in rows
    ]
    table = element("table", element("thead", head_row(head)), element("tbody", *body))
    long = " long" if len(rows) > 12 else ""
    return element("details", element("summary", title), scroll(title, table, long))


def scroll(label: str, table: str, extra: str = "") -> str:
    """A table that scrolls by itself where it does not fit, so that the page never does."""
    return element(
        "div", table, class_=f"scroll{extra}", role="region", aria_label=label, tabindex="0"
    )


def head_row(names: Sequence[str]) -> str:
    """The row that names the columns."""
    return element("tr", *(element("th", isolated(name), scope="col") for name in names))


def cells(values: Sequence[str]) -> list[str]:
    """Cells of numbers."""
    return [element("td", safe(cell)) for cell in values]


def row_head(words: str) -> str:
    """The cell that names its row."""
    return element("th", isolated(words), scope="row")


def isolated(words: str) -> str:
    """Words whose direction (right-to-left names) can not upset what stands around them."""
    return element("bdi", safe(words))
