"""From moments and options to scores, which both faces and the chooser share."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from counterpoise.arrays import Matrix, Rows, Vector
from counterpoise.exact.classes import Classes
from counterpoise.exact.moments import Moments
from counterpoise.exact.options import Options
from counterpoise.exact.probability import probabilities
from counterpoise.exact.removal import REFUSED, RemovalError, too_few_digits
from counterpoise.exact.scaling import affine
from counterpoise.exact.shapes import without_empty
from counterpoise.exact.solve import Path, Solution, System, choose_ridge, inflation, solve
from counterpoise.exact.weighting import targets, totals
from counterpoise.features import FixedMap
from counterpoise.features.fixed import SLICE

FEW_FEATURES = 500  # of which all eigenvalues are found in no time
# An estimated relative error that a removal warns about. In random trials the true one was
# up to 9.5 times the estimate, so that silence means 1e-8.
DOUBTFUL = 1e-9


class PrecisionWarning(UserWarning):
    """Forgetting has cost digits that may be missed."""


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of every class: a function of the row, of shape (problems,).

    ``factor``, one for each problem, leads from odds under the weights of training to odds under
    the stream's frequencies; ``fixed`` is the map that rows go through first.
    """

    classes: Classes
    solution: Solution
    factor: Vector
    fixed: FixedMap | None = None

    def of(self, X: Rows) -> Matrix:
        """Scores of rows, of shape (n, problems)."""
        if self.fixed is None:
            return self._affine(X)
        f = np.empty((X.shape[0], len(self.solution.offset)))
        for start in range(0, X.shape[0], SLICE):
            part = X[start : start + SLICE]
            mapped = self.fixed.transform(part.toarray() if sp.issparse(part) else part)
            f[start : start + SLICE] = self._affine(mapped)
        return f

    def _affine(self, X: Rows) -> Matrix:
        coef, anchor, offset = self.solution.coef, self.solution.anchor, self.solution.offset
        base = coef * anchor
        if np.abs(base).sum(axis=1).max() < 1e3:
            f: Matrix = X @ coef.T + (offset - coef @ anchor)
            return f
        # Far from zero the products would cancel; the differences do not.
        if not sp.issparse(X):
            f = (X - anchor) @ coef.T
            return f + offset
        is_far = np.abs(base).max(axis=0) >= 1.0
        near, far = np.where(is_far, 0.0, coef), np.flatnonzero(is_far)
        f = X @ near.T + (offset - near @ anchor)
        for start in range(0, X.shape[0], SLICE):
            part = X[start : start + SLICE][:, far].toarray() - anchor[far]
            f[start : start + SLICE] += part @ coef[:, far].T
        return f

    def probabilities(self, f: Matrix, stream: bool) -> Matrix:
        """Probabilities of scores, under the weights of training or the stream's frequencies."""
        factor = self.factor if stream else np.ones_like(self.factor)
        return probabilities(f, factor, self.classes.seen)


def scores_of(moments: Moments, classes: Classes, options: Options) -> Scores:
    """Solve for every class."""
    systems, factor = problems_of(moments, classes, options)
    ridge = choose_ridge(systems) if options.ridge == "gcv" else float(options.ridge)
    solution = solve(systems, ridge)
    c = len(classes.labels)
    if classes.problems > 1:  # a class declared but not seen scores −1
        coef, offset, by_class = np.zeros((c, len(moments.anchor))), np.full(c, -1.0), np.ones(c)
        seen = classes.seen
        coef[seen], offset[seen], by_class[seen] = solution.coef, solution.offset, factor
        solution, factor = replace(solution, coef=coef, offset=offset), by_class
    return Scores(classes, solution, factor)


def path(
    moments: Moments, classes: Classes, options: Options, ridges: Vector
) -> tuple[NDArray[np.float64], Matrix]:
    """Solve for every class, all of them seen, and several ridges.

    One decomposition of each problem serves all ridges; that of the options does not count.

    Returns
    -------
    coef : ndarray of shape (r, problems, d)
        Coefficients, as of :class:`~counterpoise.exact.solve.Solution`.
    offset : ndarray of shape (r, problems)
        Scores at the anchor of the moments.
    """
    coef, offset = [], []
    for system in problems_of(moments, classes, options)[0]:
        t, w = Path(system).at(ridges)
        coef.append(w / system.s)
        offset.append(t - coef[-1] @ system.centre)
    return np.stack(coef, axis=1), np.stack(offset, axis=1)


