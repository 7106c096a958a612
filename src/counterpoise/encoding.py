"""From columns to features: numbers as they are, one feature for each category, on the go.

Columns, categories and indicators of missing values get their features when they are first seen;
in all rows before they were zero, so that the moments are widened exactly. The same encoding serves
prediction, where what was never learnt is zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from shlex import quote
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import scipy.sparse as sp
from sklearn.utils import murmurhash3_32

from counterpoise import cells
from counterpoise.arrays import Flags, Labels, Matrix, Rows, Vector
from counterpoise.columns import Columns, Feature
from counterpoise.streams.chunk import Chunk, DataError
from counterpoise.validate import HEAVIEST, LARGEST

MOST = 1000  # categories of a column, or classes


class Encoded(NamedTuple):
    """Rows ready to be learnt or predicted.

    Attributes
    ----------
    X : ndarray or CSR matrix of shape (n, d)
        The rows that were kept.
    y : ndarray of shape (n,)
        Their labels; empty when predicting.
    weight : ndarray of shape (n,), optional
        Their weights.
    kept : ndarray of shape (rows,)
        Which rows of the chunk they are.
    unknown : dict of str to int
        Cells whose category was never learnt, by column.
    """

    X: Rows
    y: Labels
    weight: Vector | None
    kept: Flags
    unknown: dict[str, int]


@dataclass(frozen=True, eq=False)
class Encoding:
    """What is known of the columns so far.

    Attributes
    ----------
    columns : Columns
        What somebody wants of them.
    kinds : dict of str to str
        "number", "text", "time" or "hash", of columns in which a value was seen.
    features : tuple of Feature
        In the order of their appearance.
    labels : str, optional
        "int" or "text".
    """

    columns: Columns
    kinds: dict[str, str] = field(default_factory=dict)
    features: tuple[Feature, ...] = ()
    labels: str | None = None

    @cached_property
    def _index(self) -> dict[Feature, int]:
        return {feature: j for j, feature in enumerate(self.features)}

    @cached_property
    def _dense(self) -> bool:
        return all(f.kind == "number" for f in self.features)

    # Learning

    def learn(self, chunk: Chunk) -> tuple[Encoded, Encoding]:
        """Encode rows that are to be learnt.

        Parameters
        ----------
        chunk : Chunk
            The rows.

        Returns
        -------
        Encoded
        Encoding
            With what is new in these rows; itself if nothing is.
        """
        self._require_columns(chunk)
        kinds = self._decided(chunk)
        numeric, missing = self._numbers(chunk, kinds, predicting=False)
        label = self.columns.label
        label_kind, y, missing[label] = self._labels(chunk)
        if missing[label].any() and self.columns.missing == "indicate":
            raise chunk.error(
                int(missing[label].argmax()),
                f"label {label!r} is missing, and a label cannot be indicated; drop the row, or "
                "take --missing drop",
            )
        weight = self._weights(chunk, missing)
        name = self.columns.weight
        if name is not None and missing[name].any() and self.columns.missing == "indicate":
            raise chunk.error(
                int(missing[name].argmax()),
                f"weight {name!r} is missing, and a weight cannot be indicated; drop the row, or "
                "take --missing drop",
            )
        kept = self._keep(chunk, missing, predicting=False)
        fresh: dict[Feature, None] = {}
        for name in numeric:
            fresh[Feature(name, "number")] = None
        dictionaries = {}
        for name in self._texts(chunk, kinds):
            dictionaries[name] = found = self._categories(chunk, name, kinds[name], kept)
            fresh |= dict.fromkeys(found[0])
        if self.columns.missing == "indicate":
            fresh |= dict.fromkeys(
                Feature(c, "missing") for c, where in missing.items() if where.any()
            )
        numbered = self._numbered(chunk, kept)
        if numbered is not None:
            fresh |= dict.fromkeys(numbered[0])
            kinds |= dict.fromkeys((f.column for f in numbered[0]), "number")
        new = [feature for feature in fresh if feature not in self._index]
        grown = self
        if new or kinds != self.kinds or label_kind != self.labels:
            grown = replace(
                self, kinds=kinds, features=self.features + tuple(new), labels=label_kind
            )
            self._require_few(chunk, new, grown)
        X, _ = grown._rows(chunk, kept, numeric, dictionaries, missing, numbered)
        return Encoded(X, y[kept], None if weight is None else weight[kept], kept, {}), grown

    def predict(self, chunk: Chunk) -> Encoded:
        """Encode rows that are to be predicted: what was never learnt is zero.

        Parameters
        ----------
        chunk : Chunk
            The rows.

        Returns
        -------
        Encoded
            Without labels and weights.
        """
        known = {f.column for f in self.features}
        lacking = [c for c in self.kinds if c in known and c not in chunk.columns]
        if chunk.table and lacking:
            raise DataError(
                f"{chunk.source} lacks column {lacking[0]!r}, which the model has learnt; it has "
                f"{_listed(chunk.offered)}"
            )
        numeric, missing = self._numbers(chunk, self.kinds, predicting=True)
        kept = self._keep(chunk, missing, predicting=True)
        dictionaries = {
            name: self._categories(chunk, name, self.kinds[name], kept)
            for name in self._texts(chunk, self.kinds)
        }
        numbered = self._numbered(chunk, kept)
        X, unknown = self._rows(chunk, kept, numeric, dictionaries, missing, numbered)
        return Encoded(X, np.empty(0), None, kept, unknown)

    def judge(self, chunk: Chunk) -> Encoded:
        """Encode rows that are to be predicted, with their labels.

        Parameters
        ----------
        chunk : Chunk
            The rows.

        Returns
        -------
        Encoded
        """
        label = self.columns.label
        if chunk.table and label not in chunk.offered:
            raise DataError(
                f"{chunk.source} has no column {label!r}, which holds the labels; it has "
                f"{_listed(chunk.offered)}"
            )
        _, y, gone = self._labels(chunk)
        if gone.any():
            raise chunk.error(int(gone.argmax()), f"label {label!r} is missing; leave the row out")
        encoded = self.predict(chunk)
        return encoded._replace(y=y[encoded.kept])

    # Within

    def _texts(self, chunk: Chunk, kinds: Mapping[str, str]) -> list[str]:
        """Columns of text of a chunk, in order."""
        return [
            name
            for name in _ordered(chunk)
            if kinds.get(name) in ("text", "hash") and self.columns.feature(name)
        ]

    def _require_columns(self, chunk: Chunk) -> None:
        if not chunk.table:
            return
        known = {f.column: "" for f in self.features}
        for name, option in (self.columns.named | known).items():
            if name not in chunk.offered:
                what = f"named by {option}" if option else "which was learnt before"
                has = _listed(chunk.offered)
                raise DataError(f"{chunk.source} has no column {name!r}, {what}; it has {has}")

    def _decided(self, chunk: Chunk) -> dict[str, str]:
        """Kinds of columns, with those that these rows decide."""
        kinds = dict(self.kinds)
        for name, column in chunk.columns.items():
            if name in kinds or not self.columns.feature(name):
                continue
            kind = None
            if column.null_count < len(column):
                kind = self.columns.told.get(name) or cells.kind_of(chunk, name)
            if kind == "time" and name not in self.columns.time:
                row = int(column.is_valid().to_numpy(zero_copy_only=False).argmax())
                date = column[row].as_py()
                raise chunk.error(
                    row,
                    f"column {name!r} holds dates ({date}); learn them as seconds with "
                    f"--time {quote(name)}, as categories with --categorical {quote(name)}, or "
                    f"leave them out with --drop {quote(name)}",
                )
            if kind is not None:
                kinds[name] = kind
        return kinds

    def _numbers(
        self, chunk: Chunk, kinds: Mapping[str, str], predicting: bool
    ) -> tuple[dict[str, Vector], dict[str, Flags]]:
        """Values of columns of numbers, zero where missing, and where any column is missing."""
        values: dict[str, Vector] = {}
        missing: dict[str, Flags] = {}
        for name in _ordered(chunk):
            column = chunk.columns[name]
            if not self.columns.feature(name):
                continue
            kind, absent = kinds.get(name), chunk.absent.get(name)
            if kind in ("number", "time"):
                read = cells.numbers if kind == "number" else cells.seconds
                other = "" if predicting else f", or leave the column out with --drop {quote(name)}"
                x = read(chunk, name, f"correct it{other}")
                with np.errstate(over="ignore"):
                    moderate = x @ x <= LARGEST
                if not moderate:  # also if any is NaN
                    gone = np.isnan(x)
                    self._require_moderate(chunk, name, x)
                    x = np.where(gone, 0.0, x)
                    missing[name] = gone if absent is None else gone & ~absent
                values[name] = x
            elif column.null_count and (self.knows(name) or not predicting):
                gone = column.is_null().to_numpy(zero_copy_only=False)
                missing[name] = gone if absent is None else gone & ~absent
        return values, missing

    def knows(self, name: str) -> bool:
        """Whether anything was learnt from a column, be it only that it is missing."""
        return name in self.kinds or Feature(name, "missing") in self._index

    def _require_moderate(self, chunk: Chunk, name: str, x: Vector) -> None:
        with np.errstate(invalid="ignore"):
            bad = np.flatnonzero(np.abs(x) > LARGEST)
        if len(bad):
            raise chunk.error(
                int(bad[0]),
                f"column {name!r} is {x[bad[0]]:g}, beyond {LARGEST:g}: correct it, or leave the "
                f"column out with --drop {quote(name)}",
            )

    def _labels(self, chunk: Chunk) -> tuple[str | None, Labels, Flags]:
        """Kind of the labels, the labels, and where they are missing."""
        name = self.columns.label
        if name not in chunk.columns:
            return self.labels, np.zeros(chunk.rows, dtype=int), np.ones(chunk.rows, dtype=bool)
        kind = self.labels
        if kind is None:
            found = self.columns.told.get(name) or cells.kind_of(chunk, name)
            kind = None if found is None else "int" if found == "number" else "text"
        if kind != "int":
            coded = cells.texts(chunk, name).dictionary_encode()
            values = np.array([*coded.dictionary.to_pylist(), ""], dtype=str)
            codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            return kind, values[codes], codes < 0
        return kind, *cells.whole(chunk, name)

    def _weights(self, chunk: Chunk, missing: dict[str, Flags]) -> Vector | None:
        name = self.columns.weight
        if name is None:
            return None
        if name not in chunk.columns:
            raise DataError(f"{chunk.source} has no column {name!r}, named by --weight")
        weight = cells.numbers(chunk, name)
        missing[name] = np.isnan(weight)
        with np.errstate(invalid="ignore"):
            bad = np.flatnonzero(~missing[name] & ~((weight >= 0.0) & (weight <= HEAVIEST)))
        if len(bad):
            raise chunk.error(
                int(bad[0]),
                f"weight {weight[bad[0]]:g} in column {name!r} must be from 0 to {HEAVIEST:g}",
            )
        return weight

    def _keep(self, chunk: Chunk, missing: dict[str, Flags], predicting: bool) -> Flags:
        """Rows to be kept."""
        kept = np.ones(chunk.rows, dtype=bool)
        for name, gone in missing.items():
            if not gone.any():
                continue
            if self.columns.missing == "error":
                remedy = (
                    "fill it in, or learn a model with --missing indicate"
                    if predicting
                    else "drop such rows with --missing drop, or learn that it is missing with "
                    f"--missing indicate, or leave the column out with --drop {quote(name)}"
                    if self.columns.feature(name)
                    else "drop such rows with --missing drop"
                )
                raise chunk.error(int(gone.argmax()), f"column {name!r} is missing; {remedy}")
            if self.columns.missing == "drop":
                kept &= ~gone
        return kept

    def _categories(
        self, chunk: Chunk, name: str, kind: str, kept: Flags
    ) -> tuple[list[Feature], Any]:
        """Features of the values of a column, and for each row which of them, or −1."""
        text = cells.texts(chunk, name)
        if not kept.all():
            text = text.filter(pa.array(kept))
        coded = text.dictionary_encode()
        values = coded.dictionary.to_pylist()
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        if kind == "text":
            return [Feature(name, "category", value) for value in values], codes
        buckets = [
            murmurhash3_32(value.encode(), self.columns.seed, positive=True)
            % self.columns.hashed[name]
            for value in values
        ]
        return [Feature(name, "bucket", str(bucket)) for bucket in buckets], codes

    def _numbered(self, chunk: Chunk, kept: Flags) -> tuple[list[Feature], Any, Any] | None:
        """Features of a LIBSVM chunk in increasing order, their columns, and the entries."""
        if chunk.entries is None:
            return None
        X = chunk.entries if kept.all() else chunk.entries[kept]
        bad = np.flatnonzero(~(np.abs(X.data) <= LARGEST))
        if len(bad):
            row = int(np.searchsorted(X.indptr, bad[0], side="right")) - 1
            row = int(np.flatnonzero(kept)[row])
            raise chunk.error(
                row, f"feature {X.indices[bad[0]] + 1} is {X.data[bad[0]]:g}: correct it"
            )
        columns = [j for j in np.unique(X.indices).tolist() if self.columns.feature(str(j + 1))]
        return [Feature(str(j + 1), "number") for j in columns], np.array(columns, dtype=int), X

    def _require_few(self, chunk: Chunk, new: list[Feature], grown: Encoding) -> None:
        for name in dict.fromkeys(f.column for f in new if f.kind == "category"):
            count = sum(f.column == name and f.kind == "category" for f in grown.features)
            if count > MOST:
                raise chunk.error(
                    0,
                    f"column {name!r} has more than {MOST:,} categories by the end of this chunk; "
                    f"spread them over buckets with --hash {quote(name + '=256')}, or leave the "
                    f"column out with --drop {quote(name)}",
                )

    def _rows(
        self,
        chunk: Chunk,
        kept: Flags,
        numeric: dict[str, Vector],
        dictionaries: dict[str, tuple[list[Feature], Any]],
        missing: dict[str, Flags],
        numbered: tuple[list[Feature], Any, Any] | None,
    ) -> tuple[Rows, dict[str, int]]:
        """Rows of features, dense if all are numbers; cells of unknown categories, by column."""
        whole = bool(kept.all())
        n = chunk.rows if whole else int(kept.sum())
        at: dict[int, Vector] = {}
        for name, x in numeric.items():
            j = self._index.get(Feature(name, "number"))
            if j is not None:
                at[j] = x if whole else x[kept]
        if self._dense and numbered is None:
            return _dense(at, n, len(self.features)), {}
        unknown: dict[str, int] = {}
        indices: list[Any] = [np.full(n, j) for j in at]
        data: list[Any] = list(at.values())
        for name, (features, codes) in dictionaries.items():
            known = np.array([self._index.get(f, -1) for f in features] + [-1])
            column = known[codes]
            strange = int(((column < 0) & (codes >= 0)).sum())
            if strange:
                unknown[name] = strange
            indices.append(column)
            data.append((column >= 0).astype(np.float64))
        if self.columns.missing == "indicate":
            for name, gone in missing.items():
                j = self._index.get(Feature(name, "missing"))
                if j is not None:
                    indices.append(np.where(gone, j, -1))
                    data.append(gone.astype(np.float64))
        result = _sparse(indices, data, n, len(self.features))
        return (result if numbered is None else result + self._entries(numbered, n)), unknown

    def _entries(self, numbered: tuple[list[Feature], Any, Any], n: int) -> Any:
        features, columns, X = numbered
        place = np.array([self._index.get(f, -1) for f in features] + [-1])
        at = np.searchsorted(columns, X.indices)
        found = np.append(columns, -1)[at] == X.indices
        column = np.where(found, place[at], -1)
        row = np.repeat(np.arange(n), np.diff(X.indptr))
        known = column >= 0
        return sp.csr_array(
            (X.data[known], (row[known], column[known])), shape=(n, len(self.features))
        )

    # As plain values, for the model file

    def plain(self) -> dict[str, Any]:
        """What is known, as JSON can hold it; the features are kept apart.

        Returns
        -------
        dict
        """
        return {"columns": asdict(self.columns), "kinds": self.kinds, "labels": self.labels}


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


def _ordered(chunk: Chunk) -> list[str]:
    """Columns in an order that does not depend on how they were read."""
    return [name for name in chunk.offered or sorted(chunk.columns) if name in chunk.columns]


def _listed(columns: tuple[str, ...]) -> str:
    names = [repr(name) for name in columns]
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
