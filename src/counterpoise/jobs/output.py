"""Tables of predictions written as text, JSON or Parquet, to a file or to whoever waits."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from counterpoise.atomic import writing
from counterpoise.errors import Remedy
from counterpoise.streams import DataError


@contextmanager
def sink(path: str | None, format: str) -> Iterator[Sink]:  # noqa: A002
    """Open where tables go: standard output (None), or a file that appears when it is whole.

    The format is "csv", "tsv", "jsonl" or "parquet".
    """
    with nullcontext(sys.stdout.buffer) if path is None else writing(path, "the output") as file:
        result = Sink(file, format, live=path is None)
        try:
            yield result
        except BaseException:
            result.finish(whole=False)
            raise
        result.finish(whole=True)


class Sink:
    """Writes tables of predictions into an open file.

    Parameters
    ----------
    file : binary file
        Where to.
    format : str
        "csv", "tsv", "jsonl" or "parquet".
    live : bool
        Whether somebody waits for each row.
    """

    def __init__(self, file: Any, format: str, live: bool) -> None:  # noqa: A002
        self.format = format
        self._names: list[str] | None = None
        self._parquet: Any = None
        self._file, self._live = file, live

    @property
    def begun(self) -> bool:
        """Whether anything was written."""
        return self._names is not None

    def write(self, table: pa.Table) -> None:
        """Write the rows of a table."""
        first = not self.begun
        if first:
            self._names = table.column_names
        elif self.format != "jsonl":
            table = self._aligned(table)
        if self.format == "parquet":
            if self._parquet is None:
                self._parquet = pa.parquet.ParquetWriter(self._file, table.schema)
            try:
                self._parquet.write_table(table.cast(self._parquet.schema))
            except pa.ArrowInvalid as error:
                raise DataError(
                    f"a column changed its type ({error})", Remedy("use {}", "to", "csv")
                ) from None
            return
        data = _json_lines(table) if self.format == "jsonl" else _csv(table, first, self.format)
        self._file.write(data)
        if self._live:
            self._file.flush()

    def _aligned(self, table: pa.Table) -> pa.Table:
        """Columns in the order of the header; what is not there is empty."""
        names = self._names or []
        more = [name for name in table.column_names if name not in names]
        if more:
            raise DataError(
                f"column {more[0]!r} appeared after the header was written",
                Remedy("carry columns along by name", "carry"),
                Remedy("use {}", "to", "jsonl"),
            )
        nothing = pa.nulls(table.num_rows, pa.string())
        there = set(table.column_names)
        return pa.table({name: table[name] if name in there else nothing for name in names})

    def finish(self, whole: bool) -> None:
        """Write what comes last, unless rows are lacking and nobody will read the file."""
        if self._parquet is None:
            return
        if whole:
            self._parquet.close()
        else:
            self._parquet.is_open = False  # or its footer would be written one day


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


def _json_lines(table: pa.Table) -> bytes:
    """One object a row; null where a number is not finite, for which JSON has no word."""
    for i, column in enumerate(table.columns):
        if pa.types.is_floating(column.type):
            finite = pc.if_else(pc.is_finite(column), column, None)
            table = table.set_column(i, table.column_names[i], finite)
    return "".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist()).encode()
