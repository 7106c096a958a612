"""The command line, run within the tests or beside them."""

import sys
from typing import NamedTuple

import pytest
from forks import MAIN, Forks

from counterpoise.cli import main


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(capfdbinary, monkeypatch, tmp_path):
    """Run ``counterpoise`` in a folder of its own."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments, code=0):
        monkeypatch.setattr(sys, "argv", ["counterpoise", *map(str, arguments)])
        end = 0
        try:
            main()
        except SystemExit as error:
            end = error.code or 0
        sys.stdout.flush()
        captured = capfdbinary.readouterr()
        done = Done(end, captured.out.decode(), captured.err.decode())
        assert done.code == code, done
        assert "Traceback" not in done.err
        return done

    return call


@pytest.fixture(scope="session")
def forks():
    """Python programs that start at once."""
    with Forks() as server:
        yield server


@pytest.fixture
def start(forks, tmp_path):
    """Start ``counterpoise`` as a process of its own, in a folder of its own."""

    def call(*arguments, **options):
        return forks.start(["-c", MAIN, *arguments], **{"cwd": tmp_path, **options})

    return call
