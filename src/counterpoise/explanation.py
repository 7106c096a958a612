"""Reasons: what each column contributes to the scores of rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Matrix
from counterpoise.errors import printable

FOR, AGAINST = "#0072B2", "#D55E00"  # told apart by the colour-blind too, on light and dark pages
SHADES = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442", "#999999"]


def waterfall(reasons: Explanation, row: int = 0, label: Any = None, most: int = 10) -> Any:
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
    >>> from counterpoise.explanation import waterfall
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


def overview(reasons: Explanation, most: int = 12) -> Any:
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
    >>> from counterpoise.explanation import overview
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


def _cell(reasons: Explanation, j: int) -> str:
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


SHOWN = 10  # columns in the repr of one row, and in its plot


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Contributions of each column to the scores of rows.

    On every row they add up to its score minus ``base``, the score at the balanced centre:
    ``base + values.sum(axis=-1)`` is the ``decision_function``. A slice or an index takes some of
    the rows.

    Attributes
    ----------
    values : ndarray of shape (n, d) or (n, c, d)
        Contributions. For two classes those to the score of the second of ``classes``: what is
        positive speaks for it. For several classes those to the score of each class.
    base : ndarray of shape () or (c,)
        Score at the balanced centre.
    names : list of str
        Names of the columns.
    classes : ndarray of shape (c,)
        Labels.
    data : ndarray of shape (n, d), optional
        The rows that are explained, as plots show them.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise import BalancedRidgeClassifier
    >>> X, y = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [9.0, 0.0]]), [0, 0, 0, 1]
    >>> model = BalancedRidgeClassifier().fit(X, y)
    >>> reasons = model.explain(X)
    >>> bool(np.allclose(reasons.score, model.decision_function(X)))
    True
    >>> reasons.top(1)[0].ravel().tolist()
    ['x0', 'x0', 'x0', 'x0']
    """

    values: NDArray[np.float64]
    base: NDArray[np.float64]
    names: list[str]
    classes: Labels
    data: NDArray[Any] | None = None

    @property
    def score(self) -> NDArray[np.float64]:
        """Scores of the rows, of shape (n,) or (n, c)."""
        score: NDArray[np.float64] = self.base + self.values.sum(axis=-1)
        return score

    @property
    def decisive(self) -> Matrix:
        """Contributions of shape (n, d) to the score that decides.

        For two classes that is the only one; for several that of the class whose score is highest.
        """
        if self.values.ndim == 2:
            return self.values
        best = self.score.argmax(axis=1)
        decisive: Matrix = self.values[np.arange(len(best)), best]
        return decisive

    def of(self, label: Any) -> Explanation:
        """Reasons for one class: what is positive speaks for it.

        Parameters
        ----------
        label : label
            The class.

        Returns
        -------
        Reasons
            With values of shape (n, d).
        """
        known = self.classes.tolist()
        if label not in known:
            raise ValueError(
                f"{label!r} is none of the classes, which are {', '.join(map(repr, known))}"
            )
        k = known.index(label)
        if self.values.ndim == 3:
            return replace(self, values=self.values[:, k], base=self.base[k])
        sign = 1.0 if k == len(self.classes) - 1 else -1.0
        return replace(self, values=sign * self.values, base=sign * self.base)

    def top(self, k: int = 3) -> tuple[Labels, Matrix]:
        """Return the columns that contribute most to the score that decides, of each row.

        Parameters
        ----------
        k : int, default=3
            How many.

        Returns
        -------
        names : ndarray of shape (n, k)
            Their names, the largest contribution first, whatever its sign.
        values : ndarray of shape (n, k)
            Their contributions.
        """
        values = self.decisive
        order = np.argsort(-np.abs(values), axis=1, kind="stable")[:, :k]
        names = np.array(self.names, dtype=object)
        return names[order], np.take_along_axis(values, order, axis=1)

    def grouped(self, columns: Sequence[str], data: NDArray[Any] | None = None) -> Explanation:
        """Add up the contributions of features that come from the same column.

        Parameters
        ----------
        columns : sequence of str
            For each feature the column that it comes from, such as that of its category.
        data : ndarray of shape (n, columns), optional
            The cells of these columns, as plots show them.

        Returns
        -------
        Reasons
            Columns in the order in which they first appear; they add up to the same scores.
        """
        if len(columns) != len(self.names):
            raise ValueError(f"{len(columns)} columns were given for {len(self.names)} features")
        names = list(dict.fromkeys(columns))
        at = {name: j for j, name in enumerate(names)}
        values = np.zeros((*self.values.shape[:-1], len(names)))
        for j, column in enumerate(columns):
            values[..., at[column]] += self.values[..., j]
        return replace(self, values=values, names=names, data=data)

    def mean_abs(self) -> NDArray[np.float64]:
        """Mean size of the contributions of each column, of shape (d,) or (c, d)."""
        mean: NDArray[np.float64] = np.abs(self.values).mean(axis=0)
        return mean

    def plot(self, row: int = 0, label: Any = None, most: int = SHOWN) -> Any:
        """Draw one row as a waterfall, from the score at the centre to its own.

        Parameters
        ----------
        row : int, default=0
            Which of the rows.
        label : label, optional
            The class; by default that whose score decides.
        most : int, default=10
            Columns to show; the others are drawn as one.

        Returns
        -------
        matplotlib.figure.Figure
        """
        return waterfall(self, row, label, most)

    def plot_overview(self, most: int = 12) -> Any:
        """Draw the mean size of the contributions of the columns that have the largest.

        Parameters
        ----------
        most : int, default=12
            Columns to show.

        Returns
        -------
        matplotlib.figure.Figure
        """
        return overview(self, most)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> Explanation:
        at = np.atleast_1d(np.arange(len(self))[rows])
        data = None if self.data is None else self.data[at]
        return replace(self, values=self.values[at], data=data)

    def __repr__(self) -> str:
        if len(self) == 1:
            return self._told()
        sizes = self.mean_abs() if len(self) else np.zeros(len(self.names))
        size = sizes if sizes.ndim == 1 else sizes.mean(axis=0)
        order = np.argsort(-size, kind="stable")[:3]
        most = ", ".join(f"{printable(self.names[j])} {size[j]:.3g}" for j in order.tolist())
        classes = f", {len(self.classes)} classes" if self.values.ndim == 3 else ""
        return (
            f"<Reasons of {len(self):,} rows, {len(self.names):,} columns{classes}; "
            f"mean contributions: {most}>"
        )

    def _told(self) -> str:
        """One row, a line a column."""
        k = int(self.score[0].argmax()) if self.values.ndim == 3 else len(self.classes) - 1
        base = float(self.base if self.values.ndim == 2 else self.base[k])
        values = self.decisive[0]
        order = np.argsort(-np.abs(values), kind="stable")
        shown = [(f"{values[j]:+.4g}", printable(self.names[j])) for j in order[:SHOWN].tolist()]
        if len(order) > SHOWN:
            rest = float(values[order[SHOWN:]].sum())
            shown.append((f"{rest:+.4g}", f"{len(order) - SHOWN:,} other columns"))
        lines = [
            f"score of {printable(self.classes[k])}: {base + values.sum():.4g}",
            f"{base:>12.4g}  at the balanced centre",
            *(f"{value:>12}  {name}" for value, name in shown),
        ]
        return "\n".join(lines)
