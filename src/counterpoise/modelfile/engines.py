"""Engines in model files: packing, and unpacking of untrusted files."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from counterpoise.arrays import Labels
from counterpoise.encoding.columns import FEATURE_NAMES, Feature
from counterpoise.encoding.vocabulary import Vocabulary
from counterpoise.engine import parameters
from counterpoise.engine.auto import AutoModel, Engine
from counterpoise.engine.candidates import MAX_RECENT_ROWS, Candidates
from counterpoise.engine.parameters import AUTO_PARAMETERS, LINEAR, AutoParameters, map_name
from counterpoise.engine.ridge import RidgeModel
from counterpoise.engine.row_buffer import RowBuffer
from counterpoise.engine.state import State
from counterpoise.errors import ModelFileError
from counterpoise.feature_maps import FittedMap, Map
from counterpoise.feature_maps.fitted import feature_map_name
from counterpoise.modelfile import container
from counterpoise.modelfile.category_values import MALFORMED
from counterpoise.modelfile.container import Contents, check_file, invalid_file
from counterpoise.modelfile.values import (
    check_fields,
    labels_of,
    pack_calibration,
    pack_state,
    plain_labels,
    tensors_of,
    unpack_calibration,
    unpack_state,
)
from counterpoise.validation import MAX_ABS_VALUE, Names


def plain_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters of an estimator as JSON can hold them; a dict by label becomes pairs."""
    return {name: _plain(value) for name, value in options.items()}


def _plain(value: Any) -> Any:
    """Return a parameter as JSON can hold it."""
    if isinstance(value, Map | FittedMap):
        return feature_map_name(value)
    if isinstance(value, tuple | list):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Real) and not isinstance(value, (bool, int)):
        value = float(value)
    if isinstance(value, Mapping):
        pairs = [[_plain(key), _plain(number)] for key, number in value.items()]
        return {"by label": sorted(pairs, key=lambda pair: (str(type(pair[0])), pair[0]))}
    return value


