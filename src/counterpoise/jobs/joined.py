"""Labels joined with the events that wait for them: a source of rows like any other.

Its rows are those of the labels, in the order in which these came; its mark is how far the labels
were read. So a learner learns them as it learns a file, and each exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.arrays import Flags
from counterpoise.encoding import cells
from counterpoise.encoding.encoding import Encoding
from counterpoise.errors import DataError, Remedy, Words
from counterpoise.jobs.ids import column_of, ids_of
from counterpoise.jobs.packed import ABSENT
from counterpoise.jobs.waiting import Waiting
from counterpoise.streams import Chunk, Mark, Source


@dataclass(frozen=True, eq=False)
class JoinedChunk(Chunk):
    """Events with their labels.

    Attributes
    ----------
    origins : tuple of str
        Where each event came from.
    places : tuple of int
        Which row of the labels each one has, from 0.
    """

    origins: tuple[str, ...] = ()
    places: tuple[int, ...] = ()

    def only(self, rows: Flags) -> JoinedChunk:
        """The rows that are meant, with the same mark."""
        at = np.flatnonzero(rows).tolist()
        origins = tuple(self.origins[i] for i in at)
        places = tuple(self.places[i] for i in at)
        part = super().only(rows)
        assert isinstance(part, JoinedChunk)
        return replace(part, origins=origins, places=places)

    def error(self, row: int, problem: Words, *remedies: Remedy) -> DataError:
        """Error about a row: it names the label and the event."""
        where = f"{self.source}, row {self.first + self.places[row]} ({self.origins[row]}): "
        parts = (problem,) if isinstance(problem, str) else problem
        return DataError((where, *parts), *remedies)


class Joined:
    """The labels of one input, joined with waiting events.

    Parameters
    ----------
    labels : Source
        An input with an id and a label in each row.
    key : str
        Its name in the records of the model.
    label : str
        Column of the labels.
    waiting : Waiting
        The events.
    lenient : bool, default=False
        Leave out labels of unknown events.

    Attributes
    ----------
    skipped : int
        Labels that were left out.
    """

    def __init__(
        self, labels: Source, key: str, label: str, waiting: Waiting, lenient: bool = False
    ) -> None:
        self.labels, self.key, self.label, self.waiting = labels, key, label, waiting
        self.lenient, self.skipped = lenient, 0
        self.path, self.name = labels.path, labels.name

    @property
    def left(self) -> bool:
        """Whether a last line without a line end was left for later."""
        return self.labels.left

    @left.setter
    def left(self, value: bool) -> None:
        self.labels.left = value

    def done(self) -> tuple[int, int]:
        """Bytes of the labels read so far, and their size."""
        return self.labels.done()

    def verify(self, after: Mark, wanted: Callable[[str], bool]) -> None:
        """Raise if the labels before a mark have changed."""
        self.labels.verify(after, self._wanted)

    def starts(self, wanted: Callable[[str], bool]) -> tuple[str, ...]:
        """Hashes of the first labels."""
        return self.labels.starts(self._wanted)

    def chunks(
        self,
        rows: int,
        after: Mark,
        kinds: Mapping[str, str],
        wanted: Callable[[str], bool],
        until: int | None = None,
    ) -> Iterator[Chunk]:
        """Read labels after a mark, and join them with their events."""
        for chunk in self.labels.chunks(rows, after, {}, self._wanted, until):
            yield self._joined(chunk, wanted)

    def _wanted(self, name: str) -> bool:
        return name in (self.waiting.id, self.label)

    def _joined(self, labels: Chunk, wanted: Callable[[str], bool]) -> Chunk:
        """The events of some labels."""
        column_of(labels, self.label, "label")
        ids = ids_of(labels, self.waiting.id)
        table, shape, origins = self.waiting.claimed(labels, ids, self.key, self.lenient)
        at = table["\x00row"].to_numpy()
        n = table.num_rows
        self.skipped += labels.rows - n
        absent = {
            name.removeprefix(ABSENT): _flags(table[name])
            for name in table.column_names
            if name.startswith(ABSENT)
        }
        names = [c for c in table.column_names if not c.startswith("\x00")]
        is_table = bool(shape.get("table", True))
        for name in () if is_table else names:
            if name not in absent and table[name].null_count:
                absent[name] = table[name].is_null().to_numpy(zero_copy_only=False)
        columns = {name: _whole(table[name]) for name in names if wanted(name)}
        said = labels.columns[self.label]
        if labels.cells and not shape.get("cells", True):
            said = _as_numbers(labels, self.label, said)
        columns[self.label] = said.take(pa.array(at, pa.int64()))
        offered = (*shape.get("offered", ()), self.label) if is_table else ()
        return JoinedChunk(
            labels.source,
            labels.first,
            n,
            columns,
            labels.mark,
            cells=bool(shape.get("cells", True)),
            table=is_table,
            offered=offered,
            absent={name: flags for name, flags in absent.items() if name in columns},
            names=() if is_table else (*names, self.label),
            starts=labels.starts,
            last=labels.last,
            skipped=labels.rows - n,
            origins=tuple(origins),
            places=tuple(at.tolist()),
        )


def checking(encoding: Encoding) -> Callable[[Chunk], None]:
    """Return a check of events: whether they could be learned, whatever their labels will be."""
    now = encoding

    def check(chunk: Chunk) -> None:
        nonlocal now
        label = now.columns.label
        if label in chunk.columns:
            raise DataError(
                f"{chunk.source} has the column {label!r}, which is to come with the labels",
                Remedy("leave it out"),
                Remedy("learn the file without labels of their own"),
            )
        said = now.columns.classes[0] if now.columns.classes else "0"
        column: Any = pa.array([said] * chunk.rows, pa.string())
        offered = (*chunk.offered, label) if chunk.table else chunk.offered
        columns = {name: c for name, c in chunk.columns.items() if now.columns.wanted(name)}
        probe = replace(
            chunk,
            columns={**columns, label: column},
            offered=offered,
            absent={name: flags for name, flags in chunk.absent.items() if name in columns},
        )
        labels = now.labels
        plain = replace(now, labels="text")
        _, after = plain.learn(probe)
        now = replace(after, labels=labels)

    return check


def _flags(column: pa.ChunkedArray) -> Any:
    """Where rows do not have a column; those of a batch without the flags have it."""
    return np.asarray(column.fill_null(False).to_numpy(), dtype=bool)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _as_numbers(labels: Chunk, name: str, column: pa.Array) -> pa.Array:
    """Labels of a text file as whole numbers, if they are, where events do not come as text."""
    try:
        return column.cast(pa.int64()) if cells.kind_of(labels, name) == "number" else column
    except pa.ArrowInvalid:
        return column
