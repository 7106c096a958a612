"""Exact scores at every step: what the model thought of each row just before it learnt that row.

Nothing feeds back from a score to the model, so all models of a stream are known as soon as the
stream is. They are solved one by one, by elimination in a compiled loop.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise._progressive import Recipe, Scorer
from counterpoise.arrays import Labels, Matrix
from counterpoise.moments import Moments


def scores(
    model: Any, moments: Moments, classes: Labels, X: Matrix, codes: NDArray[np.intp], delay: int
) -> Matrix:
    """Score each row by the exact model just before it, and let the moments learn it.

    Parameters
    ----------
    model : BalancedRidgeClassifier
        Whose options count.
    moments : Moments
        What was learnt before, in slots for all labels to come; changed in place.
    classes : ndarray of shape (c,)
        All labels, sorted.
    X : ndarray of shape (n, d)
        The rows.
    codes : ndarray of shape (n,)
        The slot of each row's label.
    delay : int
        Rows after which a label arrives.

    Returns
    -------
    ndarray of shape (n, q)
        One column for two classes, else one a class; 0 while nothing is known.
    """
    labels = moments.labels.tolist()
    order = np.array([labels.index(label) for label in classes.tolist()])
    balanced = model.class_weight == "balanced"
    factors = [model.costs or {}, {} if balanced else model.class_weight or {}]
    factor = np.array([[float(f.get(label, 1.0)) for label in labels] for f in factors]).prod(
        axis=0
    )
    recipe = Recipe(
        float(model.ridge),
        model.half_life,
        factor,
        order,
        balanced,
        model.scale,
        model._intercept(),
    )
    result = np.zeros((len(X), 1 if len(classes) <= 2 else len(classes)))
    scorer = Scorer(recipe, moments)
    steps = len(X) + delay
    at = scorer.plain(X, codes, delay, 0, steps, result)
    if at < steps:
        raise NotImplementedError(at)
    return result
