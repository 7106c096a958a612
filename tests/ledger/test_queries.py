"""Queries of a ledger give the results of the rows."""

import numpy as np
import pyarrow as pa
import pytest
from ledgers import DAY, a_year
from scipy import stats

from counterpoise import BalancedRidgeClassifier, Ledger
from counterpoise.errors import DataError
from counterpoise.ledger.bucket_series import solve_series, solver_options
from counterpoise.ledger.compare import compare_jointly
from counterpoise.ledger.drift import _loss_chart
from counterpoise.ledger.synthetic import BEGIN, NORWAY, RELEASE, WAVE, payments

DAYS = 366


@pytest.fixture(scope="module")
def year(tmp_path_factory):
    tables, beside = a_year(days=DAYS, rows=60)
    path = tmp_path_factory.mktemp("year") / "l"
    with Ledger.open(path, label="fraud", timestamp="at", by="country") as ledger:
        for table in tables:
            ledger.learn(table, allow_new_columns=True)
        ledger.summary()  # a query reads what was learned; tests of parts of one need it
        yield ledger, beside


def loss_of(fresh, X, y):
    """Mean over the classes of the mean squared difference from the targets."""
    target = np.where(y == fresh.classes_[1], 1.0, -1.0)
    squares = (target - fresh.decision_function(X)) ** 2
    return np.mean([squares[y == label].mean() for label in fresh.classes_])


def find_indices(names, beside):
    return [beside.names.index(name) for name in names]


# Loss


@pytest.mark.slow
def test_the_loss_is_that_of_the_rows(year):
    ledger, beside = year
    found = ledger.compare({"until": "2024-06-01"}, {"since": "2024-06-01"})
    early = beside.day < 19875
    models = [beside.fresh(flags.astype(float)) for flags in (early, ~early)]
    for i, model in enumerate(models):
        for j, rows in enumerate((early, ~early)):
            wanted = loss_of(model, beside.X[rows], beside.y[rows])
            assert abs(found.loss[i, j] - wanted) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"ridge": 0.3, "class_weight": None, "scale": None},
                                     {"fit_intercept": False}, {"penalize_intercept": False},
                                     {"class_factors": {"fraud": 3.0}}])  # fmt: skip
def test_sets_solved_at_once_are_solved_like_one(year, options):
    ledger, beside = year
    series = ledger._snapshot.series()
    W = np.zeros((2, len(series)))
    W[0, 10:170], W[1] = 1.0, 0.5 ** (np.arange(len(series))[::-1] / 20)
    lines = solve_series(series.sum(W), solver_options(options))
    for w, coef, offset in zip(W, lines.coef, lines.offset, strict=True):
        fresh = beside.fresh(w[beside.day - beside.day.min()], **options)
        order = find_indices(ledger.features, beside)
        unit = beside.X.std(axis=0)[order]
        assert np.abs((coef[0] - fresh.coef_[0][order]) * unit).max() < 1e-9
        constant = offset[0] - coef[0] @ series.anchor
        centre = beside.X.mean(axis=0)
        wanted = fresh.coef_[0] @ centre + fresh.intercept_[0]
        assert abs(constant + coef[0] @ centre[order] - wanted) < 1e-9


# Backtest


@pytest.mark.slow
def test_a_backtest_is_that_of_the_rows(year):
    ledger, beside = year
    found = ledger.backtest(
        train=[30, 90], test=7, half_life=[None, 20], ridge=["auto", 0.5],
        features={"all": ledger.features, "amounts": ["amount", "country"]}, since="2024-03-01",
    )  # fmt: skip
    assert len(found.settings) == 16
    assert found.loss.shape == (16, len(found.start))
    day = beside.day - beside.day.min()
    begin = 60  # 1 March
    for i in (0, 3, 7, 13):
        way = found.settings[i]
        for g in (0, 5, 20):
            first = begin + 90 + 7 * g
            assert found.start[g] == BEGIN + first * DAY
            weight = ((day >= first - way.train) & (day < first)).astype(float)
            if way.half_life is not None:
                weight *= 2.0 ** (-(first - 1 - day) / way.half_life * (weight > 0))
            X = beside.X
            if way.features == "amounts":
                some = [n for n in beside.names if n == "amount" or n.startswith("country")]
                X = X[:, find_indices(some, beside)]
            fresh = BalancedRidgeClassifier(ridge=way.ridge)
            fresh.fit(X[weight > 0], beside.y[weight > 0], weight[weight > 0])
            test = (day >= first) & (day < first + 7)
            assert abs(found.loss[i, g] - loss_of(fresh, X[test], beside.y[test])) < 1e-9
    assert found.best is found.settings[int(found.total[:, 0].argmin())]


