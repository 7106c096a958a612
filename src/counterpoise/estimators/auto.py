"""AutoClassifier: maps, ridges and boundaries side by side, and their average answers."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

from counterpoise import validation
from counterpoise.arrays import Labels, Matrix, Rows, Vector
from counterpoise.engine.averaging import CachedAverage, ScoreRequest
from counterpoise.engine.candidates import (
    Candidates,
    check_same_candidates,
    explained,
)
from counterpoise.engine.parameters import (
    RIDGES,
    Params,
    cached_params,
    map_name,
    read_auto_parameters,
)
from counterpoise.engine.row_buffer import RowBuffer, find_change
from counterpoise.engine.row_hashes import row_order
from counterpoise.engine.state import Batch, State
from counterpoise.engine.summary import Summary
from counterpoise.estimators.balanced_ridge import BalancedRidgeClassifier
from counterpoise.explanation import Explanation
from counterpoise.feature_maps import FittedMap, Map
from counterpoise.modelfile import engines
from counterpoise.modelfile.container import Contents
from counterpoise.modelfile.engines import SaveLoadMixin, estimator_contents, names_of
from counterpoise.moments.classes import (
    Classes,
    declared,
    grouped,
    n_score_columns,
    ravel_binary,
    union,
)
from counterpoise.solver.class_weights import ClassFactors
from counterpoise.solver.imputation import MeanImputation
from counterpoise.solver.options import Options
from counterpoise.solver.scores import Scores


class AutoClassifier(SaveLoadMixin, ClassifierMixin, BaseEstimator):
    """Ridge classifier with balanced classes that averages maps, shapes and ridges by itself.

    Candidates learn side by side in one pass. Each is ranked by its G-mean on the last rows of each
    class, which it scores as if it had not learned them. The average of their scores predicts, and
    better candidates have larger weights in it. Memory and time for a row do not grow with the
    stream.

    :meth:`fit` does not depend on the order of the rows, unless there is a half-life. In a stream
    the first rows (1,200 by default) fix the maps, and there is a warning if later rows are far
    from them. From then on what each candidate has learned depends on no order: these are moments,
    which :meth:`merge` adds up. The weights of the average depend on those moments and on the rows
    that are kept, the last of each class. The best candidate alone is :attr:`best_`, an ordinary
    model, which unlearns too.

    Parameters
    ----------
    candidates : sequence of str, Map or FittedMap, optional
        Maps of the features, the simplest first; "linear" is none, and "pooled_rows=10" is none
        with quadratic boundaries. By default linear, pooled_rows=1000 and 10, ranks, hinges,
        reduced polynomial of order 2, and the latter with landmarks of three widths.
    ridges : sequence of float
        Ridges to choose from, the largest first; by default 13 from 100 to 1e-6. They cost one
        decomposition together. Quadratic boundaries have the shrinking ridge.
    kept_rows : int, default=128
        Rows of each class that are kept to rank candidates; at least 1.
    class_factors : dict, optional
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
        G-mean of each candidate by ridge. Quadratic boundaries have one ridge, which depends on the
        rows so far. Ridges by which a model interpolates its rows are left out.
    shares_ : dict of str to float
        Weight of each of them in the average; they add up to 1.
    maps_ : tuple
        The candidates, with their maps as they are fixed: a model with ``candidates=a.maps_``
        learns what can be merged with ``a``.
    clipped_ : dict of str to float
        Weight of the rows that each map has clipped: a value was 10 or more standard deviations
        from the mean of the rows that fixed it.
    classes_ : ndarray of shape (c,)
        Labels seen, or declared, so far.
    class_count_ : ndarray of shape (c,)
        Weight of the rows of each.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (d,)
        Their names, where X has names that are all strings.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise import AutoClassifier
    >>> X = np.random.default_rng(0).normal(size=(600, 2))
    >>> y = (X[:, 0] * X[:, 1] > 0).astype(int)
    >>> model = AutoClassifier().partial_fit(X[:300], y[:300]).partial_fit(X[300:], y[300:])
    >>> model.score(X, y) > 0.95
    True
    """

    def __init__(
        self,
        *,
        candidates: Sequence[Any] | None = None,
        ridges: Sequence[float] = RIDGES,
        kept_rows: int = 128,
        class_factors: ClassFactors = None,
        half_life: float | None = None,
        memory_limit: float = 2e9,
    ) -> None:
        self.candidates = candidates
        self.ridges = ridges
        self.kept_rows = kept_rows
        self.class_factors = class_factors
        self.half_life = half_life
        self.memory_limit = memory_limit

    n_features_in_: int
    _candidates: Candidates
    _learned_with: tuple[Any, ...]
    _waiting: tuple[tuple[Vector, Any, float], ...] = ()  # single rows of the warm-up
    _names: Sequence[str] | None = None  # of features in warnings
    _check_due: float = 0.0  # rows at which the last rows are compared with the first again

    # Learning

    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> AutoClassifier:
        """Learn from these rows alone, in a random order that depends on their contents.

        The maps and the kept rows are those of a seeded sample of all rows, so that the order of
        the rows does not matter. With a half-life they are learned in the given order.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d)
            The rows.
        y : array-like of shape (n,)
            Their labels.
        sample_weight : array-like of shape (n,), optional
            Their weights; a row of weight 2 is learned as if it came twice, and judged once.

        Returns
        -------
        self
        """
        with validation.transactional(self) as draft:
            draft.__dict__.pop("_candidates", None)
            draft._waiting, draft._check_due = (), 0.0
            draft._learn(X, y, None, sample_weight, shuffle=self.half_life is None)
            if "_candidates" not in draft.__dict__:
                raise ValueError("all sample weights are zero; there is nothing to learn")
            draft._check_first_rows()
        return self

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> AutoClassifier:
        """Learn from more rows.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d)
            The rows; of none at all nothing is learned but ``classes``.
        y : array-like of shape (n,)
            Their labels; new ones may appear at any time.
        classes : array-like, optional
            Labels that are to appear in ``classes_`` even before they are seen. Never needed.
        sample_weight : array-like of shape (n,), optional
            Their weights.

        Returns
        -------
        self
        """
        if classes is None and sample_weight is None and self._learned_one(X, y):
            return self
        with validation.transactional(self) as draft:
            draft._learn(X, y, classes, sample_weight, empty=True)
            draft._check_first_rows()
        return self

    def progressive_scores(
        self, X: ArrayLike, y: ArrayLike, delay: int = 0, classes: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """Test, then train: score each row before it is learned, by the average of that moment.

        Parameters
        ----------
        X : array-like or data frame of shape (n, d)
            The rows, in order.
        y : array-like of shape (n,)
            Their labels.
        delay : int, default=0
            The label of a row arrives this many rows after it; at the end all are learned.
        classes : array-like, optional
            Labels to reckon with beside those in y and those seen before.

        Returns
        -------
        ndarray of shape (n,) or (n, c)
            Scores by an average that is at most a third of the rows, and at most 16,384 rows,
            old; 0 before there was one, for the first 16 rows. Of several classes those that were
            not seen by then score −∞.
        """
        delay = validation.check_nonnegative_int(delay, "delay")
        with validation.transactional(self) as draft:
            scores = draft._learn(X, y, classes, None, delay=delay)
            draft._check_first_rows()
        return ravel_binary(scores)

    def learn_one(self, x: ArrayLike, y: Any, w: float = 1.0) -> None:
        """Learn one row, with little overhead.

        Until the maps are fixed rows are put by, and learned together when somebody looks, or when
        they are a third of those before.

        Parameters
        ----------
        x : array-like of shape (d,)
            The row.
        y : label
            Its label.
        w : float, default=1.0
            Its weight.
        """
        row = np.asarray(x)
        if self._takes(row, y, w):
            candidates = self._candidates
            if not self._waiting and candidates.learn_one(row, y, w):
                self._check_first_rows()
                return
            if not candidates.calm and w > 0.0:
                waiting = (*self._waiting, (np.array(row, dtype=np.float64), y, w))
                if len(waiting) < max(16, candidates.rows // 3):
                    self._waiting = waiting
                    return
        with validation.transactional(self) as draft:
            names = draft.__dict__.pop("feature_names_in_", None)
            draft.partial_fit(row[None], np.array([y]), sample_weight=[w])
            if names is not None and len(names) == draft.n_features_in_:
                draft.feature_names_in_ = names

    def predict_one(self, x: ArrayLike) -> Any:
        """Label of one row, by the average that :meth:`progressive_scores` has at this moment.

        Parameters
        ----------
        x : array-like of shape (d,)
            The row.

        Returns
        -------
        label
        """
        row = np.asarray(x)
        found = self._scored_one(row)
        if found is not None:
            return found[0].best_of(found[1])
        return validation.without_feature_names(self).predict(row[None])[0]

    def predict_proba_one(self, x: ArrayLike) -> Vector:
        """Probabilities of one row under the weights of training, by the average of predict_one.

        Parameters
        ----------
        x : array-like of shape (d,)
            The row.

        Returns
        -------
        ndarray of shape (c,)
            In the order of ``classes_``; 0 for a class that this average does not know yet.
        """
        row = np.asarray(x)
        found = self._scored_one(row)
        if found is not None and found[0].linked is not None:
            return found[0].probabilities_of(found[1], self.classes_)
        told: Vector = validation.without_feature_names(self).predict_proba(row[None])[0]
        return told

    def _scored_one(self, row: NDArray[Any]) -> tuple[CachedAverage, Vector] | None:
        """An average and its scores of one row, if there is a short way to them."""
        self._require_fitted()
        if not self._takes(row, None, 1.0):
            return None
        params, candidates = self._params(), self._candidates
        self._require_same_learning(params)
        if candidates.stale(candidates.rows + len(self._waiting)):
            candidates = self.candidates_
        return candidates.scored_one(row, params.ridges)

    def merge(self, other: AutoClassifier) -> AutoClassifier:
        """Make one model of two, as if it had seen both streams, this one first.

        Their maps must be the same: fixed by the same rows, before the streams parted, or given.
        Moments add up; the kept rows are the last of both streams.

        Parameters
        ----------
        other : AutoClassifier
            A fitted model with the same parameters, except for ``memory_limit``.

        Returns
        -------
        AutoClassifier
            A new model; both of the old ones stay as they are.
        """
        if not isinstance(other, AutoClassifier):
            raise TypeError(f"can only merge with a AutoClassifier, not {type(other)}")
        (mine, _), (theirs, _) = self._settled(), other._settled()
        check_same_candidates(self, other, mine, theirs)
        result: AutoClassifier = copy.deepcopy(self)
        result._candidates = mine.merged(theirs, self.memory_limit)
        return result

    def unlearn(self, X: ArrayLike, y: ArrayLike) -> NoReturn:
        """Refuse: what the rows did to the weights of the average cannot be undone.

        Parameters
        ----------
        X : array-like of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Their labels.
        """
        raise _refusal("made to unlearn")

    # Looking

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Scores by the average of all candidates, in units of the best.

        With three or more classes they compare the classes of one row, not rows by one class; rank
        rows by a column of :meth:`predict_proba`.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d)
            The rows.

        Returns
        -------
        ndarray of shape (n,) or (n, c)
        """
        rows = self._rows(X)
        return ravel_binary(self._scores().of(rows))

    def predict(self, X: ArrayLike) -> Labels:
        """Labels by the average of all candidates.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d)
            The rows.

        Returns
        -------
        ndarray of shape (n,)
        """
        rows = self._rows(X)
        scores = self._scores()
        return scores.classes.best(scores.of(rows))

    def predict_proba(self, X: ArrayLike) -> Matrix:
        """Probabilities under the weights of training, by the link of the best candidate.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d)
            The rows.

        Returns
        -------
        ndarray of shape (n, c)
        """
        return self._probabilities(X, stream=False)

    def predict_stream_proba(self, X: ArrayLike) -> Matrix:
        """Probabilities under the stream's own class frequencies, by the same link.

        Parameters
        ----------
        X : array-like, data frame or CSR matrix of shape (n, d)
            The rows.

        Returns
        -------
        ndarray of shape (n, c)
        """
        return self._probabilities(X, stream=True)

    def explain(self, X: ArrayLike) -> Explanation:
        """Say what each feature contributes to the scores of rows: the sum over all candidates.

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
        candidates, params = self._settled()
        state, _ = candidates.chosen(params.ridges)
        names = getattr(self, "feature_names_in_", None)
        return explained(self._scores(), candidates, state, rows, names)

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
        """G-mean of each candidate by ridge."""
        candidates, params = self._settled()
        ranking = candidates.ranking(params.ridges)
        if ranking is None:
            return {name: {} for name in candidates.names}
        ridges, found = params.ridges.tolist(), {}
        for name, row in zip(ranking.names, ranking.G, strict=True):
            own = candidates.looked(name, 1.0)
            if own.pooled_rows is None:
                both = zip(ridges, row.tolist(), strict=True)
                found[name] = {ridge: G for ridge, G in both if G >= 0.0}
            else:  # one ridge, which the rows so far decide
                ridge = self._model(candidates.states[map_name(name)], own).ridge_
                found[name] = {ridge: float(row[0])}
        return found

    @property
    def shares_(self) -> dict[str, float]:
        """Weight of each candidate in the average."""
        candidates, params = self._settled()
        ranking = candidates.ranking(params.ridges)
        if ranking is None:
            return {}
        both = zip(ranking.names, ranking.averaging_weights, strict=True)
        return {name: float(share.sum()) for name, share in both}

    @property
    def maps_(self) -> tuple[Any, ...]:
        """Candidates with their maps as they are fixed: what a model to be merged begins with."""
        candidates, params = self._settled()
        fixed = {name: state.fixed for name, state in candidates.states.items()}
        return tuple(fixed.get(name) or name for name in params.names)

    @property
    def clipped_(self) -> dict[str, float]:
        """Weight of the rows that each map has clipped."""
        states = self._settled()[0].states
        return {
            name: float(state.moments.clipped[0])
            for name, state in states.items()
            if state.fixed is not None
        }

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
        """Scores of the average as a function of rows, with both probabilities."""
        return self._scores(link=True)

    def __copy__(self) -> AutoClassifier:
        return copy.deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = {**super().__getstate__()}
        state.pop("_held", None)
        return state

    def __sklearn_is_fitted__(self) -> bool:
        return "_candidates" in self.__dict__ and self._candidates.rows > 0

    @property
    def candidates_(self) -> Candidates:
        """The candidates, with all rows so far."""
        if self._waiting:
            with validation.transactional(self) as draft:
                X, y, w = zip(*draft._waiting, strict=True)
                draft._waiting = ()
                draft.__dict__.pop("feature_names_in_", None)
                draft._learn(np.array(X), np.array(y), None, np.array(w))
                if "feature_names_in_" in self.__dict__:
                    draft.feature_names_in_ = self.feature_names_in_
        return self._candidates

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

    def fill_in(self, fill: MeanImputation | None) -> None:
        """Say which features may be missing, to be filled by the mean of what was seen.

        Parameters
        ----------
        fill : Fill, optional
            The features, and how rows say that they are missing.
        """
        self._fill = fill
        if "_candidates" in self.__dict__:
            self._candidates = self.candidates_.filling(fill)

    def name_in_warnings(self, names: Sequence[str]) -> None:
        """Set the names that warnings use for features of rows without names.

        Parameters
        ----------
        names : sequence of str
            Names of all features.
        """
        self._names = names

    def widen(self, names: Sequence[str]) -> None:
        """Make room for features that were zero in every row so far.

        Parameters
        ----------
        names : sequence of str
            Names of all features, the old ones first.
        """
        if "_candidates" not in self.__dict__ or len(names) == self.n_features_in_:
            return
        self._require_room(len(self.classes_), len(names), self.candidates_)
        wider = self.candidates_.widened(self.n_features_in_, names, self.memory_limit)
        self._move(wider, len(names))

    def place(self, at: NDArray[np.intp], names: Sequence[str]) -> None:
        """Move the features to other places of a wider row, to be merged.

        Parameters
        ----------
        at : ndarray of shape (d_old,)
            The new place of each feature.
        names : sequence of str
            Names of all features.
        """
        candidates, _ = self._settled()
        self._require_room(len(self.classes_), len(names), candidates)
        self._move(candidates.placed(at, names, self.memory_limit), len(names))

    def _move(self, wider: Candidates, inputs: int) -> None:
        """Take candidates for more features, whose maps are given ones if they were."""
        given = {
            name: state.plan.given
            for name, state in wider.states.items()
            if state.plan.given is not None
        }
        with validation.transactional(self) as draft:
            if given:
                each = zip(self._params().given, self._params().names, strict=True)
                draft.candidates = tuple(given.get(name, one) for one, name in each)
                draft._learned_with = draft._params().learning
            draft._candidates, draft.n_features_in_ = wider, inputs

    def contents(self) -> Contents:
        """What a file is to hold of this model.

        Returns
        -------
        Contents
        """
        candidates, params = self._settled()
        models = [self._model(one, candidates.options) for one in candidates.states.values()]
        contents = estimator_contents(self, *engines.pack_candidates(candidates, models))
        options = {
            **contents.options,
            "candidates": None if self.candidates is None else " ".join(params.names),
            "ridges": " ".join(map(repr, params.ridges.tolist())),
        }
        return replace(contents, options=options)

    @classmethod
    def from_contents(cls, contents: Contents) -> AutoClassifier:
        """A model from what a file holds, checked as if a stranger had written it.

        Parameters
        ----------
        contents : Contents
            What the file holds.

        Returns
        -------
        AutoClassifier
        """
        given, found = engines.unpack_candidates(contents)
        result = cls(**given)
        result._learned_with = result._params().learning
        result.n_features_in_ = found.first.inputs
        columns = names_of(contents, result.n_features_in_)
        if columns is not None:
            result.feature_names_in_ = columns
        result._candidates = found
        return result

    # Inside

    @cached_params(__init__)
    def _params(self) -> Params:
        """What the parameters mean; raise if one has no meaning."""
        if self.candidates is not None and not _several(self.candidates):
            raise ValueError(
                f"candidates={self.candidates!r} must be one or more maps, such as "
                "('linear', 'pooled_rows=10', 'poly2')"
            )
        return read_auto_parameters(self)

    def _model(self, state: State, options: Options) -> BalancedRidgeClassifier:
        """A candidate as a classifier that shares what it has learned."""
        feature_map: str | Map | FittedMap | None = state.plan.given or state.plan.text
        for one, known in zip(self._params().given, self._params().names, strict=True):
            if known == state.plan.text and isinstance(one, Map):
                feature_map = one
        return BalancedRidgeClassifier.with_state(
            state,
            feature_map=feature_map,
            class_factors=self.class_factors,
            half_life=self.half_life,
            memory_limit=self.memory_limit,
            ridge=options.ridge,
            pooled_rows=options.pooled_rows,
        )

    def _learn(
        self,
        X: Any,
        y: Any,
        classes: ArrayLike | None,
        sample_weight: ArrayLike | None,
        delay: int | None = None,
        empty: bool = False,
        shuffle: bool = False,
    ) -> NDArray[np.float64]:
        """Check rows, and learn them. Returns scores by the average of each moment, if asked for.

        They are asked for by saying how many rows late labels are. ``shuffle`` learns the rows in
        the order of their hashes.
        """
        params, fitted = self._params(), self.__sklearn_is_fitted__()
        validation.require_y(self, y)
        rows, target = validation.rows(self, X, y, reset=not fitted, least=0 if empty else 1)
        validation.require_bounded(self, rows)
        weight = validation.weights(sample_weight, rows.shape[0])
        if fitted:
            self._require_same_learning(params)
            before = self.candidates_
        else:  # nothing, or nothing but classes that were declared
            nobody = self.classes_ if "_candidates" in self.__dict__ else target[:0]
            before = self._begin(params, rows.shape[1], nobody)
        state = before.first
        known = declared(state.declared, classes)
        validation.require_one_type(target, known)
        if weight is not None and not weight.all():
            some = np.flatnonzero(weight)
            rows, target, weight = rows[some], target[some], weight[some]
        if not len(target):
            if classes is not None:
                self._candidates, self._learned_with = before.announced(known), params.learning
            return np.zeros((0, 1))
        everything = state.moments.labels
        if not set(target.tolist()) <= set(everything.tolist()):
            _, everything = grouped(target, everything)  # the checks of new labels
            self._require_room(len(everything), rows.shape[1], before)
        target = target.astype(everything.dtype, copy=False)
        if shuffle:
            order = row_order(rows, target, weight)
            weight = None if weight is None else weight[order]
            rows, target = rows[order], target[order]
        batch = Batch(rows, target, weight, grouped, self)
        asked = None
        if delay is not None:
            wanted = union(everything, known)
            into = np.zeros((len(target), n_score_columns(len(wanted))))
            asked = ScoreRequest(into, wanted, delay)
        self._candidates = before.learn(batch, known, self.memory_limit, params.ridges, asked)
        self._learned_with = params.learning
        return np.zeros((0, 1)) if asked is None else asked.into

    def _check_first_rows(self) -> None:
        """Warn once if the rows that fixed the maps do not represent the stream any more."""
        candidates = self.__dict__.get("_candidates")
        if candidates is None or candidates.rows < self._check_due or not candidates.calm:
            return
        found = find_change(list(candidates.states.values()), candidates.kept)
        self._check_due = np.inf if found is not None else candidates.rows + candidates.rows // 3
        if found is not None:
            place = validation.feature_name(self, found.feature)
            if self._names is not None:
                place = f"feature {self._names[found.feature]!r}"
            warnings.warn(
                f"{place}: {found.share:.0%} of the last rows are far from the first "
                f"{found.rows:,} rows, which fix the maps of the candidates; shuffle the rows if "
                "they are sorted, or begin with the maps of a model that has learned a shuffled "
                "sample",
                UserWarning,
                stacklevel=3,
            )

    def _scores(self, link: bool = False) -> Scores:
        candidates, params = self._settled()
        return candidates.scores(params.ridges, link)

    def _probabilities(self, X: ArrayLike, stream: bool) -> Matrix:
        rows = self._rows(X)
        scores = self._scores(link=True)
        return scores.probabilities(scores.of(rows), stream)

    def _learned_one(self, X: Any, y: Any) -> bool:
        """Learn a single row the short way, if nothing is to be converted, asked or announced."""
        if "_candidates" not in self.__dict__ or self._waiting:
            return False
        if hasattr(self, "feature_names_in_") or y is None:
            return False
        if not validation.is_plain(X, y, accept_sparse=False) or len(X) > 1:
            return False
        self._require_same_learning(self._params())
        row, label = X[0], y[0]
        learned = self._takes(row, label, 1.0) and self._candidates.learn_one(row, label, 1.0)
        self._check_first_rows()
        return learned

    def _takes(self, row: NDArray[Any], y: Any, w: float) -> bool:
        """Whether a single row can go the short way: numbers, of a class known, if it is said."""
        if "_candidates" not in self.__dict__ or row.dtype.kind not in "fiub":
            return False
        candidates = self._candidates
        if row.shape != (self.n_features_in_,) or not 0.0 <= w <= validation.MAX_SAMPLE_WEIGHT:
            return False
        known = y is None or candidates.knows(y)
        return known and bool(np.abs(row).max() <= validation.MAX_ABS_VALUE)

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
        return Candidates(list(params.names), states, params.options, RowBuffer(self.kept_rows))

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
        if "_candidates" not in self.__dict__:
            raise AttributeError(f"this {type(self).__name__} has learned nothing yet")
        first = self._candidates.first
        if not first.moments.n.all():  # rows that wait are of classes known, which had lost theirs
            first = self.candidates_.first
        return first.classes

    def _rows(self, X: Any) -> Rows:
        self._require_fitted()
        rows: Rows = validation.rows(self, X)
        validation.require_finite(self, rows)
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
                "candidates, ridges, kept_rows, class_factors and half_life cannot change once "
                "rows were learned; fit again, or use a clone"
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
        f"a model that chooses cannot be {what}: the weights of its average depend on rows in "
        "their order. Take best_, an ordinary model, and let others begin with its map: "
        "BalancedRidgeClassifier(feature_map=chosen.best_.feature_map_)"
    )
