"""Cells of one class side by side, and their sum.

With weights ω of the cells i

    n = Σ ω_i n_i      μ = Σ ω_i n_i μ_i / n      C = Σ ω_i (C_i + n_i (μ_i − μ)(μ_i − μ)ᵀ)

which is Chan's formula for all of them at once. Means are about one anchor for all cells.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from counterpoise.arrays import Counts, Labels, Matrix, Vector
from counterpoise.ledger._sum_cells import add_cells
from counterpoise.moments.downdate import UNTRACKED_HASH
from counterpoise.moments.moments import Moments
from counterpoise.validation import MAX_SAMPLE_WEIGHT, MAX_TIMESTAMP

WORD = 8  # bytes of a number


def triangle(d: Any) -> Any:
    """Return how many numbers the triangle of d features has."""
    return d * (d + 1) // 2


@lru_cache(maxsize=8)
def places(d: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows and columns of the numbers of a triangle."""
    return np.tril_indices(d)


def folded(C: Matrix) -> Matrix:
    """Symmetric matrices (..., d, d) as triangles (..., d(d+1)/2)."""
    i, j = places(C.shape[-1])
    return np.ascontiguousarray(C[..., i, j])


def unfolded(tri: Matrix, d: int) -> Matrix:
    """Triangles (..., d(d+1)/2) as symmetric matrices (..., d, d)."""
    i, j = places(d)
    C = np.empty((*tri.shape[:-1], d, d))
    C[..., i, j] = tri
    C[..., j, i] = tri
    return C


def layout(d: int, removed: bool) -> dict[str, slice]:
    """Where what is in a cell of d features, counted in numbers."""
    sizes = {
        "anchor": d,
        "mean": d,
        "C": triangle(d),
        "nonconstant_weight": 2 * d,
        "row_hashes": 2 * (1 + d),
    }
    if removed:
        sizes |= {"max_scatter": d, "removed": 2 * d}
    result, at = {}, 0
    for name, size in sizes.items():
        result[name] = slice(at, at + size)
        at += size
    return result


def size_of(d: Any, removed: Any) -> Any:
    """Return the bytes of a cell, or of each of several."""
    return WORD * (2 * d + triangle(d) + 2 * d + 2 * (1 + d) + 3 * d * removed)


def packed(cell: Moments) -> tuple[bytes, bool]:
    """Return the moments of one class as bytes, and whether rows were removed from them."""
    d = len(cell.anchor)
    least = np.maximum(cell.C[0].diagonal(), 0.0)
    removed = bool(cell.removed.any() or not np.array_equal(cell.max_scatter[0], least))
    parts = [
        cell.anchor,
        cell.mean[0],
        folded(cell.C[0]),
        cell.nonconstant_weight[0],
        cell.row_hashes[0],
    ]
    if removed:
        parts += [cell.max_scatter[0], cell.removed[0]]
    data = b"".join(np.ascontiguousarray(part).tobytes() for part in parts)
    assert len(data) == size_of(d, removed)
    return data, removed


def unpacked(
    data: bytes, d: int, removed: bool, label: Labels, weight: tuple[float, float, float], wide: int
) -> Moments:
    """Return the moments of one class, widened; weight is n, its remainder and the minimum."""
    numbers, where = np.frombuffer(data), layout(d, removed)
    cell = Moments(label, np.zeros(wide))
    cell.n[:], cell.weight_remainder[:], cell.min_row_weight[:] = weight
    cell.N[:] = cell.stream[:] = cell.n
    cell.anchor[:d], cell.mean[0, :d] = numbers[where["anchor"]], numbers[where["mean"]]
    cell.C[0, :d, :d] = unfolded(numbers[where["C"]], d)
    cell.nonconstant_weight[0, 1] = cell.n[0]
    cell.nonconstant_weight[0, :, :d] = numbers[where["nonconstant_weight"]].reshape(2, d)
    cell.row_hashes[0, :, : 1 + d] = numbers[where["row_hashes"]].view(np.uint64).reshape(2, 1 + d)
    if removed:
        cell.max_scatter[0, :d] = numbers[where["max_scatter"]]
        cell.removed[0, :, :d] = numbers[where["removed"]].reshape(2, d)
    else:
        cell.max_scatter[0] = np.maximum(cell.C[0].diagonal(), 0.0)
    return cell


ALL = -1  # the segment of a total


class Key(NamedTuple):
    """Key of a cell: start of its bucket, segment and class."""

    start: int
    segment: int
    label: int


