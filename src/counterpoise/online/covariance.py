"""Covariances of the second-order rules: a factor of the full matrix, or the diagonal.

A full Σ is kept as R, upper triangular with Σ = RᵀR, which is positive definite whatever is rounded
as long as the diagonal of R is positive. ``shrink`` adds c x xᵀ to Σ⁻¹, which is
Σ ← Σ − c/(1 + c v) Σx xᵀΣ with v = xᵀΣx, in Carlson's form (AIAA Journal 11, 1973): with f = Rx and
α_j = 1 + c Σ_{k≥j} f_k², row j of R becomes √(α_{j+1}/α_j) R_j − c f_j/√(α_j α_{j+1}) Σ_{k>j} f_k R_k.
Of a diagonal Σ only the diagonal of Σ⁻¹ + c x xᵀ is kept ("diagonal"), or of the formula itself
("diagonal-drop").
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Vector

UNIT = 16  # the power of two by which the unit of weights changes
CEILING = 20  # exponent that no entry of R grows beyond by a change of unit,
WEIGHT = 40  # nor a weight,
FAR = 200  # nor one that no row has touched meanwhile
SURE = 10  # exponent of weight over deviation that is still in proportion


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
        R or the diagonal of Σ.
    """
    return sqrt(a) * np.eye(d) if covariance == "full" else np.full(d, a)


def matrix(S: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ or its diagonal.

    Parameters
    ----------
    S : ndarray of shape (d, d) or (d,)
        R or the diagonal of Σ.

    Returns
    -------
    ndarray of shape (d, d) or (d,)
    """
    return S.T @ S if S.ndim == 2 else S.copy()


def definite(S: NDArray[np.float64]) -> bool:
    """Whether Σ is finite and positive definite.

    Parameters
    ----------
    S : ndarray of shape (d, d) or (d,)
        R or the diagonal of Σ.

    Returns
    -------
    bool
    """
    diagonal = S.diagonal() if S.ndim == 2 else S
    return bool(np.isfinite(S).all() and (diagonal > 0.0).all())


def is_factor(S: NDArray[np.float64]) -> bool:
    """Whether S can be R, or the diagonal of Σ, at all.

    Parameters
    ----------
    S : ndarray of shape (d, d) or (d,)
        What a file holds.

    Returns
    -------
    bool
    """
    return S.ndim == 1 or not np.tril(S, -1).any()


def spread(S: NDArray[np.float64], x: Vector) -> Vector:
    """Σx.

    Parameters
    ----------
    S : ndarray of shape (d, d) or (d,)
        R or the diagonal of Σ.
    x : ndarray of shape (d,)
        A row.

    Returns
    -------
    ndarray of shape (d,)
    """
    return S.T @ (S @ x) if S.ndim == 2 else S * x


def shrink(S: NDArray[np.float64], x: Vector, c: float, drop: bool = False) -> None:
    """Σ⁻¹ ← Σ⁻¹ + c x xᵀ, in place.

    Parameters
    ----------
    S : ndarray of shape (d, d) or (d,)
        R or the diagonal of Σ.
    x : ndarray of shape (d,)
        A row.
    c : float
        Its weight.
    drop : bool, default=False
        For a diagonal: take the diagonal of the formula for Σ, not for Σ⁻¹.
    """
    if S.ndim == 2:
        f, after, Sx = S @ x, 1.0, np.zeros(len(x))
        for j in reversed(range(len(x))):
            row, before, after = S[j].copy(), after, after + c * f[j] ** 2
            S[j] = sqrt(before / after) * row - c * f[j] / sqrt(before * after) * Sx
            Sx += f[j] * row
    elif drop:
        S -= c / (1.0 + c * (x @ (S * x))) * (S * x) ** 2
    else:
        S /= 1.0 + c * S * x**2


def rescale(S: NDArray[np.float64], w: Vector) -> None:
    """(w, Σ) ← (u w, u² Σ) with u = 2^UNIT, exactly and in place, up to ceilings.

    A row of R that would grow beyond its ceiling grows up to it only: no row of the stream has
    touched it while all else shrank billions of times. The part of w along it does the same, unless
    it is out of all proportion to R. If the rest of w would grow beyond its ceiling, Σ grows alone:
    it has become so small beside w that only its shape matters.

    Parameters
    ----------
    S : ndarray of shape (d, d) or (d,)
        R or the diagonal of Σ.
    w : ndarray of shape (d,)
        Weights.
    """
    unit = 2.0**UNIT
    R = S if S.ndim == 2 else np.diag(np.sqrt(S))
    if S.ndim == 2:
        exponents = np.frexp(np.abs(S).max(axis=1))[1]
    else:
        exponents = (np.frexp(S)[1] + 1) // 2
    power = np.exp2(np.minimum(UNIT, CEILING - exponents))
    ceiling = power != unit
    g, rest = np.zeros(len(w)), w.copy()
    for j in range(len(w) if ceiling.any() else 0):  # w = Rᵀg
        g[j] = rest[j] / R[j, j]
        rest -= g[j] * R[j]
    for j in np.flatnonzero(ceiling):
        w -= g[j] * R[j]
    lift = unit if np.frexp(np.abs(w).max())[1] <= WEIGHT - UNIT else 1.0
    w *= lift
    for j in np.flatnonzero(ceiling):
        out_of_proportion = 1.0 if abs(g[j]) * 2.0**CEILING > 2.0**FAR else lift
        w += (power[j] if abs(g[j]) < 2.0**SURE else out_of_proportion) * g[j] * R[j]
    S *= power[:, None] if S.ndim == 2 else power**2
