"""Fitting on Spark: moments of each partition, which are merged in a fixed order."""

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
from counterpoise.encoding.columns import Columns
from counterpoise.encoding.encoder import ColumnEncoder, EncodedChunk
from counterpoise.engine.parameters import RidgeParameters, parse_ridge_parameters
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
    collect_parts,
    column_settings,
    encoder_of,
    map_partitions,
    plan_columns,
)
from counterpoise.tables.estimator import require_clock
from counterpoise.tables.scoring import select_rows

# A tree merges sixteen neighbors at a time, twice. The number of partitions is unknown until the
# frame is computed, so the depth is always the same.
FAN, LEVELS = 16, 2
SEGMENT = 2**40  # difference of the numbers of a part in two segments
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
    """Fit a model to a frame; it equals the model of one machine to rounding.

    The moments of each partition are merged in the order of the partitions, as a tree; only moments
    are shuffled. The same files, read with the same partitioning, give a bit-identical model.

    Parameters
    ----------
    df : DataFrame
        The rows.
    label : str
        Column of the labels: text or integers.
    columns : mapping of str to str, optional
        Roles of columns, as of :class:`~counterpoise.TableClassifier`. Numbers are features as they
        are, vectors and arrays entry by entry, text and booleans as one feature for each category;
        dates need a role.
    only : sequence of str, optional
        The only columns that are features; by default all.
    categories : mapping of str to sequence of str, optional
        Categories of columns of text. If they are given for all, the pass that finds them is not
        needed, and another category is an error.
    missing : "mean", "indicate", "drop" or "error", default="mean"
        Rule for null and NaN: see the command line. "mean" imputes numbers by the mean of all
        values of the frame, exactly.
    feature_map : str, Map or FittedMap, optional
        A feature map such as "rm2" or "rff:400". It is fitted to the means and standard deviations
        of the whole frame, which takes a pass of its own.
    **options
        Other parameters of :class:`~counterpoise.BalancedRidgeClassifier`. With ``calibrate`` the
        rows of this frame do not count for calibration; :class:`ModelSink` calibrates.

    Returns
    -------
    BalancedRidgeClassifier
        Its ``encoding_`` is the encoder of the columns.

    Examples
    --------
    >>> from counterpoise.spark import fit
    >>> rows = [(12.5, "DE", "no"), (980.0, "US", "yes"), (20.0, "DE", "no"), (700.0, "DE", "yes")]
    >>> payments = spark.createDataFrame(rows, ["amount", "country", "fraud"])  # a SparkSession
    >>> model = fit(payments, "fraud")
    >>> model.class_count_.tolist(), model.feature_names_in_.tolist()
    ([2.0, 2.0], ['amount', 'country=DE', 'country=US'])
    """
    settings = Columns(**column_settings(label, columns, only, missing))
    params = parse_ridge_parameters(**options, feature_map=feature_map)
    require_clock(RidgeModel(params), settings)
    plan = plan_columns(df, settings)
    encoding = encoder_of(plan, ColumnEncoder(plan.columns), categories)
    model, _ = learn_frame(plan, encoding, with_fitted_map(plan, encoding, params))
    if model is None:
        raise DataError("the frame has no row to learn from")
    return with_feature_names(model, encoding)


def with_fitted_map(
    plan: Plan, encoding: ColumnEncoder, params: RidgeParameters
) -> RidgeParameters:
    """Return parameters with a map that is fitted to the whole frame: its rows have no order."""
    feature_map = params.feature_map
    if feature_map is None or isinstance(feature_map, FittedMap):
        return params
    plain = replace_parameters(params, feature_map=None, scale="standard", half_life=None)
    model, _ = learn_frame(plan, encoding, plain)
    if model is None:
        return params
    moments, fill = model.state.imputed_moments, model.state.fill
    m, s = affine(moments, "standard")
    found = make_fitted_map(feature_map, moments.anchor + m, s)
    if fill is not None:
        found = found.with_missing(fill.at, fill.by, fill.present)
    return replace_parameters(params, feature_map=found)


