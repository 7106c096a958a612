"""How the columns of a frame become features: what the schema says, and one pass over the rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from counterpoise.encoding import cycles
from counterpoise.encoding.columns import Feature
from counterpoise.encoding.encoding import Encoding
from counterpoise.encoding.limits import MOST
from counterpoise.errors import DataError, Remedy
from counterpoise.spark.frames import Plan, chunks
from counterpoise.spark.tasks import batch_of, large_types, partition, raise_first, words_of

FEATURE = "error string, kind string, column string, value string"
ORDER = {"number": 0, "cycle": 1, "category": 2, "bucket": 3, "missing": 4}
BASE = "base"  # in the place of a kind: what stands for missing numbers of a column, as its value


def encoded(
    plan: Plan, before: Encoding, categories: Mapping[str, Sequence[str]] | None = None
) -> Encoding:
    """How the columns of a frame become features, with what these rows add to what is known.

    Parameters
    ----------
    plan : Plan
        The frame.
    before : Encoding
        What is known.
    categories : mapping of str to sequence of str, optional
        Categories of columns of text.

    Returns
    -------
    Encoding
    """
    columns, given = plan.columns, dict(categories or {})
    for name in given:
        if plan.kinds.get(name) != "text" or not columns.feature(name):
            raise DataError(f"categories are given for {name!r}, which is not a column of text")
    kinds = {n: columns.told.get(n, k) for n, k in plan.kinds.items() if columns.feature(n)}
    kinds |= {n: kind for n, kind in before.kinds.items() if n in kinds}  # what was learned stays
    if not kinds:
        raise DataError("no column is left to learn from")
    for name, kind in kinds.items():
        if kind == "time" and name not in columns.time and name not in before.kinds:
            raise DataError(
                f"column {name!r} holds dates",
                Remedy("learn their age and their place in day, week and year", "date", [name]),
                Remedy("learn them as seconds", "time", [name]),
                Remedy("as categories", "categorical", [name]),
                Remedy("leave them out", "drop", [name]),
            )
    numbers = [name for name, kind in kinds.items() if kind in ("number", "time", "date")]
    certain = [Feature(name, "number") for name in numbers]
    certain += [f for name in numbers if kinds[name] == "date" for f in cycles.features(name)]
    certain += [Feature(n, "category", v) for n, values in given.items() for v in values]
    sought = [n for n, kind in kinds.items() if kind in ("text", "hash") and n not in given]
    found: list[Feature] = []
    bases: dict[str, float] = {}
    if sought or columns.indicated:
        found, bases = _sought(plan, Encoding(columns, kinds))
    told = columns.told.get(columns.label, plan.kinds[columns.label])
    labels = before.labels or ("int" if told == "number" else "text")
    place = {name: j for j, name in enumerate(kinds)}
    fresh = {*certain, *(f for f in found if f.kind != "category" or f.column not in given)}
    ordered = sorted(
        fresh - set(before.features), key=lambda f: (place[f.column], ORDER[f.kind], _natural(f))
    )
    everything = (*before.features, *ordered)
    for name in sought:
        count = sum(f.column == name and f.kind == "category" for f in everything)
        if count > MOST:
            raise DataError(
                f"column {name!r} has more than {MOST:,} categories",
                Remedy("spread them over buckets", "hashed", {name: 256}),
                Remedy("leave the column out", "drop", [name]),
            )
    if columns.missing == "mean":
        bases = {name: bases.get(name, 0.0) for name in numbers} | before.bases
    return Encoding(columns, {**kinds, **before.kinds}, everything, labels, bases)


def _natural(feature: Feature) -> tuple[int, str]:
    if feature.kind == "cycle":
        return cycles.VALUES.index(feature.value), ""
    return (int(feature.value), "") if feature.kind == "bucket" else (0, feature.value)


def _sought(plan: Plan, start: Encoding) -> tuple[list[Feature], dict[str, float]]:
    """Features that only the rows know of, and values that numbers have: one pass over them."""
    names, vectors, unread = plan.names, plan.vectors, plan.columns.drop
    large = large_types(plan.df)

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        known = start
        try:
            for chunk in chunks(batches, partition(), names, vectors, unread):
                _, known = known.learn(chunk)
        except ValueError as error:
            yield batch_of(FEATURE, [(words_of(error), "", "", "")], large)
            return
        told = [("", f.kind, f.column, f.value) for f in known.features]
        told += [("", BASE, name, repr(value)) for name, value in known.bases.items()]
        yield batch_of(FEATURE, told, large)

    rows = plan.df.mapInArrow(look, FEATURE).distinct().collect()
    raise_first(sorted(row["error"] for row in rows if row["error"]))
    values: dict[str, list[float]] = {}
    for row in rows:
        if row["kind"] == BASE:
            values.setdefault(row["column"], []).append(float(row["value"]))
    # Any constant will do; one amid the values loses no digits. A partition without any says 0.
    there = {name: sorted(filter(None, some)) or [0.0] for name, some in values.items()}
    bases = {name: some[len(some) // 2] for name, some in there.items()}
    features = [Feature(r["column"], r["kind"], r["value"]) for r in rows if r["kind"] != BASE]
    return features, bases
