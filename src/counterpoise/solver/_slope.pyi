from typing import Any

from numpy.typing import NDArray

def find_slope(
    odds: NDArray[Any],
    count: NDArray[Any],
    middle: NDArray[Any],
    deviation: NDArray[Any],
    at: NDArray[Any],
    mass: NDArray[Any],
    start: float = 0.0,
) -> float: ...
