"""State: all that a model has learned, and how it changes. A change is whole or not at all.

Rows become moments, after a map if there is one. Such a map is fixed by the first rows; until then
they are kept, and learned again with each batch. All estimators, the candidates of the averaging
model, the command line and Spark change a State, and nothing else changes moments.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Matrix, Rows, Vector, joined
from counterpoise.engine.progressive_calibration import (
    ProgressiveCalibration,
    calibrated,
    cross_fit,
)
from counterpoise.feature_maps import WARMUP, FittedMap, Map, Warmup
from counterpoise.moments import resize
from counterpoise.moments._moments import add, add_all
from counterpoise.moments.classes import Classes, union
from counterpoise.moments.decay import NO_DECAY, Decay
from counterpoise.moments.moments import Moments
from counterpoise.solver.calibration import Calibration
from counterpoise.solver.imputation import ImputedMoments, MeanImputation, change_base
from counterpoise.solver.link import link_of
from counterpoise.solver.mapped_moments import (
    clipped,
    moments_of,
    require_light,
    require_map_fits,
    require_moderate,
    require_room,
    terms_of,
)
from counterpoise.solver.options import Options, has_label_weights, warn_unseen_labels
from counterpoise.solver.scores import Scores, solve_scores, subtract_checked
from counterpoise.stepwise.single_event import SingleEventModel, open_single_event
from counterpoise.validation import MAX_ABS_VALUE, MAX_SAMPLE_WEIGHT, Names

NUMBER = np.dtype(np.float64)
MAX_UNSCORED_ROWS = 256
Grouping = Callable[[Labels, Labels], tuple[list[NDArray[np.intp]], Labels]]


@dataclass(frozen=True)
class LearningConfig:
    """How rows become moments: decided before the first row, and kept."""

    decay: Decay = NO_DECAY  # how the past loses weight
    text: str | None = None  # name of the map
    given: FittedMap | None = None  # A map that is fixed already
    map: Map | None = field(default=None, compare=False)  # the map

    @property
    def rows(self) -> int:
        """Rows that fix the map."""
        return WARMUP if self.map is None else self.map.rows

    def require_fits(self, inputs: int, limit: float) -> None:
        """Raise if the map, of so many features, would take more memory than allowed."""
        require_map_fits(self.map, inputs, limit)


@dataclass(frozen=True, eq=False)
class Batch:
    """Labelled rows, checked: float64, finite, of positive weight."""

    X: Rows  # (n, l) the rows
    y: Labels  # (n,) their labels
    weight: Vector | None  # (n,) their weights
    group: Grouping  # finds the rows of each label, given y and the labels that have a slot
    names: Names | None = None  # names of the features, for messages
    t: Vector | None = None  # (n,) their times in seconds, where rows fade by the clock

    def part(self, rows: slice | NDArray[np.intp]) -> Batch:
        """Return some of the rows."""
        weight, t = (None if one is None else one[rows] for one in (self.weight, self.t))
        return replace(self, X=self.X[rows], y=self.y[rows], weight=weight, t=t)


@dataclass(eq=False)
class State:
    """All that a model has learned."""

    plan: LearningConfig  # how rows become moments
    moments: Moments  # of the features, or of the terms of the map
    declared: Labels  # labels announced
    fixed: FittedMap | None = None  # the map as it is fixed so far
    warmup: Warmup | None = None  # rows that are kept until it is fixed for good
    names: list[Any] | None = None  # names of the features, where rows are dicts
    # counts of rows that were scored by a model without them
    calibration: Calibration | None = None
    # the model that scores the next rows before they are learned
    progressive: ProgressiveCalibration | None = field(default=None, repr=False)
    # which features may be missing, and are filled by the mean of what was seen
    fill: MeanImputation | None = None
    version: int = 0  # counts changes
    # storage in which the scatters grow
    room: resize.GrowableScatter = field(default_factory=resize.GrowableScatter, repr=False)
    # single rows that the scoring model, as it is, can still score
    rows_left: int = field(default=0, repr=False)
    # whether it was told which labels that have a weight never occurred
    warned: bool = field(default=False, repr=False)
    _scores: tuple[Any, Scores] | None = field(default=None, repr=False)
    _filled: tuple[int, ImputedMoments] | None = field(default=None, repr=False)
    _open: SingleEventModel | None = field(default=None, repr=False)
    _unscored: list[tuple[Any, Any, float]] = field(default_factory=list, repr=False)

    @classmethod
    def empty(cls, plan: LearningConfig, inputs: int, names: list[Any] | None = None) -> State:
        """Nothing learned yet of rows with so many features."""
        d = inputs if plan.given is None else plan.given.size
        moments = Moments(np.empty(0), np.zeros(d))
        return cls(plan, moments, moments.labels, plan.given, None, names)

    def __getstate__(self) -> dict[str, Any]:
        self.score_pending()
        fresh = {"version": 0, "room": resize.GrowableScatter(), "_scores": None, "_open": None}
        fresh |= {"_filled": None, "rows_left": 0}
        return self.__dict__ | fresh

    def copy(self) -> State:
        """An independent copy."""
        return self._with(moments=self.moments.copy(), room=resize.GrowableScatter())

    @property
    def begun(self) -> bool:
        """Whether anything is learned."""
        return any(self.moments.n.tolist())

    @property
    def waiting(self) -> int:
        """Rows that are missing until the map is fixed."""
        if self.plan.text is None or self.plan.given is not None:
            return 0
        if self.fixed is None:
            return self.plan.rows
        return 0 if self.warmup is None else self.plan.rows - len(self.warmup.X)

    @property
    def inputs(self) -> int:
        """Number of features of a row."""
        return len(self.moments.anchor if self.fixed is None else self.fixed.mean)

    # Changing

    def learn(
        self,
        batch: Batch,
        limit: float,
        declared: Labels | None = None,
        names: list[Any] | None = None,
        calibrating: Options | None = None,
    ) -> State:
        """With more rows: this object, changed, or another in its place.

        Atomic with respect to signals: KeyboardInterrupt leaves either the old or the new state.
        ``limit`` is in bytes. ``declared`` are all labels announced so far and ``names`` those of
        all features, if there are new ones; a new feature was 0 in every row before. With
        ``calibrating`` the rows are scored first, by the model of the past under these options.
        """
        self.score_pending()
        self.rows_left = 0
        base = self if names is None else self.widened(names, limit)
        known = base.declared if declared is None else declared
        if base.waiting:
            warmed = base._warmed(batch, limit, known)
            return warmed._with(**base._calibrated(batch, limit, calibrating)).drop_decayed()
        chunk = base.gathered(batch, limit)
        base._check_clock(float(chunk.n.sum()), float(chunk.when[0]), len(batch.y))
        more = base._calibrated(batch, limit, calibrating)
        if not base.begun:
            return base._with(moments=chunk, declared=known, **more).drop_decayed()
        add(*self._entering(base, chunk, known, more))
        return self.drop_decayed()

    def _check_clock(self, weight: float, latest: float, rows: int) -> None:
        """Warn if rows of this weight as of their latest time make all others count for nothing."""
        if self.plan.decay.is_timed:
            before, previous = float(self.moments.n.sum()), float(self.moments.when[0])
            self.plan.decay.warn_if_erased(before, previous, weight, latest, rows)

    def _calibrated(
        self, batch: Batch, limit: float, calibrating: Options | None
    ) -> dict[str, Any]:
        """Return what calibration becomes when rows, which are checked, are learned."""
        if calibrating is None:
            return {}
        found, after = calibrated(self, batch, calibrating, limit)
        return {"calibration": _added(self.calibration, found), "progressive": after}

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

    def _entering(
        self, base: State, chunk: Moments, declared: Labels, more: dict[str, Any]
    ) -> tuple[Any, ...]:
        """How a chunk is added to what is learned, after widening to ``base``, and what else."""
        grown = resize.with_labels(base.moments, chunk.labels, self.room)
        after = {"moments": grown, "declared": declared, "version": self.version + 1, **more}
        if base is not self:
            more = {"progressive": base.progressive, **more}
            after |= {"fixed": base.fixed, "names": base.names, **more}
        return grown.add_arguments(chunk, self.plan.decay, self, after)

    @staticmethod
    def learn_all(
        states: Sequence[State],
        terms: Sequence[Rows],
        batch: Batch,
        limit: float,
        declared: Labels,
        holder: Any,
        more: dict[str, Any],
    ) -> None:
        """Let several States learn the same rows at once, as their :meth:`terms` of them.

        All have begun, with the same labels, and their maps are fixed. The holder gets the
        attributes ``more`` in the same moment.
        """
        rows_of, labels = batch.group(batch.y, states[0].moments.labels)
        same = labels is states[0].moments.labels
        group = lambda y, known: (rows_of, known if same else labels)  # noqa: E731
        batch, changes = replace(batch, group=group), []
        with np.errstate(over="ignore", invalid="ignore"):
            for state, Z in zip(states, terms, strict=True):
                chunk = state._gathered(batch, limit, state.moments.anchor, Z)
                changes.append(state._entering(state, chunk, declared, {}))
        add_all(changes, holder, more)

    def gathered(self, batch: Batch, limit: float) -> Moments:
        """Moments of rows, in the slots of what is learned."""
        with np.errstate(over="ignore", invalid="ignore"):  # found out, and named, at the end
            return self._gathered(batch, limit, self.moments.anchor if self.begun else None)

    def terms(self, X: Rows) -> Rows:
        """Rows, of which there are few, as the moments want them."""
        return X if self.fixed is None else terms_of(X, self.fixed)

    def _gathered(
        self, batch: Batch, limit: float, anchor: Vector | None, terms: Rows | None = None
    ) -> Moments:
        """Moments of rows, or of terms of them where these are known already."""
        fixed = self.fixed
        rows_of, labels = batch.group(batch.y, self.moments.labels)
        X = batch.X if terms is None else terms
        d = X.shape[1] if fixed is None or terms is not None else fixed.size
        require_room(len(labels), d, limit, fixed is not None)
        decay, through = self.plan.decay, fixed if terms is None else None
        chunk = moments_of(X, rows_of, labels, batch.weight, decay, anchor, through, batch.t)
        if fixed is None:
            require_moderate(batch.X, chunk, batch.names)
        else:
            chunk.clipped[0] = clipped(batch.X, batch.weight, fixed)
            require_light(chunk)
        return chunk

    def _warmed(self, batch: Batch, limit: float, declared: Labels) -> State:
        """Learn the rows of the warm-up anew, with more: another scaling gives other terms."""
        assert self.plan.map is not None
        self.plan.require_fits(batch.X.shape[1], limit)
        X = batch.X.toarray() if sp.issparse(batch.X) else batch.X
        y, weight = batch.y, np.ones(len(batch.y)) if batch.weight is None else batch.weight
        rows = Warmup(X, y, weight, batch.t)
        if self.warmup is not None:
            labels, n = joined(self.warmup.y, y), len(self.warmup.y)
            before = replace(self.warmup, y=labels[:n])
            rows = before.appended(X, labels[n:], weight, batch.t)
        seen = rows
        if self.fill is not None:  # by the mean of the rows that fix the map
            first = slice(self.plan.rows)
            X, weight = rows.X[first], rows.weight[first]
            seen = Warmup(self.fill.rows(X, weight), rows.y[first], weight)
        fixed = seen.fit_map(self.plan.map) if len(rows.X) else None
        if fixed is not None and self.fill is not None:
            fixed = fixed.with_missing(self.fill.at, self.fill.by, self.fill.present)
        everything = replace(batch, X=rows.X, y=rows.y, weight=rows.weight, t=rows.t)
        with np.errstate(over="ignore", invalid="ignore"):
            chunk = replace(self, fixed=fixed)._gathered(everything, limit, None)
        kept = None if fixed is None or len(rows.X) >= self.plan.map.rows else rows
        return self._with(moments=chunk, declared=declared, fixed=fixed, warmup=kept)

    def unlearn(self, chunk: Moments, options: Options, name_of: Callable[[int], str]) -> State:
        """Without the rows of a chunk of moments, if enough digits are left.

        ``name_of`` is what to call a feature, or a term, given its position. Calibration counts
        stay, except for classes of which no row is left. The scoring model, which contains these
        rows, does not.
        """
        moments = subtract_checked(self.moments, chunk, options, name_of)
        calibration = self._counted()
        if calibration is not None:
            calibration = calibration.restrict_to(moments.labels[moments.n > 0])
        return self._with(moments=moments, calibration=calibration, progressive=None)

    def _counted(self) -> Calibration | None:
        """Return calibration counts with those of pending rows, where the scoring model goes."""
        self.score_pending()
        pending = None if self.progressive is None else self.progressive.counted()
        return _added(self.calibration, pending)

    def merged(self, other: State, limit: float) -> State:
        """What was learned here, followed by what was learned there, in so many bytes."""
        labels = {*self.moments.labels.tolist(), *other.moments.labels.tolist()}
        require_room(len(labels), len(self.moments.anchor), limit, self.fixed is not None)
        moments = self.moments.copy().append(other.moments, self.plan.decay)
        return self._with(
            moments=moments,
            declared=union(self.declared, other.declared),
            calibration=_added(self._counted(), other._counted()),
            progressive=None,
        ).drop_decayed()

    def announced(self, declared: Labels) -> State:
        """The same, with other labels announced."""
        return self._with(declared=declared)

    def widened(self, names: Sequence[Any], limit: float) -> State:
        """Make room for features that were zero in every row so far, given the names of all.

        Features stay where they are. The scatters may take over the room of this State's, which
        must then not learn any more.
        """
        if len(names) == self.inputs:
            return self._with(names=None if self.names is None else list(names))
        if self.fixed is not None or self.warmup is not None:
            return self.placed(np.arange(self.inputs), names, limit).filling(self.fill)
        require_room(len(self.moments.n), len(names), limit, mapped=False)
        moments = resize.with_features(self.moments, len(names), self.room)
        return self._with(
            moments=moments,
            names=None if self.names is None else list(names),
            progressive=self._placed_progressive(np.arange(self.inputs), len(names)),
        )

    def _placed_progressive(self, at: NDArray[np.intp], d: int) -> ProgressiveCalibration | None:
        """Return the scoring model for moments of d features, or terms, with the old ones at at."""
        return None if self.progressive is None else self.progressive.placed(at, d)

    def placed(self, at: NDArray[np.intp], names: Sequence[Any], limit: float) -> State:
        """Move feature j to place at[j] of a wider row, whose features have these names."""
        self.plan.require_fits(len(names), limit)
        fixed, moved, d, warmup = self.fixed, at, len(names), self.warmup
        if fixed is None:
            require_room(len(self.moments.n), d, limit, mapped=False)
        else:
            known = names if self.names is None else [repr(name) for name in names]
            fixed, moved = fixed.with_features(at, known)
            d = fixed.size
        if warmup is not None:
            X = np.zeros((len(warmup.X), len(names)))
            X[:, at] = warmup.X
            warmup = replace(warmup, X=X)
        plan = self.plan if self.plan.given is None else replace(self.plan, given=fixed)
        kept = None if self.names is None else list(names)
        return self._with(
            plan=plan,
            moments=resize.reindex_features(self.moments, moved, d),
            fixed=fixed,
            warmup=warmup,
            names=kept,
            progressive=self._placed_progressive(moved, d),
            fill=None,
        )

    def only(self, at: NDArray[np.intp]) -> State:
        """The same for rows without some features, which were 0 in every row."""
        fixed, terms = self.fixed, at
        if fixed is not None:
            fixed, terms = fixed.select_features(at)
        plan = self.plan if self.plan.given is None else replace(self.plan, given=fixed)
        names = None if self.names is None else [self.names[j] for j in at.tolist()]
        return self._with(
            plan=plan,
            moments=resize.select_features(self.moments, terms),
            fixed=fixed,
            names=names,
            progressive=None,
            fill=None,
        )

    def filling(self, fill: MeanImputation | None) -> State:
        """The same, with features that may be missing; this object if nothing is new.

        Where a map is fixed, its own means take the place of missing values. Moving features to
        other places (:meth:`placed`, :meth:`only`) leaves none that may be missing.
        """
        if fill == self.fill:
            return self
        fixed, progressive = self.fixed, self.progressive
        if fixed is not None:
            parts = ((), (), ()) if fill is None else (fill.at, fill.by, fill.present)
            fixed = fixed.with_missing(*parts)
        elif fill is not None and progressive is not None:
            progressive = progressive.filling(fill)
        return self._with(fill=fill, fixed=fixed, progressive=progressive)

    def rebased(self, before: MeanImputation, after: MeanImputation) -> State:
        """The same with other constants where features are missing.

        A map that is fixed knows no such constants.
        """
        if self.plan.text is not None:
            return self
        moments = change_base(self.moments, before, after.base)
        return self._with(
            moments=moments, fill=after, calibration=self._counted(), progressive=None
        )

    def _with(self, **changes: Any) -> State:
        self.score_pending()
        if "progressive" not in changes:
            changes["progressive"] = self.progressive
        changes |= {"_unscored": [], "rows_left": 0}
        changes |= {"version": self.version + 1, "_scores": None, "_open": None, "_filled": None}
        return replace(self, **changes)

    # Between our own processes

    def to_bytes(self) -> bytes:
        """All of it, for another process of our own: a pickle, not for files or strangers."""
        return pickle.dumps(self, protocol=5)

    @staticmethod
    def from_bytes(data: bytes) -> State:
        """What :meth:`to_bytes` has made, trusted."""
        state: State = pickle.loads(data)
        return state

    def recalibrated(
        self, calibration: Calibration | None, progressive: ProgressiveCalibration | None
    ) -> State:
        """Return the same moments with another calibration."""
        return self._with(calibration=calibration, progressive=progressive).drop_decayed()

    def cross_fitted(
        self,
        batches: Callable[[], Iterable[Batch]],
        names: Sequence[Any],
        options: Options,
        limit: float,
    ) -> State:
        """Return this State, calibrated by its own rows, independent of their order.

        ``batches`` gives all rows that were learned, again and again; ``names`` are those of the
        features.
        """
        found = cross_fit(self, batches, names, options, limit)
        return self._with(calibration=found, progressive=None)

    # Looking

    @property
    def classes(self) -> Classes:
        """Labels seen or declared, sorted, and where they are."""
        return Classes.of(self.moments, self.declared)

    @property
    def class_count(self) -> Vector:
        """Weight of each of the classes, not faded."""
        return np.append(self.moments.N, 0.0)[self.classes.slots]

    def solve(self, classes: Classes | None, options: Options, link: bool = False) -> Scores:
        """Scores of every class; those of the last look as long as nothing has changed.

        ``classes`` are by default all that were seen or declared, sorted. With ``link`` they can
        tell probabilities.
        """
        key, cached = (self.version, options), self._scores
        if cached is None or cached[0] != key:
            self.watch(options)
            found = self._solved(classes or self.classes, options, link)
            cached = self._scores = key, replace(found, fixed=self.fixed)
        if link and cached[1].link is None:
            found = cached[1]
            linked = self._solved(found.classes, options, link, found).link
            cached = self._scores = key, replace(found, link=linked)
        if link and options.calibrate and cached[1].calibration is not self.calibration:
            cached = self._scores = key, replace(cached[1], calibration=self.calibration)
        return cached[1]

    def watch(self, options: Options) -> None:
        """Warn once, when there are rows enough, of labels that have a weight and never occur."""
        if not self.warned and has_label_weights(options):
            self.warned = warn_unseen_labels(self.moments, options, stacklevel=5)

    def _solved(
        self, classes: Classes, options: Options, link: bool, known: Scores | None = None
    ) -> Scores:
        """Scores as a function of rows as they are, with their link if it is asked for."""
        filled, moments = self.filled, self.whole
        found = known
        if found is None or filled is not None:
            found = solve_scores(moments, classes, options)
        if link:
            found = replace(found, link=link_of(moments, classes, options, found.solution))
        if filled is None:
            return found
        return replace(found, solution=filled.for_raw_rows(found.solution))

    @property
    def _fills(self) -> bool:
        """Whether missing values are filled after the fact."""
        return self.fill is not None and self.plan.text is None

    @property
    def filled(self) -> ImputedMoments | None:
        """Moments with missing values filled; None where none can be missing, or a map fills."""
        if not self._fills or not self.begun:
            return None
        if self._filled is None or self._filled[0] != self.version:
            assert self.fill is not None
            self._filled = self.version, ImputedMoments.of(self.fill, self.moments)
        return self._filled[1]

    @property
    def whole(self) -> Moments:
        """Moments of rows with missing values filled; as learned, where none can be missing."""
        return self.moments if self.filled is None else self.filled.moments

    def imputed(self, options: Options) -> Scores:
        """Scores as a function of rows with missing values filled, to look at their weights."""
        if self.filled is None:
            return self.solve(None, options)
        return solve_scores(self.whole, self.classes, options)

    def inputs_filled(self, X: Matrix) -> Matrix:
        """Rows (n, l), before any map, with missing values filled by their mean so far."""
        if self.fill is None or not self.begun:
            return X
        result = X.copy()
        if self.fixed is None:
            return ImputedMoments.of(self.fill, self.moments).impute(result)
        for at, by, present in self.fixed.blank:
            result[(X[:, by] != 0.0) != present, at] = self.fixed.mean[at]
        return result

    @property
    def mean(self) -> Vector:
        """Mean of each input over everything seen, missing values left out; by a map its own."""
        if self.fixed is not None:
            return self.fixed.mean
        moments = self.whole
        total = max(float(moments.N.sum()), 1e-300)
        mean: Vector = moments.anchor + moments.N @ moments.mean / total
        return mean

    def scores_by(self, moments: Moments, options: Options) -> Scores | None:
        """Return scores by other moments of the same features, with link and map."""
        found = self._with(moments=moments)._linked(options)
        return None if found is None else replace(found, fixed=self.fixed)

    def scoring_model(self, options: Options) -> Scores | None:
        """Return scores with link, without the map; None before that is fixed, or of one class.

        Their anchor is the mean of all rows.
        """
        found = None if self.waiting else self._linked(options)
        if found is None:
            return None
        mean = self.moments.N @ self.moments.mean / self.moments.N.sum()
        return replace(found, solution=found.solution.move_anchor(mean))

    def _linked(self, options: Options) -> Scores | None:
        """Return scores of the classes seen, with their exact link; None of fewer than two."""
        slots = np.flatnonzero(self.moments.n > 0)
        if len(slots) < 2:
            return None
        return self._solved(Classes(self.moments.labels[slots], slots), options, link=True)

    # Single rows

    def prepare_row(self, options: Options) -> None:
        """Renew the scoring model if the next single row needs another one."""
        self.score_pending()
        now = self.progressive = self.progressive or ProgressiveCalibration.start(self)
        if not now.is_at_boundary:
            self.rows_left = now.until - now.rows
            return
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # predictions warn
            counted, now = now.renewed(self.scoring_model(options))
        self.progressive, self.rows_left = now, now.until - now.rows
        self.calibration = _added(self.calibration, counted)
        self.drop_decayed()

    def add_row(self, row: Any, y: Any, w: float) -> None:
        """Note a single row (l,) that was learned, to be scored with others by the same model."""
        if w > 0.0:
            self._unscored.append((row, y, w))
            self.rows_left -= 1
            if len(self._unscored) >= MAX_UNSCORED_ROWS:
                self.score_pending()

    def score_pending(self) -> None:
        """Score single rows that were noted."""
        if not self._unscored or self.progressive is None:
            return
        rows, labels, weight = zip(*self._unscored, strict=True)
        self._unscored = []
        y = (
            np.array(labels)
            if self.moments.labels.dtype != object
            else np.empty(len(labels), object)
        )
        y[:] = labels
        X, w = np.array(rows, dtype=np.float64), np.array(weight, dtype=np.float64)
        with np.errstate(all="ignore"):
            self.progressive = self.progressive.with_rows(X, y, w, self.fixed)
        self.drop_decayed()

    def open(self, options: Options, classes: Classes | None = None) -> SingleEventModel | None:
        """What is learned, open to single rows; None where only whole batches will do."""
        found, names = self._open, self.names if self.fixed is None else None
        if (  # as it was at the last event
            found is not None
            and found.options is options
            and found.version == self.version
            and found.moments is self.moments
            and found.names is names
            and not found.watched
        ):
            return found
        if (
            found is None
            or found.moments is not self.moments
            or found.names is not names
            or (found.options is not options and found.options != options)
        ):
            if self.warmup is not None or not self.begun or self._fills:
                return None
            found = open_single_event(
                self.moments, classes or self.classes, options, names, self.version
            )
            self._open = found
        self.watch(options)
        if found is not None and found.version != self.version:
            found.events.changed()
            found.version = self.version
        return found

    def open_filled(
        self, options: Options, classes: Classes
    ) -> tuple[SingleEventModel, SingleEventModel, ImputedMoments | None] | None:
        """Open moments to single rows where values may be missing; None where only batches will do.

        The first takes rows as they are, to learn them. The second scores rows that the third has
        imputed, if a value was ever missing.
        """
        raw = self.moments
        if not self.begun or self.warmup is not None or self.fixed is not None:
            return None
        learns = open_single_event(raw, classes, options, None, self.version)
        if learns is None or self.fill is None:
            return None if learns is None else (learns, learns, None)
        imputed = ImputedMoments.of(self.fill, raw)
        scores = open_single_event(imputed.moments, classes, options, None, -1)
        return None if scores is None else (learns, scores, imputed)

    def learn_one(
        self, found: SingleEventModel, row: Vector, slot: int, w: float, far: bool = False
    ) -> None:
        """One row more, as the moments want it; ``far`` says that the map has clipped it."""
        found.version = self.version = self.version + 1
        found.events.learn_array(row, slot, w, self.moments.clipped if far else None)

    def learn_at(
        self,
        found: SingleEventModel,
        row: Vector | dict[Any, Any],
        slot: int,
        w: float,
        t: float,
        far: bool = False,
    ) -> bool:
        """One row more, where rows fade by the clock; returns whether all its features are known.

        The row is as the moments want it, or an event that they can take as it is.
        """
        life = self.plan.decay.seconds
        assert life is not None
        if t - self.moments.when[0] > 4.0 * life:
            self._check_clock(w, t, 1)
        found.version = self.version = self.version + 1
        count = self.moments.clipped if far else None
        learned = found.events.learn_at(row, slot, w, life, t, self.moments, count)
        if not found.events.all_seen():  # a class has decayed to nothing
            self._open = None
            self.drop_decayed()
        return learned

    def learn_row(
        self, found: SingleEventModel, x: Any, y: Any, w: float, t: float | None = None
    ) -> bool:
        """One row more, as it comes; returns whether it is one of numbers, of a known class."""
        slot = found.slots.get(y)
        if slot is None or not 0.0 <= w <= MAX_SAMPLE_WEIGHT:
            return False
        calibrates = found.options.calibrate
        if t is None and self.fixed is None and not calibrates:
            # Before, so that no old scores are left whenever a signal comes.
            found.version = self.version = self.version + 1
            if found.events.learn_plain(x, slot, w):
                return True
        plain = np.asarray(x)
        row = None if t is None and self.fixed is None else self.row(plain)
        if calibrates:
            if plain.dtype.kind not in "fiub" or plain.shape != (self.inputs,):
                return False
            if self.rows_left <= 0:
                self.prepare_row(found.options)
        # Before, so that no old scores are left whenever a signal comes.
        found.version = self.version = self.version + 1
        is_plain = calibrates and t is None and self.fixed is None
        if is_plain and found.events.learn_plain(x, slot, w):
            self.add_row(plain.copy(), y, w)
            return True
        row = self.row(plain) if row is None else row
        if row is None:
            return False
        far = self.fixed is not None and bool(self.fixed.is_clipped(plain[None])[0])
        if t is not None:
            self.learn_at(found, row, slot, w, t, far)
        else:
            self.learn_one(found, row, slot, w, far)
        if calibrates:
            self.add_row(plain.copy(), y, w)
        return True

    def row(self, x: Any) -> Vector | None:
        """A single row as the moments want it; None if it is no row of numbers."""
        if self.fixed is None and x.dtype is NUMBER and x.flags.c_contiguous:
            whole: Vector = x
            return whole
        if x.dtype.kind not in "fiub":
            return None
        row: Vector = np.ascontiguousarray(x, NUMBER)
        if self.fixed is None:
            return row
        if row.shape != self.fixed.mean.shape or not np.abs(row).max() <= MAX_ABS_VALUE:
            return None
        mapped: Vector = self.fixed.transform(row[None])[0]
        return mapped if np.abs(mapped).max() <= MAX_ABS_VALUE else None


def _added(one: Calibration | None, two: Calibration | None) -> Calibration | None:
    """Return counts of both, if there are any."""
    if one is None or two is None:
        return two if one is None else one
    return one.merge(two)