@pytest.mark.slow
def test_the_estimated_g_mean_is_near_that_of_the_rows(year):
    ledger, beside = year
    found = ledger.compare({"until": "2024-04-01"}, {"since": "2024-04-01", "until": "2024-05-01"})
    day = beside.day - beside.day.min()
    fresh = beside.fresh((day < 91).astype(float))
    test = (day >= 91) & (day < 121)
    said = fresh.predict(beside.X[test])
    recall = [(said == label)[beside.y[test] == label].mean() for label in fresh.classes_]
    assert abs(found.g_mean[0, 1] - np.sqrt(np.prod(recall))) < 0.1  # an estimate


# Comparing


def test_tests_of_features_are_those_of_scipy(year):
    ledger, beside = year
    found = ledger.compare({"until": "2024-06-01"}, {"since": "2024-06-01"})
    early = beside.day < 19875
    raw = np.full(found.shift.shape, np.nan)
    for k, label in enumerate(found.labels):
        for j, name in enumerate(found.names):
            column = beside.X[:, beside.names.index(name)]
            one, two = column[early & (beside.y == label)], column[~early & (beside.y == label)]
            raw[k, j] = stats.ttest_ind(one, two, equal_var=False).pvalue
            pooled = np.sqrt(
                (one.var() * len(one) + two.var() * len(two)) / (len(one) + len(two) - 2)
            )
            assert np.isclose(found.shift[k, j], (two.mean() - one.mean()) / pooled, rtol=1e-9)
            if one.std() > 0:
                assert np.isclose(found.spread[k, j], two.std() / one.std(), rtol=1e-9)
    flat = np.sort(raw, axis=None)
    holm = np.minimum(np.maximum.accumulate(flat * np.arange(len(flat), 0, -1)), 1.0)
    assert np.allclose(np.sort(found.shift_p, axis=None), holm, rtol=1e-6, atol=1e-300)
    assert found.count.sum() == len(beside.y)


def learn_days(path, parts):
    """A ledger of days, each with rows of class 0 and of class 1."""
    ledger = Ledger.open(path, label="y", timestamp="at")
    X = np.vstack([rows for part in parts for rows in part])
    y = np.concatenate([np.repeat([0, 1], [len(common), len(rare)]) for common, rare in parts])
    days = [len(common) + len(rare) for common, rare in parts]
    at = np.repeat(np.arange(len(parts)) * DAY, days).astype("datetime64[s]")
    ledger.learn({"at": at, **{f"x{j}": X[:, j] for j in range(X.shape[1])}, "y": y})
    return ledger


def test_hotelling_and_the_likelihood_ratio_are_their_formulas(tmp_path):
    rng = np.random.default_rng(0)
    parts = [(rng.standard_normal((300, 4)), rng.standard_normal((80, 4))) for _ in range(2)]
    with learn_days(tmp_path / "l", parts) as ledger:
        found = ledger.compare({"until": "1970-01-02"}, {"since": "1970-01-02"})
    for k in (0, 1):
        one, two = parts[0][k], parts[1][k]
        n, m, p = len(one), len(two), 4
        pooled = ((n - 1) * np.cov(one.T) + (m - 1) * np.cov(two.T)) / (n + m - 2)
        delta = two.mean(axis=0) - one.mean(axis=0)
        T2 = n * m / (n + m) * delta @ np.linalg.solve(pooled, delta)
        assert np.isclose(found.together[k]["means"]["statistic"], T2)
        M = (n + m - 2) * np.linalg.slogdet(pooled)[1]
        M -= (n - 1) * np.linalg.slogdet(np.cov(one.T))[1]
        M -= (m - 1) * np.linalg.slogdet(np.cov(two.T))[1]
        c = (1 / (n - 1) + 1 / (m - 1) - 1 / (n + m - 2)) * (2 * p * p + 3 * p - 1)
        M *= 1 - c / (6 * (p + 1))
        assert np.isclose(found.together[k]["covariances"]["statistic"], M)
        assert found.together[k]["covariances"]["df"] == 10


@pytest.mark.slow
def test_both_tests_reject_as_often_as_they_say():
    """Under no change p values are uniform: 0.05 ± 3 deviations of 1,000 trials."""
    rng, means, covariances = np.random.default_rng(3), [], []
    for _ in range(1000):
        one, two = rng.standard_normal((40, 4)), rng.standard_normal((30, 4))
        S = np.stack([np.cov(X.T, bias=True) for X in (one, two)])
        found = compare_jointly(np.array([40.0, 30.0]), two.mean(axis=0) - one.mean(axis=0), S)
        means.append(found["means"]["p"])
        covariances.append(found["covariances"]["p"])
    for p in (means, covariances):
        share = np.mean(np.array(p) < 0.05)
        assert abs(share - 0.05) < 3 * np.sqrt(0.05 * 0.95 / 1000)


# Drift


