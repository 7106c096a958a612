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
def merge_pairs(
    keys: NDArray[np.int64],
    weights: Vector,
    first: NDArray[np.int64],
    first_weights: Vector,
    second: NDArray[np.int64],
    second_weights: Vector,
) -> int: ...
def find_wrong_pair(
    keys: NDArray[np.int64], weights: Vector, n: Matrix, m: Matrix, bits: int, tolerance: float
) -> str: ...
