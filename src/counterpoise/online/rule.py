"""What all online rules share: scikit-learn's face, a state, and the loop that runs them.

A rule says how it starts (:meth:`OnlineRule._start`), what one labelled row does to its state
(``step``, the specification) and which compiled loop does the same faster (``_kernel``). Labels
are −1 for the first of ``classes_`` and +1 for the second; a constant feature is appended to the
rows if ``fit_intercept`` is true, so that it is a weight like any other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

from counterpoise import validate
from counterpoise.arrays import Labels, Matrix, Vector
from counterpoise.modelfile.container import Contents, ModelFileError, require
from counterpoise.modelfile.labels import labels_of, plain_labels
from counterpoise.modelfile.options import contents_of, names_of, options_of
from counterpoise.modelfile.saved import Saved
from counterpoise.online import covariance as cov
from counterpoise.online import pieces
from counterpoise.online.guards import indefinite, too_large, two_labels
from counterpoise.online.state import State

ARRAYS = ("w", "S", "z", "n", "stored")


class OnlineRule(Saved, ClassifierMixin, BaseEstimator):
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

    def fit(self, X: ArrayLike, y: ArrayLike) -> OnlineRule:
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
    ) -> OnlineRule:
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
        delay = validate.whole(delay, "delay")
        with validate.all_or_nothing(self) as draft:
            rows, target, weight = draft._take(X, y, classes, None)
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
        rows = validate.rows(self, X, accept_sparse=False)
        validate.require_finite(self, rows)
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
        with validate.all_or_nothing(self) as draft:
            for name in ("_state", "classes_", "n_features_in_", "feature_names_in_"):
                draft.__dict__.pop(name, None)
            rows, target, weight = draft._take(X, y, None, sample_weight)
            validate.require_some_weight(weight)
            draft._learn(rows, target, weight)
        return self

    def _partial_fit(self, X: Any, y: Any, classes: Any, sample_weight: Any) -> Any:
        with validate.all_or_nothing(self) as draft:
            if getattr(X, "shape", ())[:1] == (0,):  # nothing to learn, but it may not fit
                first = "_state" not in draft.__dict__
                validate.rows(draft, X, y, reset=first, accept_sparse=False, least=0)
            else:
                draft._learn(*draft._take(X, y, classes, sample_weight))
        return self

    def _learn(self, rows: Matrix, target: Vector, weight: Vector) -> None:
        self._run(rows, target, weight, 0)

    def _take(
        self, X: Any, y: Any, classes: Any, sample_weight: Any
    ) -> tuple[Matrix, Vector, Vector]:
        """Rows with the constant, targets ±1 and weights; a first state if there is none."""
        validate.flag(self, "fit_intercept")
        self._check()
        first = "_state" not in self.__dict__
        validate.require_y(self, y)
        X, y = validate.rows(self, X, y, reset=first, accept_sparse=False)
        weight = validate.weights(sample_weight, len(X))
        if first:
            self.classes_ = two_labels(y, classes)
        elif classes is not None and set(np.asarray(classes).tolist()) != set(
            self.classes_.tolist()
        ):
            raise ValueError(
                f"classes={classes!r} are not those of the first call, {self.classes_.tolist()}"
            )
        validate.require_one_type(y, self.classes_)
        positive = y == self.classes_[1]
        strange = ~positive & (y != self.classes_[0])
        if strange.any():
            raise ValueError(
                f"label {y[strange][0]!r} at row {int(strange.argmax())} is neither of "
                f"{self.classes_.tolist()}. Only binary classification is supported. For more "
                "classes wrap the rule in sklearn.multiclass.OneVsRestClassifier"
            )
        validate.require_bounded(self, X)
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
        pieces.run(kernel, parameters, work, s, (rows, target, weight, delay, scores))

    def contents(self) -> Contents:
        """What a file is to hold of this rule.

        Returns
        -------
        Contents
        """
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
        return contents_of(self, arrays, facts)

    @classmethod
    def from_contents(cls, contents: Contents) -> Any:
        """A rule from what a file holds, checked as if a stranger had written it.

        Parameters
        ----------
        contents : Contents
            What the file holds.

        Returns
        -------
        OnlineRule
        """
        result = cls(**options_of(contents.options, cls().get_params()))
        try:
            validate.flag(result, "fit_intercept")
            result._check()
        except ValueError as error:
            raise ModelFileError(
                f"is not a valid model file: it has an impossible option: {error}"
            ) from None
        facts, arrays = contents.facts, contents.arrays
        require(set(facts) == {"classes", "features", "tau"}, "unexpected facts")
        require(set(arrays) == set(ARRAYS), "the wrong tensors")
        d, tau = facts["features"], facts["tau"]
        require(type(d) is int and 1 <= d <= arrays["w"].size, "an invalid number of features")
        require(type(tau) is float and bool(np.isfinite(tau)), "an invalid threshold")
        result.classes_ = labels_of(facts["classes"])
        two = len(result.classes_) == 2 and np.array_equal(
            np.sort(result.classes_), result.classes_
        )
        require(two, "classes that are not two in order")
        wanted = result._shapes(d + bool(result.fit_intercept))  # before memory is spent on them
        for name in ARRAYS:
            shape, found = wanted[name], arrays[name].shape
            if name == "stored" and len(shape) == 3:  # has as much room as was needed
                shape, found = shape[::2], found[::2] if len(found) == 3 else found
            require(found == shape, f"a tensor {name!r} of shape {arrays[name].shape}")
        s = result._begin(d + bool(result.fit_intercept))
        for name in ARRAYS:
            setattr(s, name, arrays[name])
        room = s.stored.shape[1] if s.stored.ndim == 3 else np.inf
        require(bool((s.n >= 0).all() and (s.n <= room).all()), "impossible counts")
        if result._second_order:
            require(cov.is_factor(s.S), "a covariance that is not a factor of a positive one")
        require(result._definite(s), "a covariance that is not positive definite")
        s.tau = tau
        result.n_features_in_ = d
        names = names_of(contents, d)
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
