"""AutoClassifier: the average of candidates, with river's conventions."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from river import base

from counterpoise.arrays import Vector
from counterpoise.engine.auto import AutoModel
from counterpoise.engine.parameters import RIDGES
from counterpoise.engine.progressive_calibration import warn_sorted_labels
from counterpoise.public_names import document_like
from counterpoise.river.balanced_ridge import BalancedRidgeClassifier
from counterpoise.river.events import as_event, event_row, invalid_weight, require_label
from counterpoise.solver.class_weights import ClassFactors
from counterpoise.solver.options import warn_absent_label
from counterpoise.validation import MAX_SAMPLE_WEIGHT


class AutoClassifier(base.Classifier):
    """Ridge classifier with balanced classes that averages maps, boundaries and ridges.

    Averaging weights are refreshed when the stream has grown by a third. Until the first 1,200
    events have fixed the maps of the features, events are stored and learned together. A feature
    that is absent from an event is 0, and features may appear late. Labels may be of any hashable
    type and appear at any time. The model has no explanations, unlearning, merging, files and
    methods for frames.

    Parameters
    ----------
    candidates
        Names of candidates; by default as for `counterpoise.AutoClassifier`.
    ridges
        Ridges to average.
    kept_rows
        Events of each class that are kept to rank candidates; at least 1.
    class_factors
        Factors on the class weights by label.
    half_life
        A number of later events of the same class, after which an event has half its weight.
    calibrate
        Whether outcomes of events, scored before they are learned, correct stream probabilities.
    memory_limit
        Bytes that the moments of all candidates may take.

    Attributes
    ----------
    averaging_weights
        Weight of each candidate in the average.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from counterpoise.river import AutoClassifier

    >>> model = AutoClassifier(candidates=("linear", "hinges"))
    >>> stream = datasets.Phishing().take(500)
    >>> metric = evaluate.progressive_val_score(stream, model, metrics.GeometricMean())
    >>> bool(metric.get() > 0.8)
    True
    """

    def __init__(
        self,
        candidates: Sequence[str] | None = None,
        ridges: Sequence[float] = RIDGES,
        kept_rows: int = 128,
        class_factors: ClassFactors = None,
        half_life: float | None = None,
        calibrate: bool = False,
        memory_limit: float = 2e9,
    ) -> None:
        self.candidates = candidates
        self.ridges = ridges
        self.kept_rows = kept_rows
        self.class_factors = class_factors
        self.half_life = half_life
        self.calibrate = calibrate
        self.memory_limit = memory_limit
        # Labels are integers inside, those that have a factor first.
        self._labels: list[Any] = list(class_factors or {})
        self._codes: dict[Any, int] = {label: k for k, label in enumerate(self._labels)}
        factors = None if class_factors is None else dict(enumerate(class_factors.values()))
        self._model = AutoModel.create(**{**self._get_params(), "class_factors": factors})
        self._columns: dict[Any, int] = {}
        self._unseen: set[Any] = set(self._labels)  # labels of factors, until they occur
        self._n_events = 0  # while any of these labels is unseen

    @property
    def _multiclass(self) -> bool:
        return True

    @document_like(BalancedRidgeClassifier.learn_one)
    def learn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn one event."""
        if not 0.0 <= w <= MAX_SAMPLE_WEIGHT:
            raise invalid_weight(w)
        require_label(y)
        event, model, columns = as_event(x), self._model, self._columns
        if not columns.keys() >= event.keys():
            columns = {name: j for j, name in enumerate(dict.fromkeys([*columns, *event]))}
        row = event_row(event, columns, max(len(columns), 1))
        if w == 0.0:
            return
        if model.is_fitted and len(columns) > model.n_features:
            model = copy.deepcopy(model)
            model.add_features([repr(name) for name in columns])
        if len(columns) > len(self._columns):
            model.warning_names = list(columns)
        code = self._codes.get(y, len(self._labels))
        if not model.learn_one(row, code, float(w)):
            is_first, was_sorted = not model.is_fitted, model.has_sorted_labels
            model.learn(row[None], np.array([code]), [float(w)])
            if is_first:  # warnings of the states would name codes
                for state in model.candidates.states.values():
                    state.has_warned = True
            if model.has_sorted_labels and not was_sorted:
                warn_sorted_labels(stacklevel=3)
        if code == len(self._labels):
            self._labels.append(y)
            self._codes[y] = code
        self._model, self._columns = model, columns
        if self._unseen:
            self._unseen.discard(y)
            self._n_events += 1

    @document_like(BalancedRidgeClassifier.predict_one)
    def predict_one(self, x: dict[Any, Any], **kwargs: Any) -> Any:
        """Return the label of an event; None before anything was learned."""
        if not self._model.is_fitted:
            return None
        if self._unseen:
            self._warn_unseen_labels()
        return self._labels[int(self._model.predict_one(self._row(x)))]

    @document_like(BalancedRidgeClassifier.predict_proba_one)
    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Return the balanced probability of each label, by the average of predict_one."""
        return self._probabilities(x, stream=False)

    @document_like(BalancedRidgeClassifier.predict_stream_proba_one)
    def predict_stream_proba_one(self, x: dict[Any, Any]) -> dict[Any, float]:
        """Return the probability of each label under the observed class frequencies."""
        return self._probabilities(x, stream=True)

    def _probabilities(self, x: dict[Any, Any], stream: bool) -> dict[Any, float]:
        if not self._model.is_fitted:
            return {}
        if self._unseen:
            self._warn_unseen_labels(stacklevel=5)
        p, codes = self._model.predict_proba_one(self._row(x), stream), self._model.labels.tolist()
        return {self._labels[code]: float(one) for code, one in zip(codes, p, strict=True)}

    @property
    def averaging_weights(self) -> dict[str, float]:
        """Weight of each candidate in the average."""
        return self._model.averaging_weights

    def _warn_unseen_labels(self, stacklevel: int = 4) -> None:
        """Warn once of labels that have a factor and never occurred."""
        seen = [label for label in self._labels if label not in self._unseen]
        rows = float(self._n_events)
        if warn_absent_label("class_factors", self.class_factors, seen, rows, stacklevel):
            self._unseen = set()

    def _row(self, x: dict[Any, Any]) -> Vector:
        return event_row(as_event(x), self._columns, max(len(self._columns), 1))
