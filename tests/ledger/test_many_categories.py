"""Columns with many categories in a ledger: each answer is the one of a table of the same rows."""

import random
import shutil
import sqlite3

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from ledgers import CHANGES, SEALED, change_ledger, ledger_answers, mutate_bytes, reseal
from xxhash import xxh3_64_intdigest

from counterpoise import BalancedRidgeClassifier, Ledger, TableClassifier
from counterpoise.errors import DataError
from counterpoise.ledger.cells import COVERED, HEAD

ONE = {"shop": "many"}
TWO = {"shop": "many:5", "device": "many:20"}
KEYS = {"label": "fraud", "timestamp": "at", "by": "country"}
COLUMNS = ["at", "country", "amount", "size", "fraud"]


def rows(n=1500, seed=0, first=0, days=40):
    """Return payments with two columns of many categories, of which cells are missing."""
    rng = np.random.default_rng(seed)
    shop, device = rng.integers(first, first + 250, n), rng.integers(0, 40, n)
    day = np.sort(rng.integers(0, days, n))
    table = pd.DataFrame(
        {
            "at": pd.Timestamp("2024-01-01") + pd.to_timedelta(day, unit="D"),
            "country": rng.choice(["DE", "FR", "US"], n),
            "amount": rng.lognormal(3.0, 1.0, n),
            "size": rng.normal(1000.0, 3.0, n),
            "shop": [f"s{i}" for i in shop],
            "device": [f"d{i}" for i in device],
        }
    )
    risk = rng.normal(size=1000)[shop] + rng.normal(size=40)[device] + rng.normal(size=n)
    table["fraud"] = np.where(risk > 2.0, "yes", "no")
    table.loc[rng.random(n) < 0.1, "shop"] = None
    table.loc[rng.random(n) < 0.3, "device"] = None
    return table


def reference(table, roles, weight=None, **options):
    """Return a model of a table that learned the rows of positive weight."""
    columns = {**roles, "at": "drop", "weight": "weight"}
    weight = np.ones(len(table)) if weight is None else weight
    model = TableClassifier(BalancedRidgeClassifier(**options), columns=columns)
    return model.fit(table.assign(weight=weight)[weight > 0], "fraud")


def same_scores(ledger, model, table, wanted, tolerance=1e-9):
    X, y = ledger.encode(table, model)
    assert y.tolist() == table["fraud"].tolist()
    table = table.assign(weight=1.0)
    for name in ("decision_function", "predict_proba"):
        found = getattr(model, name)(X)
        np.testing.assert_allclose(found, getattr(wanted, name)(table), atol=tolerance, rtol=0.0)


@pytest.fixture(scope="module", params=[ONE, TWO], ids=["one", "two"])
def many(request, tmp_path_factory):
    """A ledger of three files, whose categories come one after the other, and the rows."""
    roles, path = request.param, tmp_path_factory.mktemp("many") / "l"
    parts = [rows(seed=0), rows(500, seed=1, first=200), rows(300, seed=2, first=600)]
    parts = [part[[*COLUMNS, *roles]] for part in parts]
    with Ledger.open(path, columns=roles, **KEYS) as ledger:
        for i, part in enumerate(parts):
            ledger.learn(part, name=f"part {i}")
        yield ledger, pd.concat(parts, ignore_index=True), roles


SELECTIONS = [
    ({}, lambda t: np.ones(len(t))),
    ({"since": "2024-01-20"}, lambda t: t["at"] >= "2024-01-20"),
    (
        {"until": "2024-01-25", "where": {"country": "DE"}},
        lambda t: (t["at"] < "2024-01-25") & (t.country == "DE"),
    ),
    ({"where": {"country": {"not": "DE"}}}, lambda t: t.country != "DE"),
    (
        {"where": {"country": {"not": "US"}}, "half_life": 5, "exclude": "2024-01-07"},
        lambda t: ((t.country != "US") & (t["at"] != "2024-01-07")) * decay(t, 5),
    ),
    ({"half_life": 20}, lambda t: decay(t, 20)),
]


def decay(table, half_life):
    age = (table["at"].max() - table["at"]).dt.days
    return 2.0 ** (-age / half_life)


@pytest.mark.parametrize(("named", "weight_of"), SELECTIONS)
@pytest.mark.parametrize("options", [{}, {"ridge": 0.1, "class_weight": None, "scale": None}])
def test_the_model_of_a_selection_is_that_of_a_table(many, named, weight_of, options, tmp_path):
    ledger, table, roles = many
    weight = np.asarray(weight_of(table), dtype=float)
    model = ledger.model(**named, **options)
    wanted = reference(table, roles, weight, **options)
    for name in roles:
        own = table.loc[weight > 0, name].dropna()
        assert sorted(model.categories_[name]) == sorted(own.unique())
    same_scores(ledger, model, table, wanted)
    ledger.save(model, tmp_path / "m.st")
    saved = TableClassifier.load(tmp_path / "m.st")
    table = table.assign(weight=1.0)
    found = saved.decision_function(table.drop(columns=["weight", "at", "fraud"]))
    np.testing.assert_allclose(found, wanted.decision_function(table), atol=1e-9)


