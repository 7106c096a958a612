"""The map in ``features=`` of an estimator, and its name."""

from __future__ import annotations

from typing import Any

from counterpoise.features.fixed import FixedMap
from counterpoise.features.maps import Map
from counterpoise.features.names import map_of


def map_in(features: Any) -> Map | None:
    """The map of ``features``: None for none; raise if it has no meaning."""
    if features is None:
        return None
    return features.map if isinstance(features, FixedMap) else map_of(features)


def text_of(features: Any) -> str | None:
    """What ``features`` is called in a file; None for none."""
    found = map_in(features)
    return None if found is None else found.text
