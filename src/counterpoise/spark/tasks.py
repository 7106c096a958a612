"""What tasks and the driver say to each other: rows of bytes and text, and errors in words."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from counterpoise.errors import DataError
from counterpoise.spark.frames import in_spark


def large_types(df: DataFrame) -> bool:
    """Whether Spark wants text and bytes with long offsets.

    Parameters
    ----------
    df : DataFrame
        A frame of the session.

    Returns
    -------
    bool
    """
    name = "spark.sql.execution.arrow.useLargeVarTypes"
    return df.sparkSession.conf.get(name, "false") == "true"


def partition() -> str:
    """What to call the partition of this task in messages."""
    return f"partition {number()}"


def number() -> int:
    """The number of the partition of this task, 0 on the driver."""
    task = TaskContext.get()
    return task.partitionId() if task else 0


def batch_of(schema: str, rows: list[tuple[Any, ...]], large: bool) -> pa.RecordBatch:
    """Rows as Spark wants them back."""
    kinds = {"long": pa.int64(), "string": pa.string(), "binary": pa.binary()}
    if large:
        kinds |= {"string": pa.large_string(), "binary": pa.large_binary()}
    fields = [field.split() for field in schema.split(", ")]
    arrays = [pa.array([row[j] for row in rows], kinds[kind]) for j, (_, kind) in enumerate(fields)]
    return pa.RecordBatch.from_arrays(arrays, [name for name, _ in fields])


def raise_first(errors: list[str]) -> None:
    """Raise the first error that a partition has told, if there is one."""
    if errors:
        raise DataError(errors[0])


def words_of(error: ValueError) -> str:
    """What a partition says of an error, to whoever has called from Python."""
    return error.message.spelled(in_spark) if isinstance(error, DataError) else str(error)
