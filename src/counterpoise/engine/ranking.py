"""Judging candidates while they learn, where no row is kept: each is scored before it is learned.

A candidate is scored for a whole path of ridges, by weights that are brought up to date when the
stream has grown by a sixth, so that the work for a row does not grow. The judgement is the G-mean
of all scores so far. A row counts the more the later it comes, by the root of its number: it was
scored by weights that knew more. Richer candidates gain more from what is still to come, and have
a ridge that keeps them in check, so a simpler one must be ahead by a standard error to be best.
Quadratic boundaries have one ridge, that of few rows, and nothing else keeps them in check: they
must themselves be ahead of what is best without them, by half a standard error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
import scipy.special as special
from numpy.typing import NDArray

from counterpoise.arrays import Flags, Labels, Matrix, Rows, Vector, joined
from counterpoise.engine.averaging import Average, Ridges, averaged, softmax_weights
from counterpoise.engine.leave_one_out import (
    LeaveOneOutScores,
    Sample,
    for_raw_rows,
    leave_one_out_scores,
    weighted_median,
)
from counterpoise.engine.row_buffer import RowBuffer, decayed_weight
from counterpoise.engine.state import Batch, State
from counterpoise.feature_maps import FittedMap
from counterpoise.feature_maps.fitted import SLICE
from counterpoise.moments.classes import Classes, argmax_classes
from counterpoise.moments.decay import common_half_life
from counterpoise.solver.class_weights import ClassFactors, by_label
from counterpoise.solver.options import Options
from counterpoise.solver.score_functions import QuadraticScores

FIRST = 16  # rows that are learned before the first are judged
SLOW, FAST = 4, 4096  # rows between two refreshes, at least and at most
DROP_STANDARD_ERRORS = 4.0  # standard errors that a candidate must be behind to be dropped
QUADRATIC_LEAD_STANDARD_ERRORS = (
    0.5  # standard errors that quadratic boundaries must be ahead to be best
)
MIN_ROWS_BEFORE_DROP = 512  # rows before which none is dropped


@dataclass(frozen=True, eq=False)
class Judge:
    """Weights of a candidate as they were at the last refresh.

    Attributes
    ----------
    labels : ndarray of shape (c,)
        Labels seen by then, at least two.
    fixed : FittedMap, optional
        The map as it was.
    weights : Ridges or Quadratic
        Scores for every ridge, or those of quadratic boundaries, which have one.
    rms : ndarray of shape (r,)
        Root of the mean square of the scores.
    """

    labels: Labels
    fixed: FittedMap | None
    weights: Ridges | QuadraticScores
    rms: Vector

    @classmethod
    def of(cls, state: State, options: Options, ridges: Vector) -> Judge | None:
        """The weights of a candidate now; None while it knows less than two classes."""
        filled = state.filled
        moments = state.moments if filled is None else filled.moments
        classes = Classes.of(moments, moments.labels[:0])
        if len(classes.labels) < 2:
            return None
        d = len(moments.anchor)
        nobody = Sample(np.empty((0, d)), np.empty(0, dtype=np.intp), np.empty(0), np.empty(0))
        found = leave_one_out_scores(moments, classes, options, ridges, nobody)
        weights = found.weights if filled is None else for_raw_rows(found.weights, filled)
        return cls(classes.labels, state.fixed, weights, found.rms)

    def filling(self, state: State) -> Judge:
        """The same for rows that may lack what a State says; what was never missing is usual."""
        fill = state.fill
        if fill is None:
            return self
        if self.fixed is not None:
            return replace(self, fixed=self.fixed.with_missing(fill.at, fill.by, fill.present))
        if not isinstance(self.weights, Ridges):
            return self
        coef = self.weights.coef.copy()
        for at, by, shift in zip(fill.at, fill.by, fill.shifts(state.moments)[0], strict=True):
            if not coef[..., by].any():  # such a row was never seen: it is as their mean
                coef[..., by] += shift * coef[..., at]
        return replace(self, weights=replace(self.weights, coef=coef))

    def scores(self, X: Rows) -> NDArray[np.float64]:
        """Scores of rows, of shape (n, r, problems), where r is 1 for quadratic boundaries."""
        parts = []
        for start in range(0, X.shape[0], SLICE):
            part = X[start : start + SLICE]
            part = part.toarray() if sp.issparse(part) else part
            if self.fixed is not None:
                part = self.fixed.transform(part)
            parts.append(self.weighed(part))
        return np.concatenate(parts)

    def weighed(self, Z: Rows) -> NDArray[np.float64]:
        """Scores of rows, of which there are few, that went through the map already."""
        f = self.weights.of(Z)
        return f[:, None] if isinstance(self.weights, QuadraticScores) else f

    def widened(self, inputs: int, names: Sequence[str]) -> Judge:
        """The same for rows with more features, which count for nothing yet."""
        at: NDArray[np.intp] = np.arange(inputs)
        fixed, d = self.fixed, len(names)
        if fixed is not None:
            fixed, at = fixed.placed(at, names)
            d = fixed.size
        return replace(self, fixed=fixed, weights=self.weights.placed(at, d))

    def found(self, f: NDArray[np.float64], y: Labels) -> Flags:
        """Whether the label of each row is the one predicted, for each ridge."""
        hit: Flags = self.labels[argmax_classes(f)] == y[:, None]
        return hit


@dataclass(frozen=True, eq=False)
class PrequentialCounts:
    """Weight of the rows of each class that were judged, and that were found.

    Attributes
    ----------
    labels : ndarray of shape (c,)
        The classes.
    total : ndarray of shape (c,)
        Weight of their rows.
    hits : ndarray of shape (c, candidates, r)
        Weight of those whose label was predicted.
    """

    labels: Labels
    total: Vector
    hits: NDArray[np.float64]

    def counted(
        self, y: Labels, found: Flags, first: int, weight: Vector | None = None
    ) -> PrequentialCounts:
        """With more rows.

        Parameters
        ----------
        y : ndarray of shape (n,)
            Their labels.
        found : ndarray of shape (n, candidates, r)
            Whether they were predicted.
        first : int
            Rows before them.
        weight : ndarray of shape (n,), optional
            Their weights.

        Returns
        -------
        Tally
        """
        labels, total, hits = self.labels, self.total.copy(), self.hits.copy()
        known = set(labels.tolist())
        if not known.issuperset(y.tolist()):
            new = np.setdiff1d(y, labels)
            labels = np.concatenate([labels, new]) if len(labels) else new
            total = np.concatenate([total, np.zeros(len(new))])
            hits = np.concatenate([hits, np.zeros((len(new), *hits.shape[1:]))])
        late = np.sqrt(np.arange(first, first + len(y)))
        counts = (labels[:, None] == y) * (late if weight is None else late * weight)
        total += counts.sum(axis=1)
        hits += (counts @ found.reshape(len(y), -1)).reshape(hits.shape)
        return PrequentialCounts(labels, total, hits)

    def without(self, candidates: Sequence[int]) -> PrequentialCounts:
        """Without some candidates."""
        return PrequentialCounts(self.labels, self.total, np.delete(self.hits, candidates, axis=1))

    def merged(self, other: PrequentialCounts) -> PrequentialCounts:
        """What was judged here and there, of the same candidates."""
        labels, total, hits = self.labels, self.total.copy(), self.hits.copy()
        new = [k for k, one in enumerate(other.labels.tolist()) if one not in labels.tolist()]
        if new:
            labels = joined(labels, other.labels[new]) if len(labels) else other.labels[new]
            total = np.concatenate([total, np.zeros(len(new))])
            hits = np.concatenate([hits, np.zeros((len(new), *hits.shape[1:]))])
        at = [labels.tolist().index(one) for one in other.labels.tolist()]
        total[at] += other.total
        hits[at] += other.hits
        return PrequentialCounts(labels, total, hits)

    def g_means(self, rows: int, class_factors: ClassFactors = None) -> tuple[Matrix, Matrix]:
        """G-mean of each candidate and ridge, and its standard error.

        Parameters
        ----------
        rows : int
            Rows so far, of which the last one counted the square root of that.
        class_factors : dict, optional
            Exponents of the recalls, by label.

        Returns
        -------
        G : ndarray of shape (candidates, r)
        error : ndarray of shape (candidates, r)
        """
        one = np.sqrt(max(rows, 1))  # half a hit and half a miss: 0 or 1 must not look certain
        n = (self.total[:, None, None] + one) / one
        recall = (self.hits / one + 0.5) / n
        share = by_label(self.labels, class_factors)
        share = (share / share.sum())[:, None, None]
        G = np.exp((share * np.log(recall)).sum(axis=0))
        error = G * np.sqrt((share**2 * (1.0 - recall) / (recall * n)).sum(axis=0))
        return G, error


def update_counts(
    tally: PrequentialCounts,
    judges: Sequence[Judge | None],
    fixed: Sequence[FittedMap | None],
    batch: Batch,
    terms: Sequence[Rows] | None,
    rows: int,
) -> PrequentialCounts:
    """The tally with more rows, scored by the judges of all candidates.

    Parameters
    ----------
    tally : Tally
        What was judged so far.
    judges : sequence of Judge
        Who judge.
    fixed : sequence of FittedMap or None
        Maps of the candidates as they are now, which need not be those of the judges.
    batch : Batch
        The rows.
    terms : sequence of ndarray, optional
        Their terms by these maps, if they are known.
    rows : int
        Rows before them.

    Returns
    -------
    Tally
    """
    _, candidates, r = tally.hits.shape
    found: Flags = np.empty((len(batch.y), candidates, r), bool)
    for k, (judge, now) in enumerate(zip(judges, fixed, strict=True)):
        assert judge is not None
        same = terms is not None and judge.fixed is now
        f = judge.weighed(terms[k]) if terms and same else judge.scores(batch.X)
        found[:, k] = judge.found(f, batch.y)  # one ridge counts for all of them
    return tally.counted(batch.y, found, rows, batch.weight)


def best(
    tally: PrequentialCounts,
    rows: int,
    class_factors: ClassFactors = None,
    quadratic: Sequence[int] = (),
) -> tuple[int, int]:
    """Candidate and ridge that are to answer.

    Parameters
    ----------
    tally : Tally
        How they did, the simplest first.
    rows : int
        Rows so far.
    class_factors : dict, optional
        Exponents of the recalls, by label.
    quadratic : sequence of int
        Candidates with quadratic boundaries.

    Returns
    -------
    candidate : int
    ridge : int
        Its best, the first of equals.
    """
    G, error = tally.g_means(rows, class_factors)
    ridge = G.argmax(axis=1)
    ridge[list(quadratic)] = 0  # the one that they have, whatever rounding says
    order = [*(i for i in range(len(G)) if i not in quadratic), *quadratic]
    first = order[0]
    for i in order[1:]:
        ahead = G[i, ridge[i]] - G[first, ridge[first]]
        if (
            ahead
            > (QUADRATIC_LEAD_STANDARD_ERRORS if i in quadratic else -1.0) * error[i, ridge[i]]
        ):
            first = i
    return first, int(ridge[first])


def next_refresh(rows: int) -> int:
    """Rows at which weights are brought up to date next.

    Parameters
    ----------
    rows : int
        Rows at which they were.

    Returns
    -------
    int
    """
    return rows + min(max(rows // 6, SLOW), FAST)


def candidates_to_drop(
    tally: PrequentialCounts, rows: int, class_factors: ClassFactors = None
) -> list[int]:
    """Candidates that are surely worse than the best.

    Parameters
    ----------
    tally : Tally
        How they did.
    rows : int
        Rows so far.
    class_factors : dict, optional
        Exponents of the recalls, by label.

    Returns
    -------
    list of int
    """
    if rows < MIN_ROWS_BEFORE_DROP or not len(tally.labels):
        return []
    G, error = tally.g_means(rows, class_factors)
    top = np.unravel_index(int(G.argmax()), G.shape)
    of_each: Any = np.arange(len(G)), G.argmax(axis=1)
    behind = G[top] - G[of_each]
    return [
        int(i)
        for i in np.flatnonzero(
            behind > DROP_STANDARD_ERRORS * np.hypot(error[top], error[of_each])
        )
    ]


MARGIN_SCALE = 0.3  # of the usual margin: a row that is missed by less than that is half a hit
MAX_MEAN_LEVERAGE = 0.9  # mean leverage from which a model knows its rows by heart


@dataclass(frozen=True, eq=False)
class CandidateRanking:
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
    ) -> CandidateRanking:
        """The verdict that one candidate and ridge is all there is."""
        known = [one for one in judges if one is not None]
        G = [np.full(len(one.rms), -np.inf) for one in known]
        G[best[0]][best[1]] = 1.0
        return cls(names, known, G, best)

    @property
    def shares(self) -> list[Vector]:
        """Weights in the average, by candidate and ridge; they add up to 1."""
        return softmax_weights(self.G, self.temperature)

    def average(self, maps: Sequence[str], classes: Classes, ridge: float) -> Average:
        """The average of the candidates, which look through these maps, for all classes."""
        parts = [
            (name, one.fixed, one.weights, one.rms)
            for name, one in zip(maps, self.judges, strict=True)
        ]
        return averaged(parts, self.shares, self.best, ridge, classes.seen)


def rank_by_leave_one_out(
    names: Sequence[str],
    states: Sequence[State],
    options: Sequence[Options],
    ridges: Vector,
    kept: RowBuffer,
    heat: float,
) -> CandidateRanking | None:
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
        passed, half_life = np.maximum(passed, 0.0), common_half_life(state.plan.half_life)
        one, weight = (
            decayed_weight(w, passed, half_life) for w in (np.minimum(weight, 1.0), weight)
        )
        Z = state.terms(X) if filled is None else state.inputs_filled(X)
        found = leave_one_out_scores(moments, classes, how, ridges, Sample(Z, code, one, weight))
        alone = one >= (1.0 - 1e-9) * moments.n[classes.slots][code]
        G.append(_g_means(found, code, np.where(alone, 0.0, weight), classes, how.class_factors))
        weights = found.weights if filled is None else for_raw_rows(found.weights, filled)
        judges.append(Judge(classes.labels, state.fixed, weights, found.rms))
    best = max(range(len(G)), key=lambda i: float(G[i].max()))
    return CandidateRanking(list(names), judges, G, (best, int(G[best].argmax())), heat)


def _g_means(
    left: LeaveOneOutScores,
    code: NDArray[np.intp],
    weight: Vector,
    classes: Classes,
    class_factors: ClassFactors,
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
