"""Single rows, with little overhead: moments that stay open to the compiled solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from counterpoise.arrays import Vector
from counterpoise.moments.classes import Classes
from counterpoise.moments.moments import Moments
from counterpoise.solver.options import Options, has_label_weights
from counterpoise.stepwise import progressive
from counterpoise.stepwise._single_event import Events, learn_all
from counterpoise.stepwise._step_solver import StepSolver


@dataclass(eq=False)
class SingleEventModel:
    """Moments open to single rows, as long as these are the moments, the options and the names.

    ``labels`` are in the order of the scores, ``answers`` are the same as arrays hold them,
    ``slots`` has the slot of each; ``version`` counts the changes up to which the weights are
    known; ``watched`` says whether options give weights to labels, which may never occur.
    """

    events: Events
    classes: Classes
    labels: list[Any]
    answers: list[Any]
    slots: dict[Any, int]
    moments: Moments
    options: Options
    names: list[Any] | None
    version: int
    watched: bool

    def best(self, row: Vector) -> Any:
        """Label of a row; None if the compiled solver cannot tell."""
        at = self.events.best_array(row)
        return None if at < 0 else self.answers[at]


def open_single_event(
    moments: Moments, classes: Classes, options: Options, names: list[Any] | None, version: int
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
    answers, watched = list(classes.labels), has_label_weights(options)
    return SingleEventModel(
        events, classes, labels, answers, slots, moments, options, names, version, watched
    )


class MultiModelUpdater:
    """Several moments that learn the same single rows, each as it wants them, at once.

    All have seen the same classes.
    """

    def __init__(self, moments: list[Moments], options: Options) -> None:
        labels = np.sort(moments[0].labels)
        recipes = [progressive.solver_spec(options, one, labels) for one in moments]
        self._scorers = [StepSolver(*both) for both in zip(recipes, moments, strict=True)]

    def learn(
        self,
        rows: list[Vector],
        slot: int,
        w: float,
        clipped: list[Vector],
        holder: Any,
        more: dict[str, Any],
    ) -> None:
        """Learn one row of the class in a slot; a holder gets attributes in the same moment.

        ``clipped`` are the counts of those whose maps clip the row.
        """
        learn_all(self._scorers, rows, slot, w, clipped, holder, more)
