"""The service and its store: kills under load, revisions and erasures, and feedback bias."""

import contextlib
import http.client
import json
import os
import random
import re
import subprocess
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import services

from benchmarks import report
from benchmarks.processes import COMMAND
from counterpoise import EventStore, TableClassifier
from counterpoise.estimators.auto import wrap_engine
from counterpoise.serve import Client, ServiceError
from counterpoise.tables.alerts import Threshold
from counterpoise.tables.event_store import PredictionSettings
from counterpoise.tables.model import TableModel

D, START = 6, 2_000
PARTS = ("kills", "revisions", "fuzz", "feedback")


def rows_of(rng, first, n, share=0.1):
    """Return labeled events, as a frame."""
    y = rng.random(n) < share
    X = rng.standard_normal((n, D)) + 0.8 * y[:, None]
    frame = pd.DataFrame(X.round(4), columns=[f"x{j}" for j in range(D)])
    frame.insert(0, "id", [f"person-{first + i:07d}" for i in range(n)])
    frame["y"] = np.where(y, "yes", "no")
    return frame


def events(frame):
    """Return the events of a frame."""
    return frame.drop(columns="y").to_dict("records")


def labels(frame):
    """Return the labels of a frame."""
    return frame[["id", "y"]].to_dict("records")


def make_model(path, rng):
    """Write a model; return its rows."""
    frame = rows_of(rng, 9_000_000, START)
    TableClassifier().fit(frame.drop(columns="id"), "y").save(str(path))
    return frame


def difference(path, frame):
    """Return the largest difference of coefficients from a batch fit, relative to the largest."""
    batch = TableClassifier().fit(frame.drop(columns="id"), "y")
    batch.save(f"{path}-batch")
    one, two = TableModel.load(str(path)), TableModel.load(f"{path}-batch")
    assert one.model.class_count.tolist() == two.model.class_count.tolist()
    order = [one.encoding.features.index(feature) for feature in two.encoding.features]
    mine, theirs = wrap_engine(one.model).coef_[:, order], wrap_engine(two.model).coef_
    return float(np.abs(mine - theirs).max() / np.abs(theirs).max())


# Kills


