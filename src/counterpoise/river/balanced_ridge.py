"""BalancedRidgeClassifier: the same State as the array face's, behind river's conventions."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from river import base, utils

from counterpoise import timestamps, validation
from counterpoise.arrays import Matrix, Vector
from counterpoise.engine.progressive_calibration import warn_if_sorted
from counterpoise.engine.state import Batch, LearningConfig, State
from counterpoise.feature_maps import FittedMap, Map
from counterpoise.feature_maps.fitted import parse_feature_map
from counterpoise.modelfile.container import Contents
from counterpoise.modelfile.engines import SaveLoadMixin
from counterpoise.moments.classes import Classes
from counterpoise.moments.decay import HalfLife
from counterpoise.river.events import (
    Layout,
    bad_weight,
    contents_of,
    encode_event,
    encode_events,
    event_of,
    explained_one,
    grouped,
    joined,
    labels_of,
    learned_of,
    matrix_of,
    merge_contributions,
    never_learned,
    numbers_of,
    objects_of,
    require_known,
    require_label,
    require_numbers,
    require_possible,
    require_same_options,
    without,
)
from counterpoise.solver.class_weights import ClassFactors, ClassWeight
from counterpoise.solver.imputation import ImputedMoments, MeanImputation
from counterpoise.solver.options import Options, has_label_weights
from counterpoise.solver.scores import Scores
from counterpoise.stepwise.single_event import SingleEventModel
from counterpoise.validation import MAX_SAMPLE_WEIGHT


class BalancedRidgeClassifier(SaveLoadMixin, base.MiniBatchClassifier):
    """Ridge classifier with balanced classes, exact at every event of a stream.

    What it has learned does not depend on the order of events, nor on whether they came through
    `learn_one` or `learn_many`. A feature that is absent from an event is 0, so features may appear
    late or go missing; scaling is retroactive and exact, so no scaler is needed before it. Labels
    may be of any hashable type and appear at any time.

    Parameters
    ----------
    ridge
        Penalty on the squared weights; "auto", which is worth three rows, however many there
        are; or "gcv" to choose it by generalised cross-validation.
    class_weight
        "balanced", a weight for each label, or None.
    class_factors
        Factors on the class weights by label.
    scale
        "standard" or None: scaling by everything seen so far.
    fit_intercept
        Whether to add a constant feature.
    penalize_intercept
        Whether to penalise it like any weight.
    half_life
        A row fades to half its weight while its own class receives this much weight: one number,
        or a dict by label. A time such as "7d" lets all events fade by the clock, by the time `t`
        of each.
    multi_class
        "lda" tells three or more classes apart all at once, "ovr" each against the rest.
    pooled_rows
        Rows of pooled evidence for the covariance of each class: a number makes boundaries
        quadratic, None leaves them linear.
    calibrate
        Judge each event before it is learned, by the model of the past, and correct
        `predict_stream_proba_one` by what came of it.
    memory_limit
        Bytes that the moments of all classes may take.
    feature_map
        A map of the features, for what is not linear: "poly2", "interactions", "rm3", "rff:400", or
        an object of `counterpoise.feature_maps`. Features are standardised for it by the first 256
        events; until then by all so far, which are kept.
    absent
        What a feature means that an event lacks: "zero", as for words and one-hot features, or
        "missing": it is then filled by the mean of all values seen so far, and that it is missing
        is a feature.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from counterpoise.river import BalancedRidgeClassifier
    >>> model = BalancedRidgeClassifier()
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.GeometricMean())
    GeometricMean: 89.70%
    """

    def __init__(
        self,
        ridge: float | str = "auto",
        class_weight: ClassWeight = "balanced",
        class_factors: ClassFactors = None,
        scale: str | None = "standard",
        fit_intercept: bool = True,
        penalize_intercept: bool = True,
        half_life: HalfLife = None,
        multi_class: str = "lda",
        pooled_rows: float | None = None,
        calibrate: bool = False,
        memory_limit: float = 2e9,
        feature_map: str | Map | FittedMap | None = None,
        absent: str = "zero",
    ) -> None:
        self.ridge = ridge
        self.class_weight = class_weight
        self.class_factors = class_factors
        self.scale = scale
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.half_life = half_life
        self.multi_class = multi_class
        self.pooled_rows = pooled_rows
        self.calibrate = calibrate
        self.memory_limit = memory_limit
        self.feature_map = feature_map
        self.absent = absent
        validation.one_of(self, "absent", ("zero", "missing"))
        self._options = Options.of(self)
        self._options.check()
        self._named = has_label_weights(self._options)
        validation.positive(self, "memory_limit")
        the_map = parse_feature_map(feature_map)
        if isinstance(feature_map, FittedMap):
            raise ValueError(
                "feature_map is a fixed map, which knows features by their places; events name "
                "them, so give the map itself"
            )
        text = None if the_map is None else the_map.text
        plan = LearningConfig(self._options.decay, text, None, the_map)
        self._state = State.empty(plan, 1, [])
        self._columns: dict[Any, int] = {}
        self._open: SingleEventModel | None = None
        self._open_gaps: (
            tuple[SingleEventModel, SingleEventModel, ImputedMoments | None, Layout] | None
        ) = None
        # Whether single events of known classes are learned as they come.
        self._direct = the_map is None and not plan.decay.is_timed

    @property
    def _multiclass(self) -> bool:
        return True

    # Learning

    def learn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0, t: Any = None) -> None:
        """Learn one event.

        Parameters
        ----------
        x
            Its features.
        y
            Its label.
        w
            Its weight; 0 changes nothing.
        t
            When it was, for a `half_life` that is a time: a date, a time, or seconds since 1970.
        """
        if type(x) is not dict:
            x = event_of(x)
        if not 0.0 <= w <= MAX_SAMPLE_WEIGHT:
            raise bad_weight(w)
        found, state = self._open, self._state
        if self._open_gaps is not None and self._learn_with_gaps(x, y, w):
            return
        slot = None if found is None else found.slots.get(y)
        if found is None or slot is None or not self._direct:
            self._learn_slowly(x, y, w, timestamps.time(t) if state.plan.decay.is_timed else None)
            return
        if self.calibrate and state.rows_left <= 0:
            self._prepare_row()
        # Before, so that no old scores are left whenever a signal comes.
        found.version = state.version = state.version + 1
        if not found.events.learn(x, slot, w):
            self._widen(x, y, w)
        elif self.calibrate:
            state.add_row([x.get(name, 0.0) for name in state.names or ()], y, w)

    def learn_many(self, X: Any, y: Any, w: Any = 1.0, t: Any = None) -> None:
        """Learn a mini-batch.

        Parameters
        ----------
        X
            A pandas, polars or pyarrow frame of features.
        y
            Their labels.
        w
            Their weights, or one for all.
        t
            When each was, as of `learn_one`.
        """
        rows, names = matrix_of(X)
        weight, fill = validation.weights(numbers_of(w), len(rows)), None
        when = timestamps.times(t, len(rows)) if self._state.plan.decay.is_timed else None
        if self.absent == "missing":
            events = [dict(zip(names, row, strict=True)) for row in rows.tolist()]
            rows, names, fill = encode_events(self._state, events)
        self._learn_rows(rows, names, labels_of(y), weight, fill, when)

    def unlearn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Take one event back, as if it had never been learned.

        An event that was never learned is refused where the moments can tell: if its label or
        one of its features was never seen, if more weight would go than came, if it has a feature
        that no event (or lacks one that every event) of its label had, or if the scatter that is
        left is none that events could have. They cannot tell a stranger that lies among many
        events of its label: that one is taken for learned.

        A feature that is 0 in all events that are left is not kept, nor is its name. With a map
        of the features names stay until nothing is left. With `calibrate` the verdict on the event
        stays, unless its class is gone: what was judged cannot be unjudged.

        Parameters
        ----------
        x
            Its features.
        y
            Its label.
        w
            Its weight when it was learned.
        """
        values = [validation.number(name, value) for name, value in x.items()]
        if not 0.0 <= w <= MAX_SAMPLE_WEIGHT:
            raise bad_weight(w)
        row = np.array(values, dtype=np.float64).reshape(1, len(x))
        self._unlearn_rows(row, list(x), [y], np.array([float(w)]))

    def unlearn_many(self, X: Any, y: Any, w: Any = 1.0) -> None:
        """Take a mini-batch back, all of it or nothing.

        Parameters
        ----------
        X
            A pandas, polars or pyarrow frame of features.
        y
            Their labels.
        w
            Their weights when they were learned, or one for all.
        """
        rows, names = matrix_of(X)
        self._unlearn_rows(rows, names, labels_of(y), validation.weights(numbers_of(w), len(rows)))

    def update(self, x: dict[Any, Any], y: Any, w: float = 1.0, t: Any = None) -> None:
        """Call :meth:`learn_one`; `river.utils.Rolling` uses this name."""
        self.learn_one(x, y, w, t)

    def revert(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Call :meth:`unlearn_one`; `river.utils.Rolling` uses this name."""
        self.unlearn_one(x, y, w)

    def merge(self, other: BalancedRidgeClassifier) -> BalancedRidgeClassifier:
        """Make one model of two, as if it had learned both streams, this one first.

        Features are the same where their names are; one that only one of them knows was 0 in the
        events of the other.

        Parameters
        ----------
        other
            A model with the same parameters, but for `memory_limit` and `calibrate`.

        Returns
        -------
        A new model; both of the old ones stay as they are.
        """
        if not isinstance(other, BalancedRidgeClassifier):
            raise TypeError(f"can only merge with a BalancedRidgeClassifier, not {type(other)}")
        if "missing" in (self.absent, other.absent):
            raise ValueError(
                "models of events with absent='missing' cannot be merged; use "
                "counterpoise.TableClassifier, which fills missing numbers in the same way"
            )
        require_same_options(self._options, other._options)
        result: BalancedRidgeClassifier = self.clone()
        result._become(joined(self._state, other._state, self.memory_limit))
        return result

    # Files

    def _contents(self) -> Contents:
        """What a file is to hold of this model: what the array face would write.

        With ``absent="missing"`` it says so, and only this face loads it.
        """
        return contents_of(self._parameters(), self.absent, self._state)

    @classmethod
    def _from_contents(cls, contents: Contents) -> BalancedRidgeClassifier:
        """Make a model from what a file holds, checked as if a stranger had written it."""
        params, state = learned_of(contents)
        result = cls(**params)
        result._become(state)
        return result

    # Looking

    def predict_one(self, x: dict[Any, Any], **kwargs: Any) -> Any:
        """Most probable label under the weights of training; None before anything was learned.

        Parameters
        ----------
        x
            Features of an event; those never learned do not count.

        Returns
        -------
        A label.
        """
        if type(x) is not dict:
            x = event_of(x)
        found, state = self._open, self._state
        if self._named and not state.warned:
            state.watch(self._options)
        if found is not None:
            if found.version != state.version:
                found.events.changed()
                found.version = state.version
            events = found.events
            at = events.best(x) if state.fixed is None else events.best_array(self._mapped(x))
            if at >= 0:
                return found.answers[at]
        imputed = None if self._open_gaps is None else self._imputed(x)
        if imputed is not None:
            found, row = imputed
            at = found.events.best_array(row)
            if at >= 0:
                return found.answers[at]
        scores = self._scores()
        if scores is None:
            return None
        return scores.classes.best(scores.of(self._row(x)[None]))[0]

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Probability of each label under the weights of training.

        Parameters
        ----------
        x
            Features of an event; those never learned do not count.

        Returns
        -------
        A dictionary of probabilities by label.
        """
        return self._probabilities(x, stream=False)

    def predict_stream_proba_one(self, x: dict[Any, Any]) -> dict[Any, float]:
        """Probability of each label under the stream's own frequencies, faded with half_life.

        Parameters
        ----------
        x
            Features of an event; those never learned do not count.

        Returns
        -------
        A dictionary of probabilities by label.
        """
        return self._probabilities(x, stream=True)

    def predict_many(self, X: Any) -> Any:
        """Most probable label of each row.

        Parameters
        ----------
        X
            A pandas, polars or pyarrow frame of features.

        Returns
        -------
        A series of labels.
        """
        frame = utils.dataframe.into_frame(X)
        scores = self._scores()
        if scores is None:
            labels = [None] * len(frame)
        else:
            labels = scores.classes.best(scores.of(self._aligned(X))).tolist()
        return utils.dataframe.to_native_series(labels, name=None, like=frame)

    def predict_proba_many(self, X: Any) -> Any:
        """Probability of each label for each row, under the weights of training.

        Parameters
        ----------
        X
            A pandas, polars or pyarrow frame of features.

        Returns
        -------
        A frame with a column for each label.
        """
        return self._probabilities_many(X, stream=False)

    def predict_stream_proba_many(self, X: Any) -> Any:
        """Probability of each label for each row, under the stream's own frequencies.

        Parameters
        ----------
        X
            A pandas, polars or pyarrow frame of features.

        Returns
        -------
        A frame with a column for each label.
        """
        return self._probabilities_many(X, stream=True)

    def explain_one(self, x: dict[Any, Any], y: Any = None) -> dict[Any, float]:
        """Contribution of each feature to the score of a label: what is positive speaks for it.

        All of them add up to the score minus the score at the balanced centre, the mean of the
        class means. A feature that is absent may be a reason, too: because it is 0, or with
        ``absent="missing"`` because it is missing.

        Parameters
        ----------
        x
            Features of an event; those never learned do not count.
        y
            The label; by default the predicted one.

        Returns
        -------
        A dictionary of contributions by feature; empty before anything was learned.
        """
        if type(x) is not dict:
            x = event_of(x)
        found, state = self._open, self._state
        if found is not None and state.fixed is None:
            at = -1 if y is None else found.slots.get(y)
            if at is None:
                raise never_learned(y)
            state.open(self._options, found.classes)  # brings the weights up to date
            reasons = found.events.reasons(x, at)
            if reasons is not None:
                return reasons
        scores = self._scores()
        if scores is None:
            return {}
        reasons = explained_one(scores, state, self._options, self._row(x), y)
        return reasons if state.fill is None else merge_contributions(state, reasons)

    # Inside

    def _parameters(self) -> dict[str, Any]:
        params: dict[str, Any] = self._get_params()
        return {name: getattr(self, name) for name in params if name != "absent"}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": None, "_open_gaps": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._bind()

    def __copy__(self) -> BalancedRidgeClassifier:
        return copy.deepcopy(self)

    def _learn_slowly(self, x: dict[Any, Any], y: Any, w: float, when: float | None) -> None:
        """Learn an event that is mapped, decays by the clock, or has something new."""
        found, state = self._open, self._state
        slot = None if found is None else found.slots.get(y)
        if found is None or slot is None or not self._columns.keys() >= x.keys():
            self._widen(x, y, w, when)
            return
        if self.calibrate and state.rows_left <= 0:
            self._prepare_row()
        row, far = self._entering(x)
        if when is None:
            state.learn_one(found, row, slot, w, far=far)
        else:
            state.learn_at(found, row, slot, w, when, far)
            if not found.events.all_seen():  # a class has decayed to nothing
                self._open = None
        if self.calibrate:
            state.add_row(self._row(x), y, w)

    def _learn_with_gaps(self, x: dict[Any, Any], y: Any, w: float) -> bool:
        """Learn an event that may lack features, if all is known; return whether."""
        assert self._open_gaps is not None
        learns, _, _, layout = self._open_gaps
        slot, row, state = learns.slots.get(y), layout.row(x), self._state
        if slot is None or row is None:
            return False
        if self.calibrate and state.rows_left <= 0:
            self._prepare_row()
        learns.version = state.version = state.version + 1
        learns.events.learn_array(np.array(row), slot, w)
        if self.calibrate:
            state.add_row(row, y, w)
        return True

    def _prepare_row(self) -> None:
        """Renew the scoring model where the next event needs another one."""
        state = self._state
        before = state.progressive
        state.prepare_row(self._options)
        if state.progressive is not before:
            warn_if_sorted(before, state.progressive, stacklevel=4)

    def _widen(self, x: dict[Any, Any], y: Any, w: float, t: float | None = None) -> None:
        """Learn an event that brings something new, or one that must wait for its solver."""
        names, fill = list(x), None
        if self.absent == "missing":
            row, names, fill = encode_events(self._state, [x])
        else:
            values = [validation.number(name, value) for name, value in x.items()]
            row = np.array(values, dtype=np.float64).reshape(1, len(x))
        when = None if t is None else np.array([t])
        self._learn_rows(row, names, [y], np.array([float(w)]), fill, when)

    def _mapped(self, x: dict[Any, Any]) -> Vector:
        """Terms of one event, by a map that is fixed."""
        assert self._state.fixed is not None
        mapped: Vector = self._state.fixed.transform(self._row(x)[None])[0]
        return mapped

    def _entering(self, x: dict[Any, Any]) -> tuple[Vector, bool]:
        """An event as the moments want it, and whether a map clips it."""
        row, fixed = self._row(x), self._state.fixed
        if fixed is None:
            return row, False
        return fixed.transform(row[None])[0], bool(fixed.is_clipped(row[None])[0])

    def _learn_rows(
        self,
        rows: Matrix,
        names: list[Any],
        labels: list[Any],
        weight: Vector | None,
        fill: MeanImputation | None = None,
        t: Vector | None = None,
    ) -> None:
        if len(labels) != len(rows):
            raise ValueError(f"{len(rows)} rows and {len(labels)} labels do not match")
        require_numbers(rows, names)
        for label in labels:
            require_label(label)
        if weight is not None and not weight.all():
            kept = np.flatnonzero(weight)
            rows, labels, weight = rows[kept], [labels[i] for i in kept], weight[kept]
            t = None if t is None else t[kept]
        if not len(rows):
            return
        self._refresh()
        state = self._state
        known = state.names or []
        more = [name for name in names if name not in self._columns]
        everything = known + more
        columns = {name: j for j, name in enumerate(everything)}
        wide = np.zeros((len(rows), max(len(everything), 1)))
        wide[:, [columns[name] for name in names]] = rows
        state.plan.require_fits(wide.shape[1], self.memory_limit)
        self._open = self._open_gaps = None  # at a signal, nothing of before is left open
        if not state.begun:
            state = State.empty(state.plan, wide.shape[1], everything)
        state = state.filling(fill)
        batch = self._batch(wide, labels, weight, t)
        wider = everything if more else None
        calibrating = self._options if self.calibrate else None
        before = state.progressive
        self._become(state.learn(batch, self.memory_limit, names=wider, calibrating=calibrating))
        warn_if_sorted(before, self._state.progressive, stacklevel=5)

    def _unlearn_rows(
        self, rows: Matrix, names: list[Any], labels: list[Any], weight: Vector | None
    ) -> None:
        self._refresh()
        state = self._state
        require_possible(state, self._options)
        if len(labels) != len(rows):
            raise ValueError(f"{len(rows)} rows and {len(labels)} labels do not match")
        require_numbers(rows, names)
        require_known(state, rows, names, labels)
        if not len(rows):
            return
        batch = self._batch(self._placed(rows, names), labels, weight)
        self._become(without(state, batch, self._options, self.memory_limit))

    def _batch(
        self, rows: Matrix, labels: list[Any], weight: Vector | None, t: Vector | None = None
    ) -> Batch:
        return Batch(rows, objects_of(labels), weight, grouped, t=t)

    def _become(self, state: State) -> None:
        """Let a State take the place of this one."""
        self._open = None
        self._state = state
        self._bind()

    def _bind(self) -> None:
        """Open the State to single events, where the compiled solver will do."""
        state = self._state
        self._columns = {name: j for j, name in enumerate(state.names or [])}
        self._open_gaps = None
        classes = Classes.in_order_of_appearance(state.moments)
        if self.absent == "zero":  # as the compiled loops have it
            self._open = state.open(self._options, classes)
        elif self._direct and state.begun:
            found = state.open_filled(self._options, classes)
            self._open_gaps = None if found is None else (*found, Layout(state))

    def _refresh(self) -> None:
        """Bind what is not bound, as after a signal in the middle of a change."""
        if self._open is None and self._open_gaps is None:
            self._bind()

    def _scores(self, link: bool = False) -> Scores | None:
        state = self._state
        if not state.begun:
            return None
        self._refresh()
        return state.solve(Classes.in_order_of_appearance(state.moments), self._options, link)

    def _probabilities_many(self, X: Any, stream: bool) -> Any:
        frame = utils.dataframe.into_frame(X)
        scores = self._scores(link=True)
        if scores is None:
            return utils.dataframe.to_native_frame({}, like=frame)
        p = scores.probabilities(scores.of(self._aligned(X)), stream)
        columns = dict(zip(scores.classes.labels.tolist(), p.T, strict=True))
        return utils.dataframe.to_native_frame(columns, like=frame)

    def _probabilities(self, x: dict[Any, Any], stream: bool) -> dict[Any, float]:
        found, state = self._open, self._state
        if found is not None:
            if found.version != state.version:
                found.events.changed()
                found.version = state.version
            if type(x) is not dict:
                x = event_of(x)
            if state.fixed is None:
                told = found.events.probabilities(x, stream)
            else:
                told = found.events.probabilities_array(self._mapped(x), stream)
            if told is not None:
                if stream and self.calibrate and state.calibration is not None:
                    told = state.calibration.corrected(told, found.labels)
                return dict(zip(found.labels, told, strict=True))
        imputed = None if self._open_gaps is None else self._imputed(x)
        if imputed is not None:
            found, row = imputed
            told = found.events.probabilities_array(row, stream)
            if told is not None:
                if stream and self.calibrate and state.calibration is not None:
                    told = state.calibration.corrected(told, found.labels)
                return dict(zip(found.labels, told, strict=True))
        scores = self._scores(link=True)
        if scores is None:
            return {}
        p = scores.probabilities(scores.of(self._row(x)[None]), stream)[0]
        classes = scores.classes
        return {
            label: float(value)
            for label, value, seen in zip(classes.labels.tolist(), p, classes.seen, strict=True)
            if seen
        }

    def _imputed(self, x: dict[Any, Any]) -> tuple[SingleEventModel, Vector] | None:
        """Return the moments that score an event that may lack features, and its row; or None."""
        assert self._open_gaps is not None
        _, scores, fill, layout = self._open_gaps
        row, state = layout.row(x), self._state
        if row is None:
            return None
        if fill is None:
            return scores, np.array(row)
        if scores.version != state.version:
            fill.update()
            scores.events.changed()
            scores.version = state.version
        return scores, fill.impute(np.array(row))

    def _row(self, x: dict[Any, Any]) -> Vector:
        """Features in the order of their columns; absent is 0, unknown is left out."""
        if self.absent == "missing":
            return encode_event(self._state, x)
        row = np.zeros(self._state.inputs)
        for name, value in x.items():
            number = validation.number(name, value)
            j = self._columns.get(name)
            if j is not None:
                row[j] = number
        return row

    def _aligned(self, X: Any) -> Matrix:
        rows, names = matrix_of(X)
        if self.absent != "missing":  # else NaN is
            require_numbers(rows, names)
        return self._placed(rows, names)

    def _placed(self, rows: Matrix, names: list[Any]) -> Matrix:
        """Rows in the order of the columns; absent is 0, unknown is left out."""
        wide = np.zeros((len(rows), self._state.inputs))
        if self.absent == "missing":
            for i, row in enumerate(rows.tolist()):
                wide[i] = self._row(dict(zip(names, row, strict=True)))
            return wide
        for j, name in enumerate(names):
            if name in self._columns:
                wide[:, self._columns[name]] = rows[:, j]
        return wide
