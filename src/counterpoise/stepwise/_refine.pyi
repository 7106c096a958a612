from counterpoise.stepwise._step_solver import StepSolver

class Refined:
    steps: int
    factors: int
    def __init__(self, scorer: StepSolver) -> None: ...
