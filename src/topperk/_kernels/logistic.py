"""Platt scaling: logistic regression of a label on a score, per user or pooled.

For the candidates i of one user with score s_i and label y_i, the parameters (a, b) of
``p_i = sigmoid(a s_i + b)`` minimise

    sum_i [log(1 + exp(z_i)) - y_i z_i] + (theta - m)' P (theta - m) / 2,    z_i = a s_i + b,

theta = (a, b), with a Gaussian prior of mean m and precision P (``P = diag(1/C, 0)``, m = 0 is
scikit-learn's ridge of strength C on the slope). Sums over negatives are sums over everything
minus sums over the few positives, so no array of labels is read.

Newton's method, from where the two classes' means put the logits were they normal. The first steps
take their sums in single precision (``logistic_sums``) and end where these tell no more; the last
ones in double precision, with halved steps wherever the objective does not fall. Inside, scores are
centred and scaled per user, positives as all others and before they are summed, so that a large
common offset costs no precision.
"""

from __future__ import annotations

import math

import numpy as np

from topperk._kernels.arrays import AnyFloatArray, FloatArray, IntArray, OffsetArray
from topperk._kernels.compiling import kernel
from topperk._kernels.logistic_sums import (
    centre_and_scale,
    compacted,
    spread_of,
    sums_double,
    sums_single,
)
from topperk._kernels.ranking import longest_of
from topperk._kernels.views import part_of, row_of

MAX_STEPS = 60
# Steps in single precision, of which the last is below ROUGH_STEP or the sums' rounding.
MAX_ROUGH_STEPS = 12
ROUGH_STEP = 1e-4
# A step below this, relative to 1 + |theta|, is the last (convergence is quadratic, so the
# parameters are then at rounding).
SMALL_STEP = 1e-8
# No step moves a typical logit by more: beyond, an objective is no longer near its quadratic.
FARTHEST_STEP = 8.0

FITTED = 0
NO_POSITIVE = 1
NO_NEGATIVE = 2
NOT_CONVERGED = 3


@kernel
def positives_of(scores: AnyFloatArray, positions: IntArray, hits: FloatArray) -> int:
    """Copy the scores at ``positions`` to ``hits``, if they are candidates; return how many."""
    n = 0
    for j in range(positions.size):
        s = scores[positions[j]]
        if s > -np.inf:
            hits[n] = s
            n += 1
    return n


@kernel
def newton_step(
    g_a: float, g_b: float, h_aa: float, h_ab: float, h_bb: float
) -> tuple[float, float, float]:
    """Newton's direction, and its larger part."""
    determinant = h_aa * h_bb - h_ab * h_ab
    if determinant > 1e-14 * h_aa * h_bb:
        d_a = (h_bb * g_a - h_ab * g_b) / determinant
        d_b = (h_aa * g_b - h_ab * g_a) / determinant
    else:
        # flat in some direction: constant scores, or probabilities all at 0 or 1
        d_a = g_a / (h_aa + 1e-12)
        d_b = g_b / (h_bb + 1e-12)
    return d_a, d_b, max(abs(d_a), abs(d_b))


