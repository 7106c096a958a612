"""Taking events back: what the moments can tell of events that were never learned, and the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from counterpoise.arrays import Matrix
from counterpoise.exact.options import Options
from counterpoise.exact.state import Batch, State


def require_possible(state: State, options: Options) -> None:
    """Raise if this model can take nothing back."""
    if options.half_life is not None:
        raise ValueError(
            "unlearning is not possible with half_life: how far an event has faded is not known; "
            "use river.utils.Rolling without half_life to forget what is old"
        )
    if options.scale == "minmax":
        raise ValueError(
            "unlearning is not possible with scale='minmax': a minimum cannot be taken back; "
            "use scale='standard'"
        )
    if state.warmup is not None:
        raise ValueError(
            f"unlearning must wait until the map is fixed, by {state.plan.rows} events"
        )


def require_known(state: State, rows: Matrix, names: list[Any], labels: list[Any]) -> None:
    """Raise if an event has a label or a feature that no learned event has; absent means 0."""
    known, seen = set(state.names or ()), set(state.moments.labels[state.moments.n > 0].tolist())
    new = [j for j, name in enumerate(names) if name not in known]
    for row, label in zip(rows, labels, strict=True):
        strange = [names[j] for j in new if row[j]]
        if strange or label not in seen:
            raise ValueError(
                f"cannot unlearn an event of label {label!r}"
                + (f" with feature {strange[0]!r}" if strange else "")
                + ": none was ever learned"
            )


def without(state: State, batch: Batch, options: Options, limit: float) -> State:
    """What is learned without these events; features that no event is left with are gone too."""
    chunk = state.gathered(batch, limit)
    names = [repr(name) for name in state.names or ("nothing",)]
    if state.fixed is not None:
        names = state.fixed.names(names)
    left = state.forget(chunk, options, lambda j: f"feature {names[j]}")
    if not left.begun:
        return State.empty(state.plan, 1, [])  # nothing is left, not even a name
    if left.fixed is None and left.names and left.fill is None:
        held = left.moments.away[:, 0].max(axis=0) > 0.0
        if not held.any():  # a row has at least one feature, if without a name
            return replace(left.only(np.zeros(1, np.intp)), names=[])
        if not held.all():
            return left.only(np.flatnonzero(held))
    return left
