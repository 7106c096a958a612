"""RidgeModel: the engine of one balanced ridge model, for rows that are checked.

Progressive scores of a model whose feature map is not fitted yet are computed here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from counterpoise import timestamps, validation
from counterpoise.arrays import Flags, Labels, Matrix, Rows, Vector
from counterpoise.engine.parameters import RidgeParameters, parse_ridge_parameters
from counterpoise.engine.state import Batch, State
from counterpoise.engine.summary import Summary, summarize
from counterpoise.errors import DataError, Suggestion
from counterpoise.explanation import Explanation
from counterpoise.feature_maps.fitted import feature_map_name
from counterpoise.moments.classes import declared, grouped, n_score_columns, union
from counterpoise.moments.moments import Moments
from counterpoise.moments.resize import with_labels
from counterpoise.solver.attribution import explain
from counterpoise.solver.imputation import MeanImputation
from counterpoise.solver.mapped_moments import clipped, require_room
from counterpoise.solver.options import Options
from counterpoise.solver.scores import Scores
from counterpoise.stepwise import progressive
from counterpoise.validation import Names, commit


def learn_and_score(
    state: State,
    batch: Batch,
    declared: Labels,
    options: Options,
    delay: int,
    limit: float,
    jobs: int = 1,
) -> tuple[Matrix, State]:
    """Scores of the rows of a batch, in order, and the State that has learned them all. Shape of
    the result: (n, problems).
    """
    n = len(batch.y)
    delay = min(delay, n)
    # Values that may be missing are filled anew at each step.
    warm = min(state.waiting, n) if state.fill is None or state.plan.text is not None else n
    if state.plan.decay.is_timed:  # all classes fade with each step
        warm = n
    first, state = _warming(state, batch, declared, options, warm, delay, limit)
    if warm == n:
        return first, state
    classes = union(np.unique(batch.y), declared)
    rest, state = _fixed(
        state, batch.part(slice(warm, n)), declared, classes, options, delay, limit, jobs
    )
    return np.concatenate([first, rest[delay:]]) if warm else rest, state


def _warming(
    state: State,
    batch: Batch,
    declared: Labels,
    options: Options,
    warm: int,
    delay: int,
    limit: float,
) -> tuple[Matrix, State]:
    """Scores while so many rows are learned before the map is fixed."""
    everything = union(state.moments.labels, union(np.unique(batch.y), declared))
    n, steps = len(batch.y), warm + delay if warm else 0
    f = np.zeros((min(n, steps), n_score_columns(len(everything))))
    for at in range(steps):
        if at < n and state.begun:
            f[at] = state.announced(everything).solve(None, options).of(batch.X[[at]])[0]
        if at >= delay:
            state = state.learn(batch.part(slice(at - delay, at - delay + 1)), limit, declared)
    return f, state


def _fixed(
    state: State,
    batch: Batch,
    declared: Labels,
    classes: Labels,
    options: Options,
    delay: int,
    limit: float,
    jobs: int,
) -> tuple[Matrix, State]:
    """Scores of rows that go through a fixed map, or none."""
    fixed, X = state.fixed, batch.X
    state.plan.require_fits(X.shape[1], limit)
    first = X[0].copy() if fixed is None else fixed.transform(X[:1])[0]
    moments = Moments(batch.y[:0], first)
    if state.begun:
        moments = state.moments.copy()
    rows_of, arrived = batch.group(batch.y, moments.labels)
    labels = union(arrived, classes)
    require_room(len(labels), len(first), limit, state.plan.text is not None)
    moments = with_labels(with_labels(moments, arrived), labels)
    codes = np.empty(len(X), dtype=np.intp)
    for k, mine in enumerate(rows_of):
        codes[mine] = k
    if fixed is not None:
        moments.clipped[0] += clipped(X, None, fixed)
    f = progressive.threaded_scores(
        options, moments, labels, X, codes, min(delay, len(X)), fixed, jobs
    )
    left = State(state.plan, moments, declared, fixed, calibration=state.calibration)
    return f, left.filling(state.fill)


class RidgeModel:
    """Parameters and learned state of a balanced ridge model.

    Rows are float64 of shape (n, d), C-ordered or CSR. Labels are an array that
    :func:`counterpoise.validation.labels` returns. A change is complete, or it did not happen.
    """

    kind = "BalancedRidgeClassifier"

    def __init__(self, params: RidgeParameters, state: State | None = None) -> None:
        self.params = params
        self.state = State.empty(params.config, 0) if state is None else state
        self.imputation = None if state is None else state.fill

    @classmethod
    def create(cls, state: State | None = None, **params: Any) -> RidgeModel:
        """Return a model with parameters of BalancedRidgeClassifier; raise if one is invalid."""
        return cls(parse_ridge_parameters(**params), state)

    def set_parameters(self, params: RidgeParameters) -> None:
        """Use other parameters from now on; raise if rows were learned in another way."""
        config = self.state.plan
        if config is not params.config and config != params.config and self.state.begun:
            raise ValueError(
                "feature_map and half_life cannot change once rows were learned; fit again, or "
                "use a clone"
            )
        self.params = params

    def copy_unfitted(self) -> RidgeModel:
        """Return a model with the same parameters that has learned nothing."""
        return RidgeModel(self.params)

    # Learned values

    @property
    def is_fitted(self) -> bool:
        """Whether any row is learned."""
        return self.state.begun

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return self.state.inputs

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
        """Whether rows do not count for calibration because their labels were sorted."""
        progressive = self.state.progressive
        return progressive is not None and progressive.order.was_sorted

    def scores(self, link: bool = True) -> Scores:
        """Return the solved model, with its probabilities if ``link``."""
        return self.state.solve(None, self.params.options, link)

    def explain(self, X: Rows, names: Names | None = None) -> Explanation:
        """Return the contribution of each feature to the scores of rows."""
        return explain(self.scores(False), self.state.moments, self.params.options, X, names)

    def summary(self, names: Names | None = None) -> Summary:
        """Return coefficients with intervals, means and class means."""
        called = [f"x{j}" for j in range(self.n_features)]
        called = called if names is None else [str(name) for name in names]
        fixed = self.state.fixed
        return summarize(
            self.state, self.params.options, called if fixed is None else fixed.map.names(called)
        )

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
        state, known = self._begin(X.shape[1], y, classes)
        batch = self.batch(X, y, weight, t, names)
        params = self.params
        options = params.options if calibrate and params.options.calibrate else None
        cross_fits = is_whole and options is not None and options.half_life is None
        progressively = None if cross_fits else options
        state = state.learn(batch, params.memory_limit, known, calibrating=progressively)
        if cross_fits:
            assert options is not None
            # Folds depend on positions, so that names have no effect.
            places, limit = range(X.shape[1]), params.memory_limit
            state = state.cross_fitted(lambda: [batch], places, options, limit)
        self.state = state

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
        weight = validation.weights(weight, X.shape[0])
        t = timestamps.times(t, X.shape[0]) if self.params.config.decay.is_timed else None
        if self.params.config.text is not None:
            validation.require_bounded(X, names)
        elif sp.issparse(X) or self.params.options.half_life is not None or weight is not None:
            validation.require_finite(X, names)
        if weight is not None and not weight.all():
            kept = weight > 0
            X, y, weight = X[kept], y[kept], weight[kept]
            t = None if t is None else t[kept]
        return Batch(X, y, weight, grouped, names, t)

    def _begin(self, inputs: int, y: Labels, classes: Any) -> tuple[State, Labels]:
        """Return a state for rows of this width, and all labels declared so far."""
        state, config = self.state, self.params.config
        if not state.begun and (state.plan != config or state.inputs != inputs):
            if config.given is not None and inputs != len(config.given.mean):
                raise ValueError(
                    f"feature_map is a map fixed for {len(config.given.mean)} features, but X has "
                    f"{inputs} features"
                )
            # Without learned rows, the old map is not needed.
            before = state.declared if len(state.declared) else y[:0]
            state = State.empty(config, inputs).announced(before).filling(self.imputation)
        known = declared(state.declared, classes)
        validation.require_one_type(y, known)
        return state, known

    def cross_fit(self, batches: Callable[[], Iterable[Batch]], names: Sequence[Any]) -> None:
        """Calibrate by all learned rows, independent of their order.

        ``batches`` returns these rows each time that it is called, in the same order.
        """
        options, limit = self.params.options, self.params.memory_limit
        self.state = self.state.cross_fitted(batches, names, options, limit)

    # Merging and unlearning

    def merge(self, other: RidgeModel) -> RidgeModel:
        """Return a model that has learned the rows of this one, then those of the other."""
        self._require_same_options(other)
        mine, theirs = self.state, other.state
        if mine.warmup is not None or theirs.warmup is not None or mine.fixed != theirs.fixed:
            raise DataError(
                "cannot merge models whose maps were fixed by different rows, or are not fixed yet "
                f"(that takes {mine.plan.rows} rows)",
                Suggestion("let both begin with the same fixed map, given by {}", "feature_map"),
            )
        validation.require_one_type(theirs.moments.labels, mine.moments.labels)
        return RidgeModel(self.params, mine.merged(theirs, self.params.memory_limit))

    def _require_same_options(self, other: RidgeModel) -> None:
        """Raise unless two models were learned in the same way."""
        mine, theirs = (
            {**asdict(one.params.options), "feature_map": feature_map_name(one.params.feature_map)}
            for one in (self, other)
        )
        for name, value in mine.items():
            if value != theirs[name] and name != "calibrate":
                raise ValueError(
                    f"cannot merge models with different options: {name} is {value!r} here "
                    f"and {theirs[name]!r} there"
                )

    def require_unlearnable(self) -> None:
        """Raise if this model cannot unlearn rows."""
        if self.params.options.half_life is not None:
            raise ValueError(
                "unlearn is not possible with half_life: how far a row has decayed is not known"
            )
        state = self.state
        if state.warmup is not None:
            raise DataError(
                "unlearn is not possible before the map is fixed, which takes "
                f"{state.plan.rows} rows, {state.waiting} more than so far",
                Suggestion("begin with a map that is fixed, given by {}", "feature_map"),
            )

    def moments_of(
        self, X: Rows, y: Labels, weight: ArrayLike | None = None, names: Names | None = None
    ) -> Moments:
        """Return the moments of rows, in the slots of the learned moments."""
        return self.state.gathered(self.batch(X, y, weight, None, names), self.params.memory_limit)

    def unlearn(self, moments: Moments, names: Names | None = None) -> None:
        """Unlearn the moments of rows, whose storage is reused, if enough digits remain."""
        self.state = self.state.unlearn(
            moments, self.params.options, self.term_names(names).__getitem__
        )

    def term_names(self, names: Names | None = None) -> list[str]:
        """Return how messages name the features, or the mapped features."""
        fixed = self.state.fixed
        if fixed is None:
            return [validation.feature_name(j, names) for j in range(self.n_features)]
        called = [f"x{j}" for j in range(self.n_features)] if names is None else names
        return [f"term {name!r}" for name in fixed.map.names([str(name) for name in called])]

    # Features

    def set_imputation(self, fill: MeanImputation | None) -> None:
        """Set which features may be missing and are imputed by the mean of their values."""
        commit(self, imputation=fill, state=self.state.filling(fill))

    def change_imputation_base(self, before: MeanImputation, after: MeanImputation) -> None:
        """Let rows contain other constants where features are missing."""
        self.state = self.state.rebased(before, after)

    def add_features(self, names: Sequence[str]) -> None:
        """Add features that were 0 in every row; ``names`` are those of all, old ones first."""
        if len(self.state.moments.labels) and len(names) != self.n_features:
            self._move(self.state.widened(names, self.params.memory_limit))

    def reindex_features(self, at: NDArray[np.intp], names: Sequence[str]) -> None:
        """Move feature j to position at[j] of a wider row, whose features have these names."""
        self._move(self.state.placed(at, names, self.params.memory_limit))

    def drop_features(self, is_zero: Flags) -> NDArray[np.intp]:
        """Drop features that are 0 in every row; return the positions of those that stay.

        Features whose scaling is part of a fitted map stay, and one stays while there are rows.
        """
        state = self.state
        stay = ~is_zero if state.fixed is None else ~(is_zero & state.fixed.late)
        if not stay.any() and state.begun:
            stay[0] = True
        at = np.flatnonzero(stay)
        if len(at) < len(stay):
            self._move(state.only(at))
        return at

    def _move(self, state: State) -> None:
        """Replace the state by a state of other features."""
        params = self.params
        if state.plan.given is not None:
            params = params._replace(config=state.plan, feature_map=state.plan.given)
        commit(self, state=state, params=params)
