"""What a report says, as frozen dataclasses that check themselves; how it looks is elsewhere.

Whoever measures fills these; the page is then made from them alone. Any measured value may be
NaN, which reads "not measured" and is shown as a dash. Arrays are copied, made float64 or int64
and read-only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from topperk._kernels.arrays import FloatArray, OffsetArray
from topperk.errors import InputError

__all__ = [
    "ItemExample",
    "MethodRow",
    "PairedTest",
    "ReliabilityCurve",
    "ReliabilitySection",
    "ReportData",
    "TruthCurve",
    "UserExample",
    "UtilitySection",
]


@dataclass(frozen=True)
class MethodRow:
    """One method's realised utility over the users, and how long its lists are.

    ``ci_low`` and ``ci_high`` bound the mean with 95 % confidence; ``fixed_k`` is the length if
    the method gives everybody the same one.
    """

    method: str
    mean: float
    ci_low: float
    ci_high: float
    mean_k: float
    median_k: float
    fixed_k: int | None = None

    def __post_init__(self) -> None:
        if self.ci_low > self.mean or self.ci_high < self.mean:
            raise InputError(
                f"the confidence interval of method {self.method!r}, {self.ci_low} to "
                f"{self.ci_high}, does not hold its mean {self.mean}; give low, then high."
            )


@dataclass(frozen=True)
class PairedTest:
    """Personal compared with one other method, user by user.

    ``difference`` is the mean of personal minus the method; ``p_holm`` the p-value after Holm's
    correction. ``fixed_k`` is the length if the method gives everybody the same one: the report's
    first sentence looks for the test against the best such length and says whether the
    difference may be chance.
    """

    method: str
    difference: float
    p_holm: float
    fixed_k: int | None = None

    def __post_init__(self) -> None:
        if self.p_holm < 0 or self.p_holm > 1:
            raise InputError(
                f"p_holm of the test against {self.method!r} is {self.p_holm}; "
                "give a probability from 0 to 1, or NaN."
            )


@dataclass(frozen=True, eq=False)
class UtilitySection:
    """One utility: what each fixed length, each method, personal lists and the Oracle are worth.

    ``fixed_curve[k]`` is the mean realised utility if everybody gets k items, for k from 0 to
    max_k; ``lengths_personal[k]`` and ``lengths_oracle[k]`` count the users who get k.
    ``personal`` and ``oracle`` are mean realised utilities. ``min_k`` is the shortest list that
    was allowed, so the best fixed length is sought from there on.
    """

    name: str
    meaning: str
    fixed_curve: FloatArray
    methods: tuple[MethodRow, ...]
    personal: float
    oracle: float
    lengths_personal: OffsetArray
    lengths_oracle: OffsetArray
    tests: tuple[PairedTest, ...] = ()
    min_k: int = 0

    def __post_init__(self) -> None:
        where = f"section {self.name!r}"
        _keep(self, "fixed_curve", _floats(self.fixed_curve, f"fixed_curve of {where}"))
        _keep(self, "methods", tuple(self.methods))
        _keep(self, "tests", tuple(self.tests))
        for field in ("lengths_personal", "lengths_oracle"):
            lengths = _counts(getattr(self, field), f"{field} of {where}")
            if len(lengths) != len(self.fixed_curve):
                raise InputError(
                    f"{field} of {where} has {len(lengths)} entries and fixed_curve "
                    f"{len(self.fixed_curve)}; both need one for each k from 0 to max_k."
                )
            _keep(self, field, lengths)
        if not 0 <= self.min_k <= self.max_k:
            raise InputError(
                f"min_k of {where} is {self.min_k}; it must lie from 0 to max_k = {self.max_k}."
            )

    @property
    def max_k(self) -> int:
        """The longest list that was considered."""
        return len(self.fixed_curve) - 1

    @property
    def best_fixed_k(self) -> int | None:
        """The fixed length, min_k or longer, with the highest mean (ties: the smallest)."""
        allowed = self.fixed_curve[self.min_k :]
        if not np.isfinite(allowed).any():
            return None
        return self.min_k + int(np.nanargmax(allowed))

    @property
    def best_fixed(self) -> float:
        """What the best fixed length is worth, NaN if nothing was measured."""
        k = self.best_fixed_k
        return math.nan if k is None else float(self.fixed_curve[k])


@dataclass(frozen=True, eq=False)
class ReliabilityCurve:
    """Pairs put in bins by their probability: what was said, what happened, how many pairs.

    ``ece`` is the expected calibration error, ``brier`` the mean squared error, ``log_loss`` the
    mean negative log-likelihood; all three are better when lower.
    """

    mean_probability: FloatArray
    observed_rate: FloatArray
    count: OffsetArray
    ece: float
    brier: float
    log_loss: float

    def __post_init__(self) -> None:
        for field in ("mean_probability", "observed_rate"):
            values = _floats(getattr(self, field), field, least=0)
            if (values < 0).any() or (values > 1).any():
                raise InputError(f"{field} holds a value outside 0 to 1; give rates, or NaN.")
            _keep(self, field, values)
        _keep(self, "count", _counts(self.count, "count of the reliability bins"))
        if not len(self.mean_probability) == len(self.observed_rate) == len(self.count):
            raise InputError(
                f"a reliability curve has {len(self.mean_probability)} mean probabilities, "
                f"{len(self.observed_rate)} observed rates and {len(self.count)} counts; "
                "give one of each per bin."
            )


@dataclass(frozen=True, eq=False)
class ReliabilitySection:
    """The probabilities before and after calibration, each with a label for its picture."""

    before_label: str
    after_label: str
    before: ReliabilityCurve
    after: ReliabilityCurve


@dataclass(frozen=True)
class ItemExample:
    """One item of a user's ranking; ``relevant`` is None where it is not known."""

    rank: int
    label: str
    probability: float
    relevant: bool | None = None

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise InputError(f"item {self.label!r} has rank {self.rank}; ranks start at 1.")
        if self.probability < 0 or self.probability > 1:
            raise InputError(
                f"item {self.label!r} has probability {self.probability}; give 0 to 1, or NaN."
            )


