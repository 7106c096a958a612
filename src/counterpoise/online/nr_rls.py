"""NR-RLS: the recursion of the paper's Algorithm 1, equation by equation."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Vector
from counterpoise.online._kernels import NR_RLS as KERNEL
from counterpoise.online.base import Loop, OnlineClassifier, State


class NRRLS(OnlineClassifier):
    """Non-iteratively reweighted recursive least squares (NR-RLS), equal to :class:`TER`.

    Its inverse is propagated from row to row and drifts, and each row costs a general d × d solve;
    :class:`~counterpoise.BalancedRidgeClassifier` gives the same weights without either.

    Parameters
    ----------
    ridge : float, default=1e-4
        b: P starts as I/b.
    symmetrize : bool, default=False
        Make P symmetric again after every row; it gains little (paper/results/coefficients.md).
    fit_intercept : bool, default=True
        Append a constant feature.

    References
    ----------
    The paper, named in :mod:`counterpoise.online`, Algorithm 1.

    Examples
    --------
    >>> from counterpoise.online import NRRLS, TER
    >>> X, y = [[1.0, 2.0], [3.0, 1.0], [2.0, 2.0]], [0, 1, 1]
    >>> one, two = NRRLS(ridge=1.0).fit(X, y), TER(ridge=1.0).fit(X, y)
    >>> one.coef_.round(6).tolist() == two.coef_.round(6).tolist()
    True
    """

    _positive = ("ridge",)
    _flags = ("fit_intercept", "symmetrize")

    def __init__(
        self, *, ridge: float = 1e-4, symmetrize: bool = False, fit_intercept: bool = True
    ) -> None:
        self.ridge = ridge
        self.symmetrize = symmetrize
        self.fit_intercept = fit_intercept

    def _start(self, d: int) -> State:
        # P, kept transposed because LAPACK reads by columns, and the moments S of both classes.
        S = np.concatenate([np.eye(d)[None] / self.ridge, np.zeros((2, d, d))])
        return State(np.zeros(d), S, np.zeros((2, d)))

    def _covariance(self, s: State) -> NDArray[np.float64]:
        return np.asarray(s.S[0].T.copy())

    def _is_definite(self, s: State) -> bool:
        try:
            np.linalg.cholesky((s.S[0] + s.S[0].T) / 2.0)
        except np.linalg.LinAlgError:
            return False
        return bool(np.isfinite(s.S).all())

    def step(self, s: State, x: Vector, y: float) -> bool:
        k = int(y > 0)
        P, S, z = s.S[0].T, s.S[1 + k], s.z[k]
        # n^k ← n^k + 1, β = 1/n^k of the arriving class (the printed β of the other is 0/0)
        s.n[k] += 1.0
        beta = 1.0 / s.n[k]
        # G⁻¹ = R⁻¹ + R⁻¹ (I − β S R⁻¹)⁻¹ β S R⁻¹
        A = beta * S @ P
        G = P + P @ np.linalg.solve(np.eye(len(x)) - A, A)
        # R⁻¹ = G⁻¹ − G⁻¹ (I + β x xᵀ G⁻¹)⁻¹ β x xᵀ G⁻¹
        Gx = G @ x
        P[:] = G - beta / (1.0 + beta * (x @ Gx)) * np.outer(Gx, x @ G)
        if self.symmetrize:
            P[:] = (P + P.T) / 2.0
        # S^k ← S^k + β (x xᵀ − S^k),  z^k ← z^k + β (y x − z^k),  w = R⁻¹ (z⁻ + z⁺)
        S += beta * (np.outer(x, x) - S)
        z += beta * (y * x - z)
        s.w[:] = P @ (s.z[0] + s.z[1])
        return True

    def _work(self, d: int) -> int:
        return 3 * d + 2 * d * d

    def _kernel(self) -> Loop:
        return KERNEL, [float(self.symmetrize)]
