"""Rules that turn predictions into alerts, row by row and in order.

Later rows do not change the alert of a row, so that a pipe and a file get the same alerts. Only
``TopPerDay`` is for whole batches.
"""

from __future__ import annotations

import bisect
import heapq
from collections import deque
from typing import Any, NamedTuple, Protocol

import numpy as np

from counterpoise.arrays import Flags, Vector
from counterpoise.encoding import cell_parsing
from counterpoise.errors import OptionValue, Suggestion
from counterpoise.evaluate.cost_curve import should_alert
from counterpoise.readers.chunk import Chunk
from counterpoise.tables.records import MAX_RECENT_SCORES, column_of

DAY = 86400.0


class AlertInput(NamedTuple):
    """Predictions of the positive class for the rows of a chunk that have one."""

    # its probability, under balanced classes and under the stream's own frequencies
    balanced: Vector
    stream: Vector
    rank: Vector  # by what rows are ranked
    kept: Flags  # which rows of the chunk they are


class Alerts(Protocol):
    """A rule."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of the input that it needs."""
        ...

    def decide(self, chunk: Chunk, predicted: AlertInput) -> Flags:
        """Return which of the rows that have predictions get an alert, (n,)."""
        ...


class Threshold:
    """Alert where the balanced probability is at least so high."""

    columns: tuple[str, ...] = ()

    def __init__(self, least: float) -> None:
        self.least = least

    def decide(self, chunk: Chunk, predicted: AlertInput) -> Flags:
        """Return which rows get an alert."""
        result: Flags = predicted.balanced >= self.least
        return result


class ExpectedCost:
    """Alert where a miss would cost more than a false alarm, by the stream's probability."""

    def __init__(
        self, alarm: float, miss: float | None, column: str | None = None, decimal: str = "."
    ) -> None:
        self.alarm, self.miss, self.column, self.decimal = alarm, miss, column, decimal
        self.columns = () if column is None else (column,)

    def price(self, chunk: Chunk, kept: Flags) -> Any:
        """Return what a miss of each row that is kept costs, (n,), or of any."""
        if self.column is None:
            return self.miss
        price = read(chunk, self.column, "cost_miss_column", kept, self.decimal, default=self.miss)
        with np.errstate(invalid="ignore"):
            bad = np.flatnonzero(~(np.isfinite(price) & (price > 0.0)))
        if len(bad):
            row = int(np.flatnonzero(kept)[bad[0]])
            raise chunk.error(
                row,
                f"column {self.column!r} contains {price[bad[0]]:g}, but the cost of a miss must "
                "be a finite number above 0",
                Suggestion("correct it"),
            )
        return price

    def decide(self, chunk: Chunk, predicted: AlertInput) -> Flags:
        """Return which rows get an alert."""
        price = self.price(chunk, predicted.kept)
        return (
            should_alert(predicted.stream, price, self.alarm)
            if len(predicted.stream)
            else predicted.stream > 1.0
        )


class TopShare:
    """Rule that alerts about the highest share of recent values; later values have no effect.

    Examples
    --------
    >>> from counterpoise.tables.alerts import TopShare
    >>> TopShare(0.25).among(np.array([1.0, 2.0, 3.0, 4.0, 0.0, 5.0])).tolist()
    [False, False, False, True, False, True]
    """

    columns: tuple[str, ...] = ()

    def __init__(self, share: float, late: Vector | None = None) -> None:
        self.share = share
        self._late: deque[float] = deque([] if late is None else late[-MAX_RECENT_SCORES:].tolist())
        self._sorted: list[float] = sorted(self._late)

    def decide(self, chunk: Chunk, predicted: AlertInput) -> Flags:
        """Return which rows get an alert."""
        return self.among(predicted.rank)

    def among(self, values: Vector) -> Flags:
        """Judge n values, in order, and return n flags."""
        return np.array([self.next(value) <= self.share for value in values.tolist()], dtype=bool)

    def next(self, value: float) -> float:
        """Return the share of recent values, itself included, that are at least as high."""
        if len(self._late) == MAX_RECENT_SCORES:
            del self._sorted[bisect.bisect_left(self._sorted, self._late.popleft())]
        self._late.append(value)
        bisect.insort(self._sorted, value)
        at_least = len(self._sorted) - bisect.bisect_left(self._sorted, value)
        return at_least / len(self._sorted)


