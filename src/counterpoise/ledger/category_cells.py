"""Categories of cells in columns with many of them: packed, checked, summed.

A cell has the categories of its own rows alone: codes in the vocabularies of the ledger, weights
and sums of the features, and the weights of pairs of categories of two columns. Those of several
cells are one table of entries, and a sum of cells adds entries of equal codes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from counterpoise.arrays import Matrix, Vector
from counterpoise.errors import DataError, Suggestion
from counterpoise.moments.categories import (
    PAIR_BITS,
    CategoryColumn,
    CategoryMoments,
    Codes,
    PairRun,
    PairWeights,
    pair_positions,
)
from counterpoise.validation import MAX_ABS_VALUE

Part = tuple[int, ...]  # a column (b,), or a pair of columns (a, b)
LAST_CODE = (1 << PAIR_BITS) - 1
WEIGHT_RTOL = 1e-3  # by which rounding, after removals, makes a weight larger than it can be


def parts_of(count: int) -> list[Part]:
    """Return the columns and pairs of columns, in the order of packed cells."""
    return [*((b,) for b in range(count)), *pair_positions(count)]


def find_codes(own: Codes, codes: Codes) -> Codes:
    """Return the position of each code in an ascending list, −1 for those that are not in it."""
    if not len(own):
        return np.full(len(codes), -1)
    at = np.minimum(np.searchsorted(own, codes), len(own) - 1)
    return np.where(own[at] == codes, at, -1)


@dataclass(frozen=True, eq=False)
class CategoryEntries:
    """Categories of one column, or pairs of two, that occur in cells: one entry for each."""

    cell: Codes  # (e,) index of the cell
    code: NDArray[np.int64]  # (e,) code of the category, or key of the pair
    n: Vector  # (e,) weight
    sums: Matrix  # (e, d) sums of the features; of pairs (e, 0)

    def sum(self, w: Vector, to: Codes) -> CategoryEntries:
        """Return the entries of sums of cells with weights (m,): cell i belongs to sum ``to[i]``.

        They are sorted by cell and code.
        """
        weight, cell = w[self.cell], to[self.cell]
        order = np.lexsort((self.code, cell))
        order = order[weight[order] > 0.0]
        cell, code = cell[order], self.code[order]
        is_new = (code[1:] != code[:-1]) | (cell[1:] != cell[:-1])
        first = np.flatnonzero(np.append(True, is_new)[: len(code)])
        ends = np.append(first, len(code))
        shape = len(first), len(self.code)
        E = sp.csr_array((weight[order], order, ends), shape=shape)
        return CategoryEntries(cell[first], code[first], E @ self.n, E @ self.sums)

    def concatenate(self, other: CategoryEntries) -> CategoryEntries:
        """Return the entries of both, about the same cells."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return CategoryEntries(*(np.concatenate(pair) for pair in pairs))


