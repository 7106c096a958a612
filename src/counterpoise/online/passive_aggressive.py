"""Passive-aggressive learning: the smallest step that gives the row a margin of 1."""

from __future__ import annotations

from counterpoise.arrays import Vector
from counterpoise.online._kernels import PA as KERNEL
from counterpoise.online.base import Loop, OnlineClassifier, State


class PassiveAggressive(OnlineClassifier):
    """Passive-aggressive classifier.

    With loss l = max(0, 1 − y f) and s = ‖x‖² it moves by w ← w + g y x, where g is l/s (PA),
    min(C, l/s) (PA-I) or l/(s + 1/(2C)) (PA-II).

    Parameters
    ----------
    variant : "PA", "PA-I" or "PA-II", default="PA"
        Which step.
    C : float, default=1.0
        Aggressiveness of PA-I and PA-II.
    fit_intercept : bool, default=True
        Append a constant feature, which counts in ‖x‖² (scikit-learn and river leave it out).

    References
    ----------
    K. Crammer et al., "Online passive-aggressive algorithms", JMLR 7, 2006.

    Examples
    --------
    >>> from counterpoise.online import PassiveAggressive
    >>> model = PassiveAggressive().fit([[1.0, 2.0], [3.0, 1.0]], [0, 1])
    >>> model.decision_function([[3.0, 1.0]]).round(12).tolist()
    [1.0]
    """

    _positive = ("C",)
    _choices = (("variant", "PA", "PA-I", "PA-II"),)

    def __init__(self, *, variant: str = "PA", C: float = 1.0, fit_intercept: bool = True) -> None:
        self.variant = variant
        self.C = C
        self.fit_intercept = fit_intercept

    def step(self, s: State, x: Vector, y: float) -> bool:
        loss = 1.0 - y * float(s.w @ x)
        if loss <= 0:
            return False
        norm = float(x @ x) + (1.0 / (2.0 * self.C) if self.variant == "PA-II" else 0.0)
        if norm > 0:
            gain = loss / norm
            s.w += (min(self.C, gain) if self.variant == "PA-I" else gain) * y * x
        return True

    def _kernel(self) -> Loop:
        cap = self.C if self.variant == "PA-I" else float("inf")
        return KERNEL, [cap, 1.0 / (2.0 * self.C) if self.variant == "PA-II" else 0.0]
