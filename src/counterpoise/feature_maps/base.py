"""Terms of several maps side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Matrix, Vector

WARMUP = 256  # rows that fix the scaling


class Map:
    """A map whose output depends on the row alone."""

    @property
    def text(self) -> str:
        """The name of the map on the command line and in model files."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise if a parameter has no meaning."""
        raise NotImplementedError

    def count(self, inputs: int) -> int:
        """Number of terms of a row of l features."""
        raise NotImplementedError

    def apply(self, X: Matrix, drawn: Matrix) -> Matrix:
        """Terms of shape (n, terms) of rows X, given the random numbers of the map."""
        raise NotImplementedError

    def apply_into(self, out: Matrix, X: Matrix, drawn: Matrix) -> None:
        """Put terms where somebody else wants them, columns of a larger matrix."""
        out[:] = self.apply(X, drawn)

    def names(self, names: Sequence[str]) -> list[str]:
        """Names of the terms, given those of the features."""
        raise NotImplementedError

    def places(self, at: NDArray[np.intp], inputs: int) -> NDArray[np.intp]:
        """New place of each term when feature j becomes feature at[j] of l; the others are 0."""
        raise NotImplementedError

    @property
    def degree(self) -> int:
        """Degree of the terms as polynomials of the features."""
        raise NotImplementedError

    def vjp(self, X: Matrix, G: Matrix, drawn: Matrix) -> Matrix:
        """Gradient of Σ_t G_t term_t with respect to the features, of shape (n, l).

        ``G`` has shape (n, terms), or (1, terms) where it is the same for all rows.
        """
        raise NotImplementedError

    def path_contributions(
        self, start: Matrix, way: Matrix, W: Matrix, drawn: Matrix
    ) -> NDArray[np.float64]:
        """Contributions of each feature to each W_q·terms on the way from start to start + way.

        These are integrated gradients, way_j ∫ ∂(W_q·terms)/∂x_j: along a line polynomials are
        polynomials, which few nodes integrate exactly. ``start`` has shape (1, l), ``way`` (n, l)
        and ``W`` (q, terms); the result has shape (n, q, l).
        """
        result = np.zeros((len(way), len(W), way.shape[1]))
        for t, weight in zip(*nodes(self.degree), strict=True):
            X = start + t * way
            for q, g in enumerate(W):
                result[:, q] += weight * self.vjp(X, g[None], drawn)
        result *= way[:, None]
        return result

    def max_phase(self, way: Matrix, drawn: Matrix) -> float:
        """Most radians that the waves among the terms turn through on these ways; 0 for none."""
        return 0.0

    def features_at(self, inputs: int) -> NDArray[np.intp] | None:
        """Places of those terms that are the l features themselves; None if they are not there."""
        raise NotImplementedError

    @property
    def rows(self) -> int:
        """Rows that fix the map."""
        return WARMUP

    @property
    def n_params_per_feature(self) -> int:
        """Numbers per feature that are drawn, or found in rows; 0 for most maps."""
        return 0

    def draw(self, inputs: int) -> Matrix:
        """Random numbers of shape (draws, l); empty for most maps."""
        return np.empty((0, inputs))

    def draw_from(self, drawn: Matrix, X: Matrix, y: Labels | None, weight: Vector) -> Matrix:
        """Numbers that a map finds in rows, with labels and weights, in place of drawn ones."""
        return drawn

    def params_for_new_feature(self, name: str, inputs: int) -> Matrix:
        """Random numbers, as one column, of a feature that appears after the first l."""
        return np.empty((0, 1))


