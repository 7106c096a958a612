"""Metrics compared with other libraries; benchmarks, plots and the report."""

import base64
import html.parser
import io
import json
import re
import shutil
import subprocess
from contextlib import nullcontext
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from builders import stream
from imblearn.metrics import geometric_mean_score
from matplotlib.colors import to_rgb
from sklearn import metrics as theirs

from counterpoise import BalancedRidgeClassifier, online
from counterpoise.errors import DataError
from counterpoise.evaluate import plots
from counterpoise.evaluate.benchmark import (
    METHODS,
    QUADRATIC_TIME_METHOD,
    load_external_model,
    n_warmup_rows,
    run_benchmark,
    select_best,
    standardize_progressively,
    synthetic_payments,
    too_slow,
)
from counterpoise.evaluate.html_report import render_benchmark
from counterpoise.evaluate.metrics import CUSTOM_METHOD, MAIN_METHOD, Result, measure


def models(*methods):
    """Return the exact model and online rules by their short names; all rules by default."""
    rules = {name: getattr(online, METHODS[name])() for name in methods or METHODS}
    return {MAIN_METHOD: BalancedRidgeClassifier(), **rules}


def guesses(classes, seed=0, rows=400):
    rng = np.random.default_rng(seed)
    y = rng.choice(classes, rows, p=[0.8, *[0.2 / (len(classes) - 1)] * (len(classes) - 1)])
    f = rng.standard_normal((rows, len(classes))) + (y[:, None] == classes)
    return y, f


@pytest.mark.parametrize("seed", range(5))
def test_metrics_of_two_classes_are_those_of_scikit_learn(seed):
    classes = np.array(["fraud", "ok"])
    y, f = guesses(classes, seed)
    f = f[:, 1] - f[:, 0]
    predicted = classes[(f > 0).astype(int)]
    found = measure(y, predicted, f, classes)
    fraud = found.of("fraud")
    assert fraud["g_mean"] == pytest.approx(geometric_mean_score(y, predicted))
    assert fraud["balanced_accuracy"] == pytest.approx(theirs.balanced_accuracy_score(y, predicted))
    for name in ("recall", "precision"):
        score = getattr(theirs, f"{name}_score")(y, predicted, pos_label="fraud")
        assert fraud[name] == pytest.approx(score)
    assert fraud["average_precision"] == pytest.approx(
        theirs.average_precision_score(y == "fraud", -f)
    )
    assert fraud["roc_auc"] == pytest.approx(theirs.roc_auc_score(y == "fraud", -f))
    threshold = np.sort(-f[y == "ok"])[::-1][int(0.01 * (y == "ok").sum())]
    assert fraud["recall_at_1pct"] == pytest.approx((-f[y == "fraud"] > threshold).mean())
    counts = found.plain()["confusion"]
    expected = theirs.confusion_matrix(y, predicted)
    assert [[counts[a].get(b, 0) for b in classes] for a in classes] == expected.tolist()


@pytest.mark.parametrize("seed", range(3))
def test_metrics_of_more_classes(seed):
    classes = np.array([0, 1, 2, 3])
    y, f = guesses(classes, seed)
    predicted = f.argmax(axis=1)
    found = measure(y, predicted, f, classes)
    assert found.confusion.g_mean() == pytest.approx(geometric_mean_score(y, predicted))
    for k in classes:
        auc = theirs.roc_auc_score(y == k, f[:, k])
        assert found.by_class[k]["roc_auc"] == pytest.approx(auc)


def test_undefined_metrics_have_a_reason():
    classes = np.array(["no", "yes"])
    y = np.array(["no", "no", "no"])
    found = measure(y, y, np.array([-1.0, -2.0, -0.5]), classes)
    assert found.confusion.g_mean() is None
    assert found.undefined["g_mean"] == "only 'no' is in the data"
    assert found.undefined["recall of yes"] == "no 'yes' is in the data"
    assert found.undefined["precision of yes"] == "'yes' was never predicted"
    assert found.undefined["ROC AUC of no"] == "no other class is in the data"
    assert found.of("yes")["roc_auc"] is None
    assert (
        measure(y[:0], y[:0], np.empty(0), classes).undefined["g_mean"] == "no class is in the data"
    )


