"""Conditions of --where: which rows they select."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from builders import write_frame

from counterpoise.estimators.auto import wrap_engine
from counterpoise.tables.inspect import unique
from counterpoise.tables.model import TableModel
from counterpoise.tables.records import RowFilter, add_rows, contains, remove_rows
from counterpoise.tables.scoring import split_rows

LARGE = 2**53 + 1  # the next integer below is the same float


def payments(first, rows=40):
    """Payments of the customers ``first``, ``first - 1``, 5 and 6, in turn."""
    rng = np.random.default_rng(0)
    label = rng.random(rows) < 0.4
    customer = np.resize(np.array([first, first - 1, 5, 6], dtype=np.int64), rows)
    amount = rng.normal(size=rows) + label
    return pd.DataFrame(
        {"customer": customer, "amount": amount, "target": np.where(label, "y", "n")}
    )


@pytest.mark.slow
@pytest.mark.parametrize("options", [["--drop", "customer"], []], ids=["dropped", "learned"])
@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_integers_above_the_precision_of_floats_are_compared_as_integers(run, ending, options):
    table = payments(LARGE)
    path = write_frame(table, f"t.{ending}")
    run("learn", path, "--label", "target", "-m", "m.st", *options)
    done = run("unlearn", "m.st", path, "--where", f"customer={LARGE}")
    assert "10 rows unlearned" in done.err
    left = write_frame(table[table.customer != LARGE], f"t.{ending}")
    run("learn", left, "--label", "target", "-m", "left.st", *options)
    one, two = (
        wrap_engine(TableModel.load("m.st").model),
        wrap_engine(TableModel.load("left.st").model),
    )
    np.testing.assert_array_equal(one.class_count_, two.class_count_)
    if options:  # ids of about 1e16 as a feature leave no digits to compare
        np.testing.assert_allclose(one.coef_, two.coef_, rtol=1e-9)  # equal to rounding


@pytest.mark.parametrize(
    ("kind", "values", "value", "expected"),
    [
        (pa.int64(), [LARGE, LARGE - 1, None], str(LARGE), [True, False, False]),
        (pa.uint64(), [2**64 - 1, 2**63, 5], str(2**64 - 1), [True, False, False]),
        (pa.int64(), [5, 6, -5], "5.0", [True, False, False]),
        (pa.int64(), [5, 6, -5], "5.5", [False] * 3),
        (pa.int64(), [5, 6, -5], str(2**70), [False] * 3),
        (pa.uint64(), [5, 6, 7], "-5", [False] * 3),
        (pa.int64(), [5, 6, 7], "five", [False] * 3),
        (pa.float64(), [0.5, 5.0, None], "5", [False, True, False]),
        (pa.string(), ["5", "5.0", None], "5", [True, False, False]),
        (pa.bool_(), [True, False, None], "true", [True, False, False]),
    ],
)
def test_a_value_is_compared_by_the_type_of_its_column(kind, values, value, expected):
    rows = RowFilter({"id": (value,)}).match({"id": pa.array(values, kind)}, 3)
    assert rows.tolist() == expected


def test_all_conditions_must_hold_also_those_on_one_column(run):
    path = write_frame(payments(7), "t.csv")
    run("learn", path, "--label", "target", "-m", "m.st")
    before = wrap_engine(TableModel.load("m.st").model).coef_
    two = ["--where", "customer=5", "--where", "customer=6"]
    assert "0 rows unlearned" in run("unlearn", "m.st", path, *two).err
    np.testing.assert_array_equal(before, wrap_engine(TableModel.load("m.st").model).coef_)
    same = ["--where", "customer=5", "--where", "customer=5.0"]
    assert "10 rows unlearned" in run("unlearn", "m.st", path, *same).err


def test_ranges_of_rows_are_parsed():
    assert contains(((2, 4), (7, 8)), np.arange(8)).nonzero()[0].tolist() == [2, 3, 7]
    assert add_rows(((2, 4), (7, 8)), [4, 0]) == ((0, 1), (2, 5), (7, 8))
    assert remove_rows(((0, 4), (7, 8)), [2, 7]) == ((0, 2), (3, 4))


def test_first_rows_are_learned_in_parts_not_longer_than_what_precedes_them():
    ends = [(part.start, part.stop) for part in split_rows(0, 600, 300)]
    assert ends == [(0, 256), (256, 512), (512, 600)]


def test_names_of_features_are_unique():
    """The category "b=c" of a column "a" and the category "c" of a column "a=b" share one."""
    names = ["a=b=c", "d", "a=b=c (2)", "a=b=c (2) (2)"]
    assert unique(["a=b=c", "d", "a=b=c", "a=b=c (2)"]) == names


@pytest.fixture
def run_on_six(run):
    """Run a command next to the model m.st of six inputs."""
    for name in ("one", "a", "b", "c", "d", "e"):
        write_frame(payments(9).assign(amount=float(ord(name[0]))), f"{name}.csv")
    options = ("--label", "target", "--drop", "customer", "-m", "m.st", "--allow-overlap")
    run("learn", "one.csv", *(f"{name}.csv" for name in "abcde"), *options)
    return run


def test_a_condition_that_no_row_meets_warns(run_on_six):
    for command in (("unlearn",), ("relabel", "--new-label", "y")):
        words = (command[0], "m.st", "one.csv", "--where", "customer=99", *command[1:])
        assert "row has customer '99'" in run_on_six(*words).err
        run_on_six(*words, "--strict", code=3)
    for _ in range(2):  # rows that were unlearned before meet it, too
        done = run_on_six("unlearn", "m.st", "one.csv", "--where", "customer=9", "--strict")
        assert "row has" not in done.err
    both = ("--where", "customer=5", "--where", "customer=6")
    done = run_on_six("unlearn", "m.st", "one.csv", *both)
    assert "warning: no examined row has customer '5' and customer '6'" in done.err


def test_inputs_are_listed_by_name_and_at_most_four(run_on_six):
    write_frame(payments(50).assign(amount=1.5), "f.csv")
    done = run_on_six("unlearn", "m.st", "f.csv", code=2)
    assert "learned inputs are one.csv, a.csv, b.csv, c.csv and 2 more" in done.err
    where = ("--where", "customer=9")
    done = run_on_six("unlearn", "m.st", "one.csv", *where)
    assert "5 learned inputs that were not named: a.csv, b.csv, c.csv, d.csv and 1 more" in done.err
    done = run_on_six("unlearn", "m.st", "one.csv", *(f"{name}.csv" for name in "abcd"), *where)
    assert "not examined: 1 learned input that was not named: e.csv" in done.err
