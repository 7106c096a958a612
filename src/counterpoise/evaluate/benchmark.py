"""Benchmark: several models on one stream, progressively.

The exact model uses the features as they are, because it scales them retroactively. The other
methods cannot, so their features are standardized by the preceding rows.

The names of the classes have no influence. All methods get the same targets: the class of interest
last, the others before it in order of appearance. A score of 0 is a vote for no class: of two
classes the one that is not of interest is predicted, of more the one that appeared first. Rows
count once labels of two classes have arrived; before that no method can separate classes.
"""

from __future__ import annotations

import importlib
import inspect
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone, is_classifier
from threadpoolctl import threadpool_limits

from counterpoise.arrays import Labels, Matrix, Vector
from counterpoise.errors import DataError
from counterpoise.evaluate.metrics import MAIN_METHOD, Result, measure
from counterpoise.solver.score_functions import one_vs_rest_log_odds


def synthetic_payments(rows: int = 20_000, seed: int = 1) -> tuple[Matrix, Labels, list[str]]:
    """Return payments X (n, d), y (n,), 2% of them frauds, with drift, and names of features."""
    rng = np.random.default_rng(seed)
    fraud = rng.random(rows) < 0.02
    when = np.linspace(0.0, 1.0, rows)
    amount = rng.lognormal(3.4 + 0.6 * fraud + 0.3 * when, 0.7)
    age = rng.gamma(4.0, 200.0, rows) * np.where(fraud, 0.5, 1.0)
    night = (rng.random(rows) < np.where(fraud, 0.45, 0.15)).astype(float)
    foreign = (rng.random(rows) < np.where(fraud, 0.5 - 0.3 * when, 0.1)).astype(float)
    retries = rng.poisson(np.where(fraud, 0.5 + 1.5 * when, 0.3)).astype(float)
    balance = 5000.0 + 100.0 * rng.standard_normal(rows).cumsum() / np.sqrt(np.arange(1, rows + 1))
    noise = rng.standard_normal((rows, 2)) * [1.0, 1000.0]
    X = np.column_stack([amount, age, night, foreign, retries, balance, noise])
    names = ["amount", "age of account", "at night", "foreign", "retries", "balance"]
    return X, np.where(fraud, "fraud", "ok"), [*names, "noise 1", "noise 2"]


SEEDS = ("random_state", "seed")  # parameters of scikit-learn and of river
FACTORY_HINT = "write a function without arguments that returns the model, and name that"
Codes = NDArray[np.intp]  # classes by number


