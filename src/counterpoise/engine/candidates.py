"""The candidates that learn side by side, and how each of them has done so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from counterpoise import validation
from counterpoise.arrays import Labels, Rows, Vector
from counterpoise.engine.averaging import (
    Average,
    CachedAverage,
    ScoreRequest,
    among,
    next_average,
    temperature,
    warn_of_one_class,
)
from counterpoise.engine.parameters import LINEAR, map_name, pooling_of
from counterpoise.engine.ranking import (
    FIRST,
    CandidateRanking,
    Judge,
    PrequentialCounts,
    best,
    candidates_to_drop,
    next_refresh,
    rank_by_leave_one_out,
    update_counts,
)
from counterpoise.engine.row_buffer import RowBuffer
from counterpoise.engine.state import Batch, State
from counterpoise.errors import DataError, Suggestion
from counterpoise.explanation import Explanation
from counterpoise.feature_maps.fitted import SLICE
from counterpoise.moments.classes import Classes
from counterpoise.solver.attribution import contributions
from counterpoise.solver.imputation import MeanImputation
from counterpoise.solver.options import Options
from counterpoise.solver.scores import Scores
from counterpoise.stepwise.single_event import MultiModelUpdater


class SingleRowUpdater:
    """States whose maps are fixed, open to single rows as long as their moments are these.

    Parameters
    ----------
    states : dict of str to State
        What candidates have learned, by the name of the map.
    options : Options
        How they are looked at.
    """

    def __init__(self, states: dict[str, State], options: Options) -> None:
        self.states = states
        self.moments = [state.moments for state in states.values()]
        self.labels: list[Any] = self.moments[0].labels.tolist()
        self.slots = {label: k for k, label in enumerate(self.labels)}
        self._together = MultiModelUpdater(self.moments, options)
        self._last: tuple[Vector, dict[str, Vector]] | None = None

    def fits(self, states: dict[str, State]) -> bool:
        """Whether these are the States, and their moments are where they were."""
        return states is self.states and all(
            state.moments is one for state, one in zip(states.values(), self.moments, strict=True)
        )

    def terms(self, row: NDArray[Any]) -> tuple[Vector, dict[str, Vector]] | None:
        """A row as numbers, and its terms by each map; None if one of them is too large.

        Those of the last row are known: most rows are predicted, and then learned.
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
        """Learn a row of the class in a slot, given as it is and as terms.

        The holder gets attributes in the same moment.
        """
        for state in self.states.values():  # before, so that no old scores are left
            state.version += 1
        row = plain[None]
        clipped = [
            state.moments.clipped
            for state in self.states.values()
            if state.fixed is not None and state.fixed.is_clipped(row)[0]
        ]
        self._together.learn(list(terms.values()), slot, w, clipped, holder, more)


_WAITING = attrgetter("waiting")


