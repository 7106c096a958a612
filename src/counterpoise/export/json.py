"""Coefficients by name, or densities, as values for JSON."""

from __future__ import annotations

from typing import Any

from counterpoise.arrays import Labels
from counterpoise.engine.averaging import Average
from counterpoise.export import missing_value_constants
from counterpoise.feature_maps import FittedMap
from counterpoise.solver.calibration import MIN_SLOPE
from counterpoise.solver.score_functions import LinearScores, QuadraticScores
from counterpoise.solver.scores import Scores
from counterpoise.tables.model import TableModel


def coefficients(stored: TableModel) -> dict[str, Any]:
    """Return coefficients by name, or the densities of a quadratic model, as values for JSON."""
    scores, constants = stored.estimator.scores(), missing_value_constants(stored)
    solution: Any = scores.solution
    features: list[dict[str, Any]] = [
        {**f._asdict(), "name": f.name, **({"blank": constants[f]} if f in constants else {})}
        for f in stored.encoding.features
    ]
    names = [f.name for f in stored.encoding.features]
    labels, columns = scores.classes.labels, stored.encoding.columns
    found: dict[str, Any] = {"classes": labels.tolist()}
    if isinstance(solution, Average):
        found["sum"] = [
            _part(part.solution, part.fixed, names, labels, [{"name": name} for name in names])
            for part in solution.parts
        ]
    else:
        found |= _part(solution, scores.fixed, names, labels, features)
    if scores.effects is not None:
        each = zip(stored.encoding.vocabularies.items(), scores.effects.values, strict=True)
        found["categories"] = {
            name: dict(zip(vocabulary.values, values.tolist(), strict=True))
            for (name, vocabulary), values in each
        }
    return {
        **found,
        "features": features,
        "probabilities": probability_parameters(scores),
        "columns": stored.encoding.kinds,
        "hashed": {"buckets": dict(columns.buckets), "seed": columns.seed},
    }


def _part(
    solution: LinearScores | QuadraticScores,
    fixed: FittedMap | None,
    names: list[str],
    labels: Labels,
    features: list[dict[str, Any]],
) -> dict[str, Any]:
    """Return scores of features, or of mapped features; coefficients go into ``features``."""
    terms: list[dict[str, Any]] = features
    found: dict[str, Any] = {}
    if fixed is not None:
        terms = [{"name": name} for name in fixed.map.names(names)]
        found["map"] = {
            "name": fixed.map.text,
            "mean": fixed.mean.tolist(),
            "deviation": fixed.deviation.tolist(),
            "drawn": fixed.drawn.tolist(),
            "terms": terms,
        }
    if isinstance(solution, LinearScores):
        found["intercept"] = (solution.offset - solution.coef @ solution.anchor).tolist()
        for term, weights in zip(terms, solution.coef.T.tolist(), strict=True):
            term["weights"] = weights
        if fixed is None and len(features) and "column" not in features[0]:
            found["terms"] = terms
    else:
        parts = (solution.mean.tolist(), solution.root.tolist(), solution.offset.tolist())
        densities = zip(labels[solution.seen].tolist(), *parts, strict=True)
        keys = ("label", "mean", "root", "offset")
        found["quadratic"] = {
            "anchor": solution.anchor.tolist(),
            "densities": [dict(zip(keys, one, strict=True)) for one in densities],
        }
    return found


def probability_parameters(scores: Scores) -> dict[str, Any]:
    """Return how scores become probabilities, as values for JSON."""
    link, classes = scores.link, scores.classes
    assert link is not None
    seen = classes.seen
    labels = classes.labels.tolist()
    found: dict[str, Any] = {
        "silent": link.silent,
        "balanced": {
            "slope": link.slopes[0],
            "shift": [0.0 if one else None for one in seen.tolist()],
            "base": (seen / seen.sum()).tolist(),
        },
        "stream": {
            "slope": link.slopes[1],
            "shift": [float(v) if one else None for v, one in zip(link.shift, seen, strict=True)],
            "base": link.frequency.tolist(),
        },
    }
    if scores.calibration is not None and scores.calibration.rows:
        curves = scores.calibration.curves_for(classes.labels)
        found["curves"] = [
            curve and {"label": label, "at": curve.at.tolist(), "z": curve.z.tolist()}
            for label, curve in zip(labels, curves, strict=True)
        ]
        found["flat"] = MIN_SLOPE
    return found
