"""Moments of rows that go through a map first."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Matrix, Rows, Vector
from counterpoise.exact.fading import HalfLife
from counterpoise.exact.moments import Moments
from counterpoise.features import FixedMap
from counterpoise.features.fixed import SLICE
from counterpoise.validate import LARGEST


def terms_of(X: Rows, fixed: FixedMap) -> Matrix:
    """Rows, of which there are few, after a map; raise if a term is too large."""
    mapped = fixed.transform(X if isinstance(X, np.ndarray) else X.toarray())
    if not max(mapped.max(initial=0.0), -mapped.min(initial=0.0)) <= LARGEST:
        raise ValueError(f"terms of {fixed.map.text} overflow; take a lower order")
    return mapped


def clipped(X: Rows, weight: Vector | None, fixed: FixedMap) -> float:
    """Weight of the rows of which a map clips a value."""
    total = 0.0
    for start in range(0, X.shape[0], SLICE):
        part = X[start : start + SLICE]
        far = fixed.far(part if isinstance(part, np.ndarray) else part.toarray())
        total += float(np.add.reduce(far if weight is None else far * weight[start:][: len(far)]))
    return total


def moments_of(
    X: Rows,
    rows_of: list[NDArray[np.intp]],
    labels: Labels,
    weight: Vector | None,
    half_life: HalfLife,
    extremes: bool,
    anchor: Vector | None,
    fixed: FixedMap | None,
    t: Vector | None = None,
) -> Moments:
    """Moments of rows grouped by label, after a map if there is one.

    Rows are mapped a slice at a time, so that memory does not grow with them. See
    :meth:`Moments.of_groups` for what the arguments are.
    """
    if fixed is None:
        return Moments.of_groups(X, rows_of, labels, weight, half_life, extremes, anchor, t)
    total: Moments | None = None
    for start in range(0, max(X.shape[0], 1), SLICE):
        stop = start + SLICE
        part = X[start:stop]
        mapped = terms_of(part, fixed)
        mine = [rows[(rows >= start) & (rows < stop)] - start for rows in rows_of]
        own = None if weight is None else weight[start:stop]
        when = None if t is None else t[start:stop]
        piece = Moments.of_groups(mapped, mine, labels, own, half_life, extremes, anchor, when)
        total = piece if total is None else total.follow(piece, half_life)
        anchor = total.anchor
    assert total is not None
    return total
