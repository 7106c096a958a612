"""Locks and temporary files: nothing of others is touched, and nothing of ours stays."""

import os
import secrets
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from builders import stream
from filelock import FileLock
from fork_server import MAIN

from counterpoise import BalancedRidgeClassifier
from counterpoise.atomic_write import (
    atomic_write,
    discard_temporary,
    hidden_sibling_path,
    lock_file,
)
from counterpoise.errors import BusyError, DataError
from counterpoise.readers.formats import expand_paths
from counterpoise.tables.model import TableModel

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
    run("predict", "poetry", "t.csv", "-o", "poetry", "--output-format", "csv", code=0)
    Path("poetry").unlink()
    BalancedRidgeClassifier().fit(*stream(20)).save("poetry")
    assert sorted(os.listdir()) == sorted([*OTHERS, "poetry", "t.csv"])
    assert all(Path(name).read_text() == name for name in OTHERS)


def list_hidden(folder="."):
    return sorted(name for name in os.listdir(folder) if name.startswith("."))


def make_stray(path):
    """Temporary file of a process that was killed while it wrote."""
    temporary = Path(hidden_sibling_path(os.path.abspath(path), "-0123456789abcdef.tmp"))
    temporary.write_bytes(b"half")
    Path(f"{temporary}.lock").write_bytes(b"")
    return temporary


def test_models_whose_names_begin_alike_do_not_disturb_each_other(tmp_path):
    longer = str(tmp_path / "m4.st")
    with atomic_write(longer) as file:
        with lock_file(str(tmp_path / "m4")), lock_file(longer):
            assert len([n for n in list_hidden(tmp_path) if n.endswith(".tmp")]) == 1
        file.write(b"whole")
    assert Path(longer).read_bytes() == b"whole"
    left = make_stray(longer)
    with lock_file(str(tmp_path / "m4")):
        assert left.exists()
    with lock_file(longer):  # it is not locked any more
        assert not left.exists()
    assert os.listdir(tmp_path) == ["m4.st"]


@pytest.mark.parametrize("command", ["learn", "predict", "save"])
def test_what_killed_processes_have_left_is_removed(run, command):
    write_rows()
    run("learn", "t.csv", "--label", "y", "-m", "m")
    target = "o.csv" if command == "predict" else "m"
    left = make_stray(target)
    if command == "learn":
        run("learn", "t.csv", "-m", "m")
    elif command == "predict":
        run("predict", "m", "t.csv", "-o", "o.csv")
    else:
        BalancedRidgeClassifier().fit(*stream(20)).save("m")
    assert not left.exists()
    assert not list_hidden()


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
            with atomic_write(path) as file:
                file.write(b"%d" % k)
            assert Path(path).read_bytes() == b"%d" % k
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert os.listdir(tmp_path) == ["m"]


def test_a_name_that_somebody_tidies_is_not_used(tmp_path, monkeypatch):
    """However often that happens: who tidies would remove the file."""
    path, names = tmp_path / "m", [f"{k:016x}" for k in range(6)]
    held = [FileLock(hidden_sibling_path(str(path), f"-{name}.tmp.lock")) for name in names[:-1]]
    for lock in held:
        lock.acquire()
    tried = iter(names)
    monkeypatch.setattr(secrets, "token_hex", lambda _: next(tried))
    with atomic_write(path) as file:
        file.write(b"whole")
        assert hidden_sibling_path(str(path), f"-{names[-1]}.tmp") in map(str, tmp_path.iterdir())
    for lock in held:
        lock.release()
    assert path.read_bytes() == b"whole"


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("another"), RuntimeError])
def test_a_block_that_fails_leaves_the_old_file(tmp_path, error):
    path = tmp_path / "m"
    path.write_bytes(b"old")

    def write():
        with atomic_write(path) as file:
            file.write(b"new")
            raise error

    with pytest.raises(error if isinstance(error, type) else OSError):
        write()
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["m"]


def test_an_error_about_another_file_stays_as_it_is(tmp_path):
    with pytest.raises(FileNotFoundError) as caught, atomic_write(tmp_path / "m"):
        open("nowhere/there")  # noqa: SIM115
    assert caught.value.filename == "nowhere/there"


