"""The cures in the library's errors, in the words of the command line.

The library speaks to somebody who writes Python: "pass on_missing='skip'". Whoever types a command
has options instead, or, for a few things, must turn to Python.
"""

from __future__ import annotations

import ast
import re
import shlex

# A cure names one setting and its value; the words before it keep ids and paths apart from it.
_SETTING = re.compile(
    r"\b(pass|name one:|Name the right one:|Name the column of scores:|Read it with)"
    r" ([a-z_]+)=('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|\.\.\.)"
)
_NEEDS_PYTHON = "The command line can not be given that: use the model from Python."
_PHRASES = (
    (re.compile(r"\bn_jobs is\b"), "--jobs is"),
    (re.compile(r"\bmemory_limit is\b"), "--memory-limit is"),
    (re.compile(r"Use scale='logit', or calibrate with UserPlatt\."), "Use another --calibrator."),
    (re.compile(r"or use split_random\."), "or use --split random."),
    (re.compile(r"Pass it again: load\(path, utility=\.\.\.\)\."), _NEEDS_PYTHON),
    (re.compile(r"Pass the type: load\(path, calibration=\w+\)\."), _NEEDS_PYTHON),
    (re.compile(r"Fit PersonalizedK(?: instead| for curves)?\."), "Make one with `topperk fit`."),
)


def in_shell_words(message: str) -> str:
    """The message of an error, with options where it told of Python's settings.

    >>> in_shell_words("user 7 has no candidate. Drop the user, or pass on_missing='skip'.")
    'user 7 has no candidate. Drop the user, or pass --on-missing skip.'
    """
    for python, shell in _PHRASES:
        message = python.sub(shell, message)
    return _SETTING.sub(_as_option, message)


def _as_option(found: re.Match[str]) -> str:
    lead, name, value = found.groups()
    if value == "...":
        written = "NAME" if found.end() < len(found.string) else "NAME."
    else:
        written = shlex.quote(ast.literal_eval(value))
    return f"{lead} --{name.replace('_', '-')} {written}"
