"""Options of the two kinds of engines in a table model, and differences between them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from counterpoise.encoding.columns import Columns, by_option
from counterpoise.encoding.encoder import ColumnEncoder
from counterpoise.engine.auto import AutoModel, Engine
from counterpoise.engine.ridge import RidgeModel
from counterpoise.errors import DataError, OptionValue, Suggestion
from counterpoise.feature_maps import FittedMap
from counterpoise.feature_maps.fitted import feature_map_name
from counterpoise.modelfile.engines import options_of, plain_options
from counterpoise.solver.options import LABEL_OPTIONS
from counterpoise.tables.guards import label_text
from counterpoise.tables.records import fits

if TYPE_CHECKING:
    from counterpoise.tables.model import TableModel

Model: TypeAlias = Engine

NEW_FILE_REMEDY = Suggestion("learn into a new file")
AUTO = "auto"
MAPS = {"feature_map", "candidates"}  # options that may contain fitted maps


def as_auto(model: Model | None) -> AutoModel | None:
    """Return a model if it averages candidates, else None."""
    return model if isinstance(model, AutoModel) else None


def as_ridge(model: Model | None) -> RidgeModel | None:
    """Return a model if it is a single balanced ridge model, else None."""
    return model if isinstance(model, RidgeModel) else None


MAX_FREQUENT_PRODUCTS = 300_000  # of a solve with categories that takes no time next to learning


def scoring_pace(model: Model) -> int:
    """Return how long intervals between scorings are, from 1 to 32 by the cost of a solve.

    Above 32, a chunk is scored whenever the number of rows has become four times as large.
    """
    ridge = as_ridge(model)
    if ridge is None:
        return 32
    d, options = len(ridge.state.moments.anchor), ridge.options
    categories = ridge.state.moments.categories
    if categories is not None and sum(categories.sizes) * (1 + d) ** 2 > MAX_FREQUENT_PRODUCTS:
        return 64
    is_costly = options.ridge == "gcv" or options.pooled_rows is not None
    return min(32, 1 + d // (16 if is_costly else 64))


def new_model(options: Mapping[str, Any], columns: Columns) -> Model:
    """Return a model that has learned nothing yet; ``feature_map="auto"`` averages."""
    if options.get("feature_map") != AUTO:
        return RidgeModel.create(**options)
    _require_open(options)
    if columns.timestamp is not None:
        raise DataError(
            "an averaging model decays by rows", Suggestion("leave {} out", "timestamp")
        )
    return AutoModel.create(**{k: v for k, v in options.items() if k != "feature_map"})


def new_typed_engine(prototype: Model, labels: str | None) -> Model:
    """Return an engine that has learned nothing, with the parameters of another one.

    Keys of dicts by label get the type of the labels in an encoding.
    """
    given = prototype.params.estimator_parameters
    typed = with_typed_labels(given, labels)
    if typed == given:
        return prototype.copy_unfitted()
    return type(prototype).create(**typed)


def pop_map_file(options: dict[str, Any]) -> str | None:
    """Return the model file that ``feature_map`` names, with whose map a new model begins.

    The option becomes "auto" or is removed. Return None if it does not name a file.
    """
    given = options.get("feature_map")
    if not isinstance(given, str) or not os.path.dirname(given):
        return None
    path = given.removeprefix(f"{AUTO}:")
    if path == given:
        del options["feature_map"]
    else:
        options["feature_map"] = AUTO
    return path


def widen_maps(given: Any, names: list[str]) -> Any:
    """Return maps, or one, for features of these names, if they were fitted to fewer."""
    if isinstance(given, tuple):
        return tuple(widen_maps(one, names) for one in given)
    if isinstance(given, FittedMap) and len(given.mean) < len(names):
        return given.with_features(np.arange(len(given.mean)), names)[0]
    return given


def new_encoder(
    columns: Mapping[str, Any], options: dict[str, Any], other: TableModel | None = None
) -> ColumnEncoder:
    """Return the encoder of a new model, given the fields of Columns that the user has set.

    With ``other``, the new model begins with the map of that one, and ``options`` get its options.
    """
    if other is not None:
        _reuse_map(other, options)
        theirs = other.encoding.columns
        roles = {**theirs.roles, **columns.get("roles", {})}
        columns = {**asdict(theirs), **columns, "roles": roles}
    require_label(columns)
    encoding = ColumnEncoder(Columns(**columns))
    if other is not None:
        like = other.encoding
        encoding = replace(encoding, kinds=like.kinds, features=like.features, bases=like.bases)
        _require_alike(encoding, like.columns, other.path)
    model = new_model(options, encoding.columns)
    require_clock(model, encoding.columns)
    return encoding


def require_label(columns: Mapping[str, Any]) -> None:
    """Raise unless the fields of Columns that the user has set name the label."""
    if not columns.get("label"):
        raise DataError(
            ("missing ", OptionValue("label")),
            Suggestion("name the column that contains the class"),
        )


GIVE_HALF_LIFE = Suggestion("give a time such as 7d", "half_life")


def require_clock(
    model: Model, columns: Columns, give_half_life: Suggestion = GIVE_HALF_LIFE
) -> None:
    """Raise unless a half-life in units of time comes with a column of times, and vice versa."""
    half_life = model.params.options.half_life
    timed = model.params.options.decay.is_timed
    if timed and columns.timestamp is None:
        raise DataError(
            (OptionValue("half_life", half_life), " requires the time of each row"),
            Suggestion("name its column", "columns", {"COLUMN": "timestamp"}),
        )
    if columns.timestamp is not None and not timed:
        raise DataError(
            (
                OptionValue("timestamp"),
                " has times for decay, and requires a half-life",
            ),
            give_half_life,
            Suggestion("leave {} out", "timestamp"),
        )


def require_same_settings(
    before: TableModel,
    columns: Mapping[str, Any],
    options: Mapping[str, Any],
    chunk_rows: int | None,
    other: TableModel | None,
) -> Columns:
    """Return the columns of a model that continues; raise if a setting is not as it was.

    ``other`` is a model with whose map it is to have begun.
    """
    wanted = _changed_columns(before, columns)
    settings = by_option(columns)
    if wanted.drop != before.encoding.columns.drop:
        settings["drop"] = wanted.drop
    options = _with_map_names(typed_options(options, before.encoding.labels))
    params = _with_map_names(before.options)
    if params["feature_map"] == AUTO:
        _require_open(options)
    size = {} if chunk_rows is None else {"chunk_rows": chunk_rows}
    # Separately: a model that averages has an option of its own called drop.
    for now, then in (
        (settings, wanted.by_option()),
        ({**options, **size}, {**params, "chunk_rows": before.chunk_rows}),
    ):
        for name, value in now.items():
            if value != then[name]:
                was = as_text(then[name])
                text = f" is {as_text(value)}, but {before.path} was learned with {was}"
                raise DataError(
                    (OptionValue(name), text), Suggestion("leave the option out"), NEW_FILE_REMEDY
                )
    if other is not None:
        _require_same_map(before, other, options.get("feature_map") == AUTO)
    return wanted


def typed_options(options: Mapping[str, Any], labels: str | None) -> dict[str, Any]:
    """Return plain options whose dicts by label have keys of the type of the labels."""
    result = with_typed_labels(options, labels)
    maps = {name: result.pop(name) for name in MAPS & result.keys()}
    return {**options_of(plain_options(result), result), **maps}


def with_typed_labels(options: Mapping[str, Any], labels: str | None) -> dict[str, Any]:
    """Return options whose dicts by label have keys of the type of the labels in an encoding."""
    result = dict(options)
    for name in LABEL_OPTIONS:
        value = result.get(name)
        if isinstance(value, Mapping):
            try:
                result[name] = by_typed_label(value, labels)
            except ValueError:
                raise DataError(
                    (OptionValue(name), f" names {list(value)}, but labels are integers")
                ) from None
    return result


def by_typed_label(numbers: Mapping[Any, Any], labels: str | None) -> dict[Any, Any]:
    """Return numbers by label with keys as the engine has its labels, of which all may be text.

    ``labels`` is the type in an encoding; the engine has booleans as text. Raise a ValueError if a
    text does not name an integer, and labels are integers.
    """
    if labels == "int":
        return {int(k) if isinstance(k, str) else k: number for k, number in numbers.items()}
    return {label_text(k): number for k, number in numbers.items()}


def as_text(value: Any) -> str:
    """Return the value of an option as text."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={as_text(number)}" for key, number in value.items()) or "nothing"
    if isinstance(value, (tuple, list)):
        return ", ".join(map(str, value)) or "nothing"
    if isinstance(value, float):
        return f"{value:.12g}"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)


