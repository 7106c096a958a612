"""Report of a ledger: one self-contained page with four plots, light or dark."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np

from counterpoise.evaluate import plots
from counterpoise.evaluate.html_report import PAGE, figure, text
from counterpoise.ledger import time_buckets
from counterpoise.ledger.backtest import Backtest
from counterpoise.ledger.drift import Drift
from counterpoise.ledger.jackknife import Weights

MAX_ROWS = 30  # of the heat map and of the backtest
LINES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
ALARM = "#D55E00"
LEFT = ' style="text-align: left"'  # of a cell that contains text


def page(title: str, drift: Drift, backtest: Backtest, weights: Weights) -> str:
    """Make the page."""
    alarms = np.flatnonzero(drift.alarms)
    first, last = (time_buckets.text(drift.start[i]) for i in (0, -1))
    expected = drift.level * len(drift.start)
    summary = (
        f"{len(drift.start):,} buckets from {first} to {last}; {len(alarms)} with alarms, where "
        f"{expected:.3g} would be expected without a change."
    )
    changed = "has changed" if len(alarms) > 2.0 * expected + 1.0 else "shows no clear change"
    conclusion = (
        f"Conclusion: the stream {changed}, and the setting with the lowest loss in the backtest "
        f"is '{backtest.best.name}'."
    )
    note = (
        "Losses are exact. G-means are estimates by the mean and the variance of the scores of "
        "each class. No row was read for this page."
    )
    figures = [
        figure(
            lambda: loss_by_bucket(drift),
            "Loss and G-mean by bucket",
            "Balanced squared loss of the model of earlier buckets, with its upper limit, and "
            "the estimated G-mean. Dots are alarms of the loss. Triangles are losses above the "
            "axis, which the table lists.",
        ),
        figure(
            lambda: heat_map(drift),
            "Shift of the features",
            "Mean of each feature and class minus the mean of all earlier rows, in standard "
            f"deviations. {_worst(drift)}",
        ),
        figure(
            lambda: weights_over_time(weights),
            "Weights over time",
            "Weights of the models of consecutive intervals, for features of standard deviation 1, "
            "with two standard errors.",
        ),
        figure(
            lambda: grid(backtest),
            "Backtest",
            f"Balanced loss of each setting over {len(backtest.start):,} tests; smaller is better. "
            f"Best: {backtest.best.name}.",
        ),
    ]
    return PAGE.format(
        title=text(title),
        summary=text(summary),
        conclusion=text(conclusion),
        table=_table(drift, alarms),
        note=text(note),
        figures="\n".join(figures),
    )


def loss_by_bucket(drift: Drift) -> Any:
    """Draw loss, its limit and the estimated G-mean of every bucket."""
    made, axes = plots.figure(3.8)
    at = _dates(drift.start)
    axes.plot(at, drift.limit, color=plots.quiet(), linewidth=0.8, label="limit")
    axes.plot(at, drift.loss, color=plots.shade(LINES[0]), linewidth=1.3, label="loss")
    axes.plot(at, drift.g_mean, color=plots.shade(LINES[2]), linewidth=1.0, label="G-mean (est.)")
    bad = drift.loss_alarm
    if bad.any():
        axes.plot(np.array(at)[bad], drift.loss[bad], "o", color=plots.shade(ALARM), markersize=4)
    high = max(1.02, 1.1 * plots.usual_range(drift.loss)[1])
    above = np.nan_to_num(drift.loss) > high
    axes.plot(
        np.array(at)[above], np.full(int(above.sum()), high), "^", color=plots.shade(ALARM),
        markersize=6, clip_on=False,
    )  # fmt: skip
    axes.set(ylim=(0.0, high), ylabel="loss, G-mean")
    _by_date(axes)
    plots.legend(axes, 3)
    return made


def heat_map(drift: Drift) -> Any:
    """Draw the shift of the features that moved most, by bucket."""
    g, c, d = drift.shift.shape
    size = np.nan_to_num(np.abs(drift.z)).max(axis=0).ravel()
    order = np.sort(np.argsort(-size, kind="stable")[:MAX_ROWS])
    shown = np.clip(drift.shift.reshape(g, c * d)[:, order].T, -1.0, 1.0)
    made, axes = plots.figure(1.2 + 0.2 * len(order))
    edges = (*_ends(drift.start), len(order) - 0.5, -0.5)
    image = axes.imshow(
        np.nan_to_num(shown), aspect="auto", cmap="coolwarm" if not plots.is_dark() else "berlin",
        vmin=-1.0, vmax=1.0, extent=edges, interpolation="nearest",
    )  # fmt: skip
    names = [f"{drift.labels[i // d]}: {drift.names[i % d]}" for i in order.tolist()]
    axes.set_yticks(range(len(order)), [plots.short(name) for name in names], fontsize=8)
    _by_date(axes)
    made.colorbar(image, ax=axes, shrink=0.8).ax.tick_params(labelsize=8)
    return made


def weights_over_time(weights: Weights) -> Any:
    """Draw the largest weights of every interval, with two standard errors."""
    made, axes = plots.figure(3.8)
    size = np.nan_to_num(np.abs(weights.weight)).max(axis=0)
    at = _dates(weights.start)
    top = np.argsort(-size, kind="stable")[: len(LINES)].tolist()
    for colour, j in zip(LINES, top, strict=False):
        w, e = weights.weight[:, j], 2.0 * weights.error[:, j]
        axes.plot(at, w, color=plots.shade(colour), label=plots.short(weights.names[j], 18))
        axes.fill_between(at, w - e, w + e, color=plots.shade(colour), alpha=0.15, linewidth=0)
    axes.axhline(0.0, color=plots.quiet(), linewidth=0.6)
    low, high = plots.usual_range(weights.weight[:, top])
    room = 0.15 * max(high - low, 1e-9)
    axes.set(ylabel="weight", ylim=(low - room, high + room))
    _by_date(axes)
    plots.legend(axes, len(top))
    return made


def grid(backtest: Backtest) -> Any:
    """Draw the loss of every setting as points, because the axis need not begin at 0."""
    order = np.argsort(backtest.total[:, 0], kind="stable")[:MAX_ROWS]
    made, axes = plots.figure(1.0 + 0.22 * len(order))
    loss = backtest.total[order, 0]
    colours = [plots.shade(LINES[0])] + [plots.quiet()] * (len(order) - 1)
    axes.scatter(loss, range(len(order)), color=colours, s=30, zorder=3)
    axes.grid(visible=True, axis="y", color=plots.quiet(), alpha=0.25, linewidth=0.6)
    for i, one in enumerate(loss.tolist()):
        axes.annotate(
            f"{one:.4f}", (one, i), (7, 0), textcoords="offset points", va="center", fontsize=8,
            color=plots.ink(),
        )  # fmt: skip
    names = [backtest.settings[i].name for i in order.tolist()]
    axes.set_yticks(range(len(order)), [plots.short(name, 34) for name in names], fontsize=8)
    axes.set_ylim(len(order) - 0.5, -0.5)
    axes.margins(x=0.15)
    axes.set(xlabel="balanced loss")
    return made


def _table(drift: Drift, alarms: Any) -> str:
    head = "".join(f"<th>{name}</th>" for name in ("bucket", "loss", "control limit"))
    head += f"<th{LEFT}>largest shifts</th>"
    rows = []
    for g in alarms.tolist()[-20:]:
        shifts = [f"{label}: {name} ({z:+.1f})" for label, name, z in drift.largest_shifts(g)]
        when = time_buckets.text(drift.start[g]).replace("-", "\u2011")  # without line breaks
        cells = (when, f"{drift.loss[g]:.4f}", f"{drift.limit[g]:.4f}")
        numbers = "".join(f"<td>{text(cell)}</td>" for cell in cells)
        rows.append(f"{numbers}<td{LEFT}>{text(', '.join(shifts) or 'the loss')}</td>")
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""


def _worst(drift: Drift) -> str:
    if not drift.alarm.any():
        return "None has exceeded its limit."
    z = np.where(drift.alarm, np.abs(drift.z), 0.0)
    g, k, j = np.unravel_index(int(z.argmax()), z.shape)
    return (
        f"The largest alarm is {drift.names[j]} of class {drift.labels[k]} at "
        f"{time_buckets.text(drift.start[g])}."
    )


def _dates(start: Any) -> list[datetime]:
    return [datetime.fromtimestamp(float(at), UTC).replace(tzinfo=None) for at in start]


def _ends(start: Any) -> tuple[float, float]:
    """First and last day since 1970, as matplotlib counts them, at the edges of the buckets."""
    first, last = start[0] / time_buckets.DAY, start[-1] / time_buckets.DAY
    return float(first), float(last + (last - first) / max(len(start) - 1, 1))


def _by_date(axes: Any) -> None:
    import matplotlib.dates

    dates: Any = matplotlib.dates
    locator = dates.AutoDateLocator(minticks=3, maxticks=7)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
