"""Structured Streaming: micro-batches folded into a model file, each exactly once."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame

from counterpoise.classifier import BalancedRidgeClassifier
from counterpoise.columns import Columns
from counterpoise.encoding import Encoding
from counterpoise.learner import CHUNK_ROWS, locked
from counterpoise.spark.fit import encoded, learnt
from counterpoise.spark.frames import planned
from counterpoise.stored import Record, Stored, save, stored_model
from counterpoise.streams.chunk import DataError, Mark


class ModelSink:
    """What ``foreachBatch`` calls: folds each micro-batch into a model file, exactly once.

    The file says which batch was the last one in it, and is replaced as a whole: a batch that
    Spark hands over again after a crash is known, and left alone. The command line and
    :func:`~counterpoise.spark.predict` can use the file at any time.

    Parameters
    ----------
    path : str
        The model file, on a disk of the driver; it need not exist.
    label : str
        Column of the labels.
    features : sequence of str, optional
        Columns to learn from; by default all but label and weight.
    query : str, default="stream"
        Name of the query: a file can take in several, each with batches of its own.
    weight, drop, numeric, categorical, time, hashed, missing
        See :func:`~counterpoise.spark.fit`.
    **options
        Parameters of :class:`~counterpoise.BalancedRidgeClassifier`.

    Examples
    --------
    ::

        sink = ModelSink("fraud.safetensors", "fraud")
        query = payments.writeStream.foreachBatch(sink).option("checkpointLocation", "check")
        query.start()
    """

    def __init__(
        self,
        path: str,
        label: str,
        features: Sequence[str] | None = None,
        *,
        query: str = "stream",
        weight: str | None = None,
        drop: Sequence[str] = (),
        numeric: Sequence[str] = (),
        categorical: Sequence[str] = (),
        time: Sequence[str] = (),
        hashed: Mapping[str, int] | None = None,
        missing: str = "error",
        **options: Any,
    ) -> None:
        self.path, self.key = os.path.abspath(path), f"- spark {query}"
        self.columns = Columns(
            label=label,
            weight=weight,
            drop=tuple(drop),
            keep=tuple(features or ()),
            numeric=tuple(numeric),
            categorical=tuple(categorical),
            time=tuple(time),
            hashed=dict(hashed or {}),
            missing=missing,
        )
        template = BalancedRidgeClassifier(**options)
        template._check()
        self.options = template.get_params()

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Fold a micro-batch in.

        Parameters
        ----------
        batch : DataFrame
            Its rows.
        number : int
            Its number, as Spark counts them.
        """
        with locked(self.path):
            before = stored_model(self.path) if os.path.exists(self.path) else None
            record = before.records.get(self.key, Record()) if before else Record()
            if number < record.mark.size:
                return  # it is in the file already
            if before is not None:
                self._require_same(before)
            batch.persist()  # it is looked at more than once
            try:
                rows = batch.count()
                folded = self._folded(batch, before) if rows else before
            finally:
                batch.unpersist()
            if folded is None:
                return
            mark = Mark(rows=record.mark.rows + rows, size=number + 1)
            records = {**folded.records, self.key: replace(record, mark=mark)}
            save(self.path, replace(folded, records=records))

    def _folded(self, batch: DataFrame, before: Stored | None) -> Stored | None:
        plan = planned(batch, self.columns)
        known = before.encoding if before else Encoding(plan.columns)
        encoding = encoded(plan, known)
        model = learnt(plan, encoding, self.options)
        if before is None:
            return None if model is None else Stored(model, encoding, {}, CHUNK_ROWS)
        if model is None:
            return before
        wide: BalancedRidgeClassifier = before.model.__copy__()
        wide._widen(len(encoding.features))
        return Stored(wide.merge(model), encoding, before.records, before.chunk_rows)

    def _require_same(self, before: Stored) -> None:
        if before.model.get_params() != self.options:
            raise DataError(
                f"{self.path} was learnt with other options of the classifier: "
                f"{before.model.get_params()}; use them, or another file"
            )
        mine, theirs = self.columns, before.encoding.columns
        for name in ("label", "weight", "drop", "missing", "hashed"):
            if getattr(mine, name) != getattr(theirs, name):
                raise DataError(
                    f"{self.path} was learnt with {name} {getattr(theirs, name)!r}, not "
                    f"{getattr(mine, name)!r}; use that, or another file"
                )
