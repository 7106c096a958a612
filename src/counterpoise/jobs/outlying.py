"""Values far from everything learned: seconds that became milliseconds, or another unit.

Of each feature that is a number, the mean and the standard deviation of the values that are not 0
follow from the moments, or are those that the map of the features was fixed by.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from counterpoise.arrays import Flags, Matrix, Rows, Vector
from counterpoise.encoding.columns import Feature
from counterpoise.exact.state import State
from counterpoise.streams.chunk import Chunk

DEVIATIONS = 100  # from the mean, beyond which a value is told of
FOLD = 64  # rows taken side by side
LEAST = 100  # rows that must have been learned before


class Outlying:
    """Counts values far from everything learned, by column."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, str]] = {}

    def look(
        self, learned: State, features: Sequence[Feature], X: Rows, kept: Flags, chunk: Chunk
    ) -> None:
        """Look at rows X (n, d) of a chunk, which ``kept`` marks, by what was learned before."""
        if not X.shape[0]:
            return
        bounds = usual(learned)
        if bounds is None or len(bounds[0]) != X.shape[1]:
            return
        low, high = bounds
        if isinstance(X, np.ndarray):
            least, greatest = _extremes(X)
            for j in np.flatnonzero((least < low) | (greatest > high)).tolist():
                x = X[:, j]
                self._add(features[j], x, np.flatnonzero((x < low[j]) | (x > high[j])), kept, chunk)
            return
        # What a sparse row does not have is 0, and nothing to tell of.
        data, column = X.data, X.indices
        at = np.flatnonzero((data != 0) & ((data < low[column]) | (data > high[column])))
        rows = np.searchsorted(X.indptr, at, side="right") - 1
        for j in np.unique(column[at]).tolist():
            mine = column[at] == j
            values = np.zeros(X.shape[0])
            values[rows[mine]] = data[at[mine]]
            self._add(features[j], values, rows[mine], kept, chunk)

    def _add(self, feature: Feature, x: Vector, rows: Any, kept: Flags, chunk: Chunk) -> None:
        if feature.kind != "number" or not len(rows):
            return
        first = int(rows[0])
        row = chunk.first + int(np.flatnonzero(kept)[first])
        known = self._found.get(feature.column)
        where = known[1] if known else f"{x[first]:.10g} in row {row} of {chunk.source}"
        self._found[feature.column] = (known[0] if known else 0) + len(rows), where

    def told(self) -> list[str]:
        """Return sentences, one a column."""
        return [
            f"warning: column {name!r}: {count:,} value{'s are' if count > 1 else ' is'} more than "
            f"{DEVIATIONS} standard deviations from all that was learned, the first {where}"
            for name, (count, where) in self._found.items()
        ]


def _extremes(X: Matrix) -> tuple[Vector, Vector]:
    """Minimum and maximum of each column; rows side by side make NumPy several times faster."""
    n, d = X.shape
    whole = n - n % FOLD
    long = X[:whole].reshape(-1, FOLD * d)
    parts = [X[whole:]]
    if whole:
        parts += [long.min(axis=0).reshape(FOLD, d), long.max(axis=0).reshape(FOLD, d)]
    few = np.concatenate(parts)
    return few.min(axis=0), few.max(axis=0)


def usual(learned: State) -> tuple[Vector, Vector] | None:
    """Return what each feature is expected to stay between: low and high, of shape (d,).

    Infinite where nothing can be said; None if that is everywhere.
    """
    if learned.moments.n.sum() < LEAST:
        return None
    if learned.fixed is not None or learned.warmup is not None:
        if learned.fixed is None or learned.warmup is not None:
            return None
        mean, deviation = learned.fixed.mean, np.array(learned.fixed.deviation)
        never = np.zeros(len(mean), dtype=bool)
    else:
        moments = learned.moments
        n, there = moments.n.sum(), moments.away[:, 0].sum(axis=0)
        mean = moments.anchor + moments.n @ moments.mean / n
        apart = moments.anchor + moments.mean - mean
        scatter = np.einsum("kjj->j", moments.C) + moments.n @ apart**2
        with np.errstate(all="ignore"):
            # Over the values that are not 0: sums are the same, and there are fewer of them.
            full = there >= n * (1 - 1e-9)
            among = np.where(full, mean, n * mean / there)
            square = (scatter + n * mean**2) / there - among**2
            deviation = np.sqrt(np.where(full, scatter / n, np.maximum(square, 0.0)))
        mean, never = among, there < LEAST
    with np.errstate(all="ignore"):
        # A feature that never varied, but for rounding, has no deviation.
        far = np.where(deviation > 1e-9 * np.abs(mean), DEVIATIONS * deviation, np.inf)
    far = np.where(never | ~np.isfinite(far), np.inf, far)
    mean = np.where(np.isfinite(mean), mean, 0.0)
    return mean - far, mean + far
