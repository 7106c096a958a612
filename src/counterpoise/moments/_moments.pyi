from typing import Any

from numpy.typing import NDArray

def weigh(rows: NDArray[Any], weight: NDArray[Any], n: float) -> tuple[float, float]: ...
def two_groups(y: NDArray[Any], one: int, two: int, rows: NDArray[Any]) -> tuple[int, int]: ...
def is_bounded(moments: Any, largest: float, heaviest: float) -> bool: ...
def describe_nonzero(moments: Any) -> NDArray[Any]: ...
def hash_sparse(
    data: NDArray[Any],
    indices: NDArray[Any],
    indptr: NDArray[Any],
    weight: NDArray[Any],
    row_hashes: NDArray[Any],
) -> None: ...
def fill_moments(
    N: NDArray[Any],
    anchor: NDArray[Any],
    mean: NDArray[Any],
    C: NDArray[Any],
    at: NDArray[Any],
    by: NDArray[Any],
    base: NDArray[Any],
    present: NDArray[Any],
    shift: NDArray[Any],
    anchor_out: NDArray[Any],
    mean_out: NDArray[Any],
    C_out: NDArray[Any],
) -> None: ...
def fold(bits: NDArray[Any], result: NDArray[Any]) -> None: ...
def best_anchors(moments: Any) -> NDArray[Any] | None: ...

MIN_DECAYED_CLASS_WEIGHT: float

def add(
    slot: NDArray[Any],
    keep: NDArray[Any] | None,
    share: float,
    b: Any,
    a: Any,
    holder: Any = None,
    state: dict[str, Any] | None = None,
    change: Any = None,
) -> None: ...
def add_all(changes: list[tuple[Any, ...]], holder: Any, state: dict[str, Any]) -> None: ...
def decay(a: Any, share: float) -> None: ...
