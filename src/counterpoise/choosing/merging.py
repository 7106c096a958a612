"""Models that choose, made one: which can be, and how."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise import validate
from counterpoise.arrays import Vector
from counterpoise.choosing.candidates import Candidates
from counterpoise.errors import DataError, Remedy


def require_same(one: Any, two: Any, mine: Candidates, theirs: Candidates) -> None:
    """Raise unless two models have the same parameters, features, candidates and fixed maps."""
    for name in ("ridges", "kept_rows", "costs", "half_life"):
        here, there = getattr(one, name), getattr(two, name)
        if not np.array_equal(here, there):
            raise ValueError(
                f"cannot merge models with different options: {name} is {here!r} here and "
                f"{there!r} there"
            )
    names = [getattr(m, "feature_names_in_", np.empty(0)).tolist() for m in (one, two)]
    if one.n_features_in_ != two.n_features_in_ or names[0] != names[1]:
        raise ValueError("cannot merge models with different features")
    if mine.names != theirs.names:
        raise ValueError(
            f"cannot merge models with different candidates: {', '.join(mine.names)} here and "
            f"{', '.join(theirs.names)} there; drop=False keeps all of them"
        )
    for name, state in mine.states.items():
        other = theirs.states[name]
        if state.waiting or other.waiting or state.fixed != other.fixed:
            raise DataError(
                f"cannot merge models whose map {name} was fixed by different rows, or is not "
                f"fixed yet (that takes {state.plan.rows} rows)",
                Remedy("let the other begin with {}", "candidates", "maps_ of this one"),
            )
    validate.require_one_type(theirs.first.moments.labels, mine.first.moments.labels)


def placed(
    one: Candidates, at: NDArray[np.intp], names: Sequence[str], limit: float, ridges: Vector
) -> Candidates:
    """The same with feature j at place at[j] of a wider row, whose features have these names."""
    states = {name: state.placed(at, names, limit) for name, state in one.states.items()}
    kept = None if one.kept is None else one.kept.placed(at, len(names))
    return one.renewed(ridges, states=states, kept=kept)


def joined(one: Candidates, two: Candidates, limit: float, ridges: Vector) -> Candidates:
    """What was learned here, followed by what was learned there, by the same maps."""
    states = {name: state.merged(two.states[name], limit) for name, state in one.states.items()}
    changes: dict[str, Any] = {
        "states": states,
        "rows": one.rows + two.rows,
        "weighted": one.weighted or two.weighted,
    }
    if one.kept is not None and two.kept is not None:
        moments = one.first.moments
        before = dict(zip(moments.labels.tolist(), moments.N.tolist(), strict=True))
        changes["kept"] = one.kept.merged(two.kept, before)
    else:
        changes["tally"] = one.tally.merged(two.tally)
    return one.renewed(ridges, **changes)
