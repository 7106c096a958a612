"""Reasons by the columns of the input: what is made of one column counts together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from counterpoise.arrays import Matrix, Rows
from counterpoise.encoding.encoding import Encoding
from counterpoise.modelfile.learned import Learned
from counterpoise.reasons import Reasons


def reasons_of(learned: Learned, encoding: Encoding, X: Rows) -> Reasons:
    """Reasons of encoded rows by column, a category's features together."""
    columns = [feature.column for feature in encoding.features]
    return learned.explain(X, columns).grouped(columns)


def names_of(k: int) -> list[str]:
    """Names of the output columns of k reasons."""
    return [name for i in range(1, k + 1) for name in (f"reason_{i}", f"share_{i}")]


def columns_of(reasons: Reasons, k: int, sign: float = 1.0) -> list[Any]:
    """Return the k largest contributions of each row and their shares, arrays of shape (n,).

    A share is the contribution over the sum of the absolute values of all contributions. It is
    positive where the column raises the score: of two classes the score of the second one times
    ``sign``, of several that of the predicted class.
    """
    names, values = reasons.top(k)
    size = np.abs(reasons.decisive).sum(axis=1, keepdims=True)
    shares: Matrix = np.divide(sign * values, size, out=np.zeros_like(values), where=size > 0)
    found: list[Any] = []
    for i in range(k):
        there = i < names.shape[1]
        found.append(pa.array(names[:, i] if there else [None] * len(size), pa.string()))
        found.append(pa.array(shares[:, i] if there else [None] * len(size), pa.float64()))
    return found
