"""Structured Streaming: micro-batches folded into a model file, each exactly once."""

from __future__ import annotations

import copy
import os
import time as clock
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame

from counterpoise.atomic_write import locked
from counterpoise.encoding.columns import Columns
from counterpoise.encoding.encoder import ColumnEncoder
from counterpoise.engine.progressive_calibration import SORTED
from counterpoise.engine.ridge import RidgeModel
from counterpoise.errors import BusyError, DataError
from counterpoise.feature_maps import FittedMap, Map
from counterpoise.feature_maps.fitted import feature_map_name
from counterpoise.readers.chunk import ReadPosition
from counterpoise.solver.imputation import MeanImputation
from counterpoise.spark.dataframes import columns_of, encoded, planned, vector_of
from counterpoise.spark.fit import learned, learned_progressively, with_fixed_map
from counterpoise.tables.estimator import require_clock
from counterpoise.tables.model import TableModel
from counterpoise.tables.records import Record, Records

KEPT = ("seed", "classes", "decimal", "time_format")  # of which a sink has no option
LOCK_TIMEOUT_SECONDS = 600.0  # seconds to wait for somebody else who is writing the file


class ModelSink:
    """What ``foreachBatch`` calls: folds each micro-batch into a model file, exactly once.

    The file says which batch of which query comes next, and is replaced as a whole: a batch that
    Spark hands over again after a crash is known, and left alone. While a batch is folded the file
    is locked; other queries wait for it, and the command line can read it.

    Parameters
    ----------
    path : str
        The model file, on a disk of the driver; it need not exist.
    label : str
        Column of the labels.
    columns, only
        See :func:`~counterpoise.spark.fit`. Columns stay what the file has learned them as.
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
        self.missing = missing
        self.columns = columns_of(label, columns, only, missing or "mean")
        template = RidgeModel.create(**options, feature_map=feature_map)
        require_clock(template, self.columns)
        self.options = template.params.given

    @property
    def key(self) -> str:
        """What the query is called in the records of the file."""
        return f"- spark {self.query}"

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Fold a micro-batch in."""
        with _wait_for_lock(self.path):
            before = TableModel.load(self.path) if os.path.exists(self.path) else None
            if before is not None:
                self._require_same(before)
            records = before.records if before else Records()
            record, whose = records.get(self.key, Record()), _query_id(batch)
            if not self._is_next(record, whose, number, self.key in records):
                return  # it is in the file already
            mine = not batch.is_cached
            if mine:
                batch.persist()  # it is looked at more than once
            try:
                rows = batch.count()
                folded, dropped = self._folded(batch, before) if rows else (before, 0)
            finally:
                if mine:
                    batch.unpersist()
            if folded is None:
                return
            mark = ReadPosition(rows=record.mark.rows + rows, size=number + 1, hash=whose)
            known = replace(record, mark=mark, dropped=record.dropped + dropped)
            folded.records = Records({**records, self.key: known})
            folded.settled = folded.rows
            folded.choose_positive()
            folded.save(self.path)

    def _is_next(self, record: Record, whose: str, number: int, known: bool) -> bool:
        """Whether a batch is to be folded; raise if it cannot be told."""
        if known and whose and record.mark.hash and whose != record.mark.hash:
            raise DataError(
                f"{self.path} has batches of another query named {self.query!r}, or of this one "
                "with another checkpoint; give this one a name of its own with query=..."
            )
        if known and number > record.mark.size:
            raise DataError(
                f"{self.path} ends before batch {record.mark.size} of query {self.query!r}, and "
                f"Spark goes on with {number}: the file is older than the checkpoint. Restore it, "
                "or start with a new file and a new checkpoint"
            )
        return number >= record.mark.size

    def _columns(self, before: TableModel | None) -> Columns:
        """What is wanted of the columns of a batch: what nobody says stays as it was learned."""
        if before is None:
            return self.columns
        known = before.encoding.columns
        kept = {name: getattr(known, name) for name in KEPT}
        if self.missing is None:
            kept["missing"] = known.missing
        return replace(self.columns, **kept)

    def _folded(self, batch: DataFrame, before: TableModel | None) -> tuple[TableModel | None, int]:
        columns = self._columns(before)
        sizes = None if before is None else _sizes(before.encoding)
        plan = planned(batch, columns, sizes)
        encoding = encoded(plan, before.encoding if before else ColumnEncoder(plan.columns))
        if before is None or not before.is_fitted:
            options = with_fixed_map(plan, encoding, self.options)
            learn = learned
            if options["calibrate"]:
                learn = partial(learned_progressively, before=RidgeModel.create())
            model, dropped = learn(plan, encoding, options)
        else:
            wide = copy.deepcopy(before.estimator)
            assert isinstance(wide, RidgeModel)  # others have other options
            wide.add_features([feature.name for feature in encoding.features])
            wide.set_imputation(MeanImputation.of(*encoding.fill))
            options = {**self.options, "feature_map": wide.state.fixed}
            if wide.options.calibrate:
                model, dropped = learned_progressively(plan, encoding, options, wide)
            else:
                model, dropped = learned(plan, encoding, options)
                model = wide.merge(model) if model is not None else None
        if model is None:
            return before, dropped
        had_sorted = before is not None and before.estimator.has_sorted_labels
        if model.has_sorted_labels and not had_sorted:
            warnings.warn(SORTED, UserWarning, stacklevel=2)
        if before is None:
            return TableModel(model, encoding), dropped
        after = replace(before, model=model, encoding=encoding)
        return replace(after, recent=None, window=None, held=None), dropped  # nobody counts here

    def _require_same(self, before: TableModel) -> None:
        """Raise if the file was learned with other options."""
        mine = _settled(self.options)
        theirs = _settled(before.options)
        if mine != theirs:
            raise DataError(
                f"{self.path} was learned with other options of the classifier: {theirs}; use "
                "them, or another file"
            )
        ours, known = _requested(self._columns(before)), _requested(before.encoding.columns)
        for name, value in ours.items():
            if value != known[name]:
                raise DataError(
                    f"{self.path} was learned with {name} {known[name]!r}, not {value!r}; use "
                    "that, or another file"
                )


def _settled(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options that matter to what was learned."""
    free = ("memory_limit", "calibrate")
    settled = {name: value for name, value in options.items() if name not in free}
    return {**settled, "feature_map": feature_map_name(settled.get("feature_map"))}


def _requested(columns: Columns) -> dict[str, Any]:
    """Return the settings that a sink has, by option, vectors by their own names."""
    only = dict.fromkeys(vector_of(name) or name for name in columns.only)
    settings = columns.by_option() | {"only": tuple(only)}
    return {name: value for name, value in settings.items() if name not in KEPT}


def _sizes(encoding: ColumnEncoder) -> Mapping[str, int]:
    """Entries of the vectors that were learned."""
    return Counter(vector for vector in map(vector_of, encoding.kinds) if vector)


def _query_id(batch: DataFrame) -> str:
    """What Spark calls the query, the same after each restart; empty outside of a stream."""
    context = batch.sparkSession.sparkContext
    return context.getLocalProperty("sql.streaming.queryId") or ""


@contextmanager
def _wait_for_lock(path: str) -> Iterator[None]:
    """The lock of a file, waited for."""
    until = clock.monotonic() + LOCK_TIMEOUT_SECONDS
    while True:
        lock = locked(path)
        try:
            lock.__enter__()
        except BusyError:
            if clock.monotonic() > until:
                raise
            clock.sleep(0.1)
            continue
        break
    try:
        yield
    finally:
        lock.__exit__(None, None, None)
