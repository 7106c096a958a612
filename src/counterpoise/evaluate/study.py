"""Studies: data sets times learners times seeds, with resumable results in one table.

A data set is made from a seed, and so is a learner. An evaluation applies one to the other and
yields metrics of parts: windows of a stream, or folds. Results are written after every run, sorted,
so that an interrupted study continues where it stopped and ends with the same table, except for
CPU seconds.
"""

from __future__ import annotations

import csv
import gzip
import inspect
import io
import itertools
import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import clone

from counterpoise.arrays import Labels, Matrix, Vector
from counterpoise.errors import DataError
from counterpoise.evaluate.metrics import measure
from counterpoise.evaluate.rank_tests import (
    RankComparison,
    SignedRankPosterior,
    bayesian_signed_rank,
    compare_ranks,
    wilcoxon_holm,
)

Part: TypeAlias = tuple[str, dict[str, float]]  # name and metrics
ALL = "all"  # name of the part that has all rows
METRICS = (
    "g_mean", "balanced_accuracy", "worst_recall", "average_precision", "log_loss", "cost",
    "seconds",
)  # fmt: skip
LOWEST_PROBABILITY = 1e-6  # in a log loss
LOW_IS_BEST = ("log_loss", "cost", "seconds")


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
    rows in order. Until a learner can predict, it predicts the most frequent class.

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
            yield name, found_part | {"seconds": float(seconds[part].sum())}


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


def evaluate_predictions(
    y: Labels, predicted: Labels, scores: Matrix, proba: Matrix, classes: Labels, miss_cost: float
) -> dict[str, float]:
    """Return metrics of predictions of n rows; NaN where one is not defined.

    ``scores`` and ``proba`` have shape (n, c). The positive class is the rarest of the rows. Rows
    without scores have the lowest one.
    """
    if not len(y):
        return dict.fromkeys(METRICS[:-1], math.nan)
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


