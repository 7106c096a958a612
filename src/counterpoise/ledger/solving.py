"""Weights of many sets of moments at once, by the formulae of ``exact/solve.py``.

A set is solved for each class against the rest, or for the second of two classes; with classes
balanced unless their weights say otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Flags, Matrix, Vector
from counterpoise.errors import DataError, Remedy, Setting
from counterpoise.exact.moments import EPS
from counterpoise.exact.solve import ROWS
from counterpoise.exact.weighting import by_label, targets
from counterpoise.ledger.series import Series


@dataclass(frozen=True)
class Rule:
    """How moments are solved; see :class:`~counterpoise.BalancedRidgeClassifier`."""

    ridge: float | str = "shrinking"
    class_weight: Any = field(default="balanced", hash=False)
    costs: Any = field(default=None, hash=False)
    scale: str | None = "standard"
    fit_intercept: bool = True
    penalize_intercept: bool = True

    def check(self) -> None:
        """Raise if all buckets cannot be solved at once by this rule."""
        if self.ridge == "gcv":
            raise DataError(
                (Setting("ridge", "gcv"), " chooses anew for every set of buckets"),
                Remedy("compare numbers instead"),
            )
        number = isinstance(self.ridge, (int, float)) and not isinstance(self.ridge, bool)
        if self.ridge != "shrinking" and not (number and 0 < float(self.ridge) < np.inf):
            raise DataError(
                (
                    Setting("ridge"),
                    f" is {self.ridge!r}, and must be a positive number or shrinking",
                )
            )
        if self.scale not in ("standard", None):
            raise DataError((Setting("scale"), f" is {self.scale!r}, and must be standard or none"))


@dataclass(frozen=True, eq=False)
class Lines:
    """Affine scores of many sets: f(x) = offset + coef·(x − anchor).

    Attributes
    ----------
    coef : ndarray of shape (g, problems, d)
        Coefficients in the units of the input.
    offset : ndarray of shape (g, problems)
        Scores at the anchor.
    known : ndarray of bool of shape (g,)
        Whether there are rows of two classes.
    """

    coef: NDArray[np.float64]
    offset: Matrix
    known: Flags


def solved(series: Series, rule: Rule) -> Lines:
    """Solve every set of a series."""
    c = len(series.labels)
    y = targets(c)
    parts = [_solved(series.at(block), rule, y) for block in series.blocks()]
    coef, offset = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    return Lines(coef, offset, (series.n > 0).sum(axis=1) >= 2)


def _solved(series: Series, rule: Rule, y: Matrix) -> tuple[NDArray[np.float64], Matrix]:
    """Coefficients and offsets of the sets of one block."""
    n, mean, S = series.n, series.mean, series.covariances()
    m, s = _affine(series, rule.scale)
    factor = by_label(series.labels, rule.costs)
    coef = np.zeros((len(n), len(y), series.width))
    offset = np.full((len(n), len(y)), -1.0 if len(y) > 1 else np.nan)
    a = np.stack([_totals(series, rule, factor, target) for target in y])
    fit = np.stack([
        (one[:, target > 0] > 0).any(axis=1) & (one[:, target < 0] > 0).any(axis=1)
        for one, target in zip(a, y, strict=True)
    ])  # fmt: skip
    ridge = _ridge(a, n, fit, rule)
    for q, target in enumerate(y):
        some = fit[q]
        if some.any():
            w, t, centre = _weights(
                a[q, some], target, mean[some], S[some], m[some], s[some], ridge[some], rule
            )
            coef[some, q] = w / s[some]
            offset[some, q] = t - np.einsum("gd,gd->g", coef[some, q], centre)
    return coef, offset


def _totals(series: Series, rule: Rule, factor: Vector, y: Vector) -> Matrix:
    """Total weight of each class of every set in one problem."""
    seen = series.n > 0
    if rule.class_weight != "balanced":
        a: Matrix = series.n * factor * by_label(series.labels, rule.class_weight)
        return a
    sides = [(seen & flags).sum(axis=1)[:, None] for flags in (y > 0, y < 0)]
    return np.where(seen, factor / np.maximum(np.where(y > 0, *sides), 1), 0.0)


def _ridge(a: Any, n: Matrix, fit: Flags, rule: Rule) -> Vector:
    """The ridge of every set: one for all of its problems."""
    if rule.ridge != "shrinking":
        return np.full(len(n), float(rule.ridge))
    total = np.maximum(a.sum(axis=2), np.finfo(float).tiny)
    b = np.where(fit, ROWS * (a * a / np.maximum(n, 1.0)).sum(axis=2) / total, 0.0)
    ridge: Vector = b.sum(axis=0) / np.maximum(fit.sum(axis=0), 1)
    return ridge


def _weights(
    a: Matrix, y: Vector, mean: Any, S: Any, m: Matrix, s: Matrix, b: Vector, rule: Rule
) -> tuple[Matrix, Vector, Matrix]:
    """Scaled weights, value at the centre, and the centre, of one problem of every set."""
    total = a.sum(axis=1)
    centre = np.einsum("gc,gcd->gd", a, mean) / total[:, None]
    delta = (mean - centre[:, None]) / s[:, None]
    K = np.einsum("gc,gcij->gij", a, S) / (s[:, :, None] * s[:, None, :])
    K += np.einsum("gc,gci,gcj->gij", a, delta, delta)
    z = np.einsum("gc,gcd->gd", a * y, delta)
    h, t, share = (centre - m) / s, a @ y / total, 1.0 / total
    d = K.shape[1]
    K[:, np.arange(d), np.arange(d)] += b[:, None]
    e = np.sqrt(np.einsum("gii->gi", K))
    K /= e[:, :, None] * e[:, None, :]
    right = np.stack([z / e, h / e], axis=2)
    found = np.linalg.solve(K, right) / e[:, :, None]
    Kz, Kh = found[..., 0], found[..., 1]
    norm = share + np.einsum("gd,gd->g", h, Kh)
    if not rule.fit_intercept:
        rank = 1.0 / norm
    else:
        rank = b / (1.0 + b * norm) if rule.penalize_intercept else 0.0 * norm
    step = rank * (t - np.einsum("gd,gd->g", h, Kz))
    return Kz + step[:, None] * Kh, t - step * share, centre


def _affine(series: Series, scale: str | None) -> tuple[Matrix, Matrix]:
    """Shift and divisor of each feature, as ``exact/scaling.py`` has them."""
    n, mean = series.n, series.mean
    if scale is None:
        return np.tile(-series.anchor, (len(n), 1)), np.ones((len(n), series.width))
    total = np.maximum(n.sum(axis=1), np.finfo(float).tiny)[:, None]
    m = np.einsum("gc,gcd->gd", n, mean) / total
    variance = series.variances() + (mean - m[:, None]) ** 2
    pooled = np.einsum("gc,gcd->gd", n, variance) / total
    constant = pooled <= (8.0 * EPS * (np.abs(series.anchor) + np.abs(m))) ** 2
    return m, np.sqrt(np.where(constant, 1.0, pooled))
