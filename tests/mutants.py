"""Changed ledgers, and everything that a ledger answers, for tests and benchmarks/mutations.py."""

import contextlib
import json
import sqlite3
import struct

import numpy as np

from counterpoise import Ledger
from counterpoise.errors import DataError
from counterpoise.ledger.cells import HEAD
from counterpoise.ledger.storage import SUMS, Digest, hash_heads, hash_values

FIELDS = HEAD.names
NUMBERS = [0, 1, -1, 2, 7, 10**6, 2**31, 2**62, -(2**62)]
WEIGHTS = [0.0, -1.0, float("inf"), float("nan"), 1e300, 2.0, 0.5]
TEXTS = ["", "null", "[]", "{}", "1e999", "[" * 2000, '"x"', "NaN", "10" * 40, "true"]


def mutate_bytes(data, rng):
    """Return bytes with one of them changed, and some more now and then."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 1, 2, 8))):
        at = rng.randrange(len(changed))
        if rng.random() < 0.25:
            at = rng.randrange(min(len(changed), 4096))  # header and schema
        changed[at] ^= 1 << rng.randrange(8) if rng.random() < 0.5 else rng.randrange(1, 256)
    return bytes(changed)


def _any(base, table, rng, what="rowid"):
    rows = base.execute(f"SELECT {what} FROM {table}").fetchall()
    return rng.choice(rows)


def _field(base, rng):
    """Change a field of a head."""
    start, data = _any(base, "heads", rng, "start, data")
    heads = np.frombuffer(data, HEAD).copy()
    name, at = rng.choice(FIELDS), rng.randrange(len(heads))
    before = heads[name][at]
    while heads[name][at] == before:
        value = rng.choice(
            WEIGHTS if name in ("n", "weight_remainder", "min_row_weight") else NUMBERS
        )
        heads[name][at] = abs(value) if name == "checksum" else value
    base.execute("UPDATE heads SET data = ? WHERE start = ?", (heads.tobytes(), start))


def _heads(base, rng):
    """Remove the head of a cell, or repeat it."""
    start, data = _any(base, "heads", rng, "start, data")
    at = HEAD.itemsize * rng.randrange(len(data) // HEAD.itemsize)
    end = at + HEAD.itemsize
    data = data[:at] + data[end:] if rng.random() < 0.5 else data[:end] + data[at:]
    base.execute("UPDATE heads SET data = ? WHERE start = ?", (data, start))


def _delete(table):
    def change(base, rng):
        key = "name" if table == "meta" else "rowid"
        (row,) = _any(base, table, rng, key)
        while table == "meta" and row == "writer":
            (row,) = _any(base, table, rng, key)
        base.execute(f"DELETE FROM {table} WHERE {key} = ?", (row,))

    return change


def _text(*names):
    """Change a value of the table meta, one of some names if there are any."""

    def change(base, rng):
        rows = dict(base.execute("SELECT name, value FROM meta WHERE name <> 'writer'"))
        name = rng.choice(names or sorted(rows))
        text = rng.choice([text for text in TEXTS if text != rows[name]])
        base.execute("UPDATE meta SET value = ? WHERE name = ?", (text, name))

    return change


def _move(table, column):
    def change(base, rng):
        (row,) = _any(base, table, rng)
        with contextlib.suppress(sqlite3.IntegrityError):
            base.execute(f"UPDATE {table} SET {column} = {column} + 7 WHERE rowid = ?", (row,))

    return change


def _exchange(base, rng):
    """Exchange the data of two cells."""
    rows = base.execute("SELECT rowid, data FROM cells").fetchall()
    (a, one), (b, two) = rng.sample(rows, 2)
    base.execute("UPDATE cells SET data = ? WHERE rowid = ?", (two, a))
    base.execute("UPDATE cells SET data = ? WHERE rowid = ?", (one, b))


def _data(base, rng):
    """Change a number in a cell, or its type or size."""
    row, data = _any(base, "cells", rng, "rowid, data")
    at = 8 * rng.randrange(len(data) // 8)
    number = struct.pack("<d", rng.choice(WEIGHTS[1:]))
    values = [data[:at] + number + data[at + 8 :], data[:-8], "text", 5, b""]
    value = rng.choice([value for value in values if value != data])
    base.execute("UPDATE cells SET data = ? WHERE rowid = ?", (value, row))


def _view(table):
    def change(base, rng):
        columns = [row[1] for row in base.execute(f"PRAGMA table_info({table})")]
        endless = (
            "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT "
            + ", ".join(f"x AS {name}" for name in columns)
            + " FROM c"
        )
        base.execute(f"DROP TABLE {table}")
        base.execute(f"CREATE VIEW {table} AS {endless}")

    return change


def _trigger(base, rng):
    base.execute("CREATE TRIGGER t AFTER INSERT ON meta BEGIN DELETE FROM cells; END")


def _features(base, rng):
    """Invent features."""
    (text,) = base.execute("SELECT value FROM meta WHERE name = 'encoding'").fetchone()
    encoding = json.loads(text)
    count = rng.choice((1, 2000, 200_000))
    encoding["features"] += [[f"invented{i}", "number", None] for i in range(count)]
    base.execute("UPDATE meta SET value = ? WHERE name = 'encoding'", (json.dumps(encoding),))


CHANGES = {
    "field": _field, "heads": _heads, "exchange": _exchange, "data": _data, "trigger": _trigger,
    "features": _features, "no cells": lambda base, rng: base.execute("DELETE FROM cells"),
    **{f"delete {table}": _delete(table) for table in ("cells", "totals", "heads", "meta")},
    **{f"text {name}": _text(name) for name in ("labels", "segments", "inputs")},
    "text meta": _text(),
    **{f"move {column} of {table}": _move(table, column)
       for table in ("cells", "totals") for column in ("label", "start", "segment")},
    **{f"view {table}": _view(table) for table in ("cells", "totals", "heads", "meta")},
}  # fmt: skip
SEALED = ("field", "heads", "features", "text labels", "text segments", "text inputs", "text meta")


def change_ledger(path, name, rng):
    """Change a ledger without its digest."""
    base = sqlite3.connect(path)
    CHANGES[name](base, rng)
    base.commit()
    base.close()


def reseal(path):
    """Give a changed ledger the digest that belongs to it, as far as there is one."""
    base = sqlite3.connect(path)
    with contextlib.suppress(ValueError, TypeError, RecursionError):
        rows = base.execute("SELECT name, value FROM meta").fetchall()
        values = {name: text for name, text in rows if name not in ("writer", "digest")}
        heads = base.execute("SELECT start, data FROM heads").fetchall()
        total = sum(map(hash_heads, heads)) % SUMS
        digest = Digest(len(heads), total, hash_values(values))
        base.execute("UPDATE meta SET value = ? WHERE name = 'digest'", (digest.text,))
    base.commit()
    base.close()


QUERIES = {
    "summary": lambda ledger: ledger.summary(),
    "features": lambda ledger: ledger.features,
    "records": lambda ledger: ledger.records,
    "model": lambda ledger: _model(ledger.model()),
    "some": lambda ledger: _model(ledger.model(where={"country": {"not": "DE"}}, half_life=5)),
    "one": lambda ledger: _model(ledger.model(where={"country": "DE"}, since="2024-01-05")),
    "models": lambda ledger: {
        name: _model(model) for name, model in ledger.models(by="country", share_of_all=0.1).items()
    },
    "compare": lambda ledger: ledger.compare(
        {"until": "2024-01-08"}, {"since": "2024-01-08"}
    ).to_dict(),
    "backtest": lambda ledger: ledger.backtest(train=[3, None]).to_dict(),
    "drift": lambda ledger: ledger.drift(train=5).to_dict(),
    "uncertainty": lambda ledger: ledger.uncertainty(ledger.model()).to_dict(),
    "weights": lambda ledger: ledger.weights(size=7).weight.tolist(),
    "check": lambda ledger: ledger.check(),
}


def _model(model):
    return model.names_, model.coef_.tolist(), model.class_count_.tolist()


def ledger_answers(path):
    """Return what a ledger answers to each query: a text, or a DataError or OSError."""
    found = {}
    for name, query in QUERIES.items():
        try:
            with Ledger.open(path) as ledger:
                found[name] = repr(query(ledger))
        except (DataError, OSError) as error:
            found[name] = error.with_traceback(None)  # which holds what was read
    return found
