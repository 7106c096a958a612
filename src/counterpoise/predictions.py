"""Predictions of a stream: labels, scores and both kinds of probability, row by row."""

from __future__ import annotations

import bisect
import csv
import io
import json
import os
import secrets
import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from counterpoise import probability
from counterpoise.arrays import Vector
from counterpoise.learner import Stored
from counterpoise.streams import Chunk, DataError, Source
from counterpoise.streams.chunk import Mark

ROWS = 8192
WINDOW = 10_000  # scores that an alert is judged by


class Predictor:
    """Turns chunks of rows into tables of predictions.

    Parameters
    ----------
    stored : Stored
        The model and its encoding.
    positive : str, optional
        The class that alerts are about; by default the rarest one.
    threshold : float, optional
        Alert where its balanced probability is at least this.
    alert_rate : float, optional
        Alert where it is among this share of the highest of late.
    carry : list of str, optional
        Columns of the input that come first; None for all of them.

    Attributes
    ----------
    rows : int
        Rows predicted.
    skipped : int
        Rows without a prediction because values are missing.
    unknown : dict of str to int
        Cells whose category was never learnt, by column.
    """

    def __init__(
        self,
        stored: Stored,
        positive: str | None = None,
        threshold: float | None = None,
        alert_rate: float | None = None,
        carry: list[str] | None = (),  # type: ignore[assignment]
    ) -> None:
        self.model, self.encoding = stored.model, stored.encoding
        self.threshold, self.carry = threshold, carry
        self.rows, self.skipped, self.unknown = 0, 0, dict[str, int]()
        self._classes = self.model.classes_.tolist()
        self._positive = self._rarest() if positive is None else self._named(positive)
        self._highest = None if alert_rate is None else Highest(alert_rate)

    def wanted(self, name: str) -> bool:
        """Whether a column of the input is needed.

        Parameters
        ----------
        name : str
            Its name.

        Returns
        -------
        bool
        """
        return self.carry is None or name in self.carry or self.encoding.columns.feature(name)

    def table(self, chunk: Chunk) -> pa.Table:
        """Predictions of a chunk.

        Parameters
        ----------
        chunk : Chunk
            The rows.

        Returns
        -------
        pyarrow.Table
            A row for each; without values where the model cannot say anything.
        """
        encoded = self.encoding.predict(chunk)
        n, kept = chunk.rows, encoded.kept
        self.rows += n
        self.skipped += n - int(kept.sum())
        for name, count in encoded.unknown.items():
            self.unknown[name] = self.unknown.get(name, 0) + count
        columns = self._carried(chunk)
        if kept.any():
            f, solved = self.model._scores(encoded.X)
            labels = solved.classes[solved.best(f)]
            balanced = probability.probabilities(f, np.ones_like(solved.factor), solved.seen)
            stream = probability.probabilities(f, solved.factor, solved.seen)
        else:
            labels = self.model.classes_[:0]
            f = np.empty((0, 1 if len(self._classes) < 3 else len(self._classes)))
            balanced = stream = np.empty((0, len(self._classes)))
        columns["predicted"] = _spread(labels, kept)
        names = ["score"] if f.shape[1] == 1 else [f"score_{label}" for label in self._classes]
        for name, values in zip(names, f.T, strict=True):
            columns[name] = _spread(values, kept)
        for k, label in enumerate(self._classes):
            columns[f"balanced_{label}"] = _spread(balanced[:, k], kept)
            columns[f"stream_{label}"] = _spread(stream[:, k], kept)
        if self.threshold is not None:
            columns["alert"] = _spread(balanced[:, self._positive] >= self.threshold, kept)
        if self._highest is not None:
            columns["alert"] = _spread(self._highest.among(balanced[:, self._positive]), kept)
        return pa.table(columns)

    def _carried(self, chunk: Chunk) -> dict[str, pa.Array]:
        names = list(chunk.columns) if self.carry is None else self.carry
        lacking = [name for name in names if name not in chunk.columns and chunk.table]
        if lacking:
            raise DataError(f"{chunk.source} has no column {lacking[0]!r}")
        ours = {"predicted", "score", "alert"}
        clash = [name for name in names if name in ours]
        if clash:
            raise DataError(
                f"{chunk.source}: a column is called {clash[0]!r}, as one of the predictions is; "
                "rename it, or carry other columns along with --id"
            )
        nothing = pa.nulls(chunk.rows, pa.string())
        return {name: chunk.columns.get(name, nothing) for name in names}

    def _rarest(self) -> int:
        counts = self.model.class_count_
        return len(counts) - 1 - int(np.argmin(counts[::-1]))

    def _named(self, positive: str) -> int:
        names = [str(label) for label in self._classes]
        if positive not in names:
            raise DataError(f"--positive {positive}: the classes are {', '.join(names)}")
        return names.index(positive)


