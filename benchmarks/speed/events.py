"""Single events: cost of each call, growth with the features, memory of a million, categories."""

import copy
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
from counterpoise.river import BalancedRidgeClassifier as RiverModel

D, LEARNED_ROWS, ROUNDS = 20, 4_000, 7
NARROW, WIDE = (8, 22, 72), (72, 166, 300, 512)
# Features, categories, rows that are learned before, measured events, and repetitions of them.
CATEGORY_FEATURES, CATEGORIES = (8, 20, 30), (1_000, 5_000)
LEARNED_BEFORE, MEASURED, REPETITIONS = 20_000, 25_000, 3


class TimedStream:
    """Stream of one width, and models that have learned its first rows."""

    def __init__(self, d, events):
        rng = np.random.default_rng(d)
        n = LEARNED_ROWS + events * ROUNDS
        y = (rng.random(n) < 0.1).astype(int)
        self.X = rng.standard_normal((n, d)) + y[:, None] * 2.0 / np.sqrt(d)
        self.y = y.tolist()
        names = [f"f{j}" for j in range(d)]
        self.frame = pd.DataFrame(self.X[:LEARNED_ROWS], columns=names)
        self.dicts = [dict(zip(names, row, strict=True)) for row in self.X[LEARNED_ROWS:].tolist()]
        self.events = events

    def learn_dicts(self, make):
        """Return a model and the events that it has not learned."""
        model = make()
        if hasattr(model, "learn_many"):
            model.learn_many(self.frame, pd.Series(self.y[:LEARNED_ROWS]))
        return model, self.dicts

    def learn_rows(self, make):
        """Return a model and the rows that it has not learned."""
        return make().partial_fit(self.X[:LEARNED_ROWS], np.array(self.y[:LEARNED_ROWS])), self.X[
            LEARNED_ROWS:
        ]

    def microseconds(self, calls):
        """Return the CPU time per event, best of several rounds in which all calls take a turn."""
        best = dict.fromkeys(calls, np.inf)
        for i in range(ROUNDS):
            at = slice(i * self.events, (i + 1) * self.events)
            labels = self.y[LEARNED_ROWS:][at]
            for name, ((model, rows), method, learn) in calls.items():
                call = getattr(model, method) if method else None
                start = time.process_time()
                if method == "unlearn_one":
                    for x, label in zip(rows[at], labels, strict=True):
                        model.learn_one(x, label)
                        model.unlearn_one(x, label)
                elif method and learn:
                    for x, label in zip(rows[at], labels, strict=True):
                        call(x)
                        model.learn_one(x, label)
                elif method:
                    for x in rows[at]:
                        call(x)
                else:
                    for x, label in zip(rows[at], labels, strict=True):
                        model.learn_one(x, label)
                spent = (time.process_time() - start) / self.events * 1e6
                best[name] = min(best[name], spent)
        return best


METHODS = ("predict_one", "predict_proba_one", "predict_stream_proba_one")


PAIR = "predict_stream_proba_one, then learn_one"
RATIOS = (
    ("calibrated pair / uncalibrated", f"river, calibrate=True: {PAIR}", f"river: {PAIR}"),
    (
        "learn_one, then unlearn_one / prediction, then learn_one",
        "river: learn_one, then unlearn_one",
        f"river: {PAIR}",
    ),
)


def pipeline():
    """Return river's scaled logistic regression."""
    return preprocessing.StandardScaler() | linear_model.LogisticRegression()


def make_calibrated():
    """Return a calibrated model."""
    return RiverModel(calibrate=True)


def one_row(d):
    """Return the microseconds of every call for one row."""
    timed, calls = TimedStream(d, 1000), {}
    for kind, learn in (("river", timed.learn_dicts), ("arrays", timed.learn_rows)):
        make = RiverModel if kind == "river" else BalancedRidgeClassifier
        calls[f"{kind}: learn_one"] = learn(make), None, True
        for method in (*METHODS, *(["explain_one"] if make is RiverModel else [])):
            calls[f"{kind}: {method}, nothing new"] = learn(make), method, False
            calls[f"{kind}: {method}, then learn_one"] = learn(make), method, True
    calls["river: learn_one, then unlearn_one"] = (
        timed.learn_dicts(RiverModel),
        "unlearn_one",
        True,
    )
    stream = "predict_stream_proba_one"
    for what, method, learn_too in (
        ("learn_one", None, True),
        (f"{stream}, nothing new", stream, False),
        (f"{stream}, then learn_one", stream, True),
    ):
        calls[f"river, calibrate=True: {what}"] = (
            timed.learn_dicts(make_calibrated),
            method,
            learn_too,
        )
    for name, make in (
        ("StandardScaler, LogisticRegression", pipeline),
        ("LogisticRegression", linear_model.LogisticRegression),
        ("Perceptron", linear_model.Perceptron),
    ):
        calls[f"river {name}: predict_one, then learn_one"] = (
            timed.learn_dicts(make),
            "predict_one",
            True,
        )
    name = "river StandardScaler, LogisticRegression"
    calls[f"{name}: learn_one"] = timed.learn_dicts(pipeline), None, True
    for method in METHODS[:2]:
        calls[f"{name}: {method}, nothing new"] = timed.learn_dicts(pipeline), method, False
    calls[f"{name}: predict_proba_one, then learn_one"] = (
        timed.learn_dicts(pipeline),
        "predict_proba_one",
        True,
    )
    return timed.microseconds(calls)


