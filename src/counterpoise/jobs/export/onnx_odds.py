"""From scores to both probabilities, as nodes of an ONNX graph.

The formulas are those of :mod:`counterpoise.exact.probability` and :mod:`counterpoise.exact.curve`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from counterpoise.arrays import Flags, Matrix, Vector
from counterpoise.exact.calibration import REACH
from counterpoise.exact.curve import CERTAIN, FLAT, Curve
from counterpoise.exact.probability import Link
from counterpoise.exact.scores import Scores

if TYPE_CHECKING:
    from counterpoise.jobs.export.onnx import Graph


def probabilities(made: Graph, f: str, scores: Scores) -> None:
    """Add the outputs ``balanced`` and ``stream``, of shape (n, c), of scores f (n, problems)."""
    link, classes = scores.link, scores.classes
    assert link is not None
    seen, c = classes.seen, len(classes.labels)
    g = f
    if c == 2:
        g = made.node("MatMul", f, made.constant(np.array([[-0.5, 0.5]])))
    double = np.dtype(float)
    out = [made.output(name, double, ["n", c]) for name in ("balanced", "stream")]
    even = seen / seen.sum()
    nothing = np.where(seen, 0.0, -np.inf)
    _softmax(made, g, link.slopes[0], nothing, link, even, seen, out[0])
    judged = scores.calibration is not None and bool(scores.calibration.rows)
    name = "" if judged else out[1]
    p = _softmax(made, g, link.slopes[1], link.shift, link, link.frequency, seen, name)
    if judged and scores.calibration is not None:
        curves = scores.calibration.curves_of(classes.labels)
        _corrected(made, p, curves, seen, out[1])


def _softmax(
    made: Graph,
    g: str,
    slope: float,
    shift: Vector,
    link: Link,
    base: Vector,
    seen: Flags,
    name: str,
) -> str:
    """(1 − silent) softmax(slope g + shift) + silent base."""
    across = made.constant(np.array([1], dtype=np.int64))
    if not seen.all():  # scores of what was never seen are minus infinity, or anything
        some = made.constant(seen[None, :])
        g = made.node("Where", some, g, made.constant(0.0))
    g = made.node("Mul", g, made.constant(float(slope)))
    log_p = made.node("Add", g, made.constant(np.where(seen, shift, -np.inf)))
    top = made.node("ReduceMax", log_p, across, keepdims=1)
    p = made.node("Exp", made.node("Sub", log_p, top))
    p = made.node("Div", p, made.node("ReduceSum", p, across, keepdims=1))
    p = made.node("Mul", p, made.constant(1.0 - link.silent))
    return made.node("Add", p, made.constant(link.silent * base), name=name)


def _corrected(made: Graph, p: str, curves: list[Curve | None], seen: Flags, name: str) -> None:
    """Probabilities by the curves of judged rows."""
    across = made.constant(np.array([1], dtype=np.int64))
    two, one = len(seen) == 2, made.constant(1.0)
    total = made.node("ReduceSum", p, across, keepdims=1)
    rest = made.taken(p, [1, 0]) if two else made.node("Sub", total, p)
    rest = made.node("Max", rest, made.constant(0.0))
    logit = made.node("Sub", made.node("Log", p), made.node("Log", rest))
    logit = made.node("Clip", logit, made.constant(-REACH), made.constant(REACH))
    if two:
        z = _curve(made, made.taken(logit, [1]), curves[1])
        both = made.node("MatMul", z, made.constant(np.array([[-1.0, 1.0]])))
        made.node(
            "Div", one, made.node("Add", one, made.node("Exp", made.node("Neg", both))), name=name
        )
        return
    columns = [_curve(made, made.taken(logit, [k]), curve) for k, curve in enumerate(curves)]
    z = made.joined(columns)
    q = made.node("Div", one, made.node("Add", one, made.node("Exp", made.node("Neg", z))))
    q = made.node("Mul", q, made.constant(seen.astype(float)))
    made.node("Div", q, made.node("ReduceSum", q, across, keepdims=1), name=name)


def _curve(made: Graph, logit: str, curve: Curve | None) -> str:
    """A piecewise linear function of a column: a line, and a bend at each knot."""
    if curve is None or not len(curve.at):
        return logit
    near = made.node("Sub", logit, made.constant(curve.at))
    above = made.node("Max", near, made.constant(0.0))
    first = made.node("Sub", logit, made.constant(float(curve.at[0])))
    line = made.node(
        "Add", made.node("Mul", first, made.constant(FLAT)), made.constant(float(curve.z[0]))
    )
    z = made.node("Add", line, made.node("MatMul", above, made.constant(_bends(curve)[:, None])))
    return made.node("Clip", z, made.constant(-CERTAIN), made.constant(CERTAIN))


def _bends(curve: Curve) -> Vector:
    """By how much the slope changes at each knot."""
    width = np.maximum(np.diff(curve.at), 1e-300)
    slopes: Matrix = np.concatenate([[FLAT], np.diff(curve.z) / width, [FLAT]])
    return np.diff(slopes)
