"""The report's tables: all methods at a glance, and the numbers behind each picture."""

from __future__ import annotations

import math
from collections.abc import Sequence

from topperk.edges import report_markup as markup
from topperk.edges import report_words
from topperk.edges.report_content import MethodRow, ReliabilityCurve, UserExample, UtilitySection
from topperk.edges.svg import element, number, percent, safe

__all__ = ["bins_table", "items_table", "lengths_table", "methods_table", "summary"]


def summary(utilities: Sequence[UtilitySection]) -> str:
    """Every method with every utility; personal and Oracle stand out, the best is bold."""
    names = list(dict.fromkeys(row.method for section in utilities for row in section.methods))
    head = markup.head_row(["method", *(section.name for section in utilities)])
    body = []
    for name in names:
        found = [_method(section, name) for section in utilities]
        cells = []
        for section, row in zip(utilities, found, strict=True):
            leads = row is not None and row.mean == max(
                (r.mean for r in section.methods if not _is(r.method, "oracle")), default=math.nan
            )
            cells.append(element("td", _mean(row), **({"class_": "leads"} if leads else {})))
        kind = next((role for role in ("personal", "oracle") if _is(name, role)), "")
        body.append(element("tr", markup.row_head(name), *cells, class_=kind))
    best = [_with_small(section.best_fixed, f"k = {section.best_fixed_k}") for section in utilities]
    gains = [report_words.gain(section) for section in utilities]
    foot = element(
        "tr",
        markup.row_head("best single size"),
        *(element("td", cell) for cell in best),
        class_="best",
    )
    foot += element("tr", markup.row_head("gain of personal over it"), *markup.cells(gains))
    table = element(
        "table", element("thead", head), element("tbody", *body), element("tfoot", foot)
    )
    note = (
        "Mean over users of what each list was worth on held-out interactions; \N{PLUS-MINUS SIGN} "
        f"is half of the {percent(0.95)} confidence interval. The best single size is picked with "
        "hindsight, on the same held-out interactions, so it is a hard rival."
    )
    return markup.section(
        "All methods at a glance",
        "",
        element("div", markup.scroll("All methods and utilities", table), class_="summary"),
        element("p", safe(note), class_="note"),
    )


def lengths_table(section: UtilitySection) -> str:
    """Per length: users who get it, and what it is worth to all."""
    rows = [
        [str(k), number(int(mine), 0), number(int(ideal), 0), number(float(worth))]
        for k, (mine, ideal, worth) in enumerate(
            zip(
                section.lengths_personal,
                section.lengths_oracle,
                section.fixed_curve,
                strict=True,
            )
        )
    ]
    head = ["k", "users, personal", "users, Oracle", f"mean {section.name} at fixed k"]
    return markup.details(head, rows, "Numbers by length")


def methods_table(section: UtilitySection) -> str:
    """Per method: mean, interval, lengths, and the paired test against personal."""
    tests = {test.method: test for test in section.tests}
    rows = []
    for row in section.methods:
        test = tests.get(row.method)
        rows.append(
            [
                row.method,
                number(row.mean),
                f"{number(row.ci_low)} to {number(row.ci_high)}",
                number(row.mean_k, 1),
                number(row.median_k, 1).removesuffix(".0"),
                "" if test is None else number(test.difference),
                "" if test is None else report_words.p_value(test.p_holm),
            ]
        )
    head = [
        "method",
        "mean",
        f"{percent(0.95)} interval",
        "mean k",
        "median k",
        "personal minus it",
        "Holm",
    ]
    return markup.details(head, rows, "All methods, with tests")


def bins_table(curve: ReliabilityCurve) -> str:
    """Per bin: what was said, what happened, how many pairs."""
    rows = [
        [percent(float(p)), percent(float(rate)), number(int(count), 0)]
        for p, rate, count in zip(
            curve.mean_probability, curve.observed_rate, curve.count, strict=True
        )
    ]
    return markup.details(["mean probability", "observed rate", "pairs"], rows)


def items_table(user: UserExample) -> str:
    """One user's items, and the curves by length."""
    answer = {None: "", True: "yes", False: "no"}
    rows = [
        [str(item.rank), item.label, percent(item.probability), answer[item.relevant]]
        for item in user.items
    ]
    items = markup.details(["rank", "item", "probability", "relevant"], rows, "The items", words=1)
    columns = [("expected", user.expected_curve)]
    if user.realised_curve is not None:
        columns.append(("realised", user.realised_curve))
    if user.true_curve is not None:
        columns.append(("true", user.true_curve))
    by_length = [
        [str(k), *(number(float(values[k])) for _, values in columns)]
        for k in range(user.max_k + 1)
    ]
    return items + markup.details(["k", *(name for name, _ in columns)], by_length, "The curve")


def _is(method: str, role: str) -> bool:
    return method.casefold() == role


def _method(section: UtilitySection, name: str) -> MethodRow | None:
    return next((row for row in section.methods if row.method == name), None)


def _mean(row: MethodRow | None) -> str:
    if row is None:
        return ""
    half = (row.ci_high - row.ci_low) / 2
    return _with_small(row.mean, f"\N{PLUS-MINUS SIGN}{number(half)}" if half >= 0 else "")


def _with_small(value: float, beside: str) -> str:
    return safe(number(value)) + element("small", safe(beside if math.isfinite(value) else ""))
