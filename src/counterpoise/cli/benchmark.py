"""counterpoise benchmark: the exact model and other methods on one stream."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from counterpoise.cli import messages
from counterpoise.cli import options as opt
from counterpoise.cli.messages import Json, show, show_json


def benchmark(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILES", help="As for learn; all rows must fit into memory."),
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Use a synthetic stream.")] = False,
    columns: opt.FeatureOptions = opt.FEATURES,
    delay: Annotated[int, typer.Option(help="Labels arrive this many rows late.", metavar="N")] = 0,
    positive: opt.Positive = None,
    report: Annotated[str | None, typer.Option(help="Write a report.", metavar="FILE.html")] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="The only other methods to run.", metavar="METHODS")
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="Methods to leave out.", metavar="METHODS")
    ] = None,
    guests: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            help="Also run a classifier of scikit-learn with partial_fit, or of river, by where "
            "it is imported from; may be given again.",
            metavar="MODULE:CLASS",
        ),
    ] = None,
    everybody: Annotated[
        bool, typer.Option("--all", help="Run all methods, also those that take long.")
    ] = False,
    ridge: Annotated[
        str | None,
        typer.Option(
            help="Also run the exact model with this ridge: a number, gcv or auto.",
            metavar="NUMBER|NAME",
        ),
    ] = None,
    multi_class: Annotated[
        str | None,
        typer.Option(help="Also run it with lda or ovr.", metavar="NAME"),
    ] = None,
    pooled_rows: Annotated[
        str | None,
        typer.Option(
            help="Also run it with quadratic boundaries and ROWS pooled rows.", metavar="ROWS"
        ),
    ] = None,
    half_life: Annotated[
        float | None,
        typer.Option(help="Also run it with this half-life, in rows of a class.", metavar="ROWS"),
    ] = None,
    feature_map: Annotated[
        str | None,
        typer.Option(help="Also run it with this feature map, or auto.", metavar="MAP"),
    ] = None,
    as_json: Json = False,
    input: opt.InputOptions = opt.INPUT,  # noqa: A002
) -> None:
    """Compare the exact model with other methods. Each row is predicted before it is learned.

    Recall, precision and the metrics after them are of the rarest class, or of --positive. Rows
    before labels of two classes have arrived are not counted. Methods that would take long are
    left out.
    With --ridge, --multi-class, --pooled-rows, --half-life or --feature-map the exact model runs
    once more, with these options.

    Example: counterpoise benchmark payments.csv --label fraud --report benchmark.html

    Example: counterpoise benchmark payments.csv --label fraud --with sklearn.naive_bayes:GaussianNB
    --with river.tree:HoeffdingTreeClassifier
    """
    if bool(files) == demo:
        raise opt.bad("FILES", "give either files or --demo")
    if delay < 0:
        raise opt.bad("--delay", "must be 0 or more")
    if report is not None and not os.path.isdir(os.path.dirname(os.path.realpath(report))):
        raise opt.bad("--report", f"the folder of {report} does not exist")
    reading = input.reading()
    settings = columns.settings()
    columns.require_dates()

    import numpy as np

    from counterpoise.atomic_write import atomic_write
    from counterpoise.cli.messages import Progress
    from counterpoise.errors import DataError
    from counterpoise.evaluate.benchmark import n_warmup_rows, select_best, synthetic_payments
    from counterpoise.evaluate.benchmark import run_benchmark as run
    from counterpoise.evaluate.metrics import CUSTOM_METHOD, MAIN_METHOD
    from counterpoise.tables.evaluate import read

    own = _own(
        opt.BoundaryOptions(ridge, multi_class, pooled_rows).parameters(), half_life, feature_map
    )
    visiting = _external_models(guests or [])
    if demo:
        X, y, names = synthetic_payments()
        title = "A made-up stream of payments"
    else:
        X, y, names = read(files or [], settings, reading)
        title = ", ".join(files or [])
    classes, counts = np.unique(y, return_counts=True)
    if len(classes) < 2:
        raise DataError(
            f"all {len(y):,} rows are of class {classes.tolist()[0]!r}; a benchmark needs two "
            "classes"
        )
    left_out = n_warmup_rows(y, delay)
    if left_out == len(y):
        raise DataError(
            f"the last of {len(y):,} rows comes before labels of two classes have arrived: no row "
            "can be counted; give more rows, or a smaller --delay"
        )
    chosen = opt.chosen(positive, classes.tolist(), counts.tolist())
    if report is not None:
        from counterpoise.evaluate import render_benchmark  # fails before the work, not after it
    rivals = _methods(opt.names(only), opt.names(exclude), everybody, y, len(names), messages.info)
    results: list[Any] = []
    runners = [MAIN_METHOD, *([CUSTOM_METHOD] if own is not None else []), *rivals, *visiting]
    with Progress() as progress:
        progress.show("benchmark", (0, len(runners)), f", {MAIN_METHOD} runs")
        for result in run(X, y, delay, chosen, rivals, own, names, visiting):
            results.append(result)
            progress.advance(len(y))
            coming = [f", {name} runs" for name in runners[len(results) :]]
            progress.show("benchmark", (len(results), len(runners)), (coming or [""])[0])
    messages.info(
        f"not counted: the first {left_out:,} rows, before labels of two classes had arrived"
    )
    rows = [_row(result, chosen) for result in results]
    if as_json:
        show_json(
            {
                "rows": len(y), "not_counted": left_out, "features": len(names), "delay": delay,
                "positive": chosen, "winner": select_best(results).name,
                "methods": {
                    r.name: {"microseconds": r.microseconds, **r.metrics.plain()} for r in results
                },
            }
        )  # fmt: skip
    else:
        late = f", labels {delay:,} rows late" if delay else ""
        show(HEAD, rows, f"{title}: {len(y):,} rows, {len(names):,} features{late}")
    for name, reason in results[0].metrics.undefined.items():
        messages.info(f"{name} is undefined: {reason}")
    if report is not None:
        text = render_benchmark(title, results, y, names, chosen, delay)
        with atomic_write(report, "the report") as file:
            file.write(text.encode())
        messages.info(f"report: {report}")


def _methods(
    only: tuple[str, ...],
    exclude: tuple[str, ...],
    everybody: bool,
    y: Any,
    d: int,
    say: Any,
) -> list[str]:
    """Who runs: those asked for, else all but those that would take long."""
    from counterpoise.evaluate.benchmark import METHODS, too_slow

    known = {name.lower(): name for name in METHODS}
    for option, names in (("--only", only), ("--exclude", exclude)):
        strange = [name for name in names if name.lower() not in known]
        if strange:
            raise opt.bad(option, f"{strange[0]!r} is not one of {', '.join(METHODS)}")
    chosen = {known[name.lower()] for name in only} or set(METHODS)
    chosen -= {known[name.lower()] for name in exclude}
    if not only and not everybody:
        for name, seconds in too_slow(y, d).items():
            if name in chosen:
                messages.info(
                    f"{name} is left out: {len(y):,} rows of {d:,} features would take it about "
                    f"{_duration(seconds)} (--all, or --only {name}, lets it run)"
                )
                chosen.remove(name)
    return [name for name in METHODS if name in chosen]


def _external_models(paths: list[str]) -> dict[str, Any]:
    """Models by the names to show: those of their classes, or the whole path if that is unclear."""
    from counterpoise.errors import DataError
    from counterpoise.evaluate.benchmark import METHODS, load_external_model
    from counterpoise.evaluate.metrics import CUSTOM_METHOD, MAIN_METHOD

    if paths and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # last, so that no file there hides what is installed
    shown = [
        MAIN_METHOD,
        CUSTOM_METHOD,
        *METHODS,
        *(path.partition(":")[2] for path in dict.fromkeys(paths)),
    ]
    found = {}
    for path in dict.fromkeys(paths):
        name = path.partition(":")[2]
        try:
            found[name if shown.count(name) == 1 else path] = load_external_model(path)
        except DataError as error:
            raise opt.bad("--with", str(error)) from error
    return found


def _duration(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} seconds"


def _own(bounds: dict[str, Any], half_life: float | None, feature_map: str | None) -> Any:
    """The exact model with the options that somebody has named, or None."""
    options = dict(bounds)
    if half_life is not None:
        options["half_life"] = half_life
    if feature_map is not None:
        options["feature_map"] = opt.feature_map(feature_map)
        if os.path.dirname(options["feature_map"]):
            raise opt.bad("--feature-map", "benchmark takes the name of a map, or auto")
    if not options:
        return None

    from counterpoise import AutoClassifier, BalancedRidgeClassifier

    if options.get("feature_map") != "auto":
        return BalancedRidgeClassifier(**options)
    for name in bounds:
        option = f"--{name.replace('_', '-')}"
        raise opt.bad(option, "cannot be combined with --feature-map auto, which chooses by itself")
    return AutoClassifier(half_life=half_life)


HEAD = [
    "method", "G-mean", "balanced accuracy", "recall", "precision", "average precision", "ROC AUC",
    "recall at 1 % FP", "µs/row",
]  # fmt: skip


def _row(result: Any, positive: Any) -> list[Any]:
    return [result.name, *result.metrics.of(positive).values(), result.microseconds]
