"""Models for others: whatever is exported predicts as the model does, row by row."""

import io
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from builders import data_set, learn, stream
from paper.datasets import VARIABLE
from sklearn import datasets

from counterpoise import AutoClassifier, BalancedRidgeClassifier
from counterpoise.estimators.auto import wrap_engine
from counterpoise.export.onnx import build_graph
from counterpoise.export.sklearn_pipeline import build_pipeline
from counterpoise.tables.model import TableModel

SETS = ["spambase", "ozone-eight", "cod-rna", "mushroom", "ijcnn1"]
MAPS = [
    "linear",
    "poly2",
    "rm2",
    "rff:100",
    "rm2+rff:50",
    "hinges+ranks",
    "landmarks:30",
    "hinges+steps:30",
]  # choosers: see below


def read_predictions(run, file):
    """Return the output of predict for every row."""
    return pd.read_csv(io.StringIO(run("predict", "m.st", file).out), keep_default_na=True)


def scores_in(table):
    """Scores as exports give them: of two classes that of the second, not of the positive one."""
    scores = table.filter(like="score").to_numpy()
    second = table.filter(like="proba_balanced_").to_numpy()[:, 1:]
    return np.abs(scores) * np.sign(second - 0.5) if scores.shape[1] == 1 else scores


def assert_odds(table, found):
    """Compare both probabilities, balanced and of the stream, with the output of predict.

    Odds of e^50 are at the limit of rounding: probabilities near 1 may differ by 1e-12.
    """
    for kind, p in zip(("proba_balanced_", "proba_stream_"), found, strict=True):
        own = table[[c for c in table.columns if c.startswith(kind)]].to_numpy()
        np.testing.assert_allclose(p, own, rtol=1e-7, atol=1e-12)


def onnx_outputs(frame):
    """Labels and scores of m.onnx; what is missing is NaN, or no text."""
    onnx.checker.check_model("m.onnx", full_check=True)
    inferred = onnx.shape_inference.infer_shapes(onnx.load("m.onnx")).graph
    types = {value.type.tensor_type.elem_type for value in inferred.value_info}
    types |= {tensor.data_type for tensor in inferred.initializer}
    assert onnx.TensorProto.FLOAT not in types  # nothing is rounded to single precision
    session = onnxruntime.InferenceSession("m.onnx", providers=["CPUExecutionProvider"])
    kinds = {entry.name: entry.type for entry in session.get_inputs()}
    names = json.loads(session.get_modelmeta().custom_metadata_map["columns"])
    feed = {}
    for column, name in names.items():
        cells = frame[[column]]
        if kinds[name] == "tensor(string)":
            feed[name] = cells.astype(object).fillna("").astype(str).to_numpy(dtype=object)
        else:
            feed[name] = cells.to_numpy(dtype=float)
    label, score, *odds = session.run(
        ["prediction", "score", "proba_balanced", "proba_stream"], feed
    )
    assert {score.dtype, *(p.dtype for p in odds)} == {np.dtype(float)}
    return label, score, odds


def assert_onnx_agrees(run, file, frame=None):
    """Compare the output of ONNX with that of predict, and return the latter."""
    table = read_predictions(run, file)
    labels, scores = table["prediction"].to_numpy(), scores_in(table)
    run("export", "m.st", "-o", "m.onnx")
    label, score, odds = onnx_outputs(pd.read_csv(file) if frame is None else frame)
    assert_odds(table, odds)
    kept = ~np.isnan(scores).any(axis=1)
    assert kept.any()
    np.testing.assert_array_equal(label[kept], labels[kept])
    np.testing.assert_allclose(score, scores, rtol=1e-9, atol=1e-9)
    return table


