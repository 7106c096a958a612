"""Evaluations of a learner on a data set: progressively on a stream, or by folds."""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import clone

from counterpoise.arrays import Flags, Labels, Matrix, Vector
from counterpoise.errors import DataError
from counterpoise.evaluate.metrics import Confusion, Ranking, measure

Part: TypeAlias = tuple[str, dict[str, float]]  # name and metrics
ALL = "all"  # name of the part that has all rows
METRICS = (
    "g_mean", "balanced_accuracy", "worst_recall", "average_precision", "log_loss", "cost",
    "g_mean_cut", "seconds",
)  # fmt: skip
CUT_ROWS = 1_000  # last rows by whose scores a cut is chosen
MIN_CUT_POSITIVES = 10  # rows of the positive class among them
LOWEST_PROBABILITY = 1e-6  # in a log loss


class RetrainedClassifier:
    """A batch classifier on a stream: fitted again and again, on all rows or on the last ones.

    Parameters
    ----------
    estimator : classifier
        Classifier with ``fit`` and ``predict``, of which each fit makes a clone.
    every : int, optional
        Rows after which it is fitted again; None to fit it only once.
    window : int, optional
        The last rows to fit; None for all.
    first : int, default=200
        Rows before the first fit, which also requires two classes.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from counterpoise.evaluate import RetrainedClassifier
    >>> X, y = make_classification(600, random_state=0)
    >>> nightly = RetrainedClassifier(LogisticRegression(), every=200)
    >>> for i in range(0, 500, 100):
    ...     _ = nightly.partial_fit(X[i:i + 100], y[i:i + 100])
    >>> nightly.fits, nightly.predict(X[500:]).shape
    (2, (100,))
    """

    def __init__(
        self, estimator: Any, every: int | None = None, window: int | None = None, first: int = 200
    ) -> None:
        self.estimator, self.every, self.window, self.first = estimator, every, window, first
        self.fits = 0
        self._model: Any = None
        self._X: list[Matrix] = []
        self._y: list[Labels] = []
        self._new = 0  # rows since the last fit

    def partial_fit(self, X: Matrix, y: Labels) -> RetrainedClassifier:
        """Store rows, and fit the classifier again if it is time.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            New rows.
        y : ndarray of shape (n,)
            Their labels.

        Returns
        -------
        RetrainedClassifier
            This classifier.
        """
        if self._model is not None and self.every is None:
            return self
        self._X.append(X)
        self._y.append(y)
        self._new += len(y)
        if self._new >= (self.first if self._model is None else self.every or 0):
            self._fit()
        return self

    def _fit(self) -> None:
        rows, labels = np.concatenate(self._X), np.concatenate(self._y)
        if self.window is not None:
            rows, labels = rows[-self.window :], labels[-self.window :]
            self._X, self._y = [rows], [labels]
        if len(np.unique(labels)) > 1:
            self._model = clone(self.estimator).fit(rows, labels)
            self.fits, self._new = self.fits + 1, 0

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the last fitted classifier."""
        if name.startswith("_") or self._model is None:
            raise AttributeError(f"{type(self).__name__} is not fitted and has no {name!r}")
        return getattr(self._model, name)


@dataclass(frozen=True)
class ProgressiveEvaluation:
    """Evaluation on a stream: a chunk of rows is predicted, and learned when its labels arrive.

    Rows count from the first chunk on before which labels of two classes have arrived. All learners
    get the same chunks. A learner with ``partial_fit`` learns a chunk, one with ``learn_one`` its
    rows in order. Until a learner can predict, it predicts the most frequent class, and
    the frequencies of the classes.

    ``g_mean_cut`` is the G-mean of one rule for all learners with scores of two classes: a row is
    positive above the cut that has the best G-mean on the last 1,000 rows whose labels have come.

    Parameters
    ----------
    chunk : int, default=200
        Rows that are predicted before the next ones are learned.
    delay : int, default=0
        Rows by which labels are late.
    window : int, optional
        Rows of each part that is measured separately; None for the whole stream only.
    miss_cost : float, default=10.0
        Cost of a missed row of the rarest class, where a false alarm costs 1.
    max_seconds : float, optional
        CPU seconds after which a learner learns no more.

    Examples
    --------
    >>> from counterpoise import BalancedRidgeClassifier
    >>> from counterpoise.evaluate import ProgressiveEvaluation, drifting_stream
    >>> rows = drifting_stream("none", rows=2_000, positives=0.05)
    >>> ((part, found),) = ProgressiveEvaluation()(rows, BalancedRidgeClassifier())
    >>> part, bool(found["g_mean"] > 0.7)
    ('all', True)
    """

    chunk: int = 200
    delay: int = 0
    window: int | None = None
    miss_cost: float = 10.0
    max_seconds: float | None = None

    def __call__(self, rows: tuple[Matrix, Labels], model: Any) -> Iterator[Part]:
        """Yield the metrics of all rows, and of each window."""
        X, y = rows
        classes, codes = np.unique(y, return_inverse=True)
        learner, counts = _learner(model, classes), np.zeros(len(classes))  # of labels so far
        predicted, seconds = y.copy(), np.zeros(len(y))
        scores = np.full((len(y), len(classes)), np.nan)
        proba, first, learned = scores.copy(), len(y), 0
        for start in range(0, len(y), self.chunk):
            stop, clock = min(start + self.chunk, len(y)), time.process_time()
            if np.count_nonzero(counts) > 1:
                first = min(first, start)
                predicted[start:stop] = classes[counts.argmax()]
                proba[start:stop] = counts / counts.sum()
                if learner.is_ready:
                    found = learner.predict(X[start:stop])
                    predicted[start:stop], scores[start:stop], proba[start:stop] = found
            ready = max(stop - self.delay, learned)
            is_within = self.max_seconds is None or seconds.sum() < self.max_seconds
            if ready > learned and is_within:
                learner.learn(X[learned:ready], y[learned:ready])
            counts += np.bincount(codes[learned:ready], minlength=len(classes))
            learned = ready
            seconds[start:stop] = (time.process_time() - clock) / (stop - start)
        cut = self._cut(scores, codes, predicted, classes, first)
        parts = {ALL: slice(first, len(y))}
        if self.window is not None:
            parts |= {
                str(start): slice(max(start, first), start + self.window)
                for start in range(first // self.window * self.window, len(y), self.window)
            }
        for name, part in parts.items():
            found_part = evaluate_predictions(
                y[part], predicted[part], scores[part], proba[part], classes, self.miss_cost
            )
            confusion = Confusion()
            if len(y[part]):
                confusion.add(y[part], cut[part])
            of_cut = confusion.g_mean()
            more = {
                "g_mean_cut": math.nan if of_cut is None else of_cut,
                "seconds": float(seconds[part].sum()),
            }
            yield name, found_part | more

    def _cut(
        self, scores: Matrix, codes: Labels, predicted: Labels, classes: Labels, first: int
    ) -> Labels:
        """Return predictions (n,) by the best cut of earlier rows, or else those of the learner."""
        result = predicted.copy()
        if len(classes) != 2:
            return result
        for start in range(first, len(codes), self.chunk):
            rows = slice(start, start + self.chunk)
            stop = max(start - self.delay, 0)
            past = slice(max(stop - CUT_ROWS, 0), stop)
            has_score = ~np.isnan(scores[past, 1])
            cut = best_cut(scores[past, 1][has_score], codes[past][has_score] == 1)
            if cut is not None and not np.isnan(scores[rows, 1]).any():
                result[rows] = classes[(scores[rows, 1] > cut).astype(int)]
        return result


@dataclass(frozen=True)
class FoldEvaluation:
    """Evaluation by stratified folds: fitted on the others, measured on each.

    Parameters
    ----------
    count : int, default=2
        Number of folds.
    seed : int, default=0
        Seed of the shuffle.
    miss_cost : float, default=10.0
        Cost of a missed row of the rarest class, where a false alarm costs 1.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from counterpoise import BalancedRidgeClassifier
    >>> from counterpoise.evaluate import FoldEvaluation
    >>> rows = load_breast_cancer(return_X_y=True)
    >>> for part, found in FoldEvaluation()(rows, BalancedRidgeClassifier()):
    ...     print(part, round(found["g_mean"], 2))
    0 0.96
    1 0.96
    """

    count: int = 2
    seed: int = 0
    miss_cost: float = 10.0

    def __call__(self, rows: tuple[Matrix, Labels], model: Any) -> Iterator[Part]:
        """Yield the metrics of each fold."""
        from sklearn.model_selection import StratifiedKFold

        X, y = rows
        folds = StratifiedKFold(self.count, shuffle=True, random_state=self.seed)
        for k, (train, test) in enumerate(folds.split(X, y)):
            clock, classes = time.process_time(), np.unique(y)
            learner = _ArrayLearner(clone(model).fit(X[train], y[train]), classes, has_learned=True)
            found = learner.predict(X[test])
            spent = time.process_time() - clock
            metrics = evaluate_predictions(y[test], *found, classes, self.miss_cost)
            yield str(k), metrics | {"seconds": spent}


def best_cut(score: Vector, positive: Flags) -> float | None:
    """Return the cut of scores (n,) with the highest G-mean; None with few positive rows."""
    if positive.sum() < MIN_CUT_POSITIVES or positive.all():
        return None
    found = Ranking.of(positive, score)
    thresholds = np.unique(score)[::-1]
    k = int(np.argmax(found.recall * (1.0 - found.false_positives)))
    below = thresholds[k + 1] if k + 1 < len(thresholds) else thresholds[k] - 1.0
    return float(0.5 * (thresholds[k] + below))


def evaluate_predictions(
    y: Labels, predicted: Labels, scores: Matrix, proba: Matrix, classes: Labels, miss_cost: float
) -> dict[str, float]:
    """Return metrics of predictions of n rows; NaN where one is not defined.

    ``scores`` and ``proba`` have shape (n, c). The positive class is the rarest of the rows. Rows
    without scores have the lowest one.
    """
    if not len(y):
        return dict.fromkeys(METRICS[:6], math.nan)
    labels, counts = np.unique(y, return_counts=True)
    positive = labels[np.argmin(counts)]
    ranked = np.where(np.isnan(scores), -np.inf, scores)
    found = measure(y, predicted, ranked, classes)
    recalls = found.confusion.recall()
    hit = np.array(list(recalls.values()))
    missed = ((y == positive) & (predicted != positive)).sum()
    alarms = ((y != positive) & (predicted == positive)).sum()
    own = proba[np.arange(len(y)), np.searchsorted(classes, y)]
    loss = -np.log(np.clip(own, LOWEST_PROBABILITY, 1.0)).mean()
    several = len(labels) > 1
    precision = found.of(positive)["average_precision"]
    values = (
        np.prod(hit) ** (1.0 / len(hit)) if several else math.nan,
        hit.mean() if several else math.nan,
        hit.min(),
        math.nan if precision is None or np.isnan(scores).all() else precision,
        loss,
        (miss_cost * missed + alarms) / len(y),
    )
    return dict(zip(METRICS, map(float, values), strict=False))


class _ArrayLearner:
    """Learner of chunks, with scikit-learn's conventions."""

    def __init__(self, model: Any, classes: Labels, has_learned: bool = False) -> None:
        self.model, self.classes, self.has_learned = model, classes, has_learned
        self.first: dict[str, Any] = {}
        learn = getattr(model, "partial_fit", None)
        if learn is not None and "classes" in inspect.signature(learn).parameters:
            self.first["classes"] = classes

    @property
    def is_ready(self) -> bool:
        """True if the model can predict."""
        return self.has_learned and hasattr(self.model, "predict")

    def learn(self, X: Matrix, y: Labels) -> None:
        """Learn a chunk."""
        self.model.partial_fit(X, y, **self.first)
        self.first, self.has_learned = {}, True

    def predict(self, X: Matrix) -> tuple[Labels, Matrix, Matrix]:
        """Return labels (n,), scores and probabilities (n, c) of the classes of the data set."""
        proba = np.full((len(X), len(self.classes)), np.nan)
        ways = ("predict_stream_proba", "predict_proba", "decision_function")
        estimate = next((getattr(self.model, w) for w in ways[:2] if hasattr(self.model, w)), None)
        if estimate is not None:
            proba[:, self._columns()] = estimate(X)
        scores = proba
        if hasattr(self.model, ways[2]):
            f = np.asarray(self.model.decision_function(X))
            f = np.column_stack([-f, f]) if f.ndim == 1 else f
            scores = np.full(proba.shape, np.nan)
            if f.shape[1] == len(self._columns()):
                scores[:, self._columns()] = f
        return self.model.predict(X), scores, proba

    def _columns(self) -> Any:
        """Return the positions of the classes that the model has learned."""
        return np.searchsorted(self.classes, self.model.classes_)


