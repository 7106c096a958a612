"""Fitting on Spark: every partition becomes moments, and moments add up, in a fixed order."""

from __future__ import annotations

import pickle
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, functions

from counterpoise.arrays import one_thread
from counterpoise.encoding.column_values import MAX_CATEGORIES
from counterpoise.encoding.encoder import ColumnEncoder, EncodedChunk
from counterpoise.engine.progressive_calibration import (
    LabelOrder,
    ProgressiveCalibration,
    after_boundary,
    counts_of,
)
from counterpoise.engine.ridge import RidgeModel
from counterpoise.engine.state import State
from counterpoise.errors import DataError
from counterpoise.estimators.balanced_ridge import BalancedRidgeClassifier
from counterpoise.estimators.base import wrap
from counterpoise.feature_maps import FittedMap, Map, make_fitted_map
from counterpoise.solver.calibration import Calibration
from counterpoise.solver.class_weights import affine
from counterpoise.solver.imputation import MeanImputation
from counterpoise.solver.scores import Scores
from counterpoise.spark.dataframes import (
    Plan,
    batch_of,
    chunks,
    columns_of,
    encoded,
    error_message,
    large_types,
    number,
    partition,
    planned,
    raise_first,
)
from counterpoise.tables.estimator import require_clock

# The tree: sixteen neighbours are merged at a time, twice. How many partitions there will be cannot
# be known without running what the frame is made of, so the depth is always the same.
FAN, LEVELS = 16, 2
SEGMENT = 2**40  # by which the numbers of the parts of two segments differ
PART = "part long, error string, dropped long, model binary"


def fit(
    df: DataFrame,
    label: str,
    columns: Mapping[str, str] | None = None,
    only: Sequence[str] | None = None,
    *,
    categories: Mapping[str, Sequence[str]] | None = None,
    missing: str = "mean",
    feature_map: str | Map | FittedMap | None = None,
    **options: Any,
) -> BalancedRidgeClassifier:
    """Fit a model to a frame: that which one machine would have found.

    Each partition becomes moments on its own, which are merged in the order of the partitions, as a
    tree; only moments are shuffled. The same files, read with the same partitioning, give a
    bit-identical model; another partitioning, or rows in another order, one that is equal to
    rounding.

    Parameters
    ----------
    df : DataFrame
        The rows.
    label : str
        Column of the labels: text or whole numbers.
    columns : mapping of str to str, optional
        Roles of columns, as of :class:`~counterpoise.TableClassifier`. Numbers are features as they
        are, vectors and arrays entry by entry, text and booleans as one feature for each category;
        dates need a role.
    only : sequence of str, optional
        The only columns that are features; by default all.
    categories : mapping of str to sequence of str, optional
        Categories of columns of text. Where they are given for all, the pass that finds them is
        not needed, and any other is an error.
    missing : "mean", "indicate", "drop" or "error", default="mean"
        What becomes of rows with null or NaN: see the command line. "mean" imputes numbers by the
        mean of all values of the frame, exactly.
    feature_map : str, Map or FittedMap, optional
        A feature map such as "rm2" or "rff:400". It is fitted to the means and standard deviations
        of the whole frame, which takes a pass of its own.
    **options
        Other parameters of :class:`~counterpoise.BalancedRidgeClassifier`. With ``calibrate`` the
        rows of this frame do not count for calibration; :class:`ModelSink` calibrates.

    Returns
    -------
    BalancedRidgeClassifier
        An ordinary one; its ``encoding_`` says how columns became features.

    Examples
    --------
    >>> from counterpoise.spark import fit
    >>> rows = [(12.5, "DE", "no"), (980.0, "US", "yes"), (20.0, "DE", "no"), (700.0, "DE", "yes")]
    >>> payments = spark.createDataFrame(rows, ["amount", "country", "fraud"])  # a SparkSession
    >>> model = fit(payments, "fraud")
    >>> model.class_count_.tolist(), model.feature_names_in_.tolist()
    ([2.0, 2.0], ['amount', 'country=DE', 'country=US'])
    """
    settings = columns_of(label, columns, only, missing)
    template = RidgeModel.create(**options, feature_map=feature_map)
    require_clock(template, settings)
    plan = planned(df, settings)
    encoding = encoded(plan, ColumnEncoder(plan.columns), categories)
    model, _ = learned(plan, encoding, with_fixed_map(plan, encoding, template.params.given))
    if model is None:
        raise DataError("the frame has no row to learn from")
    return with_feature_names(model, encoding)


