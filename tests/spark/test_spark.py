"""On Spark as on one machine: the same weights, each row once, whatever fails on the way."""

# ruff: noqa: E402  (whether to skip is decided before anything of Spark is imported)

import doctest
import io
import os
import re
import shutil
import signal
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.datasets import load_breast_cancer, load_iris

pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java, which is not installed", allow_module_level=True)

from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.evaluation import BinaryClassificationEvaluator, MulticlassClassificationEvaluator
from pyspark.ml.feature import StringIndexer, VectorAssembler
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import SparkSession, functions
from pyspark.sql.types import IntegerType, StructType

from counterpoise import BalancedRidgeClassifier, Ledger, TableClassifier
from counterpoise.errors import DataError
from counterpoise.estimators.auto import wrap_engine
from counterpoise.feature_maps import make_fitted_map
from counterpoise.ledger.synthetic import payments as year_of_payments
from counterpoise.modelfile import container as modelfile
from counterpoise.spark import BalancedRidge, ModelSink, fit, ledger, predict, save
from counterpoise.tables.model import TableModel

# One worker for all: they share a session.
pytestmark = [
    pytest.mark.xdist_group("spark"),
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]
X, Y = load_breast_cancer(return_X_y=True)
NAMES = [f"x{j}" for j in range(X.shape[1])]


@pytest.fixture(scope="module")
def spark(tmp_path_factory):
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    # Half of the time of short jobs is compiling: by Java, and by Spark, which writes Java.
    java = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    java += " -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m -Xms1g"  # from the start
    folder = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2,4]")  # a task may fail three times
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.codegen.wholeStage", "false")
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        .config("spark.sql.adaptive.enabled", "false")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.driver.extraJavaOptions", f"-Dderby.system.home={folder} {java}")
        .config("spark.python.daemon.module", "spark_daemon")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def cancer(spark):
    table = pd.DataFrame(X, columns=NAMES).assign(y=Y)
    return spark.createDataFrame(table).repartition(3).cache()


@pytest.fixture(scope="module")
def payments(spark):
    """Numbers, categories, a boolean, weights, and labels as text."""
    rng = np.random.default_rng(0)
    n = 900
    table = pd.DataFrame(
        {
            "amount": rng.lognormal(3, 1, n),
            "country": rng.choice(["DE", "FR", "IT"], n, p=[0.6, 0.3, 0.1]),
            "foreign": rng.random(n) < 0.3,
            "weight": rng.integers(1, 4, n),
            "fraud": np.where(rng.random(n) < 0.2, "yes", "no"),
        }
    )
    return table, spark.createDataFrame(table).repartition(4).cache()


def one_hot(table, columns):
    return pd.concat(
        [
            table[["amount"]],
            *[
                pd.get_dummies(
                    table[c].map(lambda v: str(v).lower() if isinstance(v, bool) else v),
                    prefix=c,
                    prefix_sep="=",
                )
                for c in columns
            ],
        ],
        axis=1,
    ).astype(float)


def same(one, two):
    # Equal to rounding: sums of the same rows in another order.
    scale = np.abs(two).max()
    return np.abs(one - two).max() <= 1e-10 * scale


@pytest.mark.parametrize("partitions", [1, 2, 7, 64])
def test_any_partitioning_gives_the_single_machine_answer(cancer, partitions):
    model = fit(cancer.repartition(partitions), "y")
    alone = BalancedRidgeClassifier().fit(X, Y)
    assert same(model.coef_, alone.coef_)
    assert same(model.intercept_, alone.intercept_)
    assert model.class_count_.tolist() == alone.class_count_.tolist()
    assert model.feature_names_in_.tolist() == NAMES


def test_the_same_files_give_the_same_bits(spark, cancer, tmp_path):
    cancer.repartition(11).write.parquet(str(tmp_path / "rows"))
    found = set()
    for _ in range(2):
        frame = spark.read.parquet(str(tmp_path / "rows"))
        found.add(modelfile.to_bytes(fit(frame, "y")._contents()))
    assert len(found) == 1


def test_options_are_those_of_the_classifier(cancer):
    options = {"ridge": 1e-2, "class_factors": {1: 3.0}, "penalize_intercept": False}
    assert same(
        fit(cancer, "y", **options).coef_, BalancedRidgeClassifier(**options).fit(X, Y).coef_
    )
    with pytest.raises(TypeError, match="rigde"):
        fit(cancer, "y", rigde=1.0)
    with pytest.raises(ValueError, match="ridge"):
        fit(cancer, "y", ridge=-1.0)


def test_text_and_truth_become_categories(payments):
    table, frame = payments
    model = fit(frame, "fraud", only=["amount", "country", "foreign"])
    wanted = one_hot(table, ["country", "foreign"])
    assert model.feature_names_in_.tolist() == list(wanted.columns)
    alone = BalancedRidgeClassifier().fit(wanted.to_numpy(), table["fraud"])
    assert same(model.coef_, alone.coef_)


def test_given_categories_need_no_search_and_allow_no_other(payments):
    _, frame = payments
    columns = ["amount", "country"]
    given = fit(frame, "fraud", only=columns, categories={"country": ["IT", "DE", "FR", "US"]})
    assert given.feature_names_in_.tolist() == [
        "amount",
        *(f"country={c}" for c in ("DE", "FR", "IT", "US")),
    ]
    found = fit(frame, "fraud", only=columns)
    assert same(given.coef_[:, :4], found.coef_)
    with pytest.raises(DataError, match="'IT', which is not among those given"):
        fit(frame, "fraud", only=columns, categories={"country": ["DE", "FR"]})
    with pytest.raises(DataError, match="not a column of text"):
        fit(frame, "fraud", only=columns, categories={"amount": ["1"]})


def test_weights_count_rows(payments):
    table, frame = payments
    model = fit(frame.drop("country", "foreign"), "fraud", {"weight": "weight"})
    alone = BalancedRidgeClassifier().fit(
        table[["amount"]].to_numpy(), table["fraud"], sample_weight=table["weight"]
    )
    assert same(model.coef_, alone.coef_)


