"""Stream probabilities: their log loss, the cost of decisions by them, and their far tail.

``loss`` compares both links with LogisticRegression and two calibrated classifiers, ``costs`` the
cost of decisions with the best threshold, and ``tails`` predictions with true probabilities.
"""

import numpy as np
from paper import datasets
from paper.protocol import Fold
from scipy.optimize import brentq
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks import data_sets, report
from benchmarks.learners import logistic
from benchmarks.study import Study, main
from counterpoise import AutoClassifier, BalancedRidgeClassifier, CostSensitiveClassifier
from counterpoise.evaluate.cost_curve import cost_curve

CHUNK, RATIOS = 256, (5.0, 20.0, 100.0)


def learn_chunks(model, X, y):
    """Learn rows in chunks."""
    for at in range(0, len(y), CHUNK):
        rows = slice(at, at + CHUNK)
        model.partial_fit(X[rows], y[rows], classes=np.unique(y))
    return model


def stream_proba(make):
    """Fit rows and predict stream probabilities."""
    return lambda X, y, X_test: make().fit(X, y).predict_stream_proba(X_test)


def progressive(X, y, X_test):
    """Learn chunks, calibrated by rows scored before they are learned."""
    model = learn_chunks(BalancedRidgeClassifier(calibrate=True), X, y)
    return model.predict_stream_proba(X_test)


def proba(make):
    """Fit rows and predict probabilities."""
    return lambda X, y, X_test: make().fit(X, y).predict_proba(X_test)


def add_calibration(make):
    """Fit ``CalibratedClassifierCV`` (sigmoid, 3 folds) after StandardScaler."""
    return proba(lambda: make_pipeline(StandardScaler(), CalibratedClassifierCV(make(), cv=3)))


def paper_set(name, max_rows=4000):
    """Return at most ``max_rows`` rows of a set of the paper, labels 0 and 1."""

    def load(run):
        X, y = data_sets.subset(*datasets.load(name), max_rows)
        return X, (y == 1).astype(int)

    return load


def rare(name, share, rows):
    """Return rows of a set of the paper with a rare positive class."""
    return lambda run: data_sets.rare(name, share, rows)


# Log loss

TWO = {
    **{
        name: paper_set(name)
        for name in (
            "wpbc", "sonar", "ionosphere", "votes", "musk-clean-1", "wdbc", "credit-app",
            "pima-diabetes", "statlog-german", "ozone-eight", "spambase",
        )
    },
    "ijcnn1, 1%": rare("ijcnn1", 0.01, 10_000),
    "skin, 0.4%": rare("skin-nonskin", 0.004, 10_000),
    "cod-rna, 0.1%": rare("cod-rna", 0.001, 20_000),
    "synthetic, 0.4%": lambda run: data_sets.two_normals(0.004),
    "synthetic, curved, 1%": lambda run: data_sets.two_normals(0.01, curved=True),
}  # fmt: skip
SETS = {
    **TWO,
    "iris (3)": data_sets.iris,
    "wine (3)": data_sets.wine,
    "digits (10)": data_sets.digits,
    "segments (7)": data_sets.segments,
}


def losses(one, learner):
    """Return log loss, Brier score, calibration error, and costs of 1,000 rows at each ratio."""
    p, classes, y = learner(one.X, one.y, one.X_test), np.unique(one.y), one.y_test
    hit = (y[:, None] == classes).astype(float)
    p_true = np.clip((p * hit).sum(axis=1), 1e-15, 1.0)
    confidence, right = p.max(axis=1), classes[p.argmax(axis=1)] == y
    bins = np.minimum((confidence * 15).astype(int), 14)
    error = sum(
        abs(right[bins == k].mean() - confidence[bins == k].mean()) * np.mean(bins == k)
        for k in np.unique(bins)
    )
    costs = [np.nan] * len(RATIOS)
    if len(classes) == 2:
        alerts = [p[:, 1] * ratio > p[:, 0] for ratio in RATIOS]
        costs = [
            1000 * np.mean(np.where(y == 1, ratio * ~alert, alert))
            for ratio, alert in zip(RATIOS, alerts, strict=True)
        ]
    return [-np.log(p_true).mean(), ((p - hit) ** 2).sum(axis=1).mean(), error, *costs]


