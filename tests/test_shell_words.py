"""Errors on the command line: every cure in words that can be typed there."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import topperk
from topperk.edges.cli import app
from topperk.edges.shell_words import in_shell_words

PACKAGE = Path(topperk.__file__).parent
# Said only to somebody who calls a function that no verb of the command line calls so.
NEVER_ON_THE_COMMAND_LINE = {
    "Pass utility=, such as utility=F1().",
    "validation_from=? is not before test_from=?.",
    "Give a list of ids: users=[?].",
    "Make them with tp.Ids.of(users=..., items=...).",
    "Give data.ids, or make them: tp.Ids.of(users=..., items=...).",
}
IN_PYTHON = re.compile(r"\b[a-z_]+=")


def text_of(node: ast.expr) -> str:
    """A string as it is written, with ``?`` for each value put in (and a column's role)."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    assert isinstance(node, ast.JoinedStr)
    known = {"role": "user_id"}
    return "".join(
        str(value.value)
        if isinstance(value, ast.Constant)
        else known.get(ast.unparse(value).strip("f'{}"), "?")
        for value in node.values
    )


def messages() -> Iterator[str]:
    """What the library's errors say: strings of ``raise`` or ``return`` that end in a full stop."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for statement in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(statement, ast.Raise | ast.Return):
                for node in ast.walk(statement):
                    if isinstance(node, ast.JoinedStr | ast.Constant):
                        said = text_of(node)
                        if said.endswith("."):
                            yield said


def options() -> set[str]:
    """Every option of every verb."""
    found: set[str] = set()
    for name in app:
        if not name.startswith("-") and app[name].default_command:
            for argument in app[name].assemble_argument_collection():
                found.update(argument.names)
    return found


def sentences(message: str) -> list[str]:
    return re.split(r"(?<=\.) (?=[A-Z])", message)


def test_no_cure_is_left_in_words_of_python() -> None:
    all_said = set(messages())
    with_settings = {said for said in all_said if IN_PYTHON.search(said)}
    assert len(all_said) > 150
    assert len(with_settings) > 8
    left = set()
    for said in with_settings:
        # The values that stand for what was found are as they would be.
        message = in_shell_words(said.replace("=?.", "='x'.").replace("=?)", "=Own)"))
        left |= {part for part in sentences(message) if IN_PYTHON.search(part)}
    left = {part.replace("='x'.", "=?.") for part in left}
    assert left <= NEVER_ON_THE_COMMAND_LINE


def test_every_option_that_a_cure_names_exists() -> None:
    named: set[str] = set()
    for said in messages():
        shell = in_shell_words(said.replace("=?.", "='x'."))
        named.update(re.findall(r"(?<!\S)--[a-z][a-z-]*", shell))
    assert {"--on-missing", "--timestamp", "--score", "--split"} <= named
    assert named <= options()


@given(
    st.text(st.characters(codec="utf-8", exclude_categories=("Cs",)), min_size=1),
    st.sampled_from(["user_id", "item_id", "score"]),
)
def test_a_value_that_is_proposed_can_be_typed(column: str, role: str) -> None:
    said = in_shell_words(f"x.csv has two. Name the right one: {role}={column!r}.")
    typed = said.partition("Name the right one: ")[2].removesuffix(".")
    assert shlex.split(typed) == [f"--{role.replace('_', '-')}", column]


@pytest.mark.parametrize(
    "told",
    [
        "there is no file data/user_id=7/part.csv (seen from /score=1). Check the path.",
        "user 'on_missing=skip' of the scores is not among the interactions. Check the id.",
        "x has no column 'pass' (the nearest is 'score='). Its columns are 'a=1', 'b'.",
    ],
)
def test_what_was_given_is_told_as_it_was_given(told: str) -> None:
    assert in_shell_words(told) == told


def test_what_needs_python_says_so() -> None:
    for call in (
        "Pass it again: load(path, utility=...).",
        "Pass the type: load(path, calibration=T).",
    ):
        assert in_shell_words(f"m was fitted with your own. {call}") == (
            "m was fitted with your own. "
            "The command line can not be given that: use the model from Python."
        )


@pytest.mark.parametrize(
    ("python", "shell"),
    [
        ("n_jobs is 0. Give 1 or more.", "--jobs is 0. Give 1 or more."),
        ("memory_limit is 'x'.", "--memory-limit is 'x'."),
    ],
)
def test_settings_are_called_by_their_options(python: str, shell: str) -> None:
    assert in_shell_words(python) == shell
