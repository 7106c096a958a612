"""Costs of decisions: misses and false alarms.

A row of the positive class without an alert is a miss, an alert about another row a false alarm.
With p the stream probability of the class, an alert is cheaper on average where

    p · miss ≥ (1 − p) · alarm,      that is p ≥ alarm / (alarm + miss).

Only that rule takes into account that each row has its own cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from counterpoise.arrays import Flags, Vector


@dataclass(frozen=True, eq=False)
class CostCurve:
    """Cost of each threshold on the probability.

    Attributes
    ----------
    thresholds : ndarray of shape (m,)
        Thresholds in descending order. The first is infinite: no alert.
    cost : ndarray of shape (m,)
        Cost of the misses and the false alarms.
    misses, alarms : ndarray of shape (m,)
        Rows of the class without an alert, and false alerts.

    Examples
    --------
    >>> from counterpoise.evaluate import cost_curve
    >>> curve = cost_curve([0, 0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4, 0.9], miss=5.0)
    >>> curve.thresholds.tolist(), curve.cost.tolist()
    ([inf, 0.9, 0.4, 0.3, 0.2, 0.1], [10.0, 5.0, 6.0, 1.0, 2.0, 3.0])
    >>> curve.at(0.35), curve.always
    (6.0, 3.0)
    """

    thresholds: Vector
    cost: Vector
    misses: Vector
    alarms: Vector

    @property
    def best(self) -> float:
        """Threshold of the lowest cost; of several the highest."""
        return float(self.thresholds[int(self.cost.argmin())])

    @property
    def least(self) -> float:
        """Cost of the best threshold."""
        return float(self.cost.min())

    @property
    def never(self) -> float:
        """Cost of never alerting."""
        return float(self.cost[0])

    @property
    def always(self) -> float:
        """Cost of an alert about every row."""
        return float(self.cost[-1])

    def at(self, threshold: float) -> float:
        """Return the cost of a threshold.

        Parameters
        ----------
        threshold : float
            Alert where the probability is at least this.
        """
        fewer = int(np.searchsorted(-self.thresholds, -threshold, side="right"))
        return float(self.cost[max(fewer - 1, 0)])


def cost_curve(
    y: ArrayLike, p: ArrayLike, *, miss: ArrayLike, alarm: float = 1.0, positive: Any = 1
) -> CostCurve:
    """Return the cost of each threshold on predictions made before their labels were known.

    Parameters
    ----------
    y : array-like of shape (n,)
        True labels.
    p : array-like of shape (n,)
        Predicted probability of the positive class, or another score of it.
    miss : float or array-like of shape (n,)
        Cost of a miss; an array if each row has its own cost.
    alarm : float, default=1
        Cost of a false alarm.
    positive : label, default=1
        The positive class.

    Examples
    --------
    >>> from counterpoise.evaluate import cost_curve
    >>> curve = cost_curve([0, 0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4, 0.9], miss=5.0)
    >>> curve.best, curve.least, curve.never
    (0.3, 1.0, 10.0)
    """
    labels, scores = np.asarray(y), np.asarray(p, dtype=np.float64)
    if labels.ndim != 1 or scores.shape != labels.shape:
        raise ValueError(f"y and p must be of one length, not {labels.shape} and {scores.shape}")
    if not np.isfinite(scores).all():
        row = int((~np.isfinite(scores)).argmax())
        raise ValueError(f"p must be finite, but row {row} is {scores[row]}; leave such rows out")
    price = check_costs("miss", miss, len(labels))
    fee = float(check_costs("alarm", alarm))
    mine = labels == positive
    order = np.argsort(-scores, kind="stable")
    hit = mine[order]
    last = np.flatnonzero(np.append(np.diff(scores[order]) != 0.0, True)[: len(order)])

    def upto(values: Vector) -> Vector:
        """Sum over the rows that get an alert at each threshold."""
        sums: Vector = np.concatenate([[0.0], np.cumsum(values[order])[last]])
        return sums

    found, saved = upto(mine.astype(float)), upto(np.where(mine, price, 0.0))
    alarms = upto((~mine).astype(float))
    total = float(np.where(mine, price, 0.0).sum())
    return CostCurve(
        np.concatenate([[np.inf], scores[order][last]]),
        total - saved + fee * alarms,
        float(hit.sum()) - found,
        alarms,
    )


@overload
def should_alert(p: Vector, miss: ArrayLike, alarm: float = 1.0) -> Flags: ...
@overload
def should_alert(p: ArrayLike, miss: ArrayLike, alarm: float = 1.0) -> Flags | bool: ...


def should_alert(p: ArrayLike, miss: ArrayLike, alarm: float = 1.0) -> Flags | bool:
    """Return where an alert is cheaper on average than none.

    Parameters
    ----------
    p : float or array-like of shape (n,)
        Stream probability of the positive class.
    miss : float or array-like of shape (n,)
        Cost of a miss.
    alarm : float, default=1
        Cost of a false alarm.

    Returns
    -------
    bool or ndarray of shape (n,)
        A bool if p is a number.

    Examples
    --------
    >>> from counterpoise.evaluate import should_alert
    >>> should_alert(0.02, 100.0)
    True
    >>> should_alert([0.02, 0.02, 0.3], [10.0, 100.0, 10.0]).tolist()
    [False, True, True]
    """
    risk = np.asarray(p, dtype=np.float64)
    rows = len(risk) if risk.ndim else None
    costs, fee = check_costs("miss", miss, rows), float(check_costs("alarm", alarm))
    result: Flags = risk * costs >= (1.0 - risk) * fee
    return result if risk.ndim else bool(result)


def check_costs(name: str, value: ArrayLike, rows: int | None = None) -> Vector:
    """Return costs that are finite and above 0, one or one for each row, or raise."""
    found = np.asarray(value, dtype=np.float64)
    if found.ndim and (rows is None or found.shape != (rows,)):
        expected = "one number" if rows is None else f"one number, or one of each of {rows} rows"
        raise ValueError(f"{name} must be {expected}, not of shape {found.shape}")
    good = np.isfinite(found) & (found > 0.0)
    if not good.all():
        where = "" if not found.ndim else f" in row {int((~good).argmax())}"
        bad = float(found) if not found.ndim else float(found[(~good).argmax()])
        raise ValueError(f"{name} must be a finite number above 0, but is {bad:g}{where}")
    return found


MIN_ROWS_PER_BIN = 20


@dataclass(frozen=True, eq=False)
class Reliability:
    """Rows in bins of the predicted probability."""

    predicted: Vector  # (m,) mean probability of each bin
    share: Vector  # (m,) share of rows of the class
    rows: Vector  # (m,) number of rows
    error: float  # mean distance of the two over all rows


def reliability(mine: Flags, p: Vector, bins: int = 12) -> Reliability:
    """Return bins of rows ordered by their probability p (n,); ``mine`` (n,) are of the class.

    Bins have equal weight, half of it from the class and half from all rows, so that rare classes
    have bins of their own.
    """
    order = np.argsort(p, kind="stable")
    heavy = mine[order] / max(int(mine.sum()), 1) + 1.0 / len(p)
    place = np.minimum((np.cumsum(heavy) - heavy / 2.0) / 2.0 * bins, bins - 1e-9).astype(int)
    # Equal probabilities share a bin.
    values = p[order]
    first = np.concatenate([[True], np.diff(values) > 0.0])
    place = place[np.maximum.accumulate(np.where(first, np.arange(len(p)), 0))]
    edges = [0]
    for at in np.flatnonzero(np.diff(place)) + 1:
        if at - edges[-1] >= min(MIN_ROWS_PER_BIN, len(p) // 4 + 1):
            edges.append(int(at))
    starts = np.array(edges)
    rows = np.diff(np.append(starts, len(p))).astype(float)
    predicted = np.add.reduceat(values, starts) / rows
    share = np.add.reduceat(mine[order].astype(float), starts) / rows
    error = float((rows * np.abs(predicted - share)).sum() / len(p))
    return Reliability(predicted, share, rows, error)
