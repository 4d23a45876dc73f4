"""The expected utility of every list length for one user, beside Eq. 7d as the paper writes it.

9,000 items whose probabilities a calibrated recommender might give, 45 relevant ones expected,
lengths up to 50. Eq. 7d is expected NDCG: for each k a sum over the counts m = 1..M, M = 2,000, of
a sum over the ranks; the distribution of the count is the refined normal approximation, computed
once. topperk is asked for one user in a call of its own, and for many in one call.
*As printed*: both sums in numpy for each k, as Algorithm 1 asks. *Rearranged*: the sum over
the ranks is taken out of that over the counts, and all k are done in one matrix product, which the
paper does not say but anybody may do who looks for speed. topperk's values are exact.

    python benchmarks/bench_expected_utility.py [--quick]
"""

from __future__ import annotations

import numpy as np
from bench_count_distribution import Array, catalogue
from scipy import stats
from side_by_side import asked, checked, claim, in_turn, on_one_thread, record

import topperk as tp

MAX_K, PAPER_TERMS, USERS = 50, 2000, 200
UTILITIES = {"F1": tp.F1(), "NDCG": tp.NDCG(), "TP": tp.TP(), "PDCG": tp.PDCG()}


def count_chances(p: Array) -> Array:
    """P(S = m) for m = 0..M-1 by the refined normal approximation."""
    mean, variance = p.sum(), (p * (1 - p)).sum()
    skewness = (p * (1 - p) * (1 - 2 * p)).sum() / variance**1.5
    x = (np.arange(PAPER_TERMS + 1) - 0.5 - mean) / np.sqrt(variance)
    cdf = stats.norm.cdf(x) + skewness * (1 - x**2) * stats.norm.pdf(x) / 6
    chances: Array = np.diff(np.clip(cdf, 0.0, 1.0))
    return chances


DISCOUNT = 1.0 / np.log2(1.0 + np.arange(1, MAX_K + 1))
IDEAL = np.cumsum(DISCOUNT)
COUNTS = np.arange(1, PAPER_TERMS + 1)
INVERSE = 1.0 / IDEAL[np.minimum(COUNTS, np.arange(1, MAX_K + 1)[:, None]) - 1]


def as_printed(p: Array) -> Array:
    """Expected NDCG of the lengths 1..MAX_K by Eq. 7d; ``p`` descends."""
    chances = count_chances(p)
    expected = np.empty(MAX_K)
    for k in range(1, MAX_K + 1):
        terms = p[:k, None] * chances * DISCOUNT[:k, None]
        expected[k - 1] = (terms.sum(axis=0) / IDEAL[np.minimum(COUNTS, k) - 1]).sum()
    return expected


def rearranged(p: Array) -> Array:
    """The same values: the sum over the ranks does not depend on m."""
    expected: Array = np.cumsum(p[:MAX_K] * DISCOUNT) * (INVERSE @ count_chances(p))
    return expected


def main() -> None:
    quick = asked(__doc__).quick
    p = np.sort(catalogue())[::-1].copy()
    rivals = {name: lambda u=u: u.expected(p, MAX_K) for name, u in UTILITIES.items()}
    users = np.tile(p, (USERS, 1))
    rivals["batch"] = lambda: UTILITIES["NDCG"].expected(users, MAX_K)
    rivals |= {"printed": lambda: as_printed(p), "rearranged": lambda: rearranged(p)}
    with on_one_thread():
        taken = in_turn(rivals, 30 if quick else 200)
    exact, printed = UTILITIES["NDCG"].expected(p, MAX_K)[1:], as_printed(p)
    apart = float(np.abs(printed / exact - 1.0).max())
    if not np.allclose(printed, rearranged(p), rtol=1e-10):
        raise ValueError("the two forms of Eq. 7d differ")
    print(f"{p.size:,} items, {p.sum():.1f} expected; Eq. 7d is {100 * apart:.2g} % off at most")
    work = f"expected {{}} of all lengths up to {MAX_K}"
    taken["batch"] = [seconds / USERS for seconds in taken["batch"]]
    claims = [
        claim(
            f"{work.format('NDCG')}, {how}",
            f"Eq. 7d in numpy as printed, M = {PAPER_TERMS:,}",
            taken[ours],
            taken["printed"],
            at_least=100.0,
        )
        for ours, how in (("batch", f"each of {USERS} users at once"), ("NDCG", "one call"))
    ]
    claims += [
        claim(
            work.format(name),
            f"Eq. 7d in numpy rearranged, M = {PAPER_TERMS:,}",
            taken[name],
            taken["rearranged"],
        )
        for name in UTILITIES
    ]
    checked(claims)
    if quick:
        return
    result = {
        "items": p.size,
        "mean": float(p.sum()),
        "max_k": MAX_K,
        "relative_error_of_the_paper": apart,
        "claims": claims,
    }
    record(__file__, result, ("numpy", "numba", "scipy"))


if __name__ == "__main__":
    main()
