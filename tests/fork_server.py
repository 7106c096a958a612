"""Python programs that start quickly: forked from a process that has imported what they need.

Starting the command takes a second, nearly all of it imports. ``ForkServer`` starts one server,
which imports them, starts no thread and forks for every program. A program has its own arguments,
standard streams, environment, folder, signals and exit. Its parent is not the test but a keeper,
which waits for it and reports how it ended.

``ForkServer.line`` is for a shell: a program (``fork_client``) that passes its streams to the
server.
"""

import atexit
import fcntl
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from types import ModuleType

import fork_client

MAIN = "from counterpoise.cli import main; main()"
MAX_DESCRIPTORS = 64  # descriptors that a program is started with
MODULES = (
    "counterpoise.estimators.auto", "counterpoise.cli.messages", "counterpoise.evaluate.benchmark",
    "counterpoise.tables.evaluate", "counterpoise.tables.unlearn", "counterpoise.tables.inspect",
    "counterpoise.tables.model", "counterpoise.tables.merge", "counterpoise.tables.predict",
    "counterpoise.tables.predict", "counterpoise.tables.evaluate", "rich.console",
    "counterpoise.atomic_write", "counterpoise.tables.scoring", "counterpoise.ledger.ledger",
    "filelock",
    "rich.table",
)  # fmt: skip


# On the side of the tests


class ForkServer:
    """A server that starts programs, and ends with the block.

    It imports what the command imports, or the given modules, from a folder.
    """

    def __init__(self, modules=(), folder=None):
        self.folder = tempfile.TemporaryDirectory()
        self.address = os.path.join(self.folder.name, "s")
        ready, said = os.pipe()
        self.server = subprocess.Popen(
            [sys.executable, __file__, self.address, str(said), *modules],
            stdin=subprocess.PIPE, pass_fds=[said],
            env=os.environ if folder is None else {**os.environ, "PYTHONPATH": str(folder)},
        )  # fmt: skip
        os.close(said)
        with open(ready, "rb") as file:
            assert file.read() == b"ready", "the server did not start"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stdin.close()
        assert self.server.wait() == 0
        self.folder.cleanup()

    def start(self, arguments, **options):
        """Start ``python ARGUMENTS``; see ``Program`` for the options."""
        return Program(self.address, arguments, **options)

    def run(self, arguments, data=b"", **options):
        """Run ``python ARGUMENTS`` to its end; return its exit code and output as text."""
        with self.start(arguments, **{"stdin": PIPE, **options}) as program:
            out, err = program.communicate(data)
        return ProgramResult(program.returncode, out.decode(), err.decode())

    def line(self, arguments):
        """Return a shell command that runs ``python ARGUMENTS``."""
        words = [sys.executable, "-IS", fork_client.__file__, self.address, *arguments]
        return " ".join(f"'{word}'" for word in words)


class ProgramResult:
    """Exit code and output of a program."""

    def __init__(self, code, out, err):
        self.returncode, self.stdout, self.stderr = code, out, err


PIPE, NOWHERE = subprocess.PIPE, subprocess.DEVNULL


class Program:
    """A program that runs, with as much of ``subprocess.Popen`` as the tests need.

    ``stdin``, ``stdout`` and ``stderr`` are descriptors, ``PIPE`` or ``NOWHERE``.
    """

    def __init__(
        self, address, arguments, stdin=NOWHERE, stdout=PIPE, stderr=PIPE, cwd=None, env=None
    ):
        self.returncode = None
        theirs, ours = zip(*map(_open_stream, (stdin, stdout, stderr), "wrr"), strict=True)
        self.stdin, self.stdout, self.stderr = ours
        self.link = fork_client.connect(
            address, list(map(str, arguments)), dict(enumerate(theirs)), cwd, env
        )
        for given, descriptor in zip((stdin, stdout, stderr), theirs, strict=True):
            if given in (PIPE, NOWHERE):
                os.close(descriptor)
        (self.pid,) = struct.unpack("i", self.link.recv(4))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for file in (self.stdin, self.stdout, self.stderr):
            if file is not None:
                with suppress(BrokenPipeError):
                    file.close()
        self.wait()

    def wait(self):
        """Wait for the end; return the exit code, or minus the signal."""
        return self._receive_end(0)

    def poll(self):
        """Return the exit code if the program has ended, else None."""
        with suppress(BlockingIOError):
            self._receive_end(socket.MSG_DONTWAIT)
        return self.returncode

    def _receive_end(self, flags):
        if self.returncode is None:
            (self.returncode,) = struct.unpack("i", self.link.recv(4, flags))
            self.link.close()
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self):
        self.send_signal(signal.SIGKILL)

    def communicate(self, data=b""):
        """Write to its standard input, read all its output, wait for its end."""
        said = {}
        readers = [
            threading.Thread(target=lambda f=file: said.update({f: f.read()}))
            for file in (self.stdout, self.stderr)
            if file is not None
        ]
        for reader in readers:
            reader.start()
        if self.stdin is not None:
            with suppress(BrokenPipeError), self.stdin:
                self.stdin.write(data)
        for reader in readers:
            reader.join()
        self.wait()
        return said.get(self.stdout), said.get(self.stderr)


