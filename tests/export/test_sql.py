"""SQL that scores in the database: every row as ``predict`` does, in three engines."""

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import sqlglot
from builders import data_set, learn
from paper.datasets import VARIABLE
from sql_engines import DuckDB, Postgres, SQLite, quote, to_arrow

from counterpoise import TableClassifier
from counterpoise.export import load_to_export
from counterpoise.export.sql import Request, build_sql
from counterpoise.export.sql_statement import DIALECTS

SETS = ["mushroom", "credit-app", "statlog-german", "statlog-australian", "mammographic", "votes"]
ENGINES = ["duckdb", "sqlite", "postgres"]
MAX_CATEGORY_VALUES = 12  # of a column of the public sets that becomes categories


@pytest.fixture
def engine(request):
    """Return a function that makes a database of a kind from a frame."""
    made = []

    def make(kind, frame, table="rows"):
        if kind == "postgres":
            server = request.getfixturevalue("postgres")
            made.append(Postgres(frame, server.uri, table))
            return made[-1]
        return {"duckdb": DuckDB, "sqlite": SQLite}[kind](frame, table)

    yield make
    for one in made:
        one.close()


def statement(run, dialect, *more):
    """Return the SQL of m.st."""
    to_sql = "--output-format", "sql", "--dialect", dialect, "--table", "rows", "--id", "row"
    return run("export", "m.st", *to_sql, *more).out


def assert_sql_agrees(run, make, kind, frame, more=()):
    """Compare predictions of every row by SQL with those of predict; return both."""
    to_parquet(frame, "rows.parquet")
    run("predict", "m.st", "rows.parquet", "-o", "expected.parquet", *more)
    frame = frame.assign(row=np.arange(len(frame)))
    expected = pd.read_parquet("expected.parquet")
    database = make(kind, frame)
    found = database.query(statement(run, kind, *more)).sort_values("row", ignore_index=True)
    assert list(found.columns) == ["row", *expected.columns]
    assert len(found) == len(expected)
    for name in expected.columns:
        own, other = found[name], expected[name]
        if other.dtype.kind == "f":
            own = own.astype(float).to_numpy()
            np.testing.assert_allclose(own, other.to_numpy(), rtol=1e-9, atol=1e-9)
        else:
            assert (own.isna() == other.isna()).all()
            some = other.notna()
            assert own[some].tolist() == other[some].tolist(), name
    return found, expected


def to_parquet(frame, file):
    pq.write_table(to_arrow(frame), file)


def with_gaps(name, seed=0):
    """Return a public set: few values are categories as text, and one cell in twenty is missing."""
    data_set(name)
    frame = pd.read_csv(Path(os.environ[VARIABLE]) / f"{name}.csv.gz")
    rng = np.random.default_rng(seed)
    for column in frame.columns.drop("target"):
        if frame[column].nunique() <= MAX_CATEGORY_VALUES:
            frame[column] = "v" + frame[column].astype(str)
        frame.loc[rng.random(len(frame)) < 0.05, column] = None
    return frame


def mixed_frame(rows=400, classes=("no", "yes"), seed=0):
    """Rows with numbers, categories, booleans, dates, odd text and missing values."""
    rng = np.random.default_rng(seed)
    more = len(classes) - 1
    odd = [
        "it's",
        'a "b"',
        "back\\slash",
        "ünï",
        "line\nbreak",
        "NULL",
        " ",
        "a;--",
        "😀",
        "A",
        "a",
    ]
    frame = pd.DataFrame(
        {
            "amount": rng.exponential(10, rows),
            "Order By": rng.choice(odd, rows),
            "member": rng.choice([True, False], rows).astype(object),
            "at": pd.Timestamp("2024-02-28 23:59:59.5")
            + pd.to_timedelta(rng.integers(-40_000 * 86_400, 900 * 86_400, rows), unit="s"),
            "shop": rng.choice([f"shop {i}" for i in range(150)], rows),
            "target": rng.choice(classes, rows, p=[0.7, *[0.3 / more] * more]),
        }
    )
    frame["amount"] += 3.0 * (frame["target"] == classes[0])
    for column in frame.columns.drop("target"):
        frame.loc[rng.random(rows) < 0.05, column] = None
    return frame


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--calibrate", "--missing", "indicate"]])
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("kind", ENGINES)
def test_sql_agrees_with_predict_on_public_sets(run, engine, kind, name, more):
    frame = with_gaps(name)
    to_parquet(frame, "one.parquet")
    learn(run, "m.st", "one.parquet", more=more)
    found, _ = assert_sql_agrees(run, engine, kind, frame)
    assert found["prediction"].notna().all()


