"""Kinds of columns: how the cells of each become values, and which features these make.

To add a kind, add its name to ``COLUMN_KINDS`` in ``encoding/columns.py`` and a class here.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from counterpoise.arrays import Flags, Vector
from counterpoise.encoding import cell_parsing
from counterpoise.encoding.columns import Columns, Feature
from counterpoise.errors import DataError, Suggestion
from counterpoise.readers.chunk import Chunk
from counterpoise.validation import MAX_TIMESTAMP

DAY = 86_400.0
MONDAY = 4 * DAY  # the first one after the beginning of 1970
# The length of each cycle in seconds, and where it begins.
CYCLES = {"day": (DAY, 0.0), "week": (7 * DAY, MONDAY), "year": (365.2425 * DAY, 0.0)}
CYCLE_NAMES = tuple(f"{cycle} {wave}" for cycle in CYCLES for wave in ("sin", "cos"))


def waves(seconds: Vector) -> dict[str, Vector]:
    """Sine and cosine of each phase, by name, of shape (rows,)."""
    result = {}
    for cycle, (length, start) in CYCLES.items():
        phase = np.mod(seconds - start, length) * (2.0 * np.pi / length)
        result[f"{cycle} sin"], result[f"{cycle} cos"] = np.sin(phase), np.cos(phase)
    return result


def times(chunk: Chunk, name: str, kept: Flags, time_format: str | None) -> Vector:
    """When the rows that are kept were, (n,); raise if one does not say."""
    if name not in (chunk.offered if chunk.table else chunk.columns):
        raise DataError(
            f"{chunk.source} has no column {name!r}, the time of each row",
            Suggestion("correct the file"),
        )
    t = _seconds(chunk, name, time_format)
    bad = kept & ~(np.abs(t) < MAX_TIMESTAMP)
    if bad.any():
        row = int(bad.argmax())
        if np.isnan(t[row]):
            raise chunk.error(
                row,
                f"no value in column {name!r}, which says the time; fill it in, or leave the row "
                "out",
            )
        raise chunk.error(
            row,
            f"time {t[row]:g} in column {name!r} is beyond the year 9999; numbers are seconds "
            "since 1970: divide milliseconds by 1000",
        )
    return t[kept]


def _seconds(chunk: Chunk, name: str, time_format: str | None) -> Vector:
    """Times of all rows; those that are written as ISO 8601 has it at once."""
    column = chunk.columns[name]
    if time_format is None and pa.types.is_string(column.type):
        with suppress(pa.ArrowInvalid):
            return cell_parsing.seconds_of(column.cast(pa.timestamp("us")))
    return cell_parsing.seconds(chunk, name, (Suggestion("correct it"),), time_format)


BOOLEAN_TEXT = ("true", "false")


class NumberKind:
    """Numbers: one feature with the value of each row."""

    is_number = True
    plural = "numbers"  # in messages

    def values(
        self, columns: Columns, chunk: Chunk, name: str, remedies: Sequence[Suggestion]
    ) -> Vector:
        """Return the cells of a column as numbers (rows,), NaN where missing."""
        has_symbols = columns.roles.get(name) == "number"
        return cell_parsing.numbers(chunk, name, remedies, columns.decimal, has_symbols)

    def cycles(self, name: str, x: Vector) -> dict[Feature, Vector]:
        """Return further features (rows,) of the values x (rows,)."""
        return {}

    def has_feature(self, feature: Feature, columns: Columns) -> bool:
        """Return whether a feature other than an indicator can be of a column of this kind."""
        return feature.kind == "number" and feature.value == ""

    def accepts(self, kind: pa.DataType) -> bool:
        """Return whether a column of an Arrow type can be learned as this kind."""
        return not (pa.types.is_boolean(kind) or pa.types.is_temporal(kind))

    def initial_features(self, name: str) -> list[Feature]:
        """Return the features that a column has before any of its rows is read."""
        return [Feature(name, "number")]


class EpochKind(NumberKind):
    """Dates and times as seconds since 1970, durations as seconds."""

    def values(
        self, columns: Columns, chunk: Chunk, name: str, remedies: Sequence[Suggestion]
    ) -> Vector:
        """Return the cells of a column as seconds (rows,), NaN where missing."""
        return cell_parsing.seconds(chunk, name, remedies, columns.time_format)

    def accepts(self, kind: pa.DataType) -> bool:
        """Return whether a column of an Arrow type can be learned as this kind."""
        return True


class DatetimeKind(EpochKind):
    """Dates and times as seconds, and as phases of the day, the week and the year."""

    plural = "dates"

    def cycles(self, name: str, x: Vector) -> dict[Feature, Vector]:
        """Return the phases (rows,) of dates x (rows,)."""
        return {Feature(name, "cycle", value): wave for value, wave in waves(x).items()}

    def has_feature(self, feature: Feature, columns: Columns) -> bool:
        """Return whether a feature can be of a column of this kind."""
        is_cycle = feature.kind == "cycle" and feature.value in CYCLE_NAMES
        return is_cycle or super().has_feature(feature, columns)

    def accepts(self, kind: pa.DataType) -> bool:
        """Return whether a column of an Arrow type can be learned as this kind."""
        is_number = pa.types.is_floating(kind) or pa.types.is_integer(kind)
        return not (is_number or pa.types.is_boolean(kind))

    def initial_features(self, name: str) -> list[Feature]:
        """Return the seconds and all phases."""
        return [Feature(name, "number"), *(Feature(name, "cycle", one) for one in CYCLE_NAMES)]


class CategoryKind:
    """Categories: one feature for each."""

    is_number = False
    plural = "text"

    def features(
        self, columns: Columns, name: str, values: list[str], known: Collection[Feature]
    ) -> list[Feature]:
        """Return the feature of each value; ``known`` are features of rows before."""
        return normalize_booleans(name, values, known)

    def has_feature(self, feature: Feature, columns: Columns) -> bool:
        """Return whether a feature other than an indicator can be of a column of this kind."""
        return feature.kind == "category"

    def accepts(self, kind: pa.DataType) -> bool:
        """Return whether a column of an Arrow type can be learned as this kind."""
        is_number = pa.types.is_floating(kind) or pa.types.is_integer(kind)
        return not (is_number or pa.types.is_temporal(kind))

    def initial_features(self, name: str) -> list[Feature]:
        """Return the features that a column has before any of its rows is read."""
        return []


class HashKind(CategoryKind):
    """Categories that share a number of features, which a hash assigns."""

    def features(
        self, columns: Columns, name: str, values: list[str], known: Collection[Feature]
    ) -> list[Feature]:
        """Return the bucket of each value."""
        codes = murmurhash3([value.encode() for value in values], columns.seed)
        numbers = (codes.astype(np.int64) % columns.buckets[name]).tolist()
        return [Feature(name, "bucket", str(number)) for number in numbers]

    def has_feature(self, feature: Feature, columns: Columns) -> bool:
        """Return whether a feature can be of a column of this kind."""
        text, count = feature.value, columns.buckets.get(feature.column, 0)
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(count))
        is_bucket = is_number and str(int(text)) == text and int(text) < count
        return feature.kind == "bucket" and is_bucket

    def accepts(self, kind: pa.DataType) -> bool:
        """Return whether a column of an Arrow type can be learned as this kind."""
        return True


KINDS: dict[str, Any] = {
    "number": NumberKind(),
    "epoch": EpochKind(),
    "datetime": DatetimeKind(),
    "category": CategoryKind(),
    "hash": HashKind(),
}


def is_number(kind: str | None) -> bool:
    """Return whether columns of a kind are read as numbers."""
    return kind in KINDS and KINDS[kind].is_number


def is_text(kind: str | None) -> bool:
    """Return whether columns of a kind are read as text."""
    return kind in KINDS and not KINDS[kind].is_number


def normalize_booleans(
    name: str, values: Sequence[str], known: Collection[Feature]
) -> list[Feature]:
    """Return categories of a column, in which ``True``, ``TRUE`` and ``true`` are the same.

    The first spelling stays, so that a file of text and a frame of booleans have equal features.
    """
    features = [Feature(name, "category", value) for value in values]
    booleans = [value for value in values if value.lower() in BOOLEAN_TEXT]
    if not booleans:
        return features
    mine = (f.value for f in known if f.kind == "category" and f.column == name)
    spelled = (value for value in (*mine, *booleans) if value.lower() in BOOLEAN_TEXT)
    first = next(spelled, booleans[0])
    spell = str.upper if first.isupper() else str.title if first[0].isupper() else str.lower
    return [
        one if one in known or one.value not in booleans else one._replace(value=spell(one.value))
        for one in features
    ]


def murmurhash3(values: Sequence[bytes], seed: int) -> NDArray[np.uint32]:
    """Return MurmurHash3 (32 bits) of each value, as scikit-learn's ``murmurhash3_32`` does.

    Examples
    --------
    >>> from counterpoise.encoding.kinds import murmurhash3
    >>> murmurhash3([b"berlin", b"paris"], 0).tolist()
    [3820896027, 180132627]
    """
    lengths = np.array([len(value) for value in values], dtype=np.uint32)
    result = np.full(len(values), seed, dtype=np.uint32)
    whole, left = np.divmod(lengths, 4)
    for count in np.unique(whole).tolist():  # values of as many whole words together
        rows = np.flatnonzero(whole == count)
        size = 4 * (count + 1)
        data = b"".join(values[i].ljust(size, b"\0") for i in rows.tolist())
        words = np.frombuffer(data, dtype="<u4").reshape(len(rows), count + 1)
        words = _rotate(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        h = result[rows]
        for k in range(count):
            h = _rotate(h ^ words[:, k], 13) * np.uint32(5) + np.uint32(0xE6546B64)
        result[rows] = np.where(left[rows] > 0, h ^ words[:, count], h)
    h = result ^ lengths
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return h ^ (h >> np.uint32(16))


def _rotate(words: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
    """Rotate words to the left."""
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))
