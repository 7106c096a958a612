"""Mistakes around a stream: labels, last lines, names, notations, copies, schemas, units."""

import gzip
import io
import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from fork_server import PIPE
from sklearn.datasets import load_breast_cancer

from counterpoise import BalancedRidgeClassifier, TableClassifier
from counterpoise.engine.ridge import RidgeModel
from counterpoise.estimators.auto import wrap_engine
from counterpoise.readers import source
from counterpoise.readers.jsonlines import Elements
from counterpoise.tables.estimator import scoring_pace
from counterpoise.tables.model import TableModel, learn_inputs
from counterpoise.tables.scoring import scoring_interval

MODEL = "m.safetensors"


def payments(rows, seed=0, share=0.03):
    rng = np.random.default_rng(seed)
    fraud = rng.random(rows) < share
    return pd.DataFrame(
        {
            "amount": (rng.exponential(50, rows) * (1 + 3 * fraud)).round(2),
            "hour": rng.integers(0, 24, rows),
            "fraud": np.where(fraud, "yes", "no"),
        }
    )


def written(name, rows, seed=0, **columns):
    payments(rows, seed).assign(**columns).to_csv(name, index=False)
    return name


def teach(run, *files, more=(), code=0):
    return run("learn", *files, "--label", "fraud", "-m", MODEL, *more, code=code)


def content(path=MODEL):
    return Path(path).read_bytes()


def alerts(run, *arguments):
    out = run("predict", MODEL, *arguments).out
    return pd.read_csv(io.StringIO(out))["alert"].sum()


# Labels


@pytest.mark.slow
def test_a_mistyped_label_is_refused_and_turns_no_alert_off(run):
    teach(run, written("t.csv", 1200))
    before, found = content(), alerts(run, "t.csv", "--threshold", "0.6")
    assert found > 0
    text = Path(written("u.csv", 20, 1)).read_text().splitlines()
    text[7] = text[7].rpartition(",")[0] + ",Yes"
    Path("u.csv").write_text("\n".join([*text, ""]))
    done = teach(run, "u.csv", code=2)
    assert "u.csv, row 7: label 'Yes' is new: m.safetensors has learned 1,200 rows of no, yes" in (
        done.err
    )
    assert "--allow-new-classes" in done.err
    assert content() == before
    done = teach(run, "u.csv", more=["--allow-new-classes"])
    assert "warning: u.csv, row 7: label 'Yes' is a new class in addition to no, yes" in done.err
    assert TableModel.load(MODEL).positive == "yes"
    table = pd.read_csv(io.StringIO(run("predict", MODEL, "t.csv", "--threshold", "0.6").out))
    assert (table["alert"] == (table["proba_balanced_yes"] >= 0.6)).all()
    assert table["alert"].any()
    assert (
        "'Maybe' is new" in teach(run, write_rows_of_label("Maybe"), code=2).err
    )  # allowed once only


def write_rows_of_label(label, name="v.csv", rows=1):
    Path(name).write_text("amount,hour,fraud\n" + f"1,2,{label}\n" * rows)
    return name


@pytest.mark.slow
def test_a_young_model_learns_new_labels_and_names_the_row(run):
    done = teach(run, written("t.csv", 200))
    assert "the positive class is 'yes'" in done.err
    done = teach(run, write_rows_of_label("Yes"))
    assert "warning: v.csv, row 1: label 'Yes' is a new class in addition to no, yes" in done.err
    assert "the positive class" not in done.err  # it is printed once
    assert TableModel.load(MODEL).positive == "yes"


@pytest.mark.slow
def test_the_second_class_is_always_welcome(run):
    written("t.csv", 1500, fraud="no")
    assert "positive" not in teach(run, "t.csv").err
    assert "the positive class is 'yes'" in teach(run, write_rows_of_label("yes")).err


@pytest.mark.slow
def test_declared_classes_are_the_only_ones(run):
    written("t.csv", 50)
    written("u.csv", 5, 3, fraud="maybe")
    done = teach(run, "t.csv", "u.csv", more=["--classes", "no,yes"], code=2)
    says = "u.csv, row 1: label 'maybe' in column 'fraud' is not one of no, yes"
    assert says in done.err
    assert not Path(MODEL).exists()
    teach(run, "t.csv", more=["--classes", "no,yes"])
    before = content()
    assert says in teach(run, "u.csv", more=["--allow-new-classes"], code=2).err
    assert content() == before
    teach(run, "t.csv", more=["--classes", "no,other,yes"])  # a guard can be widened
    assert TableModel.load(MODEL).encoding.columns.classes == ("no", "other", "yes")
    teach(run, "u.csv", more=["--classes", "maybe,no,yes"])
    done = teach(run, "t.csv", more=["--classes", "no,yes"], code=2)
    assert "has learned maybe, no, yes; name these too" in done.err
    Path("n.csv").write_text("a,y\n1,0\n2,1\n3,2\n")
    done = run("learn", "n.csv", "--label", "y", "--classes", "0,1", "-m", "n.st", code=2)
    assert "n.csv, row 3: label 2 in column 'y' is not one of 0, 1" in done.err


@pytest.mark.slow
def test_the_positive_class_can_be_specified(run):
    teach(run, written("t.csv", 300), more=["--positive", "no"])
    assert TableModel.load(MODEL).positive == "no"
    table = pd.read_csv(io.StringIO(run("predict", MODEL, "t.csv", "--threshold", "0.5").out))
    assert (table["alert"] == (table["proba_balanced_no"] >= 0.5)).all()
    teach(run, written("u.csv", 30, 1), more=["--positive", "yes"])
    assert json.loads(run("inspect", MODEL, "--json").out)["positive"] == "yes"
    assert (
        "--positive: unknown class 'fraud'"
        in teach(run, written("v.csv", 30, 2), more=["--positive", "fraud"], code=2).err
    )
    run("unlearn", MODEL, "t.csv", "u.csv")
    assert TableModel.load(MODEL).positive is None


