"""The same moments in another shape: more or fewer classes and features.

All of these are values of their own. Only the scatters of a :class:`Room` share storage with what
they grew from, and only the State that owns the room grows in it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Labels, joined, scatters
from counterpoise.moments.moments import PER_CLASS_ARRAYS, Moments

Scatters = NDArray[np.float64]


class GrowableScatter:
    """Storage for scatters that grow: they are copied at geometrically spaced sizes only."""

    def __init__(self) -> None:
        self.store: Scatters = scatters(0, 0)

    def grown(self, C: Scatters, c: int, d: int) -> Scatters:
        """Scatters with room for c classes and d features, the new entries 0."""
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


def with_labels(moments: Moments, labels: Labels, room: GrowableScatter | None = None) -> Moments:
    """Slots for these labels: the same object if it has them, else an equal value with more.

    With a room the scatters are those of the old value, which must not be changed any more.
    """
    if labels is moments.labels:
        return moments
    known = set(moments.labels.tolist())
    new = np.array([label not in known for label in labels.tolist()], dtype=bool)
    if not new.any():
        return moments
    more, result = int(new.sum()), object.__new__(Moments)
    for name in ("anchor", "when", "clipped"):
        setattr(result, name, getattr(moments, name).copy())
    for name in PER_CLASS_ARRAYS:
        old = getattr(moments, name)
        slots = np.zeros((more, *old.shape[1:]), dtype=old.dtype)
        setattr(result, name, np.concatenate([old, slots]))
    result.stream = np.append(moments.stream, np.full(more, moments.N.sum()))
    result.labels = joined(moments.labels, labels[new])
    result.C = (room or GrowableScatter()).grown(moments.C, len(result.labels), len(moments.anchor))
    return result


def with_features(moments: Moments, d: int, room: GrowableScatter | None = None) -> Moments:
    """Widen to d features, the new ones zero in every row so far.

    With a room the scatters are those of the old value, which must not be changed any more.
    """
    more = d - len(moments.anchor)
    result = object.__new__(Moments)
    same = ("labels", "n", "weight_remainder", "min_row_weight", "N", "stream", "when", "clipped")
    for name in same:
        setattr(result, name, getattr(moments, name).copy())
    result.anchor = np.append(moments.anchor, np.zeros(more))
    wider: Any = ((0, 0), (0, more))
    result.mean, result.max_scatter = (
        np.pad(moments.mean, wider),
        np.pad(moments.max_scatter, wider),
    )
    wider = ((0, 0), (0, 0), (0, more))
    result.removed, result.row_hashes = (
        np.pad(moments.removed, wider),
        np.pad(moments.row_hashes, wider),
    )
    nonconstant_weight = np.zeros((len(moments.n), 2, more))
    nonconstant_weight[:, 1] = moments.n[:, None]
    result.nonconstant_weight = np.concatenate(
        [moments.nonconstant_weight, nonconstant_weight], axis=2
    )
    result.C = (room or GrowableScatter()).grown(moments.C, len(moments.labels), d)
    return result


def reindex_features(moments: Moments, at: NDArray[np.intp], d: int) -> Moments:
    """Move feature j to place at[j] of a row of d; the other places were zero in every row."""
    anchor = np.zeros(d)
    anchor[at] = moments.anchor
    result = Moments(moments.labels.copy(), anchor)
    for name in ("n", "weight_remainder", "min_row_weight", "N", "stream", "when", "clipped"):
        setattr(result, name, getattr(moments, name).copy())
    result.mean[:, at], result.max_scatter[:, at] = moments.mean, moments.max_scatter
    result.nonconstant_weight[:, 1] = moments.n[:, None]
    result.nonconstant_weight[:, :, at], result.removed[:, :, at] = (
        moments.nonconstant_weight,
        moments.removed,
    )
    result.row_hashes[:, :, 0], result.row_hashes[:, :, 1 + at] = (
        moments.row_hashes[:, :, 0],
        moments.row_hashes[:, :, 1:],
    )
    result.C[:, at[:, None], at] = moments.C
    return result


def select_features(moments: Moments, at: NDArray[np.intp]) -> Moments:
    """Moments of the features at these places alone."""
    result = Moments(moments.labels.copy(), moments.anchor[at])
    d = len(moments.anchor)
    result.C[:] = moments.C[:, at[:, None], at]
    for name in Moments.__slots__:
        if name in ("labels", "anchor", "C"):
            continue
        value = getattr(moments, name)  # of each class: a number, or one a feature, those last
        first = value.shape[-1] - d
        last = value if value.ndim == 1 else value[..., np.r_[:first, first + at]]
        setattr(result, name, np.array(last, order="C"))
    return result


def drop_empty_classes(moments: Moments) -> Moments:
    """Without the slots of classes of which nothing is left: the same object if there are none."""
    seen = moments.n > 0
    if seen.all():
        return moments
    result = Moments(moments.labels[seen], moments.anchor)
    for name in (*PER_CLASS_ARRAYS, "stream", "C"):
        setattr(result, name, getattr(moments, name)[seen])
    result.when, result.clipped = moments.when.copy(), moments.clipped.copy()
    return result
