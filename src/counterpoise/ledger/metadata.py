"""Metadata of a ledger: settings, columns, labels, segments and inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Labels
from counterpoise.encoding.columns import Columns, by_option
from counterpoise.encoding.encoder import ColumnEncoder
from counterpoise.errors import DataError, OptionValue, Suggestion, suggest
from counterpoise.ledger import time_buckets
from counterpoise.ledger.storage import File
from counterpoise.moments.categories import MAX_CODES
from counterpoise.tables.estimator import as_text
from counterpoise.tables.model_io import plain_record, read_encoding, read_record
from counterpoise.tables.records import Records
from counterpoise.validation import MAX_TIMESTAMP

MAX_VALUES = 1000  # values of a column that segments are made of
MAX_LABELS = 1000
MAX_MOMENTS_BYTES = 4e9  # memory that the moments of all classes may take


@dataclass(frozen=True)
class LedgerColumns(Columns):
    """Columns of a ledger, with those that determine the cell of a row."""

    cell_columns: tuple[str, ...] = ()  # the column of the time, and the columns of the segments

    def is_needed(self, name: str) -> bool:
        """Return whether a column is needed for learning."""
        return name in self.cell_columns or super().is_needed(name)

    @classmethod
    def of(cls, columns: Columns, settings: Settings) -> LedgerColumns:
        """Return columns with those of the cells."""
        cells = (settings.timestamp, *settings.by)
        return cls(**own_fields(columns), cell_columns=cells)

    def without_cells(self) -> Columns:
        """Return the columns of a model."""
        return Columns(**own_fields(self))


def own_fields(columns: Columns) -> dict[str, Any]:
    """Return the fields of columns that are not those of a ledger alone."""
    return {f.name: getattr(columns, f.name) for f in fields(Columns)}


@dataclass(frozen=True)
class Settings:
    """Settings by which rows are added to cells."""

    timestamp: str  # column of the time of each row
    every: str = "day"  # size of the buckets
    by: tuple[str, ...] = ()  # columns of the segments
    max_values: int = MAX_VALUES  # of a column of the segments


@dataclass
class LedgerMetadata:
    """Everything in a ledger except the cells."""

    settings: Settings
    encoding: ColumnEncoder  # how columns become features
    # classes, and values of the columns of segments, by number
    labels: list[Any] = field(default_factory=list)
    segments: list[tuple[str | None, ...]] = field(default_factory=list)
    records: Records = field(default_factory=Records)  # of inputs
    coarse: list[tuple[int, str]] = field(default_factory=list)  # (until, every) of coarser buckets
    dropped: int | None = None  # all rows before this time were dropped

    @classmethod
    def create(cls, given: Mapping[str, Any], path: str) -> LedgerMetadata:
        """Return the metadata of a new ledger with the settings of the user."""
        for name, what in (("label", "class"), ("timestamp", "time of each row")):
            if not given.get(name):
                raise DataError(
                    (f"{path} does not exist, and creating it requires ", OptionValue(name)),
                    Suggestion(f"name the column that contains the {what}"),
                )
        columns = dict(given)
        own = [f.name for f in fields(Settings) if f.name in given]
        settings = Settings(**{name: columns.pop(name) for name in own})
        time_buckets.require_every(settings.every)
        roles = {**dict.fromkeys(settings.by, "category"), **columns.get("roles", {})}
        columns["roles"] = dict(sorted({**roles, settings.timestamp: "drop"}.items()))
        metadata = cls(settings, ColumnEncoder(LedgerColumns.of(Columns(**columns), settings)))
        metadata._require_separate()
        return metadata

    @classmethod
    def read(cls, file: File, given: Mapping[str, Any]) -> LedgerMetadata:
        """Read the metadata of a file, and check it against the settings of the user."""
        values = file.values()
        try:
            settings = Settings(**{**values["settings"], "by": tuple(values["settings"]["by"])})
            plain = dict(values["encoding"])
            encoding = read_encoding(plain, plain.pop("features"), plain.pop("categories"))
            metadata = cls(
                settings,
                replace(encoding, columns=LedgerColumns.of(encoding.columns, settings)),
                list(values["labels"]),
                [tuple(one) for one in values["segments"]],
                Records((name, read_record(one)) for name, one in values["inputs"].items()),
                [(until, every) for until, every in values["coarse"]],
                values["dropped"],
            )
            metadata._require_possible()
        except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
            raise file.damage_error(f"its settings cannot be read: {error}") from None
        metadata._require_same(given, file.path)
        return metadata

    def _require_possible(self) -> None:
        """Raise ValueError if a ledger cannot contain a value that was read."""
        settings, features = self.settings, self.encoding.features
        possible = {
            "timestamp": isinstance(settings.timestamp, str),
            "every": settings.every in time_buckets.EVERY,
            "by": all(isinstance(name, str) for name in settings.by),
            "max_values": type(settings.max_values) is int,
            "labels": all(isinstance(one, (str, int, float, bool)) for one in self.labels)
            and len({type(one) for one in self.labels}) <= 1
            and len(set(self.labels)) == len(self.labels) <= MAX_LABELS,
            "segments": len(set(self.segments)) == len(self.segments)
            and all(
                len(one) == len(settings.by)
                and all(value is None or isinstance(value, str) for value in one)
                for one in self.segments
            ),
            "features": len({feature.name for feature in features}) == len(features),
            "categories": max(self.sizes, default=0) < MAX_CODES,
            "coarse": all(
                type(until) is int and abs(until) < MAX_TIMESTAMP and every in time_buckets.EVERY
                for until, every in self.coarse
            ),
            "dropped": self.dropped is None
            or (type(self.dropped) is int and abs(self.dropped) < MAX_TIMESTAMP),
        }
        for name, is_possible in possible.items():
            if not is_possible:
                raise ValueError(f"impossible {name}")
        self._require_memory()
        self._require_separate()

    def _require_separate(self) -> None:
        """Raise if one column has two roles that exclude each other."""
        settings, columns = self.settings, self.encoding.columns
        if len(set(settings.by)) < len(settings.by):
            raise DataError((OptionValue("by"), " names a column twice"))
        if columns.label in (settings.timestamp, *settings.by):
            raise DataError(
                f"column {columns.label!r} contains labels; it cannot be a time or segment"
            )
        if settings.timestamp in settings.by:
            raise DataError(
                f"column {settings.timestamp!r} contains the time; it cannot be a segment"
            )
        for name in settings.by:
            role = columns.roles.get(name, "category")
            if role not in ("category", "drop") and not role.startswith("hash"):
                raise DataError(
                    f"column {name!r} makes segments, so that its role cannot be {role}"
                )
        if not isinstance(settings.max_values, int) or settings.max_values < 1:
            raise DataError((OptionValue("max_values"), " must be 1 or greater"))

    def _require_memory(self) -> None:
        """Raise if the moments of all classes would take too much memory."""
        c, many = len(self.labels), sum(self.sizes)
        size = 8.0 * c * many * (self.width + 1)
        if size > MAX_MOMENTS_BYTES:
            raise DataError(
                f"{many:,} categories in {c} classes with {self.width:,} other features need "
                f"{size / 1e9:.3g} GB for moments, more than {MAX_MOMENTS_BYTES / 1e9:g} GB",
                Suggestion("hash a column of text, or drop it"),
            )
        size = 16.0 * c * self.width**2
        if size > MAX_MOMENTS_BYTES:
            raise DataError(
                f"{c} classes of {self.width:,} features need {size / 1e9:.3g} GB "
                f"for moments, more than {MAX_MOMENTS_BYTES / 1e9:g} GB",
                Suggestion("keep fewer columns", "only"),
            )

    def write(self, file: File) -> None:
        """Write it with the totals, as the last step of a transaction of the caller."""
        self._require_memory()
        if self.settings.by:
            file.put_totals(self.label_array(), self.width, self.sizes)
        assert isinstance(self.encoding.columns, LedgerColumns)
        plain = replace(self.encoding, columns=self.encoding.columns.without_cells()).plain()
        # Rows with a category are counted by its cells.
        categories = [[name, 0, one.values] for name, one in self.encoding.vocabularies.items()]
        file.put_values(
            {
                "settings": asdict(self.settings),
                "encoding": {**plain, "features": self.encoding.features, "categories": categories},
                "labels": self.labels,
                "segments": self.segments,
                "inputs": {name: plain_record(one) for name, one in self.records.items()},
                "coarse": self.coarse,
                "dropped": self.dropped,
            }
        )

    @property
    def width(self) -> int:
        """Number of features."""
        return len(self.encoding.features)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of categories of each column with many of them."""
        return tuple(one.size for one in self.encoding.vocabularies.values())

    @property
    def names(self) -> list[str]:
        """Names of the features."""
        return [feature.name for feature in self.encoding.features]

    def feature_indices(self, names: Sequence[str]) -> NDArray[np.intp]:
        """Return the indices of the features of a model; raise if one does not exist any more."""
        index = {name: j for j, name in enumerate(self.names)}
        for name in names:
            if name not in index:
                raise DataError(
                    f"feature {name!r} of the model is not in the ledger any more",
                    Suggestion("use Ledger.model again"),
                )
        return np.array([index[name] for name in names], dtype=np.intp)

    def segment_column(self, name: str, option: str | None = None) -> int:
        """Return the index of a column among the columns of segments; raise if it is not one."""
        by = self.settings.by
        if name not in by:
            place = (OptionValue(option), ": ") if option else ()
            text = f"{name!r} is not a segment column of this ledger (segments: {', '.join(by)})"
            raise DataError(
                (*place, text),
                *suggest(name, by),
                Suggestion("create a ledger with {}", "by", [*by, name]),
            )
        return by.index(name)

    def label_array(self) -> Labels:
        """Return the classes, by number."""
        return np.array(self.labels)

    def _require_same(self, given: Mapping[str, Any], path: str) -> None:
        """Raise if the settings of the user are not the settings of the file."""
        columns = self.encoding.columns
        kept = set(self.settings.by) - set(columns.drop)
        stored = {**columns.by_option(), **asdict(self.settings)}
        for name, value in by_option(given).items():
            now, then = value, stored[name]
            if name == "drop":
                now = tuple(sorted({*value, self.settings.timestamp}))
            elif name == "category":
                now = tuple(sorted({*value, *kept} - {*columns.buckets}))
            if now != then:
                raise DataError(
                    (
                        OptionValue(name),
                        f" is {as_text(value)}, but {path} has {as_text(then)}",
                    ),
                    Suggestion("leave the option out"),
                    Suggestion("begin a new ledger"),
                )
