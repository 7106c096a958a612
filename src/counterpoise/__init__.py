"""Exact online classification of imbalanced streams."""

from counterpoise.classifier import BalancedRidgeClassifier
from counterpoise.model import PrecisionWarning
from counterpoise.moments import Moments

__version__ = "0.1.0"
__all__ = ["BalancedRidgeClassifier", "Moments", "PrecisionWarning"]
