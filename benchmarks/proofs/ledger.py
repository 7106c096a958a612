"""Ledgers: models of selections, the estimated G-mean, and drift detected from moments.

``models`` compares models of random selections with fresh models of their rows, ``gmean`` the
G-mean estimated without rows with that of the rows, ``drift`` alarms with river's detectors.
The sets come from COUNTERPOISE_DATA.
"""

import tempfile
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from ledgers import a_year, cut_into_days, distance, random_selection
from paper import datasets
from river.drift import ADWIN, PageHinkley

from benchmarks import report
from benchmarks.data_sets import make_halves, subset
from benchmarks.study import Study
from counterpoise import BalancedRidgeClassifier, Ledger

DAY = 86_400


@contextmanager
def open_ledger(**keys):
    """Open a new ledger in a temporary folder."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Ledger.open(Path(folder) / "l", timestamp="at", **keys) as ledger,
    ):
        yield ledger


def as_table(seconds, X, y):
    """Return rows as columns with their time."""
    at = np.asarray(seconds).astype("datetime64[s]")
    return {"at": at, **{f"x{j}": X[:, j] for j in range(X.shape[1])}, "y": y}


# Models of selections
#
# Segments are features, one for each value, whose sum is the constant: the smallest eigenvalue of a
# problem is its ridge. Where classes are not balanced it is worth three rows here, as by default;
# a ridge worth 0.1 of 20,000 rows costs another digit.

SETS, MAX_ROWS, MAX_DISTANCE = ("spambase", "ijcnn1", "cod-rna"), 20_000, 1e-10


def distances(tables, reference, count, **keys):
    """Return the distance of each model from a fresh one: of decayed selections, and of others."""
    rng, plain, decayed = np.random.default_rng(0), [], []
    with open_ledger(**keys) as ledger:
        for table in tables:
            ledger.learn(table, allow_new_columns=True)
        while len(plain) + len(decayed) < count:
            named, weight = random_selection(rng, reference)
            if len(np.unique(reference.y[weight > 0])) < 2:
                continue
            options = {} if rng.random() < 0.7 else {"ridge": 3.0, "class_weight": None}
            model, fresh = ledger.model(**named, **options), reference.fresh(weight, **options)
            off = distance(model, reference.names, fresh, reference.X[weight > 0])
            (decayed if "half_life" in named else plain).append(off)
    assert max(plain + decayed) <= MAX_DISTANCE
    return plain, decayed


def write_models(options):
    """Write the largest distances of models of selections."""
    tables, reference = a_year(days=366, rows=60)
    count, keys = options.selections, {"label": "fraud", "by": "country"}
    found = {"payments": distances(tables, reference, count, **keys)}
    for name in SETS:
        X, y = datasets.load(name)
        table, reference = cut_into_days(X[:MAX_ROWS], y[:MAX_ROWS])
        found[name] = distances([table], reference, count, label="y", by="town")
    rows = [
        [name, *(cell for part in parts for cell in (len(part), f"{max(part, default=0.0):.1e}"))]
        for name, parts in found.items()
    ]
    report.write(
        "ledger_models",
        "Models of selections",
        f"{count} random selections of each set by time, by segment, with exclusions and decay: "
        "the ledger's model next to a fresh one that learned only those rows. Given is the largest "
        "difference of coefficients, in units of deviations of the features, and of the constant. "
        f"More than {MAX_DISTANCE:g} would have stopped it.",
        report.table(["set", "plain", "largest", "decayed", "largest"], rows),
    )


# The estimated G-mean


def estimate(one, _):
    """Return estimated and true G-mean of the model of one half on the other."""
    time = np.repeat([0, DAY], [len(one.y), len(one.y_test)])
    X, y = np.concatenate([one.X, one.X_test]), np.concatenate([one.y, one.y_test])
    with open_ledger(label="y") as ledger:
        ledger.learn(as_table(time, X, y))
        found = ledger.compare({"until": "1970-01-02"}, {"since": "1970-01-02"}).g_mean[0, 1]
    predicted = BalancedRidgeClassifier().fit(one.X, one.y).predict(one.X_test)
    recall = [(predicted[one.y_test == k] == k).mean() for k in np.unique(y)]
    return found, np.sqrt(np.prod(recall))


GMEAN = Study(
    "ledger_gmean",
    {name: one for name, one in datasets.SETS.items() if datasets.find(name)},
    {"ledger": None},
    make_halves(lambda name, run: subset(*datasets.load(name), 10_000)),
    estimate,
    ("estimate", "of the rows"),
    runs=3,
)


def write_gmean(options):
    """Write the estimated G-mean next to that of the rows."""
    study = GMEAN.run(runs=options.halvings)
    rows, means, off = [], [], []
    for name in study.sets:
        pairs = np.array([study.values("ledger", name, k) for k in (0, 1)])
        means.append(pairs.mean(axis=1))
        off.append(np.abs(pairs[0] - pairs[1]).mean())
        rows.append([name, *(f"{value:.3f}" for value in (*means[-1], off[-1]))])
    report.write(
        "ledger_gmean",
        "The estimated G-mean",
        f"{len(rows)} sets of the paper, at most 10,000 rows, {2 * study.runs} halves each: the "
        "estimate by the mean and the variance of the scores of each class, as if they were "
        "normal, next to the G-mean of the rows. On average it is "
        f"{np.mean(off):.3f} off, at most {max(off):.3f}; the correlation over the sets is "
        f"{np.corrcoef(np.transpose(means))[0, 1]:.3f}.",
        report.table(["set", "estimate", "of the rows", "off"], rows),
    )


# Drift
#
# ADWIN and Page-Hinkley read all rows: the errors of the exact classifier that predicts each row
# before it learns it, and ADWIN also the values of each feature by class, which the ledger has.
# Alarms of one bucket count as one.

BUCKETS, CHANGE, COMMON, RARE, D = 1000, 500, 200, 20, 5
LEVELS = (0.01, 0.001)
KINDS = ("normal", "Student t3", "log-normal", "daily level", "zero-inflated")
SHIFTS = (("normal", 0.2), *((kind, 0.5) for kind in KINDS), ("normal", 1.0))
DETECTORS = (
    *(f"ledger, level {level}" for level in LEVELS), "ADWIN, each feature by class",
    "ADWIN, errors", "Page-Hinkley, errors",
)  # fmt: skip


def draw(kind, bucket, rng):
    """Return features of a standard deviation near 1, of shape (rows, D)."""
    shape = len(bucket), D
    if kind == "Student t3":
        return rng.standard_t(3.0, shape) / np.sqrt(3.0)
    if kind == "log-normal":
        return rng.lognormal(0.0, 1.0, shape) / 2.16
    if kind == "zero-inflated":  # 9 of 10 values are 0
        return rng.lognormal(0.0, 1.0, shape) * (rng.random(shape) < 0.1) / 0.84
    X = rng.standard_normal(shape)
    X[:, 1:] += 0.5 * X[:, :-1]
    return X + rng.standard_normal((BUCKETS, D))[bucket] if kind == "daily level" else X


def stream(kind, shift, seed):
    """Return buckets, rows and classes; feature 0 of the rare class shifts in the middle."""
    rng = np.random.default_rng(seed)
    bucket = np.repeat(np.arange(BUCKETS), COMMON + RARE)
    y = np.tile(np.repeat([0, 1], [COMMON, RARE]), BUCKETS)
    X = draw(kind, bucket, rng) + 0.7 * y[:, None]
    X[(y == 1) & (bucket >= CHANGE), 0] += shift
    order = np.lexsort((rng.random(len(y)), bucket))
    return bucket[order], X[order], y[order]


def by_moments(bucket, X, y):
    """Return the buckets with alarms of the ledger, at each level."""
    with open_ledger(label="y") as ledger:
        ledger.learn(as_table(bucket * DAY, X, y))
        return [np.flatnonzero(ledger.drift(level=level).alarms) for level in LEVELS]


def by_rows(bucket, X, y):
    """Return the buckets with alarms of river's detectors."""
    scores = BalancedRidgeClassifier().progressive_scores(X, y)
    wrong = ((np.ravel(scores) > 0).astype(int) != y).astype(float)
    features = [
        watch(ADWIN(), bucket[y == k], X[y == k, j]) for k in (0, 1) for j in range(D)
    ]  # fmt: skip
    errors = [watch(detector, bucket, wrong) for detector in (ADWIN(), PageHinkley())]
    return [np.array(sorted(set().union(*features)), dtype=int)] + [
        np.array(sorted(found), dtype=int) for found in errors
    ]


