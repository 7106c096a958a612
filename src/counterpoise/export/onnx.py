"""A model as an ONNX graph: columns in, labels and scores out, in double precision throughout.

    columns → features → (x − mean)/deviation, cut off → terms of the map → scores → label

All operators have kernels for doubles in ONNX Runtime, so that no digit is lost. They are standard
but one: columns that are hashed need ``MurmurHash3`` of the domain ``com.microsoft``, which ONNX
Runtime has, and other engines may not.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from counterpoise.arrays import Flags, Matrix, Vector
from counterpoise.encoding.columns import Feature
from counterpoise.encoding.encoder import ColumnEncoder
from counterpoise.encoding.kinds import CYCLES, is_text
from counterpoise.engine.averaging import Average
from counterpoise.errors import DataError, Suggestion
from counterpoise.export.exportable import missing_value_constants, scores_to_export
from counterpoise.feature_maps import FittedMap, Map
from counterpoise.feature_maps.base import MapUnion
from counterpoise.feature_maps.fitted import CLIP_DEVIATIONS
from counterpoise.feature_maps.kernel_maps import Landmarks, RandomFourier
from counterpoise.feature_maps.piecewise import KNOTS, Hinges, Ranks
from counterpoise.feature_maps.polynomial import (
    Interactions,
    Polynomial,
    ReducedPolynomial,
    monomial_factors,
)
from counterpoise.solver.calibration import MAX_ABS_LOGIT, MAX_LOGIT, MIN_SLOPE, CalibrationCurve
from counterpoise.solver.link import Link
from counterpoise.solver.score_functions import LinearScores, QuadraticScores
from counterpoise.solver.scores import Scores
from counterpoise.tables.model import TableModel
from counterpoise.version import VERSION


def probabilities(made: Graph, f: str, scores: Scores) -> None:
    """Add the outputs ``proba_balanced`` and ``proba_stream`` (n, c) of scores f (n, problems)."""
    link, classes = scores.link, scores.classes
    assert link is not None
    seen, c = classes.seen, len(classes.labels)
    g = f
    if c == 2:
        g = made.node("MatMul", f, made.constant(np.array([[-0.5, 0.5]])))
    double = np.dtype(float)
    out = [made.output(name, double, ["n", c]) for name in ("proba_balanced", "proba_stream")]
    even = seen / seen.sum()
    nothing = np.where(seen, 0.0, -np.inf)
    _softmax(made, g, link.slopes[0], nothing, link, even, seen, out[0])
    judged = scores.calibration is not None and bool(scores.calibration.rows)
    name = "" if judged else out[1]
    p = _softmax(made, g, link.slopes[1], link.shift, link, link.frequency, seen, name)
    if judged and scores.calibration is not None:
        curves = scores.calibration.curves_for(classes.labels)
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


def _corrected(
    made: Graph, p: str, curves: list[CalibrationCurve | None], seen: Flags, name: str
) -> None:
    """Probabilities by the curves of judged rows."""
    across = made.constant(np.array([1], dtype=np.int64))
    two, one = len(seen) == 2, made.constant(1.0)
    total = made.node("ReduceSum", p, across, keepdims=1)
    rest = made.taken(p, [1, 0]) if two else made.node("Sub", total, p)
    rest = made.node("Max", rest, made.constant(0.0))
    logit = made.node("Sub", made.node("Log", p), made.node("Log", rest))
    logit = made.node("Clip", logit, made.constant(-MAX_ABS_LOGIT), made.constant(MAX_ABS_LOGIT))
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


def _curve(made: Graph, logit: str, curve: CalibrationCurve | None) -> str:
    """A piecewise linear function of a column: a line, and a bend at each knot."""
    if curve is None or not len(curve.at):
        return logit
    near = made.node("Sub", logit, made.constant(curve.at))
    above = made.node("Max", near, made.constant(0.0))
    first = made.node("Sub", logit, made.constant(float(curve.at[0])))
    line = made.node(
        "Add", made.node("Mul", first, made.constant(MIN_SLOPE)), made.constant(float(curve.z[0]))
    )
    z = made.node("Add", line, made.node("MatMul", above, made.constant(_bends(curve)[:, None])))
    return made.node("Clip", z, made.constant(-MAX_LOGIT), made.constant(MAX_LOGIT))


def _bends(curve: CalibrationCurve) -> Vector:
    """By how much the slope changes at each knot."""
    width = np.maximum(np.diff(curve.at), 1e-300)
    slopes: Matrix = np.concatenate([[MIN_SLOPE], np.diff(curve.z) / width, [MIN_SLOPE]])
    return np.diff(slopes)


DOMAINS = {"": 18, "ai.onnx.ml": 3, "com.microsoft": 1}  # and the versions of their operators
FORMAT = 8  # of the file: the oldest that has these operators

Block = tuple[str, list[int]]  # columns of a graph, and which features they are


def graph(stored: TableModel) -> bytes:
    """Build an ONNX graph that predicts as a model does."""
    try:
        import onnx  # noqa: F401
    except ImportError as error:
        raise DataError("ONNX needs the package onnx: pip install 'counterpoise[onnx]'") from error
    scores = scores_to_export(stored)
    made = Graph()
    columns = dict.fromkeys(feature.column for feature in stored.encoding.features)
    names = {column: f"column_{j}" for j, column in enumerate(columns)}
    X = _features(made, stored.encoding, names, missing_value_constants(stored))
    _decide(made, X, scores)
    return made.finish({"columns": names, "classes": scores.classes.labels.tolist()})


class Graph:
    """Nodes and constants of a graph, as they are made."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._domains = {""}

    def input(self, name: str, kind: type, column: str) -> str:
        """A column, of shape (n, 1), of float or str."""
        self._inputs.append(_described(name, np.dtype(kind), ["n", 1], column))
        return name

    def output(self, name: str, dtype: np.dtype[Any], shape: list[str | int]) -> str:
        """Name of an output, for the node that makes it."""
        self._outputs.append(_described(name, dtype, shape))
        return name

    def constant(self, value: ArrayLike) -> str:
        """A tensor that does not change."""
        from onnx import numpy_helper

        array = np.asarray(value)
        name = f"constant_{len(self._constants)}"
        plain = array.astype(object) if array.dtype.kind == "U" else np.ascontiguousarray(array)
        self._constants.append(numpy_helper.from_array(plain, name))
        return name

    def node(
        self, operator: str, *inputs: str, name: str = "", domain: str = "", **attributes: Any
    ) -> str:
        """Add an operator with one output, and return the name of that."""
        from onnx import helper

        self._domains.add(domain)
        name = name or f"{operator.lower()}_{len(self._nodes)}"
        made = helper.make_node(operator, inputs, [name], name=name, domain=domain, **attributes)
        self._nodes.append(made)
        return name

    def joined(self, blocks: Sequence[str]) -> str:
        """Blocks of columns side by side."""
        return blocks[0] if len(blocks) == 1 else self.node("Concat", *blocks, axis=1)

    def taken(self, X: str, columns: ArrayLike) -> str:
        """Some columns of a block."""
        return self.node("Gather", X, self.constant(np.asarray(columns, dtype=np.int64)), axis=1)

    def double(self, flags: str) -> str:
        """Truth values as 0.0 and 1.0."""
        return self.node("Cast", flags, to=_type(np.dtype(float)))

    def finish(self, metadata: dict[str, Any]) -> bytes:
        """The whole graph, as the bytes of a file."""
        from onnx import helper

        whole = helper.make_graph(
            self._nodes, "counterpoise", self._inputs, self._outputs, self._constants
        )
        versions = [helper.make_opsetid(d, v) for d, v in DOMAINS.items() if d in self._domains]
        model = helper.make_model(
            whole,
            opset_imports=versions,
            ir_version=FORMAT,
            producer_name="counterpoise",
            producer_version=VERSION,
        )
        helper.set_model_props(model, {k: json.dumps(v) for k, v in metadata.items()})
        data: bytes = model.SerializeToString()
        return data


