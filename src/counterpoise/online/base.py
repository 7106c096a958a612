"""Base of the online rules: parameters, a state, and the loop that runs a rule over rows.

A rule defines ``step``, the specification of one update of its state, and ``_kernel``, the compiled
loop that is equal to it. Labels are −1 for the first of ``classes_``
and +1 for the second. If ``fit_intercept`` is true, a constant feature is appended to the rows, so
that it has a weight like any other.

A full covariance Σ is kept as R, upper triangular with Σ = RᵀR. It is positive definite as long as
the diagonal of R is positive, however it is rounded. :func:`shrink` adds c x xᵀ to Σ⁻¹, which is
Σ ← Σ − c/(1 + c v) Σx xᵀΣ with v = xᵀΣx, in Carlson's form (AIAA Journal 11, 1973): with f = Rx
and α_j = 1 + c Σ_{k≥j} f_k², row j of R becomes
√(α_{j+1}/α_j) R_j − c f_j/√(α_j α_{j+1}) Σ_{k>j} f_k R_k. Of a diagonal Σ only the diagonal of
Σ⁻¹ + c x xᵀ is kept ("diagonal"), or of the formula itself ("diagonal-drop").
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.multiclass import check_classification_targets

from counterpoise import validation
from counterpoise.arrays import Labels, Matrix, Vector
from counterpoise.errors import ModelFileError
from counterpoise.estimators import array_validation
from counterpoise.modelfile.container import Contents, check_file
from counterpoise.modelfile.engines import (
    SaveLoadMixin,
    engine_contents,
    feature_names,
    options_of,
)
from counterpoise.modelfile.values import labels_of, plain_labels
from counterpoise.public_names import document_like

Loop = tuple[Any, list[float]]  # the compiled loop of a rule, and its parameters
ARRAYS = ("w", "S", "z", "n", "stored")
OPS_BEFORE_CLOCK_CHECK = 1e7  # multiplications, at most, before the clock is first read


@dataclass(eq=False)
class State:
    """All that a rule has learned."""

    w: Vector  # (d,) weights, that of the constant last
    # factor R of the covariance or inverse second moment RᵀR, (d, d), or its diagonal, (d,);
    # for some rules moments
    S: NDArray[np.float64] = field(default_factory=lambda: np.zeros(1))
    # (2, d) first moments of the negative and the positive class, or units of the columns,
    # where a rule keeps them
    z: NDArray[np.float64] = field(default_factory=lambda: np.zeros(1))
    n: Vector = field(default_factory=lambda: np.zeros(2))  # counts of both classes
    # (2, capacity, d) rows of each class, where a rule keeps them
    stored: NDArray[np.float64] = field(default_factory=lambda: np.zeros(1))
    tau: float = 0.0  # the threshold that the weights were learned for
    made_for: tuple[Any, ...] = ()  # the parameters that decided the shapes of these arrays

    def copy(self) -> State:
        """Return an independent copy, in a tenth of the time of ``deepcopy``."""
        return replace(self, **{name: getattr(self, name).copy() for name in ARRAYS})


def covariance_of(S: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Σ (d, d) of its factor, or its diagonal (d,)."""
    return S.T @ S if S.ndim == 2 else S.copy()


def is_definite(S: NDArray[np.float64]) -> bool:
    """Return whether Σ is finite and positive definite."""
    diagonal = S.diagonal() if S.ndim == 2 else S
    return bool(np.isfinite(S).all() and (diagonal > 0.0).all())


def covariance_times(S: NDArray[np.float64], x: Vector) -> Vector:
    """Return Σx (d,)."""
    return S.T @ (S @ x) if S.ndim == 2 else S * x


def shrink(S: NDArray[np.float64], x: Vector, c: float, drop: bool = False) -> None:
    """Add c x xᵀ to Σ⁻¹, in place."""
    if S.ndim == 2:
        f, after, Sx = S @ x, 1.0, np.zeros(len(x))
        for j in reversed(range(len(x))):
            row, before, after = S[j].copy(), after, after + c * f[j] ** 2
            S[j] = sqrt(before / after) * row - c * f[j] / sqrt(before * after) * Sx
            Sx += f[j] * row
    elif drop:
        S -= c / (1.0 + c * (x @ (S * x))) * (S * x) ** 2
    else:
        S /= 1.0 + c * S * x**2


def two_labels(y: Labels, classes: Any) -> Labels:
    """Return the two labels of y (n,), or those named by ``classes``, in order."""
    check_classification_targets(y)
    labels: Labels = np.unique(y if classes is None else np.asarray(classes))
    if len(labels) > 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is multiclass, with "
            f"{len(labels)} labels. Wrap the rule in sklearn.multiclass.OneVsRestClassifier"
        )
    if len(labels) < 2:
        raise ValueError(
            f"only one class is in the data, {labels.tolist()}; learning begins with both, or "
            "with partial_fit(X, y, classes=[negative, positive])"
        )
    return labels


