"""Fixtures for the command line; distribution, selection and coverage of the tests."""

import collections
import gc
import os
import sys
import threading
from contextlib import contextmanager
from typing import NamedTuple
from zlib import crc32

import pytest
from fork_server import MAIN, ForkServer
from hypothesis import settings

# No test may depend on how fast it is.
settings.register_profile("laws", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("laws")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def run(capfdbinary, monkeypatch, tmp_path):
    """Run ``counterpoise`` in a temporary folder."""
    from counterpoise.cli import main  # not before coverage has begun

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
    """Start Python programs quickly."""
    with ForkServer() as server:
        yield server


@pytest.fixture
def start(forks, tmp_path):
    """Start ``counterpoise`` as a separate process in a temporary folder."""

    def call(*arguments, **options):
        return forks.start(["-c", MAIN, *arguments], **{"cwd": tmp_path, **options})

    return call


@pytest.fixture(scope="session")
def postgres():
    """Start a PostgreSQL server of this worker; skip the test where there is none."""
    from postgres import postgres_server  # not on Windows

    with postgres_server() as server:
        yield server


# Distribution to workers


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Give a worker a twelfth of a file at a time, because single tests need many messages."""
    from xdist.scheduler import LoadGroupScheduling

    class Twelfths(LoadGroupScheduling):
        def _split_scope(self, nodeid):
            group = super()._split_scope(nodeid)
            if group != nodeid:
                return group
            return f"{nodeid.split('::')[0]} {crc32(nodeid.encode()) % 12}"

    return Twelfths(config, log)


# Selection: make quick leaves slow tests out

# Examples in pages and docstrings cannot have a marker.
SLOW_EXAMPLES = (
    "docs/costs.md",
    "docs/ledger.md",
    "docs/mlflow.md",
    "docs/averaging.md",
    "docs/river.md",
    "docs/tables.md",
    "src/counterpoise/estimators/auto.py",
)
left_out = collections.Counter()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    seen = set()
    for item in items:
        starts_programs = not {"forks", "postgres"}.isdisjoint(getattr(item, "fixturenames", ()))
        if starts_programs or item.path.as_posix().endswith(SLOW_EXAMPLES):
            item.add_marker("slow")
        name = item.nodeid.split("[")[0]
        item.stash[IS_FIRST_CASE] = name not in seen
        seen.add(name)
    # Groups for one worker come first, or the other worker would wait for them at the end.
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


def pytest_collection_finish():
    """Let the garbage collector ignore permanent objects: visiting all of them takes 0.3 s."""
    gc.collect()
    gc.freeze()


def pytest_deselected(items):
    slow = [item for item in items if item.get_closest_marker("slow")]
    left_out.update(item.nodeid.split("::")[0] for item in slow)


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = dict(left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Take the tests that a worker left out; all workers left out the same."""
    left_out.update(getattr(node, "workeroutput", {}).get("left_out", {}) if not left_out else {})


def pytest_terminal_summary(terminalreporter, config):
    if config.option.markexpr != "not slow":
        return
    terminalreporter.section("left out")
    for file, count in sorted(left_out.items()):
        terminalreporter.line(f"{count:5} in {file}")
    terminalreporter.line(f"{left_out.total():5} tests are marked slow; make test runs them")


# Coverage: it makes Python half as slow again, most tests have many cases, and slow tests run
# code that other tests have run.

IS_FIRST_CASE = pytest.StashKey[bool]()


@contextmanager
def use_tracers(tracers):
    """Use the tracers of coverage for this thread and for new ones, or none."""
    before = sys.gettrace(), threading.gettrace()
    for one, tracer in zip((sys, threading), tracers, strict=True):
        one.settrace(tracer)
    try:
        yield before
    finally:
        for one, tracer in zip((sys, threading), before, strict=True):
            one.settrace(tracer)


NO_TRACERS = None, None
coverage = NO_TRACERS


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Trace the imports of one worker: the imports of the others are the same."""
    worker = getattr(session.config, "workerinput", {"workerid": "gw0"})["workerid"]
    with use_tracers((sys.gettrace(), threading.gettrace()) if worker == "gw0" else NO_TRACERS):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtestloop():
    """Trace nothing between tests."""
    global coverage
    with use_tracers(NO_TRACERS) as coverage:
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Trace the first case of every test that is not slow.

    Tests that send signals are not traced: a signal raised within coverage leaves its lock taken.
    """
    signals = hasattr(getattr(item, "module", None), "signal")
    wanted = item.stash[IS_FIRST_CASE] and not signals and not item.get_closest_marker("slow")
    with use_tracers(coverage if wanted else NO_TRACERS):
        return (yield)
