"""Metrics that depend only on the order of the scores: one sort gives all of them.

They are those of scikit-learn, whose module of metrics takes longer to import than most commands
take to run.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from counterpoise.arrays import Flags, Vector


@dataclass(frozen=True, eq=False)
class Ranking:
    """Rows found, and rows wrongly taken for positive, as the threshold falls from score to score.

    Attributes
    ----------
    found, wrong : ndarray of shape (m,)
        How many positive rows, and how many others, have at least the score of each threshold. Rows
        of equal scores are taken together.
    """

    found: Vector
    wrong: Vector

    @classmethod
    def of(cls, positive: Flags, score: Vector) -> Ranking:
        """Rank rows.

        Parameters
        ----------
        positive : ndarray of bool of shape (n,)
            Which rows are positive.
        score : ndarray of shape (n,)
            Their scores, which may be infinite.

        Returns
        -------
        Ranking
        """
        order = np.argsort(-score, kind="stable")
        ranked = score[order]
        last = np.flatnonzero(np.append(ranked[1:] != ranked[:-1], True))
        found = np.cumsum(positive[order], dtype=np.float64)[last]
        return cls(found, 1.0 + last - found)

    @property
    def recall(self) -> Vector:
        """Share of the positive rows that are found; 1 where there are none."""
        every = self.found[-1]
        recall: Vector = self.found / every if every else np.ones_like(self.found)
        return recall

    @property
    def precision(self) -> Vector:
        """Share of positive rows among those taken for positive."""
        return self.found / (self.found + self.wrong)

    @property
    def false_positives(self) -> Vector:
        """Share of the other rows that are taken for positive."""
        share: Vector = self.wrong / self.wrong[-1]
        return share

    def average_precision(self) -> float:
        """Σ (recall − recall before) precision."""
        return float(np.diff(self.recall, prepend=0.0) @ self.precision)

    def roc_auc(self) -> float:
        """Probability that a positive row has the higher score of two, ties counted half."""
        step = np.diff(self.false_positives, prepend=0.0)
        middle = self.recall - 0.5 * np.diff(self.recall, prepend=0.0)
        return float(step @ middle)

    def recall_within(self, rate: float) -> float:
        """Most that is found with so many false positives; 0 if every threshold has more."""
        return float(self.recall[self.false_positives <= rate].max(initial=0.0))

    def curve(self) -> tuple[Vector, Vector]:
        """Precision and recall from the lowest threshold to none, where nothing is found."""
        return np.append(self.precision[::-1], 1.0), np.append(self.recall[::-1], 0.0)
