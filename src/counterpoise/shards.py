"""Model files put together and taken apart: shards merged, inputs forgotten."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np

from counterpoise.classifier import BalancedRidgeClassifier
from counterpoise.columns import Feature
from counterpoise.encoding import Encoding
from counterpoise.learner import Learner
from counterpoise.stored import Record, Stored, input_key, require_learnt
from counterpoise.streams import DataError, Mark, Source
from counterpoise.streams.chunk import changed
from counterpoise.streams.raw import lasting


def merged(one: Stored, two: Stored, names: tuple[str, str], allow_overlap: bool) -> Stored:
    """One model of two, as if it had learnt what both have, the first one first.

    Parameters
    ----------
    one, two : Stored
        The models, their records relative to the same folder.
    names : (str, str)
        What to call them in messages.
    allow_overlap : bool
        Whether an input may have been learnt by both.

    Returns
    -------
    Stored
    """
    for stored, name in zip((one, two), names, strict=True):
        require_learnt(stored, name)
        if not isinstance(stored.model, BalancedRidgeClassifier):
            raise _undecided(name)
    _require_alike(one, two, names)
    records = _united(one.records, two.records, names, allow_overlap)
    kinds = {**two.encoding.kinds, **one.encoding.kinds}
    features = tuple(dict.fromkeys((*one.encoding.features, *two.encoding.features)))
    labels = one.encoding.labels or two.encoding.labels
    encoding = Encoding(one.encoding.columns, kinds, features, labels)
    first, second = (_placed(stored, features) for stored in (one, two))
    return Stored(first.merge(second), encoding, records, one.chunk_rows)


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
    """Take the rows of an input back, as if they had never been learnt.

    Parameters
    ----------
    learner : Learner
        Who has learnt them; it is changed only if all goes well, and not saved.
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
    record, model, encoding = learner.records.get(key), learner.model, learner.encoding
    if record is None or model is None:
        known = ", ".join(learner.records) or "nothing"
        raise DataError(f"{source.name} was never learnt; what was learnt is {known}")
    if key.startswith("-"):
        raise DataError("standard input cannot be read twice; forget needs a file")
    if os.path.exists(source.path) and not lasting(source.path):
        raise DataError(f"{source.name} cannot be read twice; forget needs a file")
    if not isinstance(model, BalancedRidgeClassifier):
        raise _undecided(learner.path)
    model._require_forgettable()
    learner.window = None  # it may be about these rows
    wanted, rows = encoding.columns.wanted, learner.chunk_rows
    source.verify(record.mark, wanted)
    params = {**model.get_params(deep=False), "features": model._learned.fixed}
    gone, left = BalancedRidgeClassifier(**params), record.mark.rows
    for chunk in source.chunks(rows, Mark(), encoding.kinds, wanted, left):
        chunk = chunk.head(left)
        encoded, after = encoding.learn(chunk)
        if after is not encoding:
            raise changed(source.name, record.mark)
        if encoded.X.shape[0]:
            gone.partial_fit(encoded.X, encoded.y, sample_weight=encoded.weight)
        watch(source, chunk.rows)
        left -= chunk.rows
        if not left:
            break
    if gone.__sklearn_is_fitted__():
        names = [feature.name for feature in encoding.features]
        moments = gone._learned.moments
        for _ in range(record.times - 1):
            moments = moments + gone._learned.moments
        model._forget(moments, model._terms(names))
    del learner.records[key]
    return record.mark.rows


def _undecided(path: str) -> DataError:
    return DataError(
        f"{path} holds a model that chooses by itself, which depends on the order of the rows, so "
        "that it can neither be merged nor forget; learn one that begins with its choice: "
        f"--features {path}"
    )


def _placed(stored: Stored, features: tuple[Feature, ...]) -> BalancedRidgeClassifier:
    """The model with its features at their places among all features."""
    index = {feature: j for j, feature in enumerate(features)}
    at = np.array([index[feature] for feature in stored.encoding.features], dtype=np.intp)
    result = stored.model.__copy__()
    assert isinstance(result, BalancedRidgeClassifier)
    result._place(at, [feature.name for feature in features])
    return result


def _require_alike(one: Stored, two: Stored, names: tuple[str, str]) -> None:
    if one.encoding.columns != two.encoding.columns:
        raise DataError(
            f"{names[0]} and {names[1]} were learnt with different options of the columns: "
            f"{one.encoding.columns} and {two.encoding.columns}"
        )
    for column, kind in one.encoding.kinds.items():
        other = two.encoding.kinds.get(column, kind)
        if kind != other:
            raise DataError(
                f"column {column!r} is {kind} in {names[0]} and {other} in {names[1]}; learn one "
                f"of them again with --numeric {column} or --categorical {column}"
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
    """Records of both; a stream of standard input gets another name if its name is taken."""
    records = dict(one)
    for key, record in two.items():
        same = [k for k, known in one.items() if known.begins_like(record.starts)]
        if key in one and not key.startswith("-") and key not in same:
            raise DataError(f"{key} is not the same file to {names[0]} and to {names[1]}")
        if same and not allow_overlap:
            raise DataError(
                f"{same[0]} was learnt by {names[0]} and by {names[1]}; if its rows are to count "
                "twice, say --allow-overlap"
            )
        if key in same:
            if records[key].mark != record.mark:
                raise DataError(
                    f"{key} was not learnt to the same row by {names[0]} and by {names[1]}; learn "
                    "it to its end in both first"
                )
            times = records[key].times + record.times
            records[key] = replace(records[key], times=times)
        elif key in records:
            records[f"- {os.path.basename(names[1])}"] = record
        else:
            records[key] = record
    return records
