"""Settings that several modules check alike."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence

import numpy as np

from topperk.errors import SettingError


def check_count(name: str, value: object) -> None:
    """SettingError unless the value is a whole number of at least 0."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise SettingError(f"{name} is {value!r}. Give a whole number of at least 0.")


def check_finite(name: str, value: object) -> None:
    """SettingError unless the value is a number, and neither NaN nor infinite."""
    number = isinstance(value, (int, float, np.integer, np.floating))
    if isinstance(value, bool) or not number or not math.isfinite(value):  # type: ignore[arg-type]
        raise SettingError(f"{name} is {value!r}. Give a finite number, or leave it out.")


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """SettingError unless the value is one of the words to choose from."""
    if not isinstance(value, str) or value not in choices:
        others = ", ".join(map(repr, choices[:-1]))
        raise SettingError(f"{name} is {value!r}; it can be {others} or {choices[-1]!r}.")


def check_path(name: str, value: object) -> None:
    """SettingError unless the value is a path."""
    if not isinstance(value, (str, os.PathLike)):
        raise SettingError(f"{name} is {value!r}. Give a path, as text or a pathlib.Path.")


def check_seed(value: object) -> None:
    """SettingError unless the seed is a whole number."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise SettingError(f"seed is {value!r}. Give a whole number.")


def check_shares(validation: float, test: float) -> None:
    """SettingError unless both are shares that leave something for training."""
    for name, share in (("validation", validation), ("test", test)):
        if isinstance(share, bool) or not isinstance(share, (int, float, np.floating, np.integer)):
            raise SettingError(f"{name} is {share!r}. Give a share, such as 0.2.")
        if not 0.0 <= share < 1.0:
            raise SettingError(f"{name} is {share}. Give a share of at least 0 and below 1.")
    if validation + test >= 1.0:
        raise SettingError(
            f"validation {validation} and test {test} leave nothing for training. "
            "Make their sum less than 1."
        )
