"""Coefficients by name, as JSON can hold them."""

from __future__ import annotations

from typing import Any

from counterpoise.jobs.models import answering
from counterpoise.jobs.store import Stored


def coefficients(stored: Stored) -> dict[str, Any]:
    """Weights by name, as JSON can hold them.

    Parameters
    ----------
    stored : Stored
        The model.

    Returns
    -------
    dict
        ``classes``, ``intercept`` and for each feature its ``column``, ``kind``, ``value`` and
        ``weights``: one of the second class for two, else one a class. A score is the intercept
        plus the sum of weights times features. Where there is a map, ``map`` has its name, the
        scaling of the features, its random numbers, and the weights of its terms.
    """
    model = answering(stored)
    weights, fixed = model.coef_.T.tolist(), model.features_
    features = [{**f._asdict(), "name": f.name} for f in stored.encoding.features]
    mapped: dict[str, Any] = {}
    if fixed is None:
        features = [{**f, "weights": w} for f, w in zip(features, weights, strict=True)]
    else:
        names = fixed.names([f.name for f in stored.encoding.features])
        terms = [{"name": n, "weights": w} for n, w in zip(names, weights, strict=True)]
        mapped["map"] = {
            "name": fixed.map.text,
            "mean": fixed.mean.tolist(),
            "deviation": fixed.deviation.tolist(),
            "drawn": fixed.drawn.tolist(),
            "terms": terms,
        }
    return {
        "classes": model.classes_.tolist(),
        "intercept": model.intercept_.tolist(),
        "features": features,
        **mapped,
        "columns": stored.encoding.kinds,
        "hashed": {
            "buckets": dict(stored.encoding.columns.hashed),
            "seed": stored.encoding.columns.seed,
        },
    }