def _type(dtype: np.dtype[Any]) -> int:
    from onnx import TensorProto

    kinds = {"f": TensorProto.DOUBLE, "i": TensorProto.INT64, "U": TensorProto.STRING}
    return int(kinds[dtype.kind])


def _described(name: str, dtype: np.dtype[Any], shape: list[str | int], column: str = "") -> Any:
    from onnx import helper

    return helper.make_tensor_value_info(name, _type(dtype), shape, column)


# From columns to features


def _features(
    made: Graph, encoding: ColumnEncoder, names: dict[str, str], blank: dict[Feature, float]
) -> str:
    """Rows of features, in the order of the encoding."""
    text = [column for column in names if is_text(encoding.kinds.get(column))]
    numbers = [column for column in names if column not in text]
    blocks = _numbers(made, encoding, names, numbers, blank) if numbers else []
    for column in text:
        blocks += _text(made, encoding, column, made.input(names[column], str, column))
    X = made.joined([block for block, _ in blocks])
    order = np.argsort([place for _, places in blocks for place in places])
    return X if (order == np.arange(len(order))).all() else made.taken(X, order)


def _numbers(
    made: Graph,
    encoding: ColumnEncoder,
    names: dict[str, str],
    columns: list[str],
    blank: dict[Feature, float],
) -> list[Block]:
    """Features of columns of numbers and dates, and whether they are missing."""
    X = made.joined([made.input(names[column], float, column) for column in columns])
    at = {feature: j for j, feature in enumerate(encoding.features)}
    result = _cycles(made, encoding, columns, X, blank)
    indicated = encoding.columns.uses_indicators
    gone = made.node("IsNaN", X) if indicated else ""
    if indicated:
        usual = np.array([[blank.get(Feature(column, "number"), 0.0) for column in columns]])
        X = made.node("Where", gone, made.constant(usual), X)
    for kind, source in (("number", X), ("missing", gone)):
        found = [(i, at.get(Feature(column, kind))) for i, column in enumerate(columns)]
        mine, places = (
            [i for i, j in found if j is not None],
            [j for _, j in found if j is not None],
        )
        if mine:
            block = source if len(mine) == len(columns) else made.taken(source, mine)
            result.append((block if kind == "number" else made.double(block), places))
    return result


