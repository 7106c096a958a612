"""Two, ten and twenty-six classes: what learning and looking cost, beside an older version.

    python classes.py path/of/the/older/python

Two workers, one of each version, take turns, as in ``before_after.py``: a figure is the processor
time of the best round. Both versions should be installed in the same way.
"""

import argparse
import inspect
import os
import subprocess
import sys

import numpy as np
from before_after import ONE, measured, timed

CLASSES, WIDTHS, EVENTS = (2, 10, 26), (64, 400), 50
ROWS = 1000  # that are predicted


def rows(n, d, c):
    """Rows of c classes that overlap, each as frequent as the next."""
    rng = np.random.default_rng(c)
    y = np.arange(n) % c
    return rng.standard_normal((n, d)) + 2.0 / np.sqrt(d) * rng.standard_normal((c, d))[y], y


def cases(c, d):
    """What is timed, by name; some of it an older version does not have."""
    from counterpoise import BalancedRidgeClassifier

    X, y = rows(8000, d, c)
    shapes = {"": {}, ", gcv": {"ridge": "gcv"}}
    if "pooled_rows" in inspect.signature(BalancedRidgeClassifier).parameters:
        shapes[", one against the rest"] = {"multi_class": "ovr"}
        shapes[", quadratic"] = {"pooled_rows": 10.0}
    models = {}

    def looked_at(shape):
        """A model that somebody has looked at."""
        if shape not in models:
            models[shape] = BalancedRidgeClassifier(**shapes[shape]).fit(X, y)
            models[shape].predict(X[:1])
        return models[shape]

    def changed(shape):
        """The same with one row more, so that it has to be solved anew."""
        model = looked_at(shape)
        model.learn_one(X[0], y[0])
        return model

    def events(model):
        for i in range(EVENTS):
            model.predict_one(X[i])
            model.learn_one(X[i], y[i])

    yield "fit of 8,000 rows", timed(BalancedRidgeClassifier, lambda m: m.fit(X, y))
    for shape in shapes:
        yield f"first look{shape}", timed(lambda s=shape: changed(s), lambda m: m.predict(X[:1]))
    for shape in shapes:
        if "gcv" in shape:
            continue
        made = timed(lambda s=shape: looked_at(s), lambda m: m.predict(X[:ROWS]))
        yield f"predict of {ROWS:,} rows{shape}", made
        made = timed(lambda s=shape: changed(s), lambda m: m.predict_proba(X[:ROWS]))
        yield f"first look and predict_proba of {ROWS:,} rows{shape}", made
        if d == min(WIDTHS):
            made = timed(lambda s=shape: looked_at(s), events)
            yield f"{EVENTS} events, predict_one and learn_one{shape}", made


def serve(c, d):
    """A worker: a line with the name of a case is answered by the seconds of one round."""
    known = dict(cases(c, d))
    print(*known, sep="\t", flush=True)
    for line in sys.stdin:
        print(known[line.rstrip("\n")](), flush=True)


class Worker:
    """A process of one version, for so many classes and features."""

    def __init__(self, python, c, d):
        self.process = subprocess.Popen(
            [python, __file__, "--serve", str(c), str(d)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | ONE,
        )  # fmt: skip
        self.cases = self.process.stdout.readline().rstrip("\n").split("\t")

    def seconds(self, case):
        if case not in self.cases:
            return np.nan
        self.process.stdin.write(f"{case}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def shown(seconds):
    """Milliseconds with three digits."""
    return "–" if np.isnan(seconds) else f"{float(f'{seconds * 1e3:.3g}'):g}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("older", nargs="?", help="python of the environment of the older version")
    parser.add_argument("--budget", type=float, default=1.0, help="seconds for each case")
    parser.add_argument("--serve", nargs=2, type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        return serve(*given.serve)
    import report

    parts = []
    for d in WIDTHS:
        found = {}
        for c in CLASSES:
            older, newer = (Worker(python, c, d) for python in (given.older, sys.executable))
            for case in newer.cases:
                found[case, c] = measured(case, older, newer, given.budget, 3)
                print(c, d, case, *map(shown, found[case, c][:2]), file=sys.stderr, flush=True)
            older.end()
            newer.end()
            names = newer.cases
        head = [f"milliseconds, d = {d}"]
        for c in CLASSES:
            head += [f"c = {c}, before", "after"]
        body = [
            [name, *(shown(at) for c in CLASSES for at in found[name, c][:2])] for name in names
        ]
        parts.append(report.table(head, body))
    report.write(
        "classes",
        "Several classes, before and after",
        "Before: each class against the rest, a factorisation for each. After: all at once, by "
        "one, and what is new beside it. Processor time of the best of at least three rounds, both "
        "versions in turn. " + report.machine("numpy", "scipy"),
        *parts,
    )
    return None


if __name__ == "__main__":
    main()