class DailyQuota:
    """Rule that alerts about at most ``most`` rows per day: the highest by the rate of rows.

    Rows come at the rate of the last 10,000 of them: m rows in t days. A row gets an alert if it is
    among the share N t / m of the highest recent ones, and its day has had fewer than N alerts.

    Examples
    --------
    >>> from counterpoise.tables.alerts import DailyQuota
    >>> hours = 3600.0 * np.arange(48.0)
    >>> rule = DailyQuota(2, "at")
    >>> [k for k, flag in enumerate(rule.among(np.arange(48) * 7.0 % 48, hours)) if flag]
    [13, 20, 27, 34]
    """

    def __init__(
        self,
        most: int,
        column: str,
        late: Vector | None = None,
        time_format: str | None = None,
    ) -> None:
        self.most, self.columns, self.time_format = most, (column,), time_format
        self._highest = TopShare(1.0, late)
        self._times: deque[float] = deque(maxlen=MAX_RECENT_SCORES)
        self._spent: dict[int, int] = {}

    def decide(self, chunk: Chunk, predicted: AlertInput) -> Flags:
        """Return which rows get an alert."""
        (column,) = self.columns
        when = read(chunk, column, "timestamp", predicted.kept, time_format=self.time_format)
        return self.among(predicted.rank, when)

    def among(self, values: Vector, when: Vector) -> Flags:
        """Judge n values at n times, in seconds, in order, and return n flags."""
        result = np.zeros(len(values), dtype=bool)
        for i, (value, at) in enumerate(zip(values.tolist(), when.tolist(), strict=True)):
            high = self._highest.next(value)
            self._times.append(at)
            days = abs(at - self._times[0]) / DAY
            today = int(at // DAY)
            spent = self._spent.get(today, 0)
            if high <= self.most * days / len(self._times) and spent < self.most:
                result[i] = True
                self._spent[today] = spent + 1
        return result


class TopPerDay:
    """Alert about the N highest rows of each day, which are known after the last row."""

    def __init__(self, per_day: int, column: str, time_format: str | None = None) -> None:
        self.per_day, self.columns, self.time_format = per_day, (column,), time_format
        self._rows, self._highest = 0, dict[int, list[tuple[float, int]]]()

    def decide(self, chunk: Chunk, predicted: AlertInput) -> Flags:
        """Rank the rows of a chunk within their days, and return no alerts yet, (n,)."""
        (column,) = self.columns
        when = read(chunk, column, "timestamp", predicted.kept, time_format=self.time_format)
        rows = self._rows + np.flatnonzero(predicted.kept)
        self._rows += chunk.rows
        self.rank(predicted.rank, when, rows)
        return np.zeros(len(rows), dtype=bool)

    def rank(self, values: Vector, when: Vector, rows: Any) -> None:
        """Add n values at n times, in seconds, with their row numbers; of equals, earlier ones."""
        days = np.floor(when / DAY).astype(np.int64)
        for value, day, row in zip(values.tolist(), days.tolist(), rows.tolist(), strict=True):
            heap = self._highest.setdefault(day, [])
            if len(heap) < self.per_day:
                heapq.heappush(heap, (value, -row))
            else:
                heapq.heappushpop(heap, (value, -row))

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
        found = cell_parsing.seconds(chunk, name, time_format=time_format)
    else:
        found = cell_parsing.numbers(chunk, name, decimal=decimal, dressed=True)
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
