"""Plots of streams, methods and their comparison.

Needs the extra ``plots``: ``pip install 'counterpoise[plots]'``.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from counterpoise.arrays import Labels, Vector
from counterpoise.evaluate.cost_curve import CostCurve, Reliability
from counterpoise.evaluate.metrics import CUSTOM_METHOD, MAIN_METHOD, Ranking, Result
from counterpoise.evaluate.rank_tests import RankComparison
from counterpoise.explanation import CLASS_COLORS, bar_chart
from counterpoise.explanation import figure as figure  # the reports of ledgers use it, too
from counterpoise.explanation import short as short

try:
    import matplotlib
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator
except ImportError as error:
    raise ImportError(
        "plots require matplotlib: pip install 'counterpoise[plots]'", name="matplotlib"
    ) from error

DARK_TEXT_COLOR = "#dddddd"
DARK_BACKGROUND = "#16181c"
MUTED_COLOR = "#a0a0a0"


@contextmanager
def dark() -> Iterator[None]:
    """Draw for dark pages inside the context."""
    options: dict[Any, str] = {
        **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), MUTED_COLOR),
        **dict.fromkeys(("text.color", "axes.labelcolor"), DARK_TEXT_COLOR),
        **dict.fromkeys(("xtick.labelcolor", "ytick.labelcolor"), DARK_TEXT_COLOR),
        **dict.fromkeys(("figure.facecolor", "axes.facecolor"), DARK_BACKGROUND),
    }
    with matplotlib.rc_context(options):
        yield


def is_dark() -> bool:
    """Return whether figures are drawn for dark pages."""
    return bool(matplotlib.rcParams["text.color"] == DARK_TEXT_COLOR)


def ink() -> str:
    """Return the color of text and of strong lines."""
    return DARK_TEXT_COLOR if is_dark() else "black"


def quiet() -> str:
    """Return the color of less important lines."""
    return MUTED_COLOR if is_dark() else "#666666"


def shade(color: str) -> str:
    """Return a color for the current page: unchanged on light pages, lighter on dark ones."""
    if not is_dark():
        return color
    red, green, blue = (0.65 * part + 0.35 for part in to_rgb(color))
    return to_hex((red, green, blue))


def blues() -> Any:
    """Return the color map of shares, from the color of the page to blue."""
    if not is_dark():
        return "Blues"
    return LinearSegmentedColormap.from_list("blues", [DARK_BACKGROUND, "#1f6fb5"])


# A color for each method; curves that may overlap also differ in dashes.
STYLES: dict[str, dict[str, Any]] = {
    MAIN_METHOD: {"color": "#0072B2", "linewidth": 2.4},
    CUSTOM_METHOD: {"color": "#000000", "linewidth": 1.8, "linestyle": (0, (6, 1))},
    "NR-RLS": {"color": "#56B4E9", "linestyle": (0, (4, 1))},
    "IR-RLS": {"color": "#332288", "linestyle": (0, (1, 1))},
    "AR-RLS": {"color": "#882255"},
    "RLS": {"color": "#009E73", "linestyle": (0, (4, 1))},
    "ACOG": {"color": "#D55E00"},
    "AROW": {"color": "#8C564B"},
    "SCW": {"color": "#E69F00", "linestyle": (0, (4, 1))},
    "CW": {"color": "#999933", "linestyle": (0, (1, 1))},
    "PA": {"color": "#CC79A7"},
    "Perceptron": {"color": "#555555", "linestyle": (0, (4, 1))},
    "PE": {"color": "#555555", "linestyle": (0, (4, 1))},
    "TER": {"color": "#0072B2", "linestyle": (0, (1, 1))},
    "LS": {"color": "#009E73", "linestyle": (0, (1, 1))},
}
STYLES["NR-RLS, exact engine"] = STYLES["the model"] = STYLES[MAIN_METHOD]


def style(name: str) -> dict[str, Any]:
    """Return the style of the line of a method."""
    drawn = {"linewidth": 1.3, **STYLES.get(name, {"color": "#000000"})}
    return {**drawn, "color": shade(drawn["color"])}


def svg(made: Figure) -> str:
    """Return a figure as SVG, the same text for the same figure."""
    out = io.StringIO()
    canvas: Any = FigureCanvasSVG(made)
    with rc_context({"svg.hashsalt": "counterpoise"}):
        # savefig would draw twice, the first time for the layout of the texts.
        canvas.print_svg(out, metadata={"Date": None, "Creator": None})
    return out.getvalue()


def copy_layout(made: Figure, other: Figure) -> Figure:
    """Place the axes of a figure as in a drawn one that differs in colors only, to save time."""
    made.set_layout_engine("none")
    for mine, drawn in zip(made.axes, other.axes, strict=True):
        mine.set_position(drawn.get_position())
    return made


def thousands(axis: Any, most: int = 5) -> None:
    """Set few ticks, with thousands separators."""
    axis.set_major_locator(MaxNLocator(most))
    axis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def plain_numbers(axis: Any) -> None:
    """Set few ticks of a logarithmic axis, as plain numbers."""
    low, high = sorted(axis.get_view_interval())
    decades = np.log10(high / low) if low > 0 else 1.0
    subs: tuple[float, ...] = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    if decades > 1.2:
        subs = (1.0,) if decades > 2.5 else (1.0, 3.0)
    axis.set_major_locator(LogLocator(subs=subs, numticks=9))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: f"{value:,g}")


def usual_range(values: Any) -> tuple[float, float]:
    """Return the range of values without outliers, so that one of them does not flatten a plot.

    Outliers are more than five times the range between the quartiles away from these.
    """
    finite = np.asarray(values, dtype=np.float64)
    finite = finite[np.isfinite(finite)]
    if not len(finite):
        return 0.0, 1.0
    low, high = np.quantile(finite, [0.25, 0.75])
    kept = finite[(finite >= low - 5.0 * (high - low)) & (finite <= high + 5.0 * (high - low))]
    return float(kept.min()), float(kept.max())


def legend(axes: Any, entries: int, ncols: int = 3) -> None:
    """Put a legend below the axes, unless it has only one entry."""
    if entries > 1 or ncols == 1:
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.2), "frameon": False}
        axes.legend(fontsize=8, ncols=ncols, **below)


MAX_POINTS = 400  # of a curve
EVALUATED_MODEL = "the model"


class CostComparison(NamedTuple):
    """Costs of thresholds and of decisions."""

    name: str  # the costs of mistakes as text
    curve: CostCurve  # cost of each threshold
    decided: float  # cost of the decisions
    at: float | None = None  # threshold of the decisions, if all rows have the same costs


def plot_cost_of_thresholds(found: Sequence[CostComparison]) -> Figure:
    """Plot the cost of each threshold, as a share of the cost of never alerting."""
    made, axes = figure(4.2)
    axes.set_xscale("log")
    ends = list[float]()
    for (name, curve, decided, at), color in zip(found, CLASS_COLORS, strict=False):
        never = max(curve.never, 1e-300)
        best = int(curve.cost.argmin())
        some = np.unique(np.linspace(1, len(curve.cost) - 1, MAX_POINTS).astype(int))
        some = np.union1d(some, [max(best, 1)])
        some = some[curve.thresholds[some] > 0.0]
        x, y = curve.thresholds[some], curve.cost[some] / never
        drawn = {"color": shade(color)}
        axes.plot(x, y, linewidth=1.8, label=name, **drawn)
        ends += [float(x[y <= 1.5].min(initial=1.0)), float(x.max())]
        if best:
            where = curve.thresholds[best], curve.least / never
            axes.plot(*where, "o", markersize=9, fillstyle="none", **drawn)
        if at is not None:
            axes.plot(at, decided / never, "D", markersize=5, **drawn)
        else:
            axes.axhline(decided / never, linestyle=(0, (4, 1)), linewidth=1.2, **drawn)
    axes.axhline(1.0, color=quiet(), linewidth=0.8)
    axes.annotate(
        "never alert", (0.01, 1.0), xycoords=("axes fraction", "data"), fontsize=8, va="bottom",
        color=quiet(),
    )  # fmt: skip
    axes.set_xlim(max(min(ends) / 1.5, 1e-6), min(max(ends) * 1.2, 1.2))
    axes.set_ylim(0.0, 1.5)
    axes.set(xlabel="threshold on the probability", ylabel="cost relative to never alerting")
    plain_numbers(axes.xaxis)
    legend(axes, len(found), ncols=1)
    return made


def plot_reliability(found: Reliability, positive: object) -> Figure:
    """Plot predicted probabilities and observed shares."""
    made, axes = figure(4.2)
    some = found.share > 0.0
    least = [float(v[v > 0.0].min(initial=0.5)) for v in (found.predicted, found.share)]
    low = max(min(least) / 2.0, 1e-7)
    axes.plot([low, 1.0], [low, 1.0], color=quiet(), linewidth=0.8)
    # Two standard errors of a share.
    error = 2.0 * np.sqrt(found.share * (1.0 - found.share) / found.rows)
    down = np.minimum(error, np.maximum(found.share - low, 0.0))
    drawn = {"color": style(EVALUATED_MODEL)["color"], "markersize": 5}
    axes.errorbar(
        np.maximum(found.predicted[some], low), found.share[some], yerr=[down[some], error[some]],
        fmt="o", elinewidth=1.0, **drawn,
    )  # fmt: skip
    if (~some).any():  # no row of the class: at the bottom
        x = np.maximum(found.predicted[~some], low)
        axes.plot(x, np.full(len(x), low), "v", clip_on=False, **drawn)
    axes.set(
        xscale="log", yscale="log", xlim=(low, 1.1), ylim=(low, 1.1),
        xlabel=f"predicted probability of {short(positive)}", ylabel="observed share",
    )  # fmt: skip
    plain_numbers(axes.xaxis)
    plain_numbers(axes.yaxis)
    return made


MIN_HITS = 5  # rows of the class for which a precision sets the scale
POINTS = 200


def plot_g_mean(results: list[Result], y: Labels, window: int | None = None) -> Figure:
    """Plot the G-mean of each method over all counted rows so far, or over the last ones."""
    made, axes = figure(3.8)
    for result in results:
        rows = slice(result.first, None)
        at, value = running_g_mean(y[rows], result.predicted[rows], window)
        axes.plot(at + result.first, value, label=result.name, **style(result.name))
    label = "G-mean so far" if window is None else f"G-mean of the last {window:,} rows"
    axes.set(xlabel="rows seen", ylabel=label, ylim=(0, 1.02), xlim=(0, len(y)))
    thousands(axes.xaxis)
    legend(axes, len(results))
    return made


def window_of(y: Labels) -> int:
    """Return the rows of the window of the recent G-mean.

    They are enough to expect 25 of the rarest class, from a fiftieth to a quarter of all.
    """
    rarest = np.unique(y, return_counts=True)[1].min()
    rows = int(np.ceil(25 * len(y) / rarest))
    return max(min(max(rows, len(y) // 50), len(y) // 4), 1)


def running_g_mean(
    y: Labels, predicted: Labels, window: int | None = None
) -> tuple[Vector, Vector]:
    """Return numbers of rows, and the G-mean of the rows up to each, or of the last ``window``.

    It is NaN where these rows are of fewer than two classes. The curve begins after one window.
    """
    start = 1 if window is None else min(window, len(y))
    at = np.unique(np.linspace(start, len(y), min(POINTS, len(y))).astype(int))
    before = np.zeros_like(at) if window is None else at - start
    log, seen = np.zeros(len(at)), np.zeros(len(at))
    for label in np.unique(y):
        mine, right = (
            np.concatenate([[0], np.cumsum(hit)])
            for hit in (y == label, (y == label) & (predicted == label))
        )
        mine, right = mine[at] - mine[before], right[at] - right[before]
        with np.errstate(divide="ignore", invalid="ignore"):
            log += np.where(mine > 0, np.log(right / mine), 0.0)
        seen += mine > 0
    value = np.exp(log / np.maximum(seen, 1))
    return at, np.where(seen > 1, value, np.nan)


def plot_class_shares(y: Labels) -> Figure:
    """Plot the share of each class in consecutive parts of the stream."""
    made, axes = figure(2.9)
    labels, counts = np.unique(y, return_counts=True)
    order = np.argsort(-counts)
    edges = np.unique(np.linspace(0, len(y), min(41, len(y) + 1)).astype(int))
    rare = labels[order[1:8]]
    width = np.diff(edges)
    bottom = np.zeros(len(edges) - 1)
    for k, label in enumerate(rare[::-1]):
        share = np.add.reduceat((y == label).astype(float), edges[:-1]) / width
        color = shade(CLASS_COLORS[len(rare) - 1 - k])
        axes.bar(edges[:-1], share, width, bottom, align="edge", color=color, label=short(label))
        bottom += share
    axes.set(xlabel="rows seen", ylabel="share of rows", xlim=(0, len(y)))
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:g} %")
    thousands(axes.xaxis)
    if len(rare):
        title = f"not {short(labels[order[0]])}"
        axes.legend(fontsize=8, frameon=False, title=title, title_fontsize=8)
    return made


def plot_precision_recall(results: list[Result], y: Labels, positive: Any, k: int) -> Figure:
    """Plot precision against recall of one class, for each method."""
    made, axes = figure(3.8)
    top = 0.0
    for result in results:
        rows = slice(result.first, None)
        f, mine = result.scores[rows], y[rows] == positive
        score = f[:, k] if f.ndim == 2 else f if k else -f
        precision, recall = Ranking.of(mine, score).curve()
        steps = np.flatnonzero(np.diff(recall, append=-1.0))  # where one more is found
        some = steps[np.unique(np.linspace(0, len(steps) - 1, 2 * POINTS).astype(int))]
        axes.plot(recall[some], precision[some], label=result.name, **style(result.name))
        sure = recall[steps] * mine.sum() >= MIN_HITS  # not by a few lucky rows
        top = max(top, precision[steps][sure].max(initial=0.0))
    share = float((y == positive).mean())
    axes.axhline(share, color=quiet(), linewidth=0.8)
    axes.annotate("by chance", (1.0, share), fontsize=8, ha="right", va="bottom", color=quiet())
    high = min(1.02, 1.15 * max(top, 2.0 * share))
    axes.set(
        xlabel=f"recall of {short(positive)}", ylabel=f"precision of {short(positive)}",
        xlim=(0, 1), ylim=(0, high),
    )  # fmt: skip
    legend(axes, len(results))
    return made


def plot_confusion_matrix(result: Result) -> Figure:
    """Plot predicted against true labels, as shares of each true class."""
    counts = result.metrics.confusion.counts
    labels = result.metrics.confusion.labels[:12]
    n = np.array([[counts.get((true, predicted), 0) for predicted in labels] for true in labels])
    share = n / np.maximum(n.sum(axis=1, keepdims=True), 1)
    made, axes = figure(1.6 + 0.55 * len(labels))
    axes.imshow(share, cmap=blues(), vmin=0, vmax=1, aspect="auto")
    for i in range(len(labels)):
        for j in range(len(labels)):
            color = "white" if share[i, j] > 0.5 else ink()
            text = f"{n[i, j]:,}\n{100 * share[i, j]:.1f} %" if len(labels) < 6 else f"{n[i, j]:,}"
            axes.text(j, i, text, ha="center", va="center", color=color, fontsize=10)
    axes.set_xticks(range(len(labels)), [short(label) for label in labels])
    axes.set_yticks(range(len(labels)), [short(label) for label in labels])
    axes.set(xlabel="predicted", ylabel="true")
    axes.spines[:].set_visible(False)
    return made


def plot_largest_weights(weights: Vector, names: list[str], name: str) -> Figure:
    """Plot the features with the largest weights."""
    order = np.argsort(-np.abs(weights))[:12]
    made, axes = bar_chart([short(names[j]) for j in order])
    axes.barh(range(len(order)), weights[order], color=style(name)["color"])
    axes.axvline(0.0, color=ink(), linewidth=0.8)
    axes.set_xlabel("weight for one standard deviation")
    return made


def plot_time_per_row(results: list[Result]) -> Figure:
    """Plot the microseconds per row of each method."""
    order = sorted(results, key=lambda result: result.microseconds)
    made, axes = bar_chart([result.name for result in order])
    values = [result.microseconds for result in order]
    axes.barh(range(len(order)), values, color=[style(r.name)["color"] for r in order])
    for i, value in enumerate(values):
        axes.annotate(f" {value:.3g}", (value, i), fontsize=8, va="center")
    axes.set(xscale="log", xlabel="microseconds per row, to predict and to learn")
    axes.set_xlim(min(values) / 2, max(values) * 2.5)
    return made


def plot_ranks(found: RankComparison, title: str = "") -> Figure:
    """Plot average ranks on a scale, and connect methods that do not differ significantly.

    A ruler above the scale is as long as the critical difference.

    Parameters
    ----------
    found : RankComparison
        The result of ``compare_ranks``.
    title : str, default=""
        Title of the plot.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise.evaluate import compare_ranks, plot_ranks
    >>> values = np.random.default_rng(0).random((20, 3)) + [0.0, 0.1, 0.5]
    >>> len(plot_ranks(compare_ranks(values, ["a", "b", "c"])).axes)
    1
    """
    average = found.average
    names, k = list(average), len(average)
    left = names[: (k + 1) // 2]  # the better half; the other half stands on the right
    bars = found.groups
    step, bar = 1.0, 0.45  # heights of a line of text and of a bar
    depth = bar * (len(bars) + 1)
    height = depth + step * len(left)
    made = Figure(figsize=(6.4, 1.3 + 0.26 * height), layout="constrained")
    axes = made.add_subplot()
    axes.set_axis_off()
    axes.set(xlim=(0.0, k + 1.0), ylim=(height + 0.4, -2.6))
    axes.plot([1, k], [0, 0], color="black", linewidth=1.2)
    for rank in range(1, k + 1):
        axes.plot([rank, rank], [-0.22, 0], color="black", linewidth=1.2)
        axes.text(rank, -0.35, str(rank), ha="center", va="bottom", fontsize=9)
    axes.plot([1, 1 + found.difference], [-1.7, -1.7], color="#D55E00", linewidth=2, label="ruler")
    for end in (1, 1 + found.difference):
        axes.plot([end, end], [-1.9, -1.5], color="#D55E00", linewidth=2)
    axes.text(
        1.12 + found.difference, -1.7, f"critical difference {found.difference:.3f}",
        va="center", fontsize=9, color="#D55E00",
    )  # fmt: skip
    for i, group in enumerate(bars):
        ends = [average[group[0]] - 0.04, average[group[-1]] + 0.04]
        axes.plot(ends, [bar * (i + 1)] * 2, color="#444444", linewidth=3, solid_capstyle="butt")
    for i, name in enumerate(names):
        first = name in left
        y = depth + step * (i + 0.5 if first else k - i - 0.5)
        side, align = (0.72, "right") if first else (k + 0.28, "left")
        colour = style(name)["color"]
        axes.plot([average[name]] * 2 + [side], [0, y, y], color=colour, linewidth=1.1)
        text = f"{name}  {average[name]:.2f}" if first else f"{average[name]:.2f}  {name}"
        axes.text(side + (-0.06 if first else 0.06), y, text, ha=align, va="center", fontsize=9)
    words = "average ranks, 1 is best"
    axes.set_title(f"{title}\n{words}" if title else words, fontsize=10)
    return made
