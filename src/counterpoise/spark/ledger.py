"""Ledger filled on Spark: each partition becomes cells, and cells of one key are added."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from counterpoise.arrays import one_thread
from counterpoise.ledger.ingest import CellKey, PartialAggregator, PartialCell
from counterpoise.ledger.ledger import Ledger
from counterpoise.ledger.metadata import LedgerMetadata
from counterpoise.spark.dataframes import (
    Plan,
    batch_of,
    chunks,
    collect_parts,
    encoder_of,
    map_partitions,
    plan_columns,
)
from counterpoise.spark.fit import require_known

CELL = (
    "part long, error string, dropped long, start long, segment string, label string, cell binary"
)
NO_SEGMENT = ""  # of errors and dropped rows of a partition


def ledger(
    df: DataFrame,
    path: str | os.PathLike[str],
    label: str | None = None,
    timestamp: str | None = None,
    every: str | None = None,
    by: str | Sequence[str] | None = None,
    name: str | None = None,
    **settings: Any,
) -> Ledger:
    """Learn the rows of a frame into a ledger, as one machine would.

    Each partition becomes cells, and cells of the same bucket, segment and class are merged by one
    ``groupBy``, in the order of the partitions. The ledger is written in one transaction, on the
    machine of the driver. The same rows are learned once, independent of their partitions. Columns
    of text, and values that may be missing, take one more pass that finds the features.

    Parameters
    ----------
    df : DataFrame
        The rows. Columns may have dots in their names, or contain vectors of numbers.
    path : str or path-like
        The ledger; it need not exist.
    label, timestamp, every, by
        As of :meth:`counterpoise.Ledger.open`; not needed for a ledger that exists.
    name : str, optional
        Name of the frame in the records; by default it is named after its content.
    **settings
        Other settings of :meth:`counterpoise.Ledger.open`, such as ``columns``.

    Returns
    -------
    Ledger
        It is open. Its features may be in another order than on one machine; cells, and models by
        the names of their features, are equal to rounding.

    Examples
    --------
    >>> import tempfile, os
    >>> from counterpoise.spark import ledger
    >>> rows = [("2024-05-01", 12.5, "no"), ("2024-05-01", 98.0, "yes"), ("2024-05-02", 20.0, "no")]
    >>> payments = spark.createDataFrame(rows, ["at", "amount", "fraud"])  # a SparkSession
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "payments.ledger")
    >>> with ledger(payments, path, label="fraud", timestamp="at") as book:
    ...     book.model(until="2024-05-02").class_count_.tolist()
    [1.0, 1.0]
    >>> folder.cleanup()
    """
    result = Ledger.open(path, label, timestamp, every, by, **settings)
    try:
        with result.lock() as writer:
            plan = plan_columns(df, writer.encoding.columns)
            encoding = encoder_of(plan, writer.encoding)
            found = _aggregate(plan, replace(writer.metadata, encoding=encoding))
            cells, dropped, row_hash = found
            writer.learn_cells(cells, encoding, dropped, name, row_hash)
    except BaseException:
        result.close()
        raise
    return result


def _aggregate(
    plan: Plan, metadata: LedgerMetadata
) -> tuple[dict[CellKey, PartialCell], int, int | None]:
    """Return the cells of a frame, the number of rows with missing values, and a hash of the rows.

    There is a hash if a column has many categories.
    """
    read, large, encoding = plan.read, plan.large, metadata.encoding

    def aggregate(part: int, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
        mine = PartialAggregator(metadata)
        for chunk in chunks(batches, *read):
            mine.learn(chunk)
            require_known(encoding, mine.encoding)
        mine.flush()
        if mine.dropped or mine.content:
            yield part, mine.dropped, 0, NO_SEGMENT, NO_SEGMENT, pickle.dumps(mine.content)
        for key, cell in mine.cells.items():
            texts = json.dumps(key.segment), json.dumps(key.label)
            yield part, 0, key.start, *texts, pickle.dumps(cell, protocol=5)

    def merge(table: pa.Table) -> pa.Table:
        return pa.Table.from_batches([batch_of(CELL, _merge(table.to_pylist()), large)])

    cells = map_partitions(plan, CELL, aggregate).groupBy("start", "segment", "label")
    rows = collect_parts(cells.applyInArrow(merge, CELL))
    found = {
        CellKey(row["start"], tuple(json.loads(row["segment"])), json.loads(row["label"])): (
            pickle.loads(bytes(row["cell"]))
        )
        for row in rows
        if row["segment"] != NO_SEGMENT
    }
    order = sorted(found, key=lambda key: (key.start, json.dumps(key[1:])))
    others = [row for row in rows if row["segment"] == NO_SEGMENT]
    row_hash = None
    if encoding.vocabularies:
        row_hash = sum(pickle.loads(bytes(row["cell"])) for row in others)
    return {key: found[key] for key in order}, sum(row["dropped"] for row in rows), row_hash


def _merge(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """Merge the cells of one key in the order of the partitions; errors do not change."""
    rows = sorted(rows, key=lambda row: row["part"])
    if rows[0]["segment"] == NO_SEGMENT:
        return [tuple(row.values()) for row in rows]
    total: PartialCell = pickle.loads(rows[0]["cell"])
    with one_thread():
        for row in rows[1:]:
            total.append(pickle.loads(row["cell"]))
    key = rows[0]["start"], rows[0]["segment"], rows[0]["label"]
    return [(rows[0]["part"], "", 0, *key, pickle.dumps(total, protocol=5))]
