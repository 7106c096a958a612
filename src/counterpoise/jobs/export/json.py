"""Coefficients by name, or densities, as JSON can hold them."""

from __future__ import annotations

from typing import Any

from counterpoise.exact.curve import FLAT
from counterpoise.exact.scores import Scores
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
        −inf. ``blank`` is what a number, or a cycle, is where it is missing. A cycle is the
        sine or the cosine of the phase of a date in the day, the week or the year, in seconds since
        1970 in UTC, see :mod:`counterpoise.encoding.cycles`. Where there is a map, ``map`` has
        its name, the scaling of the features, its random numbers, and the weights of its terms. A
        quadratic model has ``quadratic`` in place of intercept and weights: an ``anchor``, and for
        each class that was seen its ``label``, ``mean``, ``root`` and ``offset``, so that its
        score is offset − ‖(x − anchor − mean) root‖²/2. Of two classes the score is the difference.
        ``probabilities`` says how scores become both kinds of them, see :func:`told`.
    """
    model = answering(stored)
    solution, fixed = model.scores_.solution, model.features_
    features: list[dict[str, Any]] = [
        {**f._asdict(), "name": f.name} for f in stored.encoding.features
    ]
    usual = blanks(stored)
    for feature, made in zip(stored.encoding.features, features, strict=True):
        if feature in usual:
            made["blank"] = usual[feature]
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
        "probabilities": told(model.scores_),
        "columns": stored.encoding.kinds,
        "hashed": {
            "buckets": dict(stored.encoding.columns.hashed),
            "seed": stored.encoding.columns.seed,
        },
    }


def told(scores: Scores) -> dict[str, Any]:
    """How scores become probabilities, as JSON can hold it.

    Parameters
    ----------
    scores : Scores
        Scores of a model.

    Returns
    -------
    dict
        ``balanced`` and ``stream`` have a ``slope``, a ``shift`` and a ``base`` for each class.
        With g the scores of the classes (of two, −f/2 and f/2), the probabilities are
        (1 − silent) softmax(slope·g + shift) + silent·base. Those of the stream go on, where rows
        were judged: ``curves`` has for each class the knots of a piecewise linear function of
        l = log(p/(1 − p)), which has the slope ``flat`` beyond them. The logistic of its value is
        the probability: of two classes that of the second, of more divided by the sum.
    """
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
        curves = scores.calibration.curves_of(classes.labels)
        found["curves"] = [
            None
            if curve is None
            else {"label": label, "at": curve.at.tolist(), "z": curve.z.tolist()}
            for label, curve in zip(labels, curves, strict=True)
        ]
        found["flat"] = FLAT
    return found


def _densities(solution: Quadratic, labels: list[Any]) -> dict[str, Any]:
    parts = solution.mean.tolist(), solution.root.tolist(), solution.offset.tolist()
    return {
        "anchor": solution.anchor.tolist(),
        "densities": [
            {"label": label, "mean": mean, "root": root, "offset": offset}
            for label, mean, root, offset in zip(labels, *parts, strict=True)
        ],
    }
