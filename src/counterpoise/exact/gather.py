"""Moments of rows of one class: dense ones about a centre near their mean, sparse ones as they are.

Both functions fill in, for a class that had seen nothing, the mean about the anchor, the scatter
and ``away`` (weight of the rows in which a feature is not 0, and not 1), and return its weight.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from counterpoise.arrays import Matrix, Vector
from counterpoise.exact._moments import gather, place_products, recentre

# Nanoseconds of sparse and dense rows, as benchmarks/sparse.py measures them.
DENSE, PAIR, PASSES, CALLS = 0.025, 3.0, 6.5, 1e6


def dense(
    X: Matrix,
    rows: NDArray[np.intp],
    weight: Vector,
    anchor: Vector,
    mean: Vector,
    C: Matrix,
    away: Matrix,
) -> float:
    """Dense rows.

    They are centred on the mean of every 64th of them, or of 256 at least. Where that is far from
    their own mean, for rows can conspire and weights differ, all of them are asked.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        All rows.
    rows : ndarray of shape (m,)
        Those of this class.
    weight : ndarray of shape (n,)
        Weight of each row.
    anchor : ndarray of shape (d,)
        What the mean is relative to.
    mean, C, away : ndarray of shape (d,), (d, d), (2, d)
        Filled in.

    Returns
    -------
    float
    """
    R, about = np.empty((len(rows), X.shape[1])), np.empty(X.shape[1])
    sample = max(1, min(64, len(rows) // 256))
    n = gather(X, rows, weight, anchor, sample, about, R, mean, away)
    if len(rows) == 1:
        return n
    np.matmul(R.T, R, out=C)
    if not recentre(n, about, C):
        away[:] = 0.0
        n = gather(X, rows, weight, anchor, 1, about, R, mean, away)
        np.matmul(R.T, R, out=C)
        C -= n * np.outer(about, about)
    return n


def sparse(
    X: Any,
    rows: NDArray[np.intp],
    weight: Vector,
    anchor: Vector,
    mean: Vector,
    C: Matrix,
    away: Matrix,
) -> float:
    """CSR rows: columns mostly filled are treated as dense, the others as they are, if that pays.

    A column of which a share p ≤ 1/2 of the weight is not zero has n μ² ≤ p Σ ω x², so that
    Σ ω x² − n μ² loses at most one bit; only fuller columns need to be centred first.

    Parameters
    ----------
    X : CSR matrix of shape (n, d)
        All rows, with one entry a place.
    rows, weight, anchor, mean, C, away
        As for :func:`dense`.

    Returns
    -------
    float
    """
    X, weight = X[rows], weight[rows]
    if _filled_pays(X):
        return dense(X.toarray(), np.arange(len(rows)), weight, anchor, mean, C, away)
    n = float(weight.sum())
    by_entry = np.repeat(weight, np.diff(X.indptr)) * (X.data != 0)
    filled = 2.0 * np.bincount(X.indices, by_entry, minlength=X.shape[1]) > n
    full, thin = np.flatnonzero(filled), np.flatnonzero(~filled)

    S = X[:, thin]
    WS = sp.diags_array(weight, format="csr") @ S
    mu = np.asarray(WS.sum(axis=0)).ravel() / n
    mean[thin] = mu - anchor[thin]
    away[0, thin] = weight @ (S != 0)
    away[1, thin] = n - weight @ (S == 1)
    place_products((S.T @ WS).toarray(), n, mu, thin, C)

    if full.size:
        D = X[:, full].toarray()
        k = len(full)
        mean_D, C_DD, away_D = np.empty(k), np.zeros((k, k)), np.zeros((2, k))
        dense(D, np.arange(len(rows)), weight, anchor[full], mean_D, C_DD, away_D)
        mean[full], away[:, full] = mean_D, away_D
        D -= anchor[full]
        D -= mean_D
        # Σ ω (D − mean) is only zero up to rounding, hence the second term.
        cross = WS.T @ D - np.outer(mu, weight @ D)
        C[np.ix_(full, full)] = C_DD
        C[np.ix_(thin, full)] = cross
        C[np.ix_(full, thin)] = cross.T
    return n


def _filled_pays(X: Any) -> bool:
    """Whether it is quicker to fill the zeros in, by what benchmarks/sparse.py measured.

    A dense row costs d² products of a processor's full speed, a sparse one as many as it has pairs
    of entries, at a hundredth of that speed, and all of them together some passes over the scatter.
    """
    m, d = X.shape
    pairs = float((np.diff(X.indptr).astype(np.float64) ** 2).sum())
    return bool(DENSE * m * d**2 < PAIR * pairs + PASSES * d**2 + CALLS)
