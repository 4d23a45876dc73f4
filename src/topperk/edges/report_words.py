"""The report's sentences, computed from its content; plain text, escaped by whoever places it."""

from __future__ import annotations

import math

import numpy as np

from topperk._kernels.arrays import OffsetArray
from topperk.edges.report_content import PairedTest, ReportData, UtilitySection
from topperk.edges.svg import number, percent

__all__ = ["finding", "gain", "length_at_share", "lengths", "others", "p_value", "way_to_oracle"]

_CHANCE = 0.05
_EQUAL = 0.0005  # a relative difference below this reads "0.0 %" and is called none


def p_value(p: float) -> str:
    """``p < 0.001`` or ``p = 0.21``."""
    if not math.isfinite(p):
        return "p not measured"
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"


def gain(section: UtilitySection) -> str:
    """Personal against the best fixed length: a share if that makes sense, else a difference."""
    best, personal = section.best_fixed, section.personal
    if not (math.isfinite(best) and math.isfinite(personal)):
        return number(math.nan)
    if best > 0:
        share = (personal - best) / best
        return ("+" if share > 0 else "") + percent(share)
    return ("+" if personal > best else "") + number(personal - best)


def finding(section: UtilitySection) -> str:
    """The main result in one sentence, honest when personal lists are not better."""
    name, k = section.name, section.best_fixed_k
    best, personal = section.best_fixed, section.personal
    if k is None or not math.isfinite(personal):
        return f"{name} could not be measured: no user has a relevant item in the test part."
    rival = (
        "an empty list for everybody (k = 0)"
        if k == 0
        else f"the best list of one size for all (k = {k})"
    )
    difference = personal - best
    if abs(difference) <= _EQUAL * max(abs(best), 1e-12):
        return f"Personal lists and {rival} are worth the same here: {name} is {number(best)}."
    change = (
        f"{percent(abs(difference) / best)} {'more' if difference > 0 else 'less'} {name} than"
        if best > 0
        else ""
    )
    if difference > 0:
        said = (
            f"Personal lists give users {change} {rival}"
            if change
            else f"Personal lists bring {name} to {number(personal)}, from {number(best)} with "
            f"{rival}"
        )
    else:
        said = (
            f"Personal lists are not better here: they give users {change} {rival}"
            if change
            else f"Personal lists are not better here: {name} is {number(personal)}, against "
            f"{number(best)} with {rival}"
        )
    return f"{said}{_chance(_test_against_best(section))}."


def way_to_oracle(section: UtilitySection) -> str:
    """How much of what any choice of lengths could add is reached; "" where it has no meaning."""
    room = section.oracle - section.best_fixed
    share = (section.personal - section.best_fixed) / room if room > 0 else math.nan
    if not math.isfinite(share) or share <= _EQUAL:
        return ""
    return (
        f"That is {percent(min(share, 1.0))} of the way to the Oracle, which knows the answers "
        "and so marks the most that choosing lengths can bring."
    )


def others(data: ReportData) -> str:
    """The same comparison for the utilities after the first, in one sentence."""
    said = []
    for section in data.utilities[1:]:
        best, personal = section.best_fixed, section.personal
        if not (math.isfinite(best) and math.isfinite(personal)):
            said.append(f"{section.name} could not be measured")
        elif abs(personal - best) <= _EQUAL * max(abs(best), 1e-12):
            said.append(f"{section.name} stays the same")
        elif best > 0:
            verb = "gains" if personal > best else "loses"
            said.append(f"{section.name} {verb} {percent(abs(personal - best) / best)}")
        else:
            verb = "rises" if personal > best else "falls"
            said.append(f"{section.name} {verb} from {number(best)} to {number(personal)}")
    if not said:
        return ""
    return f"Against the best single size of each: {_joined(said)}."


def length_at_share(counts: OffsetArray, share: float) -> int:
    """The smallest k that at least this share of the users do not exceed (0 without users)."""
    total = int(counts.sum())
    return int(np.searchsorted(np.cumsum(counts), share * total)) if total else 0


def lengths(section: UtilitySection) -> str:
    """How the personal lengths are spread, in a sentence."""
    counts = section.lengths_personal
    given = np.flatnonzero(counts)
    total = int(counts.sum())
    if not total:
        return "No user was given a list."
    shortest, longest = int(given[0]), int(given[-1])
    if shortest == longest:
        return f"Every user gets {_items(shortest)}."
    said = f"Lists run from {shortest} to {_items(longest)}"
    ends = [(k, counts[k] / total) for k in (shortest, longest) if counts[k] / total >= 0.1]
    told = [
        f"{percent(share)} {'' if index else 'of the users '}get {k}"
        for index, (k, share) in enumerate(ends)
    ]
    median = length_at_share(counts, 0.5)
    if shortest < median < longest:
        told.append(f"half {'' if told else 'of the users '}get {median} or fewer")
    return f"{said}{': ' if told else ''}{_joined(told)}."


def _joined(words: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def _items(k: int) -> str:
    return "no items" if k == 0 else f"{k} item{'' if k == 1 else 's'}"


def _test_against_best(section: UtilitySection) -> PairedTest | None:
    k = section.best_fixed_k
    return next((test for test in section.tests if test.fixed_k == k), None)


def _chance(test: PairedTest | None) -> str:
    if test is None or not math.isfinite(test.p_holm) or test.p_holm < _CHANCE:
        return ""
    return f", a difference that may be chance ({p_value(test.p_holm)})"
