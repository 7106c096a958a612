"""A model of events as a file: the same as that of the array face, with the names of the features.

So what learned from events can be loaded for arrays, and what learned from frames for events. Where
absent features are missing, the file says so, and is for events alone: only they know indicators.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import utils

from counterpoise import validation
from counterpoise.arrays import Labels, Matrix, Vector, groups
from counterpoise.engine.state import Batch, State
from counterpoise.errors import ModelFileError
from counterpoise.feature_maps import FittedMap
from counterpoise.modelfile.container import Contents, check_file
from counterpoise.modelfile.engines import feature_names, pack_ridge, unpack_ridge
from counterpoise.solver.attribution import explain
from counterpoise.solver.options import Options
from counterpoise.solver.scores import Scores


def grouped(y: Labels, known: Labels) -> tuple[list[NDArray[np.intp]], Labels]:
    """Rows of each label, and the labels in order of arrival, of whatever type they are."""
    labels = list(dict.fromkeys([*known.tolist(), *y.tolist()]))
    slots = {label: k for k, label in enumerate(labels)}
    codes = np.array([slots[label] for label in y.tolist()], dtype=np.intp)
    same = len(labels) == len(known)
    return groups(codes, len(labels)), known if same else objects_of(labels)


def bad_weight(w: Any) -> ValueError:
    """What is wrong with a weight."""
    return ValueError(f"w={w!r} must be a finite weight that is not negative")


def require_label(label: Any) -> None:
    """Raise if a label is NaN, or None, which stands for a label that is not known yet."""
    if label is None or label != label:
        told = "None" if label is None else "NaN"
        raise ValueError(f"a label is {told}; drop the event, or learn it when its label is known")


def event_of(x: Any) -> dict[Any, Any]:
    """An event as a dict, of a mapping or of pairs."""
    try:
        return dict(x)
    except (TypeError, ValueError):
        raise TypeError(
            f"an event must be a dict of features and numbers, not {type(x).__name__}; arrays are "
            "for counterpoise.BalancedRidgeClassifier, frames for learn_many"
        ) from None


def require_numbers(rows: Matrix, names: list[Any]) -> None:
    """Raise unless all values are numbers in bounds, naming the feature."""
    bad = np.argwhere(~(np.abs(rows) <= validation.MAX_ABS_VALUE))
    if len(bad):
        i, j = bad[0]
        validation.number(names[j], rows[i, j])


def matrix_of(X: Any) -> tuple[Matrix, list[Any]]:
    """Rows of a frame, of shape (n, d), and the names of its columns."""
    frame = utils.dataframe.into_frame(X)
    names = list(X.columns) if hasattr(X, "iloc") else list(frame.columns)
    try:
        rows = np.ascontiguousarray(utils.dataframe.to_numpy(frame))
    except (TypeError, ValueError):
        for name, column in zip(names, frame.iter_columns(), strict=True):
            for value in column.to_list():
                validation.number(name, value)
        raise
    return rows, names


def labels_of(y: Any) -> list[Any]:
    """Labels as Python objects, of a series, an array or a list."""
    for name in ("to_pylist", "to_list", "tolist"):
        if hasattr(y, name):
            return list(getattr(y, name)())
    return list(y)


def numbers_of(w: Any) -> Any:
    """Weights as NumPy takes them."""
    return w.to_numpy() if hasattr(w, "to_numpy") else w


def objects_of(labels: list[Any]) -> Labels:
    """An array of labels as they are, tuples included."""
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array


def require_same_options(mine: Options, theirs: Options) -> None:
    """Raise unless two models learn and look in the same way; who calibrates may differ."""
    for name, value in vars(mine).items():
        if value != getattr(theirs, name) and name != "calibrate":
            raise ValueError(
                f"cannot merge models with different options: {name} is {value!r} here and "
                f"{getattr(theirs, name)!r} there"
            )


def joined(mine: State, theirs: State, limit: float) -> State:
    """What was learned here, followed by what was learned there; both stay as they are."""
    if mine.plan != theirs.plan:
        raise ValueError(
            f"cannot merge models with different options: features is {mine.plan.text!r} here and "
            f"{theirs.plan.text!r} there"
        )
    if mine.warmup is not None or theirs.warmup is not None:
        raise ValueError(f"merging must wait until the maps are fixed, by {mine.plan.rows} events")
    if not (mine.begun and theirs.begun):
        return (mine if mine.begun else theirs).copy()
    known = mine.names or []
    names = known + [name for name in theirs.names or [] if name not in set(known)]
    places = {name: j for j, name in enumerate(names)}
    at = np.array([places[name] for name in theirs.names or []], dtype=np.intp)
    wide = mine.copy().widened(names, limit) if names else mine.copy()
    if theirs.names:
        theirs = theirs.placed(at, names, limit)
    elif names:  # events without a feature: all are 0
        theirs = theirs.copy().widened(names, limit)
    if wide.fixed != theirs.fixed:
        raise ValueError(
            "cannot merge models whose maps were fixed by different events; let both go on from "
            "copies of one model"
        )
    return wide.merged(theirs, limit)


def require_possible(state: State, options: Options) -> None:
    """Raise if this model can take nothing back."""
    if options.decay.is_active:
        raise ValueError(
            "unlearning is not possible with half_life: how far an event has faded is not known; "
            "use river.utils.Rolling without half_life to unlearn what is old"
        )
    if state.warmup is not None:
        raise ValueError(
            f"unlearning must wait until the map is fixed, by {state.plan.rows} events"
        )


def require_known(state: State, rows: Matrix, names: list[Any], labels: list[Any]) -> None:
    """Raise if an event has a label or a feature that no learned event has; absent means 0."""
    known, seen = set(state.names or ()), set(state.moments.labels[state.moments.n > 0].tolist())
    new = [j for j, name in enumerate(names) if name not in known]
    for row, label in zip(rows, labels, strict=True):
        strange = [names[j] for j in new if row[j]]
        if strange or label not in seen:
            raise ValueError(
                f"cannot unlearn an event of label {label!r}"
                + (f" with feature {strange[0]!r}" if strange else "")
                + ": none was ever learned"
            )


def without(state: State, batch: Batch, options: Options, limit: float) -> State:
    """What is learned without these events; features that no event is left with are gone too."""
    chunk = state.gathered(batch, limit)
    names = [repr(name) for name in state.names or ("nothing",)]
    if state.fixed is not None:
        names = state.fixed.names(names)
    left = state.unlearn(chunk, options, lambda j: f"feature {names[j]}")
    if not left.begun:
        return State.empty(state.plan, 1, [])  # nothing is left, not even a name
    if left.fixed is None and left.names and left.fill is None:
        held = left.moments.nonconstant_weight[:, 0].max(axis=0) > 0.0
        if not held.any():  # a row has at least one feature, if without a name
            return replace(left.only(np.zeros(1, np.intp)), names=[])
        if not held.all():
            return left.only(np.flatnonzero(held))
    return left


def explained_one(
    scores: Scores, state: State, options: Options, row: Vector, y: Any
) -> dict[Any, float]:
    """Contributions by feature to the score of a label, or of the predicted one if it is None."""
    labels = scores.classes.labels.tolist()
    label = scores.classes.best(scores.of(row[None]))[0] if y is None else y
    if label not in labels:
        raise never_learned(label)
    found = explain(scores, state.moments, options, row[None], None).for_class(label)
    return dict(zip(state.names or [], found.values[0].tolist(), strict=False))


def never_learned(label: Any) -> ValueError:
    """What is wrong with a label that nothing is known of."""
    return ValueError(f"no event of label {label!r} was ever learned: there are no reasons for it")


def contents_of(params: dict[str, Any], absent: str, state: State) -> Contents:
    """What a file is to hold of a model of events, in which absent features mean this."""
    names = state.names or []
    if not state.begun or not names:
        raise ValueError("this model has learned no feature yet; there is nothing to save")
    strange = [name for name in names if not isinstance(name, str)]
    if strange:
        raise TypeError(
            f"feature {strange[0]!r} is not named by text, and files know no other names; "
            "use str(name) in the events"
        )
    contents = pack_ridge(params, _relabelled(state, _typed), names)
    if absent == "zero":
        return contents
    return replace(contents, facts={**contents.facts, "absent": absent})


def learned_of(contents: Contents) -> tuple[dict[str, Any], State]:
    """Parameters and what was learned, from a file, checked as if a stranger had written it."""
    facts = dict(contents.facts)
    absent = facts.pop("absent", "zero")
    check_file(absent in ("zero", "missing"), "absent features of an unknown meaning")
    check_file(absent == "missing" or "fill" not in facts, "missing features that are 0")
    contents = replace(contents, facts=facts)
    if contents.stream is not None:
        raise ModelFileError(
            "was learned from files, whose columns become features by rules that events do not know"
        )
    model = unpack_ridge(contents)
    names = feature_names(contents, model.n_features)
    if names is None:
        raise ModelFileError(
            "has no names of features, which events need; let it learn from data frames"
        )
    params = {**model.params.given, "absent": absent}
    if isinstance(params["feature_map"], FittedMap):
        raise ModelFileError("has a map that was given to it fixed, which only arrays can have")
    state = _relabelled(model.state, lambda labels: objects_of(labels.tolist()))
    return params, replace(state, names=names.tolist())


def _relabelled(state: State, as_wanted: Any) -> State:
    """The same with labels of another type of array."""
    moments, calibration, warmup = state.moments.copy(), state.calibration, state.warmup
    moments.labels = as_wanted(moments.labels)
    if calibration is not None:
        calibration = replace(calibration, labels=as_wanted(calibration.labels))
    progressive = state.progressive
    if progressive is not None:
        progressive = progressive.relabeled(as_wanted)
    if warmup is not None:
        warmup = replace(warmup, y=as_wanted(warmup.y))
    return replace(
        state, moments=moments, calibration=calibration, warmup=warmup,
        declared=moments.labels[:0], progressive=progressive, names=None, _scores=None, _open=None,
    )  # fmt: skip


def _typed(labels: Labels) -> Labels:
    """Labels as an array of their type, where they have one."""
    values = labels.tolist()
    kinds = {type(label) for label in values}
    if len(kinds) == 1 and kinds <= {str, int, bool}:
        return np.array(values)
    for label in values:
        if type(label) not in (bool, int, float) or str in kinds:
            raise TypeError(f"label {label!r} cannot be saved with the others; use text for all")
    return labels