def test_standardising_looks_at_the_rows_before_only():
    X, _ = stream(50, d=3)
    X[:, 2] = 7.0
    Z = standardize_progressively(X)
    for t in (1, 2, 10, 49):
        with np.errstate(divide="ignore", invalid="ignore"):
            expected = (X[t] - X[:t].mean(axis=0)) / X[:t].std(axis=0)
        known = X[:t].std(axis=0) > 0
        np.testing.assert_allclose(Z[t][known], np.clip(expected[known], -10, 10), rtol=1e-9)
        assert not Z[t][~known].any()
    assert not Z[0].any()


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0, 7])
def test_a_benchmark_is_test_then_train(delay):
    X, y = stream(300, d=4)
    results = {result.name: result for result in run_benchmark(X, y, models(), delay)}
    assert list(results) == [MAIN_METHOD, *METHODS]
    model = BalancedRidgeClassifier()
    expected = model.progressive_scores(X, y, delay=delay, classes=[0, 1])
    np.testing.assert_array_equal(results[MAIN_METHOD].scores, expected)
    t = 200
    refit = BalancedRidgeClassifier().fit(X[: t - delay], y[: t - delay])
    assert results[MAIN_METHOD].scores[t] == pytest.approx(
        refit.decision_function(X[t : t + 1])[0], rel=1e-8
    )
    arow = online.AROW()
    scores = arow.progressive_scores(standardize_progressively(X), y, delay=delay, classes=[0, 1])
    np.testing.assert_array_equal(results["AROW"].scores, scores)


@pytest.mark.slow
def test_a_benchmark_of_three_classes_is_one_vs_rest():
    X, y = stream(200, d=3, classes=3, minority=0.2)
    results = list(run_benchmark(X, np.array(["a", "b", "c"])[y], models()))
    for result in results:
        assert result.scores.shape == (200, 3)
        assert set(result.predicted) <= {"a", "b", "c"}
    assert select_best(results).metrics.confusion.g_mean() > 0.3


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0, 20])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_names_of_the_labels_decide_nothing(delay, classes):
    X, y = stream(300, d=4, classes=classes, minority=0.1)
    X[:40:7] = 0.0  # scores of 0, too
    first = None
    for names in (["a", "b", "c"], ["c", "b", "a"], ["b", "a", "c"]):
        labels = np.array(names)
        results = list(run_benchmark(X, labels[y], models(), delay, positive=names[1]))
        first = first or results
        for one, other in zip(first, results, strict=True):
            said = one.predicted[:, None] == np.array(["a", "b", "c"])
            np.testing.assert_array_equal(other.predicted[:, None] == labels, said)
            # Recalls are multiplied in the order of the labels, which moves the last digit.
            expected = pytest.approx(one.metrics.of("b"), rel=1e-14)
            assert other.metrics.of(names[1]) == expected
            assert other.first == one.first


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0, 5])
def test_rows_count_once_two_classes_are_known(delay):
    X, y = stream(200, d=3)
    y[:30], y[30] = 0, 1
    assert n_warmup_rows(y, delay) == 31 + delay
    for result in run_benchmark(X, y, models(), delay):
        assert result.first == 31 + delay
        assert result.metrics.confusion.row_count == 200 - 31 - delay
        assert len(result.predicted) == len(result.scores) == 200
    assert n_warmup_rows(y, 169) == n_warmup_rows(y[:20], 0) + 180 == 200