@dataclass(eq=False)
class Candidates:
    """The candidates that are still in the race, and how they did.

    Attributes
    ----------
    names : list of str
        Their names, the simplest first.
    states : dict of str to State
        What they have learned, by the name of the map: candidates with the same map share it.
    judges : list of Judge or None
        Their weights at the last refresh, where no rows are kept.
    tally : Tally
        What was judged so far, where no rows are kept.
    options : Options
        How all of them are looked at; the ridge is chosen.
    kept : Kept, optional
        The last rows of each class, by which they are judged.
    rows : int
        Rows so far.
    due : int
        Rows at which the next refresh is due, where no rows are kept.
    dropped : dict of str to int
        Candidates that are gone, and after how many rows.
    weighted : bool
        Whether a row had another weight than 1.
    """

    names: list[str]
    states: dict[str, State]
    judges: list[Judge | None]
    tally: PrequentialCounts
    options: Options
    kept: RowBuffer | None = None
    rows: int = 0
    due: int = FIRST
    dropped: dict[str, int] = field(default_factory=dict)
    weighted: bool = False
    _current: CachedAverage | None = field(default=None, repr=False)
    _verdict: tuple[int, CandidateRanking | None] | None = field(default=None, repr=False)
    _singles: SingleRowUpdater | None = field(default=None, repr=False)

    @property
    def first(self) -> State:
        """What one of them has learned: all have seen the same rows."""
        return next(iter(self.states.values()))

    @property
    def plainest(self) -> State:
        """What was learned without a map, or by the first map if there is none."""
        return self.states.get(LINEAR, self.first)

    @property
    def calm(self) -> bool:
        """Whether all have begun, and every map is fixed."""
        return self.first.begun and not max(map(_WAITING, self.states.values()))

    @property
    def _quadratic(self) -> list[int]:
        return [i for i, one in enumerate(self.names) if map_name(one) != one]

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_current": None, "_verdict": None, "_singles": None}

    def copy(self) -> Candidates:
        """An independent copy."""
        return self._with(
            names=list(self.names),
            states={name: state.copy() for name, state in self.states.items()},
            judges=list(self.judges),
            dropped=dict(self.dropped),
            _current=self._current,
        )

    def _with(self, **changes: Any) -> Candidates:
        fresh = {"_current": None, "_verdict": None, "_singles": None}
        return replace(self, **{**fresh, **changes})

    # Looking

    def looked(self, name: str, ridge: float) -> Options:
        """How a candidate looks at its moments: by this ridge, or by its own if it has one."""
        nu = pooling_of(name)
        own: float | str = ridge if nu is None else "auto"
        return replace(self.options, ridge=own, pooled_rows=nu)

    def best(self, ridges: Vector) -> tuple[int, int]:
        """Candidate and ridge that are best; before anything was judged the linear one, if any.

        The ridge of quadratic boundaries is 0: the first of the one that they have.
        """
        verdict = self.verdict(ridges)
        if verdict is not None:
            return verdict.best
        first = self.names.index(LINEAR) if LINEAR in self.names else 0
        return first, 0 if first in self._quadratic else len(ridges) // 2

    def chosen(self, ridges: Vector) -> tuple[State, Options]:
        """What the best candidate has learned, and how it looks at it."""
        i, j = self.best(ridges)
        name = self.names[i]
        return self.states[map_name(name)], self.looked(name, float(ridges[j]))

    def verdict(self, ridges: Vector) -> CandidateRanking | None:
        """How good they are by all rows so far; None before anything was judged."""
        known = self._verdict
        if known is None or known[0] != self.rows:
            known = self._verdict = self.rows, self._look(ridges)
        return known[1]

    def _look(self, ridges: Vector) -> CandidateRanking | None:
        states = [self.states[map_name(name)] for name in self.names]
        options = [self.looked(name, 1.0) for name in self.names]
        if self.kept is not None:
            weight = float(self.first.moments.N.sum())
            if weight < FIRST:
                return None
            how = ridges, self.kept, temperature(weight, self.first.moments.n)
            return rank_by_leave_one_out(self.names, states, options, *how)
        if not len(self.tally.labels):
            return None
        judges = [Judge.of(*one, ridges) for one in zip(states, options, strict=True)]
        return self._tallied(judges)

    def _tallied(self, judges: list[Judge | None]) -> CandidateRanking:
        """The verdict of the tally on these judges."""
        G, _ = self.tally.g_means(self.rows, self.options.class_factors)
        top = best(self.tally, self.rows, self.options.class_factors, self._quadratic)
        known = [one for one in judges if one is not None]
        mine = [row[: len(one.rms)] for row, one in zip(G, known, strict=True)]
        return CandidateRanking(
            self.names, known, mine, top, temperature(self.rows, self.first.moments.n)
        )

    def scores(self, ridges: Vector, link: bool = False) -> Scores:
        """Scores of the average, with the link of the best candidate to probabilities."""
        state, options = self.chosen(ridges)
        found = state.solve(None, options, link)
        verdict = self.verdict(ridges)
        if verdict is None:
            return found
        average: Any = self._averaged(verdict, found.classes, found.solution.ridge)
        return replace(found, solution=average, fixed=None)

    def _averaged(self, verdict: CandidateRanking, classes: Classes, ridge: float) -> Average:
        return verdict.average([map_name(name) for name in verdict.names], classes, ridge)

    def current(self, ridges: Vector, link: bool = False) -> CachedAverage | None:
        """The average of a few rows ago, linked to probabilities if that was wanted then."""
        known = self._current
        if known is not None and self.rows < known.due:
            return known
        verdict = self.verdict(ridges)
        if verdict is None:
            return None
        moments = self.first.moments
        classes = Classes.of(moments, moments.labels[:0])
        average = self._averaged(verdict, classes, 0.0)
        due = next_average(self.rows, self.options.half_life)
        linked = None
        if link:
            state, options = self.chosen(ridges)
            found = state.solve(None, options, link=True)
            linked = found if len(found.classes.labels) == len(classes.labels) else None
        self._current = CachedAverage(average, classes.labels, due, linked)
        return self._current

    # Single rows

    def knows(self, y: Any) -> bool:
        """Whether a row of this class was learned before."""
        return any(y == label for label in self.first.moments.labels.tolist())

    def stale(self, rows: int) -> bool:
        """Whether the average of a few rows ago is due again, after so many rows."""
        return self._current is None or rows >= self._current.due

    def scored_one(self, row: NDArray[Any], ridges: Vector) -> tuple[CachedAverage, Vector] | None:
        """The average of a few rows ago, and its scores of a row; None if there is none."""
        current = None if self.kept is None or not self.rows else self.current(ridges, link=True)
        if current is None:
            return None
        if not self.calm:  # the maps of the average are not those of now
            return current, current.average.of(np.array(row, dtype=np.float64)[None])[0]
        terms = self._opened().terms(row)
        return None if terms is None else (current, current.average.of_one(terms[1]))

    def learn_one(self, row: NDArray[Any], y: Any, w: float) -> bool:
        """Learn one row of a class known; returns whether single rows can be learned now."""
        if self.kept is None or not self.calm:
            return False
        singles = self._opened()
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

    def _opened(self) -> SingleRowUpdater:
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
        drop: bool,
        asked: ScoreRequest | None = None,
    ) -> Candidates:
        """With more rows: this object, changed, or another. Atomic with respect to signals."""
        n = len(batch.y)
        ready = self.kept is not None or (self.judges[0] is not None and self.rows + n < self.due)
        if ready and asked is None and n <= SLICE and self.calm:
            known = {name: state.terms(batch.X) for name, state in self.states.items()}
            self._learn_part(batch, declared, limit, known)
            return self
        grown, at = self.copy(), 0
        if asked is not None:
            grown._answer(batch.X[: asked.delay], 0, asked, ridges)
        while at < n:
            stop = min(n, at + SLICE)
            if grown.kept is None:
                stop = min(stop, at + grown.due - grown.rows)
            elif asked is not None:
                current = grown.current(ridges)
                due = max(FIRST, grown.rows + 1) if current is None else current.due
                stop = min(stop, at + due - grown.rows)
            part = batch if stop - at == n else batch.part(slice(at, stop))
            terms: dict[str, Rows] | None = None
            if grown.calm:
                terms = {name: state.terms(part.X) for name, state in grown.states.items()}
            if asked is not None and asked.delay:
                coming = batch.X[at + asked.delay : stop + asked.delay]
                grown._answer(coming, at + asked.delay, asked, ridges)
            elif asked is not None:
                grown._answer(part.X, at, asked, ridges, terms)
            grown._learn_part(part, declared, limit, terms)
            if grown.kept is None and grown.rows == grown.due:
                grown._refresh(ridges, drop)
            at = stop
        return grown

    def _learn_part(
        self, batch: Batch, declared: Labels, limit: float, terms: dict[str, Rows] | None
    ) -> None:
        """Learn rows, given their terms if all maps are fixed."""
        more: dict[str, Any] = {"rows": self.rows + len(batch.y)}
        if batch.weight is not None and (batch.weight != 1.0).any():
            more["weighted"] = True
        if self.kept is None:
            more["tally"] = self._judged(batch, terms)
        else:
            moments = self.first.moments
            before = dict(zip(moments.labels.tolist(), moments.N.tolist(), strict=True))
            more["kept"] = self.kept.followed(batch.X, batch.y, batch.weight, before)
        if terms is not None:
            states = list(self.states.values())
            State.learn_all(states, list(terms.values()), batch, limit, declared, self, more)
            return
        waited = any(state.waiting for state in self.states.values())
        self.states = {
            name: state.learn(batch, limit, declared) for name, state in self.states.items()
        }
        labels = self.first.moments.labels
        if waited and self.calm and len(labels) == 1:  # the last rows of the warm-up
            warn_of_one_class(labels.tolist()[0], more["rows"])
        for name, value in more.items():
            setattr(self, name, value)

    def _answer(
        self,
        X: Rows,
        at: int,
        asked: ScoreRequest,
        ridges: Vector,
        terms: dict[str, Rows] | None = None,
    ) -> None:
        """Scores of rows, by the average of now, into their places from ``at`` on."""
        if not X.shape[0]:
            return
        if self.kept is not None:
            current = self.current(ridges)
        elif self.judges[0] is None:
            current = None
        else:  # by the weights of the last refresh, which may have had other maps
            labels = self.judges[0].labels
            classes = Classes(labels, np.arange(len(labels)))
            if len(self.tally.labels):
                verdict = self._tallied(self.judges)
            else:  # nothing is judged yet
                verdict = CandidateRanking.alone(self.names, self.judges, self.best(ridges))
            current = CachedAverage(self._averaged(verdict, classes, 0.0), labels, 0)
            same = all(
                one is None or one.fixed is self.states[map_name(name)].fixed
                for name, one in zip(self.names, self.judges, strict=True)
            )
            terms = terms if same else None
        if current is not None:
            f = current.average.of(X) if terms is None else current.average.of_terms(terms)
            asked.into[at : at + X.shape[0]] = among(f, current.labels, asked.classes)

    def _judged(self, batch: Batch, terms: dict[str, Rows] | None) -> PrequentialCounts:
        """The tally with more rows, whose terms by the maps as they are now may be known."""
        if self.judges[0] is None:  # all know the same classes: none can be judged
            return self.tally
        maps = list(map(map_name, self.names))
        fixed = list(map(attrgetter("fixed"), map(self.states.__getitem__, maps)))
        known = None if terms is None else list(map(terms.__getitem__, maps))
        return update_counts(self.tally, self.judges, fixed, batch, known, self.rows)

    def _refresh(self, ridges: Vector, drop: bool) -> None:
        """Bring the weights of the judges up to date, and drop who is surely worse."""
        gone = candidates_to_drop(self.tally, self.rows, self.options.class_factors) if drop else []
        if gone:
            self.dropped |= {self.names[i]: self.rows for i in gone}
            self.names = [name for i, name in enumerate(self.names) if i not in gone]
            self.tally = self.tally.without(gone)
            needed = {map_name(name) for name in self.names}
            self.states = {name: one for name, one in self.states.items() if name in needed}
        self._renew(ridges)
        self.due = next_refresh(self.rows)

    def _renew(self, ridges: Vector) -> None:
        self.judges = [
            Judge.of(self.states[map_name(name)], self.looked(name, 1.0), ridges)
            for name in self.names
        ]

    def renewed(self, ridges: Vector, **changes: Any) -> Candidates:
        """The same with other attributes, and judges who know them."""
        result = self._with(**changes)
        if result.kept is None:
            result._renew(ridges)
            result.due = next_refresh(result.rows)
        return result

    def filling(self, fill: MeanImputation | None) -> Candidates:
        """The same, with features that may be missing; this object if nothing is new."""
        if fill == self.first.fill:
            return self
        states = {name: state.filling(fill) for name, state in self.states.items()}
        judges = [
            None if one is None else one.filling(states[map_name(name)])
            for name, one in zip(self.names, self.judges, strict=True)
        ]
        return self._with(states=states, judges=judges)

    def announced(self, declared: Labels) -> Candidates:
        """The same, with other labels announced."""
        return self._with(states={k: one.announced(declared) for k, one in self.states.items()})

    def widened(self, inputs: int, names: Any, limit: float) -> Candidates:
        """Make room for features that were zero in every row so far, given the names of all."""
        judges = [None if one is None else one.widened(inputs, names) for one in self.judges]
        states = {name: state.copy().widened(names, limit) for name, state in self.states.items()}
        kept = None if self.kept is None else self.kept.placed(np.arange(inputs), len(names))
        return self._with(states=states, judges=judges, kept=kept)


