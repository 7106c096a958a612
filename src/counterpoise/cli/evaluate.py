"""counterpoise evaluate: how good a model is on rows that it has not learned."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from counterpoise.cli import options as opt
from counterpoise.cli.table import Json, show, show_json


def evaluate(
    model: Annotated[str, typer.Argument(help="Model file.", metavar="MODEL")],
    files: opt.Files,
    positive: opt.Positive = None,
    report: Annotated[
        str | None, typer.Option(help="Write a page about it.", metavar="FILE.html")
    ] = None,
    as_json: Json = False,
    ignore_unknown: opt.IgnoreUnknown = False,
    format: opt.Format = None,  # noqa: A002
    delimiter: opt.Delimiter = None,
    no_header: opt.NoHeader = False,
) -> None:
    """Compare the predictions of a model with the labels in files.

    Sixteen bytes a row are kept in memory for the metrics that need an order. --positive is the
    class that the page of --report is about.

    Example: counterpoise evaluate fraud.safetensors march.csv
    """
    reading = opt.reading(format, delimiter, no_header)
    if report is not None and not os.path.isdir(os.path.dirname(os.path.realpath(report))):
        raise opt.bad("--report", f"the folder of {report} does not exist")

    from counterpoise import streams
    from counterpoise.atomic import writing
    from counterpoise.cli.app import say
    from counterpoise.cli.predict import ABSENT
    from counterpoise.cli.progress import Progress
    from counterpoise.jobs.evaluate import judged
    from counterpoise.jobs.file import stored_model
    from counterpoise.jobs.store import require_learned

    stored = require_learned(stored_model(model), model)
    sources = [streams.source(path, **reading) for path in streams.expanded(files)]
    if report is not None:
        from counterpoise.evaluate.report import evaluation  # fails before the work, not after it
    with Progress() as progress:
        result, y, skipped, lacking = judged(stored, sources, progress, ignore_unknown)
    metrics = result.metrics
    if as_json:
        show_json(metrics.plain())
    else:
        counts = metrics.confusion
        show(
            ["metric", "value"],
            [
                ["rows", counts.scored],
                ["G-mean", counts.g_mean()],
                ["balanced accuracy", counts.balanced_accuracy()],
            ],
        )
        print()
        names = ["rows", "recall", "precision", "average_precision", "roc_auc", "recall_at_1pct"]
        head = [
            "class",
            "rows",
            "recall",
            "precision",
            "average precision",
            "ROC AUC",
            "recall at 1 % FP",
        ]
        rows: list[list[Any]] = [
            [str(label), int(row["rows"] or 0), *(row[name] for name in names[1:])]
            for label, row in metrics.by_class.items()
        ]
        show(head, rows)
        print()
        labels = counts.labels
        show(
            ["true \\ predicted", *map(str, labels)],
            [[str(a), *(counts.counts.get((a, b), 0) for b in labels)] for a in labels],
        )
    for name, reason in metrics.undefined.items():
        say(f"{name} is undefined: {reason}")
    for name in lacking:
        say(ABSENT.format(name))
    if skipped:
        say(
            f"{skipped:,} rows with missing values, or with none of the columns of the model, were "
            "left out"
        )
    if report is not None:
        known = stored.model.classes_.tolist()
        seen = [label for label in known if (y == label).any()]
        rows_of = [float((y == label).sum()) for label in seen]
        usual = stored.positive if stored.positive in seen else None
        chosen = opt.chosen(positive, seen, rows_of, usual)
        title = f"{model} on {', '.join(files)}"
        text = evaluation(title, result, y, result.terms or [], chosen)
        with writing(report, "the report") as file:
            file.write(text.encode())
        say(f"report: {report}")