def assert_exports_agree(run, file, types=None):
    frame = pd.read_csv(file, dtype=types)
    table = assert_onnx_agrees(run, file, frame)
    scores = scores_in(table)
    run("export", "m.st", "-o", "m.joblib")
    pipeline = joblib.load("m.joblib")
    np.testing.assert_array_equal(pipeline.predict(frame), table["prediction"])
    found = pipeline.decision_function(frame).reshape(len(frame), -1)
    np.testing.assert_allclose(found, scores, rtol=1e-9, atol=1e-9)
    assert_odds(table, [pipeline.predict_proba(frame), pipeline.predict_stream_proba(frame)])
    assert_odds(table, by_hand(json.loads(run("export", "m.st").out)["probabilities"], scores))


def by_hand(exported, f):
    """Compute both probabilities of scores with the numbers of the JSON."""
    g = np.hstack([-f / 2, f / 2]) if f.shape[1] == 1 else np.nan_to_num(f, neginf=0.0)
    found = []
    for kind in ("balanced", "stream"):
        one = exported[kind]
        shift = np.array([-np.inf if v is None else v for v in one["shift"]])
        z = one["slope"] * g + shift
        p = np.exp(z - z.max(axis=1, keepdims=True))
        p = (1 - exported["silent"]) * p / p.sum(axis=1, keepdims=True)
        found.append(p + exported["silent"] * np.array(one["base"]))
    if "curves" not in exported:
        return found
    p = found[1]
    q = np.zeros_like(p)
    for k, curve in enumerate(exported["curves"]):
        rest = p[:, 1 - k] if p.shape[1] == 2 else p.sum(axis=1) - p[:, k]
        with np.errstate(divide="ignore"):
            logit = np.clip(np.log(p[:, k]) - np.log(np.maximum(rest, 0)), -50, 50)
        at, z = np.array(curve["at"]), np.array(curve["z"])
        beyond = np.minimum(logit - at[0], 0) + np.maximum(logit - at[-1], 0)
        q[:, k] = 1 / (1 + np.exp(-(np.interp(logit, at, z) + exported["flat"] * beyond)))
    if p.shape[1] == 2:
        q[:, 0] = 1 - q[:, 1]
    found[1] = q / q.sum(axis=1, keepdims=True)
    return found


def load_bundled_set(name):
    """At most 300 rows and 8 features of one of scikit-learn's own sets."""
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    if name == "diabetes":
        y = np.where(y > 200, "ill", "well")
    some = np.random.default_rng(0).permutation(len(y))[:300]
    return X[some][:, X.std(axis=0) > 0][:, -8:], y[some]


@pytest.mark.slow
@pytest.mark.parametrize("features", MAPS)
@pytest.mark.parametrize("name", ["iris", "wine", "digits", "diabetes", "breast_cancer"])
def test_exports_agree_with_predict_for_every_map(run, name, features):
    X, y = load_bundled_set(name)
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    table.assign(target=y).to_csv("all.csv", index=False)
    learn(run, "m.st", "all.csv", more=[] if features == "linear" else ["--feature-map", features])
    assert_exports_agree(run, "all.csv")


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_exports_agree_with_predict_on_public_sets(run, name):
    data_set(name)
    file = Path(os.environ[VARIABLE]) / f"{name}.csv.gz"
    learn(run, "m.st", file)
    assert_exports_agree(run, file)


@pytest.mark.slow
@pytest.mark.parametrize(
    "features",
    [
        "linear",
        "interactions3",
        "poly3",
        "rm3",
        "rff:20+rm1",
        "hinges5",
        "ranks",
        "steps:9",
        "landmarks:9",
    ],
)
def test_far_from_zero_no_digit_is_lost(run, features):
    X, y = stream(400, d=3)
    X = X / X.std(axis=0) + 1.7e9  # a time stamp, where a double has seven digits left
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(target=y)
    table.to_csv("far.csv", index=False)
    learn(run, "m.st", "far.csv", more=[] if features == "linear" else ["--feature-map", features])
    if features == "linear":
        model = BalancedRidgeClassifier.load("m.st")
        plain = X @ model.coef_.T + model.intercept_
        assert np.abs(plain - scores_in(read_predictions(run, "far.csv"))).max() > 1e-8
    assert_exports_agree(run, "far.csv")


