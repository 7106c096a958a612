"""Spark frames as chunks of columns: what the schema says, vectors, and Arrow batches."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import DataFrame, functions, types

from counterpoise.encoding.column_values import MAX_CATEGORIES, hash_remedy
from counterpoise.encoding.columns import (
    FEATURE_NAMES,
    MISSING_RULES,
    Columns,
    Feature,
    parse_roles,
)
from counterpoise.encoding.encoder import ColumnEncoder
from counterpoise.encoding.kinds import CYCLE_NAMES, KINDS, is_number, is_text
from counterpoise.errors import DataError, Suggestion
from counterpoise.readers.chunk import Chunk, ReadPosition, drop_remedy

MOMENTS = (types.DateType, types.TimestampType, types.TimestampNTZType)


def columns_of(
    label: str, columns: Mapping[str, str] | None, only: Sequence[str] | None, missing: str
) -> Columns:
    """Return the settings of the columns of a frame, checked."""
    if missing not in MISSING_RULES:
        raise DataError(f"missing must be 'error', 'drop', 'indicate' or 'mean', got {missing!r}")
    if only is not None and not len(only):
        raise DataError("only is empty: no column is left to learn from")
    return Columns(label, parse_roles(columns or {}), tuple(only or ()), missing=missing)


class Plan(NamedTuple):
    """What is read of a frame."""

    # the columns that are wanted, vectors as arrays of numbers, numbered: Spark's Arrow
    # functions know no dots and backticks in names
    df: DataFrame
    names: list[str]  # what the columns are called
    columns: Columns  # what is wanted of them, vectors spread over their entries
    vectors: dict[str, int]  # number of entries of each vector column
    kinds: dict[str, str]  # what the schema says of the columns: "number", "category" or "epoch"

    @property
    def read(self) -> tuple[list[str], dict[str, int], tuple[str, ...]]:
        """What :func:`chunks` needs to read batches, in a task too."""
        return self.names, self.vectors, self.columns.drop


def planned(df: DataFrame, columns: Columns, sizes: Mapping[str, int] | None = None) -> Plan:
    """Look at the schema of a frame, and take what is wanted of it."""
    known = {field.name: field for field in df.schema.fields}
    require_different(
        df, [field.name for field in df.schema.fields if columns.is_needed(field.name)]
    )
    for name, option in columns.named.items():
        if name not in known:
            has = ", ".join(map(repr, known))
            raise DataError(f"the frame has no column {name!r}, given as {option}; it has {has}")
    taken: dict[str, Any] = {}
    vectors: dict[str, int] = {}
    kinds: dict[str, str] = {}
    for name, field in known.items():
        if not columns.is_needed(name):
            continue
        column, kind = readable(name, field.dataType)
        if kind == "vector" and (
            name in (columns.label, columns.weight) or name in columns.explicit_types
        ):
            raise DataError(
                f"column {name!r} holds vectors, and cannot be a label, a weight or one number"
            )
        if kind == "vector":
            vectors[name] = (sizes or {}).get(name) or _size(df, name, field, column)
            kinds |= dict.fromkeys(entries(name, vectors[name]), "number")
        else:
            kinds[name] = kind
        taken[name] = column.alias(f"c{len(taken)}")
    for name in vectors:
        both = [e for e in entries(name, vectors[name]) if e in taken]
        if both:
            raise DataError(f"column {both[0]!r} and the vectors of {name!r} have the same name")
    only = [e for n in columns.only for e in (entries(n, vectors[n]) if n in vectors else [n])]
    numbered = df.select(*taken.values())
    return Plan(numbered, list(taken), replace(columns, only=tuple(only)), vectors, kinds)


def require_different(df: DataFrame, names: list[str]) -> None:
    """Raise if names of columns are not different to Spark."""
    cased = df.sparkSession.conf.get("spark.sql.caseSensitive", "false") == "true"
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name if cased else name.lower(), name)
        if other is not name or names.count(name) > 1:
            raise DataError(f"columns {other!r} and {name!r} have the same name; rename one")


def entries(name: str, size: int) -> list[str]:
    """Names of the entries of a vector."""
    return [f"{name}[{j}]" for j in range(size)]


def vector_of(entry: str) -> str | None:
    """The name of the vector column that an entry may be of."""
    found = re.fullmatch(r"(.*)\[\d+\]", entry, re.DOTALL)
    return found.group(1) if found else None


def column_of(name: str) -> Any:
    """The column of this name, whatever characters are in it."""
    return functions.col("`" + name.replace("`", "``") + "`")


def readable(name: str, kind: Any) -> tuple[Any, str]:
    """A column as Arrow can carry it, and what it holds."""
    column = column_of(name)
    if isinstance(kind, types.DecimalType):
        return column.cast("double"), "number"
    if isinstance(kind, types.NumericType):
        return column, "number"
    if isinstance(kind, (types.StringType, types.BooleanType)):
        return column, "category"
    if isinstance(kind, MOMENTS):
        return column, "epoch"
    if isinstance(kind, VectorUDT):
        there = functions.when(column.isNotNull(), column)  # a null vector is an error to Spark
        return functions.when(column.isNotNull(), vector_to_array(there)), "vector"
    if isinstance(kind, types.ArrayType) and isinstance(kind.elementType, types.NumericType):
        return column.cast("array<double>"), "vector"
    raise DataError(
        f"column {name!r} is of type {kind.simpleString()}, which cannot become features; name the "
        "columns to learn from with only=[...]"
    )


def _size(df: DataFrame, name: str, field: Any, column: Any) -> int:
    """Entries of a vector column: by what the pipeline noted, or by its first value."""
    noted = field.metadata.get("ml_attr", {}).get("num_attrs")
    if noted:
        return int(noted)
    first = df.select(functions.size(column).alias("n")).where("n >= 0").first()
    if first is None or not first["n"]:
        raise DataError(f"column {name!r} has no vector with entries")
    return int(first["n"])


def chunks(
    batches: Iterable[pa.RecordBatch],
    source: str,
    names: list[str],
    vectors: dict[str, int],
    unread: tuple[str, ...],
) -> Iterator[Chunk]:
    """Chunks of the batches of a partition."""
    first = 1
    for batch in batches:
        if batch.num_rows:
            arrays = dict(zip(names, batch.columns, strict=True))
            yield chunk_of(arrays, source, first, vectors, unread)
            first += batch.num_rows


def chunk_of(
    arrays: dict[str, pa.Array],
    source: str,
    first: int,
    vectors: dict[str, int],
    unread: tuple[str, ...] = (),
) -> Chunk:
    """One chunk, with vectors spread over their entries."""
    rows = len(next(iter(arrays.values())))
    columns: dict[str, pa.Array] = {}
    for name, column in arrays.items():
        try:  # an offset beyond the data would be followed
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise DataError(f"{source}, column {name!r} cannot be read: {error}") from None
        if name in vectors:
            columns |= _spread(column, name, vectors[name], source, first)
        else:
            large = pa.types.is_large_string(column.type)
            columns[name] = column.cast(pa.string()) if large else column
    return Chunk(source, first, rows, columns, ReadPosition(), offered=(*columns, *unread))


def _spread(column: pa.Array, name: str, size: int, source: str, first: int) -> dict[str, pa.Array]:
    """The entries of a column of vectors, NaN where there is none."""
    length = pc.list_value_length(column)
    there = column.is_valid().to_numpy(zero_copy_only=False)
    wrong = np.flatnonzero(there & (length.fill_null(size).to_numpy(zero_copy_only=False) != size))
    if len(wrong):
        found = length[int(wrong[0])].as_py()
        raise DataError(
            f"{source}, row {first + int(wrong[0])}: column {name!r} has {found} entries, where "
            f"others have {size}"
        )
    values = np.full((len(column), size), np.nan)
    flat = column.drop_null().flatten()
    values[there] = flat.to_numpy(zero_copy_only=False).reshape(-1, size)
    return {e: pa.array(values[:, j]) for j, e in enumerate(entries(name, size))}


def large_types(df: DataFrame) -> bool:
    """Whether Spark wants text and bytes with long offsets."""
    name = "spark.sql.execution.arrow.useLargeVarTypes"
    return df.sparkSession.conf.get(name, "false") == "true"


def partition() -> str:
    """What to call the partition of this task in messages."""
    return f"partition {number()}"


def number() -> int:
    """The number of the partition of this task, 0 on the driver."""
    task = TaskContext.get()
    return task.partitionId() if task else 0


def batch_of(schema: str, rows: list[tuple[Any, ...]], large: bool) -> pa.RecordBatch:
    """Rows as Spark wants them back."""
    kinds = {"long": pa.int64(), "string": pa.string(), "binary": pa.binary()}
    if large:
        kinds |= {"string": pa.large_string(), "binary": pa.large_binary()}
    fields = [field.split() for field in schema.split(", ")]
    arrays = [pa.array([row[j] for row in rows], kinds[kind]) for j, (_, kind) in enumerate(fields)]
    return pa.RecordBatch.from_arrays(arrays, [name for name, _ in fields])


def raise_first(errors: list[str]) -> None:
    """Raise the first error that a partition has told, if there is one."""
    if errors:
        raise DataError(errors[0])


def error_message(error: ValueError) -> str:
    """Return the message of an error of a partition."""
    return str(error)


FEATURE = "error string, kind string, column string, value string"
ORDER = {kind: j for j, kind in enumerate(FEATURE_NAMES)}
BASE = "base"  # in the place of a kind: what stands for missing numbers of a column, as its value


def encoded(
    plan: Plan, before: ColumnEncoder, categories: Mapping[str, Sequence[str]] | None = None
) -> ColumnEncoder:
    """How the columns of a frame become features, with what these rows add to what is known."""
    columns, given = plan.columns, dict(categories or {})
    for name in given:
        if plan.kinds.get(name) != "category" or not columns.feature(name):
            raise DataError(f"categories are given for {name!r}, which is not a column of text")
    kinds = {
        n: columns.explicit_types.get(n, k) for n, k in plan.kinds.items() if columns.feature(n)
    }
    kinds |= {n: kind for n, kind in before.kinds.items() if n in kinds}  # what was learned stays
    if not kinds:
        raise DataError("no column is left to learn from")
    for name, kind in kinds.items():
        if kind == "epoch" and columns.roles.get(name) != "epoch" and name not in before.kinds:
            raise DataError(
                f"column {name!r} holds dates",
                Suggestion("choose a role, such as {}", "columns", {name: "datetime"}),
                Suggestion("{}", "columns", {name: "epoch"}),
                Suggestion("{}", "columns", {name: "category"}),
                Suggestion("{}", "columns", {name: "drop"}),
            )
    numbers = [name for name, kind in kinds.items() if is_number(kind)]
    certain = [f for name in numbers for f in KINDS[kinds[name]].initial_features(name)]
    certain += [Feature(n, "category", v) for n, values in given.items() for v in values]
    sought = [n for n, kind in kinds.items() if is_text(kind) and n not in given]
    found: list[Feature] = []
    bases: dict[str, float] = {}
    if sought or columns.uses_indicators:
        found, bases = _scan_rows(plan, ColumnEncoder(columns, kinds))
    told = columns.explicit_types.get(columns.label, plan.kinds[columns.label])
    labels = before.labels or ("int" if told == "number" else "text")
    place = {name: j for j, name in enumerate(kinds)}
    fresh = {*certain, *(f for f in found if f.kind != "category" or f.column not in given)}
    ordered = sorted(
        fresh - set(before.features), key=lambda f: (place[f.column], ORDER[f.kind], _natural(f))
    )
    everything = (*before.features, *ordered)
    for name in sought:
        count = sum(f.column == name and f.kind == "category" for f in everything)
        if count > MAX_CATEGORIES:
            raise DataError(
                f"column {name!r} has more than {MAX_CATEGORIES:,} categories",
                hash_remedy(name),
                drop_remedy(name),
            )
    if columns.missing == "mean":
        bases = {name: bases.get(name, 0.0) for name in numbers} | before.bases
    return ColumnEncoder(columns, {**kinds, **before.kinds}, everything, labels, bases)


def _natural(feature: Feature) -> tuple[int, str]:
    if feature.kind == "cycle":
        return CYCLE_NAMES.index(feature.value), ""
    return (int(feature.value), "") if feature.kind == "bucket" else (0, feature.value)


def _scan_rows(plan: Plan, start: ColumnEncoder) -> tuple[list[Feature], dict[str, float]]:
    """Features that only the rows know of, and values that numbers have: one pass over them."""
    names, vectors, unread = plan.names, plan.vectors, plan.columns.drop
    large = large_types(plan.df)

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        known = start
        try:
            for chunk in chunks(batches, partition(), names, vectors, unread):
                _, known = known.learn(chunk)
        except ValueError as error:
            yield batch_of(FEATURE, [(error_message(error), "", "", "")], large)
            return
        told = [("", f.kind, f.column, f.value) for f in known.features]
        told += [("", BASE, name, repr(value)) for name, value in known.bases.items()]
        yield batch_of(FEATURE, told, large)

    rows = plan.df.mapInArrow(look, FEATURE).distinct().collect()
    raise_first(sorted(row["error"] for row in rows if row["error"]))
    values: dict[str, list[float]] = {}
    for row in rows:
        if row["kind"] == BASE:
            values.setdefault(row["column"], []).append(float(row["value"]))
    # Any constant will do; one amid the values loses no digits. A partition without any says 0.
    there = {name: sorted(filter(None, some)) or [0.0] for name, some in values.items()}
    bases = {name: some[len(some) // 2] for name, some in there.items()}
    features = [Feature(r["column"], r["kind"], r["value"]) for r in rows if r["kind"] != BASE]
    return features, bases
