"""Data frames as a source of chunks: pandas, polars, pyarrow, and whatever speaks Arrow.

Rows are cut into the same chunks as those of a Parquet file, however they come: whole, lazily, or
in pieces. Frames are not files: nothing is known of them afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.errors import DataError, Remedy
from counterpoise.streams.chunk import require_different, require_few
from counterpoise.streams.columnar import BATCH, ColumnarSource

NAME = "the frame"


class FrameSource(ColumnarSource):
    """The rows of a frame, perhaps with columns beside it.

    Parameters
    ----------
    frame : object
        A frame of pandas, polars (lazy too) or pyarrow, a reader of record batches, an object with
        ``__arrow_c_stream__``, a mapping of columns, or an iterable of such pieces.
    beside : mapping of str to pyarrow.Array
        Columns that do not come with it, such as labels, of as many rows.
    name : str
        Its name in messages.
    """

    def __init__(
        self, frame: Any, beside: Mapping[str, pa.Array] | None = None, name: str = NAME
    ) -> None:
        super().__init__("-", name, parquet=False)
        self._frame, self._beside = frame, dict(beside or {})
        self._types: dict[str, pa.DataType] = {}

    @property
    def offered(self) -> tuple[str, ...]:
        """All columns that it has, once a row was read."""
        return self._offered

    def _batches(self, wanted: Callable[[str], bool]) -> Iterator[pa.RecordBatch]:
        at = 0
        for table in tables(self._frame, self.name):
            names = [*table.column_names, *self._beside]
            require_different(names, self.name)
            self._offered = tuple(names)
            for name, column in self._beside.items():
                table = table.append_column(name, column.slice(at, table.num_rows))
            at += table.num_rows
            columns = [name for name in names if wanted(name)]
            require_few(len(columns), self.name)
            yield from self._alike(table.select(columns)).to_batches(max_chunksize=BATCH)
        for name, column in self._beside.items():
            if len(column) != at:
                raise DataError(f"{self.name} has {at:,} rows, but {name!r} has {len(column):,}")

    def _alike(self, table: pa.Table) -> pa.Table:
        """The same rows with the types of the pieces before, where numbers allow that."""
        fields = []
        for field in table.schema:
            before, now = self._types.get(field.name, field.type), field.type
            if pa.types.is_dictionary(now):
                now = now.value_type
            if pa.types.is_null(now) or before == now:
                now = before
            elif _number(before) and _number(now):
                now = pa.float64()
            elif not pa.types.is_null(before) and _family(before) != _family(now):
                raise DataError(
                    f"{self.name}: column {field.name!r} holds values of type {now} in one piece, "
                    f"and of type {before} in those before it",
                    Remedy("convert it to what it was"),
                    Remedy("leave the column out", "drop", [field.name]),
                )
            self._types[field.name] = now
            fields.append(pa.field(field.name, now))
        return table.cast(pa.schema(fields)) if fields else table


def tables(frame: Any, name: str = NAME) -> Iterator[pa.Table]:
    """Yield the rows of a frame as tables of Arrow; raise if it is none."""
    kind = type(frame)
    if isinstance(frame, (np.ndarray, list)):
        yield _of_array(np.asarray(frame), name)
    elif isinstance(frame, pa.Table):
        yield frame
    elif isinstance(frame, pa.RecordBatch):
        yield pa.Table.from_batches([frame])
    elif isinstance(frame, pa.RecordBatchReader):
        yield from (pa.Table.from_batches([batch]) for batch in frame)
    elif is_lazy(frame):
        yield from _of_lazy(frame, name)
    elif hasattr(frame, "iloc") and hasattr(frame, "columns"):
        yield _of_pandas(frame, name)
    elif hasattr(frame, "__arrow_c_stream__"):
        reader = pa.RecordBatchReader.from_stream(frame)
        yield from (pa.Table.from_batches([batch], reader.schema) for batch in _read(reader, name))
        yield reader.schema.empty_table()
    elif isinstance(frame, Mapping):
        yield _columns(list(frame), [frame[column] for column in frame], name)
    elif isinstance(frame, Iterable) and not isinstance(frame, (str, bytes)):
        for piece in frame:
            yield from tables(piece, name)
    else:
        raise TypeError(
            f"{kind.__name__} is no frame; give one of pandas, polars or pyarrow, an array, or "
            "what has __arrow_c_stream__"
        )


def is_lazy(frame: Any) -> bool:
    """Return whether a frame is a LazyFrame of polars, which holds no rows yet."""
    kind = type(frame)
    return kind.__name__ == "LazyFrame" and kind.__module__.partition(".")[0] == "polars"


def column_names(frame: Any) -> list[str] | None:
    """Return the names of the columns of a frame; None if it has none, or shows them late."""
    if isinstance(frame, (np.ndarray, list)) or is_lazy(frame):
        return None
    if isinstance(frame, (pa.Table, pa.RecordBatch, pa.RecordBatchReader)):
        return list(frame.schema.names)
    if hasattr(frame, "columns"):
        return [str(column) for column in frame.columns]
    return [str(column) for column in frame] if isinstance(frame, Mapping) else None


def _of_pandas(frame: Any, name: str) -> pa.Table:
    if getattr(frame.columns, "nlevels", 1) > 1:
        raise DataError(f"{name} has columns of several levels", Remedy("give each one name"))
    return _columns(
        list(frame.columns), [frame.iloc[:, j] for j in range(frame.shape[1])], name, len(frame)
    )


def _columns(names: list[Any], columns: list[Any], name: str, rows: int = 0) -> pa.Table:
    """Columns side by side, by their names as text."""
    texts = [str(one) for one in names]
    require_different(texts, name)
    arrays = []
    for text, column in zip(texts, columns, strict=True):
        try:
            arrays.append(_array(column))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise DataError(
                f"{name}: column {text!r} holds values of several types, or of one that cannot be "
                f"learned ({' '.join(str(error).split())[:120]})",
                Remedy(
                    "convert it, for example with pandas.to_numeric(column, errors='coerce') if "
                    "words stand among numbers, or with astype(str)"
                ),
                Remedy("leave the column out", "drop", [text]),
            ) from None
    return pa.table(arrays, names=texts)


def _array(column: Any) -> Any:
    """A column as Arrow has it; NaN is missing."""
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return column
    return pa.array(column, from_pandas=True)


def _of_array(X: Any, name: str) -> pa.Table:
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: shape {X.shape}")
    columns = [X[:, j] for j in range(X.shape[1])]
    if X.dtype.kind in "OUS":
        columns = [_narrowed(column) for column in columns]
    return _columns([f"x{j}" for j in range(X.shape[1])], columns, name)


def _narrowed(column: Any) -> Any:
    """Cells of an array of objects as numbers, if they all are."""
    if column.dtype.kind in "US":
        return pa.array(column.astype(str).tolist(), pa.string())
    try:
        return pa.array(column.tolist(), from_pandas=True)
    except (pa.ArrowException, TypeError):
        return column.astype(np.float64)


def _of_lazy(frame: Any, name: str) -> Iterator[pa.Table]:
    """Collect a LazyFrame of polars, in pieces if it can."""
    try:
        if hasattr(frame, "collect_batches"):
            found = False
            for piece in frame.collect_batches(chunk_size=BATCH, maintain_order=True):
                found = True
                yield piece.to_arrow()
            if found:
                return
        yield frame.collect().to_arrow()
    except Exception as error:
        what = " ".join(str(error).split())[:200]
        raise DataError(f"{name} is a LazyFrame that cannot be collected: {what}") from None


def _read(reader: Any, name: str) -> Iterator[pa.RecordBatch]:
    try:
        yield from reader
    except (pa.ArrowException, OSError) as error:
        what = " ".join(str(error).split())[:200]
        raise DataError(f"{name} cannot be read: {what}") from None


def _number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def _family(kind: pa.DataType) -> str:
    if _number(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_temporal(kind):
        return "time"
    return "bool" if pa.types.is_boolean(kind) else "text"
