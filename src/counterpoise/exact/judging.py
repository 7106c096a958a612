"""Who judges a row before it is learned: the model as it was at the last boundary.

Boundaries are numbers of rows: the 16th, and then whenever the rows have grown by an eighth. So
a verdict does not depend on how the caller cuts a stream into chunks, and solving takes little
beside learning.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from counterpoise.arrays import Labels, Matrix, Vector
from counterpoise.exact.calibration import Calibration
from counterpoise.exact.options import Options
from counterpoise.exact.scores import Scores

if TYPE_CHECKING:
    from counterpoise.exact.state import Batch, State

FIRST = 16


@dataclass(frozen=True, eq=False)
class Judge:
    """A model of the past, and when another takes its place.

    Attributes
    ----------
    rows : int
        Rows that were learned so far.
    until : int
        Rows at the next boundary.
    inputs : int
        Features that the judge knows: the first ones.
    scores : Scores, optional
        What it says; None while there are no two classes to tell apart.
    """

    rows: int = 0
    until: int = FIRST
    inputs: int = 0
    scores: Scores | None = None

    @classmethod
    def beginning(cls, state: State) -> Judge:
        """Where nobody has judged yet: the model as it is will do, if it has rows enough."""
        rows = round(float(state.moments.N.sum()))
        return cls(rows, max(rows, FIRST))

    def succeeded(self, state: State, options: Options) -> Judge:
        """The judge after a boundary, if this is one: the State has learned all rows so far."""
        if self.rows < self.until:
            return self
        until = self.rows + max(1, self.rows // 8)
        return Judge(self.rows, until, state.inputs, state.judging(options))


def verdict(scores: Scores, f: Matrix, y: Labels, weight: Vector | None) -> Calibration:
    """What scores f (n, problems) with an exact link say of rows, and what these are."""
    assert scores.link is not None
    p = scores.link.probabilities(f, scores.classes.seen, stream=True)
    return Calibration.of(scores.classes.labels, scores.classes.seen, p, y, weight)


def judged(state: State, batch: Batch, options: Options, limit: float) -> tuple[Calibration, Judge]:
    """Verdicts on rows that a State is about to learn, and who judges those after them.

    The State, which stays as it is, has room for the features of the rows already.
    """
    found, judge = Calibration.empty(), state.judge or Judge.beginning(state)
    ahead, at, n = state, 0, len(batch.y)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # whoever looks at the model is told
        while at < n:
            judge = judge.succeeded(ahead, options)
            stop = min(n, at + judge.until - judge.rows)
            piece = batch.part(slice(at, stop))
            if judge.scores is not None:
                f = judge.scores.of(piece.X[:, : judge.inputs])
                found = found.merged(verdict(judge.scores, f, piece.y, piece.weight))
            if stop < n:
                ahead = (ahead.copy() if ahead is state else ahead).learn(piece, limit)
            judge = replace(judge, rows=judge.rows + stop - at)
            at = stop
    return found, judge