def check_same_candidates(one: Any, two: Any, mine: Candidates, theirs: Candidates) -> None:
    """Raise unless two models have the same parameters, features, candidates and fixed maps."""
    for name in ("ridges", "kept_rows", "class_factors", "half_life"):
        here, there = getattr(one, name), getattr(two, name)
        if not np.array_equal(here, there):
            raise ValueError(
                f"cannot merge models with different options: {name} is {here!r} here and "
                f"{there!r} there"
            )
    names = [getattr(m, "feature_names_in_", np.empty(0)).tolist() for m in (one, two)]
    if one.n_features_in_ != two.n_features_in_ or names[0] != names[1]:
        raise ValueError("cannot merge models with different features")
    if mine.names != theirs.names:
        raise ValueError(
            f"cannot merge models with different candidates: {', '.join(mine.names)} here and "
            f"{', '.join(theirs.names)} there; drop=False keeps all of them"
        )
    for name, state in mine.states.items():
        other = theirs.states[name]
        if state.waiting or other.waiting or state.fixed != other.fixed:
            raise DataError(
                f"cannot merge models whose map {name} was fixed by different rows, or is not "
                f"fixed yet (that takes {state.plan.rows} rows)",
                Suggestion("let the other begin with {}", "candidates", "maps_ of this one"),
            )
    validation.require_one_type(theirs.first.moments.labels, mine.first.moments.labels)


def reindex_candidates(
    one: Candidates, at: NDArray[np.intp], names: Sequence[str], limit: float, ridges: Vector
) -> Candidates:
    """The same with feature j at place at[j] of a wider row, whose features have these names."""
    states = {name: state.placed(at, names, limit) for name, state in one.states.items()}
    kept = None if one.kept is None else one.kept.placed(at, len(names))
    return one.renewed(ridges, states=states, kept=kept)


def merge_candidates(one: Candidates, two: Candidates, limit: float, ridges: Vector) -> Candidates:
    """What was learned here, followed by what was learned there, by the same maps."""
    states = {name: state.merged(two.states[name], limit) for name, state in one.states.items()}
    changes: dict[str, Any] = {
        "states": states,
        "rows": one.rows + two.rows,
        "weighted": one.weighted or two.weighted,
    }
    if one.kept is not None and two.kept is not None:
        moments = one.first.moments
        before = dict(zip(moments.labels.tolist(), moments.N.tolist(), strict=True))
        changes["kept"] = one.kept.merged(two.kept, before)
    else:
        changes["tally"] = one.tally.merged(two.tally)
    return one.renewed(ridges, **changes)


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