def test_vectors_are_their_entries(cancer):
    packed = VectorAssembler(inputCols=NAMES, outputCol="v").transform(cancer).select("v", "y")
    arrays = cancer.select(functions.array(*NAMES).alias("v"), "y")
    alone = fit(cancer, "y")
    for frame in (packed, arrays):
        model = fit(frame, "y")
        assert same(model.coef_, alone.coef_)
        assert model.feature_names_in_[:2].tolist() == ["v[0]", "v[1]"]
        found = predict(frame, model).select("prediction").toPandas()["prediction"]
        assert (found.to_numpy() == alone.predict(frame_rows(cancer))).all()


def frame_rows(frame):
    return frame.select(*NAMES).toPandas().to_numpy()


def test_missing_values_are_refused_dropped_or_learned(spark, payments):
    table, _ = payments
    holes = table[["amount", "fraud"]].copy()
    holes.loc[::10, "amount"] = np.nan
    frame = spark.createDataFrame(holes).repartition(3)
    with pytest.raises(
        DataError,
        match=r"partition \d, row \d+: no value in column 'amount'; .* missing=\"drop\"",
    ):
        fit(frame, "fraud", missing="error")
    by_default = fit(frame, "fraud")
    assert by_default.class_count_.sum() == len(holes)
    assert by_default.encoding_.columns.missing == "mean"
    kept = holes.dropna()
    alone = BalancedRidgeClassifier().fit(kept[["amount"]].to_numpy(), kept["fraud"])
    dropped = fit(frame, "fraud", missing="drop")
    assert same(dropped.coef_, alone.coef_)
    known = fit(frame, "fraud", missing="indicate")
    assert known.feature_names_in_.tolist() == ["amount", "amount is missing"]
    # A row that cannot be scored gets no prediction, unless that was learned.
    rows = predict(frame, dropped).toPandas()
    assert (rows["prediction"].isna() == rows["amount"].isna()).all()
    assert predict(frame, known).toPandas()["prediction"].notna().all()


