"""Models for others: coefficients as JSON, a scikit-learn pipeline, an ONNX graph.

An export is fixed: it predicts as the model does now, and does not learn. Scores are computed about
the anchor of the model, a row amid those that it has learned:

    f(x) = offset + coef·(φ(x) − anchor)        or, with pooled_rows,
    f_k(x) = offset_k − ‖(φ(x) − anchor − mean_k) root_k‖²/2

A model that chooses has a sum of such scores, each with a map φ of its own.

About the origin they would lose digits where features are far from zero, such as time stamps.

Every export knows both probabilities: under balanced classes, by which the label is decided, and
under the stream's own frequencies, by which costs are.
"""

from __future__ import annotations

from dataclasses import replace

from counterpoise.encoding.columns import Columns, Feature
from counterpoise.encoding.encoder import ColumnEncoder
from counterpoise.errors import DataError
from counterpoise.estimators.auto import AutoClassifier
from counterpoise.estimators.balanced_ridge import BalancedRidgeClassifier
from counterpoise.modelfile.container import load_validated
from counterpoise.solver.scores import Scores
from counterpoise.tables.model_dispatch import reference_state
from counterpoise.tables.model_io import KINDS, of_contents, read_contents
from counterpoise.tables.records import Stored

FACES = {face.__name__: face for face in (BalancedRidgeClassifier, AutoClassifier)}


def missing_value_constants(stored: Stored) -> dict[Feature, float]:
    """What stands for a missing value in each feature of a column of numbers or dates.

    Without a feature that indicates it, that is the mean of all values that were learned. Empty if
    rows with missing values have no prediction.
    """
    encoding, state = stored.encoding, reference_state(stored.model)
    if not encoding.columns.indicated:
        return {}
    features, result = set(encoding.features), {}
    for feature, mean in zip(encoding.features, state.mean.tolist(), strict=True):
        if feature.kind in ("number", "cycle"):
            known = Feature(feature.column, "missing") in features
            own = encoding.columns.missing == "mean" and state.fixed is not None
            told = encoding.bases.get(feature.column, 0.0) if feature.kind == "number" else 0.0
            result[feature] = mean if own or not known else told
    return result


def exportable(path: str) -> Stored:
    """Load a model file, learned in a shell or saved from Python: then its features are columns.

    Features without names are x0, x1 and so on.
    """
    contents = read_contents(path)
    if contents.stream is not None or contents.kind not in KINDS:
        return of_contents(contents, path)
    model = load_validated(path, lambda: FACES[contents.kind].from_contents(contents))
    names = [f"x{j}" for j in range(model.n_features_in_)]
    names = [str(name) for name in getattr(model, "feature_names_in_", names)]
    features = tuple(Feature(name, "number") for name in names)
    encoding = ColumnEncoder(Columns(""), dict.fromkeys(names, "number"), features)
    return Stored(model, encoding, {}, 1)


def unmapped(scores: Scores) -> Scores:
    """Return scores as a function of the terms of the map, and their probabilities."""
    return replace(scores, fixed=None)


def scores_to_export(stored: Stored) -> Scores:
    """Scores of a model, an average if it chooses; raise if it has learned one class only."""
    scores = stored.model.scores_
    if scores.classes.seen.sum() < 2:
        raise DataError("the model has learned only one class; there is nothing to decide")
    return scores
