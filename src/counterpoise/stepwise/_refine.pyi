from counterpoise.stepwise._step_solver import StepSolver

class RefinedSolver:
    steps: int
    factors: int
    def __init__(self, scorer: StepSolver) -> None: ...
