"""counterpoise evaluate: metrics of a model, or of logged predictions, on labeled rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterpoise.cli import messages
from counterpoise.cli import options as opt
from counterpoise.cli.messages import Json, Progress, show, show_json
from counterpoise.cli.predict import ABSENT, hint_calibration
from counterpoise.errors import DataError

if TYPE_CHECKING:
    from counterpoise.tables.evaluate import CostSummary, EvaluationResult

EXPLAINED = 1000  # rows whose contributions a report sums up
DEFAULT_COSTS = (5.0, 20.0, 100.0)  # of a miss in a report, if no option sets them


@dataclass
class LoggedOptions(opt.LabelOptions):
    """Options of logged predictions and their labels."""

    predictions: list[str] | None = opt.option(
        "Evaluate logged predictions, as predict has written them, instead of a model.", "FILE"
    )
    label: str | None = opt.option(
        "Column of --labels that contains the class (default: the one that is not the id).",
        "COLUMN",
    )

    def require_complete(self, model: str | None, files: list[str] | None) -> None:
        """Raise unless there is a model with files, or predictions with labels."""
        if not self.predictions:
            if self.labels or self.id or self.label:
                raise DataError("--labels, --id and --label require --predictions")
            if model is None or not files:
                raise DataError(
                    "missing FILES; name a model and files, or --predictions with --labels and --id"
                )
        elif model is not None:
            raise DataError("--predictions cannot be combined with a model; leave MODEL out")
        elif not self.labels or self.id is None:
            raise DataError(f"--predictions requires {'--id' if self.labels else '--labels'}")


def evaluate(
    model: Annotated[
        str | None, typer.Argument(help="Model file.", metavar="MODEL", show_default=False)
    ] = None,
    files: opt.SomeFiles = None,
    report: opt.Report = None,
    as_json: Json = False,
    positive: opt.Positive = None,
    *,
    costs: opt.CostOptions,
    logged: LoggedOptions,
    input: opt.ScoreInputOptions,  # noqa: A002
) -> None:
    """Compare the predictions of a model with the labels in files.

    About 30 bytes per row are kept in memory for the metrics that need an order. The costs and the
    report are about the class --positive.

    Example: counterpoise evaluate fraud.safetensors march.csv --cost-miss 200 --cost-alarm 5

    Logged predictions: counterpoise evaluate --predictions scored.csv --labels labels.csv --id
    payment
    """
    reading, given = input.reading(), costs.costs()
    opt.require_folder(report)
    logged.require_complete(model, files)

    from counterpoise.readers.database import public_address
    from counterpoise.tables.alerts import ExpectedCost

    rule = None if given is None else ExpectedCost(*given)
    if report is not None:
        # fails before the work, not after it
        from counterpoise.evaluate.html_report import render_evaluation
    if logged.predictions:
        found, classes, usual = _evaluate_logged(logged, rule, reading)
        title = f"{', '.join(logged.predictions)} with labels of {', '.join(logged.labels or ())}"
    else:
        explained = EXPLAINED if report else 0
        found, classes, usual = _evaluate_model(
            model or "", files or [], rule, input, reading, explained
        )
        title = f"{model} on {', '.join(map(public_address, files or []))}"
    counts = {one: float((found.y == one).sum()) for one in classes}
    counts = {one: count for one, count in counts.items() if count}
    chosen = opt.select_positive(positive, counts, usual if usual in counts else None)
    position = classes.index(chosen)
    _show(found, chosen, position, as_json)
    if report is not None:
        names = found.result.terms or []
        decisions = _decision_section(found, chosen, position)
        text = render_evaluation(
            title, found.result, found.y, names, chosen, decisions, found.reasons
        )
        messages.write_report(report, text)


def _evaluate_model(
    model: str,
    files: list[str],
    rule: Any,
    input: opt.ScoreInputOptions,  # noqa: A002
    reading: dict[str, Any],
    explain: int,
) -> tuple[EvaluationResult, list[Any], Any]:
    """Return the evaluation of a model, its classes, and its positive class."""
    from counterpoise.readers import formats
    from counterpoise.tables.evaluate import evaluate_model

    stored = opt.load_model(model, files).require_learned()
    if rule is not None:
        rule.decimal = stored.encoding.columns.decimal
        hint_calibration(stored.model)
    sources = [formats.source(path, **reading) for path in formats.expand_paths(files)]
    with Progress() as progress:
        found = evaluate_model(stored, sources, progress.chunk, input.ignore_unknown, rule, explain)
    for name in found.lacking:
        messages.info(ABSENT.format(name))
    if found.skipped:
        messages.info(
            f"{found.skipped:,} rows with missing values, or with none of the columns of the "
            "model, were left out"
        )
    return found, stored.classes, stored.positive


def _evaluate_logged(
    logged: LoggedOptions, rule: Any, reading: dict[str, Any]
) -> tuple[EvaluationResult, list[Any], Any]:
    """Return the evaluation of logged predictions, their classes, and no positive class."""
    from counterpoise.readers import formats
    from counterpoise.tables.evaluate import evaluate_logged, labels_of

    def sources(paths: list[str] | None) -> list[Any]:
        return [formats.source(path, **reading) for path in formats.expand_paths(paths or [])]

    name = logged.id or ""
    with Progress() as progress:
        labels = labels_of(sources(logged.labels), name, logged.label, progress.chunk)
        found = evaluate_logged(sources(logged.predictions), labels, name, progress.chunk, rule)
    if found.unlabeled:
        messages.info(f"{found.unlabeled:,} predictions have no label yet")
    if found.unpredicted:
        messages.info(f"{found.unpredicted:,} labels are of rows that were not predicted here")
    if found.evaluation.skipped:
        messages.info(f"{found.evaluation.skipped:,} rows with a label had no prediction")
    return found.evaluation, found.classes, None


def _decision_section(found: EvaluationResult, chosen: Any, position: int) -> Any:
    """Return what a report shows about decisions."""
    from counterpoise.evaluate.html_report import DecisionSummary
    from counterpoise.evaluate.plots import CostComparison

    priced = []
    for cost in DEFAULT_COSTS if found.price is None else (None,):
        summary = found.cost_summary(chosen, position, cost)
        assert summary is not None
        if cost is not None:
            name = f"a miss costs {cost:g} false alarms"
        else:
            own = "its own price" if summary.at is None else f"{found.price:g}"
            name = f"a miss costs {own} and a false alarm {found.alarm:g}"
        priced.append(CostComparison(name, summary.curve, summary.cost, summary.at))
    return DecisionSummary(found.y == chosen, found.risk(position), priced)


def _costs(summary: CostSummary, is_logged: bool) -> dict[str, tuple[str, Any]]:
    """Return the costs of decisions: the name in a table and the value, by the name in JSON."""
    curve = summary.curve
    return {
        "threshold": ("threshold", summary.at),
        "cost": ("cost (logged alerts)" if is_logged else "cost", summary.cost),
        "alerts": ("alerts", summary.alerts),
        "alarms": ("false alarms", summary.alarms),
        "misses": ("misses", summary.misses),
        "never": ("cost without alerts", curve.never),
        "best": ("cost of the best threshold", curve.least),
        "best_threshold": (
            "best threshold, chosen afterwards",
            None if curve.best == float("inf") else curve.best,
        ),
    }


def _show(found: EvaluationResult, chosen: Any, position: int, as_json: bool) -> None:
    """Print the metrics, and what decisions have cost."""
    from counterpoise.evaluate.metrics import CLASS_METRICS, METRIC_NAMES

    metrics, is_logged = found.result.metrics, found.alerts is not None
    summary = found.cost_summary(chosen, position)
    costs = {} if summary is None else _costs(summary, is_logged)
    if as_json:
        by_name = {name: value for name, (_, value) in costs.items()}
        show_json(metrics.plain() | ({"costs": by_name} if costs else {}))
    else:
        counts, labels = metrics.confusion, metrics.confusion.labels
        facts = {
            "rows": counts.row_count,
            "G-mean": counts.g_mean(),
            "balanced accuracy": counts.balanced_accuracy(),
        }
        show(["metric", "value"], [[name, value] for name, value in facts.items()])
        print()
        rows: list[list[Any]] = [
            [str(label), int(row["rows"] or 0), *(row[name] for name in CLASS_METRICS)]
            for label, row in metrics.by_class.items()
        ]
        show(["class", "rows", *(METRIC_NAMES[name] for name in CLASS_METRICS)], rows)
        print()
        show(
            ["true \\ predicted", *map(str, labels)],
            [[str(a), *(counts.counts.get((a, b), 0) for b in labels)] for a in labels],
        )
        if is_logged or (summary is not None and summary.at is None):
            costs.pop("threshold", None)
        if costs:
            print()
            show([f"alerts about {chosen}", "value"], [list(one) for one in costs.values()])
    messages.report_undefined(metrics.undefined)
