"""Sessions of PostgreSQL, SQLite and DuckDB, which only read.

Rows leave a database as Arrow record batches. Names of columns are quoted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from counterpoise.readers.columnar import BATCH

SERVER = "postgresql"
SCHEMES = {SERVER: SERVER, "postgres": SERVER, "sqlite": "sqlite", "duckdb": "duckdb"}
INTEGER, DATE, TIME, UTC_TIME = "integer", "date", "timestamp", "timestamptz"  # kinds of cursors
# Of DuckDB, which keeps parts of its file and sorts larger tables in temporary files.
MEMORY_MB, COLUMN_MB, THREADS = 256, 2, 2


def is_database(path: str) -> bool:
    """Return whether an input is a database."""
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme in SCHEMES


def split_address(path: str) -> tuple[str, str, str]:
    """Return an address in three parts: before the path of a file, the path, and after it.

    The path is empty for a server. Any other input is only a path.
    """
    if not is_database(path):
        return "", path, ""
    scheme, _, rest = path.partition("://")
    if SCHEMES[scheme] == SERVER:
        return path, "", ""
    file, mark, rows = rest.removeprefix("/").partition("?")
    return f"{scheme}:///", file, mark + rows


def _split_credentials(address: str) -> tuple[str, str, str]:
    """Return user, password and the rest of the address of a server, after its scheme."""
    rest = address.partition("://")[2]
    at = rest.partition("/")[0].rfind("@")
    at = at if at >= 0 else rest.rfind("@")
    user, _, password = rest[: max(at, 0)].partition(":")
    return user, password, rest[at + 1 :]


def public_address(path: str) -> str:
    """Return the address of a database without user, password and options; else the path."""
    prefix, file, _ = split_address(path)
    if file or not prefix or SCHEMES[prefix.partition("://")[0]] != SERVER:
        return f"{prefix}{file}"
    from urllib.parse import parse_qsl, quote

    place, _, options = _split_credentials(path)[2].partition("?")
    given = dict(parse_qsl(options))
    host, _, name = place.partition("/")
    if not host:
        port = f":{given['port']}" if "port" in given else ""
        host = quote(given.get("host", ""), safe="") + port
    name = name or given.get("dbname", "")
    service = f"?service={given['service']}" if "service" in given else ""
    return f"{SERVER}://{host}/{name}{service}"


def hide_password(text: str, address: str) -> str:
    """Return text in one line, in which *** replaces the password of an address."""
    from urllib.parse import unquote

    text = " ".join(text.split())
    if split_address(address)[1]:
        return text
    _, password, rest = _split_credentials(address)
    secrets = [password, *re.findall(r"password=([^&]*)", rest)]
    secrets = [address, address.partition("://")[2], *secrets, *map(unquote, secrets)]
    for one in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(one, "***")
    return text


def quote_name(name: str) -> str:
    """Return a name as SQL."""
    return '"' + name.replace('"', '""') + '"'


def _driver(module: str, scheme: str) -> Any:
    """Return the module of a driver; raise if it is not installed."""
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0].replace("_", "-")
        raise ImportError(
            f"{scheme}:// requires {package}: pip install 'counterpoise[sql]'", name=module
        ) from None


class Session:
    """A transaction of a database that only reads."""

    # The SQL of a column of each type, with {} for its name. Other types are refused.
    casts: ClassVar[Mapping[str, str]] = {}
    cursors: ClassVar[Mapping[str, str]] = {}  # kind of a cursor by the type of its column

    def tables(self) -> list[tuple[str, str, bool]]:
        """Return schema and name of each table and view, and whether the name is enough."""
        raise NotImplementedError

    def names(self, relation: str) -> list[str]:
        """Return the names of the columns of a relation."""
        raise NotImplementedError

    def types(self, relation: str, table: str | None, names: Sequence[str]) -> list[str]:
        """Return the types of columns of a relation, which is a table if that is given."""
        raise NotImplementedError

    def select(
        self, types: Mapping[str, str], relation: str, where: str = "", order: str = ""
    ) -> Iterator[pa.RecordBatch]:
        """Yield the columns of a relation, given with their types."""
        listed = ", ".join(
            f"{self.casts[kind].format(quote_name(name))} as {quote_name(name)}"
            for name, kind in types.items()
        )
        return self.batches(f"select {listed} from {relation}{where}{order}")

    def batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a statement."""
        raise NotImplementedError

    def has_rows(self, relation: str, where: str) -> bool:
        """Return whether a relation has rows that meet a condition."""
        sql = f"select 1 as one from {relation}{where} limit 1"
        return any(batch.num_rows for batch in self.batches(sql))

    def close(self) -> None:
        """End the session."""


