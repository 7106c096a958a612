"""The parameters of a classifier, read: how rows become moments, and how these are looked at."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from counterpoise import validate
from counterpoise.exact.options import Options
from counterpoise.exact.state import Plan
from counterpoise.features import FixedMap
from counterpoise.features.given import map_in

NAMES = (*(field.name for field in fields(Options)), "memory_limit", "features")


def read(given: Any) -> tuple[Options, Plan]:
    """Read parameters that are attributes of an object; raise if one has no meaning."""
    options = Options.of(given)
    options.check()
    validate.positive(given, "memory_limit")
    the_map = map_in(given.features)
    fixed = given.features if isinstance(given.features, FixedMap) else None
    name = None if the_map is None else the_map.text
    return options, Plan(options.half_life, given.scale == "minmax", name, fixed, the_map)
