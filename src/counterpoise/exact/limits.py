"""What moments can hold: how large values and weights may be, and how much memory they may take."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterpoise.arrays import Rows
from counterpoise.errors import DataError, Remedy, Setting
from counterpoise.exact._moments import moderate
from counterpoise.exact.moments import Moments
from counterpoise.features import Map
from counterpoise.validate import HEAVIEST, LARGEST, refuse_large, require_finite


def require_moderate(owner: Any, X: Rows, chunk: Moments) -> None:
    """Raise if the moments of X are not finite, or so large that later sums might not be.

    ``owner`` has the names of the features, X the row at fault.
    """
    if moderate(chunk, LARGEST, HEAVIEST):
        return
    require_finite(owner, X)
    require_light(chunk)
    with np.errstate(invalid="ignore", over="ignore"):
        spread = np.sqrt(chunk.peak / np.maximum(chunk.n, 1e-300)[:, None])
        size = np.abs(chunk.anchor + chunk.mean) + spread
    refuse_large(owner, np.nan_to_num(size, nan=np.inf).max(axis=0))


def require_light(chunk: Moments) -> None:
    """Raise if weights add up to more than later sums could bear."""
    if not (chunk.N <= HEAVIEST).all():
        raise ValueError(f"sample weights add up to more than {HEAVIEST:g}; scale them down")


def require_room(c: int, d: int, limit: float, mapped: bool) -> None:
    """Raise if learning would take too much memory: the moments, and as much for those of a chunk.

    ``c`` classes of ``d`` features, or terms of a map, in ``limit`` bytes.
    """
    size = 2 * 8.0 * c * d * d
    if size <= limit:
        return
    what, fewer = "features", "keep fewer features, or hash them"
    if mapped:
        what, fewer = "terms", "take a map with fewer terms, such as rm2 or rff:400"
    remedies = [Remedy(fewer), Remedy("raise {}", "memory_limit")]
    if not mapped:
        remedies.insert(1, Remedy("use an online rule with a diagonal covariance"))
    raise DataError(
        (
            f"{c} classes of {d} {what} need {size / 1e9:.3g} GB for moments, more than ",
            Setting("memory_limit"),
            f" allows ({limit:g} bytes)",
        ),
        *remedies,
    )


def require_map_fits(the_map: Map | None, inputs: int, limit: float) -> None:
    """Raise if the terms of a map, its random numbers, or its warm-up would take too much."""
    if the_map is None:
        return
    require_room(1, the_map.count(inputs), limit, mapped=True)
    size = 8.0 * inputs * (the_map.draws + the_map.rows)
    if size > limit:
        raise DataError(
            (
                f"a map of {inputs} features needs {size / 1e9:.3g} GB for its warm-up and its "
                "random numbers, more than ",
                Setting("memory_limit"),
                f" allows ({limit:g} bytes)",
            ),
            Remedy("keep fewer features"),
            Remedy("raise {}", "memory_limit"),
        )
