"""Unlearned rows leave no category, column or count."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from builders import assert_same_tables, learn

from counterpoise import BalancedRidgeClassifier, Moments
from counterpoise.estimators.auto import wrap_engine
from counterpoise.moments.resize import select_features
from counterpoise.tables.model import TableModel

MODEL = "m.st"


def frame(towns, rows, seed, **more):
    rng = np.random.default_rng(seed)
    label = rng.random(rows) < 0.3
    columns = {
        "amount": rng.normal(10.0, 3.0, rows) + 2.0 * label,
        "town": np.resize(towns, rows),
        **more,
        "target": np.where(label, "y", "n"),
    }
    return pd.DataFrame(columns)


def write_table(name, towns, rows=40, seed=0, **more):
    table = frame(towns, rows, seed, **more)
    if name.endswith(".jsonl"):
        table.to_json(name, orient="records", lines=True)
    else:
        table.to_csv(name, index=False)
    return name


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [[], ["--missing", "indicate"], ["--ridge", "gcv"], ["--weight", "w"], ["--hash", "town=5000"]],
    ids=str,
)
def test_a_category_that_only_unlearned_rows_had_is_gone_from_the_file(run, more):
    weight = {"w": np.resize([1.0, 2.5], 40)} if "--weight" in more else {}
    write_table("one.csv", ["Ulm", "Bonn"], seed=0, **weight)
    write_table("two.csv", ["Ulm", "Secretville"], seed=1, **weight)
    learn(run, "one.st", "one.csv", more=more)
    learn(run, MODEL, "one.csv", "two.csv", more=more)
    hashed = "--hash" in more
    assert (b"Secretville" in Path(MODEL).read_bytes()) != hashed
    run("unlearn", MODEL, "two.csv")
    assert b"Secretville" not in Path(MODEL).read_bytes()
    assert b"two.csv" not in Path(MODEL).read_bytes()
    assert_same_tables(MODEL, "one.st")
    learn(run, MODEL, "two.csv")  # learned afresh, and unlearned again
    learn(run, "both.st", "one.csv", "two.csv", more=more)
    assert_same_tables(MODEL, "both.st")
    run("unlearn", MODEL, "two.csv")
    assert_same_tables(MODEL, "one.st")


def test_a_column_that_only_unlearned_rows_had_is_gone_from_the_file(run):
    write_table("one.csv", ["Ulm"], zero=0.0)
    write_table("two.csv", ["Ulm"], seed=1, zero=1.0, secret_number=3.0, secret_word="x")
    learn(run, "one.st", "one.csv")
    learn(run, MODEL, "one.csv", "two.csv", more=["--allow-new-columns"])
    run("unlearn", MODEL, "two.csv")
    assert b"secret" not in Path(MODEL).read_bytes()
    assert_same_tables(MODEL, "one.st")  # where a column is 0 in every row that is left, it stays
    run("predict", MODEL, "one.csv")


def test_a_field_that_only_unlearned_rows_had_is_gone_from_the_file(run):
    write_table("one.jsonl", ["Ulm"])
    write_table("two.jsonl", ["Ulm"], seed=1, secret=1.5)
    learn(run, "one.st", "one.jsonl")
    learn(run, MODEL, "two.jsonl", "one.jsonl")
    run("unlearn", MODEL, "two.jsonl")
    assert b"secret" not in Path(MODEL).read_bytes()
    assert_same_tables(MODEL, "one.st")


@pytest.mark.slow
def test_an_indicator_that_only_unlearned_rows_had_is_gone(run):
    write_table("one.csv", ["Ulm"])
    write_table("two.csv", ["Ulm", None], seed=1)
    more = ["--missing", "indicate"]
    learn(run, "one.st", "one.csv", more=more)
    learn(run, MODEL, "one.csv", "two.csv", more=more)
    assert len(TableModel.load(MODEL).encoding.features) == 3
    run("unlearn", MODEL, "two.csv")
    assert_same_tables(MODEL, "one.st")


@pytest.mark.slow
@pytest.mark.parametrize("first", ["one.csv", "two.csv"])
def test_rows_without_weight_keep_their_categories(run, first):
    write_table("one.csv", ["Ulm", "Bonn"], w=1.0)
    write_table("two.csv", ["Ulm", "Bonn", "Mainz"], seed=1, w=np.resize([1.0, 1.0, 0.0], 40))
    other = "two.csv" if first == "one.csv" else "one.csv"
    more = ["--weight", "w"]
    learn(run, MODEL, "one.csv", "two.csv", more=more)
    learn(run, "other.st", other, more=more)
    run("unlearn", MODEL, first)
    assert_same_tables(MODEL, "other.st")
    assert (b"Mainz" in Path(MODEL).read_bytes()) == (other == "two.csv")
    assert "nothing is left" in run("unlearn", MODEL, other).err


@pytest.mark.slow
def test_a_model_without_rows_has_no_names_and_can_learn_again(run):
    write_table("one.csv", ["Ulm", "Secretville"], secret=1.0)
    learn(run, MODEL, "one.csv")
    assert "nothing is left" in run("unlearn", MODEL, "one.csv").err
    assert b"ecret" not in Path(MODEL).read_bytes()
    assert json.loads(run("inspect", MODEL, "--json").out)["weights"] == {}
    assert "is empty" in run("predict", MODEL, "one.csv", code=2).err
    write_table("other.csv", ["Bonn"], seed=1)
    learn(run, MODEL, "other.csv")
    learn(run, "other.st", "other.csv")
    assert_same_tables(MODEL, "other.st")


@pytest.mark.slow
@pytest.mark.parametrize("features", ["poly2", "rff:50", "rm2+rff:50"])
def test_a_map_keeps_only_the_features_that_fixed_it(run, features):
    towns = ["Ulm", "Bonn", "Mainz"]
    write_table("first.csv", towns, 300)
    write_table("one.csv", towns, 300, seed=1)
    write_table("two.csv", [*towns, "Secretville"], 100, seed=2)
    learn(run, "first.st", "first.csv", more=["--feature-map", features, "--ridge", "0.1"])
    more = ["--feature-map", "./first.st", "--no-calibrate"]  # calibration counts would stay
    learn(run, "one.st", "one.csv", more=more)
    learn(run, MODEL, "one.csv", "two.csv", more=more)
    assert b"Secretville" in Path(MODEL).read_bytes()
    run("unlearn", MODEL, "two.csv")
    assert b"Secretville" not in Path(MODEL).read_bytes()
    assert_same_tables(MODEL, "one.st")
    for name in ("one.csv", "two.csv"):
        before, after = (run("predict", model, name).out for model in ("one.st", MODEL))
        tables = [np.genfromtxt(text.splitlines()[1:], delimiter=",") for text in (before, after)]
        np.testing.assert_allclose(tables[0][:, 1:], tables[1][:, 1:], rtol=1e-6, atol=1e-8)
    learn(run, MODEL, "two.csv")
    assert b"Secretville" in Path(MODEL).read_bytes()
    run("unlearn", "first.st", "first.csv")  # its map stays, and the features that it scales
    assert len(TableModel.load("first.st").encoding.features) == 4


def test_moments_of_selected_features_equal_those_of_selected_columns():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 4)), rng.integers(0, 4, 60)
    at = np.array([0, 2, 3])
    found = select_features(Moments.of(X, y), at)
    alone = Moments.of(X[:, at], y)
    for name in Moments.ARRAYS:
        np.testing.assert_allclose(
            getattr(found, name), getattr(alone, name), rtol=1e-12, atol=1e-12
        )
    np.testing.assert_array_equal((found + alone).n, 2 * alone.n)
    arrays = [getattr(found, name) for name in Moments.ARRAYS]
    assert all(array.flags.c_contiguous for array in arrays)  # kernels require this


@pytest.mark.slow
def test_unlearning_from_merged_models_removes_the_categories_of_the_file(run):
    write_table("one.csv", ["Ulm", "Bonn"])
    write_table("two.csv", ["Ulm", "Secretville"], seed=1)
    for name in ("one", "two"):
        learn(run, f"{name}.st", f"{name}.csv")
    run("merge", "two.st", "one.st", "-o", MODEL)
    run("merge", "one.st", MODEL, "-o", "twice.st", "--allow-overlap")
    for model in (MODEL, "twice.st"):
        run("unlearn", model, "two.csv")
        assert b"Secretville" not in Path(model).read_bytes()
    assert_same_tables(MODEL, "one.st")
    run("unlearn", "twice.st", "one.csv")
    assert BalancedRidgeClassifier.load("twice.st").n_features_in_ == 0
    assert TableModel.load(MODEL).optional_columns == frozenset()


def test_a_model_without_any_feature_keeps_one(run):
    Path("one.jsonl").write_text('{"secret": 1.5, "b": 2, "target": "y"}\n' * 3)
    Path("two.jsonl").write_text('{"target": "y"}\n{"target": "n"}\n')
    learn(run, MODEL, "one.jsonl", "two.jsonl")
    run("unlearn", MODEL, "one.jsonl")
    left = TableModel.load(MODEL)
    assert len(left.encoding.features) == 1
    assert left.model.class_count.tolist() == [1.0, 1.0]
    assert not wrap_engine(left.model).coef_.any()
    assert "nothing is left" in run("unlearn", MODEL, "two.jsonl").err
    assert b"secret" not in Path(MODEL).read_bytes()


@pytest.mark.slow
def test_several_files_are_unlearned_together(run):
    for k, town in enumerate(["Ulm", "Bonn", "Mainz"]):
        write_table(f"{k}.csv", ["Trier", town], seed=k)
    learn(run, MODEL, "0.csv", "1.csv", "2.csv")
    learn(run, "one.st", "1.csv")
    run("unlearn", MODEL, "0.csv", "2.csv")
    assert_same_tables(MODEL, "one.st")
