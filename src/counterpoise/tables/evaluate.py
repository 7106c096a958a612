"""Evaluation of a model, and of logged predictions by labels that are joined by an id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import scipy.sparse as sp

from counterpoise.arrays import Flags, Labels, Matrix, Rows, Vector
from counterpoise.encoding import cell_parsing
from counterpoise.encoding.columns import Columns
from counterpoise.encoding.encoder import ColumnEncoder
from counterpoise.errors import DataError, Suggestion
from counterpoise.evaluate.cost_curve import CostCurve, cost_curve, should_alert
from counterpoise.evaluate.metrics import Result, measure
from counterpoise.explanation import Explanation
from counterpoise.moments.classes import ravel_binary
from counterpoise.readers import formats
from counterpoise.readers.chunk import Chunk, ReadPosition, Source
from counterpoise.solver.score_functions import one_vs_rest_log_odds
from counterpoise.tables.alerts import ExpectedCost
from counterpoise.tables.estimator import require_label
from counterpoise.tables.inspect import standardized_coefficients
from counterpoise.tables.model import TableModel
from counterpoise.tables.records import column_of, duplicate_id_error, ids_of
from counterpoise.tables.scoring import CHUNK_ROWS, TableScorer, ranking_scores

PREFIX = "proba_stream_"  # of the column of each class in logged predictions


@dataclass(frozen=True, eq=False)
class EvaluationResult:
    """Rows that were predicted, and their labels."""

    result: Result  # predictions, scores and metrics, without times
    y: Labels  # true labels
    # probability of the second of two classes, or of each, under the stream's frequencies
    p: Matrix | None
    price: Any = None  # what a miss costs
    alarm: float = 1.0  # what a false alarm costs
    alerts: Flags | None = None  # alerts as they were served
    skipped: int = 0  # rows left out because values are missing
    # columns that tables did not have, which were 0 as in some of the learned rows
    lacking: tuple[str, ...] = ()
    reasons: Explanation | None = None  # of the first rows, by column

    def risk(self, position: int) -> Vector | None:
        """Return the stream's probability of the class at a position, (n,), if it was told."""
        if self.p is None:
            return None
        if self.p.shape[1] > 1:
            return self.p[:, position]
        one: Vector = self.p[:, 0] if position else 1.0 - self.p[:, 0]
        return one

    def bill(self, positive: Any, position: int, price: Any = None) -> CostSummary | None:
        """Return what decisions about a class have cost, if there are probabilities and prices.

        ``price`` is the cost of a miss, if none was set.
        """
        risk, price = self.risk(position), self.price if price is None else price
        if risk is None or price is None:
            return None
        curve = cost_curve(self.y, risk, miss=price, alarm=self.alarm, positive=positive)
        mine = self.y == positive
        told = should_alert(risk, price, self.alarm) if self.alerts is None else self.alerts
        missed, false = mine & ~told, ~mine & told
        cost = float(np.sum(np.where(missed, price, 0.0)) + self.alarm * false.sum())
        at = None if np.ndim(price) else self.alarm / (self.alarm + float(price))
        return CostSummary(curve, cost, int(missed.sum()), int(false.sum()), int(told.sum()), at)


@dataclass(frozen=True, eq=False)
class CostSummary:
    """Costs of decisions."""

    curve: CostCurve  # what each threshold would have cost
    cost: float  # what the decisions have cost
    misses: int  # rows of the class without an alert, false alerts, and all alerts
    alarms: int
    alerts: int
    # the threshold on the probability that the prices come down to, if all rows have one
    at: float | None


class Watcher(Protocol):
    """Observer of chunks."""

    def chunk(self, source: Source, rows: int) -> None:
        """Count rows of an input."""
        ...