def replace_parameters(params: RidgeParameters, **changes: Any) -> RidgeParameters:
    """Return parameters with some changed."""
    return parse_ridge_parameters(**{**params.estimator_parameters, **changes})


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


def learn_frame(
    plan: Plan, encoding: ColumnEncoder, params: RidgeParameters
) -> tuple[RidgeModel | None, int]:
    """Learn a frame whose features were seen; return the model and the number of dropped rows."""
    models, dropped = learn_segments(plan, encoding, params)
    return models.get(0), dropped


def learn_segments(
    plan: Plan,
    encoding: ColumnEncoder,
    params: RidgeParameters,
    segments: Segments | None = None,
) -> tuple[dict[int, RidgeModel], int]:
    """Learn each segment of a frame by itself; the whole frame is segment 0 by default."""
    read, limit = plan.read, params.memory_limit

    def learn(part: int, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
        at, total = 0, 0
        models: dict[int, RidgeModel] = {}
        for one, dropped in rows_of(batches, read, encoding):
            total, n = total + dropped, len(one.y)
            whole = [(0, slice(0, n))] if n else []
            for segment, rows in segments.split(part, at, n) if segments else whole:
                if segment not in models:
                    models[segment] = RidgeModel(params)
                    models[segment].set_codes((), encoding.code_columns)
                model = models[segment]
                weight, t = (None if a is None else a[rows] for a in (one.weight, one.t))
                model.learn(one.X[rows], one.y[rows], weight, t, calibrate=False)
                _require_few_labels(model, encoding)
            at += n
        for segment, model in models.items():
            if model.is_fitted:
                moments = model.state.moments
                if moments.categories is not None:
                    moments.categories = moments.categories.select_codes()
                yield segment * SEGMENT + part, 0, pickle.dumps(model.state, protocol=5)
        if total:
            yield part, total, b""

    large = plan.large

    def merge(table: pa.Table) -> pa.Table:
        return _merge_group(table, large, limit)

    parts = map_partitions(plan, PART, learn)
    for _ in range(LEVELS):
        group = functions.floor(functions.col("part") / FAN).alias("group")
        parts = parts.groupBy(group).applyInArrow(merge, PART)
    rows = collect_parts(parts)
    result: dict[int, RidgeModel] = {}
    for segment, some in groupby(rows, key=lambda row: row["part"] // (SEGMENT // FAN**LEVELS)):
        state = _merge_states([bytes(row["model"]) for row in some], limit)
        if state is not None:
            if state.moments.categories is not None:
                state.moments.categories = state.moments.categories.with_all_codes()
            model = result[segment] = RidgeModel(params, state)
            model.set_imputation(MeanImputation.of(*encoding.fill))
            _require_few_labels(model, encoding)
    return result, sum(row["dropped"] for row in rows)


def rows_of(
    batches: Iterable[pa.RecordBatch], read: tuple[Any, ...], encoding: ColumnEncoder
) -> Iterator[tuple[EncodedChunk, int]]:
    """Yield the rows of a partition whose weight is not 0, and the number of dropped rows."""
    for chunk in chunks(batches, *read):
        one, after = encoding.learn(chunk)
        require_known(encoding, after)
        dropped = int((~one.kept).sum())
        if one.weight is not None and not one.weight.all():
            one = select_rows(one, one.weight != 0.0)  # learning checks other weights
        yield one, dropped


def _require_few_labels(model: RidgeModel, encoding: ColumnEncoder) -> None:
    if len(model.labels) > MAX_CATEGORIES:
        raise DataError(
            f"column {encoding.columns.label!r} has more than {MAX_CATEGORIES:,} different "
            "labels; is it the right one?"
        )


def _merge_group(table: pa.Table, large: bool, limit: float) -> pa.Table:
    """Merge neighboring parts to one part, or return the first error."""
    rows = sorted(table.to_pylist(), key=lambda row: row["part"])
    error, data = next((row["error"] for row in rows if row["error"]), ""), b""
    if not error:
        with one_thread():
            state = _merge_states([row["model"] for row in rows], limit)
        data = b"" if state is None else pickle.dumps(state, protocol=5)
    part = rows[0]["part"] // FAN, error, sum(row["dropped"] for row in rows), data
    return pa.Table.from_batches([batch_of(PART, [part], large)])


def _merge_states(parts: list[bytes], limit: float) -> State | None:
    """Merge the states of consecutive parts from left to right."""
    result: State | None = None
    for data in filter(None, parts):
        state: State = pickle.loads(data)
        result = state if result is None else result.merge(state, limit)
    return result


def require_known(encoding: ColumnEncoder, after: ColumnEncoder) -> None:
    """Raise if rows have a category that is not among the known ones."""
    if after is encoding:
        return
    new = after.find_new(encoding)
    if new is not None:
        raise DataError(
            f"column {new.column!r} contains {new.value!r}, which is not among those given "
            "or found when the frame was read before; add it, and cache frames that change"
        )
    if (after.kinds, after.labels) != (encoding.kinds, encoding.labels):
        raise DataError("columns or labels have changed their type")


COUNT = "part long, error string, rows long"
SCORED = "part long, error string, segment long, found binary"


def learn_progressively(
    plan: Plan, encoding: ColumnEncoder, params: RidgeParameters, before: RidgeModel
) -> tuple[RidgeModel | None, int]:
    """Learn a frame after a model, and score its rows before they are learned."""
    old: State | None = before.state if before.is_fitted else None
    now = ProgressiveCalibration()
    if old is not None:
        now = old.progressive or ProgressiveCalibration.start(old)
    starts, total = _partition_starts(plan, encoding, now.rows)
    cuts = [max(now.until, now.rows)]
    while cuts[-1] < total:
        cuts.append(after_boundary(cuts[-1]))
    segments = Segments(starts, tuple(cuts))
    parts, dropped = learn_segments(plan, encoding, params, segments)
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
    found = _score_segments(plan, encoding, segments, models)
    calibration = None if old is None else old.calibration
    for segment in sorted(parts):
        if segment:
            counted, now = now.renew(models[segment])
            calibration = counted if calibration is None else calibration.merge(counted)
        for n, counts, order, first in found[segment]:
            now = now.with_counts(n, counts, now.order.append(order, first))
    result.state = state.with_calibration(calibration, now)
    return result, dropped


def _partition_starts(plan: Plan, encoding: ColumnEncoder, rows: int) -> tuple[dict[int, int], int]:
    """Return the position of the first row of each partition after other rows, and of the end."""
    read = plan.read

    def count(part: int, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, int]]:
        yield part, sum(len(one.y) for one, _ in rows_of(batches, read, encoding))

    starts: dict[int, int] = {}
    for row in collect_parts(map_partitions(plan, COUNT, count)):
        starts[row["part"]] = rows
        rows += row["rows"]
    return starts, rows


def _score_segments(
    plan: Plan,
    encoding: ColumnEncoder,
    segments: Segments,
    models: Mapping[int, Scores | None],
) -> dict[int, list[tuple[int, Calibration, LabelOrder, list[Any]]]]:
    """Return number, counts and label order of rows by segment, in order, with the first label."""
    read = plan.read

    def score(part: int, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, int, bytes]]:
        at = 0
        for one, _ in rows_of(batches, read, encoding):
            for segment, rows in segments.split(part, at, len(one.y)):
                scores, y, counts = models.get(segment), one.y[rows], Calibration.empty()
                if scores is not None:
                    weight = None if one.weight is None else one.weight[rows]
                    counts = counts_of(scores, scores.of(one.X[rows]), y, weight)
                found = len(y), counts, LabelOrder().with_rows(y), y[:1].tolist()
                yield part, segment, pickle.dumps(found)
            at += len(one.y)

    result: dict[int, list[Any]] = {}
    for row in collect_parts(map_partitions(plan, SCORED, score)):
        result.setdefault(row["segment"], []).append(pickle.loads(bytes(row["found"])))
    return result