def test_segments_have_models_with_a_share_of_the_whole(many):
    ledger, table, roles = many
    for country, model in ledger.models(by="country", share_of_all=0.1).items():
        wanted = reference(table, roles, 0.1 + (table.country == country).to_numpy())
        same_scores(ledger, model, table, wanted)


def test_several_classes_are_those_of_a_table(tmp_path):
    table = rows()[[*COLUMNS, *TWO]]
    table["fraud"] = np.where(table.amount > 60, "never", table.fraud)
    with Ledger.open(tmp_path / "l", columns=TWO, **KEYS) as ledger:
        ledger.learn(table)
        for options in ({"multi_class": "lda"}, {"multi_class": "ovr"}):
            same_scores(ledger, ledger.model(**options), table, reference(table, TWO, **options))
        early = (table["at"] < "2024-01-20").to_numpy()
        found = ledger.compare({"until": "2024-01-20"}, {"since": "2024-01-20"})
        for i, a in enumerate((early, ~early)):
            model = reference(table, TWO, a.astype(float), multi_class="ovr")
            for j, b in enumerate((early, ~early)):
                assert abs(found.loss[i, j] - loss_of(model, table[b])) < 1e-9


# Queries


def loss_of(model, table):
    """Mean over the classes of the mean squared difference from the targets."""
    f = model.decision_function(table.assign(weight=1.0)).reshape(len(table), -1)
    labels = model.classes_.tolist()
    y = np.array([labels.index(label) for label in table.fraud])
    target = 2.0 * np.eye(len(labels))[y] - 1.0
    squares = ((target if f.shape[1] > 1 else target[:, 1:]) - f) ** 2
    return np.mean([squares[y == k].mean() for k in range(len(labels))])


def test_losses_are_those_of_the_rows(many):
    ledger, table, roles = many
    early = (table["at"] < "2024-01-20").to_numpy()
    found = ledger.compare({"until": "2024-01-20"}, {"since": "2024-01-20"})
    models = [reference(table, roles, part.astype(float)) for part in (early, ~early)]
    for i, model in enumerate(models):
        for j, part in enumerate((early, ~early)):
            assert abs(found.loss[i, j] - loss_of(model, table[part])) < 1e-9
            said = model.predict(table[part].assign(weight=1.0))
            right = [(said == k)[table.fraud[part] == k].mean() for k in ("no", "yes")]
            assert abs(found.g_mean[i, j] - np.sqrt(np.prod(right))) < 0.1  # an estimate


