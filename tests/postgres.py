"""A PostgreSQL server for tests: an unprivileged user, a temporary folder, a Unix socket only.

with postgres_server() as server:
    connect(server.uri)
    server.kill()  # without a warning
    server.start()
"""

import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

USERS = ("postgres", "nobody")  # the first one that exists runs the server: root must not
START_SECONDS = 60  # until the server accepts connections


def find_programs():
    """Return the folder with the programs of the newest PostgreSQL, or None."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3])
    )
    path = found[-1] if found else shutil.which("initdb")
    return None if path is None else Path(path).resolve().parent


def find_user():
    """Return the arguments of a process that must not run as root."""
    if os.getuid() != 0:
        return {}
    names = {one.pw_name: one for one in pwd.getpwall()}
    user = next(names[name] for name in USERS if name in names)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


class PostgresServer:
    """A server in a folder: ``uri`` is that of its superuser, without a password."""

    def __init__(self, programs, folder, user):
        self._programs, self._folder, self._user = programs, folder, user
        self._process = None
        self.uri = f"postgresql://postgres@/postgres?host={folder}"
        self._run("initdb", "-D", f"{folder}/data", "-U", "postgres", "-A", "trust",
                  "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")  # fmt: skip

    def _run(self, program, *arguments):
        """Run a program of PostgreSQL, and return its exit code and output."""
        command = [self._programs / program, *arguments]
        streams = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
        done = subprocess.run(command, cwd=self._folder, **streams, **self._user)
        if program == "initdb" and done.returncode:
            raise RuntimeError(done.stderr)
        return done

    def start(self):
        """Start the server, and wait until it accepts connections."""
        options = {"listen_addresses": "", "fsync": "off", "unix_socket_directories": self._folder}
        settings = [text for name, value in options.items() for text in ("-c", f"{name}={value}")]
        command = [self._programs / "postgres", "-D", f"{self._folder}/data", *settings]
        end = time.monotonic() + START_SECONDS
        with open(f"{self._folder}/log", "ab") as log:
            streams = {"stdin": subprocess.DEVNULL, "stdout": log, "stderr": log}
            while self._process is None:
                # After a kill, the next server fails until the last process of this one has ended.
                server = subprocess.Popen(command, cwd=self._folder, **streams, **self._user)
                while server.poll() is None and time.monotonic() < end:
                    if self._run("pg_isready", "-q", "-h", self._folder).returncode == 0:
                        self._process = server
                        return
                    time.sleep(0.05)
                if time.monotonic() >= end:
                    server.kill()
                    server.wait()
                    raise RuntimeError(Path(self._folder, "log").read_text())
                time.sleep(0.05)

    def kill(self):
        """Kill the server without a warning; committed rows stay."""
        self._end(signal.SIGKILL)

    def restart(self):
        """Kill the server, and start it again."""
        self.kill()
        self.start()

    def stop(self):
        """End the server in an orderly manner, if it runs."""
        self._end(signal.SIGINT)

    def _end(self, number):
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.wait()


@contextmanager
def postgres_server():
    """Start a server that ends with the block; skip the test where PostgreSQL is absent."""
    programs = find_programs() if sys.platform != "win32" else None
    if programs is None:
        pytest.skip("requires a PostgreSQL server: apt-get install postgresql")
    user = find_user()
    # Every user may enter /tmp, and the path of a socket has at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="postgres-", dir="/tmp") as folder:
        if user:
            os.chown(folder, user["user"], user["group"])
        server = PostgresServer(programs, folder, user)
        try:
            server.start()
            yield server
        finally:
            server.stop()
