"""AutoModel: the engine that averages candidates, for rows that are checked."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoise import validation
from counterpoise.arrays import Labels, Matrix, Rows, Vector, one_thread, to_dense
from counterpoise.engine.averaging import CachedAverage, ScoreRequest
from counterpoise.engine.candidates import Candidates
from counterpoise.engine.parameters import (
    AUTO_PARAMETERS,
    AutoParameters,
    map_name,
    parse_auto_parameters,
    pooling_of,
    read_auto_parameters,
)
from counterpoise.engine.progressive_calibration import warn_if_sorted
from counterpoise.engine.ridge import (
    EngineBase,
    RidgeModel,
    require_equal_options,
    without_weightless,
)
from counterpoise.engine.row_buffer import RowBuffer, find_change
from counterpoise.engine.row_hashes import row_order
from counterpoise.engine.state import Batch, State
from counterpoise.engine.summary import Summary
from counterpoise.errors import DataError, Suggestion
from counterpoise.explanation import Explanation
from counterpoise.feature_maps import Map
from counterpoise.moments.categories import CodeColumns
from counterpoise.moments.classes import group_rows, n_score_columns, union
from counterpoise.solver.attribution import explain
from counterpoise.solver.imputation import MeanImputation
from counterpoise.solver.mapped_moments import require_category_room
from counterpoise.solver.options import Options
from counterpoise.solver.scores import NOT_QUADRATIC, Scores
from counterpoise.validation import Names, commit

# Larger rows, weights and terms are not deferred, because `learn` raises if their moments are too
# large. A map clips values at 10, so that its terms are at most a power of 10 times their number.
MAX_DEFERRED_VALUE = 0.5 * validation.MAX_ABS_VALUE
MAX_DEFERRED_WEIGHT = 1e-6 * validation.MAX_SAMPLE_WEIGHT
MAX_DEFERRED_DEGREE = 20


class AutoModel(EngineBase):
    """Parameters and candidates of an averaging model; see :class:`RidgeModel` for the rows."""

    kind = "AutoClassifier"
    parameter_values = itemgetter(*AUTO_PARAMETERS)
    read_parameters = staticmethod(read_auto_parameters)
    params: AutoParameters

    def __init__(self, params: AutoParameters, candidates: Candidates | None = None) -> None:
        super().__init__(params)
        self.imputation = None if candidates is None else candidates.first.fill
        self.codes = None if candidates is None else candidates.first.codes
        self._candidates = self._empty(0, np.empty(0)) if candidates is None else candidates
        self.warning_names: Names | None = None  # of features of rows without names
        self._next_check = 0.0  # rows at which the last rows are compared with the first again

    @classmethod
    def create(cls, **params: Any) -> AutoModel:
        """Return a model with parameters of AutoClassifier; raise if one is invalid."""
        return cls(parse_auto_parameters(**params))

    def set_parameters(self, params: AutoParameters) -> None:
        """Use other parameters from now on; raise if rows were learned in another way."""
        if self.params.learning != params.learning and self.is_fitted:
            raise ValueError(
                "candidates, ridges, kept_rows, class_factors and half_life cannot change after "
                "rows were learned; call fit, or clone the estimator"
            )
        candidates = self._candidates
        if candidates.options != params.options:
            candidates = candidates.with_states(lambda state: state, options=params.options)
        commit(self, params=params, _candidates=candidates)

    # Learned values

    @property
    def candidates(self) -> Candidates:
        """The candidates, with all rows so far."""
        found = self._candidates
        if found.deferred:
            # Threads that read one model may learn the rows twice, each in its own copy.
            self._learn_deferred(found.copy() if found.is_ready else found)
        return self._candidates

    def _learn_deferred(self, candidates: Candidates) -> None:
        """Learn the rows that were stored, and check whether the maps still represent them."""
        batch, declared = candidates.deferred_batch(), candidates.first.declared
        before = candidates.progressive
        self._candidates = candidates.learn(batch, declared, self.params.memory_limit)
        warn_if_sorted(before, self._candidates.progressive, stacklevel=5)
        self._check_first_rows(None)

    @property
    def _scoring_candidates(self) -> Candidates:
        """The candidates that score rows; in a warm-up, a quarter of the rows may be missing."""
        found = self._candidates
        return self.candidates if found.is_ready or found.needs_refresh() else found

    @property
    def is_fitted(self) -> bool:
        """True if any row is learned."""
        return self._candidates.rows > 0

    @property
    def has_sorted_labels(self) -> bool:
        """True if rows do not count for calibration because their labels were sorted."""
        progressive = self._candidates.progressive
        return progressive is not None and progressive.order.was_sorted

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return self._candidates.first.n_inputs

    @property
    def labels(self) -> Labels:
        """Labels seen or declared so far, sorted."""
        first = self._candidates.first
        if not first.moments.n.all():  # a deferred row may be the only one left of its class
            first = self.candidates.first
        return first.classes.labels

    @property
    def class_count(self) -> Vector:
        """Weight of each class, not decayed."""
        return self.candidates.first.class_count

    @property
    def options(self) -> Options:
        """Options by which the best candidate is solved."""
        return self.candidates.best_state()[1]

    @property
    def best(self) -> RidgeModel:
        """The best candidate with its ridge, which shares its state with this model."""
        return self._candidate(*self.candidates.best_state())

    @property
    def reference_state(self) -> State:
        """State that describes which values of the features are usual."""
        return self.candidates.simplest_state

    @property
    def models(self) -> list[RidgeModel]:
        """A model for each map, which shares its state with this model."""
        candidates = self.candidates
        return [self._candidate(one, candidates.options) for one in candidates.states.values()]

    def _candidate(self, state: State, options: Options) -> RidgeModel:
        feature_map: Any = state.config.given or state.config.text
        for one, name in zip(self.params.candidates, self.params.names, strict=True):
            if name == state.config.text and isinstance(one, Map):
                feature_map = one
        return RidgeModel.create(
            state,
            feature_map=feature_map,
            class_factors=options.class_factors,
            half_life=options.half_life,
            memory_limit=self.params.memory_limit,
            ridge=options.ridge,
            pooled_rows=options.pooled_rows,
        )

    @property
    def g_means(self) -> dict[str, dict[float, float]]:
        """G-mean of each candidate by ridge."""
        candidates, ridges = self.candidates, self.params.ridges
        ranking = candidates.ranking
        if ranking is None:
            return {name: {} for name in candidates.names}
        found = {}
        for name, row in zip(ranking.names, ranking.G, strict=True):
            own = candidates.solver_options_for(name, 1.0)
            if own.pooled_rows is None:
                both = zip(ridges.tolist(), row.tolist(), strict=True)
                found[name] = {ridge: G for ridge, G in both if G >= 0.0}
            else:  # its only ridge, which depends on the rows so far
                state = candidates.states[map_name(name)]
                found[name] = {state.solve(None, own).solution.ridge: float(row[0])}
        return found

    @property
    def averaging_weights(self) -> dict[str, float]:
        """Weight of each candidate in the average."""
        ranking = self.candidates.ranking
        if ranking is None:
            return {}
        both = zip(ranking.names, ranking.averaging_weights, strict=True)
        return {name: float(weights.sum()) for name, weights in both}

    @property
    def fitted_candidates(self) -> tuple[Any, ...]:
        """Candidates with their maps as they are fixed, for a model to be merged."""
        fixed = {name: state.fixed for name, state in self.candidates.states.items()}
        return tuple(fixed.get(name) or name for name in self.params.names)

    def scores(self, link: bool = True) -> Scores:
        """Return the average, with the probabilities of the best candidate if ``link``."""
        return self._scoring_candidates.scores(link)

    def explain(self, X: Rows, names: Names | None = None) -> Explanation:
        """Return the contribution of each feature to the scores of rows: a sum over candidates."""
        candidates = self._scoring_candidates
        parts = candidates.parts_of(candidates.scores())
        return explain(parts, candidates.options, X, names)

    def summary(self, names: Names | None = None) -> Summary:
        """Return the summary of the best candidate."""
        return self.best.summary(names)

    # Learning

    def learn(
        self,
        X: Rows,
        y: Labels,
        weight: ArrayLike | None = None,
        t: ArrayLike | None = None,
        classes: Any = None,
        names: Names | None = None,
        calibrate: bool = True,
        is_whole: bool = False,
    ) -> None:
        """Learn rows; all rows (``is_whole``) in an order that depends on their contents.

        Times have no effect. Without ``calibrate`` the rows do not count for calibration.
        """
        shuffle = is_whole and self.params.options.half_life is None
        self._learn(X, y, weight, classes, names, shuffle=shuffle, calibrate=calibrate)
        self._check_first_rows(names, stacklevel=7)

    def progressive_scores(
        self, X: Rows, y: Labels, delay: int, classes: Any, names: Names | None
    ) -> Matrix:
        """Learn rows in order; return the scores of each by an average of before."""
        scores = self._learn(X, y, None, classes, names, delay)
        self._check_first_rows(names)
        return scores

    def _learn(
        self,
        X: Rows,
        y: Labels,
        weight: ArrayLike | None,
        classes: Any,
        names: Names | None,
        delay: int | None = None,
        shuffle: bool = False,
        calibrate: bool = True,
    ) -> Matrix:
        """Learn rows; return scores by the average of each moment if there is a ``delay``."""
        validation.require_bounded(X, names)
        w = None if weight is None else validation.weights(weight, X.shape[0])
        params, before = self.params, self.candidates
        if not before.rows:
            labels = before.first.declared
            inputs = X.shape[1] - self.code_count
            before = self._empty(inputs, labels if len(labels) else y[:0])
        state = before.first
        known = self._declare(state.declared, classes, y)
        X, y, w, _ = without_weightless(X, y, w)
        if not len(y):
            if classes is not None:
                self._candidates = before.with_states(lambda s: s.with_declared_classes(known))
            return np.zeros((0, 1))
        everything = state.moments.labels
        if not set(y.tolist()) <= set(everything.tolist()):
            _, everything = group_rows(y, everything)  # checks new labels
            self._require_room(len(everything), X.shape[1] - self.code_count, before)
        self._require_category_room(len(everything), X, before)
        y = y.astype(everything.dtype, copy=False)
        if shuffle:
            order = row_order(X, y, w)
            X, y, w = X[order], y[order], None if w is None else w[order]
        request = None
        if delay is not None:
            wanted = union(everything, known)
            into = np.zeros((len(y), n_score_columns(len(wanted))))
            request = ScoreRequest(into, wanted, delay)
        batch = Batch(X, y, w, group_rows, names)
        limit = params.memory_limit
        with one_thread():  # as where candidates are ranked
            self._candidates = before.learn(batch, known, limit, request, calibrate)
        return np.zeros((0, 1)) if request is None else request.into

    def _empty(self, inputs: int, labels: Labels) -> Candidates:
        """Return candidates for rows of this width, which have learned nothing."""
        params, plans = self.params, self.params.plans.items()
        states = {name: self._empty_state(config, inputs, labels) for name, config in plans}
        kept = RowBuffer(params.kept_rows)
        return Candidates(list(params.names), states, params.options, params.ridges, kept)

    def _require_room(self, c: int, inputs: int, candidates: Candidates) -> None:
        """Raise if the moments and boundaries need more memory than allowed."""
        # Quadratic boundaries take as much as their moments.
        more = [one for one in candidates.names if one not in candidates.states]
        maps = [candidates.states[map_name(one)].config.map for one in (*candidates.states, *more)]
        sizes = [inputs if one is None else one.count(inputs) for one in maps]
        size, limit = 8.0 * c * sum(d * d for d in sizes), self.params.memory_limit
        if size > limit:
            raise ValueError(
                f"{c} class{'es' if c > 1 else ''} of {' + '.join(map(str, sizes))} terms need "
                f"{size / 1e9:.3g} GB of moments and boundaries, more than memory_limit "
                f"({limit / 1e9:.3g} GB); name fewer candidates, or smaller ones, or raise "
                "memory_limit"
            )

    def _require_category_room(self, c: int, X: Rows, candidates: Candidates) -> None:
        """Raise if the moments of categories of all candidates need more memory than allowed."""
        if self.codes is None:
            return
        found = candidates.first.moments.categories
        sizes = np.zeros(self.code_count) if found is None else np.array(found.sizes)
        now = to_dense(X[:, X.shape[1] - self.code_count :].max(axis=0)).ravel()
        inputs = X.shape[1] - self.code_count
        maps = [one.config.map for one in candidates.states.values()]
        terms = sum(inputs if one is None else one.count(inputs) for one in maps)
        count = float(np.maximum(sizes, now).sum())
        require_category_room(c, terms + len(maps) - 1, count, self.params.memory_limit)

    def _check_first_rows(self, names: Names | None, stacklevel: int = 4) -> None:
        """Warn once if the rows that fixed the maps do not represent the stream any more."""
        candidates = self._candidates
        if candidates.rows < self._next_check or not candidates.is_ready:
            return
        found = find_change(list(candidates.states.values()), candidates.kept)
        self._next_check = np.inf if found is not None else candidates.rows + candidates.rows // 3
        if found is not None:
            called = self.warning_names if names is None else names
            warnings.warn(
                f"{validation.feature_name(found.feature, called)}: {found.share:.0%} of the last "
                f"rows are far from the first {found.rows:,} rows, which fix the maps of the "
                "candidates; shuffle the rows if they are sorted, or begin with the maps of a "
                "model that has learned a shuffled sample",
                UserWarning,
                stacklevel=stacklevel,
            )

    # Single rows

    def accepts(self, row: NDArray[Any]) -> bool:
        """Return whether this is a row of numbers, of as many features as were learned."""
        if not self.is_fitted or row.dtype.kind not in "fiub" or row.shape != (self.n_features,):
            return False
        if self.codes is not None:
            return False
        return bool(np.abs(row).max() <= MAX_DEFERRED_VALUE)

    def learn_one(
        self, row: NDArray[Any], y: Any, w: float = 1.0, names: Names | None = None
    ) -> bool:
        """Learn one row, or defer it; return whether it is not left for :meth:`learn`."""
        if not 0.0 <= w <= MAX_DEFERRED_WEIGHT or self.params.max_degree > MAX_DEFERRED_DEGREE:
            return False
        if not self.accepts(row):
            return False
        candidates = self._candidates
        label = candidates.seen_label(y)
        if label is None:
            return False
        if names is not None:
            self.warning_names = names
        if w > 0.0 and candidates.defer(row, label, w):
            self._learn_deferred(candidates)
        return True

    def predict_one(self, row: NDArray[Any]) -> Any:
        """Return the label of an accepted row, by an average of a few rows ago."""
        found = self._score_one(row)
        if found is not None:
            return found[0].best_of(found[1])
        scores = self.scores(False)
        return scores.classes.best(scores.of(np.array(row, dtype=np.float64)[None]))[0]

    def predict_proba_one(self, row: NDArray[Any], stream: bool = False) -> Vector:
        """Return balanced or stream probabilities of an accepted row, by the same average."""
        found = self._score_one(row)
        if found is not None and found[0].linked is not None:
            return found[0].probabilities_of(found[1], self.labels, stream)
        scores = self.scores()
        f = scores.of(np.array(row, dtype=np.float64)[None])
        p: Vector = scores.probabilities(f, stream)[0]
        return p

    def _score_one(self, row: NDArray[Any]) -> tuple[CachedAverage, Vector] | None:
        candidates = self._candidates
        return (self.candidates if candidates.needs_refresh() else candidates).score_one(row)

    # Merging and features

    def merge(self, other: AutoModel) -> AutoModel:
        """Return a model that has learned the rows of this one, then those of the other."""
        names = ("ridges", "kept_rows", "class_factors", "half_life")
        require_equal_options(
            *(
                {name: one.params.estimator_parameters[name] for name in names}
                for one in (self, other)
            )
        )
        mine, theirs = self.candidates, other.candidates
        if mine.names != theirs.names:
            raise ValueError(
                f"cannot merge models with different candidates: {', '.join(mine.names)} here and "
                f"{', '.join(theirs.names)} there"
            )
        for name, state in mine.states.items():
            second = theirs.states[name]
            if state.rows_until_fixed or second.rows_until_fixed or state.fixed != second.fixed:
                raise DataError(
                    f"cannot merge models whose map {name} was fixed by different rows, or is not "
                    f"fixed yet (that takes {state.config.rows} rows)",
                    Suggestion("let the other begin with {}", "candidates", "maps_ of this one"),
                )
        validation.require_one_type(theirs.first.moments.labels, mine.first.moments.labels)
        return type(self)(self.params, mine.merge(theirs, self.params.memory_limit))

    def set_codes(self, at: Sequence[int], codes: CodeColumns | None) -> None:
        """Set which of the last columns contain codes; column b so far is now column at[b]."""
        if codes is not None and all(pooling_of(name) is not None for name in self.params.names):
            raise DataError(NOT_QUADRATIC)
        candidates, d = self.candidates, self.n_features
        if codes != self.codes:
            count = 0 if codes is None else codes.count
            places = np.r_[np.arange(d), d + np.asarray(at, np.intp)]
            candidates = candidates.with_features(
                lambda state: state.with_codes(at, codes),
                **candidates.reindexed_rows(places, d + count),
            )
        commit(self, codes=codes, _candidates=candidates)

    def reindex_categories(self, b: int, at: NDArray[np.intp], size: int) -> None:
        """Move category i of column b of codes to position at[i] of ``size``."""
        candidates = self.candidates
        column = self.n_features + b

        def change(X: Matrix) -> Matrix:
            X = X.copy()
            X[:, column] = np.append(at + 1, 0)[X[:, column].astype(np.intp) - 1]
            return X

        self._candidates = candidates.with_features(
            lambda state: state.reindex_categories(b, at, size), **candidates.mapped_rows(change)
        )

    def set_imputation(self, fill: MeanImputation | None) -> None:
        """Set which features may be missing and are imputed by the mean of their values."""
        candidates = self.candidates
        if fill != candidates.first.fill:
            candidates = candidates.with_features(lambda state: state.with_imputation(fill))
        commit(self, imputation=fill, _candidates=candidates)

    def add_features(self, names: Sequence[str]) -> None:
        """Add features that were 0 in every row; ``names`` are those of all, old ones first."""
        if self.is_fitted and len(names) != self.n_features:
            at, limit = np.arange(self.n_features), self.params.memory_limit
            self._reindex(at, names, lambda state: state.copy().with_features(names, limit))

    def reindex_features(self, at: NDArray[np.intp], names: Sequence[str]) -> None:
        """Move feature j to position at[j] of a wider row, whose features have these names."""
        limit = self.params.memory_limit
        self._reindex(at, names, lambda state: state.reindex_features(at, names, limit))

    def _reindex(
        self, at: NDArray[np.intp], names: Sequence[str], change: Callable[[State], State]
    ) -> None:
        """Replace the candidates by candidates of other features."""
        params, before = self.params, self.candidates
        self._require_room(len(self.labels), len(names), before)
        width = len(names) + self.code_count
        places = np.r_[at, np.arange(len(names), width)].astype(np.intp)
        candidates = before.with_features(change, **before.reindexed_rows(places, width))
        fixed = {name: one.config.given for name, one in candidates.states.items()}
        if any(one is not None for one in fixed.values()):
            each = zip(params.candidates, params.names, strict=True)
            wider = tuple(fixed.get(name) or one for one, name in each)
            params = parse_auto_parameters(**{**params.estimator_parameters, "candidates": wider})
        commit(self, _candidates=candidates, params=params)


Engine: TypeAlias = RidgeModel | AutoModel  # estimators, tables and files use what both have
