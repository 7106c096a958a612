"""The command line: it learns each row once, like Python, and reports what it cannot do."""

import bz2
import gzip
import io
import json
import lzma
import os
import pty
import re
import signal
import subprocess
import sys
import time
import warnings
import zipfile
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
from builders import data_set, stream
from fork_server import MAIN, PIPE
from paper.datasets import VARIABLE
from sklearn.datasets import load_breast_cancer

from counterpoise import BalancedRidgeClassifier
from counterpoise.estimators.auto import wrap_engine
from counterpoise.tables.model import TableModel
from counterpoise.tables.scoring import split_rows

MODEL = "m.safetensors"
LOCK = f".{MODEL}.counterpoise.lock"
SETS = ["spambase", "cod-rna", "ijcnn1", "ozone-eight", "skin-nonskin"]


def payments(rows=300, seed=0):
    rng = np.random.default_rng(seed)
    fraud = rng.random(rows) < 0.1
    return pd.DataFrame(
        {
            "id": np.arange(rows) + 1000 * seed,
            "amount": (rng.exponential(50, rows) * (1 + 3 * fraud)).round(2),
            "country": rng.choice(["DE", "FR", "US"], rows),
            "fraud": np.where(fraud, "yes", "no"),
        }
    )


def learn_table(run, *more, files=("t.csv",), code=0):
    return run("learn", *files, "--label", "fraud", "--drop", "id", "-m", MODEL, *more, code=code)


def content(path=MODEL):
    return Path(path).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("name", SETS)
def test_public_sets_by_command_line_equal_python(run, tmp_path, name):
    X, y = data_set(name)
    file = Path(os.environ[VARIABLE]) / f"{name}.csv.gz"
    run("learn", file, "--label", "target", "--model", MODEL)
    model, plain = BalancedRidgeClassifier(), BalancedRidgeClassifier()
    for i in range(0, len(X), 8192):
        rows, labels = X[i : i + 8192], y[i : i + 8192]
        plain.partial_fit(rows, labels)
        # The first chunk is learned in parts, the later of which are scored before.
        needed = len(X) if i else max(1, len(rows) // 2)
        for part in split_rows(i, len(rows), needed):
            # Few rows of an array are learned one by one, which rounds otherwise.
            learn = model._engine.learn if i or part.start else model.partial_fit
            learn(rows[part], labels[part])
    loaded = BalancedRidgeClassifier.load(MODEL)
    np.testing.assert_allclose(loaded.coef_, model.coef_, rtol=1e-12)
    np.testing.assert_array_equal(loaded.class_count_, model.class_count_)
    # Whole chunks add in another order: equal to rounding, times the condition of the features.
    np.testing.assert_allclose(model.decision_function(X), plain.decision_function(X), atol=1e-10)
    run("predict", MODEL, file, "-o", "p.parquet")
    table = pyarrow.parquet.read_table("p.parquet").to_pandas()
    assert (
        table["prediction"].tolist()
        == loaded.predict(pd.DataFrame(X, columns=loaded.feature_names_in_)).tolist()
    )
    frame = pd.DataFrame(X, columns=loaded.feature_names_in_)
    np.testing.assert_allclose(
        table["score"], loaded.decision_function(frame), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(
        table[["proba_balanced_-1", "proba_balanced_1"]], loaded.predict_proba(frame), atol=1e-12
    )
    np.testing.assert_allclose(
        table[["proba_stream_-1", "proba_stream_1"]], loaded.predict_stream_proba(frame), atol=1e-12
    )


@pytest.mark.slow
def test_categories_equal_one_hot_columns_in_python(run):
    frame = payments()
    frame.to_csv("t.csv", index=False)
    done = learn_table(run)
    assert "t.csv: 300 rows" in done.err
    hot = pd.get_dummies(frame[["amount", "country"]], dtype=float)
    hot.columns = [c.replace("country_", "country=") for c in hot.columns]
    model = BalancedRidgeClassifier.load(MODEL)
    expected = BalancedRidgeClassifier().fit(hot[model.feature_names_in_], frame["fraud"])
    # Dummies and the constant are collinear, so the promise is about the vector as a whole.
    apart = np.linalg.norm(model.coef_ - expected.coef_)
    assert apart <= 1e-10 * np.linalg.norm(expected.coef_)
    out = run("predict", MODEL, "t.csv", "--id", "id").out
    table = pd.read_csv(io.StringIO(out))
    assert table["id"].tolist() == frame["id"].tolist()
    assert table["prediction"].tolist() == expected.predict(hot[model.feature_names_in_]).tolist()


# Exactly once


@pytest.mark.slow
def test_nothing_is_learned_twice(run):
    payments().to_csv("t.csv", index=False)
    learn_table(run)
    before = content()
    done = learn_table(run)
    assert "nothing new, its 300 rows were already learned" in done.err
    assert content() == before
    done = run("learn", "t.csv", "-m", MODEL)  # options need not be repeated
    assert content() == before


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "csv.gz", "csv.bz2", "csv.xz", "jsonl", "json"])
def test_a_file_that_grew_has_only_its_new_rows_learned(run, ending):
    whole = payments(500)

    def write(rows):
        text = (
            whole[:rows].to_csv(index=False)
            if "csv" in ending
            else whole[:rows].to_json(orient="records", lines=ending == "jsonl")
        )
        packed = {"gz": gzip.compress, "bz2": bz2.compress, "xz": lzma.compress}
        pack = packed.get(ending.split(".")[-1], lambda data: data)
        Path(f"t.{ending}").write_bytes(pack(text.encode()))

    write(300)
    learn_table(run, files=[f"t.{ending}"])
    write(500)
    done = learn_table(run, files=[f"t.{ending}"])
    assert "200 new rows after 300" in done.err
    grown = BalancedRidgeClassifier.load(MODEL)
    os.unlink(MODEL)
    learn_table(run, files=[f"t.{ending}"])
    at_once = BalancedRidgeClassifier.load(MODEL)
    np.testing.assert_allclose(grown.coef_, at_once.coef_, rtol=1e-10)
    np.testing.assert_array_equal(grown.class_count_, at_once.class_count_)


@pytest.mark.slow
def test_a_file_that_changed_is_an_error_that_names_it(run):
    payments().to_csv("t.csv", index=False)
    payments(50, seed=1).to_csv("u.csv", index=False)
    learn_table(run)
    before = content()
    frame = payments()
    frame.loc[7, "amount"] += 1
    frame.to_csv("t.csv", index=False)
    done = learn_table(run, files=["u.csv", "t.csv"], code=2)
    assert "t.csv has changed: the 300 rows learned from it before are not as they were" in done.err
    assert content() == before


