"""The service: answers, roles, limits, problems, and nothing lost when it is killed."""

import collections
import contextlib
import http.client
import io
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest
from benchmarks.proofs.serve import simulate_feedback
from builders import assert_close
from fork_server import MAIN
from services import START, events, labels, mutate, rows_of, running, service, write_model

from counterpoise import EventStore, TableClassifier
from counterpoise.errors import DataError
from counterpoise.estimators.auto import wrap_engine
from counterpoise.serve import Client, ServiceError, new_token
from counterpoise.serve.app import Limits
from counterpoise.serve.server import ServerSettings, serve_file, serve_store
from counterpoise.serve.tokens import Tokens
from counterpoise.tables.alerts import Threshold
from counterpoise.tables.event_store import PredictionSettings
from counterpoise.tables.model import TableModel

COMMAND = [sys.executable, "-c", MAIN]


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_model(tmp_path)


def send(client, method, path, body=None, **headers):
    """Send a raw request; return status, headers and content."""
    host = client.address.removeprefix("http://")
    with contextlib.closing(http.client.HTTPConnection(host, timeout=30)) as connection:
        connection.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()


def assert_learned(path, rows):
    """Compare a model with one that has learned the first rows and these."""
    one = TableModel.load(path)
    batch = pd.DataFrame(rows_of(10_000, START) + rows).drop(columns="id")
    TableClassifier().fit(batch, "y").save("batch")
    two = TableModel.load("batch")
    assert one.model.class_count.tolist() == two.model.class_count.tolist()
    order = [one.encoding.features.index(feature) for feature in two.encoding.features]
    assert_close(wrap_engine(one.model).coef_[:, order], wrap_engine(two.model).coef_, 1e-9)


@pytest.mark.slow
def test_events_are_predicted_now_and_learned_when_their_labels_come(path):
    rows = rows_of(0, 40)
    with service(path, keep=True) as client:
        answers = client.predict(events(rows))
        assert client.predict(events(rows)[3]) == answers[3]
        assert client.label(labels(rows)[0]) == {"result": "learned"}
        assert (
            client.label(labels(rows[:20]))
            == [{"result": "unchanged"}] + [{"result": "learned"}] * 19
        )
        assert client.label({"id": "later", "y": "no"}) == {"result": "waiting"}
        assert client.learn(rows_of(500, 5)) == [{"result": "learned"}] * 5
        assert client.erase("p3") == {"result": "erased", "was": "learned"}
        assert client.erase("p30") == {"result": "erased", "was": "pending"}
        with pytest.raises(ServiceError, match="404: no event has this id"):
            client.erase("p3/../x?y=<b>")
        about = client.model()
        assert (about["pending_events"], about["waiting_labels"]) == (19, 1)
        assert about["learned_events"] == 24
        assert sum(one["events"] for one in about["quality"]) == 20
    assert_learned(path, [*rows[:3], *rows[4:20], *rows_of(500, 5)])
    lines = [json.loads(line) for line in Path(f"{path}.audit").read_text().splitlines()]
    assert [line["was"] for line in lines] == ["learned", "pending"]
    assert "p30" not in Path(f"{path}.audit").read_text()


@pytest.mark.slow
def test_concurrent_requests_share_commits_and_are_learned_once(path):
    """Eight clients send every event and label twice, in any order."""
    rows = rows_of(0, 240)
    with service(path) as client:

        def work(seed):
            mine = rows[:]
            random.Random(seed).shuffle(mine)
            with Client(client.address) as own:
                for row in mine:
                    with contextlib.suppress(ServiceError):
                        own.predict(events([row])[0])
                    own.label(labels([row])[0])

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        about = client.model()
        assert (about["pending_events"], about["waiting_labels"]) == (0, 0)
        assert about["learned_events"] == 240
        text = client_text(client, "/metrics")
        groups = int(re.search(r"^counterpoise_groups_total (\d+)", text, re.M).group(1))
        grouped = int(re.search(r"^counterpoise_grouped_rows_total (\d+)", text, re.M).group(1))
        assert grouped > groups
    assert_learned(path, rows)


def client_text(client, path):
    return send(client, "GET", path)[2].decode()


