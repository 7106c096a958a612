"""Confidence-weighted learning, exact and soft: the weights have a Gaussian distribution."""

from __future__ import annotations

from functools import cache
from math import frexp, inf, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from counterpoise import validation
from counterpoise.arrays import Vector
from counterpoise.modelfile.container import Contents, check_file
from counterpoise.online._kernels import CW, SCW
from counterpoise.online.base import Loop, OnlineClassifier, State, covariance_times, shrink

MIN_VARIANCE = 1e-300  # of a score: a row with less is not learned
MIN_TYPICAL_VARIANCE = 2.0**-32  # of a typical row: below it, weights change their unit
MAX_WEIGHT = 2.0**60  # in the unit of its column: above it, weights change their unit
MAX_EXPONENT_GAP = 24  # powers of two between sizes that outweigh each other, after a change
MAX_RATIO_EXPONENT = 10  # exponent of weight over deviation that is still in proportion
MAX_FACTOR_EXPONENT = 16  # of rows of R after a change of unit: noise grows with its square
MAX_EXPONENT = 300  # of a diagonal and of w after a change of unit
ETA = {"I": 0.75, "II": 0.9}  # of SoftConfidenceWeighted, as in LIBOL


class ConfidenceWeighted(OnlineClassifier):
    """Confidence-weighted classifier (CW).

    With φ the normal quantile of eta, margin m = y w·x and v = xᵀΣx, the least change of the
    Gaussian (w, Σ) that makes m ≥ φ √v ("deviation") or m ≥ φ v ("variance").

    The deviation form determines w only up to a positive factor: (u w, u²Σ) decides and learns as
    (w, Σ) does. On noisy streams both shrink without end. Once the variance of a typical row falls
    below 2⁻³², w is multiplied by a power of two and Σ by its square, which is exact. Scores,
    ``coef_`` and ``covariance_`` are in the current unit; decisions do not depend on it. Two
    exceptions: directions that no row touches keep at most 2³² times the variance of the others,
    and of a diagonal Σ, which shrinks faster than w, only the order of sizes is kept.

    Values are compared with the typical size of their column, so units have no effect on this. The
    first Σ is a I in the units of the columns: columns of larger values have more influence at
    first, unless they are scaled.

    Parameters
    ----------
    eta : float, default=0.7
        Required probability of a right answer, above 0.5 and below 1.
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
    _positive = ("a",)
    _choices = (("form", "deviation", "variance"), ("covariance", "full", "diagonal"))

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
        super()._check()
        validation.require_between(self, "eta", 0.5, 1.0)

    def _start(self, d: int) -> State:
        s = super()._start(d)
        s.z = np.zeros(d)
        return s

    def step(self, s: State, x: Vector, y: float) -> bool:
        phi, m, Sx = quantile(self.eta), y * float(s.w @ x), covariance_times(s.S, x)
        v = float(x @ Sx)
        if self.form == "variance":
            if v <= MIN_VARIANCE or m >= phi * v:
                return False
            alpha = variance_step(phi, m, v)
            shrink(s.S, x, 2.0 * alpha * phi)
            s.w += alpha * y * Sx
            return True
        if v <= MIN_VARIANCE or m >= phi * sqrt(v):
            return False
        alpha = hard_step(phi, m, v)
        after = deviation_after(phi, alpha, v)
        shrink(s.S, x, alpha * phi / after)
        s.w += alpha * y * Sx
        r, unit = in_units(s.z, x), np.where(s.z > 0.0, s.z, 1.0)
        variance = after**2 if s.S.ndim == 2 else float(x @ covariance_times(s.S, x))
        u = variance / max(float(r @ r), MIN_VARIANCE)
        if MIN_VARIANCE < u < MIN_TYPICAL_VARIANCE or MAX_WEIGHT < abs(s.w * unit).max() < inf:
            rescale(s.S, s.w, unit, frexp(sqrt(u))[1])
        return True

    def _kernel(self) -> Loop:
        return CW[self.form][self.covariance], [quantile(self.eta)]

    @classmethod
    def _from_contents(cls, contents: Contents) -> Any:
        result = super()._from_contents(contents)
        mantissa = np.frexp(contents.arrays["z"])[0]
        check_file(bool(np.isin(mantissa, (0.0, 0.5)).all()), "a unit that is not a power of two")
        return result


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
            validation.require_between(self, "eta", 0.5, 1.0)

    def _phi(self) -> float:
        return quantile(ETA[self.variant] if self.eta is None else self.eta)

    def step(self, s: State, x: Vector, y: float) -> bool:
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
        return SCW[self.covariance], [self._phi(), self.C, float(self.variant == "II")]


def in_units(unit: Vector, x: Vector) -> Vector:
    """Return the sizes of the entries of x in the units of their columns, at most 1; update these.

    The unit of a column is a power of two: that of its first entry that is not 0, and one power
    nearer to each later one, so about the median.
    """
    size = np.abs(x)
    first = (unit == 0.0) & (size > 0.0)
    unit[first] = np.ldexp(0.5, np.frexp(size[first])[1])
    below, above = size < unit, size >= 2.0 * unit
    unit[below & (size > 0.0)] *= 0.5
    unit[above & (size > 0.0)] *= 2.0
    return np.minimum(size / np.where(unit > 0.0, unit, 1.0), 1.0)


def rescale(S: NDArray[np.float64], w: Vector, unit: Vector, anchor: int) -> None:
    """Multiply w by u = 2^−anchor and Σ by u², exactly and in place, as far as floats reach.

    Rows of R that no row of the stream touches while all else shrinks, and a w that stays while Σ
    shrinks, would be left behind without end. So where exponents of rows of R and of the parts of
    w = Rᵀg are more than MAX_EXPONENT_GAP apart, the distance becomes MAX_EXPONENT_GAP: their order
    stays. The part of w along a row of R that is in proportion to it moves as the row does. Sizes
    are compared in the units of the columns.
    """
    R = S if S.ndim == 2 else np.diag(np.sqrt(S))
    size = np.abs(R * unit).max(axis=1)
    g = solve_triangular(R, w, trans="T")
    of_row: NDArray[np.intp] = np.frexp(size)[1].astype(np.intp)
    of_part = np.where(np.abs(g) < 2.0**MAX_RATIO_EXPONENT, of_row, np.frexp(np.abs(g) * size)[1])
    levels = sorted({anchor, *of_row.tolist(), *of_part.tolist()})
    places = np.cumsum([0, *np.minimum(MAX_EXPONENT_GAP, np.diff(levels))])
    places -= places[levels.index(anchor)]
    to = dict(zip(levels, np.clip(places, -MAX_EXPONENT, MAX_EXPONENT).tolist(), strict=True))
    near = MAX_FACTOR_EXPONENT if S.ndim == 2 else MAX_EXPONENT
    power = np.array([min(near, to[e]) - e for e in of_row.tolist()])
    lift = np.array([to[e] - e for e in of_part.tolist()])
    lift[of_part == of_row] = power[of_part == of_row]
    w *= 2.0**-anchor
    for j in np.flatnonzero(lift != -anchor):
        w += (2.0 ** lift[j] - 2.0**-anchor) * g[j] * R[j]
    S *= np.exp2(power)[:, None] if S.ndim == 2 else np.exp2(2 * power)


@cache
def quantile(eta: float) -> float:
    """Return φ, the quantile of the normal distribution."""
    return NormalDist().inv_cdf(eta)


def variance_step(phi: float, m: float, v: float) -> float:
    """Return the step α that satisfies the constraint of the variance form with equality."""
    q = 1.0 + 2.0 * phi * m  # α = (−q + root)/(4 φ v); if q > 0, without a difference of near ones
    root = sqrt(q**2 + 8.0 * phi * (phi * v - m))
    return 2.0 * (phi * v - m) / (v * (root + q)) if q > 0 else (root - q) / (4.0 * phi * v)


def hard_step(phi: float, m: float, v: float) -> float:
    """Return the step α that satisfies the constraint of the deviation form with equality."""
    psi, xi = 1.0 + phi**2 / 2.0, 1.0 + phi**2
    return max(0.0, (-m * psi + sqrt(m**2 * phi**4 / 4.0 + v * phi**2 * xi)) / (v * xi))


def deviation_after(phi: float, alpha: float, v: float) -> float:
    """Return √u: the standard deviation of the margin after a step α, with c = α φ/√u."""
    # (−α v φ + √(α² v² φ² + 4 v))/2, without a difference of near numbers
    avp = alpha * v * phi
    return 2.0 * v / (avp + sqrt(avp**2 + 4.0 * v))
