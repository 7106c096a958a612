"""Maps of features for nonlinear boundaries: polynomials, products, random Fourier features.

All are scikit-learn transformers for a pipeline. A classifier takes them as ``features=...`` and
combines them with a scaling that uses no later rows.
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
