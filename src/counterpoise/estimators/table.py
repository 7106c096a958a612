"""TableClassifier: data frames with text, dates and missing values."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import TransformerMixin, clone

from counterpoise import validation
from counterpoise.arrays import Labels, Matrix, Rows, Vector
from counterpoise.encoding.encoder import ColumnEncoder
from counterpoise.engine.ridge import RidgeModel
from counterpoise.engine.summary import Summary
from counterpoise.errors import DataError, Suggestion
from counterpoise.estimators import array_validation
from counterpoise.estimators.auto import AutoClassifier, wrap_engine
from counterpoise.estimators.balanced_ridge import BalancedRidgeClassifier
from counterpoise.estimators.base import ScoreClassifier, new_engine, not_fitted
from counterpoise.estimators.cost_sensitive import CostSensitiveClassifier, inner_estimator
from counterpoise.estimators.dataframes import (
    check_frame,
    collect_labels,
    label_column,
    label_name,
    label_values,
    parse_column_options,
    parse_labels,
    restore_labels,
    set_column_names,
)
from counterpoise.explanation import Explanation
from counterpoise.public_names import document_like
from counterpoise.readers.dataframes import FrameSource
from counterpoise.solver.class_weights import ClassFactors, by_label
from counterpoise.solver.options import warn_absent_label
from counterpoise.solver.scores import Scores
from counterpoise.tables import merge
from counterpoise.tables.estimator import Model, by_typed_label, require_clock
from counterpoise.tables.guards import Guards
from counterpoise.tables.model import NAME, TableModel
from counterpoise.tables.records import cannot_unlearn_error
from counterpoise.tables.scoring import CHUNK_ROWS

GIVE_HALF_LIFE = Suggestion(
    'give it to the estimator: TableClassifier(BalancedRidgeClassifier(half_life="7d"), ...)'
)
NO_ROWS = "Found array with 0 sample(s) while a minimum of 1 is required."


class TableClassifier(TransformerMixin, ScoreClassifier):
    """Classifier of data frames with text, dates and missing values.

    It runs the same code as ``counterpoise learn`` and writes the same file. Python can continue a
    model of the command line, and vice versa. A frame may be a pandas, polars or pyarrow frame, a
    ``LazyFrame``, a reader of record batches, an object with ``__arrow_c_stream__`` such as a
    relation of DuckDB or a table of Ibis, a cursor of ADBC, an array, or an iterable of these.
    Rows are learned in chunks that do not depend on how the input is divided.
    Labels are text, integers or booleans, and ``predict`` returns the same type. During
    ``partial_fit`` other threads may predict with the model as it was before.

    Numbers are features. Text and booleans become one feature per category, and new ones may
    appear. A column of more than 100 categories has sums of each instead, and hashed categories
    share features. Dates become seconds, and phases of the day, the week and the year. A missing
    number is imputed with the mean of all values so far, and an indicator feature marks it.

    Parameters
    ----------
    estimator : estimator, optional
        A :class:`~counterpoise.BalancedRidgeClassifier`, :class:`~counterpoise.AutoClassifier`
        or :class:`~counterpoise.CostSensitiveClassifier`. By default the first.
    label : str, optional
        Name of the column of labels in the model file. By default the name of ``y``, if it is a
        column or a series, else "label".
    columns : mapping of str to str, optional
        Roles of columns: "drop" (not used), "weight" (weights of rows), "timestamp" (time of each
        row, for a ``half_life`` such as "7d"; not a feature), or a kind of feature: "number",
        "category", "datetime", "epoch" (seconds without phases), "many" (many categories; "many:10"
        fixes the ridge at 10 rows) or "hash:N" (categories that share N features). Other columns
        are features of the kind that they contain.
    only : sequence of str
        The only columns that are features; by default all.
    missing : {"mean", "indicate", "drop", "error"}, default="mean"
        Rule for missing values. "mean" imputes numbers by the mean of those seen, "indicate" by 0.
        Both add an indicator. "drop" drops such rows, "error" raises.
    seed : int, default=0
        Seed of the hashes.
    classes : sequence of str
        The only labels that are allowed, as text; by default all.
    positive : str, optional
        The positive class, as text, for alerts of the command line.
    allow_new_classes : bool, default=False
        Allow new labels after 1,000 rows.
    allow_new_columns : bool, default=False
        Allow other columns than the learned ones, in any order. A column is 0 where it is absent.
    decimal : {".", ","}, default="."
        Decimal separator of numbers that are written as text.
    time_format : str, optional
        Format of dates that are written as text, by default ISO 8601.
    chunk_rows : int, default=8192
        Rows learned at a time.

    Attributes
    ----------
    estimator_ : BalancedRidgeClassifier or AutoClassifier
        The model of encoded rows.
    classes_ : ndarray of shape (c,)
        Labels seen, or declared, so far.
    class_count_ : ndarray of shape (c,)
        Weight of each class, not decayed; decayed where ``half_life`` is a time.
    feature_names_in_ : ndarray of str
        Names of the columns, without the labels.
    n_features_in_ : int
        Number of these columns.
    feature_columns_ : list of str
        The column of each encoded feature; see :meth:`get_feature_names_out`.

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

    _model: TableModel
    _path: str
    _warned_columns: set[str]  # columns without a value where every learned row had one
    _wrapped: tuple[Model, BalancedRidgeClassifier | AutoClassifier]

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

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> TableClassifier:
        """Learn from more rows, of which there may be none.

        Parameters
        ----------
        X : frame
            The rows.
        y : array-like of shape (n,) or str
            Their labels, or the name of the column of X that contains them; by default ``label``.
        classes : array-like, optional
            Labels that ``classes_`` contains even before they are seen. Never needed.
        sample_weight : array-like of shape (n,), optional
            Weight of each row; a row of weight 0 changes nothing.

        Returns
        -------
        self
        """
        with validation.transactional(self) as draft:
            draft._learn(X, y, sample_weight)
            if classes is not None and "_model" in draft.__dict__:
                engine, labels = draft._model.estimator, parse_labels(classes)
                if labels.dtype.kind == "b":
                    labels = np.where(labels, "true", "false")
                engine.learn(np.zeros((0, engine.n_features)), labels[:0], classes=labels)
        return self

    @document_like(partial_fit)
    def fit(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> TableClassifier:
        """Learn from these rows alone."""
        with validation.transactional(self) as draft:
            for name in ("_model", "feature_names_in_", "n_features_in_", "_has_positions"):
                draft.__dict__.pop(name, None)
            rows = draft._learn(X, y, sample_weight, least=1, is_whole=True)
            if sample_weight is not None and rows:
                validation.require_some_weight(np.asarray(sample_weight, dtype=np.float64))
            if not rows or not draft.__sklearn_is_fitted__():
                raise ValueError(NO_ROWS)
        return self

    @document_like(partial_fit)
    def unlearn(
        self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None
    ) -> TableClassifier:
        """Unlearn rows, as if they had never been learned."""
        engine = self._snapshot()._model.estimator
        if not isinstance(engine, RidgeModel):
            raise cannot_unlearn_error(NAME)
        engine.require_unlearnable()
        with validation.transactional(self) as draft:
            draft._model = copy.deepcopy(self._model)
            draft._model.unlearn_frame(*draft._source(X, y, sample_weight, least=0))
        return self

    @document_like(BalancedRidgeClassifier.merge)
    def merge(self, other: TableClassifier) -> TableClassifier:
        """Return a model that has learned the rows of this one, then the rows of the other.

        Columns and categories that only one of them has seen were 0 in the other.
        """
        if not isinstance(other, TableClassifier):
            raise TypeError(f"can only merge with a TableClassifier; got {type(other).__name__}")
        first, second = self._snapshot(), other._snapshot()
        mine = first._model.positive
        both = merge.merge_models(
            first._model,
            second._model,
            ("this model", "the other"),
            allow_overlap=True,
            positive=self.positive or (None if mine is None else str(mine)),
        )
        result = copy.deepcopy(first)
        result._model = replace(both, guards=result._guards(), prototype=first._model.prototype)
        return result

    # Results

    @document_like(ScoreClassifier.predict)
    def predict(self, X: Any) -> Labels:
        """Return the most probable labels, by default assuming balanced classes.

        With a :class:`~counterpoise.CostSensitiveClassifier` the labels of least expected cost.
        """
        now = self._snapshot()
        if isinstance(now.estimator, CostSensitiveClassifier):
            labels = now.classes_
            p = now.predict_stream_proba(X) * now._costs_by_label()
            best: Labels = labels[np.argmax(p, axis=1)]
            return best
        return restore_labels(super(TableClassifier, now).predict(X), now._model.encoding.labels)

    @document_like(ScoreClassifier.predict_proba)
    def predict_proba(self, X: Any) -> Matrix:
        """Return balanced probabilities: :meth:`predict` returns the label of the largest.

        With a :class:`~counterpoise.CostSensitiveClassifier` those of :meth:`predict_stream_proba`.
        """
        return self._probabilities(X, isinstance(self.estimator, CostSensitiveClassifier))

    @document_like(partial_fit)
    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy, which is of little use for rare classes.

        Returns
        -------
        float
        """
        if y is None or isinstance(y, str):
            label = self._snapshot()._label(y)
            if not FrameSource(X).is_in_memory:  # read once
                labels: list[Any] = []
                predicted = self.predict(collect_labels(X, label, labels))
                weights = None if sample_weight is None else np.asarray(sample_weight)
                return float(np.average(predicted == parse_labels(labels), weights=weights))
            y = label_values(X, label)
        return float(super().score(X, parse_labels(y), sample_weight))

    @document_like(partial_fit)
    def transform(self, X: Any) -> Matrix:
        """Return encoded rows, with missing numbers imputed by their mean so far.

        Returns
        -------
        ndarray of shape (n, d)
            A column for each of :meth:`get_feature_names_out`; many categories have none.
        """
        now = self._snapshot()
        rows = now._dense(X)[:, : len(now._model.encoding.features)]
        return now._model.estimator.reference_state.impute(rows)

    @document_like(BalancedRidgeClassifier.explain)
    def explain(self, X: Any) -> Explanation:
        """Return what each column contributes to the scores of rows.

        The features of a column, such as its categories and its indicator, count together. The
        contributions add up to the score minus the score at the balanced center.
        """
        now = self._snapshot()
        return now._model.scorer.explain(now._dense(X))

    def summary(self) -> Summary:
        """Return coefficients of the encoded features, their intervals, means and class means.

        Missing numbers are imputed, as by :meth:`transform`. For a
        :class:`~counterpoise.AutoClassifier` this is the summary of its best candidate.

        Returns
        -------
        Summary
            Printed, it is a table; see :meth:`BalancedRidgeClassifier.summary`.
        """
        now = self._snapshot()
        return now._model.estimator.summary(now.get_feature_names_out().tolist())

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the encoded features.

        Parameters
        ----------
        input_features : object
            Not used.

        Returns
        -------
        ndarray of str
        """
        features = self._snapshot()._model.encoding.features
        return np.array([feature.name for feature in features], dtype=object)

    @property
    def feature_columns_(self) -> list[str]:
        """The column of each encoded feature."""
        return [feature.column for feature in self._snapshot()._model.encoding.features]

    @property
    def estimator_(self) -> BalancedRidgeClassifier | AutoClassifier:
        """The model of encoded rows."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError("this TableClassifier has learned nothing yet")
        engine = self._model.estimator
        if "_wrapped" not in self.__dict__ or self._wrapped[0] is not engine:
            self._wrapped = engine, wrap_engine(engine)
        return self._wrapped[1]

    @property
    def classes_(self) -> Labels:
        """Labels seen, or declared, so far."""
        model = self._snapshot()._model
        return restore_labels(model.estimator.labels, model.encoding.labels)

    @property
    def class_count_(self) -> Vector:
        """Weight of each class, not decayed; decayed where ``half_life`` is a time."""
        return self._snapshot()._model.estimator.class_count

    # Files

    @document_like(BalancedRidgeClassifier.save)
    def save(self, path: str | os.PathLike[str]) -> None:
        """Save as a model file, which the command line can read too.

        A :class:`~counterpoise.CostSensitiveClassifier` and its costs are not saved with it. A
        warning shows how to set them again.
        """
        model = self._snapshot()._model
        before = self.__dict__.get("_path")
        if before is not None:
            model = merge.move_records(model, before, os.fspath(path))
        model.save(os.fspath(path))
        if isinstance(self.estimator, CostSensitiveClassifier):
            warnings.warn(
                f"{os.fspath(path)} does not contain the CostSensitiveClassifier and its costs; "
                "set them again after loading with loaded.set_params(estimator="
                f"CostSensitiveClassifier(loaded.estimator, costs={self.estimator.costs!r}))",
                UserWarning,
                stacklevel=2,
            )

    @classmethod
    @document_like(BalancedRidgeClassifier.load)
    def load(cls, path: str | os.PathLike[str]) -> TableClassifier:
        """Load a file that :meth:`save` or the command line has written, to predict or continue."""
        stored = TableModel.load(os.fspath(path))
        given = asdict(stored.encoding.columns)
        given["columns"] = given.pop("roles") or None
        positive = None if stored.positive is None else str(stored.positive)
        inner = clone(wrap_engine(stored.estimator))
        result = cls(inner, positive=positive, chunk_rows=stored.chunk_rows, **given)
        result._model = replace(stored, path=NAME, guards=result._guards(), prototype=stored.model)
        result._warned_columns = set()
        result._path = os.path.realpath(os.fspath(path))
        columns = {*stored.encoding.kinds, *(f.column for f in stored.encoding.features)}
        result.n_features_in_ = len(columns)
        return result

    # Conventions

    def __sklearn_is_fitted__(self) -> bool:
        return "_model" in self.__dict__ and self._model.is_fitted

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing in ("mean", "indicate")
        tags.input_tags.string = tags.input_tags.categorical = True
        tags.target_tags.required = True
        return tags

    # The model with columns

    def _snapshot(self) -> TableClassifier:
        """Return the fitted model of this moment, which learning in another thread leaves alone.

        Learning replaces ``__dict__`` in one assignment. So one reference to it has the encoding
        and the coefficients of the same moment.
        """
        result = object.__new__(type(self))
        result.__dict__ = self.__dict__
        if not result.__sklearn_is_fitted__():
            raise not_fitted(self)
        return result

    def _guards(self) -> Guards:
        allowed = (self.allow_new_classes, self.allow_new_columns, True)  # future times only warn
        return Guards(NAME, self.positive, *allowed, costs=self._costs())

    def _costs(self) -> ClassFactors:
        """Return the costs of mistakes, checked, as they were given."""
        if not isinstance(self.estimator, CostSensitiveClassifier):
            return None
        validation.check_label_dict(self.estimator, "costs")
        costs: ClassFactors = self.estimator.costs
        return costs

    def _costs_by_label(self) -> Vector:
        """Return the cost of missing each class (c,); warn of costs of a class without rows."""
        model = self._model
        labels = model.estimator.labels
        try:
            costs = by_typed_label(self._costs() or {}, model.encoding.labels)
        except ValueError:
            costs = dict(self._costs() or {})
        rows = float(model.estimator.class_count.sum())
        warn_absent_label("costs", costs, labels.tolist(), rows, stacklevel=4)
        return by_label(labels, costs)

    def _learn(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        least: int = 0,
        is_whole: bool = False,
    ) -> int:
        """Check rows and learn them; return their number. ``is_whole`` if they are all rows."""
        if "_model" in self.__dict__:
            self._require_same_columns(y)
            self._model = copy.deepcopy(self._model)
        else:
            self._model = self._new_model(y)
        model = self._model
        source, weight = self._source(X, y, sample_weight, least, learning=True)
        self._warned_columns = set()
        model.notes.clear()
        fits = is_whole and source.is_in_memory
        rows = (model.fit_frame if fits else model.learn_frame)(source, weight)
        if not rows:
            if model.model is None:
                del self._model
            return 0
        if not hasattr(self, "n_features_in_"):
            label = model.encoding.columns.label
            set_column_names(self, [name for name in source.offered_columns if name != label])
        model.finish()
        for line in [*map(str, model.notes.values()), *model.outlying.warnings()]:
            if line.startswith("warning: "):
                warnings.warn(line.removeprefix("warning: "), UserWarning, stacklevel=4)
        model.outlying = type(model.outlying)()
        return rows

    def _source(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, least: int, learning: bool = False
    ) -> tuple[FrameSource, Vector | None]:
        """Return the rows of a frame, with labels and weights that came next to it."""
        label = self._label(y)
        if y is None and self.label is None:
            array_validation.require_y(self, y)
        given = None if y is None or isinstance(y, str) else {label: label_column(y)}
        frame = check_frame(self, X, label, reset=learning, least=least, labels=given)
        weight = None
        if sample_weight is not None:
            if frame.rows is None:
                raise ValueError(
                    "sample_weight requires a frame with a number of rows; name a column of the "
                    "frame with the role weight instead"
                )
            weight = validation.weights(sample_weight, frame.rows)
        return FrameSource(frame.data, given, label=label), weight

    def _new_model(self, y: Any) -> TableModel:
        """Return a model that has learned nothing yet."""
        columns = parse_column_options(self, self._label(y))
        inner = self.estimator
        if isinstance(inner, CostSensitiveClassifier):
            inner = inner_estimator(inner)
        inner = BalancedRidgeClassifier() if inner is None else inner
        if not isinstance(inner, (BalancedRidgeClassifier, AutoClassifier)):
            raise TypeError(
                "estimator must be a BalancedRidgeClassifier, an AutoClassifier or a "
                f"CostSensitiveClassifier; got a {type(inner).__name__}"
            )
        prototype: Model = new_engine(inner)
        require_clock(prototype, columns, GIVE_HALF_LIFE)
        given, guards = prototype.params.estimator_parameters, self._guards()
        if columns.classes:
            guards.require_named(given, columns.classes, NAME)
        rows = self.chunk_rows
        if not isinstance(rows, (int, np.integer)) or not 1 <= rows <= 10**7:
            raise ValueError(f"chunk_rows must be an integer from 1 to 10,000,000; got {rows!r}")
        return TableModel(
            None,
            ColumnEncoder(columns),
            chunk_rows=int(rows),
            held=np.zeros(0, dtype=np.int64),
            guards=guards,
            given=given,
            prototype=prototype,
        )

    def _label(self, y: Any) -> str:
        """Return the name of the column of labels."""
        if "_model" in self.__dict__:
            label = self._model.encoding.columns.label
            if isinstance(y, str) and y != label:
                raise ValueError(
                    f"label is {y!r}, but the model was learned with {label!r}; correct it, fit "
                    "again, or use a clone"
                )
            return label
        if isinstance(y, str):
            if self.label not in (None, y):
                raise ValueError(f"y={y!r} and label={self.label!r} name different columns")
            return y
        return self.label or label_name(y)

    def _require_same_columns(self, y: Any) -> None:
        """Raise if parameters are not those of the learned rows."""
        before = self._model.encoding.columns
        now = parse_column_options(self, self.label or self._label(y))
        for name, value in vars(now).items():
            if value != getattr(before, name):
                raise ValueError(
                    f"{'columns' if name == 'roles' else name} is {value!r}, but the model was "
                    f"learned with {getattr(before, name)!r}; fit again, or use a clone"
                )
        guards = self._model.guards
        guards.allow_new_classes = self.allow_new_classes
        guards.allow_new_columns = self.allow_new_columns
        guards.costs = self._costs()

    def _encode(self, X: Any) -> Iterator[Any]:
        """Yield encoded rows, chunk by chunk."""
        encoder = self._model.encoder.with_missing("drop", "error")  # all rows are predicted
        frame = check_frame(self, X, encoder.encoding.columns.label, reset=False, least=1)
        source, is_empty = FrameSource(frame.data), True
        for chunk in encoder.read_chunks(source, max(self.chunk_rows, 1), lambda name: True):
            apart = None if self.allow_new_columns else ()
            encoded = encoder.encode(chunk, apart, lenient_option="allow_new_columns")
            if encoded.bare:
                raise DataError("a row has none of the columns of the model")
            for name in [one for one in encoded.blank if one not in self._warned_columns]:
                self._warned_columns.add(name)
                warnings.warn(
                    f"column {name!r} has no value, where every learned row had one; a number is "
                    "taken as the mean, text as no category",
                    UserWarning,
                    stacklevel=5,
                )
            is_empty = False
            yield encoded.X
        if is_empty:
            raise ValueError(NO_ROWS)

    def _dense(self, X: Any) -> Matrix:
        """Return encoded rows (n, d)."""
        return np.vstack(list(map(_to_dense, self._encode(X))))

    def _score_rows(self, X: Any, link: bool = False) -> tuple[Matrix, Scores]:
        now = self._snapshot()
        scores = now._model.estimator.scores()
        return np.vstack(list(map(scores.of, now._encode(X)))), scores


def _to_dense(X: Rows) -> Matrix:
    """Return rows (n, d) that are not sparse."""
    return np.asarray(X) if isinstance(X, np.ndarray) else np.asarray(X.toarray())
