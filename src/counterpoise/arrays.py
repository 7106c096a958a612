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
