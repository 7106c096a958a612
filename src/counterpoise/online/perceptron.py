"""Perceptron (Rosenblatt, 1958): on a mistake, w ← w + y x."""

from __future__ import annotations

from counterpoise.arrays import Vector
from counterpoise.online._kernels import PERCEPTRON as KERNEL
from counterpoise.online.base import Loop, OnlineClassifier, State


class Perceptron(OnlineClassifier):
    """Perceptron.

    Parameters
    ----------
    ties : "libol" or "strict", default="libol"
        A score of exactly 0 counts as positive, as LIBOL has it, so that a first positive row
        changes nothing; or as a mistake either way, as scikit-learn has it.
    fit_intercept : bool, default=True
        Append a constant feature.

    References
    ----------
    F. Rosenblatt, "The perceptron", Psychological Review 65, 1958; LIBOL's ``Perceptron``.

    Examples
    --------
    >>> from counterpoise.online import Perceptron
    >>> Perceptron(fit_intercept=False).fit([[1.0, 2.0], [3.0, 1.0]], [0, 1]).coef_
    array([[ 2., -1.]])
    """

    _choices = (("ties", "libol", "strict"),)

    def __init__(self, *, ties: str = "libol", fit_intercept: bool = True) -> None:
        self.ties = ties
        self.fit_intercept = fit_intercept

    def step(self, s: State, x: Vector, y: float) -> bool:
        f = float(s.w @ x)
        mistake = y * f <= 0 if self.ties == "strict" else (f >= 0) != (y > 0)
        if mistake:
            s.w += y * x
        return mistake

    def _kernel(self) -> Loop:
        return KERNEL, [float(self.ties == "strict")]