def _reuse_map(other: TableModel, options: dict[str, Any]) -> None:
    """Let options begin with the fitted maps of another model."""
    if options.get("feature_map") == AUTO:
        options["candidates"] = _maps(other)
        return
    model = other.estimator.best
    for name in ("ridge", "multi_class", "pooled_rows"):
        options.setdefault(name, getattr(model.options, name))
    if other.model is model and model.state.fixed is None:
        raise DataError(f"{other.path} has no map of the features to begin with; leave it out")
    if model.state.warmup is not None:
        raise DataError(f"the map of {other.path} is not fixed yet; let it learn more rows")
    options["feature_map"] = model.state.fixed


def _maps(other: TableModel) -> tuple[Any, ...]:
    """Return the candidates of a model that averages, with their maps, which must be fitted."""
    model = as_auto(other.model)
    if model is None:
        raise DataError(
            f"{other.path} is not an averaging model, and has no candidates",
            Suggestion("use its own map, if it has one: {}", "feature_map", other.path),
        )
    if not model.candidates.is_ready:
        raise DataError(f"the maps of {other.path} are not fixed yet; let it learn more rows")
    return model.fitted_candidates


def _require_alike(encoding: ColumnEncoder, theirs: Columns, path: str) -> None:
    """Raise if columns are not as the map of another model has learned them."""
    mine, kinds = encoding.columns, encoding.kinds
    changed = [f.column for f in encoding.features if not fits(f, encoding)]
    changed += [name for name, kind in mine.explicit_types.items() if kinds.get(name, kind) != kind]
    for name, buckets in theirs.buckets.items():
        if (mine.buckets.get(name), mine.seed) != (buckets, theirs.seed):
            changed.append(name)
    if changed:
        raise DataError(
            f"column {changed[0]!r} is a feature of the map of {path}, and the options differ; "
            "leave them out, or learn without that map"
        )


