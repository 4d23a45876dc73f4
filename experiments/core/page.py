"""README.md of this folder, and the figures in that of the project, drawn from result.json."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

TITLES = {"citeulike": "CiteULike-a", "movielens": "MovieLens 1M"}
OPPONENTS = ("best fixed k", "Val-k")
PERSONAL, ORACLE = "personal", "Oracle"
SIGNIFICANT = 0.05
SETTINGS = {
    "learning_rate": "the learning rate",
    "regularization": "the regularisation",
    "iterations": "the iterations",
}

HEAD = """\
# Personal lengths against fixed ones

This page is drawn by `run.py` from `result.json`; change neither by hand. `make figures` measures
everything anew (trained factors are kept in `experiments/.cache`; `run.py --fresh` trains again),
`run.py --only timing` the seconds and the memory alone, `run.py --render` draws the page. The data
folder is `TOPPERK_DATA`, or `../shared/data` beside the checkout.

Scores come from implicit's BPR with {factors} factors; every user's interactions are split at
random, 60/20/20; lists have at most {max_k} items. Means are over the users with a test
interaction, then over the seeds {seeds} (each seeds split, training and random lengths); ± is the
standard deviation over the seeds. *personal* is `PersonalizedK` as it comes: `UserPlatt` with the
ridge prior and the `shift` correction, exact expectations. *The paper's form* is
`method="paper"` (refined normal, M = {paper_terms}) with the `ratio` correction.
"""


@dataclass(frozen=True)
class Bar:
    """A bar, what was found, and whether that is enough."""

    what: str
    found: str
    met: bool


def page_of(result: dict[str, Any]) -> str:
    """The whole page."""
    seeds = ", ".join(map(str, result["seeds"]))
    sizes = {name: result[name] for name in ("factors", "max_k", "paper_terms")}
    parts = [
        HEAD.format(seeds=seeds, **sizes),
        "## Bars\n",
        "Values stand rounded to the side of missing the bar.\n",
        table(["bar", "found", "met"], ([b.what, b.found, yes(b.met)] for b in bars(result))),
        "## Realised utility\n",
    ]
    for name, figures in result["data_sets"].items():
        parts += realised(TITLES[name], figures)
    parts += beside_the_paper(result)
    parts += exact_and_paper(result)
    parts += costs(result)
    parts += tuning(result)
    parts += circumstances(result)
    return "\n".join(parts)


BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"


def front_page(text: str, result: dict[str, Any]) -> str:
    """The project's README with its figures made anew; the rest of the text stays."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{figures_in_short(result)}{END}{after}"


def figures_in_short(result: dict[str, Any]) -> str:
    """One table of means, and the seconds."""
    methods = {
        OPPONENTS[0]: "one length for all, best in hindsight",
        OPPONENTS[1]: "each user's best on validation",
        PERSONAL: "personal",
        ORACLE: "Oracle: each user's best on test",
    }
    rows = []
    for name, figures in result["data_sets"].items():
        for utility, means in figures["over_seeds"].items():
            values = {method: f"{means[method]['mean']:.4f}" for method in methods}
            values[PERSONAL] = f"**{values[PERSONAL]}**"
            rows.append([f"{TITLES[name]}, {utility}", *values.values()])
    header = ["", *methods.values()]
    parts = [
        "Mean realised utility on held-out interactions: scores from implicit's BPR with "
        f"{result['factors']} factors, 60/20/20 split at random, at most {result['max_k']} items, "
        f"{len(result['seeds'])} seeds.\n",
        table(header, rows),
    ]
    if "timing" in result:
        taken, imported = result["timing"]["fit_and_sizes"], result["timing"]["import"]
        machine = result["timing"]["machine"]
        parts.append(
            f"Fitting and choosing all lengths for MovieLens 1M takes {up(taken['seconds'], 1)} s "
            f"and {up(taken['peak_mb'], 0)} MB after compilation, importing topperk "
            f"{up(imported['best_seconds'], 2)} s ({machine['cores']} cores of an "
            f"{machine['processor']}).\n"
        )
    parts.append(
        "`make figures` measures all of this anew; "
        "[experiments/core](experiments/core/README.md) has the deviations, tests, lengths and the "
        "comparison with the paper's figures.\n"
    )
    return "\n".join(parts)


