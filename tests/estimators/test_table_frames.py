"""TableClassifier: frames with text, dates and missing values, learned as files are."""

import json
import pickle
import re
import threading
import warnings

import adbc_driver_sqlite.dbapi
import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

from counterpoise import (
    AutoClassifier,
    BalancedRidgeClassifier,
    CostSensitiveClassifier,
    Ledger,
    TableClassifier,
)
from counterpoise.modelfile import container
from counterpoise.tables.model import TableModel


def payments(n=600, seed=0):
    """Payments with all kinds of columns, and missing values."""
    rng = np.random.default_rng(seed)
    at = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 200 * 86_400, n), unit="s")
    frame = pd.DataFrame(
        {
            "amount": rng.gamma(2.0, 50.0, n).round(2),
            "year": rng.integers(1990, 2024, n).astype(float),
            "country": rng.choice(["DE", "FR", "US"], n, p=[0.6, 0.3, 0.1]),
            "new": rng.random(n) < 0.3,
            "at": at,
            "shop": rng.choice([f"s{i}" for i in range(40)], n),
        }
    )
    score = (frame.amount - 100) / 70 + (frame.country == "US") * 1.5 + frame.new
    frame["fraud"] = np.where(score + rng.normal(size=n) > 2, "yes", "no")
    for column, share in (("amount", 0.1), ("year", 0.03), ("country", 0.05), ("at", 0.02)):
        frame.loc[rng.random(n) < share, column] = None
    return frame


def new_model(**params):
    return TableClassifier(columns={"shop": "hash:8"}, **params)


def contents(model, tmp_path):
    model.save(tmp_path / "any.st")
    return container.load(tmp_path / "any.st")


def assert_same(one, two, but=("inputs", "order")):
    """The same model, bit by bit; files and frames are other inputs."""
    assert one.arrays.keys() == two.arrays.keys()
    for name, array in one.arrays.items():
        np.testing.assert_array_equal(array, two.arrays[name], strict=True, err_msg=name)
    assert (one.facts, one.lists, one.options) == (two.facts, two.lists, two.options)
    left, right = ({k: v for k, v in c.stream.items() if k not in but} for c in (one, two))
    assert left == right


def as_csv(frame, path):
    """Write a frame as polars does: booleans are true and false."""
    pl.from_pandas(frame).write_csv(path, datetime_format="%Y-%m-%d %H:%M:%S")


@parametrize_with_checks(
    [TableClassifier(), TableClassifier(BalancedRidgeClassifier(), missing="indicate")]
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


PIECES = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "lazy": lambda frame: pl.from_pandas(frame).lazy(),
    "arrow": pa.Table.from_pandas,
    "reader": lambda frame: pa.Table.from_pandas(frame).to_reader(77),
    "pieces of pandas": lambda frame: (frame[i : i + 33] for i in range(0, len(frame), 33)),
    "pieces of polars": lambda frame: pl.from_pandas(frame).iter_slices(100),
    "a list of tables": lambda frame: [
        pa.Table.from_pandas(part) for part in (frame[:9], frame[9:])
    ],
    "a capsule": lambda frame: Capsule(pa.Table.from_pandas(frame)),
    "a dict": lambda frame: {name: frame[name] for name in frame},
}


