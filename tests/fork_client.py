"""Client of ``fork_server`` for a shell: a program that runs with the streams of this process.

It imports little, because a page of commands starts it dozens of times.
"""

import json
import os
import signal
import socket
import struct
import sys


def connect(address, arguments, descriptors, cwd=None, env=None):
    """Return a connection by which the server runs a program with these descriptors."""
    request = {
        "arguments": arguments,
        "cwd": os.path.abspath(cwd or os.getcwd()),
        "env": dict(os.environ if env is None else env),
        "open": list(descriptors),
    }
    data = json.dumps(request).encode()
    link = socket.socket(socket.AF_UNIX)
    link.connect(address)
    socket.send_fds(link, [struct.pack("I", len(data))], list(descriptors.values()))
    link.sendall(data)
    return link


def ask(address, *arguments):
    """Run the program with the streams of this process, and end as it ends."""
    mine = [int(name) for name in os.listdir("/dev/fd")]
    mine = [number for number in mine if os.path.exists(f"/dev/fd/{number}")]  # not the listing
    link = connect(address, list(arguments), {number: number for number in mine})
    for number in mine:
        os.close(number)  # a pipe ends when the program closes it
    (pid,) = struct.unpack("i", link.recv(4))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    (code,) = struct.unpack("i", link.recv(4))
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code)


if __name__ == "__main__":
    ask(*sys.argv[1:])
