"""From moments and class weights to coefficients.

With f(x) = w_0 + w·(x − m)/s the coefficients minimize

    Σ_k a_k E_k[(y_k − f)²] + b (w_0² + ‖w‖²)

where E_k is the mean over class k and a_k its total weight. About the weighted mean of the
classes the constant and the other features are orthogonal: with f = t + w·ζ and
ζ = (x − centre)/s the data alone require

    a t = Σ a_k y_k,      K w = z,      K = Σ a_k E_k[ζζᵀ],      z = Σ a_k y_k E_k[ζ]

and w_0 = t − h·w = q·[t, w], with h = (centre − m)/s and q = [1, −h], is penalized by one more
rank-one term, p q qᵀ, added by the formula of Sherman and Morrison: p = b if the constant is
penalized like any other coefficient, 0 if it is free, infinite if there is none. Nothing large is
ever subtracted, however far from zero the features are.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Flags, Matrix, Vector
from counterpoise.moments._cholesky import (
    factorize,
    invert_factorized,
    invert_triangle,
    reciprocal_condition,
    solve_factorized,
)
from counterpoise.moments.classes import Classes
from counterpoise.moments.moments import EPS, Moments
from counterpoise.solver.class_weights import affine, covariance_weights, priors
from counterpoise.solver.options import Options
from counterpoise.solver.score_functions import LinearScores, QuadraticScores

LOSS_RTOL = 1e-12  # of a loss: its rounding is a thousandth of that
# Degrees of freedom of a class, over its rows, that a trusted criterion leaves.
MIN_RESIDUAL_DOF_FRACTION = 0.5
RIDGE_PRIOR_ROWS = (
    3.0  # rows that the decaying ridge is equal to (benchmarks/proofs/comparisons.py)
)
MAX_LEVERAGE = 1.0 - 1e-6  # leverage of a row at most

Batch = NDArray[np.float64]  # an array with a leading axis of problems


def within_class_scatter(n: Vector, C: Batch, a: Vector, s: Vector) -> Matrix:
    """Return Σ a_k C_k/n_k (..., d, d) in scaled units, a new array.

    n and a have the shape (..., c), C (..., c, d, d) and s (..., d).
    """
    alpha = np.divide(a, n, out=np.zeros(a.shape), where=n > 0)
    d = C.shape[-1]
    K: Matrix = alpha[..., None, :] @ C.reshape(*C.shape[:-2], d * d)
    K = K.reshape(*alpha.shape[:-1], d, d)
    K /= s[..., None, :]
    K /= s[..., :, None]
    return K


@dataclass(frozen=True, eq=False)
class RidgeSystems:
    """Normal equations of g ridge problems, each in scaled units about its own centre.

    What all problems share may have a leading axis of length 1.
    """

    anchor: Vector  # (d,) origin of the means
    intercept: str  # penalty of the constant
    n: Matrix  # (g, c) count, mean (g, c, d) and scatter (g, c, d, d) of each class
    mean: Batch
    C: Batch
    m: Matrix  # (g, d) shift (relative to the anchor) and divisor of the scaling
    s: Matrix
    a: Matrix  # (g, c) total weight of each class; 0 for a class that is not in the problem
    y: Batch  # (g, q, c) targets of each class; the q rows of targets of a problem share all else

    @classmethod
    def of(
        cls, moments: Moments, m: Vector, s: Vector, a: Matrix, y: Batch, intercept: str
    ) -> RidgeSystems:
        """Return the problems of weights a (g, c) and targets y (g, q, c) of the same moments."""
        shared = moments.n[None], moments.mean[None], moments.C[None], m[None], s[None]
        return cls(moments.anchor, intercept, *shared, a, y)

    def __iter__(self) -> Iterator[RidgeSystems]:
        """Yield each problem alone, with a leading axis of length 1."""
        each = self.n, self.mean, self.C, self.m, self.s, self.a, self.y
        if len(self.a) == 1:
            yield self
            return
        for i in range(len(self.a)):
            own = (one if len(one) == 1 else one[i : i + 1] for one in each)
            yield RidgeSystems(self.anchor, self.intercept, *own)

    @cached_property
    def total(self) -> Vector:
        """Weight a of all classes, of shape (g,)."""
        return np.asarray(self.a.sum(axis=1))

    @cached_property
    def centre(self) -> Matrix:
        """Weighted mean of the classes (g, d): the constant is orthogonal to the features there."""
        return np.asarray((self.a[:, None] @ self.mean)[:, 0] / self.total[:, None])

    @cached_property
    def delta(self) -> Batch:
        """Mean of each class about the centre, in scaled units, of shape (g, c, d)."""
        return (self.mean - self.centre[:, None]) / self.s[:, None]

    def varies(self) -> Flags:
        """Return the features (d,) of which a second moment, or a product with it, is not 0."""
        within = np.einsum("...jj->...j", self.C)
        moved = (self.a[..., None] * ((within > 0.0) | (self.delta != 0.0))).any(axis=(0, 1))
        live: Flags = moved | (self.h != 0.0).any(axis=0)
        live[0] |= not live.any()
        return live

    def first(self, width: int) -> RidgeSystems:
        """Return the problems of the first features, whose arrays are views."""
        if width == len(self.anchor):
            return self
        mean, m, s = (one[..., :width] for one in (self.mean, self.m, self.s))
        C, anchor = self.C[..., :width, :width], self.anchor[:width]
        return RidgeSystems(anchor, self.intercept, self.n, mean, C, m, s, self.a, self.y)

    def K(self) -> Batch:
        """Return second moments (g, d, d) about the centre, without the ridge; a new array."""
        K = within_class_scatter(self.n, self.C, self.a, self.s)
        K += (self.a[..., None] * self.delta).swapaxes(1, 2) @ self.delta
        return K

    @cached_property
    def z(self) -> Batch:
        """First moments of target times features, of shape (g, q, d)."""
        return (self.a[:, None] * self.y) @ self.delta

    @cached_property
    def h(self) -> Matrix:
        """Centre relative to the shift of the scaling, of shape (g, d)."""
        return (self.centre - self.m) / self.s

    @cached_property
    def t(self) -> Matrix:
        """Values of f at the centre if the constant were free, of shape (g, q)."""
        return (self.y @ self.a[..., None])[..., 0] * (1.0 / self.total)[:, None]

    def rank_one(self, b: Any, norm: Any) -> Any:
        """Return p/(1 + p q·R⁻¹q), where p is the penalty of the constant and norm is q·R⁻¹q."""
        if self.intercept == "free":
            return 0.0 * norm
        return b / (1.0 + b * norm) if self.intercept == "penalized" else 1.0 / norm

    def solve(self, ridge: float | Vector) -> tuple[Batch, Matrix]:
        """Minimize all problems together: coefficients (g, q, d) and scores at the anchor (g, q).

        ``ridge`` is b ≥ 0, or one for each problem. Where b is too small to have an effect and a
        problem has many solutions, take the limit as b tends to 0, the shortest, with a warning.
        """
        b = np.zeros(len(self.a)) + ridge
        K, e = unit_diagonal(self.K(), b)
        found = np.concatenate([self.z, self.h[:, None]], axis=1) / e[:, None]
        norms, singular = np.abs(K).sum(axis=1).max(axis=1), []
        for i, (one, norm) in enumerate(zip(K, norms.tolist(), strict=True)):
            factor = cholesky(one, norm)
            if factor is None:
                singular.append(i)
            else:
                found[i] = solve_factorized(factor, found[i])
        found /= e[:, None]
        Kz, Kh, h, share = found[:, :-1], found[:, -1:], self.h[..., None], 1.0 / self.total
        # [t, w] − R⁻¹q (q·[t, w]) p / (1 + p q·R⁻¹q),   R⁻¹q = [1/a, −Kh]
        pull = self.rank_one(b, share + (Kh @ h)[:, 0, 0])[:, None]
        step = pull * (self.t - (Kz @ h)[..., 0])
        t, w = self.t - step * share[:, None], Kz + step[..., None] * Kh
        for i in singular:
            for q in range(self.y.shape[1]):
                t[i, q], w[i, q] = self._minimum_norm(i, q, float(b[i]), K[i], e[i])
        coef = w / self.s[:, None]
        return coef, t - np.einsum("gqj,gj->gq", coef, self.centre)

    def scores(self, ridge: float) -> LinearScores:
        """Solve each problem in turn, and return the scores of all."""
        coef, offset = map(np.concatenate, zip(*(one.solve(ridge) for one in self), strict=True))
        d = len(self.anchor)
        return LinearScores(self.anchor.copy(), coef.reshape(-1, d), offset.ravel(), ridge)

    def _minimum_norm(self, i: int, q: int, b: float, K: Matrix, e: Vector) -> tuple[float, Vector]:
        """Return the limit as b tends to 0 of a problem with many solutions."""
        warn_collinear(b)
        lam, V = np.linalg.eigh(K)
        null = lam <= len(lam) * EPS * max(lam[-1], 0.0)
        V, lam = V / e[:, None], np.where(null, 1.0, lam)
        inverse = V[:, ~null] / lam[~null] @ V[:, ~null].T
        w, t, h, share = inverse @ self.z[i, q], self.t[i, q], self.h[i], 1.0 / self.total[i]
        # Along null directions N the fit does not change, but the length of w and w_0 = t − h·w do.
        N = np.linalg.qr(V[:, null])[0]
        w -= N @ (N.T @ w)
        w_0, hN = t - h @ w, h @ N
        hN *= hN @ hN > 1e-16 * (1.0 + h @ h)
        if self.intercept == "free":
            return t, w
        # Sherman and Morrison again, where R⁻¹ is 1/b along N: (inverse h) b/base and N hN/base.
        norm = share + h @ inverse @ h
        base = b * norm + hN @ hN + (self.intercept == "penalized")
        step, along = (w_0 * b / base, w_0 / base) if base > 0 else (w_0 / norm, 0.0)
        return t - step * share, w + step * inverse @ h + along * N @ hN

    def path(self) -> RidgePath:
        """Return the solutions of the only problem for every ridge."""
        return RidgePath(self)

    def standard_errors(self, coef: Matrix, offset: Vector, b: float) -> Matrix:
        """Return standard errors (g, d) of coefficients (g, d) that have scores (g,) at the anchor.

        The sandwich R⁻¹ (Σ a_k²/n_k cov_k) R⁻¹, where cov_k is the covariance of φ (y − f) over a
        class with normal features.
        """
        each = zip(self, coef, offset, strict=True)
        return np.stack([one._errors(w, at_anchor, b) for one, w, at_anchor in each])

    def _errors(self, coef: Vector, offset: float, b: float) -> Vector:
        s, h, d = self.s[0], self.h[0], len(self.anchor)
        has_constant = self.intercept != "none"
        # About the centre a constant is orthogonal to the features; without one, use the origin.
        place = self.centre[0] if has_constant else self.m[0]
        w = np.append(offset + coef @ place, coef * s)
        R = np.zeros((d + 1, d + 1))
        R[0, 0], R[1:, 1:] = self.total[0], self.K()[0]
        R.flat[d + 2 :: d + 2] += b
        if self.intercept == "penalized":
            q = np.append(1.0, -h)
            R += b * np.outer(q, q)
        elif not has_constant:
            R[1:, 1:] += self.total[0] * np.outer(h, h)
        middle = np.zeros_like(R)
        for k in np.flatnonzero(self.a[0] > 0).tolist():
            n, S = float(self.n[0, k]), np.zeros_like(R)
            S[1:, 1:] = self.C[0, k] / s / s[:, None] / (n - 1.0)
            mean = np.append(1.0, (self.mean[0, k] - place) / s)
            c = -S @ w
            variance, e = float(-c @ w), float(self.y[0, 0, k] - mean @ w)
            of_class = (variance + e * e) * S + np.outer(c, c) + variance * np.outer(mean, mean)
            of_class += e * (np.outer(mean, c) + np.outer(c, mean))
            middle += self.a[0, k] ** 2 / n * of_class
        if not has_constant:
            R, middle = R[1:, 1:], middle[1:, 1:]
        scale = np.sqrt(np.maximum(np.diagonal(R), 1e-300))
        scaled = R / scale / scale[:, None]
        inverse = np.linalg.pinv(scaled, hermitian=True) / scale / scale[:, None]
        covariance = inverse @ middle @ inverse
        errors: Vector = np.sqrt(np.maximum(np.diagonal(covariance)[-d:], 0.0)) / s
        return errors


def unit_diagonal(K: Batch, b: Any) -> tuple[Batch, Batch]:
    """Divide K + bI (..., d, d) by the roots of its diagonal, so that units have no effect.

    K itself is changed; the roots (..., d) come second. b is a number, or has the shape (...).
    """
    diagonal = np.einsum("...ii->...i", K)
    diagonal += np.asarray(b)[..., None]
    e = np.sqrt(np.maximum(diagonal, 0.0))
    e[e == 0.0] = 1.0
    K /= e[..., None, :]
    K /= e[..., :, None]
    return K, e


def cholesky(K: Matrix, norm: float | None = None) -> Matrix | None:
    """Return the lower factor of a symmetric matrix, given its 1-norm; None if it is singular."""
    factor = factorize(K)
    norm = np.abs(K).sum(axis=0).max() if norm is None else norm
    if factor is None or reciprocal_condition(factor, norm) < len(K) * EPS:
        return None
    return factor


def inflation(K: Matrix, b: float) -> Vector:
    """Return the diagonal of (K + bI)⁻¹ (d,): the effect of a relative error of each feature.

    It is 1 over the second moment for a feature that no other resembles. K is overwritten.
    """
    K, e = unit_diagonal(K, b)
    factor = factorize(K)
    if factor is None:
        return np.full(len(e), np.inf)
    diagonal: Vector = np.diagonal(invert_factorized(factor)) / e**2
    return diagonal


def warn_collinear(b: float) -> None:
    """Warn that there are many solutions."""
    warnings.warn(
        f"the features are collinear and ridge={b:g} is too small to separate their coefficients; "
        "using the minimum-norm solution. Increase ridge for a unique one.",
        UserWarning,
        stacklevel=3,
    )


def decaying_ridge(a: Vector, n: Vector) -> Vector:
    """Return the ridge (...) that decays as rows arrive, given weights and counts (..., c).

    It is equal to RIDGE_PRIOR_ROWS rows of each direction. The variance of a weighted mean of
    class covariances is the variance of one covariance of 1/Σ (a_k/a)²/n_k rows, and b/a is
    RIDGE_PRIOR_ROWS over that. For classes that are not balanced it is RIDGE_PRIOR_ROWS itself,
    scikit-learn's ``alpha``. A class counts as at least one row.
    """
    ridge: Vector = RIDGE_PRIOR_ROWS * ((a * a / np.maximum(n, 1.0)).sum(axis=-1) / a.sum(axis=-1))
    return ridge


def eigen(K: Matrix, more: Flags | None = None) -> tuple[Vector, Matrix]:
    """Return eigenvalues (l,) of a second moment, not negative, and eigenvectors (d, l).

    Features that do not vary have none, except for those among ``more``: landmarks without a row
    take no time.
    """
    live = np.diagonal(K) > 0.0
    if more is not None:
        live |= more
    live[0] |= not live.any()
    if live.all():
        lam, V = np.linalg.eigh(K)
    else:
        lam, some = np.linalg.eigh(K[np.ix_(live, live)])
        V = np.zeros((len(K), len(lam)))
        V[live] = some
    return np.maximum(lam, 0.0), V


class RidgePath:
    """Solutions of one problem for every ridge, from one eigendecomposition.

    ``lam`` (l,) are the eigenvalues, ``V`` (d, l) the eigenvectors, and ``size`` is the mean second
    moment of the features that vary: others, such as those of unlearned rows, must not count.
    """

    def __init__(self, systems: RidgeSystems) -> None:
        (self.a,), (self.y,), (self.n,), (self.C,) = systems.a, systems.y, systems.n, systems.C
        (self.s,), (self.centre,), (self.delta,) = systems.s, systems.centre, systems.delta
        self.rank_one, self.share, (self.t,) = systems.rank_one, 1.0 / systems.total[0], systems.t
        (K,) = systems.K()
        K_jj = np.diagonal(K)
        varying = int((K_jj > 1e-30 * K_jj.max(initial=0.0)).sum())
        self.lam, self.V = eigen(K, systems.h[0] != 0.0)
        self.size = float(self.lam.sum()) / max(varying, 1)
        self.z, self.h = systems.z[0] @ self.V, systems.h[0] @ self.V

    def coefficients(self, b: Vector) -> tuple[Batch, Matrix]:
        """Return coefficients (q, r, d) and scores at the anchor (q, r) for r positive ridges."""
        t, w = self.solve_rotated(b)
        coef = w @ self.V.T / self.s
        return coef, t - coef @ self.centre

    def solve_rotated(self, b: Vector) -> tuple[Matrix, Batch]:
        """Return values at the centre (q, r) and scaled coefficients (q, r, l) along ``V``."""
        inverse = 1.0 / (self.lam + b[:, None])
        w, t = inverse * self.z[:, None], self.t[:, None]
        step = self.rank_one(b, self.norm(inverse)) * (t - w @ self.h)
        return t - step * self.share, w + step[..., None] * inverse * self.h

    def norm(self, inverse: Matrix) -> Vector:
        """Return q·R⁻¹q."""
        q: Vector = self.share + inverse @ self.h**2
        return q

    def gcv(self, b: Vector) -> tuple[Vector, Vector]:
        """Return generalized cross-validation (r,), class by class, and its rounding error (r,).

        GCV(b) = Σ_k a_k E_k[(y_k − f)²] / (1 − t_k/n_k)² with t_k = tr(R⁻¹ a_k E_k[φφᵀ]), the
        degrees of freedom that class k uses; infinite where t_k ≥ n_k/2. With more features than
        rows, loss and remaining freedom vanish together: the model interpolates its rows, and the
        ratio has no meaning. The rounding error is an upper limit.
        """
        t, w = self.solve_rotated(b)
        inverse = 1.0 / (self.lam + b[:, None])
        u = inverse * self.h  # R⁻¹q = [share, −u]
        score, blur = np.zeros(len(b)), np.zeros(len(b))
        D = self.V / self.s[:, None]
        # Below 1e-8 the rounding of the loss, 1e-16, would count as much as a loss of 1; and the
        # rounding of eigenvalues that should be zero counts the more the smaller b is.
        least = np.maximum(1e-8, 100.0 * len(self.lam) * EPS * self.lam.max() / b)
        for k in np.flatnonzero(self.a):
            G = D.T @ self.C[k] @ D / self.n[k]
            delta = self.delta[k] @ self.V
            loss = _quadratic(G, w) + (t + w @ delta - self.y[:, k, None]) ** 2
            loss = loss.sum(axis=0)
            freedom = self.share + inverse @ (np.diagonal(G) + delta**2)
            spent = _quadratic(G, u) + (self.share - u @ delta) ** 2
            freedom -= spent * self.rank_one(b, self.norm(inverse))
            left = np.maximum(1.0 - self.a[k] * freedom / self.n[k], 1e-100)
            trusted = left > np.maximum(least, MIN_RESIDUAL_DOF_FRACTION)
            score += np.where(trusted, self.a[k] * loss / left**2, np.inf)
            blur += len(t) * self.a[k] * LOSS_RTOL / left**2
        return score, blur


def _quadratic(G: Matrix, w: Batch) -> Vector:
    """Return wᵀGw for each row of w; rounding must not make it negative."""
    form: Vector = np.maximum(np.einsum("...i,...i->...", w @ G, w), 0.0)
    return form


def choose_ridge(systems: RidgeSystems) -> float:
    """Return the ridge that minimizes generalized cross-validation, one for all problems.

    It is one of 73 values, six to a decade, about the mean second moment of the features that vary.
    Where the criterion is flat, or negligible, it is the largest of those that are equal to within
    1e-8 and within the rounding error, so that rounding cannot decide.
    """
    paths = [one.path() for one in systems]
    size = float(np.mean([path.size for path in paths])) or 1.0
    b = size * np.logspace(-10.0, 2.0, 73)
    score, blur = np.sum([path.gcv(b) for path in paths], axis=0)
    negligible = 1e-12 * float(systems.total.sum()) * systems.y.shape[1]
    best = float((score + blur).min())
    return float(b[score <= best * (1.0 + 1e-8) + negligible][-1])


MEAN_DISTANCE_RTOL = 1e-8  # of the distances between means: less is rounding


@dataclass(frozen=True, eq=False)
class PooledClasses:
    """Classes that share a covariance W, in scaled units about their centre.

    ``m`` and ``s`` (d,) are shift (relative to the anchor) and divisor of the scaling, ``a`` the
    weight of each class of the moments in W, ``slots`` (c,) the positions of the classes in the
    order of the scores, and ``prior`` (c,) the logarithms of their weights. Scores have constants
    unless ``intercept`` is "none".
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
        """Weight a of all classes."""
        return float(self.a.sum())

    @cached_property
    def centre(self) -> Vector:
        """Origin of linear scores: the weighted mean, or the origin of scaled units."""
        return self.m if self.intercept == "none" else self.a @ self.moments.mean / self.total

    @cached_property
    def delta(self) -> Matrix:
        """Mean of each class about the centre, in scaled units."""
        return (self.moments.mean[self.slots] - self.centre) / self.s

    @classmethod
    def of(cls, moments: Moments, classes: Classes, options: Options) -> PooledClasses:
        """Return the classes that were seen, weighted by these options."""
        slots, a = classes.slots[classes.seen], np.zeros(len(moments.n))
        labels, N = moments.labels[slots], moments.N[slots]
        a[slots] = covariance_weights(N, options.class_weight)
        prior = priors(labels, N, options.class_weight, options.class_factors)
        m, s = affine(moments, options.scale)
        return cls(moments, m, s, a, slots, prior, options.intercept)

    def K(self) -> Matrix:
        """Return aW (d, d), a new array."""
        return within_class_scatter(self.moments.n, self.moments.C, self.a, self.s)

    def against_rest(self) -> RidgeSystems:
        """Return least squares of each class against all others, with the same weights."""
        y = np.zeros((1, len(self.slots), len(self.a)))
        y[:, :, self.slots] = 2.0 * np.eye(len(self.slots)) - 1.0
        return RidgeSystems.of(self.moments, self.m, self.s, self.a[None], y, self.intercept)