@pytest.mark.slow
def test_merged_models_agree_on_the_positive_class(run):
    for k, positive in ((0, "no"), (1, "yes")):
        written(f"{k}.csv", 60, k)
        run("learn", f"{k}.csv", "--label", "fraud", "-m", f"{k}.st", "--positive", positive)
    done = run("merge", "0.st", "1.st", "-o", MODEL, code=2)
    assert "the positive class is 'no' in 0.st and 'yes' in 1.st; choose one with" in done.err
    run("merge", "0.st", "1.st", "-o", MODEL, "--positive", "yes")
    assert TableModel.load(MODEL).positive == "yes"
    assert TableModel.load(MODEL).settled == 120


@pytest.mark.slow
def test_a_cut_run_ends_with_the_bytes_of_one_that_was_not(tmp_path):
    """New labels late in the first run, a positive class, scores: all depend on the rows alone."""
    frame = payments(3000).assign(fraud=lambda f: f["fraud"].where(f.index < 2500, "later"))
    frame.to_csv(tmp_path / "t.csv", index=False)

    def go(model, chunks):
        seen = []
        learner = TableModel.open(str(tmp_path / model), {"label": "fraud"}, {}, 200)
        inputs = [(source(str(tmp_path / "t.csv")), "t")]
        learn_inputs(learner, inputs, 200, lambda: len(seen) >= chunks, lambda *_: seen.append(1))

    go("whole", 99)
    for _ in range(6):
        go("parts", 3)
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()
    assert TableModel.load(str(tmp_path / "whole")).positive == "yes"


@pytest.mark.parametrize("option", ["--class-factor", "--class-weight"])
def test_an_option_that_names_no_class_is_an_error(run, option):
    written("t.csv", 50)
    done = teach(run, "t.csv", more=[option, "fraud=5,no=1"], code=2)
    assert f"{option}: unknown class 'fraud' (classes: no, yes)" in done.err
    assert not Path(MODEL).exists()
    done = teach(run, "t.csv", more=[option, "fraud=5", "--classes", "no,yes"], code=2)
    assert f"{option}: unknown class 'fraud'" in done.err


@pytest.mark.slow
def test_a_class_without_rows_causes_a_warning(run):
    done = teach(run, written("t.csv", 50, fraud="no"), more=["--class-factor", "yes=5"])
    assert "warning: --class-factor: no row has the class 'yes' yet" in done.err
    assert "no row has it" not in teach(run, write_rows_of_label("yes")).err


@pytest.mark.slow
def test_an_averaging_model_is_resumed_with_columns_to_drop(run):
    written("t.csv", 400, id=range(400))
    written("u.csv", 100, 1, id=range(100))
    more = ["--feature-map", "auto", "--drop", "id"]
    teach(run, "t.csv", more=more)
    assert "100 rows" in teach(run, "u.csv", more=more).err


# The last line


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_a_half_written_last_line_is_left_until_it_is_whole(run, ending):
    frame = payments(40)
    text = (
        frame.to_csv(index=False)
        if ending == "csv"
        else frame.to_json(orient="records", lines=True)
    )
    lines = text.splitlines(keepends=True)
    half = "".join(lines[:-5]) + lines[-5][:-3]
    name = f"t.{ending}"
    Path(name).write_text(half)
    done = teach(run, name)
    assert f"{name}: the last line has no line end and is left for the next run" in done.err
    assert f"{name}: 35 rows" in done.err
    assert "nothing new, its 35 rows" in teach(run, name).err
    Path(name).write_text(text)
    done = teach(run, name)
    assert "5 new rows after 35" in done.err
    assert "no line end" not in done.err
    model = wrap_engine(TableModel.load(MODEL).model)
    assert model.classes_.tolist() == ["no", "yes"]
    assert model.class_count_.sum() == 40
    assert "40 rows unlearned" in run("unlearn", MODEL, name).err


@pytest.mark.slow
def test_a_finished_file_without_a_last_line_end_is_read_whole(run):
    text = payments(30).to_csv(index=False).rstrip("\n")
    Path("t.csv").write_text(text)
    assert "t.csv: 30 rows" in teach(run, "t.csv", more=["--complete"]).err
    assert len(run("predict", MODEL, "t.csv").out.splitlines()) == 31
    assert "rows\t30" in run("evaluate", MODEL, "t.csv").out
    os.unlink(MODEL)
    Path("t.csv.gz").write_bytes(gzip.compress(text.encode()))  # which no producer appends to
    assert "t.csv.gz: 30 rows" in teach(run, "t.csv.gz").err
    os.unlink(MODEL)
    before = os.dup(0)
    reader, writer = os.pipe()
    os.write(writer, text.encode())
    os.close(writer)
    os.dup2(reader, 0)
    assert "standard input: 30 rows" in teach(run, "-").err
    os.dup2(before, 0)


@pytest.mark.slow
def test_nothing_but_half_a_line(run):
    Path("t.csv").write_text("amount,ho")
    done = teach(run, "t.csv", code=2)
    assert "there were no rows to learn" in done.err
    Path("t.csv").write_text('amount,hour,fraud\n1,2,no\n3,4,"y')
    assert "t.csv: 1 row\n" in teach(run, "t.csv").err
    Path("u.csv").write_text('amount,hour,fraud\n1,2,no\n3,"4,yes\n5,6,no\n')
    assert "a quote is opened and never closed" in teach(run, "u.csv", code=2).err


