"""Terms of several maps side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Matrix, Vector
from counterpoise.features.maps import Map


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

    def pulled(self, X: Matrix, G: Matrix, drawn: Matrix) -> Matrix:
        """Gradient of Σ_t G_t term_t."""
        result = np.zeros_like(X)
        for part, terms, draws in self._parts(X.shape[1]):
            result += part.pulled(X, G[:, terms], drawn[draws])
        return result

    def along(self, start: Matrix, way: Matrix, W: Matrix, drawn: Matrix) -> NDArray[np.float64]:
        """Contributions of each feature, by each part in its own way."""
        result = np.zeros((len(way), len(W), way.shape[1]))
        for part, terms, draws in self._parts(way.shape[1]):
            result += part.along(start, way, W[:, terms], drawn[draws])
        return result

    def turns(self, way: Matrix, drawn: Matrix) -> float:
        """Most radians that a wave turns through."""
        parts = self._parts(way.shape[1])
        return max(part.turns(way, drawn[draws]) for part, _, draws in parts)

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
            more, draws = part.count(inputs), part.draws
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
    def draws(self) -> int:
        """Random numbers that a feature takes."""
        return sum(part.draws for part in self.maps)

    def draw(self, inputs: int) -> Matrix:
        """Random numbers of all maps, one column a feature."""
        return np.concatenate([part.draw(inputs) for part in self.maps])

    def draw_from(self, drawn: Matrix, X: Matrix, y: Labels | None, weight: Vector) -> Matrix:
        """Numbers that the maps find in rows, in place of those drawn."""
        blocks, at = [], 0
        for part in self.maps:
            blocks.append(part.draw_from(drawn[at : at + part.draws], X, y, weight))
            at += part.draws
        return np.concatenate(blocks)

    def draw_late(self, name: str, inputs: int) -> Matrix:
        """Random numbers, as one column, of a feature that appears after the first l."""
        return np.concatenate([part.draw_late(name, inputs) for part in self.maps])
