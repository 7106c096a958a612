"""Leave-one-out scores of kept rows, and the ranking of candidates by them.

A score of a row by a model of all other rows follows from the moments, without learning again. For
least squares of two classes see :class:`counterpoise.solver.leave_one_out.LeftOut`. LDA and
QDA: without the row x of class k the mean moves by v/(n − 1), v = x − μ_k, and W loses its share of
vvᵀ, so that the formula of Sherman and Morrison gives distances and determinants. The other rows of
the class then count n/(n − 1) times as much.

A new row is not a landmark. So a row that is one is left out of a model without this landmark.

With one-hot features e of columns with many categories, M their second moments with ridges, and
U = M⁻¹Σ E[eφᵀ], the product u·R⁻¹v is

    e_u·M⁻¹e_v + φ̃_u·S⁻¹φ̃_v,      φ̃ = φ − Uᵀe

where S, of which the categories are eliminated, has one eigendecomposition for every ridge of φ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

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
from counterpoise.moments.categories import CodeColumns
from counterpoise.moments.classes import Classes
from counterpoise.moments.moments import Moments
from counterpoise.solver.categories import (
    CategoryEffects,
    CategorySystems,
    choose_category_ridges,
    row_unit,
    split_columns,
    stack_of,
    stacks_of,
)
from counterpoise.solver.category_classes import WithinClasses, within_classes
from counterpoise.solver.class_weights import ClassFactors, by_label
from counterpoise.solver.imputation import ImputedMoments
from counterpoise.solver.leave_one_out import LeftOut
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
    categories: NDArray[np.intp] | None = None  # (n, B) in columns with many of them


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
    moments: Moments,
    classes: Classes,
    options: Options,
    ridges: Vector,
    rows: Sample,
    columns: CodeColumns | None = None,
) -> LeaveOneOutScores:
    """Return scores of learned rows, each by models without it.

    Quadratic boundaries have the ridge of the options, all others have the r ridges. ``columns``
    are those with many categories, whose ridges are given.
    """
    problem = build_problem(moments, classes, options)
    about = rows._replace(Z=rows.Z - moments.anchor)
    if columns is not None and moments.categories is not None:
        rows_worth = np.array(columns.pseudo_rows, dtype=np.float64)
        if isinstance(problem, RidgeSystems):
            own = rows_worth * row_unit(problem)
            left = CategorySystems.after(problem, stack_of(problem, moments.categories), own)
            return _category_squares(left, ridges, about, classes.slots[rows.code])
        own = rows_worth * row_unit(problem.against_rest())
        within = within_classes(problem, moments.categories, 0.0, own)
        return _category_linear(within, ridges, about)
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
            filled.raw.anchor.copy(),
            filled.coefficients_for_raw_rows(weights.coef),
            weights.offset,
            weights.effects,
        )
    found = filled.for_raw_rows(weights)
    assert isinstance(found, QuadraticScores)
    return found


def _squares(
    systems: RidgeSystems, b: Vector, rows: Sample, slot: NDArray[np.intp]
) -> LeaveOneOutScores:
    left = LeftOut(systems, b, rows.Z, slot, rows.weight, rows.own)
    models = RidgePathScores(systems.anchor.copy(), left.coef[:, None], left.offset[:, None])
    largest = _largest(left.leverage, slot)
    return LeaveOneOutScores(left.scores[..., None], models, left.rms, largest)


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


def _category_squares(
    left: CategorySystems, b: Vector, rows: Sample, slot: NDArray[np.intp]
) -> LeaveOneOutScores:
    """Return leave-one-out scores as :class:`LeftOut` does, with categories."""
    assert rows.categories is not None
    path, base, stack = left.path(), left.base, left.stack
    E, s, shift = stack.rows(rows.categories), base.s[0], left.shift
    coef, offset = (one[0] for one in path.coefficients(b))
    beta = left.beta(coef, offset)  # (1 + d, r) about the centre of the base
    alpha = left.effects(coef, offset)  # (K, r)
    phi = np.column_stack([np.ones(len(rows.Z)), (rows.Z - base.centre) / s]) - E @ left.U
    one, P = phi[:, :1], (phi[:, 1:] - phi[:, :1] * shift) @ path.V
    inverse = 1.0 / (path.lam + b[:, None])
    u, pull = inverse * path.h, path.rank_one(b, path.norm(inverse))
    tilt = one * path.share - P @ u.T  # φ̃·S⁻¹q
    y, omega = left.y[0, 0, slot, None], (rows.weight * left.alpha[slot])[:, None]
    norm = left.inverse.norms(E)[:, None] + one**2 * path.share + P**2 @ inverse.T
    h, f = norm - pull * tilt**2, E @ left.target_effects + phi @ beta
    # The model of a row that is a landmark has no term e of this landmark.
    has_own = np.flatnonzero(rows.own >= 0)
    e = path.V[rows.own[has_own]]
    lean = e @ u.T
    size = e**2 @ inverse.T - pull * lean**2
    ratio = ((P[has_own] * e) @ inverse.T + pull * tilt[has_own] * lean) / np.where(
        size > 0.0, size, np.inf
    )
    h[has_own] -= ratio**2 * size
    f[has_own] -= ratio * beta[1 + rows.own[has_own]]
    h = np.clip(omega * h, 0.0, MAX_LEVERAGE)
    scores = (f - h * y) / (1.0 - h)
    for k in np.unique(slot):
        mine, n, delta = slot == k, float(left.n[0, k]), base.delta[0, k]
        Q = np.column_stack([stack.n[k], stack.G[k]]) / n
        # E_k[(φ, e) (y − f)]: the mean residual at the means, less what f has of their scatter
        target = left.y[0, 0, k]
        mean = beta[0] + delta @ beta[1:]
        of_features = np.empty_like(beta)
        of_features[0] = target - mean
        of_features[1:] = delta[:, None] * (target - mean)
        of_features[1:] -= left.C[0, k] / n / s / s[:, None] @ beta[1:]
        of_features -= Q.T @ alpha
        of_categories = target * Q[:, :1] - Q @ beta - stack.product(k, alpha) / n
        solved = left.inverse.solve(of_categories)
        of_features -= left.P.T @ solved
        rest = of_features[0]
        g = (of_features[1:] - shift[:, None] * rest).T @ path.V
        along = E[mine] @ solved + one[mine] * path.share * rest + P[mine] @ (inverse * g).T
        tilted = pull * (path.share * rest - (u * g).sum(axis=1))
        scores[mine] += omega[mine] * (along - tilted * tilt[mine])
        some = mine[has_own]
        at_own = e[some] @ (inverse * g).T + tilted * lean[some]
        scores[has_own[some]] -= omega[has_own[some]] * ratio[some] * at_own
    square = base.total[0] * beta[0] ** 2 + (beta[1:] * (base.K()[0] @ beta[1:])).sum(axis=0)
    square += 2.0 * (beta * (left.P.T @ alpha)).sum(axis=0)
    for k in np.flatnonzero(left.alpha).tolist():
        square += left.alpha[k] * (alpha * stack.product(k, alpha)).sum(axis=0)
    rms = np.sqrt(np.maximum(square, 0.0) / base.total[0])
    effects = np.ascontiguousarray(alpha.T)[..., None]
    models = RidgePathScores(left.anchor.copy(), coef[:, None], offset[:, None], effects)
    return LeaveOneOutScores(scores[..., None], models, rms, _largest(h, slot))


def _category_linear(within: WithinClasses, b: Vector, rows: Sample) -> LeaveOneOutScores:
    """Return leave-one-out scores as :func:`_linear` does, with categories."""
    assert rows.categories is not None
    pool, p, root = within.pool, within.shares, within.root_weights
    weighted = root[:, None] * pool.delta
    S = pool.K() + weighted.T @ weighted
    S -= np.tensordot(within.alpha, within.stack.G, 1).T @ within.U
    lam, V = eigen(0.5 * (S + S.T), (pool.delta != 0.0).any(axis=0))
    E, code = within.stack.rows(rows.categories), rows.code
    share = root**2 / pool.total
    n = pool.moments.n[pool.slots][code]
    left = np.maximum(n - rows.weight, 1e-9 * n)
    beta = share[code] * rows.weight / left  # of vvᵀ that W loses
    P = ((rows.Z - pool.centre) / pool.s - E @ within.U) @ V
    D = (pool.delta - p @ within.U) @ V
    solved = within.inverse.solve(np.ascontiguousarray(p.T))
    e = np.where(rows.own[:, None] >= 0, V[rows.own], 0.0)
    same, across_means, means = within.inverse.norms(E), E @ solved, p @ solved
    own = np.arange(len(P)), code
    scores = np.empty((len(P), len(b), len(D)))
    h, rms = np.empty((len(P), len(b))), np.empty(len(b))
    coef, offset, effects = [], [], []
    for j, ridge in enumerate(b):
        inverse = 1.0 / (lam + ridge)
        # Products with R⁻¹, and then with W⁻¹ by the formula of Woodbury: W = R − MMᵀ
        xd, ed = across_means + (P * inverse) @ D.T, (e * inverse) @ D.T
        dd = root[:, None] * (means + (D * inverse) @ D.T)
        inner = np.linalg.inv(np.eye(len(root)) - dd * root)
        step, own_step = xd * root @ inner, ed * root @ inner
        xx = pool.total * (same + P**2 @ inverse + (step * xd) @ root)
        ex = pool.total * (e * P @ inverse + (own_step * xd) @ root)
        size = pool.total * (e**2 @ inverse + (own_step * ed) @ root)
        xd, ed = pool.total * (xd + step @ dd), pool.total * (ed + own_step @ dd)
        dd = pool.total * (dd / root[:, None] + (dd / root[:, None] * root) @ inner @ dd)
        mine = xd[own]
        near = xx - 2.0 * mine + np.diagonal(dd)[code]
        across = (xx - mine)[:, None] - xd + dd[code]  # v·Σ⁻¹(x − μ_j)
        distance = xx[:, None] - 2.0 * xd + np.diagonal(dd)
        # Without term e all products are less: xᵀΣ⁻¹y by xᵀΣ⁻¹e eᵀΣ⁻¹y / eᵀΣ⁻¹e.
        size[size <= 0.0] = np.inf
        ev, ex = ex - ed[own], ex[:, None] - ed
        near -= ev**2 / size
        across -= (ev / size)[:, None] * ex
        distance -= ex**2 / size[:, None]
        h[:, j] = np.minimum(beta * near, MAX_LEVERAGE)
        distance += (beta / (1.0 - h[:, j]))[:, None] * across**2
        # Its own mean moves away: (n/(n − ω))² times the distance, which W makes longer too.
        distance[own] = (n / left) ** 2 * near / (1.0 - h[:, j])
        distance /= (1.0 + beta)[:, None]
        scores[:, j] = pool.prior + 0.5 * (xx[:, None] - distance)
        x = (V * inverse) @ D.T * root
        u = solved * root - within.U @ x
        w, v = (x @ inner / root).T * pool.total, (u @ inner / root).T * pool.total
        found = within.scores_of(w, v)
        coef.append(found.coef)
        offset.append(found.offset)
        effects.append(np.ascontiguousarray(found.effects.T))
        at = pool.delta @ w.T + p @ v.T + found.offset + found.coef @ pool.centre
        at -= at.mean(axis=1, keepdims=True)
        off_w, off_v = found.coef * pool.s, found.effects
        off_w, off_v = off_w - off_w.mean(axis=0), off_v - off_v.mean(axis=0)
        spread = [np.diagonal(within.covariance(k, off_w, off_v)) for k in range(len(root))]
        rms[j] = np.sqrt((share @ at**2).mean() + (share @ np.array(spread)).mean())
    models = RidgePathScores(
        pool.moments.anchor.copy(), np.stack(coef), np.stack(offset), np.stack(effects)
    )
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
    columns: CodeColumns | None = None  # with many categories, and their ridges
    ends: NDArray[np.intp] | None = None  # where each of them ends among all categories

    @property
    def averaging_weights(self) -> list[Vector]:
        """Weights in the average, by candidate and ridge; they add up to 1."""
        return softmax_weights(self.G, self.temperature)

    def ridge_of_best(self, ridges: Vector) -> float:
        """Return the ridge of the best candidate, one of these if it has no ridge of its own."""
        i, j = self.best
        scores = self.models[i].scores
        return scores.ridge if isinstance(scores, QuadraticScores) else float(ridges[j])

    def average(self, classes: Classes, ridge: float) -> Average:
        """Return the average of the candidates, in units of the best one, for all classes."""
        unit = float(self.models[self.best[0]].rms[self.best[1]]) or 1.0
        effects: Any = 0.0
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
                if scores.effects is not None:
                    effects = effects + np.tensordot(factor, scores.effects, 1)
                found = found.for_classes(seen, -np.inf) if len(seen) > 2 else found
            else:
                root, offset = scores.root * np.sqrt(factor[0]), scores.offset * factor[0]
                found = replace(scores, root=root, offset=offset, seen=seen)
            parts.append(Part(name, fixed, found))
        if self.columns is None or self.ends is None:
            return Average(tuple(parts), ridge)
        values = split_columns(np.asarray(effects), self.ends)
        rows = np.array(self.columns.pseudo_rows, dtype=np.float64)
        all_effects = CategoryEffects(self.columns, values, rows, rows)
        if len(seen) > 2:
            all_effects = all_effects.for_classes(seen)
        return Average(tuple(parts), ridge, all_effects)


def rank_by_leave_one_out(
    candidates: Sequence[tuple[str, State, Options]],
    ridges: Vector,
    kept: RowBuffer,
    heat: float,
) -> CandidateRanking | None:
    """Rank candidates by kept rows, each scored without itself; None below two classes.

    The first one without a map, or else the first one, chooses the ridges of columns with many
    categories.
    """
    models, G, columns, ends, rows = [], [], None, None, None
    plain = next((one for one in candidates if one[1].fixed is None), candidates[0])
    if plain[1].codes is not None and plain[1].moments.categories is not None:
        columns = _with_ridges(plain[1], plain[2])
        if columns is None:
            return None
        ends = np.cumsum([0, *plain[1].moments.categories.sizes])
    for name, state, options in candidates:
        filled = state.imputation
        moments = state.moments if filled is None else filled.moments
        classes = Classes.of(moments, moments.labels[:0])
        if len(classes.labels) < 2:
            return None
        if rows is None:  # all candidates have learned the same rows
            rows = kept.arrays(classes.labels, kept.ranking_rows(len(classes.labels)))
        X, code, weight, clock = rows
        passed = moments.N[classes.slots][code] - clock
        passed, half_life = np.maximum(passed, 0.0), state.config.decay.rows
        one, weight = (
            decayed_weight(w, passed, half_life) for w in (np.minimum(weight, 1.0), weight)
        )
        features, index = X, None
        if state.codes is not None:
            features, index = state.codes.split(X)
        Z = state.terms(X) if filled is None else state.impute(features)
        sample = Sample(Z, code, one, weight, own_landmarks(state.fixed, Z), index)
        found = leave_one_out_scores(moments, classes, options, ridges, sample, columns)
        alone = one >= (1.0 - 1e-9) * moments.n[classes.slots][code]
        G.append(
            _g_means(found, code, np.where(alone, 0.0, weight), classes, options.class_factors)
        )
        weights = found.weights if filled is None else for_raw_rows(found.weights, filled)
        models.append(CandidateModel(map_name(name), state.fixed, weights, found.rms))
    best = max(range(len(G)), key=lambda i: float(G[i].max()))
    names = [name for name, _, _ in candidates]
    best_ridge = int(G[best].argmax())
    return CandidateRanking(names, models, G, (best, best_ridge), heat, columns, ends)


def _with_ridges(state: State, options: Options) -> CodeColumns | None:
    """Return the columns with many categories, each with a ridge; None below two classes."""
    assert state.codes is not None
    moments = state.imputed_moments
    classes = Classes.of(moments, moments.labels[:0])
    if len(classes.labels) < 2 or moments.categories is None:
        return None
    options = replace(options, ridge="auto")
    problem = build_problem(moments, classes, options)
    systems = problem if isinstance(problem, RidgeSystems) else problem.against_rest()
    b = resolve_ridge(problem, options)
    problems = stacks_of(systems, moments.categories)
    chosen = choose_category_ridges(systems, problems, state.codes, b)
    return CodeColumns(tuple(chosen.tolist()))


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
