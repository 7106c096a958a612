"""Test, then train, over a stream: scores by the exact model just before each row.

While a map is not fixed yet each step learns the warm-up anew; afterwards the steps are those of
:mod:`~counterpoise.stepwise.progressive`, by one thread or several.
"""

from __future__ import annotations

import numpy as np

from counterpoise.arrays import Labels, Matrix
from counterpoise.engine.state import Batch, State
from counterpoise.moments.classes import n_score_columns, union
from counterpoise.moments.moments import Moments
from counterpoise.moments.resize import with_labels
from counterpoise.solver.mapped_moments import clipped, require_room
from counterpoise.solver.options import Options
from counterpoise.stepwise import progressive


def scores(
    state: State,
    batch: Batch,
    declared: Labels,
    options: Options,
    delay: int,
    limit: float,
    jobs: int = 1,
) -> tuple[Matrix, State]:
    """Scores of the rows of a batch, in order, and the State that has learned them all. Shape of
    the result: (n, problems).
    """
    n = len(batch.y)
    delay = min(delay, n)
    # Values that may be missing are filled anew at each step.
    warm = min(state.waiting, n) if state.fill is None or state.plan.text is not None else n
    if state.plan.decay.is_timed:  # all classes fade with each step
        warm = n
    first, state = _warming(state, batch, declared, options, warm, delay, limit)
    if warm == n:
        return first, state
    classes = union(np.unique(batch.y), declared)
    rest, state = _fixed(
        state, batch.part(slice(warm, n)), declared, classes, options, delay, limit, jobs
    )
    return np.concatenate([first, rest[delay:]]) if warm else rest, state


def _warming(
    state: State,
    batch: Batch,
    declared: Labels,
    options: Options,
    warm: int,
    delay: int,
    limit: float,
) -> tuple[Matrix, State]:
    """Scores while so many rows are learned before the map is fixed."""
    everything = union(state.moments.labels, union(np.unique(batch.y), declared))
    n, steps = len(batch.y), warm + delay if warm else 0
    f = np.zeros((min(n, steps), n_score_columns(len(everything))))
    for at in range(steps):
        if at < n and state.begun:
            f[at] = state.announced(everything).solve(None, options).of(batch.X[[at]])[0]
        if at >= delay:
            state = state.learn(batch.part(slice(at - delay, at - delay + 1)), limit, declared)
    return f, state


def _fixed(
    state: State,
    batch: Batch,
    declared: Labels,
    classes: Labels,
    options: Options,
    delay: int,
    limit: float,
    jobs: int,
) -> tuple[Matrix, State]:
    """Scores of rows that go through a fixed map, or none."""
    fixed, X = state.fixed, batch.X
    state.plan.require_fits(X.shape[1], limit)
    first = X[0].copy() if fixed is None else fixed.transform(X[:1])[0]
    moments = Moments(batch.y[:0], first)
    if state.begun:
        moments = state.moments.copy()
    rows_of, arrived = batch.group(batch.y, moments.labels)
    labels = union(arrived, classes)
    require_room(len(labels), len(first), limit, state.plan.text is not None)
    moments = with_labels(with_labels(moments, arrived), labels)
    codes = np.empty(len(X), dtype=np.intp)
    for k, mine in enumerate(rows_of):
        codes[mine] = k
    if fixed is not None:
        moments.clipped[0] += clipped(X, None, fixed)
    f = progressive.threaded_scores(
        options, moments, labels, X, codes, min(delay, len(X)), fixed, jobs
    )
    left = State(state.plan, moments, declared, fixed, calibration=state.calibration)
    return f, left.filling(state.fill)
