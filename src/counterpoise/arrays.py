"""Names for the kinds of arrays that pass from hand to hand."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
Labels = NDArray[Any]
Flags = NDArray[np.bool_]
Rows = Any  # a C-ordered float64 matrix, or a CSR one
Counts = NDArray[np.int64]


def scatters(c: int, d: int) -> NDArray[np.float64]:
    """Zeros of shape (c, d, d) that begin at a line of the cache: rows add up faster there."""
    size = c * d * d
    store = np.zeros(size + 7)
    at = -store.__array_interface__["data"][0] % 64 // 8
    return store[at : at + size].reshape(c, d, d)
