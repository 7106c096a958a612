"""A model as an ONNX graph: columns in, labels and scores out, in double precision throughout.

    columns → features → (x − mean)/deviation, cut off → terms of the map → scores → label
    columns with many categories → effects of the categories → scores

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
from counterpoise.encoding.columns import MANY_CATEGORIES, Feature
from counterpoise.encoding.encoder import ColumnEncoder
from counterpoise.encoding.kinds import CYCLES, is_text
from counterpoise.engine.averaging import Average
from counterpoise.errors import DataError, Suggestion
from counterpoise.export import missing_value_constants, scores_to_export
from counterpoise.feature_maps import FittedMap, Map
from counterpoise.feature_maps.base import MapUnion
from counterpoise.feature_maps.fitted import CLIP_DEVIATIONS
from counterpoise.feature_maps.kernel_maps import Landmarks, RandomFourier
from counterpoise.feature_maps.piecewise import KNOTS, Hinges, Ranks, Steps
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
    g = made.node("MatMul", f, np.array([[-0.5, 0.5]])) if c == 2 else f
    double = np.dtype(float)
    out = [made.output(name, double, ["n", c]) for name in ("proba_balanced", "proba_stream")]
    _softmax(made, g, link, 0, np.zeros(c), seen / seen.sum(), seen, out[0])
    is_calibrated = scores.calibration is not None and bool(scores.calibration.rows)
    name = "" if is_calibrated else out[1]
    p = _softmax(made, g, link, 1, link.shift, link.frequency, seen, name)
    if is_calibrated and scores.calibration is not None:
        _calibrate(made, p, scores.calibration.curves_for(classes.labels), seen, out[1])


def _softmax(
    made: Graph, g: str, link: Link, k: int, shift: Vector, base: Vector, seen: Flags, name: str
) -> str:
    """Return (1 − silent) softmax(slopes[k] g + shift) + silent base."""
    if not seen.all():  # scores of what was never seen are minus infinity, or anything
        g = made.node("Where", seen[None, :], g, 0.0)
    g = made.node("Mul", g, float(link.slopes[k]))
    log_p = made.node("Add", g, np.where(seen, shift, -np.inf))
    top = made.node("ReduceMax", log_p, np.array([1]), keepdims=1)
    p = made.node("Exp", made.node("Sub", log_p, top))
    p = made.node("Div", p, made.row_sums(p))
    p = made.node("Mul", p, 1.0 - link.silent)
    return made.node("Add", p, link.silent * base, name=name)


def _calibrate(
    made: Graph, p: str, curves: list[CalibrationCurve | None], seen: Flags, name: str
) -> None:
    """Add the output of probabilities that calibration curves correct."""
    is_binary = len(seen) == 2
    others = made.gather(p, [1, 0]) if is_binary else made.node("Sub", made.row_sums(p), p)
    others = made.node("Max", others, 0.0)
    logit = made.node("Sub", made.node("Log", p), made.node("Log", others))
    logit = made.node("Clip", logit, -MAX_ABS_LOGIT, MAX_ABS_LOGIT)
    if is_binary:
        z = _curve(made, made.gather(logit, [1]), curves[1])
        z = made.node("MatMul", z, np.array([[-1.0, 1.0]]))
    else:
        columns = [_curve(made, made.gather(logit, [k]), curve) for k, curve in enumerate(curves)]
        z = made.concatenate(columns)
    odds = made.node("Exp", made.node("Neg", z))
    q = made.node("Div", 1.0, made.node("Add", 1.0, odds), name=name if is_binary else "")
    if not is_binary:
        q = made.node("Mul", q, seen.astype(float))
        made.node("Div", q, made.row_sums(q), name=name)


def _curve(made: Graph, logit: str, curve: CalibrationCurve | None) -> str:
    """Return a piecewise linear function of a column: a line, and a bend at each knot."""
    if curve is None or not len(curve.at):
        return logit
    width = np.maximum(np.diff(curve.at), 1e-300)
    slopes: Matrix = np.concatenate([[MIN_SLOPE], np.diff(curve.z) / width, [MIN_SLOPE]])
    above = made.node("Max", made.node("Sub", logit, curve.at), 0.0)
    first = made.node("Sub", logit, float(curve.at[0]))
    line = made.node("Add", made.node("Mul", first, MIN_SLOPE), float(curve.z[0]))
    z = made.node("Add", line, made.node("MatMul", above, np.diff(slopes)[:, None]))
    return made.node("Clip", z, -MAX_LOGIT, MAX_LOGIT)


DOMAINS = {"": 18, "ai.onnx.ml": 3, "com.microsoft": 1}  # and the versions of their operators
FORMAT = 8  # of the file: the oldest that has these operators

Block = tuple[str, list[int]]  # columns of a graph, and which features they are


def build_graph(stored: TableModel) -> bytes:
    """Build an ONNX graph that predicts as a model does."""
    try:
        import onnx  # noqa: F401
    except ImportError as error:
        raise DataError("ONNX export requires onnx: pip install 'counterpoise[onnx]'") from error
    scores = scores_to_export(stored)
    made = Graph()
    columns = [feature.column for feature in stored.encoding.features]
    columns += stored.encoding.vocabularies
    names = {column: f"column_{j}" for j, column in enumerate(dict.fromkeys(columns))}
    X = _features(made, stored.encoding, names, missing_value_constants(stored))
    _decide(made, X, scores, _effects(made, stored.encoding, names, scores))
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
        """Add a column (n, 1) of float or str, and return its name."""
        self._inputs.append(_value_info(name, np.dtype(kind), ["n", 1], column))
        return name

    def output(self, name: str, dtype: np.dtype[Any], shape: list[str | int]) -> str:
        """Add an output, and return its name for the node that computes it."""
        self._outputs.append(_value_info(name, dtype, shape))
        return name

    def _constant(self, value: ArrayLike) -> str:
        from onnx import numpy_helper

        array = np.asarray(value)
        name = f"constant_{len(self._constants)}"
        plain = array.astype(object) if array.dtype.kind == "U" else np.ascontiguousarray(array)
        self._constants.append(numpy_helper.from_array(plain, name))
        return name

    def node(
        self, operator: str, *inputs: Any, name: str = "", domain: str = "", **attributes: Any
    ) -> str:
        """Add an operator with one output, and return the name of that.

        An input is the name of another output, or an array or a number that is a constant.
        """
        from onnx import helper

        self._domains.add(domain)
        name = name or f"{operator.lower()}_{len(self._nodes)}"
        found = [one if isinstance(one, str) else self._constant(one) for one in inputs]
        made = helper.make_node(operator, found, [name], name=name, domain=domain, **attributes)
        self._nodes.append(made)
        return name

    def concatenate(self, blocks: Sequence[str]) -> str:
        """Return blocks of columns side by side."""
        return blocks[0] if len(blocks) == 1 else self.node("Concat", *blocks, axis=1)

    def gather(self, X: str, columns: ArrayLike) -> str:
        """Return some columns of a block."""
        return self.node("Gather", X, np.asarray(columns, dtype=np.int64), axis=1)

    def row_sums(self, X: str) -> str:
        """Return the sums (n, 1) of the columns of a block."""
        return self.node("ReduceSum", X, np.array([1]), keepdims=1)

    def double(self, flags: str) -> str:
        """Return booleans as 0.0 and 1.0."""
        return self.node("Cast", flags, to=_type(np.dtype(float)))

    def finish(self, metadata: dict[str, Any]) -> bytes:
        """Return the graph as the bytes of a file."""
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


def _value_info(name: str, dtype: np.dtype[Any], shape: list[str | int], column: str = "") -> Any:
    from onnx import helper

    return helper.make_tensor_value_info(name, _type(dtype), shape, column)


# From columns to features

EXPORTED_KINDS = ("number", "category", "datetime", "epoch", "hash", MANY_CATEGORIES)


def _features(
    made: Graph, encoding: ColumnEncoder, names: dict[str, str], blank: dict[Feature, float]
) -> str:
    """Return rows of features, in the order of the encoding."""
    for column, kind in encoding.kinds.items():
        if kind not in EXPORTED_KINDS:
            raise DataError(
                f"column {column!r} has the kind {kind}, which cannot be exported as ONNX",
                Suggestion("export", "to", "sklearn"),
            )
    text = [column for column in names if is_text(encoding.kinds.get(column))]
    numbers = {column: name for column, name in names.items() if column not in text}
    blocks = _numbers(made, encoding, numbers, blank) if numbers else []
    for column in text:
        blocks += _text(made, encoding, column, made.input(names[column], str, column))
    X = made.concatenate([block for block, _ in blocks])
    order = np.argsort([position for _, positions in blocks for position in positions])
    return X if (order == np.arange(len(order))).all() else made.gather(X, order)


def _select(made: Graph, X: str, kept: list[Feature], encoding: ColumnEncoder) -> list[Block]:
    """Return the columns of a block that are features of the encoding, with their positions."""
    at = {feature: j for j, feature in enumerate(encoding.features)}
    mine = [i for i, feature in enumerate(kept) if feature in at]
    block = X if len(mine) == len(kept) else made.gather(X, mine)
    return [(block, [at[kept[i]] for i in mine])] if mine else []


def _numbers(
    made: Graph, encoding: ColumnEncoder, names: dict[str, str], blank: dict[Feature, float]
) -> list[Block]:
    """Return features of columns of numbers and dates, and their indicators."""
    X = made.concatenate([made.input(name, float, column) for column, name in names.items()])
    result = _cycles(made, encoding, list(names), X, blank)
    numbers, missing = ([Feature(name, kind) for name in names] for kind in ("number", "missing"))
    if not encoding.columns.uses_indicators:
        return result + _select(made, X, numbers, encoding)
    is_missing = made.node("IsNaN", X)
    constants = np.array([[blank.get(feature, 0.0) for feature in numbers]])
    X = made.node("Where", is_missing, constants, X)
    result += _select(made, X, numbers, encoding)
    flags = _select(made, is_missing, missing, encoding)
    return result + [(made.double(block), positions) for block, positions in flags]


def _cycles(
    made: Graph, encoding: ColumnEncoder, columns: list[str], X: str, blank: dict[Feature, float]
) -> list[Block]:
    """Return the phases of the day, the week and the year of the dates among the columns X."""
    dates = [i for i, column in enumerate(columns) if encoding.kinds.get(column) == "datetime"]
    if not dates:
        return []
    seconds = X if len(dates) == len(columns) else made.gather(X, dates)
    is_missing = made.node("IsNaN", seconds) if encoding.columns.uses_indicators else ""
    result = []
    for cycle, (length, start) in CYCLES.items():
        past = made.node("Sub", seconds, start)
        past = made.node("Mod", past, length, fmod=1)  # with the sign of the date
        before = made.node("Less", past, 0.0)
        past = made.node("Where", before, made.node("Add", past, length), past)
        phase = made.node("Mul", past, 2.0 * np.pi / length)
        ahead = made.node("Add", phase, np.pi / 2.0)  # cos a = sin(a + π/2)
        for wave, angle in (("sin", phase), ("cos", ahead)):
            features = [Feature(columns[i], "cycle", f"{cycle} {wave}") for i in dates]
            block = made.node("Sin", angle)
            if is_missing:
                constants = np.array([[blank.get(f, 0.0) for f in features]])
                block = made.node("Where", is_missing, constants, block)
            result += _select(made, block, features, encoding)
    return result


def _text(made: Graph, encoding: ColumnEncoder, column: str, X: str) -> list[Block]:
    """Return features of a column of text: one per category or bucket, and the indicator."""
    found = {feature: j for j, feature in enumerate(encoding.features) if feature.column == column}
    missing = found.pop(Feature(column, "missing"), None)
    values, positions = [feature.value for feature in found], list(found.values())
    if encoding.kinds[column] == MANY_CATEGORIES:  # whose categories have effects
        position = int("" in encoding.vocabularies[column].values)
        is_missing = made.node("Equal", _encode_text(made, X, [""]), np.int64(position))
        return [] if missing is None else [(made.double(is_missing), [missing])]
    if encoding.kinds[column] == "hash":
        seed, buckets = encoding.columns.seed, encoding.columns.buckets[column]
        hashed = made.node("MurmurHash3", X, domain="com.microsoft", positive=1, seed=seed)
        hashed = made.node("Cast", hashed, to=_type(np.dtype(np.int64)))
        codes, wanted = made.node("Mod", hashed, np.int64(buckets)), list(map(int, values))
    else:
        codes, wanted = _encode_text(made, X, values), list(range(len(values)))
    chosen = made.node("Equal", codes, np.array([wanted], dtype=np.int64))
    if "" in values:  # a category like any other
        return [(made.double(chosen), positions)]
    is_missing = made.node("Equal", _encode_text(made, X, [""]), np.zeros((1, 1), np.int64))
    if not encoding.columns.uses_indicators:
        nothing = made.node("Where", is_missing, np.nan, 0.0)
        return [(made.node("Add", made.double(chosen), nothing), positions)]
    here = made.node("And", chosen, made.node("Not", is_missing))
    more = [] if missing is None else [(made.double(is_missing), [missing])]
    return [(made.double(here), positions), *more]


def _effects(
    made: Graph, encoding: ColumnEncoder, names: dict[str, str], scores: Scores
) -> list[str]:
    """Return the effects (n, problems) of the categories of each column that has many of them.

    Where rows with missing values have no scores, the effect of a missing category is NaN.
    """
    tables = () if scores.effects is None else scores.effects.values
    result = []
    for (column, vocabulary), table in zip(encoding.vocabularies.items(), tables, strict=True):
        values, more = vocabulary.values, np.zeros((vocabulary.size - len(table), table.shape[1]))
        table = np.concatenate([table, more])
        if not encoding.columns.uses_indicators and "" not in values:
            values, table = [*values, ""], np.pad(table, ((0, 1), (0, 0)), constant_values=np.nan)
        table = np.pad(table, ((0, 1), (0, 0)))  # the last row, -1, is that of unseen categories
        at = made.node("Reshape", _encode_text(made, names[column], values), np.array([-1]))
        result.append(made.node("Gather", table, at, axis=0))
    return result


def _encode_text(made: Graph, X: str, values: list[str]) -> str:
    """Return the position of each cell among values, or −1."""
    return made.node(
        "LabelEncoder",
        X,
        domain="ai.onnx.ml",
        keys_strings=values,
        values_int64s=list(range(len(values))),
        default_int64=-1,
    )


# From features to mapped features


def _map_rows(made: Graph, X: str, fixed: FittedMap) -> str:
    """Return mapped features of rows, which are scaled and clipped first."""
    Z = made.node("Sub", X, fixed.mean)
    Z = made.node("Div", Z, fixed.deviation)
    if fixed.missing:  # a missing value is the mean of the map
        at, by, present = (list(column) for column in zip(*fixed.missing, strict=True))
        flags = made.node("Sub", made.gather(X, by), np.where(present, 1.0, 0.0))
        is_missing = made.node("MatMul", made.node("Abs", flags), np.eye(len(fixed.mean))[at])
        Z = made.node("Mul", Z, made.node("Sub", 1.0, is_missing))
    Z = made.node("Clip", Z, -CLIP_DEVIATIONS, CLIP_DEVIATIONS)
    return made.concatenate(_map_blocks(fixed.map, made, Z, fixed.drawn))


@singledispatch
def _map_blocks(the_map: Map, made: Graph, Z: str, drawn: Matrix) -> list[str]:
    """Return blocks of mapped features of scaled rows, given the parameters of the map."""
    raise DataError(
        f"the map {the_map.text} has no ONNX graph",
        Suggestion("export", "output_format", "json"),
    )


@_map_blocks.register
def _(the_map: Polynomial | Interactions, made: Graph, Z: str, drawn: Matrix) -> list[str]:
    # Monomials of degree k are x_j times one of degree k − 1.
    blocks = [Z]
    for first, others in monomial_factors(
        drawn.shape[1], the_map.order, isinstance(the_map, Interactions)
    ):
        if not len(first):
            break
        blocks.append(made.node("Mul", made.gather(Z, first), made.gather(blocks[-1], others)))
    return blocks


@_map_blocks.register
def _(the_map: ReducedPolynomial, made: Graph, Z: str, drawn: Matrix) -> list[str]:
    s = made.row_sums(Z)
    powers, sums = [Z], [s]
    for _ in range(1, the_map.order):
        powers.append(made.node("Mul", powers[-1], Z))
        sums.append(made.node("Mul", sums[-1], s))
    products = [made.node("Mul", Z, power) for power in sums[:-1]]
    return [*powers, *sums, *products]


@_map_blocks.register
def _(the_map: RandomFourier, made: Graph, Z: str, drawn: Matrix) -> list[str]:
    angle = made.node("MatMul", Z, drawn.T)
    # cos a = sin(a + π/2): ONNX Runtime had a sine of doubles long before it had a cosine.
    ahead = made.node("Add", angle, np.pi / 2.0)
    waves = made.node("Sin", made.concatenate([ahead, angle]))
    return [made.node("Mul", waves, 1.0 / np.sqrt(len(drawn)))]


@_map_blocks.register
def _(the_map: Hinges, made: Graph, Z: str, drawn: Matrix) -> list[str]:
    beyond = [made.node("Sub", Z, knots) for knots in drawn]
    return [Z, *(made.node("Max", one, 0.0) for one in beyond)]


@_map_blocks.register
def _(the_map: Landmarks, made: Graph, Z: str, drawn: Matrix) -> list[str]:
    marks = drawn[:-1] * drawn[-1]
    near = made.node("Mul", Z, drawn[-1])
    product = made.node("MatMul", near, 2.0 * marks.T)
    square = made.row_sums(made.node("Mul", near, near))
    apart = made.node("Sub", product, square)
    apart = made.node("Sub", apart, (marks * marks).sum(axis=1))
    apart = made.node("Min", apart, 0.0)
    return [made.node("Exp", made.node("Mul", apart, the_map.sharpness()))]


@_map_blocks.register
def _(the_map: Ranks, made: Graph, Z: str, drawn: Matrix) -> list[str]:
    # Below the first knot a constant, between two a line, above the last a constant.
    columns = []
    for j, (knots, score) in enumerate(zip(drawn[:KNOTS].T, drawn[KNOTS:].T, strict=True)):
        apart = np.diff(knots)
        slope = np.divide(np.diff(score), apart, out=np.zeros(KNOTS - 1), where=apart > 0.0)
        x = made.gather(Z, [j])
        x = made.node("Min", made.node("Max", x, knots[0]), knots[-1])
        past = made.row_sums(made.double(made.node("GreaterOrEqual", x, knots[1:])))
        at = made.node("Cast", past, to=_type(np.dtype(np.int64)))
        at = made.node("Min", at, np.int64(KNOTS - 2))
        tables = (knots[:-1], score[:-1], slope)
        first, height, rise = (made.node("Gather", table, at) for table in tables)
        more = made.node("Mul", made.node("Sub", x, first), rise)
        columns.append(made.node("Add", height, more))
    return [made.concatenate(columns)]


@_map_blocks.register
def _(the_map: Steps, made: Graph, Z: str, drawn: Matrix) -> list[str]:
    feature, threshold = the_map.thresholds(drawn)
    step = made.double(made.node("Greater", made.gather(Z, feature), threshold))
    first, second = (made.gather(step, half) for half in np.arange(len(drawn)).reshape(2, -1))
    return [step, made.node("Mul", first, second)]


@_map_blocks.register
def _(the_map: MapUnion, made: Graph, Z: str, drawn: Matrix) -> list[str]:
    blocks, at = [], 0
    for part in the_map.maps:
        blocks += _map_blocks(part, made, Z, drawn[at : at + part.n_params_per_feature])
        at += part.n_params_per_feature
    return blocks


# From mapped features to labels


def _decide(made: Graph, X: str, scores: Scores, effects: list[str]) -> None:
    """Add the outputs: scores, the label of the largest, and both probabilities."""
    classes = scores.classes
    solution: Any = scores.solution
    labels, seen = classes.labels, np.flatnonzero(classes.seen)
    out = made.output("score", np.dtype(float), ["n", classes.n_scores])
    parts = solution.parts if isinstance(solution, Average) else [scores]
    sums = [_add_scores(made, X, part.fixed, part.solution) for part in parts]
    f = made.node("Sum", *sums, *effects, name=out)
    if classes.n_scores == 1:
        ahead = made.node("Greater", f, 0.0)
        code = made.node("Cast", ahead, to=_type(np.dtype(np.int64)))
        best = made.node("Reshape", code, np.array([-1], dtype=np.int64))
    else:
        some = f if len(seen) == len(labels) else made.gather(f, seen)
        best = made.node("ArgMax", some, axis=1, keepdims=0)
        labels = labels[seen]
    labels = labels.astype(np.int64 if labels.dtype.kind in "iu" else str)
    out = made.output("prediction", labels.dtype, ["n"])
    made.node("Gather", labels, best, name=out)
    probabilities(made, f, scores)


def _add_scores(
    made: Graph, X: str, fixed: FittedMap | None, solution: LinearScores | QuadraticScores
) -> str:
    """Return scores of rows, through a map if there is one."""
    Z = X if fixed is None else _map_rows(made, X, fixed)
    near = made.node("Sub", Z, solution.anchor)
    if not isinstance(solution, LinearScores):
        return _quadratic(made, near, solution)
    return made.node("Add", made.node("MatMul", near, solution.coef.T), solution.offset)


def _quadratic(made: Graph, near: str, solution: QuadraticScores) -> str:
    """Return logarithms of densities, or of two classes their difference."""
    columns = []
    for mean, root, offset in zip(solution.mean, solution.root, solution.offset, strict=True):
        v = made.node("MatMul", made.node("Sub", near, mean), root)
        square = made.row_sums(made.node("Mul", v, v))
        columns.append(made.node("Sub", offset, made.node("Mul", 0.5, square)))
    if len(solution.seen) == 2:
        return made.node("Sub", columns[1], columns[0])
    # A class that was never seen borrows a column, and is minus infinity with any value in it.
    q = made.gather(made.concatenate(columns), np.maximum(np.cumsum(solution.seen) - 1, 0))
    return made.node("Add", q, np.where(solution.seen, 0.0, -np.inf))
