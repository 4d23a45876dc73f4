"""The report: what it says, what it draws, and how it behaves in a browser."""

from __future__ import annotations

import functools
import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from topperk.edges.report import (
    ItemExample,
    MethodRow,
    PairedTest,
    ReliabilityCurve,
    ReliabilitySection,
    ReportData,
    TruthCurve,
    UserExample,
    UtilitySection,
)

CHROMIUM = Path(os.environ.get("TOPPERK_CHROMIUM", "/usr/bin/chromium"))
MEANINGS = {
    "NDCG": "Relevant items count more the higher they stand; 1 is the best order possible.",
    "PDCG": "Like NDCG without the norm, and every irrelevant item shown costs as much.",
    "F1": "The balance of how much of the list is relevant and how much of what is relevant is "
    "in the list.",
    "TP": "The share of what could be hit in a list of this length that is hit.",
}


def utility_curves(y: Any, n_relevant: Any, max_k: int) -> dict[str, Any]:
    """Realised curves of four utilities for outcomes y[..., rank] in order of rank."""
    k = np.arange(1, max_k + 1)
    y = y[..., :max_k]
    m = np.maximum(n_relevant, 1)[..., None]
    discount = 1 / np.log2(1 + k)
    ideal = np.cumsum(discount)[np.minimum(m, k) - 1]
    gained, hits = np.cumsum(y * discount, -1), np.cumsum(y, -1)
    curves = {
        "NDCG": gained / ideal,
        "PDCG": gained - np.cumsum((1 - y) * discount, -1),
        "F1": 2 * hits / (m + k),
        "TP": hits / np.minimum(m, k),
    }
    return {name: np.insert(curve, 0, 0.0, axis=-1) for name, curve in curves.items()}


@functools.cache
def simulated_report(
    n_users: int = 150, n_items: int = 240, max_k: int = 50, seed: int = 3, samples: int = 60
) -> ReportData:
    """A report about Poisson-binomial users who differ in taste, breadth and activity."""
    rng = np.random.default_rng(seed)
    breadth = rng.uniform(0.8, 2.6, n_users)[:, None]
    activity = rng.normal(-3.6, 0.9, n_users)[:, None]
    logits = breadth * rng.normal(0, 1, (n_users, n_items)) + activity
    guesses = 0.95 * logits + 0.1 + rng.normal(0, 0.35, logits.shape)
    order = np.argsort(-guesses, axis=1)
    true, guess = (1 / (1 + np.exp(-np.take_along_axis(z, order, 1))) for z in (logits, guesses))
    relevant = rng.random(true.shape) < true
    kept = relevant.any(axis=1)
    realised = utility_curves(relevant, relevant.sum(1), max_k)

    def expected(p: Any) -> dict[str, Any]:
        total = dict.fromkeys(MEANINGS, np.zeros(1))
        for _ in range(samples):
            y = rng.random(p.shape) < p
            for name, curve in utility_curves(y, y.sum(1), max_k).items():
                total[name] = total[name] + curve / samples
        return total

    estimated, exact = expected(guess), expected(true)
    everyone = np.arange(n_users)
    sections, truths, chosen = [], [], {}
    for name, meaning in MEANINGS.items():
        curves = realised[name]
        k_personal = 1 + np.argmax(estimated[name][:, 1:], axis=1)
        k_oracle = 1 + np.argmax(curves[:, 1:], axis=1)
        chosen[name] = k_personal
        methods = {f"fixed {k}": np.full(n_users, k) for k in (1, 5, 10, 20, 50) if k <= max_k}
        methods |= {
            "random": rng.integers(1, max_k + 1, n_users),
            "Val-k": np.clip(k_oracle + rng.integers(-9, 9, n_users), 1, max_k),
            "personal": k_personal,
            "Oracle": k_oracle,
        }
        values = {method: curves[everyone, k][kept] for method, k in methods.items()}
        rows = []
        for method, k in methods.items():
            mean, half = values[method].mean(), 1.96 * values[method].std() / math.sqrt(kept.sum())
            fixed = int(k[0]) if method.startswith("fixed") else None
            row = (method, mean, mean - half, mean + half, k.mean(), float(np.median(k)), fixed)
            rows.append(MethodRow(*row))
        fixed_curve = curves[kept].mean(0)
        best = 1 + int(np.argmax(fixed_curve[1:]))
        tests = [
            PairedTest(row.method, float((values["personal"] - values[row.method]).mean()), 0.0004)
            for row in rows
            if row.method != "personal"
        ]
        tests.append(PairedTest(f"best fixed ({best})", 0.01, 0.003, fixed_k=best))
        sections.append(
            UtilitySection(
                name=name,
                meaning=meaning,
                fixed_curve=fixed_curve,
                methods=tuple(rows),
                personal=float(values["personal"].mean()),
                oracle=float(values["Oracle"].mean()),
                lengths_personal=np.bincount(k_personal[kept], minlength=max_k + 1),
                lengths_oracle=np.bincount(k_oracle[kept], minlength=max_k + 1),
                tests=tuple(tests),
                min_k=1,
            )
        )
        difference = float(np.abs(estimated[name] - exact[name]).mean())
        truths.append(TruthCurve(name, difference, estimated[name].mean(0), exact[name].mean(0)))

    by_length = np.argsort(chosen["F1"])
    examples = []
    for place in (0.15, 0.5, 0.93):
        user = int(by_length[int(place * (n_users - 1))])
        k = int(chosen["F1"][user])
        items = tuple(
            ItemExample(r + 1, f"item {order[user, r]}", guess[user, r], bool(relevant[user, r]))
            for r in range(max_k)
        )
        examples.append(
            UserExample(
                user=f"u{user}",
                headline=f"Gets {k} items: some {guess[user].sum():.0f} of {n_items} are expected "
                "to be wanted, and the first of them stand out.",
                k=k,
                expected_curve=estimated["F1"][user],
                realised_curve=realised["F1"][user],
                true_curve=exact["F1"][user],
                items=items,
            )
        )
    raw = 1 / (1 + np.exp(-(np.log(guess / (1 - guess)) * 0.6 + 0.8)))
    return ReportData(
        title="A simulated world",
        subtitle="topperk demo: how many items should each user be shown?",
        facts=(
            ("users", f"{n_users}"),
            ("items", f"{n_items}"),
            ("interactions", f"{int(relevant.sum()):,}"),
            ("longest list", f"{max_k}"),
            ("users without a test item, left out", f"{int((~kept).sum())}"),
            ("seed", f"{seed}"),
            ("topperk", "0.1.0"),
            ("python", "3.11.2"),
            ("machine", "x86_64, 2 cores"),
        ),
        utilities=tuple(sections),
        reliability=ReliabilitySection(
            "Before calibration",
            "After calibration",
            reliability_curve(raw, relevant),
            reliability_curve(guess, relevant),
        ),
        users=tuple(examples),
        estimated_vs_true=tuple(truths),
        users_utility="F1",
    )


def reliability_curve(p: Any, y: Any, n_bins: int = 12) -> ReliabilityCurve:
    p, y = p.ravel(), y.ravel()
    groups = np.array_split(np.argsort(p), n_bins)
    said = np.array([p[group].mean() for group in groups])
    seen = np.array([y[group].mean() for group in groups])
    count = np.array([len(group) for group in groups])
    ece = float((np.abs(said - seen) * count).sum() / count.sum())
    log_loss = float(-np.where(y, np.log(p), np.log1p(-p)).mean())
    return ReliabilityCurve(said, seen, count, ece, float(((p - y) ** 2).mean()), log_loss)