MALFORMED = [
    ("POST", "/predict", b"{", "application/json", 400),
    ("POST", "/predict", b"", "application/json", 400),
    ("POST", "/predict", b'{"id": "a", "amount": NaN, "shop": "s1"}', "application/json", 400),
    ("POST", "/predict", b'"\xff"', "application/json", 400),
    ("POST", "/predict", b"[" * 5000 + b"]" * 5000, "application/json", 400),
    ("POST", "/predict", b"[]", "application/json", 422),
    ("POST", "/predict", b"3", "application/json", 422),
    ("POST", "/predict", b"[[]]", "application/json", 422),
    ("POST", "/predict", b"{}", "application/json", 422),
    ("POST", "/predict", b'{"id": "a"}', "application/json", 422),
    ("POST", "/predict", b'{"id": ["a"], "amount": 1, "shop": "s1"}', "application/json", 422),
    ("POST", "/predict", b'{"id": "a", "amount": "x", "shop": "s1"}', "application/json", 422),
    ("POST", "/predict", b'{"id": "a", "amount": [1], "shop": "s1"}', "application/json", 422),
    ("POST", "/predict", b'{"id": "a", "amount": 1e300, "shop": "s1"}', "application/json", 422),
    (
        "POST",
        "/predict",
        b'{"id": "a", "amount": 1, "shop": "s1", "z": 1}',
        "application/json",
        422,
    ),
    ("POST", "/predict", b'{"id": "a", "amount": 1, "shop": "s1"}', "text/plain", 415),
    ("POST", "/predict", b'{"id": "a", "amount": 1, "shop": "s1"}', "", 415),
    ("POST", "/label", b'{"id": "a", "y": "maybe"}', "application/json", 422),
    ("POST", "/label", b'{"id": "a", "y": {"a": 1}}', "application/json", 422),
    (
        "POST",
        "/label",
        b'[{"id": "a", "y": "no"}, {"id": "a", "y": "yes"}]',
        "application/json",
        422,
    ),
    ("POST", "/learn", b'{"id": "a", "y": "no"}', "application/json", 422),
    ("GET", "/predict", None, "", 405),
    ("POST", "/nothing", b"{}", "application/json", 404),
    ("GET", "/../../etc/passwd", None, "", 404),
    ("DELETE", "/events/%00", None, "", 404),
    ("DELETE", "/events/'; DROP TABLE rows; --", None, "", 404),
    ("DELETE", "/events/" + "x" * 5000, None, "", 404),
]


@pytest.mark.slow
def test_bad_requests_are_problems_that_change_nothing(path):
    with service(path, limits=Limits(body=60_000, rows=20, seconds=0.5)) as client:
        version = client.model()["version"]
        cases = list(MALFORMED)
        cases.append(
            ("POST", "/predict", b'{"id": "' + b"x" * 60_000 + b'"}', "application/json", 413)
        )
        cases.append(("POST", "/predict", json.dumps([{}] * 21).encode(), "application/json", 413))
        wide = {"id": "a", **{f"x{j}": 1.0 for j in range(4000)}}
        cases.append(("POST", "/predict", json.dumps(wide).encode(), "application/json", 422))
        for method, where, body, kind, status in cases:
            headers = {"Content_Type": kind} if kind else {}
            found, answered, data = send(client, method, where.replace(" ", "%20"), body, **headers)
            assert found == status, (where, body[:60] if body else None, data)
            assert answered["content-type"] == "application/problem+json"
            problem = json.loads(data)
            assert problem["status"] == status
            assert problem["detail"]
            assert "Traceback" not in data.decode()
        status, _, data = send(
            client, "POST", "/predict", b"\x1f\x8b", Content_Type="application/json",
            Content_Encoding="gzip",
        )  # fmt: skip
        assert (status, json.loads(data)["detail"]) == (415, "compressed content is not accepted")
        for field, value in (("amount", "x"), ("id", 1.5), ("z", 3)):
            bad = {"id": "a", "amount": 1.0, "shop": "s1", field: value}
            good = {"id": "b", "amount": 1.0, "shop": "s1"}
            with pytest.raises(ServiceError) as caught:
                client.predict([good, bad])
            assert caught.value.problem["field"] == field, caught.value.problem
        about = client.model()
        assert (about["version"], about["pending_events"]) == (version, 0)
        # A body that does not arrive, and one that is cut off.
        host, port = client.address.removeprefix("http://").split(":")
        for end in (False, True):
            with socket.create_connection((host, int(port)), timeout=30) as slow:
                slow.sendall(
                    b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json"
                    b"\r\nContent-Length: 100\r\n\r\n{"
                )
                if end:
                    slow.shutdown(socket.SHUT_WR)
                else:
                    assert b"408" in slow.recv(100)
        client.predict({"id": "a", "amount": 1.0, "shop": "s1"})


