"""Engines in model files: packing, and unpacking of untrusted files."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from counterpoise.arrays import Labels
from counterpoise.encoding.columns import feature_name
from counterpoise.engine import parameters
from counterpoise.engine.auto import AutoModel, Engine
from counterpoise.engine.candidates import Candidates
from counterpoise.engine.parameters import AUTO_PARAMETERS, LINEAR, AutoParameters, map_name
from counterpoise.engine.ridge import RidgeModel
from counterpoise.engine.row_buffer import RowBuffer
from counterpoise.engine.state import LearningConfig, State
from counterpoise.errors import ModelFileError
from counterpoise.feature_maps import FittedMap, Map
from counterpoise.feature_maps.fitted import feature_map_name
from counterpoise.modelfile import container
from counterpoise.modelfile.container import Contents, check_file
from counterpoise.modelfile.values import (
    calibration_from,
    fill_of,
    labels_of,
    map_from,
    pack_moments,
    plain_fill,
    plain_labels,
    progressive_from,
    unpack_moments,
    with_calibration,
    with_map,
    with_progressive,
    without_map,
    without_progressive,
)
from counterpoise.moments.classes import union
from counterpoise.validation import MAX_ABS_VALUE, Names


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of an estimator as JSON can hold them; a dict by label becomes pairs."""

    def plain(value: Any) -> Any:
        if isinstance(value, Map | FittedMap):
            return feature_map_name(value)
        if isinstance(value, tuple | list):
            return [plain(one) for one in value]
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, Real) and not isinstance(value, (bool, int)):
            value = float(value)
        if isinstance(value, Mapping):
            pairs = [[plain(key), plain(number)] for key, number in value.items()]
            return {"by label": sorted(pairs, key=lambda pair: (str(type(pair[0])), pair[0]))}
        return value

    return {name: plain(value) for name, value in options.items()}


