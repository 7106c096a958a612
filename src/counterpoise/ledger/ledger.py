"""Ledger: moments by time and by segment, and the model of any selection of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import wraps
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from counterpoise.arrays import Labels, Vector
from counterpoise.atomic_write import locked
from counterpoise.encoding.columns import parse_roles
from counterpoise.encoding.encoder import ColumnEncoder
from counterpoise.engine.ridge import RidgeModel
from counterpoise.engine.state import LearningConfig, State
from counterpoise.errors import DataError, Message, OptionValue, Suggestion
from counterpoise.estimators import array_validation
from counterpoise.estimators.balanced_ridge import BalancedRidgeClassifier
from counterpoise.estimators.base import engine_of, wrap
from counterpoise.ledger import ingest, metadata, query, time_buckets
from counterpoise.ledger.backtest import Backtest, backtested
from counterpoise.ledger.bucket_series import Series, SolverOptions, series_of, series_of_sets
from counterpoise.ledger.cells import BucketIndex, Index, Stack, by_bucket, size_of
from counterpoise.ledger.compare import Comparison, compared
from counterpoise.ledger.drift import Drift, drifted
from counterpoise.ledger.ingest import CellKey, CellWriter, PartialCell, hash_of
from counterpoise.ledger.jackknife import (
    Uncertainty,
    Weights,
    jackknifed,
    left_out,
    of_models,
    over_time,
)
from counterpoise.ledger.metadata import LedgerColumns, LedgerMetadata
from counterpoise.ledger.query import Selection, selected
from counterpoise.ledger.storage import File, identity
from counterpoise.moments.moments import Moments
from counterpoise.moments.resize import select_features
from counterpoise.readers.chunk import ReadPosition, Source
from counterpoise.solver.imputation import MeanImputation
from counterpoise.tables.model import TableModel
from counterpoise.tables.records import Record, RowFilter


def write(path: str, model: BalancedRidgeClassifier, encoding: ColumnEncoder) -> None:
    """Write a model with what is known of its columns; it has no record of inputs."""
    at = {feature.name: j for j, feature in enumerate(encoding.features)}
    mine = encoding.only(np.array([at[name] for name in model.names_], dtype=np.intp))
    assert isinstance(encoding.columns, LedgerColumns)
    known = {feature.column for feature in mine.features}
    columns = encoding.columns.of_a_model()
    # A column that is 0 in every row of the selection may be there when rows are predicted.
    others = {f.column for f in encoding.features} - known
    columns = columns.dropping(others)
    columns = replace(columns, only=tuple(name for name in columns.only if name not in others))
    result = TableModel(engine_of(model), replace(mine, columns=columns))
    result.choose_positive()
    with locked(path):
        result.save(path)


CACHE = 1 << 29  # bytes of cells that are kept in memory
CACHE_ALL_FRACTION = (
    0.5  # of all cells: when so many were read for single questions, all are read and kept
)
WAIT = 10.0  # seconds for another writer
SETTINGS = ("max_values", "seed", "missing", "classes", "decimal", "time_format")
RULE = ("ridge", "class_weight", "class_factors", "scale", "fit_intercept", "penalize_intercept")
REFUSED = {
    "half_life": "counts rows; name the half-life of the selection, in days",
    "feature_map": "makes terms of rows, which a ledger does not keep",
    "calibrate": "judges rows before they are learned, which a ledger does not keep",
}


Method = TypeVar("Method", bound=Callable[..., Any])


def one_state(method: Method) -> Method:
    """Let a query read one state of the file, in one transaction."""

    @wraps(method)
    def wrapped(self: Ledger, *args: Any, **options: Any) -> Any:
        with self._snapshot():
            return method(self, *args, **options)

    return cast(Method, wrapped)


class Ledger:
    """Exact moments in cells of time and segment, in one file.

    Open one with :meth:`open`. Every question about the past is a sum of cells: no row is read
    again, and no row is kept.

    Parameters
    ----------
    file : File
        The file.
    book : Book
        What is in it besides the cells.
    given : mapping
        Settings that were named when it was opened.

    Attributes
    ----------
    path : str
        The file.
    notes : list of Message
        What the last :meth:`learn` has noticed.

    Examples
    --------
    >>> import tempfile, os
    >>> from counterpoise import Ledger
    >>> frame = {
    ...     "at": ["2024-01-01", "2024-01-01", "2024-01-02", "2024-01-02"],
    ...     "amount": [1.0, 9.0, 2.0, 8.0], "fraud": [0, 1, 0, 1],
    ... }
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Ledger.open(os.path.join(folder.name, "l"), label="fraud", timestamp="at") as ledger:
    ...     ledger.learn(frame), ledger.learn(frame)
    ...     ledger.model(since="2024-01-02").class_count_.tolist()
    (4, 0)
    [1.0, 1.0]
    """

    def __init__(self, file: File, book: LedgerMetadata, given: Mapping[str, Any]) -> None:
        self.path = file.path
        self.notes: list[Message] = []
        self._file, self._book, self._given = file, book, dict(given)
        self._state: str | None = None  # digest of the file of which book and index are
        self._index: Index | None = None
        self._cached: Stack | None = None
        self._cells_read = 0  # for single queries
        self._wait = WAIT

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        label: str | None = None,
        timestamp: str | None = None,
        every: str | None = None,
        by: str | Sequence[str] | None = None,
        columns: Mapping[str, str] | None = None,
        only: Sequence[str] | None = None,
        wait: float = WAIT,
        **settings: Any,
    ) -> Ledger:
        """Open a ledger, or begin one.

        Settings of a ledger that exists need not be named; those that are must be as they were.

        Parameters
        ----------
        path : str or path-like
            The file; it need not exist.
        label : str
            Column of the labels.
        timestamp : str
            Column of the time of each row: dates, times, or seconds since 1970; not a feature.
        every : str, default="day"
            Size of the buckets: "minute", "hour", "day", "week", "month", "quarter" or "year", in
            UTC.
        by : str or list of str, optional
            Columns of which every combination of values is a segment. They are categories, and
            features as well unless they are dropped.
        columns : mapping of str to str, optional
            Roles of columns, as of :class:`~counterpoise.TableClassifier`, except "timestamp".
        only : list of str, optional
            The only columns that are features.
        wait : float, default=10
            Seconds to wait for another process that writes.
        **settings : object
            ``max_values``, how many values a column of ``by`` may have (1000 by default); ``seed``,
            ``missing``, ``classes``, ``decimal`` and ``time_format``, as of
            :class:`~counterpoise.TableClassifier`.

        Returns
        -------
        Ledger
        """
        given: dict[str, Any] = {"label": label, "timestamp": timestamp, "every": every}
        given["by"] = None if by is None else (by,) if isinstance(by, str) else tuple(by)
        given["roles"] = None if columns is None else parse_roles(columns)
        if "timestamp" in (given["roles"] or {}).values():
            raise DataError(
                "a ledger has no role timestamp",
                Suggestion("name the column of the time", "timestamp"),
            )
        given["only"] = None if only is None else tuple(sorted(set(only)))
        for name, value in settings.items():
            if name not in SETTINGS:
                raise TypeError(f"Ledger.open() got an unexpected keyword argument {name!r}")
            given[name] = (
                tuple(sorted(set(value))) if name == "classes" and value is not None else value
            )
        given = {name: value for name, value in given.items() if value is not None}
        while True:
            before = identity(os.fspath(path))
            try:
                file = File(os.fspath(path))
                new = file.new or _unsettled(file)
                break
            except (OSError, DataError):
                if before == identity(os.fspath(path)):  # else who had begun it has removed it
                    raise
        if new:
            result = cls(file, LedgerMetadata.begun(given, file.path), given)
        else:
            loaded = _loaded(file, given)
            result = cls(file, loaded[1], given)
            result._state, _, result._index = loaded
        result._wait = wait
        return result

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Changing

    def learn(
        self,
        data: Any,
        name: str | None = None,
        allow_overlap: bool = False,
        allow_new_columns: bool = False,
    ) -> int:
        """Learn rows that were not learned yet.

        An input is known by its content: learning it again learns what is new at its end. A frame
        is learned whole or not at all; files are written every million rows.

        Parameters
        ----------
        data : path, list of paths, reader or data frame
            A file as ``counterpoise learn`` takes it, what ``counterpoise.readers.source`` returns,
            or a frame of pandas, polars or Arrow, a dict of columns, or a list of dicts.
        name : str, optional
            What to call a frame, or standard input. A frame with a name may come back with more
            rows at its end; one without is known by all of its rows.
        allow_overlap : bool, default=False
            Learn an input that begins like another one.
        allow_new_columns : bool, default=False
            Learn a table with more or fewer columns than earlier ones, 0 where absent.

        Returns
        -------
        int
            The number of new rows.
        """
        found = ingest.opened(data, name, self.path, self._book.encoding.columns.is_needed)
        new = self.learn_from(
            found, allow_overlap=allow_overlap, allow_new_columns=allow_new_columns
        )
        return sum(new.values())

    def learn_from(
        self,
        found: list[tuple[Source, str]],
        stop: Callable[[], bool] = lambda: False,
        watch: ingest.Watch = lambda source, rows: None,
        allow_overlap: bool = False,
        allow_new_columns: bool = False,
    ) -> dict[str, int]:
        """Learn what is new in inputs, each with its name in the records.

        Parameters
        ----------
        found : list of (Source, str)
            The inputs.
        stop : callable
            Asked whether to end; what is whole by then is kept.
        watch : callable
            Told of the rows of each chunk.
        allow_overlap, allow_new_columns : bool, default=False
            As of :meth:`learn`.

        Returns
        -------
        dict of str to int
            The new rows of each input.
        """
        frames = not any(source.path == "-" or os.path.isfile(source.path) for source, _ in found)
        every = np.inf if frames else ingest.EVERY
        with self._exclusive():
            new, self.notes = ingest.learn(
                self._file, self._book, found, every, stop, watch, allow_overlap, allow_new_columns
            )
        return new

    def gathering(self) -> Any:
        """Keep other writers away while cells are gathered elsewhere, for :meth:`add_cells`.

        Returns
        -------
        context manager
            Of the :class:`~counterpoise.ledger.metadata.Book`.
        """
        return _Gathering(self)

    def add_cells(
        self,
        cells: Mapping[CellKey, PartialCell],
        encoding: ColumnEncoder,
        dropped: int = 0,
        name: str | None = None,
    ) -> int:
        """Learn cells that were gathered elsewhere, all of them at once, within :meth:`gathering`.

        Parameters
        ----------
        cells : mapping of Place to Gathered
            The cells.
        encoding : Encoding
            How columns became their features.
        dropped : int
            Rows that were left out because values are missing.
        name : str, optional
            What to call them in the records.

        Returns
        -------
        int
            The number of new rows: none if the same rows were learned before.
        """
        rows = sum(cell.rows for cell in cells.values())
        found = hash_of(cells, [feature.name for feature in encoding.features])
        if not rows or any(one.mark.hash == found for one in self._book.records.values()):
            return 0
        name = name or f"frame {found}"
        if name in self._book.records:
            raise DataError(
                f"{name!r} was learned before, with other rows; give this frame another name"
            )
        filler = CellWriter(self._file, self._book)
        filler.encoding = encoding
        with self._file.writing():
            filler.add_cells(cells, name)
            filler.write_metadata()
            self._book.records[name] = Record(ReadPosition(rows + dropped, 0, found), (), dropped)
            self._book.write(self._file)
        return rows

    def unlearn(
        self, data: Any, where: Mapping[str, Any] | None = None, name: str | None = None
    ) -> int:
        """Subtract rows exactly from their cells.

        Parameters
        ----------
        data : path, reader or data frame
            As :meth:`learn` takes it. A file must have been learned, and must begin as it did.
        where : dict, optional
            Columns and the value that each must have, such as ``{"customer": 123}``; a column need
            not be a feature. By default all rows are subtracted, and the record of the input goes
            with them. With a condition the record stays, and each row is subtracted once.
        name : str, optional
            Name of a frame when it was learned.

        Returns
        -------
        int
            The number of rows.
        """
        found = ingest.opened(data, name, self.path, self._book.encoding.columns.is_needed)
        meant = RowFilter({key: (str(value),) for key, value in where.items()}) if where else None
        return sum(self.unlearn_from(found, meant).values())

    def unlearn_from(
        self,
        found: list[tuple[Source, str]],
        where: RowFilter | None = None,
        watch: ingest.Watch = lambda source, rows: None,
    ) -> dict[str, int]:
        """Subtract rows of inputs, all of them or none.

        Parameters
        ----------
        found : list of (Source, str)
            The inputs, each with its name in the records.
        where : Where, optional
            Condition that rows must meet.
        watch : callable
            Called with the rows of each chunk.

        Returns
        -------
        dict of str to int
            The number of rows of each input.
        """
        with self._exclusive():
            return ingest.unlearn(self._file, self._book, found, where, watch)

    def rollup(self, until: Any, every: str = "month") -> int:
        """Merge old buckets into coarser ones; sums stay what they are.

        Parameters
        ----------
        until : str, date, datetime or float
            Coarse buckets that end by then are made.
        every : str, default="month"
            Their size.

        Returns
        -------
        int
            How many cells fewer there are.
        """
        end = time_buckets.point(until, "until")
        ingest.require_within(self._book, every)
        with self._exclusive():
            return ingest.rollup(self._file, self._book, end, every)

    def drop(self, until: Any) -> int:
        """Drop old buckets, as if their rows had never been learned.

        Parameters
        ----------
        until : str, date, datetime or float
            Rows of times before this go; such rows are no longer learned.

        Returns
        -------
        int
            How many cells went.
        """
        end = time_buckets.point(until, "until")
        with self._exclusive():
            return ingest.drop(self._file, self._book, end)

    # Models

    @one_state
    def model(
        self,
        since: Any = None,
        until: Any = None,
        where: Mapping[str, Any] | None = None,
        exclude: Any = None,
        half_life: Any = None,
        **options: Any,
    ) -> BalancedRidgeClassifier:
        """Model of a selection of rows, equal to one that learned just these.

        Parameters
        ----------
        since, until : str, date, datetime or float, optional
            From when, and until just before when.
        where : dict, optional
            Values of segment columns: a value, a list of values, or ``{"not": values}``.
        exclude : str, or list of str and of pairs, optional
            Buckets that are left out, by a time within each, or pairs of since and until.
        half_life : float or str, optional
            Days, or a text such as "12h" or "7d", in which a row fades to half its weight. Rows of
            the latest bucket have their full weight.
        **options : object
            Parameters of :class:`~counterpoise.BalancedRidgeClassifier`, such as ``ridge``.

        Returns
        -------
        BalancedRidgeClassifier
            Its ``names_`` are the features, those that are not 0 in every row; ``selection_`` is
            the selection. :meth:`encode` makes rows for it.
        """
        chosen = selected(self._book, since, until, where, exclude, half_life)
        return self._model(chosen, options)

    @one_state
    def models(
        self,
        by: str | Sequence[str],
        share_of_all: float = 0.0,
        since: Any = None,
        until: Any = None,
        where: Mapping[str, Any] | None = None,
        exclude: Any = None,
        half_life: Any = None,
        **options: Any,
    ) -> dict[Any, BalancedRidgeClassifier]:
        """One model for each segment.

        Parameters
        ----------
        by : str or list of str
            Columns of the segments.
        share_of_all : float, default=0
            A fraction of the whole that each segment learns besides: every row of the selection
            weighs so much, and those of the segment 1 more.
        since, until, where, exclude, half_life
            As of :meth:`model`.
        **options : object
            As of :meth:`model`.

        Returns
        -------
        dict
            Models by value, or by tuples of values for several columns. Without ``share_of_all``
            segments of one class are left out.
        """
        share = share_of_all
        if (
            isinstance(share, bool)
            or not isinstance(share, (int, float))
            or not 0 <= share < np.inf
        ):
            text = f" must be 0 or greater; got {share!r}"
            raise DataError((OptionValue("share_of_all"), text))
        whole = selected(self._book, since, until, where, exclude, half_life)
        names = (by,) if isinstance(by, str) else tuple(by)
        at = [self._column(name) for name in names]
        there = whole.segments(self._book)
        found = dict.fromkeys(
            tuple(segment[j] for j in at)
            for segment, inside in zip(self._book.segments, there, strict=True)
            if inside
        )
        stack = self._stack(whole, apart=True)
        everything = self._weights(stack, whole)
        result = {}
        for values in sorted(found, key=str):
            mine = (*whole.where, *((n, (v,), False) for n, v in zip(names, values, strict=True)))
            part = replace(whole, where=mine)
            weights = [
                own + share * all_
                for own, all_ in zip(
                    self._weights(stack, part, everything), everything, strict=True
                )
            ]
            moments = stack.moments(weights)
            if (moments.n > 0).sum() >= 2:
                key = values[0] if len(values) == 1 else values
                result[key] = self._made(moments, part, options)
        if not result:
            raise DataError(f"no segment has rows of two classes: {whole.words()}")
        return result

    def save(self, model: BalancedRidgeClassifier, path: str | os.PathLike[str]) -> None:
        """Write a model of this ledger into a file that ``counterpoise predict`` takes.

        Parameters
        ----------
        model : BalancedRidgeClassifier
            What :meth:`model` has returned.
        path : str or path-like
            The file.
        """
        write(os.fspath(path), model, self._book.encoding)

    def encode(self, data: Any, model: BalancedRidgeClassifier | None = None) -> tuple[Any, Any]:
        """Rows of a frame as the models of this ledger take them, and their labels.

        Parameters
        ----------
        data : path, reader or data frame
            As :meth:`learn` takes it, with the labels. Categories that were never learned are 0.
        model : BalancedRidgeClassifier, optional
            For which model; by default rows have all features of the ledger.

        Returns
        -------
        X : ndarray of shape (n, d)
            The rows.
        y : ndarray of shape (n,)
            Their labels.
        """
        self._refresh()
        encoding = self._book.encoding
        rows, labels = [], []
        for source, _ in ingest.opened(data, "the frame", self.path, encoding.columns.is_needed):
            filler = CellWriter(self._file, self._book)
            for chunk in filler.chunks(source, ReadPosition()):
                optional = {feature.column for feature in encoding.features}
                encoded = encoding.encode_with_labels(chunk, None, optional)
                X = encoded.X
                rows.append(X if isinstance(X, np.ndarray) else X.toarray())
                labels.append(encoded.y)
        X, y = np.vstack(rows), np.concatenate(labels)
        if model is not None:
            names = {name: j for j, name in enumerate(self._book.names)}
            X = X[:, [names[name] for name in model.names_]]
        return X, y

    @one_state
    def summary(self) -> dict[str, Any]:
        """What is in the ledger.

        Returns
        -------
        dict
            Settings, times, weights of the classes, segments, cells and their size, features, and
            the rows of each input.
        """
        assert self._index is not None
        book, cells = self._book, self._index.cells
        weight = np.bincount(cells["label"], cells["n"], len(book.labels)).tolist()
        size = int(size_of(cells["d"], cells["removed"]).sum())
        return {
            "label": book.encoding.columns.label,
            "timestamp": book.settings.timestamp,
            "every": book.settings.every,
            "by": list(book.settings.by),
            "since": time_buckets.text(cells["start"].min()) if len(cells) else None,
            "until": time_buckets.text(cells["stop"].max()) if len(cells) else None,
            "buckets": len(np.unique(cells["start"])),
            "segments": len(np.unique(cells["segment"])),
            "cells": len(cells),
            "bytes": size,
            "features": book.names,
            "classes": dict(zip(map(str, book.labels), weight, strict=True)),
            "rows": int(cells["rows"].sum()),
            "coarse": [
                f"{every}s until {time_buckets.text(until)}" for until, every in book.coarse
            ],
            "dropped": None if book.dropped is None else time_buckets.text(book.dropped),
            "inputs": {name: record.mark.rows for name, record in book.records.items()},
        }

    @one_state
    def check(self) -> int:
        """Verify every cell and total against checksums, digest and each other.

        Returns
        -------
        int
            The number of cells.

        Raises
        ------
        DataError
            If the file is not as it was written.
        """
        file, book, index = self._file, self._book, self._index
        assert index is not None
        file.check()
        labels = book.label_array()
        sums = by_bucket(index.totals)
        for start, cells in by_bucket(index.cells).items():
            block = file.block("cells", cells)
            if book.settings.by:
                stored = file.block("totals", sums.pop(start, index.totals[:0]))
                metadata.require_same(file, block, stored, labels)
        if sums:
            raise file.damaged("a total has no cells")
        return len(index.cells)

    @one_state
    def weights(
        self,
        size: int = 30,
        since: Any = None,
        until: Any = None,
        where: Mapping[str, Any] | None = None,
        exclude: Any = None,
        **options: Any,
    ) -> Weights:
        """Weights of the models of one stretch of buckets after the other, with their errors.

        Parameters
        ----------
        size : int, default=30
            Buckets of a stretch.
        since, until, where, exclude
            As of :meth:`model`.
        **options : object
            As of :meth:`compare`.

        Returns
        -------
        Weights
            For features of standard deviation 1.
        """
        series = self._series(since, until, where, exclude)
        return over_time(series, self._names, _rule(options), size)

    @property
    def features(self) -> list[str]:
        """Names of the features so far."""
        self._refresh()
        return self._book.names

    @property
    def records(self) -> dict[str, int]:
        """Rows that were read of each input."""
        self._refresh()
        return {name: record.mark.rows for name, record in self._book.records.items()}

    # Questions

    @one_state
    def compare(self, a: Mapping[str, Any], b: Mapping[str, Any], **options: Any) -> Comparison:
        """Compare two selections.

        Parameters
        ----------
        a, b : dict
            Arguments of :meth:`model` that select rows, such as ``{"until": "2024-06-01"}``. Rows
            do not fade here.
        **options : object
            Parameters of the models: ``ridge``, ``class_weight``, ``class_factors``, ``scale``,
            ``fit_intercept`` and ``penalize_intercept``.

        Returns
        -------
        Comparison
            Counts, shifts of features with their tests, weights, and the exact loss and the
            estimated G-mean of both models on both selections.
        """
        rule = _rule(options)
        pair, words = [], []
        for name, given in (("a", a), ("b", b)):
            if given.get("half_life") is not None:
                raise DataError(
                    (OptionValue(name), " has a half-life, and tests need rows of full weight"),
                    Suggestion("leave it out"),
                )
            chosen = selected(self._book, **given)
            words.append(chosen.words())
            stack = self._stack(chosen)
            pair.append((stack, self._weights(stack, chosen)))
        both = series_of_sets(pair)
        if ((both.n > 0).sum(axis=1) < 2).any():
            raise DataError(
                "a selection has rows of one class, and two are needed to compare models: "
                f"{' and '.join(words)}"
            )
        return compared(both, self._names, words[0], words[1], rule)

    @one_state
    def backtest(
        self,
        train: int | Sequence[int | None] | None = 30,
        test: int = 1,
        half_life: Any = None,
        ridge: Any = "auto",
        features: Mapping[str, Sequence[str]] | None = None,
        since: Any = None,
        until: Any = None,
        where: Mapping[str, Any] | None = None,
        exclude: Any = None,
        **options: Any,
    ) -> Backtest:
        """Walk forward: models of the buckets before, on the buckets after.

        Where several values are given, every combination is a setting. All are tested on the same
        buckets: those after the longest training.

        Parameters
        ----------
        train : int, None, or list of these, default=30
            Buckets to learn before each test; None for all.
        test : int, default=1
            Buckets of a test; the next one begins after it.
        half_life : float, str, None, or list of these, optional
            In which rows fade, as of :meth:`model`.
        ridge : float, "auto", or list of these, default="auto"
            The ridge.
        features : dict of str to list of str, optional
            Subsets of the features by name; a column stands for all features made of it.
        since, until, where, exclude
            As of :meth:`model`.
        **options : object
            As of :meth:`compare`.

        Returns
        -------
        Backtest
            Exact loss and estimated G-mean of each setting and test.
        """
        series = self._series(since, until, where, exclude)
        rule = _rule(options)
        names = self._names
        return backtested(series, names, rule, train, test, half_life, ridge, features)

    @one_state
    def drift(
        self,
        train: int = 30,
        level: float = 0.01,
        since: Any = None,
        until: Any = None,
        where: Mapping[str, Any] | None = None,
        exclude: Any = None,
        **options: Any,
    ) -> Drift:
        """How far each bucket is from what came before, with control limits.

        Parameters
        ----------
        train : int, default=30
            Buckets that the model of the loss has learned.
        level : float, default=0.01
            Largest probability of an alarm in a bucket, if nothing changes.
        since, until, where, exclude
            As of :meth:`model`.
        **options : object
            As of :meth:`compare`.

        Returns
        -------
        Drift
            Loss and its limits, and the shift of each feature and class, for each bucket.
        """
        series = self._series(since, until, where, exclude)
        return drifted(series, self._names, _rule(options), train, level)

    @one_state
    def uncertainty(
        self, model: BalancedRidgeClassifier, X: ArrayLike | None = None
    ) -> Uncertainty:
        """Standard errors of a model of this ledger, by leaving out each bucket in turn.

        Parameters
        ----------
        model : BalancedRidgeClassifier
            What :meth:`model` has returned.
        X : array-like of shape (n, d), optional
            Rows whose scores are to have standard errors, as :meth:`encode` makes them.

        Returns
        -------
        Uncertainty
            Standard errors of the coefficients of this model, of its scores, and of the estimated
            G-mean.
        """
        chosen = getattr(model, "selection_", None)
        if not isinstance(chosen, Selection):
            raise DataError("the model does not come from a ledger", Suggestion("use Ledger.model"))
        if model.pooled_rows is not None:
            raise DataError(
                (OptionValue("pooled_rows"), " makes scores quadratic: they have no coefficients"),
                Suggestion("leave it out"),
            )
        names = {name: j for j, name in enumerate(self._names)}
        lost = [name for name in model.names_ if name not in names]
        if lost:
            raise DataError(
                f"feature {lost[0]!r} of the model is not in the ledger any more",
                Suggestion("use Ledger.model again"),
            )
        at = np.array([names[name] for name in model.names_], dtype=np.intp)
        whole = replace(chosen, half_life=None)
        stack = self._stack(whole)
        inside = [w > 0 for w in self._weights(stack, whole)]
        series = series_of(stack, inside).only(at)
        weight = chosen.fading(series.start, int(series.start.max()))
        fill = MeanImputation.of(*self._book.encoding.only(at).fill)
        options = model.get_params(deep=False)
        if model.ridge == "gcv":
            options["ridge"] = model.ridge_
        if fill is None and (len(model.classes_) == 2 or model.multi_class == "ovr"):
            rule = _rule({name: options[name] for name in RULE})
            rows = None if X is None else array_validation.rows(model, X)
            return _same_model(model, jackknifed(series, weight, model.names_, rule, rows))
        W, found = left_out(weight), []
        for w in W:
            by_start = dict(zip(series.start.tolist(), w.tolist(), strict=True))
            own = [
                flags * np.array([by_start.get(start, 0.0) for start in part.start.tolist()])
                for part, flags in zip(stack.parts, inside, strict=True)
            ]
            moments = select_features(stack.moments(own), at)
            if not set(model.classes_.tolist()) <= set(moments.labels[moments.n > 0].tolist()):
                raise DataError("without one of its buckets, the selection has no rows of a class")
            state = State(LearningConfig(), moments, moments.labels[:0]).with_imputation(fill)
            found.append(wrap(BalancedRidgeClassifier, RidgeModel.create(state, **options)))
        return _same_model(model, of_models(found, series.summed(W), model.names_, X))

    # Inside

    def _exclusive(self) -> Any:
        return _ExclusiveWriter(self)

    @contextmanager
    def _snapshot(self) -> Iterator[Index]:
        """Answer one query from one state of the file."""
        nothing = DataError(f"{self.path} has learned nothing yet")
        if self._file.new:
            raise nothing
        with self._file.reading():
            self._refresh()
            if self._index is None:
                raise nothing
            yield self._index

    def _refresh(self) -> None:
        """Read everything except cells again if the file has changed."""
        if self._file.new:
            return
        with self._file.reading():
            state = self._file.digest_text()
            if state is None or state == self._state:
                return
            self._state = self._index = self._cached = None
            self._cells_read = 0
            self._state, self._book, self._index = _loaded(self._file, self._given)

    @property
    def _names(self) -> list[str]:
        """Names of the features that cells have."""
        assert self._index is not None
        return self._book.names[: self._index.d]

    def _column(self, name: str) -> int:
        if name not in self._book.settings.by:
            known = ", ".join(map(repr, self._book.settings.by)) or "none"
            raise DataError(
                f"column {name!r} makes no segments; columns that do: {known}",
                Suggestion("begin a ledger that has it", "by", [*self._book.settings.by, name]),
            )
        return self._book.settings.by.index(name)

    def _stack(self, chosen: Selection, apart: bool = False) -> Stack:
        """Cells of a selection: totals if all segments are in it and need not be separate.

        When many were read, all are read and stay in memory.
        """
        if self._cached is not None:
            return self._cached
        book, file, index = self._book, self._file, self._index
        assert index is not None
        labels, d, inside = book.label_array(), index.d, chosen.segments(book)
        if book.settings.by and inside.all() and not apart:
            heads = query.in_span(index.totals, book, chosen)
            return _stacked(file, "totals", heads, labels, d)
        heads = query.in_span(index.cells, book, chosen, inside)
        self._cells_read += len(heads)
        if self._cells_read >= CACHE_ALL_FRACTION * len(index.cells) and file.size() <= CACHE:
            self._cached = _stacked(file, "cells", index.cells, labels, d)
            return self._cached
        return _stacked(file, "cells", heads, labels, d)

    def _series(self, since: Any, until: Any, where: Any, exclude: Any) -> Series:
        """Buckets of a selection, one after the other."""
        chosen = selected(self._book, since, until, where, exclude)
        stack = self._stack(chosen)
        return series_of(stack, [w > 0 for w in self._weights(stack, chosen)])

    def _weights(
        self, stack: Stack, chosen: Selection, faded: list[Vector] | None = None
    ) -> list[Vector]:
        """Weights of the cells of each class in a selection; those given, if they are in it."""
        segments = chosen.segments(self._book)
        inside = [chosen.chosen(p.start, p.stop, p.segment, segments) for p in stack.parts]
        if not any(one.any() for one in inside):
            raise DataError(f"no rows are in the selection: {chosen.words()}")
        if faded is not None:
            return [w * flags for w, flags in zip(faded, inside, strict=True)]
        latest = max(
            int(p.start[flags].max())
            for p, flags in zip(stack.parts, inside, strict=True)
            if flags.any()
        )
        return [
            np.where(flags, chosen.fading(p.start, latest), 0.0)
            for p, flags in zip(stack.parts, inside, strict=True)
        ]

    def _model(self, chosen: Selection, options: Mapping[str, Any]) -> BalancedRidgeClassifier:
        moments = self._moments(chosen)
        seen = moments.n > 0
        if seen.sum() < 2:
            one = moments.labels[seen][0].item()
            raise DataError(
                f"the selection has rows of one class, {one!r}, and two are needed: "
                f"{chosen.words()}",
                Suggestion("choose more rows"),
            )
        return self._made(moments, chosen, options)

    def _moments(self, chosen: Selection) -> Moments:
        """Moments of a selection, from memory if all cells are there."""
        if self._cached is None:
            assert self._index is not None
            return query.moments(self._file, self._book, self._index, chosen)
        return self._cached.moments(self._weights(self._cached, chosen))

    def _made(
        self, moments: Moments, chosen: Selection, options: Mapping[str, Any]
    ) -> BalancedRidgeClassifier:
        """A model of moments, without features that are 0 in every row."""
        require_options(options)
        at = np.flatnonzero(moments.nonconstant_weight[:, 0].any(axis=0))
        seen = moments.labels[moments.n > 0]
        fill = MeanImputation.of(*self._book.encoding.only(at).fill)
        state = State(LearningConfig(), select_features(moments, at), seen[:0]).with_imputation(
            fill
        )
        model = wrap(BalancedRidgeClassifier, RidgeModel.create(state, **options))
        model.names_ = [self._book.names[j] for j in at]
        model.selection_ = chosen
        return model


def _rule(options: Mapping[str, Any]) -> SolverOptions:
    """Return the number of sets that are solved in one step."""
    require_options(options)
    strange = [name for name in options if name not in RULE]
    if strange:
        raise TypeError(f"unexpected keyword argument {strange[0]!r}")
    rule = SolverOptions(**options)
    rule.check()
    return rule


def require_options(options: Mapping[str, Any]) -> None:
    """Raise if a parameter of the classifier needs rows."""
    for name, why in REFUSED.items():
        if options.get(name):
            raise DataError((OptionValue(name), f" {why}"), Suggestion("leave it out"))


class _ExclusiveWriter:
    """Keeps other writers away from a ledger, and its book as it is in the file."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock: Any = None

    def __enter__(self) -> None:
        ledger = self._ledger
        file = ledger._file
        self._lock = file.exclusive(ledger._wait)
        self._lock.__enter__()
        try:
            ledger._refresh()
        except BaseException:
            self._lock.__exit__(None, None, None)
            raise

    def __exit__(self, *error: Any) -> None:
        ledger = self._ledger
        try:
            if error[0] is not None:  # the book may know more than the file
                file, given = ledger._file, ledger._given
                if _unsettled(file):
                    file.remove()
                    ledger._book = LedgerMetadata.begun(given, file.path)
                else:
                    ledger._state = None
                    ledger._refresh()
            elif not ledger._file.new:
                ledger._file.checkpoint()
        finally:
            self._lock.__exit__(*error)


