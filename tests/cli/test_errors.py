"""Messages name settings, which Python and the command line spell."""

import pickle

import pytest

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
    assert message.spelled(format_as_options) == (
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
    assert again.message.spelled(format_as_options) == "no --weight; leave it out with --drop a"
    assert str(DataError("only words")) == "only words"


def test_invisible_characters_and_infinite_numbers_are_replaced():
    assert printable("café \x1b[31m\n") == r"café \x1b[31m\n"
    assert finite({"offset": [1.5, float("-inf")]}) == {"offset": [1.5, None]}
