"""Parameters of an estimator: read and checked once, and held until one of them changes.

They may change at any time: by ``set_params``, by attribute, or within a dict, a sequence or a map
that was given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import signature
from operator import is_, itemgetter
from typing import Any, TypeVar

import numpy as np

from counterpoise.features import Map
from counterpoise.features.given import text_of

T = TypeVar("T")

PLAIN = frozenset({bool, float, int, str, type(None)})  # what cannot change by itself


def held(init: Callable[..., None]) -> Callable[[Callable[[Any], T]], Callable[[Any], T]]:
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
    return tuple([value if type(value) in PLAIN else _now(value) for value in given])


def _now(value: Any) -> Any:
    kind = type(value)
    if kind is tuple or kind is list:
        return _snapshot(value)
    if isinstance(value, np.ndarray):
        return tuple(value.tolist()) if value.ndim else value.item()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return _snapshot(value)
    return (kind, text_of(value)) if isinstance(value, Map) else value
