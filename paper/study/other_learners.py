"""Learners of the study that no library has, and variants of a learner.

Camoriano et al., "Incremental robot learning of new objects with fixed update time", ICRA 2017, is
the work that the paper names as the nearest. Its regularized least squares are recursive, too, but
class weights multiply the targets only: W = (XᵀX + λI)⁻¹ (b_1 γ_1, ..., b_c γ_c). NR-RLS weighs the
rows, on both sides of the equation, which is the solution of a weighted problem.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from counterpoise.arrays import Labels, Matrix

RECENT_ROWS = 1_000  # by which variants are chosen


def g_mean(y: Labels, predicted: Labels) -> float:
    """Return the G-mean of predictions."""
    recalls = [float(np.mean(predicted[y == label] == label)) for label in np.unique(y)]
    return float(np.prod(recalls) ** (1.0 / len(recalls)))


class ScaledClassifier:
    """A learner of chunks whose features are standardized by all rows so far."""

    def __init__(self, model: Any) -> None:
        self.model, self.scaler = model, StandardScaler()

    def partial_fit(self, X: Matrix, y: Labels, classes: Labels | None = None) -> ScaledClassifier:
        """Learn a chunk."""
        self.scaler.partial_fit(X)
        self.model.partial_fit(self.scaler.transform(X), y, classes)
        return self

    @property
    def classes_(self) -> Labels:
        """Classes of the scores."""
        found: Labels = self.model.classes_
        return found

    def predict(self, X: Matrix) -> Labels:
        """Return labels (n,)."""
        found: Labels = self.model.predict(self.scaler.transform(X))
        return found

    def decision_function(self, X: Matrix) -> Matrix:
        """Return scores, as the learner has them."""
        found: Matrix = self.model.decision_function(self.scaler.transform(X))
        return found


class _LinearLearner:
    """A linear model of two or more classes with a constant feature."""

    W: Matrix  # (1 + d, c)
    classes_: Labels

    def decision_function(self, X: Matrix) -> Matrix:
        """Return scores (n,) of two classes, or (n, c)."""
        f: Matrix = _add_constant(X) @ self.W
        return f[:, 1] - f[:, 0] if f.shape[1] == 2 else f

    def predict(self, X: Matrix) -> Labels:
        """Return labels (n,)."""
        found: Labels = self.classes_[(_add_constant(X) @ self.W).argmax(axis=1)]
        return found


class ClassRecodedRLS(_LinearLearner):
    """Incremental regularized least squares with class recoding (Camoriano et al. 2017).

    The code of class k is multiplied by (n/n_k)^exponent. Exponent 0 is plain regularized least
    squares. The paper updates a Cholesky factor; here XᵀX is kept and solved after each chunk,
    which gives the same model.
    """

    def __init__(self, ridge: float = 1e-4, exponent: float = 1.0) -> None:
        self.ridge, self.exponent, self.n = ridge, exponent, 0.0

    def partial_fit(self, X: Matrix, y: Labels, classes: Labels | None = None) -> ClassRecodedRLS:
        """Learn a chunk."""
        Z = _add_constant(X)
        if not self.n:
            self.classes_ = np.unique(y) if classes is None else classes
            self.A, self.B = np.zeros((Z.shape[1],) * 2), np.zeros((Z.shape[1], len(self.classes_)))
            self.counts = np.zeros(len(self.classes_))
        T = (y[:, None] == self.classes_).astype(float)
        self.A, self.B = self.A + Z.T @ Z, self.B + Z.T @ T
        self.n, self.counts = self.n + len(y), self.counts + T.sum(axis=0)
        gamma = (self.n / np.maximum(self.counts, 1.0)) ** self.exponent
        ridge = self.ridge * self.n * np.eye(len(self.A))
        self.W = np.linalg.solve(self.A + ridge, self.B * gamma)
        return self


class WeightedAROW(_LinearLearner):
    """AROW of two classes in which a row of a rare class has a larger weight.

    While the margin is below 1: β = 1/(v + r/ω), w ← w + β (1 − y f) y Σx, with v = xᵀΣx and
    ω = n/(2 n_k) of the rows so far.
    """

    def __init__(self, r: float = 1.0) -> None:
        self.r, self.counts = r, np.zeros(2)

    def partial_fit(self, X: Matrix, y: Labels, classes: Labels | None = None) -> WeightedAROW:
        """Learn the rows in order."""
        Z = _add_constant(X)
        if not self.counts.any():
            self.classes_ = np.unique(y) if classes is None else classes
            if len(self.classes_) != 2:
                raise ValueError("weighted AROW is for two classes")
            self.w, self.S = np.zeros(Z.shape[1]), np.eye(Z.shape[1])
        for x, label in zip(Z, y, strict=True):
            k = int(label == self.classes_[1])
            self.counts[k] += 1.0
            sign, f = 2.0 * k - 1.0, float(self.w @ x)
            if sign * f < 1.0:
                Sx = self.S @ x
                omega = self.counts.sum() / (2.0 * self.counts[k])
                beta = 1.0 / (x @ Sx + self.r / omega)
                self.w += beta * (1.0 - sign * f) * sign * Sx
                self.S -= beta * np.outer(Sx, Sx)
        self.W = np.column_stack([np.zeros_like(self.w), self.w])
        return self


def _add_constant(X: Matrix) -> Matrix:
    return np.column_stack([np.ones(len(X)), X])


class ResamplingBagging:
    """OOB and UOB (Wang, Minku and Yao 2015): online bagging with resampled classes.

    A model learns a row Poisson(λ) times. OOB: λ is the size of the largest class over that of the
    class. UOB: the size of the smallest class over that of the class. Sizes decay by ``theta``.
    """

    def __init__(
        self, make: Any, oversample: bool, models: int = 10, theta: float = 0.9, seed: int = 0
    ) -> None:
        self.models, self.oversample = [make() for _ in range(models)], oversample
        self.theta, self.rng = theta, np.random.default_rng(seed)
        self.sizes: dict[Any, float] = {}

    def learn_one(self, x: dict[Any, float], y: Any) -> None:
        """Learn an event."""
        self.sizes.setdefault(y, 0.0)
        for label in self.sizes:
            is_own = float(label == y)
            self.sizes[label] = self.theta * self.sizes[label] + (1.0 - self.theta) * is_own
        sizes = [size for size in self.sizes.values() if size > 0.0]
        reference = max(sizes) if self.oversample else min(sizes)
        rate = min(reference / max(self.sizes[y], 1e-12), 100.0)
        for model, times in zip(
            self.models, self.rng.poisson(rate, len(self.models)).tolist(), strict=True
        ):
            for _ in range(times):
                model.learn_one(x, y)

    def predict_proba_one(self, x: dict[Any, float]) -> dict[Any, float]:
        """Return the mean of the probabilities."""
        found: dict[Any, float] = {}
        for model in self.models:
            for label, p in model.predict_proba_one(x).items():
                found[label] = found.get(label, 0.0) + p / len(self.models)
        return found

    def predict_one(self, x: dict[Any, float]) -> Any:
        """Return the most probable label, or None."""
        found = self.predict_proba_one(x)
        return max(found, key=lambda label: found[label]) if found else None


class RefittedLightGBM:
    """LightGBM whose trees are kept, and whose leaves learn new rows (``Booster.refit``)."""

    def __init__(self, estimator: Any, every: int = 500, decay: float = 0.9) -> None:
        self.estimator, self.every, self.decay = estimator, every, decay
        self.rows: list[tuple[Matrix, Labels]] = []
        self.booster: Any = None

    def partial_fit(self, X: Matrix, y: Labels) -> RefittedLightGBM:
        """Store rows, and refit the leaves if it is time."""
        self.rows.append((X, y))
        if sum(len(labels) for _, labels in self.rows) < self.every:
            return self
        Z, labels = (np.concatenate(parts) for parts in zip(*self.rows, strict=True))
        if self.booster is None:
            if len(np.unique(labels)) < 2:
                return self
            self.estimator.fit(Z, labels)
            self.booster, self.classes_ = self.estimator.booster_, self.estimator.classes_
        else:
            codes = np.searchsorted(self.classes_, labels)
            n = np.bincount(codes, minlength=2)[codes]
            weight = len(labels) / (2.0 * n)
            self.booster = self.booster.refit(Z, codes, decay_rate=self.decay, weight=weight)
        self.rows = []
        return self

    def __getattr__(self, name: str) -> Any:
        """Return the methods that predict, once there is a model."""
        if name in ("predict", "predict_proba") and self.__dict__.get("booster") is not None:
            return getattr(self, f"_{name}")
        raise AttributeError(name)

    def _predict_proba(self, X: Matrix) -> Matrix:
        p = self.booster.predict(X)
        return np.column_stack([1.0 - p, p])

    def _predict(self, X: Matrix) -> Labels:
        found: Labels = self.classes_[(self.booster.predict(X) > 0.5).astype(int)]
        return found


class ChosenClassifier:
    """Variants of a learner, of which the one with the best progressive G-mean predicts."""

    def __init__(self, variants: dict[str, Any]) -> None:
        self.variants, self.best = variants, next(iter(variants))
        self.past: deque[tuple[Any, ...]] = deque(maxlen=RECENT_ROWS)
        self.has_learned = False

    def partial_fit(self, X: Matrix, y: Labels) -> ChosenClassifier:
        """Score a chunk by every variant, and learn it."""
        if self.has_learned and hasattr(self, "predict"):
            found = [one.predict(X).tolist() for one in self.variants.values()]
            self.past.extend(zip(y.tolist(), *found, strict=True))
            true, *predicted = map(np.array, zip(*self.past, strict=True))
            if len(np.unique(true)) > 1:
                best = int(np.argmax([g_mean(true, one) for one in predicted]))
                self.best = list(self.variants)[best]
        for one in self.variants.values():
            one.partial_fit(X, y)
        self.has_learned = True
        return self

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the best variant, once all variants can predict."""
        variants = self.__dict__.get("variants", {})
        if name.startswith("__") or not all(hasattr(one, name) for one in variants.values()):
            raise AttributeError(name)
        return getattr(variants[self.best], name)


class LastLabel:
    """Baseline: the label of the last row whose label has come."""

    def partial_fit(self, X: Matrix, y: Labels) -> LastLabel:
        """Remember the last label."""
        self.last = y[-1]
        return self

    def predict(self, X: Matrix) -> Labels:
        """Return the last label, n times."""
        return np.full(len(X), self.last)


class MajorityClass:
    """Baseline: the most frequent class so far."""

    def __init__(self) -> None:
        self.counts: dict[Any, int] = {}

    def partial_fit(self, X: Matrix, y: Labels) -> MajorityClass:
        """Count labels."""
        for label, count in zip(*np.unique(y, return_counts=True), strict=True):
            self.counts[label] = self.counts.get(label, 0) + int(count)
        return self

    def predict(self, X: Matrix) -> Labels:
        """Return the most frequent label, n times."""
        return np.full(len(X), max(self.counts, key=lambda label: self.counts[label]))
