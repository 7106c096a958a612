"""The candidates that learn side by side, and how each of them has done so far."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from counterpoise.arrays import Labels, Matrix, Rows, Vector
from counterpoise.choosing.judge import FIRST, Judge, Tally, best, losers, next_refresh
from counterpoise.choosing.names import LINEAR, map_name, pooling_of
from counterpoise.exact.filling import Fill
from counterpoise.exact.options import Options
from counterpoise.exact.state import Batch, State
from counterpoise.exact.weighting import Costs
from counterpoise.features.fixed import SLICE


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
        Their weights at the last refresh.
    tally : Tally
        What was judged so far.
    options : Options
        How all of them are looked at; the ridge is chosen.
    rows : int
        Rows so far.
    due : int
        Rows at which the next refresh is due.
    dropped : dict of str to int
        Candidates that are gone, and after how many rows.
    """

    names: list[str]
    states: dict[str, State]
    judges: list[Judge | None]
    tally: Tally
    options: Options
    rows: int = 0
    due: int = FIRST
    dropped: dict[str, int] = field(default_factory=dict)

    @property
    def costs(self) -> Costs:
        """Exponents of the recalls, by label."""
        return self.options.costs

    @property
    def first(self) -> State:
        """What one of them has learned: all have seen the same rows."""
        return next(iter(self.states.values()))

    @property
    def plainest(self) -> State:
        """What was learned without a map, or by the first map if there is none."""
        return self.states.get(LINEAR, self.first)

    @property
    def _quadratic(self) -> list[int]:
        return [i for i, one in enumerate(self.names) if map_name(one) != one]

    def copy(self) -> Candidates:
        """An independent copy."""
        return replace(
            self,
            names=list(self.names),
            states={name: state.copy() for name, state in self.states.items()},
            judges=list(self.judges),
            dropped=dict(self.dropped),
        )

    def best(self) -> tuple[int, int]:
        """Candidate and ridge that predict; before anything was judged the linear one, if any.

        The ridge of quadratic boundaries is 0: the first of the one that they have.
        """
        if not len(self.tally.labels):
            first = self.names.index(LINEAR) if LINEAR in self.names else 0
            return first, 0 if first in self._quadratic else self.tally.hits.shape[2] // 2
        return best(self.tally, self.rows, self.costs, self._quadratic)

    def looked(self, name: str, ridge: float) -> Options:
        """How a candidate looks at its moments: by this ridge, or by its own if it has one."""
        nu = pooling_of(name)
        own: float | str = ridge if nu is None else "shrinking"
        return replace(self.options, ridge=own, pooling=nu)

    def chosen(self, ridges: Vector) -> tuple[State, Options]:
        """What the best candidate has learned, and how it looks at it."""
        i, j = self.best()
        name = self.names[i]
        return self.states[map_name(name)], self.looked(name, float(ridges[j]))

    def learn(
        self,
        batch: Batch,
        declared: Labels,
        limit: float,
        ridges: Vector,
        drop: bool,
        into: tuple[Matrix, Labels] | None = None,
    ) -> Candidates:
        """With more rows, each judged before it is learned: this object, changed, or another.

        Atomic with respect to signals. ``into`` are an array for the scores of the best of each
        moment, and the classes that they are for.
        """
        n, waiting = len(batch.y), [state.waiting for state in self.states.values()]
        ready = self.judges[0] is not None and not any(waiting)
        if ready and self.rows + n < self.due and n <= SLICE:
            terms = {name: state.terms(batch.X) for name, state in self.states.items()}
            tally = self._judged(batch, 0, into, terms)
            more = {"tally": tally, "rows": self.rows + n}
            states = list(self.states.values())
            State.learn_all(states, list(terms.values()), batch, limit, declared, self, more)
            return self
        grown, at = self.copy(), 0
        while at < n:
            stop = min(n, at + grown.due - grown.rows)
            part = (
                batch if stop - at == n else replace(batch, X=batch.X[at:stop], y=batch.y[at:stop])
            )
            grown.tally = grown._judged(part, at, into)
            grown.states = {
                name: state.learn(part, limit, declared) for name, state in grown.states.items()
            }
            grown.rows += stop - at
            if grown.rows == grown.due:
                grown._refresh(ridges, drop)
            at = stop
        return grown

    def _judged(
        self,
        batch: Batch,
        at: int,
        into: tuple[Matrix, Labels] | None,
        terms: dict[str, Rows] | None = None,
    ) -> Tally:
        """The tally with more rows; scores go into their places from ``at`` on.

        ``terms`` of the rows, by the maps as they are now, may be known already.
        """
        if self.judges[0] is None:  # all know the same classes: none can be judged
            return self.tally
        n, (_, candidates, r) = len(batch.y), self.tally.hits.shape
        found = np.empty((n, candidates, r), bool)
        chosen = (0, 0) if into is None else self.best()
        for k, (name, judge) in enumerate(zip(self.names, self.judges, strict=True)):
            assert judge is not None
            name = map_name(name)
            known = terms is not None and judge.fixed is self.states[name].fixed
            f = judge.weighed(terms[name]) if terms and known else judge.scores(batch.X)
            found[:, k] = judge.found(f, batch.y)  # one ridge counts for all of them
            if into is not None and k == chosen[0]:
                into[0][at : at + n] = judge.among(f[:, chosen[1]], into[1])
        return self.tally.counted(batch.y, found, self.rows)

    def _refresh(self, ridges: Vector, drop: bool) -> None:
        """Bring the weights of the judges up to date, and drop who is surely worse."""
        gone = losers(self.tally, self.rows, self.costs) if drop else []
        if gone:
            self.dropped |= {self.names[i]: self.rows for i in gone}
            self.names = [name for i, name in enumerate(self.names) if i not in gone]
            self.tally = self.tally.without(gone)
            needed = {map_name(name) for name in self.names}
            self.states = {name: one for name, one in self.states.items() if name in needed}
        self.judges = [
            Judge.of(self.states[map_name(name)], self.looked(name, 1.0), ridges)
            for name in self.names
        ]
        self.due = next_refresh(self.rows)

    def filling(self, fill: Fill | None) -> Candidates:
        """The same, with features that may be missing; this object if nothing is new."""
        if fill == self.first.fill:
            return self
        states = {name: state.filling(fill) for name, state in self.states.items()}
        judges = [
            None if one is None else one.filling(states[map_name(name)])
            for name, one in zip(self.names, self.judges, strict=True)
        ]
        return replace(self, states=states, judges=judges)

    def widened(self, inputs: int, names: Any, limit: float) -> Candidates:
        """Make room for features that were zero in every row so far, given the names of all."""
        judges = [None if one is None else one.widened(inputs, names) for one in self.judges]
        states = {name: state.copy().widened(names, limit) for name, state in self.states.items()}
        return replace(self, states=states, judges=judges)
