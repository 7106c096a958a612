"""Labels that were given a weight and never occurred: mostly they are misspelt."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from counterpoise.exact.moments import Moments
from counterpoise.exact.options import Options

ENOUGH = 1000.0  # rows among which a label should have occurred


def named(options: Options) -> bool:
    """Whether labels were given a weight at all."""
    return bool(options.costs) or _by_label(options.class_weight) or _by_label(options.half_life)


def warn_of_unseen(moments: Moments, options: Options, stacklevel: int = 3) -> bool:
    """Warn of labels that never occurred, if there are rows enough; returns whether there are."""
    rows, seen = float(moments.N.sum()), moments.labels[moments.N > 0].tolist()
    for option in ("costs", "class_weight", "half_life"):
        warn_of_absent(option, getattr(options, option), seen, rows, stacklevel + 1)
    return rows >= ENOUGH


def warn_of_absent(
    option: str, given: object, seen: list[Any], rows: float, stacklevel: int = 3
) -> None:
    """Warn of a label that an option names and that is not among those seen in rows enough."""
    absent = [label for label in given if label not in seen] if isinstance(given, Mapping) else []
    if not absent or rows < ENOUGH:
        return
    some = ", ".join(repr(label) for label in seen[:5]) + (", ..." if seen[5:] else "")
    warnings.warn(
        f"{option} names the label {absent[0]!r}, which never occurred in {np.floor(rows):,.0f} "
        f"rows; those that did are {some}. Correct it, or leave it out",
        UserWarning,
        stacklevel=stacklevel,
    )


def _by_label(given: object) -> bool:
    return isinstance(given, Mapping)
