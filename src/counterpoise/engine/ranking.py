"""Leave-one-out scores of kept rows, and the ranking of candidates by them.

A score of a row by a model of all other rows follows from the moments, without learning again. For
least squares of two classes see :meth:`counterpoise.solver.ridge.RidgePath.leave_one_out`. LDA and
QDA: without the row x of class k the mean moves by v/(n − 1), v = x − μ_k, and W loses its share of
vvᵀ, so that the formula of Sherman and Morrison gives distances and determinants. The other rows of
the class then count n/(n − 1) times as much.

A new row is not a landmark. So a row that is one is left out of a model without this landmark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import scipy.special as special
from numpy.typing import NDArray

from counterpoise.arrays import Matrix, Vector
from counterpoise.engine.averaging import (
    MIN_WEIGHT,
    Average,
    Part,
    RidgePathScores,
    softmax_weights,
)
from counterpoise.engine.parameters import map_name
from counterpoise.engine.row_buffer import RowBuffer, decayed_weight
from counterpoise.engine.state import State
from counterpoise.feature_maps import FittedMap
from counterpoise.moments.classes import Classes
from counterpoise.moments.moments import Moments
from counterpoise.solver.class_weights import ClassFactors, by_label
from counterpoise.solver.imputation import ImputedMoments
from counterpoise.solver.options import Options
from counterpoise.solver.ridge import MAX_LEVERAGE, PooledClasses, RidgeSystems, eigen, quadratic
from counterpoise.solver.score_functions import LinearScores, QuadraticScores
from counterpoise.solver.scores import build_problem, resolve_ridge


class Sample(NamedTuple):
    """Learned rows after the map (n, d), and the positions of their classes.

    ``weight`` is the decayed weight that is left out of each row; ``full_weight`` is all of it.
    """

    Z: Matrix
    code: NDArray[np.intp]
    weight: Vector
    full_weight: Vector
    own: NDArray[np.intp]  # (n,) term whose landmark is the row itself; −1 for none


class LeaveOneOutScores(NamedTuple):
    """Scores of rows, each by a model without it, and the models with all rows."""

    scores: NDArray[np.float64]  # (n, r, problems) of r models
    weights: RidgePathScores | QuadraticScores  # the models, for r ridges, or one
    # (r,) root of the mean square of their scores, of several classes about their mean, where
    # all classes weigh the same; of quadratic scores the median size
    rms: Vector
    # (r,) mean leverage of the rows of the class in which it is largest: near 1 a model
    # interpolates its rows, and leaving them out has no meaning
    leverage: Vector


def leave_one_out_scores(
    moments: Moments, classes: Classes, options: Options, ridges: Vector, rows: Sample
) -> LeaveOneOutScores:
    """Return scores of learned rows, each by models without it.

    Quadratic boundaries have the ridge of the options, all others have the r ridges.
    """
    problem = build_problem(moments, classes, options)
    about = rows._replace(Z=rows.Z - moments.anchor)
    if isinstance(problem, RidgeSystems):
        return _squares(problem, ridges, about, classes.slots[rows.code])
    if options.pooled_rows is None:
        return _linear(problem, ridges, about)
    found = quadratic(problem, resolve_ridge(problem, options), options.pooled_rows, classes.seen)
    return _quadratic(problem, found, options.pooled_rows, about)


def for_raw_rows(
    weights: RidgePathScores | QuadraticScores, filled: ImputedMoments
) -> RidgePathScores | QuadraticScores:
    """Return scores of rows with imputed values as a function of rows as they are."""
    if isinstance(weights, RidgePathScores):
        return RidgePathScores(
            filled.raw.anchor.copy(), filled.coefficients_for_raw_rows(weights.coef), weights.offset
        )
    found = filled.for_raw_rows(weights)
    assert isinstance(found, QuadraticScores)
    return found


def _squares(
    systems: RidgeSystems, b: Vector, rows: Sample, slot: NDArray[np.intp]
) -> LeaveOneOutScores:
    path = systems.path()
    scores, h = path.leave_one_out(b, rows.Z, slot, rows.weight, rows.own)
    (coef,), (offset,) = path.coefficients(b)
    models = RidgePathScores(systems.anchor.copy(), coef[:, None], offset[:, None])
    return LeaveOneOutScores(scores[..., None], models, path.rms(b), _largest(h, slot))


def _linear(pool: PooledClasses, b: Vector, rows: Sample) -> LeaveOneOutScores:
    # A feature that varies between the classes alone separates them: it must not be left out.
    lam, V = eigen(pool.K(), (pool.delta != 0.0).any(axis=0))
    code = rows.code
    share = pool.a[pool.slots] / pool.total
    n = pool.moments.n[pool.slots][code]
    left = np.maximum(n - rows.weight, 1e-9 * n)
    P, D = (rows.Z - pool.centre) / pool.s @ V, pool.delta @ V
    v, own = P - D[code], (np.arange(len(P)), code)
    beta = share[code] * rows.weight / left  # of vvᵀ that W loses
    e = np.where(rows.own[:, None] >= 0, V[rows.own], 0.0)
    scores = np.empty((len(P), len(b), len(D)))
    h, rms, coef = np.empty((len(P), len(b))), np.empty(len(b)), []
    offset = []
    for j, ridge in enumerate(b):
        inverse = pool.total / (lam + ridge)
        w, vi = D * inverse, v * inverse
        height = pool.prior - 0.5 * (w * D).sum(axis=1)
        near, shared = (vi * v).sum(axis=1), (P * P) @ inverse
        across = (vi * P).sum(axis=1)[:, None] - vi @ D.T  # v·Σ⁻¹(x − μ_j)
        distance = shared[:, None] - 2.0 * P @ w.T + (w * D).sum(axis=1)
        # Without term e all products are less: xᵀΣ⁻¹y by xᵀΣ⁻¹e eᵀΣ⁻¹y / eᵀΣ⁻¹e.
        ei, ev = e * inverse, (e * vi).sum(axis=1)
        size = (ei * e).sum(axis=1)
        size[size <= 0.0] = np.inf
        ex = (ei * P).sum(axis=1)[:, None] - ei @ D.T
        near -= ev**2 / size
        across -= (ev / size)[:, None] * ex
        distance -= ex**2 / size[:, None]
        h[:, j] = np.minimum(beta * near, MAX_LEVERAGE)
        distance += (beta / (1.0 - h[:, j]))[:, None] * across**2
        # Its own mean moves away: (n/(n − ω))² times the distance, which W makes longer too.
        distance[own] = (n / left) ** 2 * near / (1.0 - h[:, j])
        distance /= (1.0 + beta)[:, None]
        scores[:, j] = pool.prior + 0.5 * (shared[:, None] - distance)
        coef.append(w @ V.T / pool.s)
        offset.append(height - coef[-1] @ pool.centre)
        at, off = D @ w.T + height, w - w.mean(axis=0)
        at -= at.mean(axis=1, keepdims=True)
        within = (off * off) @ lam / pool.total
        rms[j] = np.sqrt((share @ at**2).mean() + within.mean())
    models = RidgePathScores(pool.moments.anchor.copy(), np.stack(coef), np.stack(offset))
    return LeaveOneOutScores(scores, models, rms, _largest(h, code))


def _quadratic(
    pool: PooledClasses, found: QuadraticScores, nu: float, rows: Sample
) -> LeaveOneOutScores:
    n, code = pool.moments.n[pool.slots], rows.code
    left = np.maximum(n[code] - rows.weight, 1e-9 * n[code])
    v = rows.Z - found.mean[code]
    lost = rows.weight * n[code] / left  # of vvᵀ by the scatter of the class, and by νW
    shared = nu * pool.a[pool.slots][code] / pool.total / left
    q, h = np.empty((len(v), len(n))), np.zeros((len(v), 1))
    for k, (mean, root, offset) in enumerate(
        zip(found.mean, found.root, found.offset, strict=True)
    ):
        own = code == k
        beta = lost * (own + shared) / (n[k] + nu)
        x, moved = (rows.Z - mean) @ root, v @ root
        used = np.minimum(beta * (moved**2).sum(axis=1), MAX_LEVERAGE)
        near = (x**2).sum(axis=1) + beta / (1.0 - used) * (x * moved).sum(axis=1) ** 2
        near[own] *= (n[k] / left[own]) ** 2
        wider = (n[k] + nu + shared * rows.weight) / (n[k] + nu - own * rows.weight)
        fall = near / wider + len(mean) * np.log(wider) + np.log1p(-used)
        q[:, k] = offset - 0.5 * fall
        h[own, 0] = used[own]
    f = q if len(n) > 2 else q[:, 1:] - q[:, :1]
    about = f - f.mean(axis=1, keepdims=True) if len(n) > 2 else f
    # Tails of quadratic scores are long: the median is their usual size.
    sizes = []
    for k in np.unique(code):
        mine = np.abs(about[code == k])
        weight = np.repeat(rows.full_weight[code == k], mine.shape[1])
        sizes.append(weighted_median(mine.reshape(-1, 1), weight))
    return LeaveOneOutScores(f[:, None], found, np.mean(sizes, axis=0), np.zeros(1))


def weighted_median(values: Matrix, weight: Vector) -> Vector:
    """Return the median of each column of values (n, r) of rows that have these weights."""
    order = np.argsort(values, axis=0)
    total = np.cumsum(weight[order], axis=0)
    middle = (total < 0.5 * total[-1]).sum(axis=0)[None]
    found: Vector = np.take_along_axis(np.take_along_axis(values, order, 0), middle, 0)[0]
    return found


def _largest(h: Matrix, code: NDArray[np.intp]) -> Vector:
    """Mean of each class, of the class where it is largest, for each model."""
    means = [h[code == k].mean(axis=0) for k in np.unique(code)]
    largest: Vector = np.max(means, axis=0)
    return largest


MIN_ROWS = 16  # rows learned before candidates are ranked
MARGIN_SCALE = 0.3  # of the usual margin: a row that is missed by less than that is half a hit
MAX_MEAN_LEVERAGE = 0.9  # mean leverage from which a model interpolates its rows
MIN_OWN_NEARNESS = 1.0 - 1e-9  # nearness of a row to the landmark that it is itself


class CandidateModel(NamedTuple):
    """Solved candidate: its map and its name, its scores, and their root mean squares (r,)."""

    map_name: str
    fixed: FittedMap | None
    scores: RidgePathScores | QuadraticScores
    rms: Vector


@dataclass(frozen=True, eq=False)
class CandidateRanking:
    """G-means of candidates."""

    names: list[str]  # names of the candidates
    models: list[CandidateModel]  # their scores for every ridge
    G: list[Vector]  # (r,) their G-means by ridge; −∞ where a candidate interpolates its rows
    best: tuple[int, int]  # positions of the best candidate and of its ridge
    # difference of the G-mean that changes an averaging weight by the factor e
    temperature: float = 1.0

    @property
    def averaging_weights(self) -> list[Vector]:
        """Weights in the average, by candidate and ridge; they add up to 1."""
        return softmax_weights(self.G, self.temperature)

    def average(self, classes: Classes, ridge: float) -> Average:
        """Return the average of the candidates, in units of the best one, for all classes."""
        unit = float(self.models[self.best[0]].rms[self.best[1]]) or 1.0
        parts, seen = [], classes.seen
        for (name, fixed, scores, rms), weight in zip(
            self.models, self.averaging_weights, strict=True
        ):
            if weight.sum() <= MIN_WEIGHT:
                continue
            factor = unit * weight / np.where(rms > 0.0, rms, np.inf)
            found: LinearScores | QuadraticScores
            if isinstance(scores, RidgePathScores):
                found = scores.combine(factor, ridge)
                found = found.for_classes(seen, -np.inf) if len(seen) > 2 else found
            else:
                root, offset = scores.root * np.sqrt(factor[0]), scores.offset * factor[0]
                found = replace(scores, root=root, offset=offset, seen=seen)
            parts.append(Part(name, fixed, found))
        return Average(tuple(parts), ridge)


def rank_by_leave_one_out(
    candidates: Sequence[tuple[str, State, Options]],
    ridges: Vector,
    kept: RowBuffer,
    heat: float,
) -> CandidateRanking | None:
    """Rank candidates by kept rows, each scored without itself; None below two classes."""
    models, G = [], []
    for name, state, options in candidates:
        filled = state.imputation
        moments = state.moments if filled is None else filled.moments
        classes = Classes.of(moments, moments.labels[:0])
        if len(classes.labels) < 2:
            return None
        X, code, weight, clock = kept.arrays(classes.labels, kept.ranking_rows(len(classes.labels)))
        passed = moments.N[classes.slots][code] - clock
        passed, half_life = np.maximum(passed, 0.0), state.config.decay.rows
        one, weight = (
            decayed_weight(w, passed, half_life) for w in (np.minimum(weight, 1.0), weight)
        )
        Z = state.terms(X) if filled is None else state.impute(X)
        sample = Sample(Z, code, one, weight, own_landmarks(state.fixed, Z))
        found = leave_one_out_scores(moments, classes, options, ridges, sample)
        alone = one >= (1.0 - 1e-9) * moments.n[classes.slots][code]
        G.append(
            _g_means(found, code, np.where(alone, 0.0, weight), classes, options.class_factors)
        )
        weights = found.weights if filled is None else for_raw_rows(found.weights, filled)
        models.append(CandidateModel(map_name(name), state.fixed, weights, found.rms))
    best = max(range(len(G)), key=lambda i: float(G[i].max()))
    names = [name for name, _, _ in candidates]
    return CandidateRanking(names, models, G, (best, int(G[best].argmax())), heat)


def own_landmarks(fixed: FittedMap | None, Z: Matrix) -> NDArray[np.intp]:
    """Return the term (n,) whose landmark each mapped row (n, d) is; −1 for none."""
    at = None if fixed is None else fixed.map.landmarks_at(len(fixed.mean))
    if at is None:
        return np.full(len(Z), -1)
    near = Z[:, at] >= MIN_OWN_NEARNESS
    return np.where(near.any(axis=1), at.start + near.argmax(axis=1), -1)


def _g_means(
    left: LeaveOneOutScores,
    code: NDArray[np.intp],
    weight: Vector,
    classes: Classes,
    class_factors: ClassFactors,
) -> Vector:
    """Return the G-mean by ridge. A row counts as found by Φ of its margin over MARGIN_SCALE units.

    The unit is the rms of two classes. Scores of several have a large rms if one class is far from
    all others, and the margins between these are small in comparison: their unit is the median size
    of the margins of a class, in the median over the classes. A row that is all of its class cannot
    be left out, and has the weight 0 here.
    """
    f, own, unit = left.scores, np.arange(len(code)), left.rms
    if f.shape[2] == 1:
        margin = np.where(code[:, None] == 1, f[..., 0], -f[..., 0])
    else:
        mine = f[own, :, code]
        f[own, :, code] = -np.inf
        margin = 0.5 * (mine - f.max(axis=2))
        classes_of = [(code == k) & (weight > 0.0) for k in np.unique(code)]
        sizes = [weighted_median(np.abs(margin[k]), weight[k]) for k in classes_of if k.any()]
        unit = np.median(sizes, axis=0) if sizes else unit
    found = special.ndtr(margin / (MARGIN_SCALE * np.where(unit > 0.0, unit, 1.0)))
    share = by_label(classes.labels, class_factors)
    share = share / share.sum()
    log_G = np.zeros(len(left.rms))
    for k in np.unique(code).tolist():
        rows = np.flatnonzero((code == k) & (weight > 0.0))
        if len(rows):
            w, one = weight[rows], min(float(weight[rows].mean()), 1.0)
            log_G += share[k] * np.log((w @ found[rows] + 0.5 * one) / (w.sum() + one))
    G: Vector = np.exp(log_G)
    known = left.leverage < MAX_MEAN_LEVERAGE
    if not known.any():
        known[0] = True
    return np.where(known, G, -np.inf)
