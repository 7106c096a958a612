"""counterpoise evaluate: how good a model is on rows that it has not learned."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

import typer

from counterpoise.cli import messages, options
from counterpoise.cli import options as opt
from counterpoise.cli.messages import Json, show, show_json

if TYPE_CHECKING:
    from counterpoise.tables.evaluate import CostSummary, EvaluationResult


def cost_rows(bill: CostSummary, served: bool) -> list[list[Any]]:
    """Rows of a table about a bill."""
    curve = bill.curve
    by = "as served" if served else "by price"
    at = [] if bill.at is None or served else [["alert where the probability is at least", bill.at]]
    return [
        *at,
        [f"cost {by}", bill.cost],
        ["alerts", bill.alerts],
        ["false alarms", bill.alarms],
        ["misses", bill.misses],
        ["cost of never alerting", curve.never],
        ["cost of the best single threshold", curve.least],
        [
            "the best single threshold, chosen afterwards",
            None if curve.best == float("inf") else curve.best,
        ],
    ]


def plain(bill: CostSummary) -> dict[str, Any]:
    """Return a bill, ready for JSON."""
    return {
        "cost": bill.cost,
        "alerts": bill.alerts,
        "alarms": bill.alarms,
        "misses": bill.misses,
        "threshold": bill.at,
        "never": bill.curve.never,
        "best": bill.curve.least,
        "best_threshold": None if bill.curve.best == float("inf") else bill.curve.best,
    }


EXPLAINED = 1000  # rows whose reasons a report sums up


def evaluate(
    model: Annotated[
        str | None, typer.Argument(help="Model file.", metavar="MODEL", show_default=False)
    ] = None,
    files: opt.SomeFiles = None,
    predictions: Annotated[
        list[str] | None,
        typer.Option(
            help="Judge these predictions, as predict has written them, and no model.",
            metavar="FILE",
        ),
    ] = None,
    labels: opt.Labels = None,
    id: opt.Id = None,  # noqa: A002
    label: Annotated[
        str | None,
        typer.Option(
            help="Column of --labels that holds the class; by default the one besides the ids.",
            metavar="COLUMN",
        ),
    ] = None,
    positive: opt.Positive = None,
    costs: opt.CostOptions = opt.COSTS,
    report: Annotated[
        str | None, typer.Option(help="Write a page about it.", metavar="FILE.html")
    ] = None,
    as_json: Json = False,
    ignore_unknown: opt.IgnoreUnknown = False,
    input: opt.InputOptions = opt.INPUT,  # noqa: A002
) -> None:
    """Compare the predictions of a model with the labels in files.

    Some thirty bytes a row are kept in memory for the metrics that need an order. --positive is the
    class that costs and the page of --report are about.

    Example: counterpoise evaluate fraud.safetensors march.csv --cost-miss 200 --cost-alarm 5

    As served: counterpoise evaluate --predictions scored.csv --labels labels.csv --id payment
    """
    reading = input.reading()
    given = costs.costs()
    if report is not None and not os.path.isdir(os.path.dirname(os.path.realpath(report))):
        raise opt.bad("--report", f"the folder of {report} does not exist")
    _require_one(model, files, predictions, labels, id, label)

    from counterpoise.tables.alerts import ExpectedCost

    rule = None if given is None else ExpectedCost(given.alarm, given.miss, given.column)
    if report is not None:
        from counterpoise.evaluate.html_report import (
            render_evaluation,  # fails before the work, not after it
        )
    if predictions and labels and id:
        verdict, classes, usual = _evaluate_logged(predictions, labels, id, label, rule, reading)
        title = f"{', '.join(predictions)} as served, by {', '.join(labels)}"
    else:
        assert model is not None
        assert files is not None
        verdict, classes, usual = _judged(
            model, files, rule, ignore_unknown, reading, EXPLAINED if report else 0
        )
        title = f"{model} on {', '.join(files)}"
    seen = [one for one in classes if (verdict.y == one).any()]
    rows_of = [float((verdict.y == one).sum()) for one in seen]
    chosen = opt.chosen(positive, seen, rows_of, usual if usual in seen else None)
    position = classes.index(chosen)
    _tell(verdict, chosen, position, as_json)
    if report is not None:
        from counterpoise.atomic_write import atomic_write

        names = verdict.result.terms or []
        decided = _decision_section(verdict, chosen, position)
        text = render_evaluation(
            title, verdict.result, verdict.y, names, chosen, decided, verdict.reasons
        )
        with atomic_write(report, "the report") as file:
            file.write(text.encode())
        messages.info(f"report: {report}")


def _require_one(
    model: str | None,
    files: list[str] | None,
    predictions: list[str] | None,
    labels: list[str] | None,
    name: str | None,
    label: str | None,
) -> None:
    """Raise unless there is a model with files, or predictions with labels."""
    if predictions:
        if model is not None:
            raise opt.bad("--predictions", "are judged without a model; leave the model out")
        if not labels:
            raise opt.bad("--predictions", "name the file of the labels with --labels")
        if name is None:
            raise opt.bad("--predictions", "name the column of the ids with --id")
        return
    if labels or name or label:
        raise opt.bad("--labels", "and --id and --label are for --predictions; name these too")
    if model is None or not files:
        raise typer.BadParameter("name a model and files, or --predictions with --labels and --id")


def _judged(
    model: str,
    files: list[str],
    rule: Any,
    ignore_unknown: bool,
    reading: dict[str, Any],
    explain: int,
) -> tuple[EvaluationResult, list[Any], Any]:
    """Verdict on a model, its classes, and the class of interest."""
    from counterpoise.cli.messages import Progress
    from counterpoise.cli.predict import ABSENT
    from counterpoise.readers import formats
    from counterpoise.tables.evaluate import evaluate_model
    from counterpoise.tables.model import TableModel

    stored = TableModel.load(model).require_learned()
    if rule is not None:
        rule.decimal = stored.encoding.columns.decimal
        options.hint_calibration(getattr(stored.model, "options", None))
    sources = [formats.source(path, **reading) for path in formats.expanded(files)]
    with Progress() as progress:
        verdict = evaluate_model(stored, sources, progress, ignore_unknown, rule, explain)
    for name in verdict.lacking:
        messages.info(ABSENT.format(name))
    if verdict.skipped:
        messages.info(
            f"{verdict.skipped:,} rows with missing values, or with none of the columns of the "
            "model, were left out"
        )
    return verdict, stored.classes, stored.positive


def _evaluate_logged(
    predictions: list[str],
    labels: list[str],
    name: str,
    label: str | None,
    rule: Any,
    reading: dict[str, Any],
) -> tuple[EvaluationResult, list[Any], Any]:
    """Verdict on predictions as they were served, their classes, and no class of interest."""
    from counterpoise.cli.messages import Progress
    from counterpoise.readers import formats
    from counterpoise.tables.evaluate import evaluate_logged, labels_of

    with Progress() as progress:
        known = labels_of(
            [formats.source(path, **reading) for path in formats.expanded(labels)],
            name,
            label,
            progress,
        )
        sources = [formats.source(path, **reading) for path in formats.expanded(predictions)]
        found = evaluate_logged(sources, known, name, progress, rule)
    if found.waiting:
        messages.info(f"{found.waiting:,} predictions have no label yet")
    if found.strange:
        messages.info(f"{found.strange:,} labels are of rows that were not predicted here")
    if found.verdict.skipped:
        messages.info(f"{found.verdict.skipped:,} rows with a label had no prediction")
    return found.verdict, found.classes, None


def _decision_section(verdict: EvaluationResult, chosen: Any, position: int) -> Any:
    """What a page is to say about decisions."""
    from counterpoise.evaluate.html_report import DecisionSummary
    from counterpoise.evaluate.plots import CostComparison

    risk = verdict.risk(position)
    if risk is None:
        return None
    wanted = (5.0, 20.0, 100.0) if verdict.price is None else (None,)
    found = []
    for price in wanted:
        bill = verdict.bill(chosen, position, price)
        assert bill is not None
        if price is not None:
            name = f"a miss costs {price:g} false alarms"
        else:
            own = "its own price" if bill.at is None else f"{verdict.price:g}"
            name = f"a miss costs {own} and a false alarm {verdict.alarm:g}"
        found.append(CostComparison(name, bill.curve, bill.cost, bill.at))
    return DecisionSummary(verdict.y == chosen, risk, found)


def _tell(verdict: EvaluationResult, chosen: Any, position: int, as_json: bool) -> None:
    """Print the metrics, and what decisions have cost."""
    metrics = verdict.result.metrics
    bill = verdict.bill(chosen, position)
    if as_json:
        show_json(metrics.plain() | ({} if bill is None else {"costs": plain(bill)}))
    else:
        counts = metrics.confusion
        show(
            ["metric", "value"],
            [
                ["rows", counts.scored],
                ["G-mean", counts.g_mean()],
                ["balanced accuracy", counts.balanced_accuracy()],
            ],
        )
        print()
        names = ["rows", "recall", "precision", "average_precision", "roc_auc", "recall_at_1pct"]
        head = [
            "class",
            "rows",
            "recall",
            "precision",
            "average precision",
            "ROC AUC",
            "recall at 1 % FP",
        ]
        rows: list[list[Any]] = [
            [str(label), int(row["rows"] or 0), *(row[name] for name in names[1:])]
            for label, row in metrics.by_class.items()
        ]
        show(head, rows)
        print()
        labels = counts.labels
        show(
            ["true \\ predicted", *map(str, labels)],
            [[str(a), *(counts.counts.get((a, b), 0) for b in labels)] for a in labels],
        )
        if bill is not None:
            print()
            show([f"alerts about {chosen}", "value"], cost_rows(bill, verdict.alerts is not None))
    for name, reason in metrics.undefined.items():
        messages.info(f"{name} is undefined: {reason}")
