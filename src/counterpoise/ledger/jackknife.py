"""Standard errors by the jackknife: the model without each of its buckets in turn.

    se² = (g − 1)/g Σ (θ_i − θ̄)²

where θ_i is a weight, a score or the estimated G-mean without bucket i. Days differ more than rows
do, and therefore this predicts new days better than an error computed from independent rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from counterpoise.arrays import Counts, Matrix, Vector
from counterpoise.errors import DataError, OptionValue, Suggestion
from counterpoise.estimators import array_validation
from counterpoise.estimators.balanced_ridge import BalancedRidgeClassifier
from counterpoise.estimators.base import engine_of
from counterpoise.ledger.bucket_series import (
    SOLVER_OPTIONS,
    LinearScoresBatch,
    Series,
    SetEffects,
    check_count,
    evaluate_scores,
    solve_series,
    solver_options,
)
from counterpoise.ledger.query import Selection, Snapshot
from counterpoise.moments.categories import CodeColumns
from counterpoise.solver.imputation import MeanImputation
from counterpoise.solver.options import Options

MAX_COEF_DIFFERENCE = 1e-6  # relative, between a model and the same model of the ledger


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """Standard errors of a model.

    Attributes
    ----------
    names : list of str
        The features.
    coef, coef_error : ndarray of shape (problems, d)
        Weights, and their standard errors.
    scores, scores_error : ndarray of shape (n, problems), optional
        Scores of the given rows, and their standard errors.
    g_mean, g_mean_error : float
        The estimated G-mean on the rows of the model, and its standard error.
    buckets : int
        Number of buckets.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from counterpoise import Ledger
    >>> from counterpoise.ledger import payments
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger.open(pathlib.Path(folder.name) / "l", label="fraud", timestamp="at")
    >>> rows = ledger.learn(payments(days=40, rows=30)[0])
    >>> found = ledger.uncertainty(ledger.model())
    >>> found.buckets, round(found.g_mean, 2), round(found.g_mean_error, 2)
    (40, 0.78, 0.02)
    """

    names: list[str]
    coef: Matrix
    coef_error: Matrix
    scores: Matrix | None
    scores_error: Matrix | None
    g_mean: float
    g_mean_error: float
    buckets: int

    def to_dict(self) -> dict[str, Any]:
        """Return coefficients and errors as JSON can represent them."""
        weights = {
            name: {"weight": self.coef[:, j].tolist(), "error": self.coef_error[:, j].tolist()}
            for j, name in enumerate(self.names)
        }
        return {
            "buckets": self.buckets,
            "weights": weights,
            "estimated_g_mean": self.g_mean,
            "estimated_g_mean_error": self.g_mean_error,
        }


def estimate_uncertainty(
    snapshot: Snapshot, model: BalancedRidgeClassifier, X: Any = None
) -> Uncertainty:
    """Return the errors of a model of a ledger, and of its scores of rows X."""
    selection = getattr(model, "selection_", None)
    if not isinstance(selection, Selection):
        raise DataError("the model does not come from a ledger", Suggestion("use Ledger.model"))
    if model.pooled_rows is not None:
        raise DataError(
            (OptionValue("pooled_rows"), " makes scores quadratic: they have no coefficients"),
            Suggestion("leave it out"),
        )
    at = snapshot.metadata.feature_indices(model.names_)
    cells, _ = snapshot.cells(selection)
    encoding, effects = snapshot.metadata.encoding, engine_of(model).scores(link=False).effects
    codes = None if effects is None else CodeColumns(tuple(effects.pseudo_rows.tolist()))
    series = Series.of_cells(cells, codes).select_features(at)
    W = _leave_out(selection.decay(series.start, int(series.start.max())))
    sums, options = series.sum(W), model.get_params(deep=False)
    if model.ridge == "gcv":
        options["ridge"] = model.ridge_
    fill = MeanImputation.of(*encoding.only(at).fill)
    scores, index = None, None
    if X is not None:
        X = array_validation.rows(model, X)
        if codes is not None:
            X, index = codes.split(X)
            vocabularies = encoding.vocabularies.items()
            mine = [v.codes(model.categories_[name]) for name, v in vocabularies]
            places = zip(mine, index.T, strict=True)
            index = np.column_stack([np.append(one, 0.0)[i] - 1 for one, i in places]).astype(int)
    if fill is None and (len(model.classes_) == 2 or model.multi_class == "ovr"):
        lines = solve_series(sums, solver_options({name: options[name] for name in SOLVER_OPTIONS}))
        if X is not None:
            scores = np.einsum("gqd,nd->gnq", lines.coef, X - series.anchor)
            scores += lines.offset[:, None]
    else:
        bucket, models = np.searchsorted(series.start, cells.heads["start"]), []
        found: list[SetEffects | None] = []
        for w in W:
            moments = cells.sum(w[bucket])
            if not set(model.classes_.tolist()) <= set(moments.labels[moments.n > 0].tolist()):
                raise DataError("without one of its buckets, the selection has no rows of a class")
            models.append(snapshot.wrap(moments, at, options, codes))
            if moments.categories is not None:
                own = [one.all_codes for one in moments.categories.columns]
                found.append(SetEffects(own, engine_of(models[-1]).scores(link=False).effects))
        coef = np.array([one.coef_ for one in models])
        offset = np.array([one.intercept_ for one in models]) + coef @ sums.anchor
        lines = LinearScoresBatch(coef, offset, np.ones(len(models), dtype=bool), found)
        if X is not None:
            rows = X if index is None else np.column_stack([X, np.zeros(index.shape)])
            scores = np.array([one.decision_function(rows) for one in models])
            scores = scores.reshape(*scores.shape[:2], -1)
    if scores is not None and index is not None:
        for one, effects_of in zip(scores, lines.effects, strict=True):
            one += 0.0 if effects_of is None else effects_of.of_rows(index)
    result = _errors(lines, sums, model.names_, scores)
    coef, other = np.ravel(model.coef_), np.ravel(result.coef)
    limit = MAX_COEF_DIFFERENCE * float(np.abs(coef).max(initial=0.0))
    if coef.shape != other.shape or not np.allclose(coef, other, rtol=0.0, atol=limit):
        raise DataError(
            "the model is not one of this ledger as it is now", Suggestion("use Ledger.model again")
        )
    return result


def _leave_out(weight: Vector) -> Matrix:
    """Return weights of all buckets, and then without each one, of shape (1 + g, g)."""
    if len(weight) < 3:
        raise DataError(f"there are {len(weight)} buckets, and standard errors need 3 or more")
    return np.vstack([weight, np.tile(weight, (len(weight), 1)) * (1.0 - np.eye(len(weight)))])


def _errors(
    lines: LinearScoresBatch, sums: Series, names: list[str], scores: Any = None
) -> Uncertainty:
    """Return the errors of the first set, given the sets without each bucket."""
    if not lines.is_solved.all():
        raise DataError("without one of its buckets, the selection has rows of one class")
    g_mean = evaluate_scores(lines, sums).g_mean
    first, error = (None, None) if scores is None else (scores[0], _standard_error(scores))
    return Uncertainty(
        names, lines.coef[0], _standard_error(lines.coef), first, error,
        float(g_mean[0]), float(_standard_error(g_mean)), len(sums) - 1,
    )  # fmt: skip


def _standard_error(values: Any) -> Any:
    """Return the standard error of the first value, given the values without each bucket."""
    g = len(values) - 1
    deviations = values[1:] - values[1:].mean(axis=0)
    return np.sqrt((g - 1.0) / g * (deviations**2).sum(axis=0))


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of models of consecutive intervals.

    Attributes
    ----------
    names : list of str
        The features.
    start : ndarray of int of shape (m,)
        Starts of the intervals, in seconds.
    weight, error : ndarray of shape (m, d)
        Weights for features of standard deviation 1, and their standard errors; of the last class
        against all other classes. NaN where an interval has rows of one class.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from counterpoise import Ledger
    >>> from counterpoise.ledger import payments
    >>> folder = tempfile.TemporaryDirectory()
    >>> ledger = Ledger.open(pathlib.Path(folder.name) / "l", label="fraud", timestamp="at")
    >>> rows = ledger.learn(payments(days=40, rows=30)[0])
    >>> found = ledger.weights(size=10)
    >>> len(found.start), found.weight.shape == found.error.shape
    (4, True)
    """

    names: list[str]
    start: Counts
    weight: Matrix
    error: Matrix


def weights_over_time(
    series: Series, names: list[str], size: int, options: Mapping[str, Any]
) -> Weights:
    """Return the weights of intervals of ``size`` buckets."""
    check_count("size", size, 3)
    unit, solver = series.feature_stds(), solver_options(options)
    first = range(0, len(series), size)
    rows = [_weights(series.select(slice(i, i + size)), names, solver) for i in first]
    weight, error = (np.array([row[i] * unit for row in rows]) for i in (0, 1))
    return Weights(names, series.start[::size], weight, error)


def _weights(series: Series, names: list[str], solver: Options) -> tuple[Vector, Vector]:
    """Return the weights of a series and their errors; NaN if there are none."""
    try:
        sums = series.sum(_leave_out(np.ones(len(series))))
        result = _errors(solve_series(sums, solver), sums, names)
    except DataError:
        return np.full(len(names), np.nan), np.full(len(names), np.nan)
    return result.coef[-1], result.coef_error[-1]
