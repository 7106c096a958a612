"""Predictions as they were served, judged by labels that came later, joined by an id."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from counterpoise.arrays import Flags, Matrix, Vector
from counterpoise.encoding import cells
from counterpoise.errors import DataError, Remedy
from counterpoise.evaluate.metrics import measure
from counterpoise.evaluate.race import Result
from counterpoise.exact.classes import flat
from counterpoise.exact.standing import against_rest
from counterpoise.jobs.alerts import ByCost
from counterpoise.jobs.evaluate import Watcher
from counterpoise.jobs.ids import column_of, ids_of, twice
from counterpoise.jobs.verdict import Verdict
from counterpoise.streams import Chunk, Mark, Source

ROWS = 8192


class Served(NamedTuple):
    """A verdict on predictions that were served.

    Attributes
    ----------
    verdict : Verdict
        Those with a label.
    waiting : int
        Predictions whose label has not come.
    strange : int
        Labels of rows that were never predicted.
    classes : list of str
        The labels that the predictions know.
    """

    verdict: Verdict
    waiting: int
    strange: int
    classes: list[str]


def labels_of(
    sources: Iterable[Source], name: str, label: str | None, watch: Watcher
) -> dict[str, str]:
    """Return the label of each id, as text; ``label`` is the column, or None if it is clear."""
    result: dict[str, str] = {}
    where: dict[str, str] = {}
    for source in sources:
        for chunk in source.chunks(ROWS, Mark(), {}, lambda _: True):
            column_of(chunk, name, "id")
            column = label or only_other(chunk, name)
            column_of(chunk, column, "label")
            text = cells.texts(chunk, column)
            if text.null_count:
                row = int(text.is_null().to_numpy(zero_copy_only=False).argmax())
                raise chunk.error(
                    row, f"no label in column {column!r}", Remedy("fill it in or drop the row")
                )
            for row, (one, said) in enumerate(
                zip(ids_of(chunk, name), text.to_pylist(), strict=True)
            ):
                if one in result:
                    raise twice(chunk, row, name, one, where[one])
                result[one] = said
                where[one] = f"{chunk.source}, row {chunk.first + row}"
            watch.chunk(source, chunk.rows)
    return result


def only_other(chunk: Chunk, name: str) -> str:
    """Return the one column besides the ids, or raise if there are several."""
    others = [c for c in chunk.offered or chunk.columns if c != name]
    if len(others) != 1:
        has = ", ".join(map(repr, others[:12])) or "none"
        raise DataError(
            f"{chunk.source} has not one column besides {name!r} but {len(others)}: {has}",
            Remedy("name the one that holds the labels", "label"),
        )
    return others[0]


def served(
    sources: Iterable[Source],
    labels: dict[str, str],
    name: str,
    watch: Watcher,
    prices: ByCost | None = None,
) -> Served:
    """Judge predictions by labels that are known by id.

    ``name`` is the column of the ids, and ``prices`` say what mistakes cost.
    """
    parts: list[_Part] = []
    seen: dict[str, str] = {}
    classes: list[str] | None = None
    waiting = skipped = 0
    for source in sources:
        for chunk in source.chunks(ROWS, Mark(), {}, lambda _: True):
            found = _classes(chunk)
            if classes is not None and found != classes:
                raise DataError(
                    f"{chunk.source} predicts {', '.join(found)}, and the files before it "
                    f"{', '.join(classes)}; judge them one by one"
                )
            classes = found
            column_of(chunk, "predicted", "predictions")
            ids = ids_of(chunk, name)
            for row, one in enumerate(ids):
                if one in seen:
                    raise twice(chunk, row, name, one, seen[one])
                seen[one] = f"{chunk.source}, row {chunk.first + row}"
            known = np.array([one in labels for one in ids], dtype=bool)
            told = cells.texts(chunk, "predicted").is_valid().to_numpy(zero_copy_only=False)
            waiting += int((~known).sum())
            skipped += int((known & ~told).sum())
            kept = known & told
            if kept.any():
                parts.append(
                    _part(chunk, kept, [labels.get(one, "") for one in ids], classes, prices)
                )
            watch.chunk(source, chunk.rows)
    if not parts or classes is None:
        raise DataError(
            f"no prediction has a label: {len(seen):,} were read, and {len(labels):,} labels; do "
            f"both have the same {name!r}?"
        )
    y = np.array([label for part in parts for label in part.y])
    guess = np.array([label for part in parts for label in part.predicted])
    f, p = np.vstack([part.f for part in parts]), np.vstack([part.p for part in parts])
    known_labels = np.array(classes)
    if not np.isin(y, known_labels).any():
        raise DataError(
            f"no label is one that was predicted: they are {', '.join(np.unique(y).tolist()[:5])}, "
            f"and the predictions know {', '.join(classes[:5])}; name the right column",
            Remedy("", "label"),
        )
    metrics = measure(y, guess, f, known_labels)
    result = Result("the model", guess, flat(f), 0, metrics, float("nan"), None)
    alerts = None
    if all(part.alert is not None for part in parts):
        alerts = np.concatenate([part.alert for part in parts if part.alert is not None])
    price: Any = None
    alarm = 1.0
    if prices is not None:
        price = prices.miss
        if prices.column is not None:
            price = np.concatenate([part.price for part in parts])
        alarm = prices.alarm
    verdict = Verdict(result, y, p, price, alarm, alerts, skipped)
    return Served(verdict, waiting, len(labels.keys() - seen.keys()), classes)


class _Part(NamedTuple):
    y: list[str]
    predicted: list[str]
    f: Matrix
    p: Matrix
    alert: Flags | None
    price: Vector


def _part(
    chunk: Chunk, kept: Flags, labels: list[str], classes: list[str], prices: ByCost | None
) -> _Part:
    """What was told of the rows of a chunk that are kept."""
    at = np.flatnonzero(kept)
    said = cells.texts(chunk, "predicted").to_pylist()
    two = len(classes) == 2
    p = np.stack([_numbers(chunk, f"stream_{label}")[kept] for label in classes], 1)
    # Rank by the stream probabilities: their columns name the class, the score's does not.
    with np.errstate(divide="ignore"):
        f = against_rest(np.log(p))[:, int(two) :]
    alert = None
    if "alert" in chunk.columns:
        alert = _flags(chunk, "alert")[kept]
    price = np.empty(0)
    if prices is not None and prices.column is not None:
        price = prices.price(chunk, kept)
    risks = p[:, int(two) :]
    return _Part([labels[i] for i in at], [said[i] for i in at], f, risks, alert, price)


def _classes(chunk: Chunk) -> list[str]:
    """The labels that predictions know, by the names of their columns."""
    found = [
        c.removeprefix("stream_") for c in chunk.offered or chunk.columns if c.startswith("stream_")
    ]
    if len(found) < 2:
        raise DataError(
            f"{chunk.source} has no predictions: a column stream_... of each class is lacking; "
            "give what counterpoise predict has written"
        )
    return found


def _numbers(chunk: Chunk, name: str) -> Vector:
    column_of(chunk, name, "predictions")
    return cells.numbers(chunk, name)


def _flags(chunk: Chunk, name: str) -> Flags:
    """Truth values, as they are or as text."""
    column = chunk.columns[name]
    if pa.types.is_boolean(column.type):
        result: Flags = column.fill_null(False).to_numpy(zero_copy_only=False)
        return result
    text = [str(value).lower() for value in column.to_pylist()]
    strange = [
        i for i, value in enumerate(text) if value not in ("true", "false", "none", "1", "0")
    ]
    if strange:
        raise chunk.error(
            strange[0],
            f"column {name!r} holds {text[strange[0]]!r}, which is neither true nor false",
            Remedy("correct it"),
        )
    return np.array([value in ("true", "1") for value in text], dtype=bool)