# Names


def predict_from_pipe(run, text, *more, code=0):
    before = os.dup(0)
    reader, writer = os.pipe()
    os.write(writer, text.encode())
    os.close(writer)
    os.dup2(reader, 0)
    try:
        return run("predict", MODEL, "-", *more, code=code)
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(reader)


@pytest.mark.slow
def test_events_with_other_names_are_refused(run):
    teach(run, written("t.csv", 100))
    done = predict_from_pipe(run, '{"Amount": 900, "hour": 3}\n', code=2)
    assert (
        "has a column 'Amount', which the model has not learned; it has learned 'amount', 'hour'"
        in (done.err)
    )
    assert done.out == ""
    done = predict_from_pipe(run, '{"amount": 900, "hour": 3}\n{}\n', code=2)
    assert "row 2: none of the columns of the model is here: 'amount', 'hour'" in done.err
    done = predict_from_pipe(run, '{"Amount": 900, "hour": 3}\n{"note": "x"}\n', "--ignore-unknown")
    lines = done.out.splitlines()
    assert lines[1].startswith(("no,", "yes,"))
    assert set(lines[2]) == {","}
    assert "warning: column 'Amount' is unknown to the model and was not used" in done.err
    assert "1 of 2 rows have none of the columns of the model and no prediction" in done.err
    done = predict_from_pipe(
        run, '{"amount": 900, "hour": 3, "id": 7, "fraud": "no"}\n', "--id", "id"
    )
    assert done.out.splitlines()[1].startswith("7,")
    Path("u.csv").write_text("amount,hour,extra\n1,2,3\n")
    assert "has a column 'extra'" in run("predict", MODEL, "u.csv", code=2).err
    Path("u.csv").write_text("amount,hour,extra,fraud\n1,2,3,no\n4,5,6,yes\n")
    assert "has a column 'extra'" in run("evaluate", MODEL, "u.csv", code=2).err
    run("evaluate", MODEL, "u.csv", "--ignore-unknown")


@pytest.mark.slow
def test_columns_without_values_are_known_too(run):
    teach(run, written("t.csv", 100, note=""), more=["--missing", "indicate"])
    run("predict", MODEL, "t.csv")
    written("u.csv", 100, 1, note="")
    assert "100 rows" in teach(run, "u.csv").err
    run("unlearn", MODEL, "u.csv")


@pytest.mark.slow
def test_json_is_recognised_on_a_pipe_and_under_a_wrong_name(run):
    teach(run, written("t.csv", 100))
    event = {"amount": 900.0, "hour": 3}
    one = predict_from_pipe(run, "\n " + json.dumps(event) + "\n").out
    assert one == predict_from_pipe(run, json.dumps(event) + "\n", "--format", "jsonl").out
    assert one == predict_from_pipe(run, "amount,hour\n900.0,3\n").out
    assert len(one.splitlines()) == 2
    Path("u.csv").write_text(json.dumps(event) + "\n")
    assert "u.csv is JSON, not CSV; read it as JSON with --format jsonl" in (
        run("predict", MODEL, "u.csv", code=2).err
    )


# Copies


@pytest.mark.slow
def test_a_copied_model_recognizes_its_inputs(run):
    os.mkdir("a")
    os.mkdir("b")
    written("a/t.csv", 100)
    written("a/u.csv", 60, 1)
    run("learn", "a/t.csv", "a/u.csv", "--label", "fraud", "-m", "a/m.st")
    shutil.copy("a/m.st", "b/m.st")
    done = run("learn", "a/t.csv", "-m", "b/m.st")
    assert "nothing new, its 100 rows were already learned (known as t.csv)" in done.err
    with open("a/t.csv", "a") as file:
        file.write("1.5,3,no\n")
    assert "1 new row after 100" in run("learn", "a/t.csv", "-m", "b/m.st").err
    assert list(TableModel.load("b/m.st").records) == ["../a/t.csv", "u.csv"]
    assert "60 rows unlearned" in run("unlearn", "b/m.st", "a/u.csv").err
    written("b/v.csv", 60, 1)  # the same rows, written again
    done = run("unlearn", "a/m.st", "b/v.csv")
    assert "60 rows unlearned" in done.err
    assert BalancedRidgeClassifier.load("a/m.st").class_count_.sum() == 100
    assert "was never learned" in run("unlearn", "a/m.st", "b/v.csv", code=2).err


def test_a_pipe_with_a_path_is_read_once(run):
    teach(run, written("t.csv", 100))
    text = Path(written("u.csv", 60, 1)).read_bytes()
    reader, writer = os.pipe()
    os.write(writer, text)
    os.close(writer)
    done = teach(run, f"/dev/fd/{reader}", more=["--format", "csv"])
    os.close(reader)
    assert "60 rows" in done.err
    assert wrap_engine(TableModel.load(MODEL).model).class_count_.sum() == 160


@pytest.mark.slow
def test_files_that_have_swapped_their_names(run):
    written("t.csv", 100)
    written("u.csv", 60, 1)
    teach(run, "t.csv", "u.csv")
    before = content()
    os.rename("t.csv", "x")
    os.rename("u.csv", "t.csv")
    os.rename("x", "u.csv")
    done = teach(run, "t.csv", "u.csv")
    assert "t.csv: nothing new, its 60 rows were already learned (known as u.csv)" in done.err
    assert content() == before
    assert "60 rows unlearned" in run("unlearn", MODEL, "t.csv").err


