"""Selections of rows by time and segment, and the state of a ledger from which queries read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from counterpoise.arrays import Counts, Flags, Vector, one_thread
from counterpoise.engine.ridge import RidgeModel
from counterpoise.engine.state import LearningConfig, State
from counterpoise.errors import DataError, OptionValue, PrecisionError, Suggestion
from counterpoise.estimators.balanced_ridge import BalancedRidgeClassifier
from counterpoise.estimators.base import wrap
from counterpoise.ledger import time_buckets
from counterpoise.ledger.bucket_series import Series, require_no_rows
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
from counterpoise.moments.downdate import UNTRACKED_HASH
from counterpoise.moments.moments import Moments
from counterpoise.moments.resize import select_features
from counterpoise.solver.imputation import MeanImputation

MAX_CACHE_BYTES = 1 << 29  # of cells in memory
CACHE_ALL_FRACTION = 0.5  # of all cells: if queries have read more, all are read and cached
MAX_HALF_LIVES = 1000.0  # age of a row beyond which its weight does not decrease
MAX_DIFFERENCE_ERROR = 2e-15  # relative error of a difference: a few roundings, as of a sum
MAX_TOTAL_ERROR = 1e-9  # relative difference between a total and the sum of its cells
SECONDS_OF_LABEL = 1 << 40  # more than between any two times


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
            conditions.append((column, tuple(map(_segment_value, listed(value))), is_excluded))
        spans = () if exclude is None else listed(exclude)
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

    def reduce(self, heads: BucketIndex, segments: Flags | None = None) -> BucketIndex:
        """Return the heads of segments in buckets that are in the selection, or cut by it."""
        flags = np.ones(len(heads), dtype=bool) if segments is None else segments[heads["segment"]]
        if self.since is not None:
            flags &= heads["stop"] > self.since
        if self.until is not None:
            flags &= heads["start"] < self.until
        return pick(heads, flags)

    def weights(self, heads: BucketIndex, segments: Flags | None = None) -> Vector:
        """Return the weights of cells; raise if none is selected, or if a bucket is cut."""
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
            raise DataError(f"the selection is empty: {self.describe()}")
        return np.where(inside, self.decay(start, int(start[inside].max())), 0.0)

    def decay(self, start: Counts, latest: Any) -> Vector:
        """Return the weights of rows by the start of their bucket: 1 in the latest one."""
        half_lives = (latest - start) / (self.half_life or np.inf)
        weight: Vector = 2.0 ** -np.clip(half_lives, 0.0, MAX_HALF_LIVES)
        return weight


def listed(value: Any) -> Sequence[Any]:
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


@dataclass(eq=False)
class Snapshot:
    """Metadata and cells of one state of a ledger, within a transaction that reads."""

    file: File
    digest: Digest
    metadata: LedgerMetadata
    index: Index
    _all: Cells | None = field(default=None, init=False)  # all cells, if they are cached
    _read: int = field(default=0, init=False)  # cells that queries have read

    @classmethod
    def read(cls, file: File, given: Mapping[str, Any]) -> Snapshot:
        """Read everything except the cells, and check it against the settings of the user."""
        with file.reading():
            digest, metadata = file.digest(), LedgerMetadata.read(file, given)
            index = file.index()
            counts = len(metadata.labels), len(metadata.segments), metadata.width
            problem = index.problem(*counts, has_totals=bool(metadata.settings.by))
            if digest is None or problem is not None:
                raise file.damaged(problem or "it has no digest")
            return cls(file, digest, metadata, index)

    @property
    def names(self) -> list[str]:
        """Names of the features that cells have."""
        return self.metadata.names[: self.index.d]

    def select(self, *args: Any, **options: Any) -> Selection:
        """Return a selection as users specify it."""
        return Selection.parse(self.metadata, *args, **options)

    def cells(self, selection: Selection, by_segment: bool = False) -> tuple[Cells, Vector]:
        """Return cells with their weights in a selection; totals unless segments are separated."""
        segments = selection.segments(self.metadata)
        if self._all is None and self.metadata.settings.by and segments.all() and not by_segment:
            totals = selection.reduce(self.index.totals)
            return self._unpack("totals", totals), selection.weights(totals)
        cells = self._all
        if cells is None:
            heads = selection.reduce(self.index.cells, segments)
            self._read += len(heads)
            is_many = self._read >= CACHE_ALL_FRACTION * len(self.index.cells)
            if is_many and self.file.size() <= MAX_CACHE_BYTES:
                heads = self.index.cells
            cells = self._unpack("cells", heads)
            if heads is self.index.cells:
                self._all = cells
        return cells, selection.weights(cells.heads, segments)

    def series(self, *args: Any, **options: Any) -> Series:
        """Return the buckets of a selection as users specify it."""
        cells, weights = self.cells(self.select(*args, **options))
        return Series.of_cells(cells.select(np.flatnonzero(weights)))

    def moments(self, selection: Selection) -> Moments:
        """Return the moments of a selection, from memory if all cells are cached."""
        if self._all is not None:
            cells, weights = self.cells(selection)
            return cells.sum(weights)
        inside = selection.segments(self.metadata)
        if self.metadata.settings.by and 2 * inside.sum() > len(inside):
            difference = self._difference(selection, inside)
            if difference is not None:
                return difference
        heads = selection.reduce(self.index.cells, inside)
        return self._sum("cells", heads, selection.weights(heads))

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
        model: BalancedRidgeClassifier = self.wrap(moments, at, options)
        model.names_ = [self.metadata.names[j] for j in at]
        model.selection_ = selection
        return model

    def wrap(self, moments: Moments, at: Any, options: Mapping[str, Any]) -> Any:
        """Return the estimator of moments of some features."""
        fill = MeanImputation.of(*self.metadata.encoding.only(at).fill)
        own = select_features(moments, at)
        state = State(LearningConfig(), own, own.labels[:0]).with_imputation(fill)
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
            "bytes": int(packed_size(cells["d"], cells["removed"]).sum()),
            "features": metadata.names,
            "classes": dict(zip(map(str, metadata.labels), weight, strict=True)),
            "rows": int(cells["rows"].sum()),
            "coarse": [f"{every}s until {text(until)}" for until, every in metadata.coarse],
            "dropped": None if metadata.dropped is None else text(metadata.dropped),
            "inputs": {name: one.mark.rows for name, one in metadata.records.items()},
        }

    def check(self) -> int:
        """Verify every cell and total; return the number of cells."""
        self.file.check()
        totals = _by_bucket(self.index.totals)
        for start, heads in _by_bucket(self.index.cells).items():
            block = self.file.block("cells", heads)
            if self.metadata.settings.by:
                stored = self.file.block("totals", totals.pop(start, self.index.totals[:0]))
                if not self._are_totals(block, stored):
                    raise self.file.damaged("a total is not the sum of its cells")
        if totals:
            raise self.file.damaged("a total has no cells")
        return len(self.index.cells)

    def _are_totals(self, block: Block, stored: Block) -> bool:
        """Return whether the stored totals of a bucket are the sums of its cells, to rounding."""
        labels, d = self.metadata.label_array(), int(stored.heads["d"].max(initial=0))
        if block.heads["d"].max(initial=0) > d:
            return False
        with one_thread():
            expected = list(sum_bucket(block, labels, d))
        if [cell[:5] for cell in expected] != [cell[:5] for cell in stored.cells()]:
            return False
        for cell, other in zip(expected, stored.cells(), strict=True):
            a, b = (one.moments(labels[:1], d) for one in (cell, other))
            center, other_center = (one.anchor + one.mean[0] for one in (a, b))
            size = np.sqrt(np.maximum(a.C[0].diagonal(), 0.0) + a.n[0] * center**2)
            mean_error = np.abs(center - other_center) * np.sqrt(a.n[0])
            if (
                (np.abs(a.C[0] - b.C[0]) > MAX_TOTAL_ERROR * np.outer(size, size)).any()
                or (mean_error > MAX_TOTAL_ERROR * size).any()
                or abs(cell.n - other.n) > MAX_TOTAL_ERROR * cell.n
            ):
                return False
        return True

    def _unpack(self, table: str, heads: BucketIndex) -> Cells:
        """Return cells in memory, whose values are finite."""
        block = self.file.block(table, heads)
        cells = Cells.unpack(block, self.metadata.label_array(), block.anchor(self.index.d))
        if not (np.isfinite(cells.mean).all() and np.isfinite(cells.tri).all()):
            raise self.file.damaged("a cell has values that are not finite")
        return cells

    def _difference(self, selection: Selection, inside: Flags) -> Moments | None:
        """Return totals minus the cells of other segments; None if that would cost precision."""
        heads = selection.reduce(self.index.totals)
        if inside.all():
            return self._sum("totals", heads, selection.weights(heads))
        other = selection.reduce(self.index.cells, ~inside)
        bucket, subtracted = (
            one["label"] * SECONDS_OF_LABEL + one["start"] for one in (heads, other)
        )
        at = np.searchsorted(bucket, subtracted)
        if len(at) and (at.max() >= len(bucket) or (bucket[at] != subtracted).any()):
            raise self.file.damaged("a total is missing")
        rows = heads["rows"].copy()
        np.subtract.at(rows, at, other["rows"])
        if (rows < 0).any():
            raise self.file.damaged("a total has fewer rows than its cells")
        left = rows > 0  # elsewhere the difference is exactly 0
        weight = np.zeros(len(left))
        weight[left] = selection.weights(heads[left])
        try:
            result = self._sum("totals", heads, weight).subtract(
                self._sum("cells", other, weight[at])
            )
        except PrecisionError:
            return None
        if result.relative_error().max(initial=0.0) > MAX_DIFFERENCE_ERROR:
            return None
        if selection.half_life is not None:
            result.row_hashes[result.n > 0] = UNTRACKED_HASH
        return result

    def _sum(self, table: str, heads: BucketIndex, weight: Vector) -> Moments:
        """Return the sum of cells with weights (m,); cells without weight are not read."""
        result = Moments(self.metadata.label_array(), np.zeros(self.index.d))
        heads, weight = pick(heads, weight > 0), weight[weight > 0]
        if not len(heads):
            return result
        result.anchor[:] = self.file.block(table, heads[np.sort(heaviest(heads))]).anchor(
            self.index.d
        )
        for k in np.unique(heads["label"]).tolist():
            mine = heads["label"] == k
            own, total, i = weight[mine], MomentSum(self.index.d), 0
            for block in self.file.blocks(table, pick(heads, mine)):
                total.add_block(block, result.anchor, own[i : i + len(block.heads)])
                i += len(block.heads)
            total.store(result, k)
        if not (np.isfinite(result.C).all() and np.isfinite(result.mean).all()):
            raise self.file.damaged("a cell has values that are not finite")
        result.N[:] = result.n
        result.stream[:] = result.N.sum()
        return result


def _by_bucket(heads: BucketIndex) -> dict[int, BucketIndex]:
    """Return the heads of each bucket, in the order of the index."""
    heads = heads[np.argsort(heads["start"], kind="stable")]
    starts, first = np.unique(heads["start"], return_index=True)
    return dict(zip(starts.tolist(), np.split(heads, first[1:]), strict=True)) if len(heads) else {}
