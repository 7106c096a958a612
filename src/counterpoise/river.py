"""The same model for river: dicts in, one event at a time; features and labels may come and go.

Needs the extra ``river``: ``pip install counterpoise[river]``.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import numpy as np

try:
    from river import base, utils
except ImportError as error:
    raise ImportError(
        "counterpoise.river needs river: pip install 'counterpoise[river]'"
    ) from error

from counterpoise import validate
from counterpoise.arrays import Labels, Matrix, Vector
from counterpoise.exact import lifting, model, probability, progressive
from counterpoise.exact._events import Events
from counterpoise.exact._scorer import Scorer
from counterpoise.exact.model import Options, Solved
from counterpoise.exact.moments import Moments, groups
from counterpoise.exact.weighting import ClassWeight, Costs
from counterpoise.features import WARMUP, FixedMap, Map, Warmup
from counterpoise.validate import HEAVIEST


class BalancedRidgeClassifier(base.MiniBatchClassifier):
    """Ridge classifier with balanced classes, exact at every event of a stream.

    What it has learned does not depend on the order of events, nor on whether they came through
    `learn_one` or `learn_many`. A feature that is absent from an event is 0, so features may appear
    late or go missing; scaling is retroactive and exact, so no scaler is needed before it. Labels
    may be of any hashable type and appear at any time.

    Parameters
    ----------
    ridge
        Penalty on the squared weights, or "gcv" to choose it by generalised cross-validation.
    class_weight
        "balanced", a weight for each label, or None.
    costs
        Factors on the class weights by label.
    scale
        "standard", "minmax" or None: scaling by everything seen so far.
    fit_intercept
        Whether to add a constant feature.
    penalize_intercept
        Whether to penalise it like any weight.
    half_life
        A row fades to half its weight while its own class receives this much weight.
    memory_limit
        Bytes that the moments of all classes may take.
    features
        A map of the features, for what is not linear: "poly2", "interactions", "rm3", "rff:400", or
        an object of `counterpoise.features`. Features are standardised for it by the first 256
        events; until then by all so far, which are kept.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics
    >>> from counterpoise.river import BalancedRidgeClassifier

    >>> model = BalancedRidgeClassifier()
    >>> evaluate.progressive_val_score(datasets.Phishing(), model, metrics.GeometricMean())
    GeometricMean: 89.56%

    """

    def __init__(
        self,
        ridge: float | str = 1e-4,
        class_weight: ClassWeight = "balanced",
        costs: Costs = None,
        scale: str | None = "standard",
        fit_intercept: bool = True,
        penalize_intercept: bool = True,
        half_life: float | None = None,
        memory_limit: float = 2e9,
        features: str | Map | FixedMap | None = None,
    ) -> None:
        self.ridge = ridge
        self.class_weight = class_weight
        self.costs = costs
        self.scale = scale
        self.fit_intercept = fit_intercept
        self.penalize_intercept = penalize_intercept
        self.half_life = half_life
        self.memory_limit = memory_limit
        self.features = features
        self._options = Options.of(self)
        self._options.check()
        validate.positive(self, "memory_limit")
        lifting.map_in(features)
        if isinstance(features, FixedMap):
            raise ValueError(
                "features is a fixed map, which knows features by their places; events name them, "
                "so give the map itself"
            )
        self._fixed: FixedMap | None = None
        self._warmup: Warmup | None = None
        self._names: list[Any] = []
        self._columns: dict[Any, int] = {}
        self._slots: dict[Any, int] = {}
        self._moments: Moments | None = None
        self._events: Events | None = None
        self._solved: Solved | None = None

    @property
    def _multiclass(self) -> bool:
        return True

    # Learning

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
        if type(x) is not dict:
            x = dict(x)
        slot = self._slots.get(y)
        if not 0.0 <= w <= HEAVIEST:
            raise _bad_weight(w)
        events = self._events
        self._solved = None  # before, so that no old solution is left whenever a signal comes
        if self.features is not None:
            learned = self._learn_mapped(x, slot, w)
        else:
            learned = slot is not None and events is not None and events.learn(x, slot, w)
        if not learned:
            self._widen(x, y, w)

    def learn_many(self, X: Any, y: Any, w: Any = 1.0) -> None:
        """Learn a mini-batch.

        Parameters
        ----------
        X
            A pandas, polars or pyarrow frame of features.
        y
            Their labels.
        w
            Their weights, or one for all.
        """
        rows, names = _matrix(X)
        self._learn_rows(rows, names, _labels(y), validate.weights(_numbers(w), len(rows)))

    def unlearn_one(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Take one event back, as if it had never been learned.

        Parameters
        ----------
        x
            Its features.
        y
            Its label.
        w
            Its weight when it was learned.
        """
        if self.half_life is not None or self.scale == "minmax":
            raise ValueError(
                "unlearning is not possible with half_life nor with scale='minmax'; "
                "use scale='standard'"
            )
        if not 0.0 <= w <= HEAVIEST:
            raise _bad_weight(w)
        if self._warmup is not None:
            raise ValueError(f"unlearning must wait until the map is fixed, by {WARMUP} events")
        strange = [name for name in x if name not in self._columns]
        if self._moments is None or y not in self._slots or strange:
            raise ValueError(
                f"cannot unlearn an event of label {y!r}"
                + (f" with feature {strange[0]!r}" if strange else "")
                + ": none was ever learned"
            )
        chunk = lifting.moments_of(
            self._row(x)[None],
            [
                np.zeros(1 if k == self._slots[y] else 0, dtype=np.intp)
                for k in self._slots.values()
            ],
            self._moments.labels,
            np.array([float(w)]),
            None,
            False,
            self._moments.anchor,
            self._fixed,
        )
        names = [repr(name) for name in self._names or ("nothing",)]
        if self._fixed is not None:
            names = self._fixed.names(names)
        moments = model.without(
            self._moments, chunk, self._options, lambda j: f"feature {names[j]}"
        )
        slots = {label: k for k, label in enumerate(moments.labels.tolist())}
        if slots:
            self._replace(moments, self._names, self._columns, slots, self._fixed)
        else:  # nothing is left, not even a name
            self._replace(None, [], {}, {})

    def update(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Learn one event, under the name that `river.utils.Rolling` calls."""
        self.learn_one(x, y, w)

    def revert(self, x: dict[Any, Any], y: Any, w: float = 1.0) -> None:
        """Take one event back, under the name that `river.utils.Rolling` calls."""
        self.unlearn_one(x, y, w)

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
            x = dict(x)
        events = self._events
        f = None
        if events is not None and self._solved is None:
            f = events.scores(x) if self._fixed is None else events.scores_array(self._mapped(x))
        if f is not None:
            if len(self._slots) == 1:
                return next(iter(self._slots))
            return self._moments.labels[  # type: ignore[union-attr]
                int(f[0] > 0) if len(f) == 1 else f.index(max(f))
            ]
        solved = self._solution()
        if solved is None:
            return None
        return solved.classes[solved.best(solved.scores(self._row(x)[None]))[0]]

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

    def stream_proba_one(self, x: dict[Any, Any]) -> dict[Any, float]:
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
        solved = self._solution()
        if solved is None:
            labels = [None] * len(frame)
        else:
            labels = solved.classes[solved.best(solved.scores(self._aligned(X)))].tolist()
        return utils.dataframe.to_native_series(labels, name=None, like=frame)

    def predict_proba_many(self, X: Any) -> Any:
        """Probability of each label for each row.

        Parameters
        ----------
        X
            A pandas, polars or pyarrow frame of features.

        Returns
        -------
        A frame with a column for each label.
        """
        frame = utils.dataframe.into_frame(X)
        solved = self._solution()
        if solved is None:
            return utils.dataframe.to_native_frame({}, like=frame)
        p = probability.probabilities(
            solved.scores(self._aligned(X)), np.ones_like(solved.factor), solved.seen
        )
        columns = dict(zip(solved.classes.tolist(), p.T, strict=True))
        return utils.dataframe.to_native_frame(columns, like=frame)

    # Within

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_events": None, "_solved": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._bind()

    def __copy__(self) -> BalancedRidgeClassifier:
        return copy.deepcopy(self)

    def _widen(self, x: dict[Any, Any], y: Any, w: float) -> None:
        """Learn an event that brings something new, or one that must wait for its solver."""
        names = list(x)
        values = [validate.number(name, value) for name, value in x.items()]
        row = np.array(values, dtype=np.float64).reshape(1, len(x))
        self._learn_rows(row, names, [y], np.array([float(w)]))

    def _mapped(self, x: dict[Any, Any]) -> Vector:
        """Terms of one event."""
        row = self._row(x)[None]
        mapped: Vector = row[0] if self._fixed is None else self._fixed.transform(row)[0]
        return mapped

    def _learn_mapped(self, x: dict[Any, Any], slot: int | None, w: float) -> bool:
        """Learn one event through a map that is fixed, if it brings nothing new."""
        if slot is None or self._events is None or self._warmup is not None:
            return False
        if not self._columns.keys() >= x.keys():
            return False
        if w > 0.0:
            self._events.learn_array(self._mapped(x), slot, w)
        return True

    def _learn_rows(
        self, rows: Matrix, names: list[Any], labels: list[Any], weight: Vector | None
    ) -> None:
        if len(labels) != len(rows):
            raise ValueError(f"{len(rows)} rows and {len(labels)} labels do not match")
        _require_numbers(rows, names)
        for label in labels:
            if label != label:
                raise ValueError("a label is NaN; drop the event")
        if weight is not None and not weight.all():
            kept = np.flatnonzero(weight)
            rows, labels, weight = rows[kept], [labels[i] for i in kept], weight[kept]
        if not len(rows):
            return
        new_names = [name for name in names if name not in self._columns]
        all_names = self._names + new_names
        columns = {name: j for j, name in enumerate(all_names)}
        known = list(dict.fromkeys([*self._slots, *labels]))
        slots = {label: k for k, label in enumerate(known)}
        wide = np.zeros((len(rows), max(len(all_names), 1)))
        wide[:, [columns[name] for name in names]] = rows
        moments, anchor, fixed, warmup = self._moments, None, self._fixed, None
        the_map, inputs = lifting.map_in(self.features), wide.shape[1]
        lifting.require_map_fits(the_map, inputs, self.memory_limit)
        d = inputs if the_map is None else the_map.count(inputs)
        lifting.require_room(len(known), d, self.memory_limit, the_map is not None)
        grown = None
        if self.features is not None and (fixed is None or self._warmup is not None):
            everything, fixed, warmup = lifting.warmed(
                self.features, self._warmup, wide, _objects(labels), weight
            )
            wide, labels, weight = everything.X, everything.y.tolist(), everything.weight
        elif moments is not None and fixed is not None:
            grown = moments
            if new_names:
                at = np.arange(len(fixed.mean))
                fixed, at = fixed.placed(at, [repr(name) for name in all_names])
                grown = moments.placed(at, fixed.size)
            anchor = grown.anchor
        elif moments is not None:
            anchor = np.append(moments.anchor, np.zeros(wide.shape[1] - len(moments.anchor)))
        chunk = lifting.moments_of(
            wide,
            groups(np.array([slots[label] for label in labels], dtype=np.intp), len(known)),
            _objects(known),
            weight,
            self.half_life,
            self.scale == "minmax",
            anchor,
            fixed,
        )
        validate.require_light(chunk)
        if moments is None or anchor is None:
            self._replace(chunk, all_names, columns, slots, fixed, warmup)
            return
        grown = (grown or moments.with_features(wide.shape[1])).with_labels(chunk.labels)
        state = self._state(grown, all_names, columns, slots, fixed)
        grown.take_in(chunk, self.half_life, self, state)
        self._bind()

    def _replace(
        self,
        moments: Moments | None,
        names: list[Any],
        columns: dict[Any, int],
        slots: dict[Any, int],
        fixed: FixedMap | None = None,
        warmup: Warmup | None = None,
    ) -> None:
        """Let other moments, or none, take their place, all at once."""
        self.__dict__.update(self._state(moments, names, columns, slots, fixed, warmup))
        self._bind()

    def _state(
        self,
        moments: Moments | None,
        names: list[Any],
        columns: dict[Any, int],
        slots: dict[Any, int],
        fixed: FixedMap | None = None,
        warmup: Warmup | None = None,
    ) -> dict[str, Any]:
        """Attributes of a model that has learned these moments."""
        state = {"_names": names, "_columns": columns, "_slots": slots, "_moments": moments}
        return state | {"_fixed": fixed, "_warmup": warmup, "_events": None, "_solved": None}

    def _bind(self) -> None:
        """Open the moments to single events, where the compiled solver will do."""
        self._events = self._solved = None
        moments = self._moments
        if moments is not None and self.ridge != "gcv" and moments.n.all():
            recipe = progressive.recipe(self._options, moments, moments.labels)
            names = list(self._names) if self._fixed is None else list(range(self._fixed.size))
            self._events = Events(Scorer(recipe, moments), names)

    def _solution(self) -> Solved | None:
        if self._moments is None or not self._moments.n.any():
            return None
        if self._solved is None:
            slots = _seen(self._moments)
            found = model.solved(self._moments, self._moments.labels, slots, self._options)
            self._solved = replace(found, fixed=self._fixed)
        return self._solved

    def _probabilities(self, x: dict[Any, Any], stream: bool) -> dict[Any, float]:
        solved = self._solution()
        if solved is None:
            return {}
        f = solved.scores(self._row(x)[None])
        factor = solved.factor if stream else np.ones_like(solved.factor)
        p = probability.probabilities(f, factor, solved.seen)[0]
        return {
            label: float(value)
            for label, value, seen in zip(solved.classes.tolist(), p, solved.seen, strict=True)
            if seen
        }

    def _row(self, x: dict[Any, Any]) -> Vector:
        """Features in the order of their columns; absent is 0, unknown is left out."""
        row = np.zeros(max(len(self._names), 1))
        for name, value in x.items():
            number = validate.number(name, value)
            j = self._columns.get(name)
            if j is not None:
                row[j] = number
        return row

    def _aligned(self, X: Any) -> Matrix:
        rows, names = _matrix(X)
        _require_numbers(rows, names)
        wide = np.zeros((len(rows), max(len(self._names), 1)))
        for j, name in enumerate(names):
            if name in self._columns:
                wide[:, self._columns[name]] = rows[:, j]
        return wide


def _seen(moments: Moments) -> list[int]:
    return [k if n > 0 else -1 for k, n in enumerate(moments.n)]


def _bad_weight(w: Any) -> ValueError:
    return ValueError(f"w={w!r} must be a finite weight that is not negative")


def _require_numbers(rows: Matrix, names: list[Any]) -> None:
    bad = np.argwhere(~(np.abs(rows) <= validate.LARGEST))
    if len(bad):
        i, j = bad[0]
        validate.number(names[j], rows[i, j])


def _matrix(X: Any) -> tuple[Matrix, list[Any]]:
    frame = utils.dataframe.into_frame(X)
    names = list(X.columns) if hasattr(X, "iloc") else list(frame.columns)
    try:
        rows = np.ascontiguousarray(utils.dataframe.to_numpy(frame))
    except (TypeError, ValueError):
        for name, column in zip(names, frame.iter_columns(), strict=True):
            for value in column.to_list():
                validate.number(name, value)
        raise
    return rows, names


def _labels(y: Any) -> list[Any]:
    for name in ("to_pylist", "to_list", "tolist"):
        if hasattr(y, name):
            return list(getattr(y, name)())
    return list(y)


def _numbers(w: Any) -> Any:
    return w.to_numpy() if hasattr(w, "to_numpy") else w


def _objects(labels: list[Any]) -> Labels:
    """An array of labels as they are, tuples included."""
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array
