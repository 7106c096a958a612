"""Delayed labels: inputs that are joined with the store of pending events."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.arrays import Flags
from counterpoise.encoding.columns import Columns, by_option
from counterpoise.errors import DataError, OptionValue, Suggestion
from counterpoise.readers.chunk import Chunk, ReadPosition, Source
from counterpoise.tables.estimator import NEW_FILE_REMEDY, as_text
from counterpoise.tables.event_database import EventDatabase, JoinedChunk, LearnedLabel
from counterpoise.tables.model import TableModel
from counterpoise.tables.records import IdRows, Record, ids_of, texts_of
from counterpoise.tables.scoring import CHUNK_ROWS


class PendingRows(Source):
    """Events that are ready to be learned, as a source of rows."""

    def __init__(
        self, chunks: Callable[[Callable[[str], bool]], Iterator[Chunk]], name: str
    ) -> None:
        self.path = self.name = name
        self._chunks = chunks  # which yields them, given a function that selects columns

    def done(self) -> tuple[int, int]:
        """Return that the progress is unknown."""
        return 0, 0

    def chunks(
        self, rows: int, after: ReadPosition, kinds: Mapping[str, str],
        wanted: Callable[[str], bool], until: int | None = None,
    ) -> Iterator[Chunk]:  # fmt: skip
        """Return the rows that are ready, all of which come after the mark."""
        yield from self._chunks(wanted)


def read_learned_events(
    source: Source, store: EventDatabase, record: Record, rows: int, wanted: Callable[[str], bool]
) -> Iterator[JoinedChunk]:
    """Read the events of a file that a store contains, with their present labels, if learned."""
    until, label = record.mark.rows, store.label
    for chunk in source.chunks(rows, ReadPosition(), {}, wanted, until):
        chunk = chunk.only(chunk.first + np.arange(chunk.rows) <= until)
        ids, missing = ids_of(chunk, store.id), LearnedLabel(None, "")
        learned = store.find_learned(ids)
        found = [learned.get(one, missing) for one in ids]
        labels = pa.array([one.label for one in found], pa.string())
        values = {f.name: getattr(chunk, f.name) for f in fields(Chunk)} | {
            "columns": {**chunk.columns, label: labels},
            "offered": (*chunk.offered, label) if chunk.table else (),
            "kinds": store.kinds,
            "ids": tuple(ids),
            "is_learned": tuple(one is not missing and not one.input for one in found),
            "inputs": tuple(one.input for one in found),
        }
        yield JoinedChunk(**values)


@dataclass(frozen=True)
class NewLabels:
    """New labels of rows: one label for all, or one for each id."""

    label: Any = None  # the label of all rows
    by_id: Mapping[str, Any] | None = None  # labels by id instead; other rows stay as they are
    id: str | None = None  # column of the ids

    def find(self, chunk: Chunk) -> tuple[Flags, list[Any]]:
        """Return flags of the rows that get a label, (rows,), and the labels."""
        if self.by_id is None:
            return np.ones(chunk.rows, dtype=bool), [self.label] * chunk.rows
        labels = [self.by_id.get(one) for one in ids_of(chunk, self.id or "")]
        return np.array([label is not None for label in labels], dtype=bool), labels


def read_labels(
    source: Source,
    id: str,  # noqa: A002
    label: str,
    classes: Mapping[str, Any],
) -> tuple[NewLabels, dict[str, str]]:
    """Return new labels by id, and the row of each id; ``classes`` are the labels by their text."""
    labels, rows = dict[str, Any](), IdRows()
    for chunk in source.chunks(CHUNK_ROWS, ReadPosition(), {}, lambda name: name in (id, label)):
        texts = texts_of(chunk, label, "label")
        for row, text in enumerate(texts):
            if text not in classes:
                raise chunk.error(
                    row,
                    f"label {text!r} is not one of {', '.join(classes)}",
                    Suggestion("correct it"),
                )
        labels |= zip(rows.add(chunk, id), (classes[text] for text in texts), strict=True)
    return NewLabels(by_id=labels, id=id), rows


def merge_settings(
    store: EventDatabase,
    columns: Mapping[str, Any],
    options: Mapping[str, Any],
    more: Mapping[str, Any],
) -> dict[str, dict[str, Any]]:
    """Return the settings of a model that the first labels will create.

    The settings of earlier events apply, and these must agree with them. ``more`` has settings of
    the run that the model keeps.
    """
    given = {"columns": dict(columns), "options": dict(options), "more": dict(more)}
    before = store.settings
    if before is None:
        return given
    default = Columns(label="").by_option()
    result: dict[str, dict[str, Any]] = {}
    for group, values in given.items():
        # JSON has lists only, and the command line gives tuples.
        stored: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in before[group].items()
        }
        earlier = by_option(stored)
        for name, value in by_option(values).items():
            then = earlier.get(name, default.get(name))
            if name not in ("drop", "classes", "positive") and value != then:
                how = "without it" if then is None else f"with {as_text(then)}"
                text = f" is {as_text(value)}, but {store.path} was created {how}"
                raise DataError(
                    (OptionValue(name), text), Suggestion("leave the option out"), NEW_FILE_REMEDY
                )
        roles = {**stored.pop("roles", {}), **values.get("roles", {})}
        result[group] = {**stored, **values, **({"roles": roles} if roles else {})}
    return result


def event_checker(model: TableModel, store: EventDatabase) -> Callable[[Chunk], dict[str, str]]:
    """Return a check of the events of one input; it returns the types of their columns."""
    encoding = replace(model.encoding, kinds={**store.kinds, **model.encoding.kinds})
    has_earlier = bool(encoding.kinds)

    def check(chunk: Chunk) -> dict[str, str]:
        nonlocal encoding
        encoding = model.check_events(encoding, chunk, has_earlier)
        return encoding.kinds

    return check


def drop_id(columns: dict[str, Any], id: str, model: str | None) -> dict[str, Any]:  # noqa: A002
    """Return settings of columns in which the id is not a feature."""
    before = None
    if model is not None and os.path.exists(model):
        before = TableModel.load(model).encoding.columns
    dropped = () if before is None else before.drop
    roles = columns.get("roles", {})
    has_drop, has_only = "drop" in roles.values(), "only" in columns or (before and before.only)
    if has_only or (id in dropped and not has_drop):
        return columns
    earlier = {} if has_drop else dict.fromkeys(dropped, "drop")
    return {**columns, "roles": dict(sorted({**earlier, **roles, id: "drop"}.items()))}
