"""Messages name settings, which Python and the command line spell."""

import pickle
import re
from pathlib import Path

import pytest

from counterpoise.cli.app import COMMANDS
from counterpoise.cli.messages import format_as_options
from counterpoise.errors import (
    DataError,
    Message,
    OptionValue,
    Suggestion,
    finite,
    format_as_arguments,
    printable,
)

SPELLED = [
    (OptionValue("columns", {"amount": "drop"}), "--drop amount", 'columns={"amount": "drop"}'),
    (OptionValue("only", ["a b", "c"]), "--keep 'a b,c'", 'only=["a b", "c"]'),
    (OptionValue("only", ["it's"]), """--keep 'it'"'"'s'""", 'only=["it\'s"]'),
    (OptionValue("columns", {"é": "hash:9"}), "--hash 'é=9'", 'columns={"é": "hash:9"}'),
    (OptionValue("missing", "drop"), "--missing drop", 'missing="drop"'),
    (OptionValue("decimal", ","), "--decimal ','", 'decimal=","'),
    (OptionValue("time_format", "%d.%m.%Y"), "--time-format '%d.%m.%Y'", 'time_format="%d.%m.%Y"'),
    (OptionValue("feature_map", "a dir/m"), "--feature-map 'a dir/m'", 'feature_map="a dir/m"'),
    (OptionValue("allow_new_classes", True), "--allow-new-classes", "allow_new_classes=True"),
    (OptionValue("ridge", 0.5), "--ridge 0.5", "ridge=0.5"),
    (OptionValue("carry"), "--id", "carry"),
    (OptionValue("label"), "--label", "label"),
]


@pytest.mark.parametrize(("setting", "shell", "python"), SPELLED)
def test_a_setting_has_two_spellings(setting, shell, python):
    assert (format_as_options(setting), format_as_arguments(setting)) == (shell, python)


def test_a_message_is_a_problem_and_remedies():
    message = Message(
        ("t.csv: ", OptionValue("class_factors"), " names {} and {x}"),
        Suggestion("correct it"),
        Suggestion("name them all with {} if they come later", "classes"),
        Suggestion(
            "read them", "columns", {"at": "epoch"}, also=(OptionValue("time_format", "%d.%m"),)
        ),
    )
    assert message.format_with(format_as_options) == (
        "t.csv: --class-factor names {} and {x}; correct it, name them all with --classes if "
        "they come later, or read them with --epoch at --time-format '%d.%m'"
    )
    assert str(message.after("warning: ")) == (
        "warning: t.csv: class_factors names {} and {x}; correct it, name them all with classes "
        "if they "
        'come later, or read them with columns={"at": "epoch"}, time_format="%d.%m"'
    )


def test_an_error_goes_to_other_processes():
    error = DataError(
        ("no ", OptionValue("weight")), Suggestion("leave it out", "columns", {"a": "drop"})
    )
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) == 'no weight; leave it out with columns={"a": "drop"}'
    assert again.message.format_with(format_as_options) == "no --weight; leave it out with --drop a"
    assert str(DataError("only words")) == "only words"


def test_invisible_characters_and_infinite_numbers_are_replaced():
    assert printable("café \x1b[31m\n") == r"café \x1b[31m\n"
    assert finite({"offset": [1.5, float("-inf")]}) == {"offset": [1.5, None]}


LEDGER_COMMANDS = ("learn", "unlearn", "check", "model", "compare", "backtest", "drift", "rollup")
LEDGER_COMMANDS += ("drop", "inspect", "demo")
ROWS = "amount,country,fraud\n" + "1.5,DE,no\n2,FR,yes\n3,DE,no\n4,US,no\n" * 5


@pytest.fixture
def model(run, tmp_path):
    (tmp_path / "t.csv").write_text(ROWS)
    (tmp_path / "labels.csv").write_text("id,fraud\n1,no\n2,yes\n")
    run("learn", "t.csv", "--label", "fraud", "-m", "m.safetensors")
    return tmp_path / "m.safetensors"


