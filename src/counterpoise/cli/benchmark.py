"""counterpoise benchmark: the exact model and other methods on one stream."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import typer

from counterpoise.cli import messages
from counterpoise.cli import options as opt
from counterpoise.cli.messages import Json, show, show_json
from counterpoise.errors import DataError, unknown_name


@dataclass
class MethodOptions:
    """Options of the methods to compare."""

    panel: ClassVar[str] = "Methods"
    delay: int = opt.option(
        "Labels arrive this many rows late.", "N", default=0, limits=(0, float("inf"))
    )
    only: list[str] | None = opt.option("The only other methods to run.", "METHODS")
    exclude: list[str] | None = opt.option("Methods to leave out.", "METHODS")
    external: list[str] | None = opt.option(
        "Also run a classifier of scikit-learn with partial_fit, or of river, by its module and "
        "name. Repeatable.",
        "MODULE:CLASS",
        "--with",
    )
    run_all: bool = opt.option(
        "Run all methods, also those that take long.", None, "--all", default=False
    )


@dataclass
class VariantOptions(opt.BoundaryOptions):
    """Options with which the exact model runs once more."""

    half_life: float | None = opt.option(
        "Rows of a class after which the weight of a row is halved.", "ROWS"
    )
    feature_map: str | None = opt.option("Map of the features such as poly2, or auto.", "MAP")

    def model(self) -> Any:
        """Return the exact model with these options; None without options."""
        options = self.parameters()
        bounds = list(options)
        if self.half_life is not None:
            options["half_life"] = self.half_life
        if self.feature_map is not None:
            options["feature_map"] = opt.parse_feature_map(self.feature_map)
            if os.path.dirname(options["feature_map"]):
                raise DataError("--feature-map must be the name of a map, or auto")
        if not options:
            return None

        from counterpoise import AutoClassifier, BalancedRidgeClassifier

        if options.get("feature_map") != "auto":
            return BalancedRidgeClassifier(**options)
        for name in bounds:
            flag = f"--{name.replace('_', '-')}"
            raise DataError(f"{flag} cannot be combined with --feature-map auto, which selects it")
        return AutoClassifier(half_life=self.half_life)


def benchmark(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="FILES", help="As for learn; all rows must fit into memory."),
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Use a synthetic stream.")] = False,
    report: opt.Report = None,
    as_json: Json = False,
    positive: opt.Positive = None,
    *,
    columns: opt.FeatureOptions,
    methods: MethodOptions,
    variant: VariantOptions,
    input: opt.InputOptions,  # noqa: A002
) -> None:
    """Compare the exact model with other methods. Each row is predicted before it is learned.

    Recall, precision and the metrics after them are of the rarest class, or of --positive. Rows
    before labels of two classes have arrived are not counted. Methods that would take long are
    left out. With options of the model, the exact model runs once more with these options.

    Example: counterpoise benchmark payments.csv --label fraud --report benchmark.html

    Example: counterpoise benchmark payments.csv --label fraud --with sklearn.naive_bayes:GaussianNB
    --with river.tree:HoeffdingTreeClassifier
    """
    if bool(files) == demo:
        raise DataError("FILES: name files, or use --demo")
    opt.require_folder(report)
    reading, settings, delay = input.reading(), columns.settings(), methods.delay
    columns.require_dates()

    import numpy as np

    from counterpoise import BalancedRidgeClassifier, online
    from counterpoise.evaluate.benchmark import (
        METHODS,
        n_warmup_rows,
        run_benchmark,
        select_best,
        synthetic_payments,
    )
    from counterpoise.evaluate.metrics import CUSTOM_METHOD, MAIN_METHOD, METRIC_NAMES
    from counterpoise.readers.database import public_address
    from counterpoise.tables.evaluate import read

    custom = variant.model()
    external = _external_models(methods.external or [])
    if demo:
        X, y, names = synthetic_payments()
        title = "Synthetic payment stream"
    else:
        X, y, names = read(files or [], settings, reading)
        title = ", ".join(map(public_address, files or []))
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
    by_class = dict(zip(classes.tolist(), counts.tolist(), strict=True))
    chosen = opt.select_positive(positive, by_class)
    if report is not None:
        from counterpoise.evaluate import render_benchmark  # fails before the work, not after it
    models = {MAIN_METHOD: BalancedRidgeClassifier()}
    models |= {} if custom is None else {CUSTOM_METHOD: custom}
    for name in _select_methods(methods, y, len(names)):
        models[name] = getattr(online, METHODS[name])()
    models |= external
    results: list[Any] = []
    with messages.Progress() as progress:
        progress.show("benchmark", (0, len(models)), f", {MAIN_METHOD} runs")
        for result in run_benchmark(X, y, models, delay, chosen, names):
            results.append(result)
            progress.advance(len(y))
            coming = [f", {name} runs" for name in list(models)[len(results) :]]
            progress.show("benchmark", (len(results), len(models)), (coming or [""])[0])
    messages.info(
        f"not counted: the first {left_out:,} rows, before labels of two classes had arrived"
    )
    if as_json:
        show_json(
            {
                "rows": len(y), "not_counted": left_out, "features": len(names), "delay": delay,
                "positive": chosen, "best": select_best(results).name,
                "methods": {
                    r.name: {"microseconds": r.microseconds, **r.metrics.plain()} for r in results
                },
            }
        )  # fmt: skip
    else:
        rows = [[r.name, *r.metrics.of(chosen).values(), r.microseconds] for r in results]
        late = f", labels {delay:,} rows late" if delay else ""
        head = ["method", *METRIC_NAMES.values(), "µs/row"]
        show(head, rows, f"{title}: {len(y):,} rows, {len(names):,} features{late}")
    messages.report_undefined(results[0].metrics.undefined)
    if report is not None:
        text = render_benchmark(title, results, y, names, chosen, delay)
        messages.write_report(report, text)


def _select_methods(options: MethodOptions, y: Any, d: int) -> list[str]:
    """Return the methods to run: by option, or all that do not take long."""
    from counterpoise.evaluate.benchmark import METHODS, too_slow

    by_name = {name.lower(): name for name in METHODS}
    only, exclude = opt.names(options.only), opt.names(options.exclude)
    for flag, names in (("--only", only), ("--exclude", exclude)):
        for name in names:
            if name.lower() not in by_name:
                raise unknown_name(flag, "method", name, METHODS)
    chosen = {by_name[name.lower()] for name in only} or set(METHODS)
    chosen -= {by_name[name.lower()] for name in exclude}
    if not only and not options.run_all:
        for name, seconds in too_slow(y, d).items():
            if name in chosen:
                messages.info(
                    f"{name} is left out: {len(y):,} rows of {d:,} features would take it about "
                    f"{_duration(seconds)} (--all, or --only {name}, lets it run)"
                )
                chosen.remove(name)
    return [name for name in METHODS if name in chosen]


def _external_models(paths: list[str]) -> dict[str, Any]:
    """Return models by the names of their classes, or by the whole path if these are not unique."""
    from counterpoise.evaluate.benchmark import METHODS, load_external_model
    from counterpoise.evaluate.metrics import CUSTOM_METHOD, MAIN_METHOD

    if paths and os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # last, so that no file there hides what is installed
    short = {path: path.partition(":")[2] for path in paths}
    shown = [MAIN_METHOD, CUSTOM_METHOD, *METHODS, *short.values()]
    found = {}
    for path, name in short.items():
        try:
            found[name if shown.count(name) == 1 else path] = load_external_model(path)
        except DataError as error:
            raise DataError(f"--with: {error}") from error
    return found


def _duration(seconds: float) -> str:
    for size, unit in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} seconds"
