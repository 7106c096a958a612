"""Names of candidates: which moments each of them looks at, and how.

"linear" looks at the moments of the features as they are, "pooling=10" at the same moments with
quadratic boundaries, and any other name is that of a map, whose terms have moments of their own.
"""

from __future__ import annotations

from typing import Any

LINEAR = "linear"
POOLING = "pooling="


def pooling_of(name: str) -> float | None:
    """Rows of pooled evidence of a candidate with quadratic boundaries; None for the others."""
    if not name.startswith(POOLING):
        return None
    try:
        nu = float(name[len(POOLING) :])
    except ValueError:
        nu = -1.0
    if not 0.0 <= nu < float("inf"):
        raise ValueError(
            f"candidates has {name!r}: pooling must be a finite number of rows that is not "
            "negative, as in 'pooling=10'"
        )
    return nu


def map_name(name: str) -> str:
    """Name of the map whose moments a candidate looks at."""
    return LINEAR if name.startswith(POOLING) else name


def name_of(features: Any, pooling: float | None) -> str:
    """Name of a candidate, given its map, if any, fixed or not, and its pooling."""
    if pooling is None:
        the_map = getattr(features, "map", features)
        return LINEAR if features is None else getattr(the_map, "text", str(the_map))
    return POOLING + repr(float(pooling)).removesuffix(".0")
