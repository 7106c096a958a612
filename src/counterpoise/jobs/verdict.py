"""Predictions beside what came of them: what every evaluation ends with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from counterpoise.arrays import Flags, Labels, Matrix, Vector
from counterpoise.evaluate.costs import CostCurve, cost_curve, pays
from counterpoise.evaluate.race import Result
from counterpoise.reasons import Reasons


@dataclass(frozen=True, eq=False)
class Verdict:
    """Rows that were predicted, and their labels.

    Attributes
    ----------
    result : Result
        Predictions, scores and metrics, without times.
    y : ndarray of shape (n,)
        True labels.
    p : ndarray of shape (n, 1) or (n, c), optional
        Probability of the second of two classes, or of each, under the stream's frequencies.
    price : float or ndarray of shape (n,), optional
        What a miss costs.
    alarm : float
        What a false alarm costs.
    alerts : ndarray of shape (n,), optional
        Alerts as they were served.
    skipped : int
        Rows left out because values are missing.
    lacking : list of str
        Columns that tables did not have, which were 0 as in some of the learned rows.
    reasons : Reasons, optional
        Of the first rows, by column.
    """

    result: Result
    y: Labels
    p: Matrix | None
    price: Any = None
    alarm: float = 1.0
    alerts: Flags | None = None
    skipped: int = 0
    lacking: tuple[str, ...] = ()
    reasons: Reasons | None = None

    def risk(self, position: int) -> Vector | None:
        """Return the stream's probability of the class at a position, (n,), if it was told."""
        if self.p is None:
            return None
        if self.p.shape[1] > 1:
            return self.p[:, position]
        one: Vector = self.p[:, 0] if position else 1.0 - self.p[:, 0]
        return one

    def bill(self, positive: Any, position: int, price: Any = None) -> Bill | None:
        """Return what decisions about a class have cost, if there are probabilities and prices.

        ``price`` is what a miss costs, where nobody has said.
        """
        risk, price = self.risk(position), self.price if price is None else price
        if risk is None or price is None:
            return None
        curve = cost_curve(self.y, risk, miss=price, alarm=self.alarm, positive=positive)
        mine = self.y == positive
        told = pays(risk, price, self.alarm) if self.alerts is None else self.alerts
        missed, false = mine & ~told, ~mine & told
        cost = float(np.sum(np.where(missed, price, 0.0)) + self.alarm * false.sum())
        at = None if np.ndim(price) else self.alarm / (self.alarm + float(price))
        return Bill(curve, cost, int(missed.sum()), int(false.sum()), int(told.sum()), at)


@dataclass(frozen=True, eq=False)
class Bill:
    """What decisions have cost.

    Attributes
    ----------
    curve : CostCurve
        What each threshold would have cost.
    cost : float
        What the decisions have cost.
    misses, alarms, alerts : int
        Rows of the class without an alert, false alerts, and all alerts.
    at : float, optional
        The threshold on the probability that the prices come down to, if all rows have one.
    """

    curve: CostCurve
    cost: float
    misses: int
    alarms: int
    alerts: int
    at: float | None
