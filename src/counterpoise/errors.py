"""Exceptions and warnings that users may catch.

- ``DataError``: input that cannot be used; the message contains the place, the problem and a fix
- ``BusyError``: a model or ledger that another process is writing
- ``ConflictError``: an event whose id was used before, with other values
- ``ModelFileError``: a file that does not contain a valid model
- ``PrecisionError``: rows that cannot be unlearned, because too few digits would be left
- ``UnknownRowsError``: rows that cannot be unlearned, because they were never learned
- ``PrecisionWarning``: unlearning that cost digits

All errors are a ``ValueError``. A message names a setting as Python does, for example
``columns={"amount": "drop"}``. The command line formats it as options.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = [
    "BusyError",
    "ConflictError",
    "DataError",
    "ModelFileError",
    "PrecisionError",
    "PrecisionWarning",
    "UnknownRowsError",
]


def printable(text: object, keep: str = "") -> str:
    r"""Return text whose invisible characters, except those in ``keep``, are escaped, as \x1b."""
    whole = str(text)
    if whole.isprintable():
        return whole
    return "".join(
        c if c.isprintable() or c in keep else c.encode("unicode_escape").decode() for c in whole
    )


def finite(value: Any) -> Any:
    """Return a value for JSON, with None where a number is not finite."""
    if isinstance(value, dict):
        return {name: finite(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class OptionValue(NamedTuple):
    """A setting, perhaps with a value."""

    option: str  # its name in Python
    value: Any = None  # None if only the setting is meant, or the user chooses the value


Spelling = Callable[..., str]  # of settings
Words = str | Sequence[str | OptionValue]


@dataclass(frozen=True)
class Suggestion:
    """An action that solves a problem."""

    words: str  # the action
    option: str | None = None  # the setting for it, by its name in Python
    value: Any = None  # its value
    also: tuple[OptionValue, ...] = ()  # other settings that it requires

    def format_with(self, spell: Spelling) -> str:
        """Return the action as text; the setting replaces {} or follows."""
        if self.option is None:
            return self.words
        shown = spell(OptionValue(self.option, self.value), *self.also)
        before, place, after = self.words.partition("{}")
        return f"{before}{shown}{after}" if place else f"{before} with {shown}"


class Message:
    """A problem, and suggestions, one of which is enough."""

    def __init__(self, problem: Words, *remedies: Suggestion) -> None:
        self.problem = (problem,) if isinstance(problem, str) else tuple(problem)
        self.remedies = remedies

    def after(self, words: str) -> Message:
        """Return the message with words before it."""
        return Message((words, *self.problem), *self.remedies)

    def format_with(self, spell: Spelling) -> str:
        """Return the message as text, with settings spelled by a function."""
        problem = "".join(p if isinstance(p, str) else spell(p) for p in self.problem)
        listed = [remedy.format_with(spell) for remedy in self.remedies]
        if len(listed) > 1:
            listed = [f"{', '.join(listed[:-1])}, or {listed[-1]}"]
        return "; ".join([problem, *listed])

    def __str__(self) -> str:
        return self.format_with(format_as_arguments)


class DataError(ValueError):
    """Input that cannot be used; the message contains the place, the problem and a fix.

    Parameters
    ----------
    problem : str or sequence of str and OptionValue
        The value found, and where.
    *remedies : Suggestion
        Actions, one of which is enough.

    Attributes
    ----------
    message : Message
        The problem and the suggestions.
    row : int or None
        Position of the row in its chunk, if the problem is in one row.
    field : str or None
        The field of an event, if the problem is in one field.

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

    row: int | None = None
    field: str | None = None

    def __init__(self, problem: Words, *remedies: Suggestion) -> None:
        super().__init__(problem, *remedies)
        self.message = Message(problem, *remedies)

    def __str__(self) -> str:
        return str(self.message)


def suggest(name: str, known: Iterable[str]) -> list[Suggestion]:
    """Return the suggestion of the known name that is most like another, if one is like it."""
    from difflib import get_close_matches

    by_lower = {one.lower(): one for one in known}
    close = get_close_matches(name.lower(), by_lower)
    letters = sorted(name.lower())
    close.sort(key=lambda one: sorted(one) != letters)  # swapped letters first
    return [Suggestion(f"did you mean {by_lower[one]!r}?") for one in close[:1]]


