"""One SQL statement of named stages: each computes columns of those before it, once for each row.

Names and values enter as nodes of sqlglot's syntax tree and never as text. An optimizer that pastes
the expression of a column into every place that uses it would compute a score thousands of times.
OFFSET 0 prevents that in PostgreSQL and SQLite. PostgreSQL computes stages as lateral subqueries,
so that a condition on other columns selects rows before they are scored.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from counterpoise.errors import DataError, OptionValue

try:
    from sqlglot import exp as exp
except ImportError as error:
    raise DataError("SQL export requires sqlglot: pip install 'counterpoise[sql]'") from error

DIALECTS = ("postgres", "duckdb", "sqlite", "bigquery", "snowflake", "spark")
COLLATIONS = {"postgres": "C", "duckdb": "C", "sqlite": "binary"}  # that compare bytes
MAX_NAME_BYTES = {"postgres": 63, "bigquery": 300, "snowflake": 255}
CASE_SENSITIVE = ("postgres", "snowflake")  # quoted names that differ in case only are two names
PART = r'(?:"(?:[^"]|"")+"|[^".]+)'  # of the name of a table
MAX_STAGE_COLUMNS = 1500  # PostgreSQL has 1,664, SQLite 2,000
MAX_TERMS = 100_000  # of all sums
MAX_LATERAL_TERMS = 500  # of all sums: PostgreSQL counts columns of a lateral subquery repeatedly
GROUP_TERMS = 32  # of a sum without parentheses: SQLite nests 1,000 operators at most
PREFIX = "counterpoise"  # of stages

Node = Any  # of the syntax tree; its classes differ between versions of sqlglot
Branch = tuple[Node, Node]  # condition and value


def binary(kind: type[exp.Binary], one: Node, two: Node, **options: bool) -> Node:
    """Return two operands and the operator between them, in parentheses where they need these."""
    is_sum = kind in (exp.Add, exp.Sub)
    return kind(this=_wrap(one, is_sum), expression=_wrap(two, is_sum), **options)


def _wrap(one: Node, is_in_sum: bool = False) -> Node:
    """Return an operand, in parentheses if it has an operator itself."""
    one = _own(one)
    if is_in_sum and isinstance(one, exp.Mul | exp.Div):
        return one
    return exp.Paren(this=one) if isinstance(one, exp.Binary) else one


def _own(one: Node) -> Node:
    """Return a node, copied if it is already part of an expression."""
    return one if one.parent is None else one.copy()


def add(one: Node, two: Node) -> Node:
    """Return a sum of two."""
    return binary(exp.Add, one, two)


def subtract(one: Node, two: Node) -> Node:
    """Return a difference."""
    return binary(exp.Sub, one, two)


def multiply(one: Node, two: Node) -> Node:
    """Return a product."""
    return binary(exp.Mul, one, two)


def divide(one: Node, two: Node) -> Node:
    """Return a quotient of doubles, to which sqlglot adds no cast."""
    return binary(exp.Div, one, two, typed=True, safe=False)


def negate(one: Node) -> Node:
    """Return a value with the other sign."""
    return exp.Neg(this=_wrap(one))


def is_null(one: Node) -> Node:
    """Return the condition that a value is NULL."""
    return exp.Is(this=_own(one), expression=exp.null())


def coalesce(one: Node, two: Node) -> Node:
    """Return a value, or another one if it is NULL."""
    return exp.Coalesce(this=_own(one), expressions=[_own(two)])


def call(name: str, *arguments: Node) -> Node:
    """Return the call of a function that has one name in every dialect."""
    return exp.Anonymous(this=name, expressions=list(map(_own, arguments)))


def quote(name: str) -> Any:
    """Return an identifier in the quotes of the dialect."""
    return exp.to_identifier(name, quoted=True)


class Statement:
    """Stages of columns over the rows of a table."""

    def __init__(self, dialect: str, table: str) -> None:
        self.dialect = dialect
        self._table = self.parse_table(OptionValue("table"), table)
        self._stages: list[dict[str, Node]] = []
        self._tables: list[tuple[Node, Any]] = []  # keys, and tables of effects of categories
        self._terms = 0
        self._prefix = PREFIX
        while self._table.name.lower().startswith(self._prefix):
            self._prefix += "_"

    # Names

    def parse_table(self, option: OptionValue, name: str) -> Any:
        """Return a table by its name, or the names of its catalog and schema and its own."""
        if not re.fullmatch(rf"{PART}(?:\.{PART}){{0,2}}", name):
            raise DataError(
                (
                    option,
                    f": {name!r} is not the name of a table; write SCHEMA.TABLE, with double "
                    "quotes around a name that contains a point or a quote, and each quote twice",
                )
            )
        parts = re.findall(PART, name)
        parts = [one[1:-1].replace('""', '"') if one[0] == '"' else one for one in parts]
        for part in parts:
            self.require_name(option, part)
        return exp.Table(
            **dict(zip(("this", "db", "catalog"), map(quote, parts[::-1]), strict=False))
        )

    def require_name(self, place: str | OptionValue, name: str) -> None:
        """Raise if the dialect cannot have a name."""
        problem, limit = "", MAX_NAME_BYTES.get(self.dialect, math.inf)
        if not name:
            problem = "is empty"
        elif "\0" in name or not _is_unicode(name):
            problem = "contains a character that SQL text cannot contain"
        elif len(name.encode()) > limit:
            problem = f"has {len(name.encode())} bytes, and {self.dialect} allows {limit}"
        if problem:
            raise DataError((place, f": the name {name[:80]!r} {problem}; rename it"))

    def require_names(self, place: str, names: Iterable[str]) -> None:
        """Raise if the dialect cannot have these names in one table."""
        folded: dict[str, str] = {}
        for name in names:
            self.require_name(place, name)
            key = name if self.dialect in CASE_SENSITIVE else name.casefold()
            if key in folded:
                same = "are equal" if folded[key] == name else "differ in case only"
                raise DataError(
                    f"{place}: the names {folded[key]!r} and {name!r} {same}, which {self.dialect} "
                    "does not allow; rename one of them"
                )
            folded[key] = name

    # Values

    def number(self, value: float) -> Node:
        """Return a double; with an exponent, without which some dialects read a decimal."""
        text = repr(abs(float(value)))
        literal: Node = exp.Literal.number(text if "e" in text else text + "e0")
        return exp.Neg(this=literal) if value < 0.0 else literal

    def double(self, one: Node) -> Node:
        """Return a value as a double."""
        return exp.Cast(this=_own(one), to=exp.DataType.build("double"))

    def constant(self, value: float) -> Node:
        """Return a double that decides the type of the expression around it."""
        number = self.number(value)
        return self.double(number) if self.dialect == "postgres" else number

    def text(self, place: str, value: str) -> Node:
        """Return text; raise if the dialect cannot have it."""
        if "\0" in value or not _is_unicode(value):
            problem = f"{value[:80]!r} contains a character that SQL text cannot contain"
            raise DataError(f"{place}: {problem}; replace it, and learn the rows again")
        return exp.Literal.string(value)

    def value(self, label: Any) -> Node:
        """Return a label: text, a number or a boolean."""
        if isinstance(label, bool):
            return exp.Boolean(this=label)
        if isinstance(label, int):
            return exp.Literal.number(str(label))
        return self.number(label) if isinstance(label, float) else self.text("label", label)

    def column(self, name: str) -> Node:
        """Return a column of an earlier stage."""
        return exp.Column(this=quote(name))

    def source(self, name: str) -> Node:
        """Return a column of the table."""
        self.require_name("column of the model", name)
        return exp.Column(this=quote(name), table=quote("t"))

    def source_text(self, name: str) -> Node:
        """Return a column of the table as text that is compared byte by byte."""
        text: Node = exp.Cast(this=self.source(name), to=exp.DataType.build("text"))
        collation = COLLATIONS.get(self.dialect)
        return text if collation is None else exp.Collate(this=text, expression=quote(collation))

    def choose(self, branches: Sequence[Branch], default: float | Node | None = 0.0) -> Node:
        """Return the value of the first condition that is true, else a default, or NULL."""
        last = self.constant(default) if isinstance(default, float) else default
        last = None if last is None else _own(last)
        if not branches:
            return exp.null() if last is None else last
        ifs = [exp.If(this=_own(when), true=_own(value)) for when, value in branches]
        return exp.Case(ifs=ifs, **({} if last is None else {"default": last}))

    def sum(self, terms: Sequence[Node]) -> Node:
        """Return a sum whose parentheses keep the nesting of operators low."""
        self._terms += len(terms)
        if self._terms > MAX_TERMS:
            raise DataError(
                f"the SQL would have more than {MAX_TERMS:,} terms; export the model as ONNX, or "
                "learn it with fewer features or another feature map"
            )
        if not terms:
            return self.constant(0.0)
        terms = [_wrap(x, is_in_sum=True) for x in terms]
        while len(terms) > 1:
            groups = [terms[i : i + GROUP_TERMS] for i in range(0, len(terms), GROUP_TERMS)]
            terms = [_chain_sum(group) for group in groups]
            if len(terms) > 1:
                terms = [exp.Paren(this=one) for one in terms]
        return terms[0]

    def largest(self, names: Sequence[str]) -> Node:
        """Return the largest of some columns."""
        function = "MAX" if self.dialect == "sqlite" else "GREATEST"
        nodes = [self.column(name) for name in names]
        while len(nodes) > 1:
            groups = [nodes[i : i + GROUP_TERMS] for i in range(0, len(nodes), GROUP_TERMS)]
            nodes = [call(function, *group) if len(group) > 1 else group[0] for group in groups]
        return nodes[0]

    # Stages

    def stage(self, columns: Mapping[str, Node]) -> None:
        """Add columns that refer to those of earlier stages."""
        if len(columns) > MAX_STAGE_COLUMNS:
            raise DataError(
                f"the SQL would have {len(columns):,} columns, and databases allow about "
                f"{MAX_STAGE_COLUMNS:,}; export the model as ONNX"
            )
        self._stages.append(dict(columns))

    def join(self, key: Node, rows: Sequence[tuple[Node, Sequence[float]]]) -> list[Node]:
        """Return numbers by category, given the numbers of each one; NULL for other categories."""
        width, name = len(rows[0][1]), f"{self._prefix}_effects_{len(self._tables)}"
        names = ["key", *(f"effect_{q}" for q in range(width))]
        tuples = [
            exp.Tuple(expressions=[value, *(self.number(x) for x in effects)])
            for value, effects in rows
        ]
        alias = exp.TableAlias(this=quote("rows"), columns=list(map(quote, names)))
        if self.dialect == "sqlite":  # which names the columns of values itself
            alias = exp.TableAlias(this=quote("rows"))
        values = exp.Values(expressions=tuples, alias=alias)
        found = [exp.Column(this=quote(one)) for one in names]
        if self.dialect == "sqlite":
            found = [exp.Column(this=exp.to_identifier(f"column{i + 1}")) for i in range(width + 1)]
        if self.dialect == "postgres":
            found[1:] = [self.double(one) for one in found[1:]]
        columns = [exp.alias_(one, quote(name)) for one, name in zip(found, names, strict=True)]
        self._tables.append((key, exp.Select(expressions=columns).from_(values, copy=False)))
        return [exp.Column(this=quote(one), table=quote(name)) for one in names[1:]]

    def select(self, ids: Sequence[str], outputs: Mapping[str, Node]) -> Any:
        """Return the query of some columns of the table, and of outputs by their names."""
        copied = {f"id_{i}": self.source(name) for i, name in enumerate(ids)}
        is_lateral = self.dialect == "postgres" and self._terms <= MAX_LATERAL_TERMS
        chosen = list(copied.values()) if is_lateral else map(self.column, copied)
        last = dict(zip(ids, chosen, strict=True)) | dict(outputs)
        query = self._select_lateral(last) if is_lateral else self._select_nested(copied, last)
        for i, (_, table) in reversed(list(enumerate(self._tables))):
            name = quote(f"{self._prefix}_effects_{i}")
            query = query.with_(name, as_=table, append=True, copy=False)
        if self._tables and query.args["with_"] is not None:  # effects come before the stages
            ctes = query.args["with_"].expressions
            ctes.sort(key=lambda one: "_effects_" not in one.alias)
        return query

    def _from_table(self, query: Any) -> Any:
        """Return a query of the rows of the table, with the effects of their categories."""
        table = self._table.copy()
        table.set("alias", exp.TableAlias(this=quote("t")))
        query = query.from_(table, copy=False)
        for i, (key, _) in enumerate(self._tables):
            name = f"{self._prefix}_effects_{i}"
            on = exp.EQ(this=key, expression=exp.Column(this=quote("key"), table=quote(name)))
            query = query.join(exp.Table(this=quote(name)), on=on, join_type="left", copy=False)
        return query

    def _select_lateral(self, outputs: Mapping[str, Node]) -> Any:
        query = self._from_table(_select(outputs))
        owner: dict[str, str] = {}
        for i, columns in enumerate(self._stages):
            name = f"{self._prefix}_{i}"
            _qualify(columns.values(), owner)
            inner = exp.Subquery(this=_select(columns).offset(0, copy=False))
            alias = exp.TableAlias(this=quote(name))
            query = query.join(exp.Lateral(this=inner, alias=alias), join_type="cross", copy=False)
            owner |= dict.fromkeys(columns, name)
        _qualify(outputs.values(), owner)
        return query

    def _select_nested(self, copied: Mapping[str, Node], outputs: Mapping[str, Node]) -> Any:
        stages = [{**copied, **self._stages[0]}, *self._stages[1:]]
        needed, carried = _references(outputs.values()), []
        for columns in reversed(stages):
            carried.append(sorted(needed - set(columns)))
            needed = (needed - set(columns)) | _references(columns.values())
        query = _select(outputs)
        last = f"{self._prefix}_{len(stages) - 1}"
        query = query.from_(exp.Table(this=quote(last)), copy=False)
        for i, (columns, names) in enumerate(zip(stages, reversed(carried), strict=True)):
            inner = _select({name: self.column(name) for name in names} | columns)
            if len(inner.expressions) > MAX_STAGE_COLUMNS:
                raise DataError(f"the SQL would have {len(inner.expressions):,} columns")
            before = exp.Table(this=quote(f"{self._prefix}_{i - 1}"))
            inner = inner.from_(before, copy=False) if i else self._from_table(inner)
            if self.dialect == "sqlite":
                inner = inner.limit(exp.Literal.number("-1"), copy=False)
            if self.dialect in ("postgres", "sqlite"):
                inner = inner.offset(0, copy=False)
            query = query.with_(quote(f"{self._prefix}_{i}"), as_=inner, append=True, copy=False)
        return query

    def finish(self, query: Any, view: str | None) -> str:
        """Return the text of a query, or of the view that it defines."""
        if view is not None:
            name = self.parse_table(OptionValue("view"), view)
            query = exp.Create(this=name, kind="VIEW", expression=query)
        return f"{query.sql(dialect=self.dialect, pretty=True)};\n"


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= c <= "\udfff" for c in text)


def _chain_sum(terms: Sequence[Node]) -> Node:
    result = terms[0]
    for term in terms[1:]:
        result = exp.Add(this=result, expression=term)
    return result


def _select(columns: Mapping[str, Node]) -> Any:
    return exp.Select(expressions=[exp.alias_(x, quote(n), copy=False) for n, x in columns.items()])


def _references(nodes: Iterable[Node]) -> set[str]:
    """Return the names of columns of earlier stages."""
    return {c.name for node in nodes for c in node.find_all(exp.Column) if not c.table}


def _qualify(nodes: Iterable[Node], owner: Mapping[str, str]) -> None:
    """Name the stage of each column of an earlier stage."""
    for node in nodes:
        for column in list(node.find_all(exp.Column)):
            if not column.table:
                column.set("table", quote(owner[column.name]))
