from typing import Any

from counterpoise.arrays import Vector

def join_rows(
    columns: list[tuple[Vector | None, Any, Any, Any]], n: int, delimiter: int
) -> bytes: ...
