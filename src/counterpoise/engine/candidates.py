"""Candidates that learn side by side, and their average."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Matrix, Rows, Vector, one_thread, to_dense
from counterpoise.engine.averaging import (
    Average,
    CachedAverage,
    ScoreRequest,
    expand_scores,
    next_average,
    temperature,
    warn_of_one_class,
)
from counterpoise.engine.parameters import LINEAR, map_name, pooling_of
from counterpoise.engine.progressive_calibration import (
    FIRST_BOUNDARY_ROWS,
    ProgressiveCalibration,
    counts_of,
)
from counterpoise.engine.ranking import MIN_ROWS, CandidateRanking, rank_by_leave_one_out
from counterpoise.engine.row_buffer import RowBuffer
from counterpoise.engine.state import Batch, State
from counterpoise.feature_maps.fitted import SLICE
from counterpoise.moments.classes import Classes, group_rows
from counterpoise.moments.moments import Moments
from counterpoise.solver.calibration import Calibration
from counterpoise.solver.link import Link, class_frequency
from counterpoise.solver.options import Options
from counterpoise.solver.scores import Scores
from counterpoise.validation import commit

MAX_DEFERRED_ROWS = 512  # rows learned together, once every map is fixed
BOUNDARY_PARTS = 3  # of the rows: their growth until the next scoring model
MAX_RECENT_ROWS = 1024  # rows whose scores are standardized for calibration
_ROWS_UNTIL_FIXED = attrgetter("rows_until_fixed")
CACHES: dict[str, Any] = dict.fromkeys(("_current", "_ranking", "_scores"))


@dataclass(eq=False)
class Candidates:
    """Candidates and what they have learned."""

    names: list[str]  # the simplest first
    states: dict[str, State]  # by the name of the map, which several candidates can share
    options: Options  # of all candidates, except the ridge
    ridges: Vector  # to choose from
    kept: RowBuffer  # the last rows of each class, which rank the candidates
    rows: int = 0
    is_weighted: bool = False  # whether a row had another weight than 1
    deferred: tuple[tuple[Vector, Any, float], ...] = ()  # rows (l,), with label and weight
    # counts of rows, by standardized scores of an average without them
    calibration: Calibration = field(default_factory=Calibration.empty)
    progressive: ProgressiveCalibration | None = None  # its scoring model is an average
    recent: Matrix | None = None  # the last rows that were learned while calibrating
    _current: CachedAverage | None = field(default=None, repr=False)
    _ranking: tuple[int, CandidateRanking | None] | None = field(default=None, repr=False)
    _scores: tuple[int, bool, Scores] | None = field(default=None, repr=False)

    @property
    def first(self) -> State:
        """State of the first map; all have learned the same rows."""
        return next(iter(self.states.values()))

    @property
    def simplest_state(self) -> State:
        """State without a map, or of the first map if there is none."""
        return self.states.get(LINEAR, self.first)

    @property
    def is_ready(self) -> bool:
        """True if rows were learned and every map is fixed."""
        return self.first.is_fitted and not max(map(_ROWS_UNTIL_FIXED, self.states.values()))

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | CACHES

    def _with(self, **changes: Any) -> Candidates:
        return replace(self, **{**CACHES, **changes})

    def with_states(self, change: Callable[[State], State], **changes: Any) -> Candidates:
        """Return these candidates with changed states."""
        states = {name: change(state) for name, state in self.states.items()}
        return self._with(states=states, **changes)

    # Solving

    def solver_options_for(self, name: str, ridge: float) -> Options:
        """Return the options of a candidate with this ridge, or with its own if it has one."""
        nu = pooling_of(name)
        own: float | str = ridge if nu is None else "auto"
        return replace(self.options, ridge=own, pooled_rows=nu)

    def best_state(self) -> tuple[State, Options]:
        """Return the state of the best candidate, and the options that solve it.

        Before candidates are ranked it is the linear one, if any.
        """
        names, ranking = self.ranked_names, self.ranking
        if ranking is not None:
            i, j = ranking.best
        else:
            i = names.index(LINEAR) if LINEAR in names else 0
            j = len(self.ridges) // 2
        options = self.solver_options_for(names[i], float(self.ridges[j]))
        state = self.states[map_name(names[i])]
        if ranking is not None and ranking.columns is not None:
            state.warn_unseen_labels_once(options)
            state = replace(state, codes=ranking.columns)  # whose ridges are chosen
        return state, options

    @property
    def ranked_names(self) -> list[str]:
        """Names of the candidates; quadratic ones cannot have columns with many categories."""
        if self.first.codes is None:
            return self.names
        return [name for name in self.names if pooling_of(name) is None]

    @property
    def ranking(self) -> CandidateRanking | None:
        """Ranking by all rows so far; None while they are too few."""
        cached = self._ranking
        if cached is None or cached[0] != self.rows:
            cached = self._ranking = self.rows, self._rank()
        return cached[1]

    def _rank(self) -> CandidateRanking | None:
        moments = self.first.moments
        if float(moments.N.sum()) < MIN_ROWS:
            return None
        candidates = [
            (name, self.states[map_name(name)], self.solver_options_for(name, 1.0))
            for name in self.ranked_names
        ]
        heat = temperature(moments.n)
        with one_thread():  # more take several times the processor time, and change the last bits
            return rank_by_leave_one_out(candidates, self.ridges, self.kept, heat)

    def scores(self, link: bool = False) -> Scores:
        """Return the scores of the average, with the link of the best candidate if requested."""
        cached = self._scores
        if cached is None or cached[0] != self.rows or cached[1] < link:
            state, options = self.best_state()
            ranking = self.ranking
            if ranking is None:
                found = state.solve(None, options, link)
            elif link:
                found = state.solve(None, options, link)
                average = ranking.average(found.classes, found.solution.ridge)
                found = replace(self._calibrate_scores(found, average), fixed=None)
                found = with_average(found, average)
            else:  # the ranking has solved all candidates
                state.warn_unseen_labels_once(options, stacklevel=4)
                average = ranking.average(state.classes, ranking.ridge_of_best(self.ridges))
                solution: Any = average
                found = with_average(Scores(state.classes, solution), average)
            cached = self._scores = self.rows, link, found
        return cached[2]

    def parts_of(self, scores: Scores) -> list[tuple[Scores, Moments]]:
        """Return the summands of scores with the moments of each; one before a ranking."""
        if not isinstance(scores.solution, Average):
            return [(scores, self.best_state()[0].moments)]
        return [
            (
                replace(scores, solution=part.solution, fixed=part.fixed),
                self.states[part.name].moments,
            )
            for part in scores.solution.parts
        ]

    def current_average(self, link: bool = False) -> CachedAverage | None:
        """Return the average of a few rows ago, with a link to probabilities if requested then."""
        cached = self._current
        if cached is not None and self.rows < cached.due:
            return cached
        ranking = self.ranking
        if ranking is None:
            return None
        moments = self.first.moments
        classes = Classes.of(moments, moments.labels[:0])
        average = ranking.average(classes, 0.0)
        due = next_average(self.rows, self.options.decay.rows)
        linked = None
        if link:
            state, options = self.best_state()
            found = state.solve(None, options, link=True)
            if len(found.classes.labels) == len(classes.labels):
                linked = self._calibrate_scores(found, average)
        self._current = CachedAverage(average, classes.labels, due, linked)
        return self._current

    # Calibration

    def _calibrate_scores(self, found: Scores, average: Average) -> Scores:
        """Return scores with a link whose stream probabilities are calibrated.

        The link is that of the best candidate, with standardized scores of the average instead. It
        stays as it is without counts, or if the model does not calibrate.
        """
        if not self.options.calibrate or found.link is None or self.recent is None:
            return found
        counts = self._all_counts()
        if not counts.rows:
            return found
        link = found.link.standardize(average.of(self.recent), found.classes.seen)
        return replace(found, link=link, calibration=counts)

    def _scoring_model(self) -> Scores | None:
        """Return the average with standardized scores; None before maps are fixed, or ranked."""
        if self.recent is None or not self.is_ready or self.ranking is None:
            return None
        moments = self.first.moments
        classes = Classes.of(moments, moments.labels[:0])
        average = self.ranking.average(classes, 0.0)
        share, seen = class_frequency(moments, classes.slots, self.options), classes.seen
        link = Link.of((0.0, 1.0), np.log(share), share, seen, float(moments.n.sum()))
        link = link.standardize(average.of(self.recent), seen)
        solution: Any = average
        return with_average(Scores(classes, solution, link), average)

    def _rows_before_boundary(self) -> int:
        """Return the rows that the present scoring model can still score."""
        return 0 if self.progressive is None else self.progressive.until - self.progressive.rows

    def _pass_boundary(self) -> None:
        """Renew the scoring model if the next row needs another one."""
        now = self.progressive
        if now is None:
            fixed = self.rows + max(map(_ROWS_UNTIL_FIXED, self.states.values()))
            now = ProgressiveCalibration(self.rows, max(fixed, FIRST_BOUNDARY_ROWS))
        if now.is_at_boundary:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")  # predictions warn
                counted, now = now.renew(self._scoring_model(), BOUNDARY_PARTS)
            self.calibration = self.calibration.merge(counted)
        self.progressive = now

    def _count_rows(self, batch: Batch, terms: dict[str, Rows] | None) -> dict[str, Any]:
        """Return counts and recent rows after a batch that is not learned yet."""
        now, found = self.progressive, Calibration.empty()
        assert now is not None
        if now.scores is not None and terms is not None:
            average: Any = replace(now.scores.solution, effects=now.scores.effects)  # type: ignore[call-arg]
            with np.errstate(all="ignore"):
                f = average.of_terms(terms, batch.X)
                found = counts_of(now.scores, f, batch.y, batch.weight)
        order = now.order.with_rows(batch.y)
        X = to_dense(batch.X[-MAX_RECENT_ROWS:])
        return {
            "progressive": now.with_counts(len(batch.y), found, order),
            "recent": _last_rows([X] if self.recent is None else [self.recent, X]),
        }

    def _all_counts(self) -> Calibration:
        """Return counts with those of pending rows."""
        now = self.progressive
        return self.calibration if now is None else self.calibration.merge(now.count_pending())

    def with_features(self, change: Callable[[State], State], **changes: Any) -> Candidates:
        """Return candidates of other features, which need another scoring model."""
        now = self.progressive
        if now is not None and now.scores is not None:
            changes["calibration"] = self._all_counts()
            none = Calibration.empty()
            changes["progressive"] = replace(now, until=now.rows, scores=None, pending=none)
        return self.with_states(change, **changes)

    def reindexed_rows(self, at: NDArray[np.intp], width: int) -> dict[str, Any]:
        """Return the rows in memory with column j at position at[j] of a width."""

        def widen(X: Matrix) -> Matrix:
            wider = np.zeros((len(X), width))
            wider[:, at] = X
            return wider

        return self.mapped_rows(widen)

    def mapped_rows(self, change: Callable[[Matrix], Matrix]) -> dict[str, Any]:
        """Return the rows in memory, changed by a function of rows."""
        recent = None if self.recent is None else change(self.recent)
        return {"kept": self.kept.map_rows(change), "recent": recent}

    # Single rows

    def seen_label(self, y: Any) -> Any:
        """Return the label of earlier rows that equals y; None if there is none."""
        return next((label for label in self.first.moments.labels.tolist() if y == label), None)

    def needs_refresh(self) -> bool:
        """Return whether the average of a few rows ago is too old for the deferred rows."""
        total = self.rows + len(self.deferred)
        if self._current is not None:
            return total >= self._current.due
        return self.rows < MIN_ROWS <= total or total >= next_average(self.rows, None)

    def score_one(self, row: NDArray[Any]) -> tuple[CachedAverage, Vector] | None:
        """Return the average of a few rows ago and its scores of a row; None if there is none."""
        current = self.current_average(link=True) if self.rows else None
        return None if current is None else (current, current.average.of_one(row))

    def defer(self, row: NDArray[Any], label: Any, w: float) -> bool:
        """Store a row of a seen label; return whether enough are stored to learn them.

        A warm-up stores all rows, because each solution fits the maps again.
        """
        self.deferred = (*self.deferred, (np.array(row, dtype=np.float64), label, w))
        n = len(self.deferred)
        return n >= MAX_DEFERRED_ROWS and n >= max(map(_ROWS_UNTIL_FIXED, self.states.values()))

    def deferred_batch(self) -> Batch:
        """Return the deferred rows."""
        X, y, w = zip(*self.deferred, strict=True)
        labels = np.array(y, dtype=self.first.moments.labels.dtype)
        return Batch(np.array(X), labels, np.array(w), group_rows)

    def copy(self) -> Candidates:
        """Return an independent copy, with the same average of a few rows ago."""
        return self.with_states(State.copy, _current=self._current)

    # Learning

    def learn(
        self,
        batch: Batch,
        declared: Labels,
        limit: float,
        request: ScoreRequest | None = None,
        calibrate: bool = True,
    ) -> Candidates:
        """Learn rows, and return this object, or a changed copy. Atomic with respect to signals.

        Without ``calibrate`` they do not count for calibration.
        """
        n = len(batch.y)
        calibrating = calibrate and self.options.calibrate
        most = self._rows_before_boundary() if calibrating else SLICE
        if request is None and n <= min(most, SLICE) and self.is_ready:
            self._learn_part(batch, declared, limit, self._terms(batch.X), calibrating)
            return self
        grown, at = self.copy(), 0
        if request is not None:
            grown._write_scores(batch.X[: request.delay], 0, request)
        while at < n:
            stop = min(n, at + SLICE)
            if calibrating:
                grown._pass_boundary()
                stop = min(stop, at + grown._rows_before_boundary())
            if request is not None:
                current = grown.current_average()
                due = max(MIN_ROWS, grown.rows + 1) if current is None else current.due
                stop = min(stop, at + due - grown.rows)
            part = batch if stop - at == n else batch.part(slice(at, stop))
            terms = grown._terms(part.X) if grown.is_ready else None
            if request is not None and request.delay:
                coming = batch.X[at + request.delay : stop + request.delay]
                grown._write_scores(coming, at + request.delay, request)
            elif request is not None:
                grown._write_scores(part.X, at, request, terms)
            grown._learn_part(part, declared, limit, terms, calibrating)
            at = stop
        return grown

    def _terms(self, X: Rows) -> dict[str, Rows]:
        """Return rows after each map."""
        return {name: state.terms(X) for name, state in self.states.items()}

    def _learn_part(
        self,
        batch: Batch,
        declared: Labels,
        limit: float,
        terms: dict[str, Rows] | None,
        calibrating: bool,
    ) -> None:
        """Learn rows, given their terms if all maps are fixed."""
        weight = batch.weight
        after: dict[str, Any] = {
            "rows": self.rows + len(batch.y),
            "kept": self.kept.append(batch.X, batch.y, weight, self._class_weights()),
            "is_weighted": self.is_weighted or bool(weight is not None and (weight != 1.0).any()),
            "deferred": (),
            **(self._count_rows(batch, terms) if calibrating else {}),
        }
        if terms is not None:
            states, rows = list(self.states.values()), list(terms.values())
            State.learn_all(states, rows, batch, limit, declared, self, after)
            return
        was_ready = not any(map(_ROWS_UNTIL_FIXED, self.states.values()))
        learned = {name: one.learn(batch, limit, declared) for name, one in self.states.items()}
        commit(self, states=learned, **after)
        labels = self.first.moments.labels
        if not was_ready and self.is_ready and len(labels) == 1:  # the last rows of the warm-up
            warn_of_one_class(labels.tolist()[0], self.rows)

    def _class_weights(self) -> dict[Any, float]:
        """Return the weight of all rows so far, by label."""
        moments = self.first.moments
        return dict(zip(moments.labels.tolist(), moments.N.tolist(), strict=True))

    def _write_scores(
        self, X: Rows, at: int, request: ScoreRequest, terms: dict[str, Rows] | None = None
    ) -> None:
        """Write the scores of rows by the present average to the request, from row ``at`` on."""
        current = self.current_average() if X.shape[0] else None
        if current is not None:
            f = current.average.of(X) if terms is None else current.average.of_terms(terms, X)
            request.into[at : at + X.shape[0]] = expand_scores(f, current.labels, request.classes)

    def merge(self, other: Candidates, limit: float) -> Candidates:
        """Return candidates that have learned these rows, then the rows of others."""
        states = {name: one.merge(other.states[name], limit) for name, one in self.states.items()}
        recent = [one.recent for one in (self, other) if one.recent is not None]
        return self._with(
            calibration=self._all_counts().merge(other._all_counts()),
            progressive=None,
            recent=_last_rows(recent) if recent else None,
            states=states,
            rows=self.rows + other.rows,
            is_weighted=self.is_weighted or other.is_weighted,
            kept=self.kept.merge(other.kept, self._class_weights()),
        )


def with_average(scores: Scores, average: Average) -> Scores:
    """Return scores with an average in place of their solution."""
    solution: Any = replace(average, effects=None)
    return replace(scores, solution=solution, effects=average.effects)


def _last_rows(parts: list[Matrix]) -> Matrix:
    """Return a copy of the last rows of arrays."""
    return np.concatenate(parts)[-MAX_RECENT_ROWS:].copy()
