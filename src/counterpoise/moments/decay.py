"""Decay of the weight of old rows, by the rows of each class or by time: see docs/math.md."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from counterpoise import validation
from counterpoise.arrays import Labels, Vector

HalfLife = float | str | Mapping[Any, float] | None

SECONDS_PER_UNIT = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
TIME_SPAN = re.compile(
    r"\s*([0-9.]+(?:e[+-]?[0-9]+)?)\s*"
    r"(s|min|h|d|w|seconds?|minutes?|hours?|days?|weeks?)\s*",
    re.IGNORECASE,
)
MIN_ROWS_BEFORE_WARNING = 50  # rows of which at least two should still count
NO_TIMESTAMP = -np.inf  # the latest time of rows without times


@lru_cache(maxsize=64)
def parse_time_span(text: str) -> float | None:
    """Return the seconds of a text such as 90min, 12h, 7d or 2w; None if it is not a time."""
    found = TIME_SPAN.fullmatch(text)
    if found is None:
        return None
    try:
        result = float(found[1]) * SECONDS_PER_UNIT[found[2][0].lower()]
    except ValueError:
        return None
    return result if 0.0 < result < math.inf else None


@dataclass(frozen=True)
class Decay:
    """Half-life of every class in rows, of each label in rows, or in seconds; at most one is set.

    ``is_active`` is whether one is, so that rows lose weight; ``is_timed`` whether by time.
    """

    rows: float | None = None
    by_label: Mapping[Any, float] | None = None
    seconds: float | None = None
    is_active: bool = field(init=False, repr=False, compare=False)
    is_timed: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        is_timed = self.seconds is not None
        is_active = is_timed or self.rows is not None or self.by_label is not None
        object.__setattr__(self, "is_timed", is_timed)
        object.__setattr__(self, "is_active", is_active)

    @classmethod
    def parse(cls, half_life: HalfLife) -> Decay:
        """Parse the parameter ``half_life``; raise a ValueError if it has no meaning."""
        if half_life is None:
            return NO_DECAY
        if isinstance(half_life, str):
            seconds = parse_time_span(half_life)
            if seconds is None:
                raise ValueError(
                    f"half_life={half_life!r} is not a duration; use a number of rows, or a text "
                    "such as '12h', '7d' or '2w'"
                )
            return cls(seconds=seconds)
        given = SimpleNamespace(half_life=half_life)
        if isinstance(half_life, Mapping):
            validation.check_label_dict(given, "half_life")
            return cls(by_label=dict(half_life))
        validation.require_positive(given, "half_life")
        return cls(rows=float(half_life))

    def rows_per_class(self, labels: Labels) -> Vector | None:
        """Return the half-life of each class in rows, (c,), infinite without decay; or None."""
        if self.by_label is not None:
            return np.array([float(self.by_label.get(label, np.inf)) for label in labels.tolist()])
        return None if self.rows is None else np.full(len(labels), self.rows)

    def row_factors(self, labels: Labels, weight: Vector) -> Vector | None:
        """Return the factor of each class (c,) after rows of this weight; None without decay."""
        half_lives = self.rows_per_class(labels)
        return None if half_lives is None else 2.0 ** (-weight / half_lives)

    def time_factors(self, mine: float, theirs: float) -> tuple[float, float]:
        """Return the factors of two pasts at the later of their latest times."""
        if self.seconds is None or mine == NO_TIMESTAMP or theirs == NO_TIMESTAMP:
            return 1.0, 1.0
        later = max(mine, theirs)
        return 2.0 ** ((mine - later) / self.seconds), 2.0 ** ((theirs - later) / self.seconds)

    def weigh(self, t: Vector, weight: Vector | None) -> tuple[float, Vector]:
        """Return the latest of the times (n,), and the weights (n,) as of then."""
        assert self.seconds is not None
        if not len(t):
            return NO_TIMESTAMP, np.zeros(0)
        latest = float(t.max())
        decayed = 2.0 ** ((t - latest) / self.seconds)
        return latest, decayed if weight is None else decayed * weight

    def warn_if_erased(
        self, before: float, previous: float, weight: float, latest: float, rows: int
    ) -> None:
        """Warn if new rows leave less than two of many: one time far in the future does that.

        ``before`` and ``weight`` are the weights of old and new rows as of their latest times,
        ``previous`` and ``latest``.
        """
        mine, theirs = self.time_factors(previous, latest)
        after = mine * before + theirs * weight
        if before + rows >= MIN_ROWS_BEFORE_WARNING and after < 2.0:
            when = np.datetime64(int(max(latest, previous)), "s").item()
            warnings.warn(
                f"the latest row is of {when}, too many half-lives after all others: earlier "
                "rows no longer count, and later rows with earlier times will not; check its time",
                UserWarning,
                stacklevel=2,
            )


NO_DECAY = Decay()
