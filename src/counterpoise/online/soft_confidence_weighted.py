"""Soft confidence-weighted learning: CW that may give up on a row, at a price."""

from __future__ import annotations

from math import sqrt

from counterpoise import validation
from counterpoise.arrays import Vector
from counterpoise.online._kernels import SCW as KERNEL
from counterpoise.online.base import Loop, OnlineClassifier, State, covariance_times, shrink
from counterpoise.online.confidence_weighted import (
    MIN_VARIANCE,
    deviation_after,
    hard_step,
    quantile,
)

ETA = {"I": 0.75, "II": 0.9}


class SoftConfidenceWeighted(OnlineClassifier):
    """Soft confidence-weighted classifier (SCW).

    The constraint of :class:`ConfidenceWeighted`, φ √v − m ≤ 0, becomes a loss with price C, linear
    (I) or squared (II). After an update of II, φ √v − m = α/(2C).

    Parameters
    ----------
    variant : "I" or "II", default="I"
        Linear or squared loss.
    eta : float, optional
        Required probability of a right answer; LIBOL's 0.75 for I and 0.9 for II.
    C : float, default=1.0
        Price of the loss.
    covariance : "full" or "diagonal", default="full"
        What is kept of Σ.
    a : float, default=1.0
        Variance of each weight before the first row.
    fit_intercept : bool, default=True
        Append a constant feature.

    References
    ----------
    J. Wang, P. Zhao and S. C. H. Hoi, "Exact soft confidence-weighted learning", ICML 2012. SCW-II
    here meets its optimality condition; LIBOL's has two slips under the root.

    Examples
    --------
    >>> from counterpoise.online import SoftConfidenceWeighted
    >>> SoftConfidenceWeighted().fit([[1.0, 2.0], [3.0, 1.0]], [0, 1]).predict([[2.0, 0.0]])
    array([1])
    """

    _second_order = True
    _positive = ("C", "a")
    _choices = (("variant", "I", "II"), ("covariance", "full", "diagonal"))

    def __init__(
        self,
        *,
        variant: str = "I",
        eta: float | None = None,
        C: float = 1.0,
        covariance: str = "full",
        a: float = 1.0,
        fit_intercept: bool = True,
    ) -> None:
        self.variant = variant
        self.eta = eta
        self.C = C
        self.covariance = covariance
        self.a = a
        self.fit_intercept = fit_intercept

    def _check(self) -> None:
        super()._check()
        if self.eta is not None:
            validation.between(self, "eta", 0.5, 1.0)

    def _phi(self) -> float:
        return quantile(ETA[self.variant] if self.eta is None else self.eta)

    def step(self, s: State, x: Vector, y: float) -> bool:
        """Learn one row; see :meth:`OnlineClassifier.step`."""
        phi, m, Sx = self._phi(), y * float(s.w @ x), covariance_times(s.S, x)
        v = float(x @ Sx)
        if v <= MIN_VARIANCE or m >= phi * sqrt(v):
            return False
        if self.variant == "I":
            alpha = min(self.C, hard_step(phi, m, v))
        else:
            n = v + 1.0 / (2.0 * self.C)
            root = phi * sqrt(phi**2 * m**2 * v**2 + 4.0 * n * v * (n + v * phi**2))
            alpha = (root - (2.0 * m * n + phi**2 * m * v)) / (2.0 * (n**2 + n * v * phi**2))
            alpha = max(0.0, alpha)
        shrink(s.S, x, alpha * phi / deviation_after(phi, alpha, v))
        s.w += alpha * y * Sx
        return True

    def _kernel(self) -> Loop:
        return KERNEL[self.covariance], [self._phi(), self.C, float(self.variant == "II")]