OTHERS = {
    "LogisticRegression": proba(lambda: logistic(max_iter=2000)),
    "calibrated LDA": add_calibration(LinearDiscriminantAnalysis),
    "calibrated ridge": add_calibration(lambda: RidgeClassifier(class_weight="balanced")),
}
LOSS = Study(
    "probability",
    SETS,
    {
        "constant": proba(lambda: DummyClassifier(strategy="prior")),
        "exact link": stream_proba(BalancedRidgeClassifier),
        "progressive": progressive,
        **OTHERS,
    },
    data_sets.make_shuffled_halves(lambda name, run: SETS[name](run)),
    losses,
    ("Log loss", "Brier score", "Calibration error", *(f"cost {ratio:g}" for ratio in RATIOS)),
    runs=3,
)


def write_loss(study):
    """Write losses, their ratios and costs."""
    two = [name for name in study.sets if name in TWO]
    parts = []
    for metric in study.metrics[:3]:
        rows = [[name, *study.means([name], metric)] for name in study.sets]
        parts += [f"## {metric}", report.table(["set", *study.learners], rows)]
    head = ["mean ratio", *(f"over {other}" for other in OTHERS), "worst over a constant"]
    for names, title in (
        (two, f"the {len(two)} sets of two classes"),
        ([name for name in study.sets if name not in two], "the sets of several classes"),
    ):
        loss = {one: np.array([study.mean(one, [n]) for n in names]) for one in study.learners}
        rows = [
            [one, *(f"{(loss[one] / loss[other]).mean():.3f}" for other in OTHERS),
             f"{(loss[one] / loss['constant']).max():.3f}"]
            for one in study.learners if names and one != "constant"
        ]  # fmt: skip
        parts += [f"## Log loss relative to others, {title}", report.table(head, rows)]
    for ratio in RATIOS:
        metric = f"cost {ratio:g}"
        rows = [[name, *study.means([name], metric, 1)] for name in two]
        mean = ["**mean**", *(f"**{value}**" for value in study.means(two, metric, 1))]
        title = f"## Cost of 1,000 rows where a miss costs {ratio:g} false alarms"
        parts += [title, report.table(["set", *study.learners], [*rows, mean])]
    report.write(
        "probability",
        "Stream probabilities and the cost of decisions by them",
        f"{len(study.sets)} sets of 2 to 10 classes, {study.runs} runs of two stratified halves, "
        "at most 4,000 rows of a public set; lower is better everywhere. The exact link comes from "
        "the moments alone; progressive calibration from rows scored before they were learned, in "
        f"chunks of {CHUNK}. Batch models have all rows in memory. *Calibrated LDA* and "
        "*calibrated ridge* are `CalibratedClassifierCV` (sigmoid, 3 folds) of "
        "`LinearDiscriminantAnalysis` and of a balanced `RidgeClassifier`. With several classes it "
        "calibrates one class against all others, which is a weak model. All other options are "
        "defaults.",
        *parts,
    )


# Decisions by cost

COST_SETS = {
    **{n: paper_set(n, None) for n in ("pima-diabetes", "spambase", "ozone-eight", "ozone-one")},
    "ijcnn1": paper_set("ijcnn1", 20_000),
    "ijcnn1, 1%": rare("ijcnn1", 0.01, 20_000),
    "skin, 0.4%": rare("skin-nonskin", 0.004, 20_000),
    "cod-rna, 0.2%": rare("cod-rna", 0.002, 20_000),
}


HALVINGS = 10
PER_RATIO = ("cost", "never", "always", "least", "least by half", "halves above never")


def whole_set(name, run):
    """Return a set as one fold, which ``costs`` cuts into halves."""
    X, y = COST_SETS[name](run)
    return [Fold(run, 0, X, y, X[:0], y[:0])]


def decide(X, y):
    """Yield labels, stream probabilities and alerts at each ratio of rows that were not learned."""
    fold_of = data_sets.make_shuffled_halves(lambda name, run: (X, y))
    for one in (one for run in range(HALVINGS) for one in fold_of(None, run)):
        model = CostSensitiveClassifier(BalancedRidgeClassifier(calibrate=True))
        learn_chunks(model, one.X, one.y)
        alerts = []
        for ratio in RATIOS:
            model.costs = {1: ratio}
            alerts.append(model.predict(one.X_test) == 1)
        yield one.y_test, model.predict_proba(one.X_test)[:, 1], alerts


