"""Commands in separate processes: killed at random moments, or limited in memory and time."""

import contextlib
import gc
import io
import os
import resource
import select
import signal
import subprocess
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path

COMMAND = [sys.executable, "-c", "from counterpoise.cli import main; main()"]
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}

# Killing


def run(folder, *arguments):
    """Run a command to its end."""
    subprocess.run([*COMMAND, *map(str, arguments)], cwd=folder, check=True, **QUIET)


def start(folder, *arguments):
    """Start a command."""
    return subprocess.Popen([*COMMAND, *map(str, arguments)], cwd=folder, **QUIET)


def file_states(folder, pattern):
    """Return names, sizes and times of files, which every change on disk changes."""
    found = []
    for path in sorted(folder.glob(pattern)):
        with contextlib.suppress(FileNotFoundError):
            status = path.stat()
            found.append((path.name, status.st_size, status.st_mtime_ns))
    return found


def wait_for_change(process, folder, pattern, before):
    """Wait until files differ from ``before``; return whether the process still runs."""
    while process.poll() is None:
        if file_states(folder, pattern) != before:
            return True
        time.sleep(0.001)
    return False


def kill_after(process, seconds, number=signal.SIGKILL):
    """Send a signal after some seconds; return whether the process still ran."""
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.001)
    killed = process.poll() is None
    if killed:
        process.send_signal(number)
    process.wait()
    return killed


# Limiting

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
MAX_MEMORY = 2 << 30  # bytes of address space
MAX_CPU_SECONDS = 10
MAX_SECONDS = 600.0  # until a process that uses no CPU counts as a hang, on any machine
FAULTS = ("signal", "traceback", "hang")  # outcomes of a command that must not occur


def use_one_thread():
    """Start this program again with one BLAS thread, unless it has one."""
    if any(os.environ.get(name) != "1" for name in THREADS):
        os.execve(sys.executable, sys.orig_argv, os.environ | dict.fromkeys(THREADS, "1"))


def import_commands(*modules):
    """Import what commands need, and check that no thread exists, which a fork would lose."""
    for name in modules:
        import_module(name)
    app = import_module("counterpoise.cli.app")
    for name in app.COMMANDS:
        with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
            app.resolve_command(name)([name, "--help"])
    tasks = [Path(f"/proc/self/task/{task}/comm") for task in os.listdir("/proc/self/task")]
    names = [path.read_text().strip() for path in tasks]
    others = [name for name in names if name != "jemalloc_bg_thd"]  # which handles forks
    assert len(others) == 1, f"there are threads: {names}"
    gc.collect()
    gc.freeze()


def run_limited(work, folder, stdin=None):
    """Fork and run arguments of the command, or a function, with limits.

    Return the exit code (negative for a signal, None for a hang) and the standard error.
    """
    sys.stdout.flush()
    child = os.fork()
    if not child:
        _become(work, folder, stdin)
    handle = os.pidfd_open(child)
    try:
        hangs = not select.select([handle], [], [], MAX_SECONDS)[0]
    finally:
        os.close(handle)
    if hangs:
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return None if hangs else code, (folder / "stderr").read_text(errors="replace")


def _become(work, folder, stdin):
    """Run in this process, which was forked; never return."""
    code = 99
    try:
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (MAX_CPU_SECONDS, MAX_CPU_SECONDS + 1))
        import_module("pyarrow").set_cpu_count(1)
        os.chdir(folder)
        new = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        streams = ((stdin or os.devnull, os.O_RDONLY), ("stdout", new), ("stderr", new))
        for number, (name, flags) in enumerate(streams):
            os.dup2(os.open(name, flags, 0o666), number)
        if callable(work):
            work()
        else:
            sys.argv = ["counterpoise", *work]
            import_module("counterpoise.cli").main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def outcome(code, text):
    """Return what a command came to: one of ``FAULTS``, accepted, refused or out of memory."""
    if code in (None, -signal.SIGXCPU):
        return "hang"
    if code < 0:
        return "signal"
    if "Traceback" in text or code not in (0, 1, 2):
        return "traceback"
    if code:
        return "out of memory" if "out of memory" in text else "refused"
    return "accepted"