@dataclass
class Study:
    """Learners on data sets, with resumable results in one table.

    Parameters
    ----------
    path : str or Path, optional
        CSV file of the results, compressed if it ends with ``.gz``; None to keep them in memory.
    data : dict of str to callable
        Functions of a seed that make a data set: what the evaluation takes, X and y.
    learners : dict of str to callable
        Functions of a seed that make a learner.
    evaluate : callable, default=ProgressiveEvaluation()
        Function of a data set and a learner that yields parts and their metrics.
    seeds : sequence of int, default=(0,)
        Seeds of data sets and learners.

    Examples
    --------
    >>> from sklearn.linear_model import SGDClassifier
    >>> from counterpoise import BalancedRidgeClassifier
    >>> from counterpoise.evaluate import Study, drifting_stream
    >>> study = Study(
    ...     data={"sudden": lambda seed: drifting_stream("sudden", rows=2_000, seed=seed)},
    ...     learners={"half-life": lambda seed: BalancedRidgeClassifier(half_life=200),
    ...               "SGD": lambda seed: SGDClassifier(random_state=seed)},
    ... )
    >>> found = study.run().values("g_mean")
    >>> found.shape, bool(found[0, 0] > found[0, 1])
    ((1, 2), True)
    """

    path: str | Path | None = None
    data: Mapping[str, Callable[[int], Any]] = field(default_factory=dict)
    learners: Mapping[str, Callable[[int], Any]] = field(default_factory=dict)
    evaluate: Callable[[Any, Any], Iterable[Part]] = field(default_factory=ProgressiveEvaluation)
    seeds: Sequence[int] = (0,)

    def __post_init__(self) -> None:
        # metrics by data set, seed and learner, and by part
        self.found: dict[tuple[str, int, str], dict[str, dict[str, float]]] = {}
        if self.path is not None and Path(self.path).exists():
            self._read(Path(self.path))

    def run(self, processes: int = 1, again: Sequence[str] = ()) -> Study:
        """Run what has no result, write the table after every run, and return the study.

        Parameters
        ----------
        processes : int, default=1
            Runs at the same time; -1 for one per core.
        again : sequence of str, default=()
            Learners that run again.

        Returns
        -------
        Study
            This study.
        """
        from joblib import Parallel, delayed

        every = itertools.product(self.data, self.seeds, self.learners)
        jobs = [key for key in every if key not in self.found or key[2] in again]
        calls = (
            delayed(_run)(key, self.data[key[0]], self.learners[key[2]], self.evaluate)
            for key in jobs
        )
        for key, parts in Parallel(processes, return_as="generator_unordered")(calls):
            self.found[key] = parts
            if self.path is not None:
                self._write(Path(self.path))
        return self

    def _read(self, path: Path) -> None:
        with _open(path, "r") as file:
            rows = csv.reader(file)
            metrics = next(rows, [])[4:]
            for name, seed, learner, part, *values in rows:
                parts = self.found.setdefault((name, int(seed), learner), {})
                parts[part] = dict(zip(metrics, map(float, values), strict=True))

    def _write(self, path: Path) -> None:
        """Write all results, sorted, to a new file that replaces the old one."""
        metrics = list(dict.fromkeys(m for p in self.found.values() for v in p.values() for m in v))
        whole = path.with_name(f"new-{path.name}")
        with _open(whole, "w") as file:
            writer = csv.writer(file)
            writer.writerow(["data", "seed", "learner", "part", *metrics])
            for key, parts in sorted(self.found.items()):
                for part, values in parts.items():
                    cells = [f"{values.get(metric, math.nan):.8g}" for metric in metrics]
                    writer.writerow([*key, part, *cells])
        whole.replace(path)

    def values(self, metric: str = "g_mean", part: str | None = ALL) -> Matrix:
        """Return the mean of a metric over seeds, of shape (data sets, learners).

        Parameters
        ----------
        metric : str, default="g_mean"
            A metric of the evaluation.
        part : str, default="all"
            The part; None for the mean of all parts, such as folds.
        """
        rows = []
        for name in self.data:
            row = []
            for learner in self.learners:
                parts = [self.found.get((name, seed, learner), {}) for seed in self.seeds]
                some = [v for p in parts for k, v in p.items() if part is None or k == part]
                row.append(np.mean([one[metric] for one in some]) if some else math.nan)
            rows.append(row)
        return np.array(rows, dtype=np.float64)

    def ranks(self, metric: str = "g_mean", part: str | None = ALL) -> RankComparison:
        """Return the ranks of the learners over data sets, with Friedman's and Nemenyi's tests.

        Parameters
        ----------
        metric, part : str
            As for :meth:`values`.
        """
        best = "low" if metric in LOW_IS_BEST else "high"
        return compare_ranks(self.values(metric, part), list(self.learners), best)

    def p_values(
        self, reference: str, metric: str = "g_mean", part: str | None = ALL
    ) -> dict[str, float]:
        """Return Wilcoxon's p of one learner against each other one, with Holm's correction.

        Parameters
        ----------
        reference : str
            The learner.
        metric, part : str
            As for :meth:`values`.
        """
        return wilcoxon_holm(self.values(metric, part), list(self.learners), reference)

    def posterior(
        self, one: str, other: str, metric: str = "g_mean", rope: float = 0.01,
        part: str | None = ALL,
    ) -> SignedRankPosterior:  # fmt: skip
        """Return the probabilities that one learner is worse, equivalent or better.

        Parameters
        ----------
        one, other : str
            The learners.
        metric, part : str
            As for :meth:`values`.
        rope : float, default=0.01
            Differences that do not matter.
        """
        found, names = self.values(metric, part), list(self.learners)
        sign = -1.0 if metric in LOW_IS_BEST else 1.0
        mine, theirs = (sign * found[:, names.index(name)] for name in (one, other))
        return bayesian_signed_rank(mine, theirs, rope)

    def table(self, metric: str = "g_mean", style: str = "markdown", part: str | None = ALL) -> str:
        """Return a table with a row for each data set and the means, the best values in bold.

        Parameters
        ----------
        metric, part : str
            As for :meth:`values`.
        style : {"markdown", "latex"}, default="markdown"
            Format of the table.
        """
        if style not in ("markdown", "latex"):
            raise ValueError(f"style must be 'markdown' or 'latex'; got {style!r}")
        values = self.values(metric, part)
        sign = -1.0 if metric in LOW_IS_BEST else 1.0
        bold = "**{}**" if style == "markdown" else r"\textbf{{{}}}"
        rows = []
        for name, row in zip((*self.data, "mean"), (*values, values.mean(axis=0)), strict=True):
            texts = ["-" if np.isnan(value) else f"{value:.4f}" for value in row]
            is_best = _best(sign * row)
            cells = [bold.format(t) if b else t for t, b in zip(texts, is_best, strict=True)]
            rows.append([name, *cells])
        head = ["", *self.learners]
        if style == "markdown":
            lines = [" | ".join(head), "|".join(["---"] + ["---:"] * len(self.learners))]
            lines = [lines[0], lines[1], *(" | ".join(row) for row in rows)]
            return "\n".join(f"|{line}|" if "---" in line else f"| {line} |" for line in lines)
        lines = [" & ".join(map(_latex, row)) + r" \\" for row in [head, *rows]]
        frame = f"\\begin{{tabular}}{{l{'r' * len(self.learners)}}}"
        body = [r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"]
        return "\n".join([frame, *body, r"\end{tabular}"])


def _best(values: Vector) -> Vector:
    """Return which values are the highest, (m,)."""
    found: Vector = values == np.nanmax(values, initial=-np.inf)
    return found


def _latex(text: str) -> str:
    """Return a cell whose special characters are escaped."""
    for sign in "&%_#":
        text = text.replace(sign, f"\\{sign}")
    return text


def _run(
    key: tuple[str, int, str],
    make_data: Callable[[int], Any],
    make_learner: Callable[[int], Any],
    evaluate: Callable[[Any, Any], Iterable[Part]],
) -> tuple[tuple[str, int, str], dict[str, dict[str, float]]]:
    """Return the metrics of one run, by part."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # collinear features, iterations
        return key, dict(evaluate(make_data(key[1]), make_learner(key[1])))


def _open(path: Path, mode: str) -> Any:
    """Open a table; a compressed one contains no time: equal results are equal files."""
    if path.suffix == ".gz":
        return io.TextIOWrapper(gzip.GzipFile(path, f"{mode}b", mtime=0), newline="")
    return open(path, mode, newline="")
