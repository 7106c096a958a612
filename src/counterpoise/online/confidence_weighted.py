"""Confidence-weighted learning: a Gaussian over weights that must be sure of each row."""

from __future__ import annotations

from math import sqrt
from typing import Any

from scipy.stats import norm

from counterpoise import validate
from counterpoise._kernels import CW as KERNEL
from counterpoise.arrays import Vector
from counterpoise.online import covariance as cov
from counterpoise.online.rule import OnlineRule, State

TINY = 1e-300


class ConfidenceWeighted(OnlineRule):
    """Confidence-weighted classifier (CW).

    With φ the normal quantile of eta, margin m = y w·x and v = xᵀΣx, the least change of the
    Gaussian (w, Σ) that makes m ≥ φ √v ("deviation") or m ≥ φ v ("variance").

    Parameters
    ----------
    eta : float, default=0.7
        Probability of a right answer that is asked for, above 0.5 and below 1.
    form : "deviation" or "variance", default="deviation"
        The exact convex form of LIBOL, or the form of 2008.
    covariance : "full" or "diagonal", default="full"
        What is kept of Σ.
    a : float, default=1.0
        Variance of each weight before the first row.
    fit_intercept : bool, default=True
        Append a constant feature.

    References
    ----------
    M. Dredze, K. Crammer and F. Pereira, "Confidence-weighted linear classification", ICML 2008;
    K. Crammer, M. Dredze and F. Pereira, "Exact convex confidence-weighted learning", NIPS 2008.

    Examples
    --------
    >>> from counterpoise.online import ConfidenceWeighted
    >>> ConfidenceWeighted().fit([[1.0, 2.0], [3.0, 1.0]], [0, 1]).predict([[2.0, 0.0]])
    array([1])
    """

    def __init__(
        self,
        *,
        eta: float = 0.7,
        form: str = "deviation",
        covariance: str = "full",
        a: float = 1.0,
        fit_intercept: bool = True,
    ) -> None:
        self.eta = eta
        self.form = form
        self.covariance = covariance
        self.a = a
        self.fit_intercept = fit_intercept

    def _check(self) -> None:
        validate.between(self, "eta", 0.5, 1.0)
        validate.one_of(self, "form", ("deviation", "variance"))
        validate.one_of(self, "covariance", ("full", "diagonal"))
        validate.positive(self, "a")

    def _start(self, d: int) -> State:
        return State(super()._start(d).w, cov.start(d, self.a, self.covariance))

    def step(self, s: State, x: Vector, y: float) -> bool:
        """Learn one row; see :meth:`Perceptron.step`."""
        phi, m, Sx = float(norm.ppf(self.eta)), y * float(s.w @ x), cov.spread(s.S, x)
        v = float(x @ Sx)
        if self.form == "variance":
            if v <= TINY or m >= phi * v:
                return False
            q = 1.0 + 2.0 * phi * m
            alpha = (-q + sqrt(q**2 - 8.0 * phi * (m - phi * v))) / (4.0 * phi * v)
            c = 2.0 * alpha * phi
        else:
            if v <= TINY or m >= phi * sqrt(v):
                return False
            alpha = hard_step(phi, m, v)
            c = confidence(phi, alpha, v)
        s.w += alpha * y * Sx
        cov.shrink(s.S, x, c)
        return True

    def _kernel(self) -> tuple[Any, list[float]]:
        return KERNEL[self.form][self.covariance], [float(norm.ppf(self.eta))]


def hard_step(phi: float, m: float, v: float) -> float:
    """The step α that satisfies the constraint of the deviation form with equality.

    Parameters
    ----------
    phi, m, v : float
        Quantile, margin, and variance of the margin.

    Returns
    -------
    float
    """
    psi, xi = 1.0 + phi**2 / 2.0, 1.0 + phi**2
    return max(0.0, (-m * psi + sqrt(m**2 * phi**4 / 4.0 + v * phi**2 * xi)) / (v * xi))


def confidence(phi: float, alpha: float, v: float) -> float:
    """The c that shrinks Σ along with a step α.

    Parameters
    ----------
    phi, alpha, v : float
        Quantile, step, and variance of the margin.

    Returns
    -------
    float
    """
    root_u = (-alpha * v * phi + sqrt(alpha**2 * v**2 * phi**2 + 4.0 * v)) / 2.0
    return alpha * phi / root_u
