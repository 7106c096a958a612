"""Long streams: coefficients, events and covariances stay right to the end.

``batch`` compares with the batch solution, ``events`` with refits at random moments, ``noisy`` the
covariance and the G-mean of every online rule in each tenth of a noisy stream.
"""

import sys
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
from paper.protocol import g_mean
from sklearn.linear_model import RidgeClassifier
from sklearn.preprocessing import StandardScaler

from benchmarks import report
from counterpoise import BalancedRidgeClassifier
from counterpoise.errors import PrecisionWarning
from counterpoise.moments.downdate import MAX_RELATIVE_ERROR
from counterpoise.moments.moments import Moments
from counterpoise.online import (
    ACOG,
    AROW,
    ARRLS,
    IRRLS,
    NRRLS,
    RLS,
    ConfidenceWeighted,
    PassiveAggressive,
    Perceptron,
    SoftConfidenceWeighted,
)
from counterpoise.river import BalancedRidgeClassifier as RiverModel
from counterpoise.solver.scores import WARN_RELATIVE_ERROR

# Against the batch solution

D, RIDGE = 20, 1e-4


def draw(rows, d=D, minority=0.01, seed=0):
    """Return rows of mixed features, some of them positive."""
    rng = np.random.default_rng(seed)
    y = (rng.random(rows) < minority).astype(np.int64)
    X = rng.standard_normal((rows, d))
    X[:, 1:] += 0.5 * X[:, :-1]
    X[y == 1] += np.linspace(0.0, 1.0, d)
    return X, y


def distance(one, two):
    """Return the relative distance of coefficients."""
    return np.linalg.norm(one - two) / np.linalg.norm(two)


def scaled_batch(X, y):
    """Return coefficients of the batch solver on [1, Z] and the divisors of the scaler."""
    scaler = StandardScaler().fit(X)
    Z = np.empty((len(X), X.shape[1] + 1))
    Z[:, 0] = 1.0
    Z[:, 1:] = scaler.transform(X)
    batch = RidgeClassifier(
        alpha=RIDGE * len(y) / 2, class_weight="balanced", fit_intercept=False, solver="cholesky"
    )
    return np.ravel(batch.fit(Z, y).coef_)[1:], scaler.scale_


def learn_mixed_chunks(X, y):
    """Return a model that learned chunks of 1 to 100,000 rows, and their number."""
    rng, at, chunks = np.random.default_rng(1), 0, 0
    model = BalancedRidgeClassifier(ridge=RIDGE)
    while at < len(y):
        step = int(10 ** rng.uniform(0.0, 5.0))
        model.partial_fit(X[at : at + step], y[at : at + step])
        at, chunks = at + step, chunks + 1
    return model, chunks


def long_stream(n):
    """Return distances of the coefficients, of rows as they are and shifted by 1e8."""
    X, y = draw(n)
    rows = []
    model, chunks = learn_mixed_chunks(X, y)
    w, s = scaled_batch(X, y)
    rows.append([f"{n:,} rows in {chunks} chunks of 1 to 100,000", distance(model.coef_[0] * s, w)])
    X += 1e8
    model, _ = learn_mixed_chunks(X, y)
    X -= 1e8  # exact: both have lost what the addition rounded
    w, s = scaled_batch(X, y)
    rows.append(["the same, every feature shifted by 1e8", distance(model.coef_[0] * s, w)])
    return rows


def learn_and_unlearn(times=50_000):
    """Return the distance after rows were learned and unlearned, one by one."""
    X, y = draw(10_000, minority=0.1)
    rng = np.random.default_rng(2)
    model = BalancedRidgeClassifier().fit(X, y)
    before = model.coef_
    for _ in range(times):
        row, label = 3.0 * rng.standard_normal((1, D)), rng.integers(0, 2, 1)
        model.partial_fit(row, label).unlearn(row, label)
    return [[f"{times:,} rows learned and unlearned, one by one", distance(model.coef_, before)]]


def removals():
    """Return for some removals the estimated error and the true error."""
    rows = []
    X, y = draw(1_000_000, minority=0.1)
    model = BalancedRidgeClassifier()
    for i in range(0, len(y), 10_000):
        model.partial_fit(X[i : i + 10_000], y[i : i + 10_000])
    rows.append(["1,000,000 rows learned, all but 50 unlearned", *unlearn(model, X, y, 50, 10_000)])
    for size in (1e3, 1e5, 1e6, 1e7, 1e10):
        X, y = draw(1_000, minority=0.2)
        X, y = np.vstack([X, X[:1]]), np.append(y, 1)
        X[-1, 3] = size
        model = BalancedRidgeClassifier().fit(X, y)
        name = f"an outlier of {size:.0e} learned after 1,000 rows and unlearned"
        rows.append([name, *unlearn(model, X, y, 1_000, 1)])
    return rows


