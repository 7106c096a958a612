"""Rows become sums: dense ones about a centre near their mean, sparse ones as they are.

:func:`fill` does it for all classes. :func:`dense` and :func:`sparse` fill in, for one class that
had seen nothing, the mean about the anchor, the scatter, the weight of
the rows in which a feature is not 0, and not 1, and the row hashes, and return its weight.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from counterpoise.arrays import Matrix, Rows, Vector
from counterpoise.moments._moments import (
    gather,
    hash_sparse,
    place_products,
    places,
    recentre,
    room_to_gather,
    weigh,
)
from counterpoise.moments.downdate import UNTRACKED_HASH

if TYPE_CHECKING:
    from counterpoise.moments.moments import Moments


# Nanoseconds of sparse and dense rows, as benchmarks/speed/bulk.py measures them.
DENSE, PAIR, PASSES, CALLS = 0.025, 3.0, 6.5, 1e6
MAX_CACHED_ONES = (
    1 << 16
)  # rows of chunks whose weights of 1 are kept for the next chunk of that length
MIN_ROWS_FOR_OWN_ANCHOR = 3  # rows of a chunk whose means need no anchor of their own
MAX_AGE_HALF_LIVES = 600.0  # rows this many half-lives old weigh nothing: 2**-600


def fill(
    result: Any,
    X: Rows,
    rows_of: list[NDArray[np.intp]],
    given: Vector | None,
    lives: Vector | None,
    lasting: bool,
) -> None:
    """Moments of rows grouped by class, into moments that have seen nothing. Shapes: X (n, d),
    given (n,), lives (c,).
    """
    weight = _ones(X.shape[0]) if given is None else given
    even = given is None and lives is None
    of_class = dense if isinstance(X, np.ndarray) else sparse
    block = max(1024, 2**23 // X.shape[1])  # rows at a time: about 64 MB
    entering = [(rows, weight) for rows in rows_of]
    if lives is not None:
        entering = [
            _faded(rows, weight, life) if len(rows) and life < np.inf else (rows, weight)
            for rows, life in zip(rows_of, lives.tolist(), strict=True)
        ]
    for k, (rows, omega) in enumerate(entering):
        for i in range(0, len(rows), block):
            part, slot = (result, k) if i == 0 else (result.empty_class(k), 0)
            mine, sums = (
                rows[i : i + block],
                (part.mean[slot], part.C[slot], part.nonconstant_weight[slot]),
            )
            row_hashes = part.row_hashes[slot] if lasting else None
            n = of_class(X, mine, omega, result.anchor, *sums, row_hashes)
            part.n[slot] = part.N[slot] = n
            if even:  # a count of rows is exact
                part.min_row_weight[slot] = 1.0
            else:
                part.weight_remainder[slot], part.min_row_weight[slot] = weigh(mine, omega, n)
            part.max_scatter[slot] = np.maximum(part.C[slot].diagonal(), 0.0)
            if not lasting:
                part.row_hashes[slot] = UNTRACKED_HASH
            if i:
                result += part
    if lives is not None:
        result.N[:] = [weight[rows].sum() for rows in rows_of]
    result.stream[:] = result.N.sum()
    if lives is not None:
        _class_stream_weights(rows_of, weight, lives, result)
    if X.shape[0] > MIN_ROWS_FOR_OWN_ANCHOR:
        _recenter(result, X, entering, block)


def _recenter(
    result: Moments, X: Rows, entering: list[tuple[NDArray[np.intp], Vector]], block: int
) -> None:
    """Move the anchor where the means of these rows have left it, and find the means anew.

    Scatters are about means of their own, so that they know no anchor.
    """
    place = places(result)
    if place is None:
        return
    moved = np.flatnonzero(place != result.anchor)
    result.anchor[moved] = place[moved]
    for k, (rows, omega) in enumerate(entering):
        total = np.zeros(len(moved))
        for i in range(0, len(rows), block):
            mine = rows[i : i + block]
            part = X[mine][:, moved]
            part = part.toarray() if sp.issparse(part) else part
            total += omega[mine] @ (part - place[moved])
        if len(rows):
            result.mean[k, moved] = total / result.n[k]


def dense(
    X: Matrix,
    rows: NDArray[np.intp],
    weight: Vector,
    anchor: Vector,
    mean: Vector,
    C: Matrix,
    nonconstant_weight: Matrix,
    row_hashes: NDArray[np.uint64] | None,
) -> float:
    """Dense rows.

    They are centred on the mean of every 64th of them, or of 256 at least. Where that is far from
    their own mean, for rows can conspire and weights differ, all of them are asked.

    Shapes: X (n, d), rows (m,), weight (n,), anchor (d,), mean, C, nonconstant_weight (d,),
    row_hashes (2, 1 + d).
    """
    d = X.shape[1]
    work, about = np.empty(room_to_gather(d, len(rows))), np.empty(d)
    sample = max(1, min(64, len(rows) // 256))
    n = gather(
        X, rows, weight, anchor, sample, work, about, mean, C, nonconstant_weight, row_hashes
    )
    if len(rows) == 1:
        C[:] = 0.0
    elif not recentre(n, about, C, False):
        nonconstant_weight[:] = 0.0
        n = gather(X, rows, weight, anchor, 1, work, about, mean, C, nonconstant_weight, None)
        recentre(n, about, C, True)
    return n


def sparse(
    X: Any,
    rows: NDArray[np.intp],
    weight: Vector,
    anchor: Vector,
    mean: Vector,
    C: Matrix,
    nonconstant_weight: Matrix,
    row_hashes: NDArray[np.uint64] | None,
) -> float:
    """CSR rows: columns mostly filled are treated as dense, the others as they are, if that pays.

    A column of which a share p ≤ 1/2 of the weight is not zero has n μ² ≤ p Σ ω x², so that
    Σ ω x² − n μ² loses at most one bit; only fuller columns need to be centred first.

    Shapes: X (n, d).
    """
    X, weight = X[rows], weight[rows]
    if row_hashes is not None:
        hash_sparse(X.data, X.indices, X.indptr, weight, row_hashes)
    if _dense_is_faster(X):
        return dense(
            X.toarray(), np.arange(len(rows)), weight, anchor, mean, C, nonconstant_weight, None
        )
    n = float(weight.sum())
    by_entry = np.repeat(weight, np.diff(X.indptr)) * (X.data != 0)
    filled = 2.0 * np.bincount(X.indices, by_entry, minlength=X.shape[1]) > n
    full, thin = np.flatnonzero(filled), np.flatnonzero(~filled)

    S = X[:, thin]
    WS = sp.diags_array(weight, format="csr") @ S
    mu = np.asarray(WS.sum(axis=0)).ravel() / n
    mean[thin] = mu - anchor[thin]
    nonconstant_weight[0, thin] = weight @ (S != 0)
    nonconstant_weight[1, thin] = n - weight @ (S == 1)
    place_products((S.T @ WS).toarray(), n, mu, thin, C)

    if full.size:
        D = X[:, full].toarray()
        k = len(full)
        mean_D, C_DD, weight_D = np.empty(k), np.zeros((k, k)), np.zeros((2, k))
        dense(D, np.arange(len(rows)), weight, anchor[full], mean_D, C_DD, weight_D, None)
        mean[full], nonconstant_weight[:, full] = mean_D, weight_D
        D -= anchor[full]
        D -= mean_D
        # Σ ω (D − mean) is only zero up to rounding, hence the second term.
        cross = WS.T @ D - np.outer(mu, weight @ D)
        C[np.ix_(full, full)] = C_DD
        C[np.ix_(thin, full)] = cross
        C[np.ix_(full, thin)] = cross.T
    return n


def _dense_is_faster(X: Any) -> bool:
    """Whether it is quicker to fill the zeros in, by what benchmarks/speed/bulk.py measured.

    A dense row costs d² products of a processor's full speed, a sparse one as many as it has pairs
    of entries, at a hundredth of that speed, and all of them together some passes over the scatter.
    """
    m, d = X.shape
    pairs = float((np.diff(X.indptr).astype(np.float64) ** 2).sum())
    return bool(DENSE * m * d**2 < PAIR * pairs + PASSES * d**2 + CALLS)


def _ones(n: int) -> Vector:
    """Weights of rows that have none, which nobody may write to if they are few."""
    return _kept_ones(n) if n <= MAX_CACHED_ONES else np.ones(n)


@lru_cache(maxsize=8)
def _kept_ones(n: int) -> Vector:
    result = np.ones(n)
    result.flags.writeable = False
    return result


def _faded(
    rows: NDArray[np.intp], weight: Vector, half_life: float
) -> tuple[NDArray[np.intp], Vector]:
    """Rows of one class that still weigh something, and the weights of all rows after fading.

    With γ = 2^(−1/half_life) a row enters with (1 − γ^ω)/(1 − γ) and then fades by γ for each
    unit of weight that its class receives after it.
    """
    later = np.cumsum(weight[rows][::-1])[::-1]
    age = np.append(later[1:], 0.0) / half_life
    rows, age = rows[age <= MAX_AGE_HALF_LIVES], age[age <= MAX_AGE_HALF_LIVES]
    rate = -np.log(2.0) / half_life
    faded = np.zeros_like(weight)
    faded[rows] = np.expm1(rate * weight[rows]) / np.expm1(rate) * 2.0**-age
    return rows, faded


def _class_stream_weights(
    rows_of: list[NDArray[np.intp]], weight: Vector, lives: Vector, result: Moments
) -> None:
    """Weight of the stream of each class: rows of all classes, faded by its own rows after them."""
    everything = np.zeros(len(weight))
    for rows in rows_of:
        everything[rows] = weight[rows]
    so_far = np.append(0.0, np.cumsum(everything))
    for k, rows in enumerate(rows_of):
        if not len(rows):
            continue
        own = weight[rows]
        later = np.cumsum(own[::-1])[::-1]  # of this class, from each of its rows on
        others = so_far[rows] - np.append(0.0, so_far[rows[:-1] + 1])  # since the one before
        faded = np.maximum(others, 0.0) @ 2.0 ** (-later / lives[k])
        result.stream[k] = faded + result.n[k] + (so_far[-1] - so_far[rows[-1] + 1])
