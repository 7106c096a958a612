"""Columns and features: what somebody wants of the columns, and what a feature is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple


class Feature(NamedTuple):
    """One feature.

    Attributes
    ----------
    column : str
        The column that it comes from.
    kind : str
        "number", "category", "bucket" (of a hashed column), "cycle" (of a date) or "missing".
    value : str
        The category, the number of the bucket, or which cycle; else empty.
    """

    column: str
    kind: str
    value: str = ""

    @property
    def name(self) -> str:
        """What to call it."""
        return feature_name(*self)


@dataclass(frozen=True)
class Columns:
    """What somebody wants of the columns.

    Attributes
    ----------
    label : str
        Column of the labels.
    weight : str, optional
        Column of the weights of rows.
    drop, keep : tuple of str
        Columns to leave out, or the only ones to keep.
    numeric, categorical, time, date : tuple of str
        Columns that are numbers, categories, times (learned as seconds), dates (learned as seconds
        and where they are in the day, the week and the year) whatever they look like.
    hashed : mapping of str to int
        Columns of text to be spread over so many buckets.
    seed : int
        For the hashes.
    missing : str
        "mean", "indicate", "drop" or "error".
    classes : tuple of str
        The only labels that there may be, as they are written; none for any.
    decimal : str
        The decimal sign of numbers that are written as text: "." or ",".
    time_format : str, optional
        How dates are written that are not ISO 8601, as ``strptime`` has it.
    clock : str, optional
        Column of the time of each row, by which rows fade. It is no feature.
    """

    label: str
    weight: str | None = None
    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    numeric: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    time: tuple[str, ...] = ()
    hashed: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    missing: str = "mean"
    classes: tuple[str, ...] = ()
    decimal: str = "."
    time_format: str | None = None
    date: tuple[str, ...] = ()
    clock: str | None = None

    @property
    def indicated(self) -> bool:
        """Whether a row that lacks a value is kept, with a feature that says so."""
        return self.missing in ("mean", "indicate")

    @cached_property
    def _apart(self) -> frozenset[str]:
        return frozenset(filter(None, (self.label, self.weight, self.clock, *self.drop)))

    @cached_property
    def _kept(self) -> frozenset[str]:
        return frozenset(self.keep)

    def feature(self, name: str) -> bool:
        """Whether a column is to become features."""
        return name not in self._apart and (not self.keep or name in self._kept)

    def features_among(self, names: Iterable[str]) -> list[str]:
        """Return those of some columns that become features, in order."""
        return [name for name in names if self.feature(name)]

    def wanted(self, name: str) -> bool:
        """Whether a column is needed at all for learning."""
        return name in (self.label, self.weight, self.clock) or self.feature(name)

    @cached_property
    def told(self) -> dict[str, str]:
        """Kinds of columns that were told, by name."""
        kinds = dict.fromkeys(self.numeric, "number")
        kinds |= dict.fromkeys(self.categorical, "text")
        kinds |= dict.fromkeys(self.time, "time") | dict.fromkeys(self.date, "date")
        return kinds | dict.fromkeys(self.hashed, "hash")

    def read(self, kinds: Mapping[str, str]) -> dict[str, str]:
        """Kinds of columns for a reader, which knows numbers with a decimal point only."""
        kinds = kinds if self.clock is None else {**kinds, self.clock: "time"}
        return {c: kind for c, kind in kinds.items() if kind != "number" or self.decimal == "."}

    @property
    def named(self) -> dict[str, str]:
        """Columns that somebody named, and by which setting."""
        result = {self.label: "label"} | ({self.weight: "weight"} if self.weight else {})
        result |= {self.clock: "clock"} if self.clock else {}
        for option in ("drop", "keep", "numeric", "categorical", "time", "date", "hashed"):
            result |= dict.fromkeys(getattr(self, option), option)
        return result


def feature_name(column: str, kind: str, value: str) -> str:
    """Return what to call a feature that was made of a column."""
    if kind == "number":
        return column
    if kind == "missing":
        return f"{column} is missing"
    if kind == "cycle":
        return f"{column} {value}"
    return f"{column}{'=' if kind == 'category' else '#'}{value}"
