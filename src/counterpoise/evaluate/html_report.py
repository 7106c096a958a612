"""HTML reports of a benchmark and of an evaluation: one self-contained page, light or dark."""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from counterpoise.arrays import Flags, Labels, Vector
from counterpoise.errors import printable
from counterpoise.evaluate import plots
from counterpoise.evaluate.benchmark import select_best
from counterpoise.evaluate.cost_curve import reliability
from counterpoise.evaluate.metrics import MAIN_METHOD, METRIC_NAMES, Result
from counterpoise.evaluate.plots import CostComparison
from counterpoise.explanation import Explanation

TOP = ' class="top"'  # of the best value of a column


def figure(draw: Callable[[], Any], title: str, caption: str) -> str:
    """Return a figure with its title and caption, for light and dark pages."""
    made = draw()
    light = _image(made)
    with plots.dark():
        dark = _image(plots.copy_layout(draw(), made))
    source = f'<source media="(prefers-color-scheme: dark)" srcset="{dark}">'
    image = f'<picture>{source}<img alt="{text(title)}" src="{light}"></picture>'
    below = f"<figcaption>{text(caption)}</figcaption>"
    return f"<figure><h2>{text(title)}</h2>{image}{below}</figure>"


def text(plain: str) -> str:
    """Return text as HTML."""
    return html.escape(printable(plain))


def _image(made: Any) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(plots.svg(made).encode()).decode()}"


class DecisionSummary(NamedTuple):
    """Probabilities and costs of decisions."""

    mine: Flags  # (n,) rows of the positive class
    risk: Vector  # (n,) its stream probability
    priced: Sequence[CostComparison]  # costs of thresholds


def _decision_figures(decisions: DecisionSummary, positive: Any) -> list[str]:
    found = reliability(decisions.mine, decisions.risk)
    predicted, observed = float(decisions.risk.mean()), float(decisions.mine.mean())
    costs = []
    for name, curve, decided, _ in decisions.priced:
        never = max(curve.never, 1e-300)
        costs.append(
            f"Where {name}, decisions cost {decided:,.6g}: {100 * decided / never:.3g}% of never "
            "alerting. The best single threshold, chosen afterwards, costs "
            f"{100 * curve.least / never:.3g}%."
        )
    return [
        figure(
            lambda: plots.plot_cost_of_thresholds(decisions.priced),
            "Cost of each threshold",
            "Cost of misses and false alarms. A circle is the best single threshold, chosen "
            "afterwards. A diamond, or a dashed line, is the decisions; where each row has its own "
            "cost they can be better than any single threshold. " + " ".join(costs),
        ),
        figure(
            lambda: plots.plot_reliability(found, positive),
            "Calibration",
            f"The stream probability of {positive} and the observed share of such rows, with two "
            f"standard errors; on the line they agree. The mean prediction is {100 * predicted:.3g}"
            f"% and the observed share {100 * observed:.3g}%; the calibration error is "
            f"{found.error:.4f}.",
        ),
    ]


def _explanation_figures(reasons: Explanation, positive: Any) -> list[str]:
    why = reasons.for_class(positive)
    if not np.isfinite(why.base_values):  # there is only one class, or no row of this one
        return []
    size = np.atleast_2d(reasons.mean_abs()).sum(axis=0)
    most = reasons.feature_names[int(size.argmax())]
    row = int(why.score.argmax())
    best = int(np.abs(why.values[row]).argmax())
    return [
        figure(
            lambda: reasons.plot_overview(),
            "Feature importance",
            f"Mean size of what each column contributes to the scores of {len(reasons):,} rows; "
            f"all features of a column count together. Largest: {most}, {size.max():.3g}.",
        ),
        figure(
            lambda: reasons.plot(row, positive),
            "Explanation of the highest-scoring row",
            f"From the score at the balanced center, {float(why.base_values):.3g}, to the score of "
            f"the row with the highest score of {positive}, {why.score[row]:.3g}. Blue increases "
            f"the score, orange decreases it. Main reason: {reasons.feature_names[best]}, "
            f"{why.values[row, best]:+.3g}.",
        ),
    ]


PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
  :root {{ color-scheme: light dark; --ink: #222; --quiet: #444; --paper: #fff; --line: #ddd;
    --best: #eef5fb; }}
  @media (prefers-color-scheme: dark) {{
    :root {{ --ink: #ddd; --quiet: #aaa; --paper: #16181c; --line: #3a3d42; --best: #1c2b3a; }}
  }}
  body {{ font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
    margin: 0 auto; max-width: 1200px; padding: 0 16px 48px; }}
  h1 {{ font-size: 1.6rem; margin: 24px 0 4px; overflow-wrap: anywhere; }}
  h2 {{ font-size: 1.1rem; margin: 0 0 8px; overflow-wrap: anywhere; }}
  p {{ margin: 4px 0 12px; overflow-wrap: anywhere; }}
  .table {{ overflow-x: auto; }}
  table {{ border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }}
  th, td {{ padding: 4px 10px; text-align: right; border-bottom: 1px solid var(--line); }}
  th {{ vertical-align: bottom; font-weight: 600; }}
  th:first-child, td:first-child {{ text-align: left; position: sticky; left: 0;
    background: var(--paper); }}
  @media (max-width: 500px) {{ th, td {{ padding: 4px 5px; font-size: 0.85em; }} }}
  tr.best td {{ background: var(--best); }}
  td.top {{ font-weight: 700; text-decoration: underline; }}
  main {{ display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr));
    gap: 32px; margin-top: 32px; align-items: start; }}
  figure {{ margin: 0; }}
  img {{ width: 100%; height: auto; display: block; }}
  figcaption, .note {{ font-size: 0.9rem; color: var(--quiet); overflow-wrap: anywhere; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{summary}</p>
<p><strong>{conclusion}</strong></p>
<div class="table">{table}</div>
<p class="note">{note}</p>
<main>
{figures}
</main>
</body>
</html>
"""


def render_benchmark(
    title: str, results: list[Result], y: Labels, names: list[str], positive: Any, delay: int
) -> str:
    """Render the report of a benchmark as one HTML page.

    Parameters
    ----------
    title : str
        The title, usually the input.
    results : list of Result
        Results of all methods.
    y : ndarray of shape (n,)
        True labels.
    names : list of str
        Names of the features.
    positive : label
        The class of interest.
    delay : int
        Rows by which labels were delayed.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from counterpoise.evaluate import render_benchmark, run_benchmark
    >>> from counterpoise.online import AROW
    >>> X, y = make_classification(300, weights=[0.8], random_state=0)
    >>> results = list(run_benchmark(X, y, {"AROW": AROW()}))
    >>> with open("benchmark.html", "w") as file:  # doctest: +SKIP
    ...     file.write(render_benchmark("a stream", results, y, ["amount", "age"], 1, delay=0))
    """
    best = select_best(results)
    n_best = sum(best in [results[i] for i in rows] for rows in _best_rows(results, positive))
    late = f" Labels arrived {delay:,} rows late." if delay else ""
    left = (
        f" The first {best.first:,} rows, before labels of two classes had arrived, are excluded."
    )
    summary = (
        f"{len(y):,} rows, {len(names):,} features; {_shares(y)}. Each row was predicted before it "
        f"was learned.{late}{left}"
    )
    conclusion = (
        f"Conclusion: {best.name} has the highest G-mean, "
        f"{_number(best.metrics.confusion.g_mean())}, and the best value in {n_best} of "
        f"{len(METRIC_NAMES) + 1} columns."
    )
    note = (
        f"The best value of each column is underlined. Recall, precision and the columns after "
        f"them are for the class {positive}. {MAIN_METHOD} uses features as they are and scales "
        "them retroactively; the others get "
        "features standardized by the preceding rows. Times were measured on this machine."
    )
    figures = [*_figures(results, y, names, positive, best), _times(results)]
    ours = next((r for r in (best, *results) if r.reasons is not None), None)
    if ours is not None and ours.reasons is not None:
        figures += _explanation_figures(ours.reasons, positive)
    return _page(title, (summary, conclusion), _table(results, positive, best), note, figures)


def render_evaluation(
    title: str,
    result: Result,
    y: Labels,
    names: list[str],
    positive: Any,
    decisions: DecisionSummary | None = None,
    reasons: Explanation | None = None,
) -> str:
    """Render the report of one model and rows that it has not learned as one HTML page."""
    summary = f"{len(y):,} rows; {_shares(y)}."
    found = result.metrics.of(positive)
    conclusion = (
        f"Conclusion: the model finds {_percent(found['recall'])} of the rows of class {positive} "
        f"(recall), and {_percent(found['precision'])} of the rows that it predicts as {positive} "
        f"are of this class (precision). Its G-mean is {_number(found['g_mean'])}."
    )
    lines = [f"Recall, precision and the columns after them are for the class {positive}"]
    for name, why in result.metrics.undefined.items():
        lines.append(f"{METRIC_NAMES.get(name, name)} is undefined: {why}")
    table = _table([result], positive, result, timed=False)
    figures = _figures([result], y, names, positive, result)
    if decisions is not None and decisions.mine.any() and not decisions.mine.all():
        figures += _decision_figures(decisions, positive)
    if reasons is not None and len(reasons):
        figures += _explanation_figures(reasons, positive)
    return _page(title, (summary, conclusion), table, f"{'. '.join(lines)}.", figures)


def _page(title: str, summary: tuple[str, str], table: str, note: str, figures: list[str]) -> str:
    """Return the page; the summary has the data and the conclusion."""
    texts = {"title": text(title), "note": text(note)}
    texts |= {"summary": text(summary[0]), "conclusion": text(summary[1])}
    return PAGE.format(**texts, table=table, figures="\n".join(figures))


def _best_rows(results: list[Result], positive: Any) -> list[list[int]]:
    """Return for each metric, and at last for the time, the results with the best value."""
    found = [result.metrics.of(positive) for result in results]
    columns = [[one[key] for one in found] for key in METRIC_NAMES]
    columns.append([-result.microseconds for result in results])
    best = []
    for values in columns:
        most = max((value for value in values if value is not None), default=None)
        best.append([i for i, value in enumerate(values) if value is not None and value == most])
    return best


def _percent(share: float | None) -> str:
    return "an undefined share" if share is None else f"{100 * share:.3g}%"


def _shares(y: Labels) -> str:
    classes, counts = np.unique(y, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    shown = [
        f"{classes[k]} {counts[k]:,} ({100 * counts[k] / len(y):.3g}%)" for k in order[:8].tolist()
    ]
    more = len(classes) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more classes" if more else "")


def _table(results: list[Result], positive: Any, best: Result, timed: bool = True) -> str:
    names = ["method", *METRIC_NAMES.values(), *(["µs per row"] if timed else [])]
    head = "".join(f"<th>{name}</th>" for name in names)
    marked = _best_rows(results, positive) if len(results) > 1 else [[]] * len(names)
    rows = []
    for i, result in enumerate(results):
        found = result.metrics.of(positive)
        cells = [_number(found[key]) for key in METRIC_NAMES]
        if timed:
            cells.append(f"{result.microseconds:.3g}")
        kind = ' class="best"' if result is best and len(results) > 1 else ""
        row = "".join(
            f"<td{TOP * (i in top)}>{cell}</td>" for cell, top in zip(cells, marked, strict=False)
        )
        rows.append(f"<tr{kind}><td>{text(result.name)}</td>{row}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _figures(
    results: list[Result], y: Labels, names: list[str], positive: Any, best: Result
) -> list[str]:
    k = list(best.metrics.by_class).index(positive)  # its position in scores and weights
    tenth = max(len(y) // 10, 1)
    whole, first, last = (
        f"{100 * float((part == positive).mean()):.3g}%" for part in (y, y[:tenth], y[-tenth:])
    )
    recall = list(best.metrics.confusion.recall().items())[:12]
    area, largest = max(
        ((r.metrics.of(positive)["average_precision"] or 0.0, r) for r in results),
        key=lambda pair: pair[0],
    )
    window, rows = plots.window_of(y), slice(best.first, None)
    at, late = plots.running_g_mean(y[rows], best.predicted[rows], window)
    lowest = ""
    if np.isfinite(late).any():
        i = int(np.nanargmin(late))
        lowest = (
            f" The lowest value of {best.name} is {late[i]:.4f}, after {at[i] + best.first:,} "
            f"rows, and the last is {late[-1]:.4f}."
        )
    leads, has = ("leads with", "has the largest area") if len(results) > 1 else ("has", "has")
    figures = [
        figure(
            lambda: plots.plot_g_mean(results, y),
            "G-mean over the stream",
            f"The geometric mean of the recalls of all classes, over all rows so far. At the end "
            f"{best.name} {leads} {_number(best.metrics.confusion.g_mean())}.",
        ),
        figure(
            lambda: plots.plot_g_mean(results, y, window),
            "Recent G-mean",
            f"The same over the last {window:,} rows, so a drop shows immediately.{lowest}",
        ),
        figure(
            lambda: plots.plot_class_shares(y),
            "Class shares over the stream",
            f"{positive} makes up {whole} of all rows, {first} of the first tenth and {last} of "
            "the last.",
        ),
        figure(
            lambda: plots.plot_precision_recall(results, y, positive, k),
            "Precision and recall",
            f"The share of alerts that are right against the share of {positive} that is found, "
            f"for every threshold. {largest.name} {has}, {_number(area)}.",
        ),
        figure(
            lambda: plots.plot_confusion_matrix(best),
            f"Confusion matrix of {best.name}",
            "Rows of each true class by predicted class: "
            + ", ".join(f"{100 * share:.1f}% of {label} found" for label, share in recall)
            + ".",
        ),
    ]
    if best.weights is not None:
        every = best.weights
        weights = every[k] if len(every) > 1 else every[0] if k else -every[0]
        terms = best.terms or names
        top = int(np.abs(weights).argmax())
        figures.append(
            figure(
                lambda: plots.plot_largest_weights(weights, terms, best.name),
                f"Largest weights of {best.name}",
                f"Evidence for {positive} (positive) and against it (negative) at the end of the "
                f"stream, for features of standard deviation 1. Largest: {terms[top]}, "
                f"{weights[top]:+.3g}.",
            )
        )
    return figures


def _times(results: list[Result]) -> str:
    fastest = min(results, key=lambda r: r.microseconds)
    exact = [r for r in results if r.name == MAIN_METHOD]
    return figure(
        lambda: plots.plot_time_per_row(results),
        "Time per row",
        f"To predict and to learn one row, on a logarithmic scale. {fastest.name} is the fastest "
        f"with {fastest.microseconds:.3g} µs."
        + "".join(
            f" {r.name}, exact after every row, takes {r.microseconds:.3g} µs." for r in exact
        ),
    )


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"