def unlearn(model, X, y, kept, step):
    """Unlearn all rows but the first; return the reaction, the estimate and the true error."""
    reaction, estimate = "silent", None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            for i in range(kept, len(y), step):
                model.unlearn(X[i : i + step], y[i : i + step])
        except ValueError:
            reaction = "refused"
    if reaction == "refused":
        return [reaction, f"above {MAX_RELATIVE_ERROR:.0e}", "model unchanged"]
    if any(w.category is PrecisionWarning for w in caught):
        reaction = "warned"
    estimate = model._engine.state.moments.relative_error().max()
    fresh = BalancedRidgeClassifier().fit(X[:kept], y[:kept])
    return [reaction, f"{estimate:.0e}", f"{distance(model.coef_, fresh.coef_):.0e}"]


def write_batch(options):
    """Write the distances from batch solutions."""
    distances = long_stream(options.rows) + learn_and_unlearn()
    report.write(
        "drift",
        "Never drifting",
        f"d = {D}, 1% minority, coefficients in scaled units against scikit-learn's "
        f"RidgeClassifier on all rows in one step, with the same ridge ({RIDGE:g}); rows learned "
        "and unlearned by turns against the coefficients before. One run.",
        report.table(
            ["stream", "relative distance of the coefficients"],
            [[name, f"{value:.1e}"] for name, value in distances],
        ),
        f"Precision loss by `unlearn`: it warns above an estimate of {WARN_RELATIVE_ERROR:.0e} and "
        f"refuses above {MAX_RELATIVE_ERROR:.0e}. The true error is the distance to a fit on the "
        "remaining rows.",
        report.table(["rows", "unlearn", "estimate", "true error"], removals()),
    )


# Events

CHECKS, EVENT_CHUNK = 1_000, 10_000


class EventStream:
    """Events with drifting means, mixed features, units from 1e-3 to 1e3, offsets up to 1e6."""

    def __init__(self, d):
        rng = np.random.default_rng(3)
        self.mixed = np.eye(d) + 0.3 * rng.standard_normal((d, d))
        self.units = 10.0 ** rng.integers(-3, 4, d)
        self.offsets = 10.0 ** rng.integers(0, 7, d)
        self.names = [f"f{j}" for j in range(d)]

    def chunk(self, i):
        """Return rows and labels of chunk i, with a minority of 1%."""
        rng, d = np.random.default_rng([7, i]), len(self.names)
        y = (rng.random(EVENT_CHUNK) < 0.01).astype(int)
        if i == 0:
            y[:2] = 0, 1
        X = rng.standard_normal((EVENT_CHUNK, d)) @ self.mixed + y[:, None]
        X += np.sin(i / 50.0 + np.arange(d))
        return X * self.units + self.offsets, y


def moments_distance(one, two):
    """Return the largest distance of means and scatters, class by class, in deviations."""
    where = {label: k for k, label in enumerate(one.labels.tolist())}
    worst = 0.0
    for k, label in enumerate(two.labels.tolist()):
        j = where[label]
        size = np.sqrt(np.diagonal(two.C[k]))
        worst = max(worst, float(np.abs((one.C[j] - two.C[k]) / np.outer(size, size)).max()))
        apart = (one.anchor - two.anchor) + one.mean[j] - two.mean[k]
        worst = max(worst, float(np.abs(apart / size * np.sqrt(two.n[k])).max()))
    return worst


