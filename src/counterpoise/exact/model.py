"""From moments and options to scores: what the scikit-learn and the river face share."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from counterpoise import validate
from counterpoise.arrays import Labels, Matrix, Rows, Vector
from counterpoise.exact.moments import REFUSED, Moments, RemovalError
from counterpoise.exact.scaling import affine
from counterpoise.exact.solve import Path, Solution, System, choose_ridge, inflation, solve
from counterpoise.exact.weighting import ClassWeight, Costs, targets, totals
from counterpoise.features import FixedMap
from counterpoise.features.fixed import SLICE

DOUBTFUL = 1e-8  # an estimated relative error that a removal warns about


class PrecisionWarning(UserWarning):
    """Forgetting has cost digits that may be missed."""


@dataclass(frozen=True)
class Options:
    """How moments are looked at; the parameters of BalancedRidgeClassifier say what they mean.

    Attributes
    ----------
    ridge, class_weight, costs, scale, fit_intercept, penalize_intercept, half_life
        See :class:`~counterpoise.BalancedRidgeClassifier`.
    """

    ridge: float | str = 1e-4
    class_weight: ClassWeight = "balanced"
    costs: Costs = None
    scale: str | None = "standard"
    fit_intercept: bool = True
    penalize_intercept: bool = True
    half_life: float | None = None

    @classmethod
    def of(cls, estimator: Any) -> Options:
        """Options of an estimator that has them as attributes; dicts are copied."""
        values: dict[str, Any] = {f.name: getattr(estimator, f.name) for f in fields(cls)}
        for name in ("class_weight", "costs"):
            if isinstance(values[name], Mapping):
                values[name] = dict(values[name])
        return cls(**values)

    def check(self) -> None:
        """Raise if an option has no meaning."""
        if self.ridge != "gcv":
            validate.not_negative(self, "ridge", "or 'gcv'")
        if self.class_weight != "balanced":
            validate.factors(self, "class_weight", "'balanced'")
        validate.factors(self, "costs")
        validate.one_of(self, "scale", ("standard", "minmax", None))
        validate.flag(self, "fit_intercept")
        validate.flag(self, "penalize_intercept")
        if self.half_life is not None:
            validate.positive(self, "half_life")

    @property
    def intercept(self) -> str:
        """What becomes of the constant: "penalized", "free" or "none"."""
        if not self.fit_intercept:
            return "none"
        return "penalized" if self.penalize_intercept else "free"

    @property
    def learning(self) -> tuple[Any, ...]:
        """What decides what is learned, and not only how it is looked at."""
        return self.half_life, self.scale == "minmax"


@dataclass(frozen=True, eq=False)
class Solved:
    """Scores of every class: one problem for two classes, else one a class.

    Attributes
    ----------
    classes : ndarray of shape (c,)
        The labels.
    seen : ndarray of shape (c,)
        Whether a label was ever seen.
    solution : Solution
        The weights.
    factor : ndarray of shape (problems,)
        From odds under the weights of training to odds under the stream's frequencies.
    fixed : FixedMap, optional
        What rows go through first.
    """

    classes: Labels
    seen: NDArray[np.bool_]
    solution: Solution
    factor: Vector
    fixed: FixedMap | None = None

    def scores(self, X: Rows) -> Matrix:
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
        solution = self.solution
        base = solution.coef @ solution.anchor
        if sp.issparse(X) or np.abs(base).max() < 1e3:
            f: Matrix = X @ solution.coef.T + (solution.offset - base)
            return f
        # Far from zero the products would cancel; the differences do not.
        far: Matrix = (X - solution.anchor) @ solution.coef.T
        return far + solution.offset

    def best(self, f: Matrix) -> NDArray[np.intp]:
        """Position of the predicted class of each row of scores."""
        if self.seen.sum() == 1:
            return np.full(len(f), self.seen.argmax())
        if f.shape[1] == 1:
            return (f.ravel() > 0).astype(np.intp)
        best: NDArray[np.intp] = np.where(self.seen, f, -np.inf).argmax(axis=1)
        return best


def solved(moments: Moments, classes: Labels, slots: Sequence[int], options: Options) -> Solved:
    """Solve for every class.

    Parameters
    ----------
    moments : Moments
        What was learned.
    classes : ndarray of shape (c,)
        Labels, in the order of the scores.
    slots : sequence of int
        The slot of each in the moments, −1 if it was never seen.
    options : Options
        How to look.

    Returns
    -------
    Solved
    """
    seen = np.array(slots) >= 0
    systems, factor = _problems(moments, slots, options)
    ridge = choose_ridge(systems) if options.ridge == "gcv" else float(options.ridge)
    solution = solve(systems, ridge)
    if len(classes) > 2:  # a class declared but not seen scores −1
        coef = np.zeros((len(classes), len(moments.anchor)))
        offset, by_class = np.full(len(classes), -1.0), np.ones(len(classes))
        coef[seen], offset[seen], by_class[seen] = solution.coef, solution.offset, factor
        solution, factor = replace(solution, coef=coef, offset=offset), by_class
    return Solved(classes, seen, solution, factor)


def path(
    moments: Moments, slots: Sequence[int], options: Options, ridges: Vector
) -> tuple[NDArray[np.float64], Matrix]:
    """Solve for every class and several ridges, for one decomposition of each problem.

    Parameters
    ----------
    moments : Moments
        What was learned.
    slots : sequence of int
        The slot of each class in the moments; all were seen.
    options : Options
        How to look; their ridge does not count.
    ridges : ndarray of shape (r,)
        The ridges, positive.

    Returns
    -------
    coef : ndarray of shape (r, problems, d)
        Coefficients, as of :class:`~counterpoise.exact.solve.Solution`.
    offset : ndarray of shape (r, problems)
        Scores at the anchor of the moments.
    """
    coef, offset = [], []
    for system in _problems(moments, slots, options)[0]:
        t, w = Path(system).at(ridges)
        coef.append(w / system.s)
        offset.append(t - coef[-1] @ system.centre)
    return np.stack(coef, axis=1), np.stack(offset, axis=1)


def condition(moments: Moments, slots: Sequence[int], options: Options, ridge: float) -> float:
    """Largest condition number of the systems that are solved, in scaled units.

    Parameters
    ----------
    moments : Moments
        What was learned.
    slots : sequence of int
        The slot of each class, −1 if it was never seen.
    options : Options
        How to look.
    ridge : float
        The ridge that is used.

    Returns
    -------
    float
    """
    worst = 1.0
    for system in _problems(moments, slots, options)[0]:
        values = np.linalg.eigvalsh(system.K())
        least = max(float(values[0]), 0.0) + ridge
        worst = max(worst, (float(values[-1]) + ridge) / least if least else np.inf)
    return worst


def lost(moments: Moments, slots: Sequence[int], options: Options) -> Vector:
    """Estimated relative error that removals left in the weights of each feature.

    That of the second moments, times what collinear features make of it.

    Parameters
    ----------
    moments : Moments
        What is left.
    slots : sequence of int
        The slot of each class, −1 if none of it is left.
    options : Options
        How it is looked at.

    Returns
    -------
    ndarray of shape (d,)
    """
    error = moments.lost()
    if error.max() < 1e-14 or not moments.n.any():
        return error
    systems, _ = _problems(moments, slots, options)
    ridge = choose_ridge(systems) if options.ridge == "gcv" else float(options.ridge)
    felt = [inflation(system, ridge) * np.diagonal(system.K()) for system in systems]
    worst: Vector = np.maximum(error, error * np.max(felt, axis=0))
    return worst


def without(
    moments: Moments, chunk: Moments, options: Options, name: Callable[[int], str]
) -> Moments:
    """Moments without the rows of a chunk, if enough digits are left.

    Parameters
    ----------
    moments : Moments
        What was learned; it stays as it is.
    chunk : Moments
        What is to be taken back.
    options : Options
        How the rest is looked at.
    name : callable
        What to call a feature, given its position.

    Returns
    -------
    Moments

    Warns
    -----
    PrecisionWarning
        If the estimated relative error passes 1e-8; above 1e-3 it is an error instead.
    """
    try:
        left = moments - chunk
    except RemovalError as refused:
        if refused.feature is None:
            raise
        raise _too_few_digits(name(refused.feature)) from None
    error = lost(left, [k if n > 0 else -1 for k, n in enumerate(left.n)], options)
    worst, feature = float(error.max()), name(int(error.argmax()))
    if worst > REFUSED:
        raise _too_few_digits(feature)
    if worst > DOUBTFUL:
        warnings.warn(
            f"{feature} keeps about {-np.log10(worst):.0f} correct digits: what was forgotten "
            "varied or weighed so much more than what remains",
            PrecisionWarning,
            stacklevel=3,
        )
    return left.without_empty()


def _too_few_digits(feature: str) -> ValueError:
    return ValueError(
        f"forgetting this would leave {feature} with less than three correct digits: it varied or "
        "weighed so much more than what remains, or was never learned; fit a new model on the rows "
        "that remain. Nothing was forgotten"
    )


def _problems(
    moments: Moments, slots: Sequence[int], options: Options
) -> tuple[list[System], Vector]:
    """One problem for two classes or one for each that was seen, and their odds factors."""
    seen = np.array(slots) >= 0
    slot = np.array(slots)[seen]
    y = targets(len(slots))[:, seen]
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
