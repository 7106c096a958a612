r"""The weighted average of candidates, and how they are weighed.

    f(x) = Σ_i s_i f_i(x)/rms_i,      s_i ∝ exp(G_i/T)/r

over every candidate and each of its r ridges, where G_i is the G-mean of the candidate.
Equal weights are the prior, and fewer rows of evidence e than PRIOR_ROWS move them less:

    T = T_0(e) max(1, PRIOR_ROWS/e),      e = c²/(2 Σ_k 1/n_k)

The G-mean of c classes of n_k rows has about the variance of a share of e rows: twice those of the
rarer class if the other one has many more, and c/2 times those of each if all have as many.
Candidates with one map differ in their weights alone, so that their sum is one function of its
terms: a prediction takes one product for each map, however many ridges there are.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Matrix, Rows, Vector, to_dense
from counterpoise.feature_maps import FittedMap
from counterpoise.feature_maps.fitted import SLICE, scale_row
from counterpoise.moments.classes import argmax_classes, n_score_columns
from counterpoise.solver.categories import CategoryEffects
from counterpoise.solver.score_functions import LinearScores, QuadraticScores
from counterpoise.solver.scores import Scores


@dataclass(frozen=True, eq=False)
class RidgePathScores:
    """Affine scores for r ridges: coef (r, problems, d), and offset (r, problems) at the anchor.

    ``effects`` (r, K, problems) are those of the categories of columns with many categories.
    """

    anchor: Vector
    coef: NDArray[np.float64]
    offset: Matrix
    effects: NDArray[np.float64] | None = None

    def combine(self, share: Vector, ridge: float) -> LinearScores:
        """Return the sum of all, weighted by share (r,), reported with this ridge."""
        coef = np.tensordot(share, self.coef, 1)
        return LinearScores(self.anchor, coef, share @ self.offset, ridge)


# Differences of the G-mean that change a weight by the factor e: while rows are few, and at least.
MAX_TEMPERATURE, MIN_TEMPERATURE = 0.02, 0.003
TEMPERATURE_ROWS = 300.0  # of evidence, from which on T_0 falls with the root of their number
PRIOR_ROWS = 50.0  # of evidence
MIN_WEIGHT = 1e-6  # of all weight: what is not felt, and costs a product


@dataclass(frozen=True, eq=False)
class Part:
    """Weighted scores as a function of the terms of one map, or of the features without one."""

    name: str
    fixed: FittedMap | None
    solution: LinearScores | QuadraticScores

    def of(self, X: Rows) -> Matrix:
        """Return scores of rows, of shape (n, problems)."""
        if self.fixed is None:
            return self.solution.of(X)
        n = X.shape[0]
        if n > SLICE:
            return np.concatenate([self.of(X[i : i + SLICE]) for i in range(0, n, SLICE)])
        return self.solution.of(self.fixed.transform(to_dense(X)))


@dataclass(frozen=True, eq=False)
class Average:
    """Sum of parts as a function of rows, with the ridge of the best candidate.

    ``effects`` are those of categories, unless the :class:`Scores` of the average have them.
    """

    parts: tuple[Part, ...]
    ridge: float
    effects: CategoryEffects | None = None

    def of(self, X: Rows) -> Matrix:
        """Return scores of rows, of shape (n, problems)."""
        if self.effects is None:
            return reduce(add, [part.of(X) for part in self.parts])
        features, index = self.effects.columns.split(X)
        found: Matrix = reduce(add, [part.of(features) for part in self.parts])
        return found + self.effects.of(index)

    def of_terms(self, terms: dict[str, Rows], X: Rows) -> Matrix:
        """Return scores (n, problems) of a few rows X, and their terms by the name of the map."""
        found: Matrix = reduce(add, [part.solution.of(terms[part.name]) for part in self.parts])
        if self.effects is None:
            return found
        return found + self.effects.of(self.effects.columns.split(X)[1])

    def of_one(self, row: NDArray[Any]) -> Vector:
        """Return scores (problems,) of one row (l,), faster than :meth:`of`."""
        return self._row_scorer.scores(row)

    @cached_property
    def _row_scorer(self) -> RowScorer:
        return RowScorer(self.parts)


class RowScorer:
    """Sum of parts as a function of single rows.

    The maps scale a row together, and the linear parts are one product of coefficients
    (problems, D) with the terms of all maps.
    """

    def __init__(self, parts: Sequence[Part]) -> None:
        self._maps = [part.fixed for part in parts if part.fixed is not None]
        self._mean = np.array([fixed.mean for fixed in self._maps])
        self._deviation = np.array([fixed.deviation for fixed in self._maps])
        raw = [part.solution for part in parts if part.fixed is None]
        self._quadratic = [one for one in raw if isinstance(one, QuadraticScores)]
        # Terms are the row itself for each linear part without a map, then those of the maps.
        linear: list[Any] = [one for one in raw if isinstance(one, LinearScores)]
        self._copies = len(linear)
        linear += [part.solution for part in parts if part.fixed is not None]
        self._anchor = np.concatenate([np.empty(0), *(one.anchor for one in linear)])
        self._coef = np.concatenate([one.coef for one in linear], axis=1) if linear else None
        self._offset = sum([one.offset for one in linear], np.zeros(1))

    def scores(self, row: NDArray[Any]) -> Vector:
        """Return the scores (problems,) of a row (l,)."""
        x = np.asarray(row, dtype=np.float64)
        f: Vector = self._offset
        if self._coef is not None:
            terms = [x] * self._copies
            if self._maps:
                scaled = scale_row(x, self._maps, self._mean, self._deviation)
                both = zip(self._maps, scaled, strict=True)
                terms += [fixed.map.apply(z, fixed.drawn)[0] for fixed, z in both]
            f = self._coef @ (np.concatenate(terms) - self._anchor) + f
        for solution in self._quadratic:
            f = f + solution.of_one(x)
        return f


def evidence(n: Vector) -> float:
    """Return the rows of evidence about a G-mean of classes of n rows, those seen; at least 1."""
    seen = n[n > 0.0]
    with np.errstate(over="ignore"):
        return max(len(seen) ** 2 / (2.0 * float((1.0 / seen).sum())), 1.0)


def temperature(n: Vector) -> float:
    """Return the difference of the G-mean that changes a weight by e, for classes of n rows."""
    rows = evidence(n)
    base = MAX_TEMPERATURE * min(1.0, math.sqrt(TEMPERATURE_ROWS / rows))
    return max(MIN_TEMPERATURE, base) * max(1.0, PRIOR_ROWS / rows)


def softmax_weights(G: Sequence[Vector], heat: float) -> list[Vector]:
    """Return averaging weights of candidates and ridges, given G-means; −∞ leaves one out."""
    top = max(float(one.max()) for one in G)
    raw = [np.exp((one - top) / heat) / max(np.isfinite(one).sum(), 1) for one in G]
    total = sum(float(one.sum()) for one in raw)
    return [one / total for one in raw]


# Rows between two averages of a stream.
MIN_ROWS_BETWEEN_AVERAGES, MAX_ROWS_BETWEEN_AVERAGES = 16, 16_384


class ScoreRequest(NamedTuple):
    """Array for the scores of rows, their classes, and the delay of labels in rows."""

    into: Matrix
    classes: Labels
    delay: int


class CachedAverage(NamedTuple):
    """Average after some rows, its classes, and the rows at which it is computed again."""

    average: Average
    labels: Labels
    due: int
    linked: Scores | None = None  # with the link; none if a class has no row yet

    def best_of(self, f: Vector) -> Any:
        """Return the label of a row that has these scores."""
        return self.labels[int(argmax_classes(f))]

    def probabilities_of(self, f: Vector, classes: Labels, stream: bool) -> Vector:
        """Return probabilities of a row that has these scores; 0 for classes without a row then."""
        assert self.linked is not None
        result = np.zeros(len(classes))
        p = self.linked.probabilities(f[None], stream)[0]
        result[np.searchsorted(classes, self.labels)] = p
        return result


def next_average(rows: int, half_life: float | None) -> int:
    """Return the rows at which the average of ``rows`` rows is computed again.

    A decomposition of d terms takes about as long as learning 4 d rows, so that from 100 d rows on
    ranking takes no more than a seventh of the time.
    """
    most = MAX_ROWS_BETWEEN_AVERAGES
    if half_life is not None:
        most = max(int(half_life) // 3, MIN_ROWS_BETWEEN_AVERAGES)
    return rows + min(max(rows // 3, MIN_ROWS_BETWEEN_AVERAGES), most)


def expand_scores(f: Matrix, labels: Labels, classes: Labels) -> Matrix:
    """Return scores of some classes as scores of more; classes without a score have −∞."""
    if n_score_columns(len(classes)) == 1:
        return f
    known = np.hstack([-f, f]) if f.shape[1] == 1 else f
    result = np.full((len(f), len(classes)), -np.inf)
    result[:, np.searchsorted(classes, labels)] = known
    return result


def warn_of_one_class(label: Any, rows: int) -> None:
    """Warn that all rows by which maps were fixed are of one class."""
    warnings.warn(
        f"all of the first {rows:,} rows are of class {label!r}, and the maps of the candidates "
        "are fixed by them: shuffle the rows if they are sorted, or begin with the maps of a model "
        "that has learned a shuffled sample",
        UserWarning,
        stacklevel=6,
    )