def test_a_backtest_is_that_of_the_rows(many):
    ledger, table, roles = many
    found = ledger.backtest(
        train=[10, None], half_life=[None, 4], test=7,
        features={"all": [*ledger.features, *roles], "few": ["amount", "size"]},
    )  # fmt: skip
    day = (table["at"] - table["at"].min()).dt.days.to_numpy()
    for i, setting in enumerate(found.settings):
        own = roles if setting.features == "all" else {}
        columns = COLUMNS if own else ["at", "amount", "size", "fraud"]
        for g in (0, len(found.start) - 1):
            first = int((found.start[g] - table["at"].min().timestamp()) // 86_400)
            weight = ((day < first) & (day >= first - (setting.train or 99))).astype(float)
            if setting.half_life is not None:
                weight *= 2.0 ** (-np.maximum(first - 1 - day, 0) / setting.half_life)
            part = table[[*columns, *own]]
            model = reference(part, own, weight)
            test = (day >= first) & (day < first + 7)
            assert abs(found.loss[i, g] - loss_of(model, part[test])) < 1e-9
    with pytest.raises(DataError, match="names no feature in 'shops' except columns with many"):
        ledger.backtest(train=10, features={"shops": ["shop"]})
    drift = ledger.drift(train=10)
    assert np.isfinite(drift.loss[15:]).all()


@pytest.mark.parametrize("options", [{}, {"ridge": "gcv"}])
def test_standard_errors_are_those_of_refits_without_each_bucket(many, options):
    ledger, table, roles = many
    named = {"since": "2024-01-01", "until": "2024-01-07"}
    model = ledger.model(**named, **options)
    X, _ = ledger.encode(table[:50], model)
    found = ledger.uncertainty(model, X)
    np.testing.assert_allclose(found.scores[:, 0], model.decision_function(X), atol=1e-9)
    fixed = model._engine.scores(False).effects.pseudo_rows
    roles = {name: f"many:{m!r}" for name, m in zip(roles, fixed.tolist(), strict=True)}
    days = [f"2024-01-0{i}" for i in range(1, 7)]
    inside = table["at"].isin(pd.to_datetime(days))
    part = table[inside]
    models = [reference(part, roles, (part["at"] != day) * 1.0, ridge=model.ridge_) for day in days]
    scores = [one.decision_function(table[:50].assign(weight=1.0)) for one in models]
    if options:  # with "auto" each model has the ridge of its rows
        error = np.sqrt(5 / 6 * ((scores - np.mean(scores, axis=0)) ** 2).sum(axis=0))
        np.testing.assert_allclose(found.scores_error[:, 0], error, atol=1e-9)
    assert ledger.weights(size=10).weight.shape[1] == len(ledger.features)


# Changes


@pytest.mark.parametrize("roles", [ONE, TWO])
def test_what_is_unlearned_was_never_learned_and_leaves_no_name(roles, tmp_path):
    table = rows()[[*COLUMNS, *roles]]
    table.loc[table.index[::500], "shop"] = ["s1", "s100", "s249"]
    gone = table.shop.isin(["s1", "s100", "s249"]).to_numpy()
    path = tmp_path / "l"
    with Ledger.open(path, columns=roles, **KEYS) as ledger:
        ledger.learn(table)
        count = table.shop.nunique()
        assert ledger.summary()["categories"]["shop"] == count
        assert ledger.unlearn(table[gone]) == gone.sum()
        assert ledger.summary()["categories"]["shop"] == count - 3
        cells = ledger.check()
        same_scores(ledger, ledger.model(), table[~gone], reference(table[~gone], roles))
        ledger.learn(rows(400, seed=5, first=245)[[*COLUMNS, *roles]])
        with pytest.raises(DataError, match=r"'shop=s1' was never learned"):
            ledger.unlearn(table[gone], name="another")
        ledger.learn(table[gone])
        both = pd.concat([table, rows(400, seed=5, first=245)[[*COLUMNS, *roles]]])
        same_scores(ledger, ledger.model(), both, reference(both, roles))
        before = ledger.model()
        other = table[:200].assign(shop=table.shop[200:400].to_numpy())
        with pytest.raises(DataError, match="cannot unlearn"):
            ledger.unlearn(other)
        assert np.array_equal(ledger.model().coef_, before.coef_)
        ledger.unlearn(table[gone])
        assert ledger.check() >= cells
    assert b'"s2"' in path.read_bytes()
    for name in (b'"s1"', b'"s100"'):
        assert name not in path.read_bytes()


def test_coarse_and_dropped_buckets(tmp_path):
    table = rows()[[*COLUMNS, *TWO]]
    table.loc[table.index[:3], "shop"] = ["old", None, "old"]
    with Ledger.open(tmp_path / "l", columns=TWO, **KEYS) as ledger:
        ledger.learn(table)
        before = ledger.summary()["categories"]["shop"]
        assert ledger.rollup("2024-02-01") > 0
        assert ledger.summary()["categories"]["shop"] == before
        ledger.check()
        same_scores(ledger, ledger.model(), table, reference(table, TWO))
        ledger.drop("2024-02-01")
        left = table[table["at"] >= "2024-02-01"]
        assert ledger.summary()["categories"]["shop"] == left.shop.nunique()
        assert ledger.model().categories_["shop"].count("old") == 0
        ledger.check()
        same_scores(ledger, ledger.model(), left, reference(left, TWO))


def test_a_column_without_values_at_first_and_one_without_other_features(tmp_path):
    table, more = rows().assign(shop=None), rows(seed=3)
    with Ledger.open(tmp_path / "l", columns=TWO, **KEYS) as ledger:
        ledger.learn(pa.Table.from_pandas(table.astype({"shop": "string"})))
        ledger.learn(more)
        both = pd.concat([table, more], ignore_index=True)[[*COLUMNS, *TWO]]
        same_scores(ledger, ledger.model(), both, reference(both, TWO))
        early = ledger.model(until="2024-01-20")
        assert early.categories_["shop"]
    table = rows()[["at", "shop", "fraud"]].dropna()
    with Ledger.open(tmp_path / "m", "fraud", "at", columns=ONE) as ledger:
        ledger.learn(table)
        same_scores(ledger, ledger.model(), table, reference(table, ONE))


def test_commands(run, tmp_path):
    table = rows()[[*COLUMNS, *TWO]]
    table.to_csv("t.csv", index=False)
    keys = ["--label", "fraud", "--timestamp", "at", "--by", "country"]
    run("ledger", "learn", "t.csv", "-l", "l", *keys, "--many", "shop=5", "--many", "device=20")
    assert f"{table.shop.nunique()} of shop" in run("ledger", "inspect", "l").out
    run("ledger", "model", "l", "--output", "m.st")
    model = TableClassifier.load("m.st")
    wanted = reference(table, TWO)
    rest = table.drop(columns=["at", "fraud"])
    np.testing.assert_allclose(
        model.decision_function(rest), wanted.decision_function(table.assign(weight=1.0)), atol=1e-9
    )
    run("ledger", "unlearn", "t.csv", "-l", "l", "--where", "shop=s7")
    assert '"s7"' not in (tmp_path / "l").read_bytes().decode("latin1")


# Damage


@pytest.fixture(scope="module")
def ledger_and_answers(tmp_path_factory):
    """A small ledger and what it answers."""
    path = tmp_path_factory.mktemp("damaged") / "l"
    with Ledger.open(path, columns=TWO, **KEYS) as ledger:
        ledger.learn(rows(400, days=14)[[*COLUMNS, *TWO]])
    return path, ledger_answers(path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(15))
def test_a_changed_byte_is_refused_or_has_no_effect(ledger_and_answers, tmp_path, seed):
    path, answers = ledger_and_answers
    bad = tmp_path / "l"
    bad.write_bytes(mutate_bytes(path.read_bytes(), random.Random(seed)))
    for name, found in ledger_answers(bad).items():
        assert found == answers[name] or isinstance(found, DataError), name


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_table_is_refused_or_not_read(ledger_and_answers, tmp_path, name):
    path, answers = ledger_and_answers
    bad = tmp_path / "l"
    shutil.copy(path, bad)
    change_ledger(bad, name, random.Random(name))
    for query, answer in ledger_answers(bad).items():
        assert answer == answers[query] or isinstance(answer, DataError), query
    if name in SEALED:
        reseal(bad)
        ledger_answers(bad)  # raises all other errors


def forge(path, change):
    """Change the data of the categories of every cell, with right checksums and digest."""
    base = sqlite3.connect(path)
    for start, data in base.execute("SELECT start, data FROM heads").fetchall():
        heads = np.frombuffer(data, HEAD).copy()
        for i, head in enumerate(heads):
            key = int(head["label"]), start, int(head["segment"])
            where = "label = ? AND start = ? AND segment = ?"
            (cell,) = base.execute(f"SELECT data FROM cells WHERE {where}", key).fetchone()
            at = len(cell) - int(head["category_bytes"])
            many = change(cell[at:]) if at < len(cell) else b""
            heads["category_bytes"][i] = len(many)
            seed = xxh3_64_intdigest(heads[i : i + 1].tobytes()[: COVERED.size])
            heads["checksum"][i] = xxh3_64_intdigest(cell[:at] + many, seed)
            base.execute(f"UPDATE cells SET data = ? WHERE {where}", (cell[:at] + many, *key))
        base.execute("UPDATE heads SET data = ? WHERE start = ?", (heads.tobytes(), start))
    base.commit()
    base.close()
    reseal(path)


def with_number(at, kind, value):
    def change(data):
        values = np.frombuffer(data, kind).copy()
        values[at] = value
        return values.tobytes()

    return change


FORGED = {
    "longer": lambda data: data + bytes(8),
    "shorter": lambda data: data[:-8],
    "columns": with_number(0, "<i8", 3),
    "no column": with_number(0, "<i8", 0),
    "negative": with_number(1, "<i8", -1),
    "too many": with_number(1, "<i8", 2**60),
    "code": with_number(4, "<i8", 10**6),
    "negative code": with_number(4, "<i8", -1),
    "pair": with_number(-1, "<f8", 1e9),
    "infinite": with_number(-1, "<f8", np.inf),
    "nothing": with_number(-1, "<f8", np.nan),
}


@pytest.mark.parametrize("name", FORGED)
def test_forged_categories_are_refused(ledger_and_answers, tmp_path, name):
    bad = tmp_path / "l"
    shutil.copy(ledger_and_answers[0], bad)
    forge(bad, lambda data: data)
    assert ledger_answers(bad) == ledger_and_answers[1]
    forge(bad, FORGED[name])
    found = ledger_answers(bad)
    assert "impossible categories" in str(found["model"])
    with Ledger.open(bad) as ledger, pytest.raises(DataError, match="impossible categories"):
        ledger.unlearn(pa.Table.from_pandas(rows(400, days=14)[[*COLUMNS, *TWO]]))
