"""Events that lack features, where an absent feature is missing and not 0.

A feature of the first event has an indicator from the first event on that lacks it: 1 where it is
missing, and 0 in all events before. One that appears later was missing in all events before, so
its indicator is 1 where it is present. Both were 0 until then, and are filled by the mean of what
was seen, see :mod:`counterpoise.solver.imputation`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from counterpoise import validation
from counterpoise.arrays import Matrix, Vector
from counterpoise.engine.state import State
from counterpoise.solver.imputation import MeanImputation
from counterpoise.validation import MAX_ABS_VALUE


class MissingIndicator(NamedTuple):
    """How rows say whether a feature is there: its indicator, its constant, and what 1 means."""

    flag: Any
    base: float
    present: bool


class EncodedEvents(NamedTuple):
    """Events as rows (n, d), the names of their features, and which of them may be missing."""

    rows: Matrix
    names: list[Any]
    fill: MeanImputation | None


def known(state: State) -> dict[Any, MissingIndicator]:
    """Features that may be missing, by name."""
    fill, names = state.fill, state.names or []
    if fill is None:
        return {}
    parts = zip(
        *(part.tolist() for part in (fill.at, fill.by, fill.base, fill.present)), strict=True
    )
    return {names[at]: MissingIndicator(names[by], base, there) for at, by, base, there in parts}


def encode_events(state: State, events: Iterable[dict[Any, Any]]) -> EncodedEvents:
    """Events that are to be learned, with the features and indicators that they bring."""
    names, gaps = list(state.names or []) if state.begun else [], known(state)
    flags = {gap.flag for gap in gaps.values()}
    usual = dict(zip(names, state.mean.tolist(), strict=True)) if names else {}
    first, found = not state.begun, []
    for event in events:
        values = _present_features(event)
        for name, value in values.items():
            if name in flags:
                raise ValueError(f"feature {name!r} has the name of an indicator; rename it")
            if name in usual:
                continue
            usual[name] = value
            names.append(name)
            if not first:  # a map knows values as they are
                base = value if state.plan.text is None else 0.0
                gaps[name] = MissingIndicator(_unused(name, "present", names), base, True)
                names.append(gaps[name].flag)
                flags.add(gaps[name].flag)
        for name in usual:
            if name not in values and name not in gaps and name not in flags:
                gaps[name] = MissingIndicator(_unused(name, "missing", names), usual[name], False)
                names.append(gaps[name].flag)
                flags.add(gaps[name].flag)
        found.append(_told(values, gaps))
        first = False
    place = {name: j for j, name in enumerate(names)}
    rows = np.zeros((len(found), len(names)))
    for i, event in enumerate(found):
        for name, value in event.items():
            rows[i, place[name]] = value
    return EncodedEvents(rows, names, _fill(gaps, place))


class Layout:
    """Positions of features and indicators, to make rows of single events with little overhead."""

    def __init__(self, state: State) -> None:
        names, gaps = list(state.names or []), known(state)
        at = {name: j for j, name in enumerate(names)}
        flags = {gap.flag for gap in gaps.values()}
        self._blank = [0.0] * len(names)
        self._plain = {name: at[name] for name in names if name not in gaps and name not in flags}
        self._gaps: dict[Any, tuple[int, int, float, float]] = {}
        for name, gap in gaps.items():
            j, by = at[name], at[gap.flag]
            if gap.present:
                self._gaps[name] = j, by, gap.base, 1.0
            else:
                self._gaps[name] = j, by, 0.0, 0.0
                self._blank[j], self._blank[by] = gap.base, 1.0

    def row(self, event: dict[Any, Any]) -> list[float] | None:
        """Return an event as a row; None if it has a new feature, or lacks one for the first time.

        Only values that are Python's floats are taken; others are for :func:`encode_events`.
        """
        row, found = self._blank.copy(), 0
        for name, value in event.items():
            if value is None or value != value:  # as absent as what it does not name
                continue
            if type(value) is not float or not -MAX_ABS_VALUE <= value <= MAX_ABS_VALUE:
                return None
            gap = self._gaps.get(name)
            if gap is not None:
                j, by, base, flag = gap
                row[j], row[by] = value - base, flag
            elif name in self._plain:
                row[self._plain[name]] = value
                found += 1
            else:
                return None
        return row if found == len(self._plain) else None


def filling(state: State) -> MeanImputation | None:
    """Which features may be missing, at their places as they are now."""
    return _fill(known(state), {name: j for j, name in enumerate(state.names or [])})


def encode_event(state: State, event: dict[Any, Any]) -> Vector:
    """One event that is to be predicted, as the model knows its features, of shape (d,)."""
    values = _present_features(event)
    gaps, row = known(state), np.zeros(state.inputs)
    flags = {gap.flag for gap in gaps.values()}
    told = _told(values, gaps)
    for j, name in enumerate(state.names or []):
        if name in told:
            row[j] = told[name]
        elif name not in gaps and name not in flags:  # it was never missing: the mean
            row[j] = state.mean[j]
    return row


def merge_contributions(state: State, reasons: dict[Any, float]) -> dict[Any, float]:
    """Reasons by feature, in which whether it is there counts with what it is."""
    result = dict(reasons)
    for name, gap in known(state).items():
        result[name] += result.pop(gap.flag)
    return result


def _present_features(event: dict[Any, Any]) -> dict[Any, float]:
    """Features that an event has; None and NaN are as absent as what it does not name."""
    return {
        name: validation.number(name, value)
        for name, value in event.items()
        if value is not None and value == value
    }


def _told(values: dict[Any, float], gaps: dict[Any, MissingIndicator]) -> dict[Any, float]:
    """Values of one event, and what its indicators say."""
    result = dict(values)
    for name, gap in gaps.items():
        if gap.present and name in values:
            result[name], result[gap.flag] = values[name] - gap.base, 1.0
        elif not gap.present and name not in values:
            result[name], result[gap.flag] = gap.base, 1.0
    return result


def _unused(name: Any, what: str, names: list[Any]) -> Any:
    """A name for an indicator that no feature has."""
    flag: Any = f"{name} is {what}" if isinstance(name, str) else (name, what)
    while flag in names:
        flag = f"{flag}'" if isinstance(flag, str) else (*flag, "'")
    return flag


def _fill(gaps: dict[Any, MissingIndicator], place: dict[Any, int]) -> MeanImputation | None:
    there = {n: gap for n, gap in gaps.items() if n in place and gap.flag in place}
    return MeanImputation.of(
        [place[name] for name in there],
        [place[gap.flag] for gap in there.values()],
        [gap.base for gap in there.values()],
        [gap.present for gap in there.values()],
    )
