"""ChoosingClassifier: several maps and ridges learn side by side, and the best of them answers."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

from counterpoise import validate
from counterpoise.arrays import Labels, Matrix, Rows, Vector
from counterpoise.choosing.candidates import LINEAR, Field
from counterpoise.choosing.judge import Tally
from counterpoise.classifier import BalancedRidgeClassifier
from counterpoise.exact import lifting
from counterpoise.exact.model import Solved
from counterpoise.exact.state import union
from counterpoise.exact.weighting import Costs
from counterpoise.features import FixedMap
from counterpoise.modelfile import packing
from counterpoise.modelfile.container import Contents, ModelFileError, Saved, require

CANDIDATES = (LINEAR, "rm2", "rm2+rff:300,width=0.5/1.0/2.0")
MANY = 100  # candidates at most
RIDGES = (100.0, 31.6, 10.0, 3.16, 1.0, 0.316, 0.1, 0.0316, 0.01, 0.001, 0.0001)


class ChoosingClassifier(Saved, ClassifierMixin, BaseEstimator):
    """Ridge classifier with balanced classes that chooses its map and its ridge by itself.

    Candidates learn side by side in one pass. Each row is scored by all of them before it is
    learned; the one with the highest G-mean so far answers, solved on all rows so far. Where two
    are within a standard error, it is the richer one. Candidates that are surely worse are
    dropped. Memory and time for a row do not grow with the stream.

    What it chooses depends on the order of the rows, so it can neither merge nor forget. What it
    has chosen can: :attr:`best_` is an ordinary model, and ``best_.features_`` its map, fixed for
    good after 256 rows, if it is not linear.
    Rows are learned into a copy that then takes its place, so that nothing is ever half learned:
    give it chunks, of a hundred rows or more, rather than single rows.

    Parameters
    ----------
    candidates : sequence of str, Map or FixedMap
        Maps of the features, the simplest first; "linear" is none. By default linear, reduced
        polynomial of order 2, and the latter with random Fourier features of three widths.
    ridges : sequence of float
        Ridges to choose from, the largest first; by default 11 from 100 to 1e-4. They cost one
        decomposition together.
    drop : bool, default=True
        Drop candidates that are surely worse; on a stream that changes they might come back.
    costs : dict, optional
        Factors on the weights of the classes, which are balanced, by label. They are also the
        exponents of the recalls in the G-mean that candidates are judged by.
    half_life : float, optional
        See :class:`~counterpoise.BalancedRidgeClassifier`.
    memory_limit : float, default=2e9
        Bytes that the moments of all candidates together may take.

    Attributes
    ----------
    best_ : BalancedRidgeClassifier
        A copy of the best candidate, with its ridge.
    g_means_ : dict of str to dict of float to float
        Progressive G-mean of each candidate that is still in the field, by ridge.
    dropped_ : dict of str to int
        Candidates that were dropped, and after how many rows.
    classes_ : ndarray of shape (c,)
        Labels seen, or declared, so far.
    class_count_ : ndarray of shape (c,)
        Rows of each.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (d,)
        Their names, where X has names that are all strings.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise import ChoosingClassifier
    >>> X = np.random.default_rng(0).normal(size=(600, 2))
    >>> y = (X[:, 0] * X[:, 1] > 0).astype(int)
    >>> model = ChoosingClassifier().partial_fit(X[:300], y[:300]).partial_fit(X[300:], y[300:])
    >>> model.best_.features, model.score(X, y) > 0.95
    ('rm2+rff:300,width=0.5/1.0/2.0', True)
    """

    def __init__(
        self,
        *,
        candidates: Sequence[Any] = CANDIDATES,
        ridges: Sequence[float] = RIDGES,
        drop: bool = True,
        costs: Costs = None,
        half_life: float | None = None,
        memory_limit: float = 2e9,
    ) -> None:
        self.candidates = candidates
        self.ridges = ridges
        self.drop = drop
        self.costs = costs
        self.half_life = half_life
        self.memory_limit = memory_limit

    n_features_in_: int
    _field: Field
    _learned_with: tuple[Any, ...]

    # Learning

    def fit(self, X: ArrayLike, y: ArrayLike) -> ChoosingClassifier:
        """Learn from these rows alone, in this order.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d)
            The rows.
        y : array-like of shape (n,)
            Their labels.

        Returns
        -------
        self
        """
        with validate.all_or_nothing(self) as draft:
            draft.__dict__.pop("_field", None)
            draft._learn(X, y, None)
        return self

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None
    ) -> ChoosingClassifier:
        """Learn from more rows.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d)
            The rows.
        y : array-like of shape (n,)
            Their labels; new ones may appear at any time.
        classes : array-like, optional
            Labels that are to appear in ``classes_`` even before they are seen. Never needed.

        Returns
        -------
        self
        """
        with validate.all_or_nothing(self) as draft:
            draft._learn(X, y, classes, empty=True)
        return self

    def progressive_scores(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Test, then train: score each row before it is learned, by the best of that moment.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            The rows, in order.
        y : array-like of shape (n,)
            Their labels.
        classes : array-like, optional
            Labels to reckon with beside those in y and those seen before.

        Returns
        -------
        ndarray of shape (n,) or (n, c)
            Scores by the weights of the last refresh, which is at most a sixth of the rows, and
            at most 4,096 rows, ago; 0 before there were any, for the first 16 rows.
        """
        with validate.all_or_nothing(self) as draft:
            scores = draft._learn(X, y, classes, scored=True)
        return scores.ravel() if scores.shape[1] == 1 else scores

    def merge(self, other: Any) -> NoReturn:
        """Refuse: what was chosen depends on the order of the rows.

        Parameters
        ----------
        other : object
            Another model.
        """
        raise _refusal("merged")

    def forget(self, X: ArrayLike, y: ArrayLike) -> NoReturn:
        """Refuse: what was chosen depends on the order of the rows.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Their labels.
        """
        raise _refusal("made to forget")

    # Looking

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Scores by the best candidate.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d)
            The rows.

        Returns
        -------
        ndarray of shape (n,) or (n, c)
        """
        return self._winner().decision_function(self._rows(X))

    def predict(self, X: ArrayLike) -> Labels:
        """Labels by the best candidate.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d)
            The rows.

        Returns
        -------
        ndarray of shape (n,)
        """
        return self._winner().predict(self._rows(X))

    def predict_proba(self, X: ArrayLike) -> Matrix:
        """Probabilities under the weights of training, by the best candidate.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d)
            The rows.

        Returns
        -------
        ndarray of shape (n, c)
        """
        return self._winner().predict_proba(self._rows(X))

    def stream_proba(self, X: ArrayLike) -> Matrix:
        """Probabilities under the stream's own class frequencies, by the best candidate.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d)
            The rows.

        Returns
        -------
        ndarray of shape (n, c)
        """
        return self._winner().stream_proba(self._rows(X))

    @property
    def best_(self) -> BalancedRidgeClassifier:
        """A copy of the best candidate, with its ridge."""
        best: BalancedRidgeClassifier = copy.deepcopy(self._winner())
        if hasattr(self, "feature_names_in_"):
            best.feature_names_in_ = self.feature_names_in_
        return best

    @property
    def g_means_(self) -> dict[str, dict[float, float]]:
        """Progressive G-mean of each candidate that is still in the field, by ridge."""
        self._require_fitted()
        self._require_same_learning()
        state = self._field
        if not len(state.tally.labels):
            return {name: {} for name in state.names}
        G, _ = state.tally.g_means(state.rows, state.costs)
        ridges = self._ridges().tolist()
        return {
            name: dict(zip(ridges, row.tolist(), strict=True))
            for name, row in zip(state.names, G, strict=True)
        }

    @property
    def dropped_(self) -> dict[str, int]:
        """Candidates that were dropped, and after how many rows."""
        self._require_fitted()
        return dict(self._field.dropped)

    @property
    def classes_(self) -> Labels:
        """Labels seen, or declared, so far."""
        return self._model().classes_

    @property
    def class_count_(self) -> Vector:
        """Rows of each class."""
        return self._model().class_count_

    def __copy__(self) -> ChoosingClassifier:
        return copy.deepcopy(self)

    def __sklearn_is_fitted__(self) -> bool:
        return "_field" in self.__dict__ and self._field.rows > 0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # Within

    def _check(self) -> None:
        """Raise if a parameter has no meaning."""
        validate.positive(self, "memory_limit")
        validate.flag(self, "drop")
        try:
            ridges = self._ridges()
        except (TypeError, ValueError):
            ridges = np.empty(0)
        if ridges.ndim != 1 or not len(ridges) or not (np.isfinite(ridges) & (ridges > 0)).all():
            raise ValueError(f"ridges={self.ridges!r} must be finite numbers above 0")
        if len(np.unique(ridges)) < len(ridges):
            raise ValueError(f"ridges={self.ridges!r} has a number twice")
        several = isinstance(self.candidates, Sequence | np.ndarray)
        if not several or isinstance(self.candidates, str) or not len(self.candidates):
            raise ValueError(
                f"candidates={self.candidates!r} must be one or more maps, such as "
                "('linear', 'poly2')"
            )
        if len(self.candidates) > MANY:
            raise ValueError(f"candidates has {len(self.candidates)} maps, more than {MANY}")
        names = self._names()
        if len(set(names)) < len(names):
            raise ValueError(f"candidates={self.candidates!r} has a map twice")
        self._candidate(None)._check()

    def _ridges(self) -> Vector:
        return np.array(self.ridges, dtype=np.float64)

    def _names(self) -> list[str]:
        return [
            LINEAR if isinstance(c, str) and c == LINEAR else str(lifting.text_of(c))
            for c in self.candidates
        ]

    def _learning(self) -> tuple[Any, ...]:
        """What decides what is learned and chosen."""
        given = [c if isinstance(c, FixedMap) else None for c in self.candidates]
        costs = None if self.costs is None else dict(self.costs)
        return (self._names(), given), self._ridges().tolist(), costs, self.half_life

    def _require_same_learning(self) -> None:
        if self._learned_with != self._learning():
            raise ValueError(
                "candidates, ridges, costs and half_life cannot change once rows were learned; fit "
                "again, or use a clone"
            )

    def _candidate(self, features: Any) -> BalancedRidgeClassifier:
        return BalancedRidgeClassifier(
            features=features,
            costs=self.costs,
            half_life=self.half_life,
            memory_limit=self.memory_limit,
            ridge=1.0,
        )

    def _begin(self) -> Field:
        given = zip(self.candidates, self._names(), strict=True)
        models = [self._candidate(None if name == LINEAR else one) for one, name in given]
        nobody = np.zeros((0, len(models), len(self.ridges)))
        tally = Tally(np.empty(0), np.zeros(0), nobody)
        costs = None if self.costs is None else dict(self.costs)
        return Field(models, self._names(), [None] * len(models), tally, costs)

    def _learn(
        self,
        X: Any,
        y: Any,
        classes: ArrayLike | None,
        scored: bool = False,
        empty: bool = False,
    ) -> NDArray[np.float64]:
        """Check rows, and learn them into a copy of the field, which then takes its place.

        Returns scores of the best of each moment, if they are wanted.
        """
        self._check()
        first = "_field" not in self.__dict__
        validate.require_y(self, y)
        rows, target = validate.rows(self, X, y, reset=first, least=0 if empty else 1)
        if not len(target):
            return np.zeros((0, 1))
        validate.require_bounded(self, rows)
        if not first:
            self._require_same_learning()
        state = self._begin() if first else copy.deepcopy(self._field)
        self._require_room(len(np.unique(target)), rows.shape[1], state)
        for candidate in state.models:  # nothing is learned, but labels are checked and declared
            candidate.memory_limit = self.memory_limit
            candidate.partial_fit(rows[:1], target[:1], classes=classes, sample_weight=[0.0])
        everything = union(state.models[0].classes_, np.unique(target))
        target = target.astype(everything.dtype)
        self._require_room(len(everything), rows.shape[1], state)
        columns = 1 if len(everything) <= 2 else len(everything)
        scores = np.zeros((len(target) if scored else 0, columns))
        into = scores if scored else None
        state.learn(rows, target, self._ridges(), self.drop, everything, into)
        self._field, self._learned_with = state, self._learning()
        return scores

    def _require_room(self, c: int, inputs: int, state: Field) -> None:
        maps = [lifting.map_in(candidate.features) for candidate in state.models]
        sizes = [inputs if one is None else one.count(inputs) for one in maps]
        size = 8.0 * c * sum(d * d for d in sizes)
        if size > self.memory_limit:
            raise ValueError(
                f"{c} classes of {' + '.join(map(str, sizes))} terms need {size / 1e9:.3g} GB of "
                f"moments, more than memory_limit={self.memory_limit:g} bytes; name fewer "
                "candidates, or smaller ones, or raise memory_limit"
            )

    def _winner(self) -> BalancedRidgeClassifier:
        """The best candidate itself, with its ridge."""
        self._require_fitted()
        self._require_same_learning()
        i, j = self._field.best()
        winner = self._field.models[i]
        winner.ridge = float(self.ridges[j])
        return winner

    def _model(self) -> BalancedRidgeClassifier:
        """Any candidate, for what all of them know."""
        if "_field" not in self.__dict__:
            raise AttributeError(f"this {type(self).__name__} has learned nothing yet")
        return self._field.models[0]

    def _rows(self, X: Any) -> Rows:
        self._require_fitted()
        rows: Rows = validate.rows(self, X)
        validate.require_finite(self, rows)
        return rows

    def _scores(self, X: Any) -> tuple[Matrix, Solved]:
        return self._winner()._scores(self._rows(X))

    def _solved(self) -> Solved:
        return self._winner()._solved()

    def _require_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} has learned nothing yet; call fit or partial_fit first"
            )

    def _widen(self, names: Sequence[str]) -> None:
        """Make room for features that were zero in every row so far, given the names of all."""
        if "_field" not in self.__dict__ or len(names) == self.n_features_in_:
            return
        state = copy.deepcopy(self._field)
        self._require_room(len(self.classes_), len(names), state)
        for i, candidate in enumerate(state.models):
            judge = state.judges[i]
            if judge is not None:
                state.judges[i] = judge.widened(self.n_features_in_, names)
            candidate._widen(names)
        with validate.all_or_nothing(self) as draft:
            draft._field, draft.n_features_in_ = state, len(names)

    def _contents(self) -> Contents:
        self._require_fitted()
        self._require_same_learning()
        contents = packing.contents(self, *self._field.pack())
        options = {
            **contents.options,
            "candidates": " ".join(self._names()),
            "ridges": " ".join(map(repr, self._ridges().tolist())),
        }
        return replace(contents, options=options)

    @classmethod
    def _of(cls, contents: Contents) -> ChoosingClassifier:
        options = packing.options_of(contents.options, cls().get_params())
        require(all(isinstance(options[k], str) for k in ("candidates", "ridges")), "candidates")
        options["candidates"] = tuple(options["candidates"].split(" "))
        options["ridges"] = tuple(map(float, options["ridges"].split(" ")))
        result = cls(**options)
        try:
            result._check()
        except ValueError as error:
            raise ModelFileError(f"has an option that is impossible: {error}") from None
        state = Field.unpack(contents, result._names(), len(result.ridges), result.costs)
        for candidate in state.models:
            alike = result._candidate(candidate.features).get_params(deep=False)
            same = {**alike, "memory_limit": candidate.memory_limit}
            require(same == candidate.get_params(deep=False), "a candidate with other options")
        fixed = dict(zip(state.names, state.models, strict=True))
        result.candidates = tuple(
            fixed[name].features if name in fixed and fixed[name]._given() else name
            for name in result._names()
        )
        result._learned_with = result._learning()
        result.n_features_in_ = state.models[0].n_features_in_
        columns = packing.names_of(contents, result.n_features_in_)
        if columns is not None:
            result.feature_names_in_ = columns
        result._field = state
        return result


def _refusal(what: str) -> ValueError:
    return ValueError(
        f"a model that chooses cannot be {what}: what it chose depends on the order of the rows. "
        "Take best_, an ordinary model, and let others begin with its map: "
        "BalancedRidgeClassifier(features=chosen.best_.features_)"
    )
