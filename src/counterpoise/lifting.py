"""Moments of mapped rows: what the scikit-learn and the river face do with a map."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Rows, Vector
from counterpoise.features import FixedMap, map_of
from counterpoise.features.fixed import SLICE
from counterpoise.moments import Moments
from counterpoise.validate import LARGEST


def moments_of(
    X: Rows,
    rows_of: list[NDArray[np.intp]],
    labels: Labels,
    weight: Vector | None,
    half_life: float | None,
    extremes: bool,
    anchor: Vector | None,
    fixed: FixedMap | None,
) -> Moments:
    """Moments of rows grouped by label, after a map if there is one.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n, l)
        The rows, finite.
    rows_of : list of ndarray
        Rows of each label, in order.
    labels : ndarray of shape (c,)
        The labels.
    weight : ndarray of shape (n,), optional
        Their weights.
    half_life, extremes, anchor
        See :meth:`Moments.of_groups`.
    fixed : FixedMap, optional
        The map. Rows are mapped a slice at a time, so that memory does not grow with them.

    Returns
    -------
    Moments
    """
    if fixed is None:
        return Moments.of_groups(X, rows_of, labels, weight, half_life, extremes, anchor)
    total: Moments | None = None
    for start in range(0, max(X.shape[0], 1), SLICE):
        stop = start + SLICE
        part = X[start:stop]
        mapped = fixed.transform(part.toarray() if sp.issparse(part) else part)
        if not np.abs(mapped).max(initial=0.0) <= LARGEST:
            raise ValueError(f"terms of {fixed.map.text} overflow; take a lower order")
        mine = [rows[(rows >= start) & (rows < stop)] - start for rows in rows_of]
        own = None if weight is None else weight[start:stop]
        piece = Moments.of_groups(mapped, mine, labels, own, half_life, extremes, anchor)
        total = piece if total is None else total.follow(piece, half_life)
        anchor = total.anchor
    assert total is not None
    return total


def check(features: Any) -> None:
    """Raise if ``features`` of a classifier has no meaning.

    Parameters
    ----------
    features : object
        None, the name of a map, a map, or one that is fixed.
    """
    if features is not None and not isinstance(features, FixedMap):
        map_of(features)


def text_of(features: Any) -> str | None:
    """What ``features`` of a classifier is called in a file; None for none.

    Parameters
    ----------
    features : object
        None, the name of a map, a map, or one that is fixed.

    Returns
    -------
    str or None
    """
    if features is None:
        return None
    return (features.map if isinstance(features, FixedMap) else map_of(features)).text
