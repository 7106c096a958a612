"""Predictions of a stream: labels, scores and both kinds of probability, row by row."""

from __future__ import annotations

import csv
import io
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet

from counterpoise.arrays import Matrix
from counterpoise.atomic_write import atomic_write
from counterpoise.errors import DataError, Suggestion
from counterpoise.explanation import Explanation
from counterpoise.moments.classes import n_score_columns
from counterpoise.readers.chunk import Chunk, Source, whole_array
from counterpoise.tables._text_rows import join_rows
from counterpoise.tables.alerts import AlertInput, Alerts, TopPerDay
from counterpoise.tables.guards import OutlierCounter
from counterpoise.tables.model import TableModel
from counterpoise.tables.records import column_of
from counterpoise.tables.scoring import CHUNK_ROWS, class_ranks, ranking_scores

SPECIAL = (b'"', b"\r", b"\n")  # characters, next to the delimiter, of cells that need quotes


@contextmanager
def open_writer(path: str | None, format: str) -> Iterator[TableWriter]:  # noqa: A002
    """Open a writer to standard output (None), or to a file that appears when it is complete.

    The format is "csv", "tsv", "jsonl" or "parquet".
    """
    target: Any = (
        nullcontext(sys.stdout.buffer) if path is None else atomic_write(path, "the output")
    )
    with target as file:
        result = TableWriter(file, format, is_live=path is None)
        try:
            yield result
        except BaseException:
            result.abort()
            raise
        result.close()


class TableWriter:
    """Writer of tables of predictions into an open file."""

    def __init__(self, file: Any, format: str, is_live: bool) -> None:  # noqa: A002
        self.format, self.names = format, list[str]()  # names of the columns of the first table
        self._file, self._is_live = file, is_live
        self._parquet: Any = None

    def write(self, table: pa.Table) -> None:
        """Write the rows of a table."""
        is_first = not self.names
        if is_first:
            self.names = table.column_names
        elif self.format != "jsonl":
            table = self._align(table)
        if self.format == "parquet":
            if self._parquet is None:
                self._parquet = pa.parquet.ParquetWriter(self._file, table.schema)
            try:
                self._parquet.write_table(table.cast(self._parquet.schema))
            except pa.ArrowInvalid as error:
                raise DataError(
                    f"a column changed its type ({error})", Suggestion("use {}", "to", "csv")
                ) from None
            return
        data = _json_lines(table) if self.format == "jsonl" else _csv(table, is_first, self.format)
        self._file.write(data)
        if self._is_live:
            self._file.flush()

    def _align(self, table: pa.Table) -> pa.Table:
        """Return a table with the columns of the header; those that it does not have are empty."""
        more = [name for name in table.column_names if name not in self.names]
        if more:
            raise DataError(
                f"column {more[0]!r} appeared after the header was written",
                Suggestion("carry columns along by name", "carry"),
                Suggestion("use {}", "output_format", "jsonl"),
            )
        empty = dict.fromkeys(self.names, pa.nulls(table.num_rows, pa.string()))
        return pa.table(empty | dict(zip(table.column_names, table.columns, strict=True)))

    def close(self) -> None:
        """Write the end of the file."""
        if self._parquet is not None:
            self._parquet.close()

    def abort(self) -> None:
        """Leave the file incomplete."""
        if self._parquet is not None:
            self._parquet.is_open = False  # else its footer would be written later


def _csv(table: pa.Table, header: bool, kind: str) -> bytes:
    """Return lines of text, with quotes around the cells that need them."""
    delimiter = "\t" if kind == "tsv" else ","
    out = io.StringIO()
    if header:
        csv.writer(out, delimiter=delimiter, lineterminator="\n").writerow(table.column_names)
    cells = [_cells(whole_array(column), delimiter) for column in table.columns]
    return out.getvalue().encode() + join_rows(cells, table.num_rows, ord(delimiter))


def _cells(column: pa.Array, delimiter: str) -> tuple[Any, Any, Any, Any]:
    """Return a column as ``join_rows`` takes it: numbers, or ends and bytes of text; its nulls."""
    valid = None
    if column.null_count:
        valid = column.is_valid().to_numpy(zero_copy_only=False).view(np.uint8)
    is_integer = pa.types.is_int64(column.type) and valid is None
    if is_integer or pa.types.is_float64(column.type):
        return column.to_numpy(zero_copy_only=False), None, None, valid
    text = column if pa.types.is_string(column.type) else column.cast(pa.string())
    ends, data = _text_buffers(text)
    if any(special in data[ends[0] : ends[-1]] for special in (delimiter.encode(), *SPECIAL)):
        ends, data = _text_buffers(_quote(text, delimiter))
    return None, ends, data, valid


