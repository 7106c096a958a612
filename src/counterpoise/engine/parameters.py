"""Parameters of the two engines, parsed once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from operator import is_
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from counterpoise import validation
from counterpoise.arrays import Vector
from counterpoise.engine.state import LearningConfig
from counterpoise.errors import suggest
from counterpoise.feature_maps import FittedMap, Map
from counterpoise.feature_maps.fitted import (
    MAP_NAMES,
    feature_map_name,
    is_map_name,
    parse_feature_map,
)
from counterpoise.solver.options import Options

LINEAR = "linear"
POOLING = "pooled_rows="


def pooling_of(name: str) -> float | None:
    """Return the pooled rows of a candidate with quadratic boundaries; None for all others."""
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
    """Return the name of the map whose moments a candidate uses."""
    return LINEAR if name.startswith(POOLING) else name


def name_of(feature_map: Any, pooled_rows: float | None) -> str:
    """Return the name of a candidate, given its map, fitted or not, and its pooled_rows."""
    if pooled_rows is None:
        the_map = getattr(feature_map, "map", feature_map)
        return LINEAR if feature_map is None else getattr(the_map, "text", str(the_map))
    return POOLING + repr(float(pooled_rows)).removesuffix(".0")


RIDGE_PARAMETERS = (*(field.name for field in fields(Options)), "memory_limit", "feature_map")
DEFAULT_MEMORY_LIMIT = 2e9  # bytes


class RidgeParameters(NamedTuple):
    """Parameters of a balanced ridge model, parsed."""

    options: Options
    config: LearningConfig
    memory_limit: float
    feature_map: Any  # as given

    @property
    def estimator_parameters(self) -> dict[str, Any]:
        """Parameters by name, as BalancedRidgeClassifier takes them."""
        limit, feature_map = self.memory_limit, self.feature_map
        return {**vars(Options.of(self.options)), "memory_limit": limit, "feature_map": feature_map}


def read_ridge_parameters(given: Any) -> RidgeParameters:
    """Return parameters that are attributes of an object; raise if one is invalid."""
    options = Options.of(given)
    options.check()
    validation.require_positive(given, "memory_limit")
    the_map = parse_feature_map(given.feature_map)
    fixed = given.feature_map if isinstance(given.feature_map, FittedMap) else None
    config = LearningConfig.of(options.decay, the_map, fixed)
    return RidgeParameters(options, config, given.memory_limit, given.feature_map)


def parse_ridge_parameters(**given: Any) -> RidgeParameters:
    """Return parameters given by name, the others with their defaults; raise if one is invalid."""
    defaults = {**asdict(Options()), "memory_limit": DEFAULT_MEMORY_LIMIT, "feature_map": None}
    return read_ridge_parameters(_with_defaults(given, defaults, "a balanced ridge model"))


def _with_defaults(given: dict[str, Any], defaults: dict[str, Any], what: str) -> SimpleNamespace:
    """Return parameters as attributes; raise if one does not exist."""
    unknown = sorted(set(given) - set(defaults))
    if unknown:
        raise TypeError(f"{what} has no parameter {unknown[0]!r}")
    return SimpleNamespace(**(defaults | given))


IMMUTABLE_TYPES = frozenset({bool, float, int, str, type(None)})


def cached_parameters(
    estimator: Any, values: Callable[[dict[str, Any]], Any], read: Callable[[Any], Any]
) -> Any:
    """Return ``read(estimator)``, which runs again only when one of ``values`` has changed.

    The attribute ``_cached_params`` keeps the result and can be deleted.
    """
    attributes = estimator.__dict__
    given = values(attributes)
    if "_cached_params" in attributes:
        before, lasting, result = attributes["_cached_params"]
        if before == (given if lasting else _snapshot(given)):
            return result
    before, result = _snapshot(given), read(estimator)
    lasting = all(map(is_, before, given))  # no value is mutable
    attributes["_cached_params"] = before, lasting, result
    return result


def _snapshot(given: Sequence[Any]) -> tuple[Any, ...]:
    """Return values as they are now, independent of later changes."""
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
    "candidates", "ridges", "kept_rows", "class_factors", "half_life", "calibrate", "memory_limit",
)  # fmt: skip
MAX_CANDIDATES = 100
DEFAULT_KEPT_ROWS = 128  # rows of a class
MAX_KEPT_ROWS = 100_000  # rows of a class
UNMAPPED_CANDIDATES = (LINEAR, "pooled_rows=1000", "pooled_rows=10")
LANDMARKS = ("landmarks:150,width=0.7/1.4", "rm2+landmarks:600,width=0.2/0.4/0.8")
CANDIDATES = (*UNMAPPED_CANDIDATES, "ranks", "hinges", "rm2", "hinges+steps:300", *LANDMARKS)
RIDGES = (100.0, 31.6, 10.0, 3.16, 1.0, 0.316, 0.1, 0.0316, 0.01, *(10.0**-k for k in range(3, 7)))


class AutoParameters(NamedTuple):
    """Parameters of an averaging model, parsed."""

    candidates: tuple[Any, ...]  # as given, or the default ones
    names: list[str]
    plans: dict[str, LearningConfig]  # by the name of the map
    ridges: Vector
    kept_rows: int
    options: Options
    learning: tuple[Any, ...]  # all values that affect what is learned
    memory_limit: float
    has_default_candidates: bool
    max_degree: int  # of the terms of all maps

    @property
    def estimator_parameters(self) -> dict[str, Any]:
        """Parameters by name, as AutoClassifier takes them."""
        return {
            "candidates": None if self.has_default_candidates else self.candidates,
            "ridges": tuple(self.ridges.tolist()),
            "kept_rows": self.kept_rows,
            "class_factors": self.options.class_factors,
            "half_life": self.options.half_life,
            "calibrate": self.options.calibrate,
            "memory_limit": self.memory_limit,
        }


def parse_auto_parameters(**given: Any) -> AutoParameters:
    """Return parameters given by name, the others with their defaults; raise if one is invalid."""
    defaults = dict.fromkeys(AUTO_PARAMETERS) | {"ridges": RIDGES, "kept_rows": DEFAULT_KEPT_ROWS}
    defaults |= {"calibrate": False, "memory_limit": DEFAULT_MEMORY_LIMIT}
    return read_auto_parameters(_with_defaults(given, defaults, "an averaging model"))


def read_auto_parameters(given: Any) -> AutoParameters:
    """Return parameters that are attributes of an object; raise if one is invalid."""
    if given.candidates is not None and not _is_sequence(given.candidates):
        raise ValueError(
            "candidates must be one or more maps, such as ('linear', 'pooled_rows=10', 'poly2'); "
            f"got {given.candidates!r}"
        )
    class_factors = None if given.class_factors is None else dict(given.class_factors)
    validation.require_positive(given, "memory_limit")
    try:
        ridges = np.array(given.ridges, dtype=np.float64)
    except (TypeError, ValueError):
        ridges = np.empty(0)
    if ridges.ndim != 1 or not len(ridges) or not (np.isfinite(ridges) & (ridges > 0)).all():
        raise ValueError(f"ridges must be finite numbers above 0; got {given.ridges!r}")
    if len(np.unique(ridges)) < len(ridges):
        raise ValueError(f"ridges={given.ridges!r} has a number twice")
    kept = given.kept_rows
    is_integer = isinstance(kept, (int, np.integer)) and not isinstance(kept, bool)
    if not is_integer or not 1 <= kept <= MAX_KEPT_ROWS:
        raise ValueError(f"kept_rows must be an integer from 1 to {MAX_KEPT_ROWS:,}; got {kept!r}")
    candidates = CANDIDATES if given.candidates is None else tuple(given.candidates)
    if len(candidates) > MAX_CANDIDATES:
        raise ValueError(f"candidates has {len(candidates)} entries, more than {MAX_CANDIDATES}")
    parsed = [_parse_candidate(one) for one in candidates]
    names = [name_of(*one) for one in parsed]
    if len(set(names)) < len(names):
        raise ValueError(f"candidates={candidates!r} has a candidate twice")
    options = Options(
        ridge=1.0,
        class_factors=class_factors,
        half_life=given.half_life,
        calibrate=given.calibrate,
    )
    options.check()
    if options.decay.is_active and options.decay.rows is None:
        raise ValueError(
            "half_life must be a number of rows, because in an averaging model all classes decay "
            f"alike; got {given.half_life!r}"
        )
    fixed = [one if isinstance(one, FittedMap) else None for one in candidates]
    plans = {
        name_of(one, None): LearningConfig.of(options.decay, one, before)
        for (one, _), before in zip(parsed, fixed, strict=True)
    }
    learning = (names, fixed), ridges.tolist(), int(kept), class_factors, given.half_life
    return AutoParameters(
        candidates,
        names,
        plans,
        ridges,
        int(kept),
        options,
        learning,
        memory_limit=given.memory_limit,
        has_default_candidates=given.candidates is None,
        max_degree=max(0 if plan.map is None else plan.map.degree for plan in plans.values()),
    )


def _parse_candidate(candidate: Any) -> tuple[Map | None, float | None]:
    """Return the map of a candidate, if any, and its pooled_rows, if any."""
    if not isinstance(candidate, str):
        return parse_feature_map(candidate), None
    nu = pooling_of(candidate)
    if candidate == LINEAR or nu is not None:
        return None, nu
    if not is_map_name(candidate):
        close = "".join(f" ({one.words})" for one in suggest(candidate, CANDIDATES))
        raise ValueError(
            f"candidates has {candidate!r}, which is not a candidate{close}; use {LINEAR}, "
            f"{POOLING}10, or maps: {MAP_NAMES}"
        )
    return parse_feature_map(candidate), None


def _is_sequence(given: Any) -> bool:
    """Return whether this is a sequence with elements, and not text."""
    is_text = isinstance(given, str)
    return not is_text and isinstance(given, Sequence | np.ndarray) and len(given) > 0
