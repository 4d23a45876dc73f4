"""Slow and obvious twins of the fast kernels.

Each is written from the definition and shares no code with topperk, so that the two can only agree
by both being right. Nothing here is meant to be fast.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from scipy import stats

Array = npt.NDArray[np.float64]

# --- the number of relevant items -------------------------------------------------------------


def count_pmf(p: Sequence[float] | Array) -> Array:
    """P(S = m), m = 0..n: one item after the other, by plain convolution."""
    pmf = np.ones(1)
    for q in np.asarray(p, dtype=np.float64):
        longer = np.zeros(pmf.size + 1)
        longer[:-1] += (1.0 - q) * pmf
        longer[1:] += q * pmf
        pmf = longer
    return pmf


def count_pmf_in_fractions(p: Iterable[float]) -> list[Fraction]:
    """As ``count_pmf``, without any rounding: a float is a fraction."""
    pmf = [Fraction(1)]
    for q in map(Fraction, map(float, p)):
        without, within = [*pmf, Fraction(0)], [Fraction(0), *pmf]
        pmf = [(1 - q) * a + q * b for a, b in zip(without, within, strict=True)]
    return pmf


def binomial_pmf(n: int, p: float) -> Array:
    """P(S = m), m = 0..n, of n equal items, each multiplied out of its neighbour near the mode."""
    mode = min(n, int((n + 1) * p))
    pmf = np.zeros(n + 1)
    pmf[mode] = 1.0
    for m in range(mode, n):
        pmf[m + 1] = pmf[m] * ((n - m) * p / ((m + 1) * (1.0 - p)))
    for m in range(mode, 0, -1):
        pmf[m - 1] = pmf[m] * (m * (1.0 - p) / ((n - m + 1) * p))
    return pmf / math.fsum(pmf)


def leave_one_out(p: Sequence[float] | Array, r: int) -> Array:
    """P(S - Y_r = m), m = 0..n-1: the distribution of the others, computed afresh."""
    return count_pmf(np.delete(np.asarray(p, dtype=np.float64), r))


def count_pmf_refined_normal(p: Sequence[float] | Array, n_terms: int) -> Array:
    """Volkova's refined normal: G(m + 1/2) - G(m - 1/2), m = 0..n_terms-1."""
    p = np.asarray(p, dtype=np.float64)
    mean, variance = p.sum(), (p * (1.0 - p)).sum()
    if variance == 0.0:
        return (np.arange(n_terms) == round(mean)).astype(np.float64)
    sigma = math.sqrt(variance)
    skewness = (p * (1.0 - p) * (1.0 - 2.0 * p)).sum() / sigma**3
    x = (np.arange(n_terms + 1) - 0.5 - mean) / sigma
    g = stats.norm.cdf(x) + skewness * (1.0 - x**2) * stats.norm.pdf(x) / 6.0
    return np.diff(g)


# --- what a list is worth, by the definition of each measure ----------------------------------

# The worth of the first k items: hits (0/1, in order, the first k) and the number of all relevant.
Measure = Callable[[Sequence[int], int], float]


def dcg(hits: Sequence[int], n_relevant: int) -> float:
    """Each hit counts 1 / log2(1 + rank)."""
    return sum(1.0 / math.log2(1 + rank) for rank, hit in enumerate(hits, 1) if hit)


def ndcg(hits: Sequence[int], n_relevant: int) -> float:
    """DCG by that of the best list of the same length (Eq. 6)."""
    best = [1] * min(n_relevant, len(hits))
    return dcg(hits, n_relevant) / dcg(best, n_relevant) if best else 0.0


def pdcg(hits: Sequence[int], n_relevant: int) -> float:
    """A hit adds 1 / log2(1 + rank), another item subtracts it (Eq. 8)."""
    return sum((1 if hit else -1) / math.log2(1 + rank) for rank, hit in enumerate(hits, 1))


def precision(hits: Sequence[int], n_relevant: int) -> float:
    """Hits by the length of the list."""
    return sum(hits) / len(hits) if hits else 0.0


def recall(hits: Sequence[int], n_relevant: int) -> float:
    """Hits by all relevant items."""
    return sum(hits) / n_relevant if n_relevant else 0.0


