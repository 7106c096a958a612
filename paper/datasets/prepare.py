"""From public raw files to verified prepared files."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from sklearn.datasets import load_svmlight_file

from counterpoise.arrays import Matrix
from counterpoise.atomic_write import atomic_write

from . import verify
from .registry import DataSet, Raw

MISSING = "?"
OPENERS: dict[str, Callable[..., Any]] = {
    "": open,
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}


def prepare(one: DataSet, folder: Path, output: Path) -> Path:
    """Make the prepared file of a set."""
    if one.raw is None:
        raise ValueError(f"{one.name} has no public raw file: {one.encoding}")
    paths = [_find_file(folder, file) for file in one.raw.files]
    absent = [file for file, path in zip(one.raw.files, paths, strict=True) if path is None]
    if absent:
        raise FileNotFoundError(f"{one.name}: {', '.join(absent)} not found in {folder}")
    told = ", ".join(str(path) for path in paths)
    try:
        names, table = encode_raw_files(one, [path for path in paths if path is not None])
    except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        if getattr(error, "errno", None):  # the system's, not the decompressor's
            raise
        raise ValueError(f"{told} cannot be decompressed: {error}") from None
    try:
        verify(one, table)
    except ValueError as error:
        raise ValueError(f"{told}: {error}; is it the file of {one.origin}?") from None
    output.mkdir(parents=True, exist_ok=True)
    result = output / f"{one.name}.csv.gz"
    data = _compress(names, table)
    with atomic_write(result, "the prepared file") as file:
        file.write(data)
    return result


def has_raw(one: DataSet, folder: Path) -> bool:
    """Return True if a folder contains all raw files of a set."""
    return one.raw is not None and all(_all(folder, file) for file in one.raw.files)


def _all(folder: Path, file: str) -> list[Path]:
    found = (path for suffix in OPENERS for path in folder.rglob(file + suffix))
    return sorted(path for path in found if path.is_file())


def _find_file(folder: Path, file: str) -> Path | None:
    paths = _all(folder, file)
    if len(paths) > 1:
        raise ValueError(f"{paths[0]} and {paths[1]} both exist; keep one of them")
    return paths[0] if paths else None


def encode_raw_files(one: DataSet, paths: list[Path]) -> tuple[list[str], Matrix]:
    """Read the raw files of a set, in order: feature names, and a table of shape (n, d + 1) with
    the labels, −1 or 1, in the last column.
    """
    raw = one.raw or Raw(())
    if raw.separator == "libsvm":
        parts = []
        for path in paths:
            with _open(path) as file:
                try:
                    X, y = load_svmlight_file(file, n_features=one.dimension)
                except ValueError as error:
                    raise ValueError(f"{path}: {error}") from None
            parts.append(np.column_stack([X.toarray(), np.where(y == float(raw.positive), 1, -1)]))
        return [f"x{j + 1}" for j in range(one.dimension)], np.concatenate(parts)
    rows: list[tuple[str, list[str]]] = []
    head: list[str] = []
    for path in paths:
        lines = _fields(path, raw)
        if raw.header:
            head = next(lines, ("", []))[1]
        rows += lines
    return _numbers(one, raw, rows, head)


def _numbers(
    one: DataSet, raw: Raw, rows: list[tuple[str, list[str]]], head: list[str]
) -> tuple[list[str], Matrix]:
    if not rows:
        raise ValueError(f"{one.name}: the raw files contain no row")
    width = len(rows[0][1])
    wanted = one.dimension + 1 + len(raw.drop)
    if width != wanted:
        raise ValueError(f"{rows[0][0]}: {width} fields, but {one.name} has {wanted}")
    label = raw.label % width
    apart = {label, *(j % width for j in raw.drop)}
    features = [j for j in range(width) if j not in apart]
    short = next((where for where, fields in rows if len(fields) != width), None)
    if short:
        raise ValueError(f"{short}: the number of fields is not {width}, as in the first row")
    if raw.missing == "drop":
        rows = [row for row in rows if not any(row[1][j] == MISSING for j in features)]
    codes: dict[int, Any] = dict.fromkeys(features, raw.codes)
    for j in raw.categories:
        seen = sorted({fields[j] for _, fields in rows})
        codes[j] = {code: float(k) for k, code in enumerate(seen)}
    table = np.empty((len(rows), len(features) + 1))
    others = set()
    for i, (where, fields) in enumerate(rows):
        for k, j in enumerate(features):
            table[i, k] = _number(fields[j], codes[j], f"{where}, field {j + 1}")
        positive = _same(fields[label], raw.positive)
        table[i, -1] = 1.0 if positive else -1.0
        if not positive:
            others.add(fields[label])
    if len(others) > 1:
        raise ValueError(
            f"{one.name}: labels {', '.join(sorted(others)[:3])} and {raw.positive}; "
            f"there should be two, in field {label + 1}"
        )
    names = [head[j] if head else f"x{k + 1}" for k, j in enumerate(features)]
    return names, table


def _open(path: Path) -> IO[bytes]:
    file: IO[bytes] = OPENERS.get(path.suffix, open)(path, "rb")
    return file


def _fields(path: Path, raw: Raw) -> Iterator[tuple[str, list[str]]]:
    """Place and fields of each row; empty lines are skipped."""
    with io.TextIOWrapper(_open(path), encoding="utf-8-sig", errors="replace") as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                parts = line.strip().split(raw.separator)
                yield f"{path}, line {number}", [part.strip(' \t"') for part in parts]


def _number(text: str, codes: dict[str, float], where: str) -> float:
    if codes:
        if text not in codes:
            raise ValueError(f"{where}: {text!r} is not one of {', '.join(codes)}")
        return codes[text]
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{where}: {text!r} is not a number") from None


def _same(text: str, wanted: str) -> bool:
    """Return True if two labels are equal; 1, 1. and +1 are the same."""
    if text == wanted:
        return True
    try:
        return float(text) == float(wanted)
    except ValueError:
        return False


def _compress(names: list[str], table: Matrix) -> bytes:
    """Bytes of the prepared file; the same rows always give the same bytes."""
    head = ",".join([*names, "target"]) + "\n"
    rows = "".join([",".join(map(repr, row)) + "\n" for row in (table + 0.0).tolist()])  # no -0.0
    rows = rows.replace(".0,", ",").replace(".0\n", "\n")
    return gzip.compress((head + rows).encode(), mtime=0)
