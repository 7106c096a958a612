"""Explanation of scores: contributions of each column, which add up to the score of the row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Matrix
from counterpoise.errors import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Colors that color-blind readers can separate, on light and dark pages.
POSITIVE_COLOR, NEGATIVE_COLOR = "#0072B2", "#D55E00"
CLASS_COLORS = [
    "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#F0E442", "#999999",
]  # fmt: skip
MAX_COLUMNS = 10  # in the repr of one row and in its plot


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Contributions of each column to the scores of rows.

    On every row they add up to its score minus the score at the balanced center:
    ``base_values + values.sum(axis=-1)`` is the ``decision_function``. A slice or an index selects
    rows.

    Attributes
    ----------
    values : ndarray of shape (n, d) or (n, c, d)
        Contributions. For two classes to the score of the second of ``classes``: a positive value
        increases it. For several classes to the score of each class.
    base_values : ndarray of shape () or (c,)
        Score at the balanced center.
    feature_names : list of str
        Names of the columns.
    classes : ndarray of shape (c,)
        Labels.
    data : ndarray of shape (n, d), optional
        Rows that are explained; plots print their values.

    Examples
    --------
    >>> import numpy as np
    >>> from counterpoise import BalancedRidgeClassifier
    >>> X, y = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [9.0, 0.0]]), [0, 0, 0, 1]
    >>> model = BalancedRidgeClassifier().fit(X, y)
    >>> found = model.explain(X)
    >>> bool(np.allclose(found.score, model.decision_function(X)))
    True
    >>> found.top(1)[0].ravel().tolist()
    ['x0', 'x0', 'x0', 'x0']
    """

    values: NDArray[np.float64]
    base_values: NDArray[np.float64]
    feature_names: list[str]
    classes: Labels
    data: NDArray[Any] | None = None

    @property
    def score(self) -> NDArray[np.float64]:
        """Scores of the rows, of shape (n,) or (n, c)."""
        score: NDArray[np.float64] = self.base_values + self.values.sum(axis=-1)
        return score

    @property
    def decisive(self) -> Matrix:
        """Contributions of shape (n, d) to the only score, or to the highest score of each row."""
        if self.values.ndim == 2:
            return self.values
        best = self.score.argmax(axis=1)
        decisive: Matrix = self.values[np.arange(len(best)), best]
        return decisive

    def for_class(self, label: Any) -> Explanation:
        """Return the contributions to the score of one class.

        Parameters
        ----------
        label : label
            The class.

        Returns
        -------
        Explanation
            With values of shape (n, d).
        """
        labels = self.classes.tolist()
        if label not in labels:
            shown = ", ".join(map(repr, labels))
            raise ValueError(f"label must be one of the classes {shown}; got {label!r}")
        k = labels.index(label)
        if self.values.ndim == 3:
            return replace(self, values=self.values[:, k], base_values=self.base_values[k])
        sign = 1.0 if k == len(self.classes) - 1 else -1.0
        return replace(self, values=sign * self.values, base_values=sign * self.base_values)

    def top(self, k: int = 3) -> tuple[Labels, Matrix]:
        """Return the columns of each row that contribute most to its decisive score.

        Parameters
        ----------
        k : int, default=3
            Number of columns.

        Returns
        -------
        names : ndarray of shape (n, k)
            Names, the largest contribution first, independent of its sign.
        values : ndarray of shape (n, k)
            Contributions.
        """
        values = self.decisive
        order = np.argsort(-np.abs(values), axis=1, kind="stable")[:, :k]
        names = np.array(self.feature_names, dtype=object)
        return names[order], np.take_along_axis(values, order, axis=1)

    def group_by_column(
        self, columns: Sequence[str], data: NDArray[Any] | None = None
    ) -> Explanation:
        """Add up the contributions of features that come from the same column.

        Parameters
        ----------
        columns : sequence of str
            Column of each feature, for example the column of a category.
        data : ndarray of shape (n, columns), optional
            Cells of these columns; plots print their values.

        Returns
        -------
        Explanation
            Columns in the order in which they first occur; they add up to the same scores.
        """
        if len(columns) != len(self.feature_names):
            raise ValueError(
                f"{len(columns)} columns were given for {len(self.feature_names)} features"
            )
        names = list(dict.fromkeys(columns))
        at = {name: j for j, name in enumerate(names)}
        values = np.zeros((*self.values.shape[:-1], len(names)))
        for j, column in enumerate(columns):
            values[..., at[column]] += self.values[..., j]
        return replace(self, values=values, feature_names=names, data=data)

    def mean_abs(self) -> NDArray[np.float64]:
        """Return the mean absolute contribution of each column, of shape (d,) or (c, d)."""
        if not len(self):
            return np.zeros(self.values.shape[1:])
        mean: NDArray[np.float64] = np.abs(self.values).mean(axis=0)
        return mean

    def plot(self, row: int = 0, label: Any = None, top: int = MAX_COLUMNS) -> Any:
        """Plot one row as a waterfall, from the score at the center to the score of the row.

        Parameters
        ----------
        row : int, default=0
            Index of the row.
        label : label, optional
            The class; by default the class whose score is decisive.
        top : int, default=10
            Number of columns; the others are one bar.

        Returns
        -------
        matplotlib.figure.Figure

        Examples
        --------
        >>> from counterpoise import BalancedRidgeClassifier
        >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [9.0, 0.0]], [0, 0, 0, 1]
        >>> figure = BalancedRidgeClassifier().fit(X, y).explain(X).plot(3)
        >>> figure.axes[0].get_xlabel()
        'score of 1: 0.141 at the center, 0.707 here'
        """
        one = self[[row]]
        if label is None:
            label = one.classes[one.score[0].argmax() if one.values.ndim == 3 else -1]
        one = one.for_class(label)
        values, base = one.values[0], float(one.base_values)
        order = np.argsort(-np.abs(values), kind="stable")
        names, steps = [_cell(one, j) for j in order[:top].tolist()], values[order[:top]]
        if len(order) > top:
            names.append(f"{len(order) - top:,} other columns")
            steps = np.append(steps, values[order[top:]].sum())
        ends = base + np.cumsum(steps)
        starts, at = np.concatenate([[base], ends[:-1]]), np.arange(len(steps))
        made, axes = bar_chart(names, 1.3)
        color = np.where(steps >= 0, POSITIVE_COLOR, NEGATIVE_COLOR)
        axes.barh(at, steps, left=starts, color=color, height=0.7)
        axes.vlines(ends[:-1], at[:-1], at[1:], color=_text_color(), linewidth=0.6)
        for i, step in enumerate(steps.tolist()):
            end = (max(starts[i], ends[i]), i)
            axes.annotate(f" {step:+.3g}", end, fontsize=8, va="center", annotation_clip=False)
        low, high = min(base, *ends), max(base, *ends)
        span = max(high - low, 1e-300)
        axes.set_xlim(low - 0.04 * span, high + 0.16 * span)
        axes.axvline(base, color=_text_color(), linewidth=0.6, linestyle=(0, (4, 2)))
        axes.set_xlabel(
            f"score of {short(label)}: {base:.3g} at the center, {base + values.sum():.3g} here"
        )
        return made

    def plot_overview(self, top: int = 12) -> Any:
        """Plot the mean absolute contribution of each column, of several classes in one bar.

        Parameters
        ----------
        top : int, default=12
            Number of columns, the largest contributions first.

        Returns
        -------
        matplotlib.figure.Figure
        """
        size = np.atleast_2d(self.mean_abs())
        order = np.argsort(-size.sum(axis=0), kind="stable")[:top]
        made, axes = bar_chart([short(self.feature_names[j]) for j in order.tolist()])
        left, has_classes = np.zeros(len(order)), len(size) > 1
        for k, row in enumerate(size[:, order]):
            name, color = short(self.classes[k]), CLASS_COLORS[k % len(CLASS_COLORS)]
            axes.barh(np.arange(len(order)), row, left=left, color=color, label=name)
            left += row
        axes.set_xlabel("mean size of the contribution" + (", by class" if has_classes else ""))
        if 1 < len(size) <= 2 * len(CLASS_COLORS):
            axes.legend(fontsize=8, frameon=False)
        return made

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> Explanation:
        at = np.atleast_1d(np.arange(len(self))[rows])
        data = None if self.data is None else self.data[at]
        return replace(self, values=self.values[at], data=data)

    def __repr__(self) -> str:
        if len(self) == 1:
            return self._one_row()
        sizes = self.mean_abs()
        size = sizes if sizes.ndim == 1 else sizes.mean(axis=0)
        order = np.argsort(-size, kind="stable")[:3].tolist()
        most = ", ".join(f"{printable(self.feature_names[j])} {size[j]:.3g}" for j in order)
        classes = f", {len(self.classes)} classes" if self.values.ndim == 3 else ""
        return (
            f"<Explanation of {len(self):,} rows, {len(self.feature_names):,} columns{classes}; "
            f"mean contributions: {most}>"
        )

    def _one_row(self) -> str:
        """Format one row, one line per column."""
        k = int(self.score[0].argmax()) if self.values.ndim == 3 else len(self.classes) - 1
        base = float(self.base_values if self.values.ndim == 2 else self.base_values[k])
        values = self.decisive[0]
        order = np.argsort(-np.abs(values), kind="stable")
        shown = [
            (values[j], printable(self.feature_names[j])) for j in order[:MAX_COLUMNS].tolist()
        ]
        if len(order) > MAX_COLUMNS:
            others = values[order[MAX_COLUMNS:]].sum()
            shown.append((others, f"{len(order) - MAX_COLUMNS:,} other columns"))
        lines = [
            f"score of {printable(self.classes[k])}: {base + values.sum():.4g}",
            f"{base:>12.4g}  at the balanced center",
            *(f"{value:>+12.4g}  {name}" for value, name in shown),
        ]
        return "\n".join(lines)


