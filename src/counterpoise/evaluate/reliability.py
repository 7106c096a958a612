"""Whether probabilities hold: what was told beside how often it came true."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterpoise.arrays import Flags, Vector

LEAST = 20  # rows of a bin: shares of fewer say little


@dataclass(frozen=True, eq=False)
class Reliability:
    """Rows in bins of the probability that was told.

    Attributes
    ----------
    told : ndarray of shape (m,)
        Mean probability of each bin.
    share : ndarray of shape (m,)
        How many of its rows were of the class.
    rows : ndarray of shape (m,)
        How many rows it has.
    error : float
        How far the two are apart, on average over the rows.
    """

    told: Vector
    share: Vector
    rows: Vector
    error: float


def reliability(mine: Flags, p: Vector, bins: int = 12) -> Reliability:
    """Return bins of rows ordered by their probability p (n,), ``mine`` (n,) those of the class.

    Bins have equal weight, half of which is that of the class and half that of all rows, so that
    rare classes are seen where they are.

    Examples
    --------
    >>> from counterpoise.evaluate.reliability import reliability
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
        if at - edges[-1] >= min(LEAST, len(p) // 4 + 1):
            edges.append(int(at))
    starts = np.array(edges)
    rows = np.diff(np.append(starts, len(p))).astype(float)
    told = np.add.reduceat(values, starts) / rows
    share = np.add.reduceat(mine[order].astype(float), starts) / rows
    error = float((rows * np.abs(told - share)).sum() / len(p))
    return Reliability(told, share, rows, error)
