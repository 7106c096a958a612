"""Class weights: the total weight a_k = α_k n_k of each class, with α_k of docs/math.md.

a_k is the factor of the class if classes are balanced, and its true weight N_k if they are not:
decay changes the moments of a class, not its weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from counterpoise.arrays import Labels, Matrix, Vector
from counterpoise.moments.moments import EPS, Moments

ClassWeight = str | Mapping[Any, float] | None
ClassFactors = Mapping[Any, float] | None


def targets(c: int) -> Matrix:
    """Return targets ±1 (problems, c) of the classes, in sorted order.

    Two classes make one problem, whose positive class is the second; more make one problem for
    each class against the others; a single class is positive.
    """
    if c <= 2:
        return np.array([[-1.0, 1.0]])[:, 2 - c :]
    return 2.0 * np.eye(c) - 1.0


def class_total_weights(
    labels: Labels, N: Vector, y: Matrix, class_weight: ClassWeight, class_factors: ClassFactors
) -> Matrix:
    """Return the total weight a_k of each class in each problem, of shape (problems, ..., c).

    N (..., c) are the true counts of the classes, and y (problems, c) their targets. With
    "balanced" each side of a problem has the weight 1, shared evenly by those of its classes that
    have rows; else each row has a weight by its label, or 1. Factors multiply these weights.
    """
    factor = by_label(labels, class_factors)
    if class_weight != "balanced":
        return np.broadcast_to(by_label(labels, class_weight) * factor * N, (len(y), *N.shape))
    y = y.reshape(len(y), *(1 for _ in N.shape[1:]), -1)
    seen = N > 0
    sides = [(seen & side).sum(axis=-1, keepdims=True) for side in (y > 0, y < 0)]
    return np.where(seen, factor / np.maximum(np.where(y > 0, *sides), 1), 0.0)


def covariance_weights(N: Vector, class_weight: ClassWeight) -> Vector:
    """Return the weight (c,) of each class in their common covariance, given counts N (c,).

    Factors, and weights by label, have no effect on it.
    """
    return np.full(len(N), 2.0 / len(N)) if class_weight == "balanced" else N.copy()


def priors(
    labels: Labels, N: Vector, class_weight: ClassWeight, class_factors: ClassFactors
) -> Vector:
    """Return the logarithm of each class's weight (c,) over the mean of all."""
    a = class_prior_weights(labels, N, class_weight, class_factors)
    logarithm: Vector = np.log(a / a.mean())
    return logarithm


def class_prior_weights(
    labels: Labels, N: Vector, class_weight: ClassWeight, class_factors: ClassFactors
) -> Vector:
    """Return each class's weight (c,) in the model: equal, or its rows, times its factors."""
    a = covariance_weights(N, class_weight) * by_label(labels, class_factors)
    if class_weight != "balanced":
        a = a * by_label(labels, class_weight)
    return a


def by_label(labels: Labels, factors: Any) -> Vector:
    """Return the factor of each label (c,), 1 by default."""
    factors = factors or {}
    return np.array([float(factors.get(label, 1.0)) for label in labels.tolist()])


def affine(moments: Moments, scale: str | None) -> tuple[Vector, Vector]:
    """Return shift m (d,), relative to the anchor, and divisor s (d,) of each feature."""
    anchor = moments.anchor
    if scale is None:
        return -anchor, np.ones(len(anchor))
    seen = moments.n > 0
    variance = np.einsum("kjj->kj", moments.C)[seen] / moments.n[seen, None]
    return standardization(anchor, moments.N[seen], moments.mean[seen], variance)


def standardization(
    anchor: Vector, N: Vector, mean: Matrix, variance: Matrix, moved: Vector | float = 0.0
) -> tuple[Vector, Vector]:
    """Return mean and standard deviation (..., d) of all rows, 1 for a constant feature.

    N (..., c) are the counts, and mean and variance (..., c, d) those of the classes. ``moved``
    (d,) is the distance by which the origin of the means was moved, which has rounded them.
    """
    N, total = N[..., None], np.maximum(N.sum(axis=-1), np.finfo(np.float64).tiny)[..., None]
    m = (N * mean).sum(axis=-2) / total
    pooled = (N * (variance + (mean - m[..., None, :]) ** 2)).sum(axis=-2) / total
    constant = pooled <= (8.0 * EPS * (np.abs(anchor + m) + moved)) ** 2
    return m, np.sqrt(np.where(constant, 1.0, pooled))
