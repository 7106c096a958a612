"""Files beside a file: its lock, and what is to become it when it is whole.

Their names say whose they are, and who uses one holds a lock of the system on it, which goes when
its owner does. So nothing is removed that is in use or was made by others. No other module locks
files.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress

WORD = b"counterpoise"  # how the contents of a lock begin
LONGEST = 200  # bytes of a name that leave room for more within the 255 of most systems


class BusyError(ValueError):
    """A file that another process is writing."""


def temporary_name(path: str) -> str:
    """Name for a file that is to be renamed when it is whole: beside it, hidden, and its own.

    Parameters
    ----------
    path : str
        What it will be.

    Returns
    -------
    str
    """
    return _name(path, f"-{secrets.token_hex(8)}.tmp")


def created(temporary: str) -> int:
    """Make a temporary file and hold it.

    Parameters
    ----------
    temporary : str
        Its name.

    Returns
    -------
    int
        Its descriptor, open for writing.
    """
    while True:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            _hold(descriptor, wait=True)
            if _is(temporary, descriptor):  # else it was tidied away before it was held
                return descriptor
        except BaseException:
            os.close(descriptor)
            with suppress(OSError):
                os.unlink(temporary)
            raise
        os.close(descriptor)


def discard_temporary(path: str | os.PathLike[str]) -> None:
    """Remove temporary files of a file that killed processes have left, and no others.

    Parameters
    ----------
    path : path
        What they were to become.
    """
    real = os.path.realpath(path)
    ours = re.compile(re.escape(os.path.basename(_name(real, ""))) + r"-[0-9a-f]{16}\.tmp")
    found: list[str] = []
    with suppress(OSError):  # who may not look into a folder may still write there
        found = [name for name in os.listdir(os.path.dirname(real)) if ours.fullmatch(name)]
    for name in found:
        temporary = os.path.join(os.path.dirname(real), name)
        with suppress(OSError):
            descriptor = os.open(temporary, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            try:
                if _hold(descriptor) and _is(temporary, descriptor):
                    os.unlink(temporary)
            finally:
                os.close(descriptor)


@contextmanager
def locked(path: str) -> Iterator[None]:
    """Keep others that ask for the same from writing a file.

    Parameters
    ----------
    path : str
        The file; it need not exist.

    Raises
    ------
    BusyError
        If another process has the lock.
    FileExistsError
        If something else has its name.
    """
    lock = _name(os.path.realpath(path), ".lock")
    while True:
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except OSError as error:
            raise type(error)(error.errno, error.strerror, path) from None
        try:
            if not _hold(descriptor):
                raise BusyError(
                    f"{path} is being written by another process; wait until it has ended"
                )
            if _is(lock, descriptor):  # else its owner has just removed it
                if os.read(descriptor, len(WORD)) not in (b"", WORD):
                    words = "is not a lock of ours; move it out of the way"
                    raise FileExistsError(errno.EEXIST, words, lock)
                break
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
    try:
        os.pwrite(descriptor, WORD + f" writes {os.path.basename(path)}\n".encode(), 0)
        discard_temporary(path)
        yield
    finally:
        if _is(lock, descriptor):
            os.unlink(lock)
        os.close(descriptor)


def _name(path: str, ending: str) -> str:
    folder, name = os.path.split(path)
    if len(os.fsencode(name)) > LONGEST:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return os.path.join(folder, f".{name}.counterpoise{ending}")


def _is(path: str, descriptor: int) -> bool:
    """Whether a path leads to the file that is open."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _hold(descriptor: int, wait: bool = False) -> bool:
    """Lock a file that is open; whether that is done, for another may have it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
        if not wait:
            raise
    return True
