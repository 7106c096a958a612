"""A fitted scikit-learn pipeline for data frames.

Columns of numbers and categories are made into features by steps of scikit-learn; a time column is
given in seconds. Where there are dates, hashes or missing values, the encoding of the model itself
is the step.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from counterpoise.arrays import Labels, Matrix
from counterpoise.errors import DataError
from counterpoise.export import scores_to_export
from counterpoise.feature_maps import FittedMap
from counterpoise.moments.classes import argmax_classes, ravel_binary
from counterpoise.readers.dataframes import FrameSource
from counterpoise.solver.scores import Scores
from counterpoise.tables.model import TableModel
from counterpoise.tables.scoring import PredictionEncoder


class ExportedPipeline(Pipeline):
    """A pipeline with both probabilities."""

    def predict_stream_proba(self, X: Any) -> Matrix:
        """Return probabilities (n, c) under the observed class frequencies."""
        p: Matrix = self[-1].predict_stream_proba(self[:-1].transform(X))
        return p


class Scorer(ClassifierMixin, BaseEstimator):
    """Fixed scores, linear or quadratic: the last step of an exported pipeline."""

    def __init__(self, scores: Scores) -> None:
        self.scores = scores

    @property
    def classes_(self) -> Labels:
        """The labels."""
        return self.scores.classes.labels

    def fit(self, X: Any = None, y: Any = None) -> Scorer:
        """Do nothing: the scores are fixed."""
        return self

    def decision_function(self, X: Any) -> Matrix:
        """Return scores (n,) or (n, c) of rows (n, d)."""
        return ravel_binary(self._scores(X))

    def predict(self, X: Any) -> Labels:
        """Return labels (n,) of rows (n, d)."""
        classes = self.scores.classes
        labels: Labels = classes.labels[argmax_classes(self._scores(X), classes.seen)]
        return labels

    def predict_proba(self, X: Any) -> Matrix:
        """Return balanced probabilities (n, c) of rows (n, d)."""
        return self.scores.probabilities(self._scores(X), stream=False)

    def predict_stream_proba(self, X: Any) -> Matrix:
        """Return probabilities (n, c) of rows (n, d) under the observed class frequencies."""
        return self.scores.probabilities(self._scores(X), stream=True)

    def _scores(self, X: Any) -> Matrix:
        return self.scores.of(np.asarray(X, dtype=np.float64))

    def __sklearn_is_fitted__(self) -> bool:
        return True


def as_text(frame: Any) -> Any:
    """Return cells of a data frame as the command line reads them: booleans and integers too."""

    def text(value: Any) -> str:
        if isinstance(value, (bool, np.bool_)):
            return "true" if value else "false"
        whole = isinstance(value, float) and value.is_integer()
        return str(int(value) if whole else value)

    return frame.map(text).astype(object)


def encode_frame(frame: Any, encoder: PredictionEncoder) -> Matrix:
    """Return the features (n, d) of a data frame, as the model itself encodes them.

    Columns that the model has not learned are ignored.
    """
    encoder, parts = encoder.with_missing("drop", "error"), []  # every row gets its prediction
    for chunk in encoder.read_chunks(FrameSource(frame)):
        X = encoder.encode(chunk, None).X
        parts.append(X if isinstance(X, np.ndarray) else X.toarray())
    width = len(encoder.encoding.features) + len(encoder.encoding.vocabularies)
    return np.vstack([np.zeros((0, width)), *parts])


def map_features(X: Matrix, fixed: FittedMap | None, order: list[int] | None) -> Matrix:
    """Return features that came in another order, or their mapped features."""
    rows = np.empty(np.shape(X))
    rows[:, slice(None) if order is None else order] = X
    if fixed is None:
        return rows
    d = len(fixed.mean)  # the last columns are codes of categories
    return np.hstack([fixed.transform(rows[:, :d]), rows[:, d:]])


def build_pipeline(stored: TableModel) -> Pipeline:
    """Build a fitted scikit-learn pipeline that takes data frames with the columns of the model."""
    try:
        import pandas as pd
    except ImportError as error:
        raise DataError("a pipeline for data frames needs pandas: pip install pandas") from error

    features, scores = stored.encoding.features, scores_to_export(stored)
    order = None
    kinds = {*(feature.kind for feature in features), *stored.encoding.kinds.values()}
    if not kinds <= {"number", "category", "epoch"}:
        columns = FunctionTransformer(encode_frame, kw_args={"encoder": stored.encoder})
    else:
        order = [j for j, f in enumerate(features) if f.kind == "number"]
        numbers = [features[j].column for j in order]
        steps: list[tuple[str, Any, list[str]]] = [("numbers", "passthrough", numbers)]
        sample: dict[str, Any] = {name: [0.0] for name in numbers}
        for column in dict.fromkeys(f.column for f in features if f.kind == "category"):
            at = [j for j, f in enumerate(features) if f.column == column]
            values = [features[j].value for j in at]
            one_hot = OneHotEncoder(
                categories=[values], handle_unknown="ignore", sparse_output=False
            )
            step = make_pipeline(FunctionTransformer(as_text), one_hot)
            steps.append((f"categories_{len(steps)}", step, [column]))
            sample[column] = values[:1]
            order += at
        columns = ColumnTransformer(steps).fit(pd.DataFrame(sample))
    step = FunctionTransformer(map_features, kw_args={"fixed": scores.fixed, "order": order})
    scorer = Scorer(replace(scores, fixed=None))
    return ExportedPipeline([("columns", columns), ("map", step), ("classifier", scorer)])
