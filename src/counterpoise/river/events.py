"""Events of river: encoding, missing features, merging, unlearning, explanations and files.

A file of events can be loaded for arrays, and a file of frames for events. Where absent features
are missing, the file records it and is for events alone, because only these have indicators.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

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
from counterpoise.solver.imputation import MeanImputation
from counterpoise.solver.options import Options
from counterpoise.solver.scores import Scores
from counterpoise.validation import MAX_ABS_VALUE


class MissingIndicator(NamedTuple):
    """How rows say whether a feature is there: its indicator, its constant, and what 1 means."""

    flag: Any
    base: float
    present: bool


class EncodedEvents(NamedTuple):
    """Events as rows (n, d), the names of their features, and which of them may be missing."""

    rows: Matrix
    names: list[Any]
    fill: MeanImputation | None


def known(state: State) -> dict[Any, MissingIndicator]:
    """Features that may be missing, by name."""
    fill, names = state.fill, state.names or []
    if fill is None:
        return {}
    parts = zip(
        *(part.tolist() for part in (fill.at, fill.by, fill.base, fill.present)), strict=True
    )
    return {names[at]: MissingIndicator(names[by], base, there) for at, by, base, there in parts}


def encode_events(state: State, events: Iterable[dict[Any, Any]]) -> EncodedEvents:
    """Events that are to be learned, with the features and indicators that they bring."""
    names, gaps = list(state.names or []) if state.begun else [], known(state)
    flags = {gap.flag for gap in gaps.values()}
    usual = dict(zip(names, state.mean.tolist(), strict=True)) if names else {}
    first, found = not state.begun, []
    for event in events:
        values = _present_features(event)
        for name, value in values.items():
            if name in flags:
                raise ValueError(f"feature {name!r} has the name of an indicator; rename it")
            if name in usual:
                continue
            usual[name] = value
            names.append(name)
            if not first:  # a map knows values as they are
                base = value if state.plan.text is None else 0.0
                gaps[name] = MissingIndicator(_unused(name, "present", names), base, True)
                names.append(gaps[name].flag)
                flags.add(gaps[name].flag)
        for name in usual:
            if name not in values and name not in gaps and name not in flags:
                gaps[name] = MissingIndicator(_unused(name, "missing", names), usual[name], False)
                names.append(gaps[name].flag)
                flags.add(gaps[name].flag)
        found.append(_told(values, gaps))
        first = False
    place = {name: j for j, name in enumerate(names)}
    rows = np.zeros((len(found), len(names)))
    for i, event in enumerate(found):
        for name, value in event.items():
            rows[i, place[name]] = value
    return EncodedEvents(rows, names, _fill(gaps, place))


class Layout:
    """Positions of features and indicators, to make rows of single events with little overhead."""

    def __init__(self, state: State) -> None:
        names, gaps = list(state.names or []), known(state)
        at = {name: j for j, name in enumerate(names)}
        flags = {gap.flag for gap in gaps.values()}
        self._blank = [0.0] * len(names)
        self._plain = {name: at[name] for name in names if name not in gaps and name not in flags}
        self._gaps: dict[Any, tuple[int, int, float, float]] = {}
        for name, gap in gaps.items():
            j, by = at[name], at[gap.flag]
            if gap.present:
                self._gaps[name] = j, by, gap.base, 1.0
            else:
                self._gaps[name] = j, by, 0.0, 0.0
                self._blank[j], self._blank[by] = gap.base, 1.0

    def row(self, event: dict[Any, Any]) -> list[float] | None:
        """Return an event as a row; None if it has a new feature, or lacks one for the first time.

        Only values that are Python's floats are taken; others are for :func:`encode_events`.
        """
        row, found = self._blank.copy(), 0
        for name, value in event.items():
            if value is None or value != value:  # as absent as what it does not name
                continue
            if type(value) is not float or not -MAX_ABS_VALUE <= value <= MAX_ABS_VALUE:
                return None
            gap = self._gaps.get(name)
            if gap is not None:
                j, by, base, flag = gap
                row[j], row[by] = value - base, flag
            elif name in self._plain:
                row[self._plain[name]] = value
                found += 1
            else:
                return None
        return row if found == len(self._plain) else None


def filling(state: State) -> MeanImputation | None:
    """Which features may be missing, at their places as they are now."""
    return _fill(known(state), {name: j for j, name in enumerate(state.names or [])})


def encode_event(state: State, event: dict[Any, Any]) -> Vector:
    """One event that is to be predicted, as the model knows its features, of shape (d,)."""
    values = _present_features(event)
    gaps, row = known(state), np.zeros(state.inputs)
    flags = {gap.flag for gap in gaps.values()}
    told = _told(values, gaps)
    for j, name in enumerate(state.names or []):
        if name in told:
            row[j] = told[name]
        elif name not in gaps and name not in flags:  # it was never missing: the mean
            row[j] = state.mean[j]
    return row


def merge_contributions(state: State, reasons: dict[Any, float]) -> dict[Any, float]:
    """Reasons by feature, in which whether it is there counts with what it is."""
    result = dict(reasons)
    for name, gap in known(state).items():
        result[name] += result.pop(gap.flag)
    return result


def _present_features(event: dict[Any, Any]) -> dict[Any, float]:
    """Features that an event has; None and NaN are as absent as what it does not name."""
    return {
        name: validation.number(name, value)
        for name, value in event.items()
        if value is not None and value == value
    }


def _told(values: dict[Any, float], gaps: dict[Any, MissingIndicator]) -> dict[Any, float]:
    """Values of one event, and what its indicators say."""
    result = dict(values)
    for name, gap in gaps.items():
        if gap.present and name in values:
            result[name], result[gap.flag] = values[name] - gap.base, 1.0
        elif not gap.present and name not in values:
            result[name], result[gap.flag] = gap.base, 1.0
    return result


def _unused(name: Any, what: str, names: list[Any]) -> Any:
    """A name for an indicator that no feature has."""
    flag: Any = f"{name} is {what}" if isinstance(name, str) else (name, what)
    while flag in names:
        flag = f"{flag}'" if isinstance(flag, str) else (*flag, "'")
    return flag


def _fill(gaps: dict[Any, MissingIndicator], place: dict[Any, int]) -> MeanImputation | None:
    there = {n: gap for n, gap in gaps.items() if n in place and gap.flag in place}
    return MeanImputation.of(
        [place[name] for name in there],
        [place[gap.flag] for gap in there.values()],
        [gap.base for gap in there.values()],
        [gap.present for gap in there.values()],
    )


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
        names = state.fixed.map.names(names)
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
