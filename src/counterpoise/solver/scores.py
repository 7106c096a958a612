"""From moments and options to scores: solve, check precision, choose the ridge."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from counterpoise.arrays import Matrix, Rows, Vector, to_dense
from counterpoise.errors import DataError, PrecisionError, PrecisionWarning, UnknownRowsError
from counterpoise.feature_maps import FittedMap
from counterpoise.feature_maps.fitted import SLICE
from counterpoise.moments.categories import CodeColumns
from counterpoise.moments.classes import Classes
from counterpoise.moments.downdate import MAX_RELATIVE_ERROR, precision_error
from counterpoise.moments.moments import EPS, Moments
from counterpoise.moments.resize import drop_empty_classes
from counterpoise.solver.calibration import Calibration
from counterpoise.solver.categories import CategoryEffects, solve_ridge
from counterpoise.solver.category_classes import solve_lda
from counterpoise.solver.class_weights import affine, class_total_weights, targets
from counterpoise.solver.link import Link
from counterpoise.solver.options import Options
from counterpoise.solver.ridge import (
    PooledClasses,
    RidgeSystems,
    choose_ridge,
    decaying_ridge,
    inflation,
    linear,
    quadratic,
    scatters,
)
from counterpoise.solver.score_functions import Solution

MAX_FEATURES_FULL_EIGEN = 500  # of which all eigenvalues are found in no time
# An estimated relative error that a removal warns about. In random trials the true one was
# up to 9.5 times the estimate, so that silence means 1e-8.
WARN_RELATIVE_ERROR = 1e-9
NOT_QUADRATIC = (
    "columns with many categories need linear boundaries: leave pooled_rows out, or hash them"
)


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of every class: a function of the row, of shape (problems,).

    ``link`` leads to probabilities, where they are needed; ``fixed`` maps the rows first;
    ``calibration`` corrects stream probabilities; ``effects`` are those of columns with many
    categories.
    """

    classes: Classes
    solution: Solution
    link: Link | None = None
    fixed: FittedMap | None = None
    calibration: Calibration | None = None
    effects: CategoryEffects | None = None

    def of(self, X: Rows) -> Matrix:
        """Return the scores (n, problems) of rows."""
        if self.effects is None:
            return self._of_features(X)
        X, index = self.effects.columns.split(X)
        return self._of_features(X) + self.effects.of(index)

    def _of_features(self, X: Rows) -> Matrix:
        """Return the scores (n, problems) of rows without columns of many categories."""
        if self.fixed is None:
            return self.solution.of(X)
        f = np.empty((X.shape[0], self.classes.n_scores))
        for start in range(0, X.shape[0], SLICE):
            part = X[start : start + SLICE]
            mapped = self.fixed.transform(to_dense(part))
            f[start : start + SLICE] = self.solution.of(mapped)
        return f

    def probabilities(self, f: Matrix, stream: bool) -> Matrix:
        """Return balanced or stream probabilities of scores."""
        assert self.link is not None
        p = self.link.probabilities(f, self.classes.seen, stream)
        if not stream or self.calibration is None:
            return p
        return self.calibration.probabilities(p, self.classes.labels, self.classes.seen)


def solve_scores(
    moments: Moments, classes: Classes, options: Options, columns: CodeColumns | None = None
) -> Scores:
    """Solve for every class; ``columns`` are those with many categories."""
    problem = build_problem(moments, classes, options)
    ridge = resolve_ridge(problem, options)
    solution: Solution
    if columns is not None and moments.categories is not None:
        if options.pooled_rows is not None:
            raise DataError(NOT_QUADRATIC)
        if isinstance(problem, RidgeSystems):
            found, effects = solve_ridge(problem, moments.categories, columns, ridge)
        else:
            found, effects = solve_lda(problem, moments.categories, columns, ridge)
        if classes.n_scores > 1:
            absent = -1.0 if isinstance(problem, RidgeSystems) else -np.inf
            found = found.for_classes(classes.seen, absent)
            effects = effects.for_classes(classes.seen)
        return Scores(classes, found, effects=effects)
    if isinstance(problem, RidgeSystems):
        solution = problem.scores(ridge)
        if classes.n_scores > 1:
            solution = solution.for_classes(classes.seen, -1.0)
    elif options.pooled_rows is not None:
        solution = quadratic(problem, ridge, options.pooled_rows, classes.seen)
    else:
        solution = linear(problem, ridge).for_classes(classes.seen, -np.inf)
    return Scores(classes, solution)


def condition(moments: Moments, classes: Classes, options: Options, ridge: float) -> float:
    """Return the largest condition number of the systems with this ridge, in scaled units."""
    worst = 1.0
    for K, _ in _matrices(build_problem(moments, classes, options), options):
        least, most = _extreme_eigenvalues(K, ridge)
        worst = max(worst, most / least if least else np.inf)
    return worst


def _matrices(
    problem: RidgeSystems | PooledClasses, options: Options
) -> Iterator[tuple[Matrix, Vector]]:
    """Yield each matrix that is inverted, without the ridge, and all second moments, within and
    between classes, to which its errors are relative.
    """
    if isinstance(problem, RidgeSystems):
        for one in problem:
            yield (K := one.K()[0]), np.diagonal(K).copy()
        return
    size = np.diagonal(problem.against_rest().K()[0])
    if options.pooled_rows is None:
        yield problem.K(), size
        return
    for K in scatters(problem, options.pooled_rows):
        yield K, size


