"""What was learned from a stream: the model, its columns, and how many rows of which input."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from counterpoise.arrays import Counts, Flags, Matrix
from counterpoise.encoding.columns import Feature
from counterpoise.encoding.datetimes import VALUES
from counterpoise.encoding.encoder import ColumnEncoder
from counterpoise.errors import DataError, OptionValue, Suggestion
from counterpoise.modelfile.engines import InferenceModel
from counterpoise.readers.chunk import Chunk, ReadPosition, Source

if TYPE_CHECKING:
    from counterpoise.tables.model_dispatch import Model


Ranges = tuple[tuple[int, int], ...]  # from the first, counted from 0, to before the last


def count(ranges: Ranges) -> int:
    """Return how many rows there are."""
    return sum(stop - start for start, stop in ranges)


def contains(ranges: Ranges, places: NDArray[np.intp]) -> Flags:
    """Return which of some rows, by their numbers, are there.

    Examples
    --------
    >>> from counterpoise.tables.records import contains
    >>> contains(((2, 4), (7, 8)), np.arange(8)).tolist()
    [False, False, True, True, False, False, False, True]
    """
    starts = np.array([start for start, _ in ranges], dtype=np.intp)
    stops = np.array([0, *(stop for _, stop in ranges)], dtype=np.intp)
    result: Flags = places < stops[np.searchsorted(starts, places, side="right")]
    return result


def add_rows(ranges: Ranges, places: Iterable[int]) -> Ranges:
    """Return ranges with more rows, by their numbers.

    Examples
    --------
    >>> from counterpoise.tables.records import add_rows
    >>> add_rows(((2, 4), (7, 8)), [4, 0])
    ((0, 1), (2, 5), (7, 8))
    """
    result: list[list[int]] = []
    for start, stop in sorted([*ranges, *((place, place + 1) for place in places)]):
        if result and start <= result[-1][1]:
            result[-1][1] = max(result[-1][1], stop)
        else:
            result.append([start, stop])
    return tuple((start, stop) for start, stop in result)


def without(ranges: Ranges, places: Iterable[int]) -> Ranges:
    """Return ranges without some rows, by their numbers.

    Examples
    --------
    >>> from counterpoise.tables.records import without
    >>> without(((0, 4), (7, 8)), [2, 7])
    ((0, 2), (3, 4))
    """
    left = sorted(set(places))
    result: list[tuple[int, int]] = []
    for start, stop in ranges:
        for place in (place for place in left if start <= place < stop):
            result.append((start, place))
            start = place + 1
        result.append((start, stop))
    return tuple((start, stop) for start, stop in result if start < stop)


FRAMES = "-frames"  # the name of all frames in the records; no file and no pipe has it
PENDING = "-pending"  # the name of the store of pending events in the records
MAX_REPEAT_COUNT = 1_000_000  # that an input may count
MOST_RECENT = 10_000  # scores of the last rows
M = TypeVar("M")


@dataclass(frozen=True)
class Record:
    """What was learned from one input.

    Attributes
    ----------
    mark : ReadPosition
        How far it was read.
    starts : tuple of str
        Hashes of its first rows, by which it is known if it comes back under another name.
    dropped : int
        Rows that were left out because values are missing.
    times : int
        How often its rows count: models that have both learned it may have been merged.
    gone : tuple of (int, int)
        Ranges of rows, counted from 0, that were taken back since.
    relabeled : tuple of (label, ranges)
        Rows that now count with another label than the input has, by their present label.
    """

    mark: ReadPosition = field(default_factory=ReadPosition)
    starts: tuple[str, ...] = ()
    dropped: int = 0
    times: int = 1
    gone: Ranges = ()
    relabeled: tuple[tuple[Any, Ranges], ...] = ()

    def begins_like(self, starts: tuple[str, ...]) -> bool:
        """Return whether an input with these hashes of its first rows begins like this one."""
        both = min(len(starts), len(self.starts))
        return both > 0 and starts[both - 1] == self.starts[both - 1]


@dataclass(frozen=True)
class UnfiledRows:
    """Rows that were learned or taken back apart from the inputs.

    Attributes
    ----------
    rows : int
        Those learned less those taken back.
    hashes : tuple of str
        Of what was taken back from pipes, so that it is not taken back twice.
    """

    rows: int = 0
    hashes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Window:
    """Progressive scores of rows that no line of a metrics file is about yet.

    Attributes
    ----------
    rows : int
        Rows that had ever been learned when the last line was written.
    counts : tuple of (label, label, int)
        True label, predicted label, and how often since then.
    """

    rows: int
    counts: tuple[tuple[Any, Any, int], ...] = ()


@dataclass(frozen=True, eq=False)
class StoredModel(Generic[M]):
    """What a file that was learned from a stream holds.

    Attributes
    ----------
    model : BalancedRidgeClassifier, AutoClassifier or Learned
        The model, without names of features, or what predictions need of it.
    encoding : Encoding
        How columns become features.
    records : dict of str to Record
        What was learned from where.
    chunk_rows : int
        Rows learned at a time.
    positive : label, optional
        The class that alerts are about.
    settled : int
        Rows that were read when a run last ended.
    recent : ndarray of shape (m, problems), optional
        How the rows that were learned last stand, see :mod:`counterpoise.tables.score_window`.
    window : Window, optional
        What a metrics file does not say yet.
    held : ndarray of shape (d,), optional
        Learned rows that have a value for each feature; None if somebody has not counted.
    unlearned : int
        Rows that were read and unlearned since.
    apart : Apart
        Rows that were learned or taken back apart from the inputs.
    """

    model: M
    encoding: ColumnEncoder
    records: dict[str, Record]
    chunk_rows: int
    positive: Any = None
    settled: int = 0
    recent: Matrix | None = None
    window: Window | None = None
    held: Counts | None = None
    unlearned: int = 0
    apart: UnfiledRows = UnfiledRows()


Stored: TypeAlias = StoredModel["Model"]  # to learn more
Scoring: TypeAlias = StoredModel[InferenceModel]  # to predict


def optional_columns(stored: StoredModel[Any]) -> frozenset[str]:
    """Return the columns that some of the rows of a model did not have, and that were 0 there.

    None of them if nobody has counted.
    """
    if stored.held is None:
        return frozenset()
    records = stored.records.values()
    rows = stored.apart.rows + sum(
        (record.mark.rows - record.dropped - count(record.gone)) * record.times
        for record in records
    )
    there: dict[str, int] = {}
    for feature, held in zip(stored.encoding.features, stored.held.tolist(), strict=True):
        there[feature.column] = there.get(feature.column, 0) + held
    return frozenset(column for column, held in there.items() if held < rows)


def input_key(path: str, model: str) -> str:
    """Return the name of a file in the records of a model: its path relative to the model's folder.

    It never begins with ``-``, as the name of standard input does.
    """
    real = os.path.realpath(path)
    if os.path.exists(path) and not os.path.exists(real):  # /dev/fd/63: a pipe has no name
        real = os.path.abspath(path)
    try:
        key = os.path.relpath(real, os.path.dirname(os.path.realpath(model)))
    except ValueError:  # on another drive
        key = real
    return os.path.join(".", key) if key.startswith("-") else key


def require_learned(stored: Stored, path: str) -> Stored:
    """Return what is stored, or raise if it has learned nothing, or has unlearned it all."""
    if not stored.model.__sklearn_is_fitted__():
        raise empty_model_error(path)
    return stored


def empty_model_error(path: str) -> DataError:
    """Return the error that nothing is left in a file."""
    return DataError(f"{path} is empty: everything that it had learned was unlearned")


def cannot_unlearn_error(path: str) -> DataError:
    """Return the error that a model which chooses cannot unlearn."""
    return DataError(
        f"{path} holds a model that chooses by itself: the rows that it keeps, and by which it "
        "chooses, depend on their order, so that it cannot unlearn",
        Suggestion("learn one that begins with its choice: {}", "feature_map", path),
    )


def fits(feature: Feature, encoding: ColumnEncoder) -> bool:
    """Return whether a feature could have come from the columns as they are known."""
    kind, columns = encoding.kinds.get(feature.column), encoding.columns
    if feature.kind == "bucket":
        possible = kind == "hash" and _is_below(
            feature.value, columns.hashed.get(feature.column, 0)
        )
    elif feature.kind == "category":
        possible = kind == "text"
    else:
        numbers = feature.kind == "missing" or kind in ("number", "time", "date")
        possible = feature.value == "" and numbers
    if feature.kind == "cycle":
        possible = kind == "date" and feature.value in VALUES
    return possible and columns.feature(feature.column)


def _is_below(text: str, most: int) -> bool:
    """Whether a text is a whole number as Python writes it, from 0 to below another."""
    digits = text.isascii() and text.isdigit() and len(text) <= len(str(most))
    return digits and str(int(text)) == text and int(text) < most


MIN_MATCHING_ROWS = 16  # rows that are the same in two files not by chance


def find_known_input(
    source: Source,
    key: str,
    records: Mapping[str, Record],
    encoding: ColumnEncoder,
    folder: str,
    present: Mapping[str, Source] | None = None,
) -> str | None:
    """Under which name an input was learned, wholly or in part.

    ``key`` is its name now, ``folder`` that of the model file, which names are relative to, and
    ``present`` the inputs of the same command by name: they keep their records. None if it was
    never learned.
    """
    mine = key if key in records else None
    if not records or not os.path.isfile(source.path):  # a pipe is read once
        return mine
    wanted = encoding.columns.wanted
    starts = source.starts(wanted)
    if mine is not None and records[key].begins_like(starts):
        return mine
    for other, record in records.items():
        if not record.begins_like(starts):
            continue
        try:
            source.verify(record.mark, wanted)
        except DataError:
            continue  # it only begins like that one
        named = (present or {}).get(other)
        if named is not None and os.path.isfile(named.path):
            left = named.left
            still = record.begins_like(named.starts(wanted))
            named.left = left
            if still:
                continue  # that one is here too, under its own name
        elif present is not None and _may_be_coincidence(
            source, os.path.join(folder, other), record.mark, encoding
        ):
            continue
        return other
    return mine


def check_not_learned(chunk: Chunk, records: Mapping[str, Record]) -> None:
    """Raise if the first rows of an input are those of another that was learned."""
    for other, record in records.items():
        if record.begins_like(chunk.starts):
            raise DataError(
                f"{chunk.source} begins with the same rows as {other}, which was already learned",
                Suggestion("to learn them again, use {}", "allow_overlap", True),
            )


def _may_be_coincidence(
    source: Source, path: str, mark: ReadPosition, encoding: ColumnEncoder
) -> bool:
    """Whether an input may begin with the few rows of another by chance: both are there."""
    apart = os.path.isfile(path) and not os.path.samefile(path, source.path)
    if mark.rows >= MIN_MATCHING_ROWS or not mark.size or not apart:
        return False
    with open(path, "rb") as one, open(source.path, "rb") as two:
        if one.read(mark.size) != two.read(mark.size):
            return False  # it is that one, moved, and another has its name now
    left, columns = source.left, encoding.columns
    kinds = columns.read({**columns.told, **encoding.kinds})
    plain = getattr(source, "source", source)  # so that no id is claimed
    first = next(iter(plain.chunks(mark.rows + 1, ReadPosition(), kinds, columns.wanted)), None)
    source.left = left
    return first is not None and first.rows > mark.rows  # or it is a copy


@dataclass(frozen=True)
class RowFilter:
    """Conditions that a row must meet, all of them.

    Attributes
    ----------
    values : mapping of str to tuple of str
        Values that each column must equal, all of them. Numbers are compared as numbers, integers
        as integers of any size.
    """

    values: Mapping[str, tuple[str, ...]]

    def kinds(self, kinds: Mapping[str, str]) -> dict[str, str]:
        """Return kinds of columns for a reader, which then keeps every digit of large integers."""
        large = {name for name, values in self.values.items() if any(map(_is_large, values))}
        return {name: kind for name, kind in kinds.items() if name not in large}

    def of(self, chunk: Chunk) -> Flags:
        """Return which rows of a chunk are meant, (rows,); each column must be there."""
        offered = chunk.offered or chunk.names or tuple(chunk.columns)
        for name in self.values:
            if chunk.table and name not in chunk.columns:
                has = ", ".join(map(repr, offered[:12]))
                raise DataError(
                    (
                        f"{chunk.source} has no column {name!r}, named by ",
                        OptionValue("where"),
                        f"; it has {has}",
                    )
                )
        return self.among(chunk.columns, chunk.rows)

    def among(self, columns: Mapping[str, Any], rows: int) -> Flags:
        """Return which rows of columns are meant, (rows,); none where a column is not there."""
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
        except (ValueError, OverflowError):  # not such a number, or not one of this type
            return np.zeros(len(column), dtype=bool)
    else:
        same = pc.equal(column.cast(pa.string()), value)
    return np.asarray(pc.fill_null(same, False).to_numpy(zero_copy_only=False), dtype=bool)


def _integer(value: str) -> int:
    """Return the integer that a text is, such as 5, 5.0 or 5e3; raise ValueError if it is none."""
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