def gappy(n=600, seed=0):
    """Numbers far from zero, text and dates, all with missing values, and labels as text."""
    rng = np.random.default_rng(seed)
    at = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 200 * 86_400, n), unit="s")
    table = pd.DataFrame(
        {
            "year": rng.normal(2010.0, 5.0, n),
            "amount": rng.lognormal(3, 1, n),
            "country": rng.choice(["DE", "FR", "IT"], n),
            "at": at,
        }
    )
    risk = (table.year - 2010.0) / 5.0 + (table.country == "IT") + rng.normal(size=n)
    table["fraud"] = np.where(risk > 1.5, "yes", "no")
    for column in ("year", "country", "at"):
        table.loc[rng.random(n) < 0.1, column] = None
    table.loc[n // 2 + 7, "amount"] = None  # in the second half alone
    return table


def frame_of(spark, table):
    """A Spark frame whose missing values are null, and whose dates have no time zone."""
    return spark.createDataFrame(pa.Table.from_pandas(table, preserve_index=False)).repartition(3)


def test_a_stream_goes_on_with_what_a_shell_learned_with_gaps(spark, run, tmp_path):
    table, path = gappy(), str(tmp_path / "m.st")
    half = len(table) // 2
    table[:half].to_csv(tmp_path / "rows.csv", index=False)
    run("learn", str(tmp_path / "rows.csv"), "--label", "fraud", "--model", path)  # as by default
    ModelSink(path, "fraud")(frame_of(spark, table[half:]), 0)
    found, one = TableClassifier.load(path), TableClassifier().fit(table, "fraud")
    assert sorted(found.get_feature_names_out()) == sorted(one.get_feature_names_out())
    rows = table.drop(columns="fraud")
    assert same(found.decision_function(rows), one.decision_function(rows))
    scored = predict(frame_of(spark, table), path).toPandas()
    assert same(scored["score"], found.decision_function(scored[rows.columns]))
    rows[:half].assign(fraud=table.fraud[:half]).to_csv(tmp_path / "more.csv", index=False)
    run("learn", str(tmp_path / "more.csv"), "--label", "fraud", "--model", path)  # and back
    with pytest.raises(DataError, match=r"missing is drop, but .* was learned with mean"):
        ModelSink(path, "fraud", missing="drop")(frame_of(spark, table), 1)


@pytest.mark.parametrize("name", [None, "rff:20", "poly2"])
def test_gaps_are_filled_by_the_mean_of_the_whole_frame(spark, name, tmp_path):
    table = gappy()
    model = fit(
        frame_of(spark, table),
        "fraud",
        missing="mean",
        columns={"at": "datetime"},
        feature_map=name,
    )
    one = TableClassifier(BalancedRidgeClassifier()).fit(table, "fraud")
    path = str(tmp_path / "m.st")
    save(model, path)
    found = TableClassifier.load(path)
    rows = table.drop(columns="fraud")
    names = found.get_feature_names_out().tolist()
    at = [one.get_feature_names_out().tolist().index(n) for n in names]
    Z = one.transform(rows)[:, at]  # filled by the mean of all
    np.testing.assert_allclose(found.transform(rows), Z, rtol=1e-12)
    features = None if name is None else make_fitted_map(name, Z.mean(axis=0), Z.std(axis=0))
    fresh = BalancedRidgeClassifier(feature_map=features).fit(Z, table.fraud)
    # Seconds since 1970 are 1e9 away from zero, and with a map terms are nearly collinear.
    np.testing.assert_allclose(
        found.decision_function(rows),
        fresh.decision_function(Z),
        atol=1e-10 if name is None else 1e-7,
    )


lit, col, array, when = functions.lit, functions.col, functions.array, functions.when


def many_categories(frame):
    each = frame.crossJoin(frame.select(col("x0").alias("z")).limit(4)).drop("z")
    return each.withColumn("c", functions.rand(1).cast("string"))


def uneven_vectors(frame):
    return frame.withColumn("v", when(col("x0") > 15, array("x1")).otherwise(array("x1", "x2")))


BAD = [
    (lambda f: f, {"label": "z"}, "no column 'z', given as label; it has 'x0'"),
    (lambda f: f, {"only": ["x0", "q"]}, "no column 'q', given as only"),
    (
        lambda f: f.withColumn("x1", lit("Rome")),
        {"columns": {"x1": "number"}},
        "'Rome', which is not a num",
    ),
    (lambda f: f.withColumn("y", lit(None).cast("int")), {}, "no label in column 'y'"),
    (lambda f: f.withColumn("y", lit(0.5)), {}, "label 0.5 in column 'y' is not an integer"),
    (lambda f: f.withColumn("x1", lit(1e300)), {}, r"column 'x1' is 1e\+300, beyond"),
    (
        lambda f: f.withColumn("x1", functions.current_date()),
        {},
        r"dates; .* columns=..x1.: .epoch",
    ),
    (lambda f: f.withColumn("m", functions.create_map("x0", "x1")), {}, "type map<double,double>"),
    (lambda f: f.limit(0), {}, "no row to learn from"),
    (lambda f: f.select("y"), {}, "no column is left"),
    (lambda f: f, {"missing": "maybe"}, "missing must be 'error', 'drop', 'ind"),
    (uneven_vectors, {"only": ["v"]}, "entries, where others have"),
    (uneven_vectors, {"label": "v"}, "'v' contains vectors, and cannot be a label"),
    (lambda f: f, {"only": []}, "only is empty"),
    (lambda f: f, {"columns": {"x0": "hash:0"}}, "role of column .x0. must be"),
    (lambda f: many_categories(f).withColumn("y", col("c")), {"only": ["x0"]}, "1,000 diff"),
    (many_categories, {"only": ["x0", "c"]}, r"more than 1,000 categories.*columns="),
]


@pytest.mark.parametrize(("change", "arguments", "message"), BAD)
def test_bad_input_is_one_sentence_and_no_java(cancer, capfd, change, arguments, message):
    frame = change(cancer)
    capfd.readouterr()
    with pytest.raises(DataError, match=message) as error:
        fit(frame, **{"label": "y", **arguments})
    assert len(str(error.value)) < 700
    assert "\n" not in str(error.value)
    assert "org.apache" not in str(error.value) + capfd.readouterr().err


def test_predictions_are_those_of_the_model(cancer):
    model = fit(cancer, "y")
    rows = predict(cancer, model, "predicted", "f").toPandas()
    matrix = rows[NAMES].to_numpy()
    assert (rows["predicted"] == model.predict(pd.DataFrame(matrix, columns=NAMES))).all()
    alone = BalancedRidgeClassifier().fit(X, Y)
    assert np.allclose(rows["f"], alone.decision_function(matrix), atol=1e-9)
    with pytest.raises(DataError, match="has no column 'x3'"):
        predict(cancer.drop("x3"), model)
    with pytest.raises(DataError, match="'x3' was learned as numbers, but its type is string"):
        predict(cancer.withColumn("x3", functions.lit("a")), model)
    with pytest.raises(DataError, match="not fitted on a frame"):
        predict(cancer, alone)


def test_many_classes_have_many_scores(spark):
    X3, y3 = load_iris(return_X_y=True)
    words = np.array(["a", "b", "c"])[y3]
    frame = spark.createDataFrame(pd.DataFrame(X3, columns=list("pqrs")).assign(kind=words))
    model = fit(frame, "kind")
    rows = predict(frame, model).toPandas()
    alone = BalancedRidgeClassifier().fit(X3, words)
    assert (rows["prediction"] == alone.predict(X3)).all()
    assert np.allclose(np.stack(rows["score"]), alone.decision_function(X3), atol=1e-9)


@pytest.mark.parametrize("options", [{"pooled_rows": 20.0}, {"multi_class": "ovr"}])
def test_quadratic_boundaries_and_one_vs_rest(spark, options, tmp_path):
    X3, y3 = load_iris(return_X_y=True)
    words = np.array(["a", "b", "c"])[y3]
    frame = spark.createDataFrame(pd.DataFrame(X3, columns=list("pqrs")).assign(kind=words))
    model = fit(frame.repartition(3), "kind", **options)
    alone = BalancedRidgeClassifier(**options).fit(X3, words)
    save(model, str(tmp_path / "m"))
    for one in (model, str(tmp_path / "m")):
        rows = predict(frame, one).toPandas()
        assert (rows["prediction"] == alone.predict(X3)).all()
        np.testing.assert_allclose(
            np.stack(rows["score"]), alone.decision_function(X3), rtol=1e-9, atol=1e-9
        )
    stage = BalancedRidge(inputCols=list("pqrs"), labelCol="kind", options=options)
    rows = stage.fit(frame).transform(frame).toPandas()
    assert (rows["prediction"] == alone.predict(X3)).all()


def test_strange_names_of_columns_are_names(spark):
    table = pd.DataFrame(
        {"a.b": [0.0, 1.0, 2.0, 3.0], "c`d": [1.0, 0.0, 1.0, 0.0], "the label": [0, 0, 1, 1]}
    )
    model = fit(spark.createDataFrame(table), "the label")
    assert model.feature_names_in_.tolist() == ["a.b", "c`d"]
    assert predict(spark.createDataFrame(table), model).count() == 4


def test_files_are_those_of_the_command_line(spark, payments, tmp_path, run):
    table, frame = payments
    model = fit(frame.drop("weight"), "fraud")
    save(model, str(tmp_path / "fraud.safetensors"))
    rows = table.drop(columns="weight")
    words = rows.assign(foreign=rows["foreign"].map({True: "true", False: "false"}))
    words.to_csv(tmp_path / "rows.csv", index=False)
    said = pd.read_csv(io.StringIO(run("predict", "fraud.safetensors", "rows.csv").out))
    ordered = spark.createDataFrame(rows)
    for source in (model, str(tmp_path / "fraud.safetensors")):
        found = predict(ordered, source).toPandas()
        assert found["prediction"].tolist() == said["prediction"].tolist()
        assert np.allclose(found["score"], said.filter(like="score").iloc[:, 0], atol=1e-9)


def test_a_pipeline_with_persistence(payments, tmp_path):
    _, frame = payments
    stages = [
        StringIndexer(inputCol="country", outputCol="code"),
        VectorAssembler(inputCols=["amount", "code"], outputCol="features"),
        BalancedRidge(labelCol="fraud", weightCol="weight", options={"ridge": 1e-3}),
    ]
    Pipeline(stages=stages).save(str(tmp_path / "plan"))
    fitted = Pipeline.load(str(tmp_path / "plan")).fit(frame)
    fitted.write().save(str(tmp_path / "fitted"))
    again = PipelineModel.load(str(tmp_path / "fitted"))
    one, two = (m.transform(frame).toPandas() for m in (fitted, again))
    assert (one["prediction"] == two["prediction"]).all()
    assert (one["rawPrediction"] == two["rawPrediction"]).all()
    assert again.stages[-1].model.ridge == 1e-3
    assert again.stages[-1].uid == fitted.stages[-1].uid
    with pytest.raises(TypeError, match="rigde"):
        BalancedRidge(options={"rigde": 1})


def test_columns_instead_of_vectors_in_a_pipeline(payments):
    _, frame = payments
    stage = BalancedRidge(
        inputCols=["amount", "country"], labelCol="fraud", predictionCol="predicted"
    )
    fitted = stage.fit(frame)
    assert same(fitted.model.coef_, fit(frame, "fraud", only=["amount", "country"]).coef_)
    assert "predicted" in fitted.transform(frame).columns


# Failures


def once(path, harm):
    """Rows as they are, but the first task to come does itself harm."""

    def through(batches):
        for batch in batches:
            try:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                yield batch
                continue
            harm()

    return through


def kill_yourself():
    os.kill(os.getpid(), signal.SIGKILL)


def fail():
    raise RuntimeError("made to fail")


@pytest.mark.parametrize("harm", [kill_yourself, fail])
def test_a_task_that_fails_or_dies_changes_nothing(spark, cancer, tmp_path, harm):
    cancer.repartition(10).write.parquet(str(tmp_path / "rows"))
    frame = spark.read.parquet(str(tmp_path / "rows"))
    whole = modelfile.to_bytes(fit(frame, "y")._contents())
    flag = tmp_path / "harmed"
    broken = frame.mapInArrow(once(str(flag), harm), frame.schema)
    assert modelfile.to_bytes(fit(broken, "y")._contents()) == whole
    assert flag.exists()


# Streams


def stream_of(spark, folder):
    reader = spark.readStream.schema("x double, word string, y int").option("maxFilesPerTrigger", 1)
    return reader.json(str(folder))


def some_files(folder, count, rows=40, first=0):
    folder.mkdir(exist_ok=True)
    rng = np.random.default_rng(first)
    made = []
    for k in range(first, first + count):
        words = ["a", "b", "c"][: 1 + k % 3]  # categories that come late
        part = pd.DataFrame(
            {
                "x": rng.normal(size=rows),
                "word": rng.choice(words, rows),
                "y": rng.integers(0, 2, rows),
            }
        )
        temporary = folder / f"_{k:03}.json"
        part.to_json(temporary, orient="records", lines=True)
        os.utime(temporary, (1_700_000_000 + k,) * 2)  # Spark sorts by it
        temporary.rename(folder / f"{k:03}.json")
        made.append(part)
    return pd.concat(made)


def run_query(frame, sink, check):
    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(check))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()


