"""Sums of rows: of dense ones about a centre near their mean, of sparse ones as they are.

:func:`fill` computes them for all classes. :func:`dense` and :func:`sparse` write the sums of one
class (its mean about the anchor, scatter, ``nonconstant_weight`` and ``row_hashes``) and return its
weight.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from counterpoise.arrays import Matrix, Rows, Vector
from counterpoise.moments._moments import best_anchors, hash_sparse, weigh
from counterpoise.moments._sparse import add_products
from counterpoise.moments._sums import gather, recentre, sum_about, workspace_size
from counterpoise.moments.downdate import UNTRACKED_HASH

if TYPE_CHECKING:
    from counterpoise.moments.moments import Moments


# Nanoseconds of a product of dense values, of a pair of sparse values, of an entry of the scatter
# and of a call, as benchmarks/speed/bulk.py measures them.
NS_PER_PRODUCT, NS_PER_PAIR, NS_PER_ENTRY, NS_PER_CALL = 0.025, 1.0, 0.5, 3e5
MAX_CACHED_ONES = 1 << 16  # weights of 1 that are kept for the next chunk of that length
MAX_ROWS_WITHOUT_ANCHOR = 3  # rows of a chunk whose means need no anchor of their own
MAX_AGE_HALF_LIVES = 600.0  # older rows have no weight: 2**-600


def fill(
    result: Any,
    X: Rows,
    rows_of: list[NDArray[np.intp]],
    given: Vector | None,
    lives: Vector | None,
    lasting: bool,
) -> list[tuple[NDArray[np.intp], Vector]]:
    """Write moments of rows X (n, d), grouped by class, into those of no rows.

    Return the rows of each class that count, and the weights (n,) that they enter with.
    """
    weight = given
    if weight is None:
        rows = X.shape[0]
        weight = _cached_ones(rows) if rows <= MAX_CACHED_ONES else np.ones(rows)
    even = given is None and lives is None
    of_class = dense if isinstance(X, np.ndarray) else sparse
    block = max(1024, 2**23 // X.shape[1])  # rows at a time: about 64 MB
    entering = list(zip(rows_of, repeat(weight), strict=False))
    if lives is not None:
        entering = [
            _decay_rows(rows, weight, life) if len(rows) and life < np.inf else (rows, weight)
            for rows, life in zip(rows_of, lives.tolist(), strict=True)
        ]
    scatters = result.C
    for k, (rows, omega) in enumerate(entering):
        for i in range(0, len(rows), block):
            part, slot = (result, k) if i == 0 else (result.empty_class(k), 0)
            mine = rows[i : i + block]
            C = (scatters if i == 0 else part.C)[slot]
            sums = part.mean[slot], C, part.nonconstant_weight[slot]
            row_hashes = part.row_hashes[slot] if lasting else None
            n = of_class(X, mine, omega, result.anchor, *sums, row_hashes)
            part.n[slot] = part.N[slot] = n
            if even:  # a count of rows is exact
                part.min_row_weight[slot] = 1.0
            else:
                part.weight_remainder[slot], part.min_row_weight[slot] = weigh(mine, omega, n)
            part.max_scatter[slot] = np.maximum(C.diagonal(), 0.0)
            if not lasting:
                part.row_hashes[slot] = UNTRACKED_HASH
            if i:
                result += part
    if lives is not None:
        result.N[:] = [weight[rows].sum() for rows in rows_of]
    result.stream[:] = np.add.reduce(result.N)
    if lives is not None:
        _class_stream_weights(rows_of, weight, lives, result)
    if X.shape[0] > MAX_ROWS_WITHOUT_ANCHOR:
        _recenter(result, X, entering, block)
    return entering


def _recenter(
    result: Moments, X: Rows, entering: list[tuple[NDArray[np.intp], Vector]], block: int
) -> None:
    """Move the anchor where the means of these rows are far from it, and compute them again.

    Scatters are about means of their own and do not depend on the anchor.
    """
    place = best_anchors(result)
    if place is None:
        return
    moved = np.flatnonzero(place != result.anchor)
    result.anchor[moved] = place[moved]
    for k, (rows, omega) in enumerate(entering):
        if not len(rows):
            continue
        total = np.zeros(len(moved))
        if isinstance(X, np.ndarray):
            total = sum_about(X, rows, omega, place)[moved]
        else:
            for i in range(0, len(rows), block):
                mine = rows[i : i + block]
                total += omega[mine] @ (X[mine][:, moved].toarray() - place[moved])
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
    """Sum dense rows.

    They are centered on the mean of every 64th row, or of at least 256. If this mean is far from
    the mean of all rows, because of their order or weights, they are centered on the latter.
    """
    d = X.shape[1]
    work, about = np.empty(workspace_size(d, len(rows))), np.empty(d)
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
    """Sum CSR rows as they are, or as dense ones if that is faster."""
    X, weight = X[rows], weight[rows]
    if row_hashes is not None:
        hash_sparse(X.data, X.indices, X.indptr, weight, row_hashes)
    if dense_is_faster(X):
        return dense(
            X.toarray(), np.arange(len(rows)), weight, anchor, mean, C, nonconstant_weight, None
        )
    n, part = _products(X, weight, anchor, mean, nonconstant_weight)
    add_products([(0, part, np.zeros(X.shape[1]))], C[None])
    np.fill_diagonal(C, part.squares - part.u**2)
    return n


class Products(NamedTuple):
    """Weighted, sorted CSR rows R (m, d) of one class, also by column, with scatter RᵀR − uuᵀ."""

    data: Vector
    at: NDArray[np.intp]
    start: NDArray[np.intp]
    column: Vector
    row: NDArray[np.intp]
    first: NDArray[np.intp]
    u: Vector

    @property
    def squares(self) -> Vector:
        """Diagonal (d,) of RᵀR."""
        return np.asarray(np.bincount(self.at, self.data**2, len(self.u)), dtype=np.float64)

    @property
    def size(self) -> int:
        """Bytes of all arrays."""
        return sum(one.nbytes for one in self)


def _products(
    X: Any, weight: Vector, anchor: Vector, mean: Vector, nonconstant_weight: Matrix
) -> tuple[float, Products]:
    """Return the weight and the products of CSR rows; write their mean and nonconstant weights.

    A column of which a share p ≤ 1/2 of the weight is not zero has n μ² ≤ p Σ ω x², so that
    Σ ω x² − n μ² loses at most one bit; only fuller columns are centered first.
    """
    (m, d), n = X.shape, float(weight.sum())
    by_entry = np.repeat(weight, np.diff(X.indptr))
    nonconstant_weight[0] = np.bincount(X.indices, by_entry * (X.data != 0.0), d)
    nonconstant_weight[1] = n - np.bincount(X.indices, by_entry * (X.data == 1.0), d)
    filled = 2.0 * nonconstant_weight[0] > n
    full = np.flatnonzero(filled)
    mean[:] = -anchor
    if full.size:
        D = X[:, full].toarray()
        centre = weight @ D / n
        D -= centre
        mean[full] += centre
        X = sp.csr_array((np.where(filled[X.indices], 0.0, X.data), X.indices, X.indptr), X.shape)
        ends = np.arange(0, D.size + 1, full.size)
        X = X + sp.csr_array((D.ravel(), np.tile(full, m), ends), (m, d))
        by_entry = np.repeat(weight, np.diff(X.indptr))
    mu = np.bincount(X.indices, by_entry * X.data, d) / n
    mean += mu
    R = sp.csr_array((X.data * np.sqrt(by_entry), X.indices, X.indptr), X.shape)
    R = R if R.has_sorted_indices else R.sorted_indices()
    columns = R.tocsc()
    places = (R.indices, R.indptr, columns.indices, columns.indptr)
    at, start, row, first = (one.astype(np.intp, copy=False) for one in places)
    return n, Products(R.data, at, start, columns.data, row, first, np.sqrt(n) * mu)


def fill_parts(result: Any, X: Any, rows_of: list[NDArray[np.intp]], given: Vector | None) -> None:
    """Write moments of CSR rows X (n, d), grouped by class, into a chunk without scatters."""
    weight = np.ones(X.shape[0]) if given is None else given
    for k, rows in enumerate(rows_of):
        if not len(rows):
            continue
        part, w = X[rows], weight[rows]
        hash_sparse(part.data, part.indices, part.indptr, w, result.row_hashes[k])
        sums = result.anchor, result.mean[k], result.nonconstant_weight[k]
        result.n[k], result.parts[k] = _products(part, w, *sums)
        result.N[k] = result.n[k]
        result.weight_remainder[k], result.min_row_weight[k] = weigh(rows, weight, result.n[k])
        result.u[k], result.squares[k] = result.parts[k].u, result.parts[k].squares
        result.diagonal[k] = result.squares[k] - result.u[k] ** 2
        result.max_scatter[k] = np.maximum(result.diagonal[k], 0.0)
    result.stream[:] = np.add.reduce(result.N)
    if X.shape[0] > MAX_ROWS_WITHOUT_ANCHOR:
        _recenter(result, X, [(rows, weight) for rows in rows_of], max(X.shape[0], 1))


def dense_is_faster(X: Any) -> bool:
    """Return whether dense rows are faster: d² products per row, instead of pairs of entries."""
    m, d = X.shape
    pairs = float((np.diff(X.indptr).astype(np.float64) ** 2).sum())
    dense_ns = NS_PER_PRODUCT * m * d**2
    return bool(dense_ns < NS_PER_PAIR * pairs + NS_PER_ENTRY * d**2 + NS_PER_CALL)


@lru_cache(maxsize=8)
def _cached_ones(n: int) -> Vector:
    result = np.ones(n)
    result.flags.writeable = False
    return result


def _decay_rows(
    rows: NDArray[np.intp], weight: Vector, half_life: float
) -> tuple[NDArray[np.intp], Vector]:
    """Return the rows of a class that still have a weight, and the decayed weights of all rows.

    With γ = 2^(−1/half_life) a row enters with (1 − γ^ω)/(1 − γ) and then decays by γ for each
    unit of weight that its class receives after it.
    """
    later = np.cumsum(weight[rows][::-1])[::-1]
    age = np.append(later[1:], 0.0) / half_life
    rows, age = rows[age <= MAX_AGE_HALF_LIVES], age[age <= MAX_AGE_HALF_LIVES]
    rate = -np.log(2.0) / half_life
    decayed = np.zeros_like(weight)
    decayed[rows] = np.expm1(rate * weight[rows]) / np.expm1(rate) * 2.0**-age
    return rows, decayed


def _class_stream_weights(
    rows_of: list[NDArray[np.intp]], weight: Vector, lives: Vector, result: Moments
) -> None:
    """Write the weight of the rows of all classes, decayed by the later rows of each class."""
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
        decayed = np.maximum(others, 0.0) @ 2.0 ** (-later / lives[k])
        result.stream[k] = decayed + result.n[k] + (so_far[-1] - so_far[rows[-1] + 1])
