"""JSON lines, or an array: whole lines parsed by pyarrow, or one by one if necessary.

A field that a row does not have is 0; ``null`` is a missing value. pyarrow's reader does not tell
the two apart, so lines are taken one by one where the word occurs.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from counterpoise.arrays import Flags
from counterpoise.errors import DataError, Suggestion
from counterpoise.readers._records import Objects
from counterpoise.readers.byte_source import Bytes
from counterpoise.readers.chunk import Chunk, require_few
from counterpoise.readers.text_source import RecordBlock

SPACE = b" \t\r\n"
ORDER = b"\xef\xbb\xbf"  # the byte order mark
LONGEST = 1 << 26  # bytes of one element
# An object without nested values at once; else one bracket or text after the other.
FLAT = re.compile(rb'\{(?:[^"{}\[\]]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+\}', re.DOTALL)
TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{\[]|[}\]]|,|"', re.DOTALL)


class Elements:
    """The elements of a JSON array as lines, or the bytes unchanged if the input is no array."""

    def __init__(self, source: Any) -> None:
        self.source, self.name = source, source.name
        self._array: bool | None = None  # not known yet
        self._rest = b""
        self._number = 0  # of the element that comes next
        self._after: str | None = None  # "element", "comma", or "end" of the array

    def read(self, most: int) -> bytes:
        """Read about ``most`` bytes, at most so many if the input is no array; none at the end."""
        while True:
            if self._array is False and not self._rest:
                data: bytes = self.source.read(most)
                return data
            if self._array is False:
                data, self._rest = self._rest, b""
                return data
            more = self.source.read(most)
            self._rest += more
            if self._array is None and not self._begun(ended=not more):
                continue
            if self._array:
                lines = self._lines(ended=not more)
                if lines or not more:
                    return lines

    def _begun(self, ended: bool) -> bool:
        """Whether the kind of the input is known."""
        start = self._rest.removeprefix(ORDER).lstrip(SPACE)
        if not ended and (not start or ORDER.startswith(self._rest)):
            return False
        self._array = start.startswith(b"[")
        if self._array:
            self._rest, self._number = start[1:], 1
        return True

    def _lines(self, ended: bool) -> bytes:
        """Whole elements of the bytes read so far, one per line; the rest is kept."""
        data, at, found = self._rest, 0, []
        while True:
            at = _after_space(data, at)
            if at == len(data):
                break
            if self._after == "end":
                raise self._error("something follows the end of the array")
            sign = data[at : at + 1]
            if sign == b"]" and self._after != "comma":
                self._after, at = "end", at + 1
            elif sign == b"," and self._after == "element":
                self._after, at = "comma", at + 1
            elif sign in b",]" or self._after == "element":
                raise self._error("a comma belongs between two elements, and nowhere else")
            else:
                stop = _end(data, at)
                if stop is None:
                    break
                line = data[at:stop].rstrip(SPACE)
                found.append(line.replace(b"\n", b" ").replace(b"\r", b" ") + b"\n")
                self._after, at, self._number = "element", stop, self._number + 1
        self._rest = data[at:]
        if len(self._rest) > LONGEST:
            raise self._error(f"longer than {LONGEST >> 20} MB; is a quote or a bracket missing?")
        if ended and self._after != "end":
            raise self._error("the array is cut off; nothing after the last whole chunk was used")
        return b"".join(found)

    def _error(self, message: str) -> DataError:
        return DataError(f"{self.name}, at element {self._number} of the JSON array: {message}")


def _after_space(data: bytes, at: int) -> int:
    while at < len(data) and data[at] in SPACE:
        at += 1
    return at


def _end(data: bytes, at: int) -> int | None:
    """End of the element that begins here; None if it is not yet known."""
    flat = FLAT.match(data, at)
    if flat is not None:
        return flat.end()
    depth = 0
    for token in TOKEN.finditer(data, at):
        sign = token.group()
        if sign == b'"':  # a text that goes on
            return None
        if depth == 0 and sign in (b",", b"]", b"}"):
            return token.start()
        if sign in (b"{", b"["):
            depth += 1
        elif sign in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                return token.end()
    return None


CELLS = 1 << 23  # of a chunk: its rows times the names of fields in it
TYPES = {"number": pa.float64(), "category": pa.string(), "hash": pa.string()}


class JsonLines:
    """One JSON object per line."""

    header = False

    def opened(self, source: Bytes) -> Elements:
        """Lines of an input that may also be one JSON array."""
        return Elements(source)

    def records(self) -> Objects:
        """Return a walker over records."""
        return Objects(CELLS)

    def begin(self, name: str, header: bytes) -> None:
        """There is no header."""

    def check(self, records: Any, name: str, row: int) -> None:
        """Raise if the walker has found a line that is nested too deeply to be parsed."""
        if records.too_deep:
            raise DataError(f"{name}, row {max(row, 1)}: nested deeper than 64 brackets")

    def parse(
        self, piece: RecordBlock, name: str, kinds: Mapping[str, str], wanted: Callable[[str], bool]
    ) -> Chunk:
        """Parse whole lines into columns."""
        table = None if b"null" in piece.data or b"NaN" in piece.data else _read(piece, kinds)
        absent: dict[str, Flags] = {}
        columns: dict[str, pa.Array] = {}
        if table is None:
            columns, absent, names = _one_by_one(piece, name, wanted)
        else:
            names = tuple(table.column_names)
            for column in filter(wanted, table.column_names):
                columns[column] = table[column].combine_chunks()
                if columns[column].null_count:
                    absent[column] = columns[column].is_null().to_numpy(zero_copy_only=False)
        require_few(len(columns), name)
        chunk = Chunk(name, piece.first, piece.rows, columns, piece.mark, table=False)
        return replace(chunk, absent=absent, names=names)


def _read(piece: RecordBlock, kinds: Mapping[str, str]) -> pa.Table | None:
    """Table of the lines, or None if pyarrow cannot read them as whole lines."""
    schema = pa.schema([(c, TYPES[kind]) for c, kind in list(kinds.items()) if kind in TYPES])
    try:
        piece.data.decode()
        table = pa.json.read_json(
            pa.BufferReader(piece.data),
            pa.json.ReadOptions(use_threads=False, block_size=min(len(piece.data) + 1, 2**31 - 1)),
            pa.json.ParseOptions(explicit_schema=schema, newlines_in_values=False),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
        return None
    whole = table.num_columns and table.num_rows == piece.rows
    return table if whole and all(map(_simple, table.columns)) else None


def _simple(column: pa.ChunkedArray) -> bool:
    """Whether a column is bit-identical to that of parsing line by line."""
    if pa.types.is_floating(column.type):  # whole numbers may have lost digits beside fractions
        return not pc.any(pc.greater_equal(pc.abs(column), 2.0**53)).as_py()
    return not (pa.types.is_temporal(column.type) or pa.types.is_nested(column.type))


def _one_by_one(
    piece: RecordBlock, name: str, wanted: Callable[[str], bool]
) -> tuple[dict[str, pa.Array], dict[str, Flags], tuple[str, ...]]:
    """Columns of the lines, the rows without each column, and all names."""
    values: dict[str, list[Any]] = {}
    names: dict[str, None] = {}
    absent: dict[str, Flags] = {}
    row = 0
    for line in piece.data.split(b"\n"):
        if not line.strip():
            continue
        for column, value in _object(line, name, piece.first + row).items():
            names[column] = None
            if not wanted(column):
                continue
            if column not in values:
                values[column] = [None] * piece.rows
                absent[column] = np.ones(piece.rows, dtype=bool)
            values[column][row] = value
            absent[column][row] = False
        row += 1
    where = name, piece.first
    return {c: _column(c, v, *where) for c, v in values.items()}, absent, tuple(names)


def _object(line: bytes, name: str, row: int) -> dict[str, Any]:
    try:
        value = json.loads(line.decode(), object_pairs_hook=_pairs)
    except (ValueError, RecursionError) as error:
        if str(error).startswith("Exceeds the limit"):  # of Python, for digits
            raise _too_long(line, name, row) from None
        raise DataError(f"{name}, row {row}: not a JSON object: {str(error)[:100]}") from None
    if not isinstance(value, dict):
        raise DataError(f"{name}, row {row}: expected a JSON object, got {str(value)[:40]!r}")
    return value


def _too_long(line: bytes, name: str, row: int) -> DataError:
    """Return the error about an integer with more digits than Python reads."""
    most = sys.get_int_max_str_digits()
    values = json.loads(line.decode(), parse_int=lambda text: None if len(text) > most else 0)
    where = f"{name}, row {row}"
    if isinstance(values, dict):
        where += f", column {next((c for c, v in values.items() if v is None), '')!r}"
    return DataError(f"{where}: an integer of more than {most:,} digits; write it as text")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"field {name!r} occurs twice")
            seen.add(name)
    return result


def _column(column: str, values: list[Any], name: str, first: int) -> pa.Array:
    """Numbers if all values are, booleans if all are, else text."""
    kinds = {type(value) for value in values if value is not None}
    for i, value in enumerate(values):
        if isinstance(value, (dict, list)):
            raise DataError(
                f"{name}, row {first + i}, column {column!r}: nested values cannot be learned",
                Suggestion("flatten them first"),
                Suggestion("leave the column out", "columns", {column: "drop"}),
            )
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if kinds == {int} and all(v is None or abs(v) < 2**63 for v in values):
        return pa.array(values, pa.int64())
    if kinds <= {int, float}:
        large = [i for i, v in enumerate(values) if isinstance(v, int) and abs(v) > 2**53]
        if large:
            shown = str(values[large[0]])
            shown = shown if len(shown) <= 60 else f"{shown[:60]}..."
            raise DataError(
                f"{name}, row {first + large[0]}, column {column!r}: {shown} has more digits than "
                "a float can hold; write it as text, or shorten it"
            )
        return pa.array([None if v is None else float(v) for v in values], pa.float64())
    try:
        return pa.array([_text(value) for value in values], pa.string())
    except (UnicodeEncodeError, pa.ArrowInvalid):
        raise DataError(
            f"{name}, column {column!r}, in rows from {first}: text that is not Unicode (half of a "
            "surrogate pair)"
        ) from None


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    whole = isinstance(value, float) and value.is_integer()
    return json.dumps(int(value) if whole else value)