def test_each_batch_is_folded_exactly_once(spark, tmp_path):
    rows = some_files(tmp_path / "in", 6)
    path = str(tmp_path / "model.safetensors")
    sink = ModelSink(path, "y")
    calls = []

    def crashing(batch, number):
        sink(batch, number)
        calls.append(number)
        if calls.count(number) == 1 and number % 2:
            raise RuntimeError("dies between folding and the checkpoint")

    for _ in range(8):
        try:
            run_query(stream_of(spark, tmp_path / "in"), crashing, tmp_path / "check")
        except pyspark.errors.StreamingQueryException:
            continue
        break
    assert len(calls) > len(set(calls)) == 6  # some were handed over twice
    stored = TableModel.load(path)
    assert (
        wrap_engine(stored.model).class_count_.tolist()
        == rows["y"].value_counts().sort_index().tolist()
    )
    mark = stored.records["- spark stream"].mark
    assert (mark.rows, mark.size) == (len(rows), 6)
    alone = fit(spark.createDataFrame(rows), "y")
    order = [[f.name for f in stored.encoding.features].index(n) for n in alone.feature_names_in_]
    assert same(wrap_engine(stored.model).coef_[:, order], alone.coef_)


def test_a_stream_is_predicted_by_the_newest_file(spark, cancer, tmp_path):
    path = str(tmp_path / "model.safetensors")
    frame = spark.createDataFrame(some_files(tmp_path / "in", 2))
    save(fit(frame, "y"), path)
    seen = []

    def keep(batch, number):
        seen.append(batch.select("score").toPandas()["score"].to_numpy())
        if number == 0:  # another model takes its place
            flipped = frame.withColumn("y", 1 - functions.col("y"))
            save(fit(flipped, "y"), path)

    scored = predict(stream_of(spark, tmp_path / "in"), path)
    run_query(scored, keep, tmp_path / "check")
    first, second = (
        predict(
            spark.createDataFrame(pd.read_json(tmp_path / "in" / f"{k:03}.json", lines=True)), path
        ).toPandas()["score"]
        for k in (0, 1)
    )
    assert np.allclose(seen[0], -first, atol=1e-9)  # by the model before
    assert np.allclose(seen[1], second, atol=1e-9)  # by the newest


def test_a_file_of_other_options_is_left_alone(spark, tmp_path):
    path = str(tmp_path / "model.safetensors")
    frame = spark.createDataFrame(some_files(tmp_path / "in", 1))
    ModelSink(path, "y")(frame, 0)
    before = Path(path).read_bytes()
    with pytest.raises(DataError, match=r"ridge is 1, but .* was learned with auto"):
        ModelSink(path, "y", ridge=1.0)(frame, 1)
    with pytest.raises(DataError, match=r"missing is drop, but .* was learned with mean"):
        ModelSink(path, "y", missing="drop")(frame, 1)
    with pytest.raises(DataError, match="no column 'word'"):
        ModelSink(path, "y")(frame.drop("word"), 1)
    assert Path(path).read_bytes() == before
    ModelSink(path, "y")(frame.limit(0), 1)  # a batch without rows counts as taken
    assert TableModel.load(path).records["- spark stream"].mark.size == 2


def test_what_was_learned_stays_what_it_was(spark, tmp_path, run):
    path = str(tmp_path / "model.safetensors")
    table = some_files(tmp_path / "in", 1)
    table.to_csv(tmp_path / "rows.csv", index=False)
    options = ["--hash", "word=8", "--seed", "5", "--missing", "error"]
    run("learn", "rows.csv", "--label", "y", "--model", path, *options)
    words = spark.createDataFrame(table).select(*(col(c).cast("string") for c in table.columns))
    sink = ModelSink(path, "y", columns={"word": "hash:8"})
    sink(words, 0)  # text, as of a CSV that Spark has read
    stored = TableModel.load(path)
    assert stored.encoding.kinds["x"] == "number"
    assert stored.encoding.columns.seed == 5
    assert wrap_engine(stored.model).class_count_.sum() == 2 * len(table)
    alone = BalancedRidgeClassifier().fit(table[["x"]], table["y"])
    assert wrap_engine(stored.model).classes_.tolist() == alone.classes_.tolist()


