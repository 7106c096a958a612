"""Check of a file that reports all its problems without learning it.

A row with a problem is reported and left out, and the other rows are checked again. A column
whose problem does not belong to one row is reported and left out as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from counterpoise.encoding.cell_parsing import NUMBER
from counterpoise.errors import DataError, Suggestion
from counterpoise.readers.chunk import Chunk, ReadPosition, Source
from counterpoise.tables.model import TableModel, with_placeholder_label
from counterpoise.tables.records import IdRows, read_also
from counterpoise.tables.scoring import CHUNK_ROWS


class Checker:
    """Problems in files, as if a model learned them one after the other."""

    def __init__(
        self,
        model: TableModel,
        max_problems: int = 100,
        id: str | None = None,  # noqa: A002
    ) -> None:
        self.model, self.encoding, self.max_problems = model, model.encoding, max_problems
        self.rows, self.id = 0, id
        self._dropped: set[str] = set()
        self._ids = IdRows()

    def problems(self, source: Source) -> Iterator[DataError]:
        """Yield the problems of an input, in the order of its rows."""
        count, seen = 0, set[str]()
        columns = self.encoding.columns
        kinds = columns.read({**columns.explicit_types, **self.encoding.kinds})
        wanted = read_also(source, columns.is_needed, [self.id])
        try:
            for chunk in source.chunks(CHUNK_ROWS, ReadPosition(), kinds, wanted):
                self.rows += chunk.rows
                for problem in self._problems_of(chunk):
                    if problem.row is None:
                        if str(problem) in seen:  # of the whole file, and found in each chunk
                            continue
                        seen.add(str(problem))
                    yield problem
                    count += 1
                    if count >= self.max_problems:
                        return
        except DataError as error:  # the rest of the input cannot be read
            yield error

    def _problems_of(self, chunk: Chunk) -> list[DataError]:
        """Return the problems of the rows of a chunk, in their order."""
        left = replace(chunk, positions=tuple(range(chunk.rows)))
        found: list[tuple[int, DataError]] = []
        while left.rows and len(found) < self.max_problems:
            left = self._without_dropped(left)
            try:
                self._learn(left)
            except DataError as error:
                columns = _columns_of(error)
                texts = [(name, i) for name in columns for i in _text_rows(left, name)]
                if texts:
                    found += [_not_a_number(left, name, i) for name, i in texts]
                    left = left.only(~np.isin(np.arange(left.rows), [i for _, i in texts]))
                    continue
                found.append((-1 if error.row is None else left.positions[error.row], error))
                if columns:
                    self._dropped |= set(columns)
                elif error.row is not None:
                    left = left.only(np.arange(left.rows) != error.row)
                else:
                    break
                continue
            for name, kind in self.encoding.kinds.items() if chunk.cells else ():
                if kind == "category" and name not in self.encoding.columns.explicit_types:
                    found += [_not_a_number(left, name, i) for i in _text_rows(left, name)]
            break
        return [error for _, error in sorted(found, key=lambda one: one[0])]

    def _without_dropped(self, chunk: Chunk) -> Chunk:
        """Return rows without the columns that were reported."""
        if not self._dropped & set(chunk.columns):
            return chunk
        columns = self.encoding.columns.dropping(self._dropped)
        self.encoding = replace(self.encoding, columns=columns)
        return replace(
            chunk, columns={c: v for c, v in chunk.columns.items() if c not in self._dropped}
        )

    def _learn(self, chunk: Chunk) -> None:
        """Encode rows as learning would, and raise at the first problem."""
        encoding, model, ids = self.encoding, self.model, IdRows()
        if self.id is not None:
            ids.add(chunk, self.id, self._ids)
            if encoding.columns.label not in (chunk.offered or chunk.columns):
                chunk = with_placeholder_label(chunk, encoding.columns)
        lacking = [name for name in encoding.missing_columns(chunk) if name not in self._dropped]
        encoded, after = model.guards.encode(chunk, encoding, model.rows > 0, lacking=lacking)
        model.require_labels(chunk, encoded, model.classes)
        self._ids |= ids
        self.encoding = after


def _columns_of(error: DataError) -> list[str]:
    """Return the columns whose other types an error suggests, so that it is about all rows."""
    pairs = [
        pair
        for remedy in error.message.remedies
        if remedy.option == "columns"
        for pair in remedy.value.items()
    ]
    if not any(role in ("category", "epoch") or role.startswith("hash") for _, role in pairs):
        return []
    return [name for name, role in pairs if role == "drop" and name != "COLUMN"]


def _text_rows(chunk: Chunk, name: str) -> list[int]:
    """Return the rows of a text column that are not numbers, if most rows are."""
    column = chunk.columns.get(name)
    if column is None or not chunk.cells or not pa.types.is_string(column.type):
        return []
    cells = column.to_pylist()
    texts = [i for i, cell in enumerate(cells) if cell and not NUMBER.fullmatch(cell.strip())]
    return texts if 0 < 2 * len(texts) < sum(1 for cell in cells if cell) else []


def _not_a_number(chunk: Chunk, name: str, row: int) -> tuple[int, DataError]:
    """Return position and error of text in a column of numbers, which become categories."""
    cell = chunk.columns[name][row].as_py()
    error = chunk.error(
        row,
        f"column {name!r} contains {cell[:60]!r} and mostly numbers, so all values are categories",
        Suggestion("correct it"),
        Suggestion("confirm that", "columns", {name: "category"}),
    )
    return chunk.positions[row], error