class Row(NamedTuple):
    """A cell as it is stored."""

    start: int
    stop: int
    segment: int
    label: int
    rows: int
    n: float
    weight_remainder: float
    min_row_weight: float
    d: int
    removed: int
    checksum: int
    data: bytes

    @property
    def key(self) -> Key:
        """Key of the cell."""
        return Key(self.start, self.segment, self.label)


COVERED = struct.Struct("<5q3d2q")  # all fields of a head except the checksum
HEAD = np.dtype(
    [
        (name, "<f8" if name in ("n", "weight_remainder", "min_row_weight") else "<i8")
        for name in Row._fields[:-2]
    ]
    + [("checksum", "<u8")]
)  # fmt: skip
BucketIndex = NDArray[np.void]  # records of HEAD


@dataclass(frozen=True, eq=False)
class Block:
    """Block of cells: their index and their data, in the same order."""

    heads: BucketIndex
    data: Sequence[bytes]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> Block:
        """Return the block of several rows."""
        return cls(heads_of(rows), [row.data for row in rows])

    def rows(self) -> list[Row]:
        """Return the cells one by one."""
        heads = self.heads.tolist()
        return [Row._make((*head, data)) for head, data in zip(heads, self.data, strict=True)]

    @property
    def is_uniform(self) -> bool:
        """Whether all cells have the same number of features and no removed rows."""
        d = self.heads["d"]
        return bool(len(d)) and bool((d == d[0]).all()) and not self.heads["removed"].any()

    @property
    def is_intact(self) -> bool:
        """Whether heads and data agree with their checksums."""
        d, removed = self.heads["d"], self.heads["removed"] > 0
        if list(map(len, self.data)) != size_of(d, removed).tolist():
            return False
        step, covered, raw = HEAD.itemsize, COVERED.size, self.heads.tobytes()
        seeds = [xxh3_64_intdigest(raw[i : i + covered]) for i in range(0, len(raw), step)]
        found = list(map(xxh3_64_intdigest, self.data, seeds))
        return bool(found == self.heads["checksum"].tolist())


@dataclass(frozen=True, eq=False)
class Index:
    """BucketIndex of all cells and of all totals, each by class, time and segment."""

    cells: BucketIndex
    totals: BucketIndex

    @classmethod
    def of(cls, heads: BucketIndex) -> Index:
        """Return the index of heads as they are stored, by time, segment and class."""
        order = np.argsort(heads["label"].astype(np.int16), kind="stable")  # radix sort
        is_total = heads["segment"][order] == ALL
        return cls(pick(heads, order[~is_total]), pick(heads, order[is_total]))

    @property
    def d(self) -> int:
        """Number of features of the widest cell; features that came later are 0 in all cells."""
        return int(self.cells["d"].max(initial=0))

    def problem(self, labels: int, segments: int, d: int, has_totals: bool) -> str | None:
        """Return why the heads are impossible for so many labels, segments and features."""
        if bool(len(self.totals)) != (has_totals and bool(len(self.cells))):
            return "its totals are missing or unexpected"
        for heads in (self.cells, self.totals):
            for name in ("n", "weight_remainder", "min_row_weight"):
                if not (np.abs(heads[name]) <= MAX_SAMPLE_WEIGHT).all():
                    return f"the {name} of a cell is {heads[name].max()}"
            possible = (
                (heads["label"] >= 0) & (heads["label"] < labels) & (heads["segment"] < segments)
                & (heads["segment"] >= ALL) & (heads["d"] >= 1) & (heads["d"] <= d)
                & (heads["rows"] >= 1) & (heads["rows"] < 2**53) & (heads["n"] > 0)
                & (np.abs(heads["start"].astype(float)) < MAX_TIMESTAMP)
                & (heads["stop"] > heads["start"])
                & (np.abs(heads["stop"].astype(float)) < 2.0 * MAX_TIMESTAMP)
                & (heads["removed"] >= 0) & (heads["removed"] <= 1)
            )  # fmt: skip
            if not possible.all():
                return "a field of a cell is out of range"
            keys = np.column_stack([heads[name] for name in ("label", "start", "segment")])
            if (keys[1:] == keys[:-1]).all(axis=1).any():
                return "a cell occurs twice"
        return None


def pick(heads: BucketIndex, at: Any) -> BucketIndex:
    """Return some heads; whole records are copied faster than their fields."""
    found: BucketIndex = heads.view(f"V{HEAD.itemsize}")[at].view(HEAD)
    return found


def heads_of(rows: Sequence[Any]) -> BucketIndex:
    """Return the heads of rows as one array."""
    fields = len(HEAD.names or ())
    return np.array([tuple(row[:fields]) for row in rows], dtype=HEAD)


