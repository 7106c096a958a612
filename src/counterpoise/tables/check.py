"""Check of a file that reports all its problems without learning it.

A row with a problem is reported and left out, and the other rows are checked again. A column
whose problem does not belong to one row is reported and left out as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.arrays import Flags
from counterpoise.encoding.cell_parsing import NUMBER
from counterpoise.encoding.encoder import ColumnEncoder, EncodedChunk
from counterpoise.errors import DataError, Suggestion, Words
from counterpoise.readers.chunk import Chunk, ReadPosition, Source
from counterpoise.tables.guards import Guards
from counterpoise.tables.model import TableModel, with_placeholder_label
from counterpoise.tables.records import duplicate_id_error, ids_of
from counterpoise.tables.scoring import CHUNK_ROWS


class RowError(DataError):
    """A problem of one row."""

    row = 0


@dataclass(frozen=True, eq=False)
class Checked(Chunk):
    """Rows of a chunk that have no problem yet."""

    places: tuple[int, ...] = ()  # their positions within the chunk, from 0

    def only(self, rows: Flags) -> Checked:
        """Return the selected rows."""
        part = super().only(rows)
        assert isinstance(part, Checked)
        return replace(part, places=tuple(np.array(self.places, dtype=int)[rows].tolist()))

    def error(self, row: int, problem: Words, *remedies: Suggestion) -> DataError:
        """Error about a row, which says where it is."""
        place = self.places[row] if row < len(self.places) else row
        found = super().error(place, problem, *remedies)
        told = RowError(found.message.problem, *remedies)
        told.row = row
        return told


class Checker:
    """Looks for problems in files, one after the other, as if each were learned."""

    def __init__(
        self,
        encoding: ColumnEncoder,
        guards: Guards,
        stored: TableModel | None = None,
        most: int = 100,
        id: str | None = None,  # noqa: A002
    ) -> None:
        self.encoding, self.guards, self.stored, self.most = encoding, guards, stored, most
        self.rows, self.id = 0, id
        self._dropped: set[str] = set()
        self._ids: dict[str, str] = {}  # place of each id

    def problems(self, source: Source) -> Iterator[DataError]:
        """Yield the problems of an input, in the order of its rows."""
        told, known = 0, set[str]()
        columns = self.encoding.columns
        kinds = columns.read({**columns.explicit_types, **self.encoding.kinds})
        chunks = source.chunks(
            CHUNK_ROWS,
            ReadPosition(),
            kinds,
            lambda name: name == self.id or columns.is_needed(name),
        )
        try:
            for chunk in chunks:
                self.rows += chunk.rows
                for problem in self._of(chunk):
                    if not isinstance(problem, RowError):
                        if str(problem) in known:  # of the whole file, and found in each chunk
                            continue
                        known.add(str(problem))
                    yield problem
                    told += 1
                    if told >= self.most:
                        return
        except DataError as error:  # what cannot be read ends the file
            yield error

    def _of(self, chunk: Chunk) -> list[DataError]:
        """Return the problems of the rows of a chunk, in their order."""
        fields = {name: getattr(chunk, name) for name in Chunk.__dataclass_fields__}
        rest = Checked(**fields, places=tuple(range(chunk.rows)))
        found: list[tuple[int, DataError]] = []
        while rest.rows and len(found) < self.most:
            rest = self._without_dropped(rest)
            try:
                _, self.encoding = self._learn(rest)
            except DataError as error:
                row = error.row if isinstance(error, RowError) else None
                columns = _columns_of(error)
                odd = [(name, i) for name in columns for i in _odd(rest, name)]
                if odd:
                    found += [(rest.places[i], _no_number(rest, name, i)) for name, i in odd]
                    rest = rest.only(~np.isin(np.arange(rest.rows), [i for _, i in odd]))
                    continue
                found.append((-1 if row is None else rest.places[row], error))
                if columns:
                    self._dropped |= set(columns)
                elif row is not None:
                    rest = rest.only(np.arange(rest.rows) != row)
                else:
                    break
                continue
            texts = [c for c, kind in self.encoding.kinds.items() if kind == "category"]
            for name in texts if chunk.cells else ():
                if name not in self.encoding.columns.explicit_types:
                    odd_rows = _odd(rest, name)
                    found += [(rest.places[i], _no_number(rest, name, i)) for i in odd_rows]
            break
        return [error for _, error in sorted(found, key=lambda one: one[0])]

    def _without_dropped(self, chunk: Checked) -> Checked:
        """Return rows without the columns that were reported."""
        if not self._dropped & set(chunk.columns):
            return chunk
        columns = self.encoding.columns.dropping(self._dropped)
        self.encoding = replace(self.encoding, columns=columns)
        return replace(
            chunk, columns={c: v for c, v in chunk.columns.items() if c not in self._dropped}
        )

    def _learn(self, chunk: Checked) -> tuple[EncodedChunk, ColumnEncoder]:
        """Encode rows as learning would, and raise at the first problem."""
        encoding, guards, stored = self.encoding, self.guards, self.stored
        ids = self._new_ids(chunk)
        if self.id is not None and encoding.columns.label not in (chunk.offered or chunk.columns):
            chunk = with_placeholder_label(chunk, encoding.columns)
        lacking = [name for name in encoding.missing_columns(chunk) if name not in self._dropped]
        guards.require_whole(chunk, lacking)
        encoded, after = encoding.learn(chunk, lenient=bool(lacking))
        guards.require_past(chunk, encoded, encoding.columns.timestamp)
        earlier = stored is not None and stored.rows > 0
        guards.notice_columns(chunk, lacking, encoding, after, earlier)
        known: list[Any] = [] if stored is None else stored.classes
        settled = 0 if stored is None else stored.settled
        options: Any = {} if stored is None else stored.options
        guards.require_labels(chunk, encoded, known, options, encoding.columns.classes, settled)
        self._ids |= ids
        return encoded, after

    def _new_ids(self, chunk: Checked) -> dict[str, str]:
        """Return the place of each id of a chunk; raise if one is missing or occurs twice."""
        found: dict[str, str] = {}
        for row, one in enumerate(() if self.id is None else ids_of(chunk, self.id)):
            before = found.get(one) or self._ids.get(one)
            if before is not None:
                raise duplicate_id_error(chunk, row, self.id or "", one, before)
            found[one] = f"{chunk.source}, row {chunk.first + chunk.places[row]}"
        return found


def _columns_of(error: DataError) -> list[str]:
    """The columns that an error is about as a whole: it advises to take them as something else."""
    pairs = [
        pair
        for remedy in error.message.remedies
        if remedy.option == "columns"
        for pair in remedy.value.items()
    ]
    if not any(role in ("category", "epoch") or role.startswith("hash") for _, role in pairs):
        return []
    return [name for name, role in pairs if role == "drop" and name != "COLUMN"]


def _odd(chunk: Chunk, name: str) -> list[int]:
    """Return the rows of a text column that are not numbers, if most rows are."""
    column = chunk.columns.get(name)
    if column is None or not chunk.cells or not pa.types.is_string(column.type):
        return []
    cells = column.to_pylist()
    words = [i for i, cell in enumerate(cells) if cell and not NUMBER.fullmatch(cell.strip())]
    return words if 0 < 2 * len(words) < sum(1 for cell in cells if cell) else []


def _no_number(chunk: Chunk, name: str, row: int) -> DataError:
    """Error about a cell that makes categories of a column of numbers."""
    cell = chunk.columns[name][row].as_py()
    return chunk.error(
        row,
        f"column {name!r} holds {cell[:60]!r}, and numbers in most rows: all are categories",
        Suggestion("correct it"),
        Suggestion("confirm that", "columns", {name: "category"}),
    )
