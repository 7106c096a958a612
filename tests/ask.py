"""A program for a shell that has another run by the server of ``forks``, with its own streams.

It imports little, for a page of commands starts it dozens of times.
"""

import json
import os
import signal
import socket
import struct
import sys


def asked(address, arguments, descriptors, cwd=None, env=None):
    """A connection to the server by which it was asked for a program with those descriptors."""
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
    """Have the program run with the streams of this process, and end as it ends."""
    mine = [int(name) for name in os.listdir("/dev/fd")]
    mine = [number for number in mine if os.path.exists(f"/dev/fd/{number}")]  # not the listing
    link = asked(address, list(arguments), {number: number for number in mine})
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
