from typing import Any

from numpy.typing import NDArray

from counterpoise.stepwise._step_solver import StepSolver

class EventLink:
    def __init__(self, scorer: StepSolver, at: NDArray[Any], mass: NDArray[Any]) -> None: ...
