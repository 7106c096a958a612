"""Spark frames as chunks of columns: roles, vectors, Arrow batches, and tasks on partitions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.ml.functions import vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import DataFrame, functions, types

from counterpoise.arrays import one_thread
from counterpoise.encoding.column_values import MAX_CATEGORIES, hash_remedy
from counterpoise.encoding.columns import (
    FEATURE_NAMES,
    MANY_CATEGORIES,
    MISSING_RULES,
    Columns,
    Feature,
    parse_roles,
)
from counterpoise.encoding.encoder import ColumnEncoder
from counterpoise.encoding.kinds import CYCLE_NAMES, KINDS, is_number
from counterpoise.encoding.vocabulary import Vocabulary
from counterpoise.errors import DataError, Suggestion
from counterpoise.readers.chunk import Chunk, ReadPosition, drop_remedy

TIMES = (types.DateType, types.TimestampType, types.TimestampNTZType)


def column_settings(
    label: str,
    columns: Mapping[str, str] | None,
    only: Sequence[str] | None,
    missing: str | None,
) -> dict[str, Any]:
    """Return the fields of Columns that the user has set, checked."""
    if missing not in (None, *MISSING_RULES):
        raise DataError(f"missing must be 'error', 'drop', 'indicate' or 'mean', got {missing!r}")
    if only is not None and not len(only):
        raise DataError("only is empty: no column is left to learn from")
    result: dict[str, Any] = {"label": label}
    if columns:
        result["roles"] = parse_roles(columns)
    if only is not None:
        result["only"] = tuple(only)
    return result if missing is None else {**result, "missing": missing}


class Plan(NamedTuple):
    """Columns of a frame that are read."""

    df: DataFrame  # these columns with numbers as names: Arrow functions allow no dots
    names: list[str]  # names of the columns
    columns: Columns  # their settings, with the entries of vectors
    vectors: dict[str, int]  # number of entries of each vector column
    kinds: dict[str, str]  # kinds of the columns by the schema: "number", "category" or "epoch"
    large: bool  # True if Spark expects text and bytes with long offsets

    @property
    def read(self) -> tuple[list[str], dict[str, int], tuple[str, ...]]:
        """Arguments of :func:`chunks`, for a task."""
        return self.names, self.vectors, self.columns.drop


def plan_columns(df: DataFrame, columns: Columns, sizes: Mapping[str, int] | None = None) -> Plan:
    """Plan how the columns of a frame are read, by its schema and the sizes of known vectors."""
    fields = df.schema.fields
    by_name = {field.name: field for field in fields}
    names = dict.fromkeys(n if n in by_name else vector_of(n) or n for n in columns.only)
    columns = replace(columns, only=tuple(names))
    needed = [name for name in by_name if columns.is_needed(name)]
    require_distinct(df, [field.name for field in fields if field.name in needed])
    for name, option in columns.options_by_column.items():
        if name not in by_name:
            has = ", ".join(map(repr, by_name))
            raise DataError(f"the frame has no column {name!r}, given as {option}; it has {has}")
    selected, vectors, kinds = dict[str, Any](), dict[str, int](), dict[str, str]()
    for name in needed:
        field = by_name[name]
        column, kind = readable_column(name, field.dataType)
        if kind != "vector":
            kinds[name] = kind
        elif name in (columns.label, columns.weight, *columns.explicit_types):
            raise DataError(
                f"column {name!r} contains vectors, and cannot be a label, a weight or one number"
            )
        else:
            vectors[name] = (sizes or {}).get(name) or _size(df, name, field, column)
            kinds |= dict.fromkeys(entries(name, vectors[name]), "number")
        selected[name] = column.alias(f"c{len(selected)}")
    for name in vectors:
        both = [e for e in entries(name, vectors[name]) if e in selected]
        if both:
            raise DataError(f"column {both[0]!r} and the vectors of {name!r} have the same name")
    only = [e for n in columns.only for e in (entries(n, vectors[n]) if n in vectors else [n])]
    numbered = df.select(*selected.values())
    columns, large = replace(columns, only=tuple(only)), uses_large_types(df)
    return Plan(numbered, list(selected), columns, vectors, kinds, large)


def require_distinct(df: DataFrame, names: list[str]) -> None:
    """Raise if Spark does not distinguish names of columns."""
    cased = df.sparkSession.conf.get("spark.sql.caseSensitive", "false") == "true"
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name if cased else name.lower(), name)
        if other is not name or names.count(name) > 1:
            raise DataError(f"columns {other!r} and {name!r} have the same name; rename one")


def entries(name: str, size: int) -> list[str]:
    """Return the names of the entries of a vector."""
    return [f"{name}[{j}]" for j in range(size)]


def vector_of(entry: str) -> str | None:
    """Return the name of the vector column of an entry; None if the name is not an entry."""
    found = re.fullmatch(r"(.*)\[\d+\]", entry, re.DOTALL)
    return found.group(1) if found else None


def column_of(name: str) -> Any:
    """Return the column of a name with any characters."""
    return functions.col("`" + name.replace("`", "``") + "`")


def readable_column(name: str, kind: Any) -> tuple[Any, str]:
    """Return a column as Arrow can contain it, and its kind."""
    column = column_of(name)
    if isinstance(kind, types.DecimalType):
        return column.cast("double"), "number"
    if isinstance(kind, types.NumericType):
        return column, "number"
    if isinstance(kind, (types.StringType, types.BooleanType)):
        return column, "category"
    if isinstance(kind, TIMES):
        return column, "epoch"
    if isinstance(kind, VectorUDT):
        present = functions.when(column.isNotNull(), column)  # a null vector is an error in Spark
        return functions.when(column.isNotNull(), vector_to_array(present)), "vector"
    if isinstance(kind, types.ArrayType) and isinstance(kind.elementType, types.NumericType):
        return column.cast("array<double>"), "vector"
    raise DataError(
        f"column {name!r} is of type {kind.simpleString()}, which cannot become features; name the "
        "columns to learn from with only=[...]"
    )


def _size(df: DataFrame, name: str, field: Any, column: Any) -> int:
    """Return the entries of a vector column by its metadata, or by its first value."""
    size = field.metadata.get("ml_attr", {}).get("num_attrs")
    if size:
        return int(size)
    first = df.select(functions.size(column).alias("n")).where("n >= 0").first()
    if first is None or not first["n"]:
        raise DataError(f"column {name!r} has no vector with entries")
    return int(first["n"])


def chunks(
    batches: Iterable[pa.RecordBatch], names: list[str], vectors: dict[str, int],
    unread: tuple[str, ...],
) -> Iterator[Chunk]:  # fmt: skip
    """Yield the chunks of the batches of a partition."""
    source, first = f"partition {partition_id()}", 1
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
    """Return a chunk whose vectors are columns of their entries."""
    rows = len(next(iter(arrays.values())))
    columns: dict[str, pa.Array] = {}
    for name, column in arrays.items():
        try:  # an offset may lie beyond the data
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise DataError(f"{source}, column {name!r} cannot be read: {error}") from None
        if name in vectors:
            columns |= _entry_columns(column, name, vectors[name], source, first)
        else:
            large = pa.types.is_large_string(column.type)
            columns[name] = column.cast(pa.string()) if large else column
    return Chunk(source, first, rows, columns, ReadPosition(), offered=(*columns, *unread))


def _entry_columns(
    column: pa.Array, name: str, size: int, source: str, first: int
) -> dict[str, pa.Array]:
    """Return the entries of a column of vectors, NaN for null."""
    length = pc.list_value_length(column).fill_null(size).to_numpy(zero_copy_only=False)
    present = column.is_valid().to_numpy(zero_copy_only=False)
    if (length != size).any():
        row = int((length != size).argmax())
        raise DataError(
            f"{source}, row {first + row}: column {name!r} has {length[row]} entries, where others "
            f"have {size}"
        )
    values = np.full((len(column), size), np.nan)
    flat = column.drop_null().flatten()
    values[present] = flat.to_numpy(zero_copy_only=False).reshape(-1, size)
    return {e: pa.array(values[:, j]) for j, e in enumerate(entries(name, size))}


def uses_large_types(df: DataFrame) -> bool:
    """Return whether Spark expects text and bytes with long offsets."""
    name = "spark.sql.execution.arrow.useLargeVarTypes"
    return df.sparkSession.conf.get(name, "false") == "true"


def partition_id() -> int:
    """Return the number of the partition of this task, 0 on the driver."""
    task = TaskContext.get()
    return task.partitionId() if task else 0


def batch_of(schema: str, rows: list[tuple[Any, ...]], large: bool) -> pa.RecordBatch:
    """Return rows as a batch for Spark."""
    kinds = {"long": pa.int64(), "string": pa.string(), "binary": pa.binary()}
    if large:
        kinds |= {"string": pa.large_string(), "binary": pa.large_binary()}
    fields = [field.split() for field in schema.split(", ")]
    arrays = [pa.array([row[j] for row in rows], kinds[kind]) for j, (_, kind) in enumerate(fields)]
    return pa.RecordBatch.from_arrays(arrays, [name for name, _ in fields])


Task = Callable[[int, Iterable[pa.RecordBatch]], Iterable[tuple[Any, ...]]]
EMPTY = {"long": 0, "string": "", "binary": b""}


def map_partitions(plan: Plan, schema: str, task: Task) -> DataFrame:
    """Return the rows of a task for the batches of each partition, or its error.

    The schema begins with "part long, error string". The task gets the number of the partition,
    and its rows do not have the column of errors.
    """
    large, empty = plan.large, [EMPTY[one.split()[1]] for one in schema.split(", ")[2:]]

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part = partition_id()
        try:
            with one_thread():
                rows = [(first, "", *rest) for first, *rest in task(part, batches)]
        except ValueError as error:
            rows = [(part, str(error), *empty)]
        if rows:
            yield batch_of(schema, rows, large)

    return plan.df.mapInArrow(run, schema)


def collect_parts(df: DataFrame) -> list[Any]:
    """Return the rows of a frame in the order of their parts; raise the first error."""
    rows = sorted(df.collect(), key=itemgetter(0))  # the part
    for row in rows:
        if row["error"]:
            raise DataError(row["error"])
    return rows


FEATURE = "part long, error string, kind string, column string, value string"
ORDER = {kind: j for j, kind in enumerate(FEATURE_NAMES)}
BASE = "base"  # instead of a kind: the value is the base of the missing numbers of a column


def encoder_of(
    plan: Plan, before: ColumnEncoder, categories: Mapping[str, Sequence[str]] | None = None
) -> ColumnEncoder:
    """Return the encoder of a frame: the encoder before it and the features that its rows add."""
    columns, given = plan.columns, dict(categories or {})
    for name in given:
        is_text = plan.kinds.get(name) == "category" or name in columns.pseudo_rows
        if not is_text or not columns.feature(name):
            raise DataError(f"categories are given for {name!r}, which is not a column of text")
    names = columns.features_among(plan.kinds)
    learned = plan.kinds | columns.explicit_types | before.kinds  # learned kinds stay
    kinds = {name: learned[name] for name in names}
    if not kinds:
        raise DataError("no column is left to learn from")
    for name, kind in kinds.items():
        if kind == "epoch" and columns.roles.get(name) != "epoch" and name not in before.kinds:
            raise DataError(
                f"column {name!r} contains dates",
                Suggestion("choose a role, such as {}", "columns", {name: "datetime"}),
                Suggestion("{}", "columns", {name: "epoch"}),
                Suggestion("{}", "columns", {name: "category"}),
                Suggestion("{}", "columns", {name: "drop"}),
            )
    numeric = {kind for kind in set(kinds.values()) if is_number(kind)}
    numbers = [name for name, kind in kinds.items() if kind in numeric]
    certain = [f for name in numbers for f in KINDS[kinds[name]].initial_features(name)]
    many = {name: given.pop(name, ()) for name in list(kinds) if kinds[name] == MANY_CATEGORIES}
    certain += [Feature(n, "category", v) for n, values in given.items() for v in values]
    known = {*numbers, *given, *(name for name, values in many.items() if values)}
    scanned = [name for name in kinds if name not in known]
    found: list[Feature] = []
    bases: dict[str, float] = {}
    if scanned or columns.uses_indicators:
        found, bases = _scan_rows(plan, ColumnEncoder(columns, kinds))
    vocabularies = dict(before.vocabularies)
    for name, values in many.items():
        values = values or sorted(f.value for f in found if f[:2] == (name, MANY_CATEGORIES))
        after = vocabularies.get(name, Vocabulary()).append(values)
        if after.is_full:
            raise DataError(
                f"column {name!r} has {after.size:,} categories",
                hash_remedy(name),
                drop_remedy(name),
            )
        if after.size:
            vocabularies[name] = after
    kind = columns.explicit_types.get(columns.label, plan.kinds[columns.label])
    labels = before.labels or ("int" if kind == "number" else "text")
    position = {name: j for j, name in enumerate(kinds)}
    fresh = [f for f in found if f.kind != MANY_CATEGORIES]
    fresh = [f for f in fresh if f.kind != "category" or f.column not in given]
    ordered = sorted(
        {*certain, *fresh}.difference(before.features),
        key=lambda f: (position[f.column], ORDER[f.kind], _rank(f)),
    )
    everything = (*before.features, *ordered)
    for name in scanned:
        count = sum(f.column == name and f.kind == "category" for f in everything)
        if count > MAX_CATEGORIES:
            raise DataError(
                f"column {name!r} has more than {MAX_CATEGORIES:,} categories",
                hash_remedy(name),
                drop_remedy(name),
            )
    if columns.missing == "mean":
        bases = {name: bases.get(name, 0.0) for name in numbers} | before.bases
    kinds = {**kinds, **before.kinds}
    return ColumnEncoder(columns, kinds, everything, labels, bases, vocabularies)


def _rank(feature: Feature) -> tuple[int, str]:
    """Return the position of a feature among those of its column and kind."""
    if feature.kind == "cycle":
        return CYCLE_NAMES.index(feature.value), ""
    return (int(feature.value), "") if feature.kind == "bucket" else (0, feature.value)


def _scan_rows(plan: Plan, start: ColumnEncoder) -> tuple[list[Feature], dict[str, float]]:
    """Return the features that depend on the rows, and a value of each column, in one pass."""
    read = plan.read

    def scan(part: int, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
        after = start
        for chunk in chunks(batches, *read):
            _, after = after.learn(chunk)
        yield from ((0, f.kind, f.column, f.value) for f in after.features)
        for name, one in after.vocabularies.items():
            yield from ((0, MANY_CATEGORIES, name, value) for value in one.values)
        yield from ((0, BASE, name, repr(base)) for name, base in after.bases.items())

    rows = collect_parts(map_partitions(plan, FEATURE, scan).distinct())
    values: dict[str, list[float]] = {}
    for row in rows:
        if row["kind"] == BASE:
            values.setdefault(row["column"], []).append(float(row["value"]))
    # The median loses no digits, and any constant is right. A partition without values has 0.
    nonzero = {name: sorted(filter(None, some)) or [0.0] for name, some in values.items()}
    bases = {name: some[len(some) // 2] for name, some in nonzero.items()}
    features = [Feature(r["column"], r["kind"], r["value"]) for r in rows if r["kind"] != BASE]
    return features, bases
