"""The report as one HTML page: its parts in order, each figure with the table behind it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from string import Template

from topperk.edges import canvas as paper
from topperk.edges import report_markup as markup
from topperk.edges import report_words
from topperk.edges.canvas import Canvas
from topperk.edges.charts import fixed_chart, lengths_chart, truth_chart
from topperk.edges.charts_reliability import probability_range, reliability_chart
from topperk.edges.charts_user import user_chart
from topperk.edges.report_content import (
    ReliabilitySection,
    ReportData,
    TruthCurve,
    UserExample,
    UtilitySection,
)
from topperk.edges.report_tables import (
    bins_table,
    items_table,
    lengths_table,
    methods_table,
    summary,
)
from topperk.edges.svg import element, number, percent, safe

__all__ = ["page"]

_Draw = Callable[[Canvas], str]


def page(data: ReportData) -> str:
    """The whole page as text, complete in itself."""
    parts = [
        summary(data.utilities),
        _utilities(data.utilities),
        _users(data.users, data.users_utility),
        _reliability(data.reliability),
        _truth(data.estimated_vs_true, data.truth_note),
    ]
    first = data.utilities[0]
    support = " ".join(
        filter(
            None,
            (
                report_words.way_to_oracle(first),
                report_words.lengths(first),
                report_words.others(data),
            ),
        )
    )
    return Template(markup.resource("report_template.html")).substitute(
        title=safe(data.title),
        subtitle=safe(data.subtitle),
        style=markup.resource("report_page.css"),
        switch_style=markup.switch_style(len(data.utilities)),
        finding=safe(report_words.finding(first)),
        support=element("p", safe(support), class_="support"),
        sections="\n".join(part for part in parts if part),
        facts=markup.facts(data.facts),
    )


def _utilities(utilities: Sequence[UtilitySection]) -> str:
    panels = [_panel(index, section) for index, section in enumerate(utilities)]
    lead = "How long the personal lists are, and what any one length for everybody is worth."
    if len(panels) == 1:
        return markup.section("Why one length does not fit all", lead, *panels)
    lead = f"{lead} Each utility has personal lists of its own."
    picks = [
        element(
            "input",
            type="radio",
            name="utility",
            id=f"utility-{index}",
            class_="pick",
            **({"checked": "checked"} if index == 0 else {}),
        ).removesuffix("</input>")
        for index, section in enumerate(utilities)
    ]
    labels = [
        element("label", markup.isolated(section.name), for_=f"utility-{index}")
        for index, section in enumerate(utilities)
    ]
    switch = element("div", *labels, class_="switch")
    choice = element(
        "div",
        *picks,
        switch,
        *panels,
        class_="choice",
        role="group",
        aria_label="What counts as a good list",
    )
    return markup.section("Why one length does not fit all", lead, choice)


def _panel(index: int, section: UtilitySection) -> str:
    key = f"u{index}"
    lengths = report_words.lengths(section)
    first = section.min_k
    has_zero = int(section.lengths_personal[0]) + int(section.lengths_oracle[0]) > 0
    first_bar = 0 if has_zero else min(max(first, 1), section.max_k)
    if section.best_fixed_k is None:
        told = "Nothing was measured."
    else:
        told = (
            f"The best single size is k = {section.best_fixed_k}, worth "
            f"{number(section.best_fixed)}; personal lists are worth {number(section.personal)}."
        )
    spread_figure = markup.figure(
        "How the lengths are spread",
        f"Share of users by the number of items they get. {lengths}",
        _both(
            f"{key}-lengths",
            lambda canvas: lengths_chart(
                canvas,
                section.lengths_personal,
                section.lengths_oracle,
                first_bar,
                f"How the lengths are spread, {section.name}",
                lengths,
            ),
        ),
        markup.legend(("bar", "personal"), ("outline", "Oracle, which knows the answers")),
        lengths_table(section),
    )
    fixed_figure = markup.figure(
        "One size for all, at every size",
        f"Mean {section.name} if everybody gets the same number of items. {told}",
        _both(
            f"{key}-fixed",
            lambda canvas: fixed_chart(
                canvas,
                section.fixed_curve,
                first,
                section.best_fixed_k,
                section.personal,
                section.oracle,
                f"Mean {section.name} by fixed list length",
                f"{told} The Oracle reaches {number(section.oracle)}.",
            ),
        ),
        markup.legend(("line fixed", "everybody gets the same number")),
        methods_table(section),
    )
    return element(
        "div",
        element("h3", markup.isolated(section.name)),
        element("p", safe(section.meaning), class_="lead"),
        element("div", spread_figure, fixed_figure, class_="row two"),
        class_=f"panel panel-{index}",
    )


def _users(users: Sequence[UserExample], utility: str) -> str:
    if not users:
        return ""
    cards = []
    for index, user in enumerate(users):
        description = f"{user.headline} The cut is at k = {user.k} of {user.max_k}."
        picture = user_chart(
            paper.CARD.named(f"user{index}"), user, f"User {user.user}", description
        )
        caption = element("h3", "User ", markup.isolated(user.user)) + element(
            "p", markup.isolated(user.headline), class_="headline"
        )
        cards.append(element("figure", element("figcaption", caption), picture, items_table(user)))
    legend = [("line personal", f"expected {utility}".strip())]
    if any(user.realised_curve is not None for user in users):
        legend.append(("line realised", "what it was worth in the end"))
    if any(user.true_curve is not None for user in users):
        legend.append(("band", "expected by one who knows the truth"))
    legend += [("bar", "probability of an item shown"), ("bar rest", "of one left out")]
    if any(item.relevant for user in users for item in user.items):
        legend += [("hit", "relevant, shown"), ("hit missed", "relevant, left out")]
    lead = (
        "The upper curve is what a list of each length is expected to be worth to this user, and "
        "the list ends where it is highest. Below are the items in order, as tall as they are "
        "likely to be wanted. Each user has scales of their own."
    )
    amount = {1: "One user", 2: "Two users", 3: "Three users"}.get(len(users), "Some users")
    kind = "three" if len(users) >= 3 else "two"
    lists = " ".join(
        filter(
            None,
            (
                "the list" if len(users) == 1 else "their lists",
                f"for {utility}" if utility else "",
                "ends" if len(users) == 1 else "end",
            ),
        )
    )
    return markup.section(
        f"{amount}, and where {lists}",
        lead,
        markup.legend(*legend),
        element("div", *cards, class_=f"row {kind}"),
    )


def _reliability(section: ReliabilitySection | None) -> str:
    if section is None:
        return ""
    limits = probability_range(section.before, section.after)
    figures = []
    for class_, label, curve in (
        ("before", section.before_label, section.before),
        ("after", section.after_label, section.after),
    ):
        said = (
            f"Expected calibration error {number(curve.ece)}, Brier {number(curve.brier)}, "
            f"log loss {number(curve.log_loss)}."
        )
        draw = partial(
            reliability_chart,
            curve=curve,
            class_=class_,
            limits=limits,
            title=f"Reliability, {label}",
            description=said,
        )
        picture = draw(paper.SQUARE.named(f"reliability-{class_}")) + draw(
            paper.SQUARE_NARROW.named(f"reliability-{class_}")
        )
        measures = "".join(
            element("div", element("dt", name), element("dd", safe(number(value))))
            for name, value in (
                ("calibration error", curve.ece),
                ("Brier", curve.brier),
                ("log loss", curve.log_loss),
            )
        )
        caption = element("h3", markup.isolated(label)) + element(
            "p", "How often items were wanted, by what the probability said."
        )
        figures.append(
            element(
                "figure",
                element("figcaption", caption),
                picture,
                element("dl", measures, class_="measures"),
                bins_table(curve),
            )
        )
    scale = (
        " Most probabilities are tiny, so both axes are logarithmic: each step is ten times the "
        "one before."
        if limits[2]
        else ""
    )
    lead = (
        "Items are put in groups by their probability. If it can be trusted, the points lie on the "
        f"dashed diagonal: of the items given {percent(0.01)}, one in a hundred is wanted. The "
        f"upright lines are what chance allows ({percent(0.95)}).{scale}"
    )
    return markup.section(
        "Can the probabilities be trusted?", lead, element("div", *figures, class_="row two pairs")
    )


def _truth(curves: Sequence[TruthCurve], note: str) -> str:
    if not curves:
        return ""
    figures = []
    for index, truth in enumerate(curves):
        off = truth.mean_absolute_difference
        said = (
            f"For one user at one length, the estimate is off by {number(off)} on average."
            if math.isfinite(off)
            else "How far the estimate is off was not measured."
        )

        def draw(canvas: Canvas, truth: TruthCurve = truth, said: str = said) -> str:
            return truth_chart(
                canvas,
                truth.estimated_curve,
                truth.true_curve,
                f"Estimated and true expected {truth.utility}",
                said,
            )

        rows = [
            [str(k), number(float(guess)), number(float(fact))]
            for k, (guess, fact) in enumerate(
                zip(truth.estimated_curve, truth.true_curve, strict=True)
            )
        ]
        figures.append(
            markup.figure(
                truth.utility,
                said,
                _both(f"truth{index}", draw),
                "",
                markup.details(["k", "estimated", "true"], rows),
            )
        )
    lead = (
        "This world is simulated, so the true probabilities are known. The curves are means over "
        f"users of expected utility by list length. {note}"
    ).strip()
    legend = markup.legend(("line personal", "estimated"), ("band", "true"))
    return markup.section(
        "How close the estimate is to the truth",
        lead,
        legend,
        element("div", *figures, class_="row two pairs"),
    )


def _both(key: str, draw: _Draw) -> str:
    return draw(paper.WIDE.named(key)) + draw(paper.NARROW.named(key))