def bars(result: dict[str, Any]) -> Iterator[Bar]:
    """Every bar, judged by the unrounded values."""
    limits = result["bars"]
    for name, figures in result["data_sets"].items():
        for opponent in OPPONENTS:
            for utility in figures["over_seeds"]:
                tests = [run["tests"][utility][opponent] for run in figures["runs"]]
                least = min(one["difference"] for one in tests)
                sure = sum(one["difference"] > 0.0 and one["p_holm"] < SIGNIFICANT for one in tests)
                yield Bar(
                    f"{TITLES[name]}, {utility}: personal above {opponent} with every seed",
                    f"by {down(least, 4)} or more; p < {SIGNIFICANT} with {sure} of {len(tests)}",
                    least > 0.0,
                )
    means = result["data_sets"]["citeulike"]["over_seeds"]
    for utility, limit in limits["share_of_oracle"].items():
        share = means[utility][PERSONAL]["mean"] / means[utility][ORACLE]["mean"]
        yield Bar(
            f"CiteULike-a, {utility}: at least {100 * limit:g}% of the Oracle",
            f"{down(100 * share, 2)}%",
            share >= limit,
        )
    for utility, limit in limits["gap_to_oracle"].items():
        gap = means[utility][ORACLE]["mean"] - means[utility][PERSONAL]["mean"]
        yield Bar(
            f"CiteULike-a, {utility}: at most {limit:g} below the Oracle",
            up(gap, 4),
            gap <= limit,
        )
    if "timing" not in result:
        return
    taken, imported = result["timing"]["fit_and_sizes"], result["timing"]["import"]
    yield Bar(
        f"MovieLens 1M, fit and sizes within {limits['seconds']:g} s",
        f"{up(taken['seconds'], 1)} s",
        taken["seconds"] <= limits["seconds"],
    )
    yield Bar(
        f"MovieLens 1M, at most {limits['peak_mb']:g} MB",
        f"{up(taken['peak_mb'], 0)} MB",
        taken["peak_mb"] <= limits["peak_mb"],
    )
    yield Bar(
        f"`import topperk` within {limits['import_seconds']:g} s",
        f"{up(imported['best_seconds'], 2)} s",
        imported["best_seconds"] <= limits["import_seconds"],
    )
    yield Bar(
        "`import topperk` loads no optional library besides what numpy, numba and polars load",
        ", ".join(imported["optional_loaded"]) or "none",
        not imported["optional_loaded"],
    )


def realised(title: str, figures: dict[str, Any]) -> list[str]:
    """Means of all methods, and the tests of the personal one."""
    sizes = figures["statistics"]
    means = figures["over_seeds"]
    utilities = list(means)
    rows = [
        [method, *(spread(means[utility][method]) for utility in utilities)]
        for method in means[utilities[0]]
    ]
    lengths = [
        [method, *(f"{means[utility][method]['mean_k']:.1f}" for utility in utilities)]
        for method in means[utilities[0]]
        if method.startswith((PERSONAL, "Val", ORACLE, "best"))
    ]
    tests = [
        [
            f"{utility}, {opponent}",
            str(run["seed"]),
            f"{test['difference']:+.4f}",
            f"{test['t']:.2f}",
            probability(test["p_holm"]),
        ]
        for utility in utilities
        for opponent in OPPONENTS
        for run in figures["runs"]
        for test in [run["tests"][utility][opponent]]
    ]
    n_tests = figures["runs"][0]["tests"][utilities[0]]["n_tests_under_holm"]
    return [
        f"### {title}\n",
        f"{sizes['users']:,} users x {sizes['items']:,} items, {sizes['interactions']:,} "
        f"interactions (density {100 * sizes['density']:.2f}%); {sizes['train']:,} to train on, "
        f"{sizes['validation']:,} for validation, {sizes['test']:,} to test.\n",
        table(["", *utilities], rows),
        "Mean length of the lists:\n",
        table(["", *utilities], lengths),
        "*personal* minus the other: paired t-tests over users, with Holm's correction over the "
        f"{n_tests} methods that *personal* is compared with:\n",
        table(["against", "seed", "difference", "t", "p (Holm)"], tests),
    ]


