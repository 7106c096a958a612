"""Contributions of each feature to a score, which add up to it.

The contributions are integrated gradients (Sundararajan, Taly and Yan, "Axiomatic Attribution for
Deep Networks", 2017) along the straight line from the balanced centre c to the row x,

    r_j(x) = (x_j − c_j) ∫ ∂f/∂x_j (c + t (x − c)) dt,   t from 0 to 1,      Σ_j r_j = f(x) − f(c)

with c = Σ a_k μ_k / Σ a_k, the mean of the class means, each weighted as the model weighs its
class. All are exact to rounding:

    linear        r_j = w_j (x_j − c_j)
    quadratic     the gradient is linear along the line: its value in the middle is its mean
    polynomials   Gauss-Legendre nodes, as many as make it exact for the degree
    waves         ∫ cos(θ + t u) dt = cos(θ + u/2) sin(u/2)/(u/2)
    quadratic of waves   Gauss-Legendre in panels in which no wave turns by more than 8

Features are standardized and clipped before a map; the line is between the images of the centre
and of the row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Matrix, Rows, Vector, to_dense
from counterpoise.explanation import Explanation
from counterpoise.feature_maps import FittedMap
from counterpoise.feature_maps.base import nodes
from counterpoise.moments.moments import Moments
from counterpoise.solver.categories import CategoryEffects
from counterpoise.solver.class_weights import class_prior_weights
from counterpoise.solver.options import Options
from counterpoise.solver.score_functions import LinearScores, QuadraticScores
from counterpoise.solver.scores import Scores

MAX_RADIANS_PER_PANEL = 8.0  # of a wave, in which this many nodes are exact to rounding:
NODES_PER_PANEL = 20
MAX_PANELS = 4096  # of a way, which would take too long
MAX_SLICE_ROWS = 1024  # rows at a time


def centre_of(moments: Moments, options: Options) -> Vector:
    """Return the balanced centre, relative to the anchor, of the features or the terms of a map."""
    seen = moments.n > 0
    labels, N = moments.labels[seen], moments.N[seen]
    a = class_prior_weights(labels, N, options.class_weight, options.class_factors)
    centre: Vector = a @ moments.mean[seen] / a.sum()
    return centre


def explain(
    parts: Sequence[tuple[Scores, Moments]], options: Options, X: Rows, names: Sequence[str] | None
) -> Explanation:
    """Return the contributions of features, named or x0, x1, ..., to the sum of scores of rows.

    Each part is relative to the balanced center after its own map. All parts have the same effects
    of categories: a column with many categories contributes the effect of the category, less its
    mean over the classes.
    """
    effects, features = parts[0][0].effects, X
    if effects is not None:
        features, index = effects.columns.split(X)
    values, base = contributions(*parts[0], options, features)
    for part in parts[1:]:
        more, at = contributions(*part, options, features)
        values, base = values + more, base + at
    if effects is not None:
        more, at = category_contributions(effects, parts[0][1], options, index)
        more[:, ~np.isfinite(base)] = 0.0
        values, base = np.concatenate([values, more], axis=2), base + at
    called = [f"x{j}" for j in range(X.shape[1])] if names is None else [str(n) for n in names]
    data, labels = to_dense(X), parts[0][0].classes.labels
    if len(base) == 1:
        return Explanation(values[:, 0], base[0], called, labels, data)
    return Explanation(values, base, called, labels, data)


def contributions(
    scores: Scores, moments: Moments, options: Options, X: Rows
) -> tuple[NDArray[np.float64], Vector]:
    """Return contributions (n, problems, l), and the scores at the centre (problems,).

    Contributions to an infinite score, as of a class that was never seen, are 0. Columns with many
    categories are left out.
    """
    centre, solution, fixed = centre_of(moments, options), scores.solution, scores.fixed
    if fixed is None:
        base = solution.of((centre + solution.anchor)[None])[0]
        if isinstance(solution, LinearScores):
            base = solution.offset + solution.coef @ centre
    else:
        at = fixed.map.features_at(len(fixed.mean))
        start = np.zeros(len(fixed.mean)) if at is None else (centre + solution.anchor)[at]
        base = solution.of(fixed.map.apply(start[None], fixed.drawn))[0]
    result = np.zeros((X.shape[0], len(base), X.shape[1]))
    if not np.isfinite(base).any():
        return result, base
    for first in range(0, len(result), MAX_SLICE_ROWS):
        part = X[first : first + MAX_SLICE_ROWS]
        rows = to_dense(part)
        into = result[first : first + MAX_SLICE_ROWS]
        if fixed is not None:
            into[:] = _contributions_through_map(
                fixed, solution, start[None], fixed.scale(rows) - start
            )
        elif isinstance(solution, LinearScores):
            np.multiply((rows - solution.anchor - centre)[:, None], solution.coef, out=into)
        else:
            into[:] = _quadratic(solution, centre, rows - solution.anchor - centre)
    result[:, ~np.isfinite(base)] = 0.0
    return result, base


def category_contributions(
    effects: CategoryEffects, moments: Moments, options: Options, index: NDArray[np.intp]
) -> tuple[NDArray[np.float64], Vector]:
    """Return contributions (n, problems, B) of columns with many categories.

    ``index`` (n, B) are the categories of the rows. The effects at the centre (problems,) come
    second.
    """
    assert moments.categories is not None
    seen = moments.n > 0
    labels, N = moments.labels[seen], moments.N[seen]
    a = class_prior_weights(labels, N, options.class_weight, options.class_factors)
    problems = effects.values[0].shape[1]
    result, total = np.zeros((len(index), problems, index.shape[1])), np.zeros(problems)
    for b, (values, own) in enumerate(zip(effects.values, index.T, strict=True)):
        column = moments.categories.columns[b]
        share = (a / a.sum() / moments.n[seen]) @ column.resize(len(values)).n[seen]
        mean = share[: len(values)] @ values
        there = (own >= 0) & (own < len(values))
        result[there, :, b] = values[own[there]]
        result[:, :, b] -= mean
        total += mean
    return result, total


def _quadratic(solution: QuadraticScores, centre: Vector, way: Matrix) -> NDArray[np.float64]:
    """Return contributions to quadratic scores: minus way times Σ⁻¹ (middle − mean)."""
    middle, classes = centre + 0.5 * way, zip(solution.mean, solution.root, strict=True)
    found = [-way * ((middle - mean) @ root @ root.T) for mean, root in classes]
    return solution.combine_classes(np.stack(found, axis=1))


def _contributions_through_map(
    fixed: FittedMap, solution: LinearScores | QuadraticScores, start: Matrix, way: Matrix
) -> NDArray[np.float64]:
    """Return contributions to scores of the terms of a map."""
    if isinstance(solution, LinearScores):
        return fixed.map.path_contributions(start, way, solution.coef, fixed.drawn)
    t, weight = _panels(fixed, way)
    found = np.zeros((len(way), len(solution.mean), way.shape[1]))
    for at, w in zip(t, weight, strict=True):
        Z = start + at * way
        terms = fixed.map.apply(Z, fixed.drawn) - solution.anchor
        for k, (mean, root) in enumerate(zip(solution.mean, solution.root, strict=True)):
            G = (terms - mean) @ root @ root.T
            found[:, k] -= w * fixed.map.vjp(Z, G, fixed.drawn)
    found *= way[:, None]
    return solution.combine_classes(found)


def _panels(fixed: FittedMap, way: Matrix) -> tuple[Vector, Vector]:
    """Return nodes and weights for the square of the terms of a map on these ways."""
    degree = 2 * fixed.map.degree
    turn = 2.0 * fixed.map.max_phase(way, fixed.drawn)
    if turn == 0.0:
        return nodes(degree)
    panels = int(np.ceil(turn / MAX_RADIANS_PER_PANEL))
    if panels > MAX_PANELS:
        raise ValueError(
            f"the waves of {fixed.map.text} turn too often for reasons with pooled_rows; "
            "take a larger width"
        )
    t, weight = nodes(degree + 2 * NODES_PER_PANEL)
    at = (np.arange(panels)[:, None] + t) / panels
    return at.ravel(), np.tile(weight / panels, panels)
