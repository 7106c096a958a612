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
from counterpoise.features.maps import Map
from counterpoise.features.quantiles import steps

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

    def pulled(self, X: Matrix, G: Matrix, drawn: Matrix) -> Matrix:
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

    def along(self, start: Matrix, way: Matrix, W: Matrix, drawn: Matrix) -> NDArray[np.float64]:
        """Contributions of each feature: what its own term gains on the way."""
        gained = self.apply(start + way, drawn) - self.apply(start, drawn)
        return gained[:, None] * W

    def turns(self, way: Matrix, drawn: Matrix) -> float:
        """Squares of broken lines have no waves, and no nodes that integrate them exactly."""
        raise ValueError(f"{self.text} has no reasons with pooling; explain it without pooling")

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
    def draws(self) -> int:
        """Knots of a feature, and their scores."""
        return 2 * KNOTS

    def draw(self, inputs: int) -> Matrix:
        """Knots where no rows are known: those of a normal feature, which stays as it is."""
        return np.repeat(_straight()[:, None], inputs, axis=1)

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

    def draw_late(self, name: str, inputs: int) -> Matrix:
        """Knots of a feature that was 0 before, which stays 0: it is as if it were normal."""
        return _straight()[:, None]


def _straight() -> Vector:
    """Knots that are their own scores, 0 among them, and the scores."""
    half = special.ndtri(0.5 + np.arange(1, KNOTS // 2) / KNOTS)
    knots = np.concatenate([-half[::-1], [0.0], half])
    knots = np.append(knots, knots[-1])
    return np.concatenate([knots, knots])
