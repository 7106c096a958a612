"""Metrics of predictions and scores; an undefined metric is None, with a reason."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Matrix, Vector
from counterpoise.evaluate.confusion import Confusion
from counterpoise.evaluate.ranking import Ranking

FALSE_POSITIVES = 0.01  # rate at which recall is reported


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
    >>> from counterpoise.evaluate.metrics import measure
    >>> true, said, scores = np.array([0, 0, 1]), np.array([0, 1, 1]), np.array([-1.0, 0.2, 0.9])
    >>> found = measure(true, said, scores, classes=np.array([0, 1]))
    >>> found.of(1)["recall"], found.of(1)["precision"], found.undefined
    (1.0, 0.5, {})
    """

    confusion: Confusion
    by_class: dict[Any, dict[str, float | None]]
    undefined: dict[str, str] = field(default_factory=dict)

    def of(self, positive: Any) -> dict[str, float | None]:
        """Metrics in one row: those of all classes, then those of one.

        Parameters
        ----------
        positive : label
            The class of interest.

        Returns
        -------
        dict of str to float or None
        """
        nothing = dict.fromkeys(
            ("rows", "recall", "precision", "average_precision", "roc_auc", "recall_at_1pct")
        )
        one = {**nothing, **self.by_class.get(positive, {})}
        one.pop("rows")
        whole = {
            "g_mean": self.confusion.g_mean(),
            "balanced_accuracy": self.confusion.balanced_accuracy(),
        }
        return whole | one

    def plain(self) -> dict[str, Any]:
        """All metrics, ready for JSON."""
        return {
            **self.confusion.plain(),
            "by_class": {str(label): row for label, row in self.by_class.items()},
            "undefined": self.undefined,
        }


def measure(true: Labels, predicted: Labels, scores: Matrix, classes: Labels) -> Metrics:
    """Compute metrics of predictions.

    Parameters
    ----------
    true, predicted : ndarray of shape (n,)
        Labels.
    scores : ndarray of shape (n,) or (n, c)
        Scores of the second of two classes, or of each class.
    classes : ndarray of shape (c,)
        The classes, in the order of the scores.

    Returns
    -------
    Metrics

    Examples
    --------
    >>> from counterpoise.evaluate.metrics import measure
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
        row |= _ranked(true == label, _score(scores, k, len(classes)), label, undefined)
        by_class[label] = row
    for label in recall:
        if label not in by_class:
            undefined[f"score of {label}"] = (
                f"{label!r} was never learned, so no row of it is found"
            )
            by_class[label] = {
                **dict.fromkeys(("precision", "average_precision", "roc_auc", "recall_at_1pct")),
                "rows": float((true == label).sum()),
                "recall": 0.0,
            }
    return Metrics(confusion, by_class, undefined)


def _score(scores: Matrix, k: int, c: int) -> Vector:
    """Scores of one class against the rest."""
    if scores.ndim == 2 and scores.shape[1] > 1:
        return scores[:, k]
    flat = scores.ravel()
    return flat if k == c - 1 else -flat


def _ranked(
    positive: NDArray[np.bool_], score: Vector, label: Any, undefined: dict[str, str]
) -> dict[str, float | None]:
    """Metrics that depend only on the order of the scores."""
    if positive.all() or not positive.any():
        what = "no other class" if positive.any() else f"no {label!r}"
        for name in ("average precision", "ROC AUC", "recall at 1 % false positives"):
            undefined[f"{name} of {label}"] = f"{what} is in the data"
        return {"average_precision": None, "roc_auc": None, "recall_at_1pct": None}
    ranking = Ranking.of(positive, score)
    return {
        "average_precision": ranking.average_precision(),
        "roc_auc": ranking.roc_auc(),
        "recall_at_1pct": ranking.recall_within(FALSE_POSITIVES),
    }
