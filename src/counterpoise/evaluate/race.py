"""A race: the exact model and other methods on one stream, each row predicted before it is learned.

The exact model uses the features as they are, because it scales them retroactively. The other
methods cannot, so their features are standardised by the preceding rows.

The names of the classes have no influence. All methods get the same targets: the class of interest
last, the others before it in order of appearance. A score of 0 is a vote for no class: of two
classes the one that is not of interest is predicted, of more the one that appeared first. Rows
count once labels of two classes have arrived; before that no method can separate classes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from counterpoise import online
from counterpoise.arrays import Labels, Matrix
from counterpoise.choosing.classifier import ChoosingClassifier
from counterpoise.classifier import BalancedRidgeClassifier
from counterpoise.evaluate.guests import progressive
from counterpoise.evaluate.metrics import Metrics, measure
from counterpoise.exact.scaling import spread
from counterpoise.exact.solution import Linear
from counterpoise.exact.standing import against_rest, bounded
from counterpoise.reasons import Reasons

OURS = "BalancedRidgeClassifier"
OWN = "own options"  # the exact model with the options of the user
SLOW = "IR-RLS"
LONG = 10.0  # estimated seconds that a method may take, unless the exact model takes more
RIVALS: dict[str, Callable[[], Any]] = {
    "Perceptron": online.Perceptron,
    "PA": online.PassiveAggressive,
    "CW": online.ConfidenceWeighted,
    "SCW": online.SoftConfidenceWeighted,
    "AROW": online.AROW,
    "ACOG": online.ACOG,
    "RLS": online.RLS,
    "AR-RLS": online.ARRLS,
    "NR-RLS": online.NRRLS,
    SLOW: online.IRRLS,
}
FIRST_ORDER = ("Perceptron", "PA")
EXPLAINED = 1000  # rows whose reasons a report sums up


@dataclass(frozen=True, eq=False)
class Result:
    """The result of one method.

    Attributes
    ----------
    name : str
        Name of the method.
    predicted : ndarray of shape (n,)
        Predicted labels, each before the true one was known.
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
    reasons : Reasons, optional
        Of the last rows, by the final model.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise.evaluate.race import race
    >>> rng = np.random.default_rng(0)
    >>> y = (rng.random(300) < 0.2).astype(int)
    >>> X = rng.standard_normal((300, 2)) + 2.0 * y[:, None]
    >>> (result,) = race(X, y, rivals=[])
    >>> result.name, result.predicted.shape, round(result.metrics.of(1)["g_mean"], 2)
    ('BalancedRidgeClassifier', (300,), 0.94)
    """

    name: str
    predicted: Labels
    scores: Matrix
    first: int
    metrics: Metrics
    microseconds: float
    weights: Matrix | None
    terms: list[str] | None = None
    reasons: Reasons | None = None


@dataclass(frozen=True, eq=False)
class _Targets:
    """Classes as all methods get them: by number, the class of interest last."""

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
        return cls(y, classes, order, number[codes], delay, uncounted(y, delay))

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
        """The result of scores by number of class, and of what ranks rows if that is not these.

        What is predicted, by number, follows from the scores unless it is given.
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


def uncounted(y: Labels, delay: int) -> int:
    """Number of rows before labels of two classes have arrived; all rows if that never happens."""
    other = np.flatnonzero(y != y[0])
    return min(int(other[0]) + 1 + delay, len(y)) if len(other) else len(y)


def race(
    X: Matrix,
    y: Labels,
    delay: int = 0,
    positive: Any = None,
    rivals: Collection[str] | None = None,
    own: BalancedRidgeClassifier | ChoosingClassifier | None = None,
    names: Sequence[str] | None = None,
    guests: Mapping[str, Any] | None = None,
) -> Iterator[Result]:
    """Run all methods on the same stream.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        The rows, in order.
    y : ndarray of shape (n,)
        Their labels.
    delay : int, default=0
        The label of a row arrives this many rows after it.
    positive : label, optional
        The class of interest; by default the rarest, the first to appear if several are.
    rivals : collection of str, optional
        Which of RIVALS to run; by default all except those of :func:`too_slow`.
    own : BalancedRidgeClassifier or ChoosingClassifier, optional
        Another model to run, still unfitted.
    names : sequence of str, optional
        Names of the features.
    guests : dict of str to object, optional
        More models to run, still unfitted, by the names to show: classifiers with ``partial_fit``
        or river's ``learn_one``.

    Yields
    ------
    Result

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise.evaluate.race import race
    >>> rng = np.random.default_rng(0)
    >>> y = (rng.random(300) < 0.2).astype(int)
    >>> X = rng.standard_normal((300, 2)) + 2.0 * y[:, None]
    >>> {one.name: round(one.metrics.of(1)["g_mean"], 2) for one in race(X, y, rivals=["PA"])}
    {'BalancedRidgeClassifier': 0.94, 'PA': 0.81}
    """
    targets = _Targets.of(y, positive, delay)
    if rivals is None:
        slow = too_slow(y, X.shape[1])
        rivals = [name for name in RIVALS if name not in slow]
    # Rows are small: several BLAS threads would mostly wait for each other.
    with threadpool_limits(1, user_api="blas"):
        yield _exact(OURS, BalancedRidgeClassifier(), X, targets, names)
        if own is not None:
            yield _exact(OWN, own, X, targets, names)
        if not rivals and not guests:
            return
        Z = standardised(X)
        for name, make in RIVALS.items():
            if name in rivals:
                yield _rival(name, make, Z, targets)
        for name, model in (guests or {}).items():
            if isinstance(model, BalancedRidgeClassifier | ChoosingClassifier):
                yield _exact(name, model, X, targets, names)
            else:
                yield _guest(name, model, Z, targets, names)


