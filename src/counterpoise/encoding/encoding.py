"""From columns to features: numbers as they are, one feature for each category, on the go.

Columns, categories and indicators of missing values get their features when they are first seen;
in all rows before they were zero, so that the moments are widened exactly. The same encoding serves
prediction, where what was never learned is zero.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from sklearn.utils import murmurhash3_32

from counterpoise.arrays import Counts, Flags, Labels, Rows, Vector
from counterpoise.encoding import cells, matrix
from counterpoise.encoding.columns import Columns, Feature
from counterpoise.encoding.matrix import Parts, rows_of
from counterpoise.errors import DataError, Message, Remedy, Setting
from counterpoise.streams.chunk import Chunk
from counterpoise.validate import HEAVIEST, LARGEST

MOST = 1000  # categories of a column, or classes
LONGEST_NAME = 1000  # characters of a label or a category
PADDED = 1 << 30  # bytes of the labels of a chunk, which NumPy makes all as long as the longest
ALIKE = 20  # categories of a column that look like numbers or dates


class Encoded(NamedTuple):
    """Rows ready to be learned or predicted.

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
        Cells whose category was never learned, by column.
    strange : tuple of str
        Columns that the model does not know, and that were left out.
    bare : int
        Rows that were left out because they have none of the columns of the model.
    notes : dict of str to Message
        What somebody should be told, by subject.
    held : ndarray of shape (d,)
        When learning: rows that have a value for each feature, be it 0. A feature that no row
        holds any more is not one.
    lacking : tuple of str
        When predicting: columns that a table does not have, and need not have.
    """

    X: Rows
    y: Labels
    weight: Vector | None
    kept: Flags
    unknown: dict[str, int]
    strange: tuple[str, ...] = ()
    bare: int = 0
    notes: Mapping[str, Message] = {}
    held: Counts = np.zeros(0, dtype=np.int64)
    lacking: tuple[str, ...] = ()


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

    # Learning

    def learn(
        self, chunk: Chunk, room: float = np.inf, lenient: bool = False
    ) -> tuple[Encoded, Encoding]:
        """Encode rows that are to be learned.

        Parameters
        ----------
        chunk : Chunk
            The rows.
        room : float, default=inf
            Features that there is memory for; it is asked before much is made of the columns.
        lenient : bool, default=False
            Whether columns that were learned before may be lacking, and are then 0.

        Returns
        -------
        Encoded
        Encoding
            With what is new in these rows; itself if nothing is.
        """
        self._require_columns(chunk, lenient)
        _require_room(chunk, self._least(chunk), room)
        kinds = self._decided(chunk)
        numeric, missing = self._numbers(chunk, kinds, predicting=False)
        label = self.columns.label
        label_kind, y, missing[label] = self._labels(chunk)
        if missing[label].any() and self.columns.missing == "indicate":
            raise chunk.error(
                int(missing[label].argmax()),
                f"label {label!r} is missing, and a label cannot be indicated",
                Remedy("drop the row"),
                Remedy("take {}", "missing", "drop"),
            )
        weight = self._weights(chunk, missing)
        name = self.columns.weight
        if name is not None and missing[name].any() and self.columns.missing == "indicate":
            raise chunk.error(
                int(missing[name].argmax()),
                f"weight {name!r} is missing, and a weight cannot be indicated",
                Remedy("drop the row"),
                Remedy("take {}", "missing", "drop"),
            )
        kept = self._keep(chunk, missing, predicting=False)
        self._require_declared(chunk, y, kept)
        fresh: dict[Feature, None] = {}
        for name in numeric:
            fresh[Feature(name, "number")] = None
        dictionaries = {}
        for name in self._texts(chunk, kinds):
            dictionaries[name] = found = self._categories(chunk, name, kinds[name], kept)
            if kinds[name] == "text":
                values = [feature.value for feature in found[0]]
                remedies = (_spread(name), _left_out(name))
                _require_short(
                    chunk, f"category of column {name!r}", values, found[1], remedies, kept
                )
            fresh |= dict.fromkeys(found[0])
            _require_room(chunk, len(fresh), room)
        if self.columns.missing == "indicate":
            fresh |= dict.fromkeys(
                Feature(c, "missing") for c, where in missing.items() if where.any()
            )
        numbered = self._numbered(chunk, kept)
        if numbered is not None:
            fresh |= dict.fromkeys(numbered[0])
            kinds |= dict.fromkeys((f.column for f in numbered[0]), "number")
        new = [feature for feature in fresh if feature not in self._index]
        grown, notes = self, dict[str, Message]()
        if new or kinds != self.kinds or label_kind != self.labels:
            features = self.features + tuple(new)
            grown = replace(self, kinds=kinds, features=features, labels=label_kind)
            notes = self._require_few(chunk, new, grown)
        parts = self._parts(chunk, kept, numeric, dictionaries, missing, numbered)
        X, _ = rows_of(parts, grown._index)
        held = matrix.held(parts, grown._index)
        weight = None if weight is None else weight[kept]
        return Encoded(X, y[kept], weight, kept, {}, notes=notes, held=held), grown

    def only(self, at: Any) -> Encoding:
        """What is known of some of the features, and of no other column.

        Parameters
        ----------
        at : ndarray of int
            Their places, in order.

        Returns
        -------
        Encoding
        """
        features = tuple(self.features[j] for j in at.tolist())
        columns = {feature.column for feature in features}
        kinds = {name: kind for name, kind in self.kinds.items() if name in columns}
        return replace(self, kinds=kinds, features=features)

    def lacking(self, chunk: Chunk) -> list[str]:
        """Columns that were learned, and that a table does not have.

        Parameters
        ----------
        chunk : Chunk
            Rows of it.

        Returns
        -------
        list of str
        """
        known = dict.fromkeys(f.column for f in self.features) if chunk.table else {}
        offered = frozenset(chunk.offered or chunk.columns)
        return [name for name in known if name not in offered]

    def strangers(self, chunk: Chunk) -> list[str]:
        """Columns that are neither known, nor to be left out.

        Parameters
        ----------
        chunk : Chunk
            Rows that have them.

        Returns
        -------
        list of str
        """
        names = chunk.offered or chunk.names
        return [c for c in names if self.columns.feature(c) and not self.knows(c)]

    def predict(
        self, chunk: Chunk, apart: Collection[str] | None = (), optional: Collection[str] = ()
    ) -> Encoded:
        """Encode rows that are to be predicted: categories that were never learned are zero.

        Parameters
        ----------
        chunk : Chunk
            The rows.
        apart : collection of str, optional
            Columns that the model need not know; None if it need not know any, so that rows that
            have none of its own are left out.
        optional : collection of str
            Columns that some of the learned rows did not have: a table may lack them, if it has
            others, and they are 0 as they were in these rows.

        Returns
        -------
        Encoded
            Without labels and weights.
        """
        lacking = self.lacking(chunk)
        needed = [name for name in lacking if name not in optional]
        if lacking and not needed and len(lacking) == len({f.column for f in self.features}):
            needed = lacking
        if needed:
            raise DataError(
                f"{chunk.source} lacks column {needed[0]!r}, which the model has learned; it has "
                f"{_listed(chunk.offered)}"
            )
        strange = [name for name in self.strangers(chunk) if name not in (apart or ())]
        if strange and apart is not None:
            known = dict.fromkeys(f.column for f in self.features)
            raise DataError(
                f"{chunk.source} has a column {strange[0]!r}, which the model does not know; it "
                f"knows {_listed(tuple(known))}",
                Remedy("correct the name"),
                Remedy("leave unknown columns out", "ignore_unknown", True),
            )
        numeric, missing = self._numbers(chunk, self.kinds, predicting=True)
        kept = self._keep(chunk, missing, predicting=True)
        bare = self._bare(chunk)
        if bare.any() and apart is not None:
            known = dict.fromkeys(f.column for f in self.features)
            raise chunk.error(
                int(bare.argmax()),
                f"has none of the columns of the model, which are {_listed(tuple(known))}",
                Remedy("correct it"),
                Remedy("leave such rows without a prediction", "ignore_unknown", True),
            )
        kept &= ~bare
        dictionaries = {
            name: self._categories(chunk, name, self.kinds[name], kept)
            for name in self._texts(chunk, self.kinds)
        }
        numbered = self._numbered(chunk, kept)
        parts = self._parts(chunk, kept, numeric, dictionaries, missing, numbered)
        X, unknown = rows_of(parts, self._index)
        found = Encoded(X, np.empty(0), None, kept, unknown, tuple(strange), int(bare.sum()))
        return found._replace(lacking=tuple(lacking))

    def judge(
        self, chunk: Chunk, apart: Collection[str] | None = (), optional: Collection[str] = ()
    ) -> Encoded:
        """Encode rows that are to be predicted, with their labels.

        Parameters
        ----------
        chunk : Chunk
            The rows.
        apart, optional : collection of str
            As for :meth:`predict`.

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
        encoded = self.predict(chunk, apart, optional)
        return encoded._replace(y=y[encoded.kept])

    # Within

    def _texts(self, chunk: Chunk, kinds: Mapping[str, str]) -> list[str]:
        """Columns of text of a chunk, in order."""
        return [
            name
            for name in _ordered(chunk)
            if kinds.get(name) in ("text", "hash") and self.columns.feature(name)
        ]

    def _bare(self, chunk: Chunk) -> Flags:
        """Rows that have no column of the model, where rows need not have all of them."""
        bare = np.full(chunk.rows, not chunk.table and chunk.entries is None)
        for name in chunk.columns if bare.any() else ():
            if self.knows(name):
                bare &= chunk.absent.get(name, np.zeros(chunk.rows, dtype=bool))
        return bare

    def _require_declared(self, chunk: Chunk, y: Labels, kept: Flags) -> None:
        """Raise if a label is not one of those that there may be."""
        declared = self.columns.classes
        if not declared:
            return
        bad = [label for label in np.unique(y[kept]).tolist() if str(label) not in declared]
        if bad:
            row = int((kept & np.isin(y, bad)).argmax())
            raise chunk.error(
                row,
                (
                    f"label {y[row].item()!r} in column {self.columns.label!r} is not one of "
                    f"{', '.join(declared)}, which ",
                    Setting("classes"),
                    " allows",
                ),
                Remedy("correct it"),
            )

    def _require_columns(self, chunk: Chunk, lenient: bool) -> None:
        if not chunk.table:
            return
        known = {} if lenient else {f.column: "" for f in self.features}
        offered = frozenset(chunk.offered)
        named = self.columns.named
        if self.kinds:  # the first file had them
            named = {name: option for name, option in named.items() if option != "drop"}
        if lenient:
            named = {c: o for c, o in named.items() if o in ("label", "weight")}
        for name, option in (named | known).items():
            if name not in offered:
                what = ("named by ", Setting(option)) if option else ("which was learned before",)
                has = f"; it has {_listed(chunk.offered)}"
                raise DataError((f"{chunk.source} has no column {name!r}, ", *what, has))

    def _least(self, chunk: Chunk) -> int:
        """Features that a chunk has at least: one for each column with a value in it."""
        columns = [c for name, c in chunk.columns.items() if self.columns.feature(name)]
        named = sum(1 for column in columns if column.null_count < len(column))
        return named + (0 if chunk.entries is None else len(np.unique(chunk.entries.indices)))

    def _decided(self, chunk: Chunk) -> dict[str, str]:
        """Kinds of columns, with those that these rows decide."""
        kinds = dict(self.kinds)
        for name, column in chunk.columns.items():
            if name in kinds or not self.columns.feature(name):
                continue
            kind = None
            if column.null_count < len(column):
                kind = self.columns.told.get(name)
                kind = kind or cells.kind_of(chunk, name, self.columns.decimal)
            if kind == "time" and name not in self.columns.time:
                row = int(column.is_valid().to_numpy(zero_copy_only=False).argmax())
                date = column[row].as_py()
                raise chunk.error(
                    row,
                    f"column {name!r} holds dates ({date})",
                    Remedy("learn them as seconds", "time", [name]),
                    Remedy("as categories", "categorical", [name]),
                    Remedy("leave them out", "drop", [name]),
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
                drop = () if predicting else (_left_out(name),)
                x = self._read(chunk, name, kind, (*cells.CORRECT, *drop))
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

    def _read(self, chunk: Chunk, name: str, kind: str, remedies: Sequence[Remedy]) -> Vector:
        """Cells of a column as numbers, as somebody says that they are written."""
        if kind == "time":
            return cells.seconds(chunk, name, remedies, self.columns.time_format)
        dressed = name in self.columns.numeric
        return cells.numbers(chunk, name, remedies, self.columns.decimal, dressed)

    def knows(self, name: str) -> bool:
        """Whether anything was learned from a column, be it only that it is missing."""
        return name in self.kinds or Feature(name, "missing") in self._index

    def _require_moderate(self, chunk: Chunk, name: str, x: Vector) -> None:
        with np.errstate(invalid="ignore"):
            bad = np.flatnonzero(np.abs(x) > LARGEST)
        if len(bad):
            raise chunk.error(
                int(bad[0]),
                f"column {name!r} is {x[bad[0]]:g}, beyond {LARGEST:g}",
                *cells.CORRECT,
                _left_out(name),
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
            codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            labels = coded.dictionary.to_pylist()
            right = (Remedy("is it the right one?"),)
            _require_short(chunk, f"label in column {name!r}", labels, codes, right)
            values = np.array([*labels, ""], dtype=str)
            if values.itemsize * len(codes) > PADDED:
                raise chunk.error(
                    0,
                    f"labels of {values.itemsize // 4} characters in chunks of {len(codes):,} "
                    "rows take too much memory",
                    Remedy("take fewer", "chunk_rows"),
                )
            return kind, values[codes], codes < 0
        return kind, *cells.whole(chunk, name)

    def _weights(self, chunk: Chunk, missing: dict[str, Flags]) -> Vector | None:
        name = self.columns.weight
        if name is None:
            return None
        if name not in chunk.columns:
            raise DataError(
                (f"{chunk.source} has no column {name!r}, named by ", Setting("weight"))
            )
        weight = cells.numbers(chunk, name, decimal=self.columns.decimal)
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
                drop = Remedy("drop such rows", "missing", "drop")
                indicate = Remedy("learn that it is missing", "missing", "indicate")
                remedies: tuple[Remedy, ...] = (drop, indicate, _left_out(name))
                if predicting:
                    learn = Remedy("learn a model", "missing", "indicate")
                    remedies = (Remedy("fill it in"), learn)
                elif not self.columns.feature(name):
                    remedies = (drop,)
                raise chunk.error(int(gone.argmax()), f"column {name!r} is missing", *remedies)
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

    def _require_few(self, chunk: Chunk, new: list[Feature], grown: Encoding) -> dict[str, Message]:
        """Raise if a column has too many categories; what should be said of the others."""
        notes = {}
        values: dict[str, list[str]] = {f.column: [] for f in new if f.kind == "category"}
        for feature in grown.features:
            if feature.kind == "category" and feature.column in values:
                values[feature.column].append(feature.value)
        for name, found in values.items():
            if name not in self.columns.categorical:
                look = cells.disguise(name, found, chunk.cells)
                text = f"column {name!r} holds {look.example!r} and its like"
                if look.found > ALIKE:
                    raise chunk.error(
                        0,
                        f"{text}: {look.found} categories by the end of this chunk look like "
                        f"numbers or dates, and no more than {ALIKE} may",
                        look.remedy,
                        Remedy("take them as categories", "categorical", [name]),
                        _left_out(name),
                    )
                if look.found and look.whole:
                    agree = Remedy("say {}", "categorical", [name])
                    notes[name] = Message(f"{text}, taken as categories", look.remedy, agree)
            if len(found) > MOST:
                raise chunk.error(
                    0,
                    f"column {name!r} has more than {MOST:,} categories by the end of this chunk",
                    _spread(name),
                    _left_out(name),
                )
        return notes

    def _parts(
        self,
        chunk: Chunk,
        kept: Flags,
        numeric: dict[str, Vector],
        texts: dict[str, tuple[list[Feature], Any]],
        missing: dict[str, Flags],
        numbered: tuple[list[Feature], Any, Any] | None,
    ) -> Parts:
        """What was read of a chunk."""
        without = {name: flags for name, flags in chunk.absent.items() if name in numeric}
        for name, gone in missing.items():
            without[name] = gone | without[name] if name in without else gone
        indicated = missing if self.columns.missing == "indicate" else {}
        return Parts(kept, numeric, texts, indicated, without, numbered)

    # As plain values, for the model file

    def plain(self) -> dict[str, Any]:
        """What is known, as JSON can hold it; the features are kept apart.

        Returns
        -------
        dict
        """
        return {"columns": asdict(self.columns), "kinds": self.kinds, "labels": self.labels}


def _require_room(chunk: Chunk, count: int, room: float) -> None:
    """Raise if there are more features than there is memory for."""
    if count > room:
        raise chunk.error(
            0,
            (
                f"by here there are {count:,} features or more, and ",
                Setting("memory_limit"),
                f" has room for {int(room):,}",
            ),
            Remedy("name the columns that matter", "keep"),
            Remedy("leave others out", "drop"),
            Remedy("spread categories over buckets", "hashed"),
            Remedy("raise {}", "memory_limit"),
        )


def _left_out(name: str) -> Remedy:
    return Remedy("leave the column out", "drop", [name])


def _spread(name: str) -> Remedy:
    return Remedy("spread them over buckets", "hashed", {name: 256})


def _require_short(
    chunk: Chunk,
    what: str,
    values: list[str],
    codes: Any,
    remedies: Sequence[Remedy],
    kept: Flags | None = None,
) -> None:
    """Raise if a label or a category is too long to be one."""
    for code, value in enumerate(values):
        if len(value) > LONGEST_NAME:
            row = int((codes == code).argmax())
            raise chunk.error(
                row if kept is None else int(np.flatnonzero(kept)[row]),
                f"a {what} has {len(value):,} characters, more than {LONGEST_NAME:,}",
                *remedies,
            )


def _ordered(chunk: Chunk) -> list[str]:
    """Columns in an order that does not depend on how they were read."""
    return [name for name in chunk.offered or sorted(chunk.columns) if name in chunk.columns]


def _listed(columns: tuple[str, ...]) -> str:
    names = [repr(name) for name in columns]
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