def test_batches_are_calibrated_as_rows_are_whatever_batches_and_partitions(spark, tmp_path):
    rng = np.random.default_rng(0)
    y = (rng.random(600) < 0.3).astype(int)
    table = pd.DataFrame(np.exp(rng.standard_normal((600, 2))) + y[:, None], columns=["a", "b"])
    rows = BalancedRidgeClassifier(calibrate=True).partial_fit(table, y)
    table = table.assign(y=y, w=np.where(np.arange(600) % 50 == 49, 0.0, 1.0))
    kept = table[table["w"] > 0]
    weighted = BalancedRidgeClassifier(calibrate=True).partial_fit(kept[["a", "b"]], kept["y"])
    for role, whole in (("drop", rows), ("weight", weighted)):
        path = str(tmp_path / f"{role}.safetensors")
        sink = ModelSink(path, "y", {"w": role}, calibrate=True)
        for number, cut in enumerate((slice(0, 250), slice(250, 260), slice(260, 600))):
            # Spark cuts a local frame into consecutive parts
            batch = spark.createDataFrame(table[cut]).coalesce(2)
            sink(batch, number)
        found, expected = TableModel.load(path).model.state, whole._engine.state
        assert found.calibration.rows == expected.calibration.rows > 0
        np.testing.assert_array_equal(found.calibration.counts, expected.calibration.counts)
        np.testing.assert_allclose(found.calibration.sums, expected.calibration.sums, atol=1e-6)
        assert found.progressive.order.runs == expected.progressive.order.runs
    ordered = spark.createDataFrame(table.drop(columns="w").sort_values("y")).coalesce(1)
    with pytest.warns(UserWarning, match="sorted"):
        ModelSink(str(tmp_path / "sorted"), "y", calibrate=True)(ordered, 0)


def test_batches_that_cannot_be_placed_are_refused(spark, tmp_path):
    path = str(tmp_path / "model.safetensors")
    some_files(tmp_path / "in", 2)
    sink = ModelSink(path, "y")
    run_query(stream_of(spark, tmp_path / "in"), sink, tmp_path / "check")
    before = Path(path).read_bytes()
    with pytest.raises(
        pyspark.errors.StreamingQueryException, match="give this one a name of its own"
    ):
        run_query(stream_of(spark, tmp_path / "in"), sink, tmp_path / "another")
    with pytest.raises(DataError, match="the file is older than the checkpoint"):
        sink(spark.createDataFrame(some_files(tmp_path / "more", 1)), 7)
    assert Path(path).read_bytes() == before
    run_query(stream_of(spark, tmp_path / "in"), ModelSink(path, "y", query="b"), tmp_path / "b")
    assert wrap_engine(TableModel.load(path).model).class_count_.sum() == 160


def test_queries_wait_for_each_other(spark, tmp_path):
    path = str(tmp_path / "model.safetensors")
    some_files(tmp_path / "in", 2)
    queries = [
        stream_of(spark, tmp_path / "in")
        .writeStream.foreachBatch(ModelSink(path, "y", query=name))
        .option("checkpointLocation", str(tmp_path / f"check-{name}"))
        .trigger(availableNow=True)
        .start()
        for name in "ab"
    ]
    for query in queries:
        query.awaitTermination()
    assert wrap_engine(TableModel.load(path).model).class_count_.sum() == 160


def test_vectors_of_a_stream_keep_their_size(spark, tmp_path):
    path = str(tmp_path / "model.safetensors")
    two = spark.createDataFrame([([1.0, 2.0], 0), ([3.0, 1.0], 1)], "v array<double>, y int")
    three = spark.createDataFrame([([1.0, 2.0, 3.0], 0)], "v array<double>, y int")
    none = spark.createDataFrame([(None, 0)], "v array<double>, y int")
    sink = ModelSink(path, "y", only=["v"], missing="drop")
    sink(two, 0)
    with pytest.raises(DataError, match="has 3 entries, where others have 2"):
        sink(three, 1)
    sink(none, 1)
    record = TableModel.load(path).records["- spark stream"]
    assert (record.mark.rows, record.dropped) == (3, 1)


def test_null_vectors_are_missing(spark):
    rows = [(Vectors.dense([1.0, 2.0]), 0), (Vectors.dense([2.0, 1.0]), 1), (None, 0)]
    frame = spark.createDataFrame(rows, StructType().add("v", VectorUDT()).add("y", IntegerType()))
    with pytest.raises(DataError, match=r"no value in column 'v\[0\]'"):
        fit(frame, "y", missing="error")
    model = fit(frame, "y", missing="drop")
    assert model.class_count_.tolist() == [1.0, 1.0]
    assert [row["prediction"] for row in predict(frame, model).collect()] == [0, 1, None]


def test_a_partition_that_weighs_nothing_is_nothing(spark):
    rows = spark.range(0, 40, 1, 2).selectExpr("id * 0.1D x", "id % 2 y", "double(id >= 20) w")
    model = fit(rows, "y", {"w": "weight"}, ["x"])
    assert model.class_count_.tolist() == [10.0, 10.0]


def test_long_offsets_of_arrow(spark, payments):
    _, frame = payments
    usual = fit(frame, "fraud")
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    try:
        model = fit(frame, "fraud")
        assert predict(frame, model).where("prediction is null").count() == 0
    finally:
        spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "false")
    assert same(model.coef_, usual.coef_)


def test_costs_by_number_survive_a_pipeline(cancer):
    stage = BalancedRidge(inputCols=NAMES, labelCol="y", options={"class_factors": {1: 5.0}})
    fitted = stage.fit(cancer)
    assert same(fitted.model.coef_, fit(cancer, "y", only=NAMES, class_factors={1: 5.0}).coef_)
    scored = fitted.transform(cancer)
    by_many = MulticlassClassificationEvaluator(labelCol="y", metricName="accuracy")
    assert by_many.evaluate(scored) > 0.9
    assert BinaryClassificationEvaluator(labelCol="y").evaluate(scored) > 0.9


