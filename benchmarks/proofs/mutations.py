"""Changed model files, inputs, ledgers and stores: no crash, traceback, hang or silent difference.

Each command runs in a forked process with 2 GB of address space. The changes follow from the
number of the case: ``--only KIND --first CASE --count 1 --show`` repeats a case.
"""

import argparse
import collections
import gzip
import io
import json
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet
from delayed_labels import spoil_store
from ledgers import CHANGES, SEALED, change_ledger, ledger_answers, mutate_bytes, reseal

from benchmarks import processes, report
from benchmarks.processes import FAULTS, MAX_CPU_SECONDS, MAX_MEMORY, run_limited
from counterpoise import Ledger
from counterpoise.errors import ModelFileError
from counterpoise.ledger.synthetic import payments
from counterpoise.modelfile import container as modelfile
from counterpoise.tables.event_database import TABLES, EventDatabase

MODULES = (
    "counterpoise.cli.messages", "counterpoise.estimators.auto", "counterpoise.export.json",
    "counterpoise.tables.delayed_labels", "counterpoise.tables.evaluate",
    "counterpoise.tables.inspect", "counterpoise.tables.merge", "counterpoise.tables.predict",
    "counterpoise.tables.scoring", "counterpoise.tables.unlearn",
)  # fmt: skip
BAD = (*FAULTS, "torn", "different")  # outcomes that must not occur
COLUMNS = ("accepted", "refused", "out of memory", *BAD)


def restore(folder, files):
    """Make a folder contain these files and no others."""
    for path in folder.iterdir():
        if path.name not in files:
            path.unlink()
    for name, data in files.items():
        if not (folder / name).exists() or (folder / name).read_bytes() != data:
            (folder / name).write_bytes(data)


def read_files(folder):
    """Return the bytes of each file by name."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def is_torn(code, before, folder):
    """Return whether a model is not whole, or has changed though the command failed."""
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
            return True
    return any(path.name.endswith(".tmp") for path in folder.iterdir())


def evaluate_models(code, text, before, folder):
    """Return the outcome of a command that may write models."""
    assert "Usage:" not in text, text
    result = processes.outcome(code, text)
    return "torn" if result not in FAULTS and is_torn(code, before, folder) else result


def run_all(folder, commands):
    """Run commands that must succeed."""
    for arguments in commands:
        code, text = run_limited(arguments, folder)
        assert code == 0, text


# Changing bytes and values

NUMBERS = [b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\1\0\0\0",
           b"\0\0\1\0", b"\xff" * 7 + b"\x7f", b"\0" * 8, b"\xff" * 8, b"\0\0\0\0\1\0\0\0",
           b"\0" * 7 + b"\x80"]  # fmt: skip
TEXTS = [b'"', b"\n", b"\r\n", b",", b",,,,", b"NaN", b"1e999", b"-", b"\0", b"9" * 400, b"[" * 70,
         b"null", b'{"a":1,"a":2}', b"\xef\xbb\xbf", b"\xff\xfe", b"\\ud800", b"[/x]", b"1:1",
         b"99999999999:1", b"-1:1", b"#", b"\x1b[2J", b"{}", b"true", b"x" * 3000, b"=1+1",
         b"2024-02-30", b":", b" ", b"\t"]  # fmt: skip


def mutate(data, rng, text):
    """Return bytes changed in one of many ways, sometimes in several."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        if not changed:
            break
        at, way = rng.randrange(len(changed)), rng.randrange(8)
        if way == 0:
            changed[at] = rng.randrange(256)
        elif way == 1:
            changed[at] ^= 1 << rng.randrange(8)
        elif way == 2:
            number = rng.choice(NUMBERS)
            at -= at % len(number)
            changed[at : at + len(number)] = number
        elif way == 3:
            del changed[at : at + rng.randrange(1, 64)]
        elif way == 4:
            start = rng.randrange(len(changed))
            changed[at:at] = changed[start : start + rng.randrange(1, 64)]
        elif way == 5:
            start, size = rng.randrange(len(changed)), rng.randrange(1, 64)
            changed[at : at + size] = changed[start : start + size]
        elif way == 6 and not rng.randrange(4):
            del changed[at:]
        elif text:
            changed[at:at] = rng.choice(TEXTS)
        else:
            changed[at] = (changed[at] + rng.choice((-1, 1, 8))) % 256
    return bytes(changed)


VALUES = [None, True, -1, 10**30, 1.5, "x", [], {}, [None], {"a": 1}, "", 2**63, 1e308, [[]], 0, 1,
          10**12, 10**6, 2**32, "text", "number", 1e300, "poly99", "rff:99999999"]  # fmt: skip