def load_external_model(path: str) -> Any:
    """Create a model by the path of its class, such as "sklearn.linear_model:SGDClassifier"."""
    module, _, name = path.partition(":")
    if not (module and name):
        raise DataError(f"{path!r} is not MODULE:CLASS, such as sklearn.linear_model:SGDClassifier")
    make = _import_callable(module, name)
    try:
        every = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):  # a compiled class without a signature
        every = {}.values()
    parameters = [one for one in every if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    needed = [one.name for one in parameters if one.default is one.empty]
    if needed:
        raise DataError(f"{path} cannot be made without {', '.join(needed)}; {FACTORY_HINT}")
    seeds = {one.name: 0 for one in parameters if one.name in SEEDS and one.default is None}
    try:
        model = make(**seeds)
    except Exception as error:
        raise DataError(f"{path} cannot be made ({error}); {FACTORY_HINT}") from error
    learns = hasattr(model, "partial_fit") or hasattr(model, "learn_one")
    if not learns or isinstance(model, type):
        raise DataError(
            f"{path} does not have partial_fit or learn_one, so it cannot learn row by row; name a "
            "model that can"
        )
    arrays = hasattr(model, "partial_fit")
    predicts = hasattr(model, "predict" if arrays else "predict_proba_one")
    if not predicts or (isinstance(model, BaseEstimator) and not is_classifier(model)):
        raise DataError(f"{path} does not predict classes; name a classifier")
    return model


def _import_callable(module: str, name: str) -> Callable[..., Any]:
    """Return a class or a function of a module."""
    try:
        imported = importlib.import_module(module)
    except ImportError as error:
        raise DataError(
            f"module {module!r} cannot be imported ({error}); install its package, or run from "
            "the folder that it is in"
        ) from error
    found: Callable[..., Any] | None = getattr(imported, name, None)
    if callable(found):
        return found
    near = [one for one in dir(imported) if one.lower() == name.lower()]
    hint = f"did you mean {near[0]}?" if near else "name a class, or a function that makes a model"
    raise DataError(f"module {module!r} has no class {name!r}; {hint}")


class _ArrayAdapter:
    """Adapter of a model with scikit-learn's conventions: rows by index, classes by number."""

    def __init__(self, model: Any, Z: Matrix, classes: int) -> None:
        self.model, self.Z = model, Z
        self.first: dict[str, Any] = {"classes": np.arange(classes)}  # of the first partial_fit
        ways = ("decision_function", "predict_proba")
        self.rank = next((getattr(model, way) for way in ways if hasattr(model, way)), None)

    def learn(self, t: int, code: int) -> None:
        self.model.partial_fit(self.Z[t : t + 1], np.array([code]), **self.first)
        self.first = {}

    def predict(self, t: int) -> int:
        return int(self.model.predict(self.Z[t : t + 1])[0])

    def scores(self, t: int) -> Vector | None:
        return None if self.rank is None else np.ravel(self.rank(self.Z[t : t + 1]))


class _DictAdapter:
    """Adapter of a model with river's conventions; one-vs-rest if it is for two classes only."""

    def __init__(self, model: Any, Z: Matrix, names: Sequence[str], classes: int) -> None:
        if classes > 2 and not getattr(model, "_multiclass", True):
            from river.multiclass import OneVsRestClassifier

            model = OneVsRestClassifier(model)
        self.model, self.Z, self.names = model, Z, names
        self.labels = [False, True] if classes == 2 else list(range(classes))

    def row(self, t: int) -> dict[str, float]:
        return dict(zip(self.names, self.Z[t].tolist(), strict=True))

    def learn(self, t: int, code: int) -> None:
        self.model.learn_one(self.row(t), self.labels[code])

    def predict(self, t: int) -> int:
        return int(self.model.predict_one(self.row(t)) or 0)

    def scores(self, t: int) -> Vector | None:
        try:
            p = self.model.predict_proba_one(self.row(t))
        except NotImplementedError:
            return None
        return np.array([p.get(label, 0.0) for label in self.labels])


def _predict_progressively(
    name: str, model: Any, Z: Matrix, targets: _Targets, names: Sequence[str]
) -> tuple[Codes, Matrix, float]:
    """Predict each row of Z (n, d) from the first on, then learn it when its label arrives.

    Return predictions (n,), scores (n,) or (n, c), and the seconds of predicting and learning.
    """
    codes, delay, c = targets.codes, targets.delay, len(targets.classes)
    adapter: Any = _ArrayAdapter(model, Z, c)
    if not hasattr(model, "partial_fit"):
        adapter = _DictAdapter(model, Z, names, c)
    n, took, clock = len(codes), 0.0, time.perf_counter
    predicted, f = np.zeros(n, dtype=np.intp), np.zeros((n, 1 if c == 2 else c))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some models warn at every single row
        for t in range(n + delay):
            late = t - delay
            try:
                start = clock()
                if targets.first <= t < n:
                    predicted[t] = adapter.predict(t)
                    took += clock() - start
                    scores = adapter.scores(t)  # only to rank rows: not timed
                    scores = np.eye(c)[predicted[t]] if scores is None else scores
                    f[t] = scores[1:] if c == 2 == len(scores) else scores
                    start = clock()
                if late >= 0:
                    adapter.learn(late, int(codes[late]))
                took += clock() - start
            except Exception as error:
                raise DataError(
                    f"{name} failed at row {min(t, n - 1) + 1:,} ({error}); leave it out, or name "
                    "a function that returns a model for standardized features"
                ) from error
    return predicted, np.nan_to_num(f[:, 0] if c == 2 else f), took


QUADRATIC_TIME_METHOD = "IR-RLS"
MAX_SECONDS = 10.0  # estimated seconds that a method may take, unless the exact model takes more
METHODS = {
    "Perceptron": "Perceptron",
    "PA": "PassiveAggressive",
    "CW": "ConfidenceWeighted",
    "SCW": "SoftConfidenceWeighted",
    "AROW": "AROW",
    "ACOG": "ACOG",
    "RLS": "RLS",
    "AR-RLS": "ARRLS",
    "NR-RLS": "NRRLS",
    QUADRATIC_TIME_METHOD: "IRRLS",
}  # classes of counterpoise.online
FIRST_ORDER = ("Perceptron", "PA")
EXPLAINED = 1000  # rows whose contributions a report sums up


@dataclass(frozen=True, eq=False)
class _Targets:
    """Classes by number, the same for all methods, the positive class last."""

    y: Labels
    classes: Labels  # sorted
    order: NDArray[np.intp]  # position among the sorted classes, by number
    codes: NDArray[np.intp]  # number of the class of each row
    delay: int
    first: int

    @classmethod
    def of(cls, y: Labels, positive: Any, delay: int) -> _Targets:
        classes, at, codes, counts = np.unique(
            y, return_index=True, return_inverse=True, return_counts=True
        )
        order = np.argsort(at)  # by appearance
        if positive is None:
            k = int(order[np.argmin(counts[order])])
        else:
            k = classes.tolist().index(positive)
        order = np.append(order[order != k], k)
        number = np.empty_like(order)
        number[order] = np.arange(len(order))
        return cls(y, classes, order, number[codes], delay, n_warmup_rows(y, delay))

    def result(
        self,
        name: str,
        f: Matrix,
        took: float,
        weights: Matrix | None,
        terms: list[str] | None = None,
        ranks: Matrix | None = None,
        best: NDArray[np.intp] | None = None,
    ) -> Result:
        """Return the result of scores f by number of class.

        ``ranks`` rank rows, if the scores do not, and ``best`` are predictions by number, if they
        do not follow from the scores.
        """
        if best is None:
            best = f.argmax(axis=1) if f.ndim == 2 else (f > 0.0).astype(np.intp)
        predicted = self.classes[self.order[best]]
        f = f if ranks is None else ranks
        if f.ndim == 2:
            back = np.argsort(self.order)
            f, weights = f[:, back], None if weights is None else weights[back]
        elif self.order[1] == 0:
            f, weights = -f, None if weights is None else -weights
        rows = slice(self.first, None)
        metrics = measure(self.y[rows], predicted[rows], f[rows], self.classes)
        per_row = 1e6 * took / len(self.y)
        return Result(name, predicted, f, self.first, metrics, per_row, weights, terms)


def n_warmup_rows(y: Labels, delay: int) -> int:
    """Number of rows before labels of two classes have arrived; all rows if that never happens."""
    other = np.flatnonzero(y != y[0])
    return min(int(other[0]) + 1 + delay, len(y)) if len(other) else len(y)


def run_benchmark(
    X: Matrix,
    y: Labels,
    models: Mapping[str, Any],
    delay: int = 0,
    positive: Any = None,
    names: Sequence[str] | None = None,
) -> Iterator[Result]:
    """Run several models on the same stream, and yield the result of each.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        The rows, in order.
    y : ndarray of shape (n,)
        Their labels.
    models : dict of str to object
        Models that are not fitted, by name: ``BalancedRidgeClassifier`` or ``AutoClassifier``,
        rules of ``counterpoise.online``, and classifiers with ``partial_fit`` or river's
        ``learn_one``.
    delay : int, default=0
        The label of a row arrives this many rows after it.
    positive : label, optional
        The class of interest; by default the rarest, the first to appear if several are.
    names : sequence of str, optional
        Names of the features.

    Yields
    ------
    Result

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from counterpoise import BalancedRidgeClassifier
    >>> from counterpoise.evaluate import run_benchmark
    >>> from counterpoise.online import PassiveAggressive
    >>> X, y = make_classification(300, weights=[0.8], random_state=0)
    >>> models = {"exact": BalancedRidgeClassifier(), "PA": PassiveAggressive()}
    >>> results = run_benchmark(X, y, models)
    >>> {one.name: round(one.metrics.of(1)["g_mean"], 2) for one in results}
    {'exact': 0.82, 'PA': 0.79}
    """
    targets, Z = _Targets.of(y, positive, delay), None
    names = [f"x{j}" for j in range(X.shape[1])] if names is None else list(names)
    # Rows are small: several BLAS threads would mostly wait for each other.
    with threadpool_limits(1, user_api="blas"):
        for name, model in models.items():
            if hasattr(model, "explain"):
                yield _run_exact(name, model, X, targets, names)
                continue
            Z = standardize_progressively(X) if Z is None else Z
            if hasattr(model, "progressive_scores"):
                yield _run_online(name, model, Z, targets)
            else:
                best, f, took = _predict_progressively(name, model, Z, targets, names)
                yield targets.result(name, f, took, None, best=best)


def too_slow(y: Labels, d: int) -> dict[str, float]:
    """Return methods whose estimated seconds exceed MAX_SECONDS and twice the exact model's."""
    counts = np.unique(y, return_counts=True)[1].astype(float)
    most = max(MAX_SECONDS, 2.0 * seconds(MAIN_METHOD, counts, d))
    estimated = {name: seconds(name, counts, d) for name in METHODS}
    return {name: long for name, long in estimated.items() if long > most}


def seconds(name: str, counts: NDArray[np.float64], d: int) -> float:
    """Estimate the seconds of a method for ``counts`` rows of each class and d features.

    The estimate assumes a billion steps per second, so that it is the same on every machine.
    """
    n, c, d = counts.sum(), len(counts), d + 1
    problems = c if c > 2 else 1  # one-vs-rest
    if name == MAIN_METHOD:  # several classes share a system
        steps = n * (min(d**3 / 10.0, 4.0 * d**2) if c == 2 else d**3 / 10.0 + c * d**2)
    elif name in FIRST_ORDER:
        steps = n * problems * d
    elif name == "NR-RLS":
        steps = n * problems * d**3 / 2.0
    elif name == QUADRATIC_TIME_METHOD:  # each row revisits the rows of its side
        mine, rest = counts**2, (n - counts) ** 2
        pairs = (mine + rest).sum() if c > 2 else mine.sum()
        steps = pairs * d**2
    else:
        steps = n * problems * d**2
    return float(1e-9 * steps)


def standardize_progressively(X: Matrix) -> Matrix:
    """Scale each row of X, of shape (n, d), by mean and standard deviation of the rows before it.

    Values are clipped at 10 deviations, because early rows are compared with few others.
    """
    Z = X - X[0]
    before = np.arange(len(X))[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = (np.cumsum(Z, axis=0) - Z) / before
        square = (np.cumsum(Z * Z, axis=0) - Z * Z) / before
        deviation = np.sqrt(np.maximum(square - mean * mean, 0.0))
        scaled = (Z - mean) / deviation
    known = (before > 0) & (deviation > 1e-8 * np.sqrt(np.maximum(square, 0.0)))
    return np.where(known, np.clip(scaled, -10.0, 10.0), 0.0)


def _run_exact(name: str, model: Any, X: Matrix, targets: _Targets, names: Sequence[str]) -> Result:
    """Run a model whose progressive scores are exact, on features as they are."""
    classes = range(len(targets.classes))
    start = time.perf_counter()
    f = model.progressive_scores(X, targets.codes, delay=targets.delay, classes=classes)
    took = time.perf_counter() - start
    fitted = getattr(model, "best_", model)  # of an average the best candidate
    terms = None if fitted.feature_map_ is None else fitted.feature_map_.map.names(list(names))
    weights = fitted.coef_ * fitted.scale_ if fitted.pooled_rows is None else None
    ranks = np.nan_to_num(f)
    if f.ndim == 2 and fitted.multi_class == "lda":
        ranks = one_vs_rest_log_odds(f)
    result = targets.result(name, f, took, weights, terms, ranks)
    reasons = replace(
        model.explain(X[-EXPLAINED:]),
        feature_names=list(names),
        classes=targets.classes[targets.order],
    )
    return replace(result, reasons=reasons)


def _run_online(name: str, model: Any, Z: Matrix, targets: _Targets) -> Result:
    """Run one rule for two classes, or one for each class against all others."""
    sides = [1] if len(targets.classes) == 2 else range(len(targets.classes))
    scores, weights, took = [], [], 0.0
    clone(model).partial_fit(Z[:1], [0], classes=[0, 1])  # imports at the first use are not timed
    for k in sides:
        rule, target = clone(model), (targets.codes == k).astype(int)
        start = time.perf_counter()
        scores.append(rule.progressive_scores(Z, target, delay=targets.delay, classes=[0, 1]))
        took += time.perf_counter() - start
        weights.append(rule.coef_[0])
    f: Matrix = scores[0] if len(scores) == 1 else np.column_stack(scores)
    return targets.result(name, f, took, np.array(weights))


def select_best(results: list[Result]) -> Result:
    """Return the result with the highest G-mean, the first of several."""
    return max(results, key=lambda result: result.metrics.confusion.g_mean() or 0.0)
