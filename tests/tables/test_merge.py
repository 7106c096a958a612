"""Commands that merge, unlearn, inspect and evaluate model files."""

import json
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from builders import data_set, learn, stream

from counterpoise import BalancedRidgeClassifier
from counterpoise.engine.parameters import CANDIDATES
from counterpoise.estimators.auto import wrap_engine
from counterpoise.readers import source
from counterpoise.tables.model import TableModel
from counterpoise.tables.unlearn import StoreChange, unlearn

SETS = ["spambase", "ozone-eight", "cod-rna", "mushroom", "ijcnn1"]


def write(name, X, y, columns=None):
    columns = columns or [f"x{j}" for j in range(X.shape[1])]
    pd.DataFrame(X, columns=columns).assign(target=y).to_csv(name, index=False)


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


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_merged_halves_equal_the_whole_and_unlearned_files_leave_no_trace(run, name):
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
    assert list(TableModel.load("both.st").records) == ["one.csv", "two.csv"]
    for k in range(3):
        write(f"{k}.csv", X[k * third : (k + 1) * third], y[k * third : (k + 1) * third])
    learn(run, "three.st", "0.csv", "1.csv", "2.csv")
    learn(run, "apart.st", "0.csv", "2.csv")
    done = run("unlearn", "three.st", "1.csv")
    assert f"1.csv: {third:,} rows unlearned" in done.err
    assert_same_files("three.st", "apart.st", 1e-9)
    assert list(TableModel.load("three.st").records) == ["0.csv", "2.csv"]
    learn(run, "three.st", "1.csv")  # and it can be learned again
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


@pytest.mark.slow
def test_files_with_different_categories_are_merged_and_unlearned(run):
    towns(["A", "B"], 200, 0).to_csv("one.csv", index=False)
    towns(["C", "B"], 150, 1).assign(extra=lambda f: f["amount"] ** 2).to_csv(
        "two.csv", index=False
    )
    learn(run, "one.st", "one.csv")
    learn(run, "two.st", "two.csv")
    learn(run, "whole.st", "one.csv", "two.csv", more=["--allow-new-columns"])
    for pair in (["one.st", "two.st"], ["two.st", "one.st"]):
        run("merge", *pair, "-o", "both.st")
        assert_same_files("both.st", "whole.st")
    run("unlearn", "both.st", "two.csv")
    assert_same_files("both.st", "one.st", 1e-9)
    assert "has column 'extra'" in run("learn", "two.csv", "-m", "both.st", code=2).err
    learn(
        run, "both.st", "two.csv", more=["--allow-new-columns"]
    )  # continues to learn after the merge
    assert_same_files("both.st", "whole.st", 1e-9)


@pytest.mark.slow
def test_an_overlap_is_refused_unless_allowed(run, tmp_path):
    towns(["A"], 100, 0).to_csv("one.csv", index=False)
    learn(run, "a.st", "one.csv")
    os.mkdir("sub")
    learn(run, "sub/b.st", "one.csv")
    done = run("merge", "a.st", "sub/b.st", "-o", "c.st", code=2)
    assert "one.csv was learned by a.st and by sub/b.st; to count its rows" in done.err
    assert not Path("c.st").exists()
    run("merge", "a.st", "sub/b.st", "-o", "sub/c.st", "--allow-overlap")
    assert list(TableModel.load("sub/c.st").records) == ["../one.csv"]
    assert BalancedRidgeClassifier.load("sub/c.st").class_count_.sum() == 200