@pytest.mark.slow
def test_drift_finds_the_wave_the_release_and_the_new_country(tmp_path):
    with Ledger.open(tmp_path / "l", label="fraud", timestamp="at", by="country") as ledger:
        for table in payments(rows=150):
            ledger.learn(table, allow_new_columns=True)
        found = ledger.drift()
    day = (found.start - BEGIN) // DAY
    moved = {}
    for g in np.flatnonzero(found.alarms):
        for label, name, _ in found.largest_shifts(g, 100):
            moved.setdefault((label, name), []).append(int(day[g]))
    assert any(WAVE[0] <= at < WAVE[1] for at in moved["fraud", "amount"])
    assert any(RELEASE <= at < RELEASE + 3 for at in moved["ok", "age"])
    assert any(NORWAY <= at < NORWAY + 7 for at in moved["ok", "country=NO"])


HEAVY = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "t3": lambda rng, shape: rng.standard_t(3.0, shape),
    "log-normal": lambda rng, shape: rng.lognormal(0.0, 1.0, shape),
    "zeros": lambda rng, shape: rng.lognormal(0.0, 1.0, shape) * (rng.random(shape) < 0.1),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*HEAVY, "daily"])
def test_limits_of_drift_keep_their_level(tmp_path, kind):
    """300 buckets without a change: at the level 0.05 fewer than 15 + 3 deviations.

    benchmarks/proofs/ledger.py measures the rates.
    """
    rng = np.random.default_rng(5)
    draw = HEAVY.get(kind, HEAVY["normal"])
    parts = []
    for _ in range(300):
        level = rng.standard_normal(4) if kind == "daily" else 0.0
        parts.append((draw(rng, (60, 4)) + level, draw(rng, (12, 4)) + 0.5 + level))
    with learn_days(tmp_path / "l", parts) as ledger:
        assert ledger.drift(level=0.05).alarms.sum() < 15 + 3 * np.sqrt(15)
        assert not ledger.drift(level=1e-6).alarms.any()


# Uncertainty


@pytest.mark.slow
def test_standard_errors_are_those_of_models_without_each_bucket(year):
    ledger, beside = year
    model = ledger.model(since="2024-08-01", until="2024-09-01", half_life=10)
    X, _ = ledger.encode(a_year(days=190, rows=5)[0][0], model)
    found = ledger.uncertainty(model, X)
    assert np.allclose(found.coef, model.coef_, rtol=1e-9)
    assert np.allclose(found.scores[:, 0], model.decision_function(X), rtol=1e-9)
    first, last = 19936, 19967
    coef, scores = [], []
    at = find_indices(model.names_, beside)
    for out in range(first, last):
        inside = (beside.day >= first) & (beside.day < last) & (beside.day != out)
        weight = np.where(inside, 2.0 ** (-(last - 1 - beside.day) / 10.0), 0.0)
        fresh = BalancedRidgeClassifier().fit(
            beside.X[inside][:, at], beside.y[inside], weight[inside]
        )
        coef.append(fresh.coef_[0])
        scores.append(fresh.decision_function(X))
    for errors, values in ((found.coef_error[0], coef), (found.scores_error[:, 0], scores)):
        g = len(values)
        assert np.allclose(errors, np.sqrt((g - 1) * (g - 1) / g * np.var(values, axis=0, ddof=1)))
    assert 0.5 < found.g_mean < 1.0
    assert 0.0 < found.g_mean_error < 0.1


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"multi_class": "ovr"}, {"class_weight": None}])
def test_standard_errors_of_several_classes_are_of_the_coefficients_of_the_model(tmp_path, options):
    rng = np.random.default_rng(4)
    n, days = 1200, 12
    y = rng.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])
    X = rng.standard_normal((n, 2)) + 1.5 * (y[:, None] == ["a", "b"])
    day = np.sort(rng.integers(0, days, n))
    at = (day * DAY).astype("datetime64[s]")
    with Ledger.open(tmp_path / "l", label="y", timestamp="at") as ledger:
        ledger.learn({"at": at, "p": X[:, 0], "q": X[:, 1], "y": y})
        model = ledger.model(half_life=5, **options)
        found = ledger.uncertainty(model, X[:10])
        with pytest.raises(ValueError, match="pooled_rows makes scores quadratic"):
            ledger.uncertainty(ledger.model(pooled_rows=10.0))
    assert np.allclose(found.coef, model.coef_, rtol=1e-9)
    assert np.allclose(found.scores, model.decision_function(X[:10]), rtol=1e-9)
    weight, coef = 2.0 ** (-(day.max() - day) / 5.0), []
    for out in range(days):
        inside = day != out
        fresh = BalancedRidgeClassifier(**options).fit(X[inside], y[inside], weight[inside])
        coef.append(fresh.coef_)
    expected = np.sqrt((days - 1) ** 2 / days * np.var(coef, axis=0, ddof=1))
    assert np.allclose(found.coef_error, expected, rtol=1e-6)
    assert found.buckets == days


