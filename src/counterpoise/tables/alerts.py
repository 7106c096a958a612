"""Rules that turn predictions into alerts, row by row and in order.

Later rows do not change the alert of a row, so that a pipe and a file get the same alerts. Only
``TopPerDay`` is for whole batches.
"""

from __future__ import annotations

import bisect
import heapq
from abc import ABC, abstractmethod
from collections import deque
from typing import Any, NamedTuple

import numpy as np

from counterpoise.arrays import Flags, Vector
from counterpoise.encoding import cell_parsing
from counterpoise.errors import OptionValue, Suggestion
from counterpoise.evaluate.cost_curve import should_alert
from counterpoise.readers.chunk import Chunk
from counterpoise.tables.records import MAX_RECENT_SCORES, column_of

DAY_SECONDS = 86_400.0


class AlertInput(NamedTuple):
    """Predictions of the positive class for the rows of a chunk that have one."""

    balanced: Vector  # its balanced probability
    stream: Vector  # its stream probability
    rank: Vector  # by what rows are ranked
    kept: Flags  # which rows of the chunk they are


class Alerts(ABC):
    """Rule that decides which rows get an alert."""

    columns: tuple[str, ...] = ()  # columns of the input that it needs

    @abstractmethod
    def decide(self, chunk: Chunk, predicted: AlertInput) -> Flags:
        """Return which of the rows that have predictions get an alert, (n,)."""


class Threshold(Alerts):
    """Alert where the balanced probability reaches a threshold."""

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold

    def decide(self, chunk: Chunk, predicted: AlertInput) -> Flags:
        """Return which rows get an alert."""
        result: Flags = predicted.balanced >= self.threshold
        return result


class ExpectedCost(Alerts):
    """Alert where a miss would cost more than a false alarm, by the stream probability."""

    def __init__(
        self, alarm: float, miss: float | None, column: str | None = None, decimal: str = "."
    ) -> None:
        self.alarm, self.miss, self.column, self.decimal = alarm, miss, column, decimal
        self.columns = () if column is None else (column,)

    def price(self, chunk: Chunk, kept: Flags) -> Any:
        """Return the cost of a miss of each row that is kept, (n,), or of all rows."""
        if self.column is None:
            return self.miss
        price = read(chunk, self.column, "cost_miss_column", kept, self.decimal, default=self.miss)
        with np.errstate(invalid="ignore"):
            bad = np.flatnonzero(~(np.isfinite(price) & (price > 0.0)))
        if len(bad):
            raise chunk.error(
                int(np.flatnonzero(kept)[bad[0]]),
                f"column {self.column!r} contains {price[bad[0]]:g}, but the cost of a miss must "
                "be a finite number above 0",
                Suggestion("correct it"),
            )
        return price

    def decide(self, chunk: Chunk, predicted: AlertInput) -> Flags:
        """Return which rows get an alert."""
        price = self.price(chunk, predicted.kept)
        if not len(predicted.stream):
            return np.zeros(0, dtype=bool)
        return should_alert(predicted.stream, price, self.alarm)


class TopShare(Alerts):
    """Alert about the highest share of recent values; later values have no effect."""

    def __init__(self, share: float, recent: Vector | None = None) -> None:
        self.share = share
        self._recent: deque[float] = deque(
            [] if recent is None else recent[-MAX_RECENT_SCORES:].tolist()
        )
        self._sorted: list[float] = sorted(self._recent)

    def decide(self, chunk: Chunk, predicted: AlertInput) -> Flags:
        """Return which rows get an alert."""
        return self.select(predicted.rank)

    def select(self, values: Vector) -> Flags:
        """Return which of n values, in order, get an alert, (n,)."""
        return np.array([self.next(value) <= self.share for value in values.tolist()], dtype=bool)

    def next(self, value: float) -> float:
        """Return the share of recent values, itself included, that are at least as high."""
        if len(self._recent) == MAX_RECENT_SCORES:
            del self._sorted[bisect.bisect_left(self._sorted, self._recent.popleft())]
        self._recent.append(value)
        bisect.insort(self._sorted, value)
        at_least = len(self._sorted) - bisect.bisect_left(self._sorted, value)
        return at_least / len(self._sorted)


