"""Mutated model files and inputs of every format: no crash, no traceback, no hang, nothing torn.

Each command runs in a process of its own, forked from one that has imported everything and started
no thread, with 2 GB of address space. The mutations follow from the seed alone: a case is repeated
by ``python -m benchmarks.proofs.mutations --only FORMAT --first CASE --count 1 --show``.
"""

import argparse
import collections
import contextlib
import gc
import gzip
import io
import json
import os
import random
import resource
import select
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

import counterpoise.cli.app
import counterpoise.cli.messages
import counterpoise.estimators.auto
import counterpoise.export.json
import counterpoise.tables.evaluate
import counterpoise.tables.inspect
import counterpoise.tables.merge
import counterpoise.tables.model
import counterpoise.tables.predict
import counterpoise.tables.scoring
import counterpoise.tables.unlearn
from counterpoise.cli import main as command_line
from counterpoise.errors import ModelFileError
from counterpoise.modelfile import container as modelfile

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
MEMORY = 2 << 30  # bytes of address space that a command may have
SECONDS = 10  # of the processor that it may take
PATIENCE = 600.0  # seconds until one that does nothing is taken to hang, on however slow a machine
BAD = ("signal", "traceback", "hang", "torn")


# Running


def run(arguments, folder, stdin=None):
    """Exit code (negative for a signal, None for a hang) and standard error of one command.

    A function may take the place of the arguments.
    """
    sys.stdout.flush()
    child = os.fork()
    if not child:
        _command(arguments, folder, stdin)
    handle = os.pidfd_open(child)
    try:
        if not select.select([handle], [], [], PATIENCE)[0]:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None, (folder / "stderr").read_text(errors="replace")
    finally:
        os.close(handle)
    status = os.waitpid(child, 0)[1]
    return os.waitstatus_to_exitcode(status), (folder / "stderr").read_text(errors="replace")