@pytest.mark.slow
def test_a_changed_option_is_an_error_that_names_it(run):
    payments().to_csv("t.csv", index=False)
    learn_table(run, "--ridge", "0.1", "--class-factor", "yes=3")
    before = content()
    for more, message in [
        (["--ridge", "0.2"], "--ridge is 0.2, but m.safetensors was learned with 0.1"),
        (
            ["--class-factor", "yes=4"],
            "--class-factor is yes=4, but m.safetensors was learned with yes=3",
        ),
        (["--scale", "none"], "--scale is none, but m.safetensors was learned with standard"),
        (["--missing", "drop"], "--missing is drop, but m.safetensors was learned with mean"),
        (["--categorical", "amount"], "--categorical is amount"),
        (["--chunk-rows", "100"], "--chunk-rows is 100"),
        (["--half-life", "9"], "--half-life is 9, but m.safetensors was learned with none"),
        (["--intercept", "free"], "--intercept is no, but m.safetensors was learned with yes"),
    ]:
        assert message in learn_table(run, *more, code=2).err
    assert content() == before
    learn_table(run, "--ridge", "0.1", "--class-factor", "yes=3")


@pytest.mark.slow
def test_several_files_in_one_run_or_in_three(run):
    for k in range(3):
        payments(100, seed=k).to_csv(f"t{k}.csv", index=False)
    for k in range(3):
        learn_table(run, files=[f"t{k}.csv"])
    one_by_one = content()
    os.unlink(MODEL)
    learn_table(run, files=["t?.csv"])
    assert content() == one_by_one


@pytest.mark.slow
def test_the_same_rows_under_another_name_are_known_again(run):
    payments().to_csv("t.csv", index=False)
    learn_table(run)
    before = content()
    Path("t.csv").rename("u.csv")
    done = learn_table(run, files=["u.csv"])
    assert "u.csv: nothing new, its 300 rows were already learned (known as t.csv)" in done.err
    assert content() == before
    learn_table(run, "--allow-overlap", files=["u.csv"])
    assert BalancedRidgeClassifier.load(MODEL).class_count_.sum() == 600


def test_paths_are_relative_to_the_model(run, tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    payments().to_csv("data/t.csv", index=False)
    learn_table(run, files=["data/t.csv"])
    assert list(TableModel.load(MODEL).records) == ["data/t.csv"]
    monkeypatch.chdir(tmp_path / "data")
    done = run("learn", "t.csv", "-m", tmp_path / MODEL)
    assert "nothing new" in done.err


@pytest.mark.slow
def test_bad_rows_leave_the_model_file_as_it_was(run):
    payments().to_csv("t.csv", index=False)
    learn_table(run)
    before = content()
    frame = payments(200, seed=1).astype({"amount": object})
    frame.loc[150, "amount"] = "a lot"
    frame.to_csv("u.csv", index=False)
    done = learn_table(run, files=["u.csv"], code=2)
    assert "u.csv, row 151: column 'amount' contains 'a lot', which is not a number" in done.err
    assert content() == before
    assert sorted(p.name for p in Path().iterdir()) == [MODEL, "t.csv", "u.csv"]


@pytest.mark.slow
def test_rows_that_were_dropped_are_counted(run):
    frame = payments()
    frame.loc[[3, 5], "amount"] = np.nan
    frame.to_csv("t.csv", index=False)
    assert (
        "row 4: no value in column 'amount'" in learn_table(run, "--missing", "error", code=2).err
    )
    done = learn_table(run, "--missing", "drop")
    assert "300 rows, of which 2 with missing values were dropped" in done.err
    assert BalancedRidgeClassifier.load(MODEL).class_count_.sum() == 298
    done = run("predict", MODEL, "t.csv")
    table = pd.read_csv(io.StringIO(done.out))
    assert table["prediction"].isna().to_numpy().nonzero()[0].tolist() == [3, 5]
    assert "2 of 300 rows have missing values and no prediction" in done.err


def test_unknown_categories_are_counted_when_predicting(run):
    payments().to_csv("t.csv", index=False)
    learn_table(run)
    payments(20, seed=2).assign(country="XX").to_csv("u.csv", index=False)
    done = run("predict", MODEL, "u.csv")
    assert (
        "column 'country': 20 cells with a category that was never learned, taken as no category"
        in done.err
    )
    assert len(done.out.splitlines()) == 21


@pytest.mark.slow
def test_checkpoints_do_not_move_chunks(run):
    payments(1000).to_csv("t.csv", index=False)
    files = []
    for every in (1, 70, 128, 10**6):
        learn_table(run, "--chunk-rows", "64", "--checkpoint-every", every)
        files.append(content())
        os.unlink(MODEL)
    assert len(set(files)) == 1


def test_weights_and_options_reach_the_model(run):
    frame = payments()
    frame["weight"] = np.arange(len(frame)) % 3
    frame.to_csv("t.csv", index=False)
    learn_table(
        run, "--weight", "weight", "--ridge", "gcv", "--class-weight", "yes=5,no=1", "--scale",
        "none", "--intercept", "free", "--half-life", "100", "--pooled-rows", "7",
        "--multi-class", "lda",
    )  # fmt: skip
    model = BalancedRidgeClassifier.load(MODEL)
    assert model.get_params() == {
        "ridge": "gcv", "class_weight": {"yes": 5.0, "no": 1.0}, "class_factors": None,
        "scale": None,
        "fit_intercept": True, "penalize_intercept": False, "half_life": 100.0,
        "multi_class": "lda", "pooled_rows": 7.0, "calibrate": False,
        "memory_limit": 2e9, "feature_map": None,
    }  # fmt: skip
    assert model.class_count_.sum() == frame["weight"].sum()


@pytest.mark.slow
def test_labels_that_are_numbers_have_costs_by_number(run):
    payments().assign(fraud=lambda f: (f["fraud"] == "yes").astype(int)).to_csv(
        "t.csv", index=False
    )
    learn_table(run, "--class-factor", "1=2")
    assert BalancedRidgeClassifier.load(MODEL).class_factors == {1: 2.0}
    os.unlink(MODEL)
    assert (
        "--class-factor: unknown class 'yes' (classes: 0, 1)"
        in learn_table(run, "--class-factor", "yes=2", code=2).err
    )


# Standard input, signals, locks


def wait_for(condition, process):
    """Wait for something that a process does, as long as it takes."""
    while not condition():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)


def test_standard_input_resumes_only_from_its_start(start, tmp_path):
    text = payments(200).to_csv(index=False).encode()
    learn = ["learn", "-", "--label", "fraud", "--drop", "id", "-m", MODEL]

    def feed(data, *more):
        process = start(*learn, *more, stdin=PIPE)
        _, err = process.communicate(data)
        return process.returncode, err.decode()

    positive = "counterpoise: the positive class is 'yes'; choose another with --positive\n"
    said = "counterpoise: standard input: 200 rows\n" + positive + feed_total(text)
    assert feed(text) == (0, said)
    whole = (tmp_path / MODEL).read_bytes()
    code, err = feed(text)
    assert code == 0
    assert "nothing new" in err
    code, err = feed(payments(50, seed=1).to_csv(index=False).encode())
    assert code == 2
    assert "replay it from its start, or give other data a name" in err
    assert (tmp_path / MODEL).read_bytes() == whole
    code, err = feed(payments(50, seed=1).to_csv(index=False).encode(), "--stdin-name", "day 2")
    assert code == 0
    assert "standard input 'day 2': 50 rows" in err