@dataclass(frozen=True, eq=False)
class UserExample:
    """One user: the curve of expected utility by list length, the cut at k, the items in order.

    ``realised_curve`` is what the lists were worth in the end, ``true_curve`` what one who knows
    the true probabilities would expect; either may be unknown (None).
    """

    user: str
    headline: str
    k: int
    expected_curve: FloatArray
    items: tuple[ItemExample, ...]
    realised_curve: FloatArray | None = None
    true_curve: FloatArray | None = None

    def __post_init__(self) -> None:
        where = f"user {self.user!r}"
        _keep(self, "expected_curve", _floats(self.expected_curve, f"expected_curve of {where}"))
        _keep(self, "items", tuple(sorted(self.items, key=lambda item: item.rank)))
        for field in ("realised_curve", "true_curve"):
            if getattr(self, field) is not None:
                values = _floats(getattr(self, field), f"{field} of {where}")
                _same_length(values, self.expected_curve, field, "expected_curve", where)
                _keep(self, field, values)
        if not 0 <= self.k <= self.max_k:
            raise InputError(f"k of {where} is {self.k}; it must lie from 0 to {self.max_k}.")

    @property
    def max_k(self) -> int:
        """The longest list that was considered."""
        return len(self.expected_curve) - 1


@dataclass(frozen=True, eq=False)
class TruthCurve:
    """Where the truth is known: mean expected utility by length, estimated and true.

    ``mean_absolute_difference`` is the mean over users and lengths of |estimated - true|, which
    is larger than the distance of the two mean curves.
    """

    utility: str
    mean_absolute_difference: float
    estimated_curve: FloatArray
    true_curve: FloatArray

    def __post_init__(self) -> None:
        where = f"truth of {self.utility!r}"
        for field in ("estimated_curve", "true_curve"):
            _keep(self, field, _floats(getattr(self, field), f"{field} of {where}"))
        _same_length(self.true_curve, self.estimated_curve, "true_curve", "estimated_curve", where)


@dataclass(frozen=True, eq=False)
class ReportData:
    """A whole report. ``facts`` are pairs of label and value; the first utility leads.

    ``users_utility`` names the utility that the user examples' lists are chosen for, and
    ``truth_note`` says why the estimates lie where they lie ("" says nothing).
    """

    title: str
    subtitle: str
    facts: tuple[tuple[str, str], ...]
    utilities: tuple[UtilitySection, ...]
    reliability: ReliabilitySection | None = None
    users: tuple[UserExample, ...] = ()
    estimated_vs_true: tuple[TruthCurve, ...] = ()
    users_utility: str = ""
    truth_note: str = ""

    def __post_init__(self) -> None:
        _keep(self, "facts", tuple((str(label), str(value)) for label, value in self.facts))
        for field in ("utilities", "users", "estimated_vs_true"):
            _keep(self, field, tuple(getattr(self, field)))
        if not self.utilities:
            raise InputError("a report needs at least one utility section; none was given.")


def _keep(owner: object, field: str, value: object) -> None:
    object.__setattr__(owner, field, value)


def _floats(values: Any, what: str, least: int = 1) -> FloatArray:
    try:
        array: FloatArray = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{what} is not an array of numbers; give a list or an array.") from None
    if array.ndim != 1 or len(array) < least:
        raise InputError(
            f"{what} has shape {array.shape}; give one dimension with at least {least} value(s)."
        )
    return _frozen(array)


def _counts(values: Any, what: str) -> OffsetArray:
    array = _floats(values, what, least=0)
    if not (np.isfinite(array) & (array >= 0) & (array == np.floor(array))).all():
        raise InputError(f"{what} holds something else than counts; give whole numbers from 0 on.")
    return _frozen(array.astype(np.int64))


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array.setflags(write=False)
    return array


def _same_length(a: FloatArray, b: FloatArray, a_name: str, b_name: str, where: str) -> None:
    if len(a) != len(b):
        raise InputError(
            f"{a_name} of {where} has {len(a)} values and {b_name} {len(b)}; "
            "both need one for each k from 0 to max_k."
        )
