"""Model files that can be exported: their scores, and constants for missing values."""

from __future__ import annotations

from dataclasses import replace

from counterpoise.encoding.columns import Columns, Feature
from counterpoise.encoding.encoder import ColumnEncoder
from counterpoise.errors import DataError
from counterpoise.modelfile.container import load_validated
from counterpoise.modelfile.engines import KINDS, feature_names, unpack
from counterpoise.solver.scores import Scores
from counterpoise.tables.model import TableModel
from counterpoise.tables.model_io import read_contents


def missing_value_constants(stored: TableModel) -> dict[Feature, float]:
    """Return the value of a missing number in each feature of a column of numbers or dates.

    Without a feature that indicates it, that is the mean of all values that were learned. Empty if
    rows with missing values have no prediction.
    """
    encoding, state = stored.encoding, stored.estimator.reference_state
    if not encoding.columns.uses_indicators:
        return {}
    features, result = set(encoding.features), {}
    for feature, mean in zip(encoding.features, state.mean.tolist(), strict=True):
        if feature.kind in ("number", "cycle"):
            known = Feature(feature.column, "missing") in features
            own = encoding.columns.missing == "mean" and state.fixed is not None
            told = encoding.bases.get(feature.column, 0.0) if feature.kind == "number" else 0.0
            result[feature] = mean if own or not known else told
    return result


def exportable(path: str) -> TableModel:
    """Load a model file, learned in a shell or saved from Python: then its features are columns.

    Features without names are x0, x1 and so on.
    """
    contents = read_contents(path)
    if contents.stream is not None or contents.kind not in KINDS:
        return TableModel.from_contents(contents, path)
    model = load_validated(path, lambda: unpack(contents))
    found = feature_names(contents, model.n_features)
    names = [f"x{j}" for j in range(model.n_features)] if found is None else list(map(str, found))
    features = tuple(Feature(name, "number") for name in names)
    encoding = ColumnEncoder(Columns(""), dict.fromkeys(names, "number"), features)
    return TableModel(model, encoding, path=path)


def unmapped(scores: Scores) -> Scores:
    """Return scores as a function of the terms of the map, and their probabilities."""
    return replace(scores, fixed=None)


def scores_to_export(stored: TableModel) -> Scores:
    """Scores of a model, an average if it chooses; raise if it has learned one class only."""
    scores = stored.estimator.scores()
    if scores.classes.seen.sum() < 2:
        raise DataError("the model has learned only one class; there is nothing to decide")
    return scores
