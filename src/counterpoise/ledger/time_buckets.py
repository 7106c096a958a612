"""Buckets of time: where they begin and end, all in UTC and in seconds since 1970."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any

import numpy as np

from counterpoise.arrays import Counts, Vector
from counterpoise.errors import DataError, OptionValue
from counterpoise.moments.decay import parse_time_span
from counterpoise.validation import MAX_TIMESTAMP

DAY = 86_400
FIXED = {"minute": 60, "hour": 3_600, "day": DAY, "week": 7 * DAY}
MONTHS = {"month": 1, "quarter": 3, "year": 12}
EVERY = (*FIXED, *MONTHS)
MONDAY = 4 * DAY  # 5 January 1970 was one


def require_every(every: str, finer: str | None = None) -> None:
    """Raise if a size of buckets is unknown, or does not consist of whole finer buckets."""
    if every not in EVERY:
        *first, last = EVERY
        text = f" must be {', '.join(first)} or {last}; got {every!r}"
        raise DataError((OptionValue("every"), text))
    if finer not in (None, every) and (finer == "week" or EVERY.index(finer) > EVERY.index(every)):
        text = f" is not made of whole buckets of one {finer}"
        raise DataError((OptionValue("every", every), text))


def bucket_start(t: Vector, every: str) -> Counts:
    """Return the start of the bucket of each point in time."""
    start: Counts
    if every in FIXED:
        size, shift = FIXED[every], MONDAY if every == "week" else 0
        start = (np.floor((t - shift) / size) * size + shift).astype(np.int64)
        return start
    month = np.floor(t).astype("datetime64[s]").astype("datetime64[M]").astype(np.int64)
    month -= month % MONTHS[every]
    start = month.astype("datetime64[M]").astype("datetime64[s]").astype(np.int64)
    return start


def bucket_stop(start: Counts, every: str) -> Counts:
    """Return the end of each bucket, given its start."""
    if every in FIXED:
        return start + FIXED[every]
    month = start.astype("datetime64[s]").astype("datetime64[M]").astype(np.int64) + MONTHS[every]
    stop: Counts = month.astype("datetime64[M]").astype("datetime64[s]").astype(np.int64)
    return stop


def bucket_bounds(
    t: Vector, every: str, coarse: Sequence[tuple[int, str]]
) -> tuple[Counts, Counts]:
    """Return starts and ends of the buckets of points in time; ``coarse`` has (until, every)."""
    start = bucket_start(t, every)
    stop = bucket_stop(start, every)
    for until, larger in sorted(coarse, key=lambda one: EVERY.index(one[1])):
        old = t < until
        if old.any():
            start[old] = bucket_start(t[old], larger)
            stop[old] = bucket_stop(start[old], larger)
    return start, stop


def bucket_of(point: int, every: str) -> tuple[int, int]:
    """Return the start and end of the bucket of one point in time."""
    start = bucket_start(np.array([float(point)]), every)
    return int(start[0]), int(bucket_stop(start, every)[0])


def parse_time(value: Any, option: str) -> int:
    """Return a point in time as users specify it, in whole seconds."""
    moment: float
    if isinstance(value, str):
        text = value.strip()
        if re.fullmatch(r"\d{4}-\d{2}", text):
            text += "-01"
        try:
            value = datetime.fromisoformat(text)
        except ValueError:
            problem = f" must be a date or time like 2024-12-31 or 2024-12-31T18; got {value!r}"
            raise DataError((OptionValue(option), problem)) from None
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if isinstance(value, datetime):
        value = value if value.tzinfo else value.replace(tzinfo=UTC)
        moment = value.timestamp()
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        moment = float(value)
    else:
        raise DataError((OptionValue(option), f" must be a date or a time; got {value!r}"))
    if not math.isfinite(moment) or abs(moment) >= MAX_TIMESTAMP:
        raise DataError((OptionValue(option), f" is not a point in time: {value!r}"))
    return math.floor(moment)


def text(start: float) -> str:
    """Return a point in time as text without zeros; a bucket may end in the year 10000."""
    day, _, time = str(np.datetime64(math.floor(start), "s")).partition("T")
    return day if time == "00:00:00" else f"{day} {time.removesuffix(':00')}"


def parse_half_life(value: Any) -> float:
    """Return a half-life in seconds: a number of days, or a text such as 12h, 7d or 2w."""
    if isinstance(value, str):
        found = parse_time_span(value)
        if found is not None:
            return found
        with suppress(ValueError):
            value = float(value)
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < math.inf:
        return float(value) * DAY
    raise DataError(
        (
            OptionValue("half_life"),
            f" must be a number of days, or a time such as 12h, 7d or 2w; got {value!r}",
        )
    )
