"""Mutated stores of pending events: no crash, no traceback, no hang, no other answer.

Each command runs in a process of its own, as in ``mutations.py``. A case is repeated by ``python
pending_mutations.py --first CASE --count 1 --show``.
"""

import argparse
import collections
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
from delayed_labels import spoil_store

import counterpoise.tables.delayed_labels
from benchmarks import report
from benchmarks.proofs import mutations
from counterpoise.tables.event_store import TABLES, EventStore

assert counterpoise.tables.delayed_labels  # imported before the processes are forked
BAD = (*mutations.BAD, "other answer")
LEARN = ["--id", "id", "--label", "y", "--drop", "customer", "-m", "m"]
COMMANDS = [
    ["learn", "--labels", "l2.csv", "-m", "m"],
    ["learn", "e2.csv", "--labels", "l2.csv", "--id", "id", "-m", "m"],
    ["learn", "joined.csv", "-m", "m"],
    ["unlearn", "m", "--where", "customer=c3", "e.csv"],
    ["relabel", "m", "e.csv", "--where", "id=7", "--new-label", "yes"],
    ["merge", "m", "other", "-o", "both"],
]


def prepare(folder):
    """Write inputs and a model with learned, pending and waiting ids; its files by name."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(300) < 0.3, "yes", "no")
    rows = [f"{i},c{i % 7},{rng.standard_normal():.4f},{'abc'[i % 3]}" for i in range(300)]
    head = "id,customer,amount,shop"

    def write(name, head, lines):
        (folder / name).write_text("\n".join([head, *lines]) + "\n")

    write("e.csv", head, rows[:200])
    write("e2.csv", head, rows[200:250])
    write("joined.csv", f"{head},y", [f"{rows[i]},{y[i]}" for i in range(250, 300)])
    write("other.csv", f"{head},y", [f"9{rows[i]},{y[i]}" for i in range(100)])
    write("l.csv", "id,y", [f"{i},{y[i]}" for i in (*range(90), 290, 291)])
    write("l2.csv", "id,y", [f"{i},{y[i]}" for i in range(90, 210)])
    for arguments in (
        ["learn", "e.csv", *LEARN],
        ["learn", "--labels", "l.csv", "-m", "m"],
        ["learn", "other.csv", "--label", "y", "--drop", "customer,id", "-m", "other"],
    ):
        code, words = mutations.run(arguments, folder)
        assert code == 0, words
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def restore(folder, files):
    """Make a folder as it was."""
    for path in folder.iterdir():
        if path.name not in files:
            path.unlink()
    for name, data in files.items():
        (folder / name).write_bytes(data)


def state(folder):
    """Return the contents of a model and its store, without times."""
    model = [(folder / name).read_bytes() for name in ("m", "both") if (folder / name).exists()]
    shutil.copy(folder / "m.pending", folder / "copy.pending")
    with EventStore(str(folder / "copy.pending")) as store:
        rows = {table: list(store._base.select(table).values()) for table in TABLES}
        tables = [store._read(n).to_pylist() for n in store._base.select("contents")]
    rows["batches"] = [row[:5] + row[6:] for row in rows["batches"]]
    return model, {**rows, "contents": tables}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="cases")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--show", action="store_true", help="show what each command says")
    options = parser.parse_args()
    mutations.use_one_thread()
    mutations.warm()
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    counts = collections.defaultdict(collections.Counter)
    with tempfile.TemporaryDirectory(dir=memory) as name:
        folder = Path(name)
        files = prepare(folder)
        right = {}
        for number, arguments in enumerate(COMMANDS):
            restore(folder, files)
            code, words = mutations.run(arguments, folder)
            assert code == 0, words
            right[number] = state(folder)
        for case in range(options.first, options.first + options.count):
            rng = random.Random(case)
            number = case % len(COMMANDS)
            restore(folder, files)
            spoil_store(folder / "m.pending", files["m.pending"], rng)
            code, words = mutations.run(COMMANDS[number], folder)
            before = {"m": files["m"], "other": files["other"], "both": None}
            result = mutations.verdict(code, words, before, folder)
            if result == "accepted":
                try:
                    same = state(folder) == right[number]
                except ValueError:  # damage that this command did not read
                    same = (folder / "m").read_bytes() == right[number][0][0]
                result = "same answer" if same else "other answer"
            counts[" ".join(COMMANDS[number][:2])][result] += 1
            if result in BAD or options.show:
                print(case, result, code, *COMMANDS[number], words[-2000:], file=sys.stderr)
    columns = ("same answer", "refused", *BAD)
    lines = [[name, c.total(), *(c[column] for column in columns)] for name, c in counts.items()]
    if options.count >= 1000:
        report.write(
            "pending_mutations",
            "Mutated stores of pending events",
            report.machine("numpy", "pyarrow"),
            "Bytes of the store were flipped, its end was cut off, or a field, a row or a table "
            f"was changed by SQL; then one of {len(COMMANDS)} commands ran in a process of its own "
            "with 2 GB of address space. *Same answer*: the model is bit-identical to that of the "
            "undamaged store, because the damage is in unused space or in a row that the command "
            "does not read. *Refused*: one message, exit code 2, and the model is unchanged.",
            report.table(["command", "cases", *columns], lines),
        )
    sys.exit(1 if any(c[bad] for c in counts.values() for bad in BAD) else 0)


if __name__ == "__main__":
    main()
