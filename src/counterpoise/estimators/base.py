"""EstimatorBase: scikit-learn's conventions around an engine."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError

from counterpoise import validation
from counterpoise.arrays import Labels, Matrix, Rows, Vector
from counterpoise.engine.auto import Engine
from counterpoise.engine.parameters import cached_parameters
from counterpoise.engine.progressive_calibration import warn_sorted_labels
from counterpoise.engine.summary import Summary
from counterpoise.estimators import array_validation
from counterpoise.explanation import Explanation
from counterpoise.modelfile.container import Contents
from counterpoise.modelfile.engines import SaveLoadMixin, feature_names, pack, unpack
from counterpoise.moments.classes import ravel_binary
from counterpoise.public_names import document_like
from counterpoise.solver.options import LABEL_OPTIONS, warn_unknown_label
from counterpoise.solver.scores import Scores
from counterpoise.timestamps import T_IS_IGNORED

E = TypeVar("E", bound=Engine)
Self = TypeVar("Self", bound="EstimatorBase[Any]")


class ScoreClassifier(ClassifierMixin, BaseEstimator):
    """Classifier whose predictions are functions of the scores of rows."""

    def _score_rows(self, X: Any, link: bool = False) -> tuple[Matrix, Scores]:
        """Return the scores of rows, and the solved model, with probabilities if ``link``."""
        raise NotImplementedError

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return scores: 1 is the target of the positive class, or of each class, −1 of others.

        Scores of three or more classes compare the classes of one row. To rank rows, use a column
        of :meth:`predict_proba`.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            The rows; also a CSR matrix, except for tables.

        Returns
        -------
        ndarray of shape (n,) or (n, c)
        """
        return ravel_binary(self._score_rows(X)[0])

    @document_like(decision_function)
    def predict(self, X: ArrayLike) -> Labels:
        """Return the most probable labels, by default assuming balanced classes.

        Returns
        -------
        ndarray of shape (n,)
        """
        f, scores = self._score_rows(X)
        return scores.classes.best(f)

    @document_like(decision_function)
    def predict_proba(self, X: ArrayLike) -> Matrix:
        """Return balanced probabilities: :meth:`predict` returns the label of the largest.

        Returns
        -------
        ndarray of shape (n, c)
        """
        return self._probabilities(X, stream=False)

    @document_like(predict_proba)
    def predict_log_proba(self, X: ArrayLike) -> Matrix:
        """Return the logarithms of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    @document_like(predict_proba)
    def predict_stream_proba(self, X: ArrayLike) -> Matrix:
        """Return probabilities under the observed class frequencies.

        They estimate how likely a fraud is, where :meth:`predict_proba` compares it with a payment
        as if both were equally frequent. With ``half_life`` the frequency of a class is the one
        while its rows were learned. With ``calibrate`` the odds are corrected by calibration
        counts, which do not decay.
        """
        return self._probabilities(X, stream=True)

    def _probabilities(self, X: Any, stream: bool) -> Matrix:
        f, scores = self._score_rows(X, link=True)
        return scores.probabilities(f, stream)


class EstimatorBase(SaveLoadMixin, ScoreClassifier, Generic[E]):
    """Classifier of arrays that validates rows and lets an engine learn and score them."""

    _engine: E
    _engine_class: ClassVar[type[Any]]
    partial_fit: Callable[..., Any]
    n_features_in_: int

    # Learning

    def _fit(
        self: Self, X: Any, y: Any, sample_weight: ArrayLike | None, t: ArrayLike | None = None
    ) -> Self:
        """Learn rows with an engine that is new."""
        with validation.transactional(self) as draft:
            draft._engine = draft._new_engine()
            draft._learn(X, y, None, sample_weight, t, least=1, is_whole=True)
            if not draft._engine.is_fitted:
                raise ValueError("every sample_weight is zero: there is nothing to fit")
            draft._warn_of_unknown_labels()
        return self

    def _warn_of_unknown_labels(self) -> None:
        """Warn if a parameter by label names labels that no row has."""
        labels = self._engine.labels.tolist()
        for name in LABEL_OPTIONS:
            warn_unknown_label(name, getattr(self, name, None), labels, stacklevel=5)

    def _partial_fit(
        self: Self,
        X: Any,
        y: Any,
        classes: ArrayLike | None,
        sample_weight: ArrayLike | None,
        t: ArrayLike | None = None,
    ) -> Self:
        """Learn rows with the engine; widths and names of first rows are set in the same step."""
        engine = self._current()
        if engine is not None and engine.is_fitted:
            self._learn(X, y, classes, sample_weight, t)
            return self
        with validation.transactional(self) as draft:
            draft._engine = self._fresh(engine)
            draft._learn(X, y, classes, sample_weight, t)
        return self

    def _learn(
        self,
        X: Any,
        y: Any,
        classes: ArrayLike | None,
        sample_weight: ArrayLike | None,
        t: ArrayLike | None,
        least: int = 0,
        is_whole: bool = False,
    ) -> None:
        """Check rows and let the engine learn them; ``is_whole`` if they are all rows."""
        engine = self._engine
        if t is not None and not engine.params.options.decay.is_timed:
            warnings.warn(T_IS_IGNORED, UserWarning, stacklevel=4)
        array_validation.require_y(self, y)
        rows, target = array_validation.rows(self, X, y, not engine.is_fitted, least=least)
        names, was_sorted = self.__dict__.get("feature_names_in_"), engine.has_sorted_labels
        is_plain = sample_weight is None and t is None and classes is None and not is_whole
        if not (is_plain and engine.learn_few(rows, target)):
            engine.learn(rows, target, sample_weight, t, classes, names, is_whole=is_whole)
        if engine.has_sorted_labels and not was_sorted:
            warn_sorted_labels(stacklevel=5)

    def merge(self: Self, other: Self) -> Self:
        """Return a model that has learned the rows of this one, then the rows of the other.

        Parameters
        ----------
        other : estimator of the same class
            A fitted model with the same features, and the same parameters except for
            ``memory_limit`` and ``calibrate``. Calibration counts add up; this model decides
            whether to use them. Maps must be equal: fixed before the streams parted, or given.

        Returns
        -------
        estimator
            A new model; both models stay as they are.
        """
        if not isinstance(other, EstimatorBase) or other._engine_class is not self._engine_class:
            raise TypeError(
                f"can only merge with a {type(self).__name__}; got {type(other).__name__}"
            )
        mine, theirs = self._fitted_engine(), other._fitted_engine()
        names = [getattr(m, "feature_names_in_", np.empty(0)).tolist() for m in (self, other)]
        if self.n_features_in_ != other.n_features_in_ or names[0] != names[1]:
            raise ValueError(
                "cannot merge models with different features: "
                f"{names[0] or self.n_features_in_} here, {names[1] or other.n_features_in_} there"
            )
        merged = mine.merge(theirs)
        result: Self = clone(self)
        result._wrap(merged, self.__dict__.get("feature_names_in_"))
        return result

    def _score_progressively(
        self, X: Any, y: Any, score: Callable[..., Matrix], accept_sparse: bool = True
    ) -> NDArray[np.float64]:
        """Return ``score(engine, rows, labels, names)`` of an engine that learns the rows."""
        array_validation.require_y(self, y)
        with validation.transactional(self) as draft:
            engine = draft._engine = self._fresh(self._current())
            rows, labels = array_validation.rows(draft, X, y, not engine.is_fitted, accept_sparse)
            scores = score(engine, rows, labels, draft.__dict__.get("feature_names_in_"))
        return ravel_binary(scores)

    def _learn_row(self, x: ArrayLike, y: Any, w: float, **more: Any) -> None:
        """Learn one row, whose features need no names, as a batch."""
        with validation.transactional(self) as draft:
            names = draft.__dict__.pop("feature_names_in_", None)
            draft.partial_fit(np.asarray(x)[None], np.array([y]), sample_weight=[w], **more)
            if names is not None and len(names) == draft.n_features_in_:
                draft.feature_names_in_ = names

    # Results

    @document_like(ScoreClassifier.decision_function)
    def explain(self, X: ArrayLike) -> Explanation:
        """Return what each feature contributes to the scores of rows.

        The contributions add up to the score minus the score at the balanced center, the mean of
        the class means by their class weights. A linear model multiplies the distance from the
        center by its coefficients. With a map or with ``pooled_rows`` the contributions are
        integrated gradients along the straight line from the center.

        Returns
        -------
        Explanation
            Contributions ``values`` of shape (n, d) for two classes, (n, c, d) for several, and
            ``base_values``, the score at the center.

        Examples
        --------
        >>> from counterpoise import BalancedRidgeClassifier
        >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [9.0, 0.0]], ["ok", "ok", "ok", "fraud"]
        >>> found = BalancedRidgeClassifier().fit(X, y).explain([[8.0, 0.0]])
        >>> names, values = found.top(1)
        >>> names.item(), round(values.item(), 2)
        ('x0', -0.34)
        """
        engine, rows = self._fitted_engine(), self._rows(X)
        return engine.explain(rows, self.__dict__.get("feature_names_in_"))

    def summary(self) -> Summary:
        """Return standardized coefficients with 95% intervals, means and class means.

        There are intervals for least squares: two classes, or ``multi_class="ovr"``, without map,
        ``pooled_rows`` or ``half_life``. They assume independent rows whose features are normal
        within each class; ``note`` states it, or why the intervals are missing.

        Returns
        -------
        Summary
            Printed, it is a table.
        """
        return self._fitted_engine().summary(self.__dict__.get("feature_names_in_"))

    @property
    def classes_(self) -> Labels:
        """Labels seen, or declared, so far."""
        return self._engine_with_labels().labels

    @property
    def class_count_(self) -> Vector:
        """Weight of each class, not decayed; decayed where ``half_life`` is a time."""
        return self._engine_with_labels().class_count

    def __copy__(self: Self) -> Self:
        return copy.deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        return {
            name: one for name, one in super().__getstate__().items() if name != "_cached_params"
        }

    def __sklearn_is_fitted__(self) -> bool:
        engine = self.__dict__.get("_engine")
        return engine is not None and bool(engine.is_fitted)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # Engine

    def _wrap(self, engine: E, names: Any) -> None:
        """Use an engine, whose features have these names if any."""
        self._engine, self.n_features_in_ = engine, engine.n_features + engine.code_count
        if names is not None:
            self.feature_names_in_ = names

    def _replace_engine(self, engine: E) -> None:
        """Use another engine; without learned rows the features have no names."""
        attributes = {**self.__dict__, "_engine": engine}
        if not engine.is_fitted:
            attributes.pop("feature_names_in_", None)
        self.__dict__ = attributes

    def _params(self) -> Any:
        """Return the parameters, parsed; raise if one is invalid."""
        engine = self._engine_class
        return cached_parameters(self, engine.parameter_values, engine.read_parameters)

    def _current(self) -> E | None:
        """Return the engine with the parameters as they are now, or None."""
        kind, engine = self._engine_class, self.__dict__.get("_engine")
        params = cached_parameters(self, kind.parameter_values, kind.read_parameters)
        if engine is not None and engine.params is not params:
            engine.set_parameters(params)
        return engine

    def _fresh(self, engine: E | None) -> E:
        """Return an engine for the first rows, with the labels declared before."""
        return self._new_engine() if engine is None else copy.copy(engine)

    def _new_engine(self) -> E:
        """Return an engine that has learned nothing."""
        found: E = self._engine_class(self._params())
        return found

    def _fitted_engine(self) -> E:
        """Return the engine with the parameters as they are now; raise if no row is learned."""
        engine, params = self.__dict__.get("_engine"), self._params()
        if engine is None or not engine.is_fitted:
            raise not_fitted(self)
        if engine.params is not params:
            engine.set_parameters(params)
        return engine  # type: ignore[no-any-return]

    def _engine_with_labels(self) -> E:
        """Return the engine, even if only labels were declared."""
        if "_engine" not in self.__dict__:
            raise AttributeError(f"this {type(self).__name__} has learned nothing yet")
        return self._engine

    def _rows(self, X: Any) -> Rows:
        """Return rows, checked."""
        rows: Rows = array_validation.rows(self, X)
        validation.require_finite(rows, self.__dict__.get("feature_names_in_"))
        return rows

    def _score_rows(self, X: Any, link: bool = False) -> tuple[Matrix, Scores]:
        """Return the scores of rows, and the solved model."""
        engine = self._fitted_engine()
        rows, scores = self._rows(X), engine.scores(link)
        return scores.of(rows), scores

    def _contents(self) -> Contents:
        engine = self._current() or self._fitted_engine()
        return pack(engine, self.__dict__.get("feature_names_in_"))

    @classmethod
    def _from_contents(cls, contents: Contents) -> Any:
        engine = unpack(contents)
        return wrap(cls, engine, feature_names(contents, engine.n_features))


def not_fitted(estimator: Any) -> NotFittedError:
    """Return the error of an estimator without learned rows."""
    return NotFittedError(
        f"This {type(estimator).__name__} instance is not fitted yet, or all its rows were "
        "unlearned; call fit or partial_fit first"
    )


def engine_of(estimator: EstimatorBase[E]) -> E:
    """Return the engine of a fitted estimator, with its parameters."""
    return estimator._fitted_engine()


def new_engine(estimator: EstimatorBase[Any]) -> Any:
    """Return an engine with the parameters of an estimator that has learned nothing."""
    return estimator._new_engine()


def wrap(kind: type[Self], engine: Any, names: Any = None) -> Self:
    """Return an estimator that shares an engine, whose features have these names."""
    result = kind(**engine.params.estimator_parameters)
    result._wrap(engine, names)
    return result
