"""What a ledger knows besides its cells: settings, columns, labels, segments, and its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from counterpoise.arrays import Labels
from counterpoise.encoding.columns import Columns, Feature
from counterpoise.encoding.encoding import Encoding
from counterpoise.errors import DataError, Remedy, Setting
from counterpoise.jobs.begin import shown
from counterpoise.jobs.store import Record
from counterpoise.ledger import buckets, totals
from counterpoise.ledger.storage import File
from counterpoise.streams import Mark

MOST = 1000  # values of a column that segments are made of


@dataclass(frozen=True)
class Beside(Columns):
    """Columns of a ledger: some are read that are no features, for they say which cell it is.

    Attributes
    ----------
    beside : tuple of str
        The column of the time, and those of the segments.
    """

    beside: tuple[str, ...] = ()

    def wanted(self, name: str) -> bool:
        """Whether a column is needed at all for learning."""
        return name in self.beside or super().wanted(name)

    def of_a_model(self) -> Columns:
        """The same for a model, which has no use for the time."""
        return Columns(**{f.name: getattr(self, f.name) for f in fields(Columns)})


@dataclass(frozen=True)
class Settings:
    """How rows are put into cells.

    Attributes
    ----------
    time : str
        Column of the time.
    every : str
        Size of the buckets.
    by : tuple of str
        Columns of the segments.
    most : int
        How many values such a column may have.
    """

    time: str
    every: str = "day"
    by: tuple[str, ...] = ()
    most: int = MOST


@dataclass
class Book:
    """All of it; :meth:`write` writes what has changed since it was read.

    Attributes
    ----------
    settings : Settings
        How rows are put into cells.
    encoding : Encoding
        How columns become features.
    labels, segments : list
        Classes, and values of the columns of segments, by number.
    records : dict of str to Record
        What was learned from where.
    coarse : list of (int, str)
        Until when which coarser buckets are kept.
    dropped : int, optional
        Until when everything was dropped.
    change : int
        Counts what was written.
    """

    settings: Settings
    encoding: Encoding
    labels: list[Any] = field(default_factory=list)
    segments: list[tuple[str | None, ...]] = field(default_factory=list)
    records: dict[str, Record] = field(default_factory=dict)
    coarse: list[tuple[int, str]] = field(default_factory=list)
    dropped: int | None = None
    change: int = 0
    _written: tuple[int, int] = (0, 0)

    @classmethod
    def begun(cls, given: Mapping[str, Any], path: str) -> Book:
        """A new one, from what somebody has named."""
        for name, what in (("label", "labels"), ("time", "time")):
            if not given.get(name):
                raise DataError(
                    f"{path} does not exist, and no column is named as the {name}",
                    Remedy(f"name the column that holds the {what}", name),
                )
        settings = Settings(
            given["time"], given.get("every", "day"), given.get("by", ()), given.get("most", MOST)
        )
        buckets.require_every(settings.every)
        own = {f.name for f in fields(Settings)}
        columns = {name: value for name, value in given.items() if name not in own}
        _require_apart(settings, columns)
        drop = tuple(sorted({*columns.get("drop", ()), settings.time}))
        kept = [name for name in settings.by if name not in drop]
        text = tuple(
            sorted({*columns.get("categorical", ()), *kept} - {*columns.get("hashed", ())})
        )
        columns = {**columns, "drop": drop, "categorical": text}
        beside = Beside(**columns, beside=(settings.time, *settings.by))
        return cls(settings, Encoding(beside))

    @classmethod
    def read(cls, file: File, given: Mapping[str, Any]) -> Book:
        """What is in a file, if it agrees with what somebody has named."""
        plain = file.get("settings")
        settings = Settings(**{**plain, "by": tuple(plain["by"])})
        known = file.get("encoding")
        columns = dict(known["columns"])
        for name, value in columns.items():
            if isinstance(value, list):
                columns[name] = tuple(value)
        features = tuple(Feature(*one) for one in known["features"])
        bases = known.get("bases", {})
        encoding = Encoding(Beside(**columns), known["kinds"], features, known["labels"], bases)
        records = {
            name: Record(Mark(**one["mark"]), tuple(one["starts"]), one["dropped"])
            for name, one in file.inputs().items()
        }
        segments = [tuple(one) for one in file.values("segments")]
        book = cls(
            settings,
            encoding,
            file.values("labels"),
            segments,
            records,
            [(until, every) for until, every in file.get("coarse")],
            file.get("dropped"),
            file.get("change"),
        )
        book._written = len(book.labels), len(book.segments)
        book._require_same(given, file.path)
        return book

    def write(self, file: File) -> None:
        """Write all but the cells, with their totals; within a transaction of whoever calls."""
        if self.settings.by:
            totals.renew(file, self.label_array(), self.width)
        encoding = self.encoding
        file.put("settings", asdict(self.settings))
        known = {**encoding.plain(), "features": [list(one) for one in encoding.features]}
        file.put("encoding", known)
        file.put("coarse", self.coarse)
        file.put("dropped", self.dropped)
        labels, segments = self._written
        file.append("labels", labels, self.labels[labels:])
        file.append("segments", segments, self.segments[segments:])
        self._written = len(self.labels), len(self.segments)
        inputs = {
            name: {
                "mark": asdict(one.mark), "starts": list(one.starts), "dropped": one.dropped
            }
            for name, one in self.records.items()
        }  # fmt: skip
        file.put_inputs(inputs)
        self.change += 1
        file.put("change", self.change)

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.encoding.features)

    @property
    def names(self) -> list[str]:
        """Names of the features."""
        return [feature.name for feature in self.encoding.features]

    def label_array(self) -> Labels:
        """The classes, by number."""
        return np.array(self.labels)

    def _require_same(self, given: Mapping[str, Any], path: str) -> None:
        """Raise if somebody wants settings that are not those of the file."""
        columns = self.encoding.columns
        kept = set(self.settings.by) - set(columns.drop)
        for name, value in given.items():
            now: Any = value
            then = getattr(self.settings if hasattr(self.settings, name) else columns, name)
            if name == "drop":
                now = tuple(sorted({*value, self.settings.time}))
            elif name == "categorical":
                now = tuple(sorted({*value, *kept} - {*columns.hashed}))
            if name == "time":
                then = self.settings.time
            if now != then:
                raise DataError(
                    (Setting(name), f" is {shown(value)}, but {path} has {shown(then)}"),
                    Remedy("leave the option out"),
                    Remedy("begin a new ledger"),
                )


def _require_apart(settings: Settings, columns: Mapping[str, Any]) -> None:
    """Raise if one column is to be two things that it cannot be."""
    label = columns["label"]
    if len(set(settings.by)) < len(settings.by):
        raise DataError((Setting("by"), " names a column twice"))
    for name in (settings.time, *settings.by):
        if name == label:
            raise DataError(f"column {name!r} holds the labels; it cannot say the time or segment")
    if settings.time in settings.by:
        raise DataError(f"column {settings.time!r} holds the time; it cannot be a segment")
    for name in settings.by:
        if name in columns.get("numeric", ()):
            raise DataError(f"column {name!r} makes segments, so that it cannot be numeric")
    if not isinstance(settings.most, int) or settings.most < 1:
        raise DataError((Setting("most"), " must be a whole number from 1"))