def beside_the_paper(result: dict[str, Any]) -> list[str]:
    """CiteULike: the published values and ours, and both shares of the Oracle."""
    means, published = result["data_sets"]["citeulike"]["over_seeds"], result["published"]
    utilities = list(means)
    header = [""]
    for utility in utilities:
        header += [f"{utility}, paper", "ours"]
    rows = []
    for method in published[utilities[0]]:
        row = [method]
        for utility in utilities:
            row += [f"{published[utility][method]:.4f}", f"{means[utility][method]['mean']:.4f}"]
        rows.append(row)
    theirs = ["PerK, published"]
    for utility in utilities:
        theirs.append(reach(utility, published[utility][PERSONAL], published[utility][ORACLE]))
    parts = [
        "## Beside the paper\n",
        "CiteULike with BPR, Table 1 of *Top-Personalized-K Recommendation* (WWW 2024). Their "
        "BPR is another implementation with other training, so the shares of the Oracle compare "
        "better than the values.\n",
        table(header, rows),
        "Share of the Oracle; for PDCG, which is negative, the distance from it:\n",
        table(["", *utilities], [theirs, *shares(means)]),
    ]
    near = result["data_sets"]["citeulike"]["near_the_paper"]
    own = near["over_seeds"]
    oracle = ", ".join(f"{utility} {own[utility][ORACLE]['mean']:.4f}" for utility in utilities)
    parts += [
        "A distance grows with the strength of the base model. The same with a BPR about as "
        f"strong as theirs (learning rate {near['learning_rate']:g}, regularisation "
        f"{near['regularization']:g}, {near['iterations']} iterations; Oracle: {oracle}):\n",
        table(["", *utilities], [theirs, *shares(own)]),
    ]
    return parts


def shares(means: dict[str, Any]) -> list[list[str]]:
    """How near to the Oracle each personal method comes."""
    utilities = list(means)
    return [
        [
            method,
            *(
                reach(utility, means[utility][method]["mean"], means[utility][ORACLE]["mean"])
                for utility in utilities
            ),
        ]
        for method in means[utilities[0]]
        if method.startswith(PERSONAL)
    ]


def exact_and_paper(result: dict[str, Any]) -> list[str]:
    """The exact expectation against the paper's, on the same probabilities."""
    rows = []
    for name, figures in result["data_sets"].items():
        for utility in figures["over_seeds"]:
            for correction in ("shift", "ratio"):
                of_seed = [run["exact_and_paper"][utility][correction] for run in figures["runs"]]
                rows.append(
                    [
                        f"{TITLES[name]}, {utility}, {correction}",
                        f"{mean_of(of_seed, 'exact'):.5f}",
                        f"{mean_of(of_seed, 'paper'):.5f}",
                        f"{mean_of(of_seed, 'difference'):+.6f}",
                        probability(min(one["p"] for one in of_seed)),
                        f"{100 * mean_of(of_seed, 'share_of_users_with_another_k'):.2f}%",
                        f"{mean_of(of_seed, 'mean_k_difference'):.3f}",
                        str(max(one["largest_k_difference"] for one in of_seed)),
                        f"{max(one['largest_curve_difference'] for one in of_seed):.1e}",
                    ]
                )
    header = [
        "",
        "exact",
        "paper",
        "exact − paper",
        "smallest p",
        "users with another k",
        "mean distance of the two k",
        "largest",
        "largest difference of the expected curves",
    ]
    return [
        "## Exact against the paper's approximation\n",
        'The exact expectation against `method="paper"`, on the same probabilities (`UserPlatt` '
        "with the correction named). Realised utility, the paired test, lengths and expected "
        "curves; means over the seeds, and the smallest or largest of them where it says so. The p "
        "are single, without correction.\n",
        table(header, rows),
    ]


