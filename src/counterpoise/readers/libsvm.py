"""LIBSVM, or svmlight: a label, then ``feature:value`` pairs; other features are 0."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.errors import DataError
from counterpoise.readers._records import Lines
from counterpoise.readers.chunk import Chunk
from counterpoise.readers.text_source import RecordBlock

LABEL = "label"  # what the column of labels is called


class LibSVM:
    """Lines of numbered features, counted from 1."""

    header = False

    def records(self) -> Lines:
        """Return a walker over records."""
        return Lines()

    def begin(self, name: str, header: bytes) -> None:
        """There is no header."""

    def check(self, records: Any, name: str, row: int) -> None:
        """Nothing can be wrong before parsing."""

    def parse(
        self, piece: RecordBlock, name: str, kinds: Mapping[str, str], wanted: Callable[[str], bool]
    ) -> Chunk:
        """Parse whole lines into labels and a CSR matrix of entries."""
        try:
            X, y = _entries(piece.data)
            fault = None if len(y) == piece.rows else "lines and rows do not match"
        except Exception as error:
            fault = str(error)
        if fault is not None:
            raise _located(piece, name, fault)
        columns = {LABEL: pa.array(y)}
        return Chunk(name, piece.first, piece.rows, columns, piece.mark, table=False, entries=X)


def _entries(data: bytes) -> Any:
    from sklearn.datasets import load_svmlight_file  # slow to import

    X, y = load_svmlight_file(io.BytesIO(data), dtype=np.float64, zero_based=False)
    if X.nnz and X.indices.min() < 0:
        raise ValueError("features are counted from 1")
    return X, y


def _located(piece: RecordBlock, name: str, fault: str) -> DataError:
    """Error that names the first faulty line."""
    row = piece.first
    for line in piece.data.split(b"\n"):
        text = line.split(b"#")[0].strip()
        if not text:
            continue
        try:
            _, y = _entries(text + b"\n")
            if len(y) == 1:
                row += 1
                continue
        except Exception as error:
            fault = str(error)
        shown = text[:60].decode(errors="replace")
        return DataError(f"{name}, row {row}: {shown!r} cannot be read: {fault[:120]}")
    return DataError(f"{name}, rows from {piece.first}: {fault[:120]}")