@pytest.mark.slow
@pytest.mark.parametrize("delay", [0, 4])
def test_external_models_are_tested_then_trained(delay):
    from river.naive_bayes import GaussianNB as Dicts
    from sklearn.naive_bayes import GaussianNB

    X, y = stream(60, d=2)
    external = {"arrays": GaussianNB(), "dicts": Dicts()}
    results = {one.name: one for one in run_benchmark(X, y, external, delay, 1)}
    assert list(results) == ["arrays", "dicts"]
    Z, t = standardize_progressively(X), 50
    known = slice(0, t - delay)
    refit, again = GaussianNB(), Dicts()
    for row, label in zip(Z[known], y[known].tolist(), strict=True):
        refit.partial_fit(row[None], [label], classes=[0, 1])
        again.learn_one({"x0": float(row[0]), "x1": float(row[1])}, bool(label))
    assert results["arrays"].scores[t] == refit.predict_proba(Z[t : t + 1])[0, 1]
    x = dict(zip(["x0", "x1"], Z[t].tolist(), strict=True))
    assert results["dicts"].scores[t] == again.predict_proba_one(x)[True]
    assert results["dicts"].predicted[t] == again.predict_one(x)
    assert results["dicts"].first == n_warmup_rows(y, delay)


@pytest.mark.slow
def test_external_models_of_two_classes_get_three():
    from river.linear_model import Perceptron
    from sklearn.linear_model import Perceptron as Arrays

    X, y = stream(80, d=3, classes=3, minority=0.2)
    labels = np.array(["a", "b", "c"])[y]
    external = {"dicts": Perceptron(), "arrays": Arrays()}
    for one in run_benchmark(X, labels, external, 0, "b"):
        assert one.scores.shape == (80, 3)
        assert len(set(one.predicted[one.first :])) > 1


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("GaussianNB", "is not MODULE:CLASS, such as sklearn.linear_model:SGDClassifier"),
        ("nowhere.at_all:GaussianNB", "cannot be imported (No module named 'nowhere'); install"),
        ("sklearn.naive_bayes:gaussiannb", "did you mean GaussianNB?"),
        ("sklearn.naive_bayes:Unknown", "has no class 'Unknown'; name a class"),
        ("sklearn.tree:DecisionTreeClassifier", "does not have partial_fit or learn_one"),
        ("sklearn.linear_model:SGDRegressor", "does not predict classes; name a classifier"),
        ("river.preprocessing:StandardScaler", "does not predict classes; name a classifier"),
        ("river.ensemble:ADWINBaggingClassifier", "cannot be made without model; write a function"),
    ],
)
def test_an_external_model_that_cannot_run_is_an_error(path, problem):
    with pytest.raises(DataError, match=re.escape(problem)):
        load_external_model(path)


def test_an_external_model_that_fails_is_named():
    X, y = stream(40, d=2)
    external = {"NB": load_external_model("sklearn.naive_bayes:MultinomialNB")}
    with pytest.raises(DataError, match=r"NB failed at row \d+ \(.*[Nn]egative.*\); leave it out"):
        list(run_benchmark(X, y, external, 0, 1))


def test_slow_methods_are_found():
    y = np.repeat([0, 1], [19_000, 1_000])
    assert list(too_slow(y, 8)) == [QUADRATIC_TIME_METHOD]
    assert not too_slow(y[::40], 8)
    assert set(too_slow(np.repeat([0, 1], 50_000), 180)) == {"NR-RLS", QUADRATIC_TIME_METHOD}


@pytest.mark.slow
def test_own_options_run_too():
    X, y = stream(300, d=3)
    own = BalancedRidgeClassifier(ridge=0.1, feature_map="poly2")
    both = {MAIN_METHOD: BalancedRidgeClassifier(), CUSTOM_METHOD: own}
    results = list(run_benchmark(X, y, both, 3, names=["a", "b", "c"]))
    assert [result.name for result in results] == [MAIN_METHOD, CUSTOM_METHOD]
    again = BalancedRidgeClassifier(ridge=0.1, feature_map="poly2")
    expected = again.progressive_scores(X, y, delay=3, classes=[0, 1])
    np.testing.assert_array_equal(results[1].scores, expected)
    assert len(results[1].terms) == results[1].weights.shape[1] > 3
    render_benchmark("own", results, y, ["a", "b", "c"], 1, 3)


