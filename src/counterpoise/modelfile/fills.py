"""Features that may be missing as what a model file can hold, and back, trusting nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterpoise.exact.filling import Fill
from counterpoise.modelfile.container import require
from counterpoise.validate import LARGEST

FIELDS = {"at", "by", "base", "present"}


def plain_fill(fill: Fill) -> dict[str, list[Any]]:
    """Return a fill as JSON can hold it."""
    return {
        "at": fill.at.tolist(),
        "by": fill.by.tolist(),
        "base": fill.base.tolist(),
        "present": fill.present.tolist(),
    }


def fill_of(plain: Any, inputs: int) -> Fill | None:
    """Return the fill of rows with so many features, checked; None if there is none."""
    if plain is None:
        return None
    lists = isinstance(plain, dict) and set(plain) == FIELDS
    require(lists and all(isinstance(part, list) for part in plain.values()), "a malformed fill")
    at, by, base, present = (plain[name] for name in ("at", "by", "base", "present"))
    require(0 < len(at) == len(by) == len(base) == len(present), "a malformed fill")
    places = all(type(j) is int and 0 <= j < inputs for j in (*at, *by))
    require(places, "a fill of features that there are not")
    require(len(set(at)) == len(at) and not set(at) & set(by), "a feature that is filled twice")
    require(all(type(x) is float and abs(x) <= LARGEST for x in base), "an impossible fill")
    require(all(type(flag) is bool for flag in present), "a malformed fill")
    return Fill.of(at, by, np.array(base), present)
