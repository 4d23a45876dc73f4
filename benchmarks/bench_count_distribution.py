"""The distribution of the number of relevant items, beside fast-poibin, scipy and the paper.

9,000 items whose probabilities a calibrated recommender might give, 45 relevant ones expected. The
error is the l1 distance from the plain convolution in extended precision.

    python benchmarks/bench_count_distribution.py
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from fast_poibin import PoiBin
from scipy import special, stats
from side_by_side import in_turn, medians, record

from topperk import count_distribution

ITEMS, MEAN, SEED, REPETITIONS = 9000, 45.0, 0, 15
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


def main() -> None:
    p = catalogue()
    support = np.arange(p.size + 1)
    rivals = {
        "topperk": lambda: count_distribution(p),
        "fast-poibin": lambda: np.asarray(PoiBin(p).pmf),
        "scipy": lambda: stats.poisson_binom.pmf(support, p),
        "refined normal (the paper's)": lambda: refined_normal(p),
    }
    exact = convolution(p)
    errors = {}
    for name, run in rivals.items():
        found = np.zeros(exact.size)
        values = run()[: exact.size]
        found[: values.size] = values
        errors[name] = float(np.abs(found - exact).sum())
    seconds = medians(in_turn(rivals, REPETITIONS))
    print(f"{ITEMS:,} items, {p.sum():.1f} expected")
    for name, taken in seconds.items():
        ratio = taken / seconds["topperk"]
        print(f"  {name:30} {1e6 * taken:10.1f} µs {ratio:8.1f} x   l1 error {errors[name]:.1e}")
    result = {"items": ITEMS, "mean": MEAN, "seed": SEED, "repetitions": REPETITIONS}
    rows = {
        name: {
            "median_seconds": taken,
            "times_topperk": taken / seconds["topperk"],
            "l1_error": errors[name],
        }
        for name, taken in seconds.items()
    }
    record(__file__, {**result, "rivals": rows}, ("numpy", "numba", "fast-poibin", "scipy"))


if __name__ == "__main__":
    main()