def f_beta(beta: float) -> Measure:
    """The weighted harmonic mean of precision and recall (Eq. 10), 0 where either is 0."""

    def measure(hits: Sequence[int], n_relevant: int) -> float:
        p, r = precision(hits, n_relevant), recall(hits, n_relevant)
        return (1 + beta**2) * p * r / (beta**2 * p + r) if p > 0 and r > 0 else 0.0

    return measure


def tp(hits: Sequence[int], n_relevant: int) -> float:
    """Hits by the most there could have been (Eq. 12)."""
    possible = min(len(hits), n_relevant)
    return sum(hits) / possible if possible else 0.0


def net_gain(gain: float, cost: float) -> Measure:
    """``gain`` for every hit, ``-cost`` for every other item."""
    return lambda hits, n_relevant: sum(gain if hit else -cost for hit in hits)


def three_arrays(discount: Array, penalty: Array, normaliser: Array) -> Measure:
    """U_k = h(m, k) sum w(r) Y_r - sum v(r) (1 - Y_r), with h = ``normaliser[m - 1, k - 1]``."""

    def measure(hits: Sequence[int], n_relevant: int) -> float:
        gain = sum(discount[r] for r, hit in enumerate(hits) if hit)
        cost = sum(penalty[r] for r, hit in enumerate(hits) if not hit)
        return (normaliser[n_relevant - 1, len(hits) - 1] * gain if gain else 0.0) - cost

    return measure


def realised_curve(measure: Measure, hits: Sequence[int], n_relevant: int, max_k: int) -> Array:
    """U_k for k = 0..max_k; the empty list is worth 0."""
    curve = [measure([int(hit) for hit in hits[:k]], n_relevant) for k in range(1, max_k + 1)]
    return np.array([0.0, *curve])


def expected_curve(measure: Measure, p: Sequence[float] | Array, max_k: int) -> Array:
    """E[U_k] for k = 0..max_k, over all 2^n outcomes."""
    p = np.asarray(p, dtype=np.float64)
    curve = np.zeros(max_k + 1)
    for outcome in itertools.product((0, 1), repeat=p.size):
        probability = math.prod(q if y else 1.0 - q for q, y in zip(p, outcome, strict=True))
        if probability > 0.0:
            curve += probability * realised_curve(measure, outcome, sum(outcome), max_k)
    return curve


@dataclass(frozen=True)
class PaperMeasure:
    """What is summed over the list (``discounts``) and what it is divided by, in Eq. 7d, 11, 13."""

    numerator: Callable[[int], float]
    denominator: Callable[[int, int], float]


PAPER_MEASURES = {
    "NDCG": PaperMeasure(
        lambda r: 1.0 / math.log2(1 + r),
        lambda m, k: sum(1.0 / math.log2(1 + r) for r in range(1, min(m, k) + 1)),
    ),
    "F1": PaperMeasure(lambda r: 2.0, lambda m, k: m + k),
    "TP": PaperMeasure(lambda r: 1.0, lambda m, k: min(k, m)),
}


def expected_curve_paper(name: str, p: Sequence[float] | Array, max_k: int, n_terms: int) -> Array:
    """Eq. 7d (NDCG), 11 (F1) and 13 (TP) as printed: sum over m of P(S = m - 1) num / den."""
    measure = PAPER_MEASURES[name]
    pmf = count_pmf_refined_normal(p, n_terms)
    curve = np.zeros(max_k + 1)
    for k in range(1, max_k + 1):
        for m in range(1, n_terms + 1):
            top = sum(measure.numerator(r) * p[r - 1] * pmf[m - 1] for r in range(1, k + 1))
            curve[k] += top / measure.denominator(m, k)
    return curve


def best_length(curve: Sequence[float] | Array, min_k: int, max_k: int, tie: float) -> int:
    """The smallest k in min_k..max_k within ``tie`` (relative to 1 or the best) of the best."""
    values = list(curve)[: max_k + 1]
    low = min(min_k, len(values) - 1)
    best = max(values[low:])
    margin = tie * max(1.0, abs(best))
    return next(k for k in range(low, len(values)) if values[k] >= best - margin)


# --- blocks of scores -------------------------------------------------------------------------


