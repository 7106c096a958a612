"""Selections of rows by time and segment, and the state of a ledger from which queries read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from counterpoise.arrays import Counts, Flags, Matrix, Vector, one_thread
from counterpoise.engine.ridge import RidgeModel
from counterpoise.engine.state import LearningConfig, State
from counterpoise.errors import DataError, OptionValue, PrecisionError, Suggestion, UnknownRowsError
from counterpoise.estimators.balanced_ridge import BalancedRidgeClassifier
from counterpoise.estimators.base import wrap
from counterpoise.ledger import time_buckets
from counterpoise.ledger.bucket_series import Series, require_no_rows
from counterpoise.ledger.category_cells import CategoryCells
from counterpoise.ledger.cells import (
    Block,
    BucketIndex,
    Cells,
    Index,
    MomentSum,
    heaviest,
    packed_size,
    pick,
    sum_bucket,
)
from counterpoise.ledger.metadata import LedgerMetadata
from counterpoise.ledger.storage import Digest, File
from counterpoise.moments.categories import CodeColumns
from counterpoise.moments.downdate import UNTRACKED_HASH
from counterpoise.moments.moments import Moments
from counterpoise.moments.resize import select_features
from counterpoise.solver.imputation import MeanImputation

MAX_HALF_LIVES = 1000.0  # age of a row beyond which its weight does not decrease
SECONDS_PER_LABEL = 1 << 40  # more than between any two times
MAX_DIFFERENCE_ERROR = 2e-15  # relative error of a difference: a few roundings, as of a sum
MAX_TOTAL_ERROR = 1e-9  # relative difference between a total and the sum of its cells


@dataclass(frozen=True)
class Selection:
    """Selection of rows, and their weights."""

    since: int | None = None  # first second, and first second that is not selected
    until: int | None = None
    # columns, their values, and whether these are excluded
    where: tuple[tuple[str, tuple[str | None, ...], bool], ...] = ()
    exclude: tuple[tuple[int, int], ...] = ()  # times that are not selected
    half_life: float | None = None  # seconds

    @classmethod
    def parse(
        cls,
        metadata: LedgerMetadata,
        since: Any = None,
        until: Any = None,
        where: Mapping[str, Any] | None = None,
        exclude: Any = None,
        half_life: Any = None,
    ) -> Selection:
        """Return a selection as users specify it."""
        first = None if since is None else time_buckets.parse_time(since, "since")
        last = None if until is None else time_buckets.parse_time(until, "until")
        if first is not None and last is not None and last <= first:
            begin, end = time_buckets.text(first), time_buckets.text(last)
            raise DataError(
                (
                    OptionValue("until"),
                    f" is {end}, which is not after ",
                    OptionValue("since"),
                    f", {begin}; rows until just before it are selected",
                )
            )
        conditions = []
        for column, value in (where or {}).items():
            metadata.segment_column(column, "where")
            is_excluded = isinstance(value, Mapping)
            if is_excluded:
                if set(value) != {"not"}:
                    text = f" of {column!r} is {dict(value)}; write {{'not': values}}"
                    raise DataError((OptionValue("where"), text))
                value = value["not"]
            conditions.append((column, tuple(map(_segment_value, to_list(value))), is_excluded))
        spans = () if exclude is None else to_list(exclude)
        excluded = tuple(_span(one, metadata.settings.every) for one in spans)
        half = None if half_life is None else time_buckets.parse_half_life(half_life)
        return cls(first, last, tuple(conditions), excluded, half)

    def describe(self) -> str:
        """Return the selection as text."""
        text = time_buckets.text
        parts = [] if self.since is None else [f"since {text(self.since)}"]
        parts += [] if self.until is None else [f"until {text(self.until)}"]
        for column, values, is_excluded in self.where:
            names = ", ".join("(missing)" if value is None else value for value in values)
            parts.append(f"{column} {'not ' if is_excluded else ''}{names}")
        parts += [f"excluding {text(a)} to {text(b)}" for a, b in self.exclude]
        if self.half_life is not None:
            parts.append(f"half-life {self.half_life / time_buckets.DAY:g} days")
        return ", ".join(parts) or "everything"

    def segments(self, metadata: LedgerMetadata) -> Flags:
        """Return which segments are selected."""
        result = np.ones(len(metadata.segments), dtype=bool)
        for column, values, is_excluded in self.where:
            at = metadata.settings.by.index(column)
            learned = [segment[at] for segment in metadata.segments]
            unknown = [value for value in values if value not in learned]
            if unknown and not is_excluded:
                some = ", ".join(sorted({str(value) for value in learned})[:12])
                raise DataError(f"no row has {column} {unknown[0]!r}; the ledger has {some}")
            result &= np.array([(value in values) != is_excluded for value in learned], dtype=bool)
        return result

    def apply(
        self, heads: BucketIndex, segments: Flags | None = None
    ) -> tuple[BucketIndex, Vector]:
        """Return the selected heads and their weights; raise if it cuts a bucket or is empty."""
        start, stop = heads["start"], heads["stop"]
        inside = np.ones(len(heads), dtype=bool) if segments is None else segments[heads["segment"]]
        for name, point in (("since", self.since), ("until", self.until)):
            if point is not None:
                require_whole(start[inside], stop[inside], point, name)
        if self.since is not None:
            inside = inside & (start >= self.since)
        if self.until is not None:
            inside = inside & (stop <= self.until)
        for span in self.exclude:
            for point in span:
                require_whole(start[inside], stop[inside], point, "exclude")
            inside = inside & ~((start >= span[0]) & (stop <= span[1]))
        if not inside.any():
            text = time_buckets.text
            found = f" (rows: {text(start.min())} to {text(stop.max())})" if len(heads) else ""
            raise DataError(f"the selection is empty: {self.describe()}{found}")
        chosen = pick(heads, inside)
        return chosen, self.decay(chosen["start"], int(chosen["start"].max()))

    def decay(self, start: Counts, latest: Any) -> Vector:
        """Return the weights of rows by the start of their bucket: 1 in the latest one."""
        half_lives = (latest - start) / (self.half_life or np.inf)
        weight: Vector = 2.0 ** -np.clip(half_lives, 0.0, MAX_HALF_LIVES)
        return weight


def to_list(value: Any) -> Sequence[Any]:
    """Return one value or several as a list."""
    return [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)


def _segment_value(value: Any) -> str | None:
    """Return a value as text, as segments have it."""
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return None if value is None else str(value)


def _span(value: Any, every: str) -> tuple[int, int]:
    """Return the start and end of an excluded bucket, or of a pair of since and until."""
    if not (isinstance(value, (tuple, list)) and len(value) == 2):
        return time_buckets.bucket_of(time_buckets.parse_time(value, "exclude"), every)
    a, b = (time_buckets.parse_time(end, "exclude") for end in value)
    if b <= a:
        raise DataError((OptionValue("exclude"), f" ends before it begins: {list(value)}"))
    return a, b


def require_whole(start: Counts, stop: Counts, point: int, option: str) -> None:
    """Raise if a bucket begins before a point in time and ends after it."""
    cut = np.flatnonzero((start < point) & (point < stop))
    if len(cut):
        a, b = time_buckets.text(start[cut[0]]), time_buckets.text(stop[cut[0]])
        text = f" {time_buckets.text(point)} is within the bucket from {a} to {b}, which cannot be "
        raise DataError((OptionValue(option), f"{text}cut; name {a} or {b}"))


def _bucket_keys(heads: BucketIndex) -> Counts:
    """Return one number for the class and the start of each cell."""
    key: Counts = heads["label"] * SECONDS_PER_LABEL + heads["start"]
    return key


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Metadata and cells of one state of a ledger, within a transaction that reads."""

    file: File
    digest: Digest
    metadata: LedgerMetadata
    index: Index

    @classmethod
    def read(cls, file: File, given: Mapping[str, Any]) -> Snapshot:
        """Read everything except the cells, and check it against the settings of the user."""
        with file.reading():
            digest, metadata = file.digest(), LedgerMetadata.read(file, given)
            index = file.index()
            counts = len(metadata.labels), len(metadata.segments), metadata.width
            problem = index.problem(*counts, has_totals=bool(metadata.settings.by))
            if digest is None or problem is not None:
                raise file.damage_error(problem or "it has no digest")
            return cls(file, digest, metadata, index)

    @property
    def names(self) -> list[str]:
        """Names of the features that cells have."""
        return self.metadata.names[: self.index.d]

    def select(self, *args: Any, **options: Any) -> Selection:
        """Return a selection as users specify it."""
        return Selection.parse(self.metadata, *args, **options)

    def cells(self, selection: Selection, by_segment: bool = False) -> tuple[Cells, Vector]:
        """Return the cells of a selection, or totals, and their weights (m,)."""
        heads, weight = self._select(selection, by_segment)
        block = self.file.block(heads)
        labels, sizes = self.metadata.label_array(), self.metadata.sizes
        cells = Cells.unpack(block, labels, block.anchor(self.index.d), sizes)
        self._require_finite(cells.mean, cells.tri)
        return cells, weight

    def series(self, *args: Any, **options: Any) -> Series:
        """Return the buckets of a selection as users specify it."""
        cells, _ = self.cells(self.select(*args, **options))
        return Series.of_cells(cells, self.metadata.encoding.code_columns)

    def moments(self, selection: Selection) -> Moments:
        """Return the moments of a selection; some cells are in memory at a time."""
        heads, weight = self._select(selection)
        difference = self._subtract_others(selection, heads, weight)
        return self._sum(heads, weight) if difference is None else difference

    def _subtract_others(
        self, selection: Selection, heads: BucketIndex, weight: Vector
    ) -> Moments | None:
        """Return totals minus the cells of other segments, to read fewer cells of most segments.

        None if these are not fewer, or if the difference would lose digits.
        """
        segments, index = selection.segments(self.metadata), self.index
        if segments.all() or 2 * segments.sum() <= len(segments):
            return None
        if self.metadata.sizes and (weight != 1.0).any():
            return None  # what rounding leaves of a category is not distinct from an old row
        bucket, first = np.unique(_bucket_keys(heads), return_index=True)
        parts = []
        for every in (index.totals, pick(index.cells, ~segments[index.cells["segment"]])):
            at = np.searchsorted(bucket, _bucket_keys(every)).clip(max=len(bucket) - 1)
            shared = bucket[at] == _bucket_keys(every)
            parts.append((pick(every, shared), weight[first][at[shared]]))
        if sum(len(some) for some, _ in parts) >= len(heads):
            return None
        try:
            whole, others = (self._sum(*part) for part in parts)
            result = whole.subtract(others)
        except (PrecisionError, UnknownRowsError):
            return None
        if result.categories is not None:
            result.categories = result.categories.select_codes()
        if result.relative_error().max(initial=0.0) > MAX_DIFFERENCE_ERROR:
            return None
        if (weight != 1.0).any():
            result.row_hashes[result.n > 0] = UNTRACKED_HASH
        return result

    def _sum(self, heads: BucketIndex, weight: Vector) -> Moments:
        """Return the sum of cells or totals with weights (m,)."""
        d = self.index.d
        anchor = self.file.block(heads[np.sort(heaviest(heads))]).anchor(d)
        result = Moments(self.metadata.label_array(), anchor)
        sizes, many = self.metadata.sizes, list[CategoryCells]()
        for k in np.unique(heads["label"]).tolist():
            mine = heads["label"] == k
            own, total, i, categories = weight[mine], MomentSum(d), 0, None
            for block in self.file.blocks(pick(heads, mine)):
                cells, w = Cells.unpack(block, result.labels, anchor, sizes), own[i:]
                w = w[: len(block.heads)]
                total.add(cells, w)
                i += len(w)
                if cells.categories is not None:
                    found = cells.categories.sum(w, np.full(len(w), k))
                    categories = found if categories is None else categories.append(found)
            total.store(result, k)
            many += [] if categories is None else [categories]
        if many:
            every = reduce(CategoryCells.append, many)
            result.categories = every.moments(len(result.labels))
        self._require_finite(result.mean, result.C)
        result.N[:] = result.n
        result.stream[:] = result.N.sum()
        return result

    def _select(self, selection: Selection, by_segment: bool = False) -> tuple[BucketIndex, Vector]:
        """Return the heads and weights of a selection: of totals if these are sufficient."""
        segments = selection.segments(self.metadata)
        if self.metadata.settings.by and segments.all() and not by_segment:
            return selection.apply(self.index.totals)
        return selection.apply(self.index.cells, segments)

    def _require_finite(self, *values: Matrix) -> None:
        """Raise if a value that was read is not finite."""
        if not all(np.isfinite(one).all() for one in values):
            raise self.file.damage_error("a cell has values that are not finite")

    def model(
        self, moments: Moments, selection: Selection, options: Mapping[str, Any]
    ) -> BalancedRidgeClassifier:
        """Return the model of moments, without features that are 0 in every row."""
        seen = moments.labels[moments.n > 0]
        if len(seen) < 2:
            raise DataError(
                f"the selection has rows of one class, {seen[0].item()!r}, and two are needed: "
                f"{selection.describe()}",
                Suggestion("choose more rows"),
            )
        require_no_rows(options)
        at = np.flatnonzero(moments.nonconstant_weight[:, 0].any(axis=0))
        many = moments.categories
        if many is not None and not len(at):
            at = np.zeros(1, np.intp)  # rows have at least one feature, be it always 0
        model: BalancedRidgeClassifier = self.wrap(moments, at, options)
        names = self.metadata.names
        model.names_ = [names[j] for j in at]
        model.selection_ = selection
        model.categories_ = {}
        for b, (name, one) in enumerate(self.metadata.encoding.vocabularies.items()):
            assert many is not None
            model.categories_[name] = one.select(many.columns[b].all_codes).values
        return model

    def wrap(
        self,
        moments: Moments,
        at: Any,
        options: Mapping[str, Any],
        codes: CodeColumns | None = None,
    ) -> Any:
        """Return the estimator of moments of some features, whose categories are renumbered.

        ``codes`` replaces the ridges of columns with many categories.
        """
        encoding = self.metadata.encoding.only(at)
        own = select_features(moments, at)
        if own.categories is not None:
            codes, own.categories = codes or encoding.code_columns, own.categories.renumber()
        state = State(LearningConfig(), own, own.labels[:0], codes=codes)
        state = state.with_imputation(MeanImputation.of(*encoding.fill))
        return wrap(BalancedRidgeClassifier, RidgeModel.create(state, **options))

    def segment_models(
        self,
        by: str | Sequence[str],
        share_of_all: float,
        selection: Selection,
        options: Mapping[str, Any],
    ) -> dict[Any, BalancedRidgeClassifier]:
        """Return a model for each value or combination of values of segment columns."""
        is_number = isinstance(share_of_all, (int, float)) and not isinstance(share_of_all, bool)
        if not is_number or not 0 <= share_of_all < np.inf:
            text = f" must be 0 or greater; got {share_of_all!r}"
            raise DataError((OptionValue("share_of_all"), text))
        names = (by,) if isinstance(by, str) else tuple(by)
        at = [self.metadata.segment_column(name) for name in names]
        values = [tuple(segment[j] for j in at) for segment in self.metadata.segments]
        cells, weights = self.cells(selection, by_segment=True)
        segment = cells.heads["segment"]
        result = {}
        for value in sorted({values[i] for i in segment[weights > 0].tolist()}, key=str):
            is_own = np.array([one == value for one in values])[segment]
            moments = cells.sum(weights * (is_own + share_of_all))
            if (moments.n > 0).sum() >= 2:
                conditions = ((name, (one,), False) for name, one in zip(names, value, strict=True))
                own = replace(selection, where=(*selection.where, *conditions))
                key = value[0] if len(value) == 1 else value
                result[key] = self.model(moments, own, options)
        if not result:
            raise DataError(f"no segment has rows of two classes: {selection.describe()}")
        return result

    def summary(self) -> dict[str, Any]:
        """Return settings, times, weights of the classes, counts, features and inputs."""
        metadata, cells, text = self.metadata, self.index.cells, time_buckets.text
        settings = metadata.settings
        weight = np.bincount(cells["label"], cells["n"], len(metadata.labels)).tolist()
        return {
            "label": metadata.encoding.columns.label,
            "timestamp": settings.timestamp,
            "every": settings.every,
            "by": list(settings.by),
            "since": text(cells["start"].min()) if len(cells) else None,
            "until": text(cells["stop"].max()) if len(cells) else None,
            "buckets": len(np.unique(cells["start"])),
            "segments": len(np.unique(cells["segment"])),
            "cells": len(cells),
            "bytes": int(
                (packed_size(cells["d"], cells["removed"]) + cells["category_bytes"]).sum()
            ),
            "features": metadata.names,
            "categories": dict(zip(metadata.encoding.vocabularies, metadata.sizes, strict=True)),
            "classes": dict(zip(map(str, metadata.labels), weight, strict=True)),
            "rows": int(cells["rows"].sum()),
            "coarse": [f"{every}s until {text(until)}" for until, every in metadata.coarse],
            "dropped": None if metadata.dropped is None else text(metadata.dropped),
            "inputs": {name: one.mark.rows for name, one in metadata.records.items()},
        }

    def check(self) -> int:
        """Verify every cell and total; return the number of cells."""
        self.file.check()
        starts = np.union1d(self.index.cells["start"], self.index.totals["start"])
        for start in starts.tolist():
            bucket = self.file.heads(start, start)
            cells, totals = self.file.block(bucket.cells), self.file.block(bucket.totals)
            if self.metadata.settings.by and not self._are_totals(cells, totals):
                raise self.file.damage_error("a total is not the sum of its cells")
        return len(self.index.cells)

    def _are_totals(self, block: Block, stored: Block) -> bool:
        """Return whether the stored totals of a bucket are the sums of its cells, to rounding."""
        labels, d = self.metadata.label_array(), int(stored.heads["d"].max(initial=0))
        if block.heads["d"].max(initial=0) > d:
            return False
        sizes = self.metadata.sizes
        with one_thread():
            expected = list(sum_bucket(block, labels, d, sizes))
        if [cell[:5] for cell in expected] != [cell[:5] for cell in stored.cells()]:
            return False
        for cell, other in zip(expected, stored.cells(), strict=True):
            a, b = (one.moments(labels[:1], d, sizes) for one in (cell, other))
            center, other_center = (one.anchor + one.mean[0] for one in (a, b))
            size = np.sqrt(np.maximum(a.C[0].diagonal(), 0.0) + a.n[0] * center**2)
            mean_error = np.abs(center - other_center) * np.sqrt(a.n[0])
            if (
                (np.abs(a.C[0] - b.C[0]) > MAX_TOTAL_ERROR * np.outer(size, size)).any()
                or (mean_error > MAX_TOTAL_ERROR * size).any()
                or abs(cell.n - other.n) > MAX_TOTAL_ERROR * cell.n
                or not _are_equal(a, b, size)
            ):
                return False
        return True


def _are_equal(one: Moments, two: Moments, size: Vector) -> bool:
    """Return whether two cells have the same categories, given the size (d,) of each feature."""
    if one.categories is None or two.categories is None:
        return one.categories is two.categories
    limit, cell = MAX_TOTAL_ERROR * float(one.n[0]), np.zeros(1, np.intp)
    a, b = (CategoryCells.of(x.categories, cell, one.anchor) for x in (one, two) if x.categories)
    for part, mine in a.parts.items():
        other = b.parts[part]
        if not np.array_equal(mine.code, other.code) or (np.abs(mine.n - other.n) > limit).any():
            return False
        error = np.abs(mine.sums - other.sums)
        if len(part) == 1 and (error > MAX_TOTAL_ERROR * size * np.sqrt(one.n[0])).any():
            return False
    return True
