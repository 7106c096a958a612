from typing import Any

from numpy.typing import NDArray

from counterpoise.stepwise._step_solver import SolverSpec, StepSolver

class BlockScorer(StepSolver):
    counts: list[int]
    def __init__(self, spec: SolverSpec, moments: Any, room: int) -> None: ...
    def run_blocks(
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
