"""Dates and times: the same seconds in every unit, format and year."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from counterpoise import BalancedRidgeClassifier, TableClassifier
from counterpoise.encoding import cell_parsing
from counterpoise.ledger.time_buckets import text

UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
YEARS = (1, 1000, 1677, 1969, 2024, 2255, 2256, 2263, 9999)


def rows_with_dates(years, rows=45):
    """Rows with a date as text, a number and a label."""
    rng = np.random.default_rng(0)
    label = rng.random(rows) < 0.4
    at = [f"{year:04d}-12-31 12:30:{row:02d}" for row, year in enumerate(np.resize(years, rows))]
    columns = {"at": at, "x": rng.normal(size=rows) + label, "y": np.where(label, "y", "n")}
    return pd.DataFrame(columns)


def write(frame, unit):
    """Write rows as CSV, or as Parquet with times in a unit; return the path."""
    if unit == "csv":
        frame.to_csv("t.csv", index=False)
        return "t.csv"
    columns = {name: pa.array(frame[name].tolist()) for name in frame}
    columns["at"] = columns["at"].cast(pa.timestamp(unit))
    pa.parquet.write_table(pa.table(columns), "t.parquet", version="2.6")
    return "t.parquet"


@pytest.mark.parametrize("fine", ["ms", "us", "ns"])
def test_a_time_has_the_same_seconds_in_a_finer_unit(fine):
    units = list(UNITS)
    coarse = units[units.index(fine) - 1]
    rng = np.random.default_rng(0)
    most = 2**63 // UNITS["ns"] * UNITS[coarse] - 1
    count = np.concatenate([rng.integers(-most, most, 10_000), np.arange(-2000, 2000)])
    finer = count * (UNITS[fine] // UNITS[coarse])
    for kind in (pa.timestamp, pa.duration):
        one, two = pa.array(count).cast(kind(coarse)), pa.array(finer).cast(kind(fine))
        np.testing.assert_array_equal(cell_parsing.seconds_of(one), cell_parsing.seconds_of(two))
    expected = [seconds / UNITS[coarse] for seconds in count.tolist()]  # rounded once
    np.testing.assert_allclose(
        cell_parsing.seconds_of(one), expected, rtol=2**-52
    )  # one more rounding


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["csv", "s", "ms", "us", "ns"])
def test_all_commands_read_the_years_that_a_unit_can_represent(run, unit):
    years = [year for year in YEARS if unit != "ns" or 1677 < year < 2263]
    frame = rows_with_dates(years)
    plain, path = write(frame, "csv"), write(frame, unit)
    options = ["--label", "y", "-m"]
    run("learn", plain, *options, "plain.st")
    run("learn", path, *options, "m.st")
    assert run("predict", "m.st", path).out == run("predict", "plain.st", plain).out
    assert run("predict", "plain.st", path).out == run("predict", "plain.st", plain).out
    assert "0 problems" in run("check", path, "--label", "y").err
    clock = ["--half-life", "7d", "--timestamp", "at", "--allow-future"]
    run("learn", path, *options, "decayed.st", *clock)
    ledger = ["-l", "l.ledger", "--label", "y", "--timestamp", "at", "--every", "year"]
    done = run("ledger", "learn", path, *ledger)
    assert f"{len(years)} buckets" in done.err
    assert f"since\t{min(years):04d}-01-01" in run("ledger", "inspect", "l.ledger").out


def test_a_bucket_may_end_after_the_last_year():
    assert text(253_402_300_800) == "10000-01-01"
    assert text(-62_135_596_800) == "0001-01-01"
    assert text(1_704_067_200 + 45_000) == "2024-01-01 12:30"


@pytest.mark.parametrize("fraction", ["", ".5", ".123456", ".123456789", ".123456789Z"])
def test_text_may_have_any_fraction_of_a_second(fraction):
    frame = rows_with_dates([2024])
    at = frame["at"] + fraction
    kind = pa.timestamp("ns", "UTC" if fraction.endswith("Z") else None)
    typed_column = pa.array(at.tolist()).cast(kind)
    one = TableClassifier().fit({**frame, "at": at}, "y")
    two = TableClassifier().fit({**frame, "at": typed_column}, "y")
    np.testing.assert_array_equal(one.estimator_.coef_, two.estimator_.coef_)


@pytest.mark.parametrize("unit", UNITS)
def test_rows_decay_by_a_clock_in_any_unit(unit):
    frame = rows_with_dates([2023, 2024])
    model = TableClassifier(BalancedRidgeClassifier(half_life="300d"), columns={"at": "timestamp"})
    expected = model.fit(frame, "y").estimator_.coef_
    frame["at"] = pd.to_datetime(frame["at"]).astype(f"datetime64[{unit}]")
    np.testing.assert_array_equal(model.fit(frame, "y").estimator_.coef_, expected)


@pytest.mark.parametrize("command", ["learn", "predict", "check", "ledger learn"])
@pytest.mark.parametrize("cell", ["soon", "10000-01-01", "2024-02-30"])
def test_a_bad_date_is_named_by_file_row_and_column(run, command, cell):
    frame = rows_with_dates(YEARS)
    frame.to_csv("t.csv", index=False)
    bad = pd.concat([frame["at"][:2], pd.Series([cell]), frame["at"][3:]], ignore_index=True)
    frame.assign(at=bad).to_csv("bad.csv", index=False)
    options = {
        "learn": ["bad.csv", "--label", "y", "--datetime", "at", "-m", "bad.st"],
        "predict": ["m.st", "bad.csv"],
        "check": ["bad.csv", "--label", "y", "--datetime", "at"],
        "ledger learn": ["bad.csv", "-l", "bad.ledger", "--label", "y", "--timestamp", "at"],
    }[command]
    if command == "predict":
        run("learn", "t.csv", "--label", "y", "-m", "m.st")
    done = run(*command.split(), *options, code=1 if command == "check" else 2)
    message = f"bad.csv, row 3: column 'at' contains '{cell}', which is not a date or time like"
    assert message in (done.out if command == "check" else done.err)


@pytest.mark.parametrize(
    ("first", "second"),
    [("us", "s"), ("us", "ms"), ("ns", "us"), ("s", "us"), ("date", "s"), ("us zone", "us")],
)
def test_pieces_may_have_times_in_other_units(first, second):
    frame = rows_with_dates([2024])
    at = pd.to_datetime(frame["at"]).dt.floor("D")

    def convert_times(rows, unit):
        if unit == "date":
            return frame[rows].assign(at=at[rows].dt.date)
        zone = ", UTC" if unit.endswith("zone") else ""
        times = at[rows].astype(f"datetime64[{unit.split()[0]}]")
        return frame[rows].assign(at=times.dt.tz_localize("UTC") if zone else times)

    pieces = [convert_times(slice(0, 20), first), convert_times(slice(20, None), second)]
    found = TableClassifier().fit(pieces, "y").estimator_.coef_
    expected = TableClassifier().fit(frame.assign(at=at), "y").estimator_.coef_
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("case", ["finer", "later", "durations"])
def test_pieces_whose_times_would_change_are_refused(case):
    frame = rows_with_dates([2024])
    at = pd.to_datetime(frame["at"])
    one, two = {
        "finer": (at.astype("datetime64[s]"), at + pd.Timedelta("1ms")),
        "later": (at.astype("datetime64[ns]"), at.dt.as_unit("s") + pd.Timedelta(days=365_000)),
        "durations": (at, at - at[0]),
    }[case]
    with pytest.raises(
        ValueError, match=r"column 'at' contains values of type .* convert it to what"
    ):
        TableClassifier().fit([frame.assign(at=one), frame.assign(at=two)], "y")


def test_a_format_is_for_columns_with_a_role_and_others_are_iso():
    frame = rows_with_dates((2024,))
    local = frame.assign(since=["05.08.2017", "07.05.2008", "28.02.1999"] * 15)
    iso = frame.assign(since=["2017-08-05", "2008-05-07", "1999-02-28"] * 15)
    model = TableClassifier(columns={"since": "datetime"}, time_format="%d.%m.%Y").fit(local, "y")
    same = TableClassifier().fit(iso, "y")
    assert model.get_feature_names_out().tolist() == same.get_feature_names_out().tolist()
    assert (model.decision_function(local) == same.decision_function(iso)).all()
