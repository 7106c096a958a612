"""Predicting on Spark: a projection, whole Arrow batches at a time."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, functions
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf

from counterpoise.arrays import one_thread
from counterpoise.encoding.encoder import ColumnEncoder
from counterpoise.errors import DataError
from counterpoise.estimators.balanced_ridge import BalancedRidgeClassifier
from counterpoise.estimators.base import engine_of
from counterpoise.spark.dataframes import chunk_of, readable_column, uses_large_types, vector_of
from counterpoise.tables.model import TableModel
from counterpoise.tables.scoring import TableScorer

BOTH = "__counterpoise"  # temporary column of both results


def predict(
    df: DataFrame,
    model: BalancedRidgeClassifier | str | os.PathLike[str],
    prediction: str = "prediction",
    score: str = "score",
) -> DataFrame:
    """Return a frame with predictions; it may be a stream.

    Parameters
    ----------
    df : DataFrame
        The rows, with the columns that the model has learned.
    model : BalancedRidgeClassifier or str
        A model of :func:`fit`, or the path of a model file on every executor. A file that has
        changed is read again, so that a stream gets the newest model.
    prediction : str, default="prediction"
        Column for the label; null where a value is missing, unless the model has learned with
        ``missing="indicate"`` or ``"mean"``. Categories that were never learned count as none.
    score : str, default="score"
        Column for the score of the second of two classes, or for the scores of all classes.

    Examples
    --------
    >>> from counterpoise.spark import fit, predict
    >>> rows = [(12.5, "DE", "no"), (980.0, "US", "yes"), (20.0, "DE", "no"), (700.0, "DE", "yes")]
    >>> payments = spark.createDataFrame(rows, ["amount", "country", "fraud"])  # a SparkSession
    >>> scored = predict(payments, fit(payments, "fraud"))
    >>> [row.prediction for row in scored.orderBy("amount").collect()]
    ['no', 'no', 'yes', 'yes']
    """
    taken = [name for name in df.columns if name.lower() in (prediction.lower(), score.lower())]
    if taken:
        raise DataError(
            f"the frame already has a column {taken[0]!r}; give the new ones other names with "
            "prediction=... and score=..."
        )
    current, large = _scorer_source(model), uses_large_types(df)
    encoding, scores = current().encoding, current().scores
    columns, vectors = _needed_columns(df, encoding)
    names, two = list(columns), scores.classes.n_scores == 1
    text = encoding.labels != "int"
    label_type = "string" if text else "bigint"
    result = f"label {label_type}, score {'double' if two else 'array<double>'}"

    def predict_batch(rows: Any) -> Any:
        arrays = dict(zip(names, rows.flatten(), strict=True))
        with one_thread():
            return _predict_batch(current(), arrays, vectors, text, two, large)

    both = arrow_udf(predict_batch, result, ArrowUDFType.SCALAR)(
        functions.struct(*[c.alias(n) for n, c in columns.items()])
    )
    made = df.withColumn(BOTH, both)
    made = made.withColumn(prediction, functions.col(f"{BOTH}.label"))
    return made.withColumn(score, functions.col(f"{BOTH}.score")).drop(BOTH)


def save(model: BalancedRidgeClassifier, path: str) -> None:
    """Save a model of :func:`fit` as a file that :func:`predict` and the command line can use.

    Parameters
    ----------
    model : BalancedRidgeClassifier
        The model.
    path : str
        Path of the file.

    Examples
    --------
    >>> import os, tempfile
    >>> from counterpoise.spark import fit, save
    >>> rows = [(12.5, "no"), (980.0, "yes"), (20.0, "no"), (700.0, "yes")]
    >>> model = fit(spark.createDataFrame(rows, ["amount", "fraud"]), "fraud")  # a SparkSession
    >>> path = os.path.join(tempfile.mkdtemp(), "fraud.safetensors")
    >>> save(model, path)  # for predict, TableClassifier.load and the command line
    """
    stored_of(model).save(path)


def stored_of(model: BalancedRidgeClassifier) -> TableModel:
    """Return the model with columns of a model of :func:`fit`."""
    encoding = getattr(model, "encoding_", None)
    if encoding is None:
        raise DataError(
            "this model was not fitted on a frame and has no encoder of columns; fit it with "
            "counterpoise.spark.fit"
        )
    return TableModel(copy.deepcopy(engine_of(model)), encoding)


def _scorer_source(
    model: BalancedRidgeClassifier | str | os.PathLike[str],
) -> Callable[[], TableScorer]:
    """Return a function that returns the present scorer."""
    if isinstance(model, BalancedRidgeClassifier):
        scorer = _lenient_scorer(stored_of(model))
        return lambda: scorer
    path = os.path.abspath(model)

    def load_newest() -> TableScorer:
        status = os.stat(path)
        return _load(path, status.st_mtime_ns, status.st_ino)

    return load_newest


@lru_cache(maxsize=4)
def _load(path: str, mtime_ns: int, inode: int) -> TableScorer:
    """Load the scorer of a file, again if the file has changed."""
    return _lenient_scorer(TableModel.load(path).require_learned())


def _lenient_scorer(model: TableModel) -> TableScorer:
    """Return the scorer of a model, which leaves out rows with missing values."""
    return replace(model.scorer.with_missing("error", "drop"), optional=frozenset())


def _needed_columns(
    df: DataFrame, encoding: ColumnEncoder
) -> tuple[dict[str, Any], dict[str, int]]:
    """Return the columns that the model needs, and the number of entries of vectors."""
    fields = {field.name: field for field in df.schema.fields}
    columns, vectors = dict[str, Any](), dict[str, int]()
    learned = [*(f.column for f in encoding.features), *encoding.vocabularies]
    for name in dict.fromkeys(learned):
        base = name if name in fields else vector_of(name) or name
        if base not in fields:
            raise DataError(
                f"the frame has no column {base!r}, which the model has learned; it has "
                f"{', '.join(map(repr, fields))}"
            )
        column, kind = readable_column(base, fields[base].dataType)
        is_number = encoding.kinds.get(name) == "number" and kind != "number"
        if kind == "vector":
            vectors[base] = vectors.get(base, 0) + 1
        elif is_number and encoding.columns.roles.get(name) != "number":
            raise DataError(
                f"column {name!r} was learned as numbers, but its type is "
                f"{fields[base].dataType.simpleString()} in this frame; cast it"
            )
        columns[base] = column
    return columns, vectors


def _predict_batch(
    scorer: TableScorer,
    arrays: dict[str, pa.Array],
    vectors: dict[str, int],
    text: bool,
    two: bool,
    large: bool,
) -> pa.Array:
    """Return labels and scores of a batch, null where a row has no prediction."""
    scores = scorer.scores
    if (scores.classes.n_scores == 1) != two:
        raise DataError("the model has other classes now; start the stream again")
    one, f = scorer.score(chunk_of(arrays, "the frame", 1, vectors), None)
    labels = scores.classes.best(f) if len(f) else scores.classes.labels[:0]
    string = pa.large_string() if large else pa.string()
    found = pa.array(labels.tolist(), string if text else pa.int64())
    column = pa.array(f[:, 0]) if two else pa.array(f.tolist(), pa.list_(pa.float64()))
    at = pa.array(np.cumsum(one.kept) - 1, mask=~one.kept)  # null where a row has no prediction
    return pa.StructArray.from_arrays([found.take(at), column.take(at)], ["label", "score"])
