"""Predictions of a stream: labels, scores and both kinds of probability, row by row."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from counterpoise.errors import Remedy
from counterpoise.exact.classes import problems
from counterpoise.jobs import reasons
from counterpoise.jobs.alerts import Alerts, Told, TopPerDay
from counterpoise.jobs.outlying import Outlying
from counterpoise.jobs.ranks import of_class, standing
from counterpoise.jobs.store import Scoring, sometimes
from counterpoise.streams import Chunk, DataError, Source
from counterpoise.streams.chunk import Mark

ROWS = 8192


class Predictor:
    """Turns chunks of rows into tables of predictions.

    Parameters
    ----------
    stored : Scoring
        What predictions need of the model, and its encoding.
    positive : label
        The positive class: alerts are about it, and of two classes its score is larger for rows
        that are more likely of it.
    alerts : Alerts, optional
        The rule by which there are alerts.
    carry : list of str, optional
        Columns of the input that come first; None for all of them.
    ignore_unknown : bool, default=False
        Leave out columns that the model does not know, and rows that have none of its own.
    explain : int, default=0
        How many reasons to give for each row.

    Attributes
    ----------
    rows : int
        Rows predicted.
    skipped : int
        Rows without a prediction because values are missing.
    unknown : dict of str to int
        Cells whose category was never learned, by column.
    strange : dict
        Columns that the model does not know, and that were left out.
    bare : int
        Rows without a prediction because they have none of the columns of the model.
    lacking : dict
        Columns that tables did not have, and that were 0 as in some of the learned rows.
    blank : dict of str to int
        Cells without a value, by column that was never blank while the model learned.
    outlying : Outlying
        Values far from everything that was learned.
    """

    def __init__(
        self,
        stored: Scoring,
        positive: Any,
        alerts: Alerts | None = None,
        carry: Sequence[str] | None = (),
        ignore_unknown: bool = False,
        explain: int = 0,
    ) -> None:
        self.learned, self.encoding = stored.model, stored.encoding
        self.alerts, self.carry = alerts, carry
        self._needed = () if alerts is None else alerts.columns
        self.rows, self.skipped, self.unknown = 0, 0, dict[str, int]()
        self.strange, self.bare = dict[str, None](), 0
        self.blank = dict[str, int]()
        self.lacking, self._optional = dict[str, None](), sometimes(stored)
        self._apart = None if ignore_unknown else (*(carry or ()), *self._needed)
        self._labels = self.learned.state.classes.labels
        self._classes = self._labels.tolist()
        self._positive = self._classes.index(positive)
        self.outlying = Outlying()
        alert = [] if alerts is None else ["alert"]
        self._explain = explain
        told = [*self._score_names(), *self._probability_names(), *alert]
        self._outputs = ["predicted", *told, *reasons.names_of(explain)]

    def wanted(self, name: str) -> bool:
        """Return whether a column of the input is needed."""
        apart = self.carry is None or name in self.carry or name in self._needed
        return apart or self.encoding.knows(name)

    def table(self, chunk: Chunk) -> pa.Table:
        """Return predictions of a chunk, a row for each; null where there can be none."""
        encoded = self.encoding.predict(chunk, self._apart, self._optional, self.learned.state.mean)
        n, kept = chunk.rows, encoded.kept
        self.rows += n
        self.bare += encoded.bare
        self.skipped += n - int(kept.sum()) - encoded.bare
        apart = (*(self.carry or ()), *self._needed)
        self.strange |= dict.fromkeys(name for name in encoded.strange if name not in apart)
        self.lacking |= dict.fromkeys(encoded.lacking)
        for name, count in encoded.unknown.items():
            self.unknown[name] = self.unknown.get(name, 0) + count
        for name, count in encoded.blank.items():
            self.blank[name] = self.blank.get(name, 0) + count
        columns = self._carried(chunk)
        if kept.any():
            self.outlying.look(self.learned.usual, self.encoding.features, encoded.X, kept, chunk)
            scores = self.learned.scores
            f = scores.of(encoded.X)
            ranks, labels = standing(f, scores), scores.classes.best(f)
            balanced, stream = (scores.probabilities(f, stream) for stream in (False, True))
        else:
            labels = self._labels[:0]
            f = np.empty((0, problems(len(self._classes))))
            balanced = stream = np.empty((0, len(self._classes)))
            ranks = f
        pairs = np.stack([balanced, stream], axis=2).reshape(len(f), -1)
        sign = -1.0 if f.shape[1] == 1 and not self._positive else 1.0
        found = [labels, *(sign * f).T, *pairs.T]
        if self.alerts is not None:
            k = self._positive
            told = Told(balanced[:, k], stream[:, k], of_class(ranks, k), kept)
            has_two = int(self.learned.state.classes.seen.sum()) > 1
            no_alerts = np.zeros(len(f), dtype=bool)
            found.append(self.alerts.judge(chunk, told) if has_two else no_alerts)
        if self._explain and kept.any():
            why = reasons.reasons_of(self.learned, self.encoding, encoded.X)
            found += reasons.columns_of(why, self._explain, sign)
        elif self._explain:
            found += [pa.array([], kind) for kind in (pa.string(), pa.float64())] * self._explain
        for name, values in zip(self._outputs, found, strict=True):
            columns[name] = _spread(values, kept)
        return pa.table(columns)

    def nothing(self) -> pa.Table:
        """Return a table without rows, for inputs without rows."""
        empty = {name: pa.array([], pa.string()) for name in self.carry or ()}
        text = [name for name in self._outputs if name.startswith("reason_")]
        outputs = {name: pa.array([], pa.float64()) for name in self._outputs}
        outputs |= dict.fromkeys(text, pa.array([], pa.string()))
        labels = pa.array(self._labels[:0])
        return pa.table({**empty, **outputs, "predicted": labels})

    def _carried(self, chunk: Chunk) -> dict[str, pa.Array]:
        names = list(chunk.columns) if self.carry is None else self.carry
        lacking = [name for name in names if name not in chunk.columns and chunk.table]
        if lacking:
            raise DataError(f"{chunk.source} has no column {lacking[0]!r}")
        clash = [name for name in names if name in self._outputs]
        if clash:
            raise DataError(
                f"{chunk.source}: column {clash[0]!r} has the name of a column of the predictions",
                Remedy("rename it"),
                Remedy("carry other columns along", "carry"),
            )
        nothing = pa.nulls(chunk.rows, pa.string())
        return {name: chunk.columns.get(name, nothing) for name in names}

    def _score_names(self) -> list[str]:
        more = problems(len(self._classes)) > 1
        return [f"score_{label}" for label in self._classes] if more else ["score"]

    def _probability_names(self) -> list[str]:
        return [f"{kind}_{label}" for label in self._classes for kind in ("balanced", "stream")]


def _spread(values: Any, kept: Any) -> pa.Array:
    """Values of the rows that were kept, null elsewhere."""
    if kept.all():
        return pa.array(values)
    place = np.cumsum(kept) - 1
    return pa.array(values).take(pa.array(np.where(kept, place, 0), mask=~kept))


def flag_top(tables: Iterable[pa.Table], rule: TopPerDay) -> Iterator[pa.Table]:
    """Yield tables of predictions with their alerts, after all of them were ranked.

    They wait in a temporary file, so that memory stays constant.
    """
    count = first = 0
    with tempfile.TemporaryFile() as file:
        for table in tables:
            with pa.ipc.new_stream(file, table.schema) as writer:
                writer.write_table(table)
            count += 1
        file.seek(0)
        alerts = rule.alerts()
        for _ in range(count):
            with pa.ipc.open_stream(file) as reader:
                table = reader.read_all()
            flags = pa.array(np.isin(np.arange(first, first + len(table)), alerts))
            first += len(table)
            at = table.column_names.index("alert")
            kept = pc.if_else(table["alert"].is_valid(), flags, None)
            yield table.set_column(at, "alert", kept)


def predict(predictor: Predictor, source: Source, rows: int = ROWS) -> Iterator[pa.Table]:
    """Yield predictions of an input, chunk by chunk of so many rows."""
    # Numbers that are carried along are read as text, to be as they are written.
    carried = predictor.encoding.kinds if predictor.carry is None else predictor.carry
    known = predictor.encoding.columns.read(predictor.encoding.kinds)
    kinds = {k: kind for k, kind in known.items() if k not in carried}
    for chunk in source.chunks(rows, Mark(), kinds, predictor.wanted):
        yield predictor.table(chunk)