@pytest.mark.slow
def test_two_files_of_one_name_are_merged(run):
    for k in "ab":
        os.mkdir(k)
        written(f"{k}/t.csv", 50, ord(k))
        run("learn", f"{k}/t.csv", "--label", "fraud", "-m", f"{k}/{k}.st")
    shutil.copy("b/b.st", "a/b.st")
    run("merge", "a/a.st", "a/b.st", "-o", "a/m.st")
    assert list(TableModel.load("a/m.st").records) == ["t.csv", "t.csv of b.st"]
    assert "50 rows unlearned" in run("unlearn", "a/m.st", "b/t.csv").err
    assert "50 rows unlearned" in run("unlearn", "a/m.st", "a/t.csv").err


# Notations


def draw_rows(rows=60):
    rng = np.random.default_rng(0)
    x = rng.normal(1500, 400, rows).round(2)
    when = pd.Timestamp("2024-01-31") + pd.to_timedelta(rng.integers(0, 300, rows), "D")
    y = np.where(x + rng.normal(0, 200, rows) > 1700, "p", "q")
    return x, when, y


NOTATIONS = {
    "comma": (lambda x: f"{x:.2f}".replace(".", ","), ["--decimal", ","], "--decimal ','"),
    "money": (lambda x: f"${x:,.2f}", ["--numeric", "x"], "--numeric x"),
    "euro": (
        lambda x: f"{x:,.2f} €".translate(str.maketrans(",.", ".,")),
        ["--numeric", "x", "--decimal", ","],
        "--decimal ',' --numeric x",
    ),
    "cent": (lambda x: f"{x:.2f}%", ["--numeric", "x"], "--numeric x"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTATIONS)
def test_numbers_in_another_notation_are_noticed_and_read(run, name):
    write, more, option = NOTATIONS[name]
    x, _, y = draw_rows()
    pd.DataFrame({"x": x, "y": y}).to_csv("plain.csv", index=False)
    pd.DataFrame({"x": [write(v) for v in x], "y": y}).to_csv("t.csv", index=False)
    done = run("learn", "t.csv", "--label", "y", "-m", MODEL, code=2)
    assert "column 'x' contains" in done.err
    assert "60 categories look like numbers or dates" in done.err
    assert f"read them with {option}, take them as categories with --categorical x" in done.err
    assert not Path(MODEL).exists()
    run("learn", "t.csv", "--label", "y", "-m", MODEL, *more)
    run("learn", "plain.csv", "--label", "y", "-m", "plain.st")
    one, two = (BalancedRidgeClassifier.load(path) for path in (MODEL, "plain.st"))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    plain = run("predict", "plain.st", "plain.csv").out
    assert run("predict", MODEL, "t.csv").out == plain  # the notation is part of the model
    assert "60 rows unlearned" in run("unlearn", MODEL, "t.csv").err
    run("learn", "t.csv", "--label", "y", "-m", "c.st", "--categorical", "x")


@pytest.mark.slow
@pytest.mark.parametrize("form", ["%d.%m.%Y", "%m/%d/%Y", "%d %b %Y", "%Y/%m/%d %H:%M"])
def test_dates_in_another_notation_are_noticed_and_read(run, form):
    _, when, y = draw_rows()
    pd.DataFrame({"x": when.strftime("%Y-%m-%d %H:%M"), "y": y}).to_csv("plain.csv", index=False)
    pd.DataFrame({"x": when.strftime(form), "y": y}).to_csv("t.csv", index=False)
    done = run("learn", "t.csv", "--label", "y", "-m", MODEL, code=2)
    assert f"read them with --datetime x --time-format '{form}'" in done.err
    run("learn", "t.csv", "--label", "y", "--epoch", "x", "--time-format", form, "-m", "s.st")
    run("learn", "plain.csv", "--label", "y", "--epoch", "x", "-m", "plain.st")
    assert run("predict", "s.st", "t.csv").out == run("predict", "plain.st", "plain.csv").out
    run("learn", "t.csv", "--label", "y", "--datetime", "x", "--time-format", form, "-m", MODEL)
    run("learn", "plain.csv", "--label", "y", "-m", "cycles.st")  # as ISO dates are by default
    one, two = (BalancedRidgeClassifier.load(path) for path in (MODEL, "cycles.st"))
    np.testing.assert_array_equal(one.coef_, two.coef_)
    assert run("predict", MODEL, "t.csv").out == run("predict", "cycles.st", "plain.csv").out


def test_another_sign_between_fields_is_named(run):
    Path("t.csv").write_text("a;b;y\n1,5;2;p\n2,5;3;q\n")
    done = run("learn", "t.csv", "--label", "y", "-m", MODEL, code=2)
    assert "2 fields, expected 1: '1,5;2;p'; try --delimiter ';'" in (done.err)


def test_a_day_that_does_not_exist_is_an_error(run):
    Path("t.csv").write_text("d,y\n1.3.2024,p\n31.02.2024,q\n")
    more = ["--epoch", "d", "--time-format", "%d.%m.%Y"]
    done = run("learn", "t.csv", "--label", "y", "-m", MODEL, *more, code=2)
    assert "t.csv, row 2: column 'd' contains '31.02.2024', which is not a date like %d.%m.%Y" in (
        done.err
    )


@pytest.mark.slow
def test_a_real_set_with_decimal_commas_is_read_or_refused(run):
    X, y = load_breast_cancer(return_X_y=True)
    frame = pd.DataFrame(X[:, :6]).add_prefix("x").assign(y=y)
    frame.to_csv("plain.csv", index=False)
    frame.to_csv("t.csv", index=False, sep=";", decimal=",")
    read = ["--label", "y", "-m", MODEL]
    done = run("learn", "t.csv", *read, "--delimiter", ";", code=2)
    assert "read them with --decimal ','" in done.err
    run("learn", "t.csv", *read, "--delimiter", ";", "--decimal", ",")
    run("learn", "plain.csv", "--label", "y", "-m", "plain.st")
    one = run("evaluate", MODEL, "t.csv", "--delimiter", ";").out
    assert one == run("evaluate", "plain.st", "plain.csv").out
    Path("u.csv").write_text("x0;x1;x2;x3;x4;x5;y\n" + "1.5;1;1;1;1;1;0\n")
    done = run("learn", "u.csv", "--delimiter", ";", "-m", MODEL, code=2)
    assert "'1.5', which is not a number" in done.err  # not one and a half: the sign is a comma


@pytest.mark.slow
def test_few_of_them_are_categories_with_a_word(run):
    Path("t.csv").write_text("size,y\n" + '"12,5",p\n"7,5",q\n' * 5)
    done = run("learn", "t.csv", "--label", "y", "-m", MODEL)
    assert (
        "warning: t.csv: column 'size' contains values such as '12,5', taken as categories; read "
        "them with --decimal ',', or confirm that with --categorical size" in done.err
    )
    os.unlink(MODEL)
    done = run("learn", "t.csv", "--label", "y", "-m", MODEL, "--categorical", "size")
    assert "warning" not in done.err
    Path("w.csv").write_text("age,y\n" + "31,p\n40,q\nabout 50,p\n" * 5)
    done = run("learn", "w.csv", "--label", "y", "-m", "w.st")
    assert (
        "warning: w.csv: column 'age' contains values such as '31' and 'about 50', taken as "
        "categories; read them with --numeric age, or confirm that with --categorical age"
        in done.err
    )
    Path("x.csv").write_text("size,y\n" + "S,p\nM,q\n42,p\n" * 5)  # mostly words
    done = run("learn", "x.csv", "--label", "y", "-m", "x.st")
    assert "warning" not in done.err
    Path("u.csv").write_text("n,y\n" + "".join(f"{i}.5,p\n" for i in range(30)) + "?,q\n")
    done = run("learn", "u.csv", "--label", "y", "-m", "u.st", code=2)
    assert "30 categories look like numbers" in done.err


# Alerts


@pytest.mark.slow
def test_alerts_of_today_are_compared_with_yesterday(run):
    days = [written(f"{k}.csv", 4000, k) for k in range(5)]
    for day in days[:4]:
        teach(run, day)
    # Of 40 expected the standard deviation is about 9: of today's rows, and of those before.
    assert 20 <= alerts(run, days[4], "--alert-rate", "0.01") <= 65
    assert 2800 <= alerts(run, days[4], "--alert-rate", "0.8", "--positive", "no") <= 3600
    extreme = "amount,hour\n5000,0\n"
    assert (
        "true" in predict_from_pipe(run, extreme, "--alert-rate", "0.01").out
    )  # one row is enough
    usual = "amount,hour\n20,12\n"
    assert "true" not in predict_from_pipe(run, usual, "--alert-rate", "0.01").out


@pytest.mark.slow
def test_scores_of_the_last_rows_are_progressive_and_bounded(run):
    from counterpoise.tables.scoring import max_scores

    frame = payments(700)
    frame.to_csv("t.csv", index=False)
    teach(run, "t.csv", more=["--chunk-rows", "100"])
    recent = TableModel.load(MODEL).recent
    assert len(recent) == 350  # scores by models of few rows are gone
    X, y = frame[["amount", "hour"]].to_numpy(float), frame["fraud"].to_numpy()
    last = BalancedRidgeClassifier().fit(X[:600], y[:600]).decision_function(X[600:])
    np.testing.assert_allclose(recent[-100:, 0], last, rtol=1e-5)  # six digits are kept
    written("u.csv", 300, 1)
    run("learn", "u.csv", "--label", "fraud", "-m", "u.st", "--chunk-rows", "100")
    run("merge", MODEL, "u.st", "-o", "both.st")
    assert len(TableModel.load("both.st").recent) == len(recent) + len(
        TableModel.load("u.st").recent
    )
    before = TableModel.load("both.st").recent
    run("unlearn", "both.st", "t.csv")  # scores are compared with those of days before all the same
    np.testing.assert_array_equal(TableModel.load("both.st").recent, before)
    assert max_scores(1) == 10_000
    assert max_scores(400) == 100
    written("v.csv", 300, 2, fraud=lambda f: f["fraud"].where(f.index % 200 < 190, "else"))
    teach(run, "v.csv", more=["--allow-new-classes"])
    assert TableModel.load(MODEL).recent.shape == (
        100,
        3,
    )  # by a model that has learned the new class


@pytest.mark.parametrize("pace", [1, 16, 32])
@pytest.mark.parametrize("size", [1, 100, 1000, 2500])
def test_an_eighth_of_the_rows_is_scored_however_they_come(pace, size):
    rows, chunk_rows = 400_000, 1000
    pieces = [(i, i + size) for i in range(0, rows, size)]
    due = [piece for piece in pieces if scoring_interval(*piece, chunk_rows, pace)]
    assert due[0][0] == 0
    longest = max(scoring_interval(*piece, chunk_rows, pace) for piece in pieces)
    assert longest == chunk_rows * (3 + pace // 2)
    late = [piece for piece in due if piece[0] >= rows / 2]
    count = rows / 2 / longest  # of intervals
    assert max(longest / 8, size) * (count - 2) <= size * len(late)
    assert size * len(late) <= (longest / 8 + 2 * size) * (count + 2)
    starts = [start for start, _ in late]
    assert max(np.diff(starts)) <= longest + size


def test_wide_models_are_scored_at_boundaries_without_a_link(tmp_path, monkeypatch):
    rng, n, chunk_rows = np.random.default_rng(0), 4000, 100
    y = (rng.random(n) < 0.3).astype(int)
    X = rng.normal(size=(n, 300)) + 0.1 * y[:, None]
    solved, solve = [], RidgeModel.scores

    def record(model, link=True):
        solved.append((round(float(model.class_count.sum())), link))
        return solve(model, link)

    monkeypatch.setattr(RidgeModel, "scores", record)
    model = TableClassifier(chunk_rows=chunk_rows).partial_fit(pd.DataFrame(X), y)
    monkeypatch.undo()
    pace = scoring_pace(model._model.model)
    assert pace == 5
    starts = range(0, n, chunk_rows)
    due = [i for i in starts if scoring_interval(i, i + chunk_rows, chunk_rows, pace)]
    assert len(due) < 0.7 * len(starts)
    assert solved == [(i, False) for i in [32, 64, *due[1:]]]
    model.save(tmp_path / "m")
    recent = TableModel.load(str(tmp_path / "m")).recent[:, 0]
    last = BalancedRidgeClassifier().fit(X[: due[-1]], y[: due[-1]])
    rows = slice(due[-1], due[-1] + chunk_rows)
    np.testing.assert_allclose(recent[-chunk_rows:], last.decision_function(X[rows]), rtol=1e-5)
    assert chunk_rows * len(due) / 2 < len(recent) <= n / 2


@pytest.mark.slow
def test_with_more_classes_each_has_its_alerts(run):
    rng = np.random.default_rng(0)
    y = rng.choice(3, 3000, p=[0.6, 0.3, 0.1])
    frame = pd.DataFrame(rng.normal(size=(3000, 2)) + y[:, None], columns=["a", "b"])
    frame["fraud"] = np.array(["u", "v", "w"])[y]
    frame[:2000].to_csv("t.csv", index=False)
    frame[2000:].to_csv("u.csv", index=False)
    teach(run, "t.csv")
    assert TableModel.load(MODEL).positive == "w"
    for positive in "uvw":
        found = alerts(run, "u.csv", "--alert-rate", "0.1", "--positive", positive)
        assert 70 <= found <= 140


# Schemas and units


@pytest.mark.slow
def test_columns_that_come_and_go_are_both_refused_or_bothstate_(run):
    written("old.csv", 100)
    written("new.csv", 80, 1, device=lambda f: f["hour"] % 3)
    written("old2.csv", 60, 2)
    teach(run, "old.csv")
    before = content()
    done = teach(run, "new.csv", code=2)
    assert "new.csv has column 'device', which earlier files do not have" in done.err
    assert "use --allow-new-columns, or leave the column out with --drop device" in done.err
    assert content() == before
    done = teach(run, "new.csv", more=["--allow-new-columns"])
    assert done.err.count("new.csv: column 'device' is new, and 0 in all earlier rows") == 1
    done = teach(run, "old2.csv", code=2)
    assert "old2.csv has no column 'device', which the model has learned" in done.err
    done = teach(run, "old2.csv", more=["--allow-new-columns"])
    assert done.err.count("old2.csv: column 'device' is absent, and taken as 0") == 1
    model = BalancedRidgeClassifier.load(MODEL)
    frames = [pd.read_csv(name) for name in ("old.csv", "new.csv", "old2.csv")]
    whole = pd.concat(frames).fillna({"device": 0.0})
    expected = BalancedRidgeClassifier().fit(whole[model.feature_names_in_], whole["fraud"])
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-9)
    assert "60 rows unlearned" in run("unlearn", MODEL, "old2.csv").err


@pytest.mark.slow
def test_a_column_that_was_never_learned_can_be_dropped_later(run):
    written("old.csv", 100, id=1)
    written("new.csv", 80, 1, id=2, device=5)
    teach(run, "old.csv", more=["--drop", "id"])
    teach(run, "new.csv", more=["--drop", "device"])
    assert TableModel.load(MODEL).encoding.columns.drop == ("device", "id")
    teach(run, written("old2.csv", 60, 2, id=3))
    done = teach(run, "new.csv", more=["--drop", "hour"], code=2)
    assert "--drop is hour, but m.safetensors was learned with device, id" in done.err


@pytest.mark.slow
def test_values_far_from_all_learned_values_cause_a_warning(run):
    when = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(300), "h")
    payments(300).assign(when=when).to_csv("t.csv", index=False)
    done = teach(run, "t.csv", more=["--epoch", "when"])
    assert "deviations" not in done.err
    epoch = 1_704_500_000_000 + np.arange(20) * 3_600_000
    payments(20, 1).assign(when=epoch).to_csv("u.csv", index=False)
    says = (
        "warning: column 'when': 20 values are more than 100 standard deviations from all that was "
        "learned, the first 1.7045e+12 in row 1 of u.csv"
    )
    assert says in run("predict", MODEL, "u.csv").err
    assert "deviations" not in run("predict", MODEL, "t.csv").err
    assert says in teach(run, "u.csv").err


