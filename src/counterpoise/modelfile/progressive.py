"""Progressive calibration as what a model file can hold, and back, trusting nothing.

Without it, where a model was saved would decide which rows are scored by which model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from counterpoise.arrays import Labels, Vector
from counterpoise.exact.calibration import Calibration
from counterpoise.exact.classes import Classes
from counterpoise.exact.moments import Moments
from counterpoise.exact.probability import Link
from counterpoise.exact.progressive_calibration import LabelOrder, ProgressiveCalibration
from counterpoise.exact.scores import Scores
from counterpoise.exact.solution import Linear, Quadratic, Solution
from counterpoise.modelfile.calibrations import checked
from counterpoise.modelfile.container import Contents, require

PREFIX = "progressive "
LINEAR = ("anchor", "coef", "offset")
QUADRATIC = ("anchor", "mean", "root", "offset")
PENDING = ("counts", "sums")
MALFORMED = "malformed progressive calibration"


def with_progressive(
    contents: Contents, progressive: ProgressiveCalibration, labels: Labels
) -> Contents:
    """Return what a file holds of a model that calibrates progressively.

    Parameters
    ----------
    contents : Contents
        What it holds without that.
    progressive : ProgressiveCalibration
        The calibration.
    labels : ndarray of shape (c,)
        Labels of the moments.

    Returns
    -------
    Contents
    """
    position = {label: k for k, label in enumerate(labels.tolist())}
    order, scores, pending = progressive.order, progressive.scores, progressive.pending
    counts = [float(order.counts.get(label, 0.0)) for label in position]
    fact: dict[str, Any] = {
        "rows": progressive.rows,
        "until": progressive.until,
        "labels": counts,
        "runs": float(order.runs),
        "last": [position[label] for label in order.last if label in position],
        "is_sorted": order.is_sorted,
        "was_sorted": order.was_sorted,
    }
    arrays: dict[str, Any] = {}
    if pending.rows:
        slots = [position[label] for label in pending.labels.tolist()]
        fact["pending"] = {"slots": slots, "rows": pending.rows}
        arrays |= {"counts": pending.counts, "sums": pending.sums}
    if scores is not None and scores.link is not None:
        solution, link = scores.solution, scores.link
        names = LINEAR if isinstance(solution, Linear) else QUADRATIC
        arrays |= {name: getattr(solution, name) for name in names}
        arrays |= {"shift": link.shift, "frequency": link.frequency}
        fact["scores"] = {
            "slots": scores.classes.slots.tolist(),
            "ridge": float(solution.ridge),
            "slopes": [float(slope) for slope in link.slopes],
            "silent": float(link.silent),
        }
    named = {PREFIX + name: array for name, array in arrays.items()}
    return replace(
        contents,
        arrays={**contents.arrays, **named},
        facts={**contents.facts, "progressive": fact},
    )


def without_progressive(contents: Contents) -> tuple[Contents, dict[str, Any]]:
    """Return what a file holds besides progressive calibration, and its arrays by name.

    Parameters
    ----------
    contents : Contents
        What it holds.

    Returns
    -------
    Contents
    dict of str to ndarray
    """
    rest = {name: a for name, a in contents.arrays.items() if not name.startswith(PREFIX)}
    mine = {name.removeprefix(PREFIX): a for name, a in contents.arrays.items() if name not in rest}
    return replace(contents, arrays=rest), mine


def progressive_from(
    facts: dict[str, Any], arrays: dict[str, Any], moments: Moments
) -> ProgressiveCalibration | None:
    """Return the progressive calibration of a model with these moments, checked; None without one.

    Parameters
    ----------
    facts : dict
        What the file holds.
    arrays : dict of str to ndarray
        Arrays of the calibration, by name.
    moments : Moments
        What was learned.

    Returns
    -------
    ProgressiveCalibration or None
    """
    if "progressive" not in facts:
        require(not arrays, MALFORMED)
        return None
    fact, c = facts["progressive"], len(moments.labels)
    wanted = {"rows", "until", "labels", "runs", "last", "is_sorted", "was_sorted"}
    require(isinstance(fact, dict) and set(fact) - {"pending", "scores"} == wanted, MALFORMED)
    rows, until = fact["rows"], fact["until"]
    require(type(rows) is int and type(until) is int and 0 <= rows <= until < 2**63, MALFORMED)
    require(rows > 0 and until <= max(2 * rows, 16), MALFORMED)
    expected: set[str] = set()
    pending, scores = Calibration.empty(), None
    if "pending" in fact:
        part = fact["pending"]
        require(isinstance(part, dict) and set(part) == {"slots", "rows"}, MALFORMED)
        labels = moments.labels[_slots(part["slots"], c)]
        pending = checked(labels, part["rows"], *(arrays.get(name) for name in PENDING))
        require(pending.rows <= rows, MALFORMED)
        expected |= set(PENDING)
    if "scores" in fact:
        scores, names = _scores(fact["scores"], arrays, moments)
        expected |= names
    require(expected == set(arrays), MALFORMED)
    return ProgressiveCalibration(rows, until, scores, pending, _order(fact, moments.labels))


def _order(fact: dict[str, Any], labels: Labels) -> LabelOrder:
    """Return the order of labels, checked."""
    counts, runs, last = fact["labels"], fact["runs"], fact["last"]
    flags = fact["is_sorted"], fact["was_sorted"]
    require(all(type(flag) is bool for flag in flags) and flags[0] <= flags[1], MALFORMED)
    require(isinstance(counts, list) and len(counts) == len(labels), MALFORMED)
    numbers = [*counts, runs]
    require(all(type(n) is float and 0.0 <= n < 2.0**63 for n in numbers), MALFORMED)
    require(isinstance(last, list) and len(last) <= 1, MALFORMED)
    known = labels.tolist()
    found = {label: n for label, n in zip(known, counts, strict=True) if n}
    return LabelOrder(found, runs, [known[k] for k in _slots(last, len(known))], *flags)


def _scores(fact: Any, arrays: dict[str, Any], moments: Moments) -> tuple[Scores, set[str]]:
    """Return the scoring model, checked, and the names of its arrays."""
    wanted = {"slots", "ridge", "slopes", "silent"}
    require(isinstance(fact, dict) and set(fact) == wanted, MALFORMED)
    slots = np.array(_slots(fact["slots"], len(moments.labels)), dtype=np.intp)
    c, d = len(slots), len(moments.anchor)
    require(c > 1, MALFORMED)
    slopes, silent, ridge = fact["slopes"], fact["silent"], fact["ridge"]
    require(isinstance(slopes, list) and len(slopes) == 2, MALFORMED)
    numbers = [*slopes, silent, ridge]
    require(all(type(x) is float and 0.0 <= x < np.inf for x in numbers), MALFORMED)
    require(silent <= 0.5, MALFORMED)
    problems = 1 if c == 2 else c
    shapes: dict[str, tuple[int, ...]]
    shapes = {"anchor": (d,), "coef": (problems, d), "offset": (problems,)}
    if "root" in arrays:
        shapes = {"anchor": (d,), "mean": (c, d), "root": (c, d, d), "offset": (c,)}
    shapes |= {"shift": (c,), "frequency": (c,)}
    found = {name: None if name not in arrays else arrays[name].shape for name in shapes}
    require(found == shapes, MALFORMED)
    frequency: Vector = arrays["frequency"]
    require(bool((frequency > 0.0).all() and (frequency <= 1.0).all()), MALFORMED)
    classes = Classes(moments.labels[slots], slots)
    solution: Solution
    if "root" in arrays:
        mine = {name: arrays[name] for name in QUADRATIC}
        solution = Quadratic(**mine, seen=np.ones(c, dtype=bool), ridge=ridge)
    else:
        solution = Linear(**{name: arrays[name] for name in LINEAR}, ridge=ridge)
    link = Link((slopes[0], slopes[1]), arrays["shift"], frequency, silent)
    return Scores(classes, solution, link), set(shapes)


def _slots(plain: Any, c: int) -> list[int]:
    """Return positions among c labels, each at most once, checked."""
    require(isinstance(plain, list) and len(plain) == len(set(map(str, plain))), MALFORMED)
    require(all(type(k) is int and 0 <= k < c for k in plain), MALFORMED)
    return list(plain)
