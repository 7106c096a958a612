"""From what was read of the columns to rows of features: a matrix, and who holds what.

Every function gets the features of an encoding as a dict from feature to column of the matrix. What
is not in it was never learned, and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from counterpoise.arrays import Counts, Flags, Matrix, Rows, Vector
from counterpoise.encoding.columns import Feature

Index = Mapping[Feature, int]
DENSE = ("number", "cycle", "missing")  # features of which most rows have something to say


class Parts(NamedTuple):
    """What was read of a chunk, column by column.

    Attributes
    ----------
    kept : ndarray of bool of shape (rows,)
        Rows that count.
    numeric : dict of str to ndarray of shape (rows,)
        Values of columns of numbers, and what takes their place where there is none.
    texts : dict of str to (list of Feature, ndarray of int)
        Features of the values of a column, and for each row that counts which of them, or −1.
    missing : dict of str to ndarray of bool of shape (rows,)
        Where a column has no value, if that is a feature of its own.
    without : dict of str to ndarray of bool of shape (rows,)
        Where a column of numbers has no value, or is not there.
    cycles : dict of Feature to ndarray of shape (rows,)
        Where dates are in the day, the week and the year, 0 where there is none.
    numbered : (list of Feature, ndarray of int, CSR matrix), optional
        Features that have numbers instead of names: they, their columns, and the rows that count.
    """

    kept: Flags
    numeric: dict[str, Vector]
    texts: dict[str, tuple[list[Feature], Any]]
    missing: dict[str, Flags]
    without: dict[str, Flags]
    cycles: dict[Feature, Vector]
    numbered: tuple[list[Feature], Any, Any] | None


def rows_of(parts: Parts, index: Index) -> tuple[Rows, dict[str, int]]:
    """Rows of features, dense if all are numbers; cells of unknown categories, by column."""
    kept, d = parts.kept, len(index)
    whole = bool(kept.all())
    n = len(kept) if whole else int(kept.sum())
    at: dict[int, Vector] = {}
    for name, x in parts.numeric.items():
        j = index.get(Feature(name, "number"))
        if j is not None:
            at[j] = x if whole else x[kept]
    for feature, x in parts.cycles.items():
        if feature in index:
            at[index[feature]] = x if whole else x[kept]
    if parts.numbered is None and not parts.texts and all(f.kind in DENSE for f in index):
        for name, gone in parts.missing.items():
            j = index.get(Feature(name, "missing"))
            if j is not None:
                at[j] = gone[kept].astype(np.float64)
        return _dense(at, n, d), {}
    unknown: dict[str, int] = {}
    indices: list[Any] = [np.full(n, j) for j in at]
    data: list[Any] = list(at.values())
    for name, (features, codes) in parts.texts.items():
        column = np.array([index.get(f, -1) for f in features] + [-1])[codes]
        strange = int(((column < 0) & (codes >= 0)).sum())
        if strange:
            unknown[name] = strange
        indices.append(column)
        data.append((column >= 0).astype(np.float64))
    for name, gone in parts.missing.items():
        j = index.get(Feature(name, "missing"))
        if j is not None:
            indices.append(np.where(gone[kept], j, -1))
            data.append(gone[kept].astype(np.float64))
    result = _sparse(indices, data, n, d)
    return (result if parts.numbered is None else result + _entries(parts, index, n)), unknown


def held(parts: Parts, index: Index) -> Counts:
    """Rows that have a value for each feature, all of which have a column."""
    result = np.zeros(len(index), dtype=np.int64)
    rows = int(parts.kept.sum())
    for name in parts.numeric:
        without = parts.without.get(name)
        there = rows if without is None else int((parts.kept & ~without).sum())
        result[index[Feature(name, "number")]] = there
        for feature in parts.cycles:
            if feature.column == name:
                result[index[feature]] = there
    for features, codes in parts.texts.values():
        counts = np.bincount(codes[codes >= 0], minlength=len(features))
        np.add.at(result, _places(features, index), counts)  # several values may share a bucket
    for name, gone in parts.missing.items():
        if gone.any():
            result[index[Feature(name, "missing")]] = int((gone & parts.kept).sum())
    if parts.numbered is not None:
        features, columns, X = parts.numbered
        at = np.searchsorted(columns, X.indices)
        at = at[np.append(columns, -1)[at] == X.indices]
        result[_places(features, index)] += np.bincount(at, minlength=len(features))
    return result


def _places(features: list[Feature], index: Index) -> Any:
    return np.array([index[feature] for feature in features], dtype=np.intp)


def _entries(parts: Parts, index: Index, n: int) -> Any:
    """Rows of the features that have numbers."""
    assert parts.numbered is not None
    features, columns, X = parts.numbered
    place = np.array([index.get(f, -1) for f in features] + [-1])
    at = np.searchsorted(columns, X.indices)
    found = np.append(columns, -1)[at] == X.indices
    column = np.where(found, place[at], -1)
    row = np.repeat(np.arange(n), np.diff(X.indptr))
    known = column >= 0
    return sp.csr_array((X.data[known], (row[known], column[known])), shape=(n, len(index)))


def _dense(at: dict[int, Vector], n: int, d: int) -> Matrix:
    """Columns side by side; one that is not there is zero."""
    if not d:
        return np.zeros((n, 0))
    zero = np.zeros(n)
    return np.column_stack([at.get(j, zero) for j in range(d)])


def _sparse(indices: list[Any], data: list[Any], n: int, d: int) -> Any:
    """CSR matrix of columns given as an index (−1 for none) and a value for each row."""
    if not indices:
        return sp.csr_array((n, d))
    index, value = np.column_stack(indices), np.column_stack(data)
    order = np.argsort(index, axis=1, kind="stable")
    index, value = np.take_along_axis(index, order, 1), np.take_along_axis(value, order, 1)
    there = index >= 0
    indptr = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    return sp.csr_array((value[there], index[there], indptr), shape=(n, d))
