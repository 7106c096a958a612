"""Without POSIX every module is imported, and a table is learned and predicted."""

import subprocess
import sys
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src" / "counterpoise"
MODULES = sorted(
    ".".join(("counterpoise", *path.relative_to(SOURCES).with_suffix("").parts))
    for suffix in ("*.py", "*.pyx")
    for path in SOURCES.rglob(suffix)
    if path.stem != "__init__"
)
# Names of os that only POSIX has, and modules that do not exist elsewhere.
CODE = """
import os, sys, warnings
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
from importlib import import_module
for name in {modules}:
    import_module(name)
for name in (
    "fchmod", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "getuid", "geteuid", "pwrite", "pread",
    "sysconf", "mkfifo", "chown", "lockf", "sched_getaffinity",
):
    delattr(os, name)
from counterpoise.cli import main
def run(*words):
    sys.argv = ["counterpoise", *words]
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
run("learn", "t.csv", "--label", "y", "-m", "m", "--metrics", "m.jsonl")
run("learn", "t.csv", "-m", "m")
run("predict", "m", "t.csv", "-o", "p.csv")
run("predict", "m", "t.csv", "-o", "p.parquet")
run("evaluate", "m", "t.csv")
run("unlearn", "m", "t.csv")
"""


@pytest.mark.slow
def test_nothing_needs_posix(tmp_path):
    rows = "".join(f"{i % 7},{'uv'[i % 2]},{int(i % 5 == 0)}\n" for i in range(100))
    (tmp_path / "t.csv").write_text("a,b,y\n" + rows)
    code = CODE.format(modules=MODULES)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "t.csv: 100 rows" in done.stderr
    assert len((tmp_path / "p.csv").read_text().splitlines()) == 101
    names = {"t.csv", "m", "m.jsonl", "p.csv", "p.parquet"}
    assert {path.name for path in tmp_path.iterdir()} == names