def test_running_g_mean_is_that_of_the_first_rows():
    y = np.array([0, 0, 1, 1, 0, 1])
    guess = np.array([0, 1, 1, 0, 0, 1])
    at, value = plots.running_g_mean(y, guess)
    for t, g in zip(at, value, strict=True):
        if len(set(y[:t])) == 2:
            assert g == pytest.approx(geometric_mean_score(y[:t], guess[:t]))
        else:
            assert np.isnan(g)


@pytest.mark.slow
def test_the_g_mean_of_late_shows_a_fall():
    rng = np.random.default_rng(0)
    y = (rng.random(4000) < 0.1).astype(int)
    guess = np.where(np.arange(4000) < 2000, y, 0)  # finds everything, then nothing
    at, value = plots.running_g_mean(y, guess, 500)
    for t, g in zip(at, value, strict=True):
        part = slice(t - 500, t)
        assert g == pytest.approx(geometric_mean_score(y[part], guess[part]))
    assert (value[at <= 2000] == 1.0).all()
    assert (value[at >= 2500] == 0.0).all()
    assert plots.running_g_mean(y, guess)[1][-1] > 0.5
    assert plots.window_of(y) == pytest.approx(250, rel=0.1)
    assert plots.window_of(y[:40]) == 10


@pytest.mark.slow
def test_precision_and_recall_fill_the_figure():
    y = np.where(np.arange(50_000) % 250 == 0, "fraud", "ok")
    scores = np.random.default_rng(0).standard_normal(len(y)) - 0.5 * (y == "fraud")
    classes = np.array(["fraud", "ok"])
    found = measure(y, classes[(scores > 0).astype(int)], scores, classes)
    result = Result("PA", y, scores, 0, found, 1.0, np.zeros((1, 2)))
    axes = plots.plot_precision_recall([result], y, "fraud", 0).axes[0]
    assert axes.get_ylim()[1] < 0.5
    assert 2 * max(axes.lines[0].get_ydata()) > axes.get_ylim()[1]


@pytest.mark.parametrize("page", [nullcontext, plots.dark])
def test_every_method_has_a_colour_of_its_own(page):
    names = [MAIN_METHOD, CUSTOM_METHOD, *METHODS]
    with page():
        colors = [plots.style(name)["color"] for name in names]
    assert len(set(colors)) == len(names)
    page = to_rgb("white") if page is nullcontext else to_rgb(plots.DARK_BACKGROUND)
    for color in colors:
        assert contrast(to_rgb(color), page) > 1.9


def contrast(*colors):
    """Contrast by the guidelines for web content: 1 for one color, 21 for black on white."""
    light = []
    for color in colors:
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in color]
        light.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(light) + 0.05) / (min(light) + 0.05)


@pytest.mark.slow
def test_control_characters_break_no_figure():
    X, y, _ = synthetic_payments(400)
    names = [f"\x1b[3{j}m\x00$name$ <{j}>" for j in range(8)]
    labels = np.where(y == "fraud", "\x1b[31m\x01fraud", "ok\x08")
    results = list(run_benchmark(X, labels, models("PA")))
    text = render_benchmark("\x1b]8;;x\x07", results, labels, names, "\x1b[31m\x01fraud", 0)
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", text)
    for data in re.findall(r"base64,([^\"]*)", text):
        ElementTree.fromstring(base64.b64decode(data))


