"""Cells: moments of the rows of one bucket, segment and class, packed, in columns, and summed.

With weights ω of the cells i

    n = Σ ω_i n_i      μ = Σ ω_i n_i μ_i / n      C = Σ ω_i (C_i + n_i (μ_i − μ)(μ_i − μ)ᵀ)

which is Chan's formula for all of them in one step. Means are about one anchor for all cells.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_64_intdigest

from counterpoise.arrays import Labels, Matrix, Vector
from counterpoise.ledger.category_cells import CategoryCells
from counterpoise.moments._sums import gather_groups
from counterpoise.moments.downdate import UNTRACKED_HASH
from counterpoise.moments.moments import Moments
from counterpoise.validation import MAX_SAMPLE_WEIGHT, MAX_TIMESTAMP

ALL = -1  # the segment of a total
PACKED_TOGETHER = 1024  # small cells that are packed at a time
MAX_COPIED_FRACTION = 0.3  # of the cells: fewer are copied, instead of being given the weight 0


def triangle(d: Any) -> Any:
    """Return the number of values in the triangle of a symmetric matrix of d features."""
    return d * (d + 1) // 2


@lru_cache(maxsize=8)
def triangle_indices(d: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return rows and columns of the values of a triangle."""
    return np.tril_indices(d)


def fold(C: Matrix) -> Matrix:
    """Return symmetric matrices (..., d, d) as triangles (..., d(d+1)/2)."""
    i, j = triangle_indices(C.shape[-1])
    return np.ascontiguousarray(C[..., i, j])


def unfold(tri: Matrix, d: int) -> Matrix:
    """Return triangles (..., d(d+1)/2) as symmetric matrices (..., d, d)."""
    i, j = triangle_indices(d)
    C = np.empty((*tri.shape[:-1], d, d))
    C[..., i, j] = tri
    C[..., j, i] = tri
    return C


@lru_cache(maxsize=64)
def packed_type(d: int, removed: bool) -> np.dtype[np.void]:
    """Return the data of a cell of d features; from some cells rows were removed."""
    fields: list[Any] = [
        ("anchor", "<f8", (d,)),
        ("mean", "<f8", (d,)),
        ("tri", "<f8", (triangle(d),)),
        ("nonconstant_weight", "<f8", (2, d)),
        ("row_hashes", "<u8", (2, 1 + d)),
    ]
    if removed:
        fields += [("max_scatter", "<f8", (d,)), ("removed", "<f8", (2, d))]
    return np.dtype(fields)


def packed_size(d: Any, removed: Any) -> Any:
    """Return the bytes of a cell without its categories, or of each of several."""
    return 8 * (2 * d + triangle(d) + 2 * d + 2 * (1 + d) + 3 * d * removed)


class Key(NamedTuple):
    """Key of a cell: start of its bucket, segment and class."""

    start: int
    segment: int
    label: int


