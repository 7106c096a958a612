"""Programs that are forked are as those that are started: streams, environment, signals, ends."""

import os
import signal
import subprocess

import pytest
from fork_server import PIPE


@pytest.mark.parametrize(
    ("code", "end", "err"),
    [
        ("pass", 0, ""),
        ("import sys; sys.exit(7)", 7, ""),
        ("import sys; sys.exit('no')", 1, "no\n"),
        ("1 / 0", 1, "ZeroDivisionError: division by zero\n"),
        ("import os; os.kill(os.getpid(), 9)", -9, ""),
        ("import os; os.kill(os.getpid(), 2)", -2, "KeyboardInterrupt\n"),
        ("import atexit; atexit.register(print, 'x', file=__import__('sys').stderr)", 0, "x\n"),
    ],
)
def test_every_end_is_reported(forks, code, end, err):
    done = forks.run(["-c", code])
    assert done.returncode == end
    assert done.stderr.endswith(err)
    assert bool(done.stderr) == bool(err)


def test_arguments_streams_environment_and_folder_are_its_own(forks, tmp_path):
    code = "import os, sys; print(sys.argv[1:], os.getcwd(), os.environ['A'], sys.stdin.read())"
    env = {**os.environ, "A": "ä"}
    done = forks.run(["-c", code, 1, "two"], "zwölf".encode(), cwd=tmp_path, env=env)
    assert done.stdout == f"['1', 'two'] {tmp_path} ä zwölf\n"
    again = forks.run(["-c", "import os; print('A' in os.environ)"])
    assert again.stdout == "False\n"


def test_signals_reach_a_program_that_runs(forks):
    code = "import signal\nprint('ready', flush=True)\nsignal.pause()"
    for number in (signal.SIGTERM, signal.SIGKILL):
        with forks.start(["-c", code]) as program:
            assert program.stdout.readline() == b"ready\n"
            assert program.poll() is None
            program.send_signal(number)
            assert program.wait() == -number


def test_a_pipe_ends_when_a_program_closes_it(forks):
    code = "import os, sys, signal\nos.close(1)\nsys.stdin.read()"
    with forks.start(["-c", code], stdin=PIPE) as program:
        assert program.stdout.read() == b""  # no other process has it open
        assert program.poll() is None
        program.stdin.close()
        assert program.wait() == 0


def test_a_line_of_a_shell_ends_as_its_program_does(forks):
    def shell(code, more=""):
        line = forks.line(["-c", code]) + more
        return subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)

    assert shell("import sys; sys.exit(5)").returncode == 5
    assert shell("import os; os.kill(os.getpid(), 15)").returncode in (-15, 128 + 15)
    assert shell("import os; print(os.read(63, 9))", " 63< <(echo x)").stdout == "b'x\\n'\n"
    assert shell("import sys; print(sys.stdin)", " <&-").stdout == "None\n"
