"""Leave-one-out scores of least squares of two classes, for every ridge.

    K = QTQᵀ,      (K + bI)⁻¹ = Q(T + bI)⁻¹Qᵀ

with a tridiagonal T takes a quarter of the time of an eigendecomposition, and the products of n
rows with the inverse for each ridge take O(nd).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Matrix, Vector
from counterpoise.moments.moments import EPS
from counterpoise.solver._tridiagonal import factorize, products, rotate, solve, tridiagonalize
from counterpoise.solver.ridge import MAX_LEVERAGE, RidgeSystems

# A ridge over the rounding error of K, from which on no eigenvalue needs a correction of its sign.
MIN_RIDGE_ULPS = 1e3


class RidgeInverses:
    """Inverses of K + bI for r ridges b, of vectors after one rotation.

    ``diagonal`` and ``below`` (l,), which begins with a 0, are those of T. Where rounding errors of
    K are not small relative to b, T has the eigenvalues of K, negative ones replaced by 0.
    """

    def __init__(self, K: Matrix, b: Vector) -> None:
        self._V: Matrix | None = None
        if b.min() > MIN_RIDGE_ULPS * EPS * float(np.linalg.norm(K)):
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
        if not live.all():
            systems, Z = systems.select(live), Z[:, live]
            own = np.append(np.where(live, np.cumsum(live) - 1, -1), -1)[own]
        share, t = 1.0 / systems.total[0], systems.t[0]
        s, y_k, delta = systems.s[0], systems.y[0, 0], systems.delta[0]
        inverses = RidgeInverses(systems.K()[0], b)
        n, has_own = len(Z), np.flatnonzero(own >= 0)
        X = np.zeros((n + len(has_own) + 2, len(s)))
        np.subtract(Z, systems.centre[0], out=X[:n])
        X[:n] /= s
        X[np.arange(n, len(X) - 2), own[has_own]] = 1.0
        X[-2], X[-1] = systems.z[0, 0], systems.h[0]
        X = inverses.rotate(X)
        P, E, h = X[:n], X[n:-2], X[-1]
        w, u = inverses.solve(X[-2:, None])  # R⁻¹q = [share, −u]
        pull = systems.rank_one(b, share + u @ h)
        step = pull * (t - w @ h)
        t, w = t - step * share, w + step[:, None] * u
        tilt = share - P @ u.T  # φ·R⁻¹q
        y, omega = y_k[slot, None], (weight * systems.a[0, slot] / systems.n[0, slot])[:, None]
        leverage, f = share + inverses.products(P, P) - pull * tilt**2, t + P @ w.T
        lean = E @ u.T
        size = inverses.products(E, E) - pull * lean**2
        ratio = inverses.products(P[has_own], E) + pull * tilt[has_own] * lean
        ratio /= np.where(size > 0.0, size, np.inf)  # φ·R⁻¹e_j / e_j·R⁻¹e_j
        leverage[has_own] -= ratio**2 * size
        f[has_own] -= ratio * (E @ w.T)
        self.rms = np.sqrt(t * t + share * inverses.form(w))
        self.leverage = np.clip(omega * leverage, 0.0, MAX_LEVERAGE)
        self.scores = (f - self.leverage * y) / (1.0 - self.leverage)
        w = inverses.rotate(w, back=True)
        coef = w / s
        self.coef[:, live], self.offset = coef, t - coef @ systems.centre[0]
        # E_k[ζ (y − f)]: the mean residual at the mean of the class, and what f has of its scatter.
        classes = np.unique(slot)
        rest = y_k[classes, None] - t - delta[classes] @ w.T
        g = rest[..., None] * delta[classes, None]
        for k, gk in zip(classes.tolist(), g, strict=True):
            gk -= coef @ systems.C[0, k] / systems.n[0, k] / s
        g = inverses.rotate(g.reshape(-1, len(s))).reshape(g.shape)
        for k, r_k, solved in zip(classes.tolist(), rest, inverses.solve(g), strict=True):
            mine = slot == k
            along = share * r_k + P[mine] @ solved.T
            tilted = pull * (share * r_k - solved @ h)
            self.scores[mine] += omega[mine] * (along - tilted * tilt[mine])
            some = mine[has_own]
            at_j = E[some] @ solved.T + tilted * lean[some]
            rows = has_own[some]
            self.scores[rows] -= omega[rows] * ratio[some] * at_j