def costs(one, _):
    """Return share and number of rows, and for each ratio ``PER_RATIO`` over all halves."""
    found = list(decide(one.X, one.y))
    y, p = (np.concatenate([half[k] for half in found]) for k in (0, 1))
    values = [one.y.mean(), len(y)]
    for k, ratio in enumerate(RATIOS):
        ours = np.array(
            [ratio * ((t == 1) & ~alert[k]).sum() + ((t == 0) & alert[k]).sum()
             for t, _, alert in found]
        )  # fmt: skip
        curves = [cost_curve(t, q, miss=ratio) for t, q, _ in found]
        whole = cost_curve(y, p, miss=ratio)
        above = sum(cost > curve.never for cost, curve in zip(ours, curves, strict=True))
        values += [ours.sum(), whole.never, whole.always, whole.least]
        values += [sum(curve.least for curve in curves), above]
    return values


COSTS = Study(
    "costs",
    COST_SETS,
    {"by cost": None},
    whole_set,
    costs,
    ("share", "rows", *(f"{what}, {ratio:g}" for ratio in RATIOS for what in PER_RATIO)),
    runs=1,
)


def write_costs(study):
    """Write the costs of 1,000 rows next to those of fixed decisions and of thresholds."""
    rows, shares, by_half, above = [], [], [], 0
    for name in study.sets:
        share, n = (study.mean("by cost", [name], one) for one in ("share", "rows"))
        for ratio in RATIOS:
            cost, never, always, least, separate, more = (
                study.mean("by cost", [name], f"{what}, {ratio:g}") for what in PER_RATIO
            )
            assert cost <= never, f"{name} at {ratio}: above never alerting"
            shares.append(cost / least)
            by_half.append(cost / separate)
            above += int(more)
            cells = [f"{1000.0 / n * value:.1f}" for value in (cost, never, always, least)]
            rows.append([name, f"{100 * share:.2g}%", f"{ratio:g}:1", *cells, f"{shares[-1]:.3f}"])
    assert np.mean(shares) <= 1.1, np.mean(shares)
    head = ["set", "share", "a miss : a false alarm", "by cost", "never alert", "always alert"]
    report.write(
        "costs",
        "The cost of decisions by expected cost",
        f"Half of each set was learned, in chunks of {CHUNK} rows, and the other half decided by "
        "`CostSensitiveClassifier(BalancedRidgeClassifier(calibrate=True), costs={1: ratio})`, as "
        f"`predict --cost-miss` decides; {HALVINGS} times in both directions. Costs are of 1,000 "
        "rows, in false alarms. The best threshold is one for all halves of a set, chosen in "
        "hindsight on the same probabilities.",
        report.table([*head, "best threshold", "by cost / best"], rows),
        f"Decisions by cost cost {np.mean(shares):.3f} times the best threshold on average over "
        f"the {len(shares)} lines, and never more than never to alert. If every half could choose "
        "its own threshold in hindsight, by its few rows of the rare class, they would cost "
        f"{np.mean(by_half):.3f} times that. Of {2 * HALVINGS * len(shares)} single halves {above} "
        "cost more than never to alert would have; those are where the two differ little in the "
        "table.",
    )


# The far tail

SHARE, FEATURES, MISS_COST, TOPS = 0.002, 8, 50.0, (1e-4, 1e-3, 1e-2)
LEARNED_ROWS, PREDICTED_ROWS = 200_000, 500_000


def log_odds(world, rows, rng):
    """Return rows, and their true log-odds up to a constant."""
    w = np.random.default_rng(7).standard_normal(FEATURES)
    w /= np.linalg.norm(w)
    if world == "heavy-tailed":
        X = rng.standard_t(3, (rows, FEATURES))
        return X, 0.9 * np.clip(X, -15.0, 15.0) @ w
    X = rng.standard_normal((rows, FEATURES))
    if world == "logistic":
        return X, 1.6 * X @ w
    products = 0.5 * X[:, 0] * X[:, 1] - 0.5 * X[:, 2] * X[:, 3] + 0.3 * (X[:, 4] ** 2 - 1.0)
    return X, 1.1 * X @ w + products