def by_bucket(heads: BucketIndex) -> dict[int, BucketIndex]:
    """Return the heads of each bucket, in the order of the index."""
    heads = heads[np.argsort(heads["start"], kind="stable")]
    starts, first = np.unique(heads["start"], return_index=True)
    return dict(zip(starts.tolist(), np.split(heads, first[1:]), strict=True)) if len(heads) else {}


def checksum_of(head: bytes, data: bytes) -> int:
    """Return the checksum of a cell."""
    return xxh3_64_intdigest(data, xxh3_64_intdigest(head))


def read_cell(row: Row, label: Labels, d: int) -> Moments:
    """Return a cell as moments of d features."""
    weight = (row.n, row.weight_remainder, row.min_row_weight)
    return unpacked(row.data, row.d, bool(row.removed), label, weight, d)


def as_row(key: Key, stop: int, rows: int, cell: Moments) -> Row:
    """Return a cell as it is stored."""
    data, removed = packed(cell)
    weight = float(cell.n[0]), float(cell.weight_remainder[0]), float(cell.min_row_weight[0])
    return _row(
        (key.start, stop, key.segment, key.label, rows, *weight, len(cell.anchor), int(removed)),
        data,
    )


def moved(row: Row, segment: int) -> Row:
    """Return a cell under another segment."""
    return _row(row._replace(segment=segment)[: len(Row._fields) - 2], row.data)


def _row(head: tuple[Any, ...], data: bytes) -> Row:
    """Return a cell with its checksum."""
    return Row._make((*head, checksum_of(COVERED.pack(*head), data), data))


FEW = 0.3  # of the cells: fewer are copied, instead of being given the weight 0


@dataclass(eq=False)
class ClassCells:
    """Cells of one class, by time."""

    start: Counts  # their buckets and segments, and how many rows they have
    stop: Counts
    segment: Counts
    rows: Counts
    n: Vector  # weight
    min_row_weight: Vector
    mean: Matrix  # means about the anchor
    tri: Matrix  # triangles of the scatters
    nonconstant_weight: NDArray[np.float64]  # as of Moments
    row_hashes: NDArray[np.uint64]
    max_scatter: Matrix  # as of Moments where rows were removed, else 0
    removed: NDArray[np.float64]

    @classmethod
    def of(cls, block: Block, anchor: Vector) -> ClassCells:
        """Cells as they lie in the file, widened to the features of the anchor."""
        heads = block.heads
        m, d = len(heads), len(anchor)
        head = (
            heads["start"], heads["stop"], heads["segment"], heads["rows"], heads["n"],
            heads["min_row_weight"],
        )  # fmt: skip
        if block.is_uniform and heads["d"][0] == d:  # as they are
            where = layout(d, False)
            every = np.frombuffer(b"".join(block.data)).reshape(m, -1)
            mean = (every[:, where["anchor"]] - anchor) + every[:, where["mean"]]
            nonconstant_weight = every[:, where["nonconstant_weight"]].reshape(m, 2, d)
            row_hashes = every[:, where["row_hashes"]].view(np.uint64).reshape(m, 2, 1 + d)
            nothing = np.broadcast_to(0.0, (m, 2, d))
            return cls(
                *head,
                mean,
                every[:, where["C"]],
                nonconstant_weight,
                row_hashes,
                nothing[:, 0],
                nothing,
            )
        part = cls(
            *head,
            np.tile(-anchor, (m, 1)), np.zeros((m, triangle(d))), np.zeros((m, 2, d)),
            np.zeros((m, 2, 1 + d), dtype=np.uint64), np.zeros((m, d)), np.zeros((m, 2, d)),
        )  # fmt: skip
        part.nonconstant_weight[:, 1] = part.n[:, None]
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
            part.nonconstant_weight[mine, :, :wide] = every[:, where["nonconstant_weight"]].reshape(
                -1, 2, wide
            )
            row_hashes = np.ascontiguousarray(every[:, where["row_hashes"]]).view(np.uint64)
            part.row_hashes[mine, :, : 1 + wide] = row_hashes.reshape(-1, 2, 1 + wide)
            if removed:
                part.max_scatter[mine, :wide] = every[:, where["max_scatter"]]
                part.removed[mine, :, :wide] = every[:, where["removed"]].reshape(-1, 2, wide)
        return part

    def weighing(self, weight: Vector) -> tuple[ClassCells, Vector]:
        """Those that weigh something, and perhaps others between them, with their weights."""
        there = np.flatnonzero(weight)
        at: slice | NDArray[np.intp] = there
        if len(there) >= FEW * len(weight):
            at = slice(int(there[0]), int(there[-1]) + 1) if len(there) else slice(0)
        return replace(self, **{name: value[at] for name, value in vars(self).items()}), weight[at]


