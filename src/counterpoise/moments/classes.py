"""Classes: labels, their slots in the moments, the predicted class, and the rows of each label."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise import validation
from counterpoise.arrays import Flags, Labels, Matrix, concatenate_labels, groups, sort_unique
from counterpoise.moments._moments import two_groups
from counterpoise.moments.moments import Moments


@dataclass(frozen=True, eq=False)
class Classes:
    """Labels in the order of the scores, and the slot of each in the moments, −1 if never seen."""

    labels: Labels
    slots: NDArray[np.intp]

    @classmethod
    def of(cls, moments: Moments, declared: Labels) -> Classes:
        """Return the classes of labels seen or declared, sorted."""
        labels = moments.labels
        is_same = not len(declared) or labels.dtype == declared.dtype
        if is_same and labels.dtype != object and all(moments.n.tolist()):  # as most often
            known = labels.tolist()
            if known == sorted({*known, *declared.tolist()}):
                return cls(labels, np.arange(len(known)))
        return cls.for_labels(moments, union(moments.labels[moments.n > 0], declared))

    @classmethod
    def in_order_of_appearance(cls, moments: Moments) -> Classes:
        """Return the classes in the order of the moments; labels need no order."""
        return cls.for_labels(moments, moments.labels)

    @classmethod
    def for_labels(cls, moments: Moments, labels: Labels) -> Classes:
        """Return the classes of these labels in this order, seen or not."""
        seen = {label: k for k, label in enumerate(moments.labels.tolist()) if moments.n[k] > 0}
        return cls(labels, np.array([seen.get(label, -1) for label in labels.tolist()], np.intp))

    @cached_property
    def seen(self) -> Flags:
        """Flags (c,) of classes that were ever seen."""
        return np.asarray(self.slots >= 0)

    @property
    def n_scores(self) -> int:
        """Number of columns of the scores."""
        return n_score_columns(len(self.labels))

    def best(self, f: Matrix) -> Labels:
        """Return the predicted label of each row of scores."""
        return np.asarray(self.labels[argmax_classes(f, self.seen)])


def n_score_columns(c: int) -> int:
    """Return the number of scores: one for two classes or one, else one per class."""
    return 1 if c <= 2 else c


def argmax_classes(f: NDArray[np.float64], seen: Flags | None = None) -> NDArray[np.intp]:
    """Return the index (...) of the class that scores f (..., problems) predict.

    It is the positive class of two above zero, else the class of the largest score among those
    seen; with None all were seen.
    """
    if seen is not None and seen.sum() == 1:
        return np.full(f.shape[:-1], seen.argmax())
    if f.shape[-1] == 1:
        return (f[..., 0] > 0).astype(np.intp)
    best: NDArray[np.intp] = (f if seen is None else np.where(seen, f, -np.inf)).argmax(axis=-1)
    return best


def ravel_binary(f: Matrix) -> NDArray[np.float64]:
    """Return scores as scikit-learn has them: a vector where there is one problem."""
    return f.ravel() if f.shape[1] == 1 else f


def union(one: Labels, two: Labels) -> Labels:
    """Return the labels of both, sorted; raise if some are text and the others numbers."""
    validation.require_one_type(two, one)
    return sort_unique(concatenate_labels(one, two))


def declare_labels(known: Labels, classes: Any) -> Labels:
    """Return the labels declared so far and now."""
    if classes is None:
        return known
    more = np.unique(np.asarray(classes))
    validation.require_no_nan(more)
    validation.require_labels(more)
    return union(known, more)


def _rows_of(y: Labels, known: Labels) -> list[NDArray[np.intp]]:
    """Return the rows of each label, in order."""
    if len(known) == 2 and y.dtype == known.dtype and y.dtype.kind in "ib" and y.flags.c_contiguous:
        plain = {8: np.int64, 1: np.uint8}.get(y.itemsize)
        if plain is not None:
            room = np.empty((2, len(y)), dtype=np.intp)
            one, two = known.view(plain).tolist()
            a, b = two_groups(y.view(plain), one, two, room)
            return [room[0, :a], room[1, :b]]
    return [np.flatnonzero(y == label) for label in known]


def group_rows(y: Labels, known: Labels) -> tuple[list[NDArray[np.intp]], Labels]:
    """Return the rows of each label, in order, and the labels: known ones, then new ones, sorted.

    The labels are ``known`` itself if y has no new one.
    """
    validation.require_one_type(y, known)
    if len(known) and len(y) and y.dtype != known.dtype and y.dtype.kind in "iuf":
        both = concatenate_labels(known, y)
        known = known if both.dtype == known.dtype else both[: len(known)]
        y = both[len(known) :]
    if 0 < len(known) <= 16:
        rows_of = _rows_of(y, known)
        if sum(map(len, rows_of)) == len(y):
            return rows_of, known
    new = y if not len(known) else y[~np.isin(y, known)]
    labels = known
    if len(new):
        new = sort_unique(new)
        validation.require_labels(new)
        labels = concatenate_labels(known, new)
    order = np.argsort(labels, kind="stable")
    codes = order[np.searchsorted(labels[order], y)]
    return groups(codes, len(labels)), labels