class AdbcSession(Session):
    """A session by a driver of Arrow Database Connectivity."""

    options: ClassVar[Mapping[str, str]] = {}  # of a statement

    def __init__(self, connection: Any) -> None:
        self._connection, self._open = connection, list[Any]()

    def execute(self, sql: str, *parameters: Any) -> Any:
        """Return the cursor of a statement."""
        cursor = self._connection.cursor()
        self._open.append(cursor)
        cursor.adbc_statement.set_options(**self.options)
        cursor.execute(sql, parameters or None)
        return cursor

    def rows(self, sql: str, *parameters: Any) -> list[Any]:
        """Return all rows of a statement."""
        return list(self.execute(sql, *parameters).fetchall())

    def batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a statement."""
        yield from self.execute(sql).fetch_record_batch()

    def schema(self, relation: str) -> pa.Schema:
        """Return the columns of a relation."""
        return self.execute(f"select * from {relation} limit 0").fetch_record_batch().schema

    def names(self, relation: str) -> list[str]:
        """Return the names of the columns of a relation."""
        return list(self.schema(relation).names)

    def close(self) -> None:
        """End the session."""
        for one in [*reversed(self._open), self._connection]:
            with suppress(Exception):
                one.close()


class PostgreSQL(AdbcSession):
    """A session of a PostgreSQL server."""

    _PLAIN = ("bool", "int2", "int4", "int8", "float4", "float8", "text", "varchar", "bpchar")
    casts: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys((*_PLAIN, "name", "date", "time", TIME, UTC_TIME), "{}"),
        **dict.fromkeys(("uuid", "enum", "citext"), "{}::text"),
        "numeric": "{}::double precision",
        "money": "{}::numeric::double precision",
    }
    cursors: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("int2", "int4", "int8"), INTEGER),
        **{kind: kind for kind in (DATE, TIME, UTC_TIME)},
    }

    def __init__(self, address: str) -> None:
        from urllib.parse import quote, unquote

        # Encoded again, no character of a password is one that libpq would report.
        *given, rest = _split_credentials(address)
        user = ":".join(quote(unquote(one), safe="") for one in given if one)
        dbapi = _driver("adbc_driver_postgresql.dbapi", SERVER)
        super().__init__(
            dbapi.connect(f"{SERVER}://{user}@{rest}" if user else f"{SERVER}://{rest}")
        )
        self.execute("set transaction isolation level repeatable read, read only")
        # Without an order, rows come as they are stored.
        self.execute("set local max_parallel_workers_per_gather = 0")
        self.execute("set local synchronize_seqscans = off")

    def tables(self) -> list[tuple[str, str, bool]]:
        """Return schema and name of each table and view, and whether the name is enough."""
        return self.rows(
            "select n.nspname::text, c.relname::text, pg_catalog.pg_table_is_visible(c.oid) from "
            "pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace where "
            "c.relkind in ('r', 'p', 'v', 'm', 'f') and n.nspname not in ('pg_catalog', "
            "'information_schema') and n.nspname not like 'pg_toast%' order by 1, 2"
        )

    def types(self, relation: str, table: str | None, names: Sequence[str]) -> list[str]:
        """Return the types of columns of a relation."""
        schema = self.schema(relation)
        return [self._type(schema.field(name)) for name in names]

    def _type(self, column: pa.Field) -> str:
        """Return the type of a column, of which the driver may return only a number."""
        metadata = column.metadata or {}
        name: str = metadata.get(b"POSTGRESQL:type", b"").decode() or str(column.type)
        if name in self.casts:
            return name
        number = re.search(r"<oid:(\d+)>", name)
        found = self.rows(
            "select typname::text, typtype::text from pg_catalog.pg_type where "
            + (f"oid = {int(number[1])}" if number else "typname = $1"),
            *(() if number else (name,)),
        )
        return next(("enum" if kind == "e" else text for text, kind in found), name)


class SQLite(AdbcSession):
    """A session of a SQLite file, whose columns may contain values of any type.

    The driver derives the types from the first rows. So a row of the right types is the first.
    """

    options: ClassVar[Mapping[str, str]] = {"adbc.sqlite.query.batch_rows": str(BATCH)}
    casts: ClassVar[Mapping[str, str]] = {INTEGER: "0", "number": "0.0", "text": "''"}
    cursors: ClassVar[Mapping[str, str]] = {INTEGER: INTEGER}

    def __init__(self, address: str) -> None:
        place = Path(split_address(address)[1]).absolute().as_uri()
        dbapi = _driver("adbc_driver_sqlite.dbapi", "sqlite")
        super().__init__(dbapi.connect(f"{place}?mode=ro"))
        self.rows("pragma query_only = on")

    def tables(self) -> list[tuple[str, str, bool]]:
        """Return schema and name of each table and view, and whether the name is enough."""
        sql = "select name from sqlite_master where type in ('table', 'view') order by name"
        return [("main", name, True) for (name,) in self.rows(sql)]

    def types(self, relation: str, table: str | None, names: Sequence[str]) -> list[str]:
        """Return the types of columns of a relation, of undeclared ones by all their values."""
        sql = "select name, type from pragma_table_xinfo(?)"
        declared = {} if table is None else dict(self.rows(sql, table))
        found = {name: _affinity(declared.get(name, "").upper()) for name in names}
        for name, kind in found.items():
            if kind in ("numeric", ""):
                found[name] = self._stored_type(relation, quote_name(name), kind)
        return [found[name] for name in names]

    def _stored_type(self, relation: str, column: str, affinity: str) -> str:
        """Return the type of all values of a column. Numbers come before text in the order."""
        sql = f"select typeof(max({column})), max(typeof({column}) = 'real') from {relation}"
        ((kind, has_fractions),) = self.rows(sql)
        is_integer = kind == INTEGER and not has_fractions and not affinity
        return kind if kind in ("text", "blob") else INTEGER if is_integer else "number"

    def select(
        self, types: Mapping[str, str], relation: str, where: str = "", order: str = ""
    ) -> Iterator[pa.RecordBatch]:
        """Yield the columns of a relation, given with their types."""
        first = ", ".join(f"{self.casts[kind]} as {quote_name(c)}" for c, kind in types.items())
        rows = f"select {', '.join(map(quote_name, types))} from {relation}{where}{order} limit -1"
        skip = 1
        try:  # the limit keeps the order
            for batch in self.batches(f"select {first} union all select * from ({rows})"):
                yield batch.slice(skip)
                skip = 0
        except OSError as error:
            found = re.search(r"in column (\d+): expected (\S+) but got (\S+)", str(error))
            if found is None:
                raise
            name, kinds = list(types)[int(found[1])], f"{found[2]} and of type {found[3]}"
            raise OSError(f"column {name!r} contains values of type {kinds}") from None


def _affinity(declared: str) -> str:
    """Return the type of values by the declaration of a column of SQLite; empty without one."""
    if "INT" in declared or "BOOL" in declared:
        return INTEGER
    if any(part in declared for part in ("CHAR", "CLOB", "TEXT")):
        return "text"
    if any(part in declared for part in ("REAL", "FLOA", "DOUB")):
        return "number"
    return "numeric" if declared and "BLOB" not in declared else ""


class DuckDB(Session):
    """A session of a DuckDB file."""

    _PLAIN = ("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT")
    _TIMES = ("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS", "DATE", "TIME")
    casts: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys((*_PLAIN, *_TIMES, "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE"), "{}"),
        **dict.fromkeys(("VARCHAR", "TIMESTAMP WITH TIME ZONE"), "{}"),
        **dict.fromkeys(("DECIMAL", "HUGEINT", "UHUGEINT"), "{}::double"),
        **dict.fromkeys(("UUID", "ENUM"), "{}::varchar"),
    }
    cursors: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys((*_PLAIN[1:], "UINTEGER"), INTEGER),
        "DATE": DATE,
        "TIMESTAMP": TIME,
        "TIMESTAMP WITH TIME ZONE": UTC_TIME,
    }

    def __init__(self, address: str) -> None:
        duckdb = _driver("duckdb", "duckdb")
        self._connection = duckdb.connect(split_address(address)[1], read_only=True)
        self._connection.execute("set python_enable_replacements = false")  # no local variables
        self._connection.execute(f"set threads = {THREADS}")

    def _query(self, sql: str) -> Any:
        """Return the relation of one statement, which runs when it is read."""
        if len(self._connection.extract_statements(sql)) != 1:
            raise ValueError("a query must be one statement")
        return self._connection.sql(sql)

    def tables(self) -> list[tuple[str, str, bool]]:
        """Return schema and name of each table and view, and whether the name is enough."""
        found: list[tuple[str, str, bool]] = self._query(
            "select table_schema, table_name, table_schema = current_schema() from "
            "information_schema.tables where table_catalog = current_database() order by all"
        ).fetchall()
        return found

    def names(self, relation: str) -> list[str]:
        """Return the names of the columns of a relation."""
        return list(self._query(f"select * from {relation}").columns)

    def types(self, relation: str, table: str | None, names: Sequence[str]) -> list[str]:
        """Return the types of columns of a relation."""
        found = self._query(f"select * from {relation}")
        kinds = dict(zip(found.columns, map(str, found.types), strict=True))
        return [re.sub(r"\(.*\)$", "", kinds[name]) for name in names]

    def select(
        self, types: Mapping[str, str], relation: str, where: str = "", order: str = ""
    ) -> Iterator[pa.RecordBatch]:
        """Yield the columns of a relation, given with their types."""
        limit = MEMORY_MB + COLUMN_MB * len(types)
        self._connection.execute(f"set memory_limit = '{limit}MB'")
        return super().select(types, relation, where, order)

    def batches(self, sql: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a statement."""
        found = self._query(sql)
        if hasattr(found, "to_arrow_reader"):
            yield from found.to_arrow_reader(BATCH)
        else:
            yield from found.fetch_record_batch(BATCH)

    def close(self) -> None:
        """End the session."""
        self._connection.close()


SESSIONS: Mapping[str, Any] = {SERVER: PostgreSQL, "sqlite": SQLite, "duckdb": DuckDB}


def open_session(address: str) -> Session:
    """Return a session of a database; raise what its driver raises."""
    session: Session = SESSIONS[SCHEMES[address.partition("://")[0]]](address)
    return session
