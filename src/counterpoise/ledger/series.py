"""Buckets one after the other, and sums over many sets of them at once.

A series has the moments of each bucket and class. With a matrix W, whose row g weighs the buckets
of a set g,

    n = W n      μ = W (n μ) / n      C = W (C + n μμᵀ) − n μμᵀ

for all sets in one product each. Means are about the mean of all rows, so that μμᵀ is about as
large as the scatter and little is lost by the difference.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Counts, Flags, Labels, Matrix, Vector
from counterpoise.ledger.packing import unfolded
from counterpoise.ledger.parts import Part, Sum
from counterpoise.ledger.stack import Stack

FLAT = 1e-13  # of a sum of squares: what is left after a difference is rounding
BLOCK = 1 << 23  # numbers of what is unfolded at a time


@dataclass(frozen=True, eq=False)
class Series:
    """Moments of many sets of rows.

    Attributes
    ----------
    labels : ndarray of shape (c,)
        The classes, sorted.
    anchor : ndarray of shape (d,)
        What means are about.
    start, stop : ndarray of int of shape (g,)
        Of the buckets.
    n : ndarray of shape (g, c)
        Weights.
    mean : ndarray of shape (g, c, d)
        Means about the anchor; 0 where there is no row.
    tri : ndarray of shape (g, c, d(d+1)/2)
        Triangles of the scatters.
    """

    labels: Labels
    anchor: Vector
    start: Counts
    stop: Counts
    n: Matrix
    mean: NDArray[np.float64]
    tri: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.n)

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.anchor)

    def summed(self, W: Matrix) -> Series:
        """Sums over sets of buckets; W has shape (sets, g)."""
        c, d, g = len(self.labels), self.width, len(W)
        n, mean = np.empty((g, c)), np.empty((g, c, d))
        tri = np.empty((g, c, self.tri.shape[2]))
        i, j = np.tril_indices(d)
        diagonal = np.flatnonzero(i == j)
        for k in range(c):
            n[:, k] = W @ self.n[:, k]
            some = np.where(n[:, k] > 0, n[:, k], 1.0)[:, None]
            mu = self.mean[:, k]
            mean[:, k] = W @ (self.n[:, k, None] * mu) / some
            raw = self.tri[:, k] + self.n[:, k, None] * mu[:, i] * mu[:, j]
            sums = W @ raw
            tri[:, k] = sums - n[:, k, None] * mean[:, k][:, i] * mean[:, k][:, j]
            flat = tri[:, k][:, diagonal] <= FLAT * sums[:, diagonal]
            if flat.any():
                tri[:, k][flat[:, i] | flat[:, j]] = 0.0
        none = np.zeros(g, dtype=np.int64)
        return replace(self, start=none, stop=none, n=n, mean=mean, tri=tri)

    def only(self, at: NDArray[np.intp]) -> Series:
        """The same with some features alone."""
        low, high = np.tril_indices(len(at))
        a, b = at[low], at[high]
        place = np.maximum(a, b) * (np.maximum(a, b) + 1) // 2 + np.minimum(a, b)
        return replace(
            self, anchor=self.anchor[at], mean=self.mean[..., at], tri=self.tri[..., place]
        )

    def at(self, rows: slice | NDArray[np.intp]) -> Series:
        """Some of the sets."""
        return replace(
            self,
            start=self.start[rows],
            stop=self.stop[rows],
            n=self.n[rows],
            mean=self.mean[rows],
            tri=self.tri[rows],
        )

    def blocks(self) -> list[slice]:
        """Parts of the sets whose scatters can be unfolded at once."""
        size = max(1, BLOCK // max(len(self.labels) * self.width**2, 1))
        return [slice(i, i + size) for i in range(0, len(self), size)]

    def covariances(self) -> NDArray[np.float64]:
        """Of each set and class, of shape (g, c, d, d); 0 where there is no row."""
        n = np.where(self.n > 0, self.n, 1.0)
        return unfolded(self.tri / n[..., None], self.width)

    def variances(self) -> NDArray[np.float64]:
        """Of each set, class and feature, of shape (g, c, d)."""
        k = np.arange(self.width)
        n = np.where(self.n > 0, self.n, 1.0)
        found: NDArray[np.float64] = self.tri[..., k * (k + 3) // 2] / n[..., None]
        return found


def series_of(stack: Stack, inside: list[Flags]) -> Series:
    """Buckets of the cells that are in a selection, all segments together."""
    times = [part.start[flags] for part, flags in zip(stack.parts, inside, strict=True)]
    start = np.unique(np.concatenate(times))
    stop = np.zeros_like(start)
    order = np.argsort(stack.labels, kind="stable")
    c, d = len(order), len(stack.anchor)
    n, mean = np.zeros((len(start), c)), np.zeros((len(start), c, d))
    tri = np.zeros((len(start), c, d * (d + 1) // 2))
    for k, slot in enumerate(order.tolist()):
        part, flags = stack.parts[slot], inside[slot]
        if flags.any():
            at = np.searchsorted(start, part.start[flags])
            stop[at] = part.stop[flags]
            _add(part, flags, at, n[:, k], mean[:, k], tri[:, k])
    total = n.sum()
    shift = np.einsum("gc,gcd->d", n, mean) / total
    mean = np.where(n[..., None] > 0, mean - shift, 0.0)
    return Series(stack.labels[order], stack.anchor + shift, start, stop, n, mean, tri)


def series_of_sets(sets: list[tuple[Stack, list[Vector]]]) -> Series:
    """Sums of cells with weights, one for each set, about one anchor."""
    anchor, labels = sets[0][0].anchor, sets[0][0].labels
    order = np.argsort(labels, kind="stable")
    c, d = len(order), len(anchor)
    n, mean = np.zeros((len(sets), c)), np.zeros((len(sets), c, d))
    tri = np.zeros((len(sets), c, d * (d + 1) // 2))
    for g, (stack, weights) in enumerate(sets):
        for k, slot in enumerate(order.tolist()):
            total = Sum(d)
            total.add(*stack.parts[slot].weighing(weights[slot]))
            n[g, k], mean[g, k], tri[g, k] = total.total()
            if n[g, k] > 0:
                mean[g, k] += stack.anchor - anchor
    none = np.zeros(len(sets), dtype=np.int64)
    return Series(labels[order], anchor, none, none, n, mean, tri)


def _add(part: Part, flags: Flags, at: Counts, n: Vector, mean: Matrix, tri: Matrix) -> None:
    """Cells of one class, by time, into their buckets."""
    begin = np.flatnonzero(np.append(True, at[1:] != at[:-1]))
    mine = at[begin]
    own, mu, C = part.n[flags], part.mean[flags], part.tri[flags]
    n[mine] = np.add.reduceat(own, begin)
    mean[mine] = np.add.reduceat(own[:, None] * mu, begin) / n[mine, None]
    i, j = np.tril_indices(mean.shape[1])
    if len(begin) < len(at):
        apart = mu - mean[at]
        C = C + own[:, None] * apart[:, i] * apart[:, j]
        tri[mine] = np.add.reduceat(C, begin)
    else:
        tri[mine] = C