def _text_buffers(text: pa.Array) -> tuple[Any, bytes]:
    """Return where each text begins and the last one ends, (n + 1,), and the bytes."""
    _, ends, data = text.buffers()
    where = np.frombuffer(ends, np.int32)[text.offset : text.offset + len(text) + 1]
    return where, b"" if data is None else data.to_pybytes()


def _quote(column: pa.Array, delimiter: str) -> pa.Array:
    special = pc.match_substring_regex(column, f'[{delimiter}"\r\n]').fill_null(False)
    quoted = pc.replace_substring(column, '"', '""')
    quoted = pc.binary_join_element_wise('"', quoted, '"', "")
    return pc.if_else(special, quoted, column)


def _json_lines(table: pa.Table) -> bytes:
    """Return one JSON object per row, with null for numbers that are not finite."""
    for i, column in enumerate(table.columns):
        if pa.types.is_floating(column.type):
            finite = pc.if_else(pc.is_finite(column), column, None)
            table = table.set_column(i, table.column_names[i], finite)
    return "".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist()).encode()


def explanation_columns(explanation: Explanation, k: int, sign: float = 1.0) -> list[Any]:
    """Return the columns of the k largest contributions of each row and their shares, (n,) each.

    A share is the contribution over the sum of the absolute values of all contributions. It is
    positive where the column raises the score: of two classes the score of the second one times
    ``sign``, of several that of the predicted class.
    """
    names, values = explanation.top(k)
    size = np.abs(explanation.decisive).sum(axis=1, keepdims=True)
    shares: Matrix = np.divide(sign * values, size, out=np.zeros_like(values), where=size > 0)
    result: list[Any] = []
    for name, share in zip(names.T, shares.T, strict=True):
        result += pa.array(name, pa.string()), pa.array(share, pa.float64())
    missing = [pa.nulls(len(size), kind) for kind in (pa.string(), pa.float64())]
    result += missing * (k - names.shape[1])
    return result


