"""ACOG: cost-sensitive online gradient descent along an adaptive covariance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from counterpoise import validation
from counterpoise.arrays import Vector
from counterpoise.online._kernels import ACOG as KERNEL
from counterpoise.online.base import Loop, OnlineClassifier, State, covariance_times, shrink


class ACOG(OnlineClassifier):
    """Adaptive regularized cost-sensitive online gradient descent (ACOG).

    A positive row counts ρ times: loss I is max(0, ρ_y − y f), loss II is ρ_y max(0, 1 − y f), with
    ρ_y = ρ for positives and 1 for negatives. If there is loss, first Σ⁻¹ ← Σ⁻¹ + x xᵀ/γ, then
    w ← w + learning_rate (1 or ρ_y) y Σx with the new Σ.

    Parameters
    ----------
    loss : "I" or "II", default="II"
        The class changes the margin, or the slope.
    metric : "sum" or "cost", default="sum"
        ρ is the ratio of negatives to positives, or the given one.
    rho : float, default=9.0
        ρ of the cost metric, c₊/c₋.
    class_totals : dict, optional
        Counts of both labels in the whole stream, for the sum metric; by default those so far.
    learning_rate : float, default=10.0
        Length of the step. After t rows Σ is about γ/t, and a step moves a score by about
        learning_rate/t: with 1 or less, scores hardly reach the margin. The authors' code has 10
        for the sum metric and 0.1 for the cost metric, with rows of length 1.
    gamma : float, default=1.0
        Larger shrinks Σ more slowly.
    covariance : "full" or "diagonal", default="full"
        What is kept of Σ.
    a : float, default=1.0
        Variance of each weight before the first row.
    fit_intercept : bool, default=True
        Append a constant feature.

    References
    ----------
    P. Zhao et al., "Adaptive cost-sensitive online classification", IEEE TKDE 31, 2019.

    Examples
    --------
    >>> from counterpoise.online import ACOG
    >>> ACOG().fit([[1.0, 2.0], [3.0, 1.0]], [0, 1]).predict([[2.0, 0.0]])
    array([1])
    """

    _second_order = True
    _positive = ("rho", "learning_rate", "gamma", "a")
    _choices = (("loss", "I", "II"), ("metric", "sum", "cost"), ("covariance", "full", "diagonal"))

    def __init__(
        self,
        *,
        loss: str = "II",
        metric: str = "sum",
        rho: float = 9.0,
        class_totals: Mapping[Any, float] | None = None,
        learning_rate: float = 10.0,
        gamma: float = 1.0,
        covariance: str = "full",
        a: float = 1.0,
        fit_intercept: bool = True,
    ) -> None:
        self.loss = loss
        self.metric = metric
        self.rho = rho
        self.class_totals = class_totals
        self.learning_rate = learning_rate
        self.gamma = gamma
        self.covariance = covariance
        self.a = a
        self.fit_intercept = fit_intercept

    def _check(self) -> None:
        super()._check()
        validation.check_label_dict(self, "class_totals")

    def _rho(self) -> float:
        """Return ρ, or −1 if it follows the counts."""
        if self.metric == "cost":
            return self.rho
        if self.class_totals is None:
            return -1.0
        try:
            negative, positive = (self.class_totals[label] for label in self.classes_.tolist())
        except KeyError as error:
            raise ValueError(f"class_totals has no entry for the label {error}") from None
        return negative / positive

    def step(self, s: State, x: Vector, y: float) -> bool:
        s.n[int(y > 0)] += 1.0
        rho = 1.0
        if y > 0:
            rho = self._rho() if self._rho() > 0 else s.n[0] / s.n[1]
        m = y * (s.w @ x)
        loss = rho - m if self.loss == "I" else rho * (1.0 - m)
        if loss <= 0:
            return False
        shrink(s.S, x, 1.0 / self.gamma)
        slope = 1.0 if self.loss == "I" else rho
        s.w += self.learning_rate * slope * y * covariance_times(s.S, x)
        return True

    def _kernel(self) -> Loop:
        parameters = [self.learning_rate, self.gamma, self._rho(), float(self.loss == "II")]
        return KERNEL[self.covariance], parameters
