"""Quantiles of weighted rows, feature by feature."""

from __future__ import annotations

import numpy as np

from counterpoise.arrays import Matrix, Vector


def quantiles(X: Matrix, weight: Vector, shares: Vector) -> Matrix:
    """Values below which these shares of the weight lie, of shape (shares, l).

    Between two rows values are interpolated, about the middles of their weights: a row of weight 2
    is two rows.
    """
    result = np.empty((len(shares), X.shape[1]))
    for j, column in enumerate(X.T):
        values, middle = steps(column, weight)
        result[:, j] = np.interp(shares, middle, values)
    return result


def steps(column: Vector, weight: Vector) -> tuple[Vector, Vector]:
    """Distinct values of a feature, sorted, and the share of weight up to the middle of each."""
    values, place = np.unique(column, return_inverse=True)
    mass = np.bincount(place, weight, len(values))
    middle: Vector = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
    return values, middle
