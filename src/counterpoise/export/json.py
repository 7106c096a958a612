"""Coefficients by name, or densities, as JSON can hold them."""

from __future__ import annotations

from typing import Any

from counterpoise.arrays import Labels
from counterpoise.engine.averaging import Average
from counterpoise.export.exportable import missing_value_constants
from counterpoise.feature_maps import FittedMap
from counterpoise.solver.calibration import MIN_SLOPE
from counterpoise.solver.score_functions import LinearScores, QuadraticScores
from counterpoise.solver.scores import Scores
from counterpoise.tables.model import TableModel


def coefficients(stored: TableModel) -> dict[str, Any]:
    """Weights by name, or the densities of a quadratic model, as JSON can hold them."""
    scores = stored.estimator.scores()
    solution: Any = scores.solution
    features: list[dict[str, Any]] = [
        {**f._asdict(), "name": f.name} for f in stored.encoding.features
    ]
    usual = missing_value_constants(stored)
    for feature, made in zip(stored.encoding.features, features, strict=True):
        if feature in usual:
            made["blank"] = usual[feature]
    names = [f.name for f in stored.encoding.features]
    labels = scores.classes.labels
    found: dict[str, Any] = {"classes": labels.tolist()}
    if isinstance(solution, Average):
        found["sum"] = [
            _part(part.solution, part.fixed, names, labels, [{"name": name} for name in names])
            for part in solution.parts
        ]
    else:
        found |= _part(solution, scores.fixed, names, labels, features)
    return {
        **found,
        "features": features,
        "probabilities": probability_parameters(scores),
        "columns": stored.encoding.kinds,
        "hashed": {
            "buckets": dict(stored.encoding.columns.buckets),
            "seed": stored.encoding.columns.seed,
        },
    }


def _part(
    solution: LinearScores | QuadraticScores,
    fixed: FittedMap | None,
    names: list[str],
    labels: Labels,
    features: list[dict[str, Any]],
) -> dict[str, Any]:
    """Scores of the features, or of the terms of a map of them; weights go into ``features``."""
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
        found["quadratic"] = _densities(solution, labels[solution.seen].tolist())
    return found


def probability_parameters(scores: Scores) -> dict[str, Any]:
    """How scores become probabilities, as JSON can hold it."""
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
            None
            if curve is None
            else {"label": label, "at": curve.at.tolist(), "z": curve.z.tolist()}
            for label, curve in zip(labels, curves, strict=True)
        ]
        found["flat"] = MIN_SLOPE
    return found


def _densities(solution: QuadraticScores, labels: list[Any]) -> dict[str, Any]:
    parts = solution.mean.tolist(), solution.root.tolist(), solution.offset.tolist()
    return {
        "anchor": solution.anchor.tolist(),
        "densities": [
            {"label": label, "mean": mean, "root": root, "offset": offset}
            for label, mean, root, offset in zip(labels, *parts, strict=True)
        ],
    }
