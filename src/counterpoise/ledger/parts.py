"""Cells of one class side by side, and their sum.

With weights ω of the cells i

    n = Σ ω_i n_i      μ = Σ ω_i n_i μ_i / n      C = Σ ω_i (C_i + n_i (μ_i − μ)(μ_i − μ)ᵀ)

which is Chan's formula for all of them at once. Means are about one anchor for all cells.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Counts, Matrix, Vector
from counterpoise.exact.moments import Moments
from counterpoise.exact.removal import UNKNOWN
from counterpoise.ledger._adding import add_cells
from counterpoise.ledger.cells import Block
from counterpoise.ledger.packing import folded, layout, triangle, unfolded

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

    @classmethod
    def of(cls, block: Block, anchor: Vector) -> Part:
        """Cells as they lie in the file, widened to the features of the anchor."""
        heads = block.heads
        m, d = len(heads), len(anchor)
        head = (
            heads["start"], heads["stop"], heads["segment"], heads["rows"], heads["n"],
            heads["lightest"],
        )  # fmt: skip
        if block.is_uniform and heads["d"][0] == d:  # as they are
            where = layout(d, False)
            every = np.frombuffer(b"".join(block.data)).reshape(m, -1)
            mean = (every[:, where["anchor"]] - anchor) + every[:, where["mean"]]
            away = every[:, where["away"]].reshape(m, 2, d)
            marks = every[:, where["marks"]].view(np.uint64).reshape(m, 2, 1 + d)
            nothing = np.broadcast_to(0.0, (m, 2, d))
            return cls(*head, mean, every[:, where["C"]], away, marks, nothing[:, 0], nothing)
        part = cls(
            *head,
            np.tile(-anchor, (m, 1)), np.zeros((m, triangle(d))), np.zeros((m, 2, d)),
            np.zeros((m, 2, 1 + d), dtype=np.uint64), np.zeros((m, d)), np.zeros((m, 2, d)),
        )  # fmt: skip
        part.away[:, 1] = part.n[:, None]
        kinds: dict[tuple[int, int], list[int]] = {}
        for i, kind in enumerate(heads[["d", "removed"]].tolist()):
            kinds.setdefault(kind, []).append(i)
        for (wide, removed), at in kinds.items():
            where = layout(wide, bool(removed))
            every = np.frombuffer(b"".join(block.data[i] for i in at)).reshape(len(at), -1)
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

    def weighing(self, weight: Vector) -> tuple[Part, Vector]:
        """Those that weigh something, and perhaps others between them, with their weights."""
        there = np.flatnonzero(weight)
        at: slice | NDArray[np.intp] = there
        if len(there) >= FEW * len(weight):
            at = slice(int(there[0]), int(there[-1]) + 1) if len(there) else slice(0)
        return replace(self, **{name: value[at] for name, value in vars(self).items()}), weight[at]


class Sum:
    """The sum of cells of one class, which come part by part.

    Parameters
    ----------
    d : int
        Number of features.
    """

    def __init__(self, d: int) -> None:
        self._own: list[Vector] = []
        self._mean: list[Matrix] = []
        self._sums = np.zeros(triangle(d) + 2 * d)  # as they follow each other in a cell
        self._tri, self._away = self._sums[: triangle(d)], self._sums[triangle(d) :].reshape(2, d)
        self._marks, self._plain = np.zeros((2, 1 + d), dtype=np.uint64), True
        self._lightest, self._peak, self._removed = np.inf, np.zeros(d), np.zeros((2, d))

    def add(self, part: Part, w: Vector) -> None:
        """Add cells with such weights."""
        self._own.append(w * part.n)
        self._mean.append(part.mean)
        self._tri += w @ part.tri
        self._away += np.tensordot(w, part.away, 1)
        there = w > 0
        if there.any():
            self._lightest = min(self._lightest, (w * part.lightest)[there].min())
            self._plain = self._plain and bool((w[there] == 1.0).all())
            self._marks += np.add.reduce(part.marks[there], axis=0)
            self._peak += part.peak[there].sum(axis=0)
            some = there & part.removed[:, 0].any(axis=1)
            if some.any():
                if not self._removed[0].any():
                    self._removed[1] = part.removed[some.argmax(), 1]
                self._removed[0] += w @ part.removed[:, 0]

    def take(self, block: Block, anchor: Vector, w: Vector) -> None:
        """Add cells with such weights as they lie in the file, about an anchor."""
        if not block.is_uniform or block.heads["d"][0] != len(anchor):
            self.add(Part.of(block, anchor), w)
            return
        n, lightest = block.heads["n"], block.heads["lightest"]
        mean, there = np.empty((len(n), len(anchor))), w > 0
        self._plain = self._plain and bool((w[there] == 1.0).all())
        if there.any():
            self._lightest = min(self._lightest, (w * lightest)[there].min())
        self._own.append(w * n)
        self._mean.append(mean)
        marks = self._marks.reshape(-1) if self._plain else None
        add_cells(tuple(block.data), w, anchor, mean, self._sums, marks)

    def total(self) -> tuple[float, Vector, Vector]:
        """Weight, mean and triangle of the scatter."""
        own = np.concatenate(self._own) if self._own else np.zeros(0)
        n = float(own.sum())
        if n <= 0.0:
            return 0.0, np.zeros(len(self._peak)), np.zeros(len(self._tri))
        mean = np.concatenate(self._mean)
        mu = own @ mean / n
        apart = mean - mu
        return n, mu, self._tri + folded(apart.T @ (apart * own[:, None]))

    def put(self, result: Moments, k: int) -> None:
        """Let class k of moments about the same anchor have it."""
        n, mean, tri = self.total()
        if n <= 0.0:
            return
        result.n[k], result.mean[k], result.C[k] = n, mean, unfolded(tri, len(mean))
        result.lightest[k], result.away[k] = self._lightest, self._away
        result.marks[k] = self._marks if self._plain else UNKNOWN
        result.peak[k] = np.maximum(np.maximum(result.C[k].diagonal(), 0.0), self._peak)
        result.removed[k] = self._removed
