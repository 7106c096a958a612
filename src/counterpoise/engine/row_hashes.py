"""Hashes of rows: orders and folds that depend on the contents of rows alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Rows, Vector, is_sparse, to_dense
from counterpoise.solver.imputation import MeanImputation

SEED = 0x9E3779B97F4A7C15
MIX = np.uint64(0xBF58476D1CE4E5B9)
VALUES_PER_STEP = 2**18
Hashes = NDArray[np.uint64]


def row_order(X: Rows, y: Labels, weight: Vector | None) -> NDArray[np.intp]:
    """Return the positions of rows X (n, l) in the order of their hashes; equal rows are mixed."""
    _, code = np.unique(y, return_inverse=True)
    keys = _mix(np.arange(1, X.shape[1] + 1, dtype=np.uint64) * np.uint64(SEED))
    hashes = _sum_hashes(X, keys, _hash_by_position)
    hashes = _mix(hashes + _mix(code.astype(np.uint64) + np.uint64(SEED)))
    if weight is not None:
        hashes = _mix(hashes + _mix(_bits(weight)))
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    repeat = np.arange(len(y)) - np.searchsorted(ordered, ordered)
    hashes[order] = _mix(ordered + repeat.astype(np.uint64) * np.uint64(SEED))
    return np.argsort(hashes, kind="stable")


def named_hashes(
    X: Rows,
    names: Sequence[Any],
    fill: MeanImputation | None,
    categories: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Hashes:
    """Return hashes (n,) of rows that do not depend on the order of the features.

    The last columns of X are codes of ``categories``, given by the name of the column.
    """
    d, keys = len(names), _hash_texts(map(repr, names)) | np.uint64(1)
    if not categories:
        return _sum_hashes(X, keys, _hash_by_name, fill)
    result, codes = _sum_hashes(X[:, :d], keys, _hash_by_name, fill), X[:, d:]
    codes = to_dense(codes).astype(np.intp)
    for (name, values), own in zip(categories.items(), codes.T, strict=True):
        hashes = _hash_texts(f"{name}={value}" for value in values)
        result += np.append(np.uint64(0), hashes)[own]
    return result


def _hash_texts(texts: Iterable[str]) -> Hashes:
    """Return a hash of each text."""
    digests = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts]
    return np.frombuffer(b"".join(digests), dtype="<u8").astype(np.uint64)


def _sum_hashes(
    X: Rows,
    keys: Hashes,
    hash_values: Callable[[NDArray[np.float64], Hashes], Hashes],
    fill: MeanImputation | None = None,
) -> Hashes:
    """Return the sum of the hashes of the values of each row, modulo 2^64; 0 has the hash 0.

    Dense and sparse rows of the same values have the same hashes.
    """
    n, result = X.shape[0], np.empty(X.shape[0], dtype=np.uint64)
    step = max(1, VALUES_PER_STEP // max(len(keys), 1))
    for start in range(0, n, step):
        part = X[start : start + step]
        if fill is not None:
            part = _as_seen(part.toarray() if is_sparse(part) else part.copy(), fill)
        if is_sparse(part):
            ends = np.zeros(len(part.data) + 1, dtype=np.uint64)
            values = np.asarray(part.data, dtype=np.float64)
            np.cumsum(hash_values(values, keys[part.indices]), out=ends[1:])
            result[start : start + step] = ends[part.indptr[1:]] - ends[part.indptr[:-1]]
        else:
            result[start : start + step] = hash_values(part, keys).sum(axis=1, dtype=np.uint64)
    return result


def _as_seen(X: NDArray[np.float64], fill: MeanImputation) -> NDArray[np.float64]:
    """Change rows to values as they came, without constants that depend on the order of rows."""
    for at, by, base, present in zip(
        fill.at.tolist(), fill.by.tolist(), fill.base.tolist(), fill.present.tolist(), strict=True
    ):
        there = (X[:, by] != 0.0) == present
        value = X[:, at] + base if present else X[:, at]
        X[:, at] = np.where(there, np.float32(value), 0.0)
    return X


def _hash_by_position(values: NDArray[np.float64], keys: Hashes) -> Hashes:
    """Return a hash of each value with the key of its position."""
    bits = _bits(values)
    return np.where(bits == 0, np.uint64(0), _mix(bits ^ keys))


def _hash_by_name(values: NDArray[np.float64], keys: Hashes) -> Hashes:
    """Return a hash of each value with the odd key of its name."""
    bits = _bits(values)
    bits = (bits ^ (bits >> np.uint64(32))) * keys
    bits = (bits ^ (bits >> np.uint64(29))) * MIX
    mixed: Hashes = bits ^ (bits >> np.uint64(32))
    return mixed


def _bits(values: NDArray[np.float64]) -> Hashes:
    """Return the bits of numbers, where −0 is 0."""
    return np.ascontiguousarray(values + 0.0).view(np.uint64)


def _mix(z: Hashes) -> Hashes:
    """Return the finalizer of SplitMix64 of each number (Steele, Lea and Flood, 2014)."""
    z = (z ^ (z >> np.uint64(30))) * MIX
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
