"""Locks and temporary files: nothing of others is touched, and nothing of ours stays."""

import os
import subprocess
import threading
from pathlib import Path

import pytest
from forks import MAIN
from samples import stream

from counterpoise import BalancedRidgeClassifier
from counterpoise.beside import created, discard_temporary, temporary_name
from counterpoise.jobs.learn import locked
from counterpoise.jobs.store import stored_model
from counterpoise.modelfile.container import write_whole
from counterpoise.streams import DataError, expanded

OTHERS = [
    "poetry.lock", ".poetry.lock", ".poetry.counterpoise", ".poetry.0123abcd.tmp", ".poetry.tmp",
    ".poetry.counterpoise-notes.tmp", ".poetry.toml.counterpoise-0123456789abcdef.tmp",
]  # fmt: skip


def write_rows(name="t.csv", rows=100):
    Path(name).write_text("a,y\n" + "".join(f"{i % 7},{i % 2}\n" for i in range(rows)))


def test_files_of_others_stay(run):
    for name in OTHERS:
        Path(name).write_text(name)
    write_rows()
    run("learn", "t.csv", "--label", "y", "-m", "poetry")
    run("predict", "poetry", "t.csv", "-o", "poetry", "--to", "csv", code=0)
    Path("poetry").unlink()
    BalancedRidgeClassifier().fit(*stream(20)).save("poetry")
    assert sorted(os.listdir()) == sorted([*OTHERS, "poetry", "t.csv"])
    assert all(Path(name).read_text() == name for name in OTHERS)


def test_models_whose_names_begin_alike_do_not_disturb_each_other(tmp_path):
    longer = str(tmp_path / "m4.st")
    name = temporary_name(longer)
    descriptor = created(name)
    with locked(str(tmp_path / "m4")), locked(longer):
        assert os.path.exists(name)
    os.close(descriptor)
    with locked(str(tmp_path / "m4")):
        assert os.path.exists(name)
    with locked(longer):  # nobody holds it any more
        assert not os.path.exists(name)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("command", ["learn", "predict", "save"])
def test_what_killed_processes_have_left_is_removed(run, command):
    write_rows()
    run("learn", "t.csv", "--label", "y", "-m", "m")
    target = "o.csv" if command == "predict" else "m"
    stray = Path(temporary_name(os.path.abspath(target)))
    stray.write_bytes(b"half")
    if command == "learn":
        run("learn", "t.csv", "-m", "m")
    elif command == "predict":
        run("predict", "m", "t.csv", "-o", "o.csv")
    else:
        BalancedRidgeClassifier().fit(*stream(20)).save("m")
    assert not stray.exists()
    assert not [name for name in os.listdir() if name.startswith(".")]


@pytest.mark.slow
def test_temporary_files_in_use_are_never_removed(tmp_path):
    """While one writes again and again, others tidy up."""
    path, over = str(tmp_path / "m"), threading.Event()

    def tidy():
        while not over.is_set():
            discard_temporary(path)

    threads = [threading.Thread(target=tidy) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for k in range(300):
            descriptor = created(name := temporary_name(path))
            os.write(descriptor, b"%d" % k)
            os.replace(name, path)
            os.close(descriptor)
            assert Path(path).read_bytes() == b"%d" % k
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert os.listdir(tmp_path) == ["m"]


@pytest.mark.parametrize("kind", ["text", "link"])
def test_a_lock_that_is_not_ours_is_left_alone(tmp_path, kind):
    lock = tmp_path / ".m.counterpoise.lock"
    (tmp_path / "other").write_text("precious")
    if kind == "text":
        lock.write_text("precious")
    else:
        lock.symlink_to("other")
    with pytest.raises((DataError, OSError)), locked(str(tmp_path / "m")):
        pass
    assert lock.read_text() == "precious"
    assert lock.is_symlink() == (kind == "link")


def test_a_lock_is_for_one(tmp_path):
    path = str(tmp_path / "m")
    with locked(path), pytest.raises(DataError, match="being written by another"), locked(path):
        pass
    assert not os.listdir(tmp_path)
    killed = tmp_path / ".m.counterpoise.lock"
    killed.write_bytes(b"")  # its owner died before it could write
    with locked(path):
        assert b"writes m" in killed.read_bytes()
    assert not os.listdir(tmp_path)


def test_long_names_have_room(tmp_path):
    path = str(tmp_path / ("n" * 255))
    with locked(path):
        write_whole(path, b"x", "it")
    assert os.listdir(tmp_path) == ["n" * 255]


def test_a_model_is_a_file(run):
    write_rows()
    os.mkfifo("pipe")
    Path("folder").mkdir()
    for name in ("pipe", "folder"):
        done = run("learn", "t.csv", "--label", "y", "-m", name, code=2)
        assert f"{name} is not a file but a folder, a pipe or a device" in done.err
    assert sorted(os.listdir()) == ["folder", "pipe", "t.csv"]


def test_pipes_with_a_name_go_on(forks, tmp_path):
    """Process substitution: the same name leads to another pipe each time."""
    learn = ["learn", "--label", "y", "-m", "m", "--format", "csv", "--chunk-rows", "64"]
    words = forks.line(["-c", MAIN, *learn])
    write_rows(tmp_path / "long.csv", 200)
    write_rows(tmp_path / "short.csv", 128)
    for name in ("short.csv", "long.csv"):
        shell = ["bash", "-c", f"{words} <(cat {name})"]
        done = subprocess.run(shell, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert "72 new rows after 128" in done.stderr
    (record,) = stored_model(str(tmp_path / "m")).records.values()
    assert record.mark.rows == 200


def test_standard_input_has_other_names():
    assert expanded(["/dev/stdin", "-", "/dev/fd/0"]) == ["-"]


def test_what_cannot_be_read_twice_is_not_forgotten(run):
    write_rows()
    run("learn", "t.csv", "--label", "y", "-m", "m")
    before = Path("m").read_bytes()
    Path("t.csv").unlink()
    os.mkfifo("t.csv")
    assert "t.csv cannot be read twice" in run("forget", "m", "t.csv", code=2).err
    assert Path("m").read_bytes() == before
