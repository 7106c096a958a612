"""Models for other systems: coefficients as JSON, a scikit-learn pipeline, an ONNX graph.

An export is fixed: it predicts as the model does now, and does not learn. Scores are computed about
the anchor of the model, a row amid those that it has learned:

    f(x) = offset + coef·(φ(x) − anchor)        or, with pooled_rows,
    f_k(x) = offset_k − ‖(φ(x) − anchor − mean_k) root_k‖²/2

A model that averages has a sum of such scores, each with a map φ of its own. About the origin they
would lose digits where features are far from zero, such as time stamps.

Every export has both probabilities: balanced ones, by which the label is decided, and those under
the observed class frequencies, for decisions by costs.
"""

from __future__ import annotations

from counterpoise.encoding.columns import Columns, Feature
from counterpoise.encoding.encoder import ColumnEncoder
from counterpoise.errors import DataError
from counterpoise.modelfile.container import load_validated
from counterpoise.modelfile.engines import KINDS, feature_names, unpack
from counterpoise.solver.scores import Scores
from counterpoise.tables.model import TableModel
from counterpoise.tables.model_io import read_contents


def load_to_export(path: str) -> TableModel:
    """Load a model file of a table or, with its features as columns, of arrays or events.

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


def missing_value_constants(stored: TableModel) -> dict[Feature, float]:
    """Return the value of a missing number in each feature of a column of numbers or dates.

    Without an indicator that is the mean of all learned values. Empty if rows with missing values
    have no prediction.
    """
    encoding, state = stored.encoding, stored.estimator.reference_state
    if not encoding.columns.uses_indicators:
        return {}
    features, result = set(encoding.features), {}
    for feature, mean in zip(encoding.features, state.mean.tolist(), strict=True):
        if feature.kind in ("number", "cycle"):
            has_indicator = Feature(feature.column, "missing") in features
            is_mapped = encoding.columns.missing == "mean" and state.fixed is not None
            base = encoding.bases.get(feature.column, 0.0) if feature.kind == "number" else 0.0
            result[feature] = mean if is_mapped or not has_indicator else base
    return result


def scores_to_export(stored: TableModel) -> Scores:
    """Return the scores of a model; raise if it has learned one class only."""
    scores = stored.estimator.scores()
    if scores.classes.seen.sum() < 2:
        label = scores.classes.labels[scores.classes.seen][0]
        raise DataError(f"cannot export: the model has learned only one class, {str(label)!r}")
    return scores
