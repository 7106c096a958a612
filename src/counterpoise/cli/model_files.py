"""Commands about model files: inspect, check, export, merge, unlearn and relabel."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar

import typer

from counterpoise.cli import messages
from counterpoise.cli import options as opt
from counterpoise.cli.learn import (
    counts_of,
    missing_store,
    opened_store,
    settle,
    show_summary,
    warn_missing_store,
)
from counterpoise.cli.messages import Json, Progress, pluralize, show, show_json
from counterpoise.errors import DataError, unknown_name

CALIBRATION = {
    "rows": "rows used for calibration",
    "error": "calibration error (raw)",
    "corrected": "calibration error (calibrated)",
}
INPUTS_SHOWN_PER_END = 4  # inputs shown at either end of a long list


def inspect(
    model: opt.ModelFile,
    top: Annotated[int, typer.Option(help="Coefficients, or features, to show.", metavar="N")] = 15,
    as_json: Json = False,
) -> None:
    """Show classes, counts, options, the largest coefficients, and the inputs of a model.

    Coefficients are for features of standard deviation 1. With two classes, or with --multi-class
    ovr, they have standard errors and 95% confidence intervals, unless there is a map,
    --pooled-rows or --half-life. These assume rows that are normal within each class. The means
    and standard deviations of the features follow, and the mean of each class.

    A model with --pooled-rows does not have coefficients. Instead the means and standard deviations
    of each class are shown, for the features in which the classes differ most.

    The calibration error is the mean distance of the stream probabilities from the observed
    frequencies, before and after the correction. It is measured on rows that were scored before
    they were learned. Of many inputs the first and the last are shown; --json has all of them.

    Example: counterpoise inspect fraud.safetensors
    """
    from counterpoise.tables.estimator import as_text
    from counterpoise.tables.inspect import describe_model
    from counterpoise.tables.model import TableModel

    found = describe_model(TableModel.load(model))
    if as_json:
        show_json(found)
        return
    what = "term" if found["options"]["feature_map"] else "feature"
    weights, scores = found["weights"], found["scores"]
    columns = {name: value for name, value in found["columns"].items() if value}
    if columns.get("decimal") == ".":
        del columns["decimal"]
    facts: list[list[Any]] = [
        [f"{what}s", len(found["densities"] if weights is None else weights)],
        ["ridge used", found["ridge"]],
        ["condition number", found["condition"]],
        *([["positive class", found["positive"]]] if found["positive"] else []),
        *([CALIBRATION[name], value] for name, value in (found["calibration"] or {}).items()),
        *([f"rows clipped by {name}", rows] for name, rows in found["clipped"].items() if rows),
        *([["standard errors", _error_note(found)]] if _error_note(found) else []),
    ]
    options = {name: as_text(value) for name, value in found["options"].items()}
    options["memory_limit"] = f"{found['options']['memory_limit'] / 1e9:g} GB"
    if options.get("candidates") == "none":
        options["candidates"] = "default"
    show(["model", "value"], facts)
    print()
    show(["parameter", "value"], [list(one) for one in options.items()])
    print()
    show(["columns", "value"], [[name, as_text(value)] for name, value in columns.items()])
    print()
    if found["candidates"]:
        shares = found["shares"]
        rows = [[name, *best, shares.get(name)] for name, best in found["candidates"].items()]
        show(["candidate", "G-mean", "ridge", "averaging weight"], rows)
        print()
    show(["class", "weight"], [[str(k), v] for k, v in found["classes"].items()])
    print()
    for name, one in found["categories"].items():
        head = ["category", *(f"effect ({label})" for label in scores), "rows"]
        largest = [[c["category"], *c["effects"], sum(c["rows"])] for c in one["largest"][:top]]
        print(f"{name}: {one['categories']:,} categories, ridge worth {one['ridge_rows']:g} rows")
        show(head, largest)
        print()
    inputs = [[key, r["rows"], r["dropped"]] for key, r in found["inputs"].items()]
    show(["input", "rows", "dropped rows"], _abbreviated_inputs(inputs))
    print()
    if weights is None:
        head = [
            what,
            *(f"{of} of {label}" for label in scores for of in ("mean", "std. deviation")),
        ]
        rows = [
            [name, *(x for pair in zip(one["mean"], one["deviation"], strict=True) for x in pair)]
            for name, one in found["densities"].items()
        ]
        show(head, rows[:top])
        return
    show(*_weights(found, what, top))
    if found["means"]:
        print()
        means = {name: found["means"][name] for name in list(weights)[:top]}
        head = [what, "mean", "std. deviation", *(f"mean of {k}" for k in found["means_of"])]
        rows = [[n, one["mean"], one["deviation"], *one["by_class"]] for n, one in means.items()]
        show(head, rows)


def _weights(found: dict[str, Any], what: str, top: int) -> tuple[list[str], list[list[Any]]]:
    """Return the table of the largest weights, with standard errors and intervals if known."""
    head, rows = [what], [[name] for name in list(found["weights"])[:top]]
    for q, label in enumerate(found["scores"]):
        head.append(f"weight ({label})")
        head += ["std. error", "95% CI low", "95% CI high"] if found["errors"] else []
        for row in rows:
            row.append(found["weights"][row[0]][q])
            if found["errors"]:
                row += [found["errors"][row[0]][q], *found["intervals"][row[0]][q]]
    return head, rows


def _error_note(found: dict[str, Any]) -> str:
    """Return the assumption of the standard errors, or why there are none."""
    if found["errors"] is not None:
        return "for rows that are independent, and normal within each class"
    return (found["note"] or "").replace("No standard errors", "none").rstrip(".")


def _abbreviated_inputs(inputs: list[list[Any]]) -> list[list[Any]]:
    """Return the first and the last inputs, with the sums of others between them."""
    between = inputs[INPUTS_SHOWN_PER_END:-INPUTS_SHOWN_PER_END]
    if len(between) < 2:
        return inputs
    sums = [sum(row[j] for row in between) for j in (1, 2)]
    more = [f"({len(between):,} more)", *sums]
    return [*inputs[:INPUTS_SHOWN_PER_END], more, *inputs[-INPUTS_SHOWN_PER_END:]]


def check(
    files: opt.Files,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", "-m", help="Model file that is to learn the files.", metavar="FILE"
        ),
    ] = None,
    max_problems: Annotated[
        int, typer.Option(help="Problems to print for each file.", metavar="N")
    ] = 100,
    id: opt.Id = None,  # noqa: A002
    allow_future: opt.AllowFuture = False,
    *,
    columns: opt.ModelColumnOptions,
    input: opt.InputOptions,  # noqa: A002
) -> None:
    """List every problem of files, without learning and without writing anything.

    The options are those of learn. With --id the labels may come later. Problems go to standard
    output, one per line, and the exit code is 1 if there are any.

    Example: counterpoise check march.csv --label fraud --drop payment
    """
    reading, settings = input.reading(), columns.settings()
    columns.require_dates()
    if max_problems < 1:
        raise DataError(f"--max-problems must be 1 or more; got {max_problems}")

    from counterpoise.errors import printable
    from counterpoise.readers import formats
    from counterpoise.tables.check import Checker
    from counterpoise.tables.delayed_labels import drop_id
    from counterpoise.tables.guards import Guards
    from counterpoise.tables.model import NAME, TableModel

    paths = formats.expand_paths(files)
    settings = formats.with_label(settings, paths, input.format)
    if id is not None:
        settings = drop_id(settings, id, model)
    guards = Guards(model or NAME, allow_future=allow_future)
    # A model with times requires a half-life, which has no effect on the check.
    is_new = columns.timestamp is not None and not os.path.exists(guards.path)
    parameters = {"half_life": "1d"} if is_new else {}
    learner = TableModel.open(guards.path, settings, parameters, guards=guards)
    checker = Checker(learner, max_problems, id)
    total = 0
    with Progress() as progress:
        for path in paths:
            source, found = formats.source(path, **reading), 0
            for problem in checker.problems(source):
                print(
                    printable(problem.message.format_with(messages.format_as_options)), flush=True
                )
                found += 1
                progress.chunk(source, 0)
            total += found
            if found >= max_problems:
                messages.info(
                    f"{source.name}: the first {max_problems:,} problems; there may be more"
                )
    messages.info(f"{checker.rows:,} rows read, {pluralize(total, 'problem')} found")
    if total:
        sys.exit(1)


KINDS = {"json": "json", "onnx": "onnx", "joblib": "sklearn", "sql": "sql"}


@dataclass
class SqlOptions:
    """Options of the SQL of a model."""

    panel: ClassVar[str] = "SQL"
    dialect: str | None = opt.option(
        "postgres, duckdb, sqlite, bigquery, snowflake or spark.", "NAME"
    )
    table: str | None = opt.option("Table of the rows, perhaps SCHEMA.TABLE.", "NAME")
    view: str | None = opt.option("View to create (default: a query without a view).", "NAME")
    id: list[str] | None = opt.option("Columns of the table to copy.", "COLUMNS", "--id")
    explain: int | None = opt.option(
        "Name the N columns that contribute most to the score.", "N", limits=(1, 100)
    )
    positive: opt.Positive = None

    def request(self, kind: str) -> Any:
        """Return the parts of the statement; None if the format is not SQL."""
        given = {f.name for f in fields(self) if getattr(self, f.name) not in (None, [], ())}
        if kind != "sql":
            if given:
                raise DataError(f"--{min(given)} requires --output-format sql")
            return None
        for name in ("dialect", "table"):
            if name not in given:
                raise DataError(f"--output-format sql requires --{name}")
        from counterpoise.export.sql import Request
        from counterpoise.export.sql_statement import DIALECTS

        opt.require_choice("--dialect", self.dialect, DIALECTS)
        ids = opt.names(self.id)
        return Request(self.dialect or "", self.table or "", self.view, ids, self.explain or 0)


def export(
    model: opt.ModelFile,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", help="File to write: .json, .onnx, .joblib or .sql.", metavar="FILE"
        ),
    ] = None,
    output_format: Annotated[
        str | None,
        typer.Option(
            help="json, onnx, sklearn or sql; by default that of the output name, or json.",
            metavar="FORMAT",
        ),
    ] = None,
    *,
    sql: SqlOptions,
) -> None:
    """Export coefficients (JSON), an ONNX graph, a scikit-learn pipeline (joblib), or SQL.

    The model was learned in a shell or saved from Python. Every export has both probabilities.

    JSON and SQL go to standard output by default. ONNX needs the extra: pip install
    'counterpoise[onnx]'. SQL needs the extra sql. Loading a joblib file runs code.

    Example: counterpoise export fraud.safetensors --output fraud.onnx

    A view of predictions: counterpoise export fraud.safetensors --output fraud.sql --dialect
    postgres --table payments --view scored --id payment
    """
    kind = opt.output_format(output_format, output, KINDS)
    if output is None and kind not in ("json", "sql"):
        raise DataError(f"--output-format {kind} requires --output")
    request = sql.request(kind)

    import io
    import json

    from counterpoise.atomic_write import atomic_write
    from counterpoise.errors import finite
    from counterpoise.export import load_to_export

    stored = load_to_export(model).require_learned()
    if kind == "json":
        from counterpoise.export.json import coefficients

        data = (json.dumps(finite(coefficients(stored)), indent=2) + "\n").encode()
    elif kind == "sql":
        from counterpoise.export.sql import build_sql

        positive = opt.select_positive(sql.positive, stored.class_counts, stored.positive)
        data = build_sql(stored, request, positive).encode()
    elif kind == "onnx":
        from counterpoise.export.onnx import build_graph

        data = build_graph(stored)
    else:
        import joblib

        from counterpoise.export.sklearn_pipeline import build_pipeline

        buffer = io.BytesIO()
        joblib.dump(build_pipeline(stored), buffer)
        data = buffer.getvalue()
    if output is None:
        print(data.decode(), end="")
    else:
        with atomic_write(output, "the export") as file:
            file.write(data)
        messages.info(f"{output}: {len(stored.encoding.features):,} features")


def merge(
    models: Annotated[list[str], typer.Argument(help="Model files.", metavar="MODELS")],
    output: Annotated[
        str, typer.Option("--output", "-o", help="Model file to write.", metavar="FILE")
    ],
    allow_overlap: Annotated[
        bool, typer.Option("--allow-overlap", help="Merge models that have learned the same file.")
    ] = False,
    positive: opt.Positive = None,
    as_json: Json = False,
) -> None:
    """Combine models into one that equals a model of all their rows.

    Example: counterpoise merge eu.safetensors us.safetensors --output world.safetensors
    """
    if len(models) < 2:
        raise DataError("MODELS: name at least two model files")

    from counterpoise.atomic_write import lock_file
    from counterpoise.tables.merge import (
        calibration_note,
        merge_models,
        move_records,
        require_own_stores,
    )
    from counterpoise.tables.model import TableModel

    with lock_file(output):
        notes = require_own_stores(models, output)
        whole = move_records(TableModel.load(models[0]), models[0], output)
        for path in models[1:]:
            other = move_records(TableModel.load(path), path, output)
            note = calibration_note(whole, other, (models[0], path, output))
            notes += [] if note is None else [note]
            whole = merge_models(whole, other, (models[0], path), allow_overlap, positive)
        counts = whole.class_counts
        if whole.positive is None and positive is not None:
            raise unknown_name("--positive", "class", positive, map(str, counts))
        whole.choose_positive()
        whole.save(output)
    for note in notes:
        messages.info(note)
    assert whole.model is not None
    messages.info(f"{output}: {counts_of(whole.model.labels, whole.model.class_count)}")
    if as_json:
        inputs = {key: {"rows": record.mark.rows} for key, record in whole.records.items()}
        show_summary(output, whole.model, inputs, positive=whole.positive)


def unlearn(
    model: opt.ModelFile,
    files: opt.SomeFiles = None,
    where: opt.WhereOption = None,
    as_json: Json = False,
    *,
    input: opt.InputOptions,  # noqa: A002
) -> None:
    """Unlearn the rows of files: the model equals one that never learned them.

    Categories, columns and classes that no other row has are removed too. The files must be as they
    were when they were learned; rows added since do not matter. With - the rows come from a pipe,
    with their labels. With --where only some rows are unlearned, each one once, and pending events
    are erased too. Events with delayed labels need no file of labels.

    Example: counterpoise unlearn fraud.safetensors february.csv

    One customer: counterpoise unlearn fraud.safetensors --where customer=123 2026-*.csv
    """
    reading, condition = input.reading(), opt.parse_where(where)
    if not files and condition is None:
        raise DataError("FILES: name the files whose rows are to be unlearned")

    from counterpoise.atomic_write import lock_file
    from counterpoise.readers import formats
    from counterpoise.tables import unlearn as job
    from counterpoise.tables.event_database import has_store
    from counterpoise.tables.records import PENDING, format_inputs

    if condition is not None and not os.path.exists(model) and has_store(model):
        with lock_file(model), opened_store(model) as store:
            found = store.find_pending(condition.match)
            store.erase_pending(found)
            store.compact()
        _warn_no_row(condition, len(found))
        messages.info(f"{pluralize(len(found), 'pending event')} erased")
        if as_json:
            show_summary(model, None, {}, erased_events=len(found))
        return
    paths = formats.expand_paths(files or [])
    done: dict[str, Any] = {}
    with _edit_model(model, paths) as (learner, store, progress):
        if not paths and store is None:
            if PENDING in learner.records:
                raise DataError(missing_store(model))
            raise DataError(f"{model} has no pending events; name files too")
        change, lines, keys = job.StoreChange(store), [], list[str]()
        for path in paths:
            source, key, events = _learned_input(learner, store, path, reading)
            keys.append(key)
            rows = job.unlearn(
                learner, source, key, progress.chunk, change, condition, events=events
            )
            if events is not None and condition is None:
                change.drop_input(key)
            lines.append(f"{source.name}: {pluralize(rows, 'row')} unlearned")
            done[source.name] = {"unlearned_rows": rows}
        before = 0 if store is None else len(store)
        if store is not None:
            if condition is not None:
                pending = store.find_pending(condition.match)
                kept = store.find_kept(condition.match)
                change.matched_rows += len(pending) + len(kept)
                change.erase(pending)
                if kept:
                    text = f"warning: {pluralize(len(kept), 'learned event')} with {condition} came"
                    lines.append(f"{text} alone and stay; erase them by id with EventStore.erase")
            change.plan(learner)
        learner.save()
        settle(learner, store, is_finished=True)
        erased = 0 if store is None else before - len(store)
        if store is not None:
            lines.append(f"{pluralize(erased, 'pending event')} erased")
        inputs = [*learner.records, *(() if store is None else store.event_inputs)]
        left = [key for key in inputs if key not in keys and not key.startswith("-")]
        left = [] if condition is None else left
        if left:
            number, were = (
                pluralize(len(left), "learned input"),
                "was" if len(left) == 1 else "were",
            )
            named = format_inputs(left)
            lines.append(f"not examined: {number} that {were} not named: {named}")
        for line in lines:
            messages.info(line)
        _warn_no_row(condition, change.matched_rows, is_all=not left)
    if as_json:
        show_summary(model, learner.model, done, erased_events=erased, not_examined=left)


def _warn_no_row(condition: Any, matched_rows: int, is_all: bool = True) -> None:
    """Warn if no row meets a condition, if there is one; ``is_all`` if all rows were examined."""
    if condition is not None and not matched_rows:
        messages.info(f"warning: no {'row' if is_all else 'examined row'} has {condition}")


def _learned_input(
    learner: Any, store: Any, path: str, reading: dict[str, Any]
) -> tuple[Any, str, Any]:
    """Return an input that was learned, its name, and its record in the store if it has events."""
    from counterpoise.readers import formats
    from counterpoise.tables.records import PENDING

    source = formats.source(path, **reading)
    key = learner.key(source.path)
    lost_store = store is None and PENDING in learner.records
    if lost_store and os.path.isfile(path) and not learner.identify(source, key):
        raise DataError(missing_store(learner.path))
    found = None if store is None or path == "-" else store.find_input(source, key)
    if found is None or key in learner.records:
        return source, key, None
    name, kind, record = found
    if kind == "labels":
        raise DataError(
            f"{source.name} contains labels of events; name the files of these events instead"
        )
    return source, name, record


@contextmanager
def _edit_model(model: str, files: list[str]) -> Iterator[tuple[Any, Any, Any]]:
    """Lock a model to change it, with its store and a progress line; print what is left."""
    from counterpoise.atomic_write import lock_file
    from counterpoise.tables.model import TableModel

    opt.load_model(model, files)  # it must exist and be complete before there is a lock next to it
    with lock_file(model):
        learner = TableModel.open(model, {}, {})
        with Progress() as progress, opened_store(model) as store:
            warn_missing_store(learner, store)
            settle(learner, store)
            yield learner, store, progress
        for note in learner.notes.values():
            messages.info(note)
    if learner.model is not None:
        counts = counts_of(learner.model.labels, learner.model.class_count)
        messages.info(f"{model}: {counts or 'nothing is left'}")


def relabel(
    model: opt.ModelFile,
    files: opt.SomeFiles = None,
    new_label: Annotated[
        str | None, typer.Option(help="The correct label.", metavar="LABEL")
    ] = None,
    where: opt.WhereOption = None,
    as_json: Json = False,
    *,
    correct: opt.LabelOptions,
    input: opt.InputOptions,  # noqa: A002
) -> None:
    """Unlearn rows with their present label, and learn them with another.

    The files are those that were learned, or those of the events if labels came later. Rows that
    have the correct label stay as they are: the same command twice changes nothing more. A row can
    be relabeled as often as needed.

    Example: counterpoise relabel fraud.safetensors march.csv --where payment=4711 --new-label yes

    Many rows: counterpoise relabel fraud.safetensors march.csv --labels right.csv --id payment
    """
    reading, condition, labels = input.reading(), opt.parse_where(where), correct.labels or []
    if not labels and condition is None:
        raise DataError("missing --where; name the rows that have the wrong label")
    if bool(labels) == (new_label is not None):
        raise DataError("relabel requires either --new-label or --labels")
    if len(labels) > 1:
        raise DataError("--labels must be one file")
    if not files and not labels:
        raise DataError("FILES: name the files whose rows have the wrong label")
    if "-" in (files or []):
        raise DataError("FILES: standard input cannot be read twice; name a file")

    from counterpoise.readers import formats
    from counterpoise.tables import delayed_labels
    from counterpoise.tables import unlearn as job

    with _edit_model(model, files or []) as (learner, store, progress):
        labels_by_text = job.labels_by_text(learner)
        if new_label is not None and new_label not in labels_by_text:
            raise unknown_name("--new-label", "class", new_label, labels_by_text)
        new, rows_of = (
            delayed_labels.NewLabels(labels_by_text.get(new_label or "")),
            dict[str, str](),
        )
        for path in labels:
            id = correct.id or (None if store is None else store.id)  # noqa: A001
            if id is None:
                raise DataError(opt.MISSING_ID)
            new, rows_of = delayed_labels.read_labels(
                formats.source(path, **reading), id, learner.encoding.columns.label, labels_by_text
            )
        change, lines, total, done = job.StoreChange(store), [], 0, dict[str, Any]()
        for path in formats.expand_paths(files or []):
            source, key, events = _learned_input(learner, store, path, reading)
            rows = job.unlearn(learner, source, key, progress.chunk, change, condition, new, events)
            lines.append(f"{source.name}: {pluralize(rows, 'row')} relabeled")
            done[source.name] = {"relabeled_rows": rows}
            total += rows
        revised = change.revise_waiting(new, rows_of)
        if revised:
            lines.append(f"{pluralize(revised, 'label')} that waited for events replaced")
        change.plan(learner)
        if total or revised:
            learner.save()
        settle(learner, store, is_finished=True)
        for line in lines:
            messages.info(line)
        _warn_no_row(condition, change.matched_rows)
    if as_json:
        show_summary(model, learner.model, done, replaced_labels=revised)