class StoredCell(NamedTuple):
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
    category_bytes: int  # at the end of the data
    checksum: int
    data: bytes

    @classmethod
    def pack(cls, key: Key, stop: int, rows: int, cell: Moments) -> StoredCell:
        """Return the moments of one class as a cell."""
        max_scatter = np.maximum(cell.C[0].diagonal(), 0.0)
        removed = bool(cell.removed.any() or not np.array_equal(cell.max_scatter[0], max_scatter))
        d = len(cell.anchor)
        data = np.empty((), packed_type(d, removed))
        data["anchor"], data["tri"] = cell.anchor, fold(cell.C[0])
        for name in data.dtype.names or ():
            if name not in ("anchor", "tri"):
                data[name] = getattr(cell, name)[0]
        weight = float(cell.n[0]), float(cell.weight_remainder[0]), float(cell.min_row_weight[0])
        many = b""
        if cell.categories is not None:
            many = CategoryCells.of(cell.categories, np.zeros(1, np.intp), cell.anchor).pack()
        head = (key.start, stop, key.segment, key.label, rows, *weight, d, int(removed), len(many))
        return cls._seal(head, data.tobytes() + many)

    @classmethod
    def pack_groups(
        cls, keys: Sequence[Key], stops: Sequence[int], X: Matrix, ends: NDArray[np.intp]
    ) -> Iterator[StoredCell]:
        """Yield the cells of small groups of consecutive rows of X (n, d), all of weight 1.

        Group g has the rows from ends[g] to before ends[g + 1]. They equal those of :meth:`pack`.
        """
        d, sizes = X.shape[1], np.diff(ends).tolist()
        for first in range(0, len(keys), PACKED_TOGETHER):
            some = slice(first, first + PACKED_TOGETHER)
            data = np.zeros(len(keys[some]), packed_type(d, False))
            bounds = ends[first : first + PACKED_TOGETHER + 1]
            gather_groups(
                X, bounds, data["anchor"], data["mean"], data["tri"], data["nonconstant_weight"],
                data["row_hashes"],
            )  # fmt: skip
            raw, size = data.tobytes(), data.itemsize
            for g, (key, stop, rows) in enumerate(
                zip(keys[some], stops[some], sizes[some], strict=True)
            ):
                head = (
                    key.start,
                    stop,
                    key.segment,
                    key.label,
                    rows,
                    float(rows),
                    0.0,
                    1.0,
                    d,
                    0,
                    0,
                )
                yield cls._seal(head, raw[g * size : (g + 1) * size])

    @classmethod
    def _seal(cls, head: tuple[Any, ...], data: bytes) -> StoredCell:
        """Return a cell with its checksum."""
        checksum = xxh3_64_intdigest(data, xxh3_64_intdigest(COVERED.pack(*head)))
        return cls._make((*head, checksum, data))

    @property
    def key(self) -> Key:
        """Key of the cell."""
        return Key(self.start, self.segment, self.label)

    def move(self, segment: int) -> StoredCell:
        """Return the cell under another segment."""
        return self._seal(self._replace(segment=segment)[:-2], self.data)

    def moments(self, label: Labels, d: int, sizes: Sequence[int] = ()) -> Moments:
        """Return the moments of the cell, widened to d features.

        ``sizes`` are the numbers of categories of the columns with many of them.
        """
        cell, own = Moments(label, np.zeros(d)), self.d
        data = np.frombuffer(self.data, packed_type(own, bool(self.removed)), 1)[0]
        cell.n[:], cell.weight_remainder[:] = self.n, self.weight_remainder
        cell.min_row_weight[:] = self.min_row_weight
        cell.N[:] = cell.stream[:] = cell.n
        cell.anchor[:own], cell.mean[0, :own] = data["anchor"], data["mean"]
        cell.C[0, :own, :own] = unfold(data["tri"], own)
        cell.nonconstant_weight[0, 1] = cell.n[0]
        cell.nonconstant_weight[0, :, :own] = data["nonconstant_weight"]
        cell.row_hashes[0, :, : 1 + own] = data["row_hashes"]
        cell.max_scatter[0] = np.maximum(cell.C[0].diagonal(), 0.0)
        if self.removed:
            cell.max_scatter[0, :own] = data["max_scatter"]
            cell.removed[0, :, :own] = data["removed"]
        if sizes:
            cell.categories = Block.of([self]).categories(cell.anchor, sizes).moments(1)
        return cell


COVERED = struct.Struct("<5q3d3q")  # all fields of a head except the checksum
HEAD = np.dtype(
    [
        (name, "<f8" if name in ("n", "weight_remainder", "min_row_weight") else "<i8")
        for name in StoredCell._fields[:-2]
    ]
    + [("checksum", "<u8")]
)  # fmt: skip
BucketIndex = NDArray[np.void]  # records of HEAD


def pick(heads: BucketIndex, at: Any) -> BucketIndex:
    """Return some heads; whole records are copied faster than their fields."""
    picked: BucketIndex = heads.view(f"V{HEAD.itemsize}")[at].view(HEAD)
    return picked


def heads_of(cells: Sequence[Any]) -> BucketIndex:
    """Return the heads of cells as one array."""
    fields = len(HEAD.names or ())
    return np.array([tuple(cell[:fields]) for cell in cells], dtype=HEAD)


def heaviest(heads: BucketIndex) -> NDArray[np.intp]:
    """Return the indices of the heaviest cell of each number of features."""
    order = np.lexsort((-heads["n"], heads["d"]))
    return order[np.unique(heads["d"][order], return_index=True)[1]]


@dataclass(frozen=True, eq=False)
class Index:
    """Heads of all cells and of all totals, each by class, time and segment."""

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
        """Return why the heads are impossible for these numbers of labels, segments, features."""
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
                & (heads["category_bytes"] >= 0) & (heads["category_bytes"] < 2**40)
            )  # fmt: skip
            if not possible.all():
                return "a field of a cell is out of range"
            keys = np.column_stack([heads[name] for name in ("label", "start", "segment")])
            if (keys[1:] == keys[:-1]).all(axis=1).any():
                return "a cell occurs twice"
        return None


