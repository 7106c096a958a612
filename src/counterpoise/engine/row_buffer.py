"""The last rows of each class, kept to rank candidates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Matrix, Rows, Vector
from counterpoise.engine.state import State

MAX_ROWS_PER_CLASS = 64  # rows of each class that rank candidates where there are many classes
Row = tuple[Vector, float, float]  # the row, its weight, and the weight of its class by then


@dataclass(frozen=True)
class RowBuffer:
    """Last rows of each class: an immutable value."""

    # largest number of rows of each class, and their largest weight: a row of weight 2 counts
    # as two, of which the older may have left the buffer
    max_rows: int
    # the rows, by the label of their class, the oldest first
    rows: dict[Any, tuple[Row, ...]] = field(default_factory=dict)

    def append(
        self, X: Rows, y: Labels, weight: Vector | None, before: dict[Any, float]
    ) -> RowBuffer:
        """Return the buffer with more rows, given the weight of each class before them."""
        result = dict(self.rows)
        weight = np.ones(len(y)) if weight is None else weight
        for label in dict.fromkeys(y.tolist()):
            (mine,) = (y == label).nonzero()
            w = weight[mine]
            clock = before.get(label, 0.0) + w.cumsum()
            last = mine[-self.max_rows :]
            part = X[last]
            part = np.array(part) if isinstance(part, np.ndarray) else part.toarray()
            at = len(mine) - len(last)
            more = zip(part, w[at:].tolist(), clock[at:].tolist(), strict=True)
            result[label] = self._last((*result.get(label, ()), *more))
        return RowBuffer(self.max_rows, result)

    def merge(self, other: RowBuffer, before: dict[Any, float]) -> RowBuffer:
        """Return the buffer followed by another one, given the weight of each class before it."""
        result = dict(self.rows)
        for label, rows in other.rows.items():
            later = [(x, w, clock + before.get(label, 0.0)) for x, w, clock in rows]
            result[label] = self._last((*result.get(label, ()), *later))
        return replace(self, rows=result)

    def _last(self, rows: tuple[Row, ...]) -> tuple[Row, ...]:
        """Return the last of these rows, at most max_rows of them and as much weight."""
        rows = rows[-self.max_rows :]
        over = sum([w for _, w, _ in rows]) - self.max_rows
        if over <= 0.0:
            return rows
        first = 0
        while over >= rows[first][1] and first < len(rows) - 1:
            over -= rows[first][1]
            first += 1
        x, w, clock = rows[first]
        return ((x, max(w - over, min(w, 1.0)), clock), *rows[first + 1 :])

    def map_rows(self, change: Callable[[Matrix], Matrix]) -> RowBuffer:
        """Return the buffer with other rows, given a function of rows (n, l)."""
        rows = {}
        for label, mine in self.rows.items():
            changed = change(np.array([x for x, _, _ in mine]))
            rows[label] = tuple((x, *one[1:]) for x, one in zip(changed, mine, strict=True))
        return replace(self, rows=rows)

    def ranking_rows(self, classes: int) -> int:
        """Return the rows of each class that rank candidates: fewer of many classes."""
        return max(MAX_ROWS_PER_CLASS, 2 * self.max_rows // classes)

    def arrays(
        self, labels: Labels, most: int | None = None
    ) -> tuple[Matrix, NDArray[np.intp], Vector, Vector]:
        """Return rows (n, l), the positions of their labels, their weights and their clocks.

        All of them, or the last ``most`` of each class.
        """
        some = [
            (x, code, w, clock)
            for code, label in enumerate(labels.tolist())
            for x, w, clock in self.rows.get(label, ())[-(most or self.max_rows) :]
        ]
        X, code, w, clock = zip(*some, strict=True)
        return np.array(X), np.array(code, dtype=np.intp), np.array(w), np.array(clock)


def decayed_weight(weight: Vector, passed: Vector, half_life: float | None) -> Vector:
    """Return the weight of rows after their class has received the weight ``passed``."""
    if half_life is None:
        return weight
    rate = -np.log(2.0) / half_life
    entered: Vector = np.expm1(rate * weight) / np.expm1(rate)
    decayed: Vector = entered * np.exp(rate * passed)
    return decayed


MAX_DEVIATIONS = 3.0
MAX_SHARE = 0.25


class Change(NamedTuple):
    """Feature whose values have left the first rows, and the share of them."""

    feature: int
    share: float
    rows: int  # that fixed the map


def find_change(states: list[State], kept: RowBuffer) -> Change | None:
    """Return the largest change among fixed maps, or None if they represent the stream."""
    found = [_outlying(state, kept) for state in states if state.fixed is not None]
    worst = max(found, key=lambda one: one.share, default=None)
    return worst if worst is not None and worst.share > MAX_SHARE else None


def _outlying(state: State, kept: RowBuffer) -> Change:
    """Return the feature of which most values are far, each class by its number of rows."""
    assert state.fixed is not None
    moments = state.moments
    seen = moments.n > 0.0
    X, code, _, _ = kept.arrays(moments.labels[seen])
    weight = (moments.n[seen] / np.bincount(code))[code]
    far = np.abs(state.fixed.scale(X[:, : state.n_inputs])) >= MAX_DEVIATIONS
    share = weight @ far / weight.sum()
    j = int(share.argmax())
    return Change(j, float(share[j]), state.config.rows)
