from typing import Any

from numpy.typing import NDArray

from counterpoise.stepwise._refine import RefinedSolver
from counterpoise.stepwise._step_solver import StepSolver

def learn_all(
    scorers: list[StepSolver],
    rows: list[NDArray[Any]],
    k: int,
    omega: float,
    clipped: list[NDArray[Any]],
    holder: Any,
    state: dict[str, Any],
) -> None: ...

class Events:
    refined: RefinedSolver | None
    def __init__(self, scorer: StepSolver, names: list[Any], learn_only: bool = ...) -> None: ...
    def changed(self) -> None: ...
    def learn(
        self, row: Any, k: int, omega: float, clipped: NDArray[Any] | None = None
    ) -> bool: ...
    def learn_at(
        self,
        row: Any,
        k: int,
        omega: float,
        life: float,
        t: float,
        moments: Any,
        clipped: NDArray[Any] | None = None,
    ) -> bool: ...
    def all_seen(self) -> bool: ...
    def best(self, row: Any) -> int: ...
    def scores(self, row: Any) -> list[float] | None: ...
    def reasons(self, row: dict[Any, Any], at: int) -> dict[Any, float] | None: ...
    def probabilities(self, row: Any, stream: bool) -> list[float] | None: ...
