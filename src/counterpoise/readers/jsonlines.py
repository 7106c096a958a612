"""JSON lines, or an array: whole lines parsed by pyarrow, or one by one if necessary.

A field that a row does not have is 0; ``null`` is a missing value. pyarrow's reader does not
distinguish the two, so lines are parsed one by one where ``null`` occurs.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from counterpoise.arrays import Flags
from counterpoise.errors import DataError, Suggestion
from counterpoise.readers._records import Objects, Records
from counterpoise.readers.byte_source import Bytes
from counterpoise.readers.chunk import LONGEST, drop_remedy, require_few
from counterpoise.readers.text_source import RecordBlock, TextFormat

SPACE = b" \t\r\n"
ORDER = b"\xef\xbb\xbf"  # the byte order mark
# A whole object without nested values; else one bracket or text after the other.
FLAT_OBJECT = re.compile(rb'\{(?:[^"{}\[\]]++|"[^"\\]*+(?:\\.[^"\\]*+)*+")*+\}', re.DOTALL)
SPACES = re.compile(rb"[ \t\r\n]*")
TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{\[]|[}\]]|,|"', re.DOTALL)


class Elements:
    """Elements of a JSON array as lines, or the bytes unchanged if the input is not an array."""

    def __init__(self, source: Any) -> None:
        self.source, self.name = source, source.name
        self._array: bool | None = None  # None until enough bytes were read
        self._rest = b""
        self._number = 0  # of the next element
        self._after: str | None = None  # "element", "comma", or "end" of the array

    def read(self, most: int) -> bytes:
        """Read about ``most`` bytes; at most ``most`` if the input is not an array."""
        while True:
            if self._array is False:
                data: bytes = self._rest or self.source.read(most)
                self._rest = b""
                return data
            more = self.source.read(most)
            self._rest += more
            if self._array is None and not self._detect_array(ended=not more):
                continue
            if self._array:
                lines = self._lines(ended=not more)
                if lines or not more:
                    return lines

    def _detect_array(self, ended: bool) -> bool:
        """Return whether enough bytes were read to detect an array."""
        start = self._rest.removeprefix(ORDER).lstrip(SPACE)
        if not ended and (not start or ORDER.startswith(self._rest)):
            return False
        self._array = start.startswith(b"[")
        if self._array:
            self._rest, self._number = start[1:], 1
        return True

    def _lines(self, ended: bool) -> bytes:
        """Return whole elements of the bytes read so far, one per line; keep all other bytes."""
        data, at, found = self._rest, 0, []
        while True:
            at = SPACES.match(data, at).end()  # type: ignore[union-attr]
            if at == len(data):
                break
            if self._after == "end":
                raise self._error("something follows the end of the array")
            token = data[at : at + 1]
            if token == b"]" and self._after != "comma":
                self._after, at = "end", at + 1
            elif token == b"," and self._after == "element":
                self._after, at = "comma", at + 1
            elif token in b",]" or self._after == "element":
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


def _end(data: bytes, at: int) -> int | None:
    """Return the end of the element that begins at an index; None if it was not read yet."""
    flat = FLAT_OBJECT.match(data, at)
    if flat is not None:
        return flat.end()
    depth = 0
    for match in TOKEN.finditer(data, at):
        token = match.group()
        if token == b'"':  # a text that does not end here
            return None
        if depth == 0 and token in (b",", b"]", b"}"):
            return match.start()
        if token in (b"{", b"["):
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                return match.end()
    return None


CELLS = 1 << 23  # of a chunk: its rows times the names of fields in it
TYPES = {"number": pa.float64(), "category": pa.string(), "hash": pa.string()}


class JsonLines(TextFormat):
    """One JSON object per line, or elements of an array."""

    def open(self, source: Bytes) -> Elements:
        """Return lines of an input that may also be one JSON array."""
        return Elements(source)

    def records(self) -> Objects:
        """Return a scanner that counts the names of fields."""
        return Objects(CELLS)

    def check(self, records: Records, name: str, row: int) -> None:
        """Raise if a line is nested too deeply to be parsed."""
        if records.too_deep:
            raise DataError(f"{name}, row {max(row, 1)}: nested deeper than 64 brackets")

    def parse(
        self, block: RecordBlock, name: str, kinds: Mapping[str, str], wanted: Callable[[str], bool]
    ) -> dict[str, Any]:
        """Parse lines into columns, one by one if a value is missing."""
        table = None if b"null" in block.data or b"NaN" in block.data else _read(block, kinds)
        if table is None:
            columns, absent, names = _one_by_one(block, name, wanted)
        else:
            names = tuple(table.column_names)
            columns = {c: table[c].combine_chunks() for c in names if wanted(c)}
            absent = {
                c: column.is_null().to_numpy(zero_copy_only=False)
                for c, column in columns.items()
                if column.null_count
            }
        require_few(len(columns), name)
        return {"columns": columns, "absent": absent, "names": names, "table": False}


def _read(block: RecordBlock, kinds: Mapping[str, str]) -> pa.Table | None:
    """Return a table of the lines, or None if pyarrow cannot read them as whole lines."""
    schema = pa.schema([(c, TYPES[kind]) for c, kind in list(kinds.items()) if kind in TYPES])
    try:
        block.data.decode()
        table = pa.json.read_json(
            pa.BufferReader(block.data),
            pa.json.ReadOptions(use_threads=False, block_size=min(len(block.data) + 1, 2**31 - 1)),
            pa.json.ParseOptions(explicit_schema=schema, newlines_in_values=False),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
        return None
    whole = table.num_columns and table.num_rows == block.rows
    return table if whole and all(map(_simple, table.columns)) else None


def _simple(column: pa.ChunkedArray) -> bool:
    """Return whether a column is bit-identical to that of parsing line by line."""
    if pa.types.is_floating(column.type):  # integers may have lost digits next to fractions
        return not pc.any(pc.greater_equal(pc.abs(column), 2.0**53)).as_py()
    return not (pa.types.is_temporal(column.type) or pa.types.is_nested(column.type))


def _one_by_one(
    block: RecordBlock, name: str, wanted: Callable[[str], bool]
) -> tuple[dict[str, pa.Array], dict[str, Flags], tuple[str, ...]]:
    """Return the columns of the lines, the rows without each column, and all names."""
    values: dict[str, list[Any]] = {}
    names: dict[str, None] = {}
    absent: dict[str, Flags] = {}
    row = 0
    for line in block.data.split(b"\n"):
        if not line.strip():
            continue
        for column, value in _object(line, name, block.first + row).items():
            names[column] = None
            if not wanted(column):
                continue
            if column not in values:
                values[column] = [None] * block.rows
                absent[column] = np.ones(block.rows, dtype=bool)
            values[column][row] = value
            absent[column][row] = False
        row += 1
    where = name, block.first
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
    """Return numbers if all values are numbers, booleans if all are booleans, else text."""
    kinds = {type(value) for value in values if value is not None}
    for i, value in enumerate(values):
        if isinstance(value, (dict, list)):
            raise DataError(
                f"{name}, row {first + i}, column {column!r}: nested values cannot be learned",
                Suggestion("flatten them first"),
                drop_remedy(column),
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
