"""BalancedRidgeClassifier: the same state as for arrays, with river's conventions."""

from __future__ import annotations

import copy
import warnings
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from river import base, utils

from counterpoise import timestamps, validation
from counterpoise.arrays import Matrix, Vector
from counterpoise.engine.parameters import read_ridge_parameters
from counterpoise.engine.progressive_calibration import warn_if_sorted
from counterpoise.engine.ridge import require_equal_options
from counterpoise.engine.state import Batch, State
from counterpoise.feature_maps import FittedMap, Map
from counterpoise.modelfile.container import Contents
from counterpoise.modelfile.engines import SaveLoadMixin
from counterpoise.moments.classes import Classes
from counterpoise.moments.decay import HalfLife
from counterpoise.public_names import document_like
from counterpoise.river import events
from counterpoise.river.event_columns import EventColumns
from counterpoise.river.events import EventRows, as_event, event_row, invalid_weight
from counterpoise.solver.attribution import explain
from counterpoise.solver.class_weights import ClassFactors, ClassWeight
from counterpoise.solver.imputation import MeanImputation
from counterpoise.solver.options import has_label_weights
from counterpoise.solver.scores import NOT_QUADRATIC, Scores
from counterpoise.stepwise.single_event import SingleEventModel
from counterpoise.timestamps import T_IS_IGNORED
from counterpoise.validation import MAX_SAMPLE_WEIGHT, commit


