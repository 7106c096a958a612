"""The registry, prepared files, and the way from raw files to them."""

import bz2
import gzip
import os
import re
from pathlib import Path

import numpy as np
import pytest
from builders import data_set
from paper import data, datasets
from paper.datasets import SETS, VARIABLE, find, load
from paper.datasets.prepare import encode_raw_files

RAW = [one for one in SETS.values() if one.raw]


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run ``python -m paper data`` in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments, code=0):
        assert data.main(list(arguments)) == code
        return capsys.readouterr()

    return call


@pytest.fixture
def nowhere(monkeypatch, tmp_path):
    """No prepared file anywhere."""
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def number(value):
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def raw_files(one, folder, X, y):
    """Write the public raw files from the prepared rows."""
    raw = one.raw
    if raw.separator == "libsvm":
        cut = 49_990 if one.name == "ijcnn1" else len(X)
        for file, part in zip(raw.files, (slice(0, cut), slice(cut, None)), strict=False):
            lines = []
            for x, label in zip(X[part].tolist(), y[part].tolist(), strict=True):
                entries = " ".join(f"{j + 1}:{number(v)}" for j, v in enumerate(x) if v)
                lines.append(f"{'+1' if label > 0 else '-1'} {entries}")
            (folder / file).write_text("\n".join(lines) + "\n")
        return
    width = one.dimension + 1 + len(raw.drop)
    label_at = raw.label % width
    dropped = {j % width for j in raw.drop}
    features = [j for j in range(width) if j != label_at and j not in dropped]
    back = {value: code for code, value in raw.codes.items()}
    letters = "abcdefghijklmnopqrstuvwxyz"
    lines = []
    for x, label in zip(X.tolist(), y.tolist(), strict=True):
        fields = ["?"] * width
        for j in dropped:
            fields[j] = "some name"
        for value, j in zip(x, features, strict=True):
            coded = letters[int(value)] if j in raw.categories else back.get(value, number(value))
            fields[j] = coded
        other = {"1": "0", "2": "1", "4": "2"}.get(raw.positive, "other")
        # Some pages write 1. or pad with spaces.
        ending = "." if one.name in ("musk-clean-1", "ozone-one", "ozone-eight") else ""
        fields[label_at] = (raw.positive if label > 0 else other) + ending
        lines.append((raw.separator or " ").join(f.replace(" ", "_") for f in fields))
    if raw.missing == "drop":  # rows with a missing value, which must go
        gone = lines[0].split(raw.separator)
        gone[features[-1]] = "?"
        lines.insert(1, raw.separator.join(gone))
    head = [",".join(f'"name {j}"' for j in range(width))] if raw.header else []
    if len(raw.files) == 2:
        (folder / raw.files[0]).write_text("\n".join(lines[:80]) + "\n")
        (folder / raw.files[1]).write_text("\n".join(lines[80:]) + "\n")
    else:
        (folder / raw.files[0]).write_text("\r\n".join([*head, *lines]) + "\r\n\r\n")


def test_the_registry_is_the_papers_table():
    rows = (Path(__file__).parents[2] / "paper" / "printed" / "table2.csv").read_text()
    for line, one in zip(rows.splitlines()[1:], SETS.values(), strict=True):
        no, title, size, dimension, _ = line.split(",")
        assert (one.number, one.title, one.dimension) == (int(no), title, int(dimension))
        # The 20 Newsgroups stand-ins have a few rows more or less.
        assert one.size == int(size) or one.raw is None


@pytest.mark.parametrize("name", SETS)
def test_prepared_files_are_the_registered_ones(name):
    X, y = data_set(name)
    one = SETS[name]
    assert X.shape == (one.size, one.dimension)
    assert ((y > 0).sum(), (y < 0).sum()) == (one.positives, one.negatives)
    assert np.isfinite(X).all()


@pytest.mark.slow
@pytest.mark.parametrize("one", RAW, ids=lambda one: one.name)
def test_raw_files_become_the_prepared_one(one, tmp_path, run, monkeypatch):
    if one.size > 200_000:
        pytest.skip("the same reader as for ijcnn1 and german; its size is the only difference")
    X, y = data_set(one.name)
    raw = tmp_path / "raw" / "unpacked here"
    raw.mkdir(parents=True)
    raw_files(one, raw, X, y)
    said = run("prepare", "raw", "--output", "made").err
    assert f"{one.name}.csv.gz: {one.size:,} rows of {one.dimension} features" in said
    monkeypatch.setenv(VARIABLE, str(tmp_path / "made"))
    again, labels = load(one.name)
    assert (again == X).all()
    assert (labels == y).all()


@pytest.mark.slow
def test_compressed_raw_files_are_read_and_the_result_is_the_same_bytes(tmp_path, run):
    one = SETS["sonar"]
    X, y = data_set("sonar")
    raw_files(one, tmp_path, X, y)
    text = (tmp_path / "sonar.all-data").read_bytes()
    for folder, suffix, pack in (
        ("a", "", bytes),
        ("b", ".gz", gzip.compress),
        ("c", ".bz2", bz2.compress),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"sonar.all-data{suffix}").write_bytes(pack(text))
        run("prepare", folder, "sonar", "--output", f"{folder}-out")
    made = {(tmp_path / f"{k}-out" / "sonar.csv.gz").read_bytes() for k in "abc"}
    assert len(made) == 1


