"""The parameters of a classifier that chooses, read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from functools import wraps
from inspect import signature
from operator import is_, itemgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np

from counterpoise import validation
from counterpoise.arrays import Vector
from counterpoise.engine.state import LearningConfig
from counterpoise.feature_maps import FittedMap, Map
from counterpoise.feature_maps.fitted import feature_map_name, parse_feature_map
from counterpoise.solver.options import Options

LINEAR = "linear"
POOLING = "pooled_rows="


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
            f"candidates has {name!r}: pooled_rows must be a finite number of rows that is not "
            "negative, as in 'pooled_rows=10'"
        )
    return nu


def map_name(name: str) -> str:
    """Name of the map whose moments a candidate looks at."""
    return LINEAR if name.startswith(POOLING) else name


def name_of(feature_map: Any, pooled_rows: float | None) -> str:
    """Name of a candidate, given its map, if any, fixed or not, and its pooled_rows."""
    if pooled_rows is None:
        the_map = getattr(feature_map, "map", feature_map)
        return LINEAR if feature_map is None else getattr(the_map, "text", str(the_map))
    return POOLING + repr(float(pooled_rows)).removesuffix(".0")


RIDGE_PARAMETERS = (*(field.name for field in fields(Options)), "memory_limit", "feature_map")


def read_ridge_parameters(given: Any) -> tuple[Options, LearningConfig]:
    """Read parameters that are attributes of an object; raise if one has no meaning."""
    options = Options.of(given)
    options.check()
    validation.positive(given, "memory_limit")
    the_map = parse_feature_map(given.feature_map)
    fixed = given.feature_map if isinstance(given.feature_map, FittedMap) else None
    name = None if the_map is None else the_map.text
    return options, LearningConfig(options.decay, name, fixed, the_map)


T = TypeVar("T")

IMMUTABLE_TYPES = frozenset({bool, float, int, str, type(None)})  # what cannot change by itself


def cached_params(init: Callable[..., None]) -> Callable[[Callable[[Any], T]], Callable[[Any], T]]:
    """Let a method without arguments run again only when a parameter of ``init`` has changed.

    What it returned is kept in the attribute ``_held``, which can be thrown away.
    """
    values = itemgetter(*list(signature(init).parameters)[1:])

    def holding(read: Callable[[Any], T]) -> Callable[[Any], T]:
        @wraps(read)
        def meaning(estimator: Any) -> T:
            attributes = estimator.__dict__
            given = values(attributes)
            if "_held" in attributes:
                before, lasting, result = attributes["_held"]
                if before == (given if lasting else _snapshot(given)):
                    return result  # type: ignore[no-any-return]
            before, result = _snapshot(given), read(estimator)
            lasting = all(map(is_, before, given))  # nothing in it can change by itself
            attributes["_held"] = before, lasting, result
            return result

        return meaning

    return holding


def _snapshot(given: Sequence[Any]) -> tuple[Any, ...]:
    """Values as they are now, whatever becomes of what holds them."""
    return tuple([value if type(value) in IMMUTABLE_TYPES else _freeze(value) for value in given])


def _freeze(value: Any) -> Any:
    kind = type(value)
    if kind is tuple or kind is list:
        return _snapshot(value)
    if isinstance(value, np.ndarray):
        return tuple(value.tolist()) if value.ndim else value.item()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return _snapshot(value)
    return (kind, feature_map_name(value)) if isinstance(value, Map) else value


AUTO_PARAMETERS = (
    "candidates",
    "ridges",
    "kept_rows",
    "class_factors",
    "half_life",
    "memory_limit",
)
MAX_CANDIDATES = 100  # candidates at most
MAX_KEPT_ROWS = 100_000  # rows of a class
UNMAPPED_CANDIDATES = (LINEAR, "pooled_rows=1000", "pooled_rows=10")
LANDMARKS = ("landmarks:150,width=0.7/1.4", "rm2+landmarks:600,width=0.2/0.4/0.8")
CANDIDATES = (*UNMAPPED_CANDIDATES, "ranks", "hinges", "rm2", *LANDMARKS)
RIDGES = (100.0, 31.6, 10.0, 3.16, 1.0, 0.316, 0.1, 0.0316, 0.01, *(10.0**-k for k in range(3, 7)))


class Params(NamedTuple):
    """What the parameters mean."""

    given: tuple[Any, ...]  # candidates as they were given, or those by default
    names: list[str]
    plans: dict[str, LearningConfig]  # by the name of the map
    ridges: Vector
    kept_rows: int
    options: Options
    learning: tuple[Any, ...]  # what decides what is learned and chosen


def read_auto_parameters(given: Any) -> Params:
    """Read parameters that are attributes of an object; raise if one has no meaning."""
    class_factors = None if given.class_factors is None else dict(given.class_factors)
    validation.positive(given, "memory_limit")
    try:
        ridges = np.array(given.ridges, dtype=np.float64)
    except (TypeError, ValueError):
        ridges = np.empty(0)
    if ridges.ndim != 1 or not len(ridges) or not (np.isfinite(ridges) & (ridges > 0)).all():
        raise ValueError(f"ridges={given.ridges!r} must be finite numbers above 0")
    if len(np.unique(ridges)) < len(ridges):
        raise ValueError(f"ridges={given.ridges!r} has a number twice")
    kept = given.kept_rows
    is_integer = isinstance(kept, (int, np.integer)) and not isinstance(kept, bool)
    if not is_integer or not 1 <= kept <= MAX_KEPT_ROWS:
        raise ValueError(f"kept_rows must be an integer from 1 to {MAX_KEPT_ROWS:,}; got {kept!r}")
    candidates = CANDIDATES if given.candidates is None else tuple(given.candidates)
    if len(candidates) > MAX_CANDIDATES:
        raise ValueError(f"candidates has {len(candidates)} entries, more than {MAX_CANDIDATES}")
    looks = [_parse_candidate(one) for one in candidates]
    names = [name_of(*one) for one in looks]
    if len(set(names)) < len(names):
        raise ValueError(f"candidates={candidates!r} has a candidate twice")
    options = Options(ridge=1.0, class_factors=class_factors, half_life=given.half_life)
    options.check()
    if options.decay.is_active and options.decay.rows is None:
        raise ValueError(
            f"half_life={given.half_life!r} must be a number of rows: a model that chooses fades "
            "all classes alike, by rows"
        )
    fixed = [one if isinstance(one, FittedMap) else None for one in candidates]
    plans = {
        name_of(one, None): LearningConfig(
            options.decay, None if one is None else one.text, before, one
        )
        for (one, _), before in zip(looks, fixed, strict=True)
    }
    learning = (names, fixed), ridges.tolist(), int(kept), class_factors, given.half_life
    return Params(candidates, names, plans, ridges, int(kept), options, learning)


def _parse_candidate(candidate: Any) -> tuple[Map | None, float | None]:
    """The map of a candidate, if it has one, and its pooled_rows, if boundaries are quadratic."""
    if not isinstance(candidate, str):
        return parse_feature_map(candidate), None
    nu = pooling_of(candidate)
    return (None if candidate == LINEAR or nu is not None else parse_feature_map(candidate)), nu