def unknown_name(place: str, what: str, name: str, known: Iterable[str]) -> DataError:
    """Return the error about a name that is not one of those that an option may have."""
    choices = list(known)
    several = f"{what}es" if what.endswith("s") else f"{what}s"
    text = f"{place}: unknown {what} {name!r} ({several}: {', '.join(choices)})"
    return DataError(text, *suggest(name, choices))


class BusyError(DataError):
    """A model or ledger that another process is writing.

    Parameters
    ----------
    problem : str or sequence of str and OptionValue
        The file.
    *remedies : Suggestion
        Actions, one of which is enough.

    Examples
    --------
    >>> from counterpoise.errors import BusyError, DataError
    >>> issubclass(BusyError, DataError)
    True
    """


class ConflictError(DataError):
    """An event whose id was used before, with other values.

    Parameters
    ----------
    problem : str or sequence of str and OptionValue
        The id.
    *remedies : Suggestion
        Actions, one of which is enough.

    Examples
    --------
    >>> from counterpoise.errors import ConflictError, DataError
    >>> issubclass(ConflictError, DataError)
    True
    """


class ModelFileError(ValueError):
    """A file that does not contain a valid model.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from counterpoise import BalancedRidgeClassifier
    >>> from counterpoise.errors import ModelFileError
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "model.safetensors"
    >>> _ = path.write_bytes(b"no model")
    >>> try:
    ...     BalancedRidgeClassifier.load(path)
    ... except ModelFileError as error:
    ...     print(str(error).removeprefix(str(path.parent)))
    /model.safetensors is not a counterpoise model file, or it is damaged or truncated
    """


class PrecisionError(ValueError):
    """Rows that cannot be unlearned, because too few digits would be left.

    Parameters
    ----------
    message : str
        The problem.
    feature : int, optional
        Index of the feature that would lose its digits.

    Examples
    --------
    >>> from counterpoise import BalancedRidgeClassifier
    >>> from counterpoise.errors import PrecisionError
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [1e9]], [0, 1, 0, 1, 1]
    >>> model = BalancedRidgeClassifier().fit(X, y)
    >>> try:
    ...     model.unlearn(X[4:], y[4:])
    ... except PrecisionError as error:
    ...     print(error)
    unlearning this would leave feature 0 with less than three correct digits: ...
    """

    def __init__(self, message: str, feature: int | None = None) -> None:
        super().__init__(message)
        self.feature = feature


class UnknownRowsError(PrecisionError):
    """Rows that cannot be unlearned, because they or earlier ones were never learned.

    Parameters
    ----------
    message : str
        The problem.
    feature : int, optional
        Index of the feature that shows it.

    Examples
    --------
    >>> from counterpoise import BalancedRidgeClassifier
    >>> from counterpoise.errors import UnknownRowsError
    >>> model = BalancedRidgeClassifier().fit([[0.0], [1.0], [2.0]], [0, 1, 1])
    >>> try:
    ...     model.unlearn([[5.0], [6.0]], [1, 1])
    ... except UnknownRowsError as error:
    ...     print(error)
    cannot unlearn the last rows of class 1: the rows unlearned so far differ from those that ...
    """


class PrecisionWarning(UserWarning):
    """Unlearning that cost digits.

    Examples
    --------
    >>> import warnings
    >>> from counterpoise import BalancedRidgeClassifier
    >>> from counterpoise.errors import PrecisionWarning
    >>> X, y = [[0.0], [1.0], [2.0], [3.0], [1e5]], [0, 1, 0, 1, 1]
    >>> model = BalancedRidgeClassifier().fit(X, y)
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", PrecisionWarning)
    ...     model = model.unlearn(X[4:], y[4:])
    >>> print(caught[0].message)
    feature 0 keeps about 6 correct digits: what was unlearned varied or weighed so much more ...
    """


def format_as_arguments(*settings: OptionValue) -> str:
    """Spell settings as arguments."""
    shown = []
    for option, value in settings:
        plain = isinstance(value, (bool, int, float))
        text = str(value) if plain else json.dumps(value, ensure_ascii=False)
        shown.append(option if value is None else f"{option}={text}")
    return ", ".join(shown)
