"""Why a user got what they got."""

from __future__ import annotations

from enum import Enum

__all__ = ["Reason"]


class Reason(Enum):
    """The origin of a user's probabilities or length. The value is the sentence to show."""

    OWN_FIT = "Calibrated on the user's own validation interactions."
    POOLED_FIT = "Calibrated with the one pair of parameters that all users share."
    UNCALIBRATED = "The scores were used as they are."
    NO_VALIDATION_POSITIVE = (
        "Population parameters: no validation interaction of the user is among the candidates."
    )
    NO_NEGATIVE = "Population parameters: all of the user's candidates are validation interactions."
    NOT_CONVERGED = "Population parameters: the user's own fit did not settle."
    NOT_SCORED = "Population parameters: there were no scores for the user when it was fitted."
    NEW_USER = "Population parameters: the user was not known when it was fitted."
    NO_CANDIDATES = "An empty list: no candidate is left for the user."
    FIXED = "Everybody gets this length."
    RANDOM = "The length was drawn at random."
    BEST_ON_VALIDATION = "The length that was best for the user on validation."
    BEST_ON_TEST = "The length that is best for the user on test, which nobody can know."

    @property
    def code(self) -> int:
        """A small integer for arrays; ``Reason.of(code)`` is the way back."""
        return _CODES[self]

    @staticmethod
    def of(code: int) -> Reason:
        """The reason of a code."""
        return _MEMBERS[code]


_MEMBERS = tuple(Reason)
_CODES = {reason: code for code, reason in enumerate(_MEMBERS)}
