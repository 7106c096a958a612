"""The commands of a ledger print what its methods return, and write files for other programs."""

import json
import sqlite3

import numpy as np
import pytest

from counterpoise import Ledger

LEARN = (
    "payments-1.csv", "payments-2.csv", "-l", "y", "--allow-new-columns", "--label", "fraud",
    "--timestamp", "at",
)  # fmt: skip


@pytest.fixture
def year(run):
    """A ledger of the made-up year, in the folder where commands run."""
    run("ledger", "demo")
    return run("ledger", "learn", *LEARN, "--by", "country")


@pytest.mark.slow
def test_a_year_is_learned_once_and_asked(year, run, tmp_path):
    assert "366 buckets, 3,058 cells, fraud: 4,290, ok: 131,848" in year.err
    again = run("ledger", "learn", *LEARN[:4])
    assert "payments-1.csv: nothing new" in again.err
    with Ledger.open(tmp_path / "y") as ledger:
        shown = json.loads(run("ledger", "inspect", "y", "--json").out)
        assert shown == json.loads(json.dumps(ledger.summary()))
        assert "payments-2.csv\t72264" in run("ledger", "inspect", "y").out

        run("ledger", "model", "y", "--since", "2024-07-01", "--where", "country=DE,NO",
            "--exclude", "2024-08-01,2024-10-01..2024-11-01", "--half-life", "30d", "-o", "m",
            "--ridge", "0.1")  # fmt: skip
        model = ledger.model(
            since="2024-07-01", where={"country": ["DE", "NO"]}, half_life=30, ridge=0.1,
            exclude=["2024-08-01", ("2024-10-01", "2024-11-01")],
        )  # fmt: skip
        found = json.loads(run("inspect", "m", "--json").out)
        assert found["classes"] == dict(
            zip(model.classes_.tolist(), model.class_count_.tolist(), strict=True)
        )
        said = run("predict", "m", "payments-2.csv", "--output-format", "jsonl", "--positive",
                   model.classes_[1]).out.splitlines()  # fmt: skip
        X, _ = ledger.encode(tmp_path / "payments-2.csv", model)
        scores = model.decision_function(X[:50])
        assert np.allclose([json.loads(one)["score"] for one in said[:50]], scores, atol=1e-9)

        a, b = ["--a", "until=2024-09-02"], ["--b", "since=2024-09-02", "--b", "country!=NO"]
        out = json.loads(run("ledger", "compare", "y", *a, *b, "--json").out)
        wanted = ledger.compare(
            {"until": "2024-09-02"}, {"since": "2024-09-02", "where": {"country": {"not": "NO"}}}
        )
        assert out["loss"] == wanted.loss.tolist()
        assert "ok\tage\t-0.9" in run("ledger", "compare", "y", *a, *b).out

        ways = ["--train", "30,all", "--half-life", "none,7d", "--ridge", "auto,1"]
        out = json.loads(run("ledger", "backtest", "y", *ways, "--json").out)
        wanted = ledger.backtest(train=[30, None], half_life=[None, 7], ridge=["auto", 1.0])
        assert [one["loss"] for one in out["settings"]] == wanted.total[:, 0].tolist()
        table = run("ledger", "backtest", "y", *ways).out.splitlines()
        assert table[1].split("\t")[0] == wanted.best.name

        report = ["--report", "page.html"]
        drift = run("ledger", "drift", "y", *report)
        assert "2024-09-02\t" in drift.out
        assert "ok: age (-" in drift.out
        text = (tmp_path / "page.html").read_text()
        for title in ("Loss and G-mean by bucket", "Shift of the features", "Weights over time",
                      "Backtest"):  # fmt: skip
            assert f"<h2>{title}</h2>" in text
        assert text.count("data:image/svg+xml") == 8  # light and dark


@pytest.mark.slow
def test_old_buckets_are_merged_dropped_and_unlearned(year, run, tmp_path):
    assert "left" in run("ledger", "rollup", "y", "--until", "2024-04-15").err
    assert run("ledger", "drop", "y", "--until", "2024-02-01").code == 0
    assert "72,264 rows unlearned" in run("ledger", "unlearn", "payments-2.csv", "-l", "y").err
    with sqlite3.connect(tmp_path / "y") as base:
        starts = {row[0] for row in base.execute("SELECT start FROM cells")}
    base.close()
    assert min(starts) == 1_706_745_600  # 1 February


