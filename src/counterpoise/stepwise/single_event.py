"""Single rows, with little overhead: moments that stay open to the compiled solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from counterpoise.arrays import Vector
from counterpoise.moments.classes import Classes
from counterpoise.moments.moments import Moments
from counterpoise.solver.options import Options, has_label_weights
from counterpoise.stepwise import progressive
from counterpoise.stepwise._single_event import Events
from counterpoise.stepwise._step_solver import StepSolver


@dataclass(eq=False)
class SingleEventModel:
    """Moments open to single rows, until a batch changes them."""

    events: Events
    classes: Classes
    labels: list[Any]  # in the order of the scores
    answers: list[Any]  # the same, as elements of an array
    slots: dict[Any, int]  # by label
    options: Options
    has_label_weights: bool  # in the options, for labels that may never occur

    def best(self, row: Vector) -> Any:
        """Label of a row; None if the problem is singular."""
        at = self.events.best(row)
        return None if at < 0 else self.answers[at]


def open_single_event(
    moments: Moments, classes: Classes, options: Options, names: list[Any] | None = None
) -> SingleEventModel | None:
    """Open moments to single rows; None where only whole chunks will do.

    ``names`` are those of the features of rows that are dicts.
    """
    if not classes.seen.all() or len(classes.slots) != len(moments.n):
        return None
    scorer = StepSolver(progressive.solver_spec(options, moments, classes.labels), moments)
    names_of = list(range(len(moments.anchor))) if names is None else names
    events = Events(scorer, names_of, learn_only=options.ridge == "gcv")  # a ridge per solve
    labels = classes.labels.tolist()
    slots = dict(zip(labels, classes.slots.tolist(), strict=True))
    has_weights = has_label_weights(options)
    return SingleEventModel(
        events, classes, labels, list(classes.labels), slots, options, has_weights
    )