class Predictor:
    """Predictions of chunks of rows as tables."""

    def __init__(
        self,
        stored: TableModel,
        positive: Any,
        alerts: Alerts | None = None,
        carry: Sequence[str] | None = (),
        ignore_unknown: bool = False,
        explain: int = 0,
    ) -> None:
        self.scorer = stored.scorer
        self.learned = self.scorer.model
        self.alerts, self.carry = alerts, carry
        self._needed = () if alerts is None else alerts.columns
        self.rows = self.skipped = 0  # all rows, and those without a prediction
        self.bare = 0  # rows that have none of the columns of the model
        self.unknown = Counter[str]()  # values of categories that were not learned, by column
        self.blank = Counter[str]()  # missing values where none was before, by column
        self.strange = dict[str, None]()  # columns that the model has not learned
        self.lacking = dict[str, None]()  # learned columns that were 0
        self._apart = None if ignore_unknown else (*(carry or ()), *self._needed)
        self._labels = self.learned.labels
        self._classes = self._labels.tolist()
        self._positive = self._classes.index(positive)
        self.outlying = OutlierCounter()
        self._explain, self._outputs = explain, ["prediction", "score"]
        if n_score_columns(len(self._classes)) > 1:
            self._outputs[1:] = [f"score_{label}" for label in self._classes]
        for kind in ("proba_balanced", "proba_stream"):
            self._outputs += [f"{kind}_{label}" for label in self._classes]
        self._outputs += [] if alerts is None else ["alert"]
        self._outputs += [f"{name}_{i + 1}" for i in range(explain) for name in ("reason", "share")]

    def is_needed(self, name: str) -> bool:
        """Return whether a column of the input is needed."""
        apart = self.carry is None or name in self.carry or name in self._needed
        return apart or self.scorer.encoding.knows(name)

    def table(self, chunk: Chunk) -> pa.Table:
        """Return predictions of all rows of a chunk, null for rows without one."""
        encoded, f = self.scorer.score(chunk, self._apart)
        scores = self.scorer.scores
        n, kept = chunk.rows, encoded.kept
        self.rows += n
        self.bare += encoded.bare
        self.skipped += n - int(kept.sum()) - encoded.bare
        apart = (*(self.carry or ()), *self._needed)
        self.strange |= dict.fromkeys(name for name in encoded.strange if name not in apart)
        self.lacking |= dict.fromkeys(encoded.lacking)
        self.unknown.update(encoded.unknown)
        self.blank.update(encoded.blank)
        columns = self._carried_columns(chunk)
        if kept.any():
            features = self.scorer.encoding.features
            self.outlying.count(self.learned.reference_state, features, encoded, chunk)
            ranks, labels = ranking_scores(f, scores), scores.classes.best(f)
            balanced, stream = (scores.probabilities(f, stream) for stream in (False, True))
        else:
            labels = self._labels[:0]
            f = np.empty((0, n_score_columns(len(self._classes))))
            balanced = stream = np.empty((0, len(self._classes)))
            ranks = f
        sign = -1.0 if f.shape[1] == 1 and not self._positive else 1.0
        found = [labels, *(sign * f).T, *balanced.T, *stream.T]
        if self.alerts is not None:
            k = self._positive
            predicted = AlertInput(balanced[:, k], stream[:, k], class_ranks(ranks, k), kept)
            has_two = int(scores.classes.seen.sum()) > 1
            no_alerts = np.zeros(len(f), dtype=bool)
            found.append(self.alerts.decide(chunk, predicted) if has_two else no_alerts)
        if self._explain and kept.any():
            why = self.scorer.explain(encoded.X)
            found += explanation_columns(why, self._explain, sign)
        elif self._explain:
            found += [pa.array([], kind) for kind in (pa.string(), pa.float64())] * self._explain
        for name, values in zip(self._outputs, found, strict=True):
            columns[name] = _insert_nulls(values, kept)
        return pa.table(columns)

    def empty_table(self) -> pa.Table:
        """Return a table without rows, for inputs without rows."""
        texts = [name for name in self._outputs if name.startswith("reason_")]
        columns = dict.fromkeys(self.carry or (), pa.array([], pa.string()))
        columns |= dict.fromkeys(self._outputs, pa.array([], pa.float64()))
        columns |= dict.fromkeys(texts, pa.array([], pa.string()))
        return pa.table({**columns, "prediction": pa.array(self._labels[:0])})

    def _carried_columns(self, chunk: Chunk) -> dict[str, pa.Array]:
        names = list(chunk.columns) if self.carry is None else self.carry
        for name in names if chunk.table else ():
            column_of(chunk, name, "carry")
        clash = [name for name in names if name in self._outputs]
        if clash:
            raise DataError(
                f"{chunk.source}: column {clash[0]!r} has the name of a column of the predictions",
                Suggestion("rename it"),
                Suggestion("carry other columns along", "carry"),
            )
        empty = pa.nulls(chunk.rows, pa.string())
        return {name: chunk.columns.get(name, empty) for name in names}


def _insert_nulls(values: Any, kept: Any) -> pa.Array:
    """Return values of the rows that were kept, null for others."""
    if kept.all():
        return pa.array(values)
    return pa.array(values).take(pa.array(np.maximum(np.cumsum(kept) - 1, 0), mask=~kept))


def flag_top(tables: Iterable[pa.Table], rule: TopPerDay) -> Iterator[pa.Table]:
    """Yield tables of predictions with their alerts, after all rows were ranked.

    A temporary file stores the tables, so that memory stays constant.
    """
    count = first = 0
    with tempfile.TemporaryFile() as file:
        for table in tables:
            with pa.ipc.new_stream(file, table.schema) as writer:
                writer.write_table(table)
            count += 1
        file.seek(0)
        alerts = rule.alerts()
        for _ in range(count):
            with pa.ipc.open_stream(file) as reader:
                table = reader.read_all()
            flags = pa.array(np.isin(np.arange(first, first + len(table)), alerts))
            first += len(table)
            at = table.column_names.index("alert")
            kept = pc.if_else(table["alert"].is_valid(), flags, None)
            yield table.set_column(at, "alert", kept)


def predict(predictor: Predictor, source: Source, rows: int = CHUNK_ROWS) -> Iterator[pa.Table]:
    """Yield predictions of an input, in chunks of ``rows`` rows."""
    scorer = predictor.scorer
    # Numbers that are carried along are read as text, so that no digit changes.
    carried = scorer.encoding.kinds if predictor.carry is None else predictor.carry
    for chunk in scorer.read_chunks(source, rows, predictor.is_needed, as_text=carried):
        yield predictor.table(chunk)