def with_fixed_map(plan: Plan, encoding: ColumnEncoder, options: dict[str, Any]) -> dict[str, Any]:
    """Options with a map that is fixed by the whole frame, for what has no order has no warm-up."""
    wanted = options["feature_map"]
    if wanted is None or isinstance(wanted, FittedMap):
        return options
    plain = {**options, "feature_map": None, "scale": "standard", "half_life": None}
    model, _ = learned(plan, encoding, plain)
    if model is None:
        return options
    moments, fill = model.state.imputed_moments, model.state.fill
    m, s = affine(moments, "standard")
    found = make_fitted_map(wanted, moments.anchor + m, s)
    if fill is not None:
        found = found.with_missing(fill.at, fill.by, fill.present)
    return {**options, "feature_map": found}


def with_feature_names(model: RidgeModel, encoding: ColumnEncoder) -> BalancedRidgeClassifier:
    """Return the estimator of a model, with the names of its features and their encoder."""
    names = np.array([f.name for f in encoding.features], dtype=object)
    result = wrap(BalancedRidgeClassifier, model, names)
    result.encoding_ = encoding
    return result


@dataclass(frozen=True)
class Segments:
    """Rows of a frame, in the order of its partitions, cut into segments."""

    starts: Mapping[int, int]  # position of the first row of each partition
    cuts: tuple[int, ...]  # positions at which a segment ends and another begins

    def split(self, part: int, at: int, n: int) -> Iterator[tuple[int, slice]]:
        """Yield the segments of n rows of a partition, the first of which is row ``at`` of it."""
        first = self.starts[part] + at
        segment, done = bisect_right(self.cuts, first), 0
        while done < n:
            end = self.cuts[segment] - first if segment < len(self.cuts) else n
            yield segment, slice(done, min(end, n))
            segment, done = segment + 1, min(end, n)


def learned(
    plan: Plan, encoding: ColumnEncoder, options: Mapping[str, Any]
) -> tuple[RidgeModel | None, int]:
    """Learn a frame whose features are known."""
    parts, dropped = learned_parts(plan, encoding, options)
    return parts.get(0), dropped


