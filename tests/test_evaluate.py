"""Metrics against those that nobody here wrote; races, plots and the report."""

import html.parser
import io
import json
import re
import shutil
import subprocess

import numpy as np
import pytest
from imblearn.metrics import geometric_mean_score
from samples import stream
from sklearn import metrics as theirs

from counterpoise import BalancedRidgeClassifier, online
from counterpoise.evaluate import plots
from counterpoise.evaluate.metrics import measure
from counterpoise.evaluate.race import OURS, RIVALS, SLOW, race, standardised, winner
from counterpoise.evaluate.report import page
from counterpoise.evaluate.stream import made_up


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


def test_what_is_undefined_says_why():
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
    Z = standardised(X)
    for t in (1, 2, 10, 49):
        with np.errstate(divide="ignore", invalid="ignore"):
            expected = (X[t] - X[:t].mean(axis=0)) / X[:t].std(axis=0)
        known = X[:t].std(axis=0) > 0
        np.testing.assert_allclose(Z[t][known], np.clip(expected[known], -10, 10), rtol=1e-9)
        assert not Z[t][~known].any()
    assert not Z[0].any()


@pytest.mark.parametrize("delay", [0, 7])
def test_a_race_is_test_then_train(delay):
    X, y = stream(300, d=4)
    results = {result.name: result for result in race(X, y, delay)}
    assert list(results) == [OURS, *RIVALS]
    model = BalancedRidgeClassifier()
    expected = model.progressive_scores(X, y, delay=delay, classes=[0, 1])
    np.testing.assert_array_equal(results[OURS].scores, expected)
    t = 200
    refit = BalancedRidgeClassifier().fit(X[: t - delay], y[: t - delay])
    assert results[OURS].scores[t] == pytest.approx(
        refit.decision_function(X[t : t + 1])[0], rel=1e-8
    )
    arow = online.AROW()
    scores = arow.progressive_scores(standardised(X), y, delay=delay, classes=[0, 1])
    np.testing.assert_array_equal(results["AROW"].scores, scores)


def test_a_race_of_three_classes_is_one_against_the_rest():
    X, y = stream(200, d=3, classes=3, minority=0.2)
    results = list(race(X, np.array(["a", "b", "c"])[y]))
    for result in results:
        assert result.scores.shape == (200, 3)
        assert set(result.predicted) <= {"a", "b", "c"}
    assert winner(results).metrics.confusion.g_mean() > 0.3


def test_who_is_slow_is_left_out_of_long_races(monkeypatch):
    X, y = stream(60, d=2)
    monkeypatch.setattr("counterpoise.evaluate.race.MANY", 50)
    assert SLOW not in {result.name for result in race(X, y)}
    assert SLOW in {result.name for result in race(X, y, everybody=True)}


def test_running_g_mean_is_that_of_the_first_rows():
    y = np.array([0, 0, 1, 1, 0, 1])
    guess = np.array([0, 1, 1, 0, 0, 1])
    at, value = plots.running_g_mean(y, guess)
    for t, g in zip(at, value, strict=True):
        if len(set(y[:t])) == 2:
            assert g == pytest.approx(geometric_mean_score(y[:t], guess[:t]))
        else:
            assert np.isnan(g)


def test_every_method_has_a_style_of_its_own():
    names = [OURS, *RIVALS]
    styles = {json.dumps(plots.style(name), sort_keys=True, default=str) for name in names}
    assert len(styles) == len(names)


class _Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


@pytest.fixture(scope="module")
def report():
    X, y, names = made_up(1500)
    results = list(race(X, y))
    return page("A <race>", results, y, names, "fraud", 0)


def test_the_report_needs_nothing_else(report):
    tags = _Page(report).found
    images = [a for tag, a in tags if tag == "img"]
    assert len(images) == 6
    assert all(a["src"].startswith("data:image/svg+xml;base64,") for a in images)
    assert all(a["alt"] for a in images)
    assert sum(tag == "figcaption" for tag, _ in tags) == 6
    assert not [tag for tag, _ in tags if tag == "script"]
    assert "http" not in re.sub(r"base64,[^\"]*", "", report)
    assert "A &lt;race&gt;" in report


def test_the_same_race_gives_the_same_figures():
    _, y, _ = made_up(500)
    one, two = (plots.svg(plots.class_shares(y)) for _ in range(2))
    assert one == two


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
@pytest.mark.parametrize("width", [1280, 400])
def test_the_report_in_a_browser(report, tmp_path, width):
    """No console error, nothing wider than the page, every figure drawn and large enough."""
    look = """
      const wide = document.documentElement.scrollWidth;
      const figures = [...document.querySelectorAll('img')].map(
        i => [i.complete && i.naturalWidth, i.getBoundingClientRect().width]);
      parent.postMessage({wide, figures}, '*');"""
    (tmp_path / "race.html").write_text(
        report.replace("</body>", f"<script>onload = () => {{{look}}}</script></body>")
    )
    outer = f"""<!DOCTYPE html><iframe src="race.html" width="{width}" height="900"></iframe>
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
    assert len(seen["figures"]) == 6
    for drawn, across in seen["figures"]:
        assert drawn
        assert across > 0.85 * min(width, 480)


def test_tables_are_tab_separated_in_a_pipe(run):
    import pandas as pd

    done = run("race", "--demo", "--report", "race.html")
    table = pd.read_csv(io.StringIO(done.out), sep="\t")
    assert table["method"].tolist()[0] == OURS
    assert "counterpoise: report: race.html" in done.err
    assert table["G-mean"].astype(float).idxmax() == 0
    found = json.loads(run("race", "--demo", "--json", "--delay", "100").out)
    assert found["delay"] == 100
    assert set(found["methods"]) == set(table["method"])
