"""Models for others: coefficients as JSON, a scikit-learn pipeline, an ONNX graph.

An export is fixed: it predicts as the model does now, and does not learn. Scores are computed about
the anchor of the model, a row amid those that it has learned:

    f(x) = offset + coef·(φ(x) − anchor)        or, with pooling,
    f_k(x) = offset_k − ‖(φ(x) − anchor − mean_k) root_k‖²/2

About the origin they would lose digits where features are far from zero, such as time stamps.
"""

from __future__ import annotations

from counterpoise.encoding.columns import Feature
from counterpoise.errors import Remedy
from counterpoise.exact.scores import Scores
from counterpoise.jobs.models import answering
from counterpoise.jobs.store import Stored
from counterpoise.streams import DataError


def blanks(stored: Stored) -> dict[str, float]:
    """What stands for a missing value in each column of numbers, besides what indicates it.

    Without a feature that indicates it that is the mean of all values that were learned. Empty if
    rows with missing values have no prediction.
    """
    encoding, state = stored.encoding, answering(stored).state_
    if not encoding.columns.indicated:
        return {}
    features, result = set(encoding.features), {}
    for feature, mean in zip(encoding.features, state.mean.tolist(), strict=True):
        if feature.kind == "number":
            known = Feature(feature.column, "missing") in features
            own = encoding.columns.missing == "mean" and state.fixed is not None
            usual = mean if own or not known else encoding.bases.get(feature.column, 0.0)
            result[feature.column] = usual
    return result


def require_known(stored: Stored, kinds: tuple[str, ...], what: str) -> None:
    """Raise if an export cannot make one of the features of a model."""
    strange = [f for f in stored.encoding.features if f.kind not in kinds]
    if strange:
        raise DataError(
            f"feature {strange[0].name!r}: {what}",
            Remedy("learn dates as seconds", "time", [strange[0].column]),
            Remedy("export the coefficients with {} instead", "to", "json"),
        )


def deciding(stored: Stored) -> Scores:
    """Scores of a model, or of what it has chosen; raise if it has learned one class only."""
    scores = answering(stored).scores_
    if scores.classes.seen.sum() < 2:
        raise DataError("the model has learned only one class; there is nothing to decide")
    return scores
