"""CostSensitiveClassifier: probabilities and decisions under the observed class frequencies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from counterpoise import validation
from counterpoise.arrays import Labels, Matrix
from counterpoise.estimators.balanced_ridge import BalancedRidgeClassifier
from counterpoise.explanation import Explanation
from counterpoise.public_names import document_like
from counterpoise.solver.class_weights import ClassFactors, by_label
from counterpoise.solver.options import warn_absent_label, warn_unknown_label

MAX_LOG_ODDS = 700.0


def inner_estimator(outer: CostSensitiveClassifier) -> Any:
    """Return the classifier that is cloned before it learns."""
    inner = outer.estimator
    if inner is None:
        return BalancedRidgeClassifier(calibrate=True)
    if isinstance(inner, Mapping):
        raise TypeError(
            "estimator is a dict, and costs is a keyword; use "
            f"CostSensitiveClassifier(costs={dict(inner)!r})"
        )
    if _learns_only_events(inner):
        raise TypeError(
            f"estimator: the {type(inner).__name__} of river learns events, and "
            "CostSensitiveClassifier takes classifiers for arrays, with fit and predict_proba; use "
            "counterpoise.BalancedRidgeClassifier, or in a loop of events "
            "counterpoise.evaluate.should_alert(p, miss, alarm), with p from "
            "predict_stream_proba_one"
        )
    if not hasattr(inner, "predict_proba"):
        raise TypeError(
            f"estimator: a {type(inner).__name__} has no predict_proba; use a classifier with "
            "probabilities, or CalibratedClassifierCV around this one"
        )
    return inner


def _learns_only_events(estimator: Any) -> bool:
    """Return whether this is a model of river."""
    return hasattr(estimator, "learn_one") and not hasattr(estimator, "fit")


def _inner_has(name: str) -> Callable[[Any], bool]:
    """Return a check whether the classifier inside has a method."""

    def check(outer: CostSensitiveClassifier) -> bool:
        if _learns_only_events(outer.estimator):
            return name == "partial_fit"  # calling it raises the error that names a remedy
        inner = outer.__dict__.get("estimator_", inner_estimator(outer))
        getattr(inner, name)  # an AttributeError names it
        return True

    return check


class CostSensitiveClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Classifier whose ``predict_proba`` is under the observed class frequencies.

    It is for decisions by the costs of mistakes, and for what scikit-learn builds on
    ``predict_proba``: scorers, ``cross_val_predict``, ``TunedThresholdClassifierCV``. It learns
    nothing of its own.

    Parameters
    ----------
    estimator : estimator, optional
        A classifier with ``predict_stream_proba``, by default
        ``BalancedRidgeClassifier(calibrate=True)``. Of any other classifier ``predict_proba`` is
        used, which is right if it was fitted without class weights.
    costs : dict, optional
        Cost of missing a row of each label, by default 1. The prediction is the label of least
        expected cost. Without costs it is the most probable label, seldom that of a rare class.

    Attributes
    ----------
    estimator_ : estimator
        The fitted classifier. Its methods ``partial_fit``, ``predict_stream_proba``, ``explain``,
        ``unlearn`` and ``merge`` are methods of the CostSensitiveClassifier, too. To save a model,
        save the fitted classifier.
    classes_ : ndarray of shape (c,)
        Labels seen, or declared, so far.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (d,)
        Their names, where X has names that are all strings.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise import CostSensitiveClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = (rng.random(2000) < 0.02).astype(int)
    >>> X = rng.standard_normal((2000, 1)) + 2.0 * y[:, None]
    >>> model = CostSensitiveClassifier(costs={1: 20}).fit(X, y)  # a miss costs 20 false alarms
    >>> round(float(model.predict_proba(X)[:, 1].mean()), 2), int(model.predict(X).sum())
    (0.03, 202)
    """

    def __init__(self, estimator: Any = None, *, costs: ClassFactors = None) -> None:
        self.estimator = estimator
        self.costs = costs

    @document_like(BalancedRidgeClassifier.fit)
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, **params: Any
    ) -> CostSensitiveClassifier:
        """Learn from these rows alone; ``params`` such as ``t`` go to the classifier inside."""
        self._learn("fit", clone(inner_estimator(self)), X, y, sample_weight, params)
        return self

    @available_if(_inner_has("partial_fit"))  # type: ignore[untyped-decorator]
    @document_like(BalancedRidgeClassifier.partial_fit)
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None, **params: Any
    ) -> CostSensitiveClassifier:
        """Learn from more rows; ``params`` such as ``classes`` go to the classifier inside."""
        learned = self.__dict__.get("estimator_")
        inner = clone(inner_estimator(self)) if learned is None else learned
        self._learn("partial_fit", inner, X, y, sample_weight, params)
        return self

    def _learn(
        self, method: str, inner: Any, X: Any, y: Any, sample_weight: Any, params: dict[str, Any]
    ) -> None:
        """Call a method of the classifier inside, with the parameters that are for it."""
        validation.check_label_dict(self, "costs")
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, method, **params, sample_weight=sample_weight)
            params = routed.estimator[method]
        elif sample_weight is not None:
            params = {**params, "sample_weight": sample_weight}
        self.estimator_ = getattr(inner, method)(X, y, **params)
        if method == "fit":
            warn_unknown_label("costs", self.costs, self.classes_.tolist(), stacklevel=4)

    @document_like(BalancedRidgeClassifier.predict_proba)
    def predict_proba(self, X: ArrayLike) -> Matrix:
        """Return probabilities under the observed class frequencies."""
        check_is_fitted(self)
        inner = self.estimator_
        steps = getattr(inner, "steps", None)
        if steps and hasattr(steps[-1][1], "predict_stream_proba"):  # a pipeline has no such method
            X = inner[:-1].transform(X) if len(steps) > 1 else X
            inner = steps[-1][1]
        has_stream = hasattr(inner, "predict_stream_proba")
        p: Matrix = (inner.predict_stream_proba if has_stream else inner.predict_proba)(X)
        return p

    @available_if(_inner_has("predict_stream_proba"))  # type: ignore[untyped-decorator]
    @document_like(BalancedRidgeClassifier.predict_proba)
    def predict_stream_proba(self, X: ArrayLike) -> Matrix:
        """Return the same as :meth:`predict_proba`."""
        return self.predict_proba(X)

    @document_like(BalancedRidgeClassifier.decision_function)
    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Return the log-odds of the expected cost of each class against all others.

        Of two classes the second is predicted above 0, of several the class with the largest.
        """
        expected = self._expected_costs(X)
        others = expected.sum(axis=1, keepdims=True) - expected
        if expected.shape[1] == 2:
            others = expected[:, ::-1]
        with np.errstate(divide="ignore", invalid="ignore"):
            odds = np.log(expected) - np.log(np.maximum(others, 0.0))
        odds = np.clip(np.nan_to_num(odds), -MAX_LOG_ODDS, MAX_LOG_ODDS)
        result: NDArray[np.float64] = odds[:, -1] if odds.shape[1] <= 2 else odds
        return result

    @document_like(BalancedRidgeClassifier.predict)
    def predict(self, X: ArrayLike) -> Labels:
        """Return the labels of least expected cost."""
        expected = self._expected_costs(X)
        labels: Labels = self.classes_
        if hasattr(self.estimator_, "class_count_"):
            rows = float(self.estimator_.class_count_.sum())
            warn_absent_label("costs", self.costs, labels.tolist(), rows)
        best: Labels = labels[np.argmax(expected, axis=1)]
        return best

    @available_if(_inner_has("explain"))  # type: ignore[untyped-decorator]
    @document_like(BalancedRidgeClassifier.explain)
    def explain(self, X: ArrayLike) -> Explanation:
        """Return what each feature contributes to the scores of rows.

        The probabilities are functions of these scores and of the class frequencies alone.
        """
        check_is_fitted(self)
        found: Explanation = self.estimator_.explain(X)
        return found

    @available_if(_inner_has("unlearn"))  # type: ignore[untyped-decorator]
    @document_like(BalancedRidgeClassifier.unlearn)
    def unlearn(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> CostSensitiveClassifier:
        """Unlearn rows."""
        check_is_fitted(self)
        self.estimator_.unlearn(X, y, sample_weight)
        return self

    @available_if(_inner_has("merge"))  # type: ignore[untyped-decorator]
    @document_like(BalancedRidgeClassifier.merge)
    def merge(self, other: CostSensitiveClassifier) -> CostSensitiveClassifier:
        """Return a model that has learned the rows of this one, then the rows of the other."""
        if not isinstance(other, CostSensitiveClassifier):
            raise TypeError(
                f"can only merge with a CostSensitiveClassifier; got {type(other).__name__}"
            )
        if self.costs != other.costs:
            raise ValueError(
                f"cannot merge models with different options: costs is {self.costs!r} here and "
                f"{other.costs!r} there"
            )
        check_is_fitted(self)
        check_is_fitted(other)
        result: CostSensitiveClassifier = clone(self)
        result.estimator_ = self.estimator_.merge(other.estimator_)
        return result

    @property
    def classes_(self) -> Labels:
        """Labels seen, or declared, so far."""
        labels: Labels = self._fitted_classifier().classes_
        return labels

    @property
    def n_features_in_(self) -> int:
        """Number of features."""
        count: int = self._fitted_classifier().n_features_in_
        return count

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Names of the features, where they have any."""
        names: NDArray[Any] = self._fitted_classifier().feature_names_in_
        return names

    def get_metadata_routing(self) -> MetadataRouter:
        """Return which metadata goes to the classifier inside.

        Returns
        -------
        MetadataRouter
        """
        mapping = MethodMapping().add(caller="fit", callee="fit")
        mapping.add(caller="partial_fit", callee="partial_fit")
        router = MetadataRouter(owner=type(self).__name__).add_self_request(self)
        return router.add(estimator=inner_estimator(self), method_mapping=mapping)

    def __sklearn_is_fitted__(self) -> bool:
        inner = self.__dict__.get("estimator_")
        if inner is None or not hasattr(inner, "__sklearn_is_fitted__"):
            return inner is not None
        return bool(inner.__sklearn_is_fitted__())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = get_tags(inner_estimator(self)).input_tags.sparse
        return tags

    def _fitted_classifier(self) -> Any:
        """Return the fitted classifier."""
        if "estimator_" not in self.__dict__:
            raise AttributeError("this CostSensitiveClassifier has learned nothing yet")
        return self.estimator_

    def _expected_costs(self, X: ArrayLike) -> Matrix:
        """Return the expected cost of missing each class, of shape (n, c)."""
        expected: Matrix = self.predict_proba(X) * by_label(self.classes_, self.costs)
        return expected