def _cycles(
    made: Graph, encoding: ColumnEncoder, columns: list[str], X: str, blank: dict[Feature, float]
) -> list[Block]:
    """Where the dates among the columns X are in the day, the week and the year."""
    at = {feature: j for j, feature in enumerate(encoding.features)}
    dates = [i for i, column in enumerate(columns) if encoding.kinds.get(column) == "datetime"]
    if not dates:
        return []
    seconds = X if len(dates) == len(columns) else made.taken(X, dates)
    gone = made.node("IsNaN", seconds) if encoding.columns.uses_indicators else ""
    result = []
    for cycle, (length, start) in CYCLES.items():
        past = made.node("Sub", seconds, made.constant(start))
        past = made.node("Mod", past, made.constant(length), fmod=1)  # with the sign of the date
        before = made.node("Less", past, made.constant(0.0))
        past = made.node("Where", before, made.node("Add", past, made.constant(length)), past)
        phase = made.node("Mul", past, made.constant(2.0 * np.pi / length))
        ahead = made.node("Add", phase, made.constant(np.pi / 2.0))  # cos a = sin(a + π/2)
        for wave, angle in (("sin", phase), ("cos", ahead)):
            features = [Feature(columns[i], "cycle", f"{cycle} {wave}") for i in dates]
            block = made.node("Sin", angle)
            if gone:
                usual = made.constant(np.array([[blank.get(f, 0.0) for f in features]]))
                block = made.node("Where", gone, usual, block)
            mine = [i for i, feature in enumerate(features) if feature in at]
            if mine:
                block = block if len(mine) == len(dates) else made.taken(block, mine)
                result.append((block, [at[features[i]] for i in mine]))
    return result


def _text(made: Graph, encoding: ColumnEncoder, column: str, X: str) -> list[Block]:
    """Features of a column of text: one a category or bucket, and whether it is missing."""
    found = {feature: j for j, feature in enumerate(encoding.features) if feature.column == column}
    missing = found.pop(Feature(column, "missing"), None)
    values, places = [feature.value for feature in found], list(found.values())
    if encoding.kinds[column] == "hash":
        codes, wanted = _bucket(made, X, encoding, column), [int(value) for value in values]
    else:
        codes, wanted = _coded(made, X, values), list(range(len(values)))
    chosen = made.node("Equal", codes, made.constant(np.array([wanted], dtype=np.int64)))
    if "" in values:  # a category like any other
        return [(made.double(chosen), places)]
    gone = made.node("Equal", _coded(made, X, [""]), made.constant(np.zeros((1, 1), np.int64)))
    if not encoding.columns.uses_indicators:
        nothing = made.node("Where", gone, made.constant(np.nan), made.constant(0.0))
        return [(made.node("Add", made.double(chosen), nothing), places)]
    here = made.node("And", chosen, made.node("Not", gone))
    more = [] if missing is None else [(made.double(gone), [missing])]
    return [(made.double(here), places), *more]


def _coded(made: Graph, X: str, values: list[str]) -> str:
    """Which of some values each cell is, or −1."""
    return made.node(
        "LabelEncoder",
        X,
        domain="ai.onnx.ml",
        keys_strings=values,
        values_int64s=list(range(len(values))),
        default_int64=-1,
    )


