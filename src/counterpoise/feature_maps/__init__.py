"""Feature maps for nonlinear boundaries: polynomials, products, hinges, kernels.

All are scikit-learn transformers for a pipeline. A classifier takes them as ``feature_map=...`` and
combines them with a scaling that uses no later rows.
"""

from typing import TYPE_CHECKING, Any

from counterpoise.feature_maps.base import WARMUP as WARMUP
from counterpoise.feature_maps.base import Map as Map
from counterpoise.feature_maps.fitted import FittedMap, fit_map, make_fitted_map
from counterpoise.feature_maps.fitted import Warmup as Warmup
from counterpoise.feature_maps.polynomial import terms

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
    "fit_map",
    "make_fitted_map",
    "map_of",
    "terms",
]


def __getattr__(name: str) -> Any:
    """Import the transformers at their first use: models need only the maps behind them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from counterpoise.feature_maps import transformers

    return getattr(transformers, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