def prove(events, d, checks):
    """Learn events; return the worst distances, the labels that differ and events per second."""
    stream, rng = EventStream(d), np.random.default_rng(11)
    positions = np.sort(
        rng.choice(np.arange(min(1_000, events // 2), events), checks, replace=False)
    )
    model, bulk, worst, wrong, seconds = RiverModel(), None, 0.0, 0, 0.0
    at = 0
    for i in range(events // EVENT_CHUNK):
        X, y = stream.chunk(i)
        rows, labels = X.tolist(), y.tolist()
        dicts = [dict(zip(stream.names, row, strict=True)) for row in rows]
        start, done = time.process_time(), 0
        while done < EVENT_CHUNK:
            stop = EVENT_CHUNK
            if at < checks and positions[at] < (i + 1) * EVENT_CHUNK:
                stop = int(positions[at]) - i * EVENT_CHUNK
                at += 1
            for event, label in zip(dicts[done:stop], labels[done:stop], strict=True):
                model.predict_one(event)
                model.learn_one(event, label)
            if stop < EVENT_CHUNK:
                seconds += time.process_time() - start
                seen = Moments.of(X[:stop], y[:stop]) if stop else None
                if bulk is not None:
                    seen = bulk if seen is None else bulk + seen
                refit = BalancedRidgeClassifier().partial_fit(X[:2], [0, 1])
                refit._engine.state = refit._engine.state._with(moments=seen)
                g = refit.decision_function(X[stop : stop + 1])[0]
                found = model._open.events.scores(X[stop])[0]
                worst = max(worst, abs(found - g) / (1.0 + abs(g)))
                wrong += model.predict_one(dicts[stop]) != int(g > 0) and abs(g) > 1e-8
                start = time.process_time()
            done = stop
        seconds += time.process_time() - start
        more = Moments.of(X, y)
        bulk = more if bulk is None else bulk + more
    return moments_distance(model._state.moments, bulk), worst, wrong, events / seconds


def write_events(options):
    """Write the distances of ten million events from refits."""
    rows = []
    for events, d in ((options.rows, 20), (max(options.rows // 50, EVENT_CHUNK), 60)):
        moments, scores, wrong, rate = prove(events, d, min(CHECKS, events // 10))
        assert moments <= 1e-10, moments
        assert scores <= 1e-8, scores
        assert wrong == 0, wrong
        rows.append([f"{events:,}", d, f"{moments:.0e}", f"{scores:.0e}", wrong, f"{rate:,.0f}"])
    report.write(
        "events_proof",
        "Ten million events, exact to the end",
        "Events of river, `predict_one` then `learn_one` on each; 1% minority, means that drift, "
        "units from 1e-3 to 1e3, offsets up to 1e6. The largest distance of the moments from the "
        "moments of all rows in bulk, in deviations, which must stay below 1e-10; of scores from "
        f"the scores of a refit at {CHECKS:,} random moments, below 1e-8 of 1 + |f|; how many of "
        "these labels differ; and events per second of CPU time.",
        report.table(["events", "d", "moments", "scores", "labels", "events per second"], rows),
    )


# Noisy streams

NOISY_CHUNK, NOISY_D = 100_000, 10
RULES = {
    "PE": Perceptron,
    "PA": PassiveAggressive,
    "PA-I": lambda: PassiveAggressive(variant="PA-I"),
    "PA-II": lambda: PassiveAggressive(variant="PA-II"),
    "CW, deviation": ConfidenceWeighted,
    "CW, deviation, diagonal": lambda: ConfidenceWeighted(covariance="diagonal"),
    "CW, variance": lambda: ConfidenceWeighted(form="variance"),
    "CW, variance, diagonal": lambda: ConfidenceWeighted(form="variance", covariance="diagonal"),
    "SCW-I": SoftConfidenceWeighted,
    "SCW-I, diagonal": lambda: SoftConfidenceWeighted(covariance="diagonal"),
    "SCW-II": lambda: SoftConfidenceWeighted(variant="II"),
    "SCW-II, diagonal": lambda: SoftConfidenceWeighted(variant="II", covariance="diagonal"),
    "AROW": AROW,
    "AROW, diagonal": lambda: AROW(covariance="diagonal"),
    "AROW, diagonal-drop": lambda: AROW(covariance="diagonal-drop"),
    "ACOG I": lambda: ACOG(loss="I"),
    "ACOG II": ACOG,
    "ACOG II, diagonal": lambda: ACOG(covariance="diagonal"),
    "RLS": RLS,
    "AR-RLS": ARRLS,
    "AR-RLS, count": lambda: ARRLS(weighting="count"),
    "BalancedRidgeClassifier": BalancedRidgeClassifier,
}
COSTLY = {  # d³ per row; IR-RLS reads all rows of a class again for each row
    "NR-RLS, {rows:,} rows": (NRRLS, 1_000_000),
    "NR-RLS, symmetrised, {rows:,} rows": (lambda: NRRLS(symmetrize=True), 1_000_000),
    "IR-RLS, {rows:,} rows": (IRRLS, 5_000),
}


def noisy(chunk, seed):
    """Return normal features, a fifth of rows positive, then one label in ten flipped."""
    rng = np.random.default_rng([seed, chunk])
    y = np.where(rng.random(NOISY_CHUNK) < 0.2, 1, -1)
    X = rng.standard_normal((NOISY_CHUNK, NOISY_D))
    X[:, 1:] += 0.5 * X[:, :-1]
    X[y > 0] += np.linspace(0.0, 2.0, NOISY_D)
    return X, np.where(rng.random(NOISY_CHUNK) < 0.1, -y, y)


def collinear(chunk, seed):
    """Return the same with one feature twice and five indicators of five kinds."""
    X, y = noisy(chunk, seed)
    kinds = np.digitize(X[:, 5], [-1.5, -0.5, 0.5, 1.5])
    X[:, 4] = X[:, 3]
    X[:, 5:] = np.eye(5)[kinds]
    return X, y


def eigenvalue_ratio(rule):
    """Return smallest over largest eigenvalue of the covariance, as text."""
    if isinstance(rule, BalancedRidgeClassifier | Perceptron | PassiveAggressive):
        return "-"
    S = rule._state.S
    if isinstance(rule, NRRLS):
        values = np.linalg.eigvalsh((S[0] + S[0].T) / 2.0)
    else:  # of the factor, because a product of two would round
        values = S if S.ndim == 1 else np.linalg.svd(S, compute_uv=False) ** 2
    return f"{values.min() / values.max():.0e}"


def by_tenths(stream, rows, rules):
    """Return for each rule the ratio of eigenvalues and the G-mean in each tenth."""
    running = {name: make() for name, make in rules.items()}
    tenths, results = rows // 10, {name: [] for name in rules}
    chunk = min(NOISY_CHUNK, tenths)
    labels, found = [], {name: [] for name in rules}
    for i in range(rows // chunk):
        X, y = (part[:chunk] for part in stream(i, 0))
        labels.append(y)
        for name, rule in list(running.items()):
            try:
                found[name].append(rule.progressive_scores(X, y, classes=[-1, 1]))
            except ValueError as error:
                results[name].append(str(error).split(";")[0])
                del running[name]
        if (i + 1) * chunk % tenths == 0:
            for name in running:
                results[name].append(
                    float(g_mean(np.concatenate(labels), np.concatenate(found[name])))
                )
                found[name] = []
            labels = []
            print(f"{stream.__name__}: {(i + 1) * chunk:,} rows", file=sys.stderr, flush=True)
    return [
        [name, *([eigenvalue_ratio(running[name])] if name in running else ["failed"])]
        + [value if isinstance(value, str) else f"{value:.3f}" for value in results[name]]
        for name in rules
    ]


def noisy_table(stream, n):
    """Return the table of all rules on one stream of n rows."""
    rows = by_tenths(stream, n, RULES)
    for name, (make, count) in COSTLY.items():
        count = min(count, n)
        rows += by_tenths(stream, count, {name.format(rows=count): make})
    head = ["rule", "smallest / largest eigenvalue", *(f"{k}" for k in range(1, 11))]
    return f"## {stream.__name__.capitalize()}\n\n{report.table(head, rows)}"


def write_noisy(options):
    """Write the G-mean of every online rule in each tenth."""
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        parts = list(pool.map(noisy_table, (noisy, collinear), [options.rows] * 2))
    report.write(
        "noisy",
        "Long noisy streams",
        f"G-mean by tenth of a stream of {options.rows:,} rows (fewer if the name has a number), "
        "each scored before it was learned, and the eigenvalues of the covariance of the "
        "coefficients at the end, relative to each other. A fifth of the rows are positive, then "
        "one label in ten is flipped. *Collinear*: one feature exists twice, and five are "
        "indicators of five kinds and so add up to the constant. Defaults, features as they come, "
        f"seeded chunks of {NOISY_CHUNK:,} rows. First-order rules and BalancedRidgeClassifier, "
        "which solves from sums, have no covariance.",
        *parts,
    )


if __name__ == "__main__":
    TABLES = {"batch": write_batch, "events": write_events, "noisy": write_noisy}
    options = report.parse(__doc__, TABLES, rows=10_000_000)
    for part in options.parts:
        TABLES[part](options)