@pytest.mark.slow
def test_the_same_id_has_one_answer(path):
    one = {"id": 7, "amount": 1.0, "shop": "s1"}
    with service(path) as client:
        first = client.predict(one)
        assert first["id"] == "7"
        assert client.predict({**one, "id": "7"}) == first
        with pytest.raises(ServiceError, match="409: id '7' was given with other features"):
            client.predict({**one, "amount": 2.0})
        client.label({"id": 7, "y": "no"})
        with pytest.raises(ServiceError, match="409: id '7' was learned already"):
            client.predict(one)
        with pytest.raises(ServiceError, match=r"409.*were deleted when it was learned"):
            client.label({"id": 7, "y": "yes"})
        assert client.label({**one, "y": "yes"}) == {"result": "revised"}
        with pytest.raises(ServiceError, match=r"409.*were deleted when it was learned"):
            client.erase("7")


@pytest.mark.slow
def test_every_endpoint_requires_its_role(path):
    tokens, lines = {}, []
    for role in ("predict", "label", "admin"):
        tokens[role], line = new_token(f"a-{role}", role)
        lines.append(line)
    allowed = {
        ("POST", "/predict"): {"predict", "admin"},
        ("POST", "/label"): {"label", "admin"},
        ("POST", "/learn"): {"label", "admin"},
        ("DELETE", "/events/none"): {"admin"},
        ("GET", "/model"): {"predict", "label", "admin"},
        ("GET", "/metrics"): {"predict", "label", "admin"},
        ("GET", "/healthz"): {None, "predict", "label", "admin"},
        ("GET", "/readyz"): {None, "predict", "label", "admin"},
        ("GET", "/openapi.json"): {None, "predict", "label", "admin"},
        ("GET", "/docs"): {None, "predict", "label", "admin"},
        ("GET", "/style.css"): {None, "predict", "label", "admin"},
    }
    with service(path, tokens=Tokens(lines)) as client:
        for (method, where), roles in allowed.items():
            for role in (None, *tokens):
                headers = {} if role is None else {"Authorization": f"Bearer {tokens[role]}"}
                body = b"{}" if method == "POST" else None
                status, answered, _ = send(
                    client, method, where, body, Content_Type="application/json", **headers
                )
                expected = (200, 404, 422) if role in roles else (401 if role is None else 403,)
                assert status in expected, (where, role, status)
                assert answered["x-content-type-options"] == "nosniff"
                assert "access-control-allow-origin" not in answered
        for wrong in ("Bearer x", "Basic x", "Bearer", f"Bearer {tokens['admin']}x", "Bearer \xff"):
            status, answered, _ = send(client, "GET", "/model", Authorization=wrong)
            assert (status, answered["www-authenticate"]) == (401, "Bearer")


@pytest.mark.slow
def test_without_tokens_the_service_is_for_this_machine(path):
    with pytest.raises(DataError, match="without tokens the service listens on loopback"):
        serve_file(path, "id", PredictionSettings(), ServerSettings("0.0.0.0", 0))
    with service(path, limits=Limits(rate=3.0)) as client:
        status, _, data = send(client, "GET", "/healthz", Host="evil.example")
        assert (status, json.loads(data)["status"]) == (403, 403)
        codes = [send(client, "GET", "/model")[0] for _ in range(8)]
        assert codes[:3] == [200] * 3
        assert 429 in codes


@pytest.mark.slow
def test_a_replica_follows_the_model_file(path):
    rows = rows_of(0, 30)
    with EventStore(path, id="id") as store:
        settings = PredictionSettings(Threshold(0.5), explain=1)
        replica_settings = ServerSettings(port=0)
        with (
            running(serve_file, path, "id", settings, replica_settings) as address,
            Client(address) as replica,
        ):
            before = replica.predict(events(rows))
            assert {"reason_1", "alert"} <= set(before[0])
            with pytest.raises(ServiceError, match="the service is read-only"):
                replica.label(labels(rows[:1]))
            store.predict(events(rows[:20]))
            store.label(labels(rows[:20]))
            store.save()
            after = replica.predict(events(rows))
            assert after[0]["model"] == store.version != before[0]["model"]
            assert after[0]["score"] != before[0]["score"]
            assert replica.model()["version"] == store.version


