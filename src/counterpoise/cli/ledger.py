"""Commands of a ledger: learn and unlearn files, and answer queries without rows."""

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
from counterpoise.errors import DataError

MAX_NAME_BYTES = 200  # of a file, of which systems allow 255 and locks need some
WINDOWS = (7, 14, 30, 60, 90)  # of the backtest in a report
Names = list[str]
Path = Annotated[str, typer.Argument(help="The ledger's file.", metavar="LEDGER")]
Into = Annotated[
    str, typer.Option("--ledger", "-l", help="Ledger to create or to continue.", metavar="FILE")
]
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
HalfLife = Annotated[
    Names | None,
    typer.Option(help="Time in which rows decay to half their weight: 7d, 12h.", metavar="TIME"),
]
Report = Annotated[str | None, typer.Option(help="Write a page with plots.", metavar="FILE.html")]
ledger = typer.Typer(no_args_is_help=True)


@dataclass
class SelectionOptions:
    """Options that select rows of a ledger."""

    since: Since = None
    until: Until = None
    where: Where = None
    exclude: Exclude = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that select rows."""
        pairs = [f"{name}={value}" for name in ("since", "until") if (value := getattr(self, name))]
        pairs += [f"exclude={one}" for one in opt.names(self.exclude)]
        return {**_selection("--where", pairs), **_selection("--where", self.where, is_where=True)}


SELECTION = SelectionOptions()


@ledger.callback()
def options() -> None:
    """Moments by time and by segment, in one file: models of any selection, without any row.

    Example: counterpoise ledger learn payments.csv --ledger year.ledger --label fraud --timestamp
    at
    """


def _command(short_help: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator of a command with groups of options."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        return ledger.command(short_help=short_help)(messages.with_option_groups(command))

    return decorate


@_command("Learn the rows of files that were not learned yet.")
def learn(
    files: opt.Files,
    into: Into,
    timestamp: Annotated[
        str | None, typer.Option(help="Column of the time of each row.", metavar="COLUMN")
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(
            help="Buckets: minute, hour, day, week, month, quarter or year (default: day).",
            metavar="NAME",
        ),
    ] = None,
    by: Annotated[
        Names | None, typer.Option(help="Columns that make segments.", metavar="COLUMNS")
    ] = None,
    max_values: Annotated[
        int | None,
        typer.Option(help="Values that a column of --by may have (default: 1000).", metavar="N"),
    ] = None,
    columns: opt.ColumnOptions = opt.COLUMNS,
    allow_new_columns: opt.NewColumns = False,
    wait: Annotated[
        float, typer.Option(help="Seconds to wait for another process.", metavar="SECONDS")
    ] = 10.0,
    *,
    input: opt.LearnInputOptions,  # noqa: A002
) -> None:
    """Learn the rows of files that were not learned yet, each one exactly once.

    Settings are stored in the ledger and need not be repeated.

    Example: counterpoise ledger learn payments.csv --ledger year.ledger --label fraud --timestamp
    at --by country
    """
    reading, stdin_name = input.reading(), input.stdin_name
    settings = {**columns.settings(), "timestamp": timestamp, "every": every, "wait": wait}

    from counterpoise import Ledger
    from counterpoise.readers import formats
    from counterpoise.tables.records import input_key

    paths = formats.expand_paths(files)
    settings = formats.with_label(settings, paths, input.format)
    settings |= {"columns": settings.pop("roles", None), "by": opt.names(by) or None}
    with (
        collect_stop_signals() as stopped,
        Ledger.open(into, max_values=max_values, **settings) as book,
        messages.Progress() as progress,
    ):
        sources = [formats.source(path, **reading) for path in paths]
        book.learn(
            sources,
            stdin_name,
            input.allow_overlap,
            allow_new_columns,
            stop=lambda: bool(stopped),
            watch=progress.chunk,
        )
        for source in sources:
            rows = book.changed_rows.get(source.name)
            if rows is None:
                continue
            is_known = input_key(source.path, into, stdin_name) in book.records
            text = (
                f": {pluralize(rows, 'row')}"
                if rows
                else ": nothing new"
                if is_known
                else " has no rows"
            )
            messages.info(f"{source.name}{text}")
            if source.left:
                messages.info(
                    f"{source.name}: the last line has no line end; use --complete to learn it"
                )
        for note in book.notes:
            messages.info(note)
        if not stopped or any(book.changed_rows.values()):
            found = book.summary()
            counts = ", ".join(f"{name}: {n:,.10g}" for name, n in found["classes"].items())
            messages.info(
                f"{into}: {pluralize(found['buckets'], 'bucket')}, "
                f"{pluralize(found['cells'], 'cell')}, {counts}"
            )
    if stopped:
        messages.info("stopped; the same command continues from here")
        sys.exit(128 + stopped[0])


@_command("Subtract rows of files exactly.")
def unlearn(
    files: opt.Files,
    into: Into,
    where: opt.WhereOption = None,
    input: opt.InputOptions = opt.INPUT,  # noqa: A002
) -> None:
    """Subtract the rows of files from their cells. The files are read again.

    The files must be as they were when they were learned. Rows added since do not matter. With
    --where only rows that meet the condition are subtracted, each one once.

    Example: counterpoise ledger unlearn payments-1.csv --ledger year.ledger

    One customer: counterpoise ledger unlearn 2026-*.csv --ledger year.ledger --where customer=123
    """
    reading = input.reading()
    rows = opt.parse_where(where)

    from counterpoise.readers import formats

    paths = formats.expand_paths(files)
    if "-" in paths:
        raise DataError("FILES: standard input cannot be read twice; name a file")
    with _open(into) as book, messages.Progress() as progress:
        sources = [formats.source(path, **reading) for path in paths]
        book.unlearn(sources, rows and rows.values, watch=progress.chunk)
        for name, count in book.changed_rows.items():
            messages.info(f"{name}: {pluralize(count, 'row')} unlearned")


@_command("Verify that a ledger is as it was written.")
def check(path: Path) -> None:
    """Verify every cell and total against checksums, the digest and each other.

    Example: counterpoise ledger check year.ledger
    """
    with _open(path) as book:
        messages.info(f"{path}: {book.check():,} cells are as they were written")


@_command("Write the model of a selection.")
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
    """Write the model of a selection, for predict, evaluate, inspect and export.

    Example: counterpoise ledger model year.ledger --since 2024-06-01 --where country=DE --output
    de.safetensors
    """
    arguments = {**selection.arguments(), **options.parameters()}
    if half_life:
        if len(half_life) > 1:
            raise DataError("--half-life must be one time")
        arguments["half_life"] = half_life[0]
    if by and "{}" not in output:
        raise DataError(f"--output with --by must contain {{}} for the segment; got {output!r}")

    from counterpoise.cli.learn import counts_of

    with _open(path) as book:
        if not by:
            one = book.model(**arguments)
            models, description = {output: one}, f"; {one.selection_.describe()}"
        else:
            models, description = {}, ""
            for segment, one in book.models(opt.names(by), share_of_all, **arguments).items():
                values = segment if isinstance(segment, tuple) else (segment,)
                name = output.replace("{}", ",".join(map(_escape, values)))
                if len(os.path.basename(name).encode()) > MAX_NAME_BYTES:
                    raise DataError(
                        f"--by: segment {segment!r} is too long for the name of a file; use --where"
                    )
                models[name] = one
        for name, one in models.items():
            book.save(one, name)
            messages.info(f"{name}: {counts_of(one.classes_, one.class_count_)}{description}")


@_command("Compare two selections.")
def compare(
    path: Path,
    a: Annotated[
        Names | None,
        typer.Option(
            "--a", help="since=, until=, exclude=, COLUMN= or COLUMN!=.", metavar="NAME=VALUE"
        ),
    ] = None,
    b: Annotated[
        Names | None,
        typer.Option("--b", help="The same for the other selection.", metavar="NAME=VALUE"),
    ] = None,
    top: Annotated[int, typer.Option(help="Features to show.", metavar="N")] = 10,
    as_json: Json = False,
) -> None:
    """Compare two selections: classes, features, weights, and each model on the other's rows.

    Losses are exact. G-means are estimates by the mean and the variance of the scores.

    Example: counterpoise ledger compare year.ledger --a until=2024-09-02 --b since=2024-09-02
    """
    with _open(path) as book:
        result = book.compare(_selection("--a", a), _selection("--b", b))
    if as_json:
        show_json(result.to_dict())
        return
    share = result.count / result.count.sum(axis=1, keepdims=True)
    show(
        ["class", "rows of a", "rows of b", "share of a", "share of b", "p (means)",
         "p (covariances)"],
        [
            [str(label), *result.count[:, k].tolist(), *share[:, k].tolist(),
             *((result.together[k][what] or {}).get("p") for what in ("means", "covariances"))]
            for k, label in enumerate(result.labels)
        ],
        f"a: {result.a}; b: {result.b}",
    )  # fmt: skip
    print()
    shifts = [[str(label), *_numbers(rest)] for label, *rest in result.largest_shifts(top)]
    show(["class", "feature", "shift", "p (shift)", "variance ratio", "p (variance)"], shifts)
    print()
    order = (-abs(result.weight[1] - result.weight[0])).argsort(kind="stable")[:top].tolist()
    weights = [[result.names[j], *result.weight[:, j].tolist()] for j in order]
    show(["feature", "weight in a", "weight in b"], weights)
    print()
    rows = [
        [f"of {name}", *_numbers([*result.loss[i], *result.g_mean[i]])]
        for i, name in enumerate("ab")
    ]
    show(["model", "loss on a", "loss on b", "G-mean on a (est.)", "G-mean on b (est.)"], rows)


@_command("Find the best window, half-life and ridge, without rows.")
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
    """Evaluate models of earlier buckets on later ones.

    Every combination of windows, half-lives, ridges and subsets is a setting. Losses are exact.

    Example: counterpoise ledger backtest year.ledger --train 7,30,90 --half-life none,7d,30d
    """
    opt.require_folder(report)
    settings: dict[str, Any] = {"test": test}
    settings["train"] = [
        opt.parse_number("--train", one, {"all": None}, "a number of buckets or all", int)
        for one in opt.names(train)
    ] or [30]
    settings["half_life"] = [None if one == "none" else one for one in opt.names(half_life)] or None
    ridges = [
        opt.parse_number("--ridge", one, {"auto": "auto"}, "0 or more, or auto")
        for one in opt.names(ridge)
    ]
    settings["ridge"] = ridges or "auto"
    if features:
        pairs = [one.partition("=") for one in features]
        settings["features"] = {name: opt.names([rest]) for name, _, rest in pairs}
    chosen = selection.arguments()
    with _open(path) as book:
        result = book.backtest(**settings, **chosen)
        if as_json:
            show_json(result.to_dict())
        else:
            order = result.total[:, 0].argsort(kind="stable").tolist()
            rows = [[result.settings[i].name, *_numbers(result.total[i])] for i in order]
            show(["setting", "loss", "G-mean (est.)"], rows, f"{len(result.start):,} tests")
        if report is not None:
            _write_report(report, path, book, book.drift(**chosen), result, chosen)


@_command("Find when and where the stream changed, without rows.")
def drift(
    path: Path,
    train: Annotated[
        int, typer.Option(help="Buckets that the model of the loss has learned.", metavar="N")
    ] = 30,
    level: Annotated[
        float, typer.Option(help="Largest probability of an alarm in a bucket.", metavar="SHARE")
    ] = 0.01,
    selection: SelectionOptions = SELECTION,
    report: Report = None,
    as_json: Json = False,
) -> None:
    """Show the buckets that differ too much from earlier ones, by the loss and by features.

    Example: counterpoise ledger drift year.ledger --where country=DE --report drift.html
    """
    opt.require_folder(report)
    chosen = selection.arguments()

    from counterpoise.ledger.time_buckets import text

    with _open(path) as book:
        result = book.drift(train, level, **chosen)
        count = len(result.start)
        if as_json:
            show_json(result.to_dict())
        else:
            rows = []
            for g in result.alarms.nonzero()[0].tolist():
                shifts = [f"{k}: {name} ({z:+.1f})" for k, name, z in result.largest_shifts(g)]
                loss = _numbers(one[g] for one in (result.loss, result.usual, result.limit))
                rows.append([text(result.start[g]), *loss, ", ".join(shifts) or "the loss"])
            messages.info(
                f"{pluralize(len(rows), 'alarm')} in {pluralize(count, 'bucket')}; "
                f"{result.level * count:.2g} would be expected without a change"
            )
            show(["bucket", "loss", "expected loss", "control limit", "largest shifts"], rows)
        if report is not None:
            windows = [size for size in WINDOWS if size <= count // 3] or [max(1, count // 3)]
            tests = book.backtest(train=windows, **chosen)
            _write_report(report, path, book, result, tests, chosen)


@_command("Merge old buckets into coarser ones.")
def rollup(
    path: Path,
    until: Annotated[str, typer.Option(help="Buckets that end by then.", metavar="TIME")],
    every: Annotated[
        str, typer.Option(help="Size of the coarser buckets.", metavar="NAME")
    ] = "month",
) -> None:
    """Merge old buckets into coarser ones. Sums do not change, and the file shrinks.

    Example: counterpoise ledger rollup year.ledger --until 2024-07-01 --every month
    """
    with _open(path) as book:
        fewer = book.rollup(until, every)
        messages.info(f"{path}: {fewer:,} cells fewer, {book.summary()['cells']:,} left")


@_command("Drop old buckets.")
def drop(
    path: Path,
    until: Annotated[str, typer.Option(help="Rows before this time are dropped.", metavar="TIME")],
) -> None:
    """Drop old buckets. Their rows then count as never learned.

    Example: counterpoise ledger drop year.ledger --until 2024-02-01
    """
    with _open(path) as book:
        dropped = book.drop(until)
        messages.info(f"{path}: {dropped:,} cells dropped, {book.summary()['cells']:,} left")


@_command("Show the contents of a ledger.")
def inspect(path: Path, as_json: Json = False) -> None:
    """Show settings, times, segments, features, classes and inputs of a ledger.

    Example: counterpoise ledger inspect year.ledger
    """
    with _open(path) as book:
        found = book.summary()
    if as_json:
        show_json(found)
        return
    facts = found | {name: ", ".join(found[name]) for name in ("features", "by", "coarse")}
    facts["categories"] = ", ".join(f"{n:,} of {name}" for name, n in found["categories"].items())
    names = {"every": "bucket", "by": "segment columns", "coarse": "coarser buckets"}
    rows = [[names.get(name, name), value] for name, value in facts.items()
            if name not in ("classes", "inputs") and value not in (None, "")]  # fmt: skip
    show(["ledger", "value"], rows)
    print()
    show(["class", "weight"], [[name, n] for name, n in found["classes"].items()])
    print()
    show(["input", "rows"], [[name, rows] for name, rows in found["inputs"].items()])


@_command("Write a year of synthetic payments.")
def demo(
    folder: Annotated[str, typer.Argument(help="Folder of the files.", metavar="DIR")] = ".",
    seed: Annotated[int, typer.Option(help="Seed of the random numbers.", metavar="N")] = 1,
) -> None:
    """Write a year of synthetic payments: two files, because a column and a country are added late.

    Example: counterpoise ledger demo --seed 2
    """
    if not os.path.isdir(folder):
        raise DataError(f"folder {folder} does not exist")

    import pyarrow.csv

    from counterpoise.atomic_write import atomic_write
    from counterpoise.ledger.synthetic import payments

    for i, table in enumerate(payments(seed=seed), start=1):
        name = os.path.normpath(os.path.join(folder, f"payments-{i}.csv"))
        with atomic_write(name, "the payments") as file:
            pyarrow.csv.write_csv(table, file)
        messages.info(f"{name}: {table.num_rows:,} rows")


def _open(path: str) -> Any:
    """Open a ledger that exists."""
    from counterpoise import Ledger
    from counterpoise.readers.byte_source import cannot_read

    if not os.path.exists(path):
        raise cannot_read(path, FileNotFoundError(2, "No such file or directory"))
    return Ledger.open(path)


def _selection(option: str, pairs: Names | None, is_where: bool = False) -> dict[str, Any]:
    """Return the arguments that select rows, from NAME=VALUE pairs."""
    result: dict[str, Any] = {}
    for pair in pairs or ():
        name, sign, text = pair.partition("=")
        if sign and name in ("since", "until") and not is_where:
            result[name] = text
        elif sign and name == "exclude" and not is_where:
            begin, dots, end = text.partition("..")
            result.setdefault("exclude", []).append((begin, end) if dots else begin)
        elif not sign or not name.rstrip("!"):
            raise DataError(f"{option} must be COLUMN=VALUES or COLUMN!=VALUES; got {pair!r}")
        else:
            values = list(opt.names([text]))
            condition = {"not": values} if name.endswith("!") else values
            result.setdefault("where", {})[name.removesuffix("!")] = condition
    return result


def _numbers(values: Any) -> list[Any]:
    """Return values with None for NaN, which a table shows as empty."""
    return [None if value != value else value for value in values]


def _escape(value: str | None) -> str:
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


def _write_report(
    report: str, path: str, book: Any, charts: Any, tests: Any, chosen: dict[str, Any]
) -> None:
    from counterpoise.ledger.html_report import page

    size = max(3, len(charts.start) // 12)
    text = page(os.path.basename(path), charts, tests, book.weights(size, **chosen))
    messages.write_report(report, text)
