"""Reasons of an average: those of its parts, added up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import scipy.sparse as sp

from counterpoise.arrays import Rows
from counterpoise.choosing.average import Average
from counterpoise.choosing.candidates import Candidates
from counterpoise.exact.reasons import contributions
from counterpoise.exact.scores import Scores
from counterpoise.exact.state import State
from counterpoise.reasons import Reasons


def explained(
    scores: Scores, candidates: Candidates, state: State, X: Rows, names: Sequence[str] | None
) -> Reasons:
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
        return Reasons(values[:, 0], base[0], called, scores.classes.labels, data)
    return Reasons(values, base, called, scores.classes.labels, data)
