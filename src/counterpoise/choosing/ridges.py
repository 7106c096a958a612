"""Affine scores for several ridges: what one look at the moments of a candidate finds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Matrix, Rows, Vector
from counterpoise.exact.solution import Linear


@dataclass(frozen=True, eq=False)
class Ridges:
    """Affine scores for several ridges.

    Attributes
    ----------
    anchor : ndarray of shape (d,)
        Where the offsets are the scores.
    coef : ndarray of shape (r, problems, d)
        Weights.
    offset : ndarray of shape (r, problems)
        Scores at the anchor.
    """

    anchor: Vector
    coef: NDArray[np.float64]
    offset: Matrix

    def of(self, Z: Rows) -> NDArray[np.float64]:
        """Scores of rows, of which there are few, of shape (n, r, problems)."""
        r, c, d = self.coef.shape
        Z = Z if isinstance(Z, np.ndarray) else Z.toarray()
        f = (Z - self.anchor) @ self.coef.reshape(r * c, d).T
        scores: NDArray[np.float64] = f.reshape(-1, r, c) + self.offset
        return scores

    def weighted(self, share: Vector, ridge: float) -> Linear:
        """The weighted sum of them all, given r weights; ``ridge`` is what it is said to have."""
        coef = np.tensordot(share, self.coef, 1)
        return Linear(self.anchor, coef, share @ self.offset, ridge)

    def placed(self, at: NDArray[np.intp], d: int) -> Ridges:
        """The same with feature j at place at[j] of d; the others count for nothing."""
        anchor, coef = np.zeros(d), np.zeros((*self.coef.shape[:2], d))
        anchor[at], coef[..., at] = self.anchor, self.coef
        return Ridges(anchor, coef, self.offset)
