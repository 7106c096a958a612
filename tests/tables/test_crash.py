"""Killed at any moment, a run that is started again ends as if nothing had happened."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fork_server import NOWHERE
from pipelines import FORMATS

from counterpoise.atomic_write import lock_file
from counterpoise.cli.learn import ProgressAndMetrics
from counterpoise.modelfile import container as modelfile
from counterpoise.readers import source
from counterpoise.tables.model import TableModel, learn_inputs
from counterpoise.tables.model_io import contents_of

LEARN = ["learn", "t.csv", "--label", "y", "-m", "m", "--chunk-rows", "64"]
OFTEN = ["--checkpoint-every", "64"]

# Dies at one call of one function that saving goes through, before or after it takes effect.
DYING = """
import os, sys
name, when, count = sys.argv.pop(1), sys.argv.pop(1), int(sys.argv.pop(1))
real = getattr(os, name)
def dying(*arguments, **options):
    global count
    count -= 1
    if count == 0 and when == "before":
        os.kill(os.getpid(), 9)
    if count == 0 and when == "half":
        real(arguments[0], arguments[1][: len(arguments[1]) // 2])
        os.kill(os.getpid(), 9)
    result = real(*arguments, **options)
    if count == 0:
        os.kill(os.getpid(), 9)
    return result
setattr(os, name, dying)
from counterpoise.cli import main
main()
"""


def write_rows(folder, rows):
    rng = np.random.default_rng(0)
    y = rng.random(rows) < 0.1
    lines = [f"{a:.4f},{'uvw'[k]},{int(c)}\n" for a, k, c in zip(
        rng.standard_normal(rows) + y, rng.integers(0, 3, rows), y, strict=True
    )]  # fmt: skip
    (folder / "t.csv").write_text("a,b,y\n" + "".join(lines))


def go_on(folder):
    """The same command, within this process."""
    with lock_file(str(folder / "m")):
        learner = TableModel.open(str(folder / "m"), {"label": "y"}, {}, chunk_rows=64)
        inputs = [(source(str(folder / "t.csv")), learner.key(str(folder / "t.csv")))]
        learn_inputs(learner, inputs, 10**9, lambda: False, lambda *_: None)


@pytest.fixture(scope="module")
def expected_bytes(tmp_path_factory):
    """Bytes of the model of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("whole")
    write_rows(folder, 1000)
    go_on(folder)
    return (folder / "m").read_bytes()


POINTS = [
    ("write", "half", 3), ("fsync", "before", 3), ("replace", "before", 2), ("replace", "after", 2),
    ("fsync", "before", 4), ("write", "half", 1),
]  # fmt: skip


def test_a_process_that_dies_while_saving_leaves_a_valid_model(expected_bytes, forks, tmp_path):
    """Temporary write, fsync, rename, fsync of the folder: the file is the old or the new one."""
    processes = []
    for k, (name, when, count) in enumerate(POINTS):
        folder = tmp_path / str(k)
        folder.mkdir()
        write_rows(folder, 1000)
        arguments = ["-c", DYING, name, when, count, *LEARN, *OFTEN]
        processes.append(forks.start(arguments, cwd=folder))
        if k % 2:
            [process.wait() for process in processes]
    for k, process in enumerate(processes):
        assert process.wait() == -signal.SIGKILL, process.stderr.read()
        folder, seen = tmp_path / str(k), 0
        if POINTS[k] != ("write", "half", 1):
            (record,) = TableModel.load(str(folder / "m")).records.values()
            seen = record.mark.rows
            assert seen % 64 == 0
            assert 0 < seen < 1000
        else:
            assert not (folder / "m").exists()
    for k in range(len(POINTS)):
        go_on(tmp_path / str(k))
        assert (tmp_path / str(k) / "m").read_bytes() == expected_bytes
        names = sorted(path.name for path in (tmp_path / str(k)).iterdir())
        assert names == ["m", "t.csv"]  # no locks and no temporary files are left


def test_a_process_killed_at_random_moments_leaves_a_valid_model(start, tmp_path):
    """A short version of benchmarks/proofs/kills.py."""
    write_rows(tmp_path, 20_000)
    rng, last = np.random.default_rng(0), 0
    for _ in range(3):
        process = start(*LEARN, *OFTEN, stderr=NOWHERE)
        saves, wanted = set(), rng.integers(2, 12)
        while len(saves) < wanted and process.poll() is None:  # a moment is a number of saves
            if (tmp_path / "m").exists():
                saves.add((tmp_path / "m").stat().st_mtime_ns)
            time.sleep(0.001)
        process.kill()
        process.wait()
        (record,) = TableModel.load(str(tmp_path / "m")).records.values()
        assert record.mark.rows >= last
        last = record.mark.rows
    go_on(tmp_path)
    killed = (tmp_path / "m").read_bytes()
    (tmp_path / "m").unlink()
    go_on(tmp_path)
    assert (tmp_path / "m").read_bytes() == killed


# Metrics


class DiedError(Exception):
    """Death of a process: nothing is written after it."""


def learn_with_metrics(folder, every, chunks=10**9, dies=False):
    """Learn with metrics, up to `chunks` chunks; then stop as a signal stops, or die."""
    seen = []
    with lock_file(str(folder / "m")):
        learner = TableModel.open(
            str(folder / "m"), {"label": "y"}, {"ridge": "gcv"}, chunk_rows=64
        )
        watch = ProgressAndMetrics(learner, str(folder / "m.jsonl"), 150)

        def look(*arguments):
            if dies and len(seen) == chunks:
                raise DiedError
            watch.after_chunk(*arguments)
            seen.append(1)

        inputs = [(source(str(folder / "t.csv")), learner.key(str(folder / "t.csv")))]
        with suppress(DiedError):
            learn_inputs(learner, inputs, every, lambda: not dies and len(seen) >= chunks, look,
                before_save=watch.before_save, needs_scores=True,
            )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("dies", [False, True])
@pytest.mark.parametrize("every", [1, 300])
def test_metrics_equal_those_of_an_uninterrupted_run(tmp_path, dies, every):
    """Stopped or killed after some chunks, and gone on with: each line once, the same."""
    write_rows(tmp_path, 1000)
    learn_with_metrics(tmp_path, every)
    files = [tmp_path / "m", tmp_path / "m.jsonl"]
    whole = [file.read_bytes() for file in files]
    assert whole[1].count(b"\n") == 7
    for chunks in (1, 3, 4, 9, 16):
        for file in files:
            file.unlink(missing_ok=True)
        learn_with_metrics(tmp_path, every, chunks, dies)
        learn_with_metrics(tmp_path, every, chunks // 2, dies)
        learn_with_metrics(tmp_path, every)
        assert [file.read_bytes() for file in files] == whole


@pytest.mark.slow
def test_a_line_of_metrics_that_is_not_in_the_model_is_written_again(tmp_path):
    """Killed between the last line and the last save."""
    write_rows(tmp_path, 1000)
    learn_with_metrics(tmp_path, 10**9)
    files = [tmp_path / "m", tmp_path / "m.jsonl"]
    whole = [file.read_bytes() for file in files]
    for file in files:
        file.unlink()
    learn_with_metrics(tmp_path, 1, 16, dies=False)  # all is learned, and a signal came
    assert files[0].read_bytes() != whole[0]
    files[1].write_bytes(whole[1])
    learn_with_metrics(tmp_path, 10**9)
    assert [file.read_bytes() for file in files] == whole


STRANGE = [
    None, [], {"rows": 5}, {"rows": -1, "counts": []}, {"rows": 1001, "counts": []},
    {"rows": True, "counts": []}, {"rows": 0, "counts": [[0, 1]]}, {"rows": 0, "counts": 7},
    {"rows": 0, "counts": [["0", "1", 2]]}, {"rows": 0, "counts": [[0, 1, 0]]},
    {"rows": 0, "counts": [[0, 1, 2.5]]},
]  # fmt: skip


def test_pending_scores_are_kept_and_invalid_ones_are_refused(tmp_path):
    write_rows(tmp_path, 1000)
    learn_with_metrics(tmp_path, 1, 4)
    path = str(tmp_path / "m")
    stored, contents = TableModel.load(path), modelfile.load(path)
    assert stored.window.rows == 192
    assert sum(count for _, _, count in stored.window.counts) == 64
    assert modelfile.to_bytes(contents_of(stored)) == (tmp_path / "m").read_bytes()
    for strange in STRANGE:
        bad = replace(contents, stream={**contents.stream, "window": strange})
        Path(path).write_bytes(modelfile.to_bytes(bad))
        with pytest.raises(modelfile.ModelFileError, match="m is not a valid model file"):
            TableModel.load(path)


# Signals to a whole pipeline: the process that writes into it has ended too


@pytest.mark.slow
@pytest.mark.parametrize("cut", [b"", b"1.5,u,1", b"1.5,u"])
@pytest.mark.parametrize("late", [0, 3])
def test_what_is_left_of_a_broken_pipe_is_notstate_(tmp_path, cut, late):
    """The pipe ends when the user stops the run, or just before: rows and errors do not count."""
    write_rows(tmp_path, 1000)
    lines = (tmp_path / "t.csv").read_bytes().splitlines(keepends=True)
    os.mkfifo(tmp_path / "pipe.csv")
    seen, asked = [], []

    def write():
        (tmp_path / "pipe.csv").write_bytes(b"".join(lines[: 1 + 64 * 3 + 20]) + cut)

    def stop():
        """Return true when the complete chunks are learned, but not in the first calls."""
        if 64 * 3 in seen:
            asked.append("?")
        return len(asked) > 1 + late

    def watch(_, chunk, __):
        seen.append(chunk.mark.rows)

    threading.Thread(target=write).start()
    learner = TableModel.open(str(tmp_path / "m"), {"label": "y"}, {}, chunk_rows=64)
    learn_inputs(learner, [(source(str(tmp_path / "pipe.csv")), "t.csv")], 10**9, stop, watch)
    (record,) = TableModel.load(str(tmp_path / "m")).records.values()
    assert record.mark.rows == 64 * 3
    go_on(tmp_path)
    interrupted = (tmp_path / "m").read_bytes()
    (tmp_path / "m").unlink()
    go_on(tmp_path)
    assert (tmp_path / "m").read_bytes() == interrupted


@pytest.mark.slow
def test_stopped_pipelines_continue():
    """A short version of what benchmarks/proofs/kills.py does with 100 signals a format."""
    script = Path(__file__).parents[1] / "pipelines.py"
    command = [sys.executable, script, ",".join(FORMATS), "2", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == list(FORMATS)
