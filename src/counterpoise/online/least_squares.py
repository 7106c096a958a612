"""Batch least squares from sums, shared by LS and TER: start, add rows, solve."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from counterpoise import validation
from counterpoise.arrays import Matrix, Vector
from counterpoise.online._kernels import BATCH as KERNEL
from counterpoise.online.base import OnlineClassifier, State, Weighted


def start(d: int) -> State:
    """Nothing seen yet."""
    return State(np.zeros(d), np.zeros((2, d, d)), np.zeros((2, d)))


def add(s: State, X: Matrix, y: Vector, weight: Vector) -> None:
    """Add rows to the sums, in place. Shapes: X (n, d), y (n,), weight (n,)."""
    for k, sign in enumerate((-1.0, 1.0)):
        mine, omega = X[y == sign], weight[y == sign]
        s.S[k] += (mine * omega[:, None]).T @ mine
        s.z[k] += omega @ mine
        s.n[k] += omega.sum()


def second_moment(s: State, b: float, balanced: bool) -> Matrix:
    """R = Σ_k α_k S_k + bI, where a class that was not seen drops out. Shape of the result: (d, "
    "d).
    """
    alpha = _alpha(s, balanced)
    R: Matrix = alpha[0] * s.S[0] + alpha[1] * s.S[1] + b * np.eye(len(s.w))
    return R


def covariance(s: State, b: float, balanced: bool) -> Matrix:
    """R⁻¹. Shape of the result: (d, d)."""
    P: Matrix = np.linalg.inv(second_moment(s, b, balanced)).astype(np.float64, copy=False)
    return P


def solve(s: State, b: float, tau: float, eta: float, balanced: bool) -> Vector:
    """Weights, R⁻¹ Σ_k α_k (τ ± η) z_k. Shape of the result: (d,)."""
    alpha = _alpha(s, balanced)
    z = alpha[0] * (tau - eta) * s.z[0] + alpha[1] * (tau + eta) * s.z[1]
    try:
        w: Vector = cho_solve(cho_factor(second_moment(s, b, balanced)), z)
    except np.linalg.LinAlgError:
        return np.full(len(z), np.nan)  # found out, and explained, by whoever takes the weights
    return w


def _alpha(s: State, balanced: bool) -> Vector:
    if not balanced:
        return np.ones(2)
    return np.divide(1.0, s.n, out=np.zeros(2), where=s.n > 0)


class LS(Weighted, OnlineClassifier):
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
    Se-In Jang, "Deterministic Online Classification: Non-iteratively Reweighted Recursive
    Least-Squares for Binary Class Rebalancing", ICML 2023, section 2.1.

    Examples
    --------
    >>> from counterpoise.online import LS
    >>> LS().fit([[1.0, 2.0], [3.0, 1.0]], [0, 1]).predict([[2.0, 0.0]])
    array([1])
    """

    def __init__(self, *, ridge: float = 1e-4, fit_intercept: bool = True) -> None:
        self.ridge = ridge
        self.fit_intercept = fit_intercept

    def _check(self) -> None:
        validation.positive(self, "ridge")

    def _start(self, d: int) -> State:
        return start(d)

    def _covariance(self, s: State) -> Matrix:
        return covariance(s, self.ridge, balanced=False)

    def step(self, s: State, x: Vector, y: float, omega: float = 1.0) -> bool:
        """Learn one row of weight omega; see :meth:`Perceptron.step`."""
        add(s, x[None], np.array([y]), np.array([omega]))
        s.w[:] = solve(s, self.ridge, 0.0, 1.0, balanced=False)
        return True

    def _learn(self, rows: Matrix, target: Vector, weight: Vector) -> None:
        s = self._state.copy()
        add(s, rows, target, weight)
        s.w[:] = solve(s, self.ridge, 0.0, 1.0, balanced=False)
        self._replace(s)

    def _work(self, d: int) -> int:
        return d * d

    def _kernel(self) -> tuple[Any, list[float]]:
        return KERNEL, [self.ridge, 0.0, 1.0, 0.0]