def costs(result: dict[str, Any]) -> list[str]:
    """Seconds and memory."""
    if "timing" not in result:
        return ["## Seconds and memory\n", "Not measured yet.\n"]
    timing = result["timing"]
    taken, imported = timing["fit_and_sizes"], timing["import"]
    rows = [
        [str(n + 1), *(f"{one[part]:.2f}" for part in ("fit", "sizes", "both"))]
        for n, one in enumerate(taken["repetitions"])
    ]
    machine = timing["machine"]
    return [
        "## Seconds and memory\n",
        f"MovieLens 1M, F1, `UserPlatt()`, {taken['threads']} threads, in an "
        f"interpreter of its own after compilation ({machine['processor']}, {machine['cores']} "
        f"cores, {timing['date']}). The bars judge the slowest repetition.\n",
        table(["repetition", "fit, s", "sizes, s", "both, s"], rows),
        f"Resident peak of the process: {up(taken['peak_mb'], 0)} MB, of which "
        f"{up(taken['peak_before_mb'], 0)} MB had been reached before the first fit (python, "
        "libraries, compiled code, data).\n",
        f"`import topperk`: {up(imported['best_seconds'], 3)} s, the best of "
        f"{len(imported['seconds'])} fresh interpreters. numpy, numba and polars load "
        f"{', '.join(imported['loaded_by_libraries'])}; topperk loads besides: "
        f"{', '.join(imported['loaded']) or 'nothing'}.\n",
    ]


def tuning(result: dict[str, Any]) -> list[str]:
    """The best points of each grid."""
    parts = ["## Tuning of the base model\n"]
    for name, figures in result["data_sets"].items():
        grid = sorted(
            figures["tuning"]["grid"], key=lambda row: row["validation_ndcg_at_50"], reverse=True
        )
        rows = [
            [
                f"{row['learning_rate']:g}",
                f"{row['regularization']:g}",
                str(row["iterations"]),
                f"{row['validation_ndcg_at_50']:.4f}",
            ]
            for row in grid[:5]
        ]
        parts += [
            f"{TITLES[name]}: the best five of {len(grid)} points, by the NDCG of the top 50 on "
            f"validation (split of seed {figures['tuning']['split_seed']}). The first serves all "
            "seeds; the rest of the grid is in `result.json`.\n",
            table(["learning rate", "regularisation", "iterations", "validation NDCG@50"], rows),
        ]
        edges = [
            words
            for setting, words in SETTINGS.items()
            if len({row[setting] for row in grid}) > 1
            and grid[0][setting]
            in (extreme(row[setting] for row in grid) for extreme in (min, max))
        ]
        if edges:
            parts.append(f"The first lies at the edge of the grid in {' and '.join(edges)}.\n")
    return parts


def circumstances(result: dict[str, Any]) -> list[str]:
    """Versions and machine, of each data set."""
    parts = ["## Circumstances\n"]
    for name, figures in result["data_sets"].items():
        versions = ", ".join(f"{name} {number}" for name, number in figures["versions"].items())
        machine = figures["machine"]
        parts.append(
            f"{TITLES[name]}: {versions}; {machine['processor']}, {machine['cores']} cores; "
            f"{figures['date']}; {figures['wall_seconds'] / 60:.0f} minutes (trainings in the "
            "cache took none).\n"
        )
    return parts


def table(header: Sequence[str], rows: Iterator[list[str]] | list[list[str]]) -> str:
    """A Markdown table, and the empty line after it."""
    lines = [list(header), ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def spread(values: dict[str, Any]) -> str:
    """Mean and deviation."""
    deviation = values["deviation"]
    return f"{values['mean']:.4f}" + ("" if deviation is None else f" ± {deviation:.4f}")


def reach(utility: str, own: float, oracle: float) -> str:
    """How near to the Oracle: a share, or for PDCG a distance."""
    return f"{up(oracle - own, 4)}" if utility == "PDCG" else f"{down(100 * own / oracle, 2)}%"


def probability(p: float | None) -> str:
    """A p-value, to two digits."""
    if p is None:
        return "–"
    return "< 1e-16" if p < 1e-16 else f"{p:.2g}"


def mean_of(rows: list[dict[str, Any]], name: str) -> float:
    return float(sum(row[name] for row in rows) / len(rows))


def yes(met: bool) -> str:
    return "yes" if met else "**missed**"


def down(value: float, digits: int) -> str:
    """Rounded towards minus infinity."""
    return str(Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), ROUND_FLOOR))


def up(value: float, digits: int) -> str:
    """Rounded towards plus infinity."""
    return str(Decimal(repr(value)).quantize(Decimal(1).scaleb(-digits), ROUND_CEILING))
