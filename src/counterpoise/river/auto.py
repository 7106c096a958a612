"""AutoClassifier: the average of candidates, behind river's conventions."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
from river import base

from counterpoise import validation
from counterpoise.arrays import Vector
from counterpoise.engine.auto import AutoModel
from counterpoise.engine.parameters import RIDGES
from counterpoise.river.events import bad_weight, event_of, require_label
from counterpoise.solver.class_weights import ClassFactors
from counterpoise.validation import MAX_SAMPLE_WEIGHT


class AutoClassifier(base.Classifier):
    """Ridge classifier with balanced classes that averages maps, shapes and ridges by itself.

    Events are answered by an average that is at most a third of the events old. Until the maps of
    the features are fixed, by the first 1,200 events, events are put by and learned together. A
    feature that is absent from an event is 0, and features may appear late. Labels may be of any
    hashable type and appear at any time.

    Parameters
    ----------
    candidates
        Names of candidates; by default as for `counterpoise.AutoClassifier`.
    ridges
        Ridges to choose from.
    kept_rows
        Events of each class that are kept to rank candidates; at least 1.
    class_factors
        Factors on the weights of the classes by label.
    half_life
        A row fades to half its weight while its own class receives this much weight.
    memory_limit
        Bytes that the moments of all candidates may take.

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
        memory_limit: float = 2e9,
    ) -> None:
        self.candidates = candidates
        self.ridges = ridges
        self.kept_rows = kept_rows
        self.class_factors = class_factors
        self.half_life = half_life
        self.memory_limit = memory_limit
        # Labels are numbers inside, those that have a cost first.
        self._codes: dict[Any, int] = {label: k for k, label in enumerate(class_factors or {})}
        self._labels: list[Any] = list(self._codes)
        by_code = (
            None
            if class_factors is None
            else {self._codes[label]: class_factors[label] for label in class_factors}
        )
        self._model = AutoModel.create(
            candidates=candidates,
            ridges=ridges,
            kept_rows=kept_rows,
            class_factors=by_code,
            half_life=half_life,
            memory_limit=memory_limit,
        )
        self._columns: dict[Any, int] = {}

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn one event.

        Parameters
        ----------
        x
            Its features.
        y
            Its label.
        w
            Its weight; 0 changes nothing.
        """
        if not 0.0 <= w <= MAX_SAMPLE_WEIGHT:
            raise bad_weight(w)
        require_label(y)
        numbers = {name: validation.number(name, value) for name, value in event_of(x).items()}
        if w == 0.0:
            return
        code = self._codes.get(y, len(self._labels))
        columns = self._columns
        if not columns.keys() >= numbers.keys() or not columns:
            columns = {**columns, **{n: 0 for n in numbers if n not in columns}}
            columns = {name: j for j, name in enumerate(columns)}
            model = self._model
            if columns and model.is_fitted and len(columns) > model.n_features:
                model = copy.deepcopy(model)
                model.add_features([repr(name) for name in columns])
            self._learn(model, columns, numbers, code, y, w)
            return
        self._learn(self._model, columns, numbers, code, y, w)

    def _learn(
        self,
        model: AutoModel,
        columns: dict[Any, int],
        x: dict[Any, float],
        code: int,
        y: Any,
        w: Any,
    ) -> None:
        """Let a model learn an event, then replace our own model and columns."""
        row = _row(columns, x)
        if not model.learn_one(row, code, float(w)):
            model.learn(row[None], np.array([code]), [float(w)])
        if code == len(self._labels):
            self._labels.append(y)
            self._codes[y] = code
        self._model, self._columns = model, columns

    def predict_one(self, x: dict[Any, Any], **kwargs: Any) -> Any:
        """Label of an event; None before anything was learned.

        Parameters
        ----------
        x
            Features of an event; those never learned do not count.

        Returns
        -------
        A label.
        """
        if not self._model.is_fitted:
            return None
        return self._labels[int(self._model.predict_one(self._row(x)))]

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Probability of each label under the weights of training, by the average of predict_one.

        Parameters
        ----------
        x
            Features of an event; those never learned do not count.

        Returns
        -------
        A dictionary of probabilities by label.
        """
        if not self._model.is_fitted:
            return {}
        p = self._model.predict_proba_one(self._row(x))
        codes = self._model.labels.tolist()
        return {self._labels[code]: float(one) for code, one in zip(codes, p, strict=True)}

    @property
    def shares(self) -> dict[str, float]:
        """Weight of each candidate in the average."""
        return self._model.averaging_weights

    def _row(self, x: dict[Any, Any]) -> Vector:
        numbers = {name: validation.number(name, value) for name, value in event_of(x).items()}
        return _row(self._columns, numbers)


def _row(columns: dict[Any, int], x: dict[Any, float]) -> Vector:
    """Features in the order of their columns; absent is 0, unknown is left out."""
    row = np.zeros(max(len(columns), 1))
    for name, value in x.items():
        j = columns.get(name)
        if j is not None:
            row[j] = value
    return row