@pytest.mark.slow
def test_refused_merges_and_removals_report_the_reason(run):
    towns(["A"], 100, 0).to_csv("one.csv", index=False)
    towns(["A"], 100, 1).to_csv("two.csv", index=False)
    learn(run, "a.st", "one.csv")
    learn(run, "b.st", "two.csv", more=["--ridge", "0.5"])
    assert (
        "ridge is 'auto' here and 0.5 there" in run("merge", "a.st", "b.st", "-o", "c", code=2).err
    )
    learn(run, "d.st", "two.csv", more=["--missing", "drop"])
    printed = run("merge", "a.st", "d.st", "-o", "c", code=2).err
    assert "different column options: --missing is mean in the first and drop in" in printed
    before = Path("a.st").read_bytes()
    assert "two.csv was never learned" in run("unlearn", "a.st", "two.csv", code=2).err
    Path("one.csv").write_text(Path("one.csv").read_text().replace("1", "2", 1))
    assert "one.csv has changed" in run("unlearn", "a.st", "one.csv", code=2).err
    assert "No such file" in run("unlearn", "no.st", "two.csv", code=2).err
    assert Path("a.st").read_bytes() == before
    assert not [p for p in Path().iterdir() if p.name.endswith((".lock", ".tmp"))]


@pytest.mark.slow
def test_a_file_that_grew_can_be_unlearned(run):
    whole = towns(["A", "B"], 300, 0)
    whole[:200].to_csv("one.csv", index=False)
    towns(["A"], 100, 1).to_csv("two.csv", index=False)
    learn(run, "m.st", "one.csv", "two.csv", more=["--chunk-rows", "64"])
    whole.to_csv("one.csv", index=False)
    assert "200 rows unlearned" in run("unlearn", "m.st", "one.csv").err
    learn(run, "n.st", "two.csv", more=["--chunk-rows", "64"])
    assert_same_files("m.st", "n.st", 1e-9)


@pytest.mark.slow
def test_a_model_can_learn_after_all_files_were_unlearned(run):
    towns(["A", "B"], 100, 0).to_csv("one.csv", index=False)
    learn(run, "m.st", "one.csv")
    run("unlearn", "m.st", "one.csv")
    learn(run, "m.st", "one.csv")
    learn(run, "n.st", "one.csv")
    assert_same_files("m.st", "n.st", 1e-12)


# Inspecting and evaluating


