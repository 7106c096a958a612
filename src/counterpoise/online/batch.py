"""Batch least squares from sums, shared by LS and TER: start, add rows, solve."""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from counterpoise.arrays import Matrix, Vector
from counterpoise.online.state import State


def start(d: int) -> State:
    """Nothing seen yet.

    Parameters
    ----------
    d : int
        Number of weights.

    Returns
    -------
    State
        S holds Σ ω x xᵀ, z holds Σ ω x and n holds Σ ω, of the negative and the positive class.
    """
    return State(np.zeros(d), np.zeros((2, d, d)), np.zeros((2, d)))


def add(s: State, X: Matrix, y: Vector, weight: Vector) -> None:
    """Add rows to the sums, in place.

    Parameters
    ----------
    s : State
        The sums.
    X : ndarray of shape (n, d)
        The rows.
    y : ndarray of shape (n,)
        Targets, −1 or 1.
    weight : ndarray of shape (n,)
        Their weights.
    """
    for k, sign in enumerate((-1.0, 1.0)):
        mine, omega = X[y == sign], weight[y == sign]
        s.S[k] += (mine * omega[:, None]).T @ mine
        s.z[k] += omega @ mine
        s.n[k] += omega.sum()


def second_moment(s: State, b: float, balanced: bool) -> Matrix:
    """R = Σ_k α_k S_k + bI, where a class that was not seen drops out.

    Parameters
    ----------
    s : State
        The sums.
    b : float
        The ridge.
    balanced : bool
        α_k is 1/n_k, or 1.

    Returns
    -------
    ndarray of shape (d, d)
    """
    alpha = _alpha(s, balanced)
    R: Matrix = alpha[0] * s.S[0] + alpha[1] * s.S[1] + b * np.eye(len(s.w))
    return R


def covariance(s: State, b: float, balanced: bool) -> Matrix:
    """R⁻¹.

    Parameters
    ----------
    s : State
        The sums.
    b : float
        The ridge.
    balanced : bool
        α_k is 1/n_k, or 1.

    Returns
    -------
    ndarray of shape (d, d)
    """
    P: Matrix = np.linalg.inv(second_moment(s, b, balanced)).astype(np.float64, copy=False)
    return P


def solve(s: State, b: float, tau: float, eta: float, balanced: bool) -> Vector:
    """Weights, R⁻¹ Σ_k α_k (τ ± η) z_k.

    Parameters
    ----------
    s : State
        The sums.
    b : float
        The ridge.
    tau, eta : float
        Targets are τ − η and τ + η.
    balanced : bool
        α_k is 1/n_k, or 1.

    Returns
    -------
    ndarray of shape (d,)
    """
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
