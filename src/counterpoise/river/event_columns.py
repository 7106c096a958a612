"""Columns of events with many categories: their roles, and the categories of each so far."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from counterpoise.arrays import Matrix
from counterpoise.encoding.columns import MANY_CATEGORIES, Columns
from counterpoise.encoding.vocabulary import Vocabulary
from counterpoise.engine.state import State
from counterpoise.moments.categories import CodeColumns
from counterpoise.stepwise.single_event import CategoryField

Categories = list[str | None]  # of an event, one for each column with many of them


@dataclass(frozen=True, eq=False)
class EventColumns:
    """Fields of events that are columns with many categories, and their vocabularies; a value."""

    roles: Mapping[Any, str]
    vocabularies: tuple[Vocabulary, ...]

    @classmethod
    def of(cls, columns: Mapping[Any, str] | None) -> EventColumns:
        """Return columns without categories; raise if a role is not valid."""
        from counterpoise.encoding.kinds import KINDS  # requires pyarrow

        roles = {}
        for name, role in (columns or {}).items():
            is_many = isinstance(role, str) and role.partition(":")[0] == MANY_CATEGORIES
            parsed = KINDS[MANY_CATEGORIES].parse_role(role) if is_many else None
            if parsed is None:
                raise ValueError(
                    f"columns[{name!r}] must be 'many', or 'many:ROWS' with the rows that the "
                    f"ridge is worth; got {role!r}"
                )
            roles[name] = parsed
        return cls(roles, (Vocabulary(),) * len(roles))

    @property
    def codes(self) -> CodeColumns | None:
        """Columns of codes at the end of each row; None if there are none."""
        rows = Columns("", self.roles).pseudo_rows.values()
        return CodeColumns(tuple(rows)) if rows else None

    @property
    def field(self) -> CategoryField | None:
        """Field of the only column; None if there are several, or none."""
        if len(self.roles) != 1:
            return None
        (name,), (vocabulary,) = self.roles, self.vocabularies
        return CategoryField(name, vocabulary.code_by_value, category_text)

    def split(self, event: dict[Any, Any]) -> tuple[dict[Any, Any], Categories]:
        """Return the features of an event, and its categories; None for each that is missing."""
        if not self.roles:
            return event, []
        features = {name: value for name, value in event.items() if name not in self.roles}
        return features, [category_text(event.get(name)) for name in self.roles]

    def append(self, rows: Sequence[Categories]) -> EventColumns:
        """Return columns that contain the categories of these events."""
        columns = _transpose(rows, len(self.roles))
        return self._with(
            tuple(
                vocabulary.append([value for value in values if value is not None])
                for vocabulary, values in zip(self.vocabularies, columns, strict=True)
            )
        )

    def append_one(self, value: str) -> EventColumns:
        """Return the only column with one more category."""
        (vocabulary,) = self.vocabularies
        return self._with((vocabulary.append_one(value),))

    def _with(self, vocabularies: tuple[Vocabulary, ...]) -> EventColumns:
        """Return columns with these categories; raise if a column has too many."""
        for name, one in zip(self.roles, vocabularies, strict=True):
            if one.is_full:
                raise ValueError(f"column {name!r} has {one.size:,} categories; leave it out")
        return EventColumns(self.roles, vocabularies)

    def encode(self, rows: Sequence[Categories]) -> Matrix:
        """Return the codes (n, B) of the categories of n events."""
        columns = _transpose(rows, len(self.roles))
        codes = np.zeros((len(rows), len(self.roles)))
        for b, (vocabulary, values) in enumerate(zip(self.vocabularies, columns, strict=True)):
            codes[:, b] = vocabulary.codes(values)  # type: ignore[arg-type]
        return codes

    def merge(self, other: EventColumns, state: State) -> tuple[EventColumns, State]:
        """Return columns with the categories of both, and the State of the other with them."""
        both = []
        for b, (mine, theirs) in enumerate(zip(self.vocabularies, other.vocabularies, strict=True)):
            after = mine.append(theirs.values)
            at = after.codes(theirs.values).astype(np.intp) - 1
            both.append(after)
            state = state.reindex_categories(b, at, after.size)
        return replace(self, vocabularies=tuple(both)), state

    def select(self, stay: Sequence[NDArray[np.intp]]) -> EventColumns:
        """Return columns with the categories at some positions of each alone."""
        each = zip(self.vocabularies, stay, strict=True)
        return replace(self, vocabularies=tuple(one.select(at) for one, at in each))

    def require_seen(self, rows: Sequence[Categories], labels: Sequence[Any]) -> None:
        """Raise if an event has a category that no learned event has."""
        for row, own, label in zip(rows, self.encode(rows), labels, strict=True):
            for name, value, code in zip(self.roles, row, own.tolist(), strict=True):
                if value is not None and code == 0.0:
                    raise ValueError(
                        f"cannot unlearn an event of label {label!r} with {name!r} = {value!r}: "
                        "none was ever learned"
                    )


def _transpose(rows: Sequence[Categories], count: int) -> list[tuple[str | None, ...]]:
    """Return the categories of events by column."""
    return list(zip(*rows, strict=True)) if rows else [()] * count


def category_text(value: Any) -> str | None:
    """Return a category as text, as a table has it; None if it is missing."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or (isinstance(value, float) and value != value):
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    is_whole = isinstance(value, float) and value.is_integer()
    return str(int(value) if is_whole else value)
