"""The distribution of the number of relevant items, beside fast-poibin, scipy and the paper.

9,000 items whose probabilities a calibrated recommender might give, 45 relevant ones expected. The
error is the l1 distance from the plain convolution in extended precision.

    python benchmarks/bench_count_distribution.py [--quick]
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from fast_poibin import PoiBin
from scipy import special, stats
from side_by_side import asked, checked, claim, in_turn, on_one_thread, record

from topperk import count_distribution
from topperk._kernels.counting import MANY_SUMS, odds_power_sums_few

ITEMS, MEAN, SEED = 9000, 45.0, 0
PAPER_TERMS = 3000  # the M of the authors' notebook

Array = npt.NDArray[np.float64]


def catalogue() -> Array:
    """Normal logits, moved so that MEAN items are expected to be relevant."""
    logits = np.random.default_rng(SEED).normal(0.0, 1.6, ITEMS)
    low, high = -40.0, 40.0
    for _ in range(100):
        middle = (low + high) / 2.0
        low, high = (middle, high) if special.expit(logits + middle).sum() < MEAN else (low, middle)
    p: Array = special.expit(logits + low)
    return p


def convolution(p: Array) -> npt.NDArray[np.longdouble]:
    """P(S = m) for m = 0..n, one item after the other."""
    pmf = np.zeros(p.size + 1, dtype=np.longdouble)
    pmf[0] = 1.0
    for i, hit in enumerate(p.astype(np.longdouble)):
        pmf[1 : i + 2] = pmf[1 : i + 2] * (1 - hit) + pmf[: i + 1] * hit
        pmf[0] *= 1 - hit
    return pmf


def refined_normal(p: Array) -> Array:
    """The paper's approximation for m = 0..M-1, vectorised."""
    mean, variance = p.sum(), (p * (1 - p)).sum()
    skewness = (p * (1 - p) * (1 - 2 * p)).sum() / variance**1.5
    x = (np.arange(PAPER_TERMS + 1) - 0.5 - mean) / np.sqrt(variance)
    cdf = stats.norm.cdf(x) + skewness * (1 - x**2) * stats.norm.pdf(x) / 6
    pmf: Array = np.diff(cdf)
    return pmf


def times(calls: int, run: Callable[[], object]) -> Callable[[], None]:
    """Several calls in a turn: one takes microseconds."""

    def together() -> None:
        for _ in range(calls):
            run()

    return together


def main() -> None:
    quick = asked(__doc__).quick
    p = catalogue()
    support = np.arange(p.size + 1)
    bars = {
        "fast-poibin": 100.0,
        "scipy.stats.poisson_binom": 100.0,
        f"the paper's refined normal, M = {PAPER_TERMS:,}": 50.0,
    }
    fast, scipy, refined = bars
    sums = np.empty(MANY_SUMS + 1)
    rivals: dict[str, Callable[[], Array]] = {
        "topperk": lambda: count_distribution(p),
        fast: lambda: np.asarray(PoiBin(p).pmf),
        scipy: lambda: stats.poisson_binom.pmf(support, p),
        refined: lambda: refined_normal(p),
    }
    exact = convolution(p)
    errors = {}
    for name, run in rivals.items():
        found = np.zeros(exact.size)
        values = run()[: exact.size]
        found[: values.size] = values
        errors[name] = float(np.abs(found - exact).sum())
    if errors["topperk"] > 1e-9:
        sys.exit(f"Nothing is reported: topperk's l1 error is {errors['topperk']:.1e}.")
    # scipy takes seconds: it has turns of its own, and fewer
    with on_one_thread():
        repetitions = (25, 3) if quick else (100, 7)
        names = ((fast, refined), (scipy,))
        turns: dict[str, tuple[list[float], list[float]]] = {}
        for others, n, calls in zip(names, repetitions, (20, 2000), strict=True):
            pair = {"topperk": times(calls, rivals["topperk"])} | {x: rivals[x] for x in others}
            pair["sums"] = times(calls, lambda: odds_power_sums_few(p, sums))
            taken = in_turn(pair, n, warm_up=n > 10)
            ours = [seconds / calls for seconds in taken["topperk"]]
            turns |= {name: (ours, taken[name]) for name in others}
            if refined in others:
                alone = [seconds / calls for seconds in taken["sums"]], taken[refined]
    work = f"count distribution of {ITEMS:,} items, {MEAN:.0f} expected"
    claims = [claim(work, name, *turns[name], at_least=least) for name, least in bars.items()]
    claims.append(claim("the odds power sums alone, one pass over the items", refined, *alone))
    print(", ".join(f"l1 error of {name} {error:.1e}" for name, error in errors.items()))
    checked(claims)
    if quick:
        return
    result = {"items": ITEMS, "mean": MEAN, "seed": SEED, "l1_errors": errors, "claims": claims}
    record(__file__, result, ("numpy", "numba", "fast-poibin", "scipy"))


if __name__ == "__main__":
    main()
