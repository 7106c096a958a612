"""How learning begins: with a new model, with the map of another, or where a file left off.

Options are named once and stored. A file that exists says what they are; naming other ones is an
error, except for the few that may change on the way.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from counterpoise.choosing.classifier import ChoosingClassifier
from counterpoise.classifier import BalancedRidgeClassifier
from counterpoise.encoding.columns import Columns
from counterpoise.encoding.encoding import Encoding
from counterpoise.errors import Remedy, Setting
from counterpoise.features import FixedMap
from counterpoise.features.given import text_of
from counterpoise.jobs.file import stored_model
from counterpoise.jobs.models import Model, answering
from counterpoise.jobs.store import Stored, fits, require_learned
from counterpoise.modelfile.options import options_of, plain_options
from counterpoise.streams import DataError

ANEW = Remedy("learn into a new file")
AUTO = "auto"
MAPS = {"features", "candidates"}  # options that may hold maps which are fixed


def made(options: Mapping[str, Any], columns: Columns) -> Model:
    """Return a model that has learned nothing yet; ``features="auto"`` makes one that chooses."""
    if options.get("features") != AUTO:
        return BalancedRidgeClassifier(**options)
    _require_open(options)
    if columns.clock is not None:
        raise DataError("a model that chooses fades by rows", Remedy("leave {} out", "clock"))
    return ChoosingClassifier(**{k: v for k, v in options.items() if k != "features"})


def source_of(options: dict[str, Any]) -> str | None:
    """Return the model file, if there is one, whose maps a new model begins with.

    It is named by ``features``, which then says only whether the model chooses, or is gone.
    """
    given = options.get("features")
    if not isinstance(given, str) or not os.path.dirname(given):
        return None
    path = given.removeprefix(f"{AUTO}:")
    if path == given:
        del options["features"]
    else:
        options["features"] = AUTO
    return path


def widened(given: Any, names: list[str]) -> Any:
    """Return maps, or one, for features of these names, if they are fixed for fewer."""
    if isinstance(given, tuple):
        return tuple(widened(one, names) for one in given)
    if isinstance(given, FixedMap) and len(given.mean) < len(names):
        return given.placed(np.arange(len(given.mean)), names)[0]
    return given


def begun(columns: Mapping[str, Any], options: dict[str, Any], source: str | None) -> Encoding:
    """Return how columns become features in a new model.

    ``columns`` holds the fields of Columns that the user has set. If ``source`` is given, the new
    model begins with the map of that model file, and ``options`` get what comes with it.
    """
    like = None if source is None else _borrowed(source, options)
    if like is not None:
        columns = {**asdict(like.columns), **columns}
    require_label(columns)
    encoding = Encoding(Columns(**columns))
    if like is not None:
        encoding = replace(encoding, kinds=like.kinds, features=like.features, bases=like.bases)
        _require_alike(encoding, like.columns, str(source))
    model = made(options, encoding.columns)
    model.check()
    require_clock(model, encoding.columns)
    return encoding


def require_label(columns: Mapping[str, Any]) -> None:
    """Raise unless the fields of Columns that the user has set name the label."""
    if not columns.get("label"):
        raise DataError(
            "no column is named as the label",
            Remedy("name the column that holds the labels", "label"),
        )


def require_clock(model: Model, columns: Columns) -> None:
    """Raise unless a half-life that is a time goes with a column of times, and none without."""
    timed = isinstance(model.half_life, str)
    if timed and columns.clock is None:
        raise DataError(
            f"a half-life of {model.half_life} needs the time of each row",
            Remedy("name its column", "clock"),
        )
    if columns.clock is not None and not timed:
        raise DataError(
            (Setting("clock"), " says by which time rows fade, and no half-life is a time"),
            Remedy("give a time such as 7d", "half_life"),
            Remedy("leave {} out", "clock"),
        )


def resumed(
    path: str,
    columns: Mapping[str, Any],
    options: Mapping[str, Any],
    chunk_rows: int | None,
    source: str | None,
) -> tuple[Stored, bool]:
    """Return a model that goes on learning, and whether its columns were amended.

    What the user has set must be as it was, except for what may change on the way. ``source`` is a
    model file that it is said to have begun with.
    """
    stored = stored_model(path)
    before = stored.encoding.columns
    wanted = _changed(stored, columns, path)
    if wanted.drop != before.drop:
        columns = {**columns, "drop": wanted.drop}
    options = _named(typed(options, stored.encoding.labels))
    params = _named(stored.model.get_params(deep=False))
    if params["features"] == AUTO:
        _require_open(options)
    # Apart: a model that chooses has an option of its own called drop.
    for now, then in (
        (columns, asdict(wanted)),
        (options, params),
        (
            {} if chunk_rows is None else {"chunk_rows": chunk_rows},
            {"chunk_rows": stored.chunk_rows},
        ),
    ):
        for name, value in now.items():
            if value != then[name]:
                text = f" is {shown(value)}, but {path} was learned with {shown(then[name])}"
                raise DataError((Setting(name), text), Remedy("leave the option out"), ANEW)
    if source is not None:
        _require_same_map(stored.model, path, source, options.get("features") == AUTO)
    encoding = replace(stored.encoding, columns=wanted)
    return replace(stored, encoding=encoding), wanted != before


def typed(options: Mapping[str, Any], labels: str | None) -> dict[str, Any]:
    """Return options with the keys of dicts by label as the labels are, "int" or "text"."""
    result = dict(options)
    for name in ("class_weight", "costs", "half_life"):
        value = result.get(name)
        if isinstance(value, Mapping) and labels == "int":
            try:
                result[name] = {int(key): number for key, number in value.items()}
            except ValueError:
                raise DataError(
                    (Setting(name), f" names {list(value)}, but labels are whole numbers")
                ) from None
    maps = {name: result.pop(name) for name in MAPS & result.keys()}
    return {**options_of(plain_options(result), result), **maps}


def shown(value: Any) -> str:
    """Return the value of an option in words."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={number}" for key, number in value.items()) or "nothing"
    if isinstance(value, (tuple, list)):
        return ", ".join(map(str, value)) or "nothing"
    return "none" if value is None else str(value)


