"""Maps of features for nonlinear boundaries: polynomials, products, hinges, kernels.

All are scikit-learn transformers for a pipeline. A classifier takes them as ``features=...`` and
combines them with a scaling that uses no later rows.
"""

from typing import TYPE_CHECKING, Any

from counterpoise.features.fixed import FixedMap, fixed, fixed_by
from counterpoise.features.fixed import Warmup as Warmup  # for our own rooms, as are the next two
from counterpoise.features.maps import WARMUP as WARMUP
from counterpoise.features.maps import Map as Map
from counterpoise.features.polynomial import terms

if TYPE_CHECKING:
    from counterpoise.features.transformers import (
        Hinges,
        Interactions,
        Landmarks,
        Polynomial,
        RandomFourier,
        Ranks,
        ReducedPolynomial,
        Union,
        map_of,
    )

__all__ = [
    "FixedMap",
    "Hinges",
    "Interactions",
    "Landmarks",
    "Polynomial",
    "RandomFourier",
    "Ranks",
    "ReducedPolynomial",
    "Union",
    "fixed",
    "fixed_by",
    "map_of",
    "terms",
]


def __getattr__(name: str) -> Any:
    """Import the transformers when one is asked for: models need only the maps behind them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from counterpoise.features import transformers

    return getattr(transformers, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
