"""Cells of all classes side by side: the moments of any selection in a few products."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

import numpy as np

from counterpoise.arrays import Labels, Vector
from counterpoise.exact.moments import Moments
from counterpoise.ledger.cells import Block, Row
from counterpoise.ledger.parts import Part, Sum


@dataclass(eq=False)
class Stack:
    """Cells of all classes.

    Attributes
    ----------
    labels : ndarray of shape (c,)
        The classes.
    anchor : ndarray of shape (d,)
        What means are about.
    parts : list of Part
        The cells of each class.
    """

    labels: Labels
    anchor: Vector
    parts: list[Part]

    @classmethod
    def of(cls, rows: list[Row], labels: Labels, d: int) -> Stack:
        """Cells as they lie in the file, by class and then by time, widened to d features."""
        found = {label: list(group) for label, group in groupby(rows, lambda row: row.label)}
        every = [row for group in found.values() for row in group]
        anchor = anchor_of(every, d)
        return cls(
            labels,
            anchor,
            [Part.of(Block.of(found.get(k, [])), anchor) for k in range(len(labels))],
        )

    def moments(self, weights: list[Vector]) -> Moments:
        """Moments of the cells of each class with these weights, each of shape (m,)."""
        result = Moments(self.labels, self.anchor)
        for k, (part, w) in enumerate(zip(self.parts, weights, strict=True)):
            total = Sum(len(self.anchor))
            total.add(*part.weighing(w))
            total.put(result, k)
        result.N[:] = result.n
        result.stream[:] = result.N.sum()
        return result


def anchor_of(rows: list[Row], d: int) -> Vector:
    """One point for all cells: for each feature, where the heaviest cell that knows it has its."""
    anchor, best = np.zeros(d), np.full(d, -1.0)
    heaviest: dict[int, Row] = {}
    for row in rows:
        if row.d not in heaviest or row.n > heaviest[row.d].n:
            heaviest[row.d] = row
    for row in heaviest.values():
        better = np.flatnonzero(best[: row.d] < row.n)
        anchor[better] = np.frombuffer(row.data, count=row.d)[better]
        best[better] = row.n
    return anchor
