"""Single rows, with little overhead: moments that stay open to the compiled solver."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from counterpoise.arrays import Vector
from counterpoise.moments.categories import CodeColumns
from counterpoise.moments.classes import Classes
from counterpoise.moments.moments import Moments
from counterpoise.solver.options import Options, has_label_weights
from counterpoise.stepwise import progressive
from counterpoise.stepwise._category_solver import CategorySolver
from counterpoise.stepwise._single_event import Events
from counterpoise.stepwise._step_solver import StepSolver


@dataclass(frozen=True, eq=False)
class CategoryField:
    """Field of events that contains one of many categories."""

    name: Any
    codes: dict[str, int]  # from 1, of the categories so far
    text: Callable[[Any], str | None]  # returns a value as a category, None if it is missing


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
    moments: Moments,
    classes: Classes,
    options: Options,
    names: list[Any] | None = None,
    codes: CodeColumns | None = None,
) -> SingleEventModel | None:
    """Open moments to single rows; None where only whole chunks will do.

    ``names`` are those of the features of rows that are dicts. With a column of ``codes`` its
    categories are read from a field of these.
    """
    if not classes.seen.all() or len(classes.slots) != len(moments.n):
        return None
    spec = progressive.solver_spec(options, moments, classes.labels)
    if codes is None:
        scorer = StepSolver(spec, moments)
    elif len(classes.slots) != 2 or codes.count != 1 or options.decay.is_active:
        return None
    else:
        assert moments.categories is not None
        moments.categories = moments.categories.with_all_codes()
        scorer = CategorySolver(spec, moments, codes.pseudo_rows[0] or 0.0)
    names_of = list(range(len(moments.anchor))) if names is None else names
    events = Events(scorer, names_of, learn_only=options.ridge == "gcv")  # a ridge per solve
    labels = classes.labels.tolist()
    slots = dict(zip(labels, classes.slots.tolist(), strict=True))
    has_weights = has_label_weights(options)
    return SingleEventModel(
        events, classes, labels, list(classes.labels), slots, options, has_weights
    )