def feed_total(text):
    frame = pd.read_csv(io.BytesIO(text))
    counts = frame["fraud"].value_counts()
    return f"counterpoise: {MODEL}: no: {counts['no']}, yes: {counts['yes']}\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_save_and_stop_at_a_chunk_end(start, tmp_path, number):
    """Also while nothing comes: the pipe stays open."""
    frame = payments(1000)
    text = frame.to_csv(index=False)
    learn = ["learn", "-", "--label", "fraud", "--drop", "id", "-m", MODEL, "--chunk-rows", 64]
    process = start(*learn, "--checkpoint-every", 64, stdin=PIPE)
    process.stdin.write("".join(line + "\n" for line in text.splitlines()[:501]).encode())
    process.stdin.flush()
    wait_for((tmp_path / MODEL).exists, process)
    process.send_signal(number)
    process.wait()
    assert process.returncode == 128 + number
    assert b"stopped; the same command continues from here" in process.stderr.read()
    process.stdin.close()
    (record,) = TableModel.load(str(tmp_path / MODEL)).records.values()
    assert record.mark.rows % 64 == 0
    assert 0 < record.mark.rows <= 500
    process = start(*learn, stdin=PIPE)
    process.communicate(text.encode())
    stopped = (tmp_path / MODEL).read_bytes()
    (tmp_path / MODEL).unlink()
    start(*learn, stdin=PIPE).communicate(text.encode())
    assert (tmp_path / MODEL).read_bytes() == stopped


def test_a_second_writer_is_refused(start, tmp_path):
    payments().to_csv(tmp_path / "t.csv", index=False)
    learn = ["--label", "fraud", "--drop", "id", "-m", MODEL]
    first = start("learn", "-", *learn, stdin=PIPE)
    wait_for(lambda: list(tmp_path.glob(LOCK)) and (tmp_path / LOCK).read_bytes(), first)
    second = start("learn", "t.csv", *learn)
    _, err = second.communicate()
    assert second.returncode == 2
    assert b"m.safetensors is being written by another process" in err
    first.send_signal(signal.SIGKILL)
    first.wait()
    third = start("learn", "t.csv", *learn)
    assert third.wait() == 0
    assert not (tmp_path / LOCK).exists()


