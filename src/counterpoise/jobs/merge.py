"""Model files put together and taken apart: shards merged, inputs forgotten."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from counterpoise.arrays import Counts
from counterpoise.classifier import BalancedRidgeClassifier
from counterpoise.encoding.columns import Feature
from counterpoise.encoding.encoding import Encoding
from counterpoise.errors import Remedy
from counterpoise.exact.moments import Moments
from counterpoise.jobs.learn import Learner
from counterpoise.jobs.recent import together
from counterpoise.jobs.store import TIMES, Record, Stored, input_key, require_learned
from counterpoise.streams import DataError, Mark, Source
from counterpoise.streams.bytes import lasting
from counterpoise.streams.chunk import changed


def merged(
    one: Stored,
    two: Stored,
    names: tuple[str, str],
    allow_overlap: bool,
    positive: str | None = None,
) -> Stored:
    """One model of two, as if it had learned what both have, the first one first.

    Parameters
    ----------
    one, two : Stored
        The models, their records relative to the same folder.
    names : (str, str)
        What to call them in messages.
    allow_overlap : bool
        Whether an input may have been learned by both.
    positive : str, optional
        The class that alerts are about, as it is written; by default that of both.

    Returns
    -------
    Stored
    """
    for stored, name in zip((one, two), names, strict=True):
        require_learned(stored, name)
        if not isinstance(stored.model, BalancedRidgeClassifier):
            raise _undecided(name)
    _require_alike(one, two, names)
    records = _united(one.records, two.records, names, allow_overlap)
    kinds = {**two.encoding.kinds, **one.encoding.kinds}
    features = tuple(dict.fromkeys((*one.encoding.features, *two.encoding.features)))
    labels = one.encoding.labels or two.encoding.labels
    encoding = Encoding(one.encoding.columns, kinds, features, labels)
    first, second = (_placed(stored, features) for stored in (one, two))
    model = first.merge(second)
    chosen = _positive(one, two, names, model.classes_.tolist(), positive)
    settled = sum(record.mark.rows for record in records.values())
    rows = [sum(record.mark.rows for record in s.records.values()) for s in (one, two)]
    same = one.model.classes_.tolist() == two.model.classes_.tolist()
    recent = together(one.recent, two.recent, (rows[0], rows[1])) if same else None
    return Stored(
        model,
        encoding,
        records,
        one.chunk_rows,
        chosen,
        settled,
        recent,
        held=_held(one, two, features),
        forgotten=one.forgotten + two.forgotten,
    )


def _held(one: Stored, two: Stored, features: tuple[Feature, ...]) -> Counts | None:
    """Rows of both that hold each feature, if both have counted."""
    index = {feature: j for j, feature in enumerate(features)}
    held = np.zeros(len(features), dtype=np.int64)
    for stored in (one, two):
        if stored.held is None:
            return None
        held[[index[feature] for feature in stored.encoding.features]] += stored.held
    return held


def _positive(
    one: Stored, two: Stored, names: tuple[str, str], classes: list[Any], wanted: str | None
) -> Any:
    """The class that alerts are about: the one asked for, or that of both."""
    by_name = {str(label): label for label in classes}
    if wanted is not None:
        return by_name.get(wanted)  # it may come with the next model
    both = [stored.positive for stored in (one, two) if stored.positive is not None]
    if len(both) == 2 and both[0] != both[1]:
        raise DataError(
            f"the positive class is {str(both[0])!r} in {names[0]} and {str(both[1])!r} in "
            f"{names[1]}",
            Remedy("say which it is to be, with {}", "positive"),
        )
    return both[0] if both else None


def moved(stored: Stored, old: str, new: str) -> Stored:
    """A model as another file would keep it: paths are relative to the folder of the file.

    Parameters
    ----------
    stored : Stored
        The model.
    old, new : str
        The model files.

    Returns
    -------
    Stored
    """
    folder = os.path.dirname(os.path.realpath(old))

    def place(key: str) -> str:
        return key if key.startswith("-") else input_key(os.path.join(folder, key), new)

    return replace(stored, records={place(k): record for k, record in stored.records.items()})


def forget(learner: Learner, source: Source, key: str, watch: Callable[[Source, int], None]) -> int:
    """Take the rows of an input back, as if they had never been learned.

    Parameters
    ----------
    learner : Learner
        Who has learned them; it is changed only if all goes well, and not saved.
    source : Source
        The input, which must still begin as it did.
    key : str
        Its name in the records.
    watch : callable
        Told of the rows of each chunk.

    Returns
    -------
    int
        Rows that were forgotten.
    """
    model, encoding = learner.model, learner.encoding
    if key.startswith("-"):
        raise DataError("standard input cannot be read twice; forget needs a file")
    if os.path.exists(source.path) and not lasting(source.path):
        raise DataError(f"{source.name} cannot be read twice; forget needs a file")
    if model is None or not learner.identify(source, key):
        known = ", ".join(learner.records) or "nothing"
        raise DataError(
            f"{source.name} was never learned, under whatever name; what was learned is {known}"
        )
    record = learner.records[key]
    if not isinstance(model, BalancedRidgeClassifier):
        raise _undecided(learner.path)
    model.require_forgettable()
    known = model.classes_.tolist()
    learner.window = None  # it may be about these rows
    wanted, rows = encoding.columns.wanted, learner.chunk_rows
    source.verify(record.mark, wanted)
    gone, left, d = None, record.mark.rows, len(encoding.features)
    held = np.zeros(d, dtype=np.int64)
    kinds = encoding.columns.read(encoding.kinds)
    for chunk in source.chunks(rows, Mark(), kinds, wanted, left):
        chunk = chunk.head(left)
        encoded, after = encoding.learn(chunk, lenient=True)
        if encoded.held[d:].any() or after.labels != encoding.labels:
            raise changed(source.name, record.mark)
        held += encoded.held[:d]
        if encoded.X.shape[0]:
            part = model.gathered(encoded.X[:, :d], encoded.y, encoded.weight)
            gone = part if gone is None else gone.follow(part)
        watch(source, chunk.rows)
        left -= chunk.rows
        if not left:
            break
    if gone is not None:
        names = [feature.name for feature in encoding.features]
        model.forget_moments(_repeated(gone, record.times), model.terms(names))
    del learner.records[key]
    learner.forgotten += record.mark.rows
    if learner.held is not None:
        learner.held = learner.held - record.times * held
        at = model.leave_out(learner.held <= 0)
        learner.held, learner.encoding = learner.held[at], encoding.only(at)
    if model.classes_.tolist() != known:
        learner.recent = None
    learner.finish()
    return record.mark.rows


def _repeated(moments: Moments, times: int) -> Moments:
    """Moments of rows that count so many times, by doubling."""
    if times == 1:
        return moments
    half = _repeated(moments, times // 2)
    twice = half + half
    return twice + moments if times % 2 else twice


def _undecided(path: str) -> DataError:
    return DataError(
        f"{path} holds a model that chooses by itself, which depends on the order of the rows, so "
        "that it can neither be merged nor forget",
        Remedy("learn one that begins with its choice: {}", "features", path),
    )


def _placed(stored: Stored, features: tuple[Feature, ...]) -> BalancedRidgeClassifier:
    """The model with its features at their places among all features."""
    index = {feature: j for j, feature in enumerate(features)}
    at = np.array([index[feature] for feature in stored.encoding.features], dtype=np.intp)
    result = stored.model.__copy__()
    assert isinstance(result, BalancedRidgeClassifier)
    result.place(at, [feature.name for feature in features])
    return result


def _require_alike(one: Stored, two: Stored, names: tuple[str, str]) -> None:
    if one.encoding.columns != two.encoding.columns:
        raise DataError(
            f"{names[0]} and {names[1]} were learned with different options of the columns: "
            f"{one.encoding.columns} and {two.encoding.columns}"
        )
    for column, kind in one.encoding.kinds.items():
        other = two.encoding.kinds.get(column, kind)
        if kind != other:
            raise DataError(
                f"column {column!r} is {kind} in {names[0]} and {other} in {names[1]}",
                Remedy("learn one of them again", "numeric", [column]),
                Remedy("{}", "categorical", [column]),
            )
    labels = {one.encoding.labels, two.encoding.labels} - {None}
    if len(labels) > 1:
        raise DataError(
            f"labels are numbers in one of {names[0]} and {names[1]}, text in the other"
        )


def _united(
    one: Mapping[str, Record],
    two: Mapping[str, Record],
    names: tuple[str, str],
    allow_overlap: bool,
) -> dict[str, Record]:
    """Records of both; an input gets another name if its name is taken."""
    records = dict(one)
    for key, record in two.items():
        same = [k for k, known in one.items() if known.begins_like(record.starts)]
        if same and not allow_overlap:
            raise DataError(
                f"{same[0]} was learned by {names[0]} and by {names[1]}",
                Remedy("if its rows are to count twice, say {}", "allow_overlap", True),
            )
        if key in same:
            if records[key].mark != record.mark:
                raise DataError(
                    f"{key} was not learned to the same row by {names[0]} and by {names[1]}; learn "
                    "it to its end in both first"
                )
            times = records[key].times + record.times
            if times > TIMES:
                raise DataError(f"{key} would count {times:,} times, more than {TIMES:,}")
            records[key] = replace(records[key], times=times)
        elif key in records:  # another input of that name
            model = os.path.basename(names[1])
            other = f"- {model}" if key.startswith("-") else f"{key} of {model}"
            while other in records:
                other += "'"
            records[other] = record
        else:
            records[key] = record
    return records
