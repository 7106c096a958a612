"""Changed ledgers: no crash, no traceback, no hang, and no answer that differs silently.

Each case changes one ledger: bytes, fields, rows, tables or columns. All queries of Python and one
command read it, in processes of their own with 2 GB of address space. The changes follow from the
seed alone: ``python ledger_mutations.py --first CASE --count 1 --show`` repeats a case.
"""

import argparse
import collections
import json
import random
import shutil
import sys
import tempfile
from pathlib import Path

from ledgers import CHANGES, SEALED, change_ledger, ledger_answers, mutate_bytes, reseal

from benchmarks import report
from benchmarks.proofs import mutations
from counterpoise import Ledger
from counterpoise.ledger.synthetic import payments

COMMANDS = {
    "show": ["show", "l", "--json"],
    "check": ["check", "l"],
    "model": ["model", "l", "-o", "m"],
    "models": ["model", "l", "--by", "country", "-o", "m-{}"],
    "compare": ["compare", "l", "--a", "until=2024-01-08", "--b", "since=2024-01-08"],
    "backtest": ["backtest", "l", "--train", "3,all", "--json"],
    "drift": ["drift", "l", "--json"],
}
WAYS = ("bytes", "rows", "sealed")


def write_answers():
    """Write what the ledger answers; print a traceback for any other error."""
    found = {
        name: answer if isinstance(answer, str) else None
        for name, answer in ledger_answers("l").items()
    }
    Path("answers").write_text(json.dumps(found))


def outcome(folder, sound, words, is_sealed):
    """Return what became of one reader: its output, compared with that of the sound ledger."""
    code, text = words
    if code in (None, -mutations.signal.SIGXCPU):
        return "hang"
    if code < 0:
        return "signal"
    if "Traceback" in text or code not in (0, 1, 2):
        return "out of memory" if "MemoryError" in text else "traceback"
    if code:
        return "out of memory" if "out of memory" in text else "refused"
    return "accepted" if is_sealed or sound(folder) else "different"


def run_case(folder, good, answers, outputs, case):
    """Return way, command and outcomes of a case."""
    rng = random.Random(f"ledger {case}")
    way, command = WAYS[case % 3], rng.choice(sorted(COMMANDS))
    shutil.copy(good, folder / "l")
    name = "bytes"
    if way == "bytes":
        (folder / "l").write_bytes(mutate_bytes(good.read_bytes(), rng))
    else:
        name = rng.choice(sorted(CHANGES) if way == "rows" else SEALED)
        change_ledger(folder / "l", name, rng)
        if way == "sealed":
            reseal(folder / "l")
    is_sealed = way == "sealed"

    def same_answers(folder):
        found = json.loads((folder / "answers").read_text())
        return all(answer is None or answer == answers[name] for name, answer in found.items())

    def same_output(folder):
        return (folder / "stdout").read_bytes() == outputs[command]

    words = mutations.run(write_answers, folder)
    results = [("Python", outcome(folder, same_answers, words, is_sealed), words[1])]
    words = mutations.run(["ledger", *COMMANDS[command]], folder)
    results.append((command, outcome(folder, same_output, words, is_sealed), words[1]))
    for path in folder.iterdir():
        path.unlink()
    return way, name, results


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--show", action="store_true", help="show what each reader reports")
    options = parser.parse_args()
    mutations.use_one_thread()
    bad = ("signal", "traceback", "hang", "different")
    counts = collections.defaultdict(collections.Counter)
    with tempfile.TemporaryDirectory() as made, tempfile.TemporaryDirectory() as name:
        good, folder = Path(made) / "l", Path(name)
        with Ledger.open(good, label="fraud", timestamp="at", by="country") as ledger:
            (table,) = payments(days=14, rows=25)
            ledger.learn(table)
            ledger.learn(table.slice(0, 30), name="twice", allow_overlap=True)
            ledger.unlearn(table.slice(0, 30), name="twice")
        answers = ledger_answers(good)
        assert all(isinstance(answer, str) for answer in answers.values()), answers
        mutations.warm()
        outputs = {}
        for command, words in COMMANDS.items():
            shutil.copy(good, folder / "l")
            code, text = mutations.run(["ledger", *words], folder)
            assert code == 0, text
            outputs[command] = (folder / "stdout").read_bytes()
        for case in range(options.first, options.first + options.count):
            way, change, results = run_case(folder, good, answers, outputs, case)
            for reader, result, text in results:
                kind = "Python" if reader == "Python" else "command"
                counts[way, kind][result] += 1
                if result in bad or options.show:
                    print(case, way, change, reader, result, text[-2000:], flush=True)
    columns = ("accepted", "refused", "out of memory", *bad)
    lines = [
        [way, kind, f"{c.total():,}", *(c[name] for name in columns)]
        for (way, kind), c in sorted(counts.items())
    ]
    print(report.table(["change", "reader", "cases", *columns], lines))
    if options.count >= 1000:
        report.write(
            "ledger_mutations",
            "Changed ledgers",
            report.machine("numpy", "xxhash"),
            f"{options.count:,} changed ledgers, each read by all queries of Python (each after "
            f"opening the file again) and by one of the commands {', '.join(COMMANDS)}. *Bytes*: "
            "one to eight bytes of the file. *Rows*: a field, a deleted, moved, repeated or "
            "exchanged row, a view or a trigger, invented features. *Sealed*: the same with a "
            "digest that was computed again, as in an attack; its answers "
            "may differ. *Accepted*: every answer is bit-identical to that of the sound ledger, or "
            "a refusal; *different*: an answer is another one without an error.",
            report.table(["change", "reader", "cases", *columns], lines),
        )
    sys.exit(1 if any(c[name] for c in counts.values() for name in bad) else 0)


if __name__ == "__main__":
    main()
