"""Metadata of a ledger: settings, columns, labels, segments and inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from itertools import groupby
from typing import Any

import numpy as np

from counterpoise.arrays import Labels, one_thread
from counterpoise.encoding.columns import Columns, Feature, by_option, parse_roles
from counterpoise.encoding.encoder import ColumnEncoder
from counterpoise.errors import DataError, OptionValue, Suggestion
from counterpoise.ledger import time_buckets
from counterpoise.ledger.cells import ALL, Block, Key, Row, Stack, as_row, moved, read_cell
from counterpoise.ledger.storage import Contents, File
from counterpoise.readers.chunk import ReadPosition
from counterpoise.tables.estimator import shown
from counterpoise.tables.records import Record, Records
from counterpoise.validation import MAX_TIMESTAMP

ROUNDING = 1e-9  # relative difference between a total and the sum of its cells on another machine


def renew(file: File, labels: Labels, d: int) -> None:
    """Sum the cells of the buckets that were written; within a transaction of whoever calls."""
    with one_thread():
        for start in sorted(file.touched):
            block = file.block("cells", file.heads(start, start).cells)
            file.put_totals(start, list(of_bucket(block, labels, d)))
    file.touched.clear()


def of_bucket(block: Block, labels: Labels, d: int) -> Iterator[Row]:
    """Yield the totals of one bucket, from its cells by class and segment."""
    for k, group in groupby(block.rows(), key=lambda row: row.label):
        mine = list(group)
        if len(mine) == 1:
            yield moved(mine[0], ALL)
            continue
        one = Block.of([row._replace(label=0) for row in mine])
        stack = Stack.of(one, labels[k : k + 1], d)
        total = stack.moments([np.ones(len(mine))])
        key = Key(mine[0].start, ALL, k)
        yield as_row(key, mine[0].stop, sum(row.rows for row in mine), total)


def require_same(file: File, cells: Block, stored: Block, labels: Labels) -> None:
    """Raise unless the stored totals of a bucket are the sums of its cells, up to rounding."""
    d = int(stored.heads["d"].max(initial=0))
    is_same = cells.heads["d"].max(initial=0) <= d
    if is_same:
        with one_thread():
            rows = list(of_bucket(cells, labels, d))
        is_same = [row[:5] for row in rows] == [row[:5] for row in stored.rows()]
        for one, two in zip(rows, stored.rows(), strict=False):
            a, b = (read_cell(row, labels[:1], d) for row in (one, two))
            center, other = a.anchor + a.mean[0], b.anchor + b.mean[0]
            size = np.sqrt(np.maximum(a.C[0].diagonal(), 0.0) + a.n[0] * center**2)
            scatters = np.abs(a.C[0] - b.C[0]) <= ROUNDING * np.outer(size, size)
            means = np.abs(center - other) * np.sqrt(a.n[0]) <= ROUNDING * size
            is_same &= bool(scatters.all() and means.all())
            is_same &= abs(one.n - two.n) <= ROUNDING * one.n
    if not is_same:
        raise file.damaged("a total is not the sum of its cells")


MAX_VALUES = 1000  # values of a column that segments are made of
MAX_LABELS = 1000
MAX_MOMENTS_BYTES = 4e9  # memory that the moments of all classes may take


@dataclass(frozen=True)
class LedgerColumns(Columns):
    """Columns of a ledger: some are read that are no features, for they say which cell it is."""

    beside: tuple[str, ...] = ()  # the column of the time, and those of the segments

    def is_needed(self, name: str) -> bool:
        """Whether a column is needed at all for learning."""
        return name in self.beside or super().is_needed(name)

    def of_a_model(self) -> Columns:
        """Return the columns of a model, which has no time of a row."""
        return Columns(**{f.name: getattr(self, f.name) for f in fields(Columns)})


@dataclass(frozen=True)
class Settings:
    """Settings by which rows are added to cells."""

    timestamp: str  # column of the time of each row
    every: str = "day"  # size of the buckets
    by: tuple[str, ...] = ()  # columns of the segments
    max_values: int = MAX_VALUES  # how many values such a column may have


@dataclass
class LedgerMetadata:
    """All of it; :meth:`write` writes what has changed since it was read."""

    settings: Settings  # how rows are put into cells
    encoding: ColumnEncoder  # how columns become features
    # classes, and values of the columns of segments, by number
    labels: list[Any] = field(default_factory=list)
    segments: list[tuple[str | None, ...]] = field(default_factory=list)
    records: Records = field(default_factory=Records)  # what was learned from where
    # until when which coarser buckets are kept
    coarse: list[tuple[int, str]] = field(default_factory=list)
    dropped: int | None = None  # until when everything was dropped
    change: int = 0  # counts what was written
    _written: tuple[int, int] = (0, 0)

    @classmethod
    def begun(cls, given: Mapping[str, Any], path: str) -> LedgerMetadata:
        """A new one, from what somebody has named."""
        for name, what in (("label", "labels"), ("timestamp", "time")):
            if not given.get(name):
                raise DataError(
                    f"{path} does not exist, and no column is named as the {what}",
                    Suggestion(f"name the column that holds the {what}", name),
                )
        settings = Settings(
            given["timestamp"],
            given.get("every", "day"),
            given.get("by", ()),
            given.get("max_values", MAX_VALUES),
        )
        time_buckets.require_every(settings.every)
        own = {f.name for f in fields(Settings)}
        columns = {name: value for name, value in given.items() if name not in own}
        _require_apart(settings, columns)
        given_roles = columns.get("roles", {})
        roles = {**dict.fromkeys(settings.by, "category"), **given_roles}
        columns["roles"] = dict(sorted({**roles, settings.timestamp: "drop"}.items()))
        beside = LedgerColumns(**columns, beside=(settings.timestamp, *settings.by))
        return cls(settings, ColumnEncoder(beside))

    @classmethod
    def read(cls, file: File, given: Mapping[str, Any]) -> LedgerMetadata:
        """Read the metadata of a file, and check it against the settings of the user."""
        contents = file.contents()
        meta = contents.meta
        try:
            settings = Settings(**{**meta["settings"], "by": tuple(meta["settings"]["by"])})
            encoding = _encoding(meta["encoding"])
            records = Records()
            for name, one in contents.inputs.items():
                gone = tuple((start, stop) for start, stop in one["gone"])
                mark = ReadPosition(**one["mark"])
                records[name] = Record(mark, tuple(one["starts"]), one["dropped"], gone=gone)
            book = cls(
                settings,
                encoding,
                contents.labels,
                [tuple(one) for one in contents.segments],
                records,
                [(until, every) for until, every in meta["coarse"]],
                meta["dropped"],
                meta["change"],
            )
            book._require_possible()
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise file.damaged(f"its settings cannot be read: {error}") from None
        book._written = len(book.labels), len(book.segments)
        book._require_same(given, file.path)
        return book

    def _require_possible(self) -> None:
        """Raise ValueError if something that was read cannot be in a ledger."""
        settings, features = self.settings, self.encoding.features
        columns, kinds = self.encoding.columns, self.encoding.kinds
        assert isinstance(columns, LedgerColumns)
        possible = {
            "timestamp": isinstance(settings.timestamp, str),
            "every": settings.every in time_buckets.EVERY,
            "by": all(isinstance(name, str) for name in settings.by),
            "max_values": type(settings.max_values) is int and settings.max_values >= 1,
            "label": isinstance(columns.label, str),
            "roles": parse_roles(columns.roles) == columns.roles,
            "columns": all(isinstance(name, str) for name in columns.beside),
            "kinds": all(isinstance(one, str) for pair in kinds.items() for one in pair),
            "labels": all(isinstance(one, (str, int, float, bool)) for one in self.labels)
            and len({type(one) for one in self.labels}) <= 1
            and len(set(self.labels)) == len(self.labels) <= MAX_LABELS,
            "segments": len(set(self.segments)) == len(self.segments)
            and all(
                len(one) == len(settings.by)
                and all(value is None or isinstance(value, str) for value in one)
                for one in self.segments
            ),
            "features": all(isinstance(feature.name, str) for feature in features)
            and len({feature.name for feature in features}) == len(features),
            "coarse": all(
                type(until) is int and abs(until) < MAX_TIMESTAMP and every in time_buckets.EVERY
                for until, every in self.coarse
            ),
            "dropped": self.dropped is None
            or (type(self.dropped) is int and abs(self.dropped) < MAX_TIMESTAMP),
            "change": type(self.change) is int and self.change >= 0,
        }
        for name, is_possible in possible.items():
            if not is_possible:
                raise ValueError(f"impossible {name}")
        self._require_room()
        _require_apart(settings, {"label": columns.label, "roles": columns.roles})

    def _require_room(self) -> None:
        """Raise if the moments of all classes would take too much memory."""
        size = 16.0 * len(self.labels) * self.width**2
        if size > MAX_MOMENTS_BYTES:
            raise DataError(
                f"{len(self.labels)} classes of {self.width:,} features need {size / 1e9:.3g} GB "
                f"for moments, more than {MAX_MOMENTS_BYTES / 1e9:g} GB",
                Suggestion("keep fewer columns", "only"),
            )

    def write(self, file: File) -> None:
        """Write everything except the cells, with the totals; within a transaction of the caller.

        This is the last step of the transaction.
        """
        self._require_room()
        if self.settings.by:
            renew(file, self.label_array(), self.width)
        encoding = self.encoding
        self.change += 1
        meta = {
            "settings": asdict(self.settings),
            "encoding": {
                **encoding.plain(), "features": [list(one) for one in encoding.features]
            },
            "coarse": self.coarse,
            "dropped": self.dropped,
            "change": self.change,
        }  # fmt: skip
        inputs = {
            name: {
                "mark": asdict(one.mark), "starts": list(one.starts), "dropped": one.dropped,
                "gone": one.gone,
            }
            for name, one in self.records.items()
        }  # fmt: skip
        contents = Contents(meta, self.labels, [list(one) for one in self.segments], inputs)
        file.put_contents(contents, *self._written)
        self._written = len(self.labels), len(self.segments)

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.encoding.features)

    @property
    def names(self) -> list[str]:
        """Names of the features."""
        return [feature.name for feature in self.encoding.features]

    def label_array(self) -> Labels:
        """Return the classes, by number."""
        return np.array(self.labels)

    def _require_same(self, given: Mapping[str, Any], path: str) -> None:
        """Raise if somebody wants settings that are not those of the file."""
        columns = self.encoding.columns
        kept = set(self.settings.by) - set(columns.drop)
        known = {**columns.by_option(), **asdict(self.settings)}
        for name, value in by_option(given).items():
            now, then = value, known[name]
            if name == "drop":
                now = tuple(sorted({*value, self.settings.timestamp}))
            elif name == "category":
                now = tuple(sorted({*value, *kept} - {*columns.buckets}))
            if now != then:
                raise DataError(
                    (OptionValue(name), f" is {shown(value)}, but {path} has {shown(then)}"),
                    Suggestion("leave the option out"),
                    Suggestion("begin a new ledger"),
                )


def _encoding(plain: Mapping[str, Any]) -> ColumnEncoder:
    """Return the encoding that a file contains."""
    columns: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in plain["columns"].items()
    }
    features = tuple(Feature(*one) for one in plain["features"])
    bases = plain.get("bases", {})
    return ColumnEncoder(LedgerColumns(**columns), plain["kinds"], features, plain["labels"], bases)


def _require_apart(settings: Settings, columns: Mapping[str, Any]) -> None:
    """Raise if one column is to be two things that it cannot be."""
    label = columns["label"]
    if len(set(settings.by)) < len(settings.by):
        raise DataError((OptionValue("by"), " names a column twice"))
    for name in (settings.timestamp, *settings.by):
        if name == label:
            raise DataError(f"column {name!r} holds the labels; it cannot say the time or segment")
    if settings.timestamp in settings.by:
        raise DataError(f"column {settings.timestamp!r} holds the time; it cannot be a segment")
    for name in settings.by:
        role = columns.get("roles", {}).get(name, "category")
        if role not in ("category", "drop") and not role.startswith("hash"):
            raise DataError(f"column {name!r} makes segments, so that its role cannot be {role}")
    if not isinstance(settings.max_values, int) or settings.max_values < 1:
        raise DataError((OptionValue("max_values"), " must be 1 or greater"))
