"""Metrics of predictions and scores; an undefined metric is None, with a reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Flags, Labels, Matrix, Vector
from counterpoise.explanation import Explanation


class Confusion:
    """Counts of true and predicted labels.

    Attributes
    ----------
    counts : dict of (label, label) to int
        Rows by true and predicted label.

    Examples
    --------
    >>> from counterpoise.evaluate import Confusion
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
        """Add other counts.

        Parameters
        ----------
        other : Confusion
            The counts to add.
        """
        for pair, count in other.counts.items():
            self.counts[pair] = self.counts.get(pair, 0) + count

    @property
    def row_count(self) -> int:
        """Number of rows."""
        return sum(self.counts.values())

    @property
    def labels(self) -> list[Any]:
        """All true and predicted labels, sorted."""
        return sorted({label for pair in self.counts for label in pair})

    def recall(self) -> dict[Any, float]:
        """Return the share of the rows of each class that were found."""
        return self._shares(0)

    def precision(self) -> dict[Any, float]:
        """Return the share of the rows predicted as each class that are of it."""
        return self._shares(1)

    def _shares(self, side: int) -> dict[Any, float]:
        """Return the share of correct rows by true (0) or predicted (1) label."""
        total: dict[Any, int] = {}
        for pair, count in sorted(self.counts.items()):
            total[pair[side]] = total.get(pair[side], 0) + count
        return {label: self.counts.get((label, label), 0) / n for label, n in total.items()}

    def g_mean(self) -> float | None:
        """Return the geometric mean of the recalls; None with fewer than two classes."""
        recall = list(self.recall().values())
        return float(np.prod(recall) ** (1.0 / len(recall))) if len(recall) > 1 else None

    def balanced_accuracy(self) -> float | None:
        """Return the mean of the recalls; None with fewer than two classes."""
        recall = list(self.recall().values())
        return sum(recall) / len(recall) if len(recall) > 1 else None

    def plain(self) -> dict[str, Any]:
        """Return the counts and their metrics, ready for JSON."""
        confusion: dict[str, dict[str, int]] = {}
        for (true, predicted), count in sorted(self.counts.items()):
            confusion.setdefault(str(true), {})[str(predicted)] = count
        return {
            "scored": self.row_count,
            "g_mean": self.g_mean(),
            "balanced_accuracy": self.balanced_accuracy(),
            "recall": {str(label): value for label, value in self.recall().items()},
            "confusion": confusion,
        }


@dataclass(frozen=True, eq=False)
class Ranking:
    """Numbers of positive rows and of others with at least the score of each threshold."""

    found: Vector  # (m,) positive rows
    wrong: Vector  # (m,) other rows

    @classmethod
    def of(cls, positive: Flags, score: Vector) -> Ranking:
        """Rank rows. Shapes: positive (n,), score (n,)."""
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
        """Share of positive rows among all rows above each threshold."""
        return self.found / (self.found + self.wrong)

    @property
    def false_positives(self) -> Vector:
        """Share of the other rows above each threshold."""
        share: Vector = self.wrong / self.wrong[-1]
        return share

    def average_precision(self) -> float:
        """Return Σ (recall − recall before) precision."""
        return float(np.diff(self.recall, prepend=0.0) @ self.precision)

    def roc_auc(self) -> float:
        """Return the probability that a positive row has the higher score of two; ties are half."""
        step = np.diff(self.false_positives, prepend=0.0)
        middle = self.recall - 0.5 * np.diff(self.recall, prepend=0.0)
        return float(step @ middle)

    def recall_within(self, rate: float) -> float:
        """Return the highest recall at a rate of false positives; 0 if every threshold has more."""
        return float(self.recall[self.false_positives <= rate].max(initial=0.0))

    def curve(self) -> tuple[Vector, Vector]:
        """Return precision and recall from the lowest threshold to none, where recall is 0."""
        return np.append(self.precision[::-1], 1.0), np.append(self.recall[::-1], 0.0)


FALSE_POSITIVE_RATE = 0.01  # at which recall is reported
METRIC_NAMES = {
    "g_mean": "G-mean",
    "balanced_accuracy": "balanced accuracy",
    "recall": "recall",
    "precision": "precision",
    "average_precision": "average precision",
    "roc_auc": "ROC AUC",
    "recall_at_1pct": "recall at 1% FPR",
}  # names in tables
CLASS_METRICS = tuple(METRIC_NAMES)[2:]


@dataclass(frozen=True)
class Metrics:
    """Metrics of predictions.

    Attributes
    ----------
    confusion : Confusion
        Counts of predicted and true labels.
    by_class : dict
        For each true label: ``rows``, ``recall``, ``precision``, ``average_precision``,
        ``roc_auc`` and ``recall_at_1pct`` (false positives), the last three by its own scores
        against all other classes; None where undefined.
    undefined : dict of str to str
        Why a metric is None.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise.evaluate import measure
    >>> y, predicted, f = np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([-1.0, 0.2, 0.9])
    >>> found = measure(y, predicted, f, classes=np.array([0, 1]))
    >>> found.of(1)["recall"], found.of(1)["precision"], found.undefined
    (1.0, 0.5, {})
    """

    confusion: Confusion
    by_class: dict[Any, dict[str, float | None]]
    undefined: dict[str, str] = field(default_factory=dict)

    def of(self, positive: Any) -> dict[str, float | None]:
        """Return metrics of all classes, then of one class.

        Parameters
        ----------
        positive : label
            The class.
        """
        one = self.by_class.get(positive, {})
        return {
            "g_mean": self.confusion.g_mean(),
            "balanced_accuracy": self.confusion.balanced_accuracy(),
            **{name: one.get(name) for name in CLASS_METRICS},
        }

    def plain(self) -> dict[str, Any]:
        """Return all metrics, ready for JSON."""
        return {
            **self.confusion.plain(),
            "by_class": {str(label): row for label, row in self.by_class.items()},
            "undefined": self.undefined,
        }


