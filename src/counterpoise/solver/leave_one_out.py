"""Leave-one-out scores of least squares of two classes, for every ridge.

    K = QTQᵀ,      (K + bI)⁻¹ = Q(T + bI)⁻¹Qᵀ

with a tridiagonal T takes a quarter of the time of an eigendecomposition, and the products of n
rows with the inverse for each ridge take O(nd). If features depend on each other, or are more than
the rows, K = LLᵀ has a lower rank. Learned rows and their means are L x, and with M = LᵀL

    (K + bI)⁻¹ L x = L (M + bI)⁻¹ x,      Lᵀ(K + bI)⁻¹ L x = x − b (M + bI)⁻¹ x

so that all products of rows follow from the smaller M, of which T is then made.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from counterpoise.arrays import Matrix, Vector
from counterpoise.moments.moments import EPS
from counterpoise.solver._tridiagonal import factorize, products, rotate, solve, tridiagonalize
from counterpoise.solver.ridge import MAX_LEVERAGE, RidgeSystems

# A ridge over the rounding error of K, from which on no eigenvalue needs a correction of its sign.
MIN_RIDGE_ULPS = 1e3
MIN_FEATURES = 64  # of a factor, which takes longer than fewer of them
MAX_RANK_FRACTION = 0.7  # of the features, up to which a factor of K takes less time
MAX_DISTANCE = 1e-6  # of a row from the range of K, over the length of the longest
RANK_ULPS = 8.0  # of the largest second moment: what is left of a feature is rounding


def exceeds_rounding(b: Vector, K: Matrix) -> bool:
    """Return whether all ridges are far above the rounding errors of K."""
    return bool(b.min() > MIN_RIDGE_ULPS * EPS * np.linalg.norm(K))


class RidgeInverses:
    """Inverses of K + bI for r ridges b, of vectors after one rotation.

    ``diagonal`` and ``below`` (l,), which begins with a 0, are those of T. Where rounding errors of
    K are not small relative to b, T has the eigenvalues of K, negative ones replaced by 0.
    """

    def __init__(self, K: Matrix, b: Vector) -> None:
        self._V: Matrix | None = None
        if exceeds_rounding(b, K):
            self.diagonal, self.below, self._scales = tridiagonalize(K)
            self._reflections = K
        else:
            lam, self._V = np.linalg.eigh(K)
            self.diagonal, self.below = np.maximum(lam, 0.0), np.zeros(len(lam))
        self._L, self._D = factorize(self.diagonal, self.below, b)

    def rotate(self, X: Matrix, back: bool = False) -> Matrix:
        """Return rows (n, l) after the rotation, or before it if ``back``; X is overwritten."""
        if self._V is not None:
            return X @ (self._V.T if back else self._V)
        rotate(self._reflections, self._scales, X, back)
        return X

    def solve(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (T + bI)⁻¹x for each ridge b, of rotated x in X (..., l) or (..., r, l)."""
        shape = *X.shape[:-2], *self._L.shape
        result = np.empty(shape)
        result[:] = X
        solve(self._L, self._D, result.reshape(-1, *self._L.shape))
        return result

    def products(self, X: Matrix, Y: Matrix) -> Matrix:
        """Return x·(T + bI)⁻¹y (n, r) of the rotated rows of X and Y (n, l)."""
        return products(self._L, self._D, X, Y)

    def form(self, X: Matrix) -> Vector:
        """Return x·Tx (n,) of rotated rows (n, l)."""
        value: Vector = X**2 @ self.diagonal + 2.0 * (X[:, 1:] * X[:, :-1]) @ self.below[1:]
        return np.maximum(value, 0.0)


class LowRank:
    """Factor L (l, r) of K = LLᵀ, with the features of which it has a triangle."""

    def __init__(self, c: Matrix, order: NDArray[np.intp], rank: int) -> None:
        self._some = order[:rank]
        ordered = np.tril(c[:, :rank])
        self._triangle = np.asfortranarray(ordered[:rank])
        self.M = ordered.T @ ordered
        self.L = np.empty_like(ordered, order="C")
        self.L[order] = ordered

    @classmethod
    def of(cls, K: Matrix, b: Vector, rows: float) -> LowRank | None:
        """Return a factor of K, the sum of ``rows`` rows; None if it is not much narrower.

        The attempt takes time. With more rows than features it is made if some are copies of each
        other, with the same products with a vector. Ridges must exceed rounding errors.
        """
        most = MAX_RANK_FRACTION * len(K)
        if len(K) < MIN_FEATURES or not exceeds_rounding(b, K):
            return None
        if rows > most:
            products = np.abs(K @ np.cos(np.arange(len(K))))
            products /= np.sqrt(np.maximum(np.diagonal(K), 1e-300))
            if len(np.unique(np.round(products / products.max(), 9))) > most:
                return None
        least = RANK_ULPS * EPS * float(np.diagonal(K).max())
        c, order, rank, _ = linalg.lapack.dpstrf(K.T, tol=least, lower=1)
        return cls(c, order - 1, rank) if 0 < rank <= most else None

    def contains(self, X: Matrix) -> bool:
        """Return whether rows X (n, l) are Lx, by their products with a vector."""
        probe = np.cos(np.arange(len(self.L)))
        left = X @ probe - self.coordinates(X) @ (self.L.T @ probe)
        size = np.sqrt(np.einsum("ij,ij->i", X, X).max())
        return bool(np.abs(left).max() <= MAX_DISTANCE * size)

    def coordinates(self, X: Matrix) -> Matrix:
        """Return x (n, r) of rows Lx."""
        found = linalg.blas.dtrsm(1.0, self._triangle, X[:, self._some].T, lower=1, overwrite_b=1)
        return np.ascontiguousarray(found.T)


