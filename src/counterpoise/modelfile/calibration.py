"""Progressive calibration as what a model file can hold, and back, trusting nothing.

Without it, where a model was saved would decide which rows are scored by which model.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from counterpoise.arrays import Labels, Vector
from counterpoise.engine.progressive_calibration import LabelOrder, ProgressiveCalibration
from counterpoise.modelfile.container import Contents, check_file
from counterpoise.modelfile.values import MOST, labels_of, plain_labels
from counterpoise.moments.classes import Classes
from counterpoise.moments.moments import Moments
from counterpoise.solver.calibration import BINS, EDGES, MAX_ABS_LOGIT, Calibration
from counterpoise.solver.link import Link
from counterpoise.solver.score_functions import LinearScores, QuadraticScores, Solution
from counterpoise.solver.scores import Scores

NAMES = ("calibration counts", "calibration sums")
MALFORMED = "malformed calibration counts"


def with_calibration(contents: Contents, calibration: Calibration) -> Contents:
    """Return what a file holds of a model with calibration counts."""
    arrays = dict(zip(NAMES, (calibration.counts, calibration.sums), strict=True))
    fact = {"labels": plain_labels(calibration.labels), "rows": calibration.rows}
    return replace(
        contents,
        arrays={**contents.arrays, **arrays},
        facts={**contents.facts, "calibration": fact},
    )


def calibration_from(contents: Contents) -> tuple[Contents, Calibration | None]:
    """Return what a file holds besides calibration counts, and these, checked."""
    found = contents.facts.get("calibration")
    if found is None:
        check_file("calibration" not in contents.facts, MALFORMED)
        return contents, None
    check_file(isinstance(found, dict) and set(found) == {"labels", "rows"}, MALFORMED)
    arrays = [contents.arrays.get(name) for name in NAMES]
    calibration = checked(labels_of(found["labels"]), found["rows"], *arrays)
    rest = {name: array for name, array in contents.arrays.items() if name not in NAMES}
    return replace(contents, arrays=rest), calibration


def checked(labels: Labels, rows: Any, counts: Any, sums: Any) -> Calibration:
    """Return calibration counts, checked. Shapes: labels (c,)."""
    check_file(type(rows) is int and 0 < rows < 2**63 and len(labels) > 1, MALFORMED)
    shapes = [None if array is None else array.shape for array in (counts, sums)]
    check_file(shapes == [(len(labels), 2, BINS), (len(labels), BINS)], MALFORMED)
    total = counts.sum(axis=1)
    good = bool((counts >= 0).all() and (total <= MOST).all())
    check_file(good, "an impossible number of calibration rows")
    check_file(bool(total.any(axis=1).all()), "a class without calibration counts")
    # The mean of what is in a bin is in the bin.
    edges = np.sinh(EDGES)
    low, high = np.append(-MAX_ABS_LOGIT, edges), np.append(edges, MAX_ABS_LOGIT)
    slack = 1e-6 * (1.0 + np.abs(sums))
    inside = (sums >= total * low - slack) & (sums <= total * high + slack)
    outside = "calibration counts outside of their bins"
    check_file(bool(inside.all()) and not sums[total == 0].any(), outside)
    return Calibration(labels, counts, sums, rows)


PREFIX = "progressive "
LINEAR = ("anchor", "coef", "offset")
QUADRATIC = ("anchor", "mean", "root", "offset")
PENDING = ("counts", "sums")
MALFORMED_PROGRESSIVE = "malformed progressive calibration"


def with_progressive(
    contents: Contents, progressive: ProgressiveCalibration, labels: Labels
) -> Contents:
    """Return what a file holds of a model that calibrates progressively. Shapes: labels (c,)."""
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
        names = LINEAR if isinstance(solution, LinearScores) else QUADRATIC
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
    """Return what a file holds besides progressive calibration, and its arrays by name."""
    rest = {name: a for name, a in contents.arrays.items() if not name.startswith(PREFIX)}
    mine = {name.removeprefix(PREFIX): a for name, a in contents.arrays.items() if name not in rest}
    return replace(contents, arrays=rest), mine


def progressive_from(
    facts: dict[str, Any], arrays: dict[str, Any], moments: Moments
) -> ProgressiveCalibration | None:
    """Return the progressive calibration of a model with these moments, checked; None without "
    "one.
    """
    if "progressive" not in facts:
        check_file(not arrays, MALFORMED_PROGRESSIVE)
        return None
    fact, c = facts["progressive"], len(moments.labels)
    wanted = {"rows", "until", "labels", "runs", "last", "is_sorted", "was_sorted"}
    check_file(
        isinstance(fact, dict) and set(fact) - {"pending", "scores"} == wanted,
        MALFORMED_PROGRESSIVE,
    )
    rows, until = fact["rows"], fact["until"]
    check_file(
        type(rows) is int and type(until) is int and 0 <= rows <= until < 2**63,
        MALFORMED_PROGRESSIVE,
    )
    check_file(rows > 0 and until <= max(2 * rows, 16), MALFORMED_PROGRESSIVE)
    expected: set[str] = set()
    pending, scores = Calibration.empty(), None
    if "pending" in fact:
        part = fact["pending"]
        check_file(isinstance(part, dict) and set(part) == {"slots", "rows"}, MALFORMED_PROGRESSIVE)
        labels = moments.labels[_slots(part["slots"], c)]
        pending = checked(labels, part["rows"], *(arrays.get(name) for name in PENDING))
        check_file(pending.rows <= rows, MALFORMED_PROGRESSIVE)
        expected |= set(PENDING)
    if "scores" in fact:
        scores, names = _scores(fact["scores"], arrays, moments)
        expected |= names
    check_file(expected == set(arrays), MALFORMED_PROGRESSIVE)
    return ProgressiveCalibration(rows, until, scores, pending, _order(fact, moments.labels))


def _order(fact: dict[str, Any], labels: Labels) -> LabelOrder:
    """Return the order of labels, checked."""
    counts, runs, last = fact["labels"], fact["runs"], fact["last"]
    flags = fact["is_sorted"], fact["was_sorted"]
    check_file(
        all(type(flag) is bool for flag in flags) and flags[0] <= flags[1], MALFORMED_PROGRESSIVE
    )
    check_file(isinstance(counts, list) and len(counts) == len(labels), MALFORMED_PROGRESSIVE)
    numbers = [*counts, runs]
    check_file(all(type(n) is float and 0.0 <= n < 2.0**63 for n in numbers), MALFORMED_PROGRESSIVE)
    check_file(isinstance(last, list) and len(last) <= 1, MALFORMED_PROGRESSIVE)
    known = labels.tolist()
    found = {label: n for label, n in zip(known, counts, strict=True) if n}
    return LabelOrder(found, runs, [known[k] for k in _slots(last, len(known))], *flags)


def _scores(fact: Any, arrays: dict[str, Any], moments: Moments) -> tuple[Scores, set[str]]:
    """Return the scoring model, checked, and the names of its arrays."""
    wanted = {"slots", "ridge", "slopes", "silent"}
    check_file(isinstance(fact, dict) and set(fact) == wanted, MALFORMED_PROGRESSIVE)
    slots = np.array(_slots(fact["slots"], len(moments.labels)), dtype=np.intp)
    c, d = len(slots), len(moments.anchor)
    check_file(c > 1, MALFORMED_PROGRESSIVE)
    slopes, silent, ridge = fact["slopes"], fact["silent"], fact["ridge"]
    check_file(isinstance(slopes, list) and len(slopes) == 2, MALFORMED_PROGRESSIVE)
    numbers = [*slopes, silent, ridge]
    check_file(all(type(x) is float and 0.0 <= x < np.inf for x in numbers), MALFORMED_PROGRESSIVE)
    check_file(silent <= 0.5, MALFORMED_PROGRESSIVE)
    problems = 1 if c == 2 else c
    shapes: dict[str, tuple[int, ...]]
    shapes = {"anchor": (d,), "coef": (problems, d), "offset": (problems,)}
    if "root" in arrays:
        shapes = {"anchor": (d,), "mean": (c, d), "root": (c, d, d), "offset": (c,)}
    shapes |= {"shift": (c,), "frequency": (c,)}
    found = {name: None if name not in arrays else arrays[name].shape for name in shapes}
    check_file(found == shapes, MALFORMED_PROGRESSIVE)
    frequency: Vector = arrays["frequency"]
    check_file(bool((frequency > 0.0).all() and (frequency <= 1.0).all()), MALFORMED_PROGRESSIVE)
    classes = Classes(moments.labels[slots], slots)
    solution: Solution
    if "root" in arrays:
        mine = {name: arrays[name] for name in QUADRATIC}
        solution = QuadraticScores(**mine, seen=np.ones(c, dtype=bool), ridge=ridge)
    else:
        solution = LinearScores(**{name: arrays[name] for name in LINEAR}, ridge=ridge)
    link = Link((slopes[0], slopes[1]), arrays["shift"], frequency, silent)
    return Scores(classes, solution, link), set(shapes)


def _slots(plain: Any, c: int) -> list[int]:
    """Return positions among c labels, each at most once, checked."""
    check_file(
        isinstance(plain, list) and len(plain) == len(set(map(str, plain))), MALFORMED_PROGRESSIVE
    )
    check_file(all(type(k) is int and 0 <= k < c for k in plain), MALFORMED_PROGRESSIVE)
    return list(plain)
