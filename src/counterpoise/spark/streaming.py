"""Structured Streaming: micro-batches that a model file learns, each exactly once.

The lock, the records and the atomic save are those of :mod:`counterpoise.tables`. A read position
differs: its size is the number of the next batch, and its hash is the id of the query.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from counterpoise.atomic_write import lock_file
from counterpoise.encoding.columns import Columns
from counterpoise.encoding.encoder import ColumnEncoder
from counterpoise.engine.parameters import parse_ridge_parameters
from counterpoise.engine.progressive_calibration import SORTED
from counterpoise.engine.ridge import RidgeModel
from counterpoise.errors import DataError
from counterpoise.feature_maps import FittedMap, Map
from counterpoise.readers.chunk import ReadPosition
from counterpoise.solver.imputation import MeanImputation
from counterpoise.spark.dataframes import column_settings, encoder_of, plan_columns, vector_of
from counterpoise.spark.fit import (
    learn_frame,
    learn_progressively,
    replace_parameters,
    with_fitted_map,
)
from counterpoise.tables.estimator import require_clock, require_same_settings
from counterpoise.tables.model import TableModel
from counterpoise.tables.records import Record

LOCK_TIMEOUT_SECONDS = 600.0


class ModelSink:
    """Function for ``foreachBatch``: a model file learns each micro-batch exactly once.

    The file records which batch of which query comes next, and is replaced as a whole. A batch that
    Spark repeats after a crash is recognized and not learned again. The file is locked while it
    learns a batch; other queries wait, and other processes can read it.

    Parameters
    ----------
    path : str
        The model file, on a disk of the driver; it need not exist.
    label : str
        Column of the labels.
    columns, only
        See :func:`~counterpoise.spark.fit`. A file that exists has its own settings, which need
        not be repeated.
    query : str, default="stream"
        Name of the query: a file can learn from several, each under a name of its own.
    missing : "mean", "indicate", "drop" or "error", optional
        By default the rule of the file, and "mean" for a new one.
    feature_map : str, Map or FittedMap, optional
        See :func:`~counterpoise.spark.fit`; it is fitted to the first batch that has rows.
    **options
        Parameters of :class:`~counterpoise.BalancedRidgeClassifier`. With ``calibrate``, which a
        file that exists decides, rows are scored before they are learned, in the order of the
        partitions of each batch. That reads a batch three times.

    Examples
    --------
    >>> import os, tempfile
    >>> from counterpoise import TableClassifier
    >>> from counterpoise.spark import ModelSink
    >>> folder = tempfile.mkdtemp()
    >>> rows = spark.createDataFrame([(12.5, "no"), (980.0, "yes")], ["amount", "fraud"])
    >>> rows.write.parquet(f"{folder}/payments")  # spark is a SparkSession
    >>> payments = spark.readStream.schema(rows.schema).parquet(f"{folder}/payments")
    >>> sink = ModelSink(f"{folder}/fraud.safetensors", "fraud")
    >>> query = payments.writeStream.foreachBatch(sink).trigger(availableNow=True)
    >>> query.option("checkpointLocation", f"{folder}/check").start().awaitTermination()
    >>> TableClassifier.load(f"{folder}/fraud.safetensors").class_count_.tolist()
    [1.0, 1.0]
    """

    def __init__(
        self,
        path: str,
        label: str,
        columns: Mapping[str, str] | None = None,
        only: Sequence[str] | None = None,
        *,
        query: str = "stream",
        missing: str | None = None,
        feature_map: str | Map | FittedMap | None = None,
        **options: Any,
    ) -> None:
        self.path, self.query = os.path.abspath(path), query
        self.columns = column_settings(label, columns, only, missing)
        self.options = options if feature_map is None else {**options, "feature_map": feature_map}
        self._params = parse_ridge_parameters(**self.options)
        require_clock(RidgeModel(self._params), Columns(**self.columns))

    @property
    def key(self) -> str:
        """Name of the query in the records of the file."""
        return f"- spark {self.query}"

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Learn a micro-batch."""
        with lock_file(self.path, LOCK_TIMEOUT_SECONDS):
            model, query_id = self._open(), _query_id(batch)
            record = model.records.get(self.key, Record())
            if self.key in model.records and not self._is_next(record.mark, query_id, number):
                return  # the file has learned it
            is_ours = not batch.is_cached
            if is_ours:
                batch.persist()  # it is read more than once
            try:
                rows = batch.count()
                dropped = self._learn(model, batch) if rows else 0
            finally:
                if is_ours:
                    batch.unpersist()
            mark = ReadPosition(rows=record.mark.rows + rows, size=number + 1, hash=query_id)
            model.records[self.key] = replace(record, mark=mark, dropped=record.dropped + dropped)
            model.finish()
            model.save()

    def _is_next(self, mark: ReadPosition, query_id: str, number: int) -> bool:
        """Return whether a batch is to be learned; raise if it is not of this file."""
        if query_id and mark.hash and query_id != mark.hash:
            raise DataError(
                f"{self.path} has batches of another query named {self.query!r}, or of this one "
                "with another checkpoint; give this one a name of its own with query=..."
            )
        if number > mark.size:
            raise DataError(
                f"{self.path} ends before batch {mark.size} of query {self.query!r}, and "
                f"Spark continues with {number}: the file is older than the checkpoint. Restore "
                "it, or start with a new file and a new checkpoint"
            )
        return number == mark.size

    def _open(self) -> TableModel:
        """Return the model of the file, whose settings must agree with these, or a new one."""
        columns = dict(self.columns)
        if not os.path.exists(self.path):
            return TableModel(None, ColumnEncoder(Columns(**columns)), path=self.path)
        model = TableModel.load(self.path)
        if not isinstance(model.model, RidgeModel):
            raise DataError(f"{self.path} contains a {model.estimator.kind}; use another file")
        only, learned = columns.get("only", ()), model.encoding.columns.only
        if {name if name in only else vector_of(name) for name in learned} == set(only):
            columns["only"] = learned  # the entries of vectors
        compared = {name: value for name, value in self.options.items() if name not in FREE}
        require_same_settings(model, columns, compared, None, None)
        return model

    def _learn(self, model: TableModel, batch: DataFrame) -> int:
        """Let a model learn a batch, and return the number of dropped rows."""
        sizes = Counter(vector for vector in map(vector_of, model.encoding.kinds) if vector)
        plan = plan_columns(batch, model.encoding.columns, sizes)
        encoding = encoder_of(plan, model.encoding)
        ridge, is_fitted = model.model or RidgeModel(self._params), model.is_fitted
        assert isinstance(ridge, RidgeModel)
        had_sorted, params = ridge.has_sorted_labels, ridge.params
        if is_fitted:
            ridge.add_features([feature.name for feature in encoding.features])
            ridge.set_codes(range(len(model.encoding.vocabularies)), encoding.code_columns)
            ridge.set_imputation(MeanImputation.of(*encoding.fill))
            params = replace_parameters(params, feature_map=ridge.state.fixed)
        else:
            params = with_fitted_map(plan, encoding, params)
        if params.options.calibrate:
            found, dropped = learn_progressively(plan, encoding, params, ridge)
        else:
            found, dropped = learn_frame(plan, encoding, params)
            if found is not None and is_fitted:
                found = ridge.merge(found)
        if found is None:
            return dropped
        if found.has_sorted_labels and not had_sorted:
            warnings.warn(SORTED, UserWarning, stacklevel=2)
        model.model, model.encoding = found, encoding
        model.recent = model.window = model.held = None  # these rows were not counted
        return dropped


FREE = ("memory_limit", "calibrate")  # options that may differ from those of the file


def _query_id(batch: DataFrame) -> str:
    """Return the id of the query, the same after each restart; empty outside of a stream."""
    context = batch.sparkSession.sparkContext
    return context.getLocalProperty("sql.streaming.queryId") or ""
