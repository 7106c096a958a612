"""Reasons by command line: by column of the input, in predictions and in reports."""

import base64
import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from counterpoise import AutoClassifier, BalancedRidgeClassifier


def payments(rows=600, seed=0, classes=2):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    return pd.DataFrame(
        {
            "id": [f"p{i}" for i in range(rows)],
            "amount": (rng.exponential(20.0, rows) * (1 + 3 * y)).round(3),
            "country": rng.choice(["DE", "FR", "KP"], rows),
            "night": (rng.random(rows) < 0.2 + 0.3 * (y > 0)).astype(int),
            "label": np.array(["ok", "fraud", "error"])[y],
        }
    )


@pytest.fixture
def learn_payments(run):
    def learn(classes=2, *more):
        payments(classes=classes).to_csv("day.csv", index=False)
        run("learn", "day.csv", "--label", "label", "--drop", "id", "-m", "m.st", *more)

    return learn


def read(run, *more):
    return pd.read_csv(io.StringIO(run("predict", "m.st", "day.csv", *more).out))


@pytest.mark.slow
@pytest.mark.parametrize(
    "more", [(), ("--pooled-rows", "10"), ("--feature-map", "rm2"), ("--feature-map", "auto")]
)
@pytest.mark.parametrize("classes", [2, 3])
def test_predictions_contain_columns_of_reasons_and_shares(run, learn_payments, classes, more):
    learn_payments(classes, *more)
    plain, found = read(run), read(run, "--explain", "3")
    names = ["reason_1", "share_1", "reason_2", "share_2", "reason_3", "share_3"]
    assert found.columns.tolist() == [*plain.columns, *names]
    pd.testing.assert_frame_equal(found[plain.columns], plain)
    model = (AutoClassifier if "auto" in more else BalancedRidgeClassifier).load("m.st")
    table = payments(classes=classes)
    X = np.zeros((len(table), len(model.feature_names_in_)))
    columns = []
    for j, name in enumerate(model.feature_names_in_.tolist()):
        column, _, value = name.partition("=")
        columns.append(column)
        X[:, j] = (table[column] == value) if value else table[column]
    expected = model.explain(pd.DataFrame(X, columns=model.feature_names_in_)).group_by_column(
        columns
    )
    top, values = expected.top(3)
    # Three columns, so that all shares are there and their sizes add up to 1.
    assert found[["reason_1", "reason_2", "reason_3"]].to_numpy().tolist() == top.tolist()
    shares = found[["share_1", "share_2", "share_3"]].to_numpy()
    size = np.abs(values).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(shares, values / size, atol=1e-9)
    np.testing.assert_allclose(np.abs(shares).sum(axis=1), 1.0, atol=1e-9)


def test_more_reasons_than_columns_and_tables_without_rows_are_accepted(run, learn_payments):
    learn_payments()
    run("predict", "m.st", "day.csv", "--explain", "5", "-o", "scored.parquet")
    found = pq.read_table("scored.parquet")
    assert found["reason_5"].null_count == len(found) == found["share_5"].null_count
    assert str(found.schema.field("reason_5").type) == "string"
    Path("none.csv").write_text("amount,country,night\n")
    out = run("predict", "m.st", "none.csv", "--explain", "1").out
    assert out.strip().endswith("reason_1,share_1")


@pytest.mark.parametrize("wrong", ["0", "-1", "101"])
def test_an_invalid_number_of_reasons_is_refused(run, learn_payments, wrong):
    learn_payments()
    done = run("predict", "m.st", "day.csv", "--explain", wrong, code=2)
    assert "must be from 1 to 100" in " ".join(done.err.split())


def test_a_column_of_the_name_of_a_reason_is_refused(run, learn_payments):
    learn_payments()
    payments().rename(columns={"id": "reason_1"}).to_csv("clash.csv", index=False)
    done = run("predict", "m.st", "clash.csv", "--explain", "1", "--id", "reason_1", code=2)
    assert "has the name of a column of the predictions" in " ".join(done.err.split())


@pytest.mark.slow
@pytest.mark.parametrize(("classes", "more"), [(2, ()), (3, ()), (2, ("--feature-map", "auto"))])
def test_reports_show_the_columns_that_matter_and_one_row(run, learn_payments, classes, more):
    pytest.importorskip("matplotlib")
    learn_payments(classes, *more)
    run("evaluate", "m.st", "day.csv", "--report", "page.html", "--positive", "fraud")
    page = Path("page.html").read_text()
    assert "Feature importance" in page
    assert "Explanation of the highest-scoring row" in page
    assert "Largest: amount" in page
    images = re.findall(r'alt="Feature importance" src="data:image/svg\+xml;base64,([^"]+)"', page)
    assert "<!-- amount -->" in base64.b64decode(images[0]).decode()


def test_a_benchmark_requires_a_label(run):
    payments().to_csv("day.csv", index=False)
    done = run("benchmark", "day.csv", code=2)
    assert "missing --label; name the column" in " ".join(done.err.split())
    assert "Traceback" not in done.err


@pytest.mark.slow
def test_a_benchmark_shows_the_columns_that_scores_depend_on(run, learn_payments):
    pytest.importorskip("matplotlib")
    payments(300).to_csv("day.csv", index=False)
    run("benchmark", "day.csv", "--label", "label", "--drop", "id", "--positive", "fraud",
        "--report", "benchmark.html", "--only", "RLS")  # fmt: skip
    page = Path("benchmark.html").read_text()
    assert "Explanation of the highest-scoring row" in page
