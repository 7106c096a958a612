"""The base class of all maps of features: a row becomes a longer row, independently of other rows.

A map comes before the moments, so every guarantee of a model also holds for the mapped features.
Maps are scikit-learn transformers that learn only the number of features; some draw random numbers
from their own seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from counterpoise.arrays import Labels, Matrix


class Map(TransformerMixin, BaseEstimator):
    """A map whose output depends on the row alone."""

    drawn_: Matrix
    n_features_in_: int

    def fit(self, X: ArrayLike, y: Any = None) -> Map:
        """Record the number of features.

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
        self.check()
        validate_data(self, X)
        self.drawn_ = self.draw(self.n_features_in_)
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
        self.check()
        with np.errstate(over="ignore", invalid="ignore"):
            terms = self.apply(validate_data(self, X, reset=False, dtype=np.float64), self.drawn_)
        if not np.isfinite(terms).all():
            raise ValueError(f"terms of {self.text} overflow; scale the features to [0, 1]")
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
        inputs, seen = self.n_features_in_, getattr(self, "feature_names_in_", None)
        if input_features is None:
            names = [f"x{j}" for j in range(inputs)] if seen is None else seen.tolist()
        else:
            names = list(np.asarray(input_features, dtype=object))
            if seen is not None and names != seen.tolist():
                raise ValueError("input_features is not equal to feature_names_in_")
            if len(names) != inputs:
                raise ValueError(
                    f"input_features should have length equal to number of features "
                    f"({inputs}), got {len(names)}"
                )
        return np.array(self.names(names), dtype=object)

    # What a classifier needs of a map

    @property
    def text(self) -> str:
        """The name of the map on the command line and in model files."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise if a parameter has no meaning."""
        raise NotImplementedError

    def count(self, inputs: int) -> int:
        """Number of terms of a row of l features."""
        raise NotImplementedError

    def apply(self, X: Matrix, drawn: Matrix) -> Matrix:
        """Terms of shape (n, terms) of rows X, given the random numbers of the map."""
        raise NotImplementedError

    def names(self, names: Sequence[str]) -> list[str]:
        """Names of the terms, given those of the features."""
        raise NotImplementedError

    def places(self, at: NDArray[np.intp], inputs: int) -> NDArray[np.intp]:
        """New place of each term when feature j becomes feature at[j] of l; the others are 0."""
        raise NotImplementedError

    @property
    def draws(self) -> int:
        """Random numbers per feature; 0 for most maps."""
        return 0

    def draw(self, inputs: int) -> Matrix:
        """Random numbers of shape (draws, l); empty for most maps."""
        return np.empty((0, inputs))

    def draw_late(self, name: str, inputs: int) -> Matrix:
        """Random numbers, as one column, of a feature that appears after the first l."""
        return np.empty((0, 1))


def whole(name: str, value: Any, least: int = 1) -> None:
    """Raise unless the parameter ``name`` is a whole number of at least ``least``."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")
