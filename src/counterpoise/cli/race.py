"""counterpoise race: the exact model and its rivals on one stream."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from counterpoise.cli import options as opt
from counterpoise.cli.table import Json, show, show_json


def race(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILES", help="As for learn; all rows must fit into memory."),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Column that holds the class.", metavar="COLUMN")
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Race on a stream that is made up on the spot.")
    ] = False,
    drop: opt.Drop = None,
    keep: opt.Keep = None,
    numeric: opt.Numeric = None,
    categorical: opt.Categorical = None,
    time: opt.Time = None,
    hash: opt.Hash = None,  # noqa: A002
    missing: opt.Missing = None,
    decimal: opt.Decimal = None,
    time_format: opt.TimeFormat = None,
    delay: Annotated[int, typer.Option(help="Labels arrive this many rows late.", metavar="N")] = 0,
    positive: opt.Positive = None,
    report: Annotated[
        str | None, typer.Option(help="Write a page about the race.", metavar="FILE.html")
    ] = None,
    everybody: Annotated[
        bool,
        typer.Option("--all", help="Let IR-RLS, whose cost grows, run on any number of rows."),
    ] = False,
    as_json: Json = False,
    format: opt.Format = None,  # noqa: A002
    delimiter: opt.Delimiter = None,
    no_header: opt.NoHeader = False,
) -> None:
    """Race the exact model against its rivals: each row is predicted before it is learnt.

    Recall, precision and what follows them are of the rarest class, or of --positive.

    Example: counterpoise race payments.csv --label fraud --report race.html
    """
    if bool(files) == demo:
        raise opt.bad("FILES", "give either files or --demo")
    if delay < 0:
        raise opt.bad("--delay", "must be 0 or more")
    if report is not None and not os.path.isdir(os.path.dirname(os.path.realpath(report))):
        raise opt.bad("--report", f"the folder of {report} does not exist")
    reading = opt.reading(format, delimiter, no_header)
    columns = opt.columns(
        label, None, drop, keep, numeric, categorical, time, hash, None, missing,
        None, decimal, time_format,
    )  # fmt: skip

    import numpy as np

    from counterpoise.cli.app import say
    from counterpoise.cli.progress import Progress
    from counterpoise.evaluate.race import MANY, RIVALS, SLOW, winner
    from counterpoise.evaluate.race import race as run
    from counterpoise.evaluate.stream import made_up, read
    from counterpoise.modelfile import write_whole
    from counterpoise.streams import DataError

    if demo:
        X, y, names = made_up()
        title = "A made-up stream of payments"
    else:
        X, y, names = read(files or [], columns, reading)
        title = ", ".join(files or [])
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) < 2:
        raise DataError(
            f"all {len(y):,} rows are of class {classes.tolist()[0]!r}: nothing to race for"
        )
    chosen = opt.chosen(positive, classes.tolist(), counts.tolist())
    if report is not None:
        from counterpoise.evaluate.report import page  # fails before the race, not after it
    results: list[Any] = []
    runners = 1 + len(RIVALS) - (not everybody and len(y) > MANY)
    with Progress() as progress:
        for result in run(X, y, min(delay, len(y)), everybody):
            results.append(result)
            progress.advance(len(y))
            progress.show("race", (len(results), runners), f", {result.name} done")
    if not everybody and len(y) > MANY:
        say(f"{SLOW} is left out: its cost grows with the stream (--all lets it run)")
    rows = [_row(result, chosen) for result in results]
    if as_json:
        show_json(
            {
                "rows": len(y), "features": len(names), "delay": delay, "positive": chosen,
                "winner": winner(results).name,
                "methods": {
                    r.name: {"microseconds": r.microseconds, **r.metrics.plain()} for r in results
                },
            }
        )  # fmt: skip
    else:
        late = f", labels {delay:,} rows late" if delay else ""
        show(HEAD, rows, f"{title}: {len(y):,} rows, {len(names):,} features{late}")
    for name, reason in results[0].metrics.undefined.items():
        say(f"{name} is undefined: {reason}")
    if report is not None:
        write_whole(report, page(title, results, y, names, chosen, delay).encode(), "the report")
        say(f"report: {report}")


HEAD = [
    "method", "G-mean", "balanced accuracy", "recall", "precision", "average precision", "ROC AUC",
    "recall at 1 % FP", "µs/row",
]  # fmt: skip


def _row(result: Any, positive: Any) -> list[Any]:
    return [result.name, *result.metrics.of(positive).values(), result.microseconds]