# Columns


def towns(names, rows, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "amount": rng.exponential(10, rows).round(3),
            "town": rng.choice(names, rows),
            "target": rng.choice(["n", "p"], rows, p=[0.8, 0.2]),
        }
    )


@pytest.mark.slow
@pytest.mark.parametrize("classes", [["n", "p"], [0, 1], ["a", "b", "c"], [-1, 5, 7]])
@pytest.mark.parametrize("features", ["linear", "rm2"])
def test_exports_know_categories_and_classes(run, classes, features):
    frame = towns(["A", "B", "ü"], 300, 0)
    frame["odd name#"] = np.arange(300) % 7
    frame["target"] = np.random.default_rng(0).choice(classes, 300)
    frame.to_csv("one.csv", index=False)
    learn(run, "m.st", "one.csv", more=[] if features == "linear" else ["--feature-map", features])
    frame.loc[:5, "town"] = "never seen"
    frame.to_csv("two.csv", index=False)
    assert_exports_agree(run, "two.csv")
    found = json.loads(run("export", "m.st").out)
    model = BalancedRidgeClassifier.load("m.st")
    assert found["classes"] == model.classes_.tolist()
    assert [f["name"] for f in found["features"]] == model.feature_names_in_.tolist()
    weights = found["features"] if features == "linear" else found["map"]["terms"]
    np.testing.assert_array_equal([f["weights"] for f in weights], model.coef_.T)


@pytest.mark.slow
@pytest.mark.parametrize("features", ["linear", "rm2", "auto"])
@pytest.mark.parametrize("missing", ["mean", "indicate", "drop"])
@pytest.mark.parametrize("classes", [["n", "p"], ["a", "b", "c"]])
def test_exports_know_columns_with_many_categories(run, features, missing, classes):
    rng = np.random.default_rng(0)
    names = ["ü", " a b ", "0", "07", "7", *(f"shop {i}" for i in range(60))]
    frame = towns(names, 600, 0).assign(device=rng.choice(list("abcdefgh"), 600))
    frame["kind"] = rng.choice(["u", "v"], 600)
    frame["target"] = rng.choice(classes, 600)
    frame.loc[rng.random(600) < 0.1, "town"] = None
    if missing != "drop":
        frame.loc[rng.random(600) < 0.1, "device"] = None
    frame[:500].to_csv("one.csv", index=False)
    more = ["--many", "town,device=3", "--missing", missing, "--calibrate"]
    learn(
        run,
        "m.st",
        "one.csv",
        more=more + ([] if features == "linear" else ["--feature-map", features]),
    )
    frame.loc[500:520, "town"] = "never seen"
    frame.loc[500:].to_csv("two.csv", index=False)
    numbers = pd.read_csv("two.csv", dtype={"town": str})
    scores = scores_in(assert_onnx_agrees(run, "two.csv", numbers))
    assert np.isnan(scores).any() == (missing == "drop")
    if missing == "drop":
        frame = frame[frame["town"].notna()]
    frame.loc[500:].to_csv("two.csv", index=False)
    assert_exports_agree(run, "two.csv", {"town": str})
    if features == "linear":
        exported = json.loads(run("export", "m.st").out)
        assert list(exported["categories"]) == ["town", "device"]
        seen = frame["town"].loc[:499].dropna().unique()
        assert set(exported["categories"]["town"]) == set(seen)
        assert_scores_by_hand(exported, pd.read_csv("two.csv", dtype={"town": str}), run)