def condition(moments: Moments, classes: Classes, options: Options, ridge: float) -> float:
    """Largest condition number of the systems that are solved with this ridge, in scaled units."""
    worst = 1.0
    for system in problems_of(moments, classes, options)[0]:
        least, most = _ends(system.K(), ridge)
        worst = max(worst, most / least if least else np.inf)
    return worst


def _ends(K: Matrix, ridge: float) -> tuple[float, float]:
    """Least and largest eigenvalue of K + ridge.

    Those of a wide K are found by Lanczos iterations with K and, after one Cholesky
    decomposition, with its inverse; all d of them would take some fifteen times as long.
    """
    if len(K) <= FEW_FEATURES:
        values = np.linalg.eigvalsh(K)
        return max(float(values[0]), 0.0) + ridge, float(values[-1]) + ridge
    from scipy.linalg import LinAlgError, cho_factor, cho_solve
    from scipy.sparse.linalg import LinearOperator, eigsh

    K[np.diag_indices_from(K)] += ridge
    wanted = {"k": 1, "which": "LA", "tol": 1e-9, "return_eigenvectors": False}
    wanted["v0"] = np.random.default_rng(0).standard_normal(len(K))
    most = float(eigsh(K, **wanted)[0])
    try:
        factor = cho_factor(K.T, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return ridge, most
    inverse = LinearOperator(K.shape, matvec=lambda v: cho_solve(factor, v), dtype=np.float64)
    return max(1.0 / float(eigsh(inverse, **wanted)[0]), ridge), most


def lost(moments: Moments, options: Options) -> Vector:
    """Estimated relative error that removals left in the weights of each feature.

    That of the second moments, times what collinear features make of it.
    """
    error = moments.lost()
    if error.max() < 1e-14 or not moments.n.any():
        return error
    systems, _ = problems_of(moments, Classes.as_arrived(moments), options)
    ridge = choose_ridge(systems) if options.ridge == "gcv" else float(options.ridge)
    felt = [inflation(system, ridge) * np.diagonal(system.K()) for system in systems]
    worst: Vector = np.maximum(error, error * np.max(felt, axis=0))
    return worst


def without(
    moments: Moments, chunk: Moments, options: Options, name_of: Callable[[int], str]
) -> Moments:
    """Moments without the rows of a chunk, if enough digits are left; these stay as they are.

    Warns with a :class:`PrecisionWarning` if the relative error may pass 1e-8; above 1e-3 it is an
    error. ``name_of`` is what to call a feature, given its position. The chunk must not be used
    any more: its room is taken over.
    """
    try:
        left = moments.without(chunk)
    except RemovalError as refused:
        if refused.feature is None:
            raise
        raise ValueError(too_few_digits(name_of(refused.feature))) from None
    error = lost(left, options)
    worst, feature = float(error.max()), name_of(int(error.argmax()))
    if worst > REFUSED:
        raise ValueError(too_few_digits(feature))
    if worst > DOUBTFUL:
        warnings.warn(
            f"{feature} keeps about {-np.log10(worst):.0f} correct digits: what was forgotten "
            "varied or weighed so much more than what remains",
            PrecisionWarning,
            stacklevel=3,
        )
    return without_empty(left)


def problems_of(
    moments: Moments, classes: Classes, options: Options
) -> tuple[list[System], Vector]:
    """One problem for two classes or one for each that was seen, and their odds factors."""
    seen = classes.seen
    slot = classes.slots[seen]
    y = targets(len(seen))[:, seen]
    if len(y) > 1:
        y = y[seen]
    labels, N = moments.labels[slot], moments.N[slot]
    rate = N if options.half_life is None else moments.n[slot] / moments.stream[slot]
    a = totals(labels, N, y, options.class_weight, options.costs)
    m, s = affine(moments, options.scale)
    systems = []
    for a_j, y_j in zip(a, y, strict=True):
        by_slot = np.zeros((2, len(moments.n)))
        by_slot[:, slot] = a_j, y_j
        systems.append(System(moments, m, s, by_slot[0], by_slot[1], options.intercept))
    positive = y > 0
    weight = [(a * side).sum(axis=1) for side in (positive, ~positive)]
    count = [side @ rate for side in (positive, ~positive)]
    with np.errstate(divide="ignore", invalid="ignore"):
        factor: Vector = (count[0] * weight[1]) / (count[1] * weight[0])
    return systems, factor
