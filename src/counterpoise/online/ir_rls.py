"""IR-RLS: all rows of a class are revisited whenever one more arrives."""

from __future__ import annotations

import numpy as np

from counterpoise.arrays import Vector
from counterpoise.online._kernels import IR_RLS as KERNEL
from counterpoise.online.base import Loop, OnlineClassifier, State
from counterpoise.online.rls import weighted_step


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
        """Learn one row; see :meth:`OnlineClassifier.step`."""
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
        return KERNEL, []
