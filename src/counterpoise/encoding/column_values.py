"""Labels, weights, times and numbered features of a chunk, and the limits of all columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from counterpoise.arrays import Flags, Labels, Vector, distinct_labels
from counterpoise.encoding import cell_parsing
from counterpoise.encoding._stack import stack_columns
from counterpoise.encoding.columns import SINGLE_ROLES, Columns, Feature
from counterpoise.encoding.kinds import ColumnBlock, Kind, StackedNumbers
from counterpoise.errors import DataError, Message, OptionValue, Suggestion, suggest
from counterpoise.readers.chunk import Chunk, drop_remedy
from counterpoise.readers.delimited import other_delimiter
from counterpoise.validation import MAX_ABS_VALUE, MAX_SAMPLE_WEIGHT, MAX_TIMESTAMP

MAX_CATEGORIES = 1000  # categories of a column, or classes
MAX_LABEL_BYTES = 1 << 30  # of a chunk: NumPy makes all labels as long as the longest
MAX_NAME_LENGTH = 1000  # characters of a label or a category
MAX_NUMBERLIKE_CATEGORIES = 20  # categories of a column that look like numbers or dates


def require_columns(
    columns: Columns, chunk: Chunk, learned: Iterable[str], is_first: bool, lenient: bool
) -> None:
    """Raise if a table does not have a column that an option names, or that was learned.

    With ``lenient`` only labels, weights and times are required. Columns to drop are required in
    the first table only.
    """
    if not chunk.table:
        return
    required = columns.options_by_column
    if lenient:
        required = {c: o for c, o in required.items() if o in ("label", *SINGLE_ROLES)}
    elif not is_first:
        required = {c: o for c, o in required.items() if o != "drop"}
    offered = frozenset(chunk.offered)
    for name, option in (required | ({} if lenient else dict.fromkeys(learned, ""))).items():
        if name not in offered:
            why = ("named by ", _setting(name, option)) if option else ("which was learned before",)
            raise missing_columns(chunk, [name], *why)


def missing_columns(chunk: Chunk, names: Sequence[str], *why: str | OptionValue) -> DataError:
    """Return the error about columns that a table does not have, and why they are needed."""
    return no_columns(chunk.source, chunk.offered or tuple(chunk.columns), names, *why)


def no_columns(
    source: str, offered: Sequence[str], names: Sequence[str], *why: str | OptionValue
) -> DataError:
    """Return the error about columns that are not among those that a source has."""
    text = f"{source} has no column{'s' * (len(names) > 1)} {format_names(names)}, "
    has = f"; it has {format_names(offered) or 'no columns with names'}"
    remedies = other_delimiter(offered) or suggest(names[0], offered)
    return DataError((text, *why, has), *remedies)


def require_declared(columns: Columns, chunk: Chunk, y: Labels, kept: Flags) -> None:
    """Raise if a label is not one of those that there may be."""
    declared = columns.classes
    if not declared:
        return
    bad = [label for label in distinct_labels(y[kept]) if str(label) not in declared]
    if bad:
        row = int((kept & np.isin(y, bad)).argmax())
        problem = (
            f"label {y[row].item()!r} in column {columns.label!r} is not one of "
            f"{', '.join(declared)}, which "
        )
        text = (problem, OptionValue("classes"), " allows")
        raise chunk.error(row, text, *cell_parsing.CORRECT)


def keep(columns: Columns, chunk: Chunk, missing: Mapping[str, Flags], predicting: bool) -> Flags:
    """Return which rows to keep, (rows,), or raise if a value is missing and may not be."""
    kept = np.ones(chunk.rows, dtype=bool)
    for name, gone in missing.items():
        if not gone.any():
            continue
        if columns.missing == "error":
            drop = Suggestion("drop such rows", "missing", "drop")
            mean = Suggestion("fill it by the mean", "missing", "mean")
            remedies: tuple[Suggestion, ...] = (mean, drop, drop_remedy(name))
            if predicting:
                learn = Suggestion("learn a model", "missing", "mean")
                remedies = (Suggestion("fill it in"), learn)
            elif not columns.feature(name):
                remedies = (drop,)
            raise chunk.error(int(gone.argmax()), f"no value in column {name!r}", *remedies)
        if columns.missing == "drop":
            kept &= ~gone
    return kept


def require_value(
    columns: Columns, chunk: Chunk, name: str, role: str, missing: Mapping[str, Flags]
) -> None:
    """Raise if a label or a weight is missing in a row that is not dropped."""
    if columns.uses_indicators and missing[name].any():
        problem = f"no {role} in column {name!r}, and a missing {role} cannot be imputed"
        remedies = [Suggestion("drop the row")]
        if role != "label":
            remedies.append(Suggestion("use {}", "missing", "drop"))
        chunk.refuse(missing[name], lambda row: problem, *remedies)


def require_few(
    columns: Columns, chunk: Chunk, new: Sequence[Feature], features: Sequence[Feature]
) -> dict[str, Message]:
    """Raise if a column has too many categories; return notes about the others.

    ``features`` are all, ``new`` those of this chunk.
    """
    notes: dict[str, Message] = {}
    values: dict[str, list[str]] = {f.column: [] for f in new if f.kind == "category"}
    for feature in features:
        if feature.kind == "category" and feature.column in values:
            values[feature.column].append(feature.value)
    for name, found in values.items():
        if columns.roles.get(name) != "category":
            notes |= note_numbers(chunk, name, found)
        if len(found) > MAX_CATEGORIES:
            raise chunk.error(
                0,
                f"column {name!r} has more than {MAX_CATEGORIES:,} categories",
                many_remedy(name),
                hash_remedy(name),
                drop_remedy(name),
            )
    return notes


def note_numbers(chunk: Chunk, name: str, found: Sequence[str]) -> dict[str, Message]:
    """Return a note if categories look like numbers or dates; raise if many of them do."""
    look = cell_parsing.find_formatted(name, found, chunk.cells)
    text = f"column {name!r} contains values such as {look.example!r}"
    if look.found > MAX_NUMBERLIKE_CATEGORIES:
        raise chunk.error(
            0,
            f"{text}: {look.found:,} categories look like numbers or dates, and the limit "
            f"is {MAX_NUMBERLIKE_CATEGORIES}",
            look.remedy,
            Suggestion("take them as categories", "columns", {name: "category"}),
            drop_remedy(name),
        )
    if not (look.found and look.is_most):
        return {}
    agree = Suggestion("confirm that", "columns", {name: "category"})
    other = f" and {look.other!r}" if look.other else ""
    return {name: Message(f"{text}{other}, taken as categories", look.remedy, agree)}


def require_repeated(columns: Columns, chunk: Chunk, name: str, categories: int, rows: int) -> None:
    """Raise if most categories of a column without a role occur in one row only."""
    if name in columns.roles or categories <= MAX_CATEGORIES or 2 * categories <= rows:
        return
    raise chunk.error(
        0,
        f"column {name!r} has {categories:,} categories in {rows:,} rows, like an identifier",
        drop_remedy(name),
        many_remedy(name),
    )


def require_memory(chunk: Chunk, count: int, max_features: float) -> None:
    """Raise if there are more features than there is memory for."""
    if count > max_features:
        raise chunk.error(
            0,
            (
                f"there are at least {count:,} features by this row, but ",
                OptionValue("memory_limit"),
                f" is enough for {int(max_features):,}",
            ),
            Suggestion("name the columns that matter", "only"),
            Suggestion("leave others out", "columns", {"COLUMN": "drop"}),
            Suggestion("spread categories over buckets", "columns", {"COLUMN": "hash:256"}),
            Suggestion("raise {}", "memory_limit"),
        )


def require_label_type(chunk: Chunk, name: str) -> None:
    """Raise if labels are dates, times or durations."""
    column = chunk.columns[name]
    if pa.types.is_temporal(column.type) and column.null_count < len(column):
        row = int(column.is_valid().to_numpy(zero_copy_only=False).argmax())
        raise chunk.error(
            row,
            f"label in column {name!r} is {str(column[row])!r} (type {column.type}); a label "
            "must be text, an integer or a boolean",
            Suggestion("is it the right column?"),
            Suggestion("take labels as they are written", "columns", {name: "category"}),
        )


def require_short(
    chunk: Chunk,
    what: str,
    values: Sequence[str],
    codes: Any,
    remedies: Sequence[Suggestion],
    kept: Flags | None = None,
) -> None:
    """Raise if a label or a category is too long to be one."""
    is_long = max(map(len, values), default=0) > MAX_NAME_LENGTH
    for code, value in enumerate(values if is_long else ()):
        if len(value) > MAX_NAME_LENGTH:
            row = int((codes == code).argmax())
            raise chunk.error(
                row if kept is None else int(np.flatnonzero(kept)[row]),
                f"a {what} has {len(value):,} characters, more than {MAX_NAME_LENGTH:,}",
                *remedies,
            )


def stack_numbers(numbers: Mapping[str, Vector]) -> StackedNumbers | None:
    """Return columns of numbers as rows; None if a number is missing or too large."""
    found = stack_columns(list(numbers.values()), MAX_ABS_VALUE)
    return None if found is None else StackedNumbers(*found)


def missing_numbers(chunk: Chunk, numbers: Mapping[str, Vector]) -> dict[str, Flags]:
    """Return the missing values (rows,) of columns of numbers; raise if a number is too large."""
    missing = {}
    with np.errstate(over="ignore", invalid="ignore"):
        for name, x in numbers.items():
            if x @ x <= MAX_ABS_VALUE:  # so no number is missing or too large
                continue
            bad = np.flatnonzero(np.abs(x) > MAX_ABS_VALUE)
            if len(bad):
                problem = f"column {name!r} is {x[bad[0]]:g}, beyond {MAX_ABS_VALUE:g}"
                remedies = (*cell_parsing.CORRECT, drop_remedy(name))
                raise chunk.error(int(bad[0]), problem, *remedies)
            missing[name] = np.isnan(x)
    return missing


def require_same_type(columns: Columns, chunk: Chunk, name: str, kind: Kind) -> None:
    """Raise if a column that has a type, unlike text of a file, was learned as another kind."""
    column = chunk.columns[name]
    if not chunk.table or column.null_count == len(column):
        return
    is_number_type = pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
    is_category = is_number_type and name in chunk.categorical
    if name in columns.explicit_types or is_category or kind.accepts(column.type):
        return
    row = int(column.is_valid().to_numpy(zero_copy_only=False).argmax())
    raise chunk.error(
        row,
        f"column {name!r} contains {column[row].as_py()!r} (type {column.type}), but contained "
        f"{kind.plural} before",
        Suggestion("convert it to what it was"),
        drop_remedy(name),
    )


def _setting(name: str, option: str) -> OptionValue:
    """Return the setting that names a column."""
    if option in ("label", "only"):
        return OptionValue(option)
    return OptionValue("columns", {name: option})


def many_remedy(name: str) -> Suggestion:
    """Return the advice to learn all categories of a column."""
    return Suggestion("learn all of them", "columns", {name: "many"})


def hash_remedy(name: str) -> Suggestion:
    """Return the advice to hash the categories of a column."""
    return Suggestion("spread them over buckets", "columns", {name: "hash:256"})


def format_names(columns: Iterable[str]) -> str:
    """Return the first dozen of names, quoted, and how many more there are."""
    names = [repr(name) for name in columns]
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def infer_types(columns: Columns, chunk: Chunk, learned: Mapping[str, str]) -> dict[str, str]:
    """Return the kinds of columns, with those that these rows decide."""
    kinds = dict(learned)
    for name in columns.features_among([name for name in chunk.columns if name not in kinds]):
        column = chunk.columns[name]
        if column.null_count == len(column):
            continue
        kind = columns.explicit_types.get(name) or chunk.kinds.get(name)
        kind = kind or ("category" if name in chunk.categorical else None)
        kind = kind or cell_parsing.kind_of(chunk, name, columns.decimal)
        if kind == "epoch" and columns.roles.get(name) != "epoch":
            kind = "epoch" if pa.types.is_duration(column.type) else "datetime"
        kinds[name] = str(kind)
    return kinds


class LabelCells(NamedTuple):
    """Labels of a chunk."""

    kind: str | None
    values: Labels  # (rows,)
    missing: Flags  # (rows,)
    found: list[Any] | None = None  # the different ones, sorted; None if unknown


def labels(columns: Columns, chunk: Chunk, learned: str | None) -> LabelCells:
    """Return the labels of a chunk, of the kind that was learned."""
    name = columns.label
    if name not in chunk.columns:
        return LabelCells(learned, np.zeros(chunk.rows, dtype=int), np.ones(chunk.rows, dtype=bool))
    kind = learned
    if kind is None:
        found = columns.explicit_types.get(name) or cell_parsing.kind_of(chunk, name)
        kind = None if found is None else "int" if found == "number" else "text"
    if kind == "text" and name not in columns.explicit_types:
        kind = "bool" if pa.types.is_boolean(chunk.columns[name].type) else kind
        require_label_type(chunk, name)
    if kind != "int":
        codes, labels = cell_parsing.coded_texts(chunk, name)
        right = (Suggestion("is it the right column?"),)
        require_short(chunk, f"label in column {name!r}", labels, codes, right)
        values = np.array([*labels, ""], dtype=str)
        if values.itemsize * len(codes) > MAX_LABEL_BYTES:
            raise chunk.error(
                0,
                f"labels of {values.itemsize // 4} characters in chunks of {len(codes):,} "
                "rows take too much memory",
                Suggestion("use fewer rows", "chunk_rows"),
            )
        different = sorted(set(values[:-1].tolist()))
        return LabelCells(kind, values.take(codes), codes < 0, different)
    return LabelCells(kind, *cell_parsing.whole(chunk, name))


def weights(columns: Columns, chunk: Chunk, missing: dict[str, Flags]) -> Vector | None:
    """Return the weights (rows,) or None; add the rows without one to ``missing``."""
    name = columns.weight
    if name is None:
        return None
    if name not in chunk.columns:
        raise missing_columns(chunk, [name], "named by ", _setting(name, "weight"))
    weight = cell_parsing.numbers(chunk, name, decimal=columns.decimal)
    missing[name] = np.isnan(weight)
    require_value(columns, chunk, name, "weight", missing)
    with np.errstate(invalid="ignore"):
        bad = ~missing[name] & ~((weight >= 0.0) & (weight <= MAX_SAMPLE_WEIGHT))
    limits = f"in column {name!r} must be from 0 to {MAX_SAMPLE_WEIGHT:g}"
    chunk.refuse(bad, lambda row: f"weight {weight[row]:g} {limits}")
    return weight


def times(chunk: Chunk, name: str, kept: Flags, time_format: str | None) -> Vector:
    """Return the times (n,) of the rows that are kept; raise if a row does not have one."""
    if name not in (chunk.offered if chunk.table else chunk.columns):
        raise missing_columns(chunk, [name], "the time of each row")
    remedies = (*cell_parsing.OTHER_TIME, Suggestion("give its format with {}", "time_format"))
    t = cell_parsing.seconds(chunk, name, remedies, time_format)
    absent = f"no value in column {name!r}, the time of the row; fill it in, or leave the row out"
    late = (
        f"in column {name!r} is beyond the year 9999; numbers are seconds since 1970: divide "
        "milliseconds by 1000"
    )
    bad = kept & ~(np.abs(t) < MAX_TIMESTAMP)
    chunk.refuse(bad, lambda row: absent if np.isnan(t[row]) else f"time {t[row]:g} {late}")
    return t[kept]


def read_numbered(columns: Columns, chunk: Chunk, kept: Flags) -> ColumnBlock:
    """Return the features of a LIBSVM chunk in increasing order, and the codes of its entries."""
    X = chunk.entries if kept.all() else chunk.entries[kept]
    bad = np.flatnonzero(~(np.abs(X.data) <= MAX_ABS_VALUE))
    if len(bad):
        row = int(np.searchsorted(X.indptr, bad[0], side="right")) - 1
        row = int(np.flatnonzero(kept)[row])
        raise chunk.error(row, f"feature {X.indices[bad[0]] + 1} is {X.data[bad[0]]:g}; correct it")
    found, codes = np.unique(X.indices, return_inverse=True)
    names = [str(j + 1) for j in found.tolist()]
    is_feature = np.array([columns.feature(name) for name in names], dtype=bool)
    features = [Feature(name, "number") for name in columns.features_among(names)]
    codes = np.where(is_feature, np.cumsum(is_feature) - 1, -1)[codes]
    return ColumnBlock(features, codes=codes, entries=X)