def mutate_sealed(data, rng):
    """Return a model file with a changed value and the right checksum."""
    length = int.from_bytes(data[:8], "little")
    header = json.loads(json.loads(data[8 : 8 + length])["__metadata__"][modelfile.KEY])
    header.pop("sha256")
    tensors = {k: v.copy() for k, v in modelfile.safetensors.numpy.load(data).items()}
    if rng.random() < 0.7:
        _change_header(header, rng)
    else:
        _change_tensor(tensors, rng)
    try:
        header["sha256"] = modelfile._checksum(header, tensors)
        text = modelfile._canonical(header).decode()
    except (TypeError, ValueError):
        text = json.dumps(header)
    return modelfile.safetensors.numpy.save(tensors, {modelfile.KEY: text})


def _change_header(node, rng):
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
            is_unknown = isinstance(node, dict) and rng.random() < 0.2
            node["unknown" if is_unknown else key] = rng.choice(VALUES)
            return


def _change_tensor(tensors, rng):
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


# Inputs, models and their commands


def rows(n=60):
    """Return rows with numbers, text, booleans, dates, missing values and labels."""
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
    """Return valid inputs of each format."""
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
TEXT_FORMATS = ("csv", "jsonl", "libsvm")


def input_case(kind, valid, rng):
    """Return name and bytes of a mutated input, and the command that reads it."""
    name, data = ENDINGS[kind], mutate(rng.choice(valid), rng, kind in TEXT_FORMATS)
    if kind in TEXT_FORMATS and not rng.randrange(10):
        pack = gzip.compress if rng.randrange(2) else pa.Codec("zstd").compress
        data = pack(data) if isinstance(pack(b"x"), bytes) else bytes(pack(data))
        if rng.randrange(2):
            data = mutate(data, rng, False)
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


def model_case(valid, rng):
    """Return name and bytes of a mutated model file, and the command that reads it."""
    data = rng.choice(valid)
    data = mutate_sealed(data, rng) if rng.random() < 0.75 else mutate(data, rng, False)
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


class ModelsAndInputs:
    """Changed model files, or inputs of one format."""

    count = 10_000

    def __init__(self, folder, kind):
        self.folder, self.kind, found = folder, kind, bases()
        (folder / "rows.csv").write_bytes(found["csv"][0])
        (folder / "rows.libsvm").write_bytes(found["libsvm"][0])
        head, *lines = found["csv"][0].decode().splitlines()
        (folder / "more.csv").write_text("\n".join([head, *lines[::-1], ""]))
        models = {
            "rows.model": ["rows.csv", *LEARN],
            "libsvm.model": ["rows.libsvm"],
            "hash.model": ["rows.csv", *LEARN, "--hash", "b=8", "--ridge", "gcv"],
            "rm.model": ["rows.csv", *LEARN, "--feature-map", "rm2", "--half-life", "50"],
            "auto.model": ["rows.csv", *LEARN, "--feature-map", "auto"],
        }
        run_all(folder, [["learn", *given, "-m", name] for name, given in models.items()])
        self.files = read_files(folder)
        self.models = {name: self.files[name] for name in sorted(models)}
        self.valid = [*self.models.values()] if kind == "model" else found[kind]

    def run(self, case):
        """Run a case; yield the row of the table, the outcome and the output."""
        rng, before = random.Random(f"{self.kind} {case}"), {**self.models, "new": None}
        restore(self.folder, self.files)
        if self.kind == "model":
            name, data, arguments = model_case(self.valid, rng)
            before["bad"] = data
        else:
            name, data, arguments = input_case(self.kind, self.valid, rng)
        (self.folder / name).write_bytes(data)
        code, text = run_limited(arguments, self.folder, name if "-" in arguments else None)
        result = evaluate_models(code, text, before, self.folder)
        yield (self.kind,), result, f"{' '.join(arguments)}: {text}"


# Ledgers

QUERIES = {
    "inspect": ["inspect", "l", "--json"],
    "check": ["check", "l"],
    "model": ["model", "l", "-o", "m"],
    "models": ["model", "l", "--by", "country", "-o", "m-{}"],
    "compare": ["compare", "l", "--a", "until=2024-01-08", "--b", "since=2024-01-08"],
    "backtest": ["backtest", "l", "--train", "3,all", "--json"],
    "drift": ["drift", "l", "--json"],
}


def write_answers():
    """Write the answers of the ledger; end with a traceback on any other error."""
    try:
        found = ledger_answers("l")
    except MemoryError:
        print("out of memory", file=sys.stderr)
        sys.exit(1)
    texts = {name: one if isinstance(one, str) else None for name, one in found.items()}
    Path("answers").write_text(json.dumps(texts))


