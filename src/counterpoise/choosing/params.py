"""The parameters of a classifier that chooses, read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from counterpoise import validate
from counterpoise.arrays import Vector
from counterpoise.choosing.names import LINEAR, name_of, pooling_of
from counterpoise.exact.options import Options
from counterpoise.exact.state import Plan
from counterpoise.features import FixedMap, Map
from counterpoise.features.given import map_in

NAMES = ("candidates", "ridges", "kept_rows", "drop", "costs", "half_life", "memory_limit")
MANY = 100  # candidates at most
MOST_KEPT = 100_000  # rows of a class
PLAIN = (LINEAR, "pooling=1000", "pooling=10")
LANDMARKS = ("landmarks:150,width=0.7/1.4", "rm2+landmarks:600,width=0.2/0.4/0.8")
CANDIDATES = (*PLAIN, "ranks", "hinges", "rm2", *LANDMARKS)
WITHOUT_ROWS = (*PLAIN, "rm2", "rm2+rff:300,width=0.5/1.0/2.0")
RIDGES = (100.0, 31.6, 10.0, 3.16, 1.0, 0.316, 0.1, 0.0316, 0.01, *(10.0**-k for k in range(3, 7)))


class Params(NamedTuple):
    """What the parameters mean."""

    given: tuple[Any, ...]  # candidates as they were given, or those by default
    names: list[str]
    plans: dict[str, Plan]  # by the name of the map
    ridges: Vector
    kept_rows: int
    options: Options
    learning: tuple[Any, ...]  # what decides what is learned and chosen


def read(given: Any) -> Params:
    """Read parameters that are attributes of an object; raise if one has no meaning."""
    costs = None if given.costs is None else dict(given.costs)
    validate.positive(given, "memory_limit")
    validate.flag(given, "drop")
    try:
        ridges = np.array(given.ridges, dtype=np.float64)
    except (TypeError, ValueError):
        ridges = np.empty(0)
    if ridges.ndim != 1 or not len(ridges) or not (np.isfinite(ridges) & (ridges > 0)).all():
        raise ValueError(f"ridges={given.ridges!r} must be finite numbers above 0")
    if len(np.unique(ridges)) < len(ridges):
        raise ValueError(f"ridges={given.ridges!r} has a number twice")
    kept = given.kept_rows
    if not isinstance(kept, (int, np.integer)) or isinstance(kept, bool) or kept < 0:
        raise ValueError(f"kept_rows={kept!r} must be a whole number that is not negative")
    if kept > MOST_KEPT:
        raise ValueError(f"kept_rows={kept} is more than {MOST_KEPT}")
    usual = usual_candidates(kept)
    candidates = usual if given.candidates is None else tuple(given.candidates)
    if len(candidates) > MANY:
        raise ValueError(f"candidates has {len(candidates)} entries, more than {MANY}")
    looks = [_look(one) for one in candidates]
    names = [name_of(*one) for one in looks]
    if len(set(names)) < len(names):
        raise ValueError(f"candidates={candidates!r} has a candidate twice")
    if isinstance(given.half_life, str | Mapping):
        raise ValueError(
            f"half_life={given.half_life!r} must be a number of rows: a model that chooses fades "
            "all classes alike, by rows"
        )
    options = Options(ridge=1.0, costs=costs, half_life=given.half_life)
    options.check()
    fixed = [one if isinstance(one, FixedMap) else None for one in candidates]
    plans = {
        name_of(one, None): Plan(
            given.half_life, False, None if one is None else one.text, before, one
        )
        for (one, _), before in zip(looks, fixed, strict=True)
    }
    learning = (names, fixed), ridges.tolist(), int(kept), costs, given.half_life
    return Params(candidates, names, plans, ridges, int(kept), options, learning)


def usual_candidates(kept_rows: Any) -> tuple[str, ...]:
    """Names of the candidates by default."""
    return CANDIDATES if kept_rows else WITHOUT_ROWS


def _look(candidate: Any) -> tuple[Map | None, float | None]:
    """The map of a candidate, if it has one, and its pooling, if boundaries are quadratic."""
    if not isinstance(candidate, str):
        return map_in(candidate), None
    nu = pooling_of(candidate)
    return (None if candidate == LINEAR or nu is not None else map_in(candidate)), nu