def _bucket(made: Graph, X: str, encoding: ColumnEncoder, column: str) -> str:
    """The bucket of each cell of a hashed column."""
    seed, buckets = encoding.columns.seed, encoding.columns.buckets[column]
    code = made.node("MurmurHash3", X, domain="com.microsoft", positive=1, seed=seed)
    whole = made.node("Cast", code, to=_type(np.dtype(np.int64)))
    return made.node("Mod", whole, made.constant(np.int64(buckets)))


# From features to terms


def _terms(made: Graph, X: str, fixed: FittedMap) -> str:
    """Terms of rows: scaled, cut off, mapped."""
    Z = made.node("Sub", X, made.constant(fixed.mean))
    Z = made.node("Div", Z, made.constant(fixed.deviation))
    if fixed.blank:  # what is missing is as the mean of the map, whatever stands for it
        at, by, present = (list(column) for column in zip(*fixed.blank, strict=True))
        flags = made.taken(X, by)
        there = np.where(present, 1.0, 0.0)
        gone = made.node("Abs", made.node("Sub", flags, made.constant(there)))
        place = np.zeros((len(at), len(fixed.mean)))
        place[np.arange(len(at)), at] = 1.0
        lost = made.node("MatMul", gone, made.constant(place))
        Z = made.node("Mul", Z, made.node("Sub", made.constant(1.0), lost))
    Z = made.node("Clip", Z, made.constant(-CLIP_DEVIATIONS), made.constant(CLIP_DEVIATIONS))
    return made.joined(_mapped(fixed.map, made, Z, fixed.drawn))


@singledispatch
def _mapped(the_map: Map, made: Graph, Z: str, drawn: Matrix) -> list[str]:
    """Blocks of terms of scaled rows, given the random numbers of the map."""
    raise DataError(
        f"ONNX graphs do not know the map {the_map.text}", Suggestion("export", "to", "json")
    )


@_mapped.register
def _(the_map: Polynomial, made: Graph, Z: str, drawn: Matrix) -> list[str]:
    return _products(made, Z, monomial_factors(drawn.shape[1], the_map.order, False))


@_mapped.register
def _(the_map: Interactions, made: Graph, Z: str, drawn: Matrix) -> list[str]:
    return _products(made, Z, monomial_factors(drawn.shape[1], the_map.order, True))


def _products(made: Graph, Z: str, steps: Sequence[tuple[Any, Any]]) -> list[str]:
    """Monomials of each degree: those of degree k are x_j times one of degree k − 1."""
    blocks = [Z]
    for first, rest in steps:
        if not len(first):
            break
        blocks.append(made.node("Mul", made.taken(Z, first), made.taken(blocks[-1], rest)))
    return blocks


@_mapped.register
def _(the_map: ReducedPolynomial, made: Graph, Z: str, drawn: Matrix) -> list[str]:
    s = made.node("ReduceSum", Z, made.constant(np.array([1], dtype=np.int64)), keepdims=1)
    powers, sums = [Z], [s]
    for _ in range(1, the_map.order):
        powers.append(made.node("Mul", powers[-1], Z))
        sums.append(made.node("Mul", sums[-1], s))
    products = [made.node("Mul", Z, power) for power in sums[:-1]]
    return [*powers, *sums, *products]


@_mapped.register
def _(the_map: RandomFourier, made: Graph, Z: str, drawn: Matrix) -> list[str]:
    angle = made.node("MatMul", Z, made.constant(drawn.T))
    # cos a = sin(a + π/2): ONNX Runtime had a sine of doubles long before it had a cosine.
    ahead = made.node("Add", angle, made.constant(np.pi / 2.0))
    waves = made.node("Sin", made.joined([ahead, angle]))
    return [made.node("Mul", waves, made.constant(1.0 / np.sqrt(len(drawn))))]


@_mapped.register
def _(the_map: Hinges, made: Graph, Z: str, drawn: Matrix) -> list[str]:
    beyond = [made.node("Sub", Z, made.constant(knots)) for knots in drawn]
    return [Z, *(made.node("Max", one, made.constant(0.0)) for one in beyond)]


@_mapped.register
def _(the_map: Landmarks, made: Graph, Z: str, drawn: Matrix) -> list[str]:
    marks, across = drawn[:-1] * drawn[-1], made.constant(np.array([1], dtype=np.int64))
    near = made.node("Mul", Z, made.constant(drawn[-1]))
    product = made.node("MatMul", near, made.constant(2.0 * marks.T))
    square = made.node("ReduceSum", made.node("Mul", near, near), across, keepdims=1)
    apart = made.node("Sub", product, square)
    apart = made.node("Sub", apart, made.constant((marks * marks).sum(axis=1)))
    apart = made.node("Min", apart, made.constant(0.0))
    return [made.node("Exp", made.node("Mul", apart, made.constant(the_map.sharpness())))]


