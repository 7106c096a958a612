"""How plots are drawn: one colour for a method everywhere, told apart by the colour-blind too.

Needs the extra ``plots``: ``pip install 'counterpoise[plots]'``.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np

try:
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator
except ImportError as error:
    raise ImportError(
        "plots need matplotlib: pip install 'counterpoise[plots]'", name="matplotlib"
    ) from error

from counterpoise.evaluate import theme
from counterpoise.evaluate.race import OURS, OWN
from counterpoise.printable import printable

__all__ = [
    "STYLES",
    "Figure",
    "figure",
    "laid_out_as",
    "legend",
    "plain_numbers",
    "short",
    "style",
    "svg",
    "thousands",
    "usual_range",
]

# A colour for each method; those that may lie on one another differ in dashes too.
STYLES: dict[str, dict[str, Any]] = {
    OURS: {"color": "#0072B2", "linewidth": 2.4},
    OWN: {"color": "#000000", "linewidth": 1.8, "linestyle": (0, (6, 1))},
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
STYLES["NR-RLS, exact engine"] = STYLES["the model"] = STYLES[OURS]


def style(name: str) -> dict[str, Any]:
    """How a method is drawn.

    Parameters
    ----------
    name : str
        The method.

    Returns
    -------
    dict
        Arguments of matplotlib's ``plot``.
    """
    drawn = {"linewidth": 1.3, **STYLES.get(name, {"color": "#000000"})}
    return {**drawn, "color": theme.shade(drawn["color"])}


def figure(height: float = 3.4) -> tuple[Figure, Any]:
    """Make an empty figure that is readable in a narrow column.

    Parameters
    ----------
    height : float
        In inches; the width is always the same.

    Returns
    -------
    Figure, Axes
    """
    made = Figure(figsize=(5.2, height), layout="constrained")
    axes = made.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=10)
    return made, axes


def svg(made: Figure) -> str:
    """Draw a figure as SVG, the same text for the same figure.

    Parameters
    ----------
    made : Figure
        The figure.

    Returns
    -------
    str
    """
    out = io.StringIO()
    canvas: Any = FigureCanvasSVG(made)
    with rc_context({"svg.hashsalt": "counterpoise"}):
        # As savefig does it, which would draw once before, to find room for all words.
        canvas.print_svg(out, metadata={"Date": None, "Creator": None})
    return out.getvalue()


def laid_out_as(made: Figure, other: Figure) -> Figure:
    """Place the axes of a figure as those of one that was drawn, and differs in colours only.

    Finding room for all words takes longer than drawing them.
    """
    made.set_layout_engine("none")
    for mine, drawn in zip(made.axes, other.axes, strict=True):
        mine.set_position(drawn.get_position())
    return made


def thousands(axis: Any, most: int = 5) -> None:
    """Few ticks, in thousands with separators.

    Parameters
    ----------
    axis : Axis
        Of numbers of rows.
    most : int, default=5
        How many intervals at most.
    """
    axis.set_major_locator(MaxNLocator(most))
    axis.set_major_formatter(lambda value, _: f"{value:,.0f}")


def plain_numbers(axis: Any) -> None:
    """Ticks of a logarithmic axis as plain numbers, few of them.

    Parameters
    ----------
    axis : Axis
        A logarithmic one.
    """
    low, high = sorted(axis.get_view_interval())
    decades = np.log10(high / low) if low > 0 else 1.0
    subs = (
        (1.0,) if decades > 2.5 else (1.0, 3.0) if decades > 1.2 else (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    )
    axis.set_major_locator(LogLocator(subs=subs, numticks=9))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: f"{value:,g}")


def usual_range(values: Any) -> tuple[float, float]:
    """Return the range of values without outliers, so that one of them does not flatten a plot.

    Outliers are more than five times the range between the quartiles away from these.
    """
    known = np.asarray(values, dtype=np.float64)
    known = known[np.isfinite(known)]
    if not len(known):
        return 0.0, 1.0
    low, high = np.quantile(known, [0.25, 0.75])
    kept = known[(known >= low - 5.0 * (high - low)) & (known <= high + 5.0 * (high - low))]
    return float(kept.min()), float(kept.max())


def legend(axes: Any, entries: int) -> None:
    """Put a legend below the axes, unless there is only one thing to tell."""
    if entries > 1:
        below = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.2), "frameon": False}
        axes.legend(fontsize=8, ncols=3, **below)


def short(name: Any, most: int = 28) -> str:
    """Return a name that fits, can be drawn, and whose dollar signs are no formulas."""
    text = printable(name)
    text = text if len(text) <= most else text[: most - 1] + "…"
    return text.replace("$", r"\$")