def test_names_are_not_taken_twice(cancer):
    model = fit(cancer, "y")
    with pytest.raises(DataError, match="already has a column 'Score'"):
        predict(cancer.withColumn("Score", lit(1)), model)
    both = cancer.withColumn("x[0]", lit(1.0)).withColumn("x", array("x0", "x1"))
    with pytest.raises(DataError, match="have the same name"):
        fit(both, "y", only=["x[0]", "x"])
    with pytest.raises(DataError, match="have the same name; rename one"):
        fit(cancer.select("x0", col("x1").alias("X0"), "y"), "y")


def test_missing_categories_and_weights(spark):
    table = [("a", 1.0, 0), (None, 1.0, 1), ("b", 2.0, 1), ("a", 1.0, 1)]
    frame = spark.createDataFrame(table, "c string, w double, y int")
    given = {"c": ["a", "b"]}
    model = fit(frame.drop("w"), "y", missing="indicate", categories=given)
    assert model.feature_names_in_.tolist() == ["c=a", "c=b", "c is missing"]
    lacking = frame.withColumn("w", when(col("c") == "b", None).otherwise(col("w")))
    with pytest.raises(DataError, match="a missing weight cannot be imputed"):
        fit(lacking, "y", {"w": "weight"}, missing="indicate")


def test_text_learned_as_numbers_is_predicted_as_numbers(spark, tmp_path):
    frame = spark.createDataFrame([("1", "0"), ("2.5", "1"), ("3", "1")], "x string, y string")
    model = fit(frame, "y", columns={"x": "number", "y": "number"})
    assert model.classes_.tolist() == [0, 1]
    assert predict(frame, model).where("prediction is null").count() == 0
    save(model, tmp_path / "model.safetensors")
    assert predict(frame, tmp_path / "model.safetensors").count() == 3


def test_a_cached_batch_stays_cached(spark, tmp_path):
    frame = spark.createDataFrame(some_files(tmp_path / "in", 1)).cache()
    ModelSink(str(tmp_path / "model.safetensors"), "y")(frame, 0)
    assert frame.is_cached
    frame.unpersist()


def test_the_examples_of_the_documents_run(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "payment_id": range(300),
            "amount": rng.lognormal(3, 1, 300),
            "hour": rng.integers(0, 24, 300),
            "fraud": rng.integers(0, 2, 300),
        }
    )
    for name in ("payments", "labeled", "incoming"):
        spark.createDataFrame(table).write.parquet(str(tmp_path / name))
    days = pd.date_range("2024-01-01", "2024-12-31", periods=300)
    year = table.assign(at=days.strftime("%Y-%m-%d"), country=np.where(days.day % 2, "DE", "FR"))
    spark.createDataFrame(year).write.parquet(str(tmp_path / "year"))
    page = Path(__file__).parents[2] / "docs" / "spark.md"
    blocks = re.findall(r"```py\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(blocks) >= 4
    names = {}
    monkeypatch.setattr(sys, "argv", ["fit.py", str(tmp_path / "payments"), "cluster.safetensors"])
    for block in blocks:
        # Java keeps the folder that it was started in.
        paths = r'"(payments|labeled|incoming|year|check2?|scored|pipeline|fraud\.safetensors)"'
        exec(re.sub(paths, rf'"{tmp_path}/\1"', block), names)
        for query in spark.streams.active:
            query.processAllAvailable()
            query.stop()
    assert names["scored"].columns[-2:] == ["prediction", "score"]
    assert spark.read.parquet(str(tmp_path / "scored")).count() == 300
    assert names["book"].model().class_count_.sum() == 300
    names["book"].close()
    assert wrap_engine(TableModel.load("cluster.safetensors").model).class_count_.sum() == 300
    # The file of the first example had learned all rows; the stream has learned them once more.
    assert wrap_engine(TableModel.load("fraud.safetensors").model).class_count_.sum() == 600


# Maps of the features


@pytest.mark.parametrize("name", ["rm2", "rff:30"])
def test_a_map_is_fixed_by_the_whole_frame_and_partitions_do_not_matter(spark, name, tmp_path):
    frame = spark.createDataFrame(pd.DataFrame(X[:, :4], columns=NAMES[:4]).assign(label=Y))
    spread = X[:, :4].std(axis=0)
    one = make_fitted_map(name, X[:, :4].mean(axis=0), spread)
    alone = BalancedRidgeClassifier(feature_map=one, ridge=0.1).fit(X[:, :4], Y)
    for parts in (1, 3, 20):
        model = fit(frame.repartition(parts), "label", feature_map=name, ridge=0.1)
        np.testing.assert_allclose(model.feature_map_.mean, one.mean, rtol=1e-12)
        np.testing.assert_allclose(
            model.decision_function(X[:, :4]), alone.decision_function(X[:, :4]), atol=1e-9
        )
    rows = predict(frame, model).toPandas()
    np.testing.assert_allclose(rows["score"], model.decision_function(X[:, :4]), atol=1e-9)
    save(model, str(tmp_path / "m.safetensors"))
    again = predict(frame, str(tmp_path / "m.safetensors")).toPandas()
    assert (again["prediction"] == rows["prediction"]).all()


def test_a_stage_and_a_sink_with_a_map(spark, tmp_path):
    frame = spark.createDataFrame(pd.DataFrame(X[:, :4], columns=NAMES[:4]).assign(label=Y))
    stages = [
        VectorAssembler(inputCols=NAMES[:4], outputCol="features"),
        BalancedRidge(options={"feature_map": "rm2", "ridge": 0.1}),
    ]
    fitted = Pipeline(stages=stages).fit(frame)
    fitted.write().overwrite().save(str(tmp_path / "pipeline"))
    again = PipelineModel.load(str(tmp_path / "pipeline"))
    assert again.stages[1].model.feature_map_ == fitted.stages[1].model.feature_map_
    assert again.transform(frame).count() == len(Y)
    path = str(tmp_path / "m.safetensors")
    sink = ModelSink(path, "label", feature_map="rm2", ridge=0.1)
    halves = [frame.limit(300), frame.subtract(frame.limit(300))]
    for number, half in enumerate(halves):
        sink(half, number)
    model = wrap_engine(TableModel.load(path).model)
    first = halves[0].toPandas()[NAMES[:4]].to_numpy()
    np.testing.assert_allclose(model.feature_map_.mean, first.mean(axis=0), rtol=1e-12)
    rows = pd.concat([half.toPandas() for half in halves])
    alone = BalancedRidgeClassifier(feature_map=model.feature_map_, ridge=0.1)
    alone.fit(rows[NAMES[:4]].to_numpy(), rows["label"].to_numpy())
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-8, atol=1e-10)
    with pytest.raises(DataError, match=r"feature_map is rm3, but .* was learned with rm2"):
        ModelSink(path, "label", feature_map="rm3")(halves[0], 2)
    ModelSink(path, "label")(halves[0], 2)  # options of the file need not be repeated
    with pytest.raises(ValueError, match="is not a feature map"):
        fit(frame, "label", feature_map="cubic")
    with pytest.raises(ValueError, match="by its name"):
        BalancedRidge(options={"feature_map": model.feature_map_})


