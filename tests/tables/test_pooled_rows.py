"""Quadratic models by command line: stored in files, merged, unlearned, inspected, evaluated."""

import io
import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from builders import learn

from counterpoise import AutoClassifier, BalancedRidgeClassifier
from counterpoise.errors import ModelFileError
from counterpoise.solver.score_functions import one_vs_rest_log_odds

POOLED = ("--pooled-rows", "15")


def table(rows, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    X = rng.standard_normal((rows, 3)) * (1.0 + y[:, None]) + rng.random((classes, 3))[y]
    return pd.DataFrame(X.round(6), columns=["a", "b", "c"]).assign(target=y)


def scores(run, model, file="one.csv"):
    return pd.read_csv(io.StringIO(run("predict", model, file).out)).filter(like="score").to_numpy()


@pytest.fixture
def files(run):
    for seed, name in enumerate(["one.csv", "two.csv"]):
        table(200, seed=seed).to_csv(name, index=False)


@pytest.mark.slow
def test_the_options_are_saved_in_the_model(run, files):
    learn(run, "m.st", "one.csv", more=["--pooled-rows", "15", "--ridge", "gcv"])
    model = BalancedRidgeClassifier.load("m.st")
    assert (model.pooled_rows, model.ridge, model.multi_class) == (15.0, "gcv", "lda")
    X, y = table(200)[["a", "b", "c"]].to_numpy(), table(200)["target"].to_numpy()
    expected = BalancedRidgeClassifier(pooled_rows=15, ridge="gcv").fit(X, y).decision_function(X)
    np.testing.assert_allclose(scores(run, "m.st"), expected, rtol=1e-9)
    before = Path("m.st").read_bytes()
    for option, value, stored in (
        ("--pooled-rows", "3", "3, but m.st was learned with 15"),
        ("--pooled-rows", "none", "none, but m.st was learned with 15"),
        ("--ridge", "auto", "auto, but m.st was learned with gcv"),
        ("--multi-class", "ovr", "ovr, but m.st was learned with lda"),
    ):
        done = run("learn", "two.csv", "-m", "m.st", option, value, code=2)
        assert f"{option} is {stored}" in done.err
    assert Path("m.st").read_bytes() == before
    run("learn", "two.csv", "-m", "m.st", "--pooled-rows", "15")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--pooled-rows", "-1"], "--pooled-rows must be 0 or more, or none; got '-1'"),
        (["--pooled-rows", "inf"], "--pooled-rows must be 0 or more, or none; got 'inf'"),
        (["--pooled-rows", "nan"], "--pooled-rows must be 0 or more, or none; got 'nan'"),
        (["--pooled-rows", "many"], "--pooled-rows must be 0 or more, or none; got 'many'"),
        (
            ["--pooled-rows", "1", "--multi-class", "ovr"],
            "cannot be combined with --multi-class ovr",
        ),
        (["--pooled-rows", "1", "--intercept", "none"], "cannot be combined with --intercept none"),
        (["--multi-class", "all"], "--multi-class must be lda or ovr; got 'all'"),
        (["--ridge", "small"], "--ridge must be 0 or more, auto or gcv; got 'small'"),
        (["--pooled-rows", "1", "--feature-map", "auto"], "leave --pooled-rows out"),
        (["--multi-class", "ovr", "--feature-map", "auto"], "leave --multi-class out"),
    ],
)
def test_impossible_options_are_refused(run, files, more, message):
    done = run("learn", "one.csv", "--label", "target", "-m", "m.st", *more, code=2)
    assert message in " ".join(done.err.split())


@pytest.mark.parametrize("pooled_rows", [-1.0, True, "many", float("inf"), float("nan")])
def test_files_with_impossible_pooling_are_refused(pooled_rows):
    X, y = table(50)[["a", "b", "c"]].to_numpy(), table(50)["target"].to_numpy()
    contents = BalancedRidgeClassifier(pooled_rows=2.0).fit(X, y)._contents()
    assert BalancedRidgeClassifier._from_contents(contents).pooled_rows == 2.0
    contents.options["pooled_rows"] = pooled_rows
    with pytest.raises(ModelFileError, match="pooled_rows"):
        BalancedRidgeClassifier._from_contents(contents)


@pytest.mark.slow
def test_merged_and_unlearned_models_equal_a_fit_of_their_rows(run, files):
    learn(run, "both.st", "one.csv", "two.csv", more=POOLED)
    learn(run, "one.st", "one.csv", more=POOLED)
    learn(run, "two.st", "two.csv", more=POOLED)
    run("merge", "one.st", "two.st", "-o", "merged.st")
    np.testing.assert_allclose(scores(run, "merged.st"), scores(run, "both.st"), rtol=1e-9)
    run("unlearn", "both.st", "two.csv")
    np.testing.assert_allclose(scores(run, "both.st"), scores(run, "one.st"), rtol=1e-8)
    learn(run, "other.st", "two.csv", more=["--pooled-rows", "3"])
    done = run("merge", "one.st", "other.st", "-o", "x.st", code=2)
    assert "pooled_rows is 15.0 here and 3.0 there" in done.err


