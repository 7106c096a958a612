"""Load on the service at a fixed offered rate, next to an echo, and durable events of batches.

The generator does not wait for answers: the duration of a request counts from the moment at which
it was due. All of it runs on this machine, over loopback.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa

from benchmarks import report
from benchmarks.processes import COMMAND
from counterpoise import TableClassifier
from counterpoise.serve import Client

D, LEARNED_ROWS, BATCH = 30, 20_000, 500
CONNECTIONS = 256
ECHO = """
import asyncio, orjson, uvicorn, uvloop
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
async def echo(request):
    return Response(orjson.dumps(orjson.loads(await request.body())), media_type="application/json")
app = Starlette(routes=[Route("/predict", echo, methods=["POST"])])
config = uvicorn.Config(app, port=0, loop="uvloop", http="httptools", access_log=False)
uvicorn.Server(config).run()
"""


def make_model(path):
    """Write a model of numbers."""
    rng = np.random.default_rng(0)
    y = rng.random(LEARNED_ROWS) < 0.05
    X = rng.standard_normal((LEARNED_ROWS, D)) + 0.4 * y[:, None]
    columns = {f"x{j}": X[:, j] for j in range(D)}
    table = pa.table({**columns, "fraud": np.where(y, "yes", "no")})
    TableClassifier().fit(table, "fraud").save(path)


def make_event(rng, number):
    """Return an event."""
    values = rng.standard_normal(D).round(4).tolist()
    return {"payment": f"p{number}", **{f"x{j}": value for j, value in enumerate(values)}}


def start(command, pattern):
    """Start a server; return its process and its port."""
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    for line in process.stderr:
        found = re.search(pattern, line)
        if found:
            return process, int(found[1])
    raise RuntimeError(f"the server ended with {process.wait()}")


def http_request(path, content):
    """Return the bytes of a request."""
    body = json.dumps(content).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


class Generator:
    """Requests at the moments at which they are due, over connections that are kept."""

    def __init__(self, port):
        self.port = port
        self.durations, self.failed = {"event": [], "label": []}, 0
        self._idle = []
        self._slots = asyncio.Semaphore(CONNECTIONS)

    async def send(self, due, kind, data):
        """Send a request, and record how long after ``due`` its answer came."""
        async with self._slots:
            head = None
            while head is None:
                is_new = not self._idle
                if is_new:
                    pair = await asyncio.open_connection("127.0.0.1", self.port)
                else:
                    pair = self._idle.pop()
                reader, writer = pair
                writer.write(data)
                try:
                    head = await reader.readuntil(b"\r\n\r\n")
                except (asyncio.IncompleteReadError, ConnectionError):
                    if is_new:
                        raise
            length = re.search(rb"content-length: (\d+)", head, re.I)
            await reader.readexactly(int(length[1]))
            self._idle.append((reader, writer))
        self.durations[kind].append(time.perf_counter() - due)
        self.failed += not head.startswith(b"HTTP/1.1 200")

    async def run(self, rate, label_rate, seconds):
        """Offer events and labels for some seconds."""
        rng = np.random.default_rng(1)
        events = int(rate * seconds)
        data = [http_request("/predict", make_event(rng, i)) for i in range(min(events, 50_000))]
        plan = [(i / rate, "event", i) for i in range(events)]
        labels = int(label_rate * max(seconds - 1.0, 0.0))
        plan += [(1.0 + i / (label_rate or 1), "label", i) for i in range(labels)]
        tasks, begin = set(), time.perf_counter() + 0.1
        for at, kind, i in sorted(plan):
            due = begin + at
            delay = due - time.perf_counter()
            if delay > 0:
                await asyncio.sleep(delay)
            if kind == "event":
                # Each id is new; other features repeat after 50,000 events.
                one = data[i % len(data)].replace(b'"p%d"' % (i % len(data)), b'"p%d"' % i)
                if i >= len(data):
                    one = http_request("/predict", make_event(rng, i))
            else:
                one = http_request(
                    "/label", {"payment": f"p{i}", "fraud": "no" if i % 20 else "yes"}
                )
            task = asyncio.create_task(self.send(due, kind, one))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        await asyncio.gather(*tasks)
        for _, writer in self._idle:
            writer.close()


def measure(port, process, rate, label_rate, seconds):
    """Return percentiles in ms, failures, and CPU microseconds of the server per request."""
    generator = Generator(port)
    server = psutil.Process(process.pid)
    before, load = server.cpu_times(), os.getloadavg()[0]
    asyncio.run(generator.run(rate, label_rate, seconds))
    after = server.cpu_times()
    spent = after.user + after.system - before.user - before.system
    durations = np.array(generator.durations["event"]) * 1e3
    requests = sum(map(len, generator.durations.values()))
    p50, p99 = np.percentile(durations, [50, 99])
    return {
        "p50": p50, "p99": p99, "failed": generator.failed, "load": load,
        "cpu": spent / requests * 1e6, "requests": requests,
    }  # fmt: skip


def sync_milliseconds(folder, times=300):
    """Return the median and the 99th percentile of fsync after 4 kB, in milliseconds."""
    spent = []
    with open(Path(folder, "sync"), "wb") as file:
        for _ in range(times):
            file.write(b"x" * 4096)
            file.flush()
            begin = time.perf_counter()
            os.fsync(file.fileno())
            spent.append((time.perf_counter() - begin) * 1e3)
    return np.percentile(spent, [50, 99])


def measure_batches(port, seconds):
    """Return durable events per second of JSON batches, of two clients that wait for answers."""
    code = (
        "import sys, time; from benchmarks.speed.serve import send_batches; "
        "print(send_batches(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])))"
    )
    programs = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(port), str(seconds), str(k)],
            stdout=subprocess.PIPE, text=True,
        )
        for k in range(2)
    ]  # fmt: skip
    return sum(float(one.communicate()[0]) for one in programs)


def send_batches(port, seconds, number):
    """Send batches one after the other; return events per second."""
    rng = np.random.default_rng(number)
    batches = [[make_event(rng, f"{number}-{k}-{i}") for i in range(BATCH)] for k in range(40)]
    sent, begin = 0, time.perf_counter()
    with Client(f"http://127.0.0.1:{port}") as client:
        while time.perf_counter() - begin < seconds and sent < len(batches):
            client.predict(batches[sent])
            sent += 1
    return sent * BATCH / (time.perf_counter() - begin)


def main():
    """Measure, and write the table."""
    options = report.parse(__doc__, rate=2000, labels=200, seconds=60)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "m"))
        make_model(path)
        sync = sync_milliseconds(folder)
        for name, label_rate in (("echo", 0), ("service", options.labels)):
            if name == "echo":
                process, port = start([sys.executable, "-c", ECHO], r"http://127.0.0.1:(\d+)")
            else:
                command = [*COMMAND, "serve", path, "--id", "payment", "--port", "0"]
                process, port = start(command, r"http://127.0.0.1:(\d+)")
            try:
                found = measure(port, process, options.rate, label_rate, options.seconds)
            finally:
                process.terminate()
                process.wait()
            rows.append([
                name, f"{options.rate:,} + {label_rate:,}", f"{found['requests']:,}",
                found["failed"], f"{found['p50']:.1f}", f"{found['p99']:.1f}",
                f"{found['cpu']:.0f}", f"{found['load']:.1f}",
            ])  # fmt: skip
        command = [*COMMAND, "serve", path, "--id", "payment", "--port", "0"]
        process, port = start(command, r"http://127.0.0.1:(\d+)")
        try:
            batches = measure_batches(port, 20.0)
        finally:
            process.terminate()
            process.wait()
    head = ("server", "events + labels/s offered", "requests", "failed", "p50, ms", "p99, ms",
            "CPU, µs per request", "load before")  # fmt: skip
    ratio = float(rows[1][6]) / float(rows[0][6])
    report.write(
        "serve",
        "The service under load",
        f"Single events of {D} numbers at a fixed offered rate for {options.seconds} seconds, and "
        "labels of earlier events. A duration counts from the moment at which the request was "
        "due. Generator and server share the machine. The echo parses and returns the same JSON "
        "with Starlette, uvicorn, uvloop and httptools.",
        report.table(head, rows),
        f"CPU per request relative to the echo: {ratio:.2f}. fsync of 4 kB in the same folder: "
        f"median {sync[0]:.2f} ms, 99th percentile {sync[1]:.2f} ms. JSON batches of {BATCH} from "
        f"two clients: {batches:,.0f} durable events per second.",
    )


if __name__ == "__main__":
    main()
