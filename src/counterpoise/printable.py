"""Text of others, fit to be shown: nothing in it moves a cursor, sets a colour or makes a link."""

from __future__ import annotations


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
