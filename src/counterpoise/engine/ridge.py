"""RidgeModel: the engine of one balanced ridge model, for rows that are checked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from operator import itemgetter
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from counterpoise import timestamps, validation
from counterpoise.arrays import Flags, Labels, Matrix, Rows, Vector, is_sparse, sort_unique
from counterpoise.engine.parameters import (
    RIDGE_PARAMETERS,
    RidgeParameters,
    parse_ridge_parameters,
    read_ridge_parameters,
)
from counterpoise.engine.row_hashes import named_hashes
from counterpoise.engine.state import Batch, LearningConfig, State
from counterpoise.engine.summary import Summary, summarize
from counterpoise.errors import DataError, Suggestion
from counterpoise.explanation import Explanation
from counterpoise.feature_maps.fitted import feature_map_name
from counterpoise.moments.categories import CodeColumns
from counterpoise.moments.classes import declare_labels, group_rows, n_score_columns, union
from counterpoise.moments.moments import Moments
from counterpoise.moments.resize import with_labels
from counterpoise.solver.attribution import explain
from counterpoise.solver.imputation import MeanImputation
from counterpoise.solver.mapped_moments import clipped_weight, require_room
from counterpoise.solver.options import Options
from counterpoise.solver.scores import NOT_QUADRATIC, Scores
from counterpoise.stepwise import progressive
from counterpoise.validation import Names, commit

Self = TypeVar("Self", bound="EngineBase")


class EngineBase:
    """Parameters of an engine, and a learned value that every change replaces.

    Rows are float64 of shape (n, d), C-ordered or CSR. Labels are an array that
    :func:`counterpoise.validation.labels` returns. A change is complete, or it did not happen.
    """

    kind: ClassVar[str]  # name of the estimator, in files
    parameter_values: ClassVar[Any]  # function of the estimator's attributes
    read_parameters: ClassVar[Any]  # function of an estimator
    params: Any
    imputation: MeanImputation | None
    codes: CodeColumns | None = None  # the last columns of a row, if they contain codes

    def __init__(self, params: Any) -> None:
        self.params = params

    @property
    def code_count(self) -> int:
        """Number of columns of a row that contain codes."""
        return 0 if self.codes is None else self.codes.count

    def learn_few(self, X: Rows, y: Labels) -> bool:
        """Return False: rows are learned together."""
        return False

    def copy_unfitted(self: Self) -> Self:
        """Return a model with the same parameters that has learned nothing."""
        return type(self)(self.params)

    def _declare(self, before: Labels, classes: Any, y: Labels) -> Labels:
        """Return all labels declared so far; raise if rows have labels of another type."""
        known = before if classes is None else declare_labels(before, classes)
        if len(known):
            validation.require_one_type(y, known)
        return known

    def _empty_state(self, config: LearningConfig, inputs: int, labels: Labels) -> State:
        """Return a State that has learned nothing, with declared labels; raise if a map differs."""
        if config.given is not None and inputs and inputs != len(config.given.mean):
            name = "feature_map is" if self.kind == RidgeModel.kind else "candidates has"
            raise ValueError(
                f"{name} a map fixed for {len(config.given.mean)} features, but X has {inputs} "
                "features"
            )
        state = State.empty(config, inputs).with_declared_classes(labels)
        return replace(state.with_imputation(self.imputation), codes=self.codes)


def without_weightless(
    X: Rows, y: Labels, weight: Vector | None, t: Vector | None = None
) -> tuple[Rows, Labels, Vector | None, Vector | None]:
    """Return rows without those of weight 0."""
    if weight is None or weight.all():
        return X, y, weight, t
    kept = weight > 0
    return X[kept], y[kept], weight[kept], None if t is None else t[kept]


def require_equal_options(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> None:
    """Raise unless two models to merge have the same options."""
    for name, value in mine.items():
        if value != theirs[name]:
            raise ValueError(
                f"cannot merge models with different options: {name} is {value!r} here "
                f"and {theirs[name]!r} there"
            )


def learn_and_score(
    state: State,
    batch: Batch,
    declared: Labels,
    options: Options,
    delay: int,
    limit: float,
    jobs: int = 1,
) -> tuple[Matrix, State]:
    """Return scores (n, problems) of rows in order, and the State that has learned them all."""
    n = len(batch.y)
    delay = min(delay, n)
    labels = union(state.moments.labels, union(sort_unique(batch.y), declared))
    # Without a map, values that may be missing are imputed again at each step; times decay at each.
    is_imputed = state.fill is not None and state.config.text is None
    warm = n if is_imputed or state.config.decay.is_timed else min(state.rows_until_fixed, n)
    if not warm:
        return _learn_compiled(state, batch, declared, labels, options, delay, limit, jobs)
    first = np.zeros((min(n, warm + delay), n_score_columns(len(labels))))
    state = state.copy()
    for at in range(warm + delay):
        if at < n and state.is_fitted:
            scores = state.with_declared_classes(labels).solve(None, options)
            first[at] = scores.of(batch.X[[at]])[0]
        if at >= delay:
            state = state.learn(batch.part(slice(at - delay, at - delay + 1)), limit, declared)
    if warm == n:
        return first, state
    rest, state = _learn_compiled(
        state, batch.part(slice(warm, n)), declared, labels, options, delay, limit, jobs
    )
    return np.concatenate([first, rest[delay:]]), state


def _learn_compiled(
    state: State,
    batch: Batch,
    declared: Labels,
    labels: Labels,
    options: Options,
    delay: int,
    limit: float,
    jobs: int,
) -> tuple[Matrix, State]:
    """Return scores of rows by the compiled solver, through a fixed map if any, and the State."""
    fixed, X = state.fixed, batch.X
    state.config.require_fits(X.shape[1], limit)
    first = X[0].copy() if fixed is None else fixed.transform(X[:1])[0]
    moments = state.moments.copy() if state.is_fitted else Moments(batch.y[:0], first)
    rows_of, arrived = batch.group(batch.y, moments.labels)
    require_room(len(labels), len(first), limit, state.config.text is not None)
    moments = with_labels(with_labels(moments, arrived), labels)
    codes = np.empty(len(X), dtype=np.intp)
    for k, mine in enumerate(rows_of):
        codes[mine] = k
    if fixed is not None:
        moments.clipped[0] += clipped_weight(X, None, fixed)
    delay = min(delay, len(X))
    f = progressive.threaded_scores(options, moments, labels, X, codes, delay, fixed, jobs)
    left = State(state.config, moments, declared, fixed, calibration=state.calibration)
    return f, left.with_imputation(state.fill)


class RidgeModel(EngineBase):
    """Parameters and learned state of a balanced ridge model."""

    kind = "BalancedRidgeClassifier"
    parameter_values = itemgetter(*RIDGE_PARAMETERS)
    read_parameters = staticmethod(read_ridge_parameters)
    params: RidgeParameters

    def __init__(self, params: RidgeParameters, state: State | None = None) -> None:
        super().__init__(params)
        self.state = State.empty(params.config, 0) if state is None else state
        self.imputation = None if state is None else state.fill
        self.codes = None if state is None else state.codes

    @classmethod
    def create(cls, state: State | None = None, **params: Any) -> RidgeModel:
        """Return a model with parameters of BalancedRidgeClassifier; raise if one is invalid."""
        return cls(parse_ridge_parameters(**params), state)

    def set_parameters(self, params: RidgeParameters) -> None:
        """Use other parameters from now on; raise if rows were learned in another way."""
        config = self.state.config
        if config is not params.config and config != params.config and self.is_fitted:
            name = "half_life" if config.decay != params.config.decay else "feature_map"
            raise ValueError(
                f"{name} cannot change after rows were learned; call fit, or clone the estimator"
            )
        self.params = params

    # Learned values

    @property
    def is_fitted(self) -> bool:
        """True if any row is learned."""
        return any(self.state.moments.n.tolist())

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return self.state.n_inputs

    @property
    def labels(self) -> Labels:
        """Labels seen or declared so far, sorted."""
        return self.state.classes.labels

    @property
    def class_count(self) -> Vector:
        """Weight of each class, not decayed."""
        return self.state.class_count

    @property
    def options(self) -> Options:
        """Options by which the moments are solved."""
        return self.params.options

    @property
    def best(self) -> RidgeModel:
        """The model itself, where an averaging model has its best candidate."""
        return self

    @property
    def reference_state(self) -> State:
        """State that describes which values of the features are usual."""
        return self.state

    @property
    def has_sorted_labels(self) -> bool:
        """True if rows do not count for calibration because their labels were sorted."""
        progressive = self.state.progressive
        return progressive is not None and progressive.order.was_sorted

    def scores(self, link: bool = True) -> Scores:
        """Return the solved model, with its probabilities if ``link``."""
        return self.state.solve(None, self.params.options, link)

    def explain(self, X: Rows, names: Names | None = None) -> Explanation:
        """Return the contribution of each feature to the scores of rows."""
        parts = [(self.scores(False), self.state.moments)]
        return explain(parts, self.params.options, X, names)

    def summary(self, names: Names | None = None) -> Summary:
        """Return coefficients with intervals, means and class means."""
        return summarize(self.state, self.params.options, self.mapped_names(names))

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
        """Learn rows.

        ``classes`` are labels to declare. Without ``calibrate`` the rows do not count for
        calibration. ``is_whole`` means that these are all rows, which are cross-fitted.
        """
        params = self.params
        state, known = self._begin(X.shape[1] - self.code_count, y, classes)
        batch = self.batch(X, y, weight, t, names)
        options = params.options if calibrate and params.options.calibrate else None
        cross_fits = is_whole and options is not None and options.half_life is None
        progressively = None if cross_fits else options
        state = state.learn(batch, params.memory_limit, known, calibrating=progressively)
        if cross_fits:
            assert options is not None
            # Folds depend on positions, so that names have no effect.
            places, limit, fill = range(X.shape[1]), params.memory_limit, state.fill
            hash_rows = partial(named_hashes, names=places, fill=fill)
            state = state.cross_fit(lambda: [batch], hash_rows, options, limit)
        self.state = state

    def learn_few(self, X: Rows, y: Labels) -> bool:
        """Learn few rows one by one, if possible; return whether it is."""
        is_own = type(self).learn is RidgeModel.learn  # and not an engine that learns otherwise
        return is_own and self.state.learn_few(X, y, self.params.options)

    def progressive_scores(
        self,
        X: Matrix,
        y: Labels,
        delay: int,
        t: ArrayLike | None,
        classes: Any,
        names: Names | None,
        n_jobs: int,
    ) -> Matrix:
        """Learn rows in order; return the scores of each by the model just before it."""
        state, known = self._begin(X.shape[1], y, classes)
        validation.require_bounded(X, names)
        batch = self.batch(X, y, None, t, names)
        options, limit = self.params.options, self.params.memory_limit
        scores, state = learn_and_score(state, batch, known, options, delay, limit, n_jobs)
        self.state = state
        return scores

    def batch(
        self,
        X: Rows,
        y: Labels,
        weight: ArrayLike | None = None,
        t: ArrayLike | None = None,
        names: Names | None = None,
    ) -> Batch:
        """Return rows as a batch without rows of weight 0; raise if a value is not finite."""
        weight = None if weight is None else validation.weights(weight, X.shape[0])
        t = timestamps.times(t, X.shape[0]) if self.params.config.decay.is_timed else None
        if self.params.config.text is not None:
            validation.require_bounded(X, names)
        elif is_sparse(X) or self.params.options.half_life is not None or weight is not None:
            validation.require_finite(X, names)
        if weight is not None and not weight.all():
            X, y, weight, t = without_weightless(X, y, weight, t)
        return Batch(X, y, weight, group_rows, names, t)

    def _begin(self, inputs: int, y: Labels, classes: Any) -> tuple[State, Labels]:
        """Return a state for rows of this width, and all labels declared so far."""
        state, config = self.state, self.params.config
        if not self.is_fitted and (state.config != config or state.n_inputs != inputs):
            # Without learned rows, the old map is not needed.
            before = state.declared if len(state.declared) else y[:0]
            state = self._empty_state(config, inputs, before)
        return state, self._declare(state.declared, classes, y)

    def cross_fit(
        self,
        batches: Callable[[], Iterable[Batch]],
        names: Sequence[Any],
        categories: Mapping[str, Sequence[str]],
    ) -> None:
        """Calibrate by all learned rows, independent of their order.

        ``batches`` returns these rows each time that it is called, in the same order. ``names`` are
        those of the features, and ``categories`` those of the columns of codes.
        """
        options, limit = self.params.options, self.params.memory_limit
        hash_rows = partial(named_hashes, names=names, fill=self.state.fill, categories=categories)
        self.state = self.state.cross_fit(batches, hash_rows, options, limit)

    # Merging and unlearning

    def merge(self, other: RidgeModel) -> RidgeModel:
        """Return a model that has learned the rows of this one, then those of the other."""
        options = [
            {**asdict(one.params.options), "feature_map": feature_map_name(one.params.feature_map)}
            for one in (self, other)
        ]
        require_equal_options(options[0], {**options[1], "calibrate": options[0]["calibrate"]})
        mine, theirs = self.state, other.state
        if mine.warmup is not None or theirs.warmup is not None or mine.fixed != theirs.fixed:
            raise DataError(
                "cannot merge models whose maps were fixed by different rows, or are not fixed yet "
                f"(that takes {mine.config.rows} rows)",
                Suggestion("let both begin with the same fixed map, given by {}", "feature_map"),
            )
        validation.require_one_type(theirs.moments.labels, mine.moments.labels)
        return type(self)(self.params, mine.merge(theirs, self.params.memory_limit))

    def require_unlearnable(self) -> None:
        """Raise if this model cannot unlearn rows."""
        if self.params.options.half_life is not None:
            raise ValueError(
                "a model with a half-life cannot unlearn: the present weight of a row is unknown"
            )
        state = self.state
        if state.warmup is not None:
            raise DataError(
                "unlearn is not possible before the map is fixed, which takes "
                f"{state.config.rows} rows, {state.rows_until_fixed} more than so far",
                Suggestion("begin with a map that is fixed, given by {}", "feature_map"),
            )

    def moments_of(
        self, X: Rows, y: Labels, weight: ArrayLike | None = None, names: Names | None = None
    ) -> Moments:
        """Return the moments of rows, in the slots of the learned moments."""
        return self.state.moments_of_batch(
            self.batch(X, y, weight, None, names), self.params.memory_limit
        )

    def unlearn(self, moments: Moments, names: Names | None = None) -> None:
        """Unlearn the moments of rows, whose storage is reused, if enough digits remain."""

        def name_of(j: int) -> str:
            if self.state.fixed is None:
                return validation.feature_name(j, names)
            return f"term {self.mapped_names(names)[j]!r}"

        self.state = self.state.unlearn(moments, self.params.options, name_of)

    def mapped_names(self, names: Names | None) -> list[str]:
        """Return names of the features, or of the mapped features."""
        called = [f"x{j}" for j in range(self.n_features)]
        called = called if names is None else [str(name) for name in names]
        return called if self.state.fixed is None else self.state.fixed.map.names(called)

    # Features

    def set_imputation(self, fill: MeanImputation | None) -> None:
        """Set which features may be missing and are imputed by the mean of their values."""
        commit(self, imputation=fill, state=self.state.with_imputation(fill))

    def set_codes(self, at: Sequence[int], codes: CodeColumns | None) -> None:
        """Set which of the last columns contain codes; column b so far is now column at[b]."""
        if codes is not None and self.params.options.pooled_rows is not None:
            raise DataError(NOT_QUADRATIC)
        commit(self, codes=codes, state=self.state.with_codes(at, codes))

    @property
    def allows_many(self) -> bool:
        """True if features of categories may become a column with many categories."""
        return self.params.config.text is None and self.params.options.pooled_rows is None

    def features_to_categories(self, at: NDArray[np.intp]) -> None:
        """Turn features at[i], each 0 or 1, into category i of a new last column of codes."""
        state = self.state.features_to_categories(at)
        commit(self, state=state, codes=state.codes, imputation=None)

    def reindex_categories(self, b: int, at: NDArray[np.intp], size: int) -> None:
        """Move category i of column b of codes to position at[i] of ``size``."""
        self.state = self.state.reindex_categories(b, at, size)

    def drop_categories(self) -> list[NDArray[np.intp]]:
        """Drop categories without rows; return the positions of those that stay, by column."""
        self.state, stay = self.state.drop_categories()
        return stay

    def change_imputation_base(self, before: MeanImputation, after: MeanImputation) -> None:
        """Let rows contain other constants where features are missing."""
        self.state = self.state.with_imputation_base(before, after)

    def add_features(self, names: Sequence[str]) -> None:
        """Add features that were 0 in every row; ``names`` are those of all, old ones first."""
        if len(self.state.moments.labels) and len(names) != self.n_features:
            self._move(self.state.with_features(names, self.params.memory_limit))

    def reindex_features(self, at: NDArray[np.intp], names: Sequence[str]) -> None:
        """Move feature j to position at[j] of a wider row, whose features have these names."""
        self._move(self.state.reindex_features(at, names, self.params.memory_limit))

    def drop_features(self, is_zero: Flags) -> NDArray[np.intp]:
        """Drop features that are 0 in every row; return the positions of those that stay.

        Features whose scaling is part of a fitted map stay, and one stays while there are rows.
        """
        state = self.state
        stay = ~is_zero if state.fixed is None else ~(is_zero & state.fixed.late)
        if not stay.any() and state.is_fitted:
            stay[0] = True
        at = np.flatnonzero(stay)
        if len(at) < len(stay):
            self._move(state.select_features(at))
        return at

    def _move(self, state: State) -> None:
        """Replace the state by a state of other features."""
        params = self.params
        if state.config.given is not None:
            params = params._replace(config=state.config, feature_map=state.config.given)
        commit(self, state=state, params=params)
