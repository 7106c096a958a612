"""AR-RLS: recursive least squares whose rows keep the weight that they arrived with."""

from __future__ import annotations

from counterpoise.arrays import Vector
from counterpoise.online._kernels import AR_RLS as KERNEL
from counterpoise.online.base import Loop, OnlineClassifier, State
from counterpoise.online.rls import weighted_step


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
        """Learn one row; see :meth:`OnlineClassifier.step`."""
        k = int(y > 0)
        s.n[k] += 1.0
        omega = s.n.sum() / (2.0 * s.n[k]) if self.weighting == "balanced" else 1.0 / s.n[k]
        weighted_step(s.S, s.w, x, y, omega)
        return True

    def _kernel(self) -> Loop:
        return KERNEL, [float(self.weighting == "balanced")]
