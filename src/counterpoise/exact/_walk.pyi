from typing import Any

from numpy.typing import NDArray

from counterpoise.exact._scorer import Recipe, Scorer

class Walk(Scorer):
    counts: list[int]
    def __init__(self, recipe: Recipe, moments: Any, room: int) -> None: ...
    def walk(
        self,
        X: NDArray[Any],
        codes: NDArray[Any],
        delay: int,
        start: int,
        stop: int,
        size: int,
        tolerance: float,
        scores: NDArray[Any],
    ) -> int: ...
