from typing import Any

from numpy.typing import NDArray

def gather(
    X: NDArray[Any],
    rows: NDArray[Any],
    weight: NDArray[Any],
    anchor: NDArray[Any],
    sample: int,
    centre: NDArray[Any],
    R: NDArray[Any],
    mean: NDArray[Any],
    away: NDArray[Any],
) -> float: ...
def add(
    slot: NDArray[Any],
    keep: NDArray[Any],
    n_b: NDArray[Any],
    N_b: NDArray[Any],
    mean_b: NDArray[Any],
    C_b: NDArray[Any],
    peak_b: NDArray[Any],
    away_b: NDArray[Any],
    low_b: NDArray[Any],
    high_b: NDArray[Any],
    scratch: NDArray[Any],
    n: NDArray[Any],
    N: NDArray[Any],
    mean: NDArray[Any],
    C: NDArray[Any],
    peak: NDArray[Any],
    away: NDArray[Any],
    low: NDArray[Any],
    high: NDArray[Any],
) -> None: ...
