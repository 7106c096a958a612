"""LS: batch least squares on ±1 with a ridge."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterpoise import validate
from counterpoise.arrays import Matrix, Vector
from counterpoise.online import batch
from counterpoise.online._kernels import BATCH as KERNEL
from counterpoise.online.rule import OnlineRule
from counterpoise.online.state import State
from counterpoise.online.weighted import Weighted


class LS(Weighted, OnlineRule):
    """Least squares on ±1: minimise ½ Σ (y − w·x)² + b/2 ‖w‖², eq. (1) and (2) of the paper.

    ``partial_fit`` adds to the sums and solves again, so it is the batch solution on everything
    seen so far.

    Parameters
    ----------
    ridge : float, default=1e-4
        b.
    fit_intercept : bool, default=True
        Append a constant feature.

    References
    ----------
    Se-In Jang, "Deterministic Online Classification: Non-iteratively Reweighted Recursive
    Least-Squares for Binary Class Rebalancing", ICML 2023, section 2.1.

    Examples
    --------
    >>> from counterpoise.online import LS
    >>> LS().fit([[1.0, 2.0], [3.0, 1.0]], [0, 1]).predict([[2.0, 0.0]])
    array([1])
    """

    def __init__(self, *, ridge: float = 1e-4, fit_intercept: bool = True) -> None:
        self.ridge = ridge
        self.fit_intercept = fit_intercept

    def _check(self) -> None:
        validate.positive(self, "ridge")

    def _start(self, d: int) -> State:
        return batch.start(d)

    def _covariance(self, s: State) -> Matrix:
        return batch.covariance(s, self.ridge, balanced=False)

    def step(self, s: State, x: Vector, y: float, omega: float = 1.0) -> bool:
        """Learn one row of weight omega; see :meth:`Perceptron.step`."""
        batch.add(s, x[None], np.array([y]), np.array([omega]))
        s.w[:] = batch.solve(s, self.ridge, 0.0, 1.0, balanced=False)
        return True

    def _learn(self, rows: Matrix, target: Vector, weight: Vector) -> None:
        s = self._state.copy()
        batch.add(s, rows, target, weight)
        s.w[:] = batch.solve(s, self.ridge, 0.0, 1.0, balanced=False)
        self._replace(s)

    def _work(self, d: int) -> int:
        return d * d

    def _kernel(self) -> tuple[Any, list[float]]:
        return KERNEL, [self.ridge, 0.0, 1.0, 0.0]