def test_a_broken_pipe_is_silent(start, forks, tmp_path):
    payments(5000).to_csv(tmp_path / "t.csv", index=False)
    start("learn", "t.csv", "--label", "fraud", "--drop", "id", "-m", MODEL).wait()
    command = forks.line(["-c", MAIN, "predict", MODEL, *["t.csv"] * 50])
    done = subprocess.run(
        f"{command} | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.stdout.startswith("prediction,score,")
    assert done.stderr == ""


def test_predictions_come_as_rows_come(start, tmp_path):
    payments().to_csv(tmp_path / "t.csv", index=False)
    start("learn", "t.csv", "--label", "fraud", "--drop", "id", "-m", MODEL).wait()
    process = start("predict", MODEL, "-", stdin=PIPE)
    process.stdin.write(b"amount,country\n12.5,DE\n")
    process.stdin.flush()
    assert process.stdout.readline().startswith(b"prediction,")
    assert process.stdout.readline().startswith((b"no,", b"yes,"))  # and the pipe is still open
    process.stdin.write(b"1e4,US")
    process.stdin.close()
    assert process.stdout.readline().startswith((b"no,", b"yes,"))
    assert process.wait() == 0


def test_progress_is_for_terminals(start, tmp_path):
    payments(3000).to_csv(tmp_path / "t.csv", index=False)
    learn = [
        "learn",
        "t.csv",
        "--label",
        "fraud",
        "--drop",
        "id",
        "--chunk-rows",
        "50",
        "-m",
        MODEL,
    ]
    master, slave = pty.openpty()
    process = start(*learn, stderr=slave, env={**os.environ, "TERM": "xterm"})
    os.close(slave)
    seen = b""
    try:
        while block := os.read(master, 4096):
            seen += block
    except OSError:
        pass
    assert process.wait() == 0
    os.close(master)
    assert re.search(rb"rows, [\d,]+/s", seen)  # shown at the first chunk, however fast the rest is
    assert b"progressive G-mean 0." in seen
    in_terminal = (tmp_path / MODEL).read_bytes()
    (tmp_path / MODEL).unlink()
    piped = start(*learn)
    assert b"/s" not in piped.communicate()[1]
    assert (tmp_path / MODEL).read_bytes() == in_terminal


# Metrics


@pytest.mark.slow
def test_metrics_are_progressive_and_change_nothing(run):
    X, y = stream(2000, d=3)
    pd.DataFrame(X, columns=list("abc")).assign(fraud=y, id=0).to_csv("t.csv", index=False)
    learn_table(run, "--chunk-rows", "100")
    without = content()
    os.unlink(MODEL)
    learn_table(run, "--chunk-rows", "100", "--metrics", "m.jsonl", "--metrics-every", "500")
    assert content() == without
    lines = [json.loads(line) for line in Path("m.jsonl").read_text().splitlines()]
    assert [line["rows"] for line in lines] == [500, 1000, 1500, 2000]
    # The last window again, by hand: each chunk is predicted by the model of all rows before it.
    right = total = 0
    for i in range(1500, 2000, 100):
        model = BalancedRidgeClassifier().fit(X[:i], y[:i])
        guess = model.predict(X[i : i + 100])
        right += ((guess == 1) & (y[i : i + 100] == 1)).sum()
        total += (y[i : i + 100] == 1).sum()
    assert lines[-1]["recall"]["1"] == pytest.approx(right / total)
    assert lines[-1]["scored"] == 500
    assert lines[0]["scored"] == 500 - 16
    recall = lines[-1]["recall"]
    assert lines[-1]["g_mean"] == pytest.approx(np.sqrt(recall["0"] * recall["1"]))


@pytest.mark.slow
def test_metrics_of_rows_that_were_lost_are_cut_off(run):
    payments(1000).to_csv("t.csv", index=False)
    options = ["--chunk-rows", "100", "--metrics", "m.jsonl", "--metrics-every", "100"]
    learn_table(run, *options)
    whole = Path("m.jsonl").read_text()
    payments(1000)[:400].to_csv("u.csv", index=False)
    os.unlink(MODEL)
    os.unlink("m.jsonl")
    Path("t.csv").write_text(Path("u.csv").read_text())
    learn_table(run, *options)  # saved after 400 rows
    payments(1000).to_csv("t.csv", index=False)
    with open("m.jsonl", "a") as file:
        file.write(f'{{"model": "{MODEL}", "rows": 500}}\n{{"mod')  # of a process that was killed
    learn_table(run, *options)
    rows = [json.loads(line)["rows"] for line in Path("m.jsonl").read_text().splitlines()]
    assert rows == [json.loads(line)["rows"] for line in whole.splitlines()]


# Predictions


@pytest.mark.slow
def test_predictions_in_every_format(run):
    payments(100).to_csv("t.csv", index=False)
    learn_table(run)
    table = pd.read_csv(io.StringIO(run("predict", MODEL, "t.csv", "--with-input").out))
    assert table.columns.tolist() == [
        "id", "amount", "country", "fraud", "prediction", "score",
        "proba_balanced_no", "proba_balanced_yes", "proba_stream_no", "proba_stream_yes",
    ]  # fmt: skip
    run("predict", MODEL, "t.csv", "--with-input", "-o", "p.jsonl")
    run("predict", MODEL, "t.csv", "--with-input", "-o", "p.tsv")
    run("predict", MODEL, "t.csv", "-o", "p.parquet")
    lines = pd.read_json("p.jsonl", lines=True, dtype={"amount": float})
    pd.testing.assert_frame_equal(lines.astype(table.dtypes), table, rtol=1e-12)
    pd.testing.assert_frame_equal(pd.read_csv("p.tsv", sep="\t"), table)
    pd.testing.assert_frame_equal(
        pd.read_parquet("p.parquet"), table[table.columns[4:]], check_dtype=False
    )
    # Carried columns are as they were written.
    first = Path("t.csv").read_text().splitlines()[1]
    assert run("predict", MODEL, "t.csv", "--with-input").out.splitlines()[1].startswith(first)


@pytest.mark.slow
def test_alerts(run):
    X, y = stream(3000, d=2)
    pd.DataFrame(X, columns=["a", "b"]).assign(fraud=y, id=0).to_csv("t.csv", index=False)
    learn_table(run)
    table = pd.read_csv(io.StringIO(run("predict", MODEL, "t.csv", "--threshold", "0.8").out))
    assert (table["alert"] == (table["proba_balanced_1"] >= 0.8)).all()
    table = pd.read_csv(io.StringIO(run("predict", MODEL, "t.csv", "--alert-rate", "0.02").out))
    assert 0.01 < table["alert"].mean() < 0.035
    assert table.loc[table["alert"], "proba_balanced_1"].min() > table["proba_balanced_1"].median()
    table = pd.read_csv(
        io.StringIO(run("predict", MODEL, "t.csv", "--threshold", "0.8", "--positive", "0").out)
    )
    assert (table["alert"] == (table["proba_balanced_0"] >= 0.8)).all()
    table = pd.read_csv(io.StringIO(run("predict", MODEL, "t.csv", "--cost-miss", "20").out))
    assert (table["alert"] == (20 * table["proba_stream_1"] >= 1 - table["proba_stream_1"])).all()
    assert 0 < table["alert"].sum() < len(table)


def test_more_classes_have_a_score_each(run):
    X, y = stream(300, d=2, classes=3)
    pd.DataFrame(X, columns=["a", "b"]).assign(fraud=np.array(["u", "v", "w"])[y], id=0).to_csv(
        "t.csv", index=False
    )
    learn_table(run)
    table = pd.read_csv(io.StringIO(run("predict", MODEL, "t.csv").out))
    scores = table[["score_u", "score_v", "score_w"]].to_numpy()
    assert (np.array(["u", "v", "w"])[scores.argmax(axis=1)] == table["prediction"]).all()


def test_an_output_file_appears_whole_or_not_at_all(run):
    payments().to_csv("t.csv", index=False)
    learn_table(run)
    Path("p.csv").write_text("old")
    Path("u.csv").write_text("amount,country\n1,DE\n2\n")
    run("predict", MODEL, "t.csv", "u.csv", "-o", "p.csv", code=2)
    assert Path("p.csv").read_text() == "old"
    assert not [p for p in Path().iterdir() if p.name.endswith(".tmp")]


# What was once wrong


def learn_file(run, text, *more, name="t.csv", label="y", code=0):
    Path(name).write_text(text)
    return run("learn", name, "--label", label, "-m", MODEL, *more, code=code)


@pytest.mark.slow
def test_rows_that_were_all_dropped_may_bring_a_column(run):
    learn_file(run, "a,y\n1,p\n2,q\n3,p\n", "--missing", "drop")
    learn_file(run, "a,b,y\n,5,p\n", "--allow-new-columns", name="u.csv")
    assert "nothing new" in run("learn", "u.csv", "-m", MODEL).err
    learn_file(run, "a,b,y\n1,5,p\n", name="v.csv")


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_categories_that_come_late_resume_bit_by_bit(tmp_path, ending):
    """Columns not in the order of the alphabet, with something new in each chunk."""
    from counterpoise.readers import source
    from counterpoise.tables.model import TableModel, learn_inputs

    rows = [{"zeta": f"z{i}", "town": f"t{i % 5}", "amount": i, "country": f"c{i // 2}",
             **({f"late{i}": 1.5} if ending == "jsonl" else {}), "y": "pq"[i % 2]}
            for i in range(30)]  # fmt: skip
    path = tmp_path / f"t.{ending}"
    frame = pd.DataFrame(rows)
    if ending == "csv":
        frame.to_csv(path, index=False)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    def go(model, chunks):
        seen = []
        learner = TableModel.open(str(tmp_path / model), {"label": "y"}, {}, 4)
        inputs = [(source(str(path)), "t")]
        learn_inputs(learner, inputs, 4, lambda: len(seen) >= chunks, lambda *_: seen.append(1))

    go("whole", 99)
    for _ in range(9):
        go("parts", 1)
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.slow
def test_a_copy_that_has_grown_is_known_again(run):
    rows = "".join(f"{i},{'pq'[i % 2]}\n" for i in range(30))
    learn_file(run, "a,y\n" + rows)
    done = learn_file(run, "a,y\n" + rows + "99,q\n", name="copy.csv")
    assert "copy.csv: 1 new row after 30 (known as t.csv)" in done.err
    assert list(TableModel.load(MODEL).records) == ["copy.csv"]
    short = "a,y\n" + "".join(rows.splitlines(keepends=True)[:20])
    changed = "a,y\n" + rows.replace("27,q", "28,q")
    for text in (short, changed):
        done = learn_file(run, text, name="other.csv", code=2)
        assert "other.csv begins with the same rows as copy.csv" in done.err
    learn_file(run, "a,y\n" + rows.replace("0,p", "7,p"), name="other.csv")
    assert BalancedRidgeClassifier.load(MODEL).class_count_.sum() == 61


@pytest.mark.slow
def test_columns_are_carried_along_under_their_own_names(run):
    learn_file(run, "a,c,y\n1,x,p\n2,y,q\n")
    Path("u.csv").write_text("y,c,a\nq,y,2.50\n")
    out = run("predict", MODEL, "t.csv", "u.csv", "--with-input").out.splitlines()
    assert out[0].startswith("a,c,y,prediction")
    assert out[3].startswith("2.50,y,q,")
    Path("v.csv").write_text("y,c,a,z\nq,y,2,1\n")
    both = ["predict", MODEL, "t.csv", "v.csv", "--with-input", "--ignore-unknown"]
    assert "'z' appeared" in run(*both, code=2).err
    done = run(*both, "-o", "o.parquet", code=2)
    assert len(done.err.splitlines()) == 1
    assert len(run(*both, "--output-format", "jsonl").out.splitlines()) == 3
    Path("w.csv").write_text("a,c,proba_balanced_p\n1,x,7\n")
    assert (
        "column 'proba_balanced_p' has the name of a column of the predictions"
        in run("predict", MODEL, "w.csv", "--with-input", "--ignore-unknown", code=2).err
    )
    Path("u.csv").write_text('a,c,y\n2.50,"x, ""y""",q\n')
    assert '2.50,"x, ""y""",' in run("predict", MODEL, "u.csv", "--id", "a,c").out


@pytest.mark.parametrize("victim", ["notes.txt", "t.csv", "other.jsonl"])
def test_metrics_never_touch_a_file_that_is_not_theirs(run, victim):
    Path("notes.txt").write_text("precious\n")
    Path("other.jsonl").write_text('{"model": "other", "rows": 5}\n')
    Path("t.csv").write_text("a,y\n1,p\n2,q\n")
    before = Path(victim).read_bytes()
    done = run("learn", "t.csv", "--label", "y", "-m", MODEL, "--metrics", victim, code=2)
    assert f"{victim} is not a metrics file of {MODEL}" in done.err
    assert Path(victim).read_bytes() == before


@pytest.mark.slow
def test_truth_values_and_empty_batches_can_be_resumed(run):
    import pyarrow as pa

    table = pa.table({"b": [True, None, False, True], "n": [1, None, 3, 4], "y": ["p", "q"] * 2})
    pa.parquet.write_table(table, "t.parquet")
    learn = ["--label", "y", "--missing", "indicate", "-m", MODEL]
    run("learn", "t.parquet", *learn)
    assert "nothing new" in run("learn", "t.parquet", *learn).err
    pa.parquet.write_table(pa.concat_tables([table, table]), "t.parquet", row_group_size=1)
    assert "4 new rows after 4" in run("learn", "t.parquet", *learn).err
    with pa.ipc.new_stream("e.arrows", table.schema) as writer:
        for part in (table, table[:0], table[:0], table):
            writer.write_batch(
                part.combine_chunks().to_batches()[0]
                if len(part)
                else pa.RecordBatch.from_pylist([], table.schema)
            )
    run("learn", "e.arrows", *learn, "--allow-overlap")
    assert "nothing new" in run("learn", "e.arrows", *learn).err


@pytest.mark.slow
def test_long_numbers_keep_their_digits_as_names(run):
    import pyarrow as pa

    ids = [9007199254740993, 9007199254740992]
    pa.parquet.write_table(pa.table({"k": ids * 2, "y": ["p", "q", "q", "p"]}), "t.parquet")
    run("learn", "t.parquet", "--label", "y", "--categorical", "k", "-m", MODEL)
    names = {f"k={i}" for i in ids}
    assert set(BalancedRidgeClassifier.load(MODEL).feature_names_in_) == names
    os.unlink(MODEL)
    text = "".join(json.dumps({"k": i, "y": "pq"[j % 2]}) + "\n" for j, i in enumerate(ids * 12))
    Path("t.jsonl").write_text('{"k": "s", "y": "p"}\n' + text)
    run("learn", "t.jsonl", "--label", "y", "-m", MODEL, "--chunk-rows", "3")
    assert set(BalancedRidgeClassifier.load(MODEL).feature_names_in_) == {"k=s", *names}
    os.unlink(MODEL)
    learn_file(run, "a,y\n" + "".join(f"{j},{i}\n" for j, i in enumerate(ids * 2)))
    assert BalancedRidgeClassifier.load(MODEL).classes_.tolist() == sorted(ids)
    mixed = '{"k": 9007199254740993, "y": 1}\n{"k": 0.5, "y": 0}\n'
    Path("u.jsonl").write_text(mixed)
    assert "more digits" in run("learn", "u.jsonl", "--label", "y", "-m", "x", code=2).err


@pytest.mark.slow
def test_a_model_of_libsvm_predicts_tables_too(run):
    Path("t.svm").write_text("1 1:2 2:3\n-1 1:5 2:1\n1 1:2 2:4\n-1 1:6 2:2\n")
    run("learn", "t.svm", "-m", MODEL)
    Path("t.csv").write_text("2,1\n3,2\n1,5\n4,2\n2,6\n")
    one, two = (
        pd.read_csv(io.StringIO(run("predict", MODEL, file).out)) for file in ("t.csv", "t.svm")
    )
    pd.testing.assert_frame_equal(one, two, rtol=1e-12)
    Path("u.svm").write_text("1 1500000000:1\n-1 1:1\n")
    run("learn", "u.svm", "-m", "huge")
    assert BalancedRidgeClassifier.load("huge").feature_names_in_.tolist() == ["1", "1500000000"]


def test_metrics_begin_with_rows_that_can_be_scored(run):
    text = "a,y\n,p\n,q\n,p\n1,p\n2,q\n3,p\n4,q\n"
    learn_file(run, text, "--missing", "drop", "--chunk-rows", "3", "--metrics", "m.jsonl")
    assert Path("m.jsonl").exists()
    os.unlink(MODEL)
    os.unlink("m.jsonl")
    text = "a,w,y\n1,0,p\n2,0,q\n3,0,p\n1,1,p\n2,1,q\n3,1,p\n"
    learn_file(run, text, "--weight", "w", "--chunk-rows", "3", "--metrics", "m.jsonl")


def test_no_rows_make_an_empty_table(run):
    learn_file(run, "a,y\n1,p\n2,q\n")
    Path("u.csv").write_text("a\n")
    run("predict", MODEL, "u.csv", "-o", "e.parquet")
    assert pyarrow.parquet.read_table("e.parquet").num_rows == 0
    assert run("predict", MODEL, "u.csv").out.startswith("prediction,score,")


def test_outputs_go_where_they_are_sent(run):
    learn_file(run, "a,y\n1,p\n2,q\n")
    Path("real.csv").write_text("old")
    Path("link.csv").symlink_to("real.csv")
    run("predict", MODEL, "t.csv", "-o", "link.csv")
    assert Path("link.csv").is_symlink()
    assert Path("real.csv").read_text().startswith("prediction")
    assert "is also an input" in run("predict", MODEL, "t.csv", "-o", "./t.csv", code=2).err
    run("predict", MODEL, "t.csv", "-o", "/dev/null", "--output-format", "csv")
    assert not Path("/dev/null").is_file()


def test_columns_that_were_never_learned_can_be_ignored(run):
    Path("t.jsonl").write_text('{"a":1,"y":"p"}\n{"a":2,"y":"q"}\n')
    run("learn", "t.jsonl", "--label", "y", "-m", MODEL)
    Path("u.jsonl").write_text('{"a":1,"extra":{"q":1},"when":"2024-01-01"}\n')
    done = run("predict", MODEL, "u.jsonl", "--ignore-unknown")
    assert len(done.out.splitlines()) == 2
    assert "warning: column 'extra' is unknown to the model and was not used" in done.err


@pytest.mark.slow
def test_small_mistakes_have_small_messages(run):
    learn_file(run, "a,b,y\n1,2,p\n2,3,q\n", "--drop", "b,a", "--keep", "a", code=2)
    learn_file(run, "a,b,c,y\n1,2,3,p\n2,3,4,q\n", "--drop", "b,a")
    learn_file(run, "a,b,c,y\n1,2,3,p\n2,3,4,q\n", "--drop", "a,b")  # the same set
    done = learn_file(run, "a,b,c,y\n1,2,3,\n", name="u.csv", code=2)
    assert "no label in column 'y'" in done.err
    assert "drop the row\n" in done.err
    done = run("learn", "t.csv", "--label", "y", "-m", "x", "--chunk-rows", "9" * 20, code=2)
    assert "must be from 1 to 10,000,000" in done.err
    Path("w.csv").write_text("a,w,y\n1,1,p\n2,1e60,q\n")
    done = run("learn", "w.csv", "--label", "y", "--weight", "w", "-m", "x", code=2)
    assert "w.csv, row 2: weight 1e+60 in column 'w' must be from 0 to 1e+50" in done.err


def test_a_signal_before_the_first_chunk_is_a_stop(start, tmp_path):
    process = start("learn", "-", "--label", "y", "-m", MODEL, stdin=PIPE)
    wait_for((tmp_path / LOCK).exists, process)  # signals are caught before it is made
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 128 + signal.SIGTERM
    assert b"stopped" in process.stderr.read()
    assert not list(tmp_path.iterdir())


def test_a_signal_to_predict_leaves_nothing_behind(start, tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n1,p\n2,q\n")
    start("learn", "t.csv", "--label", "y", "-m", MODEL).wait()
    process = start("predict", MODEL, "-", "-o", "o.csv", stdin=PIPE)
    wait_for(lambda: any(p.name.endswith(".tmp") for p in tmp_path.iterdir()), process)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == 128 + signal.SIGTERM
    assert sorted(p.name for p in tmp_path.iterdir()) == [MODEL, "t.csv"]


# Use


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["learn"], "missing --model"),
        (["learn", "-m", "x", "--label", "y"], "name the files to learn"),
        (["learn", "t.csv"], "missing --model"),
        (
            ["learn", "t.csv", "-m", "x"],
            "missing --label; name the column that contains the class",
        ),
        (["learn", "no.csv", "--label", "y", "-m", "x"], "cannot read no.csv: No such file"),
        (["learn", "t.csv", "--label", "no", "-m", "x"], "has no column 'no', named by --label"),
        (["learn", "t.csv", "--label", "fraud", "-m", "x", "--ridge", "much"], "got 'much'"),
        (["learn", "t.csv", "--label", "fraud", "-m", "x", "--ridge", "-1"], "--ridge must be"),
        (["learn", "t.csv", "--label", "fraud", "-m", "x", "--hash", "a"], "must be COLUMN=N"),
        (
            ["learn", "t.csv", "--label", "fraud", "-m", "x", "--format", "xls"],
            "--format must be csv, tsv, jsonl",
        ),
        (["learn", "t.csv", "--label", "fraud", "-m", "x", "--delimiter", "ab"], "one character"),
        (["learn", "t.csv", "--label", "id", "-m", "x"], "label"),
        (["learn", "empty.csv", "--label", "y", "-m", "x"], "there were no rows to learn"),
        (["learn", "header.csv", "--label", "y", "-m", "x"], "there were no rows to learn"),
        (["learn", "only.csv", "--label", "y", "-m", "x"], "no column is left to learn from"),
        (["learn", "t.csv", "--label", "fraud", "-m", "t.csv"], "not a counterpoise model file"),
        (["predict", "no.safetensors", "t.csv"], "cannot read no.safetensors: No such file"),
        (["predict", "t.csv", "t.csv"], "not a counterpoise model file"),
        (["predict", "m", "t.csv", "--threshold", "2"], "between 0 and 1"),
        (["predict", "m", "t.csv", "--cost-miss", "0"], "finite number above 0"),
        (["predict", "m", "t.csv", "--cost-miss", "5", "--threshold", "0.5"], "with --threshold"),
        (["fly"], "unknown command 'fly'"),
    ],
)
def test_bad_use_is_one_clear_message(run, arguments, message):
    payments(2000).to_csv("t.csv", index=False)
    Path("empty.csv").write_text("")
    Path("header.csv").write_text("a,y\n")
    Path("only.csv").write_text("y\n1\n0\n")
    done = run(*arguments, code=2)
    assert message in done.err
    assert not Path("x").exists()


