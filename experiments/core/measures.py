"""What is measured of one data set with one seed: every method, and exact against paper."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import topperk as tp

UTILITIES: dict[str, tp.Utility] = {
    "NDCG": tp.NDCG(),
    "PDCG": tp.PDCG(),
    "F1": tp.F1(),
    "TP": tp.TP(),
}
BEST_FIXED = "best fixed k"
PERSONAL = "personal"
PAPER = "personal, the paper's form"
VALIDATION = "Val-k"
ORACLE = "Oracle"
# Personal methods besides the default: the name, and the calibrator.
VARIANTS: dict[str, tp.Calibrator] = {
    "personal, GlobalPlatt": tp.GlobalPlatt(),
    "personal, no correction": tp.UserPlatt("none"),
    "personal, ratio": tp.UserPlatt("ratio"),
    "personal, odds": tp.UserPlatt("odds"),
    "personal, c = 10": tp.UserPlatt(c=10.0),
}


def measure(
    scores: tp.Factors, split: tp.Split, *, seed: int, max_k: int, paper_terms: int
) -> dict[str, Any]:
    """All figures of one data set and seed."""
    calibrations = {
        name: calibrator.fit(scores, split)
        for name, calibrator in {PERSONAL: tp.UserPlatt(), **VARIANTS}.items()
    }
    kinds = ("methods", "fixed_curves", "tests", "exact_and_paper")
    figures: dict[str, Any] = {"seed": seed, **{kind: {} for kind in kinds}}
    for name, utility in UTILITIES.items():
        methods = tp.usual_methods(
            utility, max_k=max_k, calibrator=calibrations[PERSONAL], seed=seed
        )
        oracle = methods.pop(ORACLE)
        for variant in VARIANTS:
            methods[variant] = tp.PersonalizedK(utility, 1, max_k, calibrations[variant])
        methods[PAPER] = tp.PersonalizedK(
            utility, 1, max_k, calibrations["personal, ratio"], "paper", paper_terms
        )
        methods[ORACLE] = oracle
        found = tp.evaluate(methods, scores, split, utility)
        figures["n_users_judged"] = found.n_users
        figures["methods"][name] = outcomes(found)
        figures["fixed_curves"][name] = found.fixed_curve.tolist()
        figures["tests"][name] = tests(found)
        figures["exact_and_paper"][name] = {
            correction: exact_and_paper(
                utility, calibrations[variant], scores, split, max_k, paper_terms
            )
            for correction, variant in (("shift", PERSONAL), ("ratio", "personal, ratio"))
        }
    return figures


def outcomes(found: tp.Evaluation) -> dict[str, dict[str, float]]:
    """Mean realised utility and mean length of every method, the best fixed one included."""
    best = found.best_fixed_k
    rows = {
        row["method"]: {"mean": row["mean"], "mean_k": row["mean_k"]}
        for row in found.summary().iter_rows(named=True)
    }
    oracle = rows.pop(ORACLE)
    rows[BEST_FIXED] = {"mean": float(found.fixed_curve[best]), "mean_k": float(best)}
    return {**rows, ORACLE: oracle}


def tests(found: tp.Evaluation) -> dict[str, Any]:
    """Personal against the best fixed length and Val-k, of all the pairs tested together."""
    rows = list(found.tests(PERSONAL).iter_rows(named=True))
    wanted = {f"best fixed ({found.best_fixed_k})": BEST_FIXED, VALIDATION: VALIDATION}
    compared = {
        wanted[row["other"]]: {
            "difference": row["difference"],
            "t": row["t"],
            "p": row["p"],
            "p_holm": row["p_holm"],
        }
        for row in rows
        if row["other"] in wanted
    }
    return {"n_tests_under_holm": len(rows), **compared}


def exact_and_paper(
    utility: tp.Utility,
    calibration: tp.Calibration,
    scores: tp.Factors,
    split: tp.Split,
    max_k: int,
    paper_terms: int,
) -> dict[str, Any]:
    """The exact expectation against the paper's approximation, on the same probabilities."""
    exact = tp.PersonalizedK(utility, 1, max_k, calibration).fit(scores, split)
    paper = tp.PersonalizedK(utility, 1, max_k, calibration, "paper", paper_terms).fit(
        scores, split
    )
    found = tp.evaluate({"exact": exact, "paper": paper}, scores, split)
    test = next(
        row for row in found.tests("exact").iter_rows(named=True) if row["other"] == "paper"
    )
    one, other = found.method("exact"), found.method("paper")
    gap = np.abs(one.k.astype(np.int64) - other.k)
    error = np.abs(
        exact.curves(scores)["expected_utility"].to_numpy()
        - paper.curves(scores)["expected_utility"].to_numpy()
    )
    return {
        "exact": float(one.realised.mean()),
        "paper": float(other.realised.mean()),
        "difference": test["difference"],
        "t": test["t"],
        "p": test["p"],
        "share_of_users_with_another_k": float((gap > 0).mean()),
        "mean_k_difference": float(gap.mean()),
        "largest_k_difference": int(gap.max()),
        "largest_curve_difference": float(error.max()),
    }


def over_seeds(runs: list[dict[str, Any]]) -> dict[str, dict[str, dict[str, float]]]:
    """Mean and standard deviation over the seeds, for each utility and method."""
    together: dict[str, dict[str, dict[str, float]]] = {}
    for utility in UTILITIES:
        together[utility] = {}
        for method in runs[0]["methods"][utility]:
            of_seed = [run["methods"][utility][method] for run in runs]
            means = np.array([one["mean"] for one in of_seed])
            together[utility][method] = {
                "mean": float(means.mean()),
                "deviation": float(means.std(ddof=1)) if means.size > 1 else math.nan,
                "mean_k": float(np.mean([one["mean_k"] for one in of_seed])),
            }
    return together


def describe(data: tp.Interactions, split: tp.Split) -> dict[str, Any]:
    """The sizes of a data set."""
    return {
        "users": data.n_users,
        "items": data.n_items,
        "interactions": data.n_interactions,
        "density": data.n_interactions / (data.n_users * data.n_items),
        "train": split.train.n_interactions,
        "validation": split.validation.n_interactions,
        "test": split.test.n_interactions,
    }