def options_of(plain: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return parameters from the result of :func:`plain_options`, checked."""
    check_file(set(plain) == set(known), f"options {sorted(plain)}, expected {sorted(known)}")
    result = {}
    for name, value in plain.items():
        if isinstance(value, dict):
            malformed = f"option {name!r} of the wrong form"
            check_fields(value, {"by label"}, malformed)
            check_file(isinstance(value["by label"], list), malformed)
            for pair in value["by label"]:
                check_file(isinstance(pair, list) and len(pair) == 2, malformed)
                is_label = isinstance(pair[0], (str, bool, int, float))
                check_file(is_label and isinstance(pair[1], (int, float)), malformed)
            value = dict(value["by label"])
        if not (value is None or isinstance(value, (str, bool, int, float, dict))):
            raise invalid_file(f"option {name!r} of the wrong type")
        result[name] = value
    return result


@contextmanager
def parameter_errors_as_file_errors() -> Iterator[None]:
    """Raise errors of parameters as errors of the file."""
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
    """Return names (d,) of the features, if the file has them."""
    names = contents.lists.get("names")
    if "features" in contents.lists:
        features = contents.lists["features"]
        is_valid = all(isinstance(f, list) and len(f) == 3 for f in features)
        is_valid = is_valid and all(isinstance(part, str) for f in features for part in f)
        is_valid = is_valid and all(feature[1] in FEATURE_NAMES for feature in features)
        check_file(is_valid, "malformed features")
        names = [Feature(*feature).name for feature in features]
    if names is None:
        return None
    is_valid = len(names) == d and all(isinstance(name, str) for name in names)
    check_file(is_valid, "names that do not fit its features")
    return np.array(names, dtype=object)


def read_vocabularies(plain: list[Any]) -> dict[str, Vocabulary]:
    """Return vocabularies by column, given the ``categories`` of an untrusted file."""
    result = {}
    for one in plain:
        check_file(isinstance(one, list) and len(one) == 3, MALFORMED)
        name, rows, values = one
        check_file(type(rows) is int and 0 <= rows < 2**63, MALFORMED)
        is_text = isinstance(values, list) and all(isinstance(value, str) for value in values)
        check_file(is_text and len(set(values)) == len(values), MALFORMED)
        check_file(isinstance(name, str), MALFORMED)
        result[name] = Vocabulary.of(values, rows)
    check_file(len(result) == len(plain), MALFORMED)
    return result


def pack(engine: Engine, names: Names | None = None) -> Contents:
    """Return the contents of a file for an engine, whose features have these names."""
    arrays, facts, given = KINDS[engine.kind].pack(engine)
    return engine_contents(engine.kind, given, arrays, facts, names)


def unpack(contents: Contents) -> Engine:
    """Return the engine of an untrusted file."""
    engine: Engine = KINDS[contents.kind].unpack(contents)
    return engine


def pack_ridge(params: Mapping[str, Any], state: State, names: Names | None = None) -> Contents:
    """Return the contents of a file for a state, given the parameters of its model."""
    return engine_contents(RidgeModel.kind, params, *pack_state(state), names)


def unpack_ridge(contents: Contents, engine: type[RidgeModel] = RidgeModel) -> RidgeModel:
    """Return the ridge model of an untrusted file, as an engine of this class."""
    given = options_of(contents.options, parameters.RIDGE_PARAMETERS)
    with parameter_errors_as_file_errors():
        params = parameters.parse_ridge_parameters(**given)
    state = unpack_state(contents, params.config)
    if state.fixed is not None and contents.facts["map"]["given"]:
        config = replace(params.config, given=state.fixed, map=state.fixed.map)
        params = params._replace(config=config, feature_map=state.fixed)
    state.config = params.config
    return engine(params, state)


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
        """Save as a safetensors file, which contains numbers and text and never code.

        Parameters
        ----------
        path : path
            The file. An older one is replaced, or stays as it was if saving fails.
        """
        if "_learned_from" in self.__dict__:
            raise ValueError(
                f"this model was learned from tables, and only {self._learned_from} contains how "
                "their columns become features; use counterpoise.TableClassifier.load, and its save"
            )
        container.save(path, self._contents(), type(self)._from_contents)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Any:
        """Return the bit-identical estimator that :meth:`save` has written; it can learn more.

        A file of the command line or of :class:`~counterpoise.TableClassifier` gives the model of
        encoded rows, to inspect; :meth:`counterpoise.TableClassifier.load` has its columns, too.

        Parameters
        ----------
        path : path
            The file. It is not trusted: an incomplete or impossible model is refused.
        """
        contents = container.load(path)
        if contents.kind != cls.__name__:
            raise ModelFileError(
                f"{os.fspath(path)} contains a {contents.kind}, not a {cls.__name__}; use "
                f"{contents.kind}.load"
            )
        result = container.load_validated(path, lambda: cls._from_contents(contents))
        if contents.stream is not None and "features" in contents.lists:
            result._learned_from = os.fspath(path)
        return result


def pack_auto(engine: AutoModel) -> Packed:
    """Return tensors, facts and parameters of an averaging model."""
    candidates, params, given = engine.candidates, engine.params, engine.params.estimator_parameters
    labels = candidates.first.classes.labels
    X, code, weight, clock = candidates.kept.arrays(labels)
    arrays: dict[str, Any] = {"kept": X, "kept weight": weight, "kept clock": clock}
    moments, recent = candidates.first.moments, candidates.recent
    counts = candidates.calibration
    tensors, calibrated = pack_calibration(counts, candidates.progressive, moments.labels)
    arrays |= tensors if recent is None else {**tensors, "last rows": recent}
    kept_rows = np.bincount(code, minlength=len(labels)).tolist()
    parts = []
    for i, model in enumerate(engine.models):
        part = pack(model)
        arrays |= {f"{i} {name}": array for name, array in part.arrays.items()}
        parts.append({"options": part.options, "facts": part.facts})
    given["candidates"] = None if params.has_default_candidates else " ".join(params.names)
    given["ridges"] = " ".join(map(repr, given["ridges"]))
    facts = {
        "models": parts,
        "names": candidates.names,
        "rows": candidates.rows,
        "kept": {"labels": plain_labels(labels), "counts": kept_rows},
        "weighted": candidates.is_weighted,
        **calibrated,
    }
    if not given["calibrate"]:
        del given["calibrate"]
    return arrays, facts, given


def unpack_auto(contents: Contents) -> AutoModel:
    """Return the averaging model of an untrusted file."""
    given = options_of({"calibrate": False, **contents.options}, AUTO_PARAMETERS)
    if given["candidates"] is None:
        given["candidates"] = _other_default(contents.facts)
    is_default = given["candidates"] is None
    texts = (given["ridges"],) if is_default else (given["candidates"], given["ridges"])
    check_file(all(isinstance(text, str) for text in texts), "malformed candidates")
    if not is_default:
        given["candidates"] = tuple(given["candidates"].split(" "))
    given["ridges"] = tuple(map(float, given["ridges"].split(" ")))
    with parameter_errors_as_file_errors():
        params = parameters.parse_auto_parameters(**given)
    found = _candidates(contents, params)
    fixed = {name: state.config.given for name, state in found.states.items()}
    if not is_default:
        given["candidates"] = tuple(fixed.get(name) or name for name in params.names)
        params = parameters.parse_auto_parameters(**given)
    return AutoModel(params, found)


def _other_default(facts: dict[str, Any]) -> str | None:
    """Return the names of candidates that are not the default ones of this version, or None."""
    names: Any = facts.get("names")
    is_list = isinstance(names, list) and bool(names)
    check_file(is_list and all(isinstance(name, str) for name in names), "malformed candidates")
    return None if names == list(parameters.CANDIDATES) else " ".join(names)


def _candidates(contents: Contents, params: AutoParameters) -> Candidates:
    """Return the candidates of a file."""
    facts, names = contents.facts, params.names
    calibrated = facts.keys() & {"calibration", "progressive"}
    wanted = {"models", "names", "rows", "kept", "weighted"} | calibrated
    check_fields(facts, wanted, "unexpected facts")
    rows, is_weighted = facts["rows"], facts["weighted"]
    check_file(facts["names"] == names, "candidates that do not match their names")
    check_file(type(rows) is int and rows > 0, "impossible counts")
    states, used = {}, {"kept", "kept weight", "kept clock"}
    maps = dict.fromkeys(map_name(name) for name in names)
    for i, (name, part) in enumerate(zip(maps, facts["models"], strict=True)):
        arrays = tensors_of(contents.arrays, str(i))
        used |= {f"{i} {key}" for key in arrays}
        model = unpack_ridge(replace(contents, arrays=arrays, **part))
        check_file((model.state.config.text or LINEAR) == name, f"a candidate {name!r}")
        options = replace(params.options, calibrate=False)
        check_file(model.options == options, "a candidate with other options")
        states[name] = model.state
    first = next(iter(states.values()))
    for state in states.values():
        is_same = state.n_inputs == first.n_inputs and state.codes == first.codes
        check_file(is_same, "candidates of other features")
        is_same = np.allclose(state.class_count, first.class_count, rtol=1e-9, atol=0.0)
        check_file(is_same, "candidates that have seen different rows")
    check_file(type(is_weighted) is bool, "malformed facts")
    is_same = is_weighted or int(first.class_count.sum()) == rows
    check_file(is_same, "a candidate that has seen a different number of rows")
    buffer = _row_buffer(contents, params.kept_rows, first)
    found = Candidates(
        list(names), states, params.options, params.ridges, buffer, rows, is_weighted
    )
    recent = contents.arrays.get("last rows")
    counts, progressive = unpack_calibration(
        contents.arrays, facts, first.moments, states, first.codes
    )
    used |= {f"{one} {key}" for one in calibrated for key in tensors_of(contents.arrays, one)}
    if recent is not None:
        used |= {"last rows"}
        is_shaped = recent.ndim == 2 and recent.shape[1] == _row_width(first)
        check_file(is_shaped and 0 < len(recent) <= MAX_RECENT_ROWS, "malformed recent rows")
        check_file(np.abs(recent).max() <= MAX_ABS_VALUE, "recent rows of impossible values")
    check_file(recent is not None or not calibrated, "calibration without recent rows")
    check_file(set(contents.arrays) == used, "unexpected tensors")
    counts = found.calibration if counts is None else counts
    return replace(found, calibration=counts, progressive=progressive, recent=recent)


def _row_width(state: State) -> int:
    """Return the number of columns of a row, those of codes included."""
    return state.n_inputs + (0 if state.codes is None else state.codes.count)


def _row_buffer(contents: Contents, max_rows: int, state: State) -> RowBuffer:
    """Return the row buffer of a file."""
    facts = contents.facts["kept"]
    check_fields(facts, {"labels", "counts"}, "malformed kept rows")
    labels, counts = labels_of(facts["labels"]), facts["counts"]
    X, weight, clock = (contents.arrays[k] for k in ("kept", "kept weight", "kept clock"))
    possible = all(type(n) is int and 0 <= n <= max_rows for n in counts)
    check_file(possible and len(counts) == len(labels), "impossible counts of kept rows")
    n = sum(counts)
    is_shaped = X.shape == (n, _row_width(state)) and weight.shape == clock.shape == (n,)
    check_file(is_shaped, "kept rows of the wrong shape")
    check_file(np.abs(X).max(initial=0.0) <= MAX_ABS_VALUE, "kept rows of impossible values")
    N = dict(zip(state.classes.labels.tolist(), state.class_count.tolist(), strict=True))
    end, rows = 0, {}
    for label, count in zip(labels.tolist(), counts, strict=True):
        mine, end = slice(end, end + count), end + count
        w, at, total = weight[mine], clock[mine], N.get(label, 0.0)
        is_possible = (w > 0) & (at >= w) & (at <= total * (1 + 1e-9))
        check_file(bool(is_possible.all()), "kept rows of impossible weights")
        check_file(bool((np.diff(at) > 0).all()), "kept rows of impossible weights")
        check_file((count > 0) == (total > 0.0), "a class whose rows and kept rows disagree")
        if count:
            rows[label] = tuple(zip(X[mine].copy(), w.tolist(), at.tolist(), strict=True))
    return RowBuffer(max_rows, rows)


Packed = tuple[dict[str, Any], dict[str, Any], dict[str, Any]]  # tensors, facts and parameters


class EngineFormat(NamedTuple):
    """Functions from an engine to the values of its file, and back."""

    pack: Callable[[Any], Packed]
    unpack: Callable[[Contents], Any]


def ridge_format(engine: type[RidgeModel]) -> EngineFormat:
    """Return the format of a class of engines that learn a State and nothing else."""
    return EngineFormat(
        lambda model: (*pack_state(model.state), model.params.estimator_parameters),
        lambda contents: unpack_ridge(contents, engine),
    )


KINDS = {
    RidgeModel.kind: ridge_format(RidgeModel),
    AutoModel.kind: EngineFormat(pack_auto, unpack_auto),
}
