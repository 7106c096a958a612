"""The report of a race: one self-contained page."""

from __future__ import annotations

import base64
import html
from typing import Any

import numpy as np

from counterpoise.arrays import Labels
from counterpoise.evaluate import plots
from counterpoise.evaluate.race import OURS, Result, winner

COLUMNS = {
    "g_mean": "G-mean",
    "balanced_accuracy": "balanced accuracy",
    "recall": "recall",
    "precision": "precision",
    "average_precision": "average precision",
    "roc_auc": "ROC AUC",
    "recall_at_1pct": "recall at 1 % false positives",
}
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
  body {{ font: 16px/1.5 system-ui, sans-serif; color: #222; margin: 0 auto; max-width: 1200px;
    padding: 0 16px 48px; }}
  h1 {{ font-size: 1.6rem; margin: 24px 0 4px; overflow-wrap: anywhere; }}
  h2 {{ font-size: 1.1rem; margin: 0 0 8px; }}
  p {{ margin: 4px 0 12px; }}
  .table {{ overflow-x: auto; }}
  table {{ border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }}
  th, td {{ padding: 4px 10px; text-align: right; border-bottom: 1px solid #ddd; }}
  th {{ vertical-align: bottom; font-weight: 600; }}
  th:first-child, td:first-child {{ text-align: left; position: sticky; left: 0;
    background: #fff; }}
  tr.winner td {{ font-weight: 600; background: #eef5fb; }}
  main {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr));
    gap: 32px; margin-top: 32px; align-items: start; }}
  figure {{ margin: 0; }}
  img {{ width: 100%; height: auto; display: block; }}
  figcaption, .note {{ font-size: 0.9rem; color: #444; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{summary}</p>
<div class="table">{table}</div>
<p class="note">{note}</p>
<main>
{figures}
</main>
</body>
</html>
"""


def page(
    title: str, results: list[Result], y: Labels, names: list[str], positive: Any, delay: int
) -> str:
    """Make the page.

    Parameters
    ----------
    title : str
        What was raced on.
    results : list of Result
        Everybody.
    y : ndarray of shape (n,)
        True labels.
    names : list of str
        Names of the features.
    positive : label
        The class of interest.
    delay : int
        Rows that labels came late.

    Returns
    -------
    str
        HTML that needs nothing else.
    """
    best = winner(results)
    classes, counts = np.unique(y, return_counts=True)
    shares = ", ".join(
        f"{label} {count:,} ({100 * count / len(y):.3g} %)"
        for label, count in zip(classes.tolist(), counts.tolist(), strict=True)
    )
    late = f" Labels came {delay:,} rows late." if delay else ""
    summary = (
        f"{len(y):,} rows, {len(names):,} features; {shares}. Each row was predicted before it was "
        f"learnt.{late} Highest G-mean: {best.name}, {_number(best.metrics.confusion.g_mean())}."
    )
    note = (
        f"Recall, precision and what follows them are of the class {positive}. {OURS} takes "
        "features as they are and scales them retroactively; the others get features standardised "
        "by the rows before. Times are of this machine."
    )
    return PAGE.format(
        title=html.escape(title),
        summary=html.escape(summary),
        table=_table(results, positive, best),
        note=html.escape(note),
        figures="\n".join(_figures(results, y, names, positive, best)),
    )


def _table(results: list[Result], positive: Any, best: Result) -> str:
    head = "".join(f"<th>{name}</th>" for name in ["method", *COLUMNS.values(), "µs per row"])
    rows = []
    for result in results:
        found = result.metrics.of(positive)
        cells = [html.escape(result.name), *(_number(found[key]) for key in COLUMNS)]
        cells.append(f"{result.microseconds:.3g}")
        kind = ' class="winner"' if result is best else ""
        rows.append(f"<tr{kind}>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _figures(
    results: list[Result], y: Labels, names: list[str], positive: Any, best: Result
) -> list[str]:
    classes = np.unique(y).tolist()
    k = classes.index(positive)
    share = float((y == positive).mean())
    tenth = max(len(y) // 10, 1)
    first, last = (float((part == positive).mean()) for part in (y[:tenth], y[-tenth:]))
    recall = best.metrics.confusion.recall()
    by_precision = sorted(
        results, key=lambda r: -(r.metrics.of(positive)["average_precision"] or 0.0)
    )[0]
    weights = best.weights[k] if len(best.weights) > 1 else best.weights[0]
    if len(best.weights) == 1 and k == 0:
        weights = -weights
    names = best.terms or names
    top = int(np.abs(weights).argmax())
    fast = min(results, key=lambda r: r.microseconds)
    ours = next(r for r in results if r.name == OURS)
    return [
        _figure(
            plots.g_mean_over_stream(results, y),
            "G-mean over the stream",
            f"The geometric mean of the recalls of all classes, over all rows so far. In the end "
            f"{best.name} leads with {_number(best.metrics.confusion.g_mean())}.",
        ),
        _figure(
            plots.class_shares(y),
            "Class shares over the stream",
            f"{positive} makes up {100 * share:.3g} % of all rows, {100 * first:.3g} % of the "
            f"first tenth and {100 * last:.3g} % of the last.",
        ),
        _figure(
            plots.precision_recall(results, y, positive, k),
            "Precision and recall",
            f"How many alerts are right against how many of {positive} are found, for every "
            f"threshold. The largest area is that of {by_precision.name}, "
            f"{_number(by_precision.metrics.of(positive)['average_precision'])}.",
        ),
        _figure(
            plots.confusion_matrix(best),
            f"Confusion matrix of {best.name}",
            "Rows of each true class by what was predicted: "
            + ", ".join(f"{100 * r:.1f} % of {label} found" for label, r in recall.items())
            + ".",
        ),
        _figure(
            plots.largest_weights(weights, names, best.name),
            f"Largest weights of {best.name}",
            f"What speaks for {positive} (positive) and against it (negative) at the end of the "
            f"stream, for features of standard deviation 1. Largest: {names[top]}, "
            f"{weights[top]:+.3g}.",
        ),
        _figure(
            plots.time_per_row(results),
            "Time per row",
            f"To predict and to learn one row, on a logarithmic scale. Fastest is {fast.name} with "
            f"{fast.microseconds:.3g} µs; {OURS}, exact after every row, takes "
            f"{ours.microseconds:.3g} µs.",
        ),
    ]


def _figure(made: Any, title: str, says: str) -> str:
    data = base64.b64encode(plots.svg(made).encode()).decode()
    image = f'<img alt="{html.escape(title)}" src="data:image/svg+xml;base64,{data}">'
    caption = f"<figcaption>{html.escape(says)}</figcaption>"
    return f"<figure><h2>{html.escape(title)}</h2>{image}{caption}</figure>"


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"
