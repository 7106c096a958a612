"""Half-lives: how the past fades, by the rows of each class or by the clock.

By rows, a class's own rows make its past fade, and each class may have a half-life of its own. By
the clock, a row of time t weighs ω 2^((t − T)/h), where T is the latest time learned: that is a
weight like any other, so that neither order nor chunks matter, and two models add up once both
are brought to the later T.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from counterpoise.arrays import Labels, Vector

HalfLife = float | str | Mapping[Any, float] | None

UNITS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0, "w": 604_800.0}
SPAN = re.compile(
    r"\s*([0-9.]+(?:e[+-]?[0-9]+)?)\s*"
    r"(s|min|h|d|w|seconds?|minutes?|hours?|days?|weeks?)\s*",
    re.IGNORECASE,
)
MIN_ROWS = 50  # learned before it is odd that hardly any of them counts
NO_TIMESTAMP = -np.inf  # the latest time where none was told


@lru_cache(maxsize=64)
def seconds(text: str) -> float | None:
    """So many seconds as a text such as 90min, 12h, 7d or 2w says; None if it says no time."""
    found = SPAN.fullmatch(text)
    if found is None:
        return None
    try:
        result = float(found[1]) * UNITS[found[2][0].lower()]
    except ValueError:
        return None
    return result if 0.0 < result < math.inf else None


def half_life_seconds(half_life: HalfLife) -> float | None:
    """Half-life by the clock in seconds; None where it counts rows, or nothing fades."""
    return seconds(half_life) if isinstance(half_life, str) else None


def common_half_life(half_life: HalfLife) -> float | None:
    """One half-life of all classes by their rows; None where there is none."""
    return half_life if isinstance(half_life, int | float) else None


def half_life_per_class(half_life: HalfLife, labels: Labels) -> Vector | None:
    """Half-life of each class by its rows, infinite for those that do not fade; None if none do."""
    if half_life is None or isinstance(half_life, str):
        return None
    if isinstance(half_life, Mapping):
        return np.array([float(half_life.get(label, np.inf)) for label in labels.tolist()])
    return np.full(len(labels), float(half_life))


def decayed_weights(t: Vector, weight: Vector | None, half_life: float) -> tuple[float, Vector]:
    """The latest of these times, and weights as of then."""
    if not len(t):
        return NO_TIMESTAMP, np.zeros(0)
    latest = float(t.max())
    faded = 2.0 ** ((t - latest) / half_life)
    return latest, faded if weight is None else faded * weight


def warn_if_erased(before: float, rows: float, after: float, latest: float) -> None:
    """Warn if many rows, of weight ``before`` and new, weigh less than two after decaying.

    ``latest`` is the time of the latest row, in seconds. One time far in the future does that.
    """
    if before + rows >= MIN_ROWS and after < 2.0:
        when = np.datetime64(int(latest), "s").item()
        warnings.warn(
            f"the latest row is of {when}, so many half-lives after all others that these no "
            "longer count, and neither will later rows with earlier times; is its time right?",
            UserWarning,
            stacklevel=2,
        )


def decay_factors(mine: float, theirs: float, half_life: float) -> tuple[float, float]:
    """How much is left of two pasts at the later of their latest times."""
    if mine == NO_TIMESTAMP or theirs == NO_TIMESTAMP:
        return 1.0, 1.0
    later = max(mine, theirs)
    return 2.0 ** ((mine - later) / half_life), 2.0 ** ((theirs - later) / half_life)