def learned_parts(
    plan: Plan,
    encoding: ColumnEncoder,
    options: Mapping[str, Any],
    segments: Segments | None = None,
) -> tuple[dict[int, RidgeModel], int]:
    """Learn each segment of a frame by itself; the whole frame is segment 0 by default."""
    read = plan.read
    large, limit = large_types(plan.df), options.get("memory_limit", 2e9)

    def learn(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part, at, dropped = number(), 0, 0
        models: dict[int, RidgeModel] = {}
        try:
            with one_thread():
                for one, lost in rows_of(batches, read, encoding):
                    dropped, n = dropped + lost, len(one.y)
                    whole = [(0, slice(0, n))] if n else []
                    for segment, rows in segments.split(part, at, n) if segments else whole:
                        model = models.setdefault(segment, RidgeModel.create(**options))
                        weight, t = (None if a is None else a[rows] for a in (one.weight, one.t))
                        model.learn(one.X[rows], one.y[rows], weight, t, calibrate=False)
                        _require_few(model, encoding)
                    at += n
        except ValueError as error:
            yield batch_of(PART, [(part, error_message(error), 0, b"")], large)
            return
        fitted = {k: m for k, m in models.items() if m.is_fitted}
        found = [
            (k * SEGMENT + part, "", 0, pickle.dumps(m.state, protocol=5))
            for k, m in fitted.items()
        ]
        if dropped:
            found.append((part, "", dropped, b""))
        if found:
            yield batch_of(PART, found, large)

    def merge(table: pa.Table) -> pa.Table:
        return _merged_group(table, large, limit)

    parts = plan.df.mapInArrow(learn, PART)
    for _ in range(LEVELS):
        group = functions.floor(functions.col("part") / FAN).alias("group")
        parts = parts.groupBy(group).applyInArrow(merge, PART)
    rows = sorted(parts.collect(), key=lambda row: row["part"])
    raise_first([row["error"] for row in rows if row["error"]])
    dropped = sum(row["dropped"] for row in rows)
    result: dict[int, RidgeModel] = {}
    for segment, some in groupby(rows, key=lambda row: row["part"] // (SEGMENT // FAN**LEVELS)):
        state = _merged([bytes(row["model"]) for row in some], limit)
        if state is None:
            continue
        model = RidgeModel.create(state, **options)
        model.set_imputation(MeanImputation.of(*encoding.fill))
        _require_few(model, encoding)
        result[segment] = model
    return result, dropped


def rows_of(
    batches: Iterable[pa.RecordBatch], read: tuple[Any, ...], encoding: ColumnEncoder
) -> Iterator[tuple[EncodedChunk, int]]:
    """Yield the rows of a partition that have a weight, and the number of rows left out."""
    for chunk in chunks(batches, partition(), *read):
        one, after = encoding.learn(chunk)
        if after is not encoding:
            raise unknown_category_remedy(encoding, after)
        if one.weight is not None and not one.weight.all():
            kept = one.weight != 0.0  # others are checked where they are learned
            t = None if one.t is None else one.t[kept]
            weighed = one._replace(X=one.X[kept], y=one.y[kept], weight=one.weight[kept], t=t)
            yield weighed, int((~one.kept).sum())
        else:
            yield one, int((~one.kept).sum())


def _require_few(model: RidgeModel, encoding: ColumnEncoder) -> None:
    if len(model.labels) > MAX_CATEGORIES:
        raise DataError(
            f"column {encoding.columns.label!r} has more than {MAX_CATEGORIES:,} different "
            "labels; is it the "
            "right one?"
        )


def _merged_group(table: pa.Table, large: bool, limit: float) -> pa.Table:
    """Moments of neighbouring parts as those of one part; the first error, if there is one."""
    rows = sorted(table.to_pylist(), key=lambda row: row["part"])
    error, data = next((row["error"] for row in rows if row["error"]), ""), b""
    dropped = sum(row["dropped"] for row in rows)
    if not error:
        with one_thread():
            state = _merged([row["model"] for row in rows], limit)
        data = b"" if state is None else pickle.dumps(state, protocol=5)
    group = rows[0]["part"] // FAN
    return pa.Table.from_batches([batch_of(PART, [(group, error, dropped, data)], large)])


def _merged(parts: list[bytes], limit: float) -> State | None:
    """What was learned of consecutive parts as one, from left to right."""
    result: State | None = None
    for data in filter(None, parts):
        state: State = pickle.loads(data)
        result = state if result is None else result.merge(state, limit)
    return result


def unknown_category_remedy(encoding: ColumnEncoder, after: ColumnEncoder) -> DataError:
    """What to say of a category that is not among those known."""
    new = [f for f in after.features if f not in set(encoding.features)]
    if not new:
        return DataError("columns or labels have changed their type")
    return DataError(
        f"column {new[0].column!r} holds {new[0].value!r}, which is not among those given "
        "or found when the frame was read before; add it, and cache frames that change"
    )


COUNT = "part long, error string, rows long"
SCORED = "part long, error string, segment long, found binary"


def learned_progressively(
    plan: Plan, encoding: ColumnEncoder, options: Mapping[str, Any], before: RidgeModel
) -> tuple[RidgeModel | None, int]:
    """Learn a frame after a model, and score its rows before they are learned."""
    old: State | None = before.state if before.is_fitted else None
    now = ProgressiveCalibration()
    if old is not None:
        now = old.progressive or ProgressiveCalibration.start(old)
    starts, total = _starts(plan, encoding, now.rows)
    cuts = [max(now.until, now.rows)]
    while cuts[-1] < total:
        cuts.append(after_boundary(cuts[-1]))
    segments = Segments(starts, tuple(cuts))
    parts, dropped = learned_parts(plan, encoding, options, segments)
    if not parts:
        return None, dropped
    state, models = old, dict[int, Scores | None]()
    result = before
    for segment, model in sorted(parts.items()):
        if segment:
            models[segment] = None if state is None else state.scoring_model(model.options)
        elif now.scores is not None:
            models[segment] = now.scores
        result = model if state is None else result.merge(model)
        state = result.state
    assert state is not None
    models = {
        k: None if one is None else replace(one, fixed=state.fixed) for k, one in models.items()
    }
    found = _scored(plan, encoding, segments, models)
    calibration = None if old is None else old.calibration
    for segment in sorted(parts):
        if segment:
            counted, now = now.renewed(models[segment])
            calibration = counted if calibration is None else calibration.merge(counted)
        for n, counts, order, first in found[segment]:
            now = now.with_counts(n, counts, now.order.followed(order, first))
    result.state = state.with_calibration(calibration, now)
    return result, dropped


def _starts(plan: Plan, encoding: ColumnEncoder, rows: int) -> tuple[dict[int, int], int]:
    """Return the number of rows before each partition, after so many, and before the end."""
    large, read = large_types(plan.df), plan.read

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part = number()
        try:
            n = sum(len(one.y) for one, _ in rows_of(batches, read, encoding))
        except ValueError as error:
            yield batch_of(COUNT, [(part, error_message(error), 0)], large)
            return
        yield batch_of(COUNT, [(part, "", n)], large)

    found = sorted(plan.df.mapInArrow(count, COUNT).collect(), key=lambda row: row["part"])
    raise_first([row["error"] for row in found if row["error"]])
    starts: dict[int, int] = {}
    for row in found:
        starts[row["part"]] = rows
        rows += row["rows"]
    return starts, rows


def _scored(
    plan: Plan,
    encoding: ColumnEncoder,
    segments: Segments,
    models: Mapping[int, Scores | None],
) -> dict[int, list[tuple[int, Calibration, LabelOrder, list[Any]]]]:
    """Return number, counts and label order of rows by segment, in order, with the first label."""
    large, read = large_types(plan.df), plan.read

    def score(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        part, at, found = number(), 0, []
        try:
            with one_thread():
                for one, _ in rows_of(batches, read, encoding):
                    X, y, weight = one.X, one.y, one.weight
                    for segment, rows in segments.split(part, at, len(y)):
                        scores, mine, counts = models.get(segment), y[rows], Calibration.empty()
                        if scores is not None:
                            w = None if weight is None else weight[rows]
                            counts = counts_of(scores, scores.of(X[rows]), mine, w)
                        order = LabelOrder().with_rows(mine)
                        value = pickle.dumps((len(mine), counts, order, mine[:1].tolist()))
                        found.append((part, "", segment, value))
                    at += len(y)
        except ValueError as error:
            found = [(part, error_message(error), 0, b"")]
        if found:
            yield batch_of(SCORED, found, large)

    rows = plan.df.mapInArrow(score, SCORED).collect()
    raise_first([row["error"] for row in rows if row["error"]])
    result: dict[int, list[Any]] = {}
    for row in sorted(rows, key=lambda row: row["part"]):  # stable: in the order of each partition
        result.setdefault(row["segment"], []).append(pickle.loads(bytes(row["found"])))
    return result
