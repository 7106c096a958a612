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
from numpy.typing import NDArray

from counterpoise.arrays import Flags, Labels, Matrix, Rows, Vector
from counterpoise.choosing.leaving import Sample, as_rows_are, left_out
from counterpoise.choosing.ridges import Ridges
from counterpoise.exact.classes import Classes, winners
from counterpoise.exact.labels import joined
from counterpoise.exact.options import Options
from counterpoise.exact.solution import Quadratic
from counterpoise.exact.state import Batch, State
from counterpoise.exact.weighting import Costs, by_label
from counterpoise.features import FixedMap
from counterpoise.features.fixed import SLICE

FIRST = 16  # rows that are learned before the first are judged
SLOW, FAST = 4, 4096  # rows between two refreshes, at least and at most
SURE = 4.0  # standard errors that a candidate must be behind to be dropped
HALF = 0.5  # standard errors that quadratic boundaries must be ahead to be best
EARLY = 512  # rows before which none is dropped


@dataclass(frozen=True, eq=False)
class Judge:
    """Weights of a candidate as they were at the last refresh.

    Attributes
    ----------
    labels : ndarray of shape (c,)
        Labels seen by then, at least two.
    fixed : FixedMap, optional
        The map as it was.
    weights : Ridges or Quadratic
        Scores for every ridge, or those of quadratic boundaries, which have one.
    rms : ndarray of shape (r,)
        Root of the mean square of the scores.
    """

    labels: Labels
    fixed: FixedMap | None
    weights: Ridges | Quadratic
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
        found = left_out(moments, classes, options, ridges, nobody)
        weights = found.weights if filled is None else as_rows_are(found.weights, filled)
        return cls(classes.labels, state.fixed, weights, found.rms)

    def filling(self, state: State) -> Judge:
        """The same for rows that may lack what a State says; what was never missing is usual."""
        fill = state.fill
        if fill is None:
            return self
        if self.fixed is not None:
            return replace(self, fixed=self.fixed.blanked(fill.at, fill.by, fill.present))
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
        return f[:, None] if isinstance(self.weights, Quadratic) else f

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
        hit: Flags = self.labels[winners(f)] == y[:, None]
        return hit


@dataclass(frozen=True, eq=False)
class Tally:
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

    def counted(self, y: Labels, found: Flags, first: int, weight: Vector | None = None) -> Tally:
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
        return Tally(labels, total, hits)

    def without(self, candidates: Sequence[int]) -> Tally:
        """Without some candidates."""
        return Tally(self.labels, self.total, np.delete(self.hits, candidates, axis=1))

    def merged(self, other: Tally) -> Tally:
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
        return Tally(labels, total, hits)

    def g_means(self, rows: int, costs: Costs = None) -> tuple[Matrix, Matrix]:
        """G-mean of each candidate and ridge, and its standard error.

        Parameters
        ----------
        rows : int
            Rows so far, of which the last one counted the square root of that.
        costs : dict, optional
            Exponents of the recalls, by label.

        Returns
        -------
        G : ndarray of shape (candidates, r)
        error : ndarray of shape (candidates, r)
        """
        one = np.sqrt(max(rows, 1))  # half a hit and half a miss: 0 or 1 must not look certain
        n = (self.total[:, None, None] + one) / one
        recall = (self.hits / one + 0.5) / n
        share = by_label(self.labels, costs)
        share = (share / share.sum())[:, None, None]
        G = np.exp((share * np.log(recall)).sum(axis=0))
        error = G * np.sqrt((share**2 * (1.0 - recall) / (recall * n)).sum(axis=0))
        return G, error


def tallied(
    tally: Tally,
    judges: Sequence[Judge | None],
    fixed: Sequence[FixedMap | None],
    batch: Batch,
    terms: Sequence[Rows] | None,
    rows: int,
) -> Tally:
    """The tally with more rows, scored by the judges of all candidates.

    Parameters
    ----------
    tally : Tally
        What was judged so far.
    judges : sequence of Judge
        Who judge.
    fixed : sequence of FixedMap or None
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
    tally: Tally, rows: int, costs: Costs = None, quadratic: Sequence[int] = ()
) -> tuple[int, int]:
    """Candidate and ridge that are to answer.

    Parameters
    ----------
    tally : Tally
        How they did, the simplest first.
    rows : int
        Rows so far.
    costs : dict, optional
        Exponents of the recalls, by label.
    quadratic : sequence of int
        Candidates with quadratic boundaries.

    Returns
    -------
    candidate : int
    ridge : int
        Its best, the first of equals.
    """
    G, error = tally.g_means(rows, costs)
    ridge = G.argmax(axis=1)
    ridge[list(quadratic)] = 0  # the one that they have, whatever rounding says
    order = [*(i for i in range(len(G)) if i not in quadratic), *quadratic]
    first = order[0]
    for i in order[1:]:
        ahead = G[i, ridge[i]] - G[first, ridge[first]]
        if ahead > (HALF if i in quadratic else -1.0) * error[i, ridge[i]]:
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


def losers(tally: Tally, rows: int, costs: Costs = None) -> list[int]:
    """Candidates that are surely worse than the best.

    Parameters
    ----------
    tally : Tally
        How they did.
    rows : int
        Rows so far.
    costs : dict, optional
        Exponents of the recalls, by label.

    Returns
    -------
    list of int
    """
    if rows < EARLY or not len(tally.labels):
        return []
    G, error = tally.g_means(rows, costs)
    top = np.unravel_index(int(G.argmax()), G.shape)
    of_each: Any = np.arange(len(G)), G.argmax(axis=1)
    behind = G[top] - G[of_each]
    return [int(i) for i in np.flatnonzero(behind > SURE * np.hypot(error[top], error[of_each]))]
