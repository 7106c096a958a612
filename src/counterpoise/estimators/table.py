"""TableClassifier: frames with words, dates and gaps in them, behind scikit-learn's face."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.exceptions import NotFittedError

from counterpoise import validation
from counterpoise.arrays import Labels, Matrix, Vector
from counterpoise.encoding.columns import MISSING_RULES, Columns, parse_roles
from counterpoise.encoding.encoder import ColumnEncoder
from counterpoise.engine.ridge import RidgeModel
from counterpoise.engine.summary import Summary
from counterpoise.errors import DataError
from counterpoise.estimators import array_validation
from counterpoise.estimators.auto import AutoClassifier, wrap_engine
from counterpoise.estimators.balanced_ridge import BalancedRidgeClassifier
from counterpoise.estimators.base import new_engine
from counterpoise.estimators.cost_sensitive import CostSensitiveClassifier, inner_of
from counterpoise.estimators.dataframes import (
    column_of,
    frame_of,
    labels_in,
    name_of,
    named,
    restored,
    values_of,
)
from counterpoise.explanation import Explanation
from counterpoise.moments.classes import ravel_binary
from counterpoise.readers.dataframes import FrameSource
from counterpoise.solver.class_weights import by_label
from counterpoise.solver.scores import Scores
from counterpoise.tables import merge
from counterpoise.tables.estimator import Model, require_clock
from counterpoise.tables.guards import Guards
from counterpoise.tables.model import NAME, TableModel
from counterpoise.tables.records import cannot_unlearn_error
from counterpoise.tables.scoring import CHUNK_ROWS


def parse_column_options(model: Any, label: str) -> Columns:
    """Return the settings of the columns; raise if a parameter is not valid."""
    for name in ("only", "classes"):
        value = getattr(model, name)
        if isinstance(value, str) or not all(isinstance(one, str) for one in value):
            raise ValueError(f"{name}={value!r} must be a list of names")
    validation.one_of(model, "missing", MISSING_RULES)
    validation.one_of(model, "decimal", (".", ","))
    if model.time_format is not None and "%" not in model.time_format:
        raise ValueError(f"time_format={model.time_format!r} is not like %d.%m.%Y")
    if not 0 <= validation.check_nonnegative_int(model.seed, "seed") < 2**32:
        raise ValueError(f"seed={model.seed!r} must be below 2**32")
    return Columns(
        label,
        parse_roles(model.columns or {}),
        tuple(sorted(set(model.only))),
        int(model.seed),
        model.missing,
        tuple(sorted(set(model.classes))),
        model.decimal,
        model.time_format,
    )


def chunk_rows(model: Any) -> int:
    """Return how many rows are learned at a time; raise if that has no meaning."""
    rows = model.chunk_rows
    if not isinstance(rows, (int, np.integer)) or not 1 <= rows <= 10**7:
        raise ValueError(f"chunk_rows={rows!r} must be a whole number from 1 to 10,000,000")
    return int(rows)


def prototype_of(estimator: Any, columns: Columns) -> Model:
    """Return the model inside, with nothing learned, for these columns."""
    if isinstance(estimator, CostSensitiveClassifier):
        validation.check_label_dict(estimator, "costs")
        estimator = inner_of(estimator)
    if estimator is None:
        estimator = BalancedRidgeClassifier()
    if not isinstance(estimator, (BalancedRidgeClassifier, AutoClassifier)):
        raise TypeError(
            f"estimator is a {type(estimator).__name__}; it must be a BalancedRidgeClassifier, a "
            "AutoClassifier or a CostSensitiveClassifier"
        )
    found: Model = new_engine(estimator)
    require_clock(found, columns)
    return found


class TableClassifier(TransformerMixin, ClassifierMixin, BaseEstimator):
    """Classifier for frames with words, dates and gaps in them, exact at every moment of a stream.

    It does what ``counterpoise learn`` does, by the same code and in the same file: what a shell
    has learned, Python can load and learn on, and the other way round.

    Numbers are learned as they are. Words and truth values become one feature a category, which
    may appear at any time; hashed columns share a number of features. Dates become their age and
    their place in the day, the week and the year. A missing number is filled by the mean of all
    values seen so far, exactly and after the fact, and that it is missing is a feature.

    Rows come as a frame of pandas, polars (lazy too) or pyarrow, as a reader of record batches, as
    any object with ``__arrow_c_stream__``, as an array, or as an iterable of such pieces. They are
    learned in chunks of ``chunk_rows``, so that it does not matter in which pieces they come.
    Labels are text, integers or booleans, and are predicted as they were given. Other threads may
    predict during ``partial_fit``: they use the model as it was before.

    Parameters
    ----------
    estimator : estimator, optional
        A :class:`~counterpoise.BalancedRidgeClassifier`, :class:`~counterpoise.AutoClassifier`
        or :class:`~counterpoise.CostSensitiveClassifier`. By default the first.
    label : str, optional
        What the column of labels is called in the model file. By default what ``y`` says: the name
        of a column, or of the series of labels; else "label".
    columns : mapping of str to str, optional
        Roles of columns: "drop" (not used), "weight" (weights of rows), "timestamp" (time of each
        row, by which rows decay if ``half_life`` of the estimator is a duration such as "7d"; not a
        feature), or a kind of feature whatever the column looks like: "number", "category",
        "datetime" (seconds, and phases of the day, the week and the year), "epoch" (seconds
        alone) or "hash:N" (categories that share N features). Other columns are features of the
        kind that they contain.
    only : sequence of str
        The only columns that are features; by default all.
    missing : {"mean", "indicate", "drop", "error"}, default="mean"
        What becomes of missing values. "mean" fills numbers by the mean of those seen; "indicate"
        by 0. Both add a feature that says so. "drop" leaves such rows out, "error" refuses them.
    seed : int, default=0
        Seed of the hashes.
    classes : sequence of str
        The only labels that there may be, as text; none for any.
    positive : str, optional
        The class that alerts are about, as text, for the command line.
    allow_new_classes : bool, default=False
        Whether a model of more than 1,000 rows may learn a label that it does not know.
    allow_new_columns : bool, default=False
        Whether frames may have columns that were not learned, or lack some that were. Either is
        then 0 where it is absent, and columns come in any order.
    decimal : {".", ","}, default="."
        The decimal sign of numbers that are written as text.
    time_format : str, optional
        How dates are written as text, if not as in ISO 8601.
    chunk_rows : int, default=8192
        Rows learned at a time.

    Attributes
    ----------
    estimator_ : BalancedRidgeClassifier or AutoClassifier
        What was learned, of encoded rows.
    classes_ : ndarray of shape (c,)
        Labels seen, or declared, so far.
    feature_names_in_ : ndarray of str
        Names of the columns, without that of the labels.
    n_features_in_ : int
        Their number.
    feature_columns_ : list of str
        The column that each encoded feature comes from; see :meth:`get_feature_names_out`.

    Examples
    --------
    >>> import pandas as pd
    >>> from counterpoise import TableClassifier
    >>> frame = pd.DataFrame({
    ...     "amount": [12.0, None, 900.0, 15.0], "country": ["DE", "FR", "XX", "DE"],
    ...     "at": pd.to_datetime(["2024-05-01 09:30", "2024-05-01 10:00", "2024-05-02 03:12", ""]),
    ...     "fraud": ["no", "no", "yes", "no"]})
    >>> model = TableClassifier().partial_fit(frame, "fraud")
    >>> model.predict(frame.drop(columns="fraud")).tolist()
    ['no', 'no', 'yes', 'no']
    """

    learner_: TableModel

    def __init__(
        self,
        estimator: Any = None,
        *,
        label: str | None = None,
        columns: Mapping[str, str] | None = None,
        only: Sequence[str] = (),
        missing: str = "mean",
        seed: int = 0,
        classes: Sequence[str] = (),
        positive: str | None = None,
        allow_new_classes: bool = False,
        allow_new_columns: bool = False,
        decimal: str = ".",
        time_format: str | None = None,
        chunk_rows: int = CHUNK_ROWS,
    ) -> None:
        self.estimator = estimator
        self.label = label
        self.columns = columns
        self.only = only
        self.missing = missing
        self.seed = seed
        self.classes = classes
        self.positive = positive
        self.allow_new_classes = allow_new_classes
        self.allow_new_columns = allow_new_columns
        self.decimal = decimal
        self.time_format = time_format
        self.chunk_rows = chunk_rows

    # Learning

    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> TableClassifier:
        """Learn from these rows alone.

        Parameters
        ----------
        X : frame
            The rows.
        y : array-like of shape (n,) or str
            Their labels, or the name of the column of X that holds them; by default ``label``.
        sample_weight : array-like of shape (n,), optional
            Weight of each row; a row of weight 0 changes nothing.

        Returns
        -------
        self
        """
        with validation.transactional(self) as draft:
            for name in ("learner_", "feature_names_in_", "n_features_in_", "_by_places"):
                draft.__dict__.pop(name, None)
            rows = draft._learn(X, y, sample_weight, least=1, is_whole=True)
            if sample_weight is not None and rows:
                validation.require_some_weight(np.asarray(sample_weight, dtype=np.float64))
            if not rows or not draft.__sklearn_is_fitted__():
                raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> TableClassifier:
        """Learn from more rows.

        Parameters
        ----------
        X : frame
            The rows; of none at all nothing is learned.
        y : array-like of shape (n,) or str
            Their labels, or the name of the column of X that holds them; by default ``label``.
        classes : array-like, optional
            Labels that are to appear in ``classes_`` even before they are seen. Never needed.
        sample_weight : array-like of shape (n,), optional
            Weight of each row; a row of weight 0 changes nothing.

        Returns
        -------
        self
        """
        with validation.transactional(self) as draft:
            draft._learn(X, y, sample_weight)
            if classes is not None and "learner_" in draft.__dict__:
                draft._declare(classes)
        return self

    def unlearn(
        self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None
    ) -> TableClassifier:
        """Take rows back, as if they had never been learned.

        Parameters
        ----------
        X : frame
            The rows.
        y : array-like of shape (n,) or str
            Their labels, or the name of the column of X that holds them.
        sample_weight : array-like of shape (n,), optional
            Their weights when they were learned.

        Returns
        -------
        self
        """
        self._require_fitted()
        model = self.learner_.estimator
        if not isinstance(model, RidgeModel):
            raise cannot_unlearn_error(NAME)
        model.require_unlearnable()
        with validation.transactional(self) as draft:
            draft.learner_ = copy.deepcopy(self.learner_)
            source, weight = draft._source(X, y, sample_weight, least=0)
            draft.learner_.unlearn_frame(source, weight)
        return self

    def merge(self, other: TableClassifier) -> TableClassifier:
        """Make one model of two, as if it had seen both streams, this one first.

        Parameters
        ----------
        other : TableClassifier
            A fitted model with the same options. Columns and categories that only one of them has
            seen were 0 in the other.

        Returns
        -------
        TableClassifier
            A new model; both of the old ones stay as they are.
        """
        if not isinstance(other, TableClassifier):
            raise TypeError(f"can only merge with a TableClassifier, not {type(other)}")
        first, second = self._snapshot(), other._snapshot()
        mine = first.learner_.positive
        both = merge.merge_models(
            first.learner_,
            second.learner_,
            ("this model", "the other"),
            allow_overlap=True,
            positive=self.positive or (None if mine is None else str(mine)),
        )
        result = copy.deepcopy(first)
        result.learner_ = replace(both, guards=result._guards(), prototype=first.learner_.prototype)
        return result

    # Looking

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores: the positive class, or each class against the rest, aims at 1, the other at −1.

        With three or more classes they compare the classes of one row, not rows by one class; rank
        rows by a column of :meth:`predict_proba`.

        Parameters
        ----------
        X : frame
            The rows; a column of labels is not looked at.

        Returns
        -------
        ndarray of shape (n,) or (n, c)
        """
        return ravel_binary(self._scored(X)[0])

    def predict(self, X: Any) -> Labels:
        """Most probable label under the weights of training: balanced classes, by default.

        With a :class:`~counterpoise.CostSensitiveClassifier` the label of least expected cost.

        Parameters
        ----------
        X : frame
            The rows; a column of labels is not looked at.

        Returns
        -------
        ndarray of shape (n,)
        """
        now = self._snapshot()
        if isinstance(now.estimator, CostSensitiveClassifier):
            labels = now.classes_
            p = now.predict_stream_proba(X) * by_label(labels, now.estimator.costs)
            best: Labels = labels[np.argmax(p, axis=1)]
            return best
        f, scores = now._scored(X)
        return restored(scores.classes.best(f), now.learner_.encoding.labels)

    def predict_proba(self, X: Any) -> Matrix:
        """Probabilities under the weights of training: its argmax is always :meth:`predict`.

        With a :class:`~counterpoise.CostSensitiveClassifier` those of :meth:`predict_stream_proba`.

        Parameters
        ----------
        X : frame
            The rows; a column of labels is not looked at.

        Returns
        -------
        ndarray of shape (n, c)
        """
        return self._probabilities(X, isinstance(self.estimator, CostSensitiveClassifier))

    def predict_log_proba(self, X: Any) -> Matrix:
        """Logarithms of :meth:`predict_proba`.

        Parameters
        ----------
        X : frame
            The rows.

        Returns
        -------
        ndarray of shape (n, c)
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict_stream_proba(self, X: Any) -> Matrix:
        """Probabilities under the stream's own class frequencies.

        Parameters
        ----------
        X : frame
            The rows; a column of labels is not looked at.

        Returns
        -------
        ndarray of shape (n, c)
        """
        return self._probabilities(X, stream=True)

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy, which for rare classes says little.

        Parameters
        ----------
        X : frame
            The rows.
        y : array-like of shape (n,) or str
            Their labels, or the name of the column of X that holds them.
        sample_weight : array-like of shape (n,), optional
            Weight of each row.

        Returns
        -------
        float
        """
        if y is None or isinstance(y, str):
            y = labels_in(X, y or self._label(y))
        return float(super().score(X, values_of(y), sample_weight))

    def transform(self, X: Any) -> Matrix:
        """Encode rows as the model looks at them, missing numbers filled by their mean so far.

        Parameters
        ----------
        X : frame
            The rows.

        Returns
        -------
        ndarray of shape (n, d)
            A column for each of :meth:`get_feature_names_out`.
        """
        now, parts = self._snapshot(), []
        state = now._plainest()
        for X_part in now._encoded(X):
            rows = X_part if isinstance(X_part, np.ndarray) else X_part.toarray()
            parts.append(state.impute(rows))
        return np.vstack(parts)

    def explain(self, X: Any) -> Explanation:
        """Say what each column contributes to the scores of rows.

        The features of a column, such as its categories and whether it is missing, count together.
        The contributions add up to the score minus the score at the balanced centre.

        Parameters
        ----------
        X : frame
            The rows.

        Returns
        -------
        Reasons
            Contributions ``values`` of shape (n, columns) for two classes, (n, c, columns) for
            several; with ``base``, ``top(k)`` and ``plot(row)``.
        """
        now = self._snapshot()
        parts = now._encoded(X)
        rows = np.vstack([one if isinstance(one, np.ndarray) else one.toarray() for one in parts])
        return now.learner_.estimator.explain(rows).group_by_column(now.feature_columns_)

    def summary(self) -> Summary:
        """Sum up what was found: weights of the encoded features, their errors, means, class means.

        Missing numbers are filled, as by :meth:`transform`. A
        :class:`~counterpoise.AutoClassifier` is summed up by its best candidate.

        Returns
        -------
        Summary
            Printed, it is a table; see :meth:`BalancedRidgeClassifier.summary`.
        """
        now = self._snapshot()
        return now.learner_.estimator.summary(now.get_feature_names_out().tolist())

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the encoded features.

        Parameters
        ----------
        input_features : object
            Not used: the columns are known.

        Returns
        -------
        ndarray of str
        """
        self._require_fitted()
        return np.array([f.name for f in self.learner_.encoding.features], dtype=object)

    @property
    def feature_columns_(self) -> list[str]:
        """The column that each encoded feature comes from."""
        self._require_fitted()
        return [feature.column for feature in self.learner_.encoding.features]

    @property
    def estimator_(self) -> BalancedRidgeClassifier | AutoClassifier:
        """The model of encoded rows."""
        if not self.__sklearn_is_fitted__() or self.learner_.model is None:
            raise AttributeError("this TableClassifier has learned nothing yet")
        return wrap_engine(self.learner_.estimator)

    @property
    def classes_(self) -> Labels:
        """Labels seen, or declared, so far."""
        now = self._snapshot()
        return restored(now.learner_.estimator.labels, now.learner_.encoding.labels)

    @property
    def class_count_(self) -> Vector:
        """Weight of each class, not faded."""
        count: Vector = self.estimator_.class_count_
        return count

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save as a model file, which the command line takes too.

        A :class:`~counterpoise.CostSensitiveClassifier` is not saved with it.

        Parameters
        ----------
        path : path
            Where to. An older file is replaced, or left as it was if anything goes wrong.
        """
        model = self._snapshot().learner_
        before = self.__dict__.get("_path")
        if before is not None:
            model = merge.move_records(model, before, os.fspath(path))
        model.save(os.fspath(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TableClassifier:
        """Load what :meth:`save` or the command line has written, and go on learning if you like.

        Parameters
        ----------
        path : path
            The file. It is not trusted: whatever is not a whole and possible model is refused.

        Returns
        -------
        TableClassifier
        """
        stored = TableModel.load(os.fspath(path))
        given = asdict(stored.encoding.columns)
        given["columns"] = given.pop("roles") or None
        positive = None if stored.positive is None else str(stored.positive)
        inner = clone(wrap_engine(stored.estimator))
        result = cls(inner, positive=positive, chunk_rows=stored.chunk_rows, **given)
        result.learner_ = replace(
            stored, path=NAME, guards=result._guards(), prototype=stored.model
        )
        result._told = set()
        result._path = os.path.realpath(os.fspath(path))
        columns = {*stored.encoding.kinds, *(f.column for f in stored.encoding.features)}
        result.n_features_in_ = len(columns)
        return result

    # Conventions

    def __sklearn_is_fitted__(self) -> bool:
        if "learner_" not in self.__dict__:
            return False
        model = self.learner_.model
        return model is not None and model.is_fitted

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing in ("mean", "indicate")
        tags.input_tags.string = tags.input_tags.categorical = True
        tags.target_tags.required = True
        return tags

    # Inside

    _path: str

    def _snapshot(self) -> TableClassifier:
        """Return the fitted model of this moment, which learning in another thread leaves alone.

        Learning replaces ``__dict__`` by another one, in one assignment. So one reference to it is
        the encoding and the coefficients of the same moment.
        """
        result = object.__new__(type(self))
        result.__dict__ = self.__dict__
        result._require_fitted()
        return result

    def _guards(self) -> Guards:
        allowed = (
            self.allow_new_classes,
            self.allow_new_columns,
            True,
        )  # times in the future only warn
        return Guards(NAME, self.positive, *allowed)

    def _learn(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        least: int = 0,
        is_whole: bool = False,
    ) -> int:
        """Check rows and learn them; return their number. ``is_whole`` if they are all rows."""
        if "learner_" in self.__dict__:
            self._require_same_columns(y)
            self.learner_ = copy.deepcopy(self.learner_)
        else:
            self.learner_ = self._begun(y)
        source, weight = self._source(X, y, sample_weight, least, learning=True)
        learner = self.learner_
        self._told: set[str] = set()
        learner.notes.clear()
        fits = is_whole and source.is_in_memory
        rows = (learner.fit_frame if fits else learner.learn_frame)(source, weight)
        if rows and not hasattr(self, "n_features_in_"):
            named(self, [c for c in source.offered if c != learner.encoding.columns.label])
        if rows:
            learner.finish()
            for note in learner.notes.values():
                if str(note).startswith("warning: "):
                    warnings.warn(str(note).removeprefix("warning: "), UserWarning, stacklevel=4)
            for line in learner.outlying.warnings():
                warnings.warn(line.removeprefix("warning: "), UserWarning, stacklevel=4)
            learner.outlying = type(learner.outlying)()
        elif learner.model is None:
            del self.learner_
        return rows

    def _source(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        least: int,
        learning: bool = False,
    ) -> tuple[FrameSource, Vector | None]:
        """The rows of a frame, with labels and weights that came beside it."""
        label = self.learner_.encoding.columns.label
        given = None
        if y is None and self.label is None:
            array_validation.require_y(self, y)
        if y is not None and not isinstance(y, str):
            given = {label: column_of(y)}
        frame = frame_of(self, X, label, reset=learning, least=least, labels=given)
        weight = None
        if sample_weight is not None:
            if frame.rows is None:
                raise ValueError(
                    "sample_weight goes with a frame whose rows are known; name a column of the "
                    "frame with the role weight instead"
                )
            weight = validation.weights(sample_weight, frame.rows)
        return FrameSource(frame.data, given, label=label), weight

    def _begun(self, y: Any) -> TableModel:
        """Return a model that has learned nothing yet."""
        encoding = ColumnEncoder(parse_column_options(self, self._label(y)))
        prototype = prototype_of(self.estimator, encoding.columns)
        given, guards = prototype.params.given, self._guards()
        if encoding.columns.classes:
            guards.require_named(given, encoding.columns.classes, NAME)
        return TableModel(
            None,
            encoding,
            chunk_rows=chunk_rows(self),
            held=np.zeros(0, dtype=np.int64),
            guards=guards,
            given=given,
            prototype=prototype,
        )

    def _label(self, y: Any) -> str:
        """The name of the column of labels."""
        if "learner_" in self.__dict__:
            return self.learner_.encoding.columns.label
        if isinstance(y, str):
            if self.label not in (None, y):
                raise ValueError(f"y={y!r} and label={self.label!r} name different columns")
            return y
        return self.label or name_of(y)

    def _require_same_columns(self, y: Any) -> None:
        """Raise if parameters say otherwise than what was learned with them."""
        before = self.learner_.encoding.columns
        label = y if isinstance(y, str) else before.label
        now = parse_column_options(self, self.label or label)
        if now != before:
            changed = [k for k, v in asdict(now).items() if asdict(before)[k] != v]
            name = changed[0]
            shown = "columns" if name == "roles" else name
            raise ValueError(
                f"{shown} is {getattr(now, name)!r}, but the model was learned with "
                f"{getattr(before, name)!r}; fit again, or use a clone"
            )
        guards = self.learner_.guards
        guards.allow_new_classes = self.allow_new_classes
        guards.allow_new_columns = self.allow_new_columns

    def _declare(self, classes: ArrayLike) -> None:
        """Let classes appear before they are seen."""
        model = self.learner_.model
        assert model is not None
        labels = values_of(classes)
        if labels.dtype.kind == "b":
            labels = np.where(labels, "true", "false")
        model.learn(np.zeros((0, model.n_features)), labels[:0], classes=labels)

    def _plainest(self) -> Any:
        return self.learner_.estimator.reference_state

    def _encoded(self, X: Any) -> list[Any]:
        """Rows of features, chunk by chunk."""
        encoder = self.learner_.encoder.with_missing("drop", "error")  # all rows are predicted
        frame = frame_of(self, X, encoder.encoding.columns.label, reset=False, least=1)
        source, parts = FrameSource(frame.data), []
        apart = None if self.allow_new_columns else tuple(self.__dict__.get("_beside", ()))
        for chunk in encoder.read_chunks(source, max(self.chunk_rows, 1), lambda name: True):
            encoded = encoder.encode(chunk, apart)
            if encoded.bare:
                raise DataError("a row has none of the columns of the model")
            self._tell(encoded.blank)
            parts.append(encoded.X)
        if not parts:
            raise ValueError("Found array with 0 sample(s) while a minimum of 1 is required.")
        return parts

    def _tell(self, blank: Mapping[str, int]) -> None:
        """Say once of a column that it lacks values where it never did."""
        for name in blank:
            if name not in self._told:
                self._told.add(name)
                warnings.warn(
                    f"column {name!r} lacks a value, where every learned row had one; a number is "
                    "taken as the mean, text as no category",
                    UserWarning,
                    stacklevel=5,
                )

    def _scored(self, X: Any) -> tuple[Matrix, Scores]:
        """Scores of rows, and what they were scored by."""
        now = self._snapshot()
        parts, scores = now._encoded(X), now.learner_.estimator.scores()
        return np.vstack([scores.of(part) for part in parts]), scores

    def _probabilities(self, X: Any, stream: bool) -> Matrix:
        f, scores = self._scored(X)
        return scores.probabilities(f, stream)

    def _require_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                "This TableClassifier has learned nothing yet, or has unlearned it all; call fit "
                "or partial_fit first"
            )
