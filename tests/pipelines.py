"""Pipelines into ``counterpoise learn -`` that are stopped as Ctrl-C stops them, as a program.

``python pipelines.py FORMATS COUNT SEED`` makes a stream in each format; a producer writes it
into a learner, both in a process group of their own. A signal to the group stops them, again and
again, until COUNT signals were sent; after some of them the stream comes to its end. Each time its
files must be those of an undisturbed run. Processes are forked, because forks start quickly.
"""

import fcntl
import io
import os
import random
import signal
import struct
import sys
import tempfile
import termios
import time
import traceback
from contextlib import suppress
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.ipc
from fork_server import import_commands

import counterpoise.cli.app
import counterpoise.tables.model
import counterpoise.tables.scoring
from counterpoise.tables.model import TableModel

ROWS, CHUNK = 500, 64
STOPS = (signal.SIGINT, signal.SIGTERM)
FORMATS = (
    "csv", "csv-lines", "csv.gz", "csv.zst", "jsonl", "jsonl-lines", "libsvm", "arrow", "parquet",
)  # fmt: skip


def content(kind):
    """The stream as bytes."""
    rng = np.random.default_rng(0)
    y = rng.integers(9, 12, ROWS)
    table = pd.DataFrame(
        {"a": rng.standard_normal(ROWS).round(4) + y, "b": rng.integers(0, 99, ROWS)}
    )
    if kind == "libsvm":
        pairs = zip(y, table["a"], table["b"], strict=True)
        return "".join(f"{label} 1:{a:.4f} 3:{b}\n" for label, a, b in pairs).encode()
    table["town"] = rng.choice(["Aachen", "Bonn", "Köln"], ROWS)
    table["y"] = y  # 10 cut off is 1
    if kind.startswith("jsonl"):
        return table.to_json(orient="records", lines=True, force_ascii=False).encode()
    out = io.BytesIO()
    if kind == "parquet":
        table.to_parquet(out)
        return out.getvalue()
    if kind == "arrow":
        whole = pa.Table.from_pandas(table)
        with pa.ipc.new_stream(out, whole.schema) as writer:
            writer.write_table(whole, max_chunksize=50)
        return out.getvalue()
    data = table.to_csv(index=False).encode()
    if kind in ("csv.gz", "csv.zst"):
        sink = pa.BufferOutputStream()
        with pa.CompressedOutputStream(sink, {"csv.gz": "gzip", "csv.zst": "zstd"}[kind]) as packed:
            for start in range(0, len(data), 700):
                packed.write(data[start : start + 700])
                packed.flush()
        return sink.getvalue().to_pybytes()
    return data


