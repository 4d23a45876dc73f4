"""Platt scaling: logistic regression of a label on a score, per user or pooled.

For the candidates i of one user with score s_i and label y_i, the parameters (a, b) of
``p_i = sigmoid(a s_i + b)`` minimise

    sum_i [log(1 + exp(z_i)) - y_i z_i] + (theta - m)' P (theta - m) / 2,    z_i = a s_i + b,

theta = (a, b), with a Gaussian prior of mean m and precision P (``P = diag(1/C, 0)``, m = 0 is
scikit-learn's ridge of strength C on the slope). Sums over negatives are sums over everything
minus sums over the few positives, so no array of labels is read.

Newton's method with halved steps. Inside, scores are centred and scaled per user, positives as all
others and before they are summed, so that a large common offset costs no precision. One pass per
step: an exponential, a division, and a few multiply-adds per candidate; log(1 + exp) is gathered
as a product and takes one logarithm for ``CHUNK`` candidates.
"""

from __future__ import annotations

import math

import numpy as np

from topperk._kernels.arrays import AnyFloatArray, FloatArray, IntArray, OffsetArray
from topperk._kernels.compiling import kernel, lane_kernel
from topperk._kernels.exponential import fast_exp
from topperk._kernels.lanes import larger, where_less
from topperk._kernels.ranking import longest_of

CHUNK = 512
MAX_STEPS = 60
# A last step below this, relative to 1 + |theta|, ends the iteration (convergence is quadratic, so
# the parameters are then at rounding).
SMALL_STEP = 1e-9

FITTED = 0
NO_POSITIVE = 1
NO_NEGATIVE = 2
NOT_CONVERGED = 3


@kernel
def gather(
    scores: AnyFloatArray,
    positions: IntArray,
    centre: float,
    scale: float,
    x: FloatArray,
    hits: FloatArray,
) -> tuple[int, int]:
    """Copy the candidates (scores above minus infinity) to ``x``, as (s - centre) / scale.

    Those at ``positions`` (the positives) go to ``hits`` as well. Returns how many of both.
    """
    n = 0
    for i in range(scores.size):
        if scores[i] > -np.inf:
            x[n] = (scores[i] - centre) / scale
            n += 1
    n_positive = 0
    for j in range(positions.size):
        s = scores[positions[j]]
        if s > -np.inf:
            hits[n_positive] = (s - centre) / scale
            n_positive += 1
    return n, n_positive


@kernel
def centre_and_scale(x: FloatArray) -> tuple[float, float]:
    """Mean and standard deviation, the latter 1 where all values are equal to rounding."""
    centre = 0.0
    for i in range(x.size):
        centre += x[i]
    centre /= x.size
    scale = 0.0
    largest = 0.0
    for i in range(x.size):
        scale += (x[i] - centre) ** 2
        largest = max(largest, abs(x[i]))
    scale = math.sqrt(scale / x.size)
    if not scale > 1e-12 * largest:
        scale = 1.0
    return centre, scale


@lane_kernel
def logistic_sums(
    x: FloatArray, a: float, b: float
) -> tuple[float, float, float, float, float, float]:
    """Sums over x of log(1 + e^z), p, p x, w, w x, w x^2, where z = a x + b and w = p (1 - p)."""
    log_sum = 0.0
    p_sum = 0.0
    px_sum = 0.0
    w_sum = 0.0
    wx_sum = 0.0
    wxx_sum = 0.0
    for begin in range(0, x.size, CHUNK):
        part = x[begin : begin + CHUNK]
        product = 1.0
        for i in range(part.size):
            v = part[i]
            z = a * v + b
            positive = larger(z, 0.0)
            e = fast_exp(z - 2.0 * positive)
            big = 1.0 / (1.0 + e)
            small = e * big
            p = where_less(0.0, z, big, small)
            w = big * small
            product *= 1.0 + e
            log_sum += positive
            p_sum += p
            px_sum += p * v
            w_sum += w
            wx_sum += w * v
            wxx_sum += w * v * v
        log_sum += math.log(product)
    return log_sum, p_sum, px_sum, w_sum, wx_sum, wxx_sum


