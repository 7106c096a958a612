"""From moments and class weights to coefficients.

With f(x) = w_0 + w·(x − m)/s the weights minimise

    Σ_k a_k E_k[(y_k − f)²] + b (w_0² + ‖w‖²)

where E_k is the mean over class k and a_k its total weight. About the weighted mean of the
classes the constant and the other features are orthogonal: with f = t + w·ζ and
ζ = (x − centre)/s the data alone ask for

    a t = Σ a_k y_k,      K w = z,      K = Σ a_k E_k[ζζᵀ],      z = Σ a_k y_k E_k[ζ]

and w_0 = t − h·w = q·[t, w], with h = (centre − m)/s and q = [1, −h], is penalised by one
rank-one term more, p q qᵀ, added by the formula of Sherman and Morrison: p = b if the constant is
a weight like any other, 0 if it is free, infinite if there is none. Nothing large is ever
subtracted, however far from zero the features are.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from counterpoise.arrays import Flags, Matrix, Vector
from counterpoise.moments.classes import Classes
from counterpoise.moments.moments import EPS, Moments
from counterpoise.solver.class_weights import affine, covariance_weights, priors
from counterpoise.solver.options import Options
from counterpoise.solver.score_functions import LinearScores, QuadraticScores

LOSS_RTOL = 1e-12  # of a loss: its rounding is a thousandth of that
MIN_RESIDUAL_DOF_FRACTION = (
    0.5  # of the rows of a class: degrees of freedom that must be left to trust a criterion
)
RIDGE_PRIOR_ROWS = 3.0  # that the shrinking ridge is worth (benchmarks/ridge.py)


def within_class_scatter(moments: Moments, a: Vector, s: Vector) -> Matrix:
    """Σ a_k S_k, the scatter within classes of total weights a, in scaled units; a new array."""
    n = moments.n
    alpha = np.divide(a, n, out=np.zeros_like(n), where=n > 0)
    K: Matrix = np.tensordot(alpha, moments.C, 1)
    K /= s
    K /= s[:, None]
    return K


@dataclass(frozen=True, eq=False)
class System:
    """One weighted ridge problem, in scaled units about its own centre.

    Attributes
    ----------
    moments : Moments
        What was seen.
    m, s : ndarray of shape (d,)
        Shift (relative to the anchor) and divisor of the scaling.
    a : ndarray of shape (c,)
        Total weight of each class; 0 for a class that is not in the problem.
    y : ndarray of shape (c,) or (q, c)
        Target of each class; several rows are several problems that share all the rest.
    intercept : "penalized", "free" or "none"
        What becomes of the constant.
    """

    moments: Moments
    m: Vector
    s: Vector
    a: Vector
    y: Vector
    intercept: str

    @cached_property
    def centre(self) -> Vector:
        """Weighted mean of the classes, where the constant is orthogonal to the features."""
        centre: Vector = self.a @ self.moments.mean / self.a.sum()
        return centre

    @cached_property
    def delta(self) -> Matrix:
        """Mean of each class about the centre, in scaled units."""
        return (self.moments.mean - self.centre) / self.s

    def K(self) -> Matrix:
        """Second moment of the features about the centre, without the ridge; a new array."""
        K = within_class_scatter(self.moments, self.a, self.s)
        K += (self.a[:, None] * self.delta).T @ self.delta
        return K

    @cached_property
    def z(self) -> Matrix:
        """First moment of target times features."""
        return (self.a * self.y) @ self.delta

    @cached_property
    def h(self) -> Vector:
        """The centre as the penalty sees it."""
        return (self.centre - self.m) / self.s

    @property
    def share(self) -> float:
        """1/a: what one unit of right-hand side adds to t."""
        return 1.0 / float(self.a.sum())

    @property
    def t(self) -> Any:
        """Value of f at the centre if the constant were free."""
        return self.share * (self.y @ self.a)

    def rank_one(self, b: Any, norm: Any) -> Any:
        """p/(1 + p q·R⁻¹q), where p is the penalty of the constant and norm is q·R⁻¹q."""
        if self.intercept == "free":
            return 0.0 * norm
        return b / (1.0 + b * norm) if self.intercept == "penalized" else 1.0 / norm


def solve(systems: list[System], ridge: float) -> LinearScores:
    """Minimise each problem.

    Parameters
    ----------
    systems : list of System
        The problems.
    ridge : float
        b ≥ 0. Where b is too small to be felt and a problem has many solutions, the one that b
        tends to is taken, the shortest in scaled units, with a warning.

    Returns
    -------
    Linear
    """
    parts = [_solve(system, ridge) for system in systems]
    t = np.array([t for t, _ in parts])
    coef = np.array([w / system.s for system, (_, w) in zip(systems, parts, strict=True)])
    centre = np.array([system.centre for system in systems])
    offset = t - np.einsum("qj,qj->q", coef, centre)
    return LinearScores(systems[0].moments.anchor.copy(), coef, offset, ridge)


def unit_diagonal(K: Matrix, b: float) -> tuple[Matrix, Vector]:
    """K + bI over the roots of its diagonal, so that its condition does not depend on units.

    K itself is taken for it; the roots come second.
    """
    K.flat[:: len(K) + 1] += b
    e = np.sqrt(np.maximum(np.diagonal(K), 0.0))
    e[e == 0.0] = 1.0
    K /= e
    K /= e[:, None]
    return K, e


def cholesky(K: Matrix) -> Matrix | None:
    """Lower factor of a symmetric matrix; None if it is as good as singular."""
    factor, failed = lapack.dpotrf(K, lower=1)
    if failed or lapack.dpocon(factor, np.abs(K).sum(axis=0).max(), uplo="L")[0] < len(K) * EPS:
        return None
    lower: Matrix = factor
    return lower


def inflation(K: Matrix, b: float) -> Vector:
    """Diagonal of (K + bI)⁻¹: how much a relative error of a feature is felt in the weights.

    Parameters
    ----------
    K : ndarray of shape (d, d)
        Second moments; taken for workspace.
    b : float
        The ridge.

    Returns
    -------
    ndarray of shape (d,)
        In scaled units; 1 over the second moment for a feature that no other resembles.
    """
    K, e = unit_diagonal(K, b)
    factor, failed = lapack.dpotrf(K, lower=1)
    if failed:
        return np.full(len(e), np.inf)
    diagonal: Vector = np.diagonal(lapack.dpotri(factor, lower=1)[0]) / e**2
    return diagonal


def warn_collinear(b: float) -> None:
    """Say that there are many solutions."""
    from sklearn.exceptions import ConvergenceWarning  # takes long to import

    warnings.warn(
        f"the features are collinear and ridge={b:g} is too small to tell their weights apart: "
        "taking the shortest of the many solutions. A larger ridge gives a unique one.",
        ConvergenceWarning,
        stacklevel=3,
    )


def decaying_ridge(a: Vector, n: Vector) -> float:
    """The ridge that fades as rows arrive: as strong as ROWS rows of each direction.

    The variance of a weighted mean of class covariances is that of one covariance of
    1/Σ (a_k/a)²/n_k rows, and b/a is ROWS over that. For classes that are not balanced it is
    ROWS itself, scikit-learn's ``alpha``. A class counts as one row at least, however little its
    rows weigh.

    Parameters
    ----------
    a, n : ndarray of shape (c,)
        Total weight of each class, and the rows that are behind it; 0 for none.

    Returns
    -------
    float

    Examples
    --------
    >>> one = np.ones(2)
    >>> decaying_ridge(one, 100 * one), decaying_ridge(100 * one, 100 * one)
    (0.03, 3.0)
    """
    return RIDGE_PRIOR_ROWS * float((a * a / np.maximum(n, 1.0)).sum() / a.sum())


def _solve(system: System, b: float) -> tuple[float, Vector]:
    h = system.h
    K, e = unit_diagonal(system.K(), b)
    factor = cholesky(K)
    if factor is None:
        return _minimum_norm(system, b)
    right = np.column_stack([system.z / e, h / e])
    Kz, Kh = lapack.dpotrs(factor, right, lower=1)[0].T / e
    # [t, w] − R⁻¹q (q·[t, w]) p / (1 + p q·R⁻¹q),   R⁻¹q = [1/a, −Kh]
    step = system.rank_one(b, system.share + h @ Kh) * (system.t - h @ Kz)
    return system.t - step * system.share, Kz + step * Kh


def _minimum_norm(system: System, b: float) -> tuple[float, Vector]:
    """The limit as b tends to 0 of a problem with many solutions."""
    warn_collinear(b)
    K, e = unit_diagonal(system.K(), b)
    lam, V = np.linalg.eigh(K)
    null = lam <= len(lam) * EPS * max(lam[-1], 0.0)
    V, lam = V / e[:, None], np.where(null, 1.0, lam)
    inverse = V[:, ~null] / lam[~null] @ V[:, ~null].T
    w, t, h = inverse @ system.z, system.t, system.h
    # Along null directions N the fit does not change, but the length of w and w_0 = t − h·w do.
    N = np.linalg.qr(V[:, null])[0]
    w -= N @ (N.T @ w)
    w_0, hN = t - h @ w, h @ N
    hN *= hN @ hN > 1e-16 * (1.0 + h @ h)
    if system.intercept == "free":
        return t, w
    # Sherman and Morrison again, where R⁻¹ is 1/b along N: (inverse h) b/base and N hN/base.
    norm = system.share + h @ inverse @ h
    base = b * norm + hN @ hN + (system.intercept == "penalized")
    step, along = (w_0 * b / base, w_0 / base) if base > 0 else (w_0 / norm, 0.0)
    return t - step * system.share, w + step * inverse @ h + along * N @ hN


def eigen(K: Matrix, more: Flags | None = None) -> tuple[Vector, Matrix]:
    """Eigenvalues (l,) of a second moment, not negative, and eigenvectors (d, l).

    Features that do not vary have none, but for those among ``more``: landmarks that there was no
    row for yet take no time.
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

    Parameters
    ----------
    system : System
        The problem.

    Examples
    --------
    >>> import numpy as np
    >>> seen = Moments.of([[0.0], [1.0], [3.0], [4.0]], [0, 0, 1, 1])
    >>> one = np.ones(1)
    >>> path = RidgePath(System(seen, 0 * one, one, np.ones(2), np.array([-1.0, 1.0]), "free"))
    >>> t, w = path.at(np.array([1e-9, 9.0]))
    >>> w.ravel().round(3).tolist()
    [0.6, 0.214]
    """

    def __init__(self, system: System) -> None:
        self.system = system
        self.lam, self.V = eigen(system.K(), system.h != 0.0)
        self.z = system.z @ self.V
        self.h = system.h @ self.V

    def at(self, b: Vector) -> tuple[Vector, Matrix]:
        """Value at the centre and scaled weights.

        Parameters
        ----------
        b : ndarray of shape (r,)
            The ridges, positive.

        Returns
        -------
        t : ndarray of shape (..., r)
            For each problem, if there are several.
        w : ndarray of shape (..., r, d)
        """
        t, w = self.turned(b)
        return t, w @ self.V.T

    def turned(self, b: Vector) -> tuple[Vector, Matrix]:
        """The same in the coordinates of the eigenvectors."""
        inverse = 1.0 / (self.lam + b[:, None])
        w, t = inverse * self.z[..., None, :], np.asarray(self.system.t)[..., None]
        step = self.system.rank_one(b, self.norm(inverse)) * (t - w @ self.h)
        return t - step * self.system.share, w + step[..., None] * inverse * self.h

    def norm(self, inverse: Matrix) -> Vector:
        """q·R⁻¹q."""
        q: Vector = self.system.share + inverse @ self.h**2
        return q

    def gcv(self, b: Vector) -> tuple[Vector, Vector]:
        """Generalised cross-validation, class by class.

        GCV(b) = Σ_k a_k E_k[(y_k − f)²] / (1 − t_k/n_k)² with t_k = tr(R⁻¹ a_k E_k[φφᵀ]), the
        degrees of freedom that class k takes up; infinite where t_k ≥ n_k/2. With more terms than
        rows loss and freedom left vanish together, and their ratio says nothing of other rows: rows
        are then known by heart.

        Parameters
        ----------
        b : ndarray of shape (r,)
            The ridges, positive.

        Returns
        -------
        score : ndarray of shape (r,)
        blur : ndarray of shape (r,)
            Differences of scores that mean nothing: the rounding of the loss, and far on the safe
            side of it. With fewer rows than features loss and freedom both vanish, and nothing
            else is left.
        """
        system, moments = self.system, self.system.moments
        t, w = self.turned(b)
        inverse = 1.0 / (self.lam + b[:, None])
        u = inverse * self.h  # R⁻¹q = [share, −u]
        score, blur = np.zeros(len(b)), np.zeros(len(b))
        D = self.V / system.s[:, None]
        # Below 1e-8 the rounding of the loss, 1e-16, would count as much as a loss of 1; and the
        # rounding of eigenvalues that should be zero counts the more the smaller b is.
        least = np.maximum(1e-8, 100.0 * len(self.lam) * EPS * self.lam.max() / b)
        for k in np.flatnonzero(system.a):
            G = D.T @ moments.C[k] @ D / moments.n[k]
            delta = system.delta[k] @ self.V
            loss = _quadratic(G, w) + (t + w @ delta - system.y[..., k, None]) ** 2
            loss = loss.reshape(-1, len(b)).sum(axis=0)
            freedom = system.share + inverse @ (np.diagonal(G) + delta**2)
            spent = _quadratic(G, u) + (system.share - u @ delta) ** 2
            freedom -= spent * system.rank_one(b, self.norm(inverse))
            left = np.maximum(1.0 - system.a[k] * freedom / moments.n[k], 1e-100)
            score += np.where(
                left > np.maximum(least, MIN_RESIDUAL_DOF_FRACTION),
                system.a[k] * loss / left**2,
                np.inf,
            )
            blur += t.size // len(b) * system.a[k] * LOSS_RTOL / left**2
        return score, blur


def _n_varying_features(system: System) -> int:
    """Number of features that vary: others, such as those of rows unlearned, must not count."""
    K_jj = np.diagonal(system.K())
    return max(int((K_jj > 1e-30 * K_jj.max(initial=0.0)).sum()), 1)


def _quadratic(G: Matrix, w: Matrix) -> Vector:
    """wᵀGw for each row of w; rounding must not make it negative."""
    form: Vector = np.maximum(np.einsum("...i,...i->...", w @ G, w), 0.0)
    return form


def choose_ridge(systems: list[System]) -> float:
    """Ridge that minimises generalised cross-validation, one for all problems.

    Parameters
    ----------
    systems : list of System
        The problems.

    Returns
    -------
    float
        One of 73 values, six to a decade, about the mean second moment of the features that vary.
        Where the criterion is flat, or next to nothing, the largest of those that are equal to
        within 1e-8, and within what rounding can have done, so that rounding cannot decide.
    """
    paths = [RidgePath(system) for system in systems]
    size = (
        float(
            np.mean(
                [
                    path.lam.sum() / _n_varying_features(system)
                    for path, system in zip(paths, systems, strict=True)
                ]
            )
        )
        or 1.0
    )
    b = size * np.logspace(-10.0, 2.0, 73)
    score, blur = np.sum([path.gcv(b) for path in paths], axis=0)
    nothing = 1e-12 * sum(
        float(system.a.sum()) * (system.y.size // len(system.a)) for system in systems
    )
    best = float((score + blur).min())
    return float(b[score <= best * (1.0 + 1e-8) + nothing][-1])


MEAN_DISTANCE_RTOL = 1e-8  # of the distances between means: less is rounding


@dataclass(frozen=True, eq=False)
class PooledClasses:
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
    def of(cls, moments: Moments, classes: Classes, options: Options) -> PooledClasses:
        """The classes that were seen, as they are asked to be told apart."""
        slots, a = classes.slots[classes.seen], np.zeros(len(moments.n))
        labels, N = moments.labels[slots], moments.N[slots]
        a[slots] = covariance_weights(N, options.class_weight)
        prior = priors(labels, N, options.class_weight, options.class_factors)
        m, s = affine(moments, options.scale)
        return cls(moments, m, s, a, slots, prior, options.intercept)

    def K(self) -> Matrix:
        """aW; a new array."""
        return within_class_scatter(self.moments, self.a, self.s)

    def against_rest(self) -> System:
        """Least squares for each class on 1, and −1 for the others, with the weights of these."""
        y = np.zeros((len(self.slots), len(self.a)))
        y[:, self.slots] = 2.0 * np.eye(len(self.slots)) - 1.0
        return System(self.moments, self.m, self.s, self.a, y, self.intercept)


def linear(pool: PooledClasses, b: float) -> LinearScores:
    """Scores δ_k·Σ⁻¹ζ − δ_k·Σ⁻¹δ_k/2 + log prior, with one covariance for all.

    Where b is too small to be felt, directions in which no class varies count as if the least b
    that is felt had been asked for, and those in which the means agree as well not at all.
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
        if np.abs(delta[:, null]).max(initial=0.0) <= MEAN_DISTANCE_RTOL * np.abs(delta).max(
            initial=0.0
        ):
            delta[:, null] = 0.0
        solved = delta / np.maximum(lam, least) @ V.T
    else:
        solved = lapack.dpotrs(factor, (pool.delta / e).T, lower=1)[0].T
    return _linear(pool, pool.total * solved / e, b)


def _linear(pool: PooledClasses, w: Matrix, b: float) -> LinearScores:
    coef = w / pool.s
    offset = -(coef @ pool.centre)
    if pool.intercept != "none":
        offset += pool.prior - 0.5 * np.einsum("kj,kj->k", w, pool.delta)
    return LinearScores(pool.moments.anchor.copy(), coef, offset, b)


def scatters(pool: PooledClasses, nu: float) -> Iterator[Matrix]:
    """aΣ_k without the ridge of each class, with so many rows of pooled evidence; new arrays."""
    moments, s = pool.moments, pool.s
    shared = pool.K() if nu else np.zeros((len(s), len(s)))
    for slot in pool.slots:
        own = 1.0 / (moments.n[slot] + nu)
        yield (own * pool.total / s) * moments.C[slot] / s[:, None] + nu * own * shared


def quadratic(pool: PooledClasses, b: float, nu: float, seen: Flags) -> QuadraticScores:
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
                warn_collinear(b)
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
    return QuadraticScores(moments.anchor.copy(), moments.mean[pool.slots], root, offset, seen, b)
