"""Description of a model file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from counterpoise.arrays import Matrix, Vector
from counterpoise.engine.auto import AutoModel
from counterpoise.engine.parameters import name_of
from counterpoise.engine.ridge import RidgeModel
from counterpoise.engine.summary import summarize
from counterpoise.feature_maps.fitted import feature_map_name
from counterpoise.solver.class_weights import affine
from counterpoise.solver.score_functions import LinearScores
from counterpoise.solver.scores import condition
from counterpoise.tables.estimator import Model, as_auto, as_ridge
from counterpoise.tables.model import TableModel

UNFITTED: dict[str, Any] = dict.fromkeys(
    ("ridge", "condition", "calibration", "note", "means", "means_of", "errors", "intervals")
) | {"clipped": {}}
MAX_FEATURES_WITH_ERRORS = 1000  # features of which standard errors take a second


def unique(names: Iterable[str]) -> list[str]:
    """Return distinct names, by numbers: categories of two columns may have the same name."""
    counts: dict[str, int] = {}
    for name in names:
        found = name
        while found in counts:
            counts[name] += 1
            found = f"{name} ({counts[name]})"
        counts[found] = 1
    return list(counts)


def standardized_coefficients(stored: TableModel) -> tuple[list[str], Matrix | None, str | None]:
    """Return distinct names, weights (problems, d) for scaled features, and the fitted map.

    The weights are zero if nothing was learned, and None if scores are quadratic.
    """
    names = unique([feature.name for feature in stored.encoding.features])
    if not stored.is_fitted:
        return names, np.zeros((1, len(names))), None
    model = stored.estimator.best
    weights: Matrix | None = None
    if isinstance(model.scores().solution, LinearScores):
        solution = model.state.solve_imputed(model.options).solution
        assert isinstance(solution, LinearScores)
        weights = solution.coef * affine(model.state.imputed_moments, "standard")[1]
    fixed = model.state.fixed
    if fixed is None:
        return names, weights, None
    return unique(fixed.map.names(names)), weights, fixed.map.text


def by_class(model: RidgeModel) -> tuple[Matrix, Matrix, Vector]:
    """Return mean and standard deviation (c, d) of each class seen, and their difference, (d,).

    That is the largest difference of means in standard deviations of all rows, plus the largest
    difference of the logarithms of the deviations.
    """
    moments, classes = model.state.imputed_moments, model.state.classes
    slot, s = classes.slots[classes.seen], affine(moments, "standard")[1]
    n = moments.n[slot, None]
    mean = moments.anchor + moments.mean[slot]
    deviation = np.sqrt(np.einsum("kjj->kj", moments.C[slot]) / n)
    # A class in which a feature never varies differs much, but not without limit.
    logarithm = np.log(np.maximum(deviation / s, 1e-3))
    return mean, deviation, np.ptp(moments.mean[slot], axis=0) / s + np.ptp(logarithm, axis=0)


def _describe_fit(model: Model, names: list[str]) -> dict[str, Any]:
    """Return facts of a fitted model, or its best candidate: condition, calibration, means, errors.

    Errors and intervals are None where they are unknown, and a note has the reason.
    """
    best = model.best
    state, ridge = best.state, best.scores(False).solution.ridge
    models = model.models if isinstance(model, AutoModel) else [model]
    maps = [(one.state.fixed.map.text, one.state) for one in models if one.state.fixed is not None]
    calibration, counts = None, model.scores().calibration
    if counts is not None and counts.rows:
        before, after = counts.errors()
        calibration = {"rows": counts.rows, "error": before, "corrected": after}
    found = summarize(state, best.options, names, MAX_FEATURES_WITH_ERRORS)
    means = zip(
        names, found.mean.tolist(), found.scale.tolist(), found.class_means.T.tolist(), strict=True
    )
    result: dict[str, Any] = {
        "ridge": ridge,
        "condition": condition(state.imputed_moments, state.classes, best.options, ridge),
        "calibration": calibration,
        "clipped": {name: float(one.moments.clipped[0]) for name, one in maps},
        "note": found.note,
        "means": {n: {"mean": m, "deviation": s, "by_class": of} for n, m, s, of in means},
        "means_of": [str(label) for label in found.classes.tolist()],
        "errors": None,
        "intervals": None,
    }
    if found.errors is not None and found.low is not None and found.high is not None:
        ends = np.stack([found.low.T, found.high.T], axis=-1)
        result["errors"] = dict(zip(names, found.errors.T.tolist(), strict=True))
        result["intervals"] = dict(zip(names, ends.tolist(), strict=True))
    return result


MAX_CATEGORIES_SHOWN = 20  # of a column, those with the largest effects


def _describe_categories(stored: TableModel) -> dict[str, Any]:
    """Return the columns with many categories: their ridge, and the categories that matter most."""
    model, result = stored.estimator.best, dict[str, Any]()
    effects, moments = model.scores(False).effects, model.state.moments
    if effects is None or moments.categories is None:
        return result
    for b, (name, vocabulary) in enumerate(stored.encoding.vocabularies.items()):
        values, weights = effects.values[b], moments.categories.columns[b].n
        order = np.argsort(-np.abs(values).max(axis=1), kind="stable")[:MAX_CATEGORIES_SHOWN]
        result[name] = {
            "categories": vocabulary.size,
            "ridge_rows": float(effects.pseudo_rows[b]),
            "largest": [
                {
                    "category": vocabulary.values[j],
                    "effects": values[j].tolist(),
                    "rows": weights[:, j].tolist(),
                }
                for j in order.tolist()
            ],
        }
    return result


def describe_model(stored: TableModel) -> dict[str, Any]:
    """Return the description of a model, as JSON can hold it."""
    encoding, fitted = stored.encoding, stored.is_fitted
    names, weights, mapped = standardized_coefficients(stored)
    candidates, shares = None, {}
    model = stored.estimator.best if fitted else stored.estimator
    classes = model.labels.tolist()
    auto = as_auto(stored.model)
    if auto is not None and fitted:
        candidates = {
            name: max((G, ridge) for ridge, G in by_ridge.items()) if by_ridge else (None, None)
            for name, by_ridge in auto.g_means.items()
        }
        shares = auto.averaging_weights
    if weights is None:
        mean, deviation, apart = by_class(stored.estimator.best)
        columns = zip(names, mean.T.tolist(), deviation.T.tolist(), strict=True)
        densities = [(name, {"mean": m, "deviation": s}) for name, m, s in columns]
        order = np.argsort(-apart, kind="stable")
        shown: dict[str, Any] = {
            "scores": [str(label) for label in model.labels[model.scores().classes.seen].tolist()],
            "weights": None,
            "densities": dict(densities[j] for j in order.tolist()),
        }
    else:
        order = np.argsort(-np.abs(weights).max(axis=0), kind="stable")
        shown = {
            "scores": [str(label) for label in (classes[1:] if len(classes) == 2 else classes)],
            "weights": {names[j]: weights[:, j].tolist() for j in order.tolist()},
            "densities": None,
        }
    ridge = as_ridge(model)
    name = None if ridge is None else feature_map_name(ridge.params.feature_map)
    options = dict(stored.options)
    if options.get("candidates") is not None:
        options["candidates"] = [name_of(one, None) for one in options["candidates"]]
    return {
        "classes": dict(zip(map(str, classes), model.class_count.tolist(), strict=True)),
        "options": {**options, "feature_map": mapped or name},
        "candidates": candidates,
        "shares": shares,
        "columns": encoding.columns.by_option(),
        "positive": None if stored.positive is None else str(stored.positive),
        "kinds": encoding.kinds,
        "categories": _describe_categories(stored) if fitted else {},
        "chunk_rows": stored.chunk_rows,
        "inputs": {
            key: {**record.mark.plain(), "dropped": record.dropped, "times": record.times}
            for key, record in stored.records.items()
        },
        **shown,
        **(_describe_fit(stored.estimator, names) if fitted else UNFITTED),
    }
