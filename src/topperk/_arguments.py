"""Things that several modules are given: each is checked alike, where it comes in."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from topperk.errors import SettingError
from topperk.ids import Ids
from topperk.interactions import Interactions
from topperk.progress import Progress
from topperk.scores import ScoreSource
from topperk.split import Split


def check_scores(scores: object) -> None:
    """SettingError unless it is a source of scores; says how to make one of what was given."""
    if isinstance(scores, ScoreSource) and isinstance(scores.ids, Ids):
        return
    if isinstance(scores, Split):
        raise SettingError("scores is a Split. Give the scores first, then the split.")
    kind = type(scores).__name__
    cure = "Give Factors, Dense, Candidates or Callable, or another ScoreSource"
    if isinstance(scores, (str, os.PathLike)):
        cure = f"Open the file: tp.load_scores({str(scores)!r})"
    elif kind == "ndarray":
        cure = "Wrap it: tp.Dense(matrix, ids)"
    elif "DataFrame" in kind or kind in ("LazyFrame", "Table", "DuckDBPyRelation", "dict"):
        cure = "Wrap it: tp.Candidates(frame)"
    raise SettingError(f"scores is of type {kind}, which is no source of scores. {cure}.")


def check_split(split: object) -> None:
    """SettingError unless it is a split."""
    if not isinstance(split, Split):
        cure = "Make one, such as tp.split_random(data)"
        if isinstance(split, Interactions):
            cure = "Give all of its parts: the split, or one made with tp.split_random(data)"
        elif isinstance(split, ScoreSource):
            cure = "Give the scores first, then the split"
        raise SettingError(f"split is of type {type(split).__name__}, not a Split. {cure}.")


def check_progress(progress: Progress | None) -> None:
    """SettingError unless it can be called, or is None."""
    if progress is not None and not callable(progress):
        raise SettingError(
            f"progress is {progress!r}. Give a function of (stage, done, total), or leave it out."
        )


def check_fit(scores: object, split: object, progress: Progress | None) -> None:
    """What every fit and every judgement is given."""
    check_scores(scores)
    check_split(split)
    check_progress(progress)


def listed_users(users: Iterable[Any] | None) -> list[Any] | None:
    """The users asked for; SettingError for what is no list of ids."""
    if users is None:
        return None
    if isinstance(users, str):
        raise SettingError(
            f"users is the one string {users!r}. Give a list of ids: users=[{users!r}]."
        )
    try:
        return list(users)
    except TypeError:
        raise SettingError(f"users is {users!r}. Give a list of ids: users=[{users!r}].") from None
