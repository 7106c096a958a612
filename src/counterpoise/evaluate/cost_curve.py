"""What decisions cost: a miss at its price, a false alarm at its own.

A row of the class of interest that nobody is told of is a miss, an alert about another row a false
alarm. With p the probability of the class under the stream's own frequencies, an alert pays where

    p · miss ≥ (1 − p) · alarm,      that is p ≥ alarm / (alarm + miss).

Only that rule can take into account that each row has its own price.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterpoise.arrays import Flags, Vector


@dataclass(frozen=True, eq=False)
class CostCurve:
    """What each threshold would have cost.

    Attributes
    ----------
    thresholds : ndarray of shape (m,)
        Falling: alert where the probability is at least so high. The first is infinite: no alert.
    cost : ndarray of shape (m,)
        Of the misses and the false alarms.
    misses, alarms : ndarray of shape (m,)
        How many rows of the class got no alert, and how many alerts were false.

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
        """The threshold of least cost; of equals the highest."""
        return float(self.thresholds[int(self.cost.argmin())])

    @property
    def least(self) -> float:
        """What the best threshold costs."""
        return float(self.cost.min())

    @property
    def never(self) -> float:
        """What it costs never to alert."""
        return float(self.cost[0])

    @property
    def always(self) -> float:
        """What it costs to alert about every row."""
        return float(self.cost[-1])

    def at(self, threshold: float) -> float:
        """Return what a threshold would have cost.

        Parameters
        ----------
        threshold : float
            Alert where the probability is at least so high.

        Returns
        -------
        float
        """
        fewer = int(np.searchsorted(-self.thresholds, -threshold, side="right"))
        return float(self.cost[max(fewer - 1, 0)])


def cost_curve(
    y: ArrayLike, p: ArrayLike, *, miss: ArrayLike, alarm: float = 1.0, positive: Any = 1
) -> CostCurve:
    """Return what each threshold would have cost on predictions made before the labels came.

    Parameters
    ----------
    y : array-like of shape (n,)
        True labels.
    p : array-like of shape (n,)
        Probability of the class of interest as it was told, or any score of it.
    miss : float or array-like of shape (n,)
        What it costs to miss a row of that class; an array if each row has its own price.
    alarm : float, default=1
        What a false alarm costs.
    positive : label, default=1
        The class of interest.

    Returns
    -------
    CostCurve

    Examples
    --------
    >>> from counterpoise.evaluate import cost_curve
    >>> curve = cost_curve([0, 0, 1, 0, 1], [0.1, 0.2, 0.3, 0.4, 0.9], miss=5.0)
    >>> curve.best, curve.least, curve.never
    (0.3, 1.0, 10.0)
    """
    labels, told = np.asarray(y), np.asarray(p, dtype=np.float64)
    if labels.ndim != 1 or told.shape != labels.shape:
        raise ValueError(f"y and p must be of one length, not {labels.shape} and {told.shape}")
    if not np.isfinite(told).all():
        row = int((~np.isfinite(told)).argmax())
        raise ValueError(f"p must be finite, but row {row} is {told[row]}; leave such rows out")
    price = check_costs("miss", miss, len(labels))
    fee = float(check_costs("alarm", alarm))
    mine = labels == positive
    order = np.argsort(-told, kind="stable")
    hit = mine[order]
    last = np.flatnonzero(np.append(np.diff(told[order]) != 0.0, True)[: len(order)])

    def upto(values: Vector) -> Vector:
        """Sums over the rows that alert at each threshold; equal probabilities alert together."""
        sums: Vector = np.concatenate([[0.0], np.cumsum(values[order])[last]])
        return sums

    found, saved = upto(mine.astype(float)), upto(np.where(mine, price, 0.0))
    alarms = upto((~mine).astype(float))
    total = float(np.where(mine, price, 0.0).sum())
    return CostCurve(
        np.concatenate([[np.inf], told[order][last]]),
        total - saved + fee * alarms,
        float(hit.sum()) - found,
        alarms,
    )


def should_alert(p: ArrayLike, miss: ArrayLike, alarm: float = 1.0) -> Flags:
    """Return where an alert pays, given the probability of the class and the prices.

    Parameters
    ----------
    p : array-like of shape (n,)
        Probability of the class of interest under the stream's own frequencies.
    miss : float or array-like of shape (n,)
        What it costs to miss a row of that class.
    alarm : float, default=1
        What a false alarm costs.

    Returns
    -------
    ndarray of bool of shape (n,)

    Examples
    --------
    >>> from counterpoise.evaluate import should_alert
    >>> should_alert([0.02, 0.02, 0.3], [10.0, 100.0, 10.0]).tolist()
    [False, True, True]
    """
    told = np.asarray(p, dtype=np.float64)
    price, fee = check_costs("miss", miss, len(told)), float(check_costs("alarm", alarm))
    result: Flags = told * price >= (1.0 - told) * fee
    return result


def check_costs(name: str, value: ArrayLike, rows: int | None = None) -> Vector:
    """Return prices that are finite and above 0, one, or one of each of so many rows, or raise."""
    found = np.asarray(value, dtype=np.float64)
    if found.ndim and (rows is None or found.shape != (rows,)):
        wanted = "one number" if rows is None else f"one number, or one of each of {rows} rows"
        raise ValueError(f"{name} must be {wanted}, not of shape {found.shape}")
    good = np.isfinite(found) & (found > 0.0)
    if not good.all():
        where = "" if not found.ndim else f" in row {int((~good).argmax())}"
        bad = float(found) if not found.ndim else float(found[(~good).argmax()])
        raise ValueError(f"{name} must be a finite number above 0, but is {bad:g}{where}")
    return found


MIN_ROWS_PER_BIN = 20  # rows of a bin: shares of fewer say little


@dataclass(frozen=True, eq=False)
class Reliability:
    """Rows in bins of the probability that was told."""

    told: Vector  # (m,) mean probability of each bin
    share: Vector  # (m,) how many of its rows were of the class
    rows: Vector  # (m,) how many rows it has
    error: float  # how far the two are apart, on average over the rows


def reliability(mine: Flags, p: Vector, bins: int = 12) -> Reliability:
    """Return bins of rows ordered by their probability p (n,), ``mine`` (n,) those of the class.

    Bins have equal weight, half of which is that of the class and half that of all rows, so that
    rare classes are seen where they are.

    Examples
    --------
    >>> from counterpoise.evaluate.cost_curve import reliability
    >>> p = np.repeat([0.1, 0.8], 100)
    >>> mine = np.arange(200) % 10 < np.repeat([1, 8], 100)
    >>> found = reliability(mine, p, 4)
    >>> found.told.round(2).tolist(), found.share.round(2).tolist(), round(found.error, 3)
    ([0.1, 0.8], [0.1, 0.8], 0.0)
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
    told = np.add.reduceat(values, starts) / rows
    share = np.add.reduceat(mine[order].astype(float), starts) / rows
    error = float((rows * np.abs(told - share)).sum() / len(p))
    return Reliability(told, share, rows, error)
