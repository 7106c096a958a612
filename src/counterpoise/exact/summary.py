"""What a model has found, in one table: weights with their errors, means, scales, class means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Matrix, Vector
from counterpoise.exact.classes import Classes
from counterpoise.exact.inference import ASSUMED, QUANTILE, refusal, standard_errors
from counterpoise.exact.moments import Moments
from counterpoise.exact.options import Options
from counterpoise.exact.scaling import affine
from counterpoise.exact.solution import Linear
from counterpoise.exact.state import State
from counterpoise.printable import printable

SHOWN = 15  # features in the text


class ClassMoments(NamedTuple):
    """Count, mean and scatter of each class, to look at: the arrays are read-only.

    Attributes
    ----------
    classes : ndarray of shape (c,)
        Labels that were seen.
    counts : ndarray of shape (c,)
        Weight of each class, faded if rows fade.
    mean : ndarray of shape (c, d)
        Mean of each class.
    scatter : ndarray of shape (c, d, d)
        Σ (x − mean)(x − mean)ᵀ of each class; over its count it is the covariance.
    """

    classes: Labels
    counts: Vector
    mean: Matrix
    scatter: NDArray[np.float64]


def class_moments(moments: Moments, classes: Classes) -> ClassMoments:
    """Moments of the classes that were seen, in the order of their labels."""
    at = classes.slots[classes.seen]
    mean, scatter = moments.anchor + moments.mean[at], moments.C[at]
    found = ClassMoments(classes.labels[classes.seen], moments.n[at], mean, scatter)
    for array in found:
        array.flags.writeable = False
    return found


@dataclass(frozen=True, eq=False, repr=False)
class Summary:
    """What a model has found; printed, it is a table.

    Attributes
    ----------
    classes : ndarray of shape (c,)
        Labels that were seen.
    counts : ndarray of shape (c,)
        Their weights.
    names : list of str
        Names of the features, or of the terms of the map.
    mean, scale : ndarray of shape (d,)
        Mean and standard deviation over all rows.
    class_means : ndarray of shape (c, d)
        Mean of each class.
    ridge : float
        The ridge that was used.
    scores : list of str
        The class of each score: the second of two, or each of several.
    weights : ndarray of shape (p, d), optional
        Weights for features of standard deviation 1, by score; None where scores are quadratic.
    errors : ndarray of shape (p, d), optional
        Their standard errors, where least squares gives them; the scale is taken as known.
    low, high : ndarray of shape (p, d), optional
        Ends of their 95 % intervals.
    note : str
        What the standard errors assume, or why there are none.
    """

    classes: Labels
    counts: Vector
    names: list[str]
    mean: Vector
    scale: Vector
    class_means: Matrix
    ridge: float
    scores: list[str]
    weights: Matrix | None
    errors: Matrix | None
    note: str

    @property
    def low(self) -> Matrix | None:
        """Lower ends of the 95 % intervals."""
        if self.weights is None or self.errors is None:
            return None
        return self.weights - QUANTILE * self.errors

    @property
    def high(self) -> Matrix | None:
        """Upper ends of the 95 % intervals."""
        if self.weights is None or self.errors is None:
            return None
        return self.weights + QUANTILE * self.errors

    def __repr__(self) -> str:
        classes = ", ".join(
            f"{printable(label)} {n:,.6g}"
            for label, n in zip(self.classes.tolist(), self.counts.tolist(), strict=True)
        )
        head, order = ["feature", "mean", "scale"], np.arange(len(self.names))
        if self.weights is not None:
            order = np.argsort(-np.abs(self.weights).max(axis=0), kind="stable")
            head += [f"weight for {label}" for label in self.scores]
        if self.errors is not None:
            head += ["std. error", "95 % interval"] * (len(self.scores) == 1)
        several = len(self.classes) <= 4
        head += [f"mean of {printable(label)}" for label in self.classes] if several else []
        rows = [head, *(self._row(j, several) for j in order[:SHOWN].tolist())]
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        lines = [
            "  ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        more = len(order) - SHOWN
        lines += [f"... and {more:,} more"] if more > 0 else []
        return "\n".join([f"classes: {classes}; ridge {self.ridge:.4g}", *lines, self.note])

    def _row(self, j: int, several: bool) -> list[str]:
        cells = [printable(self.names[j]), f"{self.mean[j]:.4g}", f"{self.scale[j]:.4g}"]
        if self.weights is not None:
            cells += [f"{w:+.4f}" for w in self.weights[:, j].tolist()]
        if self.low is not None and self.high is not None and len(self.scores) == 1:
            assert self.errors is not None
            cells += [f"{self.errors[0, j]:.4f}", f"{self.low[0, j]:+.4f} {self.high[0, j]:+.4f}"]
        return cells + ([f"{m:.4g}" for m in self.class_means[:, j].tolist()] if several else [])


def summarised(
    state: State, options: Options, names: Sequence[str], most: float = np.inf
) -> Summary:
    """What was found, of features, or terms, with these names; missing values are filled.

    Standard errors of more than ``most`` features are left to those who want to wait for them.
    """
    scores, moments = state.imputed(options), state.whole
    m, s = affine(moments, "standard")
    held = class_moments(moments, scores.classes)
    weights, errors = None, None
    why = refusal(scores, moments, options)
    if why is None and len(s) > most:
        why = f"No standard errors: there are more than {most:,} features; summary() has them."
    if isinstance(scores.solution, Linear):
        weights = scores.solution.coef * s
        errors = None if why else standard_errors(scores, moments, options) * s
    labels = [str(label) for label in scores.classes.labels.tolist()]
    return Summary(
        held.classes, held.counts, [str(name) for name in names], moments.anchor + m, s, held.mean,
        scores.solution.ridge, labels if len(labels) > 2 else labels[-1:], weights, errors,
        why or ASSUMED,
    )  # fmt: skip
