"""Databases that run the SQL of a model on a frame: DuckDB, SQLite and PostgreSQL."""

import sqlite3

import duckdb
import pandas as pd
import pyarrow as pa


class DuckDB:
    """A database in memory with one table."""

    dialect = "duckdb"

    def __init__(self, frame, table="rows"):
        self._connection = duckdb.connect()
        self._connection.register("given rows", to_arrow(frame))
        self.run(f'CREATE TABLE {quote(table)} AS SELECT * FROM "given rows"')
        self._connection.unregister("given rows")

    def run(self, statement):
        self._connection.execute(statement)

    def query(self, statement):
        return self._connection.sql(statement).to_arrow_table().to_pandas()


class SQLite:
    """A database in memory with one table; dates are text."""

    dialect = "sqlite"

    def __init__(self, frame, table="rows"):
        self._connection = sqlite3.connect(":memory:")
        columns = ", ".join(map(quote, frame.columns))
        marks = ", ".join("?" * len(frame.columns))
        self.run(f"CREATE TABLE {quote(table)} ({columns})")
        cells = [[str(c) if isinstance(c, pd.Timestamp) else c for c in row.values()]
                 for row in to_arrow(frame).to_pylist()]  # fmt: skip
        self._connection.executemany(f"INSERT INTO {quote(table)} VALUES ({marks})", cells)

    def run(self, statement):
        self._connection.execute(statement)

    def query(self, statement):
        found = self._connection.execute(statement)
        names = [one[0] for one in found.description]
        return pd.DataFrame.from_records(found.fetchall(), columns=names)


class Postgres:
    """A table in the database of a server."""

    dialect = "postgres"

    def __init__(self, frame, uri, table="rows"):
        from adbc_driver_postgresql import dbapi

        self._connection, self._table = dbapi.connect(uri, autocommit=True), table
        self.run(f"DROP TABLE IF EXISTS {quote(table)} CASCADE")
        with self._connection.cursor() as cursor:
            cursor.adbc_ingest(table, to_arrow(frame))

    def run(self, statement):
        with self._connection.cursor() as cursor:
            cursor.execute(statement)

    def query(self, statement):
        with self._connection.cursor() as cursor:
            if statement.startswith("EXPLAIN"):
                cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": "false"})
            cursor.execute(statement.rstrip(";\n"))  # the driver puts it into a COPY
            return cursor.fetch_arrow_table().to_pandas()

    def close(self):
        """Remove the table and its views from the server, and disconnect."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with connection.cursor() as cursor:
                cursor.execute(f"DROP TABLE IF EXISTS {quote(self._table)} CASCADE")
            connection.close()


def to_arrow(frame):
    """Return a frame as an Arrow table without metadata; NaN of text columns is NULL."""
    return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)


def quote(name):
    """Return a name in the quotes of standard SQL."""
    return '"' + name.replace('"', '""') + '"'
