"""Reference rows of a ledger, damaged ledgers, and all answers of a ledger."""

import contextlib
import json
import sqlite3
import struct

import numpy as np
import pyarrow as pa

from counterpoise import BalancedRidgeClassifier, Ledger
from counterpoise.encoding.columns import Feature
from counterpoise.errors import DataError
from counterpoise.ledger.cells import HEAD
from counterpoise.ledger.storage import SUMS, Digest, hash_heads, hash_values
from counterpoise.ledger.synthetic import payments
from counterpoise.ledger.time_buckets import text as format_time

DAY = 86_400


class ReferenceRows:
    """All rows of a ledger in memory, with features as the ledger names them."""

    def __init__(self, tables, time="at", label="fraud", segments=("country",)):
        whole = pa.concat_tables(tables, promote_options="default")
        at = whole[time].cast(pa.timestamp("s")).cast(pa.int64()).to_numpy()
        self.day = at // DAY
        self.y = np.array(whole[label].to_pylist())
        self.segment = {name: np.array(whole[name].to_pylist()) for name in segments}
        columns = {}
        for name in whole.column_names:
            if name in (time, label):
                continue
            if name in segments:
                for value in np.unique(self.segment[name]).tolist():
                    feature = Feature(name, "category", value)
                    columns[feature.name] = (self.segment[name] == value).astype(float)
            else:
                columns[name] = whole[name].fill_null(0.0).to_numpy()
        self.names = list(columns)
        self.X = np.column_stack(list(columns.values()))

    def fresh(self, weight, **options):
        """Return a model that learned only the rows of positive weight."""
        rows = weight > 0
        return BalancedRidgeClassifier(**options).fit(self.X[rows], self.y[rows], weight[rows])


def distance(model, names, fresh, X):
    """Return the largest difference of coefficients, in deviations of the features."""
    wanted = np.zeros(len(names))
    at = {name: j for j, name in enumerate(names)}
    wanted[[at[name] for name in model.names_]] = model.coef_[0]
    spread = np.maximum(X.std(axis=0), np.finfo(float).tiny)
    off = np.abs((wanted - fresh.coef_[0]) * spread).max()
    centre = X.mean(axis=0)
    constant = wanted @ centre + model.intercept_[0]
    constant -= fresh.coef_[0] @ centre + fresh.intercept_[0]
    return float(max(off, abs(constant)))


def same_weights(model, names, fresh, X, tolerance=1e-10):
    """Check that coefficients and intercepts agree."""
    off = distance(model, names, fresh, X)
    assert off <= tolerance, off


def random_selection(rng, reference):
    """Return arguments of model(), and the weights of the rows that they select."""
    first, last = reference.day.min(), reference.day.max() + 1
    span = int(rng.integers(20, last - first + 1))
    begin = int(rng.integers(first, last - span + 1))
    named, inside = {}, np.ones(len(reference.day), dtype=bool)
    if rng.random() < 0.7:
        named["since"] = format_time(begin * DAY)
        inside &= reference.day >= begin
    if rng.random() < 0.7:
        named["until"] = format_time((begin + span) * DAY)
        inside &= reference.day < begin + span
    for name, values in reference.segment.items():
        known = np.unique(values[inside]).tolist()
        some = rng.choice(known, int(rng.integers(1, len(known) + 1)), replace=False).tolist()
        way = rng.integers(0, 4)
        if way == 0 and len(some) < len(known):
            named["where"] = {name: {"not": some}}
            inside &= ~np.isin(values, some)
        elif way == 1:
            named["where"] = {name: some}
            inside &= np.isin(values, some)
        elif way == 2:
            named["where"] = {name: some[0]}
            inside &= values == some[0]
    if rng.random() < 0.4:
        out = rng.choice(np.arange(begin, begin + span), 3).tolist()
        named["exclude"] = [format_time(day * DAY) for day in out]
        inside &= ~np.isin(reference.day, out)
    weight = inside.astype(float)
    if rng.random() < 0.5 and inside.any():
        half_life = float(rng.uniform(3.0, 100.0))
        named["half_life"] = half_life if rng.random() < 0.5 else f"{half_life!r}d"
        age = reference.day[inside].max() - reference.day[inside]
        weight[inside] = 2.0 ** (-age / half_life)
    return named, weight


def cut_into_days(X, y, days=90, seed=1):
    """Return rows as a table of many days and three towns, and the reference rows."""
    rng = np.random.default_rng(seed)
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    day = np.sort(rng.integers(0, days, len(y)))
    at = (day * DAY + rng.integers(0, DAY, len(y))).astype("datetime64[s]")
    table = pa.table({"at": at, "town": rng.choice(["a", "b", "c"], len(y)), **columns, "y": y})
    return table, ReferenceRows([table], label="y", segments=("town",))


def a_year(**options):
    """Return tables of payments, and their reference rows."""
    tables = payments(**options)
    return tables, ReferenceRows(tables)


# Damaged ledgers

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


def _move(column):
    def change(base, rng):
        (row,) = _any(base, "cells", rng)
        with contextlib.suppress(sqlite3.IntegrityError):
            base.execute(f"UPDATE cells SET {column} = {column} + 7 WHERE rowid = ?", (row,))

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
    **{f"delete {table}": _delete(table) for table in ("cells", "heads", "meta")},
    **{f"text {name}": _text(name) for name in ("labels", "segments", "inputs")},
    "text meta": _text(),
    "delete totals": lambda base, rng: base.execute("DELETE FROM cells WHERE segment = -1"),
    **{f"move {column}": _move(column) for column in ("label", "start", "segment")},
    **{f"view {table}": _view(table) for table in ("cells", "heads", "meta")},
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