def too_slow(y: Labels, d: int) -> dict[str, float]:
    """Methods whose estimated seconds exceed LONG and twice those of the exact model."""
    counts = np.unique(y, return_counts=True)[1].astype(float)
    most = max(LONG, 2.0 * seconds(OURS, counts, d))
    taken = {name: seconds(name, counts, d) for name in RIVALS}
    return {name: long for name, long in taken.items() if long > most}


def seconds(name: str, counts: NDArray[np.float64], d: int) -> float:
    """Estimated seconds of a method for ``counts`` rows of each class and d features.

    The estimate assumes a billion steps a second, so that it is the same on every machine.
    """
    n, c, d = counts.sum(), len(counts), d + 1
    problems = c if c > 2 else 1  # one against the rest
    if name == OURS:  # several classes share a system
        steps = n * (min(d**3 / 10.0, 4.0 * d**2) if c == 2 else d**3 / 10.0 + c * d**2)
    elif name in FIRST_ORDER:
        steps = n * problems * d
    elif name == "NR-RLS":
        steps = n * problems * d**3 / 2.0
    elif name == SLOW:  # each row revisits the rows of its class, and so do the rest
        mine, rest = counts**2, (n - counts) ** 2
        pairs = (mine + rest).sum() if c > 2 else mine.sum()
        steps = pairs * d**2
    else:
        steps = n * problems * d**2
    return float(1e-9 * steps)


def standardised(X: Matrix) -> Matrix:
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


def _exact(
    name: str,
    model: BalancedRidgeClassifier | ChoosingClassifier,
    X: Matrix,
    targets: _Targets,
    names: Sequence[str] | None,
) -> Result:
    classes = range(len(targets.classes))
    start = time.perf_counter()
    f = model.progressive_scores(X, targets.codes, delay=targets.delay, classes=classes)
    took = time.perf_counter() - start
    fitted = model.best_ if isinstance(model, ChoosingClassifier) else model
    terms = None
    if fitted.features_ is not None:
        terms = fitted.features_.names(list(names or map(str, range(X.shape[1]))))
    weights = None
    if isinstance(fitted.scores_.solution, Linear):
        weights = fitted.coef_ * spread(fitted.state_.moments)
    ranks = bounded(f)
    if f.ndim == 2 and fitted.multi_class == "discriminant":
        ranks = against_rest(f)
    result = targets.result(name, f, took, weights, terms, ranks)
    reasons = replace(
        model.explain(X[-EXPLAINED:]),
        names=[f"x{j}" for j in range(X.shape[1])] if names is None else list(names),
        classes=targets.classes[targets.order],
    )
    return replace(result, reasons=reasons)


def _rival(name: str, make: Callable[[], Any], Z: Matrix, targets: _Targets) -> Result:
    """One rule for two classes, or one for each class against the rest."""
    sides = [1] if len(targets.classes) == 2 else list(range(len(targets.classes)))
    scores, weights, took = [], [], 0.0
    for k in sides:
        rule, target = make(), (targets.codes == k).astype(int)
        start = time.perf_counter()
        scores.append(rule.progressive_scores(Z, target, delay=targets.delay, classes=[0, 1]))
        took += time.perf_counter() - start
        weights.append(rule.coef_[0])
    f: Matrix = scores[0] if len(sides) == 1 else np.column_stack(scores)
    return targets.result(name, f, took, np.array(weights))


def _guest(
    name: str, model: Any, Z: Matrix, targets: _Targets, names: Sequence[str] | None
) -> Result:
    known = list(names or [f"x{j}" for j in range(Z.shape[1])])
    best, f, took = progressive(name, model, Z, targets.codes, targets.delay, targets.first, known)
    return targets.result(name, f, took, None, best=best)


def winner(results: list[Result]) -> Result:
    """The result with the highest G-mean, the first if several have it.

    Parameters
    ----------
    results : list of Result
        Results of all methods.

    Returns
    -------
    Result

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise.evaluate.race import race, winner
    >>> rng = np.random.default_rng(0)
    >>> y = (rng.random(300) < 0.2).astype(int)
    >>> X = rng.standard_normal((300, 2)) + 2.0 * y[:, None]
    >>> winner(list(race(X, y, rivals=["PA", "AROW"]))).name
    'BalancedRidgeClassifier'
    """
    return max(results, key=lambda result: result.metrics.confusion.g_mean() or 0.0)
