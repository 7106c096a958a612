"""counterpoise inspect: what is in a model file."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from counterpoise.cli import messages
from counterpoise.cli import options as opt
from counterpoise.cli.messages import Json, show, show_json

INPUTS_SHOWN_PER_END = 4  # inputs shown at either end of a long list


def inspect(
    model: Annotated[str, typer.Argument(help="Model file.", metavar="MODEL")],
    top: Annotated[int, typer.Option(help="Coefficients, or features, to show.", metavar="N")] = 15,
    as_json: Json = False,
) -> None:
    """Show classes, counts, options, the largest weights, and what was learned from where.

    Weights are for features of standard deviation 1. Two classes, or several with --multi-class
    ovr, have standard errors and 95 % intervals of them, unless there is a map, --pooled-rows or
    --half-life. They assume rows that are normal within each class. Mean and standard deviation
    of these features over all rows follow, and the mean of each class. A model with
    --pooled-rows has no weights: mean and standard deviation of each class are shown instead, of
    the features in
    which the classes differ most. The calibration error is how far the stream's probabilities
    of rows that were scored before they were learned were from what was observed, and how far they
    are as corrected. Of many inputs the first and the last are shown; --json has
    all of them.

    Example: counterpoise inspect fraud.safetensors
    """
    from counterpoise.tables.estimator import shown
    from counterpoise.tables.inspect import describe_model
    from counterpoise.tables.model import TableModel

    found = describe_model(TableModel.load(model))
    if as_json:
        show_json(found)
        return
    what = "term" if found["options"]["feature_map"] else "feature"
    facts: list[list[Any]] = [
        [f"{what}s", len(found["densities" if found["weights"] is None else "weights"])],
        ["ridge used", found["ridge"]],
        ["condition number", found["condition"]],
        *([["positive class", found["positive"]]] if found["positive"] else []),
        *_calibration(found["calibration"]),
        *([f"rows clipped by {name}", rows] for name, rows in found["clipped"].items() if rows),
        *_standard_error_note(found),
        *([name, shown(value)] for name, value in found["options"].items()),
        *([name, shown(value)] for name, value in found["columns"].items() if _is_set(name, value)),
    ]
    show(["what", "value"], facts)
    print()
    if found["candidates"]:
        shares = found["shares"]
        judged = [[name, *best, shares.get(name)] for name, best in found["candidates"].items()]
        show(["candidate", "G-mean", "at ridge", "share of the average"], judged)
        print()
    show(["class", "weight"], [[str(k), v] for k, v in found["classes"].items()])
    print()
    inputs = [[key, r["rows"], r["dropped"]] for key, r in found["inputs"].items()]
    show(["learned from", "rows", "of which dropped"], _abbreviated_inputs(inputs))
    print()
    if found["weights"] is None:
        head = [
            what,
            *(f"{of} of {label}" for label in found["scores"] for of in ("mean", "spread")),
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
        show(*_means(found, what, top))


def _weights(found: dict[str, Any], what: str, top: int) -> tuple[list[str], list[list[Any]]]:
    """The largest weights, with their standard errors and intervals if there are any."""
    head, rows = [what], [[name] for name in list(found["weights"])[:top]]
    for q, label in enumerate(found["scores"]):
        head.append(f"for {label}")
        head += ["std. error", "95 % from", "to"] if found["errors"] else []
        for row in rows:
            row.append(found["weights"][row[0]][q])
            if found["errors"]:
                row += [found["errors"][row[0]][q], *found["intervals"][row[0]][q]]
    return head, rows


def _means(found: dict[str, Any], what: str, top: int) -> tuple[list[str], list[list[Any]]]:
    """Mean and standard deviation of the same features, over all rows and of each class."""
    head = [what, "mean", "std. deviation", *(f"mean of {label}" for label in found["means_of"])]
    rows: list[list[Any]] = []
    for name in list(found["weights"])[:top]:
        one = found["means"][name]
        rows.append([name, one["mean"], one["deviation"], *one["by_class"]])
    return head, rows


def _calibration(found: dict[str, Any] | None) -> list[list[Any]]:
    """Return the calibration error, if rows were scored."""
    if found is None:
        return []
    return [
        ["calibration rows", found["rows"]],
        ["calibration error", found["error"]],
        ["as corrected", found["corrected"]],
    ]


def _standard_error_note(found: dict[str, Any]) -> list[list[Any]]:
    """What the standard errors assume, or why there are none."""
    if found["errors"] is None:
        note = found["note"] or ""
        return [["standard errors", note.replace("No standard errors", "none").rstrip(".")]] * bool(
            note
        )
    return [["standard errors", "for rows that are independent, and normal within each class"]]


def _abbreviated_inputs(inputs: list[list[Any]]) -> list[list[Any]]:
    """The first and the last inputs, and the sums of those between them if there are many."""
    if len(inputs) <= 2 * INPUTS_SHOWN_PER_END + 1:
        return inputs
    between = inputs[INPUTS_SHOWN_PER_END:-INPUTS_SHOWN_PER_END]
    sums = [sum(row[j] for row in between) for j in (1, 2)]
    return [
        *inputs[:INPUTS_SHOWN_PER_END],
        [f"({len(between):,} more)", *sums],
        *inputs[-INPUTS_SHOWN_PER_END:],
    ]


def _is_set(name: str, value: Any) -> bool:
    """Whether somebody has said something of the columns."""
    return bool(value) and (name, value) != ("decimal", ".")


def check(
    files: opt.Files,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            help="Model file that is to learn the files; else a new one.",
            metavar="FILE",
        ),
    ] = None,
    id: opt.Id = None,  # noqa: A002
    columns: opt.ColumnOptions = opt.COLUMNS,
    allow_future: Annotated[
        bool, typer.Option("--allow-future", help="Times after now are not a problem.")
    ] = False,
    max_problems: Annotated[
        int, typer.Option(help="Problems to print for each file.", metavar="N")
    ] = 100,
    input: opt.InputOptions = opt.INPUT,  # noqa: A002
) -> None:
    """List every problem of files at once, without learning and without writing anything.

    The options are those of learn: with --id the labels may come later. Problems go to standard
    output, one per line, and the exit code is 1 if there are any.

    Example: counterpoise check march.csv --label fraud --drop payment
    """
    reading = input.reading()
    if max_problems < 1:
        raise opt.bad("--max-problems", "must be 1 or more")
    settings = columns.settings()
    columns.require_dates()

    from counterpoise.cli.messages import Progress
    from counterpoise.errors import printable
    from counterpoise.readers import formats
    from counterpoise.tables.check import Checker
    from counterpoise.tables.guards import Guards
    from counterpoise.tables.model import NAME, TableModel

    paths = formats.expanded(files)
    settings = formats.with_label(settings, paths, input.format)
    known = tuple[str, ...]()
    if model is not None and os.path.exists(model):
        known = TableModel.load(model).encoding.columns.drop
    roles = settings.get("roles", {})
    if id is not None and (id not in known or "drop" in roles.values()):
        kept = {} if "drop" in roles.values() else dict.fromkeys(known, "drop")
        settings["roles"] = {**kept, **roles, id: "drop"}
    guards = Guards(model or NAME, allow_future=allow_future)
    checker = Checker(TableModel.open(guards.path, settings, {}, guards=guards), max_problems, id)
    found = 0
    with Progress() as progress:
        for path in paths:
            source, mine = formats.source(path, **reading), 0
            for problem in checker.problems(source):
                print(printable(problem.message.spelled(messages.format_as_options)), flush=True)
                mine += 1
                progress.chunk(source, 0)
            found += mine
            if mine >= max_problems:
                messages.info(
                    f"{source.name}: the first {max_problems:,} problems; there may be more"
                )
    messages.info(f"{checker.rows:,} rows read, {found:,} problem{'s' if found != 1 else ''} found")
    if found:
        sys.exit(1)


KINDS = {"json": "json", "onnx": "onnx", "joblib": "sklearn"}


def export(
    model: Annotated[str, typer.Argument(help="Model file.", metavar="MODEL")],
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", help="File to write: .json, .onnx or .joblib.", metavar="FILE"
        ),
    ] = None,
    output_format: Annotated[
        str | None,
        typer.Option(
            help="json, onnx or sklearn; by default that of the output name, or json.",
            metavar="FORMAT",
        ),
    ] = None,
) -> None:
    """Export coefficients (JSON), an ONNX graph, or a fitted scikit-learn pipeline (joblib).

    The model was learned in a shell or saved from Python. Every export has both probabilities.

    JSON goes to standard output by default. ONNX needs the extra: pip install 'counterpoise[onnx]'.
    A joblib file is code to whoever loads it: give it to those who trust you.

    Example: counterpoise export fraud.safetensors --output fraud.onnx
    """
    kind = output_format
    if kind is None:
        kind = "json" if output is None else KINDS.get(output.rsplit(".", 1)[-1], "")
    if kind not in KINDS.values():
        raise opt.bad(
            "--output-format",
            "must be json, onnx or sklearn, or --output must end in .json, .onnx or .joblib",
        )
    if output is None and kind != "json":
        raise opt.bad("--output", f"name a file for {kind}")

    import io
    import json

    from counterpoise.atomic_write import atomic_write
    from counterpoise.errors import finite
    from counterpoise.export import load_to_export

    stored = load_to_export(model).require_learned()
    if kind == "json":
        from counterpoise.export.json import coefficients

        data = (json.dumps(finite(coefficients(stored)), indent=2) + "\n").encode()
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
    """Make one model of several, as if it had learned everything that they have.

    Example: counterpoise merge eu.safetensors us.safetensors --output world.safetensors
    """
    if len(models) < 2:
        raise opt.bad("MODELS", "give at least two")

    from counterpoise.atomic_write import locked
    from counterpoise.cli.learn import counts_of, show_summary
    from counterpoise.errors import DataError
    from counterpoise.tables.merge import merge_models, move_records, require_own_stores
    from counterpoise.tables.model import TableModel

    with locked(output):
        notes = require_own_stores(models, output)
        whole = move_records(TableModel.load(models[0]), models[0], output)
        for path in models[1:]:
            other = move_records(TableModel.load(path), path, output)
            whole = merge_models(whole, other, (models[0], path), allow_overlap, positive)
        counts = whole.class_counts
        if whole.positive is None and positive is not None:
            raise DataError(
                f"--positive is {positive!r}, which is not one of {', '.join(map(str, counts))}"
            )
        whole.choose_positive()
        whole.save(output)
    for note in notes:
        messages.info(note)
    assert whole.model is not None
    messages.info(f"{output}: {counts_of(whole.model.labels, whole.model.class_count)}")
    if as_json:
        inputs = {key: {"rows": record.mark.rows} for key, record in whole.records.items()}
        show_summary(output, whole.model, inputs, positive=whole.positive)
