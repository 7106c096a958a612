"""Records of inputs: how many rows of which input were learned, and which input is which."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from xxhash import xxh3_128

from counterpoise.arrays import Flags
from counterpoise.encoding import cell_parsing
from counterpoise.encoding.column_values import missing_columns
from counterpoise.encoding.columns import Feature
from counterpoise.encoding.encoder import ColumnEncoder
from counterpoise.encoding.kinds import KINDS
from counterpoise.errors import DataError, OptionValue, Suggestion
from counterpoise.readers.byte_source import is_regular_file
from counterpoise.readers.chunk import Chunk, ReadPosition, Source, prefetch
from counterpoise.readers.columnar import ColumnarSource
from counterpoise.readers.database import split_address

Ranges = tuple[tuple[int, int], ...]  # from the first, counted from 0, to before the last


def count(ranges: Ranges) -> int:
    """Return the number of rows."""
    return sum(stop - start for start, stop in ranges)


def contains(ranges: Ranges, rows: NDArray[np.intp]) -> Flags:
    """Return which rows, by their numbers (n,), are in ranges, (n,)."""
    starts = np.array([start for start, _ in ranges], dtype=np.intp)
    stops = np.array([0, *(stop for _, stop in ranges)], dtype=np.intp)
    result: Flags = rows < stops[np.searchsorted(starts, rows, side="right")]
    return result


def add_rows(ranges: Ranges, rows: Iterable[int]) -> Ranges:
    """Return ranges with more rows, by their numbers."""
    result: list[tuple[int, int]] = []
    for start, stop in sorted([*ranges, *((row, row + 1) for row in rows)]):
        if result and start <= result[-1][1]:
            result[-1] = result[-1][0], max(result[-1][1], stop)
        else:
            result.append((start, stop))
    return tuple(result)


def remove_rows(ranges: Ranges, rows: Iterable[int]) -> Ranges:
    """Return ranges without some rows, by their numbers."""
    removed = sorted(set(rows))
    result: list[tuple[int, int]] = []
    for start, stop in ranges:
        for row in (row for row in removed if start <= row < stop):
            result.append((start, row))
            start = row + 1
        result.append((start, stop))
    return tuple(one for one in result if one[0] < one[1])


MAX_LISTED_INPUTS = 4  # in a message


def format_inputs(keys: Iterable[str]) -> str:
    """Return the names of the first inputs as text, and how many more there are."""
    names = list(keys)
    more = len(names) - MAX_LISTED_INPUTS
    listed = ", ".join(names[:MAX_LISTED_INPUTS]) or "none"
    return f"{listed} and {more:,} more" if more > 0 else listed


FRAMES = "-frames"  # the name of all frames in the records; no file and no pipe has it
PENDING = "-pending"  # the name of the store of pending events in the records
MAX_REPEAT_COUNT = 1_000_000  # of the rows of an input
MAX_RECENT_SCORES = 10_000  # of the last rows


@dataclass(frozen=True)
class Record:
    """Record of the rows that were learned from one input."""

    mark: ReadPosition = field(default_factory=ReadPosition)  # how far it was read
    starts: tuple[str, ...] = ()  # hashes of its first rows, which identify it
    dropped: int = 0  # rows that were left out because values are missing
    times: int = 1  # number of merged models that have learned it
    gone: Ranges = ()  # rows that were unlearned since
    relabeled: tuple[tuple[Any, Ranges], ...] = ()  # rows by their present label, if it was changed

    def begins_like(self, starts: tuple[str, ...]) -> bool:
        """Return whether an input with these hashes of its first rows begins like this one."""
        both = min(len(starts), len(self.starts))
        return both > 0 and starts[both - 1] == self.starts[both - 1]


class UnfiledRows(NamedTuple):
    """Rows that were learned or unlearned separately from the inputs."""

    rows: int = 0  # rows learned minus rows unlearned
    hashes: tuple[str, ...] = ()  # of unlearned pipes, which cannot be unlearned twice


class Window(NamedTuple):
    """Progressive scores of rows after the last line of a metrics file."""

    rows: int  # rows that had ever been learned when the last line was written
    counts: tuple[tuple[Any, Any, int], ...] = ()  # true label, predicted label, number of rows


def input_key(path: str, owner: str, stdin_name: str | None = None) -> str:
    """Return the name of an input in the records of the file ``owner``.

    A file has its path relative to the folder of that one; only standard input begins with ``-``.
    """
    if path == "-":
        return f"- {stdin_name}" if stdin_name else "-"
    before, file, rows = split_address(path)
    if before:
        return f"{before}{input_key(file, owner)}{rows}" if file else before
    real = os.path.realpath(path)
    if os.path.exists(path) and not os.path.exists(real):  # /dev/fd/63: a pipe has no name
        real = os.path.abspath(path)
    try:
        key = os.path.relpath(real, os.path.dirname(os.path.realpath(owner)))
    except ValueError:  # on another drive
        key = real
    return os.path.join(".", key) if key.startswith("-") else key


def cannot_unlearn_error(path: str) -> DataError:
    """Return the error that an averaging model cannot unlearn."""
    return DataError(
        f"{path} contains an averaging model, which cannot unlearn: the rows that it stores depend "
        "on the order of all rows",
        Suggestion("learn a model that begins with its best candidate: {}", "feature_map", path),
    )


def fits(feature: Feature, encoding: ColumnEncoder) -> bool:
    """Return whether a feature could have come from the columns of an encoder."""
    kind, columns = encoding.kinds.get(feature.column), encoding.columns
    if feature.kind == "missing":
        is_possible = feature.value == ""
    else:
        is_possible = kind in KINDS and KINDS[kind].has_feature(feature, columns)
    return is_possible and columns.feature(feature.column)


SIGNAL_GRACE_SECONDS = 0.1  # by which a signal may come after the end of the pipe it broke
MIN_MATCHING_ROWS = 16  # rows that are equal in two files not by coincidence


class Records(dict[str, Record]):
    """Records of inputs by name: paths relative to the folder of the model or ledger file."""

    @property
    def rows(self) -> int:
        """Rows read so far, those dropped included."""
        return sum(record.mark.rows for record in self.values())

    @property
    def learned_rows(self) -> int:
        """Rows that count, as often as they count."""
        return sum(
            (record.mark.rows - record.dropped - count(record.gone)) * record.times
            for record in self.values()
        )

    def position(self, key: str) -> ReadPosition:
        """Return how far an input was read."""
        return self.get(key, Record()).mark

    def has_other_rows(self, key: str) -> bool:
        """Return whether rows of other inputs were read; all frames count as others."""
        return any(one.mark.rows for name, one in self.items() if name != key or key == FRAMES)

    def advance(self, key: str, chunk: Chunk, dropped: int) -> None:
        """Record that a chunk of an input was learned, except for ``dropped`` rows."""
        before = self.get(key, Record(starts=chunk.starts))
        self[key] = replace(before, mark=chunk.mark, dropped=before.dropped + dropped)

    def check_new(self, chunk: Chunk, key: str, allow_overlap: bool) -> None:
        """Raise if the rows of a chunk may not be learned as the next ones of an input."""
        record = self.get(key)
        if record is not None and record.times > 1:
            raise DataError(
                f"{chunk.source} has grown, but its rows count {record.times} times since models "
                "were merged; put the new rows into a file of their own"
            )
        if record is not None or allow_overlap:
            return
        for other, one in self.items():
            if one.begins_like(chunk.starts):
                raise DataError(
                    f"{chunk.source} begins with the same rows as {other}, which was already "
                    "learned",
                    Suggestion("to learn them again, use {}", "allow_overlap", True),
                )

    def identify(
        self,
        source: Source,
        key: str,
        encoding: ColumnEncoder,
        owner: str,
        present: Mapping[str, Source] | None = None,
    ) -> str | None:
        """Find an input by its content, and give its record the name ``key`` that it has now.

        ``owner`` is the model or ledger file, and ``present`` the inputs of the same command by
        name, which keep their records. Return the former name; None if it was never learned.
        """
        former = self._find(source, key, encoding, owner, present)
        if former is not None and former != key:
            displaced = former if not former.startswith("-") else f"{key} before"
            swap = {former: key, key: displaced}
            renamed = {swap.get(name, name): one for name, one in self.items()}
            self.clear()
            self.update(renamed)
        return former

    def new_inputs(
        self,
        inputs: Iterable[tuple[Source, str]],
        encoding: ColumnEncoder,
        owner: str,
        stop: Callable[[], bool],
        allow_overlap: bool,
    ) -> Iterator[tuple[Source, str, str | None]]:
        """Yield inputs with their names and their former names, until ``stop`` returns true.

        Unless they may overlap, inputs are identified by their content.
        """
        inputs = list(inputs)
        present = {key: source for source, key in inputs}
        for source, key in inputs:
            if stop():
                return
            former = None
            if not (allow_overlap or key.startswith("-")):
                former = self.identify(source, key, encoding, owner, present)
            yield source, key, None if former == key else former

    def _find(
        self,
        source: Source,
        key: str,
        encoding: ColumnEncoder,
        owner: str,
        present: Mapping[str, Source] | None,
    ) -> str | None:
        """Return the name under which an input was learned, completely or in part."""
        mine = key if key in self else None
        if not self or not os.path.isfile(source.path):  # a pipe is read once
            return mine
        folder, wanted = os.path.dirname(os.path.realpath(owner)), encoding.columns.is_needed
        starts = source.starts(wanted)
        if mine is not None and self[key].begins_like(starts):
            return mine
        for other, record in self.items():
            if not is_prefix(record, source, starts, wanted):
                continue
            named = (present or {}).get(other)
            if named is not None and os.path.isfile(named.path):
                left, is_unchanged = named.left, record.begins_like(named.starts(wanted))
                named.left = left
                if is_unchanged:
                    continue  # the other input is present too, under its own name
            elif present is not None and _may_be_coincidence(
                source, os.path.join(folder, other), record.mark, encoding
            ):
                continue
            return other
        return mine


def read_ahead(
    chunks: Iterator[Chunk], source: Source, stop: Callable[[], bool]
) -> Iterator[Chunk]:
    """Yield the chunks of an input until ``stop`` returns true; another thread reads if it may.

    ``stop`` is called at the end of each chunk and while no data arrives.
    """
    patience = 0.0 if is_regular_file(source.path) else SIGNAL_GRACE_SECONDS
    try:
        if source.reads_ahead:
            chunks = prefetch(chunks, stop=stop)
        for chunk in takewhile(lambda _: not stop(), chunks):
            if chunk.last and _stops_soon(stop, patience):
                return
            yield chunk
    except ValueError:
        if not _stops_soon(stop, patience):
            raise


def _stops_soon(stop: Callable[[], bool], patience: float) -> bool:
    """Return whether ``stop`` returns true within ``patience`` seconds.

    Ctrl-C is sent to all processes of a pipeline. The writer may end in the middle of a row, and
    the end of the pipe may be read here before the signal arrives.
    """
    until = time.monotonic() + patience
    while not stop():
        if time.monotonic() >= until:
            return False
        time.sleep(0.01)
    return True


def is_prefix(
    record: Record, source: Source, starts: tuple[str, ...], wanted: Callable[[str], bool]
) -> bool:
    """Return whether the rows of a record are the first rows of an input."""
    if not record.begins_like(starts):
        return False
    try:
        source.verify(record.mark, wanted)
    except DataError:
        return False
    return True


def read_also(
    source: Source, wanted: Callable[[str], bool], names: Iterable[str | None]
) -> Callable[[str], bool]:
    """Return a function that selects ``wanted`` columns, and ``names`` without hashing them."""
    more = frozenset(name for name in names if name is not None and not wanted(name))
    if isinstance(source, ColumnarSource):
        source.unhashed = more
    return lambda name: name in more or wanted(name)


def concatenate_positions(one: ReadPosition, two: ReadPosition) -> ReadPosition:
    """Return the position after the rows of two inputs that cannot be read again."""
    both = xxh3_128((one.hash + two.hash).encode()).hexdigest()
    return ReadPosition(one.rows + two.rows, 0, both)


def _may_be_coincidence(
    source: Source, path: str, mark: ReadPosition, encoding: ColumnEncoder
) -> bool:
    """Return whether an input may begin with the few rows of another by coincidence."""
    apart = os.path.isfile(path) and not os.path.samefile(path, source.path)
    if mark.rows >= MIN_MATCHING_ROWS or not mark.size or not apart:
        return False
    with open(path, "rb") as one, open(source.path, "rb") as two:
        if one.read(mark.size) != two.read(mark.size):
            return False  # the other input was moved, and another file has its name now
    left, columns = source.left, encoding.columns
    kinds = columns.read({**columns.explicit_types, **encoding.kinds})
    first = next(iter(source.chunks(mark.rows + 1, ReadPosition(), kinds, columns.is_needed)), None)
    source.left = left
    return first is not None and first.rows > mark.rows  # else it is a copy


@dataclass(frozen=True)
class RowFilter:
    """Conditions that a row must meet, all of them."""

    # values that each column must equal, all of them; integers of any size are compared exactly
    values: Mapping[str, tuple[str, ...]]

    def __str__(self) -> str:
        pairs = [(name, value) for name, values in self.values.items() for value in values]
        return " and ".join(f"{name} {value!r}" for name, value in pairs)

    def kinds(self, kinds: Mapping[str, str]) -> dict[str, str]:
        """Return kinds of columns for a reader, which then keeps every digit of large integers."""
        large = {name for name, values in self.values.items() if any(map(_is_large, values))}
        return {name: kind for name, kind in kinds.items() if name not in large}

    def select(self, chunk: Chunk) -> Flags:
        """Return which rows of a chunk meet them, (rows,); a table must have each column."""
        for name in self.values if chunk.table else ():
            column_of(chunk, name, "where")
        return self.match(chunk.columns, chunk.rows)

    def match(self, columns: Mapping[str, Any], rows: int) -> Flags:
        """Return which rows of columns meet them, (rows,); none where a column does not exist."""
        result = np.ones(rows, dtype=bool)
        for name, values in self.values.items():
            for value in values:
                result &= _equals(columns[name], value) if name in columns else False
        return result


def _equals(column: Any, value: str) -> Flags:
    """Return where a column equals a value, (rows,)."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        try:
            number = float(value) if pa.types.is_floating(kind) else _integer(value)
            same = pc.equal(column, pa.scalar(number, kind))
        except (ValueError, OverflowError):  # not a number of this type
            return np.zeros(len(column), dtype=bool)
    else:
        same = pc.equal(column.cast(pa.string()), value)
    return np.asarray(pc.fill_null(same, False).to_numpy(zero_copy_only=False), dtype=bool)


