"""The lock of a model file: two processes never both learn into it.

It lies beside the model, and its system's lock goes when its owner does, so that nobody need tidy
up after a crash.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from counterpoise.atomic import beside, discard_temporary, free, lock_of, soft, take
from counterpoise.streams import DataError

WORD = b"counterpoise"  # how the contents of a lock begin


class BusyError(DataError):
    """A model that another process is writing."""


def require_file(path: str) -> None:
    """Raise if something else than a file has a name; asked once, as files come and go."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode):
        raise DataError(f"{path} is not a file but a folder, a pipe or a device; name a file")


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Keep others from writing a file: a lock beside it, which goes when its owner does.

    Raises BusyError if another process has the lock, and FileExistsError if something else has its
    name.
    """
    from filelock import Timeout

    require_file(path)
    name = beside(os.path.realpath(path), ".lock")
    lock = lock_of(name)
    while True:
        before = _inode(name)
        if not soft(lock):
            _require_ours(name)
        try:
            take(lock)
            break
        except Timeout:
            after = _inode(name)
            if before == after is not None:  # else its owner has just removed it
                raise BusyError(
                    f"{path} is being written by another process; wait until it has ended"
                ) from None
            if before is after is None and not soft(lock):
                _make(name, path)
        except OSError as error:
            raise type(error)(error.errno, error.strerror or str(error), path) from None
    try:
        if not soft(lock):
            with suppress(OSError), open(name, "r+b") as file:
                file.write(WORD + f" writes {os.path.basename(path)}\n".encode())
        discard_temporary(path)
        yield
    finally:
        free(lock)


def _make(name: str, path: str) -> None:
    """Make the file of a lock, or say why none can be made."""
    try:
        os.close(os.open(name, os.O_WRONLY | os.O_CREAT, 0o666))
    except OSError as error:
        raise type(error)(error.errno, error.strerror, path) from None


def _inode(name: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(name)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _require_ours(name: str) -> None:
    """Raise if a file that has the name of a lock is something else."""
    if os.path.islink(name):
        raise FileExistsError(errno.EEXIST, "is not a lock of ours; move it out of the way", name)
    try:
        with open(name, "rb") as file:
            start = file.read(len(WORD))
    except OSError:  # it is not there, or may not be read while it is held
        return
    if start not in (b"", WORD):
        raise FileExistsError(errno.EEXIST, "is not a lock of ours; move it out of the way", name)
