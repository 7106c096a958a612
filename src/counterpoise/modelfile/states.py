"""A State as what a model file can hold, and back, trusting nothing."""

from __future__ import annotations

from typing import Any

from counterpoise.exact.classes import union
from counterpoise.exact.state import Plan, State
from counterpoise.modelfile import options
from counterpoise.modelfile.calibrations import calibration_from, with_calibration
from counterpoise.modelfile.container import Contents, ModelFileError, require
from counterpoise.modelfile.fills import fill_of, plain_fill
from counterpoise.modelfile.labels import labels_of, plain_labels
from counterpoise.modelfile.maps import map_from, with_map, without_map
from counterpoise.modelfile.moments import pack, unpack
from counterpoise.modelfile.progressive import (
    progressive_from,
    with_progressive,
    without_progressive,
)


def contents_of(estimator: Any, state: State) -> Contents:
    """What a file is to hold of an estimator that has learned this."""
    state.score_pending()
    arrays, facts = pack(state.moments, state.plan.half_life)
    facts["declared"] = plain_labels(state.declared)
    if state.fill is not None:
        facts["fill"] = plain_fill(state.fill)
    contents = options.contents_of(estimator, arrays, facts)
    if state.calibration is not None and state.calibration.rows:
        contents = with_calibration(contents, state.calibration)
    if state.progressive is not None:
        contents = with_progressive(contents, state.progressive, state.moments.labels)
    if state.plan.text is None:
        return contents
    given = state.plan.given is not None
    moments, clipped = state.moments, float(state.moments.clipped[0])
    return with_map(contents, state.fixed, state.warmup, moments.labels, given, clipped)


def state_of(contents: Contents, plan: Plan) -> State:
    """What was learned, from a file; a map that was given is in the file and not in the plan."""
    if "absent" in contents.facts:
        raise ModelFileError(
            "was learned from events that lack features; use "
            "counterpoise.river.BalancedRidgeClassifier.load"
        )
    wanted = {"labels", "declared", "features", "extremes"}
    wanted |= {"map"} if plan.text else set()
    require(
        set(contents.facts) - {"calibration", "progressive", "fill"} == wanted, "unexpected facts"
    )
    plain, mapped = without_map(contents)
    plain, calibration = calibration_from(plain)
    plain, scoring = without_progressive(plain)
    moments = unpack(plain, plan.extremes, plan.half_life)
    progressive = progressive_from(contents.facts, scoring, moments)
    left = set(moments.labels[moments.n > 0].tolist())
    for one in (calibration, None if progressive is None else progressive.pending):
        strange = set() if one is None else set(one.labels.tolist()) - left
        require(not strange, "calibration counts of a class that was never seen")
    declared = labels_of(contents.facts["declared"])
    union(declared, moments.labels)
    if plan.text is None:
        require(not mapped, "a map that is not used")
        state = State(plan, moments, declared, calibration=calibration, progressive=progressive)
        return state.filling(fill_of(contents.facts.get("fill"), state.inputs))
    fixed, warmup = map_from(
        mapped, contents.facts["map"], contents.options["features"], moments, plan.half_life
    )
    state = State(
        plan, moments, declared, fixed, warmup, calibration=calibration, progressive=progressive
    )
    return state.filling(fill_of(contents.facts.get("fill"), state.inputs))
