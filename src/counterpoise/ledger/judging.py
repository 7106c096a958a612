"""How good scores are on rows of which only sums are known.

The squared loss is exact: over the rows of class k, whose target is y_k,

    E_k[(y_k − f)²] = (y_k − f(μ_k))² + wᵀ S_k w

The G-mean is an estimate: it takes the scores of a class as normal, with their exact mean f(μ_k)
and their exact variance wᵀ S_k w.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from counterpoise.arrays import Matrix, Vector
from counterpoise.exact.weighting import targets
from counterpoise.ledger.series import Series
from counterpoise.ledger.solving import Lines

DRAWS = 512  # of normal scores of several classes


@dataclass(frozen=True, eq=False)
class Verdict:
    """What scores are worth on sets of rows.

    Attributes
    ----------
    n : ndarray of shape (g, c)
        Weight of the rows of each class.
    loss : ndarray of shape (g, c)
        Mean squared loss of each class, exact; NaN where there is no row or no model.
    recall : ndarray of shape (g, c)
        Estimated recall of each class.
    """

    n: Matrix
    loss: Matrix
    recall: Matrix

    @property
    def balanced(self) -> Vector:
        """Mean of the losses of the classes of each set; NaN if one has no row."""
        mean: Vector = self.loss.mean(axis=1)
        return mean

    @property
    def g_mean(self) -> Vector:
        """Estimated geometric mean of the recalls of each set; NaN if a class has no row."""
        with np.errstate(divide="ignore"):
            found: Vector = np.exp(np.log(self.recall).mean(axis=1))
        return found

    def pooled(self) -> tuple[float, float]:
        """Balanced loss and estimated G-mean of the rows of all sets together."""
        known = np.isfinite(self.loss)
        n = np.where(known, self.n, 0.0)
        total = n.sum(axis=0)
        if not (total > 0).all():
            return np.nan, np.nan
        loss = np.where(known, self.loss, 0.0)
        recall = np.where(known, self.recall, 0.0)
        by_class = (n * recall).sum(axis=0) / total
        with np.errstate(divide="ignore"):
            g_mean = np.exp(np.log(by_class).mean())
        return float(((n * loss).sum(axis=0) / total).mean()), float(g_mean)


def judged(lines: Lines, series: Series) -> Verdict:
    """What the scores of each set are worth on the rows of the same set of a series.

    Both have the same anchor.
    """
    c = len(series.labels)
    y = targets(c)
    at, spread = scores(lines, series)
    loss = ((y - at.swapaxes(1, 2)) ** 2 + np.einsum("gcqq->gqc", spread)).mean(axis=1)
    recall = _two(at, spread) if c == 2 else _several(at, spread)
    none = ~lines.known[:, None] | (series.n <= 0)
    return Verdict(series.n, np.where(none, np.nan, loss), np.where(none, np.nan, recall))


def scores(lines: Lines, series: Series) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Means (g, c, q) and covariances (g, c, q, q) of the scores of the rows of each class."""
    at = lines.offset[:, None] + np.einsum("gqd,gcd->gcq", lines.coef, series.mean)
    spread = np.empty((*at.shape, at.shape[2]))
    for block in series.blocks():
        S = series.at(block).covariances()
        w = lines.coef[block]
        spread[block] = np.einsum("gqi,gcij,grj->gcqr", w, S, w, optimize=True)
    return at, spread


def _two(at: NDArray[np.float64], spread: NDArray[np.float64]) -> Matrix:
    """Recalls of two classes: the second is predicted above 0."""
    sigma = np.sqrt(np.maximum(spread[..., 0, 0], 0.0))
    side = at[..., 0] * [-1.0, 1.0]
    certain = np.where(side > 0, 1.0, 0.0)
    recall: Matrix = np.where(sigma > 0, ndtr(side / np.where(sigma > 0, sigma, 1.0)), certain)
    return recall


def _several(at: NDArray[np.float64], spread: NDArray[np.float64]) -> Matrix:
    """Recalls of several classes: the largest score wins, in the same normal draws for all."""
    g, c, q = at.shape
    Z = np.random.default_rng(0).standard_normal((DRAWS, q))
    recall = np.empty((g, c))
    lam, V = np.linalg.eigh(np.nan_to_num(spread))
    root = V * np.sqrt(np.maximum(lam, 0.0))[..., None, :]
    for k in range(c):
        drawn = at[:, k, None] + np.einsum("gij,mj->gmi", root[:, k], Z)
        recall[:, k] = (drawn.argmax(axis=2) == k).mean(axis=1)
    return recall
