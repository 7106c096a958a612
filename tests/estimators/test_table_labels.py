"""Labels: their type comes back, and what is not a label has one clear error."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from counterpoise import (
    AutoClassifier,
    BalancedRidgeClassifier,
    CostSensitiveClassifier,
    TableClassifier,
)

X = np.random.default_rng(0).normal(size=(40, 2))
TRUE = X[:, 0] + X[:, 1] > 0
FRAME = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": TRUE})
ROWS = FRAME[["a", "b"]]


@pytest.mark.slow
def test_booleans_of_a_file_are_booleans_in_python_and_text_in_a_shell(run):
    FRAME.to_parquet("t.parquet")
    run("learn", "t.parquet", "--label", "y", "-m", "m.st")
    predicted = TableClassifier.load("m.st").predict(ROWS)
    assert predicted.dtype == bool
    shell = run("predict", "m.st", "t.parquet", "--format", "parquet").out.splitlines()
    assert {line.split(",")[0] for line in shell[1:]} <= {"true", "false"}
    assert [line.split(",")[0] == "true" for line in shell[1:]] == predicted.tolist()


@pytest.mark.slow
def test_text_that_a_shell_has_learned_becomes_booleans_with_the_first_frame_of_booleans(run):
    FRAME.assign(y=np.where(TRUE, "true", "false")).to_csv("t.csv", index=False)
    run("learn", "t.csv", "--label", "y", "-m", "m.st")
    model = TableClassifier.load("m.st")
    assert model.classes_.tolist() == ["false", "true"]
    model.partial_fit(FRAME, "y").save("m.st")
    for one in (model, TableClassifier.load("m.st")):
        assert one.classes_.tolist() == [False, True]
        assert one.score(FRAME, "y") > 0.9
    run("learn", "t.csv", "-m", "m.st", "--allow-overlap")
    FRAME.to_parquet("u.parquet")
    run("learn", "u.parquet", "-m", "m.st")


def test_booleans_are_unlearned_from_text_and_merged_with_it():
    text = FRAME.assign(y=np.where(TRUE, "true", "false"))
    model = TableClassifier().fit(text, "y")
    both = TableClassifier().fit(pd.concat([text, text]), "y")
    both.unlearn(FRAME, "y")
    # Equal to rounding: rows were added and subtracted.
    np.testing.assert_allclose(both.estimator_.coef_, model.estimator_.coef_, rtol=1e-9)
    merged = model.merge(TableClassifier().fit(FRAME, "y"))
    assert merged.class_count_.sum() == 80
    with pytest.raises(ValueError, match="labels are numbers in one of"):
        model.merge(TableClassifier().fit(FRAME.assign(y=TRUE.astype(int)), "y"))


@pytest.mark.parametrize("kind", ["datetime64[ns]", "timedelta64[s]"])
def test_times_as_labels_are_refused_unless_they_are_named_as_text(kind):
    frame = FRAME.assign(y=pd.Series(TRUE.astype(int)).astype(kind))
    with pytest.raises(ValueError, match=r"the frame, row 1: label in column 'y' is .* \(type"):
        TableClassifier().fit(frame, "y")
    model = TableClassifier(columns={"y": "category"}).fit(frame, "y")
    assert model.classes_.dtype.kind == "U"


BAD = {
    "None": ([0, 1, None, 1], r"Input y contains NaN: the label at row 2 is None"),
    "NA": (pd.array([0, 1, None, 1], dtype="Int64"), r"the label at row 2 is <NA>"),
    "mixed": ([0, 1, "a", 1], r"the label at row 2 is 'a' \(type str\), and 0 at row 0"),
    "booleans": ([0, 1, True, 1], r"the label at row 2 is True \(type bool\), and 0 at row 0"),
    "bytes": ([b"a", b"b"], r"the label at row 0 is b'a' \(type bytes\); labels must be text"),
    "fixed bytes": (np.array([b"a", b"b"]), r"the label at row 0 is .*b'a'.* \(type bytes_\)"),
    "times": (np.array([0, 1], "datetime64[s]"), r"the label at row 0 is .* \(type datetime64\)"),
    "periods": (pd.period_range("2024", periods=4), r"the label at row 0 is Period"),
    "large": ([1, 10**5000], r"the label at row 1 is an integer beyond 64 bits"),
    "lists": (pd.Series([[1], [2]]), r"the label at row 0 is \[1\] \(type list\)"),
    "masked": (np.ma.array([0, 1], mask=[0, 1]), r"y is a masked array .* at row 1"),
}


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("kind", [BalancedRidgeClassifier, AutoClassifier, TableClassifier])
def test_what_is_not_a_label_has_one_clear_error_and_changes_nothing(kind, bad):
    y, message = BAD[bad]
    model = kind().fit(X, TRUE.astype(int))
    before = model.decision_function(X)
    rows = X[: len(y)]
    for method in (model.fit, model.partial_fit):
        with pytest.raises(ValueError, match=message):
            method(rows, y)
    np.testing.assert_array_equal(model.decision_function(X), before)


GIVEN = {
    "boolean": lambda y: pd.Series(y, dtype="boolean"),
    "bool[pyarrow]": lambda y: pd.Series(y, dtype="bool[pyarrow]"),
    "polars": pl.Series,
    "pyarrow": pa.array,
    "objects": lambda y: np.array(y, dtype=object),
    "int64[pyarrow]": lambda y: pd.Series(y, dtype=int).astype("int64[pyarrow]"),
    "category": lambda y: pd.Series(y).astype("category"),
}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("kind", [BalancedRidgeClassifier, TableClassifier])
def test_labels_have_the_type_in_which_they_were_given(kind, given):
    y = GIVEN[given](TRUE.tolist())
    model = kind().fit(X, y)
    assert model.classes_.dtype == (int if given.startswith("int") else bool)
    assert np.mean(model.predict(X) == TRUE) > 0.9


MASKED = np.ma.array(X, mask=np.eye(40, 2, k=-3, dtype=bool))


@pytest.mark.parametrize("kind", [BalancedRidgeClassifier, AutoClassifier, TableClassifier])
def test_masked_values_are_refused_and_change_nothing(kind):
    model = kind().fit(X, TRUE)
    before = model.decision_function(X)
    weight = np.ma.array(np.ones(40), mask=np.arange(40) == 3)
    for call in (
        lambda: model.partial_fit(MASKED, TRUE),
        lambda: model.predict(MASKED),
        lambda: model.partial_fit(X, TRUE, sample_weight=weight),
    ):
        with pytest.raises(ValueError, match=r"is a masked array with a masked value at row 3;"):
            call()
    np.testing.assert_array_equal(model.decision_function(X), before)
    np.testing.assert_array_equal(model.decision_function(np.ma.array(X)), before)


ODD = {
    "duplicates": (pd.DataFrame(X, columns=["a", "a"]), "two columns are called 'a'"),
    "arrow duplicates": (pa.table([X[:, 0], X[:, 1]], names=["a", "a"]), "columns are called 'a'"),
    "periods": (pd.DataFrame({"p": pd.period_range("2024", periods=40, freq="D")}), "column 'p'"),
    "integers": (pd.DataFrame({"p": [1, 10**5000] * 20}, dtype=object), "column 'p' contains an"),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("kind", [BalancedRidgeClassifier, TableClassifier])
def test_columns_that_cannot_be_learned_are_named(kind, odd):
    rows, message = ODD[odd]
    with pytest.raises(ValueError, match=message):
        kind().fit(rows, TRUE)


COUNTS = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": TRUE.astype(int)})


@pytest.mark.parametrize("option", ["class_factors", "class_weight", "half_life"])
@pytest.mark.parametrize(("frame", "keys"), [(COUNTS, (1, "1")), (FRAME, (True, "true"))])
def test_numbers_by_label_apply_with_keys_as_text_and_as_labels(option, frame, keys):
    def scores(**options):
        return TableClassifier(BalancedRidgeClassifier(**options)).fit(frame, "y").decision_function

    plain = scores()(ROWS)
    first, second = (scores(**{option: {key: 3.0}})(ROWS) for key in keys)
    assert first.tolist() == second.tolist() != plain.tolist()
    with pytest.raises(ValueError, match=f"{option}: unknown class '7'"):
        scores(**{option: {"7": 3.0}})


def test_factors_with_keys_as_text_apply_to_an_average():
    first, second = (
        TableClassifier(AutoClassifier(candidates=["linear"], class_factors={key: 5.0}))
        .fit(COUNTS, "y")
        .decision_function(ROWS)
        for key in (1, "1")
    )
    assert first.tolist() == second.tolist()


@pytest.mark.parametrize(("frame", "keys"), [(COUNTS, (1, "1")), (FRAME, (True, "true"))])
def test_costs_apply_with_keys_as_text_and_as_labels(frame, keys):
    plain = TableClassifier(CostSensitiveClassifier()).fit(frame, "y").predict(ROWS)
    for key in keys:
        model = TableClassifier(CostSensitiveClassifier(costs={key: 1e6})).fit(frame, "y")
        assert model.predict(ROWS).sum() > plain.sum()


@pytest.mark.parametrize("key", [7, "7", "fraud"])
def test_costs_of_no_label_warn(key):
    frame = pd.concat([COUNTS] * 30)
    model = TableClassifier(CostSensitiveClassifier(costs={key: 200.0}))
    with pytest.warns(UserWarning, match=f"costs: no row has the class '{key}' yet"):
        model.fit(frame, "y")
    with pytest.warns(UserWarning, match=f"costs names the label '?{key}'?, which never occurred"):
        model.predict(ROWS)


@pytest.mark.parametrize("is_loaded", [False, True])
def test_another_column_of_labels_than_the_learned_one_is_refused(tmp_path, is_loaded):
    model = TableClassifier().fit(COUNTS, "y")
    if is_loaded:
        model.save(tmp_path / "m.st")
        model = TableClassifier.load(tmp_path / "m.st")
    for method in (model.partial_fit, model.unlearn, model.score):
        with pytest.raises(ValueError, match="label is 'z', but the model was learned with 'y'"):
            method(COUNTS.assign(z=COUNTS["y"]), "z")
    with pytest.raises(ValueError, match="the frame has no column 'y', which contains the labels"):
        model.score(ROWS, "y")
    assert model.class_count_.sum() == len(COUNTS)
    assert model.score(COUNTS, "y") > 0.9


def test_saving_warns_that_costs_are_not_in_the_file_and_how_to_set_them_again(tmp_path):
    model = TableClassifier(CostSensitiveClassifier(costs={1: 20.0})).fit(COUNTS, "y")
    recipe = "loaded.set_params(estimator=CostSensitiveClassifier(loaded.estimator, costs={1: 20.0}"
    with pytest.warns(UserWarning, match=re.escape(recipe)):
        model.save(tmp_path / "m.st")
    loaded = TableClassifier.load(tmp_path / "m.st")
    inner = CostSensitiveClassifier(loaded.estimator, costs={1: 20.0})
    loaded.set_params(estimator=inner)
    assert loaded.predict(ROWS).tolist() == model.predict(ROWS).tolist()
