"""A message names settings; whoever shows it spells them."""

import pickle

import pytest

from counterpoise.cli.words import in_shell
from counterpoise.errors import DataError, Message, Remedy, Setting, in_python

SPELLED = [
    (Setting("drop", ["amount"]), "--drop amount", 'drop=["amount"]'),
    (Setting("drop", ["a b", "c"]), "--drop 'a b,c'", 'drop=["a b", "c"]'),
    (Setting("drop", ["it's"]), """--drop 'it'"'"'s'""", 'drop=["it\'s"]'),
    (Setting("hashed", {"é t": 256}), "--hash 'é t=256'", 'hashed={"é t": 256}'),
    (Setting("missing", "drop"), "--missing drop", 'missing="drop"'),
    (Setting("decimal", ","), "--decimal ','", 'decimal=","'),
    (Setting("time_format", "%d.%m.%Y"), "--time-format '%d.%m.%Y'", 'time_format="%d.%m.%Y"'),
    (Setting("features", "a dir/m"), "--features 'a dir/m'", 'features="a dir/m"'),
    (Setting("new_class", True), "--new-class", "new_class=True"),
    (Setting("ridge", 0.5), "--ridge 0.5", "ridge=0.5"),
    (Setting("carry"), "--id", "carry"),
    (Setting("label"), "--label COLUMN", "label"),
]


@pytest.mark.parametrize(("setting", "shell", "python"), SPELLED)
def test_a_setting_has_two_spellings(setting, shell, python):
    assert (in_shell(setting), in_python(setting)) == (shell, python)


def test_a_message_is_a_problem_and_remedies():
    message = Message(
        ("t.csv: ", Setting("costs"), " names {} and {x}"),
        Remedy("correct it"),
        Remedy("name them all with {} if they come later", "classes"),
        Remedy("read them", "time", ["at"], also=(Setting("time_format", "%d.%m"),)),
    )
    assert message.spelled(in_shell) == (
        "t.csv: --cost names {} and {x}; correct it, name them all with --classes if they come "
        "later, or read them with --time at --time-format '%d.%m'"
    )
    assert str(message.after("warning: ")) == (
        "warning: t.csv: costs names {} and {x}; correct it, name them all with classes if they "
        'come later, or read them with time=["at"], time_format="%d.%m"'
    )


def test_an_error_goes_to_other_processes():
    error = DataError(("no ", Setting("weight")), Remedy("leave it out", "drop", ["a"]))
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error) == 'no weight; leave it out with drop=["a"]'
    assert again.message.spelled(in_shell) == "no --weight; leave it out with --drop a"
    assert str(DataError("only words")) == "only words"


def test_spark_has_names_of_its_own():
    frames = pytest.importorskip("counterpoise.spark.frames")
    settings = Setting("keep", ["a"]), Setting("features", "rm2"), Setting("missing", "drop")
    assert frames.in_spark(*settings) == 'features=["a"], feature_map="rm2", missing="drop"'
