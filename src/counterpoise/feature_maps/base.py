"""The interface of feature maps, a map that joins several, and what maps share."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import scipy.special as special
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Matrix, Vector

WARMUP = 256  # rows that fix the scaling


class Map:
    """A map of rows of l features to terms, which depend on the row alone.

    ``drawn`` (n_params_per_feature, l) are the random numbers of a map, or values from rows.
    """

    @property
    def text(self) -> str:
        """Name of the map on the command line and in model files."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise if a parameter has no meaning."""

    def count(self, inputs: int) -> int:
        """Return the number of terms of a row of l features."""
        raise NotImplementedError

    def apply(self, X: Matrix, drawn: Matrix) -> Matrix:
        """Return the terms (n, terms) of rows X (n, l)."""
        raise NotImplementedError

    def apply_into(self, out: Matrix, X: Matrix, drawn: Matrix) -> None:
        """Write the terms of rows into ``out``, columns of a larger matrix."""
        out[:] = self.apply(X, drawn)

    def names(self, names: Sequence[str]) -> list[str]:
        """Return the names of the terms, given those of the features."""
        raise NotImplementedError

    def places(self, at: NDArray[np.intp], inputs: int) -> NDArray[np.intp]:
        """Return the new index of each term when feature j becomes feature at[j] of l."""
        raise NotImplementedError

    @property
    def degree(self) -> int:
        """Degree of the terms as polynomials of the features; 0 if they are not polynomials."""
        return 0

    def vjp(self, X: Matrix, G: Matrix, drawn: Matrix) -> Matrix:
        """Return the gradient (n, l) of Σ_t G_t term_t with respect to the features.

        ``G`` has shape (n, terms), or (1, terms) where it is the same for all rows.
        """
        raise NotImplementedError

    def path_contributions(
        self, start: Matrix, way: Matrix, W: Matrix, drawn: Matrix
    ) -> NDArray[np.float64]:
        """Return contributions (n, q, l) of each feature to each W_q·terms (q, terms).

        These are integrated gradients, way_j ∫ ∂(W_q·terms)/∂x_j, from start (1, l) to start + way
        (n, l): along a line polynomials are polynomials, which few nodes integrate exactly.
        """
        result = np.zeros((len(way), len(W), way.shape[1]))
        for t, weight in zip(*nodes(self.degree), strict=True):
            X = start + t * way
            for q, g in enumerate(W):
                result[:, q] += weight * self.vjp(X, g[None], drawn)
        result *= way[:, None]
        return result

    def max_phase(self, way: Matrix, drawn: Matrix) -> float:
        """Return the most radians that a wave among the terms turns through on these ways."""
        return 0.0

    def features_at(self, inputs: int) -> NDArray[np.intp] | None:
        """Return the indices of those terms that are the features; None if they are not terms."""
        return None

    def landmarks_at(self, inputs: int) -> slice | None:
        """Return which terms are nearness to learned rows; None if no term is."""
        return None

    @property
    def rows(self) -> int:
        """Number of rows that fix the map."""
        return WARMUP

    @property
    def n_params_per_feature(self) -> int:
        """Number of rows of ``drawn``; 0 for most maps."""
        return 0

    def draw(self, inputs: int) -> Matrix:
        """Return ``drawn`` where no rows are available."""
        return np.empty((0, inputs))

    def draw_from(self, drawn: Matrix, X: Matrix, y: Labels | None, weight: Vector) -> Matrix:
        """Return ``drawn`` as a map finds it in rows, given what it drew without them."""
        return drawn

    def params_for_new_feature(self, name: str, inputs: int) -> Matrix:
        """Return the column of ``drawn`` of a feature that appears after the first l."""
        return np.empty((0, 1))


