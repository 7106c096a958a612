"""The command line: what it learns is what Python learns, once; and what it says when it cannot."""

import gzip
import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
from samples import data_set, stream
from sklearn.datasets import load_breast_cancer

from counterpoise import BalancedRidgeClassifier
from counterpoise.datasets import VARIABLE
from counterpoise.learner import stored_model

MODEL = "m.safetensors"
COMMAND = [sys.executable, "-c", "from counterpoise.cli import main; main()"]
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


def learnt(run, *more, files=("t.csv",), code=0):
    return run("learn", *files, "--label", "fraud", "--drop", "id", "-m", MODEL, *more, code=code)


def content(path=MODEL):
    return Path(path).read_bytes()


@pytest.mark.parametrize("name", SETS)
def test_public_sets_by_command_line_equal_python(run, tmp_path, name):
    X, y = data_set(name)
    file = Path(os.environ[VARIABLE]) / f"{name}.csv.gz"
    run("learn", file, "--label", "target", "--model", MODEL)
    model = BalancedRidgeClassifier()
    for i in range(0, len(X), 8192):
        model.partial_fit(X[i : i + 8192], y[i : i + 8192])
    loaded = BalancedRidgeClassifier.load(MODEL)
    np.testing.assert_allclose(loaded.coef_, model.coef_, rtol=1e-12)
    np.testing.assert_array_equal(loaded.class_count_, model.class_count_)
    run("predict", MODEL, file, "-o", "p.parquet")
    table = pyarrow.parquet.read_table("p.parquet").to_pandas()
    assert (
        table["predicted"].tolist()
        == loaded.predict(pd.DataFrame(X, columns=loaded.feature_names_in_)).tolist()
    )
    frame = pd.DataFrame(X, columns=loaded.feature_names_in_)
    np.testing.assert_allclose(
        table["score"], loaded.decision_function(frame), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(
        table[["balanced_-1", "balanced_1"]], loaded.predict_proba(frame), atol=1e-12
    )
    np.testing.assert_allclose(
        table[["stream_-1", "stream_1"]], loaded.stream_proba(frame), atol=1e-12
    )


def test_categories_equal_one_hot_columns_in_python(run):
    frame = payments()
    frame.to_csv("t.csv", index=False)
    done = learnt(run)
    assert "t.csv: 300 rows" in done.err
    hot = pd.get_dummies(frame[["amount", "country"]], dtype=float)
    hot.columns = [c.replace("country_", "country=") for c in hot.columns]
    model = BalancedRidgeClassifier.load(MODEL)
    expected = BalancedRidgeClassifier().fit(hot[model.feature_names_in_], frame["fraud"])
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-10)
    out = run("predict", MODEL, "t.csv", "--id", "id").out
    table = pd.read_csv(io.StringIO(out))
    assert table["id"].tolist() == frame["id"].tolist()
    assert table["predicted"].tolist() == expected.predict(hot[model.feature_names_in_]).tolist()


# Exactly once


def test_nothing_is_learnt_twice(run):
    payments().to_csv("t.csv", index=False)
    learnt(run)
    before = content()
    done = learnt(run)
    assert "nothing new, its 300 rows were learnt before" in done.err
    assert content() == before
    done = run("learn", "t.csv", "-m", MODEL)  # options need not be repeated
    assert content() == before


@pytest.mark.parametrize("ending", ["csv", "csv.gz", "jsonl"])
def test_a_file_that_grew_has_only_its_new_rows_learnt(run, ending):
    whole = payments(500)

    def write(rows):
        text = (
            whole[:rows].to_csv(index=False)
            if "csv" in ending
            else whole[:rows].to_json(orient="records", lines=True)
        )
        data = text.encode()
        Path(f"t.{ending}").write_bytes(gzip.compress(data) if ending.endswith("gz") else data)

    write(300)
    learnt(run, files=[f"t.{ending}"])
    write(500)
    done = learnt(run, files=[f"t.{ending}"])
    assert "200 new rows after 300" in done.err
    grown = BalancedRidgeClassifier.load(MODEL)
    os.unlink(MODEL)
    learnt(run, files=[f"t.{ending}"])
    at_once = BalancedRidgeClassifier.load(MODEL)
    np.testing.assert_allclose(grown.coef_, at_once.coef_, rtol=1e-10)
    np.testing.assert_array_equal(grown.class_count_, at_once.class_count_)


