"""A model as one SQL statement that predicts each row of a table, in the database.

    columns → values → features → (x − mean)/deviation, cut off → terms of the map → scores
    scores → label, probabilities, strongest contributions

The columns are those of ``predict``. NULL and NaN are missing values. A row that ``predict`` would
refuse or leave without a prediction has NULL.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from counterpoise.engine.averaging import Average
from counterpoise.errors import DataError, OptionValue, Suggestion
from counterpoise.export import scores_to_export
from counterpoise.export.sql_features import (
    MAX_EXPONENT,
    Inputs,
    add_logistic,
    clip,
    interpolate,
    map_terms,
)
from counterpoise.export.sql_statement import (
    Branch,
    Node,
    Statement,
    add,
    binary,
    call,
    divide,
    exp,
    multiply,
    negate,
    subtract,
)
from counterpoise.feature_maps import FittedMap
from counterpoise.feature_maps.fitted import CLIP_DEVIATIONS
from counterpoise.solver.calibration import MAX_ABS_LOGIT, MAX_LOGIT, MIN_SLOPE, CalibrationCurve
from counterpoise.solver.score_functions import LinearScores, QuadraticScores
from counterpoise.solver.scores import Scores
from counterpoise.tables.model import TableModel


class Request(NamedTuple):
    """Parts of the statement to write."""

    dialect: str
    table: str
    view: str | None = None  # name of the view to create; None for a query
    ids: tuple[str, ...] = ()  # columns of the table to copy
    explain: int = 0  # number of the strongest contributions


def build_sql(stored: TableModel, request: Request, positive: Any) -> str:
    """Build a statement that predicts as a model does; two classes have the score of one."""
    scores = scores_to_export(stored)
    statement = Statement(request.dialect, request.table)
    inputs = Inputs(statement, stored, scores.effects)
    ScoreColumns(statement, inputs, scores).add()
    labels = [label.item() for label in scores.classes.labels]
    values = labels
    if inputs.encoding.labels == "bool":  # learned as text
        values = [label.lower() == "true" for label in labels]
    outputs: dict[str, Node] = {"prediction": _prediction(statement, scores, values)}
    seen = scores.classes.seen
    if scores.classes.n_scores == 1:
        score, is_second = statement.column("f_0"), labels.index(positive) == 1
        outputs["score"] = score if is_second else negate(score)
    else:
        for k, label in enumerate(labels):
            outputs[f"score_{label}"] = _score(statement, scores, k)
    for kind, name in (("proba_balanced", "pb"), ("proba_stream", "ps")):
        for k, label in enumerate(labels):
            column = statement.column(f"{name}_{k}")
            zero = statement.choose([(_is_allowed(statement), statement.number(0.0))], None)
            outputs[f"{kind}_{label}"] = column if seen[k] else zero
    _add_probabilities(statement, scores)
    if request.explain:
        sign = -1.0 if scores.classes.n_scores == 1 and not labels.index(positive) else 1.0
        limits = request.explain, sign
        outputs |= _add_reasons(statement, stored, inputs, scores, limits)
    clash = [name for name in request.ids if name in outputs]
    if clash:
        raise DataError(
            (OptionValue("id"), f": column {clash[0]!r} is a column of the predictions; rename it")
        )
    statement.require_names("columns of the view", [*request.ids, *outputs])
    return statement.finish(statement.select(request.ids, outputs), request.view)


# From features to scores


class ScoreColumns:
    """Stages from features to the columns f_0, f_1, ... of scores."""

    def __init__(self, statement: Statement, inputs: Inputs, scores: Scores) -> None:
        self._statement, self._inputs, self._scores = statement, inputs, scores
        self._terms: list[list[Node]] = [
            [statement.column(names[q]) for names in inputs.effects.values()]
            for q in range(scores.classes.n_scores)
        ]
        self._features: list[str] = []
        self._scaled: dict[Any, list[str]] = {}  # columns by their scaling

    def add(self) -> None:
        """Add the stages."""
        statement, scores = self._statement, self._scores
        solution: Any = scores.solution
        parts: Sequence[Any] = solution.parts if isinstance(solution, Average) else [scores]
        for i, part in enumerate(parts):
            self._add_part(i, part.fixed, part.solution)
        columns = {
            f"f_{q}": statement.choose([(_is_allowed(statement), statement.sum(terms))], None)
            for q, terms in enumerate(self._terms)
            if len(self._terms) == 1 or scores.classes.seen[q]
        }
        statement.stage(columns)

    def _add_part(
        self, i: int, fixed: FittedMap | None, solution: LinearScores | QuadraticScores
    ) -> None:
        statement = self._statement
        if fixed is None and isinstance(solution, LinearScores):
            for q in self._finite(solution):
                found, constants = linear_terms(statement, self._inputs, solution, q)
                self._terms[q] += [node for nodes in found.values() for node in nodes]
                offset = math.fsum([float(solution.offset[q]), *constants.values()])
                self._terms[q].append(statement.number(offset))
            return
        if fixed is None:
            terms = list(map(statement.column, self._feature_names()))
        else:
            terms = map_terms(fixed.map, statement, self._scale(fixed), fixed.drawn, f"map_{i}")
        if isinstance(solution, QuadraticScores):
            self._add_quadratic(f"quadratic_{i}", terms, solution)
            return
        for q in self._finite(solution):
            w = solution.coef[q]
            pairs = zip(terms, w.tolist(), strict=True)
            self._terms[q] += [multiply(term, statement.number(x)) for term, x in pairs if x]
            offset = math.fsum([float(solution.offset[q]), *(-w * solution.anchor).tolist()])
            self._terms[q].append(statement.number(offset))

    def _finite(self, solution: LinearScores) -> list[int]:
        """Return the problems that have finite scores."""
        return [q for q in range(len(self._terms)) if np.isfinite(solution.offset[q])]

    def _add_quadratic(self, prefix: str, terms: Sequence[Node], solution: QuadraticScores) -> None:
        """Add logarithms of densities, or of two classes their difference."""
        statement, number = self._statement, self._statement.number
        pairs = zip(terms, solution.anchor.tolist(), strict=True)
        near = {f"{prefix}_{j}": subtract(term, number(a)) for j, (term, a) in enumerate(pairs)}
        statement.stage(near)
        columns: list[dict[str, Node]] = []
        for k, (mean, root) in enumerate(zip(solution.mean, solution.root, strict=True)):
            names = zip(near, mean.tolist(), strict=True)
            apart = [subtract(statement.column(name), number(m)) for name, m in names]
            columns.append({})
            for j, w in enumerate(root.T.tolist()):
                products = [multiply(a, number(x)) for a, x in zip(apart, w, strict=True) if x]
                columns[k][f"{prefix}_{k}_{j}"] = statement.sum(products)
        statement.stage({name: node for own in columns for name, node in own.items()})
        logs = {}
        for k, offset in enumerate(solution.offset.tolist()):
            found = list(map(statement.column, columns[k]))
            square = statement.sum([multiply(one, one) for one in found])
            logs[f"{prefix}_log_{k}"] = subtract(number(offset), multiply(number(0.5), square))
        statement.stage(logs)
        found = list(map(statement.column, logs))
        if len(solution.seen) == 2:
            self._terms[0].append(subtract(found[1], found[0]))
            return
        for q, node in zip(np.flatnonzero(solution.seen).tolist(), found, strict=True):
            self._terms[q].append(node)

    def _feature_names(self) -> list[str]:
        """Return columns with the features, in the order of the encoding."""
        if not self._features:
            features = enumerate(self._inputs.encoding.features)
            columns = {f"x_{j}": self._inputs.expression(j, feature) for j, feature in features}
            self._statement.stage(columns)
            self._features = list(columns)
        return self._features

    def _scale(self, fixed: FittedMap) -> list[str]:
        """Return columns with standardized and clipped features."""
        key = fixed.mean.tobytes(), fixed.deviation.tobytes(), fixed.missing
        if key in self._scaled:
            return self._scaled[key]
        statement, zero = self._statement, self._statement.number(0.0)
        i, features = len(self._scaled), self._feature_names()
        imputed = {at: (by, present) for at, by, present in fixed.missing}
        scaling = zip(features, fixed.mean.tolist(), fixed.deviation.tolist(), strict=True)
        raw: dict[str, Node] = {}
        for j, (name, mean, deviation) in enumerate(scaling):
            centred = subtract(statement.column(name), statement.number(mean))
            z = divide(centred, statement.number(deviation))
            if j in imputed:
                by, present = imputed[j]
                kind = exp.EQ if present else exp.NEQ
                is_missing = binary(kind, statement.column(features[by]), zero)
                z = statement.choose([(is_missing, zero)], z)
            raw[f"y_{i}_{j}"] = z
        statement.stage(raw)
        limits = -CLIP_DEVIATIONS, CLIP_DEVIATIONS
        clipped = {f"z_{i}_{j}": clip(statement, name, *limits) for j, name in enumerate(raw)}
        statement.stage(clipped)
        self._scaled[key] = list(clipped)
        return self._scaled[key]


def linear_terms(
    statement: Statement, inputs: Inputs, solution: LinearScores, q: int
) -> tuple[dict[str, list[Node]], dict[str, float]]:
    """Return the terms of a score by column, and constants that add to them.

    Numbers are relative to the anchor, so that no digit is lost far from zero.
    """
    found: dict[str, list[Node]] = {}
    constants: dict[str, float] = {}
    number = statement.number
    for column, features in inputs.features.items():
        terms: list[Node] = []
        branches: list[Branch] = []
        folded = [0.0]
        weights = {j: float(solution.coef[q, j]) for j, _ in features}
        for j, feature in features:
            w, anchor = weights[j], float(solution.anchor[j])
            if not w:
                continue
            if feature.kind == "number":
                x = inputs.expression(j, feature)
                x = subtract(x, number(anchor)) if anchor else x
                terms.append(multiply(x, number(w)))
                continue
            folded.append(-w * anchor)
            if feature.kind == "cycle":
                terms.append(multiply(inputs.expression(j, feature), number(w)))
            elif feature.kind == "missing":
                branches.append((inputs.is_missing(column), number(w)))
        # A branch of weight 0 stays, because another spelling of it may follow.
        categories = inputs.categories(column)
        branches += [(when, number(weights[j])) for j, when in categories]
        if any(weights[j] for j, f in features if f.kind in ("missing", "category")):
            terms.append(statement.choose(branches))
        found[column], constants[column] = terms, math.fsum(folded)
    return found, constants


# From scores to labels and probabilities


def _prediction(statement: Statement, scores: Scores, labels: Sequence[Any]) -> Node:
    """Return the label of the highest score; the first one of several."""
    if scores.classes.n_scores == 1:
        zero, f = statement.number(0.0), statement.column("f_0")
        is_second, is_first = binary(exp.GT, f, zero), binary(exp.LTE, f, zero)
        branches = [(is_second, statement.value(labels[1])), (is_first, statement.value(labels[0]))]
        return statement.choose(branches, None)
    seen = np.flatnonzero(scores.classes.seen).tolist()
    statement.stage({"best": statement.largest([f"f_{k}" for k in seen])})
    return statement.choose(
        [(_is_best(statement, k), statement.value(labels[k])) for k in seen], None
    )


def _is_best(statement: Statement, k: int) -> Node:
    """Return the condition that the score of a class is the highest."""
    return binary(exp.EQ, statement.column(f"f_{k}"), statement.column("best"))


def _score(statement: Statement, scores: Scores, k: int) -> Node:
    """Return the score of one of several classes; NULL if it is minus infinity in every row."""
    if scores.classes.seen[k]:
        return statement.column(f"f_{k}")
    offset = getattr(scores.solution, "offset", [])
    is_finite = isinstance(scores.solution, LinearScores) and np.isfinite(offset[k])
    absent = statement.number(float(offset[k])) if is_finite else exp.null()
    return statement.choose([(_is_allowed(statement), statement.double(absent))], None)


def _is_allowed(statement: Statement) -> Node:
    """Return the condition that a row has a prediction."""
    return binary(exp.EQ, statement.column("refused"), statement.number(0.0))


def _add_probabilities(statement: Statement, scores: Scores) -> None:
    """Add the columns pb_k and ps_k of balanced and stream probabilities of the classes seen."""
    link, calibration = scores.link, scores.calibration
    assert link is not None
    seen = np.flatnonzero(scores.classes.seen).tolist()
    is_calibrated = calibration is not None and bool(calibration.rows)
    shift, evenly = link.shift.tolist(), dict.fromkeys(seen, 1.0 / len(seen))
    stream = {k: float(link.frequency[k]) for k in seen}
    for i, (name, base) in enumerate((("pb", evenly), ("ps", stream))):
        into = "q" if is_calibrated and i else name
        slope, shifts = float(link.slopes[i]), {k: i * shift[k] for k in seen}
        mixture = float(link.silent)
        if scores.classes.n_scores == 1:
            statement.stage({f"l_{name}": _line(statement, "f_0", slope, shifts[1] - shifts[0])})
            one = statement.column(add_logistic(statement, f"l_{name}"))
            shares = {0: subtract(statement.number(1.0), one), 1: one}
        else:
            shares = _add_softmax(statement, name, slope, shifts)
        statement.stage(
            {
                f"{into}_{k}": add(
                    multiply(share, statement.number(1.0 - mixture)),
                    statement.number(mixture * base[k]),
                )
                for k, share in shares.items()
            }
        )
    if is_calibrated and calibration is not None:
        _add_calibrated(statement, seen, calibration.curves_for(scores.classes.labels))


def _line(statement: Statement, name: str, slope: float, shift: float) -> Node:
    """Return a linear function of a column."""
    product = multiply(statement.column(name), statement.number(slope))
    return add(product, statement.number(shift)) if shift else product


def _add_softmax(
    statement: Statement, name: str, slope: float, shifts: Mapping[int, float]
) -> dict[int, Node]:
    """Return the shares of classes, with the largest exponent subtracted."""
    column = statement.column
    lines = {f"l_{name}_{k}": _line(statement, f"f_{k}", slope, x) for k, x in shifts.items()}
    statement.stage(lines)
    statement.stage({f"m_{name}": statement.largest(list(lines))})
    powers = {}
    for k in shifts:
        below = subtract(column(f"l_{name}_{k}"), column(f"m_{name}"))
        is_low = binary(exp.LT, below, statement.number(-MAX_EXPONENT))
        power = call("EXP", below)
        powers[f"e_{name}_{k}"] = statement.choose([(is_low, statement.number(0.0))], power)
    statement.stage(powers)
    statement.stage({f"t_{name}": statement.sum(list(map(column, powers)))})
    return {k: divide(column(f"e_{name}_{k}"), column(f"t_{name}")) for k in shifts}


def _add_calibrated(
    statement: Statement, seen: Sequence[int], curves: Sequence[CalibrationCurve | None]
) -> None:
    """Add the columns ps_k: probabilities q_k that calibration curves correct."""
    column, is_binary = statement.column, len(curves) == 2
    corrected = [1] if is_binary else list(seen)
    if is_binary:
        statement.stage({"rest_1": column("q_0")})
    else:
        statement.stage({"total_q": statement.sum([column(f"q_{k}") for k in seen])})
        others = {k: subtract(column("total_q"), column(f"q_{k}")) for k in corrected}
        statement.stage({f"rest_{k}": other for k, other in others.items()})
    odds = {}
    for k in corrected:  # LN of 0 is an error
        rest, zero = column(f"rest_{k}"), statement.number(0.0)
        logit = subtract(call("LN", column(f"q_{k}")), call("LN", rest))
        most = binary(exp.LTE, rest, zero), statement.number(MAX_ABS_LOGIT)
        odds[f"odds_{k}"] = statement.choose([(binary(exp.GT, rest, zero), logit), most], None)
    statement.stage(odds)
    limits = -MAX_ABS_LOGIT, MAX_ABS_LOGIT
    statement.stage({f"logit_{k}": clip(statement, f"odds_{k}", *limits) for k in corrected})
    curved = {}
    for k in corrected:
        curve, name = curves[k], f"logit_{k}"
        is_empty = curve is None or not len(curve.at)
        curved[f"curve_{k}"] = (
            column(name)
            if is_empty or curve is None
            else interpolate(statement, name, curve.at, curve.z, MIN_SLOPE)
        )
    statement.stage(curved)
    shares = {}
    for k in corrected:
        statement.stage({f"z_{k}": clip(statement, f"curve_{k}", -MAX_LOGIT, MAX_LOGIT)})
        shares[k] = column(add_logistic(statement, f"z_{k}"))
    if is_binary:
        statement.stage({"ps_0": subtract(statement.number(1.0), shares[1]), "ps_1": shares[1]})
        return
    statement.stage({"total_z": statement.sum(list(shares.values()))})
    statement.stage({f"ps_{k}": divide(share, column("total_z")) for k, share in shares.items()})


# Contributions


def _add_reasons(
    statement: Statement,
    stored: TableModel,
    inputs: Inputs,
    scores: Scores,
    limits: tuple[int, float],
) -> dict[str, Node]:
    """Return the columns that contribute most to the score of a row, and their shares.

    ``limits`` is their number, and the sign of shares. Contributions of a linear score differ from
    those of the anchor by its terms.
    """
    solution: Any = scores.solution
    if scores.fixed is not None or not isinstance(solution, LinearScores):
        raise DataError(
            (OptionValue("explain"), " requires linear scores without a feature map in SQL"),
            Suggestion("leave it out"),
        )
    anchor = np.concatenate([solution.anchor, np.zeros(len(inputs.encoding.vocabularies))])
    base = stored.scorer.explain(anchor[None]).values[0]
    base = base[None] if base.ndim == 1 else base
    columns, column, number = list(inputs.features), statement.column, statement.number
    problems = [0] if len(base) == 1 else np.flatnonzero(scores.classes.seen).tolist()
    found = {}
    for q in problems:
        terms, constants = linear_terms(statement, inputs, solution, q)
        for i, name in enumerate(columns):
            nodes = [*terms[name], number(float(base[q, i]) + constants[name])]
            nodes += [column(inputs.effects[name][q])] if name in inputs.effects else []
            whole = [(_is_allowed(statement), statement.sum(nodes))]
            found[f"part_{q}_{i}"] = statement.choose(whole, None)
    statement.stage(found)
    decisive = {
        f"part_{i}": column(f"part_0_{i}")
        if len(base) == 1
        else statement.choose(
            [(_is_best(statement, q), column(f"part_{q}_{i}")) for q in problems], None
        )
        for i in range(len(columns))
    }
    statement.stage(decisive)
    left = {f"size_0_{i}": call("ABS", column(name)) for i, name in enumerate(decisive)}
    statement.stage(left)
    statement.stage({"all_sizes": statement.sum(list(map(column, left)))})
    count, sign = limits
    outputs: dict[str, Node] = {}
    for n in range(count):
        if n >= len(columns):
            outputs[f"reason_{n + 1}"] = exp.null()
            outputs[f"share_{n + 1}"] = exp.null()
            continue
        sizes = [f"size_{n}_{i}" for i in range(len(columns))]
        statement.stage({f"largest_{n}": statement.largest(sizes)})
        is_largest = [binary(exp.EQ, column(name), column(f"largest_{n}")) for name in sizes]
        chosen = [(one, exp.Literal.number(str(i))) for i, one in enumerate(is_largest)]
        statement.stage({f"chosen_{n}": statement.choose(chosen, None)})
        is_chosen = [
            binary(exp.EQ, column(f"chosen_{n}"), exp.Literal.number(str(i)))
            for i in range(len(columns))
        ]
        names = [statement.text("column of the model", name) for name in columns]
        parts = list(map(column, decisive))
        outputs[f"reason_{n + 1}"] = statement.choose(
            list(zip(is_chosen, names, strict=True)), None
        )
        value = statement.choose([(c, x) for c, x in zip(is_chosen, parts, strict=True)], None)
        share = divide(multiply(value, number(sign)), column("all_sizes"))
        has_sizes = binary(exp.GT, column("all_sizes"), number(0.0))
        is_zero = binary(exp.EQ, column("all_sizes"), number(0.0))
        branches = [(has_sizes, share), (is_zero, number(0.0))]
        outputs[f"share_{n + 1}"] = statement.choose(branches, None)
        rest = {
            f"size_{n + 1}_{i}": statement.choose([(one, number(-1.0))], column(name))
            for i, (name, one) in enumerate(zip(sizes, is_chosen, strict=True))
        }
        statement.stage(rest)
    return outputs
