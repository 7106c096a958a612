"""Cross-fitting: calibration of a whole sample that does not depend on the order of its rows.

Rows of each class are sorted by a hash of their contents and dealt to five folds in turn, one unit
of weight at a time: a row of weight 2 is dealt like two equal rows. Each fold is scored by the
model of the four others, whose moments add up. Equal rows are interchangeable, so that the order of
rows changes nothing except rounding, and there is no seed.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from counterpoise.arrays import Matrix, Rows, Vector
from counterpoise.exact.calibration import Calibration
from counterpoise.exact.filling import Fill
from counterpoise.exact.limits import require_room
from counterpoise.exact.moments import Moments
from counterpoise.exact.options import Options
from counterpoise.exact.progressive_calibration import counts_of
from counterpoise.exact.scores import Scores

if TYPE_CHECKING:
    from counterpoise.exact.state import Batch, State

FOLDS = 5
MIN_ROWS = 16  # fewer do not calibrate anything
MIN_SHARE = 1e-9  # of a row in a fold; less is rounding
HASH_VALUES = 2**18  # that are hashed in one step
MIX = np.uint64(0xBF58476D1CE4E5B9)
Hashes = NDArray[np.uint64]
Batches = Callable[[], Iterable["Batch"]]


def cross_fit(
    state: State, batches: Batches, names: Sequence[Any], options: Options, limit: float
) -> Calibration:
    """Return counts of the rows of a State, each scored by a model without its fold.

    Parameters
    ----------
    state : State
        A model that has learned these rows and no others; it stays as it is.
    batches : callable
        Gives the rows again and again, in the same order.
    names : sequence
        Names of the features, or their positions.
    options : Options
        How moments are solved.
    limit : float
        Bytes that the moments of all folds may take.

    Returns
    -------
    Calibration
    """
    parts = [_hashed(batch, names, state.fill) for batch in batches()]
    y, hashes, weight = (np.concatenate(list(one)) for one in zip(*parts, strict=True))
    found = Calibration.empty()
    if weight.sum() < MIN_ROWS:
        return found
    fold = _deal(y, hashes, weight)
    moments = state.moments
    require_room((FOLDS + 2) * len(moments.n), len(moments.anchor), limit, state.fixed is not None)
    sums: list[Moments | None] = [None] * FOLDS
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # predictions warn
        for k, part in _parts(batches(), fold):
            chunk = state.gathered(part, limit)
            mine = sums[k]
            sums[k] = chunk if mine is None else mine.follow(chunk)
        models = [_without(state, sums, k, options) for k in range(FOLDS)]
        for k, part in _parts(batches(), fold):
            scores = models[k]
            if scores is not None:
                f = scores.of(part.X)
                found = found.merged(counts_of(scores, f, part.y, part.weight))
    return found


def _parts(batches: Iterable[Batch], fold: Matrix) -> Iterator[tuple[int, Batch]]:
    """Yield the rows of each batch by fold, with their weights (n, folds) in it."""
    at = 0
    for batch in batches:
        n = len(batch.y)
        for k in range(FOLDS):
            weight = fold[at : at + n, k]
            rows = np.flatnonzero(weight)
            if len(rows):
                yield k, replace(batch.part(rows), weight=weight[rows])
        at += n


def _without(
    state: State, sums: Sequence[Moments | None], k: int, options: Options
) -> Scores | None:
    """Return scores by all folds except one; None if two classes are missing."""
    rest: Moments | None = None
    for one in (*sums[:k], *sums[k + 1 :]):
        if one is not None:
            rest = one.copy() if rest is None else rest.follow(one)
    return None if rest is None else state.scores_by(rest, options)


def _deal(y: NDArray[Any], hashes: Hashes, weight: Vector) -> Matrix:
    """Return the weight of each row in each fold, (n, folds).

    Rows of a class are in the order of their hashes. A row that begins at the weight c and ends at
    the weight e has the units from c to e. Unit j belongs to fold j modulo the number of folds.
    """
    _, codes = np.unique(y if y.dtype != object else y.astype(str), return_inverse=True)
    result = np.zeros((len(y), FOLDS))
    for k in range(int(codes.max()) + 1):
        mine = np.flatnonzero(codes == k)
        mine = mine[np.argsort(hashes[mine], kind="stable")]
        end = np.cumsum(weight[mine])
        unit = min(1.0, float(end[-1]) / 2.0) or 1.0  # at least two folds
        edges = np.concatenate([[0.0], end / unit])
        whole, rest = np.divmod(edges, FOLDS)
        before = whole[:, None] + np.clip(rest[:, None] - np.arange(FOLDS), 0.0, 1.0)
        result[mine] = unit * np.diff(before, axis=0)
    result[result < MIN_SHARE * weight[:, None]] = 0.0
    return result


def _hashed(
    batch: Batch, names: Sequence[Any], fill: Fill | None
) -> tuple[NDArray[Any], Hashes, Vector]:
    """Return labels, hashes and weights (n,) of rows; a feature that is 0 does not count."""
    digests = [hashlib.blake2b(repr(name).encode(), digest_size=8).digest() for name in names]
    keys = np.frombuffer(b"".join(digests), dtype="<u8") | np.uint64(1)
    X, n, d = batch.X, len(batch.y), len(names)
    hashes = np.empty(n, dtype=np.uint64)
    step = max(1, HASH_VALUES // max(d, 1))
    for start in range(0, n, step):
        hashes[start : start + step] = _row_hashes(X[start : start + step], keys, fill)
    weight = np.ones(n) if batch.weight is None else batch.weight.astype(np.float64)
    return batch.y, hashes, weight


def _row_hashes(X: Rows, keys: Hashes, fill: Fill | None) -> Hashes:
    """Return the sum of the hashes of all values of each row, modulo 2^64."""
    if sp.issparse(X):
        if fill is not None:
            return _row_hashes(X.toarray(), keys, fill)
        ends = np.zeros(len(X.data) + 1, dtype=np.uint64)
        np.cumsum(_mixed(X.data, keys[X.indices]), out=ends[1:])
        hashes: Hashes = ends[X.indptr[1:]] - ends[X.indptr[:-1]]
        return hashes
    if fill is not None:
        X = _as_seen(X, fill)
    total: Hashes = _mixed(X, keys).sum(axis=1, dtype=np.uint64)
    return total


def _as_seen(X: NDArray[np.float64], fill: Fill) -> NDArray[np.float64]:
    """Return rows with values as they came, without constants that depend on the order of rows."""
    X = X.copy()
    for at, by, base, present in zip(
        fill.at.tolist(), fill.by.tolist(), fill.base.tolist(), fill.present.tolist(), strict=True
    ):
        there = (X[:, by] != 0.0) == present
        value = X[:, at] + base if present else X[:, at]
        X[:, at] = np.where(there, np.float32(value), 0.0)
    return X


def _mixed(values: NDArray[np.float64], keys: Hashes | np.uint64) -> Hashes:
    """Return a hash of each value with its key; 0 has the hash 0."""
    bits = (values + 0.0).view(np.uint64)
    bits = (bits ^ (bits >> np.uint64(32))) * keys
    bits = (bits ^ (bits >> np.uint64(29))) * MIX
    mixed: Hashes = bits ^ (bits >> np.uint64(32))
    return mixed