def test_a_file_that_changed_is_an_error_that_names_it(run):
    payments().to_csv("t.csv", index=False)
    payments(50, seed=1).to_csv("u.csv", index=False)
    learnt(run)
    before = content()
    frame = payments()
    frame.loc[7, "amount"] += 1
    frame.to_csv("t.csv", index=False)
    done = learnt(run, files=["u.csv", "t.csv"], code=2)
    assert "t.csv has changed: the 300 rows learnt from it before are not as they were" in done.err
    assert content() == before


def test_a_changed_option_is_an_error_that_names_it(run):
    payments().to_csv("t.csv", index=False)
    learnt(run, "--ridge", "0.1", "--cost", "yes=3")
    before = content()
    for more, message in [
        (["--ridge", "0.2"], "--ridge is 0.2, but m.safetensors was learnt with 0.1"),
        (["--cost", "yes=4"], "--cost is yes=4.0, but m.safetensors was learnt with yes=3.0"),
        (["--scale", "minmax"], "--scale is minmax, but m.safetensors was learnt with standard"),
        (["--missing", "drop"], "--missing is drop, but m.safetensors was learnt with error"),
        (["--categorical", "amount"], "--categorical is amount"),
        (["--chunk-rows", "100"], "--chunk-rows is 100"),
        (["--half-life", "9"], "--half-life is 9.0, but m.safetensors was learnt with none"),
        (["--intercept", "free"], "--penalize-intercept is False"),
    ]:
        assert message in learnt(run, *more, code=2).err
    assert content() == before
    learnt(run, "--ridge", "0.1", "--cost", "yes=3")


def test_several_files_in_one_run_or_in_three(run):
    for k in range(3):
        payments(100, seed=k).to_csv(f"t{k}.csv", index=False)
    for k in range(3):
        learnt(run, files=[f"t{k}.csv"])
    one_by_one = content()
    os.unlink(MODEL)
    learnt(run, files=["t?.csv"])
    assert content() == one_by_one


def test_the_same_rows_under_another_name_are_refused(run):
    payments().to_csv("t.csv", index=False)
    learnt(run)
    Path("t.csv").rename("u.csv")
    done = learnt(run, files=["u.csv"], code=2)
    assert "u.csv begins with the same rows as t.csv" in done.err
    learnt(run, "--allow-overlap", files=["u.csv"])
    assert BalancedRidgeClassifier.load(MODEL).class_count_.sum() == 600