def evaluate_model(
    stored: TableModel,
    sources: Iterable[Source],
    watch: Watcher,
    ignore_unknown: bool = False,
    prices: ExpectedCost | None = None,
    explain: int = 0,
) -> EvaluationResult:
    """Compare predictions with labels.

    With ``ignore_unknown``, columns that the model does not know are left out, and so are rows that
    have none of its own. ``prices`` say what mistakes cost. The first rows, ``explain`` of them,
    are explained.
    """
    encoding = stored.encoding
    true, predicted, scores, skipped, lacking = [], [], [], 0, dict[str, None]()
    risks, costs, needed = [], [], () if prices is None else prices.columns
    apart = None if ignore_unknown else needed
    scorer, why = stored.scorer, _First(explain)
    behind = scorer.scores

    def wanted(name: str) -> bool:
        return name in needed or encoding.columns.is_needed(name)

    for source in sources:
        for chunk in scorer.read_chunks(source, wanted=wanted):
            encoded, f = scorer.score(chunk, apart, has_labels=True)
            skipped += int((~encoded.kept).sum())
            lacking |= dict.fromkeys(encoded.lacking)
            if len(f):
                true.append(encoded.y)
                predicted.append(behind.classes.best(f))
                scores.append(ranking_scores(f, behind))
                p = behind.probabilities(f, stream=True)
                risks.append(p[:, 1:] if p.shape[1] == 2 else p)
                why.take(encoded.X)
                if prices is not None:
                    price = prices.price(chunk, encoded.kept)
                    costs.append(np.broadcast_to(price, len(encoded.y)))
            watch.chunk(source, chunk.rows)
    if not true:
        raise DataError("there are no rows to evaluate")
    y, guess, f = np.concatenate(true), np.concatenate(predicted), np.vstack(scores)
    known = stored.classes
    if not np.isin(y, known).any():
        found = ", ".join(map(repr, np.unique(y).tolist()[:5]))
        raise DataError(
            f"no label in column {encoding.columns.label!r} is known to the model: they are "
            f"{found}, and it knows {', '.join(map(repr, known[:5]))}; correct them, or learn such "
            "rows first"
        )
    metrics = measure(y, guess, f, stored.estimator.labels)
    terms, weights, _ = standardized_coefficients(stored)
    result = Result("the model", guess, ravel_binary(f), 0, metrics, float("nan"), weights, terms)
    price, alarm = None, 1.0
    if prices is not None:
        price = prices.miss if prices.column is None else np.concatenate(costs)
        alarm = prices.alarm
    return EvaluationResult(
        result, y, np.vstack(risks), price, alarm,
        skipped=skipped, lacking=tuple(lacking), reasons=why.reasons(scorer),
    )  # fmt: skip


class _First:
    """First encoded rows, up to a number."""

    def __init__(self, rows: int) -> None:
        self._left, self._kept = rows, list[Matrix]()

    def take(self, X: Rows) -> None:
        """Keep rows, if more are wanted."""
        if self._left > 0:
            part = X[: self._left]
            self._kept.append(part.toarray() if sp.issparse(part) else part.copy())
            self._left -= part.shape[0]

    def reasons(self, scorer: TableScorer) -> Explanation | None:
        """Reasons by column, if there are rows."""
        if not self._kept:
            return None
        return scorer.explain(np.vstack(self._kept))


ROWS = 8192


class LoggedEvaluation(NamedTuple):
    """A verdict on predictions that were served."""

    verdict: EvaluationResult  # those with a label
    waiting: int  # predictions whose label has not come
    strange: int  # labels of rows that were never predicted
    classes: list[str]  # the labels that the predictions know


def labels_of(
    sources: Iterable[Source], name: str, label: str | None, watch: Watcher
) -> dict[str, str]:
    """Return the label of each id, as text; ``label`` is the column, or None if it is clear."""
    result: dict[str, str] = {}
    where: dict[str, str] = {}
    for source in sources:
        for chunk in source.chunks(ROWS, ReadPosition(), {}, lambda _: True):
            column_of(chunk, name, "id")
            column = label or only_other(chunk, name)
            column_of(chunk, column, "label")
            text = cell_parsing.texts(chunk, column)
            if text.null_count:
                row = int(text.is_null().to_numpy(zero_copy_only=False).argmax())
                raise chunk.error(
                    row, f"no label in column {column!r}", Suggestion("fill it in or drop the row")
                )
            for row, (one, said) in enumerate(
                zip(ids_of(chunk, name), text.to_pylist(), strict=True)
            ):
                if one in result:
                    raise duplicate_id_error(chunk, row, name, one, where[one])
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
            Suggestion("name the one that holds the labels", "label"),
        )
    return others[0]


def evaluate_logged(
    sources: Iterable[Source],
    labels: dict[str, str],
    name: str,
    watch: Watcher,
    prices: ExpectedCost | None = None,
) -> LoggedEvaluation:
    """Judge predictions by labels that are known by id.

    ``name`` is the column of the ids, and ``prices`` say what mistakes cost.
    """
    parts: list[_Part] = []
    seen: dict[str, str] = {}
    classes: list[str] | None = None
    waiting = skipped = 0
    for source in sources:
        for chunk in source.chunks(ROWS, ReadPosition(), {}, lambda _: True):
            found = _classes(chunk)
            if classes is not None and found != classes:
                raise DataError(
                    f"{chunk.source} predicts {', '.join(found)}, and the files before it "
                    f"{', '.join(classes)}; judge them one by one"
                )
            classes = found
            column_of(chunk, "prediction", "predictions")
            ids = ids_of(chunk, name)
            for row, one in enumerate(ids):
                if one in seen:
                    raise duplicate_id_error(chunk, row, name, one, seen[one])
                seen[one] = f"{chunk.source}, row {chunk.first + row}"
            known = np.array([one in labels for one in ids], dtype=bool)
            told = cell_parsing.texts(chunk, "prediction").is_valid().to_numpy(zero_copy_only=False)
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
            Suggestion("", "label"),
        )
    metrics = measure(y, guess, f, known_labels)
    result = Result("the model", guess, ravel_binary(f), 0, metrics, float("nan"), None)
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
    verdict = EvaluationResult(result, y, p, price, alarm, alerts, skipped)
    return LoggedEvaluation(verdict, waiting, len(labels.keys() - seen.keys()), classes)