class Capsule:
    """Speaks Arrow, and nothing else."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self.table.__arrow_c_stream__(requested_schema)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("pieces", PIECES)
def test_frames_are_learned_as_files_are(run, tmp_path, ending, pieces):
    frame = payments()
    as_csv(frame, "t.csv")
    frame.to_parquet("t.parquet", row_group_size=100)
    options = ["--label", "fraud", "--hash", "shop=8", "--chunk-rows", "128", "-m", "m.st"]
    run("learn", f"t.{ending}", *options)
    model = new_model(chunk_rows=128).partial_fit(PIECES[pieces](frame), "fraud")
    assert_same(container.load("m.st"), contents(model, tmp_path))
    run("predict", "m.st", "t.csv", "--output", "p.csv")
    shell = pd.read_csv("p.csv")
    assert shell["prediction"].tolist() == model.predict(frame).tolist()
    np.testing.assert_array_equal(shell["score"], model.decision_function(frame))
    np.testing.assert_array_equal(shell["proba_balanced_yes"], model.predict_proba(frame)[:, 1])
    np.testing.assert_array_equal(
        shell["proba_stream_yes"], model.predict_stream_proba(frame)[:, 1]
    )


def streams(table, folder):
    """Yield functions that open streams of a table, most of which can be read once."""
    yield lambda: table.to_reader(100)
    yield lambda: (part.to_pandas() for part in table.to_batches(max_chunksize=333))
    yield lambda: pl.from_arrow(table)
    yield lambda: pl.from_arrow(table).lazy()
    file = str(folder / "t.duckdb")
    with duckdb.connect(file) as connection:
        connection.register("given", table)
        connection.execute("create table t as select * from given")
    reader = duckdb.connect(file, read_only=True)
    yield lambda: reader.table("t")
    reader.close()
    rows = ibis.duckdb.connect(file, read_only=True).table("t")
    yield lambda: rows
    with adbc_driver_sqlite.dbapi.connect(str(folder / "t.db")) as connection:
        with connection.cursor() as cursor:
            cursor.adbc_ingest("t", table)
            connection.commit()
        with connection.cursor() as cursor:

            def select():
                cursor.execute("select * from t")
                return cursor

            yield select
        lite = ibis.sqlite.connect(folder / "t.db").table("t")
        yield lambda: lite


@pytest.mark.slow
def test_any_stream_is_learned_predicted_and_unlearned(tmp_path):
    frame = payments()[["amount", "country", "fraud"]].fillna({"amount": 1.0})
    table = pa.Table.from_pandas(frame, preserve_index=False)
    first = TableClassifier(chunk_rows=128).fit(table, "fraud")
    count = 0
    for stream in streams(table, tmp_path):
        count += 1
        for model in (
            TableClassifier(chunk_rows=128).fit(stream(), "fraud"),
            TableClassifier(chunk_rows=128).partial_fit(stream(), "fraud"),
        ):
            np.testing.assert_array_equal(model.estimator_.coef_, first.estimator_.coef_)
        np.testing.assert_array_equal(model.predict_proba(stream()), first.predict_proba(table))
        assert model.score(stream()) == first.score(table)
        with pytest.raises(NotFittedError, match="all its rows were unlearned"):
            model.unlearn(stream(), "fraud").predict(table)
        book = Ledger.open(tmp_path / f"{count}", label="fraud", timestamp="amount")
        assert book.learn(stream(), name="t") == len(frame)
    assert count == 8


def test_an_iterable_is_consumed_in_the_thread_of_the_caller():
    threads = set()

    def parts():
        for start in (0, 200, 400):
            threads.add(threading.current_thread())
            yield payments()[start : start + 200]

    model = new_model().partial_fit(parts(), "fraud")
    model.predict(parts())
    assert threads == {threading.current_thread()}


@pytest.mark.slow
def test_a_shell_and_python_take_turns_on_one_file(run, tmp_path):
    days = [payments(seed=seed) for seed in range(4)]
    for day, frame in enumerate(days):
        as_csv(frame, f"{day}.csv")
    options = ["--label", "fraud", "--hash", "shop=8"]
    for day in range(4):
        run("learn", f"{day}.csv", *options, "-m", "alone.st")
    run("learn", "0.csv", *options, "-m", "both.st")
    TableClassifier.load("both.st").partial_fit(days[1], "fraud").save("both.st")
    run("learn", "2.csv", "-m", "both.st")
    labels = days[3].pop("fraud")
    TableClassifier.load("both.st").partial_fit(days[3], labels).save("both.st")
    assert_same(container.load("alone.st"), container.load("both.st"))
    done = run("learn", "2.csv", "-m", "both.st")
    assert "nothing new" in done.err  # a file is still known


@pytest.mark.slow
def test_labels_next_to_a_frame_or_in_it(tmp_path):
    frame = payments()
    one = contents(new_model().fit(frame, "fraud"), tmp_path)
    rest, labels = frame.drop(columns="fraud"), frame["fraud"]
    assert_same(one, contents(new_model().fit(rest, labels), tmp_path))
    assert_same(one, contents(new_model(label="fraud").fit(rest, labels.tolist()), tmp_path))
    assert_same(one, contents(new_model(label="fraud").fit(frame), tmp_path))
    with pytest.raises(ValueError, match="has a column 'fraud', and labels of that name"):
        new_model().fit(frame, labels)
    truth = new_model().fit(rest, labels == "yes")
    assert truth.classes_.tolist() == [False, True]
    assert truth.score(rest, labels == "yes") > 0.8
    whole = new_model().fit(rest, np.where(labels == "yes", 1, 0))
    assert whole.classes_.tolist() == [0, 1]


@pytest.mark.slow
def test_truth_values_mean_the_same_however_they_are_spelled(run):
    frame = payments()
    frame.to_csv("t.csv", index=False)  # True and False
    run("learn", "t.csv", "--label", "fraud", "--hash", "shop=8", "-m", "m.st")
    model = TableClassifier.load("m.st").partial_fit(payments(seed=1), "fraud")
    names = [name for name in model.get_feature_names_out() if name.startswith("new")]
    assert sorted(names) == ["new=False", "new=True"]


@pytest.mark.slow
def test_merged_and_unlearned():
    one, two, other = (payments(seed=seed) for seed in range(3))
    two.loc[0, "country"] = "only here"
    both = new_model().fit(pd.concat([one, two]), "fraud").decision_function(other)
    merged = new_model().fit(one, "fraud").merge(new_model().fit(two, "fraud"))
    # Moments are added in another order: some roundings of scores of the size of 1.
    np.testing.assert_allclose(merged.decision_function(other), both, atol=1e-11)
    merged.unlearn(two, "fraud")
    alone = new_model().fit(one, "fraud")
    np.testing.assert_allclose(
        merged.decision_function(other), alone.decision_function(other), atol=1e-11
    )
    assert merged.get_feature_names_out().tolist() == alone.get_feature_names_out().tolist()
    swapped = one.assign(fraud=one["fraud"].map({"yes": "no", "no": "yes"}))
    assert (
        new_model().fit(one, "fraud").merge(new_model().fit(swapped, "fraud")).class_count_.sum()
        == 1200
    )
    with pytest.raises(ValueError, match="an averaging model, which cannot unlearn"):
        TableClassifier(AutoClassifier()).fit(one, "fraud").unlearn(one, "fraud")


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [
        None,
        BalancedRidgeClassifier(pooled_rows=20.0),
        BalancedRidgeClassifier(feature_map="rff:30"),
        AutoClassifier(candidates=("linear", "rm2")),
    ],
)
def test_any_estimator_inside_goes_to_a_file_and_back(run, estimator):
    frame, more = payments(), payments(seed=1)
    model = new_model(estimator=estimator).fit(frame, "fraud")
    model.save("m.st")
    again = TableClassifier.load("m.st")
    for one in (model, again, pickle.loads(pickle.dumps(model))):
        one.partial_fit(more, "fraud")
    model.save("a.st")
    again.save("b.st")
    assert_same(container.load("a.st"), container.load("b.st"), but=())
    as_csv(more, "t.csv")
    run("predict", "b.st", "t.csv", "--output", "p.csv")
    assert pd.read_csv("p.csv")["prediction"].tolist() == model.predict(more).tolist()


@pytest.mark.slow
def test_risks():
    frame = payments()
    plain = new_model(estimator=BalancedRidgeClassifier(calibrate=True)).fit(frame, "fraud")
    risky = new_model(estimator=CostSensitiveClassifier(costs={"yes": 20.0})).fit(frame, "fraud")
    np.testing.assert_array_equal(risky.predict_proba(frame), plain.predict_stream_proba(frame))
    expected = np.where(
        20 * plain.predict_stream_proba(frame)[:, 1] > plain.predict_stream_proba(frame)[:, 0],
        "yes",
        "no",
    )
    assert risky.predict(frame).tolist() == expected.tolist()


@pytest.mark.parametrize(
    "estimator",
    [
        None,
        AutoClassifier(candidates=("linear", "rm2")),
        *(
            BalancedRidgeClassifier(**options)
            for options in (
                {"pooled_rows": 20.0},
                {"feature_map": "poly2"},
                {"feature_map": "interactions"},
                {"feature_map": "rff:30"},
                {"feature_map": "rm2+rff:30", "pooled_rows": 20.0},
            )
        ),
    ],
    ids=str,
)
def test_reasons_are_those_of_columns(estimator):
    """Numbers are imputed by their mean: one row of five has a missing value."""
    frame = payments()
    model = new_model(estimator=estimator).fit(frame, "fraud")
    found = model.explain(frame[:50])
    assert sorted(found.feature_names) == sorted(set(frame) - {"fraud"})
    total = found.values.sum(axis=1) + found.base_values
    np.testing.assert_allclose(total, model.decision_function(frame[:50]), atol=1e-9)


def test_reasons_and_summary_are_those_of_an_imputer_and_a_fresh_fit():
    frame = payments()[["amount", "year", "fraud"]]
    model = TableClassifier(BalancedRidgeClassifier()).fit(frame, "fraud")
    X = frame[["amount", "year"]]
    Z = SimpleImputer(add_indicator=True).fit_transform(X)
    fresh = BalancedRidgeClassifier().fit(Z, frame.fraud)
    columns = ["amount", "year", "amount", "year"]
    found, want = model.explain(frame), fresh.explain(Z).group_by_column(columns)
    # Scores are of the size of 1.
    np.testing.assert_allclose(found.values, want.values, atol=1e-10)
    found, want = model.summary(), fresh.summary()
    assert sorted(found.names) == ["amount", "amount is missing", "year", "year is missing"]
    order = [
        found.names.index(n) for n in ("amount", "year", "amount is missing", "year is missing")
    ]
    for name in ("weights", "errors", "low", "high", "class_means", "mean", "scale"):
        np.testing.assert_allclose(
            getattr(found, name)[..., order], getattr(want, name), rtol=1e-9, err_msg=name
        )


@pytest.mark.slow
def test_inspect_shows_what_a_summary_does(run):
    as_csv(payments().drop(columns="shop"), "t.csv")
    run("learn", "t.csv", "--label", "fraud", "-m", "m.st")
    found, told = (
        TableClassifier.load("m.st").summary(),
        json.loads(run("inspect", "m.st", "--json").out),
    )
    for j, name in enumerate(found.names):
        assert told["errors"][name] == found.errors[:, j].tolist()
        assert told["intervals"][name] == [[found.low[0, j], found.high[0, j]]]
        means = {"mean": found.mean[j], "deviation": found.scale[j]}
        assert told["means"][name] == {**means, "by_class": found.class_means[:, j].tolist()}
    shown = run("inspect", "m.st", "--top", "2")
    assert "weight (yes)\tstd. error\t95% CI low\t95% CI high" in shown.out
    assert "mean\tstd. deviation\tmean of no\tmean of yes" in shown.out
    assert "normal within each class" in shown.out
    run("learn", "t.csv", "--label", "fraud", "--pooled-rows", "20", "-m", "q.st")
    told = json.loads(run("inspect", "q.st", "--json").out)
    assert told["errors"] is None
    assert "quadratic" in told["note"]


@pytest.mark.slow
def test_the_tools_of_scikit_learn():
    frame = payments()
    labels = frame.pop("fraud")
    model = TableClassifier(BalancedRidgeClassifier(), columns={"shop": "drop"})
    grid = {"estimator__ridge": [0.01, 1.0], "missing": ["mean", "indicate"]}
    search = GridSearchCV(model, grid, scoring="balanced_accuracy", cv=3).fit(frame, labels)
    assert search.best_score_ > 0.8
    assert cross_val_score(clone(model), frame, labels, cv=3).mean() > 0.8
    found = clone(model).fit(frame, labels).set_output(transform="pandas").transform(frame)
    assert found.columns.tolist() == model.fit(frame, labels).get_feature_names_out().tolist()
    assert not found.isna().any().any()
    np.testing.assert_allclose(found["amount"].mean(), frame["amount"].mean(), rtol=1e-12)
    at = dict(zip(model.get_feature_names_out(), model.feature_columns_, strict=True))
    assert at["country=DE"] == at["country is missing"] == "country"
    assert at["at week sin"] == "at"


@pytest.mark.slow
def test_late_columns_and_categories():
    one, two = payments(), payments(seed=1).assign(extra=1.5)
    model = new_model().fit(one, "fraud")
    with pytest.raises(ValueError, match="unseen at fit time:\n- extra"):
        model.partial_fit(two, "fraud")
    with pytest.raises(ValueError, match="same order"):
        model.predict(one[one.columns[::-1]])
    late = new_model(allow_new_columns=True).fit(one, "fraud").partial_fit(two, "fraud")
    assert "extra" in late.get_feature_names_out()
    reordered = one[one.columns[::-1]]
    assert late.predict(reordered).tolist() == late.predict(one).tolist()


# Bad input


def changes(frame):
    """A frame with a column whose type changes in mid-stream, and the error about it."""
    text = frame.assign(country=range(len(frame)))
    number = frame.assign(amount="a lot")
    yield text, "column 'country' contains 0 .type int64., but contained text before"
    yield number, "column 'amount' contains 'a lot', which is not a number"
    yield frame.assign(at=1.5), "column 'at' contains 1.5 .type double., but contained dates before"
    yield (
        frame.assign(year=True),
        "column 'year' contains True .type bool., but contained numbers before",
    )
    yield [frame, frame.assign(year="x")], "column 'year' contains values of type"
    several = frame.assign(country=[1, *["DE"] * (len(frame) - 1)])
    yield several, "column 'country' contains 'DE' .type str. after 1 .type int"
    wild = frame.assign(country=[f"c{i}" for i in range(len(frame))])
    yield (
        pd.concat([wild, wild.assign(country="z" + wild["country"])]),
        "1,203 categories in 1,200 rows, like an identifier",
    )
    twice = pd.concat([frame, frame[["year"]]], axis=1)
    yield twice, "two columns are called 'year'"
    lazy = pl.from_pandas(frame).lazy().with_columns(pl.col("nowhere") + 1)
    yield lazy, "a LazyFrame that cannot be collected: .*nowhere"
    yield frame.assign(fraud=None), "no label in column 'fraud'"
    yield frame.assign(year=np.inf), "column 'year' is inf"


@pytest.mark.parametrize("case", range(11))
def test_bad_frames_have_one_message_and_change_nothing(tmp_path, case):
    frame, (bad, message) = payments(), list(changes(payments()))[case]
    model = new_model().fit(frame, "fraud")
    before = contents(model, tmp_path)
    with pytest.raises(ValueError, match=message):
        model.partial_fit(bad, "fraud")
    assert_same(before, contents(model, tmp_path), but=())
    assert model.partial_fit(frame, "fraud").class_count_.sum() == 2 * len(frame)


@pytest.mark.slow
def test_a_column_with_a_million_values_is_named_immediately(tmp_path):
    user = pc.binary_join_element_wise("u", pa.array(np.arange(1_000_000)).cast(pa.string()), "")
    frame = pa.table({"user": user, "fraud": pa.array(np.arange(1_000_000) % 2)})
    model = TableClassifier().fit(frame[:900], "fraud")
    before = contents(model, tmp_path)
    with pytest.raises(
        ValueError, match=r"'user' has 8,192 categories in 9,092 rows, like an identifier; leave"
    ):
        model.partial_fit(frame, "fraud")
    assert_same(before, contents(model, tmp_path), but=())
    hashed = TableClassifier(columns={"user": "hash:16"}).fit(frame[:50_000], "fraud")
    assert len(hashed.get_feature_names_out()) == 16


@pytest.mark.slow
def test_an_index_does_not_matter(tmp_path):
    frame = payments()
    one = contents(new_model().fit(frame, "fraud"), tmp_path)
    shuffled = frame.set_index(np.zeros(len(frame), dtype=int))
    assert_same(one, contents(new_model().fit(shuffled, "fraud"), tmp_path))
    rest = shuffled.drop(columns="fraud")
    assert_same(one, contents(new_model().fit(rest, shuffled["fraud"]), tmp_path))


@pytest.mark.slow
def test_of_nothing_nothing_is_learned(tmp_path):
    frame = payments()
    nothing = new_model().partial_fit(frame[:0], "fraud")
    with pytest.raises(NotFittedError):
        nothing.predict(frame)
    other = frame.rename(columns={"amount": "sum"})
    assert "sum" in nothing.partial_fit(other, "fraud").get_feature_names_out()
    model = new_model().fit(frame, "fraud")
    before = contents(model, tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(frame[:0], "fraud")
        model.partial_fit(pa.Table.from_pandas(frame[:0]), "fraud")
        model.partial_fit(iter([]), "fraud")
        model.partial_fit(pd.DataFrame(), [])
    assert_same(before, contents(model, tmp_path), but=())


def test_plain_estimators_point_here(run):
    frame = payments()
    with pytest.raises(ValueError, match=r"column 'country' is 'DE'.*counterpoise.TableClassifier"):
        BalancedRidgeClassifier().fit(frame[["country"]].assign(country="DE"), frame["fraud"])
    with pytest.raises(
        ValueError, match=r"column 'at' contains datetime.*counterpoise.TableClassifier"
    ):
        BalancedRidgeClassifier().fit(frame[["at"]], frame["fraud"])
    as_csv(frame, "t.csv")
    run("learn", "t.csv", "--label", "fraud", "-m", "m.st")
    model = BalancedRidgeClassifier.load("m.st")
    with pytest.raises(ValueError, match=r"learned from tables.*TableClassifier.load"):
        model.save("m.st")
    run("predict", "m.st", "t.csv")


def test_the_estimator_of_a_table_is_one_object_until_more_is_learned():
    frame = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "y": [0, 1, 0, 1]})
    model = TableClassifier().fit(frame, "y")
    first = model.estimator_
    assert model.estimator_ is first
    model.partial_fit(frame, "y")
    assert model.estimator_ is not first
    assert first.class_count_.sum() == 4
    assert model.estimator_.class_count_.sum() == 8


def test_a_fitted_average_has_recent_scores(tmp_path):
    rng = np.random.default_rng(0)
    y = (rng.random(600) < 0.3).astype(int)
    frame = pd.DataFrame({"a": rng.normal(size=600) + y, "y": y})
    model = TableClassifier(AutoClassifier(candidates=("linear",))).fit(frame, "y")
    model.save(tmp_path / "m")
    assert TableModel.load(str(tmp_path / "m")).recent.shape == (300, 1)


# Messages


def test_messages_name_what_python_has(tmp_path):
    frame = payments()
    model = new_model().fit(frame, "fraud")
    model.save(tmp_path / "m.st")
    for one in (model, TableClassifier.load(tmp_path / "m.st")):
        message = "the frame has no column 'year', which the model has learned; it has 'amount'"
        with pytest.raises(ValueError, match=message) as caught:
            one.predict(frame.drop(columns="year"))
        assert "allow_new_columns" not in str(caught.value)
        with pytest.raises(ValueError, match="allow_new_columns=True"):
            one.predict(frame.assign(more=1.0))


def test_a_missing_label_has_one_remedy():
    frame = payments()
    frame.loc[3, "fraud"] = None
    with pytest.raises(ValueError, match=r"row 4: no label in column 'fraud'.*; drop the row$"):
        TableClassifier().fit(frame, "fraud")


def test_a_timestamp_without_a_half_life_names_the_estimator():
    model, frame = TableClassifier(columns={"at": "timestamp"}), payments().dropna(subset="at")
    message = re.escape('TableClassifier(BalancedRidgeClassifier(half_life="7d"), ...)')
    with pytest.raises(ValueError, match=message):
        model.fit(frame, "fraud")
    inner = BalancedRidgeClassifier(half_life="7d")
    assert model.set_params(estimator=inner).fit(frame, "fraud").score(frame, "fraud") > 0.5


def test_costs_as_an_estimator_are_refused():
    with pytest.raises(TypeError, match=r"costs is a keyword; use .*\(costs={1: 200.0}\)"):
        TableClassifier(CostSensitiveClassifier({1: 200.0})).fit(payments(), "fraud")