def test_paths_are_relative_to_the_model(run, tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    payments().to_csv("data/t.csv", index=False)
    learnt(run, files=["data/t.csv"])
    assert list(stored_model(MODEL).records) == ["data/t.csv"]
    monkeypatch.chdir(tmp_path / "data")
    done = run("learn", "t.csv", "-m", tmp_path / MODEL)
    assert "nothing new" in done.err


def test_bad_rows_leave_the_model_file_as_it_was(run):
    payments().to_csv("t.csv", index=False)
    learnt(run)
    before = content()
    frame = payments(200, seed=1).astype({"amount": object})
    frame.loc[150, "amount"] = "a lot"
    frame.to_csv("u.csv", index=False)
    done = learnt(run, files=["u.csv"], code=2)
    assert "u.csv, row 151: column 'amount' holds 'a lot', which is not a number" in done.err
    assert content() == before
    assert sorted(p.name for p in Path().iterdir()) == [MODEL, "t.csv", "u.csv"]


def test_rows_that_were_dropped_are_counted(run):
    frame = payments()
    frame.loc[[3, 5], "amount"] = np.nan
    frame.to_csv("t.csv", index=False)
    assert "row 4: column 'amount' is missing" in learnt(run, code=2).err
    done = learnt(run, "--missing", "drop")
    assert "300 rows, of which 2 with missing values were dropped" in done.err
    assert BalancedRidgeClassifier.load(MODEL).class_count_.sum() == 298
    done = run("predict", MODEL, "t.csv")
    table = pd.read_csv(io.StringIO(done.out))
    assert table["predicted"].isna().to_numpy().nonzero()[0].tolist() == [3, 5]
    assert "2 of 300 rows have missing values and no prediction" in done.err


def test_unknown_categories_are_counted_when_predicting(run):
    payments().to_csv("t.csv", index=False)
    learnt(run)
    payments(20, seed=2).assign(country="XX").to_csv("u.csv", index=False)
    done = run("predict", MODEL, "u.csv")
    assert (
        "column 'country': 20 cells with a category that was never learnt, taken as none"
        in done.err
    )
    assert len(done.out.splitlines()) == 21


def test_checkpoints_do_not_move_chunks(run):
    payments(1000).to_csv("t.csv", index=False)
    files = []
    for every in (1, 70, 128, 10**6):
        learnt(run, "--chunk-rows", "64", "--checkpoint-every", every)
        files.append(content())
        os.unlink(MODEL)
    assert len(set(files)) == 1


def test_weights_and_options_reach_the_model(run):
    frame = payments()
    frame["weight"] = np.arange(len(frame)) % 3
    frame.to_csv("t.csv", index=False)
    learnt(
        run, "--weight", "weight", "--ridge", "gcv", "--class-weight", "yes=5,no=1", "--scale",
        "minmax", "--intercept", "free", "--half-life", "100",
    )  # fmt: skip
    model = BalancedRidgeClassifier.load(MODEL)
    assert model.get_params() == {
        "ridge": "gcv", "class_weight": {"yes": 5.0, "no": 1.0}, "costs": None, "scale": "minmax",
        "fit_intercept": True, "penalize_intercept": False, "half_life": 100.0,
        "memory_limit": 2e9,
    }  # fmt: skip
    assert model.class_count_.sum() == frame["weight"].sum()


def test_labels_that_are_numbers_have_costs_by_number(run):
    payments().assign(fraud=lambda f: (f["fraud"] == "yes").astype(int)).to_csv(
        "t.csv", index=False
    )
    learnt(run, "--cost", "1=2")
    assert BalancedRidgeClassifier.load(MODEL).costs == {1: 2.0}
    os.unlink(MODEL)
    assert "labels are whole numbers" in learnt(run, "--cost", "yes=2", code=2).err


# Standard input, signals, locks


def start(*arguments, **options):
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    return subprocess.Popen([*COMMAND, *map(str, arguments)], **pipes)


def wait_for(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.02)


def test_standard_input_resumes_only_from_its_start(tmp_path):
    text = payments(200).to_csv(index=False).encode()
    learn = ["learn", "-", "--label", "fraud", "--drop", "id", "-m", MODEL]

    def feed(data, *more):
        process = start(*learn, *more, stdin=subprocess.PIPE, cwd=tmp_path)
        _, err = process.communicate(data)
        return process.returncode, err.decode()

    assert feed(text) == (0, "counterpoise: standard input: 200 rows\n" + feed_total(text))
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
def test_signals_save_and_stop_at_a_chunk_end(tmp_path, number):
    """Also while nothing comes: the pipe stays open."""
    frame = payments(1000)
    text = frame.to_csv(index=False)
    learn = ["learn", "-", "--label", "fraud", "--drop", "id", "-m", MODEL, "--chunk-rows", 64]
    process = start(*learn, "--checkpoint-every", 64, stdin=subprocess.PIPE, cwd=tmp_path)
    process.stdin.write("".join(line + "\n" for line in text.splitlines()[:501]).encode())
    process.stdin.flush()
    wait_for((tmp_path / MODEL).exists)
    time.sleep(0.3)
    process.send_signal(number)
    process.wait(20)
    assert process.returncode == 128 + number
    assert b"stopped; the same command goes on from here" in process.stderr.read()
    process.stdin.close()
    (record,) = stored_model(str(tmp_path / MODEL)).records.values()
    assert record.mark.rows % 64 == 0
    assert 0 < record.mark.rows <= 500
    process = start(*learn, stdin=subprocess.PIPE, cwd=tmp_path)
    process.communicate(text.encode())
    stopped = (tmp_path / MODEL).read_bytes()
    (tmp_path / MODEL).unlink()
    start(*learn, stdin=subprocess.PIPE, cwd=tmp_path).communicate(text.encode())
    assert (tmp_path / MODEL).read_bytes() == stopped


def test_a_second_writer_is_refused(tmp_path):
    payments().to_csv(tmp_path / "t.csv", index=False)
    learn = ["--label", "fraud", "--drop", "id", "-m", MODEL]
    first = start("learn", "-", *learn, stdin=subprocess.PIPE, cwd=tmp_path)
    wait_for((tmp_path / f"{MODEL}.lock").exists)
    time.sleep(0.2)
    second = start("learn", "t.csv", *learn, cwd=tmp_path)
    _, err = second.communicate()
    assert second.returncode == 2
    assert b"m.safetensors is being written by another process" in err
    first.send_signal(signal.SIGKILL)
    first.wait()
    third = start("learn", "t.csv", *learn, cwd=tmp_path)
    assert third.wait() == 0
    assert not (tmp_path / f"{MODEL}.lock").exists()


def test_a_broken_pipe_is_silent(tmp_path):
    payments(5000).to_csv(tmp_path / "t.csv", index=False)
    start("learn", "t.csv", "--label", "fraud", "--drop", "id", "-m", MODEL, cwd=tmp_path).wait()
    command = " ".join(f"'{part}'" for part in [*COMMAND, "predict", MODEL, *["t.csv"] * 50])
    done = subprocess.run(
        f"{command} | head -n 1",
        shell=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.stdout.startswith("predicted,score,")
    assert done.stderr == ""


def test_predictions_come_as_rows_come(tmp_path):
    payments().to_csv(tmp_path / "t.csv", index=False)
    start("learn", "t.csv", "--label", "fraud", "--drop", "id", "-m", MODEL, cwd=tmp_path).wait()
    process = start("predict", MODEL, "-", stdin=subprocess.PIPE, cwd=tmp_path)
    process.stdin.write(b"amount,country\n12.5,DE\n")
    process.stdin.flush()
    assert process.stdout.readline().startswith(b"predicted,")
    assert process.stdout.readline().startswith((b"no,", b"yes,"))  # and the pipe is still open
    process.stdin.write(b"1e4,US")
    process.stdin.close()
    assert process.stdout.readline().startswith((b"no,", b"yes,"))
    assert process.wait() == 0


def test_progress_is_for_terminals(tmp_path):
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
    process = start(*learn, stderr=slave, cwd=tmp_path, env={**os.environ, "TERM": "xterm"})
    os.close(slave)
    seen = b""
    try:
        while block := os.read(master, 4096):
            seen += block
    except OSError:
        pass
    assert process.wait() == 0
    os.close(master)
    assert b"rows/s" in seen or b"/s, no:" in seen
    assert b"progressive G-mean 0." in seen
    in_terminal = (tmp_path / MODEL).read_bytes()
    (tmp_path / MODEL).unlink()
    piped = start(*learn, cwd=tmp_path)
    assert b"/s" not in piped.communicate()[1]
    assert (tmp_path / MODEL).read_bytes() == in_terminal


# Metrics


def test_metrics_are_progressive_and_change_nothing(run):
    X, y = stream(2000, d=3)
    pd.DataFrame(X, columns=list("abc")).assign(fraud=y, id=0).to_csv("t.csv", index=False)
    learnt(run, "--chunk-rows", "100")
    without = content()
    os.unlink(MODEL)
    learnt(run, "--chunk-rows", "100", "--metrics", "m.jsonl", "--metrics-every", "500")
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


def test_metrics_of_rows_that_were_lost_are_cut_off(run):
    payments(1000).to_csv("t.csv", index=False)
    options = ["--chunk-rows", "100", "--metrics", "m.jsonl", "--metrics-every", "100"]
    learnt(run, *options)
    whole = Path("m.jsonl").read_text()
    payments(1000)[:400].to_csv("u.csv", index=False)
    os.unlink(MODEL)
    os.unlink("m.jsonl")
    Path("t.csv").write_text(Path("u.csv").read_text())
    learnt(run, *options)  # saved after 400 rows
    payments(1000).to_csv("t.csv", index=False)
    with open("m.jsonl", "a") as file:
        file.write('{"rows": 500, "scored": 1}\n{"rows": 6')  # of a process that was killed
    learnt(run, *options)
    rows = [json.loads(line)["rows"] for line in Path("m.jsonl").read_text().splitlines()]
    assert rows == [json.loads(line)["rows"] for line in whole.splitlines()]


# Predictions


def test_predictions_in_every_format(run):
    payments(100).to_csv("t.csv", index=False)
    learnt(run)
    table = pd.read_csv(io.StringIO(run("predict", MODEL, "t.csv", "--with-input").out))
    assert table.columns.tolist() == [
        "id", "amount", "country", "fraud", "predicted", "score",
        "balanced_no", "stream_no", "balanced_yes", "stream_yes",
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


def test_alerts(run):
    X, y = stream(3000, d=2)
    pd.DataFrame(X, columns=["a", "b"]).assign(fraud=y, id=0).to_csv("t.csv", index=False)
    learnt(run)
    table = pd.read_csv(io.StringIO(run("predict", MODEL, "t.csv", "--threshold", "0.8").out))
    assert (table["alert"] == (table["balanced_1"] >= 0.8)).all()
    table = pd.read_csv(io.StringIO(run("predict", MODEL, "t.csv", "--alert-rate", "0.02").out))
    assert 0.01 < table["alert"].mean() < 0.035
    assert table.loc[table["alert"], "balanced_1"].min() > table["balanced_1"].median()
    table = pd.read_csv(
        io.StringIO(run("predict", MODEL, "t.csv", "--threshold", "0.8", "--positive", "0").out)
    )
    assert (table["alert"] == (table["balanced_0"] >= 0.8)).all()


def test_more_classes_have_a_score_each(run):
    X, y = stream(300, d=2, classes=3)
    pd.DataFrame(X, columns=["a", "b"]).assign(fraud=np.array(["u", "v", "w"])[y], id=0).to_csv(
        "t.csv", index=False
    )
    learnt(run)
    table = pd.read_csv(io.StringIO(run("predict", MODEL, "t.csv").out))
    scores = table[["score_u", "score_v", "score_w"]].to_numpy()
    assert (np.array(["u", "v", "w"])[scores.argmax(axis=1)] == table["predicted"]).all()


def test_an_output_file_appears_whole_or_not_at_all(run):
    payments().to_csv("t.csv", index=False)
    learnt(run)
    Path("p.csv").write_text("old")
    Path("u.csv").write_text("amount,country\n1,DE\n2\n")
    run("predict", MODEL, "t.csv", "u.csv", "-o", "p.csv", code=2)
    assert Path("p.csv").read_text() == "old"
    assert not [p for p in Path().iterdir() if p.name.endswith(".tmp")]


# Use


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["learn"], "Missing argument"),
        (["learn", "t.csv"], "Missing option"),
        (["learn", "t.csv", "-m", "x"], "say which column holds the labels"),
        (["learn", "no.csv", "--label", "y", "-m", "x"], "cannot read no.csv: No such file"),
        (["learn", "t.csv", "--label", "no", "-m", "x"], "has no column 'no', named by --label"),
        (["learn", "t.csv", "--label", "fraud", "-m", "x", "--ridge", "much"], "neither a number"),
        (["learn", "t.csv", "--label", "fraud", "-m", "x", "--ridge", "-1"], "ridge=-1.0 must be"),
        (["learn", "t.csv", "--label", "fraud", "-m", "x", "--hash", "a"], "is not NAME=N"),
        (["learn", "t.csv", "--label", "fraud", "-m", "x", "--format", "xls"], "is not one of csv"),
        (["learn", "t.csv", "--label", "fraud", "-m", "x", "--delimiter", "ab"], "one character"),
        (["learn", "t.csv", "--label", "id", "-m", "x"], "label"),
        (["learn", "empty.csv", "--label", "y", "-m", "x"], "there was no row to learn"),
        (["learn", "header.csv", "--label", "y", "-m", "x"], "there was no row to learn"),
        (["learn", "only.csv", "--label", "y", "-m", "x"], "no column is left to learn from"),
        (["learn", "t.csv", "--label", "fraud", "-m", "t.csv"], "not a whole safetensors file"),
        (["predict", "no.safetensors", "t.csv"], "No such file"),
        (["predict", "t.csv", "t.csv"], "not a whole safetensors file"),
        (["predict", "m", "t.csv", "--threshold", "2"], "between 0 and 1"),
        (["fly"], "No such command"),
    ],
)
def test_bad_use_is_one_clear_message(run, arguments, message):
    payments(2000).to_csv("t.csv", index=False)
    Path("empty.csv").write_text("")
    Path("header.csv").write_text("a,y\n")
    Path("only.csv").write_text("y\n1\n0\n")
    done = run(*arguments, code=1 if message == "No such file" else 2)
    assert message in done.err
    assert not Path("x").exists()