def assert_scores_by_hand(exported, frame, run):
    """Compare the scores of predict with those of the coefficients and effects of the JSON."""
    f = np.zeros((len(frame), len(exported["intercept"]))) + exported["intercept"]
    for one in exported["features"]:
        cells = frame[one["column"]]
        x = cells.isna() if one["kind"] == "missing" else cells == one["value"]
        x = cells.fillna(one.get("blank", 0.0)) if one["kind"] == "number" else x
        f += x.to_numpy(dtype=float)[:, None] * one["weights"]
    for column, effects in exported["categories"].items():
        f += [effects.get(cell, np.zeros(f.shape[1])) for cell in frame[column]]
    scores = scores_in(read_predictions(run, "two.csv"))
    np.testing.assert_allclose(f, scores, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("features", ["linear", "interactions"])
@pytest.mark.parametrize("seed", ["0", "4294967295"])
def test_onnx_knows_hashed_columns(run, features, seed):
    names = ["Zürich", "x", "", "a longer name", *map(str, range(40))]
    table = towns(names, 400, 0)
    table.to_csv("one.csv", index=False)
    more = ["--hash", "town=16", "--seed", seed, "--missing", "indicate"]
    learn(
        run,
        "m.st",
        "one.csv",
        more=more + ([] if features == "linear" else ["--feature-map", features]),
    )
    towns([*names, "never seen", "東京"], 200, 1).to_csv("two.csv", index=False)
    assert_onnx_agrees(run, "two.csv", pd.read_csv("two.csv", dtype={"town": str}))


@pytest.mark.slow
@pytest.mark.parametrize("features", ["linear", "rm2", "rff:20"])
@pytest.mark.parametrize("missing", ["mean", "indicate", "drop"])
def test_onnx_knows_missing_values(run, features, missing):
    rng = np.random.default_rng(0)
    frame = towns(["A", "B"], 400, 0).assign(age=rng.integers(18, 90, 400), late=1.5)
    frame["code"], frame["never"] = rng.choice(["u", "v"], 400), rng.normal(size=400)
    for column in ("amount", "town", "age", "code"):
        frame.loc[rng.random(400) < 0.1, column] = None
    frame["nothing"] = None
    frame[:300].to_csv("one.csv", index=False)
    more = ["--missing", missing, *(["--drop", "nothing"] if missing == "drop" else [])]
    learn(
        run,
        "m.st",
        "one.csv",
        more=more + ([] if features == "linear" else ["--feature-map", features]),
    )
    frame.loc[310:330, "never"] = None  # was never missing while the model learned
    frame[300:].to_csv("two.csv", index=False)
    scores = scores_in(assert_onnx_agrees(run, "two.csv"))
    assert np.isnan(scores).any() == (missing == "drop")


@pytest.mark.slow
@pytest.mark.parametrize("features", ["linear", "rff:20"])
@pytest.mark.parametrize("missing", ["mean", "indicate", "drop"])
def test_exports_know_dates_and_gaps(run, features, missing):
    rng = np.random.default_rng(0)
    frame = towns(["A", "B"], 500, 0)
    days = rng.integers(-9_000 * 86_400, 19_000 * 86_400, (500, 2))  # before 1970, too
    frame["born"], frame["never"] = (pd.to_datetime(column, unit="s") for column in days.T)
    for column in ("amount", "town", "born"):
        frame.loc[rng.random(500) < 0.1, column] = None
    frame.loc[450:460, "never"] = None  # was never missing while the model learned
    frame[:400].to_csv("one.csv", index=False)
    frame[400:].to_csv("two.csv", index=False)
    more = ["--missing", missing, "--hash", "town=4"]
    learn(
        run,
        "m.st",
        "one.csv",
        more=more + ([] if features == "linear" else ["--feature-map", features]),
    )
    numbers = pd.read_csv("two.csv")
    for column in ("born", "never"):
        at = pd.to_datetime(numbers[column])
        numbers[column] = (at - pd.Timestamp(0)) / pd.Timedelta(seconds=1)
    table = assert_onnx_agrees(run, "two.csv", numbers)
    run("export", "m.st", "-o", "m.joblib")
    pipeline, exported = joblib.load("m.joblib"), pd.read_csv("two.csv").drop(columns="target")
    labels, scores = table["prediction"].to_numpy(), scores_in(table)
    if missing == "drop":
        with pytest.raises(ValueError, match="no value in column"):
            pipeline.predict(exported)
        whole = exported.notna().all(axis=1).to_numpy()
        exported, labels, scores = exported[whole], labels[whole], scores[whole]
    np.testing.assert_array_equal(pipeline.predict(exported), labels)
    np.testing.assert_allclose(pipeline.decision_function(exported), scores.ravel(), rtol=1e-9)
    assert pipeline.predict_proba(exported).shape == pipeline.predict_stream_proba(exported).shape


@pytest.mark.slow
def test_an_empty_text_that_was_learned_is_a_category(run):
    rows = [{"town": town, "target": int(i % 3 == 0)} for i, town in enumerate(["A", "", "B"] * 30)]
    Path("one.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    learn(run, "m.st", "one.jsonl")
    assert_onnx_agrees(run, "one.jsonl", pd.DataFrame(rows))


@pytest.mark.slow
def test_a_class_that_is_all_unlearned_is_never_predicted(run):
    X, y = stream(300, d=2, classes=3, minority=0.3)
    for k, name in enumerate(["one", "two"]):
        mine = (y == 2) == bool(k)
        table = pd.DataFrame(X[mine], columns=["a", "b"]).assign(target=y[mine])
        table.to_csv(f"{name}.csv", index=False)
    learn(run, "m.st", "one.csv", "two.csv")
    run("unlearn", "m.st", "two.csv")
    assert_exports_agree(run, "two.csv")


def test_declared_classes_without_rows_are_never_predicted(run):
    X, y = stream(400, d=2, classes=3, minority=0.05)
    pd.DataFrame(X, columns=["a", "b"]).assign(target=y).to_csv("one.csv", index=False)
    learn(run, "m.st", "one.csv", more=["--feature-map", "rm2", "--multi-class", "ovr"])
    stored = TableModel.load("m.st")
    wrap_engine(stored.model).partial_fit(X[:0], y[:0], classes=[3])
    Path("m.onnx").write_bytes(build_graph(stored))
    far = pd.DataFrame(np.vstack([X, -X, 3.0 * X, -3.0 * X]), columns=["a", "b"])
    expected = wrap_engine(stored.model).predict(far.to_numpy())
    assert (wrap_engine(stored.model).decision_function(far.to_numpy()).argmax(axis=1) == 3).any()
    np.testing.assert_array_equal(onnx_outputs(far)[0], expected)
    np.testing.assert_array_equal(build_pipeline(stored).predict(far), expected)


@pytest.mark.slow
def test_exports_know_odd_names_and_types(run):
    frame = towns(["A", "B"], 60, 0)
    frame["numbers"] = np.random.default_rng(0).choice(["u", "v"], 60)
    frame["c__d"] = np.random.default_rng(1).choice([True, False], 60)
    frame["remainder"] = np.random.default_rng(2).choice([1, 2, 3], 60)
    frame.replace({True: "true", False: "false"}).to_csv("one.csv", index=False)
    learn(run, "m.st", "one.csv", more=["--categorical", "remainder"])
    table = read_predictions(run, "one.csv")
    labels, scores = table["prediction"].to_numpy(), scores_in(table)
    run("export", "m.st", "-o", "m.joblib")
    pipeline = joblib.load("m.joblib")
    for found in (frame, pd.read_csv("one.csv"), pd.read_csv("one.csv", dtype={"remainder": str})):
        np.testing.assert_array_equal(pipeline.predict(found), labels)
        np.testing.assert_allclose(pipeline.decision_function(found), scores.ravel(), rtol=1e-9)
    assert_onnx_agrees(
        run, "one.csv", pd.read_csv("one.csv", dtype={"remainder": str, "c__d": str})
    )


@pytest.mark.slow
def test_a_model_that_chooses_exports_what_it_chose(run):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 2))
    table = pd.DataFrame({"a": 50.0 * X[:, 0] + 100.0, "b": X[:, 1]})
    table["kind"] = rng.choice(["p", "q"], 600)
    table["target"] = np.where(X[:, 0] * X[:, 1] > 0.5, "rare", "common")
    table.to_csv("a.csv", index=False)
    learn(run, "m.st", "a.csv", more=["--feature-map", "auto"])
    assert wrap_engine(TableModel.load("m.st").model).best_.feature_map_ is not None
    assert_exports_agree(run, "a.csv")


