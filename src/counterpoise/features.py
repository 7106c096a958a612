"""Stateless maps of the features: polynomials, complete and reduced.

A map comes before the moments, so that whatever is promised of a model holds on its output. All
are scikit-learn transformers that learn nothing from the data but its width.
"""

from __future__ import annotations

from math import comb
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import PolynomialFeatures
from sklearn.utils.validation import check_is_fitted, validate_data

from counterpoise.arrays import Labels, Matrix


class _Map(TransformerMixin, BaseEstimator):
    """A map whose output depends on the row alone."""

    order: int

    def fit(self, X: ArrayLike, y: Any = None) -> _Map:
        """Take note of the number of features.

        Parameters
        ----------
        X : array-like of shape (n, l)
            The rows.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        _require_order(self.order)
        validate_data(self, X)
        return self

    def transform(self, X: ArrayLike) -> Matrix:
        """Map the rows.

        Parameters
        ----------
        X : array-like of shape (n, l)
            The rows.

        Returns
        -------
        ndarray of shape (n, terms)
        """
        check_is_fitted(self, "n_features_in_")
        _require_order(self.order)
        with np.errstate(over="ignore", invalid="ignore"):
            terms = self._map(validate_data(self, X, reset=False, dtype=np.float64))
        if not np.isfinite(terms).all():
            raise ValueError(f"powers up to {self.order} overflow; scale the features to [0, 1]")
        return terms

    def get_feature_names_out(self, input_features: Any = None) -> Labels:
        """Names of the terms.

        Parameters
        ----------
        input_features : array-like of shape (l,), optional
            Names of the features; by default those seen in fit, or x0, x1, ...

        Returns
        -------
        ndarray of shape (terms,)
        """
        check_is_fitted(self, "n_features_in_")
        return self._names(self._complete().get_feature_names_out(input_features)[1:])

    def _complete(self, order: int = 1) -> PolynomialFeatures:
        """scikit-learn's map, which knows names, fitted to the same features."""
        same = PolynomialFeatures(order).fit(np.zeros((1, self.n_features_in_)))
        if hasattr(self, "feature_names_in_"):
            same.feature_names_in_ = self.feature_names_in_
        return same

    def _map(self, X: Matrix) -> Matrix:
        raise NotImplementedError

    def _names(self, names: Labels) -> Labels:
        raise NotImplementedError


class Polynomial(_Map):
    """All monomials of total degree up to ``order``, without the constant 1.

    Their number is C(l + r, r) − 1: 1,890 for 60 features and order 2.

    Parameters
    ----------
    order : int, default=2
        r, the highest total degree.
    constant : bool, default=False
        Put a 1 first; classifiers here add a constant themselves.

    Examples
    --------
    >>> from counterpoise.features import Polynomial
    >>> Polynomial(2).fit_transform([[0.5, 0.25]]).tolist()
    [[0.5, 0.25, 0.25, 0.125, 0.0625]]
    """

    def __init__(self, order: int = 2, *, constant: bool = False) -> None:
        self.order = order
        self.constant = constant

    def _map(self, X: Matrix) -> Matrix:
        terms: Matrix = self._complete(self.order).transform(X)
        return terms if self.constant else terms[:, 1:]

    def get_feature_names_out(self, input_features: Any = None) -> Labels:
        """Names of the terms; see :meth:`ReducedPolynomial.get_feature_names_out`."""
        check_is_fitted(self, "n_features_in_")
        names: Labels = self._complete(self.order).get_feature_names_out(input_features)
        return names if self.constant else names[1:]


class ReducedPolynomial(_Map):
    """The reduced multivariate model (RM): 1 + r + l(2r − 1) terms instead of C(l + r, r).

    With s = x₁ + … + x_l the terms are x_j^k for k = 1..r, s^k for k = 1..r, and x_j s^k for
    k = 1..r − 1; their names call it Σ. At order 1 the sum is collinear with the features:
    harmless to ridge regression, harmful to first-order rules.

    Parameters
    ----------
    order : int, default=2
        r.
    constant : bool, default=False
        Put a 1 first; classifiers here add a constant themselves.

    References
    ----------
    Toh, Tran and Srinivasan, "Benchmarking a reduced multivariate polynomial pattern classifier",
    IEEE TPAMI 26, 2004.

    Examples
    --------
    >>> from counterpoise.features import ReducedPolynomial
    >>> ReducedPolynomial(2).fit_transform([[0.5, 0.25]]).tolist()
    [[0.5, 0.25, 0.25, 0.0625, 0.75, 0.5625, 0.375, 0.1875]]
    """

    def __init__(self, order: int = 2, *, constant: bool = False) -> None:
        self.order = order
        self.constant = constant

    def _map(self, X: Matrix) -> Matrix:
        r = self.order
        s = X.sum(axis=1, keepdims=True)
        one = [np.ones((len(X), 1))] if self.constant else []
        powers = [X**k for k in range(1, r + 1)]
        sums = [s**k for k in range(1, r + 1)]
        products = [X * s**k for k in range(1, r)]
        return np.concatenate([*one, *powers, *sums, *products], axis=1)

    def _names(self, names: Labels) -> Labels:
        r = self.order

        def power(name: str, k: int) -> str:
            return name if k == 1 else f"{name}^{k}"

        terms = ["1"] if self.constant else []
        terms += [power(name, k) for k in range(1, r + 1) for name in names]
        terms += [power("Σ", k) for k in range(1, r + 1)]
        terms += [f"{name} {power('Σ', k)}" for k in range(1, r) for name in names]
        return np.array(terms, dtype=object)


def _require_order(order: Any) -> None:
    if not isinstance(order, Integral) or isinstance(order, bool) or order < 1:
        raise ValueError(f"order must be a whole number from 1 on, not {order!r}")


def terms(features: int, order: int, reduced: bool) -> int:
    """Count the terms of a polynomial, the constant among them.

    Parameters
    ----------
    features : int
        l, the number of features.
    order : int
        r.
    reduced : bool
        Of the reduced model, or of the complete polynomial.

    Returns
    -------
    int

    Examples
    --------
    >>> from counterpoise.features import terms
    >>> terms(60, 2, reduced=False), terms(60, 2, reduced=True)
    (1891, 183)
    """
    _require_order(order)
    return 1 + order + features * (2 * order - 1) if reduced else comb(features + order, order)
