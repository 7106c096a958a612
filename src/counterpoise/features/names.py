"""Maps by name, as on the command line and in model files."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from counterpoise.features.fourier import RandomFourier
from counterpoise.features.hinges import Hinges
from counterpoise.features.landmarks import Landmarks
from counterpoise.features.maps import Map
from counterpoise.features.polynomial import Interactions, Polynomial, ReducedPolynomial
from counterpoise.features.ranks import Ranks
from counterpoise.features.union import Union

Kinds = Mapping[str, Callable[..., Map]]
KINDS: Kinds = {
    "poly": Polynomial,
    "rm": ReducedPolynomial,
    "interactions": Interactions,
    "rff": RandomFourier,
    "hinges": Hinges,
    "ranks": Ranks,
    "landmarks": Landmarks,
    "+": Union,
}


def map_of(given: Any, kinds: Kinds = KINDS) -> Map:
    """A map by its name, of these kinds, or the map itself; see ``map_of`` of the transformers."""
    if isinstance(given, Map):
        given.check()
        if getattr(given, "constant", False):
            raise ValueError("the classifier adds a constant itself; remove constant=True")
        again = _named(given.text, KINDS)
        ours = type(given).__module__.rpartition(".")[0] == __package__
        if (
            again is None
            or not (ours and isinstance(given, type(again)))
            or again.text != given.text
        ):
            raise ValueError(
                f"features={given!r} has no name for a model file: orders have at most 3 digits, "
                "seeds at most 18, and only maps of counterpoise.features have names; use it as a "
                "step of a pipeline instead"
            )
        return given
    found = _named(given, kinds) if isinstance(given, str) else None
    if found is None:
        raise ValueError(
            f"features={given!r} is not known; use poly2 (or another order), interactions, rm3, "
            "hinges, ranks, landmarks:256, rff:400, rff:400,width=0.5, several joined by a plus, "
            "or a map of counterpoise.features"
        )
    found.check()
    return found


def _named(text: str, kinds: Kinds) -> Map | None:
    """The map of this name, one or several joined by a plus; None if there is none."""
    parts = [_read(part, kinds) for part in text.split("+")]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return known[0] if len(known) == 1 else kinds["+"](known)


def _read(text: str, kinds: Kinds) -> Map | None:
    if text == "ranks":
        return kinds[text]()
    counted = re.fullmatch(r"(poly|rm|interactions|hinges)(\d{0,3})", text)
    if counted:
        usual = 3 if counted[1] == "hinges" else 2
        return kinds[counted[1]](int(counted[2] or usual))
    number = r"\d+(?:\.\d*)?(?:e-?\d+)?"
    width = rf"(?:,width=({number}(?:/{number})*))?"
    marks = re.fullmatch(rf"landmarks(?::(\d{{1,9}}))?{width}", text)
    if marks:
        return kinds["landmarks"](int(marks[1] or 256), width=_widths(marks[2]))
    fourier = re.fullmatch(rf"rff(?::(\d{{1,9}}))?{width}(?:,seed=(\d{{1,18}}))?", text)
    if not fourier:
        return None
    terms, seed = int(fourier[1] or 400), int(fourier[3] or 0)
    return kinds["rff"](terms, width=_widths(fourier[2]), seed=seed)


def _widths(text: str | None) -> float | tuple[float, ...]:
    widths = tuple(map(float, (text or "1").split("/")))
    return widths if len(widths) > 1 else widths[0]
