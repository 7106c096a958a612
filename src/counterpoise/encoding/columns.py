"""Roles of columns: one mapping from column to role, parsed once, and the features made of them.

A role is ``drop``, ``weight`` or ``timestamp``, or one of the kinds in ``encoding/kinds.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, NamedTuple

from counterpoise.errors import DataError

SINGLE_ROLES = ("weight", "timestamp")  # at most one column has such a role
OTHER_ROLES = ("drop", *SINGLE_ROLES)  # roles of columns that are not features
MANY_CATEGORIES = "many"  # kind of columns whose categories are not features
MISSING_RULES = ("mean", "indicate", "drop", "error")
MAX_BUCKETS = 2**32  # MurmurHash3 has no more values
FEATURE_NAMES = {
    "number": "{0}",
    "cycle": "{0} {1}",
    "category": "{0}={1}",
    "bucket": "{0}#{1}",
    "missing": "{0} is missing",
}  # name of a feature of each kind by its column and value, in the order of features of a column


class Feature(NamedTuple):
    """One feature."""

    column: str  # the column that it is made of
    kind: str  # one of FEATURE_NAMES
    value: str = ""  # the category, the number of the bucket, or which cycle; else empty

    @property
    def name(self) -> str:
        """Name of the feature."""
        return FEATURE_NAMES[self.kind].format(self.column, self.value)


def parse_roles(columns: Any) -> dict[str, str]:
    """Return a mapping from column to role, sorted by column; raise if a role does not exist."""
    from counterpoise.encoding.kinds import KINDS  # requires pyarrow

    if not isinstance(columns, Mapping):
        raise DataError(f'columns must be a mapping such as {{"id": "drop"}}; got {columns!r}')
    result: dict[str, str] = {}
    for name, role in sorted(columns.items(), key=lambda pair: str(pair[0])):
        text = role if isinstance(role, str) else ""
        kind = KINDS.get(text.partition(":")[0])
        parsed = kind.parse_role(text) if kind else text if text in OTHER_ROLES else None
        if not isinstance(name, str) or parsed is None:
            *roles, last = (*OTHER_ROLES, *(one.role for one in KINDS.values()))
            allowed = f"{', '.join(roles)} or {last}"
            raise DataError(f"role of column {name!r} must be {allowed}; got {role!r}")
        result[name] = parsed
    for role in SINGLE_ROLES:
        names = [name for name, one in result.items() if one == role]
        if len(names) > 1:
            raise DataError(f"columns {names[0]!r} and {names[1]!r} have the role {role}; use one")
    return result


def by_option(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of columns with a value for each role: a name, names, or names to options."""
    result = {name: value for name, value in settings.items() if name != "roles"}
    for name, role in sorted(settings.get("roles", {}).items()):
        kind, colon, option = role.partition(":")
        if kind in SINGLE_ROLES:
            result[kind] = name
        elif colon or kind == MANY_CATEGORIES:
            value = int(option) if option.isdigit() else option or None
            result[kind] = {**result.get(kind, {}), name: value}
        else:
            result[kind] = (*result.get(kind, ()), name)
    return result