def _require_same_map(before: TableModel, other: TableModel, averages: bool) -> None:
    """Raise if the map of another file is not the one that a model has begun with."""
    mine: tuple[Any, ...]
    model = as_auto(before.model)
    if model is not None:
        mine, theirs = model.fitted_candidates, _maps(other) if averages else ()
    else:
        given = before.options["feature_map"]
        mine, theirs = (given,), (other.estimator.best.state.fixed,)
    if [*map(_first_fit, mine)] == [*map(_first_fit, theirs)]:
        return
    raise DataError(
        f"{before.path} did not begin with the map that {other.path} has now",
        Suggestion("leave {} out", "feature_map"),
        NEW_FILE_REMEDY,
    )


def _first_fit(one: Any) -> Any:
    """Return what a map was fitted with, without features that came later."""
    if not isinstance(one, FittedMap):
        return one
    first = slice(one.first)
    return one.map.text, one.first, one.mean[first].tolist(), one.deviation[first].tolist()


def _changed_columns(before: TableModel, columns: Mapping[str, Any]) -> Columns:
    """Return the columns with the changes that a model allows after it has learned."""
    then, known = before.encoding.columns, before.classes
    classes = columns.get("classes", then.classes)
    if classes and not {str(label) for label in known} <= set(classes):
        text = f" is {as_text(classes)}, but {before.path} has learned {as_text(known)}"
        raise DataError(
            (OptionValue("classes"), text), Suggestion("name these too"), NEW_FILE_REMEDY
        )
    dropped = [name for name, role in columns.get("roles", {}).items() if role == "drop"]
    more = [name for name in dropped if name not in then.drop]
    seen = [name for name in more if before.encoding.knows(name)]
    # A column that was never learned can be left out at any time.
    return replace(then if seen else then.dropping(more), classes=classes)


def _require_open(options: Mapping[str, Any]) -> None:
    """Raise if an option decides what a model that averages decides by itself."""
    factors = (" balances the classes, with optional ", OptionValue("class_factors"))
    given = set(options)
    for name, what in (
        ("ridge", (" selects the ridge",)),
        ("multi_class", (" separates all classes in one step",)),
        ("pooled_rows", (" selects the boundaries",)),
        ("scale", (" scales by itself",)),
        ("class_weight", factors),
        ("fit_intercept", (" has a constant",)),
    ):
        if name in given:
            raise DataError(
                (OptionValue("feature_map", AUTO), *what), Suggestion("leave {} out", name)
            )


def _with_map_names(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with the map by its name, to be compared."""
    result = dict(options)
    if "candidates" in result:
        result["feature_map"] = AUTO
    elif result.get("feature_map") not in (None, AUTO):
        result["feature_map"] = feature_map_name(result["feature_map"])
    return result
