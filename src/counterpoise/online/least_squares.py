"""Batch least squares from sums: LS, and TER, in which every class has the same total weight."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from counterpoise import validation
from counterpoise.arrays import Matrix, Vector
from counterpoise.online._kernels import BATCH as KERNEL
from counterpoise.online.base import Loop, OnlineClassifier, SampleWeightMixin, State


class BatchLeastSquares(SampleWeightMixin, OnlineClassifier):
    """Weights that solve R w = Σ_k α_k (τ ± η) z_k with R = Σ_k α_k S_k + bI.

    S_k, z_k and n_k are sums over the rows of class k, of x xᵀ, x and 1. α_k is 1, or 1/n_k if
    classes are balanced; then a class that was not seen drops out.
    """

    ridge: float
    eta: float = 1.0
    _balanced = False
    _positive = ("ridge", "eta")

    def _start(self, d: int) -> State:
        return State(np.zeros(d), np.zeros((2, d, d)), np.zeros((2, d)))

    def _add_rows(self, s: State, X: Matrix, y: Vector, weight: Vector) -> None:
        """Add rows X (n, d) to the sums, and solve."""
        for k, sign in enumerate((-1.0, 1.0)):
            mine, omega = X[y == sign], weight[y == sign]
            s.S[k] += (mine * omega[:, None]).T @ mine
            s.z[k] += omega @ mine
            s.n[k] += omega.sum()
        alpha = self._alpha(s)
        z = alpha[0] * (self.tau - self.eta) * s.z[0] + alpha[1] * (self.tau + self.eta) * s.z[1]
        try:
            s.w[:] = cho_solve(cho_factor(self._second_moment(s)), z)
        except np.linalg.LinAlgError:
            s.w[:] = np.nan  # _replace explains it

    def _alpha(self, s: State) -> Vector:
        if not self._balanced:
            return np.ones(2)
        return np.divide(1.0, s.n, out=np.zeros(2), where=s.n > 0)

    def _second_moment(self, s: State) -> Matrix:
        alpha = self._alpha(s)
        R: Matrix = alpha[0] * s.S[0] + alpha[1] * s.S[1] + self.ridge * np.eye(len(s.w))
        return R

    def _covariance(self, s: State) -> Matrix:
        P: Matrix = np.linalg.inv(self._second_moment(s)).astype(np.float64, copy=False)
        return P

    def step(self, s: State, x: Vector, y: float, omega: float = 1.0) -> bool:
        """Learn one row of weight omega; see :meth:`OnlineClassifier.step`."""
        self._add_rows(s, x[None], np.array([y]), np.array([omega]))
        return True

    def _learn(self, rows: Matrix, target: Vector, weight: Vector) -> None:
        s = self._state.copy()
        self._add_rows(s, rows, target, weight)
        self._replace(s)

    def _work(self, d: int) -> int:
        return d * d

    def _kernel(self) -> Loop:
        return KERNEL, [self.ridge, self.tau, self.eta, float(self._balanced)]


class LS(BatchLeastSquares):
    """Least squares on ±1: minimise ½ Σ (y − w·x)² + b/2 ‖w‖², eq. (1) and (2) of the paper.

    ``partial_fit`` adds to the sums and solves again, so it is the batch solution on everything
    seen so far.

    Parameters
    ----------
    ridge : float, default=1e-4
        b.
    fit_intercept : bool, default=True
        Append a constant feature.

    References
    ----------
    The paper, named in :mod:`counterpoise.online`, section 2.1.

    Examples
    --------
    >>> from counterpoise.online import LS
    >>> LS().fit([[1.0, 2.0], [3.0, 1.0]], [0, 1]).predict([[2.0, 0.0]])
    array([1])
    """

    def __init__(self, *, ridge: float = 1e-4, fit_intercept: bool = True) -> None:
        self.ridge = ridge
        self.fit_intercept = fit_intercept


class TER(BatchLeastSquares):
    """Total error rate (TER): class-weighted least squares, eq. (3) and (4) of the paper.

    Targets are τ − η and τ + η, each row weighs 1 over the count of its class, and the decision
    falls at τ. ``partial_fit`` adds to the sums and solves again, so it is the batch solution on
    everything seen so far.

    Parameters
    ----------
    ridge : float, default=1e-4
        b; about n/2 times stronger here than in :class:`LS`, whose rows weigh 1.
    tau : float, default=0.0
        Threshold.
    eta : float, default=1.0
        Offset of the targets from the threshold.
    fit_intercept : bool, default=True
        Append a constant feature.

    References
    ----------
    The paper, named in :mod:`counterpoise.online`, section 2.2.

    Examples
    --------
    >>> from counterpoise.online import TER
    >>> TER().fit([[1.0, 2.0], [3.0, 1.0]], [0, 1]).predict([[2.0, 0.0]])
    array([1])
    """

    _balanced = True

    def __init__(
        self, *, ridge: float = 1e-4, tau: float = 0.0, eta: float = 1.0, fit_intercept: bool = True
    ) -> None:
        self.ridge = ridge
        self.tau = tau
        self.eta = eta
        self.fit_intercept = fit_intercept

    def _check(self) -> None:
        super()._check()
        validation.require_between(self, "tau", -float("inf"), float("inf"))