def _command(arguments, folder, stdin):
    """Be the command; never returns."""
    code = 99
    try:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
        pa.set_cpu_count(1)
        os.chdir(folder)
        for number, name, flags in (
            (0, stdin or os.devnull, os.O_RDONLY),
            (1, "stdout", os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
            (2, "stderr", os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        ):
            os.dup2(os.open(name, flags, 0o666), number)
        if callable(arguments):
            arguments()
        else:
            sys.argv = ["counterpoise", *arguments]
            command_line()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def verdict(code, words, before, folder):
    """What became of a command; ``before`` is the bytes of each file that is or may be a model."""
    if code in (None, -signal.SIGXCPU):
        return "hang"
    if code < 0:
        return "signal"
    assert "Usage:" not in words, words
    if "Traceback" in words or code not in (0, 1, 2):
        return "traceback"
    for name, data in before.items():
        path = folder / name
        now = path.read_bytes() if path.exists() else None
        if now == data:
            continue
        try:
            whole = code == 0 and modelfile.from_bytes(now)
        except (TypeError, ModelFileError):
            whole = False
        if not whole:
            return "torn"
    if any(path.name.endswith(".tmp") for path in folder.iterdir()):
        return "torn"
    if code == 1 and "out of memory" in words:
        return "out of memory"
    return "accepted" if code == 0 else "refused"


# Mutating

NUMBERS = [b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\1\0\0\0",
           b"\0\0\1\0", b"\xff" * 7 + b"\x7f", b"\0" * 8, b"\xff" * 8, b"\0\0\0\0\1\0\0\0",
           b"\0" * 7 + b"\x80"]  # fmt: skip
WORDS = [b'"', b"\n", b"\r\n", b",", b",,,,", b"NaN", b"1e999", b"-", b"\0", b"9" * 400, b"[" * 70,
         b"null", b'{"a":1,"a":2}', b"\xef\xbb\xbf", b"\xff\xfe", b"\\ud800", b"[/x]", b"1:1",
         b"99999999999:1", b"-1:1", b"#", b"\x1b[2J", b"{}", b"true", b"x" * 3000, b"=1+1",
         b"2024-02-30", b":", b" ", b"\t"]  # fmt: skip


def mutated(data, rng, text):
    """One of many ways to spoil bytes, a few of them at once now and then."""
    spoilt = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if not spoilt:
            break
        at, way = rng.randrange(len(spoilt)), rng.randrange(8)
        if way == 0:
            spoilt[at] = rng.randrange(256)
        elif way == 1:
            spoilt[at] ^= 1 << rng.randrange(8)
        elif way == 2:
            number = rng.choice(NUMBERS)
            at -= at % len(number)
            spoilt[at : at + len(number)] = number
        elif way == 3:
            del spoilt[at : at + rng.randrange(1, 64)]
        elif way == 4:
            start = rng.randrange(len(spoilt))
            spoilt[at:at] = spoilt[start : start + rng.randrange(1, 64)]
        elif way == 5:
            start, size = rng.randrange(len(spoilt)), rng.randrange(1, 64)
            spoilt[at : at + size] = spoilt[start : start + size]
        elif way == 6 and not rng.randrange(4):
            del spoilt[at:]
        elif text:
            spoilt[at:at] = rng.choice(WORDS)
        else:
            spoilt[at] = (spoilt[at] + rng.choice((-1, 1, 8))) % 256
    return bytes(spoilt)


VALUES = [None, True, -1, 10**30, 1.5, "x", [], {}, [None], {"a": 1}, "", 2**63, 1e308, [[]], 0, 1,
          10**12, 10**6, 2**32, "text", "number", 1e300, "poly99", "rff:99999999"]  # fmt: skip


def resealed(data, rng):
    """A model file with a value of its header or of a tensor changed, and the right checksum."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(json.loads(data[8 : 8 + length])["__metadata__"][modelfile.KEY])
    header.pop("sha256")
    tensors = {k: v.copy() for k, v in modelfile.safetensors.numpy.load(data).items()}
    if rng.random() < 0.7:
        _spoil_header(header, rng)
    else:
        _spoil_tensor(tensors, rng)
    try:
        header["sha256"] = modelfile._checksum(header, tensors)
        words = modelfile._canonical(header).decode()
    except (TypeError, ValueError):
        words = json.dumps(header)
    return modelfile.safetensors.numpy.save(tensors, {modelfile.KEY: words})


def _spoil_header(node, rng):
    while True:
        keys = sorted(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return
        key = rng.choice(keys)
        if isinstance(node[key], (dict, list)) and node[key] and rng.random() < 0.8:
            node = node[key]
        elif isinstance(node, dict) and rng.random() < 0.2:
            del node[key]
            return
        else:
            strange = isinstance(node, dict) and rng.random() < 0.2
            node["strange" if strange else key] = rng.choice(VALUES)
            return


def _spoil_tensor(tensors, rng):
    name = rng.choice(sorted(tensors))
    array, way = tensors[name], rng.randrange(6)
    if way == 0:
        tensors[name] = np.ascontiguousarray(array.reshape(*array.shape, 1))
    elif way == 1:
        tensors[name] = np.concatenate([array, array])
    elif way == 2:
        del tensors[name]
    elif way == 3:
        tensors[name + "x"] = array
    elif array.size:
        flat = array.ravel().copy()
        numbers = [np.nan, np.inf, -1.0, 1e300, -1e300, 1e60, 1e-300, 0.5, -0.0]
        with np.errstate(invalid="ignore", over="ignore"):
            flat[rng.randrange(flat.size)] = np.array(rng.choice(numbers)).astype(array.dtype)
        tensors[name] = flat.reshape(array.shape)


# Inputs and commands


def rows(n=60):
    """Rows with numbers, text, truth values, dates, missing values and labels."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, n)
    day = np.datetime64("2024-01-01") + np.arange(n)
    return pa.table(
        {
            "a": np.round(rng.standard_normal(n) + y, 3),
            "b": [None if i % 7 == 0 else f"t{i % 5}" for i in range(n)],
            "c": rng.integers(0, 9, n),
            "d": pa.array(day),
            "e": y == 1,
            "y": [["no", "yes"][k] for k in y],
        }
    )


def bases():
    """Sound inputs of each format."""
    table = rows()
    whole = table.append_column("f", table["b"].dictionary_encode())
    whole = whole.append_column("g", table["b"].cast(pa.large_string()))
    whole = whole.append_column("h", table["b"].cast(pa.string_view()))
    out = io.BytesIO()
    pa.csv.write_csv(table, out)
    lines = "".join(json.dumps(row, default=str) + "\n" for row in table.to_pylist())
    sparse = "".join(f"{i % 2} 1:{i / 7:.3f} {2 + i % 5}:1 9:{i % 3}\n" for i in range(60))
    found = {"csv": [out.getvalue()], "jsonl": [lines.encode()], "libsvm": [sparse.encode()]}
    for name, new in (("arrow stream", pa.ipc.new_stream), ("arrow file", pa.ipc.new_file)):
        found[name] = []
        for codec in (None, None, "zstd", "lz4"):
            out = io.BytesIO()
            with new(out, whole.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as file:
                file.write_table(whole, max_chunksize=25)
            found[name].append(out.getvalue())
    found["parquet"] = []
    for options in ({"compression": "none"}, {"compression": "none", "use_dictionary": False},
                    {"compression": "zstd", "data_page_version": "2.0"}, {}):  # fmt: skip
        out = io.BytesIO()
        pa.parquet.write_table(table, out, row_group_size=25, **options)
        found["parquet"].append(out.getvalue())
    return found


ENDINGS = {"csv": "t.csv", "jsonl": "t.jsonl", "libsvm": "t.libsvm", "parquet": "t.parquet",
           "arrow stream": "t.arrows", "arrow file": "t.arrow"}  # fmt: skip
LEARN = ["--label", "y", "--epoch", "d", "--missing", "indicate"]
TEXT = ("csv", "jsonl", "libsvm")


def input_case(kind, sound, rng):
    """Name and bytes of a mutated input, and the command that is to read it."""
    name, data = ENDINGS[kind], mutated(rng.choice(sound), rng, kind in TEXT)
    if kind in TEXT and not rng.randrange(10):
        pack = gzip.compress if rng.randrange(2) else pa.Codec("zstd").compress
        data = pack(data) if isinstance(pack(b"x"), bytes) else bytes(pack(data))
        if rng.randrange(2):
            data = mutated(data, rng, False)
        name += ".packed"
    options = [] if kind == "libsvm" else LEARN
    model = f"{'libsvm' if kind == 'libsvm' else 'rows'}.model"
    format_ = ["--format", kind.split(" ")[0]]
    arguments = rng.choice(
        [
            ["learn", name, *options, "-m", "new", "--metrics", "metrics"],
            ["learn", name, *options, "-m", "new", "--chunk-rows", "16", "--feature-map", "rm2"],
            ["learn", name, "-m", model, "--allow-overlap"],
            ["predict", model, name],
            ["predict", model, name, "-o", "out.parquet"],
            ["evaluate", model, name],
        ]
    )
    if kind != "parquet" and not rng.randrange(6):
        arguments[arguments.index(name)] = "-"
    return name, data, arguments + format_


def model_case(sound, rng):
    """Name and bytes of a mutated model file, and the command that is to read it."""
    data = rng.choice(sound)
    data = resealed(data, rng) if rng.random() < 0.75 else mutated(data, rng, False)
    arguments = rng.choice(
        [
            ["inspect", "bad"],
            ["predict", "bad", "rows.csv"],
            ["evaluate", "bad", "rows.csv"],
            ["learn", "more.csv", "-m", "bad"],
            ["unlearn", "bad", "rows.csv"],
            ["merge", "bad", "rows.model", "-o", "new", "--allow-overlap"],
            ["export", "bad", "-o", "out.json"],
        ]
    )
    return "bad", data, arguments


def prepared(folder):
    """Sound inputs by format and sound models, and the files that commands need beside them."""
    found = bases()
    (folder / "rows.csv").write_bytes(found["csv"][0])
    (folder / "rows.libsvm").write_bytes(found["libsvm"][0])
    head, *lines = found["csv"][0].decode().splitlines()
    (folder / "more.csv").write_text("\n".join([head, *lines[::-1], ""]))
    for name, arguments in {
        "rows.model": ["learn", "rows.csv", *LEARN],
        "libsvm.model": ["learn", "rows.libsvm"],
        "hash.model": ["learn", "rows.csv", *LEARN, "--hash", "b=8", "--ridge", "gcv"],
        "rm.model": ["learn", "rows.csv", *LEARN, "--feature-map", "rm2", "--half-life", "50"],
        "auto.model": ["learn", "rows.csv", *LEARN, "--feature-map", "auto"],
    }.items():
        code, words = run([*arguments, "-m", name], folder)
        assert code == 0, words
    models = [(folder / name).read_bytes() for name in sorted(os.listdir(folder))
              if name.endswith(".model")]  # fmt: skip
    return found, models


def prove(kind, folder, found, models, cases, show=False):
    """Run cases of one kind; how often each verdict came. Those that must not be are shown."""
    kept = {name: (folder / name).read_bytes() for name in os.listdir(folder)}
    counts = collections.Counter()
    for case in cases:
        rng = random.Random(f"{kind} {case}")
        if kind == "model":
            name, data, arguments = model_case(models, rng)
        else:
            name, data, arguments = input_case(kind, found[kind], rng)
        (folder / name).write_bytes(data)
        before = {n: d for n, d in kept.items() if n.endswith(".model")} | {"new": None}
        if kind == "model":
            before["bad"] = data
        code, words = run(arguments, folder, name if "-" in arguments else None)
        result = verdict(code, words, before, folder)
        counts[result] += 1
        if result in BAD or show:
            print(kind, case, result, code, *arguments, words[-2000:], file=sys.stderr, flush=True)
        for path in folder.iterdir():
            if path.name not in kept:
                path.unlink()
            elif path.name.endswith(".model") and path.read_bytes() != kept[path.name]:
                path.write_bytes(kept[path.name])
    return counts


ROUND = 500  # cases of one kind, before the next kind has its turn
KINDS = ("model", *ENDINGS)


def use_one_thread():
    """Start this program again with one BLAS thread, unless it has one."""
    if any(os.environ.get(name) != "1" for name in THREADS):
        os.execve(sys.executable, sys.orig_argv, os.environ | dict.fromkeys(THREADS, "1"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000, help="cases of each kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", choices=KINDS, action="append", help="one kind (repeatable)")
    parser.add_argument("--log", type=Path, help="file of counts, to go on from")
    parser.add_argument("--check", action="store_true", help="write no table")
    parser.add_argument("--show", action="store_true", help="show what each command says")
    options = parser.parse_args()
    use_one_thread()
    warm()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    kinds, start = options.only or KINDS, time.monotonic()
    counts = {kind: collections.Counter() for kind in KINDS}
    if options.log and options.log.exists():
        counts |= {
            k: collections.Counter(c) for k, c in json.loads(options.log.read_text()).items()
        }
    with tempfile.TemporaryDirectory(dir=memory) as name:
        folder = Path(name)
        sound = prepared(folder)
        for last in range(ROUND, options.count + ROUND, ROUND):
            for kind in kinds:
                done = counts[kind].total()
                cases = range(options.first + done, options.first + min(last, options.count))
                if not cases:
                    continue
                counts[kind] += prove(kind, folder, *sound, cases, options.show)
                print(f"{time.monotonic() - start:.0f} s", kind, dict(counts[kind]), flush=True)
                if options.log:
                    options.log.write_text(json.dumps(counts))
    if not (options.check or options.show):
        _report(counts)
    sys.exit(1 if any(c[bad] for c in counts.values() for bad in BAD) else 0)


def warm():
    """Import all that a command needs, and see that there is no thread, which a fork would lose."""
    for name in counterpoise.cli.app.COMMANDS:
        with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
            counterpoise.cli.app.resolve_command(name)([name, "--help"])
    names = [Path(f"/proc/self/task/{task}/comm").read_text().strip()
             for task in os.listdir("/proc/self/task")]  # fmt: skip
    others = [name for name in names if name != "jemalloc_bg_thd"]  # which knows about forks
    assert len(others) == 1, f"there are threads: {names}"
    gc.collect()
    gc.freeze()


def _report(counts):
    import report

    columns = ("accepted", "refused", "out of memory", *BAD)
    lines = [[kind, f"{c.total():,}", *(c[name] for name in columns)] for kind, c in counts.items()]
    report.write(
        "mutations",
        "Mutated model files and inputs",
        report.machine("numpy", "pyarrow", "safetensors"),
        "Each command (`learn` into a new and into an old model, `predict`, `evaluate`; for model "
        "files also `inspect`, `unlearn`, `merge`, `export`) ran in a process of its own with "
        f"{MEMORY >> 30} GB of address space and {SECONDS} seconds of the processor. One text in "
        "ten was gzip or zstd, one input in six came through standard input, three model files in "
        "four had a right checksum. *Refused* is one message and exit code 2 or 1; *torn* is a "
        "model file that is not whole, or changed though the command failed, or a temporary file "
        "left behind.",
        report.table(["format", "commands", *columns], lines),
    )


if __name__ == "__main__":
    main()
