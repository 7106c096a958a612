from typing import Any

from numpy.typing import NDArray

from counterpoise.exact._scorer import Scorer

class Linked:
    def __init__(self, scorer: Scorer, at: NDArray[Any], mass: NDArray[Any]) -> None: ...
