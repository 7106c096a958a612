"""counterpoise check: every problem of a file at once."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from counterpoise.cli import options as opt
from counterpoise.cli import words


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
    label: opt.Label = None,
    id: opt.Id = None,  # noqa: A002
    weight: opt.Weight = None,
    drop: opt.Drop = None,
    keep: opt.Keep = None,
    numeric: opt.Numeric = None,
    categorical: opt.Categorical = None,
    time: opt.Time = None,
    date: opt.Date = None,
    hash: opt.Hash = None,  # noqa: A002
    missing: opt.Missing = None,
    classes: opt.Classes = None,
    decimal: opt.Decimal = None,
    time_format: opt.TimeFormat = None,
    allow_future: Annotated[
        bool, typer.Option("--allow-future", help="Times after now are not a problem.")
    ] = False,
    most: Annotated[int, typer.Option(help="Problems of a file that are told.", metavar="N")] = 100,
    format: opt.Format = None,  # noqa: A002
    delimiter: opt.Delimiter = None,
    no_header: opt.NoHeader = False,
) -> None:
    """List every problem of files at once, without learning and without writing anything.

    The options are those of learn: with --id the labels may come later. Problems go to standard
    output, one per line, and the exit code is 1 if there are any.

    Example: counterpoise check march.csv --label fraud --drop payment
    """
    reading = opt.reading(format, delimiter, no_header)
    if most < 1:
        raise opt.bad("--most", "must be 1 or more")
    columns = opt.columns(
        label, weight, drop, keep, numeric, categorical, time, hash, None, missing, classes,
        decimal, time_format, date,
    )  # fmt: skip

    from counterpoise import streams
    from counterpoise.cli.progress import Progress
    from counterpoise.jobs.begin import begun, resumed
    from counterpoise.jobs.check import Checker
    from counterpoise.jobs.file import stored_model
    from counterpoise.jobs.guards import Guards
    from counterpoise.printable import printable

    paths = streams.expanded(files)
    columns = streams.with_label(columns, paths, format)
    stored, known = None, tuple[str, ...]()
    if model is not None and os.path.exists(model):
        known = stored_model(model).encoding.columns.drop
    if id is not None and (id not in known or "drop" in columns):
        columns["drop"] = tuple(sorted({*columns.get("drop", known), id}))
    if model is not None and os.path.exists(model):
        stored, _ = resumed(model, columns, {}, None, None)
        encoding = stored.encoding
    else:
        encoding = begun(columns, {}, None)
    guards = Guards(model or "the model", allow_future=allow_future)
    checker = Checker(encoding, guards, stored, most, id)
    found = 0
    with Progress() as progress:
        for path in paths:
            source, mine = streams.source(path, **reading), 0
            for problem in checker.problems(source):
                print(printable(problem.message.spelled(words.in_shell)), flush=True)
                mine += 1
                progress.chunk(source, 0)
            found += mine
            if mine >= most:
                words.say(f"{source.name}: the first {most:,} problems; there may be more")
    words.say(f"{checker.rows:,} rows read, {found:,} problem{'s' if found != 1 else ''} found")
    if found:
        sys.exit(1)
