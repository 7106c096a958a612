"""ChoosingClassifier: maps, ridges and boundaries side by side, and the best of them answers."""

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
from counterpoise.choosing import file
from counterpoise.choosing.candidates import Candidates
from counterpoise.choosing.judge import Tally
from counterpoise.choosing.names import LINEAR, map_name
from counterpoise.choosing.params import Params, read
from counterpoise.classifier import BalancedRidgeClassifier
from counterpoise.exact.classes import Classes, declared, flat, grouped, problems, union
from counterpoise.exact.filling import Fill
from counterpoise.exact.held import held
from counterpoise.exact.options import Options
from counterpoise.exact.scores import Scores
from counterpoise.exact.state import Batch, State
from counterpoise.exact.summary import Summary
from counterpoise.exact.weighting import Costs
from counterpoise.features import FixedMap, Map
from counterpoise.modelfile.container import Contents
from counterpoise.modelfile.options import contents_of, names_of
from counterpoise.modelfile.saved import Saved
from counterpoise.reasons import Reasons

CANDIDATES = (LINEAR, "pooling=1000", "pooling=10", "rm2", "rm2+rff:300,width=0.5/1.0/2.0")
RIDGES = (100.0, 31.6, 10.0, 3.16, 1.0, 0.316, 0.1, 0.0316, 0.01, 0.001, 0.0001)