class MomentSum:
    """Sum of cells of one class, which arrive in parts."""

    def __init__(self, d: int) -> None:
        self._own: list[Vector] = []
        self._mean: list[Matrix] = []
        self._sums = np.zeros(triangle(d) + 2 * d)  # as they follow each other in a cell
        self._tri, self._nonconstant = (
            self._sums[: triangle(d)],
            self._sums[triangle(d) :].reshape(2, d),
        )
        self._hashes, self._plain = np.zeros((2, 1 + d), dtype=np.uint64), True
        self._min_weight, self._max_scatter, self._removed = np.inf, np.zeros(d), np.zeros((2, d))

    def add(self, part: ClassCells, w: Vector) -> None:
        """Add cells with such weights."""
        self._own.append(w * part.n)
        self._mean.append(part.mean)
        self._tri += w @ part.tri
        self._nonconstant += np.tensordot(w, part.nonconstant_weight, 1)
        there = w > 0
        if there.any():
            self._min_weight = min(self._min_weight, (w * part.min_row_weight)[there].min())
            self._plain = self._plain and bool((w[there] == 1.0).all())
            self._hashes += np.add.reduce(part.row_hashes[there], axis=0)
            self._max_scatter += part.max_scatter[there].sum(axis=0)
            some = there & part.removed[:, 0].any(axis=1)
            if some.any():
                if not self._removed[0].any():
                    self._removed[1] = part.removed[some.argmax(), 1]
                self._removed[0] += w @ part.removed[:, 0]

    def take(self, block: Block, anchor: Vector, w: Vector) -> None:
        """Add cells with such weights as they lie in the file, about an anchor."""
        if not block.is_uniform or block.heads["d"][0] != len(anchor):
            self.add(ClassCells.of(block, anchor), w)
            return
        n, min_row_weight = block.heads["n"], block.heads["min_row_weight"]
        mean, there = np.empty((len(n), len(anchor))), w > 0
        self._plain = self._plain and bool((w[there] == 1.0).all())
        if there.any():
            self._min_weight = min(self._min_weight, (w * min_row_weight)[there].min())
        self._own.append(w * n)
        self._mean.append(mean)
        row_hashes = self._hashes.reshape(-1) if self._plain else None
        add_cells(tuple(block.data), w, anchor, mean, self._sums, row_hashes)

    def total(self) -> tuple[float, Vector, Vector]:
        """Weight, mean and triangle of the scatter."""
        own = np.concatenate(self._own) if self._own else np.zeros(0)
        n = float(own.sum())
        if n <= 0.0:
            return 0.0, np.zeros(len(self._max_scatter)), np.zeros(len(self._tri))
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
        result.min_row_weight[k], result.nonconstant_weight[k] = self._min_weight, self._nonconstant
        result.row_hashes[k] = self._hashes if self._plain else UNTRACKED_HASH
        result.max_scatter[k] = np.maximum(
            np.maximum(result.C[k].diagonal(), 0.0), self._max_scatter
        )
        result.removed[k] = self._removed


@dataclass(eq=False)
class Stack:
    """Cells of all classes."""

    labels: Labels  # the classes
    anchor: Vector  # what means are about
    parts: list[ClassCells]  # the cells of each class

    @classmethod
    def of(cls, block: Block, labels: Labels, d: int) -> Stack:
        """Return cells in the order of the index, widened to d features."""
        slot, at = block.heads["label"], np.arange(len(labels) + 1)
        ends = np.searchsorted(slot, at).tolist()
        anchor = anchor_of(block, d)
        parts = [
            ClassCells.of(Block(block.heads[i:j], block.data[i:j]), anchor)
            for i, j in pairwise(ends)
        ]
        return cls(labels, anchor, parts)

    def moments(self, weights: list[Vector]) -> Moments:
        """Moments of the cells of each class with these weights, each of shape (m,)."""
        result = Moments(self.labels, self.anchor)
        for k, (part, w) in enumerate(zip(self.parts, weights, strict=True)):
            total = MomentSum(len(self.anchor))
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


def heaviest(heads: BucketIndex) -> NDArray[np.intp]:
    """Return the indices of the heaviest cell of each number of features."""
    order = np.lexsort((-heads["n"], heads["d"]))
    return order[np.unique(heads["d"][order], return_index=True)[1]]
