from typing import Any

from numpy.typing import NDArray

def add_cells(
    data: tuple[bytes, ...],
    w: NDArray[Any],
    anchor: NDArray[Any],
    mean: NDArray[Any],
    sums: NDArray[Any],
    row_hashes: NDArray[Any] | None,
) -> None: ...
