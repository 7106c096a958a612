"""All that an online rule has learned."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Vector


@dataclass(eq=False)
class State:
    """All that a rule has learned.

    Attributes
    ----------
    w : ndarray of shape (d,)
        Weights, that of the constant last.
    S : ndarray
        Factor R of the covariance or inverse second moment RᵀR, (d, d), or its diagonal, (d,); for
        some rules moments.
    z : ndarray of shape (2, d) or (d,)
        First moments of the negative and the positive class, or units of the columns, where a rule
        keeps them.
    n : ndarray of shape (2,)
        Counts of the negative and the positive class.
    stored : ndarray of shape (2, room, d)
        Rows of each class, where a rule keeps them.
    tau : float
        The threshold that the weights were learned for.
    made_for : tuple
        The parameters that decided the shapes of these arrays.
    """

    w: Vector
    S: NDArray[np.float64] = field(default_factory=lambda: np.zeros(1))
    z: NDArray[np.float64] = field(default_factory=lambda: np.zeros(1))
    n: Vector = field(default_factory=lambda: np.zeros(2))
    stored: NDArray[np.float64] = field(default_factory=lambda: np.zeros(1))
    tau: float = 0.0
    made_for: tuple[Any, ...] = ()

    def copy(self) -> State:
        """An independent copy, in the tenth part of what ``deepcopy`` takes."""
        w, S, z, n = self.w.copy(), self.S.copy(), self.z.copy(), self.n.copy()
        return State(w, S, z, n, self.stored.copy(), self.tau, self.made_for)
