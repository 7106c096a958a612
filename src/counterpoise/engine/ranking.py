"""Ranking of candidates by the G-mean of leave-one-out scores of kept rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.special as special
from numpy.typing import NDArray

from counterpoise.arrays import Vector
from counterpoise.engine.averaging import Average, RidgePathScores, averaged, softmax_weights
from counterpoise.engine.leave_one_out import (
    LeaveOneOutScores,
    Sample,
    for_raw_rows,
    leave_one_out_scores,
    weighted_median,
)
from counterpoise.engine.row_buffer import RowBuffer, decayed_weight
from counterpoise.engine.state import State
from counterpoise.feature_maps import FittedMap
from counterpoise.moments.classes import Classes
from counterpoise.solver.class_weights import ClassFactors, by_label
from counterpoise.solver.options import Options
from counterpoise.solver.score_functions import QuadraticScores

MIN_ROWS = 16  # rows learned before candidates are ranked
MARGIN_SCALE = 0.3  # of the usual margin: a row that is missed by less than that is half a hit
MAX_MEAN_LEVERAGE = 0.9  # mean leverage from which a model interpolates its rows


class CandidateModel(NamedTuple):
    """Solved candidate: its map (None: no map), its scores, and their root mean squares (r,)."""

    fixed: FittedMap | None
    scores: RidgePathScores | QuadraticScores
    rms: Vector


@dataclass(frozen=True, eq=False)
class CandidateRanking:
    """G-means of candidates."""

    names: list[str]  # names of the candidates
    models: list[CandidateModel]  # their scores for every ridge
    G: list[Vector]  # (r,) their G-means by ridge; −∞ where a candidate interpolates its rows
    best: tuple[int, int]  # positions of the best candidate and of its ridge
    # difference of the G-mean that changes an averaging weight by the factor e
    temperature: float = 1.0

    @property
    def averaging_weights(self) -> list[Vector]:
        """Weights in the average, by candidate and ridge; they add up to 1."""
        return softmax_weights(self.G, self.temperature)

    def average(self, maps: Sequence[str], classes: Classes, ridge: float) -> Average:
        """Return the average of the candidates, whose maps have these names, for all classes."""
        parts = [(name, *one) for name, one in zip(maps, self.models, strict=True)]
        return averaged(parts, self.averaging_weights, self.best, ridge, classes.seen)


def rank_by_leave_one_out(
    names: Sequence[str],
    states: Sequence[State],
    options: Sequence[Options],
    ridges: Vector,
    kept: RowBuffer,
    heat: float,
) -> CandidateRanking | None:
    """Rank candidates by kept rows, each scored without itself; None below two classes."""
    models, G = [], []
    for state, how in zip(states, options, strict=True):
        filled = state.filled
        moments = state.moments if filled is None else filled.moments
        classes = Classes.of(moments, moments.labels[:0])
        if len(classes.labels) < 2:
            return None
        X, code, weight, clock = kept.arrays(classes.labels, kept.ranking_rows(len(classes.labels)))
        passed = moments.N[classes.slots][code] - clock
        passed, half_life = np.maximum(passed, 0.0), state.plan.decay.rows
        one, weight = (
            decayed_weight(w, passed, half_life) for w in (np.minimum(weight, 1.0), weight)
        )
        Z = state.terms(X) if filled is None else state.inputs_filled(X)
        found = leave_one_out_scores(moments, classes, how, ridges, Sample(Z, code, one, weight))
        alone = one >= (1.0 - 1e-9) * moments.n[classes.slots][code]
        G.append(_g_means(found, code, np.where(alone, 0.0, weight), classes, how.class_factors))
        weights = found.weights if filled is None else for_raw_rows(found.weights, filled)
        models.append(CandidateModel(state.fixed, weights, found.rms))
    best = max(range(len(G)), key=lambda i: float(G[i].max()))
    return CandidateRanking(list(names), models, G, (best, int(G[best].argmax())), heat)


def _g_means(
    left: LeaveOneOutScores,
    code: NDArray[np.intp],
    weight: Vector,
    classes: Classes,
    class_factors: ClassFactors,
) -> Vector:
    """Return the G-mean by ridge. A row counts as found by Φ of its margin over MARGIN_SCALE units.

    The unit is the rms of two classes. Scores of several have a large rms if one class is far from
    all others, and the margins between these are small in comparison: their unit is the median size
    of the margins of a class, in the median over the classes. A row that is all of its class cannot
    be left out, and has the weight 0 here.
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
    found = special.ndtr(margin / (MARGIN_SCALE * np.where(unit > 0.0, unit, 1.0)))
    share = by_label(classes.labels, class_factors)
    share = share / share.sum()
    log_G = np.zeros(len(left.rms))
    for k in np.unique(code).tolist():
        rows = np.flatnonzero((code == k) & (weight > 0.0))
        if len(rows):
            w, one = weight[rows], min(float(weight[rows].mean()), 1.0)
            log_G += share[k] * np.log((w @ found[rows] + 0.5 * one) / (w.sum() + one))
    G: Vector = np.exp(log_G)
    known = left.leverage < MAX_MEAN_LEVERAGE
    if not known.any():
        known[0] = True
    return np.where(known, G, -np.inf)
