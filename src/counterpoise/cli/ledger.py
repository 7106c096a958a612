"""counterpoise ledger: models of any time and any segment, from sums alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from counterpoise.cli import options as opt
from counterpoise.cli import words
from counterpoise.cli.forget import WhereOption, where_of
from counterpoise.cli.questions import Names, Path, backtest, compare, drift, model, opened
from counterpoise.cli.stopping import asked
from counterpoise.cli.table import Json, show, show_json
from counterpoise.cli.words import counted

ledger = typer.Typer(no_args_is_help=True)
Into = Annotated[
    str, typer.Option("--ledger", "-l", help="Ledger to create or to continue.", metavar="FILE")
]


@ledger.callback()
def options() -> None:
    """Moments by time and by segment, in one file: models of any selection, without any row.

    Example: counterpoise ledger learn payments.csv -l year.ledger --label fraud --time at
    """


@ledger.command(short_help="Learn the rows of files that were not learned yet.")
@words.quietable
def learn(
    files: opt.Files,
    into: Into,
    label: opt.Label = None,
    time: Annotated[
        str | None, typer.Option(help="Column that holds the time.", metavar="COLUMN")
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(
            help="Buckets: minute, hour, day, week, month, quarter or year; day by default.",
            metavar="NAME",
        ),
    ] = None,
    by: Annotated[
        Names | None, typer.Option(help="Columns that make segments.", metavar="COLUMNS")
    ] = None,
    most: Annotated[
        int | None,
        typer.Option(help="Values that such a column may have; 1000 by default.", metavar="N"),
    ] = None,
    weight: opt.Weight = None,
    drop: opt.Drop = None,
    keep: opt.Keep = None,
    numeric: opt.Numeric = None,
    categorical: opt.Categorical = None,
    hash: opt.Hash = None,  # noqa: A002
    seed: Annotated[int | None, typer.Option(help="Seed of the hashes.")] = None,
    missing: opt.Missing = None,
    classes: opt.Classes = None,
    new_columns: opt.NewColumns = False,
    decimal: opt.Decimal = None,
    time_format: opt.TimeFormat = None,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for another process.", metavar="SECONDS")
    ] = 10.0,
    allow_overlap: Annotated[
        bool, typer.Option("--allow-overlap", help="Learn a file that begins like another one.")
    ] = False,
    last_line: Annotated[
        bool, typer.Option("--last-line", help="Also learn a last line without a line end.")
    ] = False,
    stdin_name: Annotated[
        str | None, typer.Option(help="Name of standard input in the records.", metavar="NAME")
    ] = None,
    format: opt.Format = None,  # noqa: A002
    delimiter: opt.Delimiter = None,
    no_header: opt.NoHeader = False,
) -> None:
    """Learn the rows of files that were not learned yet, each one exactly once.

    Settings are stored in the ledger and need not be repeated.

    Example: counterpoise ledger learn p.csv -l y.ledger --label fraud --time at --by country
    """
    reading = opt.reading(format, delimiter, no_header)
    columns = opt.columns(
        label, weight, drop, keep, numeric, categorical, None, hash, seed, missing, classes, decimal
    )
    columns |= {"time_format": time_format} if time_format is not None else {}

    from counterpoise import Ledger, streams
    from counterpoise.cli.progress import Progress
    from counterpoise.jobs.store import input_key

    paths = streams.expanded(files)
    columns = streams.with_label(columns, paths, format)
    named = opt.names(by) or None
    with (
        asked() as stopped,
        Ledger.open(
            into, time=time, every=every, by=named, most=most, wait=wait, **columns
        ) as book,
        Progress() as progress,
    ):
        inputs = []
        for path in paths:
            key = (f"- {stdin_name}" if stdin_name else "-") if path == "-" else None
            source = streams.source(path, **reading, stdin_name=stdin_name, last_line=last_line)
            inputs.append((source, key or input_key(path, into)))
        new = book.learn_from(
            inputs, lambda: bool(stopped), progress.chunk, allow_overlap, new_columns
        )
        for source, key in inputs:
            if key in new:
                rows = new[key]
                known = "" if rows else ": nothing new" if key in book.records else " has no rows"
                words.say(f"{source.name}{known}" + (f": {rows:,} rows" if rows else ""))
                if source.left:
                    words.say(
                        f"{source.name}: the last line has no line end; --last-line learns it"
                    )
        for note in book.notes:
            words.say(note)
        if not stopped or any(new.values()):
            found = book.summary()
            counts = ", ".join(f"{name}: {n:,.10g}" for name, n in found["classes"].items())
            words.say(f"{into}: {found['buckets']:,} buckets, {found['cells']:,} cells, {counts}")
    if stopped:
        words.say("stopped; the same command continues from here")
        sys.exit(128 + stopped[0])


@ledger.command(short_help="Subtract rows of files exactly.")
@words.quietable
def unlearn(
    files: opt.Files,
    into: Into,
    where: WhereOption = None,
    format: opt.Format = None,  # noqa: A002
    delimiter: opt.Delimiter = None,
    no_header: opt.NoHeader = False,
) -> None:
    """Subtract the rows of files from their cells. The files are read again.

    The files must be as they were when they were learned. Rows added since do not matter. With
    --where only rows that meet the condition are subtracted, each one once.

    Example: counterpoise ledger unlearn payments-1.csv -l year.ledger

    One person: counterpoise ledger unlearn 2026-*.csv -l year.ledger --where customer=123
    """
    reading = opt.reading(format, delimiter, no_header)
    meant = where_of(where)

    from counterpoise import Ledger, streams
    from counterpoise.cli.progress import Progress
    from counterpoise.jobs.store import input_key

    with opened(Ledger, into) as book, Progress() as progress:
        inputs = []
        for path in streams.expanded(files):
            if path == "-":
                raise opt.bad("FILES", "standard input cannot be read twice; name a file")
            inputs.append((streams.source(path, **reading), input_key(path, into)))
        found = book.unlearn_from(inputs, meant, progress.chunk)
        for source, key in inputs:
            words.say(f"{source.name}: {counted(found[key], 'row')} unlearned")


@ledger.command(short_help="Verify that a ledger is as it was written.")
@words.quietable
def check(path: Path) -> None:
    """Verify every cell and total against checksums, the digest and each other.

    Example: counterpoise ledger check year.ledger
    """
    from counterpoise import Ledger

    with opened(Ledger, path) as book:
        words.say(f"{path}: {book.check():,} cells are as they were written")


QUESTIONS: dict[Callable[..., None], str] = {
    model: "Write the model of a selection.",
    compare: "Compare two selections.",
    backtest: "Find the best window, half-life and ridge, without rows.",
    drift: "Find when and where the stream changed, without rows.",
}
for command, short in QUESTIONS.items():
    ledger.command(short_help=short)(words.quietable(command))


@ledger.command(short_help="Merge old buckets into coarser ones.")
@words.quietable
def rollup(
    path: Path,
    until: Annotated[str, typer.Option(help="Buckets that end by then.", metavar="TIME")],
    every: Annotated[
        str, typer.Option(help="Size of the coarser buckets.", metavar="NAME")
    ] = "month",
) -> None:
    """Merge old buckets into coarser ones; sums stay what they are, and the file shrinks.

    Example: counterpoise ledger rollup year.ledger --until 2024-07-01 --every month
    """
    from counterpoise import Ledger

    with opened(Ledger, path) as book:
        words.say(
            f"{path}: {book.rollup(until, every):,} cells fewer, {book.summary()['cells']:,} left"
        )


@ledger.command(short_help="Drop old buckets.")
@words.quietable
def drop(
    path: Path, until: Annotated[str, typer.Option(help="Rows before this go.", metavar="TIME")]
) -> None:
    """Drop old buckets, as if their rows had never been learned.

    Example: counterpoise ledger drop year.ledger --until 2024-02-01
    """
    from counterpoise import Ledger

    with opened(Ledger, path) as book:
        words.say(f"{path}: {book.drop(until):,} cells dropped, {book.summary()['cells']:,} left")


@ledger.command("show", short_help="Show what is in a ledger.")
def show_ledger(path: Path, as_json: Json = False) -> None:
    """Show what is in a ledger.

    Example: counterpoise ledger show year.ledger
    """
    from counterpoise import Ledger

    with opened(Ledger, path) as book:
        found = book.summary()
    if as_json:
        show_json(found)
        return
    facts = {**found, "features": ", ".join(found["features"]), "by": ", ".join(found["by"])}
    facts["coarse"] = ", ".join(found["coarse"])
    rows = [[name, value] for name, value in facts.items()
            if name not in ("classes", "inputs") and value not in (None, "")]  # fmt: skip
    show(["what", "value"], rows)
    print()
    show(["class", "weight"], [[name, n] for name, n in found["classes"].items()])
    print()
    show(["learned from", "rows"], [[name, rows] for name, rows in found["inputs"].items()])


@ledger.command(short_help="Write a year of made-up payments.")
@words.quietable
def demo(
    folder: Annotated[str, typer.Argument(help="Where the files go.", metavar="DIR")] = ".",
    seed: Annotated[int, typer.Option(help="Of the random numbers.")] = 1,
) -> None:
    """Write a year of made-up payments: two files, for a column and a country came late.

    Example: counterpoise ledger demo
    """
    if not os.path.isdir(folder):
        raise opt.bad("DIR", f"{folder} is not a folder")

    import pyarrow.csv

    from counterpoise.atomic import writing
    from counterpoise.ledger.demo import payments

    for i, table in enumerate(payments(seed=seed), start=1):
        name = os.path.normpath(os.path.join(folder, f"payments-{i}.csv"))
        with writing(name, "the payments") as file:
            pyarrow.csv.write_csv(table, file)
        words.say(f"{name}: {table.num_rows:,} rows")