def draw_tails(world, run):
    """Return learned rows with labels, and other rows with their true probabilities."""
    _, f = log_odds(world, 400_000, np.random.default_rng(999))
    b = brentq(lambda b: expit(f + b).mean() - SHARE, -30.0, 10.0)
    X_test, f = log_odds(world, PREDICTED_ROWS, np.random.default_rng(2))
    p_test, rng = expit(f + b), np.random.default_rng(101 + run)
    X, f = log_odds(world, LEARNED_ROWS, rng)
    y = (rng.random(len(X)) < expit(f + b)).astype(int)
    return [Fold(run, 0, X, y, X_test, p_test)]


def tails(one, learner):
    """Return predicted over true at the top, and log loss and costs relative to the truth."""
    true = one.y_test
    q = np.clip(learner(one.X, one.y, one.X_test)[:, 1], 1e-12, 1.0 - 1e-12)
    order = np.argsort(-q)
    tops = [order[: int(top * len(q))] for top in TOPS]

    def loss(p):
        return -(true * np.log(p) + (1.0 - true) * np.log1p(-p)).mean()

    def cost(p):
        return np.where(MISS_COST * p > 1.0 - p, 1.0 - true, MISS_COST * true).mean()

    ratios = [q[rows].mean() / true[rows].mean() for rows in tops]
    never = MISS_COST * true.mean() / cost(true)
    return [*ratios, loss(q) / loss(true), cost(q) / cost(true), never]


def boosting():
    """Return gradient boosting with its defaults."""
    return HistGradientBoostingClassifier(random_state=0)


TAILS = Study(
    "tails",
    dict.fromkeys(("logistic", "heavy-tailed", "interactions")),
    {
        "BalancedRidgeClassifier": stream_proba(BalancedRidgeClassifier),
        "BalancedRidgeClassifier, calibrate=True": stream_proba(
            lambda: BalancedRidgeClassifier(calibrate=True)
        ),
        "AutoClassifier": stream_proba(AutoClassifier),
        "AutoClassifier, calibrate=True": stream_proba(lambda: AutoClassifier(calibrate=True)),
        "LogisticRegression": proba(lambda: LogisticRegression(max_iter=300)),
        "HistGradientBoosting": proba(boosting),
        "HistGradientBoosting, CalibratedClassifierCV": proba(
            lambda: CalibratedClassifierCV(boosting(), cv=3)
        ),
    },
    draw_tails,
    tails,
    ("top 0.01%", "top 0.1%", "top 1%", "log loss", "cost", "cost of never alerting"),
    runs=3,
)


def write_tails(study):
    """Write how far predictions are from true probabilities at the top."""
    rows = []
    for world in study.sets:
        for learner in study.learners:
            of = {one: np.array(study.values(learner, world, one)) for one in study.metrics}
            top = [f"{np.exp(np.log(of[one]).mean()):.2f}" for one in study.metrics[:3]]
            span = f"{of['top 0.01%'].min():.2f} to {of['top 0.01%'].max():.2f}"
            means = [f"{of[one].mean():.3f}" for one in study.metrics[3:6]]
            rows.append([world, learner, top[0], span, *top[1:], *means])
    first, *others = study.metrics[:6]
    report.write(
        "tails",
        "Probabilities in the far tail",
        f"{LEARNED_ROWS:,} rows with {FEATURES} features were learned, of which 0.2% are positive, "
        f"and {PREDICTED_ROWS:,} others predicted; {study.runs} seeds. These synthetic rows have "
        "true probabilities. The top rows are those with the highest predictions: "
        "given is the mean prediction over the mean true probability, as the geometric mean of the "
        f"seeds. Log loss and cost (a miss costs {MISS_COST:g} false alarms) are expectations by "
        "the true probabilities, relative to the true probabilities as predictions. "
        "logistic: normal features, linear log-odds. heavy-tailed: features with Student's t "
        "distribution of 3 degrees, log-odds linear in them up to 15. interactions: log-odds with "
        "two products and a square. The form of the calibration curve was chosen on other seeds of "
        "these worlds.",
        report.table(["world", "model", first, "of single seeds", *others], rows),
    )


if __name__ == "__main__":
    main(
        __doc__,
        {
            "loss": (LOSS, write_loss),
            "costs": (COSTS, write_costs),
            "tails": (TAILS, write_tails),
        },
    )
