"""Services in a thread of the test process, their rows and their models."""

import contextlib
import threading
from pathlib import Path

import numpy as np
import pandas as pd

from counterpoise import EventStore, TableClassifier
from counterpoise.serve import Client
from counterpoise.serve.server import ServerSettings, serve_store

START = 120


def rows_of(first, n):
    """Labeled events with ids from a number on."""
    rng = np.random.default_rng(first)
    y = rng.random(n) < 0.3
    return [
        {
            "id": f"p{first + i}",
            "shop": f"s{rng.integers(4)}",
            "amount": round(float(rng.standard_normal() + 2 * y[i]), 4),
            "y": "yes" if y[i] else "no",
        }
        for i in range(n)
    ]


def events(rows):
    """Return the events of rows."""
    return [{name: value for name, value in row.items() if name != "y"} for row in rows]


def labels(rows):
    """Return the labels of rows."""
    return [{"id": row["id"], "y": row["y"]} for row in rows]


def write_model(folder):
    """Write a model of START rows, and return its path."""
    frame = pd.DataFrame(rows_of(10_000, START)).drop(columns="id")
    path = str(Path(folder, "m"))
    TableClassifier().fit(frame, "y").save(path)
    return path


@contextlib.contextmanager
def running(serve, *arguments):
    """A service in a thread of this process; yields its address."""
    ready, found = threading.Event(), []

    def on_start(server, address):
        found.extend([server, address])
        ready.set()

    thread = threading.Thread(target=serve, args=(*arguments, on_start))
    thread.start()
    try:
        assert ready.wait(60)
        yield found[1]
    finally:
        if found:
            found[0].should_exit = True
        thread.join(60)
        assert not thread.is_alive()


@contextlib.contextmanager
def service(path, keep=False, **options):
    """A service of a model; yields a client."""
    store = EventStore(path, id="id", keep=keep)
    settings = ServerSettings(port=0, audit=f"{path}.audit", **options)
    with running(serve_store, store, settings) as address, Client(address) as client:
        client.address = address
        yield client


def mutate(rng, value):
    """Return a value of JSON, changed at random."""
    others = [
        None, True, -1, 0, 2**63, 2**70, 1e308, -0.0, 1e-320, "", "x" * 3000, "\x00", "é\u2028",
        "../../etc/passwd", "'; DROP TABLE rows; --", "<script>alert(1)</script>", "0000-01-01",
        "9999-12-31", [], {}, [[[[]]]], {"a": {"b": {}}}, "p1", "yes", 10**400 // 10**380,
    ]  # fmt: skip
    way = rng.randrange(6)
    if isinstance(value, dict) and way:
        value = dict(value)
        name = rng.choice([*value, "new", "id", "y", "", "amount"])
        if way == 1:
            value.pop(name, None)
        else:
            value[name] = mutate(rng, value.get(name)) if way == 2 else rng.choice(others)
        return value
    if isinstance(value, list) and value and way:
        value = list(value)
        k = rng.randrange(len(value))
        value[k] = mutate(rng, value[k])
        return value + value[:1] if way == 5 else value
    return rng.choice(others)
