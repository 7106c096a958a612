"""What all maps of features have in common: a row becomes a longer row, whatever other rows are.

A map comes before the moments, so that whatever is promised of a model holds on its output. Maps
are scikit-learn transformers that learn nothing from the data but its width; some draw random
numbers for it, from their own seed.
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

    # What a classifier asks of a map

    @property
    def text(self) -> str:
        """The map as the command line and model files name it."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise if a parameter has no meaning."""
        raise NotImplementedError

    def count(self, inputs: int) -> int:
        """How many terms a row of l features has."""
        raise NotImplementedError

    def apply(self, X: Matrix, drawn: Matrix) -> Matrix:
        """Terms of rows, given the random numbers of the map."""
        raise NotImplementedError

    def names(self, names: Sequence[str]) -> list[str]:
        """Names of the terms, given those of the features."""
        raise NotImplementedError

    def places(self, at: NDArray[np.intp], inputs: int) -> NDArray[np.intp]:
        """Where each term goes when feature j becomes feature at[j] of l; other features are 0."""
        raise NotImplementedError

    @property
    def draws(self) -> int:
        """Random numbers that a feature takes; of most maps none."""
        return 0

    def draw(self, inputs: int) -> Matrix:
        """Random numbers, one column a feature; of most maps none."""
        return np.empty((0, inputs))

    def draw_late(self, name: str, inputs: int) -> Matrix:
        """Random numbers, as one column, of a feature that appears after l others were drawn."""
        return np.empty((0, 1))


def whole(name: str, value: Any, least: int = 1) -> None:
    """Raise unless the parameter ``name`` is a whole number of at least ``least``."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} must be a whole number from {least} on, not {value!r}")
