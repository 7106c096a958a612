"""State: all that a model has learned, and how it changes. A change is complete or does not happen.

Rows become moments, after a feature map if there is one. The first rows fix such a map; until then
they are kept, and learned again with each batch. All estimators, the candidates of the averaging
model, the command line and Spark change a State, and nothing else changes moments.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import (
    Labels,
    Matrix,
    Rows,
    Vector,
    concatenate_labels,
    is_sparse,
    to_dense,
)
from counterpoise.engine.progressive_calibration import (
    HashRows,
    ProgressiveCalibration,
    cross_fit,
    score_before_learning,
)
from counterpoise.feature_maps import WARMUP, FittedMap, Map, Warmup
from counterpoise.moments import resize
from counterpoise.moments._moments import add, add_all
from counterpoise.moments.accumulate import dense_is_faster
from counterpoise.moments.categories import CategoryMoments, CodeColumns
from counterpoise.moments.classes import Classes, union
from counterpoise.moments.decay import NO_DECAY, Decay
from counterpoise.moments.moments import Moments, SparseChunk
from counterpoise.solver.calibration import Calibration
from counterpoise.solver.imputation import ImputedMoments, MeanImputation, change_base
from counterpoise.solver.link import link_of
from counterpoise.solver.mapped_moments import (
    GroupedRows,
    clipped_weight,
    moments_of,
    require_category_room,
    require_light,
    require_map_fits,
    require_moderate,
    require_room,
    terms_of,
)
from counterpoise.solver.options import Options, has_label_weights, warn_unseen_labels
from counterpoise.solver.scores import Scores, solve_scores, subtract_checked
from counterpoise.stepwise._single_event import RowQueue
from counterpoise.stepwise.single_event import (
    CategoryField,
    SingleEventModel,
    open_single_event,
)
from counterpoise.validation import MAX_ABS_VALUE, MAX_SAMPLE_WEIGHT, Names, commit

FLOAT64 = np.dtype(np.float64)
MAX_UNSCORED_ROWS = 256
# Largest batch that is learned row by row, which takes less time (benchmarks/speed/bulk.py). Wide
# rows would need memory for a solver.
MAX_ROWS_ONE_BY_ONE, MAX_PRODUCTS_ONE_BY_ONE, MAX_FEATURES_ONE_BY_ONE = 128, 2**18, 256
ROWS_PER_CATEGORY = 4  # events for each category, after which its ridge is chosen again
Grouping = Callable[[Labels, Labels], tuple[list[NDArray[np.intp]], Labels]]


@dataclass(frozen=True)
class LearningConfig:
    """Settings that turn rows into moments: fixed before the first row."""

    decay: Decay = NO_DECAY
    text: str | None = None  # name of the map
    given: FittedMap | None = None  # a map that is fixed already
    map: Map | None = field(default=None, compare=False)

    @classmethod
    def of(cls, decay: Decay, one: Map | None, given: FittedMap | None = None) -> LearningConfig:
        """Return the configuration of a map, which may be given as it is fixed."""
        return cls(decay, None if one is None else one.text, given, one)

    @property
    def rows(self) -> int:
        """Rows that fix the map."""
        return WARMUP if self.map is None else self.map.rows

    def require_fits(self, inputs: int, limit: float) -> None:
        """Raise if the map of ``inputs`` features would take more memory than ``limit`` bytes."""
        require_map_fits(self.map, inputs, limit)


@dataclass(frozen=True, eq=False)
class Batch:
    """Labeled rows, checked: float64, finite, of positive weight."""

    X: Rows  # (n, l)
    y: Labels  # (n,)
    weight: Vector | None  # (n,)
    group: Grouping  # returns the rows of each label, given y and the labels that have a slot
    names: Names | None = None  # names of the features, for messages
    t: Vector | None = None  # (n,) times in seconds, where rows decay by time

    def part(self, rows: slice | NDArray[np.intp]) -> Batch:
        """Return some of the rows."""
        weight, t = (None if one is None else one[rows] for one in (self.weight, self.t))
        return replace(self, X=self.X[rows], y=self.y[rows], weight=weight, t=t)


@dataclass(eq=False)
class Session:
    """Caches of a State and single rows to be scored; every other change begins a new session."""

    solved: tuple[Options, Scores] | None = None
    imputed: ImputedMoments | None = None
    single_event: SingleEventModel | None = None
    # single rows, after the map, that were learned and will be scored together
    unscored: RowQueue | None = None


@dataclass(eq=False)
class State:
    """All that a model has learned."""

    config: LearningConfig
    moments: Moments  # of the features, or of the mapped features
    declared: Labels
    fixed: FittedMap | None = None  # the map as it is fixed so far
    warmup: Warmup | None = None  # rows that are kept until it is fixed for good
    names: list[Any] | None = None  # names of the features, where rows are dicts
    calibration: Calibration | None = None  # counts of rows scored by a model without them
    # the model that scores the next rows before they are learned
    progressive: ProgressiveCalibration | None = field(default=None, repr=False)
    fill: MeanImputation | None = None  # which features may be missing
    codes: CodeColumns | None = None  # the last columns of a row, if they contain codes
    storage: resize.GrowableScatter = field(default_factory=resize.GrowableScatter, repr=False)
    has_warned: bool = field(default=False, repr=False)  # of weighted labels that never occurred
    session: Session = field(default_factory=Session, repr=False)

    @classmethod
    def empty(cls, config: LearningConfig, inputs: int, names: list[Any] | None = None) -> State:
        """Return a State of ``inputs`` features that has not learned any row."""
        d = inputs if config.given is None else config.given.size
        moments = Moments(np.empty(0), np.zeros(d))
        return cls(config, moments, moments.labels, config.given, None, names)

    def __getstate__(self) -> dict[str, Any]:
        self.score_pending()
        return {**self.__dict__, "storage": resize.GrowableScatter(), "session": Session()}

    def copy(self) -> State:
        """Return an independent copy."""
        return self._with(moments=self.moments.copy(), storage=resize.GrowableScatter())

    def _with(self, **changes: Any) -> State:
        """Return a State with other values and a new session."""
        self.score_pending()
        return replace(self, session=Session(), **changes)

    @property
    def is_fitted(self) -> bool:
        """True if any row is learned."""
        return any(self.moments.n.tolist())

    @property
    def rows_until_fixed(self) -> int:
        """Rows that are missing until the map is fixed."""
        if self.config.text is None or self.config.given is not None:
            return 0
        if self.fixed is None:
            return self.config.rows
        return 0 if self.warmup is None else self.config.rows - len(self.warmup.X)

    @property
    def n_inputs(self) -> int:
        """Number of features of a row, without the columns of codes."""
        return len(self.moments.anchor if self.fixed is None else self.fixed.mean)

    # Learning

    def learn(
        self,
        batch: Batch,
        limit: float,
        declared: Labels | None = None,
        names: list[Any] | None = None,
        calibrating: Options | None = None,
    ) -> State:
        """Learn rows; return this object, or another in its place. Atomic with respect to signals.

        ``limit`` is in bytes. ``declared`` are all labels declared so far and ``names`` those of
        all features, if there are new ones; a new feature was 0 in every row before. With
        ``calibrating`` the model of the past scores the rows first, with these options.
        """
        self.score_pending()
        base = self if names is None else self.with_features(names, limit)
        after: dict[str, Any] = {"declared": base.declared if declared is None else declared}
        if base.rows_until_fixed:
            after |= base._refit_warmup(batch, limit)
        else:
            sparse = base._sparse_chunk(batch, limit)
            chunk = base.moments_of_batch(batch, limit) if sparse is None else sparse
            after["moments"] = chunk
            if self.config.decay.is_timed:
                base._warn_if_erased(float(chunk.n.sum()), float(chunk.when[0]), len(batch.y))
        if calibrating is not None:
            found, progressive = score_before_learning(base, batch, calibrating, limit)
            after |= {"calibration": _sum(self.calibration, found), "progressive": progressive}
        if "fixed" in after or not base.is_fitted:
            first: Moments = after["moments"]
            if first.categories is not None:
                first.categories = first.categories.with_all_codes()
            return base._with(**after).drop_decayed()
        add(*self._add_arguments(base, after))
        return self.drop_decayed()

    def _warn_if_erased(self, weight: float, latest: float, rows: int) -> None:
        """Warn if rows of this weight at their latest time reduce all others to nothing."""
        before, previous = float(self.moments.n.sum()), float(self.moments.when[0])
        self.config.decay.warn_if_erased(before, previous, weight, latest, rows)

    def drop_decayed(self) -> State:
        """Drop the calibration counts of classes whose rows have decayed to nothing."""
        if all(self.moments.n.tolist()):
            return self
        left = self.moments.labels[self.moments.n > 0]
        if self.calibration is not None:
            self.calibration = self.calibration.restrict_to(left)
        if self.progressive is not None:
            self.progressive = self.progressive.restrict_to(left)
        return self

    def _add_arguments(self, base: State, after: dict[str, Any]) -> tuple[Any, ...]:
        """Return how ``after["moments"]`` is added, with new features of ``base``, and the rest."""
        chunk: Moments = after["moments"]
        grown = base.moments
        if chunk.labels is not grown.labels:
            grown = resize.with_labels(grown, chunk.labels, self.storage)
        if base is not self:
            wider = {"fixed": base.fixed, "names": base.names, "progressive": base.progressive}
            after = wider | after
        after = {**after, "moments": grown, "session": Session()}
        return grown.add_arguments(chunk, self.config.decay, self, after)

    @staticmethod
    def learn_all(
        states: Sequence[State],
        terms: Sequence[Rows],
        batch: Batch,
        limit: float,
        declared: Labels,
        owner: Any,
        attributes: dict[str, Any],
    ) -> None:
        """Let several States learn the same rows in one step, as their :meth:`terms` of them.

        All are fitted with the same labels, and their maps are fixed. The owner gets attributes in
        the same step.
        """
        rows_of, labels = batch.group(batch.y, states[0].moments.labels)
        same, changes = labels is states[0].moments.labels, []
        with np.errstate(over="ignore", invalid="ignore"):
            for state, Z in zip(states, terms, strict=True):
                known = state.moments
                group = rows_of, known.labels if same else labels
                chunk = state._moments_of(batch, limit, known.anchor, group, Z)
                after = {"moments": chunk, "declared": declared}
                changes.append(state._add_arguments(state, after))
        require_light(chunk)  # all have the same weights
        add_all(changes, owner, attributes)

    def _sparse_chunk(self, batch: Batch, limit: float) -> SparseChunk | None:
        """Return moments of CSR rows of learned classes without scatters, if that is faster."""
        moments, decays = self.moments, self.config.decay.is_active or self.config.decay.is_timed
        if not is_sparse(batch.X) or decays or not self.is_fitted:
            return None
        if self.fixed is not None or self.codes is not None or dense_is_faster(batch.X):
            return None
        rows_of, labels = batch.group(batch.y, moments.labels)
        if labels is not moments.labels:
            return None
        require_room(len(labels), batch.X.shape[1], limit, mapped=False)
        with np.errstate(over="ignore", invalid="ignore"):
            chunk = SparseChunk.of_rows(batch.X, rows_of, moments, batch.weight)
        require_moderate(batch.X, chunk, batch.names)
        return chunk

    def moments_of_batch(self, batch: Batch, limit: float) -> Moments:
        """Return the moments of rows, in the slots of the learned moments."""
        with np.errstate(over="ignore", invalid="ignore"):  # checked at the end
            return self._moments_of(batch, limit, self.moments.anchor if self.is_fitted else None)

    def terms(self, X: Rows) -> Rows:
        """Return the features of a few rows, after the map, if any."""
        if self.codes is not None:
            X, _ = self.codes.split(X)
        return X if self.fixed is None else terms_of(X, self.fixed)

    def _moments_of(
        self,
        batch: Batch,
        limit: float,
        anchor: Vector | None,
        group: tuple[list[NDArray[np.intp]], Labels] | None = None,
        terms: Rows | None = None,
    ) -> Moments:
        """Return the moments of rows, or of their terms if these are given.

        ``group`` has the rows of each label, and the labels.
        """
        fixed, features, index = self.fixed, batch.X, None
        rows_of, labels = group or batch.group(batch.y, self.moments.labels)
        if self.codes is not None:
            features, index = self.codes.split(batch.X)
            self._require_category_room(index, len(labels), limit)
        X = features if terms is None else terms
        through = fixed if terms is None else None  # the map of these rows
        d = X.shape[1] if through is None else through.size
        require_room(len(labels), d, limit, fixed is not None)
        decay, weight, t = self.config.decay, batch.weight, batch.t
        if through is None:
            chunk = Moments.of_groups(X, rows_of, labels, weight, decay, anchor, t, index)
        else:
            rows = GroupedRows(features, rows_of, labels, weight, t, index)
            chunk = moments_of(rows, decay, anchor, through)
            require_light(chunk)
        if fixed is None:
            require_moderate(features, chunk, batch.names)
        else:
            chunk.clipped[0] = clipped_weight(features, weight, fixed)
        return chunk

    def _require_category_room(self, index: NDArray[np.intp], c: int, limit: float) -> None:
        """Raise if the moments of categories, with these rows, need more than the limit."""
        now = self.moments.categories
        sizes = np.zeros(index.shape[1]) if now is None else np.array(now.sizes)
        count = float(np.maximum(sizes, index.max(axis=0, initial=-1) + 1).sum())
        require_category_room(c, len(self.moments.anchor), count, limit)

    def _refit_warmup(self, batch: Batch, limit: float) -> dict[str, Any]:
        """Return the warm-up with more rows, learned again: another scaling gives other terms."""
        assert self.config.map is not None
        codes = CodeColumns(()) if self.codes is None else self.codes
        self.config.require_fits(batch.X.shape[1] - codes.count, limit)
        X = to_dense(batch.X)
        y, weight = batch.y, np.ones(len(batch.y)) if batch.weight is None else batch.weight
        rows = Warmup(X, y, weight, batch.t)
        if self.warmup is not None:
            labels, n = concatenate_labels(self.warmup.y, y), len(self.warmup.y)
            before = replace(self.warmup, y=labels[:n])
            rows = before.append(X, labels[n:], weight, batch.t)
        seen = replace(rows, X=codes.split(rows.X)[0])
        if self.fill is not None:  # by the mean of the rows that fix the map
            first = slice(self.config.rows)
            X, weight = seen.X[first], rows.weight[first]
            seen = Warmup(self.fill.rows(X, weight), rows.y[first], weight)
        fixed = seen.fit_map(self.config.map) if len(rows.X) else None
        if fixed is not None and self.fill is not None:
            fixed = fixed.with_missing(self.fill.at, self.fill.by, self.fill.present)
        everything = replace(batch, X=rows.X, y=rows.y, weight=rows.weight, t=rows.t)
        with np.errstate(over="ignore", invalid="ignore"):
            moments = replace(self, fixed=fixed)._moments_of(everything, limit, None)
        kept = None if fixed is None or len(rows.X) >= self.config.map.rows else rows
        return {"moments": moments, "fixed": fixed, "warmup": kept}

    # Unlearning and merging

    def unlearn(self, chunk: Moments, options: Options, name_of: Callable[[int], str]) -> State:
        """Return the State without the rows of a chunk of moments; raise if precision is lost.

        ``name_of`` names a feature, or a mapped feature, given its position. Calibration counts
        stay, except for classes without rows. The scoring model, which has these rows, does not.
        """
        moments = subtract_checked(self.moments, chunk, options, name_of)
        calibration = self._calibration_of_all()
        if calibration is not None:
            calibration = calibration.restrict_to(moments.labels[moments.n > 0])
        return self._with(moments=moments, calibration=calibration, progressive=None)

    def _calibration_of_all(self) -> Calibration | None:
        """Return calibration counts with those of pending rows, where the scoring model goes."""
        self.score_pending()
        pending = None if self.progressive is None else self.progressive.count_pending()
        return _sum(self.calibration, pending)

    def merge(self, other: State, limit: float) -> State:
        """Return a State that has learned these rows, then the rows of another."""
        labels = {*self.moments.labels.tolist(), *other.moments.labels.tolist()}
        require_room(len(labels), len(self.moments.anchor), limit, self.fixed is not None)
        return self._with(
            moments=self.moments.copy().append(other.moments, self.config.decay),
            declared=union(self.declared, other.declared),
            calibration=_sum(self._calibration_of_all(), other._calibration_of_all()),
            progressive=None,
        ).drop_decayed()

    # Labels and features

    def with_declared_classes(self, declared: Labels) -> State:
        """Return the State with other declared labels."""
        return self._with(declared=declared)

    def with_features(self, names: Sequence[Any], limit: float) -> State:
        """Return the State with more features, 0 in every row so far, given the names of all.

        Features keep their positions. The result may take over the storage of the scatters: this
        State must not learn any more.
        """
        d, at = len(names), np.arange(self.n_inputs)
        if d != len(at) and (self.fixed is not None or self.warmup is not None):
            return self.reindex_features(at, names, limit).with_imputation(self.fill)
        after: dict[str, Any] = {"names": None if self.names is None else list(names)}
        if d != len(at):
            require_room(len(self.moments.n), d, limit, mapped=False)
            after["progressive"] = self._reindex_progressive(at, d)
            after["moments"] = resize.with_features(self.moments, d, self.storage)
        return self._with(**after)

    def _reindex_progressive(self, at: NDArray[np.intp], d: int) -> ProgressiveCalibration | None:
        """Return the scoring model of d features, or terms, with the old ones at positions at."""
        self.score_pending()
        return None if self.progressive is None else self.progressive.reindex_features(at, d)

    def reindex_features(self, at: NDArray[np.intp], names: Sequence[Any], limit: float) -> State:
        """Return the State with feature j at position at[j] of a wider row of these features.

        No feature may be missing then.
        """
        self.config.require_fits(len(names), limit)
        fixed, moved, d, warmup = self.fixed, at, len(names), self.warmup
        if fixed is None:
            require_room(len(self.moments.n), d, limit, mapped=False)
        else:
            known = names if self.names is None else [repr(name) for name in names]
            fixed, moved = fixed.with_features(at, known)
            d = fixed.size
        if warmup is not None:
            X = np.zeros((len(warmup.X), len(names) + warmup.X.shape[1] - len(at)))
            X[:, at], X[:, len(names) :] = warmup.X[:, : len(at)], warmup.X[:, len(at) :]
            warmup = replace(warmup, X=X)
        return self._of_features(
            fixed,
            resize.reindex_features(self.moments, moved, d),
            names,
            warmup=warmup,
            progressive=self._reindex_progressive(moved, d),
        )

    def select_features(self, at: NDArray[np.intp]) -> State:
        """Return the State of rows without all other features, which were 0 in every row.

        No feature may be missing then.
        """
        fixed, terms = (None, at) if self.fixed is None else self.fixed.select_features(at)
        names = [] if self.names is None else [self.names[j] for j in at.tolist()]
        moments = resize.select_features(self.moments, terms)
        return self._of_features(fixed, moments, names, progressive=None)

    def _of_features(
        self, fixed: FittedMap | None, moments: Moments, names: Sequence[Any], **changes: Any
    ) -> State:
        """Return the State with other features, none of which may be missing."""
        given = self.config.given is not None
        return self._with(
            config=replace(self.config, given=fixed) if given else self.config,
            moments=moments,
            fixed=fixed,
            names=None if self.names is None else list(names),
            fill=None,
            **changes,
        )

    def with_codes(self, at: Sequence[int], codes: CodeColumns | None) -> State:
        """Return the State of rows with other columns of codes, of which column b is now at[b].

        New columns had no category in every row so far.
        """
        if codes == self.codes:
            return self
        moments, warmup, progressive = self.moments, self.warmup, self.progressive
        if codes is not None and moments.categories is not None:
            moments = resize.with_features(moments, len(moments.anchor))
            assert moments.categories is not None
            moments.categories = moments.categories.reindex_columns(at, codes.count)
        if codes is not None and warmup is not None:
            d = self.n_inputs
            X = np.zeros((len(warmup.X), d + codes.count))
            X[:, :d], X[:, d + np.asarray(at, np.intp)] = warmup.X[:, :d], warmup.X[:, d:]
            warmup = replace(warmup, X=X)
        if codes is not None and progressive is not None:
            self.score_pending()
            progressive = self.progressive
            assert progressive is not None
            progressive = progressive.reindex_code_columns(at, codes)
        return self._with(moments=moments, warmup=warmup, progressive=progressive, codes=codes)

    def features_to_categories(self, at: NDArray[np.intp]) -> State:
        """Return the State of rows in which features at[i] became category i of a last column.

        They are 0 or 1 in each row, and there is no map.
        """
        self.score_pending()
        moments, progressive = self.moments, self.progressive
        rows = () if self.codes is None else self.codes.pseudo_rows
        codes = CodeColumns((*rows, None))
        if progressive is not None:
            progressive = progressive.features_to_categories(at, codes)
        names = self.names
        if names is not None:
            names = np.delete(np.array(names, dtype=object), at).tolist()
        moments = resize.features_to_categories(moments, at)
        return self._with(
            moments=moments, progressive=progressive, codes=codes, names=names, fill=None
        )

    def reindex_categories(self, b: int, at: NDArray[np.intp], size: int) -> State:
        """Return the State with category i of column b at position at[i] of ``size``.

        Categories at negative positions are in no row, and have no position.
        """
        self.score_pending()
        moments, warmup, progressive = self.moments, self.warmup, self.progressive
        if moments.categories is not None:
            moments = resize.with_features(moments, len(moments.anchor))
            assert moments.categories is not None
            moments.categories = moments.categories.reindex_codes(b, at, size)
        if warmup is not None:
            X, column = warmup.X.copy(), self.n_inputs + b
            X[:, column] = np.append(at + 1, 0)[X[:, column].astype(np.intp) - 1]
            warmup = replace(warmup, X=X)
        if progressive is not None:
            progressive = progressive.reindex_categories(b, at, size)
        return self._with(moments=moments, warmup=warmup, progressive=progressive)

    def drop_categories(self) -> tuple[State, list[NDArray[np.intp]]]:
        """Return the State without categories without rows, and positions that stay, by column."""
        state, categories, stay = self, self.moments.categories, []
        for b in range(0 if categories is None else len(categories.columns)):
            assert categories is not None
            is_left = categories.category_weights(b) > 0.0
            stay.append(np.flatnonzero(is_left))
            if not is_left.all():
                at = np.where(is_left, np.cumsum(is_left) - 1, -1)
                state = state.reindex_categories(b, at, len(stay[b]))
        return state, stay

    def with_imputation(self, fill: MeanImputation | None) -> State:
        """Return the State with features that may be missing; this object if nothing changes.

        A fixed map imputes its own means.
        """
        if fill == self.fill:
            return self
        self.score_pending()
        fixed, progressive = self.fixed, self.progressive
        if fixed is not None:
            parts = ((), (), ()) if fill is None else (fill.at, fill.by, fill.present)
            fixed = fixed.with_missing(*parts)
        elif fill is not None and progressive is not None:
            progressive = progressive.with_imputation(fill)
        return self._with(fill=fill, fixed=fixed, progressive=progressive)

    def with_imputation_base(self, before: MeanImputation, after: MeanImputation) -> State:
        """Return the State with other constants where features are missing; a map has none."""
        if self.config.text is not None:
            return self
        moments = change_base(self.moments, before, after.base)
        calibration = self._calibration_of_all()
        return self._with(moments=moments, fill=after, calibration=calibration, progressive=None)

    # Calibration

    def with_calibration(
        self, calibration: Calibration | None, progressive: ProgressiveCalibration | None
    ) -> State:
        """Return the State with another calibration."""
        return self._with(calibration=calibration, progressive=progressive).drop_decayed()

    def cross_fit(
        self,
        batches: Callable[[], Iterable[Batch]],
        hash_rows: HashRows,
        options: Options,
        limit: float,
    ) -> State:
        """Return the State, calibrated by its own rows, independent of their order.

        ``batches`` returns all learned rows each time; ``hash_rows`` returns hashes (n,) of rows.
        """
        found = cross_fit(self, batches, hash_rows, options, limit)
        return self._with(calibration=found, progressive=None)

    # Solving

    @property
    def classes(self) -> Classes:
        """Labels seen or declared, sorted, and their slots."""
        return Classes.of(self.moments, self.declared)

    @property
    def class_count(self) -> Vector:
        """Weight of each of the classes, not decayed."""
        return np.append(self.moments.N, 0.0)[self.classes.slots]

    def solve(self, classes: Classes | None, options: Options, link: bool = False) -> Scores:
        """Return scores of every class, with probabilities if ``link``; cached until a change.

        ``classes`` are by default all that were seen or declared, sorted.
        """
        session = self.session
        solved = session.solved
        if solved is None or (solved[0] is not options and solved[0] != options):
            self.warn_unseen_labels_once(options)
            found = self._solve(classes or self.classes, options, link)
            found = found if self.fixed is None else replace(found, fixed=self.fixed)
        elif link and solved[1].link is None:
            found = solved[1]
            linked = self._solve(found.classes, options, link, found).link
            found = replace(found, link=linked)
        else:
            found = solved[1]
        if link and options.calibrate and found.calibration is not self.calibration:
            found = replace(found, calibration=self.calibration)
        session.solved = options, found
        return found

    def warn_unseen_labels_once(self, options: Options, stacklevel: int = 5) -> None:
        """Warn once of labels that have a weight and never occurred."""
        if not self.has_warned and has_label_weights(options):
            self.has_warned = warn_unseen_labels(self.moments, options, stacklevel)

    def _solve(
        self, classes: Classes, options: Options, link: bool, solved: Scores | None = None
    ) -> Scores:
        """Return scores as a function of rows that are not imputed, with a link on request."""
        imputed = self.imputation
        moments = self.moments if imputed is None else imputed.moments
        found = solved
        if found is None or imputed is not None:
            found = self._solve_with_categories(moments, classes, options)
        if link:
            linked = link_of(moments, classes, options, found.solution, found.effects)
            found = replace(found, link=linked)
        if imputed is None:
            return found
        return replace(found, solution=imputed.for_raw_rows(found.solution))

    def _solve_with_categories(
        self, moments: Moments, classes: Classes, options: Options
    ) -> Scores:
        """Return scores; for some time, single events share the ridge that was chosen."""
        opened = self.session.single_event
        solver = None if opened is None else opened.events.categories
        codes = self.codes
        if opened is None or solver is None or codes is None or None not in codes.pseudo_rows:
            return solve_scores(moments, classes, options, codes)
        kept = solver.valid_rows
        if kept > 0.0:
            codes = CodeColumns((kept,))
        found = solve_scores(moments, classes, options, codes)
        if found.effects is not None and kept == 0.0:
            rows = float(found.effects.pseudo_rows[0])
            opened.events.set_category_rows(rows, ROWS_PER_CATEGORY * solver.size)
        elif found.effects is not None and self.codes is not None:
            found = replace(found, effects=replace(found.effects, columns=self.codes))
        return found

    @property
    def _imputes_moments(self) -> bool:
        """True if moments are imputed, instead of rows before a map."""
        return self.fill is not None and self.config.text is None

    @property
    def imputation(self) -> ImputedMoments | None:
        """Moments with missing values imputed; None where none can be missing, or a map imputes."""
        if self.fill is None or not self._imputes_moments or not self.is_fitted:
            return None
        session = self.session
        if session.imputed is None:
            session.imputed = ImputedMoments.of(self.fill, self.moments)
        return session.imputed

    @property
    def imputed_moments(self) -> Moments:
        """Moments with missing values imputed; as learned, where none can be missing."""
        imputed = self.imputation
        return self.moments if imputed is None else imputed.moments

    def solve_imputed(self, options: Options) -> Scores:
        """Return scores as a function of imputed rows, to inspect their coefficients."""
        if self.imputation is None:
            return self.solve(None, options)
        return solve_scores(self.imputed_moments, self.classes, options, self.codes)

    def impute(self, X: Matrix) -> Matrix:
        """Return rows (n, l), before any map, with missing values imputed by their mean so far."""
        if self.fill is None or not self.is_fitted:
            return X
        result = X.copy()
        if self.fixed is None:
            return ImputedMoments.of(self.fill, self.moments).impute(result)
        for at, by, present in self.fixed.missing:
            result[(X[:, by] != 0.0) != present, at] = self.fixed.mean[at]
        return result

    @property
    def mean(self) -> Vector:
        """Mean of each feature over all rows without its missing values, or the map's own mean."""
        if self.fixed is not None:
            return self.fixed.mean
        moments = self.imputed_moments
        total = max(float(moments.N.sum()), 1e-300)
        mean: Vector = moments.anchor + moments.N @ moments.mean / total
        return mean

    def solve_moments(self, moments: Moments, options: Options) -> Scores | None:
        """Return scores by other moments of the same features, with link and map."""
        found = self._with(moments=moments)._solve_seen(options)
        return None if found is None else replace(found, fixed=self.fixed)

    def scoring_model(self, options: Options) -> Scores | None:
        """Return scores with link, without the map; None before it is fixed, or of one class.

        Their anchor is the mean of all rows.
        """
        found = None if self.rows_until_fixed else self._solve_seen(options)
        if found is None:
            return None
        mean = self.moments.N @ self.moments.mean / self.moments.N.sum()
        return replace(found, solution=found.solution.move_anchor(mean))

    def _solve_seen(self, options: Options) -> Scores | None:
        """Return scores of the classes seen, with their exact link; None of fewer than two."""
        slots = np.flatnonzero(self.moments.n > 0)
        if len(slots) < 2:
            return None
        return self._solve(Classes(self.moments.labels[slots], slots), options, link=True)

    # Single rows

    def queue_for(self, options: Options) -> RowQueue:
        """Return the queue of the next single row; renew the scoring model if it needs another."""
        queue = self.session.unscored
        if queue is not None and queue.count < queue.capacity:
            return queue
        self.score_pending()
        now = self.progressive or ProgressiveCalibration.start(self)
        calibration = self.calibration
        if now.is_at_boundary:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")  # predictions warn
                counted, now = now.renew(self.scoring_model(options))
            calibration = _sum(calibration, counted)
        queue = RowQueue(min(now.until - now.rows, MAX_UNSCORED_ROWS), len(self.moments.anchor))
        commit(self, progressive=now, calibration=calibration)
        self.session.unscored = queue
        self.drop_decayed()
        return queue

    def score_pending(self) -> None:
        """Score single rows by the model that has not learned them."""
        session = self.session
        queue = session.unscored
        if queue is None:
            return
        progressive, n = self.progressive, queue.count
        if n and progressive is not None:
            X, y, w = queue.X[:n], self.moments.labels[queue.slots[:n]], queue.weight[:n]
            with np.errstate(all="ignore"):
                progressive = progressive.with_rows(X, y, w, None)
        commit(self, progressive=progressive, session=replace(session, unscored=None))
        self.drop_decayed()

    def open(
        self,
        options: Options,
        classes: Classes | None = None,
        field: CategoryField | None = None,
    ) -> SingleEventModel | None:
        """Return the model open to single rows; None where only batches can be learned.

        Rows with codes need the field of an event that contains the only category.
        """
        session = self.session
        found = session.single_event
        if found is None or (found.options is not options and found.options != options):
            if self.warmup is not None or self._imputes_moments or not self.is_fitted:
                return None
            is_plain = self.config.text is None and not options.calibrate
            if self.codes is not None and (field is None or not is_plain):
                return None
            names, classes = self.names if self.fixed is None else None, classes or self.classes
            found = open_single_event(self.moments, classes, options, names, self.codes)
            session.single_event = found
        if field is not None and found is not None:
            found.events.name_categories(field)
        if found is None or found.has_label_weights:
            self.warn_unseen_labels_once(options)
        return found

    def open_imputed(
        self, options: Options, classes: Classes
    ) -> tuple[SingleEventModel, SingleEventModel, ImputedMoments | None] | None:
        """Open moments to single rows where values may be missing; None where only batches can be.

        The first model learns rows as they are. The second scores rows that the third has imputed,
        if a value was ever missing.
        """
        is_open = self.is_fitted and self.warmup is None and self.fixed is None
        if not is_open or self.codes is not None:
            return None
        learner = open_single_event(self.moments, classes, options)
        if learner is None or self.fill is None:
            return None if learner is None else (learner, learner, None)
        imputed = ImputedMoments.of(self.fill, self.moments)
        scorer = open_single_event(imputed.moments, classes, options)
        return None if scorer is None else (learner, scorer, imputed)

    def grow_categories(self, size: int, limit: float) -> CategoryMoments:
        """Return the moments of the only column of categories, of which there are this many."""
        categories = self.moments.categories
        assert categories is not None
        c, d = self.moments.mean.shape
        require_category_room(c, d, size, limit)
        (column,) = categories.columns
        return replace(categories, columns=(column.resize(size),))

    def learn_one(
        self,
        found: SingleEventModel,
        row: Vector,
        slot: int,
        w: float,
        is_clipped: bool = False,
        t: float | None = None,
    ) -> None:
        """Learn one row, after the map if any, which may have clipped it."""
        session = self.session
        session.solved = session.imputed = None  # before, so that a signal finds no old scores
        count = self.moments.clipped if is_clipped else None
        if t is None:
            found.events.learn(row, slot, w, count)
            return
        half_life = self.config.decay.seconds
        assert half_life is not None
        if t - self.moments.when[0] > 4.0 * half_life:
            self._warn_if_erased(w, t, 1)
        found.events.learn_at(row, slot, w, half_life, t, self.moments, count)
        if not found.events.all_seen():  # a class has decayed to nothing
            self.session.single_event = None
            self.drop_decayed()

    def learn_row(
        self, found: SingleEventModel, x: Any, y: Any, w: float, t: float | None = None
    ) -> bool:
        """Learn one row as it comes; return whether it is a row of numbers, of a learned class."""
        slot = found.slots.get(y)
        if slot is None or not 0.0 <= w <= MAX_SAMPLE_WEIGHT:
            return False
        is_plain, queue = t is None and self.fixed is None, None
        if found.options.calibrate:
            x = np.asarray(x)
            if x.dtype.kind not in "fiub" or x.shape != (self.n_inputs,):
                return False
            queue = self.queue_for(found.options)
        self.session.solved = None  # before, so that a signal finds no old scores
        if not (is_plain and found.events.learn(x, slot, w)):
            x = np.asarray(x)
            row = self.row(x)
            if row is None:
                return False
            is_clipped = self.fixed is not None and bool(self.fixed.is_clipped(x[None])[0])
            self.learn_one(found, row, slot, w, is_clipped, t)
        if queue is not None:
            found.events.queue(queue, slot, w)
        return True

    def learn_few(self, X: Rows, y: Labels, options: Options) -> bool:
        """Learn few dense rows one by one, if possible; return whether it is."""
        n, d = X.shape
        if n > MAX_ROWS_ONE_BY_ONE or d > MAX_FEATURES_ONE_BY_ONE or d != self.n_inputs:
            return False
        if n * d * d > MAX_PRODUCTS_ONE_BY_ONE or type(X) is not np.ndarray:
            return False
        if self.config.text is not None or self.config.decay.is_timed:
            return False
        kind = y.dtype.kind
        if kind not in "biuU" or kind != self.moments.labels.dtype.kind:
            return False
        if options.calibrate or has_label_weights(options):
            return False
        found = self.open(options)
        if found is None:
            return False
        session = Session(single_event=found)
        return found.events.learn_rows(X, y.tolist(), found.slots, self, session)

    def row(self, x: Any) -> Vector | None:
        """Return a single row after the map, if any; None if it is not a row of numbers."""
        if self.fixed is None and x.dtype is FLOAT64 and x.flags.c_contiguous:
            same: Vector = x
            return same
        if x.dtype.kind not in "fiub":
            return None
        row: Vector = np.ascontiguousarray(x, FLOAT64)
        if self.fixed is None:
            return row
        if row.shape != self.fixed.mean.shape or not np.abs(row).max() <= MAX_ABS_VALUE:
            return None
        mapped: Vector = self.fixed.transform(row[None])[0]
        return mapped if np.abs(mapped).max() <= MAX_ABS_VALUE else None


def _sum(one: Calibration | None, two: Calibration | None) -> Calibration | None:
    """Return the counts of both, if there are any."""
    if one is None or two is None:
        return two if one is None else one
    return one.merge(two)