def top_positions(scores: Sequence[float] | Array, n: int) -> list[int]:
    """The n best candidates in order, equal scores by position; minus infinity is none."""
    there = [i for i, s in enumerate(scores) if s != -math.inf]
    return sorted(there, key=lambda i: (-scores[i], i))[:n]


def excluded(scores: dict[int, float], seen: Iterable[int]) -> dict[int, float]:
    """One user's scores by item, minus infinity for what was seen."""
    gone = set(seen)
    return {item: -math.inf if item in gone else s for item, s in scores.items()}


def hits_of(listed: Sequence[int], positives: Iterable[int]) -> list[float]:
    """1.0 for every listed position (-1: an empty place) that is among the positives."""
    wanted = set(positives)
    return [1.0 if position in wanted else 0.0 for position in listed]


# --- interactions -----------------------------------------------------------------------------

Pair = tuple[object, object]


def latest_rows(rows: Sequence[tuple[object, object, float]]) -> dict[Pair, int]:
    """For each (user, item) of rows ``user, item, time`` the row that stays: latest, then last."""
    kept: dict[Pair, int] = {}
    for n, (user, item, time) in enumerate(rows):
        if (user, item) not in kept or time >= rows[kept[user, item]][2]:
            kept[user, item] = n
    return kept


def _how_many(pairs: Iterable[Pair], side: int) -> Counter[object]:
    return Counter(pair[side] for pair in pairs)


def frequent(pairs: set[Pair], min_per_user: int, min_per_item: int) -> set[Pair]:
    """Pairs of users and items that are frequent enough, both counted before any has left."""
    users, items = _how_many(pairs, 0), _how_many(pairs, 1)
    return {(u, i) for u, i in pairs if users[u] >= min_per_user and items[i] >= min_per_item}


def core(pairs: set[Pair], k: int) -> set[Pair]:
    """One rare user or item after the other leaves until none is rare."""
    pairs = set(pairs)
    while True:
        for side in (0, 1):
            rare = [x for x, n in _how_many(pairs, side).items() if n < k]
            if rare:
                pairs = {pair for pair in pairs if pair[side] != rare[0]}
                break
        else:
            return pairs


def part_sizes(n: int, validation: float, test: float) -> tuple[int, int, int]:
    """Train, validation and test of a user with n interactions, after the rule as written."""
    n_test, n_validation = math.floor(n * test + 0.5), math.floor(n * validation + 0.5)
    return part_sizes_of_counts(n, n_validation, n_test)


def part_sizes_of_counts(n: int, n_validation: int, n_test: int) -> tuple[int, int, int]:
    """At least one is kept for training: test gives back first, then validation."""
    n_validation, n_test = min(n, n_validation), min(n, n_test)
    while n and n_test + n_validation > n - 1:
        if n_test:
            n_test -= 1
        else:
            n_validation -= 1
    return n - n_validation - n_test, n_validation, n_test


# --- calibration ------------------------------------------------------------------------------


def sigmoid(z: Array) -> Array:
    """1 / (1 + exp(-z)), from the side that does not overflow."""
    e = np.exp(-np.abs(z))
    return np.where(z >= 0.0, 1.0 / (1.0 + e), e / (1.0 + e))


def tail_odds_power_sums(logits: Array, ratio: float, as_odds: bool, edge: float) -> list[float]:
    """The first six power sums of the odds of what is less probable than ``edge``."""
    sums = [0.0] * 7
    for z in logits.tolist():
        if z > -math.inf:
            p = math.exp(z) if as_odds else ratio / (1.0 + math.exp(-z))
            if p < edge:
                for j in range(1, 7):
                    sums[j] += (p / (1.0 - p)) ** j
    return sums


def logistic_sums(y: Array, a: float, b: float) -> list[float]:
    """Sums of log(1 + e^z), p, p y, w, w y and w y^2, term by term."""
    sums = [0.0] * 6
    for value in y.tolist():
        z = a * value + b
        p = 1.0 / (1.0 + math.exp(-z)) if z > -700.0 else 0.0
        w = p * (1.0 - p)
        log = math.log1p(math.exp(z)) if z < 30.0 else z
        for n, term in enumerate((log, p, p * value, w, w * value, w * value**2)):
            sums[n] += term
    return sums