@dataclass(frozen=True, eq=False)
class CategoryCells:
    """Categories of several cells, about one origin."""

    origin: Vector  # (d,) of the sums of the features
    count: int  # of columns
    parts: dict[Part, CategoryEntries]

    @classmethod
    def of(cls, moments: CategoryMoments, cells: Codes, origin: Vector) -> CategoryCells:
        """Return the categories of moments, whose class k is cell ``cells[k]``."""
        parts: dict[Part, CategoryEntries] = {}
        for b, column in enumerate(moments.columns):
            k, i = np.nonzero(column.n)
            n = column.n[k, i]
            sums = column.sums[k, i] - n[:, None] * (origin - moments.origin)
            parts[b,] = CategoryEntries(cells[k], column.all_codes[i].astype(np.int64), n, sums)
        for pair, weights in moments.pairs.items():
            run = weights.total()
            k, key = run.keys >> 2 * PAIR_BITS, run.keys & ((1 << 2 * PAIR_BITS) - 1)
            parts[pair] = CategoryEntries(cells[k], key, run.weight, np.zeros((len(key), 0)))
        return cls(origin, len(moments.columns), parts)

    def sum(self, w: Vector, to: Codes) -> CategoryCells:
        """Return sums of cells with weights (m,), where cell i belongs to sum ``to[i]``."""
        return replace(self, parts={key: one.sum(w, to) for key, one in self.parts.items()})

    def append(self, other: CategoryCells) -> CategoryCells:
        """Return cell by cell the sum with other cells, about the same origin."""
        parts = {}
        for key, one in self.parts.items():
            both = one.concatenate(other.parts[key])
            most = int(both.cell.max(initial=-1)) + 1
            parts[key] = both.sum(np.ones(most), np.arange(most))
        return replace(self, parts=parts)

    def select_features(self, at: NDArray[np.intp]) -> CategoryCells:
        """Return the categories with the sums of these features alone."""
        parts = dict(self.parts)
        for b in range(self.count):
            parts[b,] = replace(parts[b,], sums=parts[b,].sums[:, at])
        return CategoryCells(self.origin[at], self.count, parts)

    def select_columns(self, columns: Sequence[int]) -> CategoryCells:
        """Return the categories of some columns, in ascending order."""
        chosen = parts_of(len(columns))
        parts = {part: self.parts[tuple(columns[b] for b in part)] for part in chosen}
        return CategoryCells(self.origin, len(columns), parts)

    def moments(self, c: int) -> CategoryMoments:
        """Return moments of c classes, of which cell k is class k, with the codes that occur."""
        columns, d = [], len(self.origin)
        for b in range(self.count):
            one = self.parts[b,]
            codes, at = np.unique(one.code, return_inverse=True)
            n, sums = np.zeros((c, len(codes))), np.zeros((c, len(codes), d))
            n[one.cell, at], sums[one.cell, at] = one.n, one.sums
            columns.append(CategoryColumn(n, sums, len(codes), codes.astype(np.intp)))
        pairs = {}
        for a, b in pair_positions(self.count):
            one = self.parts[a, b]
            keys = (one.cell.astype(np.int64) << 2 * PAIR_BITS) | one.code
            pairs[a, b] = PairWeights((PairRun.of(keys, one.n),))
        return CategoryMoments(self.origin, tuple(columns), pairs)

    # Bytes: number of columns, number of entries of each part, and codes, weights and sums of each

    def pack(self) -> bytes:
        """Return the categories of one cell as bytes; nothing if there are none."""
        parts = [self.parts[part] for part in parts_of(self.count)]
        if not any(len(one.code) for one in parts):
            return b""
        head = np.array([self.count, *(len(one.code) for one in parts)], "<i8").tobytes()
        return head + b"".join(
            values.astype(kind).tobytes()
            for one in parts
            for values, kind in ((one.code, "<i8"), (one.n, "<f8"), (one.sums, "<f8"))
        )

    @classmethod
    def unpack(
        cls, data: Sequence[memoryview], anchors: Sequence[Vector], n: Vector, origin: Vector,
        sizes: Sequence[int],
    ) -> CategoryCells:  # fmt: skip
        """Return the categories of packed cells (m,), checked.

        ``anchors`` are the origins of their sums, of as many features as each has, ``n`` (m,) their
        weights, and ``sizes`` the numbers of categories of the columns.
        """
        d, count = len(origin), len(sizes)
        found: dict[Part, list[CategoryEntries]] = {part: [] for part in parts_of(count)}
        for i, (one, anchor) in enumerate(zip(data, anchors, strict=True)):
            if not len(one):
                continue
            own = int(np.frombuffer(one, "<i8", 1)[0])
            _require(1 <= own <= count)
            keys = parts_of(own)
            _require(len(one) >= 8 * (1 + len(keys)))
            entries = np.frombuffer(one, "<i8", len(keys), 8)
            _require(bool(((entries >= 0) & (entries <= len(one))).all()))
            width, at = len(anchor), 8 * (1 + len(keys))
            shift = -origin
            shift[:width] += anchor
            widths = [width if len(part) == 1 else 0 for part in keys]
            wanted = sum(e * (2 + w) for e, w in zip(entries.tolist(), widths, strict=True))
            _require(len(one) == at + 8 * wanted)
            for part, e, w in zip(keys, entries.tolist(), widths, strict=True):
                code = np.frombuffer(one, "<i8", e, at)
                weight = np.frombuffer(one, "<f8", e, at + 8 * e)
                sums = np.frombuffer(one, "<f8", e * w, at + 16 * e).reshape(e, w)
                at += 8 * e * (2 + w)
                _require(bool((np.abs(sums) <= 8 * MAX_ABS_VALUE * weight[:, None]).all()))
                if len(part) == 1:
                    sums = np.pad(sums, ((0, 0), (0, d - w))) + weight[:, None] * shift
                found[part].append(CategoryEntries(np.full(e, i), code, weight, sums))
        parts = {}
        for part, some in found.items():
            none, w = np.zeros(0, np.int64), d if len(part) == 1 else 0
            empty = CategoryEntries(none, none, np.zeros(0), np.zeros((0, w)))
            values = zip(*(vars(one).values() for one in (empty, *some)), strict=True)
            parts[part] = CategoryEntries(*map(np.concatenate, values))
        result = cls(origin, count, parts)
        result._require_possible(n, sizes)
        return result

    def _require_possible(self, n: Vector, sizes: Sequence[int]) -> None:
        """Raise unless cells of weights n (m,) can have these categories."""
        for part, one in self.parts.items():
            _require(bool(((one.n > 0.0) & np.isfinite(one.n)).all()))
            ascending = (np.diff(one.code) > 0) | (np.diff(one.cell) > 0)
            _require(bool(ascending.all() and (one.code >= 0).all()))
            if len(part) == 1:
                _require(bool((one.code < sizes[part[0]]).all()))
                total = np.bincount(one.cell, one.n, len(n))
                _require(bool((total <= n * (1.0 + WEIGHT_RTOL)).all()))
                continue
            for b, code in zip(part, (one.code >> PAIR_BITS, one.code & LAST_CODE), strict=True):
                whole = self.parts[b,]
                keys = (whole.cell << PAIR_BITS) | whole.code
                wanted = (one.cell << PAIR_BITS) | code
                at = find_codes(keys, wanted)
                _require(bool((at >= 0).all()))
                total = np.bincount(at, one.n, len(keys))
                _require(bool((total <= whole.n * (1.0 + WEIGHT_RTOL)).all()))


def _require(is_possible: bool) -> None:
    if not is_possible:
        raise DataError(
            "the ledger is damaged (a cell has impossible categories)",
            Suggestion("restore it from a copy, or learn the files again"),
        )