TWO, THREE = ("no", "yes"), ("a", "b", "c")
MAPS = {
    "poly2": THREE,
    "interactions3": TWO,
    "rm3": THREE,
    "rff:20": TWO,
    "hinges+ranks": THREE,
    "landmarks:9": TWO,
    "steps:9": THREE,
    "auto": TWO,
}
QUADRATIC = ["--pooled-rows", "9"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "classes"),
    [
        *((["--feature-map", name], classes) for name, classes in MAPS.items()),
        (QUADRATIC, TWO),
        (QUADRATIC, THREE),
    ],
)
@pytest.mark.parametrize("kind", ENGINES)
def test_sql_knows_feature_maps(run, engine, kind, classes, more):
    frame = mixed_frame(classes=classes).drop(columns=["Order By", "at", "shop"])
    frame["town"] = np.random.default_rng(1).choice(["A", "B"], len(frame))
    to_parquet(frame[:300], "one.parquet")
    learn(run, "m.st", "one.parquet", more=more)
    assert_sql_agrees(run, engine, kind, frame)


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["mean", "indicate", "drop"])
@pytest.mark.parametrize("classes", [("no", "yes"), (0, 1), (-1, 3, 7), ("a", "b", "c", "d'")])
@pytest.mark.parametrize("kind", ENGINES)
def test_sql_knows_every_kind_of_column(run, engine, kind, classes, missing):
    frame = mixed_frame(classes=classes)
    to_parquet(frame[:300], "one.parquet")
    learn(
        run, "m.st", "one.parquet", more=["--missing", missing, "--calibrate", "--many", "shop=5"]
    )
    frame.loc[300:310, "Order By"] = "never seen"
    found, _ = assert_sql_agrees(run, engine, kind, frame, ["--explain", "3"])
    assert found["prediction"].isna().any() == (missing == "drop")


# Cells and names

TO_SQL = ["--output-format", "sql", "--dialect", "postgres", "--table", "rows"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ENGINES)
def test_rows_that_predict_refuses_have_no_prediction(run, engine, kind):
    frame = mixed_frame()
    to_parquet(frame, "one.parquet")
    learn(run, "m.st", "one.parquet")
    frame = frame.assign(row=range(len(frame)))
    frame.loc[:3, "amount"] = [np.inf, -np.inf, 1e101, 1e-320]
    database = engine(kind, frame)
    found = database.query(statement(run, kind, "--explain", "2")).sort_values("row")
    assert found.iloc[:3].drop(columns="row").isna().all(axis=None)
    assert found.iloc[3:].notna().all(axis=None)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["duckdb", "postgres"])
def test_nan_is_missing(run, engine, kind):
    frame = mixed_frame()
    to_parquet(frame, "one.parquet")
    learn(run, "m.st", "one.parquet")
    database = engine(kind, frame.assign(row=range(len(frame))))
    before = database.query(statement(run, kind)).sort_values("row", ignore_index=True)
    database.run("UPDATE rows SET amount = CAST('NaN' AS FLOAT8) WHERE amount IS NULL")
    after = database.query(statement(run, kind)).sort_values("row", ignore_index=True)
    pd.testing.assert_frame_equal(before, after)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ENGINES)
