from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Matrix, Vector

def sum_rows(
    n: Vector,
    sums: Matrix,
    X: Matrix,
    rows: NDArray[np.intp],
    index: NDArray[np.intp],
    weight: Vector,
    origin: Vector,
) -> None: ...
def add_columns(steps: list[Any]) -> None: ...