def test_a_model_saved_in_python_says_that_it_has_no_columns(run):
    BalancedRidgeClassifier().fit(*stream(20)).save("p.safetensors")
    payments().to_csv("t.csv", index=False)
    assert "saved from Python" in run("predict", "p.safetensors", "t.csv", code=2).err


@pytest.mark.slow
def test_help_and_version(run, monkeypatch):
    # The process of the tests may have no shell among its parents.
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    assert run("--version").out == f"counterpoise {version('counterpoise')}\n"  # as installed
    for command in ([], ["learn"], ["predict"]):
        done = run(*command, "--help")
        assert "Example: counterpoise " in done.out
        assert "--help" in done.out
    assert "complete" in run("--show-completion", "bash").out.lower()


# What takes long to load, and what a program has loaded of it when it ends.
HEAVY = {"scipy.stats", "scipy.optimize", "pandas", "matplotlib", "sklearn.metrics", "numpy.f2py"}
HEAVY |= {"sklearn.datasets", "sklearn.linear_model", "pyarrow.parquet"}
LOADED = f"{{n for n, module in sys.modules.items() if type(module) is type(sys)}} & {HEAVY}"
TELLING = f"""
import atexit, sys
atexit.register(lambda: open("../loaded", "w").write(str({LOADED})))
"""


