"""A ledger filled on Spark: each partition becomes cells, and cells of one place add up."""

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
    encoded,
    error_message,
    large_types,
    number,
    partition,
    planned,
    raise_first,
)
from counterpoise.spark.fit import unknown_category_remedy

CELL = (
    "part long, error string, dropped long, start long, segment string, label string, cell binary"
)
NOWHERE = "null"  # the place of what a partition says of itself


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
    """Fill a ledger with the rows of a frame: that which one machine would have filled.

    Each partition becomes cells on its own, and cells of the same bucket, segment and class are
    merged by one ``groupBy``, in the order of the partitions. The ledger is written at once, on the
    machine of the driver. The same rows, however they are partitioned, are learned once. Columns of
    text, and values that may be missing, take a pass of their own that finds the features.

    Parameters
    ----------
    df : DataFrame
        The rows. Columns with dots or vectors of numbers will do.
    path : str or path-like
        The ledger; it need not exist.
    label, timestamp, every, by
        As of :meth:`counterpoise.Ledger.open`; not needed for a ledger that exists.
    name : str, optional
        What to call the frame in the records; by default it is called after its content.
    **settings
        Other settings of :meth:`counterpoise.Ledger.open`, such as ``columns``.

    Returns
    -------
    Ledger
        It is open. Its features may stand in another order than on one machine; cells, and models
        by the names of their features, are equal to rounding.

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
        with result.gathering() as book:
            plan = planned(df, book.encoding.columns)
            known = replace(book, encoding=encoded(plan, book.encoding))
            cells, dropped = _gathered(plan, known)
            result.add_cells(cells, known.encoding, dropped, name)
    except BaseException:
        result.close()
        raise
    return result


def _gathered(plan: Plan, book: LedgerMetadata) -> tuple[dict[CellKey, PartialCell], int]:
    """Cells of a frame, and how many of its rows were left out."""
    names, vectors, unread = plan.names, plan.vectors, plan.columns.drop
    large, encoding = large_types(plan.df), book.encoding

    def gather(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part, mine = number(), PartialAggregator(book)
        try:
            with one_thread():
                for chunk in chunks(batches, partition(), names, vectors, unread):
                    mine.gather(chunk)
                    if mine.encoding.features != encoding.features:
                        raise unknown_category_remedy(encoding, mine.encoding)
                mine.collect()
        except ValueError as error:
            yield batch_of(CELL, [(part, error_message(error), 0, 0, NOWHERE, NOWHERE, b"")], large)
            return
        found = [(part, "", mine.left_out, 0, NOWHERE, NOWHERE, b"")] if mine.left_out else []
        for at, cell in mine.cells.items():
            place = at.start, json.dumps(at.segment), json.dumps(at.label)
            found.append((part, "", 0, *place, pickle.dumps(cell, protocol=5)))
        if found:
            yield batch_of(CELL, found, large)

    def merge(table: pa.Table) -> pa.Table:
        return pa.Table.from_batches([batch_of(CELL, _merged(table.to_pylist()), large)])

    cells = plan.df.mapInArrow(gather, CELL).groupBy("start", "segment", "label")
    rows = cells.applyInArrow(merge, CELL).collect()
    raise_first([row["error"] for row in sorted(rows, key=lambda row: row["part"]) if row["error"]])
    found = {
        CellKey(row["start"], tuple(json.loads(row["segment"])), json.loads(row["label"])): (
            pickle.loads(bytes(row["cell"]))
        )
        for row in rows
        if row["segment"] != NOWHERE
    }
    order = sorted(found, key=lambda place: (place.start, json.dumps(place[1:])))
    return {place: found[place] for place in order}, sum(row["dropped"] for row in rows)


def _merged(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What partitions say of one place, in their order: one cell, or all that is said of none."""
    rows = sorted(rows, key=lambda row: row["part"])
    if rows[0]["segment"] == NOWHERE:
        return [tuple(row.values()) for row in rows]
    total: PartialCell = pickle.loads(rows[0]["cell"])
    with one_thread():
        for row in rows[1:]:
            total.append(pickle.loads(row["cell"]))
    place = rows[0]["start"], rows[0]["segment"], rows[0]["label"]
    return [(rows[0]["part"], "", 0, *place, pickle.dumps(total, protocol=5))]
