"""The base class of all maps of features: a row becomes a longer row, independently of other rows.

A map comes before the moments, so every guarantee of a model also holds for the mapped features.
Some maps draw random numbers from their own seed, some find knots or landmarks in the rows that fix
them. Their faces for users are in ``transformers.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
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

    def pulled(self, X: Matrix, G: Matrix, drawn: Matrix) -> Matrix:
        """Gradient of Σ_t G_t term_t with respect to the features, of shape (n, l).

        ``G`` has shape (n, terms), or (1, terms) where it is the same for all rows.
        """
        raise NotImplementedError

    def along(self, start: Matrix, way: Matrix, W: Matrix, drawn: Matrix) -> NDArray[np.float64]:
        """Contributions of each feature to each W_q·terms on the way from start to start + way.

        These are integrated gradients, way_j ∫ ∂(W_q·terms)/∂x_j: along a line polynomials are
        polynomials, which few nodes integrate exactly. ``start`` has shape (1, l), ``way`` (n, l)
        and ``W`` (q, terms); the result has shape (n, q, l).
        """
        result = np.zeros((len(way), len(W), way.shape[1]))
        for t, weight in zip(*nodes(self.degree), strict=True):
            X = start + t * way
            for q, g in enumerate(W):
                result[:, q] += weight * self.pulled(X, g[None], drawn)
        result *= way[:, None]
        return result

    def turns(self, way: Matrix, drawn: Matrix) -> float:
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
    def draws(self) -> int:
        """Numbers per feature that are drawn, or found in rows; 0 for most maps."""
        return 0

    def draw(self, inputs: int) -> Matrix:
        """Random numbers of shape (draws, l); empty for most maps."""
        return np.empty((0, inputs))

    def draw_from(self, drawn: Matrix, X: Matrix, y: Labels | None, weight: Vector) -> Matrix:
        """Numbers that a map finds in rows, with labels and weights, in place of drawn ones."""
        return drawn

    def draw_late(self, name: str, inputs: int) -> Matrix:
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