@kernel
def newton(
    x: FloatArray,
    single: AnyFloatArray,
    hits: FloatArray,
    origin: float,
    unit: float,
    prior: FloatArray,
    start_a: float,
    start_b: float,
    covariance: FloatArray,
) -> tuple[float, float, int, int]:
    """Fit (a, b) to the candidates ``x``, positive those that are ``hits`` too.

    Returns (a, b, outcome, steps). ``single``: room for as many in single precision; ``prior``:
    (m_a, m_b, P_aa, P_ab, P_bb); ``start_a``, ``start_b``: where to begin, NaN for a guess;
    ``covariance`` gets the inverse Hessian (aa, ab, bb). All in units of (x - origin) / unit.
    """
    centre, scale = centre_and_scale(x)
    # y = (x - centre) / scale; theta_y = (a * ratio, b + a * shift_up)
    n_positive = hits.size
    sum_positive = 0.0
    for j in range(n_positive):
        sum_positive += (hits[j] - centre) / scale
    ratio = scale / unit
    up = (centre - origin) / unit
    m_a = prior[0] * ratio
    m_b = prior[1] + prior[0] * up
    shift = up / ratio
    p_aa = prior[2] / ratio**2 - 2.0 * prior[3] * shift / ratio + prior[4] * shift**2
    p_ab = prior[3] / ratio - prior[4] * shift
    p_bb = prior[4]
    if np.isnan(start_a):
        # Two normal classes of variance 1; few positives and the prior draw the slope in.
        mean = sum_positive / n_positive
        a = sum_positive / (n_positive + 1.0 + p_aa)
        b = math.log(n_positive / (x.size - n_positive)) - 0.5 * a * mean
    else:
        a = start_a * ratio
        b = start_b + start_a * up

    for i in range(x.size):
        single[i] = x[i] - centre
    steps = 0
    before = np.inf
    guess_a, guess_b = a, b
    while steps < MAX_ROUGH_STEPS:
        steps += 1
        p_sum, py_sum, h_bb, h_ab, h_aa = sums_single(single, scale, a, b)
        d_a, d_b, reach = newton_step(
            py_sum - sum_positive + p_aa * (a - m_a) + p_ab * (b - m_b),
            p_sum - n_positive + p_ab * (a - m_a) + p_bb * (b - m_b),
            h_aa + p_aa,
            h_ab + p_ab,
            h_bb + p_bb,
        )
        if not reach < 2.0 * before:  # it does not settle: a case for halved steps
            a, b = guess_a, guess_b
            break
        step = 1.0 if reach <= FARTHEST_STEP else FARTHEST_STEP / reach
        a -= step * d_a
        b -= step * d_b
        size = 1.0 + max(abs(a), abs(b))
        if reach <= ROUGH_STEP * size:
            break
        before = reach

    log_sum, p_sum, py_sum, h_bb, h_ab, h_aa = sums_double(x, centre, scale, a, b)
    value = (
        log_sum
        - a * sum_positive
        - b * n_positive
        + 0.5 * (p_aa * (a - m_a) ** 2 + p_bb * (b - m_b) ** 2)
        + p_ab * (a - m_a) * (b - m_b)
    )
    outcome = NOT_CONVERGED
    while steps < MAX_STEPS:
        steps += 1
        g_a = py_sum - sum_positive + p_aa * (a - m_a) + p_ab * (b - m_b)
        g_b = p_sum - n_positive + p_ab * (a - m_a) + p_bb * (b - m_b)
        d_a, d_b, reach = newton_step(g_a, g_b, h_aa + p_aa, h_ab + p_ab, h_bb + p_bb)
        if reach <= SMALL_STEP * (1.0 + max(abs(a), abs(b))):
            a -= d_a
            b -= d_b
            outcome = FITTED
            break
        step = 1.0 if reach <= FARTHEST_STEP else FARTHEST_STEP / reach
        slope = step * (g_a * d_a + g_b * d_b)
        improved = False
        for _ in range(40):
            new_a = a - step * d_a
            new_b = b - step * d_b
            log_sum, p_sum, py_sum, h_bb, h_ab, h_aa = sums_double(x, centre, scale, new_a, new_b)
            new_value = (
                log_sum
                - new_a * sum_positive
                - new_b * n_positive
                + 0.5 * (p_aa * (new_a - m_a) ** 2 + p_bb * (new_b - m_b) ** 2)
                + p_ab * (new_a - m_a) * (new_b - m_b)
            )
            # the value is a difference: its rounding follows the terms, not what is left of them
            rounding = 1e-15 * (log_sum + abs(new_a * sum_positive) + abs(new_b * n_positive))
            if new_value <= value - 1e-4 * slope + rounding + 1e-13 * abs(value):
                improved = True
                break
            step *= 0.5
            slope *= 0.5
        if not improved:
            break
        a = new_a
        b = new_b
        value = new_value
    h_aa += p_aa
    h_ab += p_ab
    h_bb += p_bb
    determinant = h_aa * h_bb - h_ab * h_ab
    if determinant > 0.0:
        v_aa = h_bb / determinant
        v_ab = -h_ab / determinant
        v_bb = h_aa / determinant
        # back to the units asked for: theta = (A / ratio, B - A shift)
        covariance[0] = v_aa / ratio**2
        covariance[1] = v_ab / ratio - shift * v_aa / ratio
        covariance[2] = v_bb - 2.0 * shift * v_ab + shift**2 * v_aa
    else:
        covariance[:] = np.nan
    return a / ratio, b - a * shift, outcome, steps


