"""Maps by name, as on the command line and in model files."""

from __future__ import annotations

import re
from typing import Any

from counterpoise.features.fourier import RandomFourier
from counterpoise.features.maps import Map
from counterpoise.features.polynomial import Interactions, Polynomial, ReducedPolynomial
from counterpoise.features.union import Union


def map_of(given: Any) -> Map:
    """A map by its name, or the map itself.

    Parameters
    ----------
    given : str or Map
        ``poly2``, ``interactions``, ``rm3``, ``rff:400``, ``rff:400,width=0.5,seed=1``,
        ``rff:400,width=0.5/1/2``, and several side by side: ``rm2+rff:300``.

    Returns
    -------
    Map

    Examples
    --------
    >>> from counterpoise.features import map_of
    >>> map_of("rff:400,width=0.5")
    RandomFourier(width=0.5)
    """
    if isinstance(given, Map):
        given.check()
        if getattr(given, "constant", False):
            raise ValueError("the classifier adds a constant itself; remove constant=True")
        again = _named(given.text)
        if type(again) is not type(given) or again.text != given.text:
            raise ValueError(
                f"features={given!r} has no name for a model file: orders have at most 3 digits, "
                "seeds at most 18, and only maps of counterpoise.features have names; use it as a "
                "step of a pipeline instead"
            )
        return given
    found = _named(given) if isinstance(given, str) else None
    if found is None:
        raise ValueError(
            f"features={given!r} is not known; use poly2 (or another order), interactions, rm3, "
            "rff:400, rff:400,width=0.5, several joined by a plus, or a map of "
            "counterpoise.features"
        )
    found.check()
    return found


def _named(text: str) -> Map | None:
    """The map of this name, one or several joined by a plus; None if there is none."""
    parts = [_read(part) for part in text.split("+")]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return known[0] if len(known) == 1 else Union(known)


def _read(text: str) -> Map | None:
    polynomial = re.fullmatch(r"(poly|rm|interactions)(\d{0,3})", text)
    if polynomial:
        kind = {"poly": Polynomial, "rm": ReducedPolynomial, "interactions": Interactions}
        return kind[polynomial[1]](int(polynomial[2] or 2))
    number = r"\d+(?:\.\d*)?(?:e-?\d+)?"
    fourier = re.fullmatch(
        rf"rff(?::(\d{{1,9}}))?(?:,width=({number}(?:/{number})*))?(?:,seed=(\d{{1,18}}))?", text
    )
    if not fourier:
        return None
    widths = tuple(map(float, (fourier[2] or "1").split("/")))
    width = widths if len(widths) > 1 else widths[0]
    return RandomFourier(int(fourier[1] or 400), width=width, seed=int(fourier[3] or 0))
