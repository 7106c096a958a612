"""Maps of the features, for what is not linear: polynomials, products, random Fourier features.

All have one face: scikit-learn transformers that a pipeline can use, and that a classifier takes as
``features=...`` and composes with a scaling that does not look ahead.
"""

from counterpoise.features.fixed import WARMUP, FixedMap, Warmup, fixed, fixed_by
from counterpoise.features.fourier import RandomFourier
from counterpoise.features.maps import Map
from counterpoise.features.names import map_of
from counterpoise.features.polynomial import Interactions, Polynomial, ReducedPolynomial, terms
from counterpoise.features.union import Union

__all__ = [
    "WARMUP",
    "FixedMap",
    "Interactions",
    "Map",
    "Polynomial",
    "RandomFourier",
    "ReducedPolynomial",
    "Union",
    "Warmup",
    "fixed",
    "fixed_by",
    "map_of",
    "terms",
]
