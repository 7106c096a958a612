"""Columns of a table as features and as terms of feature maps, in SQL expressions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import singledispatch

from counterpoise.arrays import Matrix, Vector
from counterpoise.encoding.columns import Feature
from counterpoise.encoding.kinds import BOOLEAN_TEXT, CYCLES, is_number, is_text, normalize_booleans
from counterpoise.errors import DataError, Suggestion
from counterpoise.export import missing_value_constants
from counterpoise.export.sql_statement import (
    Node,
    Statement,
    add,
    binary,
    call,
    coalesce,
    divide,
    exp,
    is_null,
    multiply,
    negate,
    subtract,
)
from counterpoise.feature_maps import Map
from counterpoise.feature_maps.base import MapUnion
from counterpoise.feature_maps.kernel_maps import Landmarks, RandomFourier
from counterpoise.feature_maps.piecewise import KNOTS, Hinges, Ranks, Steps
from counterpoise.feature_maps.polynomial import (
    Interactions,
    Polynomial,
    ReducedPolynomial,
    monomial_factors,
)
from counterpoise.solver.categories import CategoryEffects
from counterpoise.tables.model import TableModel
from counterpoise.validation import MAX_ABS_VALUE

MAX_EXPONENT = 700.0  # of EXP: PostgreSQL raises an error where the result is 0
OUT_OF_RANGE = 1e300  # stands for a cell that is not a number in SQLite


class Inputs:
    """Columns of the table as values, and features as expressions of these."""

    def __init__(
        self, statement: Statement, stored: TableModel, effects: CategoryEffects | None
    ) -> None:
        self._statement = statement
        self.encoding, self._constants = stored.encoding, missing_value_constants(stored)
        self.names: dict[str, str] = {}  # of the values of each column
        self.features: dict[str, list[tuple[int, Feature]]] = {}  # by column, with their positions
        for j, feature in enumerate(self.encoding.features):
            self.features.setdefault(feature.column, []).append((j, feature))
        for column in self.encoding.vocabularies:
            self.features.setdefault(column, [])
        statement.require_names("columns of the model", self.features)
        values: dict[str, Node] = {}
        for i, column in enumerate(self.features):
            self.names[column] = f"value_{i}"
            values[f"value_{i}"] = self._value(column)
        self.effects: dict[str, list[str]] = {}  # columns of the effects of categories, by column
        statement.stage(values | self._effect_columns(effects))
        problems = [one for column in self.features for one in self._problems(column)]
        is_refused = exp.or_(*problems, copy=False) if problems else exp.false()
        refused = statement.choose([(is_refused, statement.number(1.0))])
        statement.stage({"refused": refused})

    def _value(self, column: str) -> Node:
        """Return a column as text, numbers or seconds, with NULL where it is missing."""
        statement, kind = self._statement, self.encoding.kinds.get(column)
        if kind is None or (is_text(kind) and kind != "hash"):  # None: always missing
            return statement.source_text(column)
        if not is_number(kind):
            raise DataError(
                f"column {column!r} has the kind {kind}, which cannot be exported as SQL",
                Suggestion("export", "output_format", "onnx"),
            )
        source = statement.source(column)
        if kind != "number":
            return _seconds(statement, source)
        if statement.dialect == "sqlite":
            return _sqlite_number(statement, source, statement.number(OUT_OF_RANGE))
        number = statement.double(source)
        if statement.dialect == "bigquery":  # in which NaN is not equal to itself
            return statement.choose([(call("IS_NAN", number), exp.null())], number)
        nan = statement.double(exp.Literal.string("NaN"))
        return exp.Nullif(this=number, expression=nan)

    def _effect_columns(self, effects: CategoryEffects | None) -> dict[str, Node]:
        """Return the effects of the categories of columns that have many of them."""
        statement, result = self._statement, dict[str, Node]()
        tables = () if effects is None else effects.values
        vocabularies = self.encoding.vocabularies.items()
        for (column, vocabulary), table in zip(vocabularies, tables, strict=True):
            if not len(table):
                continue
            place, pairs = (
                f"category of column {column!r}",
                zip(vocabulary.values, table.tolist(), strict=False),
            )
            rows = [(statement.text(place, value), numbers) for value, numbers in pairs]
            found = statement.join(statement.source_text(column), rows)
            names = [f"{self.names[column]}_effect_{q}" for q in range(len(found))]
            self.effects[column] = names
            for name, effect in zip(names, found, strict=True):
                result[name] = coalesce(effect, statement.constant(0.0))
        return result

    def _problems(self, column: str) -> list[Node]:
        """Return the conditions under which a row has no prediction."""
        statement, value = self._statement, self._statement.column(self.names[column])
        result: list[Node] = []
        if is_number(self.encoding.kinds.get(column)):
            for kind, limit in ((exp.GT, MAX_ABS_VALUE), (exp.LT, -MAX_ABS_VALUE)):
                result.append(binary(kind, value, statement.number(limit)))
        if not self.encoding.columns.uses_indicators:
            result.append(is_null(value))
        return result

    def is_missing(self, column: str) -> Node:
        """Return the condition that a column is missing."""
        return is_null(self._statement.column(self.names[column]))

    def categories(self, column: str) -> list[tuple[int, Node]]:
        """Return the positions of features that are categories, and the condition of each."""
        statement, kept = self._statement, self.features[column]
        cell, place = statement.column(self.names[column]), f"category of column {column!r}"
        found = [(j, f.value) for j, f in kept if f.kind == "category"]
        pairs = [(j, cell, statement.text(place, value)) for j, value in found]
        at = {feature: j for j, feature in kept}
        has_booleans = any(value.lower() in BOOLEAN_TEXT for _, value in found)
        for text, digit in zip(BOOLEAN_TEXT, "10", strict=True) if has_booleans else ():
            j = at.get(normalize_booleans(column, [text], list(at))[0], -1)
            if j >= 0:
                pairs.append((j, call("LOWER", cell), exp.Literal.string(text)))
            if j >= 0 and statement.dialect == "sqlite":  # which stores booleans as 1 and 0
                pairs.append((j, cell, exp.Literal.string(digit)))
        return [(j, binary(exp.EQ, one, two)) for j, one, two in pairs]

    def expression(self, j: int, feature: Feature) -> Node:
        """Return a feature."""
        statement, one = self._statement, self._statement.number(1.0)
        if feature.kind == "missing":
            return statement.choose([(self.is_missing(feature.column), one)])
        if feature.kind == "category":
            mine = [when for at, when in self.categories(feature.column) if at == j]
            return statement.choose([(when, one) for when in mine])
        value = statement.column(self.names[feature.column])
        constant = self._constants.get(feature)
        if feature.kind == "number":
            return value if constant is None else coalesce(value, statement.constant(constant))
        cycle, _, wave = feature.value.partition(" ")
        length, start = (statement.number(x) for x in CYCLES[cycle])
        past = subtract(value, start) if CYCLES[cycle][1] else value
        past = subtract(past, multiply(call("FLOOR", divide(past, length)), length))
        phase = multiply(past, statement.number(2.0 * math.pi / CYCLES[cycle][0]))
        found = call(wave.upper(), phase)
        if constant is None:
            return found
        is_missing = self.is_missing(feature.column)
        return statement.choose([(is_missing, statement.number(constant))], found)


def _sqlite_number(statement: Statement, source: Node, other: Node) -> Node:
    """Return a cell as a number, NULL if it is NULL, or another value if it is not a number."""
    kinds = [exp.Literal.string(kind) for kind in ("integer", "real")]
    is_numeric = exp.In(this=call("TYPEOF", source), expressions=kinds)
    branches = [(is_numeric, statement.double(source)), (is_null(source), exp.null())]
    return statement.choose(branches, other)


def _seconds(statement: Statement, source: Node) -> Node:
    """Return the seconds since 1970 of dates and times in UTC."""
    dialect, million = statement.dialect, statement.number(1e6)
    if dialect in ("postgres", "duckdb"):
        return statement.double(exp.Extract(this=exp.Var(this="EPOCH"), expression=source))
    if dialect == "snowflake":
        unit = exp.Literal.string("epoch_microsecond")
        return divide(statement.double(call("DATE_PART", unit, source)), million)
    if dialect in ("bigquery", "spark"):
        time = exp.Cast(this=source, to=exp.DataType.build("timestamptz"))
        return divide(statement.double(call("UNIX_MICROS", time)), million)
    # SQLite: text in ISO 8601, or seconds. Its own functions round to milliseconds.
    one, point = exp.Literal.number("1"), call("INSTR", source, exp.Literal.string("."))
    zone = call("SUBSTR", source, add(point, one))
    zone = call("LTRIM", zone, exp.Literal.string("0123456789"))
    whole = binary(exp.DPipe, call("SUBSTR", source, one, subtract(point, one)), zone)
    fraction = binary(exp.DPipe, exp.Literal.string("0"), call("SUBSTR", source, point))
    with_point, without = (
        statement.double(call("STRFTIME", exp.Literal.string("%s"), text))
        for text in (whole, source)
    )
    has_point = binary(exp.GT, point, exp.Literal.number("0"))
    exact = add(with_point, statement.double(fraction))
    parsed = statement.choose([(has_point, exact)], without)
    return _sqlite_number(statement, source, coalesce(parsed, statement.number(OUT_OF_RANGE)))


@singledispatch
def map_terms(
    the_map: Map, statement: Statement, names: list[str], drawn: Matrix, prefix: str
) -> list[Node]:
    """Return the terms of a map of scaled features, given their columns and its parameters.

    Columns of new stages begin with the prefix.
    """
    raise DataError(
        f"the map {the_map.text} cannot be exported as SQL",
        Suggestion("export", "output_format", "onnx"),
    )


def _product(statement: Statement, names: Sequence[str]) -> Node:
    """Return the product of columns."""
    node = statement.column(names[0])
    for name in names[1:]:
        node = exp.Mul(this=node, expression=statement.column(name))
    return node


@map_terms.register
def _(
    the_map: Polynomial | Interactions,
    statement: Statement,
    names: list[str],
    drawn: Matrix,
    prefix: str,
) -> list[Node]:
    factors = [[name] for name in names]
    result = [_product(statement, own) for own in factors]
    is_distinct = isinstance(the_map, Interactions)
    for first, others in monomial_factors(len(names), the_map.order, is_distinct):
        pairs = zip(first.tolist(), others.tolist(), strict=True)
        factors = [[names[a], *factors[b]] for a, b in pairs]
        result += [_product(statement, own) for own in factors]
    return result


@map_terms.register
def _(
    the_map: ReducedPolynomial, statement: Statement, names: list[str], drawn: Matrix, prefix: str
) -> list[Node]:
    total, r = f"{prefix}_sum", the_map.order
    statement.stage({total: statement.sum(list(map(statement.column, names)))})
    powers = [[name] * k for k in range(1, r + 1) for name in names]
    sums = [[total] * k for k in range(1, r + 1)]
    products = [[name, *[total] * k] for k in range(1, r) for name in names]
    return [_product(statement, one) for one in (*powers, *sums, *products)]


@map_terms.register
def _(
    the_map: RandomFourier, statement: Statement, names: list[str], drawn: Matrix, prefix: str
) -> list[Node]:
    columns, unit = list(map(statement.column, names)), statement.number(1.0 / len(drawn) ** 0.5)
    angles = {}
    for i, w in enumerate(drawn.tolist()):
        pairs = zip(columns, w, strict=True)
        products = [multiply(column, statement.number(x)) for column, x in pairs if x]
        angles[f"{prefix}_angle_{i}"] = statement.sum(products)
    statement.stage(angles)
    waves = [(wave, statement.column(name)) for wave in ("COS", "SIN") for name in angles]
    return [multiply(call(*wave), unit) for wave in waves]


@map_terms.register
def _(
    the_map: Landmarks, statement: Statement, names: list[str], drawn: Matrix, prefix: str
) -> list[Node]:
    number, unit, powers = statement.number, drawn[-1].tolist(), {}
    sharpness = the_map.sharpness().tolist()
    for i, (mark, sharp) in enumerate(zip(drawn[:-1].tolist(), sharpness, strict=True)):
        squares = []
        for name, m, u in zip(names, mark, unit, strict=True):
            apart = multiply(subtract(statement.column(name), number(m)), number(u))
            squares.append(multiply(apart, apart))
        powers[f"{prefix}_power_{i}"] = multiply(statement.sum(squares), number(-sharp))
    statement.stage(powers)
    result = []
    for column in map(statement.column, powers):
        is_low = binary(exp.LT, column, number(-MAX_EXPONENT))
        result.append(statement.choose([(is_low, number(0.0))], call("EXP", column)))
    return result


@map_terms.register
def _(
    the_map: Hinges, statement: Statement, names: list[str], drawn: Matrix, prefix: str
) -> list[Node]:
    columns = list(map(statement.column, names))
    result = list(map(statement.column, names))
    for knots in drawn.tolist():
        for column, knot in zip(columns, map(statement.number, knots), strict=True):
            is_past = binary(exp.GT, column, knot)
            result.append(statement.choose([(is_past, subtract(column, knot))]))
    return result


@map_terms.register
def _(
    the_map: Ranks, statement: Statement, names: list[str], drawn: Matrix, prefix: str
) -> list[Node]:
    knots = zip(drawn[:KNOTS].T, drawn[KNOTS:].T, strict=True)
    columns = {
        f"{prefix}_rank_{j}": interpolate(statement, name, at, score, 0.0)
        for j, (name, (at, score)) in enumerate(zip(names, knots, strict=True))
    }
    statement.stage(columns)
    return list(map(statement.column, columns))


@map_terms.register
def _(
    the_map: Steps, statement: Statement, names: list[str], drawn: Matrix, prefix: str
) -> list[Node]:
    feature, threshold = the_map.thresholds(drawn)
    one = statement.number(1.0)
    above = [
        binary(exp.GT, statement.column(names[j]), statement.number(limit))
        for j, limit in zip(feature.tolist(), threshold.tolist(), strict=True)
    ]
    half = len(above) // 2
    both = [exp.and_(*pair) for pair in zip(above[:half], above[half:], strict=True)]
    return [statement.choose([(when, one)]) for when in (*above, *both)]


@map_terms.register
def _(
    the_map: MapUnion, statement: Statement, names: list[str], drawn: Matrix, prefix: str
) -> list[Node]:
    result, at = list[Node](), 0
    for i, one in enumerate(the_map.maps):
        own = drawn[at : at + one.n_params_per_feature]
        result += map_terms(one, statement, names, own, f"{prefix}_{i}")
        at += one.n_params_per_feature
    return result


def interpolate(statement: Statement, name: str, at: Vector, values: Vector, slope: float) -> Node:
    """Return a piecewise linear function of a column, with a slope beyond the outermost knots."""
    number, column = statement.number, statement.column(name)
    knots, heights = at.tolist(), values.tolist()

    def line(k: int, rise: float) -> Node:
        if not rise:
            return statement.constant(heights[k])
        return add(multiply(subtract(column, number(knots[k])), number(rise)), number(heights[k]))

    branches = [(binary(exp.LT, column, number(knots[0])), line(0, slope))]
    for k in range(len(knots) - 1):
        width = knots[k + 1] - knots[k]
        if width > 0.0:
            is_below = binary(exp.LT, column, number(knots[k + 1]))
            branches.append((is_below, line(k, (heights[k + 1] - heights[k]) / width)))
    is_beyond = binary(exp.GTE, column, number(knots[-1]))
    branches.append((is_beyond, line(len(knots) - 1, slope)))
    return statement.choose(branches, None)


def clip(statement: Statement, name: str, low: float, high: float) -> Node:
    """Return a column within limits."""
    column = statement.column(name)
    branches = [
        (binary(kind, column, statement.number(limit)), statement.number(limit))
        for kind, limit in ((exp.LT, low), (exp.GT, high))
    ]
    return statement.choose(branches, column)


def add_logistic(statement: Statement, name: str) -> str:
    """Add a stage with the logistic function of a column, and return its name."""
    one, column = statement.number(1.0), statement.column(name)
    is_large = binary(exp.GT, call("ABS", column), statement.number(MAX_EXPONENT))
    least = statement.number(math.exp(-MAX_EXPONENT))
    small = call("EXP", negate(call("ABS", column)))
    statement.stage({f"{name}_small": statement.choose([(is_large, least)], small)})
    below = add(one, statement.column(f"{name}_small"))
    is_positive = binary(exp.GTE, column, statement.number(0.0))
    less = divide(statement.column(f"{name}_small"), below)
    result = statement.choose([(is_positive, divide(one, below))], less)
    statement.stage({f"{name}_share": result})
    return f"{name}_share"
