"""Tables with columns of many categories: automatic, in files, unlearned, merged, in the shell."""

import json

import numpy as np
import pandas as pd
import pytest

from counterpoise import BalancedRidgeClassifier, TableClassifier
from counterpoise.errors import DataError


def payments(n=3000, shops=300, seed=0):
    """Return rows whose label depends on a shop and a small set of countries."""
    rng = np.random.default_rng(seed)
    shop, country = rng.integers(0, shops, n), rng.integers(0, 4, n)
    effect = np.random.default_rng(9).normal(size=shops)
    frame = pd.DataFrame({"amount": rng.normal(size=n), "shop": [f"s{i}" for i in shop]})
    frame["country"] = np.array(list("abcd"))[country]
    frame.loc[rng.random(n) < 0.1, "shop"] = None
    frame.loc[rng.random(n) < 0.1, "amount"] = None
    score = effect[shop] + frame["amount"].fillna(0.0) + rng.normal(size=n)
    frame["fraud"] = np.where(score > 2.2, "yes", "no")
    return frame


def fit(frame, step=None, columns=None, **params):
    model = TableClassifier(BalancedRidgeClassifier(**params), columns=columns or {})
    for i in range(0, len(frame), step or len(frame)):
        model.partial_fit(frame[i : i + (step or len(frame))], "fraud")
    return model


def distance(one, other, frame):
    rows = frame.drop(columns="fraud")
    names = ("decision_function", "predict_proba", "predict_stream_proba")
    return max(np.abs(getattr(one, f)(rows) - getattr(other, f)(rows)).max() for f in names)


@pytest.mark.parametrize("step", [20, 130, 1000])
def test_a_column_has_many_categories_from_the_101st_on_in_any_chunks(step):
    frame = payments()
    found, named = fit(frame, step), fit(frame, columns={"shop": "many"})
    assert list(found._model.encoding.vocabularies) == ["shop"]
    assert "shop=s1" not in found.get_feature_names_out()
    assert distance(found, named, frame) < 1e-11
    assert found.transform(frame.drop(columns="fraud")).shape[1] == len(found.feature_columns_)


def test_up_to_100_categories_are_features():
    frame = payments(shops=90)
    assert not fit(frame, 500)._model.encoding.vocabularies
    assert fit(frame, 500, {"shop": "many"})._model.encoding.vocabularies["shop"].size == 90


def test_files_merging_and_unlearning_equal_learning_the_rows(tmp_path):
    frame = payments()
    first, second = frame[:1800], frame[1800:]
    whole, one, two = fit(frame), fit(first, 700), fit(second)
    assert distance(one.merge(two), whole, frame) < 1e-11
    whole.save(tmp_path / "m")
    again = TableClassifier.load(tmp_path / "m")
    assert distance(again, whole, frame) == 0.0
    rows = second.drop(columns="fraud")
    again.unlearn(rows, second["fraud"])
    assert distance(again, one, frame) < 1e-10


def test_a_category_without_rows_leaves_the_file(tmp_path):
    frame = payments()
    model = fit(frame, columns={"shop": "many"})
    gone = frame["shop"] == "s7"
    assert gone.sum() > 3
    model.unlearn(frame[gone].drop(columns="fraud"), frame["fraud"][gone])
    model.save(tmp_path / "m")
    assert b'"s7"' not in (tmp_path / "m").read_bytes()
    assert b'"s8"' in (tmp_path / "m").read_bytes()
    assert distance(model, fit(frame[~gone], columns={"shop": "many"}), frame[~gone]) < 1e-10


def test_calibrated_fits_do_not_depend_on_the_order_of_the_rows():
    frame = payments()
    order = np.random.default_rng(1).permutation(len(frame))
    models = [TableClassifier(BalancedRidgeClassifier(calibrate=True)) for _ in range(2)]
    models[0].fit(frame, "fraud")
    models[1].fit(frame.iloc[order], "fraud")
    assert distance(*models, frame) < 1e-10


def test_contributions_add_up_to_the_score():
    frame = payments()
    model = fit(frame)
    rows = frame[:50].drop(columns="fraud")
    found = model.explain(rows)
    assert found.feature_names == ["amount", "country", "shop"]
    total = found.base_values + found.values.sum(axis=1)
    np.testing.assert_allclose(total, model.decision_function(rows), rtol=1e-9)


def test_identifiers_and_quadratic_boundaries_are_refused():
    frame = payments(2500)
    frame["id"] = [f"id{i}" for i in range(len(frame))]
    with pytest.raises(DataError, match=r"'id' has 2,500 categories in 2,500 rows, like an ident"):
        fit(frame)
    with pytest.raises(DataError, match="need linear boundaries: leave pooled_rows out"):
        fit(payments(), columns={"shop": "many"}, pooled_rows=10.0)


def test_the_shell_learns_and_shows_categories(run):
    payments().to_csv("t.csv", index=False)
    run("learn", "t.csv", "--label", "fraud", "-m", "m.st", "--many", "shop=10")
    shown = run("inspect", "m.st").out
    assert "shop: 300 categories, ridge worth 10 rows" in shown
    found = json.loads(run("inspect", "m.st", "--json").out)["categories"]["shop"]
    assert (found["categories"], found["ridge_rows"], len(found["largest"])) == (300, 10.0, 20)
    sizes = [abs(one["effects"][0]) for one in found["largest"]]
    assert sizes == sorted(sizes, reverse=True)
    wrong = run("learn", "t.csv", "--label", "fraud", "-m", "n.st", "--many", "shop=-1", code=2)
    assert "--many must be COLUMN, or COLUMN=ROWS" in wrong.err
