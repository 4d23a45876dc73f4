"""From measured figures to the report's content: sections, tests, and three users side by side."""

from __future__ import annotations

import platform
from collections.abc import Sequence

import numpy as np

import topperk
from topperk._frames import to_polars
from topperk._kernels.arrays import IntArray
from topperk._utility_tables import UtilityTables
from topperk.datasets.simulated import World
from topperk.edges.measuring import ORACLE, Measured, true_curves
from topperk.edges.report_content import (
    ItemExample,
    MethodRow,
    PairedTest,
    ReliabilityCurve,
    ReliabilitySection,
    ReportData,
    UserExample,
    UtilitySection,
)
from topperk.edges.svg import percent
from topperk.evaluation import PERSONAL, Evaluation
from topperk.reliability import Reliability
from topperk.scores import ScoreSource
from topperk.split import Split
from topperk.utility import DCG, NDCG, PDCG, TP, FBeta, NetGain, Precision, Recall, Utility

SHARES = (
    "The balance of two shares: how much of the list is relevant, and how much of what is relevant "
    "is in the list."
)
MEANINGS: dict[type[Utility], str] = {
    NDCG: "Relevant items count more the higher they stand; 1 is the best possible order for a "
    "list of that length.",
    PDCG: "Relevant items count more the higher they stand, and every other item shown costs as "
    "much as a relevant one would bring in its place.",
    TP: "The share of hits among the most that a list of this length could have.",
    Precision: "The share of the list that is relevant.",
    Recall: "The share of what is relevant that is in the list.",
    DCG: "Relevant items count more the higher they stand; nothing is subtracted.",
}
# Where the three users stand when all are ordered by the length of their list.
PLACES = (0.12, 0.5, 0.88)


def report_of(
    measured: Measured,
    scores: ScoreSource,
    split: Split,
    *,
    title: str,
    subtitle: str,
    facts: Sequence[tuple[str, str]] = (),
    world: World | None = None,
    truth_note: str = "",
) -> ReportData:
    """The whole report; ``facts`` come after those that every report has."""
    leading = _leading(measured)
    evaluation = measured.of(leading)
    n_pairs = sum(part.n_interactions for part in split.parts().values())
    common = (
        ("users", f"{split.ids.n_users:,}"),
        ("items", f"{split.ids.n_items:,}"),
        ("interactions", f"{n_pairs:,}"),
        ("longest list", f"{measured.model.max_k}"),
        ("users without a test interaction, left out", f"{evaluation.n_without_test:,}"),
    )
    machine = (
        ("topperk", topperk.__version__),
        ("python", platform.python_version()),
        ("machine", f"{platform.system()} {platform.machine()}"),
    )
    return ReportData(
        title=title,
        subtitle=" ".join(filter(None, (subtitle, _chosen_anew(measured)))),
        facts=(*common, *facts, *machine),
        utilities=tuple(_section(found) for found in measured.evaluations),
        reliability=ReliabilitySection(
            "Scores as they are", "Calibrated", _curve(measured.before), _curve(measured.after)
        ),
        users=_examples(measured, evaluation, leading, scores, split, world),
        estimated_vs_true=measured.truth,
        users_utility=leading.name,
        truth_note=truth_note,
    )


def _leading(measured: Measured) -> Utility:
    """What the model chooses lengths for, where that is among the utilities; else the first."""
    utilities = [found.utility for found in measured.evaluations]
    own = measured.model.utility
    return next((one for one in utilities if own and one.name == own.name), utilities[0])


def _chosen_anew(measured: Measured) -> str:
    """A sentence where none of the lists are those that the model itself would give."""
    names = [found.utility.name for found in measured.evaluations]
    own = measured.model.utility
    if own is None or own.name in names:
        return ""
    return (
        f"The model chooses for {own.name}; here lengths are chosen anew for {' and '.join(names)}."
    )


def meaning_of(utility: Utility) -> str:
    """What a utility rewards, in a sentence or two."""
    if isinstance(utility, FBeta):
        if utility.beta == 1.0:
            return SHARES
        return f"{SHARES} The second counts {utility.beta:g} times as much as the first."
    if isinstance(utility, NetGain):
        return (
            f"Every relevant item in the list brings {utility.gain:g}, and every other one costs "
            f"{utility.cost:g}."
        )
    return MEANINGS.get(type(utility), "A utility of your own.")


