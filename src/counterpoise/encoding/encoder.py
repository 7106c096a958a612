"""From columns to features: numbers as they are, one feature for each category, on the go.

Columns, categories and indicators of missing values get their features when they are first seen;
in all rows before they were zero, so that the moments are widened exactly. The same encoding serves
prediction, where what was never learned is zero.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from counterpoise.arrays import Counts, Flags, Labels, Matrix, Rows, Vector
from counterpoise.encoding import column_values
from counterpoise.encoding.columns import Columns, Feature
from counterpoise.encoding.kinds import KINDS, times
from counterpoise.errors import DataError, Message, Suggestion
from counterpoise.readers.chunk import Chunk

Index = Mapping[Feature, int]
DENSE = ("number", "cycle", "missing")  # features of which most rows have something to say


class ColumnBlocks(NamedTuple):
    """What was read of a chunk, column by column."""

    kept: Flags  # (rows,) rows that count
    # (rows,) values of columns of numbers, and what takes their place where there is none
    numeric: dict[str, Vector]
    # (list of Feature, ndarray of int) features of the values of a column, and for each row
    # that counts which of them, or −1
    texts: dict[str, tuple[list[Feature], Any]]
    # (rows,) where a column has no value, if that is a feature of its own
    missing: dict[str, Flags]
    without: dict[str, Flags]  # (rows,) where a column of numbers has no value, or is not there
    # (rows,) where dates are in the day, the week and the year, 0 where there is none
    cycles: dict[Feature, Vector]
    # (list of Feature, ndarray of int, CSR matrix) features that have numbers instead of
    # names: they, their columns, and the rows that count
    numbered: tuple[list[Feature], Any, Any] | None


def rows_of(parts: ColumnBlocks, index: Index) -> tuple[Rows, dict[str, int]]:
    """Rows of features, dense if all are numbers; cells of unknown categories, by column."""
    kept, d = parts.kept, len(index)
    whole = bool(kept.all())
    n = len(kept) if whole else int(kept.sum())
    at: dict[int, Vector] = {}
    for name, x in parts.numeric.items():
        j = index.get(Feature(name, "number"))
        if j is not None:
            at[j] = x if whole else x[kept]
    for feature, x in parts.cycles.items():
        if feature in index:
            at[index[feature]] = x if whole else x[kept]
    if parts.numbered is None and not parts.texts and all(f.kind in DENSE for f in index):
        for name, gone in parts.missing.items():
            j = index.get(Feature(name, "missing"))
            if j is not None:
                at[j] = gone[kept].astype(np.float64)
        return _dense(at, n, d), {}
    unknown: dict[str, int] = {}
    indices: list[Any] = [np.full(n, j) for j in at]
    data: list[Any] = list(at.values())
    for name, (features, codes) in parts.texts.items():
        column = np.array([index.get(f, -1) for f in features] + [-1])[codes]
        strange = int(((column < 0) & (codes >= 0)).sum())
        if strange:
            unknown[name] = strange
        indices.append(column)
        data.append((column >= 0).astype(np.float64))
    for name, gone in parts.missing.items():
        j = index.get(Feature(name, "missing"))
        if j is not None:
            indices.append(np.where(gone[kept], j, -1))
            data.append(gone[kept].astype(np.float64))
    result = _sparse(indices, data, n, d)
    return (result if parts.numbered is None else result + _entries(parts, index, n)), unknown


def rows_per_feature(parts: ColumnBlocks, index: Index) -> Counts:
    """Rows that have a value for each feature, all of which have a column."""
    result = np.zeros(len(index), dtype=np.int64)
    rows = int(parts.kept.sum())
    for name in parts.numeric:
        without = parts.without.get(name)
        there = rows if without is None else int((parts.kept & ~without).sum())
        result[index[Feature(name, "number")]] = there
        for feature in parts.cycles:
            if feature.column == name:
                result[index[feature]] = there
    for features, codes in parts.texts.values():
        counts = np.bincount(codes[codes >= 0], minlength=len(features))
        np.add.at(result, _places(features, index), counts)  # several values may share a bucket
    for name, gone in parts.missing.items():
        if gone.any():
            result[index[Feature(name, "missing")]] = int((gone & parts.kept).sum())
    if parts.numbered is not None:
        features, columns, X = parts.numbered
        at = np.searchsorted(columns, X.indices)
        at = at[np.append(columns, -1)[at] == X.indices]
        result[_places(features, index)] += np.bincount(at, minlength=len(features))
    return result


def _places(features: list[Feature], index: Index) -> Any:
    return np.array([index[feature] for feature in features], dtype=np.intp)


def _entries(parts: ColumnBlocks, index: Index, n: int) -> Any:
    """Rows of the features that have numbers."""
    assert parts.numbered is not None
    features, columns, X = parts.numbered
    place = np.array([index.get(f, -1) for f in features] + [-1])
    at = np.searchsorted(columns, X.indices)
    found = np.append(columns, -1)[at] == X.indices
    column = np.where(found, place[at], -1)
    row = np.repeat(np.arange(n), np.diff(X.indptr))
    known = column >= 0
    return sp.csr_array((X.data[known], (row[known], column[known])), shape=(n, len(index)))


def _dense(at: dict[int, Vector], n: int, d: int) -> Matrix:
    """Columns side by side; one that is not there is zero."""
    if not d:
        return np.zeros((n, 0))
    zero = np.zeros(n)
    return np.column_stack([at.get(j, zero) for j in range(d)])


def _sparse(indices: list[Any], data: list[Any], n: int, d: int) -> Any:
    """CSR matrix of columns given as an index (−1 for none) and a value for each row."""
    if not indices:
        return sp.csr_array((n, d))
    index, value = np.column_stack(indices), np.column_stack(data)
    order = np.argsort(index, axis=1, kind="stable")
    index, value = np.take_along_axis(index, order, 1), np.take_along_axis(value, order, 1)
    there = index >= 0
    indptr = np.concatenate([[0], np.cumsum(there.sum(axis=1))])
    return sp.csr_array((value[there], index[there], indptr), shape=(n, d))


class EncodedChunk(NamedTuple):
    """Rows ready to be learned or predicted."""

    X: Rows  # (n, d) the rows that were kept
    y: Labels  # (n,) their labels; empty when predicting
    weight: Vector | None  # (n,) their weights
    kept: Flags  # (rows,) which rows of the chunk they are
    unknown: dict[str, int]  # cells whose category was never learned, by column
    strange: tuple[str, ...] = ()  # columns that the model does not know, and that were left out
    bare: int = 0  # rows that were left out because they have none of the columns of the model
    notes: Mapping[str, Message] = {}  # what somebody should be told, by subject
    # (d,) when learning: rows that have a value for each feature, be it 0
    held: Counts = np.zeros(0, dtype=np.int64)
    # when predicting: columns that a table does not have, and need not have
    lacking: tuple[str, ...] = ()
    # cells without a value, by column: when learning all of them, when predicting those of
    # columns that were never blank while the model learned
    blank: Mapping[str, int] = {}
    t: Vector | None = None  # (n,) when learning: their times, where rows fade by the clock


@dataclass(frozen=True, eq=False)
class ColumnEncoder:
    """What is known of the columns so far."""

    columns: Columns  # what somebody wants of them
    # "number", "category", "epoch", "datetime" or "hash", of columns in which a value was
    # seen
    kinds: dict[str, str] = field(default_factory=dict)
    features: tuple[Feature, ...] = ()  # in the order of their appearance
    labels: str | None = None  # "int", "text", or "bool" for text that was learned from booleans
    # what stands for a missing number until the mean takes its place: the first value of the
    # column
    bases: dict[str, float] = field(default_factory=dict)

    @cached_property
    def fill(self) -> tuple[list[int], list[int], list[float]]:
        """Features that may be missing, their indicators, and what stands for them until filled.

        Empty unless missing values are filled by the mean.
        """
        at, by, base = [], [], []
        for j, feature in enumerate(self.features if self.columns.missing == "mean" else ()):
            indicator = self._index.get(Feature(feature.column, "missing"))
            if indicator is not None and feature.kind in ("number", "cycle"):
                at.append(j)
                by.append(indicator)
                base.append(
                    self.bases.get(feature.column, 0.0) if feature.kind == "number" else 0.0
                )
        return at, by, base

    @cached_property
    def _index(self) -> dict[Feature, int]:
        return {feature: j for j, feature in enumerate(self.features)}

    # Learning

    def learn(
        self, chunk: Chunk, room: float = np.inf, lenient: bool = False
    ) -> tuple[EncodedChunk, ColumnEncoder]:
        """Encode rows that are to be learned.

        ``room`` is the number of features that there is memory for; it is asked before much is made
        of the columns. With ``lenient``, columns that were learned before may be lacking, and are
        then 0. Return the rows, and the encoding with what is new in them; itself if nothing is.
        """
        learned = [feature.column for feature in self.features]
        is_first = not self.kinds and not chunk.is_checked
        column_values.require_columns(self.columns, chunk, learned, is_first, lenient)
        column_values.require_room(chunk, self._least(chunk), room)
        kinds = column_values.infer_types(self.columns, chunk, self.kinds)
        numeric, missing = column_values.numbers(self.columns, chunk, kinds, None)
        label = self.columns.label
        label_kind, y, missing[label] = column_values.labels(self.columns, chunk, self.labels)
        if missing[label].any() and self.columns.uses_indicators:
            raise chunk.error(
                int(missing[label].argmax()),
                f"no label in column {label!r}, and a missing label cannot be filled in",
                Suggestion("drop the row"),
                Suggestion("use {}", "missing", "drop"),
            )
        weight = column_values.weights(self.columns, chunk, missing)
        name = self.columns.weight
        if name is not None and missing[name].any() and self.columns.uses_indicators:
            raise chunk.error(
                int(missing[name].argmax()),
                f"no weight in column {name!r}, and a missing weight cannot be filled in",
                Suggestion("drop the row"),
                Suggestion("use {}", "missing", "drop"),
            )
        kept = column_values.keep(self.columns, chunk, missing, predicting=False)
        column_values.require_declared(self.columns, chunk, y, kept)
        fresh: dict[Feature, None] = {}
        bases = self._based(numeric)
        cycles = self._completed(chunk, numeric, kinds, missing, bases, None)
        for name in numeric:
            fresh[Feature(name, "number")] = None
            fresh |= dict.fromkeys(f for f in cycles if f.column == name)
        dictionaries = {}
        for name in column_values.text_columns(self.columns, chunk, kinds):
            dictionaries[name] = found = column_values.categories(
                self.columns, chunk, name, kinds[name], kept, self._index
            )
            if kinds[name] == "category":
                values = [feature.value for feature in found[0]]
                remedies = (column_values.hash_remedy(name), column_values.drop_remedy(name))
                column_values.require_short(
                    chunk, f"category of column {name!r}", values, found[1], remedies, kept
                )
            fresh |= dict.fromkeys(found[0])
            column_values.require_room(chunk, len(fresh), room)
        blank = {c: int(where.sum()) for c, where in missing.items() if where.any()}
        if self.columns.uses_indicators:
            fresh |= dict.fromkeys(
                Feature(c, "missing") for c, where in missing.items() if where.any()
            )
        numbered = column_values.numbered(self.columns, chunk, kept)
        if numbered is not None:
            fresh |= dict.fromkeys(numbered[0])
            kinds |= dict.fromkeys((f.column for f in numbered[0]), "number")
        new = [feature for feature in fresh if feature not in self._index]
        grown, notes = self, dict[str, Message]()
        if new or kinds != self.kinds or label_kind != self.labels or bases != self.bases:
            features = self.features + tuple(new)
            grown = replace(self, kinds=kinds, features=features, labels=label_kind, bases=bases)
            notes = column_values.require_few(self.columns, chunk, new, features)
        parts = self._parts(chunk, kept, numeric, dictionaries, missing, cycles, numbered)
        X, _ = rows_of(parts, grown._index)
        held = rows_per_feature(parts, grown._index)
        weight = None if weight is None else weight[kept]
        column, shape = self.columns.timestamp, self.columns.time_format
        t = None if column is None else times(chunk, column, kept, shape)
        rows = EncodedChunk(X, y[kept], weight, kept, {}, notes=notes, held=held, blank=blank, t=t)
        return rows, grown

    def only(self, at: Any) -> ColumnEncoder:
        """Return what is known of the features at some places, and of no other column."""
        features = tuple(self.features[j] for j in at.tolist())
        columns = {feature.column for feature in features}
        kinds = {name: kind for name, kind in self.kinds.items() if name in columns}
        bases = {name: base for name, base in self.bases.items() if name in columns}
        return replace(self, kinds=kinds, features=features, bases=bases)

    def missing_columns(self, chunk: Chunk) -> list[str]:
        """Return the columns that were learned, and that a table does not have."""
        known = dict.fromkeys(f.column for f in self.features) if chunk.table else {}
        offered = frozenset(chunk.offered or chunk.columns)
        return [name for name in known if name not in offered]

    def unknown_columns(self, chunk: Chunk) -> list[str]:
        """Return the columns that are neither known, nor to be left out."""
        names = chunk.offered or chunk.names
        return [c for c in self.columns.features_among(names) if not self.knows(c)]

    def predict(
        self,
        chunk: Chunk,
        apart: Collection[str] | None = (),
        optional: Collection[str] = (),
        usual: Vector | None = None,
    ) -> EncodedChunk:
        """Encode rows that are to be predicted: categories that were never learned are zero.

        ``apart`` are columns that the model need not know; None if it need not know any, so that
        rows that have none of its own are left out. ``optional`` are columns that some of the
        learned rows did not have: a table may lack them, if it has others, and they are 0
        as they were in these rows. ``usual`` is the mean of each feature, (d,), which takes the
        place of numbers that were never missing before. The result has no labels and weights.
        """
        lacking = self.missing_columns(chunk)
        needed = [name for name in lacking if name not in optional]
        if lacking and not needed and len(lacking) == len({f.column for f in self.features}):
            needed = lacking
        if needed:
            raise DataError(
                f"{chunk.source} lacks column {needed[0]!r}, which the model has learned; it has "
                f"{column_values.format_names(chunk.offered)}"
            )
        strange = [name for name in self.unknown_columns(chunk) if name not in (apart or ())]
        if strange and apart is not None:
            known = dict.fromkeys(f.column for f in self.features)
            raise DataError(
                f"{chunk.source} has a column {strange[0]!r}, which the model does not know; it "
                f"knows {column_values.format_names(tuple(known))}",
                Suggestion("correct the name"),
                Suggestion("leave unknown columns out", "ignore_unknown", True),
            )
        numeric, missing = column_values.numbers(self.columns, chunk, self.kinds, self.knows)
        kept = column_values.keep(self.columns, chunk, missing, predicting=True)
        bare = self._bare(chunk)
        if bare.any() and apart is not None:
            known = dict.fromkeys(f.column for f in self.features)
            raise chunk.error(
                int(bare.argmax()),
                "none of the columns of the model is here: "
                f"{column_values.format_names(tuple(known))}",
                Suggestion("correct it"),
                Suggestion("leave such rows without a prediction", "ignore_unknown", True),
            )
        kept &= ~bare
        dictionaries = {
            name: column_values.categories(
                self.columns, chunk, name, self.kinds[name], kept, self._index
            )
            for name in column_values.text_columns(self.columns, chunk, self.kinds)
        }
        numbered = column_values.numbered(self.columns, chunk, kept)
        cycles = self._completed(chunk, numeric, self.kinds, missing, self.bases, usual)
        parts = self._parts(chunk, kept, numeric, dictionaries, missing, cycles, numbered)
        X, unknown = rows_of(parts, self._index)
        found = EncodedChunk(X, np.empty(0), None, kept, unknown, tuple(strange), int(bare.sum()))
        blank = {
            name: int(gone.sum())
            for name, gone in missing.items()
            if self.columns.uses_indicators and gone.any() and name in self.kinds
            if Feature(name, "missing") not in self._index
        }
        return found._replace(lacking=tuple(lacking), blank=blank)

    def encode_with_labels(
        self,
        chunk: Chunk,
        apart: Collection[str] | None = (),
        optional: Collection[str] = (),
        usual: Vector | None = None,
    ) -> EncodedChunk:
        """Encode rows that are to be predicted, as :meth:`predict` does, with their labels."""
        label = self.columns.label
        if chunk.table and label not in chunk.offered:
            raise DataError(
                f"{chunk.source} has no column {label!r}, which holds the labels; it has "
                f"{column_values.format_names(chunk.offered)}"
            )
        _, y, gone = column_values.labels(self.columns, chunk, self.labels)
        if gone.any():
            raise chunk.error(
                int(gone.argmax()), f"no label in column {label!r}; leave the row out"
            )
        encoded = self.predict(chunk, apart, optional, usual)
        return encoded._replace(y=y[encoded.kept])

    # Within

    def _bare(self, chunk: Chunk) -> Flags:
        """Rows that have no column of the model, where rows need not have all of them."""
        bare = np.full(chunk.rows, not chunk.table and chunk.entries is None)
        for name in chunk.columns if bare.any() else ():
            if self.knows(name):
                bare &= chunk.absent.get(name, np.zeros(chunk.rows, dtype=bool))
        return bare

    def _least(self, chunk: Chunk) -> int:
        """Features that a chunk has at least: one for each column with a value in it."""
        columns = [chunk.columns[name] for name in self.columns.features_among(chunk.columns)]
        named = sum(1 for column in columns if column.null_count < len(column))
        return named + (0 if chunk.entries is None else len(np.unique(chunk.entries.indices)))

    def knows(self, name: str) -> bool:
        """Whether anything was learned from a column, be it only that it is missing."""
        return name in self.kinds or Feature(name, "missing") in self._index

    def _based(self, numeric: Mapping[str, Vector]) -> dict[str, float]:
        """What stands for missing numbers, with what these columns bring: their first values."""
        if self.columns.missing != "mean":
            return self.bases
        bases = dict(self.bases)
        for name, x in numeric.items():
            if name not in bases:
                first = int(np.argmin(np.isnan(x))) if len(x) else 0
                bases[name] = float(x[first]) if len(x) and not np.isnan(x[first]) else 0.0
        return bases

    def _completed(
        self,
        chunk: Chunk,
        numeric: dict[str, Vector],
        kinds: Mapping[str, str],
        missing: Mapping[str, Flags],
        bases: Mapping[str, float],
        usual: Vector | None,
    ) -> dict[Feature, Vector]:
        """Put something in the place of each missing number, and return the cycles of dates.

        That is what the model expects there: a constant, if an indicator tells; else ``usual``, the
        mean of each feature (d,), if there is one. A column that a row need not have is 0.
        """
        cycles: dict[Feature, Vector] = {}
        for name, x in numeric.items():
            parts = {Feature(name, "number"): x, **KINDS[kinds[name]].cycles(name, x)}
            gone = missing.get(name)
            for feature, values in parts.items():
                if gone is not None:
                    base = bases.get(name, 0.0) if feature.kind == "number" else 0.0
                    known = Feature(name, "missing") in self._index
                    if usual is not None and not known and feature in self._index:
                        base = float(usual[self._index[feature]])
                    values = np.where(np.isnan(values), np.where(gone, base, 0.0), values)
                if feature.kind == "number":
                    numeric[name] = values
                else:
                    cycles[feature] = values
        return cycles

    def _parts(
        self,
        chunk: Chunk,
        kept: Flags,
        numeric: dict[str, Vector],
        texts: dict[str, tuple[list[Feature], Any]],
        missing: dict[str, Flags],
        cycles: dict[Feature, Vector],
        numbered: tuple[list[Feature], Any, Any] | None,
    ) -> ColumnBlocks:
        """What was read of a chunk."""
        without = {name: flags for name, flags in chunk.absent.items() if name in numeric}
        for name, gone in missing.items():
            without[name] = gone | without[name] if name in without else gone
        indicated = missing if self.columns.uses_indicators else {}
        return ColumnBlocks(kept, numeric, texts, indicated, without, cycles, numbered)

    # As plain values, for the model file

    def plain(self) -> dict[str, Any]:
        """Return what is known, as JSON can hold it; the features are kept apart."""
        plain = {"columns": asdict(self.columns), "kinds": self.kinds, "labels": self.labels}
        return plain | ({"bases": self.bases} if self.columns.missing == "mean" else {})