def options_of(plain: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Parameters of an estimator from what :func:`plain_options` made of them."""
    check_file(set(plain) == set(known), f"options {sorted(plain)}, expected {sorted(known)}")
    result = {}
    for name, value in plain.items():
        if isinstance(value, dict):
            pairs = value.get("by label")
            good = set(value) == {"by label"} and isinstance(pairs, list)
            good = good and all(
                isinstance(p, list)
                and len(p) == 2
                and isinstance(p[0], (str, bool, int, float))
                and isinstance(p[1], (int, float))
                for p in pairs or []
            )
            check_file(good, f"option {name!r} of the wrong form")
            value = dict(pairs or [])
        check_file(
            value is None or isinstance(value, (str, bool, int, float, dict)),
            f"option {name!r} of the wrong type",
        )
        result[name] = value
    return result


@contextmanager
def parameter_errors_as_file_errors() -> Iterator[None]:
    """Blame the file for parameters that have no meaning."""
    try:
        yield
    except ValueError as error:
        raise ModelFileError(
            f"is not a valid model file: it has an impossible option: {error}"
        ) from None


def engine_contents(
    kind: str,
    params: Mapping[str, Any],
    arrays: dict[str, Any],
    facts: dict[str, Any],
    names: Names | None = None,
) -> Contents:
    """Return the contents of a file, given parameters, learned values and names of features."""
    lists = {} if names is None else {"names": [str(name) for name in names]}
    return Contents(kind, plain_options(dict(sorted(params.items()))), arrays, facts, lists=lists)


def feature_names(contents: Contents, d: int) -> Labels | None:
    """Names of the features, if the file has them. Shape of the result: (d,)."""
    if "features" in contents.lists:
        features = contents.lists["features"]
        good = all(isinstance(f, list) and len(f) == 3 for f in features)
        check_file(
            good and all(isinstance(part, str) for f in features for part in f),
            "malformed features",
        )
        names = [feature_name(*feature) for feature in features]
    elif "names" in contents.lists:
        names = contents.lists["names"]
    else:
        return None
    good = len(names) == d and all(isinstance(name, str) for name in names)
    check_file(good, "names that do not fit its features")
    return np.array(names, dtype=object)


def pack(engine: Engine, names: Names | None = None) -> Contents:
    """Return the contents of a file for an engine, whose features have these names."""
    if isinstance(engine, RidgeModel):
        return pack_ridge(engine.params.given, engine.state, names)
    params = engine.params
    arrays, facts = pack_candidates(engine)
    given = params.given
    given["candidates"] = None if params.has_default_candidates else " ".join(params.names)
    given["ridges"] = " ".join(map(repr, given["ridges"]))
    return engine_contents(engine.kind, given, arrays, facts, names)


KINDS = (RidgeModel.kind, AutoModel.kind)


def unpack(contents: Contents) -> Engine:
    """Return the engine of an untrusted file."""
    return unpack_auto(contents) if contents.kind == AutoModel.kind else unpack_ridge(contents)


def pack_ridge(params: Mapping[str, Any], state: State, names: Names | None = None) -> Contents:
    """Return the contents of a file for a state, given the parameters of its model."""
    state.score_pending()
    arrays, facts = pack_moments(state.moments, state.config.decay)
    facts["declared"] = plain_labels(state.declared)
    if state.fill is not None:
        facts["fill"] = plain_fill(state.fill)
    contents = engine_contents(RidgeModel.kind, params, arrays, facts, names)
    if state.calibration is not None and state.calibration.rows:
        contents = with_calibration(contents, state.calibration)
    if state.progressive is not None:
        contents = with_progressive(contents, state.progressive, state.moments.labels)
    if state.config.text is None:
        return contents
    given = state.config.given is not None
    moments, clipped = state.moments, float(state.moments.clipped[0])
    return with_map(contents, state.fixed, state.warmup, moments.labels, given, clipped)


def state_of(contents: Contents, config: LearningConfig) -> State:
    """What was learned, from a file; a map that was given is in the file and not in the plan."""
    if "absent" in contents.facts:
        raise ModelFileError(
            "was learned from events that lack features; use "
            "counterpoise.river.BalancedRidgeClassifier.load"
        )
    wanted = {"labels", "declared", "features"}
    wanted |= {"map"} if config.text else set()
    check_file(
        set(contents.facts) - {"calibration", "progressive", "fill"} == wanted, "unexpected facts"
    )
    plain, mapped = without_map(contents)
    plain, calibration = calibration_from(plain)
    plain, scoring = without_progressive(plain)
    moments = unpack_moments(plain, config.decay)
    progressive = progressive_from(contents.facts, scoring, moments)
    left = set(moments.labels[moments.n > 0].tolist())
    for one in (calibration, None if progressive is None else progressive.pending):
        strange = set() if one is None else set(one.labels.tolist()) - left
        check_file(not strange, "calibration counts of a class that was never seen")
    declared = labels_of(contents.facts["declared"])
    union(declared, moments.labels)
    if config.text is None:
        check_file(not mapped, "a map that is not used")
        state = State(config, moments, declared, calibration=calibration, progressive=progressive)
        return state.with_imputation(fill_of(contents.facts.get("fill"), state.n_inputs))
    fixed, warmup = map_from(
        mapped, contents.facts["map"], contents.options["feature_map"], moments, config.decay
    )
    state = State(
        config, moments, declared, fixed, warmup, calibration=calibration, progressive=progressive
    )
    return state.with_imputation(fill_of(contents.facts.get("fill"), state.n_inputs))


def unpack_ridge(contents: Contents) -> RidgeModel:
    """Return the ridge model of an untrusted file."""
    given = options_of(contents.options, parameters.RIDGE_PARAMETERS)
    with parameter_errors_as_file_errors():
        params = parameters.parse_ridge_parameters(**given)
    state = state_of(contents, params.config)
    if state.fixed is not None and contents.facts["map"]["given"]:
        config = replace(params.config, given=state.fixed, map=state.fixed.map)
        params = params._replace(config=config, feature_map=state.fixed)
    state.config = params.config
    return RidgeModel(params, state)


class SaveLoadMixin:
    """Methods ``save`` and ``load`` of estimators."""

    _learned_from: str

    def _contents(self) -> Contents:
        """Return the contents of a file for this estimator."""
        raise NotImplementedError

    @classmethod
    def _from_contents(cls, contents: Contents) -> Any:
        """Return the estimator of an untrusted file."""
        raise NotImplementedError

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save as a safetensors file, which holds numbers and strings and never code.

        Parameters
        ----------
        path : path
            Where to. An older file is replaced, or left as it was if anything goes wrong.
        """
        if "_learned_from" in self.__dict__:
            raise ValueError(
                f"this model was learned from tables, and only {self._learned_from} knows how "
                "their columns become features; use counterpoise.TableClassifier.load, and its save"
            )
        container.save(path, self._contents(), type(self)._from_contents)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Any:
        """Load what :meth:`save` has written, bit-identical, and go on learning if you like.

        Of a file that the command line or :class:`~counterpoise.TableClassifier` has written, this
        is the model of encoded rows, to look at; the columns that these are made of are known to
        :meth:`counterpoise.TableClassifier.load` alone.

        Parameters
        ----------
        path : path
            The file. It is not trusted: whatever is not a whole and possible model is refused.

        Returns
        -------
        The estimator.
        """
        contents = container.load(path)
        if contents.kind != cls.__name__:
            raise ModelFileError(
                f"{os.fspath(path)} holds a {contents.kind}, not a {cls.__name__}; use "
                f"{contents.kind}.load"
            )
        result = container.load_validated(path, lambda: cls._from_contents(contents))
        if contents.stream is not None and "features" in contents.lists:
            result._learned_from = os.fspath(path)
        return result


def pack_candidates(engine: AutoModel) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return tensors and facts of candidates."""
    candidates = engine.candidates
    labels = candidates.first.classes.labels
    X, code, weight, clock = candidates.kept.arrays(labels)
    arrays: dict[str, Any] = {"kept": X, "kept weight": weight, "kept clock": clock}
    counts = np.bincount(code, minlength=len(labels)).tolist()
    parts = []
    for i, model in enumerate(engine.models):
        part = pack(model)
        arrays |= {f"{i} {name}": array for name, array in part.arrays.items()}
        parts.append({"options": part.options, "facts": part.facts})
    return arrays, {
        "models": parts,
        "names": candidates.names,
        "rows": candidates.rows,
        "kept": {"labels": plain_labels(labels), "counts": counts},
        "weighted": candidates.is_weighted,
    }


def unpack_auto(contents: Contents) -> AutoModel:
    """Return the averaging model of an untrusted file."""
    given = options_of(contents.options, AUTO_PARAMETERS)
    if given["candidates"] is None:
        given["candidates"] = _unusual(contents.facts)
    usual = given["candidates"] is None
    texts = (given["ridges"],) if usual else (given["candidates"], given["ridges"])
    check_file(all(isinstance(text, str) for text in texts), "malformed candidates")
    if not usual:
        given["candidates"] = tuple(given["candidates"].split(" "))
    given["ridges"] = tuple(map(float, given["ridges"].split(" ")))
    with parameter_errors_as_file_errors():
        params = parameters.parse_auto_parameters(**given)
    found = _candidates(contents, params)
    fixed = {name: state.config.given for name, state in found.states.items()}
    if not usual:
        given["candidates"] = tuple(fixed.get(name) or name for name in params.names)
        params = parameters.parse_auto_parameters(**given)
    return AutoModel(params, found)


def _unusual(facts: dict[str, Any]) -> str | None:
    """Return the names of candidates that were the default ones of another version, or None."""
    names: Any = facts.get("names")
    is_list = isinstance(names, list) and bool(names)
    check_file(is_list and all(isinstance(name, str) for name in names), "malformed candidates")
    return None if names == list(parameters.CANDIDATES) else " ".join(names)


def _candidates(contents: Contents, params: AutoParameters) -> Candidates:
    """Return the candidates of a file."""
    facts, names = contents.facts, params.names
    check_file(set(facts) == {"models", "names", "rows", "kept", "weighted"}, "unexpected facts")
    rows = facts["rows"]
    check_file(facts["names"] == names, "candidates that do not match their names")
    check_file(type(rows) is int and rows > 0, "impossible counts")
    maps = list(dict.fromkeys(map_name(name) for name in names))
    parts = zip(facts["models"], maps, strict=True)
    models = [_model(contents, i, *part) for i, part in enumerate(parts)]
    states = [model.state for model in models]
    check_file(len({state.n_inputs for state in states}) == 1, "candidates of other features")
    for state in states:
        check_file(
            np.allclose(state.class_count, states[0].class_count, rtol=1e-9, atol=0.0),
            "candidates that have seen different rows",
        )
    check_file(type(facts["weighted"]) is bool, "malformed facts")
    check_file(
        facts["weighted"] or int(states[0].class_count.sum()) == rows,
        "a candidate that has seen a different number of rows",
    )
    used = {f"{i} {k}" for i in range(len(models)) for k in _of_part(contents, i)}
    check_file(
        set(contents.arrays) == used | {"kept", "kept weight", "kept clock"}, "unexpected tensors"
    )
    same = all(model.options == params.options for model in models)
    check_file(same, "a candidate with other options")
    kept = _kept(contents, params.kept_rows, states[0])
    by_name = dict(zip(maps, states, strict=True))
    how = params.options, params.ridges
    return Candidates(list(names), by_name, *how, kept, rows, facts["weighted"])


def _kept(contents: Contents, most: int, state: State) -> RowBuffer:
    """Kept rows from a file."""
    facts = contents.facts["kept"]
    check_file(set(facts) == {"labels", "counts"}, "malformed kept rows")
    labels, counts = labels_of(facts["labels"]), facts["counts"]
    X, weight, clock = (contents.arrays[k] for k in ("kept", "kept weight", "kept clock"))
    possible_counts = all(type(n) is int and 0 <= n <= most for n in counts)
    check_file(possible_counts and len(counts) == len(labels), "impossible counts of kept rows")
    n, classes = sum(counts), state.classes
    check_file(
        X.shape == (n, state.n_inputs) and weight.shape == clock.shape == (n,),
        "kept rows of the wrong shape",
    )
    check_file(np.abs(X).max(initial=0.0) <= MAX_ABS_VALUE, "kept rows of impossible values")
    N = dict(zip(classes.labels.tolist(), state.class_count.tolist(), strict=True))
    ends, rows = np.cumsum([0, *counts]).tolist(), {}
    for k, (label, count) in enumerate(zip(labels.tolist(), counts, strict=True)):
        mine = slice(ends[k], ends[k + 1])
        w, at, total = weight[mine], clock[mine], N.get(label, 0.0)
        held = (w > 0).all() and (np.diff(at) > 0).all() and (at >= w).all()
        check_file(
            bool(held and (at <= total * (1 + 1e-9)).all()), "kept rows of impossible weights"
        )
        check_file(count == 0 or total > 0.0, "kept rows of a class that was never seen")
        check_file(count > 0 or total == 0.0, "no kept rows of a class")
        if count:
            parts = zip(X[mine].copy(), w.tolist(), at.tolist(), strict=True)
            rows[label] = tuple(parts)
    return RowBuffer(most, rows)


def _of_part(contents: Contents, i: int) -> dict[str, Any]:
    """Return the tensors of one map."""
    start = f"{i} "
    return {k[len(start) :]: v for k, v in contents.arrays.items() if k.startswith(start)}


def _model(contents: Contents, i: int, part: Any, name: str) -> RidgeModel:
    """Return a candidate of a file."""
    learned = unpack_ridge(replace(contents, arrays=_of_part(contents, i), **part))
    check_file((learned.state.config.text or LINEAR) == name, f"a candidate {name!r}")
    return learned