@kernel
def fit_users(
    scores: AnyFloatArray,
    offsets: OffsetArray,
    positives: IntArray,
    positive_offsets: OffsetArray,
    centre: float,
    scale: float,
    prior: FloatArray,
    start: FloatArray,
    parameters: FloatArray,
    covariances: FloatArray,
    outcomes: IntArray,
    steps: IntArray,
) -> None:
    """``newton`` for every user of a block.

    ``positives`` are positions within the user's own scores. Prior, start, parameters and
    covariances are in units of (s - centre) / scale. ``start[u]`` is where user u begins, or NaN
    for a guess of the user's own. Users without a positive or without a negative candidate get an
    outcome and no parameters (NaN).
    """
    longest = longest_of(offsets)
    buffer, room = np.empty(longest), np.empty(longest)
    single = np.empty(longest, dtype=np.float32)
    for u in range(offsets.size - 1):
        own = part_of(scores, offsets[u], offsets[u + 1])
        places = part_of(positives, positive_offsets[u], positive_offsets[u + 1])
        n = compacted(own, buffer)
        n_positive = positives_of(own, places, room)
        parameters[u, 0] = parameters[u, 1] = np.nan
        covariances[u, 0] = covariances[u, 1] = covariances[u, 2] = np.nan
        steps[u] = 0
        if n_positive == 0:
            outcomes[u] = NO_POSITIVE
            continue
        if n_positive == n:
            outcomes[u] = NO_NEGATIVE
            continue
        parameters[u, 0], parameters[u, 1], outcomes[u], steps[u] = newton(
            part_of(buffer, 0, n),
            part_of(single, 0, n),
            part_of(room, 0, n_positive),
            centre,
            scale,
            prior,
            start[u, 0],
            start[u, 1],
            row_of(covariances, u),
        )


@kernel
def pooled_sums(
    scores: AnyFloatArray,
    offsets: OffsetArray,
    positives: IntArray,
    positive_offsets: OffsetArray,
    centre: float,
    scale: float,
    a: float,
    b: float,
    sums: FloatArray,
) -> None:
    """Each user's part of the sums of the pooled regression, in units y = (s - centre) / scale.

    ``sums[u]``: log(1 + e^z), p, p y, w, w y, w y^2 over all candidates; then over the positives
    how many and the sum of y.
    """
    longest = longest_of(offsets)
    x, hits = np.empty(longest), np.empty(longest)
    for u in range(offsets.size - 1):
        own = part_of(scores, offsets[u], offsets[u + 1])
        places = part_of(positives, positive_offsets[u], positive_offsets[u + 1])
        n = compacted(own, x)
        n_positive = positives_of(own, places, hits)
        log_sum, p, py, w, wy, wyy = sums_double(part_of(x, 0, n), centre, scale, a, b)
        sums[u, 0], sums[u, 1], sums[u, 2] = log_sum, p, py
        sums[u, 3], sums[u, 4], sums[u, 5] = w, wy, wyy
        sums[u, 6] = n_positive
        sums[u, 7] = 0.0
        for j in range(n_positive):
            sums[u, 7] += (hits[j] - centre) / scale


@kernel
def moments(scores: AnyFloatArray, offsets: OffsetArray, out: FloatArray) -> None:
    """Each user's count of candidates, their mean, squared deviations, least and greatest."""
    x = np.empty(longest_of(offsets))
    for u in range(offsets.size - 1):
        n = compacted(part_of(scores, offsets[u], offsets[u + 1]), x)
        row = row_of(out, u)
        row[0], row[1], row[2], row[3], row[4] = n, 0.0, 0.0, np.inf, -np.inf
        if n > 0:
            total, squares, row[3], row[4] = spread_of(part_of(x, 0, n))
            row[1] = x[0] + total / n
            row[2] = squares - total * total / n


@kernel
def merge_moments(rows: FloatArray, totals: FloatArray) -> None:
    """Merge users' moments into ``totals`` one after the other.

    Chan's update, so that a large common offset costs no precision.
    """
    for u in range(rows.shape[0]):
        count, mean, squares = rows[u, 0], rows[u, 1], rows[u, 2]
        if count == 0.0:
            continue
        both = totals[0] + count
        gap = mean - totals[1]
        totals[2] += squares + gap * gap * totals[0] * count / both
        totals[1] += gap * count / both
        totals[0] = both
        totals[3] = min(totals[3], rows[u, 3])
        totals[4] = max(totals[4], rows[u, 4])