@dataclass(frozen=True, eq=False)
class Block:
    """Packed cells: their heads and their data, in the same order."""

    heads: BucketIndex
    data: Sequence[bytes]

    @classmethod
    def of(cls, cells: Sequence[StoredCell]) -> Block:
        """Return the block of several cells."""
        return cls(heads_of(cells), [cell.data for cell in cells])

    def cells(self) -> list[StoredCell]:
        """Return the cells one by one."""
        heads = self.heads.tolist()
        return [StoredCell._make((*h, data)) for h, data in zip(heads, self.data, strict=True)]

    def is_intact(self) -> bool:
        """Return whether heads and data agree with their checksums."""
        sizes = packed_size(self.heads["d"], self.heads["removed"] > 0)
        sizes = sizes + self.heads["category_bytes"]
        if list(map(len, self.data)) != sizes.tolist():
            return False
        step, covered, raw = HEAD.itemsize, COVERED.size, self.heads.tobytes()
        seeds = [xxh3_64_intdigest(raw[i : i + covered]) for i in range(0, len(raw), step)]
        checksums = list(map(xxh3_64_intdigest, self.data, seeds))
        return bool(checksums == self.heads["checksum"].tolist())

    def dense(self) -> list[bytes]:
        """Return the data without categories."""
        if not self.heads["category_bytes"].any():
            return list(self.data)
        sizes = self.heads["category_bytes"].tolist()
        return [one[: len(one) - size] for one, size in zip(self.data, sizes, strict=True)]

    def categories(self, origin: Vector, sizes: Sequence[int]) -> CategoryCells:
        """Return the categories, given the number of them in each column."""
        heads = self.heads
        data = [
            memoryview(one)[len(one) - size :]
            for one, size in zip(self.data, heads["category_bytes"].tolist(), strict=True)
        ]
        widths = zip(self.data, heads["d"].tolist(), strict=True)
        anchors = [np.frombuffer(one, count=d) for one, d in widths]
        return CategoryCells.unpack(data, anchors, heads["n"], origin, sizes)

    def anchor(self, d: int) -> Vector:
        """Return one anchor for all cells: for each feature that of the heaviest cell with it."""
        anchor, best = np.zeros(d), np.full(d, -1.0)
        for i in heaviest(self.heads).tolist():
            own, n = int(self.heads["d"][i]), float(self.heads["n"][i])
            better = np.flatnonzero(best[:own] < n)
            anchor[better] = np.frombuffer(self.data[i], count=own)[better]
            best[better] = n
        return anchor


@dataclass(frozen=True, eq=False)
class Cells:
    """Cells of all classes in columns of length m, by class, time and segment."""

    labels: Labels  # (c,) the classes
    anchor: Vector  # (d,) subtracted from all means
    heads: BucketIndex
    mean: Matrix  # (m, d)
    tri: Matrix  # (m, d(d+1)/2) triangles of the scatters
    nonconstant_weight: NDArray[np.float64]  # as of Moments
    row_hashes: NDArray[np.uint64]
    max_scatter: Matrix  # as of Moments where rows were removed, else 0
    removed: NDArray[np.float64]
    categories: CategoryCells | None = None  # of columns with many of them

    @classmethod
    def unpack(
        cls, block: Block, labels: Labels, anchor: Vector, sizes: Sequence[int] = ()
    ) -> Cells:
        """Return packed cells, widened to the features of the anchor.

        ``sizes`` are the numbers of categories of the columns with many of them.
        """
        heads, m, d, packed = block.heads, len(block.heads), len(anchor), block.dense()
        many = block.categories(anchor, sizes) if sizes else None
        if (heads["d"] == d).all() and not heads["removed"].any():  # columns are views of the data
            data = np.frombuffer(b"".join(packed), packed_type(d, False))
            zero = np.broadcast_to(0.0, (m, 2, d))
            mean = (data["anchor"] - anchor) + data["mean"]
            return cls(
                labels, anchor, heads, mean, data["tri"], data["nonconstant_weight"],
                data["row_hashes"], zero[:, 0], zero, many,
            )  # fmt: skip
        cells = cls(
            labels, anchor, heads, np.tile(-anchor, (m, 1)), np.zeros((m, triangle(d))),
            np.zeros((m, 2, d)), np.zeros((m, 2, 1 + d), dtype=np.uint64), np.zeros((m, d)),
            np.zeros((m, 2, d)), many,
        )  # fmt: skip
        cells.nonconstant_weight[:, 1] = heads["n"][:, None]
        for own, removed in set(heads[["d", "removed"]].tolist()):
            at = np.flatnonzero((heads["d"] == own) & (heads["removed"] == removed))
            joined = b"".join(packed[i] for i in at.tolist())
            data = np.frombuffer(joined, packed_type(own, bool(removed)))
            cells.mean[at, :own] = (data["anchor"] - anchor[:own]) + data["mean"]
            cells.tri[at, : triangle(own)] = data["tri"]
            cells.nonconstant_weight[at, :, :own] = data["nonconstant_weight"]
            cells.row_hashes[at, :, : 1 + own] = data["row_hashes"]
            if removed:
                cells.max_scatter[at, :own] = data["max_scatter"]
                cells.removed[at, :, :own] = data["removed"]
        return cells

    def select(self, at: slice | NDArray[np.intp]) -> Cells:
        """Return some of the cells, without categories."""
        shared = ("labels", "anchor", "categories")
        own = {k: v[at] for k, v in vars(self).items() if k not in shared}
        return replace(self, **own, categories=None)

    def sum(self, w: Vector) -> Moments:
        """Return the moments of the rows of all cells with weights (m,)."""
        result = Moments(self.labels, self.anchor)
        ends = np.searchsorted(self.heads["label"], np.arange(len(self.labels) + 1))
        for k, (i, j) in enumerate(pairwise(ends.tolist())):
            weighted = i + np.flatnonzero(w[i:j])
            at: Any = weighted
            if len(weighted) > MAX_COPIED_FRACTION * (j - i):
                at = slice(int(weighted[0]), int(weighted[-1]) + 1)
            total = MomentSum(len(self.anchor))
            total.add(self.select(at), w[at])
            total.store(result, k)
        if self.categories is not None:
            result.categories = self.categories.sum(w, self.heads["label"]).moments(len(ends) - 1)
        result.N[:] = result.n
        result.stream[:] = result.N.sum()
        return result


