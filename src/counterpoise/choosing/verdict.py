"""What one look at all candidates finds: how good each is, which is best, and their average."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.special as special
from numpy.typing import NDArray

from counterpoise.arrays import Vector
from counterpoise.choosing.average import Average, averaged, shares
from counterpoise.choosing.judge import Judge
from counterpoise.choosing.kept import Kept, now
from counterpoise.choosing.leaving import (
    Left,
    Sample,
    as_rows_are,
    left_out,
    weighted_median,
)
from counterpoise.exact.classes import Classes
from counterpoise.exact.fading import by_rows
from counterpoise.exact.options import Options
from counterpoise.exact.state import State
from counterpoise.exact.weighting import Costs, by_label

NEAR = 0.3  # of the usual margin: a row that is missed by less than that is half a hit
HEART = 0.9  # mean leverage from which a model knows its rows by heart


@dataclass(frozen=True, eq=False)
class Verdict:
    """How good candidates are.

    Attributes
    ----------
    names : list of str
        The candidates.
    judges : list of Judge
        Their scores for every ridge.
    G : list of ndarray of shape (r,)
        Their G-means by ridge; −∞ where nothing can be said.
    best : tuple of int
        The best of them and its ridge.
    temperature : float
        Difference of the G-mean that changes a weight in the average by the factor e.
    """

    names: list[str]
    judges: list[Judge]
    G: list[Vector]
    best: tuple[int, int]
    temperature: float = 1.0

    @classmethod
    def alone(
        cls,
        names: list[str],
        judges: Sequence[Judge | None],
        best: tuple[int, int],
    ) -> Verdict:
        """The verdict that one candidate and ridge is all there is."""
        known = [one for one in judges if one is not None]
        G = [np.full(len(one.rms), -np.inf) for one in known]
        G[best[0]][best[1]] = 1.0
        return cls(names, known, G, best)

    @property
    def shares(self) -> list[Vector]:
        """Weights in the average, by candidate and ridge; they add up to 1."""
        return shares(self.G, self.temperature)

    def average(self, maps: Sequence[str], classes: Classes, ridge: float) -> Average:
        """The average of the candidates, which look through these maps, for all classes."""
        parts = [
            (name, one.fixed, one.weights, one.rms)
            for name, one in zip(maps, self.judges, strict=True)
        ]
        return averaged(parts, self.shares, self.best, ridge, classes.seen)


def by_leaving_out(
    names: Sequence[str],
    states: Sequence[State],
    options: Sequence[Options],
    ridges: Vector,
    kept: Kept,
    heat: float,
) -> Verdict | None:
    """Judge candidates by kept rows, each scored by models without it; None if nobody can."""
    judges, G = [], []
    for state, how in zip(states, options, strict=True):
        filled = state.filled
        moments = state.moments if filled is None else filled.moments
        classes = Classes.of(moments, moments.labels[:0])
        if len(classes.labels) < 2:
            return None
        X, code, weight, clock = kept.arrays(classes.labels, kept.judging(len(classes.labels)))
        passed = moments.N[classes.slots][code] - clock
        passed, half_life = np.maximum(passed, 0.0), by_rows(state.plan.half_life)
        one, weight = (now(w, passed, half_life) for w in (np.minimum(weight, 1.0), weight))
        Z = state.terms(X) if filled is None else state.inputs_filled(X)
        found = left_out(moments, classes, how, ridges, Sample(Z, code, one, weight))
        alone = one >= (1.0 - 1e-9) * moments.n[classes.slots][code]
        G.append(_g_means(found, code, np.where(alone, 0.0, weight), classes, how.costs))
        weights = found.weights if filled is None else as_rows_are(found.weights, filled)
        judges.append(Judge(classes.labels, state.fixed, weights, found.rms))
    best = max(range(len(G)), key=lambda i: float(G[i].max()))
    return Verdict(list(names), judges, G, (best, int(G[best].argmax())), heat)


def _g_means(
    left: Left, code: NDArray[np.intp], weight: Vector, classes: Classes, costs: Costs
) -> Vector:
    """Return the G-mean by ridge. A row counts as found by Φ of its margin over NEAR times a unit.

    The unit is the rms of two classes. Scores of several have a large rms if one class is far from
    all others, and the margins between these are small beside it: their unit is the median size of
    the margins of a class, in the median over the classes. A row that is all of its class cannot be
    left out, and weighs nothing here.
    """
    f, own, unit = left.scores, np.arange(len(code)), left.rms
    if f.shape[2] == 1:
        margin = np.where(code[:, None] == 1, f[..., 0], -f[..., 0])
    else:
        mine = f[own, :, code]
        f[own, :, code] = -np.inf
        margin = 0.5 * (mine - f.max(axis=2))
        classes_of = [(code == k) & (weight > 0.0) for k in np.unique(code)]
        sizes = [weighted_median(np.abs(margin[k]), weight[k]) for k in classes_of if k.any()]
        unit = np.median(sizes, axis=0) if sizes else unit
    found = special.ndtr(margin / (NEAR * np.where(unit > 0.0, unit, 1.0)))
    share = by_label(classes.labels, costs)
    share = share / share.sum()
    log_G = np.zeros(len(left.rms))
    for k in np.unique(code).tolist():
        rows = np.flatnonzero((code == k) & (weight > 0.0))
        if len(rows):
            w, one = weight[rows], min(float(weight[rows].mean()), 1.0)
            log_G += share[k] * np.log((w @ found[rows] + 0.5 * one) / (w.sum() + one))
    G: Vector = np.exp(log_G)
    known = left.leverage < HEART
    if not known.any():
        known[0] = True
    return np.where(known, G, -np.inf)
