"""HTML reports of a benchmark and of an evaluation: one self-contained page, light or dark."""

from __future__ import annotations

import base64
import html
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from counterpoise.arrays import Flags, Labels, Matrix, Vector
from counterpoise.errors import printable
from counterpoise.evaluate import plots
from counterpoise.evaluate.benchmark import select_best
from counterpoise.evaluate.cost_curve import reliability
from counterpoise.evaluate.metrics import MAIN_METHOD, Result
from counterpoise.evaluate.plots import CostComparison
from counterpoise.explanation import Explanation


def figure(draw: Callable[[], Any], title: str, says: str) -> str:
    """A figure with its title and what it says."""
    made = draw()
    light = _image(made)
    with plots.dark():
        dark = _image(plots.copy_layout(draw(), made))
    source = f'<source media="(prefers-color-scheme: dark)" srcset="{dark}">'
    image = f'<picture>{source}<img alt="{text(title)}" src="{light}"></picture>'
    caption = f"<figcaption>{text(says)}</figcaption>"
    return f"<figure><h2>{text(title)}</h2>{image}{caption}</figure>"


def text(words: str) -> str:
    """Words that a page shows as they are."""
    return html.escape(printable(words))


def _image(made: Any) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(plots.svg(made).encode()).decode()}"


class DecisionSummary(NamedTuple):
    """What decisions go by, and what they have cost."""

    mine: Flags  # (n,) rows of the class of interest
    risk: Vector  # (n,) the stream's probability of it
    priced: Sequence[CostComparison]  # what thresholds cost at some prices


def decision_figures(found: DecisionSummary, positive: Any) -> list[str]:
    """Return two figures of a page."""
    held = reliability(found.mine, found.risk)
    told, came = float(found.risk.mean()), float(found.mine.mean())
    words = []
    for name, curve, decided, _ in found.priced:
        never = max(curve.never, 1e-300)
        words.append(
            f"Where {name}, decisions cost {decided:,.6g}: {100 * decided / never:.3g}% of never "
            "alerting. The best single threshold, chosen afterwards, costs "
            f"{100 * curve.least / never:.3g}%."
        )
    return [
        figure(
            lambda: plots.plot_cost_of_thresholds(found.priced),
            "What each threshold would have cost",
            "Cost of misses and false alarms. A circle is the best single threshold, chosen "
            "afterwards. A diamond, or a dashed line, is the decisions; where each row has its own "
            "cost they can be better than any single threshold. " + " ".join(words),
        ),
        figure(
            lambda: plots.plot_reliability(held, positive),
            "Do the probabilities hold?",
            f"The stream's probability of {positive} as it was told, beside the share of such rows "
            "that it was, with two standard errors; on the line they agree. On average "
            f"{100 * told:.3g} % was told and {100 * came:.3g} % came; the calibration error is "
            f"{held.error:.4f}.",
        ),
    ]


