"""Progressive calibration: each row is scored before it is learned, by a model of rows before it.

The scoring model changes at boundaries only: after every 16 rows, and later whenever the number of
rows has grown by an eighth. Counts of the rows between two boundaries are pending until the second.
So nothing depends on how the caller cuts a stream into chunks, and solving takes little time next
to learning.

Where labels are sorted, the class frequencies of the past do not predict the next row. At a
boundary, pending rows do not count if labels had far fewer runs than in a random order. With n_k of
n recent rows in class k, that has 1 + Σ n_k (n − n_k)/n runs of equal labels (Wald and Wolfowitz).
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Matrix, Vector
from counterpoise.engine.row_hashes import Hashes
from counterpoise.feature_maps import FittedMap
from counterpoise.moments.categories import CodeColumns
from counterpoise.moments.moments import Moments
from counterpoise.solver.calibration import Calibration
from counterpoise.solver.categories import CategoryEffects
from counterpoise.solver.imputation import MeanImputation, impute_scores
from counterpoise.solver.mapped_moments import require_room
from counterpoise.solver.options import Options
from counterpoise.solver.score_functions import LinearScores, Solution
from counterpoise.solver.scores import Scores

if TYPE_CHECKING:
    from counterpoise.engine.state import Batch, State


FIRST_BOUNDARY_ROWS = 16
MIN_WINDOW_ROWS = 256  # of labels whose order is tested; else a quarter of all rows or more
MIN_EXPECTED_RUNS = 16.0  # with fewer expected runs, order cannot be tested
MAX_RUN_RATIO = 0.125  # of expected runs that sorted labels have
MIN_RUN_DEVIATIONS = 6.0  # by which sorted labels have fewer runs than expected
SORTED = (
    "labels are sorted: runs of one label are far longer than chance, so that such rows do not "
    "count for calibration; learn rows in the order in which they came, or shuffle them"
)


@dataclass(frozen=True, eq=False)
class LabelOrder:
    """Runs of equal labels among recent rows."""

    counts: dict[Any, float] = field(default_factory=dict)  # recent rows of each label
    runs: float = 0.0  # runs of equal labels among them
    last: list[Any] = field(default_factory=list)  # label of the last row; empty before the first
    # whether there were far fewer runs than chance gives, when that could last be tested
    is_sorted: bool = False
    was_sorted: bool = False  # whether that was ever so

    def with_rows(self, y: Labels) -> LabelOrder:
        """Return the order with the labels of more rows, at least one."""
        labels = y.tolist()
        runs = 1 + int((y[1:] != y[:-1]).sum())
        return self.append(LabelOrder(dict(Counter(labels)), runs, labels[-1:]), labels[:1])

    def append(self, other: LabelOrder, first: list[Any]) -> LabelOrder:
        """Return the order with later rows; ``first`` contains the label of the first of them."""
        counts = dict(self.counts)
        for label, n in other.counts.items():
            counts[label] = counts.get(label, 0.0) + n
        runs = self.runs + other.runs - (self.last == first)
        return replace(self, counts=counts, runs=runs, last=other.last)

    def test(self, rows: int) -> LabelOrder:
        """Test whether labels are sorted, and return the order with the result.

        Counts of more than MIN_WINDOW_ROWS, and of more than a quarter of ``rows``, are halved.
        """
        n_k = np.array(list(self.counts.values()))
        n = float(n_k.sum())
        found = self
        expected = 1.0 + float((n_k * (n - n_k)).sum()) / max(n, 1.0)
        if expected >= MIN_EXPECTED_RUNS:
            squares, cubes = float((n_k**2).sum()), float((n_k**3).sum())
            variance = squares * (squares + n * (n + 1.0)) - 2.0 * n * cubes - n**3
            deviation = math.sqrt(max(variance, 0.0) / (n * n * (n - 1.0)))
            few = self.runs <= MAX_RUN_RATIO * expected
            far = expected - self.runs >= MIN_RUN_DEVIATIONS * deviation
            found = replace(
                self, is_sorted=few and far, was_sorted=self.was_sorted or (few and far)
            )
        if n <= max(MIN_WINDOW_ROWS, rows / 4):
            return found
        counts = {label: count / 2.0 for label, count in self.counts.items() if count > 0.25}
        return replace(found, counts=counts, runs=self.runs / 2.0)


@dataclass(frozen=True, eq=False)
class ProgressiveCalibration:
    """A scoring model of the past, and the counts of rows since its boundary."""

    rows: int = 0  # rows that were learned so far
    until: int = FIRST_BOUNDARY_ROWS  # rows at the next boundary
    # the scoring model, without its map, which is the State's; None before there are two
    # classes
    scores: Scores | None = None
    # counts of the rows since the last boundary
    pending: Calibration = field(default_factory=Calibration.empty)
    order: LabelOrder = field(default_factory=LabelOrder)  # runs of labels so far

    @classmethod
    def start(cls, state: State) -> ProgressiveCalibration:
        """Return the beginning: a State with enough rows is the first scoring model."""
        rows = round(float(state.moments.N.sum()))
        return cls(rows, max(rows, FIRST_BOUNDARY_ROWS))

    @property
    def is_at_boundary(self) -> bool:
        """True if the next row needs another scoring model."""
        return self.rows >= self.until

    def count_pending(self) -> Calibration:
        """Count the pending rows; zero rows if labels are sorted."""
        return Calibration.empty() if self.order.test(self.rows).is_sorted else self.pending

    def renew(
        self, scores: Scores | None, parts: int = 8
    ) -> tuple[Calibration, ProgressiveCalibration]:
        """Return the counts at a boundary, and the calibration after it with a new scoring model.

        The new model has learned all rows before the boundary. The next boundary is where their
        number has grown by 1/``parts``.
        """
        order = self.order.test(self.rows)
        after = ProgressiveCalibration(
            self.rows, after_boundary(self.rows, parts), scores, order=order
        )
        return self.count_pending(), after

    def with_rows(
        self, X: Any, y: Labels, weight: Vector | None, fixed: FittedMap | None
    ) -> ProgressiveCalibration:
        """Return the calibration after rows X (n, l), all of them before the next boundary."""
        found = Calibration.empty()
        if self.scores is not None:
            f = replace(self.scores, fixed=fixed).of(X)
            found = counts_of(self.scores, f, y, weight)
        return self.with_counts(len(y), found, self.order.with_rows(y))

    def with_counts(self, n: int, found: Calibration, order: LabelOrder) -> ProgressiveCalibration:
        """Return the calibration after n rows with these counts, and the order of all labels."""
        return replace(self, rows=self.rows + n, pending=self.pending.merge(found), order=order)

    def reindex_features(self, at: NDArray[np.intp], d: int) -> ProgressiveCalibration:
        """Return the calibration for rows in which feature j, of now d, is feature at[j]."""
        if self.scores is None:
            return self
        solution = _reindex_solution(self.scores.solution, at, d)
        return replace(self, scores=replace(self.scores, solution=solution))

    def reindex_code_columns(self, at: Sequence[int], codes: CodeColumns) -> ProgressiveCalibration:
        """Return the calibration for rows in which column b of codes is now column at[b]."""
        if self.scores is None or self.scores.effects is None:
            return self
        effects = self.scores.effects.reindex_columns(at, codes)
        return replace(self, scores=replace(self.scores, effects=effects))

    def features_to_categories(
        self, at: NDArray[np.intp], codes: CodeColumns
    ) -> ProgressiveCalibration:
        """Return the calibration for rows in which features at[i] are categories of a column."""
        scores = self.scores
        if scores is None or not isinstance(scores.solution, LinearScores):
            return self
        solution = scores.solution
        values = solution.coef[:, at].T
        offset = solution.offset - solution.coef[:, at] @ solution.anchor[at]
        rest = np.delete(np.arange(len(solution.anchor)), at)
        solution = replace(
            solution, anchor=solution.anchor[rest], coef=solution.coef[:, rest], offset=offset
        )
        before = scores.effects
        earlier = () if before is None else before.values
        rows = np.ones(codes.count) if before is None else np.append(before.pseudo_rows, 1.0)
        ridges = np.ones(codes.count) if before is None else np.append(before.ridges, 1.0)
        effects = CategoryEffects(codes, (*earlier, values), rows, ridges)
        return replace(self, scores=replace(scores, solution=solution, effects=effects))

    def reindex_categories(self, b: int, at: NDArray[np.intp], size: int) -> ProgressiveCalibration:
        """Return the calibration for rows in which category i of column b is category at[i]."""
        if self.scores is None or self.scores.effects is None:
            return self
        effects = self.scores.effects.reindex_categories(b, at, size)
        return replace(self, scores=replace(self.scores, effects=effects))

    def with_imputation(self, fill: MeanImputation) -> ProgressiveCalibration:
        """Return the calibration for rows in which features may be missing for the first time.

        Their mean at the boundary, which is the anchor of the scoring model, takes their place.
        """
        if self.scores is None or fill.by.max() >= len(self.scores.solution.anchor):
            return self
        solution = self.scores.solution
        if isinstance(solution, LinearScores):
            is_used = solution.coef.any(axis=0)
        else:
            is_used = solution.root.any(axis=(0, 2))
        is_new = ~(fill.present | np.asarray(is_used)[fill.by])
        shift = np.where(is_new, solution.anchor[fill.at] - fill.base, 0.0)
        return replace(
            self, scores=replace(self.scores, solution=impute_scores(solution, fill, shift))
        )

    def convert_labels(self, convert: Callable[[Labels], Labels]) -> ProgressiveCalibration:
        """Return the calibration with labels in another type of array."""
        pending = replace(self.pending, labels=convert(self.pending.labels))
        scores = self.scores
        if scores is not None:
            labels = convert(scores.classes.labels)
            scores = replace(scores, classes=replace(scores.classes, labels=labels))
        return replace(self, pending=pending, scores=scores)

    def restrict_to(self, labels: Labels) -> ProgressiveCalibration:
        """Return the calibration with pending counts of these classes only."""
        pending = self.pending.restrict_to(labels)
        return self if pending is self.pending else replace(self, pending=pending)


def after_boundary(rows: int, parts: int = 8) -> int:
    """Return the number of rows at the boundary after the boundary at ``rows`` rows."""
    return rows + max(FIRST_BOUNDARY_ROWS, rows // parts)


def counts_of(scores: Scores, f: Matrix, y: Labels, weight: Vector | None) -> Calibration:
    """Return counts of rows by their scores f (n, problems), with an exact link, and labels."""
    assert scores.link is not None
    p = scores.link.probabilities(f, scores.classes.seen, stream=True)
    return Calibration.of(scores.classes.labels, scores.classes.seen, p, y, weight)


def score_before_learning(
    state: State, batch: Batch, options: Options, limit: float
) -> tuple[Calibration, ProgressiveCalibration]:
    """Return counts of rows that a State will learn, and the calibration after them.

    The State already contains the features of the rows. It does not change.
    """
    found, now = Calibration.empty(), state.progressive or ProgressiveCalibration.start(state)
    ahead, at, n = state, 0, len(batch.y)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # predictions warn
        while at < n:
            if now.is_at_boundary:
                counted, now = now.renew(ahead.scoring_model(options))
                found = found.merge(counted)
            stop = min(n, at + now.until - now.rows)
            part = batch.part(slice(at, stop))
            now = now.with_rows(part.X, part.y, part.weight, ahead.fixed)
            if stop < n:
                ahead = (ahead.copy() if ahead is state else ahead).learn(part, limit)
            at = stop
    return found, now


def warn_if_sorted(
    before: ProgressiveCalibration | None,
    after: ProgressiveCalibration | None,
    stacklevel: int = 3,
) -> None:
    """Warn when labels are found to be sorted for the first time."""
    known = before is not None and before.order.was_sorted
    if after is not None and after.order.was_sorted and not known:
        warn_sorted_labels(stacklevel + 1)


def warn_sorted_labels(stacklevel: int) -> None:
    """Warn that rows do not count for calibration because their labels are sorted."""
    warnings.warn(SORTED, UserWarning, stacklevel=stacklevel)


def _reindex_solution(solution: Solution, at: NDArray[np.intp], d: int) -> Solution:
    """Return scores of rows with feature j at at[j] of d; other features have no effect."""
    if not isinstance(solution, LinearScores):
        return solution.with_features(at, d)
    anchor, coef = np.zeros(d), np.zeros((len(solution.coef), d))
    anchor[at], coef[:, at] = solution.anchor, solution.coef
    return replace(solution, anchor=anchor, coef=coef)


FOLDS = 5
MIN_ROWS = 16  # fewer do not calibrate anything
MIN_SHARE = 1e-9  # of a row in a fold; less is rounding
Batches = Callable[[], Iterable["Batch"]]
HashRows = Callable[[Any], Hashes]


def cross_fit(
    state: State, batches: Batches, hash_rows: HashRows, options: Options, limit: float
) -> Calibration:
    """Return counts of the rows of a State, each scored by a model without its fold.

    Rows with equal hashes are dealt in the order of the batches.
    """
    parts = [
        (
            one.y,
            hash_rows(one.X),
            np.ones(len(one.y)) if one.weight is None else one.weight,
        )
        for one in batches()
    ]
    y, hashes, weight = (np.concatenate(list(one)) for one in zip(*parts, strict=True))
    found = Calibration.empty()
    if weight.sum() < MIN_ROWS:
        return found
    fold = _deal(y, hashes, weight)
    moments = state.moments
    require_room((FOLDS + 2) * len(moments.n), len(moments.anchor), limit, state.fixed is not None)
    sums: list[Moments | None] = [None] * FOLDS
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # predictions warn
        for k, part in _parts(batches(), fold):
            chunk = state.moments_of_batch(part, limit)
            mine = sums[k]
            sums[k] = chunk if mine is None else mine.append(chunk)
        models = [_solve_without_fold(state, sums, k, options) for k in range(FOLDS)]
        for k, part in _parts(batches(), fold):
            scores = models[k]
            if scores is not None:
                f = scores.of(part.X)
                found = found.merge(counts_of(scores, f, part.y, part.weight))
    return found


def _parts(batches: Iterable[Batch], fold: Matrix) -> Iterator[tuple[int, Batch]]:
    """Yield the rows of each batch by fold, with their weights (n, folds) in it."""
    at = 0
    for batch in batches:
        n = len(batch.y)
        for k in range(FOLDS):
            weight = fold[at : at + n, k]
            rows = np.flatnonzero(weight)
            if len(rows):
                yield k, replace(batch.part(rows), weight=weight[rows])
        at += n


def _solve_without_fold(
    state: State, sums: Sequence[Moments | None], k: int, options: Options
) -> Scores | None:
    """Solve all folds except fold k; None if two classes are missing."""
    rest: Moments | None = None
    for one in (*sums[:k], *sums[k + 1 :]):
        if one is not None:
            rest = one.copy() if rest is None else rest.append(one)
    return None if rest is None else state.solve_moments(rest, options)


def _deal(y: NDArray[Any], hashes: Hashes, weight: Vector) -> Matrix:
    """Return the weight of each row in each fold, (n, folds).

    Rows of a class are in the order of their hashes. A row that begins at the weight c and ends at
    the weight e has the units from c to e. Unit j belongs to fold j modulo the number of folds.
    """
    _, codes = np.unique(y if y.dtype != object else y.astype(str), return_inverse=True)
    result = np.zeros((len(y), FOLDS))
    for k in range(int(codes.max()) + 1):
        mine = np.flatnonzero(codes == k)
        mine = mine[np.argsort(hashes[mine], kind="stable")]
        end = np.cumsum(weight[mine])
        unit = min(1.0, float(end[-1]) / 2.0) or 1.0  # at least two folds
        edges = np.concatenate([[0.0], end / unit])
        whole, rest = np.divmod(edges, FOLDS)
        before = whole[:, None] + np.clip(rest[:, None] - np.arange(FOLDS), 0.0, 1.0)
        result[mine] = unit * np.diff(before, axis=0)
    result[result < MIN_SHARE * weight[:, None]] = 0.0
    return result
