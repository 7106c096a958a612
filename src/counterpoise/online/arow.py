"""Adaptive regularisation of weights: confidence-weighted learning that survives noise."""

from __future__ import annotations

from counterpoise.arrays import Vector
from counterpoise.online._kernels import AROW as KERNEL
from counterpoise.online.base import Loop, OnlineClassifier, State, covariance_times, shrink


class AROW(OnlineClassifier):
    """Adaptive regularisation of weight vectors (AROW).

    While the margin is below 1: β = 1/(v + r), w ← w + β (1 − y f) y Σx, Σ⁻¹ ← Σ⁻¹ + x xᵀ/r, with
    v = xᵀΣx.

    Parameters
    ----------
    r : float, default=1.0
        Larger is slower. LIBOL calls it C; Jubatus uses 1/r.
    covariance : "full", "diagonal" or "diagonal-drop", default="full"
        What is kept of Σ: all; the diagonal of Σ⁻¹; or the diagonal of the update of Σ, as in
        Jubatus.
    a : float, default=1.0
        Variance of each weight before the first row.
    fit_intercept : bool, default=True
        Append a constant feature.

    References
    ----------
    K. Crammer, A. Kulesza and M. Dredze, "Adaptive regularization of weight vectors", NIPS 2009.

    Examples
    --------
    >>> from counterpoise.online import AROW
    >>> AROW().fit([[1.0, 2.0], [3.0, 1.0]], [0, 1]).predict([[2.0, 0.0]])
    array([1])
    """

    _second_order = True
    _positive = ("r", "a")
    _choices = (("covariance", "full", "diagonal", "diagonal-drop"),)

    def __init__(
        self,
        *,
        r: float = 1.0,
        covariance: str = "full",
        a: float = 1.0,
        fit_intercept: bool = True,
    ) -> None:
        self.r = r
        self.covariance = covariance
        self.a = a
        self.fit_intercept = fit_intercept

    def step(self, s: State, x: Vector, y: float) -> bool:
        loss = 1.0 - y * (s.w @ x)
        if loss <= 0:
            return False
        Sx = covariance_times(s.S, x)
        s.w += loss / (x @ Sx + self.r) * y * Sx
        shrink(s.S, x, 1.0 / self.r, drop=self.covariance == "diagonal-drop")
        return True

    def _kernel(self) -> Loop:
        return KERNEL[self.covariance], [self.r]
