"""Moments with more or fewer classes and features.

All are values of their own. Only the scatters of a :class:`GrowableScatter` share memory with those
that they grew from, and only the State that owns it lets them grow.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Labels, concatenate_labels, scatters
from counterpoise.moments.categories import (
    CategoryColumn,
    CategoryMoments,
    PairRun,
    PairWeights,
    pair_keys,
)
from counterpoise.moments.moments import Moments

Scatters = NDArray[np.float64]
MIN_PAIR_WEIGHT = 1e-12  # of a category: less is rounding
NOT_PER_CLASS = ("anchor", "when", "clipped")


class GrowableScatter:
    """Memory for scatters that grow: they are copied at geometrically spaced sizes only."""

    def __init__(self) -> None:
        self.store: Scatters = scatters(0, 0)

    def resize(self, C: Scatters, c: int, d: int) -> Scatters:
        """Return scatters of c classes and d features, the new entries 0."""
        c_room, d_room = self.store.shape[:2]
        mine = C.base is self.store.base and C.size > 0
        if not mine or c > c_room or d > d_room:
            if not mine:
                c_room, d_room = C.shape[:2]
            c_room = c if c <= c_room else max(c, c_room + c_room // 2)
            d_room = d if d <= d_room else max(d, d_room + d_room // 2)
            self.store = scatters(c_room, d_room)
            c_old, d_old = C.shape[:2]
            self.store[:c_old, :d_old, :d_old] = C
        return self.store[:c, :d, :d]


def with_labels(moments: Moments, labels: Labels, memory: GrowableScatter | None = None) -> Moments:
    """Return moments with slots for these labels: the same object if it has them.

    With memory to grow in, the old value shares its scatters, and must not be changed any more.
    """
    if labels is moments.labels:
        return moments
    known = set(moments.labels.tolist())
    new = np.array([label not in known for label in labels.tolist()], dtype=bool)
    if not new.any():
        return moments
    more, result = int(new.sum()), object.__new__(Moments)
    for name in (one for one in Moments.ARRAYS if one not in ("labels", "C")):
        old = getattr(moments, name)
        slots = np.zeros((0 if name in NOT_PER_CLASS else more, *old.shape[1:]), dtype=old.dtype)
        setattr(result, name, np.concatenate([old, slots]))
    result.stream[-more:] = moments.N.sum()
    result.labels = concatenate_labels(moments.labels, labels[new])
    C, d = moments.C, len(moments.anchor)
    result.C = (memory or GrowableScatter()).resize(C, len(result.labels), d)
    before = moments.categories
    result.categories = None if before is None else before.with_classes(len(result.labels))
    return result


def with_features(moments: Moments, d: int, memory: GrowableScatter | None = None) -> Moments:
    """Return moments of d features, the new ones zero in every row so far.

    With memory to grow in, the old value shares its scatters, and must not be changed any more.
    """
    C = (memory or GrowableScatter()).resize(moments.C, len(moments.labels), d)
    return _with_features(moments, np.arange(len(moments.anchor)), C)


def reindex_features(moments: Moments, at: NDArray[np.intp], d: int) -> Moments:
    """Return moments of d features, of which feature j is at[j]; the others were always zero."""
    C = scatters(len(moments.labels), d)
    C[:, at[:, None], at] = moments.C
    return _with_features(moments, at, C)


def _with_features(moments: Moments, at: NDArray[np.intp], C: Scatters) -> Moments:
    """Return moments whose feature j becomes at[j], given the new scatters."""
    old, d = len(moments.anchor), C.shape[-1]
    result = object.__new__(Moments)
    for name in Moments.ARRAYS:
        value = getattr(moments, name)  # of each class: a number, or features, those last
        if name == "anchor" or (value.ndim > 1 and name != "C"):
            first = value.shape[-1] - old
            wider = np.zeros((*value.shape[:-1], first + d), dtype=value.dtype)
            wider[..., np.r_[:first, first + at]] = value
            setattr(result, name, wider)
        else:
            setattr(result, name, C if name == "C" else value.copy())
    new = np.setdiff1d(np.arange(d), at)
    result.nonconstant_weight[:, 1, new] = moments.n[:, None]
    before = moments.categories
    result.categories = None
    if before is not None:
        result.categories = before.reindex_features(at, d, result.anchor)
    return result


def select_features(moments: Moments, at: NDArray[np.intp]) -> Moments:
    """Return moments of these features alone."""
    result = Moments(moments.labels.copy(), moments.anchor[at])
    d = len(moments.anchor)
    result.C[:] = moments.C[:, at[:, None], at]
    for name in (one for one in Moments.ARRAYS if one not in ("labels", "anchor", "C")):
        value = getattr(moments, name)
        first = value.shape[-1] - d
        last = value if value.ndim == 1 else value[..., np.r_[:first, first + at]]
        setattr(result, name, np.array(last, order="C"))
    before = moments.categories
    result.categories = None if before is None else before.select_features(at)
    return result


def drop_empty_classes(moments: Moments) -> Moments:
    """Return moments without the slots of empty classes: the same object if there are none."""
    seen = moments.n > 0
    if seen.all():
        return moments
    result = object.__new__(Moments)
    for name in Moments.ARRAYS:
        value = getattr(moments, name)
        setattr(result, name, value.copy() if name in NOT_PER_CLASS else value[seen])
    before = moments.categories
    result.categories = None if before is None else before.select_classes(seen)
    return result


def features_to_categories(moments: Moments, at: NDArray[np.intp]) -> Moments:
    """Return moments of which features at[i], which are 0 or 1, are category i of a new column.

    In each row at most one of them is 1.
    """
    rest = np.delete(np.arange(len(moments.anchor)), at)
    result, before = select_features(moments, rest), moments.categories
    n = np.ascontiguousarray(moments.nonconstant_weight[:, 0, at])
    sums = moments.C[:, at[:, None], rest] + n[:, :, None] * moments.mean[:, None, rest]
    column = CategoryColumn(n, np.ascontiguousarray(sums), len(at))
    if before is None:
        result.categories = CategoryMoments(result.anchor.copy(), (column,))
        return result
    column = column.move_origin(before.origin[rest] - result.anchor)
    pairs, new = dict(before.pairs), len(before.columns)
    for b, one in enumerate(before.columns):
        together = one.sums[..., at] + one.n[..., None] * before.origin[at]
        k, i, j = np.nonzero(together > MIN_PAIR_WEIGHT * one.n[..., None])
        codes = one.all_codes[i]
        pairs[b, new] = PairWeights((PairRun.of(pair_keys(k, codes, j), together[k, i, j]),))
    columns = (*before.select_features(rest).columns, column)
    result.categories = CategoryMoments(before.origin[rest].copy(), columns, pairs)
    return result