def test_inspect_shows_the_contents_of_a_model(run):
    towns(["A", "B"], 100, 0).to_csv("one.csv", index=False)
    learn(run, "m.st", "one.csv", more=["--class-factor", "p=2"])
    out = run("inspect", "m.st").out
    for text in (
        "class_factors\tp=2",
        "input\trows",
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


@pytest.mark.slow
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
    assert "undefined: G-mean, balanced accuracy (only 0 is in the data)" in done.err
    pd.read_csv("two.csv").drop(columns="target").to_csv("four.csv", index=False)
    assert (
        "has no column 'target', which contains the labels"
        in run("evaluate", "m.st", "four.csv", code=2).err
    )


# Cases that failed once


@pytest.mark.slow
def test_unlearning_leaves_no_trace_in_a_selected_ridge(run):
    towns(["A", "B"], 60, 0).to_csv("one.csv", index=False)
    towns(["C", "D", "E"], 60, 1).to_csv("two.csv", index=False)
    learn(run, "one.st", "one.csv", more=["--ridge", "gcv"])
    learn(run, "both.st", "one.csv", "two.csv", more=["--ridge", "gcv"])
    run("unlearn", "both.st", "two.csv")
    ridges = [BalancedRidgeClassifier.load(path).ridge_ for path in ("one.st", "both.st")]
    assert ridges[0] == pytest.approx(ridges[1], rel=1e-9)
    assert_same_files("both.st", "one.st", 1e-9)


@pytest.mark.slow
def test_a_file_that_counts_twice_is_unlearned_twice(run):
    towns(["A"], 60, 0).to_csv("one.csv", index=False)
    towns(["A"], 40, 1).to_csv("two.csv", index=False)
    learn(run, "a.st", "one.csv", "two.csv")
    learn(run, "b.st", "one.csv")
    learn(run, "c.st", "two.csv")
    run("merge", "a.st", "b.st", "-o", "d.st", "--allow-overlap")
    assert BalancedRidgeClassifier.load("d.st").class_count_.sum() == 160
    run("unlearn", "d.st", "one.csv")
    assert_same_files("d.st", "c.st", 1e-9)
    run("merge", "a.st", "b.st", "-o", "d.st", "--allow-overlap")
    with open("one.csv", "a") as file:
        file.write("1.5,A,n\n")
    assert "count 2 times" in run("learn", "one.csv", "-m", "d.st", code=2).err
    learn(run, "b.st", "one.csv")
    done = run("merge", "a.st", "b.st", "-o", "d.st", "--allow-overlap", code=2)
    assert "a.st and b.st have learned different parts of one.csv" in done.err


@pytest.mark.slow
def test_streams_of_standard_input_merge_unless_they_are_the_same(run, monkeypatch):
    for k in (0, 1):
        towns(["A"], 30, k).to_csv(f"{k}.csv", index=False)
        with open(f"{k}.csv", "rb") as file:
            before = os.dup(0)
            os.dup2(file.fileno(), 0)
            learn(run, f"{k}.st", "-")
            os.dup2(before, 0)
            os.close(before)
    run("merge", "0.st", "1.st", "-o", "m.st")
    assert list(TableModel.load("m.st").records) == ["-", "- 1.st"]
    Path("copy.st").write_bytes(Path("0.st").read_bytes())
    assert (
        "- was learned by 0.st and by copy.st"
        in run("merge", "0.st", "copy.st", "-o", "x", code=2).err
    )


@pytest.mark.slow
def test_files_may_have_unusual_names(run):
    for name in ("-d.csv", "- x.csv"):
        towns(["A"], 30, 0).to_csv(f"./{name}", index=False)
        learn(run, "m.st", f"./{name}", more=["--allow-overlap"])
        assert "30 rows unlearned" in run("unlearn", "m.st", f"./{name}").err


@pytest.mark.slow
@pytest.mark.parametrize("tail", ["1,x", '1,"A', "oops,A,n\n", "1,A,n\n1"])
def test_appended_text_of_any_kind_does_not_prevent_unlearning(run, tail):
    towns(["A", "B"], 30, 0).to_csv("one.csv", index=False)
    towns(["A", "B"], 30, 1).to_csv("two.csv", index=False)
    learn(run, "m.st", "one.csv", "two.csv")
    learn(run, "n.st", "two.csv")
    with open("one.csv", "a") as file:
        file.write(tail)
    run("unlearn", "m.st", "one.csv")
    assert_same_files("m.st", "n.st", 1e-9)


@pytest.mark.slow
def test_an_empty_model_is_reported(run):
    towns(["A"], 30, 0).to_csv("one.csv", index=False)
    towns(["A"], 30, 1).to_csv("two.csv", index=False)
    learn(run, "m.st", "one.csv")
    learn(run, "n.st", "two.csv")
    done = run("unlearn", "m.st", "one.csv")
    assert "nothing is left" in done.err
    assert "label\ttarget" in run("inspect", "m.st").out
    assert json.loads(run("inspect", "m.st", "--json").out)["classes"] == {}
    for command in (
        ["predict", "m.st", "one.csv"], ["evaluate", "m.st", "one.csv"], ["export", "m.st"],
        ["merge", "m.st", "n.st", "-o", "x"], ["merge", "n.st", "m.st", "-o", "x"],
    ):  # fmt: skip
        assert "m.st is empty" in run(*command, code=2).err


@pytest.mark.slow
def test_messages_report_the_cause(run):
    towns(["A"], 30, 0).to_csv("one.csv", index=False)
    towns(["A"], 30, 1).to_csv("two.csv", index=False)
    learn(run, "m.st", "one.csv")
    before = Path("m.st").read_bytes()
    done = run("unlearn", "m.st", "one.csv", "two.csv", code=2)
    assert "unlearned" not in done.err
    assert Path("m.st").read_bytes() == before
    learn(run, "n.st", "two.csv")
    done = run("merge", "m.st", "n.st", "-o", "nodir/x.st", code=2)
    assert "folder nodir does not exist" in done.err
    done = run("benchmark", "one.csv", "--label", "target", "--report", "nodir/x.html", code=2)
    assert "folder nodir does not exist" in done.err
    frame = pd.read_csv("two.csv")
    frame.loc[:3, "target"] = "new"
    frame.to_csv("two.csv", index=False)
    done = run("evaluate", "m.st", "two.csv")
    assert "'new' was never learned, so no row of it is found" in done.err
    assert "new\t4\t0\tundefined" in done.out


@pytest.mark.slow
def test_labels_are_not_formulas(run):
    labels = ["n", r"$\alpha_$", "<b>&"]
    rows = "".join(f"{i % 3},{labels[i % 3]}\n" for i in range(60))
    Path("t.csv").write_text("$x^$,y\n" + rows)
    run("benchmark", "t.csv", "--label", "y", "--report", "r.html", "--positive", "<b>&")
    page = Path("r.html").read_text()
    assert "<b>&" not in page
    assert "&lt;b&gt;&amp;" in page


# Maps of the features, and the model that chooses


def write_crossed(name, rows, kinds, seed=0):
    """Write a file whose classes only a product separates, with a column of text."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 2))
    frame = pd.DataFrame(
        {"a": 50.0 * X[:, 0] + 100.0, "b": X[:, 1], "kind": rng.choice(kinds, rows)}
    )
    frame.assign(target=np.where(X[:, 0] * X[:, 1] > 0.5, "rare", "common")).to_csv(
        name, index=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("features", ["poly2", "interactions", "rm2", "rff:30", "rm2+rff:20"])
def test_shards_with_one_map_merge_and_unlearn_exactly(run, features):
    write_crossed("one.csv", 500, ["p", "q"])
    write_crossed("two.csv", 400, ["q", "new", "p"], seed=1)
    more = ["--feature-map", features, "--ridge", "0.1"]
    learn(run, "one.st", "one.csv", more=more)
    more[1] = "one.st"
    learn(run, "two.st", "two.csv", more=more)
    learn(run, "whole.st", "one.csv", "two.csv", more=more)
    run("merge", "one.st", "two.st", "--output", "both.st")
    assert terms_of(run, "both.st") == pytest.approx(terms_of(run, "whole.st"), abs=1e-10)
    learn(run, "again.st", "one.csv", more=more)
    # Without the third kind the product of two is constant: only row hashes detect this.
    run("unlearn", "whole.st", "two.csv")
    assert terms_of(run, "whole.st") == pytest.approx(terms_of(run, "again.st"), abs=1e-9)


def terms_of(run, model):
    """Weights by term, factors in any order."""
    terms = json.loads(run("export", model).out)["map"]["terms"]
    return {" ".join(sorted(term["name"].split(" "))): term["weights"][0] for term in terms}


@pytest.mark.slow
def test_maps_fixed_by_different_rows_are_not_merged(run):
    for name, seed in (("one", 0), ("two", 1)):
        write_crossed(f"{name}.csv", 300, ["p"], seed)
        learn(run, f"{name}.st", f"{name}.csv", more=["--feature-map", "rm2"])
    stderr = run("merge", "one.st", "two.st", "--output", "both.st", code=2).err
    assert "fixed by different rows" in stderr
    write_crossed("few.csv", 100, ["p"], 2)
    learn(run, "few.st", "few.csv", more=["--feature-map", "rm2"])
    more = ["--label", "target", "--feature-map", "few.st", "-m", "more.st"]
    assert "is not fixed yet" in run("learn", "one.csv", *more, code=2).err
    assert not os.path.exists("more.st")


@pytest.mark.slow
@pytest.mark.parametrize("features", ["rm2", "auto"])
@pytest.mark.parametrize("rows", [40, 200])
def test_a_warm_up_in_several_runs_is_bit_identical(run, features, rows):
    write_crossed("all.csv", 500, ["p", "q", "r"])
    lines = Path("all.csv").read_text().splitlines(keepends=True)
    more = ["--feature-map", features, "--chunk-rows", rows]
    learn(run, "whole.st", "all.csv", more=more)
    whole = Path("whole.st").read_bytes()
    os.unlink("whole.st")
    for some in (rows + 1, 2 * rows + 1, len(lines)):
        Path("all.csv").write_text("".join(lines[:some]))
        learn(run, "whole.st", "all.csv", more=more)
    assert Path("whole.st").read_bytes() == whole


@pytest.mark.slow
def test_the_command_line_learns_averaging_models(run):
    write_crossed("a.csv", 900, ["p", "q"])
    write_crossed("b.csv", 300, ["q", "new"], seed=1)
    done = run(
        "learn", "a.csv", "b.csv", "--label", "target", "--feature-map", "auto", "-m", "m.st"
    )
    assert "m.st: common:" in done.err
    assert "; best is rm2" in done.err
    stored = TableModel.load("m.st")
    assert [f.name for f in stored.encoding.features][-1] == "kind=new"
    found = json.loads(run("inspect", "m.st", "--json").out)
    assert found["options"]["feature_map"].startswith("rm2")
    assert set(found["candidates"]) == set(found["shares"]) == set(CANDIDATES)
    assert "averaging weight" in run("inspect", "m.st").out
    metrics = json.loads(run("evaluate", "m.st", "b.csv", "--json").out)
    assert metrics["g_mean"] > 0.8
    assert "an averaging model, which cannot unlearn" in run("unlearn", "m.st", "a.csv", code=2).err
    run("learn", "a.csv", "--label", "target", "--feature-map", "m.st", "-m", "exact.st")
    exact = wrap_engine(TableModel.load("exact.st").model)
    best = wrap_engine(stored.model).best_
    assert exact.feature_map_.map.text == best.feature_map
    assert exact.ridge == best.ridge
    run("unlearn", "exact.st", "a.csv")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--feature-map", "auto", "--ridge", "1"], "selects the ridge; leave --ridge out"),
        (["--feature-map", "auto", "--scale", "none"], "leave --scale out"),
        (["--feature-map", "auto", "--intercept", "none"], "leave --intercept out"),
        (["--feature-map", "auto", "--class-weight", "none"], "leave --class-weight out"),
        (["--feature-map", "cubic"], "'cubic' is not a feature map"),
        (["--feature-map", "rff:3"], "terms must be even"),
        (["--feature-map", "none.safetensors"], "none.safetensors: No such file"),
        (["--feature-map", "a.csv"], "is not a counterpoise model file"),
        (["--feature-map", "poly9", "--memory-limit", "1e5"], "more than --memory-limit"),
    ],
)
def test_impossible_feature_maps_are_refused(run, more, message):
    write_crossed("a.csv", 50, ["p"])
    done = run("learn", "a.csv", "--label", "target", "-m", "m.st", *more, code=2)
    assert message in done.err
    assert not os.path.exists("m.st")


@pytest.mark.slow
def test_a_different_map_requires_another_file(run):
    write_crossed("a.csv", 300, ["p"])
    learn(run, "m.st", "a.csv", more=["--feature-map", "rm2"])
    learn(run, "m.st", "a.csv", more=["--feature-map", "rm2"])
    stderr = run("learn", "a.csv", "-m", "m.st", "--feature-map", "rm3", code=2).err
    assert "--feature-map is rm3, but m.st was learned with rm2" in stderr
    stderr = run("learn", "a.csv", "-m", "m.st", "--feature-map", "auto", code=2).err
    assert "--feature-map is auto, but m.st was learned with rm2" in stderr
    learn(run, "auto.st", "a.csv", more=["--feature-map", "auto"])
    stderr = run("learn", "a.csv", "-m", "auto.st", "--ridge", "1", code=2).err
    assert "selects the ridge" in stderr


@pytest.mark.slow
def test_options_that_contradict_a_borrowed_map_are_refused(run):
    write_crossed("a.csv", 300, ["p", "q"])
    write_crossed("b.csv", 200, ["p", "q"], seed=1)
    learn(run, "base.st", "a.csv", more=["--feature-map", "rm2", "--hash", "kind=4"])
    for more in (["--drop", "a"], ["--label", "a"], ["--categorical", "a"], ["--hash", "kind=3"]):
        stderr = run("learn", "b.csv", "--feature-map", "base.st", "-m", "m.st", *more, code=2).err
        assert "is a feature of the map of ./base.st, and the options differ" in stderr
        assert not os.path.exists("m.st")
    run("learn", "b.csv", "--feature-map", "base.st", "-m", "m.st")  # label and hashes come along
    run("merge", "base.st", "m.st", "-o", "both.st")
    assert wrap_engine(TableModel.load("both.st").model).class_count_.sum() == 500
    learn(run, "linear.st", "a.csv")
    more = ["--label", "target", "--feature-map", "linear.st", "-m", "n.st"]
    assert "has no map" in run("learn", "b.csv", *more, code=2).err


@pytest.mark.slow
def test_averaging_models_of_the_same_maps_can_be_merged(run):
    write_crossed("sample.csv", 1220, ["p", "q"])
    write_crossed("one.csv", 300, ["p", "new"], seed=1)
    write_crossed("two.csv", 300, ["q", "newer", "new"], seed=2)
    learn(run, "maps.st", "sample.csv", more=["--feature-map", "auto"])
    maps = ["--feature-map", "auto:maps.st"]
    for model, *files in (("one.st", "one.csv"), ("two.st", "two.csv")):
        learn(run, model, *files, more=maps)
    learn(run, "whole.st", "one.csv", "two.csv", more=maps)
    learn(run, "whole.st", "one.csv", "two.csv", more=maps)  # nothing new
    run("merge", "one.st", "two.st", "-o", "both.st")
    both, whole = (TableModel.load(name) for name in ("both.st", "whole.st"))
    assert both.encoding.features == whole.encoding.features
    both, whole = wrap_engine(both.model), wrap_engine(whole.model)
    np.testing.assert_allclose(both.class_count_, whole.class_count_)
    assert both.maps_ == whole.maps_
    X = np.random.default_rng(0).standard_normal((50, whole.n_features_in_))
    # The largest ridge of the average is 1e-6 of the scatters: what rounding leaves grows by that.
    np.testing.assert_allclose(
        both.decision_function(X), whole.decision_function(X), rtol=1e-5, atol=1e-5
    )
    for name, share in whole.averaging_weights_.items():
        assert both.averaging_weights_[name] == pytest.approx(share, rel=1e-4, abs=1e-8)
    learn(run, "alone.st", "sample.csv", more=["--feature-map", "rm2"])
    learn(run, "other.st", "two.csv", "sample.csv", more=["--feature-map", "auto"])
    for other in ("alone.st", "other.st"):
        stderr = run("merge", "one.st", other, "-o", "no.st", code=2).err
        assert "learn the second with --feature-map auto:one.st" in stderr
    stderr = run("learn", "two.csv", "--label", "target", "-m", "no.st",
               "--feature-map", "auto:alone.st", code=2).err  # fmt: skip
    assert "use its own map, if it has one: --feature-map ./alone.st" in stderr
    stderr = run(
        "learn", "sample.csv", "-m", "one.st", "--feature-map", "auto:other.st", code=2
    ).err
    assert "did not begin with the map that ./other.st has now" in stderr


@pytest.mark.slow
def test_learning_continues_after_the_borrowed_file_has_changed(run):
    write_crossed("a.csv", 1250, ["p", "q"])  # enough to fix the maps
    write_crossed("b.csv", 300, ["p", "q"], seed=1)
    write_crossed("c.csv", 300, ["p", "q"], seed=2)
    learn(run, "auto.st", "a.csv", more=["--feature-map", "auto"])
    learn(run, "m.st", "b.csv", more=["--feature-map", "auto.st"])
    learn(run, "m.st", "b.csv", "c.csv", more=["--feature-map", "auto.st"])
    learn(run, "other.st", "c.csv", more=["--feature-map", "rm3"])
    stderr = run("learn", "a.csv", "-m", "m.st", "--feature-map", "other.st", code=2).err
    assert "did not begin with the map that ./other.st has now" in stderr
    os.unlink("auto.st")
    learn(run, "m.st", "b.csv", "c.csv", more=["--feature-map", "./auto.st"])
    learn(run, "one.st", "a.csv", more=["--feature-map", "rm2"])
    learn(run, "one.st", "a.csv", more=["--feature-map", "one.st"])  # its own map is its map
    stderr = run(
        "learn", "a.csv", "-m", "again.st", "--label", "target", "--feature-map", "auto"
    ).err
    assert "best is" in stderr
    stderr = run("learn", "b.csv", "-m", "again.st", "--feature-map", "one.st", code=2).err
    assert "did not begin with the map" in stderr


@pytest.mark.slow
def test_maps_of_different_deviations_are_different(run):
    for name, size in (("one", 1.0), ("three", 3.0)):
        signs = np.tile([-size, size], 150)
        frame = pd.DataFrame({"a": signs, "b": np.roll(signs, 75) * np.repeat([1.0, -1.0], 150)})
        frame.assign(target=np.where(frame["a"] * frame["b"] > 0, "yes", "no")).to_csv(
            f"{name}.csv", index=False
        )
        learn(run, f"{name}.st", f"{name}.csv", more=["--feature-map", "rm2"])
    learn(run, "m.st", "one.csv", more=["--feature-map", "one.st"])
    stderr = run("learn", "three.csv", "-m", "m.st", "--feature-map", "three.st", code=2).err
    assert "did not begin with the map" in stderr


@pytest.mark.slow
def test_a_borrowed_map_brings_its_ridge(run):
    write_crossed("a.csv", 300, ["p"])
    write_crossed("b.csv", 300, ["p"], seed=1)
    learn(run, "one.st", "a.csv", more=["--feature-map", "rm2", "--ridge", "gcv"])
    run("learn", "b.csv", "--feature-map", "one.st", "-m", "two.st")
    run("merge", "one.st", "two.st", "-o", "both.st")
    assert wrap_engine(TableModel.load("both.st").model).ridge == "gcv"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::counterpoise.errors.PrecisionWarning")
def test_unlearning_a_file_needs_less_than_twice_the_memory_limit(run):
    """Rows to subtract are added up in memory of their own, which the result reuses."""
    d = 600
    limit = 2 * 8 * 2 * d**2  # the moments of two classes, and as much for a chunk
    X, y = stream(800, d, minority=0.5)
    write("one.csv", X[100:], y[100:])
    write("two.csv", X[:100], y[:100])
    learn(run, "m.st", "one.csv", "two.csv", more=["--memory-limit", str(limit)])
    tracemalloc.start()
    try:
        learner = TableModel.open("m.st", {}, {})
        tracemalloc.reset_peak()
        key, change = learner.key("two.csv"), StoreChange(None)
        assert unlearn(learner, source("two.csv"), key, lambda *_: None, change) == 100
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * limit


def test_a_merger_of_calibrated_and_uncalibrated_models_warns(run):
    rng = np.random.default_rng(0)
    for name, options in (("one", ()), ("two", ("--calibrate",)), ("three", ("--calibrate",))):
        y = rng.random(60) < 0.5
        frame = pd.DataFrame({"a": rng.normal(size=60) + y, "y": np.where(y, "yes", "no")})
        frame.to_csv(f"{name}.csv", index=False)
        run("learn", f"{name}.csv", "--label", "y", "-m", f"{name}.st", *options)

    def merge(*models):
        return run("merge", *models, "-o", "all.st").err

    assert (
        "one.st is not calibrated and two.st is, so that all.st is not calibrated; name two.st"
        in (merge("one.st", "two.st"))
    )
    assert not TableModel.load("all.st").model.options.calibrate
    assert (
        "two.st is calibrated and one.st is not, so that all.st is calibrated without the rows of "
        in (merge("two.st", "three.st", "one.st"))
    )
    assert TableModel.load("all.st").model.options.calibrate
    assert "calibrated" not in merge("two.st", "three.st")
