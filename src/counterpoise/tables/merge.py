"""Models of parts of a stream merged into one, their inputs counted together."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from counterpoise.arrays import Counts
from counterpoise.encoding.columns import Feature
from counterpoise.encoding.encoder import ColumnEncoder
from counterpoise.encoding.vocabulary import Vocabulary
from counterpoise.engine.auto import AutoModel
from counterpoise.errors import DataError, Message, OptionValue, Suggestion
from counterpoise.readers.database import split_address
from counterpoise.solver.imputation import MeanImputation
from counterpoise.tables.estimator import Model, as_auto, as_ridge, as_text
from counterpoise.tables.event_database import EventDatabase, has_store, pending_path
from counterpoise.tables.model import TableModel
from counterpoise.tables.records import (
    FRAMES,
    MAX_REPEAT_COUNT,
    PENDING,
    Record,
    Records,
    UnfiledRows,
    concatenate_positions,
    input_key,
)
from counterpoise.tables.scoring import merge_windows


def merge_models(
    one: TableModel,
    two: TableModel,
    names: tuple[str, str],
    allow_overlap: bool,
    positive: str | None = None,
) -> TableModel:
    """Return one model of two, as if it had learned the rows of the first, then of the second.

    Their records must be relative to the same folder; ``names`` are the models' names in messages.
    With ``allow_overlap`` both may have learned an input. ``positive`` is the positive class as
    text, by default that of both.
    """
    for stored, name in zip((one, two), names, strict=True):
        replace(stored, path=name).require_learned()
    _require_alike(one, two, names)
    records = _merge_records(one.records, two.records, names, allow_overlap)
    kinds = {**two.encoding.kinds, **one.encoding.kinds}
    features = tuple(dict.fromkeys((*one.encoding.features, *two.encoding.features)))
    labels = one.encoding.labels or two.encoding.labels
    bases = {**two.encoding.bases, **one.encoding.bases}
    vocabularies = dict(one.encoding.vocabularies)
    for name, more in two.encoding.vocabularies.items():
        mine = vocabularies.get(name, Vocabulary())
        vocabularies[name] = mine.append(more.values).with_rows(mine.rows + more.rows)
    columns = one.encoding.columns
    encoding = ColumnEncoder(columns, kinds, features, labels, bases, vocabularies)
    first, second = (_reindex_model(stored, encoding) for stored in (one, two))
    ridge, other = as_ridge(first), as_ridge(second)
    if ridge is None or other is None:
        model: Model = _merge_auto(first, second, names)
    else:
        model = ridge.merge(other)
    chosen = _positive_class(one, two, names, model.labels.tolist(), positive)
    recent = None
    if one.classes == two.classes:
        recent = merge_windows(one.recent, two.recent, (one.rows, two.rows))
    return TableModel(
        model,
        encoding,
        records,
        one.chunk_rows,
        chosen,
        records.rows,
        recent,
        held=_merge_counts(one, two, features),
        unlearned=one.unlearned + two.unlearned,
        apart=UnfiledRows(one.apart.rows + two.apart.rows, one.apart.hashes + two.apart.hashes),
    )


def _merge_auto(one: Model, two: Model, names: tuple[str, str]) -> AutoModel:
    """Return the merger of two averaging models, whose maps must be equal."""
    first, second = as_auto(one), as_auto(two)
    if (
        first is not None
        and second is not None
        and first.candidates.is_ready
        and first.fitted_candidates == second.fitted_candidates
    ):
        return first.merge(second)
    raise DataError(
        f"{names[0]} and {names[1]} are not averaging models whose maps the same rows have fitted",
        Suggestion("learn the second with {}", "feature_map", f"auto:{names[0]}"),
    )


def _merge_counts(one: TableModel, two: TableModel, features: tuple[Feature, ...]) -> Counts | None:
    """Return the rows of both models that have each feature, if both have counted them."""
    index = {feature: j for j, feature in enumerate(features)}
    held = np.zeros(len(features), dtype=np.int64)
    for stored in (one, two):
        mine = stored.held_rows
        if mine is None:
            return None
        held[[index[feature] for feature in stored.encoding.features]] += mine
    return held


def _positive_class(
    one: TableModel, two: TableModel, names: tuple[str, str], classes: list[Any], wanted: str | None
) -> Any:
    """Return the positive class: ``wanted``, or the class of both models."""
    if wanted is not None:  # the next model may have it
        return {str(label): label for label in classes}.get(wanted)
    both = [stored.positive for stored in (one, two) if stored.positive is not None]
    if len(both) == 2 and both[0] != both[1]:
        raise DataError(
            f"the positive class is {str(both[0])!r} in {names[0]} and {str(both[1])!r} in "
            f"{names[1]}",
            Suggestion("choose one with {}", "positive"),
        )
    return both[0] if both else None


def move_records(stored: TableModel, old: str, new: str) -> TableModel:
    """Return a model whose inputs have paths relative to the folder of another file."""
    folder = os.path.dirname(os.path.realpath(old))

    def new_key(key: str) -> str:
        if key == PENDING and os.path.realpath(old) != os.path.realpath(new):
            return f"- pending of {os.path.basename(old)}"  # the store stays with its own model
        before, file, rows = split_address(key)
        if key.startswith("-") or not file:
            return key
        return input_key(f"{before}{os.path.join(folder, file)}{rows}", new)

    records = Records((new_key(k), record) for k, record in stored.records.items())
    return replace(stored, records=records, path=new)


def require_own_stores(models: Sequence[str], output: str) -> list[Message]:
    """Return warnings about the stores of pending events of models that are merged.

    Raise if a store belongs to a model that the merged one replaces.
    """
    notes, target = [], os.path.realpath(output)
    if has_store(output) and target not in map(os.path.realpath, models):
        raise DataError(
            f"{pending_path(output)} has events of the model that would be replaced; move both "
            "away, or write another file"
        )
    for path in dict.fromkeys(models):
        if not has_store(path):
            continue
        with EventDatabase(pending_path(path)) as store:
            pending, waiting, learned = len(store), store.waiting_labels, store.learned_ids
            has_log = any(True for _ in store.log_entries())
        if has_log:
            raise DataError(
                f"{store.path} has rows that {path} does not contain yet",
                Suggestion("end the service of the model, or start and end it if it was killed"),
            )
        if os.path.realpath(path) == target:
            continue
        if pending or waiting:
            text = (
                f"warning: {pending:,} pending events and {waiting:,} labels stay in {store.path}: "
                f"they can be learned only into {path}"
            )
            notes.append(Message(text, Suggestion("merge again when their labels have come")))
        if learned:
            text = (
                f"warning: {output} does not contain the {learned:,} ids of {store.path}, so that "
                "it does not recognize these rows"
            )
            remedy = Suggestion(f"learn, relabel and unlearn them in {path}, and merge again")
            notes.append(Message(text, remedy))
    return notes


def calibration_note(first: TableModel, other: TableModel, names: Sequence[str]) -> Message | None:
    """Return a warning if only one of two models that are merged calibrates.

    ``names`` are the names of the first model, of the other and of the merged one, which has the
    options of the first.
    """
    mine, theirs = as_ridge(first.model), as_ridge(other.model)
    if mine is None or theirs is None or mine.options.calibrate == theirs.options.calibrate:
        return None
    if mine.options.calibrate:
        text = (
            f"warning: {names[0]} is calibrated and {names[1]} is not, so that {names[2]} is "
            f"calibrated without the rows of {names[1]}"
        )
        return Message(text, Suggestion("learn both with {}", "calibrate", True))
    text = (
        f"warning: {names[0]} is not calibrated and {names[1]} is, so that {names[2]} is not "
        "calibrated"
    )
    return Message(text, Suggestion(f"name {names[1]} first"))


def _reindex_model(stored: TableModel, encoding: ColumnEncoder) -> Model:
    """Return the engine of a model with its features at their positions in an encoder."""
    features, fill = encoding.features, MeanImputation.of(*encoding.fill)
    index = {feature: j for j, feature in enumerate(features)}
    at = np.array([index[feature] for feature in stored.encoding.features], dtype=np.intp)
    result: Model = copy.deepcopy(stored.estimator)
    result.reindex_features(at, [feature.name for feature in features])
    positions = {name: b for b, name in enumerate(encoding.vocabularies)}
    for b, (name, before) in enumerate(stored.encoding.vocabularies.items()):
        after = encoding.vocabularies[name]
        result.reindex_categories(b, after.codes(before.values).astype(np.intp) - 1, after.size)
    own = [positions[name] for name in stored.encoding.vocabularies]
    result.set_codes(own, encoding.code_columns)
    mine = MeanImputation.of(*replace(encoding, bases=stored.encoding.bases).fill)
    ridge = as_ridge(result)
    if ridge is not None:
        if fill is not None and mine is not None:
            ridge.change_imputation_base(mine, fill)
    elif mine != fill:
        raise DataError(
            "averaging models can be merged only if they impute missing values by the same numbers",
            Suggestion("let both begin with the maps of one file", "feature_map", "auto:FILE"),
        )
    result.set_imputation(fill)
    return result


def _require_alike(one: TableModel, two: TableModel, names: tuple[str, str]) -> None:
    """Raise if columns or labels are not of the same types in both models."""
    mine, theirs = one.encoding.columns.by_option(), two.encoding.columns.by_option()
    for option, value in mine.items():
        if value != theirs[option]:
            problem = f"{names[0]} and {names[1]} were learned with different column options: "
            mine_as_text, theirs_as_text = as_text(value), as_text(theirs[option])
            values = f" is {mine_as_text} in the first and {theirs_as_text} in the second"
            raise DataError((problem, OptionValue(option), values))
    for column, kind in one.encoding.kinds.items():
        other = two.encoding.kinds.get(column, kind)
        if kind != other:
            raise DataError(
                f"column {column!r} is {kind} in {names[0]} and {other} in {names[1]}",
                Suggestion("learn one of them again", "columns", {column: "number"}),
                Suggestion("{}", "columns", {column: "category"}),
            )
    labels = {one.encoding.labels, two.encoding.labels} - {None}
    if len(labels) > 1 and "int" in labels:
        raise DataError(
            f"labels are numbers in one of {names[0]} and {names[1]}, and text in the other"
        )


def _merge_records(
    one: Mapping[str, Record],
    two: Mapping[str, Record],
    names: tuple[str, str],
    allow_overlap: bool,
) -> Records:
    """Return the records of both; an input gets another name if its name is taken."""
    records = Records(one)
    for key, record in two.items():
        same = [k for k, other in one.items() if other.begins_like(record.starts)]
        if same and not allow_overlap:
            raise DataError(
                f"{same[0]} was learned by {names[0]} and by {names[1]}",
                Suggestion("to count its rows twice, use {}", "allow_overlap", True),
            )
        if key == FRAMES and key in records:
            mark = concatenate_positions(records[key].mark, record.mark)
            records[key] = Record(mark, (), records[key].dropped + record.dropped)
        elif key in same:
            mine, both = records[key], f"{names[0]} and {names[1]}"
            if mine.mark != record.mark:
                raise DataError(
                    f"{both} have learned different parts of {key}; learn it to its end in both "
                    "first"
                )
            if (mine.gone, mine.relabeled) != (record.gone, record.relabeled):
                raise DataError(
                    f"{both} have unlearned or relabeled different rows of {key}; do the same in "
                    "both first"
                )
            times = mine.times + record.times
            if times > MAX_REPEAT_COUNT:
                raise DataError(
                    f"{key} would count {times:,} times, more than {MAX_REPEAT_COUNT:,}"
                )
            records[key] = replace(mine, times=times)
        elif key in records:  # another input of that name
            model = os.path.basename(names[1])
            free = f"- {model}" if key.startswith("-") else f"{key} of {model}"
            while free in records:
                free += "'"
            records[free] = record
        else:
            records[key] = record
    return records
