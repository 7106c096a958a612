from typing import Any

from numpy.typing import NDArray

def add_products(pending: list[tuple[int, Any, NDArray[Any]]], C: NDArray[Any]) -> None: ...