@pytest.mark.slow
def test_the_document_describes_every_endpoint(path):
    with service(path) as client:
        document = json.loads(client_text(client, "/openapi.json"))
        operations = {(m.upper(), p) for p, one in document["paths"].items() for m in one}
        assert operations >= {
            ("POST", "/predict"), ("POST", "/label"), ("POST", "/learn"), ("GET", "/model"),
            ("DELETE", "/events/{id}"), ("GET", "/metrics"), ("GET", "/healthz"),
            ("GET", "/readyz"), ("GET", "/openapi.json"),
        }  # fmt: skip
        schemas = document["components"]["schemas"]
        assert set(schemas["Event"]["properties"]) == {"id", "shop", "amount"}
        answer = client.predict(events(rows_of(0, 1))[0])
        assert set(answer) == set(schemas["Answer"]["properties"])
        names = re.findall(r'"\$ref": "#/components/schemas/(\w+)"', json.dumps(document))
        assert set(names) <= set(schemas)
        page = client_text(client, "/docs")
        assert "<h1>Endpoints</h1>" in page
        assert "<script" not in page
        assert "amount" in page
        assert "color-scheme" in client_text(client, "/style.css")
        metrics = client_text(client, "/metrics")
        assert "counterpoise_pending_events 1\n" in metrics
        assert re.search(r'request_seconds_count\{path="/predict"\} 1\n', metrics)


