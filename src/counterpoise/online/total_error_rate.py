"""TER: batch least squares in which every class has the same total weight."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterpoise import validation
from counterpoise.arrays import Matrix, Vector
from counterpoise.online import least_squares
from counterpoise.online._kernels import BATCH as KERNEL
from counterpoise.online.base import OnlineClassifier, State, Weighted


class TER(Weighted, OnlineClassifier):
    """Total error rate (TER): class-weighted least squares, eq. (3) and (4) of the paper.

    Targets are τ − η and τ + η, each row weighs 1 over the count of its class, and the decision
    falls at τ. ``partial_fit`` adds to the sums and solves again, so it is the batch solution on
    everything seen so far.

    Parameters
    ----------
    ridge : float, default=1e-4
        b; about n/2 times stronger here than in :class:`LS`, whose rows weigh 1.
    tau : float, default=0.0
        Threshold.
    eta : float, default=1.0
        Offset of the targets from the threshold.
    fit_intercept : bool, default=True
        Append a constant feature.

    References
    ----------
    Se-In Jang, "Deterministic Online Classification: Non-iteratively Reweighted Recursive
    Least-Squares for Binary Class Rebalancing", ICML 2023, section 2.2.

    Examples
    --------
    >>> from counterpoise.online import TER
    >>> TER().fit([[1.0, 2.0], [3.0, 1.0]], [0, 1]).predict([[2.0, 0.0]])
    array([1])
    """

    def __init__(
        self, *, ridge: float = 1e-4, tau: float = 0.0, eta: float = 1.0, fit_intercept: bool = True
    ) -> None:
        self.ridge = ridge
        self.tau = tau
        self.eta = eta
        self.fit_intercept = fit_intercept

    def _check(self) -> None:
        validation.positive(self, "ridge")
        validation.positive(self, "eta")
        validation.between(self, "tau", -float("inf"), float("inf"))

    def _tau(self) -> float:
        return float(self.tau)

    def _start(self, d: int) -> State:
        return least_squares.start(d)

    def _covariance(self, s: State) -> Matrix:
        return least_squares.covariance(s, self.ridge, balanced=True)

    def step(self, s: State, x: Vector, y: float, omega: float = 1.0) -> bool:
        """Learn one row of weight omega; see :meth:`Perceptron.step`."""
        least_squares.add(s, x[None], np.array([y]), np.array([omega]))
        s.w[:] = least_squares.solve(s, self.ridge, self.tau, self.eta, balanced=True)
        return True

    def _learn(self, rows: Matrix, target: Vector, weight: Vector) -> None:
        s = self._state.copy()
        least_squares.add(s, rows, target, weight)
        s.w[:] = least_squares.solve(s, self.ridge, self.tau, self.eta, balanced=True)
        self._replace(s)

    def _work(self, d: int) -> int:
        return d * d

    def _kernel(self) -> tuple[Any, list[float]]:
        return KERNEL, [self.ridge, self.tau, self.eta, 1.0]