def growth():
    """Return microseconds of predict_one then learn_one by width, of events and of rows."""
    found = []
    for d in WIDE:
        timed = TimedStream(d, 300 if d < 200 else 100)
        calls = {
            "river": (timed.learn_dicts(RiverModel), "predict_one", True),
            "arrays": (timed.learn_rows(BalancedRidgeClassifier), "predict_one", True),
        }
        found.append(timed.microseconds(calls))
    return found


def exponent(costs):
    """Return the slope of a line through logarithms of cost and width."""
    return np.polyfit(np.log(WIDE), np.log(costs), 1)[0]


def draw(n):
    """Return n rows, 1% of them positive."""
    rng = np.random.default_rng(0)
    y = (rng.random(n) < 0.01).astype(int)
    return rng.standard_normal((n, D)) + y[:, None], y


def resident():
    """Return the memory of the process in MB."""
    gc.collect()
    return psutil.Process().memory_info().rss / 1e6


def learn_events(X, y, every):
    """Learn events, predict every k-th; return moments, memory and events per second."""
    names = [f"f{j}" for j in range(D)]
    model, memory, start = RiverModel(), {}, time.perf_counter()
    for i in range(len(y)):
        x = dict(zip(names, X[i].tolist(), strict=True))
        if i % every == 0:
            model.predict_one(x)
        model.learn_one(x, int(y[i]))
        if i + 1 in (len(y) // 100, len(y) // 10, len(y)):
            memory[i + 1] = resident()
    return model._state.moments, memory, len(y) / (time.perf_counter() - start)


def learn_rows(X, y):
    """Learn single rows; return moments and memory."""
    model = BalancedRidgeClassifier().partial_fit(X[:2], y[:2])
    memory = {}
    for i in range(2, len(y)):
        model.predict_one(X[i])
        model.learn_one(X[i], y[i])
        if i + 1 in (len(y) // 100, len(y) // 10, len(y)):
            memory[i + 1] = resident()
    return model._engine.state.moments, memory


def distance(one, two):
    """Return the largest relative distance of the scatters, class by class."""
    where = {label: k for k, label in enumerate(one.labels.tolist())}
    return max(
        np.linalg.norm(one.C[where[label]] - two.C[k]) / np.linalg.norm(two.C[k])
        for k, label in enumerate(two.labels.tolist())
    )


def draw_payments(d, categories):
    """Return events with a merchant, the same events without it, and their labels, 10% positive."""
    rng, rows = np.random.default_rng(d + categories), LEARNED_BEFORE + MEASURED
    y = rng.random(rows) < 0.1
    merchant = (categories * rng.random(rows) ** 2).astype(int)
    X = rng.standard_normal((rows, d)) + y[:, None] * 2.0 / np.sqrt(d)
    X[:, 0] += rng.standard_normal(categories)[merchant]
    names = [f"f{j}" for j in range(d)]
    plain = [dict(zip(names, row, strict=True)) for row in X.tolist()]
    events = [{**x, "merchant": f"m{at}"} for x, at in zip(plain, merchant.tolist(), strict=True)]
    return events, plain, y.tolist()


def category_calls(d, categories):
    """Return the microseconds of calls without a merchant, and with one of this many."""
    events, plain, labels = draw_payments(d, categories)
    roles = {"without": None, "many:10": "many:10", "many": "many"}
    models, best = {}, {}
    for name, role in roles.items():
        models[name] = RiverModel(columns=None if role is None else {"merchant": role})
        for x, y in zip((events if role else plain)[:LEARNED_BEFORE], labels, strict=False):
            models[name].learn_one(x, y)
        models[name].predict_one(plain[0])
    for _ in range(REPETITIONS):
        for call, (method, learns) in {
            "learn_one": (None, True),
            "predict_one, nothing new": ("predict_one", False),
            "predict_one, then learn_one": ("predict_one", True),
            "predict_proba_one, then learn_one": ("predict_proba_one", True),
        }.items():
            for name, role in roles.items():
                model, own = copy.deepcopy(models[name]), events if role else plain
                predict = getattr(model, method or "predict_one")
                for x in own[:2]:  # the first may choose the ridge
                    predict(x)
                start = time.process_time()
                for x, y in zip(own[LEARNED_BEFORE:], labels[LEARNED_BEFORE:], strict=True):
                    if method:
                        predict(x)
                    if learns:
                        model.learn_one(x, y)
                spent = (time.process_time() - start) / MEASURED * 1e6
                best[call, name] = min(best.get((call, name), np.inf), spent)
    return best


def category_events():
    """Write the table of events with many categories."""
    rows = []
    for d in CATEGORY_FEATURES:
        for categories in CATEGORIES:
            with threadpool_limits(1):
                found = category_calls(d, categories)
            for call in dict.fromkeys(call for call, _ in found):
                base, *others = (found[call, name] for name in ("without", "many:10", "many"))
                rows.append(
                    [f"d = {d}, {categories:,} categories: {call}"]
                    + [f"{one:.1f}" for one in (base, *others)]
                    + [f"{one / base:.2f}" for one in others]
                )
    report.write(
        "events_categories",
        "Events with one field of many categories",
        f"Microseconds of CPU time per event of river's estimator: the mean over {MEASURED:,} "
        f"events after {LEARNED_BEFORE:,}, the best of {REPETITIONS} repetitions in which all "
        "models take a turn. d numbers, 10% minority, one BLAS thread. The mean contains new "
        "categories, sums over all categories, and with `many` the choices of the ridge.",
        report.table(
            ["call", "without the field", "many:10", "many", "ratio, many:10", "ratio, many"],
            rows,
        ),
    )


def all_calls(events):
    """Write the tables of events without categories."""
    with threadpool_limits(1):
        calls, wide = [one_row(d) for d in NARROW], growth()
    X, y = draw(events)
    bulk = Moments.of(X, y)
    always, memory_river, rate = learn_events(X, y, 1)
    seldom, _, _ = learn_events(X, y, 1000)
    rows, memory_rows = learn_rows(X, y)
    same = np.array_equal(always.C, seldom.C) and np.array_equal(always.mean, seldom.mean)
    report.write(
        "events",
        "Events, one by one",
        "Microseconds of CPU time per call, or per pair of calls, by the number of features; 10% "
        f"minority, {LEARNED_ROWS:,} rows learned before, one BLAS thread, best of {ROUNDS} rounds "
        "in which all calls take a turn. *Nothing new*: no row was learned since the last call. A "
        "prediction after a row updates the coefficients first, and `predict_proba_one` and "
        "`predict_stream_proba_one` also the link from scores to probabilities, which takes the "
        "inverse of a covariance: d³. `explain_one` gives the contribution of every feature; "
        "river's models have no such call.",
        report.table(
            ["call", *[f"d = {d}" for d in NARROW]],
            [[name, *[f"{one[name]:.1f}" for one in calls]] for name in calls[0]],
        ),
        "Ratios of these figures:",
        report.table(
            ["ratio", *[f"d = {d}" for d in NARROW]],
            [
                [name, *[f"{one[more] / one[less]:.2f}" for one in calls]]
                for name, more, less in RATIOS
            ],
        ),
        "`predict_one`, then `learn_one`, of wide rows; the exponent is that of a power of d, "
        "fitted to all four.",
        report.table(
            ["microseconds", *[f"d = {d}" for d in WIDE], "exponent"],
            [
                [
                    kind,
                    *[f"{one[kind]:.0f}" for one in wide],
                    f"{exponent([one[kind] for one in wide]):.2f}",
                ]
                for kind in wide[0]
            ],
        ),
        f"{events:,} events, d = {D}, 1% minority, `predict_one` then `learn_one` on each:",
        report.table(
            ["resident memory, MB, after", *(f"{n:,} events" for n in memory_river)],
            [
                ["river, dicts", *[f"{mb:.1f}" for mb in memory_river.values()]],
                ["learn_one on arrays", *[f"{mb:.1f}" for mb in memory_rows.values()]],
            ],
        ),
        f"Relative distance of the moments to those learned in bulk: {distance(always, bulk):.0e} "
        f"through dicts, {distance(rows, bulk):.0e} through arrays. Predicting at every event or "
        f"at every thousandth leaves {'bit-identical' if same else 'DIFFERENT'} moments. "
        f"{rate:,.0f} events per second through dicts, making the dicts included.",
    )


def main():
    """Write the tables of some parts."""
    options = report.parse(__doc__, ("calls", "categories"), events=1_000_000)
    if "calls" in options.parts:
        all_calls(options.events)
    if "categories" in options.parts:
        category_events()


if __name__ == "__main__":
    main()