@_mapped.register
def _(the_map: Ranks, made: Graph, Z: str, drawn: Matrix) -> list[str]:
    # Below the first knot a constant, between two a line, above the last a constant.
    columns = []
    for j, (knots, score) in enumerate(zip(drawn[:KNOTS].T, drawn[KNOTS:].T, strict=True)):
        apart = np.diff(knots)
        slope = np.divide(np.diff(score), apart, out=np.zeros(KNOTS - 1), where=apart > 0.0)
        x = made.taken(Z, [j])
        x = made.node("Min", made.node("Max", x, made.constant(knots[0])), made.constant(knots[-1]))
        past = made.double(made.node("GreaterOrEqual", x, made.constant(knots[1:])))
        across = made.constant(np.array([1], dtype=np.int64))
        place = made.node("ReduceSum", past, across, keepdims=1)
        place = made.node("Cast", place, to=_type(np.dtype(np.int64)))
        place = made.node("Min", place, made.constant(np.int64(KNOTS - 2)))
        first, height, rise = (
            made.node("Gather", made.constant(table), place)
            for table in (knots[:-1], score[:-1], slope)
        )
        more = made.node("Mul", made.node("Sub", x, first), rise)
        columns.append(made.node("Add", height, more))
    return [made.joined(columns)]


@_mapped.register
def _(the_map: MapUnion, made: Graph, Z: str, drawn: Matrix) -> list[str]:
    blocks, at = [], 0
    for part in the_map.maps:
        blocks += _mapped(part, made, Z, drawn[at : at + part.n_params_per_feature])
        at += part.n_params_per_feature
    return blocks


# From terms to labels


def _decide(made: Graph, X: str, scores: Scores) -> None:
    """Scores, the label of the largest, and both probabilities."""
    classes = scores.classes
    solution: Any = scores.solution
    labels, seen = classes.labels, np.flatnonzero(classes.seen)
    out = made.output("score", np.dtype(float), ["n", classes.n_scores])
    if isinstance(solution, Average):
        sums = [_scored(made, X, part.fixed, part.solution, "") for part in solution.parts]
        f = made.node("Sum", *sums, name=out)
    else:
        f = _scored(made, X, scores.fixed, solution, out)
    if classes.n_scores == 1:
        ahead = made.node("Greater", f, made.constant(0.0))
        code = made.node("Cast", ahead, to=_type(np.dtype(np.int64)))
        best = made.node("Reshape", code, made.constant(np.array([-1], dtype=np.int64)))
    else:
        some = f if len(seen) == len(labels) else made.taken(f, seen)
        best = made.node("ArgMax", some, axis=1, keepdims=0)
        labels = labels[seen]
    labels = labels.astype(np.int64 if labels.dtype.kind in "iu" else str)
    out = made.output("prediction", labels.dtype, ["n"])
    made.node("Gather", made.constant(labels), best, name=out)
    probabilities(made, f, scores)


def _scored(
    made: Graph, X: str, fixed: FittedMap | None, solution: LinearScores | QuadraticScores, out: str
) -> str:
    """Scores of rows, through a map if there is one, under a name."""
    Z = X if fixed is None else _terms(made, X, fixed)
    near = made.node("Sub", Z, made.constant(solution.anchor))
    if not isinstance(solution, LinearScores):
        return _quadratic(made, near, solution, out)
    product = made.node("MatMul", near, made.constant(solution.coef.T))
    return made.node("Add", product, made.constant(solution.offset), name=out)


def _quadratic(made: Graph, near: str, solution: QuadraticScores, out: str) -> str:
    """Logarithms of densities, or of two classes their difference, under a name."""
    across = made.constant(np.array([1], dtype=np.int64))
    half, columns = made.constant(0.5), []
    for mean, root, offset in zip(solution.mean, solution.root, solution.offset, strict=True):
        v = made.node("MatMul", made.node("Sub", near, made.constant(mean)), made.constant(root))
        square = made.node("ReduceSum", made.node("Mul", v, v), across, keepdims=1)
        columns.append(made.node("Sub", made.constant(offset), made.node("Mul", half, square)))
    if len(solution.seen) == 2:
        return made.node("Sub", columns[1], columns[0], name=out)
    # A class that was never seen borrows a column, and is minus infinity whatever is in it.
    place = np.maximum(np.cumsum(solution.seen) - 1, 0)
    q = made.taken(made.joined(columns), place)
    return made.node("Add", q, made.constant(np.where(solution.seen, 0.0, -np.inf)), name=out)
