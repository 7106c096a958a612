"""Recursive least squares on ±1, and its two reweighted forms, AR-RLS and IR-RLS."""

from __future__ import annotations

import numpy as np

from counterpoise.arrays import Matrix, Vector
from counterpoise.online._kernels import AR_RLS, IR_RLS
from counterpoise.online._kernels import RLS as RLS_LOOP
from counterpoise.online.base import (
    Loop,
    OnlineClassifier,
    SampleWeightMixin,
    State,
    covariance_times,
    shrink,
)


class RLS(SampleWeightMixin, OnlineClassifier):
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
        return RLS_LOOP, []


class ARRLS(OnlineClassifier):
    """Approximately reweighted recursive least squares (AR-RLS), a reconstruction.

    A row of class k gets the weight ω = t/(2 n_k) ("balanced") or 1/n_k ("count") of its own
    arrival, which is never revised: cheap, and not equal to :class:`TER`.

    Parameters
    ----------
    ridge : float, default=1e-4
        b: P starts as I/b.
    weighting : "balanced" or "count", default="balanced"
        The first agrees with the figures printed in the paper, the second is its most literal
        reading and does not.
    fit_intercept : bool, default=True
        Append a constant feature.

    References
    ----------
    Kim et al., 2013, as described in the paper, named in :mod:`counterpoise.online`.

    Examples
    --------
    >>> from counterpoise.online import ARRLS
    >>> ARRLS().fit([[1.0, 2.0], [3.0, 1.0]], [0, 1]).predict([[2.0, 0.0]])
    array([1])
    """

    _second_order = True
    _positive = ("ridge",)
    _choices = (("weighting", "balanced", "count"),)

    def __init__(
        self, *, ridge: float = 1e-4, weighting: str = "balanced", fit_intercept: bool = True
    ) -> None:
        self.ridge = ridge
        self.weighting = weighting
        self.fit_intercept = fit_intercept

    def step(self, s: State, x: Vector, y: float) -> bool:
        k = int(y > 0)
        s.n[k] += 1.0
        omega = s.n.sum() / (2.0 * s.n[k]) if self.weighting == "balanced" else 1.0 / s.n[k]
        weighted_step(s.S, s.w, x, y, omega)
        return True

    def _kernel(self) -> Loop:
        return AR_RLS, [float(self.weighting == "balanced")]


class IRRLS(OnlineClassifier):
    """Iteratively reweighted recursive least squares (IR-RLS), equal to :class:`TER`.

    A row of class k brings the weight of its m predecessors from 1/m to 1/(m + 1), one rank-one
    step each. It stores its rows, and its cost grows with the stream, as published.

    Parameters
    ----------
    ridge : float, default=1e-4
        b: P starts as I/b.
    fit_intercept : bool, default=True
        Append a constant feature.

    References
    ----------
    Jang et al., 2017, as described in the paper, named in :mod:`counterpoise.online`.

    Examples
    --------
    >>> from counterpoise.online import IRRLS, TER
    >>> X, y = [[1.0, 2.0], [3.0, 1.0], [2.0, 2.0]], [0, 1, 1]
    >>> one, two = IRRLS(ridge=1.0).fit(X, y), TER(ridge=1.0).fit(X, y)
    >>> one.coef_.round(6).tolist() == two.coef_.round(6).tolist()
    True
    """

    _second_order = True
    _positive = ("ridge",)

    def __init__(self, *, ridge: float = 1e-4, fit_intercept: bool = True) -> None:
        self.ridge = ridge
        self.fit_intercept = fit_intercept

    def _start(self, d: int) -> State:
        s = super()._start(d)
        s.stored = np.zeros((2, 0, d))
        return s

    def _reserve(self, s: State, target: Vector) -> State:
        most = int((s.n + [(target < 0).sum(), (target > 0).sum()]).max())
        if most > s.stored.shape[1]:
            stored = np.zeros((2, max(most, 2 * s.stored.shape[1]), len(s.w)))
            stored[:, : s.stored.shape[1]] = s.stored
            s.stored = stored
        return s

    def step(self, s: State, x: Vector, y: float) -> bool:
        self._reserve(s, np.array([y]))
        k = int(y > 0)
        m = int(s.n[k])
        for old in s.stored[k, :m]:
            weighted_step(s.S, s.w, old, y, 1.0 / (m + 1) - 1.0 / m)
        weighted_step(s.S, s.w, x, y, 1.0 / (m + 1))
        s.stored[k, m] = x
        s.n[k] = m + 1
        return True

    def _kernel(self) -> Loop:
        return IR_RLS, []


def weighted_step(R: Matrix, w: Vector, x: Vector, y: float, omega: float) -> None:
    """Add a row x (d,) of weight omega to weighted ridge regression: R (d, d) and w (d,)."""
    Px = covariance_times(R, x)
    w += omega * (y - x @ w) / (1.0 + omega * (x @ Px)) * Px
    shrink(R, x, omega)