@pytest.mark.slow
def test_a_model_has_a_report_too(run):
    X, y = stream(400, d=2)
    for name, part in (("a", slice(300)), ("b", slice(300, 400))):
        pairs = zip(X[part].tolist(), y[part].tolist(), strict=True)
        rows = "\n".join(f"{a},{b},{'xy'[k]}" for (a, b), k in pairs)
        Path(f"{name}.csv").write_text(f"a,b,label\n{rows}\n")
    run("learn", "a.csv", "--label", "label", "-m", "m.st")
    done = run("evaluate", "m.st", "b.csv", "--report", "r.html")
    assert "report: r.html" in done.err
    text = Path("r.html").read_text()
    assert len([tag for tag, _ in _Page(text).found if tag == "img"]) == 10
    g_mean = float(re.search(r"G-mean\t(\S+)", done.out).group(1))
    assert f"Its G-mean is {g_mean:.4f}." in text
    run("evaluate", "m.st", "b.csv", "--report", "no/r.html", code=2)
    run("evaluate", "m.st", "b.csv", "--report", "r.html", "--positive", "z", code=2)
    only = [line for line in Path("b.csv").read_text().splitlines() if not line.endswith("y")]
    Path("c.csv").write_text("\n".join(only) + "\n")  # only one class
    run("evaluate", "m.st", "c.csv", "--report", "r.html")


class _Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


@pytest.fixture(scope="module")
def report():
    X, y, names = synthetic_payments(1500)
    results = list(run_benchmark(X, y, models()))
    return render_benchmark("A <stream>", results, y, names, "fraud", 0)


@pytest.mark.xdist_group("report")  # they share one
@pytest.mark.slow
def test_the_report_needs_nothing_else(report):
    tags = _Page(report).found
    images = [a for tag, a in tags if tag == "img"]
    assert len(images) == 9
    assert all(a["src"].startswith("data:image/svg+xml;base64,") for a in images)
    assert all(a["alt"] for a in images)
    assert sum(tag == "figcaption" for tag, _ in tags) == 9
    dark = [a for tag, a in tags if tag == "source"]
    assert len(dark) == 9
    assert all(a["media"] == "(prefers-color-scheme: dark)" for a in dark)
    assert not {a["srcset"] for a in dark} & {a["src"] for a in images}
    assert not [tag for tag, _ in tags if tag == "script"]
    assert "http" not in re.sub(r"base64,[^\"]*", "", report)
    assert "A &lt;stream&gt;" in report


@pytest.mark.slow
def test_the_same_stream_gives_the_same_figures():
    _, y, _ = synthetic_payments(500)
    one, two = (plots.svg(plots.plot_class_shares(y)) for _ in range(2))
    assert one == two


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.mark.xdist_group("report")  # they share one
@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
@pytest.mark.parametrize("width", [1280, 400])
def test_the_report_in_a_browser(report, tmp_path, width):
    """No console error, nothing wider than the page, every figure drawn and large enough."""
    look = """
      const wide = document.documentElement.scrollWidth;
      const figures = [...document.querySelectorAll('img')].map(
        i => [i.complete && i.naturalWidth, i.getBoundingClientRect().width]);
      parent.postMessage({wide, figures}, '*');"""
    (tmp_path / "benchmark.html").write_text(
        report.replace("</body>", f"<script>onload = () => {{{look}}}</script></body>")
    )
    outer = f"""<!DOCTYPE html><iframe src="benchmark.html" width="{width}" height="900"></iframe>
      <pre id="out"></pre><script>onmessage = e => {{
        document.getElementById('out').textContent = JSON.stringify(e.data); }}</script>"""
    (tmp_path / "outer.html").write_text(outer)
    command = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
        "--allow-file-access-from-files", "--window-size=1400,1000", "--virtual-time-budget=5000",
        f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", (tmp_path / "outer.html").as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "CONSOLE" not in done.stderr
    seen = json.loads(re.search(r'<pre id="out">(.*?)</pre>', done.stdout).group(1))
    assert seen["wide"] <= width
    assert len(seen["figures"]) == 9
    for drawn, across in seen["figures"]:
        assert drawn
        assert across > 0.85 * min(width, 480)


