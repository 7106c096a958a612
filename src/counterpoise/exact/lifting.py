"""Moments of mapped rows: what the scikit-learn and the river face do with a map."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Matrix, Rows, Vector
from counterpoise.exact.moments import Moments, joined
from counterpoise.features import WARMUP, FixedMap, Map, Warmup, map_of
from counterpoise.features.fixed import SLICE
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


def warmed(
    features: Any, before: Warmup | None, X: Matrix, y: Labels, weight: Vector | None
) -> tuple[Warmup, FixedMap | None, Warmup | None]:
    """All rows of a warm-up, with new ones.

    Parameters
    ----------
    features : str or Map
        The map.
    before : Warmup, optional
        The rows so far.
    X : ndarray of shape (n, l)
        More rows.
    y : ndarray of shape (n,)
        Their labels.
    weight : ndarray of shape (n,), optional
        Their weights.

    Returns
    -------
    Warmup
        All rows, to be learned anew.
    FixedMap or None
        The map that they fix for now, or for good; None without rows.
    Warmup or None
        The rows to be kept: none, once they are enough.
    """
    rows = Warmup(X, y, np.ones(len(y)) if weight is None else weight)
    if before is not None:
        labels = joined(before.y, y)
        before = replace(before, y=labels[: len(before.y)])
        rows = before.followed(rows.X, labels[len(before.y) :], rows.weight)
    if not len(rows.X):
        return rows, None, None
    return rows, rows.fixed(map_of(features)), None if rows.over else rows


def require_room(c: int, d: int, limit: float, mapped: bool) -> None:
    """Raise if learning would take too much memory: the moments, and as much for those of a chunk.

    Parameters
    ----------
    c, d : int
        Classes, and features or terms.
    limit : float
        Bytes that learning may take.
    mapped : bool
        Whether they are terms of a map.
    """
    size = 2 * 8.0 * c * d * d
    if size <= limit:
        return
    what = "terms" if mapped else "features"
    remedy = "reduce the features (in a shell with --keep, --drop or --hash, in Python for example "
    remedy += "with sklearn.feature_extraction.FeatureHasher), use an online rule with a diagonal "
    remedy += "covariance, or raise memory_limit"
    if mapped:
        remedy = "take a map with fewer terms, such as rm2 or rff:400, or raise memory_limit"
    raise ValueError(
        f"{c} classes of {d} {what} need {size / 1e9:.3g} GB for moments, more than "
        f"memory_limit={limit:g} bytes; {remedy}"
    )


def require_map_fits(the_map: Map | None, inputs: int, limit: float) -> None:
    """Raise if the terms of a map, its random numbers, or its warm-up would take too much.

    Parameters
    ----------
    the_map : Map, optional
        The map.
    inputs : int
        Number of features.
    limit : float
        Bytes that they may take.
    """
    if the_map is None:
        return
    require_room(1, the_map.count(inputs), limit, mapped=True)
    size = 8.0 * inputs * (the_map.draws + WARMUP)
    if size > limit:
        raise ValueError(
            f"a map of {inputs} features needs {size / 1e9:.3g} GB for its warm-up and its random "
            f"numbers, more than memory_limit={limit:g} bytes; reduce the features, or raise "
            "memory_limit"
        )


def map_in(features: Any) -> Map | None:
    """The map of ``features`` of a classifier; None for none; raise if it has no meaning.

    Parameters
    ----------
    features : object
        None, the name of a map, a map, or one that is fixed.

    Returns
    -------
    Map or None
    """
    if features is None:
        return None
    return features.map if isinstance(features, FixedMap) else map_of(features)


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
    found = map_in(features)
    return None if found is None else found.text