@pytest.mark.slow
def test_standard_errors_with_missing_values_are_of_the_coefficients_of_the_model(tmp_path):
    rng = np.random.default_rng(5)
    n = 600
    y = rng.integers(0, 2, n)
    x = rng.standard_normal(n) + y
    x[rng.random(n) < 0.2] = np.nan
    at = np.sort(rng.integers(0, 10 * DAY, n)).astype("datetime64[s]")
    columns = {"at": at, "p": pa.array(x, from_pandas=True), "q": rng.standard_normal(n), "y": y}
    with Ledger.open(tmp_path / "l", label="y", timestamp="at") as ledger:
        ledger.learn(pa.table(columns))
        model = ledger.model()
        found = ledger.uncertainty(model)
    assert np.allclose(found.coef, model.coef_, rtol=1e-9)
    assert (found.coef_error > 0).all()


# Several classes


def test_three_classes_have_models_losses_and_backtests(tmp_path):
    rng = np.random.default_rng(8)
    n = 4000
    y = rng.choice(["a", "b", "c"], n, p=[0.8, 0.15, 0.05])
    X = rng.standard_normal((n, 3)) + 1.5 * (y[:, None] == ["a", "b", "c"])
    at = np.sort(rng.integers(0, 60 * DAY, n)).astype("datetime64[s]")
    with Ledger.open(tmp_path / "l", label="y", timestamp="at") as ledger:
        ledger.learn({"at": at, "p": X[:, 0], "q": X[:, 1], "r": X[:, 2], "y": y})
        fresh = BalancedRidgeClassifier().fit(X, y)
        assert np.allclose(ledger.model().coef_, fresh.coef_, rtol=1e-10)
        found = ledger.compare({"until": "1970-02-01"}, {"since": "1970-02-01"})
        early = at < np.datetime64("1970-02-01")
        model = BalancedRidgeClassifier(multi_class="ovr").fit(X[early], y[early])
        f = model.decision_function(X[~early])
        target = 2.0 * (y[~early, None] == model.classes_) - 1.0
        squares = ((target - f) ** 2).mean(axis=1)
        wanted = np.mean([squares[y[~early] == k].mean() for k in model.classes_])
        assert abs(found.loss[0, 1] - wanted) < 1e-9
        assert 0.4 < found.g_mean[0, 1] < 1.0
        assert np.isfinite(ledger.backtest(train=[10, 20]).total).all()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda x: x.backtest(train=0), "train must be an integer of 1 or greater; got 0"),
        (lambda x: x.backtest(train=400), "there are 366 buckets, too few to learn 400"),
        (lambda x: x.backtest(ridge="gcv"), "selects another ridge for every set of buckets"),
        (lambda x: x.backtest(features={"x": ["y"]}), "features names no feature in 'x'"),
        (lambda x: x.drift(level=2.0), "level must be between 0 and 0.5; got 2.0"),
        (lambda x: x.drift(until="2024-01-05"), "there are 4 buckets, and charts need 12"),
        (lambda x: x.compare({"half_life": 7}, {}), "a has a half-life, and tests need rows"),
        (lambda x: x.uncertainty(BalancedRidgeClassifier()), "does not come from a ledger"),
        (lambda x: x.models(by="town"), "'town' is not a segment column"),
        (
            lambda x: x.models(by="country", share_of_all=-1),
            "share_of_all must be 0 or greater; got -1",
        ),
    ],
)
def test_a_question_that_cannot_be_answered_is_named(year, ask, message):
    with pytest.raises(ValueError, match=message):
        ask(year[0])


def test_one_bad_bucket_does_not_hide_later_ones():
    rng = np.random.default_rng(0)
    loss = 0.6 * np.exp(0.05 * rng.standard_normal(60))
    loss[[5, 40, 55]] = 300.0  # the first one before there is a limit
    usual, limit, alarm = _loss_chart(loss, np.full(60, 100.0), 0.005)
    assert np.flatnonzero(alarm).tolist() == [40, 55]
    known = np.isfinite(limit)
    assert (limit[known] < 3.0 * usual[known]).all()


def test_standard_errors_are_not_those_of_another_ledger(tmp_path):
    tables = [payments(days=40, rows=30, seed=seed)[0] for seed in (0, 1)]
    ledgers = [Ledger.open(tmp_path / name, label="fraud", timestamp="at") for name in "ab"]
    for ledger, table in zip(ledgers, tables, strict=True):
        ledger.learn(table)
    model = ledgers[0].model()
    assert ledgers[0].uncertainty(model).coef.size
    with pytest.raises(DataError, match="not one of this ledger"):
        ledgers[1].uncertainty(model)
