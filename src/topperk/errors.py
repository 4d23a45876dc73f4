"""What can go wrong, as a tree.

::

    TopperkError
    ├── InputError            what was given can not be used (also a ValueError)
    │   ├── FileFormatError   a file is empty, or not what its suffix says
    │   ├── ColumnError       a column is missing, or two could be meant
    │   ├── IdError           ids are null, repeated, of mixed types, or unknown
    │   ├── ScoreError        scores, vectors or probabilities are out of shape or range
    │   └── CalibrationError  the data holds nothing to calibrate with
    ├── SettingError          a setting is out of range or contradicts another (also a ValueError)
    ├── StorageError          a model folder is damaged, foreign or newer, or can not be written
    └── MissingExtraError     an optional library is not installed (also an ImportError)

Every message says what was found, where, and the cure, in one or two sentences.
"""

from __future__ import annotations

__all__ = [
    "CalibrationError",
    "ColumnError",
    "FileFormatError",
    "IdError",
    "InputError",
    "MissingExtraError",
    "ScoreError",
    "SettingError",
    "StorageError",
    "TopperkError",
]


class TopperkError(Exception):
    """The root: catch this to catch everything that topperk raises on purpose."""


class InputError(TopperkError, ValueError):
    """What was given can not be used."""


class FileFormatError(InputError):
    """A file is empty, unreadable, or not what its suffix says."""


class ColumnError(InputError):
    """A needed column is missing, or more than one could be meant."""


class IdError(InputError):
    """Ids are null, repeated, of mixed types, or unknown to the other side."""


class ScoreError(InputError):
    """Scores, vectors or probabilities have the wrong shape or are out of range."""


class CalibrationError(InputError):
    """The data holds nothing that a calibration could be learnt from."""


class SettingError(TopperkError, ValueError):
    """A setting is out of range, or contradicts another."""


class StorageError(TopperkError):
    """A model folder is damaged, foreign or newer, or can not be written."""


class MissingExtraError(TopperkError, ImportError):
    """An optional library is not installed; the message holds the line that installs it."""
