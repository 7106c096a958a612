"""What a model says of a row of terms: scores about a point amid the rows that it has learned.

    f(x) = offset + coef·(φ(x) − centre)

An intercept at the origin would cost digits where the features are far from zero, such as time
stamps: its error is that of coef·φ(x), many times the score. About a point amid the rows nothing
large is subtracted.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from counterpoise.arrays import Flags, Labels, Matrix, Vector
from counterpoise.features import FixedMap
from counterpoise.jobs.store import Stored, answering, contents_of
from counterpoise.streams import DataError


@dataclass(frozen=True, eq=False)
class Affine:
    """Scores of every class, in double precision.

    Attributes
    ----------
    classes : ndarray of shape (c,)
        The labels.
    seen : ndarray of shape (c,)
        Whether rows of a class were learned; if not, it is never predicted.
    fixed : FixedMap, optional
        What rows go through first.
    centre : ndarray of shape (d,)
        Terms of a row amid those that were learned, or its features.
    coef : ndarray of shape (problems, d)
        One problem for two classes, else one a class.
    offset : ndarray of shape (problems,)
        Scores there.
    """

    classes: Labels
    seen: Flags
    fixed: FixedMap | None
    centre: Vector
    coef: Matrix
    offset: Vector


def affine(stored: Stored) -> Affine:
    """Scores of a model, or of what it has chosen; raise if it knows one class only."""
    model = answering(stored)
    seen = model.class_count_ > 0
    if seen.sum() < 2:
        raise DataError("the model has learned one class only; there is nothing to decide")
    fixed = model.features_
    if fixed is None:
        row = contents_of(replace(stored, model=model)).arrays["anchor"]
    else:
        row = fixed.mean
    offset = np.ravel(model.decision_function(row[None]))
    centre = row if fixed is None else fixed.transform(row[None])[0]
    return Affine(model.classes_, seen, fixed, centre, model.coef_, offset)
