"""Ledger: moments by time and by segment, and the model of any selection of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterpoise.atomic_write import lock_file
from counterpoise.encoding.columns import parse_roles
from counterpoise.encoding.vocabulary import Vocabulary
from counterpoise.errors import DataError, Message, Suggestion
from counterpoise.estimators.balanced_ridge import BalancedRidgeClassifier
from counterpoise.estimators.base import engine_of
from counterpoise.ledger import ingest, time_buckets
from counterpoise.ledger.backtest import Backtest, backtest
from counterpoise.ledger.compare import Comparison, compare
from counterpoise.ledger.drift import Drift, find_drift
from counterpoise.ledger.jackknife import (
    Uncertainty,
    Weights,
    estimate_uncertainty,
    weights_over_time,
)
from counterpoise.ledger.metadata import LedgerColumns, LedgerMetadata
from counterpoise.ledger.query import Snapshot, to_list
from counterpoise.ledger.storage import File, identity
from counterpoise.readers.chunk import ReadPosition
from counterpoise.tables.model import TableModel
from counterpoise.tables.records import RowFilter

DEFAULT_WAIT_SECONDS = 10.0  # for another writer
SETTINGS = ("max_values", "seed", "missing", "classes", "decimal", "time_format")


class Ledger:
    """Exact moments in cells of time and segment, in one file.

    Open one with :meth:`open`. The answer to every query is a sum of cells: rows are not stored,
    and no row is read again.

    Parameters
    ----------
    file : File
        The file.
    metadata : LedgerMetadata
        Its contents except the cells.
    given : mapping
        Settings of the user.

    Attributes
    ----------
    path : str
        The file.
    notes : list of Message
        Messages of the last :meth:`learn`.
    changed_rows : dict of str to int
        Rows of each input that the last :meth:`learn` or :meth:`unlearn` has added or subtracted.

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

    def __init__(self, file: File, metadata: LedgerMetadata, given: Mapping[str, Any]) -> None:
        self.path = file.path
        self.notes: list[Message] = []
        self.changed_rows: dict[str, int] = {}
        self._file, self._metadata, self._given = file, metadata, dict(given)
        self._snapshot: Snapshot | None = None
        self._wait = DEFAULT_WAIT_SECONDS

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
        wait: float = DEFAULT_WAIT_SECONDS,
        **settings: Any,
    ) -> Ledger:
        """Open a ledger, or begin one.

        Settings are stored in the ledger. If they are given again, they must be the same.

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
            ``max_values``, the largest number of values of a column of ``by`` (1000 by default);
            ``seed``, ``missing``, ``classes``, ``decimal`` and ``time_format``, as of
            :class:`~counterpoise.TableClassifier`.

        Returns
        -------
        Ledger
        """
        for name in settings:
            if name not in SETTINGS:
                raise TypeError(f"Ledger.open() got an unexpected keyword argument {name!r}")
        roles = None if columns is None else parse_roles(columns)
        if "timestamp" in (roles or {}).values():
            raise DataError(
                "a ledger has no role timestamp",
                Suggestion("name the column of the time", "timestamp"),
            )
        given = {"label": label, "timestamp": timestamp, "every": every, "roles": roles, **settings}
        given["by"] = (by,) if isinstance(by, str) else by if by is None else tuple(by)
        for name, values in (("only", only), ("classes", settings.get("classes"))):
            given[name] = None if values is None else tuple(sorted(set(values)))
        given = {name: value for name, value in given.items() if value is not None}
        while True:
            before = identity(os.fspath(path))
            try:
                file = File(os.fspath(path))
                is_new = file.new or file.is_empty()
                break
            except (OSError, DataError):
                if before == identity(os.fspath(path)):  # else its creator has removed it
                    raise
        snapshot = None if is_new else Snapshot.read(file, given)
        metadata = snapshot.metadata if snapshot else LedgerMetadata.create(given, file.path)
        result = cls(file, metadata, given)
        result._snapshot, result._wait = snapshot, wait
        return result

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # Changes

    def learn(
        self,
        data: Any,
        name: str | None = None,
        allow_overlap: bool = False,
        allow_new_columns: bool = False,
        stop: Callable[[], bool] = lambda: False,
        watch: ingest.Watch = lambda source, rows: None,
    ) -> int:
        """Learn rows that were not learned yet.

        An input is recognized by its content: learning it again learns new rows at its end. A frame
        is learned completely or not at all; files are written every million rows.

        Parameters
        ----------
        data : path, reader, list of these, or data frame
            A file as ``counterpoise learn`` takes it, a result of ``counterpoise.readers.source``,
            or a frame of pandas, polars or Arrow, a dict of columns, or an iterable of dicts or
            frames. A stream with a name is read once, in constant memory.
        name : str, optional
            Name of a frame, or of standard input. A frame with a name may be learned again with
            more rows at its end; a frame without one is recognized by all of its rows.
        allow_overlap : bool, default=False
            Learn an input that begins like another one.
        allow_new_columns : bool, default=False
            Learn a table with more or fewer columns than earlier ones, 0 where absent.
        stop : callable, optional
            Returns whether to end; the rows of complete batches are learned.
        watch : callable, optional
            Called with the reader and the number of rows of each chunk.

        Returns
        -------
        int
            The number of new rows.
        """
        inputs = self._open_inputs(data, name)
        with self.lock() as writer:
            new, self.notes = writer.learn_all(
                inputs, stop, watch, allow_overlap, allow_new_columns
            )
        self.changed_rows = {source.name: new[key] for source, key in inputs if key in new}
        return sum(new.values())

    def unlearn(
        self,
        data: Any,
        where: Mapping[str, Any] | None = None,
        name: str | None = None,
        watch: ingest.Watch = lambda source, rows: None,
    ) -> int:
        """Subtract rows exactly from their cells, all of them or none.

        Parameters
        ----------
        data : path, reader, list of these, or data frame
            As of :meth:`learn`. A file must have been learned, and must begin as it did then.
        where : dict, optional
            Columns and the value that each must have, such as ``{"customer": 123}``; a column need
            not be a feature. By default all rows are subtracted, and the record of the input is
            deleted. With a condition the record stays, and each row is subtracted once.
        name : str, optional
            Name of a frame when it was learned.
        watch : callable, optional
            As of :meth:`learn`.

        Returns
        -------
        int
            The number of rows.
        """
        inputs = self._open_inputs(data, name)
        values = {key: tuple(map(str, to_list(value))) for key, value in (where or {}).items()}
        rows = RowFilter(values) if values else None
        with self.lock() as writer:
            removed = writer.unlearn(inputs, rows, watch)
        self.changed_rows = {source.name: removed[key] for source, key in inputs}
        return sum(removed.values())

    def rollup(self, until: Any, every: str = "month") -> int:
        """Merge old buckets into coarser ones; sums do not change.

        Parameters
        ----------
        until : str, date, datetime or float
            Coarse buckets that end by then are made.
        every : str, default="month"
            Their size.

        Returns
        -------
        int
            The decrease of cells.
        """
        end = time_buckets.parse_time(until, "until")
        time_buckets.require_every(every, self._metadata.settings.every)
        with self.lock() as writer:
            return writer.rollup(end, every)

    def drop(self, until: Any) -> int:
        """Drop old buckets. Their rows then count as never learned.

        Parameters
        ----------
        until : str, date, datetime or float
            Rows before this time are dropped, and not learned again.

        Returns
        -------
        int
            The number of cells.
        """
        end = time_buckets.parse_time(until, "until")
        with self.lock() as writer:
            return writer.drop(end)

    # Models

    def model(
        self,
        since: Any = None,
        until: Any = None,
        where: Mapping[str, Any] | None = None,
        exclude: Any = None,
        half_life: Any = None,
        **options: Any,
    ) -> BalancedRidgeClassifier:
        """Return the model of a selection of rows, equal to one that learned just these.

        Parameters
        ----------
        since, until : str, date, datetime or float, optional
            First time, and first time that is not selected any more.
        where : dict, optional
            Values of segment columns: a value, a list of values, or ``{"not": values}``.
        exclude : str, or list of str and of pairs, optional
            Buckets that are left out, by a time within each, or pairs of since and until.
        half_life : float or str, optional
            Days, or a text such as "12h" or "7d", in which a row decays to half its weight. Rows of
            the latest bucket have their full weight.
        **options : object
            Parameters of :class:`~counterpoise.BalancedRidgeClassifier`, such as ``ridge``.

        Returns
        -------
        BalancedRidgeClassifier
            Its ``names_`` are the features that are not 0 in every row, ``categories_`` those of
            each column with many, and ``selection_`` is the selection. :meth:`encode` makes rows
            for it.
        """
        with self._query() as snapshot:
            selection = snapshot.select(since, until, where, exclude, half_life)
            return snapshot.model(snapshot.moments(selection), selection, options)

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
        """Return one model for each segment.

        Segments that have rows of one class are left out.

        Parameters
        ----------
        by : str or list of str
            Columns of the segments.
        share_of_all : float, default=0
            Weight of every row of the selection in each model, in addition to the weight 1 of the
            rows of the segment.
        since, until, where, exclude, half_life
            As of :meth:`model`.
        **options : object
            As for `model`.

        Returns
        -------
        dict
            Models by value, or by tuple of the values of several columns.
        """
        with self._query() as snapshot:
            selection = snapshot.select(since, until, where, exclude, half_life)
            return snapshot.segment_models(by, share_of_all, selection, options)

    def save(self, model: BalancedRidgeClassifier, path: str | os.PathLike[str]) -> None:
        """Write a model of this ledger into a file that ``counterpoise predict`` takes.

        Parameters
        ----------
        model : BalancedRidgeClassifier
            A result of :meth:`model`.
        path : str or path-like
            The file.
        """
        encoding = self._metadata.encoding
        own = encoding.only(self._metadata.feature_indices(model.names_))
        assert isinstance(encoding.columns, LedgerColumns)
        # A column that is 0 in every row of the selection may have values in predicted rows.
        many = {name: Vocabulary.of(one, 0) for name, one in model.categories_.items()}
        used = {*(f.column for f in own.features), *many}
        unused = {f.column for f in encoding.features} - used
        columns = encoding.columns.without_cells().dropping(unused)
        columns = replace(columns, only=tuple(name for name in columns.only if name not in unused))
        result = TableModel(engine_of(model), replace(own, columns=columns, vocabularies=many))
        result.choose_positive()
        with lock_file(os.fspath(path)):
            result.save(os.fspath(path))

    def encode(self, data: Any, model: BalancedRidgeClassifier | None = None) -> tuple[Any, Any]:
        """Return rows X of shape (n, d) for the models of this ledger, and their labels (n,).

        Parameters
        ----------
        data : path, reader or data frame
            As of :meth:`learn`, with the labels. Categories that were never learned are 0.
        model : BalancedRidgeClassifier, optional
            Model whose features rows have; by default they have all features of the ledger.

        Returns
        -------
        X : ndarray of shape (n, d)
            The rows. The last columns are codes of categories, of columns with many of them.
        y : ndarray of shape (n,)
            Their labels.
        """
        self._refresh()
        encoding, d = self._metadata.encoding, self._metadata.width
        at, vocabularies = np.arange(d), encoding.vocabularies
        if model is not None:
            at = self._metadata.feature_indices(model.names_)
            vocabularies = {k: Vocabulary.of(one, 0) for k, one in model.categories_.items()}
        encoding = replace(encoding, vocabularies=vocabularies)
        optional = {*(feature.column for feature in encoding.features), *vocabularies}
        rows, labels = [], []
        for source, _ in self._open_inputs(data, "the frame"):
            for chunk in ingest.RowGrouper(self._metadata).read(source, ReadPosition()):
                encoded = encoding.predict(chunk, None, optional, has_labels=True)
                X = encoded.X
                rows.append(X if isinstance(X, np.ndarray) else X.toarray())
                labels.append(encoded.y)
        X = np.vstack(rows)
        return X[:, [*at, *range(d, X.shape[1])]], np.concatenate(labels)

    # Queries

    def summary(self) -> dict[str, Any]:
        """Return settings, times, weights of the classes, counts, features and inputs."""
        with self._query() as snapshot:
            return snapshot.summary()

    def check(self) -> int:
        """Verify every cell and total against checksums, digest and each other.

        Return the number of cells; raise ``DataError`` if the file is not as it was written.
        """
        with self._query() as snapshot:
            return snapshot.check()

    @property
    def features(self) -> list[str]:
        """Names of the features so far."""
        self._refresh()
        return self._metadata.names

    @property
    def records(self) -> dict[str, int]:
        """Number of rows that were read of each input."""
        self._refresh()
        return {name: record.mark.rows for name, record in self._metadata.records.items()}

    def compare(self, a: Mapping[str, Any], b: Mapping[str, Any], **options: Any) -> Comparison:
        """Return counts, features, weights and losses of two selections and their models.

        Parameters
        ----------
        a, b : dict
            Arguments of :meth:`model` that select rows, such as ``{"until": "2024-06-01"}``,
            without ``half_life``.
        **options : object
            Parameters of the models: ``ridge``, ``class_weight``, ``class_factors``, ``scale``,
            ``fit_intercept`` and ``penalize_intercept``.

        Returns
        -------
        Comparison
        """
        with self._query() as snapshot:
            return compare(snapshot, a, b, options)

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
        """Return exact losses and estimated G-means of models of earlier buckets on later ones.

        Where several values are given, every combination is a setting. All are tested on the same
        buckets: those after the longest training.

        Parameters
        ----------
        train : int, None, or list of these, default=30
            Buckets to learn before each test; None for all.
        test : int, default=1
            Buckets of a test; the next one begins after it.
        half_life : float, str, None, or list of these, optional
            Half-life of rows, as of :meth:`model`.
        ridge : float, "auto", or list of these, default="auto"
            The ridge.
        features : dict of str to list of str, optional
            Subsets of the features by name; a column stands for all its features.
        since, until, where, exclude
            As of :meth:`model` and :meth:`compare`.
        **options : object
            As for `model`.

        Returns
        -------
        Backtest
        """
        with self._query() as snapshot:
            series = snapshot.series(since, until, where, exclude)
            names = snapshot.names, list(snapshot.metadata.encoding.vocabularies)
            return backtest(series, names, train, test, half_life, ridge, features, options)

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
        """Return the differences of the loss and the features of each bucket from earlier ones.

        Parameters
        ----------
        train : int, default=30
            Buckets that the model of the loss has learned.
        level : float, default=0.01
            Largest probability of an alarm in a bucket, if nothing changes.
        since, until, where, exclude
            As of :meth:`model` and :meth:`compare`.
        **options : object
            As for `model`.

        Returns
        -------
        Drift
        """
        with self._query() as snapshot:
            series = snapshot.series(since, until, where, exclude)
            return find_drift(series, snapshot.names, train, level, options)

    def weights(
        self,
        size: int = 30,
        since: Any = None,
        until: Any = None,
        where: Mapping[str, Any] | None = None,
        exclude: Any = None,
        **options: Any,
    ) -> Weights:
        """Return the weights of models of consecutive intervals, with their standard errors.

        Parameters
        ----------
        size : int, default=30
            Buckets of an interval.
        since, until, where, exclude
            As of :meth:`model` and :meth:`compare`.
        **options : object
            As for `model`.

        Returns
        -------
        Weights
        """
        with self._query() as snapshot:
            series = snapshot.series(since, until, where, exclude)
            return weights_over_time(series, snapshot.names, size, options)

    def uncertainty(
        self, model: BalancedRidgeClassifier, X: ArrayLike | None = None
    ) -> Uncertainty:
        """Return standard errors of a model, from models without each bucket.

        Parameters
        ----------
        model : BalancedRidgeClassifier
            A result of :meth:`model`.
        X : array-like of shape (n, d), optional
            Rows whose scores are to have standard errors, from :meth:`encode`.

        Returns
        -------
        Uncertainty
        """
        with self._query() as snapshot:
            return estimate_uncertainty(snapshot, model, X)

    # Transactions

    @contextmanager
    def lock(self) -> Iterator[ingest.CellWriter]:
        """Lock out other writers.

        Yields
        ------
        CellWriter
            Writes into the ledger.
        """
        with self._file.exclusive(self._wait):
            self._refresh()
            try:
                yield ingest.CellWriter(self._file, self._metadata)
            except BaseException:  # the metadata may be ahead of the file
                if self._file.is_empty():
                    self._file.remove()
                    self._metadata = LedgerMetadata.create(self._given, self.path)
                else:
                    self._snapshot = None
                    self._refresh()
                raise
            if not self._file.new:
                self._file.checkpoint()

    @contextmanager
    def _query(self) -> Iterator[Snapshot]:
        """Answer one query from one state of the file."""
        if not self._file.new:
            with self._file.reading():
                self._refresh()
                if self._snapshot is not None:
                    yield self._snapshot
                    return
        raise DataError(f"{self.path} has learned nothing yet")

    def _refresh(self) -> None:
        """Read everything except cells again if the file has changed."""
        if self._file.new:
            return
        with self._file.reading():
            digest = self._file.digest()
            if digest is None or (self._snapshot is not None and digest == self._snapshot.digest):
                return
            self._snapshot = None
            self._snapshot = Snapshot.read(self._file, self._given)
            self._metadata = self._snapshot.metadata

    def _open_inputs(self, data: Any, name: str | None) -> list[ingest.Input]:
        needed = self._metadata.encoding.columns.is_needed
        return ingest.open_inputs(data, name, self.path, needed)
