"""RiskClassifier: probabilities and decisions under the stream's own frequencies."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils.validation import check_is_fitted

from counterpoise import validate
from counterpoise.arrays import Labels, Matrix
from counterpoise.classifier import BalancedRidgeClassifier
from counterpoise.exact.unseen import warn_of_absent
from counterpoise.exact.weighting import Costs, by_label
from counterpoise.reasons import Reasons


class RiskClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """A classifier whose ``predict_proba`` is the risk: that under the stream's own frequencies.

    It is for those who know what a mistake costs, and for what scikit-learn builds on
    ``predict_proba``: scorers, ``cross_val_predict``, ``TunedThresholdClassifierCV``. It learns
    nothing of its own.

    Parameters
    ----------
    estimator : estimator, optional
        One with ``stream_proba``; by default a :class:`~counterpoise.BalancedRidgeClassifier`.
    costs : dict, optional
        What it costs to miss a row of each label; labels missing from it cost 1. The prediction is
        the label of least expected cost. Without costs it is the most probable one, which for a
        rare class is seldom the rare one.

    Attributes
    ----------
    estimator_ : estimator
        What was learned.
    classes_ : ndarray of shape (c,)
        Labels seen, or declared, so far.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise import RiskClassifier
    >>> rng = np.random.default_rng(0)
    >>> y = (rng.random(2000) < 0.02).astype(int)
    >>> X = rng.standard_normal((2000, 1)) + 2.0 * y[:, None]
    >>> model = RiskClassifier(costs={1: 20}).fit(X, y)  # a fraud missed costs 20 false alarms
    >>> round(float(model.predict_proba(X)[:, 1].mean()), 2), int(model.predict(X).sum())
    (0.02, 209)
    """

    def __init__(self, estimator: Any = None, *, costs: Costs = None) -> None:
        self.estimator = estimator
        self.costs = costs

    def fit(self, X: ArrayLike, y: ArrayLike, **params: Any) -> RiskClassifier:
        """Learn from these rows alone.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows.
        y : array-like of shape (n,)
            Their labels.
        **params : object
            Passed on, such as ``sample_weight``.

        Returns
        -------
        self
        """
        validate.factors(self, "costs")
        self.estimator_ = self._begun().fit(X, y, **params)
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, **params: Any) -> RiskClassifier:
        """Learn from more rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows.
        y : array-like of shape (n,)
            Their labels.
        **params : object
            Passed on, such as ``classes``.

        Returns
        -------
        self
        """
        validate.factors(self, "costs")
        learned = self.__dict__.get("estimator_")
        self.estimator_ = (self._begun() if learned is None else learned).partial_fit(
            X, y, **params
        )
        return self

    def predict_proba(self, X: ArrayLike) -> Matrix:
        """Probabilities under the stream's own frequencies.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows.

        Returns
        -------
        ndarray of shape (n, c)
        """
        check_is_fitted(self)
        p: Matrix = self.estimator_.stream_proba(X)
        return p

    def predict(self, X: ArrayLike) -> Labels:
        """Labels of least expected cost.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows.

        Returns
        -------
        ndarray of shape (n,)
        """
        p = self.predict_proba(X)
        labels: Labels = self.classes_
        warn_of_absent(
            "costs", self.costs, labels.tolist(), float(self.estimator_.class_count_.sum())
        )
        best: Labels = labels[np.argmax(p * by_label(labels, self.costs), axis=1)]
        return best

    def explain(self, X: ArrayLike) -> Reasons:
        """Say what each feature contributes to the scores of rows.

        The risk is a function of these scores and of the frequencies of the classes alone, so
        these are the reasons of the risk too.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows.

        Returns
        -------
        Reasons
            See :meth:`BalancedRidgeClassifier.explain`.
        """
        check_is_fitted(self)
        reasons: Reasons = self.estimator_.explain(X)
        return reasons

    @property
    def classes_(self) -> Labels:
        """Labels seen, or declared, so far."""
        if "estimator_" not in self.__dict__:
            raise AttributeError("this RiskClassifier has learned nothing yet")
        labels: Labels = self.estimator_.classes_
        return labels

    @property
    def n_features_in_(self) -> int:
        """Number of features."""
        if "estimator_" not in self.__dict__:
            raise AttributeError("this RiskClassifier has learned nothing yet")
        count: int = self.estimator_.n_features_in_
        return count

    def __sklearn_is_fitted__(self) -> bool:
        return "estimator_" in self.__dict__ and bool(self.estimator_.__sklearn_is_fitted__())

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _begun(self) -> Any:
        return BalancedRidgeClassifier() if self.estimator is None else clone(self.estimator)
