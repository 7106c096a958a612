from typing import Any

from numpy.typing import NDArray

class SolverSpec:
    def __init__(
        self,
        b: float,
        rows: float,
        lives: NDArray[Any] | None,
        factor: NDArray[Any],
        order: NDArray[Any],
        balanced: bool,
        scale: str | None,
        intercept: str,
        together: bool,
        pooled_rows: float,
    ) -> None: ...

class StepSolver:
    def __init__(self, spec: SolverSpec, moments: Any) -> None: ...
    def run_steps(
        self,
        X: NDArray[Any],
        codes: NDArray[Any],
        delay: int,
        start: int,
        stop: int,
        scores: NDArray[Any],
    ) -> int: ...
    def learn_rows(self, X: NDArray[Any], codes: NDArray[Any], start: int, stop: int) -> None: ...
