"""What is wrong with data, and what to do about it, in the language of whoever reads it.

A setting is an option in a shell and an argument in Python: ``drop=["amount"]``. Who finds a
problem names the setting as Python does; who shows the message spells it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple


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
    >>> from counterpoise.errors import printable
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
    >>> from counterpoise.errors import finite
    >>> finite({"offset": [1.5, float("-inf")]})
    {'offset': [1.5, None]}
    """
    if isinstance(value, dict):
        return {name: finite(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class OptionValue(NamedTuple):
    """A setting, perhaps with a value.

    Attributes
    ----------
    option : str
        What Python calls it.
    value : object, optional
        None if only the setting is meant, or the value is up to the reader.
    """

    option: str
    value: Any = None


Spelling = Callable[..., str]  # of settings
Words = str | Sequence[str | OptionValue]


@dataclass(frozen=True)
class Suggestion:
    """Something that can be done about a problem.

    Attributes
    ----------
    words : str
        What to do. The setting is put in place of ``{}``, or follows with "with" before it.
    option : str, optional
        The setting that does it, as Python calls it.
    value : object, optional
        Its value.
    also : tuple of Setting
        What must be set besides.

    Examples
    --------
    >>> from counterpoise.errors import DataError, Suggestion
    >>> raise DataError("no value in column 'age'", Suggestion("leave it out", "drop", ["age"]))
    Traceback (most recent call last):
        ...
    counterpoise.errors.DataError: no value in column 'age'; leave it out with drop=["age"]
    """

    words: str
    option: str | None = None
    value: Any = None
    also: tuple[OptionValue, ...] = ()

    def spelled(self, spell: Spelling) -> str:
        """In words.

        Parameters
        ----------
        spell : callable
            Spells settings.

        Returns
        -------
        str
        """
        if self.option is None:
            return self.words
        shown = spell(OptionValue(self.option, self.value), *self.also)
        before, place, after = self.words.partition("{}")
        return f"{before}{shown}{after}" if place else f"{before} with {shown}"


class Message:
    """What somebody should be told: a problem, and what can be done.

    Parameters
    ----------
    problem : str or sequence of str and Setting
        What was found, and where.
    *remedies : Remedy
        What to do; one of them is enough.

    Examples
    --------
    >>> from counterpoise.errors import Message, Suggestion
    >>> print(Message("no value in column 'a'", Suggestion("leave the column out", "drop", ["a"])))
    no value in column 'a'; leave the column out with drop=["a"]
    """

    def __init__(self, problem: Words, *remedies: Suggestion) -> None:
        self.problem = (problem,) if isinstance(problem, str) else tuple(problem)
        self.remedies = remedies

    def after(self, words: str) -> Message:
        """Return the same, with words before it."""
        return Message((words, *self.problem), *self.remedies)

    def spelled(self, spell: Spelling) -> str:
        """In words.

        Parameters
        ----------
        spell : callable
            Spells settings.

        Returns
        -------
        str
        """
        problem = "".join(p if isinstance(p, str) else spell(p) for p in self.problem)
        listed = [remedy.spelled(spell) for remedy in self.remedies]
        if len(listed) > 1:
            listed = [f"{', '.join(listed[:-1])}, or {listed[-1]}"]
        return "; ".join([problem, *listed])

    def __str__(self) -> str:
        return self.spelled(format_as_arguments)


class DataError(ValueError):
    """Input that cannot be used; the message says where, what was found, and what to do.

    Parameters
    ----------
    problem : str or sequence of str and Setting
        What was found, and where.
    *remedies : Remedy
        What to do; one of them is enough.

    Attributes
    ----------
    message : Message
        Both.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from counterpoise import TableClassifier
    >>> from counterpoise.errors import DataError
    >>> table = pa.table({"amount": [1.0, None], "fraud": ["no", "yes"]})
    >>> try:
    ...     TableClassifier(missing="error").fit(table, "fraud")
    ... except DataError as error:
    ...     print(error)
    the frame, row 2: no value in column 'amount'; fill it by the mean with missing="mean", ...
    """

    def __init__(self, problem: Words, *remedies: Suggestion) -> None:
        super().__init__(problem, *remedies)
        self.message = Message(problem, *remedies)

    def __str__(self) -> str:
        return str(self.message)


def format_as_arguments(*settings: OptionValue) -> str:
    """Spell settings as arguments.

    Parameters
    ----------
    *settings : Setting
        The settings.

    Returns
    -------
    str
        For example ``drop=["amount"]``, or the name alone where there is no value.
    """
    shown = []
    for option, value in settings:
        plain = isinstance(value, (bool, int, float))
        text = str(value) if plain else json.dumps(value, ensure_ascii=False)
        shown.append(option if value is None else f"{option}={text}")
    return ", ".join(shown)
