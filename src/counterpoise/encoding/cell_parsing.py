"""Columns of cells as numbers, text or seconds; a cell that cannot be one is an error.

Missing values come out as NaN or null. Booleans are text: ``true`` and ``false``. Numbers and
dates in another notation (``12,5``, ``$1,234.50``, ``31.12.2024``) are text too, unless an option
specifies the notation; :func:`find_formatted` detects them.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from counterpoise.arrays import Flags, Vector
from counterpoise.encoding._stack import text_codes
from counterpoise.errors import OptionValue, Suggestion
from counterpoise.readers.chunk import Chunk

CORRECT = (Suggestion("correct it"),)
OTHER_TIME = (*CORRECT, Suggestion("choose another column with {}", "timestamp"))
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
DAY_SECONDS = 86_400
HEAD_CELLS = 64  # of a column, which are tried before all of them
CURRENCY_SYMBOLS = "$€£¥₹"
THOUSANDS_SEPARATORS = "'’ \u00a0\u202f"  # of thousands, in addition to comma and point
MONTH = "(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
CLOCK = r"\d{1,2}:\d{2}(?::\d{2})?(?: ?[ap]m)?"
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
THOUSANDS = re.compile(rf"[+-]?\d{{1,3}}(?:[,{THOUSANDS_SEPARATORS}]\d{{3}})+(?:\.\d+)?")
COMMA = re.compile(rf"[+-]?(?:\d+|\d{{1,3}}(?:[.{THOUSANDS_SEPARATORS}]\d{{3}})+),\d+")
SIMPLE = re.compile(r"[+-]?\d+,\d+")
DECORATED_NUMBER = re.compile(
    rf"[+-]?\s*[{CURRENCY_SYMBOLS}]\s*(.*\d)|([+-]?\d.*?)\s*[{CURRENCY_SYMBOLS}%]"
)
DATE = re.compile(
    rf"(?:\d{{1,2}}([./-])\d{{1,2}}\1(?:\d{{4}}|\d{{2}})|\d{{4}}([./])\d{{1,2}}\2\d{{1,2}}"
    rf"|\d{{1,2}}[ -]{MONTH}[ -]\d{{2,4}}|{MONTH} \d{{1,2}},? \d{{4}})(?:[ T,]+{CLOCK})?|{CLOCK}",
    re.IGNORECASE,
)
PATTERNS = (("date", DATE), ("symbols", THOUSANDS), ("comma", COMMA), ("number", NUMBER))


class FormattedNumbers(NamedTuple):
    """Cells of text that look like numbers or dates in another notation."""

    found: int  # number of different ones
    is_most: bool  # whether more than half of all cells look so, or are numbers
    example: str  # one of them
    other: str  # one that does not look so; empty if all do
    remedy: Suggestion  # how to read them


def find_formatted(name: str, values: Iterable[str], is_text: bool) -> FormattedNumbers:
    """Count values that look like formatted numbers or dates, with plain numbers if ``is_text``."""
    found: dict[str, list[str]] = {kind: [] for kind in ("", *dict(PATTERNS))}
    for value in values:
        text = value.strip()
        inner = DECORATED_NUMBER.fullmatch(text)
        kind = next((kind for kind, pattern in PATTERNS if pattern.fullmatch(text)), "")
        if not kind and inner is not None:
            bare = inner[1] or inner[2]
            kind = next((kind for kind, one in PATTERNS[1:] if one.fullmatch(bare)), "")
            kind = "symbols" if kind == "number" else kind
        found[kind].append(text)
    formatted = [*found["date"], *found["comma"], *found["symbols"]]
    as_number = OptionValue("columns", {name: "number"})
    if found["date"]:
        shape = OptionValue("time_format", _format(found["date"]))
        remedy = Suggestion("read them", "columns", {name: "datetime"}, also=(shape,))
    elif found["comma"]:
        is_simple = all(SIMPLE.fullmatch(text) for text in found["comma"])
        remedy = Suggestion("read them", "decimal", ",", also=() if is_simple else (as_number,))
    else:
        remedy = Suggestion("read them", *as_number)
    return FormattedNumbers(
        len(formatted) + (len(found["number"]) if is_text else 0),
        len(formatted) + len(found["number"]) > len(found[""]),
        (formatted or found["number"] or [""])[0],
        (found[""] or [""])[0],
        remedy,
    )


def _format(dates: list[str]) -> str:
    """Return a format that probably reads all of some dates."""
    text = dates[0]
    clock = re.search(CLOCK, text, re.IGNORECASE)
    time = ""
    if clock is not None:
        noon = " %p" if " " in clock[0] else "%p" if clock[0][-1] in "mM" else ""
        time = ("%I" if noon else "%H") + ":%M" + (":%S" if clock[0].count(":") > 1 else "") + noon
    day = text if clock is None else text[: clock.start()]
    word = re.search(MONTH, day, re.IGNORECASE)
    if word is not None:
        day = day.replace(word[0], "%b" if len(word[0]) == 3 else "%B")
        day = re.sub(r"\d{4}", "%Y", day)
        return (
            re.sub(r"(?<!%)\d{1,2}(?= |-|,)", "%d", re.sub(r"\d{2}(?=[ T,]*$)", "%y", day)) + time
        )
    parts = re.match(r"(\d+)(.)(\d+).(\d+)(.*)", day)
    if parts is None:
        return time
    delimiter = parts[2]
    if len(parts[1]) == 4:
        return f"%Y{delimiter}%m{delimiter}%d{parts[5]}{time}"
    year = "%Y" if len(parts[4]) == 4 else "%y"
    seconds = [int(match[1]) for one in dates if (match := re.match(r"\d+.(\d+)", one))]
    first = f"%m{delimiter}%d" if max(seconds) > 12 else f"%d{delimiter}%m"
    return f"{first}{delimiter}{year}{parts[5]}{time}"


def kind_of(chunk: Chunk, name: str, decimal: str = ".") -> str | None:
    """Return what the cells of one chunk are: "number", "category", "epoch" for times, or None."""
    column = chunk.columns[name]
    if column.null_count == len(column):
        return None
    if pa.types.is_floating(column.type) or pa.types.is_integer(column.type):
        return "number"
    if pa.types.is_temporal(column.type):
        return "epoch"
    if pa.types.is_boolean(column.type):
        return "category"
    if chunk.cells and _casts(partial(_number, decimal=decimal), column):
        return "number"
    # Dates would be as many categories as there are days.
    return "epoch" if _casts(_moment, column) else "category"


def numbers(
    chunk: Chunk,
    name: str,
    remedies: Sequence[Suggestion] = CORRECT,
    decimal: str = ".",
    has_symbols: bool = False,
) -> Vector:
    """Return cells as numbers (rows,), NaN where missing.

    With ``has_symbols``, symbols of currencies and thousands separators are removed from text.
    ``remedies`` are those of a cell that is not a number.
    """
    column = chunk.columns[name]
    if not pa.types.is_floating(column.type):
        read = partial(_number, decimal=decimal, has_symbols=has_symbols)
        column = _convert(read, chunk, name, "a number", remedies)
    result: Vector = column.to_numpy(zero_copy_only=False)
    return result


def whole(chunk: Chunk, name: str) -> tuple[NDArray[np.int64], Flags]:
    """Return cells as integers (rows,), and where they are missing (rows,)."""
    column = chunk.columns[name]
    if pa.types.is_signed_integer(column.type):
        missing = column.is_null().to_numpy(zero_copy_only=False)
        values = column.fill_null(0) if column.null_count else column
        return values.to_numpy().astype(np.int64, copy=False), missing
    if pa.types.is_string(column.type) or pa.types.is_integer(column.type):
        text = _strip_sign(texts(chunk, name))
        if _casts(lambda cells: cells.cast(pa.int64()), text):
            gone = text.is_null().to_numpy(zero_copy_only=False)
            return text.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), gone
    x = numbers(chunk, name)
    gone = np.isnan(x)
    with np.errstate(invalid="ignore"):
        values = x.astype(np.int64)

    def problem(row: int) -> str:
        what = "is not an integer" if values[row] != x[row] else "has too many digits"
        must = "a label must be text, an integer or a boolean"
        return f"label {x[row]:g} in column {name!r} {what}, and {must}"

    other = Suggestion("choose another column with {}", "label")
    as_text = Suggestion("make each value a class with {}", "columns", {name: "category"})
    chunk.refuse(~gone & ((values != x) | (np.abs(x) > 2.0**53)), problem, other, as_text)
    return values, gone


def texts(chunk: Chunk, name: str) -> pa.Array:
    """Return cells as text, null where missing; integers have no decimal point."""
    column = chunk.columns[name]
    if not pa.types.is_floating(column.type):
        return column if pa.types.is_string(column.type) else column.cast(pa.string())
    values = (None if v is None or v != v else v for v in column.to_pylist())
    shown = (v if v is None else str(int(v)) if v.is_integer() else repr(v) for v in values)
    return pa.array(shown, pa.string())


def coded_texts(chunk: Chunk, name: str) -> tuple[NDArray[np.intp], list[str]]:
    """Return the code of each cell as text, −1 where missing, and the texts by their codes."""
    column = texts(chunk, name)
    if len(column) and not column.null_count:
        _, ends, content = column.buffers()
        at = slice(column.offset, column.offset + len(column) + 1)
        if content is not None and content.size:
            few = text_codes(np.frombuffer(ends, np.int32)[at], np.frombuffer(content, np.uint8))
            if few is not None:
                return few[0], [column[row].as_py() for row in few[1]]
    coded = column.dictionary_encode()
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return codes, coded.dictionary.to_pylist()


def seconds(
    chunk: Chunk,
    name: str,
    remedies: Sequence[Suggestion] = CORRECT,
    time_format: str | None = None,
) -> Vector:
    """Return dates and times as seconds since 1970 (rows,), numbers as they are, NaN where missing.

    ``time_format`` is the format of dates, if not ISO 8601.
    """
    column = chunk.columns[name]
    if pa.types.is_string(column.type) and time_format is not None:
        read = partial(_parse_times, time_format=time_format)
        column = _convert(read, chunk, name, f"a date like {time_format}", remedies)
    elif pa.types.is_string(column.type):
        with suppress(pa.ArrowInvalid):
            return seconds_of(column.cast(pa.timestamp("us")))
        if _casts(_number, column):
            return numbers(chunk, name, remedies)
        column = _convert(_moment, chunk, name, "a date or time like 2024-12-31 23:59", remedies)
    return (
        seconds_of(column) if pa.types.is_temporal(column.type) else numbers(chunk, name, remedies)
    )


def seconds_of(column: pa.Array) -> Vector:
    """Return dates, times or durations as seconds (rows,), NaN where missing.

    Whole seconds and the fraction are divided separately, so that the same time has the same
    seconds in every unit and in every year.
    """
    kind = column.type
    count = column.view(f"int{kind.bit_width}").fill_null(0).to_numpy(zero_copy_only=False)
    if pa.types.is_date32(kind):
        values = count * float(DAY_SECONDS)
    else:
        unit = UNITS[getattr(kind, "unit", "ms")]
        fraction = np.fmod(count, count.dtype.type(unit))
        values = ((count - fraction) // unit).astype(np.float64) + fraction / float(unit)
    if column.null_count:
        values[column.is_null().to_numpy(zero_copy_only=False)] = np.nan
    result: Vector = values
    return result


def _number(column: pa.Array, decimal: str = ".", has_symbols: bool = False) -> pa.Array:
    if not pa.types.is_string(column.type):
        return column.cast(pa.float64(), safe=False)
    if decimal == "." and not has_symbols:
        with suppress(pa.ArrowInvalid):  # faster where no cell has a plus sign
            return column.cast(pa.float64())
    text = _strip_sign(column)
    if has_symbols:
        text = _strip_decorations(text, decimal)
    if decimal != ".":
        if pc.any(pc.match_substring(text, ".")).as_py():
            raise pa.ArrowInvalid("a point, where the decimal separator is another one")
        text = pc.replace_substring(text, decimal, ".")
    return text.cast(pa.float64())


def _strip_decorations(text: pa.Array, decimal: str) -> pa.Array:
    """Return numbers without symbols of currencies, % and thousands separators."""
    text = pc.replace_substring_regex(text, rf"^([+-]?)\s*[{CURRENCY_SYMBOLS}]\s*", r"\1")
    text = pc.replace_substring_regex(text, rf"\s*[{CURRENCY_SYMBOLS}%]$", "")
    separators = THOUSANDS_SEPARATORS + ("." if decimal == "," else ",")
    grouped = rf"^[+-]?\d{{1,3}}([{separators}]\d{{3}})+([{decimal}]\d+)?$"
    closed = pc.replace_substring_regex(text, f"[{separators}]", "")
    return pc.if_else(pc.match_substring_regex(text, grouped), closed, text)


def _parse_times(column: pa.Array, time_format: str) -> pa.Array:
    """Return points in time of text in a format; a 31st of February is an error."""
    text = pc.utf8_trim_whitespace(column)
    moments = pc.strptime(text, format=time_format, unit="us")
    again = pc.strftime(moments, format=time_format)
    shorn = [
        pc.utf8_lower(pc.replace_substring_regex(t, r"\b0+(\d)", r"\1")) for t in (text, again)
    ]
    doubtful = pc.fill_null(pc.not_equal(*shorn), False)
    for cell in text.filter(doubtful).unique().to_pylist():
        try:
            datetime.strptime(cell, time_format)
        except ValueError as error:
            raise pa.ArrowInvalid(str(error)) from None
    return moments


def _strip_sign(column: pa.Array) -> pa.Array:
    """Return text without white space around it and without a plus before it."""
    return pc.replace_substring_regex(pc.utf8_trim_whitespace(column), r"^\+", "")


def _moment(column: pa.Array) -> pa.Array:
    column = pc.utf8_trim_whitespace(column)
    for kind in (pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns")):
        with suppress(pa.ArrowInvalid):
            return column.cast(kind)
    return column.cast(pa.timestamp("ns", "UTC"))


def _casts(convert: Callable[[pa.Array], pa.Array], column: pa.Array) -> bool:
    """Return whether all cells can be converted; the first ones are tried alone, to fail early."""
    with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
        convert(column.slice(0, HEAD_CELLS))
        convert(column)
        return True
    return False


def _convert(
    convert: Callable[[pa.Array], pa.Array],
    chunk: Chunk,
    name: str,
    what: str,
    remedies: Sequence[Suggestion],
) -> Any:
    """Convert a column; raise for the first cell that cannot be converted."""
    column = chunk.columns[name]
    with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return convert(column)
    prefixes = range(1, len(column) + 1)
    row = bisect_left(prefixes, True, key=lambda k: not _casts(convert, column.slice(0, k)))
    cell = str(column[row].as_py())
    shown = cell if len(cell) <= 60 else cell[:60] + "..."
    raise chunk.error(row, f"column {name!r} contains {shown!r}, which is not {what}", *remedies)