def measure(true: Labels, predicted: Labels, scores: Matrix, classes: Labels) -> Metrics:
    """Return metrics of predictions.

    Parameters
    ----------
    true, predicted : ndarray of shape (n,)
        Labels.
    scores : ndarray of shape (n,) or (n, c)
        Scores of the second of two classes, or of each class.
    classes : ndarray of shape (c,)
        The classes, in the order of the scores.

    Examples
    --------
    >>> from counterpoise.evaluate import measure
    >>> y = np.array([0, 0, 0, 1])
    >>> found = measure(y, y, np.array([-1.0, -0.5, 0.2, 0.9]), np.array([0, 1]))
    >>> found.of(1)["average_precision"], found.confusion.g_mean()
    (1.0, 1.0)
    """
    confusion = Confusion()
    if len(true):
        confusion.add(true, predicted)
    recall, precision = confusion.recall(), confusion.precision()
    undefined: dict[str, str] = {}
    if len(recall) < 2:
        only = f"only {next(iter(recall))!r} is" if recall else "no class is"
        undefined["g_mean"] = undefined["balanced_accuracy"] = f"{only} in the data"
    by_class: dict[Any, dict[str, float | None]] = {}
    for k, label in enumerate(classes.tolist()):
        row: dict[str, float | None] = {"rows": float((true == label).sum())}
        row["recall"], row["precision"] = recall.get(label), precision.get(label)
        if label not in recall:
            undefined[f"recall of {label}"] = f"no {label!r} is in the data"
        if label not in precision:
            undefined[f"precision of {label}"] = f"{label!r} was never predicted"
        row |= _ranking_metrics(true == label, _score(scores, k, len(classes)), label, undefined)
        by_class[label] = row
    for label in recall:
        if label not in by_class:
            undefined[f"score of {label}"] = (
                f"{label!r} was never learned, so no row of it is found"
            )
            rows = float((true == label).sum())
            by_class[label] = {**dict.fromkeys(CLASS_METRICS[1:]), "rows": rows, "recall": 0.0}
    return Metrics(confusion, by_class, undefined)


def _score(scores: Matrix, k: int, c: int) -> Vector:
    """Return the scores of one class against all others."""
    if scores.ndim == 2 and scores.shape[1] > 1:
        return scores[:, k]
    flat = scores.ravel()
    return flat if k == c - 1 else -flat


def _ranking_metrics(
    positive: NDArray[np.bool_], score: Vector, label: Any, undefined: dict[str, str]
) -> dict[str, float | None]:
    """Return the metrics that depend only on the order of the scores."""
    if positive.all() or not positive.any():
        what = "no other class" if positive.any() else f"no {label!r}"
        for name in CLASS_METRICS[2:]:
            undefined[f"{METRIC_NAMES[name]} of {label}"] = f"{what} is in the data"
        return dict.fromkeys(CLASS_METRICS[2:])
    ranking = Ranking.of(positive, score)
    return {
        "average_precision": ranking.average_precision(),
        "roc_auc": ranking.roc_auc(),
        "recall_at_1pct": ranking.recall_within(FALSE_POSITIVE_RATE),
    }


MAIN_METHOD = "BalancedRidgeClassifier"  # of a benchmark
CUSTOM_METHOD = "own options"  # the exact model with the options of the user


@dataclass(frozen=True, eq=False)
class Result:
    """Result of one method on one stream.

    Attributes
    ----------
    name : str
        Name of the method.
    predicted : ndarray of shape (n,)
        Predicted labels, each before the row was learned.
    scores : ndarray of shape (n,) or (n, c)
        Scores of the second of two classes, or of each class, in the order of the labels.
    first : int
        Number of rows at the beginning that do not count.
    metrics : Metrics
        Metrics of the rows that count.
    microseconds : float
        Time per row, for predicting and learning.
    weights : ndarray of shape (d,) or (c, d)
        Final weights, for features of standard deviation 1; None where scores are quadratic.
    terms : list of str, optional
        Names of the weights, if they are not those of the features.
    reasons : Explanation, optional
        Explanation of the last rows by the final model.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from counterpoise.evaluate import run_benchmark
    >>> from counterpoise.online import AROW
    >>> X, y = make_classification(300, weights=[0.8], random_state=0)
    >>> (result,) = run_benchmark(X, y, {"AROW": AROW()})
    >>> result.name, result.predicted.shape, round(result.metrics.of(1)["g_mean"], 2)
    ('AROW', (300,), 0.8)
    """

    name: str
    predicted: Labels
    scores: Matrix
    first: int
    metrics: Metrics
    microseconds: float
    weights: Matrix | None
    terms: list[str] | None = None
    reasons: Explanation | None = None
