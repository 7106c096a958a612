"""Piecewise functions of each feature: hinges at its quantiles, and normal scores of its ranks.

Between knots, which are values of the rows that fix the map, the scores of ranks are interpolated;
beyond the outermost they are constant. Long tails become short, independent of the units.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.special as special
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Matrix, Vector
from counterpoise.feature_maps.base import Map, check_integer

KNOTS = 64  # of a feature in the map of ranks, at most


class PiecewiseMap(Map):
    """A map whose terms are linear between knots."""

    degree = 1

    def max_phase(self, way: Matrix, drawn: Matrix) -> float:
        """Raise, because no nodes integrate squares of broken lines exactly."""
        raise ValueError(
            f"{self.text} has no reasons with pooled_rows; explain it without pooled_rows"
        )


class Hinges(PiecewiseMap):
    """Every feature, and hinges at its quantiles."""

    def __init__(self, knots: int = 3) -> None:
        self.knots = knots

    @property
    def text(self) -> str:
        """Name of the map, with the number of knots if it is not 3."""
        return "hinges" if self.knots == 3 else f"hinges{self.knots}"

    def check(self) -> None:
        """Raise if the number of knots has no meaning."""
        check_integer("knots", self.knots)

    def count(self, inputs: int) -> int:
        """Return the number of features and hinges."""
        return inputs * (1 + self.knots)

    def apply(self, X: Matrix, drawn: Matrix) -> Matrix:
        """Return the terms of rows, given the knots."""
        n, inputs = X.shape
        result = np.empty((n, 1 + self.knots, inputs))
        result[:, 0] = X
        np.subtract(X[:, None], drawn, out=result[:, 1:])
        np.maximum(result[:, 1:], 0.0, out=result[:, 1:])
        return result.reshape(n, -1)

    def vjp(self, X: Matrix, G: Matrix, drawn: Matrix) -> Matrix:
        """Return the gradient, from the right at knots."""
        parts = G.reshape(len(G), 1 + self.knots, -1)
        result: Matrix = parts[:, 0] + (parts[:, 1:] * (X[:, None] >= drawn)).sum(axis=1)
        return result

    def path_contributions(
        self, start: Matrix, way: Matrix, W: Matrix, drawn: Matrix
    ) -> NDArray[np.float64]:
        """Return the gain of the terms of each feature on the way."""
        shape = -1, 1 + self.knots, way.shape[1]
        gained = self.apply(start + way, drawn) - self.apply(start, drawn)
        by_feature = np.einsum("nkj,qkj->nqj", gained.reshape(shape), W.reshape(shape))
        return np.asarray(by_feature)

    def features_at(self, inputs: int) -> NDArray[np.intp] | None:
        """Return the first indices."""
        return np.arange(inputs)

    def names(self, names: Sequence[str]) -> list[str]:
        """Return the names of the features, then those of the hinges."""
        bent = [f"{name} beyond knot {k}" for k in range(1, self.knots + 1) for name in names]
        return [*names, *bent]

    def places(self, at: NDArray[np.intp], inputs: int) -> NDArray[np.intp]:
        """Return the new index of each term."""
        return np.concatenate([k * inputs + at for k in range(1 + self.knots)])

    @property
    def n_params_per_feature(self) -> int:
        """Number of knots of a feature."""
        return int(self.knots)

    def _fractions(self) -> Vector:
        return np.arange(1, self.knots + 1) / (self.knots + 1)

    def draw(self, inputs: int) -> Matrix:
        """Return the quantiles of normal features."""
        return np.repeat(special.ndtri(self._fractions())[:, None], inputs, axis=1)

    def draw_from(self, drawn: Matrix, X: Matrix, y: Labels | None, weight: Vector) -> Matrix:
        """Return the quantiles of rows, interpolated about the middles of their weights."""
        result = np.empty((self.knots, X.shape[1]))
        for j, column in enumerate(X.T):
            values, middle = value_ranks(column, weight)
            result[:, j] = np.interp(self._fractions(), middle, values)
        return result

    def params_for_new_feature(self, name: str, inputs: int) -> Matrix:
        """Return knots that are not below 0, the value of the feature so far."""
        return np.arange(float(self.knots))[:, None]


class Ranks(PiecewiseMap):
    """Normal scores of the ranks of the features."""

    text = "ranks"
    n_params_per_feature = 2 * KNOTS  # knots, and below them their scores

    def count(self, inputs: int) -> int:
        """Return the number of features."""
        return inputs

    def apply(self, X: Matrix, drawn: Matrix) -> Matrix:
        """Return the scores of rows."""
        result = np.empty(X.shape)
        for j in range(X.shape[1]):
            result[:, j] = np.interp(X[:, j], drawn[:KNOTS, j], drawn[KNOTS:, j])
        return result

    def vjp(self, X: Matrix, G: Matrix, drawn: Matrix) -> Matrix:
        """Return the gradient, from the right at knots."""
        result = np.zeros_like(X)
        for j in range(X.shape[1]):
            knots, score = drawn[:KNOTS, j], drawn[KNOTS:, j]
            apart = np.diff(knots)
            slope = np.divide(np.diff(score), apart, out=np.zeros(KNOTS - 1), where=apart > 0.0)
            place = np.searchsorted(knots, X[:, j], side="right") - 1
            inside = (place >= 0) & (place < KNOTS - 1)
            result[inside, j] = slope[place[inside]]
        result *= G
        return result

    def path_contributions(
        self, start: Matrix, way: Matrix, W: Matrix, drawn: Matrix
    ) -> NDArray[np.float64]:
        """Return the gain of the term of each feature on the way."""
        gained = self.apply(start + way, drawn) - self.apply(start, drawn)
        return gained[:, None] * W

    def names(self, names: Sequence[str]) -> list[str]:
        """Return the names of the terms."""
        return [f"rank of {name}" for name in names]

    def places(self, at: NDArray[np.intp], inputs: int) -> NDArray[np.intp]:
        """Return the new index of each feature."""
        return at

    def draw(self, inputs: int) -> Matrix:
        """Return knots of normal features, which are their own scores."""
        return np.repeat(_identity_knots(), inputs, axis=1)

    def draw_from(self, drawn: Matrix, X: Matrix, y: Labels | None, weight: Vector) -> Matrix:
        """Return knots at values of rows, and their scores."""
        result = np.empty((2 * KNOTS, X.shape[1]))
        for j, column in enumerate(X.T):
            values, middle = value_ranks(column, weight)
            if len(values) > KNOTS:
                evenly = np.linspace(middle[0], middle[-1], KNOTS)
                some = np.unique(np.searchsorted(middle, evenly).clip(0, len(values) - 1))
                values, middle = values[some], middle[some]
            # The last knot fills what is left: a constant from there on.
            fill = np.minimum(np.arange(KNOTS), len(values) - 1)
            result[:KNOTS, j], result[KNOTS:, j] = values[fill], special.ndtri(middle)[fill]
        return result

    def params_for_new_feature(self, name: str, inputs: int) -> Matrix:
        """Return knots of a normal feature, for which 0, its value so far, stays 0."""
        return _identity_knots()


def value_ranks(column: Vector, weight: Vector) -> tuple[Vector, Vector]:
    """Return the distinct values of a feature, sorted, and the share of weight up to their middle.

    A row of weight 2 counts as two rows.
    """
    values, place = np.unique(column, return_inverse=True)
    mass = np.bincount(place, weight, len(values))
    middle: Vector = (np.cumsum(mass) - 0.5 * mass) / mass.sum()
    return values, middle


def _identity_knots() -> Matrix:
    """Return knots that are their own scores, 0 among them, and the scores, (2 KNOTS, 1)."""
    half = special.ndtri(0.5 + np.arange(1, KNOTS // 2) / KNOTS)
    knots = np.concatenate([-half[::-1], [0.0], half])
    knots = np.append(knots, knots[-1])
    return np.concatenate([knots, knots])[:, None]
