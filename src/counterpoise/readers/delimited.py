"""CSV and TSV: whole records parsed by pyarrow, numbers as numbers, everything else as text."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.csv

from counterpoise.errors import DataError, Suggestion
from counterpoise.readers._records import Cells
from counterpoise.readers.chunk import require_different, require_few, whole_array
from counterpoise.readers.text_source import RecordBlock, TextFormat

MAX_FIELDS = 1_000_000  # of a record
DELIMITERS = ";\t|,"  # of files that are read by another one
RAGGED = re.compile(r"Row #(\d+): Expected (\d+) columns, got (\d+): (.*)", re.DOTALL)


class DelimitedText(TextFormat):
    """Text with a delimiter between fields, and quotes around those that need them."""

    def __init__(self, delimiter: str = ",", header: bool = True) -> None:
        self.delimiter, self.header = delimiter, header
        self.names: list[str] = []

    def records(self) -> Cells:
        """Return a scanner that recognizes quotes."""
        return Cells(ord(self.delimiter))

    def read_header(self, name: str, header: bytes) -> None:
        """Take the names of the columns from the first record."""
        if header.lstrip().startswith((b'{"', b"{}")):
            raise DataError(
                f"{name} is JSON, not CSV", Suggestion("read it as JSON", "format", "jsonl")
            )
        cells = self._fields(header, name)
        self.names = [cell.strip() or f"column {j + 1}" for j, cell in enumerate(cells)]
        require_different(self.names, name)

    def parse(
        self, block: RecordBlock, name: str, kinds: Mapping[str, str], wanted: Callable[[str], bool]
    ) -> dict[str, Any]:
        """Parse columns of numbers as numbers, all others as text."""
        if not self.names:
            cells = self._fields(block.data, name)
            self.names = [f"column {j + 1}" for j in range(len(cells))]
        columns = [column for column in self.names if wanted(column)] or self.names
        require_few(len(columns), name)
        types = {c: pa.float64() if kinds.get(c) == "number" else pa.string() for c in columns}
        try:
            table = self._read(block.data, name, block.first, columns, types)
        except _ConversionError:
            as_bytes = dict.fromkeys(columns, pa.binary())
            table = self._read(block.data, name, block.first, columns, as_bytes)
            table = pa.table({c: _decode(table[c], c, name, block.first) for c in columns})
        if table.num_rows != block.rows:
            raise DataError(
                f"{name}, rows {block.first} to {block.first + block.rows - 1}: quotes and line "
                "ends do not match; put quotes around whole fields only"
            )
        arrays = map(whole_array, table.columns)
        found = dict(zip(columns, arrays, strict=True))
        return {"columns": found, "cells": True, "offered": tuple(self.names)}

    def _fields(self, data: bytes, name: str) -> list[str]:
        """Return the fields of the first record."""
        end, _ = self.records().take(data, 0, 1)
        if data.count(self.delimiter.encode(), 0, end) >= MAX_FIELDS:
            raise DataError(f"{name}: more than {MAX_FIELDS:,} columns; is the delimiter right?")
        try:
            text = io.StringIO(data.decode(), newline="")
            return next(filter(None, csv.reader(text, delimiter=self.delimiter)), [])
        except UnicodeDecodeError:
            raise DataError(
                f"{name}: the header is not UTF-8 text; convert the file, for example with "
                "iconv -f LATIN1 -t UTF-8"
            ) from None
        except csv.Error as error:
            raise DataError(f"{name}: the header cannot be read ({error})") from None

    def _read(
        self, data: bytes, name: str, first: int, columns: list[str], types: Mapping[str, Any]
    ) -> pa.Table:
        try:
            return pa.csv.read_csv(
                pa.BufferReader(data),
                pa.csv.ReadOptions(
                    use_threads=False,
                    block_size=min(len(data) + 1, 2**31 - 1),
                    column_names=self.names,
                ),
                pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                pa.csv.ConvertOptions(
                    column_types=types, include_columns=columns, strings_can_be_null=True
                ),
            )
        except pa.ArrowInvalid as error:
            ragged = RAGGED.search(str(error))
            if ragged:
                row, expected, found, text = ragged.groups()
                shown = text if len(text) <= 60 else f"{text[:60]}..."
                raise DataError(
                    f"{name}, row {first - 1 + int(row)}: {found} fields, expected {expected}: "
                    f"{shown!r}",
                    *(other_delimiter(self.names) or [Suggestion("correct or remove the row")]),
                ) from None
            if "conversion error" in str(error):
                raise _ConversionError from None
            line = " ".join(str(error).split("\n")[0].split())[:200]
            raise DataError(f"{name}, after row {first - 1}: {line}") from None


class _ConversionError(Exception):
    """A cell does not have the type of its column."""


def other_delimiter(names: Sequence[str]) -> list[Suggestion]:
    """Return what to do about a table of one column that looks like several."""
    found = [one for one in DELIMITERS if len(names) == 1 and one in names[0]]
    return [Suggestion("try {}", "delimiter", one) for one in found[:1]]


def _decode(column: pa.ChunkedArray, name: str, source: str, first: int) -> pa.ChunkedArray:
    """Return the text of a column read as bytes."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        for i, cell in enumerate(column.to_pylist()):
            try:
                (cell or b"").decode()
            except UnicodeDecodeError:
                raise DataError(
                    f"{source}, row {first + i}, column {name!r}: {cell!r} is not UTF-8 text; "
                    "convert the file, for example with iconv -f LATIN1 -t UTF-8"
                ) from None
        raise
