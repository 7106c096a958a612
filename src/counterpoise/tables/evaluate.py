"""Evaluation of a model, and of logged predictions by labels that are joined by an id."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from counterpoise.arrays import Flags, Labels, Matrix, Vector, is_sparse
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
from counterpoise.tables.records import IdRows, column_of, texts_of
from counterpoise.tables.scoring import CHUNK_ROWS, ranking_scores

Watch = Callable[[Source, int], None]  # gets the number of rows of each chunk
PREFIX = "proba_stream_"  # of the column of each class in logged predictions


@dataclass(frozen=True, eq=False)
class EvaluationResult:
    """Rows that were predicted, and their labels."""

    result: Result  # predictions, scores and metrics, without times
    y: Labels  # true labels
    p: Matrix  # stream probability of the second of two classes, or of each
    price: Any = None  # cost of a miss
    alarm: float = 1.0  # cost of a false alarm
    alerts: Flags | None = None  # logged alerts
    skipped: int = 0  # rows left out because values are missing
    lacking: tuple[str, ...] = ()  # optional columns that a table did not have
    reasons: Explanation | None = None  # of the first rows, by column

    def risk(self, position: int) -> Vector:
        """Return the stream probability of the class at a position, (n,)."""
        if self.p.shape[1] > 1:
            return self.p[:, position]
        one: Vector = self.p[:, 0] if position else 1.0 - self.p[:, 0]
        return one

    def cost_summary(self, positive: Any, position: int, price: Any = None) -> CostSummary | None:
        """Return the costs of decisions about a class; ``price`` is that of a miss if none was set.

        None without a price.
        """
        risk, price = self.risk(position), self.price if price is None else price
        if price is None:
            return None
        curve = cost_curve(self.y, risk, miss=price, alarm=self.alarm, positive=positive)
        mine = self.y == positive
        flags = should_alert(risk, price, self.alarm) if self.alerts is None else self.alerts
        missed, false = mine & ~flags, ~mine & flags
        cost = float(np.sum(np.where(missed, price, 0.0)) + self.alarm * false.sum())
        at = None if np.ndim(price) else self.alarm / (self.alarm + float(price))
        return CostSummary(curve, cost, int(missed.sum()), int(false.sum()), int(flags.sum()), at)


@dataclass(frozen=True, eq=False)
class CostSummary:
    """Costs of decisions."""

    curve: CostCurve  # costs of each threshold
    cost: float  # costs of the decisions
    misses: int  # rows of the class without an alert
    alarms: int  # false alerts
    alerts: int  # all alerts
    at: float | None  # threshold on the probability that equals the prices, if all rows have one


class _LabeledPredictions:
    """Labels and predictions of rows, chunk by chunk."""

    def __init__(self, costs: ExpectedCost | None) -> None:
        self._costs = costs
        self._parts: list[tuple[Any, ...]] = []

    def add(
        self, chunk: Chunk, kept: Flags, y: Labels, guess: Labels, ranks: Matrix, p: Matrix,
        alerts: Flags | None = None,
    ) -> None:  # fmt: skip
        """Add the rows of a chunk that are kept, with stream probabilities p (n, classes)."""
        has_costs = self._costs is not None and self._costs.column is not None
        price = self._costs.price(chunk, kept) if has_costs and self._costs else ()
        self._parts.append((y, guess, ranks, p[:, 1:] if p.shape[1] == 2 else p, price, alerts))

    def __len__(self) -> int:
        return len(self._parts)

    def evaluate(self, classes: Labels, unknown: Callable[[str], DataError]) -> EvaluationResult:
        """Compare predictions with labels; ``unknown`` is the error about labels of no class."""
        y, guess, f, p, price = (
            np.concatenate([part[i] for part in self._parts]) for i in range(5)
        )
        if not np.isin(y, classes).any():
            raise unknown(", ".join(map(repr, np.unique(y).tolist()[:5])))
        metrics = measure(y, guess, f, classes)
        result = Result("the model", guess, ravel_binary(f), 0, metrics, float("nan"), None)
        flags = [part[5] for part in self._parts]
        alerts = None if any(one is None for one in flags) else np.concatenate(flags)
        if self._costs is None:
            return EvaluationResult(result, y, p, alerts=alerts)
        cost = self._costs.miss if self._costs.column is None else price
        return EvaluationResult(result, y, p, cost, self._costs.alarm, alerts)


def evaluate_model(
    stored: TableModel,
    sources: Iterable[Source],
    watch: Watch,
    ignore_unknown: bool = False,
    prices: ExpectedCost | None = None,
    explain: int = 0,
) -> EvaluationResult:
    """Compare predictions of a model with labels.

    With ``ignore_unknown``, columns that the model has not learned are left out, and so are rows
    that have none of its own. ``prices`` contains the costs of mistakes. The first ``explain`` rows
    are explained.
    """
    columns, needed = stored.encoding.columns, () if prices is None else prices.columns
    rows, skipped, lacking = _LabeledPredictions(prices), 0, dict[str, None]()
    scorer, first, n_first = stored.scorer, list[Matrix](), 0
    scores = scorer.scores
    for source in sources:
        for chunk in scorer.read_chunks(
            source, wanted=lambda name: name in needed or columns.is_needed(name)
        ):
            encoded, f = scorer.score(chunk, None if ignore_unknown else needed, has_labels=True)
            skipped += int((~encoded.kept).sum())
            lacking |= dict.fromkeys(encoded.lacking)
            if len(f):
                guess, ranks = scores.classes.best(f), ranking_scores(f, scores)
                p = scores.probabilities(f, stream=True)
                rows.add(chunk, encoded.kept, encoded.y, guess, ranks, p)
                if n_first < explain:
                    part = encoded.X[: explain - n_first]
                    first.append(part.toarray() if is_sparse(part) else part.copy())
                    n_first += part.shape[0]
            watch(source, chunk.rows)
    if not len(rows):
        raise DataError("the inputs have no rows to evaluate")

    def unknown(found: str) -> DataError:
        return DataError(
            f"the model has learned no label of column {columns.label!r}: they are {found}, and it "
            f"has {', '.join(map(repr, stored.classes[:5]))}; correct them, or learn them first"
        )

    found = rows.evaluate(stored.estimator.labels, unknown)
    terms, weights, _ = standardized_coefficients(stored)
    return replace(
        found,
        result=replace(found.result, weights=weights, terms=terms),
        skipped=skipped,
        lacking=tuple(lacking),
        reasons=scorer.explain(np.vstack(first)) if first else None,
    )


class LoggedEvaluation(NamedTuple):
    """Evaluation of logged predictions."""

    evaluation: EvaluationResult  # of those with a label
    unlabeled: int  # predictions without a label
    unpredicted: int  # labels of rows without a prediction
    classes: list[str]  # classes of the predictions


def labels_of(
    sources: Iterable[Source], name: str, label: str | None, watch: Watch
) -> dict[str, str]:
    """Return the label of each id, as text; ``label`` is the column, or None if it is clear."""
    result, rows = dict[str, str](), IdRows()
    for source in sources:
        for chunk in source.chunks(CHUNK_ROWS, ReadPosition(), {}, lambda _: True):
            column_of(chunk, name, "id")
            texts = texts_of(chunk, label or only_other(chunk, name), "label")
            result |= zip(rows.add(chunk, name), texts, strict=True)
            watch(source, chunk.rows)
    return result


def only_other(chunk: Chunk, name: str) -> str:
    """Return the one column next to the ids, or raise if there are several."""
    others = [c for c in chunk.offered or chunk.columns if c != name]
    if len(others) != 1:
        has = ", ".join(map(repr, others[:12])) or "none"
        raise DataError(
            f"{chunk.source} has {len(others)} columns in addition to {name!r}: {has}",
            Suggestion("name the one that contains the labels", "label"),
        )
    return others[0]


def evaluate_logged(
    sources: Iterable[Source],
    labels: dict[str, str],
    name: str,
    watch: Watch,
    prices: ExpectedCost | None = None,
) -> LoggedEvaluation:
    """Compare logged predictions with labels by id.

    ``name`` is the column of the ids. ``prices`` contains the costs of mistakes.
    """
    rows, seen, classes = _LabeledPredictions(prices), IdRows(), list[str]()
    unlabeled = skipped = 0
    for source in sources:
        for chunk in source.chunks(CHUNK_ROWS, ReadPosition(), {}, lambda _: True):
            found = _classes(chunk)
            if classes and found != classes:
                raise DataError(
                    f"{chunk.source} predicts {', '.join(found)}, and the files before it "
                    f"{', '.join(classes)}; evaluate them one by one"
                )
            classes = found
            column_of(chunk, "prediction", "predictions")
            ids = seen.add(chunk, name)
            has_label = np.array([one in labels for one in ids], dtype=bool)
            guess = np.array(cell_parsing.texts(chunk, "prediction").to_pylist(), dtype=object)
            kept = has_label & (guess != None)  # noqa: E711
            unlabeled += int((~has_label).sum())
            skipped += int((has_label & ~kept).sum())
            if kept.any():
                y = np.array(
                    [labels[one] for one, is_kept in zip(ids, kept, strict=True) if is_kept]
                )
                p = np.stack([_probabilities(chunk, label)[kept] for label in classes], 1)
                # Rank by the stream probabilities: the names of their columns contain the class.
                with np.errstate(divide="ignore"):
                    ranks = one_vs_rest_log_odds(np.log(p))[:, int(len(classes) == 2) :]
                alerts = _booleans(chunk, "alert")[kept] if "alert" in chunk.columns else None
                rows.add(chunk, kept, y, guess[kept].astype(str), ranks, p, alerts)
            watch(source, chunk.rows)
    if not len(rows):
        raise DataError(
            f"no prediction has a label: {len(seen):,} were read, and {len(labels):,} labels; do "
            f"both have the same {name!r}?"
        )

    def unknown(found: str) -> DataError:
        return DataError(
            f"no label is one that was predicted: they are {found}, and the predictions have "
            f"{', '.join(map(repr, classes[:5]))}; name the right column",
            Suggestion("", "label"),
        )

    result = replace(rows.evaluate(np.array(classes), unknown), skipped=skipped)
    return LoggedEvaluation(result, unlabeled, len(labels.keys() - seen.keys()), classes)


def _classes(chunk: Chunk) -> list[str]:
    """Return the classes of logged predictions, by the names of their columns."""
    found = [c.removeprefix(PREFIX) for c in chunk.offered or chunk.columns if c.startswith(PREFIX)]
    if len(found) < 2:
        raise DataError(
            f"{chunk.source} has no column {PREFIX}LABEL for each class; use a file written by "
            "counterpoise predict"
        )
    return found


def _probabilities(chunk: Chunk, label: str) -> Vector:
    column_of(chunk, f"{PREFIX}{label}", "predictions")
    return cell_parsing.numbers(chunk, f"{PREFIX}{label}")


def _booleans(chunk: Chunk, name: str) -> Flags:
    """Return booleans, as they are or as text, (rows,)."""
    text = [str(value).lower() for value in chunk.columns[name].to_pylist()]
    for row, value in enumerate(text):
        if value not in ("true", "false", "none", "1", "0"):
            raise chunk.error(
                row,
                f"column {name!r} contains {value!r}, which is not true or false",
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
    paths = formats.expand_paths(files)
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
        raise DataError("the files have no rows, or no columns, to learn from")
    if 8.0 * n * d > MAX_MATRIX_BYTES:
        raise DataError(
            f"{n:,} rows of {d:,} features do not fit into memory; use a part of them, for "
            "example the output of head"
        )
    X, at = np.zeros((n, d)), 0
    for part in parts:
        rows = part if isinstance(part, np.ndarray) else part.toarray()
        X[at : at + len(rows), : rows.shape[1]] = rows
        at += len(rows)
    for j, by, base in zip(*encoding.fill, strict=True):
        _impute(X[:, j], X[:, by] != 0.0, base)
    return X, np.concatenate(labels), [feature.name for feature in encoding.features]


def _impute(x: Vector, missing: Flags, base: float) -> None:
    """Impute missing values, in place, by the mean of the values before them."""
    total = np.cumsum(np.where(missing, 0.0, x - base))
    x[missing] = base + (total / np.maximum(np.cumsum(~missing), 1))[missing]
