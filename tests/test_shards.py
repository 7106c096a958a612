"""Files merged, forgotten, inspected, judged and exported by command line."""

import io
import json
import os
from pathlib import Path

import joblib
import numpy as np
import onnxruntime
import pandas as pd
import pytest
from samples import data_set, stream

from counterpoise import BalancedRidgeClassifier
from counterpoise.datasets import VARIABLE
from counterpoise.stored import stored_model

SETS = ["spambase", "ozone-eight", "cod-rna", "mushroom", "ijcnn1"]


def write(name, X, y, columns=None):
    columns = columns or [f"x{j}" for j in range(X.shape[1])]
    pd.DataFrame(X, columns=columns).assign(target=y).to_csv(name, index=False)


def learn(run, model, *files, more=()):
    run("learn", *files, "--label", "target", "-m", model, *more)


def assert_same_files(one, two, tolerance=1e-10):
    """Equal classes, counts and coefficients, feature by feature."""
    a, b = (BalancedRidgeClassifier.load(path) for path in (one, two))
    np.testing.assert_array_equal(a.classes_, b.classes_)
    np.testing.assert_allclose(a.class_count_, b.class_count_, rtol=1e-12)
    order = {name: j for j, name in enumerate(a.feature_names_in_)}
    at = [order[name] for name in b.feature_names_in_]
    distance = np.linalg.norm(a.coef_[:, at] - b.coef_) / np.linalg.norm(b.coef_)
    assert distance <= tolerance
    np.testing.assert_allclose(a.intercept_, b.intercept_, rtol=1e-8, atol=1e-8)
    rest = [j for j in range(len(order)) if j not in at]
    assert not a.coef_[:, rest].any()


@pytest.mark.parametrize("name", SETS)
def test_halves_merged_equal_the_whole_and_forgotten_files_were_never_learnt(run, name):
    X, y = data_set(name)
    X, y = X[:30_000], y[:30_000]
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    half, third = len(y) // 2, len(y) // 3
    write("whole.csv", X, y)
    write("one.csv", X[:half], y[:half])
    write("two.csv", X[half:], y[half:])
    for part in ("whole", "one", "two"):
        learn(run, f"{part}.st", f"{part}.csv")
    run("merge", "one.st", "two.st", "--output", "both.st")
    assert_same_files("both.st", "whole.st")
    assert list(stored_model("both.st").records) == ["one.csv", "two.csv"]
    for k in range(3):
        write(f"{k}.csv", X[k * third : (k + 1) * third], y[k * third : (k + 1) * third])
    learn(run, "three.st", "0.csv", "1.csv", "2.csv")
    learn(run, "apart.st", "0.csv", "2.csv")
    done = run("forget", "three.st", "1.csv")
    assert f"1.csv: {third:,} rows forgotten" in done.err
    assert_same_files("three.st", "apart.st", 1e-9)
    assert list(stored_model("three.st").records) == ["0.csv", "2.csv"]
    learn(run, "three.st", "1.csv")  # and it can be learnt again
    learn(run, "apart.st", "1.csv")
    assert_same_files("three.st", "apart.st", 1e-9)


def towns(names, rows, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "amount": rng.exponential(10, rows).round(3),
            "town": rng.choice(names, rows),
            "target": rng.choice(["n", "p"], rows, p=[0.8, 0.2]),
        }
    )


def test_merging_and_forgetting_with_categories_of_their_own(run):
    towns(["A", "B"], 200, 0).to_csv("one.csv", index=False)
    towns(["C", "B"], 150, 1).assign(extra=lambda f: f["amount"] ** 2).to_csv(
        "two.csv", index=False
    )
    learn(run, "one.st", "one.csv")
    learn(run, "two.st", "two.csv")
    learn(run, "whole.st", "one.csv", "two.csv")
    for pair in (["one.st", "two.st"], ["two.st", "one.st"]):
        run("merge", *pair, "-o", "both.st")
        assert_same_files("both.st", "whole.st")
    run("forget", "both.st", "two.csv")
    assert_same_files("both.st", "one.st", 1e-9)
    learn(run, "both.st", "two.csv")  # goes on learning after all that
    assert_same_files("both.st", "whole.st", 1e-9)