LEARN = ["learn", "t.csv", "--label", "fraud", "-m", "new.safetensors"]
MISTAKES = [
    (["lern"], "unknown command 'lern'; did you mean 'learn'? Try 'counterpoise --help'"),
    (["xyz"], "unknown command 'xyz'; try 'counterpoise --help'"),
    (["ledger", "modl"], "unknown command 'modl'; did you mean 'model'? Try 'counterpoise ledger"),
    ([*LEARN, "--lable", "x"], "unknown option '--lable'; did you mean '--label'? Try '"),
    ([*LEARN, "--ridge"], "--ridge requires a value"),
    (["learn", "t.csv"], "missing --model"),
    (["predict", "m.safetensors"], "missing FILES"),
    (["learn", "t.csv", "-m", "x"], "missing --label; name the column that contains the class"),
    ([*LEARN, "--ridge", "-1"], "--ridge must be 0 or more, auto or gcv; got '-1'"),
    ([*LEARN, "--ridge", "nan"], "--ridge must be 0 or more, auto or gcv; got 'nan'"),
    ([*LEARN, "--pooled-rows", "x"], "--pooled-rows must be 0 or more, or none; got 'x'"),
    ([*LEARN, "--half-life", "7x"], "or a time such as 12h, 7d or 2w; got '7x'"),
    ([*LEARN, "--half-life", "0"], "--half-life must be a number of rows above 0, or a time"),
    ([*LEARN, "--class-factor", "yes"], "must be LABEL=FACTOR with factors above 0; got 'yes'"),
    ([*LEARN, "--class-weight", "yes=-1"], "LABEL=WEIGHT with weights above 0; got 'yes=-1'"),
    ([*LEARN, "--hash", "country=0"], "--hash must be COLUMN=N with N from 1 to 4,294,967,296"),
    ([*LEARN, "--scale", "minmax"], "--scale must be standard or none; got 'minmax'"),
    ([*LEARN, "--feature-map", "poly"], "--feature-map: 'poly' is not a feature map; use poly2"),
    ([*LEARN, "--chunk-rows", "0"], "--chunk-rows must be from 1 to 10,000,000; got 0"),
    ([*LEARN, "--seed", "x"], "--seed must be an integer; got 'x'"),
    ([*LEARN, "--class-factor", "yess=2"], "correct it (did you mean 'yes'?), or name all classes"),
    (["predict", "m.safetensors", "t.csv", "--threshold", "x"], "must be a number; got 'x'"),
    (["predict", "m.safetensors", "t.csv", "--id", "Country"], "named by --id; it has 'amount', "),
    (["predict", "m.safetensors", "t.csv", "--id", "Country"], "; did you mean 'country'?"),
    (["predict", "t.csv", "m.safetensors"], "t.csv is not a counterpoise model file, or it is "),
    (["predict", "t.csv", "m.safetensors"], "; are MODEL and FILES swapped?"),
    (["evaluate", "t.csv", "m.safetensors"], "; are MODEL and FILES swapped?"),
    (["unlearn", "t.csv", "m.safetensors"], "; are MODEL and FILES swapped?"),
    (["learn", ".", "--label", "y", "-m", "x"], ". is a folder; name the files in it"),
    (["benchmark", "t.csv", "--label", "fraud", "--only", "AROWW"], "; did you mean 'AROW'?"),
    (["ledger", "learn", "t.csv", "-l", "y"], "y does not exist, and creating it requires --label"),
    (["ledger", "learn", "t.csv", "-l", "y", "--label", "fraud", "--timestamp", "country"],
     "; correct it, choose another column with --timestamp, or give its format with --time-format"),
    (["predict", "m.safetensors", "t.csv", "--alerts-per-day", "5", "--timestamp", "country"],
     "31 23:59; correct it, or choose another column with --timestamp"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_a_mistake_is_one_line_that_says_what_to_do(run, model, arguments, message):
    done = run(*arguments, code=2)
    assert message in done.err
    assert done.err.startswith("counterpoise: ")
    assert done.err.count("\n") == 1
    assert not Path("new.safetensors").exists()


ABSENT_INPUT = [
    ["learn", "no.csv", "--label", "fraud", "-m", "x"],
    ["predict", "m.safetensors", "no.csv"],
    ["evaluate", "m.safetensors", "no.csv"],
    ["evaluate", "--predictions", "no.csv", "--labels", "labels.csv", "--id", "id"],
    ["benchmark", "no.csv", "--label", "fraud"],
    ["unlearn", "m.safetensors", "no.csv"],
    ["relabel", "m.safetensors", "no.csv", "--where", "amount=2", "--new-label", "no"],
    ["check", "no.csv", "--label", "fraud"],
    ["ledger", "learn", "no.csv", "-l", "y", "--label", "fraud", "--timestamp", "at"],
    ["ledger", "unlearn", "no.csv", "-l", "y"],
    ["predict", "no.csv", "t.csv"],
    ["evaluate", "no.csv", "t.csv"],
    ["inspect", "no.csv"],
    ["export", "no.csv"],
    ["merge", "no.csv", "m.safetensors", "-o", "x"],
    ["unlearn", "no.csv", "t.csv"],
    ["ledger", "inspect", "no.csv"],
    ["ledger", "model", "no.csv", "-o", "x"],
]


@pytest.mark.parametrize("arguments", ABSENT_INPUT)
def test_a_file_that_does_not_exist_has_one_message(run, model, arguments):
    done = run(*arguments, code=2)
    assert done.err == "counterpoise: cannot read no.csv: No such file or directory\n"
    assert done.out == ""


ABSENT_FOLDER = [
    ["learn", "t.csv", "--label", "fraud", "-m", "no/x"],
    ["learn", "t.csv", "--label", "fraud", "-m", "x", "--metrics", "no/x"],
    ["predict", "m.safetensors", "t.csv", "-o", "no/x.csv"],
    ["evaluate", "m.safetensors", "t.csv", "--report", "no/x.html"],
    ["export", "m.safetensors", "-o", "no/x.json"],
    ["merge", "m.safetensors", "m.safetensors", "-o", "no/x"],
    ["ledger", "learn", "t.csv", "-l", "no/x", "--label", "fraud", "--timestamp", "amount"],
]


@pytest.mark.parametrize("arguments", ABSENT_FOLDER)
def test_a_folder_that_does_not_exist_has_one_message(run, model, arguments):
    assert run(*arguments, code=2).err.endswith("counterpoise: folder no does not exist\n")


CLASS = "--positive: unknown class 'maybe' (classes: no, yes)"
UNKNOWN_CLASS = [
    LEARN,
    ["learn", "t.csv", "-m", "m.safetensors"],
    ["predict", "m.safetensors", "t.csv"],
    ["evaluate", "m.safetensors", "t.csv"],
    ["benchmark", "t.csv", "--label", "fraud"],
    ["merge", "m.safetensors", "m.safetensors", "-o", "x", "--allow-overlap"],
]


@pytest.mark.parametrize("arguments", UNKNOWN_CLASS)
def test_a_class_that_does_not_exist_has_one_message(run, model, arguments):
    before = model.read_bytes()
    assert CLASS in run(*arguments, "--positive", "maybe", code=2).err
    assert model.read_bytes() == before


def test_all_columns_that_a_table_does_not_have_are_named(run, model):
    Path("u.csv").write_text("fraud;amount\nno;1\n")
    err = run("predict", "m.safetensors", "u.csv", code=2).err
    assert "u.csv has no columns 'amount', 'country', which the model has learned" in err
    assert err.endswith("it has 'fraud;amount'; try --delimiter ';'\n")


def test_the_help_has_an_example_and_no_python_types(run, monkeypatch):
    """Read every help page at 80 columns: lines fit, and no option of Python is named."""
    monkeypatch.setenv("COLUMNS", "80")
    names = [[name] for name in COMMANDS] + [["ledger", one] for one in LEDGER_COMMANDS]
    for name in names:
        text = run(*name, "--help").out
        assert f"counterpoise {' '.join(name)} " in text.split("Example:", 1)[1], name
        assert not re.search(r"<(str|int|float|list)|\b(TEXT|INTEGER|FLOAT)\b", text), name
        assert not re.search(r" -m\b(?!,)| \w\.\w+\b", text.split("Arguments:")[0]), name
        assert max(map(len, text.splitlines())) <= 80, name
