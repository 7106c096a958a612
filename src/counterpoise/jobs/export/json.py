"""Coefficients by name, or densities, as JSON can hold them."""

from __future__ import annotations

from typing import Any

from counterpoise.exact.solution import Linear, Quadratic
from counterpoise.jobs.export import blanks
from counterpoise.jobs.models import answering
from counterpoise.jobs.store import Stored


def coefficients(stored: Stored) -> dict[str, Any]:
    """Weights by name, or the densities of a quadratic model, as JSON can hold them.

    Parameters
    ----------
    stored : Stored
        The model.

    Returns
    -------
    dict
        ``classes``, ``intercept`` and for each feature its ``column``, ``kind``, ``value`` and
        ``weights``: one of the second class for two, else one a class. A score is the intercept
        plus the sum of weights times features; the intercept of a class that was never seen is
        −inf. ``blank`` is what a number is where it is missing. Where there is a map, ``map`` has
        its name, the scaling of the features, its random numbers, and the weights of its terms. A
        quadratic model has ``quadratic`` in place of intercept and weights: an ``anchor``, and for
        each class that was seen its ``label``, ``mean``, ``root`` and ``offset``, so that its
        score is offset − ‖(x − anchor − mean) root‖²/2. Of two classes the score is the difference.
    """
    model = answering(stored)
    solution, fixed = model.scores_.solution, model.features_
    features: list[dict[str, Any]] = [
        {**f._asdict(), "name": f.name} for f in stored.encoding.features
    ]
    usual = blanks(stored)
    for feature in features:
        if feature["kind"] == "number" and feature["column"] in usual:
            feature["blank"] = usual[feature["column"]]
    terms = features
    mapped: dict[str, Any] = {}
    if fixed is not None:
        names = fixed.names([f.name for f in stored.encoding.features])
        terms = [{"name": name} for name in names]
        mapped["map"] = {
            "name": fixed.map.text,
            "mean": fixed.mean.tolist(),
            "deviation": fixed.deviation.tolist(),
            "drawn": fixed.drawn.tolist(),
            "terms": terms,
        }
    found: dict[str, Any] = {"classes": model.classes_.tolist()}
    if isinstance(solution, Linear):
        found["intercept"] = model.intercept_.tolist()
        for term, weights in zip(terms, model.coef_.T.tolist(), strict=True):
            term["weights"] = weights
    else:
        found["quadratic"] = _densities(solution, model.classes_[solution.seen].tolist())
    return {
        **found,
        "features": features,
        **mapped,
        "columns": stored.encoding.kinds,
        "hashed": {
            "buckets": dict(stored.encoding.columns.hashed),
            "seed": stored.encoding.columns.seed,
        },
    }


def _densities(solution: Quadratic, labels: list[Any]) -> dict[str, Any]:
    parts = solution.mean.tolist(), solution.root.tolist(), solution.offset.tolist()
    return {
        "anchor": solution.anchor.tolist(),
        "densities": [
            {"label": label, "mean": mean, "root": root, "offset": offset}
            for label, mean, root, offset in zip(labels, *parts, strict=True)
        ],
    }
