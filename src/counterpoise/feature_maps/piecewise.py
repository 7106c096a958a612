"""Ranks: each feature replaced by the normal score of its rank among the rows that fix the map.

Between knots, which are values of those rows, scores are interpolated; beyond the outermost they
stay what they are there. Long tails become short, whatever the units.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.special as special
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Matrix, Vector
from counterpoise.feature_maps.base import Map, quantiles, steps, whole


class Hinges(Map):
    """Every feature, and hinges at its quantiles."""

    def __init__(self, knots: int = 3) -> None:
        self.knots = knots

    @property
    def text(self) -> str:
        """The name of the map on the command line and in model files."""
        return "hinges" if self.knots == 3 else f"hinges{self.knots}"

    def check(self) -> None:
        """Raise if a parameter has no meaning."""
        whole("knots", self.knots)

    def count(self, inputs: int) -> int:
        """Number of terms of a row of l features."""
        return inputs * (1 + self.knots)

    def apply(self, X: Matrix, drawn: Matrix) -> Matrix:
        """Terms of rows, given the knots."""
        n, inputs = X.shape
        result = np.empty((n, 1 + self.knots, inputs))
        result[:, 0] = X
        np.subtract(X[:, None], drawn, out=result[:, 1:])
        np.maximum(result[:, 1:], 0.0, out=result[:, 1:])
        return result.reshape(n, -1)

    @property
    def degree(self) -> int:
        """Degree between two knots."""
        return 1

    def vjp(self, X: Matrix, G: Matrix, drawn: Matrix) -> Matrix:
        """Gradient of Σ_t G_t term_t, from the right at knots."""
        parts = G.reshape(len(G), 1 + self.knots, -1)
        result: Matrix = parts[:, 0] + (parts[:, 1:] * (X[:, None] >= drawn)).sum(axis=1)
        return result

    def path_contributions(
        self, start: Matrix, way: Matrix, W: Matrix, drawn: Matrix
    ) -> NDArray[np.float64]:
        """Contributions of each feature: what its own terms gain on the way."""
        shape = -1, 1 + self.knots, way.shape[1]
        gained = self.apply(start + way, drawn) - self.apply(start, drawn)
        by_feature = np.einsum("nkj,qkj->nqj", gained.reshape(shape), W.reshape(shape))
        return np.asarray(by_feature)

    def max_phase(self, way: Matrix, drawn: Matrix) -> float:
        """Squares of broken lines have no waves, and no nodes that integrate them exactly."""
        raise ValueError(
            f"{self.text} has no reasons with pooled_rows; explain it without pooled_rows"
        )

    def features_at(self, inputs: int) -> NDArray[np.intp] | None:
        """The features come first."""
        return np.arange(inputs)

    def names(self, names: Sequence[str]) -> list[str]:
        """Names of the terms, given those of the features."""
        bent = [f"{name} beyond knot {k}" for k in range(1, self.knots + 1) for name in names]
        return [*names, *bent]

    def places(self, at: NDArray[np.intp], inputs: int) -> NDArray[np.intp]:
        """New place of each term when feature j becomes feature at[j] of l."""
        return np.concatenate([k * inputs + at for k in range(1 + self.knots)])

    @property
    def n_params_per_feature(self) -> int:
        """Knots of a feature."""
        return int(self.knots)

    def draw(self, inputs: int) -> Matrix:
        """Knots where no rows are known: quantiles of a normal feature."""
        return np.repeat(special.ndtri(self._shares())[:, None], inputs, axis=1)

    def draw_from(self, drawn: Matrix, X: Matrix, y: Labels | None, weight: Vector) -> Matrix:
        """Knots at the quantiles of rows, of shape (K, l)."""
        return quantiles(X, weight, self._shares())

    def params_for_new_feature(self, name: str, inputs: int) -> Matrix:
        """Knots of a feature that was 0 before: none of them below that."""
        return np.arange(float(self.knots))[:, None]

    def _shares(self) -> Vector:
        return np.arange(1, self.knots + 1) / (self.knots + 1)


KNOTS = 64  # of a feature, at most


class Ranks(Map):
    """Normal scores of the ranks of the features."""

    @property
    def text(self) -> str:
        """The name of the map on the command line and in model files."""
        return "ranks"

    def check(self) -> None:
        """There are no parameters."""

    def count(self, inputs: int) -> int:
        """Number of terms of a row of l features."""
        return inputs

    def apply(self, X: Matrix, drawn: Matrix) -> Matrix:
        """Scores of rows, given the knots and, below them, their scores."""
        result = np.empty(X.shape)
        for j in range(X.shape[1]):
            result[:, j] = np.interp(X[:, j], drawn[:KNOTS, j], drawn[KNOTS:, j])
        return result

    @property
    def degree(self) -> int:
        """Degree between two knots."""
        return 1

    def vjp(self, X: Matrix, G: Matrix, drawn: Matrix) -> Matrix:
        """Gradient of Σ_t G_t term_t, from the right at knots."""
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
        """Contributions of each feature: what its own term gains on the way."""
        gained = self.apply(start + way, drawn) - self.apply(start, drawn)
        return gained[:, None] * W

    def max_phase(self, way: Matrix, drawn: Matrix) -> float:
        """Squares of broken lines have no waves, and no nodes that integrate them exactly."""
        raise ValueError(
            f"{self.text} has no reasons with pooled_rows; explain it without pooled_rows"
        )

    def features_at(self, inputs: int) -> NDArray[np.intp] | None:
        """The features themselves are not among the ranks."""
        return None

    def names(self, names: Sequence[str]) -> list[str]:
        """Names of the terms, given those of the features."""
        return [f"rank of {name}" for name in names]

    def places(self, at: NDArray[np.intp], inputs: int) -> NDArray[np.intp]:
        """New place of each term: that of its feature."""
        return at

    @property
    def n_params_per_feature(self) -> int:
        """Knots of a feature, and their scores."""
        return 2 * KNOTS

    def draw(self, inputs: int) -> Matrix:
        """Knots where no rows are known: those of a normal feature, which stays as it is."""
        return np.repeat(_identity_knots()[:, None], inputs, axis=1)

    def draw_from(self, drawn: Matrix, X: Matrix, y: Labels | None, weight: Vector) -> Matrix:
        """Knots at values of rows, and their scores, of shape (2 KNOTS, l)."""
        result = np.empty((2 * KNOTS, X.shape[1]))
        for j, column in enumerate(X.T):
            values, middle = steps(column, weight)
            if len(values) > KNOTS:
                evenly = np.linspace(middle[0], middle[-1], KNOTS)
                some = np.unique(np.searchsorted(middle, evenly).clip(0, len(values) - 1))
                values, middle = values[some], middle[some]
            # The last knot fills what is left: a constant from there on.
            fill = np.minimum(np.arange(KNOTS), len(values) - 1)
            result[:KNOTS, j], result[KNOTS:, j] = values[fill], special.ndtri(middle)[fill]
        return result

    def params_for_new_feature(self, name: str, inputs: int) -> Matrix:
        """Knots of a feature that was 0 before, which stays 0: it is as if it were normal."""
        return _identity_knots()[:, None]


def _identity_knots() -> Vector:
    """Knots that are their own scores, 0 among them, and the scores."""
    half = special.ndtri(0.5 + np.arange(1, KNOTS // 2) / KNOTS)
    knots = np.concatenate([-half[::-1], [0.0], half])
    knots = np.append(knots, knots[-1])
    return np.concatenate([knots, knots])
