"""Summary of a model: coefficients with standard errors, means, scales, class means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Labels, Matrix, Vector
from counterpoise.engine.state import State
from counterpoise.errors import printable
from counterpoise.moments.classes import Classes
from counterpoise.moments.moments import Moments
from counterpoise.solver.categories import standard_errors as category_standard_errors
from counterpoise.solver.class_weights import affine
from counterpoise.solver.options import Options
from counterpoise.solver.ridge import RidgeSystems
from counterpoise.solver.score_functions import LinearScores
from counterpoise.solver.scores import Scores, build_problem

QUANTILE = 1.959963984540054  # standard deviations; 95% of a normal distribution are within
ASSUMPTIONS_NOTE = (
    "Standard errors hold for independent rows whose features are normal within each class, with "
    "any means and covariances; for features with heavy tails they are too small. They refer to "
    "the coefficients that the same ridge and class weights would give on the whole population."
)


def why_no_standard_errors(scores: Scores, moments: Moments, options: Options) -> str | None:
    """Return why there are no standard errors; None if there are."""
    if not isinstance(scores.solution, LinearScores):
        return "No standard errors: with pooled_rows scores are quadratic."
    if scores.classes.n_scores > 1 and options.multi_class == "lda":
        return "No standard errors: the weights of several classes are not those of least squares."
    if scores.fixed is not None:
        return "No standard errors: terms of a map are not normal, even where the features are."
    if options.decay.is_active:
        return "No standard errors: with half_life the number of remembered rows is undefined."
    seen = scores.classes.seen
    if seen.sum() < 2 or float(moments.n[scores.classes.slots[seen]].min()) < 3.0:
        return "No standard errors: they take two classes of at least three rows each."
    return None


def standard_errors(scores: Scores, moments: Moments, options: Options) -> Matrix:
    """Return standard errors (problems, d) of the coefficients, in the units of the input."""
    classes, solution = scores.classes, scores.solution
    assert isinstance(solution, LinearScores)
    systems = build_problem(moments, classes, options)
    assert isinstance(systems, RidgeSystems)
    found = np.zeros_like(solution.coef)
    rows = np.flatnonzero(classes.seen) if classes.n_scores > 1 else np.zeros(1, np.intp)
    coef, offset = solution.coef[rows], solution.offset[rows]
    if scores.effects is None or moments.categories is None:
        found[rows] = systems.standard_errors(coef, offset, solution.ridge)
        return found
    own = LinearScores(solution.anchor, coef, offset, solution.ridge)
    found[rows] = category_standard_errors(systems, moments.categories, scores.effects, own)
    return found


MAX_ROWS_SHOWN = 15  # features in the text


class ClassMoments(NamedTuple):
    """Count, mean and scatter of each class, in read-only arrays."""

    classes: Labels  # (c,) labels that were seen
    counts: Vector  # (c,) weight of each class, decayed if rows decay
    mean: Matrix  # (c, d) mean of each class
    # (c, d, d) Σ (x − mean)(x − mean)ᵀ of each class; over its count it is the covariance
    scatter: NDArray[np.float64]


def class_moments(moments: Moments, classes: Classes) -> ClassMoments:
    """Return moments of the classes that were seen, in the order of their labels."""
    at = classes.slots[classes.seen]
    mean, scatter = moments.anchor + moments.mean[at], moments.C[at]
    found = ClassMoments(classes.labels[classes.seen], moments.n[at], mean, scatter)
    for array in found:
        array.flags.writeable = False
    return found


@dataclass(frozen=True, eq=False, repr=False)
class Summary:
    """Summary of a model; printed, it is a table. Shapes: low (p, d), high (p, d)."""

    classes: Labels  # (c,) labels that were seen
    counts: Vector  # (c,) their weights
    names: list[str]  # names of the features, or of the mapped features
    mean: Vector  # (d,) over all rows
    scale: Vector  # (d,) standard deviation over all rows
    class_means: Matrix  # (c, d)
    ridge: float  # the ridge that was used
    scores: list[str]  # the class of each score: the second of two, or each of several
    weights: Matrix | None  # (p, d) for features of standard deviation 1; None of quadratic scores
    errors: Matrix | None  # (p, d) standard errors of least squares, for scales without error
    note: str  # assumptions of the standard errors, or why there are none

    @property
    def low(self) -> Matrix | None:
        """Lower ends of the 95% intervals."""
        return self._interval_end(-QUANTILE)

    @property
    def high(self) -> Matrix | None:
        """Upper ends of the 95% intervals."""
        return self._interval_end(QUANTILE)

    def _interval_end(self, quantile: float) -> Matrix | None:
        if self.weights is None or self.errors is None:
            return None
        return self.weights + quantile * self.errors

    def __repr__(self) -> str:
        classes = ", ".join(
            f"{printable(label)}: {n:,.6g}"
            for label, n in zip(self.classes.tolist(), self.counts.tolist(), strict=True)
        )
        head, order = ["feature", "mean", "scale"], np.arange(len(self.names))
        if self.weights is not None:
            order = np.argsort(-np.abs(self.weights).max(axis=0), kind="stable")
            head += [f"weight for {label}" for label in self.scores]
        if self.errors is not None:
            head += ["std. error", "95% interval"] * (len(self.scores) == 1)
        several = len(self.classes) <= 4
        head += [f"mean of {printable(label)}" for label in self.classes] if several else []
        rows = [head, *(self._row(j, several) for j in order[:MAX_ROWS_SHOWN].tolist())]
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        lines = [
            "  ".join(
                cell.ljust(width) if i == 0 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        more = len(order) - MAX_ROWS_SHOWN
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


def summarize(
    state: State, options: Options, names: Sequence[str], max_features: float = np.inf
) -> Summary:
    """Return the summary of features, or mapped features, with these names, after imputation.

    More than ``max_features`` have no standard errors, which take long.
    """
    scores, moments = state.solve_imputed(options), state.imputed_moments
    m, s = affine(moments, "standard")
    seen = class_moments(moments, scores.classes)
    weights, errors = None, None
    why = why_no_standard_errors(scores, moments, options)
    if why is None and len(s) > max_features:
        why = f"No standard errors of more than {max_features:,} features; summary() has them."
    if isinstance(scores.solution, LinearScores):
        weights = scores.solution.coef * s
        errors = None if why else standard_errors(scores, moments, options) * s
    labels = [str(label) for label in scores.classes.labels.tolist()]
    return Summary(
        seen.classes, seen.counts, [str(name) for name in names], moments.anchor + m, s, seen.mean,
        scores.solution.ridge, labels if len(labels) > 2 else labels[-1:], weights, errors,
        why or ASSUMPTIONS_NOTE,
    )  # fmt: skip
