"""Rules in which the weight of a row has a meaning."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike


class Weighted:
    """For rules in which the weight of a row has a meaning; comes before
    :class:`~counterpoise.online.rule.OnlineRule`.
    """

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Any:
        """Learn from these rows alone, in one pass in the given order.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows.
        y : array-like of shape (n,)
            Their labels, two different ones.
        sample_weight : array-like of shape (n,), optional
            Weight of each row in the sum of squares.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight)  # type: ignore[attr-defined]

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Any:
        """Learn from more rows, in the given order.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows.
        y : array-like of shape (n,)
            Their labels.
        classes : array-like of shape (2,), optional
            Both labels; needed by the first call unless y holds both.
        sample_weight : array-like of shape (n,), optional
            Weight of each row in the sum of squares.

        Returns
        -------
        self
        """
        return self._partial_fit(X, y, classes, sample_weight)  # type: ignore[attr-defined]