@kernel
def newton(
    x: FloatArray,
    hits: FloatArray,
    prior: FloatArray,
    start: FloatArray,
    covariance: FloatArray,
) -> tuple[float, float, int, int]:
    """Fit (a, b) to the candidates ``x``, positive those that are ``hits`` too.

    Returns (a, b, outcome, steps). ``prior``: (m_a, m_b, P_aa, P_ab, P_bb); ``start``: (a, b) to
    begin from; ``covariance`` gets the inverse Hessian (aa, ab, bb). All in the units that x
    comes in; x itself is overwritten.
    """
    centre, scale = centre_and_scale(x)
    for i in range(x.size):
        x[i] = (x[i] - centre) / scale
    # y = (x - centre) / scale; theta_y = (a * scale, b + a * centre)
    n_positive = hits.size
    sum_positive = 0.0
    for j in range(n_positive):
        sum_positive += (hits[j] - centre) / scale
    m_a = prior[0] * scale
    m_b = prior[1] + prior[0] * centre
    shift = centre / scale
    p_aa = prior[2] / scale**2 - 2.0 * prior[3] * shift / scale + prior[4] * shift**2
    p_ab = prior[3] / scale - prior[4] * shift
    p_bb = prior[4]
    a = start[0] * scale
    b = start[1] + start[0] * centre

    log_sum, p_sum, px_sum, h_bb, h_ab, h_aa = logistic_sums(x, a, b)
    value = (
        log_sum
        - a * sum_positive
        - b * n_positive
        + 0.5 * (p_aa * (a - m_a) ** 2 + p_bb * (b - m_b) ** 2)
        + p_ab * (a - m_a) * (b - m_b)
    )
    outcome = NOT_CONVERGED
    steps = 0
    while steps < MAX_STEPS:
        steps += 1
        g_a = px_sum - sum_positive + p_aa * (a - m_a) + p_ab * (b - m_b)
        g_b = p_sum - n_positive + p_ab * (a - m_a) + p_bb * (b - m_b)
        h_aa += p_aa
        h_ab += p_ab
        h_bb += p_bb
        determinant = h_aa * h_bb - h_ab * h_ab
        if determinant > 1e-14 * h_aa * h_bb:
            d_a = (h_bb * g_a - h_ab * g_b) / determinant
            d_b = (h_aa * g_b - h_ab * g_a) / determinant
        else:
            # flat in some direction: constant scores, or probabilities all at 0 or 1
            d_a = g_a / (h_aa + 1e-12)
            d_b = g_b / (h_bb + 1e-12)
        # a step that moves a typical logit by more than 8 is no longer a quadratic's business
        reach = max(abs(d_a), abs(d_b))
        step = 1.0 if reach <= 8.0 else 8.0 / reach
        slope = step * (g_a * d_a + g_b * d_b)
        done = reach <= SMALL_STEP * (1.0 + max(abs(a), abs(b)))
        improved = False
        for _ in range(40):
            new_a = a - step * d_a
            new_b = b - step * d_b
            log_sum, p_sum, px_sum, h_bb, h_ab, h_aa = logistic_sums(x, new_a, new_b)
            new_value = (
                log_sum
                - new_a * sum_positive
                - new_b * n_positive
                + 0.5 * (p_aa * (new_a - m_a) ** 2 + p_bb * (new_b - m_b) ** 2)
                + p_ab * (new_a - m_a) * (new_b - m_b)
            )
            # the value is a difference: its rounding follows the terms, not what is left of them
            rounding = 1e-15 * (log_sum + abs(new_a * sum_positive) + abs(new_b * n_positive))
            if done or new_value <= value - 1e-4 * slope + rounding + 1e-13 * abs(value):
                improved = True
                break
            step *= 0.5
            slope *= 0.5
        if not improved:
            break
        a = new_a
        b = new_b
        value = new_value
        if done:
            outcome = FITTED
            break
    h_aa += p_aa
    h_ab += p_ab
    h_bb += p_bb
    determinant = h_aa * h_bb - h_ab * h_ab
    if determinant > 0.0:
        v_aa = h_bb / determinant
        v_ab = -h_ab / determinant
        v_bb = h_aa / determinant
        # back to the units of x: theta = (A / scale, B - A centre / scale)
        covariance[0] = v_aa / scale**2
        covariance[1] = v_ab / scale - shift * v_aa / scale
        covariance[2] = v_bb - 2.0 * shift * v_ab + shift**2 * v_aa
    else:
        covariance[:] = np.nan
    return a / scale, b - a * shift, outcome, steps


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
    for (0, logit of the share of positives). Users without a positive or without a negative
    candidate get an outcome and no parameters (NaN).
    """
    longest = longest_of(offsets)
    buffer = np.empty(longest)
    hits = np.empty(longest)
    begin = np.empty(2)
    for u in range(offsets.size - 1):
        own = scores[offsets[u] : offsets[u + 1]]
        own_positives = positives[positive_offsets[u] : positive_offsets[u + 1]]
        n, n_positive = gather(own, own_positives, centre, scale, buffer, hits)
        parameters[u, :] = np.nan
        covariances[u, :] = np.nan
        steps[u] = 0
        if n_positive == 0:
            outcomes[u] = NO_POSITIVE
            continue
        if n_positive == n:
            outcomes[u] = NO_NEGATIVE
            continue
        begin[:] = start[u]
        if np.isnan(begin[0]):
            begin[0] = 0.0
            begin[1] = math.log(n_positive / (n - n_positive))
        a, b, outcomes[u], steps[u] = newton(
            buffer[:n], hits[:n_positive], prior, begin, covariances[u]
        )
        parameters[u, 0] = a
        parameters[u, 1] = b


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
    """Each user's part of the sums of the pooled regression, in units (s - centre) / scale.

    ``sums[u]``: log(1 + e^z), p, p x, w, w x, w x^2 over all candidates; then over the positives
    how many and the sum of x.
    """
    longest = longest_of(offsets)
    x = np.empty(longest)
    hits = np.empty(longest)
    for u in range(offsets.size - 1):
        own = scores[offsets[u] : offsets[u + 1]]
        own_positives = positives[positive_offsets[u] : positive_offsets[u + 1]]
        n, n_positive = gather(own, own_positives, centre, scale, x, hits)
        log_sum, p_sum, px_sum, w_sum, wx_sum, wxx_sum = logistic_sums(x[:n], a, b)
        sums[u, 0], sums[u, 1], sums[u, 2] = log_sum, p_sum, px_sum
        sums[u, 3], sums[u, 4], sums[u, 5] = w_sum, wx_sum, wxx_sum
        sums[u, 6] = n_positive
        sums[u, 7] = 0.0
        for j in range(n_positive):
            sums[u, 7] += hits[j]


@kernel
def add_rows(rows: FloatArray, totals: FloatArray) -> None:
    """Add rows to ``totals`` one after the other, so that the blocks' sizes leave no trace."""
    for u in range(rows.shape[0]):
        for j in range(totals.size):
            totals[j] += rows[u, j]


@kernel
def moments(scores: AnyFloatArray, offsets: OffsetArray, out: FloatArray) -> None:
    """Each user's count of candidates, their mean, squared deviations, least and greatest."""
    for u in range(offsets.size - 1):
        own = scores[offsets[u] : offsets[u + 1]]
        count, total = 0, 0.0
        least, greatest = np.inf, -np.inf
        for i in range(own.size):
            if own[i] > -np.inf:
                count += 1
                total += own[i]
                least = min(least, own[i])
                greatest = max(greatest, own[i])
        mean = total / count if count else 0.0
        squares = 0.0
        for i in range(own.size):
            if own[i] > -np.inf:
                squares += (own[i] - mean) ** 2
        out[u, 0], out[u, 1], out[u, 2], out[u, 3], out[u, 4] = (
            count,
            mean,
            squares,
            least,
            greatest,
        )


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
