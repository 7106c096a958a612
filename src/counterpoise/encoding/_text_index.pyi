import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Vector

class TextIndex:
    count: int
    def extend(self, values: list[str]) -> None: ...
    def find(
        self,
        ends: NDArray[np.int32],
        text: NDArray[np.uint8],
        valid: NDArray[np.uint8] | None,
        codes: Vector,
    ) -> None: ...