def start(path):
    """Start the service; return the process and its address."""
    command = [*COMMAND, "serve", str(path), "--id", "id", "--port", "0", "--save-every", "0.3s"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        found = re.search(r"serving at (\S+)", line)
        if found:
            return process, found[1]
    raise RuntimeError(f"the service ended with {process.wait()}")


def send_until(address, frame, acknowledged, sent, stop):
    """Send events and their labels until the service is killed."""
    with Client(address) as client, contextlib.suppress(OSError, http.client.HTTPException):
        for event, label in zip(events(frame), labels(frame), strict=True):
            if stop.is_set():
                return
            sent.add(event["id"])
            with contextlib.suppress(ServiceError):  # learned before a kill, but not acknowledged
                client.predict(event)
            client.label(label)
            acknowledged.add(event["id"])


def kill_services(kills, seed=0):
    """Kill the service at random moments under load; return a row of the table."""
    rng, moments = np.random.default_rng(seed), random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m")
        first = make_model(path, rng)
        acknowledged, sent, every = set(), set(), [first]
        for k in range(kills):
            process, address = start(path)
            frame, stop = rows_of(rng, k * 2_000, 1_500), threading.Event()
            every.append(frame)
            threads = [
                threading.Thread(
                    target=send_until, args=(address, frame[part::3], acknowledged, sent, stop)
                )
                for part in range(3)
            ]
            for thread in threads:
                thread.start()
            time.sleep(moments.uniform(0.05, 0.8))
            process.kill()
            stop.set()
            for thread in threads:
                thread.join()
            process.wait()
            process.stderr.close()
        table = pd.concat(every)
        with EventStore(str(path)) as store:
            versions = {store.version}
            learned = set(store._store.base.select("learned"))
        with EventStore(str(path)) as store:
            versions.add(store.version)
        assert acknowledged <= learned <= sent
        assert len(versions) == 1
        largest = difference(path, table[table.id.isin(learned | set(first.id))])
    return kills, f"{len(acknowledged):,}", len(acknowledged - learned), f"{largest:.0e}"


# Revisions and erasures


def revise_and_erase(revised, erased, seed=1):
    """Revise labels and erase events; return a row of the table."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m")
        first = make_model(path, rng)
        frame = rows_of(rng, 0, 2 * revised)
        wrong = frame.iloc[:revised].copy()
        wrong["y"] = np.where(wrong.y == "yes", "no", "yes")
        with EventStore(str(path), id="id", keep=True) as store:
            for at in range(0, len(frame), 1_000):
                store.predict(events(frame.iloc[at : at + 1_000]))
            for at in range(0, revised, 500):
                store.label(labels(wrong.iloc[at : at + 500]))
            store.label(labels(frame.iloc[revised:]))
            for at in range(0, revised, 250):
                results = store.label(labels(frame.iloc[at : at + 250]))
                assert set(results) == {"revised"}
            gone = frame.id.iloc[rng.permutation(len(frame))[:erased]].tolist()
            for at in range(0, erased, 100):
                assert set(store.erase(gone[at : at + 100])) == {"learned"}
            files = [Path(folder, name).read_bytes() for name in os.listdir(folder)]
            found = sum(one.encode() in data for one in gone for data in files)
        left = frame[~frame.id.isin(gone)]
        largest = difference(path, pd.concat([first, left]))
    return f"{revised:,}", f"{erased:,}", f"{largest:.0e}", found


# Requests that are wrong


def send_mutated(client, requests, seed=3):
    """Send requests changed at random; return the numbers of answers, problems and failures."""
    rng, rows = random.Random(seed), services.rows_of(0, 300)
    given = {
        "/predict": services.events(rows), "/label": services.labels(rows), "/learn": rows,
    }  # fmt: skip
    counts = Counter()
    host = client.address.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=60)
    for k in range(requests):
        where = rng.choice(list(given))
        content = rng.choice([given[where][k % 300], given[where][k % 300 : k % 300 + 3]])
        for _ in range(rng.randrange(1, 4)):
            content = services.mutate(rng, content)
        body = bytearray(json.dumps(content).encode())
        if rng.random() < 0.2:
            body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
        connection.request("POST", where, bytes(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        counts[response.status // 100] += 1
    connection.close()
    return [f"{requests:,}", f"{counts[2]:,}", f"{counts[4]:,}", counts[5]]


def send_generated(client, examples, folder):
    """Let schemathesis send requests by the OpenAPI document; return the same numbers."""
    command = [
        "schemathesis", "run", f"{client.address}/openapi.json", "--max-examples", str(examples),
        "--checks", "not_a_server_error,status_code_conformance,content_type_conformance,"
        "response_schema_conformance",
        "--exclude-path", "/live", "--no-color", "--generation-deterministic",
    ]  # fmt: skip
    text = subprocess.run(command, capture_output=True, text=True, cwd=folder).stdout
    found = re.search(r"(\d+) generated, (\d+) passed", text)
    if found is None:
        raise RuntimeError(text[-2000:])
    generated, passed = int(found[1]), int(found[2])
    return [f"{generated:,}", "", "", generated - passed]


def fuzz(requests, examples):
    """Return the rows of the table, and the growth of the memory in MB."""
    process = psutil.Process()
    with tempfile.TemporaryDirectory() as folder:
        path = services.write_model(folder)
        with services.service(path, keep=True) as client:
            send_mutated(client, 500, seed=4)
            before = process.memory_info().rss
            rows = [["mutated requests", *send_mutated(client, requests)]]
            grown = (process.memory_info().rss - before) / 2**20
            rows.append(["generated by schemathesis", *send_generated(client, examples, folder)])
            version = client.model()["version"]
        with EventStore(path) as store:
            assert store.version == version
    return rows, grown


# Feedback bias

POLICIES = (
    ("every label comes", None, False),
    ("alerts block", None, True),
    ("alerts block, 1% explored", 0.01, True),
    ("alerts block, 5% explored", 0.05, True),
)


def simulate_feedback(n, explore, is_blocking, seed=2):
    """Return errors of a model that alerts block from labels.

    They are the learned share of the positive class over the true one, the mean predicted
    probability among alerts on new rows, and their true precision.
    """
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m")
        first = make_model(path, rng)
        frame = rows_of(rng, 0, n)
        new = rows_of(rng, 5_000_000, 20_000)
        with EventStore(str(path), id="id") as store:
            store.set_predictions(PredictionSettings(Threshold(0.7), explore=explore or 0.0))
            for at in range(0, n, 1_000):
                part = frame.iloc[at : at + 1_000]
                answers = store.predict(events(part))
                comes = [not (is_blocking and one["alert"]) for one in answers]
                store.label(labels(part[comes]))
            counts = store.model.class_counts
            answers = store.predict(events(new))
        learned = counts["yes"] / sum(counts.values())
        true = (pd.concat([first, frame]).y == "yes").mean()
        # The same number of highest rows for every model.
        score = np.array([one["proba_balanced_yes"] for one in answers])
        risk = np.array([one["proba_stream_yes"] for one in answers])
        top = np.argsort(-score)[:1_000]
        precision = (new.y.to_numpy()[top] == "yes").mean()
    return learned, true, risk[top].mean(), precision


def main():
    """Run the parts, and write the table."""
    options = report.parse(
        __doc__,
        PARTS,
        kills=200,
        revised=10_000,
        erased=1_000,
        rows=50_000,
        mutated=10_000,
        examples=300,
    )
    parts = []
    if "kills" in options.parts:
        head = ("SIGKILLs under load", "acknowledged labels", "lost", "difference from a batch fit")
        parts.append(report.table(head, [kill_services(options.kills)]))
    if "revisions" in options.parts:
        head = ("labels revised", "events erased", "difference from a batch fit", "ids in files")
        parts.append(report.table(head, [revise_and_erase(options.revised, options.erased)]))
    if "fuzz" in options.parts:
        rows, grown = fuzz(options.mutated, options.examples)
        head = ("requests", "sent", "answers", "problems", "failures")
        parts.append(report.table(head, rows))
        parts.append(
            f"A failure is a status of 500 or more, or an answer that does not conform to the "
            f"document. The memory of generator and service grew by {grown:.0f} MB."
        )
    if "feedback" in options.parts:
        rows = []
        for name, explore, is_blocking in POLICIES:
            learned, true, risk, precision = simulate_feedback(options.rows, explore, is_blocking)
            rows.append([name, f"{true:.2%}", f"{learned:.2%}", f"{risk:.1%}", f"{precision:.1%}"])
        head = ("policy", "true share of the class", "learned share",
                "predicted precision of the 1,000 highest", "their precision")  # fmt: skip
        parts.append(report.table(head, rows))
        parts.append(
            f"{options.rows:,} events, of which an alert at a balanced probability of 0.7 blocks "
            "the label, unless it is explored. One seed. The largest difference of a coefficient "
            "is relative to the largest coefficient. Precision is that of 20,000 new events."
        )
    report.write("serve_proof", "Nothing lost, nothing left, and feedback bias", *parts)


if __name__ == "__main__":
    main()
