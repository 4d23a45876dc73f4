"""The page of the command line is made from the program itself, each time the pages are built.

Where the page says ``<!-- verbs -->``, a section for every verb is put in: what it does, its
examples, its arguments and its options. The options of reading interactions, which three verbs
share, stand once, in place of ``<!-- options of reading -->``.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterable, Iterator
from typing import Any, Literal, Union, get_args, get_origin

from cyclopts import App, Argument

from topperk.edges.cli import app

PAGE = "command-line.md"
VERBS, READING = "<!-- verbs -->", "<!-- options of reading -->"
POINTER = "Besides, the [options of reading](#options-of-reading)."
# In the order of use; what is not named here follows.
ORDER = ("demo", "split", "fit", "recommend", "evaluate", "curve", "datasets")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by mkdocs with each page's Markdown; returns it with the program's own help."""
    if page.file.src_uri != PAGE:
        return markdown
    names = sorted(verbs_of(app), key=[*ORDER, *verbs_of(app)].index)
    verbs = "\n\n".join(section(app[name], ("topperk", name), 2) for name in names)
    shared = [found for found in arguments_of(app["split"]) if found.keys]
    return markdown.replace(VERBS, verbs).replace(READING, table(shared))


def verbs_of(program: App) -> list[str]:
    """The names of a program's verbs; what begins with a dash is no verb."""
    return [name for name in program if not name.startswith("-")]


def arguments_of(program: App) -> list[Argument]:
    """What a verb takes; a group of options is taken apart."""
    return [found for found in program.assemble_argument_collection() if not found.children]


def section(program: App, words: tuple[str, ...], level: int) -> str:
    """A heading, the verb's own text, and its arguments and options."""
    parts = [f"{'#' * level} {' '.join(words)}", inspect.cleandoc(program.help)]
    inner = verbs_of(program)
    if inner:
        parts += [section(program[name], (*words, name), level + 1) for name in inner]
        return "\n\n".join(parts)
    found = arguments_of(program)
    parts.append(table(one for one in found if not one.keys))
    if any(one.keys for one in found):
        parts.append(POINTER)
    return "\n\n".join(parts)


def table(arguments: Iterable[Argument]) -> str:
    """A row for each argument or option: how it is written, and what it means."""
    rows = [f"| {written(found)} | {told(found)} |" for found in arguments]
    return "\n".join(["| | |", "| --- | --- |", *rows])


def written(found: Argument) -> str:
    """`MODEL` for an argument, `--max-k INT` for an option."""
    if found.required:
        return f"`{found.name.lstrip('-').upper()}`"
    value = " ".join(kinds(found.hint))
    return ", ".join(f"`{name} {value}`" if value else f"`{name}`" for name in found.names)


def kinds(hint: Any) -> Iterator[str]:
    """The sort of value that an option takes, as `--help` calls it; nothing for a switch."""
    origin = get_origin(hint)
    if origin in (Union, types.UnionType, list):
        for inner in get_args(hint):
            yield from kinds(inner)
    elif origin is Literal:
        yield "CHOICE"
    elif hint not in (bool, type(None)):
        yield hint.__name__.upper()


def told(found: Argument) -> str:
    """The meaning, the words to choose from, and what holds if the option is left out."""
    parts = [found.parameter.help or ""]
    if choices := found.get_choices():
        parts.append(f"One of {', '.join(f'`{word}`' for word in choices)}.")
    default = found.field_info.default
    if found.show_default and default is not False:
        parts.append(f"Default: `{default}`.")
    return " ".join(filter(None, parts)).replace("|", "\\|")
