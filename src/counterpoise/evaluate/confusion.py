"""Counts of true and predicted labels, and the metrics that follow from them."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterpoise.arrays import Labels


class Confusion:
    """Counts of true and predicted labels.

    Attributes
    ----------
    counts : dict of (label, label) to int
        Rows by true and predicted label.

    Examples
    --------
    >>> from counterpoise.evaluate.confusion import Confusion
    >>> seen = Confusion()
    >>> seen.add(np.array([0, 0, 0, 0, 1, 1]), np.array([0, 0, 0, 1, 1, 0]))
    >>> seen.recall(), round(seen.g_mean(), 4)
    ({0: 0.75, 1: 0.5}, 0.6124)
    """

    def __init__(self) -> None:
        self.counts: dict[tuple[Any, Any], int] = {}

    def add(self, true: Labels, predicted: Labels) -> None:
        """Count rows.

        Parameters
        ----------
        true, predicted : ndarray of shape (n,)
            Labels.
        """
        pairs, times = np.unique(np.stack([true, predicted]), axis=1, return_counts=True)
        for one, other, count in zip(*pairs.tolist(), times.tolist(), strict=True):
            self.counts[one, other] = self.counts.get((one, other), 0) + count

    def merge(self, other: Confusion) -> None:
        """Add the counts of another.

        Parameters
        ----------
        other : Confusion
            The counts to add.
        """
        for pair, count in other.counts.items():
            self.counts[pair] = self.counts.get(pair, 0) + count

    @property
    def scored(self) -> int:
        """Rows counted."""
        return sum(self.counts.values())

    @property
    def labels(self) -> list[Any]:
        """All true and predicted labels, sorted."""
        return sorted({label for pair in self.counts for label in pair})

    def recall(self) -> dict[Any, float]:
        """Share of the rows of each class that were found."""
        total: dict[Any, int] = {}
        for (true, _), count in sorted(self.counts.items()):
            total[true] = total.get(true, 0) + count
        return {label: self.counts.get((label, label), 0) / n for label, n in total.items()}

    def precision(self) -> dict[Any, float]:
        """Share of the rows predicted as each class that are of it."""
        total: dict[Any, int] = {}
        for (_, predicted), count in sorted(self.counts.items()):
            total[predicted] = total.get(predicted, 0) + count
        return {label: self.counts.get((label, label), 0) / n for label, n in total.items()}

    def g_mean(self) -> float | None:
        """Geometric mean of the recalls; None with fewer than two classes."""
        recall = list(self.recall().values())
        return float(np.prod(recall) ** (1.0 / len(recall))) if len(recall) > 1 else None

    def balanced_accuracy(self) -> float | None:
        """Mean of the recalls; None with fewer than two classes."""
        recall = list(self.recall().values())
        return sum(recall) / len(recall) if len(recall) > 1 else None

    def plain(self) -> dict[str, Any]:
        """The counts and their metrics, ready for JSON."""
        confusion: dict[str, dict[str, int]] = {}
        for (true, predicted), count in sorted(self.counts.items()):
            confusion.setdefault(str(true), {})[str(predicted)] = count
        return {
            "scored": self.scored,
            "g_mean": self.g_mean(),
            "balanced_accuracy": self.balanced_accuracy(),
            "recall": {str(label): value for label, value in self.recall().items()},
            "confusion": confusion,
        }