def test_a_model_saved_in_python_says_that_it_has_no_columns(run):
    BalancedRidgeClassifier().fit(*stream(20)).save("p.safetensors")
    payments().to_csv("t.csv", index=False)
    assert "saved from Python" in run("predict", "p.safetensors", "t.csv", code=2).err


def test_help_and_version(run):
    assert run("--version").out == "counterpoise 0.1.0\n"
    for command in ([], ["learn"], ["predict"]):
        done = run(*command, "--help")
        assert "Example: counterpoise " in done.out
        assert "--help" in done.out
    assert "complete" in run("--show-completion", "bash").out.lower()


def test_help_does_not_import_what_it_does_not_need():
    code = (
        "import sys; sys.argv = ['counterpoise', 'learn', '--help']\n"
        "from counterpoise.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print({'numpy', 'sklearn', 'pyarrow'} & set(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "set()\n"


def test_without_the_extra_the_command_says_how_to_get_it():
    code = "import sys; sys.modules['typer'] = None\nfrom counterpoise.cli import main\nmain()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "counterpoise: the command needs typer: pip install 'counterpoise[cli]'\n"


def test_a_read_only_folder_is_one_clear_error(run):
    payments().to_csv("t.csv", index=False)
    done = learnt(run)
    done = run("learn", "t.csv", "--label", "fraud", "-m", "/proc/m.safetensors", code=1)
    assert len(done.err.splitlines()) == 1


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


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_spoilt_input_is_refused_or_learnt(tmp_path, ending, seed):
    """2,000 in all, 50 a test: one message, or a model that predicts; never anything else."""
    from counterpoise.learner import Learner, learn
    from counterpoise.streams import DataError, source

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
        learner = Learner(str(tmp_path / f"m{i}"), columns, {}, chunk_rows=16)
        try:
            learn(learner, [(source(str(path)), "t")], 100, lambda: False, lambda *_: None)
        except DataError as error:
            assert str(error).count("\n") == 0, error  # noqa: PT017
            continue
        if learner.model is not None:
            stored = stored_model(str(tmp_path / f"m{i}"))
            assert np.isfinite(stored.model.coef_).all()