def test_an_overlap_is_refused_unless_allowed(run, tmp_path):
    towns(["A"], 100, 0).to_csv("one.csv", index=False)
    learn(run, "a.st", "one.csv")
    os.mkdir("sub")
    learn(run, "sub/b.st", "one.csv")
    done = run("merge", "a.st", "sub/b.st", "-o", "c.st", code=2)
    assert "one.csv was learnt by a.st and by sub/b.st; if its rows" in done.err
    assert not Path("c.st").exists()
    run("merge", "a.st", "sub/b.st", "-o", "sub/c.st", "--allow-overlap")
    assert list(stored_model("sub/c.st").records) == ["../one.csv"]
    assert BalancedRidgeClassifier.load("sub/c.st").class_count_.sum() == 200


def test_what_cannot_be_merged_or_forgotten_says_why(run):
    towns(["A"], 100, 0).to_csv("one.csv", index=False)
    towns(["A"], 100, 1).to_csv("two.csv", index=False)
    learn(run, "a.st", "one.csv")
    learn(run, "b.st", "two.csv", more=["--ridge", "0.5"])
    assert (
        "ridge is 0.0001 here and 0.5 there" in run("merge", "a.st", "b.st", "-o", "c", code=2).err
    )
    learn(run, "d.st", "two.csv", more=["--missing", "drop"])
    assert "different options of the columns" in run("merge", "a.st", "d.st", "-o", "c", code=2).err
    before = Path("a.st").read_bytes()
    assert "two.csv was never learnt" in run("forget", "a.st", "two.csv", code=2).err
    Path("one.csv").write_text(Path("one.csv").read_text().replace("1", "2", 1))
    assert "one.csv has changed" in run("forget", "a.st", "one.csv", code=2).err
    learn(run, "e.st", "two.csv", more=["--scale", "minmax"])
    assert "scale='minmax'" in run("forget", "e.st", "two.csv", code=2).err
    assert "No such file" in run("forget", "no.st", "two.csv", code=1).err
    assert Path("a.st").read_bytes() == before
    assert not [p for p in Path().iterdir() if p.name.endswith((".lock", ".tmp"))]


def test_rows_added_since_do_not_matter_to_forgetting(run):
    whole = towns(["A", "B"], 300, 0)
    whole[:200].to_csv("one.csv", index=False)
    towns(["A"], 100, 1).to_csv("two.csv", index=False)
    learn(run, "m.st", "one.csv", "two.csv", more=["--chunk-rows", "64"])
    whole.to_csv("one.csv", index=False)
    assert "200 rows forgotten" in run("forget", "m.st", "one.csv").err
    learn(run, "n.st", "two.csv", more=["--chunk-rows", "64"])
    assert_same_files("m.st", "n.st", 1e-9)


def test_everything_forgotten_leaves_a_model_that_can_learn(run):
    towns(["A", "B"], 100, 0).to_csv("one.csv", index=False)
    learn(run, "m.st", "one.csv")
    run("forget", "m.st", "one.csv")
    learn(run, "m.st", "one.csv")
    learn(run, "n.st", "one.csv")
    assert_same_files("m.st", "n.st", 1e-12)


# Looking


def test_inspect_shows_what_is_there(run):
    towns(["A", "B"], 100, 0).to_csv("one.csv", index=False)
    learn(run, "m.st", "one.csv", more=["--cost", "p=2"])
    out = run("inspect", "m.st").out
    for text in (
        "costs\tp=2.0",
        "learnt from\trows",
        "one.csv\t100\t0",
        "town=A",
        "condition number",
    ):
        assert text in out
    found = json.loads(run("inspect", "m.st", "--json").out)
    model = BalancedRidgeClassifier.load("m.st")
    assert found["classes"] == dict(zip(model.classes_, model.class_count_, strict=True))
    frame = pd.read_csv("one.csv")
    assert found["weights"]["amount"][0] == pytest.approx(
        model.coef_[0, model.feature_names_in_.tolist().index("amount")]
        * frame["amount"].std(ddof=0)
    )
    assert found["inputs"]["one.csv"]["rows"] == 100