@pytest.mark.slow
def test_each_segment_gets_a_file(year, run, tmp_path):
    run("ledger", "model", "y", "--by", "country", "--share-of-all", "0.01", "-o", "m-{}")
    names = sorted(path.name for path in tmp_path.glob("m-*"))
    assert names == ["m-DE", "m-FR", "m-NL", "m-NO", "m-US"]
    done = run("ledger", "model", "y", "--by", "country", "-o", "m", code=2)
    assert "--output with --by must contain {}" in done.err


@pytest.mark.slow
def test_every_segment_gets_a_file_of_its_own(run, tmp_path):
    towns = ["C+", "C#", "C_", "C,", "", "None", "..", "a/b", "a%2Fb", "å"]
    rows = [
        f'2024-01-0{1 + i % 3},"{town}",{"x" if i % 2 else ""},{i},{i % 2}'
        for i in range(8)
        for town in towns
    ]
    text = "\n".join(["at,town,side,v,y", *rows, ""])
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    run(
        "ledger",
        "learn",
        "t.csv",
        "-l",
        "l",
        "--label",
        "y",
        "--timestamp",
        "at",
        "--by",
        "town,side",
    )
    run("ledger", "model", "l", "--by", "town", "-o", "one-{}")
    with Ledger.open(tmp_path / "l") as ledger:
        models = ledger.models(by="town")
    assert len(models) == len(towns)
    names = {path.name for path in tmp_path.glob("one-*")}
    assert len(names) == len(towns)
    assert {"one-C%2B", "one-(missing)", "one-None", "one-%2E%2E", "one-a%252Fb", "one-å"} <= names
    for town, model in models.items():
        if town == "a/b":
            found = json.loads(run("inspect", "one-a%2Fb", "--json").out)
            assert list(found["classes"].values()) == model.class_count_.tolist()
    (tmp_path / "long.csv").write_text(text.replace("C+", "C" * 300), encoding="utf-8")
    run(
        "ledger",
        "learn",
        "long.csv",
        "-l",
        "k",
        "--label",
        "y",
        "--timestamp",
        "at",
        "--by",
        "town",
    )
    said = run("ledger", "model", "k", "--by", "town", "-o", "two-{}", code=2).err
    assert "is too long for the name of a file" in said
    assert not list(tmp_path.glob("two-*"))


def test_a_new_column_needs_the_option_that_learn_has(run, tmp_path):
    (tmp_path / "a.csv").write_text("at,x,y\n2024-01-01,1,0\n2024-01-02,2,1\n")
    (tmp_path / "b.csv").write_text("at,x,z,y\n2024-01-03,3,7,0\n2024-01-04,4,9,1\n")
    keys = ["-l", "l", "--label", "y", "--timestamp", "at"]
    run("ledger", "learn", "a.csv", *keys)
    before = (tmp_path / "l").read_bytes()
    done = run("ledger", "learn", "b.csv", "-l", "l", code=2)
    assert "b.csv has column 'z', which earlier files do not have" in done.err
    assert "--allow-new-columns" in done.err
    with Ledger.open(tmp_path / "l") as ledger:
        assert ledger.features == ["x"]
    assert len((tmp_path / "l").read_bytes()) == len(before)
    done = run("ledger", "learn", "b.csv", "-l", "l", "--allow-new-columns")
    assert "column 'z' is new, and 0 in all earlier rows" in done.err
    (tmp_path / "c.csv").write_text("at,x,y\n2024-01-05,5,0\n2024-01-06,6,1\n")
    done = run("ledger", "learn", "c.csv", "-l", "l", code=2)
    assert "c.csv has no column 'z'" in done.err


def test_a_backtest_of_all_buckets_needs_no_thirty_of_them(run, tmp_path):
    rows = [f"2024-01-{1 + i // 4:02d},{i % 7},{i % 2}" for i in range(48)]
    (tmp_path / "t.csv").write_text("\n".join(["at,x,y", *rows, ""]))
    run("ledger", "learn", "t.csv", "-l", "l", "--label", "y", "--timestamp", "at")
    done = run("ledger", "backtest", "l", "--train", "all", "--json")
    assert len(json.loads(done.out)["buckets"]) == 6


PEOPLE = "at,who,x,y\n" + "".join(
    f"2024-01-{1 + i // 8:02d},{i % 5},{i * i % 11},{i % 3 % 2}\n" for i in range(80)
)


