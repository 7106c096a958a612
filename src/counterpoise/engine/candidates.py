"""Candidates that learn side by side, and their average."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Rows, Vector
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
from counterpoise.engine.ranking import MIN_ROWS, CandidateRanking, rank_by_leave_one_out
from counterpoise.engine.row_buffer import RowBuffer
from counterpoise.engine.state import Batch, State
from counterpoise.explanation import Explanation
from counterpoise.feature_maps.fitted import SLICE
from counterpoise.moments.classes import Classes
from counterpoise.solver.attribution import contributions
from counterpoise.solver.imputation import MeanImputation
from counterpoise.solver.options import Options
from counterpoise.solver.scores import Scores
from counterpoise.stepwise.single_event import MultiModelUpdater


class SingleRowUpdater:
    """Updater of states (by the name of the map) by single rows, while their maps stay fixed."""

    def __init__(self, states: dict[str, State], options: Options) -> None:
        self.states = states
        self.moments = [state.moments for state in states.values()]
        self.labels: list[Any] = self.moments[0].labels.tolist()
        self.slots = {label: k for k, label in enumerate(self.labels)}
        self._together = MultiModelUpdater(self.moments, options)
        self._last: tuple[Vector, dict[str, Vector]] | None = None

    def fits(self, states: dict[str, State]) -> bool:
        """Return whether these are the states, with the same moments."""
        return states is self.states and all(
            state.moments is one for state, one in zip(states.values(), self.moments, strict=True)
        )

    def terms(self, row: NDArray[Any]) -> tuple[Vector, dict[str, Vector]] | None:
        """Return a row as numbers, and its terms by each map; None if one of them is too large.

        The terms of the last row are kept: most rows are predicted, and then learned.
        """
        last = self._last
        if last is None or not np.array_equal(last[0], row):
            plain = np.array(row, dtype=np.float64)
            terms = {name: state.row(plain) for name, state in self.states.items()}
            found = {name: one for name, one in terms.items() if one is not None}
            if len(found) < len(terms):
                return None
            last = self._last = plain, found
        return last

    def learn(
        self,
        plain: Vector,
        terms: dict[str, Vector],
        slot: int,
        w: float,
        holder: Any,
        more: dict[str, Any],
    ) -> None:
        """Learn a row of the class in a slot, and set attributes of the holder in one step."""
        for state in self.states.values():  # before, so that a signal finds no old scores
            state.drop_solved()
        row = plain[None]
        clipped = [
            state.moments.clipped
            for state in self.states.values()
            if state.fixed is not None and state.fixed.is_clipped(row)[0]
        ]
        self._together.learn(list(terms.values()), slot, w, clipped, holder, more)


_WAITING = attrgetter("rows_until_fixed")
CACHES: dict[str, Any] = dict.fromkeys(("_current", "_ranking", "_scores", "_singles"))


@dataclass(eq=False)
class Candidates:
    """Candidates and what they have learned."""

    names: list[str]  # their names, the simplest first
    # what they have learned, by the name of the map: candidates with the same map share it
    states: dict[str, State]
    options: Options  # options that all of them share; the ridge is chosen
    kept: RowBuffer  # the last rows of each class, which rank the candidates
    rows: int = 0  # rows so far
    weighted: bool = False  # whether a row had another weight than 1
    _current: CachedAverage | None = field(default=None, repr=False)
    _ranking: tuple[int, CandidateRanking | None] | None = field(default=None, repr=False)
    _scores: tuple[int, bool, Scores] | None = field(default=None, repr=False)
    _singles: SingleRowUpdater | None = field(default=None, repr=False)

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
        """Whether rows were learned and every map is fixed."""
        return self.first.is_fitted and not max(map(_WAITING, self.states.values()))

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | CACHES

    def copy(self) -> Candidates:
        """Return an independent copy."""
        return self._with(
            names=list(self.names),
            states={name: state.copy() for name, state in self.states.items()},
            _current=self._current,
        )

    def _with(self, **changes: Any) -> Candidates:
        return replace(self, **{**CACHES, **changes})

    # Looking

    def solver_options_for(self, name: str, ridge: float) -> Options:
        """Return the options of a candidate with this ridge, or with its own if it has one."""
        nu = pooling_of(name)
        own: float | str = ridge if nu is None else "auto"
        return replace(self.options, ridge=own, pooled_rows=nu)

    def best(self, ridges: Vector) -> tuple[int, int]:
        """Return the positions of the best candidate and of its ridge.

        Before candidates are ranked it is the linear one, if any. Quadratic boundaries have the
        position 0 of their only ridge.
        """
        ranking = self.ranking(ridges)
        if ranking is not None:
            return ranking.best
        first = self.names.index(LINEAR) if LINEAR in self.names else 0
        return first, len(ridges) // 2 if pooling_of(self.names[first]) is None else 0

    def best_state(self, ridges: Vector) -> tuple[State, Options]:
        """Return the state of the best candidate, and the options that solve it."""
        i, j = self.best(ridges)
        name = self.names[i]
        return self.states[map_name(name)], self.solver_options_for(name, float(ridges[j]))

    def ranking(self, ridges: Vector) -> CandidateRanking | None:
        """Return the ranking by all rows so far; None while they are too few."""
        known = self._ranking
        if known is None or known[0] != self.rows:
            known = self._ranking = self.rows, self._rank(ridges)
        return known[1]

    def _rank(self, ridges: Vector) -> CandidateRanking | None:
        moments = self.first.moments
        weight = float(moments.N.sum())
        if weight < MIN_ROWS:
            return None
        states = [self.states[map_name(name)] for name in self.names]
        options = [self.solver_options_for(name, 1.0) for name in self.names]
        how = ridges, self.kept, temperature(weight, moments.n)
        return rank_by_leave_one_out(self.names, states, options, *how)

    def scores(self, ridges: Vector, link: bool = False) -> Scores:
        """Return the scores of the average, with the link of the best candidate if requested."""
        known = self._scores
        if known is None or known[0] != self.rows or known[1] < link:
            known = self._scores = self.rows, link, self._average_scores(ridges, link)
        return known[2]

    def _average_scores(self, ridges: Vector, link: bool) -> Scores:
        state, options = self.best_state(ridges)
        found = state.solve(None, options, link)
        ranking = self.ranking(ridges)
        if ranking is None:
            return found
        average: Any = self._averaged(ranking, found.classes, found.solution.ridge)
        return replace(found, solution=average, fixed=None)

    def _averaged(self, ranking: CandidateRanking, classes: Classes, ridge: float) -> Average:
        return ranking.average([map_name(name) for name in ranking.names], classes, ridge)

    def current_average(self, ridges: Vector, link: bool = False) -> CachedAverage | None:
        """Return the average of a few rows ago, with a link to probabilities if requested then."""
        known = self._current
        if known is not None and self.rows < known.due:
            return known
        ranking = self.ranking(ridges)
        if ranking is None:
            return None
        moments = self.first.moments
        classes = Classes.of(moments, moments.labels[:0])
        average = self._averaged(ranking, classes, 0.0)
        due = next_average(self.rows, self.options.decay.rows)
        linked = None
        if link:
            state, options = self.best_state(ridges)
            found = state.solve(None, options, link=True)
            linked = found if len(found.classes.labels) == len(classes.labels) else None
        self._current = CachedAverage(average, classes.labels, due, linked)
        return self._current

    # Single rows

    def has_seen(self, y: Any) -> bool:
        """Return whether a row of this class was learned before."""
        return any(y == label for label in self.first.moments.labels.tolist())

    def needs_refresh(self, rows: int) -> bool:
        """Return whether the average of a few rows ago is too old after ``rows`` rows."""
        return self._current is None or rows >= self._current.due

    def scored_one(self, row: NDArray[Any], ridges: Vector) -> tuple[CachedAverage, Vector] | None:
        """Return the average of a few rows ago and its scores of a row; None if there is none."""
        current = self.current_average(ridges, link=True) if self.rows else None
        if current is None:
            return None
        if not self.is_ready:  # the maps of the average are not those of now
            return current, current.average.of(np.array(row, dtype=np.float64)[None])[0]
        terms = self._single_row_updater().terms(row)
        return None if terms is None else (current, current.average.of_one(terms[1]))

    def learn_one(self, row: NDArray[Any], y: Any, w: float) -> bool:
        """Learn one row of a class seen before; return whether single rows can be learned now."""
        if not self.is_ready:
            return False
        singles = self._single_row_updater()
        terms = singles.terms(row)
        if terms is None:
            return False
        if w > 0.0:
            slot = singles.slots[y]
            before, label = float(singles.moments[0].N[slot]), singles.labels[slot]
            kept = self.kept.with_one(terms[0], label, w, before)
            more = {"rows": self.rows + 1, "kept": kept, "weighted": self.weighted or w != 1.0}
            singles.learn(*terms, slot, w, self, more)
        return True

    def _single_row_updater(self) -> SingleRowUpdater:
        if self._singles is None or not self._singles.fits(self.states):
            self._singles = SingleRowUpdater(self.states, self.options)
        return self._singles

    # Learning

    def learn(
        self,
        batch: Batch,
        declared: Labels,
        limit: float,
        ridges: Vector,
        request: ScoreRequest | None = None,
    ) -> Candidates:
        """Learn rows, and return this object, or a changed copy. Atomic with respect to signals."""
        n = len(batch.y)
        if request is None and n <= SLICE and self.is_ready:
            known = {name: state.terms(batch.X) for name, state in self.states.items()}
            self._learn_part(batch, declared, limit, known)
            return self
        grown, at = self.copy(), 0
        if request is not None:
            grown._write_scores(batch.X[: request.delay], 0, request, ridges)
        while at < n:
            stop = min(n, at + SLICE)
            if request is not None:
                current = grown.current_average(ridges)
                due = max(MIN_ROWS, grown.rows + 1) if current is None else current.due
                stop = min(stop, at + due - grown.rows)
            part = batch if stop - at == n else batch.part(slice(at, stop))
            terms: dict[str, Rows] | None = None
            if grown.is_ready:
                terms = {name: state.terms(part.X) for name, state in grown.states.items()}
            if request is not None and request.delay:
                coming = batch.X[at + request.delay : stop + request.delay]
                grown._write_scores(coming, at + request.delay, request, ridges)
            elif request is not None:
                grown._write_scores(part.X, at, request, ridges, terms)
            grown._learn_part(part, declared, limit, terms)
            at = stop
        return grown

    def _learn_part(
        self, batch: Batch, declared: Labels, limit: float, terms: dict[str, Rows] | None
    ) -> None:
        """Learn rows, given their terms if all maps are fixed."""
        more: dict[str, Any] = {
            "rows": self.rows + len(batch.y),
            "kept": self.kept.appended(batch.X, batch.y, batch.weight, self._class_weights()),
        }
        if batch.weight is not None and (batch.weight != 1.0).any():
            more["weighted"] = True
        if terms is not None:
            states = list(self.states.values())
            State.learn_all(states, list(terms.values()), batch, limit, declared, self, more)
            return
        waited = any(state.rows_until_fixed for state in self.states.values())
        self.states = {
            name: state.learn(batch, limit, declared) for name, state in self.states.items()
        }
        labels = self.first.moments.labels
        if waited and self.is_ready and len(labels) == 1:  # the last rows of the warm-up
            warn_of_one_class(labels.tolist()[0], more["rows"])
        for name, value in more.items():
            setattr(self, name, value)

    def _class_weights(self) -> dict[Any, float]:
        """Return the weight of all rows so far, by label."""
        moments = self.first.moments
        return dict(zip(moments.labels.tolist(), moments.N.tolist(), strict=True))

    def _write_scores(
        self,
        X: Rows,
        at: int,
        request: ScoreRequest,
        ridges: Vector,
        terms: dict[str, Rows] | None = None,
    ) -> None:
        """Write the scores of rows by the present average to the request, from row ``at`` on."""
        if not X.shape[0]:
            return
        current = self.current_average(ridges)
        if current is not None:
            f = current.average.of(X) if terms is None else current.average.of_terms(terms)
            request.into[at : at + X.shape[0]] = expand_scores(f, current.labels, request.classes)

    def with_imputation(self, fill: MeanImputation | None) -> Candidates:
        """Return these candidates with features that may be missing; this object if unchanged."""
        if fill == self.first.fill:
            return self
        return self._with(states={k: one.with_imputation(fill) for k, one in self.states.items()})

    def with_declared_classes(self, declared: Labels) -> Candidates:
        """Return these candidates with other declared labels."""
        return self._with(
            states={k: one.with_declared_classes(declared) for k, one in self.states.items()}
        )

    def with_features(self, inputs: int, names: Any, limit: float) -> Candidates:
        """Return these candidates with more features, 0 in every row so far, given all names."""
        states = {
            name: state.copy().with_features(names, limit) for name, state in self.states.items()
        }
        kept = self.kept.reindex_features(np.arange(inputs), len(names))
        return self._with(states=states, kept=kept)

    def reindex_features(
        self, at: NDArray[np.intp], names: Sequence[str], limit: float
    ) -> Candidates:
        """Return these candidates with feature j at position at[j] of a row of these features."""
        states = {
            name: state.reindex_features(at, names, limit) for name, state in self.states.items()
        }
        return self._with(states=states, kept=self.kept.reindex_features(at, len(names)))

    def merge(self, other: Candidates, limit: float) -> Candidates:
        """Return these rows followed by the rows of others, learned by the same maps."""
        states = {
            name: state.merge(other.states[name], limit) for name, state in self.states.items()
        }
        return self._with(
            states=states,
            rows=self.rows + other.rows,
            weighted=self.weighted or other.weighted,
            kept=self.kept.merge(other.kept, self._class_weights()),
        )


def explained(
    scores: Scores, candidates: Candidates, state: State, X: Rows, names: Sequence[str] | None
) -> Explanation:
    """Reasons of rows, whose features have these names, or x0, x1, ...

    ``state`` is what the best candidate has learned, who answers alone where nothing was judged.
    Each part is about the balanced centre as its map sees it.
    """
    solution = scores.solution
    parts = solution.parts if isinstance(solution, Average) else ()
    each = [
        (replace(scores, solution=part.solution, fixed=part.fixed), candidates.states[part.name])
        for part in parts
    ] or [(scores, state)]
    found = [contributions(one, state.moments, candidates.options, X) for one, state in each]
    values = np.sum([one for one, _ in found], axis=0)
    base = np.sum([at for _, at in found], axis=0)
    called = [f"x{j}" for j in range(X.shape[1])] if names is None else [str(n) for n in names]
    data = X.toarray() if sp.issparse(X) else X
    if len(base) == 1:
        return Explanation(values[:, 0], base[0], called, scores.classes.labels, data)
    return Explanation(values, base, called, scores.classes.labels, data)