def _extreme_eigenvalues(K: Matrix, ridge: float) -> tuple[float, float]:
    """Return the least and the largest eigenvalue of K + ridge.

    Those of a wide K are found by Lanczos iterations with K and, after one Cholesky decomposition,
    with its inverse, in a fifteenth of the time of all d eigenvalues. Where many are close to the
    extreme ones, Lanczos does not converge, and all are computed.
    """
    if len(K) <= MAX_FEATURES_FULL_EIGEN:
        values = np.linalg.eigvalsh(K)
        return max(float(values[0]), 0.0) + ridge, float(values[-1]) + ridge
    from scipy.linalg import LinAlgError, cho_factor, cho_solve
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    K[np.diag_indices_from(K)] += ridge
    wanted = {"k": 1, "which": "LA", "tol": 1e-9, "return_eigenvectors": False}
    wanted |= {"v0": np.random.default_rng(0).standard_normal(len(K)), "maxiter": 100}
    try:
        most = float(eigsh(K, **wanted)[0])
    except ArpackNoConvergence:
        values = np.linalg.eigvalsh(K)
        return max(float(values[0]), ridge), float(values[-1])
    try:
        factor = cho_factor(K.T, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return ridge, most
    inverse = LinearOperator(K.shape, matvec=lambda v: cho_solve(factor, v), dtype=np.float64)
    try:
        least = 1.0 / float(eigsh(inverse, **wanted)[0])
    except ArpackNoConvergence:
        L = np.tril(factor[0])
        least = float(np.linalg.eigvalsh(L @ L.T)[0])
    return max(least, ridge), most


def precision_loss(moments: Moments, options: Options) -> Vector:
    """Return the estimated relative error (d,) that removals left in the coefficients.

    It is the error of the second moments, times its inflation by collinear features.
    """
    error = worst = moments.relative_error()
    if not moments.n.any():
        return error
    problem = build_problem(moments, Classes.in_order_of_appearance(moments), options)
    ridge = None
    # Errors are those of all classes together, and of a covariance of its own one may have all.
    share = len(moments.n) if options.pooled_rows is not None else 1
    for K, size in _matrices(problem, options):
        own = np.diagonal(K)
        relative = np.divide(error * size, own, out=error.copy(), where=own > EPS * size)
        if relative.max() < 1e-14:
            continue
        ridge = resolve_ridge(problem, options) if ridge is None else ridge
        felt = np.where(error > 0.0, inflation(K, ridge), 0.0) * size
        worst = np.maximum(worst, error * felt * share)
    return worst


def subtract_checked(
    moments: Moments, chunk: Moments, options: Options, name_of: Callable[[int], str]
) -> Moments:
    """Return moments without the rows of a chunk, if enough digits are left.

    Warn above an estimated error of 1e-9; above 1e-3 it is an error. ``name_of`` names a feature,
    given its position. The memory of the chunk is reused: it must not be used any more.
    """
    try:
        left = moments.subtract(chunk)
    except PrecisionError as refused:
        if refused.feature is None:
            raise
        if isinstance(refused, UnknownRowsError):
            name = name_of(refused.feature)
            raise UnknownRowsError(f"{name} {refused}", refused.feature) from None
        raise PrecisionError(precision_error(name_of(refused.feature)), refused.feature) from None
    error = precision_loss(left, options)
    worst, feature = float(error.max()), name_of(int(error.argmax()))
    if worst > MAX_RELATIVE_ERROR:
        raise PrecisionError(precision_error(feature), int(error.argmax()))
    if worst > WARN_RELATIVE_ERROR:
        warnings.warn(
            f"{feature} keeps about {-np.log10(worst):.0f} correct digits: what was unlearned "
            "varied or weighed so much more than what remains",
            PrecisionWarning,
            stacklevel=3,
        )
    return drop_empty_classes(left)


def build_problem(
    moments: Moments, classes: Classes, options: Options
) -> RidgeSystems | PooledClasses:
    """Return the problem: of two classes, of each class against the rest, or of all together."""
    if options.pooled_rows is not None or (classes.n_scores > 1 and options.multi_class == "lda"):
        return PooledClasses.of(moments, classes, options)
    seen = classes.seen
    slot = classes.slots[seen]
    labels, N = moments.labels[slot], moments.N[slot]
    m, s = affine(moments, options.scale)
    weights = options.class_weight, options.class_factors
    y = targets(len(seen))[:, seen]
    if len(y) > 1:
        y = y[seen]
    a_k, y_k = np.zeros((2, len(y), len(moments.n)))
    a_k[:, slot], y_k[:, slot] = class_total_weights(labels, N, y, *weights), y
    return RidgeSystems.of(moments, m, s, a_k, y_k[:, None], options.intercept)


def resolve_ridge(problem: RidgeSystems | PooledClasses, options: Options) -> float:
    """Return the ridge of the options: a number, the decaying ridge, or the chosen one."""
    systems = problem.against_rest() if isinstance(problem, PooledClasses) else problem
    if options.ridge == "gcv":
        return choose_ridge(systems)
    if options.ridge != "auto":
        return float(options.ridge)
    # One ridge for several problems that differ in their weights: the mean.
    return float(decaying_ridge(systems.a, systems.n).mean())
