"""Events of river: encoding, missing features, merging, unlearning and files.

A file of events can be loaded for arrays, and a file of frames for events. Where absent features
are missing, the file records it and is for events alone, because only these have indicators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from river import utils

from counterpoise import validation
from counterpoise.arrays import Labels, Matrix, Vector, groups
from counterpoise.encoding.columns import MANY_CATEGORIES
from counterpoise.engine.state import Batch, State
from counterpoise.errors import ModelFileError
from counterpoise.feature_maps import FittedMap
from counterpoise.modelfile.container import Contents, check_file
from counterpoise.modelfile.engines import (
    feature_names,
    pack_ridge,
    read_vocabularies,
    unpack_ridge,
)
from counterpoise.river.event_columns import Categories, EventColumns, category_text
from counterpoise.solver.imputation import ImputedMoments, MeanImputation
from counterpoise.solver.options import Options
from counterpoise.stepwise._single_event import RowQueue
from counterpoise.validation import MAX_ABS_VALUE


class EventRows(NamedTuple):
    """Rows (n, d) of events, the names of their features, and the categories of each event."""

    rows: Matrix
    names: list[Any]
    categories: list[Categories]


def one_row(event: dict[Any, Any], columns: EventColumns) -> EventRows:
    """Return the features of an event as they are, and its categories."""
    features, own = columns.split(event)
    values = [validation.number(name, value) for name, value in features.items()]
    return EventRows(np.array(values, np.float64).reshape(1, len(features)), [*features], [own])


class MissingIndicator(NamedTuple):
    """Indicator of a feature that may be missing, its constant, and whether 1 means present."""

    flag: Any
    base: float
    present: bool


def missing_indicators(state: State) -> dict[Any, MissingIndicator]:
    """Return the indicators of features that may be missing, by name of the feature."""
    fill, names = state.fill, state.names or []
    if fill is None:
        return {}
    columns = (part.tolist() for part in (fill.at, fill.by, fill.base, fill.present))
    return {
        names[at]: MissingIndicator(names[by], base, present)
        for at, by, base, present in zip(*columns, strict=True)
    }


def encode_events(
    state: State, events: Iterable[dict[Any, Any]]
) -> tuple[Matrix, list[Any], MeanImputation | None]:
    """Encode events that are to be learned, with the new features and indicators.

    Return rows (n, d), the names of all features, and which of them may be missing.
    """
    names = list(state.names or []) if state.is_fitted else []
    indicators = missing_indicators(state)
    flags = {one.flag for one in indicators.values()}
    usual = dict(zip(names, state.mean.tolist(), strict=True)) if names else {}
    is_first, encoded = not state.is_fitted, []

    def indicate(name: Any, base: float, present: bool) -> None:
        flag = _new_name(name, "present" if present else "missing", names)
        indicators[name] = MissingIndicator(flag, base, present)
        names.append(flag)
        flags.add(flag)

    for event in events:
        values = _present_features(event)
        for name, value in values.items():
            if name in flags:
                raise ValueError(f"feature {name!r} has the name of an indicator; rename it")
            if name in usual:
                continue
            usual[name] = value
            names.append(name)
            if not is_first:  # a map takes values as they are
                indicate(name, value if state.config.text is None else 0.0, present=True)
        for name in usual:
            if name not in values and name not in indicators and name not in flags:
                indicate(name, usual[name], present=False)
        encoded.append(_with_indicators(values, indicators))
        is_first = False
    position = {name: j for j, name in enumerate(names)}
    rows = np.zeros((len(encoded), len(names)))
    for i, event in enumerate(encoded):
        for name, value in event.items():
            rows[i, position[name]] = value
    there = [
        (position[name], position[flag], base, present)
        for name, (flag, base, present) in indicators.items()
        if name in position and flag in position
    ]
    columns = map(list, zip(*there, strict=True)) if there else ([], [], [], [])
    return rows, names, MeanImputation.of(*columns)


class ImputedEvents:
    """Single events with missing features, in place of the compiled events of a SingleEventModel.

    ``learns`` has the moments as they are, and ``scores`` those that ``fill`` has imputed.
    """

    def __init__(self, state: State, learns: Any, scores: Any, fill: ImputedMoments | None) -> None:
        self._learns, self._scores, self._fill, self._is_old = learns, scores, fill, True
        names, indicators = list(state.names or []), missing_indicators(state)
        at = {name: j for j, name in enumerate(names)}
        optional = {*indicators, *(one.flag for one in indicators.values())}
        self._empty = [0.0] * len(names)
        self._required = {name: at[name] for name in names if name not in optional}
        self._optional: dict[Any, tuple[int, int, float, float]] = {}
        for name, (flag, base, present) in indicators.items():
            j, by = at[name], at[flag]
            self._optional[name] = (j, by, base, 1.0) if present else (j, by, 0.0, 0.0)
            if not present:
                self._empty[j], self._empty[by] = base, 1.0

    def row(self, event: dict[Any, Any]) -> list[float] | None:
        """Return an event as a row; None if a feature is new or is missing for the first time."""
        row, found = self._empty.copy(), 0
        for name, value in event.items():
            if value is None or value != value:  # missing
                continue
            if type(value) is not float or not -MAX_ABS_VALUE <= value <= MAX_ABS_VALUE:
                value = validation.number(name, value)
            optional = self._optional.get(name)
            if optional is not None:
                j, by, base, flag = optional
                row[j], row[by] = value - base, flag
            elif name in self._required:
                row[self._required[name]] = value
                found += 1
            else:
                return None
        return row if found == len(self._required) else None

    def learn(self, event: dict[Any, Any], slot: int, w: float) -> bool:
        """Learn an event of the class in a slot; return whether it is not new."""
        row = self.row(event)
        if row is not None:
            self._is_old = True
            self._learns.learn(np.array(row), slot, w)
        return row is not None

    def queue(self, rows: RowQueue, slot: int, w: float) -> None:
        """Append the event that was learned last to a queue."""
        self._learns.queue(rows, slot, w)

    def best(self, event: dict[Any, Any]) -> int:
        """Return the position of the label; −1 if the event is new."""
        row = self._impute(event)
        return -1 if row is None else int(self._scores.best(row))

    def probabilities(self, event: dict[Any, Any], stream: bool) -> Any:
        """Return probabilities (c,); None if the event is new."""
        row = self._impute(event)
        return None if row is None else self._scores.probabilities(row, stream)

    def _impute(self, event: dict[Any, Any]) -> Vector | None:
        found = self.row(event)
        row = None if found is None else np.array(found)
        if row is None or self._fill is None:
            return row
        if self._is_old:
            self._fill.update()
            self._scores.discard_solution()
            self._is_old = False
        return self._fill.impute(row)


def encode_event(state: State, event: dict[Any, Any]) -> Vector:
    """Encode one event that is to be predicted, (d,)."""
    indicators, row = missing_indicators(state), np.zeros(state.n_inputs)
    optional = {*indicators, *(one.flag for one in indicators.values())}
    values = _with_indicators(_present_features(event), indicators)
    for j, name in enumerate(state.names or []):
        if name in values:
            row[j] = values[name]
        elif name not in optional:  # it was never missing: the mean
            row[j] = state.mean[j]
    return row


def merge_contributions(state: State, contributions: dict[Any, float]) -> dict[Any, float]:
    """Add the contributions of indicators to those of their features."""
    result = dict(contributions)
    for name, one in missing_indicators(state).items():
        result[name] += result.pop(one.flag)
    return result


def _present_features(event: dict[Any, Any]) -> dict[Any, float]:
    """Return the features of an event that are not None and not NaN."""
    return {
        name: validation.number(name, value)
        for name, value in event.items()
        if value is not None and value == value
    }


def _with_indicators(
    values: dict[Any, float], indicators: dict[Any, MissingIndicator]
) -> dict[Any, float]:
    """Return the values of one event and of its indicators."""
    result = dict(values)
    for name, (flag, base, present) in indicators.items():
        if present and name in values:
            result[name], result[flag] = values[name] - base, 1.0
        elif not present and name not in values:
            result[name], result[flag] = base, 1.0
    return result


def _new_name(name: Any, what: str, names: list[Any]) -> Any:
    """Return a name for an indicator that no feature has."""
    flag: Any = f"{name} is {what}" if isinstance(name, str) else (name, what)
    while flag in names:
        flag = f"{flag}'" if isinstance(flag, str) else (*flag, "'")
    return flag


def event_row(event: dict[Any, Any], columns: dict[Any, int], width: int) -> Vector:
    """Return the features of an event (d,) by position; absent is 0, new features are ignored."""
    row = np.zeros(width)
    for name, value in event.items():
        number, j = validation.number(name, value), columns.get(name)
        if j is not None:
            row[j] = number
    return row


def group_labels(y: Labels, before: Labels) -> tuple[list[NDArray[np.intp]], Labels]:
    """Return the rows of each label, and the labels of any type in order of arrival."""
    labels = list(dict.fromkeys([*before.tolist(), *y.tolist()]))
    slots = {label: k for k, label in enumerate(labels)}
    codes = np.array([slots[label] for label in y.tolist()], dtype=np.intp)
    same = len(labels) == len(before)
    return groups(codes, len(labels)), before if same else object_array(labels)


def invalid_weight(w: Any) -> ValueError:
    """Return the error of a weight."""
    return ValueError(f"w must be a finite weight that is not negative; got {w!r}")


def require_label(label: Any) -> None:
    """Raise if a label is NaN or None."""
    if label is None or label != label:
        found = "None" if label is None else "NaN"
        raise ValueError(f"a label is {found}; drop the event, or learn it when it has a label")


def as_event(x: Any) -> dict[Any, Any]:
    """Return a mapping or pairs as a dict."""
    try:
        return dict(x)
    except (TypeError, ValueError):
        raise TypeError(
            f"an event must be a dict of features and numbers, not {type(x).__name__}; arrays are "
            "for counterpoise.BalancedRidgeClassifier, frames for learn_many"
        ) from None


def check_rows(rows: Matrix, names: list[Any], labels: list[Any] | None = None) -> None:
    """Raise unless all values are finite numbers in bounds, and each row has a label."""
    if labels is not None and len(labels) != len(rows):
        raise ValueError(f"{len(rows)} rows and {len(labels)} labels do not match")
    bad = np.argwhere(~(np.abs(rows) <= MAX_ABS_VALUE))
    if len(bad):
        i, j = bad[0]
        validation.number(names[j], rows[i, j])


def frame_rows(X: Any, columns: EventColumns) -> EventRows:
    """Return the rows (n, d) of a frame, the names of their features, and their categories."""
    frame = utils.dataframe.into_frame(X)
    names = list(X.columns) if hasattr(X, "iloc") else list(frame.columns)
    found, n = [], len(frame)
    for name in columns.roles:
        values: list[Any] = [None] * n
        if name in names:
            cells = frame.get_column(name)
            gone = cells.is_null().to_list()
            values = [
                None if is_gone else category_text(value)
                for value, is_gone in zip(cells.to_list(), gone, strict=True)
            ]
        found.append(values)
    names = [name for name in names if name not in columns.roles]
    categories = [list(row) for row in zip(*found, strict=True)] if found else [[]] * n
    if not names:
        return EventRows(np.zeros((n, 0)), names, categories)
    frame = frame.select(names) if found else frame
    try:
        rows = np.ascontiguousarray(utils.dataframe.to_numpy(frame))
    except (TypeError, ValueError):
        for name, column in zip(names, frame.iter_columns(), strict=True):
            for value in column.to_list():
                validation.number(name, value)
        raise
    return EventRows(rows, names, categories)


def align_rows(state: State, absent: str, columns: EventColumns, found: EventRows) -> Matrix:
    """Return rows in the order of a State; absent is 0, and new features are ignored."""
    rows, names, categories = found
    wide = np.zeros((len(rows), state.n_inputs))
    if absent == "missing":
        for i, row in enumerate(rows.tolist()):
            wide[i] = encode_event(state, dict(zip(names, row, strict=True)))
    else:
        at = {name: j for j, name in enumerate(state.names or [])}
        for j, name in enumerate(names):
            if name in at:
                wide[:, at[name]] = rows[:, j]
    return np.hstack([wide, columns.encode(categories)])


def label_list(y: Any) -> list[Any]:
    """Return labels of a series, an array or a list as Python objects."""
    for name in ("to_pylist", "to_list", "tolist"):
        if hasattr(y, name):
            return list(getattr(y, name)())
    return list(y)


def object_array(labels: list[Any]) -> Labels:
    """Return labels as an array of objects, which may be tuples."""
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array


def merge_states(
    mine: State, theirs: State, columns: tuple[EventColumns, EventColumns], limit: float
) -> tuple[State, EventColumns]:
    """Return the state of all events of both, and their columns; both stay as they are."""
    if mine.warmup is not None or theirs.warmup is not None:
        raise ValueError(f"merging must wait for {mine.config.rows} events, until the map is fixed")
    if not (mine.is_fitted and theirs.is_fitted):
        return (mine.copy(), columns[0]) if mine.is_fitted else (theirs.copy(), columns[1])
    both, theirs = columns[0].merge(columns[1], theirs)
    names = list(dict.fromkeys([*(mine.names or []), *(theirs.names or [])]))
    position = {name: j for j, name in enumerate(names)}
    at = np.array([position[name] for name in theirs.names or []], dtype=np.intp)
    wide = mine.copy().with_features(names, limit) if names else mine.copy()
    if theirs.names:
        theirs = theirs.reindex_features(at, names, limit)
    elif names:  # events without a feature: all are 0
        theirs = theirs.copy().with_features(names, limit)
    if wide.fixed != theirs.fixed:
        raise ValueError(
            "cannot merge models whose maps were fixed by different events; let both continue "
            "from copies of one model"
        )
    return wide.merge(theirs, limit), both


def require_unlearnable(state: State, options: Options) -> None:
    """Raise if this model cannot unlearn events."""
    if options.decay.is_active:
        raise ValueError(
            "unlearning is not possible with half_life: the present weight of an event is unknown; "
            "use river.utils.Rolling without half_life to unlearn what is old"
        )
    if state.warmup is not None:
        raise ValueError(
            f"unlearning must wait until the map is fixed, by {state.config.rows} events"
        )


def require_seen(state: State, rows: Matrix, names: list[Any], labels: list[Any]) -> None:
    """Raise if an event has a label or a feature that no learned event has; absent means 0."""
    columns, seen = set(state.names or ()), state.moments.labels[state.moments.n > 0].tolist()
    new = [j for j, name in enumerate(names) if name not in columns]
    for row, label in zip(rows, labels, strict=True):
        unseen = [names[j] for j in new if row[j]]
        if unseen or label not in seen:
            raise ValueError(
                f"cannot unlearn an event of label {label!r}"
                + (f" with feature {unseen[0]!r}" if unseen else "")
                + ": none was ever learned"
            )


def unlearn_events(
    state: State, columns: EventColumns, batch: Batch, options: Options, limit: float
) -> tuple[State, EventColumns]:
    """Return the state without these events, and columns without categories that are in no other.

    Features that are 0 in all others are left out, too.
    """
    names = [repr(name) for name in state.names or ("nothing",)]
    if state.fixed is not None:
        names = state.fixed.map.names(names)
    left = state.unlearn(
        state.moments_of_batch(batch, limit), options, lambda j: f"feature {names[j]}"
    )
    if not left.is_fitted:  # nothing is left, not even a name
        return State.empty(state.config, 1, []), EventColumns.of(columns.roles)
    left, stay = left.drop_categories()
    columns = columns.select(stay)
    if left.fixed is None and left.names and left.fill is None:
        kept = left.moments.nonconstant_weight[:, 0].max(axis=0) > 0.0
        if not kept.any():  # a row has at least one feature, if without a name
            return replace(left.select_features(np.zeros(1, np.intp)), names=[]), columns
        if not kept.all():
            return left.select_features(np.flatnonzero(kept)), columns
    return left, columns


def pack_events(
    params: dict[str, Any], absent: str, state: State, columns: EventColumns
) -> Contents:
    """Return the contents of a file for a model of events."""
    names = state.names or []
    if not state.is_fitted or not (names or columns.roles):
        raise ValueError("this model has learned no feature yet; there is nothing to save")
    for name in (*names, *columns.roles):
        if not isinstance(name, str):
            raise TypeError(f"feature {name!r} must have a text as name; use str(name) in events")
    contents = pack_ridge(params, _relabel(state, _typed_array), names)
    if absent == "zero" and not columns.roles:
        return contents
    lists = dict(contents.lists)
    if state.moments.categories is not None:
        sizes = state.moments.categories.sizes
        each = zip(columns.roles, columns.vocabularies, sizes, strict=True)
        lists["categories"] = [[name, 0, one.values[:size]] for name, one, size in each]
    return replace(contents, facts={**contents.facts, "absent": absent}, lists=lists)


def unpack_events(contents: Contents) -> tuple[dict[str, Any], State, EventColumns]:
    """Return the parameters, the state and the columns of an untrusted file."""
    facts = dict(contents.facts)
    absent = facts.pop("absent", "zero")
    check_file(absent in ("zero", "missing"), "absent features of an unknown meaning")
    check_file(absent == "missing" or "fill" not in facts, "missing features that are 0")
    contents = replace(contents, facts=facts)
    if contents.stream is not None:
        raise ModelFileError(
            "was learned from files, whose columns are encoded by rules that events do not have"
        )
    model = unpack_ridge(contents)
    categories = contents.lists.get("categories", [])
    is_coded = model.codes is not None
    names = feature_names(contents, model.n_features if contents.lists.get("names") else 0)
    if names is None or not (is_coded or len(names)):
        raise ModelFileError(
            "has no names of features, which events require; let it learn from data frames"
        )
    columns = _read_columns(categories, model.state)
    params = {**model.params.estimator_parameters, "absent": absent}
    params["columns"] = dict(columns.roles) or None
    if isinstance(params["feature_map"], FittedMap):
        raise ModelFileError("has a map that was given to it fixed, which only arrays can have")
    state = _relabel(model.state, lambda labels: object_array(labels.tolist()))
    return params, replace(state, names=names.tolist()), columns


def _read_columns(plain: list[Any], state: State) -> EventColumns:
    """Return the columns with many categories of an untrusted file, next to its state."""
    vocabularies, codes = read_vocabularies(plain), state.codes
    rows = () if codes is None else codes.pseudo_rows
    categories = state.moments.categories
    check_file(len(vocabularies) == len(rows), "other categories")
    sizes = [one.size for one in vocabularies.values()]
    check_file(categories is None or categories.sizes == sizes, "other categories")
    roles = {
        name: MANY_CATEGORIES if m is None else f"{MANY_CATEGORIES}:{m:g}"
        for name, m in zip(vocabularies, rows, strict=True)
    }
    columns = EventColumns(roles, tuple(vocabularies.values()))
    check_file(columns.codes == codes, "other categories")
    return columns


def _relabel(state: State, convert: Callable[[Labels], Labels]) -> State:
    """Return a state whose labels are converted to another type of array."""
    state = state.copy()
    moments, calibration, warmup = state.moments, state.calibration, state.warmup
    moments.labels = convert(moments.labels)
    if calibration is not None:
        calibration = replace(calibration, labels=convert(calibration.labels))
    progressive = state.progressive
    if progressive is not None:
        progressive = progressive.convert_labels(convert)
    if warmup is not None:
        warmup = replace(warmup, y=convert(warmup.y))
    return replace(
        state, moments=moments, calibration=calibration, warmup=warmup,
        declared=moments.labels[:0], progressive=progressive, names=None,
    )  # fmt: skip


def _typed_array(labels: Labels) -> Labels:
    """Return labels as an array of their type, if they have one type."""
    values = labels.tolist()
    kinds = {type(label) for label in values}
    if len(kinds) == 1 and kinds <= {str, int, bool}:
        return np.array(values)
    for label in values:
        if type(label) not in (bool, int, float) or str in kinds:
            raise TypeError(f"label {label!r} cannot be saved with the others; use text for all")
    return labels