class _PerDay(Alerts):
    """Rule about a number of rows of each day, by a column of times."""

    def __init__(self, per_day: int, column: str, time_format: str | None) -> None:
        self.per_day, self.time_format, self.columns = per_day, time_format, (column,)

    def _seconds(self, chunk: Chunk, kept: Flags) -> Vector:
        """Return the times of the rows that are kept, in seconds, (n,)."""
        return read(chunk, self.columns[0], "timestamp", kept, time_format=self.time_format)


class DailyQuota(_PerDay):
    """Alert about at most N rows per day: the highest by the rate of rows.

    Rows come at the rate of the last 10,000 of them: m rows in t days. A row gets an alert if it is
    among the share N t / m of the highest recent ones, and its day has had fewer than N alerts.
    """

    def __init__(
        self, per_day: int, column: str, recent: Vector | None = None,
        time_format: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(per_day, column, time_format)
        self._highest = TopShare(1.0, recent)
        self._times: deque[float] = deque(maxlen=MAX_RECENT_SCORES)
        self._spent: dict[int, int] = {}

    def decide(self, chunk: Chunk, predicted: AlertInput) -> Flags:
        """Return which rows get an alert."""
        return self.select(predicted.rank, self._seconds(chunk, predicted.kept))

    def select(self, values: Vector, when: Vector) -> Flags:
        """Return which of n values at n times, in seconds and in order, get an alert, (n,)."""
        result = np.zeros(len(values), dtype=bool)
        for i, (value, at) in enumerate(zip(values.tolist(), when.tolist(), strict=True)):
            share = self._highest.next(value)
            self._times.append(at)
            days, today = abs(at - self._times[0]) / DAY_SECONDS, int(at // DAY_SECONDS)
            spent = self._spent.get(today, 0)
            if share <= self.per_day * days / len(self._times) and spent < self.per_day:
                result[i] = True
                self._spent[today] = spent + 1
        return result


class TopPerDay(_PerDay):
    """Alert about the N highest rows of each day, which are found after the last row."""

    def __init__(self, per_day: int, column: str, time_format: str | None = None) -> None:
        super().__init__(per_day, column, time_format)
        self._rows, self._highest = 0, dict[int, list[tuple[float, int]]]()

    def decide(self, chunk: Chunk, predicted: AlertInput) -> Flags:
        """Rank the rows of a chunk within their days, and return no alerts yet, (n,).

        Of equal rows, earlier ones are higher.
        """
        days = (self._seconds(chunk, predicted.kept) // DAY_SECONDS).astype(np.int64).tolist()
        rows = (self._rows + np.flatnonzero(predicted.kept)).tolist()
        self._rows += chunk.rows
        for value, day, row in zip(predicted.rank.tolist(), days, rows, strict=True):
            heap = self._highest.setdefault(day, [])
            if len(heap) < self.per_day:
                heapq.heappush(heap, (value, -row))
            else:
                heapq.heappushpop(heap, (value, -row))
        return np.zeros(len(rows), dtype=bool)

    def alerts(self) -> Vector:
        """Return the row numbers of all alerts, sorted."""
        return np.sort([-row for heap in self._highest.values() for _, row in heap])


def read(
    chunk: Chunk,
    name: str,
    option: str,
    kept: Flags,
    decimal: str = ".",
    time_format: str | None = None,
    default: float | None = None,
) -> Vector:
    """Return numbers or times of the rows that are kept, (n,), of a column that an option names.

    Missing values become ``default``; without one, they raise.
    """
    column_of(chunk, name, option)
    if option == "timestamp":
        found = cell_parsing.seconds(chunk, name, cell_parsing.OTHER_TIME, time_format)
    else:
        found = cell_parsing.numbers(chunk, name, decimal=decimal, has_symbols=True)
    missing = np.isnan(found) & kept
    if default is not None:
        found = np.where(missing, default, found)
    elif missing.any():
        fallback = [Suggestion("name the cost of such rows with {}", "cost_miss")]
        raise chunk.error(
            int(missing.argmax()),
            (f"no value in column {name!r}, named by ", OptionValue(option)),
            Suggestion("fill it in"),
            *(fallback if option == "cost_miss_column" else ()),
        )
    values: Vector = found[kept]
    return values
