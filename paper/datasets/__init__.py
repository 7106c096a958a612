"""The paper's data sets: a registry, and their prepared files.

A prepared file is ``name.csv.gz``: a header, the features in their original units, and last the
label, −1 or 1. It is in the folder named by COUNTERPOISE_DATA, or in the cache folder.
Nothing is downloaded: ``python -m paper data prepare DIR`` makes such files from public raw ones.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import zlib
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Matrix

from .registry import SETS, DataSet, Raw

__all__ = ["SETS", "DataSet", "Raw", "find", "folders", "known", "load", "verify"]
VARIABLE = "COUNTERPOISE_DATA"


def get_data_set(name: str) -> DataSet:
    """Return a set by its name, for example "ijcnn1"."""
    if name not in SETS:
        raise ValueError(f"{name!r} is not one of the paper's data sets: {', '.join(SETS)}")
    return SETS[name]


def folders() -> list[Path]:
    """Return the folders of prepared files; new files are written into the first."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    named = os.environ.get(VARIABLE)
    return [*([Path(named).expanduser()] if named else []), Path(cache) / "counterpoise"]


def find(name: str) -> Path | None:
    """Return the path of the prepared file of a set, or None."""
    file = f"{get_data_set(name).name}.csv.gz"
    return next((folder / file for folder in folders() if (folder / file).is_file()), None)


def load(name: str) -> tuple[Matrix, NDArray[np.int64]]:
    """Load rows (n, d) and labels (n,) in {−1, 1} of one set, in the order of its source."""
    one, path = get_data_set(name), find(name)
    if path is None:
        raise FileNotFoundError(f"{name}.csv.gz is not prepared: {remedy(one)}")
    table = _read(path, path.stat().st_mtime_ns, name)
    return np.array(table[:, :-1], order="C"), table[:, -1].astype(np.int64)


def remedy(one: DataSet) -> str:
    """Describe how to obtain a set whose prepared file does not exist."""
    places = " or ".join(_shorten_home(folder) for folder in folders())
    here = f"into {places}" + ("" if os.environ.get(VARIABLE) else f", or set {VARIABLE}")
    if one.raw is None:
        return f"put a copy of the prepared file {here} ({one.origin}; {one.encoding})"
    them = "them" if len(one.raw.files) > 1 else "it"
    return (
        f"fetch {' and '.join(one.raw.files)} from {one.origin}, put {them} into a folder DIR, run "
        f"'python -m paper data prepare DIR'; or put a copy of the prepared file {here}"
    )


def _shorten_home(path: Path) -> str:
    return f"~/{path.relative_to(Path.home())}" if path.is_relative_to(Path.home()) else str(path)


@lru_cache(maxsize=4)
def _read(path: Path, _: int, name: str) -> Matrix:
    """Read the table of a file; the time of its last change is part of the cache key."""
    try:
        with gzip.open(path, "rt") as file:
            table = np.loadtxt(file, delimiter=",", skiprows=1, ndmin=2)
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} is not a prepared file ({error}); remove it") from None
    try:
        verify(get_data_set(name), table)
    except ValueError as error:
        raise ValueError(f"{path}: {error}; remove the file and prepare it again") from None
    return table


def verify(one: DataSet, table: Matrix) -> None:
    """Raise unless shape, label counts and checksum of a table are the registered ones."""
    if table.shape != (one.size, one.dimension + 1):
        raise ValueError(
            f"{table.shape[0]:,} rows of {table.shape[1] - 1} features, but {one.name} has "
            f"{one.size:,} rows of {one.dimension}"
        )
    positives, negatives = (int((table[:, -1] == label).sum()) for label in (1.0, -1.0))
    if (positives, negatives) != (one.positives, one.negatives):
        raise ValueError(
            f"{positives:,} labels 1 and {negatives:,} labels -1, but {one.name} has "
            f"{one.positives:,} and {one.negatives:,}"
        )
    # + 0.0 turns −0 into 0.
    found = hashlib.sha256(np.ascontiguousarray(table + 0.0, dtype="<f8").tobytes()).hexdigest()
    if found != one.sha256:
        raise ValueError(
            f"the shape is that of {one.name}, but values or the order of the rows differ "
            f"(checksum {found[:12]}, registered {one.sha256[:12]})"
        )
