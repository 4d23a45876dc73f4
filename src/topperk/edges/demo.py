"""The demo: a simulated world, the method at work in it, and what it found."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from topperk.choice import PersonalizedK
from topperk.datasets.simulated import simulate_world
from topperk.edges.explaining import report_of
from topperk.edges.measuring import Measured, measure
from topperk.edges.opening import made_folder
from topperk.edges.report import write_report
from topperk.edges.report_content import TruthCurve
from topperk.progress import Progress
from topperk.utility import F1, NDCG, PDCG, TP

REPORT = "report.html"
# What the report says where the default calibrator, UserPlatt(), estimates too little.
WHY_LOW = (
    "They are too low here, and the default calibrator is much of the reason: it draws each user's "
    "slope towards 0, so the best items seem less likely than they are. Where a list ends "
    'depends on the shape of its curve more than on the height. UserPlatt(prior="population") '
    "mostly comes closer to the truth, and its lists are worth more in some utilities and less in "
    'others. The page "Which calibrator?" of the documentation compares the two.'
)


def run_demo(
    folder: Path, *, n_users: int, n_items: int, seed: int, progress: Progress | None
) -> tuple[Measured, Path]:
    """Simulate, fit, measure, and write the report into ``folder`` (made where it is missing)."""
    begin = time.perf_counter()
    world = simulate_world(n_users, n_items, seed)
    made_folder(folder)
    max_k = min(50, n_items)
    utilities = (NDCG(), PDCG(), F1(), TP())
    model = PersonalizedK(F1(), max_k=max_k).fit(world.scores, world.split, progress=progress)
    measured = measure(
        model, world.scores, world.split, utilities, seed=seed, world=world, progress=progress
    )
    data = report_of(
        measured,
        world.scores,
        world.split,
        title="A simulated world",
        subtitle="How many items should each user be shown? Every true probability is known here, "
        "so the estimates can be held against the truth.",
        facts=(("seed", f"{seed}"), ("seconds", f"{time.perf_counter() - begin:.0f}")),
        world=world,
        truth_note=WHY_LOW if are_low(measured.truth) else "",
    )
    path = folder / REPORT
    write_report(path, data)
    return measured, path


def are_low(truth: Sequence[TruthCurve]) -> bool:
    """Whether the estimated curves all lie below the true ones, on average over the lengths."""
    return all(one.estimated_curve[1:].mean() < one.true_curve[1:].mean() for one in truth)