def explanation_figures(reasons: Explanation, positive: Any) -> list[str]:
    """Return two figures of a page."""
    why = reasons.for_class(positive)
    if not np.isfinite(why.base_values):  # there is only one class, or never was this one
        return []
    size = np.atleast_2d(reasons.mean_abs()).sum(axis=0)
    most = reasons.feature_names[int(size.argmax())]
    row = int(why.score.argmax())
    best = int(np.abs(why.values[row]).argmax())
    return [
        figure(
            lambda: reasons.plot_overview(),
            "What scores depend on",
            f"Mean size of what each column contributes to the scores of {len(reasons):,} rows; "
            f"all features of a column count together. Largest: {most}, {size.max():.3g}.",
        ),
        figure(
            lambda: reasons.plot(row, positive),
            f"Why one row looks most like {positive}",
            f"From the score at the balanced center, {float(why.base_values):.3g}, to the score of "
            f"the row with the highest score of {positive}, {why.score[row]:.3g}. Blue increases "
            f"the score, orange decreases it. Main reason: {reasons.feature_names[best]}, "
            f"{why.values[row, best]:+.3g}.",
        ),
    ]


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
  tr.winner td {{ font-weight: 600; background: var(--best); }}
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

    Returns
    -------
    str
        Self-contained HTML.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise.evaluate import run_benchmark
    >>> from counterpoise.evaluate import render_benchmark
    >>> rng = np.random.default_rng(0)
    >>> y = (rng.random(300) < 0.2).astype(int)
    >>> X = rng.standard_normal((300, 2)) + 2.0 * y[:, None]
    >>> results = list(run_benchmark(X, y, methods=["PA"]))
    >>> with open("benchmark.html", "w") as file:  # doctest: +SKIP
    ...     file.write(render_benchmark("a stream", results, y, ["amount", "age"], 1, delay=0))
    """
    best = select_best(results)
    late = f" Labels arrived {delay:,} rows late." if delay else ""
    left = (
        f" The first {best.first:,} rows, before labels of two classes had arrived, do not count."
    )
    summary = (
        f"{len(y):,} rows, {len(names):,} features; {_shares(y)}. Each row was predicted before it "
        f"was learned.{late}{left} Highest G-mean: {best.name}, "
        f"{_number(best.metrics.confusion.g_mean())}."
    )
    note = (
        f"Recall, precision and the columns after them are for the class {positive}. "
        f"{MAIN_METHOD} uses features as they are and scales them retroactively; the others get "
        "features standardized by the preceding rows. Times were measured on this machine."
    )
    figures = [*_figures(results, y, names, positive, best), _times(results)]
    ours = next((r for r in (best, *results) if r.reasons is not None), None)
    if ours is not None and ours.reasons is not None:
        figures += explanation_figures(ours.reasons, positive)
    return _page(title, summary, _table(results, positive, best), note, figures)


def render_evaluation(
    title: str,
    result: Result,
    y: Labels,
    names: list[str],
    positive: Any,
    decided: DecisionSummary | None = None,
    reasons: Explanation | None = None,
) -> str:
    """Render the report of one model and rows that it has not learned as one HTML page.

    Parameters
    ----------
    title : str
        The model and the files.
    result : Result
        Its result.
    y : ndarray of shape (n,)
        True labels.
    names : list of str
        Names of its weights.
    positive : label
        The class of interest.
    decided : Decided, optional
        What decisions about it go by, and what they have cost.
    reasons : Reasons, optional
        Of some of the rows.

    Returns
    -------
    str
        Self-contained HTML.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise.evaluate import run_benchmark
    >>> from counterpoise.evaluate import render_evaluation
    >>> rng = np.random.default_rng(0)
    >>> y = (rng.random(300) < 0.2).astype(int)
    >>> X = rng.standard_normal((300, 2)) + 2.0 * y[:, None]
    >>> (result,) = run_benchmark(X, y, methods=[])
    >>> with open("model.html", "w") as file:  # doctest: +SKIP
    ...     file.write(render_evaluation("a model", result, y, ["amount", "age"], positive=1))
    """
    summary = (
        f"{len(y):,} rows; {_shares(y)}. G-mean: {_number(result.metrics.confusion.g_mean())}."
    )
    lacking = [f"{name} is undefined: {why}" for name, why in result.metrics.undefined.items()]
    note = ". ".join(
        [f"Recall, precision and what follows them are of the class {positive}", *lacking]
    )
    table = _table([result], positive, result, timed=False)
    figures = _figures([result], y, names, positive, result)
    if decided is not None and decided.mine.any() and not decided.mine.all():
        figures += decision_figures(decided, positive)
    if reasons is not None and len(reasons):
        figures += explanation_figures(reasons, positive)
    return _page(title, summary, table, f"{note}.", figures)


def _page(title: str, summary: str, table: str, note: str, figures: list[str]) -> str:
    return PAGE.format(
        title=text(title),
        summary=text(summary),
        table=table,
        note=text(note),
        figures="\n".join(figures),
    )


def _shares(y: Labels) -> str:
    classes, counts = np.unique(y, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    shown = [
        f"{classes[k]} {counts[k]:,} ({100 * counts[k] / len(y):.3g} %)" for k in order[:8].tolist()
    ]
    more = len(classes) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more classes" if more else "")


def _table(results: list[Result], positive: Any, best: Result, timed: bool = True) -> str:
    names = ["method", *COLUMNS.values(), *(["µs per row"] if timed else [])]
    head = "".join(f"<th>{name}</th>" for name in names)
    rows = []
    for result in results:
        found = result.metrics.of(positive)
        cells = [text(result.name), *(_number(found[key]) for key in COLUMNS)]
        if timed:
            cells.append(f"{result.microseconds:.3g}")
        kind = ' class="winner"' if result is best and len(results) > 1 else ""
        rows.append(f"<tr{kind}>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _figures(
    results: list[Result], y: Labels, names: list[str], positive: Any, best: Result
) -> list[str]:
    k = list(best.metrics.by_class).index(positive)  # as scores and weights have them
    share = float((y == positive).mean())
    tenth = max(len(y) // 10, 1)
    first, last = (float((part == positive).mean()) for part in (y[:tenth], y[-tenth:]))
    recall = best.metrics.confusion.recall()
    by_precision = sorted(
        results, key=lambda r: -(r.metrics.of(positive)["average_precision"] or 0.0)
    )[0]
    window = plots.window_of(y)
    rows = slice(best.first, None)
    at, late = plots.running_g_mean(y[rows], best.predicted[rows], window)
    lowest = int(np.nanargmin(late)) if np.isfinite(late).any() else None
    sank = (
        ""
        if lowest is None
        else f" {best.name} was lowest, {late[lowest]:.4f}, after "
        f"{at[lowest] + best.first:,} rows, and ended at {late[-1]:.4f}."
    )
    leads = "leads with" if len(results) > 1 else "has"
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
            f"The same over the last {window:,} rows, so a drop shows immediately.{sank}",
        ),
        figure(
            lambda: plots.plot_class_shares(y),
            "Class shares over the stream",
            f"{positive} makes up {100 * share:.3g} % of all rows, {100 * first:.3g} % of the "
            f"first tenth and {100 * last:.3g} % of the last.",
        ),
        figure(
            lambda: plots.plot_precision_recall(results, y, positive, k),
            "Precision and recall",
            f"The share of alerts that are right against the share of {positive} that is found, "
            f"for every threshold. {'The largest area is' if len(results) > 1 else 'The area is'} "
            f"that of {by_precision.name}, "
            f"{_number(by_precision.metrics.of(positive)['average_precision'])}.",
        ),
        figure(
            lambda: plots.plot_confusion_matrix(best),
            f"Confusion matrix of {best.name}",
            "Rows of each true class by what was predicted: "
            + ", ".join(
                f"{100 * r:.1f} % of {label} found" for label, r in list(recall.items())[:12]
            )
            + ".",
        ),
    ]
    if best.weights is not None:
        figures.append(_weights(best.weights, best, names, positive, k))
    return figures


def _weights(every: Matrix, best: Result, names: list[str], positive: Any, k: int) -> str:
    weights = every[k] if len(every) > 1 else every[0] if k else -every[0]
    names = best.terms or names
    top = int(np.abs(weights).argmax())
    return figure(
        lambda: plots.plot_largest_weights(weights, names, best.name),
        f"Largest weights of {best.name}",
        f"Evidence for {positive} (positive) and against it (negative) at the end of the "
        f"stream, for features of standard deviation 1. Largest: {names[top]}, "
        f"{weights[top]:+.3g}.",
    )


def _times(results: list[Result]) -> str:
    fast = min(results, key=lambda r: r.microseconds)
    ours = next(r for r in results if r.name == MAIN_METHOD)
    return figure(
        lambda: plots.plot_time_per_row(results),
        "Time per row",
        f"To predict and to learn one row, on a logarithmic scale. Fastest is {fast.name} with "
        f"{fast.microseconds:.3g} µs; {MAIN_METHOD}, exact after every row, takes "
        f"{ours.microseconds:.3g} µs.",
    )


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"
