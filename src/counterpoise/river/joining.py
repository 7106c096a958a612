"""Two models of events as one: their features are the same where their names are."""

from __future__ import annotations

import numpy as np

from counterpoise.exact.options import Options
from counterpoise.exact.state import State


def require_same_options(mine: Options, theirs: Options) -> None:
    """Raise unless two models learn and look in the same way; who calibrates may differ."""
    for name, value in vars(mine).items():
        if value != getattr(theirs, name) and name != "calibrate":
            raise ValueError(
                f"cannot merge models with different options: {name} is {value!r} here and "
                f"{getattr(theirs, name)!r} there"
            )


def joined(mine: State, theirs: State, limit: float) -> State:
    """What was learned here, followed by what was learned there; both stay as they are."""
    if mine.plan != theirs.plan:
        raise ValueError(
            f"cannot merge models with different options: features is {mine.plan.text!r} here and "
            f"{theirs.plan.text!r} there"
        )
    if mine.warmup is not None or theirs.warmup is not None:
        raise ValueError(f"merging must wait until the maps are fixed, by {mine.plan.rows} events")
    if not (mine.begun and theirs.begun):
        return (mine if mine.begun else theirs).copy()
    known = mine.names or []
    names = known + [name for name in theirs.names or [] if name not in set(known)]
    places = {name: j for j, name in enumerate(names)}
    at = np.array([places[name] for name in theirs.names or []], dtype=np.intp)
    wide = mine.copy().widened(names, limit) if names else mine.copy()
    if theirs.names:
        theirs = theirs.placed(at, names, limit)
    elif names:  # events without a feature: all are 0
        theirs = theirs.copy().widened(names, limit)
    if wide.fixed != theirs.fixed:
        raise ValueError(
            "cannot merge models whose maps were fixed by different events; let both go on from "
            "copies of one model"
        )
    return wide.merged(theirs, limit)