@pytest.mark.slow
def test_what_is_rare_is_not_far(run):
    rows = [{"a": float(i % 7), "fraud": "yes" if i % 9 == 0 else "no"} for i in range(3000)]
    for i in range(0, 3000, 20):
        rows[i]["rare"] = 5.0 + i % 3
    Path("t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    teach(run, "t.jsonl")
    Path("u.jsonl").write_text('{"a": 1, "rare": 6}\n{"a": 2}\n{"a": 2, "rare": 900}\n')
    done = run("predict", MODEL, "u.jsonl")
    assert "column 'rare': 1 value is more than 100" in done.err
    assert "the first 900 in row 3 of u.jsonl" in done.err


def test_rows_from_a_pipe_may_be_cut_anywhere(run, start, tmp_path):
    rows = "".join(f"{i / 7:.3f},{i % 3},{'yes' if i % 5 == 0 else 'no'}\n" for i in range(300))
    (tmp_path / "t.csv").write_text("a,b,y\n" + rows)
    run("learn", "t.csv", "--label", "y", "-m", "m")
    whole = run("predict", "m", "t.csv").out
    data = (tmp_path / "t.csv").read_bytes().removesuffix(b"\n")
    with start("predict", "m", "-", "--format", "csv", stdin=PIPE) as process:
        heads = []
        for at in range(0, len(data), 701):
            process.stdin.write(data[at : at + 701])
            process.stdin.flush()
            if not at:
                heads.append(process.stdout.readline())  # what was whole has been read by then
        process.stdin.close()
        out = b"".join(heads) + process.stdout.read()
    assert (process.returncode, out.decode()) == (0, whole)


def test_inputs_that_begin_alike_keep_their_own_records(run, tmp_path):
    rows = [f"{i},{'yes' if i % 4 == 0 else 'no'}\n" for i in range(60)]
    (tmp_path / "one.csv").write_text("a,y\n" + "".join(rows[:40]))
    (tmp_path / "two.csv").write_text("a,y\n" + "".join(rows))
    for _ in range(2):
        done = run("learn", "one.csv", "two.csv", "--label", "y", "-m", "m", code=2)
        assert "two.csv begins with the same rows as one.csv" in done.err


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_an_array_may_arrive_in_any_pieces(size):
    rows = [{"a": [1, {"b": "x},{"}], "c": '"],['}, {"d": "\\"}, {"e": {"f": "]"}}]
    data = io.BytesIO(json.dumps(rows).encode())
    trickle = SimpleNamespace(name="t.json", read=lambda most: data.read(min(most, size)))
    elements, lines = Elements(trickle), b""
    while more := elements.read(1 << 20):
        lines += more
    assert [json.loads(line) for line in lines.splitlines()] == rows


def test_quiet_is_not_silent_about_warnings(run, tmp_path):
    (tmp_path / "t.csv").write_text("a,y\n" + "1,no\n2,yes\n3,no\n" * 20)
    run("learn", "t.csv", "--label", "y", "-m", "m", "-q")
    (tmp_path / "u.csv").write_text("a,y\n5,Yes\n")
    done = run("learn", "u.csv", "-m", "m", "-q")
    assert "warning: u.csv, row 1: label 'Yes' is a new class" in done.err
    assert "rows" not in done.err.replace("row 1", "")


@pytest.mark.slow
def test_shards_of_one_class_have_a_positive_class_together(run, tmp_path):
    for label, n in (("no", 30), ("maybe", 20), ("yes", 10)):
        (tmp_path / f"{label}.csv").write_text("a,y\n" + f"1,{label}\n2,{label}\n" * n)
        run("learn", f"{label}.csv", "--label", "y", "-m", f"{label}.m")
    run("merge", "no.m", "maybe.m", "yes.m", "-o", "all.m")
    assert TableModel.load("all.m").positive == "yes"
    run("merge", "no.m", "maybe.m", "yes.m", "-o", "some.m", "--positive", "yes")
    done = run("merge", "no.m", "maybe.m", "-o", "none.m", "--positive", "yes", code=2)
    assert "--positive: unknown class 'yes' (classes: maybe, no)" in done.err
    assert "positive class is 'maybe'" in run("unlearn", "all.m", "yes.csv").err


def test_new_fields_of_json_are_reported(run, tmp_path):
    line = '{{"{}": {}, "y": "{}"}}\n'
    rows = [line.format("a", i, "yes" if i % 2 else "no") for i in range(9)]
    (tmp_path / "t.jsonl").write_text("".join(rows))
    run("learn", "t.jsonl", "--label", "y", "-m", "m")
    (tmp_path / "u.jsonl").write_text(line.format("A", 5, "no"))
    done = run("learn", "u.jsonl", "-m", "m")
    assert "u.jsonl: new fields, 0 in all earlier rows: 'A'" in done.err


@pytest.mark.slow
def test_a_file_that_begins_with_the_one_row_of_another_is_not_its_continuation(run):
    head = "amount,hour,fraud\n"
    Path("f1.csv").write_text(head + "1,2,no\n")
    Path("f2.csv").write_text(head + "1,2,no\n3,4,yes\n5,6,no\n")
    teach(run, "f1.csv")
    before = content()
    done = teach(run, "f2.csv", code=2)
    assert "f2.csv begins with the same rows as f1.csv" in done.err
    assert content() == before
    assert "3 rows" in teach(run, "f2.csv", more=["--allow-overlap"]).err
    assert list(TableModel.load(MODEL).records) == ["f1.csv", "f2.csv"]
    assert wrap_engine(TableModel.load(MODEL).model).class_count_.sum() == 4


@pytest.mark.parametrize("what", ["copied", "moved", "grown", "compressed"])
def test_a_file_of_one_row_is_known_again(run, what):
    text = "amount,hour,fraud\n1,2,no\n"
    Path("f1.csv").write_text(text)
    teach(run, "f1.csv")
    if what == "copied":
        shutil.copy("f1.csv", "f2.csv")
    elif what == "compressed":
        Path("f2.csv.gz").write_bytes(gzip.compress(text.encode()))
    else:
        os.rename("f1.csv", "f2.csv")
    if what == "grown":
        with open("f2.csv", "a") as file:
            file.write("3,4,yes\n")
        Path("f1.csv").write_text("amount,hour,fraud\n7,8,yes\n")  # another day's
        assert "1 new row after 1 (known as f1.csv)" in teach(run, "f2.csv").err
    else:
        name = "f2.csv.gz" if what == "compressed" else "f2.csv"
        assert "nothing new, its 1 row was already learned" in teach(run, name).err


# Forgetting, and what comes after it


@pytest.mark.slow
def test_a_table_may_lack_what_some_learned_rows_did_not_have(run):
    written("old.csv", 100)
    written("new.csv", 80, 1, device=lambda f: f["hour"] % 3, kind="phone")
    teach(run, "old.csv")
    teach(run, "new.csv", more=["--allow-new-columns"])
    frame = pd.read_csv("old.csv").assign(device=0.0)
    model = BalancedRidgeClassifier.load(MODEL)
    expected = model.decision_function(
        frame.assign(**{"kind=phone": 0.0})[model.feature_names_in_].to_numpy()
    )
    done = run("predict", MODEL, "old.csv")
    found = pd.read_csv(io.StringIO(done.out))["score"]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    told = "column 'device' is not there, and 0 as in the rows that were learned without it"
    assert done.err.count(told) == 1
    done = run("evaluate", MODEL, "old.csv")
    assert "rows\t100" in done.out
    assert done.err.count(told) == 1
    frame[["device", "fraud"]].to_csv("part.csv", index=False)
    for command in ("predict", "evaluate"):  # every row had an amount
        done = run(command, MODEL, "part.csv", code=2)
        assert "part.csv has no columns 'amount', 'hour', which the model has learned" in done.err
    run("unlearn", MODEL, "old.csv")  # now every row has a device
    assert "has no columns 'device', 'kind'" in run("predict", MODEL, "old.csv", code=2).err


def test_a_table_must_have_some_column_of_the_model(run):
    Path("t.jsonl").write_text('{"a":1,"y":"p"}\n{"b":2,"y":"q"}\n{"a":3,"y":"q"}\n' * 5)
    run("learn", "t.jsonl", "--label", "y", "-m", MODEL)
    Path("u.csv").write_text("a\n1\n")
    assert len(run("predict", MODEL, "u.csv").out.splitlines()) == 2
    Path("v.csv").write_text("y\np\n")
    assert "v.csv has no columns 'a', 'b'" in run("predict", MODEL, "v.csv", code=2).err


@pytest.mark.slow
def test_metrics_continue_after_unlearning(run):
    for k in range(3):
        written(f"{k}.csv", 300, k)
    more = ["--metrics", "m.jsonl", "--metrics-every", "100", "--chunk-rows", "100"]
    teach(run, "0.csv", "1.csv", more=more)
    before = Path("m.jsonl").read_text()
    run("unlearn", MODEL, "0.csv")
    teach(run, "2.csv", more=more)
    after = Path("m.jsonl").read_text()
    assert after.startswith(before)
    rows = [json.loads(line)["rows"] for line in after.splitlines()]
    assert rows == [100, 200, 300, 400, 500, 600, 700, 800, 900]
    run("unlearn", MODEL, "1.csv")
    assert TableModel.load(MODEL).unlearned == 600
    with open("m.jsonl", "a") as file:  # a run that was killed before it could save
        file.write(json.dumps({"model": MODEL, "rows": 1000}) + "\n")
    teach(run, written("3.csv", 50, 4), more=more)
    rows = [json.loads(line)["rows"] for line in Path("m.jsonl").read_text().splitlines()]
    assert rows == [100, 200, 300, 400, 500, 600, 700, 800, 900, 950]


def test_labels_that_the_model_does_not_know_are_one_error(run):
    teach(run, written("t.csv", 100))
    written("u.csv", 50, 1, fraud="maybe")
    for more in ([], ["--report", "r.html"], ["--report", "r.html", "--positive", "maybe"]):
        done = run("evaluate", MODEL, "u.csv", *more, code=2)
        says = "the model has learned no label of column 'fraud': they are 'maybe', and it "
        assert says + "has 'no', 'yes'" in done.err
    assert not Path("r.html").exists()


@pytest.mark.slow
@pytest.mark.parametrize("strange", ["a", "zzz"])
def test_a_report_has_the_weights_of_its_class_whatever_other_labels_there_are(run, strange):
    teach(run, written("t.csv", 200))
    written("u.csv", 50, 1)
    with open("u.csv", "a") as file:
        file.write(f"10,3,{strange}\n")
    says = {}
    for name in ("t.csv", "u.csv"):
        run("evaluate", MODEL, name, "--report", "r.html", "--positive", "no")
        says[name] = Path("r.html").read_text().split("Largest: ")[1].split("</figcaption>")[0]
    assert says["t.csv"] == says["u.csv"]
    assert "amount" in says["t.csv"]


def test_copied_columns_are_not_reported_as_left_out(run):
    teach(run, written("t.csv", 100))
    written("u.csv", 10, 1, note="x")
    done = run("predict", MODEL, "u.csv", "--with-input", "--ignore-unknown")
    assert "note" in done.out.splitlines()[0].split(",")
    assert "warning: column 'note' is unknown to the model and was not used" in done.err


def test_rows_without_a_column_of_the_model_where_values_may_be_missing(run):
    rows = '{"amount": 1, "hour": 2, "fraud": "no"}\n{"amount": null, "hour": 3, "fraud": "yes"}\n'
    Path("t.jsonl").write_text(rows * 20)
    run("learn", "t.jsonl", "--label", "fraud", "-m", MODEL, "--missing", "indicate")
    events = '{"amount": null, "hour": 3}\n{"other": 1}\n'
    lines = predict_from_pipe(run, events, "--ignore-unknown").out.splitlines()
    assert lines[1].startswith("yes,")
    assert set(lines[2]) == {","}