def test_a_cold_start_is_no_other_than_a_fork(forks, tmp_path):
    """Each command once as users start it: the same words, the same code, the same files.

    And those that need little load nothing heavy.
    """
    commands = [
        "learn t.csv --label fraud --drop id -m m.safetensors",
        "learn u.csv --label fraud --drop id -m n.safetensors",
        "predict m.safetensors u.csv --id id",
        "evaluate m.safetensors u.csv",
        "inspect m.safetensors",
        "merge m.safetensors n.safetensors -o o.safetensors",
        "unlearn o.safetensors u.csv",
        "export m.safetensors --output-format json -o m.json",
        "benchmark t.csv --label fraud --drop id --only PA --json",
        "fly",
    ]
    seen = {}
    for way in ("cold", "forked"):
        folder = tmp_path / way
        folder.mkdir()
        payments(200).to_csv(folder / "t.csv", index=False)
        payments(100, seed=1).to_csv(folder / "u.csv", index=False)
        seen[way] = []
        for command in commands:
            if way == "cold":
                whole = [sys.executable, "-c", TELLING + MAIN, *command.split()]
                done = subprocess.run(whole, cwd=folder, capture_output=True, text=True)
                if command.split()[0] in ("predict", "inspect", "merge", "unlearn"):
                    assert (tmp_path / "loaded").read_text() == "set()", command
            else:
                done = forks.run(["-c", MAIN, *command.split()], cwd=folder)
            out = re.sub(r'"[^"]*seconds[^"]*": [\d.e-]+', "", done.stdout)  # of a benchmark
            assert done.returncode == (2 if command == "fly" else 0), done.stderr
            seen[way].append((command, done.returncode, out, done.stderr))
        seen[way].append({path.name: path.read_bytes() for path in sorted(folder.iterdir())})
    assert seen["cold"] == seen["forked"]


