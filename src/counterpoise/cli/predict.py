"""counterpoise predict: from a model file and rows to predictions."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from counterpoise.cli import options as opt

BLANK = (
    "warning: column {!r}: {} without a value, where every learned row had one; a number is taken "
    "as the mean, text as no category"
)
ABSENT = "column {!r} is not there, and 0 as in the rows that were learned without it"
OUTPUTS = ("csv", "tsv", "jsonl", "parquet")


def predict(
    model: Annotated[str, typer.Argument(help="Model file.", metavar="MODEL")],
    files: opt.Files,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", help="File to write; standard output by default.", metavar="FILE"
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(help="csv, tsv, jsonl or parquet; by default as the output is named, or csv."),
    ] = None,
    id: Annotated[  # noqa: A002
        list[str] | None,
        typer.Option("--id", help="Columns to carry along.", metavar="COLUMNS"),
    ] = None,
    with_input: Annotated[
        bool, typer.Option("--with-input", help="Carry all columns along.")
    ] = False,
    positive: opt.Positive = None,
    threshold: Annotated[
        float | None,
        typer.Option(help="Alert where the balanced probability is at least P.", metavar="P"),
    ] = None,
    cost: Annotated[
        float | None,
        typer.Option(
            help="Alert where a miss, at the price of COST false alarms, would cost more.",
            metavar="COST",
        ),
    ] = None,
    alert_rate: Annotated[
        float | None,
        typer.Option(
            help="Alert where it is among this share of the highest recent ones.", metavar="SHARE"
        ),
    ] = None,
    ignore_unknown: opt.IgnoreUnknown = False,
    format: opt.Format = None,  # noqa: A002
    delimiter: opt.Delimiter = None,
    no_header: opt.NoHeader = False,
) -> None:
    """Predict the rows of files, in order and in constant memory.

    For each row: the predicted class, its score, and for each class the probability under balanced
    classes and under the stream's own frequencies. Rows from standard input come out as they come.

    Example: counterpoise predict fraud.safetensors today.csv --id payment > scored.csv
    """
    reading = opt.reading(format, delimiter, no_header)
    kind = _kind(output, to)
    asked = [
        name
        for name, value in (("threshold", threshold), ("cost", cost), ("alert-rate", alert_rate))
        if value is not None
    ]
    if len(asked) > 1:
        raise opt.bad(f"--{asked[1]}", f"cannot be combined with --{asked[0]}")
    if cost is not None and not 0.0 < cost < float("inf"):
        raise opt.bad("--cost", "must be a finite number above 0")
    for name, value in (("threshold", threshold), ("alert-rate", alert_rate)):
        if value is not None and not 0.0 < value < 1.0:
            raise opt.bad(f"--{name}", "must be between 0 and 1")
    if output is None and kind == "parquet" and sys.stdout.isatty():
        raise opt.bad("--to", "Parquet is not for terminals; name a file with --output")

    from counterpoise import streams
    from counterpoise.cli.app import say
    from counterpoise.cli.progress import Progress
    from counterpoise.jobs.file import scoring
    from counterpoise.jobs.output import sink
    from counterpoise.jobs.predict import Predictor
    from counterpoise.jobs.predict import predict as predictions

    paths = streams.expanded(files)
    carry = None if with_input else list(opt.names(id))
    stored = scoring(model)
    state = stored.model.state
    known = state.classes.labels.tolist(), state.class_count.tolist()
    chosen = opt.chosen(positive, *known, stored.positive)
    predictor = Predictor(stored, chosen, threshold, alert_rate, carry, ignore_unknown, cost)
    there = [path for path in paths if os.path.exists(path)] if output else []
    if output and os.path.isfile(output) and any(os.path.samefile(p, output) for p in there):
        raise opt.bad("--output", f"{output} is also an input")
    with (
        sink(output, kind) as out,
        Progress(
            sys.stderr.isatty() and (output is not None or not sys.stdout.isatty())
        ) as progress,
    ):
        for path in paths:
            source = streams.source(path, **reading, live=path == "-")
            for table in predictions(predictor, source):
                out.write(table)
                progress.chunk(source, table.num_rows)
        if not out.begun:
            out.write(predictor.nothing())
    for name in predictor.strange:
        say(f"warning: column {name!r} is unknown to the model and was not used")
    for name in predictor.lacking:
        say(ABSENT.format(name))
    if predictor.bare:
        rows = f"{predictor.bare:,} of {predictor.rows:,} rows"
        say(f"{rows} have none of the columns of the model and no prediction")
    for sentence in predictor.outlying.told():
        say(sentence)
    if predictor.skipped:
        rows = f"{predictor.skipped:,} of {predictor.rows:,} rows"
        say(f"{rows} have missing values and no prediction")
    for name, count in predictor.blank.items():
        say(BLANK.format(name, f"{count:,} cell{'s' if count > 1 else ''}"))
    for name, count in predictor.unknown.items():
        cells = f"{count:,} cell{'s' if count > 1 else ''}"
        say(
            f"column {name!r}: {cells} with a category that was never learned, taken as no category"
        )


def _kind(output: str | None, to: str | None) -> str:
    if to is not None:
        if to not in OUTPUTS:
            raise opt.bad("--to", f"{to!r} is not one of {', '.join(OUTPUTS)}")
        return to
    if output is None:
        return "csv"
    ending = output.rsplit(".", 1)[-1].lower()
    kind = {"pq": "parquet", "ndjson": "jsonl", "json": "jsonl", "tab": "tsv"}.get(ending, ending)
    if kind not in OUTPUTS:
        raise opt.bad(
            "--output", f"the name {output!r} does not show the format; name it with --to"
        )
    return kind
