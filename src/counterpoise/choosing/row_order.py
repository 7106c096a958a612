"""A seeded random order of rows that depends on their contents alone.

Rows are sorted by a 64-bit hash of their values, label and weight. Equal rows are numbered first,
and the number is part of the hash, so that they do not follow each other. Whatever is computed from
rows in this order does not depend on the order in which they were given.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Rows, Vector

SEED = 0x9E3779B97F4A7C15
ROWS_PER_SLICE = 8192
Hashes = NDArray[np.uint64]


def row_order(X: Rows, y: Labels, weight: Vector | None) -> NDArray[np.intp]:
    """Return the positions of rows X (n, l) in the order of their hashes.

    Dense and sparse rows of the same values have the same order.
    """
    _, code = np.unique(y, return_inverse=True)
    hashes = _mix(_hash_values(X) + _mix(code.astype(np.uint64) + np.uint64(SEED)))
    if weight is not None:
        hashes = _mix(hashes + _mix(_bits(weight)))
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    repeat = np.arange(len(y)) - np.searchsorted(ordered, ordered)
    hashes[order] = _mix(ordered + repeat.astype(np.uint64) * np.uint64(SEED))
    return np.argsort(hashes, kind="stable")


def _hash_values(X: Rows) -> Hashes:
    """Return the sum of the hashes of the values of each row that are not 0."""
    n, features = X.shape
    keys = _mix(np.arange(1, features + 1, dtype=np.uint64) * np.uint64(SEED))
    if sp.issparse(X):
        each = _hash_cells(np.asarray(X.data, dtype=np.float64), keys[X.indices])
        total = np.concatenate([np.zeros(1, np.uint64), np.cumsum(each, dtype=np.uint64)])
        sparse: Hashes = total[X.indptr[1:]] - total[X.indptr[:-1]]
        return sparse
    result = np.empty(n, np.uint64)
    for start in range(0, n, ROWS_PER_SLICE):
        part = slice(start, start + ROWS_PER_SLICE)
        result[part] = _hash_cells(X[part], keys).sum(axis=1, dtype=np.uint64)
    return result


def _hash_cells(values: NDArray[np.float64], keys: Hashes) -> Hashes:
    """Return a hash of each value with the key of its feature; that of 0 is 0."""
    bits = _bits(values)
    return np.where(bits == 0, np.uint64(0), _mix(bits ^ keys))


def _bits(values: NDArray[np.float64]) -> Hashes:
    """Return the bits of numbers, where −0 is 0."""
    return np.ascontiguousarray(values + 0.0).view(np.uint64)


def _mix(z: Hashes) -> Hashes:
    """Return the finalizer of SplitMix64 of each number (Steele, Lea and Flood, 2014)."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
