"""Piecewise functions of features: hinges at quantiles, normal scores of ranks, random steps.

Between knots, which are values of the rows that fix the map, the scores of ranks are interpolated;
beyond the outermost they are constant. Long tails become short, independent of the units.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import scipy.special as special
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Matrix, Vector
from counterpoise.feature_maps.base import Map, check_integer, normal

KNOTS = 64  # of a feature in the map of ranks, at most
UNUSED = -1e6  # threshold of a feature that a step does not have


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
        return "hinges" if self.knots == 3 else f"hinges{self.knots}"

    def check(self) -> None:
        check_integer("knots", self.knots)

    def count(self, inputs: int) -> int:
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
        return np.arange(inputs)

    def names(self, names: Sequence[str]) -> list[str]:
        """Return the names of the features, then those of the hinges."""
        bent = [f"{name} beyond knot {k}" for k in range(1, self.knots + 1) for name in names]
        return [*names, *bent]

    def places(self, at: NDArray[np.intp], inputs: int) -> NDArray[np.intp]:
        return np.concatenate([k * inputs + at for k in range(1 + self.knots)])

    @property
    def n_params_per_feature(self) -> int:
        return int(self.knots)

    def _fractions(self) -> Vector:
        return np.arange(1, self.knots + 1) / (self.knots + 1)

    def draw(self, inputs: int) -> Matrix:
        """Return the quantiles of normal features."""
        return np.repeat(special.ndtri(self._fractions())[:, None], inputs, axis=1)

    def draw_from(self, drawn: Matrix, X: Matrix, y: Labels | None, weight: Vector) -> Matrix:
        """Return the quantiles of rows, interpolated about the middles of their weights."""
        result = np.empty((self.knots, X.shape[1]))
        for j, (values, middle) in enumerate(value_ranks(X, weight)):
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
        return [f"rank of {name}" for name in names]

    def places(self, at: NDArray[np.intp], inputs: int) -> NDArray[np.intp]:
        return at

    def draw(self, inputs: int) -> Matrix:
        """Return knots of normal features, which are their own scores."""
        return np.repeat(_identity_knots(), inputs, axis=1)

    def draw_from(self, drawn: Matrix, X: Matrix, y: Labels | None, weight: Vector) -> Matrix:
        """Return knots at values of rows, and their scores."""
        result = np.empty((2 * KNOTS, X.shape[1]))
        for j, (values, middle) in enumerate(value_ranks(X, weight)):
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


class Steps(PiecewiseMap):
    """Steps at random thresholds of random features, and products of two of them.

    ``drawn`` (2 p, l) has the threshold of the feature of each step, and UNUSED for all others.
    The terms are p first steps, p second steps, and the p products of both.
    """

    def __init__(self, terms: int = 300) -> None:
        self.terms = terms

    @property
    def text(self) -> str:
        return f"steps:{self.terms}"

    def check(self) -> None:
        check_integer("terms", self.terms, 3)
        if self.terms % 3:
            raise ValueError(f"terms must be a multiple of 3; got {self.terms}")

    def count(self, inputs: int) -> int:
        return int(self.terms)

    def thresholds(self, drawn: Matrix) -> tuple[NDArray[np.intp], Vector]:
        """Return the feature (2 p,) and the threshold of each step."""
        feature = drawn.argmax(axis=1)
        return feature, drawn[np.arange(len(drawn)), feature]

    def apply(self, X: Matrix, drawn: Matrix) -> Matrix:
        """Return the terms of rows, given the thresholds."""
        feature, threshold = self.thresholds(drawn)
        result, p = np.empty((len(X), self.terms)), len(drawn) // 2
        np.greater(X[:, feature], threshold, out=result[:, : 2 * p])
        np.multiply(result[:, :p], result[:, p : 2 * p], out=result[:, 2 * p :])
        return result

    def vjp(self, X: Matrix, G: Matrix, drawn: Matrix) -> Matrix:
        """Return the gradient, which is 0 except at thresholds."""
        return np.zeros_like(X)

    def path_contributions(
        self, start: Matrix, way: Matrix, W: Matrix, drawn: Matrix
    ) -> NDArray[np.float64]:
        """Return the gains on the way, each of the feature that crosses its threshold."""
        feature, threshold = self.thresholds(drawn)
        p, moved = len(drawn) // 2, way[:, feature]
        before = (start[:, feature] > threshold).astype(np.float64)
        gain = ((start + way)[:, feature] > threshold) - before
        with np.errstate(divide="ignore", invalid="ignore"):
            time = np.where(gain != 0.0, (threshold - start[:, feature]) / moved, 2.0)
        # A product gains what the other step is at this time: its middle where both are crossed.
        late = np.sign(time - np.roll(time, p, axis=1))
        other = np.roll(before, p, axis=1) + 0.5 * (1.0 + late) * np.roll(gain, p, axis=1)
        owner = np.zeros((len(drawn), way.shape[1]))
        owner[np.arange(len(drawn)), feature] = 1.0
        result = np.empty((len(way), len(W), way.shape[1]))
        for q, g in enumerate(W):
            result[:, q] = (gain * (g[: 2 * p] + np.tile(g[2 * p :], 2) * other)) @ owner
        return result

    def names(self, names: Sequence[str]) -> list[str]:
        kinds = ("first step", "second step", "both steps")
        return [f"{kind} {i}" for kind in kinds for i in range(self.terms // 3)]

    def places(self, at: NDArray[np.intp], inputs: int) -> NDArray[np.intp]:
        return np.arange(self.terms, dtype=np.intp)

    @property
    def n_params_per_feature(self) -> int:
        return 2 * (int(self.terms) // 3)

    def draw(self, inputs: int) -> Matrix:
        """Return thresholds that are quantiles of normal features, at random levels."""
        feature, level = normal(0, "steps", 2 * self.n_params_per_feature).reshape(2, -1)
        drawn = np.full((self.n_params_per_feature, inputs), UNUSED)
        chosen = np.minimum((special.ndtr(feature) * inputs).astype(np.intp), inputs - 1)
        drawn[np.arange(len(drawn)), chosen] = level
        return drawn

    def draw_from(self, drawn: Matrix, X: Matrix, y: Labels | None, weight: Vector) -> Matrix:
        """Return thresholds at the same levels among the rows, in the middle of two values."""
        result = drawn.copy()
        for j, (values, middle) in enumerate(value_ranks(X, weight)):
            steps = np.flatnonzero(drawn[:, j] != UNUSED)
            if len(values) > 1:
                between = 0.5 * (middle[1:] + middle[:-1])
                k = np.searchsorted(between, special.ndtr(drawn[steps, j]))
                k = np.minimum(k, len(values) - 2)
                result[steps, j] = 0.5 * (values[k] + values[k + 1])
        return result

    def params_for_new_feature(self, name: str, inputs: int) -> Matrix:
        """Return no thresholds."""
        return np.full((self.n_params_per_feature, 1), UNUSED)


def value_ranks(X: Matrix, weight: Vector) -> Iterator[tuple[Vector, Vector]]:
    """Yield distinct values of each feature, sorted, and the share of weight up to their middle.

    A row of weight 2 counts as two rows.
    """
    columns = np.ascontiguousarray(X.T)
    order = columns.argsort(axis=1, kind="stable")
    columns = np.take_along_axis(columns, order, 1)
    begins = np.ones(columns.shape, dtype=bool)
    np.not_equal(columns[:, 1:], columns[:, :-1], out=begins[:, 1:])
    groups = begins.cumsum().reshape(columns.shape) - 1  # of equal values of all features
    masses = np.bincount(groups.ravel(), weight[order].ravel())
    for values, first, group in zip(columns, begins, groups, strict=True):
        mass = masses[group[0] : group[-1] + 1]
        yield values[first], (mass.cumsum() - 0.5 * mass) / mass.sum()


def _identity_knots() -> Matrix:
    """Return knots that are their own scores, 0 among them, and the scores, (2 KNOTS, 1)."""
    half = special.ndtri(0.5 + np.arange(1, KNOTS // 2) / KNOTS)
    knots = np.concatenate([-half[::-1], [0.0], half])
    knots = np.append(knots, knots[-1])
    return np.concatenate([knots, knots])[:, None]
