"""Data frames as a source of chunks: pandas, polars, pyarrow, and any Arrow stream.

Rows are cut into the same chunks as those of a Parquet file, independent of their batches.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.errors import DataError, Suggestion
from counterpoise.readers.chunk import drop_remedy, require_different
from counterpoise.readers.columnar import BATCH, ColumnarSource

NAME = "the frame"
ARROW_UNITS = ("[s]", "[ms]", "[us]", "[ns]")


class FrameSource(ColumnarSource):
    """The rows of a frame, perhaps with columns next to it."""

    reads_ahead = False  # an iterable may not work in another thread

    def __init__(
        self,
        frame: Any,
        beside: Mapping[str, pa.Array] | None = None,
        name: str = NAME,
        label: str | None = None,
    ) -> None:
        super().__init__(name, name)
        self._label = label
        self._frame, self._beside = frame, dict(beside or {})
        self._types: dict[str, tuple[pa.DataType, str]] = {}
        self._alike: tuple[pa.Schema | None, int] = None, 0  # of the batch before, unless cast

    @property
    def offered_columns(self) -> tuple[str, ...]:
        """All columns that it has, once a row was read."""
        return self._offered

    @property
    def is_in_memory(self) -> bool:
        """True if the rows can be read again, unlike the rows of an iterator."""
        return isinstance(self._frame, Mapping) or hasattr(self._frame, "shape")

    def _batches(self, wanted: Callable[[str], bool]) -> Iterator[pa.RecordBatch]:
        at = 0
        for table in tables(self._frame, self.name, self._label):
            names = [*table.column_names, *self._beside]
            require_different(names, self.name)
            for name, column in self._beside.items():
                table = table.append_column(name, column.slice(at, table.num_rows))
            at += table.num_rows
            columns = self._select(names, wanted)
            yield from table.select(columns).to_batches(max_chunksize=BATCH)
        for name, column in self._beside.items():
            if len(column) != at:
                raise DataError(f"{self.name} has {at:,} rows, but {name!r} has {len(column):,}")

    def _tables(self, wanted: Callable[[str], bool]) -> Iterator[pa.Table]:
        return map(self._cast_alike, super()._tables(wanted))

    def _cast_alike(self, table: pa.Table) -> pa.Table:
        """Return the same rows with the types of the batches before, if no value changes."""
        schema, categories = table.schema, len(self._categorical)
        if self._alike == (schema, categories):
            return table
        for j, field in enumerate(schema):
            now = field.type
            family = "category" if field.name in self._categorical else _family(now)
            before, previous = self._types.get(field.name, (now, family))
            if pa.types.is_null(before):
                before, previous = now, family
            elif pa.types.is_null(now):
                family = previous
            elif before != now and previous == family and family in ("number", "category"):
                before = pa.float64()
            if family == previous:
                with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
                    if before != now:
                        column = table[field.name].cast(before, safe=family == "time")
                        table = table.set_column(j, field.name, column)
                    self._types[field.name] = before, previous
                    continue
            raise DataError(
                f"{self.name}: column {field.name!r} contains values of type {now} ({family}) in "
                f"one chunk, and of type {before} ({previous}) in earlier ones",
                Suggestion("convert it to what it was"),
                drop_remedy(field.name),
            )
        self._alike = schema if table.schema == schema else None, categories
        return table


def tables(frame: Any, name: str = NAME, label: str | None = None) -> Iterator[pa.Table]:
    """Yield the rows of a frame as tables of Arrow; raise if it is not a frame.

    Intervals become text, except in the column of labels, where they are refused.
    """
    if isinstance(frame, (np.ndarray, list)):
        yield _of_array(np.asarray(frame), name)
    elif is_lazy(frame):
        yield from _of_lazy(frame, name)
    elif hasattr(frame, "iloc") and hasattr(frame, "columns"):
        yield _of_pandas(frame, name, label)
    elif is_stream(frame):
        reader = _open_stream(frame, name)
        yield from (pa.Table.from_batches([batch], reader.schema) for batch in reader)
        yield reader.schema.empty_table()
    elif isinstance(frame, Mapping):
        yield _columns(list(frame), [frame[column] for column in frame], name)
    elif isinstance(frame, Iterable) and not isinstance(frame, (str, bytes)):
        for part in frame:
            yield from tables(part, name, label)
    else:
        raise TypeError(
            f"{type(frame).__name__} is not a data frame; give one of pandas, polars or pyarrow, "
            "an array, or an object with __arrow_c_stream__"
        )


def is_stream(frame: Any) -> bool:
    """Return whether a frame is a stream of Arrow, or a cursor of a database that makes one."""
    return hasattr(frame, "__arrow_c_stream__") or hasattr(type(frame), "fetch_record_batch")


def is_lazy(frame: Any) -> bool:
    """Return whether a frame is a LazyFrame of polars, which contains no rows yet."""
    kind = type(frame)
    return kind.__name__ == "LazyFrame" and kind.__module__.partition(".")[0] == "polars"


def column_names(frame: Any) -> list[str] | None:
    """Return the names of the columns of a frame; None if it has none, or shows them late."""
    if isinstance(frame, (np.ndarray, list)) or is_lazy(frame):
        return None
    if isinstance(getattr(frame, "schema", None), pa.Schema):
        return list(frame.schema.names)
    columns = frame if isinstance(frame, Mapping) else getattr(frame, "columns", None)
    return None if columns is None else [str(column) for column in columns]


def _open_stream(frame: Any, name: str) -> pa.RecordBatchReader:
    """Return a reader of a frame; raise for the first column that Arrow cannot represent."""
    try:
        if _has_batches(frame):
            return frame.to_pyarrow_batches(chunk_size=BATCH)
        if not hasattr(frame, "__arrow_c_stream__"):
            return frame.fetch_record_batch()
        return pa.RecordBatchReader.from_stream(frame)
    except pa.ArrowException:
        for column in column_names(frame) or ():
            try:
                pa.RecordBatchReader.from_stream(frame[[column]])
            except pa.ArrowException:
                raise _type_error(name, column, f"values of type {frame[column].dtype}") from None
        raise


def _has_batches(frame: Any) -> bool:
    """Return whether a frame is a table of Ibis whose rows need not be in memory as a whole.

    Ibis reads DuckDB by a method that connections of DuckDB 2 do not have.
    """
    if not hasattr(type(frame), "to_pyarrow_batches"):
        return False
    backend = frame.get_backend()
    return backend.name != "duckdb" or hasattr(backend.con, "fetch_record_batch")


def _type_error(name: str, column: str, what: str, row: int | None = None) -> DataError:
    """Return the error about a column of a type that cannot be learned."""
    place = name if row is None else f"{name}, row {row + 1}"
    return DataError(
        f"{place}: column {column!r} contains {what}, which cannot be learned",
        Suggestion(
            "convert it, for example with astype(str), or with pandas.to_numeric(column, "
            "errors='coerce')"
        ),
        drop_remedy(column),
    )


def _of_pandas(frame: Any, name: str, label: str | None) -> pa.Table:
    if getattr(frame.columns, "nlevels", 1) > 1:
        raise DataError(f"{name} has columns of several levels", Suggestion("give each one name"))
    columns = [frame.iloc[:, j] for j in range(frame.shape[1])]
    for text, column in zip(frame.columns, columns, strict=True):
        if text == label and _is_intervals(column):
            raise DataError(
                f"{name}: labels in column {label!r} are intervals; a label must be text, an "
                "integer or a boolean",
                Suggestion("convert them with astype(str)"),
            )
    return _columns(list(frame.columns), columns, name)


def _is_intervals(column: Any) -> bool:
    """Return whether a column of pandas has intervals as categories, as of ``pandas.cut``."""
    if str(getattr(column, "dtype", "")) != "category":
        return False
    return str(column.cat.categories.dtype).startswith("interval")


def _columns(names: list[Any], columns: list[Any], name: str) -> pa.Table:
    """Columns side by side, by their names as text."""
    texts = [str(one) for one in names]
    require_different(texts, name)
    arrays = [_array(column, text, name) for text, column in zip(texts, columns, strict=True)]
    return pa.table(arrays, names=texts)


def _array(column: Any, text: str, name: str) -> Any:
    """Return a column as Arrow has it, NaN as missing; ``text`` and ``name`` are for messages."""
    array = _convert(column)
    if array is None:
        values = list(column)
        array = _convert(_objects(values))
    if array is not None:
        if isinstance(array.type, pa.BaseExtensionType):  # such as periods
            raise _type_error(name, text, f"values of type {getattr(column, 'dtype', array.type)}")
        return array
    prefixes = range(1, len(values) + 1)
    row = bisect_left(prefixes, True, key=lambda k: _convert(_objects(values[:k])) is None)
    value = values[row]
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        what = f"an integer of about {round(value.bit_length() * 0.30103):,} digits"
    else:
        what = f"{repr(value)[:60]} (type {type(value).__name__})"
        before = [one for one in values[:row] if not _is_missing(one)]
        if before:
            what += f" after {repr(before[-1])[:60]} (type {type(before[-1]).__name__})"
    raise _type_error(name, text, what, row)


def _objects(values: list[Any]) -> Any:
    """Return an array (n,) of objects, also if these are sequences."""
    return np.array([*values, None], dtype=object)[:-1]


def _is_missing(value: Any) -> bool:
    missing = value is None or type(value).__name__ in ("NAType", "NaTType")
    return missing or (isinstance(value, float) and value != value)


def _convert(column: Any) -> Any:
    """Return a column as Arrow has it, or None if Arrow cannot represent it; NaN is missing."""
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return column
    if _is_intervals(column):
        column = column.cat.rename_categories(str)
    kind = getattr(column, "dtype", None)
    if isinstance(kind, np.dtype) and kind.kind in "US":
        return pa.array(np.asarray(column).astype(str).tolist(), pa.string())
    if str(kind).startswith("Sparse") or kind == np.longdouble:
        column = np.asarray(column, dtype=np.float64 if kind == np.longdouble else None)
    with suppress(TypeError):  # other units than Arrow has
        if isinstance(kind, np.dtype) and kind.kind in "mM" and kind.str[3:] not in ARROW_UNITS:
            column = np.asarray(column).astype(f"{kind.str[1:3]}[s]")
    with suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
        return pa.array(column, from_pandas=True)
    return None


def _of_array(X: Any, name: str) -> pa.Table:
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got {X.ndim}D array instead: shape {X.shape}")
    columns = [X[:, j] for j in range(X.shape[1])]
    return _columns([f"x{j}" for j in range(X.shape[1])], columns, name)


def _of_lazy(frame: Any, name: str) -> Iterator[pa.Table]:
    """Collect a LazyFrame of polars, in batches if it can."""
    try:
        found = False
        if hasattr(frame, "collect_batches"):
            for batch in frame.collect_batches(chunk_size=BATCH, maintain_order=True):
                found = True
                yield batch.to_arrow()
        if not found:
            yield frame.collect().to_arrow()
    except Exception as error:
        what = " ".join(str(error).split())[:200]
        raise DataError(f"{name} is a LazyFrame that cannot be collected: {what}") from None


def _family(kind: pa.DataType) -> str:
    """Return what a plain column contains; columns of one family can be joined."""
    if pa.types.is_floating(kind) or pa.types.is_integer(kind):
        return "number"
    if pa.types.is_temporal(kind):
        return "time"
    return "bool" if pa.types.is_boolean(kind) else "text"
