"""Figures of a page that needs no other file: drawn for light pages and for dark ones."""

from __future__ import annotations

import base64
import html
from collections.abc import Callable
from typing import Any

from counterpoise.evaluate import drawing, theme
from counterpoise.printable import printable


def figure(draw: Callable[[], Any], title: str, says: str) -> str:
    """A figure with its title and what it says."""
    made = draw()
    light = _image(made)
    with theme.dark():
        dark = _image(drawing.laid_out_as(draw(), made))
    source = f'<source media="(prefers-color-scheme: dark)" srcset="{dark}">'
    image = f'<picture>{source}<img alt="{text(title)}" src="{light}"></picture>'
    caption = f"<figcaption>{text(says)}</figcaption>"
    return f"<figure><h2>{text(title)}</h2>{image}{caption}</figure>"


def text(words: str) -> str:
    """Words that a page shows as they are."""
    return html.escape(printable(words))


def _image(made: drawing.Figure) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(drawing.svg(made).encode()).decode()}"
