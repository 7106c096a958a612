"""LIBSVM, or svmlight: a label, then ``feature:value`` pairs; other features are 0."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.errors import DataError
from counterpoise.readers.text_source import RecordBlock, TextFormat

LABEL = "label"  # name of the column of labels


class LibSVM(TextFormat):
    """Lines of numbered features, counted from 1."""

    def parse(
        self, block: RecordBlock, name: str, kinds: Mapping[str, str], wanted: Callable[[str], bool]
    ) -> dict[str, Any]:
        """Parse labels and a CSR matrix of entries."""
        try:
            X, y = _entries(block.data)
            fault = None if len(y) == block.rows else "lines and rows do not match"
        except Exception as error:
            fault = str(error)
        if fault is not None:
            raise _locate(block, name, fault)
        return {"columns": {LABEL: pa.array(y)}, "table": False, "entries": X}


def _entries(data: bytes) -> Any:
    from sklearn.datasets import load_svmlight_file  # slow to import

    X, y = load_svmlight_file(io.BytesIO(data), dtype=np.float64, zero_based=False)
    if X.nnz and X.indices.min() < 0:
        raise ValueError("features are counted from 1")
    return X, y


def _locate(block: RecordBlock, name: str, fault: str) -> DataError:
    """Return the error about the first line that cannot be read."""
    row = block.first
    for line in block.data.split(b"\n"):
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
    return DataError(f"{name}, rows from {block.first}: {fault[:120]}")
