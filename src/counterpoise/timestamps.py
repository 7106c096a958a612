"""Times of rows that decay by time, in seconds since 1970, checked."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from numbers import Real
from typing import Any

import numpy as np

from counterpoise.arrays import Vector
from counterpoise.validation import MAX_TIMESTAMP

AWARE, MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
EPOCH_NAIVE = AWARE.replace(tzinfo=None)
T_IS_IGNORED = "t is ignored, because half_life is not a duration such as '7d'"


def time(t: Any) -> float:
    """Return the time of one row, as :func:`times` does."""
    if (type(t) is float or type(t) is int) and -MAX_TIMESTAMP < t < MAX_TIMESTAMP:
        return float(t)
    if type(t) is datetime:
        apart = t - (EPOCH_NAIVE if t.tzinfo is None else AWARE)
        return apart // MICROSECOND / 1e6
    return float(times(t, 1)[0])


def times(t: Any, rows: int) -> Vector:
    """Return times of rows in seconds since 1970, given dates, times, text or such numbers."""
    if t is None and not rows:
        return np.zeros(0)
    if t is None:
        raise ValueError(
            "a half_life such as '7d' requires the time of each row; pass t=: dates, times, or "
            "seconds since 1970"
        )
    found = _seconds(t)
    if found.ndim == 0:
        found = np.full(rows, float(found))
    if found.shape != (rows,):
        raise ValueError(f"t has shape {found.shape}, expected ({rows},): one time for each row")
    bad = np.flatnonzero(~(np.abs(found) < MAX_TIMESTAMP))
    if len(bad):
        value = "missing" if np.isnan(found[bad[0]]) else f"{found[bad[0]]:g}"
        raise ValueError(
            f"t is {value} at row {bad[0]}; it must be a time before the year 10,000, and numbers "
            "are seconds since 1970: divide milliseconds by 1000"
        )
    return found


def _seconds(t: Any) -> Vector:
    values = np.asarray(t.to_numpy() if hasattr(t, "to_numpy") else t)
    if values.dtype.kind == "O":  # dates of Python, or with a zone
        values = np.array([_utc(one) for one in values.ravel().tolist()]).reshape(values.shape)
    if values.dtype.kind in "US":
        try:
            values = values.astype("datetime64[us]")
        except ValueError as error:
            raise ValueError(f"t contains text that is not a date or time: {error}") from None
    if values.dtype.kind == "M":
        whole = values.astype("datetime64[us]")
        return np.where(np.isnat(whole), np.nan, whole.astype(np.int64) / 1e6)
    if values.dtype.kind not in "iuf":
        raise ValueError(
            f"t contains {values.dtype} values; give dates, times, or numbers of seconds"
        )
    return values.astype(np.float64)


def _utc(one: Any) -> Any:
    if one is None or one != one:
        return np.datetime64("NaT", "us")
    if getattr(one, "tzinfo", None) is not None:
        one = one.astimezone(UTC).replace(tzinfo=None)
    return one if isinstance(one, Real) else np.datetime64(one, "us")
