"""Covariances of the second-order rules: a full matrix, or its diagonal.

``spread`` is Σx. ``shrink`` adds c x xᵀ to Σ⁻¹, which is Σ ← Σ − c/(1 + c v) Σx xᵀΣ with v = xᵀΣx;
of a diagonal Σ only the diagonal of Σ⁻¹ + c x xᵀ is kept ("diagonal"), or of the formula itself
("diagonal-drop").
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Vector


def start(d: int, a: float, covariance: str) -> NDArray[np.float64]:
    """Σ = a I.

    Parameters
    ----------
    d : int
        Number of weights.
    a : float
        Variance of each.
    covariance : "full", "diagonal" or "diagonal-drop"
        What is kept.

    Returns
    -------
    ndarray of shape (d, d) or (d,)
    """
    return a * np.eye(d) if covariance == "full" else np.full(d, a)


def spread(S: NDArray[np.float64], x: Vector) -> Vector:
    """Σx.

    Parameters
    ----------
    S : ndarray of shape (d, d) or (d,)
        Σ or its diagonal.
    x : ndarray of shape (d,)
        A row.

    Returns
    -------
    ndarray of shape (d,)
    """
    return S @ x if S.ndim == 2 else S * x


def shrink(S: NDArray[np.float64], x: Vector, c: float, drop: bool = False) -> None:
    """Σ⁻¹ ← Σ⁻¹ + c x xᵀ, in place.

    Parameters
    ----------
    S : ndarray of shape (d, d) or (d,)
        Σ or its diagonal.
    x : ndarray of shape (d,)
        A row.
    c : float
        Its weight.
    drop : bool, default=False
        For a diagonal: take the diagonal of the formula for Σ, not for Σ⁻¹.
    """
    Sx = spread(S, x)
    factor = c / (1.0 + c * (x @ Sx))
    if S.ndim == 2:
        S -= factor * np.outer(Sx, Sx)
    elif drop:
        S -= factor * Sx**2
    else:
        S /= 1.0 + c * Sx * x