@dataclass(frozen=True)
class Columns:
    """Settings of the columns of a table."""

    label: str  # column of the labels
    # roles of columns by name; a column without a role is a feature of the kind that it contains
    roles: Mapping[str, str] = field(default_factory=dict)
    only: tuple[str, ...] = ()  # the only columns that are features; empty for all
    seed: int = 0  # seed of the hashes
    missing: str = "mean"  # "mean", "indicate", "drop" or "error"
    classes: tuple[str, ...] = ()  # the only labels that are allowed, as text; empty for any
    decimal: str = "."  # decimal separator of numbers in text: "." or ","
    time_format: str | None = None  # format of dates in text for strptime, if not ISO 8601

    def __deepcopy__(self, memo: dict[int, Any]) -> Columns:
        """Return this object, as a Value does, without NumPy, which help does not need."""
        return self

    @property
    def uses_indicators(self) -> bool:
        """True if rows with missing values are kept, with indicators of these."""
        return self.missing in ("mean", "indicate")

    @cached_property
    def weight(self) -> str | None:
        """Column of the weights of rows."""
        return next(iter(self.with_role("weight")), None)

    @cached_property
    def timestamp(self) -> str | None:
        """Column of the time of each row, by which rows decay; not a feature."""
        return next(iter(self.with_role("timestamp")), None)

    @cached_property
    def drop(self) -> tuple[str, ...]:
        """Columns that are not used."""
        return self.with_role("drop")

    @cached_property
    def buckets(self) -> dict[str, int]:
        """Number of buckets of each hashed column."""
        kinds = {name: role.partition(":") for name, role in self.roles.items()}
        return {name: int(count) for name, (kind, _, count) in kinds.items() if kind == "hash"}

    @cached_property
    def pseudo_rows(self) -> dict[str, float | None]:
        """Rows that the ridge of each column with many categories is worth; None to choose it."""
        kinds = {name: role.partition(":") for name, role in self.roles.items()}
        return {
            name: float(rows) if rows else None
            for name, (kind, _, rows) in kinds.items()
            if kind == MANY_CATEGORIES
        }

    @cached_property
    def explicit_types(self) -> dict[str, str]:
        """Kinds of features that roles specify, by column."""
        kinds = {name: role.partition(":")[0] for name, role in self.roles.items()}
        return {name: kind for name, kind in kinds.items() if kind not in OTHER_ROLES}

    def with_role(self, role: str) -> tuple[str, ...]:
        """Return the columns that have a role."""
        return tuple(name for name, one in self.roles.items() if one == role)

    def dropping(self, names: Iterable[str]) -> Columns:
        """Return the same settings, with more columns that are not used."""
        roles = {**self.roles, **dict.fromkeys(names, "drop")}
        return replace(self, roles=dict(sorted(roles.items())))

    @cached_property
    def _filters(self) -> tuple[frozenset[str], frozenset[str]]:
        """Columns that are not features, and the only ones that are."""
        others = filter(None, (self.label, self.weight, self.timestamp, *self.drop))
        return frozenset(others), frozenset(self.only)

    def feature(self, name: str) -> bool:
        """Return whether a column becomes features."""
        others, only = self._filters
        return name not in others and (not only or name in only)

    def features_among(self, names: Iterable[str]) -> list[str]:
        """Return those of some columns that become features, in order."""
        others, only = self._filters
        return [name for name in names if name not in others and (not only or name in only)]

    def is_needed(self, name: str) -> bool:
        """Return whether a column is read for learning."""
        return name in (self.label, self.weight, self.timestamp) or self.feature(name)

    def read(self, kinds: Mapping[str, str]) -> dict[str, str]:
        """Return the kinds of columns for a reader, which parses numbers with a point only."""
        kinds = kinds if self.timestamp is None else {**kinds, self.timestamp: "epoch"}
        return {c: kind for c, kind in kinds.items() if kind != "number" or self.decimal == "."}

    @property
    def options_by_column(self) -> dict[str, str]:
        """Columns that settings name, with the option that names each."""
        result = {name: role.partition(":")[0] for name, role in self.roles.items()}
        return result | dict.fromkeys(self.only, "only") | {self.label: "label"}

    def by_option(self) -> dict[str, Any]:
        """Return the settings by option, also those that have their default."""
        from counterpoise.encoding.kinds import KINDS  # requires pyarrow

        kinds: dict[str, Any] = {
            name: {} if ":" in kind.role else () for name, kind in KINDS.items()
        }
        own = {one.name: getattr(self, one.name) for one in fields(Columns)}
        return {**dict.fromkeys(SINGLE_ROLES), "drop": (), **kinds, **by_option(own)}