class OnlineClassifier(SaveLoadMixin, ClassifierMixin, BaseEstimator):
    """A binary linear classifier that learns row by row."""

    fit_intercept: bool
    classes_: Labels
    tau: float = 0.0  # score at which the prediction changes
    _state: State
    _second_order = False  # whether S is a covariance
    _flags: tuple[str, ...] = ("fit_intercept",)  # parameters that are booleans
    _positive: tuple[str, ...] = ()  # parameters that are positive numbers
    _choices: tuple[tuple[str, ...], ...] = ()  # parameters that are text, each with its values

    # A rule defines ``step`` and ``_kernel``, and redefines what else it needs.

    def step(self, s: State, x: Vector, y: float) -> bool:
        """Learn one row.

        Parameters
        ----------
        s : State
            Changed in place.
        x : ndarray of shape (d,)
            The row, with the constant if there is one.
        y : float
            −1 or 1.

        Returns
        -------
        bool
            Whether the rule took its update.
        """
        raise NotImplementedError

    def _kernel(self) -> Loop:
        """Return the compiled loop of this rule and its parameters."""
        raise NotImplementedError

    def _check(self) -> None:
        """Raise if a parameter has no meaning."""
        for name in self._flags:
            validation.check_bool(self, name)
        for name in self._positive:
            validation.require_positive(self, name)
        for name, *choices in self._choices:
            validation.require_one_of(self, name, tuple(choices))

    def _start(self, d: int) -> State:
        """Return the state before the first row: Σ is a I, or I/ridge."""
        if not self._second_order:
            return State(np.zeros(d))
        params = self.get_params(deep=False)
        a = params["a"] if "a" in params else 1.0 / params["ridge"]
        full = params.get("covariance", "full") == "full"
        return State(np.zeros(d), sqrt(a) * np.eye(d) if full else np.full(d, a))

    def _work(self, d: int) -> int:
        """Return the size of the workspace of the compiled loop."""
        return 4 * d

    def _reserve(self, s: State, target: Vector) -> State:
        """Reserve memory for rows of these targets, where a rule stores rows."""
        return s

    def _covariance(self, s: State) -> NDArray[np.float64]:
        if not self._second_order:
            raise AttributeError(
                f"{type(self).__name__} is a first-order rule and does not have a covariance"
            )
        return covariance_of(s.S)

    def _is_definite(self, s: State) -> bool:
        """Return whether the covariance is finite and positive definite, if there is one."""
        return is_definite(s.S) if self._second_order else bool(np.isfinite(s.S).all())

    def _learn(self, rows: Matrix, target: Vector, weight: Vector) -> None:
        self._run(rows, target, weight, 0)

    # Public methods.

    def fit(self, X: ArrayLike, y: ArrayLike) -> OnlineClassifier:
        """Learn from these rows of two classes alone, in one pass in the given order.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows.
        y : array-like of shape (n,)
            Their labels.

        Returns
        -------
        self
        """
        self._fit(X, y, None)
        return self

    @document_like(fit)
    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None
    ) -> OnlineClassifier:
        """Learn from more rows, in the given order.

        Parameters
        ----------
        classes : array-like of shape (2,), optional
            Both labels; needed by the first call unless y holds both.
        """
        self._partial_fit(X, y, classes, None)
        return self

    @document_like(partial_fit)
    def progressive_scores(
        self, X: ArrayLike, y: ArrayLike, delay: int = 0, classes: ArrayLike | None = None
    ) -> Vector:
        """Test, then train: score each row by the model just before it, learning as it goes.

        Parameters
        ----------
        delay : int, default=0
            The label of a row arrives this many rows after it. In the end all are learned.

        Returns
        -------
        ndarray of shape (n,)
            Scores as of :meth:`decision_function`; 0, or −tau where there is a threshold, of a
            model that has learned nothing.
        """
        delay = validation.check_nonnegative_int(delay, "delay")
        with validation.transactional(self) as draft:
            rows, target, weight = draft._prepare_rows(X, y, classes, None)
            scores: Vector = draft._run(rows, target, weight, min(delay, len(rows))) - float(
                draft.tau
            )
        return scores

    def decision_function(self, X: ArrayLike) -> Vector:
        """Return scores, which are positive for the second of ``classes_``.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows.

        Returns
        -------
        ndarray of shape (n,)
        """
        self._require_fitted()
        rows = array_validation.rows(self, X, accept_sparse=False)
        validation.require_finite(rows, self.__dict__.get("feature_names_in_"))
        scores: Vector = rows @ self.coef_[0] + self.intercept_[0]
        return scores

    @document_like(decision_function)
    def predict(self, X: ArrayLike) -> Labels:
        """Return labels: the second of ``classes_`` where the score is 0 or more."""
        positive = self.decision_function(X) >= 0.0
        labels: Labels = self.classes_[positive.astype(np.intp)]
        return labels

    @property
    def coef_(self) -> Matrix:
        """Weights of the features, of shape (1, d)."""
        self._require_fitted()
        return self._state.w[None, : self.n_features_in_].copy()

    @property
    def intercept_(self) -> Vector:
        """Score at the origin, of shape (1,)."""
        self._require_fitted()
        constant = self._state.w[-1] if self._state.made_for[0] else 0.0
        return np.array([constant - self._state.tau])

    @property
    def covariance_(self) -> NDArray[np.float64]:
        """Covariance of the weights, or its diagonal; that of the constant comes last."""
        self._require_fitted()
        return self._covariance(self._state)

    def __sklearn_is_fitted__(self) -> bool:
        return "_state" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Any:
        with validation.transactional(self) as draft:
            for name in ("_state", "classes_", "n_features_in_", "feature_names_in_"):
                draft.__dict__.pop(name, None)
            rows, target, weight = draft._prepare_rows(X, y, None, sample_weight)
            validation.require_some_weight(weight)
            draft._learn(rows, target, weight)
        return self

    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Any:
        with validation.transactional(self) as draft:
            if getattr(X, "shape", ())[:1] == (0,):  # nothing to learn, but it may not fit
                first = "_state" not in draft.__dict__
                array_validation.rows(draft, X, y, reset=first, accept_sparse=False, least=0)
            else:
                draft._learn(*draft._prepare_rows(X, y, classes, sample_weight))
        return self

    def _prepare_rows(
        self, X: Any, y: Any, classes: Any, sample_weight: Any
    ) -> tuple[Matrix, Vector, Vector]:
        """Return rows with the constant, targets ±1 and weights; start a state if there is none."""
        self._check()
        first = "_state" not in self.__dict__
        array_validation.require_y(self, y)
        X, y = array_validation.rows(self, X, y, reset=first, accept_sparse=False)
        weight = validation.weights(sample_weight, len(X))
        if first:
            self.classes_ = two_labels(y, classes)
        known = self.classes_.tolist()
        if classes is not None and set(np.asarray(classes).tolist()) != set(known):
            raise ValueError(f"classes={classes!r} are not those of the first call, {known}")
        validation.require_one_type(y, self.classes_)
        positive = y == self.classes_[1]
        other = ~positive & (y != self.classes_[0])
        if other.any():
            raise ValueError(
                f"label {y[other][0]!r} at row {int(other.argmax())} is neither of {known}. Only "
                "binary classification is supported. For more classes wrap the rule in "
                "sklearn.multiclass.OneVsRestClassifier"
            )
        validation.require_bounded(X, self.__dict__.get("feature_names_in_"))
        rows = np.column_stack([X, np.ones(len(X))]) if self.fit_intercept else X
        if first:
            self._state = self._begin(rows.shape[1])
        self._require_same_shape()
        target = np.where(positive, 1.0, -1.0)
        return rows, target, np.ones(len(X)) if weight is None else weight

    def _run(self, rows: Matrix, target: Vector, weight: Vector, delay: int) -> Vector:
        """Run the compiled loop on a copy of the state, which then takes its place."""
        s = self._reserve(self._state.copy(), target)
        scores = np.empty(len(rows))
        self._drive(s, rows, target, weight, delay, scores)
        self._replace(s, scores)
        return scores

    def _drive(
        self, s: State, rows: Matrix, target: Vector, weight: Vector, delay: int, scores: Vector
    ) -> None:
        """Run the compiled loop in place, in parts between which Python handles signals."""
        kernel, parameters = self._kernel()
        stream = rows, target, weight, delay, scores
        work = np.array([*parameters, 0.0]), np.empty(self._work(len(s.w)))
        state = [array.reshape(-1) for array in (s.stored, s.w, s.S, s.z, s.n)]
        d, at, steps = len(s.w), 0, len(rows) + delay
        # No rule takes more multiplications for a step.
        part = max(int(OPS_BEFORE_CLOCK_CHECK / (d**3 + d * s.stored.size)), 1)
        while True:
            stop, began = min(at + part, steps), time.monotonic()
            kernel(*stream, *work, *state, at, stop)
            took, at = time.monotonic() - began, stop
            if at == steps:
                break
            if took < 0.05:
                part *= 2
            elif took > 0.2:
                part = max(part // 2, 1)

    def _replace(self, s: State, scores: Vector | float = 0.0) -> None:
        if not (np.isfinite(scores).all() and np.isfinite(s.w).all()):
            raise ValueError(
                "these rows make the weights overflow, or a second moment singular; scale the "
                "features, for example with sklearn.preprocessing.StandardScaler, or take a larger "
                "ridge"
            )
        if not self._is_definite(s):
            raise ValueError(
                "these rows make the covariance of the weights indefinite, so they are not "
                "learned; scale the features, for example with sklearn.preprocessing."
                "StandardScaler, leave out columns that follow from others, or take a larger ridge"
            )
        s.tau = float(self.tau)
        self._state = s

    def _begin(self, d: int) -> State:
        s = self._start(d)
        s.made_for = self._shape()
        return s

    def _shape(self) -> tuple[Any, ...]:
        return self.fit_intercept, getattr(self, "covariance", None)

    def _require_same_shape(self) -> None:
        if self._state.made_for != self._shape():
            raise ValueError(
                "fit_intercept and covariance cannot change once rows were learned; fit again, or "
                "use a clone"
            )

    def _require_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet; call fit or partial_fit "
                "first"
            )

    # Model files.

    def _contents(self) -> Contents:
        self._require_fitted()
        self._require_same_shape()
        s, names = self._state, self.__dict__.get("feature_names_in_")
        arrays = {name: getattr(s, name) for name in ARRAYS}
        facts = {
            "classes": plain_labels(self.classes_),
            "features": self.n_features_in_,
            "tau": float(s.tau),
        }
        params = self.get_params(deep=False)
        return engine_contents(type(self).__name__, params, arrays, facts, names)

    @classmethod
    def _from_contents(cls, contents: Contents) -> Any:
        result = cls(**options_of(contents.options, cls().get_params()))
        try:
            result._check()
        except ValueError as error:
            raise ModelFileError(
                f"is not a valid model file: it has an impossible option: {error}"
            ) from None
        facts, arrays = contents.facts, contents.arrays
        check_file(set(facts) == {"classes", "features", "tau"}, "unexpected facts")
        check_file(set(arrays) == set(ARRAYS), "the wrong tensors")
        d, tau = facts["features"], facts["tau"]
        check_file(type(d) is int and 1 <= d <= arrays["w"].size, "an invalid number of features")
        check_file(type(tau) is float and bool(np.isfinite(tau)), "an invalid threshold")
        labels = result.classes_ = labels_of(facts["classes"])
        is_sorted = len(labels) == 2 and np.array_equal(np.sort(labels), labels)
        check_file(is_sorted, "classes that are not two in order")
        width = d + bool(result.fit_intercept)
        result._check_shapes(arrays, width)  # before memory is spent on them
        s = result._begin(width)
        for name in ARRAYS:
            setattr(s, name, arrays[name])
        capacity = s.stored.shape[1] if s.stored.ndim == 3 else np.inf
        check_file(bool((s.n >= 0).all() and (s.n <= capacity).all()), "impossible counts")
        is_factor = not result._second_order or s.S.ndim == 1 or not np.tril(s.S, -1).any()
        check_file(is_factor, "a covariance that is not a factor of a positive one")
        check_file(result._is_definite(s), "a covariance that is not positive definite")
        s.tau = tau
        result.n_features_in_ = d
        names = feature_names(contents, d)
        if names is not None:
            result.feature_names_in_ = names
        result._state = s
        return result

    def _check_shapes(self, arrays: dict[str, Any], d: int) -> None:
        """Check the shapes of the arrays of d features, which two small states show."""
        two, three = self._begin(2), self._begin(3)
        for name in ARRAYS:
            small = zip(getattr(two, name).shape, getattr(three, name).shape, strict=True)
            shape = tuple(d if pair == (2, 3) else pair[0] for pair in small)
            found = arrays[name].shape
            if name == "stored" and len(shape) == len(found) == 3:  # any capacity will do
                shape = shape[0], found[1], shape[2]
            check_file(found == shape, f"a tensor {name!r} of shape {found}")


class SampleWeightMixin:
    """Mixin for rules that accept sample weights."""

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Any:
        """Learn as :meth:`OnlineClassifier.fit`, with the weight (n,) of each row."""
        return self._fit(X, y, sample_weight)  # type: ignore[attr-defined]

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Any:
        """Learn as :meth:`OnlineClassifier.partial_fit`, with the weight (n,) of each row."""
        return self._partial_fit(X, y, classes, sample_weight)  # type: ignore[attr-defined]