@pytest.mark.slow
def test_a_model_that_chose_quadratic_boundaries_exports_them(run):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 500)
    shapes = rng.standard_normal((2, 8, 8))
    X = np.einsum("ij,ijk->ik", rng.standard_normal((500, 8)), shapes[y])
    pd.DataFrame(X, columns=list("abcdefgh")).assign(target=y).to_csv("a.csv", index=False)
    learn(run, "m.st", "a.csv", more=["--feature-map", "auto"])
    assert wrap_engine(TableModel.load("m.st").model).best_.pooled_rows == 10.0
    assert_exports_agree(run, "a.csv")


# What cannot be exported


def test_what_cannot_be_exported_says_so(run):
    towns(["A", "B"], 50, 0).to_csv("one.csv", index=False)
    learn(run, "m.st", "one.csv", more=["--hash", "town=4"])
    assert json.loads(run("export", "m.st").out)["hashed"]["buckets"] == {"town": 4}
    error = run("export", "m.st", "-o", "m.pdf", code=2).err
    assert "cannot infer the format of 'm.pdf'; use .json, .onnx, .joblib or .sql" in error
    assert not os.path.exists("m.pdf")


@pytest.mark.parametrize(("package", "file"), [("onnx", "m.onnx"), ("pandas", "m.joblib")])
def test_a_package_that_is_not_installed_is_named(run, monkeypatch, package, file):
    towns(["A", "B"], 50, 0).to_csv("one.csv", index=False)
    learn(run, "m.st", "one.csv")
    monkeypatch.setitem(sys.modules, package, None)
    message = f"{'requires' if package == 'onnx' else 'needs'} {package}: pip install"
    assert message in run("export", "m.st", "-o", file, code=2).err


