"""What all online rules share: scikit-learn's face, a state, and the loop that runs them.

A rule says how it starts (:meth:`OnlineRule._start`), what one labelled row does to its state
(``step``, the specification) and which compiled loop does the same faster (``_kernel``). Labels
are −1 for the first of ``classes_`` and +1 for the second; a constant feature is appended to the
rows if ``fit_intercept`` is true, so that it is a weight like any other.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
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
from counterpoise.online import covariance as cov


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
    # (2,) counts of the negative and the positive class
    n: Vector = field(default_factory=lambda: np.zeros(2))
    # (2, room, d) rows of each class, where a rule keeps them
    stored: NDArray[np.float64] = field(default_factory=lambda: np.zeros(1))
    tau: float = 0.0  # the threshold that the weights were learned for
    made_for: tuple[Any, ...] = ()  # the parameters that decided the shapes of these arrays

    def copy(self) -> State:
        """An independent copy, in the tenth part of what ``deepcopy`` takes."""
        w, S, z, n = self.w.copy(), self.S.copy(), self.z.copy(), self.n.copy()
        return State(w, S, z, n, self.stored.copy(), self.tau, self.made_for)


def too_large() -> ValueError:
    """Return the error that weights overflow."""
    return ValueError(
        "these rows make the weights overflow, or a second moment singular; scale the features, "
        "for example with sklearn.preprocessing.StandardScaler, or take a larger ridge"
    )


def indefinite() -> ValueError:
    """Return the error that a covariance is lost."""
    return ValueError(
        "with these rows the covariance of the weights is no longer positive definite, so they are "
        "not learned; scale the features, for example with sklearn.preprocessing.StandardScaler, "
        "leave out columns that follow from others, or take a larger ridge"
    )


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


OPS_BEFORE_CLOCK_CHECK = 1e7  # multiplications, at most, before the first look at the clock


def run(
    kernel: Any,
    parameters: list[float],
    work: Vector,
    s: State,
    stream: tuple[Matrix, Vector, Vector, int, Vector],
) -> None:
    """Run a kernel on a state that has room, in place.

    ``stream`` is rows (n, d), targets (n,), weights (n,), the delay, and where scores (n,) go.
    """
    arguments = (
        *stream,
        np.array([*parameters, 0.0]),
        work,
        s.stored.reshape(-1),
        s.w,
        s.S.reshape(-1),
        s.z.reshape(-1),
        s.n,
    )
    rows, delay = stream[0], stream[3]
    d, at, steps = len(s.w), 0, len(rows) + delay
    piece = max(
        int(OPS_BEFORE_CLOCK_CHECK / (d**3 + d * s.stored.size)), 1
    )  # no rule takes more for a step
    while True:
        stop, began = min(at + piece, steps), time.monotonic()
        kernel(*arguments, at, stop)
        took, at = time.monotonic() - began, stop
        if at == steps:
            break
        if took < 0.05:
            piece *= 2
        elif took > 0.2:
            piece = max(piece // 2, 1)


ARRAYS = ("w", "S", "z", "n", "stored")


class OnlineClassifier(SaveLoadMixin, ClassifierMixin, BaseEstimator):
    """A binary linear classifier that learns row by row."""

    fit_intercept: bool
    classes_: Labels
    _state: State
    _second_order = False  # whether S is a covariance as of counterpoise.online.covariance

    # What a rule defines.

    def _check(self) -> None:
        """Raise if a parameter has no meaning."""

    def _start(self, d: int) -> State:
        """State before the first row."""
        return State(np.zeros(d))

    def _kernel(self) -> tuple[Any, list[float]]:
        """Compiled loop of this rule and its parameters."""
        raise NotImplementedError

    def _tau(self) -> float:
        """Score at which the prediction changes."""
        return 0.0

    def _work(self, d: int) -> int:
        """Numbers that the compiled loop works with."""
        return 4 * d

    def _definite(self, s: State) -> bool:
        """Whether the covariance is finite and positive definite, if there is one."""
        return cov.definite(s.S) if self._second_order else bool(np.isfinite(s.S).all())

    # What a user calls.

    def fit(self, X: ArrayLike, y: ArrayLike) -> OnlineClassifier:
        """Learn from these rows alone, in one pass in the given order.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows.
        y : array-like of shape (n,)
            Their labels, two different ones.

        Returns
        -------
        self
        """
        self._fit(X, y, None)
        return self

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None
    ) -> OnlineClassifier:
        """Learn from more rows, in the given order.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows.
        y : array-like of shape (n,)
            Their labels.
        classes : array-like of shape (2,), optional
            Both labels; needed by the first call unless y holds both.

        Returns
        -------
        self
        """
        self._partial_fit(X, y, classes, None)
        return self

    def progressive_scores(
        self, X: ArrayLike, y: ArrayLike, delay: int = 0, classes: ArrayLike | None = None
    ) -> Vector:
        """Test, then train: score each row by the model just before it, learning as it goes.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows, in order.
        y : array-like of shape (n,)
            Their labels.
        delay : int, default=0
            The label of a row arrives this many rows after it. In the end all are learned.
        classes : array-like of shape (2,), optional
            Both labels; needed by the first call unless y holds both.

        Returns
        -------
        ndarray of shape (n,)
            Scores as of :meth:`decision_function`; a model that knows nothing scores 0 (or −tau
            where there is a threshold).
        """
        delay = validation.check_nonnegative_int(delay, "delay")
        with validation.transactional(self) as draft:
            rows, target, weight = draft._prepare_rows(X, y, classes, None)
            scores: Vector = draft._run(rows, target, weight, min(delay, len(rows))) - draft._tau()
        return scores

    def decision_function(self, X: ArrayLike) -> Vector:
        """Scores: positive for the second of ``classes_``.

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

    def predict(self, X: ArrayLike) -> Labels:
        """Labels: the second of ``classes_`` where the score is 0 or more.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows.

        Returns
        -------
        ndarray of shape (n,)
        """
        positive = self.decision_function(X) >= 0.0
        labels: Labels = self.classes_[positive.astype(np.intp)]
        return labels

    @property
    def coef_(self) -> Matrix:
        """Weights of the features, of shape (1, d)."""
        self._require_learned()
        return self._state.w[None, : self.n_features_in_].copy()

    @property
    def intercept_(self) -> Vector:
        """Score at the origin, of shape (1,)."""
        self._require_learned()
        constant = self._state.w[-1] if self._state.made_for[0] else 0.0
        return np.array([constant - self._state.tau])

    @property
    def covariance_(self) -> NDArray[np.float64]:
        """Covariance of the weights, or its diagonal; that of the constant comes last."""
        self._require_learned()
        return self._covariance(self._state)

    def _covariance(self, s: State) -> NDArray[np.float64]:
        if not self._second_order:
            raise AttributeError(f"{type(self).__name__} is a first-order rule: no covariance")
        return cov.matrix(s.S)

    def __sklearn_is_fitted__(self) -> bool:
        return "_state" in self.__dict__

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    # Within.

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

    def _learn(self, rows: Matrix, target: Vector, weight: Vector) -> None:
        self._run(rows, target, weight, 0)

    def _prepare_rows(
        self, X: Any, y: Any, classes: Any, sample_weight: Any
    ) -> tuple[Matrix, Vector, Vector]:
        """Rows with the constant, targets ±1 and weights; a first state if there is none."""
        validation.check_bool(self, "fit_intercept")
        self._check()
        first = "_state" not in self.__dict__
        array_validation.require_y(self, y)
        X, y = array_validation.rows(self, X, y, reset=first, accept_sparse=False)
        weight = validation.weights(sample_weight, len(X))
        if first:
            self.classes_ = two_labels(y, classes)
        elif classes is not None and set(np.asarray(classes).tolist()) != set(
            self.classes_.tolist()
        ):
            raise ValueError(
                f"classes={classes!r} are not those of the first call, {self.classes_.tolist()}"
            )
        validation.require_one_type(y, self.classes_)
        positive = y == self.classes_[1]
        strange = ~positive & (y != self.classes_[0])
        if strange.any():
            raise ValueError(
                f"label {y[strange][0]!r} at row {int(strange.argmax())} is neither of "
                f"{self.classes_.tolist()}. Only binary classification is supported. For more "
                "classes wrap the rule in sklearn.multiclass.OneVsRestClassifier"
            )
        validation.require_bounded(X, self.__dict__.get("feature_names_in_"))
        rows = np.column_stack([X, np.ones(len(X))]) if self.fit_intercept else X
        if first:
            self._state = self._begin(rows.shape[1])
        elif self._state.made_for != self._shape():
            raise ValueError(
                "fit_intercept and covariance cannot change once rows were learned; fit again, or "
                "use a clone"
            )
        target = np.where(positive, 1.0, -1.0)
        return rows, target, np.ones(len(X)) if weight is None else weight

    def _run(self, rows: Matrix, target: Vector, weight: Vector, delay: int) -> Vector:
        """Run the compiled loop on a copy of the state, which then takes its place."""
        s = self._before(self._state.copy(), target)
        scores = np.empty(len(rows))
        self._drive(s, rows, target, weight, delay, scores)
        if not np.isfinite(scores).all():
            raise too_large()
        self._replace(s)
        return scores

    def _drive(
        self, s: State, rows: Matrix, target: Vector, weight: Vector, delay: int, scores: Vector
    ) -> None:
        """Run the compiled loop on a state that has room, in place."""
        kernel, parameters = self._kernel()
        work = np.empty(self._work(len(s.w)))
        run(kernel, parameters, work, s, (rows, target, weight, delay, scores))

    def _contents(self) -> Contents:
        """What a file is to hold of this rule."""
        self._require_fitted()
        s = self._state
        if s.made_for != self._shape():
            raise ValueError("fit_intercept and covariance cannot change once rows were learned")
        arrays = {name: getattr(s, name) for name in ARRAYS}
        facts = {
            "classes": plain_labels(self.classes_),
            "features": self.n_features_in_,
            "tau": float(s.tau),
        }
        params, names = self.get_params(deep=False), self.__dict__.get("feature_names_in_")
        return engine_contents(type(self).__name__, params, arrays, facts, names)

    @classmethod
    def _from_contents(cls, contents: Contents) -> Any:
        """A rule from what a file holds, checked as if a stranger had written it."""
        result = cls(**options_of(contents.options, cls().get_params()))
        try:
            validation.check_bool(result, "fit_intercept")
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
        result.classes_ = labels_of(facts["classes"])
        two = len(result.classes_) == 2 and np.array_equal(
            np.sort(result.classes_), result.classes_
        )
        check_file(two, "classes that are not two in order")
        wanted = result._shapes(d + bool(result.fit_intercept))  # before memory is spent on them
        for name in ARRAYS:
            shape, found = wanted[name], arrays[name].shape
            if name == "stored" and len(shape) == 3:  # has as much room as was needed
                shape, found = shape[::2], found[::2] if len(found) == 3 else found
            check_file(found == shape, f"a tensor {name!r} of shape {arrays[name].shape}")
        s = result._begin(d + bool(result.fit_intercept))
        for name in ARRAYS:
            setattr(s, name, arrays[name])
        room = s.stored.shape[1] if s.stored.ndim == 3 else np.inf
        check_file(bool((s.n >= 0).all() and (s.n <= room).all()), "impossible counts")
        if result._second_order:
            check_file(cov.is_factor(s.S), "a covariance that is not a factor of a positive one")
        check_file(result._definite(s), "a covariance that is not positive definite")
        s.tau = tau
        result.n_features_in_ = d
        names = feature_names(contents, d)
        if names is not None:
            result.feature_names_in_ = names
        result._state = s
        return result

    def _shapes(self, d: int) -> dict[str, tuple[int, ...]]:
        """Shapes of what is learned from d features, found by two that are small."""
        two, three = self._begin(2), self._begin(3)
        return {
            name: tuple(
                d if pair == (2, 3) else pair[0]
                for pair in zip(getattr(two, name).shape, getattr(three, name).shape, strict=True)
            )
            for name in ARRAYS
        }

    def _begin(self, d: int) -> State:
        s = self._start(d)
        s.made_for = self._shape()
        return s

    def _shape(self) -> tuple[Any, ...]:
        return self.fit_intercept, getattr(self, "covariance", None)

    def _before(self, s: State, target: Vector) -> State:
        """Make room for rows of these targets, where a rule stores rows."""
        return s

    def _replace(self, s: State) -> None:
        if not np.isfinite(s.w).all():
            raise too_large()
        if not self._definite(s):
            raise indefinite()
        s.tau = self._tau()
        self._state = s

    def _require_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} has learned nothing yet; call fit or partial_fit first"
            )

    def _require_learned(self) -> None:
        """As above, as the AttributeError that ``hasattr`` expects."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"this {type(self).__name__} has learned nothing yet")


class Weighted:
    """For rules in which the weight of a row has a meaning; comes before
    :class:`~counterpoise.online.base.OnlineRule`.
    """

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Any:
        """Learn from these rows alone, in one pass in the given order.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows.
        y : array-like of shape (n,)
            Their labels, two different ones.
        sample_weight : array-like of shape (n,), optional
            Weight of each row in the sum of squares.

        Returns
        -------
        self
        """
        return self._fit(X, y, sample_weight)  # type: ignore[attr-defined]

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Any:
        """Learn from more rows, in the given order.

        Parameters
        ----------
        X : array-like of shape (n, d)
            The rows.
        y : array-like of shape (n,)
            Their labels.
        classes : array-like of shape (2,), optional
            Both labels; needed by the first call unless y holds both.
        sample_weight : array-like of shape (n,), optional
            Weight of each row in the sum of squares.

        Returns
        -------
        self
        """
        return self._partial_fit(X, y, classes, sample_weight)  # type: ignore[attr-defined]