def start(path, *options):
    """Start the command; return the process and its address."""
    command = [*COMMAND, "serve", path, "--id", "id", "--port", "0", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        found = re.search(r"serving at (\S+)", line)
        if found:
            return process, found.group(1)
    raise AssertionError(process.wait())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_killed_service_has_lost_nothing_that_it_acknowledged(path, seed):
    """Each label is learned once, and the model is that of its commits, rebuilt twice alike."""
    rows, rng = rows_of(0, 200), random.Random(seed)
    acknowledged, sent = {}, set()
    for turn in range(3):
        process, address = start(path, "--save-every", "0.2s")
        stop = threading.Event()

        def work(part, address=address, stop=stop):
            with Client(address) as client, contextlib.suppress(OSError, http.client.HTTPException):
                for row in rows[part::3]:
                    if stop.is_set():
                        return
                    if row["id"] in acknowledged:
                        continue
                    sent.add(row["id"])
                    with contextlib.suppress(ServiceError):
                        client.predict(events([row])[0])
                    acknowledged[row["id"]] = client.label(labels([row])[0])["result"]

        threads = [threading.Thread(target=work, args=(part,)) for part in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.1 + rng.random() * 0.5)
        process.kill()
        stop.set()
        for thread in threads:
            thread.join()
        process.wait()
        process.stderr.close()
        with EventStore(path) as store:
            learned = store._store.find_learned([row["id"] for row in rows])
        assert acknowledged.keys() <= learned.keys() <= sent, turn
        assert_learned(path, [row for row in rows if row["id"] in learned])


@pytest.mark.slow
def test_the_command_saves_the_model_when_it_ends(path):
    rows = rows_of(0, 20)
    process, address = start(path, "--save-every", "1h", "--threshold", "0.5", "--explain", "1")
    with Client(address) as client:
        answers = client.predict(events(rows))
        assert all("alert" in one for one in answers)
        client.label(labels(rows[:10]))
    process.send_signal(signal.SIGTERM)
    text = process.stderr.read()
    assert process.wait() == 0, text
    process.stderr.close()
    assert "m: saved" in text
    assert_learned(path, rows[:10])
    assert not [name for name in os.listdir() if name.startswith(".")]


def test_wrong_options_are_errors(path, run):
    for options, message in (
        (["--port", "70000"], "--port"),
        (["--host", "0.0.0.0"], "without tokens the service listens on loopback addresses only"),
        (["--explore", "0.1"], "--explore requires a rule of alerts"),
        (["--explore", "2", "--threshold", "0.5"], "--explore must be between 0 and 1"),
        (["--top-per-day", "3", "--timestamp", "at"], "--top-per-day requires all rows of a day"),
        (["--expire", "soon"], "--expire must be a time such as"),
        (["--read-only"], "--read-only requires --id"),
        ([], "has no pending events; name the column that joins events and labels with --id"),
    ):
        assert message in run("serve", path, *options, code=2).err
    Path("tokens").write_text("shop predict abc\n")
    printed = run("serve", path, "--id", "id", "--tokens", "tokens", code=2).err
    assert "tokens, line 1: the hash of 'shop' is not a SHA-256" in printed
    for line, message in (
        ("shop predict", "expected NAME ROLES HASH"),
        (f"shop all {'0' * 64}", "role 'all' must be"),
    ):
        with pytest.raises(DataError, match=message):
            Tokens([line])


@pytest.mark.slow
def test_the_stream_of_the_page_has_its_numbers(path):
    rows = rows_of(0, 40)
    with service(path) as client:
        client.predict(events(rows))
        client.label(labels(rows[:30]))
        host = client.address.removeprefix("http://")
        with contextlib.closing(http.client.HTTPConnection(host, timeout=30)) as connection:
            connection.request("GET", "/live")
            response = connection.getresponse()
            assert response.getheader("content-type") == "text/event-stream"
            found = []
            while len(found) < 2:
                line = response.readline()
                assert line, "the stream has ended"
                if line.startswith(b"data: "):
                    found.append(json.loads(line[6:]))
        shown = found[-1]
        assert (shown["pending"], shown["learned"]) == (10, 30)
        assert sum(one["events"] for one in shown["minutes"]) == 40
        assert sum(one["labels"] for one in shown["minutes"]) == 30
        last = shown["minutes"][-1]
        positive = sum(row["y"] == "yes" for row in rows[:30]) / 30
        if len(shown["minutes"]) == 1:
            assert last["observed"] == pytest.approx(positive)
        assert 0.0 < last["g_mean"] <= 1.0
        assert {name for name, _ in shown["coefficients"]} >= {"amount"}
        assert shown["ages"] == {"under an hour": 10}
        page = client_text(client, "/")
        assert "<script src=" in page
        assert "http" not in page.replace("http-equiv", "")


@pytest.mark.slow
def test_the_demonstration_ends_by_itself(tmp_path):
    demo = Path(__file__).parents[2] / "examples" / "serve" / "demo.py"
    done = subprocess.run(
        [sys.executable, demo, "--seconds", "3"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"serving at http://127.0.0.1:\d+ \(loopback only", done.stdout)
    assert re.search(r"^\d+ payments, \d+ labels learned$", done.stdout, re.M)


def table_of(rows):
    """Return the events of rows as a table."""
    return pa.Table.from_pylist(events(rows))


def stream_of(table, **options):
    """Return a table as the bytes of an Arrow stream."""
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return out.getvalue()


@pytest.mark.slow
def test_tables_of_events_are_answered_as_tables(path):
    rows = rows_of(0, 2_500)
    kind = {"Content_Type": "application/vnd.apache.arrow.stream"}
    with service(path) as client:
        client.label(labels(rows[5:7]))  # they wait
        data = stream_of(table_of(rows), compression="zstd")
        status, headers, answer = send(client, "POST", "/predict", data, **kind)
        assert (status, headers["content-type"]) == (200, kind["Content_Type"]), answer
        found = pa.ipc.open_stream(answer).read_all()
        assert found["id"].to_pylist() == [row["id"] for row in rows]
        about = client.model()
        assert (about["pending_events"], about["learned_events"]) == (2_498, 2)
        assert client.label(labels(rows[2_000:2_400])) == [{"result": "learned"}] * 400
        assert sum(one["events"] for one in client.model()["quality"]) == 402
        status, _, again = send(client, "POST", "/predict", data[:], **kind)
        assert (status, json.loads(again)["status"]) == (409, 409)  # some are learned
        part = stream_of(table_of(rows[1_000:2_000]))
        status, _, again = send(client, "POST", "/predict", part, **kind)
        assert status == 200
        assert pa.ipc.open_stream(again).read_all().equals(found.slice(1_000, 1_000))
        other = [{**row, "amount": 99.0} for row in rows[1_000:1_003]]
        status, _, _ = send(client, "POST", "/predict", stream_of(table_of(other)), **kind)
        assert status == 409
        new = rows_of(5_000, 3)
        new[1]["amount"] = None
        for bad, code in (
            (b"", 422),
            (data[:400], 422),
            (data[:-200], 422),
            (bytes(reversed(data)), 422),
            (stream_of(table_of(new).append_column("z", pa.array([1.0] * 3))), 422),
            (stream_of(table_of(new).slice(0, 0)), 422),
            (stream_of(pa.concat_tables([table_of(new), table_of(new)])), 422),
            (stream_of(pa.table({"id": ["a"], "amount": [[1.0]], "shop": ["s1"]})), 422),
        ):
            status, headers, answer = send(client, "POST", "/predict", bad, **kind)
            assert status == code, (bad[:20], answer)
            assert headers["content-type"] == "application/problem+json"
        about = client.model()
        assert (about["pending_events"], about["learned_events"]) == (2_098, 402)
        large = stream_of(pa.concat_tables([table_of(rows)] * 41))
        assert send(client, "POST", "/predict", large, **kind)[0] == 413
    learned = [*rows[5:7], *rows[2_000:2_400]]
    assert_learned(path, learned)


@pytest.mark.slow
def test_mutated_requests_are_answers_or_problems(path):
    """Requests changed at random: no status of 500 or more, and the service answers to the end."""
    rng, rows = random.Random(0), rows_of(0, 300)
    with service(path, limits=Limits(body=100_000, rows=50)) as client:
        client.predict(events(rows)[:50])
        codes = collections.Counter()
        for k in range(600):
            where = rng.choice(["/predict", "/label", "/learn"])
            given = {"/predict": events(rows), "/label": labels(rows), "/learn": rows}[where]
            content = rng.choice([given[k % 300], given[k % 300 : k % 300 + 3]])
            for _ in range(rng.randrange(1, 4)):
                content = mutate(rng, content)
            body = json.dumps(content).encode()
            if rng.random() < 0.2:
                body = bytearray(body)
                body[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
            headers = {"Content_Type": "application/json"}
            status, _, data = send(client, "POST", where, bytes(body), **headers)
            codes[status] += 1
            assert status < 500, (where, body[:200], data)
            if status >= 400:
                assert json.loads(data)["status"] == status
        assert codes[200] > 20
        assert codes[422] > 100
        before = client.model()
        rebuilt = client.model()
        assert before == rebuilt
        counts = TableModel.load(path).class_counts
        assert set(counts) == {"no", "yes"}
    with EventStore(path) as store:
        assert store.version == before["version"]


@pytest.mark.slow
def test_a_full_disk_refuses_changes_and_the_service_goes_on(path):
    """SQLite's own limit of pages fills the disk; requests are refused until there is space."""
    rows = rows_of(0, 900)
    store = EventStore(path, id="id")
    with running(serve_store, store, ServerSettings(port=0)) as address, Client(address) as client:
        client.address = address
        client.predict(events(rows[:20]))
        client.label(labels(rows[:5]))
        before, base = client.model(), store._base._base
        pages = base.execute("PRAGMA page_count").fetchone()[0]
        base.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(ServiceError, match="503: the change could not be written"):
            client.predict(events(rows[20:]))
        status, headers, _ = send(client, "GET", "/readyz")
        assert (status, headers["retry-after"]) == (503, "1")
        assert send(client, "GET", "/healthz")[0] == 200
        assert client.model() == before
        base.execute("PRAGMA max_page_count = 1000000")
        client.predict(events(rows[20:]))
        client.label(labels(rows[5:40]))
        assert send(client, "GET", "/readyz")[0] == 200
    assert_learned(path, rows[:40])


@pytest.mark.slow
def test_exploration_corrects_the_share_of_a_class_that_alerts_block():
    """Without it the learned share is less than half of the true one."""
    learned, true, _, _ = simulate_feedback(6_000, None, True)
    explored, _, _, _ = simulate_feedback(6_000, 0.05, True)
    assert learned < 0.6 * true
    assert abs(explored - true) < 0.5 * abs(learned - true)