def watch(detector, bucket, values):
    """Return the buckets in which a detector has detected a change."""
    found = set()
    for b, value in zip(bucket.tolist(), values.tolist(), strict=True):
        detector.update(value)
        if detector.drift_detected:
            found.add(b)
    return found


def delays(found):
    """Return the median of the buckets until an alarm, its quartiles, and the misses, as text."""
    after = [one[one >= CHANGE][:1] - CHANGE for one in found]
    detected = np.concatenate(after)
    if not len(detected):
        return "never"
    low, middle, high = np.percentile(detected, [25, 50, 75])
    missed = len(found) - len(detected)
    return f"{middle:.0f} ({low:.0f} to {high:.0f}{f'; {missed} missed' if missed else ''})"


def alarms(kind, shift, seeds):
    """Return the alarms of each detector on each stream."""
    found = {name: [] for name in DETECTORS}
    for seed in range(seeds):
        drawn = stream(kind, shift, seed)
        for name, mine in zip(DETECTORS, by_moments(*drawn) + by_rows(*drawn), strict=True):
            found[name].append(mine)
    return found


def write_drift(options):
    """Write false alarms and delays of each detector."""
    false = {name: [name] for name in DETECTORS}
    delay = {name: [name] for name in DETECTORS}
    for kind in KINDS:
        for name, found in alarms(kind, 0.0, options.seeds).items():
            count = np.array([len(one) for one in found])
            error = count.std(ddof=1) / np.sqrt(len(count))
            false[name].append(f"{count.mean():.2f} ± {error:.2f}")
        print(kind, [row[-1] for row in false.values()], flush=True)
    for kind, shift in SHIFTS:
        for name, found in alarms(kind, shift, max(options.seeds // 2, 1)).items():
            delay[name].append(delays(found))
        print(kind, shift, [row[-1] for row in delay.values()], flush=True)
    expected = " and ".join(f"{BUCKETS * level:g}" for level in LEVELS)
    report.write(
        "ledger_drift",
        "Drift from moments",
        f"{options.seeds} streams of {BUCKETS:,} buckets for each kind, each bucket with "
        f"{COMMON} common and {RARE} rare rows of {D} features.",
        f"Alarms in {BUCKETS:,} buckets without a change: mean and its standard error. A level is "
        f"the probability of an alarm in a bucket, so that at most {expected} alarms are expected. "
        "*Daily level*: normal features with a level that is drawn for each bucket, with the "
        "standard deviation 1. *Zero-inflated*: 9 of 10 values are 0, others log-normal. ADWIN has "
        "river's default confidence for each of its detectors.",
        report.table(["detector", *KINDS], list(false.values())),
        "Buckets until the shift of one feature of the rare class is detected, by half as many "
        "streams: median and quartiles; shifts are in standard deviations. An alarm raised by "
        "chance after the change counts as a detection.",
        report.table(
            ["detector", *(f"{kind}, {shift}" for kind, shift in SHIFTS)], list(delay.values())
        ),
    )


if __name__ == "__main__":
    TABLES = {"models": write_models, "gmean": write_gmean, "drift": write_drift}
    options = report.parse(__doc__, TABLES, selections=200, halvings=3, seeds=20)
    for part in options.parts:
        TABLES[part](options)
