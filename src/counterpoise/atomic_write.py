"""Files that appear when they are complete, and locks.

A file is written under a temporary name in the same folder, synchronized to the disk, and renamed.
Meanwhile its writer has a lock, which the system releases when the writer ends in any way. So the
files of killed processes can be removed, and files in use stay.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any

from counterpoise.errors import BusyError, DataError

if TYPE_CHECKING:
    from filelock import BaseFileLock


MAX_NAME_BYTES = 200  # bytes of a name; most systems allow 255, and temporary files add a suffix
SECONDS_BETWEEN_TRIES = 0.05  # to take a lock
TRIES = 1000  # names for a temporary file before it is written without a lock


@contextmanager
def atomic_write(path: str | os.PathLike[str], what: str = "the file") -> Iterator[IO[bytes]]:
    """Open a file for writing; it appears when the block ends, or not at all."""
    path = os.path.realpath(path)
    if os.path.exists(path) and not os.path.isfile(path):  # no renaming there
        with open(path, "wb") as file:
            yield file
        return
    discard_temporary(path)
    with _lock_temporary(path) as temporary:
        try:
            with _open_temporary(temporary, path) as file:
                yield file
            os.replace(temporary, path)
        except OSError as error:
            if error.filename not in (None, temporary):  # about another file
                raise
            reason = error.strerror or str(error)
            raise type(error)(
                error.errno, f"{reason}; {what} was not saved and any older file is as it was", path
            ) from None
        finally:
            with suppress(OSError):
                os.unlink(temporary)
    _sync(os.path.dirname(path))


def discard_temporary(path: str | os.PathLike[str]) -> None:
    """Remove temporary files of a file that killed processes have left, and no others."""
    folder, name = os.path.split(hidden_sibling_path(os.path.realpath(path), ""))
    ours = re.compile(re.escape(name) + r"-[0-9a-f]{16}\.tmp")
    found: list[str] = []
    with suppress(OSError):  # a folder may be writable but not readable
        found = sorted({one.removesuffix(".lock") for one in os.listdir(folder)})
    for temporary in (os.path.join(folder, one) for one in found if ours.fullmatch(one)):
        with suppress(OSError):  # another process writes it
            lock = lock_of(temporary + ".lock")
            take(lock)
            try:
                if stat.S_ISREG(os.lstat(temporary).st_mode):
                    os.unlink(temporary)
            finally:
                free(lock)


def hidden_sibling_path(path: str, ending: str) -> str:
    """Return the name of a hidden file in the folder of a file."""
    folder, name = os.path.split(path)
    if len(os.fsencode(name)) > MAX_NAME_BYTES:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return os.path.join(folder, f".{name}.counterpoise{ending}")


def lock_of(name: str) -> BaseFileLock:
    """Return a lock that the system releases when its owner ends."""
    from filelock import FileLock  # a slow import, which reading a model does not need

    return FileLock(name, thread_local=False)


def take(lock: BaseFileLock) -> None:
    """Acquire a lock without waiting."""
    os.stat(os.path.dirname(lock.lock_file) or os.curdir)  # or filelock would make the folder
    lock.acquire(blocking=False)


def free(lock: BaseFileLock) -> None:
    """Release a lock and remove its file."""
    if not is_soft_lock(lock):  # a soft lock is its file
        with suppress(OSError):  # open files stay on Windows, where releasing removes them
            os.unlink(lock.lock_file)
    lock.release()


def is_soft_lock(lock: BaseFileLock) -> bool:
    """Return whether a lock is only the existence of a file, for systems without locks."""
    from filelock import SoftFileLock

    return isinstance(lock, SoftFileLock)


@contextmanager
def _lock_temporary(path: str) -> Iterator[str]:
    """Return a new name for a temporary file, locked if the system has locks."""
    for _ in range(TRIES):
        temporary = hidden_sibling_path(path, f"-{secrets.token_hex(8)}.tmp")
        lock = lock_of(temporary + ".lock")
        try:
            take(lock)
            break
        except TimeoutError:  # a process that removes old files has it, and would remove this one
            continue
        except OSError:  # there are no locks; creating the file shows what is wrong
            break
    try:
        yield temporary
    finally:
        if lock.is_locked:
            free(lock)


@contextmanager
def _open_temporary(temporary: str, path: str) -> Iterator[IO[bytes]]:
    """Create a file that will replace another one; on the disk, and closed, at the end."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    raw = _Raw(os.open(temporary, flags, 0o666))
    try:
        if hasattr(os, "fchmod"):
            with suppress(FileNotFoundError):
                os.fchmod(raw.fileno(), os.stat(path).st_mode & 0o777)
        file = io.BufferedWriter(raw)
        yield file
        file.flush()
        os.fsync(raw.fileno())
        raw.close()  # which may raise
    except BaseException:
        with suppress(OSError):
            raw.close()
        raise


class _Raw(io.RawIOBase):
    """A descriptor as a file, whose errors are those of the system."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        return os.write(self._descriptor, data)

    def close(self) -> None:
        if not self.closed:
            super().close()
            os.close(self._descriptor)


def _sync(folder: str) -> None:
    """Synchronize a rename to the disk, where folders can be opened."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    finally:
        os.close(descriptor)


PREFIX = b"counterpoise"  # of the contents of a lock


def require_file(path: str) -> None:
    """Raise if something else than a file has a name."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode):
        raise DataError(f"{path} is not a file but a folder, a pipe or a device; name a file")


@contextmanager
def lock_file(path: str, wait: float = 0.0) -> Iterator[None]:
    """Keep other processes from writing a file, by a lock that ends with its owner.

    Raises BusyError if another process still has the lock after ``wait`` seconds, and
    FileExistsError if another file has its name.
    """
    from filelock import Timeout

    require_file(path)
    deadline = time.monotonic() + wait
    name = hidden_sibling_path(os.path.realpath(path), ".lock")
    lock = lock_of(name)
    while True:
        before = _inode(name)
        if not is_soft_lock(lock):
            _require_ours(name)
        try:
            take(lock)
            break
        except Timeout:
            after = _inode(name)
            if before == after is not None:  # else its owner has just removed it
                if time.monotonic() >= deadline:
                    raise BusyError(
                        f"{path} is being written by another process; wait until it has ended"
                    ) from None
                time.sleep(SECONDS_BETWEEN_TRIES)
            if before is after is None and not is_soft_lock(lock):
                try:  # create the file of the lock, or raise why that is not possible
                    os.close(os.open(name, os.O_WRONLY | os.O_CREAT, 0o666))
                except OSError as error:
                    raise type(error)(error.errno, error.strerror, path) from None
        except OSError as error:
            raise type(error)(error.errno, error.strerror or str(error), path) from None
    try:
        if not is_soft_lock(lock):
            with suppress(OSError), open(name, "r+b") as file:
                file.write(PREFIX + f" writes {os.path.basename(path)}\n".encode())
        discard_temporary(path)
        yield
    finally:
        free(lock)


def _inode(name: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(name)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _require_ours(name: str) -> None:
    """Raise if a file that has the name of a lock is something else."""
    start = b"link"
    if not os.path.islink(name):
        try:
            with open(name, "rb") as file:
                start = file.read(len(PREFIX))
        except OSError:  # it does not exist, or may not be read while it is locked
            return
    if start not in (b"", PREFIX):
        raise FileExistsError(errno.EEXIST, "is not a lock of ours; move it out of the way", name)