@pytest.mark.parametrize("name", ["fit", "ledger", "pipeline", "predict", "streaming"])
def test_examples_in_docstrings_are_real(spark, name):
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    done = doctest.testmod(
        import_module(f"counterpoise.spark.{name}"), extraglobs={"spark": spark}, optionflags=flags
    )
    assert done.attempted
    assert not done.failed


KEYS = {"label": "fraud", "timestamp": "at", "by": "country"}


def assert_same_ledger(one, two, frame):
    """Cells, and scores of models, equal to rounding: 1e-10. Features may stand elsewhere."""
    assert one.summary()["cells"] == two.summary()["cells"]
    for chosen in ({}, {"where": {"country": "DE"}}, {"since": "2024-06-25", "half_life": 3}):
        models = [book.model(**chosen) for book in (one, two)]
        assert sorted(models[0].names_) == sorted(models[1].names_)
        mine, theirs = (
            model.decision_function(book.encode(frame, model)[0])
            for book, model in zip((one, two), models, strict=True)
        )
        assert np.abs(mine - theirs).max() <= 1e-10 * np.abs(theirs).max()
        counts = [model.class_count_ for model in models]
        assert np.allclose(*counts, rtol=1e-12)


def test_a_ledger_is_the_one_of_a_single_machine(spark, tmp_path):
    early, late = year_of_payments(days=200, rows=25)  # the second has a country and a column more
    early = early.slice(len(early) - 1500)
    ages = early["age"].to_pylist()
    ages[3::50] = [None] * len(ages[3::50])
    early = early.set_column(early.schema.get_field_index("age"), "age", [ages])
    with Ledger.open(tmp_path / "single", **KEYS) as single:
        single.learn(early)
        single.learn(late, allow_new_columns=True)
        frames = [spark.createDataFrame(one.to_pandas()) for one in (early, late)]
        with ledger(frames[0].repartition(3), tmp_path / "l", **KEYS) as book:
            first = book.model().coef_
        with ledger(frames[0].repartition(5), tmp_path / "l") as book:  # the same rows
            assert np.array_equal(book.model().coef_, first)
        with ledger(frames[1], tmp_path / "l", name="late") as book:
            assert_same_ledger(book, single, early)
            before = book.summary()
        with pytest.raises(DataError, match="'late' was learned before, with other rows"):
            ledger(frames[1].limit(5), tmp_path / "l", name="late")
    broken = frames[0].withColumn("at", functions.lit("soon"))
    with pytest.raises(DataError, match="'soon'"):
        ledger(broken, tmp_path / "l")
    with pytest.raises(DataError, match="'soon'"):
        ledger(broken, tmp_path / "new", **KEYS)
    assert not (tmp_path / "new").exists()
    with Ledger.open(tmp_path / "l") as book:
        assert book.summary() == before


def test_rows_fade_by_a_column_of_times(spark, cancer):
    times = cancer.withColumn("at", functions.expr("timestamp_seconds(1.7e9 + 1e4 * x0)"))
    model = fit(times, "y", only=NAMES, columns={"at": "timestamp"}, half_life="2d")
    t = 1.7e9 + 1e4 * X[:, 0]
    wanted = BalancedRidgeClassifier().fit(X, Y, 2.0 ** ((t - t.max()) / (2 * 86_400)))
    assert np.allclose(model.coef_, wanted.coef_, rtol=1e-8, atol=1e-10)
    with pytest.raises(DataError, match="requires the time of each row; name its column"):
        fit(cancer, "y", only=NAMES, half_life="2d")


def test_a_sink_fades_by_a_column_of_times(spark, cancer, tmp_path):
    times = cancer.withColumn("at", functions.expr("timestamp_seconds(1.7e9 + 1e4 * x0)"))
    sink = ModelSink(
        str(tmp_path / "m"),
        "y",
        only=NAMES,
        columns={"at": "timestamp"},
        half_life="2d",
        missing="error",
    )
    for number, part in enumerate(("x0 > 14", "x0 <= 14")):  # old rows come later
        sink(times.where(part), number)
    t = 1.7e9 + 1e4 * X[:, 0]
    wanted = BalancedRidgeClassifier().fit(X, Y, 2.0 ** ((t - t.max()) / (2 * 86_400)))
    model = wrap_engine(TableModel.load(str(tmp_path / "m")).model)
    assert np.allclose(model.coef_, wanted.coef_, rtol=1e-8, atol=1e-10)
    with pytest.raises(DataError, match="requires the time of each row"):
        ModelSink(str(tmp_path / "n"), "y", only=NAMES, half_life="2d")


# Columns with many categories

MANY_ROLES = {"shop": "many", "device": "many:20"}


def shops(n=900, seed=0, first=0):
    """Numbers, two columns of many categories with missing cells, and labels as text."""
    rng = np.random.default_rng(seed)
    shop, device = rng.integers(first, first + 200, n), rng.integers(0, 30, n)
    table = pd.DataFrame(
        {
            "at": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 12, n), unit="D"),
            "amount": rng.lognormal(3, 1, n),
            "old": rng.normal(50.0, 5.0, n),
            "shop": [f"s{i}" for i in shop],
            "device": [f"d{i}" for i in device],
        }
    )
    effect = rng.normal(size=1000)[shop] + rng.normal(size=30)[device]
    table["fraud"] = np.where(effect + rng.normal(size=n) > 1.0, "yes", "no")
    for column, share in (("shop", 0.1), ("device", 0.05), ("old", 0.1)):
        table.loc[rng.random(n) < share, column] = None
    return table


