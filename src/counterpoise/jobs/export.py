"""Models for others: coefficients as JSON, a scikit-learn pipeline, ONNX in double precision.

Pipelines and ONNX graphs know columns of numbers and of categories; a time column is given in
seconds. What they hold is fixed: they predict as the model does now, and do not learn.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from counterpoise.arrays import Labels, Matrix, Vector
from counterpoise.features import FixedMap
from counterpoise.jobs.store import Stored, answering
from counterpoise.streams import DataError

OPSET = 18  # of ONNX


class LinearScorer(ClassifierMixin, BaseEstimator):
    """Fixed weights: the last step of an exported pipeline.

    Parameters
    ----------
    classes : ndarray of shape (c,)
        The labels.
    coef : ndarray of shape (1, d) or (c, d)
        Weights.
    intercept : ndarray of shape (1,) or (c,)
        Scores at the origin.
    """

    def __init__(self, classes: Labels, coef: Matrix, intercept: Vector) -> None:
        self.classes = classes
        self.coef = coef
        self.intercept = intercept

    @property
    def classes_(self) -> Labels:
        """The labels."""
        return self.classes

    def fit(self, X: Any = None, y: Any = None) -> LinearScorer:
        """Do nothing: the weights are fixed.

        Parameters
        ----------
        X, y : ignored
            Not used.

        Returns
        -------
        self
        """
        return self

    def decision_function(self, X: Any) -> Matrix:
        """Scores of rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows.

        Returns
        -------
        ndarray of shape (n,) or (n, c)
        """
        f: Matrix = np.asarray(X, dtype=np.float64) @ self.coef.T + self.intercept
        return f.ravel() if f.shape[1] == 1 else f

    def predict(self, X: Any) -> Labels:
        """Labels of rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows.

        Returns
        -------
        ndarray of shape (n,)
        """
        f = self.decision_function(X)
        labels: Labels = self.classes[(f > 0).astype(int) if f.ndim == 1 else f.argmax(axis=1)]
        return labels

    def __sklearn_is_fitted__(self) -> bool:
        return True


def coefficients(stored: Stored) -> dict[str, Any]:
    """Weights by name, as JSON can hold them.

    Parameters
    ----------
    stored : Stored
        The model.

    Returns
    -------
    dict
        ``classes``, ``intercept`` and for each feature its ``column``, ``kind``, ``value`` and
        ``weights``: one of the second class for two, else one a class. A score is the intercept
        plus the sum of weights times features. Where there is a map, ``map`` has its name, the
        scaling of the features, its random numbers, and the weights of its terms.
    """
    model = answering(stored)
    weights, fixed = model.coef_.T.tolist(), model.features_
    features = [{**f._asdict(), "name": f.name} for f in stored.encoding.features]
    mapped: dict[str, Any] = {}
    if fixed is None:
        features = [{**f, "weights": w} for f, w in zip(features, weights, strict=True)]
    else:
        names = fixed.names([f.name for f in stored.encoding.features])
        terms = [{"name": n, "weights": w} for n, w in zip(names, weights, strict=True)]
        mapped["map"] = {
            "name": fixed.map.text,
            "mean": fixed.mean.tolist(),
            "deviation": fixed.deviation.tolist(),
            "drawn": fixed.drawn.tolist(),
            "terms": terms,
        }
    return {
        "classes": model.classes_.tolist(),
        "intercept": model.intercept_.tolist(),
        "features": features,
        **mapped,
        "columns": stored.encoding.kinds,
        "hashed": {
            "buckets": dict(stored.encoding.columns.hashed),
            "seed": stored.encoding.columns.seed,
        },
    }


def as_text(frame: Any) -> Any:
    """Cells of a data frame as the command line reads them: truth values and whole numbers too.

    Parameters
    ----------
    frame : DataFrame
        Columns of categories.

    Returns
    -------
    DataFrame of str
    """

    def text(value: Any) -> str:
        if isinstance(value, (bool, np.bool_)):
            return "true" if value else "false"
        whole = isinstance(value, float) and value.is_integer()
        return str(int(value) if whole else value)

    return frame.map(text).astype(object)


def pipeline(stored: Stored) -> Pipeline:
    """Build a fitted scikit-learn pipeline that takes data frames with the columns of the model.

    Parameters
    ----------
    stored : Stored
        The model.

    Returns
    -------
    Pipeline
    """
    names = {feature.column: feature.column for feature in stored.encoding.features}
    return _pipeline(stored, names, [FunctionTransformer(as_text)])


def mapped(X: Matrix, fixed: FixedMap, order: list[int]) -> Matrix:
    """Terms of rows whose features came in another order.

    Parameters
    ----------
    X : ndarray of shape (n, l)
        The rows.
    fixed : FixedMap
        The map.
    order : list of int
        Which feature each column is.

    Returns
    -------
    ndarray of shape (n, d)
    """
    rows = np.empty(np.shape(X))
    rows[:, order] = X
    return fixed.transform(rows)


def _pipeline(stored: Stored, names: dict[str, str], before: list[Any]) -> Pipeline:
    """Pipeline whose columns have these names, with steps before categories are encoded."""
    import pandas as pd

    features = stored.encoding.features
    if len(stored.model.classes_) < 2:
        raise DataError("the model has learned one class only; there is nothing to decide")
    strange = [f for f in features if f.kind not in ("number", "category")]
    if strange:
        raise DataError(
            f"feature {strange[0].name!r}: pipelines and ONNX know numbers and categories only; "
            "export the coefficients with --to json instead"
        )
    order = [j for j, f in enumerate(features) if f.kind == "number"]
    numbers = [names[features[j].column] for j in order]
    steps: list[tuple[str, Any, list[str]]] = [("numbers", "passthrough", numbers)]
    sample: dict[str, Any] = {name: [0.0] for name in numbers}
    for column in dict.fromkeys(f.column for f in features if f.kind == "category"):
        at = [j for j, f in enumerate(features) if f.column == column and f.kind == "category"]
        values = [features[j].value for j in at]
        encoder = OneHotEncoder(categories=[values], handle_unknown="ignore", sparse_output=False)
        step = make_pipeline(*before, encoder) if before else encoder
        steps.append((f"categories_{len(steps)}", step, [names[column]]))
        sample[names[column]] = values[:1]
        order += at
    columns = ColumnTransformer(steps).fit(pd.DataFrame(sample))
    model = answering(stored)
    fixed = model.features_
    if fixed is not None:
        scorer = LinearScorer(model.classes_, model.coef_, model.intercept_)
        step = FunctionTransformer(mapped, kw_args={"fixed": fixed, "order": order})
        return Pipeline([("columns", columns), ("map", step), ("classifier", scorer)])
    scorer = LinearScorer(model.classes_, model.coef_[:, order], model.intercept_)
    return Pipeline([("columns", columns), ("classifier", scorer)])


def onnx(stored: Stored) -> bytes:
    """Build an ONNX graph with outputs ``label`` and ``score``, in double precision.

    Parameters
    ----------
    stored : Stored
        The model.

    Returns
    -------
    bytes
        The graph has one input a column, of shape (n, 1); what each is called is in its metadata,
        under ``columns``.
    """
    try:
        from skl2onnx import to_onnx, update_registered_converter
        from skl2onnx.common.data_types import DoubleTensorType, StringTensorType
    except ImportError as error:
        raise DataError("ONNX needs skl2onnx: pip install 'counterpoise[onnx]'") from error
    update_registered_converter(LinearScorer, "CounterpoiseLinearScorer", _shape, _convert)
    if answering(stored).features_ is not None:
        raise DataError(
            "ONNX graphs know no maps of the features; export a pipeline with --to sklearn, or the "
            "numbers with --to json"
        )
    text = {f.column for f in stored.encoding.features if f.kind == "category"}
    columns = list(dict.fromkeys(f.column for f in stored.encoding.features))
    names = {column: f"column_{j}" for j, column in enumerate(columns)}
    types = [
        (names[c], (StringTensorType if c in text else DoubleTensorType)([None, 1]))
        for c in columns
    ]
    graph = to_onnx(_pipeline(stored, names, []), initial_types=types, target_opset=OPSET)
    _rename_output(graph.graph, "probabilities", "score")  # skl2onnx calls all scores so
    note = graph.metadata_props.add()
    note.key, note.value = "columns", json.dumps(names)
    data: bytes = graph.SerializeToString()
    return data


def _rename_output(graph: Any, old: str, new: str) -> None:
    for value in graph.output:
        value.name = new if value.name == old else value.name
    for node in graph.node:
        for names in (node.input, node.output):
            for i, name in enumerate(names):
                names[i] = new if name == old else name


def _shape(operator: Any) -> None:
    """Types and shapes of the outputs, as skl2onnx asks for them."""
    from skl2onnx.common.data_types import DoubleTensorType, Int64TensorType, StringTensorType

    n, scorer = operator.inputs[0].get_first_dimension(), operator.raw_operator
    whole = scorer.classes.dtype.kind in "iu"
    operator.outputs[0].type = (Int64TensorType if whole else StringTensorType)([n])
    operator.outputs[1].type = DoubleTensorType([n, len(scorer.coef)])


def _convert(scope: Any, operator: Any, container: Any) -> None:
    """The graph of a LinearScorer: f = X wᵀ + intercept, and the label of the largest."""
    from skl2onnx.algebra import onnx_ops as op

    scorer, version = operator.raw_operator, {"op_version": container.target_opset}
    X = op.OnnxCast(operator.inputs[0], to=11, **version)  # double
    product = op.OnnxMatMul(X, np.ascontiguousarray(scorer.coef.T), **version)
    f = op.OnnxAdd(product, scorer.intercept[None], **version, output_names=operator.outputs[1:])
    if len(scorer.coef) == 1:
        best = op.OnnxCast(op.OnnxGreater(f, np.zeros((1, 1)), **version), to=7, **version)
    else:
        best = op.OnnxArgMax(f, axis=1, keepdims=1, **version)
    flat = op.OnnxReshape(best, np.array([-1], dtype=np.int64), **version)
    whole = scorer.classes.dtype.kind in "iu"
    classes = scorer.classes.astype(np.int64 if whole else str)
    label = op.OnnxGather(classes, flat, axis=0, **version, output_names=operator.outputs[:1])
    f.add_to(scope, container)
    label.add_to(scope, container)