def _open_stream(wanted, mode):
    """Return the descriptor for the program, and our file at its other end or None."""
    if wanted == NOWHERE:
        return os.open(os.devnull, os.O_RDWR), None
    if wanted != PIPE:
        return wanted, None
    read, write = os.pipe()
    theirs, ours = (read, write) if mode == "w" else (write, read)
    return theirs, open(ours, mode + "b")


# The server


def serve(address, ready):
    """Fork for each request; return only within a program, with its arguments."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(64)
    os.write(ready, b"ready")
    os.close(ready)
    while True:
        if 0 in select.select([0, listener], [], [])[0]:
            sys.exit()  # the process that started this has ended
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:  # keepers that are done
                pass
        link, _ = listener.accept()
        head, given, _, _ = socket.recv_fds(link, 4, MAX_DESCRIPTORS)
        size = struct.unpack("I", head)[0]
        if os.fork():
            link.close()
            for descriptor in given:
                os.close(descriptor)
            continue
        listener.close()
        request = json.loads(link.recv(size, socket.MSG_WAITALL))
        child = os.fork()
        if child:
            _keep(link, child, given)
        link.close()
        return _become(request, given)


def _keep(link, child, given):
    """Report the process id, wait for the process, and report how it ended."""
    for descriptor in (0, 1, 2, *given):
        os.close(descriptor)
    with suppress(BrokenPipeError):
        link.sendall(struct.pack("i", child))
        status = os.waitpid(child, 0)[1]
        link.sendall(struct.pack("i", os.waitstatus_to_exitcode(status)))
    os._exit(0)


def _become(request, given):
    """Take the descriptors, the environment and the folder of a request."""
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # the runner of the tests may ignore it
    apart = [fcntl.fcntl(descriptor, fcntl.F_DUPFD, 2 * MAX_DESCRIPTORS) for descriptor in given]
    for descriptor in (0, 1, 2, *given):
        os.close(descriptor)
    for number, descriptor in zip(request["open"], apart, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)
    for number, (name, mode) in enumerate([("stdin", "r"), ("stdout", "w"), ("stderr", "w")]):
        file, old = None, getattr(sys, f"__{name}__")
        if number in request["open"]:
            how = {"encoding": old.encoding, "errors": old.errors, "closefd": False}
            file = open(number, mode, **how)  # noqa: SIM115
            file.reconfigure(line_buffering=file.line_buffering or number == 2)
        setattr(sys, name, file)
        setattr(sys, f"__{name}__", file)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    return request["arguments"]


def warm(modules):
    """Import modules, or what commands import; check that no thread is left."""
    from counterpoise.cli import app

    for name in modules:
        importlib.import_module(name)
    with app.lazy_imports():
        for name in MODULES if not modules else ():
            importlib.import_module(name)
        if not modules:
            import_commands()
    if not os.fork():
        os._exit(0)
    os.wait()  # OpenBLAS ends its threads at a fork, and starts others when it needs them
    threads = [Path(f"/proc/self/task/{task}/comm").read_text().strip()
               for task in os.listdir("/proc/self/task")]  # fmt: skip
    others = [name for name in threads if name != "jemalloc_bg_thd"]  # which handles forks
    assert len(others) == 1, f"a fork would lose threads: {threads}"
    gc.collect()
    gc.freeze()


def import_commands():
    """Import all commands and let each fail, because typer builds more when it reads arguments."""
    app = importlib.import_module("counterpoise.cli.app")
    more = {"learn": "-m X", "predict": "X", "evaluate": "X", "merge": "-o X", "unlearn": "X",
            "relabel": "X --new-label a", "export": "--output-format json -o X"}  # fmt: skip
    for name in app.COMMANDS:
        words = f"{name} X {more.get(name, '')}".replace("X", os.devnull).split()
        with suppress(app.USAGE, OSError, ValueError):
            app.resolve_command(name)(words, standalone_mode=False)


def run(first, *rest):
    """Run a program here; return its exit code. Other errors are left to the interpreter."""
    sys.modules["__main__"] = module = ModuleType("__main__")
    try:
        if first == "-c":
            sys.argv, sys.path[0] = ["-c", *rest[1:]], ""
            exec(rest[0], module.__dict__)
        elif first == "-m":
            sys.argv, sys.path[0] = list(rest), os.getcwd()
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        else:
            sys.argv, sys.path[0] = [first, *rest], os.path.dirname(first)
            runpy.run_path(first, run_name="__main__")
    except SystemExit as error:
        if not isinstance(error.code, int | None):
            raise
        return error.code or 0
    finally:
        module.__dict__.clear()  # files that it has left open are closed
    return 0


if __name__ == "__main__":
    warm(sys.argv[3:])
    program = serve(sys.argv[1], int(sys.argv[2]))
    code = run(*program)
    threading._shutdown()
    atexit._run_exitfuncs()
    # What is left to an interpreter that ends is to take its modules apart, which takes 0.1 s.
    with suppress(AttributeError, OSError, ValueError):  # it has words for streams that are closed
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code & 0xFF)
    sys.exit(code)
