"""What the commands ask about streams and model files: rows in memory, judgement, description."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from counterpoise import streams
from counterpoise.arrays import Labels, Matrix
from counterpoise.choosing.classifier import ChoosingClassifier
from counterpoise.classifier import BalancedRidgeClassifier
from counterpoise.encoding.columns import Columns
from counterpoise.encoding.encoding import Encoding
from counterpoise.evaluate.metrics import measure
from counterpoise.exact.classes import flat
from counterpoise.exact.scaling import spread
from counterpoise.exact.scores import condition
from counterpoise.features.given import text_of
from counterpoise.jobs.learn import CHUNK_ROWS
from counterpoise.jobs.store import Model, Stored, answering, sometimes
from counterpoise.streams import DataError, Mark, Source

if TYPE_CHECKING:
    from counterpoise.evaluate.race import Result

MOST_BYTES = 4e9  # of a matrix in memory


class Watcher(Protocol):
    """Told of each chunk."""

    def chunk(self, source: Source, rows: int) -> None:
        """Count rows of an input."""
        ...


def read(
    files: list[str], columns: Mapping[str, Any], reading: Mapping[str, Any]
) -> tuple[Matrix, Labels, list[str]]:
    """Read all rows of files into memory.

    Parameters
    ----------
    files : list of str
        Paths and patterns.
    columns : mapping
        Fields of Columns that somebody has named.
    reading : mapping
        Options of :func:`counterpoise.streams.source`.

    Returns
    -------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
    names : list of str
        Names of the features.
    """
    paths = streams.expanded(files)
    columns = streams.with_label(columns, paths, reading.get("format"))
    encoding = Encoding(Columns(**columns))
    parts, labels = [], []
    for path in paths:
        kinds = encoding.columns.read(encoding.columns.told)
        source = streams.source(path, **reading)
        for chunk in source.chunks(CHUNK_ROWS, Mark(), kinds, encoding.columns.wanted):
            encoded, encoding = encoding.learn(chunk)
            kinds.update(encoding.columns.read(encoding.kinds))
            parts.append(encoded.X)
            labels.append(encoded.y)
    n, d = sum(len(y) for y in labels), len(encoding.features)
    if not n or not d:
        raise DataError("there is no row, or no column, to learn from")
    if 8.0 * n * d > MOST_BYTES:
        raise DataError(
            f"{n:,} rows of {d:,} features do not fit into memory; race on a part of them, for "
            "example the output of head"
        )
    X, at = np.zeros((n, d)), 0
    for part in parts:
        rows = part if isinstance(part, np.ndarray) else part.toarray()
        X[at : at + len(rows), : rows.shape[1]] = rows
        at += len(rows)
    return X, np.concatenate(labels), [feature.name for feature in encoding.features]


def made_up(rows: int = 20_000, seed: int = 1) -> tuple[Matrix, Labels, list[str]]:
    """Payments, 2 % of them frauds, whose amounts drift and whose frauds change their habits.

    Parameters
    ----------
    rows : int
        How many.
    seed : int
        For the random numbers.

    Returns
    -------
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
    names : list of str
    """
    rng = np.random.default_rng(seed)
    fraud = rng.random(rows) < 0.02
    when = np.linspace(0.0, 1.0, rows)
    amount = rng.lognormal(3.4 + 0.6 * fraud + 0.3 * when, 0.7)
    age = rng.gamma(4.0, 200.0, rows) * np.where(fraud, 0.5, 1.0)
    night = (rng.random(rows) < np.where(fraud, 0.45, 0.15)).astype(float)
    foreign = (rng.random(rows) < np.where(fraud, 0.5 - 0.3 * when, 0.1)).astype(float)
    retries = rng.poisson(np.where(fraud, 0.5 + 1.5 * when, 0.3)).astype(float)
    balance = 5000.0 + 100.0 * rng.standard_normal(rows).cumsum() / np.sqrt(np.arange(1, rows + 1))
    noise = rng.standard_normal((rows, 2)) * [1.0, 1000.0]
    X = np.column_stack([amount, age, night, foreign, retries, balance, noise])
    names = ["amount", "age of account", "at night", "foreign", "retries", "balance"]
    return X, np.where(fraud, "fraud", "ok"), [*names, "noise 1", "noise 2"]


def judged(
    stored: Stored, sources: Iterable[Source], watch: Watcher, ignore_unknown: bool = False
) -> tuple[Result, Labels, int, list[str]]:
    """Compare predictions with labels.

    Parameters
    ----------
    stored : Stored
        The model.
    sources : iterable of Source
        Rows with labels.
    watch : Watcher
        Told of each chunk.
    ignore_unknown : bool, default=False
        Leave out columns that the model does not know, and rows that have none of its own.

    Returns
    -------
    result : Result
        Without times.
    y : ndarray of shape (n,)
        True labels.
    skipped : int
        Rows left out because values are missing.
    lacking : list of str
        Columns that tables did not have, and that were 0 as in some of the learned rows.
    """
    from counterpoise.evaluate.race import Result  # not for whoever only inspects a model

    encoding, model, optional = stored.encoding, stored.model, sometimes(stored)
    true, predicted, scores, skipped, lacking = [], [], [], 0, dict[str, None]()
    behind = model.scores_
    for source in sources:
        wanted, kinds = encoding.columns.wanted, encoding.columns.read(encoding.kinds)
        for chunk in source.chunks(CHUNK_ROWS, Mark(), kinds, wanted):
            encoded = encoding.judge(chunk, None if ignore_unknown else (), optional)
            skipped += int((~encoded.kept).sum())
            lacking |= dict.fromkeys(encoded.lacking)
            if encoded.X.shape[0]:
                f = behind.of(encoded.X)
                true.append(encoded.y)
                predicted.append(behind.classes.best(f))
                scores.append(f)
            watch.chunk(source, chunk.rows)
    if not true:
        raise DataError("there is no row to judge by")
    y, guess, f = np.concatenate(true), np.concatenate(predicted), np.vstack(scores)
    known = model.classes_.tolist()
    if not np.isin(y, known).any():
        found = ", ".join(map(repr, np.unique(y).tolist()[:5]))
        raise DataError(
            f"no label in column {encoding.columns.label!r} is one that the model knows: they are "
            f"{found}, and it knows {', '.join(map(repr, known[:5]))}; correct them, or learn such "
            "rows first"
        )
    metrics = measure(y, guess, f, model.classes_)
    terms, weights, _ = weighed(stored)
    result = Result("the model", guess, flat(f), 0, metrics, float("nan"), weights, terms)
    return result, y, skipped, list(lacking)


def unique(names: Iterable[str]) -> list[str]:
    """Names of which no two are the same.

    Parameters
    ----------
    names : iterable of str
        The names: the category "b=c" of a column "a" and the category "c" of a column "a=b" share
        one.

    Returns
    -------
    list of str

    Examples
    --------
    >>> from counterpoise.jobs.evaluate import unique
    >>> unique(["a=b=c", "d", "a=b=c", "a=b=c (2)"])
    ['a=b=c', 'd', 'a=b=c (2)', 'a=b=c (2) (2)']
    """
    taken: dict[str, int] = {}  # and how often each was asked for
    for name in names:
        found = name
        while found in taken:
            taken[name] += 1
            found = f"{name} ({taken[name]})"
        taken[found] = 1
    return list(taken)


def weighed(stored: Stored) -> tuple[list[str], Matrix, str | None]:
    """Weights of a model for features of standard deviation 1.

    Parameters
    ----------
    stored : Stored
        The model.

    Returns
    -------
    names : list of str
        What they are of; no two are the same.
    weights : ndarray of shape (problems, d)
        Zero if nothing was learned.
    map : str, optional
        The map of the features that is fixed.
    """
    names = unique([feature.name for feature in stored.encoding.features])
    if not stored.model.__sklearn_is_fitted__():
        return names, np.zeros((1, len(names))), None
    model = answering(stored)
    weights: Matrix = model.coef_ * spread(model.state_.moments)
    if model.features_ is None:
        return names, weights, None
    return unique(model.features_.names(names)), weights, model.features_.map.text


def _named(model: Model) -> str | None:
    return text_of(model.features) if isinstance(model, BalancedRidgeClassifier) else None


def _condition(model: BalancedRidgeClassifier) -> float:
    """Condition number of what is solved."""
    state = model.state_
    return condition(state.moments, state.classes, model.options_, model.ridge_)


def described(stored: Stored) -> dict[str, Any]:
    """What is in a model file, as JSON can hold it.

    Parameters
    ----------
    stored : Stored
        The model.

    Returns
    -------
    dict
    """
    encoding, fitted = stored.encoding, stored.model.__sklearn_is_fitted__()
    names, weights, mapped = weighed(stored)
    judged, dropped = None, {}
    model = answering(stored) if fitted else stored.model
    classes = model.classes_.tolist()
    if isinstance(stored.model, ChoosingClassifier) and fitted:
        judged = {
            name: max((G, ridge) for ridge, G in by_ridge.items()) if by_ridge else (None, None)
            for name, by_ridge in stored.model.g_means_.items()
        }
        dropped = stored.model.dropped_
    order = np.argsort(-np.abs(weights).max(axis=0), kind="stable")
    return {
        "classes": dict(zip(map(str, classes), model.class_count_.tolist(), strict=True)),
        "options": {**stored.model.get_params(deep=False), "features": mapped or _named(model)},
        "candidates": judged,
        "dropped": dropped,
        "columns": asdict(encoding.columns),
        "positive": None if stored.positive is None else str(stored.positive),
        "kinds": encoding.kinds,
        "ridge": answering(stored).ridge_ if fitted else None,
        "condition": _condition(answering(stored)) if fitted else None,
        "chunk_rows": stored.chunk_rows,
        "inputs": {
            key: {**asdict(record.mark), "dropped": record.dropped, "times": record.times}
            for key, record in stored.records.items()
        },
        "scores": [str(label) for label in (classes[1:] if len(classes) == 2 else classes)],
        "weights": {names[j]: weights[:, j].tolist() for j in order.tolist()},
    }
