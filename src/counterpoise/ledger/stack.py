"""Cells of all classes side by side: the moments of any selection in a few products."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Vector
from counterpoise.exact.moments import Moments
from counterpoise.ledger.cells import Block, Heads
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
    def of(cls, block: Block, labels: Labels, d: int) -> Stack:
        """Return cells in the order of the index, widened to d features."""
        slot, at = block.heads["label"], np.arange(len(labels) + 1)
        ends = np.searchsorted(slot, at).tolist()
        anchor = anchor_of(block, d)
        parts = [
            Part.of(Block(block.heads[i:j], block.data[i:j]), anchor) for i, j in pairwise(ends)
        ]
        return cls(labels, anchor, parts)

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


def anchor_of(block: Block, d: int) -> Vector:
    """Return one anchor for all cells: for each feature that of the heaviest cell that has it."""
    anchor, best = np.zeros(d), np.full(d, -1.0)
    for i in heaviest(block.heads).tolist():
        wide, n = int(block.heads["d"][i]), float(block.heads["n"][i])
        better = np.flatnonzero(best[:wide] < n)
        anchor[better] = np.frombuffer(block.data[i], count=wide)[better]
        best[better] = n
    return anchor


def heaviest(heads: Heads) -> NDArray[np.intp]:
    """Return the indices of the heaviest cell of each number of features."""
    order = np.lexsort((-heads["n"], heads["d"]))
    return order[np.unique(heads["d"][order], return_index=True)[1]]