class _EventLearner:
    """Learner of events, with river's conventions."""

    is_ready = True  # the model can predict

    def __init__(self, model: Any, classes: Labels) -> None:
        self.model, self.classes = model, classes

    def learn(self, X: Matrix, y: Labels) -> None:
        """Learn the rows in order."""
        for row, label in zip(X.tolist(), y.tolist(), strict=True):
            self.model.learn_one(dict(enumerate(row)), label)

    def predict(self, X: Matrix) -> tuple[Labels, Matrix, Matrix]:
        """Return labels (n,), and probabilities (n, c) twice."""
        default, labels = self.classes[0], self.classes.tolist()
        predicted, proba = np.full(len(X), default), np.full((len(X), len(labels)), np.nan)
        for i, row in enumerate(X.tolist()):
            event = dict(enumerate(row))
            one = self.model.predict_one(event)
            predicted[i] = default if one is None else one
            try:
                found = self.model.predict_proba_one(event)
            except NotImplementedError:
                continue
            proba[i] = [found.get(label, 0.0) for label in labels]
        return predicted, proba, proba


def _learner(model: Any, classes: Labels) -> Any:
    """Return the adapter of a model."""
    if hasattr(model, "partial_fit"):
        return _ArrayLearner(model, classes)
    if hasattr(model, "learn_one"):
        return _EventLearner(model, classes)
    raise DataError(
        f"{type(model).__name__} does not have partial_fit or learn_one; wrap it in "
        "RetrainedClassifier"
    )
