"""counterpoise ledger: its questions, which need no row."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from counterpoise.cli import messages
from counterpoise.cli import options as opt
from counterpoise.cli.messages import Json, collect_stop_signals, pluralize, show, show_json
from counterpoise.cli.unlearn import WhereOption, where_of

MAX_NAME_BYTES = 200  # of a file, of which systems allow 255 and locks need some
Names = list[str]
Path = Annotated[str, typer.Argument(help="The ledger's file.", metavar="LEDGER")]
Since = Annotated[str | None, typer.Option(help="Rows from this time on.", metavar="TIME")]
Until = Annotated[str | None, typer.Option(help="Rows before this time.", metavar="TIME")]
Where = Annotated[
    Names | None,
    typer.Option(
        help="Segments: COLUMN=VALUE, values with commas between them, or COLUMN!=VALUE.",
        metavar="COLUMN=VALUES",
    ),
]
Exclude = Annotated[
    Names | None,
    typer.Option(help="Times to leave out: a bucket, or SINCE..UNTIL.", metavar="TIME"),
]


@dataclass
class SelectionOptions:
    """Options that select rows of a ledger."""

    since: Since = None
    until: Until = None
    where: Where = None
    exclude: Exclude = None

    def arguments(self, half_life: Names | None = None) -> dict[str, Any]:
        """Return the arguments that select rows."""
        found: dict[str, Any] = {"since": self.since, "until": self.until}
        for pair in self.where or ():
            _add("--where", found.setdefault("where", {}), pair)
        if self.exclude:
            found["exclude"] = [_span(one) for one in opt.names(self.exclude)]
        if half_life:
            if len(half_life) > 1:
                raise opt.bad("--half-life", "name one")
            found["half_life"] = half_life[0]
        return {name: value for name, value in found.items() if value is not None}


SELECTION = SelectionOptions()
HalfLife = Annotated[
    Names | None,
    typer.Option(help="Days in which rows fade to half: 7d, 12h or 2w.", metavar="TIME"),
]
Report = Annotated[
    str | None, typer.Option(help="Write a page with pictures.", metavar="FILE.html")
]
Train = Annotated[int, typer.Option(help="Buckets that the model of the loss has learned.")]


def model(
    path: Path,
    output: Annotated[
        str,
        typer.Option("--output", "-o", help="Model file; {} stands for a segment.", metavar="FILE"),
    ],
    selection: SelectionOptions = SELECTION,
    half_life: HalfLife = None,
    by: Annotated[
        Names | None, typer.Option(help="A model for each segment.", metavar="COLUMNS")
    ] = None,
    share_of_all: Annotated[
        float,
        typer.Option(help="Weight of all rows in the model of each segment.", metavar="SHARE"),
    ] = 0.0,
    options: opt.BoundaryOptions = opt.BOUNDARIES,
) -> None:
    """Write the model of a selection, which predict, evaluate, inspect and export take.

    Example: counterpoise ledger model y.ledger --since 2024-06-01 --where country=DE -o de.st
    """
    chosen = selection.arguments(half_life)
    parameters = options.parameters()
    if by and "{}" not in output:
        raise opt.bad("--output", "with --by, the name needs {} where the segment goes")

    from counterpoise import Ledger
    from counterpoise.cli.learn import counts_of

    with opened(Ledger, path) as book:
        if not by:
            found = book.model(**chosen, **parameters)
            book.save(found, output)
            counts = counts_of(found.classes_, found.class_count_)
            messages.info(f"{output}: {counts}; {found.selection_.describe()}")
            return
        names = opt.names(by)
        several = book.models(
            names if len(names) > 1 else names[0], share_of_all, **chosen, **parameters
        )
        files: dict[str, Any] = {}
        for segment, found in several.items():
            values = segment if isinstance(segment, tuple) else (segment,)
            name = output.replace("{}", ",".join(map(_escaped, values)))
            if len(os.path.basename(name).encode()) > MAX_NAME_BYTES:
                raise opt.bad(
                    "--by", f"segment {segment!r} is too long for the name of a file; use --where"
                )
            files[name] = found
        for name, found in files.items():
            book.save(found, name)
            messages.info(f"{name}: {counts_of(found.classes_, found.class_count_)}")


def compare(
    path: Path,
    a: Annotated[
        Names | None,
        typer.Option(
            "--a", help="since=, until=, exclude=, COLUMN= or COLUMN!=.", metavar="NAME=VALUE"
        ),
    ] = None,
    b: Annotated[
        Names | None, typer.Option("--b", help="The same for the other one.", metavar="NAME=VALUE")
    ] = None,
    top: Annotated[int, typer.Option(help="Features to show.", metavar="N")] = 10,
    as_json: Json = False,
) -> None:
    """Compare two selections: classes, features, weights, and each model on the other's rows.

    Losses are exact. G-means are estimates by the mean and the variance of the scores.

    Example: counterpoise ledger compare y.ledger --a until=2024-09-02 --b since=2024-09-02
    """
    from counterpoise import Ledger

    with opened(Ledger, path) as book:
        found = book.compare(_named("--a", a), _named("--b", b))
    if as_json:
        show_json(found.to_dict())
        return
    share = found.count / found.count.sum(axis=1, keepdims=True)
    show(
        ["class", "rows of a", "rows of b", "share of a", "share of b", "p means", "p spreads"],
        [
            [str(label), *found.count[:, k].tolist(), *share[:, k].tolist(),
             *((found.together[k][what] or {}).get("p") for what in ("means", "covariances"))]
            for k, label in enumerate(found.labels)
        ],
        f"a: {found.a}; b: {found.b}",
    )  # fmt: skip
    print()
    head = ["class", "feature", "shift", "p", "spread", "p of spread"]
    show(head, [[str(row[0]), row[1], *map(_nan_to_none, row[2:])] for row in found.largest_shifts(top)])
    print()
    moved = abs(found.weight[1] - found.weight[0])
    order = (-moved).argsort(kind="stable")[:top].tolist()
    show(
        ["feature", "weight in a", "weight in b"],
        [[found.names[j], *found.weight[:, j].tolist()] for j in order],
    )
    print()
    rows = [
        [f"model of {name}", *map(_nan_to_none, found.loss[i]), *map(_nan_to_none, found.g_mean[i])]
        for i, name in enumerate("ab")
    ]
    show(["", "loss on a", "loss on b", "G-mean on a (est.)", "G-mean on b (est.)"], rows)


def backtest(
    path: Path,
    train: Annotated[
        Names | None, typer.Option(help="Buckets to learn before each test, or all.", metavar="N")
    ] = None,
    test: Annotated[int, typer.Option(help="Buckets of a test.", metavar="N")] = 1,
    half_life: HalfLife = None,
    ridge: Annotated[Names | None, typer.Option(help="Numbers, or auto.", metavar="NUMBER")] = None,
    features: Annotated[
        Names | None,
        typer.Option(help="A subset of the columns: NAME=COLUMN,COLUMN.", metavar="NAME=COLUMNS"),
    ] = None,
    selection: SelectionOptions = SELECTION,
    report: Report = None,
    as_json: Json = False,
) -> None:
    """Walk forward: what models of the buckets before were worth on those after them.

    Every combination of windows, half-lives, ridges and subsets is a setting. Losses are exact.

    Example: counterpoise ledger backtest y.ledger --train 7,30,90 --half-life none,7d,30d
    """
    _require_folder(report)
    settings: dict[str, Any] = {"test": test}
    settings["train"] = [_whole("--train", one) for one in opt.names(train)] or [30]
    lives = [None if one == "none" else one for one in opt.names(half_life)]
    settings["half_life"] = lives or None
    settings["ridge"] = [
        one if one == "auto" else _float("--ridge", one) for one in opt.names(ridge)
    ] or "auto"
    if features:
        pairs = [one.partition("=") for one in features]
        settings["features"] = {name: opt.names([rest]) for name, _, rest in pairs}
    chosen = selection.arguments()

    from counterpoise import Ledger

    with opened(Ledger, path) as book:
        found = book.backtest(**settings, **chosen)
        if as_json:
            show_json(found.to_dict())
        else:
            order = found.total[:, 0].argsort(kind="stable").tolist()
            rows = [[found.settings[i].name, *map(_nan_to_none, found.total[i])] for i in order]
            show(["setting", "loss", "G-mean (est.)"], rows, f"{len(found.start):,} tests")
        if report is not None:
            _write_report(report, path, book, book.drift(**chosen), found, chosen)


def drift(
    path: Path,
    train: Train = 30,
    level: Annotated[
        float, typer.Option(help="Largest probability of an alarm in a bucket.", metavar="SHARE")
    ] = 0.01,
    selection: SelectionOptions = SELECTION,
    report: Report = None,
    as_json: Json = False,
) -> None:
    """Show the buckets that are too far from what came before: by the loss, and by features.

    Example: counterpoise ledger drift y.ledger --where country=DE --report drift.html
    """
    _require_folder(report)
    chosen = selection.arguments()

    from counterpoise import Ledger
    from counterpoise.ledger.time_buckets import text

    with opened(Ledger, path) as book:
        found = book.drift(train, level, **chosen)
        if as_json:
            show_json(found.to_dict())
        else:
            rows = []
            for g in found.alarms.nonzero()[0].tolist():
                moved = ", ".join(f"{k}: {name} ({z:+.1f})" for k, name, z in found.largest_shifts(g))
                loss = [_nan_to_none(one[g]) for one in (found.loss, found.usual, found.limit)]
                rows.append([text(found.start[g]), *loss, moved or "the loss"])
            expected = found.level * len(found.start)
            messages.info(
                f"{len(rows)} alarms in {len(found.start):,} buckets; {expected:.2g} would be "
                "expected if nothing had changed"
            )
            show(["bucket", "loss", "usual", "limit", "moved most"], rows)
        if report is not None:
            tests = book.backtest(train=_windows(len(found.start)), **chosen)
            _write_report(report, path, book, found, tests, chosen)


def opened(kind: Any, path: str) -> Any:
    """Open a ledger that exists."""
    if not os.path.exists(path):
        from counterpoise.readers.byte_source import cannot_read

        raise cannot_read(path, FileNotFoundError(2, "No such file or directory"))
    return kind.open(path)


def _escaped(value: str | None) -> str:
    """Return the value of a segment as part of a file name; different values stay different.

    Characters that are not letters, digits, or one of -_. become %XX. The names of a missing and
    of an empty value have parentheses, which no other name has.
    """
    if not value:
        return "(missing)" if value is None else "(empty)"
    safe = "-_" if value.strip(".") == "" else "-_."
    return "".join(
        c if c.isalnum() or c in safe else "".join(f"%{byte:02X}" for byte in c.encode())
        for c in value
    )


# What somebody has named


def _named(option: str, values: Names | None) -> dict[str, Any]:
    """The same from NAME=VALUE pairs."""
    found: dict[str, Any] = {}
    for pair in values or ():
        name, sign, value = pair.partition("=")
        if sign and name in ("since", "until"):
            found[name] = value
        elif sign and name == "exclude":
            found["exclude"] = [*found.get("exclude", ()), _span(value)]
        else:
            _add(option, found.setdefault("where", {}), pair)
    return found


def _add(option: str, where: dict[str, Any], pair: str) -> None:
    name, sign, text = pair.partition("=")
    if not sign or not name.rstrip("!"):
        raise opt.bad(option, f"{pair!r} is not COLUMN=VALUES or COLUMN!=VALUES")
    values = list(opt.names([text]))
    where[name.removesuffix("!")] = {"not": values} if name.endswith("!") else values


def _span(text: str) -> Any:
    begin, sign, end = text.partition("..")
    return (begin, end) if sign else begin


def _whole(option: str, text: str) -> int | None:
    if text == "all":
        return None
    if not text.isdigit():
        raise opt.bad(option, f"{text!r} is neither a whole number nor all")
    return int(text)


def _float(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise opt.bad(option, f"{text!r} is neither a number nor auto") from None


def _nan_to_none(value: Any) -> float | None:
    number = float(value)
    return None if number != number else number


def _windows(count: int) -> list[int]:
    """Windows to compare, of which there are buckets enough."""
    return [size for size in (7, 14, 30, 60, 90) if size <= count // 3] or [max(1, count // 3)]


def _require_folder(report: str | None) -> None:
    if report is not None and not os.path.isdir(os.path.dirname(os.path.realpath(report))):
        raise opt.bad("--report", f"the folder of {report} does not exist")


def _write_report(
    report: str, path: str, book: Any, charts: Any, tests: Any, chosen: dict[str, Any]
) -> None:
    from counterpoise.atomic_write import atomic_write
    from counterpoise.ledger.html_report import page

    size = max(3, len(charts.start) // 12)
    text = page(os.path.basename(path), charts, tests, book.weights(size, **chosen))
    with atomic_write(report, "the report") as file:
        file.write(text.encode())
    messages.info(f"report: {report}")


ledger = typer.Typer(no_args_is_help=True)
Into = Annotated[
    str, typer.Option("--ledger", "-l", help="Ledger to create or to continue.", metavar="FILE")
]


@ledger.callback()
def options() -> None:
    """Moments by time and by segment, in one file: models of any selection, without any row.

    Example: counterpoise ledger learn payments.csv -l year.ledger --label fraud --timestamp at
    """


@ledger.command(short_help="Learn the rows of files that were not learned yet.")
@messages.with_option_groups
def learn(
    files: opt.Files,
    into: Into,
    timestamp: Annotated[
        str | None, typer.Option(help="Column of the time of each row.", metavar="COLUMN")
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
    max_values: Annotated[
        int | None,
        typer.Option(help="Values that such a column may have; 1000 by default.", metavar="N"),
    ] = None,
    columns: opt.ColumnOptions = opt.COLUMNS,
    allow_new_columns: opt.NewColumns = False,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for another process.", metavar="SECONDS")
    ] = 10.0,
    allow_overlap: Annotated[
        bool, typer.Option("--allow-overlap", help="Learn a file that begins like another one.")
    ] = False,
    complete: Annotated[
        bool,
        typer.Option(
            "--complete", help="The files are complete: also learn a last line without a line end."
        ),
    ] = False,
    stdin_name: Annotated[
        str | None, typer.Option(help="Name of standard input in the records.", metavar="NAME")
    ] = None,
    input: opt.InputOptions = opt.INPUT,  # noqa: A002
) -> None:
    """Learn the rows of files that were not learned yet, each one exactly once.

    Settings are stored in the ledger and need not be repeated.

    Example: counterpoise ledger learn p.csv -l y.ledger --label fraud --timestamp at --by country
    """
    reading = input.reading()
    settings = columns.settings()

    from counterpoise import Ledger
    from counterpoise.cli.messages import Progress
    from counterpoise.readers import formats
    from counterpoise.tables.records import input_key

    paths = formats.expanded(files)
    settings = formats.with_label(settings, paths, input.format)
    named = opt.names(by) or None
    roles = settings.pop("roles", None)
    with (
        collect_stop_signals() as stopped,
        Ledger.open(
            into,
            timestamp=timestamp,
            every=every,
            by=named,
            columns=roles,
            max_values=max_values,
            wait=wait,
            **settings,
        ) as book,
        Progress() as progress,
    ):
        inputs = []
        for path in paths:
            key = (f"- {stdin_name}" if stdin_name else "-") if path == "-" else None
            source = formats.source(path, **reading, stdin_name=stdin_name, complete=complete)
            inputs.append((source, key or input_key(path, into)))
        new = book.learn_from(
            inputs, lambda: bool(stopped), progress.chunk, allow_overlap, allow_new_columns
        )
        for source, key in inputs:
            if key in new:
                rows = new[key]
                known = "" if rows else ": nothing new" if key in book.records else " has no rows"
                messages.info(f"{source.name}{known}" + (f": {rows:,} rows" if rows else ""))
                if source.left:
                    messages.info(
                        f"{source.name}: the last line has no line end; use --complete to learn it"
                    )
        for note in book.notes:
            messages.info(note)
        if not stopped or any(new.values()):
            found = book.summary()
            counts = ", ".join(f"{name}: {n:,.10g}" for name, n in found["classes"].items())
            messages.info(
                f"{into}: {found['buckets']:,} buckets, {found['cells']:,} cells, {counts}"
            )
    if stopped:
        messages.info("stopped; the same command continues from here")
        sys.exit(128 + stopped[0])


@ledger.command(short_help="Subtract rows of files exactly.")
@messages.with_option_groups
def unlearn(
    files: opt.Files,
    into: Into,
    where: WhereOption = None,
    input: opt.InputOptions = opt.INPUT,  # noqa: A002
) -> None:
    """Subtract the rows of files from their cells. The files are read again.

    The files must be as they were when they were learned. Rows added since do not matter. With
    --where only rows that meet the condition are subtracted, each one once.

    Example: counterpoise ledger unlearn payments-1.csv -l year.ledger

    One person: counterpoise ledger unlearn 2026-*.csv -l year.ledger --where customer=123
    """
    reading = input.reading()
    meant = where_of(where)

    from counterpoise import Ledger
    from counterpoise.cli.messages import Progress
    from counterpoise.readers import formats
    from counterpoise.tables.records import input_key

    with opened(Ledger, into) as book, Progress() as progress:
        inputs = []
        for path in formats.expanded(files):
            if path == "-":
                raise opt.bad("FILES", "standard input cannot be read twice; name a file")
            inputs.append((formats.source(path, **reading), input_key(path, into)))
        found = book.unlearn_from(inputs, meant, progress.chunk)
        for source, key in inputs:
            messages.info(f"{source.name}: {pluralize(found[key], 'row')} unlearned")


@ledger.command(short_help="Verify that a ledger is as it was written.")
@messages.with_option_groups
def check(path: Path) -> None:
    """Verify every cell and total against checksums, the digest and each other.

    Example: counterpoise ledger check year.ledger
    """
    from counterpoise import Ledger

    with opened(Ledger, path) as book:
        messages.info(f"{path}: {book.check():,} cells are as they were written")


QUESTIONS: dict[Callable[..., None], str] = {
    model: "Write the model of a selection.",
    compare: "Compare two selections.",
    backtest: "Find the best window, half-life and ridge, without rows.",
    drift: "Find when and where the stream changed, without rows.",
}
for command, short in QUESTIONS.items():
    ledger.command(short_help=short)(messages.with_option_groups(command))


@ledger.command(short_help="Merge old buckets into coarser ones.")
@messages.with_option_groups
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
        messages.info(
            f"{path}: {book.rollup(until, every):,} cells fewer, {book.summary()['cells']:,} left"
        )


@ledger.command(short_help="Drop old buckets.")
@messages.with_option_groups
def drop(
    path: Path, until: Annotated[str, typer.Option(help="Rows before this go.", metavar="TIME")]
) -> None:
    """Drop old buckets, as if their rows had never been learned.

    Example: counterpoise ledger drop year.ledger --until 2024-02-01
    """
    from counterpoise import Ledger

    with opened(Ledger, path) as book:
        messages.info(
            f"{path}: {book.drop(until):,} cells dropped, {book.summary()['cells']:,} left"
        )


@ledger.command("inspect", short_help="Show what is in a ledger.")
def inspect(path: Path, as_json: Json = False) -> None:
    """Show what is in a ledger.

    Example: counterpoise ledger inspect year.ledger
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
@messages.with_option_groups
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

    from counterpoise.atomic_write import atomic_write
    from counterpoise.ledger.synthetic import payments

    for i, table in enumerate(payments(seed=seed), start=1):
        name = os.path.normpath(os.path.join(folder, f"payments-{i}.csv"))
        with atomic_write(name, "the payments") as file:
            pyarrow.csv.write_csv(table, file)
        messages.info(f"{name}: {table.num_rows:,} rows")
