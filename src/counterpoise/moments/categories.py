"""Moments of columns with many categories: weights and feature sums of each category, by class.

The one-hot features of one column never occur together. So their second moments are diagonal, and
those with the d other features are one sum for each category: K (d + 1) numbers for K categories,
and not K². Two such columns also need the weight of each pair of categories that occurred together.
All are sums: they are added, subtracted and decayed like other moments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from counterpoise.arrays import Counts, Matrix, Rows, Vector
from counterpoise.errors import UnknownRowsError
from counterpoise.moments._categories import merge_pairs, sum_rows

Codes = NDArray[np.intp]
Sums = NDArray[np.float64]
PAIR_BITS = 26  # of the code of a category in the key of a pair
MAX_CODES = 2**PAIR_BITS  # categories of a column
MAX_CODES_PER_ROW = 64  # with more codes, those that occur in some rows are found by sorting
MAX_SIMILAR_RUNS = 8  # of pairs, before they become one
RESIDUAL_RTOL = 1e-9  # of the lightest row: less weight than that is rounding
ROUNDING_RTOL = 1e-12  # of a sum of weights: so much is rounding, up to half of the lightest row
SUM_RTOL = 1e-6  # of the size of a sum: what rounding leaves when all rows are removed
TOO_MANY = "cannot unlearn these rows: a category occurs in more of them than were ever learned"
OTHER_ROWS = "cannot unlearn these rows: the last rows of a category differ from those learned"
NOT_TOGETHER = "cannot unlearn these rows: two categories never occurred together in a learned row"


@dataclass(frozen=True)
class CodeColumns:
    """Last columns of the rows, which contain codes of categories: integers from 1, 0 for none."""

    pseudo_rows: tuple[float | None, ...]  # rows that each ridge is worth; None to choose it

    @property
    def count(self) -> int:
        """Number of columns B."""
        return len(self.pseudo_rows)

    def split(self, X: Rows) -> tuple[Rows, Codes]:
        """Return the features (n, d) of rows, and their categories (n, B), −1 for none."""
        d = X.shape[1] - self.count
        features, codes = X[:, :d], X[:, d:]
        if sp.issparse(X):
            return sp.csr_array(features), codes.toarray().astype(np.intp) - 1
        return np.ascontiguousarray(features), codes.astype(np.intp) - 1


@dataclass(eq=False)
class CategoryColumn:
    """Weights n (c, K) and sums of the features (c, K, d) of the categories of one column.

    Without ``codes`` category i is the one with code i. The arrays may be longer.
    """

    stored_n: Matrix
    stored_sums: Sums
    size: int
    codes: Codes | None = None  # (K,) sorted

    @property
    def n(self) -> Matrix:
        """Weight of each category, (c, K)."""
        return self.stored_n[:, : self.size]

    @property
    def sums(self) -> Sums:
        """Sums of the features relative to the origin, (c, K, d)."""
        return self.stored_sums[:, : self.size]

    @property
    def all_codes(self) -> Codes:
        """Codes of the categories."""
        return np.arange(self.size) if self.codes is None else self.codes

    @property
    def count(self) -> int:
        """Number of codes up to the largest."""
        return self.size if self.codes is None else int(self.codes[-1]) + 1 if self.size else 0

    @classmethod
    def empty(cls, c: int, d: int) -> CategoryColumn:
        """Return a column without categories."""
        return cls(np.zeros((c, 0)), np.zeros((c, 0, d)), 0)

    def copy(self) -> CategoryColumn:
        """Return an independent copy."""
        return replace(self, stored_n=self.n.copy(), stored_sums=self.sums.copy())

    def resize(self, size: int) -> CategoryColumn:
        """Return the column with at least this many codes, which may share the arrays."""
        if self.codes is not None:
            c, _, d = self.sums.shape
            result = CategoryColumn(
                np.zeros((c, max(size, self.count))), np.zeros((c, max(size, self.count), d)),
                max(size, self.count),
            )  # fmt: skip
            result.stored_n[:, self.codes], result.stored_sums[:, self.codes] = self.n, self.sums
            return result
        if size <= self.size:
            return self
        capacity = self.stored_n.shape[1]
        if size <= capacity:
            return replace(self, size=size)
        capacity = size if not capacity else max(size, capacity + capacity // 2)
        c, _, d = self.stored_sums.shape
        n, sums = np.zeros((c, capacity)), np.zeros((c, capacity, d))
        n[:, : self.size], sums[:, : self.size] = self.n, self.sums
        return CategoryColumn(n, sums, size)

    def with_codes(self, codes: Codes) -> tuple[CategoryColumn, Codes]:
        """Return the column with some sorted codes, and their positions in its arrays.

        It may share the arrays. A column of selected codes gets no others.
        """
        if self.codes is None:
            return self.resize(int(codes[-1]) + 1 if len(codes) else 0), codes
        both = np.union1d(self.codes, codes)
        result = self
        if len(both) > self.size:
            c, _, d = self.sums.shape
            result = CategoryColumn(
                np.zeros((c, len(both))), np.zeros((c, len(both), d)), len(both), both
            )
            mine = np.searchsorted(both, self.codes)
            result.stored_n[:, mine], result.stored_sums[:, mine] = self.n, self.sums
        return result, np.searchsorted(both, codes)

    def select_codes(self) -> CategoryColumn:
        """Return the column of the codes that have a weight alone."""
        at = np.flatnonzero(self.n.any(axis=0))
        return CategoryColumn(self.n[:, at], self.sums[:, at], len(at), self.all_codes[at])

    def map(self, n: Any, sums: Any) -> CategoryColumn:
        """Return the column with new arrays, given functions of the present ones."""
        return replace(self, stored_n=n(self.n), stored_sums=np.ascontiguousarray(sums(self.sums)))

    def move_origin(self, by: Vector) -> CategoryColumn:
        """Return the column with sums relative to an origin that is moved by a vector (d,)."""
        return replace(self, stored_n=self.n.copy(), stored_sums=self.sums - self.n[..., None] * by)


@dataclass(frozen=True, eq=False)
class PairRun:
    """Weights of pairs of categories, sorted by class and by codes."""

    keys: NDArray[np.int64]
    weight: Vector

    @classmethod
    def of(cls, keys: NDArray[np.int64], weight: Vector) -> PairRun:
        """Return the run of pairs in any order, which may occur several times."""
        is_count = bool((weight == 1.0).all())
        if is_count:  # the sum of equal pairs is their number
            keys = np.sort(keys)
        else:
            order = np.argsort(keys, kind="stable")
            keys, weight = keys[order], weight[order]
        first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
        if is_count:
            return cls(keys[first], np.diff(first, append=len(keys)).astype(np.float64))
        return cls(keys[first], np.add.reduceat(weight, first) if len(first) else weight)

    def merge(self, other: PairRun) -> PairRun:
        """Return the pairs of both runs."""
        size = len(self.keys) + len(other.keys)
        keys, weight = np.empty(size, np.int64), np.empty(size)
        size = merge_pairs(keys, weight, self.keys, self.weight, other.keys, other.weight)
        keys.resize(size, refcheck=False)  # in place, without a copy
        weight.resize(size, refcheck=False)
        return PairRun(keys, weight)


@dataclass(frozen=True, eq=False)
class PairWeights:
    """Weights of the pairs of categories of two columns, in runs of decreasing length."""

    runs: tuple[PairRun, ...] = ()

    def append(self, other: PairWeights) -> PairWeights:
        """Return the weights of both samples; many runs of similar length become one."""
        runs = [run for run in (*self.runs, *other.runs) if len(run.keys)]
        runs.sort(key=lambda run: -len(run.keys))
        while True:
            last = MAX_SIMILAR_RUNS * len(runs[-1].keys) if runs else 0
            similar = [run for run in runs if len(run.keys) <= last]
            if len(similar) < MAX_SIMILAR_RUNS:
                return PairWeights(tuple(runs))
            runs = [*runs[: -len(similar)], PairWeights(tuple(similar)).total()]

    def scale(self, factor: Vector) -> PairWeights:
        """Return the weights of each class multiplied by a factor (c,)."""
        if (factor == 1.0).all():
            return self
        runs = self.runs
        return PairWeights(
            tuple(PairRun(run.keys, run.weight * factor[run.keys >> 2 * PAIR_BITS]) for run in runs)
        )

    def total(self) -> PairRun:
        """Return all pairs in one run."""
        runs = list(self.runs) or [PairRun(np.zeros(0, np.int64), np.zeros(0))]
        while len(runs) > 1:  # short runs first
            runs.sort(key=lambda run: -len(run.keys))
            runs.append(runs.pop().merge(runs.pop()))
        return runs[0]

    def of_classes(self, c: int, shape: tuple[int, int]) -> list[Any]:
        """Return the weights of each of c classes as a CSR matrix of a shape."""
        run, last = self.total(), (1 << PAIR_BITS) - 1
        k, i = run.keys >> 2 * PAIR_BITS, (run.keys >> PAIR_BITS) & last
        ends = np.searchsorted(k, np.arange(c + 1))
        return [
            sp.csr_array(
                (run.weight[a:b], (i[a:b], run.keys[a:b] & last)), shape=shape
            )
            for a, b in pairwise(ends)
        ]  # fmt: skip

    def blocks(self, shape: tuple[int, int]) -> Iterator[tuple[int, Any]]:
        """Yield a class and some of its weights as a CSR matrix of a shape, which share memory."""
        last = (1 << PAIR_BITS) - 1
        for run in self.runs:
            classes = range(int(run.keys[-1] >> 2 * PAIR_BITS) + 1 if len(run.keys) else 0)
            for k in classes:
                edges = (np.arange(shape[0] + 1) + (k << PAIR_BITS)) << PAIR_BITS
                ends = np.searchsorted(run.keys, edges)
                own = slice(ends[0], ends[-1])
                if own.start < own.stop:
                    codes = (run.keys[own] & last).astype(np.int32)
                    rows = (ends - own.start).astype(np.int32)
                    yield k, sp.csr_array((run.weight[own], codes, rows), shape=shape)

    def map_keys(self, convert: Any) -> PairWeights:
        """Return the weights with other keys, given a function of class and both codes.

        Pairs whose class becomes negative are left out.
        """
        run, last = self.total(), (1 << PAIR_BITS) - 1
        k, i, j = convert(
            run.keys >> 2 * PAIR_BITS, (run.keys >> PAIR_BITS) & last, run.keys & last
        )
        there = k >= 0
        keys = pair_keys(k[there], i[there], j[there])
        return PairWeights((PairRun.of(keys, run.weight[there]),))


def pair_keys(k: Any, i: Any, j: Any) -> NDArray[np.int64]:
    """Return the keys of pairs of categories i and j of class k."""
    high = np.asarray(k, np.int64) << 2 * PAIR_BITS
    keys: NDArray[np.int64] = high | (np.asarray(i, np.int64) << PAIR_BITS) | np.asarray(j)
    return keys


@dataclass(eq=False)
class CategoryMoments:
    """Moments of the categories of B columns: a value that is added, subtracted and scaled."""

    origin: Vector  # (d,) of the sums of the features
    columns: tuple[CategoryColumn, ...]
    pairs: dict[tuple[int, int], PairWeights] = field(default_factory=dict)  # of columns a < b

    @classmethod
    def of(
        cls, X: Rows, index: Codes, classes: list[tuple[Codes, Vector]], origin: Vector
    ) -> CategoryMoments:
        """Return the moments of rows X (n, d), given the index (n, B) of their categories.

        ``classes`` are the rows of each class, and the weights (n,) that they enter with.
        """
        c, d, columns = len(classes), len(origin), []
        is_sparse = sp.issparse(X)
        for codes in index.T:
            found, local = rank_codes(codes)
            n, sums = np.zeros((c, len(found))), np.zeros((c, len(found), d))
            for k, (rows, weight) in enumerate(classes):
                if not len(rows):
                    continue
                if is_sparse:
                    _sum_sparse(n[k], sums[k], X[rows], local[rows], weight[rows], origin)
                else:
                    sum_rows(n[k], sums[k], X, rows, local, weight, origin)
            columns.append(CategoryColumn(n, sums, len(found), found))
        pairs = {}
        for a, b in pair_positions(index.shape[1]):
            both = (index[:, a] >= 0) & (index[:, b] >= 0)
            keys, weights = [np.zeros(0, np.int64)], [np.zeros(0)]
            for k, (rows, weight) in enumerate(classes):
                rows = rows[both[rows]]
                keys.append(pair_keys(np.full(len(rows), k), index[rows, a], index[rows, b]))
                weights.append(weight[rows])
            run = PairRun.of(np.concatenate(keys), np.concatenate(weights))
            pairs[a, b] = PairWeights((run,))
        return cls(origin.copy(), tuple(columns), pairs)

    @classmethod
    def empty(cls, c: int, origin: Vector, count: int) -> CategoryMoments:
        """Return the moments of no rows with this many columns."""
        columns = tuple(CategoryColumn.empty(c, len(origin)) for _ in range(count))
        return cls(origin.copy(), columns, dict.fromkeys(pair_positions(count), PairWeights()))

    @property
    def sizes(self) -> list[int]:
        """Number of codes of each column."""
        return [column.count for column in self.columns]

    def copy(self) -> CategoryMoments:
        """Return an independent copy."""
        columns = tuple(column.copy() for column in self.columns)
        return CategoryMoments(self.origin.copy(), columns, dict(self.pairs))

    def prepare_append(
        self, other: CategoryMoments, slot: Codes, origin: Vector, factor: Vector
    ) -> tuple[CategoryMoments, list[tuple[Any, ...]]]:
        """Return moments with all categories of two samples, and arguments of ``add_columns``.

        The classes are first scaled by factors (c,), and class j of the other is class ``slot[j]``
        here. The result has sums relative to ``origin`` and shares arrays with these moments.
        """
        base, steps = self, []
        if not np.array_equal(self.origin, origin):
            moved = tuple(one.move_origin(origin - self.origin) for one in self.columns)
            base = CategoryMoments(origin.copy(), moved, self.pairs)
        columns, shift = [], other.origin - base.origin
        for mine, theirs in zip(base.columns, other.columns, strict=True):
            grown, at = mine.with_codes(theirs.all_codes)
            columns.append(grown)
            more = theirs.n, theirs.sums, slot, at, shift
            steps.append((grown.stored_n, grown.stored_sums, *more, factor))
        pairs = {}
        for key, weights in other.pairs.items():
            is_same = np.array_equal(slot, np.arange(len(slot)))
            later = weights if is_same else weights.map_keys(lambda k, i, j: (slot[k], i, j))
            pairs[key] = base.pairs[key].scale(factor).append(later)
        return CategoryMoments(base.origin, tuple(columns), pairs), steps

    def scale(self, factor: Vector) -> CategoryMoments:
        """Return the moments with the weights of each class multiplied by a factor (c,)."""
        columns = tuple(
            one.map(lambda n: n * factor[:, None], lambda sums: sums * factor[:, None, None])
            for one in self.columns
        )
        pairs = {key: one.scale(factor) for key, one in self.pairs.items()}
        return CategoryMoments(self.origin, columns, pairs)

    def subtract(
        self, other: CategoryMoments, slots: dict[int, int], lightest: Vector, size: Matrix
    ) -> CategoryMoments:
        """Return the moments without the rows of another sample; raise if they were not learned.

        ``slots`` has the class here of each class there that has rows, ``lightest`` (c,) the
        smallest weight of a row of each class here, and ``size`` (c, d) the size of each feature.
        """
        columns, least = [], RESIDUAL_RTOL * lightest
        shift = other.origin - self.origin
        for mine, theirs in zip(self.columns, other.columns, strict=True):
            result, codes = mine.with_codes(theirs.all_codes)
            result = result.copy()
            for j, k in slots.items():
                before = result.n[k, codes]
                left = before - theirs.n[j]
                sums = result.sums[k, codes] - theirs.sums[j] - theirs.n[j][:, None] * shift
                rounding = np.minimum(ROUNDING_RTOL * before, 0.5 * lightest[k])
                rounding = np.maximum(rounding, least[k])
                if (left < -rounding).any():
                    raise UnknownRowsError(TOO_MANY, None)
                gone = left <= rounding
                if (np.abs(sums[gone]) > SUM_RTOL * before[gone, None] * size[k]).any():
                    raise UnknownRowsError(OTHER_ROWS, None)
                left[gone], sums[gone] = 0.0, 0.0
                result.stored_n[k, codes], result.stored_sums[k, codes] = left, sums
            columns.append(result)
        pairs = {}
        for key, weights in self.pairs.items():
            place = np.full(1 + max(slots, default=0), -1)
            place[list(slots)] = list(slots.values())
            gone_pairs = other.pairs[key].map_keys(lambda k, i, j, place=place: (place[k], i, j))
            negative = tuple(PairRun(run.keys, -run.weight) for run in gone_pairs.runs)
            run = PairWeights((*weights.runs, *negative)).total()
            total = sum(one.n.sum(axis=1) for one in self.columns)
            most = np.maximum(np.minimum(ROUNDING_RTOL * total, 0.5 * lightest), least)
            rounding = most[run.keys >> 2 * PAIR_BITS]
            if (run.weight < -rounding).any():
                raise UnknownRowsError(NOT_TOGETHER, None)
            there = run.weight > rounding
            pairs[key] = PairWeights((PairRun(run.keys[there], run.weight[there]),))
        return CategoryMoments(self.origin.copy(), tuple(columns), pairs)

    # Other classes, features and categories

    def select_codes(self) -> CategoryMoments:
        """Return the moments of the categories that have a weight."""
        columns = tuple(column.select_codes() for column in self.columns)
        return CategoryMoments(self.origin, columns, self.pairs)

    def renumber(self) -> CategoryMoments:
        """Return the moments in which the codes of a column of selected codes are 0, 1, 2, ..."""
        columns = tuple(replace(one, codes=None) for one in self.columns)
        place = [one.codes for one in self.columns]

        def at(b: int, codes: Any) -> Any:
            own = place[b]
            return codes if own is None else np.searchsorted(own, codes)

        pairs = {
            (a, b): one.map_keys(lambda k, i, j, a=a, b=b: (k, at(a, i), at(b, j)))
            for (a, b), one in self.pairs.items()
        }
        return CategoryMoments(self.origin, columns, pairs)

    def with_all_codes(self) -> CategoryMoments:
        """Return the moments with all codes from 0, to which others are appended quickly."""
        columns = tuple(one.resize(one.count) for one in self.columns)
        return CategoryMoments(self.origin, columns, self.pairs)

    def with_classes(self, c: int) -> CategoryMoments:
        """Return the moments with slots for c classes, the new ones without rows."""
        more = c - len(self.columns[0].n)
        columns = tuple(
            column.map(
                lambda n: np.pad(n, ((0, more), (0, 0))),
                lambda sums: np.pad(sums, ((0, more), (0, 0), (0, 0))),
            )
            for column in self.columns
        )
        return CategoryMoments(self.origin, columns, self.pairs)

    def select_classes(self, seen: NDArray[np.bool_]) -> CategoryMoments:
        """Return the moments of some of the classes (c,)."""
        columns = tuple(one.map(lambda n: n[seen], lambda sums: sums[seen]) for one in self.columns)
        place = np.where(seen, np.cumsum(seen) - 1, -1)
        pairs = {
            key: one.map_keys(lambda k, i, j: (place[k], i, j)) for key, one in self.pairs.items()
        }
        return CategoryMoments(self.origin.copy(), columns, pairs)

    def reindex_features(self, at: Codes, d: int, anchor: Vector) -> CategoryMoments:
        """Return the moments of d features, of which feature j is at[j]; the others were zero."""
        origin = anchor.copy()
        origin[at] = self.origin

        def widen(sums: Sums) -> Sums:
            result = np.zeros((*sums.shape[:2], d))
            result[..., at] = sums
            return result

        columns = []
        for column in self.columns:
            wider = column.map(np.copy, widen)
            new = np.setdiff1d(np.arange(d), at)
            wider.stored_sums[..., new] = -column.n[..., None] * origin[new]
            columns.append(wider)
        return CategoryMoments(origin, tuple(columns), self.pairs)

    def select_features(self, at: Codes) -> CategoryMoments:
        """Return the moments of these features alone."""
        columns = tuple(one.map(np.copy, lambda sums: sums[..., at]) for one in self.columns)
        return CategoryMoments(self.origin[at].copy(), columns, self.pairs)

    def transform_features(self, transform: Any, origin: Vector) -> CategoryMoments:
        """Return the moments of features that are a linear function of these, about an origin."""
        columns = tuple(one.map(lambda n: n, transform) for one in self.columns)
        return CategoryMoments(origin, columns, self.pairs)

    def reindex_codes(self, b: int, at: Codes, size: int) -> CategoryMoments:
        """Return the moments with category i of column b at code at[i] of ``size``.

        Categories with a negative code have no rows and are left out.
        """
        column, columns = self.columns[b], list(self.columns)
        if column.codes is None:
            column, left = column.resize(len(at)), at >= 0
            n = np.zeros((len(column.n), size))
            sums = np.zeros((len(column.n), size, len(self.origin)))
            n[:, at[left]], sums[:, at[left]] = column.n[:, left], column.sums[:, left]
            columns[b] = CategoryColumn(n, sums, size)
        else:
            codes = at[column.codes]
            order = np.argsort(codes)[np.count_nonzero(codes < 0) :]
            n, sums = column.n[:, order], column.sums[:, order]
            columns[b] = CategoryColumn(n, sums, len(order), codes[order])
        pairs = dict(self.pairs)
        for first, second in pairs:
            if b in (first, second):
                pairs[first, second] = pairs[first, second].map_keys(
                    lambda k, i, j, is_first=first == b: (
                        (k, at[i], j) if is_first else (k, i, at[j])
                    )
                )
        return CategoryMoments(self.origin, tuple(columns), pairs)

    def reindex_columns(self, at: Sequence[int], count: int) -> CategoryMoments:
        """Return the moments with column b at position at[b] of ``count``; the others are empty."""
        c = len(self.columns[0].n)
        result = CategoryMoments.empty(c, self.origin, count)
        columns = list(result.columns)
        for b, one in zip(at, self.columns, strict=True):
            columns[b] = one
        for (a, b), weights in self.pairs.items():
            if at[a] < at[b]:
                result.pairs[at[a], at[b]] = weights
            else:
                result.pairs[at[b], at[a]] = weights.map_keys(lambda k, i, j: (k, j, i))
        return CategoryMoments(result.origin, tuple(columns), result.pairs)

    def stacked_weights(self) -> Matrix:
        """Return the weight of each category in each class (c, K), one column after the other."""
        return np.concatenate([one.resize(one.count).n for one in self.columns], axis=1)

    def category_weights(self, b: int) -> Vector:
        """Return the weight of each category of a column over all classes, by code."""
        return np.asarray(self.columns[b].resize(self.columns[b].count).n.sum(axis=0))


def rank_codes(codes: Codes) -> tuple[Codes, Codes]:
    """Return the codes that occur, sorted, and the position (n,) of each code, −1 for none."""
    size = int(codes.max(initial=-1)) + 1
    if size > MAX_CODES_PER_ROW * len(codes):
        found, places = np.unique(codes, return_inverse=True)
        missing = int(found[0] < 0)
        return found[missing:], places - missing
    occurs = np.zeros(size + 1, dtype=bool)
    occurs[codes] = True  # at the end if none
    found = np.flatnonzero(occurs[:size])
    place = np.empty(size + 1, dtype=np.intp)
    place[found], place[size] = np.arange(len(found)), -1
    return found, place[codes]


def pair_positions(count: int) -> list[tuple[int, int]]:
    """Return the pairs a < b of this many columns."""
    return [(a, b) for b in range(count) for a in range(b)]


def _sum_sparse(
    n: Vector, sums: Matrix, X: Any, index: Codes, weight: Vector, origin: Vector
) -> None:
    """Add the weights and sums of CSR rows to those of their categories."""
    there = np.flatnonzero(index >= 0)
    shape = len(n), len(index)
    E = sp.csr_array((weight[there], (index[there], there)), shape=shape)
    counts: Counts = E.sum(axis=1)
    n += counts
    sums += (E @ X).toarray() - counts[:, None] * origin
