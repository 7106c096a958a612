"""Speed beside that of an older version, installed in an environment of its own.

    python before_after.py path/of/the/older/python

Two workers, one of each version, take turns: one short round of a case each, over and over. Other
pairs of workers follow, whose arrays are elsewhere in memory. A figure is the processor time of the
best round, which depends little on what else the machine does.
Both versions should be installed in the same way: an editable one checks its build at each start.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ONE = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
COMMAND = "import sys; from counterpoise.cli import main; sys.exit(main())"


def rows(n, d, share=0.05):
    """Rows of two classes that overlap."""
    rng = np.random.default_rng(d)
    y = (rng.random(n) < share).astype(int)
    return rng.standard_normal((n, d)) + 0.3 * y[:, None], y


def timed(make, run):
    """A case: seconds of `run` on what `make` has made, which does not count."""

    def seconds():
        made = make()
        start = time.process_time()
        run(made)
        return time.process_time() - start

    return seconds


def of_command(*arguments):
    """A case: processor seconds of the command, from its start."""

    def spent():
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime

    def seconds():
        with tempfile.TemporaryDirectory() as folder:
            known = [word.replace("{}", folder) for word in arguments]
            before = spent()
            subprocess.run([sys.executable, "-c", COMMAND, *known], check=True, capture_output=True)
            return spent() - before

    return seconds


def bulk(d):
    """Batches of rows."""
    from counterpoise import BalancedRidgeClassifier

    X, y = rows(1_600_000 // d, d)

    def begun():
        return BalancedRidgeClassifier().fit(X[:1000], y[:1000])

    def fading():
        return BalancedRidgeClassifier(half_life=1000.0)

    def chunks(model):
        for i in range(0, 4000, 100):
            model.partial_fit(X[i : i + 100], y[i : i + 100])

    yield "fit", timed(BalancedRidgeClassifier, lambda m: m.fit(X, y))
    yield "fit with half_life", timed(fading, lambda m: m.fit(X, y))
    yield "partial_fit of 100 rows", timed(begun, chunks)
    yield "predict", timed(begun, lambda m: m.predict(X[:4000]))


def sparse(d):
    """CSR rows with ten entries each."""
    import scipy.sparse as sp

    from counterpoise import BalancedRidgeClassifier

    y = rows(1000, 1)[1]
    X = sp.random_array((1000, d), density=10 / d, format="csr", rng=np.random.default_rng(0))

    def begun():
        return BalancedRidgeClassifier().fit(X, y)

    yield "sparse fit", timed(BalancedRidgeClassifier, lambda m: m.fit(X, y))
    yield "sparse partial_fit", timed(begun, lambda m: m.partial_fit(X, y))


def events(d):
    """Rows one by one."""
    from counterpoise import BalancedRidgeClassifier
    from counterpoise.river import BalancedRidgeClassifier as RiverFace

    X, y = rows(1000, d)
    labels = y.tolist()
    dicts = [{f"f{j}": value for j, value in enumerate(x)} for x in X.tolist()]

    def arrays():
        model = BalancedRidgeClassifier().fit(X, y)
        model.learn_one(X[0], 0)
        return model, list(X)

    def river():
        model = RiverFace()
        for x, label in zip(dicts[:300], labels, strict=False):
            model.learn_one(x, label)
        return model, dicts

    def learn(made):
        model, given = made
        for x, label in zip(given, labels, strict=True):
            model.learn_one(x, label)

    def look(made):
        model, given = made
        for x in given:
            model.predict_one(x)

    def turn(made):
        model, given = made
        for x, label in zip(given[:200], labels, strict=False):
            model.predict_one(x)
            model.learn_one(x, label)

    for face, make in (("arrays", arrays), ("river", river)):
        yield f"learn_one, {face}", timed(make, learn)
        yield f"predict_one, {face}", timed(make, look)
        yield f"predict_one and learn_one, {face}", timed(make, turn)


def progressive(d):
    """Test, then train."""
    from counterpoise import BalancedRidgeClassifier

    n = max(100, 32_000 // d)
    X, y = rows(n + 300, d)

    def begun():
        return BalancedRidgeClassifier().fit(X[:300], y[:300])

    yield "progressive_scores", timed(begun, lambda m: m.progressive_scores(X[300:], y[300:]))


def online(d):
    """The rules of the paper, and the forms of confidence-weighted learning."""
    from counterpoise import online

    X, y = rows(2000, d)
    few = ("IRRLS", "NRRLS", "LS", "TER")
    rules = {name: getattr(online, name) for name in sorted(online.__all__)}
    confident = rules["ConfidenceWeighted"]
    rules["ConfidenceWeighted, diagonal"] = lambda: confident(covariance="diagonal")
    rules["ConfidenceWeighted, variance"] = lambda: confident(form="variance")
    for name, rule in rules.items():
        n = 200 if name in few else 2000
        yield name, timed(rule, lambda m, n=n: m.fit(X[:n], y[:n]))


def choosing(d):
    """The model that chooses by itself, with its default candidates."""
    from counterpoise import AutoClassifier

    X, y = rows(2000, d, 0.3)

    def begun():
        return AutoClassifier().fit(X[:1000], y[:1000])

    def singly(model):
        for i in range(1000, 1050):
            model.partial_fit(X[i : i + 1], y[i : i + 1])

    yield "chooser, 1,000 rows", timed(begun, lambda m: m.partial_fit(X[1000:], y[1000:]))
    yield "chooser, 50 single rows", timed(begun, singly)


def command(folder):
    """The command line."""
    path = Path(folder) / "rows.csv"
    if not path.exists():
        X, y = rows(100_000, 10)
        head = ",".join([*(f"x{j}" for j in range(10)), "y"])
        np.savetxt(path, np.column_stack([X, y]), "%.4f," * 10 + "%d", header=head, comments="")
    yield "counterpoise --version", of_command("--version")
    yield "counterpoise learn", of_command("learn", str(path), "--label", "y", "--model", "{}/m")


def on_spark(folder):
    """A cluster of two threads on this machine; its time is that of the clock."""
    frames = []

    def seconds():
        import spark

        if not frames:
            place = Path(folder) / "parquet"
            if not place.exists():
                place.mkdir()
                spark.rows(place, 500_000, 30)
            frames.append(spark.session().read.parquet(str(place)))
            spark.fit(frames[0].limit(1000), "y")
        return spark.seconds(spark.fit, frames[0], "y")

    yield "Spark fit (clock), d = 30", seconds


WIDTHS = {
    bulk: (8, 30, 100),
    sparse: (100, 500, 2000),
    events: (8, 30, 100),
    progressive: (8, 22, 72, 166),
    online: (8, 30, 100),
    choosing: (8,),
}


def cases(folder):
    for group, widths in WIDTHS.items():
        for d in widths:
            for name, case in group(d):
                yield f"{name}, d = {d}", case
    yield from command(folder)
    yield from on_spark(folder)


def serve(folder):
    """A worker: a line with the name of a case is answered by the seconds of one round."""
    known = dict(cases(folder))
    print(*known, sep="\t", flush=True)
    for line in sys.stdin:
        try:
            print(known[line.rstrip("\n")](), flush=True)
        except Exception as error:
            raise SystemExit(f"{line.rstrip()}: {error}") from error


class Worker:
    """A process of one version."""

    def __init__(self, python, folder):
        self.process = subprocess.Popen(
            [python, __file__, "--serve", folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env=os.environ | ONE, cwd=folder,
        )  # fmt: skip
        self.cases = self.process.stdout.readline().rstrip("\n").split("\t")

    def seconds(self, case):
        self.process.stdin.write(f"{case}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def measured(case, older, newer, budget, least):
    """The best round of either, of as many as a budget of seconds has room for."""
    times, start = [], time.perf_counter()
    while len(times) < least or time.perf_counter() - start < budget:
        pair = (older, newer) if len(times) % 2 else (newer, older)
        found = {worker: worker.seconds(case) for worker in pair}
        times.append((found[older], found[newer]))
    before, after = np.min(times, axis=0)
    return before, after, len(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("older", nargs="?", help="python of the environment of the older version")
    parser.add_argument("--newer", default=sys.executable, help="and of the newer one")
    parser.add_argument("--only", default="", help="cases whose names have this in them")
    parser.add_argument("--budget", type=float, default=1.0, help="seconds for a case and a pair")
    parser.add_argument("--rounds", type=int, default=7, help="rounds at least")
    parser.add_argument("--pairs", type=int, default=3, help="pairs of workers, one after another")
    parser.add_argument("--name", default="", help="what to call the older version")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    best = {}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(options.pairs):
            older, newer = Worker(options.older, folder), Worker(options.newer, folder)
            assert older.cases == newer.cases, "the versions have different rules"
            for case in older.cases:
                if options.only in case:
                    found = measured(case, older, newer, options.budget, options.rounds)
                    a, b, n = best.get(case, (np.inf, np.inf, 0))
                    best[case] = min(a, found[0]), min(b, found[1]), n + found[2]
                    print(f"{case}: {found[1] / found[0]:.2f}", file=sys.stderr, flush=True)
            older.end()
            newer.end()
    lines = [
        [case, f"{1e3 * a:.3g}", f"{1e3 * b:.3g}", f"{b / a:.2f}", str(n)]
        for case, (a, b, n) in best.items()
    ]
    if options.only:
        print("\n".join(" | ".join(line) for line in lines))
    else:
        import report

        slower = [line[0] for line in lines if float(line[3]) > 1.05]
        report.write(
            "before_after",
            "Before and after the house was rebuilt",
            "Processor time in milliseconds of one round of each case, the best of several in "
            f"{options.pairs} pairs of processes, as the place of arrays in memory counts; rounds "
            f"of {options.name or 'the older version'} (before) and of this one (after) take "
            "turns, on one thread; Spark has two, and the time of the clock. "
            + report.machine("numpy", "scipy", "scikit-learn"),
            report.table(["case", "before, ms", "after, ms", "after / before", "rounds"], lines),
            "Slower by more than 5 %: " + ("; ".join(slower) if slower else "none") + ".",
        )


if __name__ == "__main__":
    main()