def test_evaluate_equals_python(run):
    X, y = stream(500, d=3)
    write("one.csv", X[:300], y[:300])
    write("two.csv", X[300:], y[300:])
    learn(run, "m.st", "one.csv")
    found = json.loads(run("evaluate", "m.st", "two.csv", "--json").out)
    model = BalancedRidgeClassifier().fit(X[:300], y[:300])
    guess = model.predict(X[300:])
    assert found["recall"]["1"] == pytest.approx((guess[y[300:] == 1] == 1).mean())
    assert found["confusion"]["0"]["0"] == ((guess == 0) & (y[300:] == 0)).sum()
    out = run("evaluate", "m.st", "two.csv").out
    assert f"G-mean\t{found['g_mean']:.6g}" in out
    write("three.csv", X[300:][y[300:] == 0], y[300:][y[300:] == 0])
    done = run("evaluate", "m.st", "three.csv")
    assert "G-mean\tundefined" in done.out
    assert "g_mean is undefined: only 0 is in the data" in done.err
    pd.read_csv("two.csv").drop(columns="target").to_csv("four.csv", index=False)
    assert (
        "has no column 'target', which holds the labels"
        in run("evaluate", "m.st", "four.csv", code=2).err
    )


# Exports


def predictions(run, model, file):
    table = pd.read_csv(io.StringIO(run("predict", model, file).out))
    return table["predicted"].to_numpy(), table.filter(like="score").to_numpy()


def onnx_outputs(path, frame):
    session = onnxruntime.InferenceSession(path)
    names = json.loads(session.get_modelmeta().custom_metadata_map["columns"])
    feed = {
        name: frame[[c]].to_numpy().astype(float if frame[c].dtype.kind in "if" else object)
        for c, name in names.items()
    }
    label, score = session.run(None, feed)
    assert score.dtype == np.float64
    return label, score


def assert_exports_agree(run, file):
    frame = pd.read_csv(file)
    labels, scores = predictions(run, "m.st", file)
    run("export", "m.st", "-o", "m.onnx")
    label, score = onnx_outputs("m.onnx", frame)
    np.testing.assert_array_equal(label, labels)
    np.testing.assert_allclose(score, scores, rtol=1e-9, atol=1e-9)
    run("export", "m.st", "-o", "m.joblib")
    pipeline = joblib.load("m.joblib")
    np.testing.assert_array_equal(pipeline.predict(frame), labels)
    found = pipeline.decision_function(frame).reshape(len(frame), -1)
    np.testing.assert_allclose(found, scores, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", SETS)
def test_exports_agree_with_predict_on_public_sets(run, name):
    data_set(name)
    file = Path(os.environ[VARIABLE]) / f"{name}.csv.gz"
    learn(run, "m.st", file)
    assert_exports_agree(run, file)


@pytest.mark.parametrize("classes", [["n", "p"], [0, 1], ["a", "b", "c"]])
def test_exports_know_categories_and_classes(run, classes):
    frame = towns(["A", "B", "ü"], 200, 0)
    frame["odd name#"] = np.arange(200) % 7
    frame["target"] = np.random.default_rng(0).choice(classes, 200)
    frame.to_csv("one.csv", index=False)
    learn(run, "m.st", "one.csv")
    frame.loc[:5, "town"] = "never seen"
    frame.to_csv("two.csv", index=False)
    assert_exports_agree(run, "two.csv")
    found = json.loads(run("export", "m.st").out)
    model = BalancedRidgeClassifier.load("m.st")
    assert found["classes"] == model.classes_.tolist()
    assert [f["name"] for f in found["features"]] == model.feature_names_in_.tolist()
    np.testing.assert_array_equal([f["weights"] for f in found["features"]], model.coef_.T)


def test_what_cannot_be_exported_says_so(run):
    towns(["A", "B"], 50, 0).to_csv("one.csv", index=False)
    learn(run, "m.st", "one.csv", more=["--hash", "town=4"])
    done = run("export", "m.st", "-o", "m.onnx", code=2)
    assert "export the coefficients with --to json instead" in done.err
    assert json.loads(run("export", "m.st").out)["hashed"]["buckets"] == {"town": 4}
    assert "say json, onnx or sklearn" in run("export", "m.st", "-o", "m.pdf", code=2).err