def _section(found: Evaluation) -> UtilitySection:
    summary = to_polars(found.summary(), "the summary")[0].rows_by_key(
        "method", unique=True, named=True
    )
    tests = to_polars(found.tests(), "the tests")[0].to_dicts()
    n = found.curves.shape[1]
    best = found.best_fixed_k
    fixed = {one.name: one.fixed_k for one in found.methods}
    personal, oracle = found.method(PERSONAL), found.method(ORACLE)
    return UtilitySection(
        name=found.utility.name,
        meaning=meaning_of(found.utility),
        fixed_curve=found.fixed_curve,
        methods=tuple(
            MethodRow(
                one.name,
                row["mean"],
                row["ci_low"],
                row["ci_high"],
                row["mean_k"],
                row["median_k"],
                one.fixed_k,
            )
            for one in found.methods
            for row in [summary[one.name]]
        ),
        personal=float(personal.realised.mean()),
        oracle=float(oracle.realised.mean()),
        lengths_personal=np.bincount(personal.k, minlength=n),
        lengths_oracle=np.bincount(oracle.k, minlength=n),
        tests=tuple(
            PairedTest(
                test["other"], test["difference"], test["p_holm"], fixed.get(test["other"], best)
            )
            for test in tests
            if test["other"] != ORACLE
        ),
        min_k=found.min_k,
    )


def _curve(found: Reliability) -> ReliabilityCurve:
    return ReliabilityCurve(
        found.mean_probability,
        found.observed_rate,
        found.count,
        found.ece,
        found.brier,
        found.log_loss,
    )


def _examples(
    measured: Measured,
    evaluation: Evaluation,
    utility: Utility,
    scores: ScoreSource,
    split: Split,
    world: World | None,
) -> tuple[UserExample, ...]:
    """A user with a short list, one with a middling one, one with a long one."""
    k = evaluation.method(PERSONAL).k
    order = np.lexsort((evaluation.users, k))
    places = dict.fromkeys(int(place * (order.size - 1)) for place in PLACES)
    chosen = [int(order[place]) for place in places]
    model = measured.model.for_utility(utility)
    users = [evaluation.users[place : place + 1] for place in chosen]
    examples = []
    for place, part in zip(
        chosen,
        (
            block
            for user in users
            for block in model.blocks(scores, scores.ids.users.values.gather(user))
        ),
        strict=True,
    ):
        n = int((part.items[0] >= 0).sum())
        relevant = set(_test_items(scores, split, part.users))
        probabilities = np.clip(part.probabilities[0], 0.0, 1.0)
        items = tuple(
            ItemExample(
                rank + 1,
                scores.ids.items.text(int(item)),
                float(probabilities[rank]),
                int(item) in relevant,
            )
            for rank, item in enumerate(part.items[0, :n])
        )
        true = None
        if world is not None:
            tables = UtilityTables(utility, model.max_k)
            true = true_curves(world, part.users, part.items, tables)[0]
        examples.append(
            UserExample(
                user=scores.ids.users.text(int(part.users[0])),
                headline=_headline(int(part.k[0]), part.expected_relevant[0], probabilities[:n]),
                k=int(part.k[0]),
                expected_curve=part.curves[0],
                realised_curve=evaluation.curves[place],
                true_curve=true,
                items=items,
            )
        )
    return tuple(examples)


def _test_items(scores: ScoreSource, split: Split, users: IntArray) -> list[int]:
    """The codes, among the scores' items, of one user's test items."""
    user = scores.ids.users.values.gather(users)
    row = int(split.ids.users.codes(user, "users")[0])
    items = split.ids.items.values.gather(split.test.items_of(row))
    return [int(code) for code in scores.ids.items.codes(items, "items")]


def _headline(
    k: int, expected: float, probabilities: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> str:
    if k == 0:
        first = percent(float(probabilities[0])) if probabilities.size else "0 %"
        return (
            f"Gets an empty list: even the best item is wanted with a probability of {first} only."
        )
    if k == 1:
        first = percent(float(probabilities[0]))
        return f"Gets 1 item, which is wanted with a probability of {first}."
    return (
        f"Gets {k} items, of which {expected:.1f} are expected to be wanted: the first with a "
        f"probability of {percent(float(probabilities[0]))}, the last with "
        f"{percent(float(probabilities[k - 1]))}."
    )