class LeftOut:
    """Scores of learned rows by models without them, and the models of all rows, for r ridges.

    Rows Z (n, d) are relative to the anchor; they are of the classes in these slots and have
    these weights. A row of weight ω = a_k/n_k and target y that has the score f and the
    leverage h = ω φ·R⁻¹φ, φ = [1, ζ], would have had

        f₋ = (f − h y)/(1 − h) + ω φ·R⁻¹ E_k[φ (y − f)]

    The last term gives the other rows of its class the weight that the class loses with it.
    The model of a row has no term j = ``own`` (n,), −1 for none, which makes all products
    φ·R⁻¹x less by φ·R⁻¹e_j e_j·R⁻¹x / e_j·R⁻¹e_j.

    ``scores`` and ``leverage`` have the shape (n, r), ``coef`` (r, d), ``offset`` at the anchor
    and ``rms`` (r,): the root mean square of the scores where all classes have their weights.
    """

    def __init__(
        self,
        systems: RidgeSystems,
        b: Vector,
        Z: Matrix,
        slot: NDArray[np.intp],
        weight: Vector,
        own: NDArray[np.intp],
    ) -> None:
        live = systems.varies()
        self.coef = np.zeros((len(b), len(live)))
        width = int(np.flatnonzero(live)[-1]) + 1
        some: Any = slice(0, width) if live[:width].all() else live[:width]
        systems, Z = systems.first(width), Z[:, :width]
        own = np.append(np.where(live, np.cumsum(live) - 1, -1), -1)[own]
        share, t = 1.0 / systems.total[0], systems.t[0]
        s, y_k, delta = systems.s[0, some], systems.y[0, 0], systems.delta[0][:, some]
        K = systems.K()[0]
        if len(s) < width:
            K = K[some].take(np.flatnonzero(some), axis=1)
        n, has_own = len(Z), np.flatnonzero(own >= 0)
        X = np.empty((n + 2, len(s)))
        np.subtract(Z[:, some], systems.centre[0, some], out=X[:n])
        X[:n] /= s
        X[n], X[n + 1] = systems.h[0, some], systems.z[0, 0, some]
        low = LowRank.of(K, b, float(systems.n.sum()))
        if low is not None and not low.contains(X[:-1]):  # rows that were decayed or imputed
            low = None
        if low is None:
            E = np.zeros((len(has_own), len(s)))
            E[np.arange(len(E)), own[has_own]] = 1.0
        else:
            E = low.L[own[has_own]]
        inverses = RidgeInverses(K if low is None else low.M, b)

        def along(x: Any, solved: Any) -> Any:
            """Return Lᵀ(K + bI)⁻¹Lx, given (M + bI)⁻¹x; without a factor L is 1."""
            return solved if low is None else x - b[:, None] * solved

        X = X if low is None else low.coordinates(X)
        X = inverses.rotate(np.concatenate([X, E]))
        P, h, z, E = X[:n], X[n], X[n + 1], X[n + 2 :]
        u, w = inverses.solve(X[n : n + 2, None])  # R⁻¹q = [share, −u]
        wP, uP = along(z, w), along(h, u)
        pull = systems.rank_one(b, share + uP @ h)
        step = pull * (t - wP @ h)
        t = t - step * share
        w, wP = w + step[:, None] * u, wP + step[:, None] * uP
        tilt = share - P @ uP.T  # φ·R⁻¹q
        y, omega = y_k[slot, None], (weight * systems.a[0, slot] / systems.n[0, slot])[:, None]
        norm, size = inverses.products(P, P), inverses.products(E, E)
        if low is not None:
            norm, size = (P**2).sum(axis=1)[:, None] - b * norm, (1.0 - size) / b
        leverage, f = share + norm - pull * tilt**2, t + P @ wP.T
        lean = E @ u.T
        size -= pull * lean**2
        ratio = inverses.products(P[has_own], E) + pull * tilt[has_own] * lean
        ratio /= np.where(size > 0.0, size, np.inf)  # φ·R⁻¹e_j / e_j·R⁻¹e_j
        leverage[has_own] -= ratio**2 * size
        f[has_own] -= ratio * (E @ w.T)
        form = inverses.form(w) if low is None else (wP**2).sum(axis=1)
        self.rms = np.sqrt(t * t + share * form)
        self.leverage = np.clip(omega * leverage, 0.0, MAX_LEVERAGE)
        self.scores = (f - self.leverage * y) / (1.0 - self.leverage)
        w = inverses.rotate(w, back=True)
        w = w if low is None else w @ low.L.T
        self.coef[:, :width][:, some] = w / s
        coef = self.coef[:, :width]
        self.offset = t - coef @ systems.centre[0]
        # E_k[ζ (y − f)]: the mean residual at the mean of the class, and what f has of its scatter.
        classes = np.unique(slot)
        rest = y_k[classes, None] - t - delta[classes] @ w.T
        g = rest[..., None] * delta[classes, None]
        for k, gk in zip(classes.tolist(), g, strict=True):
            gk -= (coef @ systems.C[0, k])[:, some] / systems.n[0, k] / s
        g = g.reshape(-1, len(s))
        g = inverses.rotate(g if low is None else low.coordinates(g)).reshape(*rest.shape, -1)
        solved = inverses.solve(g)
        for k, r_k, at, atP in zip(classes.tolist(), rest, solved, along(g, solved), strict=True):
            mine = slot == k
            tilted = pull * (share * r_k - atP @ h)
            self.scores[mine] += omega[mine] * (share * r_k + P[mine] @ atP.T - tilted * tilt[mine])
            marked = mine[has_own]
            at_j = E[marked] @ at.T + tilted * lean[marked]
            rows = has_own[marked]
            self.scores[rows] -= omega[rows] * ratio[marked] * at_j