class Highest:
    """Whether a value is among the highest share of late; no value is judged by later ones.

    Parameters
    ----------
    share : float
        Between 0 and 1.

    Examples
    --------
    >>> from counterpoise.predictions import Highest
    >>> Highest(0.25).among(np.array([1.0, 2.0, 3.0, 4.0, 0.0, 5.0])).tolist()
    [False, False, False, True, False, True]
    """

    def __init__(self, share: float) -> None:
        self.share = share
        self._late: deque[float] = deque()
        self._sorted: list[float] = []

    def among(self, values: Vector) -> Any:
        """Judge values, in order.

        Parameters
        ----------
        values : ndarray of shape (n,)
            The values.

        Returns
        -------
        ndarray of bool of shape (n,)
        """
        result = np.zeros(len(values), dtype=bool)
        for i, value in enumerate(values.tolist()):
            if len(self._late) == WINDOW:
                del self._sorted[bisect.bisect_left(self._sorted, self._late.popleft())]
            self._late.append(value)
            bisect.insort(self._sorted, value)
            at_least = len(self._sorted) - bisect.bisect_left(self._sorted, value)
            result[i] = at_least <= self.share * len(self._sorted)
        return result


def _spread(values: Any, kept: Any) -> pa.Array:
    """Values of the rows that were kept, null elsewhere."""
    if kept.all():
        return pa.array(values)
    place = np.cumsum(kept) - 1
    return pa.array(values).take(pa.array(np.where(kept, place, 0), mask=~kept))


def predict(
    predictor: Predictor, source: Source, columns_as_written: bool, rows: int = ROWS
) -> Iterator[pa.Table]:
    """Predictions of an input, chunk by chunk.

    Parameters
    ----------
    predictor : Predictor
        Who predicts.
    source : Source
        The input.
    columns_as_written : bool
        Read numbers as text, so that they can be carried along as they are written.
    rows : int
        Rows of a chunk.

    Yields
    ------
    pyarrow.Table
    """
    kinds = {} if columns_as_written else predictor.encoding.kinds
    for chunk in source.chunks(rows, Mark(), kinds, predictor.wanted):
        yield predictor.table(chunk)


class Sink:
    """Where tables of predictions go: standard output, or a file that appears when it is whole.

    Parameters
    ----------
    path : str, optional
        The file; None for standard output.
    format : str
        "csv", "tsv", "jsonl" or "parquet".
    """

    def __init__(self, path: str | None, format: str) -> None:  # noqa: A002
        self.path, self.format = path, format
        self._begun = False
        self._parquet: Any = None
        self._file: Any = None
        self._temporary = ""
        if path is not None:
            folder, name = os.path.split(os.path.realpath(path))
            self._temporary = os.path.join(folder, f".{name}.{secrets.token_hex(4)}.tmp")
            self._file = open(self._temporary, "xb")  # noqa: SIM115

    def write(self, table: pa.Table) -> None:
        """Write rows.

        Parameters
        ----------
        table : pyarrow.Table
            The rows.
        """
        if self.format == "parquet":
            if self._parquet is None:
                out = self._file or sys.stdout.buffer
                self._parquet = pa.parquet.ParquetWriter(out, table.schema)
            self._parquet.write_table(table.cast(self._parquet.schema))
            return
        as_text: Callable[[pa.Table, bool], bytes] = (
            _json_lines if self.format == "jsonl" else lambda t, h: _csv(t, h, self.format)
        )
        data = as_text(table, not self._begun)
        self._begun = True
        if self._file is not None:
            self._file.write(data)
        else:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    def close(self, whole: bool) -> None:
        """Finish.

        Parameters
        ----------
        whole : bool
            Whether all was written; else the file does not appear.
        """
        if self._parquet is not None and whole:
            self._parquet.close()
        if self._file is None:
            return
        if whole:
            self._file.flush()
            os.fsync(self._file.fileno())
        self._file.close()
        if whole and self.path is not None:
            os.replace(self._temporary, self.path)
        else:
            os.unlink(self._temporary)


def _csv(table: pa.Table, header: bool, kind: str) -> bytes:
    """Lines of text, with quotes around the cells that need them and no others."""
    delimiter = "\t" if kind == "tsv" else ","
    out = io.StringIO()
    if header:
        csv.writer(out, delimiter=delimiter, lineterminator="\n").writerow(table.column_names)
    cells = [_quoted(column.cast(pa.string()), delimiter) for column in table.columns]
    lines = pc.binary_join_element_wise(*cells, delimiter, null_handling="replace")
    out.write("\n".join(lines.to_pylist()))
    out.write("\n" if len(lines) else "")
    return out.getvalue().encode()


def _quoted(column: Any, delimiter: str) -> Any:
    special = pc.match_substring_regex(column, f'[{delimiter}"\r\n]').fill_null(False)
    if not pc.any(special).as_py():
        return column
    quoted = pc.replace_substring(column, '"', '""')
    quoted = pc.binary_join_element_wise('"', quoted, '"', "")
    return pc.if_else(special, quoted, column)


def _json_lines(table: pa.Table, header: bool) -> bytes:
    return "".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist()).encode()
