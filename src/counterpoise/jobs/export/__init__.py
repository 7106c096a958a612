"""Models for others: coefficients as JSON, a scikit-learn pipeline, an ONNX graph.

An export is fixed: it predicts as the model does now, and does not learn. Scores are computed about
the anchor of the model, a row amid those that it has learned:

    f(x) = offset + coef·(φ(x) − anchor)        or, with pooling,
    f_k(x) = offset_k − ‖(φ(x) − anchor − mean_k) root_k‖²/2

About the origin they would lose digits where features are far from zero, such as time stamps.
"""

from __future__ import annotations

from counterpoise.exact.scores import Scores
from counterpoise.jobs.models import answering
from counterpoise.jobs.store import Stored
from counterpoise.streams import DataError


def deciding(stored: Stored) -> Scores:
    """Scores of a model, or of what it has chosen; raise if it has learned one class only."""
    scores = answering(stored).scores_
    if scores.classes.seen.sum() < 2:
        raise DataError("the model has learned only one class; there is nothing to decide")
    return scores