def test_without_a_file_it_says_what_to_put_where(nowhere, run):
    with pytest.raises(FileNotFoundError) as error:
        load("ijcnn1")
    for word in ("ijcnn1 and ijcnn1.t", "LIBSVM", "python -m paper data prepare DIR", VARIABLE):
        assert word in str(error.value)
    with pytest.raises(FileNotFoundError, match="put a copy of the prepared file"):
        load("20news-sci")
    assert "no: fetch clean1.data" in run("show", "musk-clean-1").out
    table = run("list").out.splitlines()
    assert len(table) == 32
    assert table[1].split("\t") == ["1", "monks-3", "122", "6", "0.968", "no"]


def test_unknown_names_and_folders_are_refused(nowhere, run):
    assert "not one of the paper's data sets: monks-3" in run("show", "mnist", code=2).err
    assert "is not a folder" in run("prepare", "absent", code=2).err
    (nowhere / "empty").mkdir()
    assert "contains the raw files of no set" in run("prepare", "empty", code=1).err
    assert "bupa.data not found" in run("prepare", "empty", "bupa-liver", code=1).err
    assert "no public raw file" in run("prepare", "empty", "20news-sci", code=2).err


def bupa(rows):
    return "".join(",".join(map(str, row)) + "\n" for row in rows)


GOOD = [[85, 92, 45, 27, 31, 0.0, 1], [85, 64, 59, 32, 23, 0.0, 2]]


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([], "the raw files contain no row"),
        (GOOD, "2 rows of 6 features, but bupa-liver has 345 rows of 6"),
        ([GOOD[0], GOOD[1][:4]], "line 2: the number of fields is not 7"),
        ([row[:5] for row in GOOD], "line 1: 5 fields, but bupa-liver has 7"),
        ([GOOD[0], ["x", *GOOD[1][1:]]], "line 2, field 1: 'x' is not a number"),
        ([*GOOD, [*GOOD[0][:6], 3]], "labels 1, 3 and 2"),
    ],
)
def test_strange_raw_files_are_refused_and_nothing_is_written(rows, says, nowhere, run):
    (nowhere / "bupa.data").write_text(bupa(rows))
    assert says in run("prepare", ".", "--output", "out", code=2).err
    assert not (nowhere / "out").exists()


@pytest.mark.parametrize(
    ("suffix", "content", "says"),
    [
        (".xz", b"no xz", "cannot be decompressed"),
        (
            ".gz",
            gzip.compress(b"85,92,45,27,31,0.0,1\n" * 400, mtime=0)[:-9],
            "cannot be decompressed",
        ),
        (".gz", b"no gzip", "bupa.data.gz cannot be decompressed"),
        (".bz2", b"no bz2", "bupa.data.bz2 cannot be decompressed"),
        ("", b"\xff\xfe\x00\x01\n", "1 fields, but bupa-liver has 7"),
    ],
)
def test_spoilt_raw_files_are_refused(suffix, content, says, nowhere, run):
    (nowhere / f"bupa.data{suffix}").write_bytes(content)
    assert says in run("prepare", ".", "--output", "out", code=2).err


def test_a_bad_set_does_not_stop_the_others(tmp_path, run):
    X, y = data_set("sonar")
    raw_files(SETS["sonar"], tmp_path, X, y)
    (tmp_path / "bupa.data").write_text(bupa(GOOD))
    (tmp_path / "wdbc.data").mkdir()  # a folder is not a raw file
    said = run("prepare", ".", "--output", "out", code=2).err
    assert "sonar.csv.gz: 208 rows" in said
    assert "2 rows of 6 features" in said
    assert "wdbc" not in said


def test_two_candidates_are_one_too_many(nowhere, run):
    (nowhere / "one").mkdir()
    for path in ("bupa.data", "one/bupa.data"):
        (nowhere / path).write_text(bupa(GOOD))
    assert "both exist" in run("prepare", ".", code=2).err


def test_a_row_in_another_place_is_noticed(tmp_path, run, monkeypatch):
    X, y = data_set("bupa-liver")
    order = [1, 0, *range(2, len(X))]
    raw_files(SETS["bupa-liver"], tmp_path, X[order], y[order])
    said = run("prepare", ".", "--output", "out", code=2).err
    assert "values or the order of the rows differ" in said
    assert "is it the file of UCI: Liver Disorders" in said


