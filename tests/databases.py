"""One table of payments in databases of three kinds, and what is in them."""

import json
import sqlite3
from contextlib import closing

import adbc_driver_postgresql.dbapi
import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv

ENGINES = ("sqlite", "duckdb", "postgresql")
NAMED_KINDS = ("bigint", "double precision", "text")
ENDINGS = {"sqlite": "db", "duckdb": "duckdb"}
COLUMNS = {"id": "bigint", "amount": "double precision", "country": "text", "fraud": "text"}


def payments(rows, start=0, seed=0):
    """Return payments with missing countries and amounts; their ids grow by 3."""
    rng = np.random.default_rng([seed, start])
    fraud = rng.random(rows) < 0.2
    country = rng.choice(np.array(["DE", "FR", "US", None], dtype=object), rows)
    amount = rng.exponential(100.0, rows).round(2) + 80.0 * fraud
    return pa.table({
        "id": pa.array(3 * (start + np.arange(rows)) + 7),
        "amount": pa.array(amount, mask=rng.random(rows) < 0.1),
        "country": pa.array(country.tolist(), pa.string()),
        "fraud": pa.array(np.where(fraud, "yes", "no").tolist()),
    })  # fmt: skip


def create_shop(csv, folder, uri):
    """Create the databases of the examples with the rows of a CSV file; ``uri`` may be empty.

    Return the variables of the environment with which psql and others find the server.
    """
    table = pyarrow.csv.read_csv(csv)
    kinds = ["bigint", "double precision", "text", "bigint", "text"]
    columns = dict(zip(table.column_names, kinds, strict=True))
    for engine in ENGINES if uri else ENGINES[:2]:
        if engine == "postgresql":
            connection = adbc_driver_postgresql.dbapi.connect(uri, autocommit=True)
            with closing(connection), closing(connection.cursor()) as cursor:
                cursor.execute("drop database if exists shop")
                cursor.execute("create database shop")
        Database(engine, folder, uri.replace("/postgres?", "/shop?")).create(table, columns=columns)
    host = uri.partition("host=")[2]
    return {"PGHOST": host, "PGUSER": "postgres"} if uri else {}


def quote(name):
    return '"' + name.replace('"', '""') + '"'


class Database:
    """A database whose tables are written by statements, outside of the tested code."""

    def __init__(self, engine, folder, uri=""):
        self.engine, self._file = engine, folder / f"shop.{ENDINGS.get(engine, 'none')}"
        self._created = set()
        self.uri = uri if engine == "postgresql" else f"{engine}:///{self._file.name}"

    def _connect(self):
        if self.engine == "sqlite":
            return sqlite3.connect(self._file)
        if self.engine == "duckdb":
            return duckdb.connect(self._file)
        return adbc_driver_postgresql.dbapi.connect(self.uri)

    def execute(self, *statements):
        """Run statements in one transaction."""
        with closing(self._connect()) as connection, closing(connection.cursor()) as cursor:
            if self.engine == "duckdb":
                cursor.execute("begin")
            for one in statements:
                cursor.execute(one)
            (cursor if self.engine == "duckdb" else connection).commit()

    def read(self, sql):
        """Return the rows of a query."""
        with closing(self._connect()) as connection, closing(connection.cursor()) as cursor:
            cursor.execute(sql)
            return cursor.fetchall()

    def create(self, table=None, name="payments", columns=COLUMNS):
        """Create a table, and insert rows."""
        self._created.add(name)
        listed = ", ".join(f"{quote(column)} {kind}" for column, kind in columns.items())
        self.execute(
            f"drop table if exists {quote(name)}", f"create table {quote(name)} ({listed})"
        )
        if table is not None:
            self.insert(table, name)

    def insert(self, table, name="payments"):
        """Insert rows."""
        with closing(self._connect()) as connection, closing(connection.cursor()) as cursor:
            if self.engine == "postgresql":
                cursor.adbc_ingest(name, table, mode="append")
                connection.commit()
            elif self.engine == "duckdb":
                cursor.register("more", table)
                cursor.execute(f"insert into {quote(name)} select * from more")
            else:
                marks = ", ".join("?" * table.num_columns)
                rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
                cursor.executemany(f"insert into {quote(name)} values ({marks})", rows)
                connection.commit()

    def drop(self):
        """Drop the tables that were created."""
        self.execute(*(f"drop table {quote(name)} cascade" for name in self._created))

    def dump(self):
        """Return all tables with their rows."""
        names = {
            "sqlite": "select name from sqlite_master order by 1",
            "duckdb": "select table_name from information_schema.tables order by 1",
            "postgresql": "select relname::text from pg_class where relkind in ('r', 'v', 'S') and "
            "relnamespace = 'public'::regnamespace order by 1",
        }[self.engine]
        return [(name, self.read(f"select * from {quote(name)}")) for (name,) in self.read(names)]


# Names

FRAGMENTS = [
    "payments", "select", "ORDER", "a b", " a", "a ", 'a"b', '"', '""', "'", "''", "a'b", "`",
    "; drop table payments; --", '"; drop table payments; --', "'); delete from payments; --",
    '" from payments; drop table payments; --', "a -- b", "/* a */", "a.b", ".", "main.payments",
    "public.payments", "%", "%s", "%(a)s", "{}", "{0}", "{x}", "$1", ":a", "?", "?table=b", "@",
    "-a", "--label", "a=b", "a:b", "a/b", "..", "~", "*", "a*", "\\", "a\\", "\\'", "\n", "a\nb",
    "#", "\t", "\r\n", "\x01", "\x1b[31m", "é", "名", "🙂", "\u202e", "\u200b", "ﬁ", "İ", "null",
    "NULL", "true", "1", "1e5", "x" * 63, "rowid", "oid", "[a]", "nan",
]  # fmt: skip
HOSTILE = [f"{name}{end}" for end in ("", " y", '" y') for name in FRAGMENTS][:201]


def try_names(database, names, run):
    """Learn and predict tables with hostile names of table and columns; nothing may change.

    ``run`` runs a command, with a code of exit. Return the number of names that were learned; the
    others were refused by one message each. The same names, as those of what does not exist, are
    refused, too.
    """
    database.create(payments(30))
    tables = []
    for name in names:
        short = name.encode()[:60].decode(errors="ignore")  # PostgreSQL has 63 bytes
        if short == "payments":
            continue
        tables.append((short, short, f"{short}2", f"{short}3"))
        database.create(name=short, columns=dict(zip(tables[-1][1:], NAMED_KINDS, strict=True)))
        rows = ", ".join(f"({i}, {i % 5}, '{'ab'[i % 3 == 0]}')" for i in range(12))
        database.execute(f"insert into {quote(short)} values {rows}")
    before, learned = database.dump(), len(names) - len(tables)
    for number, (name, row, other, label) in enumerate(tables):
        path = f"{number}.safetensors"
        command = ["learn", database.uri, f"--table={name}", f"--label={label}", f"--model={path}"]
        assert "12 rows" in run(*command, f"--cursor={row}").err
        assert run("inspect", path, "--json").out.count(json.dumps(other)) > 0
        predicted = run("predict", path, database.uri, f"--table={name}").out
        learned += len(predicted.splitlines()) == 13
    for name in names:
        for option in ("--table", "--cursor", "--label"):
            given = {"--table": "payments", "--label": "fraud", "--model": "n", option: f"{name}?"}
            pairs = [f"{key}={value}" for key, value in given.items()]
            done = run("learn", database.uri, *pairs, "--drop", "id", code=2)
            assert done.err.count("\n") == 1, done.err
    assert database.dump() == before
    return learned
