"""Kinds of columns: how the cells of each become values, and which features these make.

To add a kind, add a class here and list it in ``KINDS``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from counterpoise.arrays import Flags, Matrix, Vector
from counterpoise.encoding import cell_parsing
from counterpoise.encoding.columns import MAX_BUCKETS, Columns, Feature
from counterpoise.errors import Suggestion
from counterpoise.readers.chunk import Chunk

DAY = 86_400.0
MONDAY = 4 * DAY  # the first one after the beginning of 1970
# The length of each cycle in seconds, and where it begins.
CYCLES = {"day": (DAY, 0.0), "week": (7 * DAY, MONDAY), "year": (365.2425 * DAY, 0.0)}
CYCLE_NAMES = tuple(f"{cycle} {wave}" for cycle in CYCLES for wave in ("sin", "cos"))
BOOLEAN_TEXT = ("true", "false")


class StackedNumbers(NamedTuple):
    """Columns of numbers as rows."""

    X: Matrix  # (n, d), C-ordered
    low: Vector  # (d,) the least value of each column
    high: Vector  # (d,) the greatest one

    def select(self, rows: Flags) -> StackedNumbers:
        """Return some of the rows, within the same bounds."""
        return self if rows.all() else self._replace(X=self.X[rows])


class ColumnBlock(NamedTuple):
    """Values of the features of a column in n rows."""

    features: list[Feature]
    values: Sequence[Vector] = ()  # (n,) of each feature, if each row has a value of each
    codes: Any = None  # else (n,): index of the feature of each row, or −1
    # in a column with many categories, the text of each row (n,), or its code in a vocabulary
    categories: Any = ()
    column: str = ""  # the column that has these categories
    rows: int = 0  # rows that have a value, where there are ``values``
    entries: Any = None  # CSR matrix (n, m) of features that are numbered; codes of its entries
    stacked: StackedNumbers | None = None  # the ``values`` as rows


class Kind:
    """One kind of column."""

    role: str  # as it is written, with :N if it has an option
    is_number = False  # whether cells are read as numbers, else as text
    plural = "text"  # in messages

    def parse_role(self, role: str) -> str | None:
        """Return a role in its normal form, None if it is not valid."""
        return role if role == self.role else None

    def read(
        self, columns: Columns, chunk: Chunk, name: str, remedies: Sequence[Suggestion]
    ) -> Any:
        """Return the cells of a column, (rows,): numbers with NaN, or text with null."""
        return cell_parsing.texts(chunk, name)

    def encode(
        self, columns: Columns, name: str, cells: Any, learned: Collection[Feature]
    ) -> ColumnBlock:
        """Return the features of cells (n,) as read; ``learned`` are those of rows before."""
        raise NotImplementedError

    def initial_features(self, name: str) -> list[Feature]:
        """Return the features that a column has before any of its rows is read."""
        return []

    def has_feature(self, feature: Feature, columns: Columns) -> bool:
        """Return whether a feature other than an indicator can be of a column of this kind."""
        return feature in self.initial_features(feature.column)

    def accepts(self, kind: pa.DataType) -> bool:
        """Return whether a column of an Arrow type can be learned as this kind."""
        return True


class NumberKind(Kind):
    """Numbers: one feature with the value of each row."""

    role = "number"
    is_number = True
    plural = "numbers"

    def read(
        self, columns: Columns, chunk: Chunk, name: str, remedies: Sequence[Suggestion]
    ) -> Any:
        """Return numbers (rows,), without symbols of currencies if the role is explicit."""
        if pa.types.is_floating(chunk.columns[name].type):  # as a reader has parsed them
            return chunk.columns[name].to_numpy(zero_copy_only=False)
        has_symbols = columns.roles.get(name) == "number"
        return cell_parsing.numbers(chunk, name, remedies, columns.decimal, has_symbols)

    def encode(
        self, columns: Columns, name: str, cells: Any, learned: Collection[Feature]
    ) -> ColumnBlock:
        """Return the numbers as they are."""
        return ColumnBlock(self.initial_features(name), (cells,), rows=len(cells))

    def initial_features(self, name: str) -> list[Feature]:
        """Return the feature of the numbers."""
        return [Feature(name, "number")]

    def accepts(self, kind: pa.DataType) -> bool:
        """Return whether an Arrow type is not of booleans or times."""
        return not (pa.types.is_boolean(kind) or pa.types.is_temporal(kind))


class EpochKind(NumberKind):
    """Dates and times as seconds since 1970, durations as seconds."""

    role = "epoch"

    def read(
        self, columns: Columns, chunk: Chunk, name: str, remedies: Sequence[Suggestion]
    ) -> Any:
        """Return seconds (rows,); dates that were recognized, without a role, are in ISO 8601."""
        time_format = columns.time_format if name in columns.roles else None
        return cell_parsing.seconds(chunk, name, remedies, time_format)

    def accepts(self, kind: pa.DataType) -> bool:
        """Return True."""
        return True


class DatetimeKind(EpochKind):
    """Dates and times as seconds, and as phases of the day, the week and the year."""

    role = "datetime"
    plural = "dates"

    def encode(
        self, columns: Columns, name: str, cells: Any, learned: Collection[Feature]
    ) -> ColumnBlock:
        """Return the seconds (n,) of dates, and sine and cosine of each phase."""
        values = [cells]
        for length, start in CYCLES.values():
            phase = np.mod(cells - start, length) * (2.0 * np.pi / length)
            values += [np.sin(phase), np.cos(phase)]
        return ColumnBlock(self.initial_features(name), values, rows=len(cells))

    def initial_features(self, name: str) -> list[Feature]:
        """Return the seconds and all phases."""
        return [Feature(name, "number"), *(Feature(name, "cycle", one) for one in CYCLE_NAMES)]

    def accepts(self, kind: pa.DataType) -> bool:
        """Return whether an Arrow type is not of numbers or booleans."""
        is_number = pa.types.is_floating(kind) or pa.types.is_integer(kind)
        return not (is_number or pa.types.is_boolean(kind))


class CategoryKind(Kind):
    """Categories: one feature for each."""

    role = "category"

    def encode(
        self, columns: Columns, name: str, cells: Any, learned: Collection[Feature]
    ) -> ColumnBlock:
        """Return the features of the values, and for each of n rows which of them, or −1."""
        coded = cells.dictionary_encode()
        features = self.features(columns, name, coded.dictionary.to_pylist(), learned)
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return ColumnBlock(features, codes=codes)

    def features(
        self, columns: Columns, name: str, values: list[str], learned: Collection[Feature]
    ) -> list[Feature]:
        """Return the feature of each value."""
        return normalize_booleans(name, values, learned)

    def has_feature(self, feature: Feature, columns: Columns) -> bool:
        """Return whether a feature is a category."""
        return feature.kind == "category"

    def accepts(self, kind: pa.DataType) -> bool:
        """Return whether an Arrow type is not of numbers or times."""
        is_number = pa.types.is_floating(kind) or pa.types.is_integer(kind)
        return not (is_number or pa.types.is_temporal(kind))


class ManyKind(CategoryKind):
    """Categories without a feature of each: a vocabulary, and moments that are sums by category."""

    role = "many:ROWS"

    def parse_role(self, role: str) -> str | None:
        """Return a role, with the rows that the ridge is worth; None if these are not valid."""
        _, colon, rows = role.partition(":")
        if not colon:
            return role
        try:
            number = float(rows)
        except ValueError:
            return None
        return f"many:{number:g}" if 0.0 < number < float("inf") else None

    def encode(
        self, columns: Columns, name: str, cells: Any, learned: Collection[Feature]
    ) -> ColumnBlock:
        """Return the cells as they are."""
        return ColumnBlock([], categories=cells, column=name)

    def has_feature(self, feature: Feature, columns: Columns) -> bool:
        """Return False: a category is not a feature."""
        return False

    def accepts(self, kind: pa.DataType) -> bool:
        """Return True."""
        return True


class HashKind(CategoryKind):
    """Categories that share a number of features, which a hash assigns."""

    role = "hash:N"

    def parse_role(self, role: str) -> str | None:
        """Return a role with the number of buckets, None if that is not valid."""
        count = role.partition(":")[2]
        is_valid = count.isascii() and count.isdigit() and 0 < int(count) <= MAX_BUCKETS
        return f"hash:{int(count)}" if is_valid else None

    def features(
        self, columns: Columns, name: str, values: list[str], learned: Collection[Feature]
    ) -> list[Feature]:
        """Return the bucket of each value."""
        codes = murmurhash3([value.encode() for value in values], columns.seed)
        numbers = (codes.astype(np.int64) % columns.buckets[name]).tolist()
        return [Feature(name, "bucket", str(number)) for number in numbers]

    def has_feature(self, feature: Feature, columns: Columns) -> bool:
        """Return whether a feature is one of the buckets of its column."""
        text, count = feature.value, columns.buckets.get(feature.column, 0)
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(count))
        is_bucket = is_number and str(int(text)) == text and int(text) < count
        return feature.kind == "bucket" and is_bucket

    def accepts(self, kind: pa.DataType) -> bool:
        """Return True."""
        return True


KINDS: dict[str, Kind] = {
    kind.role.partition(":")[0]: kind
    for kind in (
        NumberKind(),
        CategoryKind(),
        DatetimeKind(),
        EpochKind(),
        HashKind(),
        ManyKind(),
    )
}


def is_number(kind: str | None) -> bool:
    """Return whether columns of a kind are read as numbers."""
    return kind in KINDS and KINDS[kind].is_number


def is_text(kind: str | None) -> bool:
    """Return whether columns of a kind are read as text."""
    return kind in KINDS and not KINDS[kind].is_number


def normalize_booleans(
    name: str, values: Sequence[str], learned: Collection[Feature]
) -> list[Feature]:
    """Return categories of a column; booleans have the spelling of the first one.

    So a file of text and a frame of booleans have equal features.
    """
    cells = zip(repeat(name), repeat("category"), values)
    features = list(map(tuple.__new__, repeat(Feature), cells))  # faster than to call Feature
    booleans = [value for value in values if value[:1] in "tTfF" and value.lower() in BOOLEAN_TEXT]
    if not booleans:
        return features
    mine = (f.value for f in learned if f.kind == "category" and f.column == name)
    first = next(value for value in (*mine, *booleans) if value.lower() in BOOLEAN_TEXT)
    spell = str.upper if first.isupper() else str.title if first[0].isupper() else str.lower
    return [
        one if one in learned or one.value not in booleans else one._replace(value=spell(one.value))
        for one in features
    ]


def murmurhash3(values: Sequence[bytes], seed: int) -> NDArray[np.uint32]:
    """Return MurmurHash3 (32 bits) of each value, as scikit-learn's ``murmurhash3_32`` does."""

    def rotate(words: NDArray[np.uint32], bits: int) -> NDArray[np.uint32]:
        return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))

    lengths = np.array([len(value) for value in values], dtype=np.uint32)
    result = np.full(len(values), seed, dtype=np.uint32)
    whole, left = np.divmod(lengths, 4)
    for count in np.unique(whole).tolist():  # values of as many whole words together
        rows = np.flatnonzero(whole == count)
        size = 4 * (count + 1)
        data = b"".join(values[i].ljust(size, b"\0") for i in rows.tolist())
        words = np.frombuffer(data, dtype="<u4").reshape(len(rows), count + 1)
        words = rotate(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        h = result[rows]
        for k in range(count):
            h = rotate(h ^ words[:, k], 13) * np.uint32(5) + np.uint32(0xE6546B64)
        result[rows] = np.where(left[rows] > 0, h ^ words[:, count], h)
    h = result ^ lengths
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return h ^ (h >> np.uint32(16))