class _Part(NamedTuple):
    y: list[str]
    predicted: list[str]
    f: Matrix
    p: Matrix
    alert: Flags | None
    price: Vector


def _part(
    chunk: Chunk, kept: Flags, labels: list[str], classes: list[str], prices: ExpectedCost | None
) -> _Part:
    """Return the logged predictions of the selected rows of a chunk."""
    at = np.flatnonzero(kept)
    said = cell_parsing.texts(chunk, "prediction").to_pylist()
    two = len(classes) == 2
    p = np.stack([_numbers(chunk, f"{PREFIX}{label}")[kept] for label in classes], 1)
    # Rank by the stream probabilities: their columns name the class, the score's does not.
    with np.errstate(divide="ignore"):
        f = one_vs_rest_log_odds(np.log(p))[:, int(two) :]
    alert = None
    if "alert" in chunk.columns:
        alert = _flags(chunk, "alert")[kept]
    price = np.empty(0)
    if prices is not None and prices.column is not None:
        price = prices.price(chunk, kept)
    risks = p[:, int(two) :]
    return _Part([labels[i] for i in at], [said[i] for i in at], f, risks, alert, price)


def _classes(chunk: Chunk) -> list[str]:
    """Return the classes of logged predictions, by the names of their columns."""
    found = [c.removeprefix(PREFIX) for c in chunk.offered or chunk.columns if c.startswith(PREFIX)]
    if len(found) < 2:
        raise DataError(
            f"{chunk.source} has no column {PREFIX}LABEL for each class; use a file written by "
            "counterpoise predict"
        )
    return found


def _numbers(chunk: Chunk, name: str) -> Vector:
    column_of(chunk, name, "predictions")
    return cell_parsing.numbers(chunk, name)


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
            Suggestion("correct it"),
        )
    return np.array([value in ("true", "1") for value in text], dtype=bool)


MAX_MATRIX_BYTES = 4e9  # of a matrix in memory


def read(
    files: list[str], columns: Mapping[str, Any], reading: Mapping[str, Any]
) -> tuple[Matrix, Labels, list[str]]:
    """Read all rows of files, which may be patterns, into memory.

    ``columns`` are fields of Columns that the user has set, ``reading`` options of
    :func:`counterpoise.readers.source`. Return X (n, d), y (n,) and the d names of the features.
    """
    paths = formats.expanded(files)
    columns = formats.with_label(columns, paths, reading.get("format"))
    require_label(columns)
    encoding = ColumnEncoder(Columns(**columns))
    parts, labels = [], []
    for path in paths:
        kinds = encoding.columns.read(encoding.columns.explicit_types)
        source = formats.source(path, **reading)
        for chunk in source.chunks(CHUNK_ROWS, ReadPosition(), kinds, encoding.columns.is_needed):
            encoded, encoding = encoding.learn(chunk)
            kinds.update(encoding.columns.read(encoding.kinds))
            parts.append(encoded.X)
            labels.append(encoded.y)
    n, d = sum(len(y) for y in labels), len(encoding.features)
    if not n or not d:
        raise DataError("there are no rows, or no columns, to learn from")
    if 8.0 * n * d > MAX_MATRIX_BYTES:
        raise DataError(
            f"{n:,} rows of {d:,} features do not fit into memory; race on a part of them, for "
            "example the output of head"
        )
    X, at = np.zeros((n, d)), 0
    for part in parts:
        rows = part if isinstance(part, np.ndarray) else part.toarray()
        X[at : at + len(rows), : rows.shape[1]] = rows
        at += len(rows)
    for j, by, base in zip(*encoding.fill, strict=True):
        _fill(X[:, j], X[:, by] != 0.0, base)
    return X, np.concatenate(labels), [feature.name for feature in encoding.features]


def _fill(x: Vector, gone: Flags, base: float) -> None:
    """Fill missing values, in place, by the mean of those before them: no row knows the future."""
    seen = ~gone
    count = np.cumsum(seen)
    total = np.cumsum(np.where(seen, x - base, 0.0))
    x[gone] = base + (total / np.maximum(count, 1))[gone]