def test_booleans_stay_booleans(run, engine, kind):
    frame = mixed_frame()
    frame["target"] = frame["target"] == "yes"
    to_parquet(frame, "one.parquet")
    learn(run, "m.st", "one.parquet")
    run("predict", "m.st", "one.parquet", "-o", "expected.parquet")
    expected = pd.read_parquet("expected.parquet")["prediction"]
    database = engine(kind, frame.assign(row=range(len(frame))))
    found = database.query(statement(run, kind)).sort_values("row")["prediction"]
    assert found.astype(bool).tolist() == expected.eq("true").tolist()


@pytest.mark.parametrize("kind", ["duckdb", "sqlite"])
def test_categories_are_compared_byte_by_byte(run, engine, kind):
    frame = mixed_frame()[["Order By", "target"]]
    to_parquet(frame, "one.parquet")
    learn(run, "m.st", "one.parquet")
    run("predict", "m.st", "one.parquet", "-o", "expected.parquet")
    database = engine(kind, frame.assign(row=range(len(frame))), "loose")
    database.run('CREATE TABLE "rows" ("Order By" VARCHAR COLLATE NOCASE, "row" INTEGER)')
    database.run('INSERT INTO "rows" SELECT "Order By", "row" FROM loose')
    found = database.query(statement(run, kind)).sort_values("row")["score"]
    expected = pd.read_parquet("expected.parquet")["score"]
    np.testing.assert_allclose(found.astype(float), expected, rtol=1e-9)


@pytest.mark.slow
def test_postgres_scores_only_the_rows_of_a_condition(run, engine):
    frame = mixed_frame(rows=300)
    to_parquet(frame, "one.parquet")
    learn(run, "m.st", "one.parquet")
    database = engine("postgres", frame.assign(row=range(len(frame))))
    database.run(statement(run, "postgres", "--view", "scored"))
    one = database.query('SELECT * FROM "scored" WHERE "row" = 7')
    assert one["row"].tolist() == [7]
    plan = database.query('EXPLAIN (ANALYZE, TIMING OFF) SELECT * FROM "scored" WHERE "row" = 7')
    steps = [line for line in plan.iloc[:, 0] if "rows=" in line and "never" not in line]
    assert steps
    assert not [line for line in steps if "actual rows=300" in line]


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS)
def test_sql_of_every_dialect_parses(run, dialect):
    frame = mixed_frame(classes=(-1, 3, 7))
    to_parquet(frame, "one.parquet")
    learn(run, "m.st", "one.parquet", more=["--calibrate", "--many", "shop"])
    text = statement(run, dialect, "--explain", "2", "--view", 'team."my view"')
    (tree,) = sqlglot.parse(text, dialect=dialect, error_level=sqlglot.ErrorLevel.RAISE)
    assert tree.key == "create"
    assert not list(tree.find_all(sqlglot.exp.Command))
    assert tree.this.name == "my view"
    literals = {one.this for one in tree.find_all(sqlglot.exp.Literal) if one.is_string}
    assert set(frame["Order By"].dropna()) <= literals
    again = tree.sql(dialect=dialect)
    assert sqlglot.parse_one(again, dialect=dialect) == tree


PARTS = [
    *("'", '"', "`", ";", "--", "/*", "*/", "\\", ".", "%s", "$1", ":x", "?", "[", "]", "{}", "$$"),
    *(
        "é",
        "漢字",
        "😀",
        "\u202e",
        "ß",
        "SELECT",
        "drop",
        "rows",
        "t",
        "NULL",
        "1",
        "value_0",
        "f_0",
    ),
    *("id_0", "counterpoise_0", "row", " ", "\n", "\t", "\r", "a\0b", "x" * 40),
]
FIXED = (
    *("", "row", "target", "score", "prediction", "counterpoise_0", "counterpoise", "t", "key"),
    *("Robert'); DROP TABLE victim;--", '"; DROP TABLE "victim"; --', "order", "a\0b", "\ud800"),
    *("x" * 63, "x" * 64, "漢" * 22, "rowid", "oid", "T", "__proto__"),
)
ROLES = ["column", "label", "table", "view"]


