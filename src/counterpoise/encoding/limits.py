"""Limits of what rows may hold: columns, labels, sizes, categories and missing values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.arrays import Flags, Labels, Vector
from counterpoise.encoding import cells
from counterpoise.encoding.columns import Columns, Feature
from counterpoise.errors import DataError, Message, Remedy, Setting
from counterpoise.streams.chunk import Chunk
from counterpoise.streams.delimited import other_delimiter
from counterpoise.validate import LARGEST

MOST = 1000  # categories of a column, or classes
LONGEST_NAME = 1000  # characters of a label or a category
ALIKE = 20  # categories of a column that look like numbers or dates


def require_columns(
    columns: Columns, chunk: Chunk, learned: Iterable[str], first: bool, lenient: bool
) -> None:
    """Raise if a table lacks a column that an option names, or that was learned.

    With ``lenient`` it need only have labels, weights and times; unless it is the ``first``,
    columns to be left out need not be there.
    """
    if not chunk.table:
        return
    known = {} if lenient else dict.fromkeys(learned, "")
    offered = frozenset(chunk.offered)
    named = columns.named
    if not first:  # the first file had them
        named = {name: option for name, option in named.items() if option != "drop"}
    if lenient:
        named = {c: o for c, o in named.items() if o in ("label", "weight", "clock")}
    for name, option in (named | known).items():
        if name not in offered:
            what = ("named by ", Setting(option)) if option else ("which was learned before",)
            has = f"; it has {listed(chunk.offered)}"
            said = (f"{chunk.source} has no column {name!r}, ", *what, has)
            raise DataError(said, *other_delimiter(chunk.offered))


def require_declared(columns: Columns, chunk: Chunk, y: Labels, kept: Flags) -> None:
    """Raise if a label is not one of those that there may be."""
    declared = columns.classes
    if not declared:
        return
    bad = [label for label in np.unique(y[kept]).tolist() if str(label) not in declared]
    if bad:
        row = int((kept & np.isin(y, bad)).argmax())
        raise chunk.error(
            row,
            (
                f"label {y[row].item()!r} in column {columns.label!r} is not one of "
                f"{', '.join(declared)}, which ",
                Setting("classes"),
                " allows",
            ),
            Remedy("correct it"),
        )


def keep(columns: Columns, chunk: Chunk, missing: Mapping[str, Flags], predicting: bool) -> Flags:
    """Return which rows to keep, (rows,), or raise if a value is missing and may not be."""
    kept = np.ones(chunk.rows, dtype=bool)
    for name, gone in missing.items():
        if not gone.any():
            continue
        if columns.missing == "error":
            drop = Remedy("drop such rows", "missing", "drop")
            mean = Remedy("fill it by the mean", "missing", "mean")
            remedies: tuple[Remedy, ...] = (mean, drop, left_out(name))
            if predicting:
                learn = Remedy("learn a model", "missing", "mean")
                remedies = (Remedy("fill it in"), learn)
            elif not columns.feature(name):
                remedies = (drop,)
            raise chunk.error(int(gone.argmax()), f"no value in column {name!r}", *remedies)
        if columns.missing == "drop":
            kept &= ~gone
    return kept


def require_few(
    columns: Columns, chunk: Chunk, new: Sequence[Feature], features: Sequence[Feature]
) -> dict[str, Message]:
    """Raise if a column has too many categories, and return what should be said of the others.

    ``features`` are all, ``new`` those that this chunk brought.
    """
    notes = {}
    values: dict[str, list[str]] = {f.column: [] for f in new if f.kind == "category"}
    for feature in features:
        if feature.kind == "category" and feature.column in values:
            values[feature.column].append(feature.value)
    for name, found in values.items():
        if name not in columns.categorical:
            look = cells.disguise(name, found, chunk.cells)
            text = f"column {name!r} holds values such as {look.example!r}"
            if look.found > ALIKE:
                raise chunk.error(
                    0,
                    f"{text}: {look.found} categories by the end of this chunk look like "
                    f"numbers or dates, and at most {ALIKE} may",
                    look.remedy,
                    Remedy("take them as categories", "categorical", [name]),
                    left_out(name),
                )
            if look.found and look.most:
                agree = Remedy("confirm that", "categorical", [name])
                beside = f" beside {look.word!r}" if look.word else ""
                notes[name] = Message(f"{text}{beside}, taken as categories", look.remedy, agree)
        if len(found) > MOST:
            raise chunk.error(
                0,
                f"column {name!r} has more than {MOST:,} categories by the end of this chunk",
                spread(name),
                left_out(name),
            )
    return notes


def require_room(chunk: Chunk, count: int, room: float) -> None:
    """Raise if there are more features than there is memory for."""
    if count > room:
        raise chunk.error(
            0,
            (
                f"there are at least {count:,} features by this row, but ",
                Setting("memory_limit"),
                f" has room for {int(room):,}",
            ),
            Remedy("name the columns that matter", "keep"),
            Remedy("leave others out", "drop"),
            Remedy("spread categories over buckets", "hashed"),
            Remedy("raise {}", "memory_limit"),
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
            Remedy("is it the right column?"),
            Remedy("take labels as they are written", "categorical", [name]),
        )


def require_short(
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


def require_moderate(chunk: Chunk, name: str, x: Vector) -> None:
    """Raise if a number of a column, x (rows,), is too large."""
    with np.errstate(invalid="ignore"):
        bad = np.flatnonzero(np.abs(x) > LARGEST)
    if len(bad):
        raise chunk.error(
            int(bad[0]),
            f"column {name!r} is {x[bad[0]]:g}, beyond {LARGEST:g}",
            *cells.CORRECT,
            left_out(name),
        )


def require_same_type(columns: Columns, chunk: Chunk, name: str, kind: str | None) -> None:
    """Raise if a column with a type of its own was learned as something else.

    Text of a file is read as what the column is; a column of numbers is no text by itself.
    """
    column = chunk.columns[name]
    if kind is None or chunk.cells or not chunk.table or column.null_count == len(column):
        return
    number = pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
    time, truth = pa.types.is_temporal(column.type), pa.types.is_boolean(column.type)
    number &= name not in chunk.categorical
    if name in columns.told or not (
        (kind == "text" and (number or time))
        or (kind == "number" and (truth or time))
        or (kind == "date" and (number or truth))
    ):
        return
    before = {"text": "text", "number": "numbers", "date": "dates"}[kind]
    row = int(column.is_valid().to_numpy(zero_copy_only=False).argmax())
    raise chunk.error(
        row,
        f"column {name!r} holds {column[row].as_py()!r} (type {column.type}), but held {before} "
        "before",
        Remedy("convert it to what it was"),
        left_out(name),
    )


def left_out(name: str) -> Remedy:
    """Return the advice to leave a column out."""
    return Remedy("leave the column out", "drop", [name])


def spread(name: str) -> Remedy:
    """Return the advice to hash the categories of a column."""
    return Remedy("spread them over buckets", "hashed", {name: 256})


def listed(columns: tuple[str, ...]) -> str:
    """Return the first dozen of names, quoted, and how many more there are."""
    names = [repr(name) for name in columns]
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")