def linear(pool: PooledClasses, b: float) -> LinearScores:
    """Return scores δ_k·Σ⁻¹ζ − δ_k·Σ⁻¹δ_k/2 + log prior, with one covariance for all.

    Where b is too small to have an effect, directions in which no class varies have the least b
    that has one, and directions in which the means agree as well are left out.
    """
    K, e = unit_diagonal(pool.K(), b)
    factor = cholesky(K)
    if factor is None:
        warn_collinear(b)
        lam, V = np.linalg.eigh(K)
        least = len(lam) * EPS * max(lam[-1], 1.0)
        delta = pool.delta / e @ V
        # Along what does not vary within classes their means are apart, or there is nothing at all.
        null = lam <= least
        distance = np.abs(delta).max(initial=0.0)
        if np.abs(delta[:, null]).max(initial=0.0) <= MEAN_DISTANCE_RTOL * distance:
            delta[:, null] = 0.0
        solved = delta / np.maximum(lam, least) @ V.T
    else:
        solved = solve_factorized(factor, pool.delta / e)
    w = pool.total * solved / e
    coef = w / pool.s
    offset = -(coef @ pool.centre)
    if pool.intercept != "none":
        offset += pool.prior - 0.5 * np.einsum("kj,kj->k", w, pool.delta)
    return LinearScores(pool.moments.anchor.copy(), coef, offset, b)


