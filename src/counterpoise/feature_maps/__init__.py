"""Feature maps for nonlinear boundaries.

- ``Polynomial``, ``ReducedPolynomial``, ``Interactions``: products of features
- ``Hinges``, ``Ranks``, ``Steps``: piecewise functions of features
- ``RandomFourier``, ``Landmarks``: approximations of a kernel
- ``MapUnion``: several maps, one after the other
- ``make_fitted_map``, ``fit_map``, ``FittedMap``: a map with fixed parameters
- ``map_of``, ``terms``: the map of a transformer, the number of its mapped features

All are scikit-learn transformers for a pipeline. A classifier takes them as ``feature_map=...`` and
combines them with a scaling that uses no later rows.
"""

from typing import TYPE_CHECKING

from counterpoise.feature_maps.base import WARMUP as WARMUP
from counterpoise.feature_maps.base import Map as Map
from counterpoise.feature_maps.fitted import FittedMap, fit_map, make_fitted_map
from counterpoise.feature_maps.fitted import Warmup as Warmup
from counterpoise.feature_maps.polynomial import terms
from counterpoise.public_names import lazy_names

if TYPE_CHECKING:
    from counterpoise.feature_maps.transformers import (
        Hinges,
        Interactions,
        Landmarks,
        MapUnion,
        Polynomial,
        RandomFourier,
        Ranks,
        ReducedPolynomial,
        Steps,
        map_of,
    )

__all__ = [
    "FittedMap",
    "Hinges",
    "Interactions",
    "Landmarks",
    "MapUnion",
    "Polynomial",
    "RandomFourier",
    "Ranks",
    "ReducedPolynomial",
    "Steps",
    "fit_map",
    "make_fitted_map",
    "map_of",
    "terms",
]
# Models need only the maps behind the transformers.
__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(__all__, "transformers"))
