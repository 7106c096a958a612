"""What predictions need of a model file: what was learned, and how it is looked at.

The faces of a model read their files by this. Whoever only predicts needs no face, and does not
wait for scikit-learn to be imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace

from counterpoise.arrays import Rows
from counterpoise.exact import params
from counterpoise.exact.options import Options
from counterpoise.exact.reasons import explained
from counterpoise.exact.scores import Scores
from counterpoise.exact.state import State
from counterpoise.modelfile.container import Contents
from counterpoise.modelfile.options import options_of, possible
from counterpoise.modelfile.states import state_of
from counterpoise.reasons import Reasons


@dataclass(frozen=True, eq=False)
class Learned:
    """What was learned, to be looked at and not to be changed.

    Attributes
    ----------
    state : State
        What answers.
    options : Options
        How it is looked at.
    usual : State
        What tells which values of the features are usual.
    """

    state: State
    options: Options
    usual: State

    @property
    def scores(self) -> Scores:
        """Scores as a function of rows, and their probabilities."""
        return self.state.solve(None, self.options, link=True)

    def explain(self, X: Rows, names: Sequence[str]) -> Reasons:
        """Return what each feature, called by its name, contributes to the scores of rows."""
        return explained(self.scores, self.state.moments, self.options, X, names)


def learned_of(contents: Contents) -> Learned:
    """What a file of a BalancedRidgeClassifier holds, checked as if a stranger had written it."""
    given = SimpleNamespace(**options_of(contents.options, params.NAMES))
    with possible():
        options, plan = params.read(given)
    state = state_of(contents, plan)
    if state.fixed is not None and contents.facts["map"]["given"]:
        state.plan = replace(plan, given=state.fixed, map=state.fixed.map)
    return Learned(state, options, state)