def logistic_fit(
    scores: Array, labels: Array, mean: Array, precision: Array, steps: int = 5000
) -> tuple[Array, Array]:
    """(slope, intercept) of a logistic regression under a Gaussian prior, and its covariance.

    Newton's method on explicit labels, halving a step until the loss falls.
    """
    x = np.column_stack([scores, np.ones(len(scores))])

    def loss(theta: Array) -> float:
        z, off = x @ theta, theta - mean
        return float(np.logaddexp(0.0, z).sum() - labels @ z + 0.5 * off @ precision @ off)

    theta = mean.astype(np.float64)
    for _ in range(steps):
        p = sigmoid(x @ theta)
        gradient = x.T @ (p - labels) + precision @ (theta - mean)
        hessian = (x * (p * (1.0 - p))[:, None]).T @ x + precision
        step = np.linalg.solve(hessian, gradient)
        while loss(theta - step) > loss(theta) + 1e-12 and np.abs(step).max() > 1e-12:
            step /= 2.0
        theta = theta - step
        if np.abs(step).max() <= 1e-12 * (1.0 + np.abs(theta).max()):
            break
    return theta, np.linalg.inv(hessian)


def ridge_fit(scores: Array, labels: Array, c: float) -> Array:
    """(slope, intercept) of scikit-learn's LogisticRegression(C=c): the intercept is free."""
    start = np.zeros(2)
    return logistic_fit(scores, labels, start, np.array([[1.0 / c, 0.0], [0.0, 0.0]]))[0]


def population_prior(
    users: Sequence[tuple[Array, Array]], mean: Array, rounds: int, settled: float
) -> tuple[Array, Array, Array]:
    """Empirical Bayes by EM over the users' (scores, labels): mean, covariance, their parameters.

    Begins from the covariance I/4. A round sets the mean to that of the users' parameters and the
    covariance to theirs plus the mean of their own, until the mean moves by less than ``settled``
    standard deviations.
    """
    covariance = 0.25 * np.eye(2)
    for n in range(rounds + 1):
        fits = [logistic_fit(s, y, mean, np.linalg.inv(covariance)) for s, y in users]
        theta = np.array([fit[0] for fit in fits])
        if n == rounds:
            break
        old = mean
        mean = theta.mean(axis=0)
        covariance = np.cov(theta.T, bias=True) + np.mean([fit[1] for fit in fits], axis=0)
        if (np.abs(mean - old) < settled * np.sqrt(np.diag(covariance))).all():
            fits = [logistic_fit(s, y, mean, np.linalg.inv(covariance)) for s, y in users]
            theta = np.array([fit[0] for fit in fits])
            break
    return mean, covariance, theta


def held_out_corrected(correction: str, logits: Array, validation: npt.NDArray[np.bool_]) -> Array:
    """Probabilities of the items that remain when a user's validation items leave the list."""
    rest, p = logits[~validation], sigmoid(logits)
    if correction == "none":
        return p[~validation]
    if correction == "ratio":
        return np.minimum(1.0, p[~validation] * p.sum() / p[~validation].sum())
    if correction == "odds":
        return np.minimum(0.98, p[~validation] / (1.0 - p[~validation]))
    low, high = -60.0, 60.0
    for _ in range(200):
        middle = (low + high) / 2.0
        if sigmoid(rest + middle).sum() < p.sum():
            low = middle
        else:
            high = middle
    return sigmoid(rest + low)


def expected_curve_by_counts(measure: Measure, p: Array, max_k: int) -> Array:
    """E[U_k] for k = 0..max_k, hit by hit: what each is worth when m are relevant in all.

    For measures that are sums over the list once m is given; ``p`` is in the order of the list.
    """
    others = [leave_one_out(p, r) for r in range(max_k)]
    curve = np.zeros(max_k + 1)
    for k in range(1, max_k + 1):
        without = measure([0] * k, 1)
        curve[k] = without
        for r in range(k):
            hit = [int(place == r) for place in range(k)]
            worth = [measure(hit, m) - without for m in range(1, len(p) + 1)]
            curve[k] += p[r] * float(others[r] @ worth)
    return curve
