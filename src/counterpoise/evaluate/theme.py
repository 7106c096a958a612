"""Figures for light pages and for dark ones: the same colours, as light as the page needs them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb

INK = "#dddddd"  # of text on dark pages
PAPER = "#16181c"  # what dark pages are like
QUIET = "#a0a0a0"


@contextmanager
def dark() -> Iterator[None]:
    """Draw for dark pages for as long as this lasts."""
    options: dict[Any, str] = {
        **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), QUIET),
        **dict.fromkeys(("text.color", "axes.labelcolor"), INK),
        **dict.fromkeys(("xtick.labelcolor", "ytick.labelcolor"), INK),
        **dict.fromkeys(("figure.facecolor", "axes.facecolor"), PAPER),
    }
    with matplotlib.rc_context(options):
        yield


def is_dark() -> bool:
    """Whether figures are being drawn for dark pages."""
    return bool(matplotlib.rcParams["text.color"] == INK)


def ink() -> str:
    """Colour of text and of strong lines."""
    return INK if is_dark() else "black"


def quiet() -> str:
    """Colour of what is less important."""
    return QUIET if is_dark() else "#666666"


def shade(colour: str) -> str:
    """A colour for the current page: unchanged on light pages, lighter on dark ones."""
    if not is_dark():
        return colour
    red, green, blue = (0.65 * part + 0.35 for part in to_rgb(colour))
    return to_hex((red, green, blue))


def blues() -> Any:
    """Colours of shares, from that of the page to blue."""
    if not is_dark():
        return "Blues"
    return LinearSegmentedColormap.from_list("blues", [PAPER, "#1f6fb5"])