def test_rows_that_meet_a_condition_are_unlearned_once(run, tmp_path):
    keys = ["--label", "y", "--timestamp", "at", "--drop", "who"]
    (tmp_path / "t.csv").write_text(PEOPLE)
    others = [line for line in PEOPLE.splitlines() if line.split(",")[1] != "3"]
    (tmp_path / "others.csv").write_text("\n".join([*others, ""]))
    run("ledger", "learn", "t.csv", "-l", "l", *keys)
    run("ledger", "learn", "others.csv", "-l", "fresh", *keys)
    done = run("ledger", "unlearn", "t.csv", "-l", "l", "--where", "who=3")
    assert "t.csv: 16 rows unlearned" in done.err
    assert "t.csv: 0 rows" in run("ledger", "unlearn", "t.csv", "-l", "l", "--where", "who=3").err
    with Ledger.open(tmp_path / "l") as ledger, Ledger.open(tmp_path / "fresh") as fresh:
        assert ledger.check() == fresh.check()
        one, two = ledger.model(), fresh.model()
        assert one.class_count_.tolist() == two.class_count_.tolist()
        assert np.allclose(one.coef_, two.coef_, rtol=1e-9)
        assert ledger.learn(tmp_path / "t.csv") == 0
        assert ledger.unlearn(tmp_path / "t.csv", where={"who": 4, "y": 1}) > 0
        with pytest.raises(ValueError, match="has no column 'town', named by where"):
            ledger.unlearn(tmp_path / "t.csv", where={"town": "x"})
        left = ledger.summary()["rows"]
        assert ledger.unlearn(tmp_path / "t.csv") == left  # those that are left, each once
        assert ledger.records == {}
        assert ledger.summary()["cells"] == 0


def test_rows_of_dropped_buckets_are_not_unlearned_again(run, tmp_path):
    (tmp_path / "t.csv").write_text(PEOPLE)
    run("ledger", "learn", "t.csv", "-l", "l", "--label", "y", "--timestamp", "at")
    run("ledger", "drop", "l", "--until", "2024-01-04")
    done = run("ledger", "unlearn", "t.csv", "-l", "l", "--where", "who=3")
    assert "t.csv: 11 rows unlearned" in done.err
    (tmp_path / "t.csv").write_text(PEOPLE.replace("1,1\n", "2,1\n"))
    before = (tmp_path / "l").read_bytes()
    assert "changed" in run("ledger", "unlearn", "t.csv", "-l", "l", code=2).err
    assert len((tmp_path / "l").read_bytes()) == len(before)


@pytest.mark.parametrize(
    ("given", "code", "message"),
    [
        (["model", "none", "-o", "m"], 2, "cannot read none: No such file"),
        (["model", "y", "-o", "m", "--since", "soon"], 2, "--since must be a date or time"),
        (["model", "y", "-o", "m", "--where", "country"], 2, "must be COLUMN=VALUES"),
        (["model", "y", "-o", "m", "--since", "2026-01-01"], 2, "the selection is empty"),
        (["backtest", "y", "--train", "x"], 2, "--train must be a number of buckets or all"),
        (["backtest", "y", "--ridge", "x"], 2, "--ridge must be 0 or more, or auto; got 'x'"),
        (["drift", "y", "--level", "7"], 2, "--level must be between 0 and 0.5; got 7.0"),
        (["drift", "y", "--report", "no/p.html"], 2, "folder no does not exist"),
        (
            ["rollup", "y", "--until", "2024-02-01", "--every", "decade"],
            2,
            "--every must be minute, hour, day, week, month, quarter or year; got 'decade'",
        ),
        (["learn", "t.csv", "-l", "z", "--label", "y"], 2, "creating it requires --timestamp"),
        (["learn", "t.csv", "-l", "y", "--every", "hour"], 2, "--every is hour, but y has day"),
    ],
)
def test_bad_use_is_told_in_one_line(run, tmp_path, given, code, message):
    (tmp_path / "t.csv").write_text("at,x,y\n2024-01-01,1,0\n2024-01-02,2,1\n")
    run("ledger", "learn", "t.csv", "-l", "y", "--label", "y", "--timestamp", "at")
    before = (tmp_path / "y").read_bytes()
    done = run("ledger", *given, code=code)
    assert message in " ".join(done.err.split())
    assert (tmp_path / "y").read_bytes() == before
