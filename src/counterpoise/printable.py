"""Text of others, fit to be shown: nothing in it moves a cursor, sets a colour or makes a link."""

from __future__ import annotations

import math
from typing import Any


def printable(text: object, keep: str = "") -> str:
    r"""Text whose characters all can be seen; the others become their escapes.

    Parameters
    ----------
    text : object
        A label, a name, a path, a message.
    keep : str
        Characters that are ours, such as line ends.

    Returns
    -------
    str
        Different for different texts, unless somebody writes escapes himself.

    Examples
    --------
    >>> from counterpoise.printable import printable
    >>> print(printable("caf\u00e9 \x1b[31m\n"))
    café \x1b[31m\n
    """
    whole = str(text)
    if whole.isprintable():
        return whole
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in whole
    )


def finite(value: Any) -> Any:
    """A value as JSON can hold it: None where a number is not finite.

    Parameters
    ----------
    value : object
        Numbers, text, and lists and dicts of them.

    Returns
    -------
    object

    Examples
    --------
    >>> from counterpoise.printable import finite
    >>> finite({"offset": [1.5, float("-inf")]})
    {'offset': [1.5, None]}
    """
    if isinstance(value, dict):
        return {name: finite(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
