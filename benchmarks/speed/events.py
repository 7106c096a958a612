"""Events one by one: what each call costs, how that grows, and a million of them in flat memory."""

import gc
import time

import numpy as np
import pandas as pd
import psutil
from river import linear_model, preprocessing
from threadpoolctl import threadpool_limits

from benchmarks import report
from counterpoise import BalancedRidgeClassifier
from counterpoise.moments.moments import Moments
from counterpoise.river import BalancedRidgeClassifier as RiverFace

EVENTS, D = 1_000_000, 20
BEFORE, ROUNDS = 4_000, 7  # rows learned before the first event that is timed
NARROW, WIDE = (8, 22, 72), (72, 166, 300, 512)


class Timed:
    """A stream for one width, and learners that have seen the first rows of it."""

    def __init__(self, d, events):
        rng = np.random.default_rng(d)
        n = BEFORE + events * ROUNDS
        y = (rng.random(n) < 0.1).astype(int)
        self.X = rng.standard_normal((n, d)) + y[:, None] * 2.0 / np.sqrt(d)
        self.y = y.tolist()
        names = [f"f{j}" for j in range(d)]
        self.frame = pd.DataFrame(self.X[:BEFORE], columns=names)
        self.dicts = [dict(zip(names, row, strict=True)) for row in self.X[BEFORE:].tolist()]
        self.events = events

    def dicts_of(self, make):
        model = make()
        if hasattr(model, "learn_many"):
            model.learn_many(self.frame, pd.Series(self.y[:BEFORE]))
        return model, self.dicts

    def rows(self, make):
        return make().partial_fit(self.X[:BEFORE], np.array(self.y[:BEFORE])), self.X[BEFORE:]

    def microseconds(self, calls):
        """Best of several rounds in which everybody takes a turn, of processor time an event."""
        best = dict.fromkeys(calls, np.inf)
        for i in range(ROUNDS):
            at = slice(i * self.events, (i + 1) * self.events)
            labels = self.y[BEFORE:][at]
            for name, ((model, rows), look, learn) in calls.items():
                asked = getattr(model, look) if look else None
                start = time.process_time()
                if look == "unlearn_one":
                    for x, label in zip(rows[at], labels, strict=True):
                        model.learn_one(x, label)
                        model.unlearn_one(x, label)
                elif look and learn:
                    for x, label in zip(rows[at], labels, strict=True):
                        asked(x)
                        model.learn_one(x, label)
                elif look:
                    for x in rows[at]:
                        asked(x)
                else:
                    for x, label in zip(rows[at], labels, strict=True):
                        model.learn_one(x, label)
                spent = (time.process_time() - start) / self.events * 1e6
                best[name] = min(best[name], spent)
        return best


LOOKS = ("predict_one", "predict_proba_one", "predict_stream_proba_one")


def pipeline():
    return preprocessing.StandardScaler() | linear_model.LogisticRegression()


def calibrated():
    return RiverFace(calibrate=True)


def one_row(d):
    """Microseconds of every call for one row."""
    timed, calls = Timed(d, 1000), {}
    for face, made in (("river face", timed.dicts_of), ("arrays", timed.rows)):
        make = RiverFace if face == "river face" else BalancedRidgeClassifier
        calls[f"{face}: learn_one"] = made(make), None, True
        for look in (*LOOKS, *(["explain_one"] if make is RiverFace else [])):
            calls[f"{face}: {look}, nothing new"] = made(make), look, False
            calls[f"{face}: {look}, then learn_one"] = made(make), look, True
    calls["river face: learn_one, then unlearn_one"] = (
        timed.dicts_of(RiverFace),
        "unlearn_one",
        True,
    )
    calls["river face, calibrate=True: predict_stream_proba_one, nothing new"] = (
        timed.dicts_of(calibrated),
        "predict_stream_proba_one",
        False,
    )
    for name, make in (
        ("StandardScaler, LogisticRegression", pipeline),
        ("LogisticRegression", linear_model.LogisticRegression),
        ("Perceptron", linear_model.Perceptron),
    ):
        calls[f"river {name}: predict_one, then learn_one"] = (
            timed.dicts_of(make),
            "predict_one",
            True,
        )
    name = "river StandardScaler, LogisticRegression"
    calls[f"{name}: learn_one"] = timed.dicts_of(pipeline), None, True
    for look in LOOKS[:2]:
        calls[f"{name}: {look}, nothing new"] = timed.dicts_of(pipeline), look, False
    calls[f"{name}: predict_proba_one, then learn_one"] = (
        timed.dicts_of(pipeline),
        "predict_proba_one",
        True,
    )
    return timed.microseconds(calls)


