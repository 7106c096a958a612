"""Several classes told apart at once, by what each of them looks like: discriminants.

Class k is taken to be normal about its mean with the covariance

    Σ_k = (n_k S_k + ν W)/(n_k + ν) + (b/a) I,      W = Σ_k a_k S_k / a

in scaled units, where S_k is its own covariance, W that of all classes together and ν the number
of rows of pooled evidence. With ν infinite all share W, the squares of x cancel, and boundaries
are linear: with two classes these are the weights of balanced least squares, up to a factor, and
with more no class is hidden behind others, as it is where each is set against the rest. What a
class is worth by its costs is a prior: one that is worth twice as much counts as if it were twice
as frequent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from counterpoise.arrays import Flags, Matrix, Vector
from counterpoise.exact.classes import Classes
from counterpoise.exact.moments import EPS, Moments
from counterpoise.exact.options import Options
from counterpoise.exact.scaling import affine
from counterpoise.exact.solution import Linear, Quadratic
from counterpoise.exact.solve import System, cholesky, unit_diagonal, warn_of_collinear, within
from counterpoise.exact.weighting import priors, shares

ALIKE = 1e-8  # of the distances between means: less is rounding


@dataclass(frozen=True, eq=False)
class Pool:
    """Classes that share a covariance, in scaled units about their centre.

    Attributes
    ----------
    moments : Moments
        What was seen.
    m, s : ndarray of shape (d,)
        Shift (relative to the anchor) and divisor of the scaling.
    a : ndarray of shape (slots,)
        Weight of each class in W; 0 for a slot that is none of them.
    slots : ndarray of int of shape (c,)
        Where the classes are, in the order of the scores.
    prior : ndarray of shape (c,)
        Logarithms of what they are worth.
    intercept : "penalized", "free" or "none"
        Whether scores have constants, which follow from the means.
    """

    moments: Moments
    m: Vector
    s: Vector
    a: Vector
    slots: NDArray[np.intp]
    prior: Vector
    intercept: str

    @property
    def total(self) -> float:
        """a: the weight of all classes."""
        return float(self.a.sum())

    @cached_property
    def centre(self) -> Vector:
        """Where linear scores are constants: the weighted mean, or the origin of scaled units."""
        return self.m if self.intercept == "none" else self.a @ self.moments.mean / self.total

    @cached_property
    def delta(self) -> Matrix:
        """Mean of each class about the centre, in scaled units."""
        return (self.moments.mean[self.slots] - self.centre) / self.s

    @classmethod
    def of(cls, moments: Moments, classes: Classes, options: Options) -> Pool:
        """The classes that were seen, as they are asked to be told apart."""
        slots, a = classes.slots[classes.seen], np.zeros(len(moments.n))
        labels, N = moments.labels[slots], moments.N[slots]
        a[slots] = shares(N, options.class_weight)
        prior = priors(labels, N, options.class_weight, options.costs)
        m, s = affine(moments, options.scale)
        return cls(moments, m, s, a, slots, prior, options.intercept)

    def K(self) -> Matrix:
        """aW; a new array."""
        return within(self.moments, self.a, self.s)

    def against_rest(self) -> System:
        """Least squares for each class on 1, and −1 for the others, with the weights of these."""
        y = np.zeros((len(self.slots), len(self.a)))
        y[:, self.slots] = 2.0 * np.eye(len(self.slots)) - 1.0
        return System(self.moments, self.m, self.s, self.a, y, self.intercept)


def linear(pool: Pool, b: float) -> Linear:
    """Scores δ_k·Σ⁻¹ζ − δ_k·Σ⁻¹δ_k/2 + log prior, with one covariance for all.

    Where b is too small to be felt, directions in which no class varies count as if the least b
    that is felt had been asked for, and those in which the means agree as well not at all.
    """
    K, e = unit_diagonal(pool.K(), b)
    factor = cholesky(K)
    if factor is None:
        warn_of_collinear(b)
        lam, V = np.linalg.eigh(K)
        least = len(lam) * EPS * max(lam[-1], 1.0)
        delta = pool.delta / e @ V
        # Along what does not vary within classes their means are apart, or there is nothing at all.
        null = lam <= least
        if np.abs(delta[:, null]).max(initial=0.0) <= ALIKE * np.abs(delta).max(initial=0.0):
            delta[:, null] = 0.0
        solved = delta / np.maximum(lam, least) @ V.T
    else:
        solved = lapack.dpotrs(factor, (pool.delta / e).T, lower=1)[0].T
    return _linear(pool, pool.total * solved / e, b)


def _linear(pool: Pool, w: Matrix, b: float) -> Linear:
    coef = w / pool.s
    offset = -(coef @ pool.centre)
    if pool.intercept != "none":
        offset += pool.prior - 0.5 * np.einsum("kj,kj->k", w, pool.delta)
    return Linear(pool.moments.anchor.copy(), coef, offset, b)


def scatters(pool: Pool, nu: float) -> Iterator[Matrix]:
    """aΣ_k without the ridge of each class, with so many rows of pooled evidence; new arrays."""
    moments, s = pool.moments, pool.s
    shared = pool.K() if nu else np.zeros((len(s), len(s)))
    for slot in pool.slots:
        own = 1.0 / (moments.n[slot] + nu)
        yield (own * pool.total / s) * moments.C[slot] / s[:, None] + nu * own * shared


def quadratic(pool: Pool, b: float, nu: float, seen: Flags) -> Quadratic:
    """Logarithms of the densities, each class with a covariance of its own."""
    moments, s, a = pool.moments, pool.s, pool.total
    root = np.empty((len(pool.slots), len(s), len(s)))
    offset = pool.prior.copy()
    warned = False
    for k, K in enumerate(scatters(pool, nu)):
        K, e = unit_diagonal(K, b)
        factor = cholesky(K)
        if factor is None:
            if not warned:
                warn_of_collinear(b)
            warned = True
            lam, V = np.linalg.eigh(K)
            lam = np.maximum(lam, len(lam) * EPS * max(lam[-1], 1.0))
            inverse, half = V / np.sqrt(lam), 0.5 * np.log(lam).sum()
        else:
            half = np.log(np.diagonal(factor)).sum()
            inverse = np.triu(lapack.dtrtri(factor, lower=1)[0].T)
        # Σ = K/a: its root is that of K over √a, its determinant that of K over a^d.
        root[k] = inverse * (np.sqrt(a) / (e * s))[:, None]
        offset[k] -= half + np.log(e).sum() - 0.5 * len(s) * np.log(a)
    return Quadratic(moments.anchor.copy(), moments.mean[pool.slots], root, offset, seen, b)