@pytest.mark.parametrize(
    "spoil",
    [lambda b: b[:-20], lambda b: b"no gzip", lambda b: b[:30] + b"\x00" * 9 + b[39:], lambda b: b],
)
def test_a_prepared_file_that_is_not_the_set_is_refused(spoil, nowhere):
    folder = datasets.folders()[0]
    folder.mkdir(parents=True)
    table = gzip.compress(b"x1,target\n" + b"1.5,1\n" * 300, mtime=0)
    (folder / "sonar.csv.gz").write_bytes(spoil(table))
    with pytest.raises(ValueError, match=r"sonar\.csv\.gz.* remove"):
        load("sonar")


def test_a_file_that_changed_is_read_again(tmp_path, monkeypatch):
    data_set("sonar")
    copy = tmp_path / "sonar.csv.gz"
    copy.write_bytes(find("sonar").read_bytes())
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    load("sonar")
    copy.write_bytes(
        gzip.compress(gzip.decompress(copy.read_bytes()).replace(b"0.02,", b"0.03,", 1))
    )
    os.utime(copy, ns=(1, 1))
    with pytest.raises(ValueError, match="values or the order of the rows differ"):
        load("sonar")


def test_no_two_sets_are_the_same():
    assert len({one.sha256 for one in SETS.values()}) == 31


def test_loaded_arrays_are_the_callers_own():
    X, _ = data_set("monks-1")
    X[:] = -1.0
    assert (load("monks-1")[0] > 0).all()


# The first line of raw files as their pages have them, where it is short.
LINES = {
    "monks-1": " 1 1 1 1 1 3 1 data_5",
    "statlog-heart": "70.0 1.0 4.0 130.0 322.0 0.0 2.0 109.0 0.0 2.4 2.0 3.0 3.0 2",
    "bupa-liver": "85,92,45,27,31,0.0,1",
    "votes": "republican,n,y,n,y,y,y,n,n,n,y,?,y,y,y,n,y",
    "breast-cancer-w": "1000025,5,1,1,1,2,1,3,1,1,2",
    "statlog-australian": "1 22.08 11.46 2 4 4 1.585 0 0 0 1 2 100 1213 0",
    "blood-transfusion": "a,b,c,d,e\n2 ,50,12500,98 ,1",
    "pima-diabetes": "6,148,72,35,0,33.6,0.627,50,1",
    "mammographic": "5,67,3,5,3,1",
    "tic-tac-toe": "x,x,x,x,o,o,x,o,o,positive",
    "statlog-german": "   1   6   4  12   5   5   3   4   1  67   3   2   1   2   1   0   0   1   0"
    "   0   1   0   0   1   1 ",
    "skin-nonskin": "74\t85\t123\t1\r",
}


@pytest.mark.parametrize("name", LINES)
def test_real_first_lines_become_the_first_row(name, tmp_path):
    X, y = data_set(name)
    (tmp_path / "raw").write_text(LINES[name] + "\n")
    _, table = encode_raw_files(SETS[name], [tmp_path / "raw"])
    assert table.tolist() == [[*X[0].tolist(), float(y[0])]]


@pytest.mark.parametrize(
    ("name", "before", "after", "label"),
    [
        ("wpbc", ["119513", "N", "31"], ["5"], -1.0),
        ("wdbc", ["842302", "M", "17.99"], ["0.1189"], -1.0),
        ("musk-clean-1", ["MUSK-188", "188_1+1", "42"], ["30", "1."], 1.0),
        ("ozone-eight", ["1/1/1998", "0.8"], ["0", "0."], -1.0),
        ("spectf-heart", ["1", "59", "52"], ["67"], 1.0),
        ("parkinsons", ["phon_R01_S01_1", "119.99200"], ["0.284654"], 1.0),
    ],
)
def test_long_lines_have_their_parts_where_they_are(name, before, after, label, tmp_path):
    one = SETS[name]
    X, y = data_set(name)
    width = one.dimension + 1 + len(one.raw.drop)
    fields = [*before, *["7"] * (width - len(before) - len(after)), *after]
    if name == "parkinsons":
        fields[17] = "1"  # status, in the middle
    text = ",".join(fields) + "\n"
    (tmp_path / "raw").write_text(("names," * width)[:-1] + "\n" + text if one.raw.header else text)
    _, table = encode_raw_files(one, [tmp_path / "raw"])
    assert table[0, -1] == label == y[0]
    assert table[0, 0] == X[0, 0]
    if name != "ozone-eight":  # whose last feature is 0
        assert table[0, -2] == X[0, -1]


def test_letters_get_codes_in_the_order_of_the_alphabet(tmp_path):
    path = tmp_path / "crx.data"
    row = "b,30.83,0,u,g,w,v,1.25,t,t,01,f,g,00202,0,+"
    path.write_text("\n".join([row, row.replace("b,", "a,", 1), row.replace("30.83", "?")]) + "\n")
    names, table = encode_raw_files(SETS["credit-app"], [path])
    assert names[0] == "x1"
    assert table[:, 0].tolist() == [1.0, 0.0]  # and the row with ? is gone
    assert table[0, 13] == 202.0
    assert table[0, -1] == -1.0


def test_every_registered_file_name_is_plain():
    for one in RAW:
        assert all(re.fullmatch(r"[\w.-]+", file) for file in one.raw.files)
