"""Online rules of the paper, and the batch solutions that two of them equal.

- ``Perceptron``, ``PassiveAggressive``: first-order rules
- ``ConfidenceWeighted``, ``SoftConfidenceWeighted``, ``AROW``, ``ACOG``: rules with a covariance
- ``RLS``, ``ARRLS``: recursive least squares, and its reweighted form
- ``IRRLS``, ``NRRLS``: recursions that equal the class-balanced batch solution
- ``LS``, ``TER``: batch least squares, and total error rate minimization

"The paper" is Se-In Jang, "Deterministic Online Classification: Non-iteratively Reweighted
Recursive Least-Squares for Binary Class Rebalancing", ICML 2023.
"""

from counterpoise.online.acog import ACOG
from counterpoise.online.arow import AROW
from counterpoise.online.confidence_weighted import ConfidenceWeighted, SoftConfidenceWeighted
from counterpoise.online.least_squares import LS, TER
from counterpoise.online.nr_rls import NRRLS
from counterpoise.online.passive_aggressive import PassiveAggressive
from counterpoise.online.perceptron import Perceptron
from counterpoise.online.rls import ARRLS, IRRLS, RLS

__all__ = [
    "ACOG",
    "AROW",
    "ARRLS",
    "IRRLS",
    "LS",
    "NRRLS",
    "RLS",
    "TER",
    "ConfidenceWeighted",
    "PassiveAggressive",
    "Perceptron",
    "SoftConfidenceWeighted",
]
