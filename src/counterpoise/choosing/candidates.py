"""The candidates that learn side by side, and how each of them has done so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from counterpoise.arrays import Labels, Matrix, Rows, Vector
from counterpoise.choosing.judge import FIRST, Judge, Tally, best, losers, next_refresh
from counterpoise.exact.options import Options
from counterpoise.exact.state import Batch, State
from counterpoise.exact.weighting import Costs
from counterpoise.features.fixed import SLICE

LINEAR = "linear"


@dataclass(eq=False)
class Candidates:
    """The candidates that are still in the race, and how they did.

    Attributes
    ----------
    names : list of str
        Names of their maps, the simplest first.
    states : list of State
        What they have learned.
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
    states: list[State]
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
    def plainest(self) -> State:
        """What the linear candidate has learned, or the first if there is none."""
        return next((one for one in self.states if one.plan.text is None), self.states[0])

    def copy(self) -> Candidates:
        """An independent copy."""
        return replace(
            self,
            names=list(self.names),
            states=[state.copy() for state in self.states],
            judges=list(self.judges),
            dropped=dict(self.dropped),
        )

    def best(self) -> tuple[int, int]:
        """Candidate and ridge that predict; before anything was judged the linear one, if any."""
        if not len(self.tally.labels):
            first = self.names.index(LINEAR) if LINEAR in self.names else 0
            return first, self.tally.hits.shape[2] // 2
        return best(self.tally, self.rows, self.costs)

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
        n, waiting = len(batch.y), [state.waiting for state in self.states]
        ready = self.judges[0] is not None and not any(waiting)
        if ready and self.rows + n < self.due and n <= SLICE:
            terms = [state.terms(batch.X) for state in self.states]
            tally = self._judged(batch, 0, into, terms)
            more = {"tally": tally, "rows": self.rows + n}
            State.learn_all(self.states, terms, batch, limit, declared, self, more)
            return self
        grown, at = self.copy(), 0
        while at < n:
            stop = min(n, at + grown.due - grown.rows)
            part = (
                batch if stop - at == n else replace(batch, X=batch.X[at:stop], y=batch.y[at:stop])
            )
            grown.tally = grown._judged(part, at, into)
            grown.states = [state.learn(part, limit, declared) for state in grown.states]
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
        terms: Sequence[Rows] | None = None,
    ) -> Tally:
        """The tally with more rows; scores go into their places from ``at`` on.

        ``terms`` of the rows, by the maps as they are now, may be known already.
        """
        if self.judges[0] is None:  # all know the same classes: none can be judged
            return self.tally
        found = []
        for k, judge in enumerate(self.judges):
            assert judge is not None
            known = terms is not None and judge.fixed is self.states[k].fixed
            f = judge.weighed(terms[k]) if terms and known else judge.scores(batch.X)
            found.append(judge.found(f, batch.y))
            if into is not None:
                i, j = self.best()
                if k == i:
                    into[0][at : at + len(f)] = judge.among(f[:, j], into[1])
        return self.tally.counted(batch.y, np.stack(found, axis=1), self.rows)

    def _refresh(self, ridges: Vector, drop: bool) -> None:
        """Bring the weights of the judges up to date, and drop who is surely worse."""
        gone = losers(self.tally, self.rows, self.costs) if drop else []
        for i in reversed(gone):
            self.dropped[self.names[i]] = self.rows
            del self.states[i], self.names[i], self.judges[i]
        if gone:
            self.tally = self.tally.without(gone)
        self.judges = [Judge.of(state, self.options, ridges) for state in self.states]
        self.due = next_refresh(self.rows)

    def widened(self, inputs: int, names: Any, limit: float) -> Candidates:
        """Make room for features that were zero in every row so far, given the names of all."""
        judges = [None if one is None else one.widened(inputs, names) for one in self.judges]
        states = [state.copy().widened(names, limit) for state in self.states]
        return replace(self, states=states, judges=judges)