@pytest.mark.slow
def test_help_does_not_import_what_it_does_not_need():
    code = (
        "import sys; sys.argv = ['counterpoise', 'learn', '--help']\n"
        "from counterpoise.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "unwanted = {'numpy', 'sklearn', 'pyarrow', 'counterpoise.cli.predict'}\n"
        "print(unwanted & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "set()\n"


@pytest.mark.slow
def test_what_a_command_did_not_load_can_be_had_later(run):
    payments(50).to_csv("t.csv", index=False)
    learn_table(run)
    code = (
        f"{MAIN}\nimport sys; print({LOADED}, file=sys.stderr)\n"
        "import pandas, scipy.linalg.blas, scipy.sparse.linalg, scipy.stats\n"
        "scipy.sparse.linalg.eigsh, scipy.linalg.cython_blas\n"
        "print(scipy.stats.norm.ppf(0.5), pandas.DataFrame().size, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, "predict", MODEL, "t.csv"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-2:] == ["set()", "0.0 0"]


@pytest.mark.slow
def test_without_the_extra_the_command_says_how_to_get_it():
    code = "import sys; sys.modules['typer'] = None\nfrom counterpoise.cli import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert (
        done.stderr == "counterpoise: the command requires typer: pip install 'counterpoise[cli]'\n"
    )


@pytest.mark.slow
def test_a_report_without_matplotlib_names_the_extra(run):
    """In a process that finds no matplotlib."""
    payments().to_csv("t.csv", index=False)
    learn_table(run)
    program = f"import sys; sys.modules['matplotlib'] = None\n{MAIN}"
    done = subprocess.run(
        [sys.executable, "-c", program, "evaluate", MODEL, "t.csv", "--report", "r.html"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if "warning" not in line]
    assert lines == ["counterpoise: plots require matplotlib: pip install 'counterpoise[plots]'"]


def test_a_read_only_folder_is_one_clear_error(run):
    payments().to_csv("t.csv", index=False)
    done = learn_table(run)
    done = run("learn", "t.csv", "--label", "fraud", "-m", "/proc/m.safetensors", code=1)
    assert len(done.err.splitlines()) == 1


@pytest.mark.slow
def test_libsvm_needs_no_label(run):
    X, y = load_breast_cancer(return_X_y=True)
    from sklearn.datasets import dump_svmlight_file

    dump_svmlight_file(X, y, "t.svm", zero_based=False)
    run("learn", "t.svm", "-m", MODEL)
    model = BalancedRidgeClassifier.load(MODEL)
    order = [int(name) - 1 for name in model.feature_names_in_]
    expected = BalancedRidgeClassifier().fit(X[:, order], y)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-6)  # 16 digits were written
    assert len(run("predict", MODEL, "t.svm").out.splitlines()) == 570


# Vandals


def spoilt(text, rng):
    """One of many ways to spoil a text."""
    data = bytearray(text.encode())
    for _ in range(rng.integers(1, 6)):
        i, way = int(rng.integers(len(data))), rng.integers(7)
        if way == 0:
            data[i] = rng.integers(256)
        elif way == 1:
            del data[i : i + int(rng.integers(1, 40))]
        elif way == 2:
            data[i:i] = bytes(rng.integers(0, 256, rng.integers(1, 10)).astype(np.uint8))
        elif way == 3:
            odd = [
                b'"',
                b",",
                b"\n",
                b"{",
                b"}",
                b"[",
                b"null",
                b"NaN",
                b"1e999",
                b"\\u0000",
                b"\r",
            ]
            data[i:i] = odd[rng.integers(len(odd))] * int(rng.integers(1, 4))
        elif way == 4:
            data[i:i] = data[i : i + 100]
        elif way == 5:
            del data[i:]
        else:
            data[i:i] = b"[" * int(rng.integers(1, 300))
        if not data:
            data += b"x"
    return bytes(data)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_spoilt_input_is_refused_or_learned(tmp_path, ending, seed):
    """One message, or a model that predicts; benchmarks/proofs/mutations.py spoils many more."""
    from counterpoise.errors import DataError
    from counterpoise.readers import source
    from counterpoise.tables.model import TableModel, learn_inputs

    rng = np.random.default_rng(seed)
    frame = payments(40, seed)
    text = (
        frame.to_csv(index=False)
        if ending == "csv"
        else frame.to_json(orient="records", lines=True)
    )
    for i in range(50):
        path = tmp_path / f"t.{ending}"
        path.write_bytes(spoilt(text, rng))
        columns = {"label": "fraud", "missing": ["error", "drop", "indicate"][i % 3]}
        learner = TableModel.open(str(tmp_path / f"m{i}"), columns, {}, chunk_rows=16)
        try:
            learn_inputs(learner, [(source(str(path)), "t")], 100, lambda: False, lambda *_: None)
        except DataError as error:
            assert str(error).count("\n") == 0, error  # noqa: PT017
            continue
        if learner.model is not None:
            stored = TableModel.load(str(tmp_path / f"m{i}"))
            assert np.isfinite(wrap_engine(stored.model).coef_).all()


@pytest.mark.slow
@pytest.mark.parametrize("features", [(), ("--feature-map", "poly2"), ("--feature-map", "auto")])
def test_predict_imports_nothing_that_a_row_does_not_need(run, features):
    payments().to_csv("t.csv", index=False)
    learn_table(run, *features)
    payments(1, seed=1).drop(columns="fraud").to_csv("one.csv", index=False)
    slow = ["sklearn", "pandas", "scipy.stats"]
    slow += [] if "auto" in features else ["scipy.linalg.blas", "scipy.sparse.linalg"]
    program = (
        f"{MAIN}\nimport os, sys; print([name for name in {slow} if name in sys.modules], "
        "os.environ['OPENBLAS_NUM_THREADS'])"
    )
    others = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    for asked, threads in (({}, "1"), ({"OPENBLAS_NUM_THREADS": "2"}, "2")):
        # A process of its own, which has imported nothing before.
        found = subprocess.run(
            [sys.executable, "-c", program, "predict", MODEL, "one.csv"],
            capture_output=True, text=True, check=True, env=others | asked,
        )  # fmt: skip
        assert found.stdout.splitlines()[0].startswith("prediction,score,")
        assert found.stdout.splitlines()[2:] == [f"[] {threads}"]


# Exit codes, warnings and guards


@pytest.fixture
def small(run):
    """A model of 60 rows by the clock, one class each hour."""
    rows = [
        f"2024-01-{1 + i // 24:02d} {i % 24:02d}:00,{i % 7},{'yes' if i % 3 else 'no'}"
        for i in range(60)
    ]
    Path("h.csv").write_text("at,x,y\n" + "\n".join(rows) + "\n")
    run("learn", "h.csv", "--label", "y", "--timestamp", "at", "--half-life", "7d", "-m", "h")


@pytest.mark.slow
def test_a_file_that_is_missing_has_one_text_and_one_exit_code(run, small):
    for command in (
        ["predict", "nope", "h.csv"], ["predict", "h", "nope.csv"], ["inspect", "nope"],
        ["evaluate", "nope", "h.csv"], ["evaluate", "h", "nope.csv"],
        ["export", "nope", "-o", "x.json"],
        ["merge", "h", "nope", "-o", "x"], ["unlearn", "nope", "h.csv"],
        ["learn", "nope.csv", "--label", "y", "-m", "new"],
    ):  # fmt: skip
        assert "cannot read nope" in run(*command, code=2).err


def test_strict_turns_warnings_into_an_exit_code(run, small):
    Path("more.csv").write_text("x,extra\n1,2\n")
    assert "warning: column 'extra'" in run("predict", "h", "more.csv", "--ignore-unknown").err
    strict = run("predict", "h", "more.csv", "--ignore-unknown", "--strict", code=3)
    assert strict.out.count("\n") == 2
    run("predict", "h", "h.csv", "--strict")


def test_a_time_in_the_future_is_refused(run, small, tmp_path):
    before = (tmp_path / "h").read_bytes()
    Path("typo.csv").write_text("at,x,y\n2024-01-04 00:00,1,yes\n2204-01-04 00:00,1,no\n")
    said = run("learn", "typo.csv", "-m", "h", code=2).err
    assert "typo.csv, row 2: column 'at' has the time 2204-01-04T00:00:00" in said
    assert "--allow-future" in said
    assert (tmp_path / "h").read_bytes() == before
    assert "typo.csv, row 2" in run("check", "typo.csv", "-m", "h", code=1).out
    run("check", "typo.csv", "-m", "h", "--allow-future")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        said = run("learn", "typo.csv", "-m", "h", "--allow-future", "--strict", code=3).err
    assert "warning: the latest row is of 2204-01-04 00:00:00" in said


def test_a_model_of_one_class_says_why_there_are_no_alerts(run):
    Path("one.csv").write_text("x,y\n1,no\n2,no\n3,no\n")
    run("learn", "one.csv", "--label", "y", "-m", "m")
    for rule in (["--threshold", "0.5"], ["--cost-miss", "10"], ["--alert-rate", "0.5"],
                 ["--top-per-day", "3", "--timestamp", "x"]):  # fmt: skip
        done = run("predict", "m", "one.csv", *rule)
        assert "warning: m has learned one class only, so there are no alerts" in done.err
        assert "true" not in done.out
    assert "warning" not in run("predict", "m", "one.csv").err


def test_a_file_without_end_is_no_model(run, tmp_path):
    os.mkfifo("pipe")
    for path in ("/dev/zero", "pipe"):
        assert "is not a regular file" in run("inspect", path, code=2).err
    with open("huge", "wb") as file:
        file.truncate(2**40)  # reading all of it would never fit into memory
    assert "is not a counterpoise model file" in run("inspect", "huge", code=2).err


def test_a_zip_member_without_a_name_is_read_or_refused(run):
    with zipfile.ZipFile("t.csv.zip", "w") as archive:
        member = zipfile.ZipInfo("x")
        member.filename = ""
        archive.writestr(member, "x,y\n1,no\n2,yes\n")
    run("learn", "t.csv.zip", "--label", "y", "-m", "m")


def test_check_lists_a_problem_of_the_whole_file_once(run):
    rows = "".join(f"{i % 5},{i},{i % 2}\n" for i in range(20_000))
    Path("t.csv").write_text("x,extra,y\n" + rows)
    Path("first.csv").write_text("x,y\n" + "".join(f"{i % 5},{i % 2}\n" for i in range(100)))
    run("learn", "first.csv", "--label", "y", "-m", "m")
    assert len(run("check", "t.csv", "-m", "m", code=1).out.splitlines()) == 1


def test_check_with_ids_reports_each_missing_and_double_id(run):
    Path("e.csv").write_text(
        "id,x\n" + "".join(f"{i},{i % 3}\n" for i in range(9000)) + "7,1\n,2\n"
    )
    found = run("check", "e.csv", "--id", "id", "--label", "y", code=1).out.splitlines()
    assert len(found) == 2
    assert "row 9001: id '7' is also that of e.csv, row 8;" in found[0]
    assert "row 9002: no id in column 'id';" in found[1]
    Path("good.csv").write_text("id,x\n1,2\n2,3\n")
    run("check", "good.csv", "--id", "id", "--label", "y")
    Path("l.csv").write_text("id,y\n1,no\n2,yes\n")
    run("learn", "good.csv", "--labels", "l.csv", "--id", "id", "--label", "y", "-m", "m")
    Path("more.csv").write_text("id,x\n3,2\n4,3\n")
    run("check", "more.csv", "--id", "id", "-m", "m")
    assert "good.csv has no column 'y'" in run("check", "good.csv", "--label", "y", code=1).out


@pytest.mark.slow
def test_commands_that_change_a_model_print_json(run):
    Path("a.csv").write_text(
        "id,x,y\n" + "".join(f"{i},{i % 5},{'yes' if i % 4 == 0 else 'no'}\n" for i in range(40))
    )
    Path("b.csv").write_text("id,x,y\n" + "".join(f"{i + 40},{i % 3},no\n" for i in range(10)))
    rules = ["--label", "y", "--drop", "id", "--json"]
    found = json.loads(run("learn", "a.csv", "-m", "a", *rules).out)
    assert found["classes"] == {"no": 30.0, "yes": 10.0}
    assert found["inputs"] == {"a.csv": {"new_rows": 40, "rows": 40, "dropped_rows": 0}}
    assert (found["model"], found["positive"], found["warnings"]) == ("a", "yes", [])
    run("learn", "b.csv", "-m", "b", *rules)
    merged = json.loads(run("merge", "a", "b", "-o", "c", "--json").out)
    assert merged["classes"] == {"no": 40.0, "yes": 10.0}
    assert merged["inputs"] == {"a.csv": {"rows": 40}, "b.csv": {"rows": 10}}
    some = ["--where", "id=4", "--json"]
    right = json.loads(run("relabel", "a", "a.csv", *some, "--new-label", "no").out)
    assert right["inputs"] == {"a.csv": {"relabeled_rows": 1}}
    gone = json.loads(run("unlearn", "a", "a.csv", *some).out)
    assert (gone["inputs"], gone["classes"]) == (
        {"a.csv": {"unlearned_rows": 1}},
        {"no": 30.0, "yes": 9.0},
    )