def forked(group, work):
    """Run something in a process of its own, of that group or, if that is 0, of a new one."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOPS)  # what Python does after a fork swallows them
    child = os.fork()
    if child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        os.setpgid(child, group or child)
        return child
    code = 1
    try:
        os.setpgid(0, group)
        for number in (*STOPS, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOPS)
        work()
        code = 0
    except SystemExit as error:
        code = error.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def learn(folder, kind, source, every):
    os.dup2(source, 0)
    os.dup2(os.open(folder / "said", os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    os.chdir(folder)
    path = "t.parquet" if kind == "parquet" else "-"  # its index is at the end: no pipe can do it
    sys.argv = ["counterpoise", "learn", path, "-m", "m", "--chunk-rows", str(CHUNK)]
    sys.argv += ["--format", kind.split("-")[0].split(".")[0], "--checkpoint-every", str(every)]
    sys.argv += ["--ridge", "gcv", "--metrics", "m.jsonl", "--metrics-every", "150"]
    if kind != "libsvm":
        sys.argv += ["--label", "y"]
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    counterpoise.cli.app.run()


def pipeline(folder, kind, data, every, interrupt=None, first=True):
    """Run both; ``interrupt(group, learner, pipe)`` is called when the producer has written all."""
    source, out = os.pipe()
    heard, told = os.pipe()

    def write():
        os.close(source)
        os.close(heard)
        left = data
        while left:
            left = left[os.write(out, left) :]
        os.write(told, b".")
        if interrupt is not None:
            signal.pause()

    def read():
        for descriptor in (out, heard, told):
            os.close(descriptor)
        learn(folder, kind, source, every)

    works = [read, write] if first else [write, read]
    group = forked(0, works[0])
    children = [group, forked(group, works[1])]
    learner, producer = children if first else children[::-1]
    os.close(out)
    os.close(told)
    if interrupt is not None:
        os.read(heard, 1)  # an event: all is in the pipe, or the learner has gone
        interrupt(group, learner, source)
    os.close(source)
    os.close(heard)
    os.waitpid(producer, 0)
    return os.waitstatus_to_exitcode(os.waitpid(learner, 0)[1])


def drained(pipe, learner):
    """Wait until the learner has taken all that is in the pipe, or has gone."""
    while (
        states(learner) != {"Z"}
        and struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))[0]
    ):
        time.sleep(0.001)


def idle(process):
    """Wait until the learner waits, as far as can be told."""
    looks = 0
    while looks < 5:
        time.sleep(0.005)
        looks = looks + 1 if states(process) <= {"S", "Z"} else 0


def saved(path, process, times):
    """Wait until the model was saved so often, or the learner has gone."""
    seen = set()
    while len(seen) <= times and states(process) != {"Z"}:
        with suppress(FileNotFoundError):
            seen.add(path.stat().st_mtime_ns)


def states(process):
    """Return the states of the threads of a process: S is waiting, Z is dead."""
    found = set()
    for stat in Path(f"/proc/{process}/task").glob("*/stat"):
        with suppress(OSError):
            found.add(stat.read_text().rsplit(")", 1)[1].split()[0])
    return found


def cut(data, rng, kind, least):
    """Return where the stream ends: at any byte, or at the end of a line."""
    place = rng.randrange(least, len(data) + 1)
    return place if not kind.endswith("-lines") else data.rindex(b"\n", 0, max(place, 100)) + 1


def taken(folder):
    """The bytes of the model and of its metrics, which go."""
    files = [folder / "m", folder / "m.jsonl"]
    result = [file.read_bytes() for file in files if file.exists()]
    for file in files:
        file.unlink(missing_ok=True)
    return result


def rows_of(folder):
    if not (folder / "m").exists():
        return 0
    ((_, record),) = TableModel.load(str(folder / "m")).records.items()
    return record.mark.rows


def disturbed(kind, count, seed):
    """Stop a stream of that format so often; print what came of it."""
    rng, data, finished, stopped = random.Random(f"{kind} {seed}"), content(kind), 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "t.parquet").write_bytes(data)
        rest = b"" if kind == "parquet" else data
        assert pipeline(folder, kind, rest, 10**6) == 0, (folder / "said").read_text()
        whole = taken(folder)
        for sent in range(1, count + 1):
            number = rng.choice([signal.SIGINT, signal.SIGTERM])

            def interrupt(group, learner, pipe, number=number):
                if kind == "parquet":
                    saved(folder / "m", learner, rng.randrange(5))
                else:
                    for wait in (lambda: drained(pipe, learner), lambda: idle(learner)):
                        if rng.random() < 0.8:
                            wait()
                os.killpg(group, number)

            every, before = rng.choice([1, 10**6]), rows_of(folder)
            least = len(data) * before // ROWS  # most of the time further than last time
            part = b"" if kind == "parquet" else data[: cut(data, rng, kind, least)]
            code = pipeline(folder, kind, part, every, interrupt, rng.random() < 0.5)
            said = (folder / "said").read_text()
            assert "Traceback" not in said, said
            stopped += code == 128 + number
            now = rows_of(folder)
            if now < before or (now % CHUNK and not (kind == "parquet" and now == ROWS)):
                sys.exit(f"{kind}, signal {sent}: {now} rows after {before}, code {code}\n{said}")
            if rng.random() < 0.5 or sent == count:
                code = pipeline(folder, kind, rest, 10**6)
                if code or taken(folder) != whole:
                    sys.exit(f"{kind}, signal {sent}: code {code}, other bytes\n{said}")
                finished += 1
        left = sorted(path.name for path in folder.iterdir())
        assert left == ["said", "t.parquet"], left
    print(
        f"{kind}: {count} signals, {stopped} stops, {finished} times bit-identical at the end",
        flush=True,
    )


if __name__ == "__main__":
    import_commands()
    for word in sys.argv[1].split(","):
        disturbed(word, int(sys.argv[2]), int(sys.argv[3]))