def test_one_class_is_nothing_to_decide(run):
    Path("o.csv").write_text("p,c,target\n1,x,only\n2,y,only\n3,x,only\n")
    learn(run, "m.st", "o.csv")
    for name in ("m.onnx", "m.joblib"):
        assert "only one class" in run("export", "m.st", "-o", name, code=2).err
    assert run("predict", "m.st", "o.csv").out.count("\nonly,") == 3


# Quadratic boundaries


def several(classes, rows=400, seed=0):
    """Rows of classes that differ in their means and in their spreads."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    X = rng.standard_normal((rows, 3)) * (1.0 + y[:, None]) + 0.7 * rng.random((classes, 3))[y]
    X[:, 1] = 5e4 + 300.0 * X[:, 1]
    return pd.DataFrame(X.round(6), columns=["a", "b", "c"]).assign(target=y)


@pytest.mark.slow
@pytest.mark.parametrize("features", ["linear", "rm2", "rff:20"])
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_quadratic_models_are_exported_too(run, classes, features):
    several(classes).to_csv("all.csv", index=False)
    more = [] if features == "linear" else ["--feature-map", features]
    learn(run, "m.st", "all.csv", more=[*more, "--pooled-rows", "20"])
    assert_exports_agree(run, "all.csv")


@pytest.mark.parametrize("classes", [2, 3])
def test_densities_in_json_are_the_scores(run, classes):
    table = several(classes)
    table.to_csv("all.csv", index=False)
    learn(run, "m.st", "all.csv", more=["--pooled-rows", "5"])
    found = json.loads(run("export", "m.st").out)
    X = table[[f["column"] for f in found["features"]]].to_numpy()
    exported = found["quadratic"]
    assert [one["label"] for one in exported["densities"]] == found["classes"]
    q = np.column_stack(
        [
            one["offset"]
            - 0.5 * (((X - exported["anchor"] - one["mean"]) @ one["root"]) ** 2).sum(axis=1)
            for one in exported["densities"]
        ]
    )
    f = q[:, 1:] - q[:, :1] if classes == 2 else q
    np.testing.assert_allclose(f, scores_in(read_predictions(run, "all.csv")), rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("pooled_rows", [None, 10.0])
def test_a_class_that_was_never_seen_is_minus_infinity_in_every_export(run, pooled_rows):
    table = several(3)
    table.to_csv("one.csv", index=False)
    learn(
        run,
        "m.st",
        "one.csv",
        more=[] if pooled_rows is None else ["--pooled-rows", str(pooled_rows)],
    )
    stored = TableModel.load("m.st")
    X, y = table[["a", "b", "c"]].to_numpy(), table["target"].to_numpy()
    wrap_engine(stored.model).partial_fit(X[:0], y[:0], classes=[-1, 1, 9])
    f = wrap_engine(stored.model).decision_function(X)
    assert (f[:, [0, 4]] == -np.inf).all()
    assert np.isfinite(f[:, 1:4]).all()
    Path("m.onnx").write_bytes(build_graph(stored))
    label, score, (balanced, stream) = onnx_outputs(table)
    np.testing.assert_array_equal(label, wrap_engine(stored.model).predict(X))
    np.testing.assert_allclose(
        balanced, wrap_engine(stored.model).predict_proba(X), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(
        stream, wrap_engine(stored.model).predict_stream_proba(X), rtol=1e-7, atol=1e-12
    )
    np.testing.assert_allclose(score, f, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(build_pipeline(stored).predict(table), label)
    replace(stored, recent=None).save("m.st")  # which has learned three classes
    found = json.loads(run("export", "m.st").out, parse_constant=pytest.fail)
    if pooled_rows is None:
        assert [value is None for value in found["intercept"]] == [True, False, False, False, True]
    else:
        assert [one["label"] for one in found["quadratic"]["densities"]] == [0, 1, 2]
    run("predict", "m.st", "one.csv", "-o", "p.jsonl")
    rows = [
        json.loads(t, parse_constant=pytest.fail) for t in Path("p.jsonl").read_text().splitlines()
    ]
    assert all(row["score_9"] is None and row["proba_balanced_9"] == 0.0 for row in rows)
    assert run("predict", "m.st", "one.csv").out.count("-inf") == 2 * len(table)
    json.loads(run("evaluate", "m.st", "one.csv", "--json").out, parse_constant=pytest.fail)


def calibrated_lines():
    return AutoClassifier(candidates=("linear", "pooled_rows=10"), calibrate=True)


@pytest.mark.slow
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("kind", [BalancedRidgeClassifier, AutoClassifier, calibrated_lines])
def test_models_saved_from_python_export_too(run, kind, named):
    X, y = stream(400, d=3, classes=3)
    names = ["a", "b", "c"] if named else ["x0", "x1", "x2"]
    frame = pd.DataFrame(X, columns=names)
    model = kind().fit(frame if named else X, y)
    model.save("p.safetensors")
    run("export", "p.safetensors", "-o", "m.onnx")
    run("export", "p.safetensors", "-o", "m.joblib")
    assert json.loads(run("export", "p.safetensors").out)["features"][0]["name"] == names[0]
    label, score, odds = onnx_outputs(frame)
    pipeline = joblib.load("m.joblib")
    given = frame if named else X
    for found in (label, pipeline.predict(frame)):
        np.testing.assert_array_equal(found, model.predict(given))
    for found in (score, pipeline.decision_function(frame)):
        np.testing.assert_allclose(found, model.decision_function(given), rtol=1e-9, atol=1e-9)
    for p in (odds, [pipeline.predict_proba(frame), pipeline.predict_stream_proba(frame)]):
        np.testing.assert_allclose(p[0], model.predict_proba(given), rtol=1e-7, atol=1e-12)
        np.testing.assert_allclose(p[1], model.predict_stream_proba(given), rtol=1e-7, atol=1e-12)
