"""Plots of reasons: a waterfall of one row, and an overview of many.

Needs the extra ``plots``: ``pip install 'counterpoise[plots]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from counterpoise.printable import printable

if TYPE_CHECKING:
    from counterpoise.reasons.result import Reasons

FOR, AGAINST = "#0072B2", "#D55E00"  # told apart by the colour-blind too, on light and dark pages
SHADES = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442", "#999999"]


def waterfall(reasons: Reasons, row: int = 0, label: Any = None, most: int = 10) -> Any:
    """Draw one row: from the score at the centre, column by column, to the score of the row.

    Parameters
    ----------
    reasons : Reasons
        Of some rows.
    row : int, default=0
        Which of them.
    label : label, optional
        The class; by default that whose score decides.
    most : int, default=10
        Columns to show; the others are drawn as one.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from counterpoise import BalancedRidgeClassifier
    >>> from counterpoise.reasons.drawing import waterfall
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [9.0, 0.0]], [0, 0, 0, 1]
    >>> reasons = BalancedRidgeClassifier().fit(X, y).explain(X)
    >>> figure = waterfall(reasons, row=3)
    >>> figure.axes[0].get_xlabel()
    'score of 1: 0.141 at the centre, 0.707 here'
    """
    one = reasons[[row]]
    if label is None:
        several = one.values.ndim == 3
        label = one.classes[one.score[0].argmax() if several else -1]
    one = one.of(label)
    values, base = one.values[0], float(one.base)
    order = np.argsort(-np.abs(values), kind="stable")
    shown = order[:most]
    names = [_cell(one, j) for j in shown.tolist()]
    steps = values[shown]
    if len(order) > most:
        names.append(f"{len(order) - most:,} other columns")
        steps = np.append(steps, values[order[most:]].sum())
    ends = base + np.cumsum(steps)
    starts = np.concatenate([[base], ends[:-1]])
    made, axes = _figure(1.3 + 0.27 * len(steps))
    at = np.arange(len(steps))
    axes.barh(at, steps, left=starts, color=np.where(steps >= 0, FOR, AGAINST), height=0.7)
    axes.vlines(ends[:-1], at[:-1], at[1:], color=_ink(), linewidth=0.6)
    span = max(np.ptp([base, *ends]), 1e-300)
    for i, step in enumerate(steps.tolist()):
        right = max(starts[i], ends[i])
        axes.annotate(f" {step:+.3g}", (right, i), fontsize=8, va="center", annotation_clip=False)
    axes.set_xlim(min([base, *ends]) - 0.04 * span, max([base, *ends]) + 0.16 * span)
    axes.axvline(base, color=_ink(), linewidth=0.6, linestyle=(0, (4, 2)))
    axes.set_yticks(at, names)
    axes.invert_yaxis()
    axes.set_xlabel(
        f"score of {_short(label)}: {base:.3g} at the centre, {base + values.sum():.3g} here"
    )
    return made


def overview(reasons: Reasons, most: int = 12) -> Any:
    """Draw the mean size of the contributions of each column; of several classes side by side.

    Parameters
    ----------
    reasons : Reasons
        Of some rows.
    most : int, default=12
        Columns to show, those of the largest contributions.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from counterpoise import BalancedRidgeClassifier
    >>> from counterpoise.reasons.drawing import overview
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [9.0, 0.0]], [0, 0, 0, 1]
    >>> reasons = BalancedRidgeClassifier().fit(X, y).explain(X)
    >>> figure = overview(reasons)
    >>> figure.axes[0].get_xlabel()
    'mean size of the contribution'
    """
    size = np.atleast_2d(reasons.mean_abs()) if len(reasons) else np.zeros((1, len(reasons.names)))
    order = np.argsort(-size.sum(axis=0), kind="stable")[:most]
    made, axes = _figure(1.0 + 0.27 * len(order))
    at, left = np.arange(len(order)), np.zeros(len(order))
    for k, row in enumerate(size):
        name = _short(reasons.classes[k]) if len(size) > 1 else None
        axes.barh(at, row[order], left=left, color=SHADES[k % len(SHADES)], label=name)
        left += row[order]
    axes.set_yticks(at, [_short(reasons.names[j]) for j in order.tolist()])
    axes.invert_yaxis()
    axes.set_xlabel("mean size of the contribution" + (", by class" if len(size) > 1 else ""))
    if 1 < len(size) <= 2 * len(SHADES):
        axes.legend(fontsize=8, frameon=False)
    return made


def _figure(height: float) -> tuple[Any, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "plots need matplotlib: pip install 'counterpoise[plots]'", name="matplotlib"
        ) from error
    made = Figure(figsize=(5.2, height), layout="constrained")
    axes = made.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=10)
    return made, axes


def _ink() -> str:
    import matplotlib

    return str(matplotlib.rcParams["text.color"])


def _cell(reasons: Reasons, j: int) -> str:
    """A column with its value, where that is known."""
    if reasons.data is None:
        return _short(reasons.names[j])
    value = reasons.data[0, j]
    text = f"{value:.4g}" if isinstance(value, float | int | np.number) else str(value)
    return f"{_short(reasons.names[j], 20)} = {_short(text, 14)}"


def _short(name: Any, most: int = 28) -> str:
    text = printable(name)
    text = text if len(text) <= most else text[: most - 1] + "…"
    return text.replace("$", r"\$")
