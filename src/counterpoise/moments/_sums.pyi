from typing import Any

from numpy.typing import NDArray

def gather(
    X: NDArray[Any],
    rows: NDArray[Any],
    weight: NDArray[Any],
    anchor: NDArray[Any],
    sample: int,
    work: NDArray[Any],
    centre: NDArray[Any],
    mean: NDArray[Any],
    C: NDArray[Any],
    nonconstant_weight: NDArray[Any],
    row_hashes: NDArray[Any] | None,
) -> float: ...
def gather_groups(
    X: NDArray[Any],
    ends: NDArray[Any],
    anchor: NDArray[Any],
    mean: NDArray[Any],
    triangle: NDArray[Any],
    nonconstant_weight: NDArray[Any],
    row_hashes: NDArray[Any],
) -> None: ...
def sum_about(
    X: NDArray[Any], rows: NDArray[Any], weight: NDArray[Any], place: NDArray[Any]
) -> NDArray[Any]: ...
def workspace_size(d: int, m: int) -> int: ...
def recentre(n: float, about: NDArray[Any], C: NDArray[Any], anyway: bool) -> bool: ...