class _Gathering(_ExclusiveWriter):
    """The same, and tells what is in the ledger besides the cells."""

    def __enter__(self) -> Any:
        super().__enter__()
        return self._ledger._book


def _same_model(model: BalancedRidgeClassifier, found: Uncertainty) -> Uncertainty:
    """Return standard errors; raise if they are those of other coefficients."""
    mine, theirs = np.ravel(model.coef_), np.ravel(found.coef)
    scale = float(np.abs(mine).max(initial=0.0))
    if mine.shape != theirs.shape or not np.allclose(mine, theirs, rtol=0.0, atol=1e-6 * scale):
        raise DataError(
            "the model is not one of this ledger as it is now", Suggestion("use Ledger.model again")
        )
    return found


def _unsettled(file: File) -> bool:
    """Return whether a file was created, and nothing was ever written into it."""
    with file.reading():
        return file.digest_text() is None


def _loaded(file: File, given: Mapping[str, Any]) -> tuple[str, LedgerMetadata, Index]:
    """Return the digest of a file, everything except the cells, and the heads of all cells."""
    with file.reading():
        state = file.digest_text()
        book, index = LedgerMetadata.read(file, given), file.index()
        counts = len(book.labels), len(book.segments), book.width
        problem = index.problem(*counts, has_totals=bool(book.settings.by))
        if state is None or problem is not None:
            raise file.damaged(problem or "it has no digest")
        return state, book, index


def _stacked(file: File, table: str, heads: BucketIndex, labels: Labels, d: int) -> Stack:
    """Return cells in memory, whose numbers are finite."""
    stack = Stack.of(file.block(table, heads), labels, d)
    for part in stack.parts:
        if not (np.isfinite(part.mean).all() and np.isfinite(part.tri).all()):
            raise file.damaged("a cell has values that are not finite")
    return stack
