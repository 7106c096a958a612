"""What the moments know of the scores of each class, and so of probabilities."""

from __future__ import annotations

import numpy as np

from counterpoise.arrays import Vector
from counterpoise.exact.classes import Classes
from counterpoise.exact.moments import Moments
from counterpoise.exact.options import Options
from counterpoise.exact.probability import Link
from counterpoise.exact.solution import Linear, Solution
from counterpoise.exact.weighting import shares


def link_of(moments: Moments, classes: Classes, options: Options, solution: Solution) -> Link:
    """The link of a solution that was found by these moments and options."""
    seen = classes.seen
    slot = classes.slots[seen]
    N = moments.N[slot]
    rate = N if options.half_life is None else moments.n[slot] / moments.stream[slot]
    if len(slot) < 2:
        return Link(1.0, np.zeros(classes.problems))
    a = shares(moments.labels[slot], N, options.class_weight, options.costs)
    if classes.problems > 1:
        stream = np.zeros(len(seen))
        stream[seen] = np.log(rate / a)
        return Link(1.0, stream)
    if not isinstance(solution, Linear):
        return Link(1.0, np.log(rate[1:] * a[0] / (rate[0] * a[1:])))
    mean, variance = _spread(moments, slot, solution)
    slope = (mean[1] - mean[0]) / (a @ variance / a.sum())
    return Link(slope, np.log(rate[1:] / rate[:1]) - slope * mean.mean())


def _spread(moments: Moments, slot: Vector, solution: Linear) -> tuple[Vector, Vector]:
    w = solution.coef[0]
    mean = solution.offset[0] + moments.mean[slot] @ w
    variance = np.array([w @ moments.C[k] @ w / moments.n[k] for k in slot])
    return mean, variance
