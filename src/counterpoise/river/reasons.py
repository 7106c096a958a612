"""Reasons of one event, for models whose weights the compiled solver does not keep."""

from __future__ import annotations

from typing import Any

from counterpoise.arrays import Vector
from counterpoise.exact.options import Options
from counterpoise.exact.reasons import explained
from counterpoise.exact.scores import Scores
from counterpoise.exact.state import State


def explained_one(
    scores: Scores, state: State, options: Options, row: Vector, y: Any
) -> dict[Any, float]:
    """Contributions by feature to the score of a label, or of the predicted one if it is None."""
    labels = scores.classes.labels.tolist()
    label = scores.classes.best(scores.of(row[None]))[0] if y is None else y
    if label not in labels:
        raise never_learned(label)
    found = explained(scores, state.moments, options, row[None], None).of(label)
    return dict(zip(state.names or [], found.values[0].tolist(), strict=False))


def never_learned(label: Any) -> ValueError:
    """What is wrong with a label that nothing is known of."""
    return ValueError(f"no event of label {label!r} was ever learned: there are no reasons for it")
