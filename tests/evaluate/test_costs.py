"""Costs of decisions: thresholds, costs by row, alerts by cost and by day, logged predictions."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from counterpoise import BalancedRidgeClassifier, CostSensitiveClassifier
from counterpoise.evaluate.cost_curve import cost_curve, reliability, should_alert
from counterpoise.tables.alerts import DailyQuota, TopShare

LEARN = ["--label", "fraud", "--drop", "payment,when,price", "--model", "m"]


def draw_predictions(rows=200, seed=0, steps=20):
    """Labels, probabilities with ties, and the price of each row."""
    rng = np.random.default_rng(seed)
    p = rng.integers(0, steps + 1, rows) / steps
    return (rng.random(rows) < p).astype(int), p, rng.exponential(50.0, rows) + 1.0


@pytest.mark.slow
@given(st.integers(0, 1000), st.booleans(), st.sampled_from([1, 7, 200]))
def test_the_curve_is_what_each_threshold_costs(seed, priced, rows):
    y, p, price = draw_predictions(rows, seed)
    miss, alarm = (price if priced else 20.0), 3.0
    curve = cost_curve(y, p, miss=miss, alarm=alarm)
    assert curve.thresholds.tolist() == [np.inf, *sorted(set(p.tolist()), reverse=True)]
    for t, cost, misses, alarms in zip(
        curve.thresholds, curve.cost, curve.misses, curve.alarms, strict=True
    ):
        alert = p >= t
        missed = (y == 1) & ~alert
        assert (misses, alarms) == (missed.sum(), ((y == 0) & alert).sum())
        bill = np.where(missed, miss, 0.0).sum() + alarm * alarms
        assert cost == pytest.approx(bill, rel=1e-9, abs=1e-9)  # sums in another order
        assert curve.at(float(t)) == cost
    assert curve.least == curve.at(curve.best) == curve.cost.min()
    assert curve.never == pytest.approx(np.where(y == 1, miss, 0.0).sum(), rel=1e-12)
    assert curve.always == pytest.approx(alarm * (y == 0).sum(), abs=1e-9)


def test_an_alert_pays_where_its_threshold_is_reached():
    _, p, price = draw_predictions(500)
    for miss in (0.5, 20.0, price):
        expected = p >= 2.0 / (2.0 + miss)
        near = np.isclose(p, 2.0 / (2.0 + miss), rtol=1e-12)
        np.testing.assert_array_equal(should_alert(p, miss, 2.0)[~near], expected[~near])


@pytest.mark.parametrize("p", [0.0, 0.02, 0.0244, 0.1, 1.0])
def test_a_decision_about_one_row_is_that_of_an_array(p):
    (expected,) = should_alert([p], 200.0, 5.0).tolist()
    for number in (p, np.float64(p), np.array(p)):
        assert should_alert(number, 200.0, 5.0) is expected
    with pytest.raises(ValueError, match="miss must be one number, not of shape"):
        should_alert(p, [200.0], 5.0)


@pytest.mark.slow
def test_risk_classifiers_decide_as_alerts_do():
    rng = np.random.default_rng(0)
    y = (rng.random(3000) < 0.03).astype(int)
    X = rng.standard_normal((3000, 2)) + 1.5 * y[:, None]
    model = CostSensitiveClassifier(BalancedRidgeClassifier(calibrate=True), costs={1: 20}).fit(
        X, y
    )
    np.testing.assert_array_equal(
        model.predict(X) == 1, should_alert(model.predict_proba(X)[:, 1], 20.0, 1.0)
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"miss": 0.0}, "miss must be a finite number above 0, but is 0"),
        ({"miss": -1.0}, "miss must be a finite number above 0, but is -1"),
        ({"miss": np.inf}, "miss must be a finite"),
        ({"miss": 1.0, "alarm": 0.0}, "alarm must be a finite number above 0"),
        ({"miss": [1.0, 2.0]}, "miss must be one number, or one of each of 3 rows"),
        ({"miss": [1.0, -2.0, 1.0]}, "but is -2 in row 1"),
        ({"miss": 1.0, "alarm": [1.0, 2.0, 3.0]}, "alarm must be one number"),
    ],
)
def test_bad_prices(given, message):
    with pytest.raises(ValueError, match=message):
        cost_curve([0, 1, 0], [0.1, 0.2, 0.3], **given)


def test_bad_probabilities():
    with pytest.raises(ValueError, match="of one length"):
        cost_curve([0, 1, 0], [0.1, 0.2], miss=1.0)
    with pytest.raises(ValueError, match="row 1 is nan"):
        cost_curve([0, 1], [0.1, np.nan], miss=1.0)


def test_bins_of_reliability_hold_all_rows_and_their_shares():
    rng = np.random.default_rng(0)
    p = rng.random(5000) ** 4
    mine = rng.random(5000) < p
    found = reliability(mine, p)
    assert found.rows.sum() == 5000
    assert found.rows @ found.predicted == pytest.approx(p.sum())
    assert found.rows @ found.share == pytest.approx(mine.sum())
    assert (np.diff(found.predicted) > 0).all()
    deviation = np.sqrt(found.predicted * (1 - found.predicted) / found.rows)
    assert (
        np.abs(found.predicted - found.share) < 4 * deviation + 0.02
    ).all()  # four standard errors


def test_the_highest_are_a_share_of_the_recent():
    values = np.random.default_rng(0).random(3000)
    flags = TopShare(0.1).select(values)
    assert abs(flags[500:].mean() - 0.1) < 0.02
    assert values[flags].min() > 0.7


def test_alerts_per_day_never_exceed_and_are_nearly_all_spent():
    rng = np.random.default_rng(0)
    when = np.sort(rng.uniform(0, 30 * 86400.0, 20_000))
    values = rng.random(20_000)
    flags = DailyQuota(20, "when").select(values, when)
    spent = np.bincount((when[flags] // 86400).astype(int), minlength=30)
    assert spent.max() <= 20
    assert spent[1:].mean() > 15  # those highest by the rate, less what days above it lose
    assert values[flags].min() > 0.95


# In a shell


@pytest.fixture
def payments(tmp_path):
    """Payments with a price and a time."""
    rng = np.random.default_rng(0)
    n = 2000
    fraud = rng.random(n) < 0.05
    frame = pd.DataFrame(
        {
            "payment": np.arange(n),
            "amount": (rng.standard_normal(n) + 1.5 * fraud).round(4),
            "price": rng.exponential(80.0, n).round(2) + 1,
            "when": pd.Timestamp("2026-01-01") + pd.to_timedelta(np.arange(n) * 600, unit="s"),
            "fraud": np.where(fraud, "yes", "no"),
        }
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    return frame


@pytest.mark.slow
def test_alerts_by_price(run, payments):
    run("learn", "t.csv", *LEARN)
    run("predict", "m", "t.csv", "--cost-miss", 200, "--cost-alarm", 5, "-o", "a.csv")
    found = pd.read_csv("a.csv")
    np.testing.assert_array_equal(found.alert, should_alert(found.proba_stream_yes, 200.0, 5.0))
    run("predict", "m", "t.csv", "--cost-miss-column", "price", "--cost-alarm", 5, "-o", "b.csv")
    found = pd.read_csv("b.csv")
    np.testing.assert_array_equal(
        found.alert, should_alert(found.proba_stream_yes, payments.price, 5.0)
    )
    payments.assign(price=payments.price.where(payments.payment % 3 > 0)).to_csv("gaps.csv")
    run("predict", "m", "gaps.csv", "--ignore-unknown", "--cost-miss-column", "price",
        "--cost-miss", 9, "-o", "c.csv")  # fmt: skip
    found = pd.read_csv("c.csv")
    price = payments.price.where(payments.payment % 3 > 0, 9.0)
    np.testing.assert_array_equal(found.alert, should_alert(found.proba_stream_yes, price, 1.0))
    run("predict", "m", "t.csv", "--alerts-per-day", 4, "--timestamp", "when", "-o", "d.csv")
    spent = payments.when[pd.read_csv("d.csv").alert].dt.date.value_counts()
    assert spent.max() == 4
    assert spent.sum() > 30
    top = ["--top-per-day", 4, "--timestamp", "when", "--id", "when"]
    for more in ([], ["--output-format", "jsonl"]):
        run("predict", "m", "t.csv", "t.csv", *top, *more, "-o", "e.csv")
        found = pd.read_json("e.csv", lines=True) if more else pd.read_csv("e.csv")
        days = pd.to_datetime(found.when).dt.date
        highest = found.groupby(days).score.rank(ascending=False, method="first") <= 4
        np.testing.assert_array_equal(found.alert, highest)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--cost-miss", "0"], "must be a finite number above 0; got 0"),
        (["--cost-miss", "-3"], "must be a finite number above 0; got -3"),
        (["--cost-miss", "5", "--cost-alarm", "0"], "must be a finite number above 0; got 0"),
        (["--cost-alarm", "5"], "requires --cost-miss"),
        (["--cost-miss", "5", "--alert-rate", "0.1"], "cannot be combined"),
        (["--cost-miss-column", "prize"], "t.csv has no column 'prize', named by --cost-miss-col"),
        (["--cost-miss-column", "fraud"], "t.csv, row 1: column 'fraud' contains 'no', which is"),
        (["--alerts-per-day", "0"], "must be 1 or more"),
        (["--alerts-per-day", "3"], "requires --timestamp"),
        (["--alerts-per-day", "3", "--timestamp", "at"], "no column 'at', named by --timest"),
        (["--alerts-per-day", "3", "--timestamp", "fraud"], "row 1: column 'fraud' contains 'no'"),
        (["--timestamp", "when"], "requires --alerts-per-day"),
        (["--top-per-day", "0"], "must be 1 or more"),
        (["--top-per-day", "3"], "requires --timestamp"),
        (["--top-per-day", "3", "--alerts-per-day", "3"], "cannot be combined"),
    ],
)  # fmt: skip
def test_bad_prices_in_a_shell(run, payments, tmp_path, options, message):
    run("learn", "t.csv", *LEARN)
    before = (tmp_path / "m").read_bytes()
    assert message in run("predict", "m", "t.csv", *options, code=2).err
    assert (tmp_path / "m").read_bytes() == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("0", "column 'price' contains 0, but the cost of a miss must be a finite number above 0;"),
        ("-5", "column 'price' contains -5, but the cost of a miss"),
        ("", "named by --cost-miss-column; fill it in, or name the cost of such rows with --cost-"),
        ("much", "column 'price' contains 'much', which is not a number"),
    ],
)  # fmt: skip
def test_bad_cells_of_prices(run, payments, cell, message):
    run("learn", "t.csv", *LEARN)
    frame = payments.astype({"price": object})
    frame.loc[16, "price"] = cell
    frame.to_csv("bad.csv", index=False)
    for command in (["predict", "m", "bad.csv"], ["evaluate", "m", "bad.csv"]):
        done = run(*command, "--cost-miss-column", "price", code=2).err
        assert "bad.csv, row 17: " in done
        assert message in done


@pytest.mark.slow
def test_evaluate_prints_the_cost_of_decisions(run, payments):
    run("learn", "t.csv", *LEARN)
    run("predict", "m", "t.csv", "-o", "p.csv")
    p = pd.read_csv("p.csv").proba_stream_yes.to_numpy()
    for more, miss in (
        (["--cost-miss", 200], 200.0),
        (["--cost-miss-column", "price"], payments.price),
    ):
        costs = ["--cost-alarm", 5, *more]
        found = json.loads(run("evaluate", "m", "t.csv", *costs, "--json").out)["costs"]
        curve = cost_curve(payments.fraud, p, miss=miss, alarm=5.0, positive="yes")
        alert, fraud = should_alert(p, miss, 5.0), payments.fraud == "yes"
        bill = np.where(fraud & ~alert, miss, 0.0).sum() + 5.0 * (~fraud & alert).sum()
        assert found["cost"] == pytest.approx(bill)
        assert found["best"] == pytest.approx(curve.least)
        assert found["never"] == pytest.approx(curve.never)
    page = "r.html"
    assert "cost\t" in run("evaluate", "m", "t.csv", *costs, "--report", page).out
    text = open(page).read()  # noqa: SIM115
    assert "Cost of each threshold" in text
    assert "Calibration" in text


# Logged predictions


@pytest.fixture
def log_table(run, payments):
    """Predictions with alerts, and labels of 1,500 of them, in another order."""
    run("learn", "t.csv", *LEARN)
    run("predict", "m", "t.csv", "--id", "payment,price", "--cost-miss", 100, "-o", "scored.csv")
    labels = payments[["payment", "fraud"]].sample(1500, random_state=0)
    labels.to_csv("labels.csv", index=False)
    return labels


SERVED = ["evaluate", "--predictions", "scored.csv", "--labels", "labels.csv", "--id", "payment"]


@pytest.mark.slow
def test_logged_predictions_are_evaluated_as_they_were(run, log_table, payments):
    told = run(*SERVED, "--json", "--cost-miss", 100)
    assert "500 predictions have no label yet" in told.err
    found = json.loads(told.out)
    rows = log_table.sort_index().index
    payments.loc[rows].to_csv("some.csv", index=False)
    plain = run("evaluate", "m", "some.csv", "--json", "--cost-miss", 100).out
    assert found == json.loads(plain)
    # The model may change; the logged predictions stay.
    scored = pd.read_csv("scored.csv")
    scored["alert"] = False
    scored.to_csv("scored.csv", index=False)
    costs = json.loads(run(*SERVED, "--json", "--cost-miss-column", "price").out)["costs"]
    assert costs["cost"] == costs["never"] > 0
    assert run(*SERVED, "--report", "r.html").err.count("report: r.html") == 1


@pytest.mark.slow
@pytest.mark.parametrize("positive", ["no", "yes"])
def test_a_larger_score_means_the_positive_class(run, payments, positive):
    run("learn", "t.csv", *LEARN, "--positive", positive)
    run("predict", "m", "t.csv", "--id", "payment", "--explain", 1, "-o", "scored.csv")
    found = pd.read_csv("scored.csv")
    odds = found[f"proba_stream_{positive}"]
    assert (np.diff(odds.iloc[np.argsort(found.score)]) >= 0).all()
    assert ((found.score > 0) == (found.prediction == positive)).all()
    # One feature: its contribution raises the score where the score is above the usual one.
    assert found.share_1.abs().eq(1.0).all()
    assert np.corrcoef(np.sign(found.share_1), found.score)[0, 1] > 0.5
    # The ranking of logged predictions does not depend on the sign of the score.
    payments[["payment", "fraud"]].to_csv("labels.csv", index=False)
    found = json.loads(run(*SERVED, "--json").out)
    assert found == json.loads(run("evaluate", "m", "t.csv", "--json").out)


@pytest.mark.slow
def test_bad_predictions_and_labels(run, log_table, tmp_path):
    whole = (tmp_path / "labels.csv").read_text(), (tmp_path / "scored.csv").read_text()
    first = whole[0].splitlines()[1]
    bad = {
        (0, whole[0] + first + "\n"): "is also that of labels.csv, row 1",
        (0, whole[0].replace("payment", "number")): "no column 'payment', named by --id",
        (
            0,
            whole[0].replace("fraud", "x,y").replace("no", "no,").replace("yes", "yes,"),
        ): "name the one that contains",
        (0, "payment,fraud\n-1,no\n"): "no prediction has a label",
        (0, whole[0] + "1999999,\n"): "no label in column 'fraud'",
        (1, whole[1] + whole[1].splitlines()[1] + "\n"): "is also that of scored.csv, row 1",
        (1, whole[1].replace("stream_", "flow_")): "has no column proba_stream_LABEL",
    }
    for (which, text), message in bad.items():
        for name, content in zip(("labels.csv", "scored.csv"), whole, strict=True):
            (tmp_path / name).write_text(content)
        (tmp_path / ("labels.csv", "scored.csv")[which]).write_text(text)
        assert message in run(*SERVED, code=2).err
    assert "requires --labels" in run(*SERVED[:3], code=2).err
    assert "leave MODEL out" in run("evaluate", "m", *SERVED[1:], code=2).err
    assert "name a model and files" in run("evaluate", code=2).err