class Ledgers:
    """Changed ledgers, read by all queries of Python and by one command."""

    count = 1_000

    def __init__(self, folder, kind):
        self.folder = folder
        with Ledger.open(folder / "l", label="fraud", timestamp="at", by="country") as ledger:
            (table,) = payments(days=14, rows=25)
            ledger.learn(table)
            ledger.learn(table.slice(0, 30), name="twice", allow_overlap=True)
            ledger.unlearn(table.slice(0, 30), name="twice")
        self.files = read_files(folder)
        run_limited(write_answers, folder)
        self.answers = json.loads((folder / "answers").read_text())
        assert all(self.answers.values()), self.answers
        self.outputs = {}
        for name, arguments in QUERIES.items():
            restore(folder, self.files)
            run_all(folder, [["ledger", *arguments]])
            self.outputs[name] = (folder / "stdout").read_bytes()

    def run(self, case):
        """Run a case; yield for both readers the row of the table, the outcome and the output."""
        rng, path = random.Random(f"ledger {case}"), self.folder / "l"
        way, query = ("bytes", "rows", "sealed")[case % 3], rng.choice(sorted(QUERIES))
        restore(self.folder, self.files)
        if way == "bytes":
            path.write_bytes(mutate_bytes(self.files["l"], rng))
        else:
            change_ledger(path, rng.choice(sorted(CHANGES) if way == "rows" else SEALED), rng)
        if way == "sealed":
            reseal(path)

        def same_answers():
            found = json.loads((self.folder / "answers").read_text())
            return all(one is None or one == self.answers[name] for name, one in found.items())

        def same_output():
            return (self.folder / "stdout").read_bytes() == self.outputs[query]

        for reader, work, is_same in (
            ("Python", write_answers, same_answers),
            ("command", ["ledger", *QUERIES[query]], same_output),
        ):
            code, text = run_limited(work, self.folder)
            result = processes.outcome(code, text)
            if result == "accepted" and way != "sealed" and not is_same():
                result = "different"
            yield (way, reader), result, f"{query}: {text}"


# Stores of pending events

STORE_COMMANDS = [
    ["learn", "--labels", "l2.csv", "-m", "m"],
    ["learn", "e2.csv", "--labels", "l2.csv", "--id", "id", "-m", "m"],
    ["learn", "joined.csv", "-m", "m"],
    ["unlearn", "m", "--where", "customer=c3", "e.csv"],
    ["relabel", "m", "e.csv", "--where", "id=7", "--new-label", "yes"],
    ["merge", "m", "other", "-o", "both"],
]


class Stores:
    """Changed stores of learned, pending and waiting ids, next to their model."""

    count = 1_000

    def __init__(self, folder, kind):
        self.folder = folder
        rng = np.random.default_rng(0)
        y = np.where(rng.random(300) < 0.3, "yes", "no")
        rows = [f"{i},c{i % 7},{rng.standard_normal():.4f},{'abc'[i % 3]}" for i in range(300)]
        head = "id,customer,amount,shop"
        for name, first, lines in (
            ("e.csv", head, rows[:200]),
            ("e2.csv", head, rows[200:250]),
            ("joined.csv", f"{head},y", [f"{rows[i]},{y[i]}" for i in range(250, 300)]),
            ("other.csv", f"{head},y", [f"9{rows[i]},{y[i]}" for i in range(100)]),
            ("l.csv", "id,y", [f"{i},{y[i]}" for i in (*range(90), 290, 291)]),
            ("l2.csv", "id,y", [f"{i},{y[i]}" for i in range(90, 210)]),
        ):
            (folder / name).write_text("\n".join([first, *lines]) + "\n")
        run_all(
            folder,
            [
                ["learn", "e.csv", "--id", "id", "--label", "y", "--drop", "customer", "-m", "m"],
                ["learn", "--labels", "l.csv", "-m", "m"],
                ["learn", "other.csv", "--label", "y", "--drop", "customer,id", "-m", "other"],
            ],
        )
        self.files = read_files(folder)
        self.answers = []
        for arguments in STORE_COMMANDS:
            restore(folder, self.files)
            run_all(folder, [arguments])
            self.answers.append(self.read_state())

    def read_state(self):
        """Return the contents of the models and the store, without times."""
        folder = self.folder
        model = [(folder / name).read_bytes() for name in ("m", "both") if (folder / name).exists()]
        shutil.copy(folder / "m.pending", folder / "copy.pending")
        with EventDatabase(str(folder / "copy.pending")) as store:
            rows = {table: list(store.base.select(table).values()) for table in TABLES}
            tables = [store._read(n).to_pylist() for n in store.base.select("contents")]
        rows["batches"] = [row[:5] + row[6:] for row in rows["batches"]]
        return model, {**rows, "contents": tables}

    def run(self, case):
        """Run a case; yield the row of the table, the outcome and the output."""
        number = case % len(STORE_COMMANDS)
        arguments, answer = STORE_COMMANDS[number], self.answers[number]
        restore(self.folder, self.files)
        spoil_store(self.folder / "m.pending", self.files["m.pending"], random.Random(case))
        code, text = run_limited(arguments, self.folder)
        before = {"m": self.files["m"], "other": self.files["other"], "both": None}
        result = evaluate_models(code, text, before, self.folder)
        if result == "accepted":
            try:
                same = self.read_state() == answer
            except ValueError:  # damage that this command did not read
                same = (self.folder / "m").read_bytes() == answer[0][0]
            result = "accepted" if same else "different"
        yield (" ".join(arguments[:2]),), result, text