def _integer(value: str) -> int:
    """Return the integer of a text such as 5, 5.0 or 5e3; raise ValueError for other text."""
    try:
        return int(value)
    except ValueError:
        number = float(value)
        if not number.is_integer():
            raise
        return int(number)


def _is_large(value: str) -> bool:
    """Return whether a value is a number that a float may not represent exactly."""
    try:
        return abs(float(value)) >= 2.0**53
    except ValueError:
        return False


MAX_ID_LENGTH = 1000  # characters of an id
COMPLETE = Suggestion("fill it in or drop the row")


def ids_of(chunk: Chunk, name: str) -> list[str]:
    """Return the ids of the rows of a chunk, or raise if one is missing."""
    values = texts_of(chunk, name, "id")
    for row, value in enumerate(values):
        if not value or len(value) > MAX_ID_LENGTH:
            what = f"an id of {len(value):,} characters" if value else "no id"
            raise chunk.error(row, f"{what} in column {name!r}", COMPLETE)
    return values


def texts_of(chunk: Chunk, name: str, what: str) -> list[str]:
    """Return a column as text, or raise if a value is missing; ``what`` is "id" or "label"."""
    column_of(chunk, name, what)
    text = cell_parsing.texts(chunk, name)
    if text.null_count:
        row = int(text.is_null().to_numpy(zero_copy_only=False).argmax())
        raise chunk.error(row, f"no {what} in column {name!r}", COMPLETE)
    values: list[str] = text.to_pylist()
    return values


class IdRows(dict[str, str]):
    """Input and row of each id that was read."""

    def add(self, chunk: Chunk, name: str, before: Mapping[str, str] | None = None) -> list[str]:
        """Return the ids of a chunk; raise if one is missing, or was read already or before."""
        ids = ids_of(chunk, name)
        for row, one in enumerate(ids):
            first = self.get(one) or (before or {}).get(one)
            if first is not None:
                raise duplicate_id_error(chunk, row, name, one, first)
            self[one] = chunk.row_name(row)
        return ids


def column_of(chunk: Chunk, name: str, option: str) -> pa.Array:
    """Return a column that an option names, or raise if it does not exist."""
    if name not in chunk.columns:
        raise missing_columns(chunk, [name], "named by ", OptionValue(option))
    return chunk.columns[name]


def duplicate_id_error(chunk: Chunk, row: int, name: str, value: str, before: str) -> DataError:
    """Return the error of an id that another row has."""
    remedy = Suggestion("each row needs an id of its own: correct it or drop the row")
    return chunk.error(row, f"{name} {value!r} is also that of {before}", remedy)
