"""What was learned from a stream: the model, its columns, and how many rows of which input."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from counterpoise.arrays import Counts, Matrix
from counterpoise.encoding.columns import Feature
from counterpoise.encoding.cycles import VALUES
from counterpoise.encoding.encoding import Encoding
from counterpoise.errors import Remedy
from counterpoise.jobs.gone import Ranges, count
from counterpoise.modelfile.learned import Learned
from counterpoise.streams import DataError, Mark

if TYPE_CHECKING:
    from counterpoise.jobs.models import Model

FRAMES = "-frames"  # the name of all frames in the records; no file and no pipe has it
PENDING = "-pending"  # the name of the store of pending events in the records
TIMES = 1_000_000  # that an input may count
MOST_RECENT = 10_000  # scores of the last rows
M = TypeVar("M")


@dataclass(frozen=True)
class Record:
    """What was learned from one input.

    Attributes
    ----------
    mark : Mark
        How far it was read.
    starts : tuple of str
        Hashes of its first rows, by which it is known if it comes back under another name.
    dropped : int
        Rows that were left out because values are missing.
    times : int
        How often its rows count: models that have both learned it may have been merged.
    gone : tuple of (int, int)
        Ranges of rows, counted from 0, that were taken back since.
    relabeled : tuple of (label, ranges)
        Rows that now count with another label than the input has, by their present label.
    """

    mark: Mark = field(default_factory=Mark)
    starts: tuple[str, ...] = ()
    dropped: int = 0
    times: int = 1
    gone: Ranges = ()
    relabeled: tuple[tuple[Any, Ranges], ...] = ()

    def begins_like(self, starts: tuple[str, ...]) -> bool:
        """Return whether an input with these hashes of its first rows begins like this one."""
        both = min(len(starts), len(self.starts))
        return both > 0 and starts[both - 1] == self.starts[both - 1]


@dataclass(frozen=True)
class Apart:
    """Rows that were learned or taken back apart from the inputs.

    Attributes
    ----------
    rows : int
        Those learned less those taken back.
    hashes : tuple of str
        Of what was taken back from pipes, so that it is not taken back twice.
    """

    rows: int = 0
    hashes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Window:
    """Progressive scores of rows that no line of a metrics file is about yet.

    Attributes
    ----------
    rows : int
        Rows that had ever been learned when the last line was written.
    counts : tuple of (label, label, int)
        True label, predicted label, and how often since then.
    """

    rows: int
    counts: tuple[tuple[Any, Any, int], ...] = ()


@dataclass(frozen=True, eq=False)
class Kept(Generic[M]):
    """What a file that was learned from a stream holds.

    Attributes
    ----------
    model : BalancedRidgeClassifier, ChoosingClassifier or Learned
        The model, without names of features, or what predictions need of it.
    encoding : Encoding
        How columns become features.
    records : dict of str to Record
        What was learned from where.
    chunk_rows : int
        Rows learned at a time.
    positive : label, optional
        The class that alerts are about.
    settled : int
        Rows that were read when a run last ended.
    recent : ndarray of shape (m, problems), optional
        How the rows that were learned last stand, see :mod:`counterpoise.jobs.recent`.
    window : Window, optional
        What a metrics file does not say yet.
    held : ndarray of shape (d,), optional
        Learned rows that have a value for each feature; None if somebody has not counted.
    forgotten : int
        Rows that were read and forgotten since.
    apart : Apart
        Rows that were learned or taken back apart from the inputs.
    """

    model: M
    encoding: Encoding
    records: dict[str, Record]
    chunk_rows: int
    positive: Any = None
    settled: int = 0
    recent: Matrix | None = None
    window: Window | None = None
    held: Counts | None = None
    forgotten: int = 0
    apart: Apart = Apart()


Stored: TypeAlias = Kept["Model"]  # to learn more
Scoring: TypeAlias = Kept[Learned]  # to predict


def sometimes(stored: Kept[Any]) -> frozenset[str]:
    """Return the columns that some of the rows of a model did not have, and that were 0 there.

    None of them if nobody has counted.
    """
    if stored.held is None:
        return frozenset()
    records = stored.records.values()
    rows = stored.apart.rows + sum(
        (record.mark.rows - record.dropped - count(record.gone)) * record.times
        for record in records
    )
    there: dict[str, int] = {}
    for feature, held in zip(stored.encoding.features, stored.held.tolist(), strict=True):
        there[feature.column] = there.get(feature.column, 0) + held
    return frozenset(column for column, held in there.items() if held < rows)


def input_key(path: str, model: str) -> str:
    """Return the name of a file in the records of a model: its path relative to the model's folder.

    It never begins with ``-``, as the name of standard input does.
    """
    real = os.path.realpath(path)
    if os.path.exists(path) and not os.path.exists(real):  # /dev/fd/63: a pipe has no name
        real = os.path.abspath(path)
    try:
        key = os.path.relpath(real, os.path.dirname(os.path.realpath(model)))
    except ValueError:  # on another drive
        key = real
    return os.path.join(".", key) if key.startswith("-") else key


def require_learned(stored: Stored, path: str) -> Stored:
    """Return what is stored, or raise if it has learned nothing, or has forgotten it all."""
    if not stored.model.__sklearn_is_fitted__():
        raise emptied(path)
    return stored


def emptied(path: str) -> DataError:
    """Return the error that nothing is left in a file."""
    return DataError(f"{path} is empty: everything that it had learned was forgotten")


def undecided(path: str) -> DataError:
    """Return the error that a model which chooses cannot forget."""
    return DataError(
        f"{path} holds a model that chooses by itself: the rows that it keeps, and by which it "
        "chooses, depend on their order, so that it cannot forget",
        Remedy("learn one that begins with its choice: {}", "features", path),
    )


def fits(feature: Feature, encoding: Encoding) -> bool:
    """Return whether a feature could have come from the columns as they are known."""
    kind, columns = encoding.kinds.get(feature.column), encoding.columns
    if feature.kind == "bucket":
        possible = kind == "hash" and _is_below(
            feature.value, columns.hashed.get(feature.column, 0)
        )
    elif feature.kind == "category":
        possible = kind == "text"
    else:
        numbers = feature.kind == "missing" or kind in ("number", "time", "date")
        possible = feature.value == "" and numbers
    if feature.kind == "cycle":
        possible = kind == "date" and feature.value in VALUES
    return possible and columns.feature(feature.column)


def _is_below(text: str, most: int) -> bool:
    """Whether a text is a whole number as Python writes it, from 0 to below another."""
    digits = text.isascii() and text.isdigit() and len(text) <= len(str(most))
    return digits and str(int(text)) == text and int(text) < most
