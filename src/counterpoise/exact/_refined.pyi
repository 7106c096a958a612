from counterpoise.exact._scorer import Scorer

class Refined:
    steps: int
    factors: int
    def __init__(self, scorer: Scorer) -> None: ...