def growth():
    """Microseconds of predict_one then learn_one by width, of both faces."""
    found = []
    for d in WIDE:
        timed = Timed(d, 300 if d < 200 else 100)
        calls = {
            "river face": (timed.dicts_of(RiverFace), "predict_one", True),
            "arrays": (timed.rows(BalancedRidgeClassifier), "predict_one", True),
        }
        found.append(timed.microseconds(calls))
    return found


def exponent(costs):
    """Slope of a straight line through logarithms of cost and width."""
    return np.polyfit(np.log(WIDE), np.log(costs), 1)[0]


def stream():
    rng = np.random.default_rng(0)
    y = (rng.random(EVENTS) < 0.01).astype(int)
    return rng.standard_normal((EVENTS, D)) + y[:, None], y


def resident():
    gc.collect()
    return psutil.Process().memory_info().rss / 1e6


def through_river(X, y, look):
    """Learn every event, predicting every `look`-th; memory at some events, and the moments."""
    names = [f"f{j}" for j in range(D)]
    model, memory, start = RiverFace(), {}, time.perf_counter()
    for i in range(EVENTS):
        x = dict(zip(names, X[i].tolist(), strict=True))
        if i % look == 0:
            model.predict_one(x)
        model.learn_one(x, int(y[i]))
        if i + 1 in (10_000, 100_000, EVENTS):
            memory[i + 1] = resident()
    return model._state.moments, memory, EVENTS / (time.perf_counter() - start)


def through_arrays(X, y):
    model = BalancedRidgeClassifier().partial_fit(X[:2], y[:2])
    memory = {}
    for i in range(2, EVENTS):
        model.predict_one(X[i])
        model.learn_one(X[i], y[i])
        if i + 1 in (10_000, 100_000, EVENTS):
            memory[i + 1] = resident()
    return model._engine.state.moments, memory


def distance(one, two):
    """Largest relative distance of the scatters, class by class."""
    where = {label: k for k, label in enumerate(one.labels.tolist())}
    return max(
        np.linalg.norm(one.C[where[label]] - two.C[k]) / np.linalg.norm(two.C[k])
        for k, label in enumerate(two.labels.tolist())
    )


if __name__ == "__main__":
    with threadpool_limits(1):
        calls, wide = [one_row(d) for d in NARROW], growth()
    X, y = stream()
    bulk = Moments.of(X, y)
    always, memory_river, rate = through_river(X, y, 1)
    seldom, _, _ = through_river(X, y, 1000)
    rows, memory_rows = through_arrays(X, y)
    same = np.array_equal(always.C, seldom.C) and np.array_equal(always.mean, seldom.mean)
    report.write(
        "events",
        "Events, one by one",
        "Microseconds of processor time a call, or a pair of calls, at so many features; 10 % "
        f"minority, {BEFORE:,} rows learned before, one BLAS thread, best of {ROUNDS} rounds in "
        "which everybody takes a turn. *Nothing new*: no row was learned since the last look. A "
        "look after a row brings weights up to date first, and `predict_proba_one` and "
        "`predict_stream_proba_one` also the link from scores to probabilities, which takes the "
        "inverse of a covariance: d³. `explain_one` gives the contribution of every feature; "
        "river's models "
        "have no such call. " + report.machine("numpy", "river"),
        report.table(
            ["call", *[f"d = {d}" for d in NARROW]],
            [[name, *[f"{one[name]:.1f}" for one in calls]] for name in calls[0]],
        ),
        "`predict_one`, then `learn_one`, of wide rows; the exponent is that of a power of d, "
        "fitted to all four.",
        report.table(
            ["microseconds", *[f"d = {d}" for d in WIDE], "exponent"],
            [
                [
                    face,
                    *[f"{one[face]:.0f}" for one in wide],
                    f"{exponent([one[face] for one in wide]):.2f}",
                ]
                for face in wide[0]
            ],
        ),
        f"{EVENTS:,} events, d = {D}, 1 % minority, `predict_one` then `learn_one` on each:",
        report.table(
            ["resident memory, MB, after", "10,000 events", "100,000", "1,000,000"],
            [
                ["river face, dicts", *[f"{mb:.1f}" for mb in memory_river.values()]],
                ["learn_one on arrays", *[f"{mb:.1f}" for mb in memory_rows.values()]],
            ],
        ),
        f"Relative distance of the moments to those learned in bulk: {distance(always, bulk):.0e} "
        f"through dicts, {distance(rows, bulk):.0e} through arrays. Predicting at every event or "
        f"at every thousandth leaves {'bit-identical' if same else 'DIFFERENT'} moments. "
        f"{rate:,.0f} events per second through dicts, making the dicts included.",
    )