def nodes(degree: int) -> tuple[Vector, Vector]:
    """Return nodes in (0, 1) and weights that integrate the derivative of a polynomial exactly."""
    t, weight = np.polynomial.legendre.leggauss(max(-(-degree // 2), 1))
    return 0.5 + 0.5 * t, 0.5 * weight


def normal(seed: int, name: str, count: int) -> NDArray[np.float64]:
    """Return normal numbers that depend only on seed and name, not on the version of NumPy."""
    entropy = int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:16], "little")
    raw = np.random.PCG64(entropy).random_raw(count)
    uniform = ((raw >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return np.asarray(special.ndtri(uniform))


def check_integer(name: str, value: Any, minimum: int = 1) -> None:
    """Raise unless the parameter ``name`` is an integer of at least ``minimum``."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < minimum:
        raise ValueError(f"{name} must be an integer of at least {minimum}, not {value!r}")


class MapUnion(Map):
    """The terms of several maps, one after the other."""

    def __init__(self, maps: Sequence[Map]) -> None:
        self.maps = maps

    @property
    def text(self) -> str:
        return "+".join(part.text for part in self.maps)

    def check(self) -> None:
        """Raise unless there are maps, and each can be a part."""
        if not len(self.maps) or not all(isinstance(part, Map) for part in self.maps):
            raise ValueError(f"maps must be one or more maps, not {self.maps!r}")
        for part in self.maps:
            part.check()
            if isinstance(part, MapUnion):
                raise ValueError(f"{part!r} cannot be part of a union")

    def _parts(self, inputs: int) -> list[tuple[Map, slice, slice]]:
        """Return each part, with the slices of its terms and of its rows of ``drawn``."""
        term, draw, found = 0, 0, []
        for part in self.maps:
            more, draws = part.count(inputs), part.n_params_per_feature
            found.append((part, slice(term, term + more), slice(draw, draw + draws)))
            term, draw = term + more, draw + draws
        return found

    def count(self, inputs: int) -> int:
        return sum(part.count(inputs) for part in self.maps)

    def apply(self, X: Matrix, drawn: Matrix) -> Matrix:
        parts = self._parts(X.shape[1])
        result = np.empty((len(X), parts[-1][1].stop))
        for part, terms, draws in parts:
            part.apply_into(result[:, terms], X, drawn[draws])
        return result

    @property
    def degree(self) -> int:
        return max(part.degree for part in self.maps)

    def vjp(self, X: Matrix, G: Matrix, drawn: Matrix) -> Matrix:
        result = np.zeros_like(X)
        for part, terms, draws in self._parts(X.shape[1]):
            result += part.vjp(X, G[:, terms], drawn[draws])
        return result

    def path_contributions(
        self, start: Matrix, way: Matrix, W: Matrix, drawn: Matrix
    ) -> NDArray[np.float64]:
        """Return contributions, the sum over the parts, of which each has its own formula."""
        result = np.zeros((len(way), len(W), way.shape[1]))
        for part, terms, draws in self._parts(way.shape[1]):
            result += part.path_contributions(start, way, W[:, terms], drawn[draws])
        return result

    def max_phase(self, way: Matrix, drawn: Matrix) -> float:
        parts = self._parts(way.shape[1])
        return max(part.max_phase(way, drawn[draws]) for part, _, draws in parts)

    def features_at(self, inputs: int) -> NDArray[np.intp] | None:
        """Return the indices of the features among the terms of the first part that has them."""
        for part, terms, _ in self._parts(inputs):
            at = part.features_at(inputs)
            if at is not None:
                at += terms.start
                return at
        return None

    def landmarks_at(self, inputs: int) -> slice | None:
        """Return which terms are nearness to learned rows, of the first part that has them."""
        for part, terms, _ in self._parts(inputs):
            if part.landmarks_at(inputs) is not None:
                return terms
        return None

    def names(self, names: Sequence[str]) -> list[str]:
        """Return the names of the terms, numbered by part where two would be the same."""
        found = [part.names(names) for part in self.maps]
        flat = [name for block in found for name in block]
        if len(set(flat)) == len(flat):
            return flat
        return [f"{name} of {i}" for i, block in enumerate(found) for name in block]

    def places(self, at: NDArray[np.intp], inputs: int) -> NDArray[np.intp]:
        parts = self._parts(inputs)
        return np.concatenate([terms.start + part.places(at, inputs) for part, terms, _ in parts])

    @property
    def rows(self) -> int:
        return max(part.rows for part in self.maps)

    @property
    def n_params_per_feature(self) -> int:
        return sum(part.n_params_per_feature for part in self.maps)

    def draw(self, inputs: int) -> Matrix:
        return np.concatenate([part.draw(inputs) for part in self.maps])

    def draw_from(self, drawn: Matrix, X: Matrix, y: Labels | None, weight: Vector) -> Matrix:
        parts = self._parts(X.shape[1])
        return np.concatenate([part.draw_from(drawn[at], X, y, weight) for part, _, at in parts])

    def params_for_new_feature(self, name: str, inputs: int) -> Matrix:
        return np.concatenate([part.params_for_new_feature(name, inputs) for part in self.maps])