def table_model(table, roles):
    return TableClassifier(BalancedRidgeClassifier(), columns=roles).fit(table, "fraud")


@pytest.mark.parametrize("roles", [{"shop": "many"}, MANY_ROLES])
@pytest.mark.parametrize("partitions", [1, 5])
def test_many_categories_are_those_of_one_machine(spark, roles, partitions, tmp_path):
    table = shops()
    columns = ["amount", "old", *roles]
    frame = spark.createDataFrame(
        pa.Table.from_pandas(table[[*columns, "fraud"]], preserve_index=False)
    )
    model = fit(frame.repartition(partitions), "fraud", roles)
    one = table_model(table[[*columns, "fraud"]], roles)
    assert model.n_features_in_ == len(model.feature_names_in_) + len(roles)
    path = str(tmp_path / "m.st")
    save(model, path)
    found = TableClassifier.load(path)
    for name in ("decision_function", "predict_proba"):
        wanted = getattr(one, name)(table[columns])
        np.testing.assert_allclose(getattr(found, name)(table[columns]), wanted, atol=1e-9)
    scored = predict(frame, model).toPandas()
    np.testing.assert_allclose(scored["score"], one.decision_function(scored[columns]), atol=1e-9)
    values = {name: sorted(table[name].dropna().unique()) for name in roles}
    given = fit(frame, "fraud", roles, categories=values)
    assert same(given.coef_, model.coef_)
    with pytest.raises(DataError, match=r"'s1.*', which is not among those given"):
        fit(frame, "fraud", roles, categories={"shop": ["s0"]})


def test_many_categories_in_several_classes_and_after_a_map(spark):
    table = shops()
    table["fraud"] = np.where(table.amount > 40, "never", table.fraud)
    frame = spark.createDataFrame(
        pa.Table.from_pandas(table[["amount", "shop", "fraud"]].dropna(), preserve_index=False)
    ).repartition(3)
    alone = table[["amount", "shop", "fraud"]].dropna()
    columns = {"columns": {"shop": "many:5"}}
    for options in ({"multi_class": "lda"}, {"multi_class": "ovr"}):
        model = fit(frame, "fraud", **columns, **options)
        one = TableClassifier(BalancedRidgeClassifier(**options), **columns).fit(alone, "fraud")
        scored = predict(frame, model).toPandas()
        wanted = one.decision_function(scored[["amount", "shop"]])
        np.testing.assert_allclose(np.vstack(scored["score"]), wanted, atol=1e-9)
    mapped = fit(frame, "fraud", **columns, feature_map="poly2")
    again = fit(frame.repartition(1), "fraud", **columns, feature_map="poly2")
    assert same(mapped.coef_, again.coef_)


@pytest.mark.parametrize("calibrate", [False, True])
def test_a_sink_learns_categories_that_come_later(spark, calibrate, tmp_path):
    parts = [shops(400, 0), shops(400, 1, first=100), shops(400, 2, first=500)]
    parts[0]["device"] = None  # the column has no value at first
    path = str(tmp_path / "m.st")
    sink = ModelSink(path, "fraud", {**MANY_ROLES, "at": "drop"}, calibrate=calibrate)
    for i, part in enumerate(parts):
        rows = spark.createDataFrame(
            pa.Table.from_pandas(part, preserve_index=False)
            if i
            else pa.Table.from_pandas(part.astype({"device": "string"}), preserve_index=False)
        )
        sink(rows.repartition(3), i)
    whole = pd.concat(parts, ignore_index=True)
    found, one = TableClassifier.load(path), table_model(whole, {**MANY_ROLES, "at": "drop"})
    wanted = one.decision_function(whole)
    np.testing.assert_allclose(found.decision_function(whole), wanted, atol=1e-9)


def test_a_pipeline_with_many_categories(spark, tmp_path):
    table = shops()[["amount", "shop", "fraud"]].dropna()
    frame = spark.createDataFrame(pa.Table.from_pandas(table, preserve_index=False))
    stage = BalancedRidge(
        inputCols=["amount", "shop"], labelCol="fraud", columns={"shop": "many:5"}
    )
    fitted = Pipeline(stages=[stage]).fit(frame)
    fitted.write().overwrite().save(str(tmp_path / "p"))
    scored = PipelineModel.load(str(tmp_path / "p")).transform(frame).toPandas()
    one = TableClassifier(BalancedRidgeClassifier(), columns={"shop": "many:5"})
    wanted = one.fit(table, "fraud").decision_function(scored[["amount", "shop"]])
    np.testing.assert_allclose(scored["rawPrediction"], wanted, atol=1e-9)


def test_a_ledger_of_many_categories_is_the_one_of_a_single_machine(spark, tmp_path):
    table, more = shops(), shops(300, 5, first=150)
    keys = {"label": "fraud", "timestamp": "at", "columns": MANY_ROLES}
    with Ledger.open(tmp_path / "one", **keys) as one:
        one.learn(table)
        one.learn(more)
        rows = frame_of(spark, table)
        ledger(rows, tmp_path / "two", **keys).close()
        with ledger(rows.repartition(5), tmp_path / "two") as two:
            assert len(two.records) == 1  # learned once
        other = table.assign(shop=table.shop.to_numpy()[::-1])
        exchanged = table.copy()  # the same categories in each cell, of other rows
        at = table.index[(table["at"] == table["at"][0]) & (table.fraud == table.fraud[0])][:2]
        exchanged.loc[at, "shop"] = table.loc[at[::-1], "shop"].to_numpy()
        assert exchanged.shop.tolist() != table.shop.tolist()
        for i, frame in enumerate((other, exchanged)):
            with ledger(frame_of(spark, frame), tmp_path / "two", name=f"f{i}") as two:
                assert len(two.records) == 2 + i
                two.unlearn(frame)
        with ledger(frame_of(spark, more), tmp_path / "two") as two:
            assert two.check() == one.summary()["cells"]
            for where in ({}, {"since": "2024-01-04", "until": "2024-01-09"}):
                scores = []
                for book in (one, two):
                    model = book.model(**where)
                    scores.append(model.decision_function(book.encode(table, model)[0]))
                np.testing.assert_allclose(*scores, atol=1e-9)