# Beginning with the map of another model


def _borrowed(path: str, options: dict[str, Any]) -> Encoding:
    """Let options begin with what another model file has fixed, and return its encoding."""
    stored = require_learned(stored_model(path), path)
    if options.get("features") == AUTO:
        options["candidates"] = _maps(stored.model, path)
        return stored.encoding
    model = answering(stored)
    for name in ("ridge", "multi_class", "pooling"):
        options.setdefault(name, getattr(model, name))
    if stored.model is model and model.features_ is None:
        raise DataError(f"{path} has no map of the features to begin with; leave it out")
    if model.state_.warmup is not None:
        raise DataError(f"the map of {path} is not fixed yet; let it learn more rows")
    options["features"] = model.features_
    return stored.encoding


def _maps(model: Model, path: str) -> tuple[Any, ...]:
    """The candidates of a model that chooses, with their maps, which must be fixed."""
    if not isinstance(model, ChoosingClassifier):
        raise DataError(
            f"{path} does not choose, so it has no maps to choose among",
            Remedy("take its own map, if it has one: {}", "features", path),
        )
    if not model.candidates_.calm:
        raise DataError(f"the maps of {path} are not fixed yet; let it learn more rows")
    return model.maps_


def _require_alike(encoding: Encoding, theirs: Columns, path: str) -> None:
    """Raise if columns are not wanted as the map that was borrowed knows them."""
    mine, kinds = encoding.columns, encoding.kinds
    strange = [f.column for f in encoding.features if not fits(f, encoding)]
    strange += [name for name, kind in mine.told.items() if kinds.get(name, kind) != kind]
    for name, buckets in theirs.hashed.items():
        if (mine.hashed.get(name), mine.seed) != (buckets, theirs.seed):
            strange.append(name)
    if strange:
        raise DataError(
            f"column {strange[0]!r} is a feature of the map of {path}, and the options say "
            "otherwise; leave them out, or learn without that map"
        )


def _require_same_map(model: Model, path: str, source: str, chooses: bool) -> None:
    """Raise if the map of another file, if it still exists, is not what was begun with.

    A model that chooses begins with all maps.
    """
    if not os.path.exists(source) or os.path.samefile(source, path):
        return
    stored = require_learned(stored_model(source), source)
    mine: tuple[Any, ...]
    if isinstance(model, ChoosingClassifier):
        mine, theirs = model.maps_, _maps(stored.model, source) if chooses else ()
    else:
        mine, theirs = (model.features,), (answering(stored).features_,)
    if [*map(_begins, mine)] == [*map(_begins, theirs)]:
        return
    raise DataError(
        f"{path} did not begin with the map that {source} has now",
        Remedy("leave {} out", "features"),
        ANEW,
    )


def _begins(one: Any) -> Any:
    """What a map was fixed with: features that came later do not matter."""
    if not isinstance(one, FixedMap):
        return one
    first = slice(one.first)
    return one.map.text, one.first, one.mean[first].tolist(), one.deviation[first].tolist()


# Options that were stored


def _changed(stored: Stored, columns: Mapping[str, Any], path: str) -> Columns:
    """Return the columns as they are wanted now, with what may change on the way."""
    before = stored.encoding.columns
    known = stored.model.classes_.tolist()
    classes = columns.get("classes", before.classes)
    if classes and not {str(label) for label in known} <= set(classes):
        text = f" is {shown(classes)}, but {path} has learned {', '.join(map(str, known))}"
        raise DataError((Setting("classes"), text), Remedy("name these too"), ANEW)
    more = [name for name in columns.get("drop", ()) if name not in before.drop]
    seen = [name for name in more if stored.encoding.knows(name)]
    # A column that was never learned can be left out at any time.
    drop = before.drop if seen else tuple(sorted({*before.drop, *more}))
    return replace(before, classes=classes, drop=drop)


def _require_open(options: Mapping[str, Any]) -> None:
    """Raise if an option decides what a model that chooses decides by itself."""
    costs = (" balances the classes, with ", Setting("costs"), " if you like")
    given = set(options)
    for name, what in (
        ("ridge", (" chooses the ridge",)),
        ("multi_class", (" tells all classes apart at once",)),
        ("pooling", (" chooses the boundaries",)),
        ("scale", (" scales by itself",)),
        ("class_weight", costs),
        ("fit_intercept", (" has a constant",)),
        ("calibrate", (" does not calibrate",)),
    ):
        if name in given:
            raise DataError((Setting("features", AUTO), *what), Remedy("leave {} out", name))


def _named(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with the map by its name, to be compared."""
    result = dict(options)
    if "candidates" in result:
        result["features"] = AUTO
    elif result.get("features") not in (None, AUTO):
        result["features"] = text_of(result["features"])
    return result
