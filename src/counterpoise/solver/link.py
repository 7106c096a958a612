"""The link from scores to probabilities, computed from moments: "Probabilities" in docs/math.md.

The margin of a row of class k over class j is its score for k minus its score for j. Mean and
variance of the margin are corrected by the mean leverage of the rows of the class,

    h_k = p_k tr(V⁻¹ S̃_k)/n_k,      V = W + (b/a) I,      S̃_k = S_k + W/n_k
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Flags, Matrix, Vector
from counterpoise.moments._cholesky import invert_factorized
from counterpoise.moments.classes import Classes, argmax_classes
from counterpoise.moments.moments import EPS, Moments
from counterpoise.solver._slope import find_slope
from counterpoise.solver.categories import CategoryEffects
from counterpoise.solver.category_classes import within_classes
from counterpoise.solver.options import Options
from counterpoise.solver.ridge import PooledClasses, cholesky
from counterpoise.solver.score_functions import QuadraticScores, Solution

MIN_DEVIATION = 1e-300  # of scores that are standardized
MIN_RELATIVE_DEVIATION = 1e-12  # to their mean; less is rounding
UNIFORM_MIXTURE = 0.25  # over the root of the number of rows: the share of rows that are noise


@dataclass(frozen=True, eq=False)
class Link:
    """Factors and shifts that turn scores into probabilities."""

    slopes: tuple[float, float]  # of scores: for balanced and for stream probabilities
    shift: Vector  # (c,) logarithms that turn balanced into stream probabilities
    frequency: Vector  # (c,) of each class in the stream; 0 of one that was never seen
    silent: float  # share of the rows that are noise

    @classmethod
    def of(
        cls, slopes: Sequence[float], shift: Vector, frequency: Vector, seen: Flags, rows: float
    ) -> Link:
        """Return a link for all classes, given one of the classes that were seen."""
        by_class, share = np.full(len(seen), -np.inf), np.zeros(len(seen))
        by_class[seen], share[seen] = shift, frequency
        silent = min(UNIFORM_MIXTURE / np.sqrt(max(rows, 1.0)), 0.5)
        return cls((slopes[0], slopes[1]), by_class, share, silent)

    def standardize(self, f: Matrix, seen: Flags) -> Link:
        """Return the link whose stream probabilities are those of standardized scores.

        Mean and standard deviation are those of the scores f (n, problems) of recent rows. The
        log-odds of a row with mean scores are those of the class frequencies.
        """
        g = f[:, seen] if f.shape[1] > 1 else f
        if g.shape[1] == 2:
            g = g[:, 1:] - g[:, :1]
        elif g.shape[1] > 2:
            g = g - g.mean(axis=1, keepdims=True)
        m = g.mean(axis=0)
        s = float(np.sqrt(((g - m) ** 2).mean()))
        is_constant = not MIN_RELATIVE_DEVIATION * np.abs(m).max() < s < np.inf
        slope = 0.0 if is_constant else 1.0 / max(s, MIN_DEVIATION)
        moved = slope * (m if len(m) > 1 else m * [-0.5, 0.5])
        shift = np.full(len(seen), -np.inf)
        shift[seen] = np.log(self.frequency[seen]) - moved
        return replace(self, slopes=(self.slopes[0], slope), shift=shift)

    def probabilities(self, f: Matrix, seen: Flags, stream: bool) -> Matrix:
        """Return the probability (n, c) of each class, given scores f (n, problems)."""
        if seen.sum() <= 1:
            return np.repeat(seen[None, :].astype(np.float64), len(f), axis=0)
        f = np.clip(f, -1e300, 1e300)
        slope = self.slopes[int(stream)]
        if len(seen) == 2:
            z = slope * f[:, 0]
            if stream:
                z += self.shift[1] - self.shift[0]
            more = 1.0 / (1.0 + np.exp(-np.abs(z)))
            one = np.where(z >= 0.0, more, 1.0 - more)  # rises with z to the last bit
            p = np.stack([1.0 - one, one], axis=1)
        else:
            log_p = np.where(seen, slope * f + (self.shift if stream else 0.0), -np.inf)
            p = np.exp(log_p - log_p.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
        p *= 1.0 - self.silent
        p += self.silent * (self.frequency if stream else seen / seen.sum())
        if stream:
            return p
        best = argmax_classes(f, seen)
        # Scores that differ in the last bit may round to one probability: keep their order.
        tied = np.flatnonzero(p.argmax(axis=1) != best)
        p[tied, best[tied]] = np.nextafter(p[tied].max(axis=1), 2.0)
        return p


NODES = 48  # of the Student t (benchmarks/proofs/probability.py)
PRIOR_ROWS = 10.0  # rows with which a class has half of its weight in the slope
MAX_COMPARED_CLASSES = 64  # that the slope compares with a class: all would take c² time
MIN_DISTANCE_FRACTION = 0.02  # of the distance between two classes that is left without a row


def class_frequency(moments: Moments, slot: NDArray[np.intp], options: Options) -> Vector:
    """Return the observed frequencies of classes with rows, given their slots."""
    rate = moments.n[slot] / moments.stream[slot] if options.decay.is_active else moments.N[slot]
    return np.asarray(rate / rate.sum())


def link_of(
    moments: Moments,
    classes: Classes,
    options: Options,
    solution: Solution,
    effects: CategoryEffects | None = None,
) -> Link:
    """Return the link of a solution, and effects of categories, of these moments and options."""
    slot = classes.slots[classes.seen]
    if len(slot) < 2:
        return Link((1.0, 1.0), np.zeros(classes.n_scores), np.zeros(classes.n_scores), 0.0)
    evenly, stream = np.full(len(slot), 1.0 / len(slot)), class_frequency(moments, slot, options)
    pool = replace(PooledClasses.of(moments, classes, options), intercept="free")
    rows = float(moments.n[slot].sum())
    if isinstance(solution, QuadraticScores):
        h = _own_leverage(pool, solution, float(options.pooled_rows or 0.0))
        # A rule of thumb that was fitted, not derived.
        unit = np.sqrt(1.0 + len(pool.s) / 10.0)
        slopes = [float((1.0 - pi @ h) ** 2 / unit) for pi in (evenly, stream)]
        return Link.of(slopes, np.log(stream) - pool.prior, stream, classes.seen, rows)
    coef = solution.coef if classes.n_scores == 1 else solution.coef[classes.seen]
    if effects is None:
        found = _score_moments(pool, coef, solution.ridge)
    else:
        found = _category_score_moments(pool, coef, solution.ridge, effects, classes.seen)
    distance, v = _margins(pool, found)
    evidence = moments.n[slot] / (moments.n[slot] + PRIOR_ROWS)
    # Only ratios matter, and products of tiny ones would vanish; a power of two costs no digit.
    evidence = np.ldexp(evidence, -int(np.frexp(evidence.max())[1]))
    balanced = slope(distance, v, evenly, evidence)
    slopes = [balanced, slope(distance, v, stream, evidence, balanced)]
    if classes.n_scores > 1:
        return Link.of(slopes, np.log(stream) - pool.prior, stream, classes.seen, rows)
    # One score for two classes: odds are even half-way between their means.
    middle = float((moments.mean[slot] @ solution.coef[0] + solution.offset[0]).mean())
    if effects is not None and moments.categories is not None:
        n = moments.categories.stacked_weights()[slot] / moments.n[slot, None]
        middle += float((n @ np.concatenate(effects.values)[:, 0]).mean())
    shift = np.log(stream) - slopes[1] * middle * np.array([-0.5, 0.5])
    return Link.of(slopes, shift, stream, classes.seen, rows)


class ScoreMoments(NamedTuple):
    """Means and covariances of the scores of p discriminants, by class."""

    G: Matrix  # (c, p) scores of the means, up to what depends on the class that is scored
    shared: Matrix  # (p, p) covariance of the scores within all classes
    own: list[tuple[Vector, Vector]]  # of each class k: variances (p,), and row k of covariances
    traces: Vector  # (c,) tr(V⁻¹S_k), V the covariance with the ridge, S_k that of class k
    trace: float  # tr(V⁻¹W)
    unit: float  # multiple of discriminants that scores are


def _margins(pool: PooledClasses, found: ScoreMoments) -> tuple[Matrix, Matrix]:
    """Return twice the mean margin of unlearned rows of class k over class j, and its variance."""
    slots = pool.slots
    n, p = np.maximum(pool.moments.n[slots], 1.0), pool.a[slots] / pool.total
    G, unit, shared = found.G, found.unit, found.shared
    own = np.diagonal(G)
    D2 = np.maximum(own[:, None] + own - G - G.T, 0.0)
    q = found.traces + found.trace / n
    # (A_k − A_j)·S̃(A_k − A_j) from A S Aᵀ, of which the row k and the diagonal are needed
    diagonal, row = (np.array(each) for each in zip(*found.own, strict=True))
    row += shared / n[:, None]
    v = diagonal + np.diagonal(shared) / n[:, None] + np.diagonal(row)[:, None] - 2.0 * row
    v = np.maximum(v, 0.0)
    h = np.minimum(p * q / n, 1.0 - 1.0 / (n + 1.0))
    # Scores may be a multiple of discriminants: so is what a row adds to its own.
    half = (
        0.5 * (D2 + (p / n / (1.0 - h))[:, None] * v / unit) - unit * (q / n / (1.0 - h))[:, None]
    )
    return np.maximum(half + half.T, MIN_DISTANCE_FRACTION * D2), v / ((1.0 - h) ** 2)[:, None]


def _discriminants(pool: PooledClasses, coef: Matrix) -> Matrix:
    """Return scaled coefficients, one row for each class."""
    A = coef * pool.s
    if len(A) == 1:  # two classes: half the score for the one, half against the other
        A = np.array([-0.5, 0.5])[:, None] * A
    return A


def _score_moments(pool: PooledClasses, coef: Matrix, ridge: float) -> ScoreMoments:
    """Return the moments of scores that are linear in the features."""
    moments, A = pool.moments, _discriminants(pool, coef)
    G = pool.delta @ A.T
    W = pool.K() / pool.total
    V = W.copy()
    V.flat[:: len(V) + 1] += ridge / pool.total
    inverse = _inverse(V)
    own, traces = [], np.empty(len(pool.slots))
    B, unscaled = A / pool.s, inverse / pool.s / pool.s[:, None]
    for k, slot in enumerate(pool.slots):
        C, n = moments.C[slot], moments.n[slot]
        traces[k] = np.vdot(unscaled, C) / n
        BC = B @ C
        own.append((np.einsum("ij,ij->i", BC, B) / n, BC @ B[k] / n))
    trace = float(np.vdot(inverse, W))
    return ScoreMoments(G, A @ W @ A.T, own, traces, trace, _unit(pool, A, V))


def _category_score_moments(
    pool: PooledClasses, coef: Matrix, ridge: float, effects: CategoryEffects, seen: Flags
) -> ScoreMoments:
    """Return the moments of scores with effects of categories."""
    categories = pool.moments.categories
    assert categories is not None
    within = within_classes(pool, categories, ridge, effects.ridges)
    A = _discriminants(pool, coef)
    B = np.concatenate(effects.values).T
    B = np.array([-0.5, 0.5])[:, None] * B if len(B) == 1 else B[seen]
    G = pool.delta @ A.T + within.shares @ B.T
    weights, traces = pool.a[pool.slots] / pool.total, within.traces()
    each = [within.covariance(k, A, B) for k in range(len(pool.slots))]
    shared = np.tensordot(weights, each, 1)
    own = [(np.diagonal(one), one[k]) for k, one in enumerate(each)]
    # The square over the product of centered coefficients and means, as in _unit.
    centring = np.eye(len(A)) - 1.0 / len(A)
    penalty = ridge * A @ A.T + (B * within.stack.spread(within.ridges)) @ B.T
    square = float(np.trace(centring @ (shared + penalty / pool.total)))
    product = float(np.trace(centring @ G))
    unit = square / product if product > 0.0 and square > 0.0 else 1.0
    return ScoreMoments(G, shared, own, traces, float(weights @ traces), unit)


def _inverse(V: Matrix) -> Matrix:
    """Return the inverse of a covariance; where it is singular, of a near one that is not."""
    factor = cholesky(V)
    if factor is None:
        lam, U = np.linalg.eigh(V)
        least = len(lam) * EPS * (lam[-1] if lam[-1] > 0.0 else 1.0)
        return np.asarray(U / np.maximum(lam, least) @ U.T)
    inverse = invert_factorized(factor)
    inverse += np.tril(inverse, -1).T
    return inverse


def _unit(pool: PooledClasses, A: Matrix, V: Matrix) -> float:
    """Return the multiple of discriminants that scores are."""
    centred = A - A.mean(axis=0)
    delta = pool.delta - pool.delta.mean(axis=0)
    square = float(np.vdot(centred @ V, centred))
    product = float((centred * delta).sum())
    return square / product if product > 0.0 and square > 0.0 else 1.0


def _own_leverage(pool: PooledClasses, solution: QuadraticScores, nu: float) -> Vector:
    """Return the leverage (c,) of a row of each class on the score of its own class."""
    moments, slots = pool.moments, pool.slots
    n, p = np.maximum(moments.n[slots], 1.0), pool.a[slots] / pool.total
    W = pool.K() / pool.total * pool.s * pool.s[:, None]
    h = np.empty(len(slots))
    for k, slot in enumerate(slots):
        S = moments.C[slot] / moments.n[slot] + W / n[k]
        h[k] = np.einsum("ij,ij->", S @ solution.root[k], solution.root[k])
        h[k] *= (1.0 + nu * p[k] / n[k]) / (n[k] + nu)
    return np.minimum(h, 1.0 - 1.0 / (n + 1.0))


@cache
def nodes() -> tuple[Vector, Vector]:
    """Return points and weights of a Student t of 5 degrees and variance 1, dense in its tails."""
    at = np.linspace(-16.0, 16.0, NODES)
    tail = 1.0 / (1.0 + np.exp(np.abs(at)))
    # Beyond t = √5/tan φ lies (φ − cos φ sin φ − 2/3 cos φ sin³ φ)/π, which rises with φ.
    low, high = np.zeros(NODES), np.full(NODES, np.pi / 2.0)
    for _ in range(60):
        phi = (low + high) / 2.0
        sine, cosine = np.sin(phi), np.cos(phi)
        beyond = (phi - cosine * sine - 2.0 / 3.0 * cosine * sine**3) / np.pi
        low, high = np.where(beyond < tail, phi, low), np.where(beyond < tail, high, phi)
    x = np.sign(at) * np.sqrt(5.0) / np.tan((low + high) / 2.0) / np.sqrt(5.0 / 3.0)
    w = tail * (1.0 - tail)
    return x, w / w.sum()


def _nearest_class_pairs(distance: Matrix, v: Matrix) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return each class and the others, or of very many those that are hardest to separate."""
    c = len(distance)
    if c <= MAX_COMPARED_CLASSES + 1:
        i, j = np.nonzero(~np.eye(c, dtype=bool))
        return i, j
    ease = distance / np.sqrt(np.maximum(v, 1e-300))
    np.fill_diagonal(ease, np.inf)
    nearest = np.argpartition(ease, MAX_COMPARED_CLASSES, axis=1)[:, :MAX_COMPARED_CLASSES]
    return np.repeat(np.arange(c), MAX_COMPARED_CLASSES), nearest.ravel()


def slope(distance: Matrix, v: Matrix, pi: Vector, evidence: Vector, start: float = 0.0) -> float:
    """Return β ≥ 0 of least expected log loss over pairs of classes; 0 if nothing separates them.

    distance and v have the shape (c, c), pi and evidence (c,); the search begins at ``start``.
    """
    i, j = _nearest_class_pairs(distance, v)
    x, mass = nodes()
    counts = pi[i] * pi[j] / (1.0 - pi[i]) * evidence[i] * evidence[j]
    middle, deviation = distance[i, j] / 2.0, np.sqrt(v[i, j])
    moments = np.array([mass.sum(), mass @ x, mass @ (x * x)])
    squares = np.stack([middle**2, 2.0 * middle * deviation, deviation**2], axis=1) @ moments
    unit = float(np.sqrt(counts @ squares / (counts.sum() * moments[0])))
    if not 0.0 < unit < np.inf:
        return 0.0
    odds = np.log(pi)
    b = find_slope(
        odds[i] - odds[j], counts, middle / unit, deviation / unit, x, mass, start * unit
    )
    return max(b / unit, 0.0)