def nodes(degree: int) -> tuple[Vector, Vector]:
    """Nodes in (0, 1) and weights by which the derivative of a polynomial is integrated exactly."""
    t, weight = np.polynomial.legendre.leggauss(max(-(-degree // 2), 1))
    return 0.5 + 0.5 * t, 0.5 * weight


def whole(name: str, value: Any, least: int = 1) -> None:
    """Raise unless the parameter ``name`` is a whole number of at least ``least``."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")


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


class Union(Map):
    """The terms of several maps, one after the other."""

    def __init__(self, maps: Sequence[Map]) -> None:
        self.maps = maps

    @property
    def text(self) -> str:
        """The name of the map on the command line and in model files."""
        return "+".join(part.text for part in self.maps)

    def check(self) -> None:
        """Raise if a parameter has no meaning."""
        if not len(self.maps) or not all(isinstance(part, Map) for part in self.maps):
            raise ValueError(f"maps must be one or more maps, not {self.maps!r}")
        for part in self.maps:
            part.check()
            if isinstance(part, Union) or getattr(part, "constant", False):
                raise ValueError(f"{part!r} cannot be part of a union")

    def count(self, inputs: int) -> int:
        """Number of terms of a row of l features."""
        return sum(part.count(inputs) for part in self.maps)

    def apply(self, X: Matrix, drawn: Matrix) -> Matrix:
        """Terms of rows, given the random numbers of all maps."""
        result = np.empty((len(X), self.count(X.shape[1])))
        for part, terms, draws in self._parts(X.shape[1]):
            part.apply_into(result[:, terms], X, drawn[draws])
        return result

    @property
    def degree(self) -> int:
        """Largest degree of its parts."""
        return max(part.degree for part in self.maps)

    def vjp(self, X: Matrix, G: Matrix, drawn: Matrix) -> Matrix:
        """Gradient of Σ_t G_t term_t."""
        result = np.zeros_like(X)
        for part, terms, draws in self._parts(X.shape[1]):
            result += part.vjp(X, G[:, terms], drawn[draws])
        return result

    def path_contributions(
        self, start: Matrix, way: Matrix, W: Matrix, drawn: Matrix
    ) -> NDArray[np.float64]:
        """Contributions of each feature, by each part in its own way."""
        result = np.zeros((len(way), len(W), way.shape[1]))
        for part, terms, draws in self._parts(way.shape[1]):
            result += part.path_contributions(start, way, W[:, terms], drawn[draws])
        return result

    def max_phase(self, way: Matrix, drawn: Matrix) -> float:
        """Most radians that a wave turns through."""
        parts = self._parts(way.shape[1])
        return max(part.max_phase(way, drawn[draws]) for part, _, draws in parts)

    def features_at(self, inputs: int) -> NDArray[np.intp] | None:
        """Places of the features among the terms of the first part that has them."""
        for part, terms, _ in self._parts(inputs):
            at = part.features_at(inputs)
            if at is not None:
                at += terms.start
                return at
        return None

    def _parts(self, inputs: int) -> Iterator[tuple[Map, slice, slice]]:
        """Each part, with where its terms and its random numbers are."""
        term = draw = 0
        for part in self.maps:
            more, draws = part.count(inputs), part.n_params_per_feature
            yield part, slice(term, term + more), slice(draw, draw + draws)
            term, draw = term + more, draw + draws

    def names(self, names: Sequence[str]) -> list[str]:
        """Names of the terms, given those of the features."""
        found = [part.names(names) for part in self.maps]
        flat = [name for block in found for name in block]
        if len(set(flat)) == len(flat):
            return flat
        return [f"{name} of {i}" for i, block in enumerate(found) for name in block]

    def places(self, at: NDArray[np.intp], inputs: int) -> NDArray[np.intp]:
        """New place of each term when feature j becomes feature at[j] of l."""
        result, first = [], 0
        for part in self.maps:
            result.append(first + part.places(at, inputs))
            first += part.count(inputs)
        return np.concatenate(result)

    @property
    def rows(self) -> int:
        """Rows that fix the maps."""
        return max(part.rows for part in self.maps)

    @property
    def n_params_per_feature(self) -> int:
        """Random numbers that a feature takes."""
        return sum(part.n_params_per_feature for part in self.maps)

    def draw(self, inputs: int) -> Matrix:
        """Random numbers of all maps, one column a feature."""
        return np.concatenate([part.draw(inputs) for part in self.maps])

    def draw_from(self, drawn: Matrix, X: Matrix, y: Labels | None, weight: Vector) -> Matrix:
        """Numbers that the maps find in rows, in place of those drawn."""
        blocks, at = [], 0
        for part in self.maps:
            blocks.append(part.draw_from(drawn[at : at + part.n_params_per_feature], X, y, weight))
            at += part.n_params_per_feature
        return np.concatenate(blocks)

    def params_for_new_feature(self, name: str, inputs: int) -> Matrix:
        """Random numbers, as one column, of a feature that appears after the first l."""
        return np.concatenate([part.params_for_new_feature(name, inputs) for part in self.maps])
