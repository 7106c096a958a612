from typing import Any, Protocol

from numpy.typing import NDArray

class Kernel(Protocol):
    def __call__(
        self,
        X: NDArray[Any],
        y: NDArray[Any],
        weight: NDArray[Any],
        delay: int,
        scores: NDArray[Any],
        parameters: NDArray[Any],
        work: NDArray[Any],
        stored: NDArray[Any],
        w: NDArray[Any],
        S: NDArray[Any],
        z: NDArray[Any],
        n: NDArray[Any],
        start: int,
        stop: int,
    ) -> None: ...

PERCEPTRON: Kernel
PA: Kernel
CW: dict[str, dict[str, Kernel]]
SCW: dict[str, Kernel]
AROW: dict[str, Kernel]
ACOG: dict[str, Kernel]
RLS: Kernel
AR_RLS: Kernel
IR_RLS: Kernel
NR_RLS: Kernel
BATCH: Kernel