KILLED = """
import os, sys
from counterpoise.atomic_write import atomic_write
with atomic_write("m") as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_what_another_process_writes_stays_until_it_is_killed(tmp_path):
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED], cwd=tmp_path, stdin=pipe, stdout=pipe
    )
    assert process.stdout.readline() == b"writing\n"
    discard_temporary(tmp_path / "m")
    assert len(list_hidden(tmp_path)) == 2
    process.kill()
    process.communicate()
    discard_temporary(tmp_path / "m")
    assert not os.listdir(tmp_path)


HOLDER = """
import sys
from counterpoise.atomic_write import lock_file
from counterpoise.errors import BusyError
with lock_file("m"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", ["kill", "close"])
def test_a_lock_goes_when_its_owner_does(tmp_path, end):
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER], cwd=tmp_path, stdin=pipe, stdout=pipe
    )
    assert process.stdout.readline() == b"held\n"
    path = str(tmp_path / "m")
    with pytest.raises(BusyError, match="m is being written by another process"), lock_file(path):
        pass
    if end == "kill":
        process.kill()
    process.communicate()
    assert list_hidden(tmp_path) == ([".m.counterpoise.lock"] if end == "kill" else [])
    with lock_file(path):
        pass
    assert not os.listdir(tmp_path)


COUNTER = """
import sys
from pathlib import Path
from counterpoise.atomic_write import lock_file
from counterpoise.errors import BusyError
done = 0
while done < 40:
    try:
        with lock_file("m"):
            count = int(Path("count").read_text())
            Path("count").write_text(str(count + 1))
            done += 1
    except BusyError:
        pass
"""


@pytest.mark.slow
def test_two_never_hold_a_lock_at_once(tmp_path):
    """Locks that are removed by those who end must not be held by those who begin."""
    (tmp_path / "count").write_text("0")
    processes = [subprocess.Popen([sys.executable, "-c", COUNTER], cwd=tmp_path) for _ in range(3)]
    assert [process.wait() for process in processes] == [0, 0, 0]
    assert (tmp_path / "count").read_text() == "120"
    assert os.listdir(tmp_path) == ["count"]


def test_no_folder_is_made(tmp_path):
    path = tmp_path / "folder" / "m"
    with pytest.raises(FileNotFoundError, match="folder/m"), lock_file(str(path)):
        pass
    with pytest.raises(FileNotFoundError, match="was not saved"), atomic_write(path):
        pass
    assert not os.listdir(tmp_path)


def test_a_lock_where_no_file_can_be_made_is_one_clear_error():
    with pytest.raises(OSError, match="/proc/m") as caught, lock_file("/proc/m"):
        pass
    assert not isinstance(caught.value, BusyError)


@pytest.mark.parametrize("kind", ["text", "link"])
def test_a_lock_that_is_not_ours_is_left_alone(tmp_path, kind):
    lock = tmp_path / ".m.counterpoise.lock"
    (tmp_path / "other").write_text("precious")
    if kind == "text":
        lock.write_text("precious")
    else:
        lock.symlink_to("other")
    with pytest.raises((DataError, OSError)), lock_file(str(tmp_path / "m")):
        pass
    assert lock.read_text() == "precious"
    assert lock.is_symlink() == (kind == "link")


def test_a_lock_is_for_one(tmp_path):
    path = str(tmp_path / "m")
    with (
        lock_file(path),
        pytest.raises(DataError, match="being written by another"),
        lock_file(path),
    ):
        pass
    assert not os.listdir(tmp_path)
    killed = tmp_path / ".m.counterpoise.lock"
    killed.write_bytes(b"")  # its owner died before it could write
    with lock_file(path):
        assert b"writes m" in killed.read_bytes()
    assert not os.listdir(tmp_path)


def test_long_names_have_room(tmp_path):
    path = str(tmp_path / ("n" * 255))
    with lock_file(path), atomic_write(path) as file:
        file.write(b"x")
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
    (record,) = TableModel.load(str(tmp_path / "m")).records.values()
    assert record.mark.rows == 200


def test_standard_input_has_other_names():
    assert expand_paths(["/dev/stdin", "-", "/dev/fd/0"]) == ["-"]


def test_what_cannot_be_read_twice_is_not_unlearned(run):
    write_rows()
    run("learn", "t.csv", "--label", "y", "-m", "m")
    before = Path("m").read_bytes()
    Path("t.csv").unlink()
    os.mkfifo("t.csv")
    assert "t.csv cannot be read twice" in run("unlearn", "m", "t.csv", code=2).err
    assert Path("m").read_bytes() == before
