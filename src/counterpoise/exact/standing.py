"""By what rows are ranked: how much more each class is likely than all others together.

Scores of several classes are logarithms of posteriors up to a term that all classes share. It
differs from row to row, so that rows are compared by

    f_k − log Σ_{j≠k} exp f_j

whose order among the classes of a row is that of their scores. All numbers are finite.
"""

from __future__ import annotations

import numpy as np

from counterpoise.arrays import Matrix


def bounded(f: Matrix) -> Matrix:
    """The same scores with the largest number there is in place of infinity."""
    return np.nan_to_num(f)


def against_rest(f: Matrix) -> Matrix:
    """Log-odds (n, c) of each of several classes against all others, given scores (n, c).

    Examples
    --------
    >>> from counterpoise.exact.standing import against_rest
    >>> against_rest(np.log([[0.5, 0.25, 0.25]])).round(6).tolist()
    [[0.0, -1.098612, -1.098612]]
    """
    nothing = np.full((len(f), 1), -np.inf)
    before = np.logaddexp.accumulate(np.hstack([nothing, f[:, :-1]]), axis=1)
    after = np.logaddexp.accumulate(np.hstack([nothing, f[:, :0:-1]]), axis=1)[:, ::-1]
    return bounded(f - np.logaddexp(before, after))