# Kinds of cases

KINDS = {
    **dict.fromkeys(("model", *ENDINGS), ModelsAndInputs),
    "ledger": Ledgers,
    "store": Stores,
}


def write_tables(counts):
    """Write the tables of the kinds that ran."""

    def table(heads, kinds):
        found = {row: c for kind in kinds for row, c in counts.get(kind, {}).items()}
        cells = [
            [*row, f"{c.total():,}", *(c[name] for name in COLUMNS)] for row, c in found.items()
        ]
        return report.table([*heads, "cases", *COLUMNS], cells)

    if "model" in counts:
        report.write(
            "mutations",
            "Changed model files and inputs",
            "Each command (`learn` into a new and into an old model, `predict`, `evaluate`; for "
            "model files also `inspect`, `unlearn`, `merge`, `export`) ran in a separate process "
            f"with {MAX_MEMORY >> 30} GB of address space and {MAX_CPU_SECONDS} seconds of CPU "
            "time. One text in ten was gzip or zstd, one input in six came through standard input, "
            "three model files in four had a right checksum. *Refused* is one message and exit "
            "code 2 or 1; *torn* is a model file that is not whole, or changed though the command "
            "failed, or a temporary file left behind.",
            table(["format"], ("model", *ENDINGS)),
        )
    if "ledger" in counts:
        report.write(
            "ledger_mutations",
            "Changed ledgers",
            "Changed ledgers, each read by all queries of Python (each after opening the file "
            f"again) and by one of the commands {', '.join(QUERIES)}. *Bytes*: one to eight bytes "
            "of the file. *Rows*: a field, a deleted, moved, repeated or exchanged row, a view or "
            "a trigger, invented features. *Sealed*: the same with a digest that was computed "
            "again, as in an attack; its answers may differ. *Accepted*: every answer is "
            "bit-identical to that of the valid ledger, or a refusal; *different*: an answer is "
            "another one without an error.",
            table(["change", "reader"], ["ledger"]),
        )
    if "store" in counts:
        report.write(
            "pending_mutations",
            "Changed stores of pending events",
            "Bytes of the store were flipped, its end was cut off, or a field, a row or a table "
            f"was changed by SQL; then one of {len(STORE_COMMANDS)} commands ran in a separate "
            "process. *Accepted*: the model is bit-identical to that of the undamaged store, "
            "because the damage is in unused space or in a row that the command does not read. "
            "*Refused*: one message, exit code 2, and the model is unchanged.",
            table(["command"], ["store"]),
        )


def main():
    """Run cases of each kind."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, help="cases of each kind")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--only", choices=KINDS, action="append", help="one kind (repeatable)")
    parser.add_argument("--check", action="store_true", help="write no table")
    parser.add_argument("--show", action="store_true", help="show the output of each command")
    parser.add_argument("--results", type=Path, default=report.RESULTS)
    options = parser.parse_args()
    processes.use_one_thread()
    processes.import_commands(*MODULES)
    report.use(options.results)
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    counts = {}
    for kind in options.only or KINDS:
        rows = counts[kind] = collections.defaultdict(collections.Counter)
        with tempfile.TemporaryDirectory(dir=memory) as name:
            cases = KINDS[kind](Path(name), kind)
            for case in range(options.first, options.first + (options.count or cases.count)):
                for row, result, text in cases.run(case):
                    rows[row][result] += 1
                    if result in BAD or options.show:
                        print(kind, case, *row, result, text[-2000:], file=sys.stderr, flush=True)
        total = sum(rows.values(), collections.Counter())
        print(kind, dict(total), flush=True)
    if not (options.check or options.show):
        write_tables(counts)
    faults = [one for rows in counts.values() for c in rows.values() for one in BAD if c[one]]
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
