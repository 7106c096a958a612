"""TER: batch least squares in which every class has the same total weight."""

from __future__ import annotations

from counterpoise import validation
from counterpoise.online.least_squares import BatchLeastSquares


class TER(BatchLeastSquares):
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
    The paper, named in :mod:`counterpoise.online`, section 2.2.

    Examples
    --------
    >>> from counterpoise.online import TER
    >>> TER().fit([[1.0, 2.0], [3.0, 1.0]], [0, 1]).predict([[2.0, 0.0]])
    array([1])
    """

    _balanced = True

    def __init__(
        self, *, ridge: float = 1e-4, tau: float = 0.0, eta: float = 1.0, fit_intercept: bool = True
    ) -> None:
        self.ridge = ridge
        self.tau = tau
        self.eta = eta
        self.fit_intercept = fit_intercept

    def _check(self) -> None:
        super()._check()
        validation.between(self, "tau", -float("inf"), float("inf"))