@pytest.mark.parametrize("classes", [2, 3])
def test_inspect_shows_means_and_deviations(run, classes):
    rows = table(300, classes)
    rows.to_csv("one.csv", index=False)
    learn(run, "m.st", "one.csv", more=POOLED)
    found = json.loads(run("inspect", "m.st", "--json").out)
    assert found["weights"] is None
    assert found["options"]["pooled_rows"] == 15.0
    assert found["condition"] >= 1.0
    groups = rows.groupby("target")
    for name, one in found["densities"].items():
        np.testing.assert_allclose(one["mean"], groups[name].mean(), rtol=1e-12)
        np.testing.assert_allclose(one["deviation"], groups[name].std(ddof=0), rtol=1e-12)
    shown = run("inspect", "m.st", "-q").out
    assert "pooled_rows\t15" in shown
    assert "multi_class\tlda" in shown
    heads = [f"{what} of {k}" for k in range(classes) for what in ("mean", "std. deviation")]
    assert "\t".join(["feature", *heads]) in shown


@pytest.mark.slow
@pytest.mark.parametrize("classes", [2, 3])
def test_quadratic_models_are_evaluated_and_compared(run, classes):
    table(300, classes).to_csv("one.csv", index=False)
    learn(run, "m.st", "one.csv", more=POOLED)
    run("evaluate", "m.st", "one.csv", "--report", "e.html")
    assert "Largest weights" not in Path("e.html").read_text()
    run("benchmark", "one.csv", "--label", "target", "--pooled-rows", "15", "--only", "PA",
        "--report", "r.html")  # fmt: skip
    run("benchmark", "one.csv", "--label", "target", "--multi-class", "ovr", "--only", "PA")


def test_rows_are_ranked_by_the_odds_of_a_class_and_not_by_its_density(run):
    rows = table(300)
    rows.to_csv("one.csv", index=False)
    learn(run, "m.st", "one.csv", more=POOLED)
    model = BalancedRidgeClassifier.load("m.st")
    found = json.loads(run("evaluate", "m.st", "one.csv", "--json").out)["by_class"]
    from sklearn.metrics import roc_auc_score

    p = model.predict_proba(rows[["a", "b", "c"]].to_numpy())
    for k in range(3):
        auc = roc_auc_score(rows["target"] == k, p[:, k])
        assert found[str(k)]["roc_auc"] == pytest.approx(auc, abs=1e-3)  # ties where p rounds to 1


def test_odds_against_the_rest_are_finite_and_keep_their_digits():
    f = np.array([[0.0, -1000.0, -2000.0], [0.0, -np.inf, 1.0], [-np.inf, 5.0, -np.inf]])
    odds = one_vs_rest_log_odds(f)
    assert np.isfinite(odds).all()
    np.testing.assert_allclose(odds[0], [1000.0, -1000.0, -2000.0])
    np.testing.assert_allclose(odds[1, [0, 2]], [-1.0, 1.0])
    np.testing.assert_array_equal(odds.argmax(axis=1), f.argmax(axis=1))


@pytest.mark.slow
def test_averaging_models_may_have_quadratic_boundaries(run):
    rng = np.random.default_rng(0)
    shapes = rng.standard_normal((2, 8, 8))
    for name in ("one.csv", "two.csv"):
        y = rng.integers(0, 2, 400)
        X = np.einsum("ij,ijk->ik", rng.standard_normal((400, 8)), shapes[y])
        pd.DataFrame(X.round(6), columns=list("abcdefgh")).assign(target=y).to_csv(
            name, index=False
        )
    done = learn(run, "auto.st", "one.csv", more=["--feature-map", "auto", "--positive", "1"])
    found = json.loads(run("inspect", "auto.st", "--json").out)
    assert f"; best is pooled_rows=10 with ridge {found['ridge']:g}" in done.err
    assert found["shares"]["pooled_rows=10"] == max(found["shares"].values())
    assert found["candidates"]["pooled_rows=10"][1] == found["ridge"]
    assert found["weights"] is None
    assert set(found["densities"]) == set("abcdefgh")
    assert "pooled_rows=10" in run("inspect", "auto.st").out
    table = pd.read_csv("one.csv")
    X, y = table[list("abcdefgh")].to_numpy(), table["target"].to_numpy()
    expected = AutoClassifier().partial_fit(X, y).decision_function(X)  # the average of all
    np.testing.assert_allclose(scores(run, "auto.st").ravel(), expected, rtol=1e-9, atol=1e-12)
    learn(run, "exact.st", "two.csv", more=["--feature-map", "auto.st"])
    exact = BalancedRidgeClassifier.load("exact.st")
    assert (exact.pooled_rows, exact.ridge, exact.feature_map) == (10.0, "auto", None)


@pytest.mark.slow
def test_a_sorted_file_causes_a_warning_with_its_column(run):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.standard_normal((1500, 2)).round(6), columns=["amount", "age"])
    table["target"] = (table["amount"] > 0).astype(int)
    table.to_csv("shuffled.csv", index=False)
    table.sort_values("age").to_csv("sorted.csv", index=False)
    for name in ("shuffled", "sorted"):
        with warnings.catch_warnings():
            warnings.simplefilter("always")  # the command prints them
            done = learn(run, f"{name}.st", f"{name}.csv", more=["--feature-map", "auto"])
        found = done.err.count("warning: feature 'age': "), done.err.count("far from the first")
        assert found == ((1, 1) if name == "sorted" else (0, 0))
