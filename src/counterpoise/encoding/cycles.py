"""Where a date is in the day, the week and the year: points on circles.

A date is learned as a number, the seconds since 1970, which tells its age, and as the sine and the
cosine of its phase in each of three periods. A week begins on Monday, in UTC, as does all else.
"""

from __future__ import annotations

import numpy as np

from counterpoise.arrays import Vector
from counterpoise.encoding.columns import Feature

DAY = 86_400.0
MONDAY = 4 * DAY  # the first one after the beginning of 1970
# The length of each cycle in seconds, and where it begins.
CYCLES = {"day": (DAY, 0.0), "week": (7 * DAY, MONDAY), "year": (365.2425 * DAY, 0.0)}
VALUES = tuple(f"{cycle} {wave}" for cycle in CYCLES for wave in ("sin", "cos"))


def features(column: str) -> list[Feature]:
    """The features of a column of dates, but for the seconds."""
    return [Feature(column, "cycle", value) for value in VALUES]


def waves(seconds: Vector) -> dict[str, Vector]:
    """Sine and cosine of each phase, by name, of shape (rows,)."""
    result = {}
    for cycle, (length, start) in CYCLES.items():
        phase = np.mod(seconds - start, length) * (2.0 * np.pi / length)
        result[f"{cycle} sin"], result[f"{cycle} cos"] = np.sin(phase), np.cos(phase)
    return result
