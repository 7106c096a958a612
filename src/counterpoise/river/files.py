"""A model of events as a file: the same as that of the array face, with the names of the features.

So what learned from events can be loaded for arrays, and what learned from frames for events. Where
absent features are missing, the file says so, and is for events alone: only they know indicators.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from counterpoise.arrays import Labels
from counterpoise.classifier import BalancedRidgeClassifier as Arrays
from counterpoise.exact.state import State
from counterpoise.features import FixedMap
from counterpoise.modelfile.container import Contents, ModelFileError, require
from counterpoise.river.frames import objects_of


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
    arrays = Arrays.with_state(_relabelled(state, _typed), **params)
    arrays.feature_names_in_ = np.array(names, dtype=object)
    contents = arrays.contents()
    if absent == "zero":
        return contents
    return replace(contents, facts={**contents.facts, "absent": absent})


def learned_of(contents: Contents) -> tuple[dict[str, Any], State]:
    """Parameters and what was learned, from a file, checked as if a stranger had written it."""
    facts = dict(contents.facts)
    absent = facts.pop("absent", "zero")
    require(absent in ("zero", "missing"), "absent features of an unknown meaning")
    require(absent == "missing" or "fill" not in facts, "missing features that are 0")
    contents = replace(contents, facts=facts)
    if contents.stream is not None:
        raise ModelFileError(
            "was learned from files, whose columns become features by rules that events do not know"
        )
    arrays = Arrays.from_contents(contents)
    names = getattr(arrays, "feature_names_in_", None)
    if names is None:
        raise ModelFileError(
            "has no names of features, which events need; let it learn from data frames"
        )
    params = {**arrays.get_params(deep=False), "absent": absent}
    if isinstance(params["features"], FixedMap):
        raise ModelFileError("has a map that was given to it fixed, which only arrays can have")
    state = _relabelled(arrays.state_, lambda labels: objects_of(labels.tolist()))
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
