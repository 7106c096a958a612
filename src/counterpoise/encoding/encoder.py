"""Columns to features: numbers as they are, one feature for each category.

Columns, categories and indicators of missing values get their features when they are first seen.
They were zero in all rows before, so that the moments are widened exactly. In prediction, a
category that was never learned is zero.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import repeat
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from numpy.typing import NDArray

from counterpoise.arrays import Counts, Flags, Labels, Rows, Value, Vector, distinct_labels
from counterpoise.encoding import cell_parsing, column_values
from counterpoise.encoding.columns import MANY_CATEGORIES, Columns, Feature
from counterpoise.encoding.kinds import KINDS, ColumnBlock, StackedNumbers
from counterpoise.encoding.vocabulary import Vocabulary
from counterpoise.errors import DataError, Message, Suggestion
from counterpoise.moments.categories import CodeColumns
from counterpoise.readers.chunk import Chunk, drop_remedy

Index = Mapping[Feature, int]
Bounds = tuple[Vector, Vector]
MAX_FEATURES_OF_CATEGORIES = 100  # of a column without a role; more categories have no features
NUMBER, FLOAT64 = KINDS["number"], pa.float64()
DENSE = ("number", "cycle", "missing")  # kinds of features that most rows have


def matrix_of(
    blocks: Sequence[ColumnBlock],
    index: Index,
    n: int,
    vocabularies: Mapping[str, Vocabulary] = MappingProxyType({}),
) -> tuple[Rows, dict[str, int], Bounds | None]:
    """Return n rows of features, dense if all are numbers, and cells of unknown categories.

    The last columns are the codes of categories in vocabularies. The last result are the least and
    the greatest value of each feature, where all are numbers.
    """
    d, unknown = len(index), dict[str, int]()
    codes = np.zeros((n, len(vocabularies)))
    many = [block for block in blocks if block.column]
    blocks = [block for block in blocks if not block.column]
    positions = {name: b for b, name in enumerate(vocabularies)}
    for block in many:
        if block.column in positions:
            found, b = block.categories, positions[block.column]
            if isinstance(found, np.ndarray):
                codes[:, b] = found
                continue
            codes[:, b] = vocabularies[block.column].find(found)
            never_learned = n - found.null_count - int(np.count_nonzero(codes[:, b]))
            if never_learned:
                unknown[block.column] = never_learned
    is_dense = all(block.codes is None for block in blocks)
    if is_dense and all(feature.kind in DENSE for feature in index):
        first = blocks[0] if len(blocks) == 1 else None
        if first is not None and first.stacked is not None and first.features == list(index):
            X, *bounds = first.stacked
            X = np.concatenate([X, codes], axis=1) if vocabularies else X
            return X, unknown, (bounds[0], bounds[1])
        X = np.zeros((n, d + codes.shape[1]))
        for block in blocks:
            for feature, x in zip(block.features, block.values, strict=True):
                if feature in index:
                    X[:, index[feature]] = x
        X[:, d:] = codes
        return X, unknown, None
    indices, data, result = [], [], None
    for block in blocks:
        places = np.array([*map(index.get, block.features, repeat(-1)), -1])
        if block.entries is not None:
            result = _scatter(block, places, n, len(index))
        elif block.codes is not None:
            column = places[block.codes]
            never_learned = int(((column < 0) & (block.codes >= 0)).sum())
            if never_learned:
                unknown[block.features[0].column] = never_learned
            indices.append(column)
            data.append(np.ones(n))
        for feature, x, j in zip(block.features, block.values, places.tolist(), strict=False):
            indices.append(
                np.where(x != 0.0, j, -1) if feature.kind == "missing" else np.full(n, j)
            )
            data.append(x)
    X = _sparse(indices, data, n, d)
    X = X if result is None else X + result
    return (sp.csr_array(sp.hstack([X, codes], format="csr")) if many else X), unknown, None


def rows_per_feature(blocks: Sequence[ColumnBlock], index: Index) -> Counts:
    """Return the rows that have a value for each feature, all of which are in the index."""
    result = np.zeros(len(index), dtype=np.int64)
    for block in (one for one in blocks if not one.column):
        counts: Any = block.rows
        if block.codes is not None:
            counts = np.bincount(block.codes + 1, minlength=len(block.features) + 1)[1:]
        places = list(map(index.__getitem__, block.features))
        np.add.at(result, places, counts)  # several values may share a bucket
    return result


def _scatter(block: ColumnBlock, places: Any, n: int, d: int) -> Any:
    """Return the rows (n, d) of numbered features, CSR."""
    column, row = places[block.codes], np.repeat(np.arange(n), np.diff(block.entries.indptr))
    found = column >= 0
    return sp.csr_array((block.entries.data[found], (row[found], column[found])), shape=(n, d))


def _sparse(indices: list[Any], data: list[Any], n: int, d: int) -> Any:
    """Return a CSR matrix of columns given as an index (−1 for none) and a value for each row."""
    if not indices:
        return sp.csr_array((n, d))
    index, value = np.column_stack(indices), np.column_stack(data)
    order = np.argsort(index, axis=1, kind="stable")
    index, value = np.take_along_axis(index, order, 1), np.take_along_axis(value, order, 1)
    found = index >= 0
    indptr = np.concatenate([[0], np.cumsum(found.sum(axis=1))])
    return sp.csr_array((value[found], index[found], indptr), shape=(n, d))


def is_in_vocabulary(feature: Feature, vocabularies: Mapping[str, Any]) -> bool:
    """Return whether a feature is a category of a column that has a vocabulary."""
    return feature.kind == "category" and feature.column in vocabularies


class EncodedChunk(NamedTuple):
    """Rows ready to be learned or predicted."""

    X: Rows  # (n, d) the rows that were kept
    y: Labels  # (n,) their labels; empty when predicting
    weight: Vector | None  # (n,) their weights
    kept: Flags  # (rows,) which rows of the chunk they are
    unknown: dict[str, int]  # cells whose category was never learned, by column
    strange: tuple[str, ...] = ()  # columns that were never learned, and are not used
    bare: int = 0  # rows that were left out because they have none of the columns of the model
    notes: Mapping[str, Message] = {}  # messages to the user, by subject
    held: Counts = np.zeros(0, dtype=np.int64)  # (d,) when learning: rows with a value, be it 0
    lacking: tuple[str, ...] = ()  # when predicting: optional columns that a table does not have
    # missing cells by column: when predicting only of columns that were never missing before
    blank: Mapping[str, int] = {}
    t: Vector | None = None  # (n,) when learning: their times, if rows decay by time
    bounds: Bounds | None = None  # least and greatest value of each feature (d,), or beyond
    labels: Sequence[Any] = ()  # when learning: the different ones of y, sorted


class CellNumbers(NamedTuple):
    """Columns of numbers of a chunk."""

    columns: dict[str, Vector]  # (rows,), NaN where missing
    missing: dict[str, Flags]  # (rows,) where any column, not only of numbers, is missing
    stacked: StackedNumbers | None = None  # all columns, if no number is missing


@dataclass(frozen=True, eq=False)
class ColumnEncoder(Value):
    """Kinds and features of the columns that were seen so far."""

    columns: Columns  # settings of the user
    kinds: dict[str, str] = field(default_factory=dict)  # of columns in which a value was seen
    features: tuple[Feature, ...] = ()  # in the order of their appearance
    labels: str | None = None  # "int", "text", or "bool" for text that was learned from booleans
    # what stands for a missing number until the mean replaces it: the first value of the column
    bases: dict[str, float] = field(default_factory=dict)
    # of columns with many categories, in the order of their appearance
    vocabularies: dict[str, Vocabulary] = field(default_factory=dict)
    allows_many: bool = False  # whether a column without a role may have many categories

    @property
    def code_columns(self) -> CodeColumns | None:
        """Columns of codes, with the rows that their ridges are worth; None if there are none."""
        rows = tuple(self.columns.pseudo_rows.get(name) for name in self.vocabularies)
        return CodeColumns(rows) if rows else None

    @cached_property
    def fill(self) -> tuple[list[int], list[int], list[float]]:
        """Features to impute by the mean, their indicators, and what stands for them until then."""
        at, by, base = [], [], []
        for j, feature in enumerate(self.features if self.columns.missing == "mean" else ()):
            indicator = self._index.get(Feature(feature.column, "missing"))
            if indicator is not None and feature.kind in ("number", "cycle"):
                at.append(j)
                by.append(indicator)
                is_number = feature.kind == "number"
                base.append(self.bases.get(feature.column, 0.0) if is_number else 0.0)
        return at, by, base

    @cached_property
    def _learned_columns(self) -> dict[str, None]:
        return dict.fromkeys([*(one.column for one in self.features), *self.vocabularies])

    @cached_property
    def _index(self) -> dict[Feature, int]:
        return {feature: j for j, feature in enumerate(self.features)}

    def learn(
        self, chunk: Chunk, max_features: float = np.inf, lenient: bool = False
    ) -> tuple[EncodedChunk, ColumnEncoder]:
        """Encode rows that are to be learned.

        ``max_features`` is the number of features that fit into memory. With ``lenient``,
        columns that were learned before may be absent, and are then 0. Return the rows, and an
        encoder of all features; the same encoder without new features.
        """
        columns, label = self.columns, self.columns.label
        is_first = not self.kinds and not chunk.is_checked
        column_values.require_columns(columns, chunk, self._learned_columns, is_first, lenient)
        if chunk.entries is not None or len(chunk.columns) > max_features:
            column_values.require_memory(chunk, self._least(chunk), max_features)
        kinds = column_values.infer_types(columns, chunk, self.kinds)
        numbers = self._read_numbers(chunk, kinds, is_learning=True)
        missing = numbers.missing
        label_kind, y, missing[label], different = column_values.labels(columns, chunk, self.labels)
        column_values.require_value(columns, chunk, label, "label", missing)
        weight = column_values.weights(columns, chunk, missing)
        kept = column_values.keep(columns, chunk, missing, predicting=False)
        column_values.require_declared(columns, chunk, y, kept)
        bases = self._new_bases(numbers.columns)
        fresh: dict[Feature, None] = {}
        blocks, vocabularies = [], dict(self.vocabularies)
        for found in self._blocks(chunk, numbers, kinds, kept, bases):
            block = self._as_many(found, vocabularies) if self.allows_many else found
            fresh |= dict.fromkeys(block.features)
            if block.column:
                block = self._grow(vocabularies, chunk, block, kept)
            blocks.append(block)
            if block.column:
                continue
            if block.codes is not None:
                self._require_short(chunk, block, kept)
                column_values.require_memory(chunk, len(fresh), max_features)
            if block.entries is not None:
                kinds |= dict.fromkeys((f.column for f in block.features), "number")
        if vocabularies and not fresh and not self.features:
            # Rows have at least one feature, be it always 0.
            fresh[Feature(next(iter(vocabularies)), "missing")] = None
        new = [feature for feature in fresh if feature not in self._index]
        grown, notes = self, dict[str, Message]()
        features = self.features
        if vocabularies:
            kinds |= dict.fromkeys(vocabularies, MANY_CATEGORIES)
            features = tuple(f for f in features if not is_in_vocabulary(f, vocabularies))
            grown = replace(self, vocabularies=vocabularies, features=features)
        if new or kinds != self.kinds or label_kind != self.labels or bases != self.bases:
            features += tuple(new)
            grown = replace(grown, kinds=kinds, features=features, labels=label_kind, bases=bases)
            notes = column_values.require_few(columns, chunk, new, features)
        X, _, bounds = matrix_of(blocks, grown._index, int(kept.sum()), vocabularies)
        held = rows_per_feature(blocks, grown._index)
        if not kept.all():
            y, weight = y[kept], None if weight is None else weight[kept]
            different = None
        different = distinct_labels(y) if different is None else different
        t = None
        if columns.timestamp is not None:
            t = column_values.times(chunk, columns.timestamp, kept, columns.time_format)
        blank = {name: int(gone.sum()) for name, gone in missing.items() if gone.any()}
        rows = EncodedChunk(X, y, weight, kept, {}, notes=notes, held=held, blank=blank, t=t)
        return rows._replace(bounds=bounds, labels=different), grown

    def _as_many(self, block: ColumnBlock, vocabularies: dict[str, Vocabulary]) -> ColumnBlock:
        """Return a block of categories, without features if its column now has many of them."""
        if not block.features or block.codes is None or block.features[0].kind != "category":
            return block
        name = block.features[0].column
        if name in self.columns.roles:
            return block
        values = [feature.value for feature in block.features]
        before = [f.value for f in self.features if f.kind == "category" and f.column == name]
        if len({*before, *values}) <= MAX_FEATURES_OF_CATEGORIES:
            return block
        vocabularies[name] = Vocabulary.of(before, 0)
        texts = np.array([*values, None], dtype=object)[block.codes]
        return ColumnBlock([], categories=pa.array(texts, pa.string()), column=name)

    def _grow(
        self, vocabularies: dict[str, Vocabulary], chunk: Chunk, block: ColumnBlock, kept: Flags
    ) -> ColumnBlock:
        """Add the categories of a column to its vocabulary, and return the block with their codes.

        Raise if a category is too long.
        """
        name, cells = block.column, block.categories
        before = vocabularies.get(name, Vocabulary())
        rows = before.rows + len(cells) - cells.null_count
        codes = before.find(cells)
        at = np.flatnonzero(codes == 0.0)
        new = cells.take(pa.array(at)).dictionary_encode()
        values, own = new.dictionary.to_pylist(), np.full(len(cells), -1)
        own[at] = new.indices.fill_null(-1)
        remedies = column_values.hash_remedy(name), drop_remedy(name)
        what = f"category of column {name!r}"
        column_values.require_short(chunk, what, values, own, remedies, kept)
        after, found = before.learn(values)
        codes[at] = np.append(found, 0.0)[own[at]]
        after = after.with_rows(rows)
        if not before.rows and name not in self.columns.roles:
            column_values.note_numbers(chunk, name, after.values)
        column_values.require_repeated(self.columns, chunk, name, after.size, rows)
        if after.is_full:
            raise chunk.error(0, f"column {name!r} has {after.size:,} categories", *remedies)
        if after.size:
            vocabularies[name] = after
        return block._replace(categories=codes)

    def only(self, at: Any) -> ColumnEncoder:
        """Return an encoder of the features at some indices alone."""
        features = tuple(self.features[j] for j in at.tolist())
        columns = {*(feature.column for feature in features), *self.vocabularies}
        kinds = {name: kind for name, kind in self.kinds.items() if name in columns}
        bases = {name: base for name, base in self.bases.items() if name in columns}
        return replace(self, kinds=kinds, features=features, bases=bases)

    def without_categories(
        self, rows: Mapping[str, int], stay: Sequence[NDArray[np.intp]]
    ) -> ColumnEncoder:
        """Return an encoder after rows were unlearned, with the categories at some positions.

        ``rows`` are the numbers of unlearned rows with a category, by column.
        """
        vocabularies = {
            name: (one if len(at) == one.size else one.select(at)).with_rows(one.rows - rows[name])
            for (name, one), at in zip(self.vocabularies.items(), stay, strict=True)
        }
        return replace(self, vocabularies=vocabularies)

    def find_new(self, before: ColumnEncoder) -> Feature | None:
        """Return a feature or category that an earlier encoder does not have, if there is one."""
        if self.features != before.features:
            known = set(before.features)
            for feature in self.features:
                if feature not in known:
                    return feature
        for name, one in self.vocabularies.items():
            size = before.vocabularies.get(name, Vocabulary()).size
            if one.size > size:
                return Feature(name, "category", one.values[size])
        return None

    def missing_columns(self, chunk: Chunk) -> list[str]:
        """Return the columns that were learned, and that a table does not have."""
        learned = self._learned_columns if chunk.table else {}
        offered = frozenset(chunk.offered or chunk.columns)
        return [name for name in learned if name not in offered]

    def unknown_columns(self, chunk: Chunk) -> list[str]:
        """Return the columns that are features, and were never learned."""
        names = chunk.offered or chunk.names
        return [c for c in self.columns.features_among(names) if not self.knows(c)]

    def predict(
        self,
        chunk: Chunk,
        apart: Collection[str] | None = (),
        optional: Collection[str] = (),
        usual: Vector | None = None,
        has_labels: bool = False,
        lenient_option: str = "ignore_unknown",
    ) -> EncodedChunk:
        """Encode rows that are to be predicted: categories that were never learned are zero.

        ``apart`` are columns that need not have been learned. If it is None, no column need be, and
        rows without any column of the model are left out. ``optional`` are columns that some of the
        learned rows did not have: a table need not have them, if it has others, and they are 0.
        ``usual`` is the mean of each feature (d,), for numbers that were never missing before. The
        result has no weights, and labels only with ``has_labels``. ``lenient_option`` is the
        setting of the user that makes ``apart`` None.
        """
        y = self._require_labels(chunk) if has_labels else None
        lacking = self.missing_columns(chunk)
        needed = [name for name in lacking if name not in optional]
        if lacking and not needed and len(lacking) == len(self._learned_columns):
            needed = lacking
        if needed:
            raise column_values.missing_columns(chunk, needed, "which the model has learned")
        strange = [name for name in self.unknown_columns(chunk) if name not in (apart or ())]
        if strange and apart is not None:
            raise DataError(
                f"{chunk.source} has a column {strange[0]!r}, which the model has not learned; "
                f"it has learned {column_values.format_names(self._learned_columns)}",
                Suggestion("correct the name"),
                Suggestion("leave unknown columns out", lenient_option, True),
            )
        numbers = self._read_numbers(chunk, self.kinds, is_learning=False)
        missing = numbers.missing
        kept = column_values.keep(self.columns, chunk, missing, predicting=True)
        bare = self._bare(chunk)
        if apart is not None and bare.any():
            skip = Suggestion("leave such rows without a prediction", lenient_option, True)
            names = column_values.format_names(self._learned_columns)
            problem = f"none of the columns of the model is here: {names}"
            raise chunk.error(int(bare.argmax()), problem, *cell_parsing.CORRECT, skip)
        kept &= ~bare
        blocks = list(self._blocks(chunk, numbers, self.kinds, kept, self.bases, usual))
        X, unknown, bounds = matrix_of(blocks, self._index, int(kept.sum()), self.vocabularies)
        y = np.empty(0) if y is None else y[kept]
        found = EncodedChunk(X, y, None, kept, unknown, tuple(strange), int(bare.sum()))
        blank = {
            name: int(gone.sum())
            for name, gone in missing.items()
            if self.columns.uses_indicators and gone.any() and name in self.kinds
            if Feature(name, "missing") not in self._index
        }
        return found._replace(lacking=tuple(lacking), blank=blank, bounds=bounds)

    def _require_labels(self, chunk: Chunk) -> Labels:
        """Return the labels of all rows; raise if one is missing."""
        label = self.columns.label
        if chunk.table and label not in chunk.offered:
            raise column_values.missing_columns(chunk, [label], "which contains the labels")
        _, y, gone, _ = column_values.labels(self.columns, chunk, self.labels)
        chunk.refuse(gone, lambda row: f"no label in column {label!r}; leave the row out")
        return y

    def _bare(self, chunk: Chunk) -> Flags:
        """Return the rows (rows,) that have no column of the model, if they need not have all."""
        bare = np.full(chunk.rows, not chunk.table and chunk.entries is None)
        for name in chunk.columns if bare.any() else ():
            if self.knows(name):
                bare &= chunk.absent.get(name, False)
        return bare

    def _least(self, chunk: Chunk) -> int:
        """Return the least number of features: one for each column that has a value."""
        columns = [chunk.columns[name] for name in self.columns.features_among(chunk.columns)]
        named = sum(1 for column in columns if column.null_count < len(column))
        return named + (0 if chunk.entries is None else len(np.unique(chunk.entries.indices)))

    def knows(self, name: str) -> bool:
        """Return whether a value, or that values are missing, was learned of a column."""
        return name in self.kinds or Feature(name, "missing") in self._index

    def _read_numbers(
        self, chunk: Chunk, kinds: Mapping[str, str], is_learning: bool
    ) -> CellNumbers:
        """Return the columns of numbers, and where any column is missing."""
        numbers: dict[str, Vector] = {}
        nulls: dict[str, Flags] = {}
        names = self.columns.features_among(chunk.ordered_columns)
        for name in names:
            kind, column = KINDS.get(kinds.get(name, "")), chunk.columns[name]
            if kind is NUMBER and column.type == FLOAT64:  # the same as below, faster
                numbers[name] = column.to_numpy(zero_copy_only=False)
                continue
            if kind is not None and not chunk.cells:
                column_values.require_same_type(self.columns, chunk, name, kind)
            if kind is not None and kind.is_number:
                drop = (drop_remedy(name),) if is_learning else ()
                remedies = (*cell_parsing.CORRECT, *drop)
                numbers[name] = kind.read(self.columns, chunk, name, remedies)
            elif column.null_count and (is_learning or self.knows(name)):
                nulls[name] = column.is_null().to_numpy(zero_copy_only=False)
        is_plain = all(KINDS[kinds[name]] is NUMBER for name in numbers)
        stacked = column_values.stack_numbers(numbers) if is_plain else None
        found = nulls
        if stacked is None:
            found = column_values.missing_numbers(chunk, numbers) | nulls
        missing = {
            name: found[name] & ~chunk.absent[name] if name in chunk.absent else found[name]
            for name in names
            if name in found
        }
        return CellNumbers(numbers, missing, stacked)

    def _require_short(self, chunk: Chunk, block: ColumnBlock, kept: Flags) -> None:
        """Raise if a category is too long to be one."""
        for name, kind, _ in block.features[:1]:
            if kind == "category":
                what, values = f"category of column {name!r}", [f[2] for f in block.features]
                remedies = column_values.hash_remedy(name), drop_remedy(name)
                column_values.require_short(chunk, what, values, block.codes, remedies, kept)

    def _new_bases(self, numbers: Mapping[str, Vector]) -> dict[str, float]:
        """Return what stands for missing numbers: the first value of a new column.

        It is 0 if the column was missing in all rows before, which have 0 in the new features.
        """
        if self.columns.missing != "mean":
            return self.bases
        bases = dict(self.bases)
        for name, x in numbers.items():
            if name not in bases:
                values = x[:0] if self.knows(name) else x[~np.isnan(x)]
                bases[name] = float(values[0]) if len(values) else 0.0
        return bases

    def _blocks(
        self,
        chunk: Chunk,
        cells: CellNumbers,
        kinds: Mapping[str, str],
        kept: Flags,
        bases: Mapping[str, float],
        usual: Vector | None = None,
    ) -> Iterator[ColumnBlock]:
        """Yield the features of numbers, text, missing values and numbered entries in kept rows."""
        columns, is_whole = self.columns, bool(kept.all())
        numbers, missing, stacked = cells
        plain: list[str] = []  # numbers as they are, in one block for several columns

        def whole_block() -> ColumnBlock:
            values = [numbers[name] if is_whole else numbers[name][kept] for name in plain]
            features = [*map(Feature._make, zip(plain, repeat("number"), repeat("")))]
            rows = None if stacked is None else stacked.select(kept)
            return ColumnBlock(features, values, rows=int(kept.sum()), stacked=rows)

        for name, x in numbers.items():
            if name not in missing and KINDS[kinds[name]] is NUMBER:
                plain.append(name)
                continue
            if plain:
                yield whole_block()
                plain = []
            values = x if is_whole else x[kept]
            block = KINDS[kinds[name]].encode(columns, name, values, self._index)
            if name in missing:
                block = self._impute(block, missing[name][kept], bases.get(name, 0.0), usual)
            yield block
        if plain:
            yield whole_block()
        for name in chunk.ordered_columns:
            kind = KINDS.get(kinds.get(name, ""))
            if kind is not None and not kind.is_number and columns.feature(name):
                texts = kind.read(columns, chunk, name, ())
                texts = texts if is_whole else texts.filter(pa.array(kept))
                yield kind.encode(columns, name, texts, self._index)
        for name, gone in missing.items() if columns.uses_indicators else ():
            if gone.any():
                x = gone[kept].astype(np.float64)
                yield ColumnBlock([Feature(name, "missing")], (x,), rows=int(x.sum()))
        if chunk.entries is not None:
            yield column_values.read_numbered(columns, chunk, kept)

    def _impute(
        self, block: ColumnBlock, gone: Flags, base: float, usual: Vector | None
    ) -> ColumnBlock:
        """Return a block with a constant where a value is missing, and 0 where it is absent.

        The constant is ``base`` or 0 if there is an indicator; else ``usual``, the mean of each
        feature (d,), if it is given.
        """
        is_nan = np.isnan(block.values[0])
        is_indicated = Feature(block.features[0].column, "missing") in self._index
        values = []
        for feature, x in zip(block.features, block.values, strict=True):
            constant = base if feature.kind == "number" else 0.0
            if usual is not None and not is_indicated and feature in self._index:
                constant = float(usual[self._index[feature]])
            values.append(np.where(is_nan, np.where(gone, constant, 0.0), x))
        return block._replace(values=values, rows=len(gone) - int(is_nan.sum()))

    def plain(self) -> dict[str, Any]:
        """Return all but the features as JSON can represent it."""
        plain = {"columns": asdict(self.columns), "kinds": self.kinds, "labels": self.labels}
        return plain | ({"bases": self.bases} if self.columns.missing == "mean" else {})
