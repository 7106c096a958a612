"""What the cells of a chunk say: the kinds of its columns, their numbers, labels and categories."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.arrays import Flags, Labels, Vector
from counterpoise.encoding import cells
from counterpoise.encoding.columns import Columns, Feature
from counterpoise.encoding.limits import (
    left_out,
    require_label_type,
    require_moderate,
    require_same_type,
    require_short,
)
from counterpoise.errors import DataError, Remedy, Setting
from counterpoise.streams.chunk import Chunk
from counterpoise.validate import HEAVIEST, LARGEST

TRUTH = ("true", "false")
PADDED = 1 << 30  # bytes of the labels of a chunk, which NumPy makes all as long as the longest


def decided(columns: Columns, chunk: Chunk, known: Mapping[str, str]) -> dict[str, str]:
    """Return the kinds of columns, with those that these rows decide."""
    kinds = dict(known)
    for name, column in chunk.columns.items():
        if name in kinds or not columns.feature(name):
            continue
        kind = None
        if column.null_count < len(column):
            kind = columns.told.get(name) or chunk.kinds.get(name)
            kind = kind or ("text" if name in chunk.categorical else None)
            kind = kind or cells.kind_of(chunk, name, columns.decimal)
        if kind == "time" and name not in columns.time:
            # A span of time has no place in a day.
            kind = "time" if pa.types.is_duration(column.type) else "date"
        if kind is not None:
            kinds[name] = kind
    return kinds


def numbers(
    columns: Columns, chunk: Chunk, kinds: Mapping[str, str], known: Callable[[str], bool] | None
) -> tuple[dict[str, Vector], dict[str, Flags]]:
    """Return columns of numbers, NaN where missing, and where any column is missing, each (rows,).

    ``known`` says whether the model knows a column; None when learning.
    """
    values: dict[str, Vector] = {}
    missing: dict[str, Flags] = {}
    for name in ordered(chunk):
        column = chunk.columns[name]
        if not columns.feature(name):
            continue
        kind, absent = kinds.get(name), chunk.absent.get(name)
        require_same_type(columns, chunk, name, kind)
        if kind in ("number", "time", "date"):
            drop = (left_out(name),) if known is None else ()
            x = _read(columns, chunk, name, kind, (*cells.CORRECT, *drop))
            with np.errstate(over="ignore"):
                moderate = x @ x <= LARGEST
            if not moderate:  # also if any is NaN
                gone = np.isnan(x)
                require_moderate(chunk, name, x)
                missing[name] = gone if absent is None else gone & ~absent
            values[name] = x
        elif column.null_count and (known is None or known(name)):
            gone = column.is_null().to_numpy(zero_copy_only=False)
            missing[name] = gone if absent is None else gone & ~absent
    return values, missing


def _read(
    columns: Columns, chunk: Chunk, name: str, kind: str, remedies: Sequence[Remedy]
) -> Vector:
    """Return the cells of a column as numbers, written as the user says."""
    if kind in ("time", "date"):
        return cells.seconds(chunk, name, remedies, columns.time_format)
    dressed = name in columns.numeric
    return cells.numbers(chunk, name, remedies, columns.decimal, dressed)


def labels(columns: Columns, chunk: Chunk, known: str | None) -> tuple[str | None, Labels, Flags]:
    """Return the kind of the labels, the labels, and where they are missing, (rows,)."""
    name = columns.label
    if name not in chunk.columns:
        return known, np.zeros(chunk.rows, dtype=int), np.ones(chunk.rows, dtype=bool)
    kind = known
    if kind is None:
        found = columns.told.get(name) or cells.kind_of(chunk, name)
        kind = None if found is None else "int" if found == "number" else "text"
    if kind == "text" and name not in columns.told:
        kind = "bool" if pa.types.is_boolean(chunk.columns[name].type) else kind
        require_label_type(chunk, name)
    if kind != "int":
        coded = cells.texts(chunk, name).dictionary_encode()
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        labels = coded.dictionary.to_pylist()
        right = (Remedy("is it the right column?"),)
        require_short(chunk, f"label in column {name!r}", labels, codes, right)
        values = np.array([*labels, ""], dtype=str)
        if values.itemsize * len(codes) > PADDED:
            raise chunk.error(
                0,
                f"labels of {values.itemsize // 4} characters in chunks of {len(codes):,} "
                "rows take too much memory",
                Remedy("use fewer rows", "chunk_rows"),
            )
        return kind, values[codes], codes < 0
    return kind, *cells.whole(chunk, name)


def weights(columns: Columns, chunk: Chunk, missing: dict[str, Flags]) -> Vector | None:
    """Return the weights (rows,), if there are any; where they are missing is added."""
    name = columns.weight
    if name is None:
        return None
    if name not in chunk.columns:
        raise DataError((f"{chunk.source} has no column {name!r}, named by ", Setting("weight")))
    weight = cells.numbers(chunk, name, decimal=columns.decimal)
    missing[name] = np.isnan(weight)
    with np.errstate(invalid="ignore"):
        bad = np.flatnonzero(~missing[name] & ~((weight >= 0.0) & (weight <= HEAVIEST)))
    if len(bad):
        raise chunk.error(
            int(bad[0]),
            f"weight {weight[bad[0]]:g} in column {name!r} must be from 0 to {HEAVIEST:g}",
        )
    return weight


def text_columns(columns: Columns, chunk: Chunk, kinds: Mapping[str, str]) -> list[str]:
    """Return the columns of text of a chunk, in order."""
    return [
        name
        for name in ordered(chunk)
        if kinds.get(name) in ("text", "hash") and columns.feature(name)
    ]


def categories(
    columns: Columns, chunk: Chunk, name: str, kind: str, kept: Flags, known: Collection[Feature]
) -> tuple[list[Feature], Any]:
    """Return the features of the values of a column, and for each row which of them, or −1.

    ``known`` are features that were seen before: truth values are spelled as they were then.
    """
    text = cells.texts(chunk, name)
    if not kept.all():
        text = text.filter(pa.array(kept))
    coded = text.dictionary_encode()
    values = coded.dictionary.to_pylist()
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    if kind == "text":
        return spelled(name, values, known), codes
    from sklearn.utils import murmurhash3_32  # takes long to import

    buckets = [
        murmurhash3_32(value.encode(), columns.seed, positive=True) % columns.hashed[name]
        for value in values
    ]
    return [Feature(name, "bucket", str(bucket)) for bucket in buckets], codes


def spelled(name: str, values: Sequence[str], known: Collection[Feature]) -> list[Feature]:
    """Return categories of a column, in which ``True``, ``TRUE`` and ``true`` are the same.

    The first spelling that was seen stays. A file of text and a frame of truth values then mean
    the same by them.
    """
    features = [Feature(name, "category", value) for value in values]
    told = [value for value in values if value.lower() in TRUTH]
    if not told:
        return features
    mine = (f.value for f in known if f.kind == "category" and f.column == name)
    first = next((value for value in (*mine, *told) if value.lower() in TRUTH), told[0])
    spell = str.upper if first.isupper() else str.title if first[0].isupper() else str.lower
    return [
        one if one in known or one.value not in told else one._replace(value=spell(one.value))
        for one in features
    ]


def numbered(columns: Columns, chunk: Chunk, kept: Flags) -> tuple[list[Feature], Any, Any] | None:
    """Return the features of a LIBSVM chunk in increasing order, their columns, and the entries."""
    if chunk.entries is None:
        return None
    X = chunk.entries if kept.all() else chunk.entries[kept]
    bad = np.flatnonzero(~(np.abs(X.data) <= LARGEST))
    if len(bad):
        row = int(np.searchsorted(X.indptr, bad[0], side="right")) - 1
        row = int(np.flatnonzero(kept)[row])
        raise chunk.error(row, f"feature {X.indices[bad[0]] + 1} is {X.data[bad[0]]:g}; correct it")
    found = [j for j in np.unique(X.indices).tolist() if columns.feature(str(j + 1))]
    return [Feature(str(j + 1), "number") for j in found], np.array(found, dtype=int), X


def ordered(chunk: Chunk) -> list[str]:
    """Return the columns in an order that does not depend on how they were read."""
    return [name for name in chunk.offered or sorted(chunk.columns) if name in chunk.columns]
