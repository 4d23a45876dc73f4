"""Docstrings become Markdown when the reference is built.

In the source they read as plain text with a few habits of reStructuredText. Markdown would take
an example for a quotation and a table for a paragraph, so these are translated:

- examples (``>>>``) become code;
- tables drawn with ``====`` become tables;
- names with their meaning beside or below them become a list;
- the mark ``::`` before a literal block, and roles such as ``:meth:``, go.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

ROLE = re.compile(r":[a-z]+:(?=`)")
LITERAL = re.compile(r"::$")
BORDER = re.compile(r"=+(?: +=+)+$")
# A name in backticks, perhaps with more of its kind, then two spaces, or the end of the line.
NAMED = re.compile(r"(?P<name>(?:- )?``(?:\S| (?! ))*)(?: {2,}(?P<meaning>.*))?$")


class Docstrings(griffe.Extension):
    """Called by griffe with every object that it has read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Translate the object's own docstring; what Python calls by itself is left out."""
        if obj.name.startswith("__"):
            obj.public = False
        if obj.docstring:
            obj.docstring.value = markdown(obj.docstring.value)


def markdown(text: str) -> str:
    """A docstring as Markdown, paragraph by paragraph."""
    paragraphs = re.split(r"\n{2,}", ROLE.sub("", text))
    return "\n\n".join(filter(None, map(_paragraph, paragraphs)))


def _paragraph(text: str) -> str:
    lines = text.split("\n")
    if lines[0].startswith(">>> "):
        return "\n".join(["```pycon", *lines, "```"])
    if BORDER.match(lines[0]):
        return _table(lines)
    if _is_list(lines):
        return _list(lines)
    if text == "::":
        return ""
    return LITERAL.sub(":", text)


def _table(lines: list[str]) -> str:
    """Three borders enclose a heading, two do not; a row without a first cell continues."""
    starts = [found.start() for found in re.finditer("=+", lines[0])]
    ends = [*starts[1:], None]
    borders = [line for line in lines if BORDER.match(line)]
    rows = [] if len(borders) == 3 else [[""] * len(starts)]
    for line in lines:
        if BORDER.match(line):
            continue
        cells = [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]
        if cells[0]:
            rows.append(cells)
        else:
            rows[-1] = [" ".join(pair).strip() for pair in zip(rows[-1], cells, strict=True)]
    rows.insert(1, ["---"] * len(starts))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def _is_list(lines: list[str]) -> bool:
    first = NAMED.match(lines[0])
    if first is None:
        return False
    return first["meaning"] is not None or (len(lines) > 1 and lines[1].startswith("  "))


def _list(lines: list[str]) -> str:
    """An item per name; what is indented belongs to the item above it."""
    items: list[tuple[str, list[str]]] = []
    for line in lines:
        named = NAMED.match(line)
        if named:
            items.append((named["name"].removeprefix("- "), [named["meaning"] or ""]))
        else:
            items[-1][1].append(line.strip())
    return "\n".join(f"- {name}: {' '.join(filter(None, told))}" for name, told in items)
