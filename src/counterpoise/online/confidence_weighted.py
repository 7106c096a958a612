"""Confidence-weighted learning: a Gaussian over weights that must be sure of each row."""

from __future__ import annotations

from functools import cache
from math import frexp, inf, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np

from counterpoise import validation
from counterpoise.arrays import Vector
from counterpoise.modelfile.container import Contents, check_file
from counterpoise.online import covariance as cov
from counterpoise.online._kernels import CW as KERNEL
from counterpoise.online.base import OnlineClassifier, State

TINY = 1e-300
SMALL = 2.0**-32  # variance of a typical row below which weights change their unit,
LARGE = 2.0**60  # and a weight above which they do


class ConfidenceWeighted(OnlineClassifier):
    """Confidence-weighted classifier (CW).

    With φ the normal quantile of eta, margin m = y w·x and v = xᵀΣx, the least change of the
    Gaussian (w, Σ) that makes m ≥ φ √v ("deviation") or m ≥ φ v ("variance").

    The deviation form knows w only up to a positive factor: (u w, u²Σ) decides and learns as (w, Σ)
    does. On noisy streams both shrink without end, so once the variance of a typical row falls
    below 2⁻³², w is multiplied by a power of two and Σ by its square, which is exact. Scores,
    ``coef_`` and ``covariance_`` are in the unit of the time; decisions do not depend on it, and
    are those of arithmetic without bounds. Two exceptions: directions that no row touches
    meanwhile keep a variance 2³² times that of the rest and no more, and a diagonal Σ shrinks
    faster than any power beside w, so of it only what outweighs what is kept.

    For this each value is taken beside the typical size of its column, so units do not matter: with
    columns in other units, and the first Σ in the same ones, scores are bit-identical if the
    units differ by powers of two, and decisions equal to rounding if they do not (of a diagonal Σ
    they may differ). The first Σ as defined is a I in whatever units the columns have, so columns
    of larger values have more say at first; scale them if they should not.

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

    _second_order = True

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
        validation.between(self, "eta", 0.5, 1.0)
        validation.one_of(self, "form", ("deviation", "variance"))
        validation.one_of(self, "covariance", ("full", "diagonal"))
        validation.positive(self, "a")

    def _start(self, d: int) -> State:
        return State(super()._start(d).w, cov.start(d, self.a, self.covariance), z=np.zeros(d))

    def step(self, s: State, x: Vector, y: float) -> bool:
        """Learn one row; see :meth:`Perceptron.step`."""
        phi, m, Sx = quantile(self.eta), y * float(s.w @ x), cov.spread(s.S, x)
        v = float(x @ Sx)
        if self.form == "variance":
            if v <= TINY or m >= phi * v:
                return False
            alpha = variance_step(phi, m, v)
            cov.shrink(s.S, x, 2.0 * alpha * phi)
            s.w += alpha * y * Sx
            return True
        if v <= TINY or m >= phi * sqrt(v):
            return False
        alpha = hard_step(phi, m, v)
        after = deviation_after(phi, alpha, v)
        cov.shrink(s.S, x, alpha * phi / after)
        s.w += alpha * y * Sx
        r, unit = in_units(s.z, x), np.where(s.z > 0.0, s.z, 1.0)
        variance = after**2 if s.S.ndim == 2 else float(x @ cov.spread(s.S, x))
        u = variance / max(float(r @ r), TINY)
        if TINY < u < SMALL or LARGE < abs(s.w * unit).max() < inf:
            cov.rescale(s.S, s.w, unit, frexp(sqrt(u))[1])
        return True

    def _kernel(self) -> tuple[Any, list[float]]:
        return KERNEL[self.form][self.covariance], [quantile(self.eta)]

    @classmethod
    def _from_contents(cls, contents: Contents) -> Any:
        """A rule from what a file holds, checked as if a stranger had written it."""
        result = super()._from_contents(contents)
        mantissa = np.frexp(contents.arrays["z"])[0]
        check_file(bool(np.isin(mantissa, (0.0, 0.5)).all()), "a unit that is no power of two")
        return result


def in_units(unit: Vector, x: Vector) -> Vector:
    """Sizes of the entries of x in the units of their columns, 1 at most; the units learn from x.

    The unit of a column is a power of two: that of its first entry that is not 0, and one power
    nearer to each later one, so about the median. Neither a few huge entries nor many small ones
    move it far, and a column in another unit has another unit here, exactly.

    Shapes: unit (d,), x (d,); returns (d,).
    """
    size = np.abs(x)
    first = (unit == 0.0) & (size > 0.0)
    unit[first] = np.ldexp(0.5, np.frexp(size[first])[1])
    below, above = size < unit, size >= 2.0 * unit
    unit[below & (size > 0.0)] *= 0.5
    unit[above & (size > 0.0)] *= 2.0
    return np.minimum(size / np.where(unit > 0.0, unit, 1.0), 1.0)


@cache
def quantile(eta: float) -> float:
    """φ, the quantile of the normal distribution: found once for each probability."""
    return NormalDist().inv_cdf(eta)


def variance_step(phi: float, m: float, v: float) -> float:
    """The step α that satisfies the constraint of the variance form with equality.

    It is (−q + root)/(4 φ v); for positive q the same without a difference of near numbers.
    """
    q = 1.0 + 2.0 * phi * m
    root = sqrt(q**2 + 8.0 * phi * (phi * v - m))
    return 2.0 * (phi * v - m) / (v * (root + q)) if q > 0 else (root - q) / (4.0 * phi * v)


def hard_step(phi: float, m: float, v: float) -> float:
    """The step α that satisfies the constraint of the deviation form with equality."""
    psi, xi = 1.0 + phi**2 / 2.0, 1.0 + phi**2
    return max(0.0, (-m * psi + sqrt(m**2 * phi**4 / 4.0 + v * phi**2 * xi)) / (v * xi))


def deviation_after(phi: float, alpha: float, v: float) -> float:
    """√u: the standard deviation of the margin after a step α, which c = α φ/√u brings about.

    It is (−α v φ + √(α² v² φ² + 4 v))/2, without a difference of near numbers.
    """
    avp = alpha * v * phi
    return 2.0 * v / (avp + sqrt(avp**2 + 4.0 * v))