class ChoosingClassifier(Saved, ClassifierMixin, BaseEstimator):
    """Ridge classifier with balanced classes that chooses its map, shape and ridge by itself.

    Candidates learn side by side in one pass. Each row is scored by all of them before it is
    learned; the one with the highest G-mean so far answers, solved on all rows so far. Where two
    are within a standard error, it is the richer one; quadratic boundaries must be ahead by half a
    standard error. Candidates that are surely worse are dropped. Memory and time for a row do not
    grow with the stream.

    What it chooses depends on the order of the rows, so it can neither merge nor forget. What it
    has chosen can: :attr:`best_` is an ordinary model, and ``best_.features_`` its map, fixed for
    good after 256 rows, if it is not linear.
    Whenever weights are brought up to date, which is each time that the stream has grown by a
    sixth, the decomposition takes far longer than a row: chunks of a hundred rows or more are
    cheaper than single rows.

    Parameters
    ----------
    candidates : sequence of str, Map or FixedMap
        Maps of the features, the simplest first; "linear" is none, and "pooling=10" is none with
        quadratic boundaries: the ``pooling`` of :class:`~counterpoise.BalancedRidgeClassifier`. By
        default linear, pooling of 1000 and of 10, reduced polynomial of order 2, and the latter
        with random Fourier features of three widths.
    ridges : sequence of float
        Ridges to choose from, the largest first; by default 11 from 100 to 1e-4. They cost one
        decomposition together. Quadratic boundaries have the shrinking ridge.
    drop : bool, default=True
        Drop candidates that are surely worse; on a stream that changes they might come back.
    costs : dict, optional
        Factors on the weights of the classes, which are balanced, by label. They are also the
        exponents of the recalls in the G-mean that candidates are judged by.
    half_life : float, optional
        See :class:`~counterpoise.BalancedRidgeClassifier`.
    memory_limit : float, default=2e9
        Bytes that the moments of all candidates together may take. Those without a map share
        theirs; quadratic boundaries take as much again, each.

    Attributes
    ----------
    best_ : BalancedRidgeClassifier
        A copy of the best candidate, with its ridge.
    g_means_ : dict of str to dict of float to float
        Progressive G-mean of each candidate that is still in the field, by ridge; with quadratic
        boundaries by the one that they have now.
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
    candidates_: Candidates
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
            draft.__dict__.pop("candidates_", None)
            draft._learn(X, y, None)
        return self

    def partial_fit(
        self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None
    ) -> ChoosingClassifier:
        """Learn from more rows.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d)
            The rows; of none at all nothing is learned but ``classes``.
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
            at most 4,096 rows, ago; 0 before there were any, for the first 16 rows. Of several
            classes those that were not seen by then score −∞.
        """
        with validate.all_or_nothing(self) as draft:
            scores = draft._learn(X, y, classes, scored=True)
        return flat(scores)

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
        return self.chosen().decision_function(self._rows(X))

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
        return self.chosen().predict(self._rows(X))

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
        return self.chosen().predict_proba(self._rows(X))

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
        return self.chosen().stream_proba(self._rows(X))

    def explain(self, X: ArrayLike) -> Reasons:
        """Say what each feature contributes to the scores of rows, by the best candidate.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d)
            The rows.

        Returns
        -------
        Reasons
            See :meth:`BalancedRidgeClassifier.explain`.
        """
        rows = self._rows(X)
        found = self.chosen().explain(rows)
        names = getattr(self, "feature_names_in_", None)
        return found if names is None else replace(found, names=names.tolist())

    def summary(self) -> Summary:
        """Sum up what the best candidate has found.

        Returns
        -------
        Summary
            See :meth:`BalancedRidgeClassifier.summary`.
        """
        return self.best_.summary()

    @property
    def best_(self) -> BalancedRidgeClassifier:
        """A copy of the best candidate, with its ridge."""
        best: BalancedRidgeClassifier = copy.deepcopy(self.chosen())
        if hasattr(self, "feature_names_in_"):
            best.feature_names_in_ = self.feature_names_in_
        return best

    @property
    def g_means_(self) -> dict[str, dict[float, float]]:
        """Progressive G-mean of each candidate that is still in the race, by ridge."""
        candidates, params = self._settled()
        if not len(candidates.tally.labels):
            return {name: {} for name in candidates.names}
        G, _ = candidates.tally.g_means(candidates.rows, candidates.costs)
        ridges, found = params.ridges.tolist(), {}
        for name, row in zip(candidates.names, G.tolist(), strict=True):
            own = candidates.looked(name, 1.0)
            if own.pooling is None:
                found[name] = dict(zip(ridges, row, strict=True))
            else:  # one ridge, which the rows so far decide
                ridge = self._model(candidates.states[map_name(name)], own).ridge_
                found[name] = {ridge: row[0]}
        return found

    @property
    def dropped_(self) -> dict[str, int]:
        """Candidates that were dropped, and after how many rows."""
        self._require_fitted()
        return dict(self.candidates_.dropped)

    @property
    def classes_(self) -> Labels:
        """Labels seen, or declared, so far."""
        return self._classes().labels

    @property
    def class_count_(self) -> Vector:
        """Rows of each class."""
        self._classes()
        return self.candidates_.first.class_count

    @property
    def scores_(self) -> Scores:
        """Scores of the best candidate as a function of rows."""
        return self.chosen().scores_

    def __copy__(self) -> ChoosingClassifier:
        return copy.deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = {**super().__getstate__()}
        state.pop("_held", None)
        return state

    def __sklearn_is_fitted__(self) -> bool:
        return "candidates_" in self.__dict__ and self.candidates_.rows > 0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # For other rooms of the package

    def check(self) -> None:
        """Raise if a parameter has no meaning."""
        self._params()

    def chosen(self) -> BalancedRidgeClassifier:
        """The best candidate with its ridge: to look at, for it shares what was learned.

        Returns
        -------
        BalancedRidgeClassifier
        """
        candidates, params = self._settled()
        return self._model(*candidates.chosen(params.ridges))

    def fill_in(self, fill: Fill | None) -> None:
        """Say which features may be missing, to be filled by the mean of what was seen.

        Parameters
        ----------
        fill : Fill, optional
            The features, and how rows say that they are missing.
        """
        self._fill = fill
        if "candidates_" in self.__dict__:
            self.candidates_ = self.candidates_.filling(fill)

    def widen(self, names: Sequence[str]) -> None:
        """Make room for features that were zero in every row so far.

        Parameters
        ----------
        names : sequence of str
            Names of all features, the old ones first.
        """
        if "candidates_" not in self.__dict__ or len(names) == self.n_features_in_:
            return
        self._require_room(len(self.classes_), len(names), self.candidates_)
        wider = self.candidates_.widened(self.n_features_in_, names, self.memory_limit)
        given = {
            name: state.plan.given
            for name, state in wider.states.items()
            if state.plan.given is not None
        }
        with validate.all_or_nothing(self) as draft:
            if given:
                each = zip(self.candidates, self._params().names, strict=True)
                draft.candidates = tuple(given.get(name, one) for one, name in each)
                draft._learned_with = draft._params().learning
            draft.candidates_, draft.n_features_in_ = wider, len(names)

    def contents(self) -> Contents:
        """What a file is to hold of this model.

        Returns
        -------
        Contents
        """
        candidates, params = self._settled()
        models = [self._model(one, candidates.options) for one in candidates.states.values()]
        contents = contents_of(self, *file.pack(candidates, models))
        options = {
            **contents.options,
            "candidates": " ".join(params.names),
            "ridges": " ".join(map(repr, params.ridges.tolist())),
        }
        return replace(contents, options=options)

    @classmethod
    def from_contents(cls, contents: Contents) -> ChoosingClassifier:
        """A model from what a file holds, checked as if a stranger had written it.

        Parameters
        ----------
        contents : Contents
            What the file holds.

        Returns
        -------
        ChoosingClassifier
        """
        given, found = file.unpack(contents)
        result = cls(**given)
        result._learned_with = result._params().learning
        result.n_features_in_ = found.first.inputs
        columns = names_of(contents, result.n_features_in_)
        if columns is not None:
            result.feature_names_in_ = columns
        result.candidates_ = found
        return result

    # Inside

    @held(__init__)
    def _params(self) -> Params:
        """What the parameters mean; raise if one has no meaning."""
        if not _several(self.candidates):
            raise ValueError(
                f"candidates={self.candidates!r} must be one or more maps, such as "
                "('linear', 'pooling=10', 'poly2')"
            )
        return read(self)

    def _model(self, state: State, options: Options) -> BalancedRidgeClassifier:
        """A candidate as a classifier that shares what it has learned."""
        features: str | Map | FixedMap | None = state.plan.given or state.plan.text
        for one, known in zip(self.candidates, self._params().names, strict=True):
            if known == state.plan.text and isinstance(one, Map):
                features = one
        return BalancedRidgeClassifier.with_state(
            state,
            features=features,
            costs=self.costs,
            half_life=self.half_life,
            memory_limit=self.memory_limit,
            ridge=options.ridge,
            pooling=options.pooling,
        )

    def _learn(
        self,
        X: Any,
        y: Any,
        classes: ArrayLike | None,
        scored: bool = False,
        empty: bool = False,
    ) -> NDArray[np.float64]:
        """Check rows, and learn them. Returns scores of the best of each moment, if asked for."""
        params, fitted = self._params(), self.__sklearn_is_fitted__()
        validate.require_y(self, y)
        rows, target = validate.rows(self, X, y, reset=not fitted, least=0 if empty else 1)
        validate.require_bounded(self, rows)
        if fitted:
            self._require_same_learning(params)
            before = self.candidates_
        else:  # nothing, or nothing but classes that were declared
            nobody = self.classes_ if "candidates_" in self.__dict__ else target[:0]
            before = self._begin(params, rows.shape[1], nobody)
        state = before.first
        known = declared(state.declared, classes)
        validate.require_one_type(target, known)
        if not len(target):
            states = {name: one.announced(known) for name, one in before.states.items()}
            if classes is not None:
                self.candidates_, self._learned_with = (
                    replace(before, states=states),
                    params.learning,
                )
            return np.zeros((0, 1))
        everything = state.moments.labels
        if not set(target.tolist()) <= set(everything.tolist()):
            _, everything = grouped(target, everything)  # the checks of new labels
            self._require_room(len(everything), rows.shape[1], before)
        target = target.astype(everything.dtype, copy=False)
        batch = Batch(rows, target, None, grouped, self)
        into = None
        if scored:
            wanted = union(everything, known)
            into = np.zeros((len(target), problems(len(wanted)))), wanted
        self.candidates_ = before.learn(
            batch, known, self.memory_limit, params.ridges, self.drop, into
        )
        self._learned_with = params.learning
        return np.zeros((0, 1)) if into is None else into[0]

    def _begin(self, params: Params, inputs: int, nobody: Labels) -> Candidates:
        for plan in params.plans.values():
            if plan.given is not None and len(plan.given.mean) != inputs:
                raise ValueError(
                    f"candidates has a map fixed for {len(plan.given.mean)} features, but X has "
                    f"{inputs} features"
                )
        states = {
            name: State.empty(plan, inputs).announced(nobody).filling(self.__dict__.get("_fill"))
            for name, plan in params.plans.items()
        }
        names = list(params.names)
        tally = Tally(np.empty(0), np.zeros(0), np.zeros((0, len(names), len(params.ridges))))
        return Candidates(names, states, [None] * len(names), tally, params.options)

    def _require_room(self, c: int, inputs: int, candidates: Candidates) -> None:
        # Quadratic boundaries take as much as the moments that they are found by.
        more = [one for one in candidates.names if one not in candidates.states]
        maps = [candidates.states[map_name(one)].plan.map for one in (*candidates.states, *more)]
        sizes = [inputs if one is None else one.count(inputs) for one in maps]
        size = 8.0 * c * sum(d * d for d in sizes)
        if size > self.memory_limit:
            raise ValueError(
                f"{c} classes of {' + '.join(map(str, sizes))} terms need {size / 1e9:.3g} GB of "
                f"moments and boundaries, more than memory_limit={self.memory_limit:g} bytes; "
                "name fewer candidates, or smaller ones, or raise memory_limit"
            )

    def _classes(self) -> Classes:
        if "candidates_" not in self.__dict__:
            raise AttributeError(f"this {type(self).__name__} has learned nothing yet")
        return self.candidates_.first.classes

    def _rows(self, X: Any) -> Rows:
        self._require_fitted()
        rows: Rows = validate.rows(self, X)
        validate.require_finite(self, rows)
        return rows

    def _settled(self) -> tuple[Candidates, Params]:
        """What was learned and the parameters, if they go with each other."""
        self._require_fitted()
        params = self._params()
        self._require_same_learning(params)
        return self.candidates_, params

    def _require_same_learning(self, params: Params) -> None:
        if self._learned_with != params.learning:
            raise ValueError(
                "candidates, ridges, costs and half_life cannot change once rows were learned; fit "
                "again, or use a clone"
            )

    def _require_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} has learned nothing yet; call fit or partial_fit first"
            )


def _several(given: Any) -> bool:
    """Whether this is a sequence of something, and not text."""
    known = type(given) in (tuple, list)
    return (known or isinstance(given, Sequence | np.ndarray)) and bool(
        len(given) and not isinstance(given, str)
    )


def _refusal(what: str) -> ValueError:
    return ValueError(
        f"a model that chooses cannot be {what}: what it chose depends on the order of the rows. "
        "Take best_, an ordinary model, and let others begin with its map: "
        "BalancedRidgeClassifier(features=chosen.best_.features_)"
    )