def scatters(pool: PooledClasses, nu: float) -> Iterator[Matrix]:
    """Yield aΣ_k (d, d) of each class without the ridge, with nu pooled rows; new arrays."""
    moments, s = pool.moments, pool.s
    shared = pool.K() if nu else np.zeros((len(s), len(s)))
    for slot in pool.slots:
        own = 1.0 / (moments.n[slot] + nu)
        yield (own * pool.total / s) * moments.C[slot] / s[:, None] + nu * own * shared


def quadratic(pool: PooledClasses, b: float, nu: float, seen: Flags) -> QuadraticScores:
    """Return logarithms of the densities, each class with its own covariance."""
    moments, s, a = pool.moments, pool.s, pool.total
    root = np.empty((len(pool.slots), len(s), len(s)))
    offset = pool.prior.copy()
    warned = False
    for k, K in enumerate(scatters(pool, nu)):
        K, e = unit_diagonal(K, b)
        factor = cholesky(K)
        if factor is None:
            if not warned:
                warn_collinear(b)
            warned = True
            lam, V = np.linalg.eigh(K)
            lam = np.maximum(lam, len(lam) * EPS * max(lam[-1], 1.0))
            inverse, half = V / np.sqrt(lam), 0.5 * np.log(lam).sum()
        else:
            half = np.log(np.diagonal(factor)).sum()
            inverse = invert_triangle(factor).T
        # Σ = K/a: its root is that of K over √a, its determinant that of K over a^d.
        root[k] = inverse * (np.sqrt(a) / (e * s))[:, None]
        offset[k] -= half + np.log(e).sum() - 0.5 * len(s) * np.log(a)
    return QuadraticScores(moments.anchor.copy(), moments.mean[pool.slots], root, offset, seen, b)