class MomentSum:
    """Sum of cells of one class about one anchor, which arrive in blocks."""

    def __init__(self, d: int) -> None:
        self._n: list[Vector] = []
        self._mean: list[Matrix] = []
        self._tri, self._nonconstant = np.zeros(triangle(d)), np.zeros((2, d))
        self._hashes, self._has_unit_weights = np.zeros((2, 1 + d), dtype=np.uint64), True
        self._min_weight, self._max_scatter, self._removed = np.inf, np.zeros(d), np.zeros((2, d))

    def add(self, cells: Cells, w: Vector) -> None:
        """Add cells with weights (m,)."""
        some = w > 0
        self._n.append(w * cells.heads["n"])
        self._mean.append(cells.mean)
        self._tri += w @ cells.tri
        self._nonconstant += np.tensordot(w, cells.nonconstant_weight, 1)
        self._hashes += cells.row_hashes[some].sum(axis=0)
        self._has_unit_weights &= bool((w[some] == 1.0).all())
        smallest = (w * cells.heads["min_row_weight"])[some].min(initial=np.inf)
        self._min_weight = min(self._min_weight, smallest)
        if not cells.heads["removed"].any():
            return
        self._max_scatter += cells.max_scatter[some].sum(axis=0)
        some &= cells.removed[:, 0].any(axis=1)
        if some.any():
            if not self._removed[0].any():
                self._removed[1] = cells.removed[some.argmax(), 1]
            self._removed[0] += w @ cells.removed[:, 0]

    def store(self, result: Moments, k: int) -> None:
        """Set class k of moments about the same anchor to the sum."""
        own = np.concatenate(self._n) if self._n else np.zeros(0)
        n = float(own.sum())
        if n <= 0.0:
            return
        mean = np.concatenate(self._mean)
        mu = own @ mean / n
        centered = mean - mu
        tri = self._tri + fold(centered.T @ (centered * own[:, None]))
        result.n[k], result.mean[k], result.C[k] = n, mu, unfold(tri, len(mu))
        result.min_row_weight[k], result.nonconstant_weight[k] = self._min_weight, self._nonconstant
        result.row_hashes[k] = self._hashes if self._has_unit_weights else UNTRACKED_HASH
        variances = np.maximum(result.C[k].diagonal(), 0.0)
        result.max_scatter[k] = np.maximum(variances, self._max_scatter)
        result.removed[k] = self._removed


def sum_bucket(
    block: Block, labels: Labels, d: int, sizes: Sequence[int] = ()
) -> Iterator[StoredCell]:
    """Yield the totals of one bucket, from its cells by class and segment."""
    label = block.heads["label"]
    for k in np.unique(label).tolist():
        i, j = np.searchsorted(label, [k, k + 1]).tolist()
        own = Block(block.heads[i:j].copy(), block.data[i:j])
        if j - i == 1:
            yield own.cells()[0].move(ALL)
            continue
        own.heads["label"] = 0
        cells = Cells.unpack(own, labels[k : k + 1], own.anchor(d), sizes)
        total = cells.sum(np.ones(j - i))
        start, stop = int(own.heads["start"][0]), int(own.heads["stop"][0])
        rows = int(own.heads["rows"].sum())
        yield StoredCell.pack(Key(start, ALL, k), stop, rows, total)
