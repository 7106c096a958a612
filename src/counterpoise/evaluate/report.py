"""The report of a race or of an evaluation: one self-contained page, light or dark."""

from __future__ import annotations

from typing import Any

import numpy as np

from counterpoise.arrays import Labels, Matrix
from counterpoise.evaluate import explained, plots
from counterpoise.evaluate.decided import Decided
from counterpoise.evaluate.decided import figures as decided_figures
from counterpoise.evaluate.figures import figure, text
from counterpoise.evaluate.race import OURS, Result, winner
from counterpoise.reasons import Reasons

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


def page(
    title: str, results: list[Result], y: Labels, names: list[str], positive: Any, delay: int
) -> str:
    """Make the page of a race.

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
    >>> from counterpoise.evaluate.race import race
    >>> from counterpoise.evaluate.report import page
    >>> rng = np.random.default_rng(0)
    >>> y = (rng.random(300) < 0.2).astype(int)
    >>> X = rng.standard_normal((300, 2)) + 2.0 * y[:, None]
    >>> results = list(race(X, y, rivals=["PA"]))
    >>> with open("race.html", "w") as file:  # doctest: +SKIP
    ...     file.write(page("a stream", results, y, ["amount", "age"], positive=1, delay=0))
    """
    best = winner(results)
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
        f"Recall, precision and the columns after them are for the class {positive}. {OURS} uses "
        "features as they are and scales them retroactively; the others get features standardised "
        "by the preceding rows. Times were measured on this machine."
    )
    figures = [*_figures(results, y, names, positive, best), _times(results)]
    ours = next((r for r in (best, *results) if r.reasons is not None), None)
    if ours is not None and ours.reasons is not None:
        figures += explained.figures(ours.reasons, positive)
    return _page(title, summary, _table(results, positive, best), note, figures)


def evaluation(
    title: str,
    result: Result,
    y: Labels,
    names: list[str],
    positive: Any,
    decided: Decided | None = None,
    reasons: Reasons | None = None,
) -> str:
    """Make the page about one model and rows that it has not learned.

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
    >>> from counterpoise.evaluate.race import race
    >>> from counterpoise.evaluate.report import evaluation
    >>> rng = np.random.default_rng(0)
    >>> y = (rng.random(300) < 0.2).astype(int)
    >>> X = rng.standard_normal((300, 2)) + 2.0 * y[:, None]
    >>> (result,) = race(X, y, rivals=[])
    >>> with open("model.html", "w") as file:  # doctest: +SKIP
    ...     file.write(evaluation("a model", result, y, ["amount", "age"], positive=1))
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
        figures += decided_figures(decided, positive)
    if reasons is not None and len(reasons):
        figures += explained.figures(reasons, positive)
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
            lambda: plots.g_mean_over_stream(results, y),
            "G-mean over the stream",
            f"The geometric mean of the recalls of all classes, over all rows so far. At the end "
            f"{best.name} {leads} {_number(best.metrics.confusion.g_mean())}.",
        ),
        figure(
            lambda: plots.g_mean_over_stream(results, y, window),
            "Recent G-mean",
            f"The same over the last {window:,} rows, so a drop shows immediately.{sank}",
        ),
        figure(
            lambda: plots.class_shares(y),
            "Class shares over the stream",
            f"{positive} makes up {100 * share:.3g} % of all rows, {100 * first:.3g} % of the "
            f"first tenth and {100 * last:.3g} % of the last.",
        ),
        figure(
            lambda: plots.precision_recall(results, y, positive, k),
            "Precision and recall",
            f"The share of alerts that are right against the share of {positive} that is found, "
            f"for every threshold. {'The largest area is' if len(results) > 1 else 'The area is'} "
            f"that of {by_precision.name}, "
            f"{_number(by_precision.metrics.of(positive)['average_precision'])}.",
        ),
        figure(
            lambda: plots.confusion_matrix(best),
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
        lambda: plots.largest_weights(weights, names, best.name),
        f"Largest weights of {best.name}",
        f"Evidence for {positive} (positive) and against it (negative) at the end of the "
        f"stream, for features of standard deviation 1. Largest: {names[top]}, "
        f"{weights[top]:+.3g}.",
    )


def _times(results: list[Result]) -> str:
    fast = min(results, key=lambda r: r.microseconds)
    ours = next(r for r in results if r.name == OURS)
    return figure(
        lambda: plots.time_per_row(results),
        "Time per row",
        f"To predict and to learn one row, on a logarithmic scale. Fastest is {fast.name} with "
        f"{fast.microseconds:.3g} µs; {OURS}, exact after every row, takes "
        f"{ours.microseconds:.3g} µs.",
    )


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"
