"""Recursive least squares: ridge regression on ±1, one row at a time."""

from __future__ import annotations

from counterpoise.arrays import Matrix, Vector
from counterpoise.online._kernels import RLS as KERNEL
from counterpoise.online.base import (
    Loop,
    OnlineClassifier,
    State,
    Weighted,
    covariance_times,
    shrink,
)


class RLS(Weighted, OnlineClassifier):
    """Recursive least squares, equal to :class:`LS` after every row.

    P ← P − g gᵀ/(1 + xᵀg) with g = Px, then w ← w + Px (y − x·w); eq. (5) and (6) of the paper.

    Parameters
    ----------
    ridge : float, default=1e-4
        b: P starts as I/b.
    fit_intercept : bool, default=True
        Append a constant feature.

    References
    ----------
    The paper, named in :mod:`counterpoise.online`, section 2.3.

    Examples
    --------
    >>> from counterpoise.online import LS, RLS
    >>> X, y = [[1.0, 2.0], [3.0, 1.0], [2.0, 2.0]], [0, 1, 1]
    >>> one, two = RLS(ridge=1.0).fit(X, y), LS(ridge=1.0).fit(X, y)
    >>> one.coef_.round(6).tolist() == two.coef_.round(6).tolist()
    True
    """

    _second_order = True
    _positive = ("ridge",)

    def __init__(self, *, ridge: float = 1e-4, fit_intercept: bool = True) -> None:
        self.ridge = ridge
        self.fit_intercept = fit_intercept

    def step(self, s: State, x: Vector, y: float, omega: float = 1.0) -> bool:
        """Learn one row of weight omega; see :meth:`OnlineClassifier.step`."""
        weighted_step(s.S, s.w, x, y, omega)
        return True

    def _kernel(self) -> Loop:
        return KERNEL, []


def weighted_step(R: Matrix, w: Vector, x: Vector, y: float, omega: float) -> None:
    """One row of weight omega joins weighted ridge regression. Shapes: R (d, d), w (d,), x (d,)."""
    Px = covariance_times(R, x)
    w += omega * (y - x @ w) / (1.0 + omega * (x @ Px)) * Px
    shrink(R, x, omega)