def figure(height: float = 3.4) -> tuple[Figure, Any]:
    """Return an empty figure that is readable in a narrow column, and its axes."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "plots require matplotlib: pip install 'counterpoise[plots]'", name="matplotlib"
        ) from error
    made = Figure(figsize=(5.2, height), layout="constrained")
    axes = made.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=10)
    return made, axes


def bar_chart(names: list[str], margin: float = 1.0) -> tuple[Figure, Any]:
    """Return a figure for horizontal bars of these names, the first at the top, and its axes."""
    made, axes = figure(margin + 0.27 * len(names))
    axes.set_yticks(np.arange(len(names)), names)
    axes.invert_yaxis()
    return made, axes


def _text_color() -> str:
    """Return matplotlib's color of text."""
    import matplotlib

    return str(matplotlib.rcParams["text.color"])


def _cell(found: Explanation, j: int) -> str:
    """Return the name of a column with its value, if there is one."""
    if found.data is None:
        return short(found.feature_names[j])
    value = found.data[0, j]
    text = f"{value:.4g}" if isinstance(value, float | int | np.number) else str(value)
    return f"{short(found.feature_names[j], 20)} = {short(text, 14)}"


def short(name: Any, length: int = 28) -> str:
    """Return a name of limited length, with the dollar signs that matplotlib needs escaped."""
    text = printable(name)
    text = text if len(text) <= length else text[: length - 1] + "…"
    return text.replace("$", r"\$")