@pytest.mark.slow
def test_tables_are_tab_separated_in_a_pipe(run):
    import pandas as pd

    done = run("benchmark", "--demo", "--report", "benchmark.html")
    table = pd.read_csv(io.StringIO(done.out), sep="\t")
    assert table["method"].tolist()[0] == MAIN_METHOD
    assert "counterpoise: report: benchmark.html" in done.err
    assert table["G-mean"].astype(float).idxmax() == 0
    found = json.loads(run("benchmark", "--demo", "--json", "--delay", "100").out)
    assert found["delay"] == 100
    assert set(found["methods"]) == set(table["method"])


@pytest.mark.slow
def test_the_command_selects_methods(run):
    X, y = stream(400, d=2)
    rows = "\n".join(f"{a},{b},{'xy'[k]}" for (a, b), k in zip(X.tolist(), y.tolist(), strict=True))
    Path("t.csv").write_text(f"a,b,label\n{rows}\n")
    line = ["benchmark", "t.csv", "--label", "label", "--json"]
    found = json.loads(run(*line, "--only", "arow,ir-rls", "--ridge", "0.1").out)
    assert list(found["methods"]) == [MAIN_METHOD, CUSTOM_METHOD, "AROW", "IR-RLS"]
    done = run(*line, "--exclude", "ACOG", "--exclude", "PA,CW", "--delay", "3")
    found = json.loads(done.out)
    assert set(found["methods"]) == {MAIN_METHOD, *METHODS} - {"ACOG", "PA", "CW"}
    assert found["not_counted"] == n_warmup_rows(y, 3)
    assert f"not counted: the first {n_warmup_rows(y, 3)} rows" in done.err
    assert found["methods"][MAIN_METHOD]["scored"] == 400 - found["not_counted"]
    assert json.loads(run(*line, "--only", "PA", "--feature-map", "auto", "--delay", "1").out)[
        "methods"
    ][CUSTOM_METHOD]
    Path("models.py").write_text(
        "from sklearn.linear_model import SGDClassifier\n"
        "def steady():\n    return SGDClassifier(average=True, random_state=1)\n"
    )
    guests = [
        "models:steady",
        "sklearn.linear_model:Perceptron",
        "river.tree:HoeffdingTreeClassifier",
    ]
    found = json.loads(run(*line, "--only", "PA", *(w for g in guests for w in ("--with", g))).out)
    names = [
        MAIN_METHOD,
        "PA",
        "steady",
        "sklearn.linear_model:Perceptron",
        "HoeffdingTreeClassifier",
    ]
    assert list(found["methods"]) == names
    done = run(*line, "--with", "models:unknown", code=2)
    assert "--with: module 'models' has no class 'unknown'" in " ".join(done.err.split())
    for wrong in (["--only", "who"], ["--ridge", "x"]):
        run(*line, *wrong, code=2)
    done = run(*line, "--delay", "399", code=2)
    assert "no row can be counted; give more rows, or a smaller --delay" in done.err


def test_one_outlier_does_not_flatten_a_plot():
    values = np.r_[np.linspace(0.4, 0.6, 50), 80.0, np.nan]
    assert plots.usual_range(values) == (0.4, 0.6)
    assert plots.usual_range([np.nan]) == (0.0, 1.0)
    assert plots.usual_range([3.0, 3.0]) == (3.0, 3.0)


def test_precision_is_not_cut_where_recall_is_low():
    """Rare alerts are at low recall: their precision must be within the plot."""
    y = np.r_[np.ones(1000, int), np.zeros(9000, int)]
    scores = np.r_[np.full(50, 9.0), np.linspace(-1, 1, 950), np.linspace(-1, 1, 9000)]
    result = Result("NR-RLS", y, scores, 0, measure(y, y, scores, np.array([0, 1])), 0.0, None)
    axes = plots.plot_precision_recall([result], y, positive=1, k=1).axes[0]
    assert axes.get_ylim()[1] > 1.0
