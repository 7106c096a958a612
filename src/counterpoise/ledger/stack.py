"""Many cells side by side, and sums of them: the moments of any selection in a few products.

With weights ω of the cells i of one class

    n = Σ ω_i n_i      μ = Σ ω_i n_i μ_i / n      C = Σ ω_i (C_i + n_i (μ_i − μ)(μ_i − μ)ᵀ)

which is Chan's formula for all of them at once. Means are about one anchor for all cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Counts, Labels, Matrix, Vector
from counterpoise.exact.moments import Moments
from counterpoise.exact.removal import UNKNOWN
from counterpoise.ledger.packing import folded, layout, triangle, unfolded
from counterpoise.ledger.storage import Row

FEW = 0.3  # of the cells: fewer are copied, instead of being given the weight 0


@dataclass(eq=False)
class Part:
    """The cells of one class, by time.

    Attributes
    ----------
    start, stop, segment, rows : ndarray of int of shape (m,)
        Their buckets and segments, and how many rows they have.
    n, lightest : ndarray of shape (m,)
        Weight, and that of the lightest row.
    mean : ndarray of shape (m, d)
        Means about the anchor.
    tri : ndarray of shape (m, d(d+1)/2)
        Triangles of the scatters.
    away, marks, removed : ndarray of shape (m, 2, d), (m, 2, 1 + d), (m, 2, d)
        As of Moments.
    peak : ndarray of shape (m, d)
        As of Moments where rows were removed, else 0.
    """

    start: Counts
    stop: Counts
    segment: Counts
    rows: Counts
    n: Vector
    lightest: Vector
    mean: Matrix
    tri: Matrix
    away: NDArray[np.float64]
    marks: NDArray[np.uint64]
    peak: Matrix
    removed: NDArray[np.float64]

    def summed(self, weight: Vector) -> tuple[float, Vector, Vector]:
        """Weight, mean and triangle of the scatter of all cells, which weigh so much each."""
        w, mean, tri = weight, self.mean, self.tri
        n = self.n
        there = np.flatnonzero(w)
        if len(there) < FEW * len(w):
            w, n, mean, tri = w[there], n[there], mean[there], tri[there]
        elif len(there):
            span = slice(int(there[0]), int(there[-1]) + 1)
            w, n, mean, tri = w[span], n[span], mean[span], tri[span]
        total = float(w @ n)
        if total <= 0.0:
            return 0.0, np.zeros(mean.shape[1]), np.zeros(tri.shape[1])
        mu = (w * n) @ mean / total
        apart = mean - mu
        return total, mu, w @ tri + folded(apart.T @ (apart * (w * n)[:, None]))


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
        anchor = _anchor(every, d)
        return cls(labels, anchor, [_part(found.get(k, []), anchor) for k in range(len(labels))])

    def moments(self, weights: list[Vector]) -> Moments:
        """Moments of the cells of each class with these weights, each of shape (m,)."""
        d = len(self.anchor)
        result = Moments(self.labels, self.anchor)
        for k, (part, w) in enumerate(zip(self.parts, weights, strict=True)):
            if not w.any():
                continue
            result.n[k], result.mean[k], tri = part.summed(w)
            result.C[k] = unfolded(tri, d)
            there = w > 0
            result.lightest[k] = (w * part.lightest)[there].min()
            result.away[k] = np.tensordot(w, part.away, 1)
            plain = bool((w[there] == 1.0).all())
            result.marks[k] = np.add.reduce(part.marks[there], axis=0) if plain else UNKNOWN
            least = np.maximum(result.C[k].diagonal(), 0.0)
            result.peak[k] = np.maximum(least, part.peak[there].sum(axis=0))
            if part.removed.any():
                result.removed[k, 0] = w @ part.removed[:, 0]
                first = int(part.removed[there, 0].any(axis=1).argmax())
                result.removed[k, 1] = part.removed[there, 1][first]
        result.N[:] = result.n
        result.stream[:] = result.N.sum()
        return result


def _anchor(rows: list[Row], d: int) -> Vector:
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


def _part(rows: list[Row], anchor: Vector) -> Part:
    m, d = len(rows), len(anchor)
    whole = [np.array([row[i] for row in rows], dtype=np.int64) for i in (0, 1, 2, 4)]
    n, lightest = (np.array([row[i] for row in rows], dtype=np.float64) for i in (5, 7))
    head = whole[0], whole[1], whole[2], whole[3], n, lightest
    if rows and all(row.d == d and not row.removed for row in rows):  # as they are
        where = layout(d, False)
        every = np.frombuffer(b"".join([row.data for row in rows])).reshape(m, -1)
        mean = (every[:, where["anchor"]] - anchor) + every[:, where["mean"]]
        away = every[:, where["away"]].reshape(m, 2, d)
        marks = every[:, where["marks"]].view(np.uint64).reshape(m, 2, 1 + d)
        nothing = np.broadcast_to(0.0, (m, 2, d))
        return Part(*head, mean, every[:, where["C"]], away, marks, nothing[:, 0], nothing)
    part = Part(
        *head,
        np.tile(-anchor, (m, 1)), np.zeros((m, triangle(d))), np.zeros((m, 2, d)),
        np.zeros((m, 2, 1 + d), dtype=np.uint64), np.zeros((m, d)), np.zeros((m, 2, d)),
    )  # fmt: skip
    part.away[:, 1] = part.n[:, None]
    kinds: dict[tuple[int, int], list[int]] = {}
    for i, row in enumerate(rows):
        kinds.setdefault((row.d, row.removed), []).append(i)
    for (wide, removed), at in kinds.items():
        where = layout(wide, bool(removed))
        every = np.frombuffer(b"".join(rows[i].data for i in at)).reshape(len(at), -1)
        mine: slice | list[int] = slice(None) if len(at) == m else at
        part.mean[mine, :wide] = (every[:, where["anchor"]] - anchor[:wide]) + every[
            :, where["mean"]
        ]
        part.tri[mine, : triangle(wide)] = every[:, where["C"]]
        part.away[mine, :, :wide] = every[:, where["away"]].reshape(-1, 2, wide)
        marks = np.ascontiguousarray(every[:, where["marks"]]).view(np.uint64)
        part.marks[mine, :, : 1 + wide] = marks.reshape(-1, 2, 1 + wide)
        if removed:
            part.peak[mine, :wide] = every[:, where["peak"]]
            part.removed[mine, :, :wide] = every[:, where["removed"]].reshape(-1, 2, wide)
    return part