class BalancedRidgeClassifier(SaveLoadMixin, base.MiniBatchClassifier):
    """Ridge classifier with balanced classes, exact at every event of a stream.

    Learning is independent of the order of events, and the same through `learn_one` and
    `learn_many`. A feature that is absent from an event is 0, so features may appear or end at
    any time. Scaling is exact after the fact, so no scaler is needed before it. Labels may be of
    any hashable type and appear at any time.

    Parameters
    ----------
    ridge
        Penalty on the squared coefficients; "auto", which counts as much as three rows; or "gcv" to
        select it by generalized cross-validation.
    class_weight
        "balanced", a weight for each label, or None.
    class_factors
        Factors on the class weights by label.
    scale
        "standard" or None: scaling by all events so far.
    fit_intercept
        Whether to add a constant feature.
    penalize_intercept
        Whether to penalize it like any coefficient.
    half_life
        A number of later events of the same class, a dict of them by label, or a time such as "7d",
        after which an event has half its weight.
    multi_class
        "lda" separates three or more classes in one problem, "ovr" each from all others.
    pooled_rows
        Rows of pooled evidence for the covariance of each class, with quadratic boundaries, or None
        for linear ones.
    calibrate
        Whether outcomes of events, scored before they are learned, correct stream probabilities.
    memory_limit
        Bytes that the moments of all classes may take.
    feature_map
        A nonlinear map, as for `counterpoise.BalancedRidgeClassifier`, fixed by 256 events.
    absent
        Meaning of a feature that is absent from an event: "zero", as for one-hot features, or
        "missing": it is imputed by the mean of all values so far, and an indicator is a feature.
        After a OneHotEncoder use "zero". Models with "missing" cannot be merged.
    columns
        Roles of fields with many categories, such as {"merchant": "many"}, whose values are text.
        "many:10" fixes the ridge of the categories, which is worth 10 rows.

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
        columns: dict[Any, str] | None = None,
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
        self.columns = columns
        self._many = EventColumns.of(columns)
        validation.require_one_of(self, "absent", ("zero", "missing"))
        self._options, plan, _, _ = read_ridge_parameters(self)
        if plan.given is not None:
            raise ValueError(
                "feature_map is a fixed map, whose features have positions; events name features, "
                "so use the map itself"
            )
        self._has_label_weights = has_label_weights(self._options)
        # Whether single events of learned classes are learned as they are.
        self._is_direct = plan.map is None and not plan.decay.is_timed
        if self._many.roles and self._options.pooled_rows is not None:
            raise ValueError(NOT_QUADRATIC)
        self._state = State.empty(plan, 1, [])
        self._columns: dict[Any, int] = {}
        self._open: SingleEventModel | None = None  # moments open to single events
        self._has_warned_of_time = False

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
            Its time, for a `half_life` that is a time: a date, a time, or seconds since 1970.
        """
        if type(x) is not dict:
            x = as_event(x)
        if not 0.0 <= w <= MAX_SAMPLE_WEIGHT:
            raise invalid_weight(w)
        if t is not None:
            self._warn_unless_timed()
        found, state = self._open, self._state
        slot = None if found is None else found.slots.get(y)
        if found is None or slot is None or not self._is_direct:
            self._learn_slowly(x, y, w, timestamps.time(t) if state.config.decay.is_timed else None)
            return
        queue = None
        if self.calibrate:
            before = state.progressive
            queue = state.queue_for(self._options)
            if state.progressive is not before:
                warn_if_sorted(before, state.progressive, stacklevel=3)
        state.session.solved = state.session.imputed = None  # first: a signal finds no old scores
        opened: Any = found.events
        if not opened.learn(x, slot, w) and not self._learn_new_category(opened, x, slot, w):
            self._widen(x, y, w)
        elif queue is not None:
            opened.queue(queue, slot, w)

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
            Their times, as for `learn_one`.
        """
        if t is not None:
            self._warn_unless_timed()
        found = events.frame_rows(X, self._many)
        weight, fill = validation.weights(w, len(found.rows)), None
        when = timestamps.times(t, len(found.rows)) if self._state.config.decay.is_timed else None
        if self.absent == "missing":
            each = [dict(zip(found.names, row, strict=True)) for row in found.rows.tolist()]
            rows, names, fill = events.encode_events(self._state, each)
            found = found._replace(rows=rows, names=names)
        self._learn_rows(found, events.label_list(y), weight, fill, when)

    @document_like(learn_one)
    def unlearn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Unlearn one event: the model equals one that never learned it.

        An event that was never learned is refused if the moments contradict it: its label or a
        feature was never seen, or the remaining weight or scatter is impossible. An unknown event
        that lies among many events of its label is not detected.

        A feature that is 0 in all remaining events is removed. With a map, features stay as long as
        there are events. With `calibrate` the counts of the event stay as long as its class.
        """
        if not 0.0 <= w <= MAX_SAMPLE_WEIGHT:
            raise invalid_weight(w)
        x = x if type(x) is dict else as_event(x)
        if not self._unlearn_directly(x, y, w):
            self._unlearn_rows(events.one_row(x, self._many), [y], np.array([float(w)]))

    @document_like(learn_many)
    def unlearn_many(self, X: Any, y: Any, w: Any = 1.0) -> None:
        """Unlearn a mini-batch, all of it or nothing."""
        found = events.frame_rows(X, self._many)
        self._unlearn_rows(found, events.label_list(y), validation.weights(w, len(found.rows)))

    update, revert = learn_one, unlearn_one  # as river.utils.Rolling calls them

    def merge(self, other: BalancedRidgeClassifier) -> BalancedRidgeClassifier:
        """Return a model that has learned the events of this one, then those of the other.

        Features are the same where their names are. A feature that only one of the models has was
        0 in the events of the other. Models with ``absent="missing"`` cannot be merged; use
        `counterpoise.TableClassifier`.

        Parameters
        ----------
        other
            A model with the same parameters, except for `memory_limit` and `calibrate`.

        Returns
        -------
        A new model; both models stay as they are.
        """
        if not isinstance(other, BalancedRidgeClassifier):
            raise TypeError(
                f"can only merge with a BalancedRidgeClassifier; got {type(other).__name__}"
            )
        if "missing" in (self.absent, other.absent):
            raise ValueError(
                "models of events with absent='missing' cannot be merged; use "
                "counterpoise.TableClassifier, which imputes missing numbers in the same way"
            )
        mine, theirs = (
            {**asdict(one._options), "feature_map": one._state.config.text, "columns": one.columns}
            for one in (self, other)
        )
        require_equal_options(mine, {**theirs, "calibrate": mine["calibrate"]})
        result: BalancedRidgeClassifier = self.clone()
        states, columns = (self._state, other._state), (self._many, other._many)
        result._become(*events.merge_states(*states, columns, self.memory_limit))
        return result

    def _warn_unless_timed(self) -> None:
        """Warn once of times that have no effect."""
        if not self._has_warned_of_time and not self._state.config.decay.is_timed:
            self._has_warned_of_time = True
            warnings.warn(T_IS_IGNORED, UserWarning, stacklevel=3)

    def _learn_slowly(self, x: dict[Any, Any], y: Any, w: float, when: float | None) -> None:
        """Learn an event that is mapped, decays by time, or has a new label or feature."""
        found, state, before = self._open, self._state, self._state.progressive
        is_wide = found is None or not self._columns.keys() >= x.keys()
        if found is None or is_wide or not state.learn_row(found, self._row(x), y, w, when):
            self._widen(x, y, w, when)
            return
        warn_if_sorted(before, state.progressive, stacklevel=4)
        if when is not None and not found.events.all_seen():  # a class has decayed to nothing
            self._open = None

    def _learn_new_category(self, opened: Any, x: dict[Any, Any], slot: int, w: float) -> bool:
        """Learn an event whose category is new; return whether nothing else is new."""
        if not self._many.roles or w == 0.0 or opened.new_category is None:
            return False
        many = self._many.append_one(opened.new_category)
        grown = self._state.grow_categories(many.vocabularies[0].size, self.memory_limit)
        return bool(opened.learn_new_category(x, slot, w, grown, self, many))

    def _widen(self, x: dict[Any, Any], y: Any, w: float, t: float | None = None) -> None:
        """Learn an event that has a new label or feature, or that must wait for its solver."""
        if self.absent == "missing":
            x, own = self._many.split(x)
            row, names, fill = events.encode_events(self._state, [x])
            found = events.EventRows(row, names, [own])
        else:
            found, fill = events.one_row(x, self._many), None
        when = None if t is None else np.array([t])
        self._learn_rows(found, [y], np.array([float(w)]), fill, when)

    def _learn_rows(
        self,
        found: EventRows,
        labels: list[Any],
        weight: Vector | None,
        fill: MeanImputation | None = None,
        t: Vector | None = None,
    ) -> None:
        """Learn rows of features, and of categories."""
        rows, names, categories = found
        events.check_rows(rows, names, labels)
        for label in labels:
            events.require_label(label)
        if weight is not None and not weight.all():
            kept = np.flatnonzero(weight)
            rows, labels, weight = rows[kept], [labels[i] for i in kept], weight[kept]
            categories = [categories[i] for i in kept]
            t = None if t is None else t[kept]
        if not len(rows):
            return
        self._refresh()
        state = self._state
        more = [name for name in names if name not in self._columns]
        everything = [*(state.names or []), *more]
        columns = {name: j for j, name in enumerate(everything)}
        width, many = max(len(everything), 1), self._many.append(categories)
        wide = np.zeros((len(rows), width))
        wide[:, [columns[name] for name in names]] = rows
        wide = np.hstack([wide, many.encode(categories)])
        state.config.require_fits(width, self.memory_limit)
        self._open = None  # at a signal, nothing of before is left open
        if not state.is_fitted:
            state = replace(State.empty(state.config, width, everything), codes=many.codes)
        state = state.with_imputation(fill)
        batch = Batch(wide, events.object_array(labels), weight, events.group_labels, t=t)
        wider = everything if more else None
        calibrating = self._options if self.calibrate else None
        before, known = state.progressive, self._many
        self._many = many  # before learning: a signal finds no category without its name
        try:
            state = state.learn(batch, self.memory_limit, names=wider, calibrating=calibrating)
        except Exception:
            self._many = known
            raise
        self._become(state)
        warn_if_sorted(before, self._state.progressive, stacklevel=5)

    def _unlearn_directly(self, x: dict[Any, Any], y: Any, w: float) -> bool:
        """Unlearn an event by the compiled downdate; return whether it is possible."""
        found, state = self._open, self._state
        slot = None if found is None else found.slots.get(y)
        if found is None or slot is None or state.progressive is not None:
            return False
        if state.fixed is not None or self.absent == "missing":
            return False
        session = state.session
        session.solved = session.imputed = None  # before unlearning: a signal finds no old scores
        return found.events.unlearn(x, slot, w)

    def _unlearn_rows(self, found: EventRows, labels: list[Any], weight: Vector | None) -> None:
        """Unlearn rows of features, and of categories."""
        self._refresh()
        state = self._state
        events.require_unlearnable(state, self._options)
        events.check_rows(found.rows, found.names, labels)
        events.require_seen(state, found.rows, found.names, labels)
        self._many.require_seen(found.categories, labels)
        if len(found.rows):
            aligned = events.align_rows(state, self.absent, self._many, found)
            batch = Batch(aligned, events.object_array(labels), weight, events.group_labels)
            options, limit = self._options, self.memory_limit
            self._become(*events.unlearn_events(state, self._many, batch, options, limit))

    # Results

    def predict_one(self, x: dict[Any, Any], **kwargs: Any) -> Any:
        """Return the most probable label assuming balanced classes; None before an event.

        Parameters
        ----------
        x
            Features of an event; those never learned do not count.

        Returns
        -------
        A label.
        """
        x = x if type(x) is dict else as_event(x)
        found, state = self._open, self._state
        if self._has_label_weights and not state.has_warned:
            state.warn_unseen_labels_once(self._options, stacklevel=4)
        if found is not None:
            opened = found.events
            at = opened.best(x) if state.fixed is None else opened.best(self._map_event(x))
            if at >= 0:
                return found.answers[at]
        scores = self._scores()
        return None if scores is None else scores.classes.best(scores.of(self._row(x)[None]))[0]

    @document_like(predict_one)
    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Return the balanced probability of each label.

        Returns
        -------
        A dictionary of probabilities by label.
        """
        return self._probabilities(x, stream=False)

    @document_like(predict_proba_one)
    def predict_stream_proba_one(self, x: dict[Any, Any]) -> dict[Any, float]:
        """Return the probability of each label under the observed class frequencies."""
        return self._probabilities(x, stream=True)

    def predict_many(self, X: Any) -> Any:
        """Return the most probable label of each row.

        Parameters
        ----------
        X
            A pandas, polars or pyarrow frame of features.

        Returns
        -------
        A series of labels.
        """
        frame, scores = utils.dataframe.into_frame(X), self._scores()
        labels = [None] * len(frame)
        if scores is not None:
            labels = scores.classes.best(self._scored_frame(X, scores)).tolist()
        return utils.dataframe.to_native_series(labels, name=None, like=frame)

    @document_like(predict_many)
    def predict_proba_many(self, X: Any) -> Any:
        """Return the balanced probabilities of each row.

        Returns
        -------
        A frame with a column for each label.
        """
        return self._probabilities_many(X, stream=False)

    @document_like(predict_proba_many)
    def predict_stream_proba_many(self, X: Any) -> Any:
        """Return the probabilities of each row under the observed class frequencies."""
        return self._probabilities_many(X, stream=True)

    @document_like(predict_one)
    def explain_one(self, x: dict[Any, Any], y: Any = None) -> dict[Any, float]:
        """Return what each feature contributes to the score of a label.

        All contributions, also of absent features, add up to the score minus the score at the
        balanced center, the mean of the class means.

        Parameters
        ----------
        y
            The label; by default the predicted one.

        Returns
        -------
        A dictionary of contributions by feature; empty before anything was learned.
        """
        x = x if type(x) is dict else as_event(x)
        found, state = self._open, self._state
        is_open = found is not None and state.fixed is None and self.absent == "zero"
        if found is not None and is_open and (y is None or y in found.slots):
            state.open(self._options)  # warns of labels that have a weight and never occurred
            contributions = found.events.reasons(x, -1 if y is None else found.slots[y])
            if contributions is not None:
                return contributions
        scores = self._scores()
        if scores is None:
            return {}
        row, classes = self._row(x)[None], scores.classes
        label = classes.best(scores.of(row))[0] if y is None else y
        if label not in classes.labels[classes.seen].tolist():
            raise ValueError(f"no event of label {label!r} was ever learned: it has no explanation")
        values = (
            explain([(scores, state.moments)], self._options, row, None).for_class(label).values
        )
        result = dict(zip(state.names or [], values[0].tolist(), strict=False))
        result |= zip(self._many.roles, values[0, state.n_inputs :].tolist(), strict=True)
        return result if state.fill is None else events.merge_contributions(state, result)

    # Files and copies

    def _contents(self) -> Contents:
        """Return the contents of a file; with ``absent="missing"`` only this class can load it."""
        own = ("absent", "columns")
        params = {name: getattr(self, name) for name in self._get_params() if name not in own}
        return events.pack_events(params, self.absent, self._state, self._many)

    @classmethod
    def _from_contents(cls, contents: Contents) -> BalancedRidgeClassifier:
        params, state, many = events.unpack_events(contents)
        result = cls(**params)
        result._become(state, many)
        return result

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._bind()

    def __copy__(self) -> BalancedRidgeClassifier:
        return copy.deepcopy(self)

    # The state

    def _become(self, state: State, many: EventColumns | None = None) -> None:
        """Use another state, and its categories if they are others."""
        commit(self, _open=None, _state=state, _many=many or self._many)
        self._bind()

    def _bind(self) -> None:
        """Open the state to single events, where the compiled solver is possible."""
        state = self._state
        self._columns = {name: j for j, name in enumerate(state.names or [])}
        classes = Classes.in_order_of_appearance(state.moments)
        if self.absent == "zero":  # as in the compiled loops
            self._open = state.open(self._options, classes, self._many.field)
        elif self._is_direct and state.is_fitted:
            found = state.open_imputed(self._options, classes)
            if found is not None:
                learns, scores, fill = found
                imputed: Any = events.ImputedEvents(state, learns.events, scores.events, fill)
                self._open = replace(learns, events=imputed)

    def _refresh(self) -> None:
        """Bind a state that is not bound, as after a signal in the middle of a change."""
        if self._open is None:
            self._bind()

    def _scores(self, link: bool = False) -> Scores | None:
        """Return the solved model; None before anything was learned."""
        state = self._state
        if not state.is_fitted:
            return None
        self._refresh()
        return state.solve(Classes.in_order_of_appearance(state.moments), self._options, link)

    def _probabilities_many(self, X: Any, stream: bool) -> Any:
        frame, scores = utils.dataframe.into_frame(X), self._scores(link=True)
        columns: dict[Any, Any] = {}
        if scores is not None:
            p = scores.probabilities(self._scored_frame(X, scores), stream)
            columns = dict(zip(scores.classes.labels.tolist(), p.T, strict=True))
        return utils.dataframe.to_native_frame(columns, like=frame)

    def _probabilities(self, x: dict[Any, Any], stream: bool) -> dict[Any, float]:
        x = x if type(x) is dict else as_event(x)
        found, state = self._open, self._state
        if self._has_label_weights and not state.has_warned:
            state.warn_unseen_labels_once(self._options, stacklevel=5)
        if found is not None:
            if state.fixed is None:
                p = found.events.probabilities(x, stream)
            else:
                p = found.events.probabilities(self._map_event(x), stream)
            if p is not None:
                if stream and self.calibrate and state.calibration is not None:
                    p = state.calibration.correct_one(p, found.labels)
                return dict(zip(found.labels, p, strict=True))
        scores = self._scores(link=True)
        if scores is None:
            return {}
        p, classes = scores.probabilities(scores.of(self._row(x)[None]), stream)[0], scores.classes
        found_labels = zip(classes.labels.tolist(), p.tolist(), classes.seen, strict=True)
        return {label: value for label, value, is_seen in found_labels if is_seen}

    def _map_event(self, x: dict[Any, Any]) -> Vector:
        """Return the mapped features of one event, by a map that is fixed."""
        assert self._state.fixed is not None
        mapped: Vector = self._state.fixed.transform(self._row(x)[None])[0]
        return mapped

    def _row(self, x: dict[Any, Any]) -> Vector:
        """Return the features of one event in the order of the columns, then its codes."""
        x, own = self._many.split(x)
        if self.absent == "missing":
            row = events.encode_event(self._state, x)
        else:
            row = event_row(x, self._columns, self._state.n_inputs)
        return np.append(row, self._many.encode([own])) if own else row

    def _scored_frame(self, X: Any, scores: Scores) -> Matrix:
        """Return the scores of the rows of a frame."""
        found = events.frame_rows(X, self._many)
        if self.absent != "missing":  # else NaN is
            events.check_rows(found.rows, found.names)
        return scores.of(events.align_rows(self._state, self.absent, self._many, found))
