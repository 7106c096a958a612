"""All rows of files in memory, to race methods on them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from counterpoise import streams
from counterpoise.arrays import Flags, Labels, Matrix, Vector
from counterpoise.encoding.columns import Columns
from counterpoise.encoding.encoding import Encoding
from counterpoise.jobs.begin import require_label
from counterpoise.jobs.learn import CHUNK_ROWS
from counterpoise.streams import DataError, Mark

MOST_BYTES = 4e9  # of a matrix in memory


def read(
    files: list[str], columns: Mapping[str, Any], reading: Mapping[str, Any]
) -> tuple[Matrix, Labels, list[str]]:
    """Read all rows of files, which may be patterns, into memory.

    ``columns`` are fields of Columns that the user has set, ``reading`` options of
    :func:`counterpoise.streams.source`. Return X (n, d), y (n,) and the d names of the features.
    """
    paths = streams.expanded(files)
    columns = streams.with_label(columns, paths, reading.get("format"))
    require_label(columns)
    encoding = Encoding(Columns(**columns))
    parts, labels = [], []
    for path in paths:
        kinds = encoding.columns.read(encoding.columns.told)
        source = streams.source(path, **reading)
        for chunk in source.chunks(CHUNK_ROWS, Mark(), kinds, encoding.columns.wanted):
            encoded, encoding = encoding.learn(chunk)
            kinds.update(encoding.columns.read(encoding.kinds))
            parts.append(encoded.X)
            labels.append(encoded.y)
    n, d = sum(len(y) for y in labels), len(encoding.features)
    if not n or not d:
        raise DataError("there are no rows, or no columns, to learn from")
    if 8.0 * n * d > MOST_BYTES:
        raise DataError(
            f"{n:,} rows of {d:,} features do not fit into memory; race on a part of them, for "
            "example the output of head"
        )
    X, at = np.zeros((n, d)), 0
    for part in parts:
        rows = part if isinstance(part, np.ndarray) else part.toarray()
        X[at : at + len(rows), : rows.shape[1]] = rows
        at += len(rows)
    for j, by, base in zip(*encoding.fill, strict=True):
        _fill(X[:, j], X[:, by] != 0.0, base)
    return X, np.concatenate(labels), [feature.name for feature in encoding.features]


def _fill(x: Vector, gone: Flags, base: float) -> None:
    """Fill missing values, in place, by the mean of those before them: no row knows the future."""
    seen = ~gone
    count = np.cumsum(seen)
    total = np.cumsum(np.where(seen, x - base, 0.0))
    x[gone] = base + (total / np.maximum(count, 1))[gone]