def hostile_names(count=200):
    """Names of quotes, keywords, comments, escapes, line ends and characters of any plane."""
    rng, names = np.random.default_rng(0), dict.fromkeys(FIXED)
    while len(names) < count:
        names["".join(PARTS[i] for i in rng.integers(0, len(PARTS), rng.integers(1, 5)))] = None
    return list(names)


def as_option(name):
    """Return the name of a table as an option takes it."""
    return '"' + name.replace('"', '""') + '"'


@pytest.mark.slow
@pytest.mark.parametrize("kind", ENGINES)
@pytest.mark.parametrize("role", ROLES)
def test_hostile_names_work_or_are_refused(tmp_path, engine, kind, role):
    rng, path = np.random.default_rng(0), str(tmp_path / "m.st")
    x = rng.normal(size=40)
    plain = pd.DataFrame({"x": x, "c": rng.choice(["a", "b"], 40), "id": np.arange(40)})
    y = np.where(x + 0.1 * rng.normal(size=40) > 0.5, "no", "yes")
    base = engine(kind, pd.DataFrame({"x": [1]}), "victim")
    # All names in each engine, a fourth of them in each role, which differs between the engines.
    names = hostile_names()[(ROLES.index(role) + list(ENGINES).index(kind)) % 4 :: 4]
    worked, refused = 0, []
    for name in names:
        table = name if role == "table" else "given"
        view = name if role == "view" else "seen"
        try:
            frame = plain.rename(columns={"c": name}) if role == "column" else plain
            labels = np.where(y == "no", name, y) if role == "label" else y
            answered = frame.assign(answer=labels)
            model = TableClassifier(columns={"id": "drop"}).fit(answered, "answer")
            model.save(path)
            stored = load_to_export(path)
            request = Request(kind, as_option(table), as_option(view), ("id",))
            sql = build_sql(stored, request, stored.classes[0])
        except ValueError as error:
            refused.append(str(error))
            continue
        database = engine(kind, frame, table)
        database.run(sql)
        found = database.query(f"SELECT * FROM {quote(view)}").sort_values("id")
        assert found["prediction"].tolist() == model.predict(frame).tolist(), name
        database.run(f"DROP VIEW {quote(view)}")
        if kind == "postgres":
            database.close()
        worked += 1
    assert worked > 0.7 * len(names)
    assert all(refused)
    assert not [message for message in refused if "\n" in message]
    assert base.query("SELECT * FROM victim")["x"].tolist() == [1]


def test_options_and_models_without_sql_are_refused(run):
    frame = mixed_frame()
    to_parquet(frame, "one.parquet")
    learn(run, "m.st", "one.parquet", more=["--hash", "shop=8"])
    learn(run, "map.st", "one.parquet", more=["--drop", "shop,at", "--feature-map", "rm2"])
    for arguments, message in (
        (["m.st", "--table", "t"], "--table requires --output-format sql"),
        (["m.st", "--output-format", "sql", "--table", "t"], "sql requires --dialect"),
        (["m.st", "--output-format", "sql", "--dialect", "duckdb"], "sql requires --table"),
        (["m.st", *TO_SQL, "--dialect", "mysql"], "--dialect must be postgres, duckdb, sqlite"),
        (["m.st", *TO_SQL], "column 'shop' has the kind hash, which cannot be exported as SQL"),
        (["map.st", *TO_SQL, "--explain", "2"], "--explain requires linear scores"),
        (["map.st", *TO_SQL, "--id", "score"], "--id: column 'score' is a column of the pred"),
        (["map.st", *TO_SQL, "--view", 'a"b'], "--view: 'a\"b' is not the name of a table"),
        (["map.st", *TO_SQL, "--view", "x" * 64], "--view: the name 'xxx"),
    ):
        done = run("export", *arguments, code=2)
        assert message in done.err
        assert not done.out


def test_a_model_of_one_class_is_refused(run):
    frame = mixed_frame()
    to_parquet(frame[frame["target"] == "no"], "one.parquet")
    learn(run, "m.st", "one.parquet")
    assert "has learned only one class" in run("export", "m.st", *TO_SQL, code=2).err
