"""Covariances of the second-order rules: a factor of the full matrix, or the diagonal.

A full Σ is kept as R, upper triangular with Σ = RᵀR, which is positive definite whatever is rounded
as long as the diagonal of R is positive. ``shrink`` adds c x xᵀ to Σ⁻¹, which is
Σ ← Σ − c/(1 + c v) Σx xᵀΣ with v = xᵀΣx, in Carlson's form (AIAA Journal 11, 1973): with f = Rx
and α_j = 1 + c Σ_{k≥j} f_k², row j of R becomes
√(α_{j+1}/α_j) R_j − c f_j/√(α_j α_{j+1}) Σ_{k>j} f_k R_k. Of a diagonal Σ only the diagonal of
Σ⁻¹ + c x xᵀ is kept ("diagonal"), or of the formula itself ("diagonal-drop").
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from counterpoise.arrays import Vector

EXPONENT_GAP = (
    24  # powers of two between sizes that outweigh each other, as far as they are kept apart
)
MAX_RATIO_EXPONENT = 10  # exponent of weight over deviation that is still in proportion
NEAR = 16  # largest exponent of rows of R after a change of unit: noise grows with its square,
FAR = 300  # and of a diagonal, and of w


def start(d: int, a: float, covariance: str) -> NDArray[np.float64]:
    """Σ = a I. Shape of the result: (d, d)."""
    return sqrt(a) * np.eye(d) if covariance == "full" else np.full(d, a)


def matrix(S: NDArray[np.float64]) -> NDArray[np.float64]:
    """Σ or its diagonal. Shapes: S (d, d); returns (d, d)."""
    return S.T @ S if S.ndim == 2 else S.copy()


def definite(S: NDArray[np.float64]) -> bool:
    """Whether Σ is finite and positive definite. Shapes: S (d, d)."""
    diagonal = S.diagonal() if S.ndim == 2 else S
    return bool(np.isfinite(S).all() and (diagonal > 0.0).all())


def is_factor(S: NDArray[np.float64]) -> bool:
    """Whether S can be R, or the diagonal of Σ, at all. Shapes: S (d, d)."""
    return S.ndim == 1 or not np.tril(S, -1).any()


def spread(S: NDArray[np.float64], x: Vector) -> Vector:
    """Σx. Shapes: S (d, d), x (d,); returns (d,)."""
    return S.T @ (S @ x) if S.ndim == 2 else S * x


def shrink(S: NDArray[np.float64], x: Vector, c: float, drop: bool = False) -> None:
    """Σ⁻¹ ← Σ⁻¹ + c x xᵀ, in place. Shapes: S (d, d), x (d,)."""
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


def rescale(S: NDArray[np.float64], w: Vector, unit: Vector, anchor: int) -> None:
    """(w, Σ) ← (u w, u² Σ) with u = 2^−anchor, exactly and in place, as far as floats reach.

    Rows of R that no row of the stream touches while all else shrinks, and a w that stays while Σ
    shrinks, would be left behind without end. So wherever the exponents of rows of R and of the
    parts of w, which is Rᵀg, lie further apart than a gap, they are brought together up to it: what
    outweighs all else goes on to do so. The part of w along a row of R that is in proportion to it
    moves as the row does. Sizes are compared in the units of the columns.

    Shapes: S (d, d), w (d,), unit (d,).
    """
    R = S if S.ndim == 2 else np.diag(np.sqrt(S))
    size = np.abs(R * unit).max(axis=1)
    g = solve_triangular(R, w, trans="T")
    of_row: NDArray[np.intp] = np.frexp(size)[1].astype(np.intp)
    of_part = np.where(np.abs(g) < 2.0**MAX_RATIO_EXPONENT, of_row, np.frexp(np.abs(g) * size)[1])
    levels = sorted({anchor, *of_row.tolist(), *of_part.tolist()})
    places = np.cumsum([0, *np.minimum(EXPONENT_GAP, np.diff(levels))])
    places -= places[levels.index(anchor)]
    to = dict(zip(levels, np.clip(places, -FAR, FAR).tolist(), strict=True))
    near = NEAR if S.ndim == 2 else FAR
    power = np.array([min(near, to[e]) - e for e in of_row.tolist()])
    lift = np.array([to[e] - e for e in of_part.tolist()])
    lift[of_part == of_row] = power[of_part == of_row]
    w *= 2.0**-anchor
    for j in np.flatnonzero(lift != -anchor):
        w += (2.0 ** lift[j] - 2.0**-anchor) * g[j] * R[j]
    S *= np.exp2(power)[:, None] if S.ndim == 2 else np.exp2(2 * power)
