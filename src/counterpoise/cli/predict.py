"""counterpoise predict: from a model file and rows to predictions."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from counterpoise.cli import messages, options
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
    output_format: Annotated[
        str | None,
        typer.Option(
            help="csv, tsv, jsonl or parquet; by default that of the output name, or csv.",
            metavar="FORMAT",
        ),
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
    costs: opt.CostOptions = opt.COSTS,
    alert_rate: Annotated[
        float | None,
        typer.Option(
            help="Alert where it is among this share of the highest recent ones.", metavar="SHARE"
        ),
    ] = None,
    alerts_per_day: Annotated[
        int | None,
        typer.Option(help="Alert about the highest, at most N on one day.", metavar="N"),
    ] = None,
    top_per_day: Annotated[
        int | None,
        typer.Option(
            help="Alert about exactly the N highest rows of each day, after all rows were read.",
            metavar="N",
        ),
    ] = None,
    timestamp: Annotated[
        str | None,
        typer.Option(
            help="Column of the time of each row, for alerts per day (default: the model's).",
            metavar="COLUMN",
        ),
    ] = None,
    explain: Annotated[
        int | None,
        typer.Option(
            help="Name the N columns that contribute most to the score, and their shares.",
            metavar="N",
        ),
    ] = None,
    ignore_unknown: opt.IgnoreUnknown = False,
    input: opt.InputOptions = opt.INPUT,  # noqa: A002
) -> None:
    """Predict the rows of files, in order and in constant memory.

    For each row: the predicted class, its score, and for each class the probability under balanced
    classes and under the stream's own frequencies. Rows from standard input come out as they come.

    Example: counterpoise predict fraud.safetensors today.csv --id payment > scored.csv

    With --explain 3 there are the columns reason_1, share_1 and so on: a share is what the column
    contributes, relative to all contributions. One above 0 speaks for the class of the score, of
    several classes for the predicted one.

    Alerts where they pay: counterpoise predict fraud.safetensors today.csv --cost-miss 200
    """
    reading = input.reading()
    kind = _kind(output, output_format)
    given = costs.costs()
    rules = {
        "threshold": threshold,
        options.NAME: given,
        "alert-rate": alert_rate,
        "alerts-per-day": alerts_per_day,
        "top-per-day": top_per_day,
    }
    asked = [name for name, value in rules.items() if value is not None]
    if len(asked) > 1:
        raise opt.bad(f"--{asked[1]}", f"cannot be combined with --{asked[0]}")
    for name, value in (("threshold", threshold), ("alert-rate", alert_rate)):
        if value is not None and not 0.0 < value < 1.0:
            raise opt.bad(f"--{name}", "must be between 0 and 1")
    for name, number in (("alerts-per-day", alerts_per_day), ("top-per-day", top_per_day)):
        if number is not None and number < 1:
            raise opt.bad(f"--{name}", "must be 1 or more")
    if timestamp is not None and alerts_per_day is None and top_per_day is None:
        raise opt.bad("--timestamp", "is for --alerts-per-day and --top-per-day")
    if explain is not None and not 1 <= explain <= 100:
        raise opt.bad("--explain", "must be from 1 to 100")
    if output is None and kind == "parquet" and sys.stdout.isatty():
        raise opt.bad("--output-format", "Parquet is not for terminals; name a file with --output")

    from counterpoise.cli.messages import Progress
    from counterpoise.engine.ridge import RidgeModel
    from counterpoise.readers import formats
    from counterpoise.tables import alerts
    from counterpoise.tables.model import TableModel
    from counterpoise.tables.predict import Predictor, flag_top, open_writer
    from counterpoise.tables.predict import predict as predictions
    from counterpoise.tables.scoring import recent_ranks

    paths = formats.expanded(files)
    carry = None if with_input else list(opt.names(id))
    stored = TableModel.load(model).require_learned()
    known = stored.classes, list(stored.class_counts.values())
    chosen = opt.chosen(positive, *known, stored.positive)
    if asked and sum(count > 0 for count in known[1]) < 2:
        messages.info(
            f"warning: {model} has learned one class only, so there are no alerts; learn rows of "
            "another class first"
        )
    late, columns = recent_ranks(stored.recent, known[0].index(chosen)), stored.encoding.columns
    rule: alerts.Alerts | None = None
    if threshold is not None:
        rule = alerts.Threshold(threshold)
    elif given is not None:
        rule = alerts.ExpectedCost(given.alarm, given.miss, given.column, columns.decimal)
        if isinstance(stored.model, RidgeModel):  # an averaging model does not calibrate
            options.hint_calibration(stored.model.options)
    elif alert_rate is not None:
        rule = alerts.TopShare(alert_rate, late)
    elif alerts_per_day is not None or top_per_day is not None:
        times = [columns.timestamp] if columns.timestamp else columns.with_role("epoch")
        time = timestamp or (times[0] if len(times) == 1 else None)
        if time is None:
            raise opt.bad(f"--{asked[0]}", "name the column of times with --timestamp")
        written = columns.time_format if time in times else None
        if alerts_per_day is not None:
            rule = alerts.DailyQuota(alerts_per_day, time, late, written)
        elif top_per_day is not None:
            rule = alerts.TopPerDay(top_per_day, time, written)
    predictor = Predictor(stored, chosen, rule, carry, ignore_unknown, explain or 0)
    there = [path for path in paths if os.path.exists(path)] if output else []
    if output and os.path.isfile(output) and any(os.path.samefile(p, output) for p in there):
        raise opt.bad("--output", f"{output} is also an input")
    with (
        open_writer(output, kind) as out,
        Progress(
            sys.stderr.isatty() and (output is not None or not sys.stdout.isatty())
        ) as progress,
    ):

        def tables() -> Iterator[Any]:
            for path in paths:
                source = formats.source(path, **reading, live=path == "-")
                for table in predictions(predictor, source):
                    progress.chunk(source, table.num_rows)
                    yield table

        for table in flag_top(tables(), rule) if isinstance(rule, alerts.TopPerDay) else tables():
            out.write(table)
        if not out.begun:
            out.write(predictor.empty_table())
    for name in predictor.strange:
        messages.info(f"warning: column {name!r} is unknown to the model and was not used")
    for name in predictor.lacking:
        messages.info(ABSENT.format(name))
    if predictor.bare:
        rows = f"{predictor.bare:,} of {predictor.rows:,} rows"
        messages.info(f"{rows} have none of the columns of the model and no prediction")
    for sentence in predictor.outlying.warnings():
        messages.info(sentence)
    if predictor.skipped:
        rows = f"{predictor.skipped:,} of {predictor.rows:,} rows"
        messages.info(f"{rows} have missing values and no prediction")
    for name, count in predictor.blank.items():
        messages.info(BLANK.format(name, f"{count:,} cell{'s' if count > 1 else ''}"))
    for name, count in predictor.unknown.items():
        cells = f"{count:,} cell{'s' if count > 1 else ''}"
        messages.info(
            f"column {name!r}: {cells} with a category that was never learned, taken as no category"
        )


def _kind(output: str | None, given: str | None) -> str:
    if given is not None:
        if given not in OUTPUTS:
            raise opt.bad("--output-format", f"{given!r} is not one of {', '.join(OUTPUTS)}")
        return given
    if output is None:
        return "csv"
    ending = output.rsplit(".", 1)[-1].lower()
    kind = {"pq": "parquet", "ndjson": "jsonl", "json": "jsonl", "tab": "tsv"}.get(ending, ending)
    if kind not in OUTPUTS:
        raise opt.bad(
            "--output",
            f"the name {output!r} does not show the format; name it with --output-format",
        )
    return kind
