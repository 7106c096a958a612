"""counterpoise ledger: its questions, which need no row."""

from __future__ import annotations

import os
from typing import Annotated, Any

import typer

from counterpoise.cli import options as opt
from counterpoise.cli import words
from counterpoise.cli.table import Json, show, show_json

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
Without = Annotated[
    Names | None,
    typer.Option(help="Times to leave out: a bucket, or SINCE..UNTIL.", metavar="TIME"),
]
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
    since: Since = None,
    until: Until = None,
    where: Where = None,
    without: Without = None,
    half_life: HalfLife = None,
    by: Annotated[
        Names | None, typer.Option(help="A model for each segment.", metavar="COLUMNS")
    ] = None,
    pool: Annotated[
        float, typer.Option(help="Share of the whole that each segment learns.", metavar="SHARE")
    ] = 0.0,
    ridge: opt.Ridge = None,
    multi_class: opt.MultiClass = None,
    pooling: opt.Pooling = None,
) -> None:
    """Write the model of a selection, which predict, evaluate, inspect and export take.

    Example: counterpoise ledger model y.ledger --since 2024-06-01 --where country=DE -o de.st
    """
    chosen = _selection(since, until, where, without, half_life)
    parameters = opt.boundaries(ridge, multi_class, pooling)
    if by and "{}" not in output:
        raise opt.bad("--output", "with --by, the name needs {} where the segment goes")

    from counterpoise import Ledger
    from counterpoise.cli.learn import counts_of

    with opened(Ledger, path) as book:
        if not by:
            found = book.model(**chosen, **parameters)
            book.save(found, output)
            words.say(f"{output}: {counts_of(found)}; {found.selection_.words()}")
            return
        names = opt.names(by)
        several = book.models(names if len(names) > 1 else names[0], pool, **chosen, **parameters)
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
            words.say(f"{name}: {counts_of(found)}")


def compare(
    path: Path,
    a: Annotated[
        Names | None,
        typer.Option(
            "--a", help="since=, until=, without=, COLUMN= or COLUMN!=.", metavar="NAME=VALUE"
        ),
    ] = None,
    b: Annotated[
        Names | None, typer.Option("--b", help="The same for the other one.", metavar="NAME=VALUE")
    ] = None,
    most: Annotated[int, typer.Option(help="Features to show.", metavar="N")] = 10,
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
        show_json(found.plain())
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
    show(head, [[str(row[0]), row[1], *map(_known, row[2:])] for row in found.moved(most)])
    print()
    moved = abs(found.weight[1] - found.weight[0])
    order = (-moved).argsort(kind="stable")[:most].tolist()
    show(
        ["feature", "weight in a", "weight in b"],
        [[found.names[j], *found.weight[:, j].tolist()] for j in order],
    )
    print()
    rows = [
        [f"model of {name}", *map(_known, found.loss[i]), *map(_known, found.g_mean[i])]
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
    ridge: Annotated[
        Names | None, typer.Option(help="Numbers, or shrinking.", metavar="NUMBER")
    ] = None,
    features: Annotated[
        Names | None,
        typer.Option(help="A subset of the columns: NAME=COLUMN,COLUMN.", metavar="NAME=COLUMNS"),
    ] = None,
    since: Since = None,
    until: Until = None,
    where: Where = None,
    without: Without = None,
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
        one if one == "shrinking" else _float("--ridge", one) for one in opt.names(ridge)
    ] or "shrinking"
    if features:
        pairs = [one.partition("=") for one in features]
        settings["features"] = {name: opt.names([rest]) for name, _, rest in pairs}
    chosen = _selection(since, until, where, without, None)

    from counterpoise import Ledger

    with opened(Ledger, path) as book:
        found = book.backtest(**settings, **chosen)
        if as_json:
            show_json(found.plain())
        else:
            order = found.total[:, 0].argsort(kind="stable").tolist()
            rows = [[found.settings[i].name, *map(_known, found.total[i])] for i in order]
            show(["setting", "loss", "G-mean (est.)"], rows, f"{len(found.start):,} tests")
        if report is not None:
            _write_report(report, path, book, book.drift(**chosen), found, chosen)


def drift(
    path: Path,
    train: Train = 30,
    level: Annotated[
        float, typer.Option(help="Largest probability of an alarm in a bucket.", metavar="SHARE")
    ] = 0.01,
    since: Since = None,
    until: Until = None,
    where: Where = None,
    without: Without = None,
    report: Report = None,
    as_json: Json = False,
) -> None:
    """Show the buckets that are too far from what came before: by the loss, and by features.

    Example: counterpoise ledger drift y.ledger --where country=DE --report drift.html
    """
    _require_folder(report)
    chosen = _selection(since, until, where, without, None)

    from counterpoise import Ledger
    from counterpoise.ledger.buckets import text

    with opened(Ledger, path) as book:
        found = book.drift(train, level, **chosen)
        if as_json:
            show_json(found.plain())
        else:
            rows = []
            for g in found.alarms.nonzero()[0].tolist():
                moved = ", ".join(f"{k}: {name} ({z:+.1f})" for k, name, z in found.moved(g))
                loss = [_known(one[g]) for one in (found.loss, found.usual, found.limit)]
                rows.append([text(found.start[g]), *loss, moved or "the loss"])
            expected = found.level * len(found.start)
            words.say(
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
        from counterpoise.streams.bytes import cannot_read

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


def _selection(
    since: str | None,
    until: str | None,
    where: Names | None,
    without: Names | None,
    half_life: Names | None,
) -> dict[str, Any]:
    """Arguments that select rows."""
    found: dict[str, Any] = {"since": since, "until": until}
    for pair in where or ():
        _add("--where", found.setdefault("where", {}), pair)
    if without:
        found["without"] = [_span(one) for one in opt.names(without)]
    if half_life:
        if len(half_life) > 1:
            raise opt.bad("--half-life", "name one")
        found["half_life"] = half_life[0]
    return {name: value for name, value in found.items() if value is not None}


def _named(option: str, values: Names | None) -> dict[str, Any]:
    """The same from NAME=VALUE pairs."""
    found: dict[str, Any] = {}
    for pair in values or ():
        name, sign, value = pair.partition("=")
        if sign and name in ("since", "until"):
            found[name] = value
        elif sign and name == "without":
            found["without"] = [*found.get("without", ()), _span(value)]
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
        raise opt.bad(option, f"{text!r} is neither a number nor shrinking") from None


def _known(value: Any) -> float | None:
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
    from counterpoise.atomic import writing
    from counterpoise.ledger.report import page

    size = max(3, len(charts.start) // 12)
    text = page(os.path.basename(path), charts, tests, book.weights(size, **chosen))
    with writing(report, "the report") as file:
        file.write(text.encode())
    words.say(f"report: {report}")
