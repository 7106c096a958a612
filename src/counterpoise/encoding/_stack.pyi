from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Matrix, Vector

def stack_columns(columns: list[Vector], limit: float) -> tuple[Matrix, Vector, Vector] | None: ...
def text_codes(ends: NDArray[np.int32], text: Any) -> tuple[NDArray[np.intp], list[int]] | None: ...
